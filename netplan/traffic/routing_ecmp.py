"""Equal-cost multipath on any graph: shortest paths, split at every hop as switches do it.

A switch that has k links towards a destination sends 1/k of the traffic over each (*fluid*), or
each flow over one of them by its hash (*hashed*). It splits over next hops, not over whole paths:
a branch with many paths behind it gets no more than one with few. Parallel links count one each.

The work goes destination by destination, many at once. A breadth-first search from the destination
gives every node its distance and ends as soon as all senders are found; then the traffic moves
from the farthest nodes inwards, level by level, meeting and splitting on its way. No path is ever
listed, so that the cost is the number of links on shortest paths, not the number of paths.

64 searches go on at once, one in each bit of a word: what a node learns in one hop is the union of
what its neighbours knew. (Then et al., "The more the merrier: efficient multi-source graph
traversal", VLDB 2014.)
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import cast

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Bools, Floats, Ints, Words, hash64, places, within_runs
from netplan.errors import InputError
from netplan.topologies.graph import connected_parts
from netplan.traffic.matrix import sum_by

BITS = 64
"""Searches in a word [1]."""
FEW = 4
"""Of so many nodes one has news: then these tell their neighbours, else all ask theirs [1]."""
BATCH_CELLS = 1 << 20
"""Destinations x nodes that are worked on at once, but for 64 destinations of larger graphs."""
BATCH_FLOWS = 1 << 18

Pick = Callable[[Words, AnyInts, int, Ints], Ints]
"""Chooses an arc for each flow, shape (flows,): by its word, where it is, how many hops are left,
and how many arcs lead nearer."""


class Arcs(Struct, frozen=True, eq=False, dict=True):
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
    part
        Connected part that each node is in, shape (nodes,).
    weight
        What each arc takes of traffic that splits, over what others there take, shape (arcs,) [1];
        None splits evenly.
    """

    indptr: Ints
    head: AnyInts
    code: Ints
    size: int
    forwards: Bools
    part: Ints
    weight: Floats | None = None

    @cached_property
    def by_ends(self) -> tuple[Ints, Ints]:
        """Tail times nodes plus head of all arcs, rising, and the place of each of them."""
        nodes = len(self.forwards)
        key = np.repeat(np.arange(nodes), np.diff(self.indptr)) * nodes + self.head
        order = np.argsort(key, kind="stable")
        return key[order], order


def make_arcs(
    source: AnyInts,
    target: AnyInts,
    forwards: Bools,
    links: Ints | None = None,
    *,
    weight: Floats | None = None,
) -> Arcs:
    """Arcs of a graph, or of some of its links.

    ``source`` and ``target`` are the ends of all links, and ``weight`` what they take of traffic
    that splits; ``forwards`` says whether a node passes on traffic of others, shape (nodes,).
    """
    nodes = len(forwards)
    chosen = np.arange(len(source)) if links is None else links
    tail = np.concatenate([source[chosen], target[chosen]])
    head = np.concatenate([target[chosen], source[chosen]])
    order = np.argsort(tail, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=nodes))])
    head = head[order]
    code = np.concatenate([chosen, chosen + len(source)])[order]
    part = connected_parts(nodes, source[chosen], target[chosen])
    share = None if weight is None else weight[code % len(source)]
    return Arcs(indptr, head, code, 2 * len(source), forwards, part, share)


