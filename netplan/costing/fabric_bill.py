"""The bill of one fabric: wired, listed and priced. All money of netplan comes from here.

It is the bill of the network. Accelerators and their expanded memory are lines of it where a
question counts them (:class:`~netplan.costing.materials.Compute`).

Every question about money asks for this bill: a comparison, an order, an optimization, a report, a
study, the hardware of a recovery. So equal inputs cost the same to the cent, whoever asks.

Gear inside HB domains has lines and a sum of its own (:mod:`~netplan.costing.hb_gear`). It is in
the price of the network only where somebody asks for it, and then in that of every fabric.

A network that lies in several sites has a fabric in each, and what joins them
(:mod:`~netplan.costing.long_haul`); its lines are one order.

Some lines may lack a price, or a power, and still leave fabrics comparable: networks beside, the
first network card of each GPU, which are the same on every fabric, and what the book's source
leaves out. What else lacks one *sets the fabric apart*: its sum is a lower bound ("at least"), and
nothing is proven by it. So it is with HB domains larger than those asked for, which a fabric
brings: their gear must be counted before money speaks for it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, get_args

from msgspec import Struct
from msgspec.structs import astuple

from netplan.arrays import ceil_div
from netplan.costing import materials, pricing
from netplan.costing.cabling import CablingBook
from netplan.costing.hb_gear import DomainGear, GearChoice, domain_gear, domains_of
from netplan.costing.long_haul import LongHaul, long_haul
from netplan.costing.prices import Part, PowerBook, PriceBook
from netplan.costing.ranges import NOTHING, Amount, Range
from netplan.costing.switches import (
    SWITCHES,
    CircuitLayer,
    SwitchModel,
    check_switch,
    circuit_layer,
    rail_layer,
)
from netplan.costing.wiring import MANAGEMENT, CableRun, Hardware, Wiring, wire
from netplan.errors import InfeasibleError, InputError
from netplan.inputs.choices import AS_PUBLISHED, End
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, side_by_side
from netplan.topologies.graph import UNCABLED, Medium
from netplan.topologies.rail_circuits import CircuitPlan
from netplan.topologies.specs import FabricSpec
from netplan.units import MEGA

if TYPE_CHECKING:
    import pandas as pd

    from netplan.costing.lifetime import Lifetime
    from netplan.costing.long_haul import HaulBooks
    from netplan.topologies.cabling.floor_plan import FloorPlan
    from netplan.topologies.site_networks import SiteNetwork


LINE_FACTS = (
    *("item", "network", "category", "specification", "part_number"),
    *("quantity", "spares", "order", "unit"),
)
"""What a bill as a table says of every line beside its prices."""


class BillBooks(Struct, frozen=True):
    """Catalog files that a bill is made from.

    Parameters
    ----------
    prices, power, cabling
        Prices, power, and the parts that there are.
    switch, ocs
        Models of switches and of optical circuit switches, if any are named.
    hall
        Hall that measures every cable, and so says its medium; None where designs keep the media
        of their source, and lengths by kind of link.
    networks
        Networks beside the one that trains, with their fabrics.
    site_switches
        Switch models that networks beside name.
    compute
        Accelerators and expanded memory that the bill counts, too.
    cards
        Whether network cards are bought with the network; else they come inside the servers.
    gear
        What HB domains are joined by, and whether that counts with the network.
    rail_circuits
        What is on circuit switches between GPUs and rails, of the model ``ocs``; None for those
        that the fabric's file names.
    haul
        What joins the sites that the network lies in; None of one site.
    """

    prices: PriceBook
    power: PowerBook
    cabling: CablingBook
    switch: SwitchModel | None = None
    ocs: SwitchModel | None = None
    hall: "FloorPlan | None" = None
    networks: "tuple[tuple[SiteNetwork, FabricSpec], ...]" = ()
    site_switches: tuple[SwitchModel, ...] = ()
    compute: materials.Compute = materials.NO_COMPUTE
    cards: bool = True
    gear: GearChoice | None = None
    rail_circuits: CircuitPlan | None = None
    haul: "HaulBooks | None" = None

    @property
    def gear_counted(self) -> bool:
        """Whether the gear inside HB domains counts with the network."""
        return self.gear is not None and self.gear.counted

    def with_gear(self, *, counted: bool) -> "BillBooks":
        """The same with that gear counted, or apart."""
        return (
            self if self.gear is None else replace(self, gear=replace(self.gear, counted=counted))
        )

    @property
    def models(self) -> tuple[SwitchModel, ...]:
        """Switch models that are named."""
        named = (self.switch, self.ocs, *self.site_switches)
        return tuple(model for model in named if model is not None)


class Bill(Struct, frozen=True):
    """The bill of one fabric that closes, priced.

    Parameters
    ----------
    fabric
        The sized fabric.
    quote, draw
        Price and power, line by line.
    racks
        Racks of its switches.
    notes
        What the lines do not show.
    site_racks
        Racks of the switches of networks beside [1].
    hb_size
        GPUs of the HB domains that were asked for; larger ones set it apart [1].
    inside
        Gear inside its HB domains, in the price of the network only if ``gear_counted``.
    hall
        Name of the hall that media follow from, or ``as-published``.
    media_given
        What the fabric's file says of media that no hall confirms, in words; empty without.
    haul
        What joins the sites of the network, whose lines are on the quote; None of one site.
    """

    fabric: Fabric
    quote: pricing.Quote
    draw: pricing.PowerDraw
    racks: materials.SwitchRacks
    notes: tuple[str, ...]
    site_racks: int
    hb_size: int
    inside: DomainGear
    hall: str
    media_given: str
    haul: LongHaul | None = None

    @property
    def name(self) -> str:
        """Name of the fabric."""
        return self.fabric.name

    @property
    def title(self) -> str:
        """What the fabric is."""
        return self.fabric.title

    @property
    def gpus(self) -> int:
        """GPUs that it joins [1]."""
        return self.fabric.sizing.gpus

    @property
    def capital(self) -> Range:
        """Price of all that is on the bill: the sum over the lines that have one."""
        return self.quote.total

    @property
    def total(self) -> Range:
        """Price of all that is on the bill: the capital, where years of use stand beside it."""
        return self.capital

    @property
    def cost(self) -> Range | None:
        """Price of all that is on the bill; None where nothing that sets it apart has one.

        GPUs that all lie in one HB domain need no network: its price is 0.
        """
        return self.quote.total if self.priced or not self.unpriced_apart else None

    @property
    def amount(self) -> Amount | None:
        """The same with its currency."""
        return self.cost.in_currency(self.quote.currency) if self.cost else None

    def cost_of(self, *categories: materials.Category) -> Range:
        """Price of the lines of some categories, those that have one.

        Parameters
        ----------
        categories
            Such as ``switches`` or ``transceivers``.

        Returns
        -------
        Range
            Low, base and high, in the currency of the bill.
        """
        lines = (item.total for item in self.quote.items if item.line.category in categories)
        return sum(lines, start=NOTHING)

    @property
    def installed(self) -> bool:
        """Whether the laying of cables is on it."""
        return any(item.line.part == "installation" for item in self.quote.items)

    @property
    def memory(self) -> Range:
        """Price of the expanded memory on the bill."""
        return self.cost_of("memory")

    @property
    def networks(self) -> Range:
        """Price of the networks alone, in all sites: no gear, no memory, nothing between sites."""
        apart = ("hb-gear", "memory", "accelerators", "long-haul")
        items = (item for item in self.quote.items if item.line.category not in apart)
        return sum((item.total for item in items), start=NOTHING)

    @property
    def priced(self) -> bool:
        """Whether any line has a price that sets fabrics apart."""
        items = (item for item in self.quote.items if item.price is not None)
        return any(
            item.line.part not in MINOR and item.line.category != "long-haul" for item in items
        )

    @property
    def per_gpu(self) -> Range:
        """Price of all that is on the bill for one GPU."""
        return (1 / self.gpus) * self.quote.total

    @property
    def power_w(self) -> float | None:
        """Typical power; None where that of no line is known [W]."""
        return self.draw.typical_w if self.draw.known else None

    def ordered(self, *parts: Part) -> int:
        """Units on order of some parts.

        Parameters
        ----------
        parts
            Such as ``transceiver`` or ``copper_cable``.

        Returns
        -------
        int
            Modules by the cage, cables by the piece, spares included [1].
        """
        return sum(item.line.order for item in self.quote.items if item.line.part in parts)

    @property
    def drivers(self) -> tuple[pricing.Driver, ...]:
        """Parts that move the price, the largest swing first."""
        return pricing.drivers(self.quote)

    @property
    def unpriced_apart(self) -> tuple[materials.BillItem, ...]:
        """Lines without a price, or in no sum, that set the fabric apart."""
        left = (item.line for item in self.inside.quote.items if self.gear_left)
        return (*self._apart(self.quote.unpriced), *left)

    @property
    def rank(self) -> tuple[bool, bool, float, str]:
        """What bills are ranked by: ones that a verdict may name, with a whole price, first."""
        aside, lacking = bool(self.media_given), bool(self.unpriced_apart)
        return aside, lacking, self.capital.base, self.name

    @property
    def complete(self) -> bool:
        """Whether something has a price, and all that sets the fabric apart."""
        return self.cost is not None and not self.unpriced_apart

    @property
    def geared(self) -> bool:
        """Whether the gear inside HB domains has a price, or comes inside the servers."""
        return self.inside.known

    @property
    def gear(self) -> float:
        """Base price of the gear inside HB domains, of what has one, counted or not."""
        return self.inside.quote.total.base

    @property
    def gear_counted(self) -> bool:
        """Whether that is in the price of the network, as somebody asked for."""
        return any(item.line.part == "hb_gear" for item in self.quote.items)

    @property
    def gear_left(self) -> bool:
        """Whether it brings larger HB domains than asked for, whose gear is in no sum."""
        largest = max(size for size, _ in domains_of(self.fabric))
        return largest > self.hb_size and self.inside.bought and not self.gear_counted

    @property
    def unpowered_apart(self) -> tuple[materials.BillItem, ...]:
        """Lines of unknown power that set the fabric apart."""
        return self._apart(self.draw.unknown)

    @property
    def power_complete(self) -> bool:
        """Whether the power of all that sets the fabric apart is known."""
        return self.draw.known and not self.unpowered_apart

    def _apart(self, lines: tuple[materials.BillItem, ...]) -> tuple[materials.BillItem, ...]:
        return tuple(
            line
            for line in lines
            if not line.network
            and line.part not in self.quote.leaves_out
            and (line.part != "nic_port" or line.quantity > self.gpus)
        )

    def to_frame(self) -> "pd.DataFrame":
        """The bill line by line.

        Returns
        -------
        pandas.DataFrame
            A row a line, shape (lines, 15), by ``item``: quantity, spares and order [1], and from
            low to high the price of a unit and of the line [currency], none without one.

        Examples
        --------
        >>> from netplan import Scenario
        >>> bill = Scenario.load("hgx-b200").fabric("rail-only").bill()
        >>> bill.to_frame().groupby("category")["total_base"].sum().round().to_dict()["switches"]
        65280000.0
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        lines = [_line_facts(item) for item in self.quote.items]
        amounts = [f"{name}_{end}" for name in ("unit_price", "total") for end in get_args(End)]
        columns = (*LINE_FACTS, *amounts, "price_date", "price_trust")
        return pd.DataFrame(lines, columns=None if lines else columns).set_index("item")

    def __repr__(self) -> str:
        """In a line: its price from low to high, and its lines."""
        low, base, high = (amount / MEGA for amount in astuple(self.total))
        at_least = "" if self.complete else "at least "
        return (
            f"<Bill of {self.name}: {at_least}{base:,.1f} M {self.quote.currency}"
            f" ({low:,.1f} to {high:,.1f}), {len(self.quote.items)} lines>"
        )

    def _repr_html_(self) -> str:
        """Its lines as a table, for notebooks."""
        return self.to_frame().to_html()


