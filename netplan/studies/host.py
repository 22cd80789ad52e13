"""The process that holds a local Dask cluster: the scheduler, and a nanny for each worker.

It is a process of its own, so that neither the driver nor the scheduler takes the other with it.
It ends with the driver, however that ended, and leaves no process and no folder behind.

Run as ``python -m netplan.studies.host WORKERS MEMORY_BYTES FOLDER``; it answers with
one line, the scheduler's address or an error, and serves until its input is closed.
"""

import multiprocessing
import os
import shutil
import signal
import sys
from contextlib import suppress
from multiprocessing import resource_tracker
from threading import Event
from time import monotonic, sleep
from typing import TYPE_CHECKING

from netplan.studies.attempt import error_line
from netplan.studies.memory import first_victim

if TYPE_CHECKING:
    from distributed import LocalCluster

SETTINGS = {
    # The first death makes the driver careful: no need to kill more workers with the same chunk.
    "distributed.scheduler.allowed-failures": 0,
    # A worker that is paused or spills for want of memory stays so; one that is killed starts anew.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.worker.profile.enabled": False,
    # Dask has workers give memory back whenever 64 KiB are free. The plan search takes and frees
    # arrays all the time: its workers then spent half of their time in the kernel.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    # With that set, glibc no longer learns from which size on to map memory: the most it takes.
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}

END_S = 5.0


def main() -> None:
    """Serve a cluster until the driver closes this process's input, or has died."""
    workers, limit_bytes, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what the points print
    first_victim()  # and its workers: before the driver, or what else the user runs here
    cluster = None
    try:
        cluster = _start(workers, limit_bytes, folder)
        line = cluster.scheduler_address
    except Exception as error:  # noqa: BLE001 - the driver says it in one line
        line = error_line(error)
    with suppress(OSError):  # the driver may have died meanwhile
        answer.write(f"{line}\n")
        answer.flush()
    sys.stdin.buffer.read()
    if cluster:
        _hold(cluster)
    _end(folder)


def _start(workers: int, limit_bytes: int, folder: str) -> "LocalCluster":
    """Start scheduler, nannies and workers."""
    import dask  # the extra `cluster`
    from distributed import LocalCluster

    dask.config.set(SETTINGS | {"temporary-directory": folder})
    limit = {"memory_limit": limit_bytes} if limit_bytes else {}
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        **limit,
    )


def _hold(cluster: "LocalCluster") -> None:
    """Stop the loop of the nannies, which would start a new worker for each that ends."""
    held = Event()

    def hold() -> None:
        held.set()
        sleep(2 * END_S)

    if cluster.loop is not None:
        cluster.loop.add_callback(hold)
        held.wait(END_S)


def _end(folder: str) -> None:
    """End all processes of the group, this one last, and wait for each: none stays a zombie."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    deadline_s = monotonic() + END_S
    os.killpg(0, signal.SIGTERM)
    while multiprocessing.active_children() and monotonic() < deadline_s:
        sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)
    # The last child, which ignores SIGTERM, removes the semaphores of the rest and ends.
    tracker = resource_tracker.getfd()
    if tracker is not None:
        os.close(tracker)
    with suppress(ChildProcessError):
        while monotonic() < deadline_s:
            os.waitpid(-1, os.WNOHANG)
            sleep(0.01)
    os._exit(0)


if __name__ == "__main__":
    main()
