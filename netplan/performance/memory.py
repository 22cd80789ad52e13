"""Memory of the fullest GPU as iteration models have it, for all schedules at once.

As papers count it. What training software keeps, operation by operation, says
`netplan.performance.stack_memory`.

=============  ===============================================================================
weights        2 bytes a parameter; tables of embeddings too, which nothing else stands beside
gradients      ``gradient_bytes`` a parameter
optimizer      ``optimizer_bytes`` a parameter (Adam with a 32-bit copy: 12, SGD: 4)
activations    of the layers of the fullest stage, for every microbatch in flight
buffers        what sharding and recomputation put together for a while
=============  ===============================================================================

Iteration models may leave out buffers, or activations but for the working memory of a layer.

ZeRO (Rajbhandari et al., arXiv:1910.02054, Sec. 5) divides by the data parallel group: from stage 1
the optimizer, from 2 the gradients, at 3 the weights. It then holds one layer's whole gradients
(2 and 3) and the gathered weights of the running and the next layer (3). Under 2D-context the
context GPUs share their weights and join the group (arXiv:2410.00273, Sec. III).

Microbatches in flight, with p stages, m microbatches and v interleaved stages: min(p, m) under
1F1B, at most p + (p - 1)/v of them interleaved (Korthikanti et al., arXiv:2205.05198, Sec. 4.3).
Full recomputation stores the input of each layer and the activations of one, ``half`` does so for
every other layer. GPipe holds all microbatches, ``zb-2p`` twice those of 1F1B. What only runs
forward stores those of one layer. Left out: microbatches that fill no whole group of p make the
schedule that is simulated (`netplan.simulation.schedule`) hold (v - 1)/v (m mod p) more of them, at
most m.

Uneven stages: where the first stage holds a layer less than the fullest, the second is one of those
and has one microbatch less in flight; the fuller of the two counts, and the last one with the head.

What spills of plans into an expanded memory: their traffic there, and the optimizer's update.

A plan's memory (`netplan.performance.memory`) says which bytes lie in which tier
(`netplan.performance.tiers`), and so how long its operations take. Times of layers depend on the
schedule then, not on the sharding alone.
"""

from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, real
from netplan.inputs.choices import MemoryPart as Part
from netplan.inputs.choices import Policy
from netplan.performance.compute import LayerTable
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.performance.space import StageRuns
from netplan.performance.tiers import ORDER, SHOWN, Spill, expanded_parts, expanded_share
from netplan.records import replace
from netplan.traffic.placement import DIMENSIONS, PIPELINE
from netplan.workloads import program
from netplan.workloads.operations import ELEMENT_BYTES

__all__ = ("Memory", "in_flight", "members", "memory_of")


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
        """Parts of one schedule by name [B].

        Parameters
        ----------
        index
            Number of the schedule, counted from 0.

        Returns
        -------
        dict[str, float]
            Weights, gradients, optimizer, activations and buffers [B].
        """
        return {name: float(getattr(self, name)[index]) for name in self.__struct_fields__}


class _Stage(Struct, frozen=True, eq=False):
    """What one pipeline stage holds."""

    layers: Floats
    weight_bytes: Floats
    expert_bytes: Floats
    end_bytes: Floats
    in_flight: Floats
    end_activations: Floats


