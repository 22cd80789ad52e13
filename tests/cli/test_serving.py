"""``netplan serving``: one answer in all its forms, wrong input in one line."""

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netplan as library
from tests.cli.command import netplan, refused, replaced

SMALL = (
    *(
        "serving",
        "serving-70b-h200",
        "--model",
        "llama-3-8b",
        "--accelerator",
        "h100-80gb",
        "--gpus",
        "8",
    ),
    *("--prompt", "512", "--output", "64", "--concurrency", "32"),
)
EXPERTS = (
    *(
        "serving",
        "serving-70b-h200",
        "--model",
        "gpt-oss-20b",
        "--accelerator",
        "b200",
        "--gpus",
        "16",
    ),
    *("--prompt", "1024", "--output", "128", "--precision", "fp4", "--disaggregated"),
    *("--ttft-ms", "400", "--tpot-ms", "10", "--top", "2"),
)
CONTRACT = {
    *("rank", "tensor", "pipeline", "expert", "attention_data", "expert_tensor", "replicas"),
    *("gpus_used", "batch", "concurrency", "ttft_s", "ttft_low_s", "ttft_high_s", "tpot_s"),
    *("tpot_low_s", "tpot_high_s", "error_basis", "tokens_per_s", "tokens_per_s_per_gpu"),
    *("tokens_per_s_low", "tokens_per_s_high", "memory_bytes", "binds", "ttft_binds", "queue_s"),
    *("service_level", "breakdown_s", "ttft_breakdown_s", "prefill", "decode", "kv_sent_bytes"),
}


