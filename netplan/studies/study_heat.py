"""Heat chart of a study: an output by its colour over two inputs, blank where there is none."""

from collections.abc import Sequence
from math import log10

from netplan.reports.charts import Chart, Json
from netplan.reports.escape import chart_label
from netplan.reports.quantities import PREFIXED, Words, shown
from netplan.studies.answer import Row
from netplan.studies.points import Scalar
from netplan.studies.study_marks import HOVER_BOX, Drawn
from netplan.studies.study_panels import Panel, in_order, spread
from netplan.studies.study_reader import finite
from netplan.studies.study_scales import category_scale, log_ticks

WRITTEN_COLUMNS, WRITTEN_CELLS = 12, 240
"""Cells up to which the value is written into each [1]."""

WIDE = 4.0
"""Ratio of the greatest to the least value from which colours go by the logarithm [1]."""

BAR_PX = 60
"""Room of the colour bar above the cells [px]."""

FRAME_PX, ROW_PX, LEAST_PX, MOST_PX = 130, 30, 320, 720

Cells = dict[tuple[Scalar, Scalar], Row]


def heat_chart(panel: Panel, room: int) -> Drawn:
    """Draw a cell for every pair of values of the two inputs.

    Parameters
    ----------
    panel
        The points.
    room
        Cells that the drawing may hold [1].
    """
    spec, read = panel.spec, panel.reader
    cells: Cells = {}
    for row in panel.rows:
        cells.setdefault((read.value(row, spec.x), read.value(row, spec.y)), row)
    every = [in_order(key[side] for key in cells) for side in (0, 1)]
    xs, ys = _fitting(every[0], every[1], room)
    layout: Json = {
        "xaxis": category_scale(read.words(spec.x), xs).layout,
        "yaxis": category_scale(read.words(spec.y), ys).layout,
        "showlegend": False,
        "hoverlabel": HOVER_BOX,
        "margin": {"l": 8, "r": 16, "t": BAR_PX, "b": 48},
    }
    height = min(max(FRAME_PX + ROW_PX * len(ys), LEAST_PX), MOST_PX)
    chart = Chart(panel.key, spec.title, height, (_trace(panel, cells, xs, ys),), layout)
    said = []
    if (len(xs), len(ys)) != (len(every[0]), len(every[1])):
        said.append(
            f"{len(xs)} of {len(every[0]):,} columns and {len(ys)} of {len(every[1]):,} rows are"
            " drawn, taken evenly."
        )
    if len(cells) < len(panel.rows):
        said.append(f"{len(panel.rows) - len(cells):,} points share a cell with one that is shown.")
    return Drawn(chart, tuple(said))


def _fitting(
    xs: Sequence[Scalar], ys: Sequence[Scalar], room: int
) -> tuple[list[Scalar], list[Scalar]]:
    """Columns and rows, taken evenly where the cells are too many."""
    if len(xs) * len(ys) <= room:
        return list(xs), list(ys)
    side = int(room**0.5)
    columns = max(side, room // max(len(ys), 1))
    shown_xs = spread(xs, columns)
    return shown_xs, spread(ys, room // len(shown_xs))


def _trace(panel: Panel, cells: Cells, xs: Sequence[Scalar], ys: Sequence[Scalar]) -> Json:
    """Cells as plotly draws them."""
    spec, read = panel.spec, panel.reader
    z = str(spec.z)
    names = panel.box_names(spec.x, spec.y, z)
    grid = [[cells.get((x, y)) for x in xs] for y in ys]
    values = [[finite(read.value(row, z)) if row else None for row in line] for line in grid]
    found = [value for line in values for value in line if value is not None]
    log = bool(found) and min(found) > 0 and max(found) > WIDE * min(found)
    boxes = [[_box(panel, row, names, z) for row in line] for line in grid]
    trace: dict[str, object] = {
        "type": "heatmap",
        "z": [[_coloured(value, log=log) for value in line] for line in values],
        "hovertext": boxes,
        "hoverinfo": "text",
        "hoverongaps": False,
        "colorscale": "Viridis",
        "xgap": 1,
        "ygap": 1,
        "colorbar": _bar(read.words(z), found, log=log),
    }
    if len(xs) <= WRITTEN_COLUMNS and len(xs) * len(ys) <= WRITTEN_CELLS:
        trace["text"] = [[_written(value) for value in line] for line in values]
        trace["texttemplate"] = "%{text}"
    return trace


def _box(panel: Panel, row: Row | None, names: Sequence[str], z: str) -> str:
    """Hover box of a cell; none where there is no value."""
    read = panel.reader
    return read.box(row, names) if row and finite(read.value(row, z)) is not None else ""


def _coloured(value: float | None, *, log: bool) -> float | None:
    return log10(value) if log and value is not None else value


def _written(value: float | None) -> str:
    return "" if value is None else shown(float(f"{value:.3g}"))


def _bar(words: Words, found: Sequence[float], *, log: bool) -> Json:
    """Colour bar above the drawing, so that it takes no width on a phone."""
    bar: dict[str, object] = {
        "orientation": "h",
        "yref": "container",
        "y": 1,
        "yanchor": "top",
        "ypad": 0,
        "thickness": 12,
        "outlinewidth": 0,
        "title": {"text": chart_label(words.title, 60), "side": "top"},
        "exponentformat": "SI" if words.unit in PREFIXED else "B",
    }
    if log:
        ticks = log_ticks(min(found), max(found))
        unit = words.unit if words.unit in PREFIXED else ""
        bar |= {
            "tickmode": "array",
            "tickvals": [log10(tick) for tick in ticks],
            "ticktext": [chart_label(shown(tick, unit)) for tick in ticks],
        }
    return bar
