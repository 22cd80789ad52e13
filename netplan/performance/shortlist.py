"""Which cuts of the free space can win: those that fit some memory, by the least time of each.

The least times and the memory depend on no fabric: fabrics of equally many GPUs share them. Where
stacks say what memory holds, layers of every size are placed and timed once for a fabric, and the
least times have their exchange too.
"""

from functools import lru_cache
from math import inf

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints, real
from netplan.levels import Level, gpu_count
from netplan.performance import free_space
from netplan.performance.compute import LayerGroups, LayerTable, layer_table
from netplan.performance.ladder import Kept, keep, recomputed_shares, sizes_of
from netplan.performance.memory import Spilled, memory_of
from netplan.performance.setting import Setting
from netplan.performance.space import StageRuns, bubble_layers
from netplan.performance.stack_memory import PlanSizes
from netplan.performance.usual_plan import UsualPlans
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork
from netplan.traffic.placement import DIMENSIONS, PIPELINE, Placements
from netplan.workloads.operations import Sharding
from netplan.workloads.program import missing_layers


class Bound(Struct, frozen=True):
    """What plans must not exceed: memory of the fullest GPU [B], and the time of a known plan [s].

    ``usual`` plans alone are those that published recipes have; those with more memory than
    ``above_bytes`` alone do not fit for sure [B].
    """

    peak_bytes: float
    seconds: float = inf
    usual: bool = False
    above_bytes: float = 0.0


class Shortlist(Struct, frozen=True, eq=False):
    """The cuts on so many GPUs, and which of them may fit the memory, lowest bounds first."""

    cuts: free_space.ReplicaCuts
    least_bytes: Floats  # memory of each cut with as many replicas as any placement has
    spill_s: Floats  # what each takes longer at least for what spills, or is computed again
    alone: LayerTable  # bytes and computing of a layer of each size, as if each GPU were alone
    fitting: Ints
    bound_s: Floats
    count: int  # cuts, with every rung that they may have
    feasible: int  # those of them that fit


class SizedLayers(Struct, frozen=True, eq=False):
    """Layers of all sizes in all places on a fabric, those of a size in a row."""

    rows: free_space.LayerRows
    table: LayerTable
    layers: free_space.Layers
    first: Ints  # where those of each size begin
    count: Ints  # and how many there are
    fastest: Ints  # the fastest row of each


# The same cuts are searched with more and with less memory.
@lru_cache(maxsize=4)
def _possible(
    setting: Setting, gpus: int, domain: int
) -> tuple[free_space.ReplicaCuts, LayerTable, StageRuns, Floats]:
    """All cuts on so many GPUs, and their layers as if each GPU were alone.

    After these come a run of each cut in the fewest microbatches that it may have, and how long
    that run computes, the least time of the cut [s].
    """
    cuts = free_space.enumerate_cuts(setting, gpus, domain)
    alone = _without_communication(fastest(setting), cuts.sizes)
    smallest = cuts.runs(slice(None), cuts.replicas, cuts.schedules.microbatches)
    return cuts, alone, smallest, computing_s(setting, smallest, alone)


# Fabrics of equally many GPUs are compared, and searched one after the other.
@lru_cache(maxsize=32)
def shortlist(setting: Setting, gpus: int, domain: int, bound: Bound) -> Shortlist:
    """Which cuts may fit, by the least time that they take."""
    if setting.by_stack:
        return held_shortlist(setting, gpus, domain, bound)
    cuts, alone, smallest, least_s = _possible(setting, gpus, domain)
    memory = memory_of(setting, smallest, alone)
    least_bytes, spilled = memory.total, Spilled.of(setting, memory)
    spill_s = _least_spill_s(setting, smallest, alone, spilled, cuts)
    fitting = np.flatnonzero(least_bytes <= bound.peak_bytes)
    bound_s = (least_s + spill_s)[fitting]
    order = np.argsort(bound_s, kind="stable")
    feasible = int((least_bytes <= setting.training.tiers_bytes).sum())
    listed = fitting[order], bound_s[order]
    return Shortlist(cuts, least_bytes, spill_s, alone, *listed, cuts.count, feasible)


