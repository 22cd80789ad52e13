"""Network ports of hosts, numbered through: what a plan and a hall call the same port.

A plan names GPUs (``gpu-11`` port 1) or hosts (``host-1`` port 4), a subnet adapters
(``host-1 mlx5_3`` port 1). All are *places* on a host, numbered from 0 in the order of
:mod:`netplan.topologies.cabling.device_names`: those of its first adapter, then those of the next.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from netplan.topologies.cabling.as_built import Cable, End
from netplan.topologies.cabling.descriptions import adapter_name, natural
from netplan.topologies.cabling.device_names import host_name
from netplan.topologies.cabling.halls import Hall

GPU_NAME = re.compile(r"gpu-(\d{1,9})")
HOST_LIKE = re.compile(
    r"(gpu|node|host|server|manager|dgx|hgx|nic|hca|worker|storage-\d)", re.IGNORECASE
)

Place = tuple[str, int]
"""A host, and a port of it, from 0."""


class Places(Struct, frozen=True):
    """Hosts of a plan: the place of every end on one, and the end of every place."""

    place: Mapping[End, Place]
    end: Mapping[Place, End]

    def hosts(self) -> list[str]:
        """Hosts, in the order of their names."""
        return sorted({host for host, _ in self.end}, key=natural)


def hosts_in(hall: Hall) -> set[str]:
    """Devices that are no switches; GPUs and hosts that are joined to each other pass traffic on.

    Examples
    --------
    >>> plan = Hall("plan", [Cable(End("gpu-0", "1"), End("leaf-0", "9"))], {})
    >>> hosts_in(plan)
    {'gpu-0'}
    """
    if hall.devices:
        return {name for name, device in hall.devices.items() if not device.switch}
    ends = {end.device for cable in hall.cables for end in cable[:2]}
    hosts = {device for device in ends if HOST_LIKE.match(device)}
    joined = [cable for cable in hall.cables if {cable.a.device, cable.z.device} <= hosts]
    return hosts - {end.device for cable in joined for end in cable[:2]}


def ends_on(hosts: set[str], cables: Iterable[Cable]) -> list[End]:
    """Ends of cables on some devices."""
    return [end for cable in cables for end in cable[:2] if end.device in hosts]


def planned_places(hall: Hall, hosts: set[str], host_gpus: int) -> Places:
    """Places of a plan whose hosts have so many GPUs; with one GPU, each is a host by its name."""
    ends = ends_on(hosts, hall.cables)
    gpu_ports = 1 + max((_port(end) for end in ends if GPU_NAME.fullmatch(end.device)), default=0)
    adapters = _adapters(hall, hosts)
    adapter_ports = 1 + max((_port(end) for end in ends if end.device in adapters), default=0)
    place: dict[End, Place] = {}
    for end in ends:
        gpu = GPU_NAME.fullmatch(end.device)
        if gpu and host_gpus > 1:
            host, rank = divmod(int(gpu[1]), host_gpus)
            place[end] = host_name(host), rank * gpu_ports + _port(end)
        elif end.device in adapters:
            host_of, rank = adapters[end.device]
            place[end] = host_of, rank * adapter_ports + _port(end)
        else:
            place[end] = end.device, _port(end)
    return Places(place, {where: end for end, where in place.items()})


def _adapters(hall: Hall, hosts: set[str]) -> dict[str, tuple[str, int]]:
    """Host and rank on it of adapters that say both, in the order of their numbers."""
    named = {
        name: adapter_name(hall.devices[name].description)
        for name in hosts & hall.devices.keys()
        if not hall.devices[name].shared
    }
    numbers: dict[str, list[int]] = defaultdict(list)
    for adapter in named.values():
        if adapter.number is not None:
            numbers[adapter.host].append(adapter.number)
    return {
        name: (adapter.host, sorted(numbers[adapter.host]).index(adapter.number))
        for name, adapter in named.items()
        if adapter.number is not None
    }


def _port(end: End) -> int:
    """Number of a port from 0; 0 for one that has none."""
    return int(end.port) - 1 if end.port.isdigit() and len(end.port) < 10 else 0  # noqa: PLR2004


class FoundPorts(Struct, frozen=True, eq=False, dict=True):
    """Ends on adapters as built: whose host, the number of its adapter there, and its port from 0.

    A host that nothing names is its adapter alone, with the number -1.
    """

    at: Mapping[End, tuple[str, int, int]]

    @cached_property
    def numbers(self) -> list[int]:
        """Numbers of adapters, over all hosts that have names."""
        return sorted({number for _, number, _ in self.at.values() if number >= 0})

    @cached_property
    def ports(self) -> int:
        """Ports of an adapter [1]."""
        return max((port for _, _, port in self.at.values()), default=0) + 1

    def hosts(self) -> list[str]:
        """Hosts with names, in the order of these."""
        return sorted({host for host, number, _ in self.at.values() if number >= 0}, key=natural)

    def on_hosts(self, planned: Places) -> "FoundPorts":
        """GPUs that stand for themselves as those of the hosts of a plan, which names no GPU."""
        own = {host for host, _, _ in self.at.values()}
        if not all(map(GPU_NAME.fullmatch, own)) or own & set(planned.hosts()):
            return self
        places = 1 + max((place for _, place in planned.end), default=0)
        gpus = places // self.ports
        at = {}
        for end, (gpu, _, port) in self.at.items():
            host, rank = divmod(int(gpu.removeprefix("gpu-")), max(1, gpus))
            at[end] = host_name(host), rank, port
        return FoundPorts(at)

    def by_host(self) -> Mapping[str, list[End]]:
        """Ends of every host."""
        ends: dict[str, list[End]] = defaultdict(list)
        for end, (host, _, _) in self.at.items():
            ends[host].append(end)
        return ends


def found_ports(hall: Hall, hosts: set[str]) -> FoundPorts:
    """Hosts and adapters in the descriptions of a hall, or in the names of its devices."""
    at = {}
    named = {}
    for name in hosts:
        device = hall.devices.get(name)
        host, _, number = adapter_name(device.description if device else name)
        nameless = not host or (device is not None and device.shared)
        named[name] = (name, -1) if nameless else (host, number or 0)
    for end in ends_on(hosts, hall.cables):
        host, number = named[end.device]
        at[end] = host, number, _port(end)
    return FoundPorts(at)


def ranks_of(numbers: Sequence[int], adapters: int) -> dict[int, int]:
    """Rank of each adapter's number on a host that has so many; -1 stays its only one.

    Numbers below the count are ranks; where others are among them (adapters of storage), the
    order counts.

    Examples
    --------
    >>> ranks_of([0, 3, 4, 9], 4), ranks_of([0, 2], 4)
    ({-1: 0, 0: 0, 3: 1, 4: 2, 9: 3}, {-1: 0, 0: 0, 2: 2})
    """
    if max(numbers, default=0) < adapters:
        return {-1: 0} | {number: number for number in numbers}
    return {-1: 0} | {number: rank for rank, number in enumerate(numbers)}
