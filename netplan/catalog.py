"""The catalogs: YAML files that users read and edit, validated when they come in.

A *shelf* is one folder of one kind of record (models, accelerators, fabrics, price books). The
shipped catalog is the checkout's own top-level folders, or their copy inside an installed wheel;
folders that a user names stand in front of it. A name is either a file's stem on the shelf or a
path to a file.
"""

import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from msgspec import Struct

from netplan.added import Group, added
from netplan.documents import Document, lineless, read_yaml, read_yaml_value
from netplan.errors import CatalogError, UnknownNameError
from netplan.files import NO_VERSION, Version, reachable, version_of
from netplan.inputs.choices import Evidence
from netplan.records import Entry, RecordError, replace

ENDS = ("low", "high")
"""Ends of a range, beside its ``base``."""

CATALOG_VARIABLE = "NETPLAN_CATALOG"
SUFFIX = ".yaml"
DATE, HEAD_BYTES = re.compile(rb'^date: "?([0-9]{4}(?:-[0-9]{2}){0,2})', re.MULTILINE), 4096
"""The date of a catalog file, which stands near its beginning."""
ADDED = Path("entry point")
"""Where records stand that other packages add, in place of a folder."""
UNSOLD = ("announced", "rumoured")
"""Evidence of products that nobody can order yet."""
DEEPER = re.compile(r"did you mean (\w+\.[\w.]+)\?")
"""The offer of a key that stands in a part of the record."""
MAX_NAME = 40
"""Texts of a row up to this length are names; longer ones are prose [characters]."""


class Record(Entry, frozen=True, kw_only=True):
    """A validated catalog file; ``aliases`` are other names by which it is found.

    ``evidence`` says whether what it describes can be bought, is announced, or only rumoured;
    ``derived`` and ``assumed`` have values that follow from others, or that no source
    states.
    """

    name: str
    title: str
    source: str
    date: str
    aliases: tuple[str, ...] = ()
    evidence: Evidence | None = None
    derived: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def unsold(self) -> str:
        """``announced`` or ``rumoured``, of what nobody can order yet; else empty.

        Every answer that rests on it says so.
        """
        return self.evidence if self.evidence in UNSOLD else ""


class Sourced(Entry, frozen=True, kw_only=True):
    """A value of a file that says who has it, from when it is, and what it is made of."""

    date: str
    source: str
    evidence: Evidence | None = None


RecordT = TypeVar("RecordT", bound=Record)


