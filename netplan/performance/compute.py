"""Time of one layer: the roofline of each operation, and its collectives.

An operation takes the longer of its FLOPs and its memory traffic, and its communication on top
(arXiv:2410.00273, Sec. III),

    max(kernel latency + FLOPs / (efficiency x peak), bytes / memory bandwidth) + communication,

or what its kernels were measured to take (`netplan.workloads.measured_kernels`).

SUMMA broadcasts one panel before it starts and hides the others behind the computation as far as
they go (appendix A). As in the published code all n_b panels are set against the computation, so
that up to one panel counts twice.

Branches of a layer that run beside each other take as long as the longest, and its parts stand for
the time; what the others do meanwhile costs nothing.

A layer's time depends on the sharding and on where tensor, expert and context groups lie, and on
nothing else: it is computed once for each distinct combination.

Times of one layer of iteration model ``calibrated``, for many shardings at once.

Its collectives are those of the levels of the fabric: a tensor collective is one ring through all
levels on which the group lies, the ring of context GPUs is as slow as its slowest hop. What they
show beside computing says `netplan.performance.calibrated`, how layers make an iteration
`netplan.performance.calibrated_terms`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import astuple

from netplan.arrays import Amount, Columns, Floats, Ints, SummedColumns
from netplan.errors import InputError
from netplan.performance.calibrated import Kernels, Passes, Redone, Slice
from netplan.performance.dated.layer import DatedLayer
from netplan.performance.dated.times import dated_layer
from netplan.performance.setting import Setting
from netplan.performance.stack_memory import PlanSizes
from netplan.records import replace
from netplan.traffic.algorithms import CollectiveTime
from netplan.traffic.hierarchy import CollectiveNetwork, Group, group_of
from netplan.traffic.placement import CONTEXT, EXPERT, TENSOR, Placements
from netplan.workloads import operations as ops
from netplan.workloads.models import Model
from netplan.workloads.program import Program, Repetition
from netplan.workloads.recomputation import computed_again

_DIMENSION: dict[ops.GroupName, int] = {"tensor": TENSOR, "expert": EXPERT, "context": CONTEXT}


class Timing(SummedColumns, frozen=True, eq=False):
    """Parts of a time, which add up to it, each of shape (shardings,) [s].

    Parameters
    ----------
    compute_s
        FLOPs and kernel latency.
    memory_s
        Memory traffic, as far as it takes longer than the FLOPs.
    tensor_s, expert_s
        Exposed communication of tensor and context groups, and of expert groups.
    """

    compute_s: Floats
    memory_s: Floats
    tensor_s: Floats
    expert_s: Floats

    @classmethod
    def none(cls, count: int) -> "Timing":
        """No time at all."""
        return cls(*(np.zeros(count) for _ in cls.__struct_fields__))

    def __add__(self, other: "Timing") -> "Timing":
        """Part by part, without a loop over names: searches add thousands."""
        return Timing(
            self.compute_s + other.compute_s,
            self.memory_s + other.memory_s,
            self.tensor_s + other.tensor_s,
            self.expert_s + other.expert_s,
        )

    @property
    def of_all_steps(self) -> "Timing":
        """Steps one after the other: parts of shape (steps, shardings) summed up."""
        parts = (self.compute_s, self.memory_s, self.tensor_s, self.expert_s)
        if all(part.ndim == 1 for part in parts):
            return self
        return Timing(*(part.sum(axis=0) if part.ndim > 1 else part for part in parts))

    @property
    def total_s(self) -> Floats:
        """The parts together [s]."""
        return self.compute_s + self.memory_s + self.tensor_s + self.expert_s


class LayerGroups(Struct, frozen=True, eq=False):
    """Tensor, expert and context groups of distinct placements, seen from each sharding."""

    network: CollectiveNetwork
    placements: Placements
    groups: dict[ops.GroupName, Group]
    index: Ints
    known: dict[tuple[ops.CollectiveKind, ops.GroupName], CollectiveTime]

    @classmethod
    def of(cls, network: CollectiveNetwork, placements: Placements, index: Ints) -> "LayerGroups":
        """Groups of the placements; ``index`` says which placement a sharding belongs to."""
        groups = {name: group_of(placements, dimension) for name, dimension in _DIMENSION.items()}
        return cls(network, placements, groups, index, {})

    def seconds(
        self, kind: ops.CollectiveKind, group: ops.GroupName, message: Floats | float
    ) -> Floats:
        """Time of one collective for every sharding [s]."""
        key = kind, group
        if key not in self.known:
            whole = self.network.collective(kind, self.groups[group])
            self.known[key] = whole.take(self.index)
        return self.known[key].seconds(message)


def roofline(
    operation: ops.Operation, work: ops.OperationCost, setting: Setting
) -> tuple[Amount, Amount]:
    """Time of FLOPs and kernel latency, and of memory traffic as far as that takes longer [s].

    Of a work of an operation, and of the shape of its amounts; as measured, where kernels are.
    """
    part, training = setting.assumptions.compute, setting.training
    if training.measured is not None:
        return training.measured.parts_s(operation, work, _moved_bytes(operation, work, setting))
    slowdown = part.slowdown_of(operation)
    compute_s: Amount = part.kernel_latency_s
    memory_s: Amount = 0.0
    if not _is_none(work.tensor_flops):
        tensor_s = work.tensor_flops / (part.tensor_efficiency * training.flops_per_s)
        compute_s = compute_s + slowdown * tensor_s
    if training.vector_flops_per_s and training.memory_bytes_per_s:
        if not _is_none(work.vector_flops):
            vector_s = work.vector_flops / (part.vector_efficiency * training.vector_flops_per_s)
            compute_s = compute_s + slowdown * vector_s
        memory_s = np.maximum(memory_traffic_s(operation, work, setting) - compute_s, 0)
    return compute_s, memory_s


def memory_traffic_s(operation: ops.Operation, work: ops.OperationCost, setting: Setting) -> Amount:
    """Time of an operation's memory traffic alone [s]; 0 without rates of vectors and memory."""
    training = setting.training
    if not (training.vector_flops_per_s and training.memory_bytes_per_s):
        return 0.0
    return _moved_bytes(operation, work, setting) / training.memory_bytes_per_s


