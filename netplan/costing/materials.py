"""The bill of materials: one line a part, with the quantity to order.

Switches come whole, modules by cage, cables by type and length class. A line also says in which
units its part is priced: a switch of 64 ports in 64 ports, a twin-port module in 2 link ends.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from netplan.costing.ports import Run, plugs_needed
from netplan.costing.prices import Part
from netplan.costing.wiring import BARE_FIBRE, Hardware, Wiring
from netplan.topologies.clos import ceil_div
from netplan.topologies.fabric import Fabric

Category = Literal["switches", "transceivers", "cables", "cards", "circuits", "hb-gear", "racks"]
SITE_NETWORKS_LEFT_OUT = {
    "storage": "storage network",
    "management": "in-band management network",
    "out-of-band": "out-of-band management network",
}
"""Networks beside the one that trains, by catalog name: off the bill unless asked for."""

ALWAYS_LEFT_OUT = (
    "servers, accelerators and their racks",
    "patch panels, trays and installation",
    "licences, support, freight and taxes",
)


def left_out(networks: Collection[str] = ()) -> tuple[str, ...]:
    """What the bill does not hold.

    Parameters
    ----------
    networks
        Site networks on the bill, by name.

    Examples
    --------
    >>> left_out(("storage", "management"))[0]
    'out-of-band management network'
    """
    absent = [text for name, text in SITE_NETWORKS_LEFT_OUT.items() if name not in networks]
    return (*absent, *ALWAYS_LEFT_OUT)


@dataclass(frozen=True, slots=True)
class BillItem:
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

    @property
    def title(self) -> str:
        """What to order, with the site network that it is for."""
        return f"{self.network} network: {self.item}" if self.network else self.item

    @property
    def order(self) -> int:
        """Units to order, spares included [1]."""
        return self.quantity + self.spares


def bill_items(fabric: Fabric, wiring: Wiring, hardware: Hardware) -> tuple[BillItem, ...]:
    """All lines of a fabric's bill, without spares.

    Examples
    --------
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.costing.wiring import wire
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(1024, 64, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
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
        *_transceivers(wiring),
        *_cables(wiring),
        *_cards(fabric, hardware),
        *_hb_gear(fabric),
        *_racks(fabric, hardware),
    ]
    return tuple(line for line in lines if line.quantity)


