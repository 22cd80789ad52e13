"""LINPACK on a grid of chips: all steps at once.

A matrix of n x n lies on a grid of X x Y chips. Step i of n/b leaves a side of n - i b, of which a
chip has P = ceil(side / X) rows and Q = ceil(side / Y) columns, and runs four kernels together:

========  =====================  =======================================================
FACT      gemm (P, b, b)         point to point, w b b bytes
BCAST     -                      broadcast, w P b bytes
SWAP      -                      point to point, w Q b bytes
UPDATE    gemm (P, b, Q)         -
========  =====================  =======================================================

for words of w bytes. Point-to-point messages go along dimension X of the grid, broadcasts along Y,
at the same time; a dimension of one chip costs nothing. What remains of the matrix is read and
written in every step:

    T = max(compute, 2 w P Q / memory rate, max(messages on X, broadcast on Y))

FACT and UPDATE share the tiles as in any partition (`netplan.performance.partitions`): the fewest
cycles that both can keep. Chips without tile data take their work over a share of the peak.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. VI, and the logs of its public code.
"""

from collections.abc import Sequence

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.performance.partitions import OverlappedTimes
from netplan.performance.tiles import ComputeTiles, untiled_flops_per_s
from netplan.traffic.published_topology import Dimension, collective_s
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.families import LinpackModel

STEPS_TOGETHER = 256
"""Steps whose tiles are shared out at once: their arrays stay in the cache [1]."""


class LinpackSteps(OverlappedTimes, frozen=True, eq=False):
    """What every step takes, shape (steps,) [s], and the side of the matrix that is left [1]."""

    side: Ints


def linpack_steps(
    model: LinpackModel, chip: Accelerator, grid: tuple[Dimension, Dimension]
) -> LinpackSteps:
    """All steps of a solution.

    Parameters
    ----------
    model
        The system of equations.
    chip
        The chip.
    grid
        Its dimensions X and Y.

    Raises
    ------
    InputError
        If the blocks do not divide the matrix into a number of steps that can be listed, or the
        chip's rate of computing is not known.

    Examples
    --------
    16,384 unknowns on a ring of 8 at 25 GB/s, bound by its broadcasts: 39.93 ms.

    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import WORKLOADS
    >>> grid = Dimension("ring", 1, 25e9), Dimension("ring", 8, 25e9)
    >>> found = linpack_steps(WORKLOADS.load("hpl-16k"), ACCELERATORS.load("a100-80gb"), grid)
    >>> round(1e3 * float(found.time_s.sum()), 5)
    39.92977
    """
    side, block, word = model.sides, model.block, model.word_bytes
    rows, columns = -(-side // grid[0].size), -(-side // grid[1].size)
    # Times are in proportion to sizes.
    message_s = word * block * collective_s("point_to_point", 1.0, grid[0])
    broadcast_s = word * block * collective_s("broadcast", 1.0, grid[1])
    moved = 2 * word * rows.astype(np.float64) * columns
    return LinpackSteps(
        _compute_s(rows, columns, block, chip),
        moved / chip.memory_bytes_per_s,
        np.maximum((block + columns) * message_s, rows * broadcast_s),
        side,
    )


def _compute_s(rows: Ints, columns: Ints, block: int, chip: Accelerator) -> Floats:
    """Time of FACT and UPDATE side by side, in every step [s]."""
    tiles = ComputeTiles.of(chip)
    if tiles is None:
        flops = 2.0 * rows * block * (block + columns.astype(np.float64))
        found: Floats = flops / untiled_flops_per_s(chip)
        return found
    parts = [slice(at, at + STEPS_TOGETHER) for at in range(0, len(rows), STEPS_TOGETHER)]
    cycles = [_least_cycles(rows[part], columns[part], block, tiles) for part in parts]
    return np.concatenate(cycles) / tiles.clock_hz


def _least_cycles(rows: Ints, columns: Ints, block: int, chip: ComputeTiles) -> Ints:
    """Fewest cycles that FACT and UPDATE keep together on all tiles, shape (steps,) [1]."""
    height = -(-rows // chip.vector_width)
    widths = [-(-np.full_like(rows, block) // chip.stage_height), -(-columns // chip.stage_height)]
    # Cycles come in steps of the block: never fewer than all work on all tiles, and twice that, and
    # so on, until the tiles do.
    low: Ints = np.maximum(-(-height * (widths[0] + widths[1]) // chip.tiles), 1)
    high = low.copy()
    while not (enough := _enough(height, widths, high, chip.tiles)).all():
        low = np.where(enough, low, high + 1)
        high = np.where(enough, high, 2 * high)
    while (low < high).any():
        middle = (low + high) // 2
        enough = _enough(height, widths, middle, chip.tiles)
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle + 1)
    cycles: Ints = low * block
    return cycles


def _enough(height: Ints, widths: Sequence[Ints], steps: Ints, tiles: int) -> Bools:
    """Whether the tiles keep products of so many ceilings within so many steps each, (steps,)."""
    needed = np.zeros_like(steps)
    for width in widths:
        needed += _fewest(height, width, steps, tiles)
    return needed <= tiles


def _fewest(height: Ints, width: Ints, steps: Ints, tiles: int) -> Ints:
    """Fewest tiles whose product of ceilings is at most so many steps, shape of all three."""
    stages = np.arange(1, tiles + 1)
    across = -(-width[:, None] // stages)
    down = steps[:, None] // across
    lanes = -(-height[:, None] // np.maximum(down, 1))
    needed = np.where(down > 0, lanes * stages, 2 * tiles)
    fewest: Ints = needed.min(axis=1)
    return fewest
