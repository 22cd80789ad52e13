"""Lines, points and heat over two axes as plotly draws them, from plain series of values.

Every mark carries its hover box, a few hundred bytes: a drawing has room for so many and no more,
however many points there are, and says what it leaves out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, log10

from msgspec import Struct

from netplan.reports.axes import (
    AxisScale,
    ChartAxis,
    category_scale,
    finite,
    fitting_scale,
    in_order,
    log_ticks,
    number_scale,
    spread,
)
from netplan.reports.charts import GREY, Chart, Json, error_bars, hover, named_ticks
from netplan.reports.charts import marks as drawn_marks
from netplan.reports.escape import chart_label, short
from netplan.reports.quantities import PREFIXED, Scalar, Words, shown
from netplan.units import si

Key = tuple[Scalar, ...]

COLOURS = (
    *("#3b74c9", "#d9702b", "#2f9e73", "#b4558f"),
    *("#8468cf", "#b8962a", "#2c9cb0", "#8a94a3"),
)
"""Fit for the light and the dark page."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SIGNS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
PUBLISHED, OURS = "published", "netplan"
"""What a legend calls points of a paper, and a line that has no other name."""
HOVER_BOX: Json = {"align": "left", "font": {"size": 12}}
HEIGHT_PX, LEGEND_PX = 400, 12
NAMED_SERIES = 24
"""Series up to which a legend names them [1]."""

NAME_LENGTH, MORE_LENGTH = 40, 10
"""Signs of a name in a legend that fit a phone, and of what is said of further ones [1]."""

MAX_LINES = 60
"""Lines of one drawing [1]."""

FEW = 40
"""Points of a line up to which each has a visible mark [1]."""

FINEST = 512
"""Cells of a drawing, each way, in which marks of one series count as one [1]."""

WRITTEN_COLUMNS, WRITTEN_CELLS = 12, 240
"""Cells up to which the value is written into each [1]."""

WIDE = 4.0
"""Ratio of the greatest to the least value from which colours go by the logarithm [1]."""

SMALL_SERIES, SMALL_COLUMNS, SMALL_NAME, SMALL_LABEL = 6, 8, 32, 30
"""Series, columns of cells, signs of a name in a legend and beside a bar up to which half the width
of a page is enough [1]."""

TITLE_PX = 20
"""Height kept for the title of a bar of colours, whose letters are smaller [px]."""

LEVEL_BAR_PX, BAR_LABEL = 18, 60
BAR_PX, FRAME_PX, ROW_PX, LEAST_PX, MOST_PX = 60, 130, 30, 320, 720


