"""The verdict of a procurement report: three lines, the runner-up beside it, what would change it.

A fabric that costs as much, or trains as fast within the model's error, is called a tie.
"""

from collections.abc import Iterator
from typing import NamedTuple

from netplan.answers.bill_columns import open_above
from netplan.answers.training_runs import TrainingRun
from netplan.costing.fabric_bill import FabricBill
from netplan.costing.lifetime import WATTS_PER_KILOWATT
from netplan.costing.materials import CABLE_PARTS, SWITCH_PARTS
from netplan.decide.candidates import AS_FAST
from netplan.decide.difference import difference_words, differences
from netplan.performance.plan import PlanTime
from netplan.procurement.findings import Findings, told_column
from netplan.records import value_at
from netplan.reports.quantities import DASH, Scale, listed
from netplan.reports.sections import Heading, Notes, Paragraph, Section, Table
from netplan.setup.money.pricing import carbon_text
from netplan.setup.money.run_cost import TokenCost
from netplan.setup.money.step_cost import Stepped
from netplan.units import PERCENT


def headline(findings: Findings) -> tuple[str, ...]:
    r"""Three lines that a board can read: what to order, what it costs in use, why.

    Examples
    --------
    >>> from netplan.procurement.report import procurement
    >>> asked = {"gpus": 32768, "radix": 128, "prices": "rail-only-2023", "timing": False}
    >>> lines = headline(procurement("rail-only-paper", **asked,
    ...     fabrics=("rail-optimized", "rail-only")))
    >>> lines[0][:59]
    'Order rail-only: its network for 32,768 GPUs costs at least'
    >>> lines[2]
    'Why: lowest cost, of rail-optimized and rail-only. rail-optimized instead: 1,024 switches
    +98.0 M, 131,072 modules +49.0 M.'
    """
    return (findings.recommendation.sentence, *_in_use(findings), *_why(findings))


def _in_use(findings: Findings) -> Iterator[str]:
    """What it costs over the years, a run, and a useful PFLOP/s, beside the runner-up."""
    order, other = _sides(findings)
    if order.bill.cost is None:
        return
    days = f" of {order.run.days:,.1f} days" if order.run and order.run.days else ""
    years = f"Over {order.bill.life.years} years, with energy and upkeep, present value"
    of_steps = f" of {order.stepped.price.steps:,} steps" if order.stepped else ""
    amounts = (
        (years, findings.cost.scale, OVER_LIFE),
        (f"a training run{days}", findings.of_runs, OF_A_RUN),
        ("a useful PFLOP/s", findings.whole_units, USEFUL),
        ("a million tokens", findings.cents, OF_TOKENS),
        (f"a step{order.bound}", findings.cents, OF_A_STEP),
        (f"a run{of_steps}{order.bound}", findings.whole_units, OF_STEPS),
    )
    parts = []
    for what, scale, path in amounts:
        amount, rival_amount = value_at(order, path), value_at(other, path)
        if amount is None:
            continue
        text = f"{what[0].upper()}{what[1:]}: {order.least}{scale.number(amount)} {scale.title}"
        if other is not None and rival_amount is not None:
            text += f" ({other.bill.name} {other.least}{scale.number(rival_amount)})"
        parts.append(text)
    yield f"{'. '.join(parts)}."


def _why(findings: Findings) -> Iterator[str]:
    """The rule, and what was not told apart."""
    verdict = findings.recommendation.verdict
    candidates = {row.name for row in findings.comparison.bought}
    names = [bill.name for bill in findings.cost.bills if bill.name in candidates]
    if verdict is None:
        yield from findings.recommendation.reasons[:1]
        return
    runner_up = findings.runner_up
    text = f"Why: {verdict.rule}"
    if len(names) > 1:
        text += f", of {listed(names)}"
    if verdict.tied:
        text += f". {listed(verdict.tied)} tie, so the cheapest of them is shown in full"
    if runner_up is not None:
        parts = difference_words(runner_up, findings.chosen)
        text += f". {runner_up.name} instead: {parts}"
    yield f"{text}."


OVER_LIFE, OF_A_RUN, OF_TOKENS = "over_life", "run.cost.base", "served.cost.total.base"
USEFUL = "run.price_per_pflops.base"
OF_A_STEP, OF_STEPS = "stepped.price.step.total.base", "stepped.price.run.total.base"
"""Paths to amounts of a :class:`SupplierColumn`: the network over its years and for a training run,
a million tokens, a useful 10^15 FLOP/s, a step of post-training and a run of them."""


