"""Experts that are loaded unevenly, from the command line to the answer."""

import json
from pathlib import Path
from typing import Any

import pytest

import netplan as library
from netplan.errors import NetplanError
from netplan.workloads.expert_load import power_shares, shuffled
from tests.cli.command import netplan, refused

SERVED = ("serving-r1-h200", "--gpus", "32", "--concurrency", "2048", "--fix", "tensor=1")
WIDE = (*SERVED, "--fix", "attention-data=32", "--fix", "expert=32")
TRAINED = ("hgx-h100", "--gpus", "256", "--model", "qwen3-30b-a3b", "--batch", "512")
SKEW = ("--expert-skew", "gini:0.24")
EPLB = ("--expert-placement", "eplb", "--redundant-experts")


def answer(*words: str) -> dict[str, Any]:
    done = netplan(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*WIDE, *SKEW, "--imbalance", "1.2"), "given twice: --imbalance 1.2 and --expert-skew"),
        ((*WIDE, *SKEW, *EPLB, "10"), "266 %"),
        ((*WIDE, "--expert-placement", "eplb"), "--expert-placement eplb means nothing"),
        ((*WIDE, "--redundant-experts", "32"), "--redundant-experts 32 means nothing"),
        ((*WIDE, *SKEW, "--redundant-experts", "32"), "shuffled experts have no copies"),
        ((*WIDE, *SKEW, *EPLB, "-1"), "--redundant-experts -1 is out of range"),
        ((*WIDE, "--expert-skew", "gini:1"), "a Gini coefficient of 1: give 0"),
        ((*WIDE, "--expert-skew", "nothing.csv"), "nothing.csv: cannot be read"),
        ((*SERVED, *SKEW, *EPLB, "1"), "--redundant-experts 2 (with"),
        (("serving-70b-h200", *SKEW), "--expert-skew gini:0.24: llama-3.1-70b is dense"),
        (("serving-70b-h200", "--imbalance", "1.5"), "--imbalance 1.5: llama-3.1-70b is dense"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], message: str) -> None:
    error = refused("serving", *words)
    if message == "266 %":
        message = "the next number that can is --redundant-experts 32"
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*TRAINED, *SKEW, "--imbalance", "1.2"), "given twice: --imbalance 1.2"),
        ((*TRAINED, *SKEW, "--fix", "expert=3"), "the next number that can is"),
        ((*TRAINED, *SKEW, *EPLB, "7"), "the next number that can is --redundant-experts 8"),
        ((*TRAINED, *SKEW, "--iteration-model", "4d"), "iteration model 4d times all experts"),
        (("hgx-h100", "--gpus", "64", *SKEW), "llama-3-405b is dense and has no experts"),
    ],
)
def test_what_training_refuses(words: tuple[str, ...], message: str) -> None:
    assert message in refused("search", *words)


def test_files_are_read_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "shares.csv"
    rows = [f"{expert},{1 / 256}" for expert in range(256)]
    path.write_text("\n".join(["expert,share", *rows]), encoding="utf-8")
    fitted = ("--kernels", "fitted")  # tables hold some skew, where nothing is said
    even = answer("serving", *WIDE, *fitted, "--expert-skew", str(path))["plans"][0]
    alike = answer("serving", *WIDE, *fitted)["plans"][0]
    assert even["tpot_s"] == pytest.approx(alike["tpot_s"])
    path.write_text("\n".join(["expert,share", *rows[1:]]), encoding="utf-8")
    error = refused("serving", *WIDE, "--expert-skew", str(path))
    assert "shares.csv: 255 rows, and the model has 256 experts a layer" in error


def test_a_scenario_says_it_once(tmp_path: Path) -> None:
    scenario = tmp_path / "mine.yaml"
    workload = "kind: serving, model: deepseek-r1, concurrency: 2048"
    fixed = "fixed: {tensor: 1, attention_data: 32, expert: 32}"
    routing = "routing: {expert_skew: 'gini:0.24', expert_placement: eplb, redundant_experts: 32}"
    scenario.write_text(
        "name: mine\ntitle: Mine\nsource: me\ndate: '2026'\n"
        "cluster: {gpus: 32, accelerator: h200}\n"
        f"workload: {{{workload}, {fixed}, {routing}}}\n",
        encoding="utf-8",
    )
    by_file = answer("serving", str(scenario))
    by_flags = answer("serving", *WIDE, *SKEW, *EPLB, "32")
    assert by_file["plans"][0]["tpot_s"] == by_flags["plans"][0]["tpot_s"]
    assert by_file["inputs"]["expert_skew"] == "gini:0.24"
    assert [note for note in by_file["notes"] if "a little uneven already" in note]
    # 1.0072 of the expected values.
    assert "busiest GPU has 1.007 times the mean of rows" in by_file["notes"][-1]


def test_a_line_says_what_published_skew_would_cost() -> None:
    alike = answer("serving", *WIDE)
    assert "expert_skew" not in alike["inputs"]
    (line,) = [note for note in alike["notes"] if "Published skew" in note]
    assert "(Gini at least 0.24, arXiv:2605.20982)" in line
    asked, even = (
        answer("serving", *WIDE, "--expert-skew", skew)["plans"][0]["tokens_per_s"]
        for skew in ("gini:0.24", "gini:0")
    )
    change = 100 * (asked / even - 1)
    assert f"tokens/s {change:.1f} %,".replace("-", "\N{MINUS SIGN}") in line
    assert line.partition("arXiv")[0] in " ".join(netplan("serving", *WIDE).stdout.split())
    alone = answer("serving", *SERVED, "--fix", "attention-data=8", "--fix", "expert=1")
    assert alone["notes"][-1].endswith("costs nothing here: every GPU has a part of each.")
    dense = answer("serving", "serving-70b-h200", "--gpus", "8", "--concurrency", "8")
    before = answer("serving", *WIDE, "--kernels", "fitted")
    assert not [note for note in (*dense["notes"], *before["notes"]) if "skew" in note]


