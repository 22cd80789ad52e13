"""The charts of a study, drawn and as tables: which points each shows, under what names.

A study may vary more than its chart names. Lines are then told apart by what is left, and a heat
chart or bars become one drawing for each value of it, so that no two points share a place. The
numbers of a chart are tables of texts, those of all points of pages.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import floor, isfinite, log10
from operator import methodcaller
from statistics import median
from typing import Literal

from msgspec import Struct

from netplan.performance.pareto import pareto_front
from netplan.records import replace
from netplan.reports import plots, quantities
from netplan.reports.axes import ChartAxis, finite, flattened
from netplan.reports.charts import Chart, hover
from netplan.reports.escape import short
from netplan.reports.expressions import parse_expression
from netplan.reports.sections import Column, Paragraph, Table, column
from netplan.studies.definition import ChartSpec, StudyDefinition
from netplan.studies.lower_bounds import LOWER_BOUNDS, SEPARATOR, bounds_of

Row = Mapping[str, quantities.Scalar]
STATUS = "status"
"""Output that every point has: ``ok``, or why the question has no answer there."""

OK = "ok"
PLAN = "plan"
NONE = "none"
"""Name of a part that is left out, such as of expanded memory."""

OF_MODEL = "iteration-model."
"""Start of inputs that are values of the iteration model: where none is given, its own holds."""

MILLION_DIGITS = 1
"""Decimals of millions of money."""

LINE_LENGTH = 48
"""Signs of a line in a hover box that fit a phone [1]."""

OTHER_OUTPUTS = 6
"""Outputs in a hover box besides those of the chart [1]."""

MAX_PANELS = 16
"""Drawings of one chart [1]; the page says how many more there are."""

PAGE_MARKS = 30_000
"""Marks of a whole page [1]: about 12 MB."""

OF_PAPER = "The paper's values stand in the table of published values, with the gap of each."
"""What is said of cells and bars, on which no mark of another's can stand."""

MARKS = {"lines": 6_000, "heat": 20_000, "scatter": 5_000, "bars": 2_000}
"""Marks with which one drawing of each kind still answers quickly [1]."""


