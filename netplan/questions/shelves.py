"""What the catalogs hold: lists of records, single records, and checks of files."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, get_args

from msgspec import Struct

from netplan.calibration.runs import CALIBRATIONS
from netplan.catalog import Catalog, check_file, unknown_name, user_roots
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.dfmodel import SYSTEM_PARTS
from netplan.costing.hb_gear import HB_GEAR_BOOKS
from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.costing.quotations import quotations
from netplan.costing.switches import SWITCHES
from netplan.documents import read_yaml
from netplan.errors import InputError
from netplan.faults.years.rates import FAILURE_BOOKS
from netplan.faults.years.recovery_presets import RECOVERY_PRESETS
from netplan.inputs.choices import Evidence
from netplan.performance.stacks import SERVING_STACKS, STACKS
from netplan.questions.library import REPORTS
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import (
    Column,
    Heading,
    Notes,
    Paragraph,
    Section,
    Table,
    column,
    columns,
)
from netplan.scenarios.scenario import SCENARIOS
from netplan.setup.money.pricing import PriceSource, prices_of, sections_of
from netplan.setup.own_inputs import list_field, option_field
from netplan.setup.question import Question
from netplan.simulation.palm_model import ANY_ITERATION_MODEL
from netplan.simulation.stage_map import STAGE_MAPS
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS
from netplan.topologies.designs import DESIGNS
from netplan.topologies.site_networks import SITE_NETWORKS
from netplan.topologies.specs import FABRICS
from netplan.traffic.measured_links import ANY_LINK
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import WORKLOADS
from netplan.workloads.published_skew import EXPERT_SKEWS
from netplan.workloads.technologies import MEMORIES

ORDER: tuple[Catalog[Any], ...] = (
    SCENARIOS,
    *(WORKLOADS, ACCELERATORS, MEMORIES, ANY_LINK, ANY_ITERATION_MODEL, STACKS, SERVING_STACKS),
    *(CALIBRATIONS, EXPERT_SKEWS),
    *(FABRICS, DESIGNS, STAGE_MAPS, FLOOR_PLANS, SITE_NETWORKS, SWITCHES),
    *(CABLING_BOOKS, PRICE_BOOKS, POWER_BOOKS, ECONOMICS_BOOKS, FAILURE_BOOKS),
    *(RECOVERY_PRESETS, SYSTEM_PARTS, REPORTS),
)


def all_shelves() -> dict[str, Catalog[Any]]:
    """Every shelf by its role: ours, then those that other rooms have made.

    Examples
    --------
    >>> list(all_shelves())[:2]
    ['scenario', 'model']
    """
    return {shelf.role: shelf for shelf in (*ORDER, *Catalog.all)}


MOST_TITLES = 15
"""Records of which a screen shows the titles [1]."""


class CatalogRecord(Struct, frozen=True):
    """One catalog file: its role and name, and what it says of itself."""

    role: str
    name: str
    title: str
    date: str
    source: str


@dataclass(frozen=True, slots=True, repr=False)
class CatalogRecords(Answer):
    """The answer of ``netplan catalog list``."""

    json_head = ()
    json_parts = ("records",)

    records: tuple[CatalogRecord, ...]

    def summary(self) -> Iterator[Section]:
        """How many records each role has; all of them where there is one role."""
        counts = Counter(record.role for record in self.records)
        if len(counts) <= 1:
            role = next(iter(counts), "record")
            titles = Table("records", columns("name", "title"), self.records)
            many = len(self.records) > MOST_TITLES
            names = (", ".join(record.name for record in self.records),) if many else ()
            yield from Screen(
                Heading("Records of the catalogs"),
                (f"{len(self.records):,} of role {role}; your own go before ours.",),
                None if many else titles,
                names,
                more=more_of("dates, all of them", "netplan catalog show NAME", page=False),
            ).sections()
            return
        ranked = counts.most_common()
        half = -(-len(ranked) // 2)
        pairs = list(zip_longest(ranked[:half], ranked[half:]))
        shown: list[Column[Any]] = [column("role", "0.0"), column("records", "0.1")]
        shown += [column("role", "1.0"), column("records", "1.1")]
        yield from Screen(
            Heading("Records of the catalogs"),
            (f"{len(self.records):,} records of {len(counts)} roles; your own go before ours.",),
            Table("roles", shown, pairs),
            ("One role: netplan catalog list ROLE; one record: netplan catalog show NAME.",),
            more_of("every record", page=False),
        ).sections()

    def sections(self) -> Iterator[Section]:
        """One table."""
        yield Heading("Records of the catalogs")
        shown = [*columns("role", "name", "title", "date"), *columns("source", shown="wide")]
        yield Table("records", shown, self.records)


@dataclass(frozen=True, kw_only=True)
class ListRecords(Question[CatalogRecords]):
    """List all records, or those of one ROLE (model, accelerator, fabric, prices, ...)."""

    command: ClassVar[str] = "catalog list"
    reads_from: ClassVar[frozenset[str]] = frozenset({"catalog"})

    role: str | None = option_field("Only records of this role.", default=None, argument=True)

    def ask(self) -> CatalogRecords:
        """Read title, date and source of every file."""
        roots = user_roots(self.catalog)
        records = []
        for shelf in _shelves(self.role):
            for name, path in shelf.paths(roots).items():
                record = read_yaml(path).data
                facts = (str(record.get(key, "")) for key in ("title", "date", "source"))
                records.append(CatalogRecord(shelf.role, name, *facts))
        return CatalogRecords(tuple(records))


class FileEvidence(Struct, frozen=True):
    """What the values of a file are made of: how many of each class, and which do not say so."""

    role: str
    file: str
    counts: dict[Evidence, int]
    lacking: tuple[str, ...] = ()

    @property
    def values(self) -> int:
        """Values that say who has them [1]."""
        return sum(self.counts.values()) + len(self.lacking)


WHOLE = frozenset({ACCELERATORS.role, SWITCHES.role})
"""Shelves whose files are about one product each."""
BY_ROW: tuple[Catalog[Any], ...] = (
    *(CABLING_BOOKS, PRICE_BOOKS, POWER_BOOKS, ECONOMICS_BOOKS, HB_GEAR_BOOKS, FAILURE_BOOKS),
    *(RECOVERY_PRESETS, SYSTEM_PARTS),
)
CLASSES: tuple[Evidence, ...] = get_args(Evidence)


def evidence_of(role: str, path: Path) -> FileEvidence | None:
    """Count the classes of evidence of a file's values.

    Parameters
    ----------
    role
        Shelf that the file is on.
    path
        The file.

    Returns
    -------
    FileEvidence or None
        None of a shelf whose values have no such classes.
    """
    if role not in {*WHOLE, *(shelf.role for shelf in BY_ROW)}:
        return None
    data = read_yaml(path).data
    rows = (data,) if role in WHOLE else _sourced(data)
    classes = [(row.get("evidence"), _row_name(row)) for row in rows]
    counts = Counter(kind for kind, _ in classes)
    lacking = tuple(name for kind, name in classes if kind is None)
    return FileEvidence(role, path.stem, {kind: counts[kind] for kind in CLASSES}, lacking)


def _sourced(inside: Any, *, top: bool = True) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - YAML
    """All mappings of a file that have a source, but for the file itself and exchange rates."""
    if isinstance(inside, list):
        for row in inside:
            yield from _sourced(row, top=False)
    elif isinstance(inside, dict):
        if not top and ("evidence" in inside or "source" in inside) and "per_usd" not in inside:
            yield inside
            return
        for row in inside.values():
            yield from _sourced(row, top=False)


def _row_name(row: dict[str, Any]) -> str:
    """What tells a row from others."""
    names = ("name", "item", "cause", "what", "part", "kind", "group", "model", "speed_gbps")
    return " ".join(str(row[name]) for name in names if name in row) or "a value"


def table_evidence() -> FileEvidence:
    """The same of the table of quotations."""
    counts = Counter(row.evidence for row in quotations())
    return FileEvidence("prices", "quotations.csv", {kind: counts[kind] for kind in CLASSES})


class FileCheck(Struct, frozen=True):
    """Outcome of one file's check; ``error`` is None for a sound file, else all its faults."""

    json_parts = "role", "path=place", "error"

    role: str
    path: Path
    error: str | None

    @property
    def place(self) -> str:
        """Its path as text."""
        return str(self.path)


