"""What crosses the leaves and pods of a network that blocks, and how much longer that takes.

The GPUs that work fill a network in order, rank by rank or domain by domain: with all that idles
left out, they lie on a line (`netplan.levels.Tier.at_work`). A group of m members, s places apart,
runs through a block of m s places, which it shares with s - 1 others; the line is one block after
the other. Of w neighbours of one block, at its end, its beginning or inside of it, the traffic of
so many members leaves them,

===========  =====================================================================================
ring         min(w, s) - max(0, w - (m-1) s): the last of each group that is not there as a whole
hop          as many at an end (back) or a beginning (ahead), the larger of both; d places from the
             nearer one, if that is less, max(0, min(d, d + w - s))
all_to_all   c (m-c) / (m-1) of each group, which has c = floor(w/s) members there, or one more
===========  =====================================================================================

in units of what one member sends. A port takes V/B for that, the L links out of a leaf V/(L B) for
each that crosses: with n crossing members on the leaf that has most of them, a collective takes
max(1, n/L) times as long. So a ring of neighbours, of which w lie under a leaf of oversubscription
o, runs at min(1, w/o) of the port rate, and one whose members lie under as many leaves at 1/o. Of
the hops of a pipeline only those that cross are slowed.

A leaf holds neighbours of one block, or the end of one and the beginning of another; blocks between
them are there as a whole. What leaves w of a block is as much as leaves the others, and concave in
w: no leaf of w places has more than one that the border of two blocks cuts in its middle.

Gathers and reductions cross as rings do, whichever algorithm is named. All this holds for pods of
leaves too; the slowest tier counts. Left out: links shared by different collectives.
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

LOOK_AT = 16
"""Groups that are looked at first, and how many times more of them after that."""

AT_ONCE = 1 << 18
"""Groups of GPUs times groups of a tier that are looked at together, which bounds the memory."""


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
    pairs = _Pairs.of(members, stride)
    what: _Traffic = "all_to_all" if kind == "all_to_all" else "ring"
    found = _slowdown(level, what, pairs.members.tobytes(), pairs.stride.tobytes())
    return found[pairs.of_group]


@lru_cache(maxsize=128)
def _slowdown(level: Level, what: _Traffic, members: bytes, stride: bytes) -> Floats:
    """How much longer, cached: a gather and a reduction of the same groups cross alike."""
    m, s = (np.frombuffer(one, dtype=np.int64) for one in (members, stride))
    slowest = np.ones(len(m))
    for tier in level.tiers:
        slowest = _slower(tier, what, _Line.of(tier, level.size, m, s), slowest)
    return slowest


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
    pairs = _Pairs.of(stages, stride)
    mean, slowest = np.ones((2, pairs.count))
    for tier in level.tiers:
        # What crosses a pod crosses a leaf, and pays the slower of the two.
        line = _Line.of(tier, level.size, pairs.members, pairs.stride)
        slower = _slower(tier, "hop", line, slowest)
        mean += pairs.crossing_share(tier) * (slower - slowest)
        slowest = slower
    return mean[pairs.of_group], slowest[pairs.of_group]


class _Pairs(Struct, frozen=True, eq=False):
    """The different numbers of members and strides among groups, each of shape (pairs,) [1]."""

    members: Ints
    stride: Ints
    of_group: Ints

    @classmethod
    def of(cls, members: Floats | Ints, stride: Floats | Ints) -> "_Pairs":
        """Find them among groups."""
        both = np.stack(np.broadcast_arrays(members, stride)).astype(np.int64).reshape(2, -1)
        first, of_group = distinct(both)
        shape = np.broadcast_shapes(np.shape(members), np.shape(stride))
        return cls(both[0, first], both[1, first], of_group.reshape(shape))

    @property
    def count(self) -> int:
        """How many they are [1]."""
        return len(self.members)

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


class _Line(Struct, frozen=True, eq=False):
    """How groups of different kinds lie on the line of a tier, each of shape (kinds,) [1].

    ``stride`` places apart are the neighbours of a group, so many ``domains`` hold whole blocks.
    """

    members: Ints
    stride: Ints
    domains: Ints

    @classmethod
    def of(cls, tier: Tier, size: int, members: Ints, stride: Ints) -> "_Line":
        """Lay groups that are so many domains apart on a line; what is left beyond blocks idles."""
        block = members * stride
        each = 1 if tier.by_rank else tier.ranks
        return cls(members, stride * each, size // block * block)

    @property
    def block(self) -> Ints:
        """Places of a block [1]."""
        return self.members * self.stride

    def take(self, index: Ints) -> "_Line":
        """Some of the kinds, as columns: a row has an entry for each."""
        return _Line(*(one[index, None] for one in (self.members, self.stride, self.domains)))

    def leaving(self, what: _Traffic, width: Ints) -> Floats:
        """Members among neighbours of a block whose traffic leaves them (table of this module)."""
        m, s = self.members, self.stride
        if what != "all_to_all":
            ends: Floats = np.minimum(np.minimum(width, s), self.block - width) * 1.0
            return ends
        held, more = np.divmod(width, s)
        pairs = more * (held + 1) * (m - held - 1) + (s - more) * held * (m - held)
        found: Floats = pairs / np.maximum(m - 1, 1)
        return found

    def most(self, what: _Traffic, width: int) -> Floats:
        """The most that can leave a group of so many endpoints: one that is cut in its middle."""
        if what == "hop":
            ends: Floats = np.minimum(width, self.stride) * 1.0
            return ends
        held = np.minimum(width, self.block // 2 * 2)
        return self.leaving(what, held // 2) + self.leaving(what, held - held // 2)


def _slower(tier: Tier, what: _Traffic, line: _Line, slowest: Floats) -> Floats:
    """How much longer the traffic takes, where this is the slowest tier so far [1].

    Few groups of a tier are looked at where one of them has as many crossing members as any can.
    """
    most = line.most(what, int(np.diff(tier.starts).max())) / tier.links
    slower = slowest.copy()
    to_do = np.flatnonzero((line.members > 1) & (most > slower))
    first, last = 0, LOOK_AT
    while first < tier.period and len(to_do):
        groups = slice(first, min(last, tier.period) + 1)
        pieces = 1 + len(to_do) * (last - first) // AT_ONCE
        for some in np.array_split(to_do, pieces):
            found = _crossing(tier, what, line.take(some), groups) / tier.links
            slower[some] = np.maximum(slower[some], found)
        to_do = to_do[slower[to_do] < most[to_do]]
        first, last = last, last * LOOK_AT
    return slower


def _crossing(tier: Tier, what: _Traffic, line: _Line, groups: slice) -> Floats:
    """Members whose traffic crosses, of the group with most of them among some of a tier [1]."""
    at = tier.at_work(line.domains, tier.ranks, groups)
    block, place = np.divmod(at, line.block)
    edges = line.leaving(what, place)
    width = np.diff(at)
    inside = line.leaving(what, width)
    both = edges[:, :-1] + edges[:, 1:]
    if what == "hop":
        far = np.maximum(place[:, :-1], line.block - place[:, 1:])
        inside = np.minimum(inside, np.minimum(far, far + width - line.stride))
        both = np.maximum(edges[:, :-1], edges[:, 1:])
    found: Floats = np.where(block[:, :-1] < block[:, 1:], both, inside).max(axis=1, initial=0)
    return found
