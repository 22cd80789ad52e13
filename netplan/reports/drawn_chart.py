"""Charts as SVG: the one renderer of pages, drawn for a wide and for a narrow screen, on paper too.

A drawing needs no script: titles say what a mark is where the pointer rests, and a table beneath it
says it to those who have none. Names of the legend are buttons, which a short script of the page
makes hide what they name. An axis of amounts that does not start at zero says so.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import unescape
from itertools import chain, pairwise
from math import cos, floor, log10, pi, sin
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from netplan.records import replace
from netplan.reports import svg
from netplan.reports.axes import log_ticks, round_ticks
from netplan.reports.charts import ACCENT, Chart, Json
from netplan.reports.escape import short, strip_control
from netplan.reports.svg import short_number
from netplan.units import si

WIDE, NARROW = 860.0, 350.0
"""Widths that a chart is drawn for [px]: a screen's, and a phone's."""

SIGN_PX, LINE_PX, GAP = 6.6, 14.0, 8.0
"""Width of a letter, height of a line of text, and the gap between marks and texts [px]."""

LABEL_SHARE = 0.42
"""Share of the width that names beside the rows take at most [1]."""

TICK_PX, TITLE_PX, SCALE_PX, EDGE = 20.0, 20.0, 56.0, 16.0
"""Heights of the ticks, of an axis' title and of a bar of colours, and the free edge [px]."""

ROOM = 0.04
"""Room beyond the values at both ends of an axis, as a share of it [1]."""

BAR_SHARE = 0.62
"""Share of its row that a bar takes [1]."""

