"""Runs whose messages share links, and what all draws of paths make of a design.

=======  ===========================================================================================
run      an iteration of training by its best plan, or a round of servers
jobs     iterations of all jobs of a file, beside each other; the job counts that loses most
=======  ===========================================================================================

Time without contention is that of the same messages where only links that end at a GPU bind.

The schedule that an iteration is simulated by.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from msgspec import Struct

from netplan.answers.congestion_answer import JobShare, RoutedDesign, SharedLink
from netplan.arrays import AnyInts, Floats, Ints
from netplan.errors import InputError
from netplan.performance.plan import PlanTime
from netplan.records import replace
from netplan.setup.jobs_file import place_jobs
from netplan.setup.placed_run import PlacedRun
from netplan.setup.question import AnyQuestion
from netplan.setup.runs import place_serving, place_training
from netplan.simulation.congestion import Contention, JobTimes, Transport, packet_bars, percentile
from netplan.simulation.outcome import SimulationOutcome
from netplan.simulation.simulate import Conditions, Job, JobsOutcome, simulate_jobs
from netplan.simulation.tasks import SimulatedSchedule
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.traffic.patterns import Pattern

if TYPE_CHECKING:
    from netplan.setup.served_run import ServedRun

FEW_SEEDS = 100
"""Below so many seeds a percentile of 99 is the largest [1]."""

MOST_CONNECTIONS = 1024
"""Queue pairs of two GPUs [1]."""


class SharedRun(NamedTuple):
    """What runs on a fabric: its inputs, the fabric, GPUs in use, and what sharing makes of it."""

    inputs: dict[str, object]
    spec: FabricSpec
    fabric: Fabric
    gpus: AnyInts
    contention: Callable[[FabricGraph, Conditions], Contention]


def shared_run(asked: AnyQuestion, algorithm: Pattern, jobs: Path | None = None) -> SharedRun:
    """The run of a question, training or serving, or the jobs of a file.

    Parameters
    ----------
    asked
        The question.
    algorithm
        Which pairs of a group talk.
    jobs
        File of jobs; None where one run has the fabric.

    Returns
    -------
    SharedRun
        Placed, and not yet simulated.

    Raises
    ------
    NetplanError
        If there is no plan.
    """
    if jobs is not None:
        placed = place_jobs(asked, jobs, algorithm)
        return SharedRun(
            *({}, placed.spec, placed.fabric, placed.gpus),
            lambda graph, how: contention_of_jobs(
                placed.names, placed.jobs, simulate_jobs(placed.jobs, graph, how), graph, how
            ),
        )
    if asked.reinforces:
        raise InputError(
            f"{asked.scenario.name} does post-training, of which netplan congestion has no"
            " messages: take netplan simulate, netplan loads, or a pattern, such as --traffic"
            " permutation"
        )
    run: PlacedRun | ServedRun
    given: dict[str, Any] = {}
    if asked.trains:
        run = place_training(asked, algorithm)
        given["schedule"] = schedule_of(asked, run.timed)
    else:
        run = place_serving(asked, algorithm)

    def contention(graph: FabricGraph, conditions: Conditions) -> Contention:
        """What sharing makes of an iteration, or of a round."""
        how = replace(conditions, **given)
        alone_s = run.simulated(graph, uncontended(how)).iteration_time_s
        return contention_of(run.simulated(graph, how), alone_s, graph, how)

    gpus = run.placement.gpu_of_rank
    return SharedRun(run.inputs | given, run.spec, run.fabric, gpus, contention)


def uncontended(conditions: Conditions) -> Conditions:
    """The same conditions where only links that end at a GPU bind."""
    return replace(conditions, ample=True, spans=False, jitter=0.0)


def contention_of(
    outcome: SimulationOutcome, alone_s: float, graph: FabricGraph, conditions: Conditions
) -> Contention:
    """What a run has made of the links that it shares.

    Parameters
    ----------
    outcome
        Of the run, on links that are shared as a fluid.
    alone_s
        Its time without contention [s].
    graph, conditions
        What it was simulated on.

    Returns
    -------
    Contention
        Time, and what links have carried.

    Raises
    ------
    ValueError
        If the links were booked.
    """
    fluid = outcome.fluid
    if fluid is None:
        raise ValueError("links that were booked have no rates")
    return Contention(
        time_s=outcome.iteration_time_s,
        alone_s=alone_s,
        carried_bytes=fluid.busy_s * direction_rates(graph, conditions.rates),
        sharing=fluid.sharing,
        flows=fluid.flows,
        solves=fluid.solves,
        classes=fluid.flows,
    )


def contention_of_jobs(
    names: Sequence[str],
    jobs: Sequence[Job],
    outcome: JobsOutcome,
    graph: FabricGraph,
    conditions: Conditions,
) -> Contention:
    """The same of several jobs; time is that of an iteration of the job that loses most.

    Parameters
    ----------
    names, jobs
        What runs.
    outcome
        Of all of it together.
    graph, conditions
        What it was simulated on.

    Returns
    -------
    Contention
        Time, and what links carry in it at their mean pace; both times of each job.
    """
    alone_s = [simulate_jobs([job], graph, uncontended(conditions)).times_s[0] for job in jobs]
    times = tuple(map(JobTimes, names, outcome.times_s, alone_s))
    worst = max(times, key=lambda job: job.slowdown)
    whole = contention_of(outcome.whole, worst.alone_s, graph, conditions)
    share = worst.time_s / whole.time_s
    carried = whole.carried_bytes * share
    return replace(whole, time_s=worst.time_s, carried_bytes=carried, jobs=times)


class DrawOptions(Struct, frozen=True, kw_only=True):
    """What an answer makes of draws.

    Parameters
    ----------
    percentile
        Of the seeds, that is called bad.
    transport
        Queues behind the bar.
    busiest
        Links to name [1].
    """

    percentile: float = 99.0
    transport: Transport = "ecn"
    busiest: int = 5


def design_of(
    draws: Iterable[Contention],
    graph: FabricGraph,
    rates: Floats | None,
    *,
    routing: str,
    connections: int,
    asked: DrawOptions,
) -> RoutedDesign:
    """One design by what contention makes of it on all draws of paths.

    Parameters
    ----------
    draws
        One after another, of which what links carried is not kept.
    graph, rates
        Links, and the share that each has of its rate [1].
    routing, connections
        How messages go, and over how many connections of a pair.
    asked
        What is made of it.

    Returns
    -------
    RoutedDesign
        Without its price.
    """
    links = _DrawnLinks(direction_rates(graph, rates), asked.busiest)
    drawn = [links.add(contention) for contention in draws]
    slowdowns = [contention.slowdown for contention in drawn]
    times = [contention.time_s for contention in drawn]
    median = percentile(times, 50)
    return RoutedDesign(
        sharing="fluid",
        routing=routing,
        seeds=len(drawn),
        connections=connections,
        uncontended_time_s=percentile([contention.alone_s for contention in drawn], 50),
        times_s=tuple(times),
        slowdown_p50=percentile(slowdowns, 50),
        slowdown_bad=percentile(slowdowns, asked.percentile),
        bad_is=bad_name(len(drawn), asked.percentile),
        slowdown_max=max(slowdowns),
        time_low_s=median,
        time_high_s=median * packet_bars().bars[asked.transport].range.high,
        hot_links=tuple(links.hottest(graph)),
        solves=sum(contention.solves for contention in drawn),
        flows=drawn[0].flows,
        classes=drawn[0].classes,
        jobs=tuple(_job_shares(drawn, asked.percentile)),
    )


def _job_shares(drawn: Sequence[Contention], bad: float) -> Iterator[JobShare]:
    """What contention makes of each job."""
    for times in zip(*(contention.jobs for contention in drawn), strict=True):
        slowdowns = [job.slowdown for job in times]
        yield JobShare(
            times[0].name,
            percentile([job.time_s for job in times], 50),
            percentile([job.alone_s for job in times], 50),
            percentile(slowdowns, 50),
            percentile(slowdowns, bad),
        )


class _DrawnLinks:
    """How full links are over draws of paths, of which none is kept: ``most`` are named."""

    def __init__(self, capacity: Floats, most: int) -> None:
        self.capacity, self.most, self.draws = capacity, min(most, len(capacity)), 0
        self.busy = np.zeros(len(capacity))
        self.among = np.zeros(len(capacity), np.int64)
        self.sharing = np.zeros(len(capacity), np.int64)

    def add(self, contention: Contention) -> Contention:
        """Count one draw; the same without what links carried."""
        self.draws += 1
        if contention.time_s:
            busy = contention.carried_bytes / (self.capacity * contention.time_s)
            self.busy += busy
            self.among[_largest(busy, self.most)] += 1
        np.maximum(self.sharing, contention.sharing, out=self.sharing)
        nothing = np.empty(0)
        return replace(contention, carried_bytes=nothing, sharing=nothing.astype(np.int64))

    def hottest(self, graph: FabricGraph) -> Iterator[SharedLink]:
        """The fullest links over all draws."""
        mean, named = self.busy / self.draws, np.flatnonzero(self.among)
        order = named[np.lexsort((named, -mean[named], -self.among[named]))][: self.most]
        for code, name in zip(order.tolist(), graph.direction_names(order), strict=True):
            share = float(self.among[code]) / self.draws
            yield SharedLink(name, float(mean[code]), share, int(self.sharing[code]))


def _largest(values: Floats, most: int) -> Ints:
    """Where the largest values above 0 are, the first of equal ones.

    >>> _largest(np.array([0.0, 2.0, 3.0, 2.0]), 2)
    array([2, 1])
    """
    if not most:
        return np.empty(0, np.int64)
    least = max(np.partition(values, -most)[-most], np.finfo(float).tiny)
    above = np.flatnonzero(values > least)
    equal: Ints = np.flatnonzero(values == least)[: most - len(above)]
    return np.concatenate([above, equal])


def direction_rates(graph: FabricGraph, rates: Floats | None) -> Floats:
    """Rate of every direction of a link, flattened (2, links) [B/s].

    Parameters
    ----------
    graph, rates
        Links, and the share that each has of its rate; all of it if None [1].

    Returns
    -------
    ndarray
        Shape (2 x links,) [B/s].
    """
    return np.tile(graph.bytes_per_s * (1.0 if rates is None else rates), 2)


def bad_name(seeds: int, share: float) -> str:
    """What the bad percentile of some seeds is called.

    Examples
    --------
    >>> bad_name(20, 99), bad_name(100, 99), bad_name(1, 99)
    ('max of 20 seeds', 'p99', 'the only one')
    """
    if seeds == 1:
        return "the only one"
    last = seeds < FEW_SEEDS and percentile([0.0] * (seeds - 1) + [1.0], share) > 0
    return f"max of {seeds} seeds" if last else f"p{share:g}"


def asked_schedule(asked: AnyQuestion) -> SimulatedSchedule | None:
    """The schedule that a question asks for, if any; servers have none.

    Parameters
    ----------
    asked
        The question.

    Returns
    -------
    SimulatedSchedule or None
        Its schedule.

    Raises
    ------
    InputError
        If closed forms alone know it.
    """
    wanted = asked.training.schedule if asked.trains else None
    known = next((name for name in get_args(SimulatedSchedule) if name == wanted), None)
    if wanted is not None and known is None:
        raise InputError(
            f"--schedule {wanted} has closed forms alone (netplan search): netplan {asked.command}"
            f" runs {', '.join(get_args(SimulatedSchedule))}"
        )
    return known


def schedule_of(asked: AnyQuestion, timed: PlanTime) -> SimulatedSchedule:
    """The schedule that is asked for, or that of the plan.

    Parameters
    ----------
    asked, timed
        The question, and the plan.

    Returns
    -------
    SimulatedSchedule
        One that runs the plan.

    Raises
    ------
    InputError
        If the one that is asked for does not.
    """
    stages = timed.plan.interleave
    usual: SimulatedSchedule = "interleaved" if stages > 1 else "1f1b"
    schedule = asked_schedule(asked) or usual
    if (schedule == "interleaved") != (stages > 1):
        advice = "--fix interleave=1" if stages > 1 else "--fix interleave=2"
        raise InputError(
            f"--schedule {schedule} does not run a plan of {stages} stage{'s' * (stages > 1)} a"
            f" GPU: leave it out, or give {advice}"
        )
    return schedule
