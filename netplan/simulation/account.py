"""What a run says, in the words of the plan and of the fabric."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from netplan.arrays import Floats
from netplan.simulation.linked_work import JobWork, LinkedWork
from netplan.simulation.outcome import Outcome, StageOutcome, busiest_links, link_groups
from netplan.simulation.run import SimulationResult
from netplan.simulation.work import Pipeline, Work, alone_s, bursts_of, bursts_of_branch
from netplan.topologies.graph import FabricGraph

ROUNDING = 1e-12
"""Shares of an iteration below this are rounding [1]."""

TICKS_OFF = 1e-9
"""What whole ticks may take from an iteration, as a share of it [1]."""


def bounded(bound_s: float, time_s: float) -> float:
    """A lower bound that rounding alone puts above the time is that time [s].

    >>> bounded(1.0 + 1e-12, 1.0), bounded(1.1, 1.0), bounded(0.5, 1.0)
    (1.0, 1.1, 0.5)
    """
    return time_s if time_s < bound_s <= time_s * (1 + TICKS_OFF) else bound_s


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


class Account:
    """What a run says, of one job or of several.

    Parameters
    ----------
    jobs
        Work of each job, and what its flows do to links.
    linked, result
        All of it on links, and what became of it.
    graph
        The links.
    """

    def __init__(
        self,
        jobs: Sequence[JobWork],
        linked: LinkedWork,
        result: SimulationResult,
        graph: FabricGraph,
    ) -> None:
        self.jobs, self.linked, self.result, self.graph = jobs, linked, result, graph
        self.busy_s = np.zeros(2 * graph.link_count)
        self.waited_s = np.zeros(2 * graph.link_count)
        for job in jobs:
            for number, sent_bytes in (
                _sent_bytes(job.work.pipelines).items() if job.columns else ()
            ):
                column = job.columns[number]
                self.busy_s[column.links] += sent_bytes * column.seconds_per_byte
        for link, waited_s in result.tally.waited_s.items():
            self.waited_s[linked.links[link]] += waited_s

    def outcome(self, hot: int, seconds: float, **said: Any) -> Outcome:  # noqa: ANN401 - its fields
        """All of it, with the ``hot`` busiest links, and what only the asker knows."""
        result = self.result
        bound_s, binding = self.lower_bound()
        slowest = max(result.pipelines, key=lambda one: one.microbatches)
        links = self.graph, self.busy_s, self.waited_s, result.iteration_time_s
        return Outcome(
            iteration_time_s=result.iteration_time_s,
            lower_bound_s=bounded(bound_s, result.iteration_time_s),
            binding=binding,
            waiting_s=sum(result.tally.waited_s.values()),
            microbatches=slowest.microbatches,
            microbatches_simulated=slowest.simulated,
            period=result.period,
            replicas_simulated=len(result.pipelines),
            bookings=result.tally.bookings,
            seconds=seconds,
            stages=tuple(self.stages()),
            links=busiest_links(*links, hot),
            groups=link_groups(*links) if self.jobs[0].columns else (),  # none without contention
            spans=result.spans,
            **said,
        )

    @cached_property
    def _stages(self) -> tuple[Floats, Floats, Floats]:
        """Of each stage: its work where nothing waits, what of it is no message, its busy time [s].

        Stages are numbered on from job to job; of replicas in step one is looked at.
        """
        found: list[tuple[Floats, Floats, Floats]] = []
        first = 0
        for job in self.jobs:
            linked, given = self.linked.pipelines[first], job.work.pipelines[0]
            alone, compute = np.zeros(linked.stages), np.zeros(linked.stages)
            for stage, work, times in _work_of_stages(linked):
                alone[stage] += times * alone_s(work)
            for stage, work, times in _work_of_stages(given):
                compute[stage] += times * alone_s(work, messages=False)
            found.append((alone, compute, self.result.pipelines[first].busy_s))
            first += len(job.work.pipelines)
        alone, compute, busy = (np.concatenate(column) for column in zip(*found, strict=True))
        return alone, compute, busy

    def stages(self) -> Iterator[StageOutcome]:
        """Where the time of each stage goes."""
        alone, compute, busy = self._stages
        end_s = self.result.iteration_time_s
        parts = np.stack((compute, alone - compute, busy - alone, end_s - busy))
        # What remains of rounding is no time.
        parts[parts < end_s * ROUNDING] = 0.0
        for stage, times in enumerate(parts.T.tolist()):
            yield StageOutcome(stage, *times)

    def lower_bound(self) -> tuple[float, str]:
        """Work of the busiest stage or link, and which that is."""
        alone, _, _ = self._stages
        stage = int(alone.argmax())
        if not self.busy_s.size or self.busy_s.max() <= alone[stage]:
            return float(alone[stage]), f"stage {stage}"
        (busiest,) = busiest_links(
            self.graph, self.busy_s, self.waited_s, self.result.iteration_time_s, 1
        )
        return busiest.busy_s, f"link {busiest.sender} -> {busiest.receiver}"