DASHES = {"dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "11 4", "solid": ""}
VIRIDIS = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")
"""Colours of equal steps, van der Walt and Smith's map of 2015, readable without colour vision."""

BRIGHT = 140
"""Brightness of a colour of 255, as ITU-R BT.601 weighs it, from which letters on it are dark."""

MOST_TOLD, POINTED_PX = 400, 4.0
"""Bars of a series from which on those thinner than a pointer finds [px] have no title [1]."""

FINEST, FINEST_NARROW = 0.2, 1.0
"""What ends of such bars are rounded to, on a wide and on a narrow screen [px]."""

CORNERS = {"square": 4, "diamond": 4, "triangle-up": 3, "triangle-down": 3}
TURNS = {"square": 0.25, "diamond": 0.0, "triangle-up": 0.25, "triangle-down": 0.75, "star": 0.25}
"""Where the first corner of a sign stands, as a share of a turn; a square's is between axes."""


class Ruler(Struct, frozen=True):
    """An axis on the paper.

    Parameters
    ----------
    low, high
        What stands at its ends: values, or their powers of ten on a logarithmic axis.
    start, end
        Where its ends lie [px].
    ticks
        Values with their texts.
    title
        What it shows; empty of an axis of names.
    log, grid, visible
        Whether it is logarithmic, has rules across the drawing, and is drawn at all.
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    title: str
    log: bool
    grid: bool
    visible: bool

    def place(self, value: float) -> float:
        """Where a value lies [px]."""
        along = log10(value) if self.log else value
        share = (along - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether a value lies between its ends, as far as a screen shows."""
        low, high = sorted((self.start, self.end))
        return low - 1 <= self.place(value) <= high + 1


class Trace(Struct, frozen=True):
    """The marks of one series: a number in the drawing, its facts, and what of it is amounts."""

    number: int
    facts: Mapping[str, Any]
    starts: tuple[float, ...] = ()
    rows: tuple[float, ...] = ()
    thickness: tuple[float, ...] = ()

    @property
    def kind(self) -> str:
        """``scatter``, ``bar`` or ``heatmap``."""
        return str(self.facts["type"])

    def boxes(self) -> list[str]:
        """What a pointer is told of each mark."""
        boxes = self.facts.get("hovertext") or []
        return [unmarked(box) for box in boxes] if isinstance(boxes, list) else []


def draw(chart: Chart) -> Markup:
    """Legend and drawings of a chart.

    Parameters
    ----------
    chart
        What to draw.

    Returns
    -------
    Markup
        Buttons of the legend, and the drawing for a wide and for a narrow screen.

    Examples
    --------
    >>> from netplan.reports.charts import marks
    >>> line = marks("scatter", [8, 16], [2, 1], ["8: 2 s", "16: 1 s"], mode="lines+markers")
    >>> drawn = draw(Chart("1", "Time", 300, (line,), {"yaxis": {"title": {"text": "s"}}}))
    >>> drawn.count("<svg"), drawn.count("<title>"), "axis from 0.9" in drawn
    (2, 2, True)
    """
    wide, narrow = (chart_drawing(chart, width) for width in (WIDE, NARROW))
    return chart_legend(chart) + wide + narrow


def chart_legend(chart: Chart) -> Markup:
    """Names of the series as buttons that hide and show them; nothing where one needs no name."""
    named = [
        (number, trace)
        for number, trace in enumerate(chart.data)
        if trace.get("name") and trace.get("showlegend", True)
    ]
    if not named or not chart.layout.get("showlegend", len(named) > 1):
        return Markup("")
    button = Markup(
        '<button type="button" aria-pressed="true" data-series="{}">'
        '<svg viewBox="0 0 26 12" aria-hidden="true">{}</svg>{}</button>'
    )
    buttons = (
        button.format(number, _swatch(trace), unmarked(str(trace["name"])).replace("\n", " "))
        for number, trace in named
    )
    return Markup('<div class="legend">{}</div>').format(Markup("").join(buttons))


def unmarked(text: str) -> str:
    r"""A text of a chart as it is: its markup undone.

    Examples
    --------
    >>> unmarked("a &lt; b<br>c")
    'a < b\nc'
    """
    return (
        strip_control(unescape(text.replace("<br>", "\x00")).replace("\x00", "\n")) if text else ""
    )


def chart_drawing(chart: Chart, width: float) -> Markup:
    """One drawing of a chart, without its legend.

    Parameters
    ----------
    chart
        What to draw.
    width
        How wide it is; on a narrow one marks have no titles, since fingers rest on nothing [px].

    Returns
    -------
    Markup
        The drawing.
    """
    traces = _traces(chart)
    layout: Mapping[str, Any] = chart.layout
    scaled = any(trace.kind == "heatmap" and "colorbar" in trace.facts for trace in traces)
    top = SCALE_PX if scaled else GAP
    across, up = _extent(traces, layout, "x"), _extent(traces, layout, "y")
    left = _left_px(up, layout.get("yaxis", {}), width)
    below = EDGE
    if layout.get("xaxis", {}).get("visible", True):
        below = TICK_PX + (TITLE_PX if _title(layout.get("xaxis", {})) else 0)
    bottom = chart.height_px - below
    x = _ruler(layout.get("xaxis", {}), across, (left, width - EDGE))
    y = _ruler(layout.get("yaxis", {}), up, (bottom, top))
    titled = width > NARROW
    shapes = [*_axis_across(x, y, width), *_axis_up(y, x, width)]
    for trace in traces:
        drawn = Markup("").join(DRAWN[trace.kind](trace, x, y, titled))
        group = Markup('<g class="series" data-series="{}">{}</g>')
        shapes.append(group.format(trace.number, drawn))
    shapes += [shape for trace in traces for shape in _scale(chart, trace, width)]
    kind = "wide" if titled else "narrow"
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="plot {}">{}</svg>'
    ).format(
        short_number(width),
        chart.height_px,
        strip_control(chart.label),
        kind,
        Markup("").join(shapes),
    )


