"""What kernels take that are on a chip together: the time of a partition, and what it needs.

The kernels of a *partition* pass their results on in sequence tiles; partitions run one after the
other, and what passes between them goes through memory. One takes

    T = max(slowest kernel, bytes of edges across its border / memory rate, sum of collectives)

and a set-up before it, weights / (memory rate x micro-batch) and what kernels read besides, that
nothing hides. The compute tiles of its kernels are together at most those of the chip, and its SRAM
holds their weights, two tiles of each edge across the border, and of each edge inside as many as
its ends are apart, and one more (a tile is the edge's share of one sequence tile). A kernel alone
always runs: it streams, and where its weights exceed the SRAM it reads its edges once for each
piece of them. Which partitions are the fastest is the matter of
`netplan.performance.mapping.fusion`.

Kernels of both passes may share a partition (DFModel's assignment of kernels to partitions knows no
passes). What the forward one leaves for the backward one does not pass in tiles, for the backward
pass of a sequence begins when all of its forward pass is done: the SRAM holds it whole, for every
sequence that is under way between the two (:class:`Residence`). A partition of all kernels, with
room for it in every layer of the stage, stays on the chip: it never loads its weights again.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. IV.

How long a kernel takes on some of a chip's compute tiles.

A tile multiplies V x H numbers a cycle, V (vector width) along the rows of a product, H (stage
height) along its tokens. Lanes of tiles share the rows, stages the tokens, which come in sequence
tiles of ``ts``; a simd kernel has one stage. With ceilings, in cycles for one sequence tile:

========  ==============================================
gemm      ceil(m / (lanes V)) ceil(ts / (stages H)) k
simd      ceil(m / (lanes V)) ts
update    ceil(m / (lanes V)) ceil(n / (stages H)) ts
========  ==============================================

Only the distinct values of the ceilings matter, about 2 sqrt(m / V) of them, so a kernel has some
hundred choices of tiles and cycles that no other beats in both. A chip without tile data computes
at a share of its peak (`netplan.performance.mapping.chip`).

Source: DFModel (Ko et al., ACM TACO 2024), Sec. IV, and its public code.
"""

from functools import cached_property, lru_cache
from math import gcd, isqrt

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Codes, Floats, Ints, within_runs
from netplan.errors import InputError
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.kernel_graph import Kernel, KernelGraph, KernelKind

NEVER = np.int64(1) << 40
"""Tiles of a kernel that is never so fast: more than any chip has [1]."""

MAX_CHOICES = 1 << 23
"""Tiles that a graph's kernels need at each number of cycles, at most; beyond, cycles are rounded
up by less than a thousandth [1]."""

MAX_WHOLE = 1 << 14
"""Tiles of a chip up to which every number of lanes and stages is a choice [1]."""

MAX_QUOTIENTS = 1 << 10
"""Numbers of lanes or stages of one kernel on larger chips; beyond, ceilings are rounded up [1]."""


class ComputeTiles(Struct, frozen=True):
    """The compute tiles of a chip.

    Parameters
    ----------
    tiles
        How many there are [1].
    vector_width, stage_height
        Multiplications of one tile in a cycle, V by H [1].
    clock_hz
        Cycles a second [Hz].

    Examples
    --------
    >>> ComputeTiles(640, 32, 6, 1.25e9).flops_per_s / 1e12
    307.2
    """

    tiles: int
    vector_width: int
    stage_height: int
    clock_hz: float

    @classmethod
    def of(cls, chip: Accelerator) -> "ComputeTiles | None":
        """The tiles of a chip, if its file has them."""
        given = chip.tiles, chip.vector_width, chip.stage_height, chip.clock_hz
        tiles, width, height, clock = given
        if tiles is None or width is None or height is None or clock is None:
            return None
        return cls(tiles, width, height, clock)

    @property
    def flops_per_s(self) -> float:
        """Peak, 2 V H tiles clock [FLOP/s]."""
        return 2 * self.vector_width * self.stage_height * self.tiles * self.clock_hz


