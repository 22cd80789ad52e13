"""Messages of an iteration on the links that may make them wait: whole, or step by step.

Links that never decide when a message ends, left out before anything is simulated.

A fabric has many links, of which most are alike, or never the last to be free:

===========  =======================================================================================
in sequence  used by one thread of one stage, whose messages follow each other, for no longer than
             each takes alone: free when the next one comes
alike        as another one: busy with the same messages for as long; one stands for all
dominated    by another one that all its messages need too, no shorter: free no later than that
===========  =======================================================================================

Since packets end with the last of their links, and never before the time that they take alone, all
times stay what they are, exactly. A message without links left is a delay.

Collectives of an iteration step by step: every step of every pair is a message.

A level of a ring of n members has n - 1 steps. Step k of a member follows its own step k - 1, and
that of the member which sends to it. All else goes in one step, pair by pair. Levels follow each
other, or go on side by side, as the iteration model has it; a level begins when all of the one
before has ended. What a collective takes alone beyond its bytes is a latency, the same of each
step.

Links that cannot make anything wait even where all pairs send at once are left out; a level without
others is a delay.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, hash64
from netplan.errors import InputError
from netplan.simulation import tasks
from netplan.simulation.links import LinkTimes, PairLinks
from netplan.simulation.program_work import PlanWork

NO_THREAD = -1
"""Of messages that belong to no stage's passes."""

CLOSE = 1 + 1e-12
"""Times that differ by less are the same: both come from the same rates [1]."""

MOST_SETS = 2000
"""Sets of flows up to which links of different ones are compared [1]."""


class Issuer(Struct, frozen=True):
    """Who issues messages of some flows.

    Parameters
    ----------
    stage
        Number of the only stage that does so within its passes, else `NO_THREAD`.
    threads
        Bits of its threads; none for what comes before or behind all passes.
    seconds_per_byte
        What the fastest of these messages takes alone [s/B].
    """

    stage: int
    threads: int
    seconds_per_byte: float


Reduced = tuple[Ints, tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]]
"""Codes of the links that may make messages wait, each for all that are alike, shape (kept,); and
of each of the flows: links, counted among those kept, and their time for a byte [s/B]."""


def reduce_links(columns: Sequence[LinkTimes], issuers: Sequence[Issuer]) -> Reduced:
    """Keep the links that may make messages of some flows wait.

    Parameters
    ----------
    columns, issuers
        What each of the flows does to links, and who issues it.

    Examples
    --------
    Two transfers meet on link 5. What they have alone, 2 and 7, is no slower, and link 5 decides.

    >>> one = LinkTimes(np.array([2, 5]), np.array([1.0, 1.0]))
    >>> two = LinkTimes(np.array([5, 7]), np.array([1.0, 1.0]))
    >>> reduce_links([one, two], [Issuer(NO_THREAD, 0, 1.0)] * 2)
    (array([5]), (((0,), (1.0,)), ((0,), (1.0,))))
    """
    rows = _Rows.of(columns)
    rows = rows.take(np.flatnonzero(~_in_sequence(rows, issuers)))
    rows = rows.take(np.array(sorted(_undominated(rows)), np.int64))
    times: list[tuple[list[int], list[float]]] = [([], []) for _ in columns]
    for number in range(len(rows.link)):
        for flow, seconds in zip(*(part.tolist() for part in rows.row(number)), strict=True):
            times[flow][0].append(number)
            times[flow][1].append(seconds)
    return rows.link, tuple((tuple(links), tuple(busy)) for links, busy in times)


class _Rows(Struct, frozen=True, eq=False):
    """A row for each link: the flows that need it, in order, and for how long a byte [s/B]."""

    link: Ints
    start: Ints
    flow: Ints
    seconds: Floats

    @classmethod
    def of(cls, columns: Sequence[LinkTimes]) -> "_Rows":
        """Turn columns, one for each of the flows, into rows."""
        sizes = [len(column.links) for column in columns]
        link = np.concatenate([np.empty(0, np.int64), *(column.links for column in columns)])
        seconds = np.concatenate([np.empty(0), *(column.seconds_per_byte for column in columns)])
        order = np.argsort(link, kind="stable")
        links, counts = np.unique(link, return_counts=True)
        start = np.concatenate([[0], np.cumsum(counts)])
        return cls(links, start, np.repeat(np.arange(len(sizes)), sizes)[order], seconds[order])

    def row(self, number: int) -> tuple[Ints, Floats]:
        """Flows and times of one link."""
        part = slice(self.start[number], self.start[number + 1])
        return self.flow[part], self.seconds[part]

    def take(self, rows: Ints) -> "_Rows":
        """Some of the links, in rising order."""
        counts = np.diff(self.start)
        chosen = np.zeros(len(counts), bool)
        chosen[rows] = True
        entries = np.repeat(chosen, counts)
        start = np.concatenate([[0], np.cumsum(counts[chosen])])
        return _Rows(self.link[chosen], start, self.flow[entries], self.seconds[entries])


