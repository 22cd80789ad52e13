"""The exhaustive plan search: every parallel plan of a model on the levels of a fabric.

Nothing is pruned and nothing is sampled: all plans that the rules allow are counted, all that fit
the memory are timed, and so the best plan is proven best.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import inf, prod
from typing import get_args

import numpy as np

from netplan.arrays import Ints
from netplan.errors import InfeasibleError, InputError, NoPlanError
from netplan.levels import Level
from netplan.performance.evaluation import Evaluation, evaluate_plan
from netplan.performance.plan import Plan, PlanTime, SearchResult
from netplan.performance.setting import (
    DEFAULT_OPTIONS,
    AnyStrategy,
    Options,
    Setting,
    Training,
    check_setting,
)
from netplan.performance.space import degree_limits, enumerate_plans, placements_of
from netplan.traffic.placement import DATA, PIPELINE, TENSOR, divisors
from netplan.units import si
from netplan.workloads.operations import Mode, Strategy

__all__ = ["Plan", "PlanTime", "SearchResult", "evaluate_plan", "search_largest", "search_plans"]


def search_plans(
    training: Training,
    levels: Sequence[Level],
    *,
    strategy: AnyStrategy = "1d",
    mode: Mode = "corrected",
    options: Options = DEFAULT_OPTIONS,
    top: int = 1,
) -> SearchResult:
    """Find the best plans of the whole space on these levels.

    Parameters
    ----------
    training
        Model, batch, GPU and iteration model.
    levels
        The fabric, innermost level first; plans use all its GPUs.
    strategy
        How layers are cut: ``1d``, ``2d``, ``summa``, or ``all`` of them.
    mode
        ``corrected``, or ``published-code`` with the slips of the 4D model's code.
    options
        Recomputation, experts, ZeRO stage, interleaving.
    top
        Plans to return, best first [1].

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
    >>> training = Training.on(b200, MODELS.load("gpt-1t"), fourd)
    >>> levels = (Level("switch", 8, 900e9, 0, 2.5e-6), Level("switch", 2048, 100e9, 0, 5e-6))
    >>> found = search_plans(training, levels, mode="published-code")
    >>> found.enumerated, found.feasible, round(found.plans[0].iteration_time_s, 4)
    (2027, 1340, 3.2333)
    """
    start = time.perf_counter()
    check_setting(strategy, mode)
    if top < 1:
        raise InputError(f"a search returns at least 1 plan, got {top}")
    levels = tuple(levels)
    settings = _settings(training, strategy, mode, options)
    found = [_search_one(setting, levels, top) for setting in settings]
    enumerated, feasible = sum(one.enumerated for one in found), sum(one.feasible for one in found)
    if not enumerated:
        raise NoPlanError(_no_plan(settings, levels))
    if not feasible:
        raise InfeasibleError(_no_room(training, min(one.least_bytes for one in found)))
    plans = sorted((plan for one in found for plan in one.plans), key=_seconds_of)[:top]
    seconds = time.perf_counter() - start
    return SearchResult(tuple(plans), enumerated, feasible, seconds, levels, settings)


def search_largest(
    training: Training,
    levels: Sequence[Level],
    *,
    strategy: AnyStrategy = "1d",
    mode: Mode = "corrected",
    options: Options = DEFAULT_OPTIONS,
    top: int = 1,
) -> SearchResult:
    """Search on as many GPUs as some plan can use, whole members of the outermost level.

    Parameters and errors as :func:`search_plans`; InfeasibleError if no part of the fabric works.
    """
    search = partial(search_plans, training, strategy=strategy, mode=mode, options=options, top=top)
    try:
        return search(levels)
    except NoPlanError:
        if levels[-1].kind == "ring":
            raise
    return search(_largest_part(_settings(training, strategy, mode, options), tuple(levels)))


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """The search for the best plan of one training run, to be put to many fabrics.

    Parameters
    ----------
    training, strategy, mode, options
        As in :func:`search_plans`.
    """

    training: Training
    strategy: AnyStrategy = "1d"
    mode: Mode = "corrected"
    options: Options = DEFAULT_OPTIONS

    def on(self, levels: tuple[Level, ...]) -> SearchResult | str | None:
        """Best plan on a fabric's levels, or why there is none; None without levels.

        Equal levels are searched once.
        """
        if not levels:
            return None
        try:
            return _search(self, levels)
        except InfeasibleError as error:
            return f"{error}."

    def whole(self, levels: Sequence[Level]) -> SearchResult:
        """Best plan on all GPUs of some levels; errors as :func:`search_plans`."""
        return search_plans(
            self.training,
            levels,
            strategy=self.strategy,
            mode=self.mode,
            options=self.options,
        )


# A study compares many fabrics whose levels are the same: radix and prices do not touch them.
@lru_cache(maxsize=4096)
def _search(search: PlanSearch, levels: tuple[Level, ...]) -> SearchResult:
    """Best plan on some levels."""
    return search_largest(
        search.training,
        levels,
        strategy=search.strategy,
        mode=search.mode,
        options=search.options,
    )


def _settings(
    training: Training, strategy: AnyStrategy, mode: Mode, options: Options
) -> tuple[Setting, ...]:
    """One setting a strategy; ``all`` means those that iteration model and variant cover."""
    if strategy != "all":
        return (Setting(training, strategy, mode, options),)
    covered = get_args(Strategy)
    if options.variant.sparse:
        covered = tuple(name for name in covered if name != "summa")
    if training.assumptions.compute.operations == "counted":
        covered = ("1d",)
    return tuple(Setting(training, name, mode, options) for name in covered)


@dataclass(frozen=True, slots=True)
class _Found:
    """What one strategy's space holds."""

    plans: tuple[PlanTime, ...]
    enumerated: int
    feasible: int
    least_bytes: float


