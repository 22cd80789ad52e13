"""Where jobs stand on a torus of cubes: boxes of neighbours, or any cubes behind circuit switches.

A node is a cube of chips (4 x 4 x 4 of TPU v4: Jouppi et al., arXiv:2304.01433). A job of at most
its chips takes a part of one, of the fullest that holds it; a larger one takes whole cubes: of all
boxes of so many cubes the one with the least surface, in any orientation. Where no box of the grid
has so many cubes it takes the next number that has one.

========  ======================================================================================
cube      of the free boxes the one with the most busy or wall faces; then the lowest corner (x, y,
          z), then the first orientation. A box passes the grid's end only where its rings close
cube-ocs  any free cubes, the lowest: circuit switches join them to a torus of that shape
========  ======================================================================================

A job has the links of its box for itself, so that none slows another.
"""

from collections.abc import Iterator
from functools import cache
from itertools import permutations, product
from math import inf, prod
from typing import TypeVar

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.simulation.job_places import JobPlace, Occupancy

ValuesT = TypeVar("ValuesT", Bools, Floats)
Box = tuple[int, int, int]
"""Cubes along each axis [1]."""


@cache
def box_of(cubes: int, grid: Box) -> Box | None:
    """The box of least surface with so many cubes that a grid holds; None if there is none.

    Parameters
    ----------
    cubes
        That it has [1].
    grid
        Cubes of the whole torus along each axis [1].

    Returns
    -------
    tuple of int or None
        Its sides, the shortest first [1].

    Examples
    --------
    >>> [box_of(cubes, (4, 4, 4)) for cubes in (4, 8, 16, 5)]
    [(1, 2, 2), (2, 2, 2), (2, 2, 4), None]
    """
    sides = [side for side in range(1, max(grid) + 1) if cubes % side == 0]
    boxes = [
        (a, b, cubes // (a * b))
        for a, b in product(sides, sides)
        if cubes % (a * b) == 0 and a <= b <= cubes // (a * b)
    ]
    fitting = [box for box in boxes if orientations(box, grid)]
    return min(
        fitting, key=lambda box: (box[0] * (box[1] + box[2]) + box[1] * box[2], box), default=None
    )


@cache
def orientations(box: Box, grid: Box) -> tuple[Box, ...]:
    """Ways to turn a box so that it fits into a grid, in order.

    Parameters
    ----------
    box, grid
        Sides [1].

    Returns
    -------
    tuple of tuple of int
        Sides along each axis [1].

    Examples
    --------
    >>> orientations((1, 2, 4), (2, 2, 4))
    ((1, 2, 4), (2, 1, 4))
    """
    turned = sorted({(a, b, c) for a, b, c in permutations(box)})
    return tuple(
        sides
        for sides in turned
        if all(side <= most for side, most in zip(sides, grid, strict=True))
    )


@cache
def _ahead(length: int, step: int) -> Ints:
    """Places so many steps ahead of each along an axis, round its end, shape (length,)."""
    return (np.arange(length) + step) % length


def _sums(values: Ints, sides: Box) -> Ints:
    """Sum over the box that begins at every place, round the ends, shape of the grid."""
    for axis, side in enumerate(sides):
        total = values.copy()
        for step in range(1, side):
            total += np.take(values, _ahead(values.shape[axis], step), axis)
        values = total
    return values


def _largest(values: ValuesT, sides: Box) -> ValuesT:
    """Largest value of the box that begins at every place, round the ends, shape of the grid."""
    for axis, side in enumerate(sides):
        have = 1
        while have < side:
            step = min(have, side - have)
            ahead = np.take(values, _ahead(values.shape[axis], step), axis)
            values = np.maximum(values, ahead)
            have += step
    return values


@cache
def _corners(grid: Box, sides: Box, *, wraps: bool) -> Bools:
    """Places at which a box may begin, each box once, shape of the grid."""
    allowed = np.ones(grid, bool)
    for axis, (most, side) in enumerate(zip(grid, sides, strict=True)):
        last = most - side + 1
        if side == most or not wraps:
            allowed &= (np.arange(most) < last).reshape([-1 if i == axis else 1 for i in range(3)])
    return allowed


def free_boxes(free: Bools, box: Box, *, wraps: bool) -> Iterator[tuple[Box, Bools]]:
    """Where a box is free, by its orientations.

    Parameters
    ----------
    free
        Which cubes are, shape of the grid.
    box
        Its sides [1].
    wraps
        Whether rings close, so that a box may pass the grid's end.

    Yields
    ------
    tuple
        Sides along each axis, and whether the box is free that begins at each cube.

    Examples
    --------
    A slab of half a grid of 4 x 4 x 4 beside one busy cube begins at 2 of 4 places of each axis.

    >>> free = np.ones((4, 4, 4), bool)
    >>> free[0, 0, 0] = False
    >>> [int(begins.sum()) for _, begins in free_boxes(free, (2, 4, 4), wraps=True)]
    [2, 2, 2]
    """
    x, y, z = free.shape
    grid = x, y, z
    for sides in orientations(box, grid):
        yield sides, _corners(grid, sides, wraps=wraps) & ~_largest(~free, sides)


def _faces(busy: Ints, sides: Box, *, wraps: bool) -> Ints:
    """Busy cubes or walls at the faces of the box that begins at every place, shape of the grid."""
    grid = busy.shape
    around = np.zeros(grid, np.int64)
    for axis, side in enumerate(sides):
        face = [1 if i == axis else length for i, length in enumerate(sides)]
        area = prod(face)
        layer = _sums(busy, (face[0], face[1], face[2]))
        place = np.arange(grid[axis]).reshape([-1 if i == axis else 1 for i in range(3)])
        before, after = np.roll(layer, 1, axis), np.roll(layer, -side, axis)
        if not wraps:
            before = np.where(place == 0, area, before)
            after = np.where(place + side == grid[axis], area, after)
        if side < grid[axis] or not wraps:
            around += before + after
    return around


class CubeOccupancy(Occupancy):
    """Chips of a torus of cubes that are free.

    Examples
    --------
    >>> torus = CubeOccupancy((4, 4, 4), 64)
    >>> torus.take(torus.place(20 * 64))
    >>> torus.place(32 * 64).nodes[:4].tolist(), torus.place(48 * 64)
    ([32, 33, 34, 35], None)
    """

    def __init__(
        self,
        grid: Box,
        chips: int,
        *,
        joined: bool = False,
        wraps: bool = True,
        present: Bools | None = None,
    ) -> None:
        """All chips are free.

        Parameters
        ----------
        grid
            Cubes along each axis [1].
        chips
            Of a cube [1].
        joined
            Whether circuit switches join any cubes.
        wraps
            Whether rings close.
        present
            Which cubes there are, shape (cubes,).
        """
        there = None if present is None else present.reshape(1, -1)
        super().__init__(1, prod(grid), chips, "packed", present=there)
        self._grid, self._joined, self._wraps = grid, joined, wraps

    def nodes_of(self, gpus: Ints) -> Ints:
        """Whole cubes that jobs take, with those that fill up a box; 0 of parts of one.

        Parameters
        ----------
        gpus
            Chips that each asks for, shape (jobs,) [1].

        Returns
        -------
        ndarray
            Shape (jobs,) [1].
        """
        distinct, where = np.unique(super().nodes_of(gpus), return_inverse=True)
        cubes = [self._cubes(int(need)) for need in distinct]
        return np.array(cubes, np.int64)[where].reshape(np.shape(gpus))

    def _cubes(self, need: int) -> int:
        """Cubes that a job takes of those that it needs; more than all if it never fits [1]."""
        if self._joined or not need:
            return need
        return next(
            (cubes for cubes in range(need, prod(self._grid) + 1) if box_of(cubes, self._grid)),
            prod(self._grid) + 1,
        )

    def most(self, gpus: int) -> int:
        """As of :class:`Occupancy`, with the cubes that fill up a box.

        Parameters
        ----------
        gpus
            Chips that it asks for [1].

        Returns
        -------
        int
            Chips that it takes; 0 if it never fits [1].
        """
        if gpus <= self.gpus:
            return gpus
        cubes = int(self.nodes_of(np.array([gpus]))[0])
        there = np.ones(self.free.size, bool)
        there[self._absent] = False
        return cubes * self.gpus if self._holds(cubes, there) else 0

    def fits(self, gpus: Ints) -> Bools:
        """Whether jobs would find a place now, each alone.

        Parameters
        ----------
        gpus
            Chips that each asks for, shape (jobs,) [1].

        Returns
        -------
        ndarray
            Shape (jobs,).
        """
        cubes = self.nodes_of(gpus)
        fitting: Bools = np.where(cubes == 0, gpus <= self.free.max(), False)
        whole = self._free_cubes()
        for count in np.unique(cubes[cubes > 0]).tolist():
            fitting[cubes == count] = self._holds(count, whole)
        return fitting

    def place(self, gpus: int) -> JobPlace | None:
        """Where a job would stand; None if it does not fit.

        Parameters
        ----------
        gpus
            Chips that it asks for [1].

        Returns
        -------
        JobPlace or None
            Its cubes.
        """
        whole = self._free_cubes()
        if gpus <= self.gpus:
            return self._part(gpus, whole)
        cubes = int(self.nodes_of(np.array([gpus]))[0])
        if cubes > whole.sum():
            return None
        if self._joined:
            return self.place_on(np.flatnonzero(whole)[:cubes])
        chosen = self._tightest(cubes, whole)
        return None if chosen is None else self.place_on(chosen)

    def _free_cubes(self) -> Bools:
        """Cubes that are free as a whole, shape (cubes,)."""
        whole: Bools = self.free.reshape(-1) == self.gpus
        return whole

    def _part(self, gpus: int, whole: Bools) -> JobPlace | None:
        """A part of the fullest cube that has so many chips; of free ones the tightest."""
        node = self._part_of_a_node(gpus)
        if node is not None and whole[node] and not self._joined:
            chosen = self._tightest(1, whole)
            node = node if chosen is None else int(chosen[0])
        if node is None:
            return None
        return JobPlace(np.array([node]), gpus, np.zeros(1, np.int64), np.ones(1, np.int64))

    def _holds(self, cubes: int, whole: Bools) -> bool:
        """Whether a job of so many cubes fits beside those that are not whole."""
        if cubes > whole.sum():
            return False
        box = None if self._joined else box_of(cubes, self._grid)
        if box is None:
            return self._joined
        free = whole.reshape(self._grid)
        return any(begins.any() for _, begins in free_boxes(free, box, wraps=self._wraps))

    def _tightest(self, cubes: int, whole: Bools) -> Ints | None:
        """Cubes of the free box with the most busy or wall faces; None without one."""
        box = box_of(cubes, self._grid)
        if box is None:
            return None
        free = whole.reshape(self._grid)
        best: tuple[int, int, int] | None = None
        sides_of: list[Box] = []
        for turn, (sides, begins) in enumerate(free_boxes(free, box, wraps=self._wraps)):
            sides_of.append(sides)
            corners = np.flatnonzero(begins)
            if not len(corners):
                continue
            faces = _faces((~free).astype(np.int64), sides, wraps=self._wraps).reshape(-1)[corners]
            first = int(faces.argmax())
            known = (-int(faces[first]), int(corners[first]), turn)
            best = known if best is None else min(best, known)
        if best is None:
            return None
        corner = np.unravel_index(best[1], self._grid)
        axes = [
            (int(begin) + np.arange(side)) % most
            for begin, side, most in zip(corner, sides_of[best[2]], self._grid, strict=True)
        ]
        return np.ravel_multi_index(np.ix_(*axes), self._grid).reshape(-1)

    def _whole_after(self, need: int, whole_s: Floats) -> float:
        """When so many cubes are whole for one job, by the times when each is [s]."""
        cubes = self._cubes(need)
        if self._joined:
            return float(np.partition(whole_s, cubes - 1)[cubes - 1])
        box = box_of(cubes, self._grid)
        if box is None:
            return inf
        times = whole_s.reshape(self._grid)
        return min(
            float(_largest(times, sides)[_corners(self._grid, sides, wraps=self._wraps)].min())
            for sides in orientations(box, self._grid)
        )
