"""From a sized fabric to banks of ports and runs of cable: which plug, which cable, how long.

The fabric says how many links join which tiers and whether they are copper or optical; the
cabling book says how long such a link is taken to be and what modules and cables exist; the
switch model says what its cages take. For every link group the first connection that closes is
taken: copper as DAC, then AEC, then AOC; optical as multimode modules, then single-mode.

A floor plan replaces the length classes by measured lengths. Then each length takes the cheapest
kind that spans it, a DAC where one reaches; but where a cage holds a twin-port module all links of
a group take the kind that spans the longest, since two kinds cannot share a cage.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from netplan.arrays import Floats
from netplan.costing.cabling import ANY, Cable, CableKind, CablingBook, LinkKind, Module
from netplan.costing.circuits import CircuitLayer
from netplan.costing.ports import Cage, Plug, PortBank, Run, Violation, closure, run_violations
from netplan.costing.switches import SwitchModel
from netplan.errors import InfeasibleError, NetplanError
from netplan.topologies.cable_plan import ROLES, Place, Sheet
from netplan.topologies.fabric import Fabric, LinkGroup
from netplan.topologies.floor_plan import FloorPlan, Layout, lay_out, shortest_media, stock_length_m
from netplan.topologies.graph import MANAGER, FabricGraph

CARD = "network card"
SERVER = "management server"
CIRCUITS = "optical circuit switch"
BARE_FIBRE = "bare fibre"
MANAGEMENT = "management "
"""Before the name of a link group: the links of it that end on management servers."""

Lengths = Mapping[str, Sequence[tuple[float, int]]]
"""Measured lengths by link group: metres, and how many links are that long."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a fabric is built from.

    Parameters
    ----------
    cabling
        Modules, cables, cards and length classes.
    switch
        Switch model; without one the cages take any plug.
    circuits
        Optical circuit switches between the cubes of a torus.
    lengths
        Measured lengths, from a floor plan; length classes without one.
    """

    cabling: CablingBook
    switch: SwitchModel | None = None
    circuits: CircuitLayer | None = None
    lengths: Lengths | None = None


@dataclass(frozen=True, slots=True)
class Wiring:
    """Banks of ports, runs of cable between them, and what to know about the choice."""

    banks: tuple[PortBank, ...]
    runs: tuple[Run, ...]
    notes: tuple[str, ...]

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Cable ends without a port; empty if the ports close."""
        return closure(self.banks, self.runs)

    def bank(self, name: str) -> PortBank:
        """Bank of a name."""
        return next(bank for bank in self.banks if bank.name == name)


def wire(fabric: Fabric, hardware: Hardware) -> Wiring:
    """Choose plugs and cables for every link of a fabric, and check that the ports close.

    Parameters
    ----------
    fabric
        A sized fabric.
    hardware
        Switch model, optical circuit switches and cabling book.

    Raises
    ------
    InfeasibleError
        If a cable end has no port; the message names both ends of the first one.
    CatalogError
        If the cabling book lacks a card or a length.

    Examples
    --------
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(1024, 64, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    >>> fabric = build_fabric(FABRICS.load("rail-optimized"), sizing)
    >>> hardware = Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load("qm9700"))
    >>> for run in wire(fabric, hardware).runs:
    ...     print(run.name, run.links, run.plugs[0].form, run.plugs[1].form)
    host 1024 osfp-finned osfp-flat
    leaf-spine 1024 osfp-finned osfp-finned
    """
    banks = tuple(_banks(fabric, hardware))
    known = {bank.name: bank for bank in banks}
    runs: list[Run] = []
    notes = []
    for group, ends in _group_ends(fabric, hardware):
        made = list(_runs(group, ends, known, hardware))
        runs += made
        optics = [run for run in made if run.medium in ("fibre", "aoc")]
        if group.medium == "copper" and optics:
            notes.append(
                f"{group.name}: planned in copper by the fabric, but no copper cable of"
                f" {optics[0].length_m:g} m fits these cages link by link: optics instead."
            )
    wiring = Wiring(banks, tuple(runs), tuple(notes))
    _check(fabric, wiring)
    return wiring