class Reader(Struct, frozen=True):
    """Values of a study's rows, by name and for people.

    An input that stays is not in the rows but in ``spec``; ``currency`` is that of amounts whose
    names do not say it, ``book_currency`` that of rows of the price book.
    """

    spec: StudyDefinition
    currency: str
    book_currency: str

    def value(self, row: Row, name: str) -> quantities.Scalar:
        """Value of an input or output at a point.

        A point without an answer has no outputs, but still has a place on axes that its inputs
        alone decide.
        """
        value = row[name] if name in row else self.spec.inputs.get(name)
        formula = self.spec.formulas.get(name)
        without = value is None and row.get(STATUS) != OK
        if without and formula is not None and inputs_behind(self.spec, name) is not None:
            expression = parse_expression(formula)
            return expression.scalar({part: self.value(row, part) for part in expression.names})
        return value

    def words(self, name: str) -> quantities.Words:
        """Name of an input or output for people."""
        wording = _words(
            name, self.book_currency if name.startswith(quantities.PRICE_ROW) else self.currency
        )
        title = (self.spec.titles or {}).get(name)
        return wording if title is None else replace(wording, quantity=title)

    def quantity(self, name: str, rows: Sequence[Row]) -> quantities.Quantity:
        """A value of all points as a quantity: its words and unit, and what its numbers are."""
        wording, values = self.words(name), [row.get(name) for row in rows]
        numbers = [value for value in values if finite(value) is not None]
        form: quantities.Form = "general"
        if not numbers:
            form = "text"
        elif wording.unit in {self.currency, self.book_currency, "USD"} - {""}:
            form = "money"
        elif wording.unit in quantities.PREFIXED:
            form = "si"
        elif all(isinstance(value, int) for value in numbers):
            form = "count"
        return quantities.Quantity(name, wording.quantity, wording.unit, form)

    def shown(self, name: str, value: quantities.Scalar) -> str:
        """A value of an input or output with its unit."""
        if value is None and name.startswith(OF_MODEL) and name in self.spec.axis_names:
            return "the model's own"
        unit = self.words(name).unit
        large, (amount,) = self.in_millions(unit, [value])
        if large == unit or not isinstance(amount, float):
            return quantities.shown(value, unit)
        return f"{amount:,.{MILLION_DIGITS}f} {large}"

    def in_millions(
        self, unit: str, values: Sequence[quantities.Scalar]
    ) -> tuple[str, list[quantities.Scalar]]:
        """Unit and values, in millions if they are large amounts of money."""
        numbers = [value for value in values if finite(value) is not None]
        large = max((abs(float(value or 0)) for value in numbers), default=0.0)
        currencies = {self.currency, self.book_currency, "USD"} - {""}
        if large < quantities.IN_MILLIONS_FROM or unit not in currencies:
            return unit, list(values)
        return f"M {unit}", [
            value / 1e6 if isinstance(value, (int, float)) else value for value in values
        ]

    def part(self, name: str) -> str:
        """What a part of a bar is called."""
        return (self.spec.titles or {}).get(name) or part_title(name)

    def head(self, name: str) -> tuple[str, str]:
        """Title of a column, and the unit of its cells: that stands there if it takes a prefix."""
        wording = self.words(name)
        return (
            (wording.quantity, wording.unit)
            if wording.unit in quantities.PREFIXED
            else (wording.title, "")
        )

    def named(self, name: str, value: quantities.Scalar) -> str:
        """Name and value, such as ``HB domain 8 GPUs``."""
        return f"{self.words(name).quantity} {self.shown(name, value)}"

    def texts(self, values: Iterable[tuple[str, quantities.Scalar]]) -> str:
        """Names and values in one line, such as ``HB domain 8 GPUs``; a text stands for itself."""
        parts = []
        for name, value in values:
            if value == NONE:
                parts.append(f"no {self.words(name).quantity}")
            else:
                parts.append(value if isinstance(value, str) else self.named(name, value))
        return ", ".join(parts)

    def box(self, row: Row, names: Sequence[str]) -> str:
        """Hover box: one line for each name that has a value at this point."""
        values = [(name, self.value(row, name)) for name in names]
        return hover(
            *(
                short(
                    f"{self.words(name).quantity}: {_bound(name)(row)[0]}{self.shown(name, value)}",
                    LINE_LENGTH,
                )
                for name, value in values
                if value is not None
            )
        )


@cache
def _words(name: str, currency: str) -> quantities.Words:
    """Words of a name; amounts of a row are what they are without its steps."""
    wording, (head, dot, tail) = quantities.words(name, currency), name.partition(".")
    if wording.unit or not dot:
        return wording
    inner = _words(tail, currency)
    quantity = f"{quantities.words(head).quantity} {inner.quantity}"
    return replace(inner, quantity=quantity) if inner.unit else wording


def inputs_behind(spec: StudyDefinition, name: str) -> frozenset[str] | None:
    """Inputs that alone decide a value; None where the question's answer decides it.

    Examples
    --------
    >>> from netplan.studies.definition import STUDIES
    >>> spec = STUDIES.load("hb-bandwidth")
    >>> sorted(inputs_behind(spec, "hb_tbps")), inputs_behind(spec, "mfu")
    (['accelerator.hb_bytes_per_s'], None)
    """
    if name in spec.inputs or name in spec.axis_names:
        return frozenset((name,))
    formula = spec.formulas.get(name)
    if formula is None:
        return None
    behind: set[str] = set()
    for part in parse_expression(formula).names:
        inner = inputs_behind(spec, part)
        if inner is None:
            return None
        behind |= inner
    return frozenset(behind)


