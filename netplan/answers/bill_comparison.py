"""The cheapest bill against another one, part by part, and what would turn that round."""

from collections import Counter
from math import isclose, log

from msgspec import Struct

from netplan.costing.fabric_bill import FabricBill
from netplan.costing.materials import BillItem
from netplan.costing.pricing import BreakEven, break_even
from netplan.reports.quantities import listed, part_words
from netplan.units import counted

FAR = 10.0
"""Times the price of the book, or as small a share of it, that is no price any more [1]."""

MOST_TURNS, MOST_NAMED = 2, 4
"""Prices that are named as turning a comparison round; parts of which any price will do [1]."""


class BillComparison(Struct, frozen=True):
    """The cheapest fabric against another one, part by part."""

    cheaper: str
    dearer: str
    difference: float
    break_evens: tuple[BreakEven, ...]
    uncounted: tuple[str, ...]

    def in_short(self, currency: str) -> str:
        """What would turn it round soonest, in a sentence."""
        if self.difference <= 0:
            return f"{self.cheaper} and {self.dearer} cost the same at base prices."
        turns = sorted(filter(_in_reach, self.break_evens), key=_apart)
        if not turns:
            return "No price of a single part turns that round."
        nearest = turns[0]
        more = len(turns) - 1
        others = f"; so may the price of {counted(more, 'other part')}" if more else ""
        return f"It turns round if {_condition(nearest, currency)}{others}."

    def what_turns(self, currency: str) -> str:
        """Such as: A costs less than B and stays cheaper unless …. It does so at any price of …."""
        if self.difference <= 0:
            return self.in_short(currency)
        near = sorted(filter(_in_reach, self.break_evens), key=_apart)
        turns = near[:MOST_TURNS]
        never = [_with_article(turn.part) for turn in self.break_evens if turn not in near]
        text = f"{self.cheaper} stays cheaper than {self.dearer}"
        if turns:
            text += f" unless {', or '.join(_condition(turn, currency) for turn in turns)}"
        if more := len(near) - len(turns):
            text += f" ({counted(more, 'other part')} may turn it, too)"
        if never:
            other = "any other part" if turns else "any one part"
            rest = listed(never, "or") if len(never) <= MOST_NAMED else other
            far = any(turn.price is not None and turn not in near for turn in self.break_evens)
            rest += ", from a tenth to ten times the book's" if far else ""
            text += f"{'. It does so' if turns else ''} at any price of {rest}"
        if self.uncounted:
            text += f". Not counted, for want of a price: {'; '.join(self.uncounted)}"
        return f"{text}."


def compare_bills(cheaper: FabricBill, dearer: FabricBill) -> BillComparison:
    """Break-evens over all priced parts of two bills, and the items without a price that differ."""
    quote, other = cheaper.quote, dearer.quote
    parts = sorted({*quote.priced_parts, *other.priced_parts})
    counts, other_counts = _orders(quote.unpriced), _orders(other.unpriced)
    items = sorted({*counts, *other_counts})
    less, more = quote.total.base, other.total.base
    return BillComparison(
        cheaper=cheaper.name,
        dearer=dearer.name,
        # The same lines in another order add up to the same but for rounding.
        difference=0.0 if isclose(less, more, rel_tol=1e-9) else more - less,
        break_evens=tuple(break_even(quote, other, part) for part in parts),
        uncounted=tuple(item for item in items if counts[item] != other_counts[item]),
    )


def _orders(lines: tuple[BillItem, ...]) -> Counter[str]:
    """Units by item; cables of all lengths together."""
    units: Counter[str] = Counter()
    for line in lines:
        cable = line.category == "cables"
        units[line.title.rpartition(",")[0] if cable else line.title] += line.order
    return units


def _times(turn: BreakEven) -> float:
    """The price at which both cost the same, over that of the book [1]."""
    return (turn.price or 0.0) / turn.base if turn.base else 0.0


def _apart(turn: BreakEven) -> float:
    """How far the price at which both cost the same is from that of the book, as a power."""
    return abs(log(_times(turn)))


def _in_reach(turn: BreakEven) -> bool:
    """Whether a price of that order might be asked."""
    return 1 / FAR <= _times(turn) <= FAR


def _condition(turn: BreakEven, currency: str) -> str:
    """The price of a part at which both cost the same."""
    side = "less" if turn.direction == "below" else "more"
    price = f"{turn.price:,.0f} {currency} (base {turn.base:,.0f})"
    return f"{_with_article(turn.part)} costs {side} than {price}"


def _with_article(part: str) -> str:
    """A price row with its article."""
    words = part_words(part)
    return f"{'an' if words.startswith((*'aeiou', 'HB')) else 'a'} {words}"
