"""Array types of the package: a type says the kind of its numbers, a docstring their shape.

Records of arrays are :class:`Columns`. Words, which are hashes, are stirred in one way.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray
else:  # the same without what documents it
    NDArray = np.ndarray

# glibc hands large blocks back to the system when they are freed, and takes them anew page by page.
# Its threshold grows to the largest block that was freed so far: one that nobody touched is free.
np.empty(1 << 24, np.uint8)

Ints = NDArray[np.int64]
"""Whole numbers: degrees, counts, codes."""

Indices = NDArray[np.int32]
"""Numbers of nodes, ports, links and GPUs: half the memory, and no fabric has 2^31 of them."""

AnyInts = NDArray[np.int32] | NDArray[np.int64]
"""Whole numbers that may be of either width."""

Codes = NDArray[np.int8]
"""Small enumerations, such as kinds of nodes."""

Floats = NDArray[np.float64]
"""Times, bytes, rates."""

Numbers = NDArray[np.int64] | NDArray[np.float64]
"""Whole numbers, of which some cases have fractions."""

Words = NDArray[np.uint64]
"""Bits: hashes, sets of up to 64."""

Bools = NDArray[np.bool_]
"""Masks."""

NO_NUMBERS: Ints = np.empty(0, np.int64)
"""None, such as GPUs or links of which there are no."""

NumberT = TypeVar("NumberT", bound=np.number)
"""Numbers of an array, and of a result of the same kind."""

Amount = Floats | float
"""One number for each entry of an array, or one for all of them."""

Counts = Ints | int
"""One whole number for each entry of an array, or one for all of them."""


def ceil_div(numerator: int, denominator: int) -> int:
    """Integer ceiling of a quotient.

    Parameters
    ----------
    numerator
        Number to divide, of any sign [1].
    denominator
        Number to divide by, not 0 [1].

    Returns
    -------
    int
        Smallest whole number that is no less than the quotient [1].

    Examples
    --------
    >>> ceil_div(7, 2)
    4
    """
    return -(-numerator // denominator)


def real(values: Numbers) -> Floats:
    """The same numbers as floats."""
    return values.astype(np.float64)


class Columns(Struct, frozen=True, eq=False):
    """Arrays with an entry each for the same things, on their last axis.

    What is no array counts for all entries; fields may be columns, dictionaries or tuples of them.

    Examples
    --------
    >>> class Prices(Columns, frozen=True, eq=False):
    ...     usd: Amount
    ...     tax: Amount
    >>> some = Prices(np.array([3.0, 4.0, 5.0]), 0.2).take(np.array([0, 2]))
    >>> some.usd, some.tax, Prices.joined([some, some]).usd
    (array([3., 5.]), 0.2, array([3., 5., 3., 5.]))
    """

    def take(self, index: Ints | Bools | slice) -> Self:
        """Some of the entries."""
        names = self.__struct_fields__
        return type(self)(*(_taken(getattr(self, name), index) for name in names))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All entries of several records in a row; what is no array is that of the first."""
        names = cls.__struct_fields__
        return cls(*(_joined([getattr(part, name) for part in parts]) for name in names))

    @classmethod
    def stacked(cls, rows: Sequence[Self]) -> Self:
        """Records of single numbers as one of arrays, an entry each."""
        names = cls.__struct_fields__
        return cls(
            *(np.array([float(np.ravel(getattr(row, n))[0]) for row in rows]) for n in names)
        )


def _taken(value: Any, index: Ints | Bools | slice) -> Any:  # noqa: ANN401 - of any field
    if isinstance(value, np.ndarray):
        return value[index] if value.ndim == 1 else value[..., index]
    if isinstance(value, dict):
        return {key: _taken(part, index) for key, part in value.items()}
    if type(value) is tuple:
        return tuple(_taken(part, index) for part in value)
    return value.take(index) if isinstance(value, Columns) else value


def _joined(values: Sequence[Any]) -> Any:  # noqa: ANN401 - of any field
    first = values[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(values, axis=-1)
    if isinstance(first, dict):
        return {key: _joined([part[key] for part in values]) for key in first}
    return type(first).joined(values) if isinstance(first, Columns) else first


class SummedColumns(Columns, frozen=True, eq=False):
    """Columns that add up, field by field, and are so many times as much.

    Examples
    --------
    >>> class Loads(SummedColumns, frozen=True, eq=False):
    ...     up: Amount
    >>> (Loads(1.0) + Loads(2.0) * 3.0).up
    7.0
    """

    def __add__(self, other: Self) -> Self:
        """Both together."""
        names = self.__struct_fields__
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))

    def __mul__(self, factor: Amount) -> Self:
        """So many of them."""
        return type(self)(*(factor * getattr(self, name) for name in self.__struct_fields__))


def distinct_values(values: NDArray[NumberT]) -> NDArray[NumberT]:
    """Distinct values of an array in rising order, shape (distinct,).

    They are sorted: ``np.unique`` fills a hash table since NumPy 2.3, which takes 3 times as long
    for a hundred values and 80 times as long for 8 million.

    Examples
    --------
    >>> distinct_values(np.array([7, 3, 7, 5]))
    array([3, 5, 7])
    """
    ordered = np.sort(values, axis=None)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def within_runs(counts: Ints) -> Ints:
    """Place of each entry in its run, of runs of so many that follow each other: from 0 on.

    Examples
    --------
    >>> within_runs(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def places(values: NDArray[Any]) -> Ints:
    """Place of each item among all of the same value, in their order: from 0 on, shape (items,).

    Examples
    --------
    >>> places(np.array([7, 3, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    place = np.empty(len(values), np.int64)
    place[order] = within_runs(np.diff(begins, append=len(values)))
    return place


def hash64(words: Words) -> Words:
    """Words with all bits stirred, as SplitMix64 does (Steele, Lea and Flood, OOPSLA 2014).

    Examples
    --------
    The first word of its stream with seed 0.

    >>> hex(int(hash64(np.zeros(1, np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    stirred = words + np.uint64(0x9E3779B97F4A7C15)
    stirred = (stirred ^ (stirred >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    stirred = (stirred ^ (stirred >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return stirred ^ (stirred >> np.uint64(31))
