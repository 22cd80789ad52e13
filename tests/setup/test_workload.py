"""Serving on the network: one plan in every answer, and links that carry what the program sends."""

import re
from collections.abc import Callable

import numpy as np
import pytest

import netplan
from netplan.answers.loads_answer import LoadsAnswer
from netplan.errors import NetplanError
from netplan.questions.traffic import TrafficAnswer
from netplan.setup.served_plan import ServedPlan
from netplan.setup.served_run import ServedRun
from netplan.traffic.routing import link_loads
from netplan.workloads.inference import ServingStep, inference_head

DENSE = {"model": "llama-3-70b", "precision": "fp8", "concurrency": 512}
EXPERTS = {
    "model": "deepseek-r1",
    "precision": "fp8",
    "concurrency": 1024,
    "fixed": {"pipeline": 1},
}
APART = EXPERTS | {"disaggregated": True, "fixed": {"tensor": 1, "pipeline": 1}}
SPREAD = EXPERTS | {
    "fixed": {"tensor": 2, "attention-data": 8, "expert": 8, "pipeline": 1},
    "any_plan": True,
}
ACROSS = DENSE | {"fixed": {"tensor": 16, "pipeline": 2}}
ON = {"gpus": 64, "accelerator": "h200", "prompt": 1024, "output": 512}
WIDE = DENSE | {"fixed": {"tensor": 16, "pipeline": 1}}
CASES = {
    "wide": WIDE,
    "dense": DENSE,
    "experts": EXPERTS,
    "apart": APART,
    "spread": SPREAD,
    "across": ACROSS,
}


def asked(case: str) -> dict[str, object]:
    return ON | CASES[case]


def served(answer: LoadsAnswer | TrafficAnswer) -> ServedRun:
    assert isinstance(answer.run, ServedRun)
    return answer.run


def best(case: str, **more: object) -> ServedPlan:
    return netplan.serving("serving-70b-h200", **asked(case) | more).best


@pytest.mark.parametrize("case", CASES)
def test_every_answer_has_the_plan_of_serving(case: str) -> None:
    plan = best(case)
    run = asked(case) | {"workload": "serving"}
    for answer in (
        netplan.training_traffic("serving-70b-h200", **run),
        netplan.loads("serving-70b-h200", **run),
    ):
        assert served(answer).plan == plan
        shown = answer.to_dict()
        for name in ("ttft_s", "tpot_s", "tokens_per_s", "tensor", "gpus_used"):
            assert shown[name] == getattr(plan, name)


@pytest.mark.parametrize("fabric", ["rail-optimized", "rail-only", "fat-tree"])
@pytest.mark.parametrize("case", CASES)
def test_no_link_is_faster_than_its_bound_or_slower_than_the_model(case: str, fabric: str) -> None:
    """Collectives alone on full links: bound <= by link <= model."""
    answer = netplan.loads("serving-70b-h200", **asked(case), workload="serving", fabric=fabric)
    assert answer.collectives or case == "dense"
    for one in answer.collectives:
        assert one.bound_s <= one.analytic_s * (1 + 1e-9), one
        assert one.busiest_s <= one.analytic_s * (1 + 1e-9), one
        assert one.bound_s <= one.busiest_s * (1 + 1e-9), one
    assert answer.link_loads.busiest_s < served(answer).plan.tpot_s


@pytest.mark.parametrize("fabric", ["torus-2d", "torus-3d", "rail-only"])
def test_a_domain_that_is_not_full_serves(fabric: str) -> None:
    run = {"gpus": 20, "accelerator": "h200", "model": "llama-3.1-8b", "fixed": {"tensor": 16}}
    answer = netplan.loads(
        "serving-70b-h200", **run, workload="serving", concurrency=8, fabric=fabric, routing="ecmp"
    )
    (one,) = answer.collectives[:1]
    assert 0 < one.bound_s <= one.busiest_s
    assert answer.graph.gpus == 20


