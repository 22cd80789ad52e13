"""Where the time of a plan goes, term by term, and how two plans or two modes differ.

A term is one operation, one direction and one part of it (computation, exposed memory traffic,
communication), over a whole iteration; then come data parallel collectives, transfers between
stages, and the bubble. The terms of a plan add up to its iteration time.

What of a plan lies in which memory tier, what moves there, and what that costs.

A part costs what an iteration takes less if that part alone lay in the local memory, whatever room
it has. Such times do not add up: an operation waits for the longer of its FLOPs and its traffic,
the tier's latency is paid once for all operands of an operation, and under policy ``uniform`` all
traffic has one bandwidth.

What moves is counted on the slowest stage, as time is: weights are read in every pass of every
microbatch, gradients written in every backward pass, activations written once and read once, and
the optimizer's update reads and writes what it needs of them.
"""

from collections.abc import Collection, Iterator, Sequence
from math import isclose
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount
from netplan.errors import InputError
from netplan.inputs.choices import MemoryPart as Part
from netplan.levels import Level
from netplan.performance import compute
from netplan.performance.evaluation import evaluate_space
from netplan.performance.memory import spilled_of, with_spill
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.search import evaluate_plan
from netplan.performance.setting import Setting
from netplan.performance.space import listed_plans
from netplan.performance.tiers import ORDER, SHOWN
from netplan.records import replace
from netplan.workloads.operations import Operation, OperationCost, Sharding, total_bytes
from netplan.workloads.program import stage_layers

if TYPE_CHECKING:
    from netplan.performance.mapping.fusion import Fusion


OPERATION_PARTS = ("compute", "memory", "tensor_comm", "expert_comm")
WHOLE = ("data_comm", "pipeline_comm", "bubble", "update")
"""Parts that belong to no operation."""


class Term(Struct, frozen=True):
    """One summand of an iteration time; ``operation`` is empty for what belongs to none [s]."""

    operation: str
    direction: str
    part: str
    seconds: float

    @property
    def key(self) -> tuple[str, str, str]:
        """What the term is, without its time."""
        return self.operation, self.direction, self.part


ROUNDING = 1e-12
"""Terms that differ by a smaller share are sums of the same parts in another order [1]."""


class TermDifference(Struct, frozen=True):
    """The same term of two evaluations, and the second less the first [s]."""

    operation: str
    direction: str
    part: str
    first_s: float
    second_s: float
    difference_s: float

    @property
    def is_rounding(self) -> bool:
        """Whether it is none but for the order in which parts were summed up.

        Examples
        --------
        >>> [TermDifference("update", "", "", 0.3, s, 0.0).is_rounding for s in (0.1 + 0.2, 0.31)]
        [True, False]
        """
        return isclose(self.first_s, self.second_s, rel_tol=ROUNDING)


def plan_terms(setting: Setting, levels: Sequence[Level], plan: Plan) -> tuple[Term, ...]:
    """All terms of one plan, which add up to its iteration time."""
    timed = evaluate_plan(
        setting.training,
        levels,
        plan,
        strategy=setting.strategy,
        mode=setting.mode,
        options=setting.options,
    )
    if setting.training.calibrated is not None:  # which knows parts of layers, no operations
        return tuple(Term("", "", *part) for part in timed.breakdown_s.items())
    whole = [
        Term("", "", part, timed.breakdown_s[part]) for part in WHOLE if part in timed.breakdown_s
    ]
    return (*_operation_terms(with_spill(setting, timed), tuple(levels), plan), *whole)


def explain(
    levels: Sequence[Level], first: tuple[Setting, Plan], second: tuple[Setting, Plan]
) -> tuple[TermDifference, ...]:
    """Term-by-term difference of two plans, or of one plan under two modes or iteration models.

    Parameters
    ----------
    levels
        The fabric, innermost level first.
    first, second
        What to compare: a setting and a plan each.

    Returns
    -------
    tuple of TermDifference
        One row a term that either has, in the order of execution; their differences add up to
        that of the iteration times.
    """
    before = {term.key: term.seconds for term in plan_terms(first[0], levels, first[1])}
    after = {term.key: term.seconds for term in plan_terms(second[0], levels, second[1])}
    # Terms that only the second has stand before the parts that belong to no operation.
    keys = [key for key in (*before, *after) if key[0]]
    keys += [key for key in (*before, *after) if not key[0]]
    return tuple(
        TermDifference(*key, old, new, new - old)
        for key in dict.fromkeys(keys)
        for old, new in [(before.get(key, 0.0), after.get(key, 0.0))]
    )


