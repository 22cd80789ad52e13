"""Counting folded Clos networks: switches and links per tier, for any size.

Two counts, which agree where sizes divide evenly:

*port lower bound*  every port of every switch is used; per-tier ceilings of the port sums. This is
                    the count of the rail-only paper (arXiv:2307.12169), Table 2.
*wireable*          in addition all switches of a tier have as many links to each switch above that
                    they share, so that the network is non-blocking as built. Above the leaves
                    stand planes of as many switches; each is again a Clos network over the leaves.
                    How many planes, and how many pods in each, is what :func:`fat_tree` chooses.

Trunks to two planes may differ by a link (*uneven trunks*): 21 leaves of 32 uplinks reach ten
spines of 64 ports three times and one twice. What spine s has from one leaf it has from all, so
that any two leaves keep all uplinks between them. Trunks that differ from leaf to leaf would fill
more ports, but block: where leaf A has m(A, s) links to spine s, A and B share the sum over s of
min(m(A, s), m(B, s)), which is all of them only if the two are joined alike.

Symbols: n endpoints, r ports per switch (radix), d ports down and u ports up per leaf.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import count, pairwise, zip_longest
from math import floor
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Floats, Ints, ceil_div
from netplan.errors import InputError

MIN_RADIX, MAX_RADIX = 4, 1024

LINK_PORTS = 1.7
"""Price of an optical link between switches over that of a port of a switch [1].

