"""What answers say about leaves that block: times, bounds, and what a bad placement costs."""

import json
from random import Random
from typing import Any

import pytest

from netplan.questions.compare import compare
from netplan.questions.faults import faults
from netplan.questions.loads import loads
from netplan.questions.search import search
from netplan.questions.traffic import training_traffic
from tests.oracles import fourd
from tests.oracles.fourd_inputs import Model as OracleModel
from tests.oracles.fourd_inputs import Plan as OraclePlan
from tests.oracles.fourd_inputs import Split, System

ON: dict[str, Any] = {"radix": 64, "accelerator": "h100-80gb"}
SCATTERED = "were the HB domains scattered"


@pytest.mark.parametrize("name", ["rail-optimized", "fat-tree", "rail-only"])
@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0])
def test_model_link_and_bound_agree(name: str, ratio: float) -> None:
    answer = loads("rail-only-paper", gpus=2048, fabric=name, oversubscription=ratio, **ON)
    share = 0.7  # of the bandwidth, which the 4D model gives to messages
    assert answer.collectives
    for one in answer.collectives:
        assert one.bound_s <= one.busiest_s * (1 + 1e-9)
        assert share * one.analytic_s == pytest.approx(one.busiest_s, rel=0.01)
    told = [note for note in answer.notes if SCATTERED in note]
    assert len(told) == (ratio > 1)


def test_scattered_domains_take_what_everything_took_at_the_thin_rate() -> None:
    # Leaves of 42 down and 22 up: the 41.913 s of a network at 22/42 of the port rate.
    best = search("rail-only-paper", gpus=2048, fabric="fat-tree", oversubscription=2.0, **ON)
    (told,) = [note for note in best.notes if SCATTERED in note]
    assert "41.91 s an iteration, 0.9 % more" in told
    assert best.found.plans[0].iteration_time_s == pytest.approx(41.556, rel=1e-3)


def test_compare_tells_fat_tree_and_rails_apart() -> None:
    answer = compare(
        "rail-only-paper",
        gpus=8192,
        oversubscription=4.0,
        fabrics=("fat-tree", "rail-optimized"),
        **ON,
    )
    tree, rails = answer.rows
    assert tree.time_s > 1.03 * rails.time_s
    assert all(any(SCATTERED in note for note in row.notes) for row in answer.rows)
    data = answer.to_dict()
    assert data == json.loads(json.dumps(data))
    leaves = data["fabrics"][0]["levels"][1]["tiers"][0]
    # 162 leaves of 51 hosts, 13 links up.
    assert (leaves["groups"], leaves["links_per_group"]) == (162, 13)
    assert leaves["oversubscription"] == pytest.approx(51 / 13)
    even = compare("rail-only-paper", gpus=8192, fabrics=("fat-tree",), **ON)
    assert not any(SCATTERED in note for note in even.rows[0].notes)
    assert even.to_dict()["fabrics"][0]["levels"][1]["tiers"] == []


@pytest.mark.parametrize("seed", range(6))
def test_all_questions_tell_of_the_same_plan(seed: int) -> None:
    """compare, faults, loads and traffic: iteration time, GPUs used, plan."""
    rng = Random(seed)  # noqa: S311 - a test
    fabric = rng.choice(("rail-optimized", "rail-only", "fat-tree", "dragonfly", "uneven-clos"))
    asked: dict[str, Any] = {
        "gpus": rng.randint(64, 300),
        "radix": rng.choice((16, 32)),
        "hb_size": rng.choice((1, 4, 8)),
        "model": "gpt-22b",
        "batch": rng.choice((64, 100, 512)),
        "accelerator": "h100-80gb",
        "oversubscription": rng.choice((None, 2.0)),
        "iteration_model": rng.choice(("4d", "ptd-p")),
    }
    answers = [
        compare("rail-only-paper", **asked, fabrics=(fabric,)).to_dict()["fabrics"][0],
        faults("rail-only-paper", **asked, fabrics=(fabric,), years=1).to_dict()["fabrics"][0],
        loads("rail-only-paper", **asked, fabric=fabric).to_dict(),
        training_traffic("rail-only-paper", **asked, fabric=fabric).to_dict(),
    ]
    keys = ("iteration_time_s", "gpus_used", "plan")
    told = [{key: one[key] for key in keys} for one in answers]
    assert told == told[:1] * 4
    assert told[0]["plan"]
    if asked["iteration_model"] == "4d" and len(told[0]["plan"]["levels"]) == 2:
        assert told[0]["iteration_time_s"] == pytest.approx(
            oracle_s(told[0]["plan"], asked["hb_size"]),
            rel=0.01 if asked["oversubscription"] else 1e-9,
        )


def oracle_s(plan: dict[str, Any], hb_size: int) -> float:
    """An iteration of GPT-22B by this plan on H100s, by the scalar oracle: two tiers, all rates."""
    model = OracleModel("gpt-22b", sequence=2048, embedding=6144, heads=64, depth=48)
    h100 = System("H100", 989.4, 133.8, 3350.0, 80.0, 450.0, 50.0, domain=hb_size)
    inside = plan["hb"]
    split = Split("1d", plan["microbatch"], plan["tensor"], 1, inside["tensor"], 1)
    degrees = (plan["pipeline"], plan["data"], inside["pipeline"], inside["data"])
    placed = OraclePlan(split, *degrees, plan["microbatches"])
    return fourd.evaluate(model, h100, placed).times.iteration_s


def test_a_bad_placement_that_costs_nothing_is_said_in_words() -> None:
    # Pipelines of one stage a leaf: what crosses is as much either way.
    answer = compare(
        "rail-only-paper",
        gpus=16384,
        radix=64,
        hb_size=128,
        oversubscription=3.0,
        fabrics=("fat-tree",),
    )
    (told,) = [note for note in answer.rows[0].notes if SCATTERED in note]
    assert told.endswith("this plan would take as long.")
