"""Answers of iteration models with error bars: bars beside times, plans and networks that tie."""

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

import netplan
from netplan.answers.outputs import output
from netplan.decide.candidates import Basis, Candidate, Rule
from netplan.decide.verdict import Verdict, decide
from netplan.performance.calibrated_run import Factors
from netplan.performance.error_bars import ErrorBar
from netplan.performance.plan import Plan, PlanTime
from netplan.procurement.side_by_side import speed_chart
from netplan.questions.search import SearchAnswer
from netplan.records import replace
from netplan.reports.axes import ChartAxis
from netplan.reports.plots import Points, line_chart, scatter_chart
from netplan.reports.quantities import Scale, Words
from netplan.setup.plan_notes import equal_to_best, told_apart
from netplan.studies.charts import bar_ends
from netplan.traffic.placement import Degrees, Placement
from netplan.units import si_span

BAR = ErrorBar(Factors(low=0.9, high=1.2), Factors(low=0.5, high=1.5), 0.01)
PLAN = Plan(Placement((Degrees(tensor=8),)), 1, 1)
DENSE = (0.92, 1.10)
"""Bar of dense models under software of a date, over the time."""
WIDE = (1 / 1.25, 1.25)
"""The same where no run has tried what is asked."""
ASKED: dict[str, Any] = {
    "gpus": 256,
    "radix": 64,
    "accelerator": "h100-80gb",
    "model": "gpt-175b",
    "iteration_model": "calibrated",
}


def timed(**parts: float) -> PlanTime:
    """A plan whose iteration has these parts [s]."""
    return PlanTime(PLAN, sum(parts.values()), parts, 1e9, 0.4, 0.4, error=BAR)


def network(name: str, price: float, **parts: float) -> Candidate:
    """A network with a whole price, and its best plan."""
    best = timed(**parts)
    return Candidate(name, price, True, best.iteration_time_s, None, 50e9, timed=best)


def verdict(rule: Rule, *networks: Candidate) -> Verdict:
    """What is decided where times more than 0.1 % apart are not as good."""
    basis = Basis(rule, 0.001, None, Scale(1e6, "M USD", 1), barred=True)
    found = decide(networks, basis)
    assert found is not None
    return found


def test_a_winner_by_less_than_times_repeat_is_a_tie() -> None:
    # 0.3 % apart, in one part alone; and 2 %, by what two networks share nothing of.
    clos, rails = (
        network("clos", 9e6, compute=9.0, data_comm=1.0),
        network("rails", 6e6, compute=9.0, data_comm=1.03),
    )
    found = verdict("fastest", clos, rails)
    assert (found.fabric, found.tied) == (None, ("rails", "clos"))
    assert "as fast as each other, within the model's error: 10.0 s (9.0-12.0)" in found.sentence
    slow = network("slow", 5e6, compute=9.0, data_comm=1.2)
    found = verdict("fastest", clos, slow)
    assert found.fabric == "clos"
    assert "clos trains fastest: 10.0 s (9.0-12.0) an iteration" in found.sentence


def test_near_fastest_holds_all_that_the_bars_leave_equal() -> None:
    # 2 s of one part for 1.8 s of another: 0.2 s of 10 are out of tolerance, not of the error.
    clos = network("clos", 9e6, compute=8.0, tensor_comm=1.8)
    rails = network("rails", 6e6, compute=8.0, bubble=2.0)
    far = network("far", 1e6, compute=8.0, tensor_comm=1.8, bubble=2.4)  # slower in one part
    found = verdict("near-fastest", clos, rails, far)
    assert found.fabric == "rails"
    assert found.rule.endswith("iteration time, or within the model's error")


def test_run_cost_has_the_bar_of_its_time() -> None:
    answer = netplan.compare(
        "rail-only-paper", **ASKED, fabrics=("rail-only", "torus-2d"), rule="run-cost"
    )
    assert answer.verdict is not None
    said = answer.verdict.sentence
    best = next(row for row in answer.rows if row.name == "rail-only")
    assert best.best is not None
    assert best.best.error is not None
    low, high = best.best.error.whole.low, best.best.error.whole.high
    days = answer.terms.iterations * best.time_s / 86_400  # type: ignore[union-attr]
    assert f"in {days:,.1f} ({low * days:,.1f}-{high * days:,.1f}) days" in said


