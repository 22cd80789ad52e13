"""What a network costs that is bought in phases: orders, and their present value.

What a phase orders is what its bill holds beyond that of the phase before, priced as one order, so
that quantity breaks count what is ordered at once. Money spent after t years counts (1 + i)^-t of
it; a cost of c a year from a to b counts c ((1 + i)^-a - (1 + i)^-b) / i, which for whole years is
what costs at the end of each year count (:mod:`netplan.costing.lifetime`).
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

from msgspec import Struct

from netplan.costing.lifetime import Opex, discount_factor, lifetime
from netplan.costing.materials import BillItem
from netplan.costing.prices import PriceBook
from netplan.costing.pricing import Quote, price_bill
from netplan.costing.ranges import Range
from netplan.inputs.choices import End
from netplan.records import replace

Line = tuple[str, str, str, str, str]


def line_of(item: BillItem) -> Line:
    """What makes two lines of two bills the same thing to order."""
    return item.category, item.network, item.item, item.unit, item.model


def beyond(have: Sequence[BillItem], need: Sequence[BillItem]) -> tuple[BillItem, ...]:
    """Lines of a bill with the units that another does not have, in its order.

    Examples
    --------
    >>> few = BillItem("cables", "fibre", "", 10, "each", "fibre", 400.0)
    >>> more = replace(few, quantity=16, spares=1)
    >>> [(line.quantity, line.spares) for line in beyond([few], [more])], beyond([more], [few])
    ([(6, 1)], ())
    """
    built: Counter[Line] = Counter()
    spare: Counter[Line] = Counter()
    for line in have:
        built[line_of(line)] += line.quantity
        spare[line_of(line)] += line.spares
    further = []
    for line in need:
        key = line_of(line)
        kept, held = min(built[key], line.quantity), min(spare[key], line.spares)
        built[key] -= kept
        spare[key] -= held
        quantity, spares = line.quantity - kept, line.spares - held
        if quantity or spares:
            further.append(replace(line, quantity=quantity, spares=spares, notes=()))
    return tuple(further)


class PhaseOrder(Struct, frozen=True):
    """What one phase buys, and what of the phase before it no longer needs, both priced."""

    bought: Quote
    left: Quote


def order(
    have: Sequence[BillItem], need: Sequence[BillItem], book: PriceBook, currency: str
) -> PhaseOrder:
    """The order that leads from one bill to another."""
    return PhaseOrder(
        price_bill(beyond(have, need), book, currency),
        price_bill(beyond(need, have), book, currency),
    )


class Course(Struct, frozen=True):
    """How a network is bought and used: what is spent at the start of each phase, and in use.

    Parameters
    ----------
    spent
        Orders of every phase.
    owned
        Price of what is owned during each.
    power_w
        Typical power of what is in use during each [W].
    """

    spent: tuple[Range, ...]
    owned: tuple[Range, ...]
    power_w: tuple[float, ...]

    @property
    def capital(self) -> Range:
        """All orders, without interest."""
        return sum(self.spent, start=Range.point(0.0))


def yearly_factor(interest: float, begin: float, end: float) -> float:
    """Present value of 1 a year from one time to another, in years [1].

    Examples
    --------
    Two years at 10 %: 1/1.1 + 1/1.21; the third alone: 1/1.331.

    >>> round(yearly_factor(0.1, 0, 2), 6), round(yearly_factor(0.1, 2, 3), 6)
    (1.735537, 0.751315)
    >>> yearly_factor(0.0, 1, 2.5)
    1.5
    """
    if not interest:
        return end - begin
    return (discount_factor(interest, begin) - discount_factor(interest, end)) / interest


def present_value(course: Course, years: Sequence[float], opex: Opex) -> Range:
    """Present value of orders, energy and upkeep, from the start to the last of the times.

    Parameters
    ----------
    course
        What is bought and in use.
    years
        When each phase begins, and when the last one ends, from the first phase on.
    opex
        PUE, tariff, interest and upkeep.

    Examples
    --------
    1 M at once and 1 M after a year at 25 %, without energy or upkeep: 1 + 0.8.

    >>> point, none = Range.point, Range.point(0.0)
    >>> opex = Opex(5, point(1.0), none, point(0.25))
    >>> course = Course((point(1e6),) * 2, (point(1e6), point(2e6)), (0.0, 0.0))
    >>> present_value(course, (0, 1, 6), opex).base
    1800000.0
    """
    yearly = [
        lifetime(owned, power_w, opex).running_per_year
        for owned, power_w in zip(course.owned, course.power_w, strict=True)
    ]
    # The most interest makes what comes later cost least.
    interest = Range(opex.interest.high, opex.interest.base, opex.interest.low)
    ends = [
        sum(
            spent.at_end(end) * discount_factor(interest.at_end(end), begin)
            + cost.at_end(end) * yearly_factor(interest.at_end(end), begin, until)
            for spent, cost, (begin, until) in zip(
                course.spent, yearly, pairwise(years), strict=True
            )
        )
        for end in get_args(End)
    ]
    return Range(*ends)
