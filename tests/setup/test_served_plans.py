"""Plans that engines run, the level of a plan where none is asked for, and what it costs."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.answers.served_price import ServedPrice
from netplan.answers.serving_answer import ServingAnswer
from netplan.errors import InfeasibleError, InputError
from netplan.performance.serving.plans import (
    RULES,
    Runnable,
    ServingPlans,
    engine_degrees,
    serving_plans,
)
from netplan.reports.schema import plain_data
from netplan.workloads.models import MODELS

GOLDEN = Path(__file__).parents[1] / "golden" / "serving_before.json"
BEFORE = json.loads(GOLDEN.read_text(encoding="utf-8"))
R1 = "serving-r1-h200"


def runnable(engine: str, node: int = 8, stages: frozenset[int] = frozenset({1})) -> Runnable:
    return Runnable(engine, engine_degrees(engine), MODELS.load("deepseek-r1"), node, stages)


def allowed(engine: str, plan: tuple[int, int, int], node: int) -> bool:
    """What the table says in words, written once more: tensor, attention-data, expert."""
    tensor, copies, expert = plan
    stage = tensor * copies
    if 128 % tensor or 256 % expert or 2048 % (stage // expert):
        return False
    if engine == "vllm":
        return expert in (1, stage)
    if engine == "sglang":
        return stage in [2**bit for bit in range(20) if 2**bit <= node] or stage % node == 0
    return copies == 1 or tensor == 1


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("node", [8, 72])
def test_plans_of_an_engine_are_those_that_its_rules_say(engine: str, node: int) -> None:
    """Brute force: every plan of 144 GPUs that the rules allow, and no other, in one stage."""
    model = MODELS.load("deepseek-r1")
    sizes = (node, 144 // node)
    every = serving_plans(model, 144, sizes, {"pipeline": 1})
    rows = zip(every.tensor, every.attention_data, every.expert, strict=True)
    told = {row for row in rows if allowed(engine, row, node)}
    plans = serving_plans(model, 144, sizes, {}, runnable(engine, node))
    found = list(zip(plans.tensor, plans.attention_data, plans.expert, strict=True))
    assert set(found) == told
    assert len(found) == len(told) < every.count
    assert set(plans.pipeline.tolist()) == {1}


@settings(max_examples=30, deadline=None)
@given(
    tensor=st.sampled_from([1, 2, 3, 4, 6, 8, 16]),
    copies=st.sampled_from([1, 2, 3, 4, 6, 8, 9, 16]),
    data=st.data(),
)
def test_a_rule_looks_at_each_plan_alone(tensor: int, copies: int, data: st.DataObject) -> None:
    stage = tensor * copies
    divisors = [number for number in range(1, stage + 1) if stage % number == 0]
    expert = data.draw(st.sampled_from(divisors))
    plan = ServingPlans(*(np.array([degree]) for degree in (tensor, copies, expert, 1, 1)))
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        runs = bool(runnable(engine).runs(plan)[0])
        assert runs == allowed(engine, (tensor, copies, expert), 8)


def test_every_rule_of_the_table_has_a_source_and_is_known() -> None:
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        rows = engine_degrees(engine)
        assert {row.degree for row in rows} == {"tensor", "attention-data", "expert", "pipeline"}
        assert all(row.source and row.mark in "SKR" and row.rule in RULES for row in rows)


def test_stages_are_one_or_the_domains_that_weights_need() -> None:
    """R1 in fp8 has 672 GB: two domains of eight H100 of 80 GB at 0.9, one of H200."""
    small = netplan.serving(R1, gpus=32, accelerator="h100-80gb", level=False, top=100)
    assert {plan.pipeline for plan in small.plans} == {1, 2}
    large = netplan.serving(R1, gpus=32, level=False, top=100)
    assert {plan.pipeline for plan in large.plans} == {1}
    fixed = netplan.serving(R1, gpus=32, level=False, fixed={"pipeline": 3, "tensor": 8})
    assert fixed.best.pipeline == 3


@pytest.mark.parametrize(
    ("stack", "fixed", "said"),
    [
        ("typical-server", {"tensor": 8, "attention-data": 2, "expert": 4}, "what vllm does"),
        ("vllm", {"tensor": 3}, "tensor degrees are a divisor of the query heads .*vllm/config"),
        ("sglang", {"tensor": 2, "attention-data": 6}, "power of two"),
        ("tensorrt-llm", {"tensor": 2, "attention-data": 4}, "1 or the whole server"),
    ],
)
def test_a_plan_that_the_stack_cannot_run_is_refused(
    stack: str, fixed: dict[str, int], said: str
) -> None:
    asked: dict[str, Any] = {"gpus": 32, "stack": stack, "fixed": fixed, "concurrency": 64}
    with pytest.raises(InputError, match=said) as refused:
        netplan.serving(R1, **asked)
    assert "--any-plan" in str(refused.value)
    assert "\n" not in str(refused.value)
    best = netplan.serving(R1, **asked, any_plan=True).best
    assert all(getattr(best, name.replace("-", "_")) == fixed[name] for name in fixed)


def test_sglang_shares_experts_over_the_whole_server_by_deepep() -> None:
    asked: dict[str, Any] = {"gpus": 32, "stack": "sglang", "concurrency": 64}
    fixed = {"tensor": 8, "attention-data": 1, "expert": 4}
    assert netplan.serving(R1, **asked, fixed=fixed).best.expert == 4
    with pytest.raises(InputError, match="expert with deepep degrees are tensor x attention-data"):
        netplan.serving(R1, **asked, fixed=fixed, exchange="deepep")


def test_pools_are_plans_that_the_engine_runs() -> None:
    answer = netplan.serving(R1, gpus=32, stack="vllm", disaggregated=True, top=20)
    for plan in answer.plans:
        assert plan.prefill is not None
        for pool in (plan.prefill, plan):
            assert pool.expert in (1, pool.tensor * pool.attention_data)
            assert pool.pipeline == 1
    fixed = {"prefill-tensor": 4, "prefill-attention-data": 2, "prefill-expert": 2}
    with pytest.raises(InputError, match="expert degrees"):
        netplan.serving(R1, gpus=32, stack="vllm", disaggregated=True, fixed=fixed)


@pytest.mark.parametrize("row", BEFORE, ids=lambda row: f"{row['scenario']} {row['given']}")
def test_any_plan_without_a_level_is_the_search_of_before(row: dict[str, Any]) -> None:
    """Answers of commit e8611a9d, by the kernels of then."""
    level = {} if "tpot_ms" in row["given"] else {"level": False}
    answer = netplan.serving(
        row["scenario"], **row["given"], **level, any_plan=True, kernels="fitted", top=3
    ).to_dict()
    space = answer["space"]
    assert (space["enumerated"], space["feasible"]) == (row["enumerated"], row["feasible"])
    assert len(answer["front"]) == row["front"]
    for plan, before in zip(answer["plans"], row["plans"], strict=True):
        pools = before.pop("prefill")
        assert {name: plan[name] for name in before} == pytest.approx(before, rel=1e-9)
        assert pools is None or {name: plan["prefill"][name] for name in pools} == pools


@cache
def served(**asked: Any) -> ServingAnswer:  # noqa: ANN401 - inputs of any type
    return netplan.serving("serving-70b-h200", gpus=16, precision="fp8", **asked)


def test_the_usual_level_holds_where_none_is_given() -> None:
    usual, free = served(), served(level=False)
    assert usual.to_dict()["service_level"] == {
        "ttft_s": 2.0,
        "tpot_s": 0.05,
        "source": "default",
        "met": True,
    }
    assert usual.best.ttft_s <= 2
    assert usual.best.tpot_s <= 0.05
    given = served(ttft_ms=2000, tpot_ms=50)
    assert given.best.shape == usual.best.shape
    assert given.to_dict()["service_level"]["source"] == "given"
    assert free.to_dict()["service_level"] is None
    assert free.best.tokens_per_s > usual.best.tokens_per_s
    assert "the default" in usual.text()


def test_a_level_that_is_given_replaces_the_usual_one_whole() -> None:
    assert served(tpot_ms=100).to_dict()["service_level"] == {
        "ttft_s": None,
        "tpot_s": 0.1,
        "source": "given",
        "met": True,
    }


def test_where_no_plan_keeps_the_usual_level_the_nearest_answers() -> None:
    """Of all plans in all numbers of requests, that with the least of max(TTFT/2 s, TPOT/50 ms)."""
    long = {"prompt": 120_000, "output": 100}
    answer = served(**long)
    assert answer.to_dict()["service_level"]["met"] is False
    assert answer.found.feasible == 0
    every = served(**long, level=False, top=1000)
    over = min(max(plan.ttft_s / 2, plan.tpot_s / 0.05) for plan in every.front + every.plans)
    assert max(answer.best.ttft_s / 2, answer.best.tpot_s / 0.05) <= over
    assert "No plan keeps TTFT" in answer.text()
    with pytest.raises(InfeasibleError, match="no plan of"):
        served(**long, ttft_ms=2000, tpot_ms=50)


def test_a_whole_plan_with_its_requests_is_told_whatever_its_times() -> None:
    whole = {"fixed": {"tensor": 4, "pipeline": 1}, "concurrency": 4096}
    for level in ({}, {"ttft_ms": 1, "tpot_ms": 1}):
        answer = served(**level, concurrency=4096, fixed=frozen(whole["fixed"]))
        assert answer.to_dict()["service_level"]["met"] is False
        assert (answer.best.tensor, answer.best.concurrency) == (4, 4096)


def frozen(fixed: object) -> Any:  # noqa: ANN401 - texts, which a cache can hold
    return tuple(f"{name}={value}" for name, value in dict(fixed).items())  # type: ignore[call-overload]


def test_a_scenario_file_says_both(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (
        "name: mine\ncluster: {gpus: 16, accelerator: h200, radix: 64}\nworkload: {kind: serving,"
        " model: llama-3.1-70b, precision: fp8, prompt: 2048, output: 256, level: false,"
        " any_plan: true}\n"
    )
    path.write_text(text, encoding="utf-8")
    answer = netplan.serving(path)
    assert answer.to_dict()["service_level"] is None
    assert {plan.pipeline for plan in answer.front} != {1}
    assert netplan.serving(path, tpot_ms=100).to_dict()["service_level"]["source"] == "given"
    with pytest.raises(InputError, match="--no-level means nothing"):
        netplan.serving(R1, level=False, tpot_ms=50)


@pytest.mark.parametrize("fabric", ["rail-only", "fat-tree"])
def test_prices_are_those_of_compare_and_cost(fabric: str) -> None:
    mine = netplan.serving(R1, gpus=64, fabric=fabric).to_dict()
    (row,) = netplan.compare(R1, gpus=64, fabrics=fabric).to_dict()["fabrics"]
    names = (
        *("cost", "cost_per_gpu", "cost_complete", "power_w", "power_complete"),
        *("cost_per_million_tokens", "bill_per_million_tokens", "gpus_per_million_tokens"),
        *("tokens_cost_complete", "service_level", "tokens_per_s"),
    )
    plan = mine["plans"][0]
    for name in names:
        assert (mine[name] if name in mine else plan[name]) == row[name]
    bill = netplan.cost(R1, gpus=64, fabrics=fabric).to_dict()["fabrics"][0]
    assert mine["cost_per_million_tokens"] == bill["cost_per_million_tokens"]


def test_compare_says_why_nothing_serves() -> None:
    screen = str(netplan.compare("serving-70b-h200", gpus=16, rate=1e3))
    assert "\nNot served: a rate of 1000 requests/s saturates" in screen


def test_prices_follow_books_and_say_what_is_missing() -> None:
    dear = netplan.serving(R1, gpus=64, gpu_hour=10.0).to_dict()
    cheap = netplan.serving(R1, gpus=64, gpu_hour=5.0).to_dict()
    name = "gpus_per_million_tokens"
    assert dear[name]["base"] == pytest.approx(2 * cheap[name]["base"])
    bare = ServedPrice("USD", why="it has no ports")
    assert bare.words == "No price: it has no ports."
    assert set(plain_data(bare).values()) == {None}
    assert plain_data(bare).keys() == cheap.keys() & plain_data(bare).keys()
