"""The bill of one fabric: built, wired, listed, priced and run for its years."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from netplan.costing.cabling import CablingBook
from netplan.costing.circuits import circuit_layer
from netplan.costing.lifetime import EconomicsBook, Running, lifetime
from netplan.costing.materials import BillItem, bill_items
from netplan.costing.power import PowerBook
from netplan.costing.prices import PriceBook
from netplan.costing.pricing import PowerDraw, Quote, power_of, price_bill
from netplan.costing.spares import parse_spares, with_spares
from netplan.costing.switches import SwitchModel, check_switch
from netplan.costing.wiring import Hardware, Lengths, measured_links, placed, wire
from netplan.errors import InfeasibleError, InputError
from netplan.questions.cost_answer import FabricBill, Unbuildable
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.floor_plan import FloorPlan
from netplan.topologies.graph import network_only
from netplan.topologies.site_networks import SiteNetwork, build_site_network
from netplan.topologies.specs import FabricSpec


@dataclass(frozen=True, slots=True)
class BookShelf:
    """Catalog files of one answer."""

    prices: PriceBook
    power: PowerBook
    cabling: CablingBook
    economics: EconomicsBook
    switch: SwitchModel | None
    ocs: SwitchModel | None
    hall: FloorPlan | None
    networks: tuple[tuple[SiteNetwork, FabricSpec], ...]

    @property
    def models(self) -> tuple[SwitchModel, ...]:
        """Switch models that the question names."""
        return tuple(model for model in (self.switch, self.ocs) if model is not None)


@dataclass(frozen=True, slots=True)
class BillQuestion:
    """All that the bills of one answer share."""

    sizing: Sizing
    books: BookShelf
    spares: list[str]
    running: Running
    currency: str

    @property
    def running_inputs(self) -> dict[str, object]:
        """Years, PUE, tariff and interest as the answer's inputs show them."""
        running = self.running
        return {
            "years": running.years,
            "pue": running.pue.base,
            "tariff_per_kwh": running.tariff.base,
            "interest": running.interest.base,
            "running": {
                "pue": asdict(running.pue),
                "tariff_per_kwh": asdict(running.tariff),
                "interest": asdict(running.interest),
            },
        }


def fabric_bill(spec: FabricSpec, question: BillQuestion) -> FabricBill | Unbuildable:
    """The bill of one fabric, or why there is none."""
    books = question.books
    try:
        fabric = build_fabric(spec, question.sizing)
        if books.switch is not None and fabric.tiers:
            check_switch(books.switch, fabric.sizing.radix, fabric.sizing.speed_gbps, ())
        layer = None
        if books.ocs is not None and spec.family == "torus":
            layer = circuit_layer(spec, fabric, books.ocs)
        lengths = _measured(spec, question) if books.hall else None
        hardware = Hardware(books.cabling, books.switch, layer, lengths)
        wiring = wire(fabric, hardware)
        beside = list(_site_lines(question, fabric.switches))
    except (InputError, InfeasibleError) as error:
        return Unbuildable(spec.name, f"Cannot be built: {error}.")
    lines = (*bill_items(fabric, wiring, hardware), *beside)
    quote = price_bill(
        with_spares(lines, parse_spares(question.spares)), books.prices, question.currency
    )
    draw = power_of(lines, books.power, books.models)
    circuits = layer.notes if layer else ()
    return FabricBill(
        name=spec.name,
        title=spec.title,
        gpus=question.sizing.gpus,
        quote=quote,
        draw=draw,
        life=lifetime(quote.total, draw.typical_w, question.running),
        notes=(*fabric.notes, *wiring.notes, *circuits, *_notes(fabric, quote, draw, books)),
    )


def _measured(spec: FabricSpec, question: BillQuestion) -> Lengths | None:
    """Lengths of all cables on the floor plan, by link group."""
    hall = question.books.hall
    if hall is None:
        return None
    network = network_only(expand(spec, question.sizing))
    return measured_links(network, placed(hall, network).length_m)


def _site_lines(question: BillQuestion, switches: int) -> Iterator[BillItem]:
    """Lines of the networks beside the one that trains; each counts the switches before it."""
    for network, spec in question.books.networks:
        fabric = build_site_network(network, spec, question.sizing.gpus, switches)
        switches += fabric.switches
        hardware = Hardware(question.books.cabling)
        for line in bill_items(fabric, wire(fabric, hardware), hardware):
            if line.category != "cards" or network.cards:
                yield replace(line, network=network.name)


def _notes(fabric: Fabric, quote: Quote, draw: PowerDraw, books: BookShelf) -> list[str]:
    """What the lines do not show: assumptions, unknown power, modules by even spread."""
    notes = [f"{network.name}: {note}" for network, _ in books.networks for note in network.notes]
    if books.hall is not None:
        notes.append(f"Cable lengths from the floor plan {books.hall.name}.")
    if draw.unknown:
        parts = ", ".join(f"{line.quantity:,} {line.title}" for line in draw.unknown)
        notes.append(f"No power in {books.power.name} for {parts}.")
    if books.switch is not None and fabric.tiers and _twin(quote):
        notes.append("Twin-port modules: counted with cables spread evenly over the switches.")
    return notes


def _twin(quote: Quote) -> bool:
    modules = [item.line for item in quote.items if item.line.category == "transceivers"]
    return any(line.price_units > 1 for line in modules)
