"""The exhaustive plan search: every parallel plan of a model on the levels of a fabric.

Nothing is sampled: all plans that the rules allow are counted, all that fit the memory are timed
(in the free space those that no bound rules out, `netplan.performance.free_search`), and so the
best plan is proven best. Times and memory of all plans of a space are arrays. Memory depends on the
schedule only, so plans that do not fit are counted and left out before any time is computed. The
others are worked through in chunks that stay in the processor's cache.

Where training software says what memory holds, what a plan keeps is searched, too: every cut on
every rung of a ladder (`netplan.performance.ladder`), with the optimizer's states sharded, and
without stages with the weights sharded, too (`_varied_settings`). Plans that fit for sure come
first; those that may fit behind them, and beside them where one is faster. Plans within 1 % of the
fastest are put in the order in which teams would take them.

In the free space a plan fills the levels from the inside: all members of the inner ones, and of one
level a divisor of its members, or as many as a power of two divides; in that of powers of two such
parts alone. The others stay idle: a part of the cluster is faster than the whole where all that it
sends stays inside a fast level, such as one HB domain; then a GPU has more of the work. Otherwise,
and in the exact space, a plan has all GPUs. A grid of two dimensions is tried with every divisor of
the members of every level.

Two spaces are small. A model that lies on all GPUs alike asks only on how many of them it lies.
Where degrees are powers of two, as COMET has them, tensor x data degrees are all GPUs, without
pipeline, context or experts; a replica accumulates gradients over any number of equal microbatches
that make up its share of the batch, of which one that is no whole number of sequences is one.
Groups fill the levels from the inside, tensor before data.
Source: Kadiyala et al., COMET (arXiv:2211.16648), Sec. V-A, which has one microbatch.
"""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, product
from math import inf, prod
from operator import attrgetter, itemgetter
from typing import get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints, distinct_values
from netplan.errors import InfeasibleError, InputError, NoPlanError, NoRoomError
from netplan.inputs.choices import AnyStrategy, Mode, Strategy
from netplan.levels import Level, gpu_count
from netplan.performance.evaluation import Evaluation
from netplan.performance.free_search import FreePlans, best_free_plans
from netplan.performance.ladder import NEAR, preference
from netplan.performance.plan import Plan, PlanTime, SearchResult
from netplan.performance.setting import (
    DEFAULT_OPTIONS,
    Fixed,
    Options,
    Setting,
    TrainedModel,
    check_setting,
)
from netplan.performance.shortlist import Bound
from netplan.performance.space import degree_limits, enumerate_plans, listed_plans, placements_of
from netplan.performance.usual_plan import LEAST_TOKENS, UsualPlans
from netplan.progress import with_progress
from netplan.records import replace
from netplan.traffic.placement import DATA, PIPELINE, TENSOR, Degrees, Placement, divisors
from netplan.units import counted, si
from netplan.workloads.models import Model
from netplan.workloads.program import SHARDED_WEIGHTS
from netplan.workloads.transformer import experts_of

# What its page of the documentation shows: plans are at home in `netplan.performance.plan`.
__all__ = ["Plan", "PlanTime", "SearchResult", "evaluate_plan", "search_largest", "search_plans"]

NEAREST = 1.05
"""Plans within this of the least memory are tried where none is refused and none may fit [1]."""
LISTED_PLANS = 32
"""Plans of small spaces that are evaluated together: they may have thousands of steps each [1]."""


