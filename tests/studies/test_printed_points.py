"""Points of a paper on a study's charts and in its table, found by their inputs."""

from math import inf
from typing import Any

import pytest

from netplan.records import RecordError
from netplan.reports.charts import Chart
from netplan.reports.schema import plain_data
from netplan.studies.answer import StudyAnswer, study_answer
from netplan.studies.definition import STUDIES, StudyDefinition
from netplan.studies.points import PointResult
from netplan.studies.published import Published, printed_points
from netplan.studies.study import make_study
from tests.studies.shipped import SMALL, marked, shipped

WITH_POINTS = [
    name
    for name in STUDIES.paths()
    if (reproduced := STUDIES.load(name).reproduces) and reproduced.points
]
ROWS: list[dict[str, Any]] = [
    {"gpus": 64, "hb_size": 8, "iteration_time_s": 2.0},
    {"gpus": 128, "hb_size": 8, "iteration_time_s": 1.5},
    {"gpus": 256, "hb_size": 8, "iteration_time_s": 1.0},
]
"""The last has inputs that the study below lacks."""


def answer_of(points: list[dict[str, Any]], kind: str = "lines", **more: object) -> StudyAnswer:
    """A study of four points, whose iterations take 128 s over the GPUs."""
    chart: dict[str, Any] = {"kind": kind, "title": "Time", "x": "gpus", "y": "hours"}
    chart |= {"x": "gpus", "y": "hb_size", "z": "hours"} if kind == "heat" else {}
    chart |= {"series": ["hb_size"]} if kind != "heat" else {}
    definition = {
        "name": "mine",
        "title": "Mine",
        "source": "us",
        "date": "2026-11",
        "ask": "search",
        "axes": [{"input": "hb_size", "values": [8, 16]}, {"input": "gpus", "values": [64, 128]}],
        "outputs": ["iteration_time_s", {"name": "hours", "formula": "iteration_time_s / 3600"}],
        "charts": [chart],
        "reproduces": {"paper": "theirs", "items": ["Fig. 1"], "points": points},
    }
    study = make_study(StudyDefinition.read(definition | more))
    times = [128 / point.inputs["gpus"] for point in study.points(range(4))]  # type: ignore[operator]
    return study_answer(
        study,
        [
            PointResult(
                index, {"iteration_time_s": time, "hours": time / 3600, "status": "ok"}, None, 0.1
            )
            for index, time in enumerate(times)
        ],
    )


def published_traces(answer: StudyAnswer) -> list[Any]:
    charts = [part for part in answer.sections() if isinstance(part, Chart)]
    return [trace for chart in charts for trace in chart.data if trace.get("name") == "published"]


def test_a_printed_point_stands_on_its_curve_and_in_the_table_with_its_gap() -> None:
    answer = answer_of([{"source": "Fig. 1", "rows": ROWS}])
    # 128 s / 64 GPUs is the printed 2 s; 128 / 128 is 1 s where 1.5 is printed.
    assert [(value.published, value.netplan) for value in answer.published] == [
        ("2", 2.0),
        ("1.5", 1.0),
    ]
    assert [value.gap for value in answer.published] == [0.0, -0.5]
    assert answer.published[0].name == "HB domain 8 GPUs, GPUs 64: iteration time"
    (trace,) = published_traces(answer)
    # The chart shows hours, which follow from printed seconds.
    assert (trace["x"], trace["y"]) == ([64.0, 128.0], [2.0 / 3600, 1.5 / 3600])
    assert trace["marker"]["symbol"] == "diamond-open"
    assert "published" in answer.html()


@pytest.mark.parametrize("kind", ["scatter", "lines"])
def test_an_input_that_a_point_leaves_open_stands_beside_all(kind: str) -> None:
    answer = answer_of([{"source": "text", "rows": [{"gpus": 64, "hours": 0.001}]}], kind)
    assert len(answer.published) == 2
    (trace,) = published_traces(answer)
    assert trace["y"] == [0.001, 0.001]
    assert len({*trace["marker"]["color"]}) == 2  # each in the colour of its line