def _moved_bytes(operation: ops.Operation, work: ops.OperationCost, setting: Setting) -> Amount:
    """Memory traffic of an operation; what spilled counts as so many local bytes more [B]."""
    return work.moved_bytes if setting.spill is None else setting.spill.moved_bytes(operation, work)


def _work_time(
    operation: ops.Operation, work: ops.OperationCost, setting: Setting, groups: LayerGroups
) -> Timing:
    """Time of one direction of one operation."""
    if work is ops.NO_WORK:
        return Timing.none(len(groups.index))
    zero = np.zeros(len(groups.index))
    compute_s, memory_s = (zero + part for part in roofline(operation, work, setting))
    if not work.collectives:
        return Timing(compute_s, memory_s, zero, zero)
    panels = 1.0 if work.panels is None else work.panels
    exposed = {"tensor": zero, "expert": zero}
    for collective in work.collectives:
        where = "expert" if collective.group == "expert" else "tensor"
        seconds = groups.seconds(
            collective.kind, collective.group, collective.message_bytes / panels
        )
        exposed[where] = exposed[where] + seconds
    if work.panels is not None:
        panel_s = exposed["tensor"]
        hidden_s = compute_s + memory_s
        exposed["tensor"] = panel_s + np.maximum(panels * panel_s - hidden_s, 0)
    return Timing(compute_s, memory_s, exposed["tensor"], exposed["expert"])


def _is_none(amount: Amount) -> bool:
    """Whether an amount is the number 0; most operations use one kind of units only."""
    return isinstance(amount, float) and amount == 0


def operation_times(
    operation: ops.Operation, setting: Setting, groups: LayerGroups
) -> tuple[Timing, Timing]:
    """Forward and backward time of one operation, with what is computed again."""
    forward = _work_time(operation, operation.forward, setting, groups)
    backward = _work_time(operation, operation.backward, setting, groups)
    if operation.weight_gradient is not ops.NO_WORK:
        backward = backward + _work_time(operation, operation.weight_gradient, setting, groups)
    if operation.recomputed:
        backward = backward + forward * operation.recomputed
    return forward.of_all_steps, backward.of_all_steps


