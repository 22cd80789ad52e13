"""Serving on the network: one plan in every answer, and links that carry what the program sends."""

import re

import pytest

import netplan
from netplan.errors import NetplanError
from netplan.questions.loads import LoadsAnswer
from netplan.questions.served_run import ServedRun
from netplan.questions.serving_answer import ServedPlan
from netplan.questions.traffic import TrafficAnswer
from netplan.traffic.routing import link_loads

DENSE = {"model": "llama-3-70b", "precision": "fp8", "concurrency": 512}
EXPERTS = {"model": "deepseek-r1", "precision": "fp8", "concurrency": 1024}
APART = EXPERTS | {"disaggregated": True, "fixed": {"tensor": 1}}
SPREAD = EXPERTS | {"fixed": {"tensor": 2, "attention-data": 8, "expert": 8}}
ACROSS = DENSE | {"fixed": {"tensor": 16, "pipeline": 2}}
ON = {"gpus": 64, "accelerator": "h200", "prompt": 1024, "output": 512}
CASES = {"dense": DENSE, "experts": EXPERTS, "apart": APART, "spread": SPREAD, "across": ACROSS}


def asked(case: str) -> dict[str, object]:
    return ON | CASES[case]


def served(answer: LoadsAnswer | TrafficAnswer) -> ServedRun:
    assert isinstance(answer.run, ServedRun)
    return answer.run


def best(case: str, **more: object) -> ServedPlan:
    return netplan.serving(**asked(case), **more).best  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
def test_every_answer_has_the_plan_of_serving(case: str) -> None:
    plan = best(case)
    run = asked(case) | {"workload": "serving"}
    for answer in (netplan.training_traffic(**run), netplan.loads(**run)):  # type: ignore[arg-type]
        assert served(answer).plan == plan
        shown = answer.to_dict()
        for name in ("ttft_s", "tpot_s", "tokens_per_s", "tensor", "gpus_used"):
            assert shown[name] == getattr(plan, name)


@pytest.mark.parametrize("fabric", ["rail-optimized", "rail-only", "fat-tree"])
@pytest.mark.parametrize("case", CASES)
def test_no_link_is_faster_than_its_bound_or_slower_than_the_model(case: str, fabric: str) -> None:
    """Collectives alone on full links: bound <= by link <= model."""
    answer = netplan.loads(**asked(case), workload="serving", fabric=fabric)  # type: ignore[arg-type]
    assert answer.collectives or case == "dense"
    for one in answer.collectives:
        assert one.bound_s <= one.analytic_s * (1 + 1e-9), one
        assert one.busiest_s <= one.analytic_s * (1 + 1e-9), one
        assert one.bound_s <= one.busiest_s * (1 + 1e-9), one
    assert answer.link_loads.busiest_s < served(answer).plan.tpot_s


def test_collectives_of_a_round_take_the_network_part_of_a_token() -> None:
    """Of prompts that no decode step contains, the closed form has a wait of its own."""
    answer = netplan.loads(**asked("dense"), workload="serving")  # type: ignore[arg-type]
    run = served(answer)
    rows = 512 / run.plan.replicas
    decode = [one for one in run.collectives() if one.use.data_bytes == 2 * rows * 8192]
    seconds = sum(one.model_s * one.use.times for one in decode)
    assert seconds == pytest.approx(run.plan.breakdown_s["network"])


def test_caches_take_their_links_to_the_pool_that_decodes() -> None:
    answer = netplan.training_traffic(**asked("apart"), workload="serving")  # type: ignore[arg-type]
    run = served(answer)
    assert run.plan.prefill is not None
    caches = answer.matrix.of_kind("cache")
    # A round ends as many requests as the pool decodes tokens, over those of a request.
    ended = run.plan.replicas * run.outcome.running[0] * run.plan.attention_data / 512
    # DeepSeek-R1 stores 576 numbers a layer and token, in one byte each on every tensor GPU.
    assert caches.total_bytes == pytest.approx(ended * 61 * 576 * 1024)
    loads = netplan.loads(**asked("apart"), workload="serving")  # type: ignore[arg-type]
    alone = link_loads(loads.graph, caches)
    assert 0 < alone.busiest_s <= loads.link_loads.busiest_s


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workload": "serving", "strategy": "2d"}, "--strategy 2d means nothing for --workload"),
        ({"workload": "serving", "expert_degree": 8}, "--expert-degree 8 means nothing for"),
        ({"prompt": 100}, "--prompt 100 means nothing for training"),
        ({"disaggregated": True}, "--disaggregated means nothing for training"),
        ({"workload": "serving", "fixed": {"data": 2}}, "--fix data=2: a serving plan fixes"),
        ({"precision": "int4", "iteration_model": "calibrated"}, "precision"),
        ({"workload": "answering"}, "unknown --workload 'answering'"),
        ({"workload": "serving", "prompt": 10**6}, "the context of llama-3.1-70b has"),
    ],
)
def test_inputs_that_mean_nothing_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(NetplanError, match=re.escape(said)) as caught:
        netplan.training_traffic(gpus=64, **given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_inputs_of_training_are_as_they_were() -> None:
    shown = netplan.training_traffic(gpus=64, model="gpt-22b", batch=64, hb_size=8).to_dict()
    assert not {"workload", "prompt", "output", "disaggregated"} & set(shown["inputs"])
    shown = netplan.training_traffic(**asked("dense"), workload="serving").to_dict()  # type: ignore[arg-type]
    assert shown["inputs"]["workload"] == "serving"
    assert not {"iteration_model", "strategy", "zero_stage", "optimizer"} & set(shown["inputs"])
