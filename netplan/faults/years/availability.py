"""Closed forms of what is down at a moment, beside the simulated years.

Failures under repair are an M/G/inf queue: a Poisson number whose mean is rate x repair hours,
whatever the distribution of the hours (Palm 1943). Spare parts are taken to be at hand.
"""

from collections.abc import Iterable, Sequence
from math import exp, inf

import numpy as np

from netplan.faults.years.outages import Cause, ThroughputTable
from netplan.faults.years.reliability import compound_poisson
from netplan.units import HOURS_PER_YEAR


def domains_under_repair(causes: Iterable[Cause], *, wait: bool) -> dict[int, float]:
    """Mean number of failures under repair, by the HB domains that one takes [1].

    Parameters
    ----------
    causes
        What fails.
    wait
        Whether domains that all GPUs could go on with are missed, too.

    Returns
    -------
    dict[int, float]
        Mean number of failures [1], by the domains that one takes [1].

    References
    ----------
    Palm (1943): failures under repair are an M/G/inf queue, its mean is rate x repair hours.

    Examples
    --------
    Two GPUs a day for 6 h, a rack of four domains every tenth day for 12 h: 0.5, and 0.05.

    >>> from netplan.faults.years.outages import Effect
    >>> causes = [Cause("GPU", 1.0, 730, repair_h=6.0),
    ...           Cause("rack", 1.0, 36, repair_h=12.0, effect=Effect(domains=4))]
    >>> {size: round(mean, 3) for size, mean in domains_under_repair(causes, wait=True).items()}
    {1: 0.5, 4: 0.049}
    """
    means: dict[int, float] = {}
    for cause in causes:
        size = cause.effect.domains
        needed = wait or not cause.effect.all_gpus or cause.effect.slowdown == inf
        if size and cause.under_repair and needed:
            means[size] = means.get(size, 0.0) + cause.under_repair
    return means


def expected_throughput(
    causes: Sequence[Cause], throughput: ThroughputTable
) -> tuple[float, float]:
    """Share of the time in which the job has to wait, and its mean throughput, waits included [1].

    Parameters
    ----------
    causes
        What fails.
    throughput
        How the job goes on.

    Returns
    -------
    tuple[float, float]
        Share of the time spent waiting, and mean throughput over that of the whole job [1].

    References
    ----------
    Palm (1943): failures under repair are an M/G/inf queue, their number is Poisson.

    Examples
    --------
    A domain is missing 1 % of the time, and the job slower by a quarter:

    >>> gpu = Cause("GPU", 1.0, 1, repair_h=-np.log(0.99) * HOURS_PER_YEAR)
    >>> throughput = ThroughputTable(0, False, np.array([0, 1, 9]), np.array([[1, 1.25, 1.25]] * 2))
    >>> waits, mean = expected_throughput([gpu], throughput)
    >>> round(waits, 6), round(mean, 4)
    (0.0, 0.998)
    """
    if throughput.wait:
        down = compound_poisson(domains_under_repair(causes, wait=True))
        mean = goes_on = float(down[: throughput.idle_domains + 1].sum())
    else:
        goes_on, mean = _without_domains(causes, throughput)
    stopping = (cause for cause in causes if cause.effect.slowdown == inf)
    goes_on *= exp(-sum(_slowing(cause, throughput) for cause in stopping))
    return 1 - goes_on, mean * _of_network(causes, throughput)


def _without_domains(causes: Sequence[Cause], throughput: ThroughputTable) -> tuple[float, float]:
    """Share of the time in which the domains that are left go on, and their mean throughput [1]."""
    taking = [cause for cause in causes if not cause.effect.all_gpus]
    part, whole = (
        compound_poisson(
            domains_under_repair((c for c in taking if c.effect.whole == is_whole), wait=False)
        )
        for is_whole in (False, True)
    )
    # Idle domains take over first from those that are lost whole.
    none_left = np.arange(len(whole)) <= throughput.idle_domains
    goes_on = mean = 0.0
    for lost, of_whole in ((whole * none_left, 0), (whole * ~none_left, 1)):
        chance = np.convolve(part, lost)
        number = np.arange(len(chance))
        speed = 1 / throughput.without(number, number * of_whole)
        goes_on += float(chance @ (speed > 0))
        mean += float(chance @ speed)
    return goes_on, mean


def _of_network(causes: Sequence[Cause], throughput: ThroughputTable) -> float:
    """Mean throughput of all GPUs on what is left of the network: that of the worst failure [1]."""
    under: dict[float, float] = {}
    for cause in causes:
        slowdown = cause.effect.slowdown
        under[slowdown] = under.get(slowdown, 0.0) + _slowing(cause, throughput)
    mean, none_worse = 0.0, 1.0
    for slowdown in sorted(under.keys() - {0.0}, reverse=True):
        none = exp(-under[slowdown])
        mean += none_worse * (1 - none) / (1 + slowdown)
        none_worse *= none
    return mean + none_worse


def _slowing(cause: Cause, throughput: ThroughputTable) -> float:
    """Mean number of failures under repair that slow the network [1]."""
    effect = cause.effect
    if effect.domains and not effect.all_gpus:
        return cause.under_repair
    under = cause.failures_per_year * cause.repair_h / HOURS_PER_YEAR
    # Idle domains take over, or the job waits: only failures that stop nothing slow it.
    spared = effect.domains and (throughput.wait or effect.domains <= throughput.idle_domains)
    return under - cause.under_repair if spared else under
