"""Classes of pairs of HB domains between which a damaged fabric carries equally much.

The class of a pair is the smallest block that holds both domains, and the place of each in it, but
for swaps of blocks that are alike (`netplan.faults.blocks`). Links are compared by their rates
before and after the damage, so that all pairs of a class had equally much before it, too. One pair
stands for its class; nothing is estimated. Where there is one tier of switches, or none, no block
is like another: there switches are put together that no smallest cut parts
(`netplan.faults.joined`).

The largest flow of a pair is found on a small graph. Of blocks that are alike two are kept, as a
pair may need both, and all others stand together; then so do switches that have equal links to
equal switches (colour refinement). The smallest cut stays what it was: let p be its potential, 0
at one domain and 1 at the other, and give all nodes of a class their mean. As every node of class C
has the same capacity to class D, the links between C and D have together

    sum c |p(u) - p(v)|  >=  |sum c (p(u) - p(v))|  =  c(C, D) |mean of C - mean of D|,

so that some cut along classes is no larger. (Linear programs in general: Grohe, Kersting, Mladenov
and Selman, arXiv:1307.5697.)
"""

from collections.abc import Iterator
from operator import itemgetter

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.faults.blocks import Alike, BlockTree, alike, codes
from netplan.faults.flows import FlowNetwork
from netplan.faults.max_flow import largest_units
from netplan.traffic.matrix import sum_by

MAX_ENDS = 512
"""Domains that stand for all others up to which their pairs are formed [1]."""

MAX_CLASSES = 1000
"""Classes up to which all are computed [1]."""

FEW_CLASSES = 200
"""Classes up to which no fewer are looked for [1]."""


class PairClasses(Struct, frozen=True, eq=False):
    """Pairs of HB domains, each of which stands for some.

    Parameters
    ----------
    first, second
        The two domains, shape (classes,).
    pairs
        How many pairs each stands for [1], shape (classes,).
    """

    first: Ints
    second: Ints
    pairs: Ints


def class_flows(before: FlowNetwork, after: FlowNetwork) -> tuple[PairClasses, Ints] | None:
    """Classes of all pairs, and the largest flow of each before and after, in units (2, classes).

    None where there are too many classes.
    """
    found: list[tuple[int, BlockTree, Alike, Floats, PairClasses]] = []
    for tree, units in _trees(before, after):
        blocks = tree.alike(codes(*units.astype(np.int64)))
        classes = form_classes(tree, blocks)
        if classes is not None and len(classes.first) <= MAX_CLASSES:
            found.append((len(classes.first), tree, blocks, units, classes))
            if len(classes.first) <= FEW_CLASSES:
                break
    if not found:
        return None
    _, tree, blocks, units, classes = min(found, key=itemgetter(0))
    small = SmallGraph.of(tree, blocks, units)
    egress = np.rint(before.egress_bytes_per_s / before.reduced.unit_bytes_per_s)
    most = np.minimum(egress[classes.first], egress[classes.second]).astype(np.int64)
    pairs = zip(classes.first.tolist(), classes.second.tolist(), most.tolist(), strict=True)
    return classes, np.array([small.flows(*pair) for pair in pairs], np.int64).reshape(-1, 2).T


def _trees(before: FlowNetwork, after: FlowNetwork) -> Iterator[tuple[BlockTree, Floats]]:
    """Blocks, and capacities of their links before and after the damage, shape (2, links).

    First as they are, where there are tiers; then with switches that are joined well enough as one.
    """
    reduced = before.reduced
    tier, ends = reduced.switched
    units = np.stack((before.switched_units, after.switched_units))
    if tier.max(initial=0) > 1:
        yield reduced.blocks, units
    domains = reduced.graph.domains
    between = (tier[ends] > 0).all(axis=0)
    # Most failures are of parts below the switches: what is joined stays joined.
    label = (before if np.array_equal(*units[:, between]) else after).joined
    ends = np.append(np.arange(domains), domains + label)[ends]
    apart = ends[0] != ends[1]
    joined = np.zeros(domains + int(label.max(initial=-1)) + 1, np.int64)
    np.maximum.at(joined, domains + label, tier[domains:])
    yield BlockTree.of(joined, ends[:, apart]), units[:, apart]


