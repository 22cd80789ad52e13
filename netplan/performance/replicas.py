"""The best plans of the free space: how many replicas each cell takes, and which cells can win.

Every cell (`netplan.performance.free_space`) has a lower bound of its time: that of the plan with
one replica along the outermost level, whose data parallel group is the smallest, and yet with as
few microbatches as the most replicas make. With more microbatches the bound rises by at least n L
for each, n layers of the fullest stage of L seconds a layer. No plan above the time of one that is
known can be better, so that

1. the cells of the lowest bounds are timed first,
2. then all others whose bound is no higher than the best time so far,
3. then the same cells with more microbatches, that is fewer replicas, as far as the bound allows.

The memory of a cell is least with the most replicas and fewest microbatches; cells that do not fit
then have no plan that fits. Of the replicas that make the same number of microbatches those are
taken that fit, on a switch that does not block as few of them as fit.
"""

from collections.abc import Iterator
from math import inf

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.levels import Level
from netplan.performance.compute import LayerGroups, LayerTable, layer_table
from netplan.performance.free_space import FreeSpace, enumerate_cells, listed_cells, plan_of
from netplan.performance.iteration import IterationTerms
from netplan.performance.memory import memory_of
from netplan.performance.plan import Plan
from netplan.performance.setting import Setting
from netplan.performance.space import PlanSpace, Runs, expand, real
from netplan.records import replace
from netplan.traffic.hierarchy import Network
from netplan.traffic.placement import CONTEXT, DIMENSIONS, EXPERT, PIPELINE, Placements

FIRST_CELLS = 1 << 9
CHUNK_PLANS = 1 << 14
ROUNDING = 1 + 1e-11
"""Bounds and times add up the same terms in other orders [1]."""

Found = tuple[float, int, int, int, int]
"""Seconds, placement, schedule, microbatches and replicas along the outermost level of a plan."""


class FreePlans(Struct, frozen=True):
    """The best plans of the free space, best first; cells, those that fit, the least memory."""

    plans: tuple[Plan, ...]
    cells: int
    feasible: int
    least_bytes: float


def best_free_plans(setting: Setting, levels: tuple[Level, ...], top: int) -> FreePlans:
    """Find the best plans of one strategy in the free space.

    Parameters
    ----------
    setting
        What is trained, and how.
    levels
        The fabric, innermost level first.
    top
        Plans to return; those of a cell differ in their microbatches [1].
    """
    space = enumerate_cells(setting, [level.size for level in levels])
    count = int(space.places.sum())
    if not count:
        return FreePlans((), 0, 0, inf)
    network = Network(levels, setting.assumptions.communication.used, setting.mode)
    alone = _without_communication(setting, network, space)
    fewest = space.schedules.microbatches
    smallest = space.runs(slice(None), space.room, fewest)
    memory = memory_of(setting, smallest, alone).total
    fitting = np.flatnonzero(memory <= setting.training.memory_bytes)
    bound_s = _computing_s(setting, smallest, alone)
    found: list[Found] = []
    for some in _in_order(space, fitting, bound_s):
        chosen = some[bound_s[some] <= _limit(found, top)]
        if len(chosen):
            found = Bounded.of(setting, network, space, (alone, chosen)).best(found, top)
    plans = tuple(plan_of(space, (one[1], one[2]), (one[3], one[4])) for one in found)
    return FreePlans(plans, count, int(space.places[fitting].sum()), float(memory.min()))


def _without_communication(setting: Setting, network: Network, space: FreeSpace) -> LayerTable:
    """Bytes and computing of a layer for every sharding, as if each GPU were alone."""
    alone = Placements(np.ones((len(network.levels), len(DIMENSIONS), 1), dtype=np.int64))
    nowhere = np.zeros(len(space.sizes.tensor), dtype=np.int64)
    groups = LayerGroups.of(network, alone, nowhere)
    return layer_table(setting, setting.program(space.sizes), groups)


def _computing_s(setting: Setting, runs: Runs, alone: LayerTable) -> Floats:
    """What schedules take at least: layers and bubble without any communication [s]."""
    both = alone.forward + alone.backward
    whole = setting.assumptions.overlap.bubble == "layer"
    bubble_s = both.total_s if whole else both.compute_s
    layers = alone.repetition.fullest(runs.stages)
    rest = (alone.repetition.layers - layers) / real(runs.interleave)
    steady = real(runs.microbatches) * layers * both.total_s[runs.sharding]
    bound_s: Floats = steady + rest * bubble_s[runs.sharding]
    return bound_s


