"""What ``netplan faults`` answers about post-training: what failures of each pool cost steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from netplan.answers.faults_screen import PARTS, between, spares_words
from netplan.answers.screen_titles import network_words, titled
from netplan.costing.fabric_bill import RefusedFabric
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.setup.faulty_steps import DAY_S, PoolFailure, PoolYears
from netplan.setup.post_training_step import PostTrained
from netplan.setup.post_training_words import job_words, pool_words
from netplan.units import HOURS_PER_YEAR, PERCENT, SECONDS_PER_HOUR, counted, si

GOES_ON = {
    "all GPUs": "goes on",
    "all servers": "goes on",
    "without": "goes on without",
    "spare": "on spare GPUs",
    "spares": "on spare GPUs",
    "stopped": "stops",
}
"""How a pool goes on, in words."""


class SteppedFabric(Struct, frozen=True, kw_only=True):
    """One fabric under failures of both pools.

    Parameters
    ----------
    name, title
        Of the fabric.
    trained
        The job on it, without failures.
    failures
        What one part of each kind of each pool does.
    asked, why_not
        What the failures that were asked for do in each pool, and why they cannot happen in one.
    years
        Years of each pool.
    steps_share, steps_per_day
        Steps that failures leave, of those without any, and steps of a day at most [1].
    notes
        What is to be known of it.
    """

    json_parts = (
        *("fabric=name", "title", "step_s", "trained.basis", "pools=trained.worked", "failures"),
        *("asked", "not_failed=why_not?", "years", "steps_share", "steps_per_day"),
        *("steps_per_year", "notes"),
    )

    name: str
    title: str
    trained: PostTrained
    failures: tuple[PoolFailure, ...]
    asked: tuple[PoolFailure, ...]
    why_not: str
    years: tuple[PoolYears, ...]
    steps_share: float
    steps_per_day: float
    notes: tuple[str, ...] = ()

    @property
    def step_s(self) -> float:
        """A step without failures [s]."""
        return self.trained.step.seconds

    def interruptions(self, *pools: str) -> float | None:
        """Stops a year of some pools; None where there are none of them [1]."""
        rows = [row.interruptions_per_year for row in self.years if row.pool in pools]
        return sum(rows) if rows else None

    @property
    def trainer_interruptions(self) -> float | None:
        """Interruptions of the trainer, or of all GPUs, in a year [1]."""
        return self.interruptions("trainer", "all")

    @property
    def copies_stopped(self) -> float | None:
        """Copies of the servers that stop in a year [1]."""
        return self.interruptions("rollout")

    @property
    def steps_per_year(self) -> float:
        """Steps in a year with failures [1]."""
        return self.steps_per_day * HOURS_PER_YEAR * SECONDS_PER_HOUR / DAY_S


FABRICS: list[show.Column[SteppedFabric]] = show.columns(
    *("fabric=name", "step_s", "trainer_stops=trainer_interruptions", "copies_stopped"),
    *("steps_share", "steps_per_day"),
)
FAILURES: tuple[show.Column[tuple[str, PoolFailure]], ...] = (
    *show.columns("fabric=0", "pool_role=1.pool"),
    show.column("kind", "1.kind", title="failed"),
    show.column("part", "1.part", shown="data"),
    show.column("parts", "1.parts", shown="wide"),
    show.column("pool_goes_on", lambda row: GOES_ON.get(row[1].way, row[1].way)),
    *show.columns("copies_lost", "step_meanwhile_s=step_s", "lost_once_s=lost_s", of="1"),
)
YEARS: tuple[show.Column[tuple[str, PoolYears]], ...] = (
    *show.columns("fabric=0", "pool_role=1.pool", "pool_gpus=1.gpus"),
    *show.columns("pool_stops_per_year=interruptions_per_year", "mtbf_h", "copies_down", of="1"),
    *show.columns("interval_h", "steps_share", of="1"),
)


@dataclass(frozen=True, slots=True, repr=False)
class PostTrainingFaultsAnswer(Answer):
    """The answer of :func:`netplan.faults` about post-training."""

    json_parts = "fabrics", "refused"

    inputs: dict[str, Any]
    fabrics: tuple[SteppedFabric, ...]
    refused: tuple[RefusedFabric, ...] = ()

    def summary(self) -> Iterator[show.Section]:
        """Steps a day, what stops which pool, a table by fabric or of what was asked for."""
        title = titled(self.inputs, f"failures on {network_words(self.inputs)}")
        asked = self._asked_rows()
        table = show.Table("fabrics", FABRICS, self.fabrics)
        if asked:
            table = show.Table("asked", FAILURES, asked)  # type: ignore[arg-type]
        yield from Screen(
            replace(self._heading(), title=title),
            tuple(self._lines()),
            table,
            tuple(self._remarks()),
            more_of("parts, pools", "--rates high", *(() if asked else ("--fail gpu=1",))),
            lines=True,
        ).sections()

    def in_a_line(self) -> str:
        """Steps of a day."""
        days = between([fabric.steps_per_day for fabric in self.fabrics])
        return f"{'at most' if self._least else 'about'} {days} steps a day"

    def sections(self) -> Iterator[show.Section]:
        """Heading, verdict, fabrics, what was asked for, years of pools, single failures, notes."""
        yield self._heading()
        first, *others = self._lines()
        yield show.Paragraph(first, "strong")
        yield from map(show.Paragraph, others)
        yield show.Table("fabrics", FABRICS, self.fabrics, "Steps over the years", STEPS_LEGEND)
        title = f"Failed together: {' '.join(self.inputs['fail'])}"
        if asked := self._asked_rows():
            yield show.Table("asked", FAILURES, asked, title)
        years = [(fabric.name, row) for fabric in self.fabrics for row in fabric.years]
        yield show.Table("years", YEARS, years, "A year of failures of each pool", YEARS_LEGEND)
        every = [(fabric.name, failure) for fabric in self.fabrics for failure in fabric.failures]
        yield show.Table("failures", FAILURES, every, shown="data")
        for fabric in self.fabrics:
            rows = [(fabric.name, failure) for failure in fabric.failures]
            legend = FAILURES_LEGEND if fabric is self.fabrics[-1] else ()
            title = f"{fabric.name}: one part failed"
            yield show.Table("failures", FAILURES, rows, title, legend, shown="people")
        yield show.Notes.of(self._notes(), "all fabrics")

    @property
    def _least(self) -> str:
        """What stands before the time of a step: a bound unless it was measured."""
        return "at least " if self.fabrics[0].trained.spread is None else ""

    def _asked_rows(self) -> list[tuple[str, PoolFailure]]:
        """What the failures that were asked for do, by fabric and pool."""
        return [(fabric.name, failure) for fabric in self.fabrics for failure in fabric.asked]

    def _heading(self) -> show.Heading:
        """What is done, on which GPUs, with which books."""
        trained = self.fabrics[0].trained
        books = f"rates {self.inputs['failures']} ({self.inputs['rates']})"
        recovery = self.inputs.get("recovery")
        kept = f"; recovery {recovery}" if recovery else ""
        return show.Heading(
            f"Failures under post-training: a{job_words(trained)[1:]}",
            (pool_words(trained), f"{books}, seed {self.inputs['seed']}{kept}"),
        )

    def _lines(self) -> Iterator[str]:
        """Steps of a day, what stops which pool, the worst part of each."""
        least = self._least
        for failure in self.fabrics[0].asked:
            does = _does(failure, least)
            yield f"{' '.join(self.inputs['fail'])} in pool {failure.pool}: {does}."
        days = between([fabric.steps_per_day for fabric in self.fabrics])
        share = between([PERCENT * fabric.steps_share for fabric in self.fabrics], ".2f")
        most = "At most" if least else "About"
        yield f"{most} {days} steps a day, {share} % of those without failures."
        interruptions = [
            row.trainer_interruptions
            for row in self.fabrics
            if row.trainer_interruptions is not None
        ]
        copies = [row.copies_stopped for row in self.fabrics if row.copies_stopped is not None]
        both = self.fabrics[0].trained.run.job.colocated
        if interruptions:
            often = f"{between(interruptions, '.3g')} times a year"
            yield (
                f"Both phases stop {often}, and go on from a checkpoint."
                if both
                else f"The trainer stops the step {often}, and goes on from a checkpoint."
            )
        if copies:
            yield (
                f"Servers lose {between(copies, '.3g')} copies a year; rollouts go on with the"
                " others."
            )
        for pool in ("rollout", "trainer", "all"):
            yield from self._worst(pool)

    def _worst(self, pool: str) -> Iterator[str]:
        """The part of a pool whose failure costs steps most."""
        rows = [
            (fabric, row) for fabric in self.fabrics for row in fabric.failures if row.pool == pool
        ]
        if not rows:
            return
        fabric, worst = max(rows, key=lambda row: row[1].step_s or float("inf"))
        part = PARTS.get(worst.kind, f"a part of kind {worst.kind}")
        on = f" of {fabric.name}" if len(self.fabrics) > 1 else ""
        yield f"Worst single part of pool {pool}: {part}{on}: {_does(worst, self._least)}."

    def _remarks(self) -> Iterator[str]:
        """Spares, and fabrics that are not there."""
        level = PERCENT * self.inputs["service_level"]
        pools = {row.pool: [row.spares] for row in self.fabrics[0].years}
        words = ", ".join(f"{pool} {spares_words(rows)}" for pool, rows in pools.items())
        yield f"Spares to keep ({level:g} %) on {self.fabrics[0].name}: {words}."
        yield from (f"{row.name} is not there: {row.reason}" for row in self.refused)

    def _notes(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Why a fabric is not there, or has no such parts; how pools were asked."""
        yield from ((row.name, (row.reason,)) for row in self.refused)
        for fabric in self.fabrics:
            missing = (f"Not failed in one pool: {fabric.why_not}",) if fabric.why_not else ()
            scores = fabric.trained.run.job.score_gpus
            left = (f"Failures of the {scores:,} GPUs that score are not counted.",) * bool(scores)
            yield fabric.name, (EACH_ALONE, *missing, *left, *fabric.notes)


