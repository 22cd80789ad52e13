"""The axes of a study, and the points that they span: a table of positions, one row a point.

An axis says which inputs vary, over which values, under which condition. A point is found by its
index without making the others: the grid holds for every point the step of every axis, as small
integers, and makes the values when they are asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import isfinite, prod
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct, field
from numpy.typing import NDArray

from netplan.arrays import Bools, Indices
from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.records import Entry, PositiveFloat
from netplan.reports.expressions import key_of, parse_expression, require_expression
from netplan.reports.quantities import Scalar
from netplan.studies.points import Point

MAX_POINTS = 5_000_000
OFF = -1
"""Step of an axis whose condition does not hold."""


class Steps(Entry, frozen=True, kw_only=True):
    """A range by the number of its values, both ends included."""

    start: float = field(name="from")
    to: float
    steps: Annotated[int, Meta(ge=2, le=1_000_000)]


class LogSteps(Entry, frozen=True, kw_only=True):
    """A range with equal ratios between its values, both ends included."""

    start: PositiveFloat = field(name="from")
    to: PositiveFloat
    steps: Annotated[int, Meta(ge=2, le=1_000_000)]


class Factor(Entry, frozen=True, kw_only=True):
    """A range by a factor: 8, 16, 32 and so on, up to the end at the most."""

    start: PositiveFloat = field(name="from")
    to: PositiveFloat
    factor: Annotated[float, Meta(gt=1)]


class StudyAxis(Entry, frozen=True, kw_only=True, dict=True):
    """One axis: an input with its values, or several inputs that vary together (``zip``).

    With ``when`` the axis varies only where the condition holds; elsewhere its input is
    ``otherwise``. With ``whole`` the values of a range are rounded, and each is taken once.
    """

    input: str | None = None
    values: tuple[Scalar, ...] | None = None
    linear: Steps | None = None
    log: LogSteps | None = None
    times: Factor | None = None
    zip: dict[str, tuple[Scalar, ...]] | None = None
    whole: bool = False
    when: str | None = None
    otherwise: Scalar = None

    def __post_init__(self) -> None:
        """Refuse an axis of no kind or of several, without values, or with one twice."""
        kinds = ("values", "linear", "log", "times", "zip")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"an axis has one of {', '.join(kinds)}; got {given or 'none'}")
        if (self.zip is None) == (self.input is None):
            raise ValueError("an axis names its input, or several under zip")
        if self.zip is not None:
            lengths = {name: len(values) for name, values in self.zip.items()}
            if len(set(lengths.values())) != 1:
                raise ValueError(f"lists under zip have one length, got {lengths}")
            if self.when is not None:
                raise ValueError("when belongs to an axis of one input, not to zip")
        if not self.rows:
            raise ValueError(f"axis {self.title} has no values: give at least one")
        if len(set(self.rows)) != len(self.rows):
            raise ValueError(f"axis {self.title} has a value twice")
        if self.when is not None:
            require_expression(self.when)

    @property
    def names(self) -> tuple[str, ...]:
        """Inputs that the axis sets."""
        return tuple(self.zip) if self.zip is not None else (str(self.input),)

    @property
    def title(self) -> str:
        """The axis in a message."""
        return " with ".join(self.names)

    @cached_property
    def rows(self) -> tuple[tuple[Scalar, ...], ...]:
        """Values of the inputs at each step of the axis.

        Examples
        --------
        >>> StudyAxis(input="hb_size", times=Factor(start=2, to=10, factor=2), whole=True).rows
        ((2,), (4,), (8,))
        """
        if self.zip is not None:
            return tuple(zip(*self.zip.values(), strict=True))
        if self.values is not None:
            return tuple((value,) for value in self.values)
        return tuple((value,) for value in self._range())

    def _range(self) -> list[float] | list[int]:
        values: list[float] = []
        if self.linear is not None:
            values = np.linspace(self.linear.start, self.linear.to, self.linear.steps).tolist()
        elif self.log is not None:
            values = np.geomspace(self.log.start, self.log.to, self.log.steps).tolist()
        elif self.times is not None:
            value = self.times.start
            # A hair beyond the end: 1.1 ** 10 is no binary fraction.
            while value <= self.times.to * (1 + 1e-12) and isfinite(value):
                values.append(value)
                value *= self.times.factor
        if not self.whole:
            return values
        whole = [round(value) for value in values]
        return whole[:1] + [after for before, after in pairwise(whole) if before != after]


class Grid(Struct, frozen=True, eq=False):
    """The points of a study; the last axis varies fastest.

    Parameters
    ----------
    axes, fixed
        What varies and what stays.
    steps
        Step of each axis, -1 where its condition does not hold, shape (points, axes).
    conditions
        Expressions that every point meets.
    """

    axes: tuple[StudyAxis, ...]
    fixed: Mapping[str, Scalar]
    steps: Indices
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
        points = []
        for index in indices:
            inputs = dict(self.fixed)
            for axis, values, step in zip(self.axes, rows, self.steps[index].tolist(), strict=True):
                chosen = (axis.otherwise,) if step == OFF else values[step]
                inputs.update(zip(axis.names, chosen, strict=True))
            points.append(Point(index, inputs))
        return points


def make_grid(
    axes: tuple[StudyAxis, ...], fixed: Mapping[str, Scalar], conditions: Sequence[str] = ()
) -> Grid:
    """Lay out the points that meet all conditions, expressions over the inputs.

    Raises
    ------
    InputError
        If the grid is too large, or no point is left.

    Examples
    --------
    >>> sizes = {"gpus": (16, 64), "hb_size": (8, 32)}
    >>> axes = tuple(StudyAxis(input=name, values=of) for name, of in sizes.items())
    >>> grid = make_grid(axes, {"radix": 64}, ("hb_size <= gpus",))
    >>> [point.inputs["hb_size"] for point in grid.points(range(len(grid)))]
    [8, 8, 32]
    """
    lengths = {axis.title: len(axis.rows) for axis in axes}
    size = prod(lengths.values())
    if size > MAX_POINTS:
        longest = sorted(lengths.items(), key=lambda item: -item[1])
        raise InputError(
            f"a study of {size:,} points is too large, at most {MAX_POINTS:,}: take fewer values"
            f" ({', '.join(f'{name} {count:,}' for name, count in longest)}), or vary inputs"
            " together with zip"
        )
    steps = np.zeros((1, 0), np.int32)
    for index, axis in enumerate(axes):
        steps = _extend(steps, axes[: index + 1], axis, fixed)
    columns = dict(_columns(axes, steps, fixed))
    keep = np.ones(len(steps), bool)
    for text in conditions:
        keep &= _holds(text, columns, len(steps))
    if not keep.any():
        raise InputError(f"no point of {len(steps):,} meets all conditions: relax one")
    return Grid(axes, fixed, np.ascontiguousarray(steps[keep]), tuple(conditions))


def _extend(
    steps: Indices, axes: tuple[StudyAxis, ...], axis: StudyAxis, fixed: Mapping[str, Scalar]
) -> Indices:
    """Cross the points so far with one more axis; where its condition fails it has one step."""
    holds = np.ones(len(steps), bool)
    if axis.when is not None:
        holds = _holds(axis.when, dict(_columns(axes[:-1], steps, fixed)), len(steps))
    step_counts = np.where(holds, len(axis.rows), 1)
    before = np.repeat(steps, step_counts, axis=0)
    starts = np.repeat(np.cumsum(step_counts) - step_counts, step_counts)
    step = np.arange(len(before)) - starts
    step[~np.repeat(holds, step_counts)] = OFF
    return np.column_stack([before, step]).astype(np.int32)


def _columns(
    axes: tuple[StudyAxis, ...], steps: Indices, fixed: Mapping[str, Scalar]
) -> Iterator[tuple[str, Scalar | NDArray[np.generic]]]:
    """Every input as a column or a single value."""
    yield from fixed.items()
    for index, axis in enumerate(axes):
        for name, values in zip(axis.names, zip(*axis.rows, strict=True), strict=True):
            numeric = all(isinstance(value, (int, float)) for value in values)
            known = axis.otherwise is not None or axis.when is None
            # The value elsewhere comes last, where the step -1 finds it.
            if numeric and known:
                table = np.array([*values, axis.otherwise or 0])
            else:
                table = np.array([*values, axis.otherwise], object)
            yield name, table[steps[:, index]]


def _holds(text: str, columns: Mapping[str, Scalar | NDArray[np.generic]], count: int) -> Bools:
    """Whether a condition holds, point by point."""
    expression = parse_expression(text)
    for name in sorted(expression.names):
        if key_of(name, columns) is None:
            raise unknown_name(f"condition {text!r}: input", name, list(columns))
    return np.broadcast_to(np.asarray(expression(columns), bool), (count,))
