"""Published runs as arrays: the times that an independent implementation gives them."""

import csv
from pathlib import Path

import numpy as np
import pytest

from netplan.calibration.dated_runs import DatedRuns
from netplan.calibration.published import published_runs
from netplan.calibration.runs import MeasuredRuns
from netplan.performance.iteration_model import ITERATION_MODELS

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def runs() -> MeasuredRuns:
    part = ITERATION_MODELS.load("calibrated").calibration
    assert part is not None
    return MeasuredRuns.of(published_runs(scored=False), part)


def test_every_published_run_takes_what_the_reference_says(runs: MeasuredRuns) -> None:
    expected = expected_s("calibrated_expected", "expected_s")
    assert [run.name for run in runs.runs] == list(expected)
    np.testing.assert_allclose(runs.seconds(), list(expected.values()), rtol=1e-6)


def test_every_run_of_dated_software_takes_what_the_reference_says() -> None:
    part = ITERATION_MODELS.load("calibrated").calibration
    assert part is not None
    runs = DatedRuns.of(published_runs("dated-runs", scored=False), part)
    expected = expected_s("dated_expected", "predicted_s")
    assert [run.name for run in runs.runs] == list(expected)
    np.testing.assert_allclose(runs.seconds(), list(expected.values()), rtol=0, atol=1e-6)


def expected_s(table: str, column: str) -> dict[str, float]:
    """Iteration times of an independent implementation, by run [s]."""
    with (GOLDEN / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: float(row[column]) for row in csv.DictReader(file)}


def test_quantities_broadcast_and_act_where_they_belong(runs: MeasuredRuns) -> None:
    rate = runs.quantities["product_flops_per_s"]
    both = runs.seconds({"product_flops_per_s": rate * np.array([[1.0], [0.5]])})
    assert both.shape == (2, len(runs.runs))
    np.testing.assert_array_equal(both[0], runs.seconds())
    assert np.all(both[1] > both[0])
    # The fixed time of an iteration is added once: twice of 33 ms is 33 ms more.
    twice = {"iteration_s": 2 * runs.quantities["iteration_s"]}
    np.testing.assert_allclose(runs.seconds(twice) - runs.seconds(), 0.033)
