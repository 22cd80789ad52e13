"""What crosses the leaves and pods of a network that blocks, and how much longer that takes.

Ranks fill a network in order: a group of m members, s apart, runs through a block of S = m s
neighbouring HB domains, which it shares with s - 1 others. At each rank, a leaf holds some
neighbours of one block or several (`netplan.levels.Tier`): the end of a block, the beginning of
one, or w neighbours inside of it. Of those w the traffic of so many crosses,

===========  =====================================================================================
ring         min(w, s) - max(0, w - (m-1) s): the last of each group that is not there as a whole
hop          as many, ahead where a block begins, back where it ends, the larger of both
all_to_all   c (m-c) / (m-1) of each group, which has c = floor(w/s) members there, or one more
===========  =====================================================================================

in units of what one member sends. Its port takes V/B for that, the L links out of the leaf take
V/(L B) for each that crosses: with n crossing members on the leaf that has most of them, a
collective takes max(1, n/L) times as long. So a ring of neighbours, of which w lie under a leaf of
oversubscription o, runs at min(1, w/o) of the port rate, and one whose members lie under as many
leaves at 1/o. Of the hops of a pipeline only those that cross are slowed.

Gathers and reductions cross as rings do, whichever algorithm is named. All this holds for pods of
leaves too; the slowest tier counts. Left out: links shared by different collectives; idle GPUs of
a domain, which count as if they worked.
"""

from functools import lru_cache
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.levels import Level, Tier
from netplan.traffic.placement import distinct
from netplan.workloads.operations import CollectiveKind

_Traffic = Literal["ring", "hop", "all_to_all"]

FEW_GROUPS = 32
"""Leaves that are looked at one by one; of more, those inside of a block are told by their size."""


def collective_slowdown(
    kind: CollectiveKind, level: Level, members: Floats, stride: Floats
) -> Floats:
    """How much longer a collective takes where it crosses the leaves of a level [1].

    Examples
    --------
    16 domains of one GPU on leaves of 4 ports and 1 uplink: a ring leaves each by one port in four,
    one whose members lie 4 apart by all of them, which takes four times as long.

    >>> level = Level("switch", 16, 50e9, tiers=(Tier((16, 4), links=1, ranks=1, domains=16),))
    >>> members, stride = np.array([16.0, 4.0]), np.array([1.0, 4.0])
    >>> collective_slowdown("all_gather", level, members, stride)
    array([1., 4.])
    """
    pairs = _Pairs.of(level, members, stride)
    slowest = np.ones(pairs.count)
    for tier in level.tiers:
        what: _Traffic = "all_to_all" if kind == "all_to_all" else "ring"
        np.maximum(slowest, pairs.crossing(tier, what) / tier.links, out=slowest)
    return slowest[pairs.of_group]


def hop_slowdowns(level: Level, stages: Ints, stride: Ints) -> tuple[Floats, Floats]:
    """How much longer transfers between stages take: on average, and those that cross [1].

    Examples
    --------
    Of the 15 hops of 16 stages, two apart, 3 cross from leaf to leaf, by two ports and one uplink.

    >>> level = Level("switch", 32, 50e9, tiers=(Tier((32, 4), links=1, ranks=1, domains=32),))
    >>> sixteen, two = np.array([16]), np.array([2])
    >>> [float(slow[0]) for slow in hop_slowdowns(level, sixteen, two)]
    [1.2, 2.0]
    """
    pairs = _Pairs.of(level, stages, stride)
    mean, slowest = np.ones((2, pairs.count))
    for tier in level.tiers:
        # What crosses a pod crosses a leaf, and pays the slower of the two.
        more = np.maximum(pairs.crossing(tier, "hop") / tier.links - slowest, 0.0)
        mean += pairs.crossing_share(tier) * more
        slowest += more
    return mean[pairs.of_group], slowest[pairs.of_group]


