"""What failures cost a job, simulated over many years: interruptions, lost hours, goodput.

Failures of each cause are a Poisson process in time. A failure that interrupts costs the work since
the last checkpoint and a restart, as in :mod:`netplan.faults.years.checkpoints`. Until its repair
the job lacks what the failure took (below): it goes on at full speed where an idle HB domain takes
over, else slower, or it waits. A repair begins when the part is at hand: a spare from the shelf,
else the next one that comes back to its pool; failures take spares in the order in which they come.
Repair and delivery times are fixed or exponential.

There is no loop over failures or years: years lie on one line of time, in chunks, and every step
is an array (below). A failure that neither interrupts, slows nor takes a
scarce spare is only counted.

An interval is mean +- t s / sqrt(b) over b batches of consecutive years (at most 100), with
Student's t of b - 1 degrees of freedom: years of one chunk share the state of the pools, batches
hardly do. The half-width falls with the square root of the years, which gives the number of years
for a wanted precision.

Left out: failures that depend on age or on one another beyond the groups, repairs that queue for
staff, and what :mod:`netplan.faults.years.outages` leaves out.

What is down at each moment, and at which throughput the job goes on meanwhile.

From a failure until its repair the job lacks what the failure took. So the number of HB domains
that are down is a step function of time: arrivals less departures. With s idle domains beside the
job's, n domains down leave max(n - s, 0) missing; the throughput without them is a table, made by
the search for plans on what is left (:mod:`netplan.faults.years.effects`). A failure that leaves
all GPUs at work slows them until its repair, unless idle domains have taken over from all that is
hit. Of several such failures the worst counts, since a synchronous job is as slow as its slowest
member.

Left out: restarts to take a repaired domain back, failures of idle domains, and two failures in
one domain, which count as two domains.

One chunk of years on a line of time: when failures come, what is down meanwhile, what is lost.

An event that may or may not stop the job is split into kinds, each a Poisson process of its own.
Kinds that neither stop it, take a scarce spare, nor slow it leave the line and are only counted.

Times of a Poisson process are sums of exponential gaps. Spares are first come, first served: with
s spares the i-th demand of a pool is met when it comes, or when the part number i - s is back,
whichever is later; then the repair begins. What is down at each moment follows
(:mod:`netplan.faults.years.outages`). After a stop the job waits if it has to, restarts, and
finishes floor(rest / (tau + w)) intervals until the next one; what remains is lost. Each step is
one array operation.

Draws depend on rates alone, so that the same seed gives the same failures whatever their repairs
take and whoever stands by.
"""

from collections.abc import Mapping, Sequence
from math import ceil, inf, isfinite, log2, sqrt
from typing import Literal

import numpy as np
from msgspec import Struct, field
from scipy.special import stdtrit

from netplan.arrays import Bools, Floats, Ints
from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.faults.years.checkpoints import CheckpointTimes
from netplan.faults.years.reliability import check_probability
from netplan.progress import with_progress
from netplan.traffic.matrix import sum_by
from netplan.units import HOURS_PER_YEAR


class Effect(Struct, frozen=True):
    """What one failure takes from the job until its repair.

    Parameters
    ----------
    domains
        HB domains that it hits [1].
    whole
        Whether a domain loses more than one of its GPUs: its rest is no use then.
    all_gpus
        Whether the job goes on on all GPUs, those of the domains that are hit included.
    slowdown
        How much longer an iteration takes on what the failure left of the network [1]; infinite
        where the job cannot go on, unless idle domains replace those that are hit. Missing domains
        come on top.

    Examples
    --------
    A failed GPU takes its domain, a failed port makes its domain forward.

    >>> Effect(domains=1), Effect(domains=1, all_gpus=True, slowdown=0.0044)
    (Effect(domains=1, whole=False, all_gpus=False, slowdown=0.0),
     Effect(domains=1, whole=False, all_gpus=True, slowdown=0.0044))
    """

    domains: int = 0
    whole: bool = False
    all_gpus: bool = False
    slowdown: float = 0.0

    def __post_init__(self) -> None:
        """Refuse negative numbers.

        Raises
        ------
        InputError
            If a number is negative or none.
        """
        if self.domains < 0 or not self.slowdown >= 0:
            raise InputError(
                f"a failure that takes {self.domains:,} HB domains and slows by {self.slowdown:g}:"
                " give 0 or more of both"
            )

    @property
    def survived(self) -> "Effect":
        """Effect of such a failure that stops no job: the slowdown, where all GPUs go on."""
        return Effect(slowdown=self.slowdown) if self.all_gpus or not self.domains else Effect()


