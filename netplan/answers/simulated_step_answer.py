"""What ``netplan simulate`` answers about post-training: steps drawn and sent, what waits."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import Struct

from netplan.answers.post_training_words import basis_words, bottleneck_words, length_words
from netplan.answers.screen_titles import screen_heading
from netplan.answers.simulate_answer import against
from netplan.arrays import Floats
from netplan.performance.posttraining.schedules import step_seconds
from netplan.performance.posttraining.step import PostTrainingStep, Role
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.schema import plain_at
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
from netplan.setup.post_training_step import PostTrained
from netplan.setup.post_training_words import job_words, pool_words
from netplan.simulation.drawn_rollouts import DrawnRollouts
from netplan.simulation.outcome import SimulationOutcome
from netplan.simulation.posttraining_charts import step_lanes, step_trace
from netplan.simulation.posttraining_steps import ANSWERS, WEIGHTS, Bar, SteppedRuns, bars_of
from netplan.units import PERCENT, counted, si

BESIDE = ("iteration", "round")
BESIDE_PATHS = tuple(f"{part}_s={part}.iteration_time_s" for part in BESIDE)
"""Parts that are simulated beside the step, and change nothing of it."""
LEAST_DIFFERENCE = 5e-4
"""Share from which on times differ for people [1]."""
MEDIAN, LATE = 50.0, 95.0


class SentWeights(Struct, frozen=True, kw_only=True, rename={"busiest": "hot"}):
    """Weights on the links of the fabric.

    Parameters
    ----------
    wire_s, alone_s
        Until all are there, and where only links that end at a GPU bind [s].
    total_bytes, network_bytes
        All that are sent, and those between HB domains [B].
    flows
        Pairs of GPUs that send [1].
    busiest
        The busiest links: the name of each, how long it carries them [s], and the share of that.
    """

    wire_s: float
    alone_s: float
    total_bytes: float
    network_bytes: float
    flows: int
    busiest: tuple[tuple[str, float, float], ...] = ()


class SimulatedStep(Struct, frozen=True, kw_only=True):
    """Steps of a job, simulated.

    Parameters
    ----------
    trained
        The job, and its step in closed form.
    step
        The step whose synchronisation is that of the links, and whose parts slow GPUs stretch.
    drawn
        Batches of answers; None without rollouts.
    runs
        Steps one after the other.
    sent
        Weights on links; None where closed forms say how long these take.
    round, iteration
        One round of the servers, and one iteration of the trainer; None where there is none.
    slow
        GPUs that are slower than they were built, by pool [1].
    notes
        What is to be known of it.
    """

    json_parts = (
        *("step_s=mean_s", "step_spread_s=spread_s", "runs=runs.sent.shape.1"),
        *("steps_of_run=runs.sent.#", "steps_left_out=runs.warm", "step_of_means_s=of_means_s"),
        *("rollout", "sync=sent", "step.sync_s", *BESIDE_PATHS, "slow_gpus=slow"),
    )

    trained: PostTrained
    step: PostTrainingStep
    drawn: DrawnRollouts | None
    runs: SteppedRuns
    sent: SentWeights | None = None
    round: SimulationOutcome | None = None
    iteration: SimulationOutcome | None = None
    slow: dict[Role, int] = {}
    notes: tuple[str, ...] = ()

    @property
    def mean_s(self) -> float:
        """Mean step over all runs [s]."""
        return float(self.runs.means_s.mean()) + self.step.other_s

    @property
    def spread_s(self) -> float:
        """Standard deviation of the runs' means [s]."""
        means = self.runs.means_s
        return float(means.std(ddof=1)) if len(means) > 1 else 0.0

    @property
    def stream_s(self) -> Floats | None:
        """Work of the batches of each step that overlap on the servers [s]."""
        drawn = self.drawn
        if drawn is None or self.step.mode != "async":
            return None
        return self.scale * drawn.stream_s[drawn.batch]

    @property
    def scale(self) -> float:
        """Measured rollouts over modelled ones [1]."""
        return rollout_scale(self.trained)

    @property
    def of_means_s(self) -> float:
        """The closed form of a step of means that were drawn: what is above it is queueing [s]."""
        if self.drawn is None:
            return self.step.seconds
        rollout_s, stream_s = self.means_s
        phases = replace(self.step.phases, rollout=rollout_s, stream=stream_s)
        behind = self.step.work.staleness if self.step.mode != "sync" else 0.0
        return float(step_seconds(self.step.mode, phases, behind)) + self.step.other_s

    @property
    def means_s(self) -> tuple[float, float]:
        """Mean batch behind those that warm up: until its last answer, and streamed [s]."""
        if self.drawn is None:
            return 0.0, 0.0
        batch = self.drawn.batch[self.runs.warm :]
        times = self.drawn.seconds[batch], self.drawn.stream_s[batch]
        rollout_s, stream_s = (self.scale * float(time.mean()) for time in times)
        return rollout_s, stream_s

    @property
    def rollout(self) -> dict[str, Any] | None:
        """Batches that were drawn, as JSON [s, tokens]; None where nothing was."""
        if (drawn := self.drawn) is None:
            return None
        return {
            "batches": drawn.batches,
            "mean_s": self.means_s[0],
            "stream_s": self.means_s[1],
            "p50_s": self.scale * drawn.percentile_s(MEDIAN),
            "p95_s": self.scale * drawn.percentile_s(LATE),
            "half_s": self.scale * float(drawn.half_s.mean()),
            "longest_tokens": float(drawn.longest.mean()),
            "answer_tokens": float(drawn.tokens.mean()),
        }

    def rolled_s(self) -> float:
        """What servers work of a step, in the mean [s]."""
        rollout_s, stream_s = self.means_s
        return stream_s if self.stream_s is not None else rollout_s

    def busy_share(self, role: Role) -> float:
        """Work of a pool over the mean step [1]."""
        busy_s = self.step.busy_s(role)
        if role in ("rollout", "all"):
            busy_s += self.rolled_s() - self.step.rolled_s
        return min(1.0, busy_s / self.mean_s) if self.mean_s else 0.0