def explain_modes(
    setting: Setting, levels: Sequence[Level], plan: Plan
) -> tuple[TermDifference, ...]:
    """What the slips of the published code change for one plan: ``corrected`` less them.

    Parameters
    ----------
    setting
        Training, strategy and options; both modes are evaluated, whatever its own.
    levels
        The fabric, innermost level first.
    plan
        The plan.

    Examples
    --------
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.traffic.placement import Degrees, Placement
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> b200, fourd = ACCELERATORS.load("b200"), ITERATION_MODELS.load("4d")
    >>> training = TrainedModel.make(b200, MODELS.load("gpt-1t"), fourd)
    >>> levels = (Level("switch", 8, 900e9, 0, 2.5e-6), Level("switch", 2048, 100e9, 0, 5e-6))
    >>> plan = Plan(Placement((Degrees(tensor=8), Degrees(data=32, pipeline=64))), 1, 128)
    >>> rows = explain_modes(Setting(training), levels, plan)
    >>> [row.operation for row in rows if row.difference_s < -1e-9]
    ['fc2-bias', 'fc2-bias', 'vproj-bias', 'vproj-bias', '']
    """
    published = replace(setting, mode="published-code")
    return explain(levels, (published, plan), (replace(setting, mode="corrected"), plan))


class OperationRow(Struct, frozen=True):
    """One direction of one operation of a layer on one GPU, for one microbatch.

    Work [FLOP], bytes, messages in words, and times [s]; weights and what the backward pass needs
    stand at the forward pass.
    """

    operation: str
    module: str
    direction: str
    tensor_flops: float
    vector_flops: float
    moved_bytes: float
    weight_bytes: float | None
    activation_bytes: float | None
    collectives: str
    compute_s: float
    memory_s: float
    communication_s: float
    time_s: float


def layer_operations(
    setting: Setting, levels: Sequence[Level], timed: PlanTime
) -> tuple[OperationRow, ...]:
    """The operations of one layer of a plan: all forward ones, then the backward ones, if any.

    Examples
    --------
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.traffic.placement import Degrees, Placement
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> b200, fourd = ACCELERATORS.load("b200"), ITERATION_MODELS.load("4d")
    >>> training = TrainedModel.make(b200, MODELS.load("gpt-1t"), fourd)
    >>> levels = (Level("switch", 8, 900e9, 0, 2.5e-6), Level("switch", 2048, 100e9, 0, 5e-6))
    >>> plan = Plan(Placement((Degrees(tensor=8), Degrees(data=32, pipeline=64))), 1, 128)
    >>> rows = layer_operations(Setting(training), levels, evaluate_plan(training, levels, plan))
    >>> rows[0].operation, rows[0].tensor_flops, rows[4].collectives
    ('fc1', 1342151065600.0, 'reduce_scatter of 104857600 B, tensor')
    """
    setting = with_spill(setting, timed)
    sharding, groups = _sharding_of(setting, levels, timed.plan)
    directions: list[list[OperationRow]] = [[], []]
    for operation in setting.program(sharding).layer.operations:
        works = (operation.forward,), operation.backward_works
        times = compute.operation_times(operation, setting, groups)
        for rows, work, time, ahead in zip(directions, works, times, (True, False), strict=True):
            rows.append(_operation_row(operation, work, time, groups, forward=ahead))
    trains = any(row.time_s for row in directions[1])
    return (*directions[0], *directions[1]) if trains else tuple(directions[0])


def _operation_row(
    operation: Operation,
    works: Sequence[OperationCost],
    time: compute.Timing,
    groups: compute.LayerGroups,
    *,
    forward: bool,
) -> OperationRow:
    """One direction of an operation: the sum of its works, with those computed again.

    A group of one has no collectives.
    """
    flops, vector, moved = (
        float(total_bytes([getattr(work, name) for work in works], 1)[0])
        for name in ("tensor_flops", "vector_flops", "moved_bytes")
    )
    sent = [
        f"{collective.kind} of {_message(collective.message_bytes)}, {collective.group}"
        for work in works
        for collective in work.collectives
        if groups.groups[collective.group].members.prod() > 1
    ]
    return OperationRow(
        *(operation.name, operation.module, "forward" if forward else "backward"),
        *(flops, vector, moved),
        weight_bytes=float(np.ravel(operation.weight_bytes)[0]) if forward else None,
        activation_bytes=float(np.ravel(operation.activation_bytes)[0]) if forward else None,
        collectives="; ".join(sent),
        compute_s=float(time.compute_s[0]),
        memory_s=float(time.memory_s[0]),
        communication_s=float(time.tensor_s[0] + time.expert_s[0]),
        time_s=float(time.total_s[0]),
    )