def _by_role(files: Sequence[FileEvidence]) -> Iterator[FileEvidence]:
    """All files of a shelf as one."""
    for role in dict.fromkeys(file.role for file in files):
        shelf = [file for file in files if file.role == role]
        counts = {kind: sum(file.counts[kind] for file in shelf) for kind in CLASSES}
        lacking = tuple(name for file in shelf for name in file.lacking)
        yield FileEvidence(role, "", counts, lacking)


EVIDENCE: tuple[Column[FileEvidence], ...] = (
    column("file", lambda file: f"{file.role}/{file.file}".rstrip("/")),
    *(column(kind, f"counts.{kind}") for kind in CLASSES),
    column("none", lambda file: len(file.lacking)),
)


@dataclass(frozen=True, slots=True, repr=False)
class CatalogCheck(Answer):
    """The answer of ``netplan catalog check``."""

    json_head = ()
    json_parts = "files=checks.#", "sound=sound_count", "faults", "*price_rows", "?evidence"

    checks: tuple[FileCheck, ...]
    prices: tuple[PriceSource, ...] | None = None
    evidence: tuple[FileEvidence, ...] = ()

    @property
    def faults(self) -> list[FileCheck]:
        """The files that are not sound."""
        return [check for check in self.checks if check.error]

    @property
    def exit_code(self) -> int:
        """2 if a file is not sound."""
        return EXIT_FAULTS if self.faults else 0

    @property
    def sound_count(self) -> int:
        """Those that are sound [1]."""
        return len(self.checks) - len(self.faults)

    @property
    def price_rows(self) -> dict[str, tuple[PriceSource, ...]]:
        """Where prices are from; nothing where nobody asks."""
        return {} if self.prices is None else {"prices": self.prices}

    def summary(self) -> Iterator[Section]:
        """How many files are sound; where prices are asked for, those known least."""
        if self.prices is None:
            yield from self.sections()
            return
        lacking = [file for file in self.evidence if file.lacking]
        bare = sum(len(file.lacking) for file in lacking)
        whole = f"{bare:,} values of {len(lacking)} files lack a class"
        yield from Screen(
            Heading("Files of the catalogs, and what their values are made of"),
            (f"{self._sound} Evidence: {whole if lacking else 'no value lacks a class'}.",),
            Table("evidence", EVIDENCE, tuple(_by_role(self.evidence))),
            (),
            more_of("every file, every price", page=False),
        ).sections()

    @property
    def _sound(self) -> str:
        """How many files are sound."""
        return f"{self.sound_count} of {len(self.checks)} files are sound."

    def sections(self) -> Iterator[Section]:
        """The faults, for programs; people read them on stderr. How many files are sound.

        Where prices are asked for, where they are from.
        """
        shown = [*columns("role"), column("path", "place"), *columns("error")]
        yield Table("faults", shown, self.faults, shown="data")
        yield Paragraph(self._sound)
        if self.prices is not None:
            yield Table("evidence", EVIDENCE, self.evidence, "What values are made of")
            yield Notes.of((file.file, file.lacking) for file in self.evidence if file.lacking)
            yield from sections_of(self.prices)


