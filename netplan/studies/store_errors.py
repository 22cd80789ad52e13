"""What SQLite says when a store cannot be read or written, in one line that a user can act on."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netplan.errors import InputError

KEPT = "the points recorded before are kept, and `netplan study resume` goes on"
PLAIN = {
    "database or disk is full": f"the disk is full: make room; {KEPT}",
    "unable to open database file": "cannot be opened or written: check the folder and its rights",
    "readonly database": "cannot be written: check the rights of the file and its folder",
    "file is not a database": "is no store of a study: choose another --store",
    "malformed": "is damaged: restore a copy, or choose another --store",
    "database is locked": "another program holds it: end that program and try again",
    "disk i/o error": f"the disk cannot be read or written, it may be full: check it; {KEPT}",
}


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into one clear line.

    Raises
    ------
    InputError
        If SQLite fails inside the block.

    Examples
    --------
    >>> with plain_errors(Path("radix.sqlite")):  # doctest: +ELLIPSIS
    ...     raise sqlite3.OperationalError("database or disk is full")
    Traceback (most recent call last):
    netplan.errors.InputError: radix.sqlite: the disk is full: make room; ...
    """
    try:
        yield
    except sqlite3.Error as error:
        said = str(error)
        plain = next((line for key, line in PLAIN.items() if key in said.lower()), said)
        raise InputError(f"{path}: {plain}") from None