class Points(Struct, frozen=True):
    """The points of one drawing.

    Parameters
    ----------
    key, label
        Its place on the page, and its title.
    x, y
        The axes.
    xs, ys
        Values on them, one a point; None where a point has none.
    series
        What tells the lines or colours of the points apart, one key a point.
    name
        Name of a series from its key; empty if there is only one.
    box
        Hover box of a point by its number.
    ends
        Low and high end of the error bar of each value on the vertical axis; empty without any.
    printed
        Points of a paper, which lines and clouds show as open marks in the colour of their series:
        where each stands on both axes, and the key of its series.
    """

    key: str
    label: str
    x: ChartAxis
    y: ChartAxis
    xs: Sequence[Scalar]
    ys: Sequence[Scalar]
    series: Sequence[Key]
    name: Callable[[Key], str]
    box: Callable[[int], str]
    ends: Sequence[tuple[Scalar, Scalar]] = ()
    printed: Sequence[tuple[Scalar, Scalar, Key]] = ()

    @property
    def named(self) -> bool:
        """Whether there are series to name."""
        return any(self.series) or bool(self.printed)

    @property
    def every_x(self) -> list[Scalar]:
        """Values along the horizontal axis, those of the paper last."""
        return [*self.xs, *(x for x, *_ in self.printed)]

    @property
    def every_y(self) -> list[Scalar]:
        """Values along the vertical axis, those of the paper last."""
        return [*self.ys, *(y for _, y, _ in self.printed)]

    def published(
        self, scales: tuple["AxisScale", "AxisScale"], styles: Mapping[Key, tuple[str, int]]
    ) -> list[Json]:
        """The paper's points that can be drawn, in one trace; none where there are none."""
        places = [(scales[0].place(x), scales[1].place(y), y, key) for x, y, key in self.printed]
        drawn = [place for place in places if place[0] is not None and place[1] is not None]
        if not drawn:
            return []
        xs, ys, values, keys = zip(*drawn, strict=True)
        boxes = [
            hover(PUBLISHED, self.name(key), f"{shown(value, self.y.words.unit)}")
            for value, key in zip(values, keys, strict=True)
        ]
        colours = [styles.get(key, (GREY, 0))[0] for key in keys]
        look = {"color": colours, "size": 12, "symbol": "diamond-open", "line": {"width": 2}}
        return [drawn_marks("scatter", xs, ys, boxes, mode="markers", name=PUBLISHED, marker=look)]

    def drawn(self, marks: Sequence["Mark"], **facts: object) -> Json:
        """Some of them as plotly draws them; a gap has no hover box."""
        boxes = ["" if mark.y is None else self.box(mark.index) for mark in marks]
        bars = {"error_y": self._bars(marks)} if self.ends else {}
        xs, ys = [mark.x for mark in marks], [mark.y for mark in marks]
        return drawn_marks("scatter", xs, ys, boxes, **facts, **bars)

    def _bars(self, marks: Sequence["Mark"]) -> Json:
        """Error bars of marks; of no length where there are none."""
        above, below = [], []
        for mark in marks:
            low, high = (finite(end, log=False) for end in self.ends[mark.index])
            known = mark.y is not None and low is not None and high is not None
            above.append((high or 0.0) - (mark.y or 0.0) if known else 0.0)
            below.append((mark.y or 0.0) - (low or 0.0) if known else 0.0)
        return error_bars(above, below)


class Mark(Struct, frozen=True):
    """A point on a drawing: where it stands, None where it has no value, and its number."""

    x: float | None
    y: float | None
    index: int


def series_styles(keys: Sequence[Key]) -> dict[Key, tuple[str, int]]:
    """Colour of each series by its first value, number of its dash or sign by the others.

    Examples
    --------
    >>> list(series_styles([("a100", 4), ("a100", 8), ("b200", 4)]).values())
    [('#3b74c9', 0), ('#3b74c9', 1), ('#d9702b', 0)]
    """
    first = {value: number for number, value in enumerate(dict.fromkeys(key[:1] for key in keys))}
    rest = {value: number for number, value in enumerate(dict.fromkeys(key[1:] for key in keys))}
    styles = {}
    for key in keys:
        turn, colour = divmod(first[key[:1]], len(COLOURS))
        styles[key] = (COLOURS[colour], turn + rest[key[1:]])
    return styles


def _marks(points: Points, x_scale: AxisScale, y_scale: AxisScale) -> list[Mark]:
    return [
        Mark(x_scale.place(x), y_scale.place(y), index)
        for index, (x, y) in enumerate(zip(points.xs, points.ys, strict=True))
    ]


def _framed(scales: tuple[AxisScale, AxisScale], series: int, *, legend: bool) -> tuple[int, Json]:
    """Height [px] and layout of a drawing with so many series."""
    height = HEIGHT_PX + (LEGEND_PX * series if series <= NAMED_SERIES else 0)
    return height, {
        "xaxis": scales[0].layout,
        "yaxis": scales[1].layout,
        "showlegend": legend and series <= NAMED_SERIES,
        "hoverlabel": HOVER_BOX,
    }


