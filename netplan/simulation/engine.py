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
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol

import numpy as np

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.simulation.tasks import Branch, Burst, Work

Mark = tuple[int, ...]


class Actor(Protocol):
    """Something that goes on at an event."""

    def go_on(self) -> None:
        """What happens then."""

    def mark(self) -> Mark:
        """Which of all actors this is, in numbers that tell states of a run apart."""


class EventCounts:
    """What links have been through so far: bookings, and waiting by number of the link [s]."""

    __slots__ = ("bookings", "waited_s")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.bookings = 0
        self.waited_s: dict[int, float] = {}

    def copy(self) -> "EventCounts":
        """The same, which stays as it is."""
        counts = EventCounts()
        counts.bookings = self.bookings
        counts.waited_s = dict(self.waited_s)
        return counts

    def repeat(self, before: "EventCounts", after: "EventCounts", times: int) -> None:
        """Count what came between two copies again, so many times."""
        self.bookings += times * (after.bookings - before.bookings)
        for link, waited_s in after.waited_s.items():
            more_s = times * (waited_s - before.waited_s.get(link, 0.0))
            self.waited_s[link] = self.waited_s.get(link, 0.0) + more_s


class Call:
    """An actor that calls a function."""

    __slots__ = ("go_on", "mark")

    def __init__(self, go_on: Callable[[], None], mark: Callable[[], Mark]) -> None:
        """What it calls, and what tells which of all actors it is."""
        self.go_on, self.mark = go_on, mark


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

    def at(self, time: float, actor: Actor) -> None:
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
        self.at(self.book(burst), after)

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


class Branching:
    """A piece of work on its way; at its end ``after`` goes on, in the same moment."""

    __slots__ = ("after", "engine", "next", "open", "work")

    def __init__(self, engine: Engine, work: Work, after: Actor) -> None:
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
            Steps(self.engine, branch, self, index).go_on()

    def go_on(self) -> None:
        """One branch less; the last one ends the operation."""
        self.open -= 1
        if not self.open:
            self.start()


class Steps:
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
            engine.at(engine.now + phase, following)
        elif isinstance(phase, Burst):
            engine.send(phase, following)
        else:
            raise InputError("a message names flows, not links: put it on links before it is sent")
