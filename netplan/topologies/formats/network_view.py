"""The network of a fabric without its HB domains, as network tools see it."""

from dataclasses import replace

import numpy as np

from netplan.arrays import Indices
from netplan.topologies.graph import GPU, HB_SWITCH, FabricGraph


def network_only(graph: FabricGraph) -> FabricGraph:
    """Leave out HB switches and the links inside HB domains; GPU ports are numbered from 0 again.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-optimized"), Sizing(64, 16, 8, 450e9, 50e9))
    >>> network_only(graph).links_per_group()
    {'host': 64, 'leaf-spine': 64}
    """
    keep = graph.node_kind != HB_SWITCH
    number = np.cumsum(keep, dtype=np.int32) - np.int32(1)
    used = np.ones(graph.link_count, bool)
    if "hb" in graph.group_names:
        used = graph.group != graph.group_names.index("hb")
    names = graph.names
    if not keep.all():
        names = tuple(graph.names[i] for i in np.flatnonzero(keep).tolist())
    source, target = graph.source[used], graph.target[used]
    first = _first_ports(graph, source, target, used)
    return replace(
        graph,
        node_kind=graph.node_kind[keep],
        node_tier=graph.node_tier[keep],
        names=names,
        source=number[source],
        target=number[target],
        source_port=graph.source_port[used] - first[source],
        target_port=graph.target_port[used] - first[target],
        bytes_per_s=graph.bytes_per_s[used],
        length_class=graph.length_class[used],
        group=graph.group[used],
    )


def _first_ports(graph: FabricGraph, source: Indices, target: Indices, used: np.ndarray) -> Indices:
    """First network port of every GPU; 0 for all other nodes, whose ports keep their numbers."""
    first = np.full(graph.node_count, np.iinfo(np.int32).max, np.int32)
    np.minimum.at(first, source, graph.source_port[used])
    np.minimum.at(first, target, graph.target_port[used])
    return np.where(graph.node_kind == GPU, first, 0).astype(np.int32)
