"""One iteration of a plan on the links of a fabric, event by event.

Work, collectives and their times come from the plan (`netplan.simulation.program_work`), what they
ask of each link from its traffic (`netplan.simulation.links`). Links that cannot make anything wait
are left out (`netplan.simulation.reduction`), and the rest is simulated.

Data parallel replicas do the same at the same time: one is simulated, and its messages stand for
those of all. Times are whole ticks of a power of two, so that sums are exact, equal times are
equal, and a run repeats itself exactly: a tick is about 10^-15 of the iteration.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Floats, Ints
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.records import replace
from netplan.simulation.links import LinkBook, LinkTimes, Wiring
from netplan.simulation.outcome import GroupOutcome, LinkOutcome, Outcome, StageOutcome
from netplan.simulation.program_work import PlanWork, plan_work
from netplan.simulation.reduction import NO_THREAD, Owner, Reduced, reduce_links
from netplan.simulation.run import SimulationResult, simulate_pipelines
from netplan.simulation.work import (
    Burst,
    Message,
    Pass,
    Phase,
    Pipeline,
    ScheduleName,
    Work,
    alone_s,
    bursts_of,
    bursts_of_branch,
    mapped,
    mapped_branch,
)
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import FabricGraph
from netplan.traffic.patterns import Pattern
from netplan.traffic.routing import Routing

TICKS = 49
"""An iteration is about two to this power of ticks; twelve bits of a number are left above [1]."""

ROUNDING = 1e-12
"""Shares of an iteration below this are rounding [1]."""


class Conditions(Struct, frozen=True, kw_only=True, eq=False):
    """How an iteration is simulated.

    Parameters
    ----------
    algorithm
        Which pairs of a group talk.
    schedule
        Order of the passes; None takes that of the plan.
    routing, seed
        How messages find their way; seed of hashed paths.
    contention
        Whether links are shared; without, everything takes as long as alone.
    gpus
        GPU of the graph at which each GPU of the plan's cluster stands, shape (gpus,); None where
        they are the same.
    rates
        Share of its rate that each link has, shape (links,); None where all have all of it [1].
    full
        Simulate every microbatch.
    spans
        Keep every pass and transfer, for a timeline.
    hot
        Links that the answer names [1].
    each_replica
        Simulate every data parallel replica by itself.
    """

    algorithm: Pattern = "hierarchical"
    schedule: ScheduleName | None = None
    routing: Routing = "auto"
    seed: int = 0
    contention: bool = True
    gpus: AnyInts | None = None
    rates: Floats | None = None
    full: bool = False
    spans: bool = False
    hot: int = 10
    each_replica: bool = False


PLAIN = Conditions()


def simulate_training(
    setting: Setting,
    timed: PlanTime,
    fabric: Fabric,
    graph: FabricGraph,
    conditions: Conditions = PLAIN,
    *,
    tick: Callable[[int, int], None] | None = None,
) -> Outcome:
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
    GPT-1T on 64 GPUs: eight stages of a tensor group each.
    """
    began = time.perf_counter()
    work = plan_work(
        setting,
        timed.plan,
        fabric.levels,
        schedule=conditions.schedule,
        each_replica=conditions.each_replica,
    )
    columns: list[LinkTimes] = []
    if conditions.contention:
        timed.plan.placement.check_covers(graph.gpus)
        book = LinkBook(_wiring(setting, timed, fabric, graph, conditions))
        columns = [book.times(flows) for flows in work.book]
    laid = _Laid.of(work, columns, _tick_s(timed.iteration_time_s))
    result = simulate_pipelines(
        laid.pipelines,
        links=len(laid.links),
        full=conditions.full,
        spans=conditions.spans,
        tick=tick,
    )
    found = _Findings(work, columns, laid, result, graph)
    bound_s, binding = found.lower_bound()
    slowest = max(result.pipelines, key=lambda one: one.microbatches)
    return Outcome(
        iteration_time_s=result.iteration_time_s,
        analytic_time_s=timed.iteration_time_s,
        lower_bound_s=bound_s,
        binding=binding,
        sequences_per_s=setting.training.batch / result.iteration_time_s,
        waiting_s=sum(result.tally.waited_s.values()),
        microbatches=slowest.microbatches,
        microbatches_simulated=slowest.simulated,
        period=result.period,
        replicas=timed.plan.data,
        replicas_simulated=len(work.pipelines),
        bookings=result.tally.bookings,
        seconds=time.perf_counter() - began,
        stages=tuple(found.stages()),
        links=tuple(found.links(conditions.hot)),
        groups=tuple(found.groups()),
        spans=result.spans,
    )


