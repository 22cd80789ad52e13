"""Which fabric to order, in one sentence, and the reasons for and against it.

The rule is that of ``netplan compare`` (:mod:`netplan.decide.verdict`), on the bills of
the order: spares, discount and networks beside included. Only bills with a price for every switch,
module and copper cable compete; fibre, racks, the first card of each GPU and the gear inside HB
domains of the size that is asked for may be without one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf

from msgspec import Struct

from netplan.costing.fabric_bill import FabricBill
from netplan.costing.pricing import least_saving
from netplan.decide.candidates import Basis, bought
from netplan.decide.verdict import Probe, Verdict, decide
from netplan.questions.answers.bill_columns import open_above
from netplan.questions.answers.compare_rows import FabricRow
from netplan.questions.answers.cost_answer import CostAnswer
from netplan.questions.money.token_cost import cheapest
from netplan.records import replace
from netplan.reports.quantities import Scale, listed

SAME_PACE = 1e-3
"""A difference in iteration time that is not worth a word [1]."""


class Recommendation(Struct, frozen=True):
    """The fabric to order, None if none is; one sentence, then the reasons, and the verdict."""

    fabric: str | None
    sentence: str
    reasons: tuple[str, ...]
    verdict: Verdict | None = None


def recommend(
    answer: CostAnswer, rows: Sequence[FabricRow], basis: Basis, probe: Probe | None = None
) -> Recommendation:
    """Choose among the bills of an answer by the iteration times of a comparison's rows.

    Examples
    --------
    >>> from netplan.questions.compare import compare
    >>> from netplan.questions.cost import cost
    >>> asked = {"gpus": 32768, "radix": 128, "prices": "rail-only-2023"}
    >>> answer, compared = cost("rail-only-paper", **asked), compare("rail-only-paper", **asked)
    >>> recommend(answer, compared.rows, compared.basis).fabric
    'rail-only'
    """
    known = {row.name: row for row in rows}
    candidates = [
        replace(
            known[bill.name].candidate(None),
            name=bill.name,
            price=bill.capital.base,
            ends=_spread(basis.money, bill),
            complete=bill.complete,
            lacking=bool(bill.unpriced_apart),
            life=bill.life,
            bill=bill,
        )
        for bill in answer.bills
    ]
    verdict = decide(candidates, basis, probe)
    own = {one.name: one for one in bought(candidates)}
    times_s = {name: one.time_s for name, one in own.items() if one.time_s < inf}
    if verdict is None:
        return _none(answer, times_s)
    aside = (f"{row.name}: {row.notes[-1]}" for row in rows if row.built_with)
    rule = (f"Rule: {verdict.rule}.", *(change.sentence for change in verdict.changes), *aside)
    if verdict.fabric is None:
        return Recommendation(None, _undecided(answer, verdict), rule, verdict)
    rule = (*verdict.caveats, *rule)
    chosen = next(bill for bill in answer.bills if bill.name == verdict.fabric)
    rivals = [bill for bill in answer.bills if bill.name in own and bill is not chosen]
    others = [bill for bill in rivals if bill.complete]
    slower = {name: time_s / min(times_s.values()) - 1 for name, time_s in times_s.items()}
    if basis.barred and times_s:
        fastest = own[min(times_s, key=times_s.__getitem__)]
        slower |= {name: 0.0 for name in slower if basis.same_time(own[name], fastest)}
    sentence = _sentence(answer.scale, chosen, others, slower)
    told = {change.fabric for change in verdict.changes}
    untold = {name: late for name, late in slower.items() if name not in told}
    reasons = _reasons(answer, chosen, others, untold)
    return Recommendation(chosen.name, sentence, (*rule, *reasons), verdict)


def recommend_server(answer: CostAnswer, bought: Collection[str]) -> Recommendation:
    """Where a million tokens cost least, of the bills of an answer.

    Parameters
    ----------
    answer
        The bills, and what is served on each.
    bought
        Fabrics that somebody sells for the accelerator: one of them is ordered.

    Returns
    -------
    Recommendation
        What to order, if anything, and why.

    Examples
    --------
    >>> from netplan.questions.cost import cost
    >>> asked = {"gpus": 64, "radix": 64, "hb_size": 8, "accelerator": "h100-80gb"}
    >>> asked |= {"model": "llama-3.1-8b", "workload": "serving", "prices": "2026"}
    >>> answer = cost("serving-70b-h200", **asked, fabrics=("rail-only", "torus-3d"))
    >>> found = recommend_server(answer, ["rail-only"])
    >>> found.fabric, found.sentence.partition(" costs")[0]
    ('rail-only', 'Order rail-only: its network for 64 GPUs')
    """
    served = [(row.fabric, row.served) for row in answer.served if row.fabric in bought]
    verdict = cheapest(served, answer.currency)
    if verdict is None:
        return _none(answer, {})
    rule = (f"Rule: {verdict.rule}.",)
    if verdict.fabric is None:
        return Recommendation(None, _undecided(answer, verdict), rule, verdict)
    chosen = next(bill for bill in answer.bills if bill.name == verdict.fabric)
    rivals = [bill for bill in answer.bills if bill.name in bought and bill is not chosen]
    others = [bill for bill in rivals if bill.complete]
    sentence = f"{_sentence(answer.scale, chosen, others, {})} {verdict.sentence}"
    reasons = _reasons(answer, chosen, others, {})
    return Recommendation(chosen.name, sentence, (*rule, *reasons), verdict)


def _undecided(answer: CostAnswer, verdict: Verdict) -> str:
    """A tie, and whether what ties lacks prices."""
    tied = [bill for bill in answer.bills if bill.name in verdict.tied]
    more = any(bill.quote.unpriced for bill in tied)
    return f"Order none yet: {verdict.sentence}" + (
        " Parts without a price come on top." if more else ""
    )


def _none(answer: CostAnswer, times_s: Mapping[str, float]) -> Recommendation:
    """Why nothing can be compared."""
    if times_s and not all(bill.unpriced_apart for bill in answer.bills):
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
    price, least = chosen.capital, "at least " if chosen.quote.unpriced else ""
    amount = f"costs {least}{money.one(price.base)} {money.title}{_spread(money, chosen)}"
    if not price.base:
        amount = "has no part with a price"
    text = f"Order {chosen.name}: its network for {chosen.gpus:,} GPUs {amount}"
    dearer = [bill for bill in others if bill.capital.base > price.base]
    if dearer:
        near = min(bill.capital.base for bill in dearer)
        # Fabrics of one price are all named: whoever stands beside the order is among them.
        names = listed([bill.name for bill in dearer if bill.capital.base == near])
        less = (
            f"{money.less(price.base, near)} {money.title} ({100 * (1 - price.base / near):.0f} %)"
        )
        text += f". That is {less} less than {names}, the next cheapest"
    if chosen.name in slower:
        late = slower[chosen.name]
        pace = f"{100 * late:.1f} % slower than the fastest"
        text += f". It trains {pace if late > SAME_PACE else 'as fast as any of them'}"
    return f"{text}."


def _spread(money: Scale, bill: FabricBill) -> str:
    """The range in brackets; no high where the book has none above the base."""
    price = bill.capital
    if not price.spread:
        return ""
    low, high = money.one(price.low), money.one(price.high)
    if high == money.one(price.base):
        return f" ({low} at low prices; the book has no high)"
    return f" ({low} to {high}{' or more' if open_above(bill) else ''})"


def _reasons(
    answer: CostAnswer, chosen: FabricBill, others: list[FabricBill], slower: Mapping[str, float]
) -> Iterator[str]:
    """How firm the choice is: overlapping ranges, cheaper but slower fabrics, missing prices."""
    money, price = answer.scale, chosen.capital
    for bill in others:
        if bill.capital.base < price.base and bill.name in slower:
            less = money.less(bill.capital.base, price.base)
            yield (
                f"{bill.name} costs {less} {money.title} less but trains"
                f" {100 * slower[bill.name]:.0f} % slower than the fastest."
            )
    equal = [bill.name for bill in others if bill.capital.base == price.base]
    if equal:
        yield f"At base prices {listed(equal)} cost{'s' if len(equal) == 1 else ''} the same."
    dearer = [bill for bill in others if bill.capital.base > price.base]
    saved = {bill.name: least_saving(chosen.quote, bill.quote) for bill in dearer}
    clear = [name for name, (least, stated) in saved.items() if least > 0 and stated]
    overlap = [name for name, (least, _) in saved.items() if least <= 0]
    if clear:
        yield (
            f"{chosen.name} costs less than {listed(clear)} at all prices within the book's ranges."
        )
    if overlap:
        yield (
            f"At prices within the book's ranges {listed(overlap, 'or')} may cost less: ask for"
            " offers on both before you sign."
        )
    if chosen.quote.unpriced:
        items = "; ".join(f"{line.order:,} x {line.item}" for line in chosen.quote.unpriced)
        yield f"Without a price, so not in the sum: {items}."
    if answer.refused:
        yield f"Not compared: {', '.join(row.name for row in answer.refused)} (see the notes)."