def _switches(fabric: Fabric, hardware: Hardware) -> Iterator[BillItem]:
    sizing, model = fabric.sizing, hardware.switch
    where = ", ".join(f"{tier.switches:,} {tier.name}" for tier in fabric.tiers)
    ports = f"{sizing.radix} ports of {sizing.speed_gbps:g} Gb/s"
    yield BillItem(
        category="switches",
        item=f"Switch {model.name}" if model else f"Switch of {sizing.radix} ports",
        specification=f"{model.title}; {model.cages} cages {model.form}" if model else ports,
        quantity=fabric.switches,
        unit="each",
        part="switch_port",
        speed_gbps=sizing.speed_gbps,
        price_units=sizing.radix,
        model=model.name if model else "",
        notes=(where, f"{fabric.spare_ports:,} ports free") if where else (),
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


def _transceivers(wiring: Wiring) -> Iterator[BillItem]:
    """Modules by type; equal modules of a device share cages across its link groups."""
    ends: dict[tuple[str, str], int] = {}
    plugs = {}
    for run in wiring.runs:
        for bank, plug in zip(run.ends, run.plugs, strict=True):
            if run.medium == "fibre" and plug.item != BARE_FIBRE:
                plugs[plug.item] = plug
                ends[plug.item, bank] = ends.get((plug.item, bank), 0) + run.links
    for item, plug in plugs.items():
        where = {
            bank: plugs_needed(count, wiring.bank(bank).devices, plug.links)
            for (name, bank), count in ends.items()
            if name == item
        }
        twin = f"{plug.links} links of" if plug.links > 1 else "1 link of"
        yield BillItem(
            category="transceivers",
            item=item if plug.form != "any" else f"{item}, {plug.speed_gbps:g}G",
            specification=f"{_form(plug.form)}, {twin} {plug.speed_gbps:g} Gb/s, {plug.fibre}",
            quantity=sum(where.values()),
            unit="each",
            part="transceiver",
            speed_gbps=plug.speed_gbps,
            price_units=plug.links,
            notes=(", ".join(f"{count:,} {bank}" for bank, count in where.items()),),
        )


def _form(form: str) -> str:
    return "form as the switch and card ask" if form == "any" else form


CABLE_PARTS: dict[str, Part] = {
    "dac": "copper_cable",
    "aec": "active_copper_cable",
    "aoc": "optical_cable",
    "fibre": "fibre",
}
FIBRE_NAMES = {"multimode": "Multimode fibre cable", "singlemode": "Single-mode fibre cable"}


def _cables(wiring: Wiring) -> Iterator[BillItem]:
    """Cables by type and length class; equal ones of several link groups are one line."""
    lines: dict[tuple[str, float], BillItem] = {}
    for run in wiring.runs:
        fibre = run.medium == "fibre"
        name = FIBRE_NAMES[run.plugs[0].fibre or "multimode"] if fibre else run.cable
        quantity, links = _cable_count(run, wiring), max(plug.links for plug in run.plugs)
        line = BillItem(
            category="cables",
            item=f"{name}, {run.length_m:g} m",
            specification=_cable_words(run),
            quantity=quantity,
            unit="each",
            part=CABLE_PARTS[run.medium],
            speed_gbps=run.plugs[0].speed_gbps,
            price_units=1 if fibre else links,
            notes=(f"{quantity:,} {run.name}",),
        )
        key = (name, run.length_m)
        if key in lines:
            before = lines[key]
            line = replace(
                before,
                quantity=before.quantity + quantity,
                notes=(", ".join([*before.notes, *line.notes]),),
            )
        lines[key] = line
    yield from lines.values()


def _cable_count(run: Run, wiring: Wiring) -> int:
    """Cables of a run: one a link of fibre; one for all links of a cable with fixed plugs."""
    if run.medium == "fibre":
        return run.links
    return plugs_needed(run.links, wiring.bank(run.ends[0]).devices, run.plugs[0].links)


def _cable_words(run: Run) -> str:
    words = {"fibre": "MPO, one a link", "dac": "passive copper", "aec": "active copper"}
    text = words.get(run.medium, "active optical, both plugs")
    if run.measured:
        return f"{text}; length from the floor plan"
    return f"{text}; {run.length_m:g} m is the length class of {run.name} links, not measured"


def _cards(fabric: Fabric, hardware: Hardware) -> Iterator[BillItem]:
    speed = fabric.sizing.speed_gbps
    real = hardware.switch is not None and bool(fabric.tiers)
    item = hardware.cabling.card(speed).item if real else f"Network card port, {speed:g}G"
    each = fabric.nic_ports // fabric.sizing.gpus
    yield BillItem(
        category="cards",
        item=item,
        specification=f"1 port of {speed:g} Gb/s",
        quantity=fabric.nic_ports,
        unit="port",
        part="nic_port",
        speed_gbps=speed,
        notes=(f"{each} a GPU",) if each > 1 else (),
    )


def _hb_gear(fabric: Fabric) -> Iterator[BillItem]:
    sizing = fabric.sizing
    if sizing.hb_size == 1:
        return
    yield BillItem(
        category="hb-gear",
        item=f"Gear inside HB domains of {sizing.hb_size:,} GPUs",
        specification="switches, cables and boards of the high-bandwidth domain",
        quantity=sizing.gpus,
        unit="GPU",
        part="hb_gear",
        speed_gbps=sizing.speed_gbps,
        notes=(f"{sizing.domains:,} domains; usually part of the servers",),
    )


def _racks(fabric: Fabric, hardware: Hardware) -> Iterator[BillItem]:
    racks, model = hardware.cabling.racks, hardware.switch
    units = racks.switch_units
    if model is not None and model.rack_units is not None:
        units = model.rack_units
    needed = ceil_div(fabric.switches, racks.units // units)
    yield BillItem(
        category="racks",
        item=f"Rack of {racks.units} units",
        specification=f"filled with switches of {units} U",
        quantity=needed,
        unit="each",
        part="rack",
        speed_gbps=fabric.sizing.speed_gbps,
        notes=("power and cooling may need more racks",),
    )
