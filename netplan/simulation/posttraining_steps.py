r"""Steps of post-training one after the other, from times of each batch: who works when, who waits.

Batch i is rolled out on weights that are at most N versions behind: it begins once version i - N is
there. Version i + 1 is there V after batch i is trained, V what of sending is on the critical path.

========  ========================================================================================
in turn   N = 0: rollouts, scoring and training, V; each begins at the end of the one before
one-off   N = 1: servers roll the next batch out while the trainer trains; each stands still for V
async     batches overlap on the servers: batch i is there R_i after its begin, and no sooner than
          its work (stream_i) and V after the batch before it
========  ========================================================================================

Of a decimal N the version is between two: it is there at that share of the time between them.
Constant times give exactly `netplan.performance.posttraining.schedules.step_seconds`.
"""

from collections.abc import Iterator
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.performance.posttraining.step import PostTrainingStep, Role

WARM = 20
"""First steps that a mean leaves out [1]."""

SHOWN_STEPS = 4
"""Steps that a timeline has [1]."""

SOON = 1e-12
"""Share of all time that a mean wait is nothing below [1]."""

WEIGHTS = "weights"
"""What a lane waits for: new weights."""
ANSWERS = "answers"
"""What it waits for: a batch of answers."""


class Bar(NamedTuple):
    """Something that a pool does, or ``wait`` for, in a step: from when on, how long [s]."""

    name: str
    pool: Role
    step: int
    starts_s: float
    seconds: float
    waits_for: str = ""


class SteppedRuns(Struct, frozen=True, eq=False):
    """Runs of steps: when rollouts of each step begin and end, when it is trained, when it is sent.

    All have the shape (steps, draws) [s].

    Parameters
    ----------
    free
        When servers could begin: they have ended the batch before, and taken weights.
    begins, ends
        Rollouts, from their begin to their last answer; of batches that overlap the work of one
        where slots are full, which ends with the batch.
    idle
        When the trainer could begin.
    starts, trained
        Scoring and training.
    sent
        When the new version is there.
    warm
        First steps that means leave out [1].
    """

    free: Floats
    begins: Floats
    ends: Floats
    idle: Floats
    starts: Floats
    trained: Floats
    sent: Floats
    warm: int = WARM

    @property
    def means_s(self) -> Floats:
        """Mean step of each run, shape (draws,) [s]."""
        count = len(self.sent) - self.warm
        return np.asarray((self.sent[-1] - self.sent[self.warm - 1]) / count)

    @property
    def steps_s(self) -> Floats:
        """Single steps behind those that warm up, from version to version, shape (n,) [s]."""
        return np.asarray(np.diff(self.sent[self.warm - 1 :], axis=0).ravel())

    @property
    def waits_s(self) -> tuple[float, float]:
        """Mean wait of a step, of servers for weights and of the trainer for answers [s]."""
        least_s = SOON * float(self.sent[-1].max())  # below it is what sums are off by
        servers = (self.begins - self.free)[self.warm :]
        trainer = (self.starts - self.idle)[self.warm :]
        servers_s, trainer_s = float(servers.mean()), float(trainer.mean())
        return (
            servers_s if servers_s > least_s else 0.0,
            trainer_s if trainer_s > least_s else 0.0,
        )