class Catalog(Struct, Generic[RecordT], frozen=True):
    """One folder of records of one kind.

    Parameters
    ----------
    role
        What a record is called in a question: ``model``, ``accelerator``, …
    folder
        Its folder below each catalog root.
    schema
        The record's type.
    short
        What ``--set`` calls it, too.
    kind_of
        Says the type of the record in a file, or refuses it, where a folder holds several.
    group
        Entry points of other packages that add records.
    """

    role: str
    folder: str
    schema: type[RecordT]
    short: str = ""
    kind_of: Callable[[Document], type[RecordT]] | None = None
    group: Group | None = None
    all: ClassVar[list["Catalog[Any]"]] = []
    other_suffixes: ClassVar[tuple[str, ...]] = ()  # of files that are read though they are no YAML

    def __post_init__(self) -> None:
        """Make the shelf known to ``netplan catalog``."""
        Catalog.all.append(self)

    def paths(self, roots: Sequence[Path] = ()) -> dict[str, Path]:
        """Files on the shelf by name; a user's file hides a shipped one of the same name."""
        files: dict[str, Path] = {}
        for root in (*roots, shipped_root()):
            for path in sorted((root / self.folder).glob(f"*{SUFFIX}")):
                files.setdefault(path.stem, path)
        return dict(sorted(files.items()))

    def load(
        self, name: str, roots: Sequence[Path] = (), overrides: Mapping[str, str] | None = None
    ) -> RecordT:
        """Load one record by name or by path, with single values replaced.

        Raises
        ------
        UnknownNameError
            If no file has this name; the message offers the nearest ones.
        CatalogError
            If the file is malformed: all its errors at once, each with file and line.
        """
        file = self._file_and_version(name, roots)
        if not overrides:
            return cast("RecordT", _complete(self, *file, tuple(roots)))
        document = _read(self, *file)
        roles = (self.role, self.short, document.data.get("name"), *_aliases(document))
        mine = {k: text for k, text in overrides.items() if k.partition(".")[0] in roles}
        if not mine:
            return cast("RecordT", _complete(self, *file, tuple(roots)))
        changed = replace(document, data=deepcopy(document.data))
        applied: dict[str, str] = {}
        rows: list[tuple[str, dict[str, Any]]] = []
        for key, text in mine.items():
            field = key.partition(".")[2]
            row, field = _replace(changed.data, field, text, f"--set {key}")
            applied[field] = f"--set {key}={text}"
            if field.endswith(".base"):
                rows.append((field.removesuffix("base"), row))
        for start, row in rows:
            _widen(row, [end for end in ENDS if f"{start}{end}" not in applied])
        record = _validate(self.schema_of(changed), changed, applied)
        return self.completed(record, file[0], roots)

    def schema_of(self, document: Document) -> type[RecordT]:
        """Type of the record in a file: the shelf's one, unless a shelf knows several."""
        return self.kind_of(document) if self.kind_of else self.schema

    def completed(self, record: RecordT, path: Path, roots: Sequence[Path]) -> RecordT:  # noqa: ARG002
        """A record with what follows from its values and its place, for shelves that add some."""
        return record

    def check_names(self, document: Document, roots: Sequence[Path] = ()) -> None:
        """Refuse names of other catalog files that are none, for shelves that look them up."""

    def read(self, path: Path) -> Document:
        """A file as parsed, with the keys of a record."""
        return read_yaml(path)

    def find(self, name: str, roots: Sequence[Path] = ()) -> Path:
        """File of a record by name or by path."""
        return self._file_and_version(name, roots)[0]

    def _file_and_version(self, name: str, roots: Sequence[Path]) -> "tuple[Path, Version]":
        """File of a record, and its version: one look at the disk, which studies take often."""
        if name.endswith((SUFFIX, ".yml", *self.other_suffixes)) or os.sep in name:
            path = reachable(Path(name))
            if (version := version_of(path)) is None:
                raise UnknownNameError(f"no {self.role} file {name}")
            return path, version
        # The common case is one look, not a listing of every folder.
        for root in (*roots, shipped_root()):
            path = _place(root, self.folder, name)
            if (version := version_of(path)) is not None:
                return path, version
        if self.group and name in added(self.group):
            return ADDED / name, NO_VERSION
        if (path_of_alias := self.find_alias(name, roots)) is not None:
            return path_of_alias, version_of(path_of_alias) or NO_VERSION
        raise unknown_name(self.role, name, self.paths(roots))

    def find_alias(self, name: str, roots: Sequence[Path] = ()) -> Path | None:
        """File of the record that has this other name; None if none has.

        Examples
        --------
        >>> from netplan.workloads.accelerators import ACCELERATORS
        >>> ACCELERATORS.find_alias("b300-hgx").name, ACCELERATORS.find_alias("b300")
        ('b300.yaml', None)
        """
        text = name.encode(errors="surrogateescape")
        for path in self.paths(roots).values():
            # Nearly all files are passed over without being parsed; faults are of no concern here.
            with suppress(OSError, CatalogError):
                if text in path.read_bytes():
                    document = _read(self, path, version_of(path) or NO_VERSION)
                    if name in _aliases(document):
                        return path
        return None

    def added(self, name: str, plug: Any) -> dict[str, Any]:  # noqa: ANN401 - what a package names
        """Keys of a record that another package adds, which names a mapping."""
        return {**plug, "name": name}

    def check(self, roots: Sequence[Path] = ()) -> Iterator[tuple[Path, str | None]]:
        """Load every file of the shelf; yields each path with its error text, or None."""
        for path in self.paths(roots).values():
            yield path, check_file(self, path, roots)


