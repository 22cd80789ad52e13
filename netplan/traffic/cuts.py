"""Lower bounds on the time of collectives, from the cuts and flows of any graph.

N GPUs, full message D (the gathered result of an all_gather, else the input of one GPU). S is a set
of GPUs, out(S) the least capacity that separates it from the other GPUs, with every switch on the
side where it costs less. GPUs may forward, since algorithms may let them.

===========================  ==================================================================
all_gather, reduce_scatter   max over S of |S| D / (N out(S)): the optimum of any algorithm
all_reduce                   max of D / out(S) over S, and of 2 (g-1) D / (sum of out(S_i)) for
                             the g parts of two partitions, single GPUs and HB domains, as long
                             as sums are formed in GPUs; not always reached
all_to_all                   the optimum, D/N from each GPU to each other one, as a linear program
===========================  ==================================================================

The first of them comes from `netplan.traffic.optimum`, which needs no list of the sets.

Sources: Zhao and Krishnamurthy, Bandwidth Optimal Pipeline Schedule for Collective Communication
(arXiv:2305.18461); ForestColl (arXiv:2402.06787). Left out: latency, reduction inside switches.
"""

from fractions import Fraction
from math import gcd
from typing import get_args

import numpy as np
from msgspec import Struct
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_array, csr_array, hstack, kron
from scipy.sparse.csgraph import maximum_flow

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph
from netplan.traffic.algorithms import Collective, check_choice
from netplan.traffic.optimum import all_gather_optimum_s

MAX_CAPACITY = (1 << 31) - 1
"""scipy's max-flow counts in 32 bits."""
STEPS_PER_RATE = 1 << 20
MAX_CUT_GPUS = 1024
MAX_FLOW_VARIABLES = 300_000


def collective_bound_s(collective: Collective, graph: FabricGraph, data_bytes: float) -> float:
    """Lower bound on the time of a collective over all GPUs of a graph [s].

    The full message D counts in bytes. An error says if the collective is unknown, the graph is too
    large for an exact answer, or not connected.

    Examples
    --------
    Two HB domains of 4 GPUs under one switch: (x y - 1) / (x y) D / (C_F + C_S) binds.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(gpus=8, radix=8, hb_size=4,
    ...                 hb_bytes_per_s=120e9, network_bytes_per_s=20e9)
    >>> graph = expand(FABRICS.load("fat-tree"), sizing)
    >>> collective_bound_s("all_gather", graph, 1e9)
    0.00625
    """
    check_choice("collective", collective, get_args(Collective))
    if collective == "all_reduce":
        return _all_reduce_s(graph, data_bytes)
    if collective == "all_to_all":
        return _all_to_all_flow_s(graph, data_bytes)
    return all_gather_optimum_s(graph, data_bytes)[0]


def _all_to_all_flow_s(graph: FabricGraph, data_bytes: float) -> float:
    """Optimal time of an all_to_all, as a maximum concurrent flow."""
    gpus, nodes, arcs = graph.gpus, graph.node_count, 2 * graph.link_count
    if gpus * arcs > MAX_FLOW_VARIABLES:
        raise InputError(
            f"{graph.name}: an exact all_to_all bound of {gpus:,} GPUs and {graph.link_count:,}"
            f" links is too large: take a fabric of at most {MAX_FLOW_VARIABLES // arcs:,} GPUs"
        )
    tail = np.concatenate([graph.source, graph.target])
    head = np.concatenate([graph.target, graph.source])
    ones, number = np.ones(arcs), np.arange(arcs)
    # Out of each node less into it, one row a node.
    balance = coo_array(
        (np.concatenate([ones, -ones]), (np.concatenate([tail, head]), np.tile(number, 2))),
        shape=(nodes, arcs),
    )
    demand = np.zeros((gpus, nodes))
    demand[:, :gpus] = -1.0
    demand[np.arange(gpus), np.arange(gpus)] = gpus - 1
    unit = float(graph.bytes_per_s.max())
    capacity = np.tile(graph.bytes_per_s, 2) / unit
    conserve = hstack([block_diag([balance] * gpus), coo_array(-demand.reshape(-1, 1))]).tocsr()
    share = hstack([kron(np.ones((1, gpus)), coo_array(np.eye(arcs))), coo_array((arcs, 1))])
    goal = np.zeros(gpus * arcs + 1)
    goal[-1] = -1.0
    found = linprog(
        goal,
        A_ub=share.tocsr(),
        b_ub=capacity,
        A_eq=conserve,
        b_eq=np.zeros(gpus * nodes),
        method="highs",
    )
    rate = -found.fun * unit if found.status == 0 else 0.0
    if rate <= 0:
        raise InputError(f"{graph.name}: its links do not join all GPUs, no all_to_all ends")
    return float(data_bytes / gpus / rate)


