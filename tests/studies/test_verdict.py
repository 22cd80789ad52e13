"""Verdicts of small studies, worked by hand."""

import pytest

from netplan.reports.plots import Key
from netplan.studies.answer import StudyAnswer
from netplan.studies.verdict import crossing, even_at, knee_of, spans_of
from tests.studies.test_study_page import HB_SIZE, HEAT, LINES, Inputs, answered, words

Lines = dict[Key, dict[float, float]]
A: Key = ("a",)
B: Key = ("b",)
C: Key = ("c",)
FABRICS = {"input": "fabric", "values": ["rail-only", "fat-tree"]}


def test_a_study_says_its_crossing_first() -> None:
    # rail-only takes 1, 2, 4 and 8 s on 8 to 64 GPUs a domain, fat-tree 3 s: 1 s is 67 % under
    # 3 s, 3 s is 62.5 % under 8 s, and halfway from 2 to 4 s, at 24 GPUs, both take 3 s.
    def time(inputs: Inputs) -> Inputs:
        slow = inputs["fabric"] == "fat-tree"
        return {"iteration_time_s": 3.0 if slow else float(inputs["hb_size"] or 0) / 8}

    fixed = {"accelerator": "b200", "model": "gpt-1t", "batch": 1024, "gpus": 1024}
    chart = LINES | {"series": ["fabric"]}
    found = answered(chart, axes=(HB_SIZE, FABRICS), evaluate=time, inputs=fixed)
    said = (
        "Iteration time is lowest with rail-only up to HB domain 16 GPUs (by up to 67 %), with"
        " fat-tree from 32 GPUs on (by up to 62 %); lines cross at about 24 GPUs."
    )
    assert said in words(found)
    assert said in found.markdown()
    assert "points are done" not in found.markdown()
    half = StudyAnswer(found.study, found.rows[:6])
    assert "So far: iteration time is lowest with" in half.markdown()


def test_a_heat_chart_says_its_best_point() -> None:
    # 10,000 s / (64 x 2,048) is 76.29 ms, 16 times less than / (8 x 1,024).
    said = (
        "Iteration time is lowest with HB domain 64 GPUs, GPUs 2,048 (76.29 ms) and highest with"
        " HB domain 8 GPUs, GPUs 1,024 (1.221 s), 16 times apart."
    )
    assert said in words(answered(HEAT))
    assert said in words(answered())  # a study without charts


def test_leader_turns_where_lines_cross() -> None:
    # a = x rises through b = 2.5; halfway from 2 to 3 both are 2.5.
    lines: Lines = {A: {1: 1.0, 2: 2.0, 3: 3.0}, B: {1: 2.5, 2: 2.5, 3: 2.5}}
    first, second = spans_of(lines, lower=True)
    assert first.leaders == frozenset((A,))
    assert (first.last, second.first) == (2, 3)
    # 1 is 60 % under 2.5, 2 is 20 %; 2.5 is a sixth under 3.
    assert first.leads == pytest.approx((0.6, 0.2))
    assert second.leads == pytest.approx((1 / 6,))
    assert crossing(lines, first, second) == pytest.approx(2.5)
    assert [one.leaders for one in spans_of(lines, lower=False)] == [
        frozenset((B,)),
        frozenset((A,)),
    ]


def test_equal_lines_lead_together() -> None:
    lines: Lines = {A: {1: 4.0, 2: 3.0}, B: {1: 4.0, 2: 3.0}, C: {1: 5.0, 2: 6.0}}
    (only,) = spans_of(lines, lower=True)
    assert only.leaders == frozenset((A, B))
    assert only.leads == pytest.approx((0.2, 0.5))


def test_knee_leaves_less_than_a_twentieth() -> None:
    # 1.0 at the end is 4.8 % under 1.05 and 9.1 % under 1.1.
    assert knee_of({1: 2.0, 2: 1.1, 4: 1.05, 8: 1.0}, lower=True) == 4
    assert knee_of({1: 1.0, 2: 1.96, 4: 2.0}, lower=False) == 2


def test_even_where_a_line_passes_one() -> None:
    # From 1.2 to 0.8 over 100: 1 is halfway.
    assert even_at({100: 1.2, 200: 0.8}) == pytest.approx(150)
    assert even_at({100: 1.2}) is None
