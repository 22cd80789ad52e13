"""Fits to training runs: known numbers are found again, and what documents print is true."""

import re
from pathlib import Path

import numpy as np
import pytest

from netplan.calibration.dated_runs import DatedRuns
from netplan.calibration.fit import Priors, Rows, fit, refit
from netplan.calibration.published import published_runs
from netplan.calibration.run_fits import TrainingProblem, series_weights
from netplan.calibration.runs import CALIBRATIONS, MeasuredRuns
from netplan.errors import CatalogError
from netplan.performance.dated.numbers import ByGeneration, DatedJitter
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.published.measured_runs import sources_left_out
from netplan.records import replace

REPORTS = Path(__file__).parents[2] / "reports" / "README.md"


@pytest.fixture(scope="module")
def problem() -> TrainingProblem:
    part = ITERATION_MODELS.load("calibrated").calibration
    assert part is not None
    return TrainingProblem.of(
        MeasuredRuns.of(published_runs(), part), CALIBRATIONS.load("published")
    )


def test_no_fitted_number_of_the_files_is_far_from_the_fit(problem: TrainingProblem) -> None:
    assert len(problem.bases) == 28
    found = problem.fitted()
    # Files have rounded values, from other priors; they lie within two standard deviations.
    away = np.abs(found.logs - np.log(problem.bases)) / found.deviations
    assert away.max() < 2, dict(zip(problem.calibration.parameters, away, strict=True))
    errors = problem.seconds(found.logs) / problem.runs.measured_s - 1
    assert np.abs(errors).mean() < 0.035


def test_numbers_that_made_runs_are_found_again(problem: TrainingProblem) -> None:
    rng = np.random.default_rng(1)
    true = problem.priors.logs + 0.5 * problem.priors.widths * rng.uniform(-1, 0, 28)
    made_s = problem.seconds(true) * np.exp(0.002 * rng.standard_normal(181))
    made = replace(problem, runs=replace(problem.runs, measured_s=made_s))
    exact = replace(made, calibration=problem.calibration.changed(noise=0.002))
    found = exact.fitted()
    told = found.deviations < 0.05
    assert told.sum() >= 20
    np.testing.assert_allclose(found.logs[told], true[told], atol=0.1)


def test_a_fit_follows_many_rows_not_one_that_went_wrong() -> None:
    measured = np.array([2.0, 2.0, 2.0, 2.0, 20.0])
    wide = Priors(np.zeros(2), np.array([10.0, 0.3]), np.full(2, np.inf))
    found = fit(lambda x: x[..., :1] + np.zeros(5), Rows(measured, 0.05), wide)
    np.testing.assert_allclose(found.values[0], 2, rtol=0.03)
    # The second number stands in no row: it keeps its prior and its width.
    np.testing.assert_allclose(found.values[1], 1)
    np.testing.assert_allclose(found.deviations[1], 0.3)
    assert found.undecided.tolist() == [False, True]


def test_largest_values_are_kept() -> None:
    shares = Priors(np.log([0.9]), np.full(1, 1.0), np.ones(1))
    found = fit(lambda x: x[..., :1] + np.zeros(3), Rows(np.full(3, 4.0), 0.05), shares)
    np.testing.assert_allclose(found.values, 1, rtol=1e-6)


def test_a_place_that_is_none_is_refused(problem: TrainingProblem) -> None:
    first = problem.calibration.parameters[0].changed(values=("h200.memory_bytes",))
    with pytest.raises(CatalogError, match=r"h200\.memory_bytes: no number that can be fitted"):
        TrainingProblem.of(problem.runs, problem.calibration.changed(parameters=(first,)))


@pytest.mark.parametrize(("width", "title"), [(0.5, "half"), (1.0, "stated"), (2.0, "twice")])
def test_the_documents_print_errors_without_a_source(width: float, title: str) -> None:
    text = REPORTS.read_text("utf-8")
    rows = re.findall(r"^\| ([\w ]+) \| (\d+) \| ([\d. |]+) \|$", text, re.MULTILINE)
    place = ["stated", "largest", "half", "twice"].index(title)
    printed = {name: [float(one) for one in cells.split(" | ")] for name, _, cells in rows}
    found = sources_left_out(width)
    means = {source: errors.mean() for source, errors in found.items()}
    means["all"] = np.concatenate([*found.values()]).mean()
    assert printed.keys() == means.keys()
    for name, mean in means.items():
        assert abs(printed[name][place] - 100 * mean) < 0.11, name
    if title == "stated":
        for source, errors in found.items():
            assert abs(printed[source][1] - 100 * errors.max()) < 0.11, source


@pytest.fixture(scope="module")
def dated() -> TrainingProblem:
    part = ITERATION_MODELS.load("calibrated").calibration
    assert part is not None
    return TrainingProblem.of(
        DatedRuns.of(published_runs("dated-runs"), part), CALIBRATIONS.load("dated")
    )


def test_files_have_the_fit_of_all_runs_under_software_of_a_date(dated: TrainingProblem) -> None:
    """No force is left on any number: neither rows nor priors pull at what the files have."""
    assert len(CALIBRATIONS.load("dated").parameters) == 75
    assert (
        len(dated.bases) == 70
    )  # two of an H200, two of torch's stacks and their fp8 have no runs
    near = refit(dated.log_seconds, dated.rows, dated.priors, dated.start)
    away = np.abs(near - dated.start) / dated.priors.widths
    assert away.max() < 0.01
    # 352 rows are 238 plans: one on 8 to 2,048 GPUs counts once.
    assert len(dated.runs.runs) == 352
    assert series_weights(dated.runs.runs).sum() == pytest.approx(238)


def test_numbers_of_software_of_a_date_stand_where_their_files_have_them(
    dated: TrainingProblem,
) -> None:
    """Every number, 1 % larger in its file, does to every run what the fit says."""
    part = dated.runs.model
    assert part.dated is not None
    sinks = part.dated.changed(attention=part.dated.attention.changed(sinks=0.2))
    drift = part.dated.changed(
        drift=part.dated.drift.changed(moe=ByGeneration(hopper=0.1, blackwell=0.2))
    )
    jitter = part.dated.changed(jitter=DatedJitter(bf16=0.01, low=0.02))
    moved = {
        "attention.sinks": (sinks, np.log(0.2)),
        "drift.moe.hopper": (drift, 0.1),
        "drift.moe.blackwell": (drift, 0.2),
        "jitter.bf16": (jitter, 0.01),
        "jitter.low": (jitter, 0.02),
    }
    names = [one.values[0] for one in dated.calibration.parameters]
    runs = [*dated.runs.runs]
    for numbers in (sinks, drift, jitter):
        logs = dated.start.copy()
        for key, (changed, value) in moved.items():
            if changed is numbers:
                logs[names.index(f"calibrated.calibration.dated.{key}")] = value
        exact = DatedRuns.of(runs, part.changed(dated=numbers)).seconds()
        assert np.abs(exact / dated.runs.seconds() - 1).max() > 0.005
        np.testing.assert_allclose(dated.seconds(logs), exact, rtol=1e-6)
