"""Published runs asked as questions: options say all that a run was, and give its time."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.errors import NoPlanError
from netplan.performance.dated.recipe import date_of, month_of
from netplan.performance.published_runs import published_rows
from netplan.workloads.models import MODELS

GOLDEN = Path(__file__).parents[1] / "golden" / "dated_expected.csv"
PRECISIONS = {"fp8-cs": "fp8", "fp8-ds": "fp8-delayed"}
NO_PLAN = "MB25.09-deepseek-v3-GB200-256-mxfp8-g2048"
"""A row whose groups of 64 GPUs over experts are more than the 32 of a stage: none can be asked."""


def whole(text: str) -> int:
    """A number of a row, 0 where there is none."""
    return int(float(text or 0))


def asked(row: Mapping[str, str]) -> dict[str, Any]:
    """The inputs of a search that is left no choice."""
    name = "grok-1" if row["model"].startswith("grok-1") else row["model"]
    model, overrides = MODELS.load(name), {}
    sizes = {"layers": "layers", "vocabulary": "vocab", "sequence_length": "seq"}
    for key, column in (sizes | {"prediction_layers": "mtp"}).items():
        if whole(row[column]) != getattr(model, key):
            overrides[f"model.{key}"] = f"{whole(row[column])}"
    overrides |= {f"stack.{key}": row[key] for key in ("gradient_bytes", "gather_bytes")}
    overrides["accelerator.network_bytes_per_s"] = row["network_bytes_per_s"]
    columns = {"tensor": "tp", "context": "cp", "pipeline": "pp", "data": "dp", "interleave": "vp"}
    fixed = {key: whole(row[column]) for key, column in columns.items()}
    fixed["microbatch"] = whole(row["micro_batch"])
    inputs: dict[str, Any] = {
        "gpus": whole(row["gpus"]),
        "accelerator": row["accelerator"],
        "model": name,
        "batch": whole(row["global_batch"]),
        "precision": PRECISIONS.get(row["precision_detail"], row["precision_detail"]),
        "stack": row["stack"],
        "software_date": month_of(float(row["software_date"])),
        "recompute": row["redo_modules"] or row["recompute"],
        "zero_stage": whole(row["zero"]),
        "tensor_overlap": row["tp_overlap"] == "True",
    }
    if row["experts"]:
        fixed |= {"expert": whole(row["ep"]), "expert_tensor": whole(row["etp"])}
        inputs["dispatcher"] = row["dispatcher"]
        inputs["expert_overlap"] = row["a2a_overlap"] == "True"
        inputs["fused_experts"] = row["fused_experts"] == "True"
    if row["network_kind"] == "torus":
        inputs["fabric"] = "torus-3d"
    else:
        inputs["graphs"], inputs["network_kind"] = row["graphs"], row["network_kind"]
        inputs["hb_size"] = min(whole(row["hb_domain"]), whole(row["gpus"]))
    return inputs | {"fixed": fixed, "overrides": overrides}


def compared(rows: list[dict[str, str]]) -> None:
    """Hold answers of the search to times that were worked out beforehand, part by part."""
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        seconds = {row["id"]: float(row["predicted_s"]) for row in csv.DictReader(file)}
    for row in rows:
        if row["id"] == NO_PLAN:
            with pytest.raises(NoPlanError, match="a group of 64 GPUs is more than the 32"):
                netplan.search("hgx-h100", **asked(row))
            continue
        answer = netplan.search(
            "hgx-h100", published=False, interleave="any", ignore_memory=True, **asked(row)
        )
        made = answer.to_dict()["plans"][0]["iteration_time_s"]
        assert made == pytest.approx(seconds[row["id"]], abs=1e-6), row["id"]


ROWS = [dict(row) for row in published_rows("dated-runs")]


def test_every_month_of_a_row_can_be_asked_for() -> None:
    """Or one as near to it as a hundredth of a year: those are runs on TPUs, which do not drift."""
    for row in ROWS:
        date = float(row["software_date"])
        exact = date_of(month_of(date)) == date
        assert exact or row["stack"] == "maxtext", row["id"]


def test_runs_take_what_they_take_as_questions() -> None:
    compared(ROWS[::15])


@pytest.mark.slow
def test_all_runs_take_what_they_take_as_questions() -> None:
    compared(ROWS)