def _line_facts(item: pricing.PricedItem) -> dict[str, object]:
    """A line with its prices, by name."""
    line, price = item.line, item.price
    amounts = {"unit_price": item.unit_price, "total": item.total} if price else {}
    ends = {
        f"{name}_{end}": amounts[name].at_end(end) if price else None
        for name in ("unit_price", "total")
        for end in get_args(End)
    }
    facts = {name: getattr(line, name) for name in LINE_FACTS}
    return facts | ends | {"price_date": price.date if price else None, "price_trust": item.trust}


LARGEST_HALL, SAMPLED = 1_048_576, 65_536
"""GPUs of one hall at the most, and of that which tells the media of several [1]."""
MINOR = frozenset({"fibre", "rack", "installation"})
"""Parts that are no network by themselves, whatever they cost."""


class FabricBill(Bill, frozen=True, kw_only=True):
    """A bill with what the network costs in its years of use."""

    life: "Lifetime"


class RefusedFabric(Struct, frozen=True):
    """A fabric that is not in an answer, and why not."""

    json_parts = "fabric=name", "reason"

    name: str
    reason: str


class _Materials(Struct, frozen=True):
    """What a fabric is built from: the lines of its bill without spares, its racks, and notes."""

    lines: tuple[materials.BillItem, ...]
    racks: materials.SwitchRacks
    notes: tuple[str, ...]
    wiring: Wiring
    hall: str = AS_PUBLISHED
    media_given: str = ""
    fabric: Fabric | None = None  # with the links in copper, where a hall says it

    def confirms(self, named: Mapping[str, str]) -> bool:
        """Whether all links of a role have the medium that a file names."""
        groups = self.fabric.links if self.fabric is not None else ()
        return all(
            group.media == medium
            for role, medium in named.items()
            for group in groups
            if group.role == role
        )


