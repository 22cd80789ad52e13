"""The results of a study: one SQLite file, each point in it once, whatever was killed meanwhile.

Outcomes are written in transactions to a write-ahead log: after ``kill -9`` each of them is there
entirely or not at all. With ``synchronous=NORMAL`` a power cut may take the last few, which the
next run computes again; it never damages the file. Only the driver writes; anyone may read, during
a run too.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from netplan.errors import InputError
from netplan.studies.lock import Lock
from netplan.studies.points import Outcome, Work
from netplan.studies.store_errors import plain_errors

APPLICATION_ID = 0x6E70_7374  # "npst", in the header of each file
FORMAT = 1
BUSY_S = 10.0
SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    """CREATE TABLE outcomes (
        point INTEGER PRIMARY KEY,
        input_sha256 BLOB NOT NULL,
        netplan_version TEXT NOT NULL,
        seconds REAL NOT NULL,
        outputs TEXT,
        error TEXT,
        CHECK ((outputs IS NULL) <> (error IS NULL)))""",
    "CREATE INDEX failures ON outcomes (point) WHERE error IS NOT NULL",
    # Points that the driver is about to evaluate itself, and how often it did not come back.
    "CREATE TABLE attempts (point INTEGER PRIMARY KEY, deaths INTEGER NOT NULL)",
)
RECORD = "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (point) DO NOTHING"
READ = "SELECT point, outputs, error, seconds, lower(hex(input_sha256)) FROM outcomes"
MARK = """INSERT INTO attempts VALUES (?, 1)
    ON CONFLICT (point) DO UPDATE SET deaths = deaths + 1"""
SUSPECTS = """SELECT point, deaths FROM attempts
    WHERE point NOT IN (SELECT point FROM outcomes) ORDER BY point"""


@dataclass(frozen=True, slots=True)
class Meta:
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


class StoreExistsError(InputError):
    """A store that was to be made is there already."""


class Store:
    """The outcomes of one study; have it from :meth:`begin`, :meth:`create` or :meth:`open`.

    Attributes
    ----------
    path
        The file.
    meta
        What the store was made for.

    Examples
    --------
    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> work = SimpleNamespace(name="radix", input_sha256="ab", definition="{}", point_count=3)
    >>> with Store.create(Path(tempfile.mkdtemp()) / "radix.sqlite", work, "0.1.0") as store:
    ...     store.record([Outcome(1, {"cost_usd": 2.5}, None, 0.01)])
    ...     store.record([Outcome(1, None, "too late", 0.01), Outcome(2, None, "no plan", 0.01)])
    ...     print(store.counts(), store.missing())
    ...     [outcome.outputs or outcome.error for outcome in store.outcomes()]
    Counts(done=2, failed=1) [0]
    [{'cost_usd': 2.5}, 'no plan']
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.meta = _read_meta(path, connection)
        self._connection = connection
        self._exit = ExitStack()

    @classmethod
    def begin(cls, path: Path, work: Work, version: str) -> Self:
        """Go on with the store of a study, or make it, and hold it for writing.

        What a run left that was killed while it made the store is made anew.

        Raises
        ------
        InputError
            As :meth:`create` and :meth:`open`.
        """
        try:
            return cls.create(path, work, version)
        except StoreExistsError:
            return cls.open(path)

    @classmethod
    def create(cls, path: Path, work: Work, version: str) -> Self:
        """Make a store for a study, and hold it for writing.

        Raises
        ------
        InputError
            If the file exists, another run holds it, or it cannot be written.
        """
        meta = Meta(work.name, version, work.input_sha256, work.definition, work.point_count)
        with ExitStack() as stack:
            stack.callback(Lock(path).release)
            fresh = not path.exists()
            try:
                connection = _connect(path, "rwc", stack)
                _write_schema(path, connection, meta)
            except BaseException:
                if fresh:
                    path.unlink(missing_ok=True)
                raise
            return cls._holding(path, connection, stack)

    @classmethod
    def open(cls, path: Path, *, readonly: bool = False) -> Self:
        """Open a store that exists: to go on with it, or only to read, during a run too.

        Raises
        ------
        InputError
            If it is missing, no store of a study, or held by another run.
        """
        if not path.is_file():
            raise InputError(f"{path}: there is no such store: start the study first")
        with ExitStack() as stack:
            if not readonly:
                stack.callback(Lock(path).release)
            connection = _connect(path, "ro" if readonly else "rw", stack)
            with plain_errors(path):
                _check_format(path, connection)
                if not readonly:
                    _write_ahead(connection)
            return cls._holding(path, connection, stack)

    @classmethod
    def _holding(cls, path: Path, connection: sqlite3.Connection, stack: ExitStack) -> Self:
        """Build the store that closes connection and lock when it is closed itself."""
        store = cls(path, connection)
        store._exit = stack.pop_all()
        return store

    def check(self, work: Work, version: str) -> None:
        """Refuse to mix the results of two versions, or of two states of the inputs.

        Raises
        ------
        InputError
            If the store was made by another netplan, or from other inputs.
        """
        meta, anew = self.meta, "start anew with another --store"
        if meta.netplan_version != version:
            raise InputError(
                f"{self.path}: made by netplan {meta.netplan_version}, this is {version}: go on "
                f"with netplan {meta.netplan_version}, or {anew}"
            )
        if meta.definition != work.definition:
            raise InputError(
                f"{self.path}: made for another study, or the study {meta.name} has changed since: "
                f"bring back what it was, or {anew}"
            )
        if (meta.input_sha256, meta.point_count) != (work.input_sha256, work.point_count):
            raise InputError(
                f"{self.path}: the inputs of {meta.name} have changed (catalog files: "
                f"{meta.input_sha256[:12]}, now {work.input_sha256[:12]}): bring back what they "
                f"were, or {anew}"
            )

    def record(self, outcomes: Iterable[Outcome], tried: Iterable[int] = ()) -> None:
        """Add outcomes in one transaction; a point that has one already keeps it.

        Parameters
        ----------
        outcomes
            Outcomes to add.
        tried
            Points whose mark of :meth:`mark` goes in the same transaction.

        Raises
        ------
        InputError
            If the disk is full or the file cannot be written: then none of them is added.
        """
        version = self.meta.netplan_version
        rows = (_row(outcome, version) for outcome in outcomes)
        with self._transaction() as connection:
            connection.executemany(RECORD, rows)
            connection.executemany(
                "DELETE FROM attempts WHERE point = ?", ((point,) for point in tried)
            )

    def mark(self, indices: Sequence[int]) -> None:
        """Note that the driver is about to evaluate these points in its own process."""
        with self._transaction() as connection:
            connection.executemany(MARK, ((index,) for index in indices))

    def suspects(self) -> dict[int, int]:
        """Points at which a driver died, and how often, without those that have an outcome."""
        with plain_errors(self.path):
            return dict(self._connection.execute(SUSPECTS))

    def done(self) -> NDArray[np.int64]:
        """Indices of the points that have an outcome, ascending."""
        with plain_errors(self.path):
            rows = self._connection.execute("SELECT point FROM outcomes ORDER BY point")
            return np.fromiter((point for (point,) in rows), np.int64)

    def missing(self) -> NDArray[np.int64]:
        """Indices of the points that have no outcome yet, ascending."""
        left = np.ones(self.meta.point_count, dtype=bool)
        left[self.done()] = False
        return np.flatnonzero(left)

    def outcomes(self) -> Iterator[Outcome]:
        """Every outcome, in the order of the points, read as it is asked for."""
        return self._read(f"{READ} ORDER BY point")

    def failures(self, limit: int) -> list[Outcome]:
        """Return the first points that failed, ``limit`` at the most."""
        return list(self._read(f"{READ} WHERE error IS NOT NULL ORDER BY point LIMIT ?", limit))

    def counts(self) -> Counts:
        """Count the points that have an outcome, and those that failed."""
        with plain_errors(self.path):
            (done,) = self._connection.execute("SELECT count(*) FROM outcomes").fetchone()
            failed = "SELECT count(*) FROM outcomes WHERE error IS NOT NULL"
            return Counts(done, self._connection.execute(failed).fetchone()[0])

    def close(self) -> None:
        """Close the file; after a run it is one file, to be copied as it is."""
        with suppress(sqlite3.Error):  # a reader keeps the log open: SQLite takes it in later
            if not self._connection.execute("PRAGMA query_only").fetchone()[0]:
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._exit.close()

    def __enter__(self) -> Self:
        """Use the store as a context."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()

    def _read(self, query: str, *values: int) -> Iterator[Outcome]:
        with plain_errors(self.path):
            for point, outputs, error, seconds, sha256 in self._connection.execute(query, values):
                found = None if outputs is None else json.loads(outputs)
                yield Outcome(point, found, error, seconds, sha256)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        with plain_errors(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled it back already
                    connection.execute("ROLLBACK")
                raise


def _connect(path: Path, mode: str, stack: ExitStack) -> sqlite3.Connection:
    """Open the file; an exit of the stack closes it."""
    with plain_errors(path):
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_S)
        stack.callback(connection.close)
        connection.execute(f"PRAGMA query_only = {int(mode == 'ro')}")
        connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Choose the write-ahead log; a file system without it keeps SQLite's rollback journal."""
    connection.execute("PRAGMA journal_mode = WAL")


def _write_schema(path: Path, connection: sqlite3.Connection, meta: Meta) -> None:
    """Write the tables and what the store is for, in one transaction."""
    with plain_errors(path):
        # An empty database is what a run leaves that was killed before its first word.
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreExistsError(f"{path}: exists already: resume it, or choose another --store")
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA:
            connection.execute(statement)
        values = [(key, getattr(meta, key)) for key in Meta.__slots__]
        connection.executemany("INSERT INTO meta VALUES (?, ?)", values)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
        _write_ahead(connection)


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


def _read_meta(path: Path, connection: sqlite3.Connection) -> Meta:
    with plain_errors(path):
        return Meta(**dict(connection.execute("SELECT key, value FROM meta")))


def _row(outcome: Outcome, version: str) -> tuple[int, bytes, str, float, str | None, str | None]:
    """Row of the table of outcomes."""
    outputs = None
    if outcome.outputs is not None:
        outputs = json.dumps(outcome.outputs, separators=(",", ":"))
    sha256 = bytes.fromhex(outcome.input_sha256)
    return outcome.index, sha256, version, outcome.seconds, outputs, outcome.error
