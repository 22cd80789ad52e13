"""What crosses the leaves and pods of a network that blocks, and how much longer that takes.

The GPUs that work fill a network in order, rank by rank or domain by domain: with all that idles
left out, they lie on a line (`netplan.levels.Tier.at_work`). A group of m members, s places apart,
runs through a block of m s places, which it shares with s - 1 others; the line is one block after
the other. Of w neighbours of one block, at its end, its beginning or inside of it, the traffic of
so many members leaves them,

===========  =====================================================================================
ring         min(w, s) - max(0, w - (m-1) s): the last of each group that is not there as a whole
hop          as many at an end (back) or a beginning (ahead), the larger of both; inside, d places
             from the farther one, no more than min(d, d + w - s)
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
leaves too; the slowest tier counts. Left out: links shared by different collectives, and idle GPUs
where a search times one layer for many plans, of which some leave none idle.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from netplan.arrays import Amount, Counts, Floats, Ints
from netplan.levels import Level, Tier
from netplan.workloads.operations import CollectiveKind

_Traffic = Literal["ring", "hop", "all_to_all"]

LOOK_AT = 16
"""Groups that are looked at first, and how many times more of them after that."""

AT_ONCE = 1 << 18
"""Groups of GPUs times groups of a tier that are looked at together, which bounds the memory."""


class Working(NamedTuple):
    """Members at work, of any group: ranks of an HB domain, and domains of a level [1]."""

    ranks: Ints
    domains: Ints


def collective_slowdown(
    kind: CollectiveKind,
    level: Level,
    members: Floats,
    stride: Floats,
    working: Working | None = None,
) -> Floats:
    """How much longer a collective takes where it crosses the leaves of a level [1].

    All GPUs work, if nothing else is said; those that are left beyond whole groups do not.

    Examples
    --------
    16 domains of one GPU on leaves of 4 ports and 1 uplink: a ring leaves each by one port in four,
    one whose members lie 4 apart by all of them, which takes four times as long.

    >>> level = Level("switch", 16, 50e9, tiers=(Tier((16, 4), links=1, ranks=1, domains=16),))
    >>> members, stride = np.array([16.0, 4.0]), np.array([1.0, 4.0])
    >>> collective_slowdown("all_gather", level, members, stride)
    array([1., 4.])
    """
    groups = _groups(members, stride, *(working or (level.tiers[0].ranks, level.size)))
    what: _Traffic = "all_to_all" if kind == "all_to_all" else "ring"
    return _slowdown(level, what, groups.tobytes()).reshape(groups.shape[1:])


@lru_cache(maxsize=128)
def _slowdown(level: Level, what: _Traffic, groups: bytes) -> Floats:
    """How much longer, cached: a gather and a reduction of the same groups cross alike."""
    rows = np.frombuffer(groups, dtype=np.int64).reshape(4, -1)
    slowest = np.ones(rows.shape[1])
    for tier in level.tiers:
        slowest = _slower(tier, what, _Line.of(tier, rows), slowest)
    first = level.tiers[0]
    if what == "all_to_all" and first.pair_links:
        direct = _Line.of(first, rows).direct(first)
        slowest = np.minimum(slowest, np.maximum(1.0, direct))
    return slowest


def hop_slowdowns(
    level: Level,
    stages: Ints,
    stride: Ints,
    working: Working | None = None,
    *,
    inside: Ints | int = 1,
) -> tuple[Floats, Floats]:
    """How much longer transfers between stages take: on average, and those that cross [1].

    Of ``inside`` stages of a pipeline in each domain one sends to the next domain, and so does one
    in as many of its GPUs. Where a leaf may hold those alone that send, all count: the time is too
    long then by a factor of up to ``inside``.

    Examples
    --------
    Of the 15 hops of 16 stages, two apart, 3 cross from leaf to leaf, by two ports and one uplink.

    >>> level = Level("switch", 32, 50e9, tiers=(Tier((32, 4), links=1, ranks=1, domains=32),))
    >>> sixteen, two = np.array([16]), np.array([2])
    >>> [float(slow[0]) for slow in hop_slowdowns(level, sixteen, two)]
    [1.2, 2.0]
    """
    ranks, domains = working or (level.tiers[0].ranks, level.size)
    if all(tier.whole_domains for tier in level.tiers):
        ranks = np.maximum(ranks // np.asarray(inside), 1)
    groups = _groups(stages, stride, ranks, domains)
    mean, slowest = np.ones((2, *groups.shape[1:]))
    for tier in level.tiers:
        # What crosses a pod crosses a leaf, and pays the slower of the two.
        line = _Line.of(tier, groups)
        slower = _slower(tier, "hop", line, slowest)
        mean += line.crossing_share(tier) * (slower - slowest)
        slowest = slower
    return mean, slowest


def _groups(*rows: Amount | Counts) -> Ints:
    """Members, stride, ranks and domains that work, of whole groups; shape (4, groups) [1]."""
    groups = np.stack(np.broadcast_arrays(*rows)).astype(np.int64)
    groups[3] -= groups[3] % (groups[0] * groups[1])
    return groups


class _Line(NamedTuple):
    """How groups lie on the line of a tier, each of shape (groups,) [1].

    The members of a group are ``stride`` places apart. Of the GPUs those of the first ``ranks`` of
    the first ``domains`` work.
    """

    members: Ints
    stride: Ints
    ranks: Ints
    domains: Ints

    @classmethod
    def of(cls, tier: Tier, groups: Ints) -> "_Line":
        """Lay groups that are so many domains apart on a line."""
        members, stride, ranks, domains = groups
        ranks = np.minimum(ranks, tier.ranks)
        return cls(members, stride if tier.by_rank else stride * ranks, ranks, domains)

    @property
    def block(self) -> Ints:
        """Places of a block [1]."""
        return self.members * self.stride

    def leaving(self, what: _Traffic, width: Ints) -> Floats:
        """Members among neighbours of a block whose traffic leaves them (table of this module)."""
        m, s = self.members, self.stride
        sending: Floats = np.minimum(np.minimum(width, s), self.block - width) * 1.0
        if what == "all_to_all":
            held, more = np.divmod(width, s)
            pairs = more * (held + 1) * (m - held - 1) + (s - more) * held * (m - held)
            sending = pairs / np.maximum(m - 1, 1)
        return sending

    def direct(self, tier: Tier) -> Floats:
        """How much longer an all_to_all takes without detours, infinite where it needs them [1].

        Traffic of all GPUs with all others takes none where switches are joined directly. Of its p
        places a switch has up to p/s of one group, rounded up, each of which sends 1/(m-1) to each
        of as many on another switch.
        """
        width = int(np.diff(tier.starts).max())
        pairs = width * -(-width // self.stride) / np.maximum(self.members - 1, 1)
        whole = self.block == self.ranks * self.domains
        return np.where(whole, pairs / tier.pair_links, np.inf)

    def most(self, what: _Traffic, tier: Tier) -> Floats:
        """The most that can leave a group of a tier, the widest one, cut in its middle [1]."""
        width = int(np.diff(tier.starts).max())
        domains, more = (0, width) if tier.by_rank else divmod(width, tier.ranks)
        at_work = domains * self.ranks + (more if tier.by_rank else np.minimum(more, self.ranks))
        half = self.block // 2
        if what == "hop":
            return self.leaving(what, np.minimum(at_work, half))
        held = np.minimum(at_work, half * 2)
        return self.leaving(what, held // 2) + self.leaving(what, held - held // 2)

    def crossing_share(self, tier: Tier) -> Floats:
        """Share of the hops of all pipelines that cross [1].

        At a border of groups that lies b places behind the beginning of a block of S, hops cross
        from min(b, s, S - b) of them. All b that may be are taken as equally frequent: where groups
        are equal those that are multiples of a divisor of what a group holds, a block, and a rank.
        """
        m, s, ranks, _ = self
        held, more = (tier.held, 0) if tier.held else divmod(tier.spread[0], tier.groups)
        density: Amount = tier.groups / tier.spread[0]
        piece: Counts = math.gcd(held, tier.domains)
        if not tier.by_rank:
            density = density * tier.ranks / ranks
            whole = (held % tier.ranks == 0) | (ranks == tier.ranks)
            piece = np.where(whole, held * ranks // tier.ranks, 1)
        step = np.gcd(piece, self.block) if more == 0 else np.ones_like(s)
        borders, near = self.block // step, -(-s // step) - 1
        mean = (step * near * (near + 1) + s * (borders - 1 - 2 * near)) / borders
        return np.minimum(1.0, mean * density * m / np.maximum(m - 1, 1))


def _slower(tier: Tier, what: _Traffic, line: _Line, slowest: Floats) -> Floats:
    """How much longer the traffic takes, where this is the slowest tier so far [1].

    Few groups of a tier are looked at where one of them has as many crossing members as any can.
    """
    most, period = line.most(what, tier) / tier.links, tier.groups // tier.turns
    besides = np.zeros_like(slowest)
    if tier.beyond is not None:
        besides = _slower(tier.beyond, what, line, besides)
    slower = slowest.copy()
    most += besides
    to_do = np.flatnonzero((line.members > 1) & (most > slower))
    first, last = 0, LOOK_AT
    while first < period and len(to_do):
        groups = slice(first, min(last, period) + 1)
        pieces = 1 + len(to_do) * (last - first) // AT_ONCE
        for some in np.array_split(to_do, pieces):
            columns = _Line(*(part[some, None] for part in line))
            slowdown = _crossing(tier, what, columns, groups) / tier.links + besides[some]
            slower[some] = np.maximum(slower[some], slowdown)
        to_do = to_do[slower[to_do] < most[to_do]]
        first, last = last, last * LOOK_AT
    return slower


def _crossing(tier: Tier, what: _Traffic, line: _Line, groups: slice) -> Floats:
    """Members whose traffic crosses, of the group with most of them among some of a tier [1]."""
    bounds = tier.at_work(line.domains, line.ranks, groups)
    block, place = np.divmod(bounds, line.block)
    edges, width = line.leaving(what, place), np.diff(bounds)
    both, inside = edges[:, :-1] + edges[:, 1:], line.leaving(what, width)
    if what == "hop":
        far = np.maximum(place[:, :-1], line.block - place[:, 1:])
        inside = np.minimum(inside, np.minimum(far, far + width - line.stride))
        both = np.maximum(edges[:, :-1], edges[:, 1:])
    crossing: Floats = np.where(block[:, :-1] < block[:, 1:], both, inside).max(axis=1, initial=0)
    return crossing
