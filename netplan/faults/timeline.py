"""One chunk of years on a line of time: when failures come, who waits for spares, what is lost.

An event that may or may not stop the job is split into two kinds, each a Poisson process of its
own. Kinds that neither stop it nor take a scarce spare leave the line and are only counted.

Times of a Poisson process are sums of exponential gaps. Spares are first come, first served: with
s spares the i-th demand of a pool is met when it comes, or when the part number i - s is back,
whichever is later. A job that waits is ready when the last of its parts is there, so that the
time when it is ready is a running maximum. Between two stops it waits, restarts, and finishes
floor(rest / (tau + w)) intervals; what remains is lost. Each step is one array operation.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from netplan.arrays import Bools, Floats, Ints
from netplan.faults.checkpoints import Checkpoints
from netplan.units import HOURS_PER_YEAR


class Sources(Struct, frozen=True):
    """Kinds of events.

    Parameters
    ----------
    names
        Causes and labels of risk groups: the columns of the answer.
    pools, spares
        Pools and their spares, shape (pools,) [1].
    slowdown_h
        Hours of work that one failure of a cause costs without stopping the job, shape (causes,).
    counted_per_year
        Events of each column that are only counted, shape (columns,) [1/year].
    rate_per_year
        Rate of each kind on the line, shape (kinds,) [1/year].
    column
        Column of each kind, shape (kinds,).
    stops
        Whether a kind stops the job, shape (kinds,).
    taken
        Spares that one event takes, shape (kinds, pools) [1].
    lead_h
        Mean time until they are back, shape (kinds, pools) [h].
    """

    names: tuple[str, ...]
    pools: tuple[str, ...]
    spares: Ints
    slowdown_h: Floats
    counted_per_year: Floats
    rate_per_year: Floats
    column: Ints
    stops: Bools
    taken: Ints
    lead_h: Floats

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


class ChunkOutages(Struct, frozen=True):
    """What years give, a row each.

    ``stopping`` and ``other`` failures have a column a cause or label; ``time_h`` has the
    hours by ``REASONS``; ``shelf`` has a column a pool and three layers, shape (years, 3, pools):
    demands, those met at once, and the hours in which a part is lacking.
    """

    stopping: Ints
    other: Ints
    time_h: Floats
    shelf: Floats

    @classmethod
    def joined(cls, chunks: "Sequence[ChunkOutages]") -> "ChunkOutages":
        """The years of all chunks, in order."""
        columns = zip(*map(astuple, chunks), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


class _Line(Struct, frozen=True):
    """Stops of the job: when they come, and when all parts are there again (None: at once)."""

    stop_h: Floats
    ready_h: Floats | None
    stopping: Ints
    other: Ints
    shelf: Floats


def simulate_chunk(
    sources: Sources, checkpoints: Checkpoints, chunk: Chunk, rng: np.random.Generator
) -> ChunkOutages:
    """Draw the failures of a chunk and follow the job through them."""
    times = _poisson_times(sources.timed_per_year / HOURS_PER_YEAR * chunk.span_h, chunk, rng)
    line = (_line_with_pools if sources.pools else _line)(sources, times, chunk, rng)
    counted = sources.counted_per_year * (chunk.hours / HOURS_PER_YEAR)
    other = line.other + rng.poisson(counted, line.other.shape)
    # Beyond the line the process goes on: the next stop decides what the last gap saved.
    rate = sources.stops_per_year / HOURS_PER_YEAR
    beyond = chunk.span_h + (rng.exponential(1 / rate) if rate else checkpoints.cycle_h)
    time_h = _time_by_year(line, beyond, checkpoints, chunk.edges_h)
    return ChunkOutages(line.stopping, other, time_h, line.shelf)


def _poisson_times(mean: float, chunk: Chunk, rng: np.random.Generator) -> Floats:
    """Times of a Poisson process on the line, in order [h].

    Given their number, they are sorted uniform times, which exponential gaps give without sorting.
    """
    times = rng.standard_exponential(rng.poisson(mean) + 1)
    np.cumsum(times, out=times)
    times *= chunk.span_h / times[-1]
    return times[:-1]


def _line(sources: Sources, times: Floats, chunk: Chunk, rng: np.random.Generator) -> _Line:
    """Stops without scarce spares: only how many of a column fall into a year has to be drawn."""
    shape = (chunk.years, len(sources.names))
    stopping = np.zeros(shape, np.int64)
    if len(sources.column):
        a_year = np.diff(np.searchsorted(times, chunk.edges_h))
        stopping[:, sources.column] = rng.multinomial(
            a_year, sources.rate_per_year / sources.timed_per_year
        )
    return _Line(times, None, stopping, np.zeros(shape, np.int64), np.zeros((chunk.years, 3, 0)))


def _line_with_pools(
    sources: Sources, times: Floats, chunk: Chunk, rng: np.random.Generator
) -> _Line:
    """Stops that wait for spares: each event gets its kind, and each pool serves its demands."""
    kind = _draw_kinds(sources.rate_per_year, len(times), rng)
    first = np.searchsorted(times, chunk.edges_h)
    ready = times.copy()
    shelf = []
    for number, spares in enumerate(sources.spares):
        taken = sources.taken[:, number][kind]
        asks = np.flatnonzero(taken)
        each = taken[asks]
        asked = np.repeat(times[asks], each)
        lead = sources.lead_h[:, number][kind[asks]]
        if chunk.exponential:
            lead = lead * rng.standard_exponential(len(lead))
        # What fails together comes back together: one repair an event.
        met = _meet(asked, np.repeat(lead, each), int(spares))
        # An event that takes several parts is ready when the last of them is there.
        last = np.cumsum(each) - 1
        ready[asks] = np.maximum(ready[asks], met[last])
        shelf.append(_shelf_by_year(asked, met, chunk.edges_h))
    stop = sources.stops[kind]
    kinds = len(sources.rate_per_year)
    year = np.repeat(np.arange(chunk.years), np.diff(first))
    place = year * kinds + kind[first[0] : first[-1]]
    found = np.bincount(place, minlength=chunk.years * kinds).reshape(chunk.years, kinds)
    return _Line(
        times[stop],
        np.maximum.accumulate(ready[stop]),
        _by_column(found * sources.stops, sources),
        _by_column(found * ~sources.stops, sources),
        np.stack(shelf, axis=2),
    )


def _draw_kinds(rate: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Kind of each event, by the rates; shape (count,)."""
    if not count:
        return np.zeros(0, np.int64)
    edges = np.cumsum(rate)
    # 1 - u lies in (0, 1]: it never exceeds the last edge.
    kind: Ints = np.searchsorted(edges, (1 - rng.random(count)) * edges[-1])
    return kind


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


