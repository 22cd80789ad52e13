"""Who evaluates a study's points: this process, processes of this machine, or Dask's.

A chunk of points goes out as a future of :mod:`concurrent.futures`, and comes back as the outcomes
of its first points, as many as take a quarter of a second. Each process of this machine hangs on a
pipe of its own, in the hands of a thread, so that the death of one breaks no other.

Ctrl-C, SIGTERM and SIGHUP wait until the driver lets them through: Python raises them between any
two steps. Inside an executor that may leave a lock held for ever; between two steps of the driver,
outcomes without their record or a mark without its point.
"""

import importlib.util
import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import lru_cache
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from subprocess import DEVNULL, Popen
from threading import Thread, current_thread, main_thread
from time import monotonic, sleep
from types import FrameType
from typing import Any, Self

from netplan.errors import InputError
from netplan.studies.points import PointResult, PointTask, attempt_some
from netplan.version import __version__

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
ENDING = tuple(signal.Signals[name] for name in NAMES if name in signal.Signals.__members__)
"""Signals that end a run; Windows has no SIGHUP."""


class Interrupts(AbstractContextManager["Interrupts"]):
    """Holds back the signals that would raise; those that end the process at once still do.

    Examples
    --------
    >>> from contextlib import suppress
    >>> with suppress(KeyboardInterrupt), Interrupts() as interrupts:
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("this is done")
    ...     interrupts.let_through()
    ...     print("this is not")
    this is done
    """

    def __init__(self) -> None:
        self._came: list[int] = []
        self._open = False
        self._handlers: dict[int, Callable[[int, FrameType | None], object]] = {}

    def __enter__(self) -> Self:
        """Take over from the handlers; other threads than the main one have none."""
        if current_thread() is main_thread():
            for number in ENDING:
                handler = signal.getsignal(number)
                if callable(handler):  # not ignored, and more than the end of the process
                    self._handlers[number] = handler
                    signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        """Give back to the handlers, with what came last."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.let_through()

    def let_through(self) -> None:
        """Do what the first signal that came would have done."""
        if self._came:
            number = self._came[0]
            self._came.clear()
            self._handlers.get(number, signal.default_int_handler)(number, None)

    def run(self, task: Callable[[], object]) -> None:
        """Do something that a signal ends at once; what comes after it goes on."""
        try:
            self._open = True
            task()
            self._open = False
        except KeyboardInterrupt:
            self._came = self._came or [signal.SIGINT]

    def _take(self, number: int, _: FrameType | None) -> None:
        self._came.append(number)
        if self._open:
            self._open = False
            raise KeyboardInterrupt


KILLED = "the process was killed, probably for want of memory"
KEPT = "what is done is kept, and `netplan study resume` goes on"
FAILED_STARTS = 10
"""Processes that end before their first point, one after the other, before the run does [1]."""

CHUNKS_PER_SLOT = 2
"""Chunks of each thread of Dask's workers: one is computed, one is on its way [1]."""

CONNECT_S, CLOSE_S, LOOK_S, PAUSE_S, NO_WORKERS_S = 10, 2, 2.0, 0.25, 120.0
"""How long a scheduler may take to answer and to close, how often its workers are counted, and how
long they may be none, with a pause between two looks [s]."""

WORKER = """import sys; sys.path[:] = {path!r}
from netplan.studies.workers import serve; serve({handle})"""

Chunk = Future[list[PointResult]]
"""Points that are under way; the outcomes of the first of them will come."""


class WorkerDiedError(Exception):
    """The process that evaluated a chunk has ended; the message says how."""


def evaluate(
    work: bytes, version: str, indices: Sequence[int], limit_bytes: int | None
) -> list[PointResult]:
    """Evaluate the first points of a chunk, in the worker, and return their outcomes.

    A worker unpickles the :class:`PointTask` once, refuses another version of netplan than its own,
    and holds no more than ``limit_bytes`` meanwhile.
    """
    if version != __version__:
        raise InputError(
            f"a worker has netplan {__version__}, the driver {version}: install the same version "
            "on both"
        )
    with limited(limit_bytes):
        return list(attempt_some(_unpickled(work), indices))


@lru_cache(maxsize=2)
def _unpickled(work: bytes) -> PointTask:
    loaded: PointTask = pickle.loads(work)  # noqa: S301 - from the driver
    return loaded