def test_collectives_of_a_round_take_the_network_part_of_a_token() -> None:
    """Of prompts that no decode step contains, the closed form has a wait of its own."""
    answer = netplan.loads("serving-70b-h200", **asked("dense"), workload="serving")
    run = served(answer)
    rows = 512 / run.plan.replicas
    decode = [one for one in run.collectives() if one.use.data_bytes == 2 * rows * 8192]
    seconds = sum(one.model_s * one.use.times for one in decode)
    assert seconds == pytest.approx(run.plan.breakdown_s["network"])


def test_caches_take_their_links_to_the_pool_that_decodes() -> None:
    answer = netplan.training_traffic("serving-70b-h200", **asked("apart"), workload="serving")
    run = served(answer)
    assert run.plan.prefill is not None
    caches = answer.matrix.of_kind("cache")
    # A round ends as many requests as the pool decodes tokens, over those of a request.
    ended = run.plan.replicas * run.servers.outcome.in_flight[0] * run.plan.attention_data / 512
    # DeepSeek-R1 stores 576 numbers a layer and token, in one byte each on every tensor GPU.
    assert caches.total_bytes == pytest.approx(ended * 61 * 576 * 1024)
    loads = netplan.loads("serving-70b-h200", **asked("apart"), workload="serving")
    alone = link_loads(loads.graph, caches)
    assert 0 < alone.busiest_s <= loads.link_loads.busiest_s


@pytest.mark.parametrize("case", ["across", "apart"])
def test_fabrics_side_by_side_serve_as_each_alone(case: str) -> None:
    names = ("rail-only", "dragonfly", "torus-3d")
    run = asked(case) | {"gpus": 128, "workload": "serving", "prices": "2026"}
    answer = netplan.compare("serving-70b-h200", **run, fabrics=names)
    alone = {name: best(case, gpus=128, fabric=name) for name in names}
    shown = {row["fabric"]: row for row in answer.to_dict()["fabrics"]}
    for row in answer.rows:
        assert row.served is not None
        assert row.served.plan == alone[row.name]
        for name in ("tokens_per_s", "ttft_s", "tpot_s", "tokens_per_s_per_gpu"):
            assert shown[row.name][name] == getattr(alone[row.name], name)
    assert answer.verdict is not None
    costs = {name: shown[name]["cost_per_million_tokens"] for name in names}
    sold = {row.name for row in answer.rows if row.sold}  # what nobody sells never wins
    known = {name: cost["base"] for name, cost in costs.items() if cost and name in sold}
    assert answer.verdict.fabric == min(known, key=known.__getitem__)


def test_a_million_tokens_cost_their_share_of_bill_and_hours() -> None:
    """By hand: a year's annuity and energy, and GPU hours, for 10^6 / (tokens/s) seconds."""
    run = asked("across") | {"gpus": 128, "workload": "serving", "prices": "2026"}
    answer = netplan.cost("serving-70b-h200", **run, fabrics=("rail-only",))
    (row,), (bill,) = answer.served, answer.bills
    assert row.served.cost is not None
    seconds = 1e6 / row.served.plan.tokens_per_s
    share = bill.life.per_year.base * seconds / (365 * 24 * 3600)
    hours = 3.25 * 128 * seconds / 3600  # the price of an H200 hour in economics 2026
    assert row.served.cost.network.base == pytest.approx(share)
    assert row.served.cost.total.base == pytest.approx(share + hours)
    shown = answer.to_dict()["fabrics"][0]
    compared = netplan.compare("serving-70b-h200", **run, fabrics=("rail-only",)).to_dict()[
        "fabrics"
    ][0]
    for name in ("cost_per_million_tokens", "bill_per_million_tokens", "tokens_per_s"):
        assert shown[name] == compared[name]


def test_accelerators_on_the_bill_cost_no_hours_besides() -> None:
    run = asked("across") | {"gpus": 128, "accelerator": "h100-80gb", "workload": "serving"}
    bought, rented = (
        netplan.cost(
            "serving-70b-h200", **run, prices="2026", fabrics=("rail-only",), networks=networks
        )
        for networks in (("accelerators",), ())
    )
    (one,), (other,) = (answer.served for answer in (bought, rented))
    assert one.served.cost is not None
    assert other.served.cost is not None
    assert other.served.cost.gpus.base > 0
    unpriced = {line.part for line in bought.bills[0].quote.unpriced}
    assert (one.served.cost.gpus.base == 0) == ("accelerator" not in unpriced)


