"""From a sized fabric to banks of ports and runs of cable: which plug, which cable, how long.

A hall says how long every link is (:mod:`netplan.costing.installation`); the cabling book says
which modules and cables there are and how far they reach; the switch model says what its cages
take. The first connection that closes is taken, in the order of price: DAC, ACC, AEC, AOC, then
modules of SR, DR, FR and LR.

A published design keeps the media of its source instead, and lengths by kind of link: so
:func:`wire`, which is counts alone.

Port closure: every cable end lands on a real, free port of the right speed, form and reach.

A *bank* is a set of equal devices with equal cages (all leaves, all network cards). A *run* is
all links of one kind between two banks, and what they are plugged with. Both are counts, so that
a network of four million GPUs closes in microseconds. Ends are taken to be spread evenly over
the devices of a bank, as the builders of :mod:`netplan.topologies` spread them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Literal, get_args

from msgspec import Struct

from netplan.arrays import ceil_div
from netplan.costing.cabling import ANY, CableKind, CablingBook, LinkKind, ModuleKind
from netplan.costing.switches import CircuitLayer, SwitchModel
from netplan.errors import CatalogError, InfeasibleError, InputError, NetplanError
from netplan.records import replace
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, SwitchTier
from netplan.topologies.graph import UNCABLED, Role

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


GLASS = {"multimode": "om4", "singlemode": "os2"}
"""Grade of glass by kind of fibre."""


class Plug(Struct, frozen=True):
    """One plug: a transceiver, the plug of a cable, or a bare fibre in a circuit switch."""

    item: str
    form: str
    speed_gbps: float
    links: int = 1
    lane_gbps: float | None = None
    fibre: str | None = None


class CableRun(Struct, frozen=True):
    """All links of one kind between two banks."""

    name: str  # link group of the fabric, such as ``leaf-spine``
    links: int  # number of links [1]
    ends: tuple[str, str]  # names of the two banks
    plugs: tuple[Plug, Plug]  # plug at each end
    medium: Literal["fibre", CableKind]  # ``fibre`` or a cable
    length_m: float  # of one cable [m]
    reach_m: float  # how far the plugs carry [m]
    cable: str = ""  # name of the cable with fixed plugs; empty for fibre
    hops: int = 1  # cables in a row between the two modules: 2 through a circuit switch [1]
    parallel: int = 1  # links between the same two devices, as far as is known [1]
    measured: bool = False  # whether the length comes from a floor plan, not from a length class
    counted: tuple[int, int] | None = None  # plugs that no other run counts, if known
    role: Role = "up"  # of the links

    @property
    def kind(self) -> str:
        """Kind of cable, or grade of the fibre: ``dac``, ``acc``, ``aec``, ``aoc``, ``om4``."""
        fibre = self.plugs[0].fibre or self.plugs[1].fibre or ""
        return GLASS.get(fibre, fibre) if self.medium == "fibre" else self.medium

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
    per_device, more = divmod(ends, devices)
    return (devices - more) * ceil_div(per_device, links) + more * ceil_div(per_device + 1, links)


def closure(banks: Sequence[PortBank], runs: Sequence[CableRun]) -> tuple[Violation, ...]:
    """All cable ends that have no port to land on; none if the ports close.

    Examples
    --------
    >>> leaf = PortBank("leaf", 2, 32, Cage("osfp-finned", 400, 2))
    >>> card = PortBank("network card", 128, 1, Cage("osfp-flat", 400))
    >>> twin = Plug("2 x 400G, finned top", "osfp-finned", 400, 2)
    >>> single = Plug("400G, flat top", "osfp-flat", 400)
    >>> closure([leaf, card], [CableRun("host", 128, ("leaf", "network card"), (twin, single),
    ...                            "fibre", 15, 50)])
    ()
    >>> wrong = CableRun("host", 128, ("leaf", "network card"), (twin, twin), "fibre", 15, 50)
    >>> print(closure([leaf, card], [wrong])[0])
    host, network card to leaf: 2 x 400G, finned top (osfp-finned) does not fit a cage for osfp-flat
    """
    known = {bank.name: bank for bank in banks}
    violations = [violation for run in runs for violation in run_violations(run, known)]
    for bank in banks:
        violations += _room(bank, runs)
    return tuple(violations)


def run_violations(run: CableRun, banks: Mapping[str, PortBank]) -> Iterator[Violation]:
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


def _pair_faults(run: CableRun) -> Iterator[tuple[Rule, str]]:
    """The two ends of a link against each other: rate, lanes, fibre, pairs of devices, reach."""
    near, far = run.plugs
    if near.speed_gbps != far.speed_gbps:
        yield "speed", f"{near.speed_gbps:g} Gb/s at one end, {far.speed_gbps:g} at the other"
    if _differ(near.lane_gbps, far.lane_gbps):
        detail = f"lanes of {near.lane_gbps:g} Gb/s at one end, {far.lane_gbps:g} at the other"
        yield "lanes", detail
    if near.fibre != far.fibre:
        yield "fibre", f"{near.fibre or 'copper'} at one end, {far.fibre or 'copper'} at the other"
    shared = min(near.links, far.links)
    if run.medium != "fibre" and run.parallel % shared:
        detail = f"{run.cable} carries {shared} links between the same two devices, which the"
        yield "pairs", f"{detail} fabric joins by {run.parallel}"
    if run.length_m * run.hops > run.reach_m:
        path = f"{run.length_m * run.hops:g} m"
        yield "reach", f"{path} of cable, {run.cable or near.item} reaches {run.reach_m:g} m"


def _differ(near: float | None, far: float | None) -> bool:
    """Whether two known lane rates differ."""
    return near is not None and far is not None and near != far


def _room(bank: PortBank, runs: Sequence[CableRun]) -> Iterator[Violation]:
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


def _cages_of_a_device(bank: PortBank, sides: Sequence[tuple[CableRun, int]]) -> int:
    """Cages that one device needs for its share of the links; equal modules share a cage [1]."""
    ends: Counter[tuple[str, int]] = Counter()
    for run, side in sides:
        # A fixed plug belongs to its run; a module may carry links of several runs.
        plug = run.plugs[side]
        # A plug of one link takes one cage, whichever it is.
        kind = f"{run.name} {run.cable}" if run.cable else plug.item
        ends["any" if plug.links == 1 else kind, plug.links] += run.links
    return sum(ceil_div(ceil_div(count, bank.devices), links) for (_, links), count in ends.items())


CARD = "network card"
TRUNKS = " trunks"
"""After the name of a tier: its cages for links faster than a network port."""
SERVER = "management server"
CIRCUITS = "optical circuit switch"
BARE_FIBRE = "bare fibre"
RJ45 = "rj45"
"""Form of ports that take twisted pairs alone, whatever a fabric plans."""

MANAGEMENT = "management "
"""Before the name of a run: the links of a group that end on management servers."""

Ends = tuple[str, str]
"""Names of the two banks that a link group joins."""


class Hardware(Struct, frozen=True):
    """What a fabric is built from.

    Without a switch model the cages take any plug; circuits join cubes, or rails. A switch
    draws ``switch_w`` with modules in all its ports, as far as that is known [W].
    """

    cabling: CablingBook
    switch: SwitchModel | None = None
    circuits: CircuitLayer | None = None
    switch_w: float = 0.0


class Wiring(Struct, frozen=True):
    """Banks of ports, runs of cable between them, and what to know about the choice."""

    banks: tuple[PortBank, ...]
    runs: tuple[CableRun, ...]
    notes: tuple[str, ...]

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Cable ends without a port; empty if the ports close."""
        return closure(self.banks, self.runs)

    def bank(self, name: str) -> PortBank:
        """Bank of a name."""
        return next(bank for bank in self.banks if bank.name == name)


