r"""One step of post-training: phases in turn, or rollouts ahead of the trainer.

R rollouts, S scoring, T training, V = sync (1 - hidden) synchronisation on the critical path:

========  =========================================================================================
sync      R + S + T + V
one-off   max(R, S + T) + V
async     max(max(stream, S + T) + V, (R + S + T + V) / (N + 1)): a batch's way through both pools
          may span N + 1 versions of the weights; N = 0 is sync, a decimal the share of a batch that
          rollouts may run ahead
========  =========================================================================================

Times that differ from step to step make steps longer than those of the mean (queueing):
:mod:`netplan.simulation.posttraining_steps` has them one by one. What is printed of synchronous
runs sums to the printed step within 1.3 to 7.8 %, always short.

Generations overlap as in AReaL (arXiv:2505.24298), one step off as in NeMo RL and verl.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike

from netplan.arrays import Floats
from netplan.errors import InputError

Mode = Literal["sync", "one-off", "async"]
MODES: tuple[Mode, ...] = get_args(Mode)

Bottleneck = Literal[
    "rollout-tail", "rollout", "train", "score", "sync", "staleness", "environment"
]


class Phases(Struct, frozen=True, kw_only=True, eq=False):
    """Seconds of the phases of a step, of any common shape [s].

    Parameters
    ----------
    rollout, score, train, sync
        Rollouts until the last answer, scoring, training, and sending of the weights.
    stream
        A batch of rollouts in steady state, without waves; None for ``rollout``.
    hidden
        Share of the synchronisation off the critical path, 0 to 1 [1].

    Raises
    ------
    InputError
        If a time is below 0, or the share not from 0 to 1.
    """

    rollout: ArrayLike
    score: ArrayLike = 0.0
    train: ArrayLike = 0.0
    sync: ArrayLike = 0.0
    stream: ArrayLike | None = None
    hidden: float = 0.0

    def __post_init__(self) -> None:
        """Refuse times below 0."""
        times = (self.rollout, self.score, self.train, self.sync, self.batch)
        if any(np.any(np.asarray(time) < 0) for time in times):
            raise InputError("seconds of phases are 0 or more: one is below")
        if not 0 <= self.hidden <= 1:
            raise InputError(f"a share {self.hidden:g} of the synchronisation hidden: give 0 to 1")

    @property
    def batch(self) -> Floats:
        """A batch of rollouts in steady state [s]."""
        return np.asarray(self.rollout if self.stream is None else self.stream, dtype=np.float64)

    @property
    def trainer(self) -> Floats:
        """Scoring and training, which the trainer's pool does [s]."""
        return np.add(self.score, self.train, dtype=np.float64)

    @property
    def shown_sync(self) -> Floats:
        """Synchronisation on the critical path [s]."""
        return np.asarray(self.sync, dtype=np.float64) * (1 - self.hidden)

    @property
    def in_turn(self) -> Floats:
        """All phases one after the other [s]."""
        return np.asarray(self.rollout, dtype=np.float64) + self.trainer + self.shown_sync


def step_seconds(mode: Mode, phases: Phases, staleness: ArrayLike = 0.0) -> Floats:
    """Seconds of a step in steady state (this module's table).

    Parameters
    ----------
    mode
        How pools take turns.
    phases
        Times of the phases, of any common shape [s].
    staleness
        Versions of the weights that a batch may be behind, N; of ``async`` alone [1].

    Returns
    -------
    ndarray
        Of the common shape [s].

    Raises
    ------
    InputError
        If the mode is unknown, or the staleness below 0.

    Examples
    --------
    >>> phases = Phases(rollout=100, score=20, train=60, sync=5, stream=70)
    >>> [float(step_seconds(mode, phases)) for mode in ("sync", "one-off")]
    [185.0, 105.0]
    >>> step_seconds("async", phases, [0, 0.5, 1, 3]).round(2).tolist()
    [185.0, 123.33, 92.5, 85.0]
    """
    if mode not in MODES:
        raise InputError(f"unknown schedule {mode!r:.40}: use {', '.join(MODES)}")
    behind = np.asarray(staleness, dtype=np.float64)
    if (behind < 0).any() or np.isnan(behind).any():
        raise InputError(f"staleness {float(behind.min()):g}: give 0 or more")
    if mode == "sync":
        return phases.in_turn
    if mode == "one-off":
        return np.asarray(np.maximum(phases.rollout, phases.trainer) + phases.shown_sync)
    pools = np.maximum(phases.batch, phases.trainer) + phases.shown_sync
    return np.asarray(np.maximum(pools, phases.in_turn / (behind + 1)))