def _in_order(space: FreeSpace, schedule: Ints, bound_s: Floats) -> Iterator[Ints]:
    """Schedules of the lowest bounds, with some thousand cells, and then the others."""
    order = schedule[np.argsort(bound_s[schedule], kind="stable")]
    cells = np.cumsum(space.places[order])
    first = int(np.searchsorted(cells, FIRST_CELLS)) + 1
    yield np.sort(order[:first])
    yield np.sort(order[first:])


class Bounded(Struct, frozen=True, eq=False):
    """The cells of some schedules that fit the memory, with the lower bounds of their times."""

    setting: Setting
    network: Network
    space: FreeSpace
    alone: LayerTable  # bytes of the shardings
    chosen: Ints  # schedules
    placed: Ints  # placements of their kinds
    plans: PlanSpace  # of those
    table: LayerTable  # layers of those
    place: Ints
    schedule: Ints
    bound_s: Floats
    more_s: Floats  # what each further microbatch adds at least

    @classmethod
    def of(
        cls, setting: Setting, network: Network, space: FreeSpace, some: tuple[LayerTable, Ints]
    ) -> "Bounded":
        """Bound every cell of some schedules, of which the bytes of the shardings are known."""
        alone, chosen = some
        plans, placed = space.some(chosen)
        groups = LayerGroups.of(network, plans.layer_placements, plans.sharding_layer)
        table = layer_table(setting, setting.program(plans.sharding), groups)
        # More replicas may lie better on leaves that block: those bound nothing.
        least = replace(network, levels=tuple(level.unblocked for level in network.levels))
        fastest = table
        if least.levels != network.levels:
            groups = LayerGroups.of(least, plans.layer_placements, plans.sharding_layer)
            fastest = layer_table(setting, setting.program(plans.sharding), groups)
        terms = IterationTerms.of(setting, least, plans, fastest)
        place, schedule = plans.pairs(np.ones(len(chosen), dtype=np.bool_))
        row = plans.row(place, schedule)
        bound_s = terms.seconds(place, row, schedule)
        totals = plans.totals[:, plans.schedules.totals]
        if network.levels[space.outer].kind != "switch":
            # Rings and meshes may serve a larger group faster: nothing bounds its collectives.
            grouped = (totals[CONTEXT] * totals[EXPERT] > 1)[schedule]
            bound_s = np.where(grouped, bound_s - terms.data_s(place, row, schedule), bound_s)
        layers = real(-(-setting.training.model.layers // totals[PIPELINE]))
        return cls(
            *(setting, network, space, alone, chosen, placed, plans, table, place, schedule),
            bound_s=bound_s,
            more_s=layers[schedule] * terms.layer_s[row],
        )

    def best(self, found: list[Found], top: int) -> list[Found]:
        """The best plans of these and those found before, equally fast ones in order."""
        fewest = self.space.schedules.microbatches[self.chosen][self.schedule]
        order = np.arange(len(self.bound_s))
        if len(order) > FIRST_CELLS:
            order = np.argpartition(self.bound_s, FIRST_CELLS)
        for begin, end in _pieces(len(order)):
            cell = order[begin:end]
            cell = cell[self.bound_s[cell] <= _limit(found, top)]
            found = self._timed(cell, fewest[cell], found, top)
        for cell, microbatches in self._with_more(found, top):
            found = self._timed(cell, microbatches, found, top)
        return found

    def _with_more(self, found: list[Found], top: int) -> Iterator[tuple[Ints, Ints]]:
        """Cells with more microbatches than the fewest, as many as a bound does not rule out."""
        space, limit = self.space, _limit(found, top)
        cell = np.flatnonzero(self.bound_s + self.more_s <= limit)
        schedule = self.chosen[self.schedule[cell]]
        step, fewest = space.step[schedule], space.schedules.microbatches[schedule]
        most = (space.rounds[schedule] - fewest) // step
        within = np.minimum((limit - self.bound_s[cell]) / (step * self.more_s[cell]), most)
        count = np.where(most > 0, within, 0).astype(np.int64)
        ends = np.cumsum(count)
        begin = 0
        while begin < len(cell):
            done = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, done + CHUNK_PLANS, side="right")))
            number, owner, _ = expand(np.ones(end - begin, dtype=np.int64), count[begin:end])
            owner += begin
            yield cell[owner], fewest[owner] + number * step[owner]
            begin = end

    def _timed(self, cell: Ints, microbatches: Ints, found: list[Found], top: int) -> list[Found]:
        """The best of the plans found so far and those of some cells, of so many microbatches."""
        cell, microbatches, replicas = self._replicas(cell, microbatches)
        if not len(cell):
            return found
        place, schedule = self.place[cell], self.schedule[cell]
        cells, counts = (place, schedule), (replicas, microbatches)
        plans = listed_cells(self.plans, self.space.outer, cells, counts)
        terms = IterationTerms.of(self.setting, self.network, plans, self.table)
        each = np.arange(len(cell))
        seconds = terms.seconds(each, self.plans.row(place, schedule), each)
        columns = (self.placed[place], self.chosen[schedule], microbatches, replicas)
        order = np.lexsort((*columns[::-1], seconds))[:top]
        more = zip(seconds[order].tolist(), *(one[order].tolist() for one in columns), strict=True)
        return sorted([*found, *more])[:top]

    def _replicas(self, cell: Ints, microbatches: Ints) -> tuple[Ints, Ints, Ints]:
        """Cells, microbatches and replicas of the plans that fit, of those that count."""
        schedule = self.chosen[self.schedule[cell]]
        rounds, most = self.space.rounds[schedule], self.space.room[schedule]
        fewest = most
        if self.setting.options.fixed.data is None:
            fewest = -(-rounds // microbatches)
            enough = (rounds - 1) // np.maximum(microbatches - 1, 1)
            most = np.where(microbatches > 1, np.minimum(enough, most), most)
        # Some numbers of microbatches are those of no number of replicas.
        made = (fewest <= most) & (-(-rounds // fewest) == microbatches)
        cell, microbatches, fewest, most = (one[made] for one in (cell, microbatches, fewest, most))
        if not self.network.levels[self.space.outer].never_faster_for_more:
            replicas, owner, _ = expand(fewest, most - fewest + 1)
            cell, microbatches = cell[owner], microbatches[owner]
            keep = self._fit(cell, microbatches, replicas)
        else:
            replicas, keep = self._fewest_that_fit(cell, microbatches, fewest, most)
        return cell[keep], microbatches[keep], replicas[keep]

    def _fewest_that_fit(
        self, cell: Ints, microbatches: Ints, low: Ints, high: Ints
    ) -> tuple[Ints, Bools]:
        """Fewest replicas that fit, and whether any do: memory falls as they rise."""
        fits = self._fit(cell, microbatches, low)
        tight = np.flatnonzero(~fits & (low < high))
        low, high = low.copy(), high.copy()
        fits[tight] = self._fit(cell[tight], microbatches[tight], high[tight])
        tight = tight[fits[tight]]
        while len(tight):  # too few, and enough
            middle = (low[tight] + high[tight]) // 2
            enough = self._fit(cell[tight], microbatches[tight], middle)
            high[tight] = np.where(enough, middle, high[tight])
            low[tight] = np.where(enough, low[tight], middle)
            done = high[tight] - low[tight] == 1
            low[tight[done]] = high[tight[done]]
            tight = tight[~done]
        return low, fits

    def _fit(self, cell: Ints, microbatches: Ints, replicas: Ints) -> Bools:
        """Whether plans fit the memory."""
        runs = self.space.runs(self.chosen[self.schedule[cell]], replicas, microbatches)
        total = memory_of(self.setting, runs, self.alone).total
        fits: Bools = total <= self.setting.training.memory_bytes
        return fits


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    """Where the pieces of so many cells begin and end, the first one a small one."""
    begin, end = 0, min(count, FIRST_CELLS)
    while begin < count:
        yield begin, end
        begin, end = end, min(count, end + CHUNK_PLANS)


def _limit(found: list[Found], top: int) -> float:
    """Time that a further plan must not exceed [s]."""
    return found[-1][0] * ROUNDING if len(found) == top else inf