def study_charts(
    rows: Sequence[Row], reader: Reader, printed: Sequence[Row] = ()
) -> Iterator[Chart | Paragraph]:
    """Draw the charts of a study's points, and say which drawings are left out.

    ``printed`` are rows with the outputs of its paper, which stand beside the study's own.
    """
    specs = reader.spec.charts
    every = [panels_of(rows, spec, reader, printed) for spec in specs]
    panels = [
        [panel for panel in chart_panels if panel.shows(spec)]
        for spec, chart_panels in zip(specs, every, strict=True)
    ]
    room = PAGE_MARKS // max(sum(len(chart_panels[:MAX_PANELS]) for chart_panels in panels), 1)
    for number, (spec, chart_panels) in enumerate(zip(specs, panels, strict=True), start=1):
        scales = shared_scales(spec, chart_panels)
        for place, panel in enumerate(chart_panels[:MAX_PANELS], start=1):
            marks = min(room, MARKS[spec.kind])
            chart = _drawn(spec, panel, f"{number}-{place}", marks, scales)
            listed_only = panel.printed and spec.kind in ("heat", "bars")
            texts = (scales.said, OF_PAPER if listed_only else "")
            chart = replace(chart, said=(*chart.said, *filter(None, texts)))
            yield chart
        if len(chart_panels) > MAX_PANELS:
            more = len(chart_panels) - MAX_PANELS
            text = f"The first {MAX_PANELS} drawings are shown; {more:,} more are not."
            yield Paragraph(text, "quiet", shown="pages")
        empty = [panel.heading for panel in every[number - 1] if not panel.shows(spec)]
        if empty:
            of = f" for {'; '.join(empty)}" if any(empty) else ""
            yield Paragraph(f"{spec.title}: no values{of}.", "quiet", shown="pages")


class Panel(Struct, frozen=True):
    """One drawing: its points, and the names of what they share and what tells them apart."""

    rows: Sequence[Row]
    heading: str
    shared: tuple[str, ...]
    series: tuple[str, ...]
    reader: Reader
    printed: Sequence[Row] = ()

    def shows(self, spec: ChartSpec) -> bool:
        """Whether a heat chart has a colour for any of the points, as other charts may."""
        return spec.z is None or any(row[spec.z] is not None for row in self.rows)


class Scales(Struct, frozen=True):
    """Values that the drawings of a chart have their scales of; what differs, in a sentence."""

    x: Sequence[quantities.Scalar] = ()
    y: Sequence[quantities.Scalar] = ()
    z: Sequence[quantities.Scalar] = ()
    said: str = ""


def shared_scales(spec: ChartSpec, panels: Sequence[Panel]) -> Scales:
    """The scales that all drawings of a chart share, where none would lie flat on them."""
    if len(panels) <= 1 or spec.kind == "bars":
        return Scales()
    names = {"x": spec.x, "y": spec.y} if spec.z is None else {"z": spec.z}
    logs = {"x": spec.x_log, "y": spec.y_log}
    shared: dict[str, list[quantities.Scalar]] = {}
    unshared = []
    for axis, name in names.items():
        values = [_with_ends(panel, name, spec) for panel in panels]
        texts = any(isinstance(value, (str, bool)) for panel in values for value in panel)
        numbers = [
            number for panel in values for value in panel if (number := finite(value)) is not None
        ]
        log = plots.by_logarithm(numbers) if axis == "z" else logs[axis]
        if not texts and flattened(values, log=log):
            unshared.append(panels[0].reader.words(name).quantity)
        else:
            shared[axis] = [value for panel in values for value in panel]
    text = ""
    if unshared:
        what = quantities.listed(unshared)
        text = f"Each drawing has its own scale of {what}: on one for all, some would show nothing."
    return Scales(shared.get("x", ()), shared.get("y", ()), shared.get("z", ()), text)


def _with_ends(panel: Panel, name: str, spec: ChartSpec) -> list[quantities.Scalar]:
    """Values of an axis, with the ends of error bars on them."""
    values = [panel.reader.value(row, name) for row in (*panel.rows, *panel.printed)]
    if name == spec.y and spec.z is None:
        values += [end for ends in bar_ends(panel.rows, name) for end in ends if end is not None]
    return [value for value in values if value is not None]