def search_plans(  # noqa: PLR0913 - what a search may be asked
    training: TrainedModel,
    levels: Sequence[Level],
    *,
    strategy: AnyStrategy = "1d",
    mode: Mode = "corrected",
    options: Options = DEFAULT_OPTIONS,
    top: int = 1,
    tight: bool = True,
) -> SearchResult:
    """Find the best plans of the whole space on these levels.

    Parameters
    ----------
    training
        Model, batch, GPU and iteration model.
    levels
        The fabric, innermost level first. Plans use all its GPUs, unless the iteration model's
        space is free.
    strategy
        How layers are cut: ``1d``, ``2d``, ``summa``, or ``all`` of them.
    mode
        ``corrected``, or ``published-code`` with the slips of the 4D model's code.
    options
        Recomputation, experts, ZeRO stage, interleaving.
    top
        Plans to return, best first [1].
    tight
        Whether plans that may fit are sought beside those that do; they are in any case where none
        fits for sure.

    Returns
    -------
    SearchResult
        Plans with time [s] and memory [B], best first, and the size of the space [1].

    Raises
    ------
    InputError
        If a name is unknown or a choice does not fit the model.
    InfeasibleError
        If no plan divides model and batch over these GPUs, or none fits the memory (then the
        message says by how much the nearest one misses).

    Examples
    --------
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> b200, fourd = ACCELERATORS.load("b200"), ITERATION_MODELS.load("4d")
    >>> training = TrainedModel.make(b200, MODELS.load("gpt-1t"), fourd)
    >>> levels = (Level("switch", 8, 900e9, 0, 2.5e-6), Level("switch", 2048, 100e9, 0, 5e-6))
    >>> found = search_plans(training, levels, mode="published-code")
    >>> found.enumerated, found.feasible, round(found.time_s, 4)
    (2027, 1340, 3.2333)
    """
    start = time.perf_counter()
    check_setting(strategy, mode)
    if top < 1:
        raise InputError(f"a search returns at least 1 plan, got {top}")
    levels = tuple(levels)
    asked = PlanSearch(training, strategy, mode, options)
    settings = asked.settings
    faster: PlanTime | None = None
    if training.stack_memory is not None:
        plans, faster, enumerated, feasible, least_bytes = _search_held(
            settings, levels, top, tight=tight
        )
    else:
        strategies = with_progress(
            settings, lambda setting: f"plans of strategy {setting.strategy}"
        )
        spaces = [_search_one(setting, levels, top) for setting in strategies]
        plans_of, counts, fitting, least = zip(*spaces, strict=True)
        enumerated, feasible, least_bytes = sum(counts), sum(fitting), min(least)
        plans = sorted(chain(*plans_of), key=attrgetter("iteration_time_s"))
    if not enumerated:
        raise NoPlanError(_no_plan(settings, levels))
    if not plans:
        if training.stack_memory is None:
            raise InfeasibleError(_no_room(asked, levels, least_bytes))
        raise _no_room_held(asked, levels, least_bytes)
    seconds = time.perf_counter() - start
    result = SearchResult(tuple(plans[:top]), enumerated, feasible, seconds, levels, settings)
    return replace(result, tight=faster)


def search_largest(  # noqa: PLR0913 - as above
    training: TrainedModel,
    levels: Sequence[Level],
    *,
    strategy: AnyStrategy = "1d",
    mode: Mode = "corrected",
    options: Options = DEFAULT_OPTIONS,
    top: int = 1,
    tight: bool = True,
) -> SearchResult:
    """Search on as many GPUs as some plan can use, whole members of the outermost level.

    Parameters
    ----------
    training, levels, strategy, mode, options, top, tight
        As of :func:`search_plans`.

    Returns
    -------
    SearchResult
        As of :func:`search_plans`; its levels are those that the plans fill.

    Raises
    ------
    InputError
        As of :func:`search_plans`.
    InfeasibleError
        If no plan divides model and batch over any part of the fabric, or none fits the memory.
    """
    search = partial(
        search_plans, training, strategy=strategy, mode=mode, options=options, top=top, tight=tight
    )
    try:
        return search(levels)
    except NoPlanError:
        settings = PlanSearch(training, strategy, mode, options).settings
        setting = settings[0]
        if levels[-1].kind == "ring" or setting.spread_model is not None or setting.powers_of_two:
            raise
    return search(_largest_part(settings, tuple(levels)))