def held_shortlist(
    setting: Setting, gpus: int, domain: int, bound: Bound, sized: SizedLayers | None = None
) -> Shortlist:
    """The same where stacks say what memory holds, on any rung.

    Parameters
    ----------
    setting
        What is trained, and how.
    gpus, domain
        Of the cluster, and of an HB domain [1].
    bound
        What plans must not exceed.
    sized
        Layers on a fabric, whose plans alone are meant: those that are fast enough there.
    """
    cuts, alone, smallest, bound_s = _possible(setting, gpus, domain)
    least_bytes, again_s = np.full(cuts.count, inf), np.zeros(cuts.count)
    some = np.arange(cuts.count)
    if sized is not None:
        bound_s = _on_fabric_s(setting, smallest, sized)
        some = np.flatnonzero(bound_s <= bound.seconds)
    runs = StageRuns(smallest.totals[:, some], *(column[some] for column in smallest[1:]))
    # More microbatches that fill whole groups of stages may hold less than those that do not.
    stages, microbatches = runs.totals[PIPELINE], runs.microbatches
    whole = np.where(microbatches > stages, microbatches - microbatches % stages, microbatches)
    runs = runs._replace(microbatches=whole)
    kept = kept_on_rungs(setting, cuts, runs, bound.peak_bytes)
    least_bytes[some] = kept.total.min(axis=0, initial=inf)
    again_s[some] = _again_s(setting, runs, alone, kept)
    fits = least_bytes <= bound.peak_bytes
    fitting = np.flatnonzero(fits)
    count = sum(int(rung.possible(smallest.stages).sum()) for rung in setting.rungs)
    bound_s, feasible = (bound_s + again_s)[fitting], int(kept.fits.sum())
    order = np.argsort(bound_s, kind="stable")
    listed = fitting[order], bound_s[order]
    return Shortlist(cuts, least_bytes, again_s, alone, *listed, count, feasible)


def usual_of(setting: Setting, known: Shortlist, domain: int) -> Shortlist:
    """Of a shortlist what teams run, with as many replicas as there is room for."""
    cuts = known.cuts.take(known.fitting)
    runs = cuts.runs(slice(None), cuts.replicas, cuts.schedules.microbatches)
    usual = replace(UsualPlans.of(setting, domain), batch=None)
    keep = usual.keep(_sizes_of(setting, cuts, runs), setting.zero_stage)
    return replace(known, fitting=known.fitting[keep], bound_s=known.bound_s[keep])


def kept_on_rungs(
    setting: Setting, cuts: free_space.ReplicaCuts, runs: StageRuns, peak_bytes: float
) -> Kept:
    """What plans of some cuts hold on every rung, as stacks do."""
    return keep(setting, _sizes_of(setting, cuts, runs), peak_bytes)


def _sizes_of(setting: Setting, cuts: free_space.ReplicaCuts, runs: StageRuns) -> PlanSizes:
    run = real(runs.microbatches), real(runs.interleave)
    return sizes_of(setting, runs.totals, cuts.sizes.take(runs.sharding), *run)


def _again_s(setting: Setting, runs: StageRuns, alone: LayerTable, kept: Kept) -> Floats:
    """What cuts compute again at least, in the fewest microbatches and layers that they can [s]."""
    fullest = alone.repetition.fullest(runs.stages, real(runs.interleave))
    least_s = np.full(len(fullest), inf)
    for row in range(len(setting.rungs)):
        rung = np.full(len(fullest), row)
        shares = recomputed_shares(setting, rung, kept.layers[row], fullest, real(runs.stages))
        layer_s = sum(
            (share * alone.again[word].total_s[runs.sharding] for word, share in shares.items()),
            np.zeros(len(fullest)),
        )
        least_s = np.where(kept.fits[row], np.minimum(least_s, layer_s), least_s)
    least_s[least_s == inf] = 0.0  # does not fit
    return np.asarray(least_s * real(runs.microbatches) * np.maximum(fullest - 1, 1))


def _least_spill_s(
    setting: Setting,
    smallest: StageRuns,
    alone: LayerTable,
    spilled: Spilled,
    cuts: free_space.ReplicaCuts,
) -> Floats:
    """What cuts take longer at least for what spills of the smallest of their schedules [s].

    A stage with an end may be the slowest though it has a layer less, which then does not spill.

    Of each part no less spills with fewer replicas or more microbatches, unless several parts are
    offloaded that the tier does not hold. Panels of SUMMA may hide what operations take longer.
    """
    offload, count = setting.assumptions.memory.offload, len(smallest.sharding)
    if not spilled.plans.any() or spilled.slower < 0 or offload[1:] or setting.strategy == "summa":
        return np.zeros(count)
    sizes = cuts.sizes.take(smallest.sharding)
    repetition = setting.program(sizes).repetition
    spill = spilled.traffic(smallest.totals, repetition, np.arange(count))
    table = _without_communication(replace(setting, spill=spill), sizes)
    less = np.zeros(count)
    if alone.has_ends:
        less = np.maximum(*missing_layers(repetition.layers, smallest.stages))
    listed_runs = smallest._replace(sharding=np.arange(count))
    more_s = computing_s(setting, listed_runs, table, less) - computing_s(
        setting, smallest, alone, less
    )
    update_s = spilled.update_s(repetition)
    more_s = more_s if update_s is None else more_s + update_s
    return np.asarray(np.maximum(more_s, 0.0))


