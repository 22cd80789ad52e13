"""The results of a study: one SQLite file, each point in it once, whatever was killed meanwhile.

Outcomes are written in transactions to a write-ahead log: after ``kill -9`` each of them is there
entirely or not at all. With ``synchronous=NORMAL`` a power cut may take the last few, which the
next run computes again; it never damages the file. Only the driver writes; anyone may read, during
a run too.

Every row has a checksum, which is looked at when a store is opened: a row that was damaged on the
disk is left out and named, and the next run computes its point again.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import Struct, ValidationError, convert, structs

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.files import reachable
from netplan.studies.points import PointResult, PointTask

APPLICATION_ID = 0x6E70_7374  # "npst", in the header of each file
FORMAT = 2
BUSY_S = 10.0
SCHEMA = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
    CREATE TABLE outcomes (
        point INTEGER PRIMARY KEY,
        input_sha256 BLOB NOT NULL,
        netplan_version TEXT NOT NULL,
        seconds REAL NOT NULL,
        outputs TEXT,
        error TEXT,
        checksum INTEGER NOT NULL,
        CHECK ((outputs IS NULL) <> (error IS NULL)));
    -- Points that are about to be evaluated on this machine, and how often nobody came back.
    CREATE TABLE attempts (point INTEGER PRIMARY KEY, deaths INTEGER NOT NULL);
"""
RECORD = "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (point) DO NOTHING"
READ = """SELECT point, CAST(outputs AS TEXT), CAST(error AS TEXT), seconds,
    lower(hex(input_sha256)) FROM outcomes"""
ROWS = "SELECT * FROM outcomes ORDER BY point"
META = "SELECT key, value FROM meta"
KNOWN = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
FORGET = "DELETE FROM outcomes WHERE point = ?"
MARK = """INSERT INTO attempts VALUES (?, 1)
    ON CONFLICT (point) DO UPDATE SET deaths = deaths + 1"""
UNMARK = "DELETE FROM attempts WHERE point = ?"
SUSPECTS = "SELECT point, deaths FROM attempts ORDER BY point"
MISSING, DONE, FAILED = range(3)
"""What became of a point."""


KEPT = "the points recorded before are kept, and `netplan study resume` goes on"
DAMAGED = "is damaged: restore a copy, or choose another --store"
PLAIN = {
    "database or disk is full": f"the disk is full: make room; {KEPT}",
    "unable to open database file": "cannot be opened or written: check the folder and its rights",
    "readonly database": "cannot be written: check the rights of the file and its folder",
    "file is not a database": "is no store of a study: choose another --store",
    "malformed": DAMAGED,
    "database is locked": "another program holds it: end that program and try again",
    "disk i/o error": f"the disk cannot be read or written, it may be full: check it; {KEPT}",
}
"""What SQLite says, and what a user can do."""

OF_ROWS = ("NULL value in outcomes", "CHECK constraint failed in outcomes", "NUMERIC value in")
"""Starts of what SQLite finds wrong inside a row: the checksum finds it too."""


SHOWN = frozenset(
    (
        *("title", "source", "date", "about", "reproduces"),
        *("relative", "charts", "answers", "titles", "notes"),
    )
)
"""Keys of a study that say how its points are told, not what they are."""


def computed_part(definition: str) -> Any:  # noqa: ANN401 - JSON
    """What a study computes: its definition without how that is shown.

    Outputs that compare points are made anew whenever they are shown.

    Examples
    --------
    >>> computed_part('{"axes": [1], "notes": [], "title": "Radix"}')
    {'axes': [1]}
    """
    return {key: value for key, value in json.loads(definition).items() if key not in SHOWN}


class Meta(Struct, frozen=True):
    """What a store was made for, and by which version."""

    name: str
    netplan_version: str
    input_sha256: str
    definition: str
    point_count: int


class Counts(NamedTuple):
    """Points with an outcome, and those of them that failed."""

    done: int
    failed: int


