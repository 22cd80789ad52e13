"""Lines of a study: y over x, a gap where a point has no value."""

from collections.abc import Sequence

from netplan.reports.charts import Chart, Json
from netplan.reports.escape import chart_label
from netplan.studies.study_marks import (
    HOVER_BOX,
    NAMED_SERIES,
    Drawn,
    Mark,
    height_px,
    marks_of,
    series_styles,
)
from netplan.studies.study_panels import Key, Panel, spread
from netplan.studies.study_reader import inputs_behind
from netplan.studies.study_scales import Scale, fitting_scale, number_scale

MAX_LINES = 60
"""Lines of one drawing [1]."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
FEW = 40
"""Points of a line up to which each has a visible mark [1]."""


def line_chart(panel: Panel, room: int) -> Drawn:
    """Draw one line for all values of the series together.

    Parameters
    ----------
    panel
        The points.
    room
        Points that the drawing may hold [1].
    """
    spec, read = panel.spec, panel.reader
    xs, ys = panel.values(spec.x), panel.values(spec.y)
    steps = inputs_behind(read.spec, spec.x) is not None
    x_scale = fitting_scale(read.words(spec.x), xs, log=spec.x_log, steps=steps)
    y_scale = number_scale(read.words(spec.y), ys, log=spec.y_log)
    lines = _lines(panel, x_scale, y_scale)
    keys = spread(list(lines), MAX_LINES)
    drawn = {key: thinned(lines[key], max(room // len(keys), 2)) for key in keys}
    styles = series_styles(keys)
    layout: Json = {
        "xaxis": x_scale.layout,
        "yaxis": y_scale.layout,
        "showlegend": bool(panel.series) and len(keys) <= NAMED_SERIES,
        "hoverlabel": HOVER_BOX,
    }
    data = tuple(_trace(panel, key, marks, styles[key]) for key, marks in drawn.items())
    chart = Chart(panel.key, spec.title, height_px(len(keys)), data, layout)
    return Drawn(chart, tuple(_said(panel, lines, drawn)))


def thinned(marks: Sequence[Mark], room: int) -> list[Mark]:
    """Marks of a line, of each part the least, the greatest and a gap if they are too many.

    Examples
    --------
    >>> marks = [Mark(x, abs(x - 50), {}) for x in range(100)]
    >>> len(thinned(marks, 20)), min(mark.y for mark in thinned(marks, 20))
    (20, 0)
    """
    if len(marks) <= room:
        return list(marks)
    parts = room // 2
    kept: list[Mark] = []
    for part in range(parts):
        piece = marks[len(marks) * part // parts : len(marks) * (part + 1) // parts]
        values = [(mark.y, at) for at, mark in enumerate(piece) if mark.y is not None]
        stay = {min(values)[1], max(values)[1]} if values else set()
        gaps = [at for at, mark in enumerate(piece) if mark.y is None]
        kept += [piece[at] for at in sorted({*stay, *gaps[:1]})]
    return kept


def _lines(panel: Panel, x_scale: Scale, y_scale: Scale) -> dict[Key, list[Mark]]:
    """Points of each line that have a place, by rising x."""
    lines: dict[Key, list[Mark]] = {}
    for mark in marks_of(panel, x_scale, y_scale):
        line = lines.setdefault(panel.series_of(mark.row), [])
        if mark.x is not None:
            line.append(mark)
    for line in lines.values():
        line.sort(key=lambda mark: mark.x or 0.0)
    return lines


def _trace(panel: Panel, key: Key, marks: Sequence[Mark], style: tuple[str, int]) -> Json:
    """One line as plotly draws it."""
    read, spec = panel.reader, panel.spec
    names = panel.box_names(spec.x, spec.y)
    colour, dash = style
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": chart_label(panel.series_name(key), 40),
        "x": [mark.x for mark in marks],
        "y": [mark.y for mark in marks],
        "connectgaps": False,
        "line": {"color": colour, "width": 2, "dash": DASHES[dash % len(DASHES)]},
        "marker": {"color": colour, "size": 7 if len(marks) <= FEW else 3},
        "hoverinfo": "text",
        "hovertext": ["" if mark.y is None else read.box(mark.row, names) for mark in marks],
    }


def _covering(drawn: dict[Key, list[Mark]]) -> list[list[Key]]:
    """Series whose lines are the same, of which only the last one can be seen."""
    found: dict[tuple[tuple[float | None, float | None], ...], list[Key]] = {}
    for key, marks in drawn.items():
        found.setdefault(tuple((mark.x, mark.y) for mark in marks), []).append(key)
    return [
        keys
        for line, keys in found.items()
        if len(keys) > 1 and any(y is not None for _, y in line)
    ]


def _said(panel: Panel, lines: dict[Key, list[Mark]], drawn: dict[Key, list[Mark]]) -> list[str]:
    """What the drawing leaves out."""
    said = [
        f"These lines lie on one another: {', '.join(panel.series_name(key) for key in keys)}."
        for keys in _covering(drawn)
    ]
    if len(drawn) < len(lines):
        said.append(f"{len(drawn)} of {len(lines):,} lines are drawn, taken evenly.")
    if len(drawn) > NAMED_SERIES:
        said.append("The lines are too many for a legend: point at one to see which it is.")
    if any(len(marks) < len(lines[key]) for key, marks in drawn.items()):
        said.append(
            "The lines are thinned out: of every part the least and the greatest value stay."
        )
    placeless = len(panel.rows) - sum(len(line) for line in lines.values())
    if placeless:
        where = panel.reader.words(panel.spec.x).quantity
        said.append(f"{placeless:,} points have no place over {where} and are not drawn.")
    return said
