"""What drives a price, and the price at which two networks cost the same.

*Drivers* (a tornado): each priced part alone at its low and at its high, all others at base; the
swing is the difference of the two totals. A part whose price has no spread stands in it too.
*Break-even*: the cost of a network is linear in the price p of one part, C(p) = a + q p, with q
units of the part and a for all the rest. Two networks
cost the same at p = (a2 - a1) / (q1 - q2).
"""

from typing import Literal

from msgspec import Struct

from netplan.costing.pricing import Quote
from netplan.costing.ranges import Range

Stated = Literal["low and high", "low only", "high only", "no spread"]


class Driver(Struct, frozen=True):
    """Total cost with one part at its low and at its high price.

    ``amount`` is the part's share of the total at base, ``stated`` which ends its price has: one
    without a spread moves nothing here, however large its share.
    """

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
    found = []
    for part, (units, offer) in quote.priced_parts.items():
        if units and offer.base:
            low, high = (units * (end - offer.base) for end in (offer.low, offer.high))
            stated: Stated = "no spread"
            if offer.spread:
                stated = "low and high" if low and high else "low only" if low else "high only"
            found.append(Driver(part, total + low, total + high, units * offer.base, stated))
    return tuple(sorted(found, key=lambda driver: (-driver.swing, -driver.amount, driver.part)))


def least_saving(cheaper: Quote, dearer: Quote) -> tuple[float, bool]:
    """What one network saves at least, and whether all prices that decide it have a high.

    A part costs the same in both, somewhere between its low and its high, so that ranges of two
    totals may meet where the cheaper one is cheaper at any price: it has fewer of everything.

    Examples
    --------
    Fewer ports are cheaper at any price of a port, though 100 at 1,090 USD cost more than 150 at
    562 USD.

    >>> from netplan.costing.materials import BillItem
    >>> from netplan.costing.prices import PRICE_BOOKS
    >>> from netplan.costing.pricing import price_bill
    >>> few, many = (
    ...     price_bill([BillItem("switches", "", "", units, "each", "switch_port", 400.0, 1)],
    ...                PRICE_BOOKS.load("2026"))
    ...     for units in (100, 150)
    ... )
    >>> few.total.high > many.total.low, least_saving(few, many)
    (True, (28100.0, True))
    """
    units: dict[tuple[str, Range], int] = {}
    for quote, sign in ((dearer, 1), (cheaper, -1)):
        for part, (count, offer) in quote.priced_parts.items():
            units[part, offer] = units.get((part, offer), 0) + sign * count
    saving = sum(
        more * (offer.low if more > 0 else offer.high) for (_, offer), more in units.items()
    )
    stated = all(more >= 0 or offer.high > offer.base for (_, offer), more in units.items())
    return saving, stated


Direction = Literal["below", "above", "never"]


class BreakEven(Struct, frozen=True):
    """When the cheaper of two networks stops being the cheaper one, by the price of one part."""

    part: str
    base: float  # its base price
    price: float | None  # at which both cost the same; None if there is none above zero
    direction: Direction  # side of it on which the cheaper network turns the dearer one


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
    units_cheaper, units_dearer = (found[0] if found else 0 for found in (few, many))
    more = units_cheaper - units_dearer
    if more == 0:
        return BreakEven(part, base, None, "never")
    rest_cheaper = cheaper.total.base - units_cheaper * base
    rest_dearer = dearer.total.base - units_dearer * base
    price = (rest_dearer - rest_cheaper) / more
    # At the base price the first is no dearer: with more units it loses above, with fewer below.
    if more < 0 and price <= 0:
        return BreakEven(part, base, None, "never")
    return BreakEven(part, base, price, "above" if more > 0 else "below")
