"""Pricing a bill: a range for every line and for the whole, and the parts without a price.

A line is priced by its model where the book has that model, else by what that is one of
(:attr:`~netplan.costing.materials.BillItem.kinds`), else by its part at its speed; memory and
accelerators by their model alone. A cable is priced at its stock length. A quantity break counts
all units of one price row and length on the bill, spares included, as one order.

What drives a price, and the price at which two networks cost the same.

*Drivers* (a tornado): each priced part alone at its low and at its high, all others at base; the
swing is the difference of the two totals. A part whose price has no spread stands in it too.
*Break-even*: the cost of a network is linear in the price p of one part, C(p) = a + q p, with q
units of the part and a for all the rest. Two networks
cost the same at p = (a2 - a1) / (q1 - q2).
"""

from collections.abc import Iterator, Sequence
from math import fsum
from typing import Literal

from msgspec import Struct

from netplan.costing import prices
from netplan.costing.materials import BillItem
from netplan.costing.ranges import NOTHING, Range
from netplan.costing.switches import SwitchModel
from netplan.inputs.choices import Evidence


class PricedItem(Struct, frozen=True):
    """A line of the bill with its price.

    Parameters
    ----------
    line
        The line.
    price
        Row of the price book, None if it has none.
    price_units
        Units of the row in one unit of the line [1].
    offer
        Price of one unit of the row in this order, length, break, discount and rate applied.
    """

    line: BillItem
    price: prices.Price | None
    price_units: int
    offer: Range

    @property
    def what(self) -> str:
        """The price row in words, with the length of a cable sold by it; empty without a row."""
        if self.price is None:
            return ""
        length = f", {self.line.length_m:g} m" if self.price.per_metre else ""
        return f"{self.price.what}{length}"

    @property
    def extrapolated(self) -> bool:
        """Whether the cable is longer than all that its price is taken from."""
        by_length = self.price.per_metre if self.price else None
        return by_length is not None and self.line.length_m > by_length.to_m

    @property
    def trust(self) -> prices.Trust:
        """How the price is known, in words; empty without one.

        A switch at so many times the price of a port is derived, whatever is known of the port.
        """
        if self.price is None:
            return ""
        whole = self.price.part != "switch_port" or self.price_units == 1
        return self.price.trust if whole or self.price.assumption else prices.DERIVED

    @property
    def unit_price(self) -> Range:
        """Price of one unit of the line."""
        return self.price_units * self.offer

    @property
    def units(self) -> int:
        """Units of the price row in the order [1]."""
        return self.line.order * self.price_units

    @property
    def total(self) -> Range:
        """Price of the line; zero where there is none."""
        return self.line.order * self.unit_price


class Quote(Struct, frozen=True):
    """A priced bill, in one currency; the total is the sum over the priced lines.

    ``leaves_out`` are parts that the source of the prices has none of and wants none of.
    """

    items: tuple[PricedItem, ...]
    currency: str
    total: Range = NOTHING
    leaves_out: tuple[prices.Part, ...] = ()

    @property
    def unpriced(self) -> tuple[BillItem, ...]:
        """Lines that the book has no price for."""
        return tuple(item.line for item in self.items if item.price is None)

    @property
    def priced_parts(self) -> dict[str, tuple[int, Range]]:
        """Units and offer of every price row and length in use, by the row in words."""
        parts: dict[str, tuple[int, Range]] = {}
        for item in self.items:
            if item.price is not None:
                units = parts.get(item.what, (0, item.offer))[0]
                parts[item.what] = (units + item.units, item.offer)
        return parts


def price_bill(lines: Sequence[BillItem], book: prices.PriceBook, currency: str = "") -> Quote:
    """Price every line of a bill.

    Parameters
    ----------
    lines
        The bill, spares included.
    book
        Prices, with its rates and discount.
    currency
        Currency of the quote; the book's own if empty.

    Raises
    ------
    CatalogError
        If the book has no rate for a currency.

    Examples
    --------
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> switch = BillItem("switches", "Switch of 128 ports", "", 256, "each", "switch_port", 400.0,
    ...                   price_units=128)
    >>> optics = BillItem("transceivers", "Transceiver", "", 65_536, "each", "transceiver", 400.0)
    >>> price_bill([switch, optics], PRICE_BOOKS.load("rail-only-2023")).total.base
    49020928.0
    """
    currency = currency or book.currency
    book.exchange(book.currency, currency)
    rows = [_row(line, book) for line in lines]
    ordered: dict[tuple[int, float], int] = {}
    for line, (price, units) in zip(lines, rows, strict=True):
        if price is not None:
            order = id(price), line.length_m if price.per_metre else 0.0
            ordered[order] = ordered.get(order, 0) + line.order * units
    items = []
    low = base = high = 0.0
    for line, (price, units) in zip(lines, rows, strict=True):
        if price is None:
            items.append(PricedItem(line, None, units, NOTHING))
            continue
        length_m = line.length_m if price.per_metre else 0.0
        offer = book.offer(price, ordered[id(price), length_m], currency, length_m=length_m)
        low += line.order * (units * offer.low)
        base += line.order * (units * offer.base)
        high += line.order * (units * offer.high)
        items.append(PricedItem(line, price, units, offer))
    return Quote(tuple(items), currency, Range(low, base, high), book.leaves_out)


