"""Fits of iteration model ``calibrated`` to training runs, and what they say without some.

Which number of the files stands where in which run is asked of the reader of these files: a number
is made a little larger, and what that does to rates and shares of a run (`quantities_of`) says how
they follow from it. All of them are products of powers of the numbers, or sums where a number may
be 0.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats
from netplan.calibration import fit
from netplan.calibration.dated_runs import DatedRuns
from netplan.calibration.runs import (
    Calibration,
    MeasuredRun,
    MeasuredRuns,
    Parameter,
    quantities_of,
)
from netplan.errors import CatalogError
from netplan.performance.calibrated_run import CalibrationPart
from netplan.performance.dated.run import model_kind
from netplan.progress import with_progress
from netplan.records import replace, value_at

Runs = MeasuredRuns | DatedRuns

LARGER = 1e-3
"""By how much a number is made larger to see what follows from it [1]."""
SHARED = {"accelerator": "training.", "stack": "", "calibrated": "calibration."}
"""What numbers of files can be fitted on runs: keys that begin so."""
ADDED = ("jitter",)
"""Quantities that are sums of numbers, and no products."""


class TrainingProblem(Struct, frozen=True, eq=False):
    """Runs, and the numbers of a calibration that stand in them.

    A quantity of a run is exp(x @ slopes - offset) times what the files make of it, by the
    parameters' x: their logarithms, or the values of those that may be 0.
    """

    runs: Runs
    calibration: Calibration
    bases: Floats  # what the files say, shape (parameters,)
    priors: fit.Priors
    slopes: dict[str, Floats]  # by quantity, shape (parameters, runs)
    offsets: dict[str, Floats]  # by quantity, shape (runs,)

    @classmethod
    def of(cls, runs: Runs, calibration: Calibration) -> "TrainingProblem":
        """Find out which number is where in which run.

        Parameters
        ----------
        runs
            What was measured.
        calibration
            What is fitted; numbers that act on no run are left out.

        Returns
        -------
        TrainingProblem
            The numbers that act on some run, and how.

        Raises
        ------
        CatalogError
            If a place of the calibration is none.
        """
        shape = len(calibration.parameters), len(runs.runs)
        slopes = {name: np.zeros(shape) for name in runs.quantities}
        offsets = {name: np.zeros(shape[1]) for name in runs.quantities}
        bases, machines = np.ones(shape[0]), _machines(runs.runs)
        for row, parameter in enumerate(calibration.parameters):
            for address in parameter.values:
                for columns, base, moved in _moves(address, parameter, machines, runs.model):
                    bases[row] = base
                    for name, slope in moved.items():
                        slopes[name][row, columns] += slope
                        offsets[name][columns] += slope * _x(parameter, base)
        used = np.any([slope.any(axis=1) for slope in slopes.values()], axis=0)
        pairs = zip(calibration.parameters, used, strict=True)
        kept = tuple(parameter for parameter, is_used in pairs if is_used)
        bases, moving = bases[used], {name: slope[used] for name, slope in slopes.items()}
        means = [
            base if parameter.prior is None else parameter.prior
            for parameter, base in zip(kept, bases, strict=True)
        ]
        priors = fit.Priors(
            np.array([_x(parameter, mean) for parameter, mean in zip(kept, means, strict=True)]),
            np.array([parameter.width for parameter in kept]),
            np.array([parameter.largest or np.inf for parameter in kept]),
            np.array([parameter.scale == "lin" for parameter in kept]),
        )
        moving = {name: slope for name, slope in moving.items() if slope.any()}
        left = calibration.changed(parameters=kept)
        problem = cls(runs, left, bases, priors, moving, offsets)
        # What stands in a run need not act on its time: nobody's experts wait for a dense model.
        slopes_s = fit.slopes_of(problem.log_seconds, problem.start)
        acting = np.asarray(slopes_s.any(axis=1))
        if acting.all():
            return problem
        return cls.of(runs, left.changed(parameters=tuple(itertools.compress(kept, acting))))

    @property
    def start(self) -> Floats:
        """What the files say, as parameters are fitted: logarithms, or values."""
        parameters = zip(self.calibration.parameters, self.bases, strict=True)
        return np.array([_x(parameter, base) for parameter, base in parameters])

    def seconds(self, logs: Floats) -> Floats:
        """Iteration times by the parameters' logarithms, shape (..., runs) [s]."""
        changed = {}
        for name, slope in self.slopes.items():
            acting = slope.any(axis=1)  # few numbers act on a quantity
            more = logs[..., acting] @ slope[acting] - self.offsets[name]
            base = self.runs.quantities[name]
            changed[name] = base + more if name in ADDED else base * np.exp(more)
        return self.runs.seconds(changed)

    def log_seconds(self, logs: Floats) -> Floats:
        """Their logarithms."""
        return np.asarray(np.log(self.seconds(logs)))

    @property
    def rows(self) -> fit.Rows:
        """What predictions of the runs are held to."""
        calibration, runs = self.calibration, self.runs.runs
        sparse = np.array([model_kind(run.model) != "dense" for run in runs])
        noise = np.where(sparse, calibration.sparse_noise or calibration.noise, calibration.noise)
        weights = series_weights(runs) if calibration.in_series else np.ones(len(runs))
        return fit.Rows(self.runs.measured_s, noise, weights, calibration.soft)

    def fitted(self, kept: Bools | None = None) -> fit.Fit:
        """Fit on all runs, or on those that are kept."""
        if kept is None:
            return fit.fit(self.log_seconds, self.rows, self.priors)
        return fit.fit(fit.only(self.log_seconds, kept), self.rows.take(kept), self.priors)

    def fitted_rows(self) -> fit.Fitted:
        """Fit on all runs, and predict each by a fit without it and others of its plan.

        Runs that differ in their number of GPUs alone would say of each other what a plan of yours,
        which nobody has run, does not get said.
        """
        runs = self.runs
        plans = [_plan(run) for run in runs.runs]
        alike = [[*dict.fromkeys(plans)].index(plan) for plan in plans]
        labels = tuple(run.name for run in runs.runs)
        places = tuple(run.source for run in runs.runs)
        rows = fit.Measurements("iterations", labels, places, runs.measured_s)
        names = [parameter.values[0] for parameter in self.calibration.parameters]
        return fit.fit_rows(rows, self.log_seconds, names, self.priors, self.rows, alike)

    def left_out(self, groups: Sequence[str], *, near: bool = False) -> Floats:
        """Iteration time of every run without its group, shape (runs,) [s].

        Parameters
        ----------
        groups
            The group of each run.
        near
            Whether numbers move from the files' by a few steps (`netplan.calibration.fit.refit`);
            else they are fitted anew.
        """
        times_s, names = np.zeros(len(groups)), np.array(groups)
        for name in with_progress(sorted(set(groups)), str):
            out = names == name
            if near:
                rows = self.rows.take(~out)
                logs = fit.refit(fit.only(self.log_seconds, ~out), rows, self.priors, self.start)
            else:
                logs = self.fitted(~out).logs
            times_s[out] = self.seconds(logs)[out]
        return times_s


