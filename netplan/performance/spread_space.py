"""The small space of plans of a model that lies on all GPUs alike: on how many of them it lies.

In the free space a plan fills the levels from the inside: all members of the inner ones, and of one
level a divisor of its members, or as many as a power of two divides; in that of powers of two such
parts alone. The others stay idle. A part
of the cluster is faster than the whole where what it sends stays inside a fast level, such as one
HB domain; then a GPU has more of the work. Otherwise, and in the exact space, a plan has all GPUs.
A grid of two dimensions is tried with every divisor of the members of every level.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from netplan.levels import Level
from netplan.performance.plan import Plan
from netplan.performance.setting import Setting
from netplan.traffic.placement import Degrees, Placement, divisors


def spread_plans(setting: Setting, levels: Sequence[Level]) -> list[Plan]:
    """All plans of such a model on some levels, the smallest first; none of a transformer.

    Examples
    --------
    A recommendation model in HB domains of 4, two of them: on 1, 2, 4 and 8 GPUs.

    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.setting import Training
    >>> from netplan.records import replace
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import WORKLOADS
    >>> fourd = ITERATION_MODELS.load("4d")
    >>> free = replace(fourd, space=replace(fourd.space, divisibility="free"))
    >>> dlrm, b200 = WORKLOADS.load("dlrm-793b"), ACCELERATORS.load("b200")
    >>> setting = Setting(Training.on(b200, dlrm, free, batch=4096))
    >>> levels = Level("switch", 4, 900e9), Level("switch", 2, 50e9)
    >>> [(plan.expert, plan.microbatch) for plan in spread_plans(setting, levels)]
    [(1, 4096), (2, 2048), (4, 1024), (8, 512)]
    """
    model = setting.spread_model
    if model is None:
        return []
    sizes = tuple(level.size for level in levels)
    fixed = setting.options.fixed.given
    plans = []
    parts = setting.free or setting.powers_of_two
    for used in _parts(sizes) if parts else [sizes]:
        if setting.powers_of_two and prod(used).bit_count() > 1:
            continue
        for degrees in product(*(_ways(members, model.spread) for members in used)):
            placement = Placement(degrees, sizes if parts else None)
            totals = placement.totals
            if all(getattr(totals, name) == value for name, value in fixed.items()):
                batch = -(-setting.training.batch // totals.expert)
                plans.append(Plan(placement, microbatch=batch, microbatches=1))
    return plans


def _ways(members: int, spread: Sequence[str]) -> list[Degrees]:
    """Ways to lay so many members of a level out over one dimension, or as a grid of two."""
    if len(spread) == 1:
        return [Degrees(**{spread[0]: members})]
    first, second = spread
    return [
        Degrees(**{first: some, second: members // some}) for some in divisors(members).tolist()
    ]


def _parts(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Members of each level that work."""
    for at, size in enumerate(sizes):
        outside = (1,) * (len(sizes) - at - 1)
        rounded = {size >> bit << bit for bit in range(size.bit_length())}
        for members in sorted({*divisors(size).tolist(), *rounded}):
            if members > 1 or at == 0:
                yield (*sizes[:at], members, *outside)
