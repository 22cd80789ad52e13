"""Boxes of a torus of cubes: counts by hand, and beside a plain look at every place."""

import csv
from functools import cache
from itertools import chain, combinations, permutations, product
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from netplan.simulation.job_boxes import Box, CubeOccupancy, box_of, free_boxes

CUBE = (4, 4, 4)


def boxes(grid: Box, box: Box, *, wraps: bool) -> set[frozenset[Box]]:
    """Cubes of every box of a shape in a grid, place by place."""
    places: set[frozenset[Box]] = set()
    for sides in set(permutations(box)):
        if any(side > most for side, most in zip(sides, grid, strict=True)):
            continue
        for corner in product(*map(range, grid)):
            ends = [begin + side for begin, side in zip(corner, sides, strict=True)]
            if not wraps and any(end > most for end, most in zip(ends, grid, strict=True)):
                continue
            along_x, along_y, along_z = (
                [(begin + step) % most for step in range(side)]
                for begin, side, most in zip(corner, sides, grid, strict=True)
            )
            places.add(frozenset(product(along_x, along_y, along_z)))
    return places


@pytest.mark.parametrize("wraps", [True, False])
@pytest.mark.parametrize("box", [(1, 1, 4), (2, 2, 2), (1, 4, 4), (2, 2, 4), (3, 4, 4), (4, 4, 4)])
def test_an_empty_grid_has_each_box_once(box: Box, *, wraps: bool) -> None:
    begins = free_boxes(np.ones(CUBE, bool), box, wraps=wraps)
    assert sum(int(here.sum()) for _, here in begins) == len(boxes(CUBE, box, wraps=wraps))


