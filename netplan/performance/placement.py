"""How parallel degrees lie on the levels of a fabric: every way, as arrays.

Each level of size n is split exactly among the parallel dimensions: at every level the degrees
multiply to n. Summed up over the levels (as products) they are the tensor, pipeline and data
parallel degrees of the whole cluster. Dimensions are ordered from the innermost placement to the
outermost one inside a level: tensor, data, pipeline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, isqrt

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

TENSOR, DATA, PIPELINE = range(3)
DIMENSIONS = ("tensor", "data", "pipeline")


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


@dataclass(frozen=True, slots=True)
class Placements:
    """All placements of parallel degrees on levels, as arrays.

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

    def take(self, index: Ints | slice) -> "Placements":
        """Some of the placements."""
        return Placements(self.degrees[:, :, index])


def all_placements(sizes: Sequence[int], limits: Sequence[int]) -> Placements:
    """Every placement whose total degree in each dimension divides that dimension's limit.

    Parameters
    ----------
    sizes
        Size of each level, innermost first [1].
    limits
        What the total degree of each dimension must divide [1].

    Examples
    --------
    Two levels of 2, with tensor parallelism of at most 2 and no pipeline:

    >>> all_placements((2, 2), limits=(2, 4, 1)).degrees[:, :2].reshape(4, -1)
    array([[1, 1, 2],
           [2, 2, 1],
           [1, 2, 1],
           [2, 1, 2]])
    """
    bound = np.array(limits, dtype=np.int64)
    totals = np.ones((1, len(limits)), dtype=np.int64)
    chosen = np.empty((1, 0, len(limits)), dtype=np.int64)
    for size in sizes:
        split = _splits(size, tuple(limits))
        product = totals[:, None, :] * split[None, :, :]
        keep = np.nonzero((bound % product == 0).all(axis=2))
        totals = product[keep]
        chosen = np.concatenate([chosen[keep[0]], split[keep[1]][:, None, :]], axis=1)
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
