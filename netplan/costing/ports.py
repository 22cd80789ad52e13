"""Port closure: every cable end lands on a real, free port of the right speed, form and reach.

A *bank* is a set of equal devices with equal cages (all leaves, all network cards). A *run* is
all links of one kind between two banks, and what they are plugged with. Both are counts, so that
a network of four million GPUs closes in microseconds. Ends are taken to be spread evenly over
the devices of a bank, as the builders of :mod:`netplan.topologies` spread them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from netplan.topologies.families.clos import ceil_div
from netplan.topologies.graph import Role

Rule = Literal["port", "speed", "form", "breakout", "lanes", "fibre", "pairs", "reach", "room"]


class Cage(Struct, frozen=True):
    """One cage: what it takes, and how many links of which rate it carries."""

    form: str  # form factor that fits, such as ``osfp-finned``
    speed_gbps: float  # of one link [Gb/s]
    links: int = 1  # that the cage carries at this rate: 2 for 800G as 2 x 400G [1]
    lane_gbps: float | None = None  # of one electrical lane, None if not known [Gb/s]


class PortBank(Struct, frozen=True):
    """Equal devices with equal cages; one device for a pool whose ends may fall unevenly."""

    name: str
    devices: int
    cages: int
    cage: Cage

    @property
    def ports(self) -> int:
        """Ports of all devices [1]."""
        return self.devices * self.cages * self.cage.links


class Plug(Struct, frozen=True):
    """One plug: a transceiver, the plug of a cable, or a bare fibre in a circuit switch."""

    item: str
    form: str
    speed_gbps: float
    links: int = 1
    lane_gbps: float | None = None
    fibre: str | None = None


class Run(Struct, frozen=True):
    """All links of one kind between two banks."""

    name: str  # link group of the fabric, such as ``leaf-spine``
    links: int  # number of links [1]
    ends: tuple[str, str]  # names of the two banks
    plugs: tuple[Plug, Plug]  # plug at each end
    medium: Literal["fibre", "dac", "aec", "aoc"]  # ``fibre`` or a cable
    length_m: float  # of one cable [m]
    reach_m: float  # how far the plugs carry [m]
    cable: str = ""  # name of the cable with fixed plugs; empty for fibre
    hops: int = 1  # cables in a row between the two modules: 2 through a circuit switch [1]
    parallel: int = 1  # links between the same two devices, as far as is known [1]
    measured: bool = False  # whether the length comes from a floor plan, not from a length class
    counted: tuple[int, int] | None = None  # plugs that no other run counts, if known
    role: Role = "up"  # of the links

    def plugs_at(self, side: int, devices: int) -> int:
        """Plugs at one end, on so many devices: as counted, else with links spread evenly [1]."""
        if self.counted is not None:
            return self.counted[side]
        return plugs_needed(self.links, devices, self.plugs[side].links)


class Violation(Struct, frozen=True):
    """A cable end without a home: the rule, both ends, and what is wrong."""

    rule: Rule
    run: str
    near: str
    far: str
    detail: str

    def __str__(self) -> str:
        """One line that names both ends."""
        return f"{self.run}, {self.near} to {self.far}: {self.detail}"


def plugs_needed(ends: int, devices: int, links: int) -> int:
    """Plugs of ``links`` links each for ends spread evenly over devices: no plug spans two.

    Examples
    --------
    Seven ends on two devices are 4 + 3, with twin-port modules 2 + 2 modules.

    >>> plugs_needed(7, 2, 2), plugs_needed(7, 2, 1)
    (4, 7)
    """
    if devices < 1:
        return 0
    each, more = divmod(ends, devices)
    return (devices - more) * ceil_div(each, links) + more * ceil_div(each + 1, links)


def closure(banks: Sequence[PortBank], runs: Sequence[Run]) -> tuple[Violation, ...]:
    """All cable ends that have no port to land on; none if the ports close.

    Examples
    --------
    >>> leaf = PortBank("leaf", 2, 32, Cage("osfp-finned", 400, 2))
    >>> card = PortBank("network card", 128, 1, Cage("osfp-flat", 400))
    >>> twin = Plug("2 x 400G, finned top", "osfp-finned", 400, 2)
    >>> single = Plug("400G, flat top", "osfp-flat", 400)
    >>> closure([leaf, card], [Run("host", 128, ("leaf", "network card"), (twin, single),
    ...                            "fibre", 15, 50)])
    ()
    >>> wrong = Run("host", 128, ("leaf", "network card"), (twin, twin), "fibre", 15, 50)
    >>> print(closure([leaf, card], [wrong])[0])
    host, network card to leaf: 2 x 400G, finned top (osfp-finned) does not fit a cage for osfp-flat
    """
    known = {bank.name: bank for bank in banks}
    found = [violation for run in runs for violation in run_violations(run, known)]
    for bank in banks:
        found += _room(bank, runs)
    return tuple(found)


def run_violations(run: Run, banks: Mapping[str, PortBank]) -> Iterator[Violation]:
    """What is wrong with one run by itself, whether or not there is room for it."""
    for side in (0, 1):
        near, far = run.ends[side], run.ends[1 - side]
        if near not in banks:
            detail = f"{run.links:,} cables end on {near}, which the fabric does not have"
            yield Violation("port", run.name, near, far, detail)
            continue
        for rule, detail in _plug_faults(run.plugs[side], banks[near].cage):
            yield Violation(rule, run.name, near, far, detail)
    for rule, detail in _pair_faults(run):
        yield Violation(rule, run.name, *run.ends, detail)


def _plug_faults(plug: Plug, cage: Cage) -> Iterator[tuple[Rule, str]]:
    """A plug in a cage: form factor, rate, lanes, number of links."""
    if plug.form != cage.form:
        yield "form", f"{plug.item} ({plug.form}) does not fit a cage for {cage.form}"
    if plug.speed_gbps != cage.speed_gbps:
        detail = f"{plug.item} runs at {plug.speed_gbps:g} Gb/s, the port at {cage.speed_gbps:g}"
        yield "speed", detail
    if plug.links > cage.links:
        yield "breakout", f"{plug.item} has {plug.links} links, its cage carries {cage.links}"
    if _differ(plug.lane_gbps, cage.lane_gbps):
        detail = f"{plug.item} has lanes of {plug.lane_gbps:g} Gb/s, its cage {cage.lane_gbps:g}"
        yield "lanes", detail


def _pair_faults(run: Run) -> Iterator[tuple[Rule, str]]:
    """The two ends of a link against each other: rate, lanes, fibre, pairs of devices, reach."""
    one, two = run.plugs
    if one.speed_gbps != two.speed_gbps:
        yield "speed", f"{one.speed_gbps:g} Gb/s at one end, {two.speed_gbps:g} at the other"
    if _differ(one.lane_gbps, two.lane_gbps):
        detail = f"lanes of {one.lane_gbps:g} Gb/s at one end, {two.lane_gbps:g} at the other"
        yield "lanes", detail
    if one.fibre != two.fibre:
        yield "fibre", f"{one.fibre or 'copper'} at one end, {two.fibre or 'copper'} at the other"
    shared = min(one.links, two.links)
    if run.medium != "fibre" and run.parallel % shared:
        detail = f"{run.cable} carries {shared} links between the same two devices, which the"
        yield "pairs", f"{detail} fabric joins by {run.parallel}"
    if run.length_m * run.hops > run.reach_m:
        path = f"{run.length_m * run.hops:g} m"
        yield "reach", f"{path} of cable, {run.cable or one.item} reaches {run.reach_m:g} m"


def _differ(one: float | None, two: float | None) -> bool:
    """Whether two known lane rates differ."""
    return one is not None and two is not None and one != two


def _room(bank: PortBank, runs: Sequence[Run]) -> Iterator[Violation]:
    """Cages of a bank against the plugs that land on it."""
    sides = [(run, side) for run in runs for side in (0, 1) if run.ends[side] == bank.name]
    if not sides:
        return
    partner: Counter[str] = Counter()
    for run, side in sides:
        partner[run.ends[1 - side]] += run.links
    total, far = partner.total(), max(partner, key=lambda name: partner[name])
    if total > bank.ports:
        detail = f"{total:,} cable ends on {bank.ports:,} ports"
        yield Violation("room", "all links", bank.name, far, detail)
        return
    counted = [run.counted[side] for run, side in sides if run.counted is not None]
    needed, there = sum(counted), bank.devices * bank.cages
    if not counted:
        needed, there = _cages_of_a_device(bank, sides), bank.cages
    if needed > there:
        detail = f"a device needs {needed:,} cages for its plugs, it has {there:,}"
        if counted:
            detail = f"all devices need {needed:,} cages for their plugs, they have {there:,}"
        yield Violation("room", "all links", bank.name, far, detail)


def _cages_of_a_device(bank: PortBank, sides: Sequence[tuple[Run, int]]) -> int:
    """Cages that one device needs for its share of the links; equal modules share a cage [1]."""
    ends: Counter[tuple[str, int]] = Counter()
    for run, side in sides:
        # A fixed plug belongs to its run; a module may carry links of several runs.
        plug = run.plugs[side]
        # A plug of one link takes one cage, whichever it is.
        kind = f"{run.name} {run.cable}" if run.cable else plug.item
        ends["any" if plug.links == 1 else kind, plug.links] += run.links
    return sum(ceil_div(ceil_div(count, bank.devices), links) for (_, links), count in ends.items())
