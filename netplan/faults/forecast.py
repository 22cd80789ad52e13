"""Reliability forecast of a fabric: interruptions, goodput, spares, price of an hour, over years.

The rates are those of a failure book, the counts those of the fabric. Closed forms stand beside
the simulation: with failures at random and no want of spares both must agree.

Where somebody says what stands together, racks, feeds and the like fail as a whole, in place of
those that the book guesses from the GPUs (:mod:`netplan.faults.group_failures`). Parts are swapped,
but nobody keeps a rack in spare: the job waits until the group is back, or moves to as many idle HB
domains as the group has taken.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Literal

import numpy as np
from msgspec import Struct, field

from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.faults.checkpoints import (
    Checkpoints,
    best_interval_h,
    daly_interval_h,
    exact_time_ratio,
    young_interval_h,
)
from netplan.faults.group_failures import GroupFailures
from netplan.faults.outages import Cause, Exposure, Outages, simulate_outages
from netplan.faults.rates import LAYOUT, End, FailureBook, FailureRate, Unit, unit_counts
from netplan.faults.reliability import (
    cost_per_effective_gpu_hour,
    mtbf_h,
    none_down,
    outstanding,
    require_service,
    service_level,
    spares_needed,
)
from netplan.topologies.fabric import Fabric
from netplan.units import HOURS_PER_YEAR

Times = Literal["repair", "lead"]


def causes_of(
    book: FailureBook,
    units: Mapping[Unit, int],
    *,
    end: End = "base",
    times: Times = "repair",
    pools: Mapping[str, str] | None = None,
    interrupts: Mapping[str, float] | None = None,
) -> tuple[Cause, ...]:
    """Causes of a simulation: each row of the book with the units that a cluster has of it.

    Rows of rows, trays and own groups are left out: they fail as risk groups.

    Parameters
    ----------
    book
        Failure rates.
    units
        Units of the cluster, as :func:`netplan.faults.rates.unit_counts` gives them [1].
    end
        Which end of the ranges counts, for rates and times alike.
    times
        Whether a pool is filled again by repairs or by deliveries.
    pools
        Pool of spares by kind of unit; kinds that it does not name never lack a spare.
    interrupts
        Share of the failures that stop the job, by cause, in place of the book's [1].

    Raises
    ------
    UnknownNameError
        If ``interrupts`` names a cause that the book does not have.

    Examples
    --------
    >>> from netplan.faults.rates import FAILURE_BOOKS
    >>> cause = causes_of(FAILURE_BOOKS.load("rsc-1"), {"gpu": 16_384})[0]
    >>> cause.count, cause.rate_per_year
    (2048, 2.3725)
    """
    shares = dict(interrupts or {})
    names = [row.cause for row in book.rates]
    for name in shares:
        if name not in names:
            raise unknown_name("cause", name, names)
    for kind in pools or {}:
        if kind not in {row.kind for row in book.rates}:
            raise InputError(
                f"a pool for {kind!r}, of which failures {book.name} has no row: known:"
                f" {', '.join(sorted({row.kind for row in book.rates}))}"
            )

    def cause(row: FailureRate) -> Cause:
        hours = book.repair_h(row.kind) if times == "repair" else book.lead_h(row.kind)
        return Cause(
            name=row.cause,
            rate_per_year=getattr(row.rate_per_year, end),
            count=row.count_in(units),
            interrupts=shares.get(row.cause, row.interrupts),
            repair_h=getattr(hours, end),
            pool=(pools or {}).get(row.kind, ""),
        )

    return tuple(cause(row) for row in book.rates if row.unit not in LAYOUT)


IDLE_DOMAINS = "idle HB domains"
"""Pool that takes over from the domains of a failed group."""

SPARED_KINDS = ("switch", "transceiver", "nic", "link", "gpu", "circuit-switch")
"""Kinds of parts that spares are kept of; the rest is repaired in place."""


class CheckpointPolicy(Struct, frozen=True):
    """How a job saves its work.

    Parameters
    ----------
    write_h, restart_h
        Writing one checkpoint, and from a failure to computing again [h].
    interval_h
        Between two checkpoints [h]; the best one if None.
    """

    write_h: float
    restart_h: float
    interval_h: float | None = None

    def at(self, between_h: float) -> Checkpoints:
        """Checkpoints at the interval asked for, else at the best one.

        Raises
        ------
        InputError
            If the best interval is asked for and writing takes no time.
        """
        interval = self.interval_h
        if interval is None:
            if not self.write_h:
                raise InputError(
                    "checkpoints that take no time would be written all the time: give"
                    " --checkpoint-write or --checkpoint-interval"
                )
            # A cluster that never fails still saves its work once a year.
            interval = min(best_interval_h(self.write_h, between_h), HOURS_PER_YEAR)
        return Checkpoints(interval, self.write_h, self.restart_h)


class ForecastOptions(Struct, frozen=True):
    """What a forecast assumes.

    Parameters
    ----------
    checkpoints
        How the job saves its work.
    level
        Service level that spares are kept for [1].
    years, seed
        Years to simulate [1], and the seed of the draws.
    end
        Which end of the book's ranges counts.
    spares
        Spares that are kept, by kind of part; kinds that are not named never lack one [1].
    idle_domains
        Idle HB domains that take over from those of a failed group [1].
    """

    checkpoints: CheckpointPolicy
    level: float = 0.99
    years: int = 1000
    seed: int = 0
    end: End = "base"
    spares: Mapping[str, int] = field(default_factory=dict)
    idle_domains: int = 0


class Spares(Struct, frozen=True):
    """Spares of one kind of part for the service level, from the time of a delivery.

    ``counted`` says which units of a cluster the book's rows of this kind are about; of their
    failures ``replaced_per_year`` end with a new part.
    """

    kind: str
    counted: tuple[Unit, ...]
    units: int
    failures_per_year: float
    replaced_per_year: float
    lead_h: float
    spares: int
    service_level: float


class CauseShare(Struct, frozen=True):
    """Interruptions of a year by one cause, simulated, with the 95 % interval of the mean."""

    cause: str
    failures_per_year: float
    interruptions_per_year: float
    half_width: float


class ReliabilityForecast(Struct, frozen=True):
    """Years of failures of one fabric.

    Parameters
    ----------
    interruptions_per_year, interruptions_half_width, interruptions_closed_form
        Interruptions of a year: simulated mean, half of its 95 % interval, and the closed form [1].
    network_interruptions_per_year
        Those of them that the network causes, closed form [1].
    mtbf_h
        Mean time between interruptions, closed form [h].
    interval_h, young_h, daly_h
        Checkpoint interval in use, and Young's and Daly's [h].
    effective_time_ratio, effective_half_width, effective_closed_form
        Share of the time that counts: simulated, half of its 95 % interval, closed form [1].
    goodput
        Useful work over that of a job that never stops nor slows down, simulated [1].
    lost_h
        Hours of a year that do not count, by reason [h].
    years, years_for_one_percent
        Simulated years, and how many bring the interval of the interruptions down to 1 % [1].
    no_switch_down
        Probability that no switch is down at a moment, where the book says how often one is [1].
    causes, spares
        By cause; by kind of part.
    network_cost_per_effective_gpu_hour
        Network's annuity and energy for an hour of useful work of one GPU; None without a price.
    """

    interruptions_per_year: float
    interruptions_half_width: float
    interruptions_closed_form: float
    network_interruptions_per_year: float
    mtbf_h: float
    interval_h: float
    young_h: float
    daly_h: float
    effective_time_ratio: float
    effective_half_width: float
    effective_closed_form: float
    goodput: float
    lost_h: dict[str, float]
    years: int
    years_for_one_percent: float
    no_switch_down: float | None
    causes: tuple[CauseShare, ...]
    spares: tuple[Spares, ...]
    network_cost_per_effective_gpu_hour: float | None


NETWORK_KINDS = frozenset(
    {"nic", "link", "transceiver", "switch", "circuit-switch", "network", "tray"}
)


def reliability_forecast(
    fabric: Fabric,
    book: FailureBook,
    options: ForecastOptions,
    *,
    cost_per_year: float | None = None,
    units: Mapping[Unit, int] | None = None,
    groups: Sequence[GroupFailures] = (),
) -> ReliabilityForecast:
    """What failures cost a fabric over the years.

    Parameters
    ----------
    fabric
        A sized fabric.
    book
        Failure rates, repair and delivery times.
    options
        Checkpoints, spares, years to simulate.
    cost_per_year
        The network's annuity and energy of a year, in any currency.
    units
        Units that can fail, of :func:`netplan.faults.rates.unit_counts`; None counts them without
        a bill.
    groups
        Groups that fail as a whole, of `netplan.faults.group_failures`.

    Raises
    ------
    InputError
        If the options are out of range.

    Examples
    --------
    >>> from netplan.faults.rates import FAILURE_BOOKS
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> fabric = build_fabric(FABRICS.load("rail-only"), Sizing(1024, 64, 8, 450e9, 50e9))
    >>> options = ForecastOptions(CheckpointPolicy(1 / 60, 10 / 60), years=200)
    >>> found = reliability_forecast(fabric, FAILURE_BOOKS.load("2026").placed(8), options)
    >>> abs(found.effective_time_ratio - found.effective_closed_form) < 0.01
    True
    """
    units = units or unit_counts(fabric)
    spares = _spares(units, book, options)
    kept = _kept(fabric, spares, options)
    exposure = _exposure(fabric, book, options, units=units, kept=kept, groups=groups)
    per_year = _stops_per_year(exposure, groups)
    between_h = mtbf_h(per_year)
    job = options.checkpoints.at(between_h)
    rng = np.random.default_rng(options.seed)
    found = simulate_outages(exposure, job, years=options.years, rng=rng)
    yearly, ratio = found.interruptions_a_year, found.effective_time_ratio
    return ReliabilityForecast(
        interruptions_per_year=yearly.value,
        interruptions_half_width=_finite(yearly.half_width),
        interruptions_closed_form=per_year,
        network_interruptions_per_year=_of_network(exposure, book, groups),
        mtbf_h=between_h if between_h < inf else HOURS_PER_YEAR * options.years,
        interval_h=job.interval_h,
        young_h=_rule(young_interval_h, options, between_h),
        daly_h=_rule(daly_interval_h, options, between_h),
        effective_time_ratio=ratio.value,
        effective_half_width=_finite(ratio.half_width),
        effective_closed_form=exact_time_ratio(job, between_h),
        goodput=found.goodput.value,
        lost_h={reason: mean.value for reason, mean in found.lost_h.items()},
        years=found.years,
        years_for_one_percent=_finite(float(yearly.years_for(0.01))),
        no_switch_down=_no_switch_down(book, fabric),
        causes=_causes(exposure, groups, found),
        spares=spares,
        network_cost_per_effective_gpu_hour=_hourly(cost_per_year, fabric, found),
    )


def _stops_per_year(exposure: Exposure, groups: Sequence[GroupFailures]) -> float:
    """Interruptions by single parts and by groups, closed form [1/year]."""
    alone = sum(cause.stops_per_year for cause in exposure.causes)
    return alone + sum(kind.stops_per_year for kind in groups)


def _hourly(cost_per_year: float | None, fabric: Fabric, found: Outages) -> float | None:
    """Price of an hour of useful work of a GPU, where the network has one and work is done."""
    goodput = found.goodput.value
    if cost_per_year is None or goodput <= 0:
        return None
    return cost_per_effective_gpu_hour(cost_per_year, fabric.sizing.gpus, goodput)


def _exposure(
    fabric: Fabric,
    book: FailureBook,
    options: ForecastOptions,
    *,
    units: Mapping[Unit, int],
    kept: dict[str, int],
    groups: Sequence[GroupFailures],
) -> Exposure:
    """Everything that can stop the job: single parts, groups, and what replaces them."""
    # A job inside one HB domain needs no network.
    unused = NETWORK_KINDS if fabric.sizing.domains == 1 else frozenset()
    causes = causes_of(
        book,
        units,
        end=options.end,
        times="lead" if kept else "repair",
        pools={kind: kind for kind in kept},
        interrupts={row.cause: 0.0 for row in book.rates if row.kind in unused},
    )
    whole = {kind.row.cause for kind in groups}
    causes = tuple(cause for cause in causes if cause.name not in whole)
    if not groups:
        return Exposure(causes, spares=kept)
    domains = fabric.sizing.domains
    idle = Cause(IDLE_DOMAINS, 0.0, domains, pool=IDLE_DOMAINS)
    return Exposure(
        (*causes, idle),
        spares={**kept, IDLE_DOMAINS: min(options.idle_domains, domains)},
        groups=tuple(kind.groups for kind in groups),
        cause_of=np.full(domains, len(causes)),
    )


def _of_network(exposure: Exposure, book: FailureBook, groups: Sequence[GroupFailures]) -> float:
    """Interruptions that the network causes, closed form [1/year]."""
    network = {row.cause for row in book.rates if row.kind in NETWORK_KINDS}
    alone = sum(one.stops_per_year for one in exposure.causes if one.name in network)
    return alone + sum(one.stops_per_year for one in groups if one.row.kind in NETWORK_KINDS)


def _causes(
    exposure: Exposure, groups: Sequence[GroupFailures], found: Outages
) -> tuple[CauseShare, ...]:
    """Interruptions by cause, those of groups last."""
    rates = {one.name: one.failures_per_year for one in exposure.causes if one.name != IDLE_DOMAINS}
    rates |= {kind.groups.kind: kind.failures_per_year for kind in groups}
    return tuple(
        CauseShare(
            cause=name,
            failures_per_year=rate,
            interruptions_per_year=found.interruptions_of(name).value,
            half_width=_finite(found.interruptions_of(name).half_width),
        )
        for name, rate in rates.items()
    )


def _rule(
    rule: Callable[[float, float], float], options: ForecastOptions, between_h: float
) -> float:
    """An interval by a rule, in a finite world [h]."""
    return rule(options.checkpoints.write_h, min(between_h, HOURS_PER_YEAR * options.years))


def _no_switch_down(book: FailureBook, fabric: Fabric) -> float | None:
    """Probability that no switch is down, where the book says how often one is."""
    shares = [row.down for row in book.rates if row.kind == "switch" and row.down is not None]
    if not shares or not fabric.switches:
        return None
    return none_down(max(shares), fabric.switches)


def _kept(fabric: Fabric, spares: Sequence[Spares], options: ForecastOptions) -> dict[str, int]:
    """Spares that are kept of parts that the fabric has.

    Raises
    ------
    InputError
        If they do not reach the service level: the message says how many do.
    """
    found = {}
    for row in spares:
        if row.kind not in options.spares:
            continue
        number = options.spares[row.kind]
        waiting = row.replaced_per_year * row.lead_h / HOURS_PER_YEAR
        try:
            require_service(number, waiting, options.level)
        except InputError as error:
            raise InputError(f"{fabric.name}, {row.kind}: {error}") from None
        found[row.kind] = number
    return found


def _spares(
    units: Mapping[Unit, int], book: FailureBook, options: ForecastOptions
) -> tuple[Spares, ...]:
    """Spares by kind of part: replacements during a delivery, rows of one kind together."""
    rows: dict[str, list[FailureRate]] = {}
    for row in book.rates:
        if row.kind in SPARED_KINDS:
            rows.setdefault(row.kind, []).append(row)
    found = []
    for kind, parts in rows.items():
        counts = [row.count_in(units) for row in parts]
        lead_h = float(getattr(book.lead_h(parts[0].kind), options.end))
        if not sum(counts) or not lead_h:
            continue
        rates = [float(getattr(row.rate_per_year, options.end)) for row in parts]
        failures = [rate * count for rate, count in zip(rates, counts, strict=True)]
        replaced = sum(row.replaced * each for row, each in zip(parts, failures, strict=True))
        waiting = outstanding(replaced, 1, lead_h)
        spares = spares_needed(waiting, options.level)
        found.append(
            Spares(
                kind,
                tuple(row.unit for row in parts),
                sum(counts),
                sum(failures),
                replaced,
                lead_h,
                spares,
                service_level(spares, waiting),
            )
        )
    return tuple(found)


def _finite(value: float) -> float:
    """A number that JSON has: infinite widths of a single year become 0 years of evidence."""
    return value if value < inf else 0.0
