"""Plans under a rate: mean field and simulation, tiers, prefixes, tokens predicted."""

from pathlib import Path

import numpy as np
import pytest

import netplan
from netplan.answers.serving_answer import ServedLoad, ServingAnswer
from netplan.errors import InfeasibleError, InputError
from netplan.performance.serving.load import plan_steps
from netplan.performance.serving.outcomes import decode_steps, prefills
from netplan.performance.serving.plans import serving_plans
from netplan.performance.serving.tiers import KvTier, read_tiers
from netplan.questions.serving import ServingQuestion
from netplan.scenarios.reading import CatalogReader
from netplan.setup.serving_run import search_servers

HERE = "serving-70b-h200"
TP8 = {"tensor": 8, "pipeline": 1}


def asked(**given: object) -> ServingAnswer:
    return netplan.serving(HERE, fixed=TP8, top=1, **given)


def loaded(**given: object) -> ServedLoad:
    load = asked(**given).load
    assert load is not None
    return load


def test_the_simulation_meets_its_closed_form() -> None:
    answer = asked(rate=20.0)
    load = answer.to_dict()["load"]
    assert load["tpot_s"]["mean"] == pytest.approx(answer.best.tpot_s, rel=0.03)
    assert load["ttft_s"]["mean"] == pytest.approx(answer.best.ttft_s, rel=0.02)
    assert load["in_system"] == pytest.approx(answer.best.concurrency, rel=0.03)
    assert load["little"] == pytest.approx(load["in_system"], rel=1e-12)
    # 20 requests/s of 256 tokens; what was drawn has a rate of its own.
    assert load["tokens_per_s"] == pytest.approx(20 * 256, rel=0.02)
    assert answer.best.tokens_per_s == pytest.approx(20 * 256, rel=1e-9)
    assert load["ttft_s"]["p50"] < load["ttft_s"]["p95"] < load["ttft_s"]["p99"]


def test_the_mean_field_is_that_of_the_block_s_own_numbers() -> None:
    load = asked(rate=8.0).to_dict()["load"]
    batch = load["batch"]
    # t = a / (1 - X (R b + c P)) of one of eight servers, with b at few requests near b of many.
    busy = 1.0 * (256 * batch["request_s"] + batch["prompt_token_s"] * 2048)
    assert load["tpot_s"]["mean"] == pytest.approx(batch["step_s"] / (1 - busy), rel=0.03)


def test_the_same_seed_gives_the_same_numbers_and_another_others() -> None:
    first, again, other = (
        asked(rate=20.0, requests=500, seed=seed).to_dict()["load"] for seed in (3, 3, 4)
    )
    assert first == again
    assert first["ttft_s"] != other["ttft_s"]
    assert first["requests"] == 500


def test_bursts_wait_longer() -> None:
    even, bursts = (
        loaded(rate=60.0, requests=4000, burstiness=shape).simulated.ttft_s.p99
        for shape in (4.0, 0.2)
    )
    assert bursts > 1.3 * even


def test_more_than_the_highest_rate_is_refused_with_it() -> None:
    highest = loaded(rate=1.0, requests=10).highest_rate
    with pytest.raises(InfeasibleError, match=f"{highest:.4g} requests/s is the highest"):
        asked(rate=1.01 * highest)
    assert asked(rate=0.99 * highest, requests=10).best.tokens_per_s == pytest.approx(
        0.99 * highest * 256
    )


def test_the_fewest_gpus_carry_it() -> None:
    # One server carries an eighth of what eight carry.
    whole = loaded(rate=1.0, requests=10, level=False)
    eighth = whole.highest_rate / 8
    assert whole.least_gpus == 8
    assert loaded(rate=2.5 * eighth, requests=10, level=False).least_gpus == 24
    # Within a level each carries less: so many that all eight together just keep it.
    tight = asked(rate=2.5 * eighth, requests=10, tpot_ms=1e3)
    slow_ms = 1.001e3 * tight.best.tpot_s
    assert loaded(rate=2.5 * eighth, requests=10, tpot_ms=slow_ms).least_gpus == 64


def test_a_prefix_leaves_the_rest_of_the_prompt() -> None:
    whole, half = asked(concurrency=8), asked(concurrency=8, prefix_share=0.5)
    assert half.best.ttft_s < whole.best.ttft_s
    question = ServingQuestion.make(HERE, prefix_share=0.5)
    case = search_servers(question, CatalogReader(), question.cluster.fabric).case
    step = case.prompts()
    assert step.tokens == 1024
    # 1,024 queries see 2,048 - 512 keys each in the mean: half of what is handed over as context.
    assert step.context / 2 == 2048 - 512


