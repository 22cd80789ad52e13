"""Equal-cost multipath on any graph: shortest paths, split at every hop as switches do it.

A switch that has k links towards a destination sends 1/k of the traffic over each (*fluid*), or
each flow over one of them by its hash (*hashed*). It splits over next hops, not over whole paths:
a branch with many paths behind it gets no more than one with few. Parallel links count one each.

The work goes destination by destination, many at once. A breadth-first search from the destination
gives every node its distance and ends as soon as all senders are found; then the traffic moves
from the farthest nodes inwards, level by level, meeting and splitting on its way. No path is ever
listed, so that the cost is the number of links on shortest paths, not the number of paths.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from netplan.arrays import AnyInts, Bools, Floats, Ints
from netplan.errors import InputError
from netplan.traffic.matrix import sum_by

UNSEEN = np.int16(-1)
BATCH_CELLS = 1 << 20
"""Destinations x nodes that are worked on at once: what fits a processor's cache and a little."""
BATCH_FLOWS = 1 << 18


class Arcs(Struct, frozen=True, eq=False):
    """Links as arcs, two for each, in rows by the node that they leave (CSR).

    Parameters
    ----------
    indptr
        Where each node's row begins, shape (nodes + 1,).
    head
        Node that the arc leads to, shape (arcs,).
    code
        Place of the arc in loads of shape (2, links), flattened.
    size
        Length of those loads, 2 x links [1].
    forwards
        Whether a node passes on traffic of others, shape (nodes,).
    component, local
        Connected part that each node is in, and its number there, shape (nodes,).
    width
        Nodes of the largest part [1].
    """

    indptr: Ints
    head: AnyInts
    code: Ints
    size: int
    forwards: Bools
    component: AnyInts
    local: Ints
    width: int


def make_arcs(source: AnyInts, target: AnyInts, forwards: Bools, links: Ints | None = None) -> Arcs:
    """Arcs of a graph, or of some of its links.

    ``source`` and ``target`` are the ends of all links; ``forwards`` says whether a node passes on
    traffic of others, shape (nodes,).
    """
    nodes = len(forwards)
    chosen = np.arange(len(source)) if links is None else links
    tail = np.concatenate([source[chosen], target[chosen]])
    head = np.concatenate([target[chosen], source[chosen]])
    order = np.argsort(tail, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=nodes))])
    head = head[order]
    code = np.concatenate([chosen, chosen + len(source)])[order]
    joined = csr_array((np.ones(len(head), np.int8), head, indptr), shape=(nodes, nodes))
    count, component = connected_components(joined, directed=False)
    sizes = np.bincount(component, minlength=count)
    by_part = np.argsort(component, kind="stable")
    local = np.empty(nodes, np.int64)
    local[by_part] = np.arange(nodes) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    width = int(sizes.max(initial=0))
    return Arcs(indptr, head, code, 2 * len(source), forwards, component, local, width)


def ecmp_loads(
    arcs: Arcs,
    source: AnyInts,
    destination: AnyInts,
    flow_bytes: Floats,
    rng: np.random.Generator | None = None,
) -> Floats:
    """Load of every arc under ECMP [B], shape (2 x links,).

    Flows are of shape (flows,) [B]. Without ``rng`` every flow splits evenly; a generator sends
    each flow over one link at every hop, as hashing does. That no path joins the ends of a flow is
    an error.

    Examples
    --------
    A square 0-1-3-2-0: from 0 to 3 half of the traffic goes each way.

    >>> arcs = make_arcs(np.array([0, 1, 3, 2]), np.array([1, 3, 2, 0]), np.ones(4, bool))
    >>> ecmp_loads(arcs, np.array([0]), np.array([3]), np.array([8.0]))
    array([4., 4., 0., 0., 0., 0., 4., 4.])
    """
    loads = np.zeros(arcs.size)
    if not len(source):
        return loads
    apart = np.flatnonzero(arcs.component[source] != arcs.component[destination])
    if len(apart):
        raise InputError(
            f"no path leads from node {source[apart[0]]} to node {destination[apart[0]]}:"
            " the graph is not connected"
        )
    flows = _lifted(arcs, (source, destination, flow_bytes), loads)
    for batch in _batches(arcs, *flows, merge=rng is None):
        distance = batch.distances()
        passed = batch.pour(distance) if rng is None else batch.walk(distance, rng)
        for code, amount in passed:
            # Few arcs of a large graph: adding in place beats a full-length sum a batch.
            np.add.at(loads, code, amount)
    return loads


