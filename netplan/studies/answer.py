"""What a study answers: one row a point, what compares rows with each other, and how it is shown.

Texts show the numbers of each chart as a table; pages draw the charts, and tell what was asked.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Literal

from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.escape import short
from netplan.reports.quantities import PREFIXED, Quantity, Scalar, shown
from netplan.reports.sections import Column, Heading, Notes, Paragraph, Section, Table, column
from netplan.studies.charts import OK, STATUS, Reader, Row, front_of, study_charts
from netplan.studies.definition import ChartSpec, Formula, Relative, StudyDefinition
from netplan.studies.grid import Axis
from netplan.studies.points import Outcome
from netplan.studies.published import Published, published_values
from netplan.studies.questions import ASKED, currency_of
from netplan.studies.study import Study
from netplan.version import __version__

FAILED = "failed: "
POINT = "point"
DIGITS = 6
MAX_COLUMNS, MAX_ROWS = 12, 40
"""Columns and rows of a table that stands for a chart in texts [1]."""

LISTED: dict[Literal["texts", "pages"], int] = {"texts": 5, "pages": 50}
"""Points without an answer that are listed; the rest is counted."""

ALL_POINTS, FIRST_POINTS = 300, 100
"""Points up to which all are on a page, and how many of more are [1]."""

LISTED_VALUES, HEAD_VALUES = 12, 6
"""Values of an axis up to which all are named, and how many of more are [1]."""

REASON_LENGTH = 300
UNTUNED = (
    "Nothing is tuned until it fits: gaps (netplan less published) stand as they are, and"
    " netplan verify gives their reasons."
)
COMPARED = tuple(
    Column(Quantity(name, name), attrgetter(name))
    for name in ("name", "published", "netplan", "gap", "unit", "source")
)
PUBLISHED: tuple[Column[Published], ...] = (
    column("value", lambda one: f"{one.name}, {one.unit}" if one.unit else one.name, title="value"),
    column("published", lambda one: one.published, title="published"),
    Column(
        Quantity("netplan", "netplan", form="code"),
        lambda one: f"{one.netplan:,.4g}" if one.unit else f"{one.netplan:,.0f}",
    ),
    Column(
        Quantity("gap", "gap", form="code"),
        lambda one: None if one.gap is None else f"{one.gap:+.3g}" if one.gap else "0",
    ),
    column("source", lambda one: one.source, title="source"),
)


@dataclass(frozen=True, slots=True, eq=False)
class StudyAnswer(Answer):
    """The answer of :func:`netplan.study`.

    Parameters
    ----------
    study
        What was asked.
    rows
        One row a point that is done, in the study's order: its number, the inputs that vary, the
        outputs and ``status`` (``ok``, why there is no answer, or the error that it failed with).
    version
        Version of netplan that computed the rows.
    """

    study: Study
    rows: tuple[Row, ...]
    version: str = __version__

    @property
    def spec(self) -> StudyDefinition:
        """The study's definition."""
        return self.study.spec

    @property
    def complete(self) -> bool:
        """Whether every point is there."""
        return len(self.rows) == self.study.point_count

    @property
    def failures(self) -> tuple[Row, ...]:
        """Rows of points that failed."""
        return tuple(row for row in self.rows if str(row[STATUS]).startswith(FAILED))

    @property
    def without_answer(self) -> tuple[Row, ...]:
        """Rows of points whose question nothing satisfies."""
        failed = {row[POINT] for row in self.failures}
        return tuple(row for row in self.rows if row[STATUS] != OK and row[POINT] not in failed)

    @property
    def published(self) -> tuple[Published, ...]:
        """Published values beside those of this study; empty where none are known."""
        return published_values(self.spec.name, self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan study show --format json``."""
        return {
            "netplan_version": self.version,
            "study": self.spec.name,
            "title": self.spec.title,
            "source": self.spec.source,
            "input_sha256": self.study.input_sha256,
            "definition": json.loads(self.study.definition),
            "points": self.study.point_count,
            "done": len(self.rows),
            "failed": len(self.failures),
            "rows": [dict(row) for row in self.rows],
            "published": [value.to_dict() for value in self.published],
        }

    def sections(self) -> Iterator[Section]:
        """Charts as tables or drawings, published values, the question, points without answer."""
        spec = self.spec
        reader = Reader(spec, currency_of(spec, self.study.catalog))
        names = (*spec.axis_names, *spec.output_names)
        yield Heading(spec.title, (f"{spec.source}.", " ".join(_counted(self))))
        plain = [Column(Quantity(name, name), itemgetter(name)) for name in (POINT, *names, STATUS)]
        yield Table("points", plain, self.rows, only="programs")
        for chart in spec.charts:
            yield from _chart_tables(self.rows, chart, reader)
        yield from study_charts(self.rows, reader)
        if not spec.charts or not self.rows:
            yield from _points(self.rows[:MAX_ROWS], names, reader, only="texts")
        if self.published:
            title = "Published values, and netplan's"
            yield Table("published", PUBLISHED, self.published, title, (UNTUNED,), only="people")
            yield Table("published", COMPARED, self.published, only="programs")
        yield from _question(reader, self.study.input_sha256)
        if spec.notes:
            yield Notes(tuple(("", note) for note in spec.notes))
        for title, rows in (("Failed", self.failures), ("No answer", self.without_answer)):
            yield from _listed(title, rows, reader)
        if self.rows:
            yield from _points(self.rows, names, reader, only="pages")
        made = f"Made by netplan study run {spec.name}, netplan {self.version}."
        yield Paragraph(made, "quiet", only="texts")


def study_answer(
    study: Study, outcomes: Sequence[Outcome], version: str = __version__
) -> StudyAnswer:
    """Make the answer of a study from what came of its points.

    Parameters
    ----------
    study
        What was asked.
    outcomes
        Outcomes in the study's order, as many as are done.
    version
        Version of netplan that computed them.
    """
    spec = study.spec
    outputs = [out if isinstance(out, str) else out.name for out in spec.outputs]
    points = study.points([outcome.index for outcome in outcomes])
    rows: list[dict[str, Scalar]] = []
    for point, outcome in zip(points, outcomes, strict=True):
        row: dict[str, Scalar] = {POINT: point.index}
        row |= {name: point.inputs[name] for name in spec.axis_names}
        found = outcome.outputs or {STATUS: f"{FAILED}{outcome.error}"}
        rows.append(row | {name: found.get(name) for name in outputs} | {STATUS: found[STATUS]})
    for relative in spec.relative:
        for row, value in zip(rows, _relative(relative, spec.axis_names, rows), strict=True):
            status = row.pop(STATUS)
            row |= {relative.name: value, STATUS: status}
    return StudyAnswer(study, tuple(rows), version)


def _relative(relative: Relative, names: Sequence[str], rows: Sequence[Row]) -> Iterator[Scalar]:
    """The reference point's value over each point's own; None where either is missing."""
    others = [name for name in names if name not in relative.to]
    references = {
        tuple(row[name] for name in others): row[relative.of]
        for row in rows
        if all(row[name] == value for name, value in relative.to.items())
    }
    for row in rows:
        mine = row[relative.of]
        reference = references.get(tuple(row[name] for name in others))
        if isinstance(mine, (int, float)) and isinstance(reference, (int, float)) and mine:
            yield reference / mine
        else:
            yield None


def _counted(answer: StudyAnswer) -> Iterator[str]:
    """Sentences on how many points there are, and what came of them."""
    total, done = answer.study.point_count, len(answer.rows)
    if not done:
        yield f"None of {total:,} points is done."
    elif done < total:
        yield f"{done:,} of {total:,} points are done; these are shown."
    else:
        yield f"All {total:,} points are done." if total > 1 else "The one point is done."
    none, failed = len(answer.without_answer), len(answer.failures)
    if none:
        has, their = ("has", "its") if none == 1 else ("have", "their")
        yield f"{none:,} {has} no answer: nothing satisfies {their} question."
    if failed:
        yield f"{failed:,} failed."
    stays = ", ".join(f"{name} {_cell(value)}" for name, value in answer.spec.inputs.items())
    yield f"Each point: {answer.spec.ask}" + (f" with {stays}." if stays else ".")


def _chart_tables(rows: Sequence[Row], chart: ChartSpec, reader: Reader) -> Iterator[Table[Row]]:
    """The numbers of a chart as tables: x down, series (or y) across; the front of a scatter."""
    for value in dict.fromkeys(row[chart.each] for row in rows) if chart.each else [None]:
        chosen = [row for row in rows if chart.each is None or row[chart.each] == value]
        title = chart.title if chart.each is None else f"{chart.title}: {chart.each} {_cell(value)}"
        if chart.kind == "scatter":
            keep = [*chart.series, chart.x, chart.y]
            keep += ["plan"] if chosen and "plan" in chosen[0] else []
            names = [name for name in reader.spec.axis_names if name not in (*keep, chart.each)]
            front = [chosen[at] for at in front_of(chosen, chart)[:MAX_ROWS]]
            columns = [
                _column(name.rpartition(".")[2], front, itemgetter(name))
                for name in (*names, *keep)
            ]
            yield Table(title, columns, front, f"{title}, the Pareto front", only="texts")
        elif chart.kind == "heat":
            where = f"{chart.z} over {chart.x}, across, and {chart.y}"
            whole = f"{title} ({where})"
            yield _pivot(whole, chosen, (chart.y, (chart.x,), str(chart.z)), reader)
        else:
            whole = f"{title} ({chart.y})"
            yield _pivot(whole, chosen, (chart.x, chart.series, chart.y), reader)


def _pivot(
    title: str, rows: Sequence[Row], names: tuple[str, Sequence[str], str], reader: Reader
) -> Table[Row]:
    """Table of one output (the last name) over another down and some across, in their order."""
    down, across, value = names
    table: dict[Scalar, dict[str, Scalar]] = {}
    heads: dict[str, None] = {}
    for row in rows:
        head = " ".join(_cell(reader.value(row, name)) for name in across) or value
        heads[head] = None
        place = reader.value(row, down)
        table.setdefault(place, {down: place})[head] = row[value]
    cells = list(table.values())[:MAX_ROWS]
    form: Literal["text", "code"] = "text" if any(isinstance(one, str) for one in table) else "code"
    first: Column[Row] = Column(Quantity(down, down, form=form), lambda row: _cell(row[down]))
    others = [
        _column(head, cells, lambda row, head=head: row.get(head))
        for head in list(heads)[:MAX_COLUMNS]
    ]
    return Table(title, [first, *others], cells, title, only="texts")


def _column(name: str, rows: Sequence[Row], get: Any) -> Column[Row]:  # noqa: ANN401
    """Column of numbers with as many digits as matter, or of texts."""
    texts = any(isinstance(get(row), str) for row in rows)
    form: Literal["text", "general"] = "text" if texts else "general"
    return Column(Quantity(name, name, form=form, digits=DIGITS), get)


def _question(reader: Reader, sha256: str) -> Iterator[Table[Any]]:
    """What was asked, for pages: what varies, stays and is computed."""
    spec = reader.spec
    asked = [("Each point", ASKED[spec.ask].says)]
    asked += [("Only where", condition) for condition in spec.conditions]
    for name, value in spec.inputs.items():
        found = reader.words(name)
        asked.append((found.quantity, shown(value, found.unit)))
    asked.append(("Input SHA-256", sha256))
    varying = [(_titles(axis, reader), len(axis.rows), _values(axis, reader)) for axis in spec.axes]
    computed = [(out.name, out.formula) for out in spec.outputs if isinstance(out, Formula)]
    for row in spec.relative:
        where = ", ".join(f"{name} = {_cell(value)}" for name, value in row.to.items())
        computed.append((row.name, f"{row.of} where {where}, divided by the point's own"))
    for title, heads, rows in (
        ("What varies", ("Varies", "Values", "Which"), varying),
        ("What was asked", ("Stays", "Value"), asked),
        ("Computed from these", ("Output", "Is"), computed),
    ):
        columns: list[Column[Any]] = [
            Column(
                Quantity(head, head, form="count" if head == "Values" else "text"), itemgetter(at)
            )
            for at, head in enumerate(heads)
        ]
        yield Table(title, columns, rows, title, only="pages")


def _listed(title: str, rows: Sequence[Row], reader: Reader) -> Iterator[Table[Row]]:
    """Points with their inputs and what became of them."""
    spec = reader.spec
    for only, most in LISTED.items():
        more = f"And {len(rows) - most:,} more; --format csv lists all."
        columns = [_point_column(name, rows, reader) for name in (POINT, *spec.axis_names)]
        columns.append(Column(Quantity(STATUS, "reason", form="prose"), _reason))
        yield Table(
            title,
            columns,
            rows[:most],
            f"{title}: {len(rows):,} points",
            (more,) if len(rows) > most else (),
            only=only,
        )


def _points(
    rows: Sequence[Row], names: Sequence[str], reader: Reader, *, only: Literal["texts", "pages"]
) -> Iterator[Section]:
    """Points with inputs and outputs, all or the first."""
    if not rows:
        yield Paragraph("No point is done yet.")
        return
    count = len(rows) if len(rows) <= ALL_POINTS else FIRST_POINTS
    cut = (
        f"The first {count} of {len(rows):,} points. All of them:"
        f" netplan study show {reader.spec.name} --format csv"
    )
    columns = [_point_column(name, rows, reader) for name in (POINT, *names)]
    legend = (cut,) if count < len(rows) else ()
    yield Table("all points", columns, rows[:count], "Points", legend, only=only)


def _point_column(name: str, rows: Sequence[Row], reader: Reader) -> Column[Row]:
    """Column of an input or output; its unit stands in the title, or with a prefix in the cells."""
    found = reader.words(name)
    prefixed = found.unit in PREFIXED
    texts = any(isinstance(row.get(name), str) for row in rows)
    named = Quantity(name, found.quantity if prefixed else found.title)
    named = replace(named, form="text" if texts else "code")
    unit = found.unit if prefixed else ""
    return Column(named, lambda row: shown(reader.value(row, name), unit))


def _reason(row: Row) -> str:
    return short(str(row[STATUS]).removeprefix(FAILED), REASON_LENGTH)


def _titles(axis: Axis, reader: Reader) -> str:
    """Names of inputs whose values stand bare, or with their unit if it takes a prefix."""
    found = [reader.words(name) for name in axis.names]
    return " with ".join(one.quantity if one.unit in PREFIXED else one.title for one in found)


def _values(axis: Axis, reader: Reader) -> str:
    """Values of an axis: all if they are few, else the first ones and the last."""
    units = [reader.words(name).unit for name in axis.names]
    units = [unit if unit in PREFIXED else "" for unit in units]
    texts = [
        " with ".join(shown(value, unit) for value, unit in zip(row, units, strict=True))
        for row in axis.rows
    ]
    if len(texts) > LISTED_VALUES:
        texts = [*texts[:HEAD_VALUES], "…", texts[-1]]
    joined = "; ".join(texts)
    if axis.when is None:
        return joined
    if axis.otherwise is None:
        return f"{joined}, only where {axis.when}"
    return f"{joined}, only where {axis.when}; else {shown(axis.otherwise, units[0])}"


def _cell(value: Scalar) -> str:
    """A value in a heading, without a string of zeros."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
