"""What a study answers: one row a point, what compares rows with each other, and how it is shown.

Texts show the numbers of each chart as a table; pages draw the charts, and tell what was asked.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

from netplan.catalog import user_roots
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.axes import spread
from netplan.reports.escape import short
from netplan.reports.quantities import Scalar, listed, shown
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import (
    Column,
    Heading,
    Notes,
    Paragraph,
    Section,
    Shown,
    Table,
    column,
    columns,
)
from netplan.scenarios.parts import Cluster
from netplan.setup.cautions import cautions
from netplan.studies.charts import (
    MAX_ROWS,
    OK,
    PLACE,
    STATUS,
    Reader,
    Row,
    chart_tables,
    point_column,
    study_charts,
)
from netplan.studies.definition import ASKED, STUDIES, Relative, StudyDefinition
from netplan.studies.grid import StudyAxis
from netplan.studies.lower_bounds import LOWER_BOUNDS, SEPARATOR, bounds_of, counts_money
from netplan.studies.points import UNEXPECTED, PointResult
from netplan.studies.published import Published, printed_points, published_values
from netplan.studies.questions import BILL, currency_of
from netplan.studies.study import Study
from netplan.studies.verdict import decisions, verdict
from netplan.units import counted
from netplan.version import __version__

RowT = TypeVar("RowT", bound=Row)
FAILED = "failed: "
POINT = "point"
LISTED: dict[Shown, int] = {"texts": 5, "pages": 50}
"""Points without an answer that are listed; the rest is counted."""

ALL_POINTS, FIRST_POINTS = 300, 100
"""Points up to which all are on a page, and how many of more are [1]."""

SCREEN_ROWS = 9
"""Rows of a chart's table that a screen shows, evenly over it [1]."""

LONG_TITLE = 20
"""Columns that the name of an axis takes on a screen at the most [1]."""

SENTENCE = re.compile(r"(?<=[.]) (?=[A-Z])")
"""Between two sentences of a verdict."""

LISTED_VALUES, HEAD_VALUES = 12, 6
"""Values of an axis up to which all are named, and how many of more are [1]."""