def _in_sequence(rows: _Rows, issuers: Sequence[Issuer]) -> Bools:
    """Whether one thread of one stage is all that uses a link, and never for long, (links,)."""
    if not len(rows.link):
        return np.empty(0, np.bool_)
    stage, threads, alone_s_per_byte = (
        np.array([getattr(issuer, name) for issuer in issuers])[rows.flow]
        for name in ("stage", "threads", "seconds_per_byte")
    )
    first = rows.start[:-1]
    lowest, highest = np.minimum.reduceat(stage, first), np.maximum.reduceat(stage, first)
    both = np.bitwise_or.reduceat(threads, first)
    fits = np.logical_and.reduceat(rows.seconds <= alone_s_per_byte * CLOSE, first)
    alone: Bools = (lowest == highest) & (lowest != NO_THREAD) & (both & (both - 1) == 0) & fits
    return alone


def _undominated(rows: _Rows) -> list[int]:
    """Links of which none is slower for all that need them; one of those that are alike."""
    sets: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number in _distinct(rows).tolist():
        sets[tuple(rows.row(number)[0].tolist())].append(number)
    best = {
        flows: _slowest(numbers, np.array([rows.row(link)[1] for link in numbers]))
        for flows, numbers in sets.items()
    }
    if len(best) <= MOST_SETS:
        best = _beside_larger(rows, best)
    return [number for numbers in best.values() for number in numbers]


def _distinct(rows: _Rows) -> Ints:
    """The first of all links with the same flows and times, in rising order."""
    if not len(rows.link):
        return np.empty(0, np.int64)
    counts, first = np.diff(rows.start), rows.start[:-1]
    place = np.arange(len(rows.flow)) - np.repeat(first, counts)
    word = hash64(hash64(rows.seconds.view(np.uint64)) + (place << 32 | rows.flow).view(np.uint64))
    _, lowest, same = np.unique(
        np.add.reduceat(word, first), return_index=True, return_inverse=True
    )
    like = lowest[same]
    # Equal hashes hardly ever deceive; a link that is not like its first one stays for itself.
    alike = counts == counts[like]
    other = np.repeat(first[like], counts) + place
    other = np.where(np.repeat(alike, counts), other, np.arange(len(place)))
    equal = (rows.flow == rows.flow[other]) & (rows.seconds == rows.seconds[other])
    alike &= np.logical_and.reduceat(equal, first)
    return np.flatnonzero(~alike | (like == np.arange(len(like))))


def _slowest(numbers: list[int], seconds: Floats) -> list[int]:
    """Those of links with the same flows that no other one is slower than for all of them."""
    order = np.argsort(-seconds.sum(axis=1), kind="stable")
    kept: list[int] = []
    for index in order.tolist():
        if not kept or not np.any(np.all(seconds[kept] >= seconds[index], axis=1)):
            kept.append(index)
    return [numbers[index] for index in kept]


def _beside_larger(
    rows: _Rows, best: dict[tuple[int, ...], list[int]]
) -> dict[tuple[int, ...], list[int]]:
    """Leave out links that are no slower than one that more flows need."""
    having: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for flows in best:
        for flow in flows:
            having[flow].add(flows)
    kept = {}
    for flows, numbers in best.items():
        others = set.intersection(*(having[flow] for flow in flows)) - {flows}
        slower = [_of_flows(rows, flows, number) for other in others for number in best[other]]
        left = numbers
        if slower:
            table = np.array(slower)
            left = [n for n in numbers if not np.any(np.all(table >= rows.row(n)[1], axis=1))]
        kept[flows] = left
    return kept


