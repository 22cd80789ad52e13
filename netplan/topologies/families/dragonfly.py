"""Dragonflies: groups of switches, fully connected inside and between groups; sized and wired.

Symbols: p hosts, a switches per group, h global links per switch, g groups, c links per group
pair. Balanced: a = 2p = 2h, so a switch needs p + (a - 1) + h = 4h - 1 ports.

GPUs fill the switches in order, p to a switch. Inside a group every pair of switches is joined.
Between groups there are c links a pair: the T = c (g - 1) global ends of a group are numbered 0 to
T - 1 and spread evenly over its switches in that order, so end t is on switch floor(t a / T). Which
group end t leads to is the *arrangement*; with k = t mod (g - 1), of group i:

``absolute``   (or consecutive) to group k, or k + 1 from i on;
``relative``   to group i + k + 1 (mod g);
``circulant``  to group i + k/2 + 1 for even k, i - (k + 1)/2 for odd k (mod g).

Hastings et al., Comparing Global Link Arrangements for Dragonfly Networks (IEEE CLUSTER 2015).
On a switch the ports of the hosts come first, then the local ones, then the global ones.
"""

from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Ints
from netplan.errors import InputError
from netplan.levels import Level
from netplan.records import PositiveInt, replace
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, SwitchTier
from netplan.topologies.families.clos import ceil_div
from netplan.topologies.families.joined_switches import Groups, joined_network
from netplan.topologies.graph import HALL, HOST_LINKS, RACK, ROW, SWITCH, LinkType, Medium
from netplan.topologies.specs import FabricSpec
from netplan.units import counted

Arrangement = Literal["absolute", "relative", "circulant"]


class DragonflyShape(Struct, frozen=True):
    """Parameters of a dragonfly with groups of one kind: p, a, h and g [1].

    ``pair_links`` are the links between two groups, if fewer than the global ports allow [1].
    """

    hosts_per_switch: int
    switches_per_group: int
    global_links_per_switch: int
    groups: int
    pair_links: int | None = None

    @property
    def hosts_per_group(self) -> int:
        """Hosts that one group holds, a p [1]."""
        return self.hosts_per_switch * self.switches_per_group

    @property
    def switches(self) -> int:
        """Switches, a g [1]."""
        return self.switches_per_group * self.groups

    @property
    def radix_needed(self) -> int:
        """Ports that a switch needs, p + (a - 1) + h [1]."""
        return self.hosts_per_switch + self.switches_per_group - 1 + self.global_links_per_switch

    @property
    def local_links(self) -> int:
        """Links inside all groups, g C(a, 2) [1]."""
        return self.groups * self.switches_per_group * (self.switches_per_group - 1) // 2

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


def _balanced_shape(hosts: int, radix: int) -> DragonflyShape:
    """Balanced dragonfly (a = 2p = 2h) that uses the radix, with as many groups as needed.

    One switch where that holds all hosts.
    """
    if hosts <= radix:
        return DragonflyShape(hosts, 1, 0, 1)
    half = (radix + 1) // 4
    return _sized_shape(hosts, radix, (half, 2 * half, half))


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
    """Shape that a spec takes in this size: its own, or balanced for the radix.

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
        return _balanced_shape(sizing.gpus, sizing.radix)
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
    """Groups of switches; all keys of its shape absent: balanced for the radix (a = 2p = 2h)."""

    hosts_per_switch: PositiveInt | None = None
    switches_per_group: PositiveInt | None = None
    global_links_per_switch: PositiveInt | None = None
    groups: PositiveInt | None = None
    links_per_pair: PositiveInt | None = None
    global_arrangement: Arrangement = "absolute"
    host_medium: Medium = "optical"
    local_medium: Medium = "optical"

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

    @property
    def _kinds(self) -> tuple[LinkType, LinkType, LinkType]:
        """Links of hosts, inside groups, and between them."""
        return (
            replace(HOST_LINKS, medium=self.host_medium),
            LinkType("local", "local", tiers=(1, 1), medium=self.local_medium),
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
        leaf: Ints = gpu // dragonfly_shape(self, sizing).hosts_per_switch
        return leaf

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
        least = ceil_div(sizing.gpus, shape.hosts_per_switch)
        ports_used = sizing.gpus + 2 * (shape.local_links + shape.global_links)
        counts = (sizing.gpus, shape.local_links, shape.global_links)
        groups = tuple(map(LinkGroup.of, self._kinds, counts))
        network, any_share = _network_level(shape, sizing)
        return Fabric(
            name=self.name,
            title=self.title,
            sizing=sizing,
            tiers=(SwitchTier("group", shape.switches, least, ports_used),),
            links=tuple(group for group in groups if group.links),
            nic_ports=sizing.gpus,
            levels=(self.hb_level(sizing), network),
            network="any-to-any",
            notes=(*self.notes, *_notes(shape, any_share)),
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
        switch, place = np.divmod(gpu, np.int32(shape.hosts_per_switch))
        host_length = RACK if self.host_medium == "copper" else ROW
        host_kind, local_kind, global_kind = self._kinds
        hosts = Links(
            host_kind, gpu, first + switch, np.full_like(gpu, port), place, rate, host_length
        )
        local = Links(local_kind, *_local(shape, first), rate, lengths[self.local_medium])
        ends = _global(shape, first, self.global_arrangement)
        names = NameBlock("group-{}/switch-{}", (shape.groups, shape.switches_per_group))
        return Wired(
            (Nodes(SWITCH, 1, names),), (hosts, local, Links(global_kind, *ends, rate, HALL))
        )


def _notes(shape: DragonflyShape, any_share: float) -> list[str]:
    text = (
        f"{counted(shape.groups, 'group')} of"
        f" {counted(shape.switches_per_group, 'switch', 'switches')} with"
        f" {counted(shape.hosts_per_switch, 'host')} and"
        f" {counted(shape.global_links_per_switch, 'global link')} each"
    )
    if shape.groups > 1:
        text += f"; {counted(shape.links_per_pair, 'link')} a group pair, taper {shape.taper:.3g}"
    if any_share < 1:
        text += f"; over detours any traffic between groups gets {100 * any_share:.3g} % of a port"
    return [text + "."]


def pair_loads(shape: DragonflyShape) -> tuple[float, float]:
    """What the busiest links inside and between groups carry if each switch sends 1 to each [1].

    Of a^2 pairs of switches between two groups each of their c links carries a^2 / c. A link inside
    a group carries the pair that it joins, and what goes to and comes from other groups over the
    global ends of its switches: a / c of each, of which a switch has up to c (g-1) / a, rounded up.

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
        return (1.0 if switches > 1 else 0.0), 0.0
    ends = ceil_div(links * (shape.groups - 1), switches)
    inside = 1 + 2 * ends * switches / links if switches > 1 else 0.0
    return inside, switches**2 / links


