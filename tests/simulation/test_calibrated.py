"""Simulated iterations of iteration model ``calibrated`` against its closed form."""

from typing import Any

import pytest

import netplan
from netplan.errors import InputError

RUN: dict[str, Any] = {
    "accelerator": "h100-80gb",
    "model": "llama-3-70b",
    "batch": 64,
    "iteration_model": "calibrated",
    "ignore_memory": True,
}


@pytest.mark.parametrize(
    ("gpus", "fixed", "more"),
    [
        (8, {"tensor": 8}, {}),
        (16, {"tensor": 8, "pipeline": 1}, {"zero_stage": 3}),
        (16, {"tensor": 4, "context": 2, "pipeline": 1}, {"recompute": "full"}),
        (16, {"pipeline": 1}, {"stack": "fsdp-eager", "recompute": "half"}),
    ],
)
def test_a_single_stage_takes_what_the_closed_form_says(
    gpus: int, fixed: dict[str, int], more: dict[str, Any]
) -> None:
    found = netplan.simulate("rail-only-paper", gpus=gpus, fixed=fixed, **RUN, **more).to_dict()
    assert found["iteration_time_s"] == pytest.approx(found["analytic_time_s"], rel=1e-6)


@pytest.mark.parametrize("interleave", [1, 2])
def test_a_pipeline_takes_nearly_what_the_closed_form_says(interleave: int) -> None:
    fixed = {"tensor": 8, "pipeline": 4, "interleave": interleave}
    found = netplan.simulate("rail-only-paper", gpus=64, fixed=fixed, **RUN).to_dict()
    assert found["iteration_time_s"] == pytest.approx(found["analytic_time_s"], rel=0.02)
    assert found["iteration_time_s"] >= found["lower_bound_s"]


@pytest.mark.parametrize(
    ("model", "fixed", "more"),
    [
        # Whole experts on all ranks of a stage; on two ranks of a tensor group; cut over two.
        ("qwen3-30b-a3b", {"tensor": 2, "expert": 16, "expert_tensor": 1}, {"precision": "fp8"}),
        ("qwen3-30b-a3b", {"tensor": 4, "expert": 2, "expert_tensor": 1}, {"zero_stage": 3}),
        ("qwen3-30b-a3b", {"tensor": 2, "expert_tensor": 2}, {"recompute": "moe_act+layernorm"}),
        ("nemotron-3-nano", {"tensor": 2, "expert": 8}, {"recompute": "full"}),
        ("nemotron-h-56b", {"tensor": 8}, {"sequence_parallel": False}),
        ("gpt-oss-120b", {"tensor": 1}, {"dispatcher": "fsdp"}),
    ],
)
def test_experts_and_hybrids_on_a_stage_take_what_the_closed_form_says(
    model: str, fixed: dict[str, int], more: dict[str, Any]
) -> None:
    """With the exchange of tokens, host time, and what date and number of GPUs make of it."""
    run = RUN | {"model": model, "batch": 32, "fixed": {"pipeline": 1} | fixed}
    found = netplan.simulate("rail-only-paper", gpus=16, **run, **more).to_dict()
    assert found["iteration_time_s"] == pytest.approx(found["analytic_time_s"], rel=1e-6)


@pytest.mark.parametrize("interleave", [1, 2])
@pytest.mark.parametrize("model", ["deepseek-v3", "qwen3-30b-a3b"])
def test_pipelines_of_experts_take_nearly_what_the_closed_form_says(
    model: str, interleave: int
) -> None:
    fixed = {"tensor": 2, "pipeline": 4, "expert": 8, "interleave": interleave}
    run = RUN | {"model": model, "fixed": fixed}
    found = netplan.simulate("rail-only-paper", gpus=64, **run).to_dict()
    assert found["iteration_time_s"] == pytest.approx(found["analytic_time_s"], rel=0.02)
    assert found["iteration_time_s"] >= found["lower_bound_s"]


def test_a_date_and_many_gpus_lengthen_all_of_an_iteration() -> None:
    """Software of 2024-07 against none: every part of it, waits for links too, takes as long."""
    old, new = (
        netplan.simulate(
            "rail-only-paper",
            gpus=16,
            fixed={"tensor": 8, "pipeline": 2},
            **RUN,
            software_date=date,
        ).to_dict()
        for date in ("2024-07", "2026-01")
    )
    ratio = old["analytic_time_s"] / new["analytic_time_s"]
    assert ratio > 1.02
    assert old["iteration_time_s"] / new["iteration_time_s"] == pytest.approx(ratio, rel=1e-3)


def test_zero_bubble_schedules_are_not_simulated() -> None:
    with pytest.raises(InputError, match="zb-1p has closed forms alone"):
        netplan.simulate("rail-only-paper", gpus=64, schedule="zb-1p", **RUN)
