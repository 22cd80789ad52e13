"""All charts of a study, each as the drawings it takes, and what the drawings leave out.

Every mark carries its hover box, a few hundred bytes: the page has room for so many marks and no
more, however many points the study has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from netplan.studies.answer import StudyAnswer
from netplan.studies.study_heat import heat_chart
from netplan.studies.study_lines import line_chart
from netplan.studies.study_marks import Drawn
from netplan.studies.study_panels import MAX_PANELS, Panel, make_panels
from netplan.studies.study_reader import Reader
from netplan.studies.study_scatter import scatter_chart

PAGE_MARKS = 30_000
"""Marks of a whole page [1]: about 12 MB."""

DRAW: Mapping[str, tuple[Callable[[Panel, int], Drawn], int]] = {
    "lines": (line_chart, 6_000),
    "heat": (heat_chart, 20_000),
    "scatter": (scatter_chart, 5_000),
}
"""How each kind is drawn, and the marks with which one drawing still answers quickly [1]."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One drawing: what its points share, the chart, and what it leaves out."""

    heading: str
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class StudyChart:
    """One chart of the study file."""

    title: str
    parts: tuple[Shown, ...]
    left_out: str


def study_charts(answer: StudyAnswer, reader: Reader) -> tuple[StudyChart, ...]:
    """Draw the charts of a study.

    Parameters
    ----------
    answer
        The study.
    reader
        Of its rows.
    """
    specs = answer.spec.charts
    panels = [make_panels(answer, number, reader) for number in range(len(specs))]
    share = PAGE_MARKS // max(sum(len(found.shown) for found in panels), 1)
    charts = []
    for spec, found in zip(specs, panels, strict=True):
        draw, most = DRAW[spec.kind]
        parts = tuple(Shown(one.heading, draw(one, min(share, most))) for one in found.shown)
        more = f"The first {MAX_PANELS} drawings are shown; {found.left_out:,} more are not."
        charts.append(StudyChart(spec.title, parts, more if found.left_out else ""))
    return tuple(charts)
