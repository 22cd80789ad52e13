"""Points of a study: y over x, one mark a design, and the front of those that none beats."""

from collections.abc import Sequence
from math import inf, log

from netplan.reports.charts import GREY, Chart, Json
from netplan.reports.escape import chart_label
from netplan.studies.front import pareto_front
from netplan.studies.points import Scalar
from netplan.studies.study_marks import (
    HOVER_BOX,
    NAMED_SERIES,
    Drawn,
    Mark,
    height_px,
    marks_of,
    series_styles,
)
from netplan.studies.study_panels import Key, Panel
from netplan.studies.study_scales import fitting_scale

SIGNS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
FINEST = 512
"""Cells of a drawing, each way, in which marks of one series count as one [1]."""


def scatter_chart(panel: Panel, room: int) -> Drawn:
    """Draw one mark a point, coloured by the series, and the Pareto front if it is asked for.

    Parameters
    ----------
    panel
        The points.
    room
        Marks that the drawing may hold [1].
    """
    spec, read = panel.spec, panel.reader
    x_scale = fitting_scale(read.words(spec.x), panel.values(spec.x), log=spec.x_log)
    y_scale = fitting_scale(read.words(spec.y), panel.values(spec.y), log=spec.y_log)
    marks = [m for m in marks_of(panel, x_scale, y_scale) if None not in (m.x, m.y)]
    best = front(marks) if spec.front else []
    drawn = _apart(panel, marks, best, room)
    series: dict[Key, list[Mark]] = {}
    for mark in drawn:
        series.setdefault(panel.series_of(mark.row), []).append(mark)
    styles = series_styles(list(series))
    data = [_trace(panel, key, found, styles[key]) for key, found in series.items()]
    if best:
        data.insert(0, _step(best))
    named = len(series) <= NAMED_SERIES and (bool(panel.series) or spec.front)
    layout: Json = {
        "xaxis": x_scale.layout,
        "yaxis": y_scale.layout,
        "showlegend": named,
        "hoverlabel": HOVER_BOX,
    }
    chart = Chart(panel.key, spec.title, height_px(len(series)), tuple(data), layout)
    return Drawn(chart, tuple(_said(panel, marks, drawn, len(series))))


def front(marks: Sequence[Mark]) -> list[Mark]:
    """Marks with the least y for their x or less, by rising x.

    Examples
    --------
    >>> found = front([Mark(1, 9, {}), Mark(2, 5, {}), Mark(3, 7, {})])
    >>> [(mark.x, mark.y) for mark in found]
    [(1, 9), (2, 5)]
    """
    rows: list[dict[str, Scalar]] = [
        {"x": mark.x, "y": mark.y, "at": at} for at, mark in enumerate(marks)
    ]
    return [marks[int(row["at"] or 0)] for row in pareto_front(rows, "x", "y")]


def _apart(panel: Panel, marks: list[Mark], best: list[Mark], room: int) -> list[Mark]:
    """Marks that can be told from each other: one for each cell and series, and all of the front.

    Cells grow until the marks find room. To take every n-th point instead would drop whole values
    of an axis.
    """
    cells = FINEST
    drawn = marks
    series = [panel.series_of(mark.row) for mark in marks]
    xs = _along([mark.x for mark in marks], log_scale=panel.spec.x_log)
    ys = _along([mark.y for mark in marks], log_scale=panel.spec.y_log)
    while len(drawn) > room and cells > 1:
        found: dict[tuple[Key, int, int], Mark] = {}
        for mark, key, x, y in zip(marks, series, xs, ys, strict=True):
            found.setdefault((key, int(x * cells), int(y * cells)), mark)
        kept = {id(mark) for mark in (*found.values(), *best)}
        drawn = [mark for mark in marks if id(mark) in kept]
        cells = cells * 3 // 4
    return drawn


def _along(values: Sequence[float | None], *, log_scale: bool) -> list[float]:
    """How far along its axis each value stands, from 0 to 1 [1]."""
    places = [
        (log(value) if log_scale and value > 0 else value) if value is not None else 0.0
        for value in values
    ]
    low, high = min(places, default=0.0), max(places, default=0.0)
    span = (high - low) or inf
    return [(place - low) / span for place in places]


def _trace(panel: Panel, key: Key, marks: Sequence[Mark], style: tuple[str, int]) -> Json:
    """Marks of one series as plotly draws them."""
    read, spec = panel.reader, panel.spec
    names = panel.box_names(spec.x, spec.y)
    colour, sign = style
    return {
        "type": "scatter",
        "mode": "markers",
        "name": chart_label(panel.series_name(key), 40) or "points",
        "x": [mark.x for mark in marks],
        "y": [mark.y for mark in marks],
        "marker": {"color": colour, "size": 8, "opacity": 0.8, "symbol": SIGNS[sign % len(SIGNS)]},
        "hoverinfo": "text",
        "hovertext": [read.box(mark.row, names) for mark in marks],
    }


def _step(best: Sequence[Mark]) -> Json:
    """The front: from each of its marks level to the next, then down to it."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "Pareto front",
        "x": [mark.x for mark in best],
        "y": [mark.y for mark in best],
        "line": {"color": GREY, "width": 2, "shape": "hv"},
        "marker": {"color": GREY, "size": 14, "symbol": "circle-open"},
        "hoverinfo": "skip",
    }


def _said(panel: Panel, marks: Sequence[Mark], drawn: Sequence[Mark], series: int) -> list[str]:
    """What the drawing leaves out."""
    said = []
    if panel.spec.front:
        said.append("Rings mark the Pareto front: nothing to the left of a ring is as low.")
    if len(drawn) < len(marks):
        said.append(
            f"{len(drawn):,} of {len(marks):,} points are drawn: of those that would cover each"
            " other one stays, and all of the front."
        )
    if series > NAMED_SERIES:
        said.append("The series are too many for a legend: point at a mark to see which it is.")
    if len(marks) < len(panel.rows):
        said.append(f"{len(panel.rows) - len(marks):,} points lack a value and are not drawn.")
    return said