def wire(fabric: Fabric, hardware: Hardware) -> Wiring:
    """Plugs and cables for links of the media that their fabric names, of a length by their kind.

    Raises
    ------
    InfeasibleError
        If a cable end has no port; the message names both ends of the first one.
    CatalogError
        If the cabling book lacks a card or a length.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=1024, radix=64).sizing
    >>> fabric = build_fabric(FABRICS.load("rail-optimized"), sizing)
    >>> hardware = Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load("qm9700"))
    >>> for run in wire(fabric, hardware).runs:
    ...     print(run.name, run.links, run.plugs[0].form, run.plugs[1].form)
    host 1024 osfp-finned osfp-flat
    leaf-spine 1024 osfp-finned osfp-finned
    """
    banks = {bank.name: bank for bank in port_banks(fabric, hardware)}
    runs: list[CableRun] = []
    notes: list[str] = []
    for group, ends in group_ends(fabric, hardware):
        length_m = hardware.cabling.length(link_kind(group), group.medium).length_m
        sockets = ends[0] in banks and banks[ends[0]].cage.form == RJ45
        copper = COPPER if group.medium == "copper" or sockets else ()
        link = Link.of(group, hardware.cabling, length_m, copper)
        # The design is published in this medium, not with these plugs: either form of cable serves.
        run = connect(group, ends, banks, replace(link, straight=None))
        runs.append(run)
        if group.medium == "copper" and run.medium in ("fibre", "aoc"):
            notes.append(
                f"{group.title}: planned in copper by the fabric, but no copper cable of"
                f" {run.length_m:g} m fits these cages link by link: optics instead."
            )
    return checked(fabric, Wiring(tuple(banks.values()), tuple(runs), tuple(notes)))


