"""Checkpoints in closed form: how often to write one, and which share of the time then counts.

A job computes for an interval, writes a checkpoint, and so on. Failures are a Poisson process in
time that runs on through checkpoints and restarts; a failure loses all work since the last
finished checkpoint, and the job restarts after a fixed time.

========  ======================  =====================================
symbol    name                    meaning
========  ======================  =====================================
tau       ``interval_h``          computing between two checkpoints [h]
w         ``write_h``             writing one checkpoint [h]
R         ``restart_h``           from a failure to computing again [h]
M         ``mtbf_h``              mean time between failures [h]
========  ======================  =====================================

Sources: Young, CACM 17 (1974) 530; Daly, Future Generation Computer Systems 22 (2006) 303.
"""

from math import exp, expm1, inf, isfinite, sqrt

from msgspec import Struct
from scipy.special import lambertw

from netplan.errors import InputError

FAR = 700.0
"""Exponents above this leave the range of a float [1]."""

SHORT = 1e-8
"""Times to write, over those between failures, at which two formulas agree to 1e-12 [1]."""


class CheckpointTimes(Struct, frozen=True):
    """How a job saves its work; times as in the table above [h]."""

    interval_h: float
    write_h: float
    restart_h: float

    def __post_init__(self) -> None:
        """Refuse times that no job has.

        Raises
        ------
        InputError
            If the interval is not above 0, or another time is negative.
        """
        if not 0 < self.interval_h < inf:
            raise InputError(
                f"a checkpoint interval of {self.interval_h:g} h is out of range: give more than 0;"
                " daly_interval_h gives the best one"
            )
        for name, hours in (("checkpoint write", self.write_h), ("restart", self.restart_h)):
            if not 0 <= hours < inf:
                raise InputError(f"a {name} of {hours:g} h is out of range: give 0 or more")

    @property
    def cycle_h(self) -> float:
        """Interval and checkpoint together, tau + w [h]."""
        return self.interval_h + self.write_h


def young_interval_h(write_h: float, mtbf_h: float) -> float:
    """Interval after Young (1974), sqrt(2 w M), infinite without failures [h].

    Parameters
    ----------
    write_h
        Time to write one checkpoint, w [h].
    mtbf_h
        Mean time between failures, M, may be infinite [h].

    Returns
    -------
    float
        Interval, tau [h].

    Raises
    ------
    InputError
        If there is no time between failures, or the time to write is negative or infinite.

    References
    ----------
    Young, CACM 17 (1974) 530.

    Examples
    --------
    Five minutes to write, a failure a day:

    >>> round(60 * young_interval_h(5 / 60, 24))
    120
    """
    _check(write_h, mtbf_h)
    return inf if mtbf_h == inf else sqrt(2 * write_h * mtbf_h)


def daly_interval_h(write_h: float, mtbf_h: float) -> float:
    """Interval of higher order (Daly 2006, Eq. 37) [h].

    sqrt(2 w M) (1 + sqrt(w / 2M) / 3 + (w / 2M) / 9) - w for w < 2 M, and M above.

    Parameters
    ----------
    write_h
        Time to write one checkpoint, w [h].
    mtbf_h
        Mean time between failures, M, may be infinite [h].

    Returns
    -------
    float
        Interval, tau, infinite without failures [h].

    Raises
    ------
    InputError
        If there is no time between failures, or the time to write is negative or infinite.

    References
    ----------
    Daly, Future Generation Computer Systems 22 (2006) 303, Eq. 37.

    Examples
    --------
    Daly's Figures 3 to 5: 5 min to write, 24 h, 6 h and 15 min between failures.

    >>> [round(60 * daly_interval_h(5 / 60, hours), 1) for hours in (24, 6, 0.25)]
    [116.7, 56.7, 9.1]
    """
    _check(write_h, mtbf_h)
    if write_h >= 2 * mtbf_h or mtbf_h == inf:
        return mtbf_h
    ratio = write_h / (2 * mtbf_h)
    return sqrt(2 * write_h * mtbf_h) * (1 + sqrt(ratio) / 3 + ratio / 9) - write_h


