"""Columns and marks of bills that several answers have: amounts, parts as ordered, given media."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from netplan.costing.fabric_bill import Bill
from netplan.costing.prices import Part
from netplan.costing.pricing import PricedItem
from netplan.costing.ranges import Range
from netplan.records import value_at
from netplan.reports.quantities import Cell, Scale
from netplan.reports.schema import plain_at
from netplan.reports.sections import Column, Shown, column

NO_HIGH = "+: or more, since the book has no high, or no price, for some parts."


def open_above(bill: Bill) -> bool:
    """Whether the high of a bill is too low: a part has no price, or its price no high."""
    items = bill.quote.items
    return any(item.price is None or item.price.high is None for item in items if item.line.order)


def each_and_all(item: PricedItem) -> dict[str, Any]:
    """Prices of one unit and of all as JSON; None without a price."""
    prices = ("unit_price", "total")
    return plain_at(item, *prices) if item.price else dict.fromkeys(prices)


def sum_range(scale: Scale, price: Range, bill: Bill) -> str:
    """Low to high of a sum of a bill; open where a part has no price or its price no high."""
    return scale.span(price.low, price.high, least=price.base if open_above(bill) else None)


def no_high(row: Any) -> bool:  # noqa: ANN401 - a bill, or a row that has one
    """Whether the high of a row's bill is too low."""
    bill = getattr(row, "bill", row)
    return bill is not None and open_above(bill)


def ordered(*parts: Part) -> Callable[[Any], int | None]:
    """Units of these parts on the bill of a row, as they are ordered [1]."""
    return lambda row: row.bill.ordered(*parts) if row.bill else None


def span_column(
    path: str,
    scale: Scale,
    title: str = "low-high",
    *,
    shown: Shown = "people",
    none: str | None = None,
    unbound: Callable[[Any], bool] = lambda _: False,
) -> Column[Any]:
    """A column of amounts from low to high, for people; ``unbound`` ones have no known high."""
    between = " to " if " to " in title else "-"

    def get(row: object) -> Cell:
        amount = value_at(row, path)
        if not amount or getattr(getattr(row, "bill", None), "cost", amount) is None:
            return none
        least = amount.base if unbound(row) else None
        return scale.span(amount.low, amount.high, between=between, least=least)

    return column("range", get, title=title, form="code", shown=shown)


GIVEN = "medium given by the file: not in the verdict until a hall confirms it"


def given_mark(bill: Bill | None) -> tuple[str, str]:
    """The sign of a fabric whose file gives the medium of its links."""
    return "", (" †" if bill is not None and bill.media_given else "")


def given_words(bills: Iterable[Bill]) -> Iterator[str]:
    """A sentence on each fabric whose file gives the medium of its links."""
    for bill in bills:
        if bill.media_given:
            yield f"{bill.name} is aside, {GIVEN} ({bill.media_given})."