def _traces(chart: Chart) -> list[Trace]:
    """The series, bars with where each starts, lies and how thick it is."""
    traces = []
    bars = [trace for trace in chart.data if trace["type"] == "bar"]
    mode, turn = chart.layout.get("barmode", "group"), 0
    heights: dict[float, float] = {}
    share = 1 - float(str(chart.layout.get("bargap", 1 - BAR_SHARE)))
    for number, facts in enumerate(chart.data):
        if facts["type"] != "bar":
            traces.append(Trace(number, facts))
            continue
        values, rows = _amounts(facts)
        starts = [float(start) for start in _values_of_marks(facts.get("base", 0.0), len(values))]
        thickness = [
            float(width) for width in _values_of_marks(facts.get("width", share), len(values))
        ]
        if mode == "stack":
            starts = [heights.get(row, 0.0) for row in rows]
            for row, value in zip(rows, values, strict=True):
                heights[row] = heights.get(row, 0.0) + value
        elif mode == "group" and len(bars) > 1 and "width" not in facts:
            thickness = [share / len(bars)] * len(values)
            middle = (turn - (len(bars) - 1) / 2) * share / len(bars)
            rows = [row + middle for row in rows]
        turn += 1
        traces.append(Trace(number, facts, tuple(starts), tuple(rows), tuple(thickness)))
    return traces


def _amounts(facts: Json) -> tuple[list[float], list[float]]:
    """Amounts of bars, and the rows that they stand in."""
    sides: Any = (facts["x"], facts["y"])
    values, rows = sides if facts.get("orientation") == "h" else sides[::-1]
    return [float(value or 0.0) for value in values], [float(row) for row in rows]


def _values_of_marks(value: Any, count: int) -> list[Any]:  # noqa: ANN401 - one for all, or one a mark
    """One value a mark."""
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


def _extent(traces: Sequence[Trace], layout: Json, side: str) -> tuple[list[float], bool]:
    """Values along an axis, and whether it must show zero."""
    values: list[float] = []
    zero = False
    for trace in traces:
        facts = trace.facts
        if trace.kind == "heatmap":
            cells = len(facts["z"]) if side == "y" else max(map(len, facts["z"]), default=1)
            values += [-0.5, cells - 0.5]
        elif trace.kind == "bar":
            along = (facts.get("orientation") == "h") == (side == "x")
            values += _bar_ends(trace, along=along)
            zero = zero or (along and "base" not in facts)
        else:
            bars = facts.get(f"error_{side}") or {}
            given = facts[side]
            above = bars.get("array") or [0.0] * len(given)
            under = bars.get("arrayminus") or above
            for value, more, less in zip(given, above, under, strict=True):
                values += [] if value is None else [value, value + more, value - less]
    axis: Any = layout.get(f"{side}axis", {})
    return values, zero or axis.get("rangemode") == "tozero"


def _bar_ends(trace: Trace, *, along: bool) -> Iterator[float]:
    """Ends of bars along their amounts, or across."""
    values, _ = _amounts(trace.facts)
    if along:
        for start, value in zip(trace.starts, values, strict=True):
            yield from (start, start + value)
    else:
        for row, width in zip(trace.rows, trace.thickness, strict=True):
            yield from (row - max(width, BAR_SHARE) / 2, row + max(width, BAR_SHARE) / 2)


def _ruler(axis: Any, extent: tuple[list[float], bool], ends: tuple[float, float]) -> Ruler:  # noqa: ANN401 - plain data
    """An axis of these values between these ends of the paper."""
    values, zero = extent
    log = axis.get("type") == "log"
    along = [log10(value) for value in values if value > 0] if log else list(values)
    along += [0.0] if zero and not log else []
    low, high = min(along, default=0.0), max(along, default=1.0)
    from_zero = not log and low == 0 and zero
    room = (high - low) * ROOM or (0.5 if log else abs(high) * ROOM or 1.0)
    low, high = axis.get("range") or (low if from_zero else low - room, high + room)
    if named := axis.get("tickmode") == "array":  # with texts of their own
        pairs = zip(axis["tickvals"], axis["ticktext"], strict=True)
        ticks = [(float(value), unmarked(str(text))) for value, text in pairs]
    else:
        ticks = [*_round_ticks(axis, low, high, log=log)]
    title = unmarked(_title(axis))
    if title and not named and not log and low > 0 and not zero:
        step = 10.0 ** (floor(log10(high - low)) - 1)
        title = f"{title} (axis from {floor(low / step) * step:,.6g})"
    if axis.get("autorange") == "reversed":
        ends = ends[::-1]
    grid, visible = bool(axis.get("showgrid", True)), axis.get("visible", True)
    ruler = Ruler(low, high, *ends, (), title, log, grid, visible)
    return replace(ruler, ticks=tuple(tick for tick in ticks if ruler.holds(tick[0])))


