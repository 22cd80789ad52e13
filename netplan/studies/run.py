"""Runs a study: in this process, in processes of this machine, or on a Dask cluster.

A run does what its store misses. It may be killed at any moment, and run again: in the end every
point is in the store once, with the result of an undisturbed run.

A point may end the process that evaluates it, and nobody knows which of a chunk it was. All of them
are suspects then, and go out again one at a time, with nothing else under way; one with which two
more processes end is recorded as failed. The store keeps which points are being evaluated on this
machine: should the driver itself die, the next run knows the suspects, and runs in a worker.
"""

import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import closing
from itertools import chain
from math import ceil
from time import monotonic

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.errors import InputError, NetplanError
from netplan.studies.points import Outcome, Work, attempt_some, error_line, killed
from netplan.studies.store import Store
from netplan.studies.workers import (
    KILLED,
    Chunk,
    DaskWorkers,
    LocalWorkers,
    WorkerDiedError,
    limited,
)
from netplan.version import __version__

Workers = LocalWorkers | DaskWorkers
MIN_MEMORY_BYTES = 256_000_000
MAX_CHUNK_POINTS = 2_000
POLL_S = 0.25
MAX_WORKERS = max(32, 4 * (os.cpu_count() or 1))
"""More processes than a few a processor only fill the memory [1]."""

# Drivers that died in a chunk with a point before it is taken alone, and in all before it is given
# up; workers that died with it alone.
DEATHS_IN_CHUNKS = 2
DEATHS_OF_DRIVERS = 4
DEATHS_ALONE = 2


