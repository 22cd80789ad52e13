"""Classes of pairs of HB domains between which a damaged fabric carries equally much.

The class of a pair is the smallest block that holds both domains, and the place of each in it, but
for swaps of blocks that are alike (`netplan.faults.blocks`). Links are compared by their rates
before and after the damage, so that all pairs of a class had equally much before it, too. One pair
stands for its class; nothing is estimated. Where there is one tier of switches, or none, no block
is like another: there switches are put together that no smallest cut parts
(`netplan.faults.joined`). Where classes are many, bounds that take one flow a domain settle most of
them (`netplan.faults.spread`).

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
from functools import lru_cache
from operator import itemgetter

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.faults.blocks import Alike, BlockTree, alike, codes
from netplan.faults.flows import FlowNetwork
from netplan.faults.spread import PairGraph
from netplan.traffic.matrix import sum_by

MAX_ENDS = 2048
"""Domains that stand for all others up to which their pairs are formed [1]."""

MAX_FLOWS = 300
"""Classes whose flows are computed at the most [1]."""

FEW_CLASSES = 200
"""Classes up to which no fewer are looked for, and no bounds [1]."""


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


class PairFlows(Struct, frozen=True, eq=False):
    """Largest flows of pairs of domains before and after a damage.

    Parameters
    ----------
    classes
        Pairs, each of which stands for some.
    least, most
        What flows at least and at most before and after, in units, shape (2, classes); the same
        where the flow is known.
    """

    classes: PairClasses
    least: Ints
    most: Ints

    def shares(self) -> tuple[Floats, Floats]:
        """What is left at least and at most [1]; of nothing, all is left, shape (classes,)."""
        return _share(self.least[1], self.most[0]), _share(self.most[1], self.least[0])


def _share(after: Ints, before: Ints) -> Floats:
    """What is left of flows [1], at most 1."""
    left = after / np.where(before > 0, before, 1)
    share: Floats = np.where(before > 0, np.minimum(left, 1.0), 1.0)
    return share


def class_flows(before: FlowNetwork, after: FlowNetwork) -> PairFlows | None:
    """Classes of all pairs, and the largest flow of each before and after the damage.

    None where too many domains stand for themselves.

    Examples
    --------
    Domain 3 has lost one of eight ports: 15 pairs have seven units left, the others eight.

    >>> from netplan import Scenario
    >>> from netplan.faults.flows import reduced_graph
    >>> from netplan.faults.scenario import parse_faults
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=128, radix=16)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> network = reduced_graph(graph)
    >>> flows = class_flows(network.intact, network.left(parse_faults(["gpu-30"], graph)))
    >>> fewer = flows.most[1] < flows.least[0]
    >>> pairs = flows.classes.pairs
    >>> int(pairs.sum()), int(pairs[fewer].sum()), flows.least.min(axis=1)
    (120, 15, array([8, 7]))
    """
    intact = _intact_flows(before)
    left = intact if after is before else ClassFlows.of(before, after, intact)
    if intact is None or left is None:
        return None
    had = intact.between(left.classes)
    left.settle(*had)
    return PairFlows(left.classes, *np.stack((had, (left.least, left.most)), axis=1))


class ClassFlows(Struct, frozen=True, eq=False):
    """Classes of all pairs of domains, and the largest flow of each.

    Parameters
    ----------
    tree, blocks
        Blocks of the fabric, and which of them are alike.
    classes
        Pairs that stand for all.
    graph
        The graph on which flows are found.
    least, most
        What flows at least and at most in each class, in units, shape (classes,).
    """

    tree: BlockTree
    blocks: Alike
    classes: PairClasses
    graph: "SmallGraph"
    least: Ints
    most: Ints

    @classmethod
    def of(
        cls, before: FlowNetwork, after: FlowNetwork, intact: "ClassFlows | None" = None
    ) -> "ClassFlows | None":
        """Bounds of flows after a damage; pairs of a class had equally much before, too."""
        found: list[tuple[int, BlockTree, Alike, Floats, PairClasses]] = []
        for tree, units in _trees(before, after):
            blocks = tree.alike(codes(*units.astype(np.int64)))
            classes = form_classes(tree, blocks)
            if classes is not None:
                found.append((len(classes.first), tree, blocks, units[1], classes))
                if len(classes.first) <= FEW_CLASSES:
                    break
        if not found:
            return None
        count, tree, blocks, left, classes = min(found, key=itemgetter(0))
        small = SmallGraph.of(tree, blocks, left)
        pairs = small.node[classes.first], small.node[classes.second]
        least, most = small.graph.met(*pairs)
        if intact is not None:
            lost = after.lost_units(classes.first, classes.second)
            least = np.maximum(least, intact.between(classes)[0] - lost)
        if count > FEW_CLASSES and not np.array_equal(least, most):
            bounds = small.graph.flows(*pairs, intact.graph.graph if intact else None)
            least, most = np.maximum(least, bounds[0]), np.minimum(most, bounds[1])
        return cls(tree, blocks, classes, small, least, most)

    def settle(self, had_least: Ints, had_most: Ints) -> None:
        """Compute flows that bounds leave open: all, or of too many those that may be the worst.

        The worst is that which has the smallest share left of what it had, in units.
        """
        low = _share(self.least, had_most)
        worst = float(_share(self.most, had_least).min(initial=1.0))
        left_open = np.flatnonzero(self.least < self.most)
        every = len(left_open) <= MAX_FLOWS
        for one in left_open[np.argsort(low[left_open], kind="stable")][:MAX_FLOWS].tolist():
            if not every and low[one] >= worst:
                break
            pair = int(self.classes.first[one]), int(self.classes.second[one])
            self.least[one] = self.most[one] = self.graph.flow(*pair)
            worst = min(worst, float(_share(self.most[one], had_least[one])))

    def between(self, classes: PairClasses) -> tuple[Ints, Ints]:
        """What flows at least and at most between other pairs, in units."""
        own = class_codes(self.tree, self.blocks, self.classes.first, self.classes.second)
        asked = class_codes(self.tree, self.blocks, classes.first, classes.second)
        place = np.searchsorted(own, asked)
        return self.least[place], self.most[place]


@lru_cache(maxsize=1)
def _intact_flows(before: FlowNetwork) -> ClassFlows | None:
    """Flows of an intact fabric, which all of its damages are put beside."""
    intact = ClassFlows.of(before, before)
    if intact is not None:
        intact.settle(intact.most.copy(), intact.most.copy())
    return intact


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
    """Classes of all pairs of domains; None where too many domains stand for themselves.

    Examples
    --------
    Eight domains under four leaves of one spine: 4 pairs share a leaf, 24 do not.

    >>> domain, leaf = np.arange(8), 8 + np.arange(8) // 2
    >>> ends = np.stack((np.append(domain, np.arange(8, 12)), np.append(leaf, np.full(4, 12))))
    >>> tree = BlockTree.of(np.repeat([0, 1, 2], [8, 4, 1]), ends)
    >>> form_classes(tree, tree.alike(np.zeros(12, int))).pairs.tolist()
    [4, 24]
    """
    ends = np.flatnonzero(blocks.itself[0])
    if len(ends) > MAX_ENDS:
        return None
    one, two = (ends[at] for at in np.triu_indices(len(ends), 1))
    chosen = np.unique(class_codes(tree, blocks, one, two), return_index=True)[1]
    one, two = one[chosen], two[chosen]
    level, orbit = _smallest_block(tree, one, two), _orbits(tree, blocks)
    sizes = [np.bincount(numbers) for numbers in blocks.orbit]
    size = np.stack([of[numbers] for of, numbers in zip(sizes, orbit, strict=True)])
    # Of `around` blocks like theirs, each has `inner` like the one that holds the first domain.
    around = size[level, one]
    inner = size[level - 1, one] // around
    pairs = size[0, one] * size[0, two] // around
    both = orbit[level - 1, one] == orbit[level - 1, two]
    pairs = np.where(both, pairs // inner * (inner - 1), pairs)
    return PairClasses(one, two, np.where(orbit[0, one] == orbit[0, two], pairs // 2, pairs))


def class_codes(tree: BlockTree, blocks: Alike, one: Ints, two: Ints) -> Ints:
    """Numbers of pairs of domains, equal for those of one class, shape (pairs,)."""
    level, orbit = _smallest_block(tree, one, two), _orbits(tree, blocks)
    base, places = int(orbit.max(initial=0)) + 1, np.sort(orbit[0][np.stack((one, two))], axis=0)
    code: Ints = ((level * base + orbit[level, one]) * base + places[0]) * base + places[1]
    return code


def _smallest_block(tree: BlockTree, one: Ints, two: Ints) -> Ints:
    """Level of the smallest block that holds both domains, shape (pairs,)."""
    level: Ints = np.argmax(tree.block[:, one] == tree.block[:, two], axis=0)
    return level


def _orbits(tree: BlockTree, blocks: Alike) -> Ints:
    """Number of the block of each domain on every level, equal for like ones (levels, domains)."""
    return np.stack([of[block] for of, block in zip(blocks.orbit, tree.block, strict=True)])


class SmallGraph(Struct, frozen=True, eq=False):
    """A fabric with like switches put together, and the domains that stand for all.

    Parameters
    ----------
    node
        Number of each domain in the graph, -1 for those that others stand for, shape (domains,).
    graph
        Switches and domains.
    """

    node: Ints
    graph: PairGraph

    @classmethod
    def of(cls, tree: BlockTree, blocks: Alike, units: Floats) -> "SmallGraph":
        """Put together what is alike, where links have some capacities, shape (links,)."""
        weight = np.zeros(len(tree.tier), np.int64)
        for tier, stands_for in enumerate(blocks.stands_for[:-1]):
            own = tree.tier == tier
            weight[own] = stands_for[tree.home[own]]
        domains = tree.block.shape[1]
        weight[:domains] *= blocks.itself[0]
        kept = np.flatnonzero(weight)
        itself = int(np.searchsorted(kept, domains))
        node = np.full(len(weight), -1)
        node[kept] = np.arange(len(kept))
        links = np.flatnonzero((node[tree.ends] >= 0).all(axis=0))
        ends, units = node[tree.ends[:, links]], units[links] * weight[tree.ends[0, links]]
        colour = _colours(ends, units, weight[kept], itself)
        # Domains have the first colours, each its own; here they come last, and no damage changes
        # in which order.
        first = np.unique(colour, return_index=True)[1]
        nodes = len(first)
        number = (np.argsort(np.argsort(first))[colour] - itself) % nodes
        ends = np.sort(number[ends], axis=0)
        apart = ends[0] != ends[1]
        key, place = np.unique(ends[0, apart] * nodes + ends[1, apart], return_inverse=True)
        total = sum_by(place, units[apart], len(key))
        tiers = np.zeros(nodes, np.int64)
        tiers[number] = tree.tier[kept]
        graph = PairGraph(tiers[: nodes - itself], itself, np.stack(np.divmod(key, nodes)), total)
        own = kept[:itself]
        node[own] = number[:itself] - (nodes - itself)
        return cls(node[:domains], graph)

    def flow(self, a: int, b: int) -> int:
        """Largest flow between two domains, in units."""
        return self.graph.flow(int(self.node[a]), int(self.node[b]))


def _colours(ends: Ints, units: Floats, weight: Ints, domains: int) -> Ints:
    """Numbers of nodes, equal where they have equal links to equal nodes; domains are unequal."""
    tail, head = np.concatenate([ends, ends[::-1]], axis=1)
    rates = np.tile(codes(units.astype(np.int64)), 2)
    kinds = int(rates.max(initial=0)) + 1
    colour = codes(np.append(np.arange(domains), np.full(len(weight) - domains, domains)), weight)
    while True:
        finer = codes(colour, alike(tail, colour[head] * kinds + rates, len(weight)))
        if finer.max(initial=0) == colour.max(initial=0):
            return colour
        colour = finer