def test_cells_have_no_marks_but_say_where_the_values_are() -> None:
    answer = answer_of([{"source": "Fig. 1", "rows": ROWS}], "heat")
    (chart,) = [part for part in answer.sections() if isinstance(part, Chart)]
    assert not published_traces(answer)
    assert any("table of published values" in text for text in chart.said)


def test_points_of_a_table_are_picked_and_renamed() -> None:
    table = {
        "source": "result files",
        "table": "optimal-configurations",
        "where": {"strategy": "1d", "accelerator": "b200", "gpus": 128},
        "columns": {"iteration_time_s": "iteration_time_s"},
    }
    answer = answer_of([table])
    # Of the two rows of the file, domains of 4 are none of the study.
    assert [value.published for value in answer.published] == ["264.895"]
    assert answer.published[0].netplan == 1.0


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"rows": [{"gpu": 64, "hours": 1}]}, "gpu neither varies nor is an output"),
        ({"table": "no-such"}, "no-such"),
        ({}, "either rows or a table"),
        ({"rows": ROWS, "table": "serving"}, "either rows or a table"),
        ({"rows": ROWS, "where": {"gpus": 8}}, "name one"),
        ({"rows": ROWS, "inputs": {"fabrics": "all"}}, "fabrics neither varies"),
    ],
)
def test_points_that_cannot_be_meant_are_refused(points: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        answer_of([{"source": "Fig. 1", **points}])


def test_inputs_that_all_points_share_are_said_once() -> None:
    rows = [{"gpus": 64, "iteration_time_s": 2}, {"gpus": 128, "iteration_time_s": "O(1)"}]
    answer = answer_of([{"source": "Table 1", "inputs": {"hb_size": 16}, "rows": rows}])
    assert [value.name for value in answer.published] == [
        "HB domain 16 GPUs, GPUs 64: iteration time",
        "HB domain 16 GPUs, GPUs 128: iteration time",
    ]
    assert [value.gap for value in answer.published] == [0.0, None]  # a text has no gap
    (trace,) = published_traces(answer)
    assert trace["x"] == [64.0]


def test_a_study_with_other_inputs_is_no_longer_the_paper_s() -> None:
    spec = answer_of([{"source": "Fig. 1", "rows": ROWS}]).spec
    assert make_study(spec, {"gpus": [64]}).spec.reproduces is not None
    assert make_study(spec, {"batch": 512}).spec.reproduces is None


def test_of_many_values_a_text_has_those_that_are_furthest_off() -> None:
    rows = [{"hb_size": 8, "gpus": 64, "iteration_time_s": 2 + part / 100} for part in range(60)]
    answer = answer_of([{"source": "Fig. 1", "rows": rows}])
    text = answer.text(100, details=True)
    assert "The 40 of 60 that are furthest off" in text
    assert " 2.59 " in text
    assert " 2.01 " not in text
    assert len(answer.to_dict()["published"]) == 60


@pytest.mark.parametrize("name", marked(name for name in WITH_POINTS if name not in SMALL))
def test_every_shipped_point_finds_its_row(name: str) -> None:
    answer = shipped(name)
    reproduced = STUDIES.load(name).reproduces
    assert reproduced is not None
    for points in reproduced.points:
        rows = [points.changed(rows=(row,)) for row in points.rows]
        for single in rows or [points]:
            alone = answer.spec.changed(reproduces=reproduced.changed(points=(single,)))
            assert [*printed_points(alone, answer.rows)], single
    assert published_traces(answer) or any(
        chart.kind in ("heat", "bars") for chart in answer.spec.charts
    )


@pytest.mark.parametrize("printed", ["nan", "-inf", "1e400"])
def test_no_gap_beside_texts_that_are_no_finite_number(printed: str) -> None:
    value = Published("time", "Table 1", printed, 2.0, "s")
    assert (value.gap, value.error, plain_data(value)["gap"]) == (None, inf, None)