def fastest(setting: Setting) -> Setting:
    """The setting in which all lies in the faster one of both memories: it bounds all times."""
    training, expanded = setting.training, setting.training.expanded
    if expanded is None or expanded.bytes_per_s <= (training.memory_bytes_per_s or 0.0):
        return setting
    kernels, before = training.measured, training.memory_bytes_per_s
    if kernels is not None and before:
        kernels = kernels.with_memory(expanded.bytes_per_s / before)
    faster = replace(training, memory_bytes_per_s=expanded.bytes_per_s, measured=kernels)
    return replace(setting, training=faster)


def _without_communication(setting: Setting, sizes: Sharding) -> LayerTable:
    network = setting.network((Level("switch", 1, 1.0),))
    nowhere = Placements(np.ones((1, len(DIMENSIONS), 1), dtype=np.int64))
    groups = LayerGroups.of(network, nowhere, np.zeros_like(sizes.tensor))
    return layer_table(setting, sizes, groups)


def computing_s(
    setting: Setting, runs: StageRuns, alone: LayerTable, less: Floats | float = 0.0
) -> Floats:
    """What schedules take at least: layers and bubble without any communication [s].

    With ``less`` layers on the slowest stage than on the fullest.
    """
    both = alone.forward + alone.backward
    bubble_s = both.total_s if setting.whole_bubble else both.compute_s
    full, unfilled = bubble_layers(setting, alone.repetition, runs)
    layers = real(runs.microbatches) * (alone.repetition.fullest(runs.stages) - less)
    steady = layers * both.total_s[runs.sharding]
    return np.asarray(steady + (full + unfilled) * bubble_s[runs.sharding])


def used_sizes(setting: Setting, network: CollectiveNetwork) -> list[int]:
    """Members of the levels that may be used [1]."""
    sizes = [level.size for level in network.levels]
    most = setting.options.use_per_domain
    return [min(most, sizes[0]), *sizes[1:]] if most else sizes


# The same plans are timed with more and with less memory.
@lru_cache(maxsize=4)
def sized_layers(setting: Setting, levels: tuple[Level, ...]) -> SizedLayers:
    """Layers of every size that any cut has, wherever they may lie on a fabric."""
    cuts, *_ = _possible(setting, gpu_count(levels), levels[0].size)
    network = setting.network(levels)
    # One of the cuts of every size.
    sizes, some = np.unique(cuts.schedules.offset, return_index=True)
    layers, rows = free_space.place_layers(setting, cuts, some, used_sizes(setting, network))
    groups = LayerGroups.of(network, rows.placements, np.arange(rows.placements.count))
    table = layer_table(setting, rows.sharding, groups)
    size_of = cuts.schedules.offset[layers.cut]
    count = np.bincount(size_of, minlength=sizes.max(initial=-1) + 1)
    order = np.lexsort(((table.forward + table.backward).total_s[layers.row], size_of))
    first = np.cumsum(count) - count
    fastest_row = layers.row[order[np.minimum(first, len(order) - 1)]] if len(order) else first
    return SizedLayers(rows, table, layers, first, count, fastest_row)


def on_fabric(setting: Setting, known: Shortlist, sized: SizedLayers) -> Shortlist:
    """The same with the least time of layers on a fabric, exchange included, fastest first."""
    cuts, fitting = known.cuts, known.fitting
    runs = cuts.runs(fitting, cuts.replicas[fitting], cuts.schedules.microbatches[fitting])
    bound_s = _on_fabric_s(setting, runs, sized) + known.spill_s[fitting]
    there = np.flatnonzero(bound_s < inf)
    order = there[np.argsort(bound_s[there], kind="stable")]
    return replace(known, fitting=fitting[order], bound_s=bound_s[order])


def _on_fabric_s(setting: Setting, runs: StageRuns, sized: SizedLayers) -> Floats:
    """Least times with the fastest layers on a fabric; infinite where none has room [s]."""
    size = runs.sharding
    if not sized.count.any():
        return np.full(len(size), inf)
    bound_s = computing_s(setting, runs._replace(sharding=sized.fastest[size]), sized.table)
    bound_s[sized.count[size] == 0] = inf
    return bound_s
