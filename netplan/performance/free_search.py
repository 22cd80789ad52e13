"""The best plans of the free space: which cuts and cells can win, and how many replicas they take.

Three lower bounds of a plan's time leave fewer and fewer to be timed. No plan above the time of
one that is known can be better.

1. A *cut* (`netplan.performance.free_space`) takes at least its computing, with as few microbatches
   as the most replicas make that any placement has. That depends on no fabric, nor does the memory
   it needs at least: fabrics of equally many GPUs share it.
2. A *cell*, a cut on the levels of a fabric, takes at least the time of the plan with as few
   microbatches as the most replicas make, but for the collectives of replicas, of which some number
   may have faster ones.
3. With more microbatches that bound, but for what the bubble has for want of them, rises by at
   least n L for each, n layers of the fullest stage of L seconds a layer.

Where an expanded memory is slower, all three have what at least spills of the cut; where it is
faster, all traffic is as fast.

So the cells of a few cuts of the lowest bounds are timed first, and then all those that the bounds
do not rule out, with every number of replicas inside the outermost level that makes so many
microbatches. The memory of a cell is least with the most replicas and fewest microbatches; of the
replicas outside that make the same number of microbatches those are taken that fit, on a switch
that does not block as few of them as fit.

Where stacks say what memory holds (`netplan.performance.ladder`) each of these plans is weighed on
every rung, with as few layers computed again as fit, and of the replicas outside that make the same
number of microbatches the fewest and the most are tried. All plans within 1 % of the fastest are
kept until the end, when the preferred one comes first; plans above a first peak are sought up to a
second one only as far as they are faster.
"""

from collections.abc import Callable, Iterator
from math import inf, prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, real
from netplan.levels import Level, gpu_count, outermost
from netplan.performance import free_space, shortlist
from netplan.performance.compute import LayerGroups, LayerTable, layer_table
from netplan.performance.evaluation import (
    ROUNDING,
    SPILLED_PLANS,
    SpaceTerms,
    evaluate_space,
    terms_of,
)
from netplan.performance.ladder import NEAR, Kept, given_to, recomputed_shares
from netplan.performance.memory import Memory, Spilled, memory_of
from netplan.performance.plan import Plan
from netplan.performance.setting import Setting
from netplan.performance.space import StageRuns, joined_ranges, parts
from netplan.performance.usual_plan import UsualPlans
from netplan.progress import with_progress
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork
from netplan.traffic.placement import DATA, EXPERT, PIPELINE, Degrees, Placement
from netplan.workloads.operations import Sharding

FIRST_CUTS, FIRST_LAYERS = 1 << 10, 1 << 6
"""Cuts, and layers of them, whose plans are timed first, so that there is a time to beat [1]."""

BATCH_CUTS, BATCH_LAYERS, CHUNK_PLANS = 1 << 10, 1 << 11, 1 << 14
"""Cuts, layers and plans that are worked on together: their arrays stay in the cache [1]."""

TimedFreePlan = tuple[float, int, tuple[Degrees, ...], int, tuple[Degrees, ...], int, int, int]
"""Seconds, cut, degrees of one replica at each level, microbatches, degrees of the plan, which row
of the layers it has, what it keeps, and how many layers are computed again or offloaded."""


class FreePlans(Struct, frozen=True, eq=False):
    """The best plans of the free space, best first; cuts, those that fit, the least memory.

    Where stacks say what memory holds, these are all plans within 1 % of the fastest, and no fewer
    than were asked for; ``seconds`` says how fast they are. Cuts fit that do so with all GPUs at
    work. The least memory is that of all cells, if no plan was found; there are no cuts if there
    are no cells.
    """

    plans: tuple[Plan, ...]
    cuts: int
    feasible: int
    least_bytes: float = inf
    layers: tuple[Sharding, LayerTable, Ints] | None = None
    """Layers that were timed, with their times, and which of them each plan has."""

    seconds: tuple[float, ...] = ()


