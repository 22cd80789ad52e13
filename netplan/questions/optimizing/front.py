"""What an optimization answers: the front, what its steps cost, how it was proven, what to know."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from netplan.answers.bill_columns import NO_HIGH, no_high, span_column
from netplan.answers.budget_answer import Budget
from netplan.answers.compare_answer import dollar_columns, plan_columns
from netplan.answers.compare_rows import FabricRow
from netplan.answers.screen_titles import network_words, titled
from netplan.costing.fabric_bill import Bill, BillBooks
from netplan.decide.candidates import Candidate
from netplan.decide.record import Decision, beside_the_next
from netplan.faults.damage.survival import SwitchLoss
from netplan.performance.error_bars import bar_note
from netplan.performance.pareto import knee
from netplan.performance.plan import PlanTime
from netplan.performance.proof import Levels, ProofResult, Searches
from netplan.questions.optimizing.designs import (
    ConstraintCount,
    Design,
    Objective,
    Space,
    book_name,
    label,
    ports,
    ratio_text,
    short_labels,
    unpriced_parts,
)
from netplan.questions.optimizing.found_graphs import FoundGraphs
from netplan.questions.optimizing.hb_gear import HbSizes
from netplan.records import asdict, replace
from netplan.reports import sections as report
from netplan.reports.answer import Answer
from netplan.reports.charts import Chart
from netplan.reports.front_chart import FrontPoint, front_chart
from netplan.reports.quantities import Scale, money, quantity
from netplan.reports.screen import Screen, columns_of, more_of
from netplan.setup.inputs import hall_words, replaced_lines
from netplan.setup.money.memory_or_gpus import MemoryTradeoff
from netplan.setup.training import training_words
from netplan.topologies.specs import FabricSpec, not_sold
from netplan.units import counted, gbps, si
from netplan.workloads.accelerators import Accelerator

NAMED_EQUALS = 3

FoundBy = Mapping[str, Mapping[Levels, ProofResult]]
"""What was found on the levels that were searched, by the expanded memory."""


class FrontRow(Struct, frozen=True):
    """One point of the front: its design, timed, with the loss of the worst single switch.

    Points are numbered from 1. Of designs that are exactly as good in both one stands for all.
    """

    json_parts = (
        *("*design", "*row", "-cost_reduction", "survives_switch=loss.survives"),
        *("worst_switch_share=loss.share", "equal"),
    )
    """What is saved is left out: it is against a fabric that may not be in the space."""

    number: int
    design: Design
    row: FabricRow
    best: PlanTime
    loss: SwitchLoss
    equal: tuple[Design, ...]

    @property
    def name(self) -> str:
        """The design in a few words."""
        return label(self.design)

    @property
    def bill(self) -> Bill | None:
        """Its bill."""
        return self.row.bill

    @property
    def time_s(self) -> float:
        """Iteration time [s]."""
        return self.best.iteration_time_s


class FrontStep(Struct, frozen=True):
    """From one point of the front to the next: what is paid for what speed."""

    faster: float
    """Gain in speed, which is one over the iteration time [1]."""

    price: float
    """What it costs more [currency or W]."""

    @property
    def per_percent(self) -> float:
        """Price of one percent of speed [currency or W]."""
        return self.price / (100 * self.faster)


class DesignCounts(Struct, frozen=True):
    """How many designs there are, how many can be built, meet each demand and all, have no time."""

    json_parts = (
        *("designs=size", "built", "cannot_be_built", "constraints", "feasible"),
        *("without_time=untimed", "searches", "plans_evaluated=searches.plans"),
    )

    size: int
    built: int
    constraints: tuple[ConstraintCount, ...]
    feasible: int
    untimed: int
    searches: Searches

    @property
    def cannot_be_built(self) -> int:
        """Designs that no family makes [1]."""
        return self.size - self.built


@dataclass(frozen=True, slots=True, repr=False)
class Optimization(Answer):
    """The answer of :func:`netplan.optimize`: the front, cheapest first, and how it was proven."""

    json_parts = (
        *("currency", "front=rows", "knee", "decision", "steps=step_facts", "space=tally", "notes"),
        *("?memory_or_gpus=trades", "?hb_sizes=sizes.rows", "?graphs", "?power_budget=budget"),
    )

    inputs: dict[str, Any]
    objective: Objective
    rows: tuple[FrontRow, ...]
    tally: DesignCounts
    notes: tuple[str, ...]
    currency: str
    trades: tuple[MemoryTradeoff, ...] = ()
    sizes: HbSizes = field(default_factory=HbSizes)
    graphs: FoundGraphs | None = None
    beaten: tuple[tuple[Design, float], ...] = ()
    """Designs off the front whose iteration time is known, with it [s]."""
    budget: Budget | None = None

    @property
    def spared(self) -> int:
        """Designs off the front that a bound proves beaten, without a time [1]."""
        front = sum(1 + len(row.equal) for row in self.rows)
        return max(self.tally.feasible - self.tally.untimed - len(self.beaten) - front, 0)

    @property
    def points(self) -> list[tuple[float, float]]:
        """Cost or power, and iteration time [s], of each row."""
        return [(row.design.value(self.objective), row.best.iteration_time_s) for row in self.rows]

    @property
    def knee(self) -> int | None:
        """Row where the front bends most; None below three rows."""
        return knee(self.points)

    def step(self, number: int) -> FrontStep:
        """What the next row gives for what price."""
        (paid, slow), (price, fast) = self.points[number : number + 2]
        return FrontStep(slow / fast - 1, price - paid)

    @property
    def decision(self) -> Decision:
        """The design where the front bends, beside the next one, which is faster."""
        bend, step = self.knee or 0, None
        bend_and_next = [
            Candidate(
                label(row.design),
                row.row.cost.base if row.row.cost else 0.0,
                row.row.cost_complete,
                row.best.iteration_time_s,
                None,
                0.0,
                timed=row.best,
                bill=row.row.bill if row.row.cost else None,
            )
            for row in self.rows[bend : bend + 2]
        ]
        if len(bend_and_next) > 1:
            step = asdict(self.step(bend)) | {"per_percent": self.step(bend).per_percent}
        rule = f"where {self.objective} against iteration time bends most"
        record = Decision("buy", rule, next_best_step=step)
        return beside_the_next(record, bend_and_next[0], bend_and_next[1:])

    @property
    def step_facts(self) -> list[dict[str, float | bool]]:
        """What is paid for each step; where times have error bars, whether it is within them."""
        unit = "usd" if self.objective == "cost" else "w"
        facts = []
        for number, row in enumerate(self.rows[:-1]):
            step = self.step(number)
            fact: dict[str, float | bool] = {
                "faster": step.faster,
                f"price_{unit}": step.price,
                f"price_per_percent_{unit}": step.per_percent,
            }
            if row.best.error is not None:
                fact["within_error"] = self.equal(number)
            facts.append(fact)
        return facts

    def summary(self) -> Iterator[report.Section]:
        """Where the front bends, its designs, which HB domains to buy, what is left out."""
        heading = self._heading()
        (books, training, *replaced), inputs = heading.lines, self.inputs
        words = {"radix": inputs["radices"][0] if len(inputs["radices"]) == 1 else None}
        hb_size = inputs["hb_sizes"][0] if len(inputs["hb_sizes"]) == 1 else None
        where = network_words(inputs | words | {"hb_size": hb_size})
        table = report.Table("front", [*self._network(), *self._timed_columns()], self.rows)
        paid = ("cost_base", "range") if self.objective == "cost" else ("power_w",)
        shown = columns_of(table, *paid, "iteration_time_s", "mfu")
        bend = (self.knee or 0) + 1
        same, labels = short_labels([row.design for row in self.rows])
        title = f"design ({same})" if same else "design"
        design: report.Column[FrontRow] = report.column(
            "label", lambda row: labels[row.number - 1], title=title
        )
        paid_for = (
            f"{self.objective}{', gear inside HB domains too,' if inputs['networks'] else ''}"
        )
        yield from Screen(
            report.Heading(
                titled(inputs, f"{paid_for} against iteration time of {where}"),
                (f"{training}; {books.partition('; ')[2]}", *replaced),
            ),
            tuple(self._sentences()),
            replace(
                table,
                columns=(NUMBER, design, *shown),
                legend=(NO_HIGH,) if self._open else (),
                chosen=lambda row: row.number == bend,
            ),
            tuple(self._remarks()),
            firm_remarks=1 if self.budget else 0,
            more=more_of("all columns, HB sizes, proof", "--for power"),
        ).sections()

    def in_a_line(self) -> str:
        """Where the front bends: the design, its price or power, its time."""
        row = self.rows[self.knee or 0]
        price = self._amount(row.design.value(self.objective))
        return f"{label(row.design)}, {price}, {row.best.time_text}"

    def _remarks(self) -> Iterator[str]:
        """What else is bought, how sure times are, how much was searched, what is left out."""
        if self.budget:
            yield " ".join(self.budget.sentences(self.rows[self.knee or 0]))
        yield from (trade.sentence for trade in self.trades)
        if self.graphs:
            yield self.graphs.sentence
        if self.sizes.best is not None:
            yield self.sizes.in_short
        yield from bar_note(self.rows[0].best.error)
        tally = self.tally
        yield (
            f"Of {counted(tally.size, 'design')} {tally.built:,} can be built,"
            f" {tally.feasible:,} meet every demand; {tally.searches.plans:,} parallel plans timed"
            " or ruled out."
        )
        yield from self.notes

    def _timed_columns(self) -> list[report.Column[Any]]:
        """Iteration times and plans."""
        several = any(row.best.plan.interleave > 1 for row in self.rows)
        timed = next((row.row.timed for row in self.rows if row.row.timed), None)
        return [NUMBER, *plan_columns(timed, "row.", interleaved=several)]

    @property
    def _open(self) -> bool:
        """Whether prices may be higher than their high."""
        return self.objective == "cost" and any(
            row.row.cost and row.row.cost.spread and no_high(row.row) for row in self.rows
        )

    def sections(self) -> Iterator[report.Section]:
        """Heading, networks, training runs, the knee, the proof, notes."""
        yield self._heading()
        legend = (NO_HIGH,) if self._open else ()
        yield report.Table("front", list(self._network()), self.rows, legend=legend)
        training = self._timed_columns()
        if self.inputs["survives_switch"]:
            training.append(report.column("worst_switch_share", "loss.share"))
        yield report.Table("front", training, self.rows, legend=tuple(self._training_legend()))
        yield report.Table("front", FOR_PROGRAMS, self.rows, shown="data")
        yield self._chart()
        yield report.Paragraph(" ".join(self._sentences()), "strong")
        if self.budget:
            sentences = self.budget.sentences(self.rows[self.knee or 0])
            yield report.Paragraph(" ".join(sentences), "strong")
            yield self.budget.table()
        yield from (report.Paragraph(trade.sentence, "strong") for trade in self.trades)
        yield from self.sizes.sections()
        if self.graphs:
            yield from self.graphs.sections()
        yield report.Notes(tuple(("", text) for text in self._proof()))
        named = report.Notes.of((str(row.number), row.row.notes) for row in self.rows)
        yield report.Notes((*(("", note) for note in self.notes), *named.groups))

    def _heading(self) -> report.Heading:
        inputs = self.inputs
        switches = " or ".join(f"{radix:,}" for radix in inputs["radices"])
        books = (
            f"switches of {switches} ports, {inputs['link_gbps']:g} Gb/s; prices"
            f" {inputs['prices']}, power {inputs['power']}{hall_words(inputs)}"
        )
        return report.Heading(
            f"Networks for {inputs['gpus']:,} GPUs: {self.objective} against iteration time",
            (books, training_words(inputs), *replaced_lines(inputs, self.currency)),
        )

    def _chart(self) -> Chart:
        """The front as it is on a page."""
        cost = self.objective == "cost"
        million = Scale(1e6, f"M {self.currency}", 2)
        unit = million.of_money("cost_base") if cost else quantity("power_w")

        def point(number: int, name: str, price: float, time_s: float) -> FrontPoint:
            texts = f"{unit.shown(price)} {unit.title}", si(time_s, "s")
            return FrontPoint(number, name, price / unit.scale, time_s, *texts)

        drawn = []
        for row, place in zip(self.rows, self.points, strict=True):
            span = row.row.cost if cost and not no_high(row.row) else None
            ends = (span.low / unit.scale, span.high / unit.scale) if span else None
            drawn.append(replace(point(row.number, label(row.design), *place), ends=ends))
        beaten = [
            point(0, label(design), design.value(self.objective), time_s)
            for design, time_s in self.beaten
        ]
        axis = f"{'price' if cost else 'power'}, {unit.title}"
        return front_chart(drawn, self.knee or 0, axis, beaten, self.spared)

    def _network(self) -> Iterator[report.Column[FrontRow]]:
        """Columns of the networks, with cost or power as the objective asks."""
        title = "switch" if self.inputs["switches"] else "radix"
        yield NUMBER
        yield report.column("fabric", "row.name", title="fabric")
        if self.inputs["expanded_memories"]:
            yield report.column("expanded_memory", "design.memory")
        yield report.column("hb_size", "row.fabric.sizing.hb_size")
        yield report.column("ports", lambda row: ports(row.design), title=title, shown="people")
        yield from report.columns("radix", "switch=switch.name", of="design", shown="data")
        yield report.column(
            "oversub", lambda row: ratio_text(row.design.oversubscription), shown="people"
        )
        yield report.column("oversubscription", "design.oversubscription", shown="data")
        yield report.column("switches", "row.fabric.switches")
        cost = self.objective == "cost"
        costs = [row.row.cost for row in self.rows if row.row.cost]
        scale = Scale.of(max((cost_range.base for cost_range in costs), default=0.0), self.currency)
        yield report.column("currency", lambda _: self.currency, shown="data")
        base = scale.of_money("cost_base")
        yield report.column(base, "row.cost.base", shown="all" if cost else "data")
        if cost and any(cost_range.spread for cost_range in costs):
            yield span_column(
                "row.cost", replace(scale, digits=0), unbound=lambda row: no_high(row.row)
            )
        yield from report.columns("cost_low=low", "cost_high=high", of="row.cost", shown="data")
        yield from dollar_columns(self.currency, "row.")
        yield report.column("power_w", "row.power_w", digits=1, shown="data" if cost else "all")

    def _training_legend(self) -> Iterator[str]:
        """What a column means; designs that are exactly as good as one of the front."""
        if self.inputs["survives_switch"]:
            yield "worst switch: most of an HB domain's network ports that one switch takes along."
        for row in self.rows:
            named = [label(design) for design in row.equal[:NAMED_EQUALS]]
            more = len(row.equal) - len(named)
            if named:
                rest = f"; and {more:,} more" if more else ""
                yield f"As good as {row.number} in both: {'; '.join(named)}{rest}."

    def _amount(self, value: float) -> str:
        return money(value, self.currency) if self.objective == "cost" else si(value, "W")

    def _sentences(self) -> Iterator[str]:
        """Where the front bends, and what the next step costs for each percent of speed."""
        cost = self.objective == "cost"
        if len(self.rows) == 1:
            verb, equals = "costs" if cost else "draws", len(self.rows[0].equal)
            who = "One design beats" if not equals else f"{equals + 1:,} equal designs beat"
            verdict = f"none {verb} less, and none trains faster{self._of_whole}"
            yield f"{who} all others: {verdict}."
            return
        bend = self.knee or 0
        value, time_s = self.points[bend]
        step = self.step(bend)
        bent = f"Where more {'money' if cost else 'power'} begins to buy little time"
        start = bent if self.knee else "Cheapest" if cost else "Least power"
        near, best = self.inputs["within"], self.rows[bend].best
        doubt = f" (the model's error: {100 * near:g} %)" if step.faster <= near else ""
        if best.error is not None:
            doubt = " (within the model's error)" if self.equal(bend) else ""
        shown = best.time_text if best.error else f"{time_s:.3f} s"
        design = f"{bend + 1} ({label(self.rows[bend].design)})"
        yield f"{start}: {design}, {self._amount(value)} and {shown}."
        yield (
            f"The next step, to {bend + 2}, is {100 * step.faster:.2g} % faster{doubt} for"
            f" {self._amount(step.price)} more: {self._amount(step.per_percent)} for each percent."
        )
        last = self.rows[-1]
        row = next(row for row in self.rows if row is last or row.best.equals(last.best))
        if row is not last:
            yield (
                f"Within the model's error {row.number} trains as fast as {last.number}, the"
                " fastest."
            )

    @property
    def _of_whole(self) -> str:
        """Which designs are meant, where some lack prices that set them apart."""
        lacking = any(row.name == "complete" and row.excluded for row in self.tally.constraints)
        whole = "price" if self.objective == "cost" else "power"
        return f", of those whose whole {whole} is known" if lacking else ""

    def equal(self, number: int) -> bool:
        """Whether the model's error leaves no difference between a row and the next."""
        first, second = self.rows[number : number + 2]
        return first.best.equals(second.best)

    def _proof(self) -> Iterator[str]:
        """How many designs there are, what excluded them, and how the front was proven."""
        tally, axes = self.tally, self.inputs
        searches, asked = tally.searches, len(axes["expanded_memories"])
        memories = f", {counted(asked, 'expanded memory', 'expanded memories')}" if asked else ""
        yield (
            f"Space: {counted(tally.size, 'design')} ({counted(len(axes['fabrics']), 'fabric')},"
            f" {counted(len(axes['hb_sizes']), 'HB size')},"
            f" {counted(len(axes['switches'] or axes['radices']), 'switch', 'switches')},"
            f" {counted(len(axes['oversubscriptions']), 'oversubscription')}{memories}; none"
            f" counted twice), of which {tally.built:,} can be built."
        )
        for demand in tally.constraints:
            if demand.excluded or demand.name != "complete":
                unknown = f", {demand.unknown:,} of them unknown" if demand.unknown else ""
                yield (
                    f"Demand: {demand.words}: met by {demand.met:,}, excludes"
                    f" {demand.excluded:,}{unknown}; {demand.alone:,} meet all else."
                )
        untimed = f" ({tally.untimed:,} have no time)" if tally.untimed else ""
        hierarchies = counted(
            searches.levels, "bandwidth hierarchy", "different bandwidth hierarchies"
        )
        yield (
            f"Proof: {counted(tally.feasible, 'design')} meet every demand{untimed}, in"
            f" {hierarchies}. {counted(searches.run, 'plan search', 'plan searches')} run, and"
            f" {searches.bounds:,} for bounds; {searches.spared:,} spared, since a bound proves"
            f" their designs dominated. {searches.plans:,} parallel plans timed or ruled out."
        )


