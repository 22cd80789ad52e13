"""One iteration of a plan on the links of a fabric, event by event.

Work, collectives and their times come from the plan (`netplan.simulation.program_work`), what they
ask of each link from its traffic (`netplan.simulation.links`). Links that cannot make anything wait
are left out (`netplan.simulation.linked_work`), and the rest is simulated.

Data parallel replicas do the same at the same time: one is simulated, and its messages stand for
those of all.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import inf
from typing import Any

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Floats
from netplan.performance.plan import PlanTime
from netplan.performance.plan_traffic import plan_placement
from netplan.performance.setting import Setting
from netplan.records import replace
from netplan.simulation import tasks
from netplan.simulation.congestion import ample_rates
from netplan.simulation.distance import Distance, with_distance
from netplan.simulation.fluid import Collectives
from netplan.simulation.linked_work import linked_work
from netplan.simulation.links import FlowRouter, LinkTimes, RunRouting, Transport
from netplan.simulation.outcome import FluidRun, SimulationOutcome, outcome_of
from netplan.simulation.program_work import PlanWork, plan_work
from netplan.simulation.run import simulate_pipelines
from netplan.simulation.schedule import FORWARD, BusyInterval
from netplan.simulation.slow_gpus import Jitter, jittered, meeting_replicas, slowed, stage_slowness
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import FabricGraph
from netplan.traffic.flow_paths import PathFinder
from netplan.traffic.patterns import Pattern
from netplan.traffic.placement import Placement
from netplan.units import si


class Account:
    """What a run says, of one job or of several.

    Parameters
    ----------
    jobs
        Work of each job, and what its flows do to links.
    graph
        The links.
    conditions, tick_s
        How all of it is simulated on them, in whole ticks [s].
    """

    def __init__(
        self,
        jobs: Sequence[PlanWork],
        graph: FabricGraph,
        conditions: "Conditions",
        tick_s: float,
        **how: Any,  # noqa: ANN401 - of :func:`simulate_pipelines`
    ) -> None:
        self.pipelines, kept = linked_work(jobs, tick_s)
        given = {"links": len(kept), "link_sharing": conditions.sharing, **how}
        result = simulate_pipelines(self.pipelines, **given)
        self.jobs, self.result, self.graph = jobs, result, graph
        self.busy_s = np.zeros(2 * graph.link_count)
        self.waited_s = np.zeros(2 * graph.link_count)
        self.sharing = np.zeros(2 * graph.link_count, np.int64)
        self.flows = 0
        for job, times in zip(jobs, self._times(), strict=True):
            sent_bytes = np.zeros(len(job.columns))
            for part, often in chain.from_iterable(map(tasks.parts_of_pipeline, job.pipelines)):
                if isinstance(part, tasks.FlowMessage) and job.columns:
                    sent_bytes[part.flows] += often * part.sent_bytes
            for column, amount in zip(job.columns, sent_bytes.tolist(), strict=True):
                self.busy_s[column.links] += times * amount * column.seconds_per_byte
                # All of it is one flow, or every pair is one by itself.
                pairs = [(len(level.pair), level.links) for level in column.levels]
                for flows, links in (pairs or [(1, column.links)]) if amount else ():
                    np.add.at(self.sharing, links, 1)
                    self.flows += flows
        # Mean paces of jobs that began and ended at other times may be more than a link carries.
        np.minimum(self.busy_s, result.iteration_time_s if len(jobs) > 1 else inf, out=self.busy_s)
        for link, waited_s in result.tally.waited_s.items():
            self.waited_s[kept[link]] += waited_s

    def drawn(self, conditions: "Conditions", *, members: int, replicas: int) -> Jitter | None:
        """Times of the first pipeline's iterations with jitter; None where there is none.

        Parameters
        ----------
        conditions
            Spread and seed.
        members, replicas
            GPUs of a stage, and pipelines, that wait for each other [1].
        """
        if not conditions.jitter:
            return None
        return jittered(
            self.pipelines[0],
            self.result.spans,
            spread=conditions.jitter,
            members=members,
            replicas=replicas,
            seed=conditions.seed,
        )

    def _times(self) -> Iterator[float]:
        """How often each of several jobs iterates in the whole time, at its mean pace [1]."""
        whole_s, first = self.result.iteration_time_s, 0
        for job in self.jobs:
            own_s = self.result.pipelines[first].iteration_time_s
            yield whole_s / own_s if len(self.jobs) > 1 else 1.0
            first += len(job.pipelines)

    def outcome(self, busiest: int, seconds: float, **fields: Any) -> SimulationOutcome:  # noqa: ANN401 - its fields
        """All of it, with so many of the busiest links, and what only the asker knows."""
        result = self.result
        fluid = None
        if result.solves is not None:
            fluid = FluidRun(self.busy_s, self.sharing, self.flows, result.solves)
        slowest = max(result.pipelines, key=lambda pipeline: pipeline.microbatches)
        return outcome_of(
            self.graph,
            result,
            self._stages(),
            (self.busy_s, self.waited_s),
            result.iteration_time_s,
            busiest,
            waiting_s=sum(result.tally.waited_s.values()),
            microbatches=slowest.microbatches,
            microbatches_simulated=slowest.simulated,
            replicas_simulated=len(result.pipelines),
            seconds=seconds,
            fluid=fluid,
            **fields,
        )

    def _stages(self) -> tuple[Floats, Floats, Floats]:
        """Work of each stage but for messages, all of it where nothing waits, its busy time [s].

        Stages are numbered on from job to job; of replicas in step one is looked at.
        """
        columns: list[tuple[Floats, Floats, Floats]] = []
        first = 0
        for job, iterations in zip(self.jobs, self._times(), strict=True):
            linked, given = self.pipelines[first], job.pipelines[0]
            alone, compute = np.zeros(linked.stages), np.zeros(linked.stages)
            for stage, work, times in tasks.work_of_stages(linked):
                alone[stage] += times * tasks.alone_s(work)
            for stage, work, times in tasks.work_of_stages(given):
                compute[stage] += times * tasks.alone_s(work, messages=False)
            busy = self.result.pipelines[first].busy_s
            columns.append((iterations * compute, iterations * alone, iterations * busy))
            first += len(job.pipelines)
        compute, alone, busy = (np.concatenate(column) for column in zip(*columns, strict=True))
        return compute, alone, busy


TICK_DIGITS = 49
"""Binary digits of an iteration in ticks; four of a number are left above [1]."""


class Conditions(Struct, frozen=True, kw_only=True, eq=False):
    """How an iteration is simulated.

    Parameters
    ----------
    algorithm
        Which pairs of a group talk.
    schedule
        Order of the passes; None takes that of the plan.
    routing, seed
        How messages find their way; seed of the paths that hashed routing draws, and of no more.
    sharing
        Whether messages take links one after another, or share them as a fluid.
    connections
        Of every pair of GPUs, each hashed by itself [1].
    collectives
        Whether the pairs of a collective advance at one rate, or each step of each is a message.
    contention
        Whether links are shared; without, everything takes as long as alone.
    ample
        Whether only links that end at a GPU bind.
    gpus
        GPU of the graph at which each GPU of the plan's cluster stands, shape (gpus,); None where
        they are the same.
    rates
        Share of its rate that each link has, shape (links,); None where all have all of it [1].
    shares
        Share of its rate that each GPU of the graph computes at, shape (gpus,); None where all are
        as fast as they were built [1].
    jitter
        Relative spread of stretches of computing, drawn by ``seed``; 0 where they take what they
        take [1].
    routes
        Ways round links that have failed; None where all are there. What they add is counted from
        the ways of ``routing``.
    trains
        Whether there are backward passes; inference has forward passes alone.
    full
        Simulate every microbatch.
    spans
        Keep every pass and transfer, for a timeline.
    busiest
        Links that the answer names [1].
    each_replica
        Simulate every data parallel replica by itself.
    distance
        What several sites add; None of one.
    """

    algorithm: Pattern = "hierarchical"
    schedule: tasks.SimulatedSchedule | None = None
    routing: RunRouting = "auto"
    seed: int = 0
    sharing: tasks.LinkSharing = "booked"
    connections: int = 1
    collectives: Collectives = "coupled"
    contention: bool = True
    ample: bool = False
    gpus: AnyInts | None = None
    rates: Floats | None = None
    shares: Floats | None = None
    jitter: float = 0.0
    routes: PathFinder | None = None
    trains: bool = True
    full: bool = False
    spans: bool = False
    busiest: int = 10
    each_replica: bool = False
    distance: Distance | None = None

    def gpu_of(self, ranks: AnyInts) -> AnyInts:
        """GPU of the graph at which each rank stands, of GPUs of the plan's cluster."""
        return ranks if self.gpus is None else self.gpus[ranks].astype(np.int32)

    @property
    def on_whole_links(self) -> "Conditions":
        """The same on links and GPUs that are all there at full rate, for its time alone."""
        return replace(self, rates=None, shares=None, jitter=0.0, routes=None, spans=False)


