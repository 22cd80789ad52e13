"""The answer of netplan map: what it lists, how large it may be, what never makes it slower."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.command import netplan

LAYER = ("--model", "gpt-22b", "--accelerator", "sn10", "--tensor", "2", "--sequence-tile", "64")
CHIP = {"tiles": 640.0, "sram_bytes": 335544320.0, "memory_bytes_per_s": 1e11,
        "hb_bytes_per_s": 25e9}  # fmt: skip


def mapped(*words: str) -> dict[str, Any]:
    """The answer as JSON."""
    done = netplan("map", *words, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_both_passes_are_listed_whole() -> None:
    found = mapped(*LAYER, "--direction", "both")
    assert len(found["kernels"]) == 41
    assert (found["inputs"]["micro_batch"], found["inputs"]["mode"]) == (1, "corrected")
    parts = sum(row["time_s"] + row["setup_s"] for row in found["partitions"])
    assert found["interval_s"] == pytest.approx(parts, rel=1e-12)
    for row in found["partitions"]:
        longest = max(row["compute_s"], row["memory_s"], row["network_s"])
        assert row["time_s"] == longest


def test_a_backward_pass_counts_its_own_partitions() -> None:
    both, back = (mapped(*LAYER, "--direction", one) for one in ("both", "backward"))
    assert len(back["kernels"]) == 23
    assert back["partitions"] == both["partitions"][-len(back["partitions"]) :]
    for row in back["kernels"]:
        assert row["name"] in back["partitions"][row["partition"] - 1]["kernels"]
    assert back["interval_s"] < both["interval_s"]


@pytest.mark.parametrize("mode", ["corrected", "published-code"])
def test_a_ring_is_used_both_ways(mode: str) -> None:
    """n (p - 1) / p / B without a fabric: 2 x 2048 x 6144 B on two chips of 25 GB/s."""
    [kernel] = [row for row in mapped(*LAYER, "--mode", mode)["kernels"] if row["name"] == "Proj"]
    size = 2 * 2048 * 6144
    assert kernel["all_reduce_bytes"] == size
    assert kernel["time_s"] >= size / 2 / 25e9


def test_a_kernel_alone_takes_the_longest_and_its_set_up() -> None:
    """Q: 32 x 6 products a tile, 640 of them; weights of 3072 x 6144 numbers over 100 GB/s."""
    found = mapped(*LAYER, "--execution", "kernel-by-kernel", "--micro-batch", "4")
    [kernel] = [row for row in found["kernels"] if row["name"] == "Q"]
    [part] = [row for row in found["partitions"] if row["kernels"] == ["Q"]]
    setup = 2 * 3072 * 6144 / 4 / 100e9
    assert part["setup_s"] == pytest.approx(setup)
    assert kernel["time_s"] == pytest.approx(part["time_s"] + setup)


def test_thousands_of_steps_make_a_small_page() -> None:
    words = ("--model", "hpl-5m", "--accelerator", "tpu-v4", "--gpus", "100", "--format", "html")
    done = netplan("map", *words, "--set", "accelerator.memory_bytes=1e12")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) < 100_000


def test_as_many_layers_as_nobody_has_are_refused() -> None:
    words = ("--model", "dlrm-12t", "--gpus", "128", "--accelerator", "a100-80gb")
    done = netplan("map", *words, "--set", "model.top_layers=1000000")
    assert done.returncode == 2
    assert "at most 512" in done.stderr


@settings(max_examples=12, deadline=None)
@given(
    key=st.sampled_from(sorted(CHIP)),
    factor=st.floats(1.0, 20.0),
    share=st.floats(0.05, 1.0),
    tensor=st.sampled_from([2, 4]),
    direction=st.sampled_from(["forward", "both"]),
)
def test_more_of_a_chip_is_never_slower(
    key: str, factor: float, share: float, tensor: int, direction: str
) -> None:
    """Nor are kernels slower that are kept together than one by one."""
    how = ("--tensor", str(tensor), "--direction", direction, "--sequence-tile", "128")
    words = ("--model", "gpt-22b", "--accelerator", "sn10", *how)
    less, more = share * CHIP[key], share * factor * CHIP[key]
    if key == "tiles":
        less, more = max(int(less), 1), max(int(more), 1)
    found = []
    for value in (less, more):
        override = ("--set", f"accelerator.{key}={value!r}")
        fused = mapped(*words, *override)["interval_s"]
        alone = ("--execution", "kernel-by-kernel")
        single = mapped(*words, *override, *alone)["interval_s"]
        assert fused <= single * (1 + 1e-9)
        found.append(fused)
    assert found[1] <= found[0] * (1 + 1e-9)
