"""Rack elevations: what a full switch rack and the last one hold, by rack unit.

Switches fill racks one after the other, as the bill counts them. Where each rack stands is for a
floor plan to say; without one the sketch places nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from netplan.reports import svg
from netplan.reports.escape import TIMES

UNIT = 6.0  # height of one rack unit in the drawing
RACK_WIDTH, STEP = 150.0, 250.0
TOP, LEFT = 48.0, 44.0


@dataclass(frozen=True, slots=True)
class SwitchRacks:
    """Racks of a number of equal switches.

    Parameters
    ----------
    switches
        Switches in all [1].
    units, switch_units
        Rack units of a rack and of a switch [1].

    Examples
    --------
    42 units hold 21 switches of 2 units; 256 = 12 x 21 + 4.

    >>> racks = SwitchRacks(256, 42, 2)
    >>> racks.each, racks.full, racks.last
    (21, 12, 4)
    """

    switches: int
    units: int
    switch_units: int

    @property
    def each(self) -> int:
        """Switches of a full rack [1]."""
        return self.units // self.switch_units

    @property
    def full(self) -> int:
        """Full racks [1]."""
        return self.switches // self.each

    @property
    def last(self) -> int:
        """Switches of the last rack that is not full [1]."""
        return self.switches % self.each


def rack_drawing(racks: SwitchRacks) -> Markup:
    """Draw one full rack and the last one."""
    kinds = [(racks.full, racks.each)] if racks.full else []
    if racks.last:
        kinds.append((1, racks.last))
    shapes: list[Markup] = []
    for number, (count, held) in enumerate(kinds):
        shapes += _rack(racks, LEFT + number * STEP, count, held)
    width = LEFT + (len(kinds) - 1) * STEP + RACK_WIDTH + 60
    height = TOP + racks.units * UNIT + 14
    return svg.drawing(width, height, f"Elevation of racks of {racks.units} units", shapes)


def _rack(racks: SwitchRacks, x: float, count: int, held: int) -> Iterator[Markup]:
    words = f"{count:,} {TIMES} rack of {held} switch{'es' if held > 1 else ''}"
    yield svg.text(x, 18, words, "label")
    yield svg.text(x, 36, f"{held * racks.switch_units} of {racks.units} units in use", "sub")
    bottom = TOP + racks.units * UNIT
    yield svg.box(x, TOP, RACK_WIDTH, racks.units * UNIT, "frame")
    for slot in range(held):
        height = racks.switch_units * UNIT
        y = bottom - (slot + 1) * height
        yield svg.box(x + 6, y + 1, RACK_WIDTH - 12, height - 2, "node switch")
    for unit in (1, *range(6, racks.units + 1, 6)):
        yield svg.text(x - 6, bottom - (unit - 1) * UNIT - 1, str(unit), "tick", anchor="end")
