"""The small space of plans of a model that lies on all GPUs alike: on how many of them it lies.

In the free space a plan fills the levels from the inside: all members of the inner ones, and a
divisor of the members of one level, beyond which the others stay idle. A part of the cluster is
faster than the whole where what it sends stays inside a fast level, such as one HB domain; then a
GPU has more of the work. Otherwise, and in the exact space, a plan has all GPUs.
"""

from collections.abc import Iterator, Sequence
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
    fixed = setting.options.fixed.given.get(model.spread)
    plans = []
    for used in _parts(sizes) if setting.free else [sizes]:
        if fixed in (None, prod(used)):
            degrees = tuple(Degrees(**{model.spread: members}) for members in used)
            placement = Placement(degrees, sizes if setting.free else None)
            batch = -(-setting.training.batch // placement.totals.expert)
            plans.append(Plan(placement, microbatch=batch, microbatches=1))
    return plans


def _parts(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Members of each level that work."""
    for at, size in enumerate(sizes):
        outside = (1,) * (len(sizes) - at - 1)
        for members in divisors(size).tolist():
            if members > 1 or at == 0:
                yield (*sizes[:at], members, *outside)