def _wiring(
    setting: Setting,
    timed: PlanTime,
    fabric: Fabric,
    graph: FabricGraph,
    conditions: Conditions,
) -> Wiring:
    """How messages take the links of the fabric."""
    part, placement = setting.assumptions.communication, timed.plan.placement
    ranks, stands = placement.gpu_of_rank, conditions.gpus
    return Wiring(
        graph=graph,
        placement=placement,
        gpu_of_rank=ranks if stands is None else stands[ranks].astype(np.int32),
        algorithm=conditions.algorithm,
        routing=conditions.routing,
        seed=conditions.seed,
        rates=conditions.rates,
        efficiency=part.bandwidth_efficiency,
        two_way_rings=any(level.kind == "ring" for level in fabric.levels),
        in_phases=part.collectives == "phased",
    )


def _tick_s(iteration_time_s: float) -> float:
    """A power of two, such that an iteration is some 2^49 of them [s]."""
    return 2.0 ** (math.frexp(iteration_time_s)[1] - TICKS)


class _Laid(Struct, frozen=True, eq=False):
    """Pipelines whose messages name the links that may make them wait; codes of these links."""

    pipelines: tuple[Pipeline, ...]
    links: Ints

    @classmethod
    def of(cls, work: PlanWork, columns: Sequence[LinkTimes], tick_s: float) -> "_Laid":
        """Lay the messages on links; without columns they take as long as alone."""
        nothing = ((), ())
        reduced = Reduced(np.empty(0, np.int64), (nothing,) * len(work.book))
        delayed = [0.0] * len(work.book)
        if columns:
            delayed = [one.delayed_s_per_byte for one in columns]
            reduced = reduce_links(columns, _owners(work, delayed))

        def laid(phase: Phase) -> Phase:
            if isinstance(phase, float):
                return tick_s * round(phase / tick_s)
            (message,) = (one for burst in bursts_of_branch((phase,)) for one in burst.messages)
            (number,), (sent_bytes,) = message.links, message.busy_s
            seconds = message.seconds + delayed[number] * sent_bytes
            alone = tick_s * round(seconds / tick_s)
            links, times = reduced.times[number]
            if not links:
                return alone
            busy = tuple(tick_s * round(one * sent_bytes / tick_s) for one in times)
            return Burst((Message(links, alone, busy),))

        return cls(tuple(_changed(one, laid) for one in work.pipelines), reduced.links)


def _owners(work: PlanWork, delayed: Sequence[float]) -> list[Owner]:
    """Who issues the messages of each of the flows."""
    owners = []
    stages = work.pipelines[0].stages
    for (flows, use), more in zip(work.book.items(), delayed, strict=True):
        stage = NO_THREAD if flows.to != flows.stage else flows.stage
        if stage != NO_THREAD and flows.replica is not None:
            stage += stages * flows.replica
        threads = sum(1 << one for one in use.threads)
        owners.append(Owner(stage, threads, use.seconds_per_byte + more))
    return owners


def _changed(pipeline: Pipeline, change: Callable[[Phase], Phase]) -> Pipeline:
    """The same pipeline with every delay and message changed."""

    def pass_of(one: Pass) -> Pass:
        first, last, only = (
            None if work is None else mapped(work, change)
            for work in (one.first, one.last, one.only)
        )
        return Pass(mapped(one.middle, change), first, last, only)

    return replace(
        pipeline,
        forward=tuple(map(pass_of, pipeline.forward)),
        backward=tuple(map(pass_of, pipeline.backward)),
        send_forward=tuple(mapped_branch(one, change) for one in pipeline.send_forward),
        send_backward=tuple(mapped_branch(one, change) for one in pipeline.send_backward),
        begin=tuple(mapped(one, change) for one in pipeline.begin),
        finish=tuple(mapped(one, change) for one in pipeline.finish),
    )


def _work_of_stages(pipeline: Pipeline) -> Iterator[tuple[int, Work, int]]:
    """All work of an iteration: of which stage, what, how often."""
    for passes in (pipeline.forward, pipeline.backward):
        for virtual, one in enumerate(passes):
            for work, times in one.counted(pipeline.microbatches):
                yield virtual % pipeline.stages, work, times
    for edge in (pipeline.begin, pipeline.finish):
        for stage, work in enumerate(edge):
            yield stage, work, 1


