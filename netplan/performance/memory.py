"""Memory of the fullest GPU, for all schedules at once.

=============  ===============================================================================
weights        2 bytes a parameter
gradients      ``gradient_bytes`` a parameter
optimizer      ``optimizer_bytes`` a parameter (Adam with a 32-bit copy: 12)
activations    of the layers of one stage, for every microbatch in flight
buffers        what sharding and recomputation put together for a while
=============  ===============================================================================

ZeRO (Rajbhandari et al., arXiv:1910.02054, Sec. 5) divides by the data parallel group: from stage 1
the optimizer, from 2 the gradients, at 3 the weights. It then holds one layer's whole gradients
(2 and 3) and the gathered weights of the running and the next layer (3). Under 2D-context the
context GPUs share their weights and join the group (arXiv:2410.00273, Sec. III).

Microbatches in flight, with p stages, m microbatches and v interleaved stages: min(p, m) under
1F1B, at most p + (p - 1)/v of them interleaved (Korthikanti et al., arXiv:2205.05198, Sec. 4.3).
Full recomputation stores the input of each layer and the activations of one.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.performance.compute import LayerTable
from netplan.performance.setting import Setting
from netplan.performance.space import PlanSpace, real
from netplan.traffic.placement import DIMENSIONS, PIPELINE
from netplan.workloads.operations import ELEMENT_BYTES


class Memory(Struct, frozen=True, eq=False):
    """Memory of one GPU, each part of shape (schedules,) [B]."""

    weights: Floats
    gradients: Floats
    optimizer: Floats
    activations: Floats
    buffers: Floats

    @property
    def total(self) -> Floats:
        """All parts together [B]."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.buffers

    def part(self, index: int) -> dict[str, float]:
        """Parts of one schedule by name [B]."""
        return {name: float(getattr(self, name)[index]) for name in self.__struct_fields__}


class _Stage(Struct, frozen=True, eq=False):
    """What one pipeline stage holds."""

    layers: Floats
    weight_bytes: Floats
    expert_bytes: Floats
    end_bytes: Floats
    in_flight: Floats
    end_activations: Floats


def memory_of(setting: Setting, space: PlanSpace, table: LayerTable) -> Memory:
    """Memory of every schedule on its fullest stage: the first one, or the last with the head."""
    schedules = space.schedules
    totals, row = space.totals[:, schedules.totals], space.example_sharding
    stages = real(totals[PIPELINE])
    layers = setting.training.model.layers / stages
    flying = in_flight(setting, stages, real(schedules.microbatches), real(schedules.interleave))
    alone = stages == 1
    weights, experts = table.weight_bytes[row], table.expert_bytes[row]
    first, last = table.first.weight_bytes[row], table.last.weight_bytes[row]
    logits = table.last.activation_bytes[row]

    def stage(end_bytes: Floats, flying: Floats, end_activations: Floats) -> Memory:
        held = _Stage(layers, weights, experts, end_bytes, flying, end_activations)
        return _stage_memory(setting, totals, held, table, row)

    head = stage(np.where(alone, first + last, first), flying, np.where(alone, logits, 0.0))
    if not table.has_ends:
        return head
    tail = stage(last, np.ones_like(flying), logits)
    fuller = (tail.total > head.total) & ~alone
    return Memory(
        *(
            np.where(fuller, getattr(tail, part), getattr(head, part))
            for part in Memory.__struct_fields__
        )
    )


def in_flight(setting: Setting, stages: Floats, microbatches: Floats, interleave: Floats) -> Floats:
    """Microbatches whose activations the first stage holds at once [1]."""
    rule = setting.assumptions.overlap.in_flight
    if rule == "plain":
        return stages
    more = stages + np.where(interleave > 1, (stages - 1) / interleave, 0.0)
    return np.minimum(more, microbatches) if rule == "1f1b" else more


def members(totals: Ints, dimensions: Sequence[str]) -> Floats:
    """GPUs of one group over these dimensions, from totals of shape (dimensions, n) [1]."""
    chosen = [DIMENSIONS.index(name) for name in dimensions]
    return real(totals[chosen].prod(axis=0))


def _stage_memory(
    setting: Setting, totals: Ints, held: _Stage, table: LayerTable, row: Ints
) -> Memory:
    zero, overlap = setting.zero_stage, setting.assumptions.overlap
    group = members(totals, table.repetition.weight_group)
    expert_group = members(totals, table.repetition.expert_group)
    dense = held.weight_bytes * held.layers + held.end_bytes
    sparse = held.expert_bytes * held.layers
    whole = dense + sparse
    sharded = dense / group + sparse / expert_group
    layer = held.weight_bytes + held.expert_bytes
    gradient = overlap.gradient_bytes / ELEMENT_BYTES
    optimizer = overlap.optimizer_bytes / ELEMENT_BYTES

    buffers = np.zeros_like(whole)
    if zero >= 2:  # noqa: PLR2004 - ZeRO stages are numbers
        buffers = buffers + gradient * layer
    if zero == 3:  # noqa: PLR2004
        buffers = buffers + layer * np.minimum(held.layers, 2)
    stored = table.activation_bytes[row]
    if setting.variant.recompute == "full":
        buffers = buffers + stored
        stored = table.boundary_bytes[row]
    return Memory(
        weights=sharded if zero == 3 else whole,  # noqa: PLR2004
        gradients=gradient * (sharded if zero >= 2 else whole),  # noqa: PLR2004
        optimizer=optimizer * (sharded if zero >= 1 else whole),
        activations=stored * held.layers * held.in_flight + held.end_activations,
        buffers=buffers,
    )
