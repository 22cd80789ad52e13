"""Spreadsheets that somebody sent, read in bounded memory: cells of the sheets that are asked for.

An XLSX file is a ZIP archive of XML parts (ECMA-376, part 1, chapter 18). Nobody has vouched for
one: what it unpacks to is counted while it is read, documents with entities are refused, formulas
are not computed. Of a formula the value that its program saved beside it is what the cell holds;
a formula without one holds nothing, and says so.
"""

import lzma
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from functools import cache
from math import inf, isfinite
from pathlib import Path
from typing import Literal, TypeVar
from xml.parsers import expat

from msgspec import Struct

from netplan.errors import CatalogError
from netplan.files import reachable

MAX_SHEETS = 256
CHUNK = 1 << 18
BOOK, BOOK_PARTS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
STRINGS = "xl/sharedStrings.xml"
REFERENCE = re.compile(r"([A-Z]{1,3})([1-9]\d{0,6})")
NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,4})?")
LETTERS = 26
ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""How the format writes a sign that XML cannot hold."""

T = TypeVar("T")

DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(NotImplementedError, RuntimeError, EOFError),
)

Kind = Literal["number", "text", "truth", "error", "none"]
Attributes = dict[str, str]
Row = tuple[int, list[str]]
"""Number of a row, from 1, and its cells as text."""


class Bounds(Struct, frozen=True):
    """What one part of the archive may unpack to [B]; what a sheet may hold [1]."""

    part_bytes: int = 16 << 20
    rows: int = 20_000
    columns: int = 256
    cells: int = 400_000
    texts: int = 400_000


FORM = Bounds()
"""What people fill in by hand."""


class Cell(Struct, frozen=True):
    """What stands in a cell.

    Parameters
    ----------
    kind
        ``none`` only for a formula that was saved without its value.
    text
        Text, or the sign of an error such as ``#REF!``.
    number
        Number; 1 or 0 of a truth value [1].
    formula
        Whether a formula made it.
    """

    kind: Kind
    text: str = ""
    number: float = 0.0
    formula: bool = False


class Sheet(Struct, frozen=True):
    """Cells of one sheet that hold something, by row and column from 0."""

    name: str
    cells: Mapping[tuple[int, int], Cell]

    def cell(self, row: int, column: int) -> Cell | None:
        """The cell there, or None where nothing stands."""
        return self.cells.get((row, column))

    def text(self, row: int, column: int) -> str:
        """The text there without spaces around it; empty if none stands there."""
        cell = self.cells.get((row, column))
        return cell.text.strip() if cell is not None and cell.kind == "text" else ""


def address(row: int, column: int) -> str:
    """Name of a cell from row and column, from 0.

    Examples
    --------
    >>> address(6, 1), address(0, 27)
    ('B7', 'AB1')
    """
    letters, rest = "", column + 1
    while rest:
        rest, letter = divmod(rest - 1, LETTERS)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{row + 1}"


def cell_position(reference: str) -> tuple[int, int]:
    """Row and column of a cell's name, from 0.

    Raises
    ------
    ValueError
        If it is no name of a cell.

    Examples
    --------
    >>> cell_position("B7"), cell_position("AB1")
    ((6, 1), (0, 27))
    """
    match = REFERENCE.fullmatch(reference)
    if not match:
        raise ValueError(f"{reference[:20]!r} is no cell")
    return int(match[2]) - 1, _column(match[1])


@cache  # there are 18,278 of up to three letters
def _column(letters: str) -> int:
    """Number of a column, from 0."""
    column = 0
    for letter in letters:
        column = LETTERS * column + ord(letter) - ord("A") + 1
    return column - 1


def read_workbook(path: Path, sheets: Collection[str]) -> dict[str, Sheet]:
    """The sheets of these names that an XLSX file holds.

    Raises
    ------
    CatalogError
        If the file cannot be read, is no spreadsheet, or unpacks to more than a table holds.
    """

    def find(archive: zipfile.ZipFile) -> dict[str, Sheet]:
        names, strings = _names(archive), _strings(archive, FORM)
        contents = {}
        for name, part in names.items():
            if name in sheets:
                kept: dict[tuple[int, int], Cell] = {}
                cells = _Cells(name, strings, FORM, kept.__setitem__)
                _parse(archive, part, FORM, cells.start, cells.end, cells.data)
                contents[name] = Sheet(name, kept)
        return contents

    return _read(path, find)


def read_first_sheet(path: Path, bounds: Bounds) -> list[Row]:
    """Rows of the first sheet of an XLSX file as text, those without any left out.

    Parameters
    ----------
    path
        The file.
    bounds
        How large it may be.

    Raises
    ------
    CatalogError
        As :func:`read_workbook`.
    """

    def find(archive: zipfile.ZipFile) -> list[Row]:
        # That which the book names first, whatever its part is called.
        name, part = next(iter(_names(archive).items()), ("", ""))
        if not part:
            raise ValueError("it holds no sheet")
        rows: dict[int, list[str]] = {}

        def keep(place: tuple[int, int], cell: Cell) -> None:  # a million rows fit
            text = f"{cell.number:.15g}" if cell.kind in ("number", "truth") else cell.text
            if text:  # numbers as a spreadsheet shows them
                row = rows.setdefault(place[0], [])
                row += [""] * (place[1] + 1 - len(row))
                row[place[1]] = text

        cells = _Cells(name, _strings(archive, bounds), bounds, keep)
        _parse(archive, part, bounds, cells.start, cells.end, cells.data)
        return [(row + 1, texts) for row, texts in sorted(rows.items())]

    return _read(path, find)


def _read(path: Path, read: Callable[[zipfile.ZipFile], T]) -> T:
    """What is found in an archive, or one clear line."""
    if reachable(path).exists() and not path.is_file():
        raise CatalogError(f"{path}: no spreadsheet: it is a pipe, a device or a folder")
    try:
        with zipfile.ZipFile(path) as archive:
            return read(archive)
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror}") from None
    except DAMAGED:
        raise CatalogError(f"{path}: no spreadsheet, or damaged: save it as XLSX") from None
    except KeyError:
        raise CatalogError(f"{path}: damaged spreadsheet: a part of it is missing") from None
    except (expat.ExpatError, ValueError, LookupError) as error:  # an encoding that nobody knows
        raise CatalogError(f"{path}: damaged spreadsheet: {error}") from None


def _strings(archive: zipfile.ZipFile, bounds: Bounds) -> list[str]:
    """Texts that the cells share."""
    strings = _Strings(bounds)
    if STRINGS in archive.namelist():
        _parse(archive, STRINGS, bounds, strings.start, strings.end, strings.data)
    return strings.texts


def _names(archive: zipfile.ZipFile) -> dict[str, str]:
    """Parts of the sheets by their names, in the order of the book."""
    if BOOK not in archive.namelist():
        raise ValueError("it holds no workbook: save it as XLSX")
    targets: dict[str, str] = {}
    sheets: list[Attributes] = []

    def relation(tag: str, attributes: Attributes) -> None:
        if tag == "Relationship":
            target = attributes.get("Target", "")
            joined = target.lstrip("/") if target.startswith("/") else posixpath.join("xl", target)
            targets[attributes.get("Id", "")] = posixpath.normpath(joined)

    def sheet(tag: str, attributes: Attributes) -> None:
        if tag == "sheet":
            sheets.append(attributes)
            if len(sheets) > MAX_SHEETS:
                raise ValueError(f"more than {MAX_SHEETS} sheets")

    _parse(archive, BOOK_PARTS, FORM, relation)
    _parse(archive, BOOK, FORM, sheet)
    parts = {}
    for attributes in sheets:
        identity = next((value for key, value in attributes.items() if key.endswith(":id")), "")
        parts[attributes.get("name", "")] = targets.get(identity, "")
    return parts


def _read_count(text: str) -> int:
    """A count of the file, which nobody has vouched for."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):  # noqa: PLR2004 - below 2^31
        raise ValueError(f"{text[:20]!r} is no count")
    return int(text)


