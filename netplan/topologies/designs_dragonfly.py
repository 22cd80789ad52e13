"""Counted dragonflies of several kinds of groups, as exascale systems build them.

Groups of one kind are alike; every pair of groups has as many links as its two kinds say. Global
bandwidth is counted over all pairs, taper at one group.
"""

from typing import ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.topologies.counted_designs import CountedDesign, Counts, DesignSize
from netplan.units import bytes_per_s

BOTH_DIRECTIONS = 2


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupKind(_Part):
    """Groups that are alike: how many, their fully connected switches, the hosts of a switch."""

    groups: PositiveInt
    switches: NonNegativeInt = 0
    hosts_per_switch: NonNegativeInt = 0

    @property
    def local_links(self) -> int:
        """Links inside all groups of the kind [1]."""
        return self.groups * self.switches * (self.switches - 1) // 2


class KindLinks(_Part):
    """Links between two groups, by the names of their kinds [1]."""

    between: tuple[str, str]
    links: NonNegativeInt


class UnevenDragonfly(CountedDesign):
    """A dragonfly whose groups are of several kinds.

    ``kinds`` are the groups by the name of their kind, ``pair_links`` the links between two groups,
    each pair of kinds once, ``link_gbps`` the rate of a link, one direction. A question asks about
    one kind, its ``partition``.

    Examples
    --------
    24 and 8 groups: C(24, 2) = 276 and 24 x 8 = 192 pairs.

    >>> from netplan.topologies.designs import DESIGNS
    >>> fabric = DESIGNS.load("lumi")
    >>> fabric.global_links("gpu", "gpu"), fabric.global_links("cpu", "gpu")
    (5520, 768)
    >>> 2 * fabric.global_bytes_per_s("gpu", "gpu") / 1e12
    276.0
    """

    takes: ClassVar[tuple[str, ...]] = ("partition",)

    family: Literal["dragonfly-groups"]
    kinds: dict[str, GroupKind]
    pair_links: tuple[KindLinks, ...]
    link_gbps: PositiveFloat

    @model_validator(mode="after")
    def _check_pairs(self) -> "UnevenDragonfly":
        """Refuse pairs of unknown kinds, and pairs that stand twice."""
        seen = set[frozenset[str]]()
        for pair in self.pair_links:
            for name in pair.between:
                if name not in self.kinds:
                    raise ValueError(f"pair_links: {name!r} is none of the kinds {[*self.kinds]}")
            if frozenset(pair.between) in seen:
                raise ValueError(f"pair_links: {' and '.join(pair.between)} stand twice")
            seen.add(frozenset(pair.between))
        return self

    def links_per_pair(self, one: str, two: str) -> int:
        """Links between a group of one kind and a group of another [1].

        Raises
        ------
        UnknownNameError
            If a kind is unknown.
        """
        for name in (one, two):
            if name not in self.kinds:
                raise unknown_name("kind of group", name, self.kinds)
        pairs = (pair.links for pair in self.pair_links if {*pair.between} == {one, two})
        return next(pairs, 0)

    def pairs(self, one: str, two: str) -> int:
        """Pairs of groups of these kinds [1]."""
        count = self.kinds[one].groups
        return count * (count - 1) // 2 if one == two else count * self.kinds[two].groups

    def global_links(self, one: str, two: str) -> int:
        """Links between all groups of these kinds [1]."""
        return self.links_per_pair(one, two) * self.pairs(one, two)

    def global_bytes_per_s(self, one: str, two: str) -> float:
        """Bandwidth of those links, one direction [B/s]."""
        return self.global_links(one, two) * bytes_per_s(self.link_gbps)

    def global_ports(self, kind: str) -> int:
        """Global links of one group of a kind [1]."""
        return sum(
            self.links_per_pair(kind, other) * (group.groups - (kind == other))
            for other, group in self.kinds.items()
        )

    def taper(self, kind: str) -> float:
        """Links from one group to the others of its kind over its hosts [1].

        Raises
        ------
        InputError
            If the group has no hosts.
        """
        group = self.kinds[kind]
        hosts = group.switches * group.hosts_per_switch
        if not hosts:
            raise InputError(f"groups of kind {kind} have no hosts to compare with")
        return self.links_per_pair(kind, kind) * (group.groups - 1) / hosts

    def multiplied_out(self, size: DesignSize) -> Counts:
        """Global bandwidth inside a kind, and to all others, both directions added [TB/s]."""
        kind = size.partition
        inside = self.global_bytes_per_s(kind, kind)
        mixed = sum(self.global_bytes_per_s(kind, other) for other in self.kinds if other != kind)
        return {
            "global_tb_per_s": BOTH_DIRECTIONS * inside / 1e12,
            "global_tb_per_s_mixed": BOTH_DIRECTIONS * mixed / 1e12,
        }