def test_ranks_that_equal_the_best_are_told() -> None:
    best, near = timed(compute=90, tensor_comm=10), timed(compute=90, bubble=12)
    far = timed(compute=90, tensor_comm=14)
    assert list(equal_to_best([best])) == []
    (said,) = equal_to_best([best, near, far])
    assert said.startswith("Equal to plan 1 within the model's error: plan 2 (less than 1 %")
    (said,) = equal_to_best([best, far])
    assert "none of these plans" in said
    assert list(equal_to_best([replace(best, error=None), replace(near, error=None)])) == []
    said = told_apart(("plan 1", "plan 2"), best, near)
    assert said == (
        "Plan 1 and plan 2 are equal within the model's error: 2.0 % apart; of 100 s and 102 s"
        " they share 90 s, whose error changes no order; 10 s and 12 s are their own, each 0.5 to"
        " 1.5 times as long."
    )
    assert "4.0 % apart, more than the model's error" in told_apart("ab", best, far)


def ends_over_time(row: dict[str, Any]) -> tuple[float, float]:
    """Ends of the bar of a time, over the time."""
    time_s = row["iteration_time_s"]
    return row["iteration_time_low_s"] / time_s, row["iteration_time_high_s"] / time_s


@cache
def searched() -> SearchAnswer:
    """The best plans of a run that was scored."""
    return netplan.search("rail-only-paper", **ASKED, top=4, explain="1,3", batch=1024)


def test_search_has_bars_in_every_form() -> None:
    answer = searched()
    plans = answer.to_dict()["plans"]
    for one in plans:
        assert ends_over_time(one) == pytest.approx(DENSE)
        assert one["error_basis"] == "calibrated"
    assert plans[0]["equals_best"] is True
    assert answer.to_dict()["equal"] is plans[2]["equals_best"]
    best = answer.found.best
    assert f"Time of plan 1: {best.time_text}" in answer.text(details=True)
    frame = answer.to_frame()
    assert list(frame["iteration_time_low_s"]) == [one["iteration_time_low_s"] for one in plans]
    assert list(frame["error_basis"]) == ["calibrated"] * 4


@pytest.mark.parametrize(
    ("date", "overrides", "bar", "reason"),
    [
        (None, {"stack.dated.vector": "1.5"}, WIDE, "stack.dated.vector is not as it was fitted"),
        (None, {"model.sequence_length": "65536"}, WIDE, "sequences of 65,536 tokens, tried were"),
        (None, {"model.sequence_length": "32768"}, DENSE, ""),
        ("none", {"stack.vector": "1.5"}, (0.93, 1.18), "stack.vector is not as it was fitted"),
        (
            *("none", {"model.sequence_length": "32768"}, (0.93, 1.18)),
            "sequences of 32,768 tokens, tried were",
        ),
    ],
)
def test_what_no_run_has_tried_widens_the_bar(
    date: str | None, overrides: dict[str, str], bar: tuple[float, float], reason: str
) -> None:
    asked = ASKED | {"overrides": overrides, "batch": 256, "recompute": "full"}
    answer = netplan.search("rail-only-paper", **asked, software_date=date)
    plan = answer.to_dict()["plans"][0]
    assert ends_over_time(plan) == pytest.approx(bar)
    assert plan["error_basis"] == ("transferred" if reason else "calibrated")
    wide = [note for note in answer.notes if note.startswith("Error bars are wide")]
    assert len(wide) == bool(reason)
    assert all(reason in note for note in wide)


def test_every_answer_about_a_run_has_its_bar() -> None:
    found = [
        netplan.loads("rail-only-paper", **ASKED).to_dict(),
        netplan.simulate("rail-only-paper", **ASKED).to_dict(),
        netplan.compare("rail-only-paper", **ASKED, fabrics=("rail-only",)).to_dict()["fabrics"][0],
        netplan.optimize(
            "rail-only-paper",
            **{name: value for name, value in ASKED.items() if name != "radix"},
            fabrics=("rail-only",),
            hb_sizes=(8,),
            radices=(64, 128),
        ).to_dict()["front"][0],
        netplan.faults("rail-only-paper", **ASKED, fabrics=("rail-only",)).to_dict()["fabrics"][0],
    ]
    for one in found:
        bar = {"calibrated": DENSE, "transferred": WIDE}[one["error_basis"]]
        assert ends_over_time(one) == pytest.approx(bar)


def test_other_iteration_models_say_nothing_of_bars() -> None:
    asked = ASKED | {"iteration_model": "4d"}
    text = json.dumps(netplan.compare("rail-only-paper", **asked, fabrics=("rail-only",)).to_dict())
    assert "low_s" not in text
    assert "error" not in text
    assert "(" not in str(
        netplan.search("rail-only-paper", **asked)
        .text(details=True)
        .split("plan ")[1]
        .split("Time of")[0]
    )