def waited_times(
    operations: Sequence[ops.Operation], setting: Setting, groups: LayerGroups
) -> list[tuple[Timing, Timing]]:
    """The same of all operations of a layer, as far as it waits for them and has them."""
    times = [operation_times(operation, setting, groups) for operation in operations]
    times = [
        both if operation.share == 1 else (both[0] * operation.share, both[1] * operation.share)
        for operation, both in zip(operations, times, strict=True)
    ]
    if not any(operation.branch for operation in operations):
        return times
    ways = [_longest(operations, [both[way].total_s for both in times]) for way in (0, 1)]
    return [(ahead * x, back * y) for (ahead, back), x, y in zip(times, *ways, strict=True)]


def sections(operations: Sequence[ops.Operation]) -> Iterator[dict[int, list[int]]]:
    """Places of operations that run beside each other, by branch; single ones between them.

    >>> alone = ops.Operation("top", "mlp", 0.0, 0.0, ops.NO_WORK, ops.NO_WORK)
    >>> list(sections([replace(alone, branch=at) for at in (1, 2, 2, 0)]))
    [{1: [0], 2: [1, 2]}, {0: [3]}]
    """
    places = range(len(operations))
    for branching, some in groupby(places, key=lambda place: operations[place].branch > 0):
        if not branching:
            yield from ({0: [index]} for index in some)
            continue
        branches: dict[int, list[int]] = {}
        for place in some:
            branches.setdefault(operations[place].branch, []).append(place)
        yield branches


def _longest(operations: Sequence[ops.Operation], times_s: Sequence[Floats]) -> list[Floats]:
    """1 for each operation of the longest of its branches, else 0, shape (shardings,) each."""
    is_longest = [np.ones_like(time_s) for time_s in times_s]
    for branches in sections(operations):
        sums_s = [
            np.sum([times_s[place] for place in branch], axis=0) for branch in branches.values()
        ]
        longest = np.argmax(sums_s, axis=0)
        for number, places in enumerate(branches.values()):
            for index in places:
                is_longest[index] = (longest == number).astype(np.float64)
    return is_longest


class QueuedGradients(NamedTuple):
    """Gradients of one operation's weights, of shape (shardings,) each."""

    lead_s: Floats  # from when they are there to the end of the backward pass
    weight_bytes: Floats


def _queued(
    operations: Sequence[ops.Operation], setting: Setting, groups: LayerGroups
) -> Iterator[QueuedGradients]:
    """Gradients of operations in the order of the backward pass, the last operation's first."""
    times_s = [operation_times(operation, setting, groups)[1].total_s for operation in operations]
    lead_s, leads = np.zeros(len(groups.index)), dict[int, Floats]()
    for branches in sections(operations):
        sums_s = [
            np.sum([times_s[place] for place in branch], axis=0) for branch in branches.values()
        ]
        end_s = lead_s + np.max(sums_s, axis=0)
        for whole_s, places in zip(sums_s, branches.values(), strict=True):
            behind_s = end_s - whole_s  # a branch begins with the others, and ends before them
            for place in places:
                leads[place] = behind_s
                behind_s = behind_s + times_s[place]
        lead_s = end_s
    for index in reversed(range(len(operations))):
        held = ops.total_bytes([operations[index].weight_bytes], len(groups.index))
        if held.any():
            yield QueuedGradients(leads[index], held)


class CalibratedLayer(Columns, frozen=True, eq=False):
    """Times of a layer and of the ends, each of shape (shardings,) [s], and their weights [1]."""

    passes: Passes
    products_s: Floats  # there and back, without what is computed again
    attention_s: Floats
    vectors_s: Floats
    layer_weights: Floats
    end_weights: Floats
    # What computing again takes, by word, where it is varied.
    again_s: dict[str, Floats] = field(default_factory=dict)

    def redoing(self, more_s: Floats) -> "CalibratedLayer":
        """The same with so much more computed again [s]."""
        again_s = self.passes.again_s + more_s
        return replace(self, passes=replace(self.passes, again_s=again_s))

    @property
    def communication_s(self) -> Floats:
        """Tensor collectives and context ring, there and back [s]."""
        return np.asarray(self.passes.forward_comm_s + self.passes.backward_comm_s)

    depth = 1

    def parts_s(self) -> dict[str, Amount]:
        """What a microbatch takes in a layer, part by part [s]."""
        return {
            "compute": self.products_s,
            "attention": self.attention_s,
            "memory": self.vectors_s,
            "tensor_comm": self.communication_s,
            "recompute": self.passes.again_s,
            "host": self.passes.layer_s,
        }

    def spilling(self, forward_s: Floats, backward_s: Floats) -> "CalibratedLayer":
        """The same with so much more memory traffic of what lies in an expanded memory [s]."""
        unspilled = self.passes
        ahead_s, back_s = unspilled.forward_s + forward_s, unspilled.backward_s + backward_s
        passes = replace(unspilled, forward_s=ahead_s, backward_s=back_s)
        return replace(self, passes=passes, vectors_s=self.vectors_s + forward_s + backward_s)


