"""One driver for each store: a lock that is gone when its process is gone, however that ended."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from netplan.errors import InputError


class Lock:
    """A lock on a file beside the store, taken at once or refused.

    The kernel drops it with the process, so a killed driver leaves no lock behind; processes
    that a driver starts do not inherit it. SQLite's own locks come and go with transactions.

    Raises
    ------
    InputError
        If another process holds the lock, or if the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> store = Path(tempfile.mkdtemp()) / "study.sqlite"
    >>> lock = Lock(store)
    >>> Lock(store)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    netplan.errors.InputError: ...study.sqlite: another run is writing to it (process ...
    >>> lock.release()
    >>> Lock(store).release()
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(f"{store.name}.lock")
        try:
            self._handle = self._take(store)
        except OSError as error:
            raise InputError(f"{store}: cannot be written: {error.strerror}") from None

    def release(self) -> None:
        """Give the lock back and remove its file; a second call does nothing."""
        if self._handle >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = -1

    def _take(self, store: Path) -> int:
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(handle):
                    with suppress(OSError):  # a full disk: the store will say so
                        os.truncate(handle, 0)
                        os.write(handle, f"{os.getpid()}\n".encode())
                    return handle
            except BlockingIOError:
                holder = os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"
                os.close(handle)
                raise InputError(
                    f"{store}: another run is writing to it (process {holder}): wait for it, or "
                    "choose another --store"
                ) from None
            except OSError:
                os.close(handle)
                raise
            os.close(handle)

    def _is_current(self, handle: int) -> bool:
        """Whether the locked file still has its name: its last holder removes it."""
        try:
            return os.path.samestat(os.fstat(handle), self._path.stat())
        except FileNotFoundError:
            return False