PLAIN = Conditions()
SENT_BY = ("algorithm", "routing", "seed", "connections", "rates", "routes")
"""Conditions that say how messages take the links."""


def simulate_training(
    setting: Setting,
    timed: PlanTime,
    fabric: Fabric,
    graph: FabricGraph,
    conditions: Conditions = PLAIN,
    *,
    tick: Callable[[int, int], None] | None = None,
) -> SimulationOutcome:
    """Simulate one iteration of a plan on a fabric.

    Parameters
    ----------
    setting, timed
        What is trained, and the plan, as a search finds it.
    fabric, graph
        The fabric that the plan is placed on: its levels, and its links.
    conditions
        Schedule, routing, degraded links, and what the answer has.
    tick
        Called with the microbatches that are through, and all of them.

    Raises
    ------
    InputError
        If the plan cannot be simulated, a path is missing, or a link that is needed has no rate.

    Examples
    --------
    GPT-146B on 64 GPUs, four stages: 0.1 % less than the closed form, which adds up transfers.

    >>> from netplan import Scenario
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.search import PlanSearch
    >>> from netplan.performance.setting import Fixed, Options
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> gpu, model = ACCELERATORS.load("h100-80gb"), MODELS.load("gpt-146b")
    >>> trained = TrainedModel.make(gpu, model, ITERATION_MODELS.load("4d"), batch=64)
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> sizing, spec = scenario.sizing, FABRICS.load("rail-only")
    >>> fabric, graph = build_fabric(spec, sizing), expand(spec, sizing)
    >>> search = PlanSearch(trained, options=Options(fixed=Fixed(pipeline=4)))
    >>> found = search.best_on_all(fabric.levels)
    >>> outcome = simulate_training(found.settings[0], found.best, fabric, graph)
    >>> round(outcome.iteration_time_s / found.time_s, 4), outcome.period
    (0.9992, 4)
    """
    job = Job(setting, timed, fabric, conditions.gpus)
    classes = [np.ones(timed.plan.pipeline)]
    if conditions.shares is not None:
        classes = [*job.slowness(conditions.shares)]
    runs = [_simulated((job,), graph, conditions, tick, slow) for slow in classes]
    account, _ = max(runs, key=lambda run: run[0].result.iteration_time_s)
    plan, meeting = timed.plan, meeting_replicas(setting, timed.plan)
    members = meeting * plan.gpus // (plan.pipeline * plan.data)
    return account.outcome(
        conditions.busiest,
        sum(seconds for _, seconds in runs),
        jitter=account.drawn(conditions, members=members, replicas=-(-plan.data // meeting)),
        analytic_time_s=timed.iteration_time_s if conditions.trains else None,
        sequences_per_s=setting.training.batch / account.result.iteration_time_s,
        replicas=plan.data,
        notes=tuple(_notes(account, job, conditions)),
    )


def _notes(account: Account, job: "Job", conditions: Conditions) -> Iterator[str]:
    """How fast inference is, and where memory traffic is counted if it is sent."""
    if not conditions.trains:
        yield from _inference_rate(account.result.spans, job)
    if any(flows.memory for work in account.jobs for flows in work.uses):
        yield (
            "Memory lies behind channels: what operations move goes there, and what of it FLOPs do"
            " not hide counts as communicating. Closed forms give each GPU its share of a channel."
        )


def _inference_rate(spans: Sequence[BusyInterval], job: "Job") -> Iterator[str]:
    """How fast a full pipeline infers, by the later half of its microbatches."""
    plan, counts = job.timed.plan, job.setting.training.model.counts
    last = max((span.virtual for span in spans), default=0)
    ends_s = [span.end_s for span in spans if (span.kind, span.virtual) == (FORWARD, last)]
    half = len(ends_s) // 2
    if half:
        interval_s = (ends_s[-1] - ends_s[half - 1]) / (len(ends_s) - half)
        rate = plan.microbatch * plan.data / interval_s
        yield (
            f"Once the pipeline is full a microbatch comes through every {si(interval_s, 's', 4)}:"
            f" {rate:,.4g} {counts}/s, filling and draining left out."
        )


class Job(Struct, frozen=True, eq=False):
    """A plan on a fabric of its own, and where that stands on a larger one.

    Parameters
    ----------
    setting, timed, fabric
        What is trained by which plan, and the fabric whose levels say how long messages take alone.
    gpus
        GPU of the graph at which each GPU of that fabric stands, shape (gpus,); None where they are
        the same.
    weight
        Of its flows beside those of other jobs, where links are shared [1].
    """

    setting: Setting
    timed: PlanTime
    fabric: Fabric
    gpus: AnyInts | None = None
    weight: float = 1.0

    @property
    def placement(self) -> Placement:
        """Ranks of the plan on the levels of its fabric."""
        return plan_placement(self.setting, self.timed.plan, self.fabric.levels)

    @property
    def gpu_of_rank(self) -> AnyInts:
        """GPU of the graph at which each rank stands, shape (ranks,)."""
        ranks = self.placement.gpu_of_rank
        return ranks if self.gpus is None else self.gpus[ranks].astype(np.int32)

    def slowness(self, shares: Floats) -> Floats:
        """How many times as long stages compute, of each class of replicas, (classes, stages)."""
        meeting = meeting_replicas(self.setting, self.timed.plan)
        return stage_slowness(shares, self.placement, self.gpu_of_rank, meeting=meeting)


class JobsOutcome(Struct, frozen=True):
    """Several jobs at once, begun at the same moment, which repeat their iterations.

    Parameters
    ----------
    whole
        All of them, until the last iteration that counts ends; stages are numbered on from job to
        job, and all iterate at their mean pace.
    times_s, iterations
        Mean iteration time of each job beside the others, and over how many iterations [s, 1].
    """

    whole: SimulationOutcome
    times_s: tuple[float, ...]
    iterations: tuple[int, ...]


def simulate_jobs(
    jobs: Sequence[Job],
    graph: FabricGraph,
    conditions: Conditions = PLAIN,
    *,
    tick: Callable[[int, int], None] | None = None,
) -> JobsOutcome:
    """Simulate iterations of several jobs that share the links of a fabric.

    Those that share links repeat their iterations beside each other
    (`netplan.simulation.run`).

    Parameters
    ----------
    jobs
        The jobs, no two of which share a GPU.
    graph
        Links that all of them use.
    conditions, tick
        As of `simulate_training`; where the GPUs are, each job says itself.

    Examples
    --------
    Two jobs of 32 GPUs each, of which neither waits for the other: leaves do not block.

    >>> from netplan import Scenario
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.search import PlanSearch
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> gpu, model = ACCELERATORS.load("h100-80gb"), MODELS.load("gpt-22b")
    >>> trained = TrainedModel.make(gpu, model, ITERATION_MODELS.load("4d"), batch=32)
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> spec, half = FABRICS.load("rail-only"), scenario.sizing
    >>> fabric, graph = build_fabric(spec, half), expand(spec, replace(half, gpus=64))
    >>> found = PlanSearch(trained).best_on_all(fabric.levels)
    >>> first, second = (
    ...     Job(found.settings[0], found.best, fabric, np.arange(at, at + 32)) for at in (0, 32)
    ... )
    >>> (alone_s,) = simulate_jobs((first,), graph).times_s
    >>> simulate_jobs((first, second), graph).times_s == (alone_s, alone_s)
    True
    """
    account, seconds = _simulated(jobs, graph, replace(conditions, each_replica=False), tick)
    times_s = tuple(run.iteration_time_s for run in account.result.pipelines)
    rates = (job.setting.training.batch / time_s for job, time_s in zip(jobs, times_s, strict=True))
    whole = account.outcome(
        conditions.busiest,
        seconds,
        analytic_time_s=None,
        sequences_per_s=sum(rates),
        replicas=sum(job.timed.plan.data for job in jobs),
    )
    return JobsOutcome(whole, times_s, tuple(run.iterations for run in account.result.pipelines))


def _simulated(
    jobs: Sequence[Job],
    graph: FabricGraph,
    conditions: Conditions,
    tick: Callable[[int, int], None] | None,
    slow: Floats | None = None,
) -> tuple[Account, float]:
    """Simulate jobs; what the run says, and how long that took [s].

    ``slow`` says how many times as long stages of a single job compute; of several each has the
    worst of its replicas at every stage.
    """
    began = time.perf_counter()
    works = [_work_of(job, graph, conditions) for job in jobs]
    factors = [slow] * len(jobs)
    if slow is None and conditions.shares is not None:
        factors = [job.slowness(conditions.shares).max(axis=0) for job in jobs]
    works = [
        work if factor is None else slow_work(work, factor)
        for work, factor in zip(works, factors, strict=True)
    ]
    slowest = max((float(factor.max()) for factor in factors if factor is not None), default=1.0)
    longest_s = max(
        job.timed.iteration_time_s * min(1.0, tasks.TICKED / job.timed.plan.microbatches)
        for job in jobs
    )
    account = Account(
        works,
        graph,
        conditions,
        tasks.tick_of(slowest * longest_s, TICK_DIGITS),
        full=conditions.full or conditions.jitter > 0,
        spans=conditions.spans or conditions.jitter > 0,
        repeat=len(jobs) > 1,
        tick=tick,
    )
    return account, time.perf_counter() - began


def _work_of(job: Job, graph: FabricGraph, conditions: Conditions) -> PlanWork:
    """The work of a job, its flows sent over the links if these are shared."""
    setting, placement, levels = job.setting, job.placement, job.fabric.levels
    work = plan_work(
        setting,
        job.timed,
        levels,
        schedule=conditions.schedule,
        trains=conditions.trains,
        channels=graph.has("memory"),
        each_replica=conditions.each_replica,
    )
    work = replace(work, weight=job.weight)
    if conditions.distance is not None:
        work = with_distance(work, conditions.distance)
    if not conditions.contention:
        return work
    placement.check_covers(graph.gpus if job.gpus is None else len(job.gpus))
    return on_links(
        work,
        conditions,
        graph=graph,
        placement=placement,
        gpu_of_rank=job.gpu_of_rank,
        efficiency=setting.network(levels).bandwidth_share,
        two_way_rings=any(level.kind == "ring" for level in levels),
        in_phases=setting.assumptions.communication.collectives == "phased",
    )


def slow_work(work: PlanWork, factors: Floats) -> PlanWork:
    """Work whose stages compute so many times as long, shape (stages,) [1]."""
    return replace(work, pipelines=tuple(slowed(pipeline, factors) for pipeline in work.pipelines))


def on_links(work: PlanWork, conditions: Conditions, **where: Any) -> PlanWork:  # noqa: ANN401 - fields of a transport
    """Work with what its flows ask of links, which messages take as the conditions say.

    Where only links that end at a GPU are to bind, messages keep what they take alone beyond their
    bytes on the fabric as it is, by its own routing.
    """
    how = {name: getattr(conditions, name) for name in SENT_BY}
    if conditions.ample:
        how["rates"] = ample_rates(where["graph"], conditions.rates)
    columns = _columns(work, conditions, **how, **where)
    if conditions.ample:
        built = _columns(work, conditions, algorithm=conditions.algorithm, **where)
        columns = tuple(
            replace(column, delayed_s_per_byte=column.carried_s_per_byte - usual.carried_s_per_byte)
            for column, usual in zip(columns, built, strict=True)
        )
    return replace(work, columns=columns)


def _columns(work: PlanWork, conditions: Conditions, **how: Any) -> tuple[LinkTimes, ...]:  # noqa: ANN401
    """What each of the flows asks of links; of a transport with such fields."""
    router = FlowRouter(Transport(**how))
    times = router.times if conditions.collectives == "coupled" else router.by_pairs
    return tuple(times(flows) for flows in work.uses)
