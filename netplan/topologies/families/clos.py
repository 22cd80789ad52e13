"""Counting folded Clos networks: switches and links per tier, for any size.

Two counts, which agree where sizes divide evenly:

*port lower bound*  every port of every switch is used; per-tier ceilings of the port sums. This is
                    the count of the rail-only paper (arXiv:2307.12169), Table 2.
*wireable*          in addition every switch has the same number of links to every switch above it
                    that it is joined to (equal uplinks), so that the network is non-blocking as
                    built. Above the leaves stand planes, alike; each is again a Clos network over
                    the leaves. How many planes, and how many pods in each, is what
                    :func:`fat_tree` chooses.

Symbols: n endpoints, r ports per switch (radix), d ports down and u ports up per leaf.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import count, pairwise, zip_longest
from math import floor, inf

from msgspec import Struct

from netplan.errors import InputError
from netplan.records import replace

MIN_RADIX, MAX_RADIX = 4, 1024


def ceil_div(numerator: int, denominator: int) -> int:
    """Integer ceiling of a quotient.

    Parameters
    ----------
    numerator
        Number to divide, of any sign [1].
    denominator
        Number to divide by, not 0 [1].

    Returns
    -------
    int
        Smallest whole number that is no less than the quotient [1].

    Examples
    --------
    >>> ceil_div(7, 2)
    4
    """
    return -(-numerator // denominator)


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

        def total(mine: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(a + b for a, b in zip_longest(mine, theirs, fillvalue=0))

        return ClosCounts(
            self.radix,
            total(self.switches_per_tier, other.switches_per_tier),
            total(self.links_per_tier, other.links_per_tier),
            self.trunk_width,
        )

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


class TreeTier(Struct, frozen=True):
    """One tier of a fat tree.

    Above each switch of the tier below, or each endpoint, stand ``planes`` equal planes of
    ``switches``. In a plane it has ``links_each`` links, all to one switch [1].
    """

    planes: int
    switches: int
    links_each: int


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
    def groups(self) -> Iterator[tuple[int, int]]:
        """Leaves, pods and so on below the top tier: how many, and the ports out of each [1].

        A pod are the switches of all planes that join the same leaves.

        >>> list(fat_tree(1024, 16, oversubscription=3.0).groups)
        [(88, 4), (11, 32)]
        """
        copies = 1
        for tier, above in pairwise(self.tiers):
            copies *= above.planes
            yield tier.switches, copies * above.links_each * self.trunk_width

    @property
    def counts(self) -> ClosCounts:
        """Switches and links of every tier."""
        copies, ends = 1, self.endpoints
        switches, links = [], []
        for tier in self.tiers:
            copies *= tier.planes
            switches.append(copies * tier.switches)
            links.append(copies * ends * tier.links_each)
            ends = tier.switches
        return ClosCounts(self.radix, tuple(switches), tuple(links), self.trunk_width)


@lru_cache(maxsize=4096)
def fat_tree(
    endpoints: int,
    radix: int,
    *,
    oversubscription: float = 1.0,
    even: bool = True,
    trunk_width: int = 1,
) -> FatTree:
    """Fat tree that can be wired with the fewest switches, in as few tiers as hold the endpoints.

    Two tiers have spines by :func:`equal_uplinks`, and full leaves as published builds have, but
    where more leaves that are not full need fewer switches. With three tiers all leaf counts,
    planes and pods are tried: a leaf sends its uplinks to planes in
    bundles of one or more, and a plane joins the leaves by pods. Above three tiers every uplink of
    a leaf leads to a plane of its own, a tree of one tier less. Of equal designs the one with the
    fewest leaves, then links, then the thinnest bundles is taken.

    Every switch has at least as many links up as down (leaves: as the oversubscription asks), and a
    leaf of several uplinks several planes.

    Parameters
    ----------
    endpoints
        Network ports to join, n [1]. One or none needs no network.
    radix
        Ports per switch, r, even [1].
    oversubscription
        Bandwidth down over bandwidth up at the leaves, at least 1 [1].
    even
        Whether every pod has as many leaves, as OpenSM's fat-tree routing asks; a tree without that
        may need fewer switches.
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
    collectives (J. Parallel Distrib. Comput. 72, 2012): the even trees are its parallel ports
    generalized fat trees.

    Examples
    --------
    2,560 endpoints on switches of 64 ports: 219 switches, where a plane an uplink needs 240.

    >>> fat_tree(2560, 64).counts.switches_per_tier
    (87, 87, 45)
    >>> fat_tree(2560, 64, even=False).counts.switches
    218
    """
    ports = leaf_ports(radix, oversubscription, trunk_width)
    tiers = tiers_needed(endpoints, radix, ports, trunk_width)
    if tiers <= 1:
        return FatTree(endpoints, radix, (TreeTier(1, 1, 1),) * tiers, trunk_width)
    if tiers == TWO_TIERS:
        over = partial(_two_tiers, width=trunk_width)
        return _fewest_over_leaves(endpoints, radix, ports, over=over, tiers=tiers)
    if tiers == THREE_TIERS:
        over = partial(_three_tiers, even=even, width=trunk_width)
        tree = _fewest_over_leaves(endpoints, radix, ports, over=over, tiers=tiers)
    else:
        tree = _more_tiers(endpoints, radix, ports, even=even, width=trunk_width)
    if not even:
        alike = fat_tree(
            endpoints, radix, oversubscription=oversubscription, trunk_width=trunk_width
        )
        return alike if alike.counts.switches <= tree.counts.switches else tree
    return tree


TWO_TIERS, THREE_TIERS = 2, 3


def _more_tiers(
    endpoints: int, radix: int, ports: LeafPorts, *, even: bool, width: int = 1
) -> FatTree:
    """One plane an uplink, a tree of one tier less; as many leaves as fill it, if even."""
    leaves = ceil_div(endpoints, ports.down)
    plane = fat_tree(leaves, radix // width, even=even)
    if even:
        leaves = plane.leaves * plane.hosts_per_leaf
    first, *above = plane.tiers
    uplinks = ceil_div(ports.uplinks(ceil_div(endpoints, leaves)), width)
    planes = TreeTier(uplinks, first.switches, 1)
    return FatTree(endpoints, radix, (TreeTier(1, leaves, 1), planes, *above), width)


def _fewest_over_leaves(
    endpoints: int,
    radix: int,
    ports: LeafPorts,
    *,
    over: Callable[[int, int, LeafPorts, int], FatTree | None],
    tiers: int,
) -> FatTree:
    """Fewest switches; leaves are added until they alone cost more than is saved."""
    best: FatTree | None = None
    # No plane can do with fewer: its switches have a port up for each down, the last tier none.
    above = ceil_div((2 * tiers - 3) * ceil_div(endpoints * ports.up, ports.down), radix)
    leaves = ceil_div(endpoints, ports.down)
    # Full leaves, and full pods of half a radix, always wire, so that one is found.
    while best is None or leaves + above < best.counts.switches:
        tree = over(endpoints, radix, ports, leaves)
        if best is None or (tree and tree.counts.switches < best.counts.switches):
            best = tree
        leaves += 1
    return best


def _two_tiers(
    endpoints: int, radix: int, ports: LeafPorts, leaves: int, *, width: int = 1
) -> FatTree | None:
    """Two tiers over so many leaves, if a spine has a port for each."""
    if leaves > radix // width:
        return None
    hosts = ceil_div(endpoints, leaves)
    uplinks, free = ceil_div(ports.uplinks(hosts), width), (radix - hosts) // width
    spines, links = equal_uplinks(leaves, uplinks, radix // width, free)
    return FatTree(endpoints, radix, (TreeTier(1, leaves, 1), TreeTier(spines, 1, links)), width)


def _three_tiers(
    endpoints: int, radix: int, ports: LeafPorts, leaves: int, *, even: bool, width: int = 1
) -> FatTree | None:
    """Three tiers over so many leaves: the best way to bundle their uplinks into planes."""
    hosts = ceil_div(endpoints, leaves)
    uplinks, free = ceil_div(ports.uplinks(hosts), width), (radix - hosts) // width
    trees = []
    for planes in range(min(2, uplinks), uplinks + 1):
        per_plane = ceil_div(uplinks, planes)
        if planes > ceil_div(uplinks, per_plane) or planes * per_plane > free:
            continue
        pods = _pods(leaves, per_plane, radix // width, even=even)
        if pods is not None:
            tiers = (TreeTier(1, leaves, 1), replace(pods[0], planes=planes), pods[1])
            trees.append(FatTree(endpoints, radix, tiers, width))
    return min(trees, key=_preference, default=None)


def _preference(tree: FatTree) -> tuple[int, int, int]:
    counts = tree.counts
    return counts.switches, counts.links, tree.tiers[1].links_each


@lru_cache(maxsize=1 << 16)
def _pods(leaves: int, uplinks: int, radix: int, *, even: bool) -> tuple[TreeTier, TreeTier] | None:
    """One plane of two tiers over leaves of so many links: the number of pods that needs least."""
    best = None
    fewest = inf
    least = ceil_div(leaves * uplinks, radix)
    for pods in range(ceil_div(2 * leaves * uplinks, radix), min(leaves, radix) + 1):
        if pods + least >= fewest:
            break
        down = ceil_div(leaves, pods) * uplinks
        if (even and leaves % pods) or down > radix // 2:
            continue
        cores, links = equal_uplinks(pods, down, radix, radix - down)
        if pods + cores < fewest:
            best, fewest = (TreeTier(1, pods, uplinks), TreeTier(cores, 1, links)), pods + cores
    return best


def unit_tree(units: int, rails: int, radix: int) -> FatTree:
    """Even tree over whole scalable units: one leaf a rail and unit, half its ports down.

    Where so many units cannot be wired evenly, more are laid in as many tiers. Where no number of
    units can, pods are of unequal size, one plane an uplink.

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
    for leaves in count(units * rails, rails):
        ends = leaves * ports.down
        if tiers_needed(ends, radix, ports) > tiers:
            break
        if tiers == THREE_TIERS:
            tree = _three_tiers(ends, radix, ports, leaves, even=True)
        elif tiers == TWO_TIERS:
            tree = _two_tiers(ends, radix, ports, leaves)
        else:
            tree = fat_tree(ends, radix)
        if tree is not None and (tiers == 1 or tree.leaves == leaves):
            return tree
    return _more_tiers(units * rails * ports.down, radix, ports, even=False)


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


