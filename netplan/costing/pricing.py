"""Pricing a bill: a range for every line and for the whole, and the parts without a price.

A line is priced by its model where the book has that model, else by what that is one of
(:attr:`~netplan.costing.materials.BillItem.kinds`), else by its part at its speed; memory and
accelerators by their model alone. A quantity break counts all units of one price row on the bill,
spares included, as one order.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from netplan.costing.materials import BillItem
from netplan.costing.power import PowerBook
from netplan.costing.prices import BESIDE, DERIVED, PART_NAMES, LentPrice, Price, PriceBook, Trust
from netplan.costing.ranges import Range
from netplan.costing.switches import SwitchModel

NOTHING = Range.point(0.0)


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
        Price of one unit of the row in this order, break, discount and rate applied.
    """

    line: BillItem
    price: Price | None
    price_units: int
    offer: Range

    @property
    def trust(self) -> Trust:
        """How the price is known, in words; empty without one.

        A switch at so many times the price of a port is derived, whatever is known of the port.
        """
        if self.price is None:
            return ""
        whole = self.price.part != "switch_port" or self.price_units == 1
        return self.price.trust if whole or self.price.assumption else DERIVED

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
    """A priced bill, in one currency; the total is the sum over the priced lines."""

    items: tuple[PricedItem, ...]
    currency: str
    total: Range = NOTHING

    @property
    def unpriced(self) -> tuple[BillItem, ...]:
        """Lines that the book has no price for."""
        return tuple(item.line for item in self.items if item.price is None)

    @property
    def priced_parts(self) -> dict[str, tuple[int, Range]]:
        """Units and offer of every price row in use, by the row in words."""
        found: dict[str, tuple[int, Range]] = {}
        for item in self.items:
            if item.price is not None:
                units = found.get(item.price.what, (0, item.offer))[0]
                found[item.price.what] = (units + item.units, item.offer)
        return found


def price_bill(lines: Sequence[BillItem], book: PriceBook, currency: str = "") -> Quote:
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
    ordered: dict[int, int] = {}
    for line, (price, units) in zip(lines, rows, strict=True):
        if price is not None:
            ordered[id(price)] = ordered.get(id(price), 0) + line.order * units
    items = []
    low = base = high = 0.0
    for line, (price, units) in zip(lines, rows, strict=True):
        if price is None:
            items.append(PricedItem(line, None, units, NOTHING))
            continue
        offer = book.offer(price, ordered[id(price)], currency)
        low += line.order * (units * offer.low)
        base += line.order * (units * offer.base)
        high += line.order * (units * offer.high)
        items.append(PricedItem(line, price, units, offer))
    return Quote(tuple(items), currency, Range(low, base, high))


def lent_notes(quote: Quote, book: PriceBook) -> Iterator[str]:
    """What of a quote stands in from other books: one sentence a book, and link rate if any."""
    found: dict[tuple[str, float | None], dict[str, LentPrice]] = {}
    for item in quote.items:
        row = item.price
        if isinstance(row, LentPrice):
            what = PART_NAMES[row.part].removeprefix("GB of ")
            found.setdefault((row.book, row.speed_gbps), {})[what] = row
    for (other, speed), rows in found.items():
        sources = "; ".join(dict.fromkeys(f"{row.source}, {row.date}" for row in rows.values()))
        at = "" if speed is None else f" at {speed:g} Gb/s"
        parts = " and ".join(rows)
        lacks = f"no prices{at}: {parts} at those" if at else f"no price of {parts}: it is that"
        yield f"{book.name} has {lacks} of {other} ({sources})."


def books_in_use(name: str, quotes: Iterable[Quote]) -> str:
    """Name of a price book, with those that lend it rows for these quotes.

    Examples
    --------
    >>> books_in_use("2026", [])
    '2026'
    """
    rows = [item.price for quote in quotes for item in quote.items]
    lent: dict[str, dict[tuple[float, str], None]] = {}
    for row in rows:
        if isinstance(row, LentPrice):
            rate = row.speed_gbps or 0.0
            what = f"{rate:g}G" if rate else PART_NAMES[row.part].removeprefix("GB of ")
            lent.setdefault(row.book, {})[rate, what] = None
    told = ((book, " and ".join(what for _, what in sorted(lent[book]))) for book in sorted(lent))
    return " and ".join((name, *(f"{book} for {what}" for book, what in told)))


def _row(line: BillItem, book: PriceBook) -> tuple[Price | None, int]:
    """Price row of a line, and units of the row in one unit of the line."""
    kinds = (*([line.model] if line.model else []), *line.kinds)
    if line.category == "switches" and kinds:
        whole = book.price("switch", line.speed_gbps, *kinds)
        if whole is not None:
            return whole, 1
    own = () if line.part in BESIDE else ("",)
    return book.price(line.part, line.speed_gbps, *kinds, *own), line.price_units


class PowerDraw(Struct, frozen=True):
    """Typical power of the build [W], and the lines of unknown power. Spares draw nothing."""

    typical_w: float
    unknown: tuple[BillItem, ...]
    known: bool = True
    """Whether the power of any line is known."""


PASSIVE = frozenset({"fibre", "rack", "hb_gear"})
"""Parts that draw no power, or whose power is not the network's."""


def power_of(
    lines: Sequence[BillItem], book: PowerBook, models: Sequence[SwitchModel]
) -> PowerDraw:
    """Typical power of a bill: a product's own where its file has it, else by the part."""
    own = {model.name: model.typical_w for model in models}
    total, unknown, known = 0.0, [], False
    for line in lines:
        whole = own.get(line.model, line.typical_w)
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