def _title(axis: Any) -> str:  # noqa: ANN401 - plain data
    """Title of an axis."""
    return str((axis.get("title") or {}).get("text", ""))


def _round_ticks(axis: Any, low: float, high: float, *, log: bool) -> Iterator[tuple[float, str]]:  # noqa: ANN401
    """Ticks at round values."""
    ends = (10.0**low, 10.0**high) if log else (low, high)
    values = log_ticks(*ends) if log else []
    if [*ends] == values or not log:  # less than a decade has no powers of ten to stand at
        values = [value for value in round_ticks(*ends) if ends[0] <= value <= ends[1]]
    prefixed = axis.get("exponentformat") == "SI"
    for value in values:
        yield value, si(value).strip() if prefixed else f"{value:,.6g}"


def _left_px(up: tuple[list[float], bool], axis: Any, width: float) -> float:  # noqa: ANN401
    """Room for the texts of the axis at the left [px]."""
    if not axis.get("visible", True):
        return EDGE
    ticks = _ruler(axis, up, (1.0, 0.0)).ticks
    most = int(LABEL_SHARE * width / SIGN_PX)
    longest = max((len(line) for _, text in ticks for line in _folded(text, most)), default=0)
    turned = TITLE_PX if _title(axis) else 0.0
    return turned + GAP + longest * SIGN_PX + 2


def _axis_across(x: Ruler, y: Ruler, width: float) -> Iterator[Markup]:
    """Rules, ticks and title of the axis at the bottom; ticks that would touch are left out."""
    if not x.visible:
        return
    free, foot = -1.0, max(y.start, y.end)
    for value, text in sorted(x.ticks, key=lambda tick: x.place(tick[0])):
        centre_x, half = x.place(value), len(text) * SIGN_PX / 2
        if x.grid:
            yield _path(((centre_x, y.start), (centre_x, y.end)), "rule")
        if centre_x - half > free:
            centre_x = min(centre_x, width - half)
            yield svg.text_line(centre_x, foot + LINE_PX, text, "tick", anchor="middle")
            free = centre_x + half + SIGN_PX
    if x.title:
        title = short(x.title, int(width / SIGN_PX))
        half = len(title) * SIGN_PX / 2
        centre_x = min((x.start + x.end) / 2, width - half)
        yield svg.text_line(centre_x, foot + TICK_PX + LINE_PX, title, "title", anchor="middle")


def _axis_up(y: Ruler, x: Ruler, width: float) -> Iterator[Markup]:
    """Rules, ticks and title of the axis at the left."""
    if not y.visible:
        return
    left = min(x.start, x.end)
    most = int(LABEL_SHARE * width / SIGN_PX)
    for value, text in y.ticks:
        tick_y = y.place(value)
        if y.grid:
            yield _path(((x.start, tick_y), (x.end, tick_y)), "rule")
        lines = _folded(text, most)
        for number, line in enumerate(lines):
            down = tick_y + 4 + LINE_PX * (number - (len(lines) - 1) / 2)
            yield svg.text_line(left - GAP, down, line, "tick", anchor="end")
    if y.title:
        middle = (y.start + y.end) / 2
        length = int(abs(y.start - y.end) / SIGN_PX)
        turned = Markup(
            '<text transform="translate(12 {}) rotate(-90)" class="title" text-anchor="middle">'
            "{}</text>"
        )
        yield turned.format(short_number(middle), short(y.title, length))


