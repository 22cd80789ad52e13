"""Damage: which nodes and links of a graph are down, and the graph that is left.

A failed GPU or switch takes its links with it; a failed network port or transceiver takes its link.
So two masks say it all, and several failures together are their union.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from netplan.arrays import Bools, Ints
from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph


@dataclass(frozen=True, slots=True, eq=False)
class Damage:
    """Failed nodes and links of a graph.

    Parameters
    ----------
    node_down
        Whether a GPU, HB switch, switch or management host has failed, shape (nodes,).
    link_down
        Whether a link has failed by itself, shape (links,); links of failed nodes are not marked.
    """

    node_down: Bools
    link_down: Bools

    def links_out(self, graph: FabricGraph) -> Bools:
        """Links that carry nothing: failed, or at a failed node, shape (links,).

        Raises
        ------
        InputError
            If the damage is that of another graph.
        """
        check_damage(graph, self)
        ends_down = self.node_down[graph.source] | self.node_down[graph.target]
        out: Bools = self.link_down | ends_down
        return out

    def __or__(self, other: "Damage") -> "Damage":
        """Both together."""
        return Damage(self.node_down | other.node_down, self.link_down | other.link_down)


def no_damage(graph: FabricGraph) -> Damage:
    """Damage in which nothing has failed."""
    return Damage(np.zeros(graph.node_count, bool), np.zeros(graph.link_count, bool))


def damage_to(
    graph: FabricGraph, *, nodes: Iterable[int] | Ints = (), links: Iterable[int] | Ints = ()
) -> Damage:
    """Damage of some nodes and links, by number.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(32, 16, 8, 450e9, 50e9))
    >>> damage = damage_to(graph, nodes=[0], links=[40])
    >>> damage.links_out(graph).nonzero()[0].tolist()  # the GPU's two links, and link 40
    [0, 32, 40]
    """
    found = no_damage(graph)
    for mask, numbers, what in (
        (found.node_down, nodes, "nodes"),
        (found.link_down, links, "links"),
    ):
        chosen = np.asarray(numbers if isinstance(numbers, np.ndarray) else list(numbers), np.int64)
        wrong = chosen[(chosen < 0) | (chosen >= len(mask))]
        if len(wrong):
            raise InputError(
                f"{graph.name} has {len(mask):,} {what}, numbered from 0; got number {wrong[0]:,}"
            )
        mask[chosen] = True
    return found


def check_damage(graph: FabricGraph, damage: Damage) -> None:
    """Refuse the damage of another graph.

    Raises
    ------
    InputError
        If the masks have other lengths than the graph's nodes and links.
    """
    found = len(damage.node_down), len(damage.link_down)
    if found != (graph.node_count, graph.link_count):
        raise InputError(
            f"the damage is that of a fabric of {found[0]:,} nodes and {found[1]:,} links,"
            f" {graph.name} has {graph.node_count:,} and {graph.link_count:,}: make it for this one"
        )


def damaged_graph(graph: FabricGraph, damage: Damage) -> FabricGraph:
    """The graph without the links that are out; nodes keep their numbers, failed ones lose all.

    The links keep their order, so that link i of the result is the i-th live one of the graph.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(32, 16, 8, 450e9, 50e9))
    >>> damaged_graph(graph, damage_to(graph, nodes=[0])).links_per_group()
    {'hb': 31, 'host': 31, 'leaf-spine': 32}
    """
    live = ~damage.links_out(graph)
    return replace(
        graph,
        source=graph.source[live],
        target=graph.target[live],
        source_port=graph.source_port[live],
        target_port=graph.target_port[live],
        bytes_per_s=graph.bytes_per_s[live],
        length_class=graph.length_class[live],
        group=graph.group[live],
    )
