"""What a simulated iteration says: its time, where the waiting is, and what no run can beat.

Both modes of the simulator, netplan's own and the published one, answer in this form.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.simulation.run import SimulationResult
from netplan.simulation.schedule import BusyInterval
from netplan.simulation.slow_gpus import Jitter, SlowGpus
from netplan.topologies.graph import FabricGraph

ROUNDING = 1e-12
"""Shares of an iteration below this are rounding [1]."""

TICKS_OFF = 1e-9
"""What whole ticks may take from an iteration, as a share of it [1]."""


class StageOutcome(Struct, frozen=True):
    """Where the time of one pipeline stage goes; the four parts add up to the iteration [s].

    Parameters
    ----------
    stage
        Which, from 0 on.
    compute_s
        Operations on the GPU, memory traffic included.
    communication_s
        Collectives as long as they take alone, as far as nothing hides them.
    waiting_s
        Waiting for links that others use, inside its passes.
    idle_s
        No pass under way: the bubble, transfers, and waiting for other stages.
    """

    stage: int
    compute_s: float
    communication_s: float
    waiting_s: float
    idle_s: float


class LinkOutcome(Struct, frozen=True):
    """One direction of one link in an iteration.

    Parameters
    ----------
    link
        Which: link l of the graph from source to target, links + l back.
    group, sender, receiver, name
        Its group of links, the nodes at its two ends, and both of these in words, with ports where
        several links join them.
    busy_s
        How long it carries something [s].
    waited_s
        How long messages waited for it, as the last of their links to be free [s].
    utilisation
        Busy time over the time of the iteration [1].
    """

    link: int
    group: str
    sender: str
    receiver: str
    name: str
    busy_s: float
    waited_s: float
    utilisation: float


class GroupOutcome(Struct, frozen=True):
    """All links of one group (``hb``, ``host``, ``leaf-spine``, ...), directions apart.

    Parameters
    ----------
    group
        Its name.
    directions, unused
        Directions of its links, and those of them that carry nothing [1].
    busy_s
        Busy time of the busiest of them [s].
    waited_s
        Waiting for all of them together [s].
    utilisation
        Mean over all of them of busy time over the time of the iteration [1].
    """

    group: str
    directions: int
    unused: int
    busy_s: float
    waited_s: float
    utilisation: float


class HandoverOutcome(Struct, frozen=True):
    """What adapter tiles hand from one stage to the next for a microbatch, forward.

    Parameters
    ----------
    stage
        Stage that sends, from 0 on.
    adapters
        Adapter tiles of the receiving stage [1].
    sent_bytes, hop_bytes
        What tiles send, and the same counted on each link that it passes [B].
    time_s
        Time where nothing else is on the links: the four terms of Eq. 7 or 8 [s].
    source_s, between_s, adapters_s, broadcast_s
        Sums at the source; from group to group; sums of the adapters; inside the destination [s].
    """

    stage: int
    adapters: int
    sent_bytes: float
    hop_bytes: float
    time_s: float
    source_s: float
    between_s: float
    adapters_s: float
    broadcast_s: float


class FluidRun(Struct, frozen=True, eq=False):
    """What links went through that a run has shared as a fluid.

    Parameters
    ----------
    busy_s
        What every direction of a link carried, over its rate, shape (2 x links,) [s].
    sharing
        Flows on every direction, shape as before [1].
    flows, solves
        Flows, and how often their rates were found [1].
    """

    busy_s: Floats
    sharing: Ints
    flows: int
    solves: int


class SimulationOutcome(Struct, frozen=True, kw_only=True):
    """What became of a simulated iteration.

    Parameters
    ----------
    iteration_time_s
        Time of the iteration [s].
    analytic_time_s
        What the closed forms of the search say of the same plan; None where there are none [s].
    intact_time_s
        Time of the iteration on links and GPUs that are all whole; None where they are, or nobody
        asks [s].
    lower_bound_s, binding
        What no schedule beats: work of the busiest stage, or of the busiest link; and which [s].
    sequences_per_s
        Sequences, or whatever else the model's batch counts, in a second [1/s].
    waiting_s
        Waiting of messages for links, all together, hidden or not [s].
    microbatches, microbatches_simulated
        Microbatches of one replica, and how many of them were simulated one by one [1].
    period
        Microbatches after which the run repeats itself; None if all were simulated [1].
    replicas, replicas_simulated
        Data parallel replicas, and how many of them have events of their own [1].
    bookings
        Messages that were booked on links [1].
    seconds
        Time that the simulation took, by the clock on the wall [s].
    stages
        Every pipeline stage.
    links
        The busiest link directions, busiest first.
    groups
        Every group of links, in the order of the graph; none without contention.
    handovers
        What adapter tiles hand over behind each stage but the last, where they do.
    spans
        Passes in the order of their ends, where they were asked for.
    notes
        What the reader should know, a sentence each.
    fluid
        What the links went through; None where they were booked.
    slow, jitter
        What slow GPUs cost, and times with jitter; None where nobody asks.
    """

    json_parts = (
        *("iteration_time_s", "analytic_time_s", "intact_time_s", "lower_bound_s", "binding"),
        *("sequences_per_s", "waiting_s", "microbatches", "microbatches_simulated", "period"),
        *("replicas", "replicas_simulated", "bookings", "seconds", "stages", "links", "groups"),
        *("?handovers", "?slow", "?jitter"),
    )

    iteration_time_s: float
    analytic_time_s: float | None
    intact_time_s: float | None = None
    lower_bound_s: float
    binding: str
    sequences_per_s: float
    waiting_s: float
    microbatches: int
    microbatches_simulated: int
    period: int | None
    replicas: int
    replicas_simulated: int
    bookings: int
    seconds: float
    stages: tuple[StageOutcome, ...]
    links: tuple[LinkOutcome, ...] = ()
    groups: tuple[GroupOutcome, ...] = ()
    handovers: tuple[HandoverOutcome, ...] = ()
    spans: tuple[BusyInterval, ...] = ()
    notes: tuple[str, ...] = ()
    fluid: FluidRun | None = None
    slow: SlowGpus | None = None
    jitter: Jitter | None = None


def outcome_of(
    graph: FabricGraph,
    result: SimulationResult,
    stages_s: tuple[Floats, Floats, Floats],
    links_s: tuple[Floats, Floats],
    time_s: float,
    count: int,
    **known: Any,  # noqa: ANN401 - other fields of the outcome
) -> SimulationOutcome:
    """What a run says: where the time of stages goes, which links are busy, and its bound.

    Parameters
    ----------
    graph, result
        The fabric, and what became of the pipelines on it.
    stages_s
        As of `stage_outcomes`, shape (stages,) each [s].
    links_s
        Busy time and waiting of each direction of links, shape (2 x links,) each [s].
    time_s
        Time of the iteration [s].
    count
        Busiest links that are named [1].
    known
        Fields that this does not find.

    Returns
    -------
    SimulationOutcome
        All of it; groups of links where any of them is busy.
    """
    busiest = busiest_links(graph, *links_s, time_s, max(1, count))
    bound_s, binding = schedule_bound(stages_s[1], busiest, time_s)
    return SimulationOutcome(
        iteration_time_s=time_s,
        lower_bound_s=bound_s,
        binding=binding,
        stages=stage_outcomes(*stages_s, time_s),
        links=busiest[:count],
        groups=link_groups(graph, *links_s, time_s) if busiest else (),
        period=result.period,
        bookings=result.tally.bookings,
        spans=result.spans,
        **known,
    )


def busiest_links(
    graph: FabricGraph, busy_s: Floats, waited_s: Floats, time_s: float, count: int
) -> tuple[LinkOutcome, ...]:
    """Directions of links that are busiest, busiest first; those that carry nothing are left out.

    Parameters
    ----------
    graph
        The fabric.
    busy_s, waited_s
        Busy time and waiting of each direction, shape (2 x links,) [s].
    time_s
        Time of the iteration [s].
    count
        How many, at most [1].

    Examples
    --------
    Eight GPUs below one switch; the fourth receives for 2 of 8 s.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=8, radix=8, hb_size=1)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> busy_s = np.zeros(2 * graph.link_count)
    >>> busy_s[graph.link_count + 3] = 2.0
    >>> (one,) = busiest_links(graph, busy_s, 0 * busy_s, time_s=8.0, count=5)
    >>> one.name, one.utilisation
    ('leaf-0 -> gpu-3', 0.25)
    """
    chosen = np.argsort(-busy_s, kind="stable")[:count]
    chosen = chosen[busy_s[chosen] > 0]
    ends = np.stack((graph.source, graph.target))
    outcomes = []
    for code, name in zip(chosen.tolist(), graph.direction_names(chosen), strict=True):
        direction, link = divmod(code, graph.link_count)
        sender, receiver = (graph.node_name(int(end)) for end in np.roll(ends[:, link], direction))
        group = graph.group_names[graph.group[link]]
        amounts = float(busy_s[code]), float(waited_s[code]), float(busy_s[code] / time_s)
        outcomes.append(LinkOutcome(code, group, sender, receiver, name, *amounts))
    return tuple(outcomes)


def link_groups(
    graph: FabricGraph, busy_s: Floats, waited_s: Floats, time_s: float
) -> tuple[GroupOutcome, ...]:
    """Every group of links, in the order of the graph; parameters as of `busiest_links`.

    Examples
    --------
    Eight links to the leaf, of which GPU 0 sends on its own for 1 s of 4:

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=8, radix=16, hb_size=1)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> busy_s = np.zeros(2 * graph.link_count)
    >>> busy_s[0] = 1.0
    >>> (group,) = link_groups(graph, busy_s, 0 * busy_s, time_s=4.0)
    >>> group.group, group.directions, group.unused, group.busy_s, group.utilisation
    ('host', 16, 15, 1.0, 0.015625)
    """
    outcomes = []
    for name in graph.links_per_group():
        links = graph.links_of(name)
        codes = np.concatenate((links, links + graph.link_count))
        busy = busy_s[codes]
        outcomes.append(
            GroupOutcome(
                group=name,
                directions=len(codes),
                unused=int(np.count_nonzero(busy == 0)),
                busy_s=float(busy.max()),
                waited_s=float(waited_s[codes].sum()),
                utilisation=float(busy.mean() / time_s),
            )
        )
    return tuple(outcomes)


def stage_outcomes(
    compute_s: Floats, alone_s: Floats, busy_s: Floats, time_s: float
) -> tuple[StageOutcome, ...]:
    """Where the time of every stage goes.

    Parameters
    ----------
    compute_s, alone_s, busy_s
        Of each stage: its work without messages, its work where nothing waits, and how long it was
        at work, shape (stages,) [s].
    time_s
        Time of the iteration [s].

    Examples
    --------
    >>> stage_outcomes(np.array([2.0]), np.array([3.0]), np.array([3.5]), time_s=5.0)[0]
    StageOutcome(stage=0, compute_s=2.0, communication_s=1.0, waiting_s=0.5, idle_s=1.5)
    """
    parts_s = np.stack((compute_s, alone_s - compute_s, busy_s - alone_s, time_s - busy_s), axis=1)
    # What remains of rounding is no time.
    parts_s[parts_s < time_s * ROUNDING] = 0.0
    return tuple(StageOutcome(stage, *parts) for stage, parts in enumerate(parts_s.tolist()))


def schedule_bound(
    alone_s: Floats, busiest: Sequence[LinkOutcome], time_s: float
) -> tuple[float, str]:
    """What no schedule beats [s], and which stage or link that is.

    A bound that rounding alone puts above the time is that time.

    Parameters
    ----------
    alone_s
        Work of each stage where nothing waits, shape (stages,) [s].
    busiest
        Links, the busiest first.
    time_s
        Time of the iteration [s].

    Examples
    --------
    >>> link = LinkOutcome(0, "hb", "gpu-0", "gpu-1", "gpu-0 -> gpu-1", 4.0, 0.0, 0.8)
    >>> work_s = np.array([2.0, 3.0])
    >>> schedule_bound(work_s, [], 5.0), schedule_bound(work_s, [link], 5.0)
    ((3.0, 'stage 1'), (4.0, 'link gpu-0 -> gpu-1'))
    """
    stage = int(alone_s.argmax())
    bound_s, binding = float(alone_s[stage]), f"stage {stage}"
    if busiest and busiest[0].busy_s > bound_s:
        bound_s, binding = busiest[0].busy_s, f"link {busiest[0].name}"
    return time_s if time_s < bound_s <= time_s * (1 + TICKS_OFF) else bound_s, binding
