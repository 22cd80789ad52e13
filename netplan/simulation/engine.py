"""The event engine: links that are booked, and work that goes on when what it waits for has ended.

A message books all of its links when it is issued, and so its end is known at once:

========  ==========================================================================================
circuit   start = max(now, free of all its links); end = start + seconds; all links are free at end
packets   every link is busy from max(now, its free) on for what it carries; end = the last of them,
          and not before now + seconds
========  ==========================================================================================

There is no queue, no event for a link, and no deadlock. Events are the points where something new
is issued; events of one moment keep the order in which they were scheduled, so that runs are equal
bit for bit (PALM, Sec. IV-C, has an event for each request and release of a link).

Where links are shared, messages under way have rates. A message needs each of its links for so many
seconds, its share of a link whose capacity is 1; its rate is at most that of its slowest link,
those that cannot make it wait included. Rates over weights are max-min fair
(`netplan.simulation.fair_rates`) and change where a message begins or ends. When its bytes have
gone a message takes what it takes alone beyond them, its latency, and then ends.

All that begins in one moment begins before rates are found; what ends comes before what begins.
Only messages that share links with those that begin or end, directly or through others, get new
rates. Messages that need the same links for as long are of one kind, and rates of a set of kinds
that shared links before are looked up.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from typing import Protocol

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.simulation.fair_rates import FlowLinks, filled_rates
from netplan.simulation.fluid import followers_of
from netplan.simulation.tasks import Branch, Burst, Message, Operations

Mark = tuple[int, ...]


class Actor(Protocol):
    """Something that goes on at an event."""

    def go_on(self) -> None:
        """What happens then."""

    def mark(self) -> Mark:
        """Which of all actors this is, in numbers that tell states of a run apart."""


class EventCounts(Struct, eq=False):
    """What links have been through so far: bookings, and waiting by number of the link [s]."""

    bookings: int = 0
    waited_s: dict[int, float] = {}

    def copy(self) -> "EventCounts":
        """The same, which stays as it is."""
        return EventCounts(self.bookings, dict(self.waited_s))

    def repeat(self, before: "EventCounts", after: "EventCounts", times: int) -> None:
        """Count what came between two copies again, so many times."""
        self.bookings += times * (after.bookings - before.bookings)
        for link, waited_s in after.waited_s.items():
            more_s = times * (waited_s - before.waited_s.get(link, 0.0))
            self.waited_s[link] = self.waited_s.get(link, 0.0) + more_s


class Call(Struct, eq=False):
    """An actor that calls a function."""

    go_on: Callable[[], None]
    mark: Callable[[], Mark]


class Engine:
    """Links with the times at which they are free, and events in the order of their times.

    Examples
    --------
    Two equal messages over one shared link end after one and after two times:

    >>> from netplan.simulation.tasks import Message
    >>> engine = Engine(links=1)
    >>> engine.book(Burst((Message((0,), 2.0),))), engine.book(Burst((Message((0,), 2.0),)))
    (2.0, 4.0)
    """

    def __init__(self, links: int) -> None:
        """Begin at 0 s with links that are all free."""
        self.now = 0.0
        self.free = [0.0] * links
        self.tally = EventCounts()
        self._asked = 0
        self._heap: list[tuple[float, int, Actor]] = []

    def schedule(self, time: float, actor: Actor) -> None:
        """Let an actor go on at a time; who asked first comes first among equals."""
        self._asked += 1
        heappush(self._heap, (time, self._asked, actor))

    def step(self) -> bool:
        """Let the next actor go on; whether there was one."""
        if not self._heap:
            return False
        self.now, _, actor = heappop(self._heap)
        actor.go_on()
        return True

    def pending(self) -> list[tuple[float, Actor]]:
        """Who goes on when, in order."""
        return [(time, actor) for time, _, actor in sorted(self._heap, key=lambda entry: entry[:2])]

    def state(self) -> tuple[tuple[Mark, ...], Floats]:
        """What is under way: who goes on, and in which times; how long links are busy [s]."""
        pending = self.pending()
        times = np.array([time for time, _ in pending]) - self.now
        busy = np.maximum(np.array(self.free) - self.now, 0.0)
        return tuple(actor.mark() for _, actor in pending), np.concatenate([times, busy])

    def send(self, burst: Burst, after: Actor) -> None:
        """Issue a burst now; ``after`` goes on when its last message has ended."""
        self.schedule(self.book(burst), after)

    def book(self, burst: Burst) -> float:
        """Issue a burst now; the end of its last message [s]."""
        now, free, tally = self.now, self.free, self.tally
        last = now
        tally.bookings += len(burst.messages)
        for message in burst.messages:
            if message.busy_s:
                end = self._spread(message.links, message.busy_s, now + message.seconds)
            else:
                start, latest = now, -1
                for link in message.links:
                    if free[link] > start:
                        start, latest = free[link], link
                end = start + message.seconds
                for link in message.links:
                    free[link] = end
                if latest >= 0:
                    tally.waited_s[latest] = tally.waited_s.get(latest, 0.0) + start - now
            if end > last:  # noqa: PLR1730 - a call of max costs as much as the booking
                last = end
        return last

    def _spread(self, links: Sequence[int], busy_s: Sequence[float], alone: float) -> float:
        """Book packets on links of several paths; their end [s]."""
        now, free, end, latest = self.now, self.free, alone, -1
        for link, busy in zip(links, busy_s, strict=True):
            until = max(free[link], now) + busy
            free[link] = until
            if until > end:
                end, latest = until, link
        if latest >= 0:
            waited_s = self.tally.waited_s
            waited_s[latest] = waited_s.get(latest, 0.0) + end - alone
        return end


GONE = 1e-9
"""A message has ended when so much of it is left [1]."""

WAITED = 1e-12
"""A message has waited if it took longer than alone by this share of the time that passed [1]."""

MOST_KNOWN = 100_000
"""Sets of messages whose rates are kept [1]."""


class _Issued:
    """A burst on its way: how many of its messages are, and when the last one ends.

    Where messages follow each other, what each still waits for.
    """

    __slots__ = ("after", "burst", "end_s", "left", "waits")

    def __init__(self, after: Actor, burst: Burst) -> None:
        self.after, self.burst, self.end_s = after, burst, 0.0
        self.left = len(burst.messages)
        self.waits = [len(others) for others in burst.after]


class _UnderWay:
    """A message on its way: what is left of it, and when that has gone at its present rate."""

    __slots__ = (
        *("began_s", "end_s", "issued", "kind", "left", "message", "number", "place", "rate"),
        *("since_s", "slowest"),
    )

    def __init__(self, number: int, kind: int, issued: _Issued, place: int) -> None:
        self.number, self.kind, self.issued, self.place = number, kind, issued, place
        self.message = issued.burst.messages[place]
        self.left, self.rate, self.end_s, self.slowest = 1.0, 0.0, inf, -1
        self.began_s = self.since_s = 0.0

    def left_at(self, now_s: float) -> float:
        """What is left of it then [1]."""
        passed_s = now_s - self.since_s
        return self.left - self.rate * passed_s if passed_s > 0 else self.left


class FluidEngine(Engine):
    """An engine whose messages share links instead of booking them.

    Examples
    --------
    Two equal messages of 2 s over one shared link have half of it each, and end after 4 s:

    >>> from netplan.simulation.engine import Branching
    >>> from netplan.simulation.tasks import Message
    >>> class Clock:
    ...     def mark(self):
    ...         return ()
    ...     def go_on(self):
    ...         print(engine.now)
    >>> engine = FluidEngine(links=1)
    >>> for _ in range(2):
    ...     engine.send(Burst((Message((0,), 2.0, (2.0,), 2.0),)), Clock())
    >>> while engine.step():
    ...     pass
    4.0
    4.0
    """

    def __init__(self, links: int) -> None:
        """Begin at 0 s with nothing on the way."""
        super().__init__(links)
        self.solves = 0
        """How often rates were found [1]."""
        self._numbers: dict[int, tuple[int, Message]] = {}
        self._kinds: dict[Message, int] = {}
        self._sent = 0
        self._under_way: dict[int, _UnderWay] = {}
        self._on_link: list[dict[int, _UnderWay]] = [{} for _ in range(links)]
        self._touched: dict[int, _UnderWay] = {}
        self._ends: list[tuple[float, int]] = []
        self._known: dict[tuple[int, ...], list[tuple[float, int]]] = {}
        self._followers: dict[int, tuple[Burst, list[list[int]]]] = {}

    def send(self, burst: Burst, after: Actor) -> None:
        """Send a burst now; ``after`` goes on when its last message has ended."""
        issued = _Issued(after, burst)
        self.tally.bookings += len(burst.messages)
        for place in range(len(burst.messages)):
            if not (issued.waits and issued.waits[place]):
                self._start(issued, place)

    def follow(self, issued: _Issued, place: int) -> None:
        """Start what has waited for a message of its burst, and for nothing else any more."""
        for follower in self._followers_of(issued.burst)[place]:
            issued.waits[follower] -= 1
            if not issued.waits[follower]:
                self._start(issued, follower)

    def _followers_of(self, burst: Burst) -> list[list[int]]:
        """What waits for each message of a burst."""
        if id(burst) not in self._followers:
            self._followers[id(burst)] = burst, followers_of(burst.after)
        return self._followers[id(burst)][1]

    def _start(self, issued: _Issued, place: int) -> None:
        """Begin a message of a burst."""
        message = issued.burst.messages[place]
        if id(message) not in self._numbers:
            kind = self._kinds.setdefault(message, len(self._kinds))
            self._numbers[id(message)] = kind, message
        kind, _ = self._numbers[id(message)]
        self._sent += 1
        sent = _UnderWay(self._sent, kind, issued, place)
        sent.began_s = sent.since_s = self.now
        self._under_way[self._sent] = self._touched[self._sent] = sent
        for link in message.links:
            self._on_link[link][self._sent] = sent

    def step(self) -> bool:
        """Let the next actor go on; whether there was one."""
        while True:
            coming_s = self._heap[0][0] if self._heap else inf
            if self._touched and coming_s > self.now:
                done: set[int] = set()
                for number, sent in self._touched.items():
                    if number not in done:
                        together = self._together(sent)
                        done.update(together)
                        self._share(sorted(together.values(), key=lambda member: member.kind))
                self._touched = {}
            first = None if self._touched else self._due(coming_s)
            if first is None:
                return super().step()
            self._end(first, coming_s)

    def state(self) -> tuple[tuple[Mark, ...], Floats]:
        """As of :meth:`Engine.state`, with what is on the way and how long it would take alone."""
        marks, times_s = super().state()
        under_way = sorted(
            (
                (sent.kind, sent.place, *sent.issued.after.mark()),
                sent.left_at(self.now) * sent.message.carried_s,
            )
            for sent in self._under_way.values()
        )
        left_s = np.array([left_s for _, left_s in under_way])
        return (*marks, *(mark for mark, _ in under_way)), np.concatenate([times_s, left_s])

    def _together(self, sent: _UnderWay) -> dict[int, _UnderWay]:
        """All that shares links with a message, directly or through others, and the message."""
        together, todo, links = {sent.number: sent}, [sent], set()
        for member in todo:
            for link in member.message.links:
                if link not in links:
                    links.add(link)
                    others = self._on_link[link]
                    if len(others) > 1:
                        todo += [other for key, other in others.items() if key not in together]
                        together.update(others)
        return together

    def _share(self, members: list[_UnderWay]) -> None:
        """Give messages their rates, which share links with each other alone; in order of kinds."""
        key = tuple([member.kind for member in members])
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = _rates([member.message for member in members])
            self.solves += 1
        for member, (rate, slowest) in zip(members, self._known[key], strict=True):
            member.slowest = slowest
            if rate != member.rate:
                member.left = member.left_at(self.now)
                member.rate, member.since_s = rate, self.now
                member.end_s = self.now + max(member.left, 0.0) / rate
                heappush(self._ends, (member.end_s, member.number))

    def _due(self, by_s: float) -> _UnderWay | None:
        """The next message whose bytes have gone by then, but for what rounding leaves."""
        ends = self._ends
        while ends:
            end_s, number = ends[0]
            sent = self._under_way.get(number)
            if sent is not None and sent.end_s == end_s:
                return sent if end_s <= by_s or sent.left_at(by_s) <= GONE else None
            heappop(ends)
        return None

    def _end(self, first: _UnderWay, by_s: float) -> None:
        """Go on to the moment in which bytes have gone, and let their messages end."""
        self.now = max(self.now, min(first.end_s, by_s))
        gone = []
        while (sent := self._due(self.now)) is not None:
            heappop(self._ends)
            del self._under_way[sent.number]
            gone.append(sent)
        for sent in sorted(gone, key=lambda message: message.number):
            for link in sent.message.links:
                del self._on_link[link][sent.number]
                self._touched.update(self._on_link[link])
            self._finish(sent)
        for sent in gone:
            self._touched.pop(sent.number, None)

    def _finish(self, sent: _UnderWay) -> None:
        """Let what waits for a message go on after its latency."""
        message, issued = sent.message, sent.issued
        waited_s = self.now - sent.began_s - message.carried_s
        if waited_s > WAITED * self.now and sent.slowest >= 0:
            waits_s = self.tally.waited_s
            waits_s[sent.slowest] = waits_s.get(sent.slowest, 0.0) + waited_s
        issued.left -= 1
        latency_s = max(0.0, message.seconds - message.carried_s)
        issued.end_s = max(issued.end_s, self.now + latency_s)
        if issued.waits and self._followers_of(issued.burst)[sent.place]:
            # A message has arrived that others of its burst wait for.
            self.schedule(
                self.now + latency_s,
                Call(
                    lambda: self.follow(issued, sent.place),
                    mark=lambda: (sent.place, *issued.after.mark()),
                ),
            )
        if not issued.left:
            self.schedule(issued.end_s, issued.after)


def _rates(messages: list[Message]) -> list[tuple[float, int]]:
    """Rates of messages, as shares of them a second, and the fullest link of each."""
    sizes = [len(message.links) for message in messages]
    link = np.array([link for message in messages for link in message.links], np.int64)
    busy_s = np.array([time_s for message in messages for time_s in message.busy_s], np.float64)
    links, local = np.unique(link, return_inverse=True)
    begins = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    flows = FlowLinks(begins, local, busy_s)
    # What carries nothing is gone at once.
    limit = np.array([1 / message.carried_s if message.carried_s else inf for message in messages])
    weight = np.array([message.weight for message in messages])
    rates = filled_rates(np.ones(len(links)), flows, weight, limit)
    load = flows.carried(np.where(np.isfinite(rates), rates, 0.0), len(links))
    slowest = [
        int(link[begin + load[local[begin:end]].argmax()]) if end > begin else -1
        for begin, end in pairwise(begins.tolist())
    ]
    return list(zip(rates.tolist(), slowest, strict=True))


class Branching:
    """A piece of work on its way; at its end ``after`` goes on, in the same moment."""

    __slots__ = ("after", "engine", "next", "open", "work")

    def __init__(self, engine: Engine, work: Operations, after: Actor) -> None:
        """Take the first operation next."""
        self.engine, self.work, self.after = engine, work, after
        self.next, self.open = 0, 0

    def mark(self) -> Mark:
        """The operation it is in, and whose."""
        return (self.next, self.open, *self.after.mark())

    def start(self) -> None:
        """Start the next operation; behind the last one, let ``after`` go on."""
        if self.next == len(self.work):
            self.after.go_on()
            return
        operation = self.work[self.next]
        self.next += 1
        self.open = len(operation)
        for index, branch in enumerate(operation):
            BranchSteps(self.engine, branch, self, index).go_on()

    def go_on(self) -> None:
        """One branch less; the last one ends the operation."""
        self.open -= 1
        if not self.open:
            self.start()


class BranchSteps:
    """A branch on its way: its phases one after the other, then ``after`` goes on."""

    __slots__ = ("after", "at", "branch", "engine", "next")

    def __init__(self, engine: Engine, branch: Branch, after: Actor, index: int = 0) -> None:
        """Take the first phase next; ``index`` tells branches of one actor apart."""
        self.engine, self.branch, self.after, self.at = engine, branch, after, index
        self.next = 0

    def mark(self) -> Mark:
        """The phase it is in, and whose."""
        return (self.at, self.next, *self.after.mark())

    def go_on(self) -> None:
        """Start the next phase; behind the last one, let ``after`` go on."""
        engine, index = self.engine, self.next
        if index == len(self.branch):
            self.after.go_on()
            return
        self.next = index + 1
        phase = self.branch[index]
        if isinstance(phase, tuple):
            Branching(engine, phase, self).start()
            return
        following = self if self.next < len(self.branch) else self.after
        if isinstance(phase, float):
            engine.schedule(engine.now + phase, following)
        elif isinstance(phase, Burst):
            engine.send(phase, following)
        else:
            raise InputError("a message names flows, not links: put it on links before it is sent")