NUMBER: report.Column[FrontRow] = report.column("design", "number", title="")
FOR_PROGRAMS: tuple[report.Column[FrontRow], ...] = (
    report.column("tiers", lambda row: len(row.design.fabric.tiers)),
    *report.columns(
        "links=link_count", "transceivers", "copper_cables", "nic_ports", of="row.fabric"
    ),
    *report.columns("cost_complete=row.cost_complete", "survives_switch=loss.survives"),
    *report.columns("worst_switch_share=loss.share", "tensor=best.plan.tensor"),
    *report.columns("pipeline", "data", "microbatch", "microbatches", of="best.plan"),
    report.column("equal", lambda row: "; ".join(label(design) for design in row.equal)),
    report.column("notes", lambda row: " ".join(row.row.notes)),
)


def notes_of(
    space: Space, feasible: Sequence[Design], timings: FoundBy, valued: tuple[Objective, BillBooks]
) -> Iterator[str]:
    """What was left out of a space and why, and what its costs do not hold."""
    yield from _domain_gear(feasible, *valued)
    yield from _incomplete(space.designs, *valued)
    reasons: dict[str, list[Design]] = {}
    for design in feasible:
        reasons.setdefault(why_no_time(design, timings), []).append(design)
    for reason, members in reasons.items():
        if reason:
            yield (
                f"Without a time, {counted(len(members), 'design')} of {_fabrics(members)}:"
                f" {reason}"
            )
    yield from _unbuildable(space)


