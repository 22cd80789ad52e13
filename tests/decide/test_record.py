"""The record of a decision: margins that its parts sum to, who comes next, what is undecided."""

from math import fsum, inf
from typing import Any

import pytest

import netplan
from netplan.costing.ranges import Range
from netplan.decide.candidates import Candidate
from netplan.decide.record import Decision, beside_the_next
from netplan.procurement.report import procurement

SMALL: dict[str, Any] = {"gpus": 1024, "model": "gpt-22b"}


def candidate(name: str, price: float, time_s: float = inf) -> Candidate:
    """A fabric of a price, timed or not."""
    return Candidate(name, price, True, time_s, None, 0.0)


@pytest.mark.parametrize("scenario", ["hgx-b200", "nvl72-gb200", "rail-only-paper"])
def test_parts_sum_to_the_margin(scenario: str) -> None:
    data = netplan.compare(scenario, **SMALL).to_dict()
    record, prices = data["decision"], {row["fabric"]: row["cost"] for row in data["fabrics"]}
    best = record["winner"] or record["tied"][0]
    margin = prices[record["runner_up"]]["base"] - prices[best]["base"]
    assert record["margin_money"]["base"] == pytest.approx(margin, abs=0.005)
    assert fsum(part["money"] for part in record["difference"]) == pytest.approx(margin, abs=0.005)
    assert record["margin_money"]["low"] <= margin <= record["margin_money"]["high"]


def test_every_question_that_recommends_has_a_record() -> None:
    compared = netplan.compare("hgx-b200", **SMALL).to_dict()
    report = procurement("hgx-b200", **SMALL).to_dict()
    priced = netplan.cost("hgx-b200", gpus=1024).to_dict()
    for data in (compared, report, priced):
        record = data["decision"]
        assert (record["kind"], record["winner"]) == ("buy", "rail-only")
        assert record["runner_up"] in ("rail-optimized", "fat-tree")
        assert record["drivers"][0] == "switches"
        # 1,024 GPUs on 16 leaves of 128 ports for eight rails: a spine of 16 switches is saved.
        assert record["difference"][0]["count"] == 16
    assert report["decision"]["fabric"] == "rail-only"
    assert compared["verdict"]["fabric"] == compared["decision"]["winner"]
    assert [flip["becomes"] for flip in compared["decision"]["flips"]] == [
        compared["decision"]["runner_up"]
    ]


def test_a_front_has_the_next_step_in_its_record() -> None:
    sizes = {"hb_size": (8, 16), "radix": (32, 64)}
    data = netplan.optimize("hgx-h100", gpus=256, model="gpt-22b", batch=256, **sizes).to_dict()
    record, steps, front = data["decision"], data["steps"], data["front"]
    assert record["kind"] == "buy"
    if not steps:
        assert (record["runner_up"], record["next_best_step"]) == (None, None)
        return
    bend = data["knee"] or 0
    step = record["next_best_step"]
    assert step["faster"] == steps[bend]["faster"]
    times = [row["iteration_time_s"] for row in front[bend : bend + 2]]
    assert record["margin_time_share"] == pytest.approx(times[1] / times[0] - 1)


def test_ranges_that_hold_zero_leave_it_open() -> None:
    told = Decision("buy", "lowest cost")
    one = beside_the_next(told, candidate("a", 90.0, 2.0), [candidate("b", 100.0, 3.0)])
    assert (one.kind, one.winner, one.runner_up) == ("buy", "a", "b")
    assert (one.margin_money, one.margin_money_share) == (Range.point(10.0), 0.1)
    assert one.margin_time_share == 0.5
    tie = Decision("buy", "lowest cost", tied=("a", "b"))
    both = beside_the_next(tie, candidate("a", 90.0), [candidate("b", 90.0), candidate("c", 1.0)])
    assert (both.kind, both.winner, both.runner_up) == ("undecided", None, "b")
    alone = beside_the_next(told, candidate("a", 90.0), [])
    assert (alone.kind, alone.runner_up, alone.margin_money) == ("buy", None, None)