class ThroughputTable(Struct, frozen=True, eq=False):
    """At which throughput a job goes on, by the HB domains that are down.

    Parameters
    ----------
    idle_domains
        Idle HB domains beside the job's, which take over [1].
    wait
        Whether the job waits while more domains are down than stand by.
    missing, factor
        Iteration time over that of the whole job while so many domains are missing, shapes
        (steps,) and (2, steps) [1]: where each has lost one GPU, and where some lost more. Both
        rise. Between two steps the larger counts, beyond the last the job waits.
    """

    idle_domains: int = 0
    wait: bool = False
    missing: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    factor: Floats = field(default_factory=lambda: np.ones((2, 1)))

    def without(self, down: Ints, whole: Ints) -> Floats:
        """Iteration time over that of the whole job, by domains down and those lost whole [1].

        Examples
        --------
        >>> factor = np.array([[1, 1.1, 1.2], [1, 1.5, 2]])
        >>> table = ThroughputTable(1, False, np.array([0, 1, 4]), factor)
        >>> table.without(np.array([1, 2, 3, 3, 9]), np.array([1, 0, 1, 2, 0])).tolist()
        [1.0, 1.1, 1.2, 2.0, inf]
        """
        most = int(self.missing[-1])
        step = np.searchsorted(self.missing, np.arange(most + 1))
        table = np.append(self.factor[:, step], [[inf], [inf]], axis=1)
        missing = np.minimum(np.maximum(down - self.idle_domains, 0), most + 1)
        factor: Floats = table.ravel()[missing + (whole > self.idle_domains) * (most + 2)]
        return factor


class EffectArrays(Struct, frozen=True, eq=False):
    """Effects of some kinds of failures, as arrays.

    Parameters
    ----------
    domains
        HB domains taken, those of them lost whole, and those only hit, shape (kinds, 3) [1].
    level
        Place of each kind's slowdown in ``slowdowns``, -1 without one, shape (kinds,).
    slowdowns
        Slowdowns that occur, rising, and whether idle domains spare the job each [1].
    """

    domains: Ints
    level: Ints
    slowdowns: tuple[tuple[float, bool], ...]

    @classmethod
    def of(cls, effects: list[Effect]) -> "EffectArrays":
        """Arrays of effects, one a kind.

        Examples
        --------
        >>> kinds = [Effect(1), Effect(2, whole=True), Effect(3, all_gpus=True), Effect()]
        >>> EffectArrays.of(kinds).domains.tolist()
        [[1, 0, 0], [2, 2, 0], [0, 0, 3], [0, 0, 0]]
        """
        keys = [(effect.slowdown, effect.all_gpus and effect.domains > 0) for effect in effects]
        slowdowns = sorted({key for key in keys if key[0]})
        domains = [
            (0, 0, effect.domains)
            if effect.all_gpus
            else (effect.domains, effect.whole * effect.domains, 0)
            for effect in effects
        ]
        return cls(
            np.array(domains, np.int64).reshape(len(effects), 3),
            np.array([slowdowns.index(key) if key in slowdowns else -1 for key in keys], np.int64),
            tuple(slowdowns),
        )