class PlanSearch(Struct, frozen=True):
    """The search for the best plan of one training run, to be put to many fabrics.

    Parameters
    ----------
    training, strategy, mode, options
        As in :func:`search_plans`.
    """

    training: TrainedModel
    strategy: AnyStrategy = "1d"
    mode: Mode = "corrected"
    options: Options = DEFAULT_OPTIONS

    @property
    def setting(self) -> Setting:
        """What is searched, of strategy ``1d`` and without options."""
        return Setting(self.training, mode=self.mode)

    @property
    def dense(self) -> bool:
        """Whether no message goes from all to all, in one chunk: a transformer without experts."""
        # The bounds are proven for one chunk.
        return self.training.assumptions.communication.chunks == 1 and not self._to_all

    @property
    def _to_all(self) -> bool:
        """Whether messages may go from all to all, as tokens of experts do."""
        model = self.training.model
        return not isinstance(model, Model) or bool(experts_of(model, self.options.variant))

    def best_on_subset(self, levels: tuple[Level, ...]) -> SearchResult | str | None:
        """Best plan on a fabric's levels, or why there is none; None without levels.

        Equal levels are searched once.
        """
        if not levels:
            return None
        if not self._to_all:  # who forwards for other rails matters to no other plan
            levels = tuple(replace(level, same_rank=False) for level in levels)
        try:
            return _search(self, levels)
        except InfeasibleError as error:
            return f"{error}."

    def best_on_all(self, levels: Sequence[Level]) -> SearchResult:
        """Best plan on all GPUs of some levels; errors as :func:`search_plans`."""
        return search_plans(
            *(self.training, levels),
            strategy=self.strategy,
            mode=self.mode,
            options=self.options,
            tight=False,
        )

    def fits_on_all(self, levels: Sequence[Level]) -> bool:
        """Whether some plan fits on all GPUs of some levels.

        Where none does, what would is not sought, which takes several times as long.
        """
        if self.training.stack_memory is not None:
            return _best_of(self, tuple(levels)) is not None
        return _fits(self, self.options, tuple(levels))

    @property
    def settings(self) -> tuple[Setting, ...]:
        """One setting a strategy; ``all`` means those that iteration model and variant cover."""
        training, options = self.training, self.options
        if not isinstance(training.model, Model):  # nothing of it is cut in one of several ways
            return (Setting(training, "1d", self.mode, options),)
        experts = experts_of(training.model, options.variant)
        if experts is None:
            options.check_experts(1)
        else:
            options.check_experts(experts.count, experts.load)
        if training.stack_memory is not None:
            return self._varied_settings(training.model.sequence_length)
        if self.strategy != "all":
            return (Setting(training, self.strategy, self.mode, options),)
        covered = get_args(Strategy)
        panels = not (options.variant.sparse or training.model.unlike)
        if not panels or training.calibrated is not None:  # it has no formulas for panels
            covered = tuple(name for name in covered if name != "summa")
        if training.assumptions.compute.operations != "detailed":
            covered = ("1d",)
        return tuple(Setting(training, name, self.mode, options) for name in covered)

    def _varied_settings(self, length: int) -> tuple[Setting, ...]:
        """Where stacks say what memory holds: optimizer states sharded, and on one stage weights.

        Context parallelism is searched, where sequences are long enough to be cut.
        """
        strategy = self.strategy
        cut = strategy in ("1d", "all") and length >= 2 * LEAST_TOKENS
        name: Strategy = "2d" if cut or strategy == "all" else strategy
        options = replace(self.options, across_domains=strategy == "all")
        settings = [Setting(self.training, name, self.mode, options)]
        whole = settings[0].zero_stage < SHARDED_WEIGHTS
        if whole and options.zero_stage is None and options.fixed.pipeline in (None, 1):
            one_stage = replace(options.fixed, pipeline=1)
            sharded = replace(options, zero_stage=SHARDED_WEIGHTS, fixed=one_stage)
            settings.append(Setting(self.training, name, self.mode, sharded))
        return tuple(settings)


# A study compares many fabrics whose levels are the same: radix and prices do not touch them.
@lru_cache(maxsize=4096)
def _search(search: PlanSearch, levels: tuple[Level, ...]) -> SearchResult:
    """Best plan on some levels."""
    return search_largest(
        *(search.training, levels),
        strategy=search.strategy,
        mode=search.mode,
        options=search.options,
        tight=False,
    )


_StrategyResult = tuple[list[PlanTime], int, int, float]
"""Best plans of one strategy, plans in its space, those that fit [1], and the least memory [B]."""


def _search_one(setting: Setting, levels: tuple[Level, ...], top: int) -> _StrategyResult:
    """Best plans of one strategy."""
    if setting.spread_model is not None or setting.powers_of_two:
        return _search_listed(setting, levels, top)
    if setting.free:
        return _search_free(setting, levels, top)
    space = enumerate_plans(setting, [level.size for level in levels])
    if not space.plan_count:
        return [], 0, 0, inf
    evaluation = Evaluation.of(setting, levels, space)
    best, feasible = evaluation.best(top)
    plans = [evaluation.plan_time(place, schedule) for place, schedule in best]
    return plans, space.plan_count, feasible, float(evaluation.memory.total.min())


