"""Times and memory of all plans of a space: what many of them share is computed once.

Memory comes first, as it depends on the schedule alone; it says what spills into an expanded memory
(`netplan.performance.memory`), and so how long operations take, in layers
(`netplan.performance.compute`) and iterations (`netplan.performance.iteration`). What makes
iterations of layers keeps to :class:`SpaceTerms`, and may come from another package by an entry
point.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cache
from math import inf
from typing import Protocol

import numpy as np
from msgspec import Struct

from netplan.added import added
from netplan.arrays import Floats, Ints, real
from netplan.inputs.choices import MemoryPart as Part
from netplan.levels import Level
from netplan.performance.calibrated_terms import CalibratedTerms
from netplan.performance.compute import LayerGroups, LayerTable, layer_table
from netplan.performance.dated.bars import dated_bar, transferred_bar
from netplan.performance.error_bars import ErrorBar, error_bar
from netplan.performance.ladder import given_to, plan_memory, recomputed_shares, sizes_of
from netplan.performance.memory import Memory, Spilled, memory_of
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.setting import Setting, check_name
from netplan.performance.space import PlanSpace
from netplan.performance.stack_memory import Held, PlanSizes
from netplan.performance.tiers import ORDER
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork

CHUNK_PLANS = 1 << 15
"""Plans of one chunk: their arrays stay in the second-level cache [1]."""

SPILLED_PLANS = 1 << 12
"""Plans that spill, and whose layers are timed one by one, together: their arrays stay in the
cache [1]."""

ROUNDING = 1 + 1e-11
"""Bounds and times add up the same terms in other orders [1]."""


EVALUATORS = ("layers", "calibrated", "dated")
"""What iteration models of this package are evaluated by."""


class Scheduled(Protocol):
    """What depends on the schedule only."""

    @property
    def unfilled(self) -> Floats:
        """Layers in the bubble for want of microbatches, shape (schedules,) [1]."""


class SpaceTerms(Protocol):
    """Times of all plans of a space; each plan names its placement, sharding and schedule."""

    @property
    def schedule(self) -> Scheduled:
        """Terms of the schedules."""

    @property
    def layer_s(self) -> Floats:
        """A layer forward and backward, shape (shardings,) [s]."""

    @property
    def bubble_s(self) -> Floats:
        """What of it the bubble has, shape (shardings,) [s]."""

    def seconds(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """Iteration times [s]."""

    def data_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """What of them depends on the number of replicas [s]."""

    def falling_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """What of that is less for more replicas, whatever they hold [s]."""

    def parts(self, place: int, row: int, schedule: int) -> dict[str, float]:
        """Named parts of one plan's time, which add up to it [s]."""

    def phases(self, place: int, row: int, schedule: int) -> dict[str, float]:
        """Computing and exposed communication of each phase, of layers that run in three [s]."""


Evaluator = Callable[[Setting, CollectiveNetwork, PlanSpace, LayerTable, Floats | None], SpaceTerms]
"""Setting, network, plans, times of their layers, and the update where it counts [s]."""


@cache
def evaluator_of(name: str) -> Evaluator:
    """What iteration models of this evaluator are timed by, of this package or of an entry point.

    Raises
    ------
    InputError
        If there is none of this name.
    """
    if name in ("calibrated", "dated"):
        return CalibratedTerms.of
    if name == "layers":
        from netplan.performance.iteration import IterationTerms  # noqa: PLC0415 - advice has another

        return IterationTerms.of
    plugs = added("netplan.evaluators")
    check_name("evaluator of an iteration model", name, (*EVALUATORS, *sorted(plugs)))
    evaluator: Evaluator = plugs[name].load()
    return evaluator


def terms_of(
    setting: Setting,
    network: CollectiveNetwork,
    space: PlanSpace,
    table: LayerTable,
    update_s: Floats | None = None,
) -> SpaceTerms:
    """Terms of the times of all plans, as the iteration model counts them."""
    run = setting.training.calibrated
    usual = "layers" if run is None else "dated" if run.dated else "calibrated"
    evaluator = evaluator_of(setting.assumptions.evaluator or usual)
    return evaluator(setting, network, space, table, update_s)


