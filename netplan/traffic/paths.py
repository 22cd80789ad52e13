"""Shortest paths between GPUs: average length and diameter, in links.

A path is counted from GPU to GPU over the network, host links included, with no shortcut inside a
server. The figures are exact: every GPU is a source, 64 at a time, one in each bit of a word, and a
step of the search is one OR per link.

GPUs with the same neighbours are alike: no path changes if one stands for all, so a leaf's GPUs
cost no more than one. What remains is (classes / 64) x links x diameter word operations.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netplan.arrays import Ints
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


@dataclass(frozen=True, slots=True)
class PathStatistics:
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


@dataclass(frozen=True, slots=True, eq=False)
class _Reduced:
    """The graph with one GPU for each class, and each class's size; classes come first."""

    sizes: Ints
    indptr: Ints
    neighbor: Ints


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

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(512, 32, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    >>> statistics = path_statistics(expand(FABRICS.load("fat-tree"), sizing))
    >>> statistics.diameter_links, round(statistics.average_links, 4)
    (4, 3.9413)
    """
    reduced = _reduce(graph, through_domains=through_domains)
    classes = len(reduced.sizes)
    words = -(-classes // WORD_BITS)
    if words * len(reduced.neighbor) > MAX_OPERATIONS:
        raise InputError(
            f"{graph.name}: paths between {classes:,} kinds of GPUs over"
            f" {len(reduced.neighbor) // 2:,} links take too long to count exactly: take a smaller"
            " fabric of the same kind"
        )
    alike = int(np.sum(reduced.sizes * (reduced.sizes - 1)))
    pairs = np.zeros(1, np.int64)
    for first in range(0, classes, MAX_WORDS * WORD_BITS):
        found = _search(reduced, first, min(classes, first + MAX_WORDS * WORD_BITS))
        pairs = _add(pairs, found)
    pairs = _add(pairs, np.array([0] * SAME_NEIGHBOURS + [alike]))
    if int(pairs.sum()) != graph.gpus * (graph.gpus - 1):
        raise InputError(
            f"{graph.name}: some GPUs cannot reach each other over the network"
            + ("" if through_domains else ": count paths through the HB domains too")
        )
    return PathStatistics(tuple(np.trim_zeros(pairs, "b").tolist()))


def _reduce(graph: FabricGraph, *, through_domains: bool) -> _Reduced:
    """Keep one GPU of each class of GPUs with the same neighbours."""
    used = np.ones(graph.link_count, bool)
    if not through_domains and "hb" in graph.group_names:
        used = graph.group != graph.group_names.index("hb")
    ends = np.stack((graph.source[used], graph.target[used])).astype(np.int64)
    # Every link both ways, once: parallel links make no path shorter.
    keys = np.unique(
        np.concatenate((ends[0], ends[1])) * graph.node_count + np.concatenate((ends[1], ends[0]))
    )
    node, neighbor = np.divmod(keys, graph.node_count)
    class_of = _classes(node, neighbor, graph.gpus)
    sizes = np.bincount(class_of)
    number = np.concatenate((class_of, len(sizes) + np.arange(graph.node_count - graph.gpus)))
    keep = np.ones(graph.node_count, bool)
    keep[: graph.gpus] = False
    keep[np.unique(class_of, return_index=True)[1]] = True
    kept = keep[node] & keep[neighbor]
    node, neighbor = number[node[kept]], number[neighbor[kept]]
    order = np.lexsort((neighbor, node))
    nodes = len(sizes) + graph.node_count - graph.gpus
    indptr = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(node, minlength=nodes), out=indptr[1:])
    return _Reduced(sizes, indptr, neighbor[order])


def _classes(node: Ints, neighbor: Ints, gpus: int) -> Ints:
    """Number the classes of GPUs with equal, non-empty sets of neighbours."""
    degree = np.bincount(node, minlength=gpus)[:gpus]
    count = int(degree.sum())  # the GPUs come first among the sorted ends
    place = np.arange(count) - np.repeat(np.cumsum(degree) - degree, degree)
    # A GPU without neighbours is alone in its class: its row holds its own number.
    rows = np.full((gpus, max(1, int(degree.max(initial=0)))), -1, np.int64)
    rows[:, 0] = -2 - np.arange(gpus)
    rows[node[:count], place] = neighbor[:count]
    if rows.shape[1] == 1:
        return np.unique(rows[:, 0], return_inverse=True)[1].reshape(-1)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _search(reduced: _Reduced, first: int, last: int) -> Ints:
    """Ordered pairs by distance from the classes first to last - 1 to all other classes."""
    sources = np.arange(last - first)
    words = -(-len(sources) // WORD_BITS)
    reached = np.zeros((len(reduced.indptr) - 1, words), np.uint64)
    bits = np.uint64(1) << (sources % WORD_BITS).astype(np.uint64)
    reached[first + sources, sources // WORD_BITS] = bits
    weights = reduced.sizes[first:last]
    classes = len(reduced.sizes)
    linked = np.flatnonzero(np.diff(reduced.indptr))
    pairs = [0]
    while True:
        gathered = reached[reduced.neighbor]
        around = np.bitwise_or.reduceat(gathered, reduced.indptr[linked], axis=0)
        fresh = around & ~reached[linked]
        if not fresh.any():
            return np.array(pairs, np.int64)
        reached[linked] |= fresh
        at_gpus = linked < classes
        pairs.append(_count(fresh[at_gpus], reduced.sizes[linked[at_gpus]], weights))


def _count(fresh: Words, target_sizes: Ints, source_sizes: Ints) -> int:
    """GPU pairs that the bits of ``fresh`` (target classes x source words) stand for."""
    place = np.arange(len(source_sizes))
    bits = np.uint64(1) << (place % WORD_BITS).astype(np.uint64)
    total = 0
    # Classes come in few sizes: count the bits between each two of them.
    for source_size in np.unique(source_sizes).tolist():
        chosen = source_sizes == source_size
        mask = np.zeros(fresh.shape[1], np.uint64)
        np.bitwise_or.at(mask, place[chosen] // WORD_BITS, bits[chosen])
        for target_size in np.unique(target_sizes).tolist():
            words = fresh[target_sizes == target_size] & mask
            total += source_size * target_size * _bits_set(words)
    return total


def _bits_set(words: Words) -> int:
    """Bits that are 1 [1]."""
    return int(BITS_IN[words.view(np.uint16)].sum(dtype=np.int64))


def _add(left: Ints, right: Ints) -> Ints:
    """Sum of two counts of different lengths."""
    size = max(len(left), len(right))
    return np.pad(left, (0, size - len(left))) + np.pad(right, (0, size - len(right)))