def untiled_flops_per_s(chip: Accelerator) -> float:
    """Rate of a chip without tile data, a share of its peak [FLOP/s].

    Raises
    ------
    InputError
        If its file does not say the share.

    Examples
    --------
    >>> from netplan.records import replace
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> a100 = ACCELERATORS.load("a100-80gb")
    >>> round(untiled_flops_per_s(replace(a100, compute_utilisation=0.9)) / 1e12, 1)
    280.8
    """
    if chip.compute_utilisation is None:
        raise InputError(
            f"{chip.name} has neither compute tiles nor a compute_utilisation: give one, such as"
            " --set accelerator.compute_utilisation=0.9"
        )
    return chip.compute_utilisation * chip.tensor_flops_per_s


class TileChoices(Struct, frozen=True, eq=False):
    """Choices of tiles for all kernels of a graph, on one scale of cycles.

    Parameters
    ----------
    cycles
        Every number of cycles that some kernel may take for a sequence tile, rising, shape
        (choices,) [1].
    fewest
        Fewest tiles with which each kernel takes no more, shape (kernels, choices) [1].
    seconds_per_cycle
        Time of a sequence, over the cycles of one of its tiles [s].
    """

    cycles: Ints
    fewest: Ints
    seconds_per_cycle: float


def kernel_choices(kernel: Kernel, chip: ComputeTiles, tile_tokens: int) -> tuple[Ints, Ints]:
    """Tiles and cycles of the choices that no other beats: tiles rise, cycles fall.

    Examples
    --------
    A product of 64 rows on tiles of 16 x 16: 4 x 2 x 8 cycles on one, 8 on eight of them.

    >>> chip = ComputeTiles(8, 16, 16, 1e9)
    >>> tiles, cycles = kernel_choices(Kernel("q", "gemm", 64, 8, 32), chip, 32)
    >>> tiles.tolist(), cycles.tolist()
    ([1, 2, 4, 8], [64, 32, 16, 8])
    """
    return _choices(kernel.kind, kernel.m, kernel.k, kernel.n, chip, tile_tokens)