def best_free_plans(
    setting: Setting, levels: tuple[Level, ...], top: int, bound: shortlist.Bound | None = None
) -> FreePlans:
    """Find the best plans of one strategy in the free space.

    Parameters
    ----------
    setting
        What is trained, and how.
    levels
        The fabric, innermost level first.
    top
        Plans to return; those of a cell differ in their microbatches [1].
    bound
        What they must not exceed; the GPU's memory if absent.
    """
    bound = bound or shortlist.Bound(setting.training.room_bytes)
    gpus, domain = gpu_count(levels), levels[0].size
    sized = shortlist.sized_layers(setting, levels) if setting.by_stack else None
    if sized is None:
        known = shortlist.shortlist(setting, gpus, domain, bound)
    elif bound.above_bytes:  # none that fits for sure is counted
        known = shortlist.held_shortlist(setting, gpus, domain, bound, sized)
    else:
        known = shortlist.on_fabric(
            setting,
            shortlist.shortlist(setting, gpus, domain, shortlist.Bound(bound.peak_bytes)),
            sized,
        )
    if bound.usual:
        known = shortlist.usual_of(setting, known, domain)
    search = FreeSearch(setting, setting.network(levels), known, top, bound, sized)
    placed = Placed.of(search, known.fitting[:FIRST_CUTS])
    ranked, alone = placed.best([]), not search.needs_memory
    begins = range(FIRST_CUTS, len(known.fitting), BATCH_CUTS)
    for begin in with_progress(begins, lambda _: "batches of plans"):
        some = slice(begin, begin + BATCH_CUTS)
        chosen = known.fitting[some][known.bound_s[some] <= search.limit(ranked)]
        if len(chosen):
            ranked, alone = Placed.of(search, chosen).best(ranked), False
    if not ranked:
        return _none(search)
    plans = tuple(_plan_of(search, entry) for entry in ranked)
    layers = None
    if alone:
        rows = np.array([entry[5] for entry in ranked])
        layers = placed.rows.sharding, placed.table, rows
    seconds = tuple(entry[0] for entry in ranked)
    return FreePlans(plans, known.count, known.feasible, layers=layers, seconds=seconds)