def slowest_hop(network: CollectiveNetwork, group: Group) -> Floats:
    """Time of a byte from one member to the next, at the slowest level with several [s/B]."""
    slowest = np.zeros(group.members.shape[1])
    for index, level in enumerate(network.levels):
        members = group.members[index]
        slowest = np.maximum(slowest, np.where(members > 1, 1 / level.link_bytes_per_s, 0.0))
    return slowest


def calibrated_layer(
    setting: Setting, part: Slice, tensor_s: Floats, ring_s: Floats
) -> CalibratedLayer:
    """Times of one layer and of the ends for the slices of many shardings at once."""
    kernels = Kernels.of(part, setting.reached, trains=setting.trains)
    again = Redone.of(
        setting.variant.recompute,
        setting.calibration.half_recompute,
        # One tensor GPU has nothing to cut over others.
        sequence_parallel=np.less(part.scattered, part.tokens),
    )
    layer_passes = kernels.with_exposed(tensor_s, ring_s, again, setting.sharing)
    if not setting.trains:
        layer_passes = layer_passes.forward_alone
    none = np.zeros(np.shape(part.query))
    products_s, attention_s, vectors_s = (
        none + times.forward_s + times.backward_s
        for times in (kernels.products, kernels.attention, kernels.vectors)
    )
    passes = Passes(*(none + column for column in astuple(layer_passes)))
    weights = none + part.layer_weights, none + part.end_weights
    layer = CalibratedLayer(passes, products_s, attention_s, vectors_s, *weights)
    if not (setting.by_stack and setting.trains):
        return layer
    half = setting.calibration.half_recompute
    again_s = kernels.again_s(part, setting.reached, passes, half)
    layer = replace(layer, again_s={word: none + seconds for word, seconds in again_s.items()})
    shares = dict(setting.variant.again).items()
    more = (share * layer.again_s[word] for word, share in shares if word in layer.again_s)
    return layer.redoing(sum(more, none))


class NetworkEnd(Columns, frozen=True, eq=False):
    """One end of the network on its stage, every entry of shape (shardings,)."""

    time: Timing
    weight_bytes: Floats
    activation_bytes: Floats


class LayerTable(Columns, frozen=True, eq=False):
    """One layer and one microbatch, every entry of shape (shardings,)."""

    repetition: Repetition  # how often an iteration runs them
    forward: Timing
    backward: Timing
    gradient: Timing  # what of backward ends with gradients of the weights: all of it, or a phase
    weight_bytes: Floats  # 16-bit weights that all data parallel GPUs share [B]
    expert_bytes: Floats  # those of experts [B]
    activation_bytes: Floats  # what the backward pass needs [B]
    working_bytes: Floats  # what a layer holds only while it runs, where that is counted [B]
    boundary_bytes: Floats  # what goes to the next stage [B]
    stored_bytes: Floats  # weights without gradients or optimizer [B]
    first: NetworkEnd  # embedding
    last: NetworkEnd  # head
    queue: tuple[QueuedGradients, ...] = ()  # where each operation's gradients are queued alone
    # The parts of these times, where they are calibrated.
    calibrated: CalibratedLayer | DatedLayer | None = None
    # What computing again takes, by word, where it is varied.
    again: dict[str, Timing] = field(default_factory=dict)

    def redoing(self, row: Ints, shares: Mapping[str, Floats]) -> "LayerTable":
        """The layers of some plans, an entry each, which compute so large shares again by word.

        Parameters
        ----------
        row
            Which of the layers each plan has, shape (plans,).
        shares
            Share of its layers that computes it again, by word, shape (plans,) each [1].
        """
        taken = replace(self, again={}).take(row)
        backward = taken.backward
        for word, share in shares.items():
            backward = backward + self.again[word].take(row) * share
        calibrated = taken.calibrated
        if isinstance(calibrated, DatedLayer):
            calibrated = calibrated.redoing(shares)
            backward = _passes_of(calibrated, len(row))[1]
        elif calibrated is not None:
            calibrated = calibrated.redoing(backward.compute_s - taken.backward.compute_s)
        gradient = backward if self.gradient is self.backward else taken.gradient
        return replace(taken, backward=backward, gradient=gradient, calibrated=calibrated)

    @property
    def has_ends(self) -> bool:
        """Whether embedding or head are counted."""
        return bool(self.first.weight_bytes.any() or self.last.weight_bytes.any())


