"""What a GPU computes under a limit of its power, as published curves say.

Firmware keeps a GPU below its limit by its clock, so that power falls faster than speed. A curve is
read between its points and never beyond them; what it says of whole runs or of matrix products is
what all products and vector operations slow down by here. Memory and links keep their rates.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import structs

from netplan.errors import InputError
from netplan.inputs.choices import Evidence
from netplan.records import Entry, PositiveFloat, PositiveShare


class CapPoint(Entry, frozen=True, kw_only=True):
    """Speed under a limit of the power [W], as a share of that without one, low to high [1]."""

    watts: PositiveFloat
    speed: PositiveShare
    low: PositiveShare
    high: PositiveShare

    def __post_init__(self) -> None:
        """Refuse ends out of order."""
        if not self.low <= self.speed <= self.high:
            raise ValueError(
                f"speeds run low <= speed <= high, got {self.low}, {self.speed}, {self.high}"
            )


class PowerCaps(Entry, frozen=True, kw_only=True):
    """Points of a curve, rising in watts and in speed, and where they are from."""

    points: tuple[CapPoint, ...]
    of: str
    evidence: Evidence
    date: str
    source: str

    def __post_init__(self) -> None:
        """Refuse fewer than two points, and points out of order."""
        rising = all(
            low.watts < high.watts and low.speed <= high.speed
            for low, high in pairwise(self.points)
        )
        if len(self.points) < 2 or not rising:  # noqa: PLR2004 - a curve has two ends
            raise ValueError("points: give two or more, rising in watts and in speed")

    def at(self, watts: float, name: str) -> CapPoint:
        """Speed under a limit, on the lines from point to point.

        Parameters
        ----------
        watts
            The limit [W].
        name
            Whose curve it is.

        Returns
        -------
        CapPoint
            Share of the speed without a limit, low to high [1].

        Raises
        ------
        InputError
            If the limit lies outside of the curve.

        Examples
        --------
        Half way between 0.8 and 1.

        >>> ends = [CapPoint(watts=400, speed=0.8, low=0.7, high=0.9),
        ...         CapPoint(watts=700, speed=1, low=1, high=1)]
        >>> caps = PowerCaps(points=tuple(ends), of="", evidence="shipping", date="", source="")
        >>> caps.at(550, "h100-80gb")
        CapPoint(watts=550, speed=0.9, low=0.85, high=0.95)
        """
        first, last = self.points[0].watts, self.points[-1].watts
        if not first <= watts <= last:
            raise InputError(
                f"--gpu-power-cap {watts:g}W: what a {name} computes is published from {first:g} to"
                f" {last:g} W: give a cap in that range"
            )
        known, *speeds = np.array([structs.astuple(point) for point in self.points]).T
        speed, low, high = (float(np.interp(watts, known, ends)) for ends in speeds)
        return CapPoint(watts=watts, speed=speed, low=low, high=high)


def no_cap(name: str, watts: float, power_w: float, known: Sequence[str]) -> InputError:
    """Why a GPU has no such cap: it draws less, or nobody has published what it computes."""
    if not known:
        return InputError(
            f"--gpu-power-cap {watts:g}W: a {name} draws {power_w:g} W: give less, or leave it out"
        )
    return InputError(
        f"--gpu-power-cap {watts:g}W: nobody has published what a {name} computes below"
        f" {power_w:g} W: leave it out, or take {', '.join(known[:-1])} or {known[-1]}"
    )
