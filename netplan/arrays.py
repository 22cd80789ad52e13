"""Array types of the package: a type says the kind of its numbers, a docstring their shape.

Words, which are hashes, are stirred in one way.
"""

from typing import TYPE_CHECKING, TypeVar

import numpy as np

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

NumberT = TypeVar("NumberT", bound=np.number)
"""Numbers of an array, and of a result of the same kind."""

Amount = Floats | float
"""One number for each entry of an array, or one for all of them."""

Counts = Ints | int
"""One whole number for each entry of an array, or one for all of them."""


def distinct_values(values: NDArray[NumberT]) -> NDArray[NumberT]:
    """Distinct values of an array in rising order, shape (distinct,).

    They are sorted: ``np.unique`` fills a hash table since NumPy 2.3, which takes 3 times as long
    for a hundred values and 80 times as long for 8 million.

    Examples
    --------
    >>> distinct_values(np.array([7, 3, 7, 5]))
    array([3, 5, 7])
    """
    found = np.sort(values, axis=None)
    new = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    return found[new]


def mixed(words: Words) -> Words:
    """Words with all bits stirred, as SplitMix64 does (Steele, Lea and Flood, OOPSLA 2014).

    Examples
    --------
    The first word of its stream with seed 0.

    >>> hex(int(mixed(np.zeros(1, np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    found = words + np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))