def best_interval_h(write_h: float, mtbf_h: float) -> float:
    """Interval that minimises the exact run time, M (1 + W(-exp(-1 - w / M))) [h].

    W is the principal branch of Lambert's function; setting the derivative of
    (exp((tau + w) / M) - 1) / tau to zero leaves (1 - x) exp(x) = exp(-w / M) for x = tau / M.

    Parameters
    ----------
    write_h
        Time to write one checkpoint, w [h].
    mtbf_h
        Mean time between failures, M, may be infinite [h].

    Returns
    -------
    float
        Interval, tau, infinite without failures [h].

    Raises
    ------
    InputError
        If there is no time between failures, or the time to write is negative or infinite.

    Examples
    --------
    >>> [round(60 * best_interval_h(5 / 60, hours), 2) for hours in (24, 6, 0.25)]
    [116.69, 56.71, 9.17]
    """
    _check(write_h, mtbf_h)
    if write_h < SHORT * mtbf_h:
        # At its branch point W loses digits, and the higher order is exact to as many.
        return daly_interval_h(write_h, mtbf_h)
    return float(mtbf_h * (1 + lambertw(-exp(-1 - write_h / mtbf_h)).real))


def effective_time_ratio(job: CheckpointTimes, mtbf_h: float) -> float:
    """Share of the time that counts, to first order [1].

    (1 - (R + tau / 2) / M) / (1 + w / tau), and 0 where failures leave nothing. With N nodes that
    fail r times a node and hour, 1 / M = N r (arXiv:2410.21680).

    Parameters
    ----------
    job
        Interval, time to write and time to restart, tau, w and R [h].
    mtbf_h
        Mean time between failures, M, may be infinite [h].

    Returns
    -------
    float
        Share of the time, 0 to 1 [1].

    Raises
    ------
    InputError
        If there is no time between failures.

    Examples
    --------
    A failure each 10 h, 0.5 h to restart, 1 h between checkpoints of 0.02 h: 0.9 / 1.02.

    >>> round(effective_time_ratio(CheckpointTimes(1.0, 0.02, 0.5), 10.0), 4)
    0.8824
    """
    _check(job.write_h, mtbf_h)
    left = 1 - (job.restart_h + job.interval_h / 2) / mtbf_h
    return max(0.0, left) / (1 + job.write_h / job.interval_h)


def exact_time_ratio(job: CheckpointTimes, mtbf_h: float) -> float:
    """Share of the time that counts, exactly [1].

    tau / M x exp(-R / M) / (exp((tau + w) / M) - 1): from one failure to the next, M on average,
    the job finishes j intervals if R + j (tau + w) is past, with the probability of an exponential
    time; the sum over j is geometric.

    Parameters
    ----------
    job
        Interval, time to write and time to restart, tau, w and R [h].
    mtbf_h
        Mean time between failures, M, may be infinite [h].

    Returns
    -------
    float
        Share of the time, 0 to 1 [1].

    Raises
    ------
    InputError
        If there is no time between failures.

    Examples
    --------
    >>> round(exact_time_ratio(CheckpointTimes(1.0, 0.02, 0.5), 10.0), 4)
    0.8858
    """
    _check(job.write_h, mtbf_h)
    if mtbf_h == inf:
        return job.interval_h / job.cycle_h
    cycle = job.cycle_h / mtbf_h
    if cycle > FAR:
        return 0.0
    return job.interval_h / mtbf_h * exp(-job.restart_h / mtbf_h) / expm1(cycle)


def _check(write_h: float, mtbf_h: float) -> None:
    """Refuse times without a meaning."""
    if not mtbf_h > 0:
        raise InputError(f"{mtbf_h:g} h between failures are out of range: give more than 0")
    if write_h < 0 or not isfinite(write_h):
        raise InputError(f"a checkpoint write of {write_h:g} h is out of range: give 0 or more")
