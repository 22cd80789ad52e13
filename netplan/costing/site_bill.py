"""Lines of the networks beside the one that trains: sized together, wired, and racked.

The out-of-band network joins a port of every switch of the others, whose in-band one takes the
uplinks of its switches: both are sized until neither grows. Their switches fill racks of their own,
one network after the other.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import floor

from msgspec import Struct

from netplan.arrays import ceil_div
from netplan.costing.cabling import CablingBook
from netplan.costing.materials import BillItem, SiteBill, bill_items, switch_racks, switch_units
from netplan.costing.switches import SwitchModel
from netplan.costing.wiring import MANAGEMENT, SERVER, Hardware, wire
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.cabling.floor_plan import FloorPlan
from netplan.topologies.fabric import Fabric
from netplan.topologies.site_networks import SiteNetwork, build_site_network
from netplan.topologies.specs import FabricSpec

ROUNDS = 20
"""Sizings of all networks until none grows; they are two or three."""


class SiteBooks(Struct, frozen=True):
    """What networks beside are made from.

    Parameters
    ----------
    networks
        The networks, with their fabrics and the models of their switches, if any.
    cabling
        Modules, cables and racks.
    hall
        Hall that they stand in, if there is one.
    """

    networks: tuple[tuple[SiteNetwork, FabricSpec, SwitchModel | None], ...]
    cabling: CablingBook
    hall: FloorPlan | None = None


def fitting(network: SiteNetwork, model: SwitchModel | None) -> SwitchModel | None:
    """The model that a network names, if that has as many ports at the rate; else none.

    Examples
    --------
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.site_networks import SITE_NETWORKS
    >>> storage, model = SITE_NETWORKS.load("storage"), SWITCHES.load("qm9700")
    >>> fitting(storage, model).name, fitting(storage.changed(link_gbps=200.0), model)
    ('qm9700', None)
    """
    fits = model is not None and model.radix(network.link_gbps) == network.radix
    return model if fits else None


def site_bill(books: SiteBooks, fabric: Fabric) -> SiteBill:
    """Networks beside a fabric, sized, wired and racked.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.site_networks import SITE_NETWORKS
    >>> from netplan.topologies.specs import FABRICS
    >>> storage, spec = SITE_NETWORKS.load("storage"), FABRICS.load("fat-tree")
    >>> books = SiteBooks(((storage, spec, None),), CABLING_BOOKS.load("2026"))
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=4096, radix=64)
    >>> found = site_bill(books, build_fabric(spec, scenario.sizing))
    >>> found.lines[0].quantity, found.lines[0].notes, found.racks
    (60, ('40 leaf, 20 spine', '0 ports free'), 5)
    """
    fabrics = sized_networks(books, fabric)
    lines: list[BillItem] = []
    notes: list[str] = []
    free, racks = Fraction(0), 0
    for network, _, model in books.networks:
        site_fabric = fabrics[network.name]
        hardware = Hardware(books.cabling, model)
        per_rack = switch_racks(site_fabric, hardware).each
        if books.hall is not None:
            per_rack = books.hall.switches_in_rack(switch_units(hardware))
        left = max(0, site_fabric.switches - floor(free * per_rack))
        opened = ceil_div(left, per_rack)
        free = (
            opened - Fraction(left, per_rack)
            if opened
            else free - Fraction(site_fabric.switches, per_rack)
        )
        racks += opened
        for line in _lines(site_fabric, hardware):
            racked = line.category == "racks"  # as many as the network opens
            count, notes_of = (opened, ()) if racked else (line.quantity, line.notes)
            if count and (line.category != "cards" or network.cards):
                lines.append(replace(line, network=network.name, quantity=count, notes=notes_of))
        notes += [f"{network.name}: {note}" for note in site_fabric.notes]
        power = model.power_note if model is not None else ""
        notes += [f"{network.name}: {power}"] if power else []
    notes += _loose_uplinks(books, fabrics)
    return SiteBill(tuple(lines), racks, tuple(notes))


def sized_networks(books: SiteBooks, fabric: Fabric) -> dict[str, Fabric]:
    """Every network with the switches, and the uplinks, of all others; by name."""
    gpus = fabric.sizing.gpus
    fabrics: dict[str, Fabric] = {}
    for _ in range(ROUNDS):
        before = {name: sized.switches for name, sized in fabrics.items()}
        for network, spec, _ in books.networks:
            others = sum(sized.switches for name, sized in fabrics.items() if name != network.name)
            uplinks = sum(
                fabrics[sized.name].switches * sized.uplinks_per_switch
                for sized, _, _ in books.networks
                if sized.uplinks_to == network.name and sized.name in fabrics
            )
            fabrics[network.name] = build_site_network(
                network, spec, gpus, fabric.switches + others, uplinks
            )
        if before == {name: sized.switches for name, sized in fabrics.items()}:
            break
    return fabrics


def require_room(books: SiteBooks, fabric: Fabric, racks: int) -> None:
    """Refuse a hall that has too few places for so many racks of switches, and those of GPUs.

    Raises
    ------
    InputError
        If it has; the message says how many are needed.
    """
    hall = books.hall
    if hall is None or hall.rows is None or hall.racks_per_row is None:
        return
    gpus_per_rack = hall.racked(fabric.sizing.hb_size).gpus
    held, compute = hall.rows * hall.racks_per_row, ceil_div(fabric.sizing.gpus, gpus_per_rack)
    if compute + racks > held:
        raise InputError(
            f"floor plan {hall.name} holds {held:,} racks, {compute:,} for GPUs and {racks:,} for"
            " switches, those of networks beside among them, are needed: add rows, or put more"
            " into a rack"
        )


def _lines(fabric: Fabric, hardware: Hardware) -> Iterator[BillItem]:
    """Lines of one network, whose far ends are switches that are managed, not servers."""
    for line in bill_items(fabric, wire(fabric, hardware), hardware):
        notes = (
            note.replace(SERVER, "out-of-band switch").replace(f"{MANAGEMENT}host", "uplink")
            for note in line.notes
        )
        yield replace(line, notes=tuple(notes))


def _loose_uplinks(books: SiteBooks, fabrics: dict[str, Fabric]) -> Iterator[str]:
    """What of the uplinks is on no line, since the network that they end on is not on the bill."""
    for network, _, _ in books.networks:
        if network.uplinks_per_switch and network.uplinks_to not in fabrics:
            uplinks = network.uplinks_per_switch
            yield (
                f"{network.name}: {uplinks} uplinks of {network.uplink_gbps:g} Gb/s a switch,"
                f" {uplinks * fabrics[network.name].switches:,} in all, end on the network"
                f" {network.uplinks_to}: their modules, fibre and ports are on the bill with"
                f" --with {network.uplinks_to}."
            )
