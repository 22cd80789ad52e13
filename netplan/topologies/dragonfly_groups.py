"""Dragonflies of several kinds of groups, as exascale systems build them.

Groups of one kind are alike; every pair of groups has as many links as its two kinds say. Global
bandwidth is counted over all pairs, taper at one group.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from netplan.errors import InputError


@dataclass(frozen=True, slots=True)
class GroupKind:
    """Groups that are alike.

    Parameters
    ----------
    groups
        How many there are [1].
    switches, hosts_per_switch
        Fully connected switches of a group, and hosts of a switch [1].
    """

    groups: int
    switches: int = 0
    hosts_per_switch: int = 0

    @property
    def local_links(self) -> int:
        """Links inside all groups of the kind [1]."""
        return self.groups * self.switches * (self.switches - 1) // 2


@dataclass(frozen=True, slots=True)
class UnevenDragonfly:
    """A dragonfly whose groups are of several kinds.

    Parameters
    ----------
    kinds
        Groups by the name of their kind.
    pair_links
        Links between two groups by the names of their kinds, each pair of names once [1].
    link_bytes_per_s
        Rate of a link, one direction [B/s].

    Examples
    --------
    24 and 8 groups: C(24, 2) = 276 and 24 x 8 = 192 pairs.

    >>> kinds = {"gpu": GroupKind(24), "cpu": GroupKind(8)}
    >>> fabric = UnevenDragonfly(kinds, {("gpu", "gpu"): 20, ("gpu", "cpu"): 4}, 25e9)
    >>> fabric.global_links("gpu", "gpu"), fabric.global_links("cpu", "gpu")
    (5520, 768)
    >>> 2 * fabric.global_bytes_per_s("gpu", "gpu") / 1e12
    276.0
    """

    kinds: Mapping[str, GroupKind]
    pair_links: Mapping[tuple[str, str], int]
    link_bytes_per_s: float

    def links_per_pair(self, one: str, two: str) -> int:
        """Links between a group of one kind and a group of another [1].

        Raises
        ------
        InputError
            If a kind is unknown.
        """
        for name in (one, two):
            if name not in self.kinds:
                raise InputError(f"unknown kind of group {name!r}: known are {list(self.kinds)}")
        return self.pair_links.get((one, two), self.pair_links.get((two, one), 0))

    def pairs(self, one: str, two: str) -> int:
        """Pairs of groups of these kinds [1]."""
        count = self.kinds[one].groups
        return count * (count - 1) // 2 if one == two else count * self.kinds[two].groups

    def global_links(self, one: str, two: str) -> int:
        """Links between all groups of these kinds [1]."""
        return self.links_per_pair(one, two) * self.pairs(one, two)

    def global_bytes_per_s(self, one: str, two: str) -> float:
        """Bandwidth of those links, one direction [B/s]."""
        return self.global_links(one, two) * self.link_bytes_per_s

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
