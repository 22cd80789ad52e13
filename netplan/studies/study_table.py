"""A study for people: one table a chart, published values beside, points without an answer."""

from collections.abc import Iterator, Sequence

from netplan.reports.text import Cell, plain_table
from netplan.studies.answer import POINT, Row, StudyAnswer
from netplan.studies.definition import ChartSpec
from netplan.studies.front import pareto_front
from netplan.studies.points import Scalar
from netplan.studies.study import STATUS

MAX_COLUMNS, MAX_ROWS = 12, 40
LISTED = 5
"""Points without an answer that are listed; the rest is counted."""


def study_text(answer: StudyAnswer, width: int) -> str:
    """The answer as text of at most ``width`` columns."""
    spec = answer.spec
    parts = [f"{spec.title}\n{counted(answer)}\n"]
    for chart in spec.charts:
        parts += [_block(title, rows, width) for title, rows in chart_tables(answer, chart)]
    if not spec.charts and answer.rows:
        parts.append(plain_table(answer.to_rows()[:MAX_ROWS], width))
    if answer.published:
        rows = published_rows(answer)
        parts.append(_block("Published values, and netplan's", rows, width))
    for title, found in (("Failed", answer.failures), ("No answer", answer.without_answer)):
        if found:
            parts.append(_listed(title, found, answer))
    parts += [f"{note}\n" for note in spec.notes]
    return "\n".join(parts)


def counted(answer: StudyAnswer) -> str:
    """How many points there are and how they ended, in one line."""
    total, done = answer.study.point_count, len(answer.rows)
    text = f"{done:,} of {total:,} points" if done < total else f"{total:,} points"
    none, failed = len(answer.without_answer), len(answer.failures)
    text += f", {none:,} without an answer" if none else ""
    text += f", {failed:,} failed" if failed else ""
    stays = ", ".join(f"{name} {_cell(value)}" for name, value in answer.spec.inputs.items())
    return f"{text}; {answer.spec.ask} with {stays}" if stays else text


def published_rows(answer: StudyAnswer) -> list[dict[str, Cell]]:
    """Published values and this study's, with the gap where both are numbers."""
    rows: list[dict[str, Cell]] = []
    for value in answer.published:
        unit = f", {value.unit}" if value.unit else ""
        gap = value.gap
        rows.append(
            {
                "value": f"{value.name}{unit}",
                "published": value.published,
                "netplan": f"{value.netplan:,.4g}" if value.unit else f"{value.netplan:,.0f}",
                "gap": "" if gap is None else f"{gap:+.3g}" if gap else "0",
                "source": value.source,
            }
        )
    return rows


def chart_tables(
    answer: StudyAnswer, chart: ChartSpec
) -> Iterator[tuple[str, list[dict[str, Cell]]]]:
    """The numbers of a chart as tables: x down, series (or y) across; the front of a scatter."""
    values = _distinct(answer.rows, chart.each) if chart.each else [None]
    for value in values:
        rows = [row for row in answer.rows if chart.each is None or row[chart.each] == value]
        title = chart.title if chart.each is None else f"{chart.title}: {chart.each} {_cell(value)}"
        if chart.kind == "scatter":
            yield f"{title}, the Pareto front", _front(rows, chart, answer.spec.axis_names)
        elif chart.kind == "heat":
            yield (
                f"{title} ({chart.z} over {chart.x}, across, and {chart.y})",
                _pivot(rows, chart.y, (chart.x,), str(chart.z)),
            )
        else:
            yield f"{title} ({chart.y})", _pivot(rows, chart.x, chart.series, chart.y)


def _pivot(
    rows: Sequence[Row], down: str, across: Sequence[str], shown: str
) -> list[dict[str, Cell]]:
    """Table of one output; columns are the values of the inputs ``across``, in their order."""
    table: dict[Scalar, dict[str, Cell]] = {}
    columns: dict[str, None] = {}
    for row in rows:
        column = " ".join(_cell(row[name]) for name in across) or shown
        columns[column] = None
        table.setdefault(row[down], {})[column] = row[shown]
    shown_columns = list(columns)[:MAX_COLUMNS]
    made: list[dict[str, Cell]] = []
    for value, cells in list(table.items())[:MAX_ROWS]:
        made.append({down: _cell(value)})
        made[-1].update((column, cells.get(column)) for column in shown_columns)
    return made


def _front(rows: Sequence[Row], chart: ChartSpec, names: Sequence[str]) -> list[dict[str, Cell]]:
    """Rows that no other beats in both x and y, by rising x."""
    keep = [name for name in (*chart.series, chart.x, chart.y, "plan") if rows and name in rows[0]]
    front = pareto_front(rows, chart.x, chart.y)[:MAX_ROWS]
    inputs = [name for name in names if name not in (*keep, chart.each)]
    return [{name.rpartition(".")[2]: row[name] for name in (*inputs, *keep)} for row in front]


def _listed(title: str, rows: Sequence[Row], answer: StudyAnswer) -> str:
    """Points with their inputs and what became of them."""
    lines = [f"{title}: {len(rows):,} points"]
    for row in rows[:LISTED]:
        inputs = ", ".join(f"{name} {_cell(row[name])}" for name in answer.spec.axis_names)
        lines.append(f"  point {row[POINT]} ({inputs}): {row[STATUS]}")
    if len(rows) > LISTED:
        lines.append(f"  and {len(rows) - LISTED:,} more (--format csv lists all)")
    return "\n".join(lines) + "\n"


def _block(title: str, rows: list[dict[str, Cell]], width: int) -> str:
    return f"{title}\n{plain_table(rows, width)}" if rows else f"{title}: no points\n"


def _distinct(rows: Sequence[Row], name: str) -> list[Scalar]:
    return list(dict.fromkeys(row[name] for row in rows))


def _cell(value: Scalar) -> str:
    """A value in a heading, without a string of zeros."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
