"""Fits with priors: of logarithms of parameters, to what was measured.

With predictions p_i(x) of measured t_i and parameters exp(x_j), or x_j of those that may be below
0, the least of

    sum_i w_i s^2 rho((log p_i - log t_i)^2 / (s noise_i)^2)  +  sum_j (x_j - x0_j)^2 / width_j^2

is looked for, rho(z) = 2 (sqrt(1 + z) - 1): squares for small errors, absolute values for those of
more than s times the noise, so that single runs that went wrong do not bend all the rest. Weights
w are 1 where rows say as much as each other. Priors x0 say what is known beforehand, and how well.
A parameter that no row says anything about keeps its prior, and its standard deviation stays that
prior's width.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from scipy.optimize import least_squares

from netplan.arrays import Amount, Bools, Floats
from netplan.errors import InputError

Predict = Callable[[Floats], Floats]
"""Logarithms of predictions, shape (..., rows), by the x of parameters, (..., parameters)."""

STEP = 1e-5
"""Change of a logarithm by which slopes are found [1]."""

REFIT_STEPS, DAMPING, EASED, MOST_TRIES = 3, 0.1, 10.0, 12
"""Steps of a refit, by how much of the priors' curvature the first is held back, by what factor
more or less the next, and how often one is tried [1]."""

CHUNK = 1 << 13
"""Predictions that are made together: their arrays stay in the first cache [1]."""

SOFT = 0.7
"""Standard deviation, as a share of the prior's width, from which rows said little: they have not
halved the variance [1]."""


class Priors(NamedTuple):
    """What is known of parameters beforehand, each of shape (parameters,).

    Logarithms of their values, standard deviations of these, and the largest that they may be; of
    ``linear`` ones the values themselves.
    """

    logs: Floats
    widths: Floats
    largest: Floats
    linear: Bools | bool = False

    def values(self, logs: Floats) -> Floats:
        """Parameters by their logarithms."""
        return np.where(self.linear, logs, np.exp(np.where(self.linear, 0.0, logs)))


class Rows(NamedTuple):
    """What predictions are held to, each of shape (rows,).

    Parameters
    ----------
    measured
        What they should be, all of it above 0.
    noise
        Standard deviation of a row, as a share of it [1].
    weights
        How much a row says, those that are alike together as much as one [1].
    soft
        Multiples of the noise from which errors count less than their squares [1].
    """

    measured: Floats
    noise: Amount
    weights: Amount = 1.0
    soft: float = 1.0

    def take(self, kept: Bools) -> "Rows":
        """Some of the rows."""
        noise, weights = np.broadcast_arrays(self.noise, self.weights, self.measured)[:2]
        return self._replace(measured=self.measured[kept], noise=noise[kept], weights=weights[kept])

    @property
    def scale(self) -> Amount:
        """By which an error of a logarithm is multiplied: its square is what it counts [1]."""
        return np.sqrt(self.weights) / self.noise

    @property
    def bend(self) -> Amount:
        """Square from which errors count less [1]."""
        return self.weights * self.soft**2


class Fit(Struct, frozen=True, eq=False):
    """Parameters and their standard deviations, in logarithms, shape (parameters,) [1]."""

    logs: Floats
    deviations: Floats
    priors: Priors

    @property
    def values(self) -> Floats:
        """The parameters themselves."""
        return self.priors.values(self.logs)

    @property
    def undecided(self) -> Bools:
        """Parameters of which the rows say little."""
        return self.deviations > SOFT * self.priors.widths


def fit(predict: Predict, rows: Rows, priors: Priors) -> Fit:
    """Fit parameters to measured values.

    Parameters
    ----------
    predict
        Logarithms of predictions.
    rows
        What they should be.
    priors
        What is known of the parameters.

    Returns
    -------
    Fit
        Parameters and their standard deviations.

    Examples
    --------
    Two rows of a rate, seen as 2 and 8 times as long as at a rate of 1.

    >>> wide = Priors(np.zeros(1), np.full(1, 100.0), np.full(1, np.inf))
    >>> rows = Rows(np.array([2.0, 8.0]), noise=0.1)
    >>> fit(lambda x: -x + np.zeros(2), rows, wide).values.round(3)
    array([0.25])
    """
    logs, count, scale, bend = np.log(rows.measured), len(rows.measured), rows.scale, rows.bend

    def residuals(x: Floats) -> Floats:
        return np.concatenate([(predict(x) - logs) * scale, (x - priors.logs) / priors.widths])

    def slopes(x: Floats) -> Floats:
        return np.concatenate([slopes_of(predict, x).T * np.c_[scale], np.diag(1 / priors.widths)])

    def loss(squares: Floats) -> Floats:
        """Soft of the rows, plain of the priors, each with two derivatives."""
        rho = np.stack([squares, np.ones_like(squares), np.zeros_like(squares)])
        root = np.sqrt(1 + squares[:count] / bend)
        rho[:, :count] = 2 * bend * (root - 1), 1 / root, -0.5 / bend / root**3
        return rho

    top = np.where(priors.linear, priors.largest, np.log(priors.largest))
    start = np.minimum(priors.logs, top - STEP)
    least = np.full(len(start), -np.inf)
    solution = least_squares(residuals, start, jac=slopes, bounds=(least, top), loss=loss)
    jacobian = slopes(solution.x)
    softened = 1 / np.sqrt(1 + residuals(solution.x)[:count] ** 2 / bend)
    weights = np.concatenate([softened, np.ones(len(start))])
    spread = np.linalg.inv((jacobian * weights[:, None]).T @ jacobian)
    return Fit(solution.x, np.sqrt(np.diag(spread)), priors)


def slopes_of(predict: Predict, logs: Floats) -> Floats:
    """Slopes of logarithms of predictions, shape (parameters, rows)."""
    still = predict(logs)
    chunks = max(1, -(-len(logs) * len(still) // CHUNK))
    steps = np.array_split(STEP * np.eye(len(logs)), chunks)
    moved = np.concatenate([predict(logs + step) for step in steps])
    return np.asarray((moved - still) / STEP)


def refit(predict: Predict, rows: Rows, priors: Priors, start: Floats) -> Floats:
    """Move parameters that all rows were fitted to towards a fit of some of them.

    :data:`REFIT_STEPS` steps of Levenberg and Marquardt are taken, each of which weighs the rows by
    their errors, and is held back by :data:`DAMPING` of the priors' curvature at first. Parameters
    that trade off against each other would move on for dozens of steps, and predictions with them
    by less than their noise.

    Parameters
    ----------
    predict
        Logarithms of predictions.
    rows
        What they should be, without those that are left out.
    priors
        What is known of the parameters.
    start
        Logarithms of the parameters that all rows were fitted to.

    Returns
    -------
    Floats
        Those of the parameters where the last step ends.

    Examples
    --------
    A rate that was fitted as 1, of which two rows that are left say 0.25.

    >>> wide = Priors(np.zeros(1), np.full(1, 100.0), np.full(1, np.inf))
    >>> rows = Rows(np.array([4.0, 4.0]), noise=0.1)
    >>> float(np.exp(refit(lambda x: -x + np.zeros(2), rows, wide, np.zeros(1))[0]).round(3))
    0.25
    """
    logs, x, damping = np.log(rows.measured), start, DAMPING
    curvature = np.diag(1 / priors.widths**2)

    def cost(x: Floats) -> tuple[float, Floats, Floats]:
        """What is to be small, errors of rows, and how much each of these weighs."""
        errors = predict(x) - logs
        root = np.sqrt(1 + (errors * rows.scale) ** 2 / rows.bend)
        away = (x - priors.logs) / priors.widths
        total = float(np.sum(2 * rows.bend * (root - 1)) + np.sum(away**2))
        return total, errors, rows.scale**2 / root

    for _ in range(REFIT_STEPS):
        before, errors, weights = cost(x)
        slopes = slopes_of(predict, x)
        normal = (slopes * weights) @ slopes.T + curvature
        pull = slopes @ (weights * errors) + (x - priors.logs) / priors.widths**2
        for _ in range(MOST_TRIES):
            moved = x - np.linalg.solve(normal + damping * curvature, pull)
            if cost(moved)[0] < before:
                x, damping = moved, damping / EASED
                break
            damping *= EASED
    return x


ENDS = (0.05, 0.95)
"""Quantiles that a bar ends at [1]."""

NONSENSE = 100.0
"""Ratio of a measured time and the files' from which no fit makes sense [1]."""

