"""The numbers of a study as tables: those of a chart for texts, those of all points for pages."""

from collections.abc import Iterable, Iterator, Sequence
from math import floor, isfinite, log10
from operator import methodcaller
from statistics import median
from typing import Literal

from netplan.records import replace
from netplan.reports.quantities import PERCENT_DIGITS, PREFIXED, Quantity, Scalar, shown
from netplan.reports.sections import Column, Table, column
from netplan.studies.charts import MILLION_DIGITS, PLAN, Reader, Row, front_of, left_open
from netplan.studies.definition import ChartSpec

DIGITS = 4
"""Significant digits of the smallest number of a table [1]."""

MAX_SPREAD = 10_000
"""Largest over smallest number that are written with equal decimals [1]."""

MAX_COLUMNS, MAX_ROWS = 12, 40
"""Columns and rows of a table that stands for a chart in texts [1]."""

MOST_DECIMALS = 3
"""Decimals of millions of money in a table, at the most [1]: thousands."""

COUNTED = "values"
"""Column that counts the values behind a spread."""


def chart_tables(rows: Sequence[Row], chart: ChartSpec, reader: Reader) -> Iterator[Table[Row]]:
    """The numbers of a chart as tables: x down, series across; y down, x across; or the front.

    What varies though the chart does not name it stands beside the series, or beside y.
    """
    left = left_open(reader.spec, chart)
    groups: dict[Scalar, list[Row]] = {}
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
    front = [rows[at] for at in front_of(rows, chart)[:MAX_ROWS]]
    columns = [_values(name, reader, front) for name in (*names, *keep)]
    return Table(title, columns, front, f"{title}, the Pareto front", only="texts")


def _spread(title: str, rows: Sequence[Row], chart: ChartSpec, reader: Reader) -> Table[Row]:
    """Table of how far an input spreads an output: how many values, the least, median and most."""
    left = [name for name in left_open(reader.spec, chart) if name != chart.over]
    names = tuple(dict.fromkeys((chart.x, *chart.series, *left)))
    found: dict[tuple[Scalar, ...], list[float]] = {}
    for row in rows:
        value = row[chart.y]
        if isinstance(value, (int, float)):
            found.setdefault(tuple(row[name] for name in names), []).append(value)
    cells: list[dict[str, Scalar]] = [
        dict(zip(names, place, strict=True))
        | {COUNTED: len(values), "least": min(values)}
        | {"median": median(values), "most": max(values)}
        for place, values in found.items()
    ]
    measures = ("least", "median", "most")
    values = [row[name] for row in cells for name in measures]
    written = _written(chart.y, reader, values)
    others = [Column(replace(written, title=name), methodcaller("get", name)) for name in measures]
    count = column(COUNTED, methodcaller("get", COUNTED), form="count")
    places = [point_column(name, cells, reader) for name in names]
    said = f"{_title(chart.y, reader, values)} over {reader.words(str(chart.over)).quantity}"
    return Table(title, [*places, count, *others], cells, f"{title} ({said})", only="people")


def _parts(
    title: str, rows: Sequence[Row], chart: ChartSpec, places: Sequence[str], reader: Reader
) -> Table[Row]:
    """Table of an output and the parts that it is cut into, a row a bar."""
    bars = rows[:MAX_ROWS]
    names = {chart.y: "whole"} | {part: reader.part(part) for part in chart.parts}
    written = _written(chart.y, reader, [row[name] for row in bars for name in names])
    values = [
        Column(replace(written, title=named), methodcaller("get", name))
        for name, named in names.items()
    ]
    return Table(
        title,
        [_place_column(places, bars, reader), *values],
        bars,
        f"{title} ({reader.words(chart.y).title})",
        tuple(_cut(len(rows), len(values))),
        only="texts",
    )