def _runs(
    group: LinkGroup,
    ends: tuple[str, str],
    banks: dict[str, PortBank],
    hardware: Hardware,
) -> Iterator[Run]:
    """Runs of one link group: one, or one a measured length."""
    cabling = hardware.cabling
    if hardware.lengths is None:
        yield _connect(group, ends, banks, cabling, _length(group, cabling))
        return
    measured = hardware.lengths[group.name]
    twin = any(banks[end].cage.links > 1 for end in ends)
    longest = max(length for length, _ in measured)
    for length, links in measured:
        # A passive cable where it reaches, whatever the fabric plans: no module is cheaper.
        part = replace(group, links=links, medium=group.medium if twin else "copper")
        passive = ("dac",) if group.medium == "optical" else COPPER
        run = _connect(part, ends, banks, cabling, longest if twin else length, passive)
        yield replace(run, length_m=length, measured=True)


def link_kind(group: str) -> LinkKind:
    """Kind of a link group, by its name in the fabric.

    Examples
    --------
    >>> [link_kind(name) for name in ("host", "leaf-spine", "spine-core", "ring 2 copper")]
    ['host', 'leaf-spine', 'upper', 'ring']
    """
    if group.startswith("ring"):
        return "ring"
    if group.startswith("level"):
        return "host"  # in a BCube every level of switches takes ports of the GPUs
    plain: dict[str, LinkKind] = {
        "host": "host",
        "leaf-spine": "leaf-spine",
        "local": "local",
        "global": "global",
    }
    return plain.get(group, "upper")


def _banks(fabric: Fabric, hardware: Hardware) -> Iterator[PortBank]:
    """Switches tier by tier, network cards, management servers, circuit switches."""
    speed, model = fabric.sizing.speed_gbps, hardware.switch
    cage, cages = Cage(ANY, speed), fabric.sizing.radix
    if model is not None:
        cage = Cage(model.form, speed, model.links_per_cage(speed), model.lane_gbps)
        cages = model.cages
    for tier in fabric.tiers:
        yield PortBank(tier.name, tier.switches, cages, cage)
    card_cage = Cage(ANY, speed)
    if model is not None and fabric.tiers:
        card = hardware.cabling.card(speed)
        card_cage = Cage(card.form, speed, 1, card.lane_gbps)
    # Cards are one pool: copper may end on some and optics on others.
    yield PortBank(CARD, 1, fabric.nic_ports, card_cage)
    servers = _management_links(fabric)
    if servers:
        yield PortBank(SERVER, 1, servers, card_cage)
    if hardware.circuits is not None:
        circuits = hardware.circuits
        fibre = Cage(circuits.model.form, speed)
        yield PortBank(CIRCUITS, circuits.switches, circuits.model.cages, fibre)


def _group_ends(fabric: Fabric, hardware: Hardware) -> Iterator[tuple[LinkGroup, tuple[str, str]]]:
    """Each link group with the names of the two banks that it joins, the lower tier first."""
    tiers = [tier.name for tier in fabric.tiers]
    for group in fabric.links:
        kind = link_kind(group.name)
        if kind == "ring" and hardware.circuits is not None and group.medium == "optical":
            # A link between cubes becomes two fibres, one from each face to the circuit switch.
            yield replace(group, links=2 * group.links), (CARD, CIRCUITS)
        elif kind == "ring":
            yield group, (CARD, CARD)
        elif group.name in tiers:
            yield group, (group.name, CARD)
        elif kind == "host":
            servers = _management_links(fabric)
            yield replace(group, links=group.links - servers), (tiers[0], CARD)
            if servers:
                yield replace(group, name=f"{MANAGEMENT}host", links=servers), (tiers[0], SERVER)
        elif kind in ("local", "global"):
            yield group, (tiers[0], tiers[0])
        else:
            lower, _, upper = group.name.partition("-")
            yield group, (lower, upper)


def _management_links(fabric: Fabric) -> int:
    """Host links beyond the GPUs' own: those of management servers [1]."""
    hosts = sum(group.links for group in fabric.links if link_kind(group.name) == "host")
    return max(0, hosts - fabric.nic_ports)


def _length(group: LinkGroup, cabling: CablingBook) -> float:
    """Length of one cable of a group, by its class [m]."""
    name = group.name.removeprefix(MANAGEMENT)
    return cabling.length(link_kind(name), group.medium).length_m


COPPER: tuple[CableKind, ...] = ("dac", "aec", "aoc")
"""Kinds of cable for a link planned in copper, the cheapest first."""


