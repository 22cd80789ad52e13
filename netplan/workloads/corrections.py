"""Corrections of measured matrix products: small tables over the logarithms of their sizes.

A closed form of three numbers meets large 16-bit products, but not 8-bit and 4-bit ones, whose
times have the quantisation of their inputs in them. So a table beside an accelerator file has rows
``dtype,m,n,k,per_mille``: 1,000 times the natural logarithm of measured over computed time. It is
interpolated linearly in the logarithms of the sizes; outside of them the nearest counts, and what a
table leaves out is 0.
"""

import csv
import itertools
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

from netplan.arrays import Amount, Floats, Ints
from netplan.errors import CatalogError
from netplan.files import read_bounded, text_of
from netplan.workloads.precision import Precision

COLUMNS = ["dtype", "m", "n", "k", "per_mille"]
LARGEST_FILE = 1 << 22
"""Size of a file, a hundred times that of the largest shipped one [B]."""
LARGEST_TABLE = 1 << 20
"""Entries of a table, those that it leaves out included [1]."""
LARGEST_SIZE = 1e12
LARGEST_PER_MILLE = 10_000.0
"""A form that is wrong by more than e^10 is not corrected, but replaced."""

Row = tuple[str, float, float, float, float]
"""Precision, m, n, k, and the logarithm of measured over computed time."""


class Corrections(NamedTuple):
    """Table of one precision.

    Parameters
    ----------
    axes
        Logarithms of its sizes m, n and k, ascending, at least two of each.
    values
        Logarithms of measured over computed time, shape (sizes m, n, k).
    """

    axes: tuple[Floats, Floats, Floats]
    values: Floats

    def factor(self, m: Amount, n: Amount, k: Amount) -> Amount:
        """What computed times are multiplied by, of the common shape of the sizes [1].

        Examples
        --------
        >>> axes = (np.log([1.0, 100.0]), np.log([1.0, 2.0]), np.log([1.0, 2.0]))
        >>> table = Corrections(axes, np.log([[[1.0, 1.0], [1.0, 1.0]], [[4.0, 4.0], [4.0, 4.0]]]))
        >>> [float(table.factor(m, 7.0, 9.0)) for m in (0.5, 10.0, 1e6)]
        [1.0, 2.0, 4.0]
        """
        places = [_place(axis, size) for axis, size in zip(self.axes, (m, n, k), strict=True)]
        (i, _), (j, _), (o, _) = places
        _, wide, deep = self.values.shape
        flat, first = self.values.ravel(), (i * wide + j) * deep + o
        steps = itertools.product((0, wide * deep), (0, deep), (0, 1))
        corners = [flat[first + sum(step)] for step in steps]
        for _, share in places:
            half = len(corners) // 2
            pairs = zip(corners[:half], corners[half:], strict=True)
            corners = [low + share * (high - low) for low, high in pairs]
        factor: Amount = np.exp(corners[0])
        return factor


def _place(axis: Floats, size: Amount) -> tuple[Ints, Floats]:
    """Entry of an axis before each size, and the share of the way to the next one."""
    at = np.interp(np.log(size), axis, np.arange(len(axis), dtype=np.float64))
    before: Ints = np.minimum(at.astype(np.int64), len(axis) - 2)
    return before, at - before


def corrections_of(path: Path) -> Mapping[str, Corrections]:
    """Tables of a file by precision; a file that has not changed since is not read again.

    Raises
    ------
    CatalogError
        If the file is missing, too large, or has a row that is none: with file and line.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return _tables(path, (0, 0))  # reading it says what is wrong
    return _tables(path, (found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=64)
def _tables(path: Path, version: tuple[int, int]) -> Mapping[str, Corrections]:  # noqa: ARG001
    """Tables of a file in one version; all of it is read before any of it is used."""
    rows: dict[str, list[Row]] = {}
    for row in _rows(path):
        rows.setdefault(row[0], []).append(row)
    return {dtype: _table(path, dtype, some) for dtype, some in rows.items()}


def _rows(path: Path) -> Iterator[Row]:
    """Rows of a file, checked one by one."""
    text = text_of(path, read_bounded(path, LARGEST_FILE, "thin the table out"))
    lines = csv.reader(text.splitlines())
    header = next(lines, [])
    if header != COLUMNS:
        raise CatalogError(
            f"{path}:1: got columns {','.join(header)!r:.60}: corrections have {','.join(COLUMNS)}"
        )
    while True:
        try:
            cells = next(lines)
            dtype, *numbers = cells
            m, n, k, per_mille = map(float, numbers)
        except StopIteration:
            return
        except (ValueError, csv.Error):
            raise CatalogError(
                f"{path}:{lines.line_num}: a row has a precision and four numbers"
            ) from None
        if dtype not in get_args(Precision):
            known = ", ".join(get_args(Precision))
            raise CatalogError(f"{path}:{lines.line_num}: unknown dtype {dtype!r:.40}: use {known}")
        if not (
            all(1 <= size <= LARGEST_SIZE for size in (m, n, k))
            and abs(per_mille) <= LARGEST_PER_MILLE
        ):
            raise CatalogError(
                f"{path}:{lines.line_num}: m, n and k are 1 to {LARGEST_SIZE:g}, per_mille at most"
                f" {LARGEST_PER_MILLE:g} in size"
            )
        yield dtype, m, n, k, per_mille / 1000


def _table(path: Path, dtype: str, rows: list[Row]) -> Corrections:
    """The table of one precision, 0 where it has no row."""
    columns = np.array([row[1:] for row in rows])
    sizes = [np.unique(columns[:, at], return_inverse=True) for at in range(3)]
    shape = [len(values) for values, _ in sizes]
    if min(shape) < 2 or math.prod(shape) > LARGEST_TABLE:  # noqa: PLR2004 - ends of an axis
        raise CatalogError(
            f"{path}: {dtype} has {' x '.join(map(str, shape))} sizes m, n, k: a table has at"
            f" least two of each and at most {LARGEST_TABLE:,} entries"
        )
    places = tuple(at for _, at in sizes)
    if len(set(zip(*(at.tolist() for at in places), strict=True))) < len(rows):
        raise CatalogError(f"{path}: {dtype} has two rows of the same m, n and k: keep one")
    values = np.zeros(shape)
    values[places] = columns[:, 3]
    m, n, k = (np.log(axis) for axis, _ in sizes)
    return Corrections((m, n, k), values)