class Spells(Struct, frozen=True, eq=False):
    """Spells of one throughput: begin of each [h], and time of its iterations [1], (spells,)."""

    begin_h: Floats
    factor: Floats

    def ready_h(self, moment_h: Floats) -> Floats:
        """When the job can run, at each moment: at once, or when the wait under way ends [h]."""
        waits = np.isinf(self.factor)
        if not waits.any():
            return moment_h
        ends = np.minimum.accumulate(np.where(waits, inf, self.begin_h)[::-1])[::-1]
        spell = np.searchsorted(self.begin_h, moment_h, side="right") - 1
        return np.where(waits[spell], ends[spell], moment_h)


BITS = 21
"""Three numbers below two million each share a whole number of 64 bits [bit]."""


def spells(
    begin_h: Floats, end_h: Floats, kind: Ints, effects: EffectArrays, throughput: ThroughputTable
) -> Spells:
    """Throughputs of a job from the first moment on, 0 h.

    Parameters
    ----------
    begin_h, end_h
        When each failure comes, and when it is repaired, shape (failures,) [h].
    kind
        Kind of each, shape (failures,).
    effects
        What each kind takes.
    throughput
        How the job goes on.

    Examples
    --------
    A domain is down from 1 to 4 h, another from 2 to 3 h; one idle domain stands by.

    >>> found = spells(np.array([1.0, 2.0]), np.array([4.0, 3.0]), np.zeros(2, int),
    ...                EffectArrays.of([Effect(domains=1)]), ThroughputTable(idle_domains=1))
    >>> found.begin_h.tolist(), found.factor.tolist()
    ([0.0, 2.0, 3.0], [1.0, inf, 1.0])
    """
    count = len(kind)
    moment = np.concatenate([begin_h, end_h])
    order = np.argsort(moment, kind="stable")
    moment, failure = moment[order], np.tile(kind, 2)[order]
    sign = np.where(order < count, 1, -1)
    # Domains taken, taken whole and hit, in one sum, which takes a third of the time. No sum is
    # ever negative, so that none borrows from the next.
    packed = effects.domains @ (np.int64(1) << BITS * np.arange(3))
    sums = np.cumsum(packed[failure] * sign)
    mask = (1 << BITS) - 1
    taken, whole = sums & mask, sums >> BITS & mask
    full = taken + (sums >> 2 * BITS) <= throughput.idle_domains
    factor = throughput.without(taken, whole)
    level, slowdown = effects.level[failure], np.zeros(2 * count)
    for number, (slower, spared) in enumerate(effects.slowdowns):
        # Whether more of this slowdown have come than gone: only its own events change that.
        events = np.flatnonzero(level == number)
        more = np.concatenate([[False], np.cumsum(sign[events]) > 0])
        active = np.repeat(more, np.diff(events, prepend=0, append=len(sign)))
        slowdown[active & ~full if spared else active] = slower
    factor *= 1 + slowdown
    if throughput.wait:
        factor[~full] = inf
    factor = np.concatenate([[1.0], factor])
    # Moments that change no throughput would only cost time.
    changes = np.flatnonzero(factor[1:] != factor[:-1]) + 1
    kept = np.concatenate([[0], changes])
    return Spells(np.concatenate([[0.0], moment])[kept], factor[kept])


class Sources(Struct, frozen=True, eq=False):
    """Kinds of events.

    Parameters
    ----------
    names
        Causes: the columns of the answer.
    pools, spares
        Pools and their spares, shape (pools,) [1].
    counted_per_year
        Events of each column that are only counted, shape (columns,) [1/year].
    rate_per_year
        Rate of each kind on the line, shape (kinds,) [1/year].
    column
        Column of each kind, shape (kinds,).
    interrupts
        Whether a kind stops the job, shape (kinds,).
    pool
        Pool that a kind takes a part from, -1 for none, shape (kinds,).
    lead_h
        Mean time until a part is in the pool again, shape (kinds,) [h].
    repair_h
        Mean time of a repair with the part at hand, shape (kinds,) [h].
    effects
        What each kind takes from the job until its repair.
    throughput
        How the job goes on meanwhile.
    """

    names: tuple[str, ...]
    pools: tuple[str, ...]
    spares: Ints
    counted_per_year: Floats
    rate_per_year: Floats
    column: Ints
    interrupts: Bools
    pool: Ints
    lead_h: Floats
    repair_h: Floats
    effects: EffectArrays
    throughput: ThroughputTable

    @property
    def timed_per_year(self) -> float:
        """Events on the line [1/year]."""
        return float(self.rate_per_year.sum())


