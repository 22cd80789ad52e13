"""Sync, one step off and async on the same pools: what a step takes, and whether one is decided.

A step without measurements is a bound. Printed steps are longer by a factor that differs from run
to run and from schedule to schedule, since overlapping hides seconds that no model has: the model
gets the direction of sync against one-off wrong for two of five printed pairs. So a schedule is
called the fastest only if its step, as long as any that was printed against its bound, is still
below that of the others at their shortest; else nothing is decided. With measurements of the
user's own the ranges of the estimates take the place of what was printed.
"""

from collections.abc import Sequence
from typing import NamedTuple

from netplan.performance.posttraining.schedules import Mode
from netplan.performance.posttraining.servers import roll_out
from netplan.performance.posttraining.step import PostTrainingStep
from netplan.records import replace
from netplan.setup.post_training_step import PostTrained

BESIDE = (0.0, 1.0, 2.0, 4.0)
"""Versions that rollouts may be behind, of the schedules that are set beside each other [1]."""
UNDECIDED = "undecided"
PRINTED_OVER_BOUND = {"dense": (1.5, 2.1), "experts": (1.4, 4.3)}
"""Printed steps over their bounds, least and most: 4 of dense models and 16 of mixtures of experts
on H100 (NVIDIA NeMo RL v0.4 and v0.6, performance summary; rows of ``netplan verify``) [1]."""


class ScheduledStep(NamedTuple):
    """A schedule on given pools: versions that rollouts may be behind, and its step.

    Parameters
    ----------
    mode, staleness
        How pools take turns, and versions that rollouts may be behind [1].
    step_s, step_low_s, step_high_s
        Its step and its range; no upper end of a bound [s].
    times
        Steps of this schedule in the time of one in turn, by step_s [1].
    """

    mode: Mode
    staleness: float
    step_s: float
    step_low_s: float
    step_high_s: float | None
    times: float

    @property
    def name(self) -> str:
        """Its name, with what async may be behind."""
        return f"{self.mode} {self.staleness:g}" if self.mode == "async" else self.mode


class SchedulesBeside(NamedTuple):
    """Schedules in the order of their staleness; the mode that is fastest, or ``undecided``."""

    steps: tuple[ScheduledStep, ...]
    verdict: str
    reason: str


def schedules_beside(trained: PostTrained) -> SchedulesBeside:
    """Sync, one-off and async on the pools and plans of a step.

    Parameters
    ----------
    trained
        The step; its own staleness is among those shown.

    Returns
    -------
    SchedulesBeside
        Nothing and ``undecided`` where phases take turns on the same GPUs, or a pool has no work.
    """
    run = trained.run
    if run.job.colocated or trained.trainer is None or trained.servers is None:
        return SchedulesBeside((), UNDECIDED, "one pool: its phases take turns")
    behind = sorted({*BESIDE, run.work.staleness})
    steps = [_step(trained, staleness) for staleness in behind]
    spread = trained.spread
    rows = tuple(
        ScheduledStep(
            step.mode,
            staleness,
            step.seconds,
            step.seconds * (1 - (spread or 0.0)),
            None if spread is None else step.seconds * (1 + spread),
            steps[0].seconds / step.seconds,
        )
        for staleness, step in zip(behind, steps, strict=True)
    )
    kind = "dense" if run.model.experts is None else "experts"
    apart = (1 - spread, 1 + spread) if spread is not None else PRINTED_OVER_BOUND[kind]
    verdict = fastest_mode(rows, apart)
    low, high = apart
    if spread is None:
        span = f"published steps on H100 take {low:g} to {high:g} times their bound"
    else:
        span = f"estimates may be off by {spread:.0%} each way"
    far = "closer than" if verdict == UNDECIDED else "apart by more than"
    return SchedulesBeside(rows, verdict, f"{span}; the best two are {far} {high / low:.2g} times")


def _step(trained: PostTrained, staleness: float) -> PostTrainingStep:
    """The step of the same pools and plans by another schedule."""
    step, servers = trained.step, trained.servers
    if staleness == step.work.staleness or servers is None:
        return step
    work = replace(step.work, staleness=staleness)
    rolled = roll_out(servers.case, servers.rolled.plans, work).rollouts
    return replace(step, work=work, rollouts=trained.as_measured(rolled))


def fastest_mode(rows: Sequence[ScheduledStep], apart: tuple[float, float]) -> str:
    """The mode whose best step is the shortest even at its longest; else ``undecided``.

    Parameters
    ----------
    rows
        Schedules.
    apart
        Least and most that a step really takes over ``step_s`` [1].

    Examples
    --------
    >>> rows = [ScheduledStep(*row) for row in (
    ...     ("sync", 0, 185.0, 185.0, None, 1), ("one-off", 1, 105.0, 105.0, None, 1.76))]
    >>> fastest_mode(rows, (1.3, 1.7)), fastest_mode(rows, (1.3, 5.8))
    ('one-off', 'undecided')
    """
    best: dict[str, float] = {}
    for row in rows:
        best[row.mode] = min(row.step_s, best.get(row.mode, row.step_s))
    mode = min(best, key=lambda name: best[name])
    least, most = apart
    others = [least * step_s for name, step_s in best.items() if name != mode]
    return mode if others and most * best[mode] < min(others) else UNDECIDED
