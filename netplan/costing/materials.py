"""The bill of materials: one line a part, with the quantity to order.

Switches come whole, modules by cage, cables by type and length class. A line also says in which
units its part is priced: a switch of 64 ports in 64 ports, a twin-port module in 2 link ends.
Spares are a share of every line by its category, rounded up to whole units.

Racks that hold the switches of a network, where no hall says more of them.

What is bought beside the network where a question asks for it: accelerators, expanded memory.

Each is one line of the one bill, priced by its model: memory by the GB of its kind, an accelerator
by the piece, its share of the server included.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from netplan.arrays import ceil_div
from netplan.catalog import unknown_name
from netplan.costing.cabling import CablingBook, FibreCable, PricedCable, sold_at
from netplan.costing.prices import BESIDE, PART_NAMES, PER_GB_S, Part, hb_size_of
from netplan.costing.wiring import BARE_FIBRE, GLASS, CableRun, Hardware, Plug, Wiring, plugs_needed
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.fabric import Fabric
from netplan.units import GIGA, PERCENT, si
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.technologies import MemoryTechnology

if TYPE_CHECKING:
    from fractions import Fraction

    from netplan.topologies.cabling.floor_plan import Layout


class SwitchRacks(Struct, frozen=True):
    """Racks of a network's switches, filled one after the other.

    Parameters
    ----------
    devices
        Switches, and hosts of the fabric manager that stand with them [1].
    units, switch_units
        Rack units of a rack and of a switch [1].
    each
        Devices of a full rack [1].
    hall
        Hall that says where the racks stand; empty without one.
    racks
        Racks in use where a hall says so, beside its leaves in racks of GPUs [1].

    Examples
    --------
    42 units hold 21 switches of 2 units; 256 = 12 x 21 + 4.

    >>> racks = SwitchRacks(256, 42, 2, 21)
    >>> racks.count, racks.full, racks.last
    (13, 12, 4)
    """

    devices: int
    units: int
    switch_units: int
    each: int
    hall: str = ""
    racks: int | None = None

    @property
    def pitch(self) -> int:
        """Rack units from one switch to the next: a floor plan spreads them over the rack [1]."""
        return self.units // self.each

    @property
    def count(self) -> int:
        """Racks [1]."""
        return ceil_div(self.devices, self.each) if self.racks is None else self.racks

    @property
    def full(self) -> int:
        """Full racks [1]."""
        return self.devices // self.each

    @property
    def last(self) -> int:
        """Devices of the last rack that is not full [1]."""
        return self.devices % self.each


Category = Literal[
    "switches",
    "transceivers",
    "cables",
    "cards",
    "circuits",
    "hb-gear",
    "racks",
    "installation",
    "memory",
    "accelerators",
    "long-haul",
]
SITE_NETWORKS_LEFT_OUT = {
    "storage": "storage network",
    "management": "in-band management network",
    "out-of-band": "out-of-band management network",
}
"""Networks beside the one that trains, by catalog name: off the bill unless asked for."""

ACCELERATORS_TOO = "accelerators"
"""What is asked for beside the network like one of its neighbours."""

NOT_INSTALLED = "patch panels, trays and installation"
ALWAYS_LEFT_OUT = ("licences, support, freight and taxes",)


CARDS_INCLUDED = "included"
"""Where network cards come from, if not on their own: inside the servers."""

CARDS_LEFT_OUT = "network cards, which come inside the servers"


def not_held(
    networks: Collection[str] = (), *, memory: bool = False, cards: str = "", installed: bool = True
) -> tuple[str, ...]:
    """What the bill does not hold, with these site networks or the accelerators on it.

    Parameters
    ----------
    networks
        Site networks on the bill, and ``accelerators`` where they are.
    memory
        Whether expanded memory is on it.
    cards
        ``included`` where network cards come inside the servers.
    installed
        Whether the laying of cables is on it.

    Examples
    --------
    >>> not_held(("storage", "management"))[:2]
    ('out-of-band management network', 'servers, accelerators and their racks')
    """
    absent = [text for name, text in SITE_NETWORKS_LEFT_OUT.items() if name not in networks]
    counted = ACCELERATORS_TOO in networks
    servers = "racks of the servers" if counted else "servers, accelerators and their racks"
    inside = (CARDS_LEFT_OUT,) if cards == CARDS_INCLUDED else ()
    slots = ("controllers, cards and slots of expanded memory",) if memory else ()
    work = () if installed else (NOT_INSTALLED,)
    return (*absent, servers, *inside, *slots, *work, *ALWAYS_LEFT_OUT)


class BillItem(Struct, frozen=True):
    """One line of the bill.

    Parameters
    ----------
    category
        Group of parts, as spares are given.
    item, specification, notes
        What to order, in words.
    quantity, spares
        Units for the build, and beyond it [1].
    unit
        What one unit is.
    part, speed_gbps, model
        Where the price book has its price.
    price_units
        Units of the price book in one unit of the line [1].
    network
        Site network that the line belongs to; empty for the network that trains.
    typical_w
        Power of one unit where its own file has it [W].
    part_number
        Maker's order number, with the way of the air for a switch; empty where none is known.
    accepted
        Numbers of equals that may be offered in its place.
    kind
        Of a cable: ``dac``, ``acc``, ``aec``, ``aoc``, or ``om4`` and ``os2`` of fibre.
    kinds
        What the model is one of, as a price book may name it, the most particular first: ``48x1g``
        for a switch, ``800g-dr`` for a module, ``aec`` for a cable with plugs, ``mpo-multimode``
        for fibre, ``hb-72`` for gear.
    length_m
        Stock length of a cable, which prices by the metre depend on; 0 of all else [m].
    """

    category: Category
    item: str
    specification: str
    quantity: int
    unit: str
    part: Part
    speed_gbps: float
    price_units: int = 1
    model: str = ""
    spares: int = 0
    network: str = ""
    notes: tuple[str, ...] = ()
    typical_w: float | None = None
    part_number: str = ""
    accepted: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    kind: str = ""
    length_m: float = 0.0

    @property
    def title(self) -> str:
        """What to order, with the site network that it is for."""
        return f"{self.network} network: {self.item}" if self.network else self.item

    @property
    def priced_as(self) -> str:
        """The part that a price book has, in words, with its link rate or its model."""
        rate = self.model if self.part in BESIDE else f"{self.speed_gbps:.4g}G"
        if self.part == "hb_gear":
            kind = self.kinds[0]
            rate = kind if kind in PER_GB_S else f"domains of {hb_size_of(kind):,}"
        return f"{PART_NAMES[self.part]} ({rate})"

    @property
    def order(self) -> int:
        """Units to order, spares included [1]."""
        return self.quantity + self.spares


def switch_units(hardware: Hardware) -> int:
    """Height of the switch model, else of the cabling book's switch without a model [U]."""
    model = hardware.switch
    known = model.rack_units if model is not None else None
    return hardware.cabling.racks.switch_units if known is None else known


