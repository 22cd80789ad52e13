"""Files of faults, one a line, which nobody has vouched for: bounded, plain text, lines in errors.

A text file has one fault a line, as on the command line; empty lines and all after ``#`` are left
out. A CSV file has the header ``kind,what``: ``leaf,2`` is ``leaf=2``, and ``,gpu-5`` is ``gpu-5``.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from netplan.errors import CatalogError
from netplan.topologies.formats.reading import read_lines

CSV_HEADER = ("kind", "what")
MAX_LINES = 100_000
MAX_CHARACTERS = 400
"""Of one fault: two device names of a label, and a little."""


@dataclass(frozen=True, slots=True)
class FaultText:
    """A fault as written, and where: ``file:3: `` or nothing."""

    text: str
    where: str = ""


def read_fault_file(path: Path) -> tuple[FaultText, ...]:
    r"""Read a file of faults; by its ending, CSV or plain text.

    Raises
    ------
    CatalogError
        If the file cannot be read, is too large or is not UTF-8, or a line cannot be a fault: file
        and line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "faults.txt"
    >>> _ = path.write_text("links=10  # at random\n\nrail-0/leaf-3\n")
    >>> [fault.text for fault in read_fault_file(path)]
    ['links=10', 'rail-0/leaf-3']
    """
    lines = read_lines(path)
    if len(lines) > MAX_LINES:
        raise CatalogError(f"{path}:{MAX_LINES + 1}: more than {MAX_LINES:,} lines: split the file")
    if path.suffix.lower() == ".csv":
        found = list(_csv_faults(path, lines))
    else:
        texts = ((number, line.partition("#")[0].strip()) for number, line in enumerate(lines, 1))
        found = [(number, text) for number, text in texts if text]
    for number, text in found:
        _check(path, number, text)
    if not found:
        raise CatalogError(f"{path}:1: the file names no faults")
    return tuple(FaultText(text, f"{path}:{number}: ") for number, text in found)


def _csv_faults(path: Path, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines and faults of a CSV file."""
    reader = csv.reader(lines, strict=True)
    try:
        header = tuple(cell.strip() for cell in next(reader, []))
        if header != CSV_HEADER:
            raise CatalogError(
                f"{path}:1: the header is {','.join(CSV_HEADER)}, got {','.join(header)[:60]!r}"
            )
        for cells in reader:
            if not any(cells):
                continue
            if len(cells) != len(CSV_HEADER):
                raise CatalogError(
                    f"{path}:{reader.line_num}: expected {len(CSV_HEADER)} fields, got {len(cells)}"
                )
            kind, what = (cell.strip() for cell in cells)
            yield reader.line_num, f"{kind}={what}" if kind else what
    except csv.Error as error:
        raise CatalogError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _check(path: Path, number: int, text: str) -> None:
    if len(text) > MAX_CHARACTERS or not text.isprintable():
        raise CatalogError(
            f"{path}:{number}: {text[:40]!r} cannot be a fault: printable text of at most"
            f" {MAX_CHARACTERS} characters, such as gpu-5 or links=10"
        )
    if text.startswith("@"):
        raise CatalogError(
            f"{path}:{number}: a file of faults names no other file: got {text!r:.60}"
        )
