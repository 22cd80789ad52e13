"""One chunk of years on a line of time: when failures come, what is down meanwhile, what is lost.

An event that may or may not stop the job is split into kinds, each a Poisson process of its own.
Kinds that neither stop it, take a scarce spare, nor slow it leave the line and are only counted.

Times of a Poisson process are sums of exponential gaps. Spares are first come, first served: with
s spares the i-th demand of a pool is met when it comes, or when the part number i - s is back,
whichever is later; then the repair begins. What is down at each moment follows
(:mod:`netplan.faults.downtime`). After a stop the job waits if it has to, restarts, and finishes
floor(rest / (tau + w)) intervals until the next one; what remains is lost. Each step is one array
operation.

Draws depend on rates alone, so that the same seed gives the same failures whatever their repairs
take and whoever stands by.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from netplan.arrays import Bools, Floats, Ints
from netplan.faults.checkpoints import Checkpoints
from netplan.faults.downtime import EffectArrays, PaceTable, Spells, spells
from netplan.units import HOURS_PER_YEAR


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
    stops
        Whether a kind stops the job, shape (kinds,).
    pool
        Pool that a kind takes a part from, -1 for none, shape (kinds,).
    lead_h
        Mean time until a part is in the pool again, shape (kinds,) [h].
    repair_h
        Mean time of a repair with the part at hand, shape (kinds,) [h].
    effects
        What each kind takes from the job until its repair.
    pace
        How the job goes on meanwhile.
    """

    names: tuple[str, ...]
    pools: tuple[str, ...]
    spares: Ints
    counted_per_year: Floats
    rate_per_year: Floats
    column: Ints
    stops: Bools
    pool: Ints
    lead_h: Floats
    repair_h: Floats
    effects: EffectArrays
    pace: PaceTable

    @property
    def timed_per_year(self) -> float:
        """Events on the line [1/year]."""
        return float(self.rate_per_year.sum())

    @property
    def stops_per_year(self) -> float:
        """Events that stop the job [1/year]."""
        return float(self.rate_per_year[self.stops].sum())


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