def _sent_bytes(pipelines: Sequence[Pipeline]) -> Counter[int]:
    """Bytes that an iteration sends, by number of the flows [B]."""
    found: Counter[int] = Counter()
    for pipeline in pipelines:
        bursts = [
            (burst, times)
            for _, work, times in _work_of_stages(pipeline)
            for burst in bursts_of(work)
        ]
        for branch in (*pipeline.send_forward, *pipeline.send_backward):
            bursts += [(burst, pipeline.microbatches) for burst in bursts_of_branch(branch)]
        for burst, times in bursts:
            for message in burst.messages:
                found[message.links[0]] += times * message.busy_s[0]  # type: ignore[assignment]
    return found


class _Findings:
    """What a run says, in the words of the fabric."""

    def __init__(
        self,
        work: PlanWork,
        columns: Sequence[LinkTimes],
        laid: _Laid,
        result: SimulationResult,
        graph: FabricGraph,
    ) -> None:
        self.work, self.laid, self.result, self.graph = work, laid, result, graph
        self.busy_s = np.zeros(2 * graph.link_count)
        self.waited_s = np.zeros(2 * graph.link_count)
        for number, sent_bytes in _sent_bytes(work.pipelines).items() if columns else ():
            column = columns[number]
            self.busy_s[column.links] += sent_bytes * column.seconds_per_byte
        for link, waited_s in result.tally.waited_s.items():
            self.waited_s[laid.links[link]] += waited_s

    def _alone(self) -> tuple[Floats, Floats]:
        """Work of each stage where nothing waits, and what of it is no message, (stages,) [s]."""
        stages = self.laid.pipelines[0].stages
        alone, compute = np.zeros(stages), np.zeros(stages)
        for stage, work, times in _work_of_stages(self.laid.pipelines[0]):
            alone[stage] += times * alone_s(work)
        for stage, work, times in _work_of_stages(self.work.pipelines[0]):
            compute[stage] += times * alone_s(work, messages=False)
        return alone, compute

    def stages(self) -> Iterator[StageOutcome]:
        """Where the time of each stage goes."""
        alone, compute = self._alone()
        busy, end_s = self.result.pipelines[0].busy_s, self.result.iteration_time_s
        for stage in range(len(alone)):
            parts = np.array(
                [
                    compute[stage],
                    alone[stage] - compute[stage],
                    busy[stage] - alone[stage],
                    end_s - busy[stage],
                ]
            )
            # What remains of rounding is no time.
            parts[parts < end_s * ROUNDING] = 0.0
            yield StageOutcome(stage, *parts.tolist())

    def lower_bound(self) -> tuple[float, str]:
        """Work of the busiest stage or link, and which that is."""
        alone, _ = self._alone()
        stage = int(alone.argmax())
        if not self.busy_s.size or self.busy_s.max() <= alone[stage]:
            return float(alone[stage]), f"stage {stage}"
        busiest = self._link(int(self.busy_s.argmax()))
        return busiest.busy_s, f"link {busiest.sender} -> {busiest.receiver}"

    def links(self, count: int) -> Iterator[LinkOutcome]:
        """The busiest link directions, busiest first."""
        order = np.argsort(-self.busy_s, kind="stable")[:count]
        return (self._link(int(code)) for code in order if self.busy_s[code] > 0)

    def _link(self, code: int) -> LinkOutcome:
        graph, busy_s = self.graph, float(self.busy_s[code])
        back, link = divmod(code, graph.link_count)
        ends = [graph.node_name(int(end[link])) for end in (graph.source, graph.target)]
        sender, receiver = reversed(ends) if back else ends
        return LinkOutcome(
            link=code,
            group=graph.group_names[graph.group[link]],
            sender=sender,
            receiver=receiver,
            busy_s=busy_s,
            waited_s=float(self.waited_s[code]),
            utilisation=busy_s / self.result.iteration_time_s,
        )

    def groups(self) -> Iterator[GroupOutcome]:
        """All links by group, in the order of the graph."""
        graph = self.graph
        for code, name in enumerate(graph.group_names):
            chosen = np.tile(graph.group == code, 2)
            if not chosen.any():
                continue
            busy_s = self.busy_s[chosen]
            yield GroupOutcome(
                group=name,
                directions=len(busy_s),
                unused=int(np.count_nonzero(busy_s == 0)),
                busy_s=float(busy_s.max()),
                waited_s=float(self.waited_s[chosen].sum()),
                utilisation=float(busy_s.mean()) / self.result.iteration_time_s,
            )