def _aliases(document: Document) -> tuple[object, ...]:
    """Other names of a record, as far as its file lists any."""
    listed = document.data.get("aliases")
    return tuple(listed) if isinstance(listed, list) else ()


@lru_cache(maxsize=4096)
def _place(root: Path, folder: str, name: str) -> Path:
    """Where the file of a name would lie."""
    return root / folder / f"{name}{SUFFIX}"


# A study asks thousands of times for the same few files; what is kept is small and never changed.
@lru_cache(maxsize=512)
def _read(shelf: Catalog[Any], path: Path, version: Version) -> Document:  # noqa: ARG001 - in the key
    """A file as parsed; callers copy its data before they change it."""
    if path.parent != ADDED or shelf.group is None:
        return shelf.read(path)
    return lineless(path, shelf.added(path.name, added(shelf.group)[path.name].load()))


@lru_cache(maxsize=512)
def _record(shelf: Catalog[Any], path: Path, version: Version) -> Record:
    """A record as its file has it."""
    document = _read(shelf, path, version)
    record: Record = _validate(shelf.schema_of(document), document, {})
    return record


@lru_cache(maxsize=512)
def _complete(shelf: Catalog[Any], path: Path, version: Version, roots: tuple[Path, ...]) -> Record:
    """A record with all that its shelf adds; names of other files that are none are refused."""
    record = _record(shelf, path, version)
    shelf.check_names(_read(shelf, path, version), roots)
    complete: Record = shelf.completed(record, path, roots)
    return complete


def check_file(shelf: Catalog[Any], path: Path, roots: Sequence[Path] = ()) -> str | None:
    """Error text of one catalog file, or None if it is sound.

    One that may leave its name out is called as its file.
    """
    try:
        document = shelf.read(path)
        record = _validate(shelf.schema_of(document), document, {})
        shelf.check_names(document, roots)
    except CatalogError as error:
        return str(error)
    if record.name != path.stem and "name" in document.data:
        return f"{path}:1: the name is {record.name!r}, but the file is called {path.stem!r}"
    return None


def unknown_name(role: str, name: str, known: Mapping[str, object] | Sequence[str]) -> Exception:
    """Build the error for a name that stands nowhere, with the nearest names."""
    import difflib  # noqa: PLC0415 - seldom used

    wanted = name.lower()
    for text in (wanted, wanted.rpartition(".")[2].replace("-", "_")):  # cluster.hb-sise, too
        near = [other for other in known if text and other.startswith(text)][:3]
        near += difflib.get_close_matches(text, [o for o in known if o not in near], n=2)
        near = near or [other for other in known if text[2:] and other.startswith(text[:3])][:2]
        if near:
            break
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
    return UnknownNameError(f"unknown {role} {name!r}: {hint}")


@cache
def shipped_root() -> Path:
    """Folder of the shipped catalogs: inside the wheel, else the checkout."""
    package = Path(__file__).parent
    inside = package / "_catalog"
    return inside if inside.is_dir() else package.parent


def shipped_rows(place: str) -> list[dict[str, str]]:
    """Rows of a shipped table by its place below that folder, as texts.

    Examples
    --------
    >>> shipped_rows("traffic/stacks/memory.csv")[0]["software"]
    'megatron'
    """
    with (shipped_root() / place).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shipped_date() -> str:
    """Newest date of the shipped catalog files: what netplan knows of the world is of then.

    Examples
    --------
    >>> shipped_date() >= "2026-11"
    True
    """
    folders = ("traffic", "topologies", "costing", "reports")
    files = (path for folder in folders for path in (shipped_root() / folder).rglob(f"*{SUFFIX}"))
    dates = (DATE.search(path.read_bytes()[:HEAD_BYTES]) for path in files)
    return max((match[1].decode() for match in dates if match), default="")