def answer(*words: str) -> dict[str, Any]:
    done = netplan(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_json_has_the_contract() -> None:
    found = answer(*SMALL, "--fix", "tensor=2", "--top", "3")
    assert set(found) == {
        *("netplan_version", "inputs", "space", "service_level", "plans", "front", "notes"),
        *("cost", "cost_per_gpu", "cost_complete", "power_w", "power_complete"),
        *("cost_per_million_tokens", "bill_per_million_tokens", "gpus_per_million_tokens"),
        "tokens_cost_complete",
    }
    assert found["inputs"]["fixed"] == {"tensor": 2}
    for at, row in enumerate(found["plans"], start=1):
        assert row.keys() >= CONTRACT
        assert (row["rank"], row["tensor"], row["concurrency"]) == (at, 2, 32)
        assert row["ttft_low_s"] < row["ttft_s"] < row["ttft_high_s"]
        assert row["tokens_per_s_per_gpu"] == row["tokens_per_s"] / 8
    rates = [row["tokens_per_s"] for row in found["plans"]]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("words", [SMALL, EXPERTS], ids=["one pool", "two pools"])
def test_json_csv_frame_and_library_agree(words: tuple[str, ...]) -> None:
    found = answer(*words)
    options = dict(
        zip(*[iter(word for word in words[2:] if word != "--disaggregated")] * 2, strict=True)
    )
    inputs: dict[str, Any] = {
        name.removeprefix("--").replace("-", "_"): int(value) if value.isdigit() else value
        for name, value in options.items()
    }
    if "--disaggregated" in words:
        inputs["disaggregated"] = True
    asked = library.serving("serving-70b-h200", **inputs)
    told = asked.to_dict()
    told["space"]["seconds"] = found["space"]["seconds"]
    assert json.loads(json.dumps(told)) == found
    frame = asked.to_frame()
    table = [*csv.DictReader(StringIO(netplan(*words, "--format", "csv").stdout))]
    plans = [row for row in table if row["table"] == "plans"]
    assert len(plans) == len(found["plans"]) == len(frame)
    shared = CONTRACT & set(plans[0]) & set(frame.columns)
    assert {"tensor", "ttft_s", "tpot_s", "tokens_per_s", "memory_bytes", "ttft_low_s"} <= shared
    for row, plan, (_, framed) in zip(plans, found["plans"], frame.iterrows(), strict=True):
        for name in shared - {"error_basis"}:
            assert float(row[name]) == plan[name] == framed[name], name
        assert row["serving_binds"] == plan["binds"] == framed["serving_binds"]


def test_forms_and_a_file(tmp_path: Path) -> None:
    marked = netplan(*SMALL, "--format", "markdown").stdout
    assert "| plan | servers " in marked
    page = tmp_path / "front.html"
    assert netplan(*SMALL, "-o", str(page)).returncode == 0
    assert "Throughput over time per token" in page.read_text("utf-8")
    both = netplan(*replaced(SMALL, ("--output", "65")), "-o", str(tmp_path / "a.json"))
    assert (both.returncode, both.stdout) == (0, "")
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["inputs"]["output"] == 65


LONG = (
    "--prompt 131,009 and --output 64 are 131,073 tokens, and the context of llama-3-8b has 131,072"
)
FIXES = "a serving plan fixes tensor, pipeline, expert, attention-data, replicas"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--prompt", "131009"), LONG),
        (("--prompt", "0"), "--prompt 0 is out of range: give a number from 1"),
        (("--output", "0"), "--output 0 is out of range"),
        (("--gpus", "0"), "--gpus 0 is out of range: give a number from 1 to 4,194,304"),
        (("--batch", "4"), "--concurrency and --batch both say how many requests are in flight"),
        (("--concurrency", "0"), "--concurrency 0 is out of range"),
        (("--ttft-ms", "0"), "--ttft-ms 0.0 is out of range: give a number from 0.001 to"),
        (("--ttft-ms", "nan"), "--ttft-ms nan is out of range: give a number from 0.001 to"),
        (("--tpot-ms", "inf"), "--tpot-ms inf is out of range"),
        (("--tpot-ms", "-3"), "--tpot-ms -3.0 is out of range"),
        (("--fix", "context=2"), f"--fix context=2: {FIXES}"),
        (("--fix", "prefill-tensor=2"), f"--fix prefill-tensor=2: {FIXES}, and with --disagg"),
        (("--fix", "tensor=9"), "--fix tensor=9 is out of range: give 1 to 8, the GPUs"),
        (("--fix", "tensor=two"), "--fix 'tensor=two': write NAME=N"),
        (("--fix", "expert=2"), "--fix expert=2: llama-3-8b has no experts"),
        (("--fix", "attention-data=2"), "--fix attention-data=2: llama-3-8b has no experts"),
        (("--fix", "pipeline=33", "--gpus", "64"), "--fix pipeline=33: llama-3-8b has 32 layers"),
        (("--fix", "tensor=3", "--fix", "replicas=3"), "no way to lay llama-3-8b on 8 GPUs"),
        (("--precision", "fp12"), "unknown precision 'fp12': use bf16, fp8, fp4, int4"),
        (("--kv-precision", "fp12"), "unknown precision 'fp12'"),
        (("--kernels", "magic"), "'magic' is not one of 'measured', 'fitted', 'roofline'"),
        (("--stack", "vlm"), "unknown serving-stack 'vlm': did you mean vllm?"),
        (("--fabric", "rail-onyl"), "unknown fabric 'rail-onyl': did you mean rail-only or"),
        (("--model", "lama-3-8b"), "unknown model 'lama-3-8b': did you mean llama-3-8b"),
        (("--model", "vit-64k"), "vit-64k does not generate tokens one by one"),
        (("--model", "dlrm-1.2t"), "a model of family 'recommendation': this question takes"),
        (("--hb-size", "0"), "--hb-size 0 is out of range"),
        (("--window", "4"), "--window needs a model that drafts: give --draft"),
        (("--draft", "llama-68m"), "--draft llama-68m needs --window"),
        (("--acceptance", "1.5"), "--acceptance 1.5 is out of range: give a number from 0 to 1"),
        (("--acceptance", "nan"), "--acceptance nan is out of range"),
        (("--set", "accelerator.memory_byte=1"), "unknown key memory_byte: did you mean memory_"),
        (("--set", "serving-stack.step_s=-1"), "step_s: got -1"),
        (("--gpus", "1", "--disaggregated"), "disaggregated serving takes 2 GPUs at least"),
    ],
)
def test_wrong_input_is_one_line(changes: tuple[str, ...], message: str) -> None:
    error = refused(*replaced(SMALL, changes))
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("apart", [(), ("--disaggregated",)], ids=["one pool", "two pools"])
def test_what_nothing_can_do_names_the_nearest_and_what_binds(apart: tuple[str, ...]) -> None:
    """A time that no plan has; a model that does not fit; one whose cache does not."""
    found = refused(*SMALL, "--tpot-ms", "0.5", *apart)
    assert "no plan of llama-3-8b on 8 GPUs has TPOT of at most 500 µs: the nearest (" in found
    assert "and HBM binds it: ask for less, or give more GPUs" in found
    found = refused(*SMALL, "--ttft-ms", "1", *apart)
    assert "has TTFT of at most 1 ms: the nearest (" in found
    assert "host binds it" in found
    found = refused(*replaced(SMALL, ("--model", "llama-3-405b", "--gpus", "2")), *apart)
    assert "llama-3-405b with 576 tokens a request fits into no plan on 2 GPUs: weights" in found
    long = ("--model", "llama-3-70b", "--gpus", "2", "--prompt", "100000")
    found = refused(*replaced(SMALL, long), *apart)
    # 140 GB of weights; half of them and 16 GB of a cache, or all of them on one GPU.
    one_pool, two_pools = "weights and the cache of one request take", "weights alone take 141 GB"
    assert (two_pools if apart else one_pool) in found


