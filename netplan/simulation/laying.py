"""Work laid on links: messages that named flows name the links that may make them wait.

Times become whole ticks of a power of two, so that sums are exact, equal times are equal, and a run
repeats itself exactly.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.records import replace
from netplan.simulation.links import LinkTimes
from netplan.simulation.program_work import PlanWork
from netplan.simulation.reduction import NO_THREAD, Owner, Reduced, reduce_links
from netplan.simulation.work import (
    Burst,
    Message,
    Pass,
    Phase,
    Pipeline,
    bursts_of_branch,
    mapped,
    mapped_branch,
)


class Laid(Struct, frozen=True, eq=False):
    """Pipelines whose messages name the links that may make them wait; codes of these links."""

    pipelines: tuple[Pipeline, ...]
    links: Ints

    @classmethod
    def of(cls, work: PlanWork, columns: Sequence[LinkTimes], tick_s: float) -> "Laid":
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
