"""Blocks of a fabric of switches, one within another, and which of them are alike.

A block of level 0 is an HB domain; one of level k is what the switches up to tier k hold together:
a leaf group, a pod, the fabric. Two blocks within one larger block are *alike* if their switches,
in order, have equal links to each other and to the same switches above, and their inner blocks are
alike, one by one. Then swapping the two changes nothing.
"""

from itertools import pairwise

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Ints
from netplan.topologies.graph import connected_parts
from netplan.traffic.matrix import places

KEPT = 2
"""Blocks of a kind that stay themselves, for pairs between two; others stand together [1]."""

MOST_SPREAD = 8
"""Up to how many times as large as their number values are found in a table [1]."""


def alike(owner: Ints, value: Ints, count: int) -> Ints:
    """Number owners by the values that they have, equal ones equally, shape (count,).

    Examples
    --------
    >>> alike(np.array([0, 0, 1, 3, 3]), np.array([5, 7, 5, 7, 5]), 4).tolist()
    [2, 1, 0, 2]
    """
    ordered = _values_by_owner(owner, value, count)
    size = np.bincount(owner, minlength=count)
    begin = np.cumsum(size) - size
    found = np.zeros(count, np.int64)
    numbers = 0
    for length in np.unique(size).tolist():
        same = np.flatnonzero(size == length)
        rows = ordered[begin[same, None] + np.arange(length)]
        if length:
            # Rows of many columns are compared as bytes, which is much faster.
            row = rows.view(np.dtype((np.void, rows.itemsize * length))).ravel()
            found[same] = np.unique(row, return_inverse=True)[1]
        found[same] += numbers
        numbers = int(found[same].max()) + 1
    return found


def _values_by_owner(owner: Ints, value: Ints, count: int) -> Ints:
    """Values of the first owner in rising order, then those of the next, shape (values,)."""
    base = int(value.max(initial=0)) + 1
    if value.min(initial=0) < 0 or count * base > np.iinfo(np.int64).max:
        return value[np.lexsort((value, owner))]
    # One number for both is sorted several times as fast as two columns.
    found: Ints = np.sort(owner * base + value) % base
    return found


def _ranks(value: Ints) -> tuple[int, Ints]:
    """How many distinct values there are, and the rank of each item's among them."""
    most = int(value.max(initial=0))
    if value.min(initial=0) < 0 or most > MOST_SPREAD * len(value):
        distinct, rank = np.unique(value, return_inverse=True)
        return len(distinct), rank
    # A table takes one look at each item, where sorting takes many.
    seen = np.zeros(most + 1, bool)
    seen[value] = True
    number = np.cumsum(seen) - 1
    return int(number[-1]) + 1, number[value]


def codes(*columns: Ints) -> Ints:
    """Number rows of some columns, equal ones equally, shape (rows,).

    Examples
    --------
    >>> codes(np.array([4, 4, 2, 4]), np.array([0, 1, 0, 0])).tolist()
    [1, 2, 0, 1]
    """
    code = _ranks(columns[0])[1]
    for column in columns[1:]:
        values, place = _ranks(column)
        code = _ranks(code * values + place)[1]
    return code


class Level(Struct, frozen=True, eq=False):
    """Blocks of one level, and the links of which an own switch of theirs is the lower end.

    Parameters
    ----------
    parent
        Block of the next level around each, shape (blocks,).
    owner, link, position
        Block of each of these links; the link; and one number for the place of its lower end in the
        block and of its upper end in the larger one, shape (entries,).
    """

    parent: Ints
    owner: Ints
    link: Ints
    position: Ints


