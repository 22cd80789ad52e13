"""From a fabric and its traffic to the load of every link: one function, all fabrics.

Host links, HB domains and forwarding between rails are the same on all fabrics; what differs is the
routing between switches (or along the rings of a torus):

====================  ===========================================================================
``auto``              the fabric's own: dimension order on tori, minimal on dragonflies, ECMP else
``ecmp``              shortest paths, split evenly at every hop; on Clos networks in closed form
``hashed``            shortest paths, every flow over one link at every hop, by a seeded generator
``dimension-order``   tori: one axis after the other
``minimal-adaptive``  tori: evenly over all links that lead nearer
``minimal``           dragonflies: over a link that joins the two groups
``valiant``           dragonflies: over a third group
====================  ===========================================================================
"""

from typing import Literal, get_args

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.topologies.graph import GPU, HB_SWITCH, FabricGraph, connected_parts
from netplan.traffic.algorithms import check_choice
from netplan.traffic.demand import Leg, check_demand, split_demand
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.routing_clos import clos_loads, tree_of_graph
from netplan.traffic.routing_dragonfly import GLOBAL, HOST, LOCAL, dragonfly_loads, dragonfly_map
from netplan.traffic.routing_ecmp import ecmp_loads, make_arcs
from netplan.traffic.routing_torus import RING, torus_loads

HB_GROUP = "hb"
MESH = "mesh "


def has_domains(graph: FabricGraph) -> bool:
    """Whether the graph has links inside HB domains."""
    return HB_GROUP in graph.group_names


def _domain_loads(graph: FabricGraph, leg: Leg, rng: np.random.Generator | None = None) -> Floats:
    """Load of the links inside HB domains [B], shape (2, links); all others are 0."""
    loads = np.zeros((2, graph.link_count))
    links = graph.links_of(HB_GROUP)
    if rng is None and _is_star(graph, links):
        gpu = graph.source[links]
        share = np.bincount(gpu, minlength=graph.gpus)
        for row, amount in enumerate(leg.ends(graph.gpus)):
            loads[row, links] = amount[gpu] / share[gpu]
        return loads
    return _ecmp(graph, links, leg, np.ones(graph.node_count, bool), rng)


def _ecmp(
    graph: FabricGraph, links: Ints, leg: Leg, forwards: Bools, rng: np.random.Generator | None
) -> Floats:
    """Load of some links under ECMP [B], shape (2, links); all others are 0."""
    arcs, flows = make_arcs(graph.source, graph.target, forwards, links), leg.listed()
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


Routing = Literal[
    "auto", "ecmp", "hashed", "dimension-order", "minimal-adaptive", "minimal", "valiant"
]


def link_loads(
    graph: FabricGraph,
    demand: TrafficMatrix,
    *,
    routing: Routing = "auto",
    forwarding: bool | None = None,
    rng: np.random.Generator | None = None,
) -> LinkLoads:
    """Bytes on every link of a fabric.

    Parameters
    ----------
    graph
        The fabric.
    demand
        Traffic between its GPUs.
    routing
        How messages find their way (table of this module).
    forwarding
        Whether HB domains forward between rails; None says yes where the network alone does not
        join all GPUs.
    rng
        Generator for ``hashed``; None takes one with seed 0.

    Raises
    ------
    InputError
        If the demand is for another number of GPUs, the routing does not suit the fabric, a path
        is missing, or traffic meets a link without capacity.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan.traffic.matrix import flows_matrix
    >>> sizing = Sizing(64, 8, 4, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    >>> graph = expand(FABRICS.load("rail-only"), sizing)
    >>> demand = flows_matrix(64, source=[0], destination=[5], flow_bytes=[50e9])
    >>> loads = link_loads(graph, demand)
    >>> loads.busiest_s
    1.0
    >>> [(group.group, group.directions - group.unused) for group in loads.by_group()]
    [('hb', 2), ('host', 2), ('leaf-spine', 0)]
    """
    check_demand(demand, graph.gpus)
    check_choice("routing", routing, get_args(Routing))
    outside = np.ones(graph.link_count, bool)
    outside[graph.links_of(HB_GROUP)] = False
    links = np.flatnonzero(outside)
    if forwarding is None:
        forwarding = has_domains(graph) and not joins_all(graph, links)
    legs = split_demand(demand, graph.hb_size if has_domains(graph) else 1, forwarding=forwarding)
    if routing == "auto":
        routing = _own_routing(graph)
    rng = (rng or np.random.default_rng(0)) if routing == "hashed" else None
    loads = np.zeros((2, graph.link_count))
    if has_domains(graph):
        loads += _domain_loads(graph, legs.inside, rng)
    if len(links):
        loads += _network_loads(graph, links, legs.network, routing, rng)
    return LinkLoads(graph, loads)


