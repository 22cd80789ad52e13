"""Array types of the package: a type says the kind of its numbers, a docstring their shape."""

import numpy as np
from numpy.typing import NDArray

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

Amount = Floats | float
"""One number for each entry of an array, or one for all of them."""

Counts = Ints | int
"""One whole number for each entry of an array, or one for all of them."""