def user_roots(folder: str | Path | None = None) -> tuple[Path, ...]:
    """Catalog folders that stand in front of the shipped one.

    Parameters
    ----------
    folder
        The ``--catalog`` folder; the environment variable ``NETPLAN_CATALOG`` comes after it.

    Raises
    ------
    CatalogError
        If a named folder does not exist.
    """
    roots = []
    for origin, value in (("--catalog", folder), (CATALOG_VARIABLE, os.getenv(CATALOG_VARIABLE))):
        if value:
            if not isinstance(value, (str, Path)):
                raise CatalogError(f"{origin}: {value!r:.60} is no folder")
            if not reachable(Path(value)).is_dir():
                raise CatalogError(f"{origin}: no such folder: {value}")
            roots.append(Path(value))
    return tuple(roots)


def _replace(
    data: dict[str, Any], field: str, text: str, origin: str
) -> tuple[dict[str, Any], str]:
    """Replace one value, reached by dots, inside the parsed data.

    Returns what it stands in, and its place, rows of lists by their numbers.
    """
    *parents, last = field.split(".")
    place = [*parents, last]
    for number, parent in enumerate(parents):
        inner = data.get(parent)
        if isinstance(inner, list) and number + 1 < len(parents):
            # Rows of a list are named as the next step says; they become a mapping for one look.
            row = _row_of(inner, parents[number + 1], f"{origin}: {parent}")
            place[number + 1] = str(next(index for index, part in enumerate(inner) if part is row))
            inner = {parents[number + 1]: row}
        if not isinstance(inner, dict):
            raise CatalogError(f"{origin}: no key {parent!r}: known: {', '.join(data)}")
        data = inner
    data[last] = read_yaml_value(text)
    return data, ".".join(place)


def _widen(row: dict[str, Any], ends: Sequence[str]) -> None:
    """Take along the ends of a range that its new base has passed, so that one value is enough."""
    for end, beyond in (("low", 1), ("high", -1)):
        base, known = row["base"], row.get(end)
        numbers = all(type(value) in (int, float) for value in (base, known))
        if end in ends and numbers and beyond * (known - base) > 0:
            row[end] = base


def _row_of(rows: list[Any], wanted: str, origin: str) -> dict[str, Any]:
    """The one row of a list that a name picks: a text in it, and after @ a number in it.

    Of several the one for all makes is meant, which names no model.

    Raises
    ------
    CatalogError
        If no row has them, or several do.
    """
    name, sign, number = wanted.partition("@")
    named = [row for row in rows if isinstance(row, dict) and name in row.values()]
    matching = named
    if sign:
        wanted_number = read_yaml_value(number)
        matching = [row for row in named if wanted_number in row.values()]
    if len(matching) > 1:
        matching = [row for row in matching if "model" not in row] or matching
    if len(matching) == 1:
        row: dict[str, Any] = matching[0]
        return row
    known = sorted({text for row in rows for text in row.values() if isinstance(text, str)})
    short = [text for text in known if len(text) <= MAX_NAME]
    if not named:
        raise unknown_name(origin, name, short)
    numbers = [value for value in named[0].values() if isinstance(value, (int, float))]
    number = f"{numbers[0]:g}" if numbers else "1"  # that a row could be told by
    raise CatalogError(
        f"{origin}: {len(matching)} rows are called {wanted!r}: write NAME@NUMBER, such as"
        f" {name}@{number}"
    )


def _validate(schema: type[RecordT], document: Document, applied: Mapping[str, str]) -> RecordT:
    """Turn parsed data into a record, or raise one error that names every fault and its line."""
    try:
        return schema.read(document.data)
    except RecordError as error:
        lines = []
        for location, text in error.faults:
            field = ".".join(map(str, location))
            # What is wrong with several values together is so for those of them that were replaced.
            within = f"{field}." if field else ""
            given = [
                setting
                for key, setting in applied.items()
                if f"{field}.".startswith(f"{key}.")
                or (key.startswith(within) and key.rpartition(".")[2] in text)
            ]
            where = f"{document.path}:{document.line(location)}"
            if given:  # one that stands deeper in the record is offered as it is set
                role = given[0].removeprefix("--set ").partition(".")[0]
                where, offer = ", ".join(given), rf"did you mean {role}.\1?"
            lines.append(f"{where}: {DEEPER.sub(offer, text) if given else text}")
        raise CatalogError(*lines) from None