def test_hot_links_carry_what_the_busiest_gpu_has() -> None:
    inputs: dict[str, Any] = {
        "gpus": 32,
        "concurrency": 2048,
        "fixed": {"tensor": 1, "attention-data": 32, "expert": 32},
        "algorithm": "direct",
        "exchange": "deepep",  # gathering sends alike to all
    }
    alike, uneven = (
        library.loads("serving-r1-h200", **inputs, **more)
        for more in ({}, {"expert_skew": "gini:0.24"})
    )
    assert uneven.total_bytes == pytest.approx(alike.total_bytes, rel=1e-12)
    assert 1.05 < uneven.link_loads.busiest_s / alike.link_loads.busiest_s < 1.26
    for cold, hot in zip(alike.collectives, uneven.collectives, strict=True):
        assert hot.data_bytes == cold.data_bytes
        if cold.collective == "all_to_all":
            # 31 of 32 senders, each by the load of the busiest GPU: 1.25866 in the expected values.
            assert hot.busiest_s / cold.busiest_s == pytest.approx(1.25866, rel=1e-3)
            assert 1.1 < hot.analytic_s / cold.analytic_s < 1.25866


def test_a_round_of_uneven_servers_is_longer_by_what_its_closed_form_says() -> None:
    """Beside what copies wait for each other, which a simulated round does not have."""
    even, uneven = (
        answer("simulate", *WIDE, "--exchange", "deepep", "--expert-skew", skew)
        for skew in ("gini:0", "gini:0.24")
    )
    simulated = uneven["iteration_time_s"] - even["iteration_time_s"]
    assert simulated > 0.01 * even["iteration_time_s"]
    assert simulated == pytest.approx(uneven["tpot_s"] - even["tpot_s"], rel=0.15)


def test_training_has_the_busiest_gpu_in_time_memory_and_traffic() -> None:
    fixed = {"tensor": 1, "pipeline": 1, "expert": 32}
    inputs: dict[str, Any] = {"gpus": 256, "model": "qwen3-30b-a3b", "batch": 512, "fixed": fixed}
    even, uneven, packed = (
        library.search("hgx-h100", **inputs, recompute="none", top=1, **more).to_dict()["plans"][0]
        for more in (
            {},
            {"expert_skew": "power:0.5"},
            {"expert_skew": "power:0.5", "expert_placement": "eplb", "redundant_experts": 32},
        )
    )
    # 128 experts on 32 GPUs: many times as much for the busiest, as its rows are.
    imbalance = shuffled(power_shares(0.5, 128), 32).imbalance
    assert uneven["expert_comm_s"] / even["expert_comm_s"] == pytest.approx(imbalance, rel=0.01)
    assert even["iteration_time_s"] < packed["iteration_time_s"] < uneven["iteration_time_s"]
    parts = [plan["memory_parts_bytes"] for plan in (even, uneven, packed)]
    assert parts[0]["activations"] < parts[1]["activations"]
    # Copies have optimizer states, whatever the best ZeRO stage is.
    assert parts[0]["optimizer"] == parts[1]["optimizer"] < parts[2]["optimizer"]
    assert {"published runs balance their routers by force"} & {*uneven["error_reasons"]}


def test_an_imbalance_is_at_most_that_of_all_rows_on_one_gpu() -> None:
    # 128 experts over p GPUs, 8 a token: the busiest GPU has p times the mean at most, and an
    # expert 128 / 8 = 16 times.
    def plan(expert: int, imbalance: float) -> dict[str, Any]:
        fixed = {"tensor": 1, "pipeline": 1, "expert_tensor": 1, "microbatch": 1, "expert": expert}
        given = {"gpus": 64, "model": "qwen3-30b-a3b", "batch": 512, "recompute": "none"}
        found = library.search("hgx-h100", **given, fixed=fixed, imbalance=imbalance)
        best: dict[str, Any] = found.to_dict()["plans"][0]
        return best

    figures = ("iteration_time_s", "memory_parts_bytes")
    for expert in (1, 2):
        most, beyond = plan(expert, float(expert)), plan(expert, 16.0)
        assert [beyond[name] for name in figures] == [most[name] for name in figures]
    less = plan(2, 1.5)
    assert less["iteration_time_s"] < most["iteration_time_s"]
    assert less["memory_parts_bytes"]["activations"] < most["memory_parts_bytes"]["activations"]
    for question in (library.search, library.serving):
        with pytest.raises(NetplanError, match=r"imbalance 16\.1: .* 8 of 128 experts.* 1 to 16$"):
            question("hgx-h100", gpus=64, model="qwen3-30b-a3b", imbalance=16.1)
    with pytest.raises(NetplanError, match=r"imbalance 1\.5: llama-3-8b is dense"):
        library.search("hgx-h100", gpus=64, model="llama-3-8b", imbalance=1.5)
