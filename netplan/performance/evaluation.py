"""Times and memory of all plans of a space: what many of them share is computed once.

Memory comes first, as it depends on the schedule alone; it says what spills into an expanded memory
(`netplan.performance.memory`), and so how long operations take, in layers
(`netplan.performance.compute`) and iterations (`netplan.performance.iteration`). What makes
iterations of layers keeps to :class:`Terms`, and may come from another package by an entry point.

Error bars under software of a date are of the model's class. A bar is the 5th to the 95th
percentile of measured over predicted times of runs that were predicted by fits without their source
or release. It counts where stack and accelerator have such runs and the plan has nothing that none
of them has; a recipe that is taken from the date widens it. Anything else is ``transferred``: the
bar of runs that were predicted by fits without their model, as many times less as more. ``netplan
verify --bars`` makes all of them anew.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from math import inf
from typing import Protocol

import numpy as np
from msgspec import Struct

from netplan.added import added
from netplan.arrays import Floats, Ints, real
from netplan.inputs.choices import MemoryPart as Part
from netplan.levels import Level
from netplan.performance.calibrated_run import CalibratedRun, DatedDomain, Factors
from netplan.performance.calibrated_terms import CalibratedTerms
from netplan.performance.compute import LayerGroups, LayerTable, layer_table
from netplan.performance.dated.run import DatedRun, kind_of
from netplan.performance.error_bars import Basis, ErrorBar, error_bar
from netplan.performance.ladder import given_to, plan_memory, shares_of, sizes_of
from netplan.performance.memory import Memory, Spilled, memory_of
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.setting import Setting, check_name
from netplan.performance.space import PlanSpace
from netplan.performance.stack_memory import Held, PlanSizes
from netplan.performance.tiers import ORDER
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork
from netplan.workloads.program import SHARDED_WEIGHTS

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


class Terms(Protocol):
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


Evaluator = Callable[[Setting, CollectiveNetwork, PlanSpace, LayerTable, Floats | None], Terms]
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
) -> Terms:
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
    shares = shares_of(setting, first, again, fullest, stages)
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
    terms: Terms
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
            placement=self.space.placements.at(place),
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


CALIBRATED: Basis = "calibrated"
TRANSFERRED: Basis = "transferred"
PRESET = "recipe taken from the software date"


def dated_bar(setting: Setting, levels: Sequence[Level], plan: Plan) -> ErrorBar | None:
    """The error bar of a plan's iteration time; None without software of a date.

    Parameters
    ----------
    setting
        What is trained, and what of the plan was given.
    levels
        Of the fabric.
    plan
        The plan.

    Returns
    -------
    ErrorBar or None
        Ends as multiples of the time [1], whose error they are, and every reason why they are no
        narrower.
    """
    run = setting.training.calibrated
    if run is None or run.dated is None or run.part.errors.dated is None:
        return None
    errors, dated = run.part.errors, run.dated
    tpu, known = dated.generation == "tpu", run.part.errors.dated
    bar = known.of(dated.kind, tpu=tpu)
    reasons = (*run.untried, *_untried(setting, run, dated, known.domain, levels, plan))
    whole, reasons = run.bar_of(dated.kind, bar.scored, bar.wide, reasons)
    basis = TRANSFERRED if reasons else CALIBRATED
    options = setting.options
    searched = options.recomputation is None or options.kept_by_search
    if not reasons and bar.preset is not None and (dated.recipe.from_date or searched):
        if run.held_out:  # as much wider as that of published runs is
            low, high = bar.preset.low / bar.scored.low, bar.preset.high / bar.scored.high
            whole = Factors(low=min(1.0, whole.low * low), high=max(1.0, whole.high * high))
        else:
            whole = bar.preset
        reasons = (PRESET,)
    kind = f"tpu-{dated.kind}" if tpu else dated.kind
    return ErrorBar(whole, errors.own, errors.repeat, basis, reasons, errors.chosen, kind)


def transferred_bar(setting: Setting) -> ErrorBar | None:
    """The bar of an iteration model that was fitted to no run, where its file has one.

    Parameters
    ----------
    setting
        What is trained.

    Returns
    -------
    ErrorBar or None
        Transferred, of the model's class.
    """
    errors, model = setting.assumptions.errors, setting.training.model
    if errors is None or model.family != "transformer":
        return None
    kind = kind_of(setting.transformer)
    if kind == "dense" and setting.experts is not None:
        kind = "moe"
    wide: float = getattr(errors, kind)
    whole = Factors(low=1 / wide, high=wide)
    why = f"iteration model {setting.assumptions.name} was fitted to kernels, not to runs"
    if kind != "dense" and not setting.transformer.unknown:
        why += "; calibrated has formulas and bars for experts"
    return ErrorBar(whole, whole, 0.0, TRANSFERRED, (why,), 1.0, kind)


def _untried(
    setting: Setting,
    run: CalibratedRun,
    dated: DatedRun,
    tried: DatedDomain,
    levels: Sequence[Level],
    plan: Plan,
) -> Iterator[str]:
    """What no scored run has."""
    model, name = setting.transformer, run.stack.name
    if dated.kind != "dense" and name in tried.dense_stacks:
        yield f"no run of stack {name} with experts was scored"
    kinds = {run.network_kind or level.network_kind for level in levels[1:] if level.size > 1}
    for kind in sorted(kinds - {*tried.networks}) if dated.generation != "tpu" else ():
        yield f"no run on a network of {kind} was scored"
    if dated.precision == "mxfp8" and dated.generation != "blackwell":
        yield f"no run in mxfp8 was scored on {run.accelerator} or its like"
    yield from _untried_experts(setting, dated, tried, levels)
    gathers = (setting.zero_stage if plan.zero is None else plan.zero) == SHARDED_WEIGHTS
    if gathers and setting.experts is not None and dated.generation != "tpu":
        yield "no run with experts under ZeRO 3 on GPUs was published"
    if dated.kind == "hybrid" and model.name not in tried.hybrids:
        yield f"no run of {model.name} was scored, and hybrids differ"
    windows = model.window_attention
    if model.value_head_size or not model.causal or (windows and windows.own_heads):
        yield "no run with such attention was scored"
    if not tried.least_sequence <= model.sequence_length <= tried.most_sequence:
        yield (
            f"sequences of {model.sequence_length:,} tokens, tried were"
            f" {tried.least_sequence:,} to {tried.most_sequence:,}"
        )
    if plan.gpus > tried.most_gpus:
        yield f"{plan.gpus:,} GPUs, tried were up to {tried.most_gpus:,}"
    if dated.kind == "hybrid" and plan.pipeline > 1:
        yield "no run of a hybrid with several stages was scored"


def _untried_experts(
    setting: Setting, dated: DatedRun, tried: DatedDomain, levels: Sequence[Level]
) -> Iterator[str]:
    """What of its experts no scored run has."""
    experts = setting.experts
    if experts is None:
        return
    if not tried.least_experts <= experts.count <= tried.most_experts:
        yield (
            f"{experts.count:,} experts, tried were {tried.least_experts:,} to"
            f" {tried.most_experts:,}"
        )
    if not tried.least_per_token <= experts.per_token <= tried.most_per_token:
        yield (
            f"{experts.per_token:,} experts a token, tried were {tried.least_per_token:,} to"
            f" {tried.most_per_token:,}"
        )
    if setting.training.imbalance != 1 or experts.load is not None:
        yield "published runs balance their routers by force"
    if experts.capacity_factor is not None:
        yield "runs that drop tokens were not scored"
    if any(level.same_rank for level in levels) and dated.recipe.exchanges:
        yield "no run with experts on a rail-only network was published"