def hardware_of(books: BillBooks, sizing: Sizing, circuits: CircuitLayer | None = None) -> Hardware:
    """What a fabric is built from, with the power of its switches as far as that is known.

    Parameters
    ----------
    books, sizing
        Catalog files, and ports of its switches.
    circuits
        Circuit switches of a torus.

    Examples
    --------
    940 W of a box with 128 ports, and 8 W at each of them.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
    >>> books = BillBooks(PRICE_BOOKS.load("2026"), POWER_BOOKS.load("2026"),
    ...                   CABLING_BOOKS.load("2026"))
    >>> hardware_of(books, Scenario.load("hgx-b200").sizing).switch_w
    1964.0
    """
    model, speed, ports = books.switch, sizing.card_gbps, sizing.radix // sizing.port_split
    port = books.power.draw("switch_port", speed)
    module = books.power.draw("transceiver", speed)
    box_w = model.typical_w if model is not None else None
    if box_w is None:
        box_w = ports * port.typical_w if port is not None else 0.0
    inside = model is not None and model.form == "co-packaged"
    optics_w = ports * module.typical_w if module is not None and not inside else 0.0
    return Hardware(books.cabling, model, circuits, box_w + optics_w if box_w else 0.0)


def make_bill(
    spec: FabricSpec,
    sizing: Sizing,
    books: BillBooks,
    *,
    fabric: Fabric | None = None,
    spares: materials.SparesRule | None = None,
    currency: str = "",
) -> Bill:
    """The bill of a fabric.

    Parameters
    ----------
    spec, sizing
        The fabric, and what is asked of it.
    books
        Catalog files.
    fabric
        Its sized form, if that is at hand.
    spares
        What puts spares on the lines.
    currency
        Currency of the bill; the price book's own if empty.

    Raises
    ------
    InputError
        If the fabric cannot be built, the switch model has other ports than its switches, or the
        hall is too small.
    InfeasibleError
        If the ports do not close.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.prices import POWER_BOOKS
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.topologies.specs import FABRICS
    >>> books = BillBooks(PRICE_BOOKS.load("rail-only-2023"), POWER_BOOKS.load("2026"),
    ...                   CABLING_BOOKS.load("2026"))
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32_768, radix=128, hb_size=256)
    >>> spec, sizing = FABRICS.load("rail-only"), scenario.sizing
    >>> make_bill(spec, sizing, books).capital.base
    49020928.0
    """
    fabric = build_fabric(spec, sizing) if fabric is None else fabric
    made, site, haul = _built(spec, sizing, fabric, books, currency)
    compute = materials.compute_lines(books.compute, fabric.sizing.gpus, fabric.sizing.speed_gbps)
    lines = (*made.lines, *site.lines, *compute)
    if books.prices.price("installation") is None:
        lines = tuple(line for line in lines if line.part != "installation")
    if not books.cards:
        lines = tuple(line for line in lines if line.category != "cards")
    inside = domain_gear(fabric, books.gear, books.prices, currency)
    if books.gear_counted:
        lines = (*lines, *(item.line for item in inside.quote.items))
    ordered = spares(lines) if spares else lines
    quote = pricing.price_bill(ordered, books.prices, currency)
    if haul is not None:
        items, total = (*quote.items, *haul.quote.items), quote.total + haul.quote.total
        quote = replace(quote, items=items, total=total)
        lines = (*lines, *(item.line for item in haul.quote.items))
    draw = pricing.power_of(lines, books.power, books.models)
    models = (books.switch, books.ocs)
    power = (f"{model.name}: {model.power_note}" for model in models if model and model.power_note)
    notes = (*made.notes, *power, *site.notes, *pricing.extrapolations(quote))
    built = made.fabric or fabric
    return Bill(
        *(built, quote, draw, made.racks, notes, site.racks, sizing.hb_size, inside),
        *(made.hall, made.media_given, haul),
    )


