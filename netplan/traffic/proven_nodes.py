"""Which nodes get all they need, told from those that do: a proof that grows from one GPU.

A node is proven if the largest flow into it, from all GPUs that are fed at the rate in question, is
as large as it need be. Any cut between the source and a node either keeps a proven one from the
source, and is large enough for that, or has all of them on the source's side. So all proven nodes
count as the source: what comes from them directly is often enough, and what is left falls into
small parts (a domain behind its leaves), whose flows are found together, one sink or more in each.

This proves and never refutes: a node that stays behind has to be asked on the whole network.
"""

from fractions import Fraction

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, maximum_flow

from netplan.arrays import Bools, Ints
from netplan.topologies.graph.flow import LARGEST_FLOW
from netplan.traffic.symmetry import Network

MOST_SINKS = 64
"""Nodes of one part that may be tried together [1]."""


class _Case(Struct, frozen=True, eq=False):
    """Capacities, feed of each node, and what every node has to get, in one unit."""

    network: Network
    rate: int
    feed: Ints
    need: int

    def from_proven(self, proven: Bools) -> Ints:
        """What each node gets from proven ones and from its own feed, shape (nodes,)."""
        found: Ints = self.rate * (self.network.into @ proven.astype(np.int64)) + self.feed
        return found


def grown(network: Network, ratio: Fraction, proven: Bools, flows: int) -> Bools:
    """Nodes that are proven once those given are, by so many flows at the most.

    Parameters
    ----------
    network, ratio
        Who can send how much to whom; GPUs are fed 1 and an arc carries its capacity times this.
    proven
        Nodes that get N, shape (nodes,).
    flows
        How many flows may be tried [1].

    Examples
    --------
    On a ring of six, what holds for one GPU holds for all; at a faster rate nobody is proven.

    >>> from netplan.traffic.symmetry import ring
    >>> first = np.arange(6) == 0
    >>> grown(ring(6), Fraction(5, 2), first, 9).all(), grown(ring(6), Fraction(2), first, 9).sum()
    (np.True_, np.int64(1))
    """
    gpus = network.gpus
    need = gpus * ratio.denominator
    largest = ratio.numerator * int(network.into.sum(axis=1).max())
    proven = proven.copy()
    if need > LARGEST_FLOW or largest >= 1 << 62:
        return proven
    feed = np.where(np.arange(network.nodes) < gpus, ratio.denominator, 0)
    case = _Case(network, ratio.numerator, feed, need)
    tried, width = proven.copy(), 1
    for _ in range(flows):
        _close(case, proven)
        if proven[:gpus].all():
            break
        sinks = _sinks(case, proven, tried, width)
        if not len(sinks):
            break
        found = _saturated(case, proven, sinks)
        proven[found] = True
        if len(found):
            tried, width = proven.copy(), min(MOST_SINKS, 2 * width)
        elif width > 1:
            width = 1
        else:
            tried[sinks] = True
    _close(case, proven)
    return proven


def _close(case: _Case, proven: Bools) -> None:
    """Add nodes that get enough from proven ones directly, until there are none."""
    while True:
        more = ~proven & (case.from_proven(proven) >= case.need)
        if not more.any():
            return
        proven |= more


def _sinks(case: _Case, proven: Bools, tried: Bools, width: int) -> Ints:
    """Nodes to try next: in each part of what is left those that get the most, up to a width."""
    left = np.flatnonzero(~proven)
    _, part = connected_components(case.network.out[left][:, left], directed=False)
    gets = np.minimum(case.from_proven(proven)[left], case.need)
    whole = case.network.into.sum(axis=1)[left]
    order = np.lexsort((-whole, -gets, tried[left], part))
    begins = np.ones(len(order), bool)
    begins[1:] = part[order][1:] != part[order][:-1]
    start = np.flatnonzero(begins)
    place = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
    own = np.bincount(part, weights=case.feed[left]) > 0  # parts with a GPU
    fit = (place < width) & own[part[order]] & ~tried[left][order]
    found: Ints = left[order[fit]][: LARGEST_FLOW // case.need]
    return found


def _saturated(case: _Case, proven: Bools, sinks: Ints) -> Ints:
    """Those of some sinks that get all they need at once, if proven nodes give without end."""
    left = np.flatnonzero(~proven)
    arcs = case.network.out[left][:, left].tocoo()
    _, part = connected_components(arcs, directed=False)
    at = np.searchsorted(left, sinks)
    used = np.isin(part, part[at])
    kept = used[arcs.row]
    here = np.flatnonzero(used)
    source, drain = len(left), len(left) + 1
    tail = np.concatenate((arcs.row[kept], np.full(len(here), source), at))
    head = np.concatenate((arcs.col[kept], here, np.full(len(at), drain)))
    given = case.from_proven(proven)[left]
    value = np.concatenate((case.rate * arcs.data[kept], given[here], np.full(len(at), case.need)))
    limits = csr_array(
        (np.minimum(value, case.need).astype(np.int32), (tail.astype(np.int32), head)),
        shape=(drain + 1, drain + 1),
    )
    flow = maximum_flow(limits, source, drain).flow
    into = np.asarray(flow[at][:, [drain]].todense()).ravel()
    return sinks[into >= case.need]
