"""Where the nodes of a directed graph stand: in layers, neighbours near each other.

Each node stands in a given layer, and an edge leads through all layers between its ends, where it
keeps a place of its own (a *bend*), so that it passes no node. Nodes and bends go to the mean place
of their neighbours (barycentre), layer by layer, down and up in turns: that orders them, and the
places nearest to those means that keep their distance (isotonic regression by pooling neighbours)
are taken. Of all rounds the one with the shortest edges counts.

Source: Sugiyama, Tagawa and Toda, Methods for visual understanding of hierarchical system
structures (IEEE Trans. SMC 11, 1981).
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints

ROUNDS = 24
"""Rounds down and up [1]."""

MAX_BENDS = 4_000
"""Bends up to which edges have any; of larger graphs they are straight [1]."""

BEND_GAP = 0.35
"""Distance of a bend to its right neighbour, where that of a node is 1 [1]."""


class LayeredDrawing(Struct, frozen=True, eq=False):
    """Places across the layers.

    Parameters
    ----------
    across
        Of each node, 0 or more, shape (nodes,).
    edges
        Of each edge, of its source, bends and target, with their layers.
    """

    across: Floats
    edges: tuple[tuple[tuple[float, int], ...], ...]

    @property
    def width(self) -> float:
        """The place furthest from the left."""
        bends = (across for way in self.edges for across, _ in way)
        return max([*self.across.tolist(), *bends], default=0.0)

    def moved(self, by: float) -> "LayeredDrawing":
        """The same further to the right."""
        edges = tuple(tuple((across + by, layer) for across, layer in way) for way in self.edges)
        return LayeredDrawing(self.across + by, edges)


def layered_drawing(layer: Ints, source: Ints, target: Ints) -> LayeredDrawing:
    """Places for nodes in layers, given edges that lead to later layers.

    Examples
    --------
    A diamond: both ways lie beside its ends.

    >>> found = layered_drawing(
    ...     np.array([0, 1, 1, 2]), np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3])
    ... )
    >>> found.across.tolist()
    [0.5, 0.0, 1.0, 0.5]
    """
    chains = _chains(layer, source, target)
    level = np.array([*layer.tolist(), *(bend for _, bends in chains for bend in bends)], np.int64)
    first, ways = len(layer), []
    for (start, bends), end in zip(chains, target.tolist(), strict=True):
        ways.append((start, *range(first, first + len(bends)), end))
        first += len(bends)
    pairs = [pair for way in ways for pair in pairwise(way)]
    x = _places(level, pairs, len(layer))
    edges = tuple(tuple((float(x[node]), int(level[node])) for node in way) for way in ways)
    return LayeredDrawing(x[: len(layer)], edges)


def _chains(layer: Ints, source: Ints, target: Ints) -> list[tuple[int, range]]:
    """Source of each edge, and the layers of its bends."""
    ends = zip(source.tolist(), layer[source].tolist(), layer[target].tolist(), strict=True)
    chains = [(start, range(high + 1, low)) for start, high, low in ends]
    if sum(len(bends) for _, bends in chains) > MAX_BENDS:
        return [(start, range(0)) for start, _ in chains]
    return chains


def _places(level: Ints, pairs: Sequence[tuple[int, int]], nodes: int) -> Floats:
    """Places of nodes and bends, of all rounds those with the shortest edges."""
    above: list[list[int]] = [[] for _ in level]
    below: list[list[int]] = [[] for _ in level]
    for high, low in pairs:
        above[low].append(high)
        below[high].append(low)
    rows = [np.flatnonzero(level == number).tolist() for number in np.unique(level).tolist()]
    gap = np.where(np.arange(len(level)) < nodes, 1.0, BEND_GAP)
    x = np.zeros(len(level))
    for row in rows:
        x[row] = np.arange(len(row))
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    given, best, shortest = x.copy(), x, np.inf
    for turn in range(ROUNDS):
        near, order = (below, rows[::-1]) if turn % 2 else (above, rows)
        if turn >= ROUNDS // 2:  # the order is found: both sides say where
            near = [[*higher, *lower] for higher, lower in zip(above, below, strict=True)]
        for row in order:
            want = [float(np.mean(x[near[node]])) if near[node] else float(x[node]) for node in row]
            ranked = [row[node] for node in np.argsort(want, kind="stable").tolist()]
            x[ranked] = _apart(np.sort(want), gap[ranked])
        if _length(x, ends) < shortest - 1e-9:
            best, shortest = x.copy(), _length(x, ends)
    best = given if _length(given, ends) < shortest - 1e-9 else best
    return np.asarray(best - best.min(initial=0.0))


def _length(x: Floats, ends: Ints) -> float:
    """How far all edges lead aside [1]."""
    return float(np.abs(x[ends[:, 0]] - x[ends[:, 1]]).sum())


def _apart(want: Floats, gap: Floats) -> Floats:
    """Places nearest to those wanted, in their order, each at least a gap behind the one before.

    >>> _apart(np.array([1.0, 1.0, 5.0]), np.ones(3))
    array([0.5, 1.5, 5. ])
    """
    shift = np.cumsum(gap) - gap
    pooled: list[tuple[float, int]] = []
    for value in (want - shift).tolist():
        mean, count = value, 1
        while pooled and pooled[-1][0] > mean:
            before, many = pooled.pop()
            mean = (before * many + mean * count) / (many + count)
            count += many
        pooled.append((mean, count))
    return np.asarray(shift + np.repeat([mean for mean, _ in pooled], [many for _, many in pooled]))