def layer_table(setting: Setting, sharding: ops.Sharding, groups: LayerGroups) -> LayerTable:
    """Add up the operations of one layer, for many shardings at once.

    Where the search varies it, what is computed again stands apart.
    """
    setting = setting.once
    program = setting.program(sharding)
    count, layer = len(groups.index), program.layer
    calibrated: CalibratedLayer | DatedLayer | None = None
    ends_s: tuple[Amount | None, Amount | None] = (None, None)
    if setting.training.calibrated is not None:
        calibrated = calibrated_times(setting, sharding, program, groups)
        forward, backward = _passes_of(calibrated, count)
        ends_s = calibrated.passes.embedding_s, calibrated.passes.head_s
    else:
        forward, backward = layer_times(setting, sharding, program, groups)
    held = setting.assumptions.memory.activations
    # Of a recommendation model none are checkpoints.
    keeps = held == "stored" or (held == "working" and setting.branched)
    stored = [
        operation.share * operation.activation_bytes for operation in layer.operations if keeps
    ]
    working = []
    if held == "working" and not setting.branched:
        working = [working_bytes(setting.transformer, sharding)]
    return LayerTable(
        repetition=program.repetition,
        forward=forward,
        backward=backward,
        gradient=_gradient_time(program, setting, groups) or backward,
        weight_bytes=program.weight_bytes(experts=False),
        expert_bytes=program.weight_bytes(experts=True),
        activation_bytes=ops.total_bytes(stored, count),
        working_bytes=ops.total_bytes(working, count),
        boundary_bytes=ops.total_bytes([layer.boundary_bytes], count),
        stored_bytes=ops.total_bytes(
            [operation.stored_bytes for operation in layer.operations], count
        ),
        first=_end(program.first, setting, groups, ends_s[0]),
        last=_end(program.last, setting, groups, ends_s[1]),
        queue=tuple(_queued(layer.operations, setting, groups)) if setting.branched else (),
        calibrated=calibrated,
        again=_again(setting, program, groups, calibrated)
        if setting.by_stack and setting.trains
        else {},
    )


def _passes_of(calibrated: CalibratedLayer | DatedLayer, count: int) -> tuple[Timing, Timing]:
    """Passes through a layer; what is computed again, and the host, count backward.

    Under software of a date as long as they make an iteration, on few GPUs.
    """
    passes, none = calibrated.passes, np.zeros(count)
    back_s = passes.backward_s + passes.again_s + passes.layer_s
    forward = Timing(none + passes.forward_s, none, none + passes.forward_comm_s, none)
    backward = Timing(none + back_s, none, none + passes.backward_comm_s, none)
    if isinstance(calibrated, DatedLayer):
        return forward * calibrated.growth, backward * calibrated.growth
    return forward, backward


def _offloading(setting: Setting, sharding: ops.Sharding, ahead_s: Floats) -> Floats:
    """What sending a layer's activations to the host and back shows beside two passes [s]."""
    memory, rate = setting.training.stack_memory, setting.training.host_bytes_per_s
    if memory is None or not rate:
        return np.zeros_like(ahead_s)
    tensor, context = (degree.astype(np.float64) for degree in (sharding.tensor, sharding.context))
    sizes = PlanSizes(
        microbatch=sharding.microbatch.astype(np.float64),
        tensor=tensor,
        context=context,
        expert=sharding.experts_over.astype(np.float64),
        expert_tensor=sharding.expert_tensor.astype(np.float64),
    )
    shown_s: Floats = np.maximum(memory.layer_bytes(sizes) / rate - ahead_s, 0.0)
    return 2 * shown_s


