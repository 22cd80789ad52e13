"""Risk groups: parts of a fabric that fail together, read off its graph.

A group is a set of nodes and links, by number; the groups of one kind are kept as two lists of
pairs (group, member). Groups may overlap and be nested. A switch is itself the group of all its
links, since damage takes them with it.

==========  ====================================================================================
domain      GPUs and HB switches of an HB domain
rail        network ports of all GPUs of one rank, and the switches that serve no other rank
plane, ...  switches whose names share a prefix: ``plane-1``, ``unit-4``, ``group-2``,
            ``level-0``; the kind is the prefix without its number
==========  ====================================================================================

Racks, rows, power feeds, cable trays and batches: `netplan.faults.rack_groups`. Groups
from a user's file: `netplan.faults.group_files`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.faults.damage import Damage, no_damage
from netplan.topologies.graph import GPU, HB_SWITCH, SWITCH, FabricGraph
from netplan.topologies.naming import NameBlock, StructuralNames
from netplan.traffic.routing import HB_GROUP

NUMBERED = re.compile(r"(.*[^0-9-])-?[0-9]+")
NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RiskGroups:
    """Groups of one kind.

    Parameters
    ----------
    kind
        What a group is called: ``rack``, ``rail``, …
    names
        Name of each group, shape (groups,).
    node_group, node
        Pairs of a group and a node in it, shape (memberships,).
    link_group, link
        Pairs of a group and a link in it; links of member nodes need not be listed.
    weight
        How likely a group is picked next to the others, shape (groups,); None: all alike.
    """

    kind: str
    names: Sequence[str]
    node_group: Ints
    node: Ints
    link_group: Ints
    link: Ints
    weight: Floats | None = None

    def __len__(self) -> int:
        """Groups [1]."""
        return len(self.names)

    def damage(self, graph: FabricGraph, chosen: Ints) -> Damage:
        """Damage in which some groups have failed, by number."""
        down = np.zeros(len(self), bool)
        down[chosen] = True
        found = no_damage(graph)
        found.node_down[self.node[down[self.node_group]]] = True
        found.link_down[self.link[down[self.link_group]]] = True
        return found


def groups_of_nodes(kind: str, names: Sequence[str], group_of_node: Ints) -> RiskGroups:
    """Disjoint groups of nodes, from the group that each node is in; -1 is none.

    Examples
    --------
    >>> groups = groups_of_nodes("rack", ["rack-0", "rack-1"], np.array([0, 0, 1, -1]))
    >>> groups.node_group.tolist(), groups.node.tolist()
    ([0, 0, 1], [0, 1, 2])
    """
    node = np.flatnonzero(group_of_node >= 0)
    order = np.argsort(group_of_node[node], kind="stable")
    return RiskGroups(kind, names, group_of_node[node][order], node[order], NOTHING, NOTHING)


def domain_of_node(graph: FabricGraph) -> Ints:
    """HB domain of every GPU and HB switch, -1 for all other nodes, shape (nodes,)."""
    domain = np.full(graph.node_count, -1, np.int64)
    domain[: graph.gpus] = np.arange(graph.gpus) // graph.hb_size
    links = graph.links_of(HB_GROUP)
    for one, other in ((graph.source, graph.target), (graph.target, graph.source)):
        inner = links[graph.node_kind[one[links]] == HB_SWITCH]
        domain[one[inner]] = domain[other[inner]]
    return domain


def domain_groups(graph: FabricGraph) -> RiskGroups:
    """HB domains ``domain-0``, ``domain-1`` and so on, with their GPUs and HB switches.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(32, 16, 8, 450e9, 50e9))
    >>> groups = domain_groups(graph)
    >>> groups.damage(graph, np.array([3])).node_down.nonzero()[0].tolist()
    [24, 25, 26, 27, 28, 29, 30, 31, 35]
    """
    names = StructuralNames([NameBlock("domain-{}", (graph.domains,))])
    return groups_of_nodes("domain", names, domain_of_node(graph))


def rail_groups(graph: FabricGraph) -> RiskGroups:
    """Rails: ``rail-0``, ``rail-1``, …; a leaf that several rails share stands in none.

    Raises
    ------
    InputError
        If HB domains hold one GPU, so that there are no rails.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(1024, 32, 8, 450e9, 50e9))
    >>> lost = rail_groups(graph).damage(graph, np.array([7]))
    >>> int(lost.node_down.sum()), int(lost.link_down.sum())  # 8 leaves, 4 spines; 128 ports
    (12, 128)
    """
    if graph.hb_size == 1:
        raise InputError(
            f"{graph.name} has no rails, since its HB domains hold one GPU: name switches or planes"
        )
    lowest, highest = _ranks_below(graph)
    gpu_end = np.minimum(graph.source, graph.target)
    at_gpu = (gpu_end < graph.gpus) & (graph.group != _code(graph, HB_GROUP))
    link = np.flatnonzero(at_gpu)
    one_rail = (graph.node_kind == SWITCH) & (lowest == highest)
    switch = np.flatnonzero(one_rail)
    names = StructuralNames([NameBlock("rail-{}", (graph.hb_size,))])
    return RiskGroups("rail", names, lowest[switch], switch, gpu_end[link] % graph.hb_size, link)


def switch_groups(graph: FabricGraph) -> dict[str, RiskGroups]:
    """Groups of switches by the prefix of their names, by kind.

    Where a kind is nested in itself (planes of a Clos network inside a plane of the fabric) only
    the outermost groups count.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("dragonfly"), Sizing(64, 8, 8, 450e9, 50e9))
    >>> {kind: len(groups) for kind, groups in switch_groups(graph).items()}
    {'group': 8}
    """
    found: dict[str, dict[str, list[int]]] = {}
    depth: dict[str, int] = {}
    for node in np.flatnonzero(graph.node_kind == SWITCH).tolist():
        parts = graph.node_name(node).split("/")
        for length in range(1, len(parts)):
            numbered = NUMBERED.fullmatch(parts[length - 1])
            if not numbered:
                continue
            kind, name = numbered[1], "/".join(parts[:length])
            if length <= depth.setdefault(kind, length):
                found.setdefault(kind, {}).setdefault(name, []).append(node)
    return {kind: _listed(kind, members) for kind, members in found.items()}


def outer_group(inner: RiskGroups, outer: RiskGroups, graph: FabricGraph) -> Ints:
    """For each inner group, the outer one that holds all its nodes; -1 if none does.

    Parameters
    ----------
    inner, outer
        Groups of nodes; the outer ones disjoint, as rows or feeds are.
    graph
        The fabric.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(16, 16, 4, 450e9, 50e9))
    >>> halves = groups_of_nodes("half", ["left", "right"], np.arange(graph.node_count) // 8 % 2)
    >>> pairs = groups_of_nodes("pair", list("abcdefgh"), np.arange(16) // 2)
    >>> outer_group(pairs, halves, graph)
    array([0, 0, 0, 0, 1, 1, 1, 1])
    """
    label = np.full(graph.node_count, -1, np.int64)
    label[outer.node] = outer.node_group
    lowest = np.full(len(inner), np.iinfo(np.int64).max)
    highest = np.full(len(inner), -1, np.int64)
    np.minimum.at(lowest, inner.node_group, label[inner.node])
    np.maximum.at(highest, inner.node_group, label[inner.node])
    return np.where(lowest == highest, highest, -1)


def _listed(kind: str, members: dict[str, list[int]]) -> RiskGroups:
    group = np.repeat(np.arange(len(members)), [len(nodes) for nodes in members.values()])
    node = np.array([node for nodes in members.values() for node in nodes], np.int64)
    return RiskGroups(kind, tuple(members), group, node, NOTHING, NOTHING)


def _ranks_below(graph: FabricGraph) -> tuple[Ints, Ints]:
    """Lowest and highest rank of the GPUs below every node, tier by tier."""
    lowest = np.full(graph.node_count, graph.hb_size, np.int64)
    highest = np.full(graph.node_count, -1, np.int64)
    gpus = np.flatnonzero(graph.node_kind == GPU)
    lowest[gpus] = highest[gpus] = gpus % graph.hb_size
    tier = graph.node_tier.astype(np.int64)
    low, high = graph.source, graph.target
    for height in range(int(tier.max(initial=0))):
        up = np.flatnonzero((tier[low] == height) & (tier[high] == height + 1))
        np.minimum.at(lowest, high[up], lowest[low[up]])
        np.maximum.at(highest, high[up], highest[low[up]])
    return lowest, highest


def _code(graph: FabricGraph, group: str) -> int:
    return graph.group_names.index(group) if group in graph.group_names else -1
