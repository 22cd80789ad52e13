"""A local Dask cluster of real processes, started and ended by the driver."""

import hashlib
import os
import select
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self

from netplan.studies.child import end_child, start_module

HOST = "netplan.studies.host"
START_S = 120.0
END_S = 5.0
# Orphans end at once, but stay in their group until init looks at them.
ORPHANS_S = 0.3


class NoClusterError(Exception):
    """The cluster did not start."""


class LocalCluster:
    """Scheduler and workers on this machine, in a process group of their own.

    Parameters
    ----------
    workers
        Number of worker processes, one point at a time each.
    limit_bytes
        Memory of one worker; None shares out the machine's.
    owner
        Whose cluster it is: of one owner, there is one at a time.

    Attributes
    ----------
    address
        Address of the scheduler.

    Raises
    ------
    NoClusterError
        If the cluster does not start.
    """

    def __init__(self, workers: int, limit_bytes: int | None, owner: Path) -> None:
        self._folder = _new_folder(owner)
        self._host = start_module(
            HOST,
            str(workers),
            str(limit_bytes or 0),
            self._folder,
            own_session=True,
        )
        try:
            self.address = self._wait_for_address()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every process of the cluster at once, and remove its folder."""
        if self._host.stdin is not None:
            self._host.stdin.close()  # the host ends its workers, and then itself
        end_child(self._host, END_S)
        # A host that was killed has left its workers behind, in the process group of its number.
        # SIGTERM: multiprocessing's resource tracker ignores it, and cleans up after the rest.
        with suppress(ProcessLookupError):
            os.killpg(self._host.pid, signal.SIGTERM)
            deadline_s = monotonic() + ORPHANS_S
            while monotonic() < deadline_s:
                os.killpg(self._host.pid, 0)  # a worker that still starts would write files
                sleep(0.01)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        """Use the cluster as a context."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the cluster."""
        self.close()

    def _wait_for_address(self) -> str:
        answer, line = self._host.stdout, ""
        if answer is not None and select.select([answer], [], [], START_S)[0]:
            line = answer.readline().decode().strip()
        if "://" in line:
            return line
        raise NoClusterError(line or "it gave no sign of life")


def _new_folder(owner: Path) -> str:
    """Make a temporary folder, and remove what is left if driver and host were killed at once."""
    sha256 = hashlib.sha256(str(owner.resolve()).encode()).hexdigest()
    prefix = f"netplan-study-{sha256[:12]}-"
    for stale in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        shutil.rmtree(stale, ignore_errors=True)
    return tempfile.mkdtemp(prefix=prefix)
