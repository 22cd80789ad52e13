"""Which kernels a chip keeps together: the fastest way to cut a kernel graph into partitions.

A *partition* is what is on the chip together (`netplan.performance.mapping.partitions`). Cutting is
a shortest path over the sets of kernels that are done: over the prefixes of a few orders (*cuts*),
or over all sets that hold with every kernel the ones that it needs (*ideals*, all convex
partitions). The forward pass is done before the backward one begins; partitions of both passes are
those of `netplan.performance.mapping.partitions.Residence`. Both are exact for what they look at.
Above ``MAX_IDEALS`` sets only cuts are tried; the answer is then an upper bound (`Fusion.exact`),
beside `lower_bound_s`.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. V, which solves the same as an integer
program.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from math import inf

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Columns, Floats, Ints
from netplan.errors import InputError
from netplan.performance.mapping.partitions import (
    ROUNDING,
    FusionProblem,
    PartitionTimes,
    few_cycles,
    memory_passes,
    of_both_passes,
    partition_times,
)
from netplan.workloads.kernel_graph import UPDATE, KernelGraph

MAX_IDEALS = 20_000
"""Sets of finished kernels up to which the search is exact [1]."""

MAX_ORDERED = 128
"""Kernels up to which several orders are cut [1]."""

MAX_CELLS = 1 << 24
"""Entries of the largest arrays of a search, which so stay below 128 MB each [1]."""

STARTS = 1 << 7
"""Sets whose partitions are worked on together [1]."""


class Fusion(Struct, frozen=True, eq=False, dict=True):
    """A graph cut into partitions.

    Parameters
    ----------
    problem
        What was cut.
    members
        Kernels of each partition, in the order in which they run, shape (partitions, kernels).
    exact
        Whether no convex partition is faster; else no cut of the orders that were tried is, or
        numbers of cycles were rounded up while looking for it.
    considered
        Sets of finished kernels that were looked at [1].
    """

    problem: FusionProblem
    members: Bools
    exact: bool
    considered: int

    @property
    def graph(self) -> KernelGraph:
        """What was cut."""
        return self.problem.graph

    @property
    def sequence_tile(self) -> int:
        """Tokens of a sequence tile [1]."""
        return self.problem.sequence_tile

    @cached_property
    def times(self) -> PartitionTimes:
        """What each partition takes."""
        return partition_times(self.problem, self.members)

    def partitions_of(self, kernels: Bools) -> Ints:
        """Partitions that hold some of these kernels, by place, in their order."""
        return np.flatnonzero((self.members & kernels).any(axis=1))

    @property
    def interval_s(self) -> float:
        """II: all partitions with their set-ups [s]."""
        return float(self.times.interval_s.sum())


def lower_bound_s(problem: FusionProblem) -> float:
    """Time that no mapping undercuts: all computing on all tiles, or collectives, and set-up [s].

    Each kernel needs at least its cycles times tiles; those of all kernels share the chip. Weights
    are loaded every time, unless those of all layers would fit the SRAM and may stay there.

    Examples
    --------
    Kernels of 1 s and 2 s, and weights of 3 B at 1 B/s, which a residence lets stay.

    >>> from msgspec.structs import replace
    >>> from netplan.performance.mapping.partitions import ChipResources, Residence
    >>> from netplan.workloads.kernel_graph import Kernel
    >>> kernels = [Kernel("a", "gemm", 1, 1, 2, 4.0, 3.0), Kernel("b", "simd", 1, 1, 2)]
    >>> graph, chip = KernelGraph.of(kernels, [("a", "b")]), ChipResources(0, 8.0, 1.0)
    >>> problem = FusionProblem(graph, chip, None, np.array([1.0, 2.0]), np.zeros(2), 1)
    >>> lower_bound_s(problem), lower_bound_s(replace(problem, residence=Residence()))
    (6.0, 3.0)
    """
    compute = float(problem.compute_s.sum())
    if problem.choices is not None:
        spent = problem.choices.fewest * problem.choices.cycles
        least = np.where(problem.choices.fewest <= problem.chip.tiles, spent, np.inf).min(axis=1)
        compute = float(least.sum()) / problem.chip.tiles * problem.choices.seconds_per_cycle
    held, setup_s = float(problem.weights.sum()), float(problem.setup_s.sum())
    weights = held if problem.weights_in_memory_term else 0.0
    layers = problem.residence.layers if problem.residence else inf
    if layers * held <= problem.chip.sram_bytes * (1 + ROUNDING):
        weights, setup_s = 0.0, setup_s - problem.loading_s
    busy = max(compute, float(problem.network_s.sum()), weights / problem.chip.bytes_per_s)
    return busy + setup_s


def kernel_by_kernel(problem: FusionProblem) -> Fusion:
    """Every kernel alone, all edges through memory.

    Examples
    --------
    The result of 4 B is written and read at 1 B/s, each longer than 1 s and 2 s of computing.

    >>> from netplan.performance.mapping.partitions import ChipResources
    >>> from netplan.workloads.kernel_graph import Kernel
    >>> kernels = [Kernel("a", "gemm", 1, 1, 2, 4.0, 3.0), Kernel("b", "simd", 1, 1, 2)]
    >>> graph, chip = KernelGraph.of(kernels, [("a", "b")]), ChipResources(0, 8.0, 1.0)
    >>> problem = FusionProblem(graph, chip, None, np.array([1.0, 2.0]), np.zeros(2), 1)
    >>> fusion = kernel_by_kernel(problem)
    >>> fusion.times.time_s, fusion.interval_s
    (array([4., 4.]), 11.0)
    """
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

    Examples
    --------
    Together, two kernels keep their result of 4 B, which 1 B/s would bring to memory and back.

    >>> from netplan.performance.mapping.partitions import ChipResources
    >>> from netplan.workloads.kernel_graph import Kernel
    >>> kernels = [Kernel("a", "gemm", 1, 1, 2, 4.0, 3.0), Kernel("b", "simd", 1, 1, 2)]
    >>> graph, chip = KernelGraph.of(kernels, [("a", "b")]), ChipResources(0, 8.0, 1.0)
    >>> problem = FusionProblem(graph, chip, None, np.array([1.0, 2.0]), np.zeros(2), 1)
    >>> fusion = best_fusion(problem)
    >>> len(fusion.members), fusion.interval_s, fusion.exact
    (1, 6.0, True)
    """
    if not problem.chip.sram_bytes:
        raise InputError(
            "the chip has no sram_bytes, without which no result stays on it: give --execution"
            " kernel-by-kernel, or a chip with SRAM"
        )
    every = finished_sets(problem.graph) if ideals else None
    sets = found_on_orders(problem.graph) if every is None else every
    paths = shortest_paths(candidate_partitions(problem, sets), sets @ problem.network_s[:, None])
    whole = problem.choices is None or len(problem.choices.cycles) <= MAX_CELLS // len(sets)
    tried = [partitions_between(sets, path_sets(paths.before[:, 0]))]
    if not whole:  # cycles of candidates are rounded up, which may hide that none is worth it
        tried.append(np.eye(problem.graph.count, dtype=bool))
    if problem.residence is not None:  # a layer that stays loads nothing, unlike candidates
        tried.append(np.ones((1, problem.graph.count), dtype=bool))
    exact = every is not None and whole
    fusions = (
        Fusion(problem, partitions, exact=exact, considered=len(sets)) for partitions in tried
    )
    return min(fusions, key=lambda fusion: fusion.interval_s)


