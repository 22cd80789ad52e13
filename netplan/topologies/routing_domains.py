"""Loads inside HB domains.

Where every GPU of a domain has a link to each of its switches, the switches share all traffic
evenly and only the ends of a flow matter. Direct links (meshes, DGX-1's hybrid cube mesh) are
routed as a graph of their own, over shortest paths through GPUs.
"""

import numpy as np

from netplan.topologies.demand import Leg
from netplan.topologies.graph import HB_SWITCH, FabricGraph
from netplan.topologies.products import Floats
from netplan.topologies.routing_ecmp import ecmp_loads, make_arcs

HB_GROUP = "hb"


def has_domains(graph: FabricGraph) -> bool:
    """Whether the graph has links inside HB domains."""
    return HB_GROUP in graph.group_names


def domain_loads(graph: FabricGraph, leg: Leg, rng: np.random.Generator | None = None) -> Floats:
    """Load of the links inside HB domains [B], shape (2, links); all others are 0.

    Parameters
    ----------
    graph
        The fabric.
    leg
        Traffic between GPUs of the same domain.
    rng
        As in :func:`netplan.topologies.routing_ecmp.ecmp_loads`.
    """
    loads = np.zeros((2, graph.link_count))
    links = graph.links_of(HB_GROUP)
    if rng is None and _is_star(graph, links):
        gpu = graph.source[links]
        share = np.bincount(gpu, minlength=graph.gpus)
        for row, amount in enumerate(leg.ends(graph.gpus)):
            loads[row, links] = amount[gpu] / share[gpu]
        return loads
    flows = leg.listed()
    forwards = np.ones(graph.node_count, bool)
    arcs = make_arcs(graph.source, graph.target, forwards, links)
    routed = ecmp_loads(arcs, flows.source, flows.destination, flows.flow_bytes, rng)
    return routed.reshape(2, -1)


def _is_star(graph: FabricGraph, links: np.ndarray) -> bool:
    """Whether each HB switch joins all GPUs of its domain, by one link each."""
    gpu, switch = graph.source[links], graph.target[links]
    if not np.all(graph.node_kind[switch] == HB_SWITCH):
        return False
    members = np.minimum(graph.gpus - gpu // graph.hb_size * graph.hb_size, graph.hb_size)
    ends = np.bincount(switch, minlength=graph.node_count)[switch]
    pairs = np.unique(gpu * np.int64(graph.node_count) + switch)
    return bool(np.all(ends == members)) and len(pairs) == len(links)
