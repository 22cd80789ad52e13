"""Traffic matrices as files: CSV for people and spreadsheets, npz for everything else.

CSV has the header ``source,destination,bytes,kind``, one flow a line. It does not say how many GPUs
there are, so that is asked for when it is read. Uniform groups are written out as flows. An npz
file (numpy's archive of arrays) keeps the groups and the number of GPUs.
"""

import csv
import lzma
import zlib
from functools import partial
from itertools import islice
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy

from netplan.arrays import Floats
from netplan.errors import InputError, piece
from netplan.files import reachable
from netplan.records import replace
from netplan.traffic.matrix import KINDS, TrafficMatrix, UniformGroups

CSV_COLUMNS = ("source", "destination", "bytes", "kind")
BYTES, KIND = 2, 3
CSV_LIMIT = 1 << 24
MAX_LINE = 4096
CSV_ROWS = 1 << 16
"""Rows that are read or written at a time."""
FLOW_ARRAYS = {"gpus": 0, "source": 1, "destination": 1, "flow_bytes": 1, "kind": 1}
"""Arrays of an npz file, and their dimensions [1]."""

MAX_ARRAY_BYTES = 1 << 30
DAMAGED = (zlib.error, lzma.LZMAError, TokenError)


def save_csv(matrix: TrafficMatrix, path: Path) -> None:
    """Write a matrix as CSV; amounts are exact.

    Raises
    ------
    InputError
        If its groups make more than 16.8 million flows.
    """
    flows = matrix.listed(CSV_LIMIT)
    names = np.array(KINDS)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV_COLUMNS)
        for start in range(0, len(flows.source), CSV_ROWS):
            part = slice(start, start + CSV_ROWS)
            # Python writes a float with just the digits that give it back.
            columns = (
                flows.source[part].tolist(),
                flows.destination[part].tolist(),
                flows.flow_bytes[part].tolist(),
                names[flows.kind[part]].tolist(),
            )
            writer.writerows(zip(*columns, strict=True))


def load_csv(path: Path, gpus: int) -> TrafficMatrix:
    """Read a matrix from CSV, for a cluster of so many GPUs.

    Raises
    ------
    InputError
        If the file is missing or is no such table, a GPU is out of range, a kind is unknown, or
        bytes are negative. The message is one line and starts with the file.
    """
    parts = []
    try:
        with reachable(path).open(encoding="utf-8", newline="") as file:
            # No line of a matrix is longer; a file without an end must have no line without one.
            reader = csv.reader(iter(partial(file.readline, MAX_LINE), ""))
            header = tuple(next(reader, ()))
            if header != CSV_COLUMNS:
                raise InputError(
                    f"{path}: the header of a traffic matrix is {','.join(CSV_COLUMNS)}, got"
                    f" {piece(','.join(header)) or 'nothing'}"
                )
            while rows := list(islice(reader, CSV_ROWS)):
                parts.append(_columns(rows, f"{path}:{reader.line_num - len(rows) + 1}"))
                if CSV_ROWS * len(parts) > CSV_LIMIT:
                    raise InputError(f"{path}: more than {CSV_LIMIT:,} flows: save it as .npz")
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from None
    none = np.empty((len(CSV_COLUMNS), 0))
    columns = np.concatenate([none, *parts], axis=1)
    return _checked(path, gpus, tuple(columns), ())


def _unreadable(path: Path, reason: object) -> InputError:
    # numpy's own words hold a whole header.
    return InputError(f"{path}: cannot be read as a traffic matrix: {reason!s:.120}")


def _columns(rows: list[list[str]], place: str) -> Floats:
    """Numbers of some rows, shape (columns, rows); ``place`` is the file and line of the first."""
    codes = {name: str(code) for code, name in enumerate(KINDS)}
    try:
        texts = [[*row[:KIND], codes[row[KIND]]] for row in rows if len(row) == len(CSV_COLUMNS)]
        numbers = np.array(texts, dtype=np.float64)
        ends = numbers[:, :BYTES]
        if len(texts) == len(rows) and np.isfinite(ends).all() and (ends == np.floor(ends)).all():
            return numbers.T
    except (KeyError, ValueError):
        pass
    path, _, first = place.rpartition(":")
    for line, row in enumerate(rows, int(first)):
        fault = _fault(row)
        if fault:
            raise InputError(f"{path}:{line}: {fault}")
    raise InputError(f"{place}: rows cannot be read as flows")