class FreeSearch(Struct, frozen=True, eq=False):
    """What is searched on which fabric, and for how many plans."""

    setting: Setting
    network: CollectiveNetwork
    known: shortlist.Shortlist
    top: int
    bound: shortlist.Bound
    sized: shortlist.SizedLayers | None = None

    @property
    def sizes(self) -> list[int]:
        """Members of the levels that may be used [1]."""
        return shortlist.used_sizes(self.setting, self.network)

    @property
    def outermost(self) -> Level:
        """The outermost level of several members."""
        return self.network.levels[outermost(self.sizes)]

    @property
    def unblocked(self) -> CollectiveNetwork:
        """The network without leaves that block, on which some numbers lie better than others."""
        levels = tuple(level.unblocked for level in self.network.levels)
        return replace(self.network, levels=levels)

    def limit(self, ranked: list[TimedFreePlan]) -> float:
        """Time that a further plan must not exceed [s]."""
        if not self.setting.by_stack:
            return ranked[-1][0] * ROUNDING if len(ranked) == self.top else inf
        # All that are nearly as fast as the fastest count.
        slowest_s = ranked[self.top - 1][0] if len(ranked) >= self.top else inf
        return min(self.bound.seconds, max(slowest_s, NEAR * ranked[0][0] if ranked else inf))

    def nearest(self, ranked: list[TimedFreePlan]) -> list[TimedFreePlan]:
        """Those of some plans that are within the limit, the fastest first."""
        limit = self.limit(ranked)
        return [entry for entry in ranked if entry[0] <= limit]

    def with_replicas_inside(
        self, cells: free_space.Cells, microbatches: Ints
    ) -> Iterator[tuple[Ints, free_space.Cells, Ints, Ints]]:
        """Every number of replicas inside: whose it is, its cell, fewest and most of it outside."""
        outer = outermost(self.sizes)
        rounds = self.known.cuts.rounds[cells.cut]
        if self.setting.options.fixed.data is not None or not self.setting.free:
            made = np.flatnonzero(-(-rounds // cells.replicas) == microbatches)
            if len(made):
                yield made, cells.take(made), np.ones_like(made), np.ones_like(made)
            return
        least, less = -(-rounds // microbatches), np.maximum(microbatches - 1, 1)
        most = np.where(microbatches > 1, (rounds - 1) // less, cells.replicas)
        most = np.minimum(most, cells.replicas)
        room, outside = cells.room[:outer], cells.room[outer]
        first = free_space.filling(room, -(-least // outside))
        count = np.maximum(
            free_space.filling(room, np.minimum(most, room.prod(axis=0))) - first + 1, 0
        )
        for part in parts(count, CHUNK_PLANS):
            number, whose, _ = joined_ranges(first[part], count[part])
            whose += part.start
            degrees = free_space.filled(room[:, whose], number)
            inside = degrees.prod(axis=0)
            low = -(-least[whose] // inside)
            high = np.minimum(most[whose] // inside, outside[whose])
            # Some numbers of microbatches are those of no number of replicas.
            made = np.flatnonzero(low <= high)
            if len(made):
                plans = cells.take(whose[made])
                plans.placements.degrees[:outer, DATA] = degrees[:, made]
                yield whose[made], plans, low[made], high[made]

    @property
    def varies(self) -> bool:
        """Whether more replicas may make operations, or the update, faster."""
        return self.counts_update or self.setting.training.expanded is not None

    @property
    def needs_memory(self) -> bool:
        """Whether times depend on what plans hold: some of it may spill, or all is updated."""
        whole = self.setting.assumptions.memory.update == "whole"
        return whole or self.setting.training.expanded is not None or self.setting.by_stack

    @property
    def counts_update(self) -> bool:
        """Whether an update counts, which is shorter for more replicas, whatever spills."""
        whole = self.setting.assumptions.memory.update == "whole"
        return whole or self.setting.training.calibrated is not None or self.setting.by_stack

    @property
    def sums_in_switches(self) -> bool:
        """Whether more replicas may be faster, as switches form the sums of large groups only."""
        links = self.network.communication.links
        queued = self.setting.assumptions.overlap.data == "queued"  # as all_reduces
        inside = outermost(self.sizes) == 0
        return queued and inside and links is not None and bool(links.domain.in_switch)

    def less_spilled(
        self, cells: free_space.Cells, microbatches: Ints, low: Ints, high: Ints
    ) -> tuple[Ints, Ints]:
        """More replicas outside than the fewest, of which less spills: whose, and how many.

        All numbers from those that fit up to the first of which nothing spills, or up to the last
        where the update counts.
        """
        enough, local = _fewest(cells, microbatches, low, high, self.stays_local)
        least, most = (self.total_bytes(cells, microbatches, entry) for entry in (low, high))
        last = np.where(least == most, low, high)
        if not self.counts_update:
            last = np.where(local, enough, last)
        number, whose, _ = joined_ranges(low, last - low + 1)
        return whose, number

    def stays_local(self, cells: free_space.Cells, microbatches: Ints, outside: Ints) -> Bools:
        """Whether nothing of plans lies in an expanded memory."""
        if self.setting.by_stack:
            return np.ones(len(cells.cut), np.bool_)
        memory = self.memory_of(cells, microbatches, outside)
        return np.asarray(~Spilled.of(self.setting, memory).plans)

    def fit(self, cells: free_space.Cells, microbatches: Ints, outside: Ints) -> Bools:
        """Whether plans fit the memory."""
        total = self.total_bytes(cells, microbatches, outside)
        return np.asarray(total <= self.bound.peak_bytes)

    def total_bytes(
        self, cells: free_space.Cells, microbatches: Ints, outside: Ints | int = 1
    ) -> Floats:
        """Memory of cells with so many times the replicas that they have, all together [B]."""
        if self.setting.by_stack:
            return np.asarray(self.kept(cells, microbatches, outside).total.min(axis=0))
        return self.memory_of(cells, microbatches, outside).total

    def memory_of(
        self, cells: free_space.Cells, microbatches: Ints, outside: Ints | int = 1
    ) -> Memory:
        """The same part by part, as the iteration model has it."""
        return memory_of(self.setting, self._runs(cells, microbatches, outside), self.known.alone)

    def kept(self, cells: free_space.Cells, microbatches: Ints, outside: Ints | int = 1) -> Kept:
        """The same as stacks have it on every rung, with as few layers computed again as fit."""
        runs, cuts = self._runs(cells, microbatches, outside), self.known.cuts
        return shortlist.kept_on_rungs(self.setting, cuts, runs, self.bound.peak_bytes)

    def on_rungs(
        self, plans: free_space.Cells, microbatches: Ints
    ) -> tuple[Ints, free_space.Cells]:
        """Plans on all rungs that count, and which each was."""
        kept = self.kept(plans, microbatches)
        counts = kept.counts & (kept.total > self.bound.above_bytes)
        if self.bound.usual:
            counts = counts & self._usual(plans, kept)
        rung, index = np.nonzero(counts)
        again = kept.layers[rung, index].astype(np.int64)
        return index, replace(plans.take(index), rung=rung, again=again)

    def _usual(self, plans: free_space.Cells, kept: Kept) -> Bools:
        """Which plans keep, on each rung, the limits that their cuts do not say yet."""
        setting, cuts = self.setting, self.known.cuts
        degrees = plans.placements.totals
        usual = UsualPlans.of(setting, self.network.levels[0].size)
        even = usual.is_even(real(degrees[DATA] * degrees[EXPERT]), cuts.microbatch(plans.cut))
        offloads = np.array([rung.offloads for rung in setting.rungs])[:, None]
        few: Bools = ~offloads | (kept.layers <= usual.most_offloaded)
        return few & even

    def _runs(self, cells: free_space.Cells, microbatches: Ints, outside: Ints | int) -> StageRuns:
        replicas = cells.placements.degrees[:, DATA].prod(axis=0) * outside
        return self.known.cuts.runs(cells.cut, replicas, microbatches)


def _fewest(
    cells: free_space.Cells,
    microbatches: Ints,
    low: Ints,
    high: Ints,
    good: Callable[[free_space.Cells, Ints, Ints], Bools],
) -> tuple[Ints, Bools]:
    """Fewest replicas outside, from low to high, that are good, as all above are; if any are."""
    fits = good(cells, microbatches, low)
    tight = np.flatnonzero(~fits & (low < high))
    if not len(tight):
        return low, fits
    low, high = low.copy(), high.copy()
    fits[tight] = good(cells.take(tight), microbatches[tight], high[tight])
    tight = tight[fits[tight]]
    while len(tight):  # too few, and enough
        middle = (low[tight] + high[tight]) // 2
        enough = good(cells.take(tight), microbatches[tight], middle)
        high[tight] = np.where(enough, middle, high[tight])
        low[tight] = np.where(enough, low[tight], middle)
        done = high[tight] - low[tight] == 1
        low[tight[done]] = high[tight[done]]
        tight = tight[~done]
    return low, fits


def _none(search: FreeSearch) -> FreePlans:
    """Why there is no plan: no cell at all, or what the nearest of all cells needs."""
    known, cells, least_bytes = search.known, 0, inf
    if search.bound.seconds < inf:  # there is a faster plan
        return FreePlans((), known.count, known.feasible)
    order = np.argsort(known.least_bytes, kind="stable")
    for begin in range(0, len(order), FIRST_CUTS):
        some = order[begin : begin + FIRST_CUTS]
        if known.least_bytes[some[0]] >= least_bytes:
            break
        layers, _ = free_space.place_layers(search.setting, known.cuts, some, search.sizes)
        placed = free_space.place_stages(search.setting, known.cuts, layers, search.sizes)
        cells += len(placed.cut)
        for whose, plans, _, most in search.with_replicas_inside(placed, placed.fewest):
            total_bytes = search.total_bytes(plans, placed.fewest[whose], most)
            least_bytes = min(least_bytes, float(total_bytes.min()))
    if least_bytes == inf:  # nothing is made with as few microbatches as whole groups have
        least_bytes = float(known.least_bytes.min(initial=inf))
        cells *= not len(known.fitting)  # it would fit, but no replicas make it
    return FreePlans((), known.count if cells else 0, 0, least_bytes)


class Placed(Struct, frozen=True, eq=False):
    """Cuts on a fabric, with their layers placed."""

    search: FreeSearch
    rows: free_space.LayerRows
    table: LayerTable
    least: LayerTable  # the same with all in the faster memory
    layers: free_space.Layers
    bound_s: Floats  # least time of each entry of the layers

    @classmethod
    def of(cls, search: FreeSearch, some: Ints) -> "Placed":
        """Place the layers of some cuts, and bound their times."""
        setting, cuts, sized = search.setting, search.known.cuts, search.sized
        if sized is not None:
            rows, table = sized.rows, sized.table
            size, least = cuts.schedules.offset[some], table
            index, owner, _ = joined_ranges(sized.first[size], sized.count[size])
            layers = replace(sized.layers.take(index), cut=some[owner])
        else:
            layers, rows = free_space.place_layers(setting, cuts, some, search.sizes)
            places = np.arange(rows.placements.count)
            groups = LayerGroups.of(search.network, rows.placements, places)
            table = least = layer_table(setting, rows.sharding, groups)
            if (bounding := shortlist.fastest(setting)) is not setting:
                least = layer_table(bounding, rows.sharding, groups)
        fewest = cuts.schedules.microbatches[layers.cut]
        runs = cuts.runs(layers.cut, cuts.replicas[layers.cut], fewest)
        bound_s = shortlist.computing_s(setting, runs._replace(sharding=layers.row), least)
        bound_s = bound_s + search.known.spill_s[layers.cut]
        return cls(search, rows, table, least, layers, bound_s)

    def cells(self, chosen: Ints) -> free_space.Cells:
        """All cells of some of the layers."""
        search, layers = self.search, self.layers.take(chosen)
        return free_space.place_stages(search.setting, search.known.cuts, layers, search.sizes)

    def best(self, ranked: list[TimedFreePlan]) -> list[TimedFreePlan]:
        """The best plans of these and those found before."""
        order, limit = np.argsort(self.bound_s, kind="stable"), self.search.limit(ranked)
        if limit == inf:
            cells = self.cells(order[:FIRST_LAYERS])
            if cells.replicas.sum() <= CHUNK_PLANS:  # so few are all timed, as there is no limit
                ranked, order = self._best(cells, ranked, limit), order[FIRST_LAYERS:]
            else:
                limit = self.search.limit(self.timed(cells, cells.fewest, []))
        for begin in with_progress(range(0, len(order), BATCH_LAYERS), lambda _: "placements"):
            limit = min(limit, self.search.limit(ranked))
            chosen = order[begin : begin + BATCH_LAYERS]
            chosen = chosen[self.bound_s[chosen] <= limit]
            if len(chosen):
                ranked = self._best(self.cells(chosen), ranked, limit)
        return ranked

    def _best(
        self, cells: free_space.Cells, ranked: list[TimedFreePlan], limit: float
    ) -> list[TimedFreePlan]:
        # Least time of every cell, and with more microbatches than the fewest.
        terms, index = self._least_terms(cells, cells.fewest), np.arange(len(cells.cut))
        # Other numbers of replicas may have faster collectives: those bound nothing.
        least_s = terms.seconds(index, cells.row, index) - terms.data_s(index, cells.row, index)
        least_s = least_s + self.search.known.spill_s[cells.cut]
        stages = cells.placements.totals[PIPELINE]
        layers = real(-(-self.search.setting.layered.layers // stages))
        filled_s = least_s - terms.schedule.unfilled * terms.bubble_s[cells.row]
        more_s = layers * terms.layer_s[cells.row]
        kept = np.flatnonzero(least_s <= limit)
        cells = cells.take(kept)
        ranked = self.timed(cells, cells.fewest, ranked, limit)
        limit = min(limit, self.search.limit(ranked))
        for cell, microbatches in self._with_more(cells, (limit - filled_s[kept]) / more_s[kept]):
            ranked = self.timed(cells.take(cell), microbatches, ranked, limit)
        return ranked

    def _with_more(self, cells: free_space.Cells, within: Floats) -> Iterator[tuple[Ints, Ints]]:
        """Cells with more microbatches than the fewest, as many as a bound does not rule out."""
        cuts, cell = self.search.known.cuts, np.flatnonzero(within >= 1)
        step, fewest = cuts.step[cells.cut[cell]], cells.fewest[cell]
        most = (cuts.rounds[cells.cut[cell]] - fewest) // step
        count = np.clip(within[cell] / step, 0, most).astype(np.int64)
        for part in parts(count, CHUNK_PLANS):
            number, owner, _ = joined_ranges(np.ones_like(count[part]), count[part])
            owner += part.start
            yield cell[owner], fewest[owner] + number * step[owner]

    def timed(
        self,
        cells: free_space.Cells,
        microbatches: Ints,
        ranked: list[TimedFreePlan],
        limit: float | None = None,
    ) -> list[TimedFreePlan]:
        """The best of the plans found so far and those of cells, of so many microbatches each.

        Of all that are none slower than the limit [s]; without one, of a few of them.
        """
        search, top = self.search, self.search.top
        for whose, plans, made in self._plans(cells, microbatches, limit):
            slowest_s = inf if limit is None else min(limit, self.search.limit(ranked))
            seconds = self._seconds(self.search.network, plans, made, slowest_s)
            if search.setting.by_stack:
                new = _distinct(seconds, plans, made, slowest_s, ranked, top)
                ranked = search.nearest(new)
                continue
            # The fastest of each cell and number of microbatches, the first of equal ones.
            order = np.lexsort((seconds, whose))
            best = order[np.diff(whose[order], prepend=-1) > 0]
            best = best[np.argsort(seconds[best], kind="stable")]
            best = best[seconds[best] < inf][:top]
            new = [
                _timed_plan(float(seconds[index]), plans, int(made[index]), index)
                for index in best.tolist()
            ]
            best_of: dict[object, TimedFreePlan] = {}  # of each cell and number of microbatches
            for entry in sorted([*ranked, *new]):
                best_of.setdefault(entry[1:4], entry)
            ranked = list(best_of.values())[:top]
        return ranked

    def _plans(
        self, cells: free_space.Cells, microbatches: Ints, limit: float | None
    ) -> Iterator[tuple[Ints, free_space.Cells, Ints]]:
        """The plans that count and fit: whose they are, they themselves, their microbatches."""
        search = self.search
        for whose, inside, fewest, most in search.with_replicas_inside(cells, microbatches):
            made = microbatches[whose]
            sums_up = search.sums_in_switches
            enough = search.outermost.never_faster_for_more and not search.counts_update
            enough &= not sums_up
            if limit is None or enough:
                # Fewest replicas outside that fit, and whether any do: memory falls as they rise.
                outside, fits = most, np.ones(len(made), np.bool_)
                if not search.setting.by_stack:
                    outside, fits = _fewest(inside, made, fewest, most, search.fit)
                some, outside = np.flatnonzero(fits), outside[fits]
                if limit is not None and search.varies:
                    of, outside = search.less_spilled(
                        inside.take(some), made[some], outside, most[some]
                    )
                    some = some[of]
            else:
                count = most - fewest + 1
                # More replicas may only lie better.
                if search.outermost.kind == "switch" and not sums_up:
                    least, index = inside.times(fewest), np.arange(len(made))
                    terms = self._least_terms(least, made)
                    least_s = terms.seconds(index, least.row, index)
                    # But for what falls with their number, of which the most have least.
                    least_s = least_s - terms.falling_s(index, least.row, index)
                    # What spills hides more of the collectives that run beside it.
                    beside_s = terms.data_s(index, least.row, index)
                    spilled_s = least_s - beside_s + search.known.spill_s[least.cut]
                    least_s = np.maximum(least_s, spilled_s)
                    count = np.where(least_s <= limit, count, 0)
                # The ends: those between hold and take what lies between.
                if search.setting.by_stack:
                    few, several = np.flatnonzero(count > 0), np.flatnonzero(count > 1)
                    some = np.concatenate([few, several])
                    outside = np.concatenate([fewest[few], most[several]])
                else:
                    outside, some, _ = joined_ranges(fewest, count)
                    fits = search.fit(inside.take(some), made[some], outside)
                    some, outside = some[fits], outside[fits]
            plans = inside.take(some).times(outside)
            if search.setting.by_stack and len(some):
                index, plans = search.on_rungs(plans, made[some])
                some = some[index]
            if len(some):
                yield whose[some], plans, made[some]

    def _least_terms(self, plans: free_space.Cells, microbatches: Ints) -> SpaceTerms:
        """What plans take at least on leaves that do not block, whatever spills."""
        search = self.search
        space = free_space.listed_cells(search.known.cuts, plans, self.rows, microbatches)
        return terms_of(search.setting, search.unblocked, space, self.least)

    def _seconds(
        self,
        network: CollectiveNetwork,
        plans: free_space.Cells,
        microbatches: Ints,
        limit: float = inf,
    ) -> Floats:
        """Times of plans; of those that spill above the limit, infinite ones [s]."""
        index, search = np.arange(len(plans.cut)), self.search
        space = free_space.listed_cells(search.known.cuts, plans, self.rows, microbatches)
        setting = search.setting
        if setting.by_stack:
            stages = real(plans.placements.totals[PIPELINE])
            chunks = real(space.schedules.interleave)
            fullest = self.table.repetition.fullest(stages, chunks)
            rung, again = np.asarray(plans.rung), real(np.asarray(plans.again))
            shares = recomputed_shares(setting, rung, again, fullest, stages)
            table = self.table.redoing(plans.row, shares)
            alone = space.plans(index, index)
            return terms_of(setting, network, alone, table).seconds(index, index, index)
        if not search.needs_memory:
            terms = terms_of(setting, network, space, self.table)
            return terms.seconds(index, plans.row, index)
        spilled = Spilled.of(setting, search.memory_of(plans, microbatches))
        update_s = spilled.update_s(self.table.repetition)
        terms = terms_of(setting, network, space, self.table, update_s)
        seconds = terms.seconds(index, plans.row, index)
        spills = np.flatnonzero(spilled.plans)
        if len(spills):
            retimed = spills if spilled.slower < 0 else spills[seconds[spills] <= limit]
            seconds[spills] = inf
            for part in range(0, len(retimed), SPILLED_PLANS):
                some = retimed[part : part + SPILLED_PLANS]
                evaluated = evaluate_space(setting, network, space.plans(some, some))
                seconds[some] = evaluated.seconds
        return seconds


def _timed_plan(
    seconds: float, plans: free_space.Cells, microbatches: int, index: int
) -> TimedFreePlan:
    levels = plans.placements.placement(index).levels
    cell = tuple(level._replace(data=1) for level in levels)
    cut, row = int(plans.cut[index]), int(plans.row[index])
    rung = plans.rung if isinstance(plans.rung, int) else int(plans.rung[index])
    again = plans.again if isinstance(plans.again, int) else int(plans.again[index])
    return seconds, cut, cell, microbatches, levels, row, rung, again


def _distinct(
    seconds: Floats,
    plans: free_space.Cells,
    microbatches: Ints,
    limit: float,
    ranked: list[TimedFreePlan],
    top: int,
) -> list[TimedFreePlan]:
    """Plans found before and those up to a limit, the fastest of those that but lie elsewhere.

    All within 1 % of the fastest, and so many at least.
    """
    replicas = plans.placements.degrees[:, DATA].prod(axis=0)
    kept = (np.asarray(plans.rung), np.asarray(plans.again))
    keys = np.stack([plans.cut, microbatches, replicas, *kept])
    # By all that plans have but their place on the levels.
    best: dict[tuple[int, ...], TimedFreePlan] = {}
    for entry in ranked:
        many = prod(level.data for level in entry[4])
        best[entry[1], entry[3], many, entry[6], entry[7]] = entry
    fastest_s = min([float(seconds.min(initial=inf)), *(entry[0] for entry in ranked)])
    some, new = np.flatnonzero(seconds <= limit), 0
    for index in some[np.argsort(seconds[some], kind="stable")].tolist():
        time_s, key = float(seconds[index]), tuple(keys[:, index].tolist())
        if time_s > NEAR * fastest_s and new >= top:
            break
        if key not in best or time_s < best[key][0]:
            best[key] = _timed_plan(time_s, plans, int(microbatches[index]), index)
            new += 1
    return sorted(best.values())


def _plan_of(search: FreeSearch, entry: TimedFreePlan) -> Plan:
    _, cut, _, microbatches, levels, _, rung, again = entry
    cuts, setting = search.known.cuts, search.setting
    schedules = cuts.schedules
    plan = Plan(
        placement=Placement(levels, tuple(level.size for level in search.network.levels)),
        microbatch=int(schedules.microbatch[cut]),
        microbatches=microbatches,
        interleave=int(schedules.interleave[cut]),
        panels=int(cuts.sizes.panels[schedules.offset[cut]]),
        folded=cuts.sizes.folded(schedules.offset[cut]) if setting.folds_experts else None,
    )
    return given_to(plan, setting.rungs[rung], again) if setting.by_stack else plan
