"""Who evaluates a study's points: this process, processes of this machine, or Dask's.

A chunk of points goes out, and comes back as the outcomes of its first points: as many as take a
quarter of a second, or fill a message. Each process of this machine is an executor of
:mod:`concurrent.futures` of its own, so that the death of one breaks no other.
"""

import importlib.util
import logging
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from multiprocessing import resource_tracker
from pathlib import Path
from threading import Thread
from time import monotonic
from types import ModuleType

from netplan.errors import InputError
from netplan.studies.interrupts import Interrupts
from netplan.studies.points import Outcome, Work, attempt_some
from netplan.version import __version__

KILLED = "the process was killed, probably for want of memory"
KEPT = "what is done is kept, and `netplan study resume` goes on"
# A pipe takes a message of up to 16 KiB whole, or not at all if its writer is killed; between the
# two parts of a larger one a kill would leave the reader waiting for ever.
MESSAGE_BYTES = 12_000
FAILED_STARTS = 10
CHUNKS_PER_SLOT = 2
CONNECT_S = 10
CLOSE_S = 2
LOOK_S = 2.0
NO_WORKERS_S = 120.0

Chunk = Future[list[Outcome]]
"""Points that are under way; the outcomes of the first of them will come."""


class WorkerDiedError(Exception):
    """The process that evaluated a chunk has ended; the message says how."""


def evaluate(
    work: bytes, version: str, indices: Sequence[int], limit_bytes: int | None
) -> list[Outcome]:
    """Evaluate the first points of a chunk, in the worker, and return their outcomes.

    A worker unpickles the :class:`Work` once, refuses another version of netplan than its own, and
    holds no more than ``limit_bytes`` meanwhile.
    """
    if version != __version__:
        raise InputError(
            f"a worker has netplan {__version__}, the driver {version}: install the same version "
            "on both"
        )
    loaded, found, room_bytes = _unpickled(work), [], MESSAGE_BYTES
    with limited(limit_bytes):
        for outcome in attempt_some(loaded, indices):
            found.append(outcome)
            room_bytes -= len(pickle.dumps(outcome))
            if room_bytes < 0:
                break
    return found


@lru_cache(maxsize=2)
def _unpickled(work: bytes) -> Work:
    loaded: Work = pickle.loads(work)  # noqa: S301 - from the driver
    return loaded


@contextmanager
def limited(limit_bytes: int | None) -> Iterator[None]:
    """Let this process hold no more than ``limit_bytes``: too large an array raises MemoryError.

    The kernel limits addresses, of which libraries reserve far more than they use: what is
    reserved now comes on top. Systems without ``/proc`` go without a limit.
    """
    statm = Path("/proc/self/statm")
    if limit_bytes is None or not statm.exists():
        yield
        return
    import resource  # Unix only

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


class Here:
    """The process of the driver, as a worker whose chunks are done at once."""

    same_machine, slots = True, 1

    def __init__(self, work: Work, limit_bytes: int | None, interrupts: Interrupts) -> None:
        self._work, self._limit_bytes, self._interrupts = work, limit_bytes, interrupts

    def room(self) -> int:
        """Chunks that may be under way at once [1]."""
        return self.slots

    def submit(self, indices: Sequence[int], *, alone: bool) -> Chunk:
        """Evaluate a chunk; what is done of it when a signal comes counts."""
        del alone
        found, chunk = list[Outcome](), Chunk()
        points = attempt_some(self._work, indices, interruptible=True)
        with limited(self._limit_bytes):
            self._interrupts.run(lambda: found.extend(points))
        chunk.set_result(found)
        return chunk

    def result(self, chunk: Chunk) -> list[Outcome]:
        """Outcomes of the first points of a chunk."""
        return chunk.result()

    def close(self) -> None:
        """Nothing is left behind."""


class LocalWorkers:
    """Processes of this machine, one chunk at a time each; one that dies is replaced."""

    same_machine = True

    def __init__(self, work: Work, count: int, limit_bytes: int | None) -> None:
        machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._limit_bytes = limit_bytes or machine_bytes // count
        self._work, self.slots = pickle.dumps(work), count
        self._idle: list[_Process] = []
        self._busy: dict[Chunk, _Process] = {}

    def room(self) -> int:
        """Chunks that may be under way at once, one a process; missing ones are started [1]."""
        failed_starts = 0
        while missing := self.slots - len(self._idle) - len(self._busy):
            for _ in range(missing):
                self._idle.append(_Process())
            for process in [one for one in self._idle if one.started.exception()]:
                self._idle.remove(process)
                cause, failed_starts = process.end(), failed_starts + 1
                if failed_starts == FAILED_STARTS:
                    raise InputError(
                        f"--workers: {FAILED_STARTS} processes in turn ended before their first "
                        f"point ({cause}): check that memory is free; {KEPT}"
                    )
        return self.slots

    def submit(self, indices: Sequence[int], *, alone: bool) -> Chunk:
        """Give a chunk to an idle process."""
        del alone  # it is so in its process at any rate
        process = self._idle.pop()
        try:
            chunk = process.submit(evaluate, self._work, __version__, indices, self._limit_bytes)
        except BrokenExecutor as error:  # killed while it waited
            chunk = Chunk()
            chunk.set_exception(error)
        self._busy[chunk] = process
        return chunk

    def result(self, chunk: Chunk) -> list[Outcome]:
        """Outcomes of the first points of a chunk."""
        process = self._busy.pop(chunk)
        self._idle.append(process)
        try:
            return chunk.result()
        except (BrokenExecutor, MemoryError):
            self._idle.remove(process)
            raise WorkerDiedError(process.end()) from None

    def close(self) -> None:
        """End all processes at once."""
        for process in (*self._idle, *self._busy.values()):
            process.end()


