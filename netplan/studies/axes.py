"""The axes of a study: which inputs vary, over which values, under which condition."""

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from math import isfinite, prod
from typing import Annotated, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, model_validator

from netplan.studies.expressions import require_expression
from netplan.studies.points import Scalar

Given = bool | int | float | str | None
"""A value as a study file has it."""


class _Row(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )


class Steps(_Row):
    """A range by the number of its values, both ends included."""

    start: float = Field(alias="from")
    to: float
    steps: Annotated[int, Field(ge=2, le=1_000_000)]


class LogSteps(_Row):
    """A range with equal ratios between its values, both ends included."""

    start: PositiveFloat = Field(alias="from")
    to: PositiveFloat
    steps: Annotated[int, Field(ge=2, le=1_000_000)]


class Factor(_Row):
    """A range by a factor: 8, 16, 32 and so on, up to the end at the most."""

    start: PositiveFloat = Field(alias="from")
    to: PositiveFloat
    factor: Annotated[float, Field(gt=1)]


class Axis(_Row):
    """One axis: an input with its values, or several inputs that vary together (``zip``).

    With ``when`` the axis varies only where the condition holds; elsewhere its input is
    ``otherwise``. With ``whole`` the values of a range are rounded, and each is taken once.
    """

    input: str | None = None
    values: tuple[Given, ...] | None = None
    linear: Steps | None = None
    log: LogSteps | None = None
    times: Factor | None = None
    zip: dict[str, tuple[Given, ...]] | None = None
    whole: bool = False
    when: str | None = None
    otherwise: Given = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
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
        return self

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
        >>> Axis(input="hb_size", times={"from": 2, "to": 10, "factor": 2}, whole=True).rows
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
        return whole[:1] + [two for one, two in pairwise(whole) if one != two]


def grid_size(axes: tuple[Axis, ...]) -> int:
    """Points of a full grid, before any condition [1].

    Examples
    --------
    >>> grid_size((Axis(input="gpus", values=(512, 1024)), Axis(input="radix", values=(32, 64))))
    4
    """
    return prod(len(axis.rows) for axis in axes)


def shorter(axes: tuple[Axis, ...]) -> Mapping[str, int]:
    """Values of each axis, the longest first: what to thin."""
    lengths = {axis.title: len(axis.rows) for axis in axes}
    return dict(sorted(lengths.items(), key=lambda item: -item[1]))