FOLDS = 20
"""Most fits by which rows are predicted that were left out [1]."""


class Fitted(Struct, frozen=True, eq=False):
    """Numbers of one kind, fitted to measurements of one kind.

    Parameters
    ----------
    title
        What was measured.
    labels, measured_s
        The rows, and their times, shape (rows,) [s].
    before_s, after_s, left_out_s
        Their times as the files had it, by the fit, and by fits without the row [s].
    names, before
        The numbers, and what the files had, shape (parameters,).
    fit
        What they are now.
    """

    title: str
    labels: tuple[str, ...]
    measured_s: Floats
    before_s: Floats
    after_s: Floats
    left_out_s: Floats
    names: tuple[str, ...]
    before: Floats
    fit: Fit

    def error(self, predicted_s: Floats) -> float:
        """Mean of the absolute errors of predictions, such as ``left_out_s`` [1]."""
        return float(np.abs(predicted_s / self.measured_s - 1).mean())

    @property
    def values(self) -> dict[str, float]:
        """The numbers by their names."""
        return dict(zip(self.names, self.fit.values.tolist(), strict=True))


def only(predict: Predict, kept: Bools) -> Predict:
    """Predictions of some of the rows."""
    return lambda logs: predict(logs)[..., kept]


def quantile(ratios: Floats, weights: Floats, share: float) -> float:
    """What this share of runs is below, weights counted in their middle.

    Parameters
    ----------
    ratios
        Measured over predicted times, shape (runs,) [1].
    weights
        How much each run says [1].
    share
        The share [1].

    Returns
    -------
    float
        Between two runs by the logarithm [1].

    Examples
    --------
    >>> round(quantile(np.array([1.0, 1.21]), np.ones(2), 0.5), 3)
    1.1
    """
    order = np.argsort(ratios)
    middles = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.exp(np.interp(share, middles / weights.sum(), np.log(ratios[order]))))


