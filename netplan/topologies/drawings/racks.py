"""Racks as drawings: the elevation of each kind with device names, and the hall from above.

An elevation shows one rack of each kind, unit by unit. The hall shows every rack and how many
cables lie on each stretch of tray: a cable runs along the tray of its first end's row to the column
of its second end, and crosses to that end's row there. That is as long as the length on the bill,
which counts rows and columns alike.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from markupsafe import Markup
from msgspec import Struct

from netplan.arrays import Ints
from netplan.reports.escape import short
from netplan.reports.svg import box, boxes, drawing, short_number, text_line
from netplan.topologies.cabling.floor_plan import Layout
from netplan.topologies.graph import GPU, FabricGraph

UNIT = 10.5  # height of one rack unit in the drawing
RACK_WIDTH, RACK_STEP = 158.0, 190.0
RACK_TOP, RACK_LEFT = 62.0, 26.0
RACKS_IN_A_LINE, MAX_RACKS = 4, 8
NAME_LENGTH, TITLE_LENGTH = 22, 30


class Slot(Struct, frozen=True):
    """A device in a rack: its name, whether it is a switch, lowest unit and height [U]."""

    name: str
    switch: bool
    unit: int
    units: int


class Elevation(Struct, frozen=True):
    """One rack to draw: lines of text above it, its height [U], and what stands in it."""

    title: str
    lines: tuple[str, ...]
    units: int
    slots: tuple[Slot, ...]


def elevation_drawing(racks: Sequence[Elevation]) -> Markup:
    """Draw the elevation of some racks, the first eight of them, four beside each other.

    Examples
    --------
    >>> drawn = elevation_drawing([Elevation("1 rack: 7", ("2 of 42 U",), 42, ())])
    >>> drawn.count("<rect"), "1 rack: 7" in drawn
    (1, True)
    """
    shown = racks[:MAX_RACKS]
    step = RACK_TOP + max((rack.units for rack in shown), default=0) * UNIT + 22
    shapes: list[Markup] = []
    for number, rack in enumerate(shown):
        row, column = divmod(number, RACKS_IN_A_LINE)
        shapes += _rack(rack, RACK_LEFT + column * RACK_STEP, row * step)
    columns, rows = min(len(shown), RACKS_IN_A_LINE), -(-len(shown) // RACKS_IN_A_LINE)
    width = RACK_LEFT + columns * RACK_STEP
    return drawing(width, rows * step, "Elevations of racks", shapes)


def _rack(rack: Elevation, x: float, top: float) -> Iterator[Markup]:
    yield text_line(x, top + 14, short(rack.title, TITLE_LENGTH), "name")
    for number, words in enumerate(rack.lines[:2]):
        yield text_line(x, top + 30 + 14 * number, words, "sub")
    bottom = top + RACK_TOP + rack.units * UNIT
    yield box(x, top + RACK_TOP, RACK_WIDTH, rack.units * UNIT, "frame")
    for slot in rack.slots:
        y, height = bottom - (slot.unit - 1 + slot.units) * UNIT, slot.units * UNIT
        kind = "node switch" if slot.switch else "node gpus"
        yield box(x + 4, y + 0.6, RACK_WIDTH - 8, height - 1.2, kind)
        name = short(slot.name, NAME_LENGTH)
        yield text_line(x + RACK_WIDTH / 2, y + height / 2 + 3, name, "device", anchor="middle")
    for unit in (1, *range(6, rack.units + 1, 6)):
        yield text_line(x - 4, bottom - (unit - 1) * UNIT - 2, str(unit), "tick", anchor="end")


class Trays(Struct, frozen=True, eq=False):
    """Cables on the trays of a hall.

    Parameters
    ----------
    along
        On the stretch right of every rack, along its row [1], shape (rows, racks in a row).
    across
        On the stretch from every rack's place to that in the next row [1], the same shape.
    """

    along: Ints
    across: Ints

    @property
    def most(self) -> int:
        """Cables on the fullest stretch [1]."""
        return int(max(self.along.max(initial=0), self.across.max(initial=0)))


def tray_cables(layout: Layout, network: FabricGraph) -> Trays:
    """Cables on every stretch of tray.

    Examples
    --------
    Two racks beside each other, one cable between them and one inside the first.

    >>> from netplan import Scenario
    >>> from netplan.topologies.cabling.floor_plan import FLOOR_PLANS
    >>> from netplan.topologies.cabling.floor_plan import lay_out
    >>> from netplan.topologies.graph import network_only
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=64)
    >>> graph = network_only(scenario.fabric("fat-tree").graph())
    >>> trays = tray_cables(lay_out(FLOOR_PLANS.load("example-hall"), graph), graph)
    >>> trays.along[0, :2].tolist(), trays.most
    ([32, 0], 32)
    """
    shape = layout.shape
    gpu = network.node_kind == GPU
    turned = ~gpu[network.source] & gpu[network.target]
    near = layout.rack[np.where(turned, network.target, network.source)]
    far = layout.rack[np.where(turned, network.source, network.target)]
    (row, column), (end_row, end_column) = (np.divmod(end, shape[1]) for end in (near, far))
    along, across = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    low, high = np.minimum(column, end_column), np.maximum(column, end_column)
    np.add.at(along, (row, low), 1)
    np.subtract.at(along, (row, high), 1)
    low, high = np.minimum(row, end_row), np.maximum(row, end_row)
    np.add.at(across, (low, end_column), 1)
    np.subtract.at(across, (high, end_column), 1)
    return Trays(along.cumsum(axis=1), across.cumsum(axis=0))


CELL, ROW_GAP = 15.0, 13.0
HALL_LEFT, HALL_TOP = 46.0, 30.0
WIDEST = 7.0
"""Width of the fullest tray in the drawing."""


def hall_drawing(layout: Layout, network: FabricGraph, extra_racks: int = 0) -> Markup:
    """Draw the rows of a hall that are in use, its racks, and its trays by their cables.

    ``extra_racks`` are those of networks beside [1]: they stand after all others, and have no
    cables in the drawing.
    """
    trays = tray_cables(layout, network)
    plan = layout.plan
    held = np.zeros(layout.shape, np.int64)
    gpu = network.node_kind == GPU
    np.maximum.at(held.reshape(-1), layout.rack[gpu], 1)
    np.maximum.at(held.reshape(-1), layout.rack[~gpu], 2)
    after = 1 + int(layout.rack.max(initial=-1))
    held.reshape(-1)[after : after + extra_racks] = 2
    rows = 1 + int(np.flatnonzero(held.any(axis=1)).max(initial=0))
    columns = 1 + int(np.flatnonzero(held[:rows].any(axis=0)).max(initial=0))
    shapes = list(_hall_racks(held[:rows, :columns]))
    shapes += _hall_trays(trays, rows, columns)
    width = max(HALL_LEFT + columns * CELL + 20, 420.0)
    height = HALL_TOP + rows * (CELL + ROW_GAP) + 34
    words = f"{network.link_count:,} cables; the fullest stretch of tray holds {trays.most:,}"
    if extra_racks:
        words += f"; the last {extra_racks:,} racks are of networks beside"
    shapes.append(text_line(HALL_LEFT, height - 10, words, "sub"))
    return drawing(width, height, f"Hall {plan.name} from above: {words}", shapes)


def _hall_racks(held: Ints) -> Iterator[Markup]:
    """Racks of every row, and the numbers of rows and columns."""
    kinds = ("place", "node gpus", "node switch")
    step = CELL + ROW_GAP
    for row in range(len(held)):
        y = HALL_TOP + row * step + ROW_GAP + CELL - 4
        yield text_line(HALL_LEFT - 8, y, f"row {row + 1}", "tick", anchor="end")
    for number, kind in enumerate(kinds):
        places = np.argwhere(held == number).tolist()
        corners = [
            (HALL_LEFT + column * CELL + 1, HALL_TOP + row * step + ROW_GAP)
            for row, column in places
        ]
        if corners:
            yield boxes(corners, CELL - 2, kind)
    for column in (0, *range(4, held.shape[1], 5)):
        x = HALL_LEFT + (column + 0.5) * CELL
        yield text_line(x, HALL_TOP - 6, str(column + 1), "tick", anchor="middle")


def _hall_trays(trays: Trays, rows: int, columns: int) -> Iterator[Markup]:
    """Runs of tray with cables, wide as they are full to half a pixel; a shape for each width."""
    most = max(trays.most, 1)
    drawn: dict[str, list[str]] = {}
    for down, counts in ((False, trays.along), (True, trays.across)):
        used = counts[:rows, :columns].T if down else counts[:rows, :columns]
        widths = np.round(2 * (0.6 + (WIDEST - 0.6) * used / most)) / 2 * (used > 0)
        step = CELL + ROW_GAP if down else CELL
        for line, row in enumerate(widths):
            ends = [*np.flatnonzero(np.diff(row)) + 1, len(row)]
            for first, end in pairwise([0, *ends]):
                if not row[first]:
                    continue
                column, place = (line, first) if down else (first, line)
                x = HALL_LEFT + (column + 0.5) * CELL
                y = HALL_TOP + place * (CELL + ROW_GAP) + ROW_GAP / 2
                run = f"{'v' if down else 'h'}{short_number((end - first) * step)}"
                way = f"M{short_number(x)} {short_number(y)}{run}"
                drawn.setdefault(short_number(float(row[first])), []).append(way)
    shape = Markup('<path d="{}" class="tray" style="fill:none;stroke-width:{}"/>')
    for width_px, ways in drawn.items():
        yield shape.format("".join(ways), width_px)
