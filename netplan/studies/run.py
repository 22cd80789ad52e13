"""Runs a study: in this process, in processes of this machine, or on a Dask cluster.

A run does what its store misses. It may be killed at any moment, and run again: in the end every
point is in the store once, with the result of an undisturbed run.

A point may end the process that evaluates it, and nobody knows which of a chunk it was. All of them
are suspects then, and go out again one at a time, with nothing else under way; one with which three
processes have ended is recorded as failed. The store keeps which points are being evaluated on this
machine: should the driver itself die, its points are suspects of the next run, in a worker.
"""

import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import closing
from itertools import chain
from time import monotonic

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.errors import InputError, NetplanError
from netplan.studies.points import PointTask, error_line, killed
from netplan.studies.store import Store
from netplan.studies.workers import (
    KILLED,
    Chunk,
    DaskWorkers,
    Here,
    Interrupts,
    LocalWorkers,
    WorkerDiedError,
)
from netplan.version import __version__

Workers = Here | LocalWorkers | DaskWorkers
MIN_MEMORY_BYTES = 256_000_000
MAX_CHUNK_POINTS = 2_000
POLL_S = 0.25
"""How often the driver looks up from waiting, and progress is told [s]."""

MAX_WORKERS = max(32, 4 * (os.cpu_count() or 1))
"""More processes than a few a processor only fill the memory [1]."""

MAX_DEATHS = 3
"""Processes that end with a point before it has failed: one in a chunk, and others may kill too."""


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
    """Tells how far a study is, a few times a second at most."""

    def __init__(self, store: Store, report: Report | None = None) -> None:
        self._store, self._report, self._before = store, report, store.counts().done
        self._start = monotonic()
        self._next = self._start + POLL_S

    def tick(self) -> None:
        """Report if it is time."""
        if monotonic() >= self._next:
            self._next = monotonic() + POLL_S
            self.report()

    def report(self) -> Progress:
        """Report the progress of this moment."""
        (done, failed), total = self._store.counts(), self._store.meta.point_count
        evaluated, elapsed_s = done - self._before, monotonic() - self._start
        left_s = (total - done) * elapsed_s / evaluated if evaluated else None
        damaged = tuple(self._store.damaged)
        progress = Progress(done, failed, total, evaluated, elapsed_s, left_s, damaged)
        if self._report is not None:
            self._report(progress)
        return progress


def run_points(
    work: PointTask, store: Store, resources: Resources = IN_PROCESS, report: Report | None = None
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
    ...     ended = run_points(Squares(), store)
    ...     [outcome.outputs for outcome in store.outcomes()]
    [{'square': 0}, {'square': 1}, {'square': 4}]
    >>> ended.done, ended.failed
    (3, 0)
    """
    store.check(work, __version__)
    tracker = Tracker(store, report)
    if store.counts().done < work.point_count:
        interrupts = Interrupts()
        workers = _workers(work, resources, interrupts, suspects=bool(store.suspects()))
        driver = StudyDriver(workers, work, store)
        with interrupts, closing(workers), closing(driver.steps()) as steps:
            for _ in steps:
                tracker.tick()
                interrupts.let_through()
    return tracker.report()


def _workers(
    work: PointTask, resources: Resources, interrupts: Interrupts, *, suspects: bool
) -> Workers:
    """Who evaluates the points; none that a driver may have died of runs in this process."""
    limit_bytes = resources.memory_limit_bytes
    if resources.scheduler is not None:
        return DaskWorkers(work, resources.scheduler, limit_bytes)
    if resources.workers or suspects:
        return LocalWorkers(work, max(1, resources.workers), limit_bytes)
    return Here(work, limit_bytes, interrupts)


class Backlog:
    """The points still to do, in chunks of about a quarter of a second.

    The first chunk is one point. One that comes back whole makes the next twice as long, one that
    ran out of time as long as it got.

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

    def take(self) -> list[int]:
        """Take the next chunk."""
        if self._again:
            return [self._again.popleft() for _ in range(min(self._size, len(self._again)))]
        chunk: list[int] = self._indices[self._next : self._next + self._size].tolist()
        self._next += len(chunk)
        return chunk

    def come_back(self, chunk: Sequence[int], done: int) -> None:
        """Take back what is not done of a chunk, and learn how many points go into its time."""
        self._again.extend(chunk[done:])
        whole = done == len(chunk)
        size = max(self._size, 2 * done) if whole else max(1, done)
        self._size = min(size, MAX_CHUNK_POINTS)


class StudyDriver:
    """Gives chunks of points to workers, and records what comes back.

    Only a few chunks are under way at a time: no study of a million points sits in a scheduler.
    """

    def __init__(self, workers: Workers, work: PointTask, store: Store) -> None:
        self._workers, self._work, self._store = workers, work, store
        self._under_way: dict[Chunk, list[int]] = {}
        self._deaths = Counter(store.suspects())  # of processes, by point
        self._causes: dict[int, str] = {}
        self._suspects = deque(self._deaths)
        self._backlog = Backlog(np.setdiff1d(store.missing(), self._suspects))

    def steps(self) -> Generator[None]:
        """Work through all that is missing, a quarter of a second at a time."""
        try:
            while self._give_out():
                self._take_in(wait(self._under_way, POLL_S, FIRST_COMPLETED)[0])
                yield
        finally:
            self._store.record([], [*chain.from_iterable(self._under_way.values())])

    def _give_out(self) -> bool:
        """Give out chunks until enough are under way; False once all is done."""
        room = self._workers.room() - len(self._under_way)
        if not self._suspects:
            for _ in range(room):
                if self._backlog.left:
                    self._submit(self._backlog.take())
        elif room and not self._under_way:  # a suspect goes out once more, or is given up
            suspect = self._suspects[0]
            if self._deaths[suspect] < MAX_DEATHS:
                self._submit([suspect], alone=True)
            else:
                cause = self._causes.get(suspect, KILLED)
                self._store.record([killed(self._work, suspect, cause)], [suspect])
                self._suspects.popleft()
        return bool(self._under_way or self._suspects or self._backlog.left)

    def _submit(self, points: list[int], *, alone: bool = False) -> None:
        if self._workers.same_machine:
            self._store.mark(points)
        self._under_way[self._workers.submit(points, alone=alone)] = points

    def _take_in(self, ready: set[Chunk]) -> None:
        """Record what these chunks brought, the lost ones last."""
        for chunk in sorted(ready, key=lambda chunk: chunk.cancelled() or bool(chunk.exception())):
            self._settle(chunk, self._under_way[chunk])
            del self._under_way[chunk]

    def _settle(self, chunk: Chunk, points: list[int]) -> None:
        try:
            outcomes = self._workers.result(chunk)
        except WorkerDiedError as death:
            if points[0] not in self._deaths:
                self._suspects += points
            self._deaths.update(points)
            self._causes |= dict.fromkeys(points, str(death))
        except NetplanError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a foreign worker may raise
            raise InputError(
                f"the workers cannot run the study: {error_line(error)}: install there what this "
                "process has"
            ) from None
        else:
            if points[0] in self._deaths:  # it was alone, and is innocent
                self._suspects.popleft()
            else:
                self._backlog.come_back(points, len(outcomes))
            self._store.record(outcomes, points)
