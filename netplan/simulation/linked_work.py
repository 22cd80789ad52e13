"""Work on links: messages that named flows name the links that may make them wait.

Times become whole ticks (`netplan.simulation.work`), so that a run repeats itself exactly.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.simulation.links import LinkTimes
from netplan.simulation.program_work import PlanWork
from netplan.simulation.reduction import NO_THREAD, Issuer, Reduced, reduce_links
from netplan.simulation.work import Burst, Message, Part, Phase, Pipeline, in_ticks, mapped_pipeline


class JobWork(Struct, frozen=True, eq=False):
    """The work of one job, and what its flows do to links.

    Parameters
    ----------
    work
        Pipelines whose messages name flows.
    columns
        What each of the flows asks of links; none without contention.
    """

    work: PlanWork
    columns: tuple[LinkTimes, ...] = ()


class LinkedWork(Struct, frozen=True, eq=False):
    """Pipelines whose messages name the links that may make them wait; codes of these links.

    Pipelines of all jobs follow each other, and share their links.
    """

    pipelines: tuple[Pipeline, ...]
    links: Ints

    @classmethod
    def of(cls, jobs: Sequence[JobWork], tick_s: float) -> "LinkedWork":
        """Put the messages on links; without columns they take as long as alone."""
        columns = [column for job in jobs for column in job.columns]
        reduced = Reduced(np.empty(0, np.int64), ())
        if columns:
            reduced = reduce_links(columns, list(_issuers(jobs)))
        pipelines: list[Pipeline] = []
        first = 0
        for job in jobs:
            linked = partial(_linked, job.columns, reduced.times[first:], tick_s)
            pipelines += [mapped_pipeline(one, linked) for one in job.work.pipelines]
            first += len(job.columns)
        return cls(tuple(pipelines), reduced.links)


def _linked(
    columns: Sequence[LinkTimes],
    kept: Sequence[tuple[tuple[int, ...], tuple[float, ...]]],
    tick_s: float,
    part: Part,
) -> Phase:
    """A delay in whole ticks, or a message on its links; one without links left is a delay."""
    if isinstance(part, Burst):
        return part
    if isinstance(part, float):
        return in_ticks(part, tick_s)
    delayed = columns[part.flows].delayed_s_per_byte if columns else 0.0
    alone = in_ticks(part.alone_s + delayed * part.sent_bytes, tick_s)
    links, times = kept[part.flows] if columns else ((), ())
    if not links:
        return alone
    busy = tuple(in_ticks(one * part.sent_bytes, tick_s) for one in times)
    return Burst((Message(links, alone, busy),))


def _issuers(jobs: Sequence[JobWork]) -> Iterator[Issuer]:
    """Who issues the messages of each of the flows; stages are numbered on from job to job."""
    first = 0
    for job in jobs:
        stages = job.work.pipelines[0].stages
        for (flows, use), column in zip(job.work.uses.items(), job.columns, strict=True):
            stage = NO_THREAD
            if flows.to == flows.stage:
                stage = first + flows.stage + stages * (flows.replica or 0)
            threads = sum(1 << one for one in use.threads)
            yield Issuer(stage, threads, use.seconds_per_byte + column.delayed_s_per_byte)
        first += stages * len(job.work.pipelines)