def foreign(
    asked: Sequence[FabricSpec], left_out: Sequence[FabricSpec], on: Accelerator
) -> Iterator[str]:
    """Name the fabrics whose accelerators or HB domains are others, in the space and out of it."""
    for start, specs in (
        ("In the space, as asked for, though", asked),
        ("Not in the space, since they are", left_out),
    ):
        others = [spec for spec in specs if spec.built_with(on.name)]
        if others:
            names = ", ".join(f"{spec.name} ({', '.join(spec.accelerators)})" for spec in others)
            yield f"{start} built with other accelerators: {names}."
    unsold = [spec for spec in left_out if spec.support_for(on).unsold]
    unsold = [spec for spec in unsold if not spec.built_with(on.name)]
    if unsold:
        names = ", ".join(spec.name for spec in unsold)
        yield f"Not in the space, since {not_sold(on.sold_in)}: {names}."
    same = [spec for spec in left_out if not spec.built_with(on.name) and spec not in unsold]
    domains = [f"{spec.name} ({spec.hb_size:,})" for spec in same]
    if domains:
        yield f"Not in the space, since they bring HB domains of other sizes: {', '.join(domains)}."


def _domain_gear(
    designs: Sequence[Design], objective: Objective, books: BillBooks
) -> Iterator[str]:
    """Say what of the gear inside HB domains of several sizes is in the sums."""
    if len({design.fabric.sizing.hb_size for design in designs}) == 1:
        return
    if not books.gear_counted:
        yield (
            "Larger HB domains look free here: these are sums of the network, and"
            f" {books.prices.name} has no prices of the gear inside HB domains. To weigh it, take"
            " another book with --prices, or add rows hb_gear to a copy."
        )
    elif objective == "cost":
        yield (
            "Prices hold the gear inside HB domains, in all designs alike, since domains of several"
            " sizes are weighed; that of servers is in the servers' price."
        )
    elif books.gear is not None:
        gear, draw = books.gear.book, books.gear.book.switch_w.range
        yield (
            "Power holds the gear inside HB domains that is bought beside the servers, as assumed:"
            f" {draw.low:g} to {draw.high:g} W an ASIC of"
            f" {gbps(gear.switch_w_bytes_per_s) / 1e3:g} Tb/s. That of servers is in the servers."
        )


