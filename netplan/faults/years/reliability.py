"""Reliability in closed form: time between failures, parts that are up, spares, cost of idling.

Failures of a unit are a Poisson process of constant rate, and units fail independently of one
another; risk groups and everything that depends on the order of events are simulated
(:mod:`netplan.faults.years.outages`). Rates are per unit and year of 8,760 h.
"""

from collections.abc import Mapping, Sequence
from math import ceil, exp, isfinite, log1p, sqrt

import numpy as np

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.units import HOURS_PER_YEAR


def check_probability(name: str, value: float) -> float:
    """Refuse a value that is no probability; a percentage is the usual slip.

    Raises
    ------
    InputError
        If the value is below 0 or above 1.
    """
    if not 0 <= value <= 1:
        raise InputError(
            f"{name} is a probability, got {value:g}: give 0 to 1, and divide a percentage by 100"
        )
    return value


def interruptions_per_year(
    rates_per_year: Sequence[float], counts: Sequence[int], shares: Sequence[float] | None = None
) -> float:
    """Failures a year that stop a job: the sum of rate, count and share over all causes.

    Parameters
    ----------
    rates_per_year
        Failures of one unit, by cause [1/year].
    counts
        Units that the job uses, by cause [1].
    shares
        Share of the failures of a cause that stop the job; all of them if left out [1].

    Examples
    --------
    Llama 3: 148 and 271 interruptions in 54 days on 16,384 GPUs, as rates of a year.

    >>> per_year = 365 / (16_384 * 54)
    >>> interruptions_per_year([148 * per_year, 271 * per_year], [16_384, 16_384]) * 54 / 365
    419.0
    """
    stopping = [1.0] * len(counts) if shares is None else shares
    return sum(
        rate * count * share
        for rate, count, share in zip(rates_per_year, counts, stopping, strict=True)
    )


def mtbf_h(failures_per_year: float) -> float:
    """Mean time between failures [h], infinite without failures.

    Examples
    --------
    419 in 54 days (Llama 3, arXiv:2407.21783):

    >>> round(mtbf_h(419 / 54 * 365), 2)
    3.09
    """
    if failures_per_year < 0 or not isfinite(failures_per_year):
        raise InputError(f"{failures_per_year:g} failures a year are out of range: give 0 or more")
    return HOURS_PER_YEAR / failures_per_year if failures_per_year else float("inf")


def none_down(down: float, units: int) -> float:
    """Probability that no unit is down at a moment, (1 - q)^n [1].

    Parameters
    ----------
    down
        Probability that one unit is down, q [1].
    units
        Units, n [1].

    Examples
    --------
    ATOP/ZCube (ACM SIGCOMM 2025), App. L Table 7: 93, 89 and 83 %.

    >>> [round(none_down(0.0003, switches), 3) for switches in (256, 384, 640)]
    [0.926, 0.891, 0.825]
    """
    if check_probability("the share of time down", down) == 1:
        return float(units == 0)
    # The logarithm keeps the digits of a small q.
    return exp(units * log1p(-down))


def at_least_up(needed: int, units: int, up: float) -> float:
    """Probability that at least k of n units are up, each with probability p: binomial [1].

    Parameters
    ----------
    needed, units
        k and n [1].
    up
        Probability that one unit is up, p [1].

    Examples
    --------
    Two of three, each up nine times in ten: 3 x 0.9^2 x 0.1 + 0.9^3.

    >>> round(at_least_up(2, 3, 0.9), 6)
    0.972
    """
    check_probability("the availability", up)
    if not 0 <= needed <= units:
        raise InputError(f"{needed:,} of {units:,} units are out of range: give 0 to {units:,}")
    from scipy.special import bdtrc  # noqa: PLC0415 - takes a while to import

    return 1.0 if needed == 0 else float(bdtrc(needed - 1, units, up))


def units_up(units: int, up: float, level: float) -> int:
    """Most units that are up together with at least this probability [1].

    Parameters
    ----------
    units
        Units of the pool, n [1].
    up
        Probability that one unit is up [1].
    level
        Probability that is asked for [1].

    Examples
    --------
    Ironwood: cubes of 64 chips, 144 of them, each up 93.5 % of the time.

    >>> units_up(144, 0.935, 0.95)
    130
    """
    check_probability("the level", level)
    low, high = 0, units
    while low < high:  # the probability falls as more units are asked for
        middle = (low + high + 1) // 2
        low, high = (middle, high) if at_least_up(middle, units, up) >= level else (low, middle - 1)
    return low


def outstanding(rate_per_year: float, units: int, lead_h: float) -> float:
    """Mean number of failed units that are not yet replaced, rate x units x lead time [1].

    Examples
    --------
    131,072 modules at 1 % a year, four weeks until a new one is there:

    >>> round(outstanding(0.01, 131_072, 28 * 24), 1)
    100.5
    """
    return rate_per_year * units * lead_h / HOURS_PER_YEAR


def service_level(spares: int, failures: float) -> float:
    """Probability that the spares cover the failures of the lead time, P(N <= s) [1].

    It is the share of time in which no failed unit lacks a spare, whatever the distribution of the
    lead time (Palm's theorem). A failure finds a spare on the shelf with P(N <= s - 1).

    Parameters
    ----------
    spares
        Spares, s [1].
    failures
        Mean failures in the lead time [1].

    Raises
    ------
    InputError
        If a number is negative.

    Examples
    --------
    One failure in a lead time and two spares: (1 + 1 + 1/2) / e.

    >>> round(service_level(2, 1.0), 4)
    0.9197
    """
    if spares < 0 or failures < 0:
        raise InputError(f"{spares} spares, {failures:g} failures: give 0 or more of both")
    from scipy.special import pdtr  # noqa: PLC0415 - takes a while to import

    return float(pdtr(spares, failures))


