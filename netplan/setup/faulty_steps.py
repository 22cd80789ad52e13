r"""What failures in either pool do to the steps of post-training, of answers about each pool alone.

The trainer's pool is asked what training is asked (`netplan.questions.faults`), the servers' what
servers are (`netplan.questions.served_faults`). Here both come together:

========  ==========================================================================================
trainer   who stops it stops the step: restart, work since the last checkpoint, and half a step.
          What goes on without some of its GPUs takes that much longer for training and scoring
servers   a failure takes out copies of the model, k of R: rollouts go on with the others, and what
          a copy had under way begins again there
years     steps a day = day / step_s x (time that counts of the trainer) x sum over k of
          P(k down) step_s / step_s(R - k), P by Poisson with the copies under repair in the mean
========  ==========================================================================================

Colocated, all GPUs are one pool, and what stops it stops the step.
"""

from math import exp
from typing import Generic, TypeVar

import numpy as np
from msgspec import Struct

from netplan.errors import InfeasibleError
from netplan.faults.damage.impact import Impact, ImpactT, Single
from netplan.faults.years.forecast import ReliabilityForecast, Spares
from netplan.faults.years.served import ServedForecast, ServedImpact
from netplan.performance.posttraining.servers import roll_out
from netplan.performance.posttraining.step import PostTrainingStep, Role
from netplan.records import replace
from netplan.setup.post_training_step import PostTrained
from netplan.units import HOURS_PER_YEAR, SECONDS_PER_HOUR

ForecastT = TypeVar("ForecastT")

DAY_S = 24 * SECONDS_PER_HOUR
YEAR_S = HOURS_PER_YEAR * SECONDS_PER_HOUR
HALF = 0.5
"""Of a step, or of rollouts, that a failure loses in the mean [1]."""
SLOWER = 0.1
"""Share by which a trainer is made slower, to see how much of it a step feels [1]."""
HARDLY = 1e-12
"""Chance of so many copies down that is not counted [1]."""


class PoolFailure(Struct, frozen=True, kw_only=True):
    """What failed parts of a pool do to the step.

    Parameters
    ----------
    pool
        Whose they are.
    kind, part, parts
        What has failed, one of how many; None of failures that were asked for.
    way
        How the pool goes on.
    copies_lost
        Copies of the model that stop; None of the trainer [1].
    step_s
        A step until it is repaired; None where there is none [s].
    lost_s
        What is done again or waited for, once [s].
    """

    pool: Role
    kind: str
    part: str
    parts: int | None
    way: str
    copies_lost: int | None
    step_s: float | None
    lost_s: float


class PoolYears(
    Struct, frozen=True, kw_only=True, rename={"interruptions_per_year": "stops_per_year"}
):
    """Years of failures of one pool.

    Parameters
    ----------
    pool, gpus
        Its role, and its GPUs [1].
    interruptions_per_year
        Interruptions of the trainer, or copies that stop, in a year [1].
    mtbf_h
        Time between failures that stop some; None where none do [h].
    copies_down
        Copies under repair in the mean; None of the trainer [1].
    steps_share
        Steps that its failures leave, of those without any [1].
    spares
        Spares to keep, by kind of part.
    interval_h, restart_h
        Of the trainer: between two checkpoints, and restarts of a year; None of servers [h].
    """

    pool: Role
    gpus: int
    interruptions_per_year: float
    mtbf_h: float | None
    copies_down: float | None
    steps_share: float
    spares: tuple[Spares, ...]
    interval_h: float | None = None
    restart_h: float | None = None


class PoolFaults(Struct, Generic[ForecastT, ImpactT], frozen=True):
    """What a pool answers about failures alone, and what that does to the step.

    Parameters
    ----------
    trained
        The job with all of its GPUs.
    forecast, singles
        Years of failures, and what one part of each kind does.
    asked
        What the failures that were asked for do, or why they cannot happen in the pool.
    """

    trained: PostTrained
    forecast: ForecastT
    singles: tuple[Single[ImpactT], ...]
    asked: ImpactT | str | None

    @property
    def failures(self) -> tuple[PoolFailure, ...]:
        """What one part of each kind does."""
        return tuple(
            self.failure(row.impact, row.kind, row.part, row.parts) for row in self.singles
        )

    @property
    def together(self) -> tuple[PoolFailure, ...]:
        """What the failures that were asked for do, if there are any."""
        if self.asked is None or isinstance(self.asked, str):
            return ()
        return (self.failure(self.asked, "asked", "", None),)

    def failure(self, impact: ImpactT, kind: str, part: str, parts: int | None) -> PoolFailure:
        """What failed parts do."""
        raise NotImplementedError

    @property
    def years(self) -> PoolYears:
        """Years of failures of the pool."""
        raise NotImplementedError


def without_copies(trained: PostTrained, copies: int) -> PostTrainingStep | None:
    """The step while so many copies of the model do not roll out; None where none is left.

    Parameters
    ----------
    trained
        The job with all of its copies.
    copies
        That are down [1].

    Returns
    -------
    PostTrainingStep or None
        By the plan that it has, whose other copies take all answers.
    """
    servers = trained.servers
    if servers is None or not copies:
        return trained.step
    plans = servers.rolled.plans
    left = int(plans.replicas[0]) - copies
    if left < 1:
        return None
    fewer = replace(plans, replicas=np.array([left]))
    try:
        rolled = roll_out(servers.case, fewer, trained.run.work)
    except InfeasibleError:
        return None
    return replace(trained.step, rollouts=trained.as_measured(rolled.rollouts))


