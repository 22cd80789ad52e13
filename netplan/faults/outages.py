"""What failures cost a job, simulated over many years: interruptions, lost hours, goodput.

Failures of each cause are a Poisson process in time. A failure that interrupts costs the work since
the last checkpoint and a restart, as in :mod:`netplan.faults.checkpoints`. Until its repair the job
lacks what the failure took (:mod:`netplan.faults.downtime`): it goes on at full speed where an idle
HB domain takes over, else slower, or it waits. A repair begins when the part is at hand: a spare
from the shelf, else the next one that comes back to its pool; failures take spares in the order in
which they come. Repair and delivery times are fixed or exponential.

There is no loop over failures or years: years lie on one line of time, in chunks, and every step
is an array (:mod:`netplan.faults.timeline`). A failure that neither interrupts, slows nor takes a
scarce spare is only counted.

An interval is mean +- t s / sqrt(b) over b batches of consecutive years (at most 100), with
Student's t of b - 1 degrees of freedom: years of one chunk share the state of the pools, batches
hardly do. The half-width falls with the square root of the years, which gives the number of years
for a wanted precision.

Left out: failures that depend on age or on one another beyond the groups, repairs that queue for
staff, and what :mod:`netplan.faults.downtime` leaves out.
"""

from collections.abc import Mapping, Sequence
from math import ceil, inf, isfinite, log2, sqrt
from typing import Literal

import numpy as np
from msgspec import Struct, field
from scipy.special import stdtrit

from netplan.arrays import Floats, Ints
from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.faults.checkpoints import Checkpoints
from netplan.faults.downtime import Effect, EffectArrays, PaceTable
from netplan.faults.reliability import check_probability
from netplan.faults.timeline import REASONS, Chunk, ChunkOutages, Sources, simulate_chunk
from netplan.progress import each
from netplan.traffic.matrix import sum_by
from netplan.units import HOURS_PER_YEAR

Repair = Literal["fixed", "exponential"]

CHUNK_EVENTS = 12_000
"""Failures that are worked on at once: their arrays stay in the cache of a core [1]."""

MAX_EVENTS = 5_000_000
"""Most failures that are worked on at once; more do not fit in a gigabyte [1]."""

RESERVE_BYTES = 1 << 24
"""A block that is large for the allocator, see :func:`simulate_outages` [bytes]."""

LONG_AGAINST_WARM_UP = 4
"""Years of a chunk over its warm-up, at least [1]."""

MEMORY_DECAYS = 8
"""Warm-up in mean exponential repair times: what is older weighs exp(-8) [1]."""

LEAST_WARM_UP_H = 256.0
"""Warm-ups are this long, or a power of two as long: repairs that differ a little then have the
same failures from the same seed [h]."""


class Cause(Struct, frozen=True):
    """One kind of unit that fails.

    Parameters
    ----------
    name
        Name in the answer; causes of one name are counted together.
    rate_per_year
        Failures of one unit [1/year].
    count
        Units in the cluster [1].
    interrupts
        Share of the failures of units that the job uses which stop it [1].
    repair_h
        Mean time until a failed unit works again, its spare part at hand [h].
    lead_h
        Mean time until a part that was taken from a pool is there again [h].
    pool
        Pool of spares that replaces it; empty if a spare is always there, or none is needed.
    effect
        What a failure takes from the job until its repair. One that stops no job takes no domain.
    """

    name: str
    rate_per_year: float
    count: int
    interrupts: float = 1.0
    repair_h: float = 0.0
    lead_h: float = 0.0
    pool: str = ""
    effect: Effect = Effect(domains=1)

    def __post_init__(self) -> None:
        """Refuse values that no cause has.

        Raises
        ------
        InputError
            If a number is negative, not finite, or no share, or a job would go on that cannot.
        """
        for name, value in (
            ("rate", self.rate_per_year),
            ("repair time", self.repair_h),
            ("delivery time", self.lead_h),
        ):
            if not (isfinite(value) and value >= 0):
                raise InputError(f"{self.name}: a {name} of {value:g}: give 0 or more")
        if self.count < 0:
            raise InputError(f"{self.name}: {self.count:,} units: give 0 or more")
        check_probability(f"{self.name}: interrupts", self.interrupts)
        if self.effect.slowdown == inf and self.interrupts < 1:
            raise InputError(f"{self.name}: the job cannot go on: let all failures interrupt it")

    @property
    def failures_per_year(self) -> float:
        """Failures of all units [1/year]."""
        return self.rate_per_year * self.count

    @property
    def stops_per_year(self) -> float:
        """Interruptions of a job that uses all units [1/year]."""
        return self.failures_per_year * self.interrupts

    @property
    def under_repair(self) -> float:
        """Mean number of failures under repair that stopped a job on all units [1]."""
        return self.stops_per_year * self.repair_h / HOURS_PER_YEAR