class BlockTree(Struct, frozen=True, eq=False):
    """Blocks of all levels.

    Parameters
    ----------
    tier
        Of each node: 0 for HB domains, which come first; then of switches, shape (nodes,).
    ends
        Lower and upper end of each link, shape (2, links).
    levels
        Blocks of domains, of domains and leaves, and so on.
    home
        Block of each node on the level of its own tier, shape (nodes,).
    block
        Block of each domain on every level, and of the whole, shape (levels + 1, domains).
    """

    tier: Ints
    ends: Ints
    levels: tuple[Level, ...]
    home: Ints
    block: Ints

    @classmethod
    def of(cls, tier: Ints, ends: Ints) -> "BlockTree":
        """Blocks of a graph of nodes of some tiers; ``ends`` of links has shape (2, links)."""
        ends = np.where(tier[ends[0]] <= tier[ends[1]], ends, ends[::-1])
        below, above = tier[ends]
        home, rank = np.zeros((2, len(tier)), np.int64)
        blocks = []
        for top in range(int(tier.max(initial=0)) + 1):
            joined = ends[:, (above <= top) & (top > 0)]
            blocks.append(_of_tiers(connected_parts(len(tier), *joined), tier <= top))
            own = np.flatnonzero(tier == top)
            home[own] = blocks[top][own]
            rank[own] = places(home[own])
        blocks.append(np.zeros(len(tier), np.int64))
        levels = [
            _level((block, around), ends, np.flatnonzero(below == top), (tier, rank))
            for top, (block, around) in enumerate(pairwise(blocks))
        ]
        domains = int(np.count_nonzero(tier == 0))
        return cls(tier, ends, tuple(levels), home, np.stack([block[:domains] for block in blocks]))

    def alike(self, label: Ints) -> "Alike":
        """Blocks that are alike, where equal links have equal labels, shape (links,)."""
        kinds = int(label.max(initial=0)) + 1
        found: list[Ints] = []
        inner: Level | None = None
        for level in self.levels:
            owner, value = level.owner, level.position * kinds + label[level.link]
            if inner is not None:
                base = int(value.max(initial=0)) + 1
                owner = np.concatenate([owner, inner.parent])
                value = np.concatenate([value, base + found[-1]])
            found.append(alike(owner, value, len(level.parent)))
            inner = level
        return Alike.of(self, found)


def _of_tiers(block: Ints, low: Bools) -> Ints:
    """Number blocks anew by the nodes of low tiers; -1 for all other nodes."""
    found = np.full(len(block), -1, np.int64)
    found[low] = np.unique(block[low], return_inverse=True)[1]
    return found


def _level(blocks: tuple[Ints, Ints], ends: Ints, link: Ints, where: tuple[Ints, Ints]) -> Level:
    """Blocks of a level; a link between two domains is one of both, by the other's number."""
    (block, around), (tier, rank) = blocks, where
    direct = np.flatnonzero(tier[ends[1, link]] == 0)
    nodes = np.concatenate([ends[:, link], ends[::-1, link[direct]]], axis=1)
    low, high = nodes
    position = codes(rank[low], tier[high], np.where(tier[high] > 0, rank[high], high))
    inside = block >= 0
    parent = np.zeros(int(block.max(initial=-1)) + 1, np.int64)
    parent[block[inside]] = around[inside]
    return Level(parent, block[low], np.append(link, link[direct]), position)


class Alike(Struct, frozen=True, eq=False):
    """Blocks that are alike, level by level from the domains to the whole.

    Parameters
    ----------
    orbit
        Blocks that swaps take to one another have the same number, shape (blocks,) each.
    stands_for
        How many blocks each stands for [1]: the first ones of a kind for themselves, the next for
        all others, which stand for none, shape (blocks,) each.
    itself
        Whether a block, and every one around it, stands for itself alone, shape (blocks,) each.
    """

    orbit: list[Ints]
    stands_for: list[Ints]
    itself: list[Bools]

    @classmethod
    def of(cls, tree: BlockTree, kinds: list[Ints]) -> "Alike":
        """From the whole down, where blocks of one kind are alike if they are in one block."""
        orbit, stands_for, itself = (
            [np.zeros(1, np.int64)],
            [np.ones(1, np.int64)],
            [np.ones(1, bool)],
        )
        for level, kind in zip(reversed(tree.levels), reversed(kinds), strict=True):
            parent = level.parent
            siblings = codes(parent, kind)
            place = places(siblings)
            others = np.bincount(siblings)[siblings] - KEPT
            here = np.where(place < KEPT, 1, np.where(place == KEPT, others, 0))
            orbit.append(codes(orbit[-1][parent], kind))
            stands_for.append(stands_for[-1][parent] * here)
            itself.append(itself[-1][parent] & (place < KEPT))
        return cls(orbit[::-1], stands_for[::-1], itself[::-1])