class Resources(Struct, frozen=True):
    """What evaluates the points: this process, processes of this machine, or Dask's workers.

    Parameters
    ----------
    workers
        Worker processes on this machine; 0 evaluates in this process [1].
    scheduler
        Address of a Dask scheduler, whose workers are used instead.
    memory_limit_bytes
        Memory that one process may take for its points; None for no limit in this process, and
        the machine's memory in equal shares for workers [B].
    """

    workers: int = 0
    scheduler: str | None = None
    memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is out of range, or excludes the other, before anything is written."""
        if not 0 <= self.workers <= MAX_WORKERS:
            raise InputError(
                f"--workers: 0 (this process alone) to {MAX_WORKERS}, got {self.workers:,}; more go"
                " to other machines with --scheduler"
            )
        if self.workers and self.scheduler is not None:
            raise InputError("--workers and --scheduler exclude each other: give one of them")
        limit_bytes = self.memory_limit_bytes
        if limit_bytes is not None and limit_bytes < MIN_MEMORY_BYTES:
            raise InputError(
                f"the memory limit of a process must be at least {MIN_MEMORY_BYTES:,} B, about "
                f"what it takes before its first point, got {limit_bytes:,} B"
            )


IN_PROCESS = Resources()


class Progress(Struct, frozen=True):
    """How far a study is: its points [1], this run's share of them, times [s].

    ``left_s`` is the time left at this run's pace, None while that is not known; ``damaged`` are
    points of the store whose outcome was, and is computed again.
    """

    done: int
    failed: int
    total: int
    evaluated: int
    elapsed_s: float
    left_s: float | None
    damaged: tuple[int, ...] = ()


Report = Callable[[Progress], None]


class Tracker:
    """Records outcomes, counts them, and reports progress a few times a second at most."""

    def __init__(self, store: Store, report: Report | None = None) -> None:
        self._store, (self.done, self.failed) = store, store.counts()
        self._total, self._before, self._report = store.meta.point_count, self.done, report
        # Workers take a while to start: the pace counts from the first outcomes on.
        self._first: tuple[int, float] | None = None
        self._start = monotonic()
        self._next = self._start + POLL_S

    def record(self, outcomes: Sequence[Outcome], tried: Sequence[int]) -> None:
        """Put these outcomes into the store with the marks of the points tried taken away."""
        if outcomes or tried:
            self._store.record(outcomes, tried)
        self.done += len(outcomes)
        self.failed += sum(outcome.error is not None for outcome in outcomes)
        if self._first is None and outcomes:
            self._first = self.done, monotonic()
        self.tick()

    def tick(self) -> None:
        """Report if it is time."""
        if monotonic() >= self._next:
            self._next = monotonic() + POLL_S
            self.report()

    def report(self) -> Progress:
        """Report the progress of this moment."""
        now, left = monotonic(), self._total - self.done
        first_done, first_s = self._first or (self.done, now)
        fresh = self.done - first_done
        left_s = left * (now - first_s) / fresh if fresh and now > first_s else None
        evaluated, elapsed_s = self.done - self._before, now - self._start
        told = Progress(
            self.done,
            self.failed,
            self._total,
            evaluated,
            elapsed_s,
            left_s,
            tuple(self._store.damaged),
        )
        if self._report is not None:
            self._report(told)
        return told


def run(
    work: Work, store: Store, resources: Resources = IN_PROCESS, report: Report | None = None
) -> Progress:
    """Evaluate every point of a study that its store misses, and return how it ended.

    The store is open for writing; ``report`` is called with the progress a few times a second at
    most, and at the end.

    Raises
    ------
    InputError
        If the store belongs to other inputs or another version, cannot be written, or the
        workers cannot be had. What was done before is kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from netplan.studies.points import Point
    >>> class Squares:
    ...     name, input_sha256, definition, point_count = "squares", "ab", "{}", 3
    ...     def points(self, indices):
    ...         return [Point(index, {"x": index}) for index in indices]
    ...     def evaluate(self, point):
    ...         return {"square": point.inputs["x"] ** 2}
    >>> with Store.begin(Path(tempfile.mkdtemp()) / "squares", Squares(), __version__) as store:
    ...     ended = run(Squares(), store)
    ...     [outcome.outputs for outcome in store.outcomes()]
    [{'square': 0}, {'square': 1}, {'square': 4}]
    >>> ended.done, ended.failed
    (3, 0)
    """
    store.check(work, __version__)
    tracker = Tracker(store, report)
    limit_bytes, count = resources.memory_limit_bytes, resources.workers
    if tracker.done == work.point_count:
        return tracker.report()
    workers: Workers
    if resources.scheduler is not None:
        workers = DaskWorkers(work, resources.scheduler, limit_bytes)
    elif count or store.suspects():
        workers = LocalWorkers(work, max(1, count), limit_bytes)
    else:
        with limited(limit_bytes):
            _run_here(work, store, tracker)
        return tracker.report()
    with closing(workers):
        Driver(workers, work, store, tracker).drive()
    return tracker.report()


class Backlog:
    """The points still to do, in chunks of about a quarter of a second.

    The first chunk is one point. Each that comes back, as far as it got in its time, says how many
    points the next may have.

    Examples
    --------
    >>> backlog = Backlog(np.arange(100))
    >>> backlog.take()
    [0]
    >>> backlog.come_back([0], 1)
    >>> backlog.take(), backlog.left
    ([1, 2], 97)
    """

    def __init__(self, indices: Ints) -> None:
        self._indices, self._next, self._size = indices, 0, 1
        self._again: deque[int] = deque()

    @property
    def left(self) -> int:
        """Points not given out [1]."""
        return len(self._indices) - self._next + len(self._again)

    def take(self, slots: int = 1) -> list[int]:
        """Take the next chunk; near the end, they shrink so that all ``slots`` finish together."""
        size = self._size if slots == 1 else min(self._size, ceil(self.left / (2 * slots)))
        if self._again:
            return [self._again.popleft() for _ in range(min(size, len(self._again)))]
        chunk: list[int] = self._indices[self._next : self._next + size].tolist()
        self._next += len(chunk)
        return chunk

    def come_back(self, chunk: Sequence[int], done: int) -> None:
        """Take back what is not done of a chunk, and learn how many points go into its time."""
        self._again.extend(chunk[done:])
        self._size = max(1, min(2 * done, MAX_CHUNK_POINTS))


def _run_here(work: Work, store: Store, tracker: Tracker) -> None:
    """Evaluate the points in this process; on Ctrl-C what is done is recorded."""
    backlog = Backlog(store.missing())
    while backlog.left:
        chunk = backlog.take()
        outcomes: list[Outcome] = []
        store.mark(chunk)
        try:
            outcomes.extend(attempt_some(work, chunk, interruptible=True))
        finally:
            tracker.record(outcomes, chunk)
        backlog.come_back(chunk, len(outcomes))


class Driver:
    """Gives chunks of points to workers, and records what comes back.

    Only a few chunks are under way at a time: no study of a million points sits in a scheduler.
    """

    def __init__(self, workers: Workers, work: Work, store: Store, tracker: Tracker) -> None:
        self._workers, self._work, self._store, self._tracker = workers, work, store, tracker
        self._under_way: dict[Chunk, list[int]] = {}
        self._trials: Counter[int] = Counter()  # of suspects, alone
        deaths = store.suspects()
        lost = [index for index, count in deaths.items() if count >= DEATHS_OF_DRIVERS]
        self._tracker.record([killed(work, index, KILLED) for index in lost], lost)
        doubtful = [index for index, count in deaths.items() if count >= DEATHS_IN_CHUNKS]
        self._suspects = deque(index for index in doubtful if index not in lost)
        self._backlog = Backlog(np.setdiff1d(store.missing(), doubtful))

    def drive(self) -> None:
        """Work through all that is missing; what came back before an error is recorded."""
        try:
            while self._give_out():
                self._take_in(wait(self._under_way, POLL_S, FIRST_COMPLETED)[0])
                self._tracker.tick()  # points may take long
        except KeyboardInterrupt:
            self._take_in({chunk for chunk in self._under_way if chunk.done()})
            raise
        finally:
            self._tracker.record([], [*chain.from_iterable(self._under_way.values())])

    def _give_out(self) -> bool:
        """Give out chunks until enough are under way; False once all is done."""
        for _ in range(self._workers.free()):
            if self._backlog.left and not self._suspects:
                self._submit(self._backlog.take(self._workers.slots))
        if self._suspects and not self._under_way:
            suspect = self._suspects.popleft()
            self._trials[suspect] += 1
            self._submit([suspect], alone=True)
        return bool(self._under_way)

    def _submit(self, points: list[int], *, alone: bool = False) -> None:
        if self._workers.same_machine:
            self._store.mark(points)
        self._under_way[self._workers.submit(points, alone=alone)] = points

    def _take_in(self, ready: set[Chunk]) -> None:
        """Record what these chunks brought, the lost ones last."""
        for chunk in sorted(ready, key=_is_lost):
            self._settle(chunk, self._under_way[chunk])
            del self._under_way[chunk]

    def _settle(self, chunk: Chunk, points: list[int]) -> None:
        try:
            outcomes = self._workers.result(chunk)
        except WorkerDiedError as death:
            if self._trials[points[0]] < DEATHS_ALONE:
                self._suspects += points
                return
            outcomes = [killed(self._work, points[0], str(death))]
        except NetplanError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a foreign worker may raise
            raise InputError(
                f"the workers cannot run the study: {error_line(error)}: install there what this "
                "process has"
            ) from None
        else:
            self._backlog.come_back(points, len(outcomes))
        self._tracker.record(outcomes, points)


def _is_lost(chunk: Chunk) -> bool:
    return chunk.cancelled() or chunk.exception() is not None