class SupplierColumn(NamedTuple):
    """One fabric of the two that are put side by side, with its run and its best plan."""

    bill: FabricBill
    run: TrainingRun | None
    timed: PlanTime | None
    served: TokenCost | None = None
    stepped: Stepped | None = None

    @property
    def bound(self) -> str:
        """That a step is a bound from below, in words; empty of an estimate."""
        return ", at least" if self.stepped and self.stepped.bound else ""

    @property
    def step_text(self) -> str:
        """A step of post-training for people."""
        from netplan.setup.post_training_words import least

        return least(self.stepped.trained) if self.stepped else DASH

    @property
    def least(self) -> str:
        """The sign before sums that leave parts out."""
        return "≥ " if self.bill.quote.unpriced else ""

    @property
    def over_life(self) -> float | None:
        """Present value of the price, and of the energy and upkeep of all years."""
        return self.bill.life.present_value.base if self.bill.cost else None

    def shown(self, amount: float | None, scale: Scale) -> str:
        """An amount that grows with the price."""
        return DASH if amount is None else f"{self.least}{scale.number(amount)}"

    def ends(self, scale: Scale) -> str:
        """Low to high of the price, in words where the book has no spread."""
        price = self.bill.capital
        if self.bill.cost is None:
            return DASH
        if not price.spread:
            return "no range in the book"
        least = price.base if open_above(self.bill) else None
        return scale.span(price.low, price.high, between=" to ", least=least)

    @property
    def time_text(self) -> str:
        """The iteration for people."""
        if self.timed is None:
            return DASH
        timed = self.timed
        return timed.time_text if timed.error else f"{timed.iteration_time_s:.3f} s"

    @property
    def rate_text(self) -> str:
        """Tokens of answers in a second."""
        return f"{self.served.plan.tokens_per_s:,.0f}" if self.served else DASH

    @property
    def days_text(self) -> str:
        """Days of a training run."""
        return f"{self.run.days:,.1f}" if self.run and self.run.days else DASH

    @property
    def power_text(self) -> str:
        """Power [kW]."""
        power_w = self.bill.power_w
        sign = "≥ " if self.bill.draw.unknown else ""
        return DASH if power_w is None else f"{sign}{power_w / WATTS_PER_KILOWATT:,.1f}"

    @property
    def carbon_kg(self) -> float | None:
        """What the energy of a year emits [kg CO2e]."""
        return self.bill.life.carbon_kg_per_year.base or None

    @property
    def carbon_text(self) -> str:
        """The same with its low and high [t CO2e]."""
        sign = "≥ " if self.bill.draw.unknown else ""
        return f"{sign}{carbon_text(self.bill)}" if self.carbon_kg else DASH

    @property
    def counts_text(self) -> str:
        """What is bought of each, spares and networks beside included."""
        parts = SWITCH_PARTS, ("transceiver",), tuple(CABLE_PARTS.values())
        counts = (self.bill.ordered(*some) for some in parts)
        return " / ".join(f"{count:,}" for count in counts)


def _sides(findings: Findings) -> tuple[SupplierColumn, SupplierColumn | None]:
    """The order, and the runner-up if there is one."""
    runs = {run.fabric: run for run in findings.runs}
    served = {row.fabric: row.served for row in findings.cost.served}

    def side(bill: FabricBill) -> SupplierColumn:
        name, times = bill.name, findings.timed
        steps = findings.stepped.get(name)
        return SupplierColumn(bill, runs.get(name), times.get(name), served.get(name), steps)

    return side(findings.chosen), side(findings.runner_up) if findings.runner_up else None


class OrderFigure(NamedTuple):
    """One figure of the order, of the runner-up, and by how much the order has less."""

    what: str
    chosen: str
    second: str = DASH
    difference: str = ""


def answers_chapter(findings: Findings) -> Iterator[Section]:
    """A buyer's ten questions, each with the answer of the verdict's record."""
    decision = findings.decision
    if decision is None or decision.answers is None:
        return
    yield Heading("Ten questions, answered", (), "answers")
    columns = [
        told_column("Question", get="0", form="text"),
        told_column("Answer", get="1", form="prose"),
    ]
    yield Table("answers", columns, decision.answers.rows())


def decision_chapter(findings: Findings) -> Iterator[Section]:
    """The order beside the runner-up, figure by figure."""
    order, other = _sides(findings)
    alone = findings.recommendation.fabric is not None
    words = "The order beside the runner-up" if alone else "The cheapest beside the next"
    yield Heading(words, (), "decision")
    columns = [
        told_column("", "figure", "what"),
        told_column(order.bill.name, "order", "chosen", form="code"),
    ]
    if other is not None:
        columns += [
            told_column(other.bill.name, "runner_up", "second", form="code"),
            told_column("order against it", "difference", "difference", form="code"),
        ]
    lines = [line for line in _lines(findings, order, other) if line.chosen != DASH]
    yield Table("decision", columns, lines, shown="people")
    if other is not None:
        yield from _parts(findings, order.bill, other.bill)