def _built(
    spec: FabricSpec, sizing: Sizing, fabric: Fabric, books: BillBooks, currency: str
) -> "tuple[_Materials, materials.SiteBill, LongHaul | None]":
    """What a fabric is built from, networks beside, and in several sites what joins these."""
    if books.haul is None:
        made = _materials(spec, sizing, fabric, books)
        return made, _site(books, fabric, made.racks.count), None

    sites = books.haul.deal(sizing)
    alike: dict[int, tuple[Fabric, _Materials, materials.SiteBill]] = {}
    for gpus in {site.gpus: None for site in sites.sites}:
        sized = replace(sizing, gpus=gpus, hb_size=min(sizing.hb_size, gpus))
        part = build_fabric(spec, sized)
        made = _materials(spec, sized, part, books)
        alike[gpus] = part, made, _site(books, part, made.racks.count)
    parts = [(site.name, *alike[site.gpus]) for site in sites.sites]
    counts = side_by_side(fabric, [made.fabric or part for _, part, made, _ in parts])
    first = parts[0][2]
    whole = replace(
        first,
        lines=materials.in_sites([(name, made.lines) for name, _, made, _ in parts]),
        racks=replace(
            first.racks,
            devices=sum(made.racks.devices for _, _, made, _ in parts),
            racks=sum(made.racks.count for _, _, made, _ in parts),
        ),
        notes=tuple(dict.fromkeys(note for _, _, made, _ in parts for note in made.notes)),
        fabric=counts,
    )
    networks = materials.SiteBill(
        materials.in_sites([(name, site.lines) for name, _, _, site in parts]),
        sum(site.racks for *_, site in parts),
        tuple(dict.fromkeys(note for *_, site in parts for note in site.notes)),
    )
    haul = long_haul(sites.pairs, books.haul.book, books.prices, books.haul.years, currency)
    return whole, networks, haul


