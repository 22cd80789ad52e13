"""Links that never decide when a message ends, left out before anything is simulated.

A fabric has many links, of which most are alike, or never the last to be free:

===========  =======================================================================================
in sequence  used by one thread of one stage, whose messages follow each other, for no longer than
             each takes alone: free when the next one comes
alike        as another one: busy with the same messages for as long; one stands for all
dominated    by another one that all its messages need too, no shorter: free no later than that
===========  =======================================================================================

Since packets end with the last of their links, and never before the time that they take alone, all
times stay what they are, exactly. A message without links left is a delay.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, hash64
from netplan.simulation.links import LinkTimes

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


class Reduced(Struct, frozen=True, eq=False):
    """Links that may make messages wait.

    Parameters
    ----------
    links
        Codes of the links kept, each for all that are alike, shape (kept,).
    times
        Of each of the flows: links, counted among those kept, and their time for a byte [s/B].
    """

    links: Ints
    times: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]


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
    >>> found = reduce_links([one, two], [Issuer(NO_THREAD, 0, 1.0)] * 2)
    >>> found.links, found.times
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
    return Reduced(rows.link, tuple((tuple(links), tuple(busy)) for links, busy in times))


def waited_links(columns: Sequence[LinkTimes], issuers: Sequence[Issuer]) -> Ints:
    """Codes of the links that may make messages wait where pairs go by themselves, rising.

    Parameters
    ----------
    columns, issuers
        As of :func:`reduce_links`, of all pairs of each of the flows together.

    Returns
    -------
    ndarray
        All but those that are free in sequence: what is alike or dominated for all pairs together
        is not so for each of them. Shape (links,).
    """
    rows = _Rows.of(columns)
    return rows.link[~_in_sequence(rows, issuers)]


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
    stage, threads, pace = (
        np.array([getattr(issuer, name) for issuer in issuers])[rows.flow]
        for name in ("stage", "threads", "seconds_per_byte")
    )
    first = rows.start[:-1]
    lowest, highest = np.minimum.reduceat(stage, first), np.maximum.reduceat(stage, first)
    both = np.bitwise_or.reduceat(threads, first)
    fits = np.logical_and.reduceat(rows.seconds <= pace * CLOSE, first)
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
