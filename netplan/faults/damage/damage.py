"""Damage, which nodes and links are down, and its effects: who is down or cut off, what components.

A failed GPU or switch takes its links with it; a failed network port or transceiver takes its link.
So two masks say it all, and several failures together are their union.

A GPU is *cut off* if it is alive and has no live path to the rest of the network. "The rest" is
the main component: of what hung together in the intact fabric, the live piece with the most GPUs
(of equals, the one with the lowest GPU), as long as it spans two HB domains. Two answers:

*own ports*   over network links alone, as a job sees it that sends through the ports of each GPU;
*forwarding*  over all links, where a GPU may send through the other GPUs of its HB domain.

On a rail-only network, rails hang together only by forwarding, so each rail has a main component of
its own. There a failed leaf or host link cuts off the same GPUs as in a rail-optimized Clos (Wang
et al., arXiv:2307.12169, section 4.1).
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Ints
from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph, connected_parts


class Damage(Struct, frozen=True, eq=False):
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
        nodes, links = len(self.node_down), len(self.link_down)
        if (nodes, links) != (graph.node_count, graph.link_count):
            raise InputError(
                f"the damage is that of a fabric of {nodes:,} nodes and {links:,} links,"
                f" {graph.name} has {graph.node_count:,} and {graph.link_count:,}: make it for this"
                " one"
            )
        if not self.node_down.any():
            return self.link_down.copy()
        ends_down = self.node_down[graph.source] | self.node_down[graph.target]
        return self.link_down | ends_down

    def __or__(self, other: "Damage") -> "Damage":
        """Both together."""
        return Damage(self.node_down | other.node_down, self.link_down | other.link_down)


def no_damage(graph: FabricGraph) -> Damage:
    """Damage in which nothing has failed."""
    return Damage(np.zeros(graph.node_count, bool), np.zeros(graph.link_count, bool))


class Components(Struct, frozen=True, eq=False):
    """What hangs together.

    Parameters
    ----------
    component
        Component that each node is in, shape (nodes,); a failed node is one of its own.
    gpus
        Live GPUs of each component [1], shape (components,).
    domains
        HB domains that each component has live GPUs of [1], shape (components,).
    """

    component: Ints
    gpus: Ints
    domains: Ints


class Effects(Struct, frozen=True, eq=False):
    """What damage does to the GPUs.

    Parameters
    ----------
    gpus_down
        GPUs that have failed themselves.
    cut_off
        Live GPUs whose own ports reach no main component.
    cut_off_forwarding
        Live GPUs that reach no main component through their HB domain either.
    network, whole
        Components over network links alone, and over all links.
    """

    gpus_down: Ints
    cut_off: Ints
    cut_off_forwarding: Ints
    network: Components
    whole: Components

    @property
    def partitioned(self) -> Ints:
        """GPUs of ``cut_off`` whose ports do lead to other HB domains, in a part of their own.

        Those of all others lead nowhere.
        """
        parts = self.network.component[self.cut_off]
        return self.cut_off[self.network.domains[parts] > 1]


def intact_components(graph: FabricGraph) -> tuple[Components, Components]:
    """Components of the intact fabric, over network links alone and over all links."""
    whole = no_damage(graph)
    return (
        find_components(graph, whole, network_links(graph)),
        find_components(graph, whole, np.ones(graph.link_count, bool)),
    )


def find_effects(
    graph: FabricGraph, damage: Damage, intact: tuple[Components, Components] | None = None
) -> Effects:
    """GPUs that are down or cut off, and the components that are left.

    Parameters
    ----------
    graph, damage
        The fabric, and what has failed.
    intact
        Components of the intact fabric, where many damages of one fabric are asked for.

    Raises
    ------
    InputError
        If the damage is that of another graph.

    Examples
    --------
    A leaf that fails takes the network ports of one rail; their servers forward for them.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.scenario import parse_faults
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=256, radix=32)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> effects = find_effects(graph, parse_faults(["rail-2/leaf-0", "gpu-5"], graph))
    >>> len(effects.gpus_down), len(effects.cut_off), len(effects.cut_off_forwarding)
    (1, 32, 0)
    """
    network, whole = intact or intact_components(graph)
    cut_off, network = _cut_off(graph, damage, network, network_links(graph))
    every = np.ones(graph.link_count, bool)
    cut_off_forwarding, whole = _cut_off(graph, damage, whole, every)
    down = np.flatnonzero(damage.node_down[: graph.gpus])
    return Effects(down, cut_off, cut_off_forwarding, network, whole)


def _cut_off(
    graph: FabricGraph, damage: Damage, intact: Components, links: Bools
) -> tuple[Ints, Components]:
    """Live GPUs that some links, chosen by a mask, join with no main component; what is left."""
    left = find_components(graph, damage, links & ~damage.links_out(graph))
    up = ~damage.node_down[: graph.gpus]
    return np.flatnonzero(up & ~_in_main_component(graph, intact, left)), left


def cut_off_gpus(graph: FabricGraph, damage: Damage, intact: Components | None = None) -> Ints:
    """Live GPUs whose own ports lead nowhere, as `find_effects` has them and nothing else.

    Parameters
    ----------
    graph, damage
        The fabric, and what has failed.
    intact
        Components of the intact network, where many damages of one fabric are asked for.

    Raises
    ------
    InputError
        If the damage is that of another graph.
    """
    links = network_links(graph)
    was = intact or find_components(graph, no_damage(graph), links)
    return _cut_off(graph, damage, was, links)[0]


def network_links(graph: FabricGraph) -> Bools:
    """Links outside HB domains that join GPUs, shape (links,); channels to memory do not."""
    return ~graph.is_role("hb", "memory")


def directed(graph: FabricGraph, links: Ints) -> tuple[Ints, Ints]:
    """Where links begin and where they lead: all of them forward, then all back, shape (2 links,).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> line = SimpleNamespace(source=np.array([0, 1]), target=np.array([1, 2]))
    >>> [ends.tolist() for ends in directed(line, np.array([1]))]
    [[1, 2], [2, 1]]
    """
    source, target = graph.source[links].astype(np.int64), graph.target[links].astype(np.int64)
    return np.concatenate([source, target]), np.concatenate([target, source])


def find_components(graph: FabricGraph, damage: Damage, links: Bools) -> Components:
    """Components that some links hold together, chosen by a mask; failed GPUs count for none."""
    component = connected_parts(graph.node_count, graph.source[links], graph.target[links])
    count = int(component.max(initial=-1)) + 1
    alive = np.flatnonzero(~damage.node_down[: graph.gpus])
    pairs = np.sort(alive // graph.hb_size * count + component[alive])
    first = np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]
    return Components(
        component,
        np.bincount(component[alive], minlength=count),
        np.bincount(pairs[first] % count, minlength=count),
    )


def _in_main_component(graph: FabricGraph, intact: Components, left: Components) -> Bools:
    """Whether each GPU is in the main component of what it was joined with, shape (gpus,)."""
    was, now = intact.component[: graph.gpus], left.component[: graph.gpus]
    first = np.full(len(left.gpus), graph.gpus)
    first[now[::-1]] = np.arange(graph.gpus)[::-1]
    components = np.flatnonzero(first < graph.gpus)
    # The last one written wins: the component with the most GPUs, of equals that of the lowest GPU.
    order = components[np.lexsort((-first[components], left.gpus[components]))]
    main = np.full(len(intact.gpus), -1, np.int64)
    main[was[first[order]]] = order
    wide = left.domains[now] >= np.minimum(2, intact.domains[was])
    # In one HB domain, too, a GPU alone is joined with nobody.
    joined = left.gpus[now] >= np.minimum(2, intact.gpus[was])
    inside: Bools = (now == main[was]) & wide & joined & (left.gpus[now] > 0)
    return inside
