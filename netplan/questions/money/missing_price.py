"""The price that a part without one may have, where the ranking of two fabrics hangs on it."""

from collections.abc import Sequence

from netplan.costing.fabric_bill import FabricBill
from netplan.reports.quantities import listed


def lacks(bill: FabricBill) -> str:
    """What a bill lacks of what sets fabrics apart, in words."""
    return listed(list(dict.fromkeys(line.item for line in bill.unpriced_apart)))


def left_out(bill: FabricBill, best: FabricBill, currency: str) -> str:
    """Why a fabric is not compared, and at which price of the part it would cost least.

    Nothing is solved where it lacks several parts.
    """
    units = _units(bill)
    said = f"{bill.name} is not compared: no price for {lacks(bill)}."
    if len(units) != 1:
        return said
    ((part, count),) = units.items()
    even = (best.capital.base - bill.capital.base) / count
    if even <= 0:
        return f"{said} It costs more than {best.name} at any price of {part}."
    return (
        f"{said} It costs less than {best.name} if {part} cost under {even:,.0f} {currency} each."
    )


def between(bills: Sequence[FabricBill], currency: str) -> list[str]:
    """What may be said of fabrics of which none has its whole price.

    Where all lack the same part alone, the price of it at which the ranking turns.
    """
    first, *others = sorted(bills, key=lambda bill: (bill.capital.base, bill.name))
    return [_of_two(first, other, currency) for other in others]


def _of_two(less: FabricBill, more: FabricBill, currency: str) -> str:
    """``less`` costs less without the parts that lack a price."""
    units, others = _units(less), _units(more)
    if len(units) != 1 or units.keys() != others.keys():
        missing = dict.fromkeys([lacks(less), lacks(more)])
        told = " and for ".join(missing)
        return f"{less.name} and {more.name} are not compared: no price for {told}."
    ((part, count),) = units.items()
    surplus = count - others[part]
    if surplus <= 0:
        return f"{less.name} costs less than {more.name} at any price of {part}."
    even = (more.capital.base - less.capital.base) / surplus
    return (
        f"{less.name} costs less than {more.name} if {part} cost under {even:,.0f} {currency} each,"
        " for which there is no price."
    )


def _units(bill: FabricBill) -> dict[str, int]:
    """Units of each part that a bill lacks a price for, as a price book counts them."""
    counts: dict[str, int] = {}
    for line in bill.unpriced_apart:
        counts[line.priced_as] = counts.get(line.priced_as, 0) + line.order * line.price_units
    return counts
