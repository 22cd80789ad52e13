"""Published runs under software of a date: the times that the model was specified by."""

import csv
from pathlib import Path

import pytest

from netplan.calibration.published import as_it_lay, published_run, published_runs, time_as_made
from netplan.performance.published_runs import published_rows

GOLDEN = Path(__file__).parents[1] / "golden" / "dated_expected.csv"
TABLE = "dated-runs"
PARTS = ("bubble", "pipeline_comm", "data_comm", "optimizer", "fixed")


def test_every_run_takes_the_seconds_of_the_reference_part_by_part() -> None:
    """368 runs; the reference has six decimals, and what date and GPUs make of it in each part."""
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        expected = {row["id"]: row for row in csv.DictReader(file)}
    predicted = {}
    for run in published_runs(TABLE, scored=False):
        timed = time_as_made(run)
        assert timed.growth is not None
        parts = dict(timed.breakdown_s)
        assert sum(parts.values()) == pytest.approx(timed.iteration_time_s, rel=1e-12)
        grown = {name: parts.pop(name) for name in ("software", "jitter")}
        factor = timed.growth.software_factor * timed.growth.jitter_factor
        whole = sum(parts.values())
        assert sum(grown.values()) == pytest.approx(whole * (factor - 1), rel=1e-9, abs=1e-12)
        found = {name: factor * parts.pop(name) for name in PARTS}
        found |= {"stages": factor * sum(parts.values()), "predicted_s": timed.iteration_time_s}
        predicted[run.name] = found
    assert predicted.keys() == expected.keys()
    assert len(predicted) == 368
    for name, found in predicted.items():
        known = {part: float(expected[name][part]) for part in found}
        assert found == pytest.approx(known, rel=0, abs=1e-6), name


def test_rows_are_facts_of_a_run_with_their_source() -> None:
    rows = published_rows(TABLE)
    assert len({row["id"] for row in rows}) == len(rows) == 368
    assert sum(row["use"] == "fit" for row in rows) == 352
    assert all(row["url"] and row["source"] and row["release"] for row in rows)
    assert all(bool(row["why"]) == (row["use"] == "context") for row in rows)
    assert not [name for name in rows[0] if "predicted" in name]


def test_degrees_experts_and_layers_of_rows_add_up() -> None:
    for row in published_rows(TABLE):
        run = published_run(row)
        model, degrees = run.model, run.degrees
        assert degrees.gpus == int(row["gpus"])
        assert degrees.data * degrees.microbatch * degrees.microbatches == model.batch
        levels, plan = as_it_lay(run)
        assert plan.gpus == degrees.gpus == levels[0].size * levels[1].size
        if model.experts is not None:
            assert (plan.experts_over, plan.expert_tensor) == (
                degrees.expert,
                degrees.expert_tensor,
            )
            own = float(row["moe_layers"]) + model.prediction_layers
            assert model.sparse_layers == own
            assert not model.experts.count % degrees.expert
        if model.mamba is not None:
            assert model.forward_blocks == float(row["moe_layers"] or 0) + float(
                row["dense_layers"] or 0
            )
