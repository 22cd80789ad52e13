"""Times and memory of all plans of a space, as arrays.

Memory depends on the schedule only, so plans that do not fit are counted and left out before any
time is computed. The others are worked through in chunks that stay in the processor's cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.compute import LayerGroups, layer_table
from netplan.performance.iteration import IterationTerms
from netplan.performance.memory import Memory, memory_of
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.setting import DEFAULT_OPTIONS, Options, Setting, Training, check_setting
from netplan.performance.space import PlanSpace, single_plan
from netplan.traffic.groups import Network
from netplan.workloads.closed_forms import iteration_flops
from netplan.workloads.operations import Mode, Strategy

CHUNK_PLANS = 1 << 15
"""Plans of one chunk: their arrays stay in the second-level cache."""


def evaluate_plan(
    training: Training,
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
        As in `netplan.performance.search.search_plans`.
    plan
        Its placement must have one entry a level.
    strategy
        ``1d``, ``2d`` or ``summa``.
    """
    check_setting(strategy, mode)
    given = len(plan.placement.levels)
    if given != len(levels):
        raise InputError(f"a plan has degrees at every level: got {given} for {len(levels)} levels")
    setting = Setting(training, strategy, mode, options)
    return Evaluation.of(setting, tuple(levels), single_plan(plan)).plan_time(0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Times and memory of all plans of a space."""

    setting: Setting
    space: PlanSpace
    terms: IterationTerms
    memory: Memory

    @classmethod
    def of(cls, setting: Setting, levels: tuple[Level, ...], space: PlanSpace) -> "Evaluation":
        """Compute what many plans share."""
        network = Network(levels, setting.assumptions.communication.used, setting.mode)
        groups = LayerGroups.of(network, space.layer_placements, space.sharding_layer)
        table = layer_table(setting, setting.program(space.sharding), groups)
        terms = IterationTerms.of(setting, network, space, table)
        return cls(setting, space, terms, memory_of(setting, space, table))

    def plan_time(self, place: int, schedule: int) -> PlanTime:
        """One plan with its parts and memory."""
        space = self.space
        row = int(space.first_sharding[space.layer_of[place]] + space.schedules.offset[schedule])
        parts = self.terms.parts(place, row, schedule)
        seconds = sum(parts.values())
        plan = self._plan(place, row, schedule)
        training = self.setting.training
        work = iteration_flops(training.model, training.batch, self.setting.variant)
        peak = plan.gpus * training.flops_per_s * seconds
        return PlanTime(
            plan=plan,
            iteration_time_s=seconds,
            breakdown_s=parts,
            memory_bytes=float(self.memory.total[schedule]),
            mfu=work.model / peak,
            hfu=work.hardware / peak,
            strategy=self.setting.strategy,
            memory_parts_bytes=self.memory.part(schedule),
        )

    def _plan(self, place: int, row: int, schedule: int) -> Plan:
        schedules = self.space.schedules
        return Plan(
            placement=self.space.placements.at(place),
            microbatch=int(schedules.microbatch[schedule]),
            microbatches=int(schedules.microbatches[schedule]),
            interleave=int(schedules.interleave[schedule]),
            panels=int(self.space.sharding.panels[row]),
        )

    def best(self, top: int) -> tuple[list[tuple[int, int]], int]:
        """Best plans as (placement, schedule), equally fast ones in order, and how many fit."""
        fits = self.memory.total <= self.setting.training.memory_bytes
        found: list[tuple[float, int, int]] = []
        feasible = 0
        for place, schedule in self.chunks(fits):
            feasible += len(place)
            space = self.space
            row = space.first_sharding[space.layer_of[place]] + space.schedules.offset[schedule]
            seconds = self.terms.seconds(place, row, schedule)
            chosen = _smallest(seconds, top)
            found += [(float(seconds[i]), int(place[i]), int(schedule[i])) for i in chosen]
            found = sorted(found)[:top]
        return [(place, schedule) for _, place, schedule in found], feasible

    def chunks(self, fits: Bools) -> Iterator[tuple[Ints, Ints]]:
        """Placement and schedule of every plan that fits, some ten thousand plans at a time."""
        space = self.space
        kept = np.flatnonzero(fits)
        counts = np.bincount(space.schedules.totals[kept], minlength=space.totals.shape[1])
        starts = (np.cumsum(counts) - counts)[space.totals_of]
        counts = counts[space.totals_of]
        ends = np.cumsum(counts)
        first = 0
        while first < len(ends):
            done = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + CHUNK_PLANS, side="right")))
            some = counts[first:last]
            place = np.repeat(np.arange(first, last), some)
            offset = starts[first:last] - (ends[first:last] - some - done)
            yield place, kept[np.repeat(offset, some) + np.arange(len(place))]
            first = last


def _smallest(seconds: Floats, top: int) -> Ints:
    """Indices of the smallest times; all of those that tie with the last of them."""
    if len(seconds) <= top:
        return np.arange(len(seconds))
    limit = np.partition(seconds, top - 1)[top - 1] if top > 1 else seconds.min()
    chosen = np.flatnonzero(seconds <= limit)
    return chosen[np.argsort(seconds[chosen], kind="stable")][:top]