def spares_needed(failures: float, level: float) -> int:
    """Least spares whose service level is at least this, min s with P(N <= s) >= level [1].

    Parameters
    ----------
    failures
        Mean failures in the lead time [1].
    level
        Service level, above 0 and below 1 [1].

    Examples
    --------
    >>> spares_needed(1.0, 0.99), spares_needed(100.5, 0.99)
    (4, 125)
    """
    if not 0 < level < 1:
        raise InputError(
            f"a service level of {level:g} is out of range: give more than 0 and less than 1;"
            " a level of 1 needs a spare for every unit"
        )
    if failures == 0:
        return 0
    # The continuous inverse lands next to the answer, which the two loops make exact.
    from scipy.special import pdtrik  # noqa: PLC0415 - takes a while to import

    spares = max(0, ceil(float(pdtrik(level, failures))))
    while service_level(spares, failures) < level:
        spares += 1
    while spares and service_level(spares - 1, failures) >= level:
        spares -= 1
    return spares


def require_service(spares: int, failures: float, level: float) -> float:
    """Service level of these spares, if it is high enough [1].

    Raises
    ------
    InputError
        If it is below the level: the message says how many spares are needed.

    Examples
    --------
    >>> require_service(0, 1.0, 0.95)
    Traceback (most recent call last):
    netplan.errors.InputError: 0 spares cover 36.8 % of the lead times, 95 % are asked for: keep 3
    """
    reached = service_level(spares, failures)
    if reached < level:
        raise InputError(
            f"{spares} spares cover {100 * reached:.3g} % of the lead times, {100 * level:g} % are"
            f" asked for: keep {spares_needed(failures, level)}"
        )
    return reached


def cost_per_effective_gpu_hour(cost_per_year: float, gpus: int, goodput: float) -> float:
    """Cost of one GPU-hour of work that counts, in the currency of the cost.

    Parameters
    ----------
    cost_per_year
        All costs of a year: capital, energy, spares, staff.
    gpus
        GPUs that are paid for, idle ones included [1].
    goodput
        Useful work over that of all these GPUs without failures, above 0 and at most 1 [1].

    Examples
    --------
    2 a GPU-hour and a goodput of 80 %:

    >>> cost_per_effective_gpu_hour(2 * 1000 * 8760, 1000, 0.8)
    2.5
    """
    check_probability("the goodput", goodput)
    if not goodput or gpus < 1 or cost_per_year < 0:
        raise InputError(
            f"{gpus} GPUs, a goodput of {goodput:g} and {cost_per_year:g} a year: give at least"
            " one GPU, some goodput, and a cost of 0 or more"
        )
    return cost_per_year / (gpus * HOURS_PER_YEAR * goodput)


def compound_poisson(means: Mapping[int, float]) -> Floats:
    """Distribution of domains down at a moment, where failures take several at once.

    Failures under repair of each size are a Poisson number (M/G/inf, Palm 1943: it depends on the
    mean repair time alone), so that the sum of sizes k has the generating function
    exp(sum of m_k (z^k - 1)), inverted here by a discrete Fourier transform.

    Parameters
    ----------
    means
        Mean number of failures under repair, by the domains that one takes [1].

    Returns
    -------
    Probability of 0, 1, … domains down, up to twelve standard deviations above the mean [1].

    Examples
    --------
    Half a domain is down on average: exp(-0.5) (1, 1/2, 1/8).

    >>> compound_poisson({1: 0.5})[:3].round(4).tolist()
    [0.6065, 0.3033, 0.0758]
    """
    sizes = np.array([size for size, mean in means.items() if size and mean], np.int64)
    rates = np.array([mean for size, mean in means.items() if size and mean])
    spread = sqrt(float((rates * sizes**2).sum()))
    reach = int((rates * sizes).sum() + 12 * spread) + 4 * int(sizes.max(initial=1))
    length = 1 << (2 * reach).bit_length()
    angle = -2j * np.pi * np.arange(length // 2 + 1) / length
    transform = np.exp(sum((m * np.expm1(angle * k) for m, k in zip(rates, sizes, strict=True)), 0))
    chances = np.fft.irfft(transform * np.ones(len(angle)), length)
    return np.maximum(chances[: reach + 1], 0.0)


def idle_domains_needed(means: Mapping[int, float], level: float) -> int:
    """Least idle domains that suffice for at least this share of the time, P(N <= s) >= level [1].

    Parameters
    ----------
    means
        As in :func:`compound_poisson` [1].
    level
        Service level, above 0 and below 1 [1].

    Examples
    --------
    1.94 domains down on average: P(N <= 5) = 0.9856, P(N <= 6) = 0.9962.

    >>> idle_domains_needed({1: 1.94}, 0.99)
    6
    """
    if set(means) <= {0, 1}:
        return spares_needed(means.get(1, 0.0), level)
    spares_needed(0.0, level)  # refuses a level out of range
    # The sum of so many terms is a little off 1.
    return int(np.searchsorted(np.cumsum(compound_poisson(means)), level * (1 - 1e-12)))
