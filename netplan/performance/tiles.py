"""How long a kernel takes on some of a chip's compute tiles.

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
at a share of its peak (`netplan.performance.mapping`).

Source: DFModel (Ko et al., ACM TACO 2024), Sec. IV, and its public code.
"""

from math import gcd, isqrt

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.kernel_graph import Kernel, KernelGraph

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
    lanes, rows = _quotients(-(-kernel.m // chip.vector_width), chip.tiles)
    if kernel.kind == "simd":
        tiles, cycles = lanes, rows * tile_tokens
    else:
        along, inner = (tile_tokens, kernel.k) if kernel.kind == "gemm" else (kernel.n, tile_tokens)
        stages, columns = _quotients(-(-along // chip.stage_height), chip.tiles)
        enough = np.searchsorted(stages, chip.tiles // lanes, side="right")
        lane = np.repeat(np.arange(len(lanes)), enough)
        stage = np.arange(len(lane)) - np.repeat(np.cumsum(enough) - enough, enough)
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
    kept = len(parts) - 1 - thinned(ceilings[::-1], MAX_QUOTIENTS)[::-1]
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
    each = zip(graph.kernels, seen, strict=True)
    found = [kernel_choices(kernel, chip, tokens) for kernel, tokens in each]
    cycles = np.unique(np.concatenate([cycles for _, cycles in found]))
    cycles = cycles[thinned(cycles, MAX_CHOICES // len(found))]
    fewest = np.full((len(found), len(cycles)), NEVER)
    for row, (tiles, own) in zip(fewest, found, strict=True):
        # The choice with the most cycles that still are no more than these.
        at = np.searchsorted(own[::-1], cycles, side="right")
        row[at > 0] = tiles[::-1][at[at > 0] - 1]
    return TileChoices(cycles, fewest, pieces / chip.clock_hz)


def thinned(cycles: Ints, most: int) -> Ints:
    """Places of at most so many numbers of cycles, by equal ratios, both ends kept.

    Examples
    --------
    >>> thinned(np.array([1, 2, 3, 4, 90, 100]), 3)
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
