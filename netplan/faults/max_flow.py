"""The largest flow between two nodes of a graph of duplex links, and where it goes.

SciPy counts in whole numbers of 32 bits: so do the capacities here, in a unit that the caller
chooses.
"""

from typing import Any

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from netplan.arrays import Floats, Ints

MAX_CAPACITY = (1 << 31) - 1


class Flow(Struct, frozen=True, eq=False):
    """A largest flow between two nodes or domains, in units, and the links that it takes."""

    units: int
    links: Ints


def largest_flow(ends: Ints, units: Floats, source: int, sink: int) -> Flow:
    """Find a largest flow from one node to another.

    Parameters
    ----------
    ends, units
        The two nodes that each link joins, shape (2, links), and its capacity in whole units, one
        direction, shape (links,).
    source, sink
        Where the flow begins and ends; the sink is the last node.

    Examples
    --------
    >>> square = np.array([[0, 0, 1, 2], [1, 2, 3, 3]])
    >>> found = largest_flow(square, np.array([2.0, 5.0, 9.0, 1.0]), 0, 3)
    >>> found.units, found.links.tolist()
    (3, [0, 1, 2, 3])
    """
    used, solved, number = _solve(ends, units, source, sink)
    first, second = number[ends[:, used]]
    tail, head = solved.flow.nonzero()
    count = len(number)
    taken = np.isin(first * count + second, tail.astype(np.int64) * count + head)
    return Flow(int(solved.flow_value), used[taken])


def largest_units(ends: Ints, units: Floats, source: int, sink: int) -> int:
    """Size of a largest flow, as :func:`largest_flow`, in less time.

    >>> largest_units(np.array([[0, 0, 1, 2], [1, 2, 3, 3]]), np.array([2.0, 5.0, 9.0, 1.0]), 0, 3)
    3
    """
    return int(_solve(ends, units, source, sink)[1].flow_value)


def _solve(ends: Ints, units: Floats, source: int, sink: int) -> tuple[Ints, Any, Ints]:
    """Links that can be used, what SciPy finds, and its numbers of the nodes."""
    used = np.flatnonzero((units > 0) & (ends[0] != ends[1]))
    there = np.zeros(sink + 1, bool)
    there[ends[:, used]] = there[[source, sink]] = True
    number = np.cumsum(there) - 1
    limit = np.tile(units[used].clip(max=MAX_CAPACITY).astype(np.int32), 2)
    one, other = number[ends[:, used]].astype(np.int32)
    ways = np.append(one, other), np.append(other, one)
    limits = csr_array((limit, ways), shape=(number[sink] + 1, number[sink] + 1))
    return used, maximum_flow(limits, number[source], number[sink]), number
