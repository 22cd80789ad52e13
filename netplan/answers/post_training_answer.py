"""What ``netplan search`` answers about post-training: a step, its pools, what waits for what."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from netplan.answers.post_training_words import (
    basis_words,
    bottleneck_words,
    idle_words,
    kept_words,
    length_words,
    schedules_words,
    split_words,
)
from netplan.answers.screen_titles import screen_heading
from netplan.performance.plan import RankedPlan
from netplan.performance.posttraining.pools import Split
from netplan.performance.posttraining.step import StepPhase
from netplan.performance.posttraining.timeline import timeline
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import (
    Column,
    Heading,
    Notes,
    Paragraph,
    Section,
    Table,
    column,
    columns,
)
from netplan.setup.money.step_cost import StepPrice
from netplan.setup.post_training_step import PostTrained
from netplan.setup.post_training_words import job_words, least, pool_words, sync_words
from netplan.setup.schedules_beside import ScheduledStep, SchedulesBeside

PHASES: list[Column[tuple[StepPhase, float]]] = columns(
    *("step_phase=0.name", "pool_role=0.pool", "phase_s=0.s", "starts_s=0.starts_s"), "step_share=1"
)
POOLS: tuple[Column[Any], ...] = (
    *columns("pool_role=role", "pool_gpus=gpus", "accelerator", "pool_plan=plan", "busy_share"),
    column("idle_s", meaning="Time of a step without work"),
)
SPLITS: tuple[Column[Split], ...] = tuple(columns("rollout_gpus", "train_gpus", "step_s"))
SCHEDULES: tuple[Column[ScheduledStep], ...] = (
    *columns("schedule_mode=mode", "staleness", "step_s", "speed_up=times"),
)
REACHED: list[Column[tuple[str, Any]]] = columns(
    "sync_way=0", "sync_low_s=1.0", "sync_base_s=1.1", "sync_high_s=1.2"
)


@dataclass(frozen=True, slots=True, repr=False)
class PostTrainingAnswer(Answer):
    """The answer of :func:`netplan.search` about post-training: a step on one fabric.

    ``trained`` is the step, ``price`` what it costs, ``schedules`` how else its pools may take
    turns.
    """

    json_parts = (
        *("*trained", "*price", "schedules=schedules.steps", "fastest_schedule=schedules.verdict"),
        *("sync_reaches_s", "trainer", "trained.rollout", "notes=noted"),
    )

    inputs: dict[str, Any]
    trained: PostTrained
    price: StepPrice
    schedules: SchedulesBeside
    notes: tuple[str, ...] = ()

    @property
    def sync_reaches_s(self) -> dict[str, tuple[float, float, float]]:
        """What new weights take with the rates of printed software, by its name [s]."""
        return self.trained.sync.reaches_s if self.trained.sync else {}

    @property
    def trainer(self) -> RankedPlan | None:
        """The trainer's plan; None where nothing trains."""
        trainer = self.trained.trainer
        return RankedPlan(1, trainer.timed) if trainer else None

    @property
    def noted(self) -> tuple[str, ...]:
        """What is to be known of the step and of the question."""
        return (*self.trained.notes, *self.notes)

    def summary(self) -> Iterator[Section]:
        """What a step takes at least and what binds, its phases, weights on their way, pools."""
        yield from Screen(
            screen_heading(self.inputs, self._heading()),
            (self._verdict(),),
            replace(self._phases(), title=""),
            tuple(self._remarks()),
            more_of("pools, splits, software", "--measured run.yaml"),
        ).sections()

    def in_a_line(self) -> str:
        """What a step takes at least."""
        return f"{least(self.trained)} a step, bound by {self.trained.step.bottleneck}"

    def sections(self) -> Iterator[Section]:
        """Heading, verdict, the timeline, phases, pools, splits, software, notes."""
        trained = self.trained
        yield self._heading()
        yield Paragraph(self._verdict(), "strong")
        yield timeline([*trained.step.timeline], trained.pools, trained.step.seconds)
        yield self._phases()
        rows = [trained.step.of_pool(pool) for pool in trained.pools]
        yield Table("pools", POOLS, rows, "Pools")
        if self.schedules.steps:
            yield Table("schedules", SCHEDULES, self.schedules.steps, "Schedules of these pools")
        if trained.split:
            yield Table("split", SPLITS, trained.split, "Splits that were tried, the best first")
        if trained.sync and trained.sync.reaches_s:
            reached = list(trained.sync.reaches_s.items())
            yield Table("sync", REACHED, reached, "The same weights by published software")
        yield Notes.of([("", (*self._remarks(), *trained.notes, *self.notes))])

    def _heading(self) -> Heading:
        """What a step does, on which GPUs."""
        trained = self.trained
        domain = f"HB domains of {self.inputs['hb_size']:,}, {self.inputs['fabric']}"
        title = job_words(trained)
        return Heading(title, (f"{pool_words(trained)}; {domain}", length_words(trained)))

    def _verdict(self) -> str:
        """What a step takes at least, what binds, and what that is worth."""
        trained = self.trained
        takes = f"A step takes {least(trained)}, set by {bottleneck_words(trained.step)}."
        return f"{takes} {basis_words(trained)}"

    def _phases(self) -> Table[tuple[StepPhase, float]]:
        """Phases of a step."""
        step = self.trained.step
        rows = [(phase, phase.s / step.seconds) for phase in step.timeline]
        return Table("phases", PHASES, rows, "Phases")

    def _remarks(self) -> Iterator[str]:
        """What is most worth knowing beside."""
        trained = self.trained
        plans = "; ".join(f"{pool.role} {pool.plan}" for pool in trained.pools if pool.plan)
        yield f"Plans: {plans}."
        yield from split_words(trained)
        if trained.sync:
            yield sync_words(trained.sync)
        yield from kept_words(trained)
        yield from filter(None, (idle_words(trained), self.price.words))
        yield from schedules_words(self.schedules)
