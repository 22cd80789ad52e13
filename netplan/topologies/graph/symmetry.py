"""Equal nodes of a network: classes that keep its flows, and GPUs of which one stands for many.

Two things are certain here, since both are checked in whole numbers once they are found.

*A partition is equitable* if all nodes of a class have the same capacity into each other class, and
from it. Then the largest flow into a node that is a class of its own equals that of the quotient,
whose nodes are the classes and whose arcs hold all the capacity between two of them: a flow of the
network adds up to one of the quotient, and a flow of the quotient spreads over its arcs in
proportion to their capacity. Colour refinement finds such partitions: colours are words, a node's
next one is a hash of its own and of the sum over its arcs, and a round is a product with a matrix.

*An automorphism* renames nodes and finds every link again. GPUs that it maps to each other are
alike, and one of them is enough. Tried are swaps of GPUs with the same links, and shifts of all
GPUs along the structure that their numbers have (ranks of a domain, domains of a leaf, dimensions
of a torus); the switches follow by their hashes. What is not found costs time, never truth.

Source: colour refinement and its fractional isomorphisms, Ramana, Scheinerman and Ullman,
Fractional isomorphism of graphs, Discrete Mathematics 132 (1994).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import gcd, lcm

import numpy as np
from msgspec import Struct
from scipy.sparse import coo_array, csr_array

from netplan.arrays import AnyInts, Codes, Floats, Ints, Words, distinct_values, hash64
from netplan.topologies.graph import MANAGER, MEMORY, FabricGraph, connected_parts

SEED = 20_240_207
WHOLE = 1 << 61
"""Sums of all capacities stay below this: 64 bits hold their doubles."""
RATIO_DENOMINATOR, RATIO_ERROR = 100_000, 1e-12
MAX_RATES = 1000
MAX_STRIDES = 40
MAX_DIVIDED_GPUS = 4096
SHIFT_WORK = 24_000_000
"""Arcs that are looked at for shifts that may be none; what they miss takes flows instead."""


class Quotient(Struct, frozen=True, eq=False):
    """Classes of nodes: class of each, sizes, and capacity between two of them in whole numbers."""

    of: Ints
    sizes: Ints
    tail: Ints
    head: Ints
    capacity: Ints


class NamedColours(Struct, frozen=True, eq=False):
    """Colours of a network whose GPUs each have a name: the same for all that is held against it.

    The names; the sum over all colours after one round; how many rounds they split for, and the
    order of the switches by them.
    """

    names: Words
    once: int
    rounds: int
    order: Ints


class CapacityGraph(Struct, frozen=True, eq=False, dict=True):
    """Who can send how much to whom: GPUs are the nodes 0 to gpus - 1, the others forward.

    Parameters
    ----------
    name, names
        Of the network, and of its nodes.
    gpus
        GPUs [1].
    out
        Capacity from row to column in units, whole numbers, shape (nodes, nodes), each row sorted.
    unit
        One of these numbers [B/s].
    mirrored
        Whether each arc has one of the same capacity back.
    tier
        Height of each node, as graphs count it; only a hint where symmetries lie, shape (nodes,).
    """

    name: str
    names: Sequence[str]
    gpus: int
    out: csr_array
    unit: float
    mirrored: bool
    tier: Codes

    @classmethod
    def of(cls, graph: FabricGraph, *, directed: bool = False) -> "CapacityGraph":
        """Network of a graph: links carry their rate each way, or only from source to target.

        Management hosts and memories forward nothing, and are left out.

        Examples
        --------
        >>> from netplan import Scenario
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=8, radix=8, hb_size=4)
        >>> graph = scenario.fabric("fat-tree").graph()
        >>> network = CapacityGraph.of(graph)
        >>> network.out.toarray()[0].tolist(), network.unit
        ([0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1], 50000000000.0)
        """
        silent = np.isin(graph.node_kind, (MANAGER, MEMORY))
        used = ~(silent[graph.source] | silent[graph.target])
        source, target = graph.source[used], graph.target[used]
        capacity, unit = whole_capacities(graph.bytes_per_s[used])
        if not directed:
            source, target = np.concatenate((source, target)), np.concatenate((target, source))
            capacity = np.concatenate((capacity, capacity))
        shape = (graph.node_count, graph.node_count)
        out = csr_array(coo_array((capacity, (source, target)), shape=shape))
        out.sum_duplicates()
        mirrored = not directed or abs(out - out.T).nnz == 0
        return cls(graph.name, graph.names, graph.gpus, out, unit, mirrored, graph.node_tier)

    @property
    def nodes(self) -> int:
        """Nodes of all kinds [1]."""
        return int(self.out.shape[0])

    @cached_property
    def into(self) -> csr_array:
        """Capacity into each row from the column."""
        if self.mirrored:
            return self.out
        turned = csr_array(self.out.T)
        turned.sort_indices()
        return turned

    @cached_property
    def balanced(self) -> bool:
        """Whether every node that is no GPU can send as much as it takes in."""
        sent, taken = (matrix.sum(axis=1)[self.gpus :] for matrix in (self.out, self.into))
        return self.mirrored or bool((sent == taken).all())

    @property
    def reversed(self) -> "CapacityGraph":
        """The same network with all arcs turned round."""
        if self.mirrored:
            return self
        return CapacityGraph(
            self.name, self.names, self.gpus, self.into, self.unit, False, self.tier
        )

    @cached_property
    def plain_colours(self) -> Words:
        """Colours of GPUs and of all others, shape (nodes,)."""
        return (np.arange(self.nodes) < self.gpus).astype(np.uint64)

    @cached_property
    def named(self) -> NamedColours:
        """Colours if every GPU has its own."""
        names = np.random.default_rng(SEED).integers(0, 1 << 63, self.gpus, dtype=np.uint64)
        colour = np.zeros(self.nodes, np.uint64)
        colour[: self.gpus] = names
        once, _ = self.refined(colour, 1)
        colour, rounds = self.refined(colour)
        order = np.argsort(colour[self.gpus :], kind="stable")
        return NamedColours(names, _total(once), rounds, order)

    def refined(self, colour: Words, rounds: int | None = None) -> tuple[Words, int]:
        """Colours that no further round splits, or those after some rounds; and how many it took.

        Examples
        --------
        On a ring of eight, distances from one GPU.

        >>> network = ring(8)
        >>> alone = network.plain_colours
        >>> alone[0] = 7
        >>> len(np.unique(network.refined(alone)[0])), len(np.unique(network.refined(alone, 1)[0]))
        (5, 3)
        """
        out, into = (_words(matrix) for matrix in (self.out, self.into))
        known, check = 0, 1
        for done in count(1):
            stirred = hash64(colour)
            colour = colour * np.uint64(3) + hash64(out @ stirred)
            if not self.mirrored:
                colour += np.uint64(5) * hash64(into @ stirred)
            colour = hash64(colour)
            if done == rounds:
                return colour, done
            if rounds is None and done == check:
                classes = 1 + int(np.count_nonzero(np.diff(np.sort(colour))))
                if classes == known:
                    return colour, done
                known, check = classes, done + max(1, done // 2)
        raise AssertionError  # pragma: no cover - count has no end

    def quotient(self, sink: int) -> Quotient:
        """Equitable classes of which the sink is one alone; single nodes if none are found."""
        colour = self.plain_colours.copy()
        colour[sink] = 2
        refined, _ = self.refined(colour)
        _, first, of = np.unique(refined, return_index=True, return_inverse=True)
        rows = self._into_classes(of, first, self.out)
        if rows is None or (not self.mirrored and self._into_classes(of, first, self.into) is None):
            of, rows = np.arange(self.nodes), self.out
        sizes = np.bincount(of)
        arcs = rows.tocoo()
        return Quotient(of, sizes, arcs.row, arcs.col, arcs.data * sizes[arcs.row])

    def _into_classes(self, of: Ints, first: Ints, out: csr_array) -> csr_array | None:
        """Capacity of one node of each class into each class; None if those of a class differ."""
        members = csr_array((np.ones(len(of), np.int64), of, np.arange(len(of) + 1)))
        rows = out @ members
        rows.sort_indices()
        of_first = rows[first]
        lengths = np.diff(rows.indptr)
        if not np.array_equal(lengths, np.diff(of_first.indptr)[of]):
            return None
        place = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1] - of_first.indptr[of], lengths)
        same = np.array_equal(rows.indices, of_first.indices[place]) and np.array_equal(
            rows.data, of_first.data[place]
        )
        return of_first if same else None


def ring(gpus: int, bytes_per_s: float = 50e9) -> CapacityGraph:
    """A ring of GPUs whose links carry so much each way [B/s].

    Examples
    --------
    >>> ring(4).out.toarray()[0].tolist()
    [0, 1, 0, 1]
    """
    here = np.arange(gpus)
    there = np.roll(here, -1)
    ends = np.concatenate((here, there)), np.concatenate((there, here))
    out = csr_array(coo_array((np.ones(2 * gpus, np.int64), ends), shape=(gpus, gpus)))
    out.sum_duplicates()
    names, tier = [f"gpu-{g}" for g in here], np.zeros(gpus, np.int8)
    return CapacityGraph(f"ring of {gpus}", names, gpus, out, bytes_per_s, True, tier)


def whole_capacities(bytes_per_s: Floats) -> tuple[Ints, float]:
    """Rates in whole numbers of a unit [B/s], exactly wherever they are in simple proportion.

    Rates within 1e-12 of ratios of small numbers are taken for these; others are rounded to about
    the twelfth digit of the largest.

    Examples
    --------
    >>> whole_capacities(np.array([450e9, 50e9, 50e9 / 6]))
    (array([54,  6,  1]), 8333333333.333333)
    """
    largest, arcs = float(bytes_per_s.max()), 4 * len(bytes_per_s)
    rates, place = np.unique(bytes_per_s, return_inverse=True)
    if len(rates) <= MAX_RATES:
        near = [Fraction(r / largest).limit_denominator(RATIO_DENOMINATOR) for r in rates.tolist()]
        close = np.abs(np.array([float(ratio) for ratio in near]) * largest - rates)
        scale = lcm(*(ratio.denominator for ratio in near))
        whole = [int(ratio * scale) for ratio in near]
        common = gcd(*whole)
        if (close <= RATIO_ERROR * rates).all() and scale // common * arcs < WHOLE:
            unit = largest / scale * common
            return np.array([ratio // common for ratio in whole], np.int64)[place], unit
    unit = largest * arcs / WHOLE
    return np.maximum(1, np.rint(bytes_per_s / unit)).astype(np.int64), unit


def representatives(network: CapacityGraph) -> tuple[Ints, Ints]:
    """GPUs that stand for all others, and of each GPU which one does (its place in that list).

    Examples
    --------
    >>> representatives(ring(6))
    (array([0]), array([0, 0, 0, 0, 0, 0]))
    """
    gpus = np.arange(network.gpus)
    colour = network.refined(network.plain_colours)[0][: network.gpus]
    classes, alike = len(distinct_values(colour)), gpus
    for tried, image in enumerate(_shifts(network, colour)):
        if np.count_nonzero(alike == gpus) == classes or tried * network.out.nnz > SHIFT_WORK:
            break
        moved = automorphism(network, image)
        if moved is not None:
            alike = _joined(network.gpus, (gpus, alike), (gpus, moved[: network.gpus]))
    if np.count_nonzero(alike == gpus) > classes:
        alike = _joined(network.gpus, (gpus, alike), (gpus, _same_links(network)))
    first, of = np.unique(alike, return_inverse=True)
    return first, of


def automorphism(network: CapacityGraph, image: AnyInts) -> Ints | None:
    """Extend an image of the GPUs to all nodes, such that each arc is one again; None if it fails.

    Examples
    --------
    >>> automorphism(ring(4), np.array([1, 2, 3, 0])), automorphism(ring(4), np.array([1, 0, 2, 3]))
    (array([1, 2, 3, 0]), None)
    """
    gpus, known = network.gpus, network.named
    colour = np.zeros(network.nodes, np.uint64)
    colour[image] = known.names
    once, _ = network.refined(colour, 1)
    if _total(once) != known.once:  # most that fail do so at once
        return None
    colour, _ = network.refined(colour, known.rounds)
    image_of = np.empty(network.nodes, np.int64)
    image_of[:gpus] = image
    # Equal switches keep their order: planes of them stay together.
    image_of[gpus + known.order] = gpus + np.argsort(colour[gpus:], kind="stable")
    back = np.empty_like(image_of)
    back[image_of] = np.arange(network.nodes)
    moved = network.out[back]
    if not np.array_equal(moved.indptr, network.out.indptr):
        return None
    moved.indices = image_of[moved.indices].astype(moved.indices.dtype)
    moved.has_sorted_indices = False
    moved.sort_indices()
    same = np.array_equal(moved.indices, network.out.indices) and np.array_equal(
        moved.data, network.out.data
    )
    return image_of if same else None


def _words(matrix: csr_array) -> csr_array:
    """The same matrix in unsigned words, whose sums may run over."""
    return csr_array((matrix.data.view(np.uint64), matrix.indices, matrix.indptr), matrix.shape)


def _total(words: Words) -> int:
    """A number that does not depend on the order of words."""
    return int(hash64(words).sum(dtype=np.uint64))


def _joined(nodes: int, *pairs: tuple[Ints, Ints]) -> Ints:
    """First node of the part in which pairs put each node."""
    source, target = (np.concatenate(side) for side in zip(*pairs, strict=True))
    part = connected_parts(nodes, source, target)
    return np.unique(part, return_index=True)[1][part]


def _same_links(network: CapacityGraph) -> Ints:
    """Number of each GPU, or of the first one with the same links in and out."""
    names = np.random.default_rng(SEED).integers(0, 1 << 63, network.nodes, dtype=np.uint64)
    word = hash64(_words(network.out) @ names) + _words(network.into) @ names
    _, first, of = np.unique(word[: network.gpus], return_index=True, return_inverse=True)
    same = first[of]
    for rows in (network.out, network.into):
        if abs(rows[: network.gpus] - rows[same]).nnz:
            return np.arange(network.gpus)
    return same


def _shifts(network: CapacityGraph, colour: Words) -> Iterator[Ints]:
    """Images of the GPUs if blocks that look alike take each other's places, within larger ones."""
    blocks = _blocks(network)
    pairs = [
        (low, high)
        for high in range(len(blocks))
        for low in range(high)
        if np.isin(blocks[high], blocks[low], assume_unique=True).all()
    ]
    # Neighbours in the list first: they are the levels of the structure.
    pairs.sort(key=lambda pair: (pair[1] - pair[0], pair[0]))
    seen = set()
    for small, large in pairs:
        image = _shifted(colour, blocks[small], blocks[large])
        if image.tobytes() not in seen:
            seen.add(image.tobytes())
            yield image


