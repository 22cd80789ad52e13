"""What a run says, in the words of the plan and of the fabric."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import numpy as np

from netplan.arrays import Floats
from netplan.simulation.linked_work import JobWork, LinkedWork
from netplan.simulation.outcome import (
    Outcome,
    busiest_links,
    link_groups,
    lower_bound,
    stage_outcomes,
)
from netplan.simulation.run import SimulationResult
from netplan.simulation.work import (
    FlowMessage,
    Pipeline,
    alone_s,
    parts_of_pipeline,
    work_of_stages,
)
from netplan.topologies.graph import FabricGraph


def _sent_bytes(pipelines: Sequence[Pipeline]) -> dict[int, float]:
    """Bytes that an iteration sends, by number of the flows [B]."""
    found: defaultdict[int, float] = defaultdict(float)
    for pipeline in pipelines:
        for part, times in parts_of_pipeline(pipeline):
            if isinstance(part, FlowMessage):
                found[part.flows] += times * part.sent_bytes
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
        for job, times in zip(jobs, self._times(), strict=True):
            sent = _sent_bytes(job.work.pipelines) if job.columns else {}
            for number, sent_bytes in sent.items():
                column = job.columns[number]
                self.busy_s[column.links] += times * sent_bytes * column.seconds_per_byte
        # Mean paces of jobs that began and ended at other times may be more than a link carries.
        np.minimum(self.busy_s, result.iteration_time_s if len(jobs) > 1 else inf, out=self.busy_s)
        for link, waited_s in result.tally.waited_s.items():
            self.waited_s[linked.links[link]] += waited_s

    def _times(self) -> Iterator[float]:
        """How often each of several jobs iterates in the whole time, at its mean pace [1]."""
        whole_s, first = self.result.iteration_time_s, 0
        for job in self.jobs:
            own_s = self.result.pipelines[first].iteration_time_s
            yield whole_s / own_s if len(self.jobs) > 1 else 1.0
            first += len(job.work.pipelines)

    @property
    def shares_links(self) -> bool:
        """Whether messages may wait for each other at all."""
        return bool(self.jobs[0].columns)

    def outcome(self, hot: int, seconds: float, **said: Any) -> Outcome:  # noqa: ANN401 - its fields
        """All of it, with the ``hot`` busiest links, and what only the asker knows."""
        result = self.result
        work_s, compute_s, busy_s = self._stages()
        slowest = max(result.pipelines, key=lambda one: one.microbatches)
        on_links = self.graph, self.busy_s, self.waited_s, result.iteration_time_s
        busiest = busiest_links(*on_links, max(1, hot))
        bound_s, binding = lower_bound(work_s, busiest, result.iteration_time_s)
        return Outcome(
            iteration_time_s=result.iteration_time_s,
            lower_bound_s=bound_s,
            binding=binding,
            waiting_s=sum(result.tally.waited_s.values()),
            microbatches=slowest.microbatches,
            microbatches_simulated=slowest.simulated,
            period=result.period,
            replicas_simulated=len(result.pipelines),
            bookings=result.tally.bookings,
            seconds=seconds,
            stages=stage_outcomes(compute_s, work_s, busy_s, result.iteration_time_s),
            links=busiest[:hot],
            groups=link_groups(*on_links) if self.shares_links else (),
            spans=result.spans,
            **said,
        )

    def _stages(self) -> tuple[Floats, Floats, Floats]:
        """Of each stage: its work where nothing waits, what of it is no message, its busy time [s].

        Stages are numbered on from job to job; of replicas in step one is looked at.
        """
        found: list[tuple[Floats, Floats, Floats]] = []
        first = 0
        for job, pace in zip(self.jobs, self._times(), strict=True):
            linked, given = self.linked.pipelines[first], job.work.pipelines[0]
            alone, compute = np.zeros(linked.stages), np.zeros(linked.stages)
            for stage, work, times in work_of_stages(linked):
                alone[stage] += times * alone_s(work)
            for stage, work, times in work_of_stages(given):
                compute[stage] += times * alone_s(work, messages=False)
            busy = self.result.pipelines[first].busy_s
            found.append((pace * alone, pace * compute, pace * busy))
            first += len(job.work.pipelines)
        alone, compute, busy = (np.concatenate(column) for column in zip(*found, strict=True))
        return alone, compute, busy