def test_steps_are_those_of_decode_and_of_whole_chunks() -> None:
    question = ServingQuestion.make(HERE)
    case = search_servers(question, CatalogReader(), question.cluster.fabric).case
    plans = serving_plans(case.served.model, 8, case.served.sizes, TP8)
    steps = plan_steps(case, plans)
    for requests in (1.0, 5.0, 96.0):
        own = decode_steps(case, plans, np.full(1, requests)).step_s
        assert steps.decode_times(np.full(1, requests)) == pytest.approx(own, rel=0.01)
    chunk = prefills(case, plans, np.full(1, 8192 / 2048)).each_s
    assert steps.prompt.each_s == pytest.approx(chunk + case.chunks * case.launch_s)


def test_tiers_load_what_hits_read() -> None:
    tiers = ("host=256:25:0.6", "remote=1000:0.02:0.3")
    answer = asked(rate=10.0, requests=100, prefix_share=0.5, kv_tiers=tiers)
    host, remote = answer.best.kv_tiers
    # 80 layers x 8 heads x 2 x 128 numbers of 2 B, 1,024 tokens.
    stored = 80 * 8 * 2 * 128 * 2 * 1024
    assert host.request_bytes == stored
    assert host.bytes_per_s == pytest.approx(10 * 0.6 * stored, rel=1e-12)
    assert remote.gpu_bytes_per_s == pytest.approx(10 * 0.3 * stored / 64, rel=1e-12)
    assert remote.utilisation == pytest.approx(remote.gpu_bytes_per_s / 0.02e9, rel=1e-12)
    # Eight GPUs read it at 20 MB/s each, beside the rest of the prompt.
    assert host.added_s == 0
    assert 0.7 * stored / 0.16e9 < remote.added_s < stored / 0.16e9
    assert answer.best.ttft_s > 0.3 * remote.added_s
    assert host.prefixes == pytest.approx(64 * 256e9 / stored)


def test_a_request_that_hits_waits_beside_what_is_left_of_its_own_prompt() -> None:
    # However many others miss and compute their whole prompts.
    waits = [
        asked(concurrency=8, prefix_share=0.9, kv_tiers=(f"ssd=1000:0.02:{hit}",))
        .best.kv_tiers[0]
        .added_s
        for hit in (1.0, 0.1)
    ]
    assert waits[0] > 1
    assert waits[1] == pytest.approx(waits[0], rel=1e-12)


def test_a_tier_that_is_read_out_saturates() -> None:
    tiers = ("remote=1000:0.02:1",)
    with pytest.raises(InfeasibleError, match=r"3\.815 requests/s is the highest"):
        asked(rate=20.0, prefix_share=0.5, kv_tiers=tiers)  # 64 x 20e6 / 335.5e6


def test_other_answers_about_the_plan_have_the_same_bytes() -> None:
    given = {"rate": 20.0, "prefix_share": 0.5, "kv_tiers": ("remote=1000:1:0.5",)}
    here = asked(requests=10, **given).best.kv_tiers[0]
    for ask in (netplan.traffic, netplan.loads):
        answer = ask(HERE, fixed=TP8, **given)
        told = answer.to_dict()
        (tier,) = told["plan"]["kv_tiers"] if "plan" in told else told["kv_tiers"]
        assert tier["bytes_per_s"] == here.bytes_per_s
        assert tier["gpu_bytes_per_s"] == here.gpu_bytes_per_s


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (("tape=1:1:1",), "write a tier of hbm, host, ssd, remote"),
        (("host=1:1",), "write a tier"),
        (("host=1:x:1",), "write a tier"),
        (("host=1:nan:1",), "write a tier"),
        (("host=0:1:1",), "above 0"),
        (("host=1:1:1.5",), "from 0 to 1"),
        (("host=1:1:0.2", "host=1:1:0.2"), "given twice"),
        (("host=1:1:0.6", "ssd=1:1:0.6"), "sum to 1.2"),
    ],
)
def test_what_is_no_tier_is_refused(texts: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_tiers(texts)


def test_tiers_come_by_distance() -> None:
    tiers = read_tiers(["remote=1:2:0.1", "hbm=1:3000:0.2"])
    assert [tier.name for tier in tiers] == ["hbm", "remote"]
    assert tiers[1] == KvTier("remote", 1e9, 2e9, 0.1)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rate": 5.0, "concurrency": 8}, "--rate and --concurrency both"),
        ({"rate": 5.0, "batch": 8}, "--rate and --batch both"),
        ({"rate": 5.0, "disaggregated": True}, "--disaggregated is not modelled"),
        ({"burstiness": 0.5}, "--burstiness shapes the gaps of --rate"),
        ({"seed": 2}, "--seed draws arrivals"),
        ({"kv_tiers": ("host=1:1:1",)}, "give --prefix-share, too"),
        ({"prefix_share": 1.0}, "below 1"),
        ({"rate": 5.0, "trace": "x.csv"}, "--trace says it in place of --rate"),
        ({"prompt": 5, "trace": "x.csv"}, "--trace says it in place of --prompt"),
        ({"trace": "no-such.csv"}, "cannot be read"),
        ({"speculation": "mtp"}, "needs --acceptance"),
        ({"speculation": "mtp", "acceptance": 0.5, "window": 2}, "leave out --window"),
        ({"draft_tokens": 2}, "--draft-tokens needs a model that drafts: give --speculation mtp"),
        ({"prefix_share": 0.5, "kv_tiers": ("hbm=127:1:1",)}, "takes all of the 127 GB"),
    ],
)
def test_contradictions_are_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(netplan.errors.NetplanError, match=told):
        asked(**given)


