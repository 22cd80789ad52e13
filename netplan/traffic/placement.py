"""How parallel degrees lie on the levels of a fabric: every way, as arrays.

Each level of size n is split exactly among the parallel dimensions: at every level the degrees
multiply to n. Summed up over the levels (as products) they are the degrees of the whole cluster.
Inside a level the dimensions are ordered from the innermost to the outermost: tensor, expert,
context, data, pipeline. Experts are spread over GPUs that hold different data, so the data parallel
group of all other weights is expert x data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, isqrt

import numpy as np

from netplan.arrays import Bools, Ints

TENSOR, EXPERT, CONTEXT, DATA, PIPELINE = range(5)
DIMENSIONS = ("tensor", "expert", "context", "data", "pipeline")


@lru_cache(maxsize=4096)
def divisors(number: int) -> Ints:
    """All divisors, in rising order.

    Examples
    --------
    >>> divisors(12)
    array([ 1,  2,  3,  4,  6, 12])
    """
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return np.array(sorted({*small, *(number // d for d in small)}), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Placements:
    """Placements of parallel degrees on levels, as arrays.

    Parameters
    ----------
    degrees
        Degree of each dimension at each level, shape (levels, dimensions, placements) [1].
    """

    degrees: Ints

    @property
    def count(self) -> int:
        """Placements [1]."""
        return int(self.degrees.shape[2])

    @property
    def totals(self) -> Ints:
        """Degree of each dimension over all levels, shape (dimensions, placements) [1]."""
        totals: Ints = self.degrees.prod(axis=0)
        return totals

    def take(self, index: Ints | Bools | slice) -> "Placements":
        """Some of the placements."""
        return Placements(self.degrees[:, :, index])


def all_placements(
    sizes: Sequence[int], limits: Sequence[int], caps: Sequence[int] | None = None
) -> Placements:
    """Every placement whose total degree in each dimension divides that dimension's limit.

    Parameters
    ----------
    sizes
        Size of each level, innermost first [1].
    limits
        What the total degree of each dimension must divide [1].
    caps
        Largest total degree of each dimension; none if absent [1].

    Examples
    --------
    Two levels of 2, with tensor parallelism of at most 2 and no pipeline:

    >>> all_placements((2, 2), limits=(2, 1, 1, 4, 1)).degrees[:, [0, 3], :2].reshape(4, -1)
    array([[1, 1],
           [2, 2],
           [1, 2],
           [2, 1]])
    """
    bound = np.array(limits, dtype=np.int64)
    most = bound if caps is None else np.minimum(bound, caps)
    totals = np.ones((1, len(limits)), dtype=np.int64)
    chosen = np.empty((1, 0, len(limits)), dtype=np.int64)
    for size in sizes:
        split = _splits(size, tuple(limits))
        split = split[(split <= most).all(axis=1)]
        fits = np.ones((len(totals), len(split)), dtype=np.bool_)
        for limit, cap, so_far, more in zip(limits, most, totals.T, split.T, strict=True):
            product = np.multiply.outer(so_far, more)
            fits &= (product <= cap) & (limit % product == 0)
        before, after = np.nonzero(fits)
        totals = totals[before] * split[after]
        chosen = np.concatenate([chosen[before], split[after][:, None, :]], axis=1)
    return Placements(np.ascontiguousarray(chosen.transpose(1, 2, 0)))


@lru_cache(maxsize=256)
def _splits(size: int, limits: tuple[int, ...]) -> Ints:
    """Ways to write ``size`` as a product of one divisor of each limit, shape (ways, limits)."""
    if len(limits) == 1:
        fits = limits[0] % size == 0
        return np.array([[size]] if fits else np.empty((0, 1)), dtype=np.int64).reshape(-1, 1)
    parts = []
    for first in divisors(gcd(size, limits[0])):
        rest = _splits(size // int(first), limits[1:])
        parts.append(np.column_stack([np.full(len(rest), first, dtype=np.int64), rest]))
    return np.concatenate(parts)


def distinct(columns: Ints) -> tuple[Ints, Ints]:
    """Distinct columns of a table of small positive numbers.

    Parameters
    ----------
    columns
        Shape (rows, n).

    Returns
    -------
    first, inverse
        Where each distinct column stands first, and which distinct column each one is.

    Examples
    --------
    >>> distinct(np.array([[1, 2, 1], [4, 4, 4]]))
    (array([0, 1]), array([0, 1, 0]))
    """
    code, size = np.zeros(columns.shape[1], dtype=np.int64), 1
    if not len(code):
        return code, code
    for row in columns:
        rank, ranks = _dense(row, int(row.max()) + 1)
        if size * ranks > TABLE_SIZE:
            code, size = _dense(code, size)
        code, size = code * ranks + rank, size * ranks
    inverse, count = _dense(code, size)
    first = np.empty(count, dtype=np.int64)
    # Written from the back, so that the first of equal columns is the one that stays.
    first[inverse[::-1]] = np.arange(len(inverse) - 1, -1, -1)
    return first, inverse


TABLE_SIZE = 1 << 22
"""Codes up to this are numbered through a table, which takes no sorting."""


def _dense(code: Ints, size: int) -> tuple[Ints, int]:
    """Number the different codes, which lie below ``size``, without gaps."""
    if size > TABLE_SIZE:
        values, inverse = np.unique(code, return_inverse=True)
        return inverse, len(values)
    seen = np.zeros(size, dtype=np.int64)
    seen[code] = 1
    number = np.cumsum(seen)
    return number[code] - 1, int(number[-1])