def _search_free(setting: Setting, levels: tuple[Level, ...], top: int) -> _StrategyResult:
    """Best plans of one strategy where batch, layers and GPUs need not divide."""
    free_plans = best_free_plans(setting, levels, top)
    plans: list[PlanTime] = []
    if free_plans.plans:
        space, table = listed_plans(free_plans.plans), None
        if free_plans.layers is not None:
            sharding, table, row = free_plans.layers
            space = replace(space, sharding=sharding, first_sharding=row, single=False)
        evaluation = Evaluation.of(setting, levels, space, table)
        plans = [evaluation.plan_time(number, number) for number in range(len(free_plans.plans))]
    return plans, free_plans.cuts, free_plans.feasible, free_plans.least_bytes


_FoundHeld = tuple[list[PlanTime], PlanTime | None, int, int, float]
"""Best plans, the first of faster ones that may fit, plans in the space, those that fit [1], and
the least memory [B]."""


def _search_held(
    settings: Sequence[Setting], levels: tuple[Level, ...], top: int, *, tight: bool
) -> _FoundHeld:
    """Best plans where stacks say what memory holds: those that fit, then those that may."""
    sure_bytes, *tight_bytes = settings[0].training.peaks_bytes
    sure, spaces = _best_held(settings, levels, top, Bound(sure_bytes))
    plans, faster, least_bytes = sure[:top], None, [space.least_bytes for space in spaces]
    for peak_bytes in tight_bytes:
        if plans and (peak_bytes == inf or not tight):
            break
        if peak_bytes == inf and min(least_bytes) < inf:  # the nearest to what there is
            peak_bytes = NEAREST * min(least_bytes)  # noqa: PLW2901 - it stands for any amount
        best_s = plans[0][0] if plans else inf
        bound = Bound(peak_bytes, seconds=best_s, above_bytes=sure_bytes)
        more, others = _best_held(settings, levels, top, bound)
        least_bytes += [space.least_bytes for space in others]
        sooner = [entry for entry in more if entry[0] < best_s < inf]
        faster = _first_preferred(sooner)[0] if sooner else None
        plans = [*plans, *more][:top]
    timed = _evaluated(levels, [*plans, *([faster] if faster else [])])
    first = timed.pop() if faster else None
    enumerated = sum(space.cuts for space in spaces)
    feasible = sum(space.feasible for space in spaces)
    return timed, first, enumerated, feasible, min(least_bytes)


def _evaluated(levels: tuple[Level, ...], plans: Sequence["_Timed"]) -> list[PlanTime]:
    """Times and memory of plans, those that keep the same together."""
    alike: dict[object, list[int]] = {}
    for index, (_, setting, plan) in enumerate(plans):
        layers = plan.pipeline if plan.recompute and plan.recompute.block else 1
        kept = (id(setting), plan.recompute, plan.zero, plan.offload_layers, layers)
        alike.setdefault(kept, []).append(index)
    timed: dict[int, PlanTime] = {}
    for some in alike.values():
        _, setting, plan = plans[some[0]]
        listed = listed_plans([plans[index][2] for index in some])
        evaluation = Evaluation.of(plan.applied_to(setting), levels, listed)
        timed |= {index: evaluation.plan_time(row, row) for row, index in enumerate(some)}
    return [timed[index] for index in range(len(plans))]


_Timed = tuple[float, Setting, Plan]
"""Seconds, the setting under which a plan was found, and it."""


def _best_held(
    settings: Sequence[Setting], levels: tuple[Level, ...], top: int, bound: Bound
) -> tuple[list[_Timed], list[FreePlans]]:
    """Best plans of all settings in one order, and what there is of each."""
    plans, spaces = list[_Timed](), list[FreePlans]()
    for setting in with_progress(
        settings, lambda setting: f"plans under ZeRO {setting.zero_stage}"
    ):
        if plans:  # those of other settings are to be faster, or nearly so
            times = sorted(seconds for seconds, _, _ in plans)
            slowest_s = times[top - 1] if len(times) >= top else inf
            limit_s = min(bound.seconds, max(slowest_s, NEAR * times[0]))
            bound = replace(bound, seconds=limit_s)
        space = best_free_plans(setting, levels, top, bound)
        spaces.append(space)
        times_of = zip(space.seconds, space.plans, strict=True)
        plans += [(seconds, setting, plan) for seconds, plan in times_of]
    return _first_preferred(plans), spaces


