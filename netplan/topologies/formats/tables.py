"""Tables of cables, read back: our plan, NetBox's cables, and both sheets of UFM cable validation.

The header says which table it is. Rows are checked one by one; that a port holds two cables is for
the caller to judge, since an audit wants to see it all.

Of an XLSX file, which nobody has vouched for, the first sheet is read: text and numbers, no
formulas computed, no styles. Sizes are bounded before anything is unpacked, and documents with
entities are refused.
"""

import csv
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from math import isfinite, nan
from pathlib import Path
from typing import IO
from xml.parsers import expat

from msgspec import Struct

from netplan.errors import CatalogError
from netplan.files import read_lines
from netplan.topologies.as_built import Cable, End
from netplan.topologies.cable_plan import PLAN_COLUMNS
from netplan.topologies.formats.kinds import XLSX, kind_of
from netplan.topologies.formats.netbox import CABLE_COLUMNS
from netplan.topologies.formats.sheets import ETHERNET_COLUMNS, INFINIBAND_COLUMNS

MAX_UNPACKED_BYTES = 1 << 30
MAX_COLUMNS = 64
DAMAGED = (zlib.error, lzma.LZMAError)
SHEET, STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
CHUNK = 1 << 20
COLUMN = re.compile(r"[A-Z]{1,3}")
LETTERS = 26

Row = tuple[int, list[str]]

MAX_CABLES = 1_000_000
# A name begins with a letter or digit, so no spreadsheet takes it for a formula.
NAME = re.compile(r"[0-9A-Za-z_][^\x00-\x1f\x7f-\x9f\"<>]{0,199}")


class Table(Struct, frozen=True):
    """Where a kind of table has its ends and rates; columns by name."""

    columns: tuple[str, ...]
    ends: tuple[str, str, str, str]
    rate: str = ""


TABLES = (
    Table(PLAN_COLUMNS, ("a_device", "a_port", "z_device", "z_port"), "gbps"),
    Table(CABLE_COLUMNS, ("side_a_device", "side_a_name", "side_b_device", "side_b_name")),
    Table(ETHERNET_COLUMNS, ("A-Node Name", "A-Port", "Z-Node Name", "Z-Port")),
)


def read_cable_table(path: Path) -> list[Cable]:
    """Read the cables of a CSV or XLSX table; errors have file and line."""
    rows = read_table(path)
    line, header = next(rows, (1, []))
    place = _places(path, line, header)
    cables = []
    for number, row in rows:
        cells = row + [""] * (len(header) - len(row))
        if len(cells) > len(header):
            raise CatalogError(f"{path}:{number}: expected {len(header)} fields, got {len(cells)}")
        cables.append(_cable(path, number, cells, place))
    if not cables:
        raise CatalogError(f"{path}:{line}: the table holds no cables")
    return cables


def read_table(path: Path) -> Iterator[Row]:
    """Rows of a CSV or XLSX file with their lines, a million at most; empty ones are left out."""
    if path.suffix.lower() == XLSX or kind_of(path) == XLSX:
        rows = _read_spreadsheet(path)
        _check_size(path, len(rows))
        return iter(rows)
    lines = read_lines(path)
    _check_size(path, len(lines))
    return _csv_rows(path, lines)


def is_cable_table(header: Sequence[str]) -> bool:
    """Whether a header is that of a table of cables."""
    return tuple(header) == INFINIBAND_COLUMNS or any(
        set(table.ends) <= set(header) for table in TABLES
    )


def _check_size(path: Path, rows: int) -> None:
    if rows > MAX_CABLES + 2:  # a header, and the end of the last line
        raise CatalogError(
            f"{path}:{MAX_CABLES + 2}: more than {MAX_CABLES:,} rows: split the table"
        )


def _csv_rows(path: Path, lines: list[str]) -> Iterator[Row]:
    reader = csv.reader(lines, strict=True)
    try:
        for cells in reader:
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise CatalogError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _places(path: Path, line: int, header: list[str]) -> tuple[int, ...]:
    """Positions of device, port, device, port and rate in the header; -1 for no rate."""
    if tuple(header) == INFINIBAND_COLUMNS:
        return (2, 3, 6, 7, -1)  # its names repeat: by position
    for table in TABLES:
        if not set(table.ends) <= set(header):
            continue
        for column in header:
            if column not in table.columns:
                known = ", ".join(table.columns)
                raise CatalogError(
                    f"{path}:{line}: unknown column {column!r:.40}: known are {known}"
                )
        rate = header.index(table.rate) if table.rate in header else -1
        return (*(header.index(column) for column in table.ends), rate)
    known = "; ".join(",".join(table.ends) for table in TABLES)
    raise CatalogError(f"{path}:{line}: no table of cables: give the columns {known}")