Two transceivers of 659 USD on ports of 781 USD: the price book ``2026`` at 400 Gb/s. From 1 (the
rail-only paper, arXiv:2307.12169, footnote 1: two of 374 USD on 748) to 2 (800 Gb/s, 2026) hardly
any network is another. It weighs the wireable forms of a network against each other whatever the
prices of a question, so that no command counts other switches than another, and a price can change
without a cable's being moved.
"""


def even_groups(member: Ints, members: int, groups: int) -> Ints:
    """Group of each member where they are spread evenly in order, from floor(g N / G) on at g.

    Parameters
    ----------
    member
        Numbers of members, any shape [1].
    members, groups
        Members and groups, N and G [1].

    Returns
    -------
    numpy.ndarray
        Number of the group of each, of the same shape [1].

    Examples
    --------
    >>> even_groups(np.arange(9), 9, 4).tolist()
    [0, 0, 1, 1, 2, 2, 3, 3, 3]
    """
    return ((member + 1) * groups - 1) // members


class ClosCounts(Struct, frozen=True):
    """Switches and links of a folded Clos network, from the leaves up.

    The radix are the ports of a switch at the rate of an endpoint; the first tier counts leaves,
    the first links those of the endpoints [1]. Links above the leaves have ``trunk_width`` times
    that rate, and take as many ports at either end.
    """

    radix: int
    switches_per_tier: tuple[int, ...] = ()
    links_per_tier: tuple[int, ...] = ()
    trunk_width: int = 1

    @property
    def tiers(self) -> int:
        """Switch tiers [1]."""
        return len(self.switches_per_tier)

    @property
    def switches(self) -> int:
        """Switches of all tiers [1]."""
        return sum(self.switches_per_tier)

    @property
    def links(self) -> int:
        """Links of all tiers, endpoint links included [1]."""
        return sum(self.links_per_tier)

    @property
    def transceivers(self) -> int:
        """Optical modules: one at each end of every link [1]."""
        return 2 * self.links

    @property
    def ports_used_per_tier(self) -> tuple[int, ...]:
        """Switch ports in use in each tier: its links below plus its links above [1].

        Examples
        --------
        Sixteen trunks, each of two ports.

        >>> ClosCounts(64, (1, 1), (32, 16), trunk_width=2).ports_used_per_tier
        (64, 32)
        """
        widths = (1, *[self.trunk_width] * (self.tiers - 1))
        ports = tuple(
            links * width for links, width in zip(self.links_per_tier, widths, strict=False)
        )
        return tuple(down + up for down, up in zip(ports, (*ports[1:], 0), strict=False))

    def __add__(self, other: "ClosCounts") -> "ClosCounts":
        """Two networks side by side, tier by tier."""
        pairs = (
            (self.switches_per_tier, other.switches_per_tier),
            (self.links_per_tier, other.links_per_tier),
        )
        switches, links = (tuple(map(sum, zip_longest(*pair, fillvalue=0))) for pair in pairs)
        return ClosCounts(self.radix, switches, links, self.trunk_width)

    def times(self, copies: int) -> "ClosCounts":
        """As many separate copies of this network.

        Parameters
        ----------
        copies
            Copies side by side, at least 0 [1].

        Returns
        -------
        ClosCounts
            Counts of all copies together; without copies those of no network.
        """
        if copies == 0:
            return ClosCounts(self.radix)
        return ClosCounts(
            self.radix,
            tuple(copies * count for count in self.switches_per_tier),
            tuple(copies * count for count in self.links_per_tier),
            self.trunk_width,
        )


class LeafPorts(Struct, frozen=True):
    """How a leaf splits its ports: ``down`` to endpoints, ``up`` to the next tier."""

    down: int
    up: int

    @property
    def oversubscription(self) -> float:
        """Bandwidth down over bandwidth up [1]."""
        return self.down / self.up

    def uplinks(self, hosts: int) -> int:
        """Uplinks that a leaf of so many hosts needs [1].

        Parameters
        ----------
        hosts
            Endpoints of the leaf [1].

        Returns
        -------
        int
            Ports up that keep the leaf's own oversubscription [1].
        """
        return ceil_div(hosts * self.up, self.down)


def leaf_ports(radix: int, oversubscription: float = 1.0, trunk_width: int = 1) -> LeafPorts:
    """Split a leaf's ports for an oversubscription of at most ``oversubscription`` to 1.

    Trunks take so many ports each, so that those up are a multiple of it.

    Parameters
    ----------
    radix
        Ports per switch, r, even [1].
    oversubscription
        Bandwidth down over bandwidth up, from 1 to r - 1 [1].
    trunk_width
        Ports that one trunk takes [1].

    Returns
    -------
    LeafPorts
        Ports down and up, which add up to the radix [1].

    Raises
    ------
    InputError
        If the radix, the trunks or the oversubscription cannot be built.

    Examples
    --------
    >>> leaf_ports(64), leaf_ports(64, 3.0), leaf_ports(64, 2.0, 4)
    (LeafPorts(down=32, up=32), LeafPorts(down=48, up=16), LeafPorts(down=40, up=24))
    """
    check_radix(radix)
    check_trunks(radix, trunk_width)
    if not 1.0 <= oversubscription <= radix - 1:
        raise InputError(
            f"oversubscription {oversubscription:g}:1 cannot be built with radix {radix}:"
            f" use 1 to {radix - 1}"
        )
    down = floor(radix * oversubscription / (1 + oversubscription) + 1e-9)
    down = down // trunk_width * trunk_width
    return LeafPorts(down, radix - down)


def check_radix(radix: int, *, least: int = MIN_RADIX) -> None:
    """Refuse a radix that no switch tier can use: odd, below the least, or above 1,024.

    Parameters
    ----------
    radix
        Ports per switch [1].
    least
        Fewest ports that are allowed [1].

    Raises
    ------
    InputError
        If it is one of these.
    """
    if radix % 2 or not least <= radix <= MAX_RADIX:
        raise InputError(
            f"switch radix {radix} cannot be used: give an even number of ports from {least}"
            f" to {MAX_RADIX:,}, half of them face up"
        )


def check_trunks(radix: int, trunk_width: int) -> None:
    """Refuse trunks that do not divide the ports of a switch into an even number.

    Parameters
    ----------
    radix
        Ports per switch [1].
    trunk_width
        Ports that one trunk takes [1].

    Raises
    ------
    InputError
        If a switch has an odd number of trunks, or fewer than four.
    """
    if trunk_width > 1 and (radix % (2 * trunk_width) or radix < MIN_RADIX * trunk_width):
        fitting = [width for width in range(2, radix // MIN_RADIX + 1) if radix % (2 * width) == 0]
        hint = f"use {' or '.join(map(str, fitting))}" if fitting else "use trunks as wide as ports"
        raise InputError(
            f"trunk_width {trunk_width}: {radix} ports a switch do not make an even number of"
            f" trunks, at least {MIN_RADIX}: {hint}, or another radix"
        )


def tiers_needed(endpoints: int, radix: int, ports: LeafPorts, trunk_width: int = 1) -> int:
    """Fewest tiers that hold the endpoints: n <= 2 d (r/2)^(L-1) beyond one switch [1].

    Trunks of w times the rate leave r / w ports on the switches above the leaves.

    Parameters
    ----------
    endpoints
        Network ports to join, n [1].
    radix
        Ports per switch, r [1].
    ports
        Ports down and up of a leaf, d and u [1].
    trunk_width
        Rate of a link above the leaves over that of an endpoint, w [1].

    Returns
    -------
    int
        Tiers, L; 0 of one endpoint or none [1].

    Examples
    --------
    >>> [tiers_needed(n, 64, leaf_ports(64)) for n in (64, 65, 2048, 2049, 65_537)]
    [1, 2, 2, 3, 4]
    >>> [tiers_needed(n, 64, leaf_ports(64), 2) for n in (64, 65, 1024, 1025)]
    [1, 2, 2, 3]
    """
    if endpoints <= radix:
        return int(endpoints > 1)
    trunks = radix // trunk_width
    tiers, capacity = 2, ports.down * trunks
    while endpoints > capacity:
        tiers, capacity = tiers + 1, capacity * trunks // 2
    return tiers


def clos_counts(
    endpoints: int, radix: int, *, oversubscription: float = 1.0, trunk_width: int = 1
) -> ClosCounts:
    """Port lower bound of a folded Clos network (exact where every division is).

    Without oversubscription: ceil(2n/r) switches in every tier but the last, ceil(n/r) in the
    last, n links per tier. A leaf with d:u ports thins the tiers above it to ceil(n u/d) links.

    Parameters
    ----------
    endpoints
        Network ports to join, n [1]. One or none needs no network.
    radix
        Ports per switch, r, even [1].
    oversubscription
        Bandwidth down over bandwidth up at the leaves, at least 1 [1].
    trunk_width
        Rate of a link above the leaves over that of an endpoint [1].

    Returns
    -------
    ClosCounts
        Switches and links of each tier, from the leaves up [1].

    Raises
    ------
    InputError
        If the radix or the oversubscription cannot be built.

    References
    ----------
    Wang et al., arXiv:2307.12169, Table 2.

    Examples
    --------
    >>> counts = clos_counts(32_768, 128)
    >>> counts.tiers, counts.switches, counts.transceivers
    (3, 1280, 196608)
    """
    ports = leaf_ports(radix, oversubscription, trunk_width)
    tiers = tiers_needed(endpoints, radix, ports, trunk_width)
    if tiers <= 1:
        return ClosCounts(radix, (1,) * tiers, (endpoints,) * tiers)
    above = ceil_div(endpoints * ports.up, ports.down * trunk_width)
    middle = [ceil_div(2 * above * trunk_width, radix)] * (tiers - 2)
    switches = (ceil_div(endpoints, ports.down), *middle, ceil_div(above * trunk_width, radix))
    return ClosCounts(radix, switches, (endpoints, *[above] * (tiers - 1)), trunk_width)


class TreeTier(Struct, frozen=True, order=True):
    """One tier of a fat tree.

    Above each switch of the tier below, or each endpoint, stand ``planes`` planes of ``switches``.
    It has ``uplinks`` links to them, those of a plane all to one switch; if they do not divide,
    the first planes have one more each [1].

    Examples
    --------
    >>> tier = TreeTier(planes=11, switches=1, uplinks=32)
    >>> tier.links_each, tier.even_links
    (3, False)
    >>> [int(tier.links_to(planes)) for planes in (1, 10, 11)], int(tier.planes_for(31))
    ([3, 30, 32], 11)
    """

    planes: int
    switches: int
    uplinks: int

    @property
    def links_each(self) -> int:
        """Links of a switch below to a plane, to the first ones [1]."""
        return ceil_div(self.uplinks, self.planes)

    @property
    def even_links(self) -> bool:
        """Whether there are as many links to every plane."""
        return self.uplinks % self.planes == 0

    def links_to(self, planes: AnyInts | int) -> Ints:
        """Links of a switch below to so many planes, the first ones.

        Parameters
        ----------
        planes
            Number of planes, up to all [1].

        Returns
        -------
        Ints
            Links to them together, in the same shape [1].
        """
        narrow, wide_planes = divmod(self.uplinks, self.planes)
        return np.multiply(planes, narrow) + np.minimum(planes, wide_planes)

    def planes_for(self, links: AnyInts | int) -> Ints:
        """Planes that so many links of a switch below lead to, the first ones.

        Parameters
        ----------
        links
            Links of the switch [1].

        Returns
        -------
        Ints
            Number of planes, all at the most, in the same shape [1].
        """
        reached: Ints = np.searchsorted(self.links_to(np.arange(self.planes + 1)), links)
        return np.minimum(reached, self.planes)


class FatTree(Struct, frozen=True):
    """A Clos network as it is wired: endpoints, ports of a switch, and tiers from the leaves up.

    The ends of a plane are spread over its switches in order, evenly. The top tier has one switch
    in each plane, so that every pair of switches below is joined alike. Links above the leaves are
    trunks of ``trunk_width`` ports.
    """

    endpoints: int
    radix: int
    tiers: tuple[TreeTier, ...] = ()
    trunk_width: int = 1

    @property
    def leaves(self) -> int:
        """Switches of the lowest tier [1]."""
        return self.tiers[0].switches if self.tiers else 0

    @property
    def hosts_per_leaf(self) -> int:
        """Endpoints of the fullest leaf [1]."""
        return ceil_div(self.endpoints, self.leaves)

    @property
    def even(self) -> bool:
        """Whether all switches of a tier join as many ends: leaves aside, which may lack hosts."""
        return all(lower.switches % upper.switches == 0 for lower, upper in pairwise(self.tiers))

    @property
    def ftree_ready(self) -> bool:
        """Whether pods and trunks are alike: OpenSM's fat-tree routing finds the roots itself."""
        return self.even and all(tier.even_links for tier in self.tiers)

    @property
    def groups(self) -> Iterator[tuple[int, int]]:
        """Leaves, pods and so on below the top tier: how many, and the ports out of each [1].

        A pod are the switches of all planes that join the same leaves.

        >>> list(fat_tree(1024, 16, oversubscription=3.0).groups)
        [(88, 4), (11, 32)]
        """
        copies = 1
        for tier, above in pairwise(self.tiers):
            yield tier.switches, copies * above.uplinks * self.trunk_width
            copies *= above.planes

    @property
    def counts(self) -> ClosCounts:
        """Switches and links of every tier."""
        copies, ends = 1, self.endpoints
        switches, links = [], []
        for tier in self.tiers:
            links.append(copies * ends * tier.uplinks)
            copies *= tier.planes
            switches.append(copies * tier.switches)
            ends = tier.switches
        return ClosCounts(self.radix, tuple(switches), tuple(links), self.trunk_width)

    @property
    def price(self) -> float:
        """Price of the switches and of the links between them, in ports of a switch [1].

        >>> fat_tree(2048, 64).price  # 96 switches of 64 ports, and 2,048 links
        9625.6
        """
        counts = self.counts
        trunks = self.trunk_width * sum(counts.links_per_tier[1:])
        return round(self.radix * counts.switches + LINK_PORTS * trunks, 6)