def _does(failure: PoolFailure, least: str) -> str:
    """What a failure does, in words; steps of a bound take at ``least`` what is said."""
    parts = []
    if failure.copies_lost:
        verb = "stop" if failure.copies_lost > 1 else "stops"
        parts.append(f"{counted(failure.copies_lost, 'copy', 'copies')} {verb}")
    if failure.step_s is None:
        parts.append("no step is made until it is repaired")
    else:
        parts.append(f"steps of {least}{si(failure.step_s, 's', 4)} until it is repaired")
    if failure.lost_s:
        parts.append(f"{si(failure.lost_s, 's')} are lost once")
    return ", ".join(parts)


EACH_ALONE = (
    "Each pool was put under failures alone, on a fabric of its own GPUs: a switch that both share"
    " hits both at once."
)
STEPS_LEGEND = (
    (
        "stops: of the trainer; copies: of the model that stop rolling out; of all: steps that"
        " failures leave, of those without any; a day: at most, since steps take at least that."
    ),
)
YEARS_LEGEND = (
    "stops: of the trainer, or copies that stop; down: copies under repair in the mean.",
)
FAILURES_LEGEND = (
    (
        "step: until the part is repaired, at least; once: restart, work that is done again since"
        " the last checkpoint, and half a step; of servers half of the rollouts of a batch."
    ),
)