def _cable(path: Path, line: int, cells: list[str], place: tuple[int, ...]) -> Cable:
    """One row as a cable, or an error that says what is wrong with it."""
    a, a_port, z, z_port, rate = place
    ends = []
    for device, port in ((a, a_port), (z, z_port)):
        texts = [cells[device].strip(), _port(cells[port])]
        for text in texts:
            if not NAME.fullmatch(text):
                raise CatalogError(
                    f"{path}:{line}: {text[:40]!r} cannot be a device or port: begin with a letter"
                    " or digit, no quotes or angle brackets, at most 200 characters"
                )
        ends.append(End(*texts))
    return Cable(ends[0], ends[1], _rate(path, line, cells[rate] if rate >= 0 else ""), line)


def _port(text: str) -> str:
    """Port as text; spreadsheets turn 5 into 5.0."""
    text = text.strip().removesuffix(".0")
    return str(int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else text  # noqa: PLR2004


def _rate(path: Path, line: int, text: str) -> float:
    if not text.strip():
        return nan
    try:
        rate = float(text)
    except ValueError:
        rate = nan
    if not (isfinite(rate) and rate > 0):
        raise CatalogError(f"{path}:{line}: gbps: got {text[:40]!r}, give a rate above 0")
    return rate


def _read_spreadsheet(path: Path) -> list[Row]:
    """Line numbers and cells as text of the first sheet; empty rows are left out."""
    if path.exists() and not path.is_file():
        raise CatalogError(f"{path}: no spreadsheet: it is a pipe, a device or a folder")
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            if SHEET not in sizes:
                raise CatalogError(f"{path}:1: no spreadsheet: it holds no first sheet")
            if sizes[SHEET] + sizes.get(STRINGS, 0) > MAX_UNPACKED_BYTES:
                raise CatalogError(f"{path}: unpacks to more than 1 GiB: save the table as CSV")
            book = _Book()
            for name in (STRINGS, SHEET):
                if name in sizes:
                    with archive.open(name) as part:
                        book.read(part)
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror}") from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, *DAMAGED):
        raise CatalogError(f"{path}:1: no spreadsheet: save it as XLSX or CSV") from None
    except (expat.ExpatError, ValueError, IndexError) as error:
        raise CatalogError(f"{path}:1: damaged spreadsheet: {error}") from None
    return book.rows


class _Book:
    """Shared strings and rows of a spreadsheet, collected from the elements of its parts."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self.rows: list[Row] = []
        self.cells: list[str] = []
        self.parts: list[str] = []  # of the text of a cell or shared string
        self.open = False
        self.line = 0
        self.column = 0
        self.shared = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in ("t", "v"):
            self.open = True
        elif tag == "si":
            self.parts = []
        elif tag == "c":
            self.parts = []
            self.shared = attributes.get("t") == "s"
            self.column = _column(attributes["r"]) if "r" in attributes else len(self.cells)
        elif tag == "row":
            self.cells = []
            self.line = int(attributes["r"]) if "r" in attributes else self.line + 1

    def data(self, text: str) -> None:
        if self.open:
            self.parts.append(text)

    def end(self, tag: str) -> None:
        if tag in ("t", "v"):
            self.open = False
        elif tag == "si":
            self.strings.append("".join(self.parts))
        elif tag == "c" and self.parts:
            text = "".join(self.parts)
            if self.column >= MAX_COLUMNS or len(self.rows) > MAX_CABLES + 1:
                raise ValueError(
                    f"row {self.line:,}, column {self.column + 1:,}: a table of cables has at most"
                    f" {MAX_CABLES:,} rows and {MAX_COLUMNS} columns"
                )
            self.cells += [""] * (self.column - len(self.cells))
            self.cells.append(self.strings[int(text)] if self.shared else text)
        elif tag == "row" and any(self.cells):
            self.rows.append((self.line, self.cells))

    def read(self, part: IO[bytes]) -> None:
        """Read one XML part, a chunk at a time."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.data
        while chunk := part.read(CHUNK):
            parser.Parse(chunk, False)
        parser.Parse(b"", True)


def _column(reference: str) -> int:
    """Column number from a cell's name, from 0: A1 is 0, AB7 is 27."""
    letters = COLUMN.match(reference)
    if not letters:
        raise ValueError(f"cell {reference[:20]!r} has no column")
    number = 0
    for letter in letters[0]:
        number = LETTERS * number + ord(letter) - ord("A") + 1
    return number - 1


def _refuse(*_: object) -> None:
    """Refuse a document type: a few lines of entities can expand to gigabytes."""
    raise ValueError("it declares a document type")