REASON_LENGTH = 300
UNTUNED = (
    "Nothing is tuned until it fits: gaps (netplan less published) stand as they are, and"
    " netplan verify gives their reasons."
)
COMPARED = columns("name", "published", "netplan", "gap", "unit", "source")
PUBLISHED: tuple[Column[Published], ...] = (
    column("value", lambda row: f"{row.name}, {row.unit}" if row.unit else row.name),
    column("published"),
    column("netplan", "shown", form="code"),
    column("gap", "gap_shown", form="code"),
    column("source"),
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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
    damaged
        Points whose stored outcome was damaged: they are not among the rows.
    """

    json_head = ("netplan_version=version",)
    json_parts = (
        *("study=spec.name", "spec.title", "scenario=study.base.name", "spec.source"),
        *("study.input_sha256", "definition", "points=study.point_count", "done=rows.#"),
        *("failed=failures.#", "damaged", "rows", "published", "decision"),
    )

    study: Study
    rows: tuple[Row, ...]
    version: str = __version__
    damaged: tuple[int, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if every point failed, or one of them unexpectedly."""
        all_failed = bool(self.rows) and len(self.failures) == len(self.rows)
        return int(all_failed or bool(self.unexpected))

    @property
    def spec(self) -> StudyDefinition:
        """The study's definition."""
        return self.study.spec

    @property
    def cautions(self) -> tuple[str, ...]:
        """Which accelerators of its points nobody can order yet."""
        name, roots = "accelerator", user_roots(self.study.catalog)
        usual = self.spec.inputs.get(name, self.study.base.cluster.accelerator)
        chips = dict.fromkeys(str(row.get(name, usual)) for row in self.rows)
        by_chip = (
            cautions(Cluster(accelerator=chip), frozenset({name}), {}, roots) for chip in chips
        )
        return tuple(caution for of_chip in by_chip for caution in of_chip)

    @property
    def complete(self) -> bool:
        """Whether every point is there."""
        return len(self.rows) == self.study.point_count

    @property
    def failures(self) -> tuple[Row, ...]:
        """Rows of points that failed."""
        return tuple(row for row in self.rows if str(row[STATUS]).startswith(FAILED))

    @property
    def unexpected(self) -> tuple[Row, ...]:
        """Rows of points that failed by a defect of netplan."""
        start = FAILED + UNEXPECTED
        return tuple(row for row in self.rows if str(row[STATUS]).startswith(start))

    @property
    def without_answer(self) -> tuple[Row, ...]:
        """Rows of points whose question nothing satisfies."""
        failed = {row[POINT] for row in self.failures}
        return tuple(row for row in self.rows if row[STATUS] != OK and row[POINT] not in failed)

    @property
    def published(self) -> tuple[Published, ...]:
        """Published values beside those of this study; empty where none are known.

        They are of the shipped study: one that holds other inputs, or varies more, has none.
        """
        spec = self.spec
        if spec.name in STUDIES.paths():
            shipped = STUDIES.load(spec.name)
            same = spec.inputs == shipped.inputs and {*spec.axis_names} <= {*shipped.axis_names}
            if not same or spec.studied is not None or spec.scenario != shipped.scenario:
                return ()
        return published_values(self.rows, self._reader)

    @property
    def definition(self) -> dict[str, Any]:
        """The study as it is asked."""
        asked: dict[str, Any] = json.loads(self.study.definition)
        return asked

    @property
    def decision(self) -> list[dict[str, Any]]:
        """Who is best where."""
        return decisions(self.rows, self._reader)

    def summary(self) -> Iterator[Section]:
        """The verdict, the numbers of the first chart, published values, what has no answer."""
        spec, reader = self.spec, self._reader
        points, gaps = [*_counted(self, reader)], counted(len(self.published), "published value")
        answer = verdict(self.rows, reader, complete=self.complete)
        charts = [
            table for chart in spec.charts for table in chart_tables(self.rows, chart, reader)
        ]
        names = (*spec.axis_names, *spec.output_names)
        tables = [table for table in charts if table.shown == "texts" and table.rows]
        points_shown = _points(self.rows[:MAX_ROWS], names, reader, shown="texts")
        table = next((part for part in (*tables, *points_shown) if isinstance(part, Table)), None)
        more = counted(len(tables) - 1, "more table") if len(tables) > 1 else "every point"
        yield from Screen(
            Heading(f"{self.study.base.name}: {spec.title}", (f"{spec.source}.",)),
            tuple(SENTENCE.split(answer)) if answer else (points[0],),
            None if table is None else _on_a_screen(table, answer),
            (
                *([f"{unexpected_points(self)}."] if self.unexpected else []),
                *_bounds_told(self.rows),
                *_missing_references(self.rows, spec),
                *([f"{gaps} with netplan's beside them: --details."] if self.published else []),
                *(points if answer else points[1:]),
                *spec.texts,
            ),
            more_of(f"{more}, what was asked"),
        ).sections()

    @property
    def _reader(self) -> Reader:
        """What reads the study's values in their currencies."""
        money = [
            currency_of(self.spec, self.study.base, self.study.catalog, of_book=of_book)
            for of_book in (False, True)
        ]
        return Reader(self.spec, *money)

    def sections(self) -> Iterator[Section]:
        """Charts as tables or drawings, published values, the question, points without answer."""
        spec, reader = self.spec, self._reader
        names = (*spec.axis_names, *spec.output_names)
        yield Heading(spec.title, (f"{spec.source}.", " ".join(_counted(self, reader))))
        text = verdict(self.rows, reader, complete=self.complete)
        on = f"on {self.study.base.name}" if spec.studied else ""
        if text:
            yield Paragraph(f"{on[:1].upper()}{on[1:]}: {text}" if on else text, "strong")
        marks = (LOWER_BOUNDS,) if counts_money(spec) else ()
        every = (POINT, *names, *marks, STATUS)
        plain = [Column(reader.quantity(name, self.rows), itemgetter(name)) for name in every]
        yield Table("points", plain, self.rows, shown="data")
        tables = [
            table for chart in spec.charts for table in chart_tables(self.rows, chart, reader)
        ]
        yield from (table for table in tables if table.shown == "texts")
        printed = [{**point.drawn(spec)} for point in printed_points(spec, self.rows)]
        for relative in spec.relative:
            values = [*_relative(relative, spec.axis_names, printed)]
            for row, value in zip(printed, values, strict=True):
                row[relative.name] = value if row[relative.name] is None else row[relative.name]
        yield from study_charts(self.rows, reader, printed)
        yield from (table for table in tables if table.shown != "texts")
        if not spec.charts or not self.rows:
            yield from _points(self.rows[:MAX_ROWS], names, reader, shown="texts")
        yield from _compared(self.published)
        yield from _question(reader, self.study.input_sha256)
        notes = (*spec.texts, *_bounds_told(self.rows), *_missing_references(self.rows, spec))
        if notes:
            yield Notes(tuple(("", note) for note in notes))
        if self.unexpected:
            yield Paragraph(f"{unexpected_points(self)}.")
        for title, rows in (("Failed", self.failures), ("No answer", self.without_answer)):
            yield from _listed(title, rows, reader)
        if self.rows:
            yield from _points(self.rows, names, reader, shown="pages")
        made = f"Made by netplan study run {f'{spec.name} {on}'.strip()}, netplan {self.version}."
        yield Paragraph(made, "quiet", shown="texts")


def study_answer(
    study: Study,
    outcomes: Sequence[PointResult],
    version: str = __version__,
    damaged: Sequence[int] = (),
) -> StudyAnswer:
    """Make the answer of a study from the outcomes that it has, in its order."""
    spec = study.spec
    marks = (LOWER_BOUNDS,) if counts_money(spec) else ()
    points = study.points([outcome.index for outcome in outcomes])
    rows: list[dict[str, Scalar]] = []
    for point, outcome in zip(points, outcomes, strict=True):
        inputs = {name: point.inputs[name] for name in spec.axis_names}
        computed = outcome.outputs or {STATUS: f"{FAILED}{outcome.error}"}
        outputs = {name: computed.get(name) for name in (*spec.asked_names, *marks, STATUS)}
        rows.append({POINT: point.index, **inputs, **outputs})
    for relative in spec.relative:
        for row, value in zip(rows, _relative(relative, spec.axis_names, rows), strict=True):
            last = {name: row.pop(name) for name in (*marks, STATUS)}
            row |= {relative.name: value, **last}
        # Rows that compare with a reference of which one or both are partial sums.
        bounds = [
            row
            for row, reference in _with_references(relative, spec.axis_names, rows if marks else ())
            if row[relative.name] is not None
            and relative.of in (*bounds_of(row), *bounds_of(reference))
        ]
        for row in bounds:
            row[LOWER_BOUNDS] = SEPARATOR.join((*bounds_of(row), relative.name))
    return StudyAnswer(study, tuple(rows), version, tuple(damaged))


def _relative(relative: Relative, names: Sequence[str], rows: Sequence[Row]) -> Iterator[Scalar]:
    """The reference point's value over each point's own; None where either is missing."""
    for row, reference in _with_references(relative, names, rows):
        mine, theirs = row[relative.of], reference.get(relative.of)
        if isinstance(mine, (int, float)) and isinstance(theirs, (int, float)) and mine:
            yield theirs / mine
        else:
            yield None


def _with_references(
    relative: Relative, names: Sequence[str], rows: Sequence[RowT]
) -> Iterator[tuple[RowT, Row]]:
    """Every row with that of its reference point; an empty one where that is missing."""
    others = [name for name in names if name not in relative.to]
    references = {
        tuple(row[name] for name in others): row
        for row in rows
        if all(row[name] == value for name, value in relative.to.items())
    }
    return ((row, references.get(tuple(row[name] for name in others), {})) for row in rows)


def _compared(published: Sequence[Published]) -> Iterator[Section]:
    """Published values beside netplan's; of many a text has those that are furthest off."""
    if not published:
        return
    title, most = "Published values, and netplan's", MAX_ROWS
    furthest = {*sorted(range(len(published)), key=lambda row: -published[row].error)[:most]}
    rows = [value for row, value in enumerate(published) if row in furthest]
    legend = (f"The {most} of {len(published):,} that are furthest off; --format json has all.",)
    cut = legend if len(rows) < len(published) else ()
    yield Table("published", PUBLISHED, rows, title, (*cut, UNTUNED), shown="texts")
    yield Table("published", PUBLISHED, published, title, (UNTUNED,), shown="pages")
    yield Table("published", COMPARED, published, shown="data")


def _bounds_told(rows: Sequence[Row]) -> Iterator[str]:
    """How many points have sums that leave out what has no price."""
    partial = [row for row in rows if bounds_of(row)]
    if partial:
        names = listed(list(dict.fromkeys(name for row in partial for name in bounds_of(row))))
        yield (
            f"≥: at {len(partial):,} of {len(rows):,} points parts have no price and are in no sum"
            f" (lower_bounds: {names})."
        )


def _missing_references(rows: Sequence[Row], spec: StudyDefinition) -> Iterator[str]:
    """Why an output that compares points is empty: the point that it refers to is not there.

    What the study's own conditions leave out is no gap: such an output is about other points.
    """
    varied = {
        (name, value)
        for axis in spec.axes
        for step in axis.rows
        for name, value in zip(axis.names, step, strict=True)
    }
    for relative in spec.relative:
        gone = {
            name: value
            for name, value in relative.to.items()
            if rows and (name, value) not in varied and all(row[name] != value for row in rows)
        }
        if gone:
            where = " and ".join(f"{name} = {_cell(value)}" for name, value in gone.items())
            yield (
                f"{relative.name} is empty: it compares with the point of {where}, which is not"
                f" among these: vary {' and '.join(gone)} over it too."
            )


def _counted(answer: StudyAnswer, reader: Reader) -> Iterator[str]:
    """Sentences on how many points there are, and what came of them."""
    total, done = answer.study.point_count, len(answer.rows)
    if not done:
        yield f"None of {total:,} points is done."
    elif done < total:
        yield f"{done:,} of {total:,} points are done; these are shown."
    none, failed = len(answer.without_answer), len(answer.failures)
    if done == total and (none or failed):
        yield f"All {total:,} points are done." if total > 1 else "The one point is done."
    if none:
        has, their = ("has", "its") if none == 1 else ("have", "their")
        yield f"{none:,} {has} no answer: nothing satisfies {their} question."
    if failed:
        yield f"{failed:,} failed."
    if answer.damaged:
        yield f"{damaged_points(answer.damaged)}: netplan study resume computes them again."
    stays = ", ".join(
        f"{reader.words(name).quantity} not set" if value is None else reader.named(name, value)
        for name, value in answer.spec.inputs.items()
    )
    asked = answer.spec.ask + (" and its bill" if answer.spec.bill is not None else "")
    of = f"Each of {total:,} points" if total > 1 else "The one point"
    rest = f" with {stays}; all else" if stays else ", all"
    yield f"{of}: {asked}{rest} as in {answer.study.base.name}."


def unexpected_points(answer: StudyAnswer) -> str:
    """Say of points that failed unexpectedly what that means, and the first with its inputs."""
    first, count = answer.unexpected[0], len(answer.unexpected)
    inputs = ", ".join(f"{name} = {_cell(first[name])}" for name in answer.spec.axis_names)
    return (
        f"{count:,} of {len(answer.rows):,} points failed unexpectedly, by a defect of netplan and"
        f" not by their inputs: please report point {first[POINT]} ({inputs}):"
        f" {_reason(first).removeprefix(UNEXPECTED)}"
    )


def damaged_points(points: Sequence[int]) -> str:
    """Name points whose stored outcome was damaged.

    Examples
    --------
    >>> damaged_points([3, 17])
    'damaged in the store, and left out: points 3, 17'
    """
    named = ", ".join(map(str, points[:LISTED_VALUES]))
    more = f" and {len(points) - LISTED_VALUES:,} more" if len(points) > LISTED_VALUES else ""
    what = "point" if len(points) == 1 else "points"
    return f"damaged in the store, and left out: {what} {named}{more}"


def _question(reader: Reader, sha256: str) -> Iterator[Table[Any]]:
    """What was asked, for pages: what varies, stays and is computed."""
    spec = reader.spec
    asked = [("Each point", ASKED[spec.ask].says)]
    asked += [("And its bill", ASKED[BILL].says)] * (spec.bill is not None)
    if spec.reproduces is not None:
        items = ", ".join(spec.reproduces.items)
        asked.append(("Reproduces", f"{spec.reproduces.paper}: {items}"))
    asked += [("Only where", condition) for condition in spec.conditions]
    for name, value in spec.inputs.items():
        wording = reader.words(name)
        asked.append((wording.quantity, shown(value, wording.unit)))
    for of in (spec.bill or {}).values():
        for value, inputs in of.items():
            changes = ", ".join(reader.texts([pair]) for pair in inputs.items())
            asked.append((f"On the bill of {value}", changes))
    asked.append(("Input SHA-256", sha256))
    computed = [*spec.formulas.items()]
    for row in spec.relative:
        where = ", ".join(f"{name} = {_cell(value)}" for name, value in row.to.items())
        computed.append((row.name, f"{row.of} where {where}, divided by the point's own"))
    varying = [_varying(axis, reader) for axis in spec.axes]
    for title, heads, rows in (
        ("What varies", {"Varies": "text", "Values": "count", "Which": "text"}, varying),
        ("What was asked", {"Stays": "text", "Value": "text"}, asked),
        ("Computed from these", {"Output": "text", "Is": "text"}, computed),
    ):
        columns: list[Column[Any]] = [
            column(head, str(index), form=form) for index, (head, form) in enumerate(heads.items())
        ]
        yield Table(title, columns, rows, title, shown="pages")


def _varying(axis: StudyAxis, reader: Reader) -> tuple[str, int, str]:
    """Names of an axis, how many values it has, and these: all if they are few, else some."""
    titles, units = zip(*map(reader.head, axis.names), strict=True)
    texts = [
        " with ".join(shown(value, unit) for value, unit in zip(row, units, strict=True))
        for row in axis.rows
    ]
    if len(texts) > LISTED_VALUES:
        texts = [*texts[:HEAD_VALUES], "…", texts[-1]]
    which = "; ".join(texts)
    if axis.when is not None:
        which += f", only where {axis.when}"
        which += "" if axis.otherwise is None else f"; else {shown(axis.otherwise, units[0])}"
    return " with ".join(titles), len(axis.rows), which


def _on_a_screen(table: Table[Any], answer: str) -> Table[Any]:
    """Rows that the answer names and some evenly over the table; of a long first name the unit.

    A name of several inputs is cut behind the first. Where not all rows have room, those without
    any value are left out first.
    """
    first, *others = table.columns
    name, comma, unit = first.quantity.title.rpartition(", ")
    if comma and len(first.quantity.title) > LONG_TITLE:
        several = first.quantity.name == PLACE
        short = f"{name.partition(', ')[0]}, ..." if several else unit
        first = replace(first, quantity=replace(first.quantity, title=short))
    every = range(len(table.rows))
    named = []
    for number, row in enumerate(table.rows):
        value = re.escape(table.columns[0].text(row))  # such as 8 and not 128
        named += [number] if re.search(rf"(?<![\w.,-]){value}(?![\w-]|[.,]\d)", answer) else []
    kept = {*named} if len(named) < SCREEN_ROWS else set()
    rest = [index for index in every if index not in kept]
    if len(every) > SCREEN_ROWS:
        rest = [
            index
            for index in rest
            if any(part.get(table.rows[index]) is not None for part in others)
        ]
    kept |= {*spread(rest, SCREEN_ROWS - len(kept))}
    rows = [table.rows[index] for index in sorted(kept)]
    legend = (f"{len(rows)} of {len(every):,} rows.",) if len(rows) < len(every) else ()
    return replace(table, columns=(first, *others), rows=rows, legend=legend)


def _listed(title: str, rows: Sequence[Row], reader: Reader) -> Iterator[Table[Row]]:
    """Points with their inputs and what became of them."""
    names = (POINT, *reader.spec.axis_names)
    columns = [point_column(name, rows, reader) for name in names]
    columns.append(column(STATUS, _reason, title="reason", form="prose"))
    for form, most in LISTED.items():
        more = (f"And {len(rows) - most:,} more; --format csv lists all.",)
        legend = more if len(rows) > most else ()
        whole = f"{title}: {len(rows):,} points"
        yield Table(title, columns, rows[:most], whole, legend, shown=form)


def _points(
    rows: Sequence[Row], names: Sequence[str], reader: Reader, *, shown: Shown
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
    columns = [point_column(name, rows, reader) for name in (POINT, *names)]
    legend = (cut,) if count < len(rows) else ()
    yield Table("all points", columns, rows[:count], "Points", legend, shown=shown)


def _reason(row: Row) -> str:
    return short(str(row[STATUS]).removeprefix(FAILED), REASON_LENGTH)


def _cell(value: Scalar) -> str:
    """A value in a heading, without a string of zeros."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