def _lifted(
    arcs: Arcs, flows: tuple[AnyInts, AnyInts, Floats], loads: Floats
) -> tuple[AnyInts, AnyInts, Floats]:
    """Take the only link of every node that has one; what is left runs between their neighbours.

    Thousands of hosts under one leaf then share one search.
    """
    source, destination, amount = flows
    nodes = len(arcs.forwards)
    degree = np.diff(arcs.indptr)
    only = np.minimum(arcs.indptr[:-1], len(arcs.head) - 1)
    above = arcs.head[only]
    single = (degree == 1) & arcs.forwards[above] & (degree[above] > 1)
    code = arcs.code[only]
    back = (code + arcs.size // 2) % arcs.size
    ends = []
    for end, arc in ((source, code), (destination, back)):
        lifts = single[end]
        passed = sum_by(end[lifts], amount[lifts], nodes)
        loads[arc[single]] += passed[single]
        ends.append(np.where(lifts, above[end], end))
    apart = ends[0] != ends[1]
    return ends[0][apart], ends[1][apart], amount[apart]


class _Batch(Struct, frozen=True, eq=False):
    """Flows to some destinations; ``slot`` numbers the destination of each flow.

    A (destination, node) pair is the number slot x width + place of the node in its component.
    """

    arcs: Arcs
    target: AnyInts
    slot: Ints
    node: AnyInts
    amount: Floats
    scratch: Ints

    def key(self, slot: Ints, node: AnyInts) -> Ints:
        """Number of a (destination, node) pair."""
        return slot * self.arcs.width + self.arcs.local[node]

    def expand(self, node: AnyInts) -> tuple[Ints, Ints]:
        """All arcs of some nodes: which of the nodes, and place of the arc."""
        start = self.arcs.indptr[node]
        degree = self.arcs.indptr[node + 1] - start
        ends = np.cumsum(degree)
        origin = np.repeat(np.arange(len(node)), degree)
        arc = np.arange(len(origin)) + np.repeat(start - ends + degree, degree)
        return origin, arc

    def distinct(self, key: Ints) -> tuple[Ints, Ints]:
        """First place of each distinct key, and which of these each key equals; no sorting."""
        here = np.arange(len(key))
        self.scratch[key] = here
        first = np.flatnonzero(self.scratch[key] == here)
        self.scratch[key[first]] = np.arange(len(first))
        return first, self.scratch[key]

    def distances(self) -> NDArray[np.int16]:
        """Hops from every node met to each destination; -1 where no sender needed to know."""
        arcs = self.arcs
        distance = np.full(len(self.target) * arcs.width, UNSEEN)
        slot, node = np.arange(len(self.target)), self.target
        distance[self.key(slot, node)] = 0
        senders = self.key(self.slot, self.node)
        level = 0
        while True:
            missing = distance[senders] == UNSEEN
            if not missing.any():
                return distance
            level += 1
            wanted = np.zeros(len(self.target), bool)
            wanted[self.slot[missing]] = True
            keep = wanted[slot] & (arcs.forwards[node] if level > 1 else True)
            slot, node = slot[keep], node[keep]
            origin, arc = self.expand(node)
            slot, node = slot[origin], arcs.head[arc]
            key = self.key(slot, node)
            new = np.flatnonzero(distance[key] == UNSEEN)
            first, _ = self.distinct(key[new])
            new = new[first]
            distance[key[new]] = level
            slot, node = slot[new], node[new]
            if not len(node):
                lost = np.flatnonzero(missing)[0]
                raise InputError(
                    f"no path leads from node {self.node[lost]} to node"
                    f" {self.target[self.slot[lost]]} through nodes that forward"
                )

    def downhill(
        self, distance: NDArray[np.int16], slot: Ints, node: AnyInts, level: int
    ) -> tuple[Ints, Ints]:
        """Arcs that lead one hop nearer: which of the nodes they leave, and their place."""
        origin, arc = self.expand(node)
        head = self.arcs.head[arc]
        near = distance[self.key(slot[origin], head)] == level - 1
        if level > 1:
            near &= self.arcs.forwards[head]
        return origin[near], arc[near]

    def pour(self, distance: NDArray[np.int16]) -> Iterator[tuple[Ints, Floats]]:
        """Split evenly: arcs and what passes over them, level by level from the farthest."""
        start = distance[self.key(self.slot, self.node)]
        slot, amount = np.empty(0, np.int64), np.empty(0)
        node: AnyInts = slot
        for level in range(int(start.max()), 0, -1):
            here = start == level
            slot = np.concatenate([slot, self.slot[here]])
            node = np.concatenate([node, self.node[here]])
            amount = np.concatenate([amount, self.amount[here]])
            first, which = self.distinct(self.key(slot, node))
            amount = sum_by(which, amount, len(first))
            slot, node = slot[first], node[first]
            origin, arc = self.downhill(distance, slot, node, level)
            amount = (amount / np.bincount(origin, minlength=len(node)))[origin]
            yield self.arcs.code[arc], amount
            slot, node = slot[origin], self.arcs.head[arc]

    def walk(
        self, distance: NDArray[np.int16], rng: np.random.Generator
    ) -> Iterator[tuple[Ints, Floats]]:
        """Send each flow over one arc at every hop."""
        node = self.node.copy()
        left = distance[self.key(self.slot, node)]
        for level in range(int(left.max()), 0, -1):
            moving = np.flatnonzero(left >= level)
            origin, arc = self.downhill(distance, self.slot[moving], node[moving], level)
            choices = np.bincount(origin, minlength=len(moving))
            pick = (rng.random(len(moving)) * choices).astype(np.int64)
            taken = arc[np.cumsum(choices) - choices + pick]
            yield self.arcs.code[taken], self.amount[moving]
            node[moving] = self.arcs.head[taken]


def _batches(
    arcs: Arcs, source: AnyInts, destination: AnyInts, flow_bytes: Floats, *, merge: bool
) -> Iterator[_Batch]:
    """Sort the flows by destination and cut them into batches; ``merge`` joins equal pairs."""
    nodes = np.int64(len(arcs.forwards))
    pair = destination * nodes + source
    if merge:
        pair, place = np.unique(pair, return_inverse=True)
        amount = sum_by(place, flow_bytes, len(pair))
    else:
        order = np.argsort(pair, kind="stable")
        pair, amount = pair[order], flow_bytes[order]
    target, sender = np.divmod(pair, nodes)
    if not len(target):
        return
    new = np.concatenate([[True], target[1:] != target[:-1]])
    slot, first = np.cumsum(new) - 1, np.flatnonzero(new)
    ends = np.append(first[1:], len(target))
    step = max(1, BATCH_CELLS // arcs.width)
    scratch = np.empty(min(step, len(first)) * arcs.width, np.int64)
    begin = 0
    while begin < len(first):
        full = int(np.searchsorted(ends, first[begin] + BATCH_FLOWS))
        last = min(begin + step, max(begin + 1, full), len(first))
        flows = slice(int(first[begin]), int(ends[last - 1]))
        targets, slots = target[first[begin:last]], slot[flows] - begin
        yield _Batch(arcs, targets, slots, sender[flows], amount[flows], scratch)
        begin = last
