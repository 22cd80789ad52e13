"""The 4D iteration model in plain Python: the oracle for the vectorised engine.

Source: "Comprehensive Performance Modeling and System Design Insights for Foundation Models"
(Subramanian et al.), Sec. III and Appendix A, and the authors' code. One plan at a time, scalars
only, nothing shared with netplan. Two modes: `published-code` repeats four slips of the authors'
code, `corrected` mends them:

1. pipeline hops between domains cost nothing as soon as two stages share a domain (`hop_s`);
2. the SUMMA layer norm is l//n1 wide instead of e//n1 (`fourd_layer.summa_layer_norm`);
3. an all-reduce costs a reduce-scatter unless it uses both tiers (`fourd_times.collective_s`);
4. the fc2 and vproj biases act on unscattered rows (`fourd_layer.ring_layer`).

Left out, as in the paper: interleaved schedules, sharded weights and gradients, offloading,
recomputation other than in attention, memory reserve, topology and contention.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from .fourd_inputs import Mode, Model, Plan, Split, Strategy, System
from .fourd_layer import Operation, layer_operations
from .fourd_times import Collective, Group, Timing, collective_s, operation_timing, point_to_point_s

SMALLEST_QKV_WIDTH = 128
"""1D: columns of the local qkv weights, 3e//n1, that a plan must leave at least."""

SMALLEST_BLOCK = 128
"""2D: columns e//n1 and rows l//n2 of the local block that a plan must leave at least."""