def line_chart(points: Points, room: int) -> Chart:
    """Draw one line a series, with a gap where a point has no value.

    Parameters
    ----------
    points
        What to draw.
    room
        Points that the drawing may hold [1].
    """
    scales = fitting_scale(points.x, points.every_x), number_scale(points.y, points.every_y)
    lines: dict[Key, list[Mark]] = {}
    for mark in _marks(points, *scales):
        line = lines.setdefault(points.series[mark.index], [])
        if mark.x is not None:
            line.append(mark)
    for line in lines.values():
        line.sort(key=lambda mark: mark.x or 0.0)
    keys = spread(list(lines), MAX_LINES)
    drawn = {key: thinned(lines[key], max(room // len(keys), 2)) for key in keys}
    styles = series_styles(keys)
    data = tuple(
        _line(points, same, drawn[same[0]], (*styles[same[0]], number))
        for number, same in enumerate(_same_lines(drawn))
    )
    data += tuple(points.published(scales, styles))
    height, layout = _framed(scales, len(keys), legend=points.named)
    notes = tuple(_said_of_lines(points, lines, drawn))
    small = _is_small([points.name(key) for key in keys])
    return Chart(points.key, points.label, height, data, layout, notes, small=small)


def _is_small(names: Sequence[str]) -> bool:
    """Whether the names of a legend fit half the width of a page."""
    return len(names) <= SMALL_SERIES and all(len(name) <= SMALL_NAME for name in names)


def thinned(marks: Sequence[Mark], room: int) -> list[Mark]:
    """Marks of a line, of each part the least, the greatest and a gap if they are too many.

    Examples
    --------
    >>> marks = [Mark(x, abs(x - 50), x) for x in range(100)]
    >>> len(thinned(marks, 20)), min(mark.y for mark in thinned(marks, 20))
    (20, 0)
    """
    if len(marks) <= room:
        return list(marks)
    parts = room // 2
    kept: list[Mark] = []
    for part in range(parts):
        piece = marks[len(marks) * part // parts : len(marks) * (part + 1) // parts]
        values = [(mark.y, index) for index, mark in enumerate(piece) if mark.y is not None]
        stay = {min(values)[1], max(values)[1]} if values else set()
        gaps = [index for index, mark in enumerate(piece) if mark.y is None]
        kept += [piece[index] for index in sorted({*stay, *gaps[:1]})]
    return kept


def _same_lines(drawn: Mapping[Key, Sequence[Mark]]) -> list[list[Key]]:
    """Series whose lines lie on one another, together; one without values stays alone."""
    alike: dict[object, list[Key]] = {}
    for key, marks in drawn.items():
        seen = any(mark.y is not None for mark in marks)
        line = tuple((mark.x, mark.y) for mark in marks)
        alike.setdefault(line if seen else key, []).append(key)
    return list(alike.values())


def _line(
    points: Points, keys: Sequence[Key], marks: Sequence[Mark], style: tuple[str, int, int]
) -> Json:
    """One line as plotly draws it, named after all series that lie on it."""
    colour, dash, sign = style
    return points.drawn(
        marks,
        mode="lines+markers",
        name=_joint_name([points.name(key) for key in keys]) or (OURS if points.printed else ""),
        connectgaps=False,
        line={"color": colour, "width": 2, "dash": DASHES[dash % len(DASHES)]},
        marker={
            "color": colour,
            "size": 7 if len(marks) <= FEW else 3,
            "symbol": SIGNS[sign % len(SIGNS)],
        },
    )


def _joint_name(names: Sequence[str]) -> str:
    """Name of a line after all series that lie on it, or after the first and how many more.

    Examples
    --------
    >>> _joint_name(["a", "b", "c"]), _joint_name(["rail-optimized, batch 1", "rail-only, batch 1"])
    ('a = b = c', 'rail-optimized, batch 1 = 1 more')
    """
    whole = " = ".join(names)
    if len(names) > 1 and len(whole) > NAME_LENGTH:
        whole = f"{short(names[0], NAME_LENGTH)} = {len(names) - 1} more"
    return chart_label(whole, NAME_LENGTH + MORE_LENGTH)


def _said_of_lines(
    points: Points, lines: Mapping[Key, list[Mark]], drawn: Mapping[Key, list[Mark]]
) -> Iterator[str]:
    """What the drawing leaves out."""
    for keys in _same_lines(drawn):
        if len(keys) > 1:
            names = ", ".join(points.name(key) for key in keys)
            yield f"These lines lie on one another: {names}."
    if len(drawn) < len(lines):
        yield f"{len(drawn)} of {len(lines):,} lines are drawn, taken evenly."
    if len(drawn) > NAMED_SERIES:
        yield "The lines are too many for a legend: point at one to see which it is."
    if any(len(marks) < len(lines[key]) for key, marks in drawn.items()):
        yield "The lines are thinned out: of every part the least and the greatest value stay."
    placeless = len(points.xs) - sum(len(line) for line in lines.values())
    if placeless:
        where = points.x.words.quantity
        yield f"{placeless:,} points have no place over {where} and are not drawn."


def scatter_chart(points: Points, front: Sequence[int] | None, room: int) -> Chart:
    """Draw one mark a point, coloured by its series, and rings around those of a front.

    Parameters
    ----------
    points
        What to draw.
    front
        Numbers of the points of the Pareto front, by rising x; None draws none.
    room
        Marks that the drawing may hold [1].
    """
    scales = fitting_scale(points.x, points.every_x), fitting_scale(points.y, points.every_y)
    marks = [mark for mark in _marks(points, *scales) if None not in (mark.x, mark.y)]
    drawn = _apart(points, marks, frozenset(front or ()), room)
    series: dict[Key, list[Mark]] = {}
    for mark in drawn:
        series.setdefault(points.series[mark.index], []).append(mark)
    styles = series_styles(list(series))
    data = [
        points.drawn(
            series_marks,
            mode="markers",
            name=chart_label(points.name(key), 40) or "points",
            marker={
                "color": styles[key][0],
                "size": 8,
                "opacity": 0.8,
                "symbol": SIGNS[number % len(SIGNS)],
            },
        )
        for number, (key, series_marks) in enumerate(series.items())
    ]
    data += points.published(scales, styles)
    if front:
        data.insert(0, _rings([points.xs[row] for row in front], [points.ys[row] for row in front]))
    legend = points.named or front is not None
    height, layout = _framed(scales, len(series), legend=legend)
    notes = []
    if front is not None:
        notes.append("Rings mark the Pareto front: nothing to the left of a ring is as low.")
    if len(drawn) < len(marks):
        notes.append(
            f"{len(drawn):,} of {len(marks):,} points are drawn: of those that would cover each"
            " other one stays, and all of the front."
        )
    if len(series) > NAMED_SERIES:
        notes.append("The series are too many for a legend: point at a mark to see which it is.")
    if len(marks) < len(points.xs):
        notes.append(f"{len(points.xs) - len(marks):,} points lack a value and are not drawn.")
    small = _is_small([points.name(key) for key in series])
    return Chart(points.key, points.label, height, tuple(data), layout, tuple(notes), small=small)


def _apart(points: Points, marks: list[Mark], front: frozenset[int], room: int) -> list[Mark]:
    """Marks that can be told from each other: one for each cell and series, and all of the front.

    Cells grow until the marks find room. To take every n-th point instead would drop whole values
    of an axis.
    """
    cells, drawn = FINEST, marks
    xs = _along([mark.x for mark in marks], log_scale=points.x.log)
    ys = _along([mark.y for mark in marks], log_scale=points.y.log)
    while len(drawn) > room and cells > 1:
        firsts: dict[tuple[Key, int, int], Mark] = {}
        for mark, x, y in zip(marks, xs, ys, strict=True):
            firsts.setdefault((points.series[mark.index], int(x * cells), int(y * cells)), mark)
        kept = {mark.index for mark in firsts.values()} | front
        drawn = [mark for mark in marks if mark.index in kept]
        cells = cells * 3 // 4
    return drawn


def _along(values: Sequence[float | None], *, log_scale: bool) -> list[float]:
    """How far along its axis each value stands, from 0 to 1 [1]."""
    places = [
        (log10(value) if log_scale and value > 0 else value) if value is not None else 0.0
        for value in values
    ]
    low, high = min(places, default=0.0), max(places, default=0.0)
    span = (high - low) or inf
    return [(place - low) / span for place in places]


def _rings(xs: Sequence[Scalar], ys: Sequence[Scalar]) -> Json:
    """The front: from each of its marks level to the next, then down to it."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "Pareto front",
        "x": list(xs),
        "y": list(ys),
        "line": {"color": GREY, "width": 2, "shape": "hv"},
        "marker": {"color": GREY, "size": 14, "symbol": "circle-open"},
        "hoverinfo": "skip",
    }


def bar_chart(points: Points, parts: Mapping[str, Sequence[Scalar]], room: int) -> Chart:
    """Draw a level bar a point, cut into shares of its whole.

    Parameters
    ----------
    points
        What to draw; bars stand in their order, named by series and place on the x axis.
    parts
        Values of each part by its title, one a point; a point that lacks one has no bar.
    room
        Bars that the drawing may hold [1].
    """
    whole = [row for row, y in enumerate(points.ys) if finite(y)]
    every = [row for row in whole if all(finite(part[row]) is not None for part in parts.values())]
    bars = spread(every, room)
    unit = points.x.words.unit if points.x.words.unit in PREFIXED else ""
    names = [(shown(points.xs[row], unit), points.name(points.series[row])) for row in bars]
    labels = [chart_label(", ".join(filter(None, pair)), BAR_LABEL) for pair in names]
    data = tuple(
        drawn_marks(
            "bar",
            [100 * (finite(values[row]) or 0.0) / (finite(points.ys[row]) or inf) for row in bars],
            range(len(bars)),
            [points.box(row) for row in bars],
            name=chart_label(title, 40),
            marker={"color": colour},
            orientation="h",
        )
        for (title, values), colour in zip(parts.items(), COLOURS, strict=False)
    )
    layout = {
        "barmode": "stack",
        "xaxis": {
            "title": {"text": chart_label(f"{points.y.words.quantity}, %")},
            "range": [0, 100],
        },
        "yaxis": named_ticks(labels) | {"autorange": "reversed"},
        "showlegend": True,
        "hoverlabel": HOVER_BOX,
    }
    notes = []
    if len(bars) < len(every):
        notes.append(f"{len(bars):,} of {len(every):,} bars are drawn, taken evenly.")
    if len(every) < len(points.xs):
        notes.append(f"{len(points.xs) - len(every):,} points lack a value and are not drawn.")
    height = FRAME_PX + LEVEL_BAR_PX * len(bars)
    small = all(len(label) <= SMALL_LABEL for label in labels)
    return Chart(points.key, points.label, height, data, layout, tuple(notes), small=small)


def heat_chart(
    points: Points, zs: Sequence[Scalar], words: Words, room: int, shared: Sequence[Scalar] = ()
) -> Chart:
    """Draw a cell for every pair of values of the two axes, coloured by a third value.

    Parameters
    ----------
    points
        What to draw; the first point of a cell stands for it.
    zs
        Values that give the colours, one a point.
    words
        Their name and unit.
    room
        Cells that the drawing may hold [1].
    shared
        Values of all drawings that are to have these colours; empty where they fit its own.
    """
    cells: dict[tuple[Scalar, Scalar], int] = {}
    for row, place in enumerate(zip(points.xs, points.ys, strict=True)):
        cells.setdefault(place, row)
    every_x, every_y = in_order(x for x, _ in cells), in_order(y for _, y in cells)
    xs, ys = _fitting(every_x, every_y, room)
    grid = [[cells.get((x, y)) for x in xs] for y in ys]
    scales = category_scale(points.x.words, xs), category_scale(points.y.words, ys)
    _, layout = _framed(scales, len(ys), legend=False)
    layout = {**layout, "margin": {"l": 8, "r": 16, "t": BAR_PX, "b": 48}}
    height = min(max(FRAME_PX + ROW_PX * len(ys), LEAST_PX), MOST_PX)
    notes = []
    if (len(xs), len(ys)) != (len(every_x), len(every_y)):
        notes.append(
            f"{len(xs)} of {len(every_x):,} columns and {len(ys)} of {len(every_y):,} rows are"
            " drawn, taken evenly."
        )
    if len(cells) < len(points.xs):
        notes.append(f"{len(points.xs) - len(cells):,} points share a cell with one that is shown.")
    data = (_cells(points, grid, zs, words, shared),)
    small = len(xs) <= SMALL_COLUMNS
    return Chart(points.key, points.label, height, data, layout, tuple(notes), small=small)


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


def _cells(
    points: Points,
    grid: Sequence[Sequence[int | None]],
    zs: Sequence[Scalar],
    words: Words,
    shared: Sequence[Scalar],
) -> Json:
    """Cells as plotly draws them; blank, and without a hover box, where there is no value."""
    values = [[None if row is None else finite(zs[row]) for row in line] for line in grid]
    drawn = [value for line in values for value in line if value is not None]
    scale_values = [value for amount in shared if (value := finite(amount)) is not None] or drawn
    log = by_logarithm(scale_values)
    trace: dict[str, object] = {
        "type": "heatmap",
        "z": [[log10(amount) if log and amount else amount for amount in line] for line in values],
        "hovertext": [
            ["" if row is None or finite(zs[row]) is None else points.box(row) for row in line]
            for line in grid
        ],
        "hoverinfo": "text",
        "hoverongaps": False,
        "colorscale": "Viridis",
        "xgap": 1,
        "ygap": 1,
        "colorbar": _colour_bar(words, scale_values, log=log),
    }
    if shared and scale_values:
        ends = min(scale_values), max(scale_values)
        trace["zmin"], trace["zmax"] = (log10(end) if log else end for end in ends)
    width = max((len(line) for line in grid), default=0)
    if width <= WRITTEN_COLUMNS and width * len(grid) <= WRITTEN_CELLS:
        trace["text"] = [
            ["" if amount is None else _short(amount, words) for amount in line] for line in values
        ]
        trace["texttemplate"] = "%{text}"
    return trace


def by_logarithm(values: Sequence[float]) -> bool:
    """Whether colours of some values go by the logarithm.

    Examples
    --------
    >>> by_logarithm([1.0, 5.0]), by_logarithm([1.0, 2.0]), by_logarithm([0.0, 5.0])
    (True, False, False)
    """
    return bool(values) and min(values) > 0 and max(values) > WIDE * min(values)


def _short(value: float, words: Words) -> str:
    """A value with its prefix, if its unit takes one: the title of the colour bar has the unit."""
    return si(value) if words.unit in PREFIXED else shown(float(f"{value:.3g}"))


def _colour_bar(words: Words, numbers: Sequence[float], *, log: bool) -> Json:
    """Colour bar above the drawing, so that it takes no width on a phone."""
    bar: dict[str, object] = {
        "orientation": "h",
        "yref": "container",
        "y": 1,
        "yanchor": "top",
        "ypad": 0,
        "thickness": 12,
        "outlinewidth": 0,
        "title": {"text": chart_label(words.title, 60), "side": "top", "font": {"size": TITLE_PX}},
        "exponentformat": "SI" if words.unit in PREFIXED else "B",
    }
    if log:
        ticks = log_ticks(min(numbers), max(numbers))
        bar |= {
            "tickmode": "array",
            "tickvals": [log10(tick) for tick in ticks],
            "ticktext": [chart_label(_short(tick, words)) for tick in ticks],
        }
    return bar
