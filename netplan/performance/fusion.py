"""Which kernels a chip keeps together: the fastest way to cut a kernel graph into partitions.

The kernels of a *partition* are on the chip together and pass their results on in sequence tiles;
partitions run one after the other, and what passes between them goes through memory. One takes

    T = max(slowest kernel, bytes of edges across its border / memory rate, sum of collectives)

and a set-up before it, weights / (memory rate x micro-batch) and what kernels read besides, that
nothing hides. The compute tiles of its kernels are together at most those of the chip, and its SRAM
holds their weights, two tiles of each edge across the border, and of each edge inside as many as
its ends are apart, and one more (a tile is the edge's share of one sequence tile). A kernel alone
always runs: it streams, and where its weights exceed the SRAM it reads its edges once for each
piece of them. Forward and backward kernels share no partition.

Cutting is a shortest path over the sets of kernels that are done: over the prefixes of the order
(*cuts*), or over all sets that hold with every kernel the ones that it needs (*ideals*, all convex
partitions). Both are exact for what they look at. Above ``MAX_IDEALS`` sets only cuts are tried,
over several orders; the answer is then an upper bound (`Fusion.exact`), beside `lower_bound_s`.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. IV and V, which solves the same as an integer
program.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Codes, Floats, Ints
from netplan.errors import InputError
from netplan.performance.tiles import TileChoices
from netplan.workloads.kernel_graph import KernelGraph

MAX_IDEALS = 20_000
"""Sets of finished kernels up to which the search is exact [1]."""

BINDS = ("compute", "memory", "network")
"""What a partition may wait for, by its code."""


class ChipMemory(Struct, frozen=True):
    """What a chip has for the kernels of a partition.

    Parameters
    ----------
    tiles
        Compute tiles [1].
    sram_bytes
        On-chip memory [B]; 0 where kernels can only run one by one.
    bytes_per_s
        Rate of its memory [B/s].
    """

    tiles: int
    sram_bytes: float
    bytes_per_s: float


class FusionProblem(Struct, frozen=True, eq=False, dict=True):
    """A graph on a chip, and what each kernel takes there.

    Parameters
    ----------
    graph
        The kernels.
    chip
        Tiles and memories.
    choices
        Tiles and cycles of the kernels; None for a chip without tile data.
    compute_s
        Time of each kernel with all of the chip, which counts without tile data, shape (kernels,).
    network_s
        Time of the collectives of each kernel, shape (kernels,) [s].
    tile_share
        Share of an edge that one sequence tile is, ts / s [1].
    micro_batch
        Sequences for which weights are loaded once [1].
    weights_in_memory_term
        Whether loading weights is part of the memory time, not a set-up before it (the base of
        DFModel's Table VI).
    free_weights
        Whether they load at no cost (DFModel's user guide).
    """

    graph: KernelGraph
    chip: ChipMemory
    choices: TileChoices | None
    compute_s: Floats
    network_s: Floats
    tile_share: float = 1.0
    micro_batch: int = 1
    weights_in_memory_term: bool = False
    free_weights: bool = False

    @cached_property
    def weights(self) -> Floats:
        """Weights of each kernel, shape (kernels,) [B]."""
        return self.graph.column("weight_bytes")

    @cached_property
    def setup_s(self) -> Floats:
        """What each kernel adds to the set-up of its partition, shape (kernels,) [s]."""
        free = self.weights_in_memory_term or self.free_weights
        loaded = 0.0 if free else self.weights / self.micro_batch
        found: Floats = (self.graph.column("read_bytes") + loaded) / self.chip.bytes_per_s
        return found

    @cached_property
    def border_bytes(self) -> Floats:
        """All edges at each kernel, and what it moves besides, shape (kernels,) [B]."""
        graph = self.graph
        ends = np.concatenate([graph.source, graph.target])
        edges = np.bincount(ends, np.tile(graph.edge_bytes, 2), graph.count)
        return edges + graph.column("outside_bytes")

    @cached_property
    def inside_sram_bytes(self) -> Floats:
        """SRAM of each edge inside a partition: its ends apart, and one more tile, (edges,) [B]."""
        graph = self.graph
        apart = graph.depth[graph.target] - graph.depth[graph.source]
        found: Floats = graph.edge_bytes * self.tile_share * (apart + 1)
        return found

    @cached_property
    def alone(self) -> "PartitionTimes":
        """Every kernel in a partition of its own."""
        return partition_times(self, np.eye(self.graph.count, dtype=bool))


class PartitionTimes(Struct, frozen=True, eq=False):
    """What partitions take and need, one entry each.

    Parameters
    ----------
    compute_s, memory_s, network_s, setup_s
        The parts of their times, all of shape (partitions,) [s].
    tiles
        Compute tiles in use; 0 without tile data [1].
    sram_bytes
        On-chip memory in use [B].
    fits
        Whether the partition runs.
    """

    compute_s: Floats
    memory_s: Floats
    network_s: Floats
    setup_s: Floats
    tiles: Ints
    sram_bytes: Floats
    fits: Bools

    @property
    def time_s(self) -> Floats:
        """T, without set-up, shape (partitions,) [s]."""
        return np.maximum(np.maximum(self.compute_s, self.memory_s), self.network_s)

    @property
    def interval_s(self) -> Floats:
        """T and set-up; infinite where a partition does not run, shape (partitions,) [s]."""
        return np.where(self.fits, self.time_s + self.setup_s, np.inf)

    @property
    def binds(self) -> Codes:
        """What each waits for, a place in ``BINDS``, shape (partitions,)."""
        parts = np.stack([self.compute_s, self.memory_s, self.network_s])
        binds: Codes = parts.argmax(axis=0).astype(np.int8)
        return binds


def partition_times(problem: FusionProblem, members: Bools) -> PartitionTimes:
    """What partitions take, given which kernels each holds, shape (partitions, kernels)."""
    graph, chip = problem.graph, problem.chip
    inside = members[:, graph.source] & members[:, graph.target]
    edges = members @ problem.border_bytes - 2 * (inside @ graph.edge_bytes)
    weights = members @ problem.weights
    sram = inside @ problem.inside_sram_bytes + 2 * problem.tile_share * edges + weights
    alone = members.sum(axis=1) == 1
    pieces = np.ones(len(members))
    if chip.sram_bytes:
        pieces = np.where(alone, np.maximum(np.ceil(weights / chip.sram_bytes), 1.0), 1.0)
    moved = edges * pieces + (weights if problem.weights_in_memory_term else 0.0)
    compute_s, tiles, enough = _compute(problem, members)
    return PartitionTimes(
        compute_s=compute_s,
        memory_s=moved / chip.bytes_per_s,
        network_s=members @ problem.network_s,
        setup_s=members @ problem.setup_s,
        tiles=tiles,
        sram_bytes=sram,
        fits=enough & (alone | (sram <= chip.sram_bytes)),
    )


def _compute(problem: FusionProblem, members: Bools) -> tuple[Floats, Ints, Bools]:
    """Time of the slowest kernel when tiles are shared as well as can be, tiles, whether enough."""
    choices = problem.choices
    if choices is None:
        count = len(members)
        return members @ problem.compute_s, np.zeros(count, np.int64), np.ones(count, bool)
    whole = members.astype(np.float64)
    low = np.zeros(len(members), np.int64)
    high = np.full(len(members), len(choices.cycles) - 1)
    fewest = choices.fewest.T.astype(np.float64)
    while (low < high).any():  # fewest cycles that the tiles allow: they fall as cycles rise
        middle = (low + high) // 2
        enough = (fewest[middle] * whole).sum(axis=1) <= problem.chip.tiles
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + 1, high))
    tiles: Ints = (fewest[low] * whole).sum(axis=1).astype(np.int64)
    compute_s = choices.cycles[low].astype(np.float64) * choices.seconds_per_cycle
    return compute_s, tiles, tiles <= problem.chip.tiles


class Fusion(Struct, frozen=True, eq=False, dict=True):
    """A graph cut into partitions.

    Parameters
    ----------
    problem
        What was cut.
    members
        Kernels of each partition, in the order in which they run, shape (partitions, kernels).
    exact
        Whether no convex partition is faster; else no cut of the orders that were tried is.
    considered
        Sets of finished kernels that were looked at [1].
    """

    problem: FusionProblem
    members: Bools
    exact: bool
    considered: int

    @cached_property
    def times(self) -> PartitionTimes:
        """What each partition takes."""
        return partition_times(self.problem, self.members)

    @property
    def interval_s(self) -> float:
        """II: all partitions with their set-ups [s]."""
        return float(self.times.interval_s.sum())


def lower_bound_s(problem: FusionProblem) -> float:
    """Time that no mapping undercuts: all computing on all tiles, collectives, or set-up alone [s].

    Each kernel needs at least its cycles times tiles; those of all kernels share the chip.
    """
    compute = float(problem.compute_s.sum())
    if problem.choices is not None:
        spent = problem.choices.fewest * problem.choices.cycles
        least = np.where(problem.choices.fewest <= problem.chip.tiles, spent, np.inf).min(axis=1)
        compute = float(least.sum()) / problem.chip.tiles * problem.choices.seconds_per_cycle
    weights = float(problem.weights.sum()) if problem.weights_in_memory_term else 0.0
    network = float(problem.network_s.sum())
    busy = max(compute, network, weights / problem.chip.bytes_per_s)
    return busy + float(problem.setup_s.sum())


def kernel_by_kernel(problem: FusionProblem) -> Fusion:
    """Every kernel alone, all edges through memory."""
    return Fusion(problem, np.eye(problem.graph.count, dtype=bool), exact=True, considered=0)


def best_fusion(problem: FusionProblem, *, ideals: bool = True) -> Fusion:
    """The fastest partitions.

    Parameters
    ----------
    problem
        What is cut.
    ideals
        Whether all convex partitions are tried, not only cuts of the order.

    Raises
    ------
    InputError
        If the chip has no SRAM to keep a result in.
    """
    if not problem.chip.sram_bytes:
        raise InputError(
            "the chip has no sram_bytes, without which no result stays on it: give --execution"
            " kernel-by-kernel, or a chip with SRAM"
        )
    count = problem.graph.count
    found = finished_sets(problem.graph) if ideals else None
    if found is not None:
        return _shortest(problem, found, exact=True)
    orders = [np.arange(count)] if not ideals else _orders(problem.graph)
    answers = [_shortest(problem, _prefixes(order), exact=False) for order in orders]
    return min(answers, key=lambda answer: answer.interval_s)


def _prefixes(order: Ints) -> Bools:
    """Sets of finished kernels as an order finishes them, shape (kernels + 1, kernels)."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank < np.arange(len(order) + 1)[:, None]


def _orders(graph: KernelGraph) -> list[Ints]:
    """Orders to cut: the given one, by depth, and by distance from the end."""
    end = np.zeros(graph.count, np.int64)
    for edge in np.argsort(-graph.source, kind="stable").tolist():
        source = graph.source[edge]
        end[source] = max(end[source], end[graph.target[edge]] + 1)
    late = graph.backward.astype(np.int64)
    return [
        np.arange(graph.count),
        np.lexsort((np.arange(graph.count), graph.depth, late)),
        np.lexsort((np.arange(graph.count), -end, late)),
    ]


def finished_sets(graph: KernelGraph, most: int = MAX_IDEALS) -> Bools | None:
    """All sets of kernels that can be finished at one time, smaller ones first.

    Shape (sets, kernels); None if there are more than ``most``. The forward pass is finished before
    the backward one begins.

    Examples
    --------
    Two chains of one kernel each after a first one: 5 sets.

    >>> from netplan.workloads.kernel_graph import Kernel
    >>> kernels = [Kernel(name, "simd", 1, 1, 1) for name in "abc"]
    >>> len(finished_sets(KernelGraph.of(kernels, [("a", "b"), ("a", "c")])))
    5
    """
    count = graph.count
    needs = [0] * count
    for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        needs[target] |= 1 << source
    front = sum(1 << at for at in np.flatnonzero(~graph.backward).tolist())
    for at in np.flatnonzero(graph.backward).tolist():
        needs[at] |= front
    layer, found = {0}, [0]
    for _ in range(count):
        grown = set()
        for done in layer:
            for at, need in enumerate(needs):
                if not done >> at & 1 and need & done == need:
                    grown.add(done | 1 << at)
        if len(found) + len(grown) > most:
            return None
        layer = grown
        found += sorted(grown)
    return np.array([[one >> at & 1 for at in range(count)] for one in found], np.bool_)


def _shortest(problem: FusionProblem, sets: Bools, *, exact: bool) -> Fusion:
    """The shortest path from nothing finished to all finished, a partition a step."""
    best_s = np.full(len(sets), np.inf)
    best_s[0] = 0.0
    before = np.zeros(len(sets), np.int64)
    backward, weights = problem.graph.backward, problem.weights
    held = sets @ weights
    size = sets.sum(axis=1)
    for at in range(len(sets) - 1):
        later = np.arange(at + 1, len(sets))
        # More weights than the SRAM holds are those of a kernel alone.
        room = held[later] - held[at] <= problem.chip.sram_bytes
        later = later[room | (size[later] == size[at] + 1)]
        later = later[~(sets[at] & ~sets[later]).any(axis=1)]
        members = sets[later] & ~sets[at]
        one_pass = ~(members & backward).any(axis=1) | ~(members & ~backward).any(axis=1)
        later, members = later[one_pass], members[one_pass]
        time_s = best_s[at] + partition_times(problem, members).interval_s
        faster = time_s < best_s[later]
        best_s[later[faster]] = time_s[faster]
        before[later[faster]] = at
    return Fusion(problem, _path(sets, before), exact=exact, considered=len(sets))


def _path(sets: Bools, before: Ints) -> Bools:
    """Partitions along the shortest path."""
    at, steps = len(sets) - 1, []
    while at:
        steps.append(sets[at] & ~sets[before[at]])
        at = int(before[at])
    return np.stack(steps[::-1])


def given_partitions(problem: FusionProblem, partitions: Sequence[Sequence[str]]) -> Fusion:
    """Partitions by the names of their kernels.

    Raises
    ------
    InputError
        If a kernel stands in none or in two of them, passes mix, an order cannot run, or a
        partition has no room on the chip: by how much.
    """
    graph = problem.graph
    members = np.zeros((len(partitions), graph.count), bool)
    for row, names in zip(members, partitions, strict=True):
        row[[graph.place(name) for name in names]] = True
    times = members.sum(axis=0)
    for name, number in zip(graph.names, times.tolist(), strict=True):
        if number != 1:
            where = "no partition" if not number else f"{number} partitions"
            raise InputError(f"--cut: {name} stands in {where}: name every kernel once")
    _check_order(graph, members)
    found = partition_times(problem, members)
    for at in np.flatnonzero(~found.fits).tolist():
        names = ", ".join(partitions[at])
        raise InputError(
            f"--cut: {names} do not run together: they need {found.sram_bytes[at] / 1e6:,.1f} MB of"
            f" SRAM, the chip has {problem.chip.sram_bytes / 1e6:,.1f} MB, and"
            f" {found.tiles[at]:,} of {problem.chip.tiles:,} compute tiles: cut them apart"
        )
    return Fusion(problem, members, exact=False, considered=0)


def _check_order(graph: KernelGraph, members: Bools) -> None:
    """Refuse partitions that mix passes, or need what a later one makes."""
    mixed = (members & graph.backward).any(axis=1) & (members & ~graph.backward).any(axis=1)
    if mixed.any():
        raise InputError("--cut: forward and backward kernels share no partition: cut between them")
    partition = members.argmax(axis=0)
    late = np.flatnonzero(partition[graph.source] > partition[graph.target])
    if len(late):
        source, target = graph.source[late[0]], graph.target[late[0]]
        raise InputError(
            f"--cut: {graph.names[target]} needs {graph.names[source]}, which stands in a later"
            " partition: order them as the results flow"
        )