def _site(books: BillBooks, fabric: Fabric, racks: int) -> materials.SiteBill:
    """Networks beside, if any are asked for, in a hall that has room for their racks."""
    if not books.networks:
        return materials.SiteBill()
    from netplan.costing.site_bill import SiteBooks, fitting, require_room, site_bill  # noqa: PLC0415 - seldom used

    models = {model.name: model for model in books.site_switches}
    designs = tuple(
        (network, spec, fitting(network, models.get(network.switch or "")))
        for network, spec in books.networks
    )
    site = SiteBooks(designs, books.cabling, books.hall)
    site_lines = site_bill(site, fabric)
    require_room(site, fabric, racks + site_lines.racks)
    return site_lines


def wiring_of(spec: FabricSpec, sizing: Sizing, fabric: Fabric, books: BillBooks) -> Wiring:
    """Plugs and cables of a fabric as its bill has them; as of :func:`make_bill`."""
    return _materials(spec, sizing, fabric, books).wiring


def _materials(spec: FabricSpec, sizing: Sizing, fabric: Fabric, books: BillBooks) -> _Materials:
    """Lines of the fabric itself, in its hall or as it was published."""
    if books.switch is not None and fabric.tiers:
        check_switch(books.switch, fabric.sizing.radix, fabric.sizing.speed_gbps, ())
    layer = _circuit_layer(spec, fabric, books)
    hall, hardware = books.hall, hardware_of(books, fabric.sizing, layer)
    placeless = layer is not None and layer.plan is None and layer.switches > 0
    if hall is not None and placeless and not hall.by_rule:
        raise InputError(f"--hall {hall.name} has no place for the circuit switches of {spec.name}")
    named = spec.media_named
    if hall is not None and not placeless and spec.hall is None:
        several = hall.by_rule and fabric.sizing.gpus > LARGEST_HALL
        if sizing.cage_cards > 1:
            raise InfeasibleError(
                f"accelerator.cage_cards = {sizing.cage_cards}: a hall chooses the cable of every"
                " card by itself: add --hall as-published, or leave cage_cards out"
            )
        made = _several_halls if several else _measured
        measured = made(spec, sizing, hardware, hall)
        if measured.confirms(named):
            return measured
    counted = _counted(fabric, hardware)
    if hall is not None and placeless:
        lacking = f"The hall {hall.name} has no place for circuit switches: media as published,"
        notes = (*counted.notes, f"{lacking} lengths by kind of link.")
        counted = replace(counted, notes=notes)
    if not named or (hall is None and spec.hall == AS_PUBLISHED):
        return counted
    given = " and ".join(f"{role} links {medium}" for role, medium in named.items())
    other = f"{hall.name} would have other media" if hall is not None else "there is no hall"
    note = (
        f"Medium given by the file: {given}; {other}. Out of the verdict until a hall confirms it:"
        " --hall NAME."
    )
    return replace(counted, notes=(note, *counted.notes), media_given=given)


