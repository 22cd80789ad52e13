"""What a study answers, in a sentence or two: who leads and by how much, where that turns, knees.

The study's file says which ``answers`` its points are to give; one without any is read off all its
charts.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from netplan.studies.better import better_low, is_relative
from netplan.studies.charts import Reader, Row, inputs_behind, left_open
from netplan.studies.definition import ChartSpec, Finding, StudyDefinition
from netplan.studies.teller import Teller

SCALE = frozenset(("gpus", "batch", "model", "prompt", "output", "concurrency", "requests_a_stage"))
GIVEN = SCALE | {"seed", "iteration_model", "acceptance", "ttft_ms", "tpot_ms"}
"""Inputs that a study compares under, not among."""

MOST_SAID = 3
"""Sentences of a verdict [1]."""


def verdict(rows: Sequence[Row], reader: Reader, *, complete: bool = True) -> str:
    """Say what the points of a study answer; empty where there is nothing to compare."""
    said = _said(reader.spec.answers, rows, reader)
    if not said:
        said = _said(tuple(_of_charts(reader.spec, reader)), rows, reader)
    said = _joined(said)
    text = " ".join(f"{_capital(one)}." for one in said[:MOST_SAID])
    more = len(said) - MOST_SAID
    text += f" The charts show {more} more." if more > 0 else ""
    return text if complete or not text else f"So far: {text[:1].lower()}{text[1:]}"


def _said(findings: Sequence[Finding], rows: Sequence[Row], reader: Reader) -> list[str]:
    """Sentences of some findings, each once."""
    found: dict[str, None] = {}
    for one in findings:
        wanted = one.where.items()
        left = [row for row in rows if all(reader.value(row, key) == val for key, val in wanted)]
        text = Teller(one, reader).sentence(left)
        if text:
            found[text] = None
    return list(found)


def _joined(said: Sequence[str]) -> list[str]:
    """Sentences on the same subject as one."""
    found: list[str] = []
    for text in said:
        subject, colon, rest = text.partition(": ")
        if colon and found and found[-1].startswith(subject + colon):
            found[-1] += f"; {rest}"
        else:
            found.append(text)
    return found


def _capital(text: str) -> str:
    """With a capital first, but for names such as gpt-1t."""
    first = text.split(maxsplit=1)[0]
    return text if set("-0123456789") & set(first) else text[:1].upper() + text[1:]


def _of_charts(spec: StudyDefinition, reader: Reader) -> Iterator[Finding]:
    """What each chart of a study that names no answers shows; bars only where nothing else is."""
    charts = [one for one in spec.charts if one.kind != "bars"] or spec.charts
    for chart in charts:
        yield from _of_chart(chart, spec)
    if not charts:
        for name in spec.output_names:
            if better_low(reader, name) is not None:
                yield Finding(kind="best", of=name, by=spec.axis_names)
                return


def _of_chart(chart: ChartSpec, spec: StudyDefinition) -> Iterator[Finding]:
    """What a chart shows."""
    each = (chart.each,) if chart.each else ()
    series = (*chart.series, *(left_open(spec, chart) if chart.kind == "lines" else ()))
    given = (*each, *(name for name in series if name in GIVEN))
    chosen = tuple(name for name in series if name not in GIVEN)
    if chart.kind == "heat":
        yield Finding(kind="best", of=str(chart.z), by=(chart.x, chart.y), each=each)
    elif chart.kind == "scatter" and chart.front:
        yield Finding(kind="front", of=chart.y, over=chart.x, each=each)
    elif inputs_behind(spec, chart.x) is None or chart.kind != "lines" or _own_scales(chart, spec):
        by = (*chart.series, *((chart.x,) if inputs_behind(spec, chart.x) else ()))
        yield Finding(kind="best", of=chart.y, by=by or spec.axis_names, each=each)
    elif chosen:
        yield Finding(kind="best", of=chart.y, by=chosen, over=chart.x, each=given)
    else:
        kind: Literal["even", "knee"] = "even" if is_relative(spec, chart.y) else "knee"
        yield Finding(kind=kind, of=chart.y, over=chart.x, each=given)


def _own_scales(chart: ChartSpec, spec: StudyDefinition) -> bool:
    """Whether every line is compared with a point of its own, so that all cross there."""
    behind = inputs_behind(spec, chart.x) or frozenset()
    return any(row.name == chart.y and behind & set(row.to) for row in spec.relative)
