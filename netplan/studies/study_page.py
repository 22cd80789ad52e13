"""The report of a study: its question, its charts, published values beside, its points."""

from collections.abc import Iterator

from netplan.reports.page import SCRIPTS, STYLES, framed
from netplan.studies.answer import StudyAnswer
from netplan.studies.study_charts import study_charts
from netplan.studies.study_reader import Reader
from netplan.studies.study_tables import (
    ALL_POINTS,
    FIRST_POINTS,
    LISTED,
    computed_table,
    empty_table,
    point_table,
    published_table,
    staying_table,
    varying_table,
)

TEMPLATE = "study.html.j2"
ASKS = {
    "search": "Each point asks for the fastest parallel plan.",
    "compare": "Each point asks what one fabric is made of, what it costs and how fast it trains.",
    "cost": "Each point asks what one fabric costs to buy and to run.",
}


def study_page(answer: StudyAnswer) -> str:
    """Write the report of a study.

    Parameters
    ----------
    answer
        Of :func:`netplan.studies.answer.study_answer`; it may miss points.

    Examples
    --------
    >>> from netplan.studies.definition import STUDIES
    >>> from netplan.studies.study import make_study
    >>> page = study_page(StudyAnswer(make_study(STUDIES.load("hb-size")), ()))
    >>> page.startswith("<!DOCTYPE html>"), "None of 96 points is done" in page
    (True, True)
    """
    reader = Reader.of(answer)
    charts = study_charts(answer, reader)
    values = {
        "answer": answer,
        "spec": answer.spec,
        "asked": ASKS[answer.spec.ask],
        "counted": " ".join(counted(answer)),
        "drawings": charts,
        "varying": varying_table(reader),
        "staying": staying_table(reader),
        "computed": computed_table(reader),
        "published": published_table(answer),
        "points": point_table(answer, reader),
        "cut": f"{FIRST_POINTS:,}" if len(answer.rows) > ALL_POINTS else "",
        "failed": empty_table(answer.failures, reader),
        "unanswered": empty_table(answer.without_answer, reader),
        "listed": LISTED,
    }
    drawn = [part.drawn.chart for chart in charts for part in chart.parts]
    return framed(
        TEMPLATE,
        drawn,
        values,
        styles=(*STYLES, "study.css"),
        scripts=(*SCRIPTS, "study.js"),
    )


def counted(answer: StudyAnswer) -> Iterator[str]:
    """Sentences on how many points there are, and what came of them."""
    total, done = answer.study.point_count, len(answer.rows)
    if not done:
        yield f"None of {total:,} points is done."
    elif done < total:
        yield f"{done:,} of {total:,} points are done; the page shows these."
    else:
        yield f"All {total:,} points are done." if total > 1 else "The one point is done."
    none, failed = len(answer.without_answer), len(answer.failures)
    if none:
        has, their = ("has", "its") if none == 1 else ("have", "their")
        yield f"{none:,} {has} no answer: nothing satisfies {their} question."
    if failed:
        yield f"{failed:,} failed."
    if done and not none and not failed:
        yield "Each has an answer."
