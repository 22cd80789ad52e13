"""What spills of plans into an expanded memory: their traffic there, and the optimizer's update.

A plan's memory (`netplan.performance.memory`) says which bytes lie in which tier
(`netplan.performance.tiers`), and so how long its operations take. Times of layers depend on the
schedule then, not on the sharding alone.
"""

from collections.abc import Collection

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.inputs.choices import MemoryPart as Part
from netplan.inputs.choices import Policy
from netplan.performance.memory import Memory, members
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.performance.tiers import ORDER, SHOWN, Spill, expanded_parts, share_of
from netplan.records import replace
from netplan.workloads.operations import ELEMENT_BYTES
from netplan.workloads.program import Repetition

SHARED_GRADIENTS, SHARED_WEIGHTS = 2, 3
"""ZeRO stages from which on a GPU keeps its own share of them [1]."""


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
        there = {name: np.zeros_like(one) for name, one in held.items()}
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
        return share_of(self.there[part], self.held[part])

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
            name: one if name in names else np.zeros_like(one) for name, one in self.there.items()
        }
        return replace(self, there=there)

    def traffic(self, totals: Ints, repetition: Repetition) -> Spill:
        """What of the traffic of operations goes there, for degrees of shape (dimensions, n)."""
        zero, uniform = self.setting.zero_stage, _policy(self.setting)[0] == "uniform"
        everything = share_of(self._all, self.memory.total)
        none = np.zeros_like(everything)
        weights, gradients, activations = (
            none if uniform else self._share(part)
            for part in ("weights", "gradients", "activations")
        )
        group = members(totals, repetition.weight_group)
        expert_group = members(totals, repetition.expert_group)
        return Spill(
            everything=everything if uniform else none,
            weights=weights / group if zero >= SHARED_WEIGHTS else weights,
            gradients=gradients / group if zero >= SHARED_GRADIENTS else gradients,
            expert_weights=weights / expert_group if zero >= SHARED_WEIGHTS else weights,
            expert_gradients=gradients / expert_group if zero >= SHARED_GRADIENTS else gradients,
            activations=activations,
            slower=self.slower,
            latency_bytes=self._latency_s * (self.setting.training.memory_bytes_per_s or 0.0),
        )

    def update_s(self, repetition: Repetition) -> Floats | None:
        """Time of the optimizer's update that counts; None if there is none of any plan [s]."""
        rate = self.setting.training.memory_bytes_per_s
        whole = self.setting.assumptions.memory.update == "whole"
        if not repetition.trains or rate is None or not (whole or self.plans.any()):
            return None
        moved_bytes, there_bytes = self.update_bytes()
        more_s = self.slower * there_bytes / rate + np.where(there_bytes > 0, self._latency_s, 0.0)
        found: Floats = moved_bytes / rate + more_s if whole else np.maximum(more_s, 0.0)
        return found

    def update_bytes(self) -> tuple[Floats, Floats]:
        """What the optimizer's update of plans moves, and what of that from and to the tier [B]."""
        overlap, rules = self.setting.assumptions.overlap, self.setting.assumptions.memory
        moved: dict[Part, float] = {
            "gradients": overlap.gradient_bytes,
            "optimizer": 2 * overlap.optimizer_bytes,  # read and written
            "weights": ELEMENT_BYTES,
        }
        whole = sum(moved.values())
        each = whole if rules.update_bytes is None else rules.update_bytes
        # States are kept with the weights, or shared as the ZeRO stage says.
        parameters = self.memory.weights / ELEMENT_BYTES
        # Rows of tables change one by one, in an operation of their own.
        if rules.update_sharded or self.setting.spread_model is not None:
            parameters = self.memory.optimizer / overlap.optimizer_bytes
        there = sum(part * self._share(name) for name, part in moved.items())
        return parameters * each, parameters * each * there / whole

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
    return replace(setting, spill=spilled.traffic(totals, repetition))
