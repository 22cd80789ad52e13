"""Which fabric to order, in one sentence, and the reasons for and against it.

The rule is that of ``netplan compare``: of the fabrics that train within a few percent of the
fastest, the one of the lowest base price. Only bills with a price for every switch, module and
copper cable compete; fibre, racks, gear inside HB domains and the first card of each GPU may be
without one.
"""

from collections.abc import Iterator, Mapping
from math import inf

from msgspec import Struct

from netplan.costing.fabric_bill import FabricBill
from netplan.questions.compare import nearly_fastest_s
from netplan.questions.cost import CostAnswer
from netplan.reports.quantities import Scale, listed

SAME_PACE = 1e-3
"""A difference in iteration time that is not worth a word [1]."""


class Recommendation(Struct, frozen=True):
    """The fabric to order, None if no bill is complete; one sentence, then the reasons."""

    fabric: str | None
    sentence: str
    reasons: tuple[str, ...]


def recommend(answer: CostAnswer, times_s: Mapping[str, float]) -> Recommendation:
    """Choose among the bills of an answer by the iteration times of the timed fabrics [s].

    Examples
    --------
    >>> from netplan.questions.cost import cost
    >>> answer = cost(gpus=32768, radix=128, prices="rail-only-2023")
    >>> recommend(answer, {}).fabric
    'rail-only'
    """
    complete = [bill for bill in answer.bills if not bill.unpriced_apart]
    limit_s = nearly_fastest_s(times_s.values())
    fast = [bill for bill in complete if times_s.get(bill.name, inf) <= limit_s]
    if fast:
        chosen = min(fast, key=lambda bill: bill.capital.base)  # of equal ones the first
        others = [bill for bill in complete if bill is not chosen]
        slower = {name: time_s / min(times_s.values()) - 1 for name, time_s in times_s.items()}
        sentence = _sentence(answer.scale, chosen, others, slower)
        return Recommendation(
            chosen.name, sentence, tuple(_reasons(answer, chosen, others, slower))
        )
    if complete:
        text = "Order none yet: every fabric with a complete price trains too slowly."
        return Recommendation(None, text, ("Add a price for the parts of the faster ones.",))
    names = dict.fromkeys(line.title for bill in answer.bills for line in bill.unpriced_apart)
    book = answer.inputs["prices"]
    text = f"Order none yet: the price book {book} lacks prices that decide between the fabrics."
    return Recommendation(None, text, (f"Ask for offers: {'; '.join(names)}.",))


def _sentence(
    money: Scale, chosen: FabricBill, others: list[FabricBill], slower: Mapping[str, float]
) -> str:
    """What to order, how much cheaper it is, and how fast it trains."""
    least = "at least " if chosen.quote.unpriced else ""
    low, high = money.one(chosen.capital.low), money.one(chosen.capital.high)
    spread = f" ({low} to {high})" if chosen.capital.spread else ""
    text = (
        f"Order {chosen.name}: its network for {chosen.gpus:,} GPUs costs {least}"
        f"{money.one(chosen.capital.base)} {money.title}{spread}"
    )
    dearer = [bill for bill in others if bill.capital.base > chosen.capital.base]
    if dearer:
        near = min(dearer, key=lambda bill: (bill.capital.base, bill.name))
        less = near.capital.base - chosen.capital.base
        share = f"{100 * less / near.capital.base:.0f} %"
        text += (
            f", {money.one(less)} {money.title} ({share}) less than {near.name}, the next cheapest"
        )
    if chosen.name in slower:
        less = slower[chosen.name]
        pace = f"{100 * less:.1f} % slower than the fastest"
        text += f", and it trains {pace if less > SAME_PACE else 'as fast as any of them'}"
    return f"{text}."


def _reasons(
    answer: CostAnswer, chosen: FabricBill, others: list[FabricBill], slower: Mapping[str, float]
) -> Iterator[str]:
    """How firm the choice is: overlapping ranges, cheaper but slower fabrics, missing prices."""
    money = answer.scale
    for bill in others:
        if bill.capital.base < chosen.capital.base:
            less = money.one(chosen.capital.base - bill.capital.base)
            yield (
                f"{bill.name} costs {less} {money.title} less but trains"
                f" {100 * slower[bill.name]:.0f} % slower than the fastest."
            )
    equal = [bill.name for bill in others if bill.capital.base == chosen.capital.base]
    if equal:
        yield f"At base prices {listed(equal)} cost{'s' if len(equal) == 1 else ''} the same."
    dearer = [bill for bill in others if bill.capital.base > chosen.capital.base]
    clear = [bill.name for bill in dearer if bill.capital.low > chosen.capital.high]
    overlap = [bill.name for bill in dearer if bill.name not in clear]
    if clear:
        yield f"Even at its highest price it costs less than the lowest of {listed(clear)}."
    if overlap:
        yield (
            f"Its price range meets that of {listed(overlap)}: ask for offers on both before"
            " you sign."
        )
    if chosen.quote.unpriced:
        items = "; ".join(f"{line.order:,} x {line.item}" for line in chosen.quote.unpriced)
        yield f"Without a price, so not in the sum: {items}."
    if answer.refused:
        yield f"Not compared: {', '.join(row.name for row in answer.refused)} (see the notes)."