class Store(AbstractContextManager["Store"]):
    """The outcomes of one study, in the file ``path``; have it from :meth:`begin` or :meth:`open`.

    ``damaged`` are points whose outcome was damaged on the disk; they have none now.

    Examples
    --------
    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> work = SimpleNamespace(name="radix", input_sha256="ab", definition="{}", point_count=3)
    >>> with Store.begin(Path(tempfile.mkdtemp()) / "radix.sqlite", work, "0.1.0") as store:
    ...     store.record([PointResult(1, {"cost_usd": 2.5}, None, 0.01)])
    ...     store.record([PointResult(1, None, "too late", 0.01)])
    ...     store.record([PointResult(2, None, "no plan", 0.01)])
    ...     print(store.counts(), store.missing())
    ...     [outcome.outputs or outcome.error for outcome in store.outcomes()]
    Counts(done=2, failed=1) [0]
    [{'cost_usd': 2.5}, 'no plan']
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, held: ExitStack) -> None:
        self.path, self._connection = path, connection
        self.meta = _read_meta(
            path, [*self._select("PRAGMA integrity_check")], dict(self._select(META))
        )
        connection.text_factory = bytes  # checksums need no texts
        self.damaged: list[int] = []
        self._state = np.full(self.meta.point_count, MISSING, np.int8)
        for point, *row, checksum in self._select(ROWS):
            if checksum == _sum(point, *row) and 0 <= point < len(self._state):
                self._state[point] = DONE if row[-1] is None else FAILED
            else:
                self.damaged.append(point)
        connection.text_factory = _any_text
        self._held = held.pop_all()  # connection and lock go when the store is closed

    @classmethod
    def begin(cls, path: Path, work: PointTask, version: str) -> Self:
        """Go on with the store of a study, or make it, and hold it for writing.

        What a run left that was killed while it made the store is made anew.

        Raises
        ------
        InputError
            If another run holds it, it cannot be written, or is no store of a study.
        """
        meta = Meta(work.name, version, work.input_sha256, work.definition, work.point_count)
        with ExitStack() as stack:
            stack.enter_context(locked(path))
            fresh = not path.exists()
            try:
                connection = _connect(path, "rwc", stack)
                with _plain_errors(path):
                    # An empty file is what a run leaves that was killed before its first word.
                    if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                        with connection:
                            connection.executescript(
                                f"BEGIN IMMEDIATE; {SCHEMA}"
                                f"PRAGMA application_id = {APPLICATION_ID};"
                                f"PRAGMA user_version = {FORMAT};"
                            )
                            connection.executemany(KNOWN, _meta_rows(meta))
                    _check_format(path, connection)
                    connection.execute("PRAGMA journal_mode = WAL")
            except BaseException:
                if fresh:
                    path.unlink(missing_ok=True)
                raise
            stack.callback(_end_log, connection)
            store = cls(path, connection, stack)
            with store._transaction():
                connection.executemany(FORGET, ((point,) for point in store.damaged))
            return store

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a store that exists to read it, during a run too; InputError if there is none."""
        if not reachable(path).is_file():
            raise InputError(f"{path}: there is no such store: start the study first")
        with ExitStack() as stack:
            connection = _connect(path, "ro", stack)
            with _plain_errors(path):
                _check_format(path, connection)
            return cls(path, connection, stack)

    def check(self, work: PointTask, version: str) -> None:
        """Refuse to mix the results of two versions, or of two states of the inputs.

        A study that is only shown in another way goes on, and is shown so from now on. Where no
        point has an answer yet, as of a study with a mistake, it begins anew as it is now.
        """
        if not self.answered and self.meta.name == work.name:
            self._begin_anew(work, version)
        meta, anew = self.meta, "start anew with another --store"
        if meta.netplan_version != version:
            raise InputError(
                f"{self.path}: made by netplan {meta.netplan_version}, this is {version}: go on "
                f"with netplan {meta.netplan_version}, or {anew}"
            )
        if (meta.name, computed_part(meta.definition)) != (
            work.name,
            computed_part(work.definition),
        ):
            raise InputError(
                f"{self.path}: made for another study, or the study {meta.name} has changed since: "
                f"bring back what it was, or {anew}"
            )
        same = meta.definition == work.definition
        now = work.input_sha256 if same else work.sha256_of(meta.definition)
        if (meta.input_sha256, meta.point_count) != (now, work.point_count):
            raise InputError(
                f"{self.path}: the inputs of {meta.name} have changed (catalog files: "
                f"{meta.input_sha256[:12]}, now {now[:12]}): bring back what they "
                f"were, or {anew}"
            )
        if not same:
            self.meta = structs.replace(
                meta, definition=work.definition, input_sha256=work.input_sha256
            )
            with self._transaction() as connection:
                connection.executemany(KNOWN, _meta_rows(self.meta))

    @property
    def answered(self) -> bool:
        """Whether some point has an outcome that is no failure."""
        return bool((self._state == DONE).any())

    def _begin_anew(self, work: PointTask, version: str) -> None:
        """Forget failures of what the study was, if it is another one now."""
        meta = Meta(work.name, version, work.input_sha256, work.definition, work.point_count)
        if self.meta == meta:
            return
        with self._transaction() as connection:
            for table in ("outcomes", "attempts"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
            connection.executemany(KNOWN, _meta_rows(meta))
        self.meta, self._state = meta, np.full(meta.point_count, MISSING, np.int8)

    def record(self, outcomes: Sequence[PointResult], tried: Iterable[int] = ()) -> None:
        """Add outcomes in one transaction; a point that has one already keeps it.

        Marks of the points ``tried`` go in the same transaction.

        Raises
        ------
        InputError
            If the disk is full or the file cannot be written: then none of them is added.
        """
        version = self.meta.netplan_version
        with self._transaction() as connection:
            connection.executemany(RECORD, (_row(outcome, version) for outcome in outcomes))
            connection.executemany(UNMARK, ((point,) for point in tried))
        for outcome in outcomes:
            if self._state[outcome.index] == MISSING:
                self._state[outcome.index] = DONE if outcome.error is None else FAILED

    def mark(self, indices: Sequence[int]) -> None:
        """Note that these points are about to be evaluated, here or in a process of the driver."""
        with self._transaction() as connection:
            connection.executemany(MARK, ((index,) for index in indices))

    def suspects(self) -> dict[int, int]:
        """Points marked by a driver that died, and how often, without those with an outcome."""
        missing = set(self.missing().tolist())
        return {point: deaths for point, deaths in self._select(SUSPECTS) if point in missing}

    def missing(self) -> Ints:
        """Indices of the points that have no outcome yet, ascending."""
        return np.flatnonzero(self._state == MISSING)

    def outcomes(self) -> Iterator[PointResult]:
        """Every outcome, in the order of the points, read as it is asked for."""
        return self._read(f"{READ} ORDER BY point")

    def failures(self, limit: int) -> list[PointResult]:
        """Return the first points that failed, ``limit`` at the most."""
        return list(islice(self._read(f"{READ} WHERE error IS NOT NULL ORDER BY point"), limit))

    def counts(self) -> Counts:
        """Count the points that have an outcome, and those that failed."""
        done, failed = np.count_nonzero(self._state), np.count_nonzero(self._state == FAILED)
        return Counts(int(done), int(failed))

    def close(self) -> None:
        """Close the file; after a run it is one file, to be copied as it is."""
        self._held.close()

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def _select(self, query: str) -> Iterator[Any]:
        """Rows that answer a query, read as they are asked for."""
        with _plain_errors(self.path):
            yield from self._connection.execute(query)

    def _read(self, query: str) -> Iterator[PointResult]:
        """Outcomes that answer a query, of those that were there, sound, when this was opened."""
        there = set(np.flatnonzero(self._state).tolist())
        for point, outputs, *rest in self._select(query):
            if point in there:
                yield PointResult(point, None if outputs is None else json.loads(outputs), *rest)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _plain_errors(self.path), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Be the one driver of a store: a lock on a file beside it, taken at once or refused.

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
    >>> with locked(store), locked(store):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    netplan.errors.InputError: ...study.sqlite: another run is writing to it (process ...
    >>> with locked(store):
    ...     [file.name for file in store.parent.iterdir()]
    ['study.sqlite.lock']
    """
    try:  # which end with their process, however it ends
        locks = import_module("fcntl")
    except ImportError:
        raise InputError(
            "studies keep their results under the file locks of Linux and macOS, which this system"
            " lacks: run them there (on Windows in WSL); all other commands work here"
        ) from None
    path = store.with_name(f"{store.name}.lock")
    linked = False
    with ExitStack() as stack:
        while not linked:  # its last holder may have removed the file meanwhile
            try:
                file = stack.enter_context(path.open("a+b", buffering=0))
                locks.flock(file, locks.LOCK_EX | locks.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read(32).decode("ascii", "replace").strip() or "unknown"
                raise InputError(
                    f"{store}: another run is writing to it (process {holder}): wait for it, or "
                    "choose another --store"
                ) from None
            except OSError as error:
                raise InputError(f"{store}: cannot be written: {error.strerror}") from None
            linked = os.fstat(file.fileno()).st_nlink > 0
        stack.callback(path.unlink, missing_ok=True)
        with suppress(OSError):  # a full disk: the store will say so
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
        yield


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into one line that a user can act on."""
    try:
        yield
    except sqlite3.Error as error:
        message = str(error)
        plain = next((line for key, line in PLAIN.items() if key in message.lower()), message)
        raise InputError(f"{path}: {plain}") from None
    except UnicodeDecodeError:  # SQLite's own message quotes what is damaged
        raise InputError(f"{path}: {DAMAGED}") from None


def _connect(path: Path, mode: str, stack: ExitStack) -> sqlite3.Connection:
    """Open the file; an exit of the stack closes it."""
    with _plain_errors(path):
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_S)
        stack.callback(connection.close)
        connection.execute(f"PRAGMA query_only = {int(mode == 'ro')}")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.text_factory = _any_text
    return connection


def _meta_rows(meta: Meta) -> Iterable[tuple[str, str | int]]:
    """Rows of the table of what the store is for."""
    values = structs.asdict(meta)
    return (values | {"checksum": _sum(*values.values())}).items()


def _read_meta(path: Path, faults: Iterable[tuple[str]], values: dict[str, Any]) -> Meta:
    """What a store was made for.

    Raises
    ------
    InputError
        If the file's structure, or what it says of itself, is damaged.
    """
    checksum = values.pop("checksum", None)
    try:
        meta = convert(values, Meta)
    except ValidationError:
        raise InputError(f"{path}: {DAMAGED}") from None
    sound = all(report == "ok" or report.startswith(OF_ROWS) for (report,) in faults)
    if not sound or checksum != _sum(*structs.astuple(meta)):
        raise InputError(f"{path}: {DAMAGED}")
    return meta


def _any_text(content: bytes) -> str:
    """A text, or what is left of it: a damaged one is not the end of the reading."""
    return content.decode("utf-8", "backslashreplace")


def _sum(*values: float | str | bytes | None) -> int:
    """Checksum of values as SQLite gives them back, texts as such or as their bytes."""
    plain = tuple(value.encode() if isinstance(value, str) else value for value in values)
    return zlib.crc32(repr(plain).encode())


def _end_log(connection: sqlite3.Connection) -> None:
    """Make the store one file; while a reader keeps the log open, SQLite takes it in later."""
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file of another program, of another format, or without content."""
    (program,) = connection.execute("PRAGMA application_id").fetchone()
    (format_,) = connection.execute("PRAGMA user_version").fetchone()
    if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise InputError(f"{path}: is empty: start the study anew")
    if program != APPLICATION_ID:
        raise InputError(f"{path}: belongs to another program: choose another --store")
    if format_ != FORMAT:
        raise InputError(
            f"{path}: has format {format_}, this netplan reads {FORMAT}: use the netplan that "
            "made it, or start anew with another --store"
        )


def _row(outcome: PointResult, version: str) -> tuple[float | str | bytes | None, ...]:
    """Row of the table of outcomes."""
    outputs = None
    if outcome.outputs is not None:
        outputs = json.dumps(outcome.outputs, separators=(",", ":"))
    sha256 = bytes.fromhex(outcome.input_sha256)
    row = (outcome.index, sha256, version, float(outcome.seconds), outputs, outcome.error)
    return *row, _sum(*row)