def _parse(
    archive: zipfile.ZipFile,
    part: str,
    bounds: Bounds,
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None] | None = None,
    data: Callable[[str], None] | None = None,
) -> None:
    """Read one XML part a chunk at a time, as far as it is no larger than allowed."""

    def reject_doctype(*_: object) -> None:  # a few lines of entities can expand to gigabytes
        raise ValueError("it declares a document type")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reject_doctype
    parser.StartElementHandler = lambda tag, attributes: start(tag.rpartition(":")[2], attributes)
    if end is not None:
        parser.EndElementHandler = lambda tag: end(tag.rpartition(":")[2])
    parser.CharacterDataHandler = data
    read = 0
    with archive.open(part) as file:
        while chunk := file.read(CHUNK):
            read += len(chunk)
            if read > bounds.part_bytes:
                raise ValueError(f"{part} unpacks to more than {bounds.part_bytes >> 20} MiB")
            parser.Parse(chunk, False)
    parser.Parse(b"", True)


class _Strings:
    """Texts that the cells share; how they are pronounced is left out."""

    def __init__(self, bounds: Bounds) -> None:
        self.most = bounds.texts
        self.texts: list[str] = []
        self.parts: list[str] = []
        self.open = self.spoken = False

    def start(self, tag: str, _: Attributes) -> None:
        if tag == "si":
            self.parts = []
        elif tag == "rPh":
            self.spoken = True
        elif tag == "t":
            self.open = not self.spoken

    def end(self, tag: str) -> None:
        if tag == "t":
            self.open = False
        elif tag == "rPh":
            self.spoken = False
        elif tag == "si":
            if len(self.texts) >= self.most:
                raise ValueError(f"more than {self.most:,} texts")
            self.texts.append("".join(self.parts))

    def data(self, text: str) -> None:
        if self.open:
            self.parts.append(text)


