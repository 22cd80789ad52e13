"""Tables of measurements that users write: CSV with known columns, and its templates.

A template is a header and an example; what a column is stands in `README.md` of `traffic/`.
"""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from netplan.catalog import unknown_name
from netplan.errors import CatalogError
from netplan.files import read_bounded, text_of

MAX_BYTES = 16 << 20
MAX_ROWS = 10_000
LARGEST = 1e12


class Column(NamedTuple):
    """One column: its name, what reads a cell, and what an empty cell or a missing column is.

    A reader refuses by a ValueError that says what is allowed; without a default the column is
    needed.
    """

    name: str
    read: Callable[[str], Any]
    default: Any = None
    needed: bool = False


class Line(NamedTuple):
    """A row as read: where it stands, and its values by column."""

    place: str
    values: Mapping[str, Any]


def whole(text: str) -> int:
    """A whole number from 1 to 1e12."""
    value = float(text)
    if not (value.is_integer() and 1 <= value <= LARGEST):
        raise ValueError
    return int(value)


def positive(text: str) -> float:
    """A number above 0, up to 1e12."""
    value = float(text)
    if not (isfinite(value) and 0 < value <= LARGEST):
        raise ValueError
    return value


def yes_or_no(text: str) -> bool:
    """Either true or false."""
    return {"true": True, "false": False}[text.lower()]


def one_of(*names: str) -> Callable[[str], str]:
    """One of some names."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    read.__doc__ = " or ".join(names)
    return read


def name(text: str) -> str:
    """A name."""
    return text


def read_rows(path: Path, columns: Sequence[Column], template: str) -> list[Line]:
    """Rows of a CSV file; empty lines and lines that begin with # are left out.

    Raises
    ------
    CatalogError
        If it is no such table: file and line, what is wrong, what is allowed.
    """
    content = read_bounded(path, MAX_BYTES, "measurements of one cluster take less")
    lines = text_of(path, content).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    reader = csv.reader(lines, strict=True, skipinitialspace=True)
    header: list[str] = []
    found: list[Line] = []
    try:
        for cells in reader:
            texts = [one.strip() for one in cells]
            if not any(texts) or texts[0].startswith("#"):
                continue
            place = f"{path}:{reader.line_num}"
            if not header:
                header = _header(place, texts, columns, template)
                continue
            if len(found) == MAX_ROWS:
                raise CatalogError(f"{place}: more than {MAX_ROWS:,} rows: take medians")
            found.append(Line(place, _values(place, header, texts, columns)))
    except csv.Error as error:
        raise CatalogError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not found:
        raise CatalogError(
            f"{path}: holds no measurements: netplan calibrate --template {template}"
        )
    return found


def _header(
    place: str, texts: Sequence[str], columns: Sequence[Column], template: str
) -> list[str]:
    known = [one.name for one in columns]
    for text in texts:
        if text not in known:
            raise CatalogError(f"{place}: {unknown_name('column', text, known)}")
    missing = [one.name for one in columns if one.needed and one.name not in texts]
    if missing or len(set(texts)) < len(texts):
        wrong = f"no column {', '.join(missing)}" if missing else "a column stands twice"
        raise CatalogError(f"{place}: {wrong}: see netplan calibrate --template {template}")
    return list(texts)


def _values(
    place: str, header: Sequence[str], texts: Sequence[str], columns: Sequence[Column]
) -> dict[str, Any]:
    if len(texts) != len(header):
        raise CatalogError(f"{place}: expected {len(header)} fields, got {len(texts)}")
    given = dict(zip(header, texts, strict=True))
    return {one.name: _value(place, one, given.get(one.name, "")) for one in columns}


def _value(place: str, column: Column, text: str) -> Any:  # noqa: ANN401 - of any kind
    if not text and not column.needed:
        return column.default
    try:
        return column.read(text)
    except (ValueError, KeyError, OverflowError):
        what = (column.read.__doc__ or "").rstrip(".")
        what = f"{what[:1].lower()}{what[1:]}"
        raise CatalogError(f"{place}: {column.name}: got {text[:40]!r}, give {what}") from None


def table_text(columns: Iterable[Column], rows: Sequence[str]) -> str:
    """A template: the header, and rows as examples."""
    return "\n".join([",".join(one.name for one in columns), *rows]) + "\n"