def bottleneck(
    mode: Mode,
    phases: Phases,
    staleness: float = 0.0,
    *,
    tail_s: float = 0.0,
    environment_s: float = 0.0,
) -> Bottleneck:
    """What sets the pace of a step.

    Parameters
    ----------
    mode, phases, staleness
        As of :func:`step_seconds`, of one step.
    tail_s, environment_s
        Parts of the rollouts: the longest answer's rounds, and waits for environments [s].

    Returns
    -------
    str
        The largest phase of those in turn; of pools apart the slower one, or the staleness that
        lets neither go on.

    Examples
    --------
    >>> phases = Phases(rollout=100, score=20, train=60, sync=5, stream=70)
    >>> bottleneck("one-off", phases, tail_s=90.0), bottleneck("async", phases, 3)
    ('rollout-tail', 'train')
    """
    rollout = float(np.asarray(phases.rollout))
    trainer, shown = float(phases.trainer), float(phases.shown_sync)
    streams = mode == "async" and staleness > 0
    if streams:
        step_s = float(step_seconds(mode, phases, staleness))
        rollout = float(phases.batch)
        if step_s > max(rollout, trainer) + shown:
            return "staleness"
        tail_s = environment_s = 0.0  # a stream has neither
    work: dict[Bottleneck, float] = {
        "rollout": rollout,
        "score": float(np.asarray(phases.score)),
        "train": float(np.asarray(phases.train)),
        "sync": shown,
    }
    if mode != "sync" and (streams or mode == "one-off"):  # score and train are in one pool
        del work["rollout"]
        largest = max(work, key=lambda name: work[name])
        largest = "rollout" if rollout >= max(trainer, shown) else largest
    else:
        largest = max(work, key=lambda name: work[name])
    if largest != "rollout":
        return largest
    if environment_s > rollout / 2:
        return "environment"
    return "rollout-tail" if tail_s > rollout / 2 else "rollout"


def speed_up_limit(sync_step_s: ArrayLike, train_s: ArrayLike, score_s: ArrayLike = 0.0) -> Floats:
    """Most that overlapping brings on as many GPUs: the trainer's work stays, on all at best [1].

    Parameters
    ----------
    sync_step_s
        Step with phases in turn [s].
    train_s, score_s
        Of them the trainer's, on all GPUs [s].

    Examples
    --------
    >>> round(float(speed_up_limit(356.3, 113.81)), 4)
    3.1307
    """
    return np.asarray(np.asarray(sync_step_s) / np.add(train_s, score_s, dtype=np.float64))


def scaled_phases(
    modelled_s: Sequence[float], measured_s: Sequence[float], of_run_s: Sequence[float]
) -> tuple[float, ...]:
    """Modelled phases, each times measured over modelled of the run that was measured [s].

    An estimate at the pool sizes and plans of that run alone.

    Parameters
    ----------
    modelled_s, of_run_s
        Phases as modelled now, and as modelled of the measured run [s].
    measured_s
        Of the run [s].

    Raises
    ------
    InputError
        If the run was measured to take time for what the model says takes none.

    Examples
    --------
    >>> scaled_phases([50.0, 0.0], measured_s=[120.0, 0.0], of_run_s=[100.0, 0.0])
    (60.0, 0.0)
    """
    scaled = []
    for now_s, real_s, run_s in zip(modelled_s, measured_s, of_run_s, strict=True):
        if run_s == 0 and real_s > 0:
            raise InputError(
                f"a phase of {real_s:g} s that the model says takes none: leave it out, or give its"
                " inputs"
            )
        scaled.append(now_s * real_s / run_s if run_s else now_s)
    return tuple(scaled)


def of_two_sizes(sizes: tuple[float, float], times_s: tuple[float, float]) -> tuple[float, float]:
    """What of a phase no GPU shortens, c, and its GPU-seconds, d: c + d / g through two runs.

    Parameters
    ----------
    sizes, times_s
        GPUs of two measured runs, and seconds of the phase [1, s].

    Returns
    -------
    tuple of float
        c and d [s, GPU s].

    Raises
    ------
    InputError
        If both runs have as many GPUs.

    Examples
    --------
    Trainers of 16 and 64 GPUs took 270 and 113 s; 32 are printed with 157:

    >>> fixed_s, shared_gpu_s = of_two_sizes((16, 64), (270.0, 113.0))
    >>> round(fixed_s + shared_gpu_s / 32, 1)
    165.3
    """
    (first, second), (first_s, second_s) = sizes, times_s
    if first == second:
        raise InputError(f"two runs of {first:g} GPUs: give two sizes")
    shared = (first_s - second_s) / (1 / first - 1 / second)
    return first_s - shared / first, shared