def test_a_trace_is_dealt_to_all_servers(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = "\n".join(f"{0.05 * number},{500 + number},{100 + number}" for number in range(400))
    path.write_text(f"arrival_s,prompt,output\n{rows}\n", "utf-8")
    load = asked(trace=str(path)).to_dict()["load"]
    assert (load["requests"], load["servers"], load["seed"]) == (400, 8, None)
    assert load["rate"] == pytest.approx(20.0)
    assert load["little"] == pytest.approx(load["in_system"], rel=1e-12)
    fewer = asked(trace=str(path), requests=100).to_dict()["load"]
    assert fewer["requests"] == 100
    with pytest.raises(InputError, match="--requests 401 are more than the 400"):
        asked(trace=str(path), requests=401)


def test_layers_that_predict_give_several_tokens_a_step() -> None:
    fixed = {"tensor": 8, "attention_data": 1, "pipeline": 1, "expert": 8}
    given = {"concurrency": 256, "fixed": fixed, "top": 1}
    plan = netplan.serving("serving-r1-h200", **given).best
    drafted = netplan.serving("serving-r1-h200", **given, speculation="mtp", acceptance=0.8).best
    # 1.8 tokens a step, of a step that checks two tokens of each request and drafts one.
    assert plan.tpot_s / 1.8 < drafted.tpot_s < plan.tpot_s
    # A 61st more of the cache, and of the layers' weights.
    assert 1.0 < drafted.memory_bytes / plan.memory_bytes < 1.03


def test_hits_and_misses_are_drawn_request_by_request() -> None:
    # Half the requests hit a tier that 8 GPUs read in seconds; the others compute all of it.
    tiers = ("remote=1000:0.02:0.5",)
    answer = asked(rate=4.0, requests=2000, prefix_share=0.5, kv_tiers=tiers)
    (tier,) = answer.best.kv_tiers
    load = answer.to_dict()["load"]
    assert load["ttft_s"]["p95"] > tier.added_s > 1
    assert load["ttft_s"]["mean"] == pytest.approx(answer.best.ttft_s, rel=0.05)
    assert load["little"] == pytest.approx(load["in_system"], rel=1e-12)
    assert load["closed_form"]["ttft_s"] == answer.best.ttft_s


def test_a_simulation_that_misses_the_level_says_so() -> None:
    # Bursts of 400 requests on average: the closed form knows the mean rate alone.
    given = {"rate": 60.0, "burstiness": 0.0025, "requests": 2000, "ttft_ms": 1000.0}
    answer = asked(**given)
    level = answer.best.service_level
    assert level is not None
    assert level.met
    assert answer.to_dict()["load"]["level_met"] is False
    assert "; simulated, it misses TTFT 1000 ms" in " ".join(answer.text().split())
    assert asked(rate=20.0, requests=100).to_dict()["load"]["level_met"] is True


def test_caches_of_tiers_delay_pools_for_prompts_too() -> None:
    pools = {"disaggregated": True, "concurrency": 32, "prefix_share": 0.5}
    there, far = (
        netplan.serving(HERE, top=1, **pools, kv_tiers=(tier,)).best
        for tier in ("host=256:1000:1", "remote=1000:0.02:1")
    )
    assert far.ttft_s > there.ttft_s + 0.5 * far.kv_tiers[0].added_s
