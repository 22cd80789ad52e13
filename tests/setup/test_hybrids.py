"""Hybrids of Mamba, and experts without sequence parallelism: who times them, who says why not."""

from typing import Any

import pytest

import netplan
from netplan.errors import InputError

HYBRID = {"model": "nemotron-3-nano", "gpus": 64, "batch": 64}
SPARSE = {"model": "gpt-oss-120b", "gpus": 64, "batch": 128}


def best(**asked: Any) -> dict[str, Any]:  # noqa: ANN401 - of every type
    plan: dict[str, Any] = netplan.search("hgx-h100", **asked).to_dict()["plans"][0]
    return plan


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"iteration_model": "measured"}, "no measured scan of Mamba.* take .*calibrated, or 4d"),
        ({"iteration_model": "ptd-p"}, "has experts, Mamba: use the iteration model calibrated"),
        ({"iteration_model": "comet-fit"}, "has experts, Mamba: use the iteration model calib"),
        (
            {"iteration_model": "calibrated", "software_date": "none"},
            "for experts, Mamba under software of a date alone: .* or --iteration-model 4d",
        ),
    ],
)
def test_iteration_models_without_scans_name_one_that_has_them(
    asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        best(**HYBRID, **asked)


def test_hybrids_are_timed_by_date_and_elsewhere_as_products() -> None:
    """Where no accelerator or stack has numbers by date 4d answers, and says what it takes."""
    by_date = best(**HYBRID, zero_stage=1)
    assert by_date["error_basis"] == "calibrated"
    # Weights of experts that are sharded are faster, and no run had them.
    sharded = best(**HYBRID)
    assert sharded["iteration_time_s"] < by_date["iteration_time_s"]
    assert sharded["error_basis"] == "transferred"
    assert sharded["error_reasons"] == ["no run with experts under ZeRO 3 on GPUs was published"]
    for without in ({"software_date": "none"}, {"accelerator": "a100-80gb"}):
        answer = netplan.search("hgx-h100", **HYBRID, **without)
        assert answer.to_dict()["inputs"]["iteration_model"] == "4d"
        assert any("Scans of Mamba count as matrix products" in note for note in answer.notes)
    fixed = {"tensor": 1, "pipeline": 1, "expert": 1}
    both_s = [
        best(**HYBRID, fixed=fixed, ignore_memory=True, recompute="none", iteration_model=name)
        for name in ("calibrated", "4d")
    ]
    longer = both_s[0]["iteration_time_s"] / both_s[1]["iteration_time_s"]
    assert longer == pytest.approx(2.0, rel=0.1)


def test_one_tensor_gpu_has_no_sequence_to_scatter() -> None:
    """Then sequence parallelism means nothing, and leaving it out changes nothing."""
    for name in ("4d", "measured", "calibrated"):
        run = SPARSE | {"iteration_model": name, "fixed": {"tensor": 1}}
        with_it, without = (best(**run, sequence_parallel=used) for used in (True, False))
        assert with_it["plan"] == without["plan"]
        assert with_it["iteration_time_s"] == without["iteration_time_s"]


def test_experts_without_sequence_parallelism_are_timed_by_date_alone() -> None:
    """Every tensor GPU then sends all of its rows: twice as much on two of them.

    Four times a layer and microbatch, each with a start of 36 us.
    """
    run = SPARSE | {"fixed": {"tensor": 2, "pipeline": 1, "expert": 8, "expert_tensor": 1}}
    run |= {"ignore_memory": True, "recompute": "none", "graphs": "full", "expert_overlap": False}
    with_it, without = (best(**run, sequence_parallel=used) for used in (True, False))
    assert without["iteration_time_s"] > with_it["iteration_time_s"]
    exchange = [plan["expert_comm_s"] for plan in (with_it, without)]
    starts_s = 4 * 36 * with_it["plan"]["microbatches"] * 36e-6
    assert with_it["plan"]["microbatch"] == without["plan"]["microbatch"]
    assert exchange[1] == pytest.approx(2 * exchange[0] - starts_s, rel=1e-6)
    with pytest.raises(InputError, match=r"experts.* over several tensor GPUs .*--fix tensor=1"):
        best(**SPARSE, iteration_model="4d", sequence_parallel=False)