# Most kernels of a layer are alike, and so are those of many layouts.
@lru_cache(maxsize=1024)
def _choices(
    kind: KernelKind, m: int, k: int, n: int, chip: ComputeTiles, tile_tokens: int
) -> tuple[Ints, Ints]:
    """Choices of a kernel by its sizes."""
    lanes, rows = _quotients(-(-m // chip.vector_width), chip.tiles)
    if kind == "simd":
        tiles, cycles = lanes, rows * tile_tokens
    else:
        along, inner = (tile_tokens, k) if kind == "gemm" else (n, tile_tokens)
        stages, columns = _quotients(-(-along // chip.stage_height), chip.tiles)
        enough = np.searchsorted(stages, chip.tiles // lanes, side="right")
        lane = np.repeat(np.arange(len(lanes)), enough)
        stage = within_runs(enough)
        tiles, cycles = lanes[lane] * stages[stage], rows[lane] * columns[stage] * inner
    order = np.lexsort((cycles, tiles))
    best = np.minimum.accumulate(cycles[order])
    kept = order[np.diff(best, prepend=best[0] + 1) < 0]
    return tiles[kept], cycles[kept]


def _quotients(number: int, most: int) -> tuple[Ints, Ints]:
    """Distinct values of ceil(number / parts) for 1 to ``most`` parts, with the fewest parts."""
    root = isqrt(number) + 1
    if most <= 2 * root:
        parts = np.arange(1, most + 1)
    else:
        parts = np.unique(-(-number // np.arange(1, root + 1)))
        parts = np.unique(np.concatenate([np.arange(1, root + 1), parts[parts <= most]]))
    ceilings = -(-number // parts)
    first = np.diff(ceilings, prepend=ceilings[0] + 1) < 0
    parts, ceilings = parts[first], ceilings[first]
    if most <= MAX_WHOLE:
        return parts, ceilings
    kept = len(parts) - 1 - few_cycles(ceilings[::-1], MAX_QUOTIENTS)[::-1]
    return parts[kept], ceilings[kept]


def tile_choices(graph: KernelGraph, chip: ComputeTiles, tile_tokens: int) -> TileChoices:
    """Choices of tiles for all kernels of a graph.

    Parameters
    ----------
    graph
        The kernels.
    chip
        The chip.
    tile_tokens
        Tokens of a sequence tile, ts, where kernels see the most [1].

    Raises
    ------
    InputError
        If the tokens of a kernel are no whole number of sequence tiles.

    Examples
    --------
    Two sequence tiles of 16 tokens, on four compute tiles of 16 x 16: the product may take 32 or 8
    cycles of each, the residual sum 64, 32 or 16, and both together 32 on one tile and two.

    >>> kernels = [Kernel("q", "gemm", 64, 8, 32), Kernel("add", "simd", 64, 1, 32)]
    >>> graph = KernelGraph.of(kernels, [("q", "add")])
    >>> found = tile_choices(graph, ComputeTiles(4, 16, 16, 1e9), 16)
    >>> found.cycles.tolist()
    [8, 16, 32, 64]
    >>> np.where(found.fewest < NEVER, found.fewest, -1).tolist()
    [[4, 2, 1, 1], [-1, 4, 2, 1]]
    """
    pieces = sequence_pieces(graph, tile_tokens)
    seen = [kernel_tokens(kernel) // pieces for kernel in graph.kernels]
    pairs = zip(graph.kernels, seen, strict=True)
    choices = [kernel_choices(kernel, chip, tokens) for kernel, tokens in pairs]
    cycles = np.unique(np.concatenate([cycles for _, cycles in choices]))
    cycles = cycles[few_cycles(cycles, MAX_CHOICES // len(choices))]
    fewest = np.full((len(choices), len(cycles)), NEVER)
    for row, (tiles, kernel_cycles) in zip(fewest, choices, strict=True):
        # The choice with the most cycles that still are no more than these.
        index = np.searchsorted(kernel_cycles[::-1], cycles, side="right")
        row[index > 0] = tiles[::-1][index[index > 0] - 1]
    return TileChoices(cycles, fewest, pieces / chip.clock_hz)


def few_cycles(cycles: Ints, most: int) -> Ints:
    """Places of at most so many numbers of cycles, by equal ratios, both ends kept.

    Examples
    --------
    >>> few_cycles(np.array([1, 2, 3, 4, 90, 100]), 3)
    array([0, 3, 5])
    """
    if len(cycles) <= most:
        return np.arange(len(cycles))
    ratio = np.log(cycles / cycles[0])
    part = np.ceil(ratio / (ratio[-1] / max(most - 1, 1)))
    last = np.diff(part, append=part[-1] + 1) > 0
    return np.flatnonzero(last)


def kernel_tokens(kernel: Kernel) -> int:
    """Tokens that a kernel sees: n of products and simd kernels, k of updates [1]."""
    return kernel.k if kernel.kind == "update" else kernel.n


def graph_tokens(graph: KernelGraph) -> int:
    """The most tokens that a kernel of the graph sees [1]."""
    return max(kernel_tokens(kernel) for kernel in graph.kernels)


def sequence_pieces(graph: KernelGraph, tile_tokens: int) -> int:
    """Sequence tiles that all kernels work on, of so many tokens where they see the most [1].

    Raises
    ------
    InputError
        If they do not divide the tokens of every kernel.
    """
    most = graph_tokens(graph)
    common = gcd(*(kernel_tokens(kernel) for kernel in graph.kernels))
    if not 0 < tile_tokens <= most or most % tile_tokens or common % (most // tile_tokens):
        pieces = "" if common == most else f" into no more than {common:,} equal parts"
        raise InputError(
            f"--sequence-tile {tile_tokens:,} does not divide the {most:,} tokens that kernels see"
            f"{pieces}: give a divisor"
        )
    return most // tile_tokens


ROUNDING = 1e-9
"""SRAM that partitions may need beyond what there is, as sums of it are rounded [1]."""

BOTTLENECKS = ("compute", "memory", "network")
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


class Residence(Struct, frozen=True):
    """What lies on a chip beside one layer and one sequence, if both passes share a partition.

    Parameters
    ----------
    layers
        Layers that the chip runs; they stay on it together, or take turns [1].
    sequences
        Sequences whose forward pass is done and whose backward pass is not [1].
    parts
        Whether partitions of a part of both passes are looked for, as DFModel does, which knows
        one layer and one sequence; else only one of all kernels shares the passes, since others
        would leave the chip with what they keep.
    """

    layers: int = 1
    sequences: float = 1.0
    parts: bool = False


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
    residence
        What lies beside both passes in a partition that they share; None: they share none.
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
    residence: Residence | None = None

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
        rows_s: Floats = self.graph.column("read_bytes") / self.chip.bytes_per_s
        return rows_s + self.weights * self.loading_s_per_byte

    @property
    def loading_s_per_byte(self) -> float:
        """What a byte of weights adds to a set-up [s/B]."""
        free = self.weights_in_memory_term or self.free_weights
        return 0.0 if free else 1 / (self.micro_batch * self.chip.bytes_per_s)

    @property
    def loading_s(self) -> float:
        """What all weights add to set-ups [s]."""
        return float(self.weights.sum()) * self.loading_s_per_byte

    @property
    def parts_share(self) -> bool:
        """Whether partitions of a part of both passes are looked for."""
        return self.residence is not None and self.residence.parts

    @cached_property
    def border_bytes(self) -> Floats:
        """All edges at each kernel, and what it moves besides, shape (kernels,) [B]."""
        graph = self.graph
        ends = np.concatenate([graph.source, graph.target])
        edges = np.bincount(ends, np.tile(graph.edge_bytes, 2), graph.count)
        return edges + graph.column("outside_bytes")

    @cached_property
    def inside_sram_bytes(self) -> Floats:
        """SRAM of each edge inside a partition, shape (edges,) [B].

        Tiles, as many as its ends are apart and one more; from pass to pass all of it, for every
        sequence under way.
        """
        graph = self.graph
        apart = graph.depth[graph.target] - graph.depth[graph.source]
        tiles = self.tile_share * (apart + 1)
        sequences = self.residence.sequences if self.residence else 0.0
        across = graph.backward[graph.target] & ~graph.backward[graph.source]
        return np.asarray(graph.edge_bytes * np.where(across, sequences, tiles))

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
    >>> found.time_s, [BOTTLENECKS[one] for one in found.bottleneck]
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
    def bottleneck(self) -> Codes:
        """What each waits for, a place in ``BOTTLENECKS``, same shape."""
        parts = np.stack([self.compute_s, self.memory_s, self.network_s])
        return np.asarray(parts.argmax(axis=0).astype(np.int8))


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
    setup_s = members @ problem.setup_s
    whole = members.all(axis=1)
    stays, layers = np.zeros(len(members), bool), np.ones(len(members))
    if problem.residence is not None:
        together = problem.residence.layers
        stays = whole & (together * sram <= chip.sram_bytes * (1 + ROUNDING))
        layers[stays] = together
        setup_s[stays] -= problem.loading_s
    moved = edges * memory_passes(weights, alone, chip.sram_bytes)
    moved += np.where(stays, 0.0, weights) if problem.weights_in_memory_term else 0.0
    compute_s, tiles, enough = _compute(problem, members, layers)
    return PartitionTimes(
        compute_s=compute_s,
        memory_s=moved / chip.bytes_per_s,
        network_s=members @ problem.network_s,
        setup_s=setup_s,
        tiles=tiles,
        sram_bytes=layers * sram,
        fits=enough
        & (alone | (sram <= chip.sram_bytes * (1 + ROUNDING)))
        & (~of_both_passes(graph, members) | stays | problem.parts_share),
    )


def of_both_passes(graph: KernelGraph, members: Bools) -> Bools:
    """Which partitions have kernels of both passes.

    Parameters
    ----------
    graph
        The kernels.
    members
        Kernels of each partition, shape (partitions, kernels).

    Returns
    -------
    numpy.ndarray
        Shape (partitions,).

    Examples
    --------
    >>> from netplan.workloads.kernel_graph import Kernel
    >>> kernels = [Kernel(name, "simd", 8, 1, 4, backward=name == "b") for name in "ab"]
    >>> of_both_passes(KernelGraph.of(kernels, []), np.array([[True, False], [True, True]]))
    array([False,  True])
    """
    forward: Bools = np.any(members & ~graph.backward, axis=1)
    backward: Bools = np.any(members & graph.backward, axis=1)
    return forward & backward


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


def _compute(problem: FusionProblem, members: Bools, layers: Floats) -> tuple[Floats, Ints, Bools]:
    """Time of the slowest kernel when tiles are shared as well as can be, tiles, whether enough.

    Layers that stay on the chip together share the tiles, and take their time for all of them.
    """
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
        enough = layers * (fewest[middle] * whole).sum(axis=1) <= problem.chip.tiles
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + 1, high))
    tiles: Ints = (layers * (fewest[low] * whole).sum(axis=1)).astype(np.int64)
    compute_s = choices.cycles[low].astype(np.float64) * choices.seconds_per_cycle / layers
    return compute_s, tiles, tiles <= problem.chip.tiles