def memory_of(setting: Setting, runs: StageRuns, table: LayerTable) -> Memory:
    """Memory of every schedule on its fullest stage: the first one, or the last with the head.

    Parameters
    ----------
    setting
        What is trained, and how: ZeRO stage, recomputation, and what counts as memory.
    runs
        Degrees, microbatches and interleaved stages, shape (schedules,).
    table
        Weights and activations of one layer, shape (shardings,) [B].

    Returns
    -------
    Memory
        Parts of the memory, shape (schedules,) [B].

    References
    ----------
    Rajbhandari et al., arXiv:1910.02054, Sec. 5; Korthikanti et al., arXiv:2205.05198, Sec. 4.3.
    """
    totals, row, stages = runs.totals, runs.sharding, runs.stages
    layers = table.repetition.fullest(stages)
    first_less, last_less = program.missing_layers(table.repetition.layers, stages)
    microbatches, interleave = real(runs.microbatches), real(runs.interleave)
    flying = in_flight(setting, stages, microbatches, interleave)
    alone = stages == 1
    weights, experts = table.weight_bytes[row], table.expert_bytes[row]
    first, last = table.first.weight_bytes[row], table.last.weight_bytes[row]
    logits = table.last.activation_bytes[row]

    def stage(held: Floats, end_bytes: Floats, flying: Floats, end_activations: Floats) -> Memory:
        pipeline_stage = _Stage(held, weights, experts, end_bytes, flying, end_activations)
        return _stage_memory(setting, totals, pipeline_stage, table, row)

    nothing = np.zeros_like(stages)
    fullest = stage(
        layers - first_less,
        np.where(alone, first + last, first),
        flying,
        np.where(alone, logits, nothing),
    )
    if first_less.any():
        later = in_flight(setting, stages, microbatches, interleave, behind=1)
        fullest = _fuller(fullest, stage(layers, nothing, later, nothing), first_less > 0)
    if not table.has_ends:
        return fullest
    tail = stage(layers - last_less, last, np.ones_like(flying), logits)
    return _fuller(fullest, tail, ~alone)


def _fuller(memory: Memory, other: Memory, possible: Bools) -> Memory:
    """The fuller of two stages, where the other one exists."""
    fuller = (other.total > memory.total) & possible
    return Memory(
        *(
            np.where(fuller, getattr(other, part), getattr(memory, part))
            for part in Memory.__struct_fields__
        )
    )


def in_flight(
    setting: Setting, stages: Floats, microbatches: Floats, interleave: Floats, *, behind: int = 0
) -> Floats:
    """Microbatches whose activations a stage so far behind the first holds at once [1].

    Interleaved, a stage starts two chunks, of v a microbatch, later than the one before it
    (arXiv:2104.04473, Fig. 4).

    Parameters
    ----------
    setting
        Order of the passes, and the iteration model's rule.
    stages, microbatches, interleave
        Stages p, microbatches m, interleaved stages v, shape (schedules,) [1].
    behind
        Stages before this one [1].

    Returns
    -------
    Floats
        Microbatches, shape (schedules,) [1].

    References
    ----------
    Korthikanti et al., arXiv:2205.05198, Sec. 4.3; for zb-2p arXiv:2401.10241, Table 2.
    """
    rule, schedule = setting.assumptions.overlap.in_flight, setting.options.schedule
    if schedule == "gpipe":
        return microbatches
    if schedule == "zb-2p":  # arXiv:2401.10241, Table 2
        return np.minimum(2.0 * stages, microbatches)
    if rule == "plain":
        return stages - behind
    several = interleave > 1
    more = stages + np.where(several, (stages - 1) / interleave, 0.0)
    more = more - behind * np.where(several, 2 / interleave, 1.0)
    return np.asarray(np.minimum(more, microbatches) if rule == "1f1b" else more)


def members(totals: Ints, dimensions: Sequence[str]) -> Floats:
    """GPUs of one group over these dimensions, from totals of shape (dimensions, n) [1].

    Parameters
    ----------
    totals
        Total degrees in the order of ``DIMENSIONS``, shape (dimensions, n) [1].
    dimensions
        Names of the dimensions that the members differ in, such as ``data``.

    Returns
    -------
    Floats
        Product of their degrees, shape (n,) [1].
    """
    chosen = [DIMENSIONS.index(name) for name in dimensions]
    return real(totals[chosen].prod(axis=0))


