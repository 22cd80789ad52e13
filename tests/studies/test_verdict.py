"""Verdicts of small studies, worked by hand."""

import re

import pytest

import netplan
from netplan.records import RecordError
from netplan.reports.plots import Key
from netplan.reports.sections import Paragraph
from netplan.studies.answer import StudyAnswer
from netplan.studies.definition import STUDIES
from netplan.studies.leaders import crossing, even_at, intervals_of, knee_of
from tests.studies.shipped import marked, shipped
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


def test_the_highest_mfu_is_the_best() -> None:
    # 40 % against 30 % on every size of domain: a quarter behind.
    def mfu(inputs: Inputs) -> Inputs:
        return {"mfu": 0.4 if inputs["fabric"] == "rail-only" else 0.3}

    fixed = {"accelerator": "b200", "model": "gpt-1t", "batch": 1024, "gpus": 1024}
    chart = LINES | {"y": "mfu", "series": ["fabric"]}
    found = answered(chart, axes=(HB_SIZE, FABRICS), evaluate=mfu, inputs=fixed, outputs=["mfu"])
    assert "MFU is highest with rail-only at all 4 points (by 33 %)." in words(found)


def test_a_heat_chart_says_its_best_point() -> None:
    # 10,000 s / (64 x 2,048) is 76.29 ms, 16 times less than / (8 x 1,024).
    said = (
        "Iteration time is lowest with HB domain 64 GPUs, GPUs 2,048 (76.29 ms) and highest with"
        " HB domain 8 GPUs, GPUs 1,024 (1.221 s), 16 times apart."
    )
    assert said in words(answered(HEAT))
    assert said in words(answered())  # a study without charts


def test_cases_with_one_answer_are_said_together() -> None:
    # 10,000 / domain / GPUs: halved three times from 8 to 64 GPUs a domain, 87.5 % less.
    worth = {"kind": "worth", "of": "iteration_time_s", "by": ["hb_size"], "each": ["gpus"]}
    said = "HB domain from 8 to 64 GPUs: iteration time 88 % lower."
    assert said in words(answered(LINES, answers=[worth]))
    to = worth | {"start": 16, "end": 32}
    said = "HB domain from 16 to 32 GPUs: iteration time 50 % lower."
    assert said in words(answered(LINES, answers=[to]))


def test_cases_with_other_answers_stand_side_by_side() -> None:
    # 1,024 GPUs stop gaining at 16 a domain, 2,048 at 32.
    def time(inputs: Inputs) -> Inputs:
        most = 16 if inputs["gpus"] == 1024 else 32
        return {"iteration_time_s": 64.0 / min(float(inputs["hb_size"] or 0), most)}

    knee = {"kind": "knee", "of": "iteration_time_s", "over": "hb_size", "each": ["gpus"]}
    found = answered(LINES, evaluate=time, answers=[knee])
    said = (
        "Less than 5 % of iteration time is left to gain beyond HB domain 16 GPUs for GPUs 1,024,"
        " 32 GPUs for GPUs 2,048."
    )
    assert said in words(found)
    together = answered(LINES, evaluate=time, answers=[{**knee, "each": []}])
    assert "beyond HB domain 16 to 32 GPUs." in words(together)
    at = {"kind": "range", "of": "iteration_time_s", "where": {"gpus": 1024}}
    # 64 / 8 and 64 / 16
    reach = "With GPUs 1,024, iteration time is 4 to 8 s."
    assert reach in words(answered(LINES, evaluate=time, answers=[at]))


def test_of_what_is_tuned_the_best_counts() -> None:
    # Domains of 64 take least; 2,048 GPUs take half of 1,024.
    best = {"kind": "best", "of": "iteration_time_s", "by": ["gpus"], "tuned": ["hb_size"]}
    worth = {"kind": "worth", "of": "iteration_time_s", "by": ["gpus"], "tuned": ["hb_size"]}
    text = words(answered(LINES, answers=[best, worth]))
    assert "Iteration time is lowest with GPUs 2,048" in text
    assert "GPUs from 1,024 to 2,048: iteration time 50 % lower." in text


def test_a_study_without_answers_is_read_off_all_its_charts() -> None:
    memory = LINES | {"y": "memory_bytes", "series": ["gpus"]}
    text = words(answered(LINES, memory))
    assert "iteration time is left to gain" in text
    assert "emory" in text.split("iteration time is left to gain")[1][:80]


def test_answers_about_what_is_not_there_are_refused() -> None:
    for wrong in (
        {"kind": "best", "of": "iteration_time_s", "by": ["radix"]},
        {"kind": "best", "of": "iteration_time_s"},
        {"kind": "worth", "of": "iteration_time_s", "by": ["gpus", "hb_size"]},
        {"kind": "front", "of": "iteration_time_s", "over": "memory_bytes"},
        {"kind": "knee", "of": "iteration_time_s"},
    ):
        with pytest.raises(RecordError, match=r"answer|needs"):
            answered(LINES, answers=[wrong])


