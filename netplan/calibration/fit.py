"""Fits with priors: of logarithms of parameters, to what was measured.

With predictions p_i(x) of measured t_i and parameters exp(x_j), the least of

    sum_i rho((log p_i - log t_i)^2 / noise^2)  +  sum_j (x_j - x0_j)^2 / width_j^2

is looked for, rho(z) = 2 (sqrt(1 + z) - 1): squares for small errors, absolute values for large
ones, so that single runs that went wrong do not bend all the rest. Priors x0 say what is known
beforehand, and how well. A parameter that no row says anything about keeps its prior, and its
standard deviation stays that prior's width.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from scipy.optimize import least_squares

from netplan.arrays import Bools, Floats
from netplan.errors import InputError

Predict = Callable[[Floats], Floats]
"""Logarithms of predictions, shape (..., rows), by those of parameters, (..., parameters)."""

STEP = 1e-5
"""Change of a logarithm by which slopes are found [1]."""

SOFT = 0.7
"""Standard deviation, as a share of the prior's width, from which rows said little: they have not
halved the variance [1]."""


class Priors(NamedTuple):
    """What is known of parameters beforehand, each of shape (parameters,).

    Logarithms of their values, standard deviations of these, and the largest that they may be.
    """

    logs: Floats
    widths: Floats
    largest: Floats


class Fit(Struct, frozen=True, eq=False):
    """Parameters and their standard deviations, in logarithms, shape (parameters,) [1]."""

    logs: Floats
    deviations: Floats
    priors: Priors

    @property
    def values(self) -> Floats:
        """The parameters themselves."""
        return np.exp(self.logs)

    @property
    def undecided(self) -> Bools:
        """Parameters of which the rows say little."""
        return self.deviations > SOFT * self.priors.widths


def fit(predict: Predict, measured: Floats, priors: Priors, noise: float) -> Fit:
    """Fit parameters to measured values, all of them above 0.

    Parameters
    ----------
    predict
        Logarithms of predictions.
    measured
        What they should be, shape (rows,).
    priors
        What is known of the parameters.
    noise
        Standard deviation of a row, as a share of it [1].

    Examples
    --------
    Two rows of a rate, seen as 2 and 8 times as long as at a rate of 1.

    >>> wide = Priors(np.zeros(1), np.full(1, 100.0), np.full(1, np.inf))
    >>> found = fit(lambda x: -x + np.zeros(2), np.array([2.0, 8.0]), wide, noise=0.1)
    >>> found.values.round(3)
    array([0.25])
    """
    logs, rows = np.log(measured), len(measured)

    def residuals(x: Floats) -> Floats:
        return np.concatenate([(predict(x) - logs) / noise, (x - priors.logs) / priors.widths])

    def slopes(x: Floats) -> Floats:
        change = predict(x + STEP * np.eye(len(x))) - predict(x)
        return np.concatenate([change.T / STEP / noise, np.diag(1 / priors.widths)])

    def loss(squares: Floats) -> Floats:
        """Soft of the rows, plain of the priors, each with two derivatives."""
        rho = np.stack([squares, np.ones_like(squares), np.zeros_like(squares)])
        root = np.sqrt(1 + squares[:rows])
        rho[:, :rows] = 2 * (root - 1), 1 / root, -0.5 / root**3
        return rho

    top = np.log(priors.largest)
    start = np.minimum(priors.logs, top - STEP)
    least = np.full(len(start), -np.inf)
    solution = least_squares(residuals, start, jac=slopes, bounds=(least, top), loss=loss)
    jacobian = slopes(solution.x)
    weights = np.concatenate(
        [1 / np.sqrt(1 + residuals(solution.x)[:rows] ** 2), np.ones(len(start))]
    )
    spread = np.linalg.inv((jacobian * weights[:, None]).T @ jacobian)
    return Fit(solution.x, np.sqrt(np.diag(spread)), priors)


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


def _only(predict: Predict, kept: Bools) -> Predict:
    """Predictions of some of the rows."""
    return lambda logs: predict(logs)[..., kept]


class Measurements(NamedTuple):
    """Rows of one kind: what was measured, name and file of each, its time, shape (rows,) [s]."""

    title: str
    labels: tuple[str, ...]
    places: tuple[str, ...]
    seconds: Floats

    def refuse_nonsense(self, before_s: Floats) -> None:
        """Refuse times that are far from what the files say, as those in another unit are."""
        ratios = self.seconds / before_s
        for place, label, ratio in zip(self.places, self.labels, ratios, strict=True):
            if not 1 / NONSENSE < ratio < NONSENSE:
                raise InputError(
                    f"{place}: {label}: the time is {ratio:.2g} times what the files say: is it of"
                    " this accelerator, and in seconds?"
                )


def fit_rows(
    rows: Measurements, predict: Predict, names: Sequence[str], priors: Priors, noise: float
) -> Fitted:
    """Fit numbers to rows, and predict each row by fits without it.

    Of more rows than :data:`FOLDS` every n-th is left out at once. The priors are around what the
    files have.

    Raises
    ------
    InputError
        If a time is far from what the files say.
    """
    measured_s = rows.seconds
    rows.refuse_nonsense(np.exp(predict(priors.logs)))
    fitted = fit(predict, measured_s, priors, noise)
    group = np.arange(len(measured_s)) % FOLDS
    left_out = np.zeros(len(measured_s))
    for index in range(group.max() + 1):
        without = fit(_only(predict, group != index), measured_s[group != index], priors, noise)
        left_out[group == index] = predict(without.logs)[group == index]
    times = (np.exp(predict(priors.logs)), np.exp(predict(fitted.logs)), np.exp(left_out))
    before = np.exp(priors.logs)
    return Fitted(rows.title, rows.labels, measured_s, *times, tuple(names), before, fitted)
