"""Checks of iteration model ``calibrated`` on sources that it was not fitted to.

All runs of one source are left out, the fitted numbers are fitted again on the rest, from priors
that no run has shaped (`traffic/calibrations/published.yaml`), and the runs left out are predicted:
what the model says of software and clusters that nobody has calibrated it on.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.calibration.published import published_runs
from netplan.calibration.run_fits import TrainingProblem
from netplan.calibration.runs import CALIBRATIONS, Runs
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.published.checks import Check, check

SOURCE = "Published training runs, each source left out of the fit"
REASON = (
    "priors of the refitted numbers are netplan's choice, made when the numbers fitted on all runs"
    " were known (traffic/calibrations/published.yaml)"
)
SOURCE_MEAN, MEAN = 0.10, 0.065
"""Mean errors from which a check fails: of one source, and of all runs [1]."""


class LeftOut(Struct, frozen=True):
    """A source that was left out, and the errors of its runs, shape (runs,) [1]."""

    source: str
    errors: Floats

    @property
    def mean(self) -> float:
        """Mean of the absolute errors [1]."""
        return float(np.abs(self.errors).mean())

    @property
    def largest(self) -> float:
        """The largest absolute error [1]."""
        return float(np.abs(self.errors).max())


def sources_left_out(width: float = 1.0) -> list[LeftOut]:
    """Errors of every source by a fit to all others; widths of the priors may be changed."""
    part = ITERATION_MODELS.load("calibrated").calibration
    if part is None:
        return []
    calibration = CALIBRATIONS.load("published")
    parameters = (one.changed(width=width * one.width) for one in calibration.parameters)
    runs = Runs.of(published_runs(), part)
    problem = TrainingProblem.of(runs, calibration.changed(parameters=tuple(parameters)))
    sources = [one.source for one in runs.runs]
    errors, named = problem.left_out(sources) / runs.measured_s - 1, np.array(sources)
    return [LeftOut(name, errors[named == name]) for name in dict.fromkeys(sources)]


def left_out_checks() -> Iterator[Check]:
    """Mean error of each source, and of all."""
    found = sources_left_out()
    for one in found:
        name = f"{one.source}: mean error of {len(one.errors)} runs, all others fitted"
        yield _at_most(name, one.mean, SOURCE_MEAN)
    whole = LeftOut("all", np.concatenate([one.errors for one in found]))
    yield _at_most(f"mean error of all {len(whole.errors)} runs", whole.mean, MEAN)


def _at_most(name: str, error: float, limit: float) -> Check:
    expected, got = f"at most {100 * limit:g} %", f"{100 * error:.1f} %"
    return check(name, SOURCE, expected, got, REASON, holds=error <= limit)
