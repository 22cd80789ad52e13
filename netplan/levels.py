"""The bandwidth hierarchy that the time models see: a fabric as a product of simple levels.

A fabric of any size is described by a few levels, numbered from the inside (the HB domain) to the
outside (the network). Each level joins ``size`` members in one of four ways:

``switch``  a non-blocking switch; every GPU has one link to it;
``ring``    every GPU has two links, one to each neighbour (one link if ``size`` is 2);
``line``    a ring that is not closed: the first and the last GPU have one link;
``mesh``    fully connected; every GPU has ``size - 1`` links.

A 3D torus is ring x ring x ring, a dragonfly switch x mesh x mesh, rail-only
switch (HB domain) x switch (rail), a wafer four lines: columns and rows of cores in a tile, then
columns and rows of tiles. The GPUs number the product of all sizes.

A switch level of an oversubscribed Clos network blocks: it has *tiers*, which know the members
under each leaf, and under each pod of leaves, and the links that lead out of one. What stays under
a leaf runs at the rate of the port. A network whose tiers never bind has none.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Counts, Ints
from netplan.errors import InputError
from netplan.inputs.choices import NetworkKind
from netplan.records import replace

LevelKind = Literal["switch", "ring", "line", "mesh"]

CHAINED: tuple[LevelKind, ...] = ("ring", "line")
"""Kinds whose links lead to neighbours: groups that lie between each other share them."""

LINKS_PER_STEP = {"switch": 2, "ring": 1, "line": 1, "mesh": 1}
"""Links that one message crosses in one step of a collective (up and down again at a switch)."""


class Tier(Struct, frozen=True):
    """The groups of GPUs that one tier of switches makes (a leaf, a pod), and the links out of one.

    Parameters
    ----------
    spread
        Endpoints of the network, its leaves, its pods, and so on up to this tier: each spread
        evenly over the next, in order [1].
    links
        Links that lead out of one group, each at the rate of a port; where switches are joined
        directly, as many as detours over all of them leave of those [1].
    ranks, domains
        GPUs of one HB domain, and domains that are full [1].
    extra
        GPUs of a partly filled domain beyond them [1].
    by_rank
        Whether endpoints come rank by rank (rails lie side by side), or domain by domain.
    held
        Endpoints that fill each group in order, where they are not spread evenly [1].
    pair_links
        Links for what one group sends to one other, where all send to all [1]; 0 where such traffic
        has those that lead out.
    beyond
        Larger groups, and the links that what leaves one of them has here besides: its detours load
        the links of all groups [1].

    Examples
    --------
    Leaves of 12 ports hold one domain of 8 GPUs and a half.

    >>> leaf = Tier((24, 2), links=4, ranks=8, domains=3)
    >>> leaf.oversubscription(3)
    3.0

    Where 6 of the 8 work, they hold 6 and 4, then 2 and 6.

    >>> leaf.at_work(3, 6)
    array([ 0, 10, 18])
    """

    spread: tuple[int, ...]
    links: float
    ranks: int
    domains: int
    extra: int = 0
    by_rank: bool = False
    held: int = 0
    pair_links: float = 0.0
    beyond: "Tier | None" = None

    @property
    def starts(self) -> Ints:
        """First endpoint of each group, and the end of the last, shape (groups + 1,) [1]."""
        starts = np.arange(self.groups + 1)
        if self.held:
            return np.minimum(starts * self.held, self.spread[0])
        for lower, upper in zip(self.spread[-2::-1], self.spread[:0:-1], strict=True):
            starts = starts * lower // upper
        return starts

    @property
    def groups(self) -> int:
        """Groups of this tier [1]."""
        return self.spread[-1]

    @property
    def whole_domains(self) -> bool:
        """Whether no two groups share an HB domain."""
        return not self.by_rank and not bool((self.starts[:-1] % self.ranks).any())

    @property
    def turns(self) -> int:
        """How often the groups lie over as many ranks in the same way [1]."""
        whole = self.by_rank and self.spread[0] == self.ranks * self.domains
        return math.gcd(self.ranks, *self.spread[1:]) if whole else 1

    def at_work(self, domains: Ints | int, ranks: Ints | int, groups: slice = slice(None)) -> Ints:
        """GPUs that work before each group, and before the end of the last of all [1].

        Those of the first ``ranks`` of the first ``domains`` work, numbered as the endpoints are:
        rank by rank or domain by domain.
        """
        major, minor = (place[groups] for place in _places(self))
        lines, per_line = (ranks, domains) if self.by_rank else (domains, ranks)
        working: Ints = np.minimum(major * per_line + np.minimum(minor, per_line), lines * per_line)
        return working

    def oversubscription(self, size: int) -> float:
        """Most GPUs of a group that can talk beyond it, over the links out of it [1].

        That are all of the first ``size`` domains, but for ranks that it holds as a whole.
        """
        per_domain = 1 if self.by_rank else self.ranks
        block = size * per_domain
        lines, place = np.divmod(self.at_work(size, self.ranks), block)
        cut = lines[:-1] < lines[1:]
        parts = np.where(cut, [block - place[:-1], place[1:]], [np.diff(place), np.zeros_like(cut)])
        talking = parts - np.maximum(0, parts - (block - per_domain)) * size
        worst = float(talking.sum(axis=0).max(initial=0)) / self.links
        return worst + (self.beyond.oversubscription(size) if self.beyond else 0.0)


@lru_cache(maxsize=256)
def _places(tier: Tier) -> tuple[Ints, Ints]:
    """Where the groups of a tier begin: at which rank or domain, and how far into it [1]."""
    starts = tier.starts
    if not tier.by_rank:
        domain, rank = np.divmod(starts, tier.ranks)
        return domain, rank
    # The first ranks have a GPU more in a partly filled domain.
    ranks = np.arange(tier.ranks)
    bases = ranks * tier.domains + np.minimum(ranks, tier.extra)
    rank = np.searchsorted(bases, starts, side="right") - 1
    return rank, starts - bases[rank]


class Level(Struct, frozen=True, rename={"interleaved": "interlaced"}):
    """One level of the hierarchy.

    Parameters
    ----------
    kind
        How the members are joined: ``switch``, ``ring``, ``line`` or ``mesh``.
    size
        Members joined at this level [1].
    link_bytes_per_s
        Bandwidth of one link, one direction, full duplex [B/s].
    link_latency_s
        Latency of one link [s].
    step_latency_s
        Fixed delay of one step in the GPU, whatever the links [s].
    tiers
        Tiers of a switch level that may bind, from the leaves up; none if it does not block.
    network_kind
        What a level outside HB domains is made of.
    interleaved
        Whether links of the level, or around it, also lead along other levels, as in a twisted
        torus: bounds then grant a GPU two links here, and know no middle.
    same_rank
        Whether the level joins GPUs of one rank of their HB domains alone, as rail-only networks
        do.

    Examples
    --------
    >>> nvlink = Level("switch", 8, 450e9, step_latency_s=2.5e-6)
    >>> nvlink.step_s
    2.5e-06
    >>> Level("mesh", 8, 50e9).gpu_bytes_per_s
    350000000000.0
    """

    json_parts = (
        *("kind", "size", "link_bytes_per_s", "link_latency_s", "step_latency_s"),
        *("tiers=tier_counts", "?network_kind=unusual_network", "?interlaced=interleaved"),
    )

    kind: LevelKind
    size: int
    link_bytes_per_s: float
    link_latency_s: float = 0.0
    step_latency_s: float = 0.0
    tiers: tuple[Tier, ...] = ()
    network_kind: NetworkKind = "infiniband"
    interleaved: bool = False
    same_rank: bool = False

    def __post_init__(self) -> None:
        """Refuse what no hardware can be.

        Raises
        ------
        InputError
            If the kind is unknown, the size is below 1, or a bandwidth or latency is negative.
        """
        if self.kind not in LINKS_PER_STEP:
            raise InputError(
                f"unknown level kind {self.kind!r}: use one of {', '.join(LINKS_PER_STEP)}"
            )
        if self.size < 1:
            raise InputError(f"a level joins at least 1 member, got {self.size}")
        if not (self.link_bytes_per_s > 0 and math.isfinite(self.link_bytes_per_s)):
            raise InputError(f"a link bandwidth is above 0 B/s, got {self.link_bytes_per_s}")
        if self.link_latency_s < 0 or self.step_latency_s < 0:
            raise InputError("a latency is at least 0 s")

    def as_found(self, kind: NetworkKind, share: float = 1.0) -> "Level":
        """The level beyond HB domains as traffic finds it.

        Parameters
        ----------
        kind
            What it is made of.
        share
            What is left of its rate [1].

        Returns
        -------
        Level
            The level of that kind, at that share of the rate of its links.

        Examples
        --------
        >>> Level("switch", 4, 50e9).as_found("roce", 0.5).link_bytes_per_s
        25000000000.0
        """
        rate = share * self.link_bytes_per_s
        return replace(self, network_kind=kind, link_bytes_per_s=rate)

    @property
    def unblocked(self) -> "Level":
        """The level without leaves that block, on which everything is at least as fast."""
        return replace(self, tiers=()) if self.tiers else self

    @property
    def never_faster_for_more(self) -> bool:
        """Whether larger groups are never faster.

        On rings, lines and meshes members bring links, and under leaves that block some numbers lie
        better than others.
        """
        return self.kind == "switch" and not self.tiers

    @property
    def tier_counts(self) -> list[dict[str, float]]:
        """Groups of each tier, links out of one, GPUs that can talk beyond over those [1]."""
        return [
            {
                "groups": tier.groups,
                "links_per_group": tier.links,
                "oversubscription": tier.oversubscription(self.size),
            }
            for tier in self.tiers
        ]

    @property
    def unusual_network(self) -> str:
        """What it is made of outside HB domains; empty for InfiniBand."""
        return "" if self.network_kind == "infiniband" else self.network_kind

    @property
    def step_s(self) -> float:
        """Latency of one step of a collective: links crossed x their latency, plus delay [s]."""
        return LINKS_PER_STEP[self.kind] * self.link_latency_s + self.step_latency_s

    def hop_s(self, stride: Counts = 1) -> Amount:
        """Latency from a GPU to the one so many places on [s]: on a line over all those between.

        Elsewhere it is that of a step.

        Examples
        --------
        >>> float(Level("line", 8, 50e9, link_latency_s=2e-6).hop_s(4))
        8e-06
        """
        if self.kind != "line":
            return self.step_s
        return self.step_s + (stride - 1) * np.float64(self.link_latency_s)

    @property
    def scattered(self) -> "Level":
        """The level under a placement that puts no neighbours under one leaf: all traffic crosses.

        Such are domains handed out in turn over the leaves, and nearly so random ones on many.
        """
        most = max((tier.oversubscription(self.size) for tier in self.tiers), default=1.0)
        return replace(self, link_bytes_per_s=self.link_bytes_per_s / max(1.0, most), tiers=())

    @property
    def links_per_gpu(self) -> int:
        """Links that leave one GPU at this level; on a line the fewest, those at its ends [1]."""
        if self.size == 1:
            return 0
        most = {"switch": 1, "ring": 2, "line": 1, "mesh": self.size - 1}
        return min(most[self.kind], self.size - 1)

    @property
    def gpu_bytes_per_s(self) -> float:
        """Bandwidth out of one GPU at this level, all its links together [B/s]."""
        return self.links_per_gpu * self.link_bytes_per_s


def gpu_count(levels: Sequence[Level]) -> int:
    """GPUs that a product of levels joins [1].

    Examples
    --------
    >>> gpu_count([Level("switch", 8, 450e9), Level("switch", 32, 50e9)])
    256
    """
    return math.prod(level.size for level in levels)


def outermost(sizes: Sequence[int]) -> int:
    """Which level is the outermost of several members, by the sizes of all.

    Examples
    --------
    >>> outermost([8, 32, 1]), outermost([1, 1])
    (1, 0)
    """
    return max((index for index, size in enumerate(sizes) if size > 1), default=0)