def _search_one(setting: Setting, levels: tuple[Level, ...], top: int) -> _Found:
    """Best plans of one strategy."""
    space = enumerate_plans(setting, [level.size for level in levels])
    count = space.plan_count
    if not count:
        return _Found((), 0, 0, inf)
    evaluation = Evaluation.of(setting, levels, space)
    best, feasible = evaluation.best(top)
    plans = tuple(evaluation.plan_time(place, schedule) for place, schedule in best)
    return _Found(plans, count, feasible, float(evaluation.memory.total.min()))


def _seconds_of(plan: PlanTime) -> float:
    return plan.iteration_time_s


def _has_plans(settings: Sequence[Setting], levels: Sequence[Level]) -> bool:
    sizes = [level.size for level in levels]
    return any(placements_of(setting, sizes).count for setting in settings)


def _largest_part(settings: Sequence[Setting], levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """The fabric with as many members of its outermost level as some plan can use."""
    inner = prod(level.size for level in levels[:-1])
    used = np.unique(np.concatenate([_products(one, inner * levels[-1].size) for one in settings]))
    for gpus in used[used % inner == 0][::-1].tolist():
        part = (*levels[:-1], replace(levels[-1], size=gpus // inner))
        if _has_plans(settings, part):
            return part
    raise NoPlanError(_no_plan(settings, levels))


def _products(setting: Setting, gpus: int) -> Ints:
    """GPU counts, up to all, that degrees within their limits multiply to."""
    products = np.ones(1, dtype=np.int64)
    for limit, cap in zip(*degree_limits(setting, gpus), strict=True):
        degrees = np.arange(1, cap + 1) if limit == gpus else divisors(limit)
        products = np.unique(np.multiply.outer(products, degrees))
        products = products[products <= gpus]
    return products


def _no_room(training: Training, least_bytes: float) -> str:
    miss = least_bytes - training.memory_bytes
    return (
        f"{training.model.name} fits on no plan: the nearest needs {si(least_bytes, 'B')} a GPU,"
        f" {si(miss, 'B')} more than the {si(training.memory_bytes, 'B')} there are: use more GPUs,"
        " full recomputation or a higher ZeRO stage"
    )


def _no_plan(settings: Sequence[Setting], levels: Sequence[Level]) -> str:
    """Why no plan uses all GPUs: what their degrees must divide."""
    gpus = prod(level.size for level in levels)
    training = settings[0].training
    limits, _ = degree_limits(settings[0], gpus)
    fixed = settings[0].options.fixed.given
    if fixed:
        given = ", ".join(f"{name} {value:,}" for name, value in fixed.items())
        return f"no plan of {training.model.name} on {gpus:,} GPUs has {given}: free one of them"
    return (
        f"no plan of {training.model.name} uses {gpus:,} GPUs: their number must be a product of"
        f" tensor, data and pipeline degrees that divide {limits[TENSOR]:,},"
        f" {limits[DATA]:,} (the batch) and {limits[PIPELINE]:,} (the layers): change the number of"
        " GPUs, the HB domain or the batch, or use strategy 2d"
    )
