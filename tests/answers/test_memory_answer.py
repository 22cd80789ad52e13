"""``search --explain memory``: what lies in which tier, what moves, and what that costs."""

import json
from typing import Any

import numpy as np
import pytest

from netplan.performance.explain import MemoryCosts, memory_costs
from netplan.performance.setting import Setting
from netplan.performance.tiers import ORDER, Expanded
from tests.cli.command import netplan
from tests.performance.test_tiers import LEVELS, LOCAL_RATE, PLAN, held, timed, training

SMALL = ("--gpus", "64", "--accelerator", "b200", "--model", "gpt-175b", "--top", "1")
TIGHT = tuple(
    f"--set=accelerator.{one}"
    for one in ("memory_bytes=30e9", "expanded_bytes=96e9", "expanded_bytes_per_s=64e9")
)


def costs(offload: tuple[str, ...], latency_s: float = 0.0) -> tuple[MemoryCosts, float]:
    run = training(1e12, Expanded(1e12, LOCAL_RATE / 4, latency_s), offload=offload)
    found = timed(run)
    return memory_costs(Setting(run), LEVELS, found), found.iteration_time_s


def test_what_moves_is_counted_by_hand() -> None:
    """Four microbatches through two layers a stage; the update is shared by four replicas."""
    found, _ = costs(("weights", "gradients", "optimizer", "activations"))
    moved = {row.part: row.tier_moved_bytes for row in found.parts}
    parts = held()
    layer = Setting(training(1, None)).program(PLAN.sharding).layer
    kept = sum(float(np.ravel(one.activation_bytes)[0]) for one in layer.operations)
    parameters = parts["optimizer"] / 12  # of this GPU: ZeRO 1
    assert moved["optimizer"] == pytest.approx(24 * parameters)
    # Written once forward and read once backward.
    assert moved["activations"] == pytest.approx(2 * kept * 4 * 2)
    # Read forward and backward in each microbatch, and the update writes its share.
    assert moved["weights"] == pytest.approx(2 * 4 * parts["weights"] + 2 * parameters, rel=0.01)
    assert moved["gradients"] == pytest.approx(4 * parts["gradients"] + 2 * parameters, rel=0.01)
    assert found.together.tier_moved_bytes == pytest.approx(sum(moved.values()))
    assert moved["buffers"] == 0


@pytest.mark.parametrize("part", ["optimizer", "gradients", "weights", "activations"])
def test_a_part_that_lies_there_alone_costs_all_there_is(part: str) -> None:
    found, seconds = costs((part,), 1e-4)
    (row,) = [row for row in found.parts if row.part == part]
    assert row.spill_cost_s == found.together.spill_cost_s > 0
    assert all(one.spill_cost_s == 0 for one in found.parts if one is not row)
    local_s = timed(training(1e12, None)).iteration_time_s
    assert found.local_time_s == pytest.approx(local_s, rel=1e-12)
    assert seconds - found.together.spill_cost_s == pytest.approx(local_s, rel=1e-12)


def test_a_part_costs_what_its_absence_saves() -> None:
    """As if the others were the only ones offloaded, into a local memory that holds the rest."""
    parts = ("weights", "optimizer", "activations")
    found, seconds = costs(parts)
    for row in found.parts:
        others = tuple(part for part in parts if part != row.part)
        assert row.spill_cost_s == pytest.approx(seconds - costs(others)[1], abs=1e-12)


def explained(*words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        netplan(
            "search", "rail-only-paper", *SMALL, *words, "--explain", "memory", "--format", "json"
        ).stdout
    )
    return answer


def test_every_byte_of_the_plan_lies_somewhere() -> None:
    answer = explained(*TIGHT)
    memory, best = answer["memory"], answer["plans"][0]
    for row in memory["parts"]:
        tiers = best["memory_tiers_bytes"][row["part"]]
        assert (row["local_bytes"], row["expanded_bytes"]) == (tiers["local"], tiers["expanded"])
    local, there = memory["tiers"]
    assert local["held_bytes"] == pytest.approx(30e9)
    assert local["held_bytes"] + there["held_bytes"] == pytest.approx(best["memory_bytes"])
    assert there["left_bytes"] == 96e9 - there["held_bytes"]
    saved = best["iteration_time_s"] - memory["local_time_s"]
    assert memory["together"]["spill_cost_s"] == pytest.approx(saved)