def _fault(row: list[str]) -> str | None:
    if len(row) != len(CSV_COLUMNS):
        return f"{len(row)} columns, a flow has {len(CSV_COLUMNS)}: {','.join(CSV_COLUMNS)}"
    for name, text in zip(CSV_COLUMNS[:BYTES], row, strict=False):
        if not text.strip().lstrip("-").isdecimal():
            return f"{name} is {piece(text)!r}: give the whole number of a GPU"
    try:
        float(row[BYTES])
    except ValueError:
        return f"bytes is {piece(row[BYTES])!r}: give a number"
    if row[KIND] not in KINDS:
        return f"unknown kind of traffic {piece(row[KIND])!r}: use one of {', '.join(KINDS)}"
    return None


def save_npz(matrix: TrafficMatrix, path: Path) -> None:
    """Write a matrix as npz, uniform groups and all."""
    arrays = {name: np.asarray(getattr(matrix, name)) for name in FLOW_ARRAYS}
    for number, groups in enumerate(matrix.groups):
        arrays[f"members_{number}"] = groups.members
        arrays[f"pair_{number}"] = np.array([groups.pair_bytes, groups.kind])
    # numpy adds ".npz" to a name without it; an open file keeps the name that was asked for.
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def load_npz(path: Path, gpus: int | None = None) -> TrafficMatrix:
    """Read a matrix from npz, for a cluster of so many GPUs if given.

    Raises
    ------
    InputError
        If the file is missing or is no such archive, or holds a matrix for another number of GPUs
        or one that cannot be. The message is one line and starts with the file.
    """
    if reachable(path).exists() and not path.is_file():
        raise _unreadable(path, "an archive is a file, no pipe and no device")
    try:
        with ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            arrays = {
                name: _array(archive, name, sides, real=name == "flow_bytes")
                for name, sides in FLOW_ARRAYS.items()
            }
            groups = []
            for number in range(sum(name.startswith("members_") for name in names)):
                members = _array(archive, f"members_{number}", 2)
                pair_bytes, kind = _array(archive, f"pair_{number}", 1, real=True)
                groups.append(UniformGroups(members, float(pair_bytes), _code(kind)))
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except (ValueError, ArithmeticError, RuntimeError, EOFError, BadZipFile, *DAMAGED) as error:
        raise _unreadable(path, error) from None
    gpus_there, *columns = arrays.values()
    size = int(gpus_there)
    if gpus is not None and size != gpus:
        raise InputError(
            f"{path}: holds a matrix for {size:,} GPUs, the cluster has {gpus:,}: make one for it"
        )
    return _checked(path, size, tuple(columns), tuple(groups))


def _code(kind: float) -> int:
    if kind not in range(len(KINDS)):
        raise ValueError(f"a kind code is out of range: use 0 to {len(KINDS) - 1}, got {kind:g}")
    return int(kind)


def _array(archive: ZipFile, name: str, sides: int, *, real: bool = False) -> np.ndarray:
    """One array of an archive, of so many dimensions; whole numbers, unless they are ``real``.

    Raises
    ------
    ValueError
        If it is missing, is no such array, or is larger than any matrix.
    """
    try:
        entry = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise ValueError(f"array {name!r} is missing") from None
    if entry.file_size > MAX_ARRAY_BYTES:
        raise ValueError(f"array {name!r} is larger than {MAX_ARRAY_BYTES >> 20} MiB")
    with archive.open(entry) as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_columns, dtype = read(file)
        content = file.read()
    if dtype.kind not in "iuf" or len(shape) != sides or min(shape, default=0) < 0:
        raise ValueError(f"array {name!r} is of {dtype} in {len(shape)} dimensions, not a matrix's")
    array = np.frombuffer(content, dtype).reshape(shape, order="F" if by_columns else "C")
    if (
        not real
        and dtype.kind == "f"
        and not (np.isfinite(array) & (array == np.floor(array))).all()
    ):
        raise ValueError(f"array {name!r} holds a number that is not whole")
    return array


def _checked(
    path: Path, gpus: int, columns: tuple[np.ndarray, ...], groups: tuple[UniformGroups, ...]
) -> TrafficMatrix:
    """Build the matrix; its faults are the file's."""
    source, destination, flow_bytes, kind = columns
    try:
        # Checked before the narrowing to 32 bits, which would wrap numbers that are too large.
        TrafficMatrix(gpus, source, destination, flow_bytes, kind, groups)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return TrafficMatrix(
        gpus,
        source.astype(np.int32),
        destination.astype(np.int32),
        flow_bytes.astype(np.float64),
        kind.astype(np.int8),
        tuple(replace(group, members=group.members.astype(np.int32)) for group in groups),
    )
