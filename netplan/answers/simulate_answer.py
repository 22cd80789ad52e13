"""What a simulated iteration answers: its time beside the closed forms, and where it waits."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from msgspec import Struct

from netplan.answers.congestion_answer import RoutedDesign
from netplan.answers.screen_titles import screen_heading
from netplan.performance.barred import ENDS, barred_column
from netplan.performance.error_bars import ErrorBar, bar_dict, time_text
from netplan.performance.plan import Plan
from netplan.performance.spread import OverSites
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.axes import spread
from netplan.reports.schema import plain_at
from netplan.reports.screen import Screen, more_of
from netplan.setup.served_plan import ServedPlan
from netplan.simulation import outcome
from netplan.simulation.charts import gantt, trace
from netplan.units import PERCENT, counted, rounded, si

SHOWN_ROWS, SCREEN_ROWS = 12, 6
"""Rows that people see of a long pipeline, and on a screen [1]."""

LEAST_DIFFERENCE = 5e-4
"""From which on times differ for people [%]."""

OF_SHARED_LINKS = (
    *("sharing", "routing", "seeds", "connections", "uncontended_time_s", "times_s"),
    *("slowdown_p50", "slowdown_bad", "bad_is", "time_low_s", "time_high_s", "error_basis"),
    *("hot_links", "solves", "flows", "classes"),
)
"""Facts of links that are shared, in JSON."""


class JobRow(Struct, frozen=True):
    """One of several jobs on a fabric: an iteration alone, and the mean beside the others [s].

    ``intact_time_s`` is that mean on links that are all whole; None where they are. ``error`` says
    how far these times may be off, if the iteration model knows.
    """

    json_parts = "*", "-error", "slowdown", "*bars"

    name: str
    model: str
    plan: Plan
    alone_s: float
    together_s: float
    iterations: int
    intact_time_s: float | None = None
    error: ErrorBar | None = None

    @property
    def slowdown(self) -> float:
        """Time beside the others over that alone, less one [1]."""
        return self.together_s / self.alone_s - 1

    @property
    def loss(self) -> float:
        """Time beside the others over that on whole links, less one [1]."""
        return self.together_s / (self.intact_time_s or self.together_s) - 1

    @property
    def bars(self) -> dict[str, Any]:
        """Ends of both times and what they rest on, as JSON; nothing without a bar."""
        if self.error is None:
            return {}
        alone, together = map(self.error.whole.of, (self.alone_s, self.together_s))
        return {
            "alone_low_s": alone[0],
            "alone_high_s": alone[1],
            "together_low_s": together[0],
            "together_high_s": together[1],
            "error_basis": self.error.basis,
        }


class TileRow(Struct, frozen=True):
    """A stage of operators: which, on how many tiles, what these hold, and what memory carries.

    ``moved_bytes`` are those of all tiles for a microbatch [B].
    """

    stage: int
    kernels: str
    tiles: int
    held: str
    moved_bytes: float


@dataclass(frozen=True, slots=True, repr=False)
class SimulateAnswer(Answer):
    """The answer of :func:`netplan.simulate`: of one plan, or of several jobs on one fabric.

    ``counts`` is what the batch counts, such as sequences, ``error`` how far the plan's time may be
    off; ``over`` is the closed form of a run over several sites; ``design`` what contention makes
    of the time, where links are shared as a fluid.
    """

    json_parts = (
        *("*found", "*known_bar", "utilisation", "gpus_used=all_gpus", "plan", "jobs", "notes"),
        *("?over_sites=over", "?tiles", "*served", "-rank", "-gpus_used", "*shared_links_json"),
    )

    inputs: dict[str, Any]
    heading: show.Heading
    found: outcome.SimulationOutcome
    plan: Plan | None = None
    jobs: tuple[JobRow, ...] = ()
    notes: tuple[str, ...] = ()
    counts: str = "sequences"
    error: ErrorBar | None = None
    served: ServedPlan | None = None
    gpus_used: int | None = None
    tiles: tuple[TileRow, ...] = ()
    over: OverSites | None = None
    design: RoutedDesign | None = None

    @property
    def shared_links_json(self) -> dict[str, Any]:
        """What links that are shared as a fluid make of the time, as in JSON; nothing if booked.

        What a design of ``netplan congestion`` has, without its price.
        """
        if self.design is None:
            return {}
        basis = self.served.error_basis if self.served else self.known_bar.get("error_basis")
        return {"iteration_error_basis": basis} | plain_at(self.design, *OF_SHARED_LINKS)

    @property
    def utilisation(self) -> list[float]:
        """Share of the iteration in which each stage computes [1]."""
        whole = self.found.iteration_time_s
        return [stage.compute_s / whole for stage in self.found.stages]

    @property
    def known_bar(self) -> dict[str, Any]:
        """Ends and basis of the error bar, as in JSON; nothing without one."""
        return bar_dict(self.found.iteration_time_s, self.error) if self.error else {}

    @property
    def all_gpus(self) -> int:
        """GPUs of the servers, of the plan, or of all jobs [1]."""
        used = self.served.gpus_used if self.served else self.gpus_used
        plans = [self.plan] if self.plan else [job.plan for job in self.jobs]
        return used or sum(plan.gpus for plan in plans)

    @property
    def _names(self) -> list[str]:
        """Names of the jobs."""
        return [job.name for job in self.jobs]

    def trace(self) -> str:
        """The simulated passes and transfers as a Chrome trace, which Perfetto opens."""
        events = trace(self.found, self.heading.title, self._names)
        return json.dumps(events, separators=(",", ":")) + "\n"

    def summary(self) -> Iterator[show.Section]:
        """The time beside closed forms and the bound, stages or jobs, the busiest links."""
        table = next(
            part
            for part in (*self._job_tables(), *self._stages())
            if isinstance(part, show.Table) and part.shown != "data"
        )
        busiest = [
            f"{group.group} {si(group.busy_s, 's')}, {PERCENT * group.utilisation:.1f} % on average"
            for group in self.found.groups
        ]
        groups = f"Busiest link of each group: {'; '.join(busiest)}."
        yield from Screen(
            screen_heading(self.inputs, self.heading),
            (self._of_jobs() if self.jobs else self._verdict(),),
            replace(table, legend=table.legend[:1]),
            (*([groups] if busiest else []), self._simulated(), *self.notes[1:]),
            more_of("links, notes", "--slow host=0.5", "--timeline run.html", page=False),
            most_rows=SCREEN_ROWS,
        ).sections()

    def in_a_line(self) -> str:
        """The time of an iteration, or what jobs lose to each other."""
        if self.jobs:
            return self._of_sharing().removesuffix(".")
        return time_text(self.found.iteration_time_s, self.error)

    def sections(self) -> Iterator[show.Section]:
        """Heading, the time in words, the stages by time, what waits where, what was simulated."""
        taken = "booked on" if self.inputs.get("sharing", "booked") == "booked" else "sharing"
        booked = f"{counted(self.found.bookings, 'message')} {taken} links"
        booked = booked if self.found.bookings else "No message could wait for another"
        took = f"{booked} (computed in {si(self.found.seconds, 's', 2)})."
        yield replace(self.heading, lines=(*self.heading.lines, took))
        if not self.jobs:
            yield show.Table(
                "iteration", [*ITERATION, *(BARRED if self.error else ())], [self], shown="data"
            )
        yield show.Paragraph(self._of_jobs() if self.jobs else self._verdict(), "strong")
        yield from self._job_tables()
        if self.found.spans:
            yield gantt(self.found, self._names)
        yield from self._stages()
        if self.tiles:
            title, shown = "What runs where", spread(self.tiles, SHOWN_ROWS)
            yield show.Table("tiles", TILES, self.tiles, shown="data")
            yield show.Table("tiles", TILES, shown, title, TILES_LEGEND, shown="people")
        if handovers := self.found.handovers:
            table, title = "handovers", "What adapter tiles hand on for a microbatch"
            legend, few = HANDOVERS_LEGEND, spread(handovers, SHOWN_ROWS)
            yield show.Table(table, HANDOVERS, handovers, shown="data")
            yield show.Table(table, HANDOVERS, few, title, legend, shown="people")
        if self.found.groups:
            yield show.Table("groups", GROUPS, self.found.groups, "Links", legend=GROUPS_LEGEND)
        if self.found.links:
            yield show.Table("links", LINKS, self.found.links)
        yield show.Paragraph(self._simulated())
        yield show.Notes.of([("", self.notes)])

    def _job_tables(self) -> Iterator[show.Section]:
        """A row a job, where there are several."""
        if self.jobs:
            degraded = any(job.intact_time_s is not None for job in self.jobs)
            barred = any(job.error for job in self.jobs)
            yield show.Table("jobs", job_columns(degraded=degraded, barred=barred), self.jobs)
            yield show.Table("iteration", TOGETHER, [self.found], shown="data")

    def _stages(self) -> Iterator[show.Section]:
        """Where the time of each stage goes; for people those that are alike in one row."""
        shown_columns = stage_columns(self.found.iteration_time_s)
        stages = [(stage, stage) for stage in self.found.stages]
        yield show.Table("stages", shown_columns, stages, shown="data")
        if self.jobs:
            return
        alike = [
            (same[0], same[-1])
            for _, group in groupby(self.found.stages, _as_shown)
            for same in [list(group)]
        ]
        shown = spread(alike, SHOWN_ROWS)
        left = "" if len(shown) == len(alike) else f", {len(shown)} of {len(alike):,} kinds"
        title = f"Where the time of {counted(len(stages), 'stage')} goes{left}"
        yield show.Table("stages", shown_columns, shown, title, STAGES_LEGEND, shown="people")

    def _verdict(self) -> str:
        """The time, beside closed forms and the bound."""
        run = self.found
        taken_s, rate = run.iteration_time_s, rounded(run.sequences_per_s)
        unit = "a batch" if self.inputs["inference"] else "an iteration"
        unit = "a round, in which every request gets a token" if self.served else unit
        steady = (
            " without a pause between batches" if self.tiles and self.inputs["inference"] else ""
        )
        lines = [f"{time_text(taken_s, self.error)} {unit}, {rate} {self.counts}/s{steady}."]
        if run.analytic_time_s:
            lines.append(against("Closed forms have", run.analytic_time_s, taken_s))
        if self.design is not None:
            alone_s = self.design.uncontended_time_s
            lines.append(against("Without contention it is", alone_s, taken_s))
        if run.intact_time_s and run.slow:
            lines.append(f"With every GPU at full rate it is {si(run.intact_time_s, 's', 4)}.")
        elif run.intact_time_s:
            lines.append(against("On links that are whole it is", run.intact_time_s, taken_s))
        lines += self._of_slow()
        lines.append(f"No schedule beats {si(run.lower_bound_s, 's', 4)} ({run.binding}).")
        messages_s = sum(group.waited_s for group in run.groups) or run.waiting_s
        stages_s = sum(stage.waiting_s for stage in run.stages)
        waits = f"Messages wait {si(messages_s, 's')} for links in all"
        passes = f", stages {si(stages_s, 's')} in their passes" if stages_s else ", no pass does"
        lines.append(f"{waits}{passes}." if messages_s else "Nothing waits for a link.")
        return " ".join(lines)

    def _of_slow(self) -> Iterator[str]:
        """What slow GPUs cost and who waits for them, and times with jitter."""
        slow, jitter = self.found.slow, self.found.jitter
        if slow is not None:
            what, alone = ("round", "server") if self.served else ("iteration", "replica")
            waits = {
                "in their stage, operation by operation": slow.group_gpus,
                f"in the other stages of their {alone}, pass by pass": slow.pipeline_gpus,
                "in other replicas, for their gradients": slow.replica_gpus,
            }
            who = "; ".join(f"{count:,} {where}" for where, count in waits.items() if count)
            yield (
                f"{counted(slow.gpus, 'slow GPU')} {'costs' if slow.gpus == 1 else 'cost'}"
                f" {PERCENT * slow.lost_share:.3g} % of the {what} under this plan;"
                f" {PERCENT * slow.waiting_share:.3g} % of the GPUs wait"
                f"{f' ({who})' if who else ''}."
            )
        if jitter is not None:
            taken_s, of = self.found.iteration_time_s, "rounds" if self.served else "iterations"
            more = f"{PERCENT * (jitter.p50_s / taken_s - 1):.2g} %"
            yield (
                f"Jitter of {PERCENT * jitter.spread:g} % on each stretch of computing:"
                f" p50 {si(jitter.p50_s, 's', 4)} (+{more}), p95 {si(jitter.p95_s, 's', 4)}"
                f" of {jitter.draws} {of}."
            )

    def _of_jobs(self) -> str:
        """What the jobs lose to each other, and to links that are slow or have failed."""
        sentences = [self._of_sharing()]
        if self.design is not None:
            lost = max(self.design.jobs, key=lambda job: job.slowdown_p50)
            who = f"Without contention {lost.name} takes"
            sentences.append(against(who, lost.uncontended_time_s, lost.time_s))
        worst = max(self.jobs, key=lambda job: job.loss)
        if worst.intact_time_s:
            who = f"Whole links give {worst.name}"
            sentences.append(against(who, worst.intact_time_s, worst.together_s))
        return " ".join(sentences)

    def _of_sharing(self) -> str:
        """What the jobs lose to each other."""
        worst = max(self.jobs, key=lambda job: job.slowdown)
        if worst.slowdown < LEAST_DIFFERENCE / 100:
            return "No job is slower beside the others than alone."
        slow = [job for job in self.jobs if job.slowdown >= LEAST_DIFFERENCE / 100]
        return (
            f"{len(slow):,} of {counted(len(self.jobs), 'job')} lose time to the others:"
            f" {worst.name} takes {100 * worst.slowdown:.3g} % more,"
            f" {si(worst.together_s, 's', 4)} instead of {si(worst.alone_s, 's', 4)}."
        )

    def _simulated(self) -> str:
        """How much was simulated, and how much is counted instead."""
        run = self.found
        every = counted(run.microbatches, "microbatch", "microbatches")
        sentence = f"Simulated: {run.microbatches_simulated:,} of {every}"
        if self.jobs:
            sentence += f" of the job with the most, {si(run.iteration_time_s, 's', 4)} in all"
        if run.period is not None:
            sentence += f", since the run repeats itself every {run.period:,}"
        if run.replicas > 1:
            sentence += f"; {run.replicas_simulated:,} of {run.replicas:,} replicas"
        return f"{sentence}."


def against(
    who: str, other_s: float, taken_s: float, least: float = LEAST_DIFFERENCE, digits: int = 3
) -> str:
    """The time beside that of closed forms or whole links; the same where less apart [%]."""
    more = PERCENT * (taken_s / other_s - 1) if other_s else 0.0
    sentence = f"{who} {si(other_s, 's', 4)}"
    if abs(more) < least:
        return f"{sentence}, the same."
    return f"{sentence}: it takes {abs(more):,.{digits}g} % {'more' if more > 0 else 'less'}."


RUN = (
    *("iteration_time_s", "analytic_time_s", "intact_time_s", "lower_bound_s", "binding"),
    *("sequences_per_s", "waiting_s", "microbatches", "microbatches_simulated", "period"),
    *("replicas", "replicas_simulated", "bookings"),
)
ITERATION: list[show.Column[SimulateAnswer]] = [
    show.column("model", lambda answer: str(answer.inputs["model"])),
    *show.columns(*RUN, of="found"),
]
BARRED: list[show.Column[SimulateAnswer]] = show.columns(*ENDS, of="known_bar")
TOGETHER: list[show.Column[outcome.SimulationOutcome]] = show.columns(*RUN)
TILES: list[show.Column[TileRow]] = show.columns("stage", "kernels", "tiles", "held", "moved_bytes")
TILES_LEGEND = ("moved: what all cores of a stage read and write for a microbatch.",)
GROUPS: list[show.Column[outcome.GroupOutcome]] = [
    *show.columns("group", "directions", "unused"),
    show.column("busy_s", title="busiest"),
    *show.columns("waited_s"),
    show.column("utilisation", title="mean", digits=1),
]
HANDOVERS: list[show.Column[outcome.HandoverOutcome]] = [
    *show.columns("stage", "adapter_tiles=adapters", "sent_bytes"),
    show.column("hop_bytes", shown="wide"),
    *show.columns("handover_time_s=time_s", "handover_source_s=source_s"),
    *show.columns("handover_between_s=between_s", "handover_adapters_s=adapters_s"),
    *show.columns("handover_broadcast_s=broadcast_s"),
]
HANDOVERS_LEGEND = (
    "Forward, from each stage to the next one, where nothing else is on the links.",
    "source: sums there. between: groups. sums: of adapters. spread: to their shares.",
)
GROUPS_LEGEND = (
    "directions: two a link. busiest: how long the busiest of them carries something.",
    "mean: all of them, as a share of the whole time.",
)
LINKS: list[show.Column[outcome.LinkOutcome]] = [
    show.column("busiest", "name", shown="people"),
    *show.columns("link", "sender", "receiver", shown="data"),
    *show.columns("group", "busy_s", "waited_s", "utilisation"),
]
STAGES_LEGEND = (
    "communicates: collectives that nothing hides. waits: for links, in its passes.",
    "idle: bubble, transfers, other stages.",
)


StageRow = tuple[outcome.StageOutcome, outcome.StageOutcome]
"""The first and the last of stages that follow each other and are alike."""


def stage_columns(whole_s: float) -> list[show.Column[StageRow]]:
    """Columns of the stages: where the time goes, and the share of it in which they compute."""
    return [
        show.column("stage", "0.stage", shown="data"),
        show.column(
            "stages",
            lambda row: "-".join(dict.fromkeys(f"{stage.stage}" for stage in row)),
            shown="people",
        ),
        show.column("compute_s", "0.compute_s", title="computes"),
        show.column("communication_s", "0.communication_s", title="communicates"),
        show.column("waiting_s", "0.waiting_s", title="waits"),
        show.column("idle_s", "0.idle_s"),
        show.column("utilisation", lambda row: row[0].compute_s / whole_s, digits=1),
    ]


def job_columns(*, degraded: bool, barred: bool) -> list[show.Column[JobRow]]:
    """Columns of the jobs; on links that are slow or have failed, with the time on whole ones."""
    together: show.Column[JobRow] = show.column("together_s", title="together")
    times: list[show.Column[JobRow]] = [show.column("alone_s"), together]
    if barred:
        error = attrgetter("error")
        pairs = (barred_column(name, attrgetter(name), error) for name in ("alone_s", "together_s"))
        times = [column for pair in pairs for column in pair]
    return [
        *show.columns("job=name", "model", "gpus=plan.gpus", "degrees=plan.shape"),
        *times,
        *(show.columns("intact_time_s") if degraded else []),
        show.column("slowdown"),
        show.column("iterations", shown="wide" if degraded else "all"),
    ]


def _as_shown(stage: outcome.StageOutcome) -> tuple[str, ...]:
    """The times of a stage as people see them."""
    parts = stage.compute_s, stage.communication_s, stage.waiting_s, stage.idle_s
    return tuple(si(part, "s") for part in parts)
