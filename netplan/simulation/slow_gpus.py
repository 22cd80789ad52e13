r"""GPUs that compute more slowly than others, for good or from draw to draw: who waits for them.

Training is in step. Three things wait for a GPU that has the share s of its rate left:

==========  ======================================================================================
its group   the ranks of its pipeline stage in its replica, after each operation: collectives of
            tensors, contexts and experts. All delays of the stage take 1/s times as long
pipeline    the other stages of its replica, pass by pass, as far as the bubble has no room
replicas    all others, once an iteration, with the sums of gradients; in each layer where experts
            lie across replicas, or weights are gathered for each pass (ZeRO 3)
==========  ======================================================================================

Replicas that lose the same at the same stages are one class. Replicas meet at the ends of stages
alone, and none that loses less comes there later: the iteration takes as long as the slowest class
with its own passes, exactly. Where they meet in each layer all are one class, each stage as slow as
its slowest. (The messages of a class stand for those of all replicas, as in step they would be.)
Servers wait for nobody else: the slow one has fewer tokens, and the others go on.

*Jitter* of the relative spread v: each stretch of computing between two messages takes a lognormal
factor of mean 1 and standard deviation v on each GPU, independently, and who sends together waits
for the slowest, a largest of n. The order of the passes is that of the run without jitter;
stretches are drawn anew for each pass of each replica, and the end is read off the longest way
through passes, transfers (as they were without) and the meeting of the replicas. A calibrated time
has the jitter of the runs that it was fitted to in it already: what counts is how much more comes
to it.

Bounds that hold for any plan: the iteration is not shorter than without slow GPUs, and not longer
than if all were as slow, which is at most 1/s times as long. Where a slow stage sets the pace of a
pipeline all of its work is on the longest way (`netplan.performance.plan.PlanTime`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import log1p, sqrt

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Floats, Ints
from netplan.errors import InputError
from netplan.performance.plan import Plan
from netplan.performance.setting import Setting
from netplan.simulation import schedule, tasks
from netplan.traffic.placement import Placement

FEWEST_DRAWS, MOST_DRAWS = 20, 200
"""Iterations that are drawn [1]."""

DRAWN_REPLICAS = 100_000
"""Iterations of single replicas that are drawn, beyond the fewest draws [1]."""

POOL = 4096
"""Times of one piece of work that passes are drawn from [1]."""


class SlowGpus(Struct, frozen=True, kw_only=True):
    """What slow GPUs cost an iteration, or a round of servers.

    Parameters
    ----------
    gpus
        Slow GPUs that the plan uses [1].
    lost_share
        Time that comes to it, over the whole time [1].
    waiting_gpus, waiting_share
        GPUs of the plan that wait for them, and their share of all that it uses [1].
    group_gpus, pipeline_gpus, replica_gpus
        Of these, those that wait after operations, for passes, and at the end [1].
    """

    gpus: int
    lost_share: float
    waiting_gpus: int
    waiting_share: float
    group_gpus: int
    pipeline_gpus: int
    replica_gpus: int


class Jitter(Struct, frozen=True):
    """Times of iterations of which computing takes a random time.

    Parameters
    ----------
    spread
        Standard deviation of a stretch over its mean [1].
    draws
        Iterations that were drawn [1].
    mean_s, p50_s, p95_s
        Their mean, and percentiles [s].
    """

    spread: float
    draws: int
    mean_s: float
    p50_s: float
    p95_s: float


def meeting_replicas(setting: Setting, plan: Plan) -> int:
    """How many replicas of a plan wait for each other in each layer [1].

    Those whose GPUs share experts, all where passes wait for weights of others (ZeRO 3), else one.

    Parameters
    ----------
    setting, plan
        What is trained by which plan.

    Examples
    --------
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.setting import Options, TrainedModel
    >>> from netplan.traffic.placement import Degrees
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> gpu, model = ACCELERATORS.load("h100-80gb"), MODELS.load("gpt-22b")
    >>> trained = TrainedModel.make(gpu, model, ITERATION_MODELS.load("4d"), batch=8)
    >>> plan = Plan(Placement((Degrees(tensor=2, data=8),)), 1, 1)
    >>> [meeting_replicas(Setting(trained, options=Options(zero_stage=z)), plan) for z in (1, 3)]
    [1, 8]
    """
    if plan.folded is not None:
        over, shared_by = plan.folded
        return min(plan.data, max(1, over * shared_by // (plan.tensor * plan.context)))
    repetition = setting.program(plan.sharding).repetition
    return plan.data if repetition.synchronisation.forward_repeats else 1


def members_of(placement: Placement) -> Ints:
    """Ranks of each stage of each replica, shape (replicas, stages, ranks).

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> members_of(Placement((Degrees(tensor=2, pipeline=2), Degrees(data=2)))).tolist()
    [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    """
    copies, chains = placement.groups("data"), placement.groups("pipeline", snake=True)
    replicas, stages = copies.shape[1], chains.shape[1]
    place = np.empty(placement.gpus, np.int64)
    place[copies] = stages * np.arange(replicas)
    place[chains] += np.arange(stages)
    return np.argsort(place, kind="stable").reshape(replicas, stages, -1)


def replica_slowness(shares: Floats, placement: Placement, gpu_of_rank: AnyInts) -> Floats:
    """How many times as long the stages of each replica compute, shape (replicas, stages) [1].

    Parameters
    ----------
    shares
        Share of its rate that each GPU of the graph has, shape (gpus,) [1].
    placement, gpu_of_rank
        Ranks of the plan, and the GPU of each, shape (ranks,).

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> placement = Placement((Degrees(tensor=2, data=2),))
    >>> replica_slowness(np.array([1.0, 0.5, 1.0, 1.0]), placement, np.arange(4)).tolist()
    [[2.0], [1.0]]
    """
    slowness: Floats = (1 / shares[gpu_of_rank])[members_of(placement)].max(axis=2)
    return slowness


def stage_slowness(
    shares: Floats, placement: Placement, gpu_of_rank: AnyInts, *, meeting: int = 1
) -> Floats:
    """How many times as long stages compute, of each class of replicas that may be the slowest.

    Parameters
    ----------
    shares
        Share of its rate that each GPU of the graph has, shape (gpus,) [1].
    placement, gpu_of_rank
        Ranks of the plan, and the GPU of each, shape (ranks,).
    meeting
        Replicas that wait for each other in each layer, side by side [1].

    Returns
    -------
    ndarray
        Shape (classes, stages); classes that lose no more than another at any stage are left out
        [1].

    Examples
    --------
    Four replicas of two stages; GPUs 1 and 3 are slow, and then GPU 4, of the first stage, less:

    >>> from netplan.traffic.placement import Degrees
    >>> placement = Placement((Degrees(pipeline=2), Degrees(data=4)))
    >>> shares = np.array([1.0, 0.5, 1.0, 0.25, 0.8, 1.0, 1.0, 1.0])
    >>> stage_slowness(shares, placement, placement.gpu_of_rank).tolist()
    [[1.0, 4.0], [1.25, 1.0]]
    >>> stage_slowness(shares, placement, placement.gpu_of_rank, meeting=4).tolist()
    [[1.25, 4.0]]
    """
    factors = replica_slowness(shares, placement, gpu_of_rank)
    together = meeting if len(factors) % meeting == 0 else len(factors)
    factors = factors.reshape(-1, together, factors.shape[1]).max(axis=1)
    classes = np.unique(factors, axis=0)
    kept = [
        row
        for row in classes
        if not any((row <= other).all() and (row < other).any() for other in classes)
    ]
    return np.array(kept)


def slowed(pipeline: tasks.Pipeline, factors: Floats) -> tasks.Pipeline:
    """A pipeline whose stages compute so many times as long; messages take what they take.

    Parameters
    ----------
    pipeline
        What runs.
    factors
        Of each stage, shape (stages,) [1].

    Returns
    -------
    Pipeline
        The same object where all are 1.

    Examples
    --------
    >>> stage = (tasks.Pass(tasks.delay(1.0)),) * 2
    >>> chain = tasks.Pipeline(2, 8, stage, stage, send_forward=((),), send_backward=((),))
    >>> [work.middle for work in slowed(chain, np.array([1.0, 2.0])).forward]
    [(((1.0,),),), (((2.0,),),)]
    """
    if (factors == 1).all():
        return pipeline
    times = [partial(_times, float(factor)) for factor in factors]
    return tasks.mapped_pipeline(pipeline, *times, sends=False)


def _times(factor: float, part: tasks.Part) -> tasks.Phase:
    """A delay so many times as long; a message as it is."""
    return factor * part if isinstance(part, float) else part


def who_waits(
    shares: Floats,
    placement: Placement,
    gpu_of_rank: AnyInts,
    times_s: tuple[float, float],
    *,
    apart: bool = False,
) -> SlowGpus | None:
    """What slow GPUs cost, and how many wait for them; None if the plan uses none of them.

    Parameters
    ----------
    shares, placement, gpu_of_rank
        As of :func:`stage_slowness`.
    times_s
        With the slow GPUs and without [s].
    apart
        Whether replicas are servers, which do not wait for each other.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> placement = Placement((Degrees(tensor=2, pipeline=2), Degrees(data=2)))
    >>> cost = who_waits(np.array([0.5] + 7 * [1.0]), placement, np.arange(8), (2.0, 1.5))
    >>> cost.lost_share, cost.group_gpus, cost.pipeline_gpus, cost.replica_gpus
    (0.25, 1, 2, 4)
    """
    slow = (shares < 1)[gpu_of_rank][members_of(placement)]
    if not slow.any():
        return None
    stage, replica = slow.any(axis=2), slow.any(axis=(1, 2))
    size = slow.shape[2]
    here = int(slow.sum())
    group = int(stage.sum()) * size - here
    pipeline = (int(replica.sum()) * slow.shape[1] - int(stage.sum())) * size
    others = 0 if apart else int((~replica).sum()) * slow.shape[1] * size
    waiting = group + pipeline + others
    time_s, intact_s = times_s
    return SlowGpus(
        gpus=here,
        lost_share=(time_s - intact_s) / time_s,
        waiting_gpus=waiting,
        waiting_share=waiting / slow.size,
        group_gpus=group,
        pipeline_gpus=pipeline,
        replica_gpus=others,
    )


def largest_of(rng: np.random.Generator, count: int, spread: float, members: int) -> Floats:
    """So many times the largest of n lognormal factors of mean 1, of a relative spread [1].

    F(x)^n = u, so that the n-th root of one uniform number gives it.

    Parameters
    ----------
    rng, count
        Draws them; how many, shape (count,) [1].
    spread
        Standard deviation of each [1].
    members
        How many, n [1].

    Examples
    --------
    The mean of one is 1; the largest of two is 1 + v / sqrt(pi), to first order.

    >>> rng = np.random.default_rng(0)
    >>> round(float(largest_of(rng, 200_000, 0.05, 1).mean()), 3)
    1.0
    >>> round(float(largest_of(rng, 200_000, 0.05, 2).mean()), 3)
    1.028
    """
    from scipy.special import ndtri  # noqa: PLC0415 - of draws alone

    sigma = sqrt(log1p(spread**2))
    # Of the complement, which is small: the root of a number just below 1 has no digits left.
    above = -np.expm1(np.log1p(-rng.random(count)) / members)
    factors: Floats = np.exp(-sigma * ndtri(above) - sigma**2 / 2)
    return factors


def jittered(
    pipeline: tasks.Pipeline,
    spans: Sequence[schedule.BusyInterval],
    *,
    spread: float,
    members: int,
    replicas: int,
    seed: int,
) -> Jitter:
    """Times of iterations whose computing takes random times.

    Parameters
    ----------
    pipeline, spans
        A replica on its links, and all its passes and transfers without jitter.
    spread
        Standard deviation of a stretch of computing over its mean [1].
    members
        GPUs that wait for each other after each stretch [1].
    replicas
        Replicas that wait for each other at the end of each stage; 1 of servers [1].
    seed
        Of the draws.

    Returns
    -------
    Jitter
        The same for the same inputs.

    Raises
    ------
    InputError
        If the spread is not above 0 and below 1.

    Examples
    --------
    One stage of one microbatch, of 1 s and 2 s, on 100 GPUs that meet after each:

    >>> from netplan.simulation.run import simulate_pipelines
    >>> once = (tasks.Pass(tasks.delay(1.0)),), (tasks.Pass(tasks.delay(2.0)),)
    >>> chain = tasks.Pipeline(1, 1, *once, (), ())
    >>> spans = simulate_pipelines([chain], links=0, full=True, spans=True).spans
    >>> found = jittered(chain, spans, spread=0.02, members=100, replicas=1, seed=1)
    >>> round(found.mean_s, 2)  # 3 s x (1 + 2.51 x 0.02)
    3.15
    """
    if not 0 < spread < 1:
        raise InputError(f"jitter {spread:g}: give a relative spread above 0 and below 1")
    rng = np.random.default_rng(seed)
    draws = int(np.clip(DRAWN_REPLICAS // replicas, FEWEST_DRAWS, MOST_DRAWS))
    factors = partial(largest_of, rng, POOL, spread, members)
    ends_s = _Retimed(pipeline, factors, rng, (draws, replicas)).end_s(spans)
    middle, bad = np.quantile(ends_s, (0.5, 0.95)).tolist()
    return Jitter(spread, draws, float(ends_s.mean()), middle, bad)


class _Retimed(Struct, eq=False):
    """A run again, in the same order of passes, whose passes take random times.

    ``arrived`` says when the input of a pass is there: drawn, and as it was without jitter [s].
    """

    pipeline: tasks.Pipeline
    factors: Callable[[], Floats]
    rng: np.random.Generator
    shape: tuple[int, int]
    pools: dict[int, tuple[Floats, float]] = {}
    arrived: dict[tuple[int, int, int], tuple[Floats, float]] = {}

    def end_s(self, spans: Sequence[schedule.BusyInterval]) -> Floats:
        """Ends of the iterations, shape (draws,) [s]."""
        stages = self.pipeline.stages
        zero = np.zeros(self.shape)
        free: list[tuple[Floats, float]] = [(zero, 0.0)] * stages
        last = zero
        sent_s = {
            (span.kind, span.virtual, span.microbatch): span.end_s - span.start_s
            for span in spans
            if span.kind in (schedule.SEND_FORWARD, schedule.SEND_BACKWARD)
        }
        for span in sorted(spans, key=lambda span: (span.start_s, span.end_s)):
            if span.kind in (schedule.SEND_FORWARD, schedule.SEND_BACKWARD):
                continue
            key = span.kind, span.virtual, span.microbatch
            ready, was_ready = self.arrived.pop(key, (zero, 0.0))
            idle, was_idle = free[span.stage]
            start = np.maximum(ready, idle)
            # Whatever else it waited for, such as weights beside passes, comes no earlier.
            if span.start_s > max(was_ready, was_idle) * (1 + ROUNDED):
                start = np.maximum(start, span.start_s)
            if span.kind == schedule.FINISH:
                start = np.broadcast_to(start.max(axis=1, keepdims=True), self.shape)
            end = start + self._taken_s(span)
            free[span.stage] = end, span.end_s
            last = np.maximum(last, end)
            self._hand_on(span, end, sent_s)
        return np.asarray(last.max(axis=1))

    def _hand_on(
        self, span: schedule.BusyInterval, end: Floats, sent_s: dict[tuple[int, int, int], float]
    ) -> None:
        """What follows a pass has its input from then on."""
        kind, virtual, microbatch = span.kind, span.virtual, span.microbatch
        final = len(self.pipeline.forward) - 1
        if kind == schedule.FORWARD and virtual == final:
            to, took_s = (schedule.BACKWARD, virtual, microbatch), 0.0
        elif kind == schedule.FORWARD:
            to = schedule.FORWARD, virtual + 1, microbatch
            took_s = sent_s.get((schedule.SEND_FORWARD, virtual, microbatch), 0.0)
        elif kind == schedule.BACKWARD and virtual:
            to = schedule.BACKWARD, virtual - 1, microbatch
            took_s = sent_s.get((schedule.SEND_BACKWARD, virtual, microbatch), 0.0)
        else:
            return
        self.arrived[to] = end + took_s, span.end_s + took_s

    def _taken_s(self, span: schedule.BusyInterval) -> Floats:
        """How long a pass takes in each draw of each replica, shape (draws, replicas) [s]."""
        pipeline = self.pipeline
        if span.kind in (schedule.BEGIN, schedule.FINISH):
            edge = pipeline.begin if span.kind == schedule.BEGIN else pipeline.finish
            work = edge[span.virtual]
        else:
            passes = (pipeline.forward, pipeline.backward)[span.kind][span.virtual]
            work = passes.of(span.microbatch, pipeline.microbatches)
        if id(work) not in self.pools:
            self.pools[id(work)] = self._drawn(work), tasks.alone_s(work)
        pool, alone_s = self.pools[id(work)]
        waited_s = span.end_s - span.start_s - alone_s
        return pool[self.rng.integers(POOL, size=self.shape)] + waited_s

    def _drawn(self, work: tasks.Operations) -> Floats:
        """Times of a piece of work alone, shape (POOL,) [s]."""
        total = np.zeros(POOL)
        for operation in work:
            total += np.max([self._branch(branch) for branch in operation], axis=0)
        return total

    def _branch(self, branch: tasks.Branch) -> Floats:
        total = np.zeros(POOL)
        for phase in branch:
            if isinstance(phase, float):
                total += phase * self.factors()
            elif isinstance(phase, tuple):
                total += self._drawn(phase)
            else:
                total += phase.alone_s
        return total


ROUNDED = 1e-9
"""Share of a time that sums of others are off by [1]."""