def _network_loads(
    graph: FabricGraph,
    links: Ints,
    leg: Leg,
    routing: Routing,
    rng: np.random.Generator | None,
) -> Floats:
    """Load of the network links [B], shape (2, links)."""
    if routing in ("dimension-order", "minimal-adaptive"):
        return torus_loads(graph, leg, adaptive=routing == "minimal-adaptive")
    if routing in ("minimal", "valiant"):
        if not {LOCAL, GLOBAL} & set(graph.group_names):
            raise InputError(f"{graph.name} is no dragonfly: take routing 'ecmp' or 'auto'")
        dragonfly = dragonfly_map(graph)
        loads = dragonfly_loads(dragonfly, leg, graph.link_count, routing)
        hosts = graph.links_of(HOST)
        for row, amount in enumerate(leg.ends(graph.gpus)):
            loads[row, hosts] = amount[graph.source[hosts]]
        return loads
    tree = tree_of_graph(graph, links) if rng is None else None
    if tree is not None:
        return clos_loads(tree, leg, graph.link_count)
    return _ecmp(graph, links, leg, forwarding_nodes(graph, links), rng)


def _own_routing(graph: FabricGraph) -> Routing:
    """Routing that a fabric is built for, by the names of its link groups."""
    if {LOCAL, GLOBAL} & set(graph.group_names):
        return "minimal"
    direct = [name for name in graph.group_names if name.startswith((RING, MESH))]
    if direct and all(name.startswith(RING) for name in direct):
        return "dimension-order"
    return "ecmp"


def _parts(graph: FabricGraph, links: Ints) -> Ints:
    """Connected part that each node is in, by some links alone."""
    return connected_parts(graph.node_count, graph.source[links], graph.target[links])


def joins_all(graph: FabricGraph, links: Ints) -> bool:
    """Whether some links, those of the network, join all GPUs."""
    part = _parts(graph, links)[: graph.gpus]
    return bool(np.all(part == part[0]))


def forwarding_nodes(graph: FabricGraph, links: Ints) -> Bools:
    """Whether each node of an intact fabric passes on traffic of others: GPUs where they must."""
    forwards: Bools = graph.node_kind != GPU
    return forwards | (not _switches_suffice(graph, links))


def _switches_suffice(graph: FabricGraph, links: Ints) -> bool:
    """Whether switches alone join all GPUs that the network joins at all.

    If not, GPUs pass on traffic of others: in tori, which have no switches, and in BCube, whose
    switches meet in GPUs only. Several planes of switches suffice if one of them does.
    """
    ends = graph.node_kind[graph.source[links]], graph.node_kind[graph.target[links]]
    between = links[(ends[0] != GPU) & (ends[1] != GPU)]
    to_gpu = links[(ends[0] == GPU) ^ (ends[1] == GPU)]
    first, second = graph.source[to_gpu], graph.target[to_gpu]
    is_first = graph.node_kind[first] == GPU
    gpu, switch = np.where(is_first, first, second), np.where(is_first, second, first)
    plane = _parts(graph, between)[switch]
    reach = np.unique(gpu * np.int64(graph.node_count) + plane)
    touched = np.bincount(reach % graph.node_count, minlength=graph.node_count)
    whole = _parts(graph, links)[: graph.gpus]
    size = np.bincount(whole)[whole]
    best = np.zeros(graph.gpus, np.int64)
    np.maximum.at(best, gpu, touched[plane])
    return bool(np.all(best[size > 1] == size[size > 1]))