def rail_only_counts(
    gpus: int,
    radix: int,
    hb_size: int,
    *,
    oversubscription: float = 1.0,
    wireable: bool = False,
    even: bool = True,
) -> ClosCounts:
    """Separate networks, one a rail: GPUs of equal rank in all HB domains.

    Rails of n = ceil(N/K) hosts that fit a switch share it, floor(r/n) to a switch; a rail is never
    split. Larger rails each have a Clos network of their own. HB domains of K GPUs make K rails.

    Parameters
    ----------
    gpus
        GPUs of the cluster, N [1].
    radix
        Ports per switch, r, even [1].
    hb_size
        GPUs of an HB domain, K [1].
    oversubscription
        Bandwidth down over bandwidth up at the leaves, of rails with two tiers or more [1].
    wireable
        Whether each rail is a :func:`fat_tree`, not the port lower bound.
    even
        Whether the pods of such a tree have as many leaves each.

    Returns
    -------
    ClosCounts
        Switches and links of all rails together, from the leaves up [1].

    Raises
    ------
    InputError
        If the radix or the oversubscription cannot be built.

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

    def counted(ends: int) -> ClosCounts:
        if wireable:
            return fat_tree(ends, radix, oversubscription=oversubscription, even=even).counts
        return clos_counts(ends, radix, oversubscription=oversubscription)

    long_rails = gpus - (hosts - 1) * hb_size
    long = counted(hosts).times(long_rails)
    if long_rails == hb_size:
        return long
    return long + counted(hosts - 1).times(hb_size - long_rails)