def test_less_network_serves_no_cheaper() -> None:
    """Of one fabric at full and at half the rate, of plans across domains."""
    run = asked("across") | {"gpus": 128, "workload": "serving", "fabrics": ("rail-only",)}
    full, half = (
        netplan.compare(
            "serving-70b-h200",
            **run,
            overrides={"accelerator.network_bytes_per_s": rate},
            prices="rail-only-2023",
        )
        .rows[0]
        .served
        for rate in ("50e9", "25e9")
    )
    assert full is not None
    assert half is not None
    assert half.plan.tokens_per_s < full.plan.tokens_per_s
    assert half.plan.tpot_s > full.plan.tpot_s


@pytest.mark.parametrize("question", [netplan.compare, netplan.cost])
def test_bills_of_training_refuse_what_serving_takes(question: Callable[..., object]) -> None:
    with pytest.raises(NetplanError, match="--concurrency 8 means nothing for training"):
        question("rail-only-paper", gpus=64, concurrency=8)


@pytest.mark.parametrize("name", ["rule", "tokens", "within", "expanded_memories"])
def test_comparisons_of_servers_have_no_runs(name: str) -> None:
    values = {"rule": "price", "tokens": 1e9, "within": 0.1, "expanded_memories": ("none",)}
    with pytest.raises(NetplanError, match="means nothing for --workload serving"):
        netplan.compare(
            "serving-70b-h200",
            gpus=64,
            workload="serving",
            **{name: values[name]},
            prices="rail-only-2023",
        )


@pytest.mark.parametrize("fabric", ["rail-optimized", "rail-only", "fat-tree"])
@pytest.mark.parametrize("case", ["dense", "experts", "spread", "wide", "apart"])
def test_a_round_of_one_stage_takes_its_closed_form(case: str, fabric: str) -> None:
    """Within a billionth, which is what whole ticks are off by: nothing waits for a link."""
    answer = netplan.simulate("serving-70b-h200", **asked(case), workload="serving", fabric=fabric)
    plan = best(case, fabric=fabric)
    assert plan.pipeline == 1
    assert answer.served == plan
    assert answer.found.analytic_time_s == plan.tpot_s
    assert answer.found.iteration_time_s == pytest.approx(plan.tpot_s, rel=1e-9)
    assert answer.found.lower_bound_s <= answer.found.iteration_time_s * (1 + 1e-9)
    assert answer.to_dict()["tpot_s"] == plan.tpot_s


@pytest.mark.parametrize(("pipeline", "concurrency"), [(2, 512), (4, 512), (8, 512), (4, 8)])
def test_rounds_of_pipelines_take_their_closed_form_but_for_the_head(
    pipeline: int, concurrency: int
) -> None:
    """The closed form has p times the fullest stage, which has the head; prompts once of it.

    Fewer requests than stages take one pass in both, and tokens go back to the first stage.
    """
    run = asked("dense") | {
        "concurrency": concurrency,
        "fixed": {"tensor": 2, "pipeline": pipeline},
    }
    found = netplan.simulate("serving-70b-h200", **run, workload="serving").found
    placed = served(netplan.loads("serving-70b-h200", **run, workload="serving"))
    servers = placed.servers
    case, plan, running = servers.case, servers.outcome.plans, float(servers.outcome.in_flight[0])

    def head_s(step: ServingStep) -> float:
        head = inference_head(case.served.model, plan.cut, step)
        return float(np.ravel(case.served.kernels.time(head, 1.0).seconds)[0])

    together = min(4096 / 1024, running)
    prompts = (running - 1) / 512 / together
    more_s = (pipeline - 1) * head_s(case.decodes(max(running / pipeline, 1.0)))
    more_s += (1 - 1 / pipeline) * prompts * head_s(case.prompts(together))
    assert found.analytic_time_s is not None
    least_s = found.analytic_time_s - (more_s if running >= pipeline else 0.0)
    # Microbatches that go round wait for each other at the head, for 0.04 % at most; a hop has less
    # than 0.06 %.
    assert least_s * (1 - 1e-9) <= found.iteration_time_s <= least_s * (1 + 6e-4)
    for stage in found.stages:
        parts = stage.compute_s, stage.communication_s, stage.waiting_s, stage.idle_s
        assert sum(parts) == pytest.approx(found.iteration_time_s, rel=1e-6)


