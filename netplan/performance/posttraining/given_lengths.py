"""Lengths of answers as users give them: a law with its mean and P99, one length, or a file.

A file has the columns ``length`` or ``length,count``, a line each.
"""

from pathlib import Path

from netplan.errors import InputError, piece
from netplan.files import csv_rows, read_bounded, text_of
from netplan.inputs.readers import decimal
from netplan.performance.posttraining.lengths import LONGEST_CAP, Lengths

MAX_LENGTHS_BYTES = 1 << 26
"""Size of a file of lengths [B]."""
MAX_ROWS = 1_000_000
"""Rows of one [1]."""
FORMS = "MEAN:P99[:MAX], pareto:MEAN:P99[:MAX], one length, or a CSV file of length or length,count"


def lengths_of(text: str) -> Lengths:
    """Lengths of answers as a text or a file has them.

    Parameters
    ----------
    text
        A lognormal law as ``MEAN:P99`` or ``MEAN:P99:MAX``, one of Pareto behind ``pareto:``, one
        number of tokens, or the path of a CSV file. Without a longest one answers stop at four
        times P99.

    Returns
    -------
    Lengths
        The lengths.

    Raises
    ------
    InputError
        If it is none of these, no law has such numbers, or a file is none: what and where.

    Examples
    --------
    >>> lengths_of("2000:8000:16384").p99, lengths_of("500").mean, lengths_of("100:400").cap
    (8000, 500.0, 1600)
    """
    law, _, rest = text.partition(":")
    if law == "pareto":
        mean, p99, cap = _numbers(text, rest)
        return Lengths.pareto(mean, p99, cap)
    if not rest:
        if "/" in text or text.lower().endswith(".csv") or Path(text).is_file():
            return read_lengths(Path(text))
        return Lengths.fixed(_number(text, text))
    return Lengths.lognormal(*_numbers(text, text))


def _numbers(text: str, parts: str) -> tuple[float, float, int]:
    """Mean, P99 and the longest of a law [tokens]."""
    values = [_number(text, part) for part in parts.split(":")]
    if len(values) not in (2, 3):
        raise InputError(f"--answer-tokens {text!r:.60}: give {FORMS}")
    mean, p99 = values[:2]
    cap = values[2] if len(values) == 3 else max(mean, min(4 * p99, LONGEST_CAP))  # noqa: PLR2004
    if cap != int(cap):
        raise InputError(f"--answer-tokens {text!r:.60}: the longest is a whole number of tokens")
    return mean, p99, int(cap)


def _number(text: str, part: str) -> float:
    """One number of a law."""
    try:
        value = decimal(part)
    except InputError:
        value = -1.0
    if not 0 < value <= LONGEST_CAP:
        raise InputError(
            f"--answer-tokens {text!r:.60}: {piece(part)} is no number of tokens from 1 to"
            f" {LONGEST_CAP:,}: give {FORMS}"
        )
    return value


def read_lengths(path: Path) -> Lengths:
    """Lengths from a file, each once or as often as it is counted.

    Parameters
    ----------
    path
        A CSV file of at most 64 MiB and a million rows: columns ``length``, or ``length,count``.

    Raises
    ------
    InputError
        If it is no such table: file, line, what is allowed.
    """
    text = text_of(path, read_bounded(path, MAX_LENGTHS_BYTES, "give a sample of the lengths"))
    reader = csv_rows(path, text.replace("\r\n", "\n").split("\n"), InputError)
    lengths: list[int] = []
    counts: list[float] = []
    header = [cell.strip() for cell in next(reader, (1, []))[1]]
    if header not in (["length"], ["length", "count"]):
        raise InputError(
            f"{path}:1: columns {piece(','.join(header))}: lengths of answers have the columns"
            " length, or length,count"
        )
    for line, cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        place = f"{path}:{line}"
        if len(lengths) == MAX_ROWS:
            raise InputError(f"{place}: more than {MAX_ROWS:,} rows: give counts of lengths")
        if len(cells) != len(header):
            raise InputError(f"{place}: {len(cells)} cells: give {','.join(header)}")
        lengths.append(_read_integer(place, "length", cells[0].strip(), 1))
        counts.append(_read_integer(place, "count", cells[1].strip(), 0) if len(cells) > 1 else 1)
    if not lengths or not any(counts):
        raise InputError(f"{path}: no length in it: give a line for each")
    return Lengths.measured(lengths, counts)


def _read_integer(place: str, name: str, text: str, least: int) -> int:
    """A whole number of a row."""
    short = len(text) <= len(str(LONGEST_CAP))
    value = int(text) if short and text.isascii() and text.isdecimal() else -1
    if not least <= value <= LONGEST_CAP:
        raise InputError(
            f"{place}: {name} is {piece(text)}: give a whole number from {least} to {LONGEST_CAP:,}"
        )
    return value
