"""Reliability forecast of a fabric: interruptions, goodput, spares, price of an hour, over years.

The rates and repair hours are those of a failure book, the counts those of the fabric; what a
failure takes from the job until its repair is what the scenario says it takes
(:mod:`netplan.faults.years.effects`). Closed forms stand beside the simulation:

interruptions
    the sum of rate, count and share that interrupts;
share of time that counts
    that of a job that never waits (:func:`netplan.faults.years.checkpoints.exact_time_ratio`) times
    the share of time in which it need not wait, P(N <= s) of N domains down and s idle ones. Exact:
    between two waits the job runs from a restart to the next failure, an exponential time;
goodput
    that, times the mean throughput at a moment. To first order: hours that count come more often
    when little is down.

Where somebody says what stands together, racks, feeds and the like fail as a whole, in place of
those that the book guesses from the GPUs (:mod:`netplan.faults.years.group_failures`).
"""

from collections.abc import Mapping, Sequence
from math import exp, expm1, inf

import numpy as np
from msgspec import Struct, field
from msgspec.structs import astuple

from netplan.catalog import unknown_name
from netplan.costing.ranges import Range
from netplan.errors import InputError
from netplan.faults.years import checkpoints, reliability
from netplan.faults.years.availability import domains_under_repair, expected_throughput
from netplan.faults.years.effects import FailureEffects, untimed_effects
from netplan.faults.years.group_failures import GroupFailures
from netplan.faults.years.outages import Cause, Exposure, Outages, simulate_outages
from netplan.faults.years.rates import LAYOUT, NETWORK_KINDS, FailureBook, FailureRate, Unit
from netplan.inputs.choices import End, OpticsKind
from netplan.records import replace
from netplan.topologies.fabric import Fabric
from netplan.units import HOURS_PER_YEAR, SECONDS_PER_HOUR


def causes_of(
    book: FailureBook,
    units: Mapping[Unit, int],
    *,
    end: End = "base",
    pools: Mapping[str, str] | None = None,
    interrupts: Mapping[str, float] | None = None,
    effects: FailureEffects | None = None,
) -> tuple[Cause, ...]:
    """Causes of a simulation: each row of the book with the units that a cluster has of it.

    Rows of rows, trays and own groups are left out: they fail as risk groups.

    Parameters
    ----------
    book
        Failure rates.
    units
        Units of the cluster, as :func:`netplan.faults.years.rates.unit_counts` gives them [1].
    end
        Which end of the ranges counts, for rates and times alike.
    pools
        Pool of spares by kind of unit; kinds that it does not name never lack a spare.
    interrupts
        Share of the failures that stop the job, by cause, in place of the book's [1].
    effects
        What failures take from the job until their repair; each takes one HB domain if left out.
        A row whose parts differ, such as switches of several tiers, gives several causes.

    Raises
    ------
    UnknownNameError
        If ``interrupts`` names a cause that the book does not have.

    Examples
    --------
    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> cause = causes_of(FAILURE_BOOKS.load("rsc-1"), {"gpu": 16_384})[0]
    >>> cause.count, cause.rate_per_year
    (2048, 2.3725)
    """
    _check_names(book, pools or {}, interrupts or {})
    causes: list[Cause] = []
    for row in book.rates:
        if row.unit in LAYOUT:
            continue
        cause = Cause(
            name=row.cause,
            rate_per_year=row.rate_per_year.at_end(end),
            count=row.count_in(units),
            interrupts=(interrupts or {}).get(row.cause, row.interrupts),
            repair_h=book.repair_h(row.kind).at_end(end),
        )
        parts: tuple[Cause, ...] = (cause,)
        if effects:
            # Units are shared out among kinds of parts that do different things.
            kinds = effects.of(row)
            upto = np.cumsum([0, *(count for count, _ in kinds)])
            shares = np.rint(cause.count * upto / max(upto[-1], 1)).astype(np.int64)
            parts = tuple(
                replace(
                    cause,
                    count=count,
                    effect=effect,
                    # A job that cannot go on is interrupted, whatever the book says of others.
                    interrupts=1.0 if effect.slowdown == inf else cause.interrupts,
                )
                for count, (_, effect) in zip(np.diff(shares).tolist(), kinds, strict=True)
            )
        if effects and effects.idle:
            parts = effects.idle.split(row, parts)
        pool = (pools or {}).get(row.kind, "")
        lead_h = book.lead_h(row.kind).at_end(end)
        # What is only reset or cleaned takes no spare.
        pools_of = ((row.replaced, pool), (1 - row.replaced, "")) if pool else ((1.0, ""),)
        causes += [
            replace(part, rate_per_year=part.rate_per_year * share, pool=taken, lead_h=lead_h)
            for part in parts
            for share, taken in pools_of
        ]
    return tuple(causes)