SMALLEST_PANEL = 512
"""SUMMA: columns e//n_b of one panel."""


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation with the time of both directions."""

    operation: Operation
    forward: Timing
    backward: Timing


@dataclass(frozen=True, slots=True)
class Layer:
    """Sums over the operations of one layer and microbatch; `boundary_gb` is the output of ln1."""

    forward_s: float
    backward_s: float
    comp_s: float
    memory_s: float
    comm_s: float
    weights_gb: float
    activations_gb: float
    boundary_gb: float
    tflop: float


@dataclass(frozen=True, slots=True)
class Times:
    """Parts of one iteration [s]; they add up to `iteration_s`."""

    iteration_s: float
    comp_s: float
    memory_s: float
    tensor_s: float
    data_s: float
    pipeline_s: float
    bubble_s: float


@dataclass(frozen=True, slots=True)
class Memory:
    """HBM of one GPU [GB]."""

    weights_gb: float
    gradients_gb: float
    optimizer_gb: float
    activations_gb: float

    @property
    def total_gb(self) -> float:
        """Return the sum of the four parts."""
        return self.weights_gb + self.gradients_gb + self.optimizer_gb + self.activations_gb


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one plan takes."""

    times: Times
    memory: Memory
    tflop_per_gpu: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The first fastest feasible plan, and the size of the space that was searched."""

    plan: Plan | None
    evaluation: Evaluation | None
    candidates: int
    feasible: int


def operations(
    model: Model, system: System, split: Split, mode: Mode = "corrected"
) -> tuple[OperationRow, ...]:
    """Return the 14 operations of one layer and microbatch with their times."""
    return tuple(
        OperationRow(
            operation,
            operation_timing(operation.forward, system, mode),
            operation_timing(operation.backward, system, mode),
        )
        for operation in layer_operations(model, system, split, mode)
    )


def layer(model: Model, system: System, split: Split, mode: Mode = "corrected") -> Layer:
    """Return the sums over one layer and microbatch."""
    rows = operations(model, system, split, mode)
    (boundary,) = (row.operation for row in rows if row.operation.name == "ln1")
    works = [work for row in rows for work in (row.operation.forward, row.operation.backward)]
    timings = [timing for row in rows for timing in (row.forward, row.backward)]
    return Layer(
        forward_s=sum(row.forward.total_s for row in rows),
        backward_s=sum(row.backward.total_s for row in rows),
        comp_s=sum(timing.comp_s for timing in timings),
        memory_s=sum(timing.memory_s for timing in timings),
        comm_s=sum(timing.comm_s for timing in timings),
        weights_gb=sum(row.operation.weights_gb for row in rows),
        activations_gb=sum(row.operation.activations_gb for row in rows),
        boundary_gb=boundary.activations_gb,
        tflop=sum(work.flop * 1e-12 for work in works),
    )


def hop_s(plan: Plan, boundary_gb: float, system: System, mode: Mode) -> float:
    """Return the mean time of one pipeline hop [s], over the n_p - 1 hops."""
    hops = plan.n_p - 1
    slow_hops = plan.n_p // plan.v_p - 1
    fast_s = point_to_point_s(boundary_gb, system, inside=True)
    slow_s = point_to_point_s(boundary_gb, system, inside=False)
    if mode == "published-code" and plan.v_p > 1:
        slow_s = 0.0
    return ((hops - slow_hops) * fast_s + slow_hops * slow_s) / hops


def data_parallel_group(plan: Plan) -> Group:
    """Return the GPUs that hold the same weights.

    Under 2D-context the n2 GPUs of a sequence share their weights, so they join the group (Sec.
    III, "Data Parallel and Optimizer").
    """
    if plan.split.strategy == "2d-context":
        return Group(plan.n_d * plan.split.n2, plan.v_d * plan.split.v2)
    return Group(plan.n_d, plan.v_d)


def data_parallel_s(plan: Plan, one: Layer, stage_layers: int, system: System, mode: Mode) -> float:
    """Return the exposed time of the gradient and weight collectives [s].

    The collective of one layer is exposed; those of the others overlap each with one microbatch of
    one layer.
    """
    group = data_parallel_group(plan)
    gather_s = collective_s(Collective("allgather", one.weights_gb, group), system, mode)
    scatter_s = collective_s(Collective("reducescatter", one.weights_gb, group), system, mode)
    return (
        gather_s
        + max(gather_s - one.forward_s, 0.0) * (stage_layers - 1)
        + scatter_s
        + max(scatter_s - one.backward_s, 0.0) * (stage_layers - 1)
    )


def stage_memory(plan: Plan, one: Layer, stage_layers: int) -> Memory:
    """Return the HBM of one GPU [GB]: fp16 weights and gradients, Adam states of 12 bytes."""
    weights_gb = one.weights_gb * stage_layers
    return Memory(
        weights_gb=weights_gb,
        gradients_gb=weights_gb,
        optimizer_gb=6 * weights_gb / data_parallel_group(plan).members,
        activations_gb=one.activations_gb * stage_layers * min(plan.n_p, plan.m),
    )


def evaluate_with_layer(
    model: Model, system: System, plan: Plan, one: Layer, mode: Mode = "corrected"
) -> Evaluation:
    """Evaluate a plan whose layer is known (Sec. III: 1F1B pipeline, data parallelism, memory)."""
    stage_layers = model.depth // plan.n_p
    local_s = (one.forward_s + one.backward_s) * plan.m * stage_layers
    pipeline_s = 0.0
    if plan.n_p > 1:
        pipeline_s = 2 * hop_s(plan, one.boundary_gb, system, mode) * plan.m
    bubble_s = (plan.n_p - 1) * (local_s + pipeline_s) / plan.m
    data_s = data_parallel_s(plan, one, stage_layers, system, mode)
    return Evaluation(
        times=Times(
            iteration_s=local_s + pipeline_s + bubble_s + data_s,
            comp_s=one.comp_s * plan.m * stage_layers,
            memory_s=one.memory_s * plan.m * stage_layers,
            tensor_s=one.comm_s * plan.m * stage_layers,
            data_s=data_s,
            pipeline_s=pipeline_s,
            bubble_s=bubble_s,
        ),
        memory=stage_memory(plan, one, stage_layers),
        tflop_per_gpu=one.tflop * plan.m * stage_layers,
    )


def evaluate(model: Model, system: System, plan: Plan, mode: Mode = "corrected") -> Evaluation:
    """Return the time parts, memory parts and TFLOP per GPU of one iteration."""
    one = layer(model, system, plan.split, mode)
    return evaluate_with_layer(model, system, plan, one, mode)


def divisors(number: int) -> list[int]:
    """Return all divisors in ascending order."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def tensor_degrees(model: Model, strategy: Strategy, gpus: int) -> Iterator[tuple[int, int]]:
    """Yield (n1, n2) that leave blocks of a useful size."""
    e = model.embedding
    for n1 in divisors(gpus):
        if model.heads % n1 or e % n1:
            continue
        if strategy == "1d":
            if 3 * e // n1 >= SMALLEST_QKV_WIDTH:
                yield n1, 1
            continue
        for n2 in divisors(gpus // n1):
            if strategy == "2d-summa" and e % n2:
                continue
            if e // n1 >= SMALLEST_BLOCK and model.sequence // n2 >= SMALLEST_BLOCK:
                yield n1, n2


def panel_counts(model: Model, strategy: Strategy, n1: int, n2: int) -> list[int]:
    """Return the numbers of SUMMA panels n_b to try; [1] for the other strategies."""
    if strategy != "2d-summa":
        return [1]
    e, fewest = model.embedding, max(n1, n2)
    if e / fewest < SMALLEST_PANEL:
        return [fewest]
    counts = [fewest * 2**i for i in range(math.ceil(math.log2(e // fewest)))]
    return [n_b for n_b in counts if e % n_b == 0 and e // n_b >= SMALLEST_PANEL]


def placements(system: System, degrees: tuple[int, int, int, int]) -> list[tuple[int, ...]]:
    """Return how many members of each group may share a domain: each divides its degree.

    The product of the shares is the domain; a cluster that fits into one domain has no choice.
    """
    if math.prod(degrees) <= system.domain:
        return [degrees]
    n1, n2, n_p, n_d = degrees
    return [
        (v1, v2, v_p, v_d)
        for v1 in divisors(n1)
        for v2 in divisors(n2)
        for v_p in divisors(n_p)
        for v_d in divisors(n_d)
        if v1 * v2 * v_p * v_d == system.domain
    ]


def candidates(
    model: Model, system: System, strategy: Strategy, batch: int, gpus: int
) -> Iterator[Plan]:
    """Yield every plan of the search space (Sec. III, S3), feasible or not."""
    for n1, n2 in tensor_degrees(model, strategy, gpus):
        n_t = n1 * n2
        panels = panel_counts(model, strategy, n1, n2)
        # The tokens of a microbatch must divide by this; under SUMMA n1 splits the embedding.
        token_unit = n2 if strategy == "2d-summa" else n_t
        for n_p in divisors(min(gpus // n_t, model.depth)):
            if gpus % (n_t * n_p) or model.depth % n_p:
                continue
            n_d = gpus // (n_t * n_p)
            if batch % n_d:
                continue
            for b in divisors(batch // n_d):
                if (b * model.sequence) % token_unit:
                    continue
                m = batch // (n_d * b)
                for v1, v2, v_p, v_d in placements(system, (n1, n2, n_p, n_d)):
                    for n_b in panels:
                        split = Split(strategy, b, n1, n2, v1, v2, n_b)
                        yield Plan(split, n_p, n_d, v_p, v_d, m)


def search(
    model: Model, system: System, plans: Iterator[Plan], mode: Mode = "corrected"
) -> SearchResult:
    """Return the first fastest plan that fits into HBM; plans may tie on time."""
    layers: dict[Split, Layer] = {}
    best: tuple[Plan, Evaluation] | None = None
    candidate_count = feasible_count = 0
    for plan in plans:
        candidate_count += 1
        if plan.split not in layers:
            layers[plan.split] = layer(model, system, plan.split, mode)
        evaluation = evaluate_with_layer(model, system, plan, layers[plan.split], mode)
        if evaluation.memory.total_gb > system.hbm_gb:
            continue
        feasible_count += 1
        if best is None or evaluation.times.iteration_s < best[1].times.iteration_s:
            best = plan, evaluation
    plan_found, evaluation_found = best if best is not None else (None, None)
    return SearchResult(plan_found, evaluation_found, candidate_count, feasible_count)