REASONS = ("useful", "checkpoint", "rework", "restart", "waiting")
"""Where the hours of a year go, in the order of the columns."""


class Chunk(Struct, frozen=True):
    """Years that are worked on at once, their length, and the time before them to warm up [h]."""

    years: int
    hours: float
    warm_up_h: float
    exponential: bool

    @property
    def span_h(self) -> float:
        """Length of the line of time [h]."""
        return float(self.edges_h[-1])

    @property
    def edges_h(self) -> Floats:
        """Beginnings of the years that count, and the end of the last, shape (years + 1,) [h]."""
        return self.warm_up_h + self.hours * np.arange(self.years + 1, dtype=np.float64)


def simulate_chunk(
    sources: Sources, checkpoints: CheckpointTimes, chunk: Chunk, rng: np.random.Generator
) -> tuple[Ints, Ints, Floats, Floats, Floats]:
    """Draw the failures of a chunk and follow the job through them, a row a year.

    Returns
    -------
    tuple[Ints, Ints, Floats, Floats, Floats]
        Failures that stop the job, and all, a column a cause; the hours by ``REASONS``; the useful
        hours that a slower throughput cost; of each pool the demands, those met at once, and the
        hours in which a part is lacking, shape (years, 3, pools).
    """
    # Given their number, times of a Poisson process are sorted uniform times, which exponential
    # gaps give without sorting.
    mean = sources.timed_per_year / HOURS_PER_YEAR * chunk.span_h
    times = rng.standard_exponential(rng.poisson(mean) + 1)
    np.cumsum(times, out=times)
    times *= chunk.span_h / times[-1]
    times = times[:-1]
    edges = np.cumsum(sources.rate_per_year)
    kind = np.zeros(0, np.int64)
    if len(times):  # 1 - u lies in (0, 1]: it never exceeds the last edge
        kind = np.searchsorted(edges, (1 - rng.random(len(times))) * edges[-1])
    at_hand, shelf = _parts_at_hand(sources, times, kind, chunk, rng)
    first, kinds = np.searchsorted(times, chunk.edges_h), len(sources.rate_per_year)
    year = np.repeat(np.arange(chunk.years), np.diff(first))
    place = year * kinds + kind[first[0] : first[-1]]
    counts = np.bincount(place, minlength=chunk.years * kinds).reshape(chunk.years, kinds)
    belongs = (sources.column[:, np.newaxis] == np.arange(len(sources.names))).astype(np.int64)
    stopping, other = (
        (counts * sources.interrupts) @ belongs,
        (counts * ~sources.interrupts) @ belongs,
    )
    counted = sources.counted_per_year * (chunk.hours / HOURS_PER_YEAR)
    other += rng.poisson(counted, other.shape)
    effects = sources.effects
    lasting = effects.domains.any(axis=1) | (effects.level >= 0)
    lasts = np.flatnonzero(lasting[kind])
    repair_h = sources.repair_h[kind[lasts]] * _spread(len(lasts), chunk, rng)
    down = spells(times[lasts], at_hand[lasts] + repair_h, kind[lasts], effects, sources.throughput)
    stop_h = times[sources.interrupts[kind]]
    # Beyond the line the process goes on: the next stop decides what the last gap saved.
    rate = float(sources.rate_per_year[sources.interrupts].sum()) / HOURS_PER_YEAR
    beyond = chunk.span_h + (rng.exponential(1 / rate) if rate else checkpoints.cycle_h)
    work = RepairQueue.between(stop_h, down.ready_h(stop_h), beyond, checkpoints)
    time_h = np.diff(work.hours_until(chunk.edges_h), axis=0)
    slowed_h = _slowed_by_year(work, down, chunk.edges_h)
    return stopping, stopping + other, time_h, slowed_h, shelf