class Measurements(NamedTuple):
    """Rows of one kind: what was measured, name and file of each, its time, shape (rows,) [s]."""

    title: str
    labels: tuple[str, ...]
    places: tuple[str, ...]
    seconds: Floats


def fit_rows(
    measurements: Measurements,
    predict: Predict,
    names: Sequence[str],
    priors: Priors,
    rows: Rows,
    alike: Sequence[int] = (),
) -> Fitted:
    """Fit numbers to rows, and predict each row by fits without it and what is ``alike``.

    Of more groups than :data:`FOLDS` every n-th is left out at once; without groups each row is
    one. The priors are around what the files have.

    Raises
    ------
    InputError
        If a time is far from what the files say.
    """
    measured_s = measurements.seconds
    before_s = np.exp(predict(priors.logs))
    ratios = zip(measurements.places, measurements.labels, measured_s / before_s, strict=True)
    for place, label, ratio in ratios:  # far from what the files say, as times in another unit are
        if not 1 / NONSENSE < ratio < NONSENSE:
            raise InputError(
                f"{place}: {label}: the time is {ratio:.2g} times what the files say: is it of"
                " this accelerator, and in seconds?"
            )
    fitted = fit(predict, rows, priors)
    group = np.array(alike or range(len(measured_s))) % FOLDS
    left_out = np.zeros(len(measured_s))
    for index in range(group.max() + 1):
        kept = group != index
        without = fit(only(predict, kept), rows.take(kept), priors)
        left_out[~kept] = predict(without.logs)[~kept]
    times = (before_s, np.exp(predict(fitted.logs)), np.exp(left_out))
    measured = measurements.title, measurements.labels, measured_s
    return Fitted(*measured, *times, tuple(names), priors.values(priors.logs), fitted)
