"""Cables as they are: a list of ends, and what differs between two of them.

A cable is two ends, each a device and a port, in either order. Two lists are compared end by end:
cables with the same two ends are the same cable; what is left over is explained, in this order, as

``swapped``      two cables with two ends exchanged, which both lists join crosswise;
``wrong port``   a cable with one end where the plan has it, and the other elsewhere;
``not seen``     a device of which nothing is built: one line for all its cables;
``missing``      in the plan only;
``extra``        as built only.

A cable at another rate than planned is ``wrong speed``, or ``narrow`` where it has fewer lanes than
it needs, also where it must be moved; where a file gives no rate, none is compared. Each difference
says what to do, so that a technician can work through the list.

Ports of switches can be named by cage: ``1/2`` is the second one of cage 1. A twin-port cage (OSFP)
takes one module with two links, so two cables whose ports lie in one cage share a module. Cages
count as on the front panel, the ports of a cage from 1. Tools such as ``ibnetdiscover`` number the
ports of a switch on from cage to cage, as Quantum-2 does at its full rate: with two a cage, ``1/2``
is port 2 and ``2/1`` port 3. That switches number on likewise when cages are split into more ports,
at a lower rate, is assumed.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isclose, isnan, nan
from typing import Literal, NamedTuple

from msgspec import Struct

from netplan.errors import CatalogError, InputError
from netplan.records import replace
from netplan.topologies.cabling.device_names import slashless
from netplan.topologies.graph import FabricGraph, network_only
from netplan.units import gbps

CAGE_PORT = re.compile(r"[1-9]\d{0,4}/([1-9]\d{0,2})")

SAME_RATE = 1e-5
"""Share of a rate within which two files mean the same one: tables round to six digits."""

MAX_LANES = 4
"""Lanes of a usual link: one with more is planned by name only [1]."""

Kind = Literal["swapped", "wrong port", "wrong speed", "narrow", "not seen", "missing", "extra"]


class End(NamedTuple):
    """One end of a cable: a device and its port."""

    device: str
    port: str

    def __str__(self) -> str:
        """Device and port; a port that is a cage and its half stands after a colon."""
        return f"{self.device}{':' if '/' in self.port else '/'}{self.port}"


class Cable(NamedTuple):
    """A cable: its ends, rate (nan if unknown) [Gb/s], line of the file, lanes (0 if unknown)."""

    a: End
    z: End
    gbps: float = nan
    line: int = 0
    lanes: int = 0

    def __str__(self) -> str:
        """Both ends."""
        return f"{self.a} - {self.z}"

    @property
    def joins_itself(self) -> bool:
        """Whether both ends are in one device."""
        return self.a.device == self.z.device

    def other(self, end: End) -> End:
        """The end that is not this one."""
        return self.z if end == self.a else self.a


class Difference(Struct, frozen=True):
    """One thing to put right: cables concerned, as text or empty, and what to do."""

    json_parts = "kind", "instruction", "planned", "built"

    kind: Kind
    planned: str
    built: str
    instruction: str


def cables_of(graph: FabricGraph) -> Iterator[Cable]:
    """Cables of a graph; those inside HB domains are left out, ports count from 1."""
    network = network_only(graph)
    names = network.node_names()
    for a, a_port, z, z_port, rate, *_ in network.link_rows():
        yield Cable(End(names[a], str(a_port + 1)), End(names[z], str(z_port + 1)), gbps(rate))


def ports_twice(cables: Iterable[Cable]) -> Iterator[tuple[End, Cable, Cable]]:
    """Ends that two cables share: the end, the first cable, the later one.

    Examples
    --------
    >>> one, two = Cable(End("a", "1"), End("b", "1")), Cable(End("a", "1"), End("c", "1"))
    >>> [str(end) for end, _, _ in ports_twice([one, two])]
    ['a/1']
    """
    taken: dict[End, Cable] = {}
    for cable in cables:
        for end in (cable.a, cable.z):
            first = taken.setdefault(end, cable)
            if first is not cable:
                yield end, first, cable


def require_free_ports(path: str, cables: Iterable[Cable]) -> None:
    """Refuse a list in which a port holds two cables, with the line of the second one."""
    for end, first, cable in ports_twice(cables):
        raise CatalogError(
            f"{path}:{cable.line}: port {end} is in use by the cable on line {first.line}"
        )


def cabling_differences(
    plan: Iterable[Cable], built: Iterable[Cable], host_of: Mapping[str, str] | None = None
) -> list[Difference]:
    """What to do so that the cables as built become the planned ones.

    Parameters
    ----------
    plan, built
        Cables, no port used twice in either list.
    host_of
        Hosts of planned GPUs, which are dark together.

    Examples
    --------
    >>> gpu, other = End("gpu-0", "1"), Cable(End("gpu-1", "1"), End("sw01", "7"))
    >>> plan = [Cable(gpu, End("sw01", "6")), other]
    >>> built = [Cable(gpu, End("sw01", "5")), Cable(other.z, other.a)]
    >>> [difference.instruction for difference in cabling_differences(plan, built)]
    ['move the cable from sw01/5 to sw01/6 (its other end is gpu-0/1)']
    """
    wanted, present = _by_ends(plan), _by_ends(built)
    speeds = [
        _wrong_speed(cable, present[key])
        for key, cable in wanted.items()
        if key in present and _speeds_differ(cable, present[key])
    ]
    left = _Leftover(
        [cable for key, cable in wanted.items() if key not in present],
        [cable for key, cable in present.items() if key not in wanted],
    )
    seen = {end.device for cable in present.values() for end in (cable.a, cable.z)}
    return [*left.swaps(), *left.moves(), *speeds, *left.dark(seen, host_of or {}), *left.rest()]


class _Leftover:
    """Planned and built cables without their like, explained step by step."""

    def __init__(self, plan: list[Cable], built: list[Cable]) -> None:
        self.plan, self.built = dict.fromkeys(plan), dict.fromkeys(built)
        self.plan_at = {end: cable for cable in plan for end in (cable.a, cable.z)}
        self.built_at = {end: cable for cable in built for end in (cable.a, cable.z)}

    def swaps(self) -> Iterator[Difference]:
        """Pairs of planned cables whose four ends are joined crosswise."""
        for cable in list(self.plan):
            crossed = self.built_at.get(cable.a)
            opposite = self.built_at.get(cable.z)
            if cable not in self.plan or crossed is None or opposite is None:
                continue
            far = crossed.other(cable.a)
            two = self.plan_at.get(far)
            if two is None or two not in self.plan or two == cable:
                continue
            if opposite.other(cable.z) != two.other(far):
                continue
            self._explained((cable, two), (crossed, opposite))
            yield Difference(
                "swapped",
                f"{cable}; {two}",
                f"{crossed}; {opposite}",
                f"exchange the plugs in {cable.z} and {far}",
            )

    def moves(self) -> Iterator[Difference]:
        """Cables of which one end is right; another port of the same device comes first."""
        for same_device in (True, False):
            for cable in list(self.plan):
                move = self._moved(cable, same_device=same_device)
                if move is None:
                    continue
                stays, built = move
                self._explained((cable,), (built,))
                yield Difference(
                    "wrong port",
                    str(cable),
                    str(built),
                    f"move the cable from {built.other(stays)} to {cable.other(stays)}"
                    f" (its other end is {stays})",
                )
                if _speeds_differ(cable, built):
                    yield _wrong_speed(cable, built)

    def dark(self, built: set[str], host_of: Mapping[str, str]) -> Iterator[Difference]:
        """Devices and hosts of which nothing is built, those with the most cables first."""
        left: dict[str, list[Cable]] = defaultdict(list)
        seen = {host_of.get(device, device) for device in built}
        for cable in self.plan:
            for end in (cable.a, cable.z):
                if (device := host_of.get(end.device, end.device)) not in seen:
                    left[device].append(cable)
        for device, all_of_it in sorted(left.items(), key=lambda item: -len(item[1])):
            cables = [cable for cable in all_of_it if cable in self.plan]
            if len(cables) < 2:  # noqa: PLR2004 - a single cable is missing
                continue
            self._explained(tuple(cables), ())
            text = f"{device} was not seen: {len(cables)} cables; is it on, and joined?"
            yield Difference("not seen", f"{device}: {len(cables)} cables", "", text)

    def rest(self) -> Iterator[Difference]:
        """What only one of the lists has."""
        for cable in self.plan:
            rate = "" if isnan(cable.gbps) else f" at {cable.gbps:g} Gb/s"
            text = f"connect {cable.a} to {cable.z}{rate}"
            yield Difference("missing", str(cable), "", text)
        for cable in self.built:
            text = f"remove the cable from {cable.a} to {cable.z}: the plan has none"
            if cable.joins_itself:
                same_end = cable.a == cable.z
                what = f"plug in {cable.a}" if same_end else f"cable from {cable.a} to {cable.z}"
                text = f"remove the {what}: it joins {cable.a.device} to itself"
            yield Difference("extra", "", str(cable), text)

    def _moved(self, cable: Cable, *, same_device: bool) -> tuple[End, Cable] | None:
        """End of a planned cable that is right, and the cable that is in it."""
        for stays in (cable.a, cable.z):
            built = self.built_at.get(stays)
            if built is None or built not in self.built:
                continue
            same = built.other(stays).device == cable.other(stays).device
            if same or not same_device:
                return stays, built
        return None

    def _explained(self, plan: tuple[Cable, ...], built: tuple[Cable, ...]) -> None:
        for cable in plan:
            del self.plan[cable]
        for cable in built:
            del self.built[cable]


def _by_ends(cables: Iterable[Cable]) -> dict[tuple[End, End], Cable]:
    """Cables by their ends in a fixed order."""
    return {((c.a, c.z) if c.a <= c.z else (c.z, c.a)): c for c in cables}


def _speeds_differ(plan: Cable, built: Cable) -> bool:
    """Whether both rates are known and differ."""
    unknown = isnan(plan.gbps) or isnan(built.gbps)
    return not unknown and not isclose(plan.gbps, built.gbps, rel_tol=SAME_RATE)


def _wrong_speed(plan: Cable, built: Cable) -> Difference:
    """A link at another rate: too few lanes, or lanes of another speed."""
    wanted = plan.lanes
    if built.lanes and not wanted:
        # As many lanes of the speed as built, where the planned rate has so few.
        lanes = plan.gbps / (built.gbps / built.lanes)
        wanted = int(lanes) if lanes.is_integer() and lanes <= MAX_LANES else MAX_LANES
    if wanted > built.lanes > 0:
        lane, planned = built.gbps / built.lanes, plan.gbps / wanted
        also = "" if lane == planned else f", each at {lane:g} Gb/s, planned are {planned:g}"
        return Difference(
            "narrow",
            f"{plan} at {plan.gbps:g} Gb/s",
            f"{built} at {built.gbps:g} Gb/s",
            f"clean and reseat the cable from {plan.a} to {plan.z}: it runs {built.lanes}x wide,"
            f" planned is {wanted}x{also}",
        )
    return Difference(
        "wrong speed",
        f"{plan} at {plan.gbps:g} Gb/s",
        f"{built} at {built.gbps:g} Gb/s",
        f"replace the cable from {plan.a} to {plan.z}: it runs at {built.gbps:g} Gb/s, planned"
        f" are {plan.gbps:g} Gb/s",
    )


class BuiltDevice(Struct, frozen=True):
    """A device as found: its name in the list of cables, description, GUID, whether it switches.

    A ``relay`` switches, but is a host: a GPU that passes traffic on. ``shared`` says that other
    devices have the same description, which then names none of them.
    """

    name: str
    description: str
    guid: str
    switch: bool
    shared: bool
    relay: bool = False


class Hall(Struct, frozen=True):
    """Cables of one file; its path is for errors. ``devices`` is empty where names are all it has.

    ``inside`` counts links to aggregation nodes of switches, which are left out; ``renamed``
    counts devices that a map of names has renamed [1].
    """

    path: str
    cables: Sequence[Cable]
    devices: Mapping[str, BuiltDevice] = {}
    inside: int = 0
    renamed: int = 0

    def ends(self) -> Iterator[tuple[End, Cable]]:
        """Both ends of every cable."""
        for cable in self.cables:
            yield cable.a, cable
            yield cable.z, cable

    def by_cage(self) -> set[str]:
        """Devices with a port that is named by its cage."""
        ends = (end for end, _ in self.ends() if "/" in end.port)
        return {end.device for end in ends if CAGE_PORT.fullmatch(end.port)}

    def by_number(self) -> set[str]:
        """Devices with a port that is numbered."""
        return {end.device for end, _ in self.ends() if end.port.isdigit()}

    def in_cages(self, devices: set[str], links: int) -> list[Cable]:
        """Cables with the numbered ports of some devices named by their cages."""
        numbers = {end.port for end, _ in self.ends() if end.port.isdigit()}
        names = {number: cage_port(int(number), links) for number in numbers}

        def named(end: End) -> End:
            return End(end.device, names.get(end.port, end.port)) if end.device in devices else end

        return [c._replace(a=named(c.a), z=named(c.z)) for c in self.cables]

    def require_cages_of(self, devices: set[str], links: int) -> None:
        """Refuse a port that no cage of so many links has: file and line."""
        for end, cable in self.ends():
            match = CAGE_PORT.fullmatch(end.port) if end.device in devices else None
            if match and int(match[1]) > links:
                raise CatalogError(
                    f"{self.path}:{cable.line}: port {end.port} of {end.device}: a cage of this"
                    f" --switch with this --radix has {links}: give those that the plan is made for"
                )


def devices_alike(plan: Hall, built: Hall) -> Hall:
    """Name devices as built as the plan does, where a slash is all that differs.

    Examples
    --------
    >>> plan = Hall("plan", [Cable(End("gpu-0", "1"), End("rail-0/leaf-0", "1"))])
    >>> built = Hall("hall", [Cable(End("gpu-0", "1"), End("rail-0-leaf-0", "1"))])
    >>> print(devices_alike(plan, built).cables[0])
    gpu-0/1 - rail-0/leaf-0/1
    """
    planned = {end.device for end, _ in plan.ends()}
    unplanned = {end.device for end, _ in built.ends()} - planned
    by_plain = {slashless(device): device for device in planned}
    names = {
        device: by_plain[slashless(device)] for device in unplanned if slashless(device) in by_plain
    }
    if not names:
        return built

    def named(end: End) -> End:
        return End(names.get(end.device, end.device), end.port)

    cables = [c._replace(a=named(c.a), z=named(c.z)) for c in built.cables]
    return replace(built, cables=cables)


def cage_port(port: int, links: int) -> str:
    """Name of a switch port, from 1, in cages of so many links; its number where a cage holds one.

    Examples
    --------
    >>> [cage_port(port, 2) for port in (1, 2, 3, 64)], cage_port(3, 1)
    (['1/1', '1/2', '2/1', '32/2'], '3')
    """
    if links == 1:
        return str(port)
    cage, place = divmod(port - 1, links)
    return f"{cage + 1}/{place + 1}"


def named_alike(
    plan: Hall, built: Hall, links: int | None = None
) -> tuple[Sequence[Cable], Sequence[Cable]]:
    """Name ports by cage in both lists where one of them does and the other has numbers.

    A device whose names are mixed in one list is left as it is: what a number means there is not
    known. ``links`` are those of a cage, None if nobody says.

    Raises
    ------
    InputError
        If a device is named in both ways, and nobody says how many links a cage has.
    CatalogError
        If a port cannot be in a cage of so many links: file and line.

    Examples
    --------
    >>> plan = Hall("plan", [Cable(End("gpu-0", "1"), End("sw01", "2/1"))])
    >>> built = Hall("hall", [Cable(End("gpu-0", "1"), End("sw01", "3"))])
    >>> _, found = named_alike(plan, built, 2)
    >>> print(found[0])
    gpu-0/1 - sw01:2/1
    """
    lists = (plan, built)
    by_cage = [listed.by_cage() for listed in lists]
    if not any(by_cage):
        return plan.cables, built.cables
    by_number = [listed.by_number() for listed in lists]
    named = [listed.cables for listed in lists]
    for here, there in ((0, 1), (1, 0)):
        devices = (by_number[here] - by_cage[here]) & (by_cage[there] - by_number[there])
        if not devices:
            continue
        if links is None:
            raise InputError(
                f"{lists[there].path} names the ports of {min(devices)} by cage,"
                f" {lists[here].path} by number: say --switch and --radix, such as --switch qm9700"
            )
        lists[there].require_cages_of(devices, links)
        named[here] = lists[here].in_cages(devices, links)
    return named[0], named[1]