def slowed_servers(step: PostTrainingStep, share: float) -> PostTrainingStep:
    """The step where rollouts have so much of their pace left."""
    rollouts = step.rollouts
    return replace(
        step,
        rollouts=rollouts._replace(
            seconds=rollouts.seconds / share, stream_s=rollouts.stream_s / share
        ),
    )


def slowed_trainer(step: PostTrainingStep, slowdown: float) -> PostTrainingStep:
    """The step where training, and scoring on the trainer's GPUs, takes so much longer [1]."""
    longer = 1 + slowdown
    return replace(step, score_s=longer * step.score_s, train_s=longer * step.train_s)


class TrainerFaults(PoolFaults[ReliabilityForecast, Impact], frozen=True):
    """Failures of the trainer's pool, or of all GPUs of a colocated job."""

    @property
    def role(self) -> Role:
        """What the pool does."""
        return "all" if self.trained.run.job.colocated else "trainer"

    def failure(self, impact: Impact, kind: str, part: str, parts: int | None) -> PoolFailure:
        """What failed parts do: restart, rework and half a step, then a slower one."""
        trained, interruptions = self.trained, self.forecast.interruptions_per_year
        again_h = sum(self.forecast.lost_h.get(why, 0.0) for why in ("rework", "restart"))
        again_s = again_h / interruptions * SECONDS_PER_HOUR if interruptions else 0.0
        step: PostTrainingStep | None = trained.step
        if impact.way == "stopped":
            step = None
        elif self.role == "all" and impact.way == "without":
            gpus, servers = impact.domains_hit * trained.domain, trained.servers
            copies = -(-gpus // servers.copy_gpus) if servers is not None else 0
            step = without_copies(trained, copies)  # all that have GPUs of these domains
        if step is not None and impact.slowdown:
            step = slowed_trainer(step, impact.slowdown)
        hit = impact.way != "all GPUs" or impact.gpus_down + impact.gpus_cut_off > 0
        return PoolFailure(
            pool=self.role,
            kind=kind,
            part=part,
            parts=parts,
            way=impact.way,
            copies_lost=None,
            step_s=step.seconds if step is not None else None,
            lost_s=again_s + HALF * trained.step.seconds if hit else 0.0,
        )

    @property
    def years(self) -> PoolYears:
        """Years of failures of the trainer's pool, or of all GPUs."""
        trained, forecast = self.trained, self.forecast
        slower = slowed_trainer(trained.step, SLOWER)
        if trained.run.job.colocated:  # what the trainer goes on without, rolls out nothing either
            slower = slowed_servers(slower, 1 / (1 + SLOWER))
        felt = (slower.seconds / trained.step.seconds - 1) / SLOWER
        slowed = felt * forecast.slowed_h / HOURS_PER_YEAR
        half_steps = forecast.interruptions_per_year * HALF * trained.step.seconds / YEAR_S
        return PoolYears(
            pool=self.role,
            gpus=trained.trainer.asked.cluster.gpus if trained.trainer else 0,
            interruptions_per_year=forecast.interruptions_per_year,
            mtbf_h=forecast.mtbf_h,
            copies_down=None,
            steps_share=max(0.0, forecast.effective_time_ratio - slowed - half_steps),
            spares=forecast.spares,
            interval_h=forecast.interval_h,
            restart_h=forecast.lost_h.get("restart"),
        )


class ServerFaults(PoolFaults[ServedForecast, ServedImpact], frozen=True):
    """Failures of the servers' pool."""

    def failure(self, impact: ServedImpact, kind: str, part: str, parts: int | None) -> PoolFailure:
        """What failed parts do: rollouts go on with the copies that are left."""
        lost = impact.servers_lost - impact.servers_restarted
        step = without_copies(self.trained, lost)
        if step is not None and not lost and impact.throughput_share < 1:
            step = slowed_servers(step, impact.throughput_share)
        return PoolFailure(
            pool="rollout",
            kind=kind,
            part=part,
            parts=parts,
            way=impact.way,
            copies_lost=impact.servers_lost,
            step_s=step.seconds if step is not None else None,
            lost_s=_copy_lost_s(self.trained, impact.servers_lost),
        )

    @property
    def years(self) -> PoolYears:
        """Years of failures of the servers' pool: steps by the copies that are down."""
        trained, forecast = self.trained, self.forecast
        down, chance, share, copies = forecast.servers_down, exp(-forecast.servers_down), 0.0, 0
        while chance > HARDLY:
            left = without_copies(trained, copies)
            if left is None:
                break
            share += chance * min(1.0, trained.step.seconds / left.seconds)
            copies += 1
            chance *= down / copies
        again_s = forecast.server_interruptions_per_year * _copy_lost_s(trained, 1)
        return PoolYears(
            pool="rollout",
            gpus=trained.servers.asked.cluster.gpus if trained.servers else 0,
            interruptions_per_year=forecast.server_interruptions_per_year,
            mtbf_h=forecast.mtbf_h,
            copies_down=down,
            steps_share=max(0.0, share - again_s / YEAR_S),
            spares=forecast.spares,
        )


def _copy_lost_s(trained: PostTrained, copies: int) -> float:
    """What answers of lost copies, which begin again on others, add to steps, in the mean [s].

    In a batch that all wait for, half of its rollouts; of streams the lost share of that.
    """
    if not copies:
        return 0.0
    half_s = HALF * trained.step.rollouts.seconds
    every = trained.servers.copies if trained.servers else 1
    return half_s * copies / every if trained.step.mode == "async" else half_s