def _circuit_layer(spec: FabricSpec, fabric: Fabric, books: BillBooks) -> CircuitLayer | None:
    """Circuit switches that the books ask for, or that the fabric's file names."""
    if books.rail_circuits is not None and books.ocs is not None:
        return rail_layer(fabric, books.ocs, books.rail_circuits)
    if spec.takes_circuits and (books.ocs is not None or spec.circuit_switch):
        return circuit_layer(spec, fabric, books.ocs or SWITCHES.load(spec.circuit_switch or ""))
    return None


# A study asks for the same few fabrics with many batches, models and prices.
@lru_cache(maxsize=512)
def _counted(fabric: Fabric, hardware: Hardware) -> _Materials:
    wiring = wire(fabric, hardware)
    spread = "Twin-port modules: counted with cables spread evenly over the switches."
    lines = materials.bill_items(fabric, wiring, hardware)
    shared = any(line.price_units > 1 for line in lines if line.category == "transceivers")
    circuits = hardware.circuits.notes if hardware.circuits is not None else ()
    return _Materials(
        lines,
        materials.switch_racks(fabric, hardware),
        (*wiring.notes, *circuits, *([spread] if shared else [])),
        wiring,
    )


@lru_cache(maxsize=512)
def _measured(
    spec: FabricSpec, sizing: Sizing, hardware: Hardware, hall: "FloorPlan"
) -> _Materials:
    from netplan.costing.installation import install, place  # noqa: PLC0415 - needs the graph

    fabric = build_fabric(spec, sizing)
    site = place(hall, spec, sizing, hardware)
    wiring = install(fabric, site, hardware).wiring
    copper = _copper_links(wiring)
    circuits = hardware.circuits.notes if hardware.circuits is not None else ()
    measured = f"Cable lengths and media from the hall {hall.name}."
    return _Materials(
        materials.bill_items(fabric, wiring, hardware, site.layout),
        materials.switch_racks(fabric, hardware, site.layout),
        (*wiring.notes, *circuits, measured, *((site.layout.note,) if site.layout.note else ())),
        wiring,
        hall.name,
        fabric=replace(fabric, links=tuple(_in_hall(group, copper) for group in fabric.links)),
    )