def simulate_steps(
    rollout_s: Floats,
    trainer_s: float,
    sync_s: float,
    *,
    staleness: float = 0.0,
    stream_s: Floats | None = None,
    warm: int = WARM,
) -> SteppedRuns:
    """Let steps follow each other (this module's table).

    Parameters
    ----------
    rollout_s
        Of each step until its last answer, shape (steps, draws) [s].
    trainer_s, sync_s
        Scoring and training of a step, and the synchronisation on the critical path [s].
    staleness
        Versions that a batch may be behind, N [1].
    stream_s
        Work of each batch where batches overlap on the servers; None where they do not [s].
    warm
        First steps that means leave out [1].

    Raises
    ------
    InputError
        If there are no steps behind those that warm up, or the staleness is below 0.

    Examples
    --------
    >>> rollouts = np.full((60, 1), 100.0)
    >>> [float(simulate_steps(rollouts, 80.0, 5.0, staleness=n).means_s[0]) for n in (0, 1)]
    [185.0, 105.0]
    """
    if not 1 <= warm < len(rollout_s):
        raise InputError(
            f"{len(rollout_s):,} steps, of which {warm:,} warm up: give more steps than that, and 1"
            " or more to warm up"
        )
    if not staleness >= 0:
        raise InputError(f"staleness {staleness:g}: give 0 or more")
    stop_s = sync_s if staleness else 0.0
    columns = np.empty((7, *rollout_s.shape))
    free, begins, ends, idle, starts, trained, sent = columns
    zero = np.zeros(rollout_s.shape[1:])
    versions = [zero]
    behind, busy = zero, zero
    for step, seconds in enumerate(rollout_s):
        # Of a version between two, its weights are there at that share of the time between.
        number = max(0.0, step - staleness)
        low, high, share = versions[floor(number)], versions[ceil(number)], number % 1
        version = (1 - share) * low + share * high if share else low
        if stream_s is None:
            free[step] = behind
            begins[step] = np.maximum(behind, version)
            ends[step] = begins[step] + seconds
        else:  # it begins as soon as its weights allow, beside the batches before it
            free[step] = behind
            ends[step] = np.maximum(version + seconds, behind + stream_s[step])
            begins[step] = ends[step] - stream_s[step]
        behind = ends[step] + stop_s
        idle[step] = busy
        starts[step] = np.maximum(busy, ends[step])
        trained[step] = starts[step] + trainer_s
        sent[step] = trained[step] + sync_s
        busy = trained[step] + stop_s
        versions.append(sent[step])
    return SteppedRuns(free, begins, ends, idle, starts, trained, sent, warm)


def bars_of(
    runs: SteppedRuns, step: PostTrainingStep, *, shown: int = SHOWN_STEPS
) -> Iterator[Bar]:
    """What pools do in the first steps behind those that warm up, of the first run.

    Parameters
    ----------
    runs
        Simulated.
    step
        What a step is of: phases in a pool follow each other as in it.
    shown
        Steps [1].

    Yields
    ------
    Bar
        Times from the begin of what is shown on, lane by lane in their order [s].
    """
    rolls: Role = "all" if step.colocated else "rollout"
    first, last = runs.warm, min(runs.warm + shown, len(runs.sent))
    zero_s = float(min(runs.begins[first, 0], runs.starts[first, 0]))
    sync_s = float(runs.sent[first, 0] - runs.trained[first, 0])
    in_turn = step.mode == "sync"
    for number in range(first, last):
        free, begin, end = (
            float(times[number, 0]) - zero_s for times in (runs.free, runs.begins, runs.ends)
        )
        if begin > free and not in_turn and number > first:
            yield Bar("wait", rolls, number, free, begin - free, WEIGHTS)
        if end > begin:
            yield Bar("rollout", rolls, number, begin, end - begin)
        if sync_s and not in_turn:
            yield Bar("sync", rolls, number, end, sync_s)
        yield from _of_trainer(runs, step, number, zero_s, sync_s)


def _of_trainer(
    runs: SteppedRuns, step: PostTrainingStep, number: int, zero_s: float, sync_s: float
) -> Iterator[Bar]:
    """What the trainer does of a step, and the pool that scores beside it."""
    both: Role = "all" if step.colocated else "trainer"
    in_turn = step.mode == "sync"
    start, idle = float(runs.starts[number, 0]), float(runs.idle[number, 0])
    if start > idle and not in_turn and number > runs.warm:
        yield Bar("wait", both, number, idle - zero_s, start - idle, ANSWERS)
    now = start - zero_s
    apart_s = step.apart_score_s + step.rule_s
    lanes: tuple[tuple[str, Role, float], ...] = (
        ("score", both, step.score_s),
        ("score", "score", apart_s),
        ("swap", both, step.swap_s),
        ("train", both, step.train_s),
    )
    for name, pool, seconds in lanes:
        if not seconds:
            continue
        if pool == "score" and not in_turn:
            yield Bar(name, pool, number, start - zero_s, seconds)
            continue
        yield Bar(name, pool, number, now, seconds)
        now += seconds
    if sync_s:
        where: Role = "all" if in_turn else both
        yield Bar("sync", where, number, float(runs.trained[number, 0]) - zero_s, sync_s)
