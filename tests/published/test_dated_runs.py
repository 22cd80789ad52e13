"""Published runs under software of a date: the times that the model was specified by."""

import csv
from pathlib import Path

import pytest

from netplan.calibration.published import as_it_lay, published_run, published_runs, time_as_made
from netplan.errors import InputError
from netplan.performance.published_runs import published_rows
from netplan.published.dated_runs import class_checks, dated_errors, run_times
from netplan.published.left_out import error_class
from netplan.published.verify import verify
from netplan.records import replace

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


def test_errors_by_class_are_those_of_the_reference() -> None:
    errors = dated_errors(run_times(TABLE))
    printed = {
        "dense": (200, 3.5, 2.6, 16.5),
        "experts": (118, 8.0, 5.4, 47.9),
        "hybrid": (7, 6.8, 6.2, 8.8),
        "hybrid with experts": (27, 4.6, 3.2, 16.8),
    }
    for group in errors.classes:
        sizes = (round(100 * size, 1) for size in (group.mean, group.median, group.largest))
        assert (group.runs, *sizes) == pytest.approx(printed[group.group], abs=0.11)
    assert [group.group for group in errors.classes] == list(printed)
    assert sum(group.runs for group in errors.groups) == 352
    far = {run.run.model.name for run in errors.far}
    assert far == {"qwen3-30b", "gpt-oss-120b", "grok-1-64l"}
    assert len(errors.context) == 16
    assert all(run.why for run in errors.context)


def test_bars_hold_on_the_runs_that_were_fitted() -> None:
    """306 of the 325 runs on GPUs."""
    runs = [
        run for run in run_times(TABLE) if run.scored and not error_class(run.run).startswith("tpu")
    ]
    assert (len(runs), sum(run.inside for run in runs)) == (325, 306)
    assert {run.bar.basis for run in runs} == {"calibrated"}


def test_what_is_too_far_off_fails() -> None:
    timed = run_times(TABLE)
    assert {check.verdict for check in class_checks(dated_errors(timed))} == {"pass", "known"}
    slow = [
        replace(run, run=replace(run.run, seconds=1.1 * run.run.seconds))
        if run.group == "hybrid"
        else run
        for run in timed
    ]
    failed = [check.name for check in class_checks(dated_errors(slow)) if check.verdict == "fail"]
    assert "hybrid: mean error of 7 fitted runs, %" in failed
    assert all(name.startswith("hybrid: ") for name in failed)


def test_every_run_is_listed_with_its_bar_and_its_source() -> None:
    listed = verify(runs=True)
    assert len(listed.runs) == 605
    assert listed.exit_code == 0
    text = listed.text(80)
    assert "605 published runs, of which 533 have all that netplan needs: 496 of" in text
    assert len(text.splitlines()) <= 25
    rows = listed.to_dict()["runs"]
    assert [row["name"] for row in rows] == [run.run.name for run in listed.runs]
    for row in rows:
        assert row["source"]
        assert row["iteration_time_low_s"] <= row["predicted_s"] <= row["iteration_time_high_s"]
        assert row["error_basis"] in ("calibrated", "transferred") or "not scored: " in str(
            row["error_basis"]
        )
    page = listed.html()
    assert page.count("<tr") > 605


def test_lists_of_their_own_are_asked_for_alone() -> None:
    with pytest.raises(InputError, match="--only, --bars and --runs are lists of their own"):
        verify(runs=True, only="Table 2")