@dataclass(frozen=True, kw_only=True)
class CheckRecords(Question[CatalogCheck]):
    """Check FILES, or every catalog file.

    Every fault is named with its file and line; with any fault the exit code is 2.

    Raises
    ------
    InputError
        If it cannot be told what a file describes.
    """

    command: ClassVar[str] = "catalog check"
    reads_from: ClassVar[frozenset[str]] = frozenset({"catalog"})

    files: Sequence[str | Path] = list_field("These files.", "path", argument=True)
    role: str | None = option_field("What the files describe, if their folder does not say so.")
    sources: bool = option_field(
        "Where prices are from, and evidence of all values.", "flag", default=False
    )

    def ask(self) -> CatalogCheck:
        """Read every file with its schema."""
        checks = tuple(self._checks())
        if not self.sources:
            return CatalogCheck(checks)
        sound = [row for row in checks if not row.error]
        books = [row.path for row in sound if row.role == PRICE_BOOKS.role]
        made = [evidence_of(row.role, row.path) for row in sound]
        made += [table_evidence()] if books and not self.files else []
        return CatalogCheck(
            checks,
            prices_of([PRICE_BOOKS.load(str(path)) for path in books]),
            tuple(file for file in made if file is not None),
        )

    def _checks(self) -> Iterator[FileCheck]:
        if self.files:
            yield from (_check(Path(path), self.role) for path in self.files)
            return
        for shelf in _shelves(self.role):
            yield from (
                FileCheck(shelf.role, *file_fault)
                for file_fault in shelf.check(user_roots(self.catalog))
            )


EXIT_FAULTS = 2


def find_record(name: str, roots: Sequence[Path]) -> tuple[Catalog[Any], Path]:
    """Catalog and file of a record, whatever its role.

    Raises
    ------
    UnknownNameError
        If no shelf has this name.
    """
    known: dict[str, tuple[Catalog[Any], Path]] = {}
    for shelf in all_shelves().values():
        for record_name, path in shelf.paths(roots).items():
            known.setdefault(record_name, (shelf, path))
            known[f"{shelf.role}/{record_name}"] = (shelf, path)
        if name not in known and (path_of_alias := shelf.find_alias(name, roots)) is not None:
            return shelf, path_of_alias
    if name not in known:
        raise unknown_name("record", name, [key for key in known if "/" not in key])
    return known[name]


def _check(path: Path, role: str | None) -> FileCheck:
    if role is None:
        folders = {shelf.folder: shelf for shelf in all_shelves().values()}
        parent = path.resolve().parent.as_posix()
        role = next((shelf.role for end, shelf in folders.items() if parent.endswith(end)), None)
    if role is None:
        roles = ", ".join(all_shelves())
        raise InputError(f"{path}: what does it describe? Say --role with one of: {roles}")
    return FileCheck(role, path, check_file(_shelves(role)[0], path))


def _shelves(role: str | None) -> list[Catalog[Any]]:
    known = all_shelves()
    if role is None:
        return list(known.values())
    if role not in known:
        raise unknown_name("role", role, known)
    return [known[role]]
