"""The HTML report of a study: all that it shows, text as text, a size that stays small."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netplan
from netplan.errors import InputError
from netplan.reports.axes import finite
from netplan.reports.charts import Chart
from netplan.reports.quantities import Scalar
from netplan.studies.answer import StudyAnswer, study_answer
from netplan.studies.charts import OK, STATUS, front_of
from netplan.studies.definition import ChartSpec, StudyDefinition
from netplan.studies.points import Point, PointResult
from netplan.studies.study import make_study
from tests.procurement.test_html_page import HOSTILE, parsed
from tests.studies.shipped import SMALL

Inputs = dict[str, Scalar]
Trace = dict[str, Any]
HB_SIZE = {"input": "hb_size", "values": [8, 16, 32, 64]}
GPUS = {"input": "gpus", "values": [1024, 2048]}
LINES = {"kind": "lines", "title": "Lines", "x": "hb_size", "y": "iteration_time_s"}
SCATTER = {"kind": "scatter", "title": "Points", "x": "memory_bytes", "y": "iteration_time_s"}
HEAT = {"kind": "heat", "title": "Heat", "x": "hb_size", "y": "gpus", "z": "iteration_time_s"}
PLAN = "TP8 x PP16 x DP8, 32 x 4"


def outputs(inputs: Inputs) -> Inputs:
    """Made-up outputs: the time falls with the domain, the memory grows with the cluster."""
    domain, gpus = float(inputs["hb_size"] or 1), float(inputs["gpus"] or 1)
    return {"iteration_time_s": 1e4 / domain / gpus, "memory_bytes": 1e6 * gpus + domain}


def answered(
    *charts: dict[str, Any],
    axes: tuple[dict[str, Any], ...] = (HB_SIZE, GPUS),
    evaluate: Callable[[Inputs], Inputs] = outputs,
    **fields: Any,  # noqa: ANN401 - as in a study file
) -> StudyAnswer:
    """Answer of a study whose outputs are made up; an InputError is a point that failed."""
    inputs = {"accelerator": "b200", "model": "gpt-1t", "batch": 1024}
    file: dict[str, Any] = {
        "name": "toy",
        "title": "Toy",
        "source": "a test",
        "date": "2026",
        "ask": "search",
        "inputs": inputs,
        "axes": axes,
        "charts": charts,
        "outputs": ["iteration_time_s", "memory_bytes", "plan"],
    }
    study = make_study(StudyDefinition.read(file | fields))
    points = study.points(range(study.point_count))
    return study_answer(study, [_outcome(point, evaluate) for point in points])


def _outcome(point: Point, evaluate: Callable[[Inputs], Inputs]) -> PointResult:
    try:
        found = {"plan": PLAN, STATUS: OK} | evaluate(point.inputs)
    except InputError as error:
        return PointResult(point.index, None, str(error), 0.0)
    return PointResult(point.index, found, None, 0.0)


def drawn(answer: StudyAnswer) -> list[Any]:
    """Charts of the page, as plain data."""
    charts = (section for section in answer.sections() if isinstance(section, Chart))
    plain = [{"key": one.key, "data": one.data, "layout": one.layout} for one in charts]
    data: list[Any] = json.loads(json.dumps(plain))
    return data


def words(answer: StudyAnswer) -> str:
    """Text of the page."""
    return " ".join(" ".join(parsed(answer.html()).text).split())


@pytest.mark.usefixtures("points")
@pytest.mark.parametrize(
    ("name", "charts"),
    [
        ("hb-size-paper", 2),  # lines, two models
        pytest.param("memory-vs-bandwidth", 2, marks=pytest.mark.slow),  # heat, two models
        ("topology-design-space", 2),  # scatter, two models
        ("batch-size", 1),  # lines, one drawing
        # Lines, three switch sizes: money, switches, transceivers.
        pytest.param("radix-and-size", 9, marks=pytest.mark.slow),
    ],
)
def test_shipped_studies_have_their_charts(name: str, charts: int) -> None:
    html = netplan.study(name, vary=SMALL.get(name)).html()
    page = parsed(html)
    assert html.count('class="chart"') == charts
    assert [one for one in page.loads if not one[1].startswith("#")] == []
    for _, place in page.loads:
        assert f'id="{place[1:]}"' in html
    assert page.handlers == []
    assert len(html.encode()) < 1_500_000


@pytest.mark.usefixtures("points")
def test_same_answer_gives_the_same_bytes() -> None:
    answer = netplan.study("batch-size")
    assert answer.html() == answer.html()


def test_head_says_what_was_asked_and_what_came_of_it() -> None:
    def some(inputs: Inputs) -> Inputs:
        if inputs["hb_size"] == 8:
            raise InputError("the worker died")
        if inputs["hb_size"] == 16:
            return {STATUS: "nothing fits"}
        return outputs(inputs)

    text = words(answered(LINES, evaluate=some, notes=["Mind the gap."]))
    assert "All 8 points are done. 2 have no answer: nothing satisfies their question." in text
    assert "2 failed." in text
    assert "the worker died" in text
    assert "nothing fits" in text
    assert "HB domain, GPUs 4 8; 16; 32; 64" in text
    assert "global batch 1,024 sequences" in text
    assert "Mind the gap." in text
    assert re.search(r"Input SHA-256 [0-9a-f]{64}", text)


def test_unfinished_study_shows_what_is_there() -> None:
    whole = answered(LINES)
    half = StudyAnswer(whole.study, whole.rows[:3])
    assert "3 of 8 points are done; these are shown." in words(half)
    none = StudyAnswer(whole.study, ())
    assert "None of 8 points is done." in words(none)
    assert "No point is done yet." in words(none)
    assert drawn(none) == []


def test_lines_have_gaps_where_a_point_has_no_value() -> None:
    def gap(inputs: Inputs) -> Inputs:
        if inputs["hb_size"] == 32:
            return {STATUS: "nothing fits"}
        return outputs(inputs)

    (chart,) = drawn(answered({**LINES, "series": ["gpus"]}, evaluate=gap))
    assert [trace["name"] for trace in chart["data"]] == ["GPUs 1,024", "GPUs 2,048"]
    first = chart["data"][0]
    assert first["x"] == [8, 16, 32, 64]
    # 10,000 / domain / 1,024
    assert first["y"] == [1.220703125, 0.6103515625, None, 0.152587890625]
    assert first["connectgaps"] is False
    assert f"plan: {PLAN}" in first["hovertext"][0]


def test_value_that_has_no_logarithm_is_a_gap() -> None:
    def falling(inputs: Inputs) -> Inputs:
        return {"iteration_time_s": 32.0 - float(inputs["hb_size"] or 0), "memory_bytes": 1.0}

    (chart,) = drawn(
        answered(
            {**LINES, "y_log": True},
            axes=(HB_SIZE,),
            evaluate=falling,
            inputs={"accelerator": "b200", "model": "gpt-1t", "gpus": 1024, "batch": 1024},
        )
    )
    assert chart["data"][0]["y"] == [24, 16, None, None]


def test_what_a_chart_leaves_open_tells_lines_and_drawings_apart() -> None:
    (lines,) = drawn(answered(LINES))
    assert [trace["name"] for trace in lines["data"]] == ["GPUs 1,024", "GPUs 2,048"]
    batch = {"input": "batch", "values": [512, 1024]}
    inputs = {"accelerator": "b200", "model": "gpt-1t"}
    heats = drawn(answered(HEAT, axes=(HB_SIZE, GPUS, batch), inputs=inputs))
    assert len(heats) == 2


def test_page_says_how_many_drawings_it_leaves_out() -> None:
    cluster = {"input": "gpus", "linear": {"from": 1001, "to": 1020, "steps": 20}, "whole": True}
    answer = answered({**LINES, "each": "gpus"}, axes=(HB_SIZE, cluster))
    assert len(drawn(answer)) == 16
    assert "The first 16 drawings are shown; 4 more are not." in words(answer)


def test_lines_differ_beyond_colour_and_money_is_in_millions() -> None:
    def priced(inputs: Inputs) -> Inputs:
        return {"iteration_time_s": 1.0, "cost_usd.base": 5e4 * float(inputs["gpus"] or 0)}

    chart = {**LINES, "y": "cost_usd.base", "series": ["gpus"]}
    names = ["iteration_time_s", "cost_usd.base"]
    answer = answered(chart, evaluate=priced, outputs=names)
    (lines,) = drawn(answer)
    assert [trace["marker"]["symbol"] for trace in lines["data"]] == ["circle", "square"]
    # 1,024 GPUs of 50,000 USD.
    assert lines["data"][0]["y"][0] == pytest.approx(51.2)
    assert lines["layout"]["yaxis"]["title"] == {"text": "cost, M USD"}
    assert "cost: 51.2 M USD" in lines["data"][0]["hovertext"][0]


def test_amounts_in_tables_and_cells_are_in_millions_and_in_csv_exact() -> None:
    def priced(inputs: Inputs) -> Inputs:
        return {"iteration_time_s": 1.0, "cost_usd.base": 5e4 * float(inputs["gpus"] or 0) + 0.25}

    names = ["iteration_time_s", "cost_usd.base"]
    answer = answered({**HEAT, "z": "cost_usd.base"}, evaluate=priced, outputs=names)
    (heat,) = drawn(answer)
    # 1,024 GPUs of 50,000 USD, and 2,048.
    assert heat["data"][0]["text"][0][0] == "51.2"
    assert heat["data"][0]["colorbar"]["title"]["text"] == "cost, M USD"
    text = words(answer)
    assert "cost, M USD" in text
    assert "51.20 102.40" not in text
    assert "51,200,000" not in text
    assert "51,200,000" not in answer.markdown()
    assert "51200000.25" in answer.csv()


def test_only_small_drawings_stand_side_by_side() -> None:
    chart = {**LINES, "each": "gpus"}
    assert answered(chart).html().count('<div class="beside">') == 1
    assert '<div class="beside">' not in answered(LINES).html()  # one drawing
    wide = {"input": "hb_size", "values": [2**power for power in range(10)]}
    heat = {**HEAT, "y": "gpus", "each": "batch"}
    batch = {"input": "batch", "values": [512, 1024]}
    inputs = {"accelerator": "b200", "model": "gpt-1t"}
    few, many = (answered(heat, axes=(one, GPUS, batch), inputs=inputs) for one in (HB_SIZE, wide))
    assert '<div class="beside">' in few.html()
    assert '<div class="beside">' not in many.html()


def test_pages_without_charts_bring_a_script_only_for_long_tables() -> None:
    long = answered(axes=({**HB_SIZE, "values": [8, 16, 32, 64, 128, 256]}, GPUS)).html()
    assert (long.count("<script"), "Plotly" in long) == (1, False)
    assert "<script" not in answered().html()  # 8 points


def test_drawings_of_a_chart_share_their_scales() -> None:
    chart = {**LINES, "each": "gpus"}
    one, two = drawn(answered(chart))
    for axis in ("xaxis", "yaxis"):
        assert one["layout"][axis]["range"] == two["layout"][axis]["range"]
    low, high = one["layout"]["yaxis"]["range"]
    # From 10,000 / 64 / 2,048 to 10,000 / 8 / 1,024, and some room.
    assert low < 0.0762939453125
    assert high > 1.220703125
    first, second = (one["data"][0] for one in drawn(answered({**HEAT, "each": "gpus"})))
    ends = [first["zmin"], second["zmin"], first["zmax"], second["zmax"]]
    assert ends == [ends[0], ends[0], ends[2], ends[2]]

    def far(inputs: Inputs) -> Inputs:
        times = 1e12 if inputs["gpus"] == 1024 else 1.0
        return {"iteration_time_s": times * float(inputs["hb_size"] or 0), "memory_bytes": 1.0}

    own = drawn(answered({**HEAT, "y": "gpus", "each": "gpus"}, evaluate=far))
    assert ["zmin" in one["data"][0] for one in own] == [False, False]


def test_a_drawing_that_would_lie_flat_has_its_own_scale_and_says_so() -> None:
    def far(inputs: Inputs) -> Inputs:
        times = 1000.0 if inputs["gpus"] == 1024 else 1.0
        return {"iteration_time_s": times * float(inputs["hb_size"] or 0), "memory_bytes": 1.0}

    answer = answered({**LINES, "each": "gpus"}, evaluate=far)
    one, two = drawn(answer)
    assert "range" not in one["layout"]["yaxis"]
    assert one["layout"]["xaxis"]["range"] == two["layout"]["xaxis"]["range"]
    said = "Each drawing has its own scale of iteration time: on one for all, some would show"
    assert words(answer).count(said) == 2
    # On a logarithmic axis both are as steep.
    logs = drawn(answered({**LINES, "each": "gpus", "y_log": True}, evaluate=far))
    assert logs[0]["layout"]["yaxis"]["range"] == logs[1]["layout"]["yaxis"]["range"]


def test_numbers_of_a_chart_are_a_table_below_it() -> None:
    page = parsed(answered(LINES).html())
    text = " ".join(" ".join(page.text).split())
    numbers = text.split("Numbers of this chart")[1].split("What varies")[0]
    # 10,000 / 8 / 1,024 and 10,000 / 64 / 2,048.
    for told in ("HB domain", "iteration time", "8 GPUs 1.221 s", "64 GPUs 76.29 ms"):
        assert told in numbers


def test_lines_on_one_another_are_named() -> None:
    def alike(inputs: Inputs) -> Inputs:
        return {"iteration_time_s": 1.0 / float(inputs["hb_size"] or 1), "memory_bytes": 1.0}

    answer = answered({**LINES, "series": ["gpus"]}, evaluate=alike)
    (chart,) = drawn(answer)
    assert [trace["name"] for trace in chart["data"]] == ["GPUs 1,024 = GPUs 2,048"]
    text = words(answer)
    assert "These lines lie on one another: GPUs 1,024, GPUs 2,048." in text


def test_heat_has_its_values_in_order_and_blank_cells() -> None:
    def some(inputs: Inputs) -> Inputs:
        if (inputs["hb_size"], inputs["gpus"]) == (16, 2048):
            return {STATUS: "nothing fits"}
        return outputs(inputs)

    axes = ({"input": "hb_size", "values": [16, 8]}, {"input": "gpus", "values": [2048, 1024]})
    (chart,) = drawn(answered(HEAT, axes=axes, evaluate=some))
    assert chart["layout"]["xaxis"]["ticktext"] == ["8", "16"]
    assert chart["layout"]["yaxis"]["ticktext"] == ["1,024", "2,048"]
    # Rows from below: 10,000 / 8 / 1,024, 10,000 / 16 / 1,024; half of the first, none.
    assert chart["data"][0]["z"] == [[1.220703125, 0.6103515625], [0.6103515625, None]]
    assert chart["data"][0]["hovertext"][1][1] == ""
    assert "HB domain: 8 GPUs" in chart["data"][0]["hovertext"][0][0]


def test_cells_and_scale_of_heat_have_prefixes_and_the_title_the_unit() -> None:
    def some(inputs: Inputs) -> Inputs:
        return outputs(inputs) | {"memory_bytes": 1e6 * float(inputs["gpus"] or 0) ** 2}

    axes = ({"input": "hb_size", "values": [8]}, {"input": "gpus", "values": [1000, 6000]})
    (chart,) = drawn(answered({**HEAT, "z": "memory_bytes"}, axes=axes, evaluate=some))
    assert chart["data"][0]["text"] == [["1 T"], ["36 T"]]
    bar = chart["data"][0]["colorbar"]
    assert bar["ticktext"] == ["1 T", "2 T", "5 T", "10 T", "20 T"]
    assert bar["title"]["text"] == "memory, B"


def test_point_without_answer_keeps_its_place_on_a_computed_axis() -> None:
    def none(inputs: Inputs) -> Inputs:
        if inputs["hb_size"] == 8:
            return {STATUS: "nothing fits"}
        return outputs(inputs) | {"share": float(inputs["hb_size"] or 0) / 64}

    outs = [
        "iteration_time_s",
        "memory_bytes",
        "plan",
        {"name": "share", "formula": "hb_size / 64"},
    ]
    (chart,) = drawn(answered({**HEAT, "x": "share"}, evaluate=none, outputs=outs))
    assert chart["layout"]["xaxis"]["ticktext"] == ["0.125", "0.25", "0.5", "1"]
    assert chart["data"][0]["z"][0][0] is None


def test_front_is_that_of_brute_force() -> None:
    random = np.random.default_rng(7)
    spec = ChartSpec(kind="scatter", title="Points", x="x", y="y", front=True)
    for count in (1, 2, 40, 300):
        # Few distinct values, so that there are ties.
        xs, ys = random.integers(0, 25, (2, count)).tolist()
        rows = [{"x": x, "y": y} for x, y in zip(xs, ys, strict=True)]
        found = [rows[at] for at in front_of(rows, spec)]
        points = set(zip(xs, ys, strict=True))
        best = {
            (x, y)
            for x, y in points
            if not any(a <= x and b <= y and (a, b) != (x, y) for a, b in points)
        }
        assert [(row["x"], row["y"]) for row in found] == sorted(best)


def test_front_is_drawn_as_steps_only_where_asked() -> None:
    def trade(inputs: Inputs) -> Inputs:
        return {"iteration_time_s": 100.0 - float(inputs["hb_size"] or 0)}  # without memory

    (plain,) = drawn(answered({**SCATTER, "series": ["gpus"]}))
    assert [trace["type"] for trace in plain["data"]] == ["scatter"] * 2
    (chart,) = drawn(answered({**SCATTER, "series": ["gpus"], "front": True}))
    step = chart["data"][0]
    assert (step["name"], step["line"]["shape"]) == ("Pareto front", "hv")
    # By rising memory: 1,024 GPUs in domains of 8 to 64 take 1.22, 0.61, 0.31 and 0.15 s,
    # 2,048 GPUs 0.61, 0.31, 0.15 and 0.08 s. Only the last of these is quicker than all before it.
    assert len(step["x"]) == 5
    assert step["x"] == sorted(step["x"])
    assert step["y"] == sorted(step["y"], reverse=True)
    (none,) = drawn(answered({**SCATTER, "front": True}, evaluate=trade))
    assert none["data"] == []


@pytest.mark.parametrize("text", [HOSTILE, "<b>bold</b>", "{{ 7*7 }}", '" onload="x', "a\u202eb"])
@pytest.mark.parametrize("chart", [LINES, SCATTER, HEAT], ids=["lines", "scatter", "heat"])
def test_hostile_text_stays_text(chart: dict[str, Any], text: str) -> None:
    def hostile(inputs: Inputs) -> Inputs:
        if inputs["gpus"] == 1024:
            raise InputError(text)
        return outputs(inputs) | {"plan": text}

    inputs = {"accelerator": "b200", "model": "gpt-1t", "batch": 1024, "recompute": text}
    axes = (HB_SIZE, GPUS, {"input": "strategy", "values": [text, "1d"]})
    charts = ({**chart, "title": text}, {**chart, "each": "strategy"})
    fields = {"title": text, "notes": [text], "source": text, "inputs": inputs}
    answer = answered(*charts, axes=axes, evaluate=hostile, **fields)
    page = parsed(answer.html())
    assert page.tags.count("script") == 1
    assert page.handlers == []
    assert "b" not in page.tags
    shown = text.replace("\u202e", "\ufffd")
    assert sum(shown in part for part in page.text) >= 6
    # Plotly reads tags in labels: only our own line break may be one.
    assert set(re.findall(r"<[^>]*>", json.dumps(drawn(answer)))) <= {"<br>"}


def test_values_that_are_no_numbers_do_not_break_the_data() -> None:
    def odd(_: Inputs) -> Inputs:
        return {"iteration_time_s": float("nan"), "memory_bytes": float("inf")}

    charts = drawn(answered(LINES, SCATTER, HEAT, evaluate=odd))
    assert len(charts) == 3
    assert "NaN" not in json.dumps(charts)
    assert finite(float("nan")) is None


@pytest.fixture(scope="module")
def large() -> StudyAnswer:
    """20,000 points: 100 domains, 100 cluster sizes, 2 batches."""
    axes = (
        {"input": "hb_size", "linear": {"from": 1, "to": 100, "steps": 100}, "whole": True},
        {"input": "gpus", "linear": {"from": 1001, "to": 1100, "steps": 100}, "whole": True},
        {"input": "batch", "values": [512, 1024]},
    )
    random = np.random.default_rng(3)

    def noisy(_: Inputs) -> Inputs:
        time, memory = random.uniform(1, 100, 2).tolist()
        return {"iteration_time_s": time, "memory_bytes": memory}

    inputs = {"accelerator": "b200", "model": "gpt-1t"}
    charts = (LINES, HEAT, {**SCATTER, "series": ["batch"], "front": True})
    return answered(*charts, axes=axes, evaluate=noisy, inputs=inputs)


def test_large_study_makes_a_page_that_can_be_sent(large: StudyAnswer) -> None:
    html = large.html()
    assert len(html.encode()) < 20_000_000
    text = " ".join(parsed(html).text)
    assert "The first 100 of 20,000 points." in text
    assert "netplan study show toy --format csv" in text
    assert "60 of 200 lines are drawn" in text
    assert re.search(r"[\d,]+ of 20,000 points are drawn", text)


def test_thinning_keeps_the_front_and_the_ends(large: StudyAnswer) -> None:
    charts = [section for section in large.sections() if isinstance(section, Chart)]
    lines, scatter = charts[0], charts[-1]
    traces: list[Trace] = [dict(trace) for trace in scatter.data]
    marks = {mark for trace in traces[1:] for mark in zip(trace["x"], trace["y"], strict=True)}
    assert len(marks) <= 5_000
    assert set(zip(traces[0]["x"], traces[0]["y"], strict=True)) <= marks
    values = [(finite(row["memory_bytes"]), finite(row["iteration_time_s"])) for row in large.rows]
    assert min(values) in marks
    assert len(lines.data) == 60