def _parts(findings: Findings, chosen: FabricBill, runner_up: FabricBill) -> Iterator[Section]:
    """What the runner-up has more or less, part by part."""
    scale = findings.cost.scale
    parts = [part for part in differences(chosen, runner_up) if part.changed]
    columns = [
        told_column("Part", "part", "item"),
        told_column(chosen.name, "order", "count_a", form="count"),
        told_column(runner_up.name, "runner_up", "count_b", form="count"),
        told_column(
            f"difference, {scale.title}",
            "difference",
            lambda part: (
                "no price"
                if part.unpriced_more
                else f"{part.difference / scale.factor:+,.{scale.digits}f}"
            ),
            form="code",
        ),
    ]
    if parts:
        title = "What separates the two, part by part, the largest first"
        yield Table("parts", columns, parts, title, shown="people")


def _lines(
    findings: Findings, order: SupplierColumn, other: SupplierColumn | None
) -> Iterator[OrderFigure]:
    """Figures of the order, beside those of the runner-up."""
    scale, whole, of_runs = findings.cost.scale, findings.whole_units, findings.of_runs
    ends = f"low to high, {scale.title}"
    amounts = (
        ("Price of the network", scale, "bill.capital.base"),
        ("Price for one GPU", whole, "bill.per_gpu.base"),
        (f"Over {order.bill.life.years} years, energy and upkeep", scale, OVER_LIFE),
        ("Network for a training run", of_runs, OF_A_RUN),
        ("Price of a useful PFLOP/s", whole, USEFUL),
        ("A million tokens", findings.cents, OF_TOKENS),
        (f"A step{order.bound}", findings.cents, OF_A_STEP),
        (f"A run of steps{order.bound}", whole, OF_STEPS),
    )
    for number, (words, used, path) in enumerate(amounts):
        what = f"{words}, {used.title}"
        value, theirs = value_at(order, path), value_at(other, path)
        shown = other.shown(theirs, used) if other else DASH
        yield OrderFigure(what, order.shown(value, used), shown, _more(value, theirs))
        if not number:
            yield OrderFigure(ends, order.ends(scale), other.ends(scale) if other else DASH)
    texts = (
        ("Power, kW", "power_text", "bill.power_w"),
        ("Carbon, t CO2e a year", "carbon_text", "carbon_kg"),
        ("One iteration", "time_text", "timed.iteration_time_s"),
        ("One step", "step_text", "stepped.step_s"),
        ("Tokens a second", "rate_text", "served.plan.tokens_per_s"),
        ("Days of a training run", "days_text", ""),
        ("Switches / modules / cables, ordered", "counts_text", ""),
    )
    for what, text, path in texts:
        value, theirs = (value_at(side, path) if path else None for side in (order, other))
        shown = getattr(other, text) if other else DASH
        yield OrderFigure(what, getattr(order, text), shown, _more(value, theirs))


def _more(value: float | None, other: float | None) -> str:
    """By how much the order has less, as a share of the runner-up as everywhere in the report."""
    if value is None or not other:
        return ""
    share = value / other - 1
    return "the same" if abs(share) < AS_FAST else f"{PERCENT * share:+,.1f} %"


def changes_chapter(findings: Findings) -> Iterator[Section]:
    """What would turn the verdict round: prices, bandwidth, the value of a day."""
    yield Heading("What would change the verdict", (), "changes")
    recommended = findings.recommendation
    texts = [reason for reason in recommended.reasons if not reason.startswith(ELSEWHERE)]
    second = findings.runner_up
    names = {findings.chosen.name, second.name} if second else set()
    verdict = recommended.verdict
    tied, changes = (verdict.tied, verdict.changes) if verdict else ((), ())
    if tied:
        texts.append(f"Nothing known tells {listed(tied)} apart: the lower offer decides.")
    texts += [text for text in findings.cost.statements if all(name in text for name in names)][:1]
    levers = {change.sentence for change in changes}
    ordered = sorted(texts, key=lambda reason: reason not in levers)
    yield Notes(tuple(("", reason) for reason in ordered))
    if not texts:
        yield Paragraph("Nothing: no other fabric competes.")


ELSEWHERE = ("Rule: ", "Without a price, ")
"""What of the reasons stands in the headline, and in the box of what is not priced."""