def _shifted(colour: Words, small: Ints, large: Ints) -> Ints:
    """Image of each GPU if the blocks of one partition move on by one, within those of another.

    Partitions are given by the first GPU of every block. Blocks whose GPUs have other colours stay
    out of it: the last one, partly filled, stays.

    >>> colour = np.array([1, 1, 1, 1, 1, 1, 5], np.uint64)
    >>> _shifted(colour, np.arange(0, 7, 2), np.array([0]))
    array([2, 3, 4, 5, 0, 1, 6])
    """
    gpus = np.arange(len(colour))
    block = np.searchsorted(small, gpus, side="right") - 1
    place = gpus - small[block]
    word = np.zeros(len(small), np.uint64)
    np.add.at(word, block, hash64(colour + hash64(place.astype(np.uint64))))
    around = np.searchsorted(large, small, side="right")
    order = np.lexsort((word, around))
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(around[order]) != 0) | (word[order][1:] != word[order][:-1])
    start = np.flatnonzero(first)
    follower = np.arange(1, len(order) + 1)
    follower[np.append(start[1:], len(order)) - 1] = start
    moved = np.empty_like(order)
    moved[order] = order[follower]
    return small[moved[block]] + place


def _blocks(network: CapacityGraph) -> list[Ints]:
    """Partitions of the GPUs in blocks of neighbours, from single ones to all: first of each."""
    gpus, nodes, arcs = network.gpus, np.arange(network.nodes), network.out.tocoo()
    direct = (arcs.row < gpus) & (arcs.col < gpus)
    strides = {*distinct_values(np.abs(arcs.row - arcs.col)[direct])[:MAX_STRIDES].tolist()}
    if gpus <= MAX_DIVIDED_GPUS:
        strides |= {n for n in range(1, gpus + 1) if gpus % n == 0}
    lowest, fresh = np.where(nodes < gpus, nodes, gpus), nodes < gpus
    while fresh.any():  # wave by wave: a switch has the GPUs of all that reach it first
        up = fresh[arcs.row] & (lowest[arcs.col] == gpus)
        fresh = np.zeros(network.nodes, bool)
        fresh[arcs.col[up]] = True
        np.minimum.at(lowest, arcs.col[up], lowest[arcs.row[up]])
    partitions = [nodes[:1], nodes[:gpus]]
    for tier in distinct_values(network.tier[gpus:]):
        first = distinct_values(lowest[gpus:][network.tier[gpus:] == tier])
        first = first[first < gpus]
        strides |= {*np.diff(first)[:1].tolist()}
        # Rails of a domain begin one GPU apart, and still lie in the same blocks.
        finer = max((partition for partition in partitions if len(partition) < gpus), key=len)
        finer = finer if len(finer) > 1 else nodes[:gpus]
        partitions += [
            first,
            distinct_values(finer[np.searchsorted(finer, first, side="right") - 1]),
        ]
    # Managers have no GPUs below.
    partitions = [partition for partition in partitions if len(partition) and partition[0] == 0]
    partitions += [np.arange(0, gpus, stride) for stride in strides if 0 < stride < gpus]
    known = {partition.tobytes(): partition for partition in partitions}
    return sorted(known.values(), key=lambda partition: (-len(partition), partition.tobytes()))