@pytest.mark.parametrize("name", marked(STUDIES.paths()))
def test_shipped_studies_answer_in_short(name: str) -> None:
    answer = shipped(name)
    texts = [one.text for one in answer.sections() if isinstance(one, Paragraph)]
    assert answer.spec.answers
    said = texts[0]
    assert any(sign.isdigit() for sign in said)
    assert 40 < len(said) <= 300
    assert len(re.findall(r"\.(?: |$)", said)) <= 2
    assert "nan" not in said.split()
    assert "{" not in said


def test_an_answer_is_said_in_the_study_s_own_words() -> None:
    # As above: 87.5 % less from 8 to 64 GPUs, and 50 % from 1,024 GPUs to twice as many.
    domain = {"kind": "worth", "of": "iteration_time_s", "by": ["hb_size"], "says": "Domains: {}"}
    cluster = domain | {"by": ["gpus"], "says": "Clusters of twice the size: time {}, as it seems"}
    text = words(answered(LINES, answers=[domain, cluster]))
    assert "Domains: 88 % lower. Clusters of twice the size: time 50 % lower, as it seems." in text
    # The sentence speaks of domains of 128, which are not among these points.
    assert "Domains" not in words(answered(LINES, answers=[domain | {"end": 128}]))
    knee = {"kind": "knee", "of": "iteration_time_s", "over": "hb_size", "says": "Enough: {}"}
    assert "Enough: 64 GPUs." in words(answered(LINES, answers=[knee]))

    def peak(inputs: Inputs) -> Inputs:  # best inside, at 16: no knee, and no such sentence
        return {"iteration_time_s": 1.0 if inputs["hb_size"] == 16 else 2.0}

    text = words(answered(LINES, evaluate=peak, answers=[knee]))
    assert "Iteration time is lowest at HB domain 16 GPUs." in text
    for wrong in ("nothing computed", "{} and {}"):
        with pytest.raises(RecordError, match=r"says needs one \{\}"):
            answered(LINES, answers=[knee | {"says": wrong}])


def test_what_is_compared_is_said_in_percent_or_times() -> None:
    # Domains of 8 to 64 against 8: 1 to 8 times as fast, and of 8 and 16 against 16 half and all.
    relative = {"name": "speed", "of": "iteration_time_s", "to": {"hb_size": 8}}
    reach = {"kind": "range", "of": "speed", "says": "It is {}"}
    found = answered(LINES, relative=[relative], answers=[reach])
    assert "It is 1 to 8 times." in words(found)
    few = ({"input": "hb_size", "values": [8, 16]}, {"input": "gpus", "values": [1024]})
    relative = relative | {"to": {"hb_size": 16}}
    found = answered(LINES, axes=few, relative=[relative], answers=[reach])
    assert "It is 50 to 100 %." in words(found)


def test_leader_turns_where_lines_cross() -> None:
    # a = x rises through b = 2.5; halfway from 2 to 3 both are 2.5.
    lines: Lines = {A: {1: 1.0, 2: 2.0, 3: 3.0}, B: {1: 2.5, 2: 2.5, 3: 2.5}}
    first, second = intervals_of(lines, lower=True)
    assert first.leaders == frozenset((A,))
    assert (first.last, second.first) == (2, 3)
    # 1 is 60 % under 2.5, 2 is 20 %; 2.5 is a sixth under 3.
    assert first.leads == pytest.approx((0.6, 0.2))
    assert second.leads == pytest.approx((1 / 6,))
    assert crossing(lines, first, second) == pytest.approx(2.5)
    assert [one.leaders for one in intervals_of(lines, lower=False)] == [
        frozenset((B,)),
        frozenset((A,)),
    ]


def test_equal_lines_lead_together() -> None:
    lines: Lines = {A: {1: 4.0, 2: 3.0}, B: {1: 4.0, 2: 3.0}, C: {1: 5.0, 2: 6.0}}
    (only,) = intervals_of(lines, lower=True)
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


def test_who_is_best_where_stands_in_the_json_as_data() -> None:
    answer = netplan.study("price-flip")
    spans = answer.to_dict()["decision"]
    assert [(span["winner"], span["kind"]) for span in spans] == [
        ("rail-only", "buy"),
        ("torus-2d", "buy"),
    ]
    # One stretch ends at the point before the next begins, and the cheapest of each point leads.
    points = answer.to_frame()
    over = spans[0]["over"]
    prices = sorted(points[over].unique())
    assert prices.index(spans[1]["first"]) == prices.index(spans[0]["last"]) + 1
    for span in spans:
        at_first = points[(points[over] == span["first"]) & points["cost.base"].notna()]
        assert at_first.loc[at_first["cost.base"].idxmin(), "fabric"] == span["winner"]