def _of_flows(rows: _Rows, flows: Iterable[int], number: int) -> Floats:
    """Times of a link for some of its flows."""
    have, seconds = rows.row(number)
    return seconds[np.searchsorted(have, np.array(flows))]


MESSAGE_S = 3e-5
"""Time that a message takes to simulate, about [s].

Measured: 16 to 36 us on one core of a server, 10,000 to 740,000 messages of 128 to 1,024 GPUs."""

MOST_MESSAGES = 10_000_000
"""Messages of an iteration that are simulated, at most: minutes, and a gigabyte [1]."""


class _Stepped(Struct, frozen=True, eq=False):
    """What makes bursts of messages of one job.

    Parameters
    ----------
    kept
        Codes of the links that may make messages wait, rising, shape (links,).
    weight
        Of the job [1].
    tick_s
        All times are multiples of it [s].
    made
        Phases by their flows, bytes and time: what is the same is made once.
    """

    kept: Ints
    job: PlanWork
    tick_s: float
    made: dict[tasks.FlowMessage, tasks.Phase]

    def phase(self, part: tasks.FlowMessage) -> tasks.Phase:
        """A message as the steps of its pairs."""
        if part not in self.made:
            self.made[part] = self._phase(part, self.job.columns[part.flows])
        return self.made[part]

    def _phase(self, part: tasks.FlowMessage, column: LinkTimes) -> tasks.Phase:
        levels, sent = column.levels, part.sent_bytes
        alone_s = part.alone_s + column.delayed_s_per_byte * sent
        if not levels:
            return tasks.in_ticks(alone_s, self.tick_s)
        carried = [level.busiest_s_per_byte * sent for level in levels]
        steps = [level.steps for level in levels]
        if column.in_phases:
            latency_s = max(0.0, alone_s - sum(carried)) / sum(steps)
            phases = (self._level(level, sent, latency_s) for level in levels)
            return tasks.as_phase(tasks.one_after_the_other(*phases))
        branches = tuple(
            (self._level(level, sent, max(0.0, alone_s - carried_s) / level.steps),)
            for level, carried_s in zip(levels, carried, strict=True)
        )
        return tasks.as_phase((branches,))

    def _level(self, level: PairLinks, sent_bytes: float, latency_s: float) -> tasks.Phase:
        """The steps of a level; a delay where no link makes them wait."""
        step_bytes = sent_bytes / level.steps
        lasts_s = level.steps * (level.busiest_s_per_byte * step_bytes + latency_s)
        place, waits = np.searchsorted(self.kept, level.links), np.isin(level.links, self.kept)
        if not waits.any():
            return tasks.in_ticks(lasts_s, self.tick_s)
        flows = len(level.pair)
        _check_count(flows * level.steps)
        carried = np.zeros(flows)
        np.maximum.at(carried, level.flow, level.seconds_per_byte * step_bytes)
        cuts = np.searchsorted(level.flow[waits], np.arange(flows + 1)).tolist()
        links, busy = place[waits].tolist(), level.seconds_per_byte[waits] * step_bytes
        weight = self.job.weight / (level.flow_bytes * step_bytes)
        latency = tasks.in_ticks(latency_s, self.tick_s)
        messages = []
        rows = zip(cuts[:-1], cuts[1:], carried.tolist(), weight.tolist(), strict=True)
        for begin, end, carried_s, share in rows:
            parts = [tasks.in_ticks(time_s, self.tick_s) for time_s in busy[begin:end].tolist()]
            longest_s = max([tasks.in_ticks(carried_s, self.tick_s), *parts])
            taken = tuple(links[begin:end])
            timed = longest_s + latency, tuple(parts), longest_s, share
            messages.append(tasks.Message(taken, *timed))
        return tasks.Burst(tuple(messages) * level.steps, tuple(_after(level)), lasts_s)


def _after(level: PairLinks) -> Iterator[tuple[int, ...]]:
    """Messages of a level that each waits for, step by step."""
    flows = len(level.pair)
    of_pair: list[list[int]] = [[] for _ in level.before]
    for flow, pair in enumerate(level.pair.tolist()):
        of_pair[pair].append(flow)
    before = level.before.tolist()
    others = [
        [*of_pair[pair], *(of_pair[before[pair]] if before[pair] not in (-1, pair) else ())]
        for pair in level.pair.tolist()
    ]
    for _ in range(flows):
        yield ()
    for step in range(level.steps - 1):
        for waits in others:
            yield tuple([step * flows + flow for flow in waits])