def test_blocks_fit_beside_busy_cubes_as_often_as_the_specification_counts() -> None:
    """All sets of 1 to 4 of 64 cubes; half a torus beside 2 fails only in 32 sets of 2,016.

    A block fits where none of its places has a busy cube, as the test below has it place by place.
    """
    with (Path(__file__).parents[1] / "golden" / "torus_fit.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    counts = {}
    for row in rows:
        busy = int(row["busy_cubes"])
        sets = busy_sets(busy)
        assert len(sets) == comb(64, busy) == int(row["busy_sets"])
        a, b, c = (int(side) for side in row["shape"].split("x"))
        assert a * b * c == int(row["cubes"])
        placed = blocks((a, b, c), wraps=row["wrap"] == "yes")
        assert len(placed) == int(row["placements"])
        fits = np.zeros(len(sets), bool)
        for block in placed:
            fits |= sets & block == 0
        counts[row["shape"], row["wrap"], busy] = int(fits.sum())
        assert fits.sum() == int(row["fits"])
        assert int(row["fits_with_ocs"]) == (len(sets) if 64 - busy >= a * b * c else 0)
    assert len(rows) == 44
    assert counts["2x4x4", "yes", 3] == 33_920
    pairs = [{first, second} for first, second in combinations(range(64), 2)]
    far = [
        free_boxes(~np.isin(np.arange(64), [*pair]).reshape(CUBE), (2, 4, 4), wraps=True)
        for pair in pairs
    ]
    assert sum(not any(here.any() for _, here in begins) for begins in far) == 32


@cache
def busy_sets(busy: int) -> NDArray[np.uint64]:
    """All sets of so many of 64 cubes, as bits."""
    flat = np.fromiter(chain.from_iterable(combinations(range(64), busy)), np.uint64)
    sets: NDArray[np.uint64] = np.bitwise_or.reduce(np.uint64(1) << flat.reshape(-1, busy), axis=1)
    return sets


def blocks(shape: Box, *, wraps: bool) -> list[np.uint64]:
    """Cubes of every place of a block in an empty torus of 4 x 4 x 4, as bits."""
    placed = []
    for sides, begins in free_boxes(np.ones(CUBE, bool), shape, wraps=wraps):
        for corner in np.argwhere(begins).tolist():
            axes = [
                (first + np.arange(side)) % 4 for first, side in zip(corner, sides, strict=True)
            ]
            cubes = np.ravel_multi_index(np.ix_(*axes), CUBE).reshape(-1)
            placed.append(np.bitwise_or.reduce(np.uint64(1) << cubes.astype(np.uint64)))
    return placed


@given(
    grid=st.tuples(*[st.integers(1, 4)] * 3),
    cubes=st.integers(1, 12),
    busy=st.sets(st.integers(0, 63), max_size=20),
    wraps=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_job_fits_where_a_plain_look_finds_a_box(
    grid: Box, cubes: int, busy: set[int], *, wraps: bool
) -> None:
    size = int(np.prod(grid))
    torus = CubeOccupancy(grid, 8, wraps=wraps)
    for cube in sorted(busy):
        if cube < size:
            torus.free.reshape(-1)[cube] = 0
    torus.whole[:] = int((torus.free == 8).sum())
    need = int(torus.nodes_of(np.array([8 * cubes + (cubes == 1)]))[0])
    box = box_of(need, grid) if need <= size else None
    place = torus.place(8 * cubes + (cubes == 1))
    numbers = np.arange(size).reshape(grid)
    every = boxes(grid, box, wraps=wraps) if box else set()
    free = [cells for cells in every if not busy & {int(numbers[cell]) for cell in cells}]
    assert (place is not None) == bool(free)
    if place is not None:
        cells = frozenset(tuple(map(int, np.argwhere(numbers == node)[0])) for node in place.nodes)
        assert cells in free


@given(
    grid=st.tuples(*[st.integers(1, 4)] * 3),
    cubes=st.integers(2, 12),
    ends=st.lists(st.integers(0, 9), min_size=64, max_size=64),
    wraps=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_a_box_is_free_when_the_last_job_of_its_cubes_ends(
    grid: Box, cubes: int, ends: list[int], *, wraps: bool
) -> None:
    """Cubes that end at 0 are free now; the plain look tries every box."""
    size = int(np.prod(grid))
    torus = CubeOccupancy(grid, 8, wraps=wraps)
    held = np.flatnonzero(ends[:size])
    torus.free.reshape(-1)[held] = 0
    need = int(torus.nodes_of(np.array([8 * cubes]))[0])
    box = box_of(need, grid) if need <= size else None
    numbers = np.arange(size).reshape(grid)
    every = boxes(grid, box, wraps=wraps) if box else set()
    times = [max(ends[int(numbers[cell])] for cell in cells) for cells in every]
    given_back = np.full(len(held), 8), np.array(ends[:size], float)[held]
    assert torus.fits_after(8 * cubes, held, *given_back) == min(times, default=np.inf)


def test_numbers_without_a_box_take_the_next_one() -> None:
    """5 and 7 cubes are in no box of 4 x 4 x 4: 6 are 1 x 2 x 3, 8 are 2 x 2 x 2."""
    torus = CubeOccupancy(CUBE, 64)
    asked = np.array([5 * 64, 7 * 64, 6 * 64, 64, 65])
    assert torus.nodes_of(asked).tolist() == [6, 8, 6, 0, 2]
    joined = CubeOccupancy(CUBE, 64, joined=True)
    assert joined.nodes_of(asked).tolist() == [5, 7, 6, 0, 2]
    assert [torus.most(64 * 64), torus.most(65 * 64)] == [4096, 0]


def test_a_box_goes_where_most_is_busy() -> None:
    """One busy cube: the next goes to its neighbour, the lowest of those along z."""
    torus = CubeOccupancy(CUBE, 64)
    first = torus.place(64)
    assert first is not None
    torus.take(first)
    second = torus.place(33)
    assert second is not None
    assert (first.nodes.tolist(), second.nodes.tolist()) == ([0], [1])
    # Without rings a corner has three walls: the far corner beats the neighbour's one busy face.
    walled = CubeOccupancy((4, 1, 1), 64, wraps=False)
    walled.take(walled.place(64))  # type: ignore[arg-type]
    third = walled.place(64)
    assert third is not None
    # Cube 1 has a busy face and four walls, cube 3 five walls: the lower wins the tie.
    assert third.nodes.tolist() == [1]