def _folded(text: str, most: int) -> list[str]:
    """A name in two lines at most.

    Examples
    --------
    >>> _folded("network card at 400 Gb/s", 16), _folded("leaf", 16)
    (['network card at', '400 Gb/s'], ['leaf'])
    """
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, most)]
    return [*lines[:1], *([short(" ".join(lines[1:]), most)] if len(lines) > 1 else [])]


def _scatter(trace: Trace, x: Ruler, y: Ruler, titled: bool) -> Iterator[Markup]:  # noqa: FBT001
    """A line, its marks with their error bars, and texts beside them."""
    facts = trace.facts
    mode = str(facts.get("mode", "markers"))
    count = len(facts["x"])
    spots = [
        None if x_value is None or y_value is None else (x.place(x_value), y.place(y_value))
        for x_value, y_value in zip(facts["x"], facts["y"], strict=True)
    ]
    if "lines" in mode:
        yield from _line(facts, spots)
    for side, ruler in (("x", x), ("y", y)):
        if bars := facts.get(f"error_{side}"):
            yield from _error_bars(facts, bars, side, spots, ruler)
    boxes = trace.boxes() if titled else []
    boxes += [""] * (count - len(boxes))
    marker = facts.get("marker") or {}
    if "markers" in mode:
        sizes, colours = (
            _values_of_marks(marker.get("size", 8), count),
            _values_of_marks(marker.get("color", ACCENT), count),
        )
        symbols = _values_of_marks(marker.get("symbol", "circle"), count)
        for spot, size, colour, symbol, box in zip(
            spots, sizes, colours, symbols, boxes, strict=True
        ):
            if spot is not None:
                yield _sign(spot, float(size) / 2, colour, str(symbol), box)
    elif any(boxes):
        yield from (
            _sign(spot, GAP, "transparent", "circle", box)
            for spot, box in zip(spots, boxes, strict=True)
            if spot is not None and box
        )
    if "text" in mode:
        places = _values_of_marks(facts.get("textposition", "middle right"), count)
        texts = zip(spots, _values_of_marks(facts.get("text"), count), places, strict=True)
        known = [label for label in texts if label[0] is not None and label[1]]
        yield from _labels(known, (y.start + y.end) / 2)


def _line(
    facts: Mapping[str, Any], spots: Sequence[tuple[float, float] | None]
) -> Iterator[Markup]:
    """The line of a series, with a gap where a point has no value."""
    look = facts.get("line") or {}
    steps = look.get("shape") == "hv"
    pieces: list[str] = []
    for before, spot in pairwise([None, *spots]):
        if spot is None:
            continue
        here = " ".join(map(short_number, spot))
        if before is None:
            pieces.append(f"M{here}")
        else:
            pieces.append(
                f"H{short_number(spot[0])}V{short_number(spot[1])}" if steps else f"L{here}"
            )
    dash = DASHES.get(str(look.get("dash", "solid")), "")
    shape = Markup('<path d="{}" class="line" style="stroke:{};stroke-width:{}{}"></path>')
    dashed = f";stroke-dasharray:{dash}" if dash else ""
    if pieces:
        yield shape.format("".join(pieces), look.get("color", ACCENT), look.get("width", 2), dashed)


def _error_bars(
    facts: Mapping[str, Any],
    bars: Mapping[str, Any],
    side: str,
    spots: Sequence[tuple[float, float] | None],
    ruler: Ruler,
) -> Iterator[Markup]:
    """How far each mark may lie to either side."""
    above = bars["array"]
    under = bars.get("arrayminus") or above
    for spot, value, more, less in zip(spots, facts[side], above, under, strict=True):
        if spot is None or not (more or less) or (ruler.log and value - less <= 0):
            continue
        low, high = ruler.place(value - less), ruler.place(value + more)
        x, y = spot
        if side == "y":
            ends = (
                ((x - 3, low), (x + 3, low)),
                ((x, low), (x, high)),
                ((x - 3, high), (x + 3, high)),
            )
        else:
            ends = (
                ((low, y - 3), (low, y + 3)),
                ((low, y), (high, y)),
                ((high, y - 3), (high, y + 3)),
            )
        yield _path(chain.from_iterable(ends), "range", pairs=True)