class Exposure(Struct, frozen=True):
    """What can stop a job.

    Parameters
    ----------
    causes
        Kinds of units that fail.
    spares
        Spares of each pool [1].
    pace
        How the job goes on while HB domains are down; it waits for their repair if left out.
    share
        Share of the cluster that the job runs on. A failure hits it with this probability; all
        failures take spares [1].
    """

    causes: tuple[Cause, ...]
    spares: Mapping[str, int] = field(default_factory=dict)
    pace: PaceTable = field(default_factory=PaceTable)
    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse pools that are unknown, or hold more spares than there are parts.

        Raises
        ------
        InputError
            If a pool or the share is out of range.
        """
        check_probability("the share of the cluster that the job runs on", self.share)
        parts = dict.fromkeys(self.spares, 0)
        for cause in self.causes:
            if cause.pool:
                if cause.pool not in parts:
                    known = ", ".join(parts) or "none"
                    raise InputError(
                        f"{cause.name} takes spares from {cause.pool!r}, known: {known}: say how"
                        " many spares it has, or leave the pool empty"
                    )
                parts[cause.pool] += cause.count
        for pool, count in parts.items():
            if not 0 <= self.spares[pool] <= count:
                raise InputError(
                    f"{self.spares[pool]:,} spares of {pool!r} for {count:,} parts in service:"
                    f" give 0 to {count:,}"
                )


COVERAGE = 0.95
BATCHES = 100
"""Most batches: enough for a variance of 10 %, few enough to be independent [1]."""


class Mean(Struct, frozen=True):
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

    def __contains__(self, value: float) -> bool:
        """Whether a value lies in the interval."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        """The mean and its half-width, for people."""
        return f"{self.value:.4g} +- {self.half_width:.2g}"


class Outages(Struct, frozen=True):
    """Years of failures and what they cost.

    Parameters
    ----------
    causes
        Names of causes: the columns of ``interruptions`` and ``failures``.
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
        Useful hours that what was down cost in speed, shape (years,) [h].
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
    def of(cls, sources: Sources, years: ChunkOutages, hours: float) -> "Outages":
        """Totals of the years."""
        demands, met, short_h = np.moveaxis(years.shelf, 1, 0)
        return cls(
            causes=sources.names,
            pools=sources.pools,
            hours=hours,
            interruptions=years.stopping,
            failures=years.stopping + years.other,
            time_h=years.time_h,
            slowed_h=years.slowed_h,
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


def _place(names: Sequence[str], name: str, what: str) -> int:
    """Column of a name."""
    if name not in names:
        raise unknown_name(what, name, names)
    return names.index(name)


def simulate_outages(
    exposure: Exposure,
    checkpoints: Checkpoints,
    *,
    years: int,
    rng: np.random.Generator,
    hours: float = HOURS_PER_YEAR,
    repair: Repair = "exponential",
) -> Outages:
    """Failures of many years and what they cost one job that would never end.

    Parameters
    ----------
    exposure
        What fails, how often, and what replaces it.
    checkpoints
        How the job saves its work.
    years
        Years to simulate, or runs of ``hours`` [1].
    rng
        Source of randomness; the same seed gives the same answer.
    hours
        Length of one year or run [h].
    repair
        Whether repair times are ``exponential`` about their mean, or all equal to it, ``fixed``.

    Raises
    ------
    InputError
        If the years are out of range, or one year holds too many failures.

    Examples
    --------
    Llama 3 (arXiv:2407.21783): 419 interruptions in 54 days.

    >>> gpus = Cause("GPU slot", 419 / (16_384 * 54) * 365, 16_384)
    >>> job = Checkpoints(interval_h=0.25, write_h=0.003, restart_h=0.1)
    >>> found = simulate_outages(Exposure((gpus,)), job, years=1000,
    ...                          rng=np.random.default_rng(7), hours=54 * 24)
    >>> low, high = found.interruptions_interval()
    >>> low < 419 < high, round(found.effective_time_ratio.value, 2)
    (True, 0.92)
    """
    if years < 1 or not (isfinite(hours) and hours > 0):
        raise InputError(f"{years} years of {hours:g} h: give at least one year, of more than 0 h")
    sources = sources_of(exposure)
    exponential = repair == "exponential"
    # Before the first year that counts, pools and repairs forget how they began.
    memory_h = float(sources.lead_h.max(initial=0.0) + sources.repair_h.max(initial=0.0))
    warm_up_h = _warm_up_h(memory_h * (MEMORY_DECAYS if exponential else 1))
    step = _chunk_years(sources.timed_per_year * hours / HOURS_PER_YEAR, warm_up_h / hours)
    # The allocator of Linux gives memory back after each chunk, a third of the time in all, until
    # a large block was freed once; this one is never touched.
    np.empty(RESERVE_BYTES, np.uint8)
    lengths = (min(step, years - first) for first in range(0, years, step))
    chunks = [Chunk(length, hours, warm_up_h, exponential) for length in lengths]
    told = each(chunks, lambda _: "runs of years")
    found = [simulate_chunk(sources, checkpoints, chunk, rng) for chunk in told]
    return Outages.of(sources, ChunkOutages.joined(found), hours)


def _warm_up_h(memory_h: float) -> float:
    """Warm-up that is long enough, in steps of powers of two [h]."""
    steps = ceil(log2(max(memory_h / LEAST_WARM_UP_H, 1.0)))
    return LEAST_WARM_UP_H * 2.0**steps if memory_h else 0.0


def sources_of(exposure: Exposure) -> Sources:
    """Kinds of events: each cause is split by whether its failure hits and stops the job."""
    causes, share, pools = exposure.causes, exposure.share, tuple(exposure.spares)
    names = tuple(dict.fromkeys(cause.name for cause in causes))
    column = np.array([names.index(cause.name) for cause in causes], np.int64)
    pool = np.array([pools.index(one.pool) if one.pool else -1 for one in causes], np.int64)
    rate = np.array([cause.failures_per_year for cause in causes])
    stops = np.array([cause.interrupts for cause in causes])
    # All failures, three times: those that stop the job, pass it by, and hit other jobs.
    rates = np.concatenate([rate * stops * share, rate * (1 - stops) * share, rate * (1 - share)])
    lasting = [one.effect if one.repair_h or one.pool else Effect() for one in causes]
    effects = [*lasting, *(one.survived for one in lasting), *(Effect() for _ in causes)]
    place = np.arange(3 * len(causes)) % max(len(causes), 1)
    stopping = np.arange(3 * len(causes)) < len(causes)
    timed = stopping | (pool[place] >= 0) | np.array([one.lasts for one in effects], bool)
    kind = np.flatnonzero(timed & (rates > 0))
    return Sources(
        names=names,
        pools=pools,
        spares=np.array([exposure.spares[name] for name in pools], np.int64),
        counted_per_year=sum_by(column[place], np.where(timed, 0.0, rates), len(names)),
        rate_per_year=rates[kind],
        column=column[place[kind]],
        stops=stopping[kind],
        pool=pool[place[kind]],
        lead_h=np.array([one.lead_h if one.pool else 0.0 for one in causes])[place[kind]],
        repair_h=np.array([cause.repair_h for cause in causes])[place[kind]],
        effects=EffectArrays.of([effects[number] for number in kind.tolist()]),
        pace=exposure.pace,
    )


def _chunk_years(per_year: float, warm_up_years: float) -> int:
    """Years of one chunk: as many as the cache holds, and long against their warm-up [1].

    Raises
    ------
    InputError
        If one year and its warm-up hold too many failures.
    """
    if per_year * (1 + warm_up_years) > MAX_EVENTS:
        raise InputError(
            f"{per_year:,.0f} failures a year, and as many in each year to warm up, are more than"
            f" {MAX_EVENTS:,}: check the rates, or simulate shorter runs (hours)"
        )
    in_memory = MAX_EVENTS / max(per_year, 1.0) - warm_up_years
    in_cache = CHUNK_EVENTS / max(per_year, 1.0)
    return max(1, int(max(in_cache, min(LONG_AGAINST_WARM_UP * warm_up_years, in_memory))))