@lru_cache(maxsize=4096)
def fat_tree(
    endpoints: int,
    radix: int,
    *,
    oversubscription: float = 1.0,
    even: bool = True,
    alike: bool = False,
    trunk_width: int = 1,
) -> FatTree:
    """Fat tree that can be wired at the lowest price, in as few tiers as hold the endpoints.

    All leaf counts are tried. Over two tiers a spine has as many links from each leaf as its ports
    allow. With three tiers all planes and pods are tried, too: a leaf sends its uplinks to planes
    in bundles of one or more, and a plane joins the leaves by pods. Above three tiers, and 1,024
    endpoints, every uplink of a leaf leads to a plane of its own, a tree of one tier less. Prices
    are those of :attr:`FatTree.price`; of equal ones the tree with alike trunks is taken, then the
    one with the fewest leaves and the thinnest bundles.

    Every switch has at least as many links up as down (leaves: as the oversubscription asks), and a
    leaf of several uplinks several planes. What fits more endpoints is tried for fewer, so that a
    network of more endpoints is never the cheaper one.

    Parameters
    ----------
    endpoints
        Network ports to join, n [1]. One or none needs no network.
    radix
        Ports per switch, r, even [1].
    oversubscription
        Bandwidth down over bandwidth up at the leaves, at least 1 [1].
    even
        Whether every pod has as many leaves; a tree without that may be cheaper.
    alike
        Whether all trunks of a switch have as many links; a tree without that may be cheaper.
    trunk_width
        Rate of a link above the leaves over that of an endpoint, whose ports the radix counts [1].

    Returns
    -------
    FatTree
        Tiers from the leaves up; none of one endpoint or none.

    Raises
    ------
    InputError
        If the radix or the oversubscription cannot be built.

    References
    ----------
    Zahavi, Fat-tree routing and node ordering providing contention free traffic for MPI global
    collectives (J. Parallel Distrib. Comput. 72, 2012): the plain trees are its parallel ports
    generalized fat trees.

    Examples
    --------
    2,560 endpoints on switches of 64 ports: 204 switches, where a plane an uplink needs 240.

    >>> fat_tree(2560, 64).counts.switches_per_tier
    (80, 80, 44)
    """
    ports = leaf_ports(radix, oversubscription, trunk_width)
    tiers = tiers_needed(endpoints, radix, ports, trunk_width)
    if tiers <= 1:
        return FatTree(endpoints, radix, (TreeTier(1, 1, 1),) * tiers, trunk_width)
    search = _Search(radix, ports, tiers, even=even, width=trunk_width, alike=alike)
    return search.cheapest(endpoints)