def _again(
    setting: Setting,
    program: Program,
    groups: LayerGroups,
    calibrated: CalibratedLayer | DatedLayer | None,
) -> dict[str, Timing]:
    """What computing again takes, by word: as calibrated, or operations by their forward pass.

    Under software of a date at least, since the host works beside it.
    """
    none = Timing.none(len(groups.index))
    if isinstance(calibrated, DatedLayer):
        more_s = calibrated.least_again_s
        return {word: replace(none, compute_s=seconds) for word, seconds in more_s.items()}
    if calibrated is not None:
        ahead_s = np.asarray(calibrated.passes.forward_s)
        again_s = calibrated.again_s | {"offload": _offloading(setting, program.sharding, ahead_s)}
        return {word: replace(none, compute_s=seconds) for word, seconds in again_s.items()}
    words = {word for rung in setting.rungs for word in rung.recompute.shares(1)} | {"full"}
    operations = program.layer.operations
    ahead = [forward for forward, _ in waited_times(operations, setting, groups)]
    ahead_s = sum((forward.total_s for forward in ahead), np.zeros(len(groups.index)))
    offloading_s = _offloading(setting, program.sharding, ahead_s)
    return {"offload": replace(none, memory_s=offloading_s)} | {
        word: sum(
            (
                forward * share
                for operation, forward in zip(operations, ahead, strict=True)
                if (share := computed_again(word, operation))
            ),
            none,
        )
        for word in words
    }


def check_formulas(setting: Setting) -> None:
    """Refuse layers that iteration model ``calibrated`` has no formulas for.

    Raises
    ------
    InputError
        If the layer has what no run has been tried with, or is multiplied in panels.
    """
    name = setting.assumptions.name
    unlike = "experts" if setting.variant.sparse else setting.transformer.unlike
    if setting.training.dated is not None:
        unlike = setting.transformer.unknown
    if unlike and not setting.transformer.unknown:
        raise InputError(
            f"iteration model {name} has formulas for {unlike} under software of a date alone:"
            " leave --software-date none out, take a stack and an accelerator with numbers by date,"
            f" or {_others(setting)}"
        )
    if unlike or setting.strategy == "summa":
        raise InputError(
            f"iteration model {name} has no formulas for {unlike or 'SUMMA'}:"
            f" take {_others(setting)}"
        )


def _others(setting: Setting) -> str:
    """Iteration models that have formulas, and what they do not time, as they are asked for."""
    run = setting.training.calibrated
    others = f"--iteration-model {'' if setting.transformer.mamba else 'measured or '}4d"
    bf16 = run is None or run.precision == "bf16"
    return others if bf16 else f"{others} without --precision"


def calibrated_times(
    setting: Setting, sharding: ops.Sharding, program: Program, groups: LayerGroups
) -> CalibratedLayer | DatedLayer:
    """Times of a layer and of the ends under iteration model ``calibrated``.

    Raises
    ------
    InputError
        As of :func:`check_formulas`.
    """
    check_formulas(setting)
    part = Slice.of(
        setting.transformer, sharding, sequence_parallel=setting.variant.sequence_parallel
    )
    # Their times alone; groups of one GPU have none.
    tensor, context = (group_of(groups.placements, index) for index in (TENSOR, CONTEXT))
    rows = groups.network.collective("all_gather", tensor).take(groups.index)
    several = tensor.members.prod(axis=0)[groups.index] > 1
    tensor_s = (
        rows.seconds(ops.ELEMENT_BYTES * part.tokens * part.hidden)
        + setting.calibration.collective_s * several
    )
    # Keys and values of the other GPUs, one neighbour's after the other: the slowest hop counts.
    others = context.members.prod(axis=0)[groups.index] - 1
    round_s = others * slowest_hop(groups.network, context)[groups.index]
    layer: CalibratedLayer | DatedLayer
    if setting.training.dated:
        layer = dated_layer(setting, sharding, groups.network, tensor_s, round_s)
        offloading_s = _offloading(setting, sharding, np.asarray(layer.passes.forward_s))
        layer = layer.offloading(offloading_s)
    else:
        keys_bytes = 2 * ops.ELEMENT_BYTES * part.tokens * part.key
        layer = calibrated_layer(setting, part, tensor_s, keys_bytes * round_s)
    if setting.spill is None:
        return layer
    none = Timing.none(len(groups.index))
    ahead, back = _with_spilled(none, none, setting, program)
    # A faster tier makes no kernel faster than runs were.
    return layer.spilling(np.maximum(ahead.memory_s, 0.0), np.maximum(back.memory_s, 0.0))