BETWEEN_GPUS: tuple[Role, ...] = ("ring", "mesh", "direct", "board")
"""Roles of links that join two GPUs."""


def link_kind(group: LinkGroup) -> LinkKind:
    """Kind of a link group in the lengths of a cabling book.

    Examples
    --------
    >>> from netplan.topologies.graph import LinkType
    >>> kinds = [("host", (0, 1)), ("up", (1, 2)), ("up", (2, 3)), ("mesh", (0, 0))]
    >>> [link_kind(LinkGroup.of(LinkType("", role, tiers=tiers), 1)) for role, tiers in kinds]
    ['host', 'leaf-spine', 'upper', 'ring']
    """
    if group.role in BETWEEN_GPUS:
        return "ring"
    if group.role in ("host", "local", "global"):
        return group.role
    return "leaf-spine" if group.role == "up" and group.tiers == (1, 2) else "upper"


def port_banks(fabric: Fabric, hardware: Hardware) -> Iterator[PortBank]:
    """Switches tier by tier, network cards, management servers, circuit switches."""
    speed, model = fabric.sizing.speed_gbps, hardware.switch
    sizing, widths = fabric.sizing, _tier_widths(fabric, hardware)
    lane_gbps = hardware.cabling.split_lane_gbps(sizing.port_split, speed)
    for tier in fabric.tiers:
        least, *wider = sorted(widths[tier.name]) or (1,)
        whole = _switch_bank(tier, sizing, least, model, lane_gbps)
        if not wider:
            yield whole
            continue
        if len(wider) > 1:
            rates = ", ".join(f"{width * speed:g}" for width in (least, *wider))
            raise InfeasibleError(
                f"{fabric.name}: links of {rates} Gb/s end on {tier.name} switches: bills count two"
                " rates a tier"
            )
        bank = _switch_bank(tier, sizing, wider[0], model, lane_gbps)
        trunk_ends = ceil_div(widths[tier.name][wider[0]], tier.switches)
        cages = ceil_div(trunk_ends, bank.cage.links)
        ports = cages * bank.cage.links * wider[0] // (whole.cage.links * least)
        yield replace(whole, cages=whole.cages - ports)
        yield replace(bank, name=tier.name + TRUNKS, cages=cages)
    card_cage = Cage(ANY, speed, fabric.sizing.port_split, lane_gbps)
    if model is not None and fabric.tiers:
        card_cage = _card_cage(fabric.sizing, hardware.cabling)
    # Cards are one pool: copper may end on some and optics on others.
    yield PortBank(CARD, 1, ceil_div(fabric.nic_ports, card_cage.links), card_cage)
    servers = _management_links(fabric)
    if servers:
        alone = card_cage.links if sizing.cage_cards == 1 else 1
        yield PortBank(SERVER, 1, servers, replace(card_cage, links=alone))
    if hardware.circuits is not None:
        circuits = hardware.circuits
        fibre = Cage(circuits.model.form, speed)
        yield PortBank(CIRCUITS, circuits.switches, circuits.model.cages, fibre)


