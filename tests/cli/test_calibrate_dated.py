"""``netplan calibrate`` with experts and software of a date: numbers that made runs, and bars."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from netplan.calibration.cluster import startable
from netplan.calibration.dated_runs import DatedRuns
from netplan.calibration.steps import STEP_COLUMNS, read_steps
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.stacks import STACKS
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS
from tests.cli.command import netplan, refused

TRUE = {"bf16": 0.6, "fp8": 0.55}
MADE = {"vector": 1.6, "tensor_visible": 0.4, "experts": 0.8, "exchange": 0.7}
COLUMNS = (
    *("model", "gpus", "batch", "sequence_length", "tensor", "pipeline", "interleave"),
    *("precision", "software_date", "expert", "dispatcher", "graphs", "seconds"),
)
PLANS = (
    *("llama-3-8b,8,128,8192,1,1,1,bf16", "llama-3-8b,16,128,8192,2,1,1,fp8"),
    *("llama-3-8b,64,256,8192,4,1,1,bf16", "llama-3-8b,32,256,8192,8,1,1,fp8"),
    *("llama-3-70b,64,128,8192,8,4,5,bf16", "llama-3-70b,64,128,8192,4,4,5,fp8"),
    *("llama-3-70b,128,256,8192,8,2,1,fp8", "llama-3-70b,256,256,4096,8,4,1,bf16"),
)
SPARSE = (
    *("qwen3-30b-a3b,16,512,4096,1,2,12,bf16", "qwen3-30b-a3b,16,512,4096,1,1,1,fp8"),
    *("qwen3-30b-a3b,64,512,4096,1,1,1,bf16", "qwen3-30b-a3b,32,1024,4096,2,1,1,fp8"),
    *("gpt-oss-120b,64,1280,4096,1,1,1,bf16", "gpt-oss-120b,64,640,4096,1,4,1,bf16"),
    *("mixtral-8x7b,32,256,4096,1,1,1,bf16", "mixtral-8x7b,64,256,4096,2,1,1,fp8"),
)


def rows_of(seconds: list[float]) -> list[str]:
    """Rows of a table: dense runs, then some with experts over 8 and over 16 GPUs."""
    dense = [f"{plan},2026-06,,,,{{}}" for plan in PLANS]
    wide = [f"{plan},2026-06,8,hybridep,attn,{{}}" for plan in SPARSE]
    far = [
        f"{plan},2026-02,{16 if 'mixtral' not in plan else 4},alltoall,none,{{}}"
        for plan in SPARSE
        if ",2," not in plan.partition("4096")[2][:5] and "16,512" not in plan
    ]
    rows = [*dense, *wide, *far]
    times = seconds or [1.0] * len(rows)
    return [row.format(f"{time:.5g}") for row, time in zip(rows, times, strict=True)]


def table(folder: Path, seconds: list[float]) -> Path:
    path = folder / "steps.csv"
    path.write_text("\n".join([",".join(COLUMNS), *rows_of(seconds)]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog folder of files that were fitted to runs of known numbers and 1 % of noise."""
    folder = tmp_path_factory.mktemp("own")
    part = ITERATION_MODELS.load("calibrated").calibration
    assert part is not None
    chip, stack = ACCELERATORS.load("h100-80gb"), startable(STACKS.load("megatron-2025"), part)
    assert chip.training is not None
    assert chip.training.dated is not None
    assert stack.dated is not None
    rates = chip.training.changed(dated=chip.training.dated.changed(gemm=TRUE))
    chip, stack = chip.changed(training=rates), stack.changed(dated=stack.dated.changed(**MADE))
    runs = read_steps([table(folder, [])], chip, stack, MODELS.load)
    noise = np.random.default_rng(3).normal(0, 0.01, len(runs))
    made_s = DatedRuns.of(runs, part).seconds() * np.exp(noise)
    table(folder, made_s.tolist())
    words = ("--accelerator", "h100-80gb", "--steps", "steps.csv", "--name", "ours", "--into", ".")
    done = netplan("calibrate", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Error bar of times by these files, experts" in " ".join(done.stdout.split())
    return folder


def files(folder: Path) -> tuple[dict[str, dict[str, object]], dict[str, dict[str, object]]]:
    chip, stack = (
        yaml.safe_load((folder / "traffic" / shelf / "ours.yaml").read_text("utf-8"))
        for shelf in ("accelerators", "stacks")
    )
    return chip["training"], stack


def test_the_fit_finds_what_made_the_runs(folder: Path) -> None:
    training, stack = files(folder)
    dated = training["dated"]
    assert dated["gemm"]["bf16"] == pytest.approx(TRUE["bf16"], rel=0.03)  # type: ignore[index]
    assert dated["gemm"]["fp8"] == pytest.approx(TRUE["fp8"], rel=0.03)  # type: ignore[index]
    for name, value in MADE.items():
        assert stack["dated"][name] == pytest.approx(value, rel=0.12), name
    assert dated["scored"] == ["ours"]
    # What nothing was fitted to carries nobody's bar.
    assert "held_out" not in training
    assert training.get("scored", {}) == {}


def test_files_carry_the_bar_of_runs_left_out(folder: Path) -> None:
    training, _ = files(folder)
    bars = training["dated"]["held_out"]
    assert [*bars] == ["dense", "moe"]  # type: ignore[misc]
    assert bars["dense"]["runs"] == 8  # type: ignore[index]
    for name, noise in (("dense", 0.03), ("moe", 0.05)):
        bar = bars[name]  # type: ignore[index]
        # At least as wide as nine of ten runs scatter: 1.64 standard deviations.
        assert bar["high"] >= 1 + 1.64 * noise
        assert bar["low"] <= 1 / (1 + 1.64 * noise)
        assert bar["high"] < 1.2


def test_answers_print_that_bar(folder: Path) -> None:
    training, _ = files(folder)
    ours = ("--catalog", str(folder), "--accelerator", "ours", "--stack", "ours")
    plan = ("--fix", "pipeline=1", "--recompute", "none", "--format", "json")
    recipe = (
        *("--dispatcher", "hybridep", "--no-expert-overlap"),
        *("--graphs", "attn", "--no-fused-experts"),
    )
    for kind, words in (
        ("dense", ("--gpus", "64", "--model", "llama-3-8b", "--batch", "256")),
        ("moe", ("--gpus", "64", "--model", "qwen3-30b-a3b", "--batch", "512", *recipe)),
    ):
        done = netplan("search", "hgx-h100", *ours, *words, *plan)
        assert done.returncode == 0, done.stderr
        best = json.loads(done.stdout)["plans"][0]
        bar = training["dated"]["held_out"][kind]  # type: ignore[index]
        low, high = (best[f"iteration_time_{end}_s"] for end in ("low", "high"))
        assert best["error_basis"] == "calibrated"
        assert low == pytest.approx(bar["low"] * best["iteration_time_s"])
        assert high == pytest.approx(bar["high"] * best["iteration_time_s"])


def test_classes_without_runs_keep_a_wide_bar(folder: Path) -> None:
    ours = ("--catalog", str(folder), "--accelerator", "ours", "--stack", "ours")
    words = ("--gpus", "64", "--model", "nemotron-h-56b", "--batch", "192", "--format", "json")
    done = netplan("search", "hgx-h100", *ours, *words)
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["plans"][0]
    assert best["error_basis"] == "transferred"
    assert any("too few runs of hybrids" in reason for reason in best["error_reasons"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"software_date": ""}, "which fits know under software of a date alone"),
        ({"software_date": "June"}, "software_date: got 'June', give a month of software"),
        ({"expert": "7"}, "expert 7: qwen3-30b-a3b has 128 experts: use a divisor"),
        ({"expert": "64"}, "which do not divide the 16 GPUs of a stage"),
        ({"dispatcher": "nccl"}, "dispatcher: got 'nccl', give alltoall or deepep"),
        ({"graphs": "all"}, "graphs: got 'all', give none or router"),
        ({"precision": "mxfp4"}, "precision: got 'mxfp4'"),
    ],
)
def test_runs_that_are_none_are_one_line(
    changes: dict[str, str], said: str, tmp_path: Path
) -> None:
    row = dict(zip(COLUMNS, rows_of([])[9].split(","), strict=True)) | changes
    with (tmp_path / "steps.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([row] * 6)
    words = ("calibrate", "--accelerator", "h100-80gb", "--steps", "steps.csv")
    error = refused(*words, cwd=tmp_path)
    assert said in error
    assert error.count("\n") == 1


def test_rows_with_and_without_a_date_are_fitted_apart(tmp_path: Path) -> None:
    rows = rows_of([])[:6]
    rows[2] = rows[2].replace("2026-06", "none")
    (tmp_path / "steps.csv").write_text("\n".join([",".join(COLUMNS), *rows]) + "\n", "utf-8")
    words = ("calibrate", "--accelerator", "h100-80gb", "--steps", "steps.csv")
    assert "has no software_date" in refused(*words, cwd=tmp_path)


def test_every_column_of_experts_is_read() -> None:
    names = {column.name for column in STEP_COLUMNS}
    assert {"expert", "expert_tensor", "dispatcher", "expert_overlap", "graphs"} < names
    assert {"fused_experts", "imbalance", "software_date"} < names


def test_imbalance_makes_runs_longer(tmp_path: Path) -> None:
    part = ITERATION_MODELS.load("calibrated").calibration
    assert part is not None
    chip, stack = ACCELERATORS.load("h100-80gb"), STACKS.load("megatron-2025")
    runs = read_steps([table(tmp_path, [])], chip, stack, MODELS.load)[8:]
    even = DatedRuns.of(runs, part).seconds()
    uneven = DatedRuns.of([replace(run, imbalance=1.5) for run in runs], part).seconds()
    assert np.all(uneven > 1.004 * even)
