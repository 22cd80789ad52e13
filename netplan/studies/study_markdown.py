"""A study as Markdown: what was asked, one table a chart, published values beside netplan's."""

from collections.abc import Iterator

from netplan.reports.text import to_markdown
from netplan.studies.answer import StudyAnswer
from netplan.studies.study_table import chart_tables, counted, published_rows

MAX_POINTS = 200
"""Points up to which the table of all points is printed where the study has no chart [1]."""


def study_markdown(answer: StudyAnswer) -> str:
    """The answer as a Markdown document; the same answer gives the same bytes."""
    return "\n".join(_parts(answer))


def _parts(answer: StudyAnswer) -> Iterator[str]:
    spec = answer.spec
    yield f"# {_plain(spec.title)}\n"
    yield f"{_plain(spec.source)}. {_plain(counted(answer))}.\n"
    if answer.published:
        yield "## Published values, and netplan's\n"
        yield to_markdown(published_rows(answer))
    for chart in spec.charts:
        for title, rows in chart_tables(answer, chart):
            if rows:
                yield f"## {_plain(title)}\n"
                yield to_markdown(rows)
    if not spec.charts and answer.rows:
        yield "## Points\n"
        yield to_markdown(answer.to_rows()[:MAX_POINTS])
    for note in spec.notes:
        yield f"{_plain(note)}\n"
    yield f"Made by `netplan study run {spec.name}`, netplan {answer.version}.\n"


def _plain(text: str) -> str:
    """Text of a file on one line, without markup of its own."""
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())
