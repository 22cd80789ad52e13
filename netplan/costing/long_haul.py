"""What lights the fibre between sites, and what it costs: modules, amplifiers, ports, rent.

A pair of sites needs ceil(rate / rate of a module) wavelengths, each with a coherent module at
both ends, ceil(wavelengths / wavelengths of a fibre pair) fibre pairs, and on each of these
max(0, ceil(km / span) - 1) huts with an amplifier each way. Border switches have 2 ceil(rate / rate
of a port) ports, half of them at either end. What the book has no price for makes the sum a floor,
never less. Buildings, power and people of the huts are left out.

All of it are lines of the bill of a network that lies in several sites, whatever its fabric. They
are priced by themselves: ports of border switches share no quantity break with others.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil

from msgspec import Struct

from netplan.catalog import Catalog, Record
from netplan.costing.materials import BillItem
from netplan.costing.prices import US_DOLLAR, Currency, Part, Price, PriceBook
from netplan.costing.pricing import Quote, price_bill
from netplan.costing.ranges import Estimate, Range
from netplan.records import NonNegativeFloat, PositiveFloat, PositiveInt, replace
from netplan.topologies.fabric import Sizing
from netplan.topologies.sites import Pair, Sites
from netplan.units import counted, gbps

ROUNDING = 1e-9
"""Share of a wavelength by which sums of rates are off [1]."""

MONTHS = 12
LONG_HAUL = "long-haul"
"""Name, on a bill, of the network that joins sites."""

LACKING: dict[Part, str] = {
    "coherent_module": "coherent modules",
    "amplifier": "amplifiers",
    "switch_port": "border ports",
    "lit_fibre": "fibre",
}
"""Parts of the long haul in words, as those that lack a price are named."""


class LongHaulBook(Record, frozen=True, kw_only=True):
    """Fibre between sites: how it delays, what lights it, prices.

    ``detour`` is km of fibre for a km of the route [1], ``equipment_us`` what transponders and
    border switches add one way [us], ``queue_pairs`` those of a GPU [1], ``sync_every`` iterations
    from one exchange between sites to the next [1]. ``module`` and ``amplifier`` (of one way) are
    prices in ``currency``, ``fibre_km_month_usd`` the rent of a km of a fibre pair. A module has a
    wavelength of ``module_gbps``, a fibre pair ``wavelengths_a_fibre_pair`` of them [1], and an
    amplifier every ``span_km``; a border switch has ``chassis_ports`` [1] of ``port_gbps`` each.
    """

    currency: Currency
    detour: PositiveFloat = 1.0
    equipment_us: NonNegativeFloat = 0.0
    queue_pairs: PositiveInt = 1
    sync_every: PositiveInt = 1
    module_gbps: Estimate
    wavelengths_a_fibre_pair: Estimate
    span_km: Estimate
    port_gbps: Estimate
    chassis_ports: Estimate
    module: Estimate | None = None
    amplifier: Estimate | None = None
    fibre_km_month_usd: NonNegativeFloat | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse counts and rates of nothing."""
        counts = ("wavelengths_a_fibre_pair", "span_km", "chassis_ports")
        for name in ("module_gbps", "port_gbps", *counts):
            if not getattr(self, name).base > 0:
                raise ValueError(f"{name}: give more than 0")


LONG_HAUL_BOOKS = Catalog("sites", "costing/long-haul", LongHaulBook)
LONG_HAUL_BOOK = "2026"


class HaulBooks(Struct, frozen=True):
    """What joins the sites of a network, as its bill needs it.

    Parameters
    ----------
    deal
        The sites of so many GPUs, and the fibre between them.
    book
        What lights that fibre.
    years
        Years of rent [a].
    """

    deal: Callable[[Sizing], Sites]
    book: LongHaulBook
    years: float


class LongHaul(Struct, frozen=True):
    """What the fibre between sites takes.

    Parameters
    ----------
    sites
        That it joins [1].
    wavelengths, modules, fibre_pairs, amplifiers, ports
        Of all pairs of sites together [1]; an amplifier each way of a fibre pair and hut.
    huts
        Places with amplifiers along all fibre pairs [1].
    chassis
        Border switches that have so many ports, on both sides of every pair [1].
    fibre_km
        Length of all lit fibre pairs [km].
    years
        Years of rent [a].
    quote
        Modules, ports, amplifiers, and rent over the years, line by line.
    """

    json_parts = (
        *("sites", "wavelengths", "modules", "fibre_pairs", "huts", "amplifiers", "ports"),
        *("chassis", "fibre_km", "years", "cost_usd=cost.base", "cost_low_usd=cost.low"),
        *("cost_high_usd=cost.high", "cost_is_floor", "unpriced"),
    )
    """Its cost is in dollars, as that of the quote must be."""

    sites: int
    wavelengths: int
    modules: int
    fibre_pairs: int
    huts: int
    amplifiers: int
    ports: int
    chassis: int
    fibre_km: float
    years: float
    quote: Quote

    @property
    def cost(self) -> Range:
        """Price of all that has one [currency of the quote]."""
        return self.quote.total

    @property
    def unpriced(self) -> tuple[str, ...]:
        """What has no price."""
        return tuple(dict.fromkeys(LACKING[line.part] for line in self.quote.unpriced))

    @property
    def cost_is_floor(self) -> bool:
        """Whether something has no price."""
        return bool(self.unpriced)