def form_classes(tree: BlockTree, blocks: Alike) -> PairClasses | None:
    """Classes of all pairs of domains; None where too many domains stand for themselves."""
    ends = np.flatnonzero(blocks.itself[0])
    if len(ends) > MAX_ENDS:
        return None
    one, two = (ends[at] for at in np.triu_indices(len(ends), 1))
    level = np.argmax(tree.block[:, one] == tree.block[:, two], axis=0)
    orbit = np.stack([of[block] for of, block in zip(blocks.orbit, tree.block, strict=True)])
    key = codes(level, orbit[level, one], *np.sort(orbit[0][np.stack((one, two))], axis=0))
    chosen = np.unique(key, return_index=True)[1]
    one, two, level = one[chosen], two[chosen], level[chosen]
    sizes = [np.bincount(numbers) for numbers in blocks.orbit]
    size = np.stack([of[numbers] for of, numbers in zip(sizes, orbit, strict=True)])
    # Of `around` blocks like theirs, each has `inner` like the one that holds the first domain.
    around = size[level, one]
    inner = size[level - 1, one] // around
    pairs = size[0, one] * size[0, two] // around
    both = orbit[level - 1, one] == orbit[level - 1, two]
    pairs = np.where(both, pairs // inner * (inner - 1), pairs)
    return PairClasses(one, two, np.where(orbit[0, one] == orbit[0, two], pairs // 2, pairs))


class SmallGraph(Struct, frozen=True, eq=False):
    """A fabric with like switches put together, and the domains that stand for all.

    Parameters
    ----------
    node
        Node of each domain, -1 for those that others stand for, shape (domains,).
    switches
        Nodes that are no domains, which come first [1].
    ends
        The two nodes that each link joins, the lower number first, shape (2, links).
    units
        Capacity of each link before and after the damage, shape (2, links).
    """

    node: Ints
    switches: int
    ends: Ints
    units: Floats

    @classmethod
    def of(cls, tree: BlockTree, blocks: Alike, units: Floats) -> "SmallGraph":
        """Put together what is alike, where links have some capacities, shape (2, links)."""
        weight = np.zeros(len(tree.tier), np.int64)
        for tier, stands_for in enumerate(blocks.stands_for[:-1]):
            own = tree.tier == tier
            weight[own] = stands_for[tree.home[own]]
        domains = tree.block.shape[1]
        weight[:domains] *= blocks.itself[0]
        kept = np.all(weight[tree.ends] > 0, axis=0)
        ends = tree.ends[:, kept]
        units = units[:, kept] * weight[ends[0]]
        colour = _colours(ends, units, weight, domains)
        switches = np.unique(colour[domains:])
        itself = np.flatnonzero(weight[:domains])
        number = np.searchsorted(switches, colour)
        number[:domains] = -1
        number[itself] = len(switches) + np.arange(len(itself))
        nodes = len(switches) + len(itself)
        ends = np.sort(number[ends], axis=0)
        apart = ends[0] != ends[1]
        key, place = np.unique(ends[0, apart] * nodes + ends[1, apart], return_inverse=True)
        total = np.stack([sum_by(place, row, len(key)) for row in units[:, apart]])
        return cls(number[:domains], len(switches), np.stack(np.divmod(key, nodes)), total)

    def flows(self, a: int, b: int, most: int) -> tuple[int, int]:
        """Largest flows between two domains before (at most so much) and after, in units."""
        pair = self.node[[a, b]]
        used = (self.ends < self.switches) | (self.ends == pair[0]) | (self.ends == pair[1])
        used = used[0] & used[1]
        source, sink = self.switches, self.switches + 1
        ends = self.ends[:, used]
        ends = np.where(ends == pair[0], source, np.where(ends == pair[1], sink, ends))
        before, after = self.units[:, used]
        left = largest_units(ends, after, source, sink)
        return left if left == most else largest_units(ends, before, source, sink), left


def _colours(ends: Ints, units: Floats, weight: Ints, domains: int) -> Ints:
    """Numbers of nodes, equal where they have equal links to equal nodes; domains are unequal."""
    tail, head = np.concatenate([ends, ends[::-1]], axis=1)
    rates = np.tile(codes(*units.astype(np.int64)), 2)
    kinds = int(rates.max(initial=0)) + 1
    colour = codes(np.append(np.arange(domains), np.full(len(weight) - domains, domains)), weight)
    while True:
        finer = codes(colour, alike(tail, colour[head] * kinds + rates, len(weight)))
        if finer.max(initial=0) == colour.max(initial=0):
            return colour
        colour = finer