def _check_names(
    book: FailureBook, pools: Mapping[str, str], interrupts: Mapping[str, float]
) -> None:
    """Refuse causes and kinds of parts that the book does not have."""
    names = [row.cause for row in book.rates]
    for name in interrupts:
        if name not in names:
            raise unknown_name("cause", name, names)
    kinds = {row.kind for row in book.rates}
    for kind in pools:
        if kind not in kinds:
            raise InputError(
                f"a pool for {kind!r}, of which failures {book.name} has no row: known:"
                f" {', '.join(sorted(kinds))}"
            )


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
    each_iteration
        Whether one is written in every iteration, which ``interval_h`` is where none is timed.
    remainder_h
        What an interruption loses beyond the restart and the work since a checkpoint [h].
    write_ends_h
        Writing one checkpoint on other clusters, the quickest and the slowest [h]; ``write_h`` if
        left out.
    """

    write_h: float
    restart_h: float
    interval_h: float | None = None
    each_iteration: bool = False
    remainder_h: float = 0.0
    write_ends_h: tuple[float, float] | None = None

    def of_iterations(self, iteration_time_s: float | None) -> "CheckpointPolicy":
        """The policy of a job whose iterations take so long [s], where they are timed."""
        if iteration_time_s is None or not self.each_iteration:
            return self
        return replace(self, interval_h=iteration_time_s / SECONDS_PER_HOUR)

    def times_at(self, between_h: float) -> checkpoints.CheckpointTimes:
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
            interval = min(checkpoints.best_interval_h(self.write_h, between_h), HOURS_PER_YEAR)
        return checkpoints.CheckpointTimes(
            interval, self.write_h, self.restart_h + self.remainder_h
        )


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
        Idle HB domains beside the job's, which take over from those that are down [1].
    wait
        Whether the job waits while more domains are down than stand by, in place of going on.
    """

    checkpoints: CheckpointPolicy
    level: float = 0.99
    years: int = 1000
    seed: int = 0
    end: End = "base"
    spares: Mapping[str, int] = field(default_factory=dict)
    idle_domains: int = 0
    wait: bool = False


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
    """Interruptions of a year by one cause, simulated.

    ``half_width`` is that of the 95 % interval of the mean; 95 % of the years have from ``low`` to
    ``high`` interruptions.
    """

    cause: str
    failures_per_year: float
    interruptions_per_year: float
    half_width: float
    low: float
    high: float


class Flaps(Struct, frozen=True):
    """Host links that go down for seconds and come back, in a year.

    Parameters
    ----------
    per_year
        Flaps of all host links [1/year].
    held_up_h
        Hours of a year that they hold the job up [h].
    retransmitting_h
        Hours of them in which at least one link sends again what was lost [h].
    rides_through
        Whether each GPU has other ports, on which the job goes on meanwhile.
    """

    per_year: Range
    held_up_h: Range
    retransmitting_h: Range
    rides_through: bool


