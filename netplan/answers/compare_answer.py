"""What a comparison answers: one row a fabric, the tables they make, the verdict."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from netplan.answers import bill_columns
from netplan.answers.compare_rows import BASELINE, Compared, FabricRow
from netplan.answers.compare_screen import screen
from netplan.answers.screen_titles import network_title
from netplan.costing.prices import US_DOLLAR
from netplan.costing.pricing import UNSURE
from netplan.performance.barred import barred_columns
from netplan.performance.plan import SearchResult
from netplan.records import replace, value_at
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.quantities import Scale, listed, short_money
from netplan.setup.inputs import hall_words, replaced_lines
from netplan.setup.money.pricing import CASES
from netplan.setup.training import training_words
from netplan.topologies.specs import not_sold
from netplan.units import MEGA

if TYPE_CHECKING:
    from netplan.answers.compare_steps import StepPays


@dataclass(frozen=True, repr=False)
class Comparison(Compared, Answer):
    """The answer of :func:`netplan.compare`."""

    json_parts = (
        *("currency", "fabrics=rows", "verdict", "decision", "?memory_or_gpus=trades"),
        *("by_hb_size", "price_cliffs", "?forwarding=forwarded", "?power_budget=budget"),
    )

    pays: Callable[[], "tuple[StepPays, ...]"] | None = None
    """Oversubscriptions and HB domains of a step of post-training, weighed when read."""

    def summary(self) -> Iterator[show.Section]:
        """Verdict, one table, why the plan has its MFU, rail-only by HB domain, what more."""
        yield from screen(self)

    def in_a_line(self) -> str:
        """What to order, and for how much."""
        verdict = self.verdict
        row = next((row for row in self.rows if verdict and row.label == verdict.fabric), None)
        if verdict and verdict.tied:
            return f"undecided: ask for offers on {listed(verdict.tied)}"
        if row is None or row.cost is None:
            return ""
        least = "" if row.cost_whole else "≥ "
        return f"order {row.label}, {least}{short_money(row.cost.base, self.currency)}"

    def sections(self) -> Iterator[show.Section]:
        """Heading, the verdict, the network, the training run, notes."""
        yield self._heading()
        legend = tuple(self._legend())
        verdict = self.verdict
        if verdict:
            yield show.Paragraph(verdict.sentence, "strong")
            changes = " ".join(change.sentence for change in verdict.changes)
            yield show.Paragraph(f"Rule: {verdict.rule}.{' ' if changes else ''}{changes}")
        yield from (show.Paragraph(trade.sentence, "strong") for trade in self.trades)
        if forwarded := self.forwarded:
            yield show.Paragraph(forwarded.sentence)
        yield from (show.Paragraph(cliff.sentence) for cliff in self.price_cliffs)
        if self.budget:
            yield show.Paragraph(" ".join(self.budget.sentences(self.leading)), "strong")
            yield self.budget.table()
        best = verdict.fabric if verdict else None
        rows, chosen = self.rows, lambda row: row.label == best
        yield show.Table("fabrics", list(self._network()), rows, legend=legend, chosen=chosen)
        if self.serves:
            from netplan.setup.money.run_cost import LEGEND, token_columns

            token_shown = [*self._names(), *token_columns(self.currency)]
            yield show.Table("fabrics", token_shown, self.rows, legend=(LEGEND,))
        elif self.reinforces:
            from netplan.setup.money.step_cost import LEGEND, step_columns

            step_shown = [*self._names(), *step_columns(self.currency)]
            yield show.Table("fabrics", step_shown, self.rows, legend=(LEGEND,))
            for weighed in self.pays() if self.pays else ():
                yield weighed.table(self.currency)
                yield show.Paragraph(" ".join(weighed.sentences))
        elif self.inputs["timing"]:
            interleaved = any(row.best.plan.interleave > 1 for row in self.rows if row.best)
            timed = next((row.timed for row in self.rows if row.timed), None)
            shown = plan_columns(timed, interleaved=interleaved)
            names = (f"breakdown_s.{part}" for part in PARTS)
            shown += [time_column(name, f"best.{name}", timed, "wide") for name in names]
            shown += self._further_parts()
            yield show.Table("fabrics", [*self._names(), *shown, *TRAINING], self.rows)
        yield show.Table("fabrics", NOTES, self.rows, shown="data")
        yield show.Notes.of(((row.label, row.notes) for row in self.rows), "all fabrics")

    def _heading(self) -> show.Heading:
        inputs = self.inputs
        books = f"prices {inputs['prices']}, power {inputs['power']}{hall_words(inputs)}"
        if self.serves:
            from netplan.setup.served_plan import serving_words

            books += f"; {serving_words(inputs)}"
        elif self.reinforces:
            from netplan.answers.post_training_words import step_inputs_words

            books += f"; {step_inputs_words(inputs)}"
        elif inputs["timing"]:
            books += f"; {training_words(inputs)}"
        title = network_title(f"Networks for {inputs['gpus']:,}", inputs | {"switch": None})
        lines = (books, *replaced_lines(inputs, self.currency))
        return show.Heading(f"{title}, {inputs['link_gbps']:g} Gb/s", lines)

    def _names(self) -> Iterator[show.Column[FabricRow]]:
        """What tells a row from others."""
        yield NAME
        if self.inputs["expanded_memories"]:
            yield show.column("expanded_memory", "memory")

    def _further_parts(self) -> Iterator[show.Column[FabricRow]]:
        """Parts of the time that only some iteration models tell apart, so that all sum to it."""
        times = [row.best.breakdown_s for row in self.rows if row.best]
        for part in dict.fromkeys(part for breakdown in times for part in breakdown):
            if part not in (*PARTS, *HIDDEN_PARTS):
                long = part in LONG_PARTS and any(breakdown.get(part) for breakdown in times)
                name = f"breakdown_s.{part}"
                yield show.column(name, f"best.{name}", shown="wide" if long else "data")

    def _network(self) -> Iterator[show.Column[FabricRow]]:
        """Columns of the network: counts, money, power."""
        yield from self._names()
        yield from COUNTS
        scale = self.scale
        yield show.column("currency", lambda _: self.currency, shown="data")
        yield show.column(scale.of_money("cost_base"), "cost.base", mark=_incomplete)
        if any(row.cost.spread for row in self.rows if row.cost):
            yield bill_columns.span_column(
                "cost", replace(scale, digits=0), unbound=bill_columns.no_high
            )
        if self.inputs["expanded_memories"]:
            yield show.column(scale.of_money("memory_cost", "memory"), "memory_cost.base")
            runs = {row.label: row.training_run for row in self.rows}
            costs = {label: run.total.base for label, run in runs.items() if run}
            partly = {label for label, run in runs.items() if run and not run.complete}
            paid = Scale.of(max(costs.values(), default=MEGA), self.currency)
            yield show.column(
                paid.of_money("training_run_cost", f"run, {paid.title}"),
                lambda row: costs.get(row.label),
                mark=lambda row: ("≥ " if row.label in partly else "", ""),
            )
        yield from show.columns("cost_low=low", "cost_high=high", of="cost", shown="data")
        yield show.column(
            "cost_per_gpu", title=f"{self.currency}/GPU", shown="wide", mark=_incomplete
        )
        yield from dollar_columns(self.currency)
        yield show.column("cost_complete", shown="data")
        yield show.column("cost_reduction", mark=partial(_incomplete, sign="≤ "))
        yield show.column("power_w", mark=_unpowered)
        yield show.column("power_complete", "bill.power_complete", shown="data")

    def _legend(self) -> Iterator[str]:
        """What the signs in the tables mean, those that occur."""
        rows = [row for row in self.rows if row.fabric]
        bills = [row.bill for row in rows if row.bill and row.cost]
        apart = list(self.left_out)
        absent = f" Not in the prices: {listed(apart)}." if apart else ""
        yield f"saves: against {BASELINE}.{absent}"
        leading = self.leading
        if leading is not None and leading.in_sites is not None:
            yield leading.sites_words
        if not all(row.sold for row in self.rows):
            yield f"*: {not_sold(self.about.accelerator)}: not in the verdict."
        if any(row.media_given for row in self.rows):
            yield f"†: {bill_columns.GIVEN}."
        if not all(row.fabric.exact for row in rows if row.fabric):
            yield "~: does not divide evenly; as built (the port lower bound is in the notes)."
        if any(bill.cost and bill.cost.spread and bill_columns.open_above(bill) for bill in bills):
            yield bill_columns.NO_HIGH
        if any(_incomplete(row)[0] or _unpowered(row)[0] for row in rows):
            yield "≥, ≤: parts without a price, or a power, are left out (see the notes)."
        if self.terms and (hour := self.terms.hour) and hour.evidence in UNSURE:
            yield f"A GPU hour at {self.terms.gpu_hour:,.2f} {self.currency} is {hour.evidence}."


def _incomplete(row: FabricRow, sign: str = "≥ ") -> tuple[str, str]:
    """The sign of a price, or of what is saved, that leaves parts out."""
    return ("" if row.cost_whole or row.cost is None else sign), ""


def _unsold(row: FabricRow) -> tuple[str, str]:
    """The sign of a fabric that nobody sells for these accelerators."""
    return "", ("" if row.sold else " *") + bill_columns.given_mark(row.bill)[1]


def _unpowered(row: FabricRow) -> tuple[str, str]:
    """The sign of a power that leaves parts out."""
    return ("≥ " if row.power_w is not None and not row.power_whole else ""), ""


def dollar_columns(currency: str, row: str = "") -> Iterator[show.Column[Any]]:
    """Prices whose name says dollars, for programs; nothing in another currency."""
    if currency == US_DOLLAR:
        for case in CASES:
            yield show.column(f"cost_{case}_usd", f"{row}cost.{case}", shown="data")
        yield show.column("cost_per_gpu_usd", f"{row}cost_per_gpu", shown="data")


NAME: show.Column[FabricRow] = show.column("fabric", "name", mark=_unsold)
COUNTS: tuple[show.Column[FabricRow], ...] = (
    *show.columns("sold", "gear", "gear_in_server", shown="data"),
    show.column("tiers", "fabric.tiers.#", shown="wide"),
    show.column(
        "switches",
        "fabric.switches",
        mark=lambda row: ("", "" if row.fabric is None or row.fabric.exact else "~"),
    ),
    *show.columns("switches_lower_bound=fabric.switches_lower_bound", "count_status", shown="data"),
    *show.columns("spare_ports", "links=link_count", of="fabric", shown="wide"),
    show.column("copper_ordered", shown="wide"),
    show.column("copper_cables", "fabric.copper_cables", shown="data"),
    show.column("modules"),
    *show.columns("transceivers", "nic_ports", of="fabric", shown="data"),
    *show.columns("ports_per_gpu", "gpu_bytes_per_s", of="fabric"),
)
PARTS = ("compute", "tensor_comm", "pipeline_comm", "data_comm", "bubble")
HIDDEN_PARTS = ("memory", "expert_comm")
LONG_PARTS = ("attention", "recompute")
DEGREES = ("tensor", "context", "expert", "pipeline", "data")


def plan_columns(
    timed: SearchResult | None, row: str = "", *, interleaved: bool = True
) -> list[show.Column[Any]]:
    """Time, memory and best plan of the timed fabric that stands at a path of each row.

    A plan that is the same on all GPUs, as that of the fabric that is ``timed`` first, shows the
    part of its time in which they exchange, and its grid, if it has one.
    """
    exchange = timed.exchange if timed else None
    shown: list[show.Column[Any]] = [
        *_headline_columns(timed, row),
        show.column("gpus_used", f"{row}best.plan.gpus", title="GPUs"),
        show.column("memory_bytes", f"{row}best.memory_bytes"),
    ]
    if timed and timed.on_grid:
        shown.append(show.column("grid", f"{row}best.plan.grid", shown="people"))
    if exchange:
        sent = time_column("exchange_s", f"{row}best.breakdown_s.{exchange}", timed)
        return [*shown, sent, show.column("exchange_share", f"{row}best.shares.{exchange}")]
    return [
        *shown,
        show.column("degrees", f"{row}best.plan.shape", shown="people"),
        show.column("schedule", f"{row}best.plan.schedule", shown="people"),
        show.column(
            "interleave", f"{row}best.plan.interleave", shown="all" if interleaved else "data"
        ),
    ]


def _headline_columns(timed: SearchResult | None, row: str) -> Iterator[show.Column[Any]]:
    """Iteration time and utilisation, with error bars if they have them."""
    if timed and timed.best.error:
        best, mfu = (partial(value_at, path=f"{row}{name}") for name in ("best", "mfu"))
        yield from barred_columns(best, mfu)
    else:
        yield time_column("iteration_time_s", f"{row}best.iteration_time_s", timed)
        yield show.column("mfu", f"{row}mfu")


def time_column(
    name: str, path: str, timed: SearchResult | None, shown: show.Shown = "all"
) -> show.Column[Any]:
    """A column of times of an iteration; that of a model without layers may be very short."""
    if timed and timed.exchange:
        return show.column(name, path, shown=shown, form="si", digits=4)
    return show.column(name, path, shown=shown)


TRAINING: tuple[show.Column[FabricRow], ...] = (
    *show.columns(*(f"breakdown_s.{part}" for part in HIDDEN_PARTS), of="best", shown="data"),
    *show.columns(*DEGREES, "microbatch", "microbatches", of="best.plan", shown="data"),
)
NOTES: tuple[show.Column[FabricRow], ...] = (show.column("notes", lambda row: " ".join(row.notes)),)
