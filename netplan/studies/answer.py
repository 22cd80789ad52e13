"""What a study answers: one row a point, and what compares rows with each other."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netplan.reports.text import Cell
from netplan.studies.definition import Relative, StudyDefinition
from netplan.studies.points import Outcome, Scalar
from netplan.studies.published import Published, published_values
from netplan.studies.study import OK, STATUS, Study
from netplan.version import __version__

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Scalar]
FAILED = "failed: "
POINT = "point"


@dataclass(frozen=True, slots=True, eq=False)
class StudyAnswer:
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

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a point."""
        return [dict(row) for row in self.rows]

    def to_frame(self) -> "pd.DataFrame":
        """One row a point, one column an input or output."""
        import pandas as pd

        return pd.DataFrame(self.to_rows()).set_index(POINT)

    def html(self) -> str:
        """The study as one HTML file that loads nothing from anywhere."""
        from netplan.studies.study_page import study_page

        return study_page(self)

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(escape=True, max_rows=60))


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
    names = study.spec.axis_names
    outputs = [name for name in study.spec.output_names if name not in _across(study.spec)]
    points = study.points([outcome.index for outcome in outcomes])
    rows: list[Row] = []
    for point, outcome in zip(points, outcomes, strict=True):
        row: Row = {POINT: point.index} | {name: point.inputs[name] for name in names}
        found = outcome.outputs or {STATUS: f"{FAILED}{outcome.error}"}
        rows.append(row | {name: found.get(name) for name in outputs} | {STATUS: found[STATUS]})
    for relative in study.spec.relative:
        for row, value in zip(rows, _relative(relative, names, rows), strict=True):
            status = row.pop(STATUS)
            row |= {relative.name: value, STATUS: status}
    return StudyAnswer(study, tuple(rows), version)


def _across(spec: StudyDefinition) -> set[str]:
    return {relative.name for relative in spec.relative}


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
