"""What a run says, in the words of the plan and of the fabric."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from netplan.arrays import Floats
from netplan.performance.plan import PlanTime
from netplan.simulation.laying import Laid
from netplan.simulation.links import LinkTimes
from netplan.simulation.outcome import GroupOutcome, LinkOutcome, Outcome, StageOutcome
from netplan.simulation.program_work import PlanWork
from netplan.simulation.run import SimulationResult
from netplan.simulation.work import Pipeline, Work, alone_s, bursts_of, bursts_of_branch
from netplan.topologies.graph import FabricGraph

ROUNDING = 1e-12
"""Shares of an iteration below this are rounding [1]."""


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


class Findings:
    """What a run says.

    Parameters
    ----------
    timed
        The plan.
    work, columns
        Its work, whose messages name flows, and what these do to links; none without contention.
    laid, result
        The work laid on links, and what became of it.
    graph
        The links.
    """

    def __init__(
        self,
        timed: PlanTime,
        work: PlanWork,
        columns: Sequence[LinkTimes],
        laid: Laid,
        result: SimulationResult,
        graph: FabricGraph,
    ) -> None:
        self.timed, self.work, self.laid = timed, work, laid
        self.columns, self.result, self.graph = columns, result, graph
        self.busy_s = np.zeros(2 * graph.link_count)
        self.waited_s = np.zeros(2 * graph.link_count)
        for number, sent_bytes in _sent_bytes(work.pipelines).items() if columns else ():
            column = columns[number]
            self.busy_s[column.links] += sent_bytes * column.seconds_per_byte
        for link, waited_s in result.tally.waited_s.items():
            self.waited_s[laid.links[link]] += waited_s

    def outcome(self, batch: int, hot: int, seconds: float) -> Outcome:
        """All of it, for a batch of so many sequences, with the ``hot`` busiest links."""
        result, bound = self.result, self.lower_bound()
        slowest = max(result.pipelines, key=lambda one: one.microbatches)
        return Outcome(
            iteration_time_s=result.iteration_time_s,
            analytic_time_s=self.timed.iteration_time_s,
            lower_bound_s=bound[0],
            binding=bound[1],
            sequences_per_s=batch / result.iteration_time_s,
            waiting_s=sum(result.tally.waited_s.values()),
            microbatches=slowest.microbatches,
            microbatches_simulated=slowest.simulated,
            period=result.period,
            replicas=self.timed.plan.data,
            replicas_simulated=len(self.work.pipelines),
            bookings=result.tally.bookings,
            seconds=seconds,
            stages=tuple(self.stages()),
            links=tuple(self.links(hot)),
            groups=tuple(self.groups()),
            spans=result.spans,
        )

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
        """All links by group, in the order of the graph; none where they do not count."""
        graph = self.graph
        if not self.columns:
            return
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