def _first_preferred(plans: list[_Timed]) -> list[_Timed]:
    """The fastest first, but before all that is within 1 % of them what teams would run."""
    ordered = sorted(plans, key=itemgetter(0))
    near = [entry for entry in ordered if entry[0] <= NEAR * ordered[0][0]]
    rest = ordered[len(near) :]
    near.sort(key=lambda entry: preference(entry[2], entry[1].layers))
    return [*near, *rest]


def best_usual(result: SearchResult) -> PlanTime | None:
    """The best plan that teams run, of those that fit for sure.

    Parameters
    ----------
    result
        A search where stacks say what memory holds.

    Returns
    -------
    PlanTime or None
        Time and its parts [s], memory and its parts [B]; None where no such plan fits, or no stack
        says what memory holds.
    """
    settings = [setting for setting in result.settings if setting.by_stack]
    if not settings:
        return None
    bound = Bound(settings[0].training.peaks_bytes[0], usual=True)
    plans, _ = _best_held(settings, result.levels, 1, bound)
    return evaluate_alone(plans[0][1], result.levels, plans[0][2]) if plans else None


def unusual_of(result: SearchResult) -> tuple[str, ...]:
    """What of the best plan of a search no team does, a noun with its numbers each."""
    best, setting = result.best, result.setting_of(result.best)
    usual = UsualPlans.of(setting, result.levels[0].size)
    return usual.unusual(best.plan, setting.zero_stage)


def evaluate_alone(setting: Setting, levels: tuple[Level, ...], plan: Plan) -> PlanTime:
    """One plan, with what it keeps, as a setting times it.

    Parameters
    ----------
    setting
        Under which it was found.
    levels
        Those of the fabric.
    plan
        The plan.

    Returns
    -------
    PlanTime
        Time and its parts [s], memory and its parts [B].
    """
    return Evaluation.of(plan.applied_to(setting), levels, listed_plans([plan])).plan_time(0, 0)


def _search_listed(setting: Setting, levels: tuple[Level, ...], top: int) -> _StrategyResult:
    """Best plans of a small space: of powers of two, or of a model that lies on all GPUs alike."""
    ways = power_plans if setting.spread_model is None else spread_plans
    listed, plans, feasible = ways(setting, levels), list[PlanTime](), 0
    least_bytes, room = inf, setting.training.room_bytes
    for first in range(0, len(listed), LISTED_PLANS):
        some = listed_plans(listed[first : first + LISTED_PLANS])
        evaluation = Evaluation.of(setting, levels, some)
        held = evaluation.memory.total
        least_bytes = min(least_bytes, float(held.min()))
        feasible += int((held <= setting.training.tiers_bytes).sum())
        plans += [
            evaluation.plan_time(index, index) for index in np.flatnonzero(held <= room).tolist()
        ]
    return (
        sorted(plans, key=attrgetter("iteration_time_s"))[:top],
        len(listed),
        feasible,
        least_bytes,
    )


