"""What spills of plans into an expanded memory: their traffic there, and the optimizer's update.

A plan's memory (`netplan.performance.memory`) says which bytes lie in which tier
(`netplan.performance.tiers`), and so how long its operations take. Times of layers depend on the
schedule then, not on the sharding alone.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.performance.compute import LayerGroups, layer_table
from netplan.performance.iteration import IterationTerms
from netplan.performance.memory import Memory, members, memory_of
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.performance.space import PlanSpace
from netplan.performance.tiers import ORDER, Part, Policy, Spill, expanded_parts, share_of
from netplan.records import replace
from netplan.traffic.hierarchy import Network
from netplan.workloads.families import RecommendationModel
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
    def _latency_s(self) -> Floats:
        expanded = self.setting.training.expanded
        return np.where(self.plans, expanded.latency_s if expanded else 0.0, 0.0)

    def traffic(self, totals: Ints, repetition: Repetition) -> Spill:
        """How much longer the traffic of operations takes, for degrees of shape (dimensions, n)."""
        zero, slower = self.setting.zero_stage, self.slower
        latency_bytes = self._latency_s * (self.setting.training.memory_bytes_per_s or 0.0)
        none = np.zeros_like(latency_bytes)
        if _policy(self.setting)[0] == "uniform":
            share = share_of(self._all, self.memory.total)
            return Spill(slower * share, none, none, none, latency_bytes)
        group = members(totals, repetition.weight_group)
        weights, gradients = slower * self._share("weights"), slower * self._share("gradients")
        return Spill(
            everything=none,
            weights=weights / group if zero >= SHARED_WEIGHTS else weights,
            gradients=gradients / group if zero >= SHARED_GRADIENTS else gradients,
            activations=slower * self._share("activations"),
            latency_bytes=latency_bytes,
        )

    def update_s(self, repetition: Repetition) -> Floats | None:
        """Time of the optimizer's update that counts; None if there is none of any plan [s]."""
        setting, rules = self.setting, self.setting.assumptions.memory
        rate = setting.training.memory_bytes_per_s
        whole = rules.update == "whole"
        if not repetition.trains or rate is None or not (whole or self.plans.any()):
            return None
        overlap = setting.assumptions.overlap
        moved: dict[Part, float] = {
            "gradients": overlap.gradient_bytes,
            "optimizer": 2 * overlap.optimizer_bytes,  # read and written
            "weights": ELEMENT_BYTES,
        }
        each = sum(moved.values())
        update_bytes = each if rules.update_bytes is None else rules.update_bytes
        # States are kept with the weights, or shared as the ZeRO stage says.
        parameters = self.memory.weights / ELEMENT_BYTES
        # Rows of tables change one by one, in an operation of their own.
        if rules.update_sharded or setting.spread_model is not None:
            parameters = self.memory.optimizer / overlap.optimizer_bytes
        shares = sum(part * self._share(name) for name, part in moved.items())
        local_s = parameters * update_bytes / rate
        more_s = self.slower * local_s * shares / each + self._latency_s
        found: Floats = local_s + more_s if whole else np.maximum(more_s, 0.0)
        return found

    def parts(self, index: int) -> dict[str, dict[str, float]]:
        """What of every part of one plan lies in either tier [B]."""
        return {
            name: {
                "local": float(self.held[name][index] - self.there[name][index]),
                "expanded": float(self.there[name][index]),
            }
            for name in Memory.__struct_fields__
            if name in self.held
        }


def _policy(setting: Setting) -> tuple[Policy, tuple[Part, ...]]:
    """What spills first, and what is offloaded."""
    rules, spread = setting.assumptions.memory, setting.spread_model
    # A matrix or a signal is one thing, of which all parts are used alike.
    if spread is not None and not isinstance(spread, RecommendationModel):
        return "uniform", ()
    return rules.policy, rules.offload


class Evaluated(Struct, frozen=True, eq=False):
    """Times and memory of all plans of a space.

    Where plans spill that share layers, times of layers are those without: least times, as long as
    the expanded memory is slower. In a space of single plans they are whole.
    """

    terms: IterationTerms
    memory: Memory
    spilled: Spilled

    @property
    def seconds(self) -> Floats:
        """Times of a space of single plans [s]."""
        each = np.arange(len(self.memory.weights))
        return self.terms.seconds(each, each, each)


def evaluate_space(setting: Setting, network: Network, space: PlanSpace) -> Evaluated:
    """Compute what many plans share, and of single plans all there is."""
    groups = LayerGroups.of(network, space.layer_placements, space.sharding_layer)
    table = layer_table(setting, space.sharding, groups)
    memory = memory_of(setting, space.runs, table)
    spilled = Spilled.of(setting, memory)
    if space.single and spilled.plans.any():
        spill = spilled.traffic(space.runs.totals, table.repetition)
        table = layer_table(replace(setting, spill=spill), space.sharding, groups)
    update_s = spilled.update_s(table.repetition)
    terms = IterationTerms.of(setting, network, space, table, update_s)
    return Evaluated(terms, memory, spilled)


SPILLED_PLANS = 1 << 12
"""Plans that spill, and whose layers are timed one by one, together: their arrays stay in the
cache [1]."""


def placed(setting: Setting, timed: PlanTime) -> Setting:
    """The setting in which the operations of one plan take as long as in its time."""
    if setting.training.expanded is None:
        return setting
    held = {name: np.array([amount]) for name, amount in timed.memory_parts_bytes.items()}
    spilled = Spilled.of(setting, Memory(**held))
    if not spilled.plans.any():
        return setting
    plan = timed.plan
    totals = np.array([plan.placement.totals], dtype=np.int64).T
    repetition = setting.program(plan.sharding).repetition
    return replace(setting, spill=spilled.traffic(totals, repetition))