def ecmp_loads(
    arcs: Arcs,
    source: AnyInts,
    destination: AnyInts,
    flow_bytes: Floats,
    rng: np.random.Generator | None = None,
) -> Floats:
    """Load of every arc under ECMP [B], shape (2 x links,).

    Flows are of shape (flows,) [B]. Without ``rng`` every flow splits evenly; a generator sends
    each flow over one link at every hop, as switches do that hash the ends of a flow with a secret
    of the generator: whatever else flows, a flow takes the same path. Flows of equal ends are told
    apart by their order. That no path joins the ends of a flow is an error.

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
    apart = np.flatnonzero(arcs.part[source] != arcs.part[destination])
    if len(apart):
        raise InputError(
            f"no path leads from node {source[apart[0]]} to node {destination[apart[0]]}:"
            " the graph is not connected"
        )
    hashes = None if rng is None else flow_hashes(source, destination, rng)
    flows = _lifted(arcs, _Flows(source, destination, flow_bytes, hashes), loads)
    if hashes is None and arcs.weight is None:
        flows = _between_neighbours(arcs, flows, loads)
    for batch in _batches(arcs, flows):
        passed = batch.push_flow() if hashes is None else batch.walk(hashed_arc)
        for code, amount, _ in passed:
            # Few arcs of a large graph: adding in place beats a full-length sum a batch.
            np.add.at(loads, code, amount)
    return loads


def ecmp_paths(
    arcs: Arcs, source: AnyInts, destination: AnyInts, words: Words, pick: Pick
) -> tuple[Ints, Ints]:
    """The arcs of each flow where every flow takes one at every hop: flows, and codes of arcs.

    Flows that are hashed with :func:`flow_hashes` and :func:`hashed_arc` take the paths whose loads
    :func:`ecmp_loads` gives. That no path joins the ends of a flow is an error.

    Examples
    --------
    A square 0-1-3-2-0: one path of two arcs from 0 to 3.

    >>> arcs = make_arcs(np.array([0, 1, 3, 2]), np.array([1, 3, 2, 0]), np.ones(4, bool))
    >>> ends = np.array([0]), np.array([3])
    >>> words = flow_hashes(*ends, np.random.default_rng(1))
    >>> ecmp_paths(arcs, *ends, words, hashed_arc)
    (array([0, 0]), array([0, 1]))
    """
    number = np.arange(len(source))
    if not len(source):
        return number, number
    flows_on, arcs_taken, ends = [], [], []
    for lifts, taken, end in _lifts(arcs, source, destination):
        flows_on.append(number[lifts])
        arcs_taken.append(taken)
        ends.append(end)
    apart = ends[0] != ends[1]
    # What a flow carries is its number here, so that the walk says whose each arc is.
    carried = number[apart].astype(np.float64)
    for batch in _batches(arcs, _Flows(ends[0][apart], ends[1][apart], carried, words[apart])):
        for taken, numbers, _ in batch.walk(pick):
            flows_on.append(numbers.astype(np.int64))
            arcs_taken.append(taken)
    return np.concatenate(flows_on), np.concatenate(arcs_taken)


def ecmp_shares(
    arcs: Arcs, source: AnyInts, destination: AnyInts
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """The arcs of each flow where every flow splits evenly at every hop, some flows at a time.

    Flows, codes of arcs and the share of the flow on each [1], shape (entries,) each; loads are
    those of :func:`ecmp_loads`. That no path joins the ends of a flow is an error.

    Examples
    --------
    A square 0-1-3-2-0: from 0 to 3 half of the traffic goes each way.

    >>> arcs = make_arcs(np.array([0, 1, 3, 2]), np.array([1, 3, 2, 0]), np.ones(4, bool))
    >>> (flow, code, share), *_ = ecmp_shares(arcs, np.array([0]), np.array([3]))
    >>> sorted(zip(code.tolist(), share.tolist()))
    [(0, 0.5), (1, 0.5), (6, 0.5), (7, 0.5)]
    """
    number, nodes = np.arange(len(source)), np.int64(len(arcs.forwards))
    if not len(source):
        return
    ends = []
    for lifts, taken, end in _lifts(arcs, source, destination):
        if len(taken):
            yield number[lifts], taken, np.ones(len(taken))
        ends.append(end)
    apart = np.flatnonzero(ends[0] != ends[1])
    pairs, which = np.unique(ends[0][apart] * nodes + ends[1][apart], return_inverse=True)
    order = np.argsort(which, kind="stable")
    whose = np.searchsorted(which[order], np.arange(len(pairs) + 1))
    step = max(BITS, BATCH_CELLS // int(nodes))
    for begin in range(0, len(pairs), step):
        first, last = np.divmod(pairs[begin : begin + step], nodes)
        slot = np.arange(len(first))
        scratch = np.empty(len(first) * int(nodes), np.int64)
        batch = _Batch(arcs, last, slot, first, np.ones(len(first)), None, scratch)
        parts = list(batch.push_flow())
        pair, taken, share = (np.concatenate([part[i] for part in parts]) for i in (2, 0, 1))
        # All flows between two nodes split alike.
        flows = np.diff(whose)[begin + pair]
        entry = np.repeat(np.arange(len(pair)), flows)
        flow = apart[order[whose[begin + pair[entry]] + within_runs(flows)]]
        yield flow, taken[entry], share[entry]


def hashed_arc(words: Words, node: AnyInts, hops: int, choices: Ints) -> Ints:  # noqa: ARG001 - a Pick
    """The arc of each flow by its hash, mixed with the hop."""
    shares = (hash64(words ^ np.uint64(hops)) >> np.uint64(11)) * 2.0**-53
    return (shares * choices).astype(np.int64)


class _Flows(Struct, frozen=True, eq=False):
    """Ends of flows, their bytes, and what is hashed of each: None where they split evenly."""

    source: AnyInts
    destination: AnyInts
    amount: Floats
    hashes: Words | None


def flow_hashes(
    source: AnyInts, destination: AnyInts, rng: np.random.Generator, connection: Ints | None = None
) -> Words:
    """What switches hash of each flow, shape (flows,): its ends, its number among equal ones.

    Numbers of connection 0 of each are those without connections; those of others follow them.

    >>> ends = np.zeros(2, np.int64), np.ones(2, np.int64)
    >>> two, one = (flow_hashes(*ends, np.random.default_rng(7), connection)
    ...             for connection in (np.array([0, 3]), None))
    >>> (two == one).tolist()
    [True, False]
    """
    nodes = np.int64(max(int(source.max()), int(destination.max())) + 1)
    pair = source * nodes + destination
    if connection is None or not connection.any():
        number = places(pair)
    else:
        number = places(pair * (connection.max() + 1) + connection)
        _, whose = np.unique(pair, return_inverse=True)
        equal = np.zeros(len(pair), np.int64)
        np.maximum.at(equal, whose, number + 1)
        number += connection * equal[whose]
    hashes = np.full(len(pair), rng.integers(1 << 63, dtype=np.uint64))
    for word in (source, destination, number):
        hashes = hash64(hashes ^ word.astype(np.uint64))
    return hashes


def _lifts(
    arcs: Arcs, source: AnyInts, destination: AnyInts
) -> Iterator[tuple[Bools, Ints, AnyInts]]:
    """Of both ends of flows: which have one link, its codes there or back, where all then are."""
    degree = np.diff(arcs.indptr)
    only = np.minimum(arcs.indptr[:-1], len(arcs.head) - 1)
    above, code = arcs.head[only], arcs.code[only]
    single = (degree == 1) & arcs.forwards[above] & (degree[above] > 1)
    for end, arc in ((source, code), (destination, (code + arcs.size // 2) % arcs.size)):
        lifts = single[end]
        yield lifts, arc[end[lifts]], np.where(lifts, above[end], end)


def _lifted(arcs: Arcs, flows: _Flows, loads: Floats) -> _Flows:
    """Take the only link of every node that has one; what is left runs between their neighbours.

    Thousands of hosts under one leaf then share one search.
    """
    source, destination, amount = flows.source, flows.destination, flows.amount
    ends = []
    for lifts, taken, end in _lifts(arcs, source, destination):
        loads += sum_by(taken, amount[lifts], arcs.size)
        ends.append(end)
    apart = ends[0] != ends[1]
    hashes = None if flows.hashes is None else flows.hashes[apart]
    return _Flows(ends[0][apart], ends[1][apart], amount[apart], hashes)


def _between_neighbours(arcs: Arcs, flows: _Flows, loads: Floats) -> _Flows:
    """Put flows between neighbours on the links of the two; what is left has farther to go."""
    keys, place = arcs.by_ends
    pair = flows.source * np.int64(len(arcs.forwards)) + flows.destination
    first, last = (np.searchsorted(keys, pair, side=side) for side in ("left", "right"))
    links = last - first
    for number in range(int(links.max(initial=0))):
        some = np.flatnonzero(links > number)
        code = arcs.code[place[first[some] + number]]
        loads += sum_by(code, flows.amount[some] / links[some], arcs.size)
    far = links == 0
    return _Flows(flows.source[far], flows.destination[far], flows.amount[far], None)


class _Batch(Struct, frozen=True, eq=False):
    """Flows to some destinations, of which ``slot`` tells apart those of one part of the graph.

    Searches in different parts never meet: they may have the same slot.
    """

    arcs: Arcs
    target: AnyInts
    slot: Ints
    node: AnyInts
    amount: Floats
    hashes: Words | None
    scratch: Ints

    def expand(self, node: AnyInts) -> tuple[Ints, Ints]:
        """All arcs of some nodes: which of the nodes, and place of the arc."""
        start = self.arcs.indptr[node]
        degree = self.arcs.indptr[node + 1] - start
        ends = np.cumsum(degree)
        origin = np.repeat(np.arange(len(node)), degree)
        arc = np.arange(len(origin)) + np.repeat(start - ends + degree, degree)
        return origin, arc

    def distinct(self, slot: Ints, node: AnyInts) -> tuple[Ints, Ints]:
        """First place of each distinct pair, and which of these each pair equals; no sorting."""
        key = slot * len(self.arcs.forwards) + node
        here = np.arange(len(key))
        self.scratch[key] = here
        first = np.flatnonzero(self.scratch[key] == here)
        self.scratch[key[first]] = np.arange(len(first))
        return first, self.scratch[key]

    def search(self) -> tuple[Ints, list[Ints]]:
        """Hops that each flow takes, and who passes on what comes within 0, 1, 2 ... of them.

        These are the destination itself at 0 and nodes that forward, for each of which a bit a slot
        says whether it is so near, shape (words, nodes).
        """
        words, forwards = int(self.slot.max()) // BITS + 1, -self.arcs.forwards.astype(np.int64)
        passing = [np.zeros((words, len(forwards)), np.int64)]
        word, bit = in_words(self.slot)
        np.bitwise_or.at(passing[0], (word, self.target), bit)
        seen, hops = passing[0].copy(), np.zeros(len(self.node), np.int64)
        left = np.arange(len(self.node))
        while len(left):
            fresh = np.stack([self.of_neighbours(word) for word in passing[-1]]) & ~seen
            if not fresh.any():
                raise InputError(
                    f"no path leads from node {self.node[left[0]]} to node"
                    f" {self.target[left[0]]} through nodes that forward"
                )
            seen |= fresh
            arrived = fresh[word[left], self.node[left]] & bit[left] != 0
            hops[left[arrived]] = len(passing)
            left = left[~arrived]
            passing.append(fresh & forwards)
        return hops, passing

    def of_neighbours(self, word: Ints) -> Ints:
        """Union of the bits that the neighbours of each node have, shape (nodes,)."""
        arcs, union = self.arcs, np.zeros_like(word)
        some = np.flatnonzero(word)
        if FEW * len(some) < len(word):
            origin, arc = self.expand(some)
            np.bitwise_or.at(union, arcs.head[arc], word[some[origin]])
        else:
            linked = np.flatnonzero(np.diff(arcs.indptr))
            union[linked] = np.bitwise_or.reduceat(word[arcs.head], arcs.indptr[linked])
        return union

    def downhill(self, passing: Ints, slot: Ints, node: AnyInts) -> tuple[Ints, Ints]:
        """Arcs to those who pass on, one hop nearer: which nodes they leave, and their place."""
        origin, arc = self.expand(node)
        word, bit = in_words(slot)
        near = np.flatnonzero(passing[word[origin], self.arcs.head[arc]] & bit[origin])
        return origin[near], arc[near]

    def push_flow(self) -> Iterator[tuple[Ints, Floats, Ints]]:
        """Split evenly: arcs, what passes over them, and slots, by level from the farthest."""
        start, passing = self.search()
        slot, amount = np.empty(0, np.int64), np.empty(0)
        node: AnyInts = slot
        for level in range(len(passing) - 1, 0, -1):
            here = start == level
            slot = np.concatenate([slot, self.slot[here]])
            node = np.concatenate([node, self.node[here]])
            amount = np.concatenate([amount, self.amount[here]])
            first, which = self.distinct(slot, node)
            amount = sum_by(which, amount, len(first))
            slot, node = slot[first], node[first]
            origin, arc = self.downhill(passing[level - 1], slot, node)
            amount = self.split(amount, origin, arc)
            slot, node = slot[origin], self.arcs.head[arc]
            yield self.arcs.code[arc], amount, slot

    def split(self, amount: Floats, origin: Ints, arc: Ints) -> Floats:
        """What each arc takes of the amounts of the nodes that they leave."""
        if self.arcs.weight is None:
            return (amount / np.bincount(origin, minlength=len(amount)))[origin]
        share = self.arcs.weight[arc]
        return (amount / sum_by(origin, share, len(amount)))[origin] * share

    def walk(self, pick: Pick) -> Iterator[tuple[Ints, Floats, Ints]]:
        """Send each flow over one arc at every hop: arcs, what passes over them, and slots."""
        left, passing = self.search()
        node, hashes = self.node.copy(), cast("Words", self.hashes)
        for level in range(len(passing) - 1, 0, -1):
            moving = np.flatnonzero(left >= level)
            origin, arc = self.downhill(passing[level - 1], self.slot[moving], node[moving])
            choices = np.bincount(origin, minlength=len(moving))
            picked = pick(hashes[moving], node[moving], level, choices)
            taken = arc[np.cumsum(choices) - choices + picked]
            yield self.arcs.code[taken], self.amount[moving], self.slot[moving]
            node[moving] = self.arcs.head[taken]


def in_words(slot: Ints) -> tuple[Ints, Ints]:
    """The word of each slot, and its bit there."""
    word, place = np.divmod(slot, BITS)
    return word, np.int64(1) << place


def _batches(arcs: Arcs, flows: _Flows) -> Iterator[_Batch]:
    """Sort the flows by destination and cut them into batches; equal pairs that split are one."""
    nodes = np.int64(len(arcs.forwards))
    pair, amount, hashes = flows.destination * nodes + flows.source, flows.amount, flows.hashes
    if hashes is None:
        pair, place = np.unique(pair, return_inverse=True)
        amount = sum_by(place, amount, len(pair))
    else:
        order = np.argsort(pair, kind="stable")
        pair, amount, hashes = pair[order], amount[order], hashes[order]
    target, sender = np.divmod(pair, nodes)
    if not len(target):
        return
    first = np.flatnonzero(np.diff(target, prepend=-1))
    ends = np.append(first[1:], len(target))
    step = max(BITS, BATCH_CELLS // int(np.bincount(arcs.part).max()))
    begin = 0
    while begin < len(first):
        full = int(np.searchsorted(ends, first[begin] + BATCH_FLOWS))
        last = min(begin + step, max(begin + 1, full), len(first))
        part = slice(int(first[begin]), int(ends[last - 1]))
        slot = places(arcs.part[target[first[begin:last]]])
        scratch = np.empty((int(slot.max()) + 1) * nodes, np.int64)
        slot = np.repeat(slot, ends[begin:last] - first[begin:last])
        hashed = None if hashes is None else hashes[part]
        yield _Batch(arcs, target[part], slot, sender[part], amount[part], hashed, scratch)
        begin = last