@lru_cache(maxsize=512)
def _several_halls(
    spec: FabricSpec, sizing: Sizing, hardware: Hardware, hall: "FloorPlan"
) -> _Materials:
    """Materials of a fabric too large for one hall: media and lengths are shared out as in one.

    Each group of links has cables in the shares that a smaller fabric has in the hall. Groups that
    it lacks, such as those of a further tier, are optical and as long as their kind; so are all
    where nothing as small can be built.
    """
    smaller = replace(sizing, gpus=max(1, SAMPLED // sizing.hb_size) * sizing.hb_size)
    fabric = build_fabric(spec, sizing)
    optical = replace(fabric, links=tuple(_in_hall(group, Counter()) for group in fabric.links))
    counted = _counted(optical, hardware)
    several = f"More than {LARGEST_HALL:,} GPUs stand in several halls: "
    fewer, layer = hardware, hardware.circuits
    if layer is not None and layer.plan is not None:
        plan = replace(layer.plan, domains=smaller.domains)
        fewer = replace(hardware, circuits=replace(layer, switches=plan.switches, plan=plan))
    try:
        sample = _measured(spec, smaller, fewer, hall).wiring
    except (InputError, InfeasibleError):  # of tori without such a size
        note = f"{several}optics, lengths by kind of link."
        return replace(counted, notes=(*counted.notes, note), hall=hall.name, fabric=optical)
    wiring = replace(counted.wiring, runs=tuple(_scaled(sample, counted.wiring)))
    links = tuple(_in_hall(group, _copper_links(wiring)) for group in fabric.links)
    fabric = replace(fabric, links=links)
    note = f"{several}media and lengths as for {smaller.gpus:,} in the hall {hall.name}."
    return replace(
        counted,
        lines=materials.bill_items(fabric, wiring, hardware),
        notes=(*counted.notes, note),
        wiring=wiring,
        hall=hall.name,
        fabric=fabric,
    )


def _scaled(sample: Wiring, counted: Wiring) -> Iterator[CableRun]:
    """Runs of a large fabric in the shares of a smaller one, group by group."""
    by_cage = any(run.counted is not None for run in sample.runs)
    for whole in counted.runs:
        runs = [run for run in sample.runs if (run.name, run.ends) == (whole.name, whole.ends)]
        if not runs:
            plugs = [
                whole.plugs_at(side, counted.bank(whole.ends[side]).devices) for side in (0, 1)
            ]
            yield replace(whole, counted=(plugs[0], plugs[1]) if by_cage else None)
            continue
        sampled = sum(run.links for run in runs)
        columns = [(run.links, *(run.counted or ())) for run in runs]
        # Sums are rounded, not shares: all links of the group are on the bill.
        sums = [accumulate(column) for column in zip(*columns, strict=True)]
        ends = [[0, *(ceil_div(part * whole.links, sampled) for part in column)] for column in sums]
        for place, run in enumerate(runs):
            links, *plugs = (column[place + 1] - column[place] for column in ends)
            if links:
                both = (plugs[0], plugs[1]) if plugs else None
                yield replace(run, links=links, counted=both)


def _copper_links(wiring: Wiring) -> Counter[str]:
    """Links in copper, by the name of their group [1]."""
    copper: Counter[str] = Counter()
    for run in wiring.runs:
        lit = run.medium in ("fibre", "aoc")
        copper[run.name.removeprefix(MANAGEMENT)] += 0 if lit else run.links
    return copper


def _in_hall(group: LinkGroup, copper: Mapping[str, int]) -> LinkGroup:
    """A link group with its links in copper."""
    if group.medium in UNCABLED:
        return group
    count = copper[group.name]
    whole: Medium = "copper" if count == group.links else "optical"
    return replace(group, copper_links=count, medium=whole)