def rollout_scale(trained: PostTrained) -> float:
    """Rollouts of a step over those of the model alone: above 1 where they were measured [1]."""
    modelled_s = trained.servers.rolled.rollouts.seconds if trained.servers else 0.0
    return trained.step.rollouts.seconds / modelled_s if modelled_s else 1.0


class PartRow(NamedTuple):
    """A part of a step, in closed form and as simulated; ``basis`` says what was simulated."""

    part: str
    closed_s: float
    simulated_s: float
    basis: str


class PoolRow(NamedTuple):
    """A pool of a mean step: its work, and what it waits for."""

    role: Role
    gpus: int
    plan: str
    busy_share: float
    idle_s: float
    wait_s: float
    waits_for: str | None


PARTS: tuple[Column[PartRow], ...] = (
    *columns("step_part=part", "closed_s", "simulated_s", "simulated_by=basis"),
)
POOLS: tuple[Column[PoolRow], ...] = (
    *columns("pool_role=role", "pool_gpus=gpus", "pool_plan=plan", "busy_share"),
    column("idle_s", meaning="Time of a step without work"),
    *columns("pool_wait_s=wait_s", "waits_for"),
)
BUSIEST = columns("busiest=0", "busy_s=1", "utilisation=2")
BARS: tuple[Column[Bar], ...] = (
    *columns("step_phase=name", "pool_role=pool", "step_number=step"),
    column("starts_s", meaning="When it begins, from the begin of the timeline on"),
    column("phase_s", "seconds"),
    column("waits_for", lambda bar: bar.waits_for or None),
)


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedStepAnswer(Answer):
    """The answer of :func:`netplan.simulate` about post-training: steps of one job.

    ``simulated`` is what was drawn, sent and run.
    """

    json_parts = "*simulated.trained", "simulated=_with_pools", "parts=_part_rows", "notes=_notes"

    inputs: dict[str, Any]
    simulated: SimulatedStep

    @property
    def _with_pools(self) -> dict[str, Any]:
        """What was simulated, its pools and their timeline, as JSON."""
        return plain_at(self, "*simulated", "pools=_pool_rows", "timeline=_bars")

    @property
    def _notes(self) -> tuple[str, ...]:
        """What is to be known of the step and of what was simulated."""
        return (*self.simulated.trained.notes, *self.simulated.notes)

    def trace(self) -> str:
        """Several steps as a Chrome trace, which Perfetto opens."""
        trained = self.simulated.trained
        events = step_trace(self._bars, trained.pools, job_words(trained))
        return json.dumps(events, separators=(",", ":")) + "\n"

    def summary(self) -> Iterator[Section]:
        """What a step takes, its parts beside closed forms, who waits for what."""
        yield from Screen(
            screen_heading(self.inputs, self._heading(), lower=False),
            tuple(self._verdict()),
            Table("parts", PARTS, [row for row in self._part_rows if row.part not in BESIDE]),
            tuple(self._remarks()),
            more_of("pools, links", "--seed 1", "--timeline run.html", page=False),
        ).sections()

    def in_a_line(self) -> str:
        """What a step takes in the mean."""
        return f"{self._least(self.simulated.mean_s)} a step in the mean"

    def sections(self) -> Iterator[Section]:
        """Heading, verdict, the timeline, parts, pools, links, notes."""
        simulated, trained = self.simulated, self.simulated.trained
        yield self._heading()
        first, *others = self._verdict()
        yield Paragraph(first, "strong")
        yield from map(Paragraph, others)
        bars = self._bars
        yield step_lanes(bars, trained.pools, streams=simulated.stream_s is not None)
        yield Table("parts", PARTS, [*self._part_rows], "Parts of a step", PARTS_LEGEND)
        yield Table("pools", POOLS, [*self._pool_rows], "Pools of a mean step", POOLS_LEGEND)
        if simulated.sent and (links := simulated.sent.busiest):
            yield Table("links", BUSIEST, links, "Links that new weights keep busiest")
        yield Table("timeline", BARS, bars, shown="data")
        notes = (*self._remarks(), *trained.notes, *simulated.notes)
        yield Notes.of([("", notes)])

    def _heading(self) -> Heading:
        """What is simulated, on which GPUs."""
        trained = self.simulated.trained
        inputs = self.inputs
        where = f"HB domains of {inputs['hb_size']:,}, fabric {inputs['fabric']}"
        shared = "fluid" in inputs.get("sharing", "") or inputs["routing"] == "hashed"
        links = f"routing {inputs['routing']}, links {'shared' if shared else 'booked'}"
        return Heading(
            f"Simulated: a{job_words(trained)[1:]}",
            (
                f"{pool_words(trained)}; {where}; {links}",
                f"{length_words(trained)}; seed {inputs['seed']}",
            ),
        )

    def _least(self, seconds: float) -> str:
        """A time in words: at least so long, or an estimate."""
        text = si(seconds, "s", 4)
        return f"at least {text}" if self.simulated.trained.spread is None else text

    def _verdict(self) -> Iterator[str]:
        """The mean step beside its closed form, what queueing adds, and what that is worth."""
        simulated, trained = self.simulated, self.simulated.trained
        means_s = simulated.runs.means_s
        spread = ""
        if means_s.size > 1:
            low, high = (si(float(end), "s", 4) for end in (means_s.min(), means_s.max()))
            spread = f" (mean of {means_s.size} runs, {low} to {high})"
        bound = bottleneck_words(trained.step)
        yield f"A step takes {self._least(simulated.mean_s)}{spread}, set by {bound}."
        least = PERCENT * LEAST_DIFFERENCE
        closed = against("Its closed form has", trained.step.seconds, simulated.mean_s, least, 2)
        queue_s = simulated.mean_s - simulated.of_means_s
        queued = queue_s > LEAST_DIFFERENCE * simulated.mean_s
        yield f"{closed} Batches that differ add {si(queue_s, 's')}." if queued else closed
        yield basis_words(trained)

    @property
    def _part_rows(self) -> Iterator[PartRow]:
        """Parts of a step, in closed form and simulated."""
        simulated, trained = self.simulated, self.simulated.trained
        closed, step, drawn = trained.step, simulated.step, simulated.drawn
        if drawn is not None:
            batches = counted(drawn.batches, "batch", "batches")
            by, (rollout_s, stream_s) = f"{batches} drawn", simulated.means_s
            yield PartRow("rollout", closed.rollouts.seconds, rollout_s, by)
            if simulated.stream_s is not None:
                yield PartRow("stream", closed.rollouts.stream_s, stream_s, by)
        for name, closed_s, seconds in (
            ("score", closed.scored_s, step.scored_s),
            ("swap", closed.swap_s, step.swap_s),
            ("train", closed.train_s, step.train_s),
        ):
            if closed_s:
                by = "slow GPUs" if abs(seconds - closed_s) > LEAST_DIFFERENCE else "closed form"
                yield PartRow(name, closed_s, seconds, by)
        if closed.sync_s or simulated.sent:
            by = "links of the fabric" if simulated.sent else "closed form"
            yield PartRow("sync", closed.sync_s, step.sync_s, by)
        if closed.other_s:
            yield PartRow("other", closed.other_s, step.other_s, "measured")
        yield PartRow("step", closed.seconds, simulated.mean_s, "steps one by one")
        for name, outcome in (("iteration", simulated.iteration), ("round", simulated.round)):
            if outcome is not None and outcome.analytic_time_s:
                time_s = outcome.iteration_time_s
                yield PartRow(name, outcome.analytic_time_s, time_s, "links of its pool")

    @property
    def _pool_rows(self) -> Iterator[PoolRow]:
        """Pools of a mean step."""
        simulated = self.simulated
        servers_s, trainer_s = simulated.runs.waits_s
        waits: dict[Role, tuple[float, str | None]] = {
            "rollout": (servers_s, WEIGHTS),
            "trainer": (trainer_s, ANSWERS),
        }
        for pool in simulated.trained.pools:
            busy = simulated.busy_share(pool.role)
            wait_s, what = waits.get(pool.role, (0.0, None))
            idle_s = (1 - busy) * simulated.mean_s
            row = PoolRow(pool.role, pool.gpus, pool.plan, busy, idle_s, wait_s, what)
            yield row if wait_s else row._replace(waits_for=None)

    @property
    def _bars(self) -> list[Bar]:
        """What pools do in a few steps."""
        simulated = self.simulated
        return [*bars_of(simulated.runs, simulated.step)]

    def _remarks(self) -> Iterator[str]:
        """When answers are there, who waits, weights on links."""
        simulated, drawn = self.simulated, self.simulated.drawn
        for role, count in simulated.slow.items():
            yield (
                f"{counted(count, 'slow GPU')} in pool {role}: the copy of the model, or the"
                " trainer, that it is part of keeps its pace."
            )
        rows = [*self._pool_rows]
        waits = [
            f"{row.role} {si(row.wait_s, 's')} for {row.waits_for}" for row in rows if row.waits_for
        ]
        idle = ", ".join(f"{row.role} {PERCENT * (1 - row.busy_share):.0f} %" for row in rows)
        wait = f"; waits of a step: {', '.join(waits)}" if waits else ""
        yield f"Idle: {idle}{wait}."
        if drawn is not None:
            scale = simulated.scale
            half, middle, late = (
                si(scale * seconds, "s")
                for seconds in (
                    float(drawn.half_s.mean()),
                    drawn.percentile_s(MEDIAN),
                    drawn.percentile_s(LATE),
                )
            )
            yield (
                f"Half of the answers of a batch are there after {half}, the last one after"
                f" {middle} (p50) to {late} (p95)."
            )
        if simulated.sent is not None:
            yield from self._of_links()

    def _of_links(self) -> Iterator[str]:
        """Weights on the links of the fabric."""
        sent, sync = self.simulated.sent, self.simulated.trained.sync
        if sent is None or sync is None:
            return
        crossing = si(sent.network_bytes, "B")
        text = (
            f"New weights: {si(sent.total_bytes, 'B')} in {counted(sent.flows, 'flow')},"
            f" {crossing} between HB domains; {si(sent.wire_s, 's')} on the links"
        )
        text += f", at least {si(sync.bound_s, 's')} by formula"
        more = sent.wire_s / sent.alone_s - 1 if sent.alone_s else 0.0
        if more > LEAST_DIFFERENCE:
            text += f"; {PERCENT * more:.3g} % of it for links that switches share"
        yield f"{text}."


PARTS_LEGEND = (
    (
        "rollout: until the last answer of a batch; stream: its work where slots stay full. step:"
        " what follows from the others, in turn. iteration, round: one of each on the links of its"
        " own pool, beside its closed form; scoring and training take what closed forms say."
    ),
)
POOLS_LEGEND = ("waits: for what is named, between its own work and sending.",)
