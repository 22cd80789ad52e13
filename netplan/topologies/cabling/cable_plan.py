"""The cable plan of a fabric: one row a cable, port to port.

A plan is a table of columns, made from the arrays of a graph without an object a cable. Ports count
from 1, as on a front panel; where the switch model is known, its ports are named by cage and half.
A label says both ends, so that it stays the same when the plan is made again. What nobody has said
is left empty: racks and units without a floor plan, and lengths.

A plan can name servers and their ports instead of GPUs, as management tools know them. Host h holds
the GPUs from h x n on, n GPUs a host. Ports are numbered through a host: those of its first GPU,
then those of the next, so that port p of its GPU r is port r x ports + p. On machines with one
network adapter a GPU, this is the order of the adapters.

==========================  =================================================================
``label``                   ``device:port--device:port``, A end first
``a_device``, ``z_device``  node names of the fabric; A is the end nearer to the GPUs
``a_port``, ``z_port``      port on the device, from 1; ``1/2`` is port 2 of a switch's cage 1
``a_rack``, ``a_unit``      where the device stands, if known; likewise ``z_rack``, ``z_unit``
``gbps``                    rate, one direction [Gb/s]
``medium``                  ``fibre`` or ``copper``, if known; ``trace`` on a board
``length_class``            ``rack`` (up to 3 m), ``row`` (about 15 m), ``hall`` (about 30 m)
``length_m``                length, if a floor plan gives it [m]
``group``                   link group of the fabric: ``host``, ``leaf-spine``, …
==========================  =================================================================

Cables of the networks beside the one that trains, port to port, in the columns of a cable plan.

Ports of nodes come first, port by port, so that two ports of a node end on different leaves; then
those of other servers, of switches that are managed, and uplinks of other networks. All are spread
evenly over the leaves, in order. Links of a leaf are dealt out over the spines as
:func:`netplan.topologies.site_networks.dealt_out` counts them.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from netplan.arrays import Floats, Indices, ceil_div
from netplan.errors import InputError
from netplan.progress import through
from netplan.records import replace
from netplan.topologies.cabling.as_built import cage_port
from netplan.topologies.cabling.device_names import HOST, host_name, require_host
from netplan.topologies.cabling.floor_plan import Place
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import (
    GPU,
    HB_SWITCH,
    LENGTH_CLASSES,
    MANAGER,
    MEMORY,
    SWITCH,
    FabricGraph,
    network_only,
)
from netplan.topologies.site_networks import SiteNetwork
from netplan.units import gbps

PLAN_COLUMNS = (
    *("label", "a_device", "a_port", "a_rack", "a_unit"),
    *("z_device", "z_port", "z_rack", "z_unit"),
    *("gbps", "medium", "length_class", "length_m", "group"),
)

ROLES = {GPU: "gpu", SWITCH: "switch", MANAGER: "manager", HB_SWITCH: "hb-switch", MEMORY: "memory"}
MEDIA = {"optical": "fibre", "copper": "copper", "on-board": "trace", "on-chip": ""}


class Device(Struct, frozen=True):
    """A device of the plan: its name, ``gpu``, ``switch`` or ``manager``, and its place."""

    name: str
    role: str
    place: Place


class PlanSheet(Struct, frozen=True):
    """A table to be written: its header, and rows of the same length."""

    name: str
    header: tuple[str, ...]
    rows: Iterator[tuple[str, ...]]


class CablePlan(Struct, frozen=True, eq=False):
    """Cables of a fabric, as columns of one length; the devices with switches after GPUs.

    Ends are numbers of devices with ports from 1. Rates count one direction [Gb/s], lengths are
    known or empty [m]. With several links in a cage of a switch, its ports are named by cage. The
    kind of a cable or of its fibre, as ``dac`` or ``multimode``, stands where it is known.
    """

    devices: Sequence[Device]
    a: Indices
    z: Indices
    a_port: Indices
    z_port: Indices
    gbps: Floats
    medium: Sequence[str]
    length_class: Sequence[str]
    group: Sequence[str]
    length_m: Sequence[str]
    cage_links: int = 1
    kind: Sequence[str] = ()

    def __len__(self) -> int:
        """Cables [1]."""
        return len(self.a)

    def ends(self) -> Iterator[tuple[Device, str, Device, str]]:
        """Device and port at the A end, device and port at the Z end, cable by cable."""
        devices = np.array(self.devices, object)
        ends = zip(
            devices[self.a].tolist(),
            self.port_names(self.a, self.a_port),
            devices[self.z].tolist(),
            self.port_names(self.z, self.z_port),
            strict=True,
        )
        return through(ends, len(self), "cables")

    def labels(self) -> Iterator[str]:
        """Labels, cable by cable."""
        return (f"{a.name}:{a_port}--{z.name}:{z_port}" for a, a_port, z, z_port in self.ends())

    def port_names(self, device: Indices, port: Indices) -> list[str]:
        """Names of ports, each distinct one made once: those of hosts, then those in cages."""
        if not len(port):
            return []
        numbers = range(int(port.max()) + 1)
        names = [str(number) for number in numbers]
        if self.cage_links == 1:
            return _gather(names, port)
        switch = np.array([planned.role == ROLES[SWITCH] for planned in self.devices])
        names += [cage_port(number, self.cage_links) for number in numbers]
        return _gather(names, port + len(numbers) * switch[device])


def cable_plan(
    graph: FabricGraph,
    *,
    media: Mapping[str, str] | Sequence[str] = (),
    places: Mapping[str, Place] | None = None,
    length_m: Floats | None = None,
    cage_links: int = 1,
    kinds: Mapping[str, str] | Sequence[str] = (),
) -> CablePlan:
    """Plan the cables of a fabric; links inside HB domains come with the servers and are left out.

    Parameters
    ----------
    graph
        The fabric.
    media
        ``fibre`` or ``copper``, by link group or cable by cable.
    places
        Racks and units by device name, as far as known.
    length_m
        Lengths of the cables, from a floor plan [m], shape (cables,).
    cage_links
        Links in a cage of every switch [1].
    kinds
        Kinds of cables or of their fibre, by link group or cable by cable.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> plan = cable_plan(graph, media={"host": "copper", "leaf-spine": "fibre"})
    >>> len(plan), next(plan.labels()), next(plan_sheet(plan).rows)[9:]
    (64, 'gpu-0:1--leaf-0:1', ('400', 'copper', 'row', '', 'host'))
    >>> list(with_hosts(plan, 8).labels())[9], host_ports(plan, 8)
    ('host-1:2--leaf-1:2', 8)
    """
    # A graph without HB links was read from a file: its GPU ports are as that file says.
    network = network_only(graph)
    known, spot = places or {}, Place()
    devices = [
        Device(name, ROLES[kind], known.get(name, spot))
        for name, kind in zip(network.node_names(), network.node_kind.tolist(), strict=True)
    ]
    media, kinds = (
        _gather([of_group.get(name, "") for name in network.group_names], network.group)
        if isinstance(of_group, Mapping)
        else of_group
        for of_group in (media, kinds)
    )
    rates, which = np.unique(network.bytes_per_s, return_inverse=True)
    rate_gbps = np.array([gbps(rate) for rate in rates.tolist()])
    lengths = [""] * network.link_count
    if length_m is not None:
        lengths = [f"{length:g}" for length in length_m.tolist()]
    return CablePlan(
        devices,
        network.source,
        network.target,
        network.source_port + np.int32(1),
        network.target_port + np.int32(1),
        rate_gbps[which],
        media or [""] * network.link_count,
        _gather(LENGTH_CLASSES, network.length_class),
        _gather(network.group_names, network.group),
        lengths,
        cage_links,
        kinds,
    )


def media_of(fabric: Fabric) -> dict[str, str]:
    """Medium of every link group, as the fabric plans it."""
    return {group.name: MEDIA[group.medium] for group in fabric.links}


def plan_sheet(plan: CablePlan) -> PlanSheet:
    """All columns of the plan."""
    rates, which = np.unique(plan.gbps, return_inverse=True)
    rows = (
        (
            f"{a.name}:{a_port}--{z.name}:{z_port}",
            *(a.name, a_port, a.place.rack, a.place.unit),
            *(z.name, z_port, z.place.rack, z.place.unit),
            *rest,
        )
        for (a, a_port, z, z_port), *rest in zip(
            plan.ends(),
            _gather([f"{rate:g}" for rate in rates.tolist()], which),
            *(plan.medium, plan.length_class, plan.length_m, plan.group),
            strict=True,
        )
    )
    return PlanSheet("Cable plan", PLAN_COLUMNS, rows)


def _gather(values: Sequence[str], index: NDArray[np.integer]) -> list[str]:
    """Text by number, for every cable."""
    gathered: list[str] = np.array(values, object)[index].tolist()
    return gathered


def host_ports(plan: CablePlan, host_gpus: int) -> int:
    """Network ports of a host, its GPUs with the most that any has [1]."""
    gpus = _gpus(plan)
    require_host(host_gpus, gpus)
    ends = ((plan.a, plan.a_port), (plan.z, plan.z_port))
    return host_gpus * max(int(port[device < gpus].max(initial=0)) for device, port in ends)


def with_hosts(plan: CablePlan, host_gpus: int) -> CablePlan:
    """Name hosts of so many GPUs instead of GPUs; a host stands where its first GPU does."""
    gpus, ports = _gpus(plan), host_ports(plan, host_gpus) // host_gpus
    hosts = [
        Device(host_name(number), HOST, first.place)
        for number, first in enumerate(plan.devices[:gpus:host_gpus])
    ]
    others = len(hosts) - gpus  # what the numbers of the other devices change by

    def moved(device: Indices, port: Indices) -> tuple[Indices, Indices]:
        host, rank = np.divmod(device, np.int32(host_gpus))
        gpu = device < gpus
        return (
            np.where(gpu, host, device + np.int32(others)),
            np.where(gpu, rank * np.int32(ports) + port, port),
        )

    (a, a_port), (z, z_port) = moved(plan.a, plan.a_port), moved(plan.z, plan.z_port)
    devices = [*hosts, *plan.devices[gpus:]]
    return replace(plan, devices=devices, a=a, z=z, a_port=a_port, z_port=z_port)


def _gpus(plan: CablePlan) -> int:
    """GPUs of a plan, which are its first devices [1]."""
    return sum(device.role == ROLES[GPU] for device in plan.devices)


Row = tuple[str, ...]
End = tuple[str, str]
"""A device and its port."""

MOST_TIERS = 2


class SiteCables(Struct, frozen=True):
    """One network beside, to be cabled.

    Parameters
    ----------
    network, fabric
        The network, and its sized form.
    gpus
        GPUs of the cluster [1].
    managed
        Names of switches of other networks that have a port here.
    uplinks
        Devices and ports of uplinks that end here.
    cage_links
        Links in a cage of its switches: 2 name ports 1/1 and 1/2 [1].
    """

    network: SiteNetwork
    fabric: Fabric
    gpus: int
    managed: Sequence[str] = ()
    uplinks: Sequence[End] = ()
    cage_links: int = 1

    @property
    def switch_names(self) -> list[str]:
        """Names of its switches, leaves first."""
        return [
            f"{self.network.name}/{tier.name}-{number}"
            for tier in self.fabric.tiers
            for number in range(tier.switches)
        ]

    @property
    def uplink_ends(self) -> list[End]:
        """Ends of its own uplinks into another network."""
        ports = range(1, self.network.uplinks_per_switch + 1)
        return [(name, f"uplink-{port}") for port in ports for name in self.switch_names]

    def require_plan(self) -> None:
        """Refuse a network of more than two tiers; InputError.

        Whoever writes a plan asks before its first row.
        """
        tiers, network = self.fabric.tiers, self.network
        if len(tiers) > MOST_TIERS:
            ports = self.fabric.links[0].links
            raise InputError(
                f"--with {network.name}: its {ports:,} ports make {len(tiers)} tiers, which have no"
                f" cable plan beside another: write it alone, its ports as GPUs: netplan cables"
                f" --gpus {ports} --hb-size 1 --radix {network.radix} --fabric {network.fabric}"
                f" --nic {network.link_gbps:g}"
            )

    def rows(self) -> Iterator[Row]:
        """Rows of the plan: those of hosts, then those between switches."""
        tiers = self.fabric.tiers
        ends = list(self._ends())
        leaves = tiers[0].switches
        on_leaf = [0] * leaves
        for number, end in enumerate(ends):
            leaf = number * leaves // len(ends)
            on_leaf[leaf] += 1
            yield self._row(end, self._end(tiers[0].name, leaf, on_leaf[leaf]), 0)
        if len(tiers) == MOST_TIERS:
            yield from self._trunks(ceil_div(len(ends), leaves))

    def _trunks(self, hosts: int) -> Iterator[Row]:
        """Links between leaves and spines; ports of a leaf after those of a full one's hosts."""
        leaf_tier, spine_tier = self.fabric.tiers
        leaves, spines = leaf_tier.switches, spine_tier.switches
        least, more = divmod(self.fabric.links[1].links // leaves, spines)
        ports = [count(1) for _ in range(spines)]
        for leaf in range(leaves):
            extra = {(leaf * more + number) % spines for number in range(more)}
            up = count(hosts + 1)
            for spine in range(spines):
                for _ in range(least + (spine in extra)):
                    below = self._end(leaf_tier.name, leaf, next(up))
                    yield self._row(below, self._end(spine_tier.name, spine, next(ports[spine])), 1)

    def _ends(self) -> Iterator[End]:
        """Devices and ports that the network joins."""
        network, word = self.network, self.network.name
        nodes = ceil_div(self.gpus, network.gpus_per_node)
        for port in range(1, network.ports_per_node + 1):
            yield from ((host_name(node), f"{word}-{port}") for node in range(nodes))
        managed = network.ports_per_switch * len(self.managed)
        others = self.fabric.nic_ports - nodes * network.ports_per_node - managed
        yield from ((f"{word}-server-{number}", "1") for number in range(others))
        for port in range(1, network.ports_per_switch + 1):
            yield from ((name, f"{word}-{port}") for name in self.managed)
        yield from self.uplinks

    def _end(self, tier: str, number: int, port: int) -> End:
        named = cage_port(port, self.cage_links) if self.cage_links > 1 else str(port)
        return f"{self.network.name}/{tier}-{number}", named

    def _row(self, a: End, z: End, group: int) -> Row:
        """A row of the plan; racks and lengths are not known."""
        links = self.fabric.links[group]
        copper = links.medium == "copper"
        medium, length = ("copper", "rack") if copper else ("fibre", "hall" if group else "row")
        rate = f"{self.fabric.sizing.speed_gbps:g}"
        label = f"{a[0]}:{a[1]}--{z[0]}:{z[1]}"
        name = f"{self.network.name} {links.name}"
        return (label, *a, "", "", *z, "", "", rate, medium, length, "", name)
