"""Tables of measurements that users write: CSV with known columns, and its templates.

A template is a header and an example; what a column is stands in `README.md` of `traffic/`.

What nccl-tests prints, read back: all_reduce_perf, all_gather_perf and so on.

A file holds one run or several. Of each row the size and the time out of place count. The number of
GPUs is that of the lines ``# Rank``, hosts are told by their names. Which collective it was says
the run itself (from nccl-tests 2.13 on), a command line in the file, or the file's name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from netplan.catalog import unknown_name
from netplan.errors import CatalogError, InputError
from netplan.files import csv_rows, read_bounded, text_of
from netplan.traffic.gpu_group import bus_factor
from netplan.workloads.operations import CollectiveKind

MAX_BYTES = 16 << 20
MAX_ROWS = 10_000
LARGEST = 1e12


class CsvColumn(NamedTuple):
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


def read_integer(text: str) -> int:
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


def read_rows(path: Path, columns: Sequence[CsvColumn], template: str) -> list[Line]:
    """Rows of a CSV file; empty lines and lines that begin with # are left out.

    Raises
    ------
    CatalogError
        If it is no such table: file and line, what is wrong, what is allowed.
    """
    content = read_bounded(path, MAX_BYTES, "measurements of one cluster take less")
    lines = text_of(path, content).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    reader = csv_rows(path, lines, skip_spaces=True)
    header: list[str] = []
    rows: list[Line] = []
    for line, cells in reader:
        texts = [cell.strip() for cell in cells]
        if not any(texts) or texts[0].startswith("#"):
            continue
        place = f"{path}:{line}"
        if not header:
            header = _header(place, texts, columns, template)
            continue
        if len(rows) == MAX_ROWS:
            raise CatalogError(f"{place}: more than {MAX_ROWS:,} rows: take medians")
        if len(texts) != len(header):
            raise CatalogError(f"{place}: expected {len(header)} fields, got {len(texts)}")
        given = dict(zip(header, texts, strict=True))
        values = {
            column.name: _value(place, column, given.get(column.name, "")) for column in columns
        }
        rows.append(Line(place, values))
    if not rows:
        raise CatalogError(
            f"{path}: holds no measurements: netplan calibrate --template {template}"
        )
    return rows


def _header(
    place: str, texts: Sequence[str], columns: Sequence[CsvColumn], template: str
) -> list[str]:
    known = [column.name for column in columns]
    for text in texts:
        if text not in known:
            raise CatalogError(f"{place}: {unknown_name('column', text, known)}")
    missing = [column.name for column in columns if column.needed and column.name not in texts]
    if missing or len(set(texts)) < len(texts):
        wrong = f"no column {', '.join(missing)}" if missing else "a column stands twice"
        raise CatalogError(f"{place}: {wrong}: see netplan calibrate --template {template}")
    return list(texts)


def _value(place: str, column: CsvColumn, text: str) -> Any:  # noqa: ANN401 - of any kind
    if not text and not column.needed:
        return column.default
    try:
        return column.read(text)
    except (InputError, ValueError, KeyError, OverflowError):
        what = (column.read.__doc__ or "").rstrip(".")
        what = f"{what[:1].lower()}{what[1:]}"
        raise CatalogError(f"{place}: {column.name}: got {text[:40]!r}, give {what}") from None


def table_text(columns: Iterable[CsvColumn], rows: Sequence[str]) -> str:
    """A template: the header, and rows as examples."""
    return "\n".join([",".join(column.name for column in columns), *rows]) + "\n"


LARGEST_BYTES = 10**15
KINDS: dict[str, CollectiveKind] = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
"""By their names in nccl-tests, without signs."""

PREFIX = re.compile(r"^\[\d+,\d+\]<std\w+>:\s?")  # mpirun --tag-output
STARTING = re.compile(r"(?:Collective test starting: |(?:^|[\s/]))([a-z_]+)_perf\b")
RANK = re.compile(r"#\s+Rank\s+\d+\s.*?\bon\s+(\S+)")
THREADS = re.compile(r"#\s*nThreads?:?\s+(\d{1,6})\s+nGpus:?\s+(\d{1,6})\b")
FAILED = re.compile(r"Test (NCCL|CUDA|failure)|Out of bounds values : [1-9]")
LARGEST_RATIO = 0.05
"""By how much bus over algorithm bandwidth may differ from that of the collective [1]."""

LEAST_RATE = 1.0
"""Algorithm bandwidth from which two digits tell that ratio [GB/s]."""


class MeasuredMessage(NamedTuple):
    """One row: a collective of so many bytes, counted as nccl-tests does, and its time."""

    place: str
    kind: CollectiveKind
    dtype: str
    gpus: int
    hosts: int
    message_bytes: float
    seconds: float


class _RunReader:
    """One run while it is read."""

    def __init__(self, kind: CollectiveKind | None) -> None:
        self.kind = kind
        self.hosts: list[str] = []
        self.launched = 0
        self.columns: list[str] = []

    @property
    def gpus(self) -> int:
        """GPUs of the run; 0 if nothing says so [1]."""
        return len(self.hosts) or self.launched


def read_nccl_tests(path: Path) -> list[MeasuredMessage]:
    """All rows of a file of nccl-tests' output.

    Raises
    ------
    CatalogError
        If it is none, a row's results are wrong or were not checked, or the collective cannot be
        told: file and line.
    """
    content = read_bounded(path, MAX_BYTES, "keep the tables alone")
    lines = text_of(path, content).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    messages = list(_messages(path, lines))
    if not messages:
        raise CatalogError(f"{path}: no output of nccl-tests: it holds no row of size and time")
    if len(messages) > MAX_ROWS:
        raise CatalogError(f"{path}: more than {MAX_ROWS:,} rows: leave some out")
    return messages


def _messages(path: Path, lines: Sequence[str]) -> Iterator[MeasuredMessage]:
    # The collective that a name of a file speaks of; none if it speaks of none or several.
    plain = re.sub(r"[^a-z]", "", path.name.lower())
    named_kinds = [kind for word, kind in KINDS.items() if word in plain]
    named = named_kinds[0] if len(named_kinds) == 1 else None
    run, announced = _RunReader(named), named
    for number, raw in enumerate(lines, 1):
        line, place = PREFIX.sub("", raw), f"{path}:{number}"
        if FAILED.search(line):
            raise CatalogError(f"{place}: the test failed: {line.strip()[:60]!r}: run it again")
        if started := STARTING.search(line):
            kind = KINDS.get(started[1].replace("_", ""))
            if kind is None:
                known = ", ".join(sorted(KINDS.values()))
                raise CatalogError(f"{place}: {started[1]} is not fitted: give runs of {known}")
            announced = kind
            run.kind = run.kind if run.columns else announced
        if threads := THREADS.search(line):
            run = _RunReader(announced)
            run.launched = int(threads[1]) * int(threads[2])
        if rank := RANK.search(line):
            run.hosts.append(rank[1])
        words = line.lstrip("# ").split()
        if line.startswith("#") and words[:1] == ["size"] and "time" in words:
            run.columns = words
        elif run.columns and words and words[0].isdigit() and not line.startswith("#"):
            message = _message(place, words, run)
            if message.message_bytes > 0:
                yield message


def _message(place: str, words: Sequence[str], run: _RunReader) -> MeasuredMessage:
    """One row, checked against its own columns."""
    if len(words) != len(run.columns):
        raise CatalogError(f"{place}: expected {len(run.columns)} fields, got {len(words)}")
    first = dict(reversed([*zip(run.columns, words, strict=True)]))
    wrong = first.get("#wrong", first.get("error", "0"))
    if wrong == "N/A":
        raise CatalogError(f"{place}: results were not checked (#wrong is N/A): run with -c 1")
    try:
        size, time_us = int(first["size"]), float(first["time"])
        rates = float(first.get("algbw", "nan")), float(first.get("busbw", "nan"))
        failures = float(wrong)
    except ValueError:
        raise CatalogError(f"{place}: size, time or bandwidth is no number") from None
    if size > LARGEST_BYTES:
        raise CatalogError(
            f"{place}: size {first['size']:.40}: give one up to {LARGEST_BYTES:.0e} B"
        )
    if failures > 0:
        raise CatalogError(f"{place}: {wrong} results are wrong (#wrong): mend the cluster first")
    if not 0 < time_us < float("inf"):
        raise CatalogError(f"{place}: time {first['time']} us: give one above 0")
    if run.kind is None:
        raise CatalogError(
            f"{place}: nothing says which collective this is: name the file by it, such as"
            " all_gather.txt"
        )
    if run.gpus < 2:  # noqa: PLR2004 - alone there is nobody to send to
        raise CatalogError(
            f"{place}: no lines '# Rank': keep the head of the output, of 2 GPUs or more"
        )
    _check_ratio(place, run.kind, run.gpus, rates)
    hosts = max(1, len(set(run.hosts)))
    dtype = first.get("type", "float")
    return MeasuredMessage(place, run.kind, dtype, run.gpus, hosts, float(size), time_us * 1e-6)


def _check_ratio(place: str, kind: CollectiveKind, gpus: int, rates: tuple[float, float]) -> None:
    """Refuse a row whose bandwidths are those of another collective."""
    algorithm, bus = rates
    expected = bus_factor(kind, gpus)
    if algorithm >= LEAST_RATE and abs(bus / algorithm / expected - 1) > LARGEST_RATIO:
        raise CatalogError(
            f"{place}: bus over algorithm bandwidth is {bus / algorithm:.2f}, of {kind} with"
            f" {gpus} GPUs it is {expected:.2f}: is this another collective?"
        )