def same_experts(totals: Ints, repetition: program.Repetition, row: Ints) -> Floats:
    """GPUs that hold the same experts, of plans of some shardings, shape (plans,) [1]."""
    if repetition.experts_on is None:
        return members(totals, repetition.expert_group)
    stage = totals.prod(axis=0) // totals[PIPELINE]
    return real(np.maximum(1, stage // repetition.experts_on[row]))


def _stage_memory(
    setting: Setting, totals: Ints, held: _Stage, table: LayerTable, row: Ints
) -> Memory:
    zero, overlap = setting.zero_stage, setting.assumptions.overlap
    group = members(totals, table.repetition.weight_group)
    expert_group = same_experts(totals, table.repetition, row)
    dense = held.weight_bytes * held.layers + held.end_bytes
    sparse = held.expert_bytes * held.layers
    whole = dense + sparse
    sharded = dense / group + sparse / expert_group
    layer = held.weight_bytes + held.expert_bytes
    gradient = overlap.gradient_bytes / ELEMENT_BYTES
    optimizer = overlap.optimizer_bytes / ELEMENT_BYTES

    buffers = np.zeros_like(whole)
    if zero >= program.SHARDED_GRADIENTS:
        buffers = buffers + gradient * layer
    if zero >= program.SHARDED_WEIGHTS:
        buffers = buffers + layer * np.minimum(held.layers, 2)
    activations, working_set = _activations(setting, held, table, row)
    buffers = buffers + working_set
    if setting.assumptions.memory.buffers == "none":
        buffers = np.zeros_like(whole)
    kept = table.stored_bytes[row] * held.layers
    return Memory(
        weights=(sharded if zero >= program.SHARDED_WEIGHTS else whole) + kept,
        gradients=gradient * (sharded if zero >= program.SHARDED_GRADIENTS else whole),
        optimizer=optimizer * (sharded if zero >= program.SHARDED_OPTIMIZER else whole),
        activations=activations,
        buffers=buffers,
    )


def _activations(
    setting: Setting, held: _Stage, table: LayerTable, row: Ints
) -> tuple[Floats, Floats]:
    """What layers hold for their backward pass, and what a layer holds only while it runs [B]."""
    stored, counted = table.activation_bytes[row], setting.assumptions.memory.activations
    working_set = np.zeros_like(stored)
    if counted == "stored" and setting.variant.recompute in ("full", "half"):
        working_set, boundary = stored, table.boundary_bytes[row]
        stored = boundary if setting.variant.recompute == "full" else (stored + boundary) / 2
    if not table.repetition.trains:
        working_set, stored = working_set + stored, np.zeros_like(stored)
    activations = stored * held.layers * held.in_flight + held.end_activations
    if counted == "working":
        activations = activations + table.working_bytes[row]
    return activations, working_set


class Spilled(Struct, frozen=True, eq=False):
    """Plans on a GPU that may have an expanded memory: what of every part lies there [B].

    All arrays have the shape (plans,).
    """

    setting: Setting
    memory: Memory
    held: dict[Part, Floats]
    there: dict[Part, Floats]

    @classmethod
    def of(cls, setting: Setting, memory: Memory) -> "Spilled":
        """What of some plans lies in the expanded memory; nothing if there is none."""
        training = setting.training
        held: dict[Part, Floats] = {name: getattr(memory, name) for name in ORDER}
        there = {name: np.zeros_like(amount) for name, amount in held.items()}
        if training.expanded is not None:
            policy, offload = _policy(setting)
            local, expanded = training.memory_bytes, training.expanded
            there = expanded_parts(held, local, expanded, policy, offload)
        return cls(setting, memory, held, there)

    @property
    def plans(self) -> Bools:
        """Which of the plans have something there."""
        return self._all > 0

    @property
    def _all(self) -> Floats:
        return sum(self.there.values(), np.zeros_like(self.memory.weights))

    def _share(self, part: Part) -> Floats:
        return expanded_share(self.there[part], self.held[part])

    @property
    def slower(self) -> float:
        """How many times longer a byte takes from there, less one [1]."""
        training = self.setting.training
        if training.expanded is None or training.memory_bytes_per_s is None:
            return 0.0
        return training.memory_bytes_per_s / training.expanded.bytes_per_s - 1

    @property
    def _latency_s(self) -> float:
        expanded = self.setting.training.expanded
        return expanded.latency_s if expanded else 0.0

    def keeping(self, names: Collection[Part]) -> "Spilled":
        """The same plans if only some parts lay there, and the others in the local memory."""
        there = {
            name: amount if name in names else np.zeros_like(amount)
            for name, amount in self.there.items()
        }
        return replace(self, there=there)

    def traffic(self, totals: Ints, repetition: program.Repetition, row: Ints) -> Spill:
        """What of the traffic of operations goes there, for degrees of shape (dimensions, n).

        ``row`` says which sharding each plan has.
        """
        zero, uniform = self.setting.zero_stage, _policy(self.setting)[0] == "uniform"
        everything = expanded_share(self._all, self.memory.total)
        none = np.zeros_like(everything)
        weights, gradients, activations = (
            none if uniform else self._share(part)
            for part in ("weights", "gradients", "activations")
        )
        group = members(totals, repetition.weight_group)
        expert_group = same_experts(totals, repetition, row)
        return Spill(
            everything=everything if uniform else none,
            weights=weights / group if zero >= program.SHARDED_WEIGHTS else weights,
            gradients=gradients / group if zero >= program.SHARDED_GRADIENTS else gradients,
            expert_weights=weights / expert_group if zero >= program.SHARDED_WEIGHTS else weights,
            expert_gradients=gradients / expert_group
            if zero >= program.SHARDED_GRADIENTS
            else gradients,
            activations=activations,
            slower=self.slower,
            latency_bytes=self._latency_s * (self.setting.training.memory_bytes_per_s or 0.0),
        )

    def update_s(self, repetition: program.Repetition) -> Floats | None:
        """Time of the optimizer's update that counts; None if there is none of any plan [s]."""
        rate = self.setting.training.memory_bytes_per_s
        whole = self.setting.assumptions.memory.update == "whole"
        if not repetition.trains or rate is None or not (whole or self.plans.any()):
            return None
        moved_bytes, there_bytes = self.update_bytes()
        more_s = self.slower * there_bytes / rate + np.where(there_bytes > 0, self._latency_s, 0.0)
        return np.asarray(moved_bytes / rate + more_s if whole else np.maximum(more_s, 0.0))

    def update_bytes(self) -> tuple[Floats, Floats]:
        """What the optimizer's update of plans moves, and what of that from and to the tier [B]."""
        overlap, rules = self.setting.assumptions.overlap, self.setting.assumptions.memory
        moved: dict[Part, float] = {
            "gradients": overlap.gradient_bytes,
            "optimizer": 2 * overlap.optimizer_bytes,  # read and written
            "weights": ELEMENT_BYTES,
        }
        whole = sum(moved.values())
        per_parameter = whole if rules.update_bytes is None else rules.update_bytes
        # States are kept with the weights, or shared as the ZeRO stage says.
        parameters = self.memory.weights / ELEMENT_BYTES
        # Rows of tables change one by one, in an operation of their own.
        if rules.update_sharded or self.setting.spread_model is not None:
            parameters = self.memory.optimizer / overlap.optimizer_bytes
        there = sum(part * self._share(name) for name, part in moved.items())
        return parameters * per_parameter, parameters * per_parameter * there / whole

    def parts(self, index: int) -> dict[str, dict[str, float]]:
        """What of every part of one plan lies in either tier [B]."""
        return {
            name: {
                "local": float(self.held[name][index] - self.there[name][index]),
                "expanded": float(self.there[name][index]),
            }
            for name in SHOWN
        }


def _policy(setting: Setting) -> tuple[Policy, tuple[Part, ...]]:
    """What spills first, and what is offloaded."""
    rules, spread = setting.assumptions.memory, setting.spread_model
    # A matrix or a signal is one thing, of which all parts are used alike.
    if spread is not None and spread.family != "recommendation":
        return "uniform", ()
    return rules.policy, rules.offload


def spilled_of(setting: Setting, timed: PlanTime) -> Spilled:
    """What of one plan lies in the expanded memory."""
    held = {name: np.array([amount]) for name, amount in timed.memory_parts_bytes.items()}
    return Spilled.of(setting, Memory(**held))


def with_spill(setting: Setting, timed: PlanTime, there: Collection[Part] = ORDER) -> Setting:
    """The setting in which the operations of one plan take as long as in its time.

    Parts that are not ``there`` lie in the local memory, whatever room it has.
    """
    if setting.training.expanded is None:
        return setting
    spilled = spilled_of(setting, timed).keeping(there)
    if not spilled.plans.any():
        return setting
    plan = timed.plan
    totals = np.array([plan.placement.totals], dtype=np.int64).T
    repetition = setting.program(plan.sharding).repetition
    spill = spilled.traffic(totals, repetition, np.zeros(1, np.int64))
    return replace(setting, spill=spill)