def _connect(
    group: LinkGroup,
    ends: tuple[str, str],
    banks: dict[str, PortBank],
    cabling: CablingBook,
    length_m: float,
    copper: Sequence[CableKind] = COPPER,
) -> Run:
    """The first connection of a length that closes between the two banks.

    Raises
    ------
    InfeasibleError
        If none does: what stops the one that comes nearest, with both ends.
    """
    missing = [end for end in ends if end not in banks]
    if missing:
        raise NetplanError(f"{group.name}: cables end on {missing[0]}, which the fabric lacks")
    nearest: list[Violation] = []
    base = Run(group.name, group.links, ends, _bare_ends(ends, banks), "fibre", length_m, 0.0)
    for run in _candidates(base, banks, cabling, copper if group.medium == "copper" else ()):
        faults = list(run_violations(run, banks))
        if not faults:
            return run
        if not nearest or len(faults) < len(nearest):
            nearest = faults
    if nearest:
        raise InfeasibleError(str(nearest[0]))
    near, far = (banks[end].cage for end in ends)
    raise InfeasibleError(
        f"{group.name}, {ends[0]} to {ends[1]}: cabling {cabling.name} has no module or cable from"
        f" {near.links} x {near.speed_gbps:g}G {near.form} to {far.links} x {far.speed_gbps:g}G"
        f" {far.form}: add one, or choose another switch"
    )


def _candidates(
    base: Run,
    banks: dict[str, PortBank],
    cabling: CablingBook,
    copper: Sequence[CableKind],
) -> Iterator[Run]:
    """All connections of the cabling book that fit both cages by form, the cheapest kind first."""
    near, far = (banks[end].cage for end in base.ends)
    for kind, cable in product(copper, cabling.cables):
        fits = cable.forms == (near.form, far.form) and cable.links == near.links
        if cable.kind == kind and fits and cable.speed_gbps in (None, near.speed_gbps):
            yield _cable_run(base, cable, near.speed_gbps)
    for fibre in ("multimode", "singlemode"):
        for one, two in product(_modules(near, cabling), _modules(far, cabling)):
            if one.fibre == fibre:
                hops = 2 if BARE_FIBRE in (one.item, two.item) else 1
                yield replace(base, plugs=(one, two), reach_m=_reach(one, two, cabling), hops=hops)


def _modules(cage: Cage, cabling: CablingBook) -> list[Plug]:
    """Modules for a cage; a circuit switch takes the fibre itself."""
    if cage.form.endswith("-fibre"):
        return [_bare(cage)]
    return [
        _module_plug(module, cage)
        for module in cabling.modules
        if module.form == cage.form
        and module.links == cage.links
        and module.speed_gbps in (None, cage.speed_gbps)
    ]


def _module_plug(module: Module, cage: Cage) -> Plug:
    name, links = module.item, module.links
    return Plug(name, module.form, cage.speed_gbps, links, module.lane_gbps, module.fibre)


def _bare_ends(ends: tuple[str, str], banks: dict[str, PortBank]) -> tuple[Plug, Plug]:
    """Both ends of a link before anything is plugged."""
    near, far = (_bare(banks[end].cage) for end in ends)
    return near, far


def _bare(cage: Cage) -> Plug:
    """A fibre without a module."""
    fibre = cage.form.removesuffix("-fibre")
    return Plug(BARE_FIBRE, cage.form, cage.speed_gbps, fibre=fibre)


def _reach(one: Plug, two: Plug, cabling: CablingBook) -> float:
    """Reach of the weaker of two modules [m]."""
    reaches = [module.reach_m for module in cabling.modules if module.item in (one.item, two.item)]
    return min(reaches)


