"""Tables of a study's page: what varies and stays, published values, points, and those without."""

from collections.abc import Mapping, Sequence

from netplan.reports.escape import short
from netplan.reports.page import Table, table
from netplan.reports.quantities import PREFIXED, shown
from netplan.studies.answer import FAILED, POINT, Row, StudyAnswer
from netplan.studies.axes import Axis
from netplan.studies.definition import Formula
from netplan.studies.points import Scalar
from netplan.studies.study import STATUS
from netplan.studies.study_reader import Reader
from netplan.studies.study_table import published_rows

ALL_POINTS, FIRST_POINTS = 300, 100
"""Points up to which all are on the page, and how many of more are [1]."""

LISTED = 50
"""Points without an answer that are listed [1]."""

LISTED_VALUES, HEAD_VALUES = 12, 6
"""Values of an axis up to which all are named, and how many of more are [1]."""

REASON_LENGTH = 300


def varying_table(reader: Reader) -> Table:
    """Inputs that vary, how many values each has, and which."""
    rows = [
        (_titles(axis, reader), f"{len(axis.rows):,}", _values(axis, reader))
        for axis in reader.spec.axes
    ]
    return table(("Varies", "Values>", "Which"), rows)


def staying_table(reader: Reader) -> Table | None:
    """Inputs that stay; None if all vary."""
    rows = [
        (reader.words(name).quantity, shown(value, reader.words(name).unit))
        for name, value in reader.spec.inputs.items()
    ]
    return table(("Stays", "Value"), rows) if rows else None


def computed_table(reader: Reader) -> Table | None:
    """Outputs that the study computes itself; None if there are none."""
    spec = reader.spec
    rows = [(out.name, out.formula) for out in spec.outputs if isinstance(out, Formula)]
    for row in spec.relative:
        where = ", ".join(f"{name} = {_plain(value)}" for name, value in row.to.items())
        rows.append((row.name, f"{row.of} where {where}, divided by the point's own"))
    return table(("Output", "Is"), rows) if rows else None


def published_table(answer: StudyAnswer) -> Table | None:
    """Published values and this study's; None where none are known."""
    rows = [[str(cell) for cell in row.values()] for row in published_rows(answer)]
    heads = ("Value", "Published>", "netplan>", "Gap>", "Source")
    return table(heads, rows) if rows else None


def point_table(answer: StudyAnswer, reader: Reader) -> Table | None:
    """Points with inputs and outputs, all or the first; None if none is done."""
    count = len(answer.rows) if len(answer.rows) <= ALL_POINTS else FIRST_POINTS
    names = (*answer.spec.axis_names, *answer.spec.output_names)
    return _rows_table(answer.rows[:count], names, reader)


def empty_table(rows: Sequence[Row], reader: Reader) -> Table | None:
    """The first points of these with their inputs and the reason; None if there are none."""
    return _rows_table(rows[:LISTED], (*reader.spec.axis_names, STATUS), reader)


def _rows_table(rows: Sequence[Row], names: Sequence[str], reader: Reader) -> Table | None:
    if not rows:
        return None
    cells = [
        (f"{row[POINT]:,}", *(_cell(name, reader.value(row, name), reader) for name in names))
        for row in rows
    ]
    return table(("point>", *(_head(name, rows, reader) for name in names)), cells)


def _head(name: str, rows: Sequence[Mapping[str, Scalar]], reader: Reader) -> str:
    """Title of a column; its unit stands here unless the cells have it with a prefix."""
    if name == STATUS:
        return "reason"
    title = _title(name, reader)
    texts = any(isinstance(row.get(name), str) for row in rows)
    return title if texts else f"{title}>"


def _cell(name: str, value: Scalar, reader: Reader) -> str:
    if name == STATUS:
        return short(str(value).removeprefix(FAILED), REASON_LENGTH)
    unit = reader.words(name).unit
    return shown(value, unit if unit in PREFIXED else "")


def _titles(axis: Axis, reader: Reader) -> str:
    return " with ".join(_title(name, reader) for name in axis.names)


def _title(name: str, reader: Reader) -> str:
    """Name of an input whose values stand bare, or with their unit if it takes a prefix."""
    found = reader.words(name)
    return found.quantity if found.unit in PREFIXED else found.title


def _values(axis: Axis, reader: Reader) -> str:
    """Values of an axis: all if they are few, else the first ones and the last."""
    texts = [
        " with ".join(
            _cell(name, value, reader) for name, value in zip(axis.names, row, strict=True)
        )
        for row in axis.rows
    ]
    if len(texts) > LISTED_VALUES:
        texts = [*texts[:HEAD_VALUES], "…", texts[-1]]
    joined = "; ".join(texts)
    if axis.when is None:
        return joined
    if axis.otherwise is None:
        return f"{joined}, only where {axis.when}"
    return f"{joined}, only where {axis.when}; else {_cell(axis.names[0], axis.otherwise, reader)}"


def _plain(value: Scalar) -> str:
    """A value as a study file writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
