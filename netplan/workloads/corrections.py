"""Corrections of measured kernels: small tables over the logarithms of their sizes.

A closed form of three numbers meets large 16-bit products, but not 8-bit and 4-bit ones, whose
times have the quantisation of their inputs in them, nor fused experts and attention of single
tokens, whose kernels change with their sizes. So a table beside an accelerator file has rows
``dtype,m,n,k,per_mille``, or other sizes of its kernel in place of m, n and k: 1,000 times the
natural logarithm of measured over computed time. It is interpolated linearly in the logarithms of
the sizes; outside of them the nearest counts, and what a table leaves out is 0.
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
from netplan.errors import CatalogError, InputError
from netplan.files import NO_VERSION, Version, reachable, read_bounded, text_of, version_of
from netplan.inputs.choices import Precision

Sizes = tuple[str, ...]
"""Names of the sizes of a kernel that a table is over."""
PRODUCT_SIZES: Sizes = ("m", "n", "k")
LARGEST_FILE = 1 << 22
"""Size of a file, a hundred times that of the largest shipped one [B]."""
LARGEST_TABLE = 1 << 20
"""Entries of a table, those that it leaves out included [1]."""
LARGEST_SIZE = 1e12
LARGEST_PER_MILLE = 10_000.0
"""A form that is wrong by more than e^10 is not corrected, but replaced."""

Row = tuple[str, list[float]]
"""Precision; sizes, and the logarithm of measured over computed time."""


class Corrections(NamedTuple):
    """Table of one precision.

    Parameters
    ----------
    axes
        Logarithms of its sizes, as m, n and k, ascending, at least two of each.
    values
        Logarithms of measured over computed time, shape (sizes m, n, k).
    """

    axes: tuple[Floats, ...]
    values: Floats

    def factor(self, *sizes: Amount) -> Amount:
        """What computed times are multiplied by, of the common shape of the sizes [1].

        Examples
        --------
        >>> axes = (np.log([1.0, 100.0]), np.log([1.0, 2.0]), np.log([1.0, 2.0]))
        >>> table = Corrections(axes, np.log([[[1.0, 1.0], [1.0, 1.0]], [[4.0, 4.0], [4.0, 4.0]]]))
        >>> [float(table.factor(m, 7.0, 9.0)) for m in (0.5, 10.0, 1e6)]
        [1.0, 2.0, 4.0]
        """
        pairs = zip(self.axes, sizes, strict=True)
        places = [entry_before(axis, np.log(size)) for axis, size in pairs]
        shape = self.values.shape
        strides = [math.prod(shape[index:]) for index in range(1, len(shape) + 1)]
        first = sum(place * stride for (place, _), stride in zip(places, strides, strict=True))
        steps = itertools.product(*((0, stride) for stride in strides))
        flat = self.values.ravel()
        corners = [flat[first + sum(step)] for step in steps]
        for _, share in places:
            half = len(corners) // 2
            ends = zip(corners[:half], corners[half:], strict=True)
            corners = [low + share * (high - low) for low, high in ends]
        return np.exp(corners[0])


def entry_before(axis: Floats, logarithm: Amount) -> tuple[Ints, Floats]:
    """Entry of an axis before each logarithm, and the share of the way to the next one."""
    position = np.interp(logarithm, axis, np.arange(len(axis), dtype=np.float64))
    before: Ints = np.minimum(position.astype(np.int64), len(axis) - 2)
    return before, position - before


def corrections_of(path: Path, sizes: Sizes = PRODUCT_SIZES) -> Mapping[str, Corrections]:
    """Tables of a file by precision; a file that has not changed since is not read again.

    ``sizes`` names those that its tables are over.

    Raises
    ------
    CatalogError
        If the file is missing, too large, or has a row that is none: with file and line.
    """
    return _tables(path, sizes, version_of(reachable(path)) or NO_VERSION)


def table_in(
    path: str, dtype: str, sizes: Sizes, *, whose: str, asked: bool | None
) -> Corrections | None:
    """Table of a file for one precision; none if there is none, or if it is not to be used.

    Parameters
    ----------
    path
        The file, or nothing.
    dtype, sizes
        Precision, and sizes that the table is over.
    whose
        What the table belongs to, for the message.
    asked
        Whether the table must be there; None takes it where it is.

    Raises
    ------
    InputError
        If the table must be there and is not.
    """
    if asked is False:
        return None
    table = corrections_of(Path(path), sizes).get(dtype) if path else None
    if table is None and asked:
        raise InputError(f"{whose} has no table of corrections for {dtype} kernels of these sizes")
    return table


@lru_cache(maxsize=64)
def _tables(
    path: Path,
    sizes: Sizes,
    version: Version,  # noqa: ARG001 - of the file
) -> Mapping[str, Corrections]:
    """Tables of a file in one version; all of it is read before any of it is used."""
    rows: dict[str, list[list[float]]] = {}
    for dtype, numbers in _rows(path, sizes):
        rows.setdefault(dtype, []).append(numbers)
    return {dtype: _table(path, dtype, sizes, some) for dtype, some in rows.items()}


def _rows(path: Path, sizes: Sizes) -> Iterator[Row]:
    """Rows of a file, checked one by one."""
    text = text_of(path, read_bounded(path, LARGEST_FILE, "thin the table out"))
    lines = csv.reader(text.splitlines())
    header = next(lines, [])
    columns = ["dtype", *sizes, "per_mille"]
    if header != columns:
        raise CatalogError(
            f"{path}:1: got columns {','.join(header)!r:.60}: corrections have {','.join(columns)}"
        )
    while True:
        try:
            dtype, *numbers = next(lines)
            *row_sizes, per_mille = map(float, numbers)
        except StopIteration:
            return
        except (ValueError, csv.Error):
            row_sizes, per_mille, dtype = [], 0.0, ""
        if len(row_sizes) != len(sizes):
            raise CatalogError(
                f"{path}:{lines.line_num}: a row has a precision and {len(sizes) + 1} numbers"
            )
        if dtype not in get_args(Precision):
            known = ", ".join(get_args(Precision))
            raise CatalogError(f"{path}:{lines.line_num}: unknown dtype {dtype!r:.40}: use {known}")
        if not (
            all(1 <= size <= LARGEST_SIZE for size in row_sizes)
            and abs(per_mille) <= LARGEST_PER_MILLE
        ):
            raise CatalogError(
                f"{path}:{lines.line_num}: sizes {', '.join(sizes)} are 1 to {LARGEST_SIZE:g},"
                f" per_mille at most {LARGEST_PER_MILLE:g} in size"
            )
        yield dtype, [*row_sizes, per_mille / 1000]


def _table(path: Path, dtype: str, names: Sizes, rows: list[list[float]]) -> Corrections:
    """The table of one precision, 0 where it has no row."""
    columns = np.array(rows)
    sizes = [np.unique(columns[:, index], return_inverse=True) for index in range(len(names))]
    shape = [len(values) for values, _ in sizes]
    if min(shape) < 2 or math.prod(shape) > LARGEST_TABLE:  # noqa: PLR2004 - ends of an axis
        raise CatalogError(
            f"{path}: {dtype} has {' x '.join(map(str, shape))} sizes {', '.join(names)}: a table"
            f" has at least two of each and at most {LARGEST_TABLE:,} entries"
        )
    places = tuple(place for _, place in sizes)
    if len(set(zip(*(number.tolist() for number in places), strict=True))) < len(rows):
        raise CatalogError(f"{path}: {dtype} has two rows of the same sizes: keep one")
    values = np.zeros(shape)
    values[places] = columns[:, -1]
    return Corrections(tuple(np.log(axis) for axis, _ in sizes), values)
