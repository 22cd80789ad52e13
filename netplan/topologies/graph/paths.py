"""Shortest paths between GPUs: average length and diameter, in links.

A path is counted from GPU to GPU over the network, host links included, with no shortcut inside a
server. The figures are exact: every GPU is a source, 64 at a time, one in each bit of a word, and a
step of the search is one OR per link.

GPUs with the same neighbours are alike: no path changes if one stands for all, so a leaf's GPUs
cost no more than one. What remains is (classes / 64) x links x diameter word operations.
"""

from collections import Counter
from itertools import count

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy.sparse import csr_array

from netplan.arrays import Ints, distinct_values
from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph

Words = NDArray[np.uint64]

WORD_BITS = 64
MAX_WORDS = 32
"""Words of sources searched together: enough to amortise a step, small enough for the cache."""

MAX_OPERATIONS = 2e9
"""Word operations of one step of all searches together: about half a minute in all."""

BITS_IN = np.unpackbits(np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1)
BITS_IN = BITS_IN.sum(axis=1, dtype=np.uint8)
"""Bits set in every 16-bit number (numpy counts bits itself only from version 2 on)."""

SAME_NEIGHBOURS = 2
"""Links between two GPUs that share a neighbour."""


class PathStatistics(Struct, frozen=True):
    """Ordered pairs of different GPUs by distance: entry d counts those d links apart [1]."""

    pairs: tuple[int, ...]

    @property
    def average_links(self) -> float:
        """Average length of a shortest path [links]."""
        total = sum(self.pairs)
        return sum(d * count for d, count in enumerate(self.pairs)) / total if total else 0.0

    @property
    def diameter_links(self) -> int:
        """Length of the longest shortest path [links]."""
        return len(self.pairs) - 1


def path_statistics(graph: FabricGraph, *, through_domains: bool = False) -> PathStatistics:
    """Lengths of the shortest paths between all GPUs.

    Parameters
    ----------
    graph
        The fabric.
    through_domains
        Also use the links inside HB domains.

    Raises
    ------
    InputError
        If some GPUs cannot reach each other, or the graph is too large to be exact.

    Examples
    --------
    A two-tier tree: 15 GPUs under the same leaf are 2 links away, all others 4.

    >>> from netplan import Scenario
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=512, radix=32).sizing
    >>> statistics = path_statistics(expand(FABRICS.load("fat-tree"), sizing))
    >>> statistics.diameter_links, round(statistics.average_links, 4)
    (4, 3.9413)
    """
    linked, sizes = _reduce(graph, through_domains=through_domains)
    classes = len(sizes)
    if -(-classes // WORD_BITS) * linked.nnz > MAX_OPERATIONS:
        raise InputError(
            f"{graph.name}: paths between {classes:,} kinds of GPUs over"
            f" {linked.nnz // 2:,} links take too long to count exactly: take a smaller"
            " fabric of the same kind"
        )
    pairs = Counter({SAME_NEIGHBOURS: int(np.sum(sizes * (sizes - 1)))})
    for first in range(0, classes, MAX_WORDS * WORD_BITS):
        pairs.update(_search(linked, sizes, slice(first, first + MAX_WORDS * WORD_BITS)))
    if pairs.total() != graph.gpus * (graph.gpus - 1):
        raise InputError(
            f"{graph.name}: some GPUs cannot reach each other over the network"
            + ("" if through_domains else ": count paths through the HB domains too")
        )
    longest = max((links for links, count in pairs.items() if count), default=-1)
    return PathStatistics(tuple(pairs[links] for links in range(longest + 1)))


def _reduce(graph: FabricGraph, *, through_domains: bool) -> tuple[csr_array, Ints]:
    """Neighbours of one GPU of each class, then of all other nodes; size of each class."""
    used = ~graph.is_role("hb") if not through_domains else np.ones(graph.link_count, bool)
    ends = graph.source[used], graph.target[used]
    both_ways = np.concatenate(ends), np.concatenate(ends[::-1])
    # A matrix holds a pair of nodes once: parallel links make no path shorter.
    entries = np.ones(len(both_ways[0]), bool), both_ways
    linked = csr_array(entries, shape=(graph.node_count, graph.node_count))
    class_of = _classes(linked, graph.gpus)
    _, first, sizes = np.unique(class_of, return_index=True, return_counts=True)
    kept = np.concatenate((first, np.arange(graph.gpus, graph.node_count)))
    return linked[kept][:, kept], sizes


def _classes(linked: csr_array, gpus: int) -> Ints:
    """Number the classes of GPUs with equal, non-empty sets of neighbours."""
    degree = np.diff(linked.indptr[: gpus + 1])
    gpu = np.repeat(np.arange(gpus), degree)
    place = np.arange(len(gpu)) - linked.indptr[gpu]
    # A GPU without neighbours is alone in its class: its row holds its own number.
    rows = np.full((gpus, max(1, int(degree.max(initial=0)))), -1, np.int64)
    rows[:, 0] = -2 - np.arange(gpus)
    rows[gpu, place] = linked.indices[: len(gpu)]
    if rows.shape[1] == 1:
        return np.unique(rows[:, 0], return_inverse=True)[1].reshape(-1)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _search(linked: csr_array, sizes: Ints, chosen: slice) -> Counter[int]:
    """Ordered pairs by distance from some classes to all other classes."""
    weights = sizes[chosen]
    sources = np.arange(len(weights))
    reached: Words = np.zeros((linked.shape[0], -(-len(sources) // WORD_BITS)), np.uint64)
    bits = np.uint64(1) << (sources % WORD_BITS).astype(np.uint64)
    reached[chosen.start + sources, sources // WORD_BITS] = bits
    nodes = np.flatnonzero(np.diff(linked.indptr))
    rows: Ints = linked.indptr[nodes]
    at_gpus = nodes < len(sizes)
    pairs = Counter[int]()
    for distance in count(1):
        gathered = reached[linked.indices]
        around: Words = np.bitwise_or.reduceat(gathered, rows, axis=0)
        fresh = around & ~reached[nodes]
        if not fresh.any():
            break
        reached[nodes] |= fresh
        pairs[distance] = _count(fresh[at_gpus], sizes[nodes[at_gpus]], weights)
    return pairs


def _count(fresh: Words, target_sizes: Ints, source_sizes: Ints) -> int:
    """GPU pairs that the bits of ``fresh`` (target classes x source words) stand for."""
    place = np.arange(len(source_sizes))
    bits = np.uint64(1) << (place % WORD_BITS).astype(np.uint64)
    total = 0
    # Classes come in few sizes: count the bits between each two of them.
    for source_size in distinct_values(source_sizes).tolist():
        chosen = source_sizes == source_size
        mask = np.zeros(fresh.shape[1], np.uint64)
        np.bitwise_or.at(mask, place[chosen] // WORD_BITS, bits[chosen])
        for target_size in distinct_values(target_sizes).tolist():
            words = fresh[target_sizes == target_size] & mask
            bits_set = BITS_IN[words.view(np.uint16)].sum(dtype=np.int64)
            total += source_size * target_size * int(bits_set)
    return total