def found_on_orders(graph: KernelGraph) -> Bools:
    """Sets of finished kernels that a few orders pass through, smaller ones first.

    The orders are the given one, by depth, by distance from the end, and with updates as soon as
    they can be; of a large graph the given one alone. Shape (sets, kernels).
    """
    orders = _orders(graph)[: None if graph.count <= MAX_ORDERED else 1]
    prefixes = np.unique(np.concatenate([_prefixes(order) for order in orders]), axis=0)
    return np.asarray(prefixes[np.argsort(prefixes.sum(axis=1), kind="stable")])


def finished_in_order(graph: KernelGraph) -> Bools:
    """Sets of finished kernels as the graph's own order finishes them, (kernels + 1, kernels)."""
    return _prefixes(_orders(graph)[0])


def _prefixes(order: Ints) -> Bools:
    """Sets of finished kernels as an order finishes them, shape (kernels + 1, kernels)."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank < np.arange(len(order) + 1)[:, None]


def _orders(graph: KernelGraph) -> list[Ints]:
    """Orders to cut (:func:`found_on_orders`), the forward pass before the backward one in each."""
    end, inputs = np.zeros(graph.count, np.int64), np.full(graph.count, -1)
    np.maximum.at(inputs, graph.target, graph.source)
    for edge in np.argsort(-graph.source, kind="stable").tolist():
        source = graph.source[edge]
        end[source] = max(end[source], end[graph.target[edge]] + 1)
    every, late, updates = np.arange(graph.count), graph.backward, graph.kind == UPDATE
    return [
        np.lexsort((every, late)),
        np.lexsort((every, graph.depth, late)),
        np.lexsort((every, -end, late)),
        np.lexsort((every, updates, np.where(updates, inputs, every), late)),
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
    front = sum(1 << kernel for kernel in np.flatnonzero(~graph.backward).tolist())
    for index in np.flatnonzero(graph.backward).tolist():
        needs[index] |= front
    layer, finished = {0}, [0]
    for _ in range(count):
        grown = set()
        for done in layer:
            for kernel, need in enumerate(needs):
                if not done >> kernel & 1 and need & done == need:
                    grown.add(done | 1 << kernel)
            if len(finished) + len(grown) > most:
                return None
        layer = grown
        finished += sorted(grown)
    return np.array(
        [[done >> kernel & 1 for kernel in range(count)] for done in finished], np.bool_
    )


class Candidates(Columns, frozen=True, eq=False):
    """Partitions that run, each between two sets of finished kernels, those of one start together.

    Parameters
    ----------
    start, end
        Places of the sets before and after it, shape (steps,) [1].
    compute_s, memory_s, setup_s
        Parts of their times, shape (steps,) [s].
    """

    start: Ints
    end: Ints
    compute_s: Floats
    memory_s: Floats
    setup_s: Floats

    def places(self, start: Ints, end: Ints) -> Ints:
        """Where partitions between two sets stand."""
        most = int(self.end.max()) + 1
        return np.searchsorted(self.start * most + self.end, start * most + end)


def candidate_partitions(problem: FusionProblem, sets: Bools) -> Iterator[Candidates]:
    """All partitions between sets of finished kernels, smaller sets first.

    What a partition takes is the difference of sums over both sets, but for its inner edges: of
    those into its last set, the ones that do not come from its first.
    """
    graph, chip, whole = problem.graph, problem.chip, sets.astype(np.float64)
    size, late = whole.sum(axis=1), whole @ graph.backward
    weights, setup = whole @ problem.weights, whole @ problem.setup_s
    border = whole @ problem.border_bytes
    edges = [np.zeros((graph.count, graph.count)) for _ in range(2)]
    for matrix, values in zip(edges, (graph.edge_bytes, problem.inside_sram_bytes), strict=True):
        np.add.at(matrix, (graph.source, graph.target), values)
    into, out = [whole @ edge.sum(axis=0) for edge in edges], [whole @ edge for edge in edges]
    undone, cycles = 1 - whole, _Cycles.of(problem, whole)
    for first in range(0, len(sets) - 1, STARTS):
        block = slice(first, min(first + STARTS, len(sets) - 1))
        held, grown = weights[first:] - weights[block, None], size[first:] - size[block, None]
        mixed = late[first:] - late[block, None]
        fits = (grown > 0) & ((held <= chip.sram_bytes) | (grown == 1))
        fits &= (mixed == 0) | (mixed == grown) | problem.parts_share
        fits &= whole[block] @ undone[first:].T == 0
        start, end = (places + first for places in np.nonzero(fits))
        inside, sram = (
            total[end] - (some[block] @ whole[first:].T)[fits]
            for total, some in zip(into, out, strict=True)
        )
        held, alone = held[fits], grown[fits] == 1
        moved = border[end] - border[start] - 2 * inside
        sram += 2 * problem.tile_share * moved + held
        room = sram <= chip.sram_bytes * (1 + ROUNDING / 2)
        compute_s = cycles.compute_s(start, end, room | alone)
        kept = np.flatnonzero(np.isfinite(compute_s))
        moved *= memory_passes(held, alone, chip.sram_bytes)
        moved += held if problem.weights_in_memory_term else 0.0
        memory_s, setup_s = moved / chip.bytes_per_s, setup[end] - setup[start]
        candidates = Candidates(start, end, compute_s, memory_s, setup_s)
        yield candidates.take(kept)


class _Cycles(Struct, frozen=True, eq=False):
    """Tiles, or computing time, of whole sets of finished kernels: partitions are differences."""

    problem: FusionProblem
    together: Floats  # tiles by choice of cycles, (sets, choices); time without tile data, (sets,)
    cycles: Ints

    @classmethod
    def of(cls, problem: FusionProblem, whole: Floats) -> "_Cycles":
        """Sums over sets of kernels, shape (sets, kernels)."""
        choices = problem.choices
        if choices is None:
            return cls(problem, whole @ problem.compute_s, np.zeros(0, np.int64))
        kept = few_cycles(choices.cycles, MAX_CELLS // len(whole))
        enough = np.minimum(choices.fewest[:, kept], problem.chip.tiles + 1)
        return cls(problem, whole @ enough.astype(np.float64), choices.cycles[kept])

    def compute_s(self, start: Ints, end: Ints, wanted: Bools) -> Floats:
        """Computing time of partitions, infinite where it is not wanted or tiles do not do [s]."""
        choices, tiles = self.problem.choices, self.problem.chip.tiles
        times_s = np.full(len(start), np.inf)
        wanted_at = np.flatnonzero(wanted)
        start, end = start[wanted_at], end[wanted_at]
        if choices is None:
            times_s[wanted_at] = self.together[end] - self.together[start]
            return times_s
        low, high = np.zeros(len(wanted_at), np.int64), np.full(len(wanted_at), len(self.cycles))
        for _ in range(len(self.cycles).bit_length()):  # tiles fall as cycles rise
            middle = np.minimum((low + high) // 2, len(self.cycles) - 1)
            enough = self.together[end, middle] - self.together[start, middle] <= tiles
            high = np.where(enough, np.minimum(middle, high), high)
            low = np.where(enough, low, np.minimum(middle + 1, high))
        runs = low < len(self.cycles)
        times_s[wanted_at[runs]] = self.cycles[low[runs]] * choices.seconds_per_cycle
        return times_s


class Paths(Struct, frozen=True, eq=False):
    """Shortest paths to every set of finished kernels, for many networks at once.

    Parameters
    ----------
    seconds
        Shape (sets, networks) [s].
    before
        The set before it, shape (sets, networks) [1].
    """

    seconds: Floats
    before: Ints


def shortest_paths(steps: Iterable[Candidates], network_s: Floats) -> Paths:
    """Shortest paths over partitions, given the collectives of every set, (sets, networks) [s]."""
    best_s = np.full(network_s.shape, np.inf)
    best_s[0] = 0.0
    before = np.zeros(network_s.shape, np.int64)
    for some in steps:
        busy_s = np.maximum(some.compute_s, some.memory_s)
        starts, first = np.unique(some.start, return_index=True)
        parts = np.split(np.arange(len(some.start)), first[1:])
        for index, part in zip(starts.tolist(), parts, strict=True):
            end = some.end[part]
            time_s = np.maximum(busy_s[part, None], network_s[end] - network_s[index])
            time_s += best_s[index] + some.setup_s[part, None]
            faster = time_s < best_s[end]
            best_s[end] = np.where(faster, time_s, best_s[end])
            before[end] = np.where(faster, index, before[end])
    return Paths(best_s, before)


def path_sets(before: Ints) -> Ints:
    """Places of the sets along the shortest path, from nothing finished to all.

    Parameters
    ----------
    before
        The set before each, of one network, shape (sets,) [1].

    Examples
    --------
    >>> path_sets(np.array([0, 0, 0, 1]))
    array([0, 1, 3])
    """
    path = [len(before) - 1]
    while path[-1]:
        path.append(int(before[path[-1]]))
    return np.array(path[::-1])


def partitions_between(sets: Bools, path: Ints) -> Bools:
    """Partitions that lead from each set of a path to the next, shape (partitions, kernels)."""
    return sets[path[1:]] & ~sets[path[:-1]]


def given_partitions(problem: FusionProblem, partitions: Sequence[Sequence[str]]) -> Fusion:
    """Partitions by the names of their kernels.

    Raises
    ------
    InputError
        If a kernel stands in none or in two of them, an order cannot run, a partition has no room
        on the chip, by how much, or one holds a part of both passes.

    Examples
    --------
    >>> from netplan.performance.mapping.partitions import ChipResources
    >>> from netplan.workloads.kernel_graph import Kernel
    >>> kernels = [Kernel("a", "gemm", 1, 1, 2, 4.0, 3.0), Kernel("b", "simd", 1, 1, 2)]
    >>> graph, chip = KernelGraph.of(kernels, [("a", "b")]), ChipResources(0, 8.0, 1.0)
    >>> problem = FusionProblem(graph, chip, None, np.array([1.0, 2.0]), np.zeros(2), 1)
    >>> given_partitions(problem, [("a",), ("b",)]).interval_s
    11.0
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
    timed = partition_times(problem, members)
    parts_of_both = of_both_passes(graph, members) & ~members.all(axis=1)
    if parts_of_both.any() and not problem.parts_share:
        raise InputError(
            "--cut: kernels of both passes share a partition of all kernels or none, for one that"
            " leaves the chip takes what it keeps with it: cut between them"
        )
    for index in np.flatnonzero(~timed.fits).tolist():
        names = ", ".join(partitions[index])
        raise InputError(
            f"--cut: {names} do not run together: they need {timed.sram_bytes[index] / 1e6:,.1f} MB"
            f" of SRAM, the chip has {problem.chip.sram_bytes / 1e6:,.1f} MB, and"
            f" {timed.tiles[index]:,} of {problem.chip.tiles:,} compute tiles: cut them apart"
        )
    return Fusion(problem, members, exact=False, considered=0)


def _check_order(graph: KernelGraph, members: Bools) -> None:
    """Refuse partitions that need what a later one makes."""
    partition = members.argmax(axis=0)
    late = np.flatnonzero(partition[graph.source] > partition[graph.target])
    if len(late):
        source, target = graph.source[late[0]], graph.target[late[0]]
        raise InputError(
            f"--cut: {graph.names[target]} needs {graph.names[source]}, which stands in a later"
            " partition: order them as the results flow"
        )