def long_haul(
    pairs: Sequence[Pair], book: LongHaulBook, prices: PriceBook, years: float, currency: str = ""
) -> LongHaul:
    """Count and price what lights the fibre between sites.

    Parameters
    ----------
    pairs
        Pairs of sites with their rates and lengths.
    book
        What lights fibre.
    prices
        Prices of ports of switches, rates of currencies, and the discount.
    years
        Years of rent [a].
    currency
        Currency of the quote; that of the prices if empty.

    Returns
    -------
    LongHaul
        Of all pairs together.

    Examples
    --------
    16 Pb/s between two regions are 20,000 wavelengths of 800G, and ports on either side:

    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> book, prices = LONG_HAUL_BOOKS.load("2026"), PRICE_BOOKS.load("2026")
    >>> lit = long_haul([Pair(0, 1, 100.0, 1.0, 2e15)], book, prices, 6)
    >>> lit.wavelengths, lit.modules, lit.fibre_pairs, lit.ports, lit.huts
    (20000, 40000, 313, 40000, 313)
    """
    counts = [_of_pair(pair, book) for pair in pairs]
    wavelengths, fibre_pairs, huts, ports, chassis = (sum(row) for row in zip(*counts, strict=True))
    fibres = [count[1] for count in counts]
    lines = [
        _line(
            *("coherent_module", "Coherent module", 2 * wavelengths, book.module_gbps.base),
            note=f"two a wavelength, on {counted(fibre_pairs, 'fibre pair')}",
        ),
        _line("amplifier", "Line amplifier", 2 * huts, note=f"one each way in {huts:,} huts"),
        _line(
            *("switch_port", "Port of a border switch", ports, book.port_gbps.base),
            note=f"{chassis:,} chassis",
        ),
    ]
    port = prices.price("switch_port", book.port_gbps.base)
    rows = [*([port] if port is not None else [])]
    if book.module is not None:
        rows.append(_priced("coherent_module", book.module, book, book.module_gbps.base))
    if book.amplifier is not None:
        rows.append(_priced("amplifier", book.amplifier, book))
    for line, row in _fibre(pairs, fibres, book, years):
        lines.append(line)
        rows += [row] if row is not None and row not in rows else []
    known = [row for row in rows if prices.knows(row.currency)]
    listed = tuple(line for line in lines if line.quantity)
    return LongHaul(
        len({end for pair in pairs for end in (pair.a, pair.b)}),
        wavelengths,
        2 * wavelengths,
        fibre_pairs,
        huts,
        2 * huts,
        ports,
        chassis,
        sum(lit * book.detour * pair.km for lit, pair in zip(fibres, pairs, strict=True)),
        years,
        price_bill(listed, replace(prices, prices=tuple(known)), currency),
    )


def _of_pair(pair: Pair, book: LongHaulBook) -> tuple[int, int, int, int, int]:
    """Wavelengths, fibre pairs, huts, ports and chassis of one pair."""
    rate = gbps(pair.bytes_per_s)
    wavelengths = ceil(rate / book.module_gbps.base - ROUNDING)
    fibre_pairs = fibre_pairs_of(pair, book)
    huts = max(0, ceil(book.detour * pair.km / book.span_km.base - ROUNDING) - 1) * fibre_pairs
    ports = ceil(rate / book.port_gbps.base - ROUNDING)
    return wavelengths, fibre_pairs, huts, 2 * ports, 2 * ceil(ports / book.chassis_ports.base)


def fibre_pairs_of(pair: Pair, book: LongHaulBook) -> int:
    """Fibre pairs between two sites.

    Parameters
    ----------
    pair
        The sites, and their rate.
    book
        Rate of a wavelength, and wavelengths of a fibre pair.

    Returns
    -------
    int
        As many as its wavelengths need [1].
    """
    wavelengths = ceil(gbps(pair.bytes_per_s) / book.module_gbps.base - ROUNDING)
    return ceil(wavelengths / book.wavelengths_a_fibre_pair.base)


def _line(part: Part, item: str, quantity: int, speed_gbps: float = 0.0, *, note: str) -> BillItem:
    """A line of the long haul; its rate where it has one."""
    return BillItem(
        category="long-haul",
        item=f"{item} of {speed_gbps:g} Gb/s" if speed_gbps else item,
        specification=note,
        quantity=quantity,
        unit="each",
        part=part,
        speed_gbps=speed_gbps,
        network=LONG_HAUL,
    )


def _priced(
    part: Part, estimate: Estimate, book: LongHaulBook, speed_gbps: float | None = None
) -> Price:
    """Row of a price book for a part whose price the book of the long haul has."""
    return Price(
        part=part,
        speed_gbps=speed_gbps,
        unit=f"{book.currency}/each",
        base=estimate.base,
        low=estimate.low,
        high=estimate.high,
        date=estimate.date,
        source=estimate.source,
        evidence=estimate.evidence,
        confidence=estimate.confidence,
    )


def _fibre(
    pairs: Sequence[Pair], fibres: Sequence[int], book: LongHaulBook, years: float
) -> Iterator[tuple[BillItem, Price | None]]:
    """Lit fibre of a length and rent, line by line, with its price where it has one."""
    alike: dict[tuple[float, float | None], int] = {}
    for count, pair in zip(fibres, pairs, strict=True):
        month = None if pair.usd_month is None else pair.usd_month / count
        if month is None and book.fibre_km_month_usd is not None:
            month = book.fibre_km_month_usd * book.detour * pair.km
        if pair.km or month:
            alike[pair.km, month] = alike.get((pair.km, month), 0) + count
    for (km, month), count in alike.items():
        kind = f"{km:g}-km" if month is None else f"{km:g}-km-{month:.6g}"
        note = f"rent of {years:g} years"
        line = _line("lit_fibre", f"Fibre pair of {km:,g} km", count, note=note)
        line = replace(line, kinds=(kind,))
        price = None
        if month is not None:
            price = Price(
                part="lit_fibre",
                model=kind,
                unit=f"{US_DOLLAR}/each",
                base=MONTHS * years * month,
                date=book.date,
                source="Rent as given, of all months",
                confidence="medium",
            )
        yield line, price
