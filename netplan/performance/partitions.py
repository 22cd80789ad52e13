"""What kernels take that are on a chip together: the time of a partition, and what it needs.

The kernels of a *partition* pass their results on in sequence tiles; partitions run one after the
other, and what passes between them goes through memory. One takes

    T = max(slowest kernel, bytes of edges across its border / memory rate, sum of collectives)

and a set-up before it, weights / (memory rate x micro-batch) and what kernels read besides, that
nothing hides. The compute tiles of its kernels are together at most those of the chip, and its SRAM
holds their weights, two tiles of each edge across the border, and of each edge inside as many as
its ends are apart, and one more (a tile is the edge's share of one sequence tile). A kernel alone
always runs: it streams, and where its weights exceed the SRAM it reads its edges once for each
piece of them. Which partitions are the fastest is the matter of `netplan.performance.fusion`.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. IV.
"""

from functools import cached_property

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Codes, Floats, Ints
from netplan.performance.tiles import TileChoices, sequence_pieces
from netplan.workloads.kernel_graph import KernelGraph

ROUNDING = 1e-9
"""SRAM that partitions may need beyond what there is, as sums of it are rounded [1]."""

BINDS = ("compute", "memory", "network")
"""What a partition may wait for, by its code."""


class ChipResources(Struct, frozen=True):
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
    sequence_tile
        Tokens that pass at a time, ts, where kernels see the most [1].
    micro_batch
        Sequences for which weights are loaded once [1].
    weights_in_memory_term
        Whether loading weights is part of the memory time, not a set-up before it (the base of
        DFModel's Table VI).
    free_weights
        Whether they load at no cost (DFModel's user guide).
    """

    graph: KernelGraph
    chip: ChipResources
    choices: TileChoices | None
    compute_s: Floats
    network_s: Floats
    sequence_tile: int
    micro_batch: int = 1
    weights_in_memory_term: bool = False
    free_weights: bool = False

    @cached_property
    def tile_share(self) -> float:
        """Share of an edge that one sequence tile is, ts / s [1]."""
        return 1 / sequence_pieces(self.graph, self.sequence_tile)

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


class OverlappedTimes(Struct, frozen=True, eq=False):
    """Times of what computes, moves and sends at once, and waits for the longest of them.

    Parameters
    ----------
    compute_s, memory_s, network_s
        All of one shape [s].

    Examples
    --------
    >>> found = OverlappedTimes(np.array([3.0, 1.0]), np.array([2.0, 1.0]), np.array([0.0, 4.0]))
    >>> found.time_s, [BINDS[one] for one in found.binds]
    (array([3., 4.]), ['compute', 'network'])
    """

    compute_s: Floats
    memory_s: Floats
    network_s: Floats

    @property
    def time_s(self) -> Floats:
        """The longest of the three, same shape [s]."""
        return np.maximum(np.maximum(self.compute_s, self.memory_s), self.network_s)

    @property
    def binds(self) -> Codes:
        """What each waits for, a place in ``BINDS``, same shape."""
        parts = np.stack([self.compute_s, self.memory_s, self.network_s])
        binds: Codes = parts.argmax(axis=0).astype(np.int8)
        return binds


class PartitionTimes(OverlappedTimes, frozen=True, eq=False):
    """What partitions take and need, one entry each.

    Parameters
    ----------
    setup_s
        What comes before each, shape (partitions,) [s].
    tiles
        Compute tiles in use; 0 without tile data [1].
    sram_bytes
        On-chip memory in use [B].
    fits
        Whether the partition runs.
    """

    setup_s: Floats
    tiles: Ints
    sram_bytes: Floats
    fits: Bools

    @property
    def interval_s(self) -> Floats:
        """T and set-up; infinite where a partition does not run, shape (partitions,) [s]."""
        return np.where(self.fits, self.time_s + self.setup_s, np.inf)


def partition_times(problem: FusionProblem, members: Bools) -> PartitionTimes:
    """What partitions take and need.

    Parameters
    ----------
    problem
        The graph on its chip.
    members
        Kernels of each partition, shape (partitions, kernels).

    Examples
    --------
    Two kernels at 1 B/s and their result of 4 B, which passes in two halves: together they move
    nothing, and hold 2 x 2 B of it beside 3 B of weights.

    >>> from netplan.workloads.kernel_graph import Kernel
    >>> kernels = [Kernel("a", "gemm", 1, 1, 2, 4.0, 3.0), Kernel("b", "simd", 1, 1, 2)]
    >>> graph = KernelGraph.of(kernels, [("a", "b")])
    >>> chip, each_s = ChipResources(0, 8.0, 1.0), np.array([1.0, 2.0])
    >>> problem = FusionProblem(graph, chip, None, each_s, np.zeros(2), sequence_tile=1)
    >>> found = partition_times(problem, np.array([[True, True], [True, False]]))
    >>> found.time_s, found.setup_s, found.sram_bytes, found.fits
    (array([3., 4.]), array([3., 3.]), array([7., 7.]), array([ True,  True]))
    """
    graph, chip = problem.graph, problem.chip
    inside = members[:, graph.source] & members[:, graph.target]
    edges = members @ problem.border_bytes - 2 * (inside @ graph.edge_bytes)
    weights = members @ problem.weights
    sram = inside @ problem.inside_sram_bytes + 2 * problem.tile_share * edges + weights
    alone = members.sum(axis=1) == 1
    moved = edges * memory_passes(weights, alone, chip.sram_bytes)
    moved += weights if problem.weights_in_memory_term else 0.0
    compute_s, tiles, enough = _compute(problem, members)
    return PartitionTimes(
        compute_s=compute_s,
        memory_s=moved / chip.bytes_per_s,
        network_s=members @ problem.network_s,
        setup_s=members @ problem.setup_s,
        tiles=tiles,
        sram_bytes=sram,
        fits=enough & (alone | (sram <= chip.sram_bytes * (1 + ROUNDING))),
    )


def memory_passes(weights: Floats, alone: Bools, sram_bytes: float) -> Floats:
    """How often partitions read their edges: kernels alone once for each SRAM full of weights.

    Examples
    --------
    >>> memory_passes(np.array([290.0, 90.0]), np.array([True, False]), 100.0)
    array([3., 1.])
    """
    if not sram_bytes:
        return np.ones(len(weights))
    return np.where(alone, np.maximum(np.ceil(weights / sram_bytes), 1.0), 1.0)


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