def _check_count(messages: int) -> None:
    """Refuse more messages than are simulated."""
    if messages > MOST_MESSAGES:
        raise InputError(
            f"--collectives steps makes {messages:,} messages or more of an iteration, which would"
            f" take about {messages * MESSAGE_S / 60:,.0f} minutes a draw: take coupled, fewer GPUs"
            " or a smaller batch"
        )


def linked_work(jobs: Sequence[PlanWork], tick_s: float) -> tuple[tuple[tasks.Pipeline, ...], Ints]:
    """Pipelines whose messages name the links that may make them wait; codes of these links.

    Pipelines of all jobs follow each other, and share their links. Times are whole ticks. Without
    columns messages take as long as alone.
    """
    columns = [column for job in jobs for column in job.columns]
    issuers = list(_issuers(jobs)) if columns else []
    links, first = np.empty(0, np.int64), 0
    sends: list[Callable[[tasks.FlowMessage], tasks.Phase]] = []
    if by_steps := any(column.levels for column in columns):
        # What is alike or dominated for all pairs together is not so for each of them.
        rows = _Rows.of(columns)
        links = rows.link[~_in_sequence(rows, issuers)]
        sends += [_Stepped(links, job, tick_s, {}).phase for job in jobs]
    else:
        links, times = reduce_links(columns, issuers) if columns else (links, ())
        for job in jobs:
            of_job = times[first : first + len(job.columns)]
            sends.append(partial(_all_work, job, of_job, tick_s))
            first += len(job.columns)
    pipelines = tuple(
        tasks.mapped_pipeline(pipeline, partial(_linked, send, tick_s))
        for job, send in zip(jobs, sends, strict=True)
        for pipeline in job.pipelines
    )
    if by_steps:
        parts = chain.from_iterable(map(tasks.parts_of_pipeline, pipelines))
        bursts = ((part, often) for part, often in parts if isinstance(part, tasks.Burst))
        _check_count(sum(often * len(part.messages) for part, often in bursts))
    return pipelines, links


def _linked(
    send: Callable[[tasks.FlowMessage], tasks.Phase], tick_s: float, part: tasks.Part
) -> tasks.Phase:
    """A delay in whole ticks, or a message as it is sent over its links."""
    if isinstance(part, float):
        return tasks.in_ticks(part, tick_s)
    return part if isinstance(part, tasks.Burst) else send(part)


def _all_work(
    job: PlanWork,
    kept: Sequence[tuple[tuple[int, ...], tuple[float, ...]]],
    tick_s: float,
    part: tasks.FlowMessage,
) -> tasks.Phase:
    """A message on its links; one without links left is a delay."""
    if not job.columns:
        return tasks.in_ticks(part.alone_s, tick_s)
    column, (links, times) = job.columns[part.flows], kept[part.flows]
    alone = tasks.in_ticks(part.alone_s + column.delayed_s_per_byte * part.sent_bytes, tick_s)
    if not links:
        return alone
    busy = tuple(tasks.in_ticks(time_s * part.sent_bytes, tick_s) for time_s in times)
    longest_s = float(column.seconds_per_byte.max(initial=0.0)) * part.sent_bytes
    carried_s = max(*busy, tasks.in_ticks(longest_s, tick_s))
    weight = job.weight / (column.pair_bytes * part.sent_bytes)
    return tasks.Burst((tasks.Message(links, alone, busy, carried_s, weight),))


def _issuers(jobs: Sequence[PlanWork]) -> Iterator[Issuer]:
    """Who issues the messages of each of the flows; stages are numbered on from job to job."""
    first = 0
    for job in jobs:
        stages = job.pipelines[0].stages
        for (flows, use), column in zip(job.uses.items(), job.columns, strict=True):
            stage = NO_THREAD
            if flows.to == flows.stage:
                stage = first + flows.stage + stages * (flows.replica or 0)
            threads = sum(1 << thread for thread in use.threads)
            yield Issuer(stage, threads, use.seconds_per_byte + column.delayed_s_per_byte)
        first += stages * len(job.pipelines)
