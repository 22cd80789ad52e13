"""Studies of serving: plans, drafts, pools and topologies, by their trends."""

from typing import Any

import numpy as np
import pytest

import netplan
from netplan.answers.outputs import output
from netplan.reports.quantities import words
from netplan.studies.questions import answer
from tests.studies.shipped import shipped


@pytest.mark.parametrize("tensor", [1, 8])
def test_a_point_of_a_serving_study_is_the_best_plan(tensor: int) -> None:
    asked: dict[str, Any] = {"model": "llama-3.1-8b", "accelerator": "h200", "gpus": 8}
    point = {**asked, "prompt": 1024, "fixed.tensor": tensor}
    found = answer("serving", point, scenario="serving-70b-h200")
    best = netplan.serving("serving-70b-h200", **asked, prompt=1024, fixed={"tensor": tensor}).best
    for name in ("tokens_per_s", "tpot_s", "tensor"):
        assert output(found, name) == getattr(best, name)
    assert output(found, "binds") == best.bottleneck
    assert best.tensor == tensor
    assert output(found, "breakdown_s.memory") == best.breakdown_s["memory"]
    assert words("tokens_per_s").title == "throughput, tokens/s"


@pytest.mark.slow
def test_a_tree_wants_a_short_window_and_a_small_draft() -> None:
    frame: Any = shipped("speculative-decoding").to_frame()
    table = frame.pivot_table("tokens_per_s", ["speculation", "acceptance", "window"], "draft")
    assert table.shape == (2 * 3 * 8, 3)
    assert (table["llama-68m"] > table["llama-3-8b"]).all()
    assert (table["llama-3-8b"] > table["llama-3-70b"]).all()
    best = table["llama-68m"].unstack("window").idxmax(axis=1).unstack("acceptance")
    assert (best.loc["tree"] < best.loc["sequence"]).all()


@pytest.mark.slow
def test_tensor_against_pipeline_by_load_and_network() -> None:
    """More TP is a shorter wait in one HB domain, more PP more tokens a second."""
    frame: Any = shipped("serving").to_frame()
    frame = frame[(frame["fabric"] == "rail-optimized") & (frame["accelerator"] != "sn40l")]
    keys = ["accelerator", "requests_a_stage"]
    waits, rates = (
        {
            size: frame[frame["hb_size"] == size].pivot_table(name, keys, "fixed.tensor").to_numpy()
            for size in (16, 8)
        }
        for name in ("tpot_s", "tokens_per_s")
    )
    assert waits[16].shape == (3 * 2, 5)
    assert (np.diff(waits[16]) < 0).all()
    assert (np.diff(rates[16]) < 0).all()
    # On domains of 8 a stage of 16 sums over network cards.
    assert (waits[8][:, 4] > waits[8][:, 3]).all()
    assert waits[8][:, 3] == pytest.approx(waits[16][:, 3], rel=0.01)


@pytest.mark.slow
def test_two_pools_pay_for_long_prompts_under_a_tight_level() -> None:
    frame: Any = shipped("prefill-decode-split").to_frame()
    frame = frame[frame["tpot_ms"] == 15]
    two = frame[frame["disaggregated"]].groupby(["prompt", "output"])
    best = two["tokens_per_s_per_gpu"].max()
    one = frame[~frame["disaggregated"]].set_index(["prompt", "output"])["tokens_per_s_per_gpu"]
    gain = best / one
    assert gain[2048, 512] > 1.4
    assert gain[8192, 256] > 1.2
    assert gain[512, 2048] < 1.05
    share = frame.loc[two["tokens_per_s_per_gpu"].idxmax()].set_index(["prompt", "output"])
    shares = share["share_for_prompts"]
    assert shares[8192, 256] > shares[2048, 512] > shares[1024, 1024] > shares[512, 2048]


def test_full_meshes_want_wide_groups_and_switches_do_not_care() -> None:
    frame: Any = shipped("moe-serving-topologies").to_frame()
    frame["network"] = frame["hb_size"].astype(str) + frame["fabric.hb_kind"] + frame["fabric"]
    for model in ("deepseek-r1", "qwen3-235b-a22b"):
        mine = frame[frame["model"] == model]
        sent = mine.pivot_table("breakdown_s.network", "network", "fixed.expert")
        switch = sent.loc["288switchrail-optimized"]
        # Inside of a domain its size does not matter; across it does.
        assert sent.loc["72switchrail-optimized", 72] == switch[72]
        assert sent.loc["8switchrail-optimized", 8] == switch[8]
        assert sent.loc["8switchrail-optimized", 24] > 3 * switch[24]
        over = sent.loc["288meshrail-optimized"] / switch
        assert (over.to_numpy() > 1).all()
        assert over.is_monotonic_decreasing
        tori = sent.loc[["1switchtorus-2d", "1switchtorus-3d"]]
        assert (tori.loc["1switchtorus-2d"] >= tori.loc["1switchtorus-3d"]).all()


@pytest.mark.slow
def test_fig_20_stands_beside_the_serving_study() -> None:
    found = {value.name: value.netplan for value in shipped("serving").published}
    rate = found["Llama 3 8B on 16 SN40L, TP 16: measured"]
    assert rate == pytest.approx(1100, rel=0.1)
    assert found["Fig. 20: more TP, shorter TPOT"] == "True"