Keep = Callable[[tuple[int, int], Cell], None]
"""What is done with the cell of a row and column."""


class _Cells:
    """Cells of one sheet, collected from the elements of its part."""

    def __init__(self, name: str, strings: list[str], bounds: Bounds, keep: Keep) -> None:
        self.name, self.strings, self.bounds, self.keep = name, strings, bounds, keep
        self.count = 0
        self.row = self.column = -1
        self.type = ""
        self.formula = self.open = self.valued = self.spoken = False
        self.parts: list[str] = []

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "row":
            self.row = _read_count(attributes["r"]) - 1 if "r" in attributes else self.row + 1
            self.column = -1
        elif tag == "c":
            self.column += 1
            if "r" in attributes:
                self.row, self.column = cell_position(attributes["r"])
            self.type, self.parts = attributes.get("t", "n"), []
            self.formula = self.valued = False
        elif tag == "f":
            self.formula = True
        elif tag == "rPh":
            self.spoken = True
        elif tag in ("v", "t"):
            self.open, self.valued = not self.spoken, True

    def data(self, text: str) -> None:
        if self.open:
            self.parts.append(text)

    def end(self, tag: str) -> None:
        if tag in ("v", "t"):
            self.open = False
        elif tag == "rPh":
            self.spoken = False
        elif tag == "c" and (self.valued or self.formula):
            cell = self._cell("".join(self.parts))
            if cell is not None:
                most = self.bounds
                self.count += 1
                if self.row >= most.rows or self.column >= most.columns or self.count > most.cells:
                    raise ValueError(
                        f"sheet {self.name!r:.40}, cell {address(self.row, self.column)}: a table"
                        f" has at most {most.rows:,} rows and {most.columns} columns"
                    )
                self.keep((self.row, self.column), cell)

    def _cell(self, text: str) -> Cell | None:
        formula = self.formula
        if self.type in ("s", "str", "inlineStr"):
            if self.type == "s" and text:
                place = _read_count(text)
                if place >= len(self.strings):
                    raise ValueError(f"text {place:,} is not there")
                text = self.strings[place]
            if text.strip():
                if "_x" in text:
                    text = ESCAPED.sub(lambda sign: chr(int(sign[1], 16)), text)
                return Cell("text", text, formula=formula)
            # A formula may well say nothing; one whose value was never saved does not.
            return Cell("text", "", formula=True) if formula and self.valued else self._unsaved()
        if not text.strip():
            return self._unsaved()
        if self.type == "b":
            return Cell("truth", number=float(text.strip() == "1"), formula=formula)
        if self.type in ("e", "d"):
            return Cell("error" if self.type == "e" else "text", text, formula=formula)
        number = float(text) if NUMBER.fullmatch(text.strip()) else inf
        if not isfinite(number):
            where = f"sheet {self.name!r:.40}, cell {address(self.row, self.column)}"
            raise ValueError(f"{where}: {text[:20]!r} is no number")
        return Cell("number", number=number, formula=formula)

    def _unsaved(self) -> Cell | None:
        return Cell("none", formula=True) if self.formula else None