def panels_of(
    rows: Sequence[Row], spec: ChartSpec, reader: Reader, printed: Sequence[Row] = ()
) -> list[Panel]:
    """Split the points of a chart, and those of its paper."""
    left = left_open(reader.spec, spec)
    names = ((spec.each,) if spec.each else ()) + (left if spec.kind in ("heat", "bars") else ())
    series = spec.series + (left if spec.kind == "lines" else ())
    groups, of_paper = _grouped(rows, names, reader), _grouped(printed, names, reader)
    return [
        Panel(
            panel_rows,
            reader.texts(zip(names, values, strict=True)),
            names,
            series,
            reader,
            of_paper.get(values, ()),
        )
        for values, panel_rows in groups.items()
    ]


def _grouped(
    rows: Sequence[Row], names: Sequence[str], reader: Reader
) -> dict[plots.Key, list[Row]]:
    """Rows by their values of some names."""
    groups: dict[plots.Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(reader.value(row, name) for name in names), []).append(row)
    return groups


def _drawn(spec: ChartSpec, panel: Panel, key: str, room: int, scales: Scales) -> Chart:
    """Draw one panel of a chart."""
    reader, rows, printed = panel.reader, panel.rows, panel.printed
    xs, ys, printed_xs, printed_ys = (
        [reader.value(row, name) for row in chosen]
        for chosen in (rows, printed)
        for name in (spec.x, spec.y)
    )
    y_words = reader.words(spec.y)
    unit, (*all_ys,) = reader.in_millions(y_words.unit, [*ys, *printed_ys, *scales.y])
    ys, printed_ys, shared_ys = (
        all_ys[: len(ys)],
        all_ys[len(ys) : len(ys) + len(printed)],
        all_ys[len(ys) + len(printed) :],
    )
    steps = spec.kind == "lines" and inputs_behind(reader.spec, spec.x) is not None
    names = (*panel.series, spec.x, spec.y) if spec.z is None else (spec.x, spec.y, spec.z)
    names += spec.parts
    # A box names the chart's own values, the plan, open inputs, other outputs; not what all
    # points of a drawing share, which its title says.
    outputs = [name for name in reader.spec.output_names if name not in (*names, PLAN)]
    others = [name for name in outputs if inputs_behind(reader.spec, name) is None][:OTHER_OUTPUTS]
    plan = [PLAN] if PLAN in reader.spec.output_names else []
    left = open_axes(reader.spec, (*names, *panel.shared))
    boxed = tuple(dict.fromkeys((*names, *plan, *left, *others)))
    points = plots.Points(
        key=key,
        label=f"{spec.title}: {panel.heading}" if panel.heading else spec.title,
        x=ChartAxis(reader.words(spec.x), spec.x_log, steps, scales.x),
        y=ChartAxis(replace(y_words, unit=unit), spec.y_log, shared=shared_ys),
        xs=xs,
        ys=ys,
        series=[tuple(reader.value(row, name) for name in panel.series) for row in rows],
        name=lambda series_key: reader.texts(zip(panel.series, series_key, strict=True)),
        box=lambda index: reader.box(rows[index], boxed),
        ends=bar_ends(rows, spec.y),
        printed=[
            (x, y, tuple(reader.value(row, name) for name in panel.series))
            for x, y, row in zip(printed_xs, printed_ys, printed, strict=True)
        ],
    )
    if spec.z is not None:
        z_words = reader.words(spec.z)
        amounts = [reader.value(row, spec.z) for row in rows]
        unit, (*zs,) = reader.in_millions(z_words.unit, [*amounts, *scales.z])
        named = replace(z_words, unit=unit)
        return plots.heat_chart(points, zs[: len(amounts)], named, room, zs[len(amounts) :])
    if spec.parts:
        parts = {
            reader.part(part): [reader.value(row, part) for row in rows] for part in spec.parts
        }
        return plots.bar_chart(points, parts, room // len(parts))
    if spec.kind == "lines":
        return plots.line_chart(points, room)
    return plots.scatter_chart(points, front_of(rows, spec) if spec.front else None, room)


def bar_ends(rows: Sequence[Row], name: str) -> list[tuple[quantities.Scalar, quantities.Scalar]]:
    """Low and high end of an output at each point, where the study has them; none where not."""
    stem = name.removesuffix("_s")
    low, high = f"{stem}_low_s", f"{stem}_high_s"
    if not all(low in row and high in row for row in rows):
        return []
    return [(row[low], row[high]) for row in rows]


def part_title(name: str) -> str:
    """What a part of a bar is called.

    Examples
    --------
    >>> part_title("phases_s.forward_compute")
    'forward compute'
    """
    return name.rpartition(".")[2].replace("_", " ")


def front_of(rows: Sequence[Row], spec: ChartSpec) -> list[int]:
    """Numbers of the rows that no other beats in both x and y, by rising x.

    Of rows equal in both the first stands for all; rows without numbers are left out.
    """
    values = [
        (index, finite(row[spec.x], log=spec.x_log), finite(row[spec.y], log=spec.y_log))
        for index, row in enumerate(rows)
    ]
    points = [(index, (x, y)) for index, x, y in values if x is not None and y is not None]
    return [points[group[0]][0] for group in pareto_front([point for _, point in points])]


def left_open(study: StudyDefinition, spec: ChartSpec) -> tuple[str, ...]:
    """Inputs that vary though the chart names none of their axis.

    Over an output nothing is left open: its values are as many as the points.
    """
    places = (spec.x, spec.y) if spec.kind == "heat" else (spec.x,)
    if any(inputs_behind(study, name) is None for name in places):
        return ()
    panel_names = (spec.each,) if spec.each else ()
    return open_axes(study, (*places, *panel_names, *spec.series))


def open_axes(spec: StudyDefinition, names: Iterable[str]) -> tuple[str, ...]:
    """First input of every axis that varies while these inputs and outputs stay."""
    settled: set[str] = set()
    for name in names:
        settled |= inputs_behind(spec, name) or frozenset()
    return tuple(
        axis.names[0]
        for axis in spec.axes
        if len(axis.rows) > 1 and not settled.intersection(axis.names)
    )


DIGITS = 4
"""Significant digits of the smallest number of a table [1]."""

MAX_SPREAD = 10_000
"""Largest over smallest number that are written with equal decimals [1]."""

MAX_COLUMNS, MAX_ROWS = 12, 40
"""Columns and rows of a table that stands for a chart in texts [1]."""

MOST_DECIMALS = 3
"""Decimals of millions of money in a table, at the most [1]: thousands."""

PLACE = "place"
"""Column of several inputs in one text."""

COUNTED = "values"
"""Column that counts the values behind a spread."""


def chart_tables(rows: Sequence[Row], chart: ChartSpec, reader: Reader) -> Iterator[Table[Row]]:
    """The numbers of a chart as tables: x down, series across; y down, x across; or the front.

    What varies though the chart does not name it stands beside the series, or beside y.
    """
    left = left_open(reader.spec, chart)
    groups: dict[quantities.Scalar, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[chart.each] if chart.each else None, []).append(row)
    for value, chosen in groups.items():
        if chart.z is not None and all(row[chart.z] is None for row in chosen):
            continue
        title = chart.title
        if chart.each:
            title += f": {reader.texts([(chart.each, value)])}"
        if chart.over is not None:
            yield _spread(title, chosen, chart, reader)
        elif chart.kind == "scatter":
            yield _front(title, chosen, chart, reader)
        elif chart.kind == "bars":
            yield _parts(title, chosen, chart, (chart.x, *chart.series, *left), reader)
        elif chart.kind == "heat":
            yield _pivot(title, chosen, ((chart.y, *left), (chart.x,), str(chart.z)), reader)
        else:
            down: tuple[str, ...] = (chart.x,)
            across: tuple[str, ...] = (*chart.series, *left)
            heads = {tuple(reader.value(row, name) for name in across) for row in chosen}
            if len(heads) > MAX_COLUMNS:
                down, across = across, down
            yield _pivot(title, chosen, (down, across, chart.y), reader)


def _front(title: str, rows: Sequence[Row], chart: ChartSpec, reader: Reader) -> Table[Row]:
    """Table of the points that no other beats, with their plans."""
    plan = [PLAN] if PLAN in rows[0] else []
    keep = [*chart.series, chart.x, chart.y, *plan]
    names = [name for name in reader.spec.axis_names if name not in (*keep, chart.each)]
    front = [rows[index] for index in front_of(rows, chart)[:MAX_ROWS]]
    columns = []
    for name in (*names, *keep):  # each of its values with as many decimals
        values = [row.get(name) for row in front]
        written = _written(name, reader, values)
        head = reader.head(name)[0] if written.scale == 1 else _title(name, reader, values)
        get = methodcaller("get", name)
        columns.append(Column(replace(written, title=head), get, mark=_bound(name)))
    return Table(title, columns, front, f"{title}, the Pareto front", shown="texts")


def _spread(title: str, rows: Sequence[Row], chart: ChartSpec, reader: Reader) -> Table[Row]:
    """Table of how far an input spreads an output: how many values, the least, median and most."""
    left = [name for name in left_open(reader.spec, chart) if name != chart.over]
    names = tuple(dict.fromkeys((chart.x, *chart.series, *left)))
    groups: dict[tuple[quantities.Scalar, ...], list[float]] = {}
    for row in rows:
        value = row[chart.y]
        if isinstance(value, (int, float)):
            groups.setdefault(tuple(row[name] for name in names), []).append(value)
    cells: list[dict[str, quantities.Scalar]] = [
        dict(zip(names, place, strict=True))
        | {COUNTED: len(values), "least": min(values)}
        | {"median": median(values), "most": max(values)}
        for place, values in groups.items()
    ]
    measures = ("least", "median", "most")
    values = [row[name] for row in cells for name in measures]
    written = _written(chart.y, reader, values)
    others = [Column(replace(written, title=name), methodcaller("get", name)) for name in measures]
    count = column(COUNTED, methodcaller("get", COUNTED), form="count")
    places = [point_column(name, cells, reader) for name in names]
    what = f"{_title(chart.y, reader, values)} over {reader.words(str(chart.over)).quantity}"
    return Table(title, [*places, count, *others], cells, f"{title} ({what})", shown="people")


def _parts(
    title: str, rows: Sequence[Row], chart: ChartSpec, places: Sequence[str], reader: Reader
) -> Table[Row]:
    """Table of an output and the parts that it is cut into, a row a bar."""
    bars = rows[:MAX_ROWS]
    names = {chart.y: "whole"} | {part: reader.part(part) for part in chart.parts}
    written = _written(chart.y, reader, [row[name] for row in bars for name in names])
    values = [
        Column(replace(written, title=named), methodcaller("get", name), mark=_bound(name))
        for name, named in names.items()
    ]
    return Table(
        title,
        [_place_column(places, bars, reader), *values],
        bars,
        f"{title} ({reader.words(chart.y).title})",
        tuple(_cut(len(rows), len(values))),
        shown="texts",
    )


def _pivot(
    title: str, rows: Sequence[Row], names: tuple[Sequence[str], Sequence[str], str], reader: Reader
) -> Table[Row]:
    """Table of one output (the last name) over others down and across, in their order."""
    down, across, value = names
    table: dict[tuple[quantities.Scalar, ...], dict[str, quantities.Scalar]] = {}
    heads: dict[str, None] = {}
    for row in rows:
        head = ", ".join(reader.shown(name, reader.value(row, name)) for name in across) or value
        heads[head] = None
        place = tuple(reader.value(row, name) for name in down)
        cell = table.setdefault(place, dict(zip(down, place, strict=True)))
        cell[head] = row[value]
        if value in bounds_of(row):
            cell[LOWER_BOUNDS] = SEPARATOR.join((*bounds_of(cell), head))
    cells = list(table.values())[:MAX_ROWS]
    values = [row.get(head) for row in cells for head in heads]
    written = _written(value, reader, values)
    what = [_title(value, reader, values)]
    what += [f"columns: {', '.join(reader.words(name).quantity for name in across)}"] * bool(across)
    others = [
        Column(replace(written, title=head), methodcaller("get", head), mark=_bound(head))
        for head in list(heads)[:MAX_COLUMNS]
    ]
    return Table(
        title,
        [_place_column(down, cells, reader), *others],
        cells,
        f"{title} ({'; '.join(what)})",
        tuple(_cut(len(table), len(heads))),
        shown="texts",
    )


def _place_column(names: Sequence[str], rows: Sequence[Row], reader: Reader) -> Column[Row]:
    """Column of one input, or of several in one text: a table that is too wide repeats it."""
    if len(names) == 1:
        return point_column(names[0], rows, reader)
    titles, units = zip(*map(reader.head, names), strict=True)
    return Column(
        quantities.Quantity(PLACE, ", ".join(titles)),
        lambda row: ", ".join(
            quantities.shown(row[name], unit) for name, unit in zip(names, units, strict=True)
        ),
    )


def _cut(rows: int, columns: int) -> Iterator[str]:
    """What a table in a text does not show."""
    for what, most, count in (("rows", MAX_ROWS, rows), ("columns", MAX_COLUMNS, columns)):
        if count > most:
            yield f"And {count - most:,} more {what}; --format csv lists all points."


def _written(name: str, reader: Reader, values: Sequence[quantities.Scalar]) -> quantities.Quantity:
    """How values are written: with a prefix, with equal decimals, or as the texts that they are."""
    unit = reader.words(name).unit
    numbers = [value for value in values if isinstance(value, (int, float))]
    if any(isinstance(value, str) for value in values):
        return quantities.Quantity(name, name)
    if unit in quantities.PREFIXED:
        return quantities.Quantity(name, name, unit, "si", DIGITS)
    large, millions = reader.in_millions(unit, values)
    if large != unit:
        sizes = [float(value) for value in millions if isinstance(value, (int, float))]
        digits = min(max(decimals_of(sizes) or 0, MILLION_DIGITS), MOST_DECIMALS)
        return quantities.Quantity(name, name, large, "fixed", digits, scale=1e6)
    if all(isinstance(value, int) for value in numbers):
        return quantities.Quantity(name, name, unit, "count")
    decimals = quantities.PERCENT_DIGITS if unit == "%" else decimals_of(numbers)
    if decimals is None:
        return quantities.Quantity(name, name, unit, "general", DIGITS)
    return quantities.Quantity(name, name, unit, "fixed", decimals)


def decimals_of(values: Iterable[float]) -> int | None:
    """Decimals with which the smallest of some numbers still has its digits [1].

    None if the largest is ten thousand times as large: no number of decimals suits both.

    Examples
    --------
    >>> decimals_of([10.103, 1.48255]), decimals_of([0.633185, 0.070494, 0.0])
    (3, 5)
    >>> decimals_of([250_609_664.5, 1e8]), decimals_of([1e-6, 1.0])
    (0, None)
    """
    sizes = [abs(value) for value in values if value and isfinite(value)]
    if not sizes:
        return 0
    if max(sizes) >= MAX_SPREAD * min(sizes):
        return None
    return max(0, DIGITS - 1 - floor(log10(min(sizes))))


def point_column(name: str, rows: Sequence[Row], reader: Reader) -> Column[Row]:
    """Column of an input or output; large amounts of money in millions, all with equal decimals."""
    title, unit = reader.head(name)
    form: Literal["text", "code"]
    form = "text" if any(isinstance(row.get(name), str) for row in rows) else "code"
    values = [reader.value(row, name) for row in rows]
    if reader.in_millions(reader.words(name).unit, values)[0] != reader.words(name).unit:
        return Column(
            replace(_written(name, reader, values), title=_title(name, reader, values)),
            lambda row: reader.value(row, name),
            mark=_bound(name),
        )
    return Column(
        quantities.Quantity(name, title, form=form),
        lambda row: quantities.shown(reader.value(row, name), unit),
        mark=_bound(name),
    )


def _bound(name: str) -> Callable[[Row], tuple[str, str]]:
    """The sign of a sum that leaves out what has no price."""
    return lambda row: ("≥ " if name in bounds_of(row) else "", "")


def _title(name: str, reader: Reader, values: Sequence[quantities.Scalar]) -> str:
    """Name and unit of an input or output; of large amounts of money in millions."""
    wording = reader.words(name)
    return replace(wording, unit=reader.in_millions(wording.unit, values)[0]).title