def _by_column(found: Ints, sources: Sources) -> Ints:
    """Counts of kinds, summed by their columns; shape (years, columns)."""
    columns = len(sources.names)
    belongs = sources.column[:, np.newaxis] == np.arange(columns)
    total: Ints = found @ belongs.astype(np.int64)
    return total


def _time_by_year(line: _Line, beyond_h: float, saved: Checkpoints, edges: Floats) -> Floats:
    """Useful, checkpoint, rework, restart and waiting hours of each year, shape (years, 5).

    The hours up to a moment are those of all gaps that have ended and of the part of the gap that
    is under way; a year is the difference of two moments.
    """
    start = np.concatenate([[0.0], line.stop_h])
    gap = np.diff(start, append=beyond_h)
    run = gap - saved.restart_h
    run[0] = gap[0]  # the line begins with the job at work
    wait = None
    if line.ready_h is not None:
        wait = np.minimum(np.concatenate([[0.0], line.ready_h - line.stop_h]), gap)
        run -= wait
    np.maximum(run, 0.0, out=run)
    cycles = np.floor(run / saved.cycle_h)

    at = np.searchsorted(start, edges, side="right") - 1
    past = edges - start[at]
    waited = np.zeros(len(at)) if wait is None else np.minimum(wait[at], past)
    dead = np.minimum(np.where(at > 0, waited + saved.restart_h, 0.0), past)
    ran = np.minimum(past - dead, run[at])
    done = np.minimum(np.floor(ran / saved.cycle_h), cycles[at])
    # An interval that will be finished counts as it passes; one that will not is rework.
    under_way = np.where(done < cycles[at], ran - done * saved.cycle_h, 0.0)
    computing = np.minimum(under_way, saved.interval_h)
    done += _before(cycles, at)
    useful = done * saved.interval_h + computing
    writing = done * saved.write_h + under_way - computing
    running = _before(run, at) + ran
    waiting = waited if wait is None else _before(wait, at) + waited
    columns = [useful, writing, running - useful - writing, edges - running - waiting, waiting]
    return np.diff(np.stack(columns, axis=1), axis=0)


def _before(values: Floats, at: Ints) -> Floats:
    """Sum of the values before each place, shape of ``at``."""
    return np.concatenate([[0.0], np.cumsum(values)])[at]