def _incomplete(designs: Sequence[Design], objective: Objective, books: BillBooks) -> Iterator[str]:
    """Name the parts without which designs could not be compared, and designs without any part."""
    open_ones = [design for design in designs if not design.complete(objective)]
    left_out = [design for design in open_ones if unpriced_parts((design,), objective)]
    bare = [design for design in open_ones if not unpriced_parts((design,), objective)]
    if bare:
        yield (
            f"Left out, {counted(len(bare), 'design')} of {_fabrics(bare)}: no network to buy,"
            " since all GPUs are in one HB domain."
        )
    if left_out:
        what = "price" if objective == "cost" else "power"
        yield (
            f"Left out, {counted(len(left_out), 'design')} of {_fabrics(left_out)}: no {what} in"
            f" {book_name(books, objective)} for {unpriced_parts(left_out, objective)}, so they"
            f" cannot be proven {'cheaper' if objective == 'cost' else 'to draw less'}."
        )


def why_no_time(design: Design, timings: FoundBy) -> str:
    """Why a design has no time; empty where it has one, or none was worked out."""
    levels = design.fabric.levels
    reason = timings[design.memory].get(levels) if levels else _NOT_FULL
    return reason if isinstance(reason, str) else ""


_NOT_FULL = "their rings are open, or HB domains do not fill them."


def _unbuildable(space: Space) -> Iterator[str]:
    """Say which fabrics lack designs, with the first reason of each."""
    reasons: dict[str, list[str]] = {}
    for choice, reason in space.unbuildable:
        reasons.setdefault(choice.spec.name, []).append(reason)
    built = {design.choice.spec.name for design in space.designs}
    for name, why in reasons.items():
        which = f"{counted(len(why), 'choice')} of {name}" if name in built else f"{name} at all"
        yield f"Cannot be built, {which}: {why[0].removeprefix(f'{name}: ')}."


def _fabrics(designs: Sequence[Design]) -> str:
    return ", ".join(dict.fromkeys(design.choice.spec.name for design in designs))