def _cable_run(base: Run, cable: Cable, speed_gbps: float) -> Run:
    """Run of a cable with fixed plugs, one at the first end and ``split`` at the second."""
    plugs = (
        Plug(cable.item, cable.forms[0], speed_gbps, cable.links, cable.lane_gbps),
        Plug(cable.item, cable.forms[1], speed_gbps, cable.links // cable.split, cable.lane_gbps),
    )
    return replace(base, plugs=plugs, medium=cable.kind, reach_m=cable.reach_m, cable=cable.item)


def _check(fabric: Fabric, wiring: Wiring) -> None:
    """Refuse a wiring that does not close, or that uses other ports than the fabric counts.

    Raises
    ------
    InfeasibleError
        With the first violation.
    """
    faults = wiring.violations
    if faults:
        raise InfeasibleError(str(faults[0]))
    for tier in fabric.tiers:
        ends = sum(run.links * run.ends.count(tier.name) for run in wiring.runs)
        if ends != tier.ports_used:
            raise InfeasibleError(
                f"{fabric.name}: {ends:,} cable ends land on {tier.name} switches, whose ports in"
                f" use are {tier.ports_used:,}"
            )


LENGTH_COLUMNS = ("group", "length_m", "cables", "total_m", "medium")
RACK_COLUMNS = ("rack", "what", "length_m", "count")


class Placed(NamedTuple):
    """Where all nodes stand, places of devices by name, and lengths of cables as sold [m]."""

    layout: Layout
    places: Mapping[str, Place]
    length_m: Floats


def placed(plan: FloorPlan, network: FabricGraph) -> Placed:
    """Put a network into a hall.

    Parameters
    ----------
    plan
        The hall.
    network
        The fabric, without links inside HB domains.

    Raises
    ------
    InputError
        If the hall is too small.
    """
    layout = lay_out(plan, network)
    length = layout.cable_m(network.source, network.target)
    return Placed(layout, layout.places(network), stock_length_m(plan, length))


def racks_sheet(network: FabricGraph, placed_at: Placed) -> Sheet:
    """What stands in each rack, and the cables that begin there, by length: for installers.

    Parameters
    ----------
    network, placed_at
        The fabric, its places and its lengths.
    """
    names = np.array(network.node_names(), object)
    racks = [placed_at.places[name].rack for name in names.tolist()]
    kinds = [ROLES[kind] for kind in network.node_kind.tolist()]
    devices = Counter(zip(racks, kinds, strict=True))
    begins = np.array(racks, object)[network.source].tolist()
    cables = Counter(zip(begins, placed_at.length_m.tolist(), strict=True))
    lines = [(rack, 0, kind, "", count) for (rack, kind), count in devices.items()]
    lines += [(rack, 1, "cable", f"{length:g}", count) for (rack, length), count in cables.items()]
    lines.sort(key=lambda line: (line[0], line[1], line[2], float(line[3] or 0)))
    rows = ((rack, what, length, str(count)) for rack, _, what, length, count in lines)
    return Sheet("Racks", RACK_COLUMNS, rows)


def measured_links(network: FabricGraph, length_m: Floats) -> Lengths:
    """Lengths of each link group with how many links are that long, for the bill.

    Links of hosts that are no GPUs, those of a fabric manager, are a group of their own.

    Parameters
    ----------
    network, length_m
        The fabric, and the lengths of its cables as sold [m].
    """
    servers = (network.node_kind[network.source] == MANAGER) | (
        network.node_kind[network.target] == MANAGER
    )
    found: dict[str, list[tuple[float, int]]] = {}
    for at, name in enumerate(network.group_names):
        for title, apart in ((name, False), (f"{MANAGEMENT}{name}", True)):
            lengths = length_m[(network.group == at) & (servers == apart)]
            if len(lengths):
                values, counts = np.unique(lengths, return_counts=True)
                found[title] = list(zip(values.tolist(), counts.tolist(), strict=True))
    return found


def reaches_m(book: CablingBook) -> dict[str, float]:
    """Reach of every medium that is not tied to a form factor [m].

    Examples
    --------
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> reaches_m(CABLING_BOOKS.load("2026"))
    {'dac': 3.0, 'aec': 5.0, 'aoc': 30.0, 'multimode': 50.0, 'singlemode': 500.0}
    """
    found: dict[str, float] = {
        cable.kind: cable.reach_m
        for cable in book.cables
        if cable.forms == (ANY, ANY) and cable.speed_gbps is None
    }
    found |= {module.fibre: module.reach_m for module in book.modules if module.form == ANY}
    return found


def lengths_sheet(network: FabricGraph, length_m: Floats, book: CablingBook) -> Sheet:
    """Cables by link group and length, with the medium of the shortest reach that spans it.

    Parameters
    ----------
    network, length_m
        The fabric, and the lengths of its cables as sold [m].
    book
        Reaches of the media.
    """
    lengths, which = np.unique(length_m, return_inverse=True)
    counts = np.zeros((len(network.group_names), len(lengths)), np.int64)
    np.add.at(counts, (network.group, which), 1)
    media = shortest_media(reaches_m(book), lengths)
    rows = (
        (name, f"{lengths[at]:g}", str(count), f"{count * lengths[at]:g}", media[at])
        for name, line in zip(network.group_names, counts.tolist(), strict=True)
        for at, count in enumerate(line)
        if count
    )
    return Sheet("Cable lengths", LENGTH_COLUMNS, rows)