def flaps_of(
    book: FailureBook, host_links: int, *, optics: OpticsKind, slowdown: float | None
) -> Flaps | None:
    """What flaps of host links cost a job; None where the book has none of such ends.

    A GPU whose only port is down holds all others up until the link is back and what was lost is
    sent again. On other ports the job goes on, slower by a share, until the link is back. Links
    flap independently of each other: of events that come h hours in a year in all, at least one is
    under way in a share 1 - exp(-h / 8,760) of it, the probability that a Poisson count of mean
    h / 8,760 is not 0 (an M/G/infinity queue that is busy). Several at once hold the job up once.

    Parameters
    ----------
    book
        Failure rates, and flaps.
    host_links
        Host links whose ends are optical [1].
    optics
        What these ends are.
    slowdown
        How much longer an iteration takes without one link of a GPU that has others [1]; None
        where it has none.

    Examples
    --------
    1,024 links that flap seven times a year, each for 5 s and 4.3 s to send again: 18.52 h end to
    end, 18.50 h that the job is held up.

    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> book = FAILURE_BOOKS.load("2026")
    >>> flaps = flaps_of(book, 1024, optics="dsp", slowdown=None)
    >>> round(flaps.per_year.base), round(flaps.held_up_h.base, 2)
    (7168, 18.5)
    >>> flaps_of(book, 1024, optics="dsp", slowdown=0.0).held_up_h.base
    0.0
    """
    row = next((flap for flap in book.flaps if optics in (flap.optics or (optics,))), None)
    if row is None or not host_links:
        return None
    per_year = host_links * row.per_year.range
    again, down, lost = row.retransmit_s.range, row.down_s.range, 1.0
    if slowdown is not None:
        again, lost = Range.point(0.0), slowdown / (1 + slowdown)
    held_up_h, retransmitting_h = (
        lost * _hours_of_any(per_year, each_s) for each_s in (down + again, again)
    )
    return Flaps(per_year, held_up_h, retransmitting_h, slowdown is not None)


def _hours_of_any(per_year: Range, each_s: Range) -> Range:
    """Hours of a year in which at least one of some independent events is under way [h]."""
    hours = (
        often * seconds / SECONDS_PER_HOUR
        for often, seconds in zip(astuple(per_year), astuple(each_s), strict=True)
    )
    return Range(*(-HOURS_PER_YEAR * expm1(-end_h / HOURS_PER_YEAR) for end_h in hours))


class ReliabilityForecast(Struct, frozen=True):
    """Years of failures of one fabric.

    Parameters
    ----------
    interruptions_per_year, interruptions_half_width, interruptions_closed_form
        Interruptions of a year: simulated mean, half of its 95 % interval, and the closed form [1].
    interruptions_low, interruptions_high
        Interruptions of a year that 95 % of the years lie between [1].
    network_interruptions_per_year
        Those of them that the network causes, closed form [1].
    mtbf_h
        Mean time between interruptions, closed form [h].
    interval_h, young_h, daly_h
        Checkpoint interval in use, and Young's and Daly's [h].
    spread_few, spread_many
        Interruptions of clusters over those here, the least and the most [1].
    interval_low_h, interval_high_h, goodput_low, goodput_high
        Checkpoint interval [h] and goodput in closed form [1] with so many interruptions; low is
        what the most interruptions give.
    bad_servers_per_year, goodput_without_bad_servers
        Interruptions by bad servers beyond what others have [1/year], and goodput without them in
        closed form [1]; 0 and None where there are none.
    flaps
        Links that go down for seconds, apart from all that; None where the book has none.
    effective_time_ratio, effective_half_width, effective_closed_form
        Share of the time that counts: simulated, half of its 95 % interval, closed form [1].
    goodput, goodput_half_width, goodput_closed_form
        Useful work over that of a job that never stops nor slows down: simulated, half of its 95 %
        interval, closed form to first order [1].
    lost_h
        Hours of a year that do not count, by reason [h].
    slowed_h
        Useful hours of a year that what was down cost in speed [h].
    domains_down
        HB domains down at a moment, mean of the closed form [1].
    idle_domains, idle_domains_needed, idle_domains_needed_with_groups
        Idle HB domains beside the job's; the least that cover what single failures of one domain
        take for the service level, and those of leaves, racks and feeds, too [1].
    years, years_for_one_percent
        Simulated years, and how many bring the interval of the interruptions down to 1 % [1].
    no_switch_down
        Probability that no switch is down at a moment, from the rate and repair hours of the book;
        None where it says neither [1].
    causes, spares
        By cause; by kind of part.
    network_cost_per_effective_gpu_hour
        Network's annuity and energy, those of idle domains included at the same price a GPU, for an
        hour of useful work of one GPU of the job; None without a price.
    """

    interruptions_per_year: float
    interruptions_half_width: float
    interruptions_closed_form: float
    interruptions_low: float
    interruptions_high: float
    network_interruptions_per_year: float
    mtbf_h: float
    interval_h: float
    young_h: float
    daly_h: float
    spread_few: float
    spread_many: float
    interval_low_h: float
    interval_high_h: float
    goodput_low: float
    goodput_high: float
    bad_servers_per_year: float
    goodput_without_bad_servers: float | None
    effective_time_ratio: float
    effective_half_width: float
    effective_closed_form: float
    goodput: float
    goodput_half_width: float
    goodput_closed_form: float
    lost_h: dict[str, float]
    slowed_h: float
    domains_down: float
    idle_domains: int
    idle_domains_needed: int
    idle_domains_needed_with_groups: int
    years: int
    years_for_one_percent: float
    no_switch_down: float | None
    causes: tuple[CauseShare, ...]
    spares: tuple[Spares, ...]
    network_cost_per_effective_gpu_hour: float | None
    flaps: Flaps | None = None