@pytest.mark.parametrize("gpus", [*range(1, 8), 12, 13, 61])
def test_any_number_of_gpus(gpus: int) -> None:
    """Also with experts, in domains of five."""
    for others in ((), ("--model", "gpt-oss-20b", "--hb-size", "5")):
        words = replaced(SMALL, ("--gpus", str(gpus), *others))
        for row in answer(*words)["plans"]:
            stage = row["tensor"] * row["attention_data"]
            assert row["gpus_used"] == stage * row["pipeline"] * row["replicas"] <= gpus
            assert row["expert"] * row["expert_tensor"] == stage


def test_heads_that_divide_nothing_are_padded() -> None:
    """Three GPUs hold 11 of 32 heads and 3 of 8 of keys each: one third and a little more."""
    once = ("--fix", "replicas=1", "--fix", "pipeline=1")
    one, three = (
        answer(*SMALL, "--any-plan", *("--fix", f"tensor={tensor}"), *once) for tensor in (1, 3)
    )
    third = one["plans"][0]["memory_bytes"] / 3
    assert third < three["plans"][0]["memory_bytes"] < 1.1 * third


def test_a_million_gpus_and_a_single_token() -> None:
    (best,) = answer(*replaced(SMALL, ("--gpus", "1048576")), "--top", "1")["plans"]
    assert best["gpus_used"] <= 1_048_576
    (short,) = answer(*replaced(SMALL, ("--prompt", "1", "--output", "1")), "--top", "1")["plans"]
    assert short["tokens_per_s"] == pytest.approx(32 / short["ttft_s"])


def test_set_replaces_what_is_read() -> None:
    slow = answer(*SMALL, "--set", "serving-stack.step_s=1", "--top", "1")
    assert slow["plans"][0]["tpot_s"] > 1
    assert slow["inputs"]["set"] == {"serving-stack.step_s": 1}
    assert np.isclose(slow["plans"][0]["breakdown_s"]["host"], 1, rtol=1e-2)


@pytest.mark.parametrize("kind", ["training", "post-training"])
def test_another_workload_is_refused_in_one_line(kind: str) -> None:
    done = netplan("serving", "serving-70b-h200", "--workload", kind)
    assert done.returncode == 2
    assert f"--workload {kind}: netplan serving is about clusters that serve" in done.stderr
    assert done.stderr.count("\n") == 1