TWO_TIERS, THREE_TIERS = 2, 3
MOST_BUNDLED = 1024
"""Endpoints up to which more than three tiers have their uplinks bundled in all ways, too [1]."""


class _Search(Struct, frozen=True):
    """What trees are tried: ports of a leaf, tiers, and whether pods and trunks must be alike.

    ``end_price`` is what each endpoint costs besides, in a tree that is one plane of another [1].
    Ends of such a plane fill all of its leaves alike if pods must be even.
    """

    radix: int
    ports: LeafPorts
    tiers: int
    even: bool
    width: int = 1
    alike: bool = False
    end_price: float = 0.0

    def cheapest(self, endpoints: int) -> FatTree:
        """The cheapest tree; leaves are added until they alone cost more than is saved."""
        best = self._more_tiers(endpoints) if self.tiers > THREE_TIERS else None
        if best is not None and endpoints > MOST_BUNDLED:
            return best
        order = self._preference(best) if best else None
        leaves = ceil_div(endpoints, self.ports.down)
        # Full leaves, and full pods of half a radix, always wire, so that one is found.
        while best is None or order is None or self._least(endpoints, leaves) < order[0]:
            tree = self.over(endpoints, leaves)
            if tree and (order is None or self._preference(tree) < order):
                best, order = tree, self._preference(tree)
            leaves += 1
        return best

    def over(self, endpoints: int, leaves: int) -> FatTree | None:
        """The cheapest tree of so many tiers over so many leaves."""
        hosts = ceil_div(endpoints, leaves)
        if self.end_price and self.even:
            endpoints = leaves * hosts
        uplinks = ceil_div(self.ports.uplinks(hosts), self.width)
        trunks, free = self.radix // self.width, (self.radix - hosts) // self.width
        upper, rules = (trunks, self.tiers - 1), (self.even, self.alike)
        above = _above(leaves, uplinks, free, upper, rules, fewest=min(2, uplinks))
        if above is None:
            return None
        return FatTree(endpoints, self.radix, (TreeTier(1, leaves, 1), *above.tiers), self.width)

    def _more_tiers(self, endpoints: int) -> FatTree:
        """One plane an uplink, a tree of one tier less, over leaves of so many hosts or fewer."""
        best: FatTree | None = None
        order: tuple[float, bool, int, int] | None = None
        trunks = self.radix // self.width
        of_plane = leaf_ports(trunks)
        for hosts in range(self.ports.down, 0, -1):
            leaves = ceil_div(endpoints, hosts)
            if order is not None and self._least(endpoints, leaves) >= order[0]:
                break
            tiers = tiers_needed(leaves, trunks, of_plane)
            if tiers >= self.tiers:
                break
            uplinks = ceil_div(self.ports.uplinks(hosts), self.width)
            end_price = self.radix / self.width / uplinks + LINK_PORTS
            plane = _Search(
                trunks, of_plane, tiers, even=self.even, alike=self.alike, end_price=end_price
            ).cheapest(leaves)
            first, *above = plane.tiers
            bottom = TreeTier(1, plane.endpoints, 1)
            planes = TreeTier(uplinks, first.switches, uplinks)
            ends = plane.endpoints * hosts if self.end_price and self.even else endpoints
            tree = FatTree(ends, self.radix, (bottom, planes, *above), self.width)
            if order is None or self._preference(tree) < order:
                best, order = tree, self._preference(tree)
        assert best is not None  # noqa: S101 - full leaves always wire
        return best

    def _least(self, endpoints: int, leaves: int) -> float:
        """What a tree over so many leaves costs at least: each link fills a port at either end."""
        links = ceil_div(endpoints * self.ports.up, self.ports.down)
        above = 2 * self.tiers - 3 + LINK_PORTS * (self.tiers - 1)
        return self.radix * leaves + above * links + self.end_price * endpoints

    def _preference(self, tree: FatTree) -> tuple[float, bool, int, int]:
        price = round(tree.price + self.end_price * tree.endpoints, 6)
        return price, not tree.ftree_ready, tree.leaves, tree.tiers[1].links_each


