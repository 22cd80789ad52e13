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


def test_zero_bubble_schedules_are_not_simulated() -> None:
    with pytest.raises(InputError, match="zb-1p has closed forms alone"):
        netplan.simulate("rail-only-paper", gpus=64, schedule="zb-1p", **RUN)