class ChunkOutages(Struct, frozen=True, eq=False):
    """What years give, a row each.

    ``stopping`` and ``other`` failures have a column a cause; ``time_h`` has the hours by
    ``REASONS``, ``slowed_h`` the useful hours that a slower pace cost; ``shelf`` has a column a
    pool and three layers, shape (years, 3, pools): demands, those met at once, and the hours in
    which a part is lacking.
    """

    stopping: Ints
    other: Ints
    time_h: Floats
    slowed_h: Floats
    shelf: Floats

    @classmethod
    def joined(cls, chunks: "Sequence[ChunkOutages]") -> "ChunkOutages":
        """The years of all chunks, in order."""
        columns = zip(*map(astuple, chunks), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


def simulate_chunk(
    sources: Sources, checkpoints: Checkpoints, chunk: Chunk, rng: np.random.Generator
) -> ChunkOutages:
    """Draw the failures of a chunk and follow the job through them."""
    times = _poisson_times(sources.timed_per_year / HOURS_PER_YEAR * chunk.span_h, chunk, rng)
    kind = _draw_kinds(sources.rate_per_year, len(times), rng)
    at_hand, shelf = _parts_at_hand(sources, times, kind, chunk, rng)
    stopping, other = _counts(sources, times, kind, chunk)
    counted = sources.counted_per_year * (chunk.hours / HOURS_PER_YEAR)
    other += rng.poisson(counted, other.shape)
    lasts = np.flatnonzero(sources.effects.lasting[kind])
    repair_h = sources.repair_h[kind[lasts]] * _spread(len(lasts), chunk, rng)
    down = spells(
        times[lasts], at_hand[lasts] + repair_h, kind[lasts], sources.effects, sources.pace
    )
    stop_h = times[sources.stops[kind]]
    # Beyond the line the process goes on: the next stop decides what the last gap saved.
    rate = sources.stops_per_year / HOURS_PER_YEAR
    beyond = chunk.span_h + (rng.exponential(1 / rate) if rate else checkpoints.cycle_h)
    work = Work.between(stop_h, down.ready_h(stop_h), beyond, checkpoints)
    time_h = np.diff(work.hours_until(chunk.edges_h), axis=0)
    return ChunkOutages(stopping, other, time_h, _slowed_by_year(work, down, chunk.edges_h), shelf)


def _poisson_times(mean: float, chunk: Chunk, rng: np.random.Generator) -> Floats:
    """Times of a Poisson process on the line, in order [h].

    Given their number, they are sorted uniform times, which exponential gaps give without sorting.
    """
    times = rng.standard_exponential(rng.poisson(mean) + 1)
    np.cumsum(times, out=times)
    times *= chunk.span_h / times[-1]
    return times[:-1]


def _draw_kinds(rate: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Kind of each event, by the rates; shape (count,)."""
    if not count:
        return np.zeros(0, np.int64)
    edges = np.cumsum(rate)
    # 1 - u lies in (0, 1]: it never exceeds the last edge.
    kind: Ints = np.searchsorted(edges, (1 - rng.random(count)) * edges[-1])
    return kind


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
    back = asked + lead
    back.sort()
    met = asked.copy()
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


def _counts(sources: Sources, times: Floats, kind: Ints, chunk: Chunk) -> tuple[Ints, Ints]:
    """Failures on the line that stop the job, and the others, shapes (years, columns)."""
    first = np.searchsorted(times, chunk.edges_h)
    kinds = len(sources.rate_per_year)
    year = np.repeat(np.arange(chunk.years), np.diff(first))
    place = year * kinds + kind[first[0] : first[-1]]
    found = np.bincount(place, minlength=chunk.years * kinds).reshape(chunk.years, kinds)
    belongs = (sources.column[:, np.newaxis] == np.arange(len(sources.names))).astype(np.int64)
    return (found * sources.stops) @ belongs, (found * ~sources.stops) @ belongs


class Work(Struct, frozen=True, eq=False):
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
    saved: Checkpoints

    @classmethod
    def between(
        cls, stop_h: Floats, ready_h: Floats, beyond_h: float, saved: Checkpoints
    ) -> "Work":
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
        at, past = self._place(moment_h)
        waited = np.minimum(self.wait_h[at], past)
        ran = self._ran(at, past)
        useful, saved = self._useful(at, ran)
        running = _before(self.run_h, at) + ran
        waiting = _before(self.wait_h, at) + waited
        columns = [useful, saved - useful, running - saved, moment_h - running - waiting, waiting]
        return np.stack(columns, axis=1)

    def useful_until(self, moment_h: Floats) -> Floats:
        """Useful hours up to some moments, shape (moments,) [h]."""
        at, past = self._place(moment_h)
        return self._useful(at, self._ran(at, past))[0]

    def _place(self, moment_h: Floats) -> tuple[Ints, Floats]:
        """Gap that is under way at each moment, and how long it has been [h]."""
        at = np.searchsorted(self.start_h, moment_h, side="right") - 1
        return at, moment_h - self.start_h[at]

    def _ran(self, at: Ints, past: Floats) -> Floats:
        """Hours since the restart of the gap under way."""
        dead = self.wait_h[at] + np.where(at > 0, self.saved.restart_h, 0.0)
        return np.minimum(np.maximum(past - dead, 0.0), self.run_h[at])

    def _useful(self, at: Ints, ran: Floats) -> tuple[Floats, Floats]:
        """Useful hours so far, and those with the checkpoints that save them [h]."""
        cycle_h, interval_h = self.saved.cycle_h, self.saved.interval_h
        done = np.minimum(np.floor(ran / cycle_h), self.cycles[at])
        # An interval that will be finished counts as it passes; one that will not is rework.
        under_way = np.where(done < self.cycles[at], ran - done * cycle_h, 0.0)
        done += _before(self.cycles, at)
        useful = done * interval_h + np.minimum(under_way, interval_h)
        return useful, done * cycle_h + under_way


def _before(values: Floats, at: Ints) -> Floats:
    """Sum of the values before each place, shape of ``at``."""
    return np.concatenate([[0.0], np.cumsum(values)])[at]


def _slowed_by_year(work: Work, down: Spells, edges: Floats) -> Floats:
    """Useful hours that a slower pace cost in each year, shape (years,) [h]."""
    cut = down.cut(edges)
    first = np.searchsorted(cut.begin_h, edges)
    lost = np.diff(work.useful_until(cut.begin_h)) * (1 - 1 / cut.factor[:-1])
    return np.diff(np.concatenate([[0.0], np.cumsum(lost)])[first])