_Rules = tuple[bool, bool]
"""Whether pods, and trunks, must be alike."""
_UpperTiers = tuple[int, int]
"""Ports of a switch, and how many tiers of such switches are laid above some others [1]."""


class _UpperPart(NamedTuple):
    """Tiers above some switches, and their price with the links to them, in ports [1].

    Of equal prices the plain one is taken, then the one with the thinnest bundles.
    """

    price: float
    uneven: int
    bundle: int
    tiers: tuple[TreeTier, ...]


@lru_cache(maxsize=1 << 17)
def _above(
    ends: int, uplinks: int, free: int, upper: _UpperTiers, rules: _Rules, *, fewest: int = 1
) -> _UpperPart | None:
    """The cheapest planes over so many switches with so many uplinks: how these are bundled.

    ``free`` are the ports for uplinks of a switch below [1].
    """
    (radix, tiers), (_, alike) = upper, rules
    if tiers == 1:
        if ends > radix:
            return None
        planes, links = ceil_div(uplinks, radix // ends), uplinks
        if alike:
            planes, links_each = equal_uplinks(ends, uplinks, radix, free)
            links = planes * links_each
        top = TreeTier(planes, 1, links)
        price = round(radix * planes + LINK_PORTS * ends * links, 6)
        return _UpperPart(price, not top.even_links, top.links_each, (top,))
    parts = []
    for bundle in range(1, ceil_div(uplinks, fewest) + 1):
        planes = ceil_div(uplinks, bundle)
        links = planes * bundle if alike else uplinks
        if ceil_div(uplinks, planes) < bundle or links > free:
            continue
        part = _plane(ends, bundle, upper, rules)
        if part is not None:
            first = TreeTier(planes, part.tiers[0].switches, links)
            price = round(planes * part.price + LINK_PORTS * ends * links, 6)
            uneven = part.uneven or not first.even_links
            parts.append(_UpperPart(price, uneven, bundle, (first, *part.tiers[1:])))
    return min(parts, default=None)


@lru_cache(maxsize=1 << 17)
def _plane(ends: int, bundle: int, upper: _UpperTiers, rules: _Rules) -> _UpperPart | None:
    """The cheapest plane over switches of so many links: pods, and what is above these."""
    (radix, tiers), (even, _) = upper, rules
    best: _UpperPart | None = None
    least = ends * bundle * (2 * tiers - 3 + LINK_PORTS * (tiers - 1))
    most = 2 * (radix // 2) ** (tiers - 1)
    for pods in range(ceil_div(2 * ends * bundle, radix), min(ends, most) + 1):
        if best is not None and radix * pods + least > best.price:
            break
        down = ceil_div(ends, pods) * bundle
        if (even and ends % pods) or down > radix // 2:
            continue
        above = _above(pods, down, radix - down, (radix, tiers - 1), rules)
        if above is not None:
            uneven = above.uneven or bool(ends % pods)
            tier = TreeTier(1, pods, bundle)
            part = _UpperPart(
                round(radix * pods + above.price, 6), uneven, bundle, (tier, *above.tiers)
            )
            best = part if best is None else min(best, part)
    return best


def unit_tree(units: int, rails: int, radix: int) -> FatTree:
    """Even tree over whole scalable units: one leaf a rail and unit, half its ports down.

    Trunks are alike, as published builds have them. Where so many units cannot be wired evenly,
    more are laid in as many tiers. Where no number of units can, pods are of unequal size, one
    plane an uplink.

    Parameters
    ----------
    units
        Scalable units [1].
    rails
        Rails, each with one leaf in every unit [1].
    radix
        Ports per switch, even [1].

    Returns
    -------
    FatTree
        The tree; its leaves are full, and may be more than units x rails.

    Raises
    ------
    InputError
        If the radix cannot be built.

    Examples
    --------
    >>> unit_tree(9, 8, 64).counts.switches_per_tier  # pods of 8 leaves, 4 links to each spine
    (72, 72, 64)
    """
    ports = leaf_ports(radix)
    tiers = tiers_needed(units * rails * ports.down, radix, ports)
    search = _Search(radix, ports, tiers, even=True, alike=True)
    for leaves in count(units * rails, rails):
        ends = leaves * ports.down
        if tiers_needed(ends, radix, ports) > tiers:
            break
        over_leaves = tiers in (TWO_TIERS, THREE_TIERS)
        tree = search.over(ends, leaves) if over_leaves else fat_tree(ends, radix)
        if tree is not None and (tiers == 1 or tree.leaves == leaves):
            return tree
    # Full leaves, each uplink to a plane of its own, whose pods may be of unequal size.
    leaves = units * rails
    first, *above = fat_tree(leaves, radix, even=False).tiers
    planes = TreeTier(radix // 2, first.switches, radix // 2)
    return FatTree(leaves * (radix // 2), radix, (TreeTier(1, leaves, 1), planes, *above))


@lru_cache(maxsize=1 << 16)
def equal_uplinks(leaves: int, uplinks: int, radix: int, ports_free: int) -> tuple[int, int]:
    """Fewest spines, and links from each leaf to each, so that every pair is joined alike.

    A leaf needs at least ``uplinks`` and has ``ports_free`` ports for them; a spine has ``radix``.
    Where a leaf has no port to spare this is the smallest divisor of its uplinks that is at least
    ceil(leaves x uplinks / radix), which reproduces the published two-tier builds.

    Parameters
    ----------
    leaves
        Switches below, no more than the radix [1].
    uplinks
        Links that a leaf needs at least [1].
    radix
        Links that a spine has ports for [1].
    ports_free
        Links that a leaf has ports for [1].

    Returns
    -------
    tuple[int, int]
        Spines, and links from each leaf to each of them [1].

    Examples
    --------
    >>> [equal_uplinks(leaves, 32, 64, 32)[0] for leaves in (8, 16, 24, 32)]
    [4, 8, 16, 16]
    """
    options = []
    for links_each in range(max(1, radix // leaves), 0, -1):
        spines = ceil_div(uplinks, links_each)
        if spines * links_each <= ports_free:
            options.append((spines, links_each))
    return min(options, key=lambda option: (option[0], option[0] * option[1]))


@lru_cache(maxsize=1024)
def shared_rails(rails: int, hosts: int, radix: int, **pods: bool) -> "RailShares":
    """How many rails share a network, where that is cheaper than one for each.

    Rails of one network share its leaves and spines, kept apart as virtual networks: each alone
    would round its switches up. Rails that fit a switch share single ones. Of others all ways to
    divide them are weighed whose networks have as many tiers as one of a single rail, and one
    network of all: another tier costs more than rounding does. Of equal prices fewer rails share.

    Parameters
    ----------
    rails
        Rails, K [1].
    hosts
        Hosts of a rail, n [1].
    radix
        Ports per switch, even [1].
    **pods
        ``even`` and ``alike`` of :func:`fat_tree`.

    Returns
    -------
    RailShares
        The cheapest way to divide any number of rails up to K.

    Examples
    --------
    Eight rails of 130 hosts on switches of 128 ports: 26 switches together, 40 apart. Of 128 hosts
    that a radix of 64 divides, none has to share.

    >>> shared_rails(8, 130, 128).networks(8), shared_rails(8, 128, 64).networks(8)
    (((8, 1),), ((1, 8),))
    >>> [fat_tree(ends, 128).counts.switches for ends in (8 * 130, 130)]
    [26, 5]
    """
    ports = leaf_ports(radix)
    tiers = tiers_needed(hosts, radix, ports)
    least = hosts * (2 * tiers - 1 + LINK_PORTS * (tiers - 1))
    most = rails
    if tiers > 1 and fat_tree(hosts, radix, **pods).price <= least:
        most = 1
    elif tiers_needed(rails * hosts, radix, ports) > tiers:
        most = next(n for n in count(1) if tiers_needed((n + 1) * hosts, radix, ports) > tiers)
    sizes = np.unique([*range(1, most + 1), most if tiers == 1 else max(rails, 1)])
    prices = np.array([fat_tree(int(size) * hosts, radix, **pods).price for size in sizes])
    # Lowest price of so many rails: that of one more network, and of the rest.
    lowest, last = np.zeros(rails + 1), np.zeros(rails + 1, np.int64)
    for number in range(1, rails + 1):
        fits = sizes <= number
        sums = (prices[fits] + lowest[number - sizes[fits]]).round(6)
        last[number] = sizes[fits][sums.argmin()]
        lowest[number] = sums.min()
    return RailShares(lowest, last)


class RailShares(Struct, frozen=True, eq=False):
    """Lowest price of so many rails [ports of a switch], and the rails of its last network [1].

    Both by the number of rails, shape (rails + 1,).
    """

    prices: Floats
    last: Ints

    def networks(self, rails: int) -> tuple[tuple[int, int], ...]:
        """How many rails share a network.

        Parameters
        ----------
        rails
            Rails that are divided, up to those of the arrays [1].

        Returns
        -------
        tuple
            Rails of a network and the number of such networks, the largest first [1].
        """
        networks: dict[int, int] = {}
        while rails:
            size = int(self.last[rails])
            networks[size] = networks.get(size, 0) + 1
            rails -= size
        return tuple(sorted(networks.items(), reverse=True))