def _spread(count: int, chunk: Chunk, rng: np.random.Generator) -> Floats:
    """Times about a mean of 1, shape (count,)."""
    return rng.standard_exponential(count) if chunk.exponential else np.ones(count)


def _parts_at_hand(
    sources: Sources, times: Floats, kind: Ints, chunk: Chunk, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """When the part of each failure is there [h], and what each shelf held, by year."""
    at_hand = times.copy()
    shelf = np.zeros((chunk.years, 3, len(sources.pools)))
    pool = sources.pool[kind]
    for number, spares in enumerate(sources.spares):
        asks = np.flatnonzero(pool == number)
        lead_h = sources.lead_h[kind[asks]] * _spread(len(asks), chunk, rng)
        at_hand[asks] = _meet(times[asks], lead_h, int(spares))
        shelf[:, :, number] = _shelf_by_year(times[asks], at_hand[asks], chunk.edges_h)
    return at_hand, shelf


def _meet(asked: Floats, lead: Floats, spares: int) -> Floats:
    """When each demand of a pool is met, first come, first served [h]."""
    back, met = np.sort(asked + lead), asked.copy()
    np.maximum(met[spares:], back[: max(0, len(back) - spares)], out=met[spares:])
    return met


def _shelf_by_year(asked: Floats, met: Floats, edges: Floats) -> Floats:
    """Demands, those met at once, and hours in which a part is lacking; shape (years, 3)."""
    first = np.searchsorted(asked, edges)
    at_once = np.concatenate([[0], np.cumsum(met <= asked)])[first]
    # Both times rise, so that lacking hours are a union of intervals cut at the next demand.
    lacking = np.minimum(met, np.append(asked[1:], np.inf)) - asked
    before = np.concatenate([[0.0], np.cumsum(lacking)])[first]
    last = np.maximum(first - 1, 0)
    if len(asked):
        over = np.where(first > 0, asked[last] + lacking[last] - edges, 0.0)
        before -= np.maximum(over, 0.0)
    return np.diff(np.stack([first, at_once, before], axis=1), axis=0)


class RepairQueue(Struct, frozen=True, eq=False):
    """The gaps between stops, and what the job does in each.

    Parameters
    ----------
    start_h
        When each gap begins, the first at 0, shape (gaps,) [h].
    wait_h, run_h
        Waiting at its beginning; hours from the restart to its end, shape (gaps,) [h].
    cycles
        Intervals that it finishes, checkpoints included, shape (gaps,) [1].
    saved
        How the job saves its work.
    """

    start_h: Floats
    wait_h: Floats
    run_h: Floats
    cycles: Floats
    saved: CheckpointTimes

    @classmethod
    def between(
        cls, stop_h: Floats, ready_h: Floats, beyond_h: float, saved: CheckpointTimes
    ) -> "RepairQueue":
        """Work between stops, after each of which the job waits until it is ready."""
        start = np.concatenate([[0.0], stop_h])
        gap = np.diff(start, append=beyond_h)
        wait = np.minimum(np.concatenate([[0.0], ready_h - stop_h]), gap)
        run = gap - saved.restart_h - wait
        run[0] = gap[0]  # the line begins with the job at work
        np.maximum(run, 0.0, out=run)
        return cls(start, wait, run, np.floor(run / saved.cycle_h), saved)

    def hours_until(self, moment_h: Floats) -> Floats:
        """Hours by ``REASONS`` up to some moments, shape (moments, 5).

        They are those of all gaps that have ended and of the part of the gap that is under way.
        """
        gap, past = self._place(moment_h)
        waited = np.minimum(self.wait_h[gap], past)
        ran = self._ran(gap, past)
        useful, saved = self._useful(gap, ran)
        run_h = _before(self.run_h, gap) + ran
        wait_h = _before(self.wait_h, gap) + waited
        columns = [useful, saved - useful, run_h - saved, moment_h - run_h - wait_h, wait_h]
        return np.stack(columns, axis=1)

    def useful_until(self, moment_h: Floats) -> Floats:
        """Useful hours up to some moments, shape (moments,) [h]."""
        gap, past = self._place(moment_h)
        return self._useful(gap, self._ran(gap, past))[0]

    def _place(self, moment_h: Floats) -> tuple[Ints, Floats]:
        """Gap that is under way at each moment, and how long it has been [h]."""
        gap = np.searchsorted(self.start_h, moment_h, side="right") - 1
        return gap, moment_h - self.start_h[gap]

    def _ran(self, gap: Ints, past: Floats) -> Floats:
        """Hours since the restart of the gap under way."""
        dead = self.wait_h[gap] + np.where(gap > 0, self.saved.restart_h, 0.0)
        return np.minimum(np.maximum(past - dead, 0.0), self.run_h[gap])

    def _useful(self, gap: Ints, ran: Floats) -> tuple[Floats, Floats]:
        """Useful hours so far, and those with the checkpoints that save them [h]."""
        cycle_h, interval_h = self.saved.cycle_h, self.saved.interval_h
        done = np.minimum(np.floor(ran / cycle_h), self.cycles[gap])
        # An interval that will be finished counts as it passes; one that will not is rework.
        under_way = np.where(done < self.cycles[gap], ran - done * cycle_h, 0.0)
        done += _before(self.cycles, gap)
        useful = done * interval_h + np.minimum(under_way, interval_h)
        return useful, done * cycle_h + under_way


def _before(values: Floats, places: Ints) -> Floats:
    """Sum of the values before each place, shape of ``places``."""
    return np.concatenate([[0.0], np.cumsum(values)])[places]


def _slowed_by_year(work: RepairQueue, down: Spells, edges: Floats) -> Floats:
    """Useful hours that a slower throughput cost in each year, shape (years,) [h]."""
    cut = np.searchsorted(down.begin_h, edges, side="right")
    begin_h = np.insert(down.begin_h, cut, edges)
    factor = np.insert(down.factor, cut, down.factor[cut - 1])
    lost = np.diff(work.useful_until(begin_h)) * (1 - 1 / factor[:-1])
    first = np.searchsorted(begin_h, edges)
    return np.diff(np.concatenate([[0.0], np.cumsum(lost)])[first])


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
    def interruptions_per_year(self) -> float:
        """Interruptions of a job that uses all units [1/year]."""
        return self.failures_per_year * self.interrupts

    @property
    def under_repair(self) -> float:
        """Mean number of failures under repair that stopped a job on all units [1]."""
        return self.interruptions_per_year * self.repair_h / HOURS_PER_YEAR


class Exposure(Struct, frozen=True):
    """What can stop a job.

    Parameters
    ----------
    causes
        Kinds of units that fail.
    spares
        Spares of each pool [1].
    throughput
        How the job goes on while HB domains are down; it waits for their repair if left out.
    share
        Share of the cluster that the job runs on. A failure hits it with this probability; all
        failures take spares [1].
    """

    causes: tuple[Cause, ...]
    spares: Mapping[str, int] = field(default_factory=dict)
    throughput: ThroughputTable = field(default_factory=ThroughputTable)
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

    def interruptions_of(self, cause: str) -> Mean:
        """Interruptions of one year by one cause [1]."""
        return Mean.of(self.interruptions[:, _place(self.causes, cause, "cause")])

    @property
    def lost_h(self) -> dict[str, Mean]:
        """Hours of one year that do not count, by reason [h]."""
        columns = zip(REASONS, self.time_h.T, strict=True)
        return {reason: Mean.of(hours) for reason, hours in columns if reason != "useful"}

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
    checkpoints: CheckpointTimes,
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
    >>> job = CheckpointTimes(interval_h=0.25, write_h=0.003, restart_h=0.1)
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
    memory_h *= MEMORY_DECAYS if exponential else 1
    doublings = ceil(log2(max(memory_h / LEAST_WARM_UP_H, 1.0)))
    warm_up_h = LEAST_WARM_UP_H * 2.0**doublings if memory_h else 0.0
    step = _chunk_years(sources.timed_per_year * hours / HOURS_PER_YEAR, warm_up_h / hours)
    # The allocator of Linux gives memory back after each chunk, a third of the time in all, until
    # a large block was freed once; this one is never touched.
    np.empty(RESERVE_BYTES, np.uint8)
    lengths = (min(step, years - first) for first in range(0, years, step))
    chunks = [Chunk(length, hours, warm_up_h, exponential) for length in lengths]
    rows = [
        simulate_chunk(sources, checkpoints, chunk, rng)
        for chunk in with_progress(chunks, lambda _: "runs of years")
    ]
    stopping, failures, time_h, slowed_h, shelf = map(np.concatenate, zip(*rows, strict=True))
    demands, met, short_h = np.moveaxis(shelf, 1, 0)
    return Outages(
        causes=sources.names,
        pools=sources.pools,
        hours=hours,
        interruptions=stopping,
        failures=failures,
        time_h=time_h,
        slowed_h=slowed_h,
        demands=demands.astype(np.int64),
        met=met.astype(np.int64),
        short_h=short_h,
    )


def sources_of(exposure: Exposure) -> Sources:
    """Kinds of events: each cause is split by whether its failure hits and stops the job."""
    causes, share, pools = exposure.causes, exposure.share, tuple(exposure.spares)
    names = tuple(dict.fromkeys(cause.name for cause in causes))
    column = np.array([names.index(cause.name) for cause in causes], np.int64)
    pool = np.array([pools.index(c.pool) if c.pool else -1 for c in causes], np.int64)
    rate = np.array([cause.failures_per_year for cause in causes])
    interrupts = np.array([cause.interrupts for cause in causes])
    # All failures, three times: those that stop the job, pass it by, and hit other jobs.
    rates = np.concatenate(
        [rate * interrupts * share, rate * (1 - interrupts) * share, rate * (1 - share)]
    )
    lasting = [cause.effect if cause.repair_h or cause.pool else Effect() for cause in causes]
    effects = [*lasting, *(effect.survived for effect in lasting), *(Effect() for _ in causes)]
    place = np.arange(3 * len(causes)) % max(len(causes), 1)
    stopping = np.arange(3 * len(causes)) < len(causes)
    lasts = np.array([bool(effect.domains or effect.slowdown) for effect in effects], bool)
    timed = stopping | (pool[place] >= 0) | lasts
    kind = np.flatnonzero(timed & (rates > 0))
    return Sources(
        names=names,
        pools=pools,
        spares=np.array([exposure.spares[name] for name in pools], np.int64),
        counted_per_year=sum_by(column[place], np.where(timed, 0.0, rates), len(names)),
        rate_per_year=rates[kind],
        column=column[place[kind]],
        interrupts=stopping[kind],
        pool=pool[place[kind]],
        lead_h=np.array([cause.lead_h if cause.pool else 0.0 for cause in causes])[place[kind]],
        repair_h=np.array([cause.repair_h for cause in causes])[place[kind]],
        effects=EffectArrays.of([effects[number] for number in kind.tolist()]),
        throughput=exposure.throughput,
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
