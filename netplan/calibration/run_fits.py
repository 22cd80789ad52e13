"""Fits of iteration model ``calibrated`` to training runs, and what they say without some."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats
from netplan.calibration.fit import Fit, Fitted, Measurements, Priors, fit, fit_rows
from netplan.calibration.runs import Calibration, MeasuredRuns, Place, Scaling, places_of
from netplan.errors import CatalogError
from netplan.reports.sections import value_at


class TrainingProblem(Struct, frozen=True, eq=False):
    """Runs, and the numbers of a calibration that stand in them.

    A factor of a run is exp(x @ mask - offset), by the parameters' logarithms x.
    """

    runs: MeasuredRuns
    calibration: Calibration
    bases: Floats  # what the files say, shape (parameters,)
    priors: Priors
    masks: dict[str, Floats]  # by factor, shape (parameters, runs)
    offsets: dict[str, Floats]  # by factor, shape (runs,)

    @classmethod
    def of(cls, runs: MeasuredRuns, calibration: Calibration) -> "TrainingProblem":
        """Find out which number is where in which run.

        Raises
        ------
        CatalogError
            If a place of the calibration is none.
        """
        shape = len(calibration.parameters), len(runs.runs)
        masks = {name: np.zeros(shape) for name in Scaling._fields}
        offsets = {name: np.zeros(shape[1]) for name in Scaling._fields}
        bases, largest = np.ones(shape[0]), np.full(shape[0], np.inf)
        for row, parameter in enumerate(calibration.parameters):
            for value in parameter.values:
                for place, column, base in _uses(value, runs):
                    masks[place.factor][row, column] = 1.0
                    offsets[place.factor][column] += np.log(base)
                    bases[row], largest[row] = base, place.largest
        used = np.any([mask.any(axis=1) for mask in masks.values()], axis=0)
        kept = [
            parameter
            for parameter, is_used in zip(calibration.parameters, used, strict=True)
            if is_used
        ]
        bases, masks = bases[used], {name: mask[used] for name, mask in masks.items()}
        means = [parameter.prior or base for parameter, base in zip(kept, bases, strict=True)]
        priors = Priors(
            np.log(means), np.array([parameter.width for parameter in kept]), largest[used]
        )
        calibration = calibration.changed(parameters=tuple(kept))
        return cls(runs, calibration, bases, priors, masks, offsets)

    def seconds(self, logs: Floats) -> Floats:
        """Iteration times by the parameters' logarithms, shape (..., runs) [s]."""
        factors = {
            name: np.exp(logs @ mask - self.offsets[name]) for name, mask in self.masks.items()
        }
        return self.runs.seconds(Scaling(**factors))

    def fitted(self, kept: Bools | None = None) -> Fit:
        """Fit on all runs, or on those that are kept."""
        measured_s = self.runs.measured_s
        rows = np.arange(len(measured_s)) if kept is None else np.flatnonzero(kept)

        def predict(logs: Floats) -> Floats:
            log_times: Floats = np.log(self.seconds(logs)[..., rows])
            return log_times

        return fit(predict, measured_s[rows], self.priors, self.calibration.noise)

    def fitted_rows(self) -> Fitted:
        """Fit on all runs, and predict each by a fit without it."""
        runs = self.runs
        labels = tuple(run.name for run in runs.runs)
        places = tuple(run.source for run in runs.runs)
        rows = Measurements("iterations", labels, places, runs.measured_s)
        names = [parameter.values[0] for parameter in self.calibration.parameters]

        def predict(logs: Floats) -> Floats:
            log_times: Floats = np.log(self.seconds(logs))
            return log_times

        return fit_rows(rows, predict, names, self.priors, self.calibration.noise)

    def left_out(self, groups: Sequence[str]) -> Floats:
        """Iteration time of every run by a fit without its group, shape (runs,) [s]."""
        times_s, names = np.zeros(len(groups)), np.array(groups)
        for name in dict.fromkeys(groups):
            out = names == name
            times_s[out] = self.seconds(self.fitted(~out).logs)[out]
        return times_s


def _uses(address: str, runs: MeasuredRuns) -> Iterator[tuple[Place, int, float]]:
    """Where a number stands: its place, the run, and what the file says there."""
    name, _, key = address.partition(".")
    places = places_of(key)
    if not places:
        raise CatalogError(f"calibration: {address}: no number that can be fitted on runs")
    for column, run in enumerate(runs.runs):
        known: Mapping[str, object] = {
            run.accelerator.name: run.accelerator,
            run.stack.name: run.stack,
            "accelerator": run.accelerator,
            "stack": run.stack,
            "calibrated": {"calibration": runs.model},
        }
        for place in places if name in known else ():
            if place.applies(run):
                base = float(value_at(known[name], key))
                if base:  # nothing is a share of nothing
                    yield place, column, base
