"""Maximum flows in whole numbers of any size, the cuts that prove them, and links that they take.

scipy's solver is fast and counts in 32 bits. Larger flows are found digit by digit: a largest flow
for the leading digits of all capacities, shifted on, leaves less than one unit of the next digit on
each arc of its least cut, so that what the next digit adds fits 32 bits again. Both are exact.

Source: H. N. Gabow, Scaling algorithms for network problems, J. Computer and System Sciences 31
(1985).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from netplan.arrays import AnyInts, Bools, Floats, Ints, distinct_values

Arcs = tuple[Sequence[int] | Ints, Sequence[int] | Ints, Sequence[int]]
"""Tail, head and capacity of every arc, in whole numbers; no two arcs join the same pair."""

LARGEST_FLOW = (1 << 31) - 1
"""scipy's max-flow counts in 32 bits."""
DIGITS = 30
"""Binary digits of a flow that is found at once, with one to spare for the way back [1]."""


def solve_flow(nodes: int, ends: tuple[Ints, Ints], value: AnyInts, source: int, sink: int) -> Any:  # noqa: ANN401 - of scipy
    """What scipy finds on arcs whose capacities, at least those that count, fit 32 bits."""
    place = ends[0].astype(np.int32), ends[1].astype(np.int32)  # as max-flow takes them
    limits = csr_array((value.clip(max=LARGEST_FLOW).astype(np.int32), place), shape=(nodes, nodes))
    return maximum_flow(limits, source, sink)


def max_flow(nodes: int, arcs: Arcs, *, source: int, sink: int) -> tuple[int, Bools]:
    """Largest flow from a source to a sink, and the source's side of a least cut.

    Parameters
    ----------
    nodes
        How many nodes there are [1].
    arcs
        Tail, head and capacity of every arc.
    source, sink
        Two different nodes.

    Returns
    -------
    int, Bools
        The flow; what can still be reached from the source once it flows, shape (nodes,).

    Examples
    --------
    >>> value, side = max_flow(4, ([0, 0, 1, 2], [1, 2, 3, 3], [5, 9, 7, 2**40]), source=0, sink=3)
    >>> value, side.tolist()
    (14, [True, False, False, False])
    """
    tail, head = (np.asarray(end, np.int64) for end in arcs[:2])
    feed = sum(rate for node, rate in zip(tail.tolist(), arcs[2], strict=True) if node == source)
    # No arc carries more than all that the source feeds.
    value = np.array([min(rate, feed) for rate in arcs[2]], object)
    if feed <= LARGEST_FLOW:
        value = value.astype(np.int64)
        flow = solve_flow(nodes, (tail, head), value, source, sink).flow
        left = csr_array((value, (tail, head)), shape=(nodes, nodes)) - flow
        left.data[left.data < 0] = 0
    else:
        flow, left = _scaled_flow(nodes, (tail, head, value), feed, (source, sink))
    left.eliminate_zeros()
    side = np.zeros(nodes, bool)
    side[breadth_first_order(left, source, return_predecessors=False)] = True
    out = side[tail] & ~side[head]
    return int(sum(value[out].tolist())), side


def _scaled_flow(
    nodes: int, arcs: tuple[Ints, Ints, Any], feed: int, ends: tuple[int, int]
) -> tuple[Any, csr_array]:
    """A flow of any size, digit by digit, and where room is left."""
    tail, head, value = arcs
    key = tail * nodes + head
    every = distinct_values(np.concatenate((key, head * nodes + tail)))
    capacity = np.zeros(len(every), object)
    capacity[np.searchsorted(every, key)] = value
    both, step = np.divmod(every, nodes), DIGITS - len(every).bit_length()
    shift = -((DIGITS - feed.bit_length()) // step) * step
    flow = np.zeros(len(every), object)
    while True:
        left = (capacity >> shift) - flow
        room = np.minimum(left, (1 << DIGITS) - 1).astype(np.int64)
        solved = solve_flow(nodes, both, room, *ends).flow
        # Arcs and their ways back are all there, so that flows stand in their order.
        flow = flow + solved.data.astype(object)
        if not shift:
            return flow, csr_array(((left - solved.data > 0), both), shape=(nodes, nodes))
        flow, shift = flow << step, shift - step


class Flow(Struct, frozen=True, eq=False):
    """A largest flow between two nodes or domains, in units, and the links that it takes."""

    units: int
    links: Ints


def largest_flow(ends: Ints, units: Floats, source: int, sink: int) -> Flow:
    """Find a largest flow from one node to another over duplex links.

    Parameters
    ----------
    ends, units
        The two nodes that each link joins, shape (2, links), and its capacity in whole units, one
        direction, shape (links,).
    source, sink
        Where the flow begins and ends; the sink is the last node.

    Returns
    -------
    Flow
        Its size, and the numbers of the links that it takes.

    Examples
    --------
    >>> square = np.array([[0, 0, 1, 2], [1, 2, 3, 3]])
    >>> found = largest_flow(square, np.array([2.0, 5.0, 9.0, 1.0]), 0, 3)
    >>> found.units, found.links.tolist()
    (3, [0, 1, 2, 3])
    """
    used, solved, number = _duplex_flow(ends, units, source, sink)
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
    return int(_duplex_flow(ends, units, source, sink)[1].flow_value)


def _duplex_flow(ends: Ints, units: Floats, source: int, sink: int) -> tuple[Ints, Any, Ints]:
    """Links that can be used, what scipy finds, and its numbers of the nodes."""
    used = np.flatnonzero((units > 0) & (ends[0] != ends[1]))
    there = np.zeros(sink + 1, bool)
    there[ends[:, used]] = there[[source, sink]] = True
    number = np.cumsum(there) - 1
    first, second = number[ends[:, used]]
    ways = np.append(first, second), np.append(second, first)
    limit = np.tile(units[used].clip(max=LARGEST_FLOW), 2).astype(np.int64)
    return used, solve_flow(number[sink] + 1, ways, limit, number[source], number[sink]), number
