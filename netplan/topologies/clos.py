"""Counting folded Clos networks: switches and links per tier, for any size.

Two counts, which agree where sizes divide evenly:

*port lower bound*  every port of every switch is used; per-tier ceilings of the port sums. This is
                    the count of the rail-only paper (arXiv:2307.12169), Table 2.
*wireable*          in addition every leaf has the same number of links to every spine above it
                    (equal uplinks), so that the network is non-blocking as built. Above the
                    leaves stand as many planes as a leaf has uplinks; each plane is again a Clos
                    network over the leaves.

Symbols: n endpoints, r ports per switch (radix), d ports down and u ports up per leaf.
"""

from itertools import zip_longest
from math import floor

from msgspec import Struct

from netplan.errors import InputError

MIN_RADIX, MAX_RADIX = 4, 1024


def ceil_div(numerator: int, denominator: int) -> int:
    """Integer ceiling of a quotient.

    Examples
    --------
    >>> ceil_div(7, 2)
    4
    """
    return -(-numerator // denominator)


class ClosCounts(Struct, frozen=True):
    """Switches and links of a folded Clos network, from the leaves up.

    The radix are the ports of a switch; the first tier counts leaves, the first links those of the
    endpoints [1].
    """

    radix: int
    switches_per_tier: tuple[int, ...] = ()
    links_per_tier: tuple[int, ...] = ()

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
        """Switch ports in use in each tier: its links below plus its links above [1]."""
        above = (*self.links_per_tier[1:], 0)
        return tuple(down + up for down, up in zip(self.links_per_tier, above, strict=False))

    def __add__(self, other: "ClosCounts") -> "ClosCounts":
        """Two networks side by side, tier by tier."""

        def total(mine: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(a + b for a, b in zip_longest(mine, theirs, fillvalue=0))

        return ClosCounts(
            self.radix,
            total(self.switches_per_tier, other.switches_per_tier),
            total(self.links_per_tier, other.links_per_tier),
        )

    def times(self, copies: int) -> "ClosCounts":
        """As many separate copies of this network."""
        if copies == 0:
            return ClosCounts(self.radix)
        return ClosCounts(
            self.radix,
            tuple(copies * count for count in self.switches_per_tier),
            tuple(copies * count for count in self.links_per_tier),
        )


class LeafPorts(Struct, frozen=True):
    """How a leaf splits its ports: ``down`` to endpoints, ``up`` to the next tier."""

    down: int
    up: int

    @property
    def oversubscription(self) -> float:
        """Bandwidth down over bandwidth up [1]."""
        return self.down / self.up


def leaf_ports(radix: int, oversubscription: float = 1.0) -> LeafPorts:
    """Split a leaf's ports for an oversubscription of at most ``oversubscription`` to 1.

    Examples
    --------
    >>> leaf_ports(64), leaf_ports(64, 3.0)
    (LeafPorts(down=32, up=32), LeafPorts(down=48, up=16))
    """
    check_radix(radix)
    if not 1.0 <= oversubscription <= radix - 1:
        raise InputError(
            f"oversubscription {oversubscription:g}:1 cannot be built with radix {radix}:"
            f" use 1 to {radix - 1}"
        )
    down = floor(radix * oversubscription / (1 + oversubscription) + 1e-9)
    return LeafPorts(down, radix - down)


def check_radix(radix: int) -> None:
    """Refuse a radix that no switch tier can use: odd, or outside 4 to 1,024."""
    if radix % 2 or not MIN_RADIX <= radix <= MAX_RADIX:
        raise InputError(
            f"switch radix {radix} cannot be used: give an even number of ports from {MIN_RADIX}"
            f" to {MAX_RADIX:,}, half of them face up"
        )


def tiers_needed(endpoints: int, radix: int, ports: LeafPorts) -> int:
    """Fewest tiers that hold the endpoints: n <= 2 d (r/2)^(L-1) beyond one switch [1].

    Examples
    --------
    >>> [tiers_needed(n, 64, leaf_ports(64)) for n in (64, 65, 2048, 2049, 65_537)]
    [1, 2, 2, 3, 4]
    """
    if endpoints <= radix:
        return int(endpoints > 1)
    tiers, capacity = 2, ports.down * radix
    while endpoints > capacity:
        tiers, capacity = tiers + 1, capacity * radix // 2
    return tiers


def clos_counts(endpoints: int, radix: int, *, oversubscription: float = 1.0) -> ClosCounts:
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
    ports = leaf_ports(radix, oversubscription)
    tiers = tiers_needed(endpoints, radix, ports)
    if tiers <= 1:
        return ClosCounts(radix, (1,) * tiers, (endpoints,) * tiers)
    above = ceil_div(endpoints * ports.up, ports.down)
    middle = [ceil_div(2 * above, radix)] * (tiers - 2)
    switches = (ceil_div(endpoints, ports.down), *middle, ceil_div(above, radix))
    return ClosCounts(radix, switches, (endpoints, *[above] * (tiers - 1)))


def wireable_clos(endpoints: int, radix: int, *, oversubscription: float = 1.0) -> ClosCounts:
    """Folded Clos network with equal uplinks: every leaf sees every spine above it alike.

    Endpoints are spread evenly over ceil(n/d) leaves. Above two tiers each uplink of a leaf leads
    to a plane of its own, a Clos network over the leaves. Parameters as in :func:`clos_counts`.

    Examples
    --------
    A published two-tier build: 24 leaves of radix 64 need 16 spines, not 12.

    >>> wireable_clos(768, 64).switches_per_tier, clos_counts(768, 64).switches_per_tier
    ((24, 16), (24, 12))
    """
    ports = leaf_ports(radix, oversubscription)
    tiers = tiers_needed(endpoints, radix, ports)
    if tiers <= 1:
        return ClosCounts(radix, (1,) * tiers, (endpoints,) * tiers)
    leaves = ceil_div(endpoints, ports.down)
    hosts_per_leaf = ceil_div(endpoints, leaves)
    uplinks = ceil_div(hosts_per_leaf * ports.up, ports.down)
    if tiers == 2:  # noqa: PLR2004 - leaves and spines
        spines, links_each = equal_uplinks(leaves, uplinks, radix, radix - hosts_per_leaf)
        return ClosCounts(radix, (leaves, spines), (endpoints, leaves * spines * links_each))
    planes = wireable_clos(leaves, radix).times(uplinks)
    return ClosCounts(
        radix,
        (leaves, *planes.switches_per_tier),
        (endpoints, *planes.links_per_tier),
    )


def equal_uplinks(leaves: int, uplinks: int, radix: int, ports_free: int) -> tuple[int, int]:
    """Fewest spines, and links from each leaf to each, so that every pair is joined alike.

    A leaf needs at least ``uplinks`` and has ``ports_free`` ports for them; a spine has ``radix``.
    Where a leaf has no port to spare this is the smallest divisor of its uplinks that is at least
    ceil(leaves x uplinks / radix), which reproduces the published two-tier builds.

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


def rail_only_counts(
    gpus: int,
    radix: int,
    hb_size: int,
    *,
    oversubscription: float = 1.0,
    wireable: bool = False,
) -> ClosCounts:
    """Separate networks, one a rail: GPUs of equal rank in all HB domains.

    Rails of n = ceil(N/K) hosts that fit a switch share it, floor(r/n) to a switch; a rail is never
    split. Larger rails each have a Clos network of their own. HB domains of K GPUs make K rails;
    only rails with two tiers or more are oversubscribed. ``wireable`` counts equal uplinks instead
    of the port lower bound.

    References
    ----------
    Wang et al., arXiv:2307.12169, section 4 and Table 2.

    Examples
    --------
    >>> rail_only_counts(32_768, 64, 256).switches, rail_only_counts(32_768, 128, 256).switches
    (1536, 256)
    """
    check_radix(radix)
    hosts = ceil_div(gpus, hb_size)
    if hosts <= 1:
        return ClosCounts(radix)
    if hosts <= radix:
        return ClosCounts(radix, (ceil_div(hb_size, radix // hosts),), (gpus,))
    count = wireable_clos if wireable else clos_counts
    long_rails = gpus - (hosts - 1) * hb_size
    long = count(hosts, radix, oversubscription=oversubscription).times(long_rails)
    if long_rails == hb_size:
        return long
    short = count(hosts - 1, radix, oversubscription=oversubscription)
    return long + short.times(hb_size - long_rails)
