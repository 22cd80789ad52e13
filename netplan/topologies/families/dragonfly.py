"""Dragonflies: groups of switches, fully connected inside and between groups; sized and wired.

Symbols: p hosts, a switches per group, h global links per switch, g groups, c links per group
pair, S switches in all. Balanced: a = 2p = 2h, so a switch needs p + (a - 1) + h = 4h - 1 ports.

Inside a group every pair of switches is joined. A file may say the shape; then GPUs fill the
switches in order, p to a switch. Otherwise S switches are spread evenly over g groups, of a or
a - 1, and the GPUs evenly over the switches, p or p - 1 on each, so that none is without. S is the
least for which any g keeps the rate of a port on average over the links of a group, where all GPUs
send to all over minimal paths and every switch has p:

* Each switch sends 1 to each other one, so that at the rate of its p ports a link carries S / p. Of
  a^2 pairs between two groups a link carries a^2 / c: c >= p a^2 / S, or a (a - 1) in place of a^2
  where one group alone is that large.
* A link inside a group carries 1 of its two switches, and on average the other S - a at both of its
  ends, once on their way out and once in: 1 + 2 (S - a) / a <= S / p, or a >= 2 p S / (S + p).
  Where global ends are not spread alike over the switches, links between those with most carry
  more, by some percent.
* p + (a - 1) + h is at most the radix, with h = c (g - 1) / a, rounded up.

Where N < p S, two switches of p GPUs send p^2 / N of a port's rate to each other, more than p / S.
What the busiest link leaves to uniform traffic is counted (:func:`minimal_share`), and noted where
that is less than 99 % of a port's rate.

With many groups that is the balanced shape, with one a full mesh. Of a lone group no ports lead
elsewhere: there are p / S links, rounded up, between any two of its switches. Of shapes with as
many switches that with the fewest links between groups is taken, then inside.

Between groups there are c links a pair: the T = c (g - 1) global ends of a group are numbered 0 to
T - 1 and spread evenly over its switches in that order, so end t is on switch floor(t a / T). Which
group end t leads to is the *arrangement*; with k = t mod (g - 1), of group i:

``absolute``   (or consecutive) to group k, or k + 1 from i on;
``relative``   to group i + k + 1 (mod g);
``circulant``  to group i + k/2 + 1 for even k, i - (k + 1)/2 for odd k (mod g).

Hastings et al., Comparing Global Link Arrangements for Dragonfly Networks (IEEE CLUSTER 2015).
On a switch the ports of the hosts come first, then the local ones, then the global ones.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Ints, ceil_div
from netplan.errors import InputError
from netplan.levels import Level
from netplan.records import PositiveInt, replace
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, SwitchTier
from netplan.topologies.families import joined_switches
from netplan.topologies.families.clos import even_groups
from netplan.topologies.graph import HALL, HOST_LINKS, RACK, ROW, SWITCH, LinkType, Medium
from netplan.topologies.specs import FabricSpec
from netplan.units import counted

Arrangement = Literal["absolute", "relative", "circulant"]

AT_ONCE = 4096
"""Numbers of switches that are looked at together [1]."""


class DragonflyShape(Struct, frozen=True):
    """Parameters of a dragonfly: p, a, h and g, the most of a switch or group [1].

    ``pair_links`` are the links between two groups, if fewer than the global ports allow, and
    ``local_pair_links`` those between two switches of a group [1].
    ``spread`` are its switches, where they are spread evenly over the groups, and GPUs over them
    [1]; None says that all groups are full, and that GPUs fill the switches in order.
    """

    hosts_per_switch: int
    switches_per_group: int
    global_links_per_switch: int
    groups: int
    pair_links: int | None = None
    spread: int | None = None
    local_pair_links: int = 1

    @property
    def hosts_per_group(self) -> int:
        """Hosts that one group holds, a p [1]."""
        return self.hosts_per_switch * self.switches_per_group

    @property
    def switches(self) -> int:
        """Switches, a g or fewer [1]."""
        return self.spread or self.switches_per_group * self.groups

    @property
    def starts(self) -> Ints:
        """First switch of each group, and the end of the last, shape (groups + 1,) [1]."""
        return np.arange(self.groups + 1) * self.switches // self.groups

    @property
    def sizes(self) -> tuple[int, ...]:
        """Switches of a group, from large to small, each number once [1].

        Examples
        --------
        >>> DragonflyShape(4, 5, 3, 4, pair_links=4, spread=18).sizes
        (5, 4)
        """
        return tuple(sorted({ceil_div(self.switches, self.groups), self.switches // self.groups}))[
            ::-1
        ]

    def group_of(self, switch: Ints) -> Ints:
        """Group of each switch.

        Parameters
        ----------
        switch
            Numbers of switches, any shape [1].

        Returns
        -------
        Ints
            Numbers of their groups, of the same shape [1].
        """
        return even_groups(switch, self.switches, self.groups)

    def switch_of(self, gpu: Ints, gpus: int) -> Ints:
        """Switch of each GPU.

        Parameters
        ----------
        gpu
            Numbers of GPUs, any shape [1].
        gpus
            GPUs of the fabric, N [1].

        Returns
        -------
        Ints
            Numbers of their switches, of the same shape [1].
        """
        if self.spread is None:
            return gpu // self.hosts_per_switch
        return even_groups(gpu, gpus, self.spread)

    @property
    def radix_needed(self) -> int:
        """Ports that a switch needs, p + (a - 1) + h where one link joins each two of a group."""
        local = self.local_pair_links * (self.switches_per_group - 1)
        return self.hosts_per_switch + local + self.global_links_per_switch

    @property
    def local_links(self) -> int:
        """Links inside all groups, the sum of C(a, 2) [1]."""
        sizes = np.diff(self.starts)
        return self.local_pair_links * int((sizes * (sizes - 1)).sum()) // 2

    @property
    def links_per_pair(self) -> int:
        """Links between two groups, c: the global ports spread evenly over the others [1]."""
        if self.groups == 1:
            return 0
        if self.pair_links is not None:
            return self.pair_links
        return self.switches_per_group * self.global_links_per_switch // (self.groups - 1)

    @property
    def global_links(self) -> int:
        """Links between groups, c C(g, 2) [1]."""
        return self.links_per_pair * self.groups * (self.groups - 1) // 2

    @property
    def taper(self) -> float:
        """Global over host bandwidth of a group, one direction: (g-1) c / (a p) [1]."""
        return (self.groups - 1) * self.links_per_pair / self.hosts_per_group


def _best(hosts: int, switches: int, radix: int) -> DragonflyShape | None:
    """The shape of so many switches with the fewest links between groups, then inside.

    Groups that keep the rate and have the ports are looked for among all numbers of them that the
    rule for their own links allows; None if there are none.
    """
    copies = ceil_div(hosts, switches)
    if hosts + copies * (switches - 1) <= radix:
        return DragonflyShape(hosts, switches, 0, 1, None, switches, copies)
    fewest = max(2, ceil_div(switches, radix))
    groups = np.arange(fewest, max(fewest, (switches + hosts) // (2 * hosts)) + 1)
    large, small = -(-switches // groups), switches // groups
    second = large - (switches % groups == 1)
    links = -(-hosts * large * second // switches)
    ends = [-(-links * (groups - 1) // size) for size in (large, small)]
    ports = hosts - 1 + np.maximum(large + ends[0], small + ends[1])
    kept = ports <= radix
    kept &= hosts * (2 * switches - small) <= switches * small
    if not kept.any():
        return None
    every = np.where(kept, links * groups * (groups - 1), np.iinfo(np.int64).max)
    best = np.flatnonzero(every == every.min())[-1]
    size, most, count, pair = (
        int(values[best]) for values in (large, np.maximum(*ends), groups, links)
    )
    return DragonflyShape(hosts, size, most, count, pair, switches)


@lru_cache
def most_gpus(radix: int) -> int:
    """GPUs of the largest dragonfly that keeps the rate of a port, one link a pair of groups.

    Parameters
    ----------
    radix
        Ports of a switch [1].

    Returns
    -------
    int
        GPUs that it holds [1].

    Examples
    --------
    Two hosts, five switches a group, two global links each: 11 groups of ten hosts.

    >>> most_gpus(8)
    110
    """
    hosts, size = np.ogrid[1:radix, 1 : radix + 1]
    links = radix - hosts - (size - 1)
    switches = size * (size * links + 1)
    grouped = (links > 0) & (hosts * size**2 <= switches)
    grouped &= hosts * (2 * switches - size) <= switches * size
    meshed = hosts + -(-hosts // size) * (size - 1) <= radix
    return int(np.maximum(hosts * switches * grouped, hosts * size * meshed).max())


@lru_cache(maxsize=1024)
def _fewest(gpus: int, radix: int) -> DragonflyShape | None:
    """The dragonfly with the fewest switches that keeps the rate; None if none holds the GPUs.

    Groups that need not be of whole switches take the fewest ports where they are as many as the
    rule for their own links allows, (S + p) / (2 p): 4 p S / (S + p) - 1. Fewer switches than that
    allows are not looked at, unless they make a mesh.
    """
    if gpus > most_gpus(radix):
        return None
    first = ceil_div(gpus, radix - 1)
    while True:
        switches = np.arange(first, first + AT_ONCE)
        hosts = -(-gpus // switches)
        grouped = 4 * hosts * switches <= (radix + 1) * (switches + hosts)
        meshed = hosts + -(-hosts // switches) * (switches - 1) <= radix
        for count in switches[grouped | meshed].tolist():
            shape = _best(ceil_div(gpus, count), count, radix)
            if shape is not None:
                return shape
        first += AT_ONCE


def sized_shape(gpus: int, radix: int) -> DragonflyShape:
    """Shape of the dragonfly with the fewest switches that keeps the rate of a port.

    Parameters
    ----------
    gpus
        GPUs that it holds, N [1].
    radix
        Ports of a switch [1].

    Returns
    -------
    DragonflyShape
        One switch where that holds all; else as the rules of this module have it.

    Raises
    ------
    InputError
        If no dragonfly of this radix holds them.

    Examples
    --------
    Too many for a mesh of switches of 32 ports: 64 in four groups of 16.

    >>> shape = sized_shape(520, 32)
    >>> shape.switches, shape.groups, shape.sizes, shape.hosts_per_switch, shape.links_per_pair
    (64, 4, (16,), 9, 36)
    """
    if gpus <= radix:
        return DragonflyShape(gpus, 1, 0, 1)
    shape = _fewest(gpus, radix)
    if shape is None:
        raise InputError(
            f"a dragonfly of {radix}-port switches holds at most {most_gpus(radix):,} GPUs at the"
            f" rate of a port, got {gpus:,}: raise the radix"
        )
    return shape


def _sized_shape(hosts: int, radix: int, shape: tuple[int, int, int]) -> DragonflyShape:
    """Dragonfly of given p, a and h with as many groups as the hosts need."""
    per_switch, per_group, global_links = shape
    if hosts <= per_switch:
        per_group = 1
    elif hosts <= per_switch * per_group:
        per_group = ceil_div(hosts, per_switch)
    groups = ceil_div(hosts, per_switch * per_group)
    built = DragonflyShape(per_switch, per_group, global_links if groups > 1 else 0, groups)
    if built.radix_needed > radix:
        raise InputError(
            f"a dragonfly switch with {per_switch} hosts, {per_group - 1} local and {global_links}"
            f" global links needs {built.radix_needed} ports, got radix {radix}"
        )
    if groups > 1 and built.links_per_pair < 1:
        largest = per_switch * per_group * (per_group * global_links + 1)
        raise InputError(
            f"a dragonfly of {per_switch} hosts, {per_group} switches a group and {global_links}"
            f" global links a switch holds at most {largest:,} GPUs, got {hosts:,}:"
            " raise the radix"
        )
    return built


def dragonfly_shape(spec: FabricSpec, sizing: Sizing) -> DragonflyShape:
    """Shape that a spec takes in this size: its own, or the one with the fewest switches.

    Parameters
    ----------
    spec
        A fabric of family ``dragonfly``.
    sizing
        GPUs, and ports of a switch.

    Returns
    -------
    DragonflyShape
        Hosts, switches, groups and links, p, a, g, h and c [1].

    Raises
    ------
    InputError
        If its groups do not hold the GPUs, or a switch or a group lacks ports.
    """
    if not isinstance(spec, Dragonfly):
        raise InputError(f"{spec.name} is no dragonfly: give one")
    per_switch, per_group = spec.hosts_per_switch, spec.switches_per_group
    global_links = spec.global_links_per_switch
    if per_switch is None or per_group is None or global_links is None:
        return sized_shape(sizing.gpus, sizing.radix)
    if spec.groups is None:
        shape = _sized_shape(sizing.gpus, sizing.radix, (per_switch, per_group, global_links))
        if shape.groups > 1:
            shape = replace(shape, pair_links=spec.links_per_pair)
    else:
        links = spec.links_per_pair
        shape = DragonflyShape(per_switch, per_group, global_links, spec.groups, links)
        held = shape.groups * shape.hosts_per_group
        if sizing.gpus > held:
            raise InputError(
                f"{spec.name}: {shape.groups} groups hold {held:,} GPUs, got {sizing.gpus:,}:"
                " raise groups in the fabric file, or take fewer GPUs"
            )
    _check_ports(spec.name, shape, sizing.radix)
    return shape


def _check_ports(name: str, shape: DragonflyShape, radix: int) -> None:
    """Refuse a shape whose switches or groups lack ports."""
    if shape.radix_needed > radix:
        raise InputError(
            f"{name}: a switch needs {shape.radix_needed} ports, got radix {radix}: raise the"
            " radix, or lower hosts_per_switch or global_links_per_switch"
        )
    wanted = shape.links_per_pair * (shape.groups - 1)
    held = shape.switches_per_group * shape.global_links_per_switch
    if shape.groups > 1 and not 0 < wanted <= held:
        raise InputError(
            f"{name}: {shape.links_per_pair} links to each of {shape.groups - 1} other groups need"
            f" {max(wanted, shape.groups - 1):,} global ports, a group has {held:,}: change"
            " groups, links_per_pair or global_links_per_switch"
        )


class Dragonfly(FabricSpec, frozen=True, kw_only=True):
    """Groups of switches; all keys of its shape absent: as few switches as keep the rate."""

    hosts_per_switch: PositiveInt | None = None
    switches_per_group: PositiveInt | None = None
    global_links_per_switch: PositiveInt | None = None
    groups: PositiveInt | None = None
    links_per_pair: PositiveInt | None = None
    global_arrangement: Arrangement = "absolute"
    host_medium: Medium | None = None
    local_medium: Medium | None = None

    source_media: ClassVar[Mapping[str, Medium]] = {"host": "copper", "local": "copper"}

    def __post_init__(self) -> None:
        """Refuse shapes that are half given."""
        super().__post_init__()
        shape = (self.hosts_per_switch, self.switches_per_group, self.global_links_per_switch)
        if (any(shape) or self.groups or self.links_per_pair) and None in shape:
            raise ValueError(
                "hosts_per_switch, switches_per_group and global_links_per_switch make the shape of"
                " a dragonfly together, and groups and links_per_pair need all three: give them, or"
                " leave all out"
            )

    def _kinds(self, sizing: Sizing) -> tuple[LinkType, LinkType, LinkType]:
        """Links of hosts, inside groups, and between them."""
        return (
            replace(HOST_LINKS, medium=self.medium_of("host", sizing)),
            LinkType("local", "local", tiers=(1, 1), medium=self.medium_of("local", sizing)),
            LinkType("global", "global", tiers=(1, 1)),
        )

    def leaf_of(self, sizing: Sizing, gpu: Ints) -> Ints | None:
        """Under which switch GPUs lie.

        Parameters
        ----------
        sizing
            What the fabric is built for.
        gpu
            Numbers of GPUs, shape (gpus,).

        Returns
        -------
        Ints or None
            Numbers of their switches, shape (gpus,).
        """
        return dragonfly_shape(self, sizing).switch_of(gpu, sizing.gpus)

    def build(self, sizing: Sizing) -> Fabric:
        """Dragonfly over all GPUs, whose HB domains lie in whole switches or groups.

        Parameters
        ----------
        sizing
            GPUs, HB domain, ports of a switch, and rates.

        Returns
        -------
        Fabric
            Its switches, links and ports as counted, and its levels as timed.

        Raises
        ------
        InputError
            As of :func:`dragonfly_shape`.
        """
        shape = dragonfly_shape(self, sizing)
        least = shape.spread or ceil_div(sizing.gpus, shape.hosts_per_switch)
        ports_used = sizing.gpus + 2 * (shape.local_links + shape.global_links)
        counts = (sizing.gpus, shape.local_links, shape.global_links)
        groups = tuple(map(LinkGroup.of, self._kinds(sizing), counts))
        network, any_share = _network_level(shape, sizing)
        shares = minimal_share(shape, sizing.gpus, self.global_arrangement), any_share
        return Fabric(
            name=self.name,
            title=self.title,
            sizing=sizing,
            tiers=(SwitchTier("group", shape.switches, least, ports_used),),
            links=tuple(group for group in groups if group.links),
            nic_ports=sizing.gpus,
            levels=(self.hb_level(sizing), network),
            network="any-to-any",
            notes=(
                *(*self.notes, *self.source_note(sizing)),
                *(*_notes(shape, *shares), *_more_notes(shape, sizing)),
            ),
        )

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:
        """Wire hosts (by GPU), local links (by group, then pair), global links (by pair of groups).

        Parameters
        ----------
        fabric
            The same fabric as sized.
        first
            Number of its first switch among the nodes of the whole graph.
        port
            Port of a GPU that leads to its switch, counted from 0.

        Returns
        -------
        Wired
            Switches, and links of hosts, inside groups, and between them.

        Raises
        ------
        InputError
            As of :func:`dragonfly_shape`.
        """
        sizing = fabric.sizing
        shape = dragonfly_shape(self, sizing)
        rate = sizing.network_bytes_per_s
        lengths = {"optical": HALL, "copper": RACK}
        gpu = np.arange(sizing.gpus, dtype=np.int32)
        switch = shape.switch_of(gpu.astype(np.int64), sizing.gpus).astype(np.int32)
        begins = np.searchsorted(switch, np.arange(shape.switches)).astype(np.int32)
        place = gpu - begins[switch]
        host_length = RACK if self.medium_of("host", sizing) == "copper" else ROW
        host_kind, local_kind, global_kind = self._kinds(sizing)
        hosts = Links(
            host_kind, gpu, first + switch, np.full_like(gpu, port), place, rate, host_length
        )
        local = Links(
            local_kind, *_local(shape, first), rate, lengths[self.medium_of("local", sizing)]
        )
        ends = _global(shape, first, self.global_arrangement)
        return Wired(_nodes(shape), (hosts, local, Links(global_kind, *ends, rate, HALL)))


def _nodes(shape: DragonflyShape) -> tuple[Nodes, ...]:
    """Switches, group by group: a block for each run of groups of one size.

    Those of a mesh of its own have no group in their names, which could fail as a whole.
    """
    if shape.groups == 1 and shape.spread is not None:
        return (Nodes(SWITCH, 1, NameBlock("switch-{}", (shape.switches,))),)
    sizes = np.diff(shape.starts)
    runs = np.flatnonzero(np.diff(sizes, prepend=0, append=0))
    return tuple(
        Nodes(SWITCH, 1, NameBlock("group-{}/switch-{}", (end - first, int(sizes[first])), first))
        for first, end in pairwise(runs.tolist())
    )


def _notes(shape: DragonflyShape, share: float, any_share: float) -> list[str]:
    """What the shape is, and what it is worth."""
    hosts, links = counted(shape.hosts_per_switch, "host"), shape.links_per_pair
    if shape.switches == 1:
        return [f"One switch holds all {shape.hosts_per_switch:,} GPUs."]
    detours = f"; over detours any traffic gets {100 * any_share:.3g} % of a port"
    worth = f"; over minimal paths uniform traffic gets {100 * share:.3g} % of a port's rate"
    if shape.groups == 1:
        joined = counted(shape.local_pair_links, "link")
        text = f"A full mesh: {shape.switches} switches of {hosts}, {joined} between any two"
    else:
        sizes = " or ".join(map(str, shape.sizes))
        ends = counted(shape.global_links_per_switch, "global link")
        text = (
            f"{counted(shape.groups, 'group')} of {sizes} switches with {hosts} and {ends} each;"
            f" {counted(links, 'link')} a group pair, taper {shape.taper:.3g}"
        )
        detours = detours.replace("any traffic", "any traffic between groups")
    worth = worth if share < joined_switches.LEAST_NOTED else ""
    return [f"{text}{worth}{detours if any_share < 1 else ''}."]


def _more_notes(shape: DragonflyShape, sizing: Sizing) -> list[str]:
    """Whether a few switches more spare links between groups."""
    if shape.spread is None:
        return []

    def links_with(switches: int) -> int | None:
        other = _best(ceil_div(sizing.gpus, switches), switches, sizing.radix)
        return None if other is None else other.global_links

    return joined_switches.fewer_links_note(shape.switches, sizing.radix, links_with)


def pair_loads(shape: DragonflyShape) -> tuple[float, float]:
    """What the busiest links inside and between groups carry if each switch sends 1 to each [1].

    Of a^2 pairs of switches between two groups each of their c links carries a^2 / c. A link inside
    a group carries the pair that it joins, and what goes to and comes from other groups over the
    global ends of its switches: a / c of each, of which a switch has up to c (g-1) / a, rounded up.
    Of groups that differ the smaller ones have more ends a switch, and large ones send most.

    Parameters
    ----------
    shape
        The dragonfly, p, a, h, g and c [1].

    Returns
    -------
    tuple[float, float]
        Load of the busiest link inside a group, and of a link between two groups, over what one
        switch sends to one other [1].

    Examples
    --------
    Eight groups of 16 switches, 18 links a pair: 1 + 2 x 8 x 16 / 18.

    >>> [round(load, 3) for load in pair_loads(DragonflyShape(8, 16, 8, 8))]
    [15.222, 14.222]
    """
    switches, links = shape.switches_per_group, shape.links_per_pair
    if shape.groups == 1:
        return (1 / shape.local_pair_links if switches > 1 else 0.0), 0.0
    smallest = min((size for size in shape.sizes if size > 1), default=1)
    ends = ceil_div(links * (shape.groups - 1), smallest)
    inside = 1 + 2 * ends * switches / links if switches > 1 else 0.0
    other = switches - (shape.switches % shape.groups == 1 and len(shape.sizes) > 1)
    return inside, switches * other / links


def minimal_share(shape: DragonflyShape, gpus: int, arrangement: Arrangement) -> float:
    """Share of a port's rate that uniform traffic gets on the busiest link, over minimal paths [1].

    Each GPU sends 1 to each other one. Of N_i x N_j between two groups a global link carries 1 / c.
    Let a switch with n GPUs pass G to and from other groups: N_j / c for each global link to group
    j, for each GPU here. A local link from switch x to y carries n_x n_y + n_x G_y + G_x n_y.

    Parameters
    ----------
    shape, gpus
        The dragonfly, and the GPUs that it holds [1].
    arrangement
        Which switch has the links to which group.

    Returns
    -------
    float
        At most 1 [1].

    Examples
    --------
    Three groups of four switches hold 24 GPUs, two links a pair: a global link carries 8 x 8 / 2, a
    local one 2 x 2 + 2 x 4 + 4 x 2, and a GPU sends 23.

    >>> round(minimal_share(DragonflyShape(2, 4, 1, 3), 24, "absolute"), 4)
    0.7188
    """
    links = max(1, shape.links_per_pair)
    starts = np.searchsorted(
        shape.switch_of(np.arange(gpus), gpus), np.arange(shape.switches + 1)
    ).astype(float)
    held, first_switch = np.diff(starts), shape.starts
    of_group = np.diff(starts[first_switch])
    ends = [end.astype(np.int64) for end in _global(shape, 0, arrangement)[:2]]
    passed, busiest = np.zeros(shape.switches), 0.0
    for near, far in (ends, ends[::-1]):
        coming = of_group[shape.group_of(far)] / links
        passed += np.bincount(near, coming, minlength=shape.switches)
        busiest = max(busiest, float((coming * of_group[shape.group_of(near)]).max(initial=0)))
    for first, end in pairwise(first_switch.tolist()):
        some, through = held[first:end], passed[first:end]
        local = np.outer(some, some / 2 + through) / shape.local_pair_links
        local += local.T
        np.fill_diagonal(local, 0.0)
        busiest = max(busiest, float(local.max(initial=0)))
    return min(1.0, (gpus - 1) / busiest) if busiest else 1.0


def _network_level(shape: DragonflyShape, sizing: Sizing) -> tuple[Level, float]:
    """Level over the HB domains, as of all switches that are joined directly, and what it is worth.

    A link inside a group carries 2 / a of what leaves its switch for others of the group, and of
    what leaves for other groups its share of both halves of detours, 1 + w of s, if it carries w
    where each switch sends 1 to each other one.
    """
    switches, sizes = shape.switches_per_group, (shape.switches, shape.hosts_per_switch)
    spread = (shape.switches, shape.groups) if shape.spread else ()
    loads = pair_loads(shape)
    if shape.groups == 1:
        return joined_switches.joined_network(sizing, sizes, loads[:1], spread=spread)
    groups = joined_switches.Groups(switches, min(switches / 2, shape.switches / (1 + loads[0])))
    return joined_switches.joined_network(sizing, sizes, loads, groups, spread=spread)


def _local(shape: DragonflyShape, first: int) -> tuple[AnyInts, AnyInts, AnyInts, AnyInts]:
    """All pairs of switches of each group: the two switches, and their ports."""
    starts, copies = shape.starts.astype(np.int32), shape.local_pair_links
    sizes, blocks = np.diff(starts), [np.empty((4, 0), np.int32)]
    for size in np.unique(sizes).tolist():
        low, high = (np.repeat(end, copies).astype(np.int32) for end in np.triu_indices(size, 1))
        base = first + starts[:-1][sizes == size]
        port = shape.hosts_per_switch + np.arange(len(low), dtype=np.int32) % copies
        ports = (np.tile(port + copies * end, len(base)) for end in (high - 1, low))
        blocks.append(np.stack([*(np.add.outer(base, end).ravel() for end in (low, high)), *ports]))
    ends = np.concatenate(blocks, axis=1)
    source, target, source_port, target_port = ends[:, np.argsort(ends[0], kind="stable")]
    return source, target, source_port, target_port


def _global(
    shape: DragonflyShape, first: int, arrangement: Arrangement
) -> tuple[AnyInts, AnyInts, AnyInts, AnyInts]:
    """All links between groups, ordered by pair of groups, then copy: switches and ports."""
    copies = np.arange(shape.links_per_pair, dtype=np.int64)
    low, high = np.triu_indices(shape.groups, 1)
    low, high = np.repeat(low, len(copies)), np.repeat(high, len(copies))
    copy = np.tile(copies, len(low) // max(1, len(copies)))
    total, starts = shape.links_per_pair * (shape.groups - 1), shape.starts
    ends = []
    for group, peer in ((low, high), (high, low)):
        # The number of an end in its group says on which switch it is.
        end = copy * (shape.groups - 1) + slot(arrangement, shape.groups, group, peer)
        size = np.diff(starts)[group]
        switch = end * size // total
        port = shape.hosts_per_switch + size - 1 + end - -(-switch * total // size)
        ends.append(((first + starts[group] + switch).astype(np.int32), port.astype(np.int32)))
    (source, source_port), (target, target_port) = ends
    return source, target, source_port, target_port


def slot(arrangement: Arrangement, groups: int, group: AnyInts, peer: AnyInts) -> AnyInts:
    """Position k, from 0 to g - 2, of the end in one group that leads to another group.

    Parameters
    ----------
    arrangement
        ``absolute``, ``relative`` or ``circulant`` (table of this module).
    groups
        Groups of the dragonfly, g [1].
    group
        Group of the end, i, from 0 to g - 1, any shape that broadcasts with ``peer``.
    peer
        Group that the end leads to, another one.

    Returns
    -------
    AnyInts
        Position k of each end, as both arrays broadcast.

    References
    ----------
    Hastings et al., Comparing Global Link Arrangements for Dragonfly Networks (IEEE CLUSTER 2015).

    Examples
    --------
    >>> peers = np.array([0, 1, 3, 4])
    >>> for name in ("absolute", "relative", "circulant"):
    ...     print(slot(name, 5, np.array(2), peers))
    [0 1 2 3]
    [2 3 0 1]
    [3 1 0 2]
    """
    if arrangement == "absolute":
        return np.where(peer < group, peer, peer - 1)
    ahead = (peer - group) % groups
    if arrangement == "relative":
        return ahead - 1
    behind = groups - ahead
    # With an even number of groups the opposite group is its own mirror: the last position.
    return np.where(ahead <= behind, 2 * (ahead - 1), 2 * behind - 1)