def test_slow_links_make_rounds_longer_by_what_they_carry() -> None:
    """At half their rate the host links take their busy time once more."""
    run = asked("across") | {"fixed": {"tensor": 16}, "workload": "serving"}
    slow = netplan.simulate("serving-70b-h200", **run, slow=("host=0.5",)).found
    (host,) = (
        one
        for one in netplan.simulate("serving-70b-h200", **run).found.groups
        if one.group == "host"
    )
    assert slow.intact_time_s is not None
    assert slow.iteration_time_s > slow.intact_time_s
    assert slow.iteration_time_s <= slow.intact_time_s + host.busy_s * (1 + 1e-6)


@pytest.mark.parametrize("name", ["jobs", "inference", "placement", "groups", "full"])
def test_rounds_take_no_inputs_of_iterations(name: str) -> None:
    values: dict[str, object] = {"jobs": "x.yaml", "placement": "line", "groups": "strided"}
    with pytest.raises(NetplanError, match="means nothing for --workload serving"):
        netplan.simulate(
            "serving-70b-h200", gpus=64, workload="serving", **{name: values.get(name, True)}
        )


def test_drafts_have_no_round() -> None:
    drafted = {"draft": "llama-3.1-8b", "window": 4, "acceptance": 0.7}
    with pytest.raises(NetplanError, match=r"--draft .* means nothing for a round"):
        netplan.loads("serving-70b-h200", gpus=64, workload="serving", **drafted)


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
        ({"workload": "serving", "prompt": 10**6}, "the context of deepseek-r1 has"),
    ],
)
def test_inputs_that_mean_nothing_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(NetplanError, match=re.escape(said)) as caught:
        netplan.training_traffic(gpus=64, **given)
    assert "\n" not in str(caught.value)


def test_inputs_of_training_are_as_they_were() -> None:
    shown = netplan.training_traffic(
        "rail-only-paper", gpus=64, model="gpt-22b", batch=64, hb_size=8
    ).to_dict()
    assert not {"workload", "prompt", "output", "disaggregated"} & set(shown["inputs"])
    shown = netplan.training_traffic(
        "serving-70b-h200", **asked("dense"), workload="serving"
    ).to_dict()
    assert shown["inputs"]["workload"] == "serving"
    assert not {"iteration_model", "strategy", "zero_stage", "optimizer"} & set(shown["inputs"])


HOSTILE = [
    ({"ttft_ms": float("inf")}, "--ttft-ms inf is out of range: give a number from 0.001 to"),
    ({"tpot_ms": float("nan")}, "--tpot-ms nan is out of range: give a number from 0.001 to"),
    ({"tpot_ms": 1e-308}, "--tpot-ms 1e-308 is out of range: give a number from 0.001 to"),
    ({"prompt": 0}, "--prompt 0 is out of range: give a number from 1"),
    ({"acceptance": 5}, r"--acceptance 5(\.0)? is out of range: give a number from 0 to 1"),
    ({"prompt": 10**9}, "the context of llama-3-70b has"),
    ({"fixed": {"data": 4}}, "--fix data=4: a serving plan fixes tensor, pipeline"),
    ({"batch": 1}, "--concurrency and --batch both say"),
    ({"kv_precision": ""}, "unknown precision '': use bf16"),
]


@pytest.mark.parametrize(("wrong", "words"), HOSTILE, ids=str)
def test_wrong_input_is_refused_alike_alone_and_side_by_side(
    wrong: dict[str, object], words: str
) -> None:
    run = asked("dense") | wrong
    with pytest.raises(NetplanError, match=words):
        netplan.serving("serving-70b-h200", **run)
    with pytest.raises(NetplanError, match=words):
        netplan.compare("serving-70b-h200", **run, workload="serving", prices="rail-only-2023")
    with pytest.raises(NetplanError, match=words):
        netplan.cost("serving-70b-h200", **run, workload="serving", prices="rail-only-2023")
