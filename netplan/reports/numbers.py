"""The numbers behind a chart as a table: what its hover boxes say, for who has no pointer."""

from collections.abc import Iterator, Sequence
from html import unescape

from netplan.reports.charts import Chart
from netplan.reports.page import Grid

MOST_ROWS, MOST_COLUMNS = 60, 6
"""Rows and columns of such a table [1]: the first values of a box are those of the chart."""

MARK = "mark"
"""Column of what a box says without a name."""


def numbers_of(chart: Chart) -> tuple[Grid, int] | None:
    """What the marks of a chart say, a row each, and how many there are; None of one without boxes.

    Examples
    --------
    >>> from netplan.reports.charts import hover, marks
    >>> boxes = [hover("GPUs: 8", "time: 2 s"), hover("GPUs: 16", "time: 1 s")]
    >>> drawn = marks("scatter", [8, 16], [2, 1], boxes)
    >>> grid, count = numbers_of(Chart("1", "Time", 400, (drawn,), {}))
    >>> [title for title, _ in grid.heads], [row for row, _ in grid.rows], count
    (['GPUs', 'time'], [['8', '2 s'], ['16', '1 s']], 2)
    """
    distinct = {tuple(record.items()): record for record in _records(chart)}
    records = list(distinct.values())
    if not records:
        return None
    shown = records[:MOST_ROWS]
    names = list(dict.fromkeys(name for record in shown for name in record))[:MOST_COLUMNS]
    heads = [(name, _kind([record.get(name, "") for record in shown])) for name in names]
    rows: list[tuple[Sequence[str], bool]]
    rows = [([record.get(name, "") for name in names], False) for record in shown]
    return Grid(heads, rows, f"Numbers of {chart.label}"), len(records)


def _records(chart: Chart) -> Iterator[dict[str, str]]:
    """Lines of each hover box, by their names."""
    for trace in chart.data:
        boxes = trace.get("hovertext")
        for box in _flat(boxes) if isinstance(boxes, list) else ():
            record: dict[str, str] = {}
            for line in unescape(box).split("<br>"):
                name, colon, value = line.partition(": ")
                key, text = (name, value) if colon else (MARK, line)
                record[key] = f"{record[key]}, {text}" if key in record else text
            if box:
                yield record


def _flat(boxes: list[object]) -> Iterator[str]:
    for box in boxes:
        if isinstance(box, list):
            yield from _flat(box)
        else:
            yield str(box)


def _kind(cells: list[str]) -> str:
    """Style of a column: numbers stand to the right."""
    return "number" if all(cell[:1].isdigit() for cell in cells if cell) else "text"