def _bars(trace: Trace, x: Ruler, y: Ruler, titled: bool) -> Iterator[Markup]:  # noqa: FBT001
    """Bars from where each starts."""
    facts = trace.facts
    values, _ = _amounts(facts)
    flat = facts.get("orientation") == "h"
    along, across = (x, y) if flat else (y, x)
    colours = _values_of_marks((facts.get("marker") or {}).get("color", ACCENT), len(values))
    boxes = trace.boxes() if titled else []
    boxes += [""] * (len(values) - len(boxes))
    places = zip(trace.starts, values, trace.rows, trace.thickness, strict=True)
    many = len(values) > MOST_TOLD
    thin: dict[tuple[str, float, float], list[tuple[float, float]]] = {}
    for (start, value, row, width), colour, box in zip(places, colours, boxes, strict=True):
        ends = sorted((along.place(start), along.place(start + value)))
        sides = sorted((across.place(row - width / 2), across.place(row + width / 2)))
        if many and (not box or ends[1] - ends[0] < POINTED_PX):
            middle, width_px = round(sum(sides) / 2, 1), round(sides[1] - sides[0], 1)
            thin.setdefault((colour, width_px, middle), []).append((ends[0], ends[1]))
            continue
        corner = (ends[0], sides[0]) if flat else (sides[0], ends[0])
        size = (ends[1] - ends[0], sides[1] - sides[0])
        yield _rectangle(corner, size if flat else size[::-1], colour, box)
    yield from _strokes(thin, flat=flat, finest=FINEST if titled else FINEST_NARROW)


def _strokes(
    bars: Mapping[tuple[str, float, float], Sequence[tuple[float, float]]],
    *,
    flat: bool,
    finest: float,
) -> Iterator[Markup]:
    """Bars without titles as one line a colour and thickness: a tenth of their signs.

    Parameters
    ----------
    bars
        Ends by colour, thickness and middle [px].
    flat
        Whether they lie.
    finest
        What their ends are rounded to [px].
    """
    lines: dict[tuple[str, float], list[str]] = {}
    along, across = ("H", "m{} 0") if flat else ("V", "m0 {}")
    for (colour, width_px, middle), ends in bars.items():
        steps, reached = lines.setdefault((colour, width_px), []), -1.0
        rounded = ([finest * round(end / finest) for end in pair] for pair in ends)
        for start, end in sorted(rounded):
            if end <= max(start, reached):
                continue
            if reached < 0:
                corner = (start, middle) if flat else (middle, start)
                steps.append(f"M{' '.join(map(short_number, corner))}")
            elif start > reached:
                steps.append(across.format(short_number(start - reached).lstrip("0")))
            steps.append(f"{along}{short_number(end)}")
            reached = end
    shape = Markup('<path d="{}" style="fill:none;stroke:{};stroke-width:{}"></path>')
    for (colour, width_px), steps in lines.items():
        yield shape.format("".join(steps), colour, short_number(width_px))


def _heat(trace: Trace, x: Ruler, y: Ruler, titled: bool) -> Iterator[Markup]:  # noqa: FBT001
    """Cells with colours by their amounts, with texts where there is room."""
    facts = trace.facts
    low, high = _range_of(facts)
    colours = _colour_steps(facts)
    texts, boxes = facts.get("text") or [], facts.get("hovertext") or []
    for row, line in enumerate(facts["z"]):
        for column, value in enumerate(line):
            if value is None:
                continue
            colour = colour_at((value - low) / (high - low) if high > low else 1.0, colours)
            left, right = sorted((x.place(column - 0.5), x.place(column + 0.5)))
            upper, lower = sorted((y.place(row - 0.5), y.place(row + 0.5)))
            box = unmarked(boxes[row][column]) if titled and boxes else ""
            size = (max(right - left - 1, 0.5), max(lower - upper - 1, 0.5))
            yield _rectangle((left, upper), size, colour, box)
            text = unmarked(str(texts[row][column])) if texts else ""
            if text and len(text) * SIGN_PX <= right - left:
                red, green, blue = _channels(colour)
                kind = "dark" if 0.299 * red + 0.587 * green + 0.114 * blue > BRIGHT else "light"
                middle = (left + right) / 2, (upper + lower) / 2 + 4
                yield svg.text_line(*middle, text, kind, anchor="middle")