def layer_times(
    setting: Setting, sharding: ops.Sharding, program: Program, groups: LayerGroups
) -> tuple[Timing, Timing]:
    """Forward and backward time of one layer: of its operations, or as its kernels are mapped."""
    if setting.execution is not None:
        if setting.assumptions.compute.operations == "tiled":
            raise InputError(
                f"kernels are mapped onto the chip or tiled, and iteration model"
                f" {setting.assumptions.name} tiles them: leave the execution out"
            )
        passes = setting.execution.times(
            setting.layered, setting.variant.recompute, sharding, tensor_collective(groups)
        )
        none = np.zeros(len(groups.index))
        ahead, back = (
            Timing(compute_s, memory_s, network_s, none)
            for compute_s, memory_s, network_s in passes
        )
        back = back if setting.trains else back * 0.0
        return _with_spilled(ahead, back, setting, program)
    forward = backward = Timing.none(len(groups.index))
    for ahead, back in waited_times(program.layer.operations, setting, groups):
        forward, backward = forward + ahead, backward + back
    return forward, backward


def _gradient_time(program: Program, setting: Setting, groups: LayerGroups) -> Timing | None:
    """Time of the weights' gradients of one layer, where that is a phase of its own."""
    operations = program.layer.operations
    phases = [
        _work_time(operation, operation.weight_gradient, setting, groups)
        for operation in operations
        if operation.weight_gradient is not ops.NO_WORK
    ]
    if setting.branched:
        back_s = [
            operation_times(operation, setting, groups)[1].total_s for operation in operations
        ]
        waited = zip(operations, _longest(operations, back_s), strict=True)
        kept = [
            share for operation, share in waited if operation.weight_gradient is not ops.NO_WORK
        ]
        phases = [phase * share for phase, share in zip(phases, kept, strict=True)]
    return sum(phases[1:], phases[0]) if phases else None


def working_bytes(model: Model, sharding: ops.Sharding) -> Floats:
    """What one layer holds while it runs, M (16 h + 2 a s) bytes of M tokens and a heads [B].

    Not cut over tensor GPUs. Source: Rajbhandari et al., ZeRO-Infinity (arXiv:2104.07857), Sec. 3.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> working_bytes(MODELS.load("transformer-1t"), ops.Sharding.of(4, tensor=8))
    array([8.72415232e+09])
    """
    tokens: Floats = sharding.microbatch.astype(np.float64) * model.sequence_length
    return np.asarray(
        tokens * (16.0 * model.hidden_size + 2.0 * model.heads * model.sequence_length)
    )


def _with_spilled(
    forward: Timing, backward: Timing, setting: Setting, program: Program
) -> tuple[Timing, Timing]:
    """Passes through a mapped layer, and behind them what spilled takes longer than local."""
    spill, rate = setting.spill, setting.training.memory_bytes_per_s
    if spill is None or rate is None:
        return forward, backward
    more = [Timing.none(len(forward.compute_s)) for _ in range(2)]
    for operation in program.layer.operations:
        for index, works in enumerate(((operation.forward,), operation.backward_works)):
            for work in works:
                moved = spill.moved_bytes(operation, work) - work.moved_bytes
                more[index] = replace(more[index], memory_s=more[index].memory_s + moved / rate)
    return forward + more[0], backward + more[1]


def tensor_collective(groups: LayerGroups) -> Callable[[ops.CollectiveKind, Floats], Floats]:
    """Time of a collective of the tensor group of each sharding."""
    return lambda kind, message: groups.seconds(kind, "tensor", message)


def _end(
    operation: ops.Operation | None,
    setting: Setting,
    groups: LayerGroups,
    calibrated_s: Amount | None = None,
) -> NetworkEnd:
    count = len(groups.index)
    if operation is None:
        return NetworkEnd(Timing.none(count), np.zeros(count), np.zeros(count))
    if calibrated_s is None:
        forward, backward = operation_times(operation, setting, groups)
        time = forward + backward
    else:
        none = np.zeros(count)
        time = Timing(none + calibrated_s, none, none, none)
    return NetworkEnd(
        time,
        ops.total_bytes([operation.weight_bytes], count),
        ops.total_bytes([operation.activation_bytes], count),
    )