def _largest_part(settings: Sequence[Setting], levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """The fabric with as many members of its outermost level as some plan can use."""
    inner = prod(level.size for level in levels[:-1])
    used = distinct_values(
        np.concatenate([_products(setting, inner * levels[-1].size) for setting in settings])
    )
    for gpus in used[used % inner == 0][::-1].tolist():
        part = (*levels[:-1], replace(levels[-1], size=gpus // inner))
        sizes = [level.size for level in part]
        if any(
            placements_of(setting, sizes).count and enumerate_plans(setting, sizes).plan_count
            for setting in settings
        ):
            return part
    raise NoPlanError(_no_plan(settings, levels))


def _products(setting: Setting, gpus: int) -> Ints:
    """GPU counts, up to all, that degrees within their limits multiply to."""
    products = np.ones(1, dtype=np.int64)
    for limit, cap in zip(*degree_limits(setting, gpus), strict=True):
        degrees = np.arange(1, cap + 1) if limit == gpus else divisors(limit)
        products = distinct_values(np.multiply.outer(products, degrees))
        products = products[products <= gpus]
    return products


def _no_room(search: PlanSearch, levels: tuple[Level, ...], least_bytes: float) -> str:
    training = search.training
    miss = least_bytes - training.tiers_bytes
    room = "".join(f", {remedy}" for remedy in _remedies(search, levels))
    room += " or a larger memory" if training.expanded else " or an expanded memory"
    there = si(training.tiers_bytes, "B")
    if training.expanded is not None:
        local_memory = si(training.memory_bytes, "B")
        more = si(training.expanded.capacity_bytes, "B")
        there = f"{there} ({local_memory} and {more} expanded)"
    return (
        f"{training.model.name} fits on no plan: the nearest needs {si(least_bytes, 'B')} a GPU,"
        f" {si(miss, 'B')} more than the {there} there are: use more GPUs{room}"
    )


def _remedies(search: PlanSearch, levels: tuple[Level, ...]) -> Iterator[str]:
    """What else may be kept or sharded so that a plan fits, the least that does, as it is asked."""
    options = search.options
    if not isinstance(search.training.model, Model):
        return
    again = replace(options, variant=replace(options.variant, recompute="full"))
    every = {"--recompute full": again, "--zero 3": replace(options, zero_stage=SHARDED_WEIGHTS)}
    both = {"--recompute full with --zero 3": replace(again, zero_stage=SHARDED_WEIGHTS)}
    for remedies in (every, both):
        fitting = [text for text, then in remedies.items() if _fits(search, then, levels)]
        if fitting:
            yield from fitting
            return


def _fits(search: PlanSearch, options: Options, levels: tuple[Level, ...]) -> bool:
    """Whether some plan fits under other options."""
    settings = replace(search, options=options).settings
    return any(_search_one(setting, levels, 1)[0] for setting in settings)


def _no_room_held(
    search: PlanSearch, levels: tuple[Level, ...], least_bytes: float
) -> InfeasibleError:
    """Where stacks say what memory holds: of values that are given, what does not fit, and why."""
    training, options = search.training, search.options
    name, there = training.model.name, f"{training.usable_bytes / 1e9:.3g}"
    kept = (options.recomputation, options.zero_stage, options.offload_layers)
    more = "more GPUs of each HB domain" if options.use_per_domain else "more GPUs"
    sharded = replace(options, zero_stage=SHARDED_WEIGHTS)
    helps = sharded != options and _best_of(replace(search, options=sharded), levels)
    higher = ", or --zero 3" if helps else ""
    more += f"{', a' if higher else ', or a'} GPU with more memory{higher}"
    nearest = InfeasibleError(
        f"{name} fits on no plan: the nearest needs {si(least_bytes, 'B')} a GPU, and programs"
        f" see {there} GB of its memory: use {more}"
    )
    if not options.fixed.given and kept == (None, None, None):
        return nearest
    ignoring = replace(search, training=replace(training, ignore_memory=True))
    anyway = _best_of(ignoring, levels)
    if anyway is None or anyway.memory is None:
        raise TypeError("no stack says what memory holds")
    memory, plan = anyway.memory, anyway.plan
    held = (memory.states, memory.activations, memory.peak_bytes)
    states, activations, peak = (f"{float(f'{number / 1e9:.3g}'):,g}" for number in held)
    flying = "microbatch" if memory.in_flight == 1 else "microbatches"
    why = (
        f"{name} fits on no plan: of {plan.degrees} stage {memory.stage} of {plan.pipeline} needs"
        f" {peak} GB of {there} (states {states}, activations {activations}:"
        f" {memory.in_flight:.4g} {flying} of {counted(round(memory.layers), 'layer')})"
    )
    for change, options_then in _changes_of(options, plan):
        then = _best_of(replace(search, options=options_then), levels)
        if then is None:
            continue
        surely = "fits" if then.memory and then.memory.fits else "may fit"
        what = f"leave --fix out ({then.plan.degrees})"
        if change == "keeps":
            what = " ".join(_flags_of(then.plan, plan, options))
        return NoRoomError(f"{why}. Smallest change that {surely}: {what}")
    if not options.fixed.given:  # of all degrees the fastest, which is far from the nearest
        return nearest
    return InfeasibleError(f"{why}: use more GPUs, or a GPU with more memory")


def _best_of(search: PlanSearch, levels: tuple[Level, ...]) -> PlanTime | None:
    """The best plan of a search; None where there is none that fits."""
    plans = _search_held(search.settings, levels, 1, tight=False)[0]
    return plans[0] if plans else None


def _changes_of(options: Options, plan: Plan) -> Iterator[tuple[str, Options]]:
    """What may be kept otherwise of the same plan, the smaller changes first; then any plan."""
    degrees = ("tensor", "context", "expert", "data", "pipeline", "microbatch", "interleave")
    same = Fixed(**{name: getattr(plan, name) for name in degrees})
    held = replace(options, recomputation=None, offload_layers=None, fixed=same)
    if options.recomputation is not None or options.offload_layers is not None:
        yield "keeps", held
    if options.zero_stage is not None:
        yield "keeps", replace(held, zero_stage=None)
    yield "keeps", replace(held, zero_stage=SHARDED_WEIGHTS)
    if options.fixed.given:
        yield "degrees", replace(options, fixed=Fixed())


def _flags_of(plan: Plan, before: Plan, options: Options) -> Iterator[str]:
    """Flags of what a plan keeps otherwise than one before, where the search does not vary it."""
    if options.recomputation is not None and plan.recompute != before.recompute:
        yield f"--recompute {plan.recompute}"
    if plan.zero != before.zero:
        yield f"--zero {plan.zero}"
    if plan.offload_layers != before.offload_layers:
        yield f"--offload activations:{plan.offload_layers}"


def _no_plan(settings: Sequence[Setting], levels: Sequence[Level]) -> str:
    """Why no plan uses all GPUs: what their degrees must divide."""
    gpus = prod(level.size for level in levels)
    training = settings[0].training
    asked = settings[0].options.fixed
    fixed = asked.given if settings[0].folds_experts else settings[0].given
    graph = settings[0].graph_model
    group = (asked.expert or 1) * (asked.expert_tensor or 1)
    stage = gpus // (asked.pipeline or 1)
    if settings[0].folds_experts and not settings[0].free and stage % group:
        return (
            f"--fix expert={asked.expert or 1}: groups of {group:,} GPUs do not divide the"
            f" {stage:,} of a stage: give a divisor, or fewer stages"
        )
    if settings[0].folds_experts and stage < group:
        return (
            f"--fix expert={asked.expert or 1}: a group of {group:,} GPUs is more than the"
            f" {stage:,} of a stage: give fewer, fewer stages, or more GPUs"
        )
    if graph is not None and graph.chips > gpus:
        return (
            f"{graph.name} is cut for {graph.chips:,} chips, and there are {gpus:,}: give more GPUs"
            " or another file"
        )
    if fixed:
        given = ", ".join(f"{name} {value:,}" for name, value in fixed.items())
        reason = f"no plan of {training.model.name} on {gpus:,} GPUs has {given}: free one of them"
        allow = fixed.get("interleave", 1) > 1 and settings[0].interleave == "none"
        return f"{reason}, or allow interleaved schedules, --interleave any" if allow else reason
    if settings[0].free:
        return (
            f"no plan of {training.model.name} on {gpus:,} GPUs has a sequence for each: the batch"
            f" of {training.batch:,} must be no less than the expert degree: change one"
        )
    limits, _ = degree_limits(settings[0], gpus)
    return (
        f"no plan of {training.model.name} uses {gpus:,} GPUs: their number must be a product of"
        f" tensor, data and pipeline degrees that divide {limits[TENSOR]:,},"
        f" {limits[DATA]:,} (the batch) and {limits[PIPELINE]:,} (the layers): change the number of"
        " GPUs, the HB domain or the batch, or use strategy 2d"
    )


def evaluate_plan(
    training: TrainedModel,
    levels: Sequence[Level],
    plan: Plan,
    *,
    strategy: Strategy = "1d",
    mode: Mode = "corrected",
    options: Options = DEFAULT_OPTIONS,
) -> PlanTime:
    """Time and memory of one given plan, whether it fits or not.

    Parameters
    ----------
    training, levels, mode, options
        As of :func:`search_plans`.
    plan
        Degrees at every level of the fabric, and the schedule.
    strategy
        How layers are cut: ``1d``, ``2d`` or ``summa``.

    Returns
    -------
    PlanTime
        Iteration time and its parts [s], memory and its parts [B].

    Raises
    ------
    InputError
        If a name is unknown, or the plan has degrees for more or fewer levels.
    """
    check_setting(strategy, mode)
    given = len(plan.placement.levels)
    if given != len(levels):
        raise InputError(f"a plan has degrees at every level: got {given} for {len(levels)} levels")
    return evaluate_alone(Setting(training, strategy, mode, options), tuple(levels), plan)


def spread_plans(setting: Setting, levels: Sequence[Level]) -> list[Plan]:
    """All plans of such a model on some levels, the smallest first; none of a transformer.

    Examples
    --------
    A recommendation model in HB domains of 4, two of them: on 1, 2, 4 and 8 GPUs.

    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.records import replace
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import WORKLOADS
    >>> fourd = ITERATION_MODELS.load("4d")
    >>> free = replace(fourd, space=replace(fourd.space, divisibility="free"))
    >>> dlrm, b200 = WORKLOADS.load("dlrm-793b"), ACCELERATORS.load("b200")
    >>> setting = Setting(TrainedModel.make(b200, dlrm, free, batch=4096))
    >>> levels = Level("switch", 4, 900e9), Level("switch", 2, 50e9)
    >>> [(plan.expert, plan.microbatch) for plan in spread_plans(setting, levels)]
    [(1, 4096), (2, 2048), (4, 1024), (8, 512)]
    """
    model = setting.spread_model
    if model is None:
        return []
    sizes = tuple(level.size for level in levels)
    fixed, (first, *second) = setting.options.fixed.given, model.spread
    plans = []
    parts = setting.free or setting.powers_of_two
    for used in _parts(sizes) if parts else [sizes]:
        if setting.powers_of_two and prod(used).bit_count() > 1:
            continue
        ways = []  # of each level: over one dimension, or as a grid of two
        for members in used:
            firsts = divisors(members).tolist() if second else [members]
            grids = ({first: n, **dict.fromkeys(second, members // n)} for n in firsts)
            ways.append([Degrees(**grid) for grid in grids])
        for degrees in product(*ways):
            placement = Placement(degrees, sizes if parts else None)
            totals = placement.totals
            if all(getattr(totals, name) == value for name, value in fixed.items()):
                batch = -(-setting.training.batch // totals.expert)
                plans.append(Plan(placement, microbatch=batch, microbatches=1))
    return plans


def _parts(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Members of each level that work."""
    for index, size in enumerate(sizes):
        outside = (1,) * (len(sizes) - index - 1)
        rounded = {size >> bit << bit for bit in range(size.bit_length())}
        for members in sorted({*divisors(size).tolist(), *rounded}):
            if members > 1 or index == 0:
                yield (*sizes[:index], members, *outside)


def power_plans(setting: Setting, levels: Sequence[Level]) -> list[Plan]:
    """All plans of powers of two on some levels, the smallest tensor degree first.

    Raises
    ------
    InputError
        If interleaved stages are asked for, which such plans do not have.
    NoPlanError
        If the GPUs are no power of two.

    Examples
    --------
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> a100, comet = ACCELERATORS.load("a100-comet"), ITERATION_MODELS.load("comet")
    >>> setting = Setting(TrainedModel.make(a100, MODELS.load("transformer-1t"), comet, batch=2))
    >>> levels = Level("switch", 2, 300e9), Level("switch", 2, 31.25e9)
    >>> [(plan.shape, plan.microbatches, plan.microbatch) for plan in power_plans(setting, levels)]
    [('1x1x4', 1, 0.5), ('2x1x2', 1, 1), ('4x1x1', 1, 2), ('4x1x1', 2, 1)]
    """
    name, gpus = setting.assumptions.name, gpu_count(levels)
    if setting.interleave != "none":
        raise InputError(
            f"iteration model {name} has no pipeline whose stages interleave: leave --interleave"
            " out"
        )
    if gpus & (gpus - 1):
        less = 1 << gpus.bit_length() - 1
        raise NoPlanError(
            f"iteration model {name} has tensor and data degrees of powers of two that use all"
            f" GPUs, got {gpus:,}: give {less:,} or {2 * less:,}"
        )
    plans, single = [], setting.assumptions.space.microbatches == "one"
    for bit in range(gpus.bit_length()):
        rest, degrees = 1 << bit, []
        for level in levels:  # as much of the tensor group as it has room for, then replicas
            inside = min(rest, level.size)
            rest //= inside
            degrees.append(Degrees(tensor=inside, data=level.size // inside))
        placement = Placement(tuple(degrees))
        share = setting.training.batch / placement.totals.data
        rounds = [1] if single or not share.is_integer() else divisors(int(share)).tolist()
        for several in rounds:
            size = share / several
            whole = int(size) if size.is_integer() else size
            plans.append(Plan(placement, whole, microbatches=several))
    fixed = setting.given.items()
    return [plan for plan in plans if all(getattr(plan, key) == value for key, value in fixed)]