def _pivot(
    title: str, rows: Sequence[Row], names: tuple[Sequence[str], Sequence[str], str], reader: Reader
) -> Table[Row]:
    """Table of one output (the last name) over others down and across, in their order."""
    down, across, value = names
    table: dict[tuple[Scalar, ...], dict[str, Scalar]] = {}
    heads: dict[str, None] = {}
    for row in rows:
        head = ", ".join(reader.shown(name, reader.value(row, name)) for name in across) or value
        heads[head] = None
        place = tuple(reader.value(row, name) for name in down)
        table.setdefault(place, dict(zip(down, place, strict=True)))[head] = row[value]
    cells = list(table.values())[:MAX_ROWS]
    values = [row.get(head) for row in cells for head in heads]
    written = _written(value, reader, values)
    said = [_title(value, reader, values)]
    said += [f"columns: {', '.join(reader.words(name).quantity for name in across)}"] * bool(across)
    others = [
        Column(replace(written, title=head), methodcaller("get", head))
        for head in list(heads)[:MAX_COLUMNS]
    ]
    return Table(
        title,
        [_place_column(down, cells, reader), *others],
        cells,
        f"{title} ({'; '.join(said)})",
        tuple(_cut(len(table), len(heads))),
        only="texts",
    )


def _place_column(names: Sequence[str], rows: Sequence[Row], reader: Reader) -> Column[Row]:
    """Column of one input, or of several in one text: a table that is too wide repeats it."""
    if len(names) == 1:
        return point_column(names[0], rows, reader)
    titles, units = zip(*map(reader.head, names), strict=True)
    return Column(
        Quantity("place", ", ".join(titles)),
        lambda row: ", ".join(
            shown(row[name], unit) for name, unit in zip(names, units, strict=True)
        ),
    )


def _cut(rows: int, columns: int) -> Iterator[str]:
    """What a table in a text does not show."""
    for what, most, count in (("rows", MAX_ROWS, rows), ("columns", MAX_COLUMNS, columns)):
        if count > most:
            yield f"And {count - most:,} more {what}; --format csv lists all points."


def _values(name: str, reader: Reader, rows: Sequence[Row]) -> Column[Row]:
    """Column of an input or output, each of its values with as many decimals."""
    values = [row.get(name) for row in rows]
    written = _written(name, reader, values)
    title = reader.head(name)[0] if written.scale == 1 else _title(name, reader, values)
    return Column(replace(written, title=title), methodcaller("get", name))


def _written(name: str, reader: Reader, values: Sequence[Scalar]) -> Quantity:
    """How values are written: with a prefix, with equal decimals, or as the texts that they are."""
    unit = reader.words(name).unit
    numbers = [one for one in values if isinstance(one, (int, float))]
    if any(isinstance(one, str) for one in values):
        return Quantity(name, name)
    if unit in PREFIXED:
        return Quantity(name, name, unit, "si", DIGITS)
    large, millions = reader.in_millions(unit, values)
    if large != unit:
        sizes = [float(one) for one in millions if isinstance(one, (int, float))]
        digits = min(max(decimals_of(sizes) or 0, MILLION_DIGITS), MOST_DECIMALS)
        return Quantity(name, name, large, "fixed", digits, scale=1e6)
    if all(isinstance(one, int) for one in numbers):
        return Quantity(name, name, unit, "count")
    decimals = PERCENT_DIGITS if unit == "%" else decimals_of(numbers)
    if decimals is None:
        return Quantity(name, name, unit, "general", DIGITS)
    return Quantity(name, name, unit, "fixed", decimals)


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
    sizes = [abs(one) for one in values if one and isfinite(one)]
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
        )
    return Column(
        Quantity(name, title, form=form), lambda row: shown(reader.value(row, name), unit)
    )


def _title(name: str, reader: Reader, values: Sequence[Scalar]) -> str:
    """Name and unit of an input or output; of large amounts of money in millions."""
    found = reader.words(name)
    return replace(found, unit=reader.in_millions(found.unit, values)[0]).title
