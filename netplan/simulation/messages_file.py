"""Messages from a CSV file: who sends what to whom, when, and what each waits for."""

import csv
from pathlib import Path

from netplan.errors import InputError
from netplan.files import read_lines
from netplan.simulation.fluid import Row, read_rows


def message_rows(path: Path, gpus: int) -> list[Row]:
    """Messages of a file.

    Raises
    ------
    InputError
        If it is no such table: file and line.
    """
    reader = csv.reader(read_lines(path), strict=True)
    rows, places = [], []
    try:
        header = [cell.strip() for cell in next(reader, [])]
        needed = ("source", "bytes", "target" if "target" in header else "destination")
        missing = [name for name in needed if name not in header]
        if missing:
            raise InputError(f"{path}:1: a file of messages has a column {missing[0]!r}: give it")
        for cells in reader:
            if any(cells):
                rows.append(dict(zip(header, (cell.strip() for cell in cells), strict=False)))
                places.append(f"{path}:{reader.line_num}")
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not rows:
        raise InputError(f"{path}: no message in it: give a line for each")
    return read_rows(rows, gpus, places=places)