UNSURE: tuple[Evidence, ...] = ("announced", "rumoured", "assumed", "derived")
"""Classes of evidence that an answer tells of: what cannot be bought, or was not quoted."""
LEAST_SHARE = 0.005
"""Share of a price below which a class is not told of [1]."""


def evidence_shares(quote: Quote) -> dict[Evidence, float]:
    """What a price is made of.

    Parameters
    ----------
    quote
        The priced bill.

    Returns
    -------
    dict
        Share of the total by class of evidence [1], of prices that say so.
    """
    shares: dict[Evidence, float] = {}
    for item in quote.items:
        evidence = item.price.evidence if item.price else None
        if evidence is not None and item.total.base:
            shares[evidence] = shares.get(evidence, 0.0) + item.total.base / quote.total.base
    return shares


def evidence_words(quote: Quote) -> str:
    """How much of a price nobody quoted, in words; empty where all of it was.

    Examples
    --------
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> lines = [BillItem("racks", "Rack", "", 1, "each", "rack", 400.0),
    ...          BillItem("cards", "Card", "", 4, "port", "nic_port", 800.0)]
    >>> evidence_words(price_bill(lines, PRICE_BOOKS.load("2026")))
    '50 % assumed'
    """
    shares = evidence_shares(quote)
    unsure = [kind for kind in UNSURE if shares.get(kind, 0.0) >= LEAST_SHARE]
    return ", ".join(f"{100 * shares[kind]:.0f} % {kind}" for kind in unsure)


def extrapolations(quote: Quote) -> Iterator[str]:
    """Which cables are longer than those that their prices are taken from, a sentence a row."""
    longer: dict[tuple[str, float], set[float]] = {}
    for item in quote.items:
        if item.extrapolated and item.price and item.price.per_metre:
            row = item.price.what, item.price.per_metre.to_m
            longer.setdefault(row, set()).add(item.line.length_m)
    for (what, reached), lengths in longer.items():
        named = ", ".join(f"{length_m:g}" for length_m in sorted(lengths))
        yield f"Price of {what} at {named} m: extrapolated, its quotations end at {reached:g} m."


def _row(line: BillItem, book: prices.PriceBook) -> tuple[prices.Price | None, int]:
    """Price row of a line, and units of the row in one unit of the line."""
    kinds = (*([line.model] if line.model else []), *line.kinds)
    if line.category == "switches" and kinds:
        whole = book.price("switch", line.speed_gbps, *kinds)
        if whole is not None:
            return whole, 1
    no_model = () if line.part in prices.BESIDE else ("",)
    return book.price(line.part, line.speed_gbps, *kinds, *no_model), line.price_units


class PowerDraw(Struct, frozen=True):
    """Typical power of the build [W], and the lines of unknown power. Spares draw nothing."""

    typical_w: float
    unknown: tuple[BillItem, ...]
    known: bool = True
    """Whether the power of any line is known."""


PASSIVE = frozenset({"fibre", "rack", "installation", "hb_gear", "lit_fibre"})
"""Parts that draw no power, or whose power is not the network's."""


def power_of(
    lines: Sequence[BillItem], book: prices.PowerBook, models: Sequence[SwitchModel]
) -> PowerDraw:
    """Typical power of a bill: a product's own where its file has it, else by the part."""
    model_w = {model.name: model.typical_w for model in models}
    total, unknown, known = 0.0, [], False
    for line in lines:
        whole = model_w.get(line.model, line.typical_w)
        draw = book.draw(line.part, line.speed_gbps)
        if whole is not None:
            total += line.quantity * whole
        elif draw is not None:
            total += line.quantity * line.price_units * draw.typical_w
        elif line.part not in PASSIVE:
            unknown.append(line)
        known = known or whole is not None or draw is not None
    # A bill without a part that draws power draws none: that is known.
    return PowerDraw(total, tuple(unknown), known or not unknown)


Stated = Literal["low and high", "low only", "high only", "no spread"]


class Driver(Struct, frozen=True):
    """Total cost with one part at its low and at its high price.

    ``amount`` is the part's share of the total at base, ``stated`` which ends its price has: one
    without a spread moves nothing here, however large its share.
    """

    json_parts = "*", "swing"

    part: str
    at_low: float
    at_high: float
    amount: float
    stated: Stated

    @property
    def swing(self) -> float:
        """How much the total moves."""
        return self.at_high - self.at_low


def drivers(quote: Quote) -> tuple[Driver, ...]:
    """Every priced part, the largest swing first, then the largest share of the price."""
    total = quote.total.base
    parts = []
    for part, (units, offer) in quote.priced_parts.items():
        if units and offer.base:
            low, high = (units * (end - offer.base) for end in (offer.low, offer.high))
            stated: Stated = "no spread"
            if offer.spread:
                stated = "low and high" if low and high else "low only" if low else "high only"
            parts.append(Driver(part, total + low, total + high, units * offer.base, stated))
    return tuple(sorted(parts, key=lambda driver: (-driver.swing, -driver.amount, driver.part)))


