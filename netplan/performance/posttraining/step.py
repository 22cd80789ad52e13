r"""One step of post-training from the times of its parts: phases, what waits for what, pools.

What servers and trainer take is given; here are rollouts of a batch, how phases follow each other,
which of them binds, and how busy pools are. A step without measurements of the user's own is a
bound from below: printed steps are 1.4 to 4.3 times as long.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.performance.posttraining import schedules
from netplan.performance.posttraining.lengths import Lengths
from netplan.performance.posttraining.rollouts import (
    Batch,
    RoundTime,
    Turns,
    drain_seconds,
    over_sampled,
    rollout_seconds,
    simulate_rollouts,
    stream_seconds,
    token_s,
)

DRAWS = 20
"""Seeded draws of answers that a mean is taken of [1]."""

DECIMALS = 6
"""Of a count that is no whole number yet [1]."""

MOST_DRAWN = DRAWS * 1024 * 16
"""Turns of all draws together, beyond which draws are fewer, but one at least: of many answers
each draw is closer to the mean [1]."""

KEPT_APART = 0.05
"""Share that the mean of kept answers may be off that of all, without a word of it [1]."""

Role = Literal["rollout", "trainer", "score", "all"]
"""Pools of GPUs; ``all`` where phases take turns on the same ones."""


class StepWork(Struct, frozen=True, kw_only=True):
    """What a step has to do, and how its phases may overlap.

    Parameters
    ----------
    lengths
        Lengths of answers [tokens].
    prompts, group
        Prompts of a step, and answers to each [1].
    prompt_tokens
        Of a prompt, P [tokens].
    over_sample, partial
        Answers started over those kept [1], and whether the others go on in the next step.
    turns
        Turns of an answer, and seconds of its environment.
    updates
        Optimizer steps on the answers of a step [1].
    staleness
        Versions of the weights that rollouts may be behind, N [1].
    prefix_cache
        Whether servers take a prompt once for all of its answers.
    hidden
        Share of the synchronisation off the critical path [1].
    """

    lengths: Lengths
    prompts: int
    group: int
    prompt_tokens: float = 0.0
    over_sample: float = 1.0
    partial: bool = False
    turns: Turns = Turns()
    updates: int = 1
    staleness: float = 0.0
    prefix_cache: bool = True
    hidden: float = 0.0

    @property
    def answers(self) -> int:
        """Answers that a step trains on, N [1]."""
        return self.prompts * self.group

    @property
    def started(self) -> int:
        """Answers that a step starts [1]."""
        return _whole_up(self.over_sample * self.answers)

    @property
    def taken(self) -> int:
        """Prompts that servers take, those of answers too that are thrown away [1]."""
        return _whole_up(self.over_sample * self.prompts) if self.prefix_cache else self.started

    def in_flight(self, slots: ArrayLike, replicas: ArrayLike, *, ahead: float = 0.0) -> Floats:
        """Answers that a replica decodes at once where slots stay full, in the mean of all [1].

        Those of a batch, and of as many more as are ``ahead``; at most what it holds.
        """
        dealt = (1 + ahead) * self.started / np.asarray(replicas, dtype=np.float64)
        return np.asarray(np.maximum(np.minimum(slots, dealt), 1.0))

    @property
    def kept(self) -> Lengths:
        """Lengths of the answers that are trained on: of aborted ones the short part is kept."""
        if self.partial or self.started <= self.answers or not self.answers:
            return self.lengths
        below = np.minimum(self.lengths.below * (self.started / self.answers), 1.0)
        return Lengths(below[: int(np.argmax(below >= 1.0)) + 1])

    @property
    def mode(self) -> schedules.Mode:
        """How pools take turns: a staleness of 1 is one step off, all others stream."""
        if self.staleness == 0:
            return "sync"
        return "one-off" if self.staleness == 1 else "async"

    @property
    def trains(self) -> bool:
        """Whether anything is trained."""
        return self.updates > 0

    @property
    def rolls_out(self) -> bool:
        """Whether anything is rolled out."""
        return self.answers > 0


def _whole_up(count: float) -> int:
    """The next whole number, but for what products of decimals are off by: 1.1 x 100 is 110."""
    return ceil(round(count, DECIMALS))


class Servers(Struct, frozen=True):
    """Servers of a pool, as rollouts see them.

    Parameters
    ----------
    replicas, slots
        Copies of the model that decode by themselves, R, and requests that each holds, S [1].
    rounds
        Time of a round.
    prompt_s
        Of a prompt, which it takes of a replica [s].
    bent_s
        What a batch takes longer since rounds are no straight line in their requests [s].
    streamed
        Time of a round of a stream, with answers of later batches in flight; None for ``rounds``.
    """

    replicas: int
    slots: int
    rounds: RoundTime
    prompt_s: float = 0.0
    bent_s: float = 0.0
    streamed: RoundTime | None = None

    def busy(self, work: StepWork, *, ahead: float = 0.0) -> float:
        """Slots of a replica that answers have where they stay full, in the mean of all [1]."""
        return float(work.in_flight(self.slots, self.replicas, ahead=ahead))


class Rollouts(NamedTuple):
    """Rollouts of a batch: seconds, tokens.

    Parameters
    ----------
    seconds, stream_s
        Until the last answer that is kept, and of a batch in steady state [s].
    tail_s, environment_s, prefill_s
        Parts of the former: rounds of the tail, waits for environments, prompts [s].
    longest, kept_mean
        Expected longest answer, and mean of those that are kept [tokens].
    thrown_tokens
        Of answers that are thrown away [tokens].
    """

    seconds: float = 0.0
    stream_s: float = 0.0
    tail_s: float = 0.0
    environment_s: float = 0.0
    prefill_s: float = 0.0
    longest: float = 0.0
    kept_mean: float = 0.0
    thrown_tokens: float = 0.0


def rollouts_of(work: StepWork, servers: Servers) -> Rollouts:
    """Rollouts of a step on a pool.

    Parameters
    ----------
    work, servers
        What is rolled out, and on what.

    Returns
    -------
    Rollouts
        Expected ones; with turns the mean of seeded draws.

    Examples
    --------
    >>> work = StepWork(lengths=Lengths.lognormal(2000, 8000, cap=16384), prompts=64, group=16)
    >>> pool = Servers(4, 256, RoundTime(10.695e-3, 86.54e-6))
    >>> rollouts = rollouts_of(work, pool)
    >>> round(rollouts.seconds, 1), round(rollouts.stream_s, 1), round(rollouts.longest)
    (199.1, 65.7, 14410)
    """
    lengths = work.lengths
    if not work.rolls_out:
        return Rollouts()
    prefill_s = work.taken / servers.replicas * servers.prompt_s
    batch = Batch(
        answers=work.answers,
        replicas=servers.replicas,
        slots=servers.slots,
        prompt_tokens=work.prompt_tokens,
        prefill_s=prefill_s,
    )
    ahead, line = work.staleness, servers.streamed or servers.rounds
    busy = servers.busy(work, ahead=ahead)
    stream_s = prefill_s + stream_seconds(lengths, batch, line, busy)
    rollouts = Rollouts(
        seconds=0.0,
        stream_s=stream_s,
        prefill_s=prefill_s,
        longest=float(lengths.longest(work.answers)),
        kept_mean=lengths.mean,
    )
    if work.started > work.answers:
        return _over_sampled(work, servers, batch, rollouts)
    rollouts = rollouts._replace(tail_s=drain_seconds(lengths, batch, servers.rounds))
    if work.turns.count == 1 or not work.turns.environment_s:
        seconds = rollout_seconds(lengths, batch, servers.rounds) + servers.bent_s
        return rollouts._replace(seconds=seconds)
    seconds = prefill_s + drawn_seconds(work, batch, servers.rounds)
    waits_s = (work.turns.count - 1) * work.turns.environment_s
    return rollouts._replace(seconds=seconds, environment_s=waits_s)


def drawn_seconds(work: StepWork, batch: Batch, rounds: RoundTime) -> float:
    """Mean of seeded draws, without prompts [s]."""
    turns = batch.answers * work.turns.count
    draws = max(1, min(DRAWS, MOST_DRAWN // turns))
    drawn = (
        simulate_rollouts(work.lengths, batch, rounds, turns=work.turns, seed=draw)
        for draw in range(draws)
    )
    return sum(one_draw.seconds for one_draw in drawn) / draws


def _over_sampled(work: StepWork, servers: Servers, batch: Batch, rollouts: Rollouts) -> Rollouts:
    """Rollouts of which more are started than kept: aborted, or gone on with in the next step.

    Aborted ones that all have a slot decode for as many rounds as the last kept one, and kept ones
    are the short ones. Where some wait for a slot, no more is known than a bound: N answers take
    m (N / S R + 1) - 2 r rounds at least (renewals, Lorden, 1970), in which as many answers as are
    never kept are on their way, and kept ones are no shorter than the short ones.
    """
    lengths, rounds = work.lengths, servers.rounds
    if work.partial:  # slots stay full from one step to the next
        stream_s = stream_seconds(lengths, batch, rounds, servers.busy(work))
        return rollouts._replace(seconds=batch.prefill_s + stream_s)
    kept_rounds, kept_mean, thrown = over_sampled(lengths, work.answers, work.started)
    kept_tokens = work.answers * kept_mean
    last, made = kept_rounds, kept_tokens + thrown
    slots = servers.slots * servers.replicas
    if work.started > slots:
        renewed = lengths.mean * (work.answers / slots + 1) - 2 * lengths.rest
        last = max(last, kept_tokens / slots, renewed)
        made = max(kept_tokens, last * min(slots, work.started - work.answers))
    # Every answer that is kept has waited for its environment, too.
    waits_s = (work.turns.count - 1) * work.turns.environment_s
    last_s = max(rounds.fixed_s * last, rounds.fixed_s * kept_rounds + waits_s)
    token_work_s = token_s(lengths, batch, rounds) * made / servers.replicas
    return rollouts._replace(
        seconds=batch.prefill_s + last_s + token_work_s,
        tail_s=rounds.fixed_s * kept_rounds,
        environment_s=waits_s,
        longest=kept_rounds,
        kept_mean=kept_mean,
        thrown_tokens=made - kept_tokens,
    )


class StepPhase(NamedTuple):
    """A phase of a step: its pool, how long it takes, and when it starts [s]."""

    name: str
    pool: Role
    s: float
    starts_s: float


class Pool(Struct, frozen=True):
    """GPUs of one role.

    Parameters
    ----------
    role, gpus, accelerator
        What they do, how many [1], and which.
    plan
        Degrees of their plan, in words; empty where they have none.
    """

    role: Role
    gpus: int
    accelerator: str
    plan: str = ""


class PostTrainingStep(Struct, frozen=True, kw_only=True):
    """A step: its phases in steady state, and what it takes.

    Parameters
    ----------
    work, rollouts
        What is done, and the rollouts of it.
    score_s, apart_score_s, rule_s
        Scoring on the trainer's GPUs, on GPUs of its own, and by rules on CPUs [s].
    train_s
        All updates [s].
    sync_s
        Weights on their way [s].
    swap_s
        Of taking turns on the same GPUs: states that leave them, and come back [s].
    other_s
        What measured steps have beside their phases [s].
    colocated
        Whether all phases are of the same GPUs.
    """

    work: StepWork
    rollouts: Rollouts
    score_s: float = 0.0
    apart_score_s: float = 0.0
    rule_s: float = 0.0
    train_s: float = 0.0
    sync_s: float = 0.0
    swap_s: float = 0.0
    other_s: float = 0.0
    colocated: bool = False

    def __post_init__(self) -> None:
        """Refuse phases that take less than no time."""
        if min(self.score_s, self.train_s, self.sync_s, self.swap_s, self.other_s) < 0:
            raise InputError("seconds of phases are 0 or more: one is below")

    @property
    def mode(self) -> schedules.Mode:
        """How pools take turns; without rollouts or training there is but one."""
        both = self.work.rolls_out and self.work.trains
        return self.work.mode if both else "sync"

    @property
    def scored_s(self) -> float:
        """Scoring as the trainer's pool waits for it [s]."""
        elsewhere_s = self.apart_score_s + self.rule_s
        if self.mode == "sync":
            return self.score_s + elsewhere_s
        return self.score_s + max(0.0, elsewhere_s - self.score_s - self.train_s)

    @property
    def phases(self) -> schedules.Phases:
        """Its phases as formulas of schedules have them."""
        return schedules.Phases(
            rollout=self.rollouts.seconds,
            score=self.scored_s,
            train=self.train_s + self.swap_s,
            sync=self.sync_s,
            stream=self.rollouts.stream_s,
            hidden=self.work.hidden,
        )

    @property
    def seconds(self) -> float:
        """A step in steady state, s [s]."""
        behind = self.work.staleness if self.mode != "sync" else 0.0
        return float(schedules.step_seconds(self.mode, self.phases, behind)) + self.other_s

    @property
    def bottleneck(self) -> schedules.Bottleneck:
        """What sets its pace."""
        rollouts = self.rollouts
        return schedules.bottleneck(
            self.mode,
            self.phases,
            self.work.staleness if self.mode != "sync" else 0.0,
            tail_s=rollouts.tail_s,
            environment_s=rollouts.environment_s,
        )

    @property
    def tokens(self) -> float:
        """Prompts and answers that it trains on [tokens]."""
        work = self.work
        return work.answers * (work.prompt_tokens + self.rollouts.kept_mean)

    @property
    def rolled_s(self) -> float:
        """Rollouts of a batch, as they run in this mode [s]."""
        streams = self.mode == "async" and self.work.staleness > 0
        return self.rollouts.stream_s if streams else self.rollouts.seconds

    @property
    def timeline(self) -> Iterator[StepPhase]:
        """Phases of a step, in the order in which they start.

        In turn each begins where the one before ends; of pools apart both begin together, as
        rollouts are those of a later batch.
        """
        both: Role = "all" if self.colocated else "trainer"
        rolls: Role = "all" if self.colocated else "rollout"
        now, in_turn = 0.0, self.mode == "sync"
        if self.rolled_s:
            yield StepPhase("rollout", rolls, self.rolled_s, now)
            now += self.rolled_s if in_turn else 0.0
        phases: tuple[tuple[str, Role, float], ...] = (
            ("score", both, self.score_s),
            ("score", "score", self.apart_score_s + self.rule_s),
            ("swap", both, self.swap_s),
            ("train", both, self.train_s),
        )
        for name, pool, seconds in phases:
            if seconds:
                yield StepPhase(name, pool, seconds, now)
                now += seconds if in_turn or pool == both else 0.0
        shown_s = float(self.phases.shown_sync)
        if shown_s:
            start_s = now if in_turn else self.seconds - self.other_s - shown_s
            yield StepPhase("sync", "all", shown_s, start_s)
        if self.other_s:
            yield StepPhase("other", "all", self.other_s, self.seconds - self.other_s)

    def busy_s(self, role: Role) -> float:
        """What a pool works of a step [s]."""
        worked_s = sum(
            phase.s
            for phase in self.timeline
            if phase.pool == role and phase.name not in ("sync", "other")
        )
        return worked_s - self.rule_s if role == "score" else worked_s  # rules run on CPUs

    def of_pool(self, pool: Pool) -> dict[str, Any]:
        """A pool in JSON: GPUs, plan, what of a step it works."""
        busy_s = self.busy_s(pool.role)
        return {
            "role": pool.role,
            "gpus": pool.gpus,
            "accelerator": pool.accelerator,
            "plan": pool.plan,
            "busy_share": busy_s / self.seconds if self.seconds else 0.0,
            "idle_s": max(0.0, self.seconds - busy_s),
        }