class _Pairs(Struct, frozen=True, eq=False):
    """The different numbers of members and strides among groups, each of shape (pairs,) [1]."""

    size: int
    members: Ints
    stride: Ints
    of_group: Ints

    @classmethod
    def of(cls, level: Level, members: Floats | Ints, stride: Floats | Ints) -> "_Pairs":
        """Find them among the groups of a level."""
        both = np.stack(np.broadcast_arrays(members, stride)).astype(np.int64).reshape(2, -1)
        first, of_group = distinct(both)
        shape = np.broadcast_shapes(np.shape(members), np.shape(stride))
        return cls(level.size, both[0, first], both[1, first], of_group.reshape(shape))

    @property
    def count(self) -> int:
        """How many they are [1]."""
        return len(self.members)

    def crossing(self, tier: Tier, what: _Traffic) -> Floats:
        """Members whose traffic crosses, of the group of the tier with most of them [1]."""
        key = self.members.tobytes(), self.stride.tobytes()
        return _crossing(tier, self.size, what, *key)

    def crossing_share(self, tier: Tier) -> Floats:
        """Share of the hops of all pipelines that cross [1].

        At a border of leaves that lies b endpoints behind the beginning of a block, hops cross from
        min(b, s, S - b) of them; where leaves are equal the b are multiples of a divisor of both.
        """
        several = self.members > 1
        members = np.where(several, self.members, 2)
        ends, groups = tier.spread[0], tier.groups
        width = self.stride * (1 if tier.by_rank else tier.ranks)
        block = width * members
        step = np.gcd(ends // groups, block) if ends % groups == 0 else np.ones_like(block)
        borders, near = block // step, -(-width // step) - 1
        mean = (step * near * (near + 1) + width * (borders - 1 - 2 * near)) / borders
        share = np.minimum(1.0, mean * groups / ends * members / (members - 1))
        return np.where(several, share, 0.0)


@lru_cache(maxsize=128)
def _crossing(tier: Tier, size: int, what: _Traffic, members: bytes, strides: bytes) -> Floats:
    """Crossing members, cached: a search asks for those of the same groups again."""
    m, s = (np.frombuffer(one, dtype=np.int64) for one in (members, strides))
    block = m * s
    group, pair = _at_borders(tier, size, block)
    first, last, gpus = (one[group] for one in tier.parts(size))
    whole = (size // block * block)[pair, None]  # what is left beyond is idle
    each = block[pair, None]
    low, begin = np.divmod(np.minimum(first, whole), each)
    high, end = np.divmod(np.minimum(last, whole), each)
    cut, inside = low < high, (low == high) & (begin > 0)
    lies = m[pair, None], s[pair, None]
    ends, begins, within = (
        (_leaving(what, width, *lies) * gpus).sum(axis=1)
        for width in (
            np.where(cut, each - begin, 0),
            np.where(inside, 0, end),
            np.where(inside, end - begin, 0),
        )
    )
    both = np.maximum(ends, begins) if what == "hop" else ends + begins
    starts = np.searchsorted(pair, np.arange(len(m)))
    found: Floats = np.maximum.reduceat(both + within, starts)
    if tier.groups > FEW_GROUPS:
        found = np.maximum(found, _inside(tier, what, m, s))
    return found


def _at_borders(tier: Tier, size: int, block: Ints) -> tuple[Ints, Ints]:
    """Groups of a tier in which blocks begin or end, and which block size each is of, in order.

    Where there are more blocks than groups, or few groups, all groups are taken.
    """
    starts, bases = tier.starts, tier.bases
    groups = len(starts) - 1
    borders = size // block + 1
    count = np.minimum(borders * len(bases), groups)
    if groups <= FEW_GROUPS:
        count = np.full_like(count, groups)
    pair = np.repeat(np.arange(len(block)), count)
    number = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    rank, border = np.divmod(number, borders[pair])
    width = 1 if tier.by_rank else tier.ranks
    at = bases[np.minimum(rank, len(bases) - 1)] + border * block[pair] * width
    found = np.minimum(np.searchsorted(starts, at, side="right") - 1, groups - 1)
    return np.where(count[pair] == groups, number, found), pair


def _inside(tier: Tier, what: _Traffic, m: Ints, s: Ints) -> Floats:
    """What leaves groups that lie inside of a block: their sizes alone count."""
    sizes = np.unique(np.diff(tier.starts))[:, None]
    if tier.by_rank:
        found = _leaving(what, sizes, m, s)
    else:
        held, more = np.divmod(sizes, tier.ranks)
        found = more * _leaving(what, held + 1, m, s)
        found = found + (tier.ranks - more) * _leaving(what, held, m, s)
    most: Floats = np.max(found, axis=0, where=sizes <= m * s * tier.ranks, initial=0)
    return most


def _leaving(what: _Traffic, width: Ints, m: Ints, s: Ints) -> Floats:
    """Members among neighbours of a block whose traffic leaves them (table of this module)."""
    if what == "all_to_all":
        held, more = np.divmod(width, s)
        pairs = more * (held + 1) * (m - held - 1) + (s - more) * held * (m - held)
        found: Floats = pairs / np.maximum(m - 1, 1)
    else:
        found = np.minimum(width, s) - np.maximum(0.0, width - (m - 1) * s)
    return found