def evaluate_space(
    setting: Setting,
    network: CollectiveNetwork,
    space: PlanSpace,
    there: Collection[Part] = ORDER,
    table: LayerTable | None = None,
) -> "Evaluation":
    """Compute what many plans share, and of single plans all there is.

    Parts that are not ``there`` lie in the local memory, whatever room it has. A ``table`` has the
    layers where they are known; nothing spills then.
    """
    groups = LayerGroups.of(network, space.layer_placements, space.sharding_layer)
    table = table or layer_table(setting, space.sharding, groups)
    if setting.by_stack:
        return _evaluate_held(setting, network, space, table)
    memory = memory_of(setting, space.runs, table)
    spilled = Spilled.of(setting, memory).keeping(there)
    if space.single and spilled.plans.any():
        spill = spilled.traffic(space.runs.totals, table.repetition, space.runs.sharding)
        table = layer_table(replace(setting, spill=spill), space.sharding, groups)
    update_s = spilled.update_s(table.repetition)
    terms = terms_of(setting, network, space, table, update_s)
    return Evaluation(setting, network, space, terms, memory, spilled)


def _evaluate_held(
    setting: Setting, network: CollectiveNetwork, space: PlanSpace, table: LayerTable
) -> "Evaluation":
    """The same of single plans whose memory stacks say, on the first rung of the setting."""
    runs, rung = space.runs, setting.rungs[0]
    run = real(runs.microbatches), real(runs.interleave)
    sizes = sizes_of(setting, runs.totals, space.sharding.take(runs.sharding), *run)
    none = np.zeros(len(run[0]))
    layers = setting.options.offload_layers or 0
    held = setting.stack_memory.held(
        sizes, recompute=rung.recompute, zero=rung.zero, offload_layers=layers
    )
    fullest = table.repetition.fullest(runs.stages, run[1])
    again = none + (rung.recompute.block or layers)
    first, stages = np.zeros(len(none), np.int64), real(runs.stages)
    shares = recomputed_shares(setting, first, again, fullest, stages)
    redone = table.redoing(runs.sharding, shares)
    memory = Memory(held.weights, held.gradients, held.optimizer, held.activations, held.buffers)
    terms = terms_of(setting, network, space, redone)
    spilled, kept = Spilled.of(setting, memory), (sizes, held)
    return Evaluation(setting, network, space, terms, memory, spilled, kept)


def bar_of(setting: Setting, levels: Sequence[Level], plan: Plan) -> ErrorBar | None:
    """How far the time of a plan may be off.

    Parameters
    ----------
    setting
        What is trained, and what of the plan was given.
    levels
        Of the fabric, innermost first.
    plan
        The plan.

    Returns
    -------
    ErrorBar or None
        None where the iteration model says nothing of its error.
    """
    run = setting.training.calibrated
    if setting.training.dated is not None:
        return dated_bar(setting, levels, plan)
    if run is not None:
        return error_bar(run, setting.transformer, plan.placement, plan.microbatch)
    return transferred_bar(setting)


