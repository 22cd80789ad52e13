"""Published runs as arrays: the times that an independent implementation gives them."""

import csv
from pathlib import Path

import numpy as np
import pytest

from netplan.calibration.published import published_runs
from netplan.calibration.runs import MeasuredRuns, Scaling
from netplan.performance.iteration_model import ITERATION_MODELS

EXPECTED = Path(__file__).parents[1] / "golden" / "calibrated_expected.csv"


@pytest.fixture(scope="module")
def runs() -> MeasuredRuns:
    part = ITERATION_MODELS.load("calibrated").calibration
    assert part is not None
    return MeasuredRuns.of(published_runs(scored=False), part)


def test_every_published_run_takes_what_the_reference_says(runs: MeasuredRuns) -> None:
    with EXPECTED.open(encoding="utf-8", newline="") as file:
        expected = {row["id"]: float(row["expected_s"]) for row in csv.DictReader(file)}
    assert [one.name for one in runs.runs] == list(expected)
    np.testing.assert_allclose(runs.seconds(), list(expected.values()), rtol=1e-6)


def test_factors_broadcast_and_act_where_they_belong(runs: MeasuredRuns) -> None:
    slower = Scaling(products=np.array([[1.0], [0.5]]))
    both = runs.seconds(slower)
    assert both.shape == (2, len(runs.runs))
    np.testing.assert_array_equal(both[0], runs.seconds())
    assert np.all(both[1] > both[0])
    # The fixed time of an iteration is added once: twice of 33 ms is 33 ms more.
    np.testing.assert_allclose(runs.seconds(Scaling(iteration_s=2.0)) - runs.seconds(), 0.033)
