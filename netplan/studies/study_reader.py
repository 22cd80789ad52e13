"""Reads the rows of a study: values by name, numbers that can be drawn, lines of a hover box."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite

from netplan.catalog import user_roots
from netplan.costing.prices import PRICE_BOOKS
from netplan.errors import NetplanError
from netplan.reports.charts import hover
from netplan.reports.escape import short
from netplan.reports.quantities import Words, shown, words
from netplan.studies.answer import Row, StudyAnswer
from netplan.studies.definition import Formula, StudyDefinition
from netplan.studies.expressions import parse_expression
from netplan.studies.points import Scalar
from netplan.studies.questions import question_inputs
from netplan.studies.study import OK, STATUS

PLAN = "plan"
LINE_LENGTH = 48
"""Signs of a line in a hover box that fit a phone [1]."""

OTHER_OUTPUTS = 6
"""Outputs in a hover box besides those of the chart [1]."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Values of a study's rows.

    Parameters
    ----------
    spec
        The study; an input that stays is not in its rows.
    currency
        Of amounts whose names do not say it.
    """

    spec: StudyDefinition
    currency: str

    @classmethod
    def of(cls, answer: StudyAnswer) -> "Reader":
        """Reader of an answer's rows."""
        return cls(answer.spec, _currency(answer))

    def value(self, row: Row, name: str) -> Scalar:
        """Value of an input or output at a point.

        A point without an answer has no outputs, but still has a place on axes that its inputs
        alone decide.
        """
        found = row[name] if name in row else self.spec.inputs.get(name)
        if found is None and row.get(STATUS) != OK:
            return _from_inputs(self, row, name)
        return found

    def words(self, name: str) -> Words:
        """Name of an input or output for people."""
        return _words(name, self.currency)

    def text(self, row: Row, name: str) -> str:
        """Name and value, such as ``HB domain 8 GPUs``; a text stands for itself."""
        return self.named(name, self.value(row, name))

    def named(self, name: str, value: Scalar) -> str:
        """Name and value; a text stands for itself."""
        found = self.words(name)
        if isinstance(value, str):
            return value
        return f"{found.quantity} {shown(value, found.unit)}"

    def texts(self, values: Iterable[tuple[str, Scalar]]) -> str:
        """Several names and values in one line."""
        return ", ".join(self.named(name, value) for name, value in values)

    def box(self, row: Row, names: Sequence[str]) -> str:
        """Hover box: one line for each name that has a value at this point."""
        found = [(self.words(name), self.value(row, name)) for name in names]
        return hover(
            *(
                short(f"{name.quantity}: {shown(value, name.unit)}", LINE_LENGTH)
                for name, value in found
                if value is not None
            )
        )


def finite(value: Scalar, *, log: bool = False) -> float | None:
    """A number that can be drawn; None for all else.

    Examples
    --------
    >>> finite(10), finite("rail-only"), finite(float("inf")), finite(0, log=True)
    (10.0, None, None, None)
    """
    if isinstance(value, (str, bool)) or value is None or not isfinite(value):
        return None
    return float(value) if value > 0 or not log else None


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
    formulas = {out.name: out.formula for out in spec.outputs if isinstance(out, Formula)}
    if name not in formulas:
        return None
    behind: set[str] = set()
    for part in parse_expression(formulas[name]).names:
        found = inputs_behind(spec, part)
        if found is None:
            return None
        behind |= found
    return frozenset(behind)


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


def box_names(
    spec: StudyDefinition, names: Sequence[str], shared: Sequence[str] = ()
) -> tuple[str, ...]:
    """What a hover box names: the chart's own values, the plan, open inputs, other outputs.

    Parameters
    ----------
    spec
        The study.
    names
        Series and axes of the chart.
    shared
        What all points of a drawing share, and its heading says.
    """
    outputs = [name for name in spec.output_names if name not in (*names, PLAN)]
    others = [name for name in outputs if inputs_behind(spec, name) is None][:OTHER_OUTPUTS]
    plan = [PLAN] if PLAN in spec.output_names else []
    return tuple(dict.fromkeys((*names, *plan, *open_axes(spec, (*names, *shared)), *others)))


def _from_inputs(reader: Reader, row: Row, name: str) -> Scalar:
    """Value of a formula of inputs; None for all else."""
    formulas = {out.name: out.formula for out in reader.spec.outputs if isinstance(out, Formula)}
    if name not in formulas or inputs_behind(reader.spec, name) is None:
        return None
    expression = parse_expression(formulas[name])
    values = {part: reader.value(row, part) for part in expression.names}
    if None in values.values():
        return None
    found = expression(values)
    scalar: Scalar = found.item() if hasattr(found, "item") else found
    return scalar


@cache
def _words(name: str, currency: str) -> Words:
    return words(name, currency)


def _currency(answer: StudyAnswer) -> str:
    """Currency of the answer; empty where the points do not share one."""
    spec = answer.spec
    if spec.ask != "cost" or {"currency", "prices"} & {*spec.axis_names}:
        return ""
    asked = {**question_inputs(spec.ask), **spec.inputs}
    if asked["currency"]:
        return str(asked["currency"])
    try:
        return PRICE_BOOKS.load(str(asked["prices"]), user_roots(answer.study.catalog)).currency
    except NetplanError:  # the book is gone since the study ran
        return ""