def _all_reduce_s(graph: FabricGraph, data_bytes: float) -> float:
    """Bound of an all_reduce [s]; formulas of this module."""
    network = _network(graph)
    gpus = np.arange(graph.gpus)
    least = min(network.separating(np.array([0]), np.array([gpu])) for gpu in gpus[1:])
    if least == 0:
        raise InputError(f"{graph.name}: its links do not join all GPUs, no all_reduce ends")
    bounds = [Fraction(1, least)]
    partitions = [[gpus[g : g + 1] for g in gpus]]
    if 1 < graph.hb_size < graph.gpus:
        partitions.append(np.split(gpus, np.arange(graph.hb_size, graph.gpus, graph.hb_size)))
    for parts in partitions:
        out = sum(network.separating(part) for part in parts)
        bounds.append(Fraction(2 * (len(parts) - 1), out))
    return float(max(bounds)) * data_bytes / network.unit


class _Network(Struct, frozen=True, eq=False):
    """Arcs with capacities in whole numbers of a unit [B/s], parallel links added up."""

    gpus: int
    nodes: int
    tail: Ints
    head: Ints
    capacity: Ints
    unit: float

    def separating(self, inside: Ints, outside: Ints | None = None) -> int:
        """Least capacity that separates some GPUs from others, or from all others; out(S)."""
        if outside is None:
            outside = np.setdiff1d(np.arange(self.gpus), inside)
        feed = np.zeros(self.gpus, np.int64)
        feed[inside] = MAX_CAPACITY
        return self._cut(feed, outside)

    def _cut(self, feed: Ints, sinks: Ints) -> int:
        """Max-flow from a source that feeds GPUs into some sinks."""
        source, drain = self.nodes, self.nodes + 1
        fed = np.flatnonzero(feed)
        tail = np.concatenate([self.tail, np.full(len(fed), source), sinks])
        head = np.concatenate([self.head, fed, np.full(len(sinks), drain)])
        value = np.concatenate([self.capacity, feed[fed], np.full(len(sinks), MAX_CAPACITY)])
        value = np.minimum(value, MAX_CAPACITY).astype(np.int32)
        place = tail.astype(np.int32), head.astype(np.int32)  # as max-flow takes them
        limits = csr_array((value, place), shape=(self.nodes + 2, self.nodes + 2))
        return int(maximum_flow(limits, source, drain).flow_value)


def _network(graph: FabricGraph) -> _Network:
    """Capacities in whole numbers, rounded up where they must be, so that bounds stay bounds."""
    if graph.gpus > MAX_CUT_GPUS:
        raise InputError(
            f"{graph.name}: exact cuts of {graph.gpus:,} GPUs take too long, at most"
            f" {MAX_CUT_GPUS:,}: use the closed form of the fabric's levels"
        )
    nodes = np.int64(graph.node_count)
    key = np.concatenate([graph.source * nodes + graph.target, graph.target * nodes + graph.source])
    pair, place = np.unique(key, return_inverse=True)
    rate = np.bincount(place, weights=np.tile(graph.bytes_per_s, 2), minlength=len(pair))
    unit = float(gcd(*(int(r) for r in rate))) or 1.0
    # A capacity is multiplied by up to N in the search, and must still fit 32 bits.
    finest = float(rate.max(initial=1.0)) / (MAX_CAPACITY // (4 * graph.gpus))
    if unit < finest or np.any(rate % 1):
        unit = float(rate.max(initial=1.0)) / min(STEPS_PER_RATE, MAX_CAPACITY // (4 * graph.gpus))
    capacity = np.ceil(rate / unit - 1e-9).astype(np.int64)
    tail, head = np.divmod(pair, nodes)
    return _Network(graph.gpus, graph.node_count, tail, head, capacity, unit)