DRAWN: Mapping[str, Callable[[Trace, Ruler, Ruler, bool], Iterator[Markup]]] = {
    "scatter": _scatter,
    "bar": _bars,
    "heatmap": _heat,
}


def _range_of(facts: Mapping[str, Any]) -> tuple[float, float]:
    """Amounts of the first and of the last colour."""
    known = [value for line in facts["z"] for value in line if value is not None] or [0.0]
    return facts.get("zmin", min(known)), facts.get("zmax", max(known))


def _colour_steps(facts: Mapping[str, Any]) -> Sequence[str]:
    """Colours of equal steps."""
    scale = facts.get("colorscale", "Viridis")
    return VIRIDIS if isinstance(scale, str) else [colour for _, colour in scale]


def colour_at(share: float, colours: Sequence[str]) -> str:
    """A colour between others of equal steps.

    Examples
    --------
    >>> colour_at(0.5, ("#000000", "#ffffff")), colour_at(2.0, ("#000000", "#ffffff"))
    ('#808080', '#ffffff')
    """
    place = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    first = min(int(place), len(colours) - 2)
    pairs = zip(_channels(colours[first]), _channels(colours[first + 1]), strict=True)
    return "#" + "".join(f"{round(a + (place - first) * (b - a)):02x}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, ...]:
    """Red, green and blue of a colour, of 255."""
    return tuple(int(colour[start : start + 2], 16) for start in (1, 3, 5))


def _scale(chart: Chart, trace: Trace, width: float) -> Iterator[Markup]:
    """The bar of colours above a heat map."""
    bar = trace.facts.get("colorbar")
    if trace.kind != "heatmap" or bar is None:
        return
    low, high = _range_of(trace.facts)
    left, right = EDGE, min(width - EDGE, WIDE / 2)
    ruler = _ruler(
        {**bar, "range": (low, high if high > low else low + 1)}, ([], False), (left, right)
    )
    name = f"colours-{chart.key}-{short_number(width)}"
    colours = _colour_steps(trace.facts)
    steps = Markup("").join(
        Markup('<stop offset="{}" stop-color="{}"/>').format(
            f"{number / (len(colours) - 1):.3f}", colour
        )
        for number, colour in enumerate(colours)
    )
    shape = Markup(
        '<linearGradient id="{}">{}</linearGradient>'
        '<rect x="{}" y="18" width="{}" height="12" style="fill:url(#{})"></rect>'
    )
    yield shape.format(name, steps, *map(short_number, (left, right - left)), name)
    yield svg.text_line(left, 12, unmarked(_title(bar)), "title")
    free = -1.0
    for value, text in ruler.ticks:
        half = len(text) * SIGN_PX / 2
        centre_x = max(ruler.place(value), half)
        if centre_x - half > free:
            yield svg.text_line(centre_x, 44, text, "tick", anchor="middle")
            free = centre_x + half + SIGN_PX


def _sign(spot: tuple[float, float], radius: float, colour: str, symbol: str, box: str) -> Markup:
    """A mark: a disc or another sign of about its area."""
    x, y = spot
    look = f"fill:none;stroke:{colour};stroke-width:2" if "-open" in symbol else f"fill:{colour}"
    if symbol.startswith("circle"):
        shape = Markup('<circle cx="{}" cy="{}" r="{}" style="{}">{}</circle>')
        return shape.format(*map(short_number, (x, y, radius)), look, svg.hover_title(box))
    if symbol in ("cross", "x", "x-thin-open"):
        reach = radius * (1.0 if symbol == "cross" else sin(pi / 4))
        arms = (
            ((x - reach, y), (x + reach, y), (x, y - reach), (x, y + reach))
            if symbol == "cross"
            else (
                *((x - reach, y - reach), (x + reach, y + reach)),
                *((x - reach, y + reach), (x + reach, y - reach)),
            )
        )
        wide = 1.5 if symbol == "x-thin-open" else max(radius * 0.6, 1.5)
        shape = Markup('<path d="{}" style="stroke:{};stroke-width:{}">{}</path>')
        return shape.format(
            _way(arms, pairs=True), colour, short_number(wide), svg.hover_title(box)
        )
    points = 10 if symbol == "star" else CORNERS.get(symbol, 4)
    turn = TURNS.get(symbol, 0.0) + (0.125 if symbol == "square" else 0.0)
    corners = []
    for number in range(points):
        reach = radius * (1.2 if symbol != "star" else 1.3 if number % 2 == 0 else 0.55)
        angle = 2 * pi * (number / points + turn)
        corners.append((x + reach * cos(angle), y - reach * sin(angle)))
    shape = Markup('<path d="{}Z" style="{}">{}</path>')
    return shape.format(_way(corners), look, svg.hover_title(box))


def _labels(labels: Sequence[tuple[Any, str, str]], middle: float) -> Iterator[Markup]:
    """Texts beside marks; each keeps off those that it would lie on, towards the middle."""
    taken: list[tuple[float, float, float]] = []
    for (x, y), name, place in sorted(labels, key=lambda label: -abs(label[0][1] - middle)):
        up, _, side = place.partition(" ")
        text = unmarked(str(name)).replace("\n", " ")
        anchor = {"left": "end", "right": "start"}.get(side, "middle")
        anchor_x = x + {"left": -GAP, "right": GAP}.get(side, 0.0)
        line = y + {"top": -GAP, "bottom": GAP + LINE_PX / 2}.get(up, 4.0)
        length, step = len(text) * SIGN_PX, LINE_PX if y < middle else -LINE_PX
        left = anchor_x - length * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        occupied = [box[2] for box in taken if left < box[1] and box[0] < left + length]
        while any(abs(line - other) < LINE_PX for other in occupied):
            line += step
        taken.append((left, left + length, line))
        yield svg.text_line(anchor_x, line, text, "name", anchor=anchor)


def _swatch(trace: Json) -> Markup:
    """What a series looks like, in its button."""
    line: Any = trace.get("line") or {}
    marker: Any = trace.get("marker") or {}
    colours = _values_of_marks(marker.get("color", line.get("color", ACCENT)), 1)
    colour = colours[0] if colours else ACCENT
    if trace["type"] == "bar":
        return _rectangle((2.0, 1.0), (22.0, 10.0), colour, "")
    shapes = Markup("")
    if "lines" in str(trace.get("mode")):
        shapes += Markup("").join(_line({**trace, "line": line}, ((0.0, 6.0), (26.0, 6.0))))
    if "markers" in str(trace.get("mode")):
        symbols = _values_of_marks(marker.get("symbol", "circle"), 1)
        shapes += _sign((13.0, 6.0), 4.0, colour, str(symbols[0]), "")
    return shapes


def _rectangle(
    corner: tuple[float, float], size: tuple[float, float], colour: str, box: str
) -> Markup:
    """A filled rectangle by its upper left corner."""
    shape = Markup('<rect x="{}" y="{}" width="{}" height="{}" style="fill:{}">{}</rect>')
    return shape.format(*map(short_number, (*corner, *size)), colour, svg.hover_title(box))


def _path(points: Any, kind: str, *, pairs: bool = False) -> Markup:  # noqa: ANN401 - places
    """A line through points, or lines between pairs of them."""
    return Markup('<path d="{}" class="{}"></path>').format(_way([*points], pairs=pairs), kind)


def _way(points: Sequence[tuple[float, float]], *, pairs: bool = False) -> str:
    """Steps of a path."""
    step = 2 if pairs else len(points)
    return "".join(
        f"{'L' if number % step else 'M'}{short_number(x)} {short_number(y)}"
        for number, (x, y) in enumerate(points)
    )
