"""What of a plan lies in which memory tier, what moves there, and what that costs.

A part costs what an iteration takes less if that part alone lay in the local memory, whatever room
it has. Such times do not add up: an operation waits for the longer of its FLOPs and its traffic,
the tier's latency is paid once for all operands of an operation, and under policy ``uniform`` all
traffic has one bandwidth.

What moves is counted on the slowest stage, as time is: weights are read in every pass of every
microbatch, gradients written in every backward pass, activations written once and read once, and
the optimizer's update reads and writes what it needs of them.
"""

from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct

from netplan.inputs.choices import MemoryPart as Part
from netplan.levels import Level
from netplan.performance.evaluation import evaluate_space
from netplan.performance.explain import stage_operations
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.performance.space import listed_plans
from netplan.performance.spill import spilled_of, with_spill
from netplan.performance.tiers import ORDER, SHOWN
from netplan.workloads.operations import total_bytes


class PartCost(Struct, frozen=True):
    """One part of the memory of a GPU, or all of them.

    Parameters
    ----------
    part
        Its name.
    local_bytes, expanded_bytes
        What of it lies in either tier [B].
    tier_moved_bytes
        What of it goes from and to the expanded tier in one iteration [B].
    spill_cost_s
        What an iteration takes longer than if it lay in the local memory [s].
    """

    part: str
    local_bytes: float
    expanded_bytes: float
    tier_moved_bytes: float
    spill_cost_s: float


class MemoryCosts(Struct, frozen=True):
    """Parts of the memory, all of them together, and the time with all in the local memory [s]."""

    parts: tuple[PartCost, ...]
    together: PartCost
    local_time_s: float


def memory_costs(setting: Setting, levels: Sequence[Level], timed: PlanTime) -> MemoryCosts:
    """What of a plan lies where, and what that costs.

    Examples
    --------
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.plan import Plan
    >>> from netplan.performance.search import evaluate_plan
    >>> from netplan.performance.setting import Training
    >>> from netplan.records import replace
    >>> from netplan.traffic.placement import Degrees, Placement
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> chip = replace(
    ...     ACCELERATORS.load("b200"),
    ...     memory_bytes=70e9,
    ...     expanded_bytes=480e9,
    ...     expanded_bytes_per_s=64e9,
    ... )
    >>> training = Training.on(chip, MODELS.load("gpt-1t"), ITERATION_MODELS.load("4d"))
    >>> levels = (Level("switch", 8, 900e9, 0, 2.5e-6), Level("switch", 128, 100e9, 0, 5e-6))
    >>> plan = Plan(Placement((Degrees(tensor=8), Degrees(data=2, pipeline=64))), 1, 2048)
    >>> found = memory_costs(Setting(training), levels, evaluate_plan(training, levels, plan))
    >>> [round(part.expanded_bytes / 1e9, 2) for part in found.parts]
    [0.0, 0.0, 6.73, 0.0, 0.0]
    """
    plan, held = timed.plan, timed.memory_parts_bytes
    network = setting.network(levels)
    space, spilled = listed_plans([plan]), spilled_of(setting, timed)

    def seconds(there: Collection[Part]) -> float:
        return float(evaluate_space(setting, network, space, there).seconds[0])

    def cost(part: str, names: Collection[Part]) -> PartCost:
        there = sum(float(spilled.there[name][0]) for name in names)
        local = sum(held[name] for name in names) - there
        if not there:
            return PartCost(part, local, there, 0.0, 0.0)
        less_s = timed.iteration_time_s - seconds([name for name in ORDER if name not in names])
        return PartCost(part, local, there, moved_bytes(setting, levels, timed, names), less_s)

    together = cost("all parts", ORDER)
    parts = tuple(cost(name, (name,)) for name in SHOWN)
    return MemoryCosts(parts, together, timed.iteration_time_s - together.spill_cost_s)


def moved_bytes(
    setting: Setting, levels: Sequence[Level], timed: PlanTime, parts: Collection[Part] = ORDER
) -> float:
    """What of some parts a GPU moves from and to the expanded tier in one iteration [B]."""
    spill = with_spill(setting, timed, parts).spill
    if spill is None:
        return 0.0
    operations = stage_operations(setting, levels, timed.plan)
    _, update = spilled_of(setting, timed).keeping(parts).update_bytes()
    moved = float(update[0]) if setting.program(timed.plan.sharding).repetition.trains else 0.0
    for one, runs in operations:
        there = [spill.there_bytes(one, work) for work in (one.forward, *one.backward_works)]
        moved += runs * float(np.sum(total_bytes(there, 1)))
    return moved