def _message(message_bytes: Amount) -> str:
    """The message of a collective, or the largest of all steps."""
    steps = np.ravel(np.asarray(message_bytes, float))
    most = steps.max()
    return f"{'up to ' if steps.min() < most else ''}{most:.0f} B"


def plan_fusion(setting: Setting, levels: Sequence[Level], plan: Plan) -> "tuple[Fusion, float]":
    """How the layer of a plan lies on its chips, and the interval of the best convex partitions.

    Raises
    ------
    InputError
        If the search did not map layers.
    """
    if setting.execution is None:
        raise InputError("the search did not map layers: give it options with an execution")
    sharding, groups = _sharding_of(setting, levels, plan)
    return setting.execution.fusion(
        setting.layered, setting.variant.recompute, sharding, compute.tensor_collective(groups)
    )


def _sharding_of(
    setting: Setting, levels: Sequence[Level], plan: Plan
) -> tuple[Sharding, compute.LayerGroups]:
    """The one sharding of a plan, and its groups."""
    space = listed_plans([plan])
    network = setting.network(levels)
    groups = compute.LayerGroups.of(network, space.layer_placements, np.zeros(1, dtype=np.int64))
    return space.sharding, groups


def stage_operations(
    setting: Setting, levels: Sequence[Level], plan: Plan
) -> list[tuple[Operation, float]]:
    """Operations of the slowest stage, each with how often it runs in an iteration [1].

    The stages run side by side, so that only the slowest counts; a single one has both ends.
    """
    sharding, groups = _sharding_of(setting, levels, plan)
    program = setting.program(sharding)

    def seconds(times: tuple[compute.Timing, compute.Timing]) -> float:
        return float(sum(time.total_s[0] for time in times))

    layer_s = seconds(compute.layer_times(setting, sharding, program, groups))
    first, last = ([end] if end else [] for end in (program.first, program.last))
    held = stage_layers(program.repetition.layers, plan.pipeline).tolist()
    stages: list[tuple[int, list[Operation]]] = [(held[-1], last), (held[0], first)]
    stages += [(layers, []) for layers in held[1:-1]]
    if plan.pipeline == 1:
        stages = [(held[0], first + last)]
    layers, ends = max(
        stages,
        key=lambda stage: (
            stage[0] * layer_s
            + sum(seconds(compute.operation_times(end, setting, groups)) for end in stage[1])
        ),
    )
    runs = float(plan.microbatches)
    return [
        (operation, runs * layers * operation.share) for operation in program.layer.operations
    ] + [(end, runs) for end in ends]


def _operation_terms(setting: Setting, levels: tuple[Level, ...], plan: Plan) -> Iterator[Term]:
    """Terms of all operations, those of zero seconds left out; a mapped layer is one of them."""
    sharding, groups = _sharding_of(setting, levels, plan)
    program = setting.program(sharding)
    operations, layer = stage_operations(setting, levels, plan), program.layer.operations
    runs = operations[0][1] / layer[0].share
    if setting.execution is not None:
        yield from _terms("layer", compute.layer_times(setting, sharding, program, groups), runs)
    else:
        waited = compute.waited_times(layer, setting, groups)
        for operation, times in zip(layer, waited, strict=True):
            yield from _terms(operation.name, times, runs)
    for end, runs in operations[len(layer) :]:
        yield from _terms(end.name, compute.operation_times(end, setting, groups), runs)


def _terms(
    operation: str, times: tuple[compute.Timing, compute.Timing], passes: float
) -> Iterator[Term]:
    for direction, time in zip(("forward", "backward"), times, strict=True):
        seconds = (time.compute_s, time.memory_s, time.tensor_s, time.expert_s)
        for part, time_s in zip(OPERATION_PARTS, seconds, strict=True):
            if time_s[0] != 0:
                yield Term(operation, direction, part, passes * float(time_s[0]))


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
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.records import replace
    >>> from netplan.traffic.placement import Degrees, Placement
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> chip = replace(
    ...     ACCELERATORS.load("b200"),
    ...     memory_bytes=70e9,
    ...     usable_bytes=0,
    ...     expanded_bytes=480e9,
    ...     expanded_bytes_per_s=64e9,
    ... )
    >>> training = TrainedModel.make(chip, MODELS.load("gpt-1t"), ITERATION_MODELS.load("4d"))
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
    for operation, runs in operations:
        there = [
            spill.there_bytes(operation, work)
            for work in (operation.forward, *operation.backward_works)
        ]
        moved += runs * float(np.sum(total_bytes(there, 1)))
    return moved
