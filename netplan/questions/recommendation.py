"""Which fabric to order, in one sentence, and the reasons for and against it.

The rule is that of ``netplan compare``: of the fabrics that train within a few percent of the
fastest, the one of the lowest base price. Only bills with a price for every switch, module and
copper cable compete; fibre, racks, gear inside HB domains and the first card of each GPU may be
without one.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from netplan.costing.fabric_bill import FabricBill
from netplan.questions.compare import NEARLY_AS_FAST
from netplan.questions.cost import CostAnswer
from netplan.reports.quantities import listed

SAME_PACE = 1e-3
"""A difference in iteration time that is not worth a word [1]."""


class Recommendation(Struct, frozen=True):
    """The fabric to order, None if no bill is complete; one sentence, then the reasons."""

    fabric: str | None
    sentence: str
    reasons: tuple[str, ...]


def recommend(answer: CostAnswer, times_s: Mapping[str, float]) -> Recommendation:
    """Choose among the bills of an answer.

    Parameters
    ----------
    answer
        Bills of :func:`netplan.questions.cost.cost`.
    times_s
        Iteration time of each timed fabric [s]; empty without timing.

    Examples
    --------
    >>> from netplan.questions.cost import cost
    >>> answer = cost(gpus=32768, radix=128, prices="rail-only-2023")
    >>> recommend(answer, {}).fabric
    'rail-only'
    """
    complete = [bill for bill in answer.bills if not bill.unpriced_apart]
    limit = min(times_s.values(), default=0.0) * (1 + NEARLY_AS_FAST)
    fast = [bill for bill in complete if not times_s or times_s.get(bill.name, limit * 2) <= limit]
    if not fast:
        return _none(answer, complete)
    ranked = sorted(fast, key=lambda bill: bill.capital.base)  # equal ones: as asked
    chosen, others = ranked[0], [bill for bill in complete if bill is not ranked[0]]
    sentence = _sentence(answer, chosen, others, times_s)
    reasons = tuple(_reasons(answer, chosen, others, times_s))
    return Recommendation(chosen.name, sentence, reasons)


def _none(answer: CostAnswer, complete: list[FabricBill]) -> Recommendation:
    """No fabric to recommend, and what to do about it."""
    if complete:
        text = "Order none yet: every fabric with a complete price trains too slowly."
        return Recommendation(None, text, ("Add a price for the parts of the faster ones.",))
    names = dict.fromkeys(line.title for bill in answer.bills for line in bill.unpriced_apart)
    book = answer.inputs["prices"]
    text = f"Order none yet: the price book {book} lacks prices that decide between the fabrics."
    return Recommendation(None, text, (f"Ask for offers: {'; '.join(names)}.",))


def _sentence(
    answer: CostAnswer,
    chosen: FabricBill,
    others: list[FabricBill],
    times_s: Mapping[str, float],
) -> str:
    money = answer.scale
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
    if chosen.name in times_s:
        slower = times_s[chosen.name] / min(times_s.values()) - 1
        pace = f"{100 * slower:.1f} % slower than the fastest"
        text += f", and it trains {pace if slower > SAME_PACE else 'as fast as any of them'}"
    return f"{text}."


def _reasons(
    answer: CostAnswer,
    chosen: FabricBill,
    others: list[FabricBill],
    times_s: Mapping[str, float],
) -> Iterator[str]:
    """How firm the choice is: overlapping ranges, cheaper but slower fabrics, missing prices."""
    money = answer.scale
    for bill in others:
        if bill.capital.base < chosen.capital.base:
            less = money.one(chosen.capital.base - bill.capital.base)
            slow = times_s[bill.name] / min(times_s.values()) - 1
            yield (
                f"{bill.name} costs {less} {money.title} less but trains {100 * slow:.0f} % slower"
                " than the fastest."
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
