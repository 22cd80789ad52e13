"""What a procurement report found: bills, times and verdict, from which all its chapters are made.

A chapter is a function of these findings; none of them knows how a report is put together.

Which fabric to order, in one sentence, and the reasons for and against it.

The rule is that of ``netplan compare`` (:mod:`netplan.decide.verdict`), on the bills of
the order: spares, discount and networks beside included. Only bills with a price for every switch,
module and copper cable compete; fibre, racks, the first card of each GPU and the gear inside HB
domains of the size that is asked for may be without one.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from netplan.answers.bill_columns import no_high, open_above, span_column
from netplan.answers.compare_answer import Comparison
from netplan.answers.compare_cases import ComparisonCases, all_in, cases_verdict
from netplan.answers.compare_rows import FabricRow
from netplan.answers.cost_answer import CostAnswer
from netplan.answers.training_runs import TrainingRun, training_runs
from netplan.costing.elevations import Elevations, elevations
from netplan.costing.fabric_bill import Bill, BillBooks, FabricBill
from netplan.costing.pricing import difference_range
from netplan.decide.candidates import AS_FAST, Basis, bought
from netplan.decide.record import Decision
from netplan.decide.ten_answers import Facts, ten_answers
from netplan.decide.verdict import BandwidthSolver, Verdict, decide
from netplan.faults.years.rates import FailureBook
from netplan.performance.plan import PlanTime
from netplan.questions.library import Library, ReportDefinition
from netplan.records import replace
from netplan.reports.quantities import Cell, Form, Quantity, Scale, listed
from netplan.reports.sections import Column, column
from netplan.setup.money.run_cost import RunTerms, TokenCost, cheapest, run_tokens
from netplan.topologies.specs import FabricSpec
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import WORKLOADS, Model

if TYPE_CHECKING:
    from netplan.answers.faults_answer import FaultsAnswer
    from netplan.answers.post_training_answer import PostTrainingAnswer
    from netplan.answers.serving_answer import ServingAnswer
    from netplan.answers.simulate_answer import SimulateAnswer
    from netplan.setup.money.step_cost import Stepped


class Recommendation(Struct, frozen=True):
    """The fabric to order, None if none is; one sentence, then the reasons, and the verdict."""

    fabric: str | None
    sentence: str
    reasons: tuple[str, ...]
    verdict: Verdict | None = None


def recommend(
    answer: CostAnswer,
    rows: Sequence[FabricRow],
    basis: Basis,
    probe: BandwidthSolver | None = None,
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
    sold = {candidate.name: candidate for candidate in bought(candidates)}
    times_s = {name: candidate.time_s for name, candidate in sold.items() if candidate.time_s < inf}
    if verdict is None:
        return _none(answer, times_s)
    aside = (f"{row.name}: {row.notes[-1]}" for row in rows if row.built_with)
    caveats = verdict.caveats if verdict.fabric else ()
    rule = (
        *caveats,
        f"Rule: {verdict.rule}.",
        *(change.sentence for change in verdict.changes),
        *aside,
    )
    slower = {name: time_s / min(times_s.values()) - 1 for name, time_s in times_s.items()}
    if basis.barred and times_s:
        fastest = sold[min(times_s, key=times_s.__getitem__)]
        slower |= {name: 0.0 for name in slower if basis.same_time(sold[name], fastest)}
    return _recommended(answer, verdict, sold, rule, slower)


def _recommended(
    answer: CostAnswer,
    verdict: Verdict,
    sold: Collection[str],
    rule: tuple[str, ...],
    slower: Mapping[str, float],
) -> Recommendation:
    """What a verdict says among the bills, and why."""
    if verdict.fabric is None:
        tied = [bill for bill in answer.bills if bill.name in verdict.tied]
        more = any(bill.quote.unpriced for bill in tied)
        start = "" if verdict.sentence.startswith("Undecided") else "Order none yet: "
        return Recommendation(
            None,
            f"{start}{verdict.sentence}" + (" Parts without a price come on top." if more else ""),
            rule,
            verdict,
        )
    chosen = next(bill for bill in answer.bills if bill.name == verdict.fabric)
    rivals = [bill for bill in answer.bills if bill.name in sold and bill is not chosen]
    others = [bill for bill in rivals if bill.complete]
    turned = {change.fabric for change in verdict.changes}
    untold = {name: late for name, late in slower.items() if name not in turned}
    sentence = _sentence(answer.scale, chosen, others, slower)
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
    bills = {bill.name: bill for bill in answer.bills}
    served: list[tuple[str, TokenCost | None, Bill | None]] = [
        (row.fabric, row.served, bills.get(row.fabric))
        for row in answer.served
        if row.fabric in bought
    ]
    return recommend_step(answer, bought, cheapest(served, answer.currency))


def recommend_step(
    answer: CostAnswer, bought: Collection[str], verdict: Verdict | None
) -> Recommendation:
    """Where what runs costs least, a step of post-training or tokens, by the verdict on that.

    Parameters
    ----------
    answer
        The bills.
    bought
        Fabrics that somebody sells for the accelerator: one of them is ordered.
    verdict
        Where a step, or a million tokens, cost least; None where nothing has a price.

    Returns
    -------
    Recommendation
        What to order, if anything, and why.
    """
    bills = {bill.name: bill for bill in answer.bills}
    if verdict is not None and verdict.fabric is not None and verdict.fabric not in bills:
        verdict = None
    if verdict is None:
        return _none(answer, {})
    recommended = _recommended(answer, verdict, bought, (f"Rule: {verdict.rule}.",), {})
    sentence = recommended.sentence
    if recommended.fabric:
        sentence += f" {verdict.sentence}"
    return replace(recommended, sentence=sentence)


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
    amount = f"costs {least}{money.number(price.base)} {money.title}{_spread(money, chosen)}"
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
        compared = f"{100 * late:.1f} % slower than the fastest"
        text += f". It trains {compared if late > AS_FAST else 'as fast as any of them'}"
    return f"{text}."


def _spread(money: Scale, bill: FabricBill) -> str:
    """The range in brackets; no high where the book has none above the base."""
    price = bill.capital
    if not price.spread:
        return ""
    low, high = money.number(price.low), money.number(price.high)
    if high == money.number(price.base):
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
    least = {bill.name: difference_range(chosen.quote, bill.quote).low for bill in dearer}
    clear = [name for name, saved in least.items() if saved > 0]
    overlap = [name for name, saved in least.items() if saved <= 0]
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


MOST_DRAWN_LINKS = 400_000
"""Links up to which racks name their devices [1]."""


@dataclass(frozen=True, repr=False)
class Findings:
    """Answers of the questions that a report asks.

    Its definition names chapters and template; the library holds the catalog files in use.
    """

    definition: ReportDefinition
    cost: CostAnswer
    comparison: Comparison
    library: Library
    date: str = ""
    tokens: float | None = None
    faults: "FaultsAnswer | None" = None
    terms: RunTerms | None = None
    failures: FailureBook | None = None
    books: BillBooks | None = None
    chip: Accelerator | None = None
    simulation: "SimulateAnswer | None" = None
    serving: "ServingAnswer | None" = None
    step: "PostTrainingAnswer | None" = None
    cases: ComparisonCases | None = None
    """All accelerators, or card rates, that were asked for, of which this is one."""

    case: str = ""
    """Which of them it is."""

    beyond: Callable[[Bill], tuple[str, str]] | None = None
    """What answers on spares and growth of a bill."""

    halls: Callable[[Bill, Bill], str] | None = None
    """What answers in which other halls the order of two bills turns."""

    @property
    def serves(self) -> bool:
        """Whether the cluster serves."""
        return self.comparison.serves

    @property
    def post_trains(self) -> bool:
        """Whether the cluster does post-training, timed or not."""
        return self.comparison.inputs.get("workload") == "post-training"

    @property
    def reinforces(self) -> bool:
        """Whether steps of post-training are timed on the fabrics."""
        return self.comparison.reinforces

    @property
    def stepped(self) -> "dict[str, Stepped]":
        """Steps of post-training by fabric, with their price."""
        return {row.name: row.stepped for row in self.comparison.rows if row.stepped}

    @cached_property
    def run_tokens(self) -> tuple[float, str] | None:
        """Tokens of one training run [1], and where the number comes from, if the model has any.

        Raises
        ------
        InputError
            If the number asked for is not positive.
        """
        model = self.library.of_role(WORKLOADS.role)
        if self.serves or self.post_trains:
            return None
        return run_tokens(model, self.tokens) if isinstance(model, Model) else None

    @cached_property
    def runs(self) -> tuple[TrainingRun, ...]:
        """One training run on every fabric that has a price and an iteration time."""
        if self.post_trains:
            return ()
        iterations = None
        if self.run_tokens is not None:
            a_step = self.comparison.inputs["batch"] * self.library.first(Model).sequence_length
            iterations = ceil(self.run_tokens[0] / a_step)
        return training_runs(self.cost, self.comparison, iterations)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The question with all defaults filled in."""
        return {
            "report": self.definition.name,
            **self.comparison.inputs,
            **self.cost.inputs,
            "tokens": self.run_tokens[0] if self.run_tokens else None,
            "simulate": self.simulation is not None,
            "set": dict(self.library.replaced),
        }

    @property
    def canonical_inputs(self) -> str:
        """The inputs as the JSON that is hashed: keys in order, no spaces."""
        return json.dumps(self.inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def input_sha256(self) -> str:
        """SHA-256 of the canonical inputs, in hexadecimal."""
        return hashlib.sha256(self.canonical_inputs.encode()).hexdigest()

    @property
    def timed(self) -> dict[str, PlanTime]:
        """The best plan of each timed fabric."""
        return {row.name: row.best for row in self.comparison.rows if row.best}

    @cached_property
    def recommendation(self) -> Recommendation:
        """What to order."""
        names = [row.name for row in self.comparison.bought]
        if self.serves:
            return recommend_server(self.cost, names)
        if self.reinforces:
            return recommend_step(self.cost, names, self.comparison.verdict)
        run = self.terms.run(self.cost.inputs["gpus"]) if self.terms else None
        basis = replace(self.comparison.basis, run=run, money=self.cost.scale)
        probe = self._probe if self.comparison.probe else None
        return recommend(self.cost, self.comparison.rows, basis, probe)

    @cached_property
    def decision(self) -> Decision | None:
        """The verdict as data, with answers to a buyer's ten questions."""
        verdict = self.recommendation.verdict
        if verdict is None or self.beyond is None:
            return verdict.decision if verdict else None
        bills = {bill.name: bill for bill in (self.chosen, *self.cost.bills)}
        specs = {spec.name: spec for spec in self.library.all(FabricSpec)}
        facts = Facts(bills, specs, self.beyond, self.cost.left_out, self.chip, self.halls)
        answers = ten_answers(verdict.decision, self.recommendation.sentence, facts)
        if answers is not None and self.over_cases:
            answers = replace(
                answers, order=f"{self.over_cases[0]} Of {self.case}: {answers.order}"
            )
        return replace(verdict.decision, answers=answers)

    @cached_property
    def over_cases(self) -> tuple[str, ...]:
        """What to order of all cases that were asked for, and of which one the rest is."""
        if self.cases is None:
            return ()
        compared = self.cases.compared
        weighed = all_in(compared)
        words = weighed.sentence if weighed else " ".join(cases_verdict(self.cases.flag, compared))
        why = "the first of these"
        if weighed:
            why = "the cheapest at base prices" if weighed.tied else "which costs least all in"
        return (words, f"What follows is of {self.case}, {why}, alone.")

    def _probe(self, name: str, limit_s: float) -> float | None:
        """Network bandwidth at which a fabric trains so fast; the comparison names its memory."""
        probe = self.comparison.probe
        return probe(self.row(name).label, limit_s) if probe else None

    @cached_property
    def chosen(self) -> FabricBill:
        """Bill that the report shows in full: the recommended one, else the cheapest of a tie."""
        recommended = self.recommendation
        tied = recommended.verdict.tied if recommended.verdict else ()
        name = recommended.fabric or next(iter(tied), "")
        bought = {row.name for row in self.comparison.bought}

        def place(bill: FabricBill) -> tuple[bool, bool, bool, float]:
            return bill.name != name, not bill.complete, bill.name not in bought, bill.capital.base

        return min(self.cost.bills, key=place)

    @cached_property
    def runner_up(self) -> FabricBill | None:
        """Bill beside the chosen one: next by the verdict, else the next cheapest."""
        chosen, verdict = self.chosen.name, self.recommendation.verdict
        bought = {row.name for row in self.comparison.bought}
        others = [bill for bill in self.cost.bills if bill.name != chosen]
        known = [bill for bill in others if bill.name in bought]
        second = verdict.decision.runner_up if verdict else None

        def place(bill: FabricBill) -> tuple[bool, bool, float]:
            return bill.name != second, not bill.complete, bill.capital.base

        return min(known, key=place, default=None)

    @cached_property
    def unsold(self) -> dict[str, str]:
        """Fabrics that no maker sells for the accelerator, and those words."""
        known = {row.name: row.unsold for row in self.comparison.rows if row.unsold}
        return {} if self.chosen.name in known else known

    @property
    def whole_units(self) -> Scale:
        """Scale of amounts in whole units of the currency."""
        return Scale(1.0, self.cost.currency, 0)

    @property
    def cents(self) -> Scale:
        """Scale of small amounts."""
        return Scale(1.0, self.cost.currency, 3)

    @property
    def of_runs(self) -> Scale:
        """Scale of what the networks cost a training run."""
        costs = (run.cost.base for run in self.runs if run.cost)
        return Scale.of(max(costs, default=0.0), self.cost.currency)

    @cached_property
    def racks(self) -> Elevations | None:
        """Racks of the chosen fabric by kind; None where its devices are too many to name."""
        bill = self.chosen
        if self.books is None or bill.fabric.link_count > MOST_DRAWN_LINKS:
            return None
        return elevations(bill, self.chosen_spec, self.books)

    @property
    def chosen_spec(self) -> FabricSpec:
        """The file of the chosen fabric."""
        specs = self.library.all(FabricSpec)
        return next(spec for spec in specs if spec.name == self.chosen.name)

    def row(self, name: str) -> FabricRow:
        """The fabric in the comparison."""
        return next(row for row in self.comparison.rows if row.name == name)


def told_column(
    title: str,
    name: str = "",
    get: Callable[[Any], Cell] | str = "",
    *,
    form: Form = "text",
    digits: int = 0,
) -> Column[Any]:
    """A column of a report alone, by its title."""
    return column(Quantity(name or title.lower(), title, form=form, digits=digits), get)


def range_column(path: str, scale: Scale, unbound: Callable[[Any], bool] = no_high) -> Column[Any]:
    """A column of amounts from low to high."""
    return span_column(path, scale, "low to high", unbound=unbound)


SOURCE = told_column("Source", form="prose")