@contextmanager
def limited(limit_bytes: int | None) -> Iterator[None]:
    """Let this process hold no more than ``limit_bytes``: too large an array raises MemoryError.

    The kernel limits addresses, of which libraries reserve far more than they use: what is
    reserved now comes on top. Systems without ``/proc`` go without a limit.
    """
    statm = Path("/proc/self/statm")
    if sys.platform == "win32" or limit_bytes is None or not statm.exists():
        yield
        return
    import resource

    size_pages, resident_pages = map(int, statm.read_text(encoding="ascii").split()[:2])
    reserved_bytes = (size_pages - resident_pages) * resource.getpagesize()
    old, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = [reserved_bytes + limit_bytes]
    allowed += [bound for bound in (old, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(allowed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (old, hard))


def share_of_memory(count: int) -> int | None:
    """What each of so many workers may hold [B]; None where the system does not say what it has."""
    if sys.platform == "win32":
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // count


class _Workers:
    """What a driver needs of those who evaluate: room for chunks, and what comes of a chunk."""

    same_machine = True
    count = 1

    def room(self) -> int:
        """Chunks that may be under way at once [1]."""
        return self.count

    def result(self, chunk: Chunk) -> list[PointResult]:
        """Outcomes of the first points of a chunk."""
        return chunk.result()

    def close(self) -> None:
        """End whatever was started."""


class Here(_Workers):
    """The process of the driver, as a worker whose chunks are done at once."""

    def __init__(self, work: PointTask, limit_bytes: int | None, interrupts: Interrupts) -> None:
        self._work, self._limit_bytes, self._interrupts = work, limit_bytes, interrupts

    def submit(self, indices: Sequence[int], *, alone: bool) -> Chunk:  # noqa: ARG002
        """Evaluate a chunk; what is done of it when a signal comes counts."""
        outcomes, chunk = list[PointResult](), Chunk()
        points = attempt_some(self._work, indices, interruptible=True)
        with limited(self._limit_bytes):
            self._interrupts.run(lambda: outcomes.extend(points))
        chunk.set_result(outcomes)
        return chunk


class LocalWorkers(_Workers):
    """Processes of this machine, one chunk at a time each; one that dies is replaced."""

    def __init__(self, work: PointTask, count: int, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes or share_of_memory(count)
        self._work, self.count = pickle.dumps(work), count
        self._threads = ThreadPoolExecutor(count)
        self._started: list[_Process] = []
        self._idle: list[_Process] = []
        self._closed = False

    def submit(self, indices: Sequence[int], *, alone: bool) -> Chunk:  # noqa: ARG002
        """Give a chunk to a thread that has no other."""
        return self._threads.submit(self._evaluate, indices)

    def close(self) -> None:
        """End all processes at once; the threads that wait for them see it."""
        self._closed = True
        for process in self._started:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._started:
            process.end()

    def _evaluate(self, indices: Sequence[int]) -> list[PointResult]:
        """Have a chunk evaluated, in a thread."""
        try:
            process = self._idle.pop()
        except IndexError:
            process = self._ready()
        reply = process.ask(self._work, __version__, indices, self._limit_bytes)
        if isinstance(reply, MemoryError):
            raise WorkerDiedError(process.end())
        self._idle.append(process)
        if isinstance(reply, Exception):
            raise reply
        return reply or []

    def _ready(self) -> "_Process":
        """A new process; that one dies before it is ready is the fault of no point."""
        for _ in range(FAILED_STARTS):
            try:
                process = _Process()
            except OSError as error:
                raise InputError(
                    f"--workers: no process can be started ({error.strerror}): end others; {KEPT}"
                ) from None
            self._started.append(process)
            if self._closed:
                process.kill()
            try:
                process.ask()
            except WorkerDiedError as death:
                cause = death
            else:
                return process
        raise InputError(
            f"--workers: {FAILED_STARTS} processes in turn ended before their first point "
            f"({cause}): check that memory is free; {KEPT}"
        )


class _Process(Popen[bytes]):
    """A process on a pipe, which ends when the pipe is closed; Ctrl-C passes it by."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        with theirs:
            code = WORKER.format(path=sys.path, handle=theirs.fileno())
            super().__init__(
                [sys.executable, "-c", code],
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def ask(self, *question: object) -> list[PointResult] | Exception | None:
        """Send a question, or none, and wait for the answer; WorkerDiedError if there is none."""
        try:
            self._pipe.send(question)
            answer: list[PointResult] | Exception | None = self._pipe.recv()
        except (EOFError, OSError):
            raise WorkerDiedError(self.end()) from None
        return answer

    def end(self) -> str:
        """End the process if it has not ended itself, and say how it has."""
        self.kill()
        code = self.wait()
        self._pipe.close()
        return cause_of_death(code)


def serve(handle: int) -> None:
    """Be a worker: the kernel's first victim when memory runs out, gone with the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):  # not Linux: the kernel chooses
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    pipe: Connection = Connection(handle)
    questions: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    Thread(target=_listen, args=(pipe, questions), daemon=True).start()
    while True:
        question = questions.get()
        try:
            pipe.send(evaluate(*question) if question else None)
        except Exception as error:  # noqa: BLE001 - the driver decides
            pipe.send(error)


def _listen(pipe: Connection, questions: "SimpleQueue[tuple[Any, ...]]") -> None:
    """Take in questions; without a driver there are no more."""
    with suppress(EOFError, OSError):
        while True:
            questions.put(pipe.recv())
    os._exit(1)


def cause_of_death(code: int) -> str:
    """Say in words how a process ended.

    Examples
    --------
    >>> cause_of_death(-9)
    'the process was killed, probably for want of memory'
    >>> cause_of_death(-11), cause_of_death(3)
    ('the process was killed by SIGSEGV', 'the process ended itself with exit code 3')
    """
    if code < 0 and signal.Signals(-code).name == "SIGKILL":
        return KILLED
    if code < 0:
        return f"the process was killed by {signal.Signals(-code).name}"
    return f"the process ended itself with exit code {code}"


class DaskWorkers(_Workers):
    """Workers of a Dask scheduler that runs already, through its own executor."""

    same_machine = False

    def __init__(self, work: PointTask, address: str, limit_bytes: int | None) -> None:
        require_dask()
        import dask  # the extra `cluster`
        from distributed import Client

        self._work, self._address, self._limit_bytes = pickle.dumps(work), address, limit_bytes
        self._next_look_s, self._seen_s = 0.0, monotonic()
        with ExitStack() as stack:
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable()  # Dask says at length what one line says here
            stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": CONNECT_S}))
            try:
                self._client = Client(address, timeout=CONNECT_S, set_as_default=False)
            except (OSError, ValueError):  # ValueError: an address that is none
                raise InputError(
                    f"--scheduler {address}: nobody answers there: start one with `dask "
                    "scheduler`, and give the address that it prints (tcp://host:8786)"
                ) from None
            self._submit: Callable[..., Chunk] = self._client.get_executor(pure=False).submit
            self._held = stack.pop_all()

    def room(self) -> int:
        """Chunks that may be under way at once, as many workers as there were lately [1].

        None waits for a worker: a point that kills one before its nanny calls it started may keep
        it from being started again.
        """
        if self._client.status != "running":
            raise self._gone()
        now = monotonic()
        if now >= self._next_look_s:
            self.count = CHUNKS_PER_SLOT * sum(self._client.ncores().values())
            self._next_look_s = now + LOOK_S
            self._seen_s = now if self.count else self._seen_s
        if not self.count:
            sleep(PAUSE_S)
        if now - self._seen_s > NO_WORKERS_S:
            raise InputError(
                f"--scheduler {self._address}: no worker has been there for two minutes: start "
                f"some with `dask worker {self._address}`; {KEPT}"
            )
        return self.count

    def submit(self, indices: Sequence[int], *, alone: bool) -> Chunk:
        """Send a chunk to the scheduler; a point alone may take no more memory than it is given."""
        task, limit_bytes = (evaluate_sparingly, self._limit_bytes) if alone else (evaluate, None)
        return self._submit(task, self._work, __version__, indices, limit_bytes)

    def result(self, chunk: Chunk) -> list[PointResult]:
        """Outcomes of the first points of a chunk."""
        from distributed import KilledWorker  # the extra `cluster`

        try:
            return chunk.result()
        # ValueError: Dask's executor stumbles when the worker dies while its result is on the way.
        except (KilledWorker, MemoryError, ValueError):
            self._next_look_s = 0.0
            raise WorkerDiedError(KILLED) from None
        except (CancelledError, OSError):
            raise self._gone() from None

    def close(self) -> None:
        """Leave the scheduler; one that is gone cannot say goodbye."""
        with self._held, suppress(Exception):
            self._client.close(CLOSE_S)

    def _gone(self) -> InputError:
        return InputError(
            f"--scheduler {self._address}: the scheduler has gone: start it again; {KEPT}"
        )


def evaluate_sparingly(
    work: bytes, version: str, indices: Sequence[int], limit_bytes: int | None
) -> list[PointResult]:
    """Evaluate with less memory than that at which Dask would kill its worker, 95 % by default."""
    from distributed import get_worker  # the extra `cluster`

    worker_bytes = get_worker().memory_manager.memory_limit
    sizes = [limit_bytes, worker_bytes and int(0.9 * worker_bytes)]
    return evaluate(work, version, indices, min((size for size in sizes if size), default=None))


def require_dask() -> None:
    """Refuse a scheduler where Dask is not installed."""
    if importlib.util.find_spec("distributed") is None:
        raise InputError("--scheduler needs Dask: pip install 'netplan-toolkit[cluster]'")