def _switch_bank(
    tier: SwitchTier, sizing: Sizing, width: int, model: SwitchModel | None, lane_gbps: float | None
) -> PortBank:
    """Cages of a tier's switches for links of ``width`` times the rate of a network port.

    Without a model a cage takes a whole port, split over planes or not, on lanes as of the cards.

    Raises
    ------
    InputError
        If the switch model does not run at that rate, or has another number of ports there.
    """
    radix, speed_gbps = sizing.radix, sizing.speed_gbps
    rate_gbps = width * speed_gbps
    if model is None:
        links = max(1, sizing.port_split // width)
        cage = Cage(ANY, rate_gbps, links, lane_gbps)
        return PortBank(tier.name, tier.switches, radix // (width * links), cage)
    links = model.links_per_cage(rate_gbps)
    if width > 1 and model.radix(rate_gbps) * width != radix:
        raise InputError(
            f"--switch {model.name} has {model.radix(rate_gbps)} ports of {rate_gbps:g} Gb/s for"
            f" trunks, got {radix // width} in place of {radix} of {speed_gbps:g} Gb/s: take"
            " another switch, or another trunk_width"
        )
    cage = Cage(model.form, rate_gbps, links, model.lane_gbps)
    return PortBank(tier.name, tier.switches, model.cages // model.planes, cage)


def _card_cage(sizing: Sizing, cabling: CablingBook) -> Cage:
    """What the cage of a network card takes, its port whole or split over planes.

    Raises
    ------
    CatalogError
        If the cabling book has no card that does so.
    """
    card = cabling.card(sizing.card_gbps)
    if sizing.port_split == 1:
        return Cage(card.form, sizing.speed_gbps, sizing.cage_cards, card.lane_gbps)
    for split in card.splits:
        if split.links == sizing.port_split:
            return Cage(card.form, split.speed_gbps, split.links, split.lane_gbps)
    known = " or ".join(f"{split.links} x {split.speed_gbps:g}G" for split in card.splits)
    raise CatalogError(
        f"cabling {cabling.name}: {card.item} is not split into {sizing.port_split} x"
        f" {sizing.speed_gbps:g}G (known: {known or 'no split'}): add a split or a card, take so"
        " many planes, or leave --switch out"
    )


def group_ends(fabric: Fabric, hardware: Hardware) -> Iterator[tuple[LinkGroup, Ends]]:
    """Each link group with the names of the two banks that it joins, the lower tier first."""
    widths = _tier_widths(fabric, hardware)
    trunks = {name for name, ends_by_width in widths.items() if len(ends_by_width) > 1}
    for group, (low, high) in _tier_ends(fabric, hardware):
        wide = {name for name in trunks & {low, high} if group.width > min(widths[name])}
        yield group, (low + TRUNKS * (low in wide), high + TRUNKS * (high in wide))


def _tier_widths(fabric: Fabric, hardware: Hardware) -> dict[str, Counter[int]]:
    """Ends of links on each tier of switches [1], by the width of the links."""
    ends_of: dict[str, Counter[int]] = {tier.name: Counter() for tier in fabric.tiers}
    for group, ends in _tier_ends(fabric, hardware):
        for name in ends:
            if name in ends_of and group.links:
                ends_of[name][group.width] += group.links
    return ends_of


def _tier_ends(fabric: Fabric, hardware: Hardware) -> Iterator[tuple[LinkGroup, Ends]]:
    """Each link group with the names of what it joins: tiers, cards, servers, circuit switches."""
    names = {number: tier.name for number, tier in enumerate(fabric.tiers, start=1)}
    for group in fabric.links:
        low, high = (names.get(tier, f"tier {tier}") for tier in group.tiers)
        if group.medium in UNCABLED:
            continue  # nobody buys it
        if group.role == "host":
            if hardware.circuits is not None and hardware.circuits.switches:
                # A link to a rail becomes two fibres, one from each side to the circuit switch.
                for end in (high, CARD):
                    yield replace(group, medium="optical"), (end, CIRCUITS)
                continue
            servers = _management_links(fabric) if group.tiers == (0, 1) else 0
            yield replace(group, links=group.links - servers), (high, CARD)
            if servers:
                yield replace(group, links=servers), (high, SERVER)
        elif group.role not in BETWEEN_GPUS:
            yield group, (low, high)
        elif hardware.circuits is not None and group.medium == "optical":
            # A link between cubes becomes two fibres, one from each face to the circuit switch.
            yield replace(group, links=2 * group.links), (CARD, CIRCUITS)
        else:
            yield group, (CARD, CARD)


def _management_links(fabric: Fabric) -> int:
    """Host links beyond the GPUs' own: those of management servers [1]."""
    hosts = sum(group.links for group in fabric.links if group.role == "host")
    return max(0, hosts - fabric.nic_ports)


COPPER: tuple[CableKind, ...] = get_args(CableKind)
"""Kinds of cable with fixed plugs, the cheapest first."""
MODULES: tuple[ModuleKind, ...] = get_args(ModuleKind)


class Link(Struct, frozen=True):
    """What a connection between two cages depends on, besides the cages."""

    cabling: CablingBook  # modules and cables that there are
    cables: tuple[CableKind, ...]  # kinds with fixed plugs that may serve, the cheapest first
    length_m: float  # [m]
    parallel: int = 1  # links between the same two devices, in one cage at either end [1]
    straight: bool | None = False  # of cables whose plugs are not known: one each; None for either

    @classmethod
    def of(
        cls,
        group: LinkGroup,
        cabling: CablingBook,
        length_m: float,
        cables: tuple[CableKind, ...] = COPPER,
        parallel: int = 1,
    ) -> "Link":
        """A link of a group: only cables to hosts may be split where no plugs are known."""
        return cls(cabling, cables, length_m, parallel, straight=group.role != "host")


def connect(group: LinkGroup, ends: Ends, banks: dict[str, PortBank], link: Link) -> CableRun:
    """The first connection of a length that closes between two banks.

    Raises
    ------
    InfeasibleError
        If none does: what stops the one that comes nearest, with both ends.
    """
    missing = [end for end in ends if end not in banks]
    if missing:
        raise NetplanError(f"{group.name}: cables end on {missing[0]}, which the fabric lacks")
    near, far = (banks[end].cage for end in ends)
    closing = first_that_closes(near, far, link)
    if closing is not None:
        return run_of(closing, group, ends)
    runs = [run_of(run, group, ends) for run in _candidates(near, far, link, optics=True)]
    tried = [list(run_violations(run, banks)) for run in runs]
    nearest = min(tried, key=len, default=[])
    if nearest and nearest[0].rule == "reach":
        short = [run for run, faults in zip(runs, tried, strict=True) if len(faults) == 1]
        lane_gbps = near.lane_gbps or link.cabling.lane_gbps(near.speed_gbps)
        raise InfeasibleError(f"{group.name}, {ends[0]} to {ends[1]}: {_too_far(short, lane_gbps)}")
    if nearest:
        raise InfeasibleError(str(nearest[0]))
    modules = [[_modules(cage, link.cabling, kind) for kind in MODULES] for cage in (near, far)]
    if all(map(any, modules)) and _differ(near.lane_gbps, far.lane_gbps):
        raise InfeasibleError(
            f"{group.name}, {ends[0]} to {ends[1]}: lanes of {near.lane_gbps:g} Gb/s at one end,"
            f" {far.lane_gbps:g} at the other"
        )
    raise InfeasibleError(
        f"{group.name}, {ends[0]} to {ends[1]}: cabling {link.cabling.name} has no module or cable"
        f" from {near.links} x {near.speed_gbps:g}G {near.form} to {far.links} x"
        f" {far.speed_gbps:g}G {far.form}: add one, or choose another switch"
    )


def _too_far(runs: Sequence[CableRun], lane_gbps: float | None) -> str:
    """Why none of the connections that fit two cages spans a link, in words."""
    farthest = max(runs, key=lambda run: run.reach_m / run.hops)
    item = farthest.cable or " and ".join(dict.fromkeys(plug.item for plug in farthest.plugs))
    lanes = f" at lanes of {lane_gbps:g} Gb/s" if lane_gbps else ""
    best = f"{item} reaches {farthest.reach_m:,g} m" if farthest.reach_m else "nothing is listed"
    return (
        f"{farthest.length_m * farthest.hops:,g} m{lanes}: of what fits these cages {best}: put"
        " the ends closer together, or add to the cabling book what reaches so far"
    )


def run_of(run: CableRun, group: LinkGroup, ends: Ends) -> CableRun:
    """A run of the links of a group between two banks."""
    name = f"{MANAGEMENT * (SERVER in ends)}{group.name}"
    return replace(run, name=name, role=group.role, links=group.links, ends=ends)


# Designs by the thousand are joined by the same few connections.
@lru_cache(maxsize=1024)
def first_that_closes(near: Cage, far: Cage, link: Link, *, optics: bool = True) -> CableRun | None:
    """The first connection without a fault between two cages, its names still to be filled in."""
    banks = {"near": PortBank("near", 1, 1, near), "far": PortBank("far", 1, 1, far)}
    runs = _candidates(near, far, link, optics=optics)
    return next((run for run in runs if not any(run_violations(run, banks))), None)


def _candidates(near: Cage, far: Cage, link: Link, *, optics: bool) -> Iterator[CableRun]:
    """All connections of the cabling book that fit both cages by form, the cheapest kind first."""
    base = CableRun(
        name="",
        links=1,
        ends=("near", "far"),
        plugs=(_bare(near), _bare(far)),
        medium="fibre",
        length_m=link.length_m,
        reach_m=0.0,
        parallel=link.parallel,
    )
    for kind, cable in product(link.cables, link.cabling.cables):
        # No port of a cage may stay dark: a splitter has as many links in each plug as its cage.
        carried = cable.links, cable.links // cable.split
        fits = cable.forms == (near.form, far.form) and carried == (near.links, far.links)
        if cable.kind == kind and fits and cable.speed_gbps in (None, near.speed_gbps):
            # One plug at the first end, and ``split`` at the second.
            rate_gbps, lane_gbps = near.speed_gbps, cable.lane_gbps
            lane = lane_gbps or near.lane_gbps or link.cabling.lane_gbps(rate_gbps)
            plugs = (
                Plug(cable.item, cable.forms[0], rate_gbps, cable.links, lane_gbps),
                Plug(cable.item, cable.forms[1], rate_gbps, carried[1], lane_gbps),
            )
            straight = link.straight if near.form == ANY else cable.split == 1
            reach_m = min(cable.reach_m, link.cabling.reach_m(cable.kind, lane, straight=straight))
            facts = {"medium": cable.kind, "reach_m": reach_m, "cable": cable.item}
            yield replace(base, plugs=plugs, **facts)
    for reach in MODULES if optics else ():
        for near_plug, far_plug in product(
            _modules(near, link.cabling, reach), _modules(far, link.cabling, reach)
        ):
            items = (near_plug.item, far_plug.item)
            if items == (BARE_FIBRE, BARE_FIBRE):
                continue
            # The weaker of two modules.
            modules = [module for module in link.cabling.modules if module.item in items]
            lane = modules[0].lane_gbps or near.lane_gbps or far.lane_gbps
            rule_m = link.cabling.reach_m(reach, lane)
            reach_m = min(rule_m, *(module.reach_m for module in modules))
            hops = 2 if BARE_FIBRE in items else 1
            yield replace(base, plugs=(near_plug, far_plug), reach_m=reach_m, hops=hops)


def _modules(cage: Cage, cabling: CablingBook, kind: ModuleKind) -> list[Plug]:
    """Modules of a kind for a cage; a circuit switch takes the fibre itself."""
    if cage.form.endswith("-fibre"):
        return [_bare(cage)]
    speed_gbps = cage.speed_gbps
    if cage.form == ANY and cage.links > 1:
        # Any module of the whole port, split into as many links.
        of_one = _modules(replace(cage, links=1), cabling, kind)
        return [replace(plug, links=cage.links) for plug in of_one]
    return [
        Plug(module.item, module.form, speed_gbps, module.links, module.lane_gbps, module.fibre)
        for module in cabling.modules
        if (module.form, module.links, module.grade) == (cage.form, cage.links, kind)
        and module.speed_gbps in (None, speed_gbps)
    ]


def _bare(cage: Cage) -> Plug:
    """A fibre without a module."""
    fibre = cage.form.removesuffix("-fibre")
    return Plug(BARE_FIBRE, cage.form, cage.speed_gbps, fibre=fibre)


def checked(fabric: Fabric, wiring: Wiring) -> Wiring:
    """Refuse a wiring that does not close, or that uses other ports than the fabric counts.

    Raises
    ------
    InfeasibleError
        With the first violation.
    """
    faults = wiring.violations
    if faults:
        raise InfeasibleError(str(faults[0]))
    widths = {group.name: group.width for group in fabric.links}
    for tier in fabric.tiers:
        names = (tier.name, tier.name + TRUNKS)
        ends = sum(
            run.links * widths.get(run.name, 1) * sum(end in names for end in run.ends)
            for run in wiring.runs
        )
        if ends != tier.ports_used:
            raise InfeasibleError(
                f"{fabric.name}: {ends:,} cable ends land on {tier.name} switches, whose ports in"
                f" use are {tier.ports_used:,}"
            )
    return wiring
