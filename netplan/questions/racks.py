"""Rack elevations: what a full switch rack and the last one hold, by rack unit, as on the bill."""

from collections.abc import Iterator

from markupsafe import Markup

from netplan.costing.materials import SwitchRacks
from netplan.reports import svg
from netplan.reports.escape import TIMES

UNIT = 6.0  # height of one rack unit in the drawing
RACK_WIDTH, STEP = 150.0, 250.0
TOP, LEFT = 48.0, 44.0


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
    height = racks.switch_units * UNIT
    for slot in range(held):
        y = bottom - slot * racks.pitch * UNIT - height
        yield svg.box(x + 6, y + 1, RACK_WIDTH - 12, height - 2, "node switch")
    for unit in (1, *range(6, racks.units + 1, 6)):
        yield svg.text(x - 6, bottom - (unit - 1) * UNIT - 1, str(unit), "tick", anchor="end")
