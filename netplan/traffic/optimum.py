"""The least time of collectives on any network, whatever the algorithm: the bottleneck cut.

N GPUs, full message D (the gathered result of an all_gather, else the input of one GPU). S is a set
of nodes that leaves a GPU out, n(S) the GPUs in it, out(S) the capacity of all arcs that leave it.
GPUs may forward, since algorithms may let them.

===========================  ==================================================================
all_gather, reduce_scatter   max over S of n(S) D / (N out(S)): the optimum of any algorithm
all_reduce                   max of D / out(S) over S, and of 2 (g-1) D / (sum of out(S_i)) for
                             the g parts of partitions, single GPUs and domains or blocks, as
                             long as sums are formed in GPUs; not always reached
all_to_all                   the optimum, D/N from each GPU to each other one, as a linear program
===========================  ==================================================================

*All_gather.* What the GPUs of S hold has to leave it. The largest of these bounds is reached, by
packing a spanning tree for each GPU (the theorem of ForestColl, `netplan.traffic.trees`), if every
switch can send as much as it takes in; where all links are full duplex, it can. It is found without
a list of sets: if each GPU is fed at rate r, one GPU can take in N r if and only if no cut between
is short of it. A short cut has a larger ratio, which gives the next, lower rate (Newton's method,
which ends), and each of the GPUs has to be asked once. Those that an automorphism maps to each
other are asked once together, each on the quotient of `netplan.topologies.graph.symmetry`. All
numbers are whole, all ratios fractions.

*Proof.* Most others are proven from those asked. A node is proven if the largest flow into it, from
all GPUs that are fed at the rate in question, is as large as it need be. Any cut between the source
and a node either keeps a proven one from the source, and is large enough for that, or has all of
them on the source's side. So all proven nodes count as the source: what comes from them directly is
often enough, and what is left falls into small parts (a domain behind its leaves), whose flows are
found together, one sink or more in each. This proves and never refutes: a node that stays behind
has to be asked on the whole network.

A reduce_scatter is an all_gather with all arcs turned round. An all_reduce is timed as one after
the other, the best that such a pair can do; where its bound agrees, it is the optimum.

Where so many GPUs are unlike each other that asking them all takes too long, the optimum lies in a
bracket: below it are the cuts found, above it is a scheme that anyone can run, one spanning tree
after the other, each where those before left the most room.

Sources: Zhao and Krishnamurthy, Bandwidth Optimal Pipeline Schedule for Collective Communication
(arXiv:2305.18461); ForestColl (arXiv:2402.06787). Left out: latency, sums inside switches.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf
from typing import Literal, get_args

import numpy as np
from msgspec import Struct
from scipy.sparse import block_diag, coo_array, csr_array, hstack, kron
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from netplan.arrays import Bools, Ints
from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph, connected_parts
from netplan.topologies.graph.flow import LARGEST_FLOW, max_flow, solve_flow
from netplan.topologies.graph.symmetry import CapacityGraph, Quotient, representatives
from netplan.traffic.algorithms import Collective, check_choice

MOST_SINKS = 64
"""Nodes of one part that may be tried together [1]."""


class _Case(Struct, frozen=True, eq=False):
    """Capacities, feed of each node, and what every node has to get, in one unit."""

    network: CapacityGraph
    rate: int
    feed: Ints
    need: int

    def from_proven(self, proven: Bools) -> Ints:
        """What each node gets from proven ones and from its own feed, shape (nodes,)."""
        received: Ints = self.rate * (self.network.into @ proven.astype(np.int64)) + self.feed
        return received


def grown(network: CapacityGraph, ratio: Fraction, proven: Bools, flows: int) -> Bools:
    """Nodes that are proven once those given are, by so many flows at the most.

    Parameters
    ----------
    network, ratio
        Who can send how much to whom; GPUs are fed 1 and an arc carries its capacity times this.
    proven
        Nodes that get N, shape (nodes,).
    flows
        How many flows may be tried [1].

    Returns
    -------
    Bools
        Which nodes are proven then, shape (nodes,).

    Examples
    --------
    On a ring of six, what holds for one GPU holds for all; at a faster rate nobody is proven.

    >>> from netplan.topologies.graph.symmetry import ring
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
        saturated = _saturated(case, proven, sinks)
        proven[saturated] = True
        if len(saturated):
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
    fed = np.bincount(part, weights=case.feed[left]) > 0  # parts with a GPU
    fit = (place < width) & fed[part[order]] & ~tried[left][order]
    sinks: Ints = left[order[fit]][: LARGEST_FLOW // case.need]
    return sinks


def _saturated(case: _Case, proven: Bools, sinks: Ints) -> Ints:
    """Those of some sinks that get all they need at once, if proven nodes give without end."""
    left = np.flatnonzero(~proven)
    arcs = case.network.out[left][:, left].tocoo()
    part = connected_parts(len(left), arcs.row, arcs.col)
    places = np.searchsorted(left, sinks)
    used = np.isin(part, part[places])
    kept = used[arcs.row]
    here = np.flatnonzero(used)
    source, drain = len(left), len(left) + 1
    tail = np.concatenate((arcs.row[kept], np.full(len(here), source), places))
    head = np.concatenate((arcs.col[kept], here, np.full(len(places), drain)))
    given = case.from_proven(proven)[left]
    value = np.concatenate(
        (case.rate * arcs.data[kept], given[here], np.full(len(places), case.need))
    )
    value = np.minimum(value, case.need)
    flow = solve_flow(drain + 1, (tail, head), value, source, drain).flow
    into = np.asarray(flow[places][:, [drain]].todense()).ravel()
    return sinks[into >= case.need]


FEW = 8
"""GPUs that are rather asked than proven from each other [1]."""

FLOW_WORK = 15_000_000
"""Arcs times GPUs that are asked one by one before the answer is a bracket."""
MOST_PARTS = 64
"""Blocks of GPUs whose cuts an all_reduce is held against."""

SAME = 1e-9
MOST_TREES, TREE_WORK = 256, 4_000_000
"""Trees of a scheme, as long as they have so many arcs in all."""


class Optimum(Struct, frozen=True, eq=False):
    """What an all_gather takes at least, and the cut that says so.

    Parameters
    ----------
    gpus
        All of them, N [1].
    ratio
        n(S) / out(S) of the worst cut that was found, out(S) in units.
    unit
        Of capacities [B/s].
    outside
        GPUs that the cut leaves out: all others have to send to them, shape (outside,).
    asked, representatives, left
        GPUs that were asked on the whole network, of so many that stand for all, and how many of
        those nothing has been proven of [1].
    reached
        A ratio that some scheme reaches; the same as ``ratio`` where the optimum is proven, None
        where no scheme is known.
    """

    gpus: int
    ratio: Fraction
    unit: float
    outside: Ints
    asked: int
    representatives: int
    left: int
    reached: Fraction | None

    @property
    def exact(self) -> bool:
        """Whether no gap is left."""
        return self.reached == self.ratio

    def least_s(self, data_bytes: float) -> float:
        """No all_gather of so many bytes is faster [s].

        Parameters
        ----------
        data_bytes
            Gathered result D [B].

        Returns
        -------
        float
            Time, n(S) / out(S) x D / N of the worst cut found [s].
        """
        return float(self.ratio) * data_bytes / self.gpus / self.unit

    def most_s(self, data_bytes: float) -> float:
        """What one takes that runs on these links [s]; the same where the optimum is proven.

        Parameters
        ----------
        data_bytes
            Gathered result D [B].

        Returns
        -------
        float
            Time, infinite where no scheme is known [s].
        """
        if self.reached is None:
            return inf
        return float(self.reached) * data_bytes / self.gpus / self.unit

    @property
    def out_bytes_per_s(self) -> float:
        """Capacity out of the worst cut [B/s]."""
        inside = self.gpus - len(self.outside)
        return inside / float(self.ratio) * self.unit


def all_gather_optimum(
    network: CapacityGraph, *, work: int = FLOW_WORK, tell: Callable[[int, int], None] | None = None
) -> Optimum:
    """Optimum of an all_gather over all GPUs of a network (formulas of this module).

    Parameters
    ----------
    network
        Who can send how much to whom.
    work
        Arcs times GPUs that may be asked one by one [1].
    tell
        Is told how many GPUs have been asked, of how many.

    Returns
    -------
    Optimum
        The worst cut, and what some scheme reaches.

    Raises
    ------
    InputError
        If there is one GPU alone, or not all can be reached.

    References
    ----------
    Zhao and Krishnamurthy, arXiv:2305.18461; ForestColl, arXiv:2402.06787.

    Examples
    --------
    A ring of eight, 50 GB/s a link: seven eighths come in over two links.

    >>> from netplan.topologies.graph.symmetry import ring
    >>> found = all_gather_optimum(ring(8))
    >>> found.exact, found.least_s(1e9), found.outside.tolist()
    (True, 0.00875, [0])
    """
    gpus = network.gpus
    if gpus < 2:  # noqa: PLR2004 - one GPU sends to nobody
        raise InputError(f"{network.name} has {gpus} GPU: a collective needs two")
    candidates, _ = representatives(network)
    into = network.into.sum(axis=1)[:gpus]
    candidates = candidates[np.argsort(into[candidates], kind="stable")]
    least = int(into.argmin())
    if into[least] == 0:
        raise _apart(network)
    worst = Fraction(gpus - 1, int(into[least])), np.array([least])
    (ratio, outside), proven, asked = _all_asked(network, candidates, worst, work, tell)
    left = int(np.count_nonzero(~proven[candidates]))
    reached: Fraction | None = ratio
    if left or not network.balanced:
        scheme = _scheme(network)
        reached = None if scheme is None else max(ratio, scheme)
    return Optimum(
        gpus=gpus,
        ratio=ratio,
        unit=network.unit,
        outside=outside,
        asked=asked,
        representatives=len(candidates),
        left=left,
        reached=reached,
    )


class CollectiveOptimum(Struct, frozen=True, eq=False):
    """Optimum of a collective over all GPUs, in seconds a byte of the full message.

    Parameters
    ----------
    collective
        all_gather, reduce_scatter or all_reduce.
    worst
        What an all_gather takes on the network, or on the one turned round that sets the time.
    toward_gpus
        Whether the cut binds towards the GPUs outside of it, not away from them.
    reached_s_per_byte
        What some algorithm takes; of an all_reduce, reduce_scatter and all_gather [s/B].
    bound_s_per_byte
        No algorithm is faster [s/B].
    """

    collective: str
    worst: Optimum
    toward_gpus: bool
    reached_s_per_byte: float
    bound_s_per_byte: float

    @property
    def exact(self) -> bool:
        """Whether no gap is left between the two."""
        return self.reached_s_per_byte <= self.bound_s_per_byte * (1 + SAME)

    @property
    def gap(self) -> float | None:
        """How much more is reached than must be, as a share; None if nothing is known to reach."""
        if self.reached_s_per_byte == inf:
            return None
        return 0.0 if self.exact else self.reached_s_per_byte / self.bound_s_per_byte - 1

    def notes(self) -> Iterator[str]:
        """What is proven, and what is not.

        Yields
        ------
        str
            A sentence on the proof, where it lacks something, and one on an all_reduce.
        """
        worst = self.worst
        if worst.left:
            yield (
                f"{worst.left:,} of {worst.representatives:,} GPUs that differ are not proven: the"
                " optimum lies between the worst cut found and what spanning trees take."
            )
        elif not worst.exact:
            yield (
                "Some switch takes more than it sends, or sends more than it takes: the cut is a"
                " bound, and nobody has shown that it is reached."
            )
        if self.collective == "all_reduce" and worst.exact:
            pair = "An all_reduce is timed as the best reduce_scatter and all_gather"
            proven = "no other one is faster, as long as sums are formed in GPUs"
            short = "whether another one is faster is not known: none is below the bound"
            yield f"{pair}; {proven if self.exact else short}."


def collective_optimum(
    collective: Literal["all_gather", "reduce_scatter", "all_reduce"],
    network: CapacityGraph,
    *,
    tell: Callable[[int, int], None] | None = None,
    gather: Optimum | None = None,
) -> CollectiveOptimum:
    """Optimum of a collective over all GPUs.

    Parameters
    ----------
    collective
        What they do.
    network, tell
        As in :func:`all_gather_optimum`.
    gather
        That of an all_gather on the same network, where it is known.

    Returns
    -------
    CollectiveOptimum
        What is reached, and the bound, by a byte of the full message [s/B].

    Raises
    ------
    InputError
        If there is one GPU alone, or not all can be reached.

    Examples
    --------
    >>> from netplan.topologies.graph.symmetry import ring
    >>> found = collective_optimum("all_reduce", ring(8))
    >>> found.exact, round(found.reached_s_per_byte * 1e9, 6)
    (True, 0.0175)
    """
    scatter = None
    if collective == "reduce_scatter":
        gather = None
    elif gather is None:
        gather = all_gather_optimum(network, tell=tell)
    if collective != "all_gather":
        same = gather is not None and network.mirrored
        scatter = gather if same else all_gather_optimum(network.reversed, tell=tell)
    parts = [part for part in (gather, scatter) if part is not None]
    worst = max(parts, key=lambda part: part.ratio)
    bound = sum(part.least_s(1.0) for part in parts)
    if collective == "all_reduce":
        bound = _all_reduce_bound_s(network, worst)
    reached = sum(part.most_s(1.0) for part in parts)
    return CollectiveOptimum(
        collective, worst, worst is not scatter or worst is gather, reached, bound
    )


def _all_reduce_bound_s(network: CapacityGraph, worst: Optimum) -> float:
    """No all_reduce of a byte is faster, as long as sums are formed in GPUs [s].

    Sums over g parts of the GPUs need 2 (g - 1) transfers of every byte between them. The parts
    here are single GPUs, and blocks of neighbours as large as what the worst cut leaves out, if one
    of them is that; and whatever leaves any GPU, or comes in, is at least one message.
    """
    gpus, size = network.gpus, len(worst.outside)
    taken = network.into.sum(axis=1)[:gpus]
    sent = network.out.sum(axis=1)[:gpus]
    bounds = [
        Fraction(1, int(min(taken.min(), sent.min()))),
        Fraction(2 * (gpus - 1), int(min(taken.sum(), sent.sum()))),
    ]
    first = int(worst.outside[0])
    whole = not gpus % size and not first % size
    if 1 < size < gpus and whole and np.array_equal(worst.outside, first + np.arange(size)):
        # Each block takes in no more than the least cut round it.
        parts = gpus // size
        if parts <= MOST_PARTS:
            every = np.arange(gpus)
            blocks = every.reshape(parts, size)
            taken_in = sum(
                _separating(network, np.setdiff1d(every, block), block) for block in blocks
            )
            bounds.append(Fraction(2 * (parts - 1), taken_in))
    return float(max(bounds)) / network.unit


def _separating(network: CapacityGraph, inside: Ints, outside: Ints) -> int:
    """Least capacity of arcs that separate some GPUs from others."""
    nodes, arcs = network.nodes, network.out.tocoo()
    fed, drained = (np.full(len(ends), nodes + n) for n, ends in enumerate((inside, outside)))
    tail = np.concatenate((arcs.row, fed, outside))
    head = np.concatenate((arcs.col, inside, drained))
    # No GPU sends more than it has links for, nor takes more.
    ends = network.out.sum(axis=1)[inside], network.into.sum(axis=1)[outside]
    value = np.concatenate((arcs.data, *ends)).tolist()
    return max_flow(nodes + 2, (tail, head, value), source=nodes, sink=nodes + 1)[0]


_Cut = tuple[Fraction, Ints]
"""A ratio, and the GPUs outside of the set that has it."""


def _all_asked(
    network: CapacityGraph,
    candidates: Ints,
    worst: _Cut,
    work: int,
    tell: Callable[[int, int], None] | None,
) -> tuple[_Cut, Bools, int]:
    """The worst cut of all GPUs that stand for others, which nodes are proven, how many asked."""
    allowed = max(1, work // network.out.nnz)
    proven, asked = np.zeros(network.nodes, bool), 0
    for number, gpu in enumerate(candidates.tolist()):
        if tell:
            tell(number, len(candidates))
        if proven[gpu]:
            continue
        if asked == allowed:
            break
        worst = _cut_without(network, network.quotient(gpu), gpu, worst)
        proven[gpu], asked = True, asked + 1
        if len(candidates) > FEW and not asked & (asked - 1):  # after 1, 2, 4, 8 ... of them
            flows, left = work // (2 * network.out.nnz), int(np.count_nonzero(~proven[candidates]))
            if left <= allowed - asked:  # all may be asked: a proof is to be less work than that
                flows = min(flows, left)
            ratio, _ = worst
            proven = grown(network, ratio, proven, flows)
    if tell:
        tell(len(candidates), len(candidates))
    return worst, proven, asked


def _cut_without(network: CapacityGraph, quotient: Quotient, sink: int, worst: _Cut) -> _Cut:
    """The worst cut that keeps anything from one GPU, if it is worse than the one known."""
    gpus, classes = network.gpus, len(quotient.sizes)
    members = np.bincount(quotient.of[:gpus], minlength=classes)
    feeds = np.flatnonzero(members)
    apart = quotient.tail != quotient.head
    tail, head = quotient.tail[apart], quotient.head[apart]
    capacity = quotient.capacity[apart].tolist()
    ends = (np.concatenate((tail, np.full(len(feeds), classes))), np.concatenate((head, feeds)))
    while True:
        ratio, _ = worst
        rate, feed = ratio.as_integer_ratio()
        value = [rate * amount for amount in capacity] + [
            feed * int(amount) for amount in members[feeds]
        ]
        flow, side = max_flow(
            classes + 1, (*ends, value), source=classes, sink=int(quotient.of[sink])
        )
        if flow >= gpus * feed:
            return worst
        leaving = side[tail] & ~side[head]
        out = sum(
            amount for amount, leaves in zip(capacity, leaving.tolist(), strict=True) if leaves
        )
        if out == 0:
            raise _apart(network)
        inside = int(members[side[:-1]].sum())
        outside = np.flatnonzero(~side[quotient.of[:gpus]])
        worst = Fraction(inside, out), outside


def _apart(network: CapacityGraph) -> InputError:
    return InputError(f"{network.name}: its links do not join all GPUs, no collective ends")


def _scheme(network: CapacityGraph) -> Fraction | None:
    """Ratio that spanning trees reach, each taken where those before it left the most room.

    Every shard is cut in as many parts as there are trees. GPUs alone pass parts on along a tree,
    so that an arc carries those of the GPUs behind it. Switches copy nothing: there the part goes
    round its tree as round a ring, which takes each arc once, N - 1 parts over each. None if links
    that carry something both ways do not join all GPUs.
    """
    shape, gpus = network.out.shape, network.gpus
    arcs = (network.out if network.mirrored else network.out.minimum(network.into)).tocoo()
    upper = arcs.row < arcs.col
    tail, head = arcs.row[upper].astype(np.int64), arcs.col[upper].astype(np.int64)
    key = tail * network.nodes + head
    order = np.argsort(key)
    tail, head, key, room = tail[order], head[order], key[order], arcs.data[upper][order]
    if (connected_parts(network.nodes, tail, head)[:gpus] != 0).any():
        return None
    load = np.zeros((2, len(key)), np.int64)  # with the arc, and against it
    trees = max(2, min(MOST_TREES, TREE_WORK // len(key)))
    for _ in range(trees):
        # Lengths are above 0, since 0 means no arc.
        length = (load.max(axis=0) + 1e-3 * gpus) / room
        tree = minimum_spanning_tree(csr_array((length, (tail, head)), shape=shape))
        above, behind = _hung(tree, gpus)
        below = np.flatnonzero(above >= 0)
        low, high = np.minimum(below, above[below]), np.maximum(below, above[below])
        used = np.searchsorted(key, low * network.nodes + high)
        up = (below == low).astype(np.int64)
        many = gpus - 1 if network.nodes > gpus else behind[below]
        rest = gpus - 1 if network.nodes > gpus else gpus - behind[below]
        load[1 - up, used] += many
        load[up, used] += rest
    share = load.max(axis=0) / room
    near = np.flatnonzero(share >= share.max() * (1 - 1e-9))
    return max(Fraction(int(load[:, a].max()), int(room[a]) * trees) for a in near[:64].tolist())


def _hung(tree: csr_array, gpus: int) -> tuple[Ints, Ints]:
    """Node above each one in a tree that hangs from GPU 0, -1 for it, and GPUs at or below each."""
    order, above = breadth_first_order(tree, 0, directed=False)
    behind = (np.arange(len(above)) < gpus).astype(np.int64)
    total = behind.tolist()
    for node in order[:0:-1].tolist():
        total[above[node]] += total[node]
    return np.where(above < 0, -1, above).astype(np.int64), np.array(total)


MAX_CUT_GPUS = 1024
MAX_FLOW_VARIABLES = 60_000
"""Bytes of each GPU on each arc that a linear program finds: more take over ten seconds [1]."""


def collective_bound_s(collective: Collective, graph: FabricGraph, data_bytes: float) -> float:
    """Lower bound on the time of a collective over all GPUs of a graph.

    Parameters
    ----------
    collective
        Which one.
    graph
        The network, GPUs and links.
    data_bytes
        The full message D [B].

    Returns
    -------
    float
        The bound [s].

    Raises
    ------
    InputError
        If the collective is unknown, the graph is too large for an exact answer, or not connected.

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
    return all_gather_optimum(CapacityGraph.of(graph)).least_s(data_bytes)


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
    from scipy.optimize import linprog  # noqa: PLC0415 - seldom used, and slow to load

    solution = linprog(
        goal,
        A_ub=share.tocsr(),
        b_ub=capacity,
        A_eq=conserve,
        b_eq=np.zeros(gpus * nodes),
        method="highs-ipm",  # a tenth of the time of the simplex method
    )
    rate = -solution.fun * unit if solution.status == 0 else 0.0
    if rate <= 0:
        raise InputError(f"{graph.name}: its links do not join all GPUs, no all_to_all ends")
    return float(data_bytes / gpus / rate)


def _all_reduce_s(graph: FabricGraph, data_bytes: float) -> float:
    """Bound of an all_reduce [s]; formulas of this module."""
    if graph.gpus > MAX_CUT_GPUS:
        raise InputError(
            f"{graph.name}: exact cuts of {graph.gpus:,} GPUs take too long, at most"
            f" {MAX_CUT_GPUS:,}: use the closed form of the fabric's levels"
        )
    network, gpus = CapacityGraph.of(graph), np.arange(graph.gpus)
    least = min(_separating(network, gpus[:1], gpus[gpu : gpu + 1]) for gpu in gpus[1:])
    if least == 0:
        raise InputError(f"{graph.name}: its links do not join all GPUs, no all_reduce ends")
    bounds = [Fraction(1, least)]
    for size in {1, graph.hb_size}:
        if size < graph.gpus:
            parts = np.split(gpus, np.arange(size, graph.gpus, size))
            out = sum(_separating(network, part, np.setdiff1d(gpus, part)) for part in parts)
            bounds.append(Fraction(2 * (len(parts) - 1), out))
    return float(max(bounds)) * data_bytes / network.unit