def series_weights(runs: Sequence[MeasuredRun]) -> Floats:
    """How much each run says: those that differ in replicas alone say as much as one [1].

    Parameters
    ----------
    runs
        Of any sources.

    Returns
    -------
    Floats
        1 over the number of runs of the same source and plan, shape (runs,).
    """
    plans = [_plan(run) for run in runs]
    return np.array([1 / plans.count(plan) for plan in plans])


def _plan(run: MeasuredRun) -> object:
    """A run of a source but for its number of replicas and of microbatches."""
    return (
        *(run.source, run.model.name, run.model.sequence_length, run.accelerator.name),
        *(run.precision, run.detail, str(run.again), run.recompute, run.recipe),
        run.degrees._replace(data=1, microbatches=1),
    )


def _x(parameter: Parameter, value: float) -> float:
    """A value as it is fitted."""
    return value if parameter.scale == "lin" else float(np.log(value))


_Machines = Mapping[object, tuple[MeasuredRun, list[int]]]
"""Runs by all that numbers of files act on: one of them, and the columns of all."""


def _machines(runs: Sequence[MeasuredRun]) -> _Machines:
    machines: dict[object, tuple[MeasuredRun, list[int]]] = {}
    for column, run in enumerate(runs):
        alike = (
            *(run.accelerator.name, run.stack, run.precision, run.detail, run.recipe),
            *(model_kind(run.model), run.tensor_overlap, run.network_kind, run.zero_stage),
        )
        machines.setdefault(alike, (run, []))[1].append(column)
    return machines


def _moves(
    address: str, parameter: Parameter, machines: _Machines, part: CalibrationPart
) -> Iterator[tuple[list[int], float, dict[str, float]]]:
    """What a number does to runs: columns, what the file says, and slopes of quantities."""
    role, _, key = address.partition(".")
    for run, columns in machines.values():
        known: dict[str, tuple[str, Any]] = {
            run.accelerator.name: ("accelerator", run.accelerator),
            run.stack.name: ("stack", run.stack),
            "accelerator": ("accelerator", run.accelerator),
            "stack": ("stack", run.stack),
            "calibrated": ("calibrated", {"calibration": part}),
        }
        if role not in known:
            continue
        which, record = known[role]
        base = _number(record, key) if key.startswith(SHARED[which]) else None
        if base is None:
            raise CatalogError(f"calibration: {address}: no number that can be fitted on runs")
        if base == 0 and parameter.scale == "log":  # nothing is a share of nothing
            continue
        moved = base + LARGER if parameter.scale == "lin" else base * (1 + LARGER)
        step = _x(parameter, moved) - _x(parameter, base)
        changed = _with(record, key, moved)
        before = quantities_of(run, part)
        if which == "calibrated":
            after = quantities_of(run, changed["calibration"])
        else:
            after = quantities_of(replace(run, **{which: changed}), part)
        slopes = {}
        for name, value in before.items():
            if after[name] != value:  # those that follow the step
                more = after[name] - value if name in ADDED else np.log(after[name] / value)
                slopes[name] = float(round(more / step, 9))
        yield columns, base, slopes


def _number(record: object, key: str) -> float | None:
    """A number of a record, 0 of one that is not given; None if there is no such key."""
    try:
        value = value_at(record, key)
    except AttributeError:
        return None
    return value if isinstance(value, int | float) else 0.0 if value is None else None


def _with(record: Any, key: str, value: float) -> Any:  # noqa: ANN401 - of any kind
    """The record with another number at a dotted path of fields and keys."""
    name, _, rest = key.partition(".")
    inner = _with(value_at(record, name), rest, value) if rest else value
    if isinstance(record, Mapping):
        return {**record, name: inner}
    return replace(record, **{name: inner})
