"""Published training runs: the times that the calibrated model was specified by, and its gates."""

import csv
from pathlib import Path

import pytest

from netplan.calibration.published import SCORED, as_it_lay, published_run
from netplan.performance.published_runs import published_rows
from netplan.published.checks import published
from netplan.published.measured_runs import (
    OWN,
    PAPERS,
    TITLE,
    RunErrors,
    TimedRun,
    error_checks,
    plan_time,
    run_errors,
    run_sections,
    timed_runs,
)
from netplan.records import replace
from netplan.reports.sections import Table, shown_in

GOLDEN = Path(__file__).parents[1] / "golden" / "calibrated_expected.csv"
STAGES = ("compute", "attention", "memory", "tensor_comm", "recompute", "host")
PARTS = ("bubble", "pipeline_comm", "data_comm", "optimizer", "fixed")


def golden() -> dict[str, dict[str, str]]:
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_every_run_takes_the_seconds_of_the_reference_part_by_part() -> None:
    """237 runs, the six parts of the stages summed; the reference is printed with six decimals."""
    expected, found = golden(), {}
    for row in published_rows():
        one = plan_time(published_run(row), OWN)
        parts = dict(one.breakdown_s)
        stages = sum(parts.pop(name) for name in STAGES)
        assert set(parts) == set(PARTS)
        found[row["id"]] = {"expected_s": one.iteration_time_s, "stages": stages} | parts
        assert sum(one.breakdown_s.values()) == pytest.approx(one.iteration_time_s, rel=1e-12)
    assert found.keys() == expected.keys()
    assert len(found) == 237
    for name, parts in found.items():
        known = {part: float(expected[name][part]) for part in parts}
        assert parts == pytest.approx(known, rel=1e-6, abs=6e-7), name


def test_one_tensor_gpu_has_no_sequence_parallelism_to_leave_out() -> None:
    """Its context ring runs in full when layers are computed again, as the reference has it."""
    row = next(row for row in published_rows() if row["id"] == "TITAN-8b-cp2-64k")
    run = published_run(row)
    assert run.degrees.tensor == 1
    assert not run.sequence_parallel
    asked = plan_time(replace(run, sequence_parallel=True), OWN)
    assert asked.breakdown_s == plan_time(run, OWN).breakdown_s


def test_runs_lie_as_they_were_made() -> None:
    for row in published_rows():
        run = published_run(row)
        levels, plan = as_it_lay(run)
        assert levels[0].size * levels[1].size == plan.gpus == run.degrees.gpus
        inside, outside = plan.placement.levels
        # What is outside one kind leaves no room inside for the next.
        room = run.hb_size // inside.tensor
        assert outside.tensor == 1
        assert inside.context * outside.context == run.degrees.context
        if run.degrees.context * run.degrees.data <= room:
            assert outside.data == outside.context == 1


@pytest.mark.parametrize(
    ("source", "runs", "mean", "most"),
    [
        ("BIGSCIENCE", 29, 2.7, 10.2),
        ("IBMFSDP", 8, 4.5, 11.5),
        ("KORTH", 7, 1.8, 3.5),
        ("LLMFOUNDRY", 31, 4.3, 27.3),
        ("MBRIDGE", 26, 3.3, 11.0),
        ("MLPERF", 16, 3.9, 8.1),
        ("NEMO2407", 11, 2.5, 5.6),
        ("TORCHTITAN", 17, 2.3, 7.4),
        ("ZEROBUBBLE", 36, 4.4, 9.5),
        ("all", 181, 3.5, 27.3),
    ],
)
def test_errors_are_those_of_the_fit(source: str, runs: int, mean: float, most: float) -> None:
    (found,) = [one for one in run_errors(timed_runs()).sources if one.source == source]
    errors = found.models[OWN]
    assert (found.runs, errors.runs) == (runs, runs)
    assert (round(100 * errors.mean, 1), round(100 * errors.largest, 1)) == (mean, most)
    assert errors.mean < min(found.models[paper].mean for paper in PAPERS)


def test_nine_of_ten_runs_lie_within_a_tenth() -> None:
    """98 % within 10 %, 73 % within 5 %; what is beyond is listed by name."""
    errors = [abs(one.error(OWN) or 0.0) for one in timed_runs() if one.use in SCORED]
    assert round(100 * sum(error <= 0.1 for error in errors) / len(errors)) == 98
    assert round(100 * sum(error <= 0.05 for error in errors) / len(errors)) == 73
    found = run_errors(timed_runs())
    assert len(found.far) == 4
    assert len(found.dev) == 10
    dev = [abs(one.error(OWN) or 0.0) for one in found.dev]
    assert (round(100 * sum(dev) / 10, 1), round(100 * max(dev), 1)) == (1.4, 3.3)


def slower(found: tuple[TimedRun, ...], factor: float, *, names: str = "") -> RunErrors:
    """Errors if some of the runs had taken so many times as long."""
    return run_errors(
        [
            replace(one, run=replace(one.run, seconds=factor * one.run.seconds))
            if names in one.run.name
            else one
            for one in found
        ]
    )


def test_what_is_too_far_off_fails() -> None:
    found = timed_runs()
    assert {check.verdict for check in error_checks(run_errors(found))} == {"pass", "known"}
    # Seven runs of one source 7 % slower: its mean and those named fail, that of all passes.
    checks = error_checks(slower(found, 1.07, names="KORTH"))
    failed = [one.name for one in checks if one.verdict == "fail"]
    named = [f"KORTH-{size}-selective, s" for size in ("22b", "175b", "530b")]
    assert failed == ["KORTH: mean error of 7 runs, %", *named]
    # All of them 5 % slower: the mean of all fails.
    failed = [one.name for one in error_checks(slower(found, 1.05)) if one.verdict == "fail"]
    assert "all: mean error of 181 runs, %" in failed
    # Half as fast as predicted: listed, whatever else fails.
    far = slower(found, 2.0, names="TITANA100-llama2-13b-none").far
    assert "TITANA100-llama2-13b-none" in [one.run.name for one in far]


def test_what_is_not_scored_says_why() -> None:
    left = run_errors(timed_runs()).not_scored
    assert sum(one.runs for one in left) == 56
    assert all(one.why for one in left)
    assert all(row["why"] for row in published("measured-runs") if row["use"] == "context")
    assert all(row["url"] for row in published("measured-runs"))


def test_the_section_has_every_source_beside_the_models_of_papers() -> None:
    tables = [one for one in run_sections(run_errors(timed_runs())) if isinstance(one, Table)]
    assert [one.title for one in tables] == [
        f"{TITLE}: mean errors",
        f"{TITLE} one by one",
        f"{TITLE} that are far off",
        f"{TITLE} that are not scored",
    ]
    assert len(tables[0].rows) == 9
    titles = [one.quantity.title for one in shown_in("narrow", tables[0].columns)]
    assert titles == ["source", "runs", "calibrated", "median", "most", "4d", "ptd-p"]
    assert [one.source for one in tables[0].closing] == ["all"]
