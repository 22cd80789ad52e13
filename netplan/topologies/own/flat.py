"""Graphs of switches that are joined directly, each with as many GPUs: told by their links."""

import numpy as np

from netplan.arrays import distinct_values
from netplan.records import replace
from netplan.topologies.assembly import NameBlock
from netplan.topologies.families.joined_switches import BETWEEN_SWITCHES, SwitchGraph, SwitchLinks
from netplan.topologies.graph import GPU, SWITCH, FabricGraph, LinkType, network_only


def flat(network: FabricGraph) -> SwitchGraph | None:
    """The switches of a network, as those of families are told, if all take GPUs; else None.

    They take as many each, in their order. Every GPU has one port, and all links have one rate.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=64, radix=16, hb_size=1).sizing
    >>> [(found := flat(expand(FABRICS.load(name), sizing))) and found.hosts
    ...  for name in ("jellyfish", "fat-tree")]
    [7, None]
    """
    gpus, kind = network.gpus, network.node_kind
    switch = kind == SWITCH
    first, second = network.source, network.target
    between = switch[first] & switch[second]
    up = (kind[first] == GPU) & switch[second]
    if (
        not between.any()
        or np.count_nonzero(up) != gpus
        or np.count_nonzero(up | between) != network.link_count
        or (network.node_tier[switch] != 1).any()
        or (network.bytes_per_s != network.bytes_per_s[0]).any()
    ):
        return None
    under = np.full(gpus, -1, np.int64)
    under[first[up]] = second[up]
    if (under < 0).any():
        return None
    hosts = int(np.count_nonzero(under == under[0]))
    seen = under[::hosts]
    if len(distinct_values(seen)) < len(seen) or (under != np.repeat(seen, hosts)[:gpus]).any():
        return None
    number = np.full(network.node_count, -1, np.int64)
    number[seen] = np.arange(len(seen))
    empty = np.flatnonzero(switch & (number < 0))
    number[empty] = len(seen) + np.arange(len(empty))
    links = SwitchLinks(BETWEEN_SWITCHES, number[first[between]], number[second[between]])
    names = NameBlock("switch-{}", (len(seen) + len(empty),))
    return SwitchGraph((("leaf", names),), hosts, (links,), "")


def among_leaves(kind: LinkType) -> bool:
    """Whether links join leaves, of which it is not known yet whether they are alike."""
    return kind.role == "up" and kind.tiers == (1, 1)


def joined_leaves(kind: LinkType) -> LinkType:
    """Links as those of switches that are joined directly, where they join leaves."""
    return replace(kind, name=BETWEEN_SWITCHES.name, role="joined") if among_leaves(kind) else kind


def with_joined_group(graph: FabricGraph) -> FabricGraph:
    """The graph with links between alike leaves as those of switches that are joined directly."""
    if not any(map(among_leaves, graph.groups)) or flat(network_only(graph)) is None:
        return graph
    return replace(graph, groups=tuple(map(joined_leaves, graph.groups)))