NEARLY_ALWAYS = 1 - 1e-7
"""Share of the time in which as many domains are down as the search is asked for, or fewer [1]."""


def reliability_forecast(
    fabric: Fabric,
    book: FailureBook,
    options: ForecastOptions,
    *,
    cost_per_year: float | None = None,
    effects: FailureEffects | None = None,
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
    effects
        Units that fail, and what that takes from the job until their repair; if left out, units
        are counted without a bill, GPUs and servers take their domain, and nothing else does.
    groups
        Groups that fail as a whole, of `netplan.faults.years.group_failures`.

    Raises
    ------
    InputError
        If the options are out of range.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
    >>> fabric = scenario.fabric("rail-only").counts
    >>> options = ForecastOptions(CheckpointPolicy(1 / 60, 10 / 60), years=200)
    >>> found = reliability_forecast(fabric, FAILURE_BOOKS.load("2026").placed(8), options)
    >>> abs(found.effective_time_ratio - found.effective_closed_form) < 0.01
    True
    """
    effects = effects or untimed_effects(fabric)
    spares = part_spares(effects.units, book, options)
    kept = _kept(fabric, spares, options)
    exposure = _exposure(book, options, kept=kept, effects=effects, groups=groups)
    per_year = sum(cause.interruptions_per_year for cause in exposure.causes)
    between_h = reliability.mtbf_h(per_year)
    job, write_h = options.checkpoints.times_at(between_h), options.checkpoints.write_h
    rng = np.random.default_rng(options.seed)
    outages = simulate_outages(exposure, job, years=options.years, rng=rng)
    yearly, (low, high) = outages.interruptions_a_year, outages.interruptions_interval()
    ratio, goodput = outages.effective_time_ratio, outages.goodput
    never_waiting = checkpoints.exact_time_ratio(job, between_h)
    waits, throughput = expected_throughput(exposure.causes, exposure.throughput)
    down = domains_under_repair(exposure.causes, wait=options.wait)
    network = {row.cause for row in book.rates if row.kind in NETWORK_KINDS}
    network |= {kind.name for kind in groups if kind.row.kind in NETWORK_KINDS}
    finite_h = min(between_h, HOURS_PER_YEAR * options.years)
    switches_down = sum(
        reliability.outstanding(
            row.rate_per_year.at_end(options.end),
            row.count_in(effects.units),
            book.repair_h(row.kind).at_end(options.end),
        )
        for row in book.rates
        if row.kind == "switch"
    )
    policy = options.checkpoints
    few, many = _spread(book, effects.units, options.end)
    (_, high_h, goodput_high), (_, low_h, goodput_low) = (
        _in_closed_form(exposure, replace(policy, write_h=of_others_h), times, {})
        for of_others_h, times in zip(
            policy.write_ends_h or (write_h, write_h), (few, many), strict=True
        )
    )
    bad = {row.cause: row.times for row in book.rates if row.times > 1}
    without_bad, _, without_bad_goodput = _in_closed_form(exposure, policy, 1.0, bad)
    hourly = None
    if cost_per_year is not None and goodput.value > 0:
        cost = cost_per_year * (1 + options.idle_domains / fabric.sizing.domains)
        hourly = reliability.cost_per_effective_gpu_hour(cost, fabric.sizing.gpus, goodput.value)
    return ReliabilityForecast(
        interruptions_per_year=yearly.value,
        interruptions_half_width=_finite(yearly.half_width),
        interruptions_closed_form=per_year,
        interruptions_low=low,
        interruptions_high=high,
        network_interruptions_per_year=sum(
            cause.interruptions_per_year for cause in exposure.causes if cause.name in network
        ),
        mtbf_h=between_h if between_h < inf else HOURS_PER_YEAR * options.years,
        interval_h=job.interval_h,
        spread_few=few,
        spread_many=many,
        interval_low_h=low_h,
        interval_high_h=high_h,
        goodput_low=goodput_low,
        goodput_high=goodput_high,
        bad_servers_per_year=per_year - without_bad,
        goodput_without_bad_servers=without_bad_goodput if bad else None,
        young_h=checkpoints.young_interval_h(write_h, finite_h),
        daly_h=checkpoints.daly_interval_h(write_h, finite_h),
        effective_time_ratio=ratio.value,
        effective_half_width=_finite(ratio.half_width),
        effective_closed_form=never_waiting * (1 - waits),
        goodput=goodput.value,
        goodput_half_width=_finite(goodput.half_width),
        goodput_closed_form=never_waiting * throughput,
        lost_h=_lost_h(outages, policy),
        slowed_h=float(outages.slowed_h.mean()),
        domains_down=sum(size * mean for size, mean in down.items()),
        idle_domains=options.idle_domains,
        idle_domains_needed=reliability.idle_domains_needed({1: down.get(1, 0.0)}, options.level),
        idle_domains_needed_with_groups=reliability.idle_domains_needed(down, options.level),
        years=outages.years,
        years_for_one_percent=_finite(float(yearly.years_for(0.01))),
        no_switch_down=exp(-switches_down) if switches_down else None,
        causes=_causes(exposure, outages),
        spares=spares,
        network_cost_per_effective_gpu_hour=hourly,
    )


def _in_closed_form(
    exposure: Exposure, policy: CheckpointPolicy, times: float, over: Mapping[str, float]
) -> tuple[float, float, float]:
    """Interruptions of a year [1], checkpoint interval [h] and goodput [1] in closed form.

    Of the same job with all failures so many times as frequent, those of causes over theirs.
    """
    causes = [
        replace(cause, rate_per_year=cause.rate_per_year * times / over.get(cause.name, 1))
        for cause in exposure.causes
    ]
    per_year = sum(cause.interruptions_per_year for cause in causes)
    between_h = reliability.mtbf_h(per_year)
    job = policy.times_at(between_h)
    _, throughput = expected_throughput(causes, exposure.throughput)
    goodput = checkpoints.exact_time_ratio(job, between_h) * throughput
    return per_year, job.interval_h, goodput


def _spread(book: FailureBook, units: Mapping[Unit, int], end: End) -> tuple[float, float]:
    """Interruptions of other clusters over those of the book, the fewest and the most [1].

    Without a spread the ends of the book's rates say it.
    """
    if book.spread is not None:
        return 1 / book.spread.times, book.spread.times
    low, base, high = (
        sum(
            row.rate_per_year.at_end(side) * row.count_in(units) * row.interrupts
            for row in book.rates
            if row.unit not in LAYOUT
        )
        for side in ("low", end, "high")
    )
    return (low / base, high / base) if base else (1.0, 1.0)


def _lost_h(outages: Outages, policy: CheckpointPolicy) -> dict[str, float]:
    """Hours of a year that do not count, by reason; what is lost beyond restarts is rework [h]."""
    lost_h = {reason: mean.value for reason, mean in outages.lost_h.items()}
    if policy.remainder_h:
        beyond = policy.remainder_h / (policy.remainder_h + policy.restart_h) * lost_h["restart"]
        lost_h |= {"restart": lost_h["restart"] - beyond, "rework": lost_h["rework"] + beyond}
    return lost_h


def _exposure(
    book: FailureBook,
    options: ForecastOptions,
    *,
    kept: dict[str, int],
    effects: FailureEffects,
    groups: Sequence[GroupFailures],
) -> Exposure:
    """Everything that can stop or slow the job: single parts, groups, and what replaces them."""
    # A job inside one HB domain needs no network.
    unused = NETWORK_KINDS if effects.domains == 1 else frozenset()
    alone = causes_of(
        book,
        effects.units,
        end=options.end,
        pools={kind: kind for kind in kept},
        interrupts={row.cause: 0.0 for row in book.rates if row.kind in unused},
        effects=effects,
    )
    whole = {kind.row.cause for kind in groups}
    causes = [cause for cause in alone if cause.name not in whole]
    causes += [cause for kind in groups for cause in kind.causes]
    taken = domains_under_repair(causes, wait=False)
    _, many = _spread(book, effects.units, options.end)
    most, beyond = (
        reliability.idle_domains_needed(
            {size: times * mean for size, mean in taken.items()}, NEARLY_ALWAYS
        )
        for times in (1.0, max(many, 1.0))
    )
    throughput = effects.throughput(
        taken, idle=options.idle_domains, wait=options.wait, most=most, beyond=beyond
    )
    return Exposure(tuple(causes), kept, throughput)


def _causes(exposure: Exposure, outages: Outages) -> tuple[CauseShare, ...]:
    """Interruptions by cause, those of groups last."""
    rates = dict.fromkeys(outages.causes, 0.0)
    for cause in exposure.causes:
        rates[cause.name] += cause.failures_per_year
    shares = []
    for name, rate in rates.items():
        mean, (low, high) = outages.interruptions_of(name), outages.interruptions_interval(name)
        shares.append(CauseShare(name, rate, mean.value, _finite(mean.half_width), low, high))
    return tuple(shares)


def _kept(fabric: Fabric, spares: Sequence[Spares], options: ForecastOptions) -> dict[str, int]:
    """Spares that are kept of parts that the fabric has [1].

    Raises
    ------
    InputError
        If they do not reach the service level: the message says how many do.
    """
    kept = {}
    for row in spares:
        if row.kind not in options.spares:
            continue
        number = options.spares[row.kind]
        waiting = row.replaced_per_year * row.lead_h / HOURS_PER_YEAR
        try:
            reliability.require_service(number, waiting, options.level)
        except InputError as error:
            raise InputError(f"{fabric.name}, {row.kind}: {error}") from None
        kept[row.kind] = number
    return kept


def part_spares(
    units: Mapping[Unit, int], book: FailureBook, options: ForecastOptions
) -> tuple[Spares, ...]:
    """Spares by kind of part: replacements during a delivery, rows of one kind together.

    Examples
    --------
    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> options = ForecastOptions(CheckpointPolicy(1 / 60, 10 / 60))
    >>> book = FAILURE_BOOKS.load("2026")
    >>> units = {row.unit: 0 for row in book.rates} | {"gpu": 1024}
    >>> [(one.kind, one.spares) for one in part_spares(units, book, options)]
    [('gpu', 3)]
    """
    rows: dict[str, list[FailureRate]] = {}
    for row in book.rates:
        if row.kind in SPARED_KINDS:
            rows.setdefault(row.kind, []).append(row)
    spare_rows = []
    for kind, parts in rows.items():
        counts = [row.count_in(units) for row in parts]
        lead_h = book.lead_h(parts[0].kind).at_end(options.end)
        if not sum(counts) or not lead_h:
            continue
        failures = [row.rate_per_year.at_end(options.end) * row.count_in(units) for row in parts]
        pairs = zip(parts, failures, strict=True)
        replaced = sum(row.replaced * per_year for row, per_year in pairs)
        waiting = reliability.outstanding(replaced, 1, lead_h)
        spares = reliability.spares_needed(waiting, options.level)
        spare_rows.append(
            Spares(
                kind,
                tuple(row.unit for row in parts),
                sum(counts),
                sum(failures),
                replaced,
                lead_h,
                spares,
                reliability.service_level(spares, waiting),
            )
        )
    return tuple(spare_rows)


def _finite(value: float) -> float:
    """A number that JSON has: infinite widths of a single year become 0 years of evidence."""
    return value if value < inf else 0.0
