"""Instances of a model side by side on one cluster: how many at once, how long until all are done.

An instance that uses g of n GPUs leaves room for others like it: as many as each level has parts of
its size for, n/g where g divides n. Its k copies run in rounds of so many, and all of them are done
after

    turnaround = time of one instance x ceil(k / instances at once),

that is time(g) ceil(k g/n) (Kadiyala et al., COMET, arXiv:2211.16648, Sec. V-C). Fewer GPUs an
instance hold more bytes each, of which an expanded memory may take what spills; so more instances
run at once, each of them longer. Left out: what instances cost each other on a network that blocks.
"""

from collections.abc import Sequence
from math import prod

from netplan.performance.plan import Instances, PlanTime, SearchResult
from netplan.records import replace


def instances_of(timed: PlanTime, count: int) -> Instances:
    """Instances of a plan on the cluster that it is placed on.

    Examples
    --------
    Eight instances of 16 GPUs each on 64: four at once, two rounds.

    >>> from netplan.performance.plan import Plan
    >>> from netplan.traffic.placement import Degrees, Placement
    >>> placement = Placement((Degrees(expert=8), Degrees(expert=2)), (8, 8))
    >>> timed = PlanTime(Plan(placement, 512, 1), 0.03, {}, 0.0, 0.0, 0.0)
    >>> instances_of(timed, 8)
    Instances(count=8, at_once=4, rounds=2, turnaround_s=0.06)
    """
    placement = timed.plan.placement
    used = [prod(level) for level in placement.levels]
    sizes = placement.sizes or used
    room = prod(size // part for size, part in zip(sizes, used, strict=True))
    rounds = -(-count // room)
    return Instances(count, min(count, room), rounds, rounds * timed.iteration_time_s)


def side_by_side(found: SearchResult, count: int) -> SearchResult:
    """Plans by the turnaround of so many instances, the fastest of each number of GPUs.

    Their utilisation is that of all instances in this time.
    """
    plans: dict[int, PlanTime] = {}
    for timed in found.plans:  # the fastest first
        plans.setdefault(timed.plan.gpus, timed)
    ranked: list[tuple[float, int, PlanTime]] = []
    for gpus, timed in plans.items():
        instances = instances_of(timed, count)
        busy = count / instances.rounds
        run = replace(timed, instances=instances, mfu=busy * timed.mfu, hfu=busy * timed.hfu)
        ranked.append((instances.turnaround_s, gpus, run))
    ranked.sort(key=lambda one: one[:2])
    return replace(found, plans=tuple(run for _, _, run in ranked))


def least_gpus(plans: Sequence[PlanTime], room_bytes: float) -> PlanTime | None:
    """The plan with the fewest GPUs that hold it in so much memory each, if any does."""
    fits = [timed for timed in plans if timed.memory_bytes <= room_bytes]
    return min(fits, key=lambda timed: timed.plan.gpus, default=None)