def _network_level(shape: DragonflyShape, sizing: Sizing) -> tuple[Level, float]:
    """Level over the HB domains, as of all switches that are joined directly, and what it is worth.

    A link inside a group carries 2 / a of what leaves its switch for others of the group, and of
    what leaves for other groups its share of both halves of detours, 1 + w of s, if it carries w
    where each switch sends 1 to each other one.
    """
    switches = shape.switches_per_group
    inside = pair_loads(shape)[0]
    groups = Groups(switches, min(switches / 2, shape.switches / (1 + inside)))
    sizes = shape.switches, shape.hosts_per_switch
    return joined_network(sizing, sizes, pair_loads(shape), groups)


def _local(shape: DragonflyShape, first: int) -> tuple[AnyInts, AnyInts, AnyInts, AnyInts]:
    """All pairs of switches of each group: the two switches, and their ports."""
    low, high = (end.astype(np.int32) for end in np.triu_indices(shape.switches_per_group, 1))
    base = first + shape.switches_per_group * np.arange(shape.groups, dtype=np.int32)
    ports = shape.hosts_per_switch + high - 1, shape.hosts_per_switch + low
    return (
        np.add.outer(base, low).ravel(),
        np.add.outer(base, high).ravel(),
        np.tile(ports[0], shape.groups),
        np.tile(ports[1], shape.groups),
    )


def _global(
    shape: DragonflyShape, first: int, arrangement: Arrangement
) -> tuple[AnyInts, AnyInts, AnyInts, AnyInts]:
    """All links between groups, ordered by pair of groups, then copy: switches and ports."""
    copies = np.arange(shape.links_per_pair, dtype=np.int64)
    low, high = np.triu_indices(shape.groups, 1)
    low, high = np.repeat(low, len(copies)), np.repeat(high, len(copies))
    copy = np.tile(copies, len(low) // max(1, len(copies)))
    ends = [
        _end(shape, group, copy * (shape.groups - 1) + slot(arrangement, shape.groups, group, peer))
        for group, peer in ((low, high), (high, low))
    ]
    (source, source_port), (target, target_port) = ends
    return source + first, target + first, source_port, target_port


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


def _end(shape: DragonflyShape, group: AnyInts, end: AnyInts) -> tuple[AnyInts, AnyInts]:
    """Switch and port of a global end, by its number in its group."""
    total = shape.links_per_pair * (shape.groups - 1)
    switch = end * shape.switches_per_group // total
    start = -(-switch * total // shape.switches_per_group)  # first end on that switch
    port = shape.hosts_per_switch + shape.switches_per_group - 1 + end - start
    node = group * shape.switches_per_group + switch
    return node.astype(np.int32), port.astype(np.int32)