def difference_range(
    first: Quote, second: Quote, weights: tuple[float, float] = (1.0, 1.0)
) -> Range:
    """What a second network costs more than a first one, low to high: d = w2 c2 - w1 c1.

    A part costs the same in both, somewhere between its low and its high, so that ranges of two
    totals may meet where one is cheaper at any price: it has fewer of everything. Over all prices

        low = sum over parts of min(d of the part at its low, base and high)

    and high is the sum of the most.

    Parameters
    ----------
    first, second
        Quotes in one currency.
    weights
        What a unit of money of each counts, w1 and w2 [1].

    Returns
    -------
    Range
        The difference, in the currency times the weights.

    Examples
    --------
    Fewer ports are cheaper at any price of a port, though 100 at 1,090 USD cost more than 150 at
    562.50 USD.

    >>> from netplan.costing.materials import BillItem
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.costing.pricing import price_bill
    >>> few, many = (
    ...     price_bill([BillItem("switches", "", "", units, "each", "switch_port", 400.0, 1)],
    ...                PRICE_BOOKS.load("2026"))
    ...     for units in (100, 150)
    ... )
    >>> few.total.high > many.total.low, difference_range(few, many)
    (True, Range(low=28125.0, base=39062.5, high=54500.0))
    """
    parts: dict[str, list[float]] = {}
    for quote, weight in ((first, -weights[0]), (second, weights[1])):
        for item in quote.items:
            if item.price is not None:
                ends = parts.setdefault(item.price.what, [0.0, 0.0, 0.0])
                total = item.total
                for place, amount in enumerate((total.low, total.base, total.high)):
                    ends[place] += weight * amount
    return Range(
        fsum(min(ends) for ends in parts.values()),
        fsum(ends[1] for ends in parts.values()),
        fsum(max(ends) for ends in parts.values()),
    )


Direction = Literal["below", "above", "never"]
FAR = 2.0
"""How many times its base price a part may cost that a buyer takes for possible [1]."""


class BreakEven(Struct, frozen=True):
    """When the cheaper of two networks stops being the cheaper one, by the price of one part."""

    part: str
    base: float  # its base price
    price: float | None  # at which both cost the same; None if there is none above zero
    direction: Direction  # side of it on which the cheaper network turns the dearer one
    in_book: bool = False  # whether that lies between the low and the high of the book

    @property
    def near(self) -> bool:
        """Whether that price is one that a buyer may meet: the book's, or up to twice the base."""
        return self.in_book or (
            self.price is not None and self.base / FAR <= self.price <= FAR * self.base
        )


def break_even(cheaper: Quote, dearer: Quote, part: str) -> BreakEven:
    """Price of one part at which two networks cost the same, all other prices at base.

    Parameters
    ----------
    cheaper, dearer
        Quotes in one currency; the first costs no more than the second at base prices.
    part
        A price row in words, as in ``Quote.priced_parts``.

    Examples
    --------
    32,768 GPUs, radix 64, HB domains of 256. Rail-optimized has 2,560 switches and 196,608
    transceivers, rail-only 1,536 and 131,072: fewer of both, so no transceiver price matters.

    >>> from netplan.costing.materials import BillItem
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.costing.pricing import price_bill
    >>> def quote(switches, optics):
    ...     return price_bill([
    ...         BillItem("switches", "", "", switches, "each", "switch_port", 400.0, 64),
    ...         BillItem("transceivers", "", "", optics, "each", "transceiver", 400.0),
    ...     ], PRICE_BOOKS.load("rail-only-2023"))
    >>> part = "transceiver at 400 Gb/s"
    >>> break_even(quote(1536, 131_072), quote(2560, 196_608), part).direction
    'never'

    With more transceivers it would matter: 1,024 x 64 x 748 / 65,536 = 748 USD.

    >>> break_even(quote(1536, 131_072), quote(2560, 65_536), part).price
    748.0
    """
    few, many = cheaper.priced_parts.get(part), dearer.priced_parts.get(part)
    known = few or many
    base = known[1].base if known else 0.0
    units_cheaper, units_dearer = (crossings[0] if crossings else 0 for crossings in (few, many))
    more = units_cheaper - units_dearer
    if more == 0:
        return BreakEven(part, base, None, "never")
    rest_cheaper = cheaper.total.base - units_cheaper * base
    rest_dearer = dearer.total.base - units_dearer * base
    price = (rest_dearer - rest_cheaper) / more
    # At the base price the first is no dearer: with more units it loses above, with fewer below.
    if more < 0 and price <= 0:
        return BreakEven(part, base, None, "never")
    in_book = known is not None and known[1].low <= price <= known[1].high
    return BreakEven(part, base, price, "above" if more > 0 else "below", in_book)
