"""What a simulation of outages found: totals of each year, means with intervals, convergence.

An interval is mean +- t s / sqrt(b) over b batches of consecutive years (at most 100), with
Student's t of b - 1 degrees of freedom: years of one chunk share the state of the pools, batches
hardly do. The half-width falls with the square root of the years, which gives the number of years
for a wanted precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np
from scipy.special import stdtrit

from netplan.arrays import Floats, Ints
from netplan.catalog import unknown_name
from netplan.faults.outage_sources import Sources
from netplan.faults.outage_timeline import REASONS, ChunkOutages

COVERAGE = 0.95
BATCHES = 100
"""Most batches: enough for a variance of 10 %, few enough to be independent [1]."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over simulated years with its 95 % interval.

    Parameters
    ----------
    value
        Mean.
    half_width
        Half of the interval, infinite for a single year.
    years
        Years that it is taken over [1].
    """

    value: float
    half_width: float
    years: int

    @classmethod
    def of(cls, values: Floats | Ints) -> "Mean":
        """Mean of one value a year, by batches.

        Examples
        --------
        Four years: s = 1.291, t = 3.182, half-width 3.182 x 1.291 / 2.

        >>> found = Mean.of(np.array([1.0, 2.0, 3.0, 4.0]))
        >>> found.value, round(found.half_width, 3)
        (2.5, 2.054)
        """
        years = len(values)
        batches = min(years, BATCHES)
        if batches == 1:
            return cls(float(values.mean()), inf, years)
        # Batches differ by a year at the most where the years do not divide.
        means = np.array([batch.mean() for batch in np.array_split(values, batches)])
        t = float(stdtrit(batches - 1, (1 + COVERAGE) / 2))
        return cls(float(values.mean()), t * float(means.std(ddof=1)) / sqrt(batches), years)

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.value + self.half_width

    @property
    def relative(self) -> float:
        """Half-width over the mean [1]."""
        if self.half_width == 0:
            return 0.0
        return self.half_width / abs(self.value) if self.value else inf

    def years_for(self, relative: float = 0.01) -> float:
        """Years that bring the half-width down to this share of the mean, at least 1 [1].

        Examples
        --------
        A half-width of 2 % after 100 years: four times as many for 1 %.

        >>> Mean(10.0, 0.2, 100).years_for(0.01)
        400
        """
        ratio = self.relative / relative
        return max(1, ceil(self.years * ratio * ratio - 1e-9)) if ratio < inf else inf

    @property
    def convergence(self) -> str:
        """How precise the mean is, and what 1 % takes, in one sentence.

        Examples
        --------
        >>> Mean(10.0, 0.2, 100).convergence
        '10 +- 0.2 (95 %) after 100 years; 400 years give 1 %.'
        """
        wanted = self.years_for(0.01)
        needs = f"{wanted:,} years give 1 %" if wanted < inf else "give more years for an interval"
        return f"{self} (95 %) after {self.years:,} years; {needs}."

    def __contains__(self, value: float) -> bool:
        """Whether a value lies in the interval."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        """The mean and its half-width, for people."""
        return f"{self.value:.4g} +- {self.half_width:.2g}"


@dataclass(frozen=True, slots=True)
class Outages:
    """Years of failures and what they cost.

    Parameters
    ----------
    causes
        Causes and labels of risk groups: the columns of ``interruptions`` and ``failures``.
    pools
        Pools of spares: the columns of ``demands``, ``met`` and ``short_h``.
    hours
        Length of one year or run [h].
    interruptions
        Failures that stopped the job, shape (years, causes) [1].
    failures
        All failures, shape (years, causes) [1].
    time_h
        Hours by reason (``REASONS``), which sum to ``hours``; shape (years, 5) [h].
    slowed_h
        Useful hours that failures which did not stop the job cost in speed, shape (years,) [h].
    demands, met
        Parts taken from each pool, and those that lay there at once, shape (years, pools) [1].
    short_h
        Hours in which a failed part lacks a spare, shape (years, pools) [h].
    """

    causes: tuple[str, ...]
    pools: tuple[str, ...]
    hours: float
    interruptions: Ints
    failures: Ints
    time_h: Floats
    slowed_h: Floats
    demands: Ints
    met: Ints
    short_h: Floats

    @classmethod
    def of(
        cls,
        sources: Sources,
        years: ChunkOutages,
        hours: float,
        rng: np.random.Generator | None,
    ) -> "Outages":
        """Totals of the years.

        Parameters
        ----------
        sources, years, hours
            What happened.
        rng
            Draws exponential repair times of failures that slow the job; fixed ones if None.
        """
        other = years.other
        slowing = other[:, : len(sources.slowdown_h)].astype(np.float64)
        if rng is not None and sources.slowdown_h.any():
            # The sum of k exponential times is a gamma time of shape k.
            slowing = rng.standard_gamma(slowing)
        # A failure costs speed only while the job computes, and no more than all of it.
        slowed = np.minimum(slowing @ sources.slowdown_h / hours, 1.0) * years.time_h[:, 0]
        demands, met, short_h = years.shelf
        return cls(
            causes=sources.names,
            pools=sources.pools,
            hours=hours,
            interruptions=years.stopping,
            failures=years.stopping + other,
            time_h=years.time_h,
            slowed_h=slowed,
            demands=demands.astype(np.int64),
            met=met.astype(np.int64),
            short_h=short_h,
        )

    @property
    def years(self) -> int:
        """Simulated years [1]."""
        return len(self.time_h)

    @property
    def effective_time_ratio(self) -> Mean:
        """Share of the time in which the job computes what counts [1]."""
        return Mean.of(self.time_h[:, 0] / self.hours)

    @property
    def goodput(self) -> Mean:
        """Useful work over that of a job that never stops nor slows down [1]."""
        return Mean.of((self.time_h[:, 0] - self.slowed_h) / self.hours)

    @property
    def interruptions_a_year(self) -> Mean:
        """Interruptions of one year, all causes [1]."""
        return Mean.of(self.interruptions.sum(axis=1))

    @property
    def mtbf_h(self) -> float:
        """Mean time between interruptions [h]."""
        total = int(self.interruptions.sum())
        return self.hours * self.years / total if total else inf

    def interruptions_of(self, cause: str) -> Mean:
        """Interruptions of one year by one cause [1]."""
        return Mean.of(self.interruptions[:, _place(self.causes, cause, "cause")])

    def time_of(self, reason: str) -> Mean:
        """Hours of one year by reason: one of ``REASONS`` [h]."""
        return Mean.of(self.time_h[:, _place(REASONS, reason, "reason")])

    @property
    def lost_h(self) -> dict[str, Mean]:
        """Hours of one year that do not count, by reason [h]."""
        return {reason: self.time_of(reason) for reason in REASONS[1:]}

    def interruptions_interval(self, cause: str | None = None) -> tuple[float, float]:
        """Interval that holds the interruptions of 95 % of the years [1]."""
        values = self.interruptions
        if cause is not None:
            values = values[:, [_place(self.causes, cause, "cause")]]
        tail = (1 - COVERAGE) / 2
        low, high = np.quantile(values.sum(axis=1), [tail, 1 - tail])
        return float(low), float(high)

    def service_level(self, pool: str) -> Mean:
        """Share of the time in which no failed part of a pool lacks a spare [1]."""
        return Mean.of(1 - self.short_h[:, _place(self.pools, pool, "pool")] / self.hours)

    def found_at_once(self, pool: str) -> float:
        """Share of the failures of a pool that find a spare on the shelf [1]."""
        number = _place(self.pools, pool, "pool")
        demands = int(self.demands[:, number].sum())
        return int(self.met[:, number].sum()) / demands if demands else 1.0


def _place(names: Sequence[str], name: str, what: str) -> int:
    """Column of a name."""
    if name not in names:
        raise unknown_name(what, name, names)
    return names.index(name)