class SiteBill(Struct, frozen=True):
    """Networks beside, as a bill has them.

    Parameters
    ----------
    lines
        Their lines, each with the name of its network.
    racks
        Racks of their switches [1].
    notes
        What the lines do not show, with the name of the network before it.
    """

    lines: tuple[BillItem, ...] = ()
    racks: int = 0
    notes: tuple[str, ...] = ()


def switch_racks(fabric: Fabric, hardware: Hardware, layout: "Layout | None" = None) -> SwitchRacks:
    """Racks of a fabric's switches: those of the floor plan, else as many as the units need.

    Examples
    --------
    16 units hold one switch of 9 units, so that 12 of them need twelve racks, not 12 x 9 / 16.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS, Racks
    >>> racks = Racks(units=16, switch_units=9, source="a small rack")
    >>> book = CABLING_BOOKS.load("2026").changed(**{"racks": racks})
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=256, radix=64)
    >>> fabric = scenario.fabric("fat-tree").counts
    >>> fabric.switches, switch_racks(fabric, Hardware(book)).count
    (12, 12)
    """
    units, racks = switch_units(hardware), hardware.cabling.racks
    if layout is not None:
        plan = layout.plan
        return SwitchRacks(
            *(layout.network_devices, plan.rack_units, units, layout.per_rack),
            *(plan.name, layout.network_racks),
        )
    most = max(1, racks.units // (units + racks.cable_units))
    if racks.rack_w is not None and hardware.switch_w:
        most = max(1, min(most, int(racks.rack_w // hardware.switch_w)))
    boxes = ceil_div(fabric.switches, hardware.switch.planes if hardware.switch else 1)
    return SwitchRacks(boxes, racks.units, units, most)


def bill_items(
    fabric: Fabric, wiring: Wiring, hardware: Hardware, layout: "Layout | None" = None
) -> tuple[BillItem, ...]:
    """All lines of a fabric's bill, without spares.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.costing.wiring import wire
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=1024, radix=64).sizing
    >>> fabric = build_fabric(FABRICS.load("rail-optimized"), sizing)
    >>> hardware = Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load("qm9700"))
    >>> for line in bill_items(fabric, wire(fabric, hardware), hardware)[:3]:
    ...     print(line.quantity, line.item)
    48 Switch qm9700
    1536 MMA4Z00-NS, twin-port OSFP 2 x 400G SR4, finned top
    1024 MMA4Z00-NS400, OSFP 400G SR4, flat top
    """
    lines = [
        *_switches(fabric, hardware),
        *_circuits(fabric, hardware),
        *_transceivers(wiring, hardware.cabling),
        *_cables(wiring, hardware.cabling),
        *_cards(fabric, hardware),
        _racks(switch_racks(fabric, hardware, layout), fabric.sizing.speed_gbps),
    ]
    lines.append(_installation(lines, fabric.sizing.speed_gbps))
    return tuple(line for line in lines if line.quantity)


def in_sites(lines: Sequence[tuple[str, Sequence[BillItem]]]) -> tuple[BillItem, ...]:
    """Lines of several sites as one order: equal parts on one line, whose notes say which sites.

    Parameters
    ----------
    lines
        Lines of each site, with its name.

    Returns
    -------
    tuple of BillItem
        A line a part, in the order of the first site that has it.

    Examples
    --------
    >>> rack = BillItem("racks", "Rack", "", 2, "each", "rack", 400.0, notes=("21 switches",))
    >>> both = in_sites((("north", [rack]), ("south", [replace(rack, quantity=3)])))
    >>> both[0].quantity, both[0].notes
    (5, ('north: 21 switches', 'south: 21 switches'))
    """
    together: dict[BillItem, BillItem] = {}
    for site, of_site in lines:
        for line in of_site:
            part = replace(line, quantity=0, notes=())
            before = together.get(part, part)
            notes = (*before.notes, *(f"{site}: {note}" for note in line.notes))
            quantity = before.quantity + line.quantity
            together[part] = replace(before, quantity=quantity, notes=notes)
    return tuple(together.values())


def _switches(fabric: Fabric, hardware: Hardware) -> Iterator[BillItem]:
    sizing, model = fabric.sizing, hardware.switch
    where = ", ".join(f"{tier.switches:,} {tier.name}" for tier in fabric.tiers)
    split, speed = sizing.port_split, sizing.card_gbps
    radix = sizing.radix // split
    ports = f"{radix} ports of {speed:g} Gb/s"
    if split > 1:
        ports += f", each split into {split} of {sizing.speed_gbps:g} Gb/s"
    order, planes = model.ordered if model else None, model.planes if model else 1
    if model is not None and split % planes:
        raise InputError(
            f"--switch {model.name} is {planes} planes in a box, got {split} of {fabric.name}: take"
            f" a fabric of {planes} planes"
        )
    air = f"; air {order.airflow}" if order else ""
    yield BillItem(
        category="switches",
        item=f"Switch {model.name}" if model else f"Switch of {radix} ports",
        specification=f"{model.title}; {model.cages} cages {model.form}{air}" if model else ports,
        quantity=ceil_div(fabric.switches, planes),
        unit="each",
        part="switch_port",
        speed_gbps=speed,
        price_units=radix * planes,
        model=model.name if model else "",
        kinds=(f"{radix * planes}x{speed:g}g",),
        notes=(where, f"{fabric.spare_ports:,} ports free") if where else (),
        part_number=order.part_number if order else "",
        accepted=order.accepted if order else (),
    )


def _circuits(fabric: Fabric, hardware: Hardware) -> Iterator[BillItem]:
    layer = hardware.circuits
    if layer is None:
        return
    yield BillItem(
        category="circuits",
        item=f"Optical circuit switch {layer.model.name}",
        specification=layer.model.title,
        quantity=layer.switches,
        unit="each",
        part="ocs_port",
        speed_gbps=fabric.sizing.speed_gbps,
        price_units=layer.model.cages,
        model=layer.model.name,
        notes=(f"{layer.ports_used:,} of {layer.switches * layer.model.cages:,} ports in use",),
    )


def _transceivers(wiring: Wiring, cabling: CablingBook) -> Iterator[BillItem]:
    """Modules by type; equal modules of a device share cages across its link groups."""
    ends_by_plug: defaultdict[Plug, Counter[str]] = defaultdict(Counter)
    for run in wiring.runs:
        for side, (bank, plug) in enumerate(zip(run.ends, run.plugs, strict=True)):
            if run.medium == "fibre" and plug.item != BARE_FIBRE:
                ends_by_plug[plug][bank] += run.links if run.counted is None else run.counted[side]
    counted = any(run.counted is not None for run in wiring.runs)
    for plug, ends in ends_by_plug.items():
        where = (
            ends
            if counted
            else {
                bank: plugs_needed(links, wiring.bank(bank).devices, plug.links)
                for bank, links in ends.items()
            }
        )
        carried = f"{plug.links} links of" if plug.links > 1 else "1 link of"
        module = cabling.module(plug.item)
        if module is not None and module.in_switch:
            continue
        item, rate_gbps, units = _priced_as(plug)
        whole = f"{plug.links * plug.speed_gbps:g}g"
        form = plug.form if plug.form != "any" else "form as the switch and card ask"
        yield BillItem(
            category="transceivers",
            item=item,
            specification=f"{form}, {carried} {plug.speed_gbps:.4g} Gb/s, {plug.fibre}",
            quantity=sum(where.values()),
            unit="each",
            part="transceiver",
            speed_gbps=rate_gbps,
            price_units=units,
            kinds=(f"{whole}-{module.grade}", whole) if module else (whole,),
            notes=(", ".join(f"{count:,} {bank}" for bank, count in where.items()),),
            typical_w=module.typical_w if module else None,
            part_number=module.part_number if module else "",
            accepted=module.accepted if module else (),
        )


def _priced_as(plug: Plug) -> tuple[str, float, int]:
    """What a module is called, and the rate and the units that it is priced by [Gb/s, 1].

    One of any form is a module of the whole port, one of a maker as many link ends as it has.

    Examples
    --------
    >>> _priced_as(Plug("Transceiver", "any", 100, links=8))
    ('Transceiver, 800G as 8 x 100G', 800, 1)
    """
    if plug.form != "any":
        return plug.item, plug.speed_gbps, plug.links
    whole_gbps = round(plug.links * plug.speed_gbps, 6)  # a third of a rate is no round number
    split = f" as {plug.links} x {plug.speed_gbps:.4g}G" if plug.links > 1 else ""
    return f"{plug.item}, {whole_gbps:.4g}G{split}", whole_gbps, 1


SWITCH_PARTS: tuple[Part, ...] = ("switch", "switch_port")
CABLE_PARTS: dict[str, Part] = {
    "dac": "copper_cable",
    "acc": "active_copper_cable",
    "aec": "active_copper_cable",
    "aoc": "optical_cable",
    "fibre": "fibre",
}
FIBRE_NAMES = {"multimode": "Multimode fibre cable", "singlemode": "Single-mode fibre cable"}


def _cables(wiring: Wiring, cabling: CablingBook) -> Iterator[BillItem]:
    """Cables by type and length class; equal ones of several link groups are one line."""
    lines: dict[str, BillItem] = {}
    for run in wiring.runs:
        line = _cable_line(run, wiring, cabling)
        before = lines.get(line.item)
        if before is not None:
            notes = (", ".join([*before.notes, *line.notes]),)
            line = replace(before, quantity=before.quantity + line.quantity, notes=notes)
        lines[line.item] = line
    kinds = [*CABLE_PARTS, *GLASS.values()]
    yield from sorted(lines.values(), key=lambda line: (kinds.index(line.kind), line.length_m))


CABLE_WORDS = {
    "dac": "passive copper",
    "acc": "amplified copper",
    "aec": "retimed copper",
    "aoc": "active optical, both plugs",
}


def _cable_line(run: CableRun, wiring: Wiring, cabling: CablingBook) -> BillItem:
    """Cables of a run: with fixed plugs one for all links that it carries.

    Of fibre between modules there are as many cables a link as these have connectors.
    """
    cable: PricedCable | FibreCable | None
    if run.medium == "fibre":
        items = (plug.item for plug in run.plugs)
        module = next(module for module in map(cabling.module, items) if module)
        cable = cabling.fibre_cable(module.fibre, module.connector)
        quantity, units = run.links * module.fibre_cables, 1
        name = FIBRE_NAMES[module.fibre]
        kind = f"{module.connector.partition('-')[0].lower()}-{module.fibre}"
        per_link = "one a link" if module.fibre_cables == 1 else f"{module.fibre_cables} a link"
        words = f"{cable.words if cable else module.connector}, {per_link}"
    else:
        cable = cabling.cable(run.cable)
        quantity = run.plugs_at(0, wiring.bank(run.ends[0]).devices)
        units = max(plug.links for plug in run.plugs)
        name, kind, words = run.cable, run.medium, CABLE_WORDS[run.medium]
    sold = sold_at(cable.sold, run.length_m) if cable else None
    # What links it is for, without the medium that the fabric planned for them.
    links = re.sub("^(ring .*) (copper|optical)$", r"\1", run.name)
    length = f"{run.length_m:g} m is the length class of {links} links, not measured"
    return BillItem(
        category="cables",
        item=f"{name}, {run.length_m:g} m",
        specification=f"{words}; {'length from the hall' if run.measured else length}",
        quantity=quantity,
        unit="each",
        part=CABLE_PARTS[run.medium],
        speed_gbps=run.plugs[0].speed_gbps,
        price_units=units,
        kinds=(kind,),
        kind=run.kind,
        length_m=sold.length_m if sold else run.length_m,
        notes=(f"{quantity:,} {links}",),
        part_number=sold.part_number if sold else cable.part_number if cable else "",
        accepted=(*(sold.accepted if sold else ()), *(cable.accepted if cable else ())),
    )


def _cards(fabric: Fabric, hardware: Hardware) -> Iterator[BillItem]:
    """Network cards by the whole port, which a card may split over planes."""
    sizing = fabric.sizing
    speed, split = sizing.card_gbps, sizing.port_split
    real = hardware.switch is not None and bool(fabric.tiers)
    card = hardware.cabling.card(speed) if real else None
    item = card.item if card else f"Network card port, {speed:.4g}G"
    per_gpu = fabric.cards // sizing.gpus
    parts = f", split into {split} x {sizing.speed_gbps:.4g}" if split > 1 else ""
    yield BillItem(
        category="cards",
        item=item,
        specification=f"1 port of {speed:.4g} Gb/s{parts}",
        quantity=fabric.cards,
        unit="port",
        part="nic_port",
        speed_gbps=speed,
        notes=(f"{per_gpu} a GPU",) if per_gpu > 1 else (),
        part_number=card.part_number if card else "",
        accepted=card.accepted if card else (),
    )


def _racks(racks: SwitchRacks, speed_gbps: float) -> BillItem:
    filled = f"two power strips, filled with switches of {racks.switch_units} U"
    placed = f"two power strips, at most {racks.each} switches each, as in the hall {racks.hall}"
    return BillItem(
        category="racks",
        item=f"Rack of {racks.units} units",
        specification=placed if racks.hall else filled,
        quantity=racks.count,
        unit="each",
        part="rack",
        speed_gbps=speed_gbps,
        notes=() if racks.hall else ("power and cooling may need more racks",),
    )


def _installation(lines: Sequence[BillItem], speed_gbps: float) -> BillItem:
    """The work of laying all cables; a bill has it where its book has a price for it."""
    return BillItem(
        category="installation",
        item="Installation of a cable",
        specification="laid, labelled and tested, with its share of trays and patch panels",
        quantity=sum(line.quantity for line in lines if line.category == "cables"),
        unit="each",
        part="installation",
        speed_gbps=speed_gbps,
    )


SPARED: tuple[Category, ...] = ("switches", "transceivers", "cables", "cards", "circuits")
"""Categories that spares are bought for."""


def parse_spares(texts: Sequence[str]) -> "dict[Category, Fraction]":
    """Read ``2%`` for all categories, or ``transceivers=3%`` for one; later texts win.

    Raises
    ------
    InputError
        If a text has another form or is not between 0 % and 100 %.
    UnknownNameError
        If a category is unknown.

    Examples
    --------
    >>> found = parse_spares(["2%", "transceivers=3%"])
    >>> found["cables"], found["transceivers"]
    (Fraction(1, 50), Fraction(3, 100))
    """
    shares: dict[Category, Fraction] = {}
    for text in texts:
        name, equals, amount = text.rpartition("=")
        share = _share(text, amount.strip())
        if not equals:
            shares = dict.fromkeys(SPARED, share)
            continue
        category = next((known for known in SPARED if known == name.strip()), None)
        if category is None:
            raise unknown_name("spares category", name.strip(), SPARED)
        shares[category] = share
    return shares


def _share(text: str, amount: str) -> "Fraction":
    """Exact share of a percentage, so that 7 % of 100 is 7 and not 8."""
    if not re.fullmatch(r"\d{1,3}(\.\d{1,6})?\s*%", amount):
        raise InputError(f"--spares {text!r}: write 2% for all parts, or transceivers=3% for some")
    from fractions import Fraction  # noqa: PLC0415 - seldom used

    share = Fraction(amount.rstrip("% ")) / PERCENT
    if share > 1:
        raise InputError(f"--spares {text!r} is out of range: give 0% to 100%")
    return share


def with_spares(
    lines: Sequence[BillItem], shares: "Mapping[Category, Fraction]"
) -> tuple[BillItem, ...]:
    """The lines with spares by their category: shares of the build [1], rounded up.

    Examples
    --------
    2 % of 32,768 is 655.36.

    >>> optics = BillItem("transceivers", "", "", 32_768, "each", "transceiver", 400.0)
    >>> with_spares([optics], parse_spares(["2%"]))[0].spares
    656
    """
    return tuple(
        replace(line, spares=ceil(line.quantity * shares.get(line.category, 0))) for line in lines
    )


SparesRule = Callable[[Sequence[BillItem]], tuple[BillItem, ...]]
"""Lines of a bill to the same with their spares."""


class Compute(Struct, frozen=True):
    """What of the compute is on the bill: accelerators, and the expanded memory of each."""

    accelerator: Accelerator | None = None
    memory: MemoryTechnology | None = None


NO_COMPUTE = Compute()


def compute_lines(compute: Compute, gpus: int, speed_gbps: float) -> Iterator[BillItem]:
    """Lines of the accelerators and of their expanded memory, for all GPUs bought.

    Parameters
    ----------
    compute
        What is counted.
    gpus
        GPUs bought [1].
    speed_gbps
        Link rate of the bill, which no price here depends on [Gb/s].

    Examples
    --------
    >>> from netplan.workloads.technologies import MEMORIES
    >>> (line,) = compute_lines(Compute(memory=MEMORIES.load("comet-480gb")), 1024, 400.0)
    >>> line.quantity, line.price_units, line.item
    (1024, 480, 'Expanded memory comet-480gb')
    """
    chip, memory = compute.accelerator, compute.memory
    if chip is not None:
        yield BillItem(
            category="accelerators",
            item=f"Accelerator {chip.name}",
            specification=f"{chip.title}; its share of the server, without network cards",
            quantity=gpus,
            unit="each",
            part="accelerator",
            speed_gbps=speed_gbps,
            model=chip.name,
            typical_w=chip.power_w,
        )
    if memory is not None and memory.memory_bytes is not None:
        yield BillItem(
            category="memory",
            item=f"Expanded memory {memory.name}",
            specification=f"{si(memory.memory_bytes, 'B')} at {si(memory.bytes_per_s, 'B/s')}",
            quantity=gpus,
            unit="GPU",
            part="memory",
            speed_gbps=speed_gbps,
            price_units=ceil(memory.memory_bytes / GIGA),
            model=memory.kind or memory.name,
            typical_w=memory.power_w,
        )