class Evaluation(Struct, frozen=True, eq=False):
    """The plans of a space with their times and memory, whole ones and the best of all."""

    setting: Setting
    network: CollectiveNetwork
    space: PlanSpace
    terms: SpaceTerms
    memory: Memory
    spilled: Spilled
    kept: tuple[PlanSizes, Held] | None = None  # what stacks say of it

    @staticmethod
    def of(
        setting: Setting,
        levels: tuple[Level, ...],
        space: PlanSpace,
        table: LayerTable | None = None,
    ) -> "Evaluation":
        """Compute what many plans share, but for layers that are known."""
        return evaluate_space(setting, setting.network(levels), space, table=table)

    @property
    def seconds(self) -> Floats:
        """Times of a space of single plans [s]."""
        index = np.arange(len(self.memory.weights))
        return self.terms.seconds(index, index, index)

    def plan_time(self, place: int, schedule: int) -> PlanTime:
        """One plan with its parts and memory."""
        if not self.space.single and self.spilled.plans[schedule]:
            alone = self.space.plans(np.array([place]), np.array([schedule]))
            return evaluate_space(self.setting, self.network, alone).plan_time(0, 0)
        row = int(self.space.row(place, schedule))
        parts = self.terms.parts(place, row, schedule)
        seconds = sum(parts.values())
        plan = self._plan(place, row, schedule)
        training, work = self.setting.training, plan.applied_to(self.setting).flops
        peak = plan.placement.cluster * training.flops_per_s * seconds
        memory, index = None, slice(schedule, schedule + 1)
        if self.kept is not None:  # stacks say what it holds
            sizes, held = self.kept
            memory = plan_memory(self.setting, sizes.take(index), held.take(index))
        return PlanTime(
            plan=plan,
            iteration_time_s=seconds,
            breakdown_s=parts,
            memory_bytes=float(self.memory.total[schedule]),
            mfu=work.model / peak,
            hfu=work.hardware / peak,
            strategy=self.setting.strategy,
            memory_parts_bytes=self.memory.part(schedule),
            memory_tiers_bytes=self.spilled.parts(schedule) if training.expanded else None,
            phases_s=self.terms.phases(place, row, schedule),
            error=bar_of(self.setting, self.network.levels, plan),
            memory=memory,
            growth=training.dated.growth(plan.gpus) if training.dated else None,
        )

    def _plan(self, place: int, row: int, schedule: int) -> Plan:
        schedules = self.space.schedules
        # The same number, a whole one as such.
        number = schedules.microbatch[schedule].item()
        plan = Plan(
            placement=self.space.placements.placement(place),
            microbatch=int(number) if number == int(number) else number,
            microbatches=int(schedules.microbatches[schedule]),
            interleave=int(schedules.interleave[schedule]),
            panels=int(self.space.sharding.panels[row]),
            folded=self.space.sharding.folded(row) if self.setting.folds_experts else None,
        )
        if not self.setting.by_stack:
            return plan
        rung = self.setting.rungs[0]
        return given_to(
            plan, rung, rung.recompute.block or self.setting.options.offload_layers or 0
        )

    def best(self, top: int) -> tuple[list[tuple[int, int]], int]:
        """Best plans as (placement, schedule), equally fast ones in order, and how many fit."""
        memory, training = self.memory.total, self.setting.training
        fits = memory <= training.tiers_bytes
        ranked: list[tuple[float, int, int]] = []
        feasible = 0
        for place, schedule in self.space.pairs(memory <= training.room_bytes, CHUNK_PLANS):
            feasible += int(fits[schedule].sum())
            seconds = self.terms.seconds(place, self.space.row(place, schedule), schedule)
            limit = ranked[-1][0] if len(ranked) == top else inf
            seconds = self._with_spilled(place, schedule, seconds, top, limit)
            chosen = np.arange(len(seconds))
            if len(seconds) > top:  # all that tie with the last of the smallest, in order
                last_s = np.partition(seconds, top - 1)[top - 1] if top > 1 else seconds.min()
                chosen = np.flatnonzero(seconds <= last_s)
                chosen = chosen[np.argsort(seconds[chosen], kind="stable")][:top]
            chosen = chosen[seconds[chosen] < inf]
            ranked += [(float(seconds[i]), int(place[i]), int(schedule[i])) for i in chosen]
            ranked = sorted(ranked)[:top]
        return [(place, schedule) for _, place, schedule in ranked], feasible

    def _with_spilled(
        self, place: Ints, schedule: Ints, least_s: Floats, top: int, limit: float
    ) -> Floats:
        """Times of plans; of those that spill only while they may be among the best, else inf [s].

        Their layers are timed plan by plan, since what spills depends on the schedule.
        """
        spilled = self.spilled
        spills = np.flatnonzero(spilled.plans[schedule])
        if not len(spills):
            return least_s
        seconds = least_s.copy()
        seconds[spills] = inf
        order = spills[np.argsort(least_s[spills], kind="stable")]
        for first in range(0, len(order), SPILLED_PLANS):
            some = order[first : first + SPILLED_PLANS]
            if spilled.slower >= 0:  # else what does not spill is no least time
                best = np.partition(seconds, top - 1)[top - 1] if top <= len(seconds) else inf
                some = some[least_s[some] <= ROUNDING * min(limit, float(best))]
            if not len(some):
                break
            alone = self.space.plans(place[some], schedule[some])
            seconds[some] = evaluate_space(self.setting, self.network, alone).seconds
        return seconds
