"""Rows of the first sheet of an XLSX file that nobody has vouched for.

Only what a table of cables needs: text and numbers, no formulas computed, no styles. Sizes are
bounded before anything is unpacked, and documents with entities are refused.
"""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from xml.parsers import expat

from netplan.errors import CatalogError

MAX_UNPACKED_BYTES = 1 << 30
SHEET, STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
CHUNK = 1 << 20
COLUMN = re.compile(r"[A-Z]{1,3}")
LETTERS = 26

Row = tuple[int, list[str]]


def read_spreadsheet(path: Path) -> Iterator[Row]:
    """Read the first sheet: line numbers and cells as text; empty rows are left out.

    Raises
    ------
    CatalogError
        If the file is no spreadsheet, is damaged, or unpacks to more than 1 GiB.
    """
    try:
        with zipfile.ZipFile(path) as book:
            names = {entry.filename: entry.file_size for entry in book.infolist()}
            if SHEET not in names:
                raise CatalogError(f"{path}:1: no spreadsheet: it holds no first sheet")
            if names[SHEET] + names.get(STRINGS, 0) > MAX_UNPACKED_BYTES:
                raise CatalogError(f"{path}: unpacks to more than 1 GiB: save the table as CSV")
            strings = _Strings()
            if STRINGS in names:
                with book.open(STRINGS) as file:
                    _parse(file, strings)
            with book.open(SHEET) as file:
                sheet = _Sheet(strings.texts)
                _parse(file, sheet)
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror}") from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError):
        raise CatalogError(f"{path}:1: no spreadsheet: save it as XLSX or CSV") from None
    except (expat.ExpatError, ValueError, IndexError) as error:
        raise CatalogError(f"{path}:1: damaged spreadsheet: {error}") from None
    return iter(sheet.rows)


class _Texts:
    """Collects the text between two tags."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.open = False

    def data(self, text: str) -> None:
        """Text of the element that is open."""
        if self.open:
            self.parts.append(text)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element."""

    def end(self, tag: str) -> None:
        """End an element."""


class _Strings(_Texts):
    """The table of shared strings."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:  # noqa: ARG002 - expat's own
        if tag == "si":
            self.parts = []
        self.open = tag == "t"

    def end(self, tag: str) -> None:
        if tag == "t":
            self.open = False
        elif tag == "si":
            self.texts.append("".join(self.parts))


class _Sheet(_Texts):
    """The cells of a sheet, row by row."""

    def __init__(self, strings: list[str]) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.strings = strings
        self.cells: list[str] = []
        self.line = 0
        self.column = 0
        self.shared = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in ("t", "v"):
            self.open = True
        elif tag == "c":
            self.parts = []
            self.shared = attributes.get("t") == "s"
            self.column = _column(attributes["r"]) if "r" in attributes else len(self.cells)
        elif tag == "row":
            self.cells = []
            self.line = int(attributes["r"]) if "r" in attributes else self.line + 1

    def end(self, tag: str) -> None:
        if tag in ("t", "v"):
            self.open = False
        elif tag == "c" and self.parts:
            text = "".join(self.parts)
            self.cells += [""] * (self.column - len(self.cells))
            self.cells.append(self.strings[int(text)] if self.shared else text)
        elif tag == "row" and any(self.cells):
            self.rows.append((self.line, self.cells))


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


def _parse(file: IO[bytes], target: _Texts) -> None:
    """Run one XML part through a collector, a chunk at a time."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler = target.start
    parser.EndElementHandler = target.end
    parser.CharacterDataHandler = target.data
    while chunk := file.read(CHUNK):
        parser.Parse(chunk, False)
    parser.Parse(b"", True)
