"""What failures cost a job, simulated over many years: interruptions, lost hours, goodput.

Failures of each cause are a Poisson process in time. A failure that interrupts stops the job,
which waits until a spare has replaced what failed, restarts, and redoes the work since its last
checkpoint, as in :mod:`netplan.faults.checkpoints`; failures go on meanwhile. A part that
failed comes back to its pool after its repair or delivery time, fixed or exponential; failures
take spares in the order in which they come. Groups of parts fail at once
(:mod:`netplan.faults.exposure`).

There is no loop over failures or years: years lie on one line of time, in chunks, and every step
is an array (:mod:`netplan.faults.outage_timeline`). A failure that neither interrupts nor
takes a scarce spare is only counted.

Left out: failures that depend on age or on one another beyond the groups, and repairs that queue
for staff.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.faults.checkpoints import Checkpoints
from netplan.faults.exposure import RiskGroups
from netplan.faults.outage_results import Outages
from netplan.faults.outage_sources import Sources
from netplan.faults.outage_timeline import Chunk, ChunkOutages, simulate_chunk
from netplan.faults.reliability import HOURS_PER_YEAR, check_probability

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


@dataclass(frozen=True, slots=True)
class Cause:
    """One kind of unit that fails.

    Parameters
    ----------
    name
        Name in the answer.
    rate_per_year
        Failures of one unit [1/year].
    count
        Units in the cluster [1].
    interrupts
        Share of the failures of units that the job uses which stop it [1].
    repair_h
        Mean time until a failed unit, or a new one, is in the pool [h].
    pool
        Pool of spares that replaces it; empty if a spare is always there, or none is needed.
    slowdown
        Share of the speed that the job loses while one unit is down without stopping it [1].
    """

    name: str
    rate_per_year: float
    count: int
    interrupts: float = 1.0
    repair_h: float = 0.0
    pool: str = ""
    slowdown: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values that no cause has.

        Raises
        ------
        InputError
            If a number is negative, not finite, or no share.
        """
        for name, value in (("rate", self.rate_per_year), ("repair time", self.repair_h)):
            if not (isfinite(value) and value >= 0):
                raise InputError(f"{self.name}: a {name} of {value:g}: give 0 or more")
        if self.count < 0:
            raise InputError(f"{self.name}: {self.count:,} units: give 0 or more")
        check_probability(f"{self.name}: interrupts", self.interrupts)
        check_probability(f"{self.name}: slowdown", self.slowdown)


@dataclass(frozen=True, slots=True)
class Exposure:
    """What can stop a job.

    Parameters
    ----------
    causes
        Kinds of units that fail.
    spares
        Spares of each pool [1].
    groups
        Parts that fail together, beside the single failures of the causes.
    share
        Share of the cluster that the job runs on. A failure hits it with this probability; all
        failures take spares [1].
    """

    causes: tuple[Cause, ...]
    spares: Mapping[str, int] = field(default_factory=dict)
    groups: RiskGroups | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse pools that are unknown, or hold more spares than there are parts.

        Raises
        ------
        InputError
            If a pool, a group or the share is out of range.
        """
        check_probability("the share of the cluster that the job runs on", self.share)
        kinds = 0 if self.groups is None else int(self.groups.cause_of.max(initial=-1)) + 1
        if kinds > len(self.causes):
            raise InputError(
                f"risk groups hold parts of {kinds} causes, the exposure has {len(self.causes)}:"
                " give a cause for each kind of part, of rate 0 if it never fails alone"
            )
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
    warm_up_h = _warm_up_h(sources, exponential=exponential)
    step = _chunk_years(sources.timed_per_year * hours / HOURS_PER_YEAR, warm_up_h / hours)
    # The allocator of Linux gives memory back after each chunk, a third of the time in all, until
    # a large block was freed once; this one is never touched.
    np.empty(RESERVE_BYTES, np.uint8)
    total = ChunkOutages.empty(sources, years)
    for first in range(0, years, step):
        chunk = Chunk(min(step, years - first), hours, warm_up_h, exponential)
        total.put(first, simulate_chunk(sources, checkpoints, chunk, rng))
    return Outages.of(sources, total, hours, rng if exponential else None)


def sources_of(exposure: Exposure) -> Sources:
    """Causes and groups as arrays: what happens, how often, and which spares it takes."""
    causes, groups = exposure.causes, exposure.groups
    pools = tuple(exposure.spares)
    pool = np.array([pools.index(c.pool) if c.pool else -1 for c in causes], np.int64)
    parts = np.eye(len(causes), dtype=np.int64)
    rate = np.array([cause.rate_per_year * cause.count for cause in causes])
    stops = np.array([cause.interrupts for cause in causes])
    column = np.arange(len(causes))
    if groups is not None:
        parts = np.concatenate([parts, groups.parts_by_cause(len(causes))])
        rate = np.concatenate([rate, groups.rate_per_year])
        stops = np.concatenate([stops, groups.interrupts])
        column = np.concatenate([column, len(causes) + groups.label_of])
    taken, lead_h = _demands(parts, pool, np.array([c.repair_h for c in causes]), len(pools))
    return Sources.of(
        names=(*(cause.name for cause in causes), *(groups.labels if groups else ())),
        pools=pools,
        spares=np.array([exposure.spares[name] for name in pools], np.int64),
        slowdown_h=np.array([cause.slowdown * cause.repair_h for cause in causes]),
        column=column,
        rate_per_year=rate,
        stop_share=stops * exposure.share,
        taken=taken,
        lead_h=lead_h,
    )


def _demands(parts: Ints, pool: Ints, repair_h: Floats, pools: int) -> tuple[Ints, Floats]:
    """Spares that one event takes from each pool, and until when: shapes (events, pools).

    Parts of one pool that fail together come back together, after the longest of their times.
    """
    taken = np.zeros((len(parts), pools), np.int64)
    lead_h = np.zeros((len(parts), pools))
    for number in range(pools):
        mine = pool == number
        taken[:, number] = parts[:, mine].sum(axis=1)
        if mine.any():
            lead_h[:, number] = np.where(parts[:, mine] > 0, repair_h[mine], 0).max(axis=1)
    return taken, lead_h


def _warm_up_h(sources: Sources, *, exponential: bool) -> float:
    """Time before the first year that counts, until the pools forget how they began [h]."""
    longest = float(sources.lead_h.max(initial=0.0))
    return longest * (MEMORY_DECAYS if exponential else 1)


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
