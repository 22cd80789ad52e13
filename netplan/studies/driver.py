"""Sends a study's points to a Dask scheduler, and records what comes back.

A few chunks for each worker are under way at a time, so that a study of a million points never
sits in the scheduler. When a worker dies, the chunks that it had become doubtful: a worker
evaluates them in a child process, which finds the guilty point. Should workers die with their
children, the chunks go out one by one, in ever smaller pieces, with nothing else under way; a
point that has ended two more workers all alone is recorded as failed.
"""

import asyncio
import concurrent.futures
import pickle
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING

from netplan.errors import InputError, NetplanError
from netplan.studies.attempt import error_line, killed
from netplan.studies.backlog import Backlog
from netplan.studies.child import KILLED, pickled
from netplan.studies.points import Outcome, Work
from netplan.studies.progress import Tracker
from netplan.studies.store import Store
from netplan.studies.tasks import evaluate_alone, evaluate_chunk
from netplan.version import __version__

if TYPE_CHECKING:
    from distributed import Client, Future

CHUNKS_PER_SLOT = 2
POLL_S = 0.25
WORKERS_POLL_S = 2.0
NO_WORKERS_S = 120.0
# Workers that die with a chunk (one evaluates it itself, two in a child) before it is split, and
# that then die with a single point.
DEATHS_IN_CHUNKS = 3
DEATHS_ALONE = 2
PIECES = 8
CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)


class LostSchedulerError(Exception):
    """The scheduler has gone, and with it every chunk under way."""

    def __str__(self) -> str:
        """Cause, in words."""
        return "the scheduler died"


class NoWorkersError(Exception):
    """The scheduler has had no worker for two minutes."""

    def __str__(self) -> str:
        """Cause, in words."""
        return "no worker for two minutes"


@dataclass(frozen=True, slots=True)
class Task:
    """A chunk of points, and how many workers died with it."""

    indices: Sequence[int]
    deaths: int = 0


class Driver:
    """One connection to a scheduler, and the chunks that are under way.

    Parameters
    ----------
    client
        Connection to the scheduler.
    work
        The study's work.
    store
        Where the outcomes go.
    tracker
        Counts them.
    limit_bytes
        Memory that a doubtful point may take.
    """

    def __init__(
        self,
        client: "Client",
        work: Work,
        store: Store,
        tracker: Tracker,
        limit_bytes: int | None = None,
    ) -> None:
        self._client, self._work, self._store, self._tracker = client, work, store, tracker
        self._limit_bytes = limit_bytes
        self._pickled = pickled(work)
        self._backlog = Backlog(store.missing())
        self._doubtful: deque[Task] = deque()
        self._pieces: deque[Task] = deque()
        self._under_way: dict[Future[bytes], Task] = {}
        self._finished: SimpleQueue[Future[bytes]] = SimpleQueue()
        self._slots, self._next_look_s = 1, 0.0
        self._workers_seen_s = monotonic()

    def drive(self) -> None:
        """Work through all that is missing.

        Raises
        ------
        LostSchedulerError
            If the scheduler goes away; what came back before is recorded.
        NoWorkersError
            If it has no worker for two minutes.
        InputError
            If the workers cannot run the study, or the store cannot be written.
        """
        try:
            while self._send_more():
                self._record(self._wait())
        except (OSError, *CANCELLED):
            raise LostSchedulerError from None
        except KeyboardInterrupt:
            self._record(self._take_finished())
            raise

    def _send_more(self) -> bool:
        """Send chunks until enough are under way; False once all is done."""
        self._look_at_workers()
        while len(self._under_way) < CHUNKS_PER_SLOT * self._slots:
            if self._doubtful:
                self._send(self._doubtful.popleft())
            elif self._backlog.left:
                self._send(Task(self._backlog.take(self._slots)))
            else:
                break
        if self._pieces and not self._under_way:
            self._send(self._pieces.popleft())
        return bool(self._under_way)

    def _look_at_workers(self) -> None:
        """See every two seconds how many workers there are."""
        if self._client.status != "running":
            raise LostSchedulerError
        now = monotonic()
        if now < self._next_look_s:
            return
        self._next_look_s = now + WORKERS_POLL_S
        slots = sum(self._client.ncores().values())
        if slots:
            self._slots, self._workers_seen_s = slots, now
        elif now - self._workers_seen_s > NO_WORKERS_S:
            raise NoWorkersError

    def _send(self, task: Task) -> None:
        chunk = (self._pickled, __version__, task.indices)
        if task.deaths:
            future = self._client.submit(evaluate_alone, *chunk, self._limit_bytes, pure=False)
        else:
            future = self._client.submit(evaluate_chunk, *chunk, pure=False)
        self._under_way[future] = task
        future.add_done_callback(self._finished.put)

    def _wait(self) -> "list[Future[bytes]]":
        """Chunks that have come back, after a short wait for the first."""
        self._tracker.tick()
        try:
            return [self._finished.get(timeout=POLL_S), *self._take_finished()]
        except Empty:
            return []

    def _take_finished(self) -> "list[Future[bytes]]":
        return [self._finished.get() for _ in range(self._finished.qsize())]

    def _record(self, futures: "list[Future[bytes]]") -> None:
        """Record what these chunks brought, in one transaction."""
        outcomes: list[Outcome] = []
        try:
            for future in futures:
                outcomes += self._outcomes(future, self._under_way.pop(future))
        finally:
            if outcomes:
                self._store.record(outcomes)
                self._tracker.count(outcomes)

    def _outcomes(self, future: "Future[bytes]", task: Task) -> list[Outcome]:
        """Outcomes of a chunk that has come back; none yet if it is doubtful now."""
        from distributed import KilledWorker  # the extra `cluster`

        try:
            outcomes: list[Outcome] = pickle.loads(future.result())  # noqa: S301 - by a worker
        except (Exception, *CANCELLED) as error:
            if future.status != "error":
                raise LostSchedulerError from None
            if isinstance(error, KilledWorker):
                return self._doubt(task)
            if isinstance(error, NetplanError):
                raise
            raise InputError(
                f"the workers cannot run the study: {error_line(error)}: install there what this "
                "process has"
            ) from None
        if not task.deaths:
            seconds = sum(outcome.seconds for outcome in outcomes)
            self._backlog.learn(len(outcomes), seconds)
        return outcomes

    def _doubt(self, task: Task) -> list[Outcome]:
        """Put a chunk with which a worker died where it harms no other; or give up on a point."""
        indices, deaths = task.indices, task.deaths + 1
        if deaths < DEATHS_IN_CHUNKS:
            self._doubtful.append(Task(indices, deaths))
        elif len(indices) > 1:
            size = ceil(len(indices) / PIECES)
            for first in range(0, len(indices), size):
                self._pieces.append(Task(indices[first : first + size], DEATHS_IN_CHUNKS))
        elif deaths < DEATHS_IN_CHUNKS + DEATHS_ALONE:
            self._pieces.append(Task(indices, deaths))
        else:
            return [killed(self._work, index, KILLED) for index in indices]
        return []
