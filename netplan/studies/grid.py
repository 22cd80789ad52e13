"""From axes and conditions to points: a table of positions, one row a point.

A point is found by its index without making the others: the grid holds for every point the step of
every axis, as small integers, and makes the values when they are asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.studies.axes import Axis, grid_size, shorter
from netplan.studies.expressions import parse_expression
from netplan.studies.points import Point, Scalar

MAX_POINTS = 5_000_000
OFF = -1
"""Step of an axis whose condition does not hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The points of a study.

    Parameters
    ----------
    axes
        Axes in order; the last one varies fastest.
    fixed
        Inputs that stay.
    steps
        Step of each axis, -1 where its condition does not hold, shape (points, axes).
    conditions
        Expressions that every point meets.
    """

    axes: tuple[Axis, ...]
    fixed: Mapping[str, Scalar]
    steps: NDArray[np.int32]
    conditions: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Callable[..., "Grid"], tuple[object, ...]]:
        """Pickle the axes and not the points: a worker lays them out itself, once."""
        return make_grid, (self.axes, dict(self.fixed), self.conditions)

    def __len__(self) -> int:
        """Number of points [1]."""
        return len(self.steps)

    def points(self, indices: Sequence[int]) -> list[Point]:
        """Points of these indices, in this order."""
        rows = [axis.rows for axis in self.axes]
        found = []
        for index in indices:
            inputs = dict(self.fixed)
            for axis, values, step in zip(self.axes, rows, self.steps[index].tolist(), strict=True):
                chosen = (axis.otherwise,) if step == OFF else values[step]
                inputs.update(zip(axis.names, chosen, strict=True))
            found.append(Point(index, inputs))
        return found


def make_grid(
    axes: tuple[Axis, ...], fixed: Mapping[str, Scalar], conditions: Sequence[str] = ()
) -> Grid:
    """Lay out the points that meet all conditions.

    Parameters
    ----------
    axes, fixed
        What varies and what stays.
    conditions
        Expressions over the inputs; a point that fails one is left out.

    Raises
    ------
    InputError
        If the grid is too large, or no point is left.

    Examples
    --------
    >>> axes = (Axis(input="gpus", values=(16, 64)), Axis(input="hb_size", values=(8, 32)))
    >>> grid = make_grid(axes, {"radix": 64}, ("hb_size <= gpus",))
    >>> [point.inputs["hb_size"] for point in grid.points(range(len(grid)))]
    [8, 8, 32]
    """
    size = grid_size(axes)
    if size > MAX_POINTS:
        longest = ", ".join(f"{name} {count:,}" for name, count in shorter(axes).items())
        raise InputError(
            f"a study of {size:,} points is too large, at most {MAX_POINTS:,}: take fewer values"
            f" ({longest}), or vary inputs together with zip"
        )
    steps = np.zeros((1, 0), np.int32)
    for at, axis in enumerate(axes):
        steps = _extend(steps, axes[: at + 1], axis, fixed)
    columns = dict(_columns(axes, steps, fixed))
    keep = np.ones(len(steps), bool)
    for text in conditions:
        keep &= _holds(text, columns, len(steps))
    if not keep.any():
        raise InputError(f"no point of {len(steps):,} meets all conditions: relax one")
    return Grid(axes, fixed, np.ascontiguousarray(steps[keep]), tuple(conditions))


def _extend(
    steps: NDArray[np.int32], axes: tuple[Axis, ...], axis: Axis, fixed: Mapping[str, Scalar]
) -> NDArray[np.int32]:
    """Cross the points so far with one more axis; where its condition fails it has one step."""
    holds = np.ones(len(steps), bool)
    if axis.when is not None:
        holds = _holds(axis.when, dict(_columns(axes[:-1], steps, fixed)), len(steps))
    each = np.where(holds, len(axis.rows), 1)
    before = np.repeat(steps, each, axis=0)
    starts = np.repeat(np.cumsum(each) - each, each)
    step = np.arange(len(before)) - starts
    step[~np.repeat(holds, each)] = OFF
    return np.column_stack([before, step]).astype(np.int32)


def _columns(
    axes: tuple[Axis, ...], steps: NDArray[np.int32], fixed: Mapping[str, Scalar]
) -> Iterator[tuple[str, Scalar | NDArray[np.generic]]]:
    """Every input as a column or a single value."""
    yield from fixed.items()
    for at, axis in enumerate(axes):
        for place, name in enumerate(axis.names):
            values = [row[place] for row in axis.rows]
            values.append(axis.otherwise)  # found by the step -1
            numeric = all(isinstance(value, (int, float)) for value in values[:-1])
            known = values[-1] is not None or axis.when is None
            if numeric and known:
                table = np.array([*values[:-1], values[-1] or 0])
            else:
                table = np.array(values, object)
            yield name, table[steps[:, at]]


def _holds(
    text: str, columns: Mapping[str, Scalar | NDArray[np.generic]], count: int
) -> NDArray[np.bool_]:
    """Whether a condition holds, point by point."""
    expression = parse_expression(text)
    for name in sorted(expression.names):
        if name not in columns:
            raise unknown_name(f"condition {text!r}: input", name, list(columns))
    return np.broadcast_to(np.asarray(expression(columns), bool), (count,))