def test_a_report_draws_the_bars_of_times() -> None:
    answer = netplan.procurement(
        "rail-only-paper", **ASKED, fabrics=("rail-only", "fat-tree"), prices="2026"
    )
    chart = speed_chart(answer.cost, answer.timed, "rail-only", "gpt-175b")
    assert chart is not None
    (dots,) = chart.data
    bars, times = cast("dict[str, Any]", dots["error_y"]), cast("list[float]", dots["y"])
    # The best plan has tensor groups inside HB domains, as runs had.
    assert bars["array"] == pytest.approx([0.10 * time_s for time_s in times])
    assert bars["arrayminus"] == pytest.approx([0.08 * time_s for time_s in times])
    page = answer.html()
    assert answer.timed["rail-only"].time_text in page
    assert "Error bars, 0.92 to 1.1 times the time" in page


def test_studies_draw_bars_of_outputs_that_have_ends() -> None:
    rows = [{"gpus": 8, "t_s": 1.0, "t_low_s": 0.9, "t_high_s": 1.2}, {"gpus": 16, "t_s": 2.0}]
    assert bar_ends(rows[:1], "t_s") == [(0.9, 1.2)]
    assert bar_ends(rows, "t_s") == []
    points = Points(
        *("times", "Times", ChartAxis(Words("GPUs")), ChartAxis(Words("time", "s")), [8], [1.0]),
        series=[()],
        name=lambda _: "",
        box=lambda _: "",
        ends=bar_ends(rows[:1], "t_s"),
    )
    for chart in (line_chart(points, 10), scatter_chart(points, None, 10)):
        bars = cast("dict[str, Any]", chart.data[0]["error_y"])
        assert (bars["array"], bars["arrayminus"]) == (pytest.approx([0.2]), pytest.approx([0.1]))
    plain = line_chart(replace(points, ends=()), 10)
    assert "error_y" not in plain.data[0]


def test_a_study_may_ask_for_ends_that_a_model_lacks() -> None:
    assert output({"iteration_time_s": 1.0}, "iteration_time_low_s") is None


def test_jobs_and_expanded_memories_have_bars(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    lines = (
        "jobs:",
        *(f"  - {{name: {name}, gpus: 64, model: gpt-22b, batch: 64}}" for name in "ab"),
    )
    file.write_text("\n".join(lines), encoding="utf-8")
    asked = {key: value for key, value in ASKED.items() if key != "model"}
    answer = netplan.simulate("rail-only-paper", **asked | {"gpus": 128}, jobs=str(file))
    for job in answer.to_dict()["jobs"]:
        assert job["together_high_s"] == pytest.approx(1.10 * job["together_s"])
        assert (job["error_basis"], "error" in job) == ("calibrated", False)
        low, high = job["together_low_s"], job["together_high_s"]
        assert si_span(job["together_s"], (low, high), "s").split(" (")[1] in answer.text(
            details=True
        )
    asked = {"fabrics": ("rail-only",), "expanded_memories": ("none", "comet-480gb")}
    compared = netplan.compare("rail-only-paper", **ASKED, **asked, memory_model="model")
    (trade,) = compared.to_dict()["memory_or_gpus"]
    assert ends_over_time(trade)[0] == pytest.approx(DENSE[0])


@pytest.mark.parametrize(("stack", "said"), [("nemo-2024", ", stack nemo-2024"), (None, "")])
def test_headings_say_what_the_times_are_of(stack: str | None, said: str) -> None:
    asked: dict[str, Any] = {"gpus": 64, "accelerator": "h100-80gb", "model": "llama-3-8b"}
    trained: dict[str, Any] = {"iteration_model": "calibrated", "precision": "fp8"}
    answers = (
        netplan.search("rail-only-paper", **asked, **trained, stack=stack),
        netplan.compare("rail-only-paper", **asked, **trained, stack=stack, fabrics=("rail-only",)),
    )
    for answer in answers:
        lines = answer.text(200, details=True).splitlines()
        line = next(one for one in lines if "iteration model" in one)
        assert line.rpartition("iteration model ")[2].startswith(f"calibrated, fp8{said}")
        assert ("stack" in line) == bool(said)


def test_faults_give_the_ends_of_times_to_programs() -> None:
    asked: dict[str, Any] = {"gpus": 64, "accelerator": "h100-80gb", "fabrics": ("fat-tree",)}
    asked |= {"model": "llama-3.1-8b"}
    text = netplan.faults("rail-only-paper", **asked, iteration_model="calibrated").csv()
    timed = [row for row in csv.DictReader(text.splitlines()) if row["iteration_time_s"]]
    assert {row["table"] for row in timed} == {"failures", "recoveries"}
    for row in timed:
        low, time_s, high = (float(row[f"iteration_time_{end}s"]) for end in ("low_", "", "high_"))
        assert (low, high) == pytest.approx((0.92 * time_s, 1.10 * time_s))
        assert row["error_basis"] == "calibrated"
    assert "error_basis" not in netplan.faults("rail-only-paper", **asked).csv()