class _Process(ProcessPoolExecutor):
    """An executor of one process, which starts at once and ends with this one."""

    def __init__(self) -> None:
        before = set(multiprocessing.active_children())
        try:
            with _apart():
                spawn = multiprocessing.get_context("spawn")
                super().__init__(1, mp_context=spawn, initializer=_begin)
                self.started = self.submit(os.getpid)
        except OSError as error:
            raise InputError(
                f"--workers: no process can be started ({error.strerror}): end others; {KEPT}"
            ) from None
        self._process = next(iter(set(multiprocessing.active_children()) - before), None)

    def end(self) -> str:
        """End the process if it has not ended itself, and say how it has."""
        if self._process is not None:
            self._process.kill()
        self.shutdown(cancel_futures=True)
        code = None if self._process is None else self._process.exitcode
        return KILLED if code is None else cause_of_death(code)


@contextmanager
def _apart() -> Iterator[None]:
    """Start a process that Ctrl-C passes by, and that does not import the main module.

    A script without the usual guard would begin anew in it.
    """
    resource_tracker.ensure_running()  # its own start would let the signal through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Be a worker: silent, the kernel's first victim when memory runs out, gone with the driver."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    with suppress(OSError):  # not Linux: the kernel chooses
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    Thread(target=_end_with_driver, daemon=True).start()


def _end_with_driver() -> None:
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
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
    if code == -signal.SIGKILL:
        return KILLED
    if code < 0:
        return f"the process was killed by {signal.Signals(-code).name}"
    return f"the process ended itself with exit code {code}"


class DaskWorkers:
    """Workers of a Dask scheduler that runs already, through its own executor."""

    same_machine = False

    def __init__(self, work: Work, address: str, limit_bytes: int | None) -> None:
        require_dask()
        import dask  # the extra `cluster`
        from distributed import Client

        self._work, self._address, self._limit_bytes = pickle.dumps(work), address, limit_bytes
        self.slots = 1
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
        """Chunks that may be under way at once, as many workers as there were lately [1]."""
        if self._client.status != "running":
            raise self._gone()
        now = monotonic()
        if now >= self._next_look_s:
            slots = sum(self._client.ncores().values())
            self._next_look_s, self.slots = now + LOOK_S, max(1, slots)
            self._seen_s = now if slots else self._seen_s
        if now - self._seen_s > NO_WORKERS_S:
            raise InputError(
                f"--scheduler {self._address}: no worker has been there for two minutes: start "
                f"some with `dask worker {self._address}`; {KEPT}"
            )
        return CHUNKS_PER_SLOT * self.slots

    def submit(self, indices: Sequence[int], *, alone: bool) -> Chunk:
        """Send a chunk to the scheduler; a point alone may take no more memory than it is given."""
        task, limit_bytes = (evaluate_alone, self._limit_bytes) if alone else (evaluate, None)
        return self._submit(task, self._work, __version__, indices, limit_bytes)

    def result(self, chunk: Chunk) -> list[Outcome]:
        """Outcomes of the first points of a chunk."""
        from distributed import KilledWorker  # the extra `cluster`

        try:
            return chunk.result()
        except (KilledWorker, MemoryError):
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


def evaluate_alone(
    work: bytes, version: str, indices: Sequence[int], limit_bytes: int | None
) -> list[Outcome]:
    """Evaluate with less memory than that at which Dask would kill its worker, 95 % by default."""
    from distributed import get_worker  # the extra `cluster`

    worker_bytes = get_worker().memory_manager.memory_limit
    sizes = [limit_bytes, worker_bytes and int(0.9 * worker_bytes)]
    return evaluate(work, version, indices, min((size for size in sizes if size), default=None))


def require_dask() -> None:
    """Refuse a scheduler where Dask is not installed."""
    if importlib.util.find_spec("distributed") is None:
        raise InputError("--scheduler needs Dask: pip install 'netplan-toolkit[cluster]'")