def test_without_a_second_memory_nothing_costs() -> None:
    memory = explained()["memory"]
    assert [row["tier"] for row in memory["tiers"]] == ["local"]
    assert {row["part"] for row in memory["parts"]} == set(ORDER)
    assert all(row["spill_cost_s"] == row["tier_moved_bytes"] == 0 for row in memory["parts"])
    words = ("search", "rail-only-paper", *SMALL, "--explain", "memory", "--details")
    shown = netplan(*words).stdout
    assert "All lies in the local memory: no part of it costs any time." in shown


def test_memory_that_is_exceeded_is_less_than_nothing() -> None:
    memory = explained(TIGHT[0], "--ignore-memory", "--fix", "pipeline=1")["memory"]
    (local,) = memory["tiers"]
    assert local["left_bytes"] == 30e9 - local["held_bytes"] < 0
    words = ("search", "rail-only-paper", *SMALL, TIGHT[0], "--ignore-memory", "--details")
    page = netplan(*words, "--fix", "pipeline=1").stdout
    assert "Memory of plan 1" in page
    shares = [line for line in page.partition("Memory of plan 1")[2].splitlines() if "█" in line]
    assert all(int(line.split(" %")[0].split()[-1]) <= 100 for line in shares)


def test_a_full_memory_has_nothing_left() -> None:
    """Parts that are shared over both memories fill the local one but for rounding."""
    found = netplan(
        *(
            "search",
            "rail-only-paper",
            "--model",
            "transformer-1t",
            "--accelerator",
            "a100-comet",
            "--gpus",
            "1024",
        ),
        *("--fabric", "comet-pods", "--iteration-model", "comet-fit", "--fix", "tensor=8"),
        *("--set=accelerator.expanded_bytes=480e9", "--set=accelerator.expanded_bytes_per_s=5e11"),
        *("--explain", "memory", "--format", "json"),
    )
    local, _ = json.loads(found.stdout)["memory"]["tiers"]
    assert local["left_bytes"] == 0


def test_what_software_keeps_is_explained_on_a_screen() -> None:
    """Parts with formulas, the fullest stage, the verdict, and values of the symbols."""
    words = ("search", "hgx-h100", "--gpus", "1024", "--explain", "memory")
    done = netplan(*words, columns=80)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert "activations" in done.stdout
    assert "is the fullest: " in done.stdout
    assert "Verdict fit: peak" in done.stdout
    assert "Symbols, said in --details: T 4,096" in done.stdout
    details = netplan(*words, "--details", columns=80).stdout
    assert "What one layer keeps of one microbatch" in details
    assert "tokens of a microbatch on a GPU" in details


def test_json_has_formulas_and_the_parts_of_every_plan() -> None:
    words = ("search", "hgx-h100", "--gpus", "1024", "--explain", "memory", "--format", "json")
    answer = json.loads(netplan(*words).stdout)
    assert {*answer["memory"]} == {"parts", "operations", "symbols"}
    assert {*answer["memory"]["parts"][0]} == {"part", "formula", "held_bytes"}
    kept = answer["plans"][0]["memory"]
    parts = ("states", "activations", "head_or_backward", "gathered", "workspace")
    assert sum(kept[part] for part in parts) == pytest.approx(kept["peak_bytes"])
    assert {
        "verdict",
        "low_bytes",
        "high_bytes",
        "usable_bytes",
        "stage",
        "outside",
        "in_flight",
    } <= {*kept}
    assert (kept["basis"], [*kept["by_operation"]]) == ("checked", ["dense"])
    assert sum(answer["plans"][0]["memory_parts_bytes"].values()) == pytest.approx(
        answer["plans"][0]["memory_bytes"]
    )


def test_layers_that_no_run_was_compared_with_are_never_refused() -> None:
    words = ("--model", "qwen3.5-397b-a17b", "--gpus", "144", "--explain", "memory", "--details")
    done = " ".join(netplan("search", "nvl72-gb200", *words).stdout.split())
    assert "(unchecked)" in done
    assert "of this kind of layer) was never compared with a run" in done


def test_memory_of_chips_with_other_software_is_never_refused() -> None:
    done = " ".join(netplan("search", "tpu-v7", "--explain", "memory", "--details").stdout.split())
    assert "(unchecked)" in done
    assert "was never compared with a run" in done
