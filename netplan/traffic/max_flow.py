"""Maximum flows in whole numbers of any size, and the cut that proves each.

scipy's solver is fast and counts in 32 bits; it takes what fits. What does not fit goes through
Dinic's algorithm (layers by distance, then blocking flows) in Python's own numbers, which have no
end. Both are exact.

Source: E. A. Dinic, Algorithm for solution of a problem of maximum flow in networks with power
estimation, Soviet Math. Doklady 11 (1970).
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from netplan.arrays import Bools, Ints

Arcs = tuple[Sequence[int] | Ints, Sequence[int] | Ints, Sequence[int]]
"""Tail, head and capacity of every arc, in whole numbers; no two arcs join the same pair."""

LARGEST_FLOW = (1 << 31) - 1
"""scipy's max-flow counts in 32 bits."""


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
    feed = sum(rate for node, rate in zip(arcs[0], arcs[2], strict=True) if node == source)
    if feed <= LARGEST_FLOW:
        return _small_flow(nodes, arcs, feed, (source, sink))
    return _Dinic(nodes, arcs).flow(source, sink)


def _small_flow(nodes: int, arcs: Arcs, feed: int, ends: tuple[int, int]) -> tuple[int, Bools]:
    """A flow that fits 32 bits; no arc carries more than all that the source feeds."""
    tail, head = (np.asarray(end, np.int32) for end in arcs[:2])
    value = np.array([min(rate, feed) for rate in arcs[2]], np.int32)
    limits = csr_array((value, (tail, head)), shape=(nodes, nodes))
    found = maximum_flow(limits, *ends)
    left = limits - found.flow
    left.data[left.data < 0] = 0
    left.eliminate_zeros()
    side = np.zeros(nodes, bool)
    side[breadth_first_order(left, ends[0], return_predecessors=False)] = True
    return int(found.flow_value), side


class _Dinic:
    """Residual arcs in pairs: arc i and its way back, i ^ 1."""

    def __init__(self, nodes: int, arcs: Arcs) -> None:
        self.head: list[int] = []
        self.left: list[int] = []
        self.out: list[list[int]] = [[] for _ in range(nodes)]
        for tail, head, rate in zip(*map(list, arcs), strict=True):
            self.out[tail].append(len(self.head))
            self.out[head].append(len(self.head) + 1)
            self.head += (head, tail)
            self.left += (rate, 0)

    def flow(self, source: int, sink: int) -> tuple[int, Bools]:
        """Blocking flows, layer by layer, until the sink is out of reach."""
        value = 0
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return value, np.array(level) >= 0
            value += self._blocking(source, sink, level)

    def _levels(self, source: int) -> list[int]:
        """Distance of every node over arcs with room, -1 where there is none."""
        level = [-1] * len(self.out)
        level[source], here = 0, [source]
        while here:
            after = []
            for node in here:
                for arc in self.out[node]:
                    other = self.head[arc]
                    if self.left[arc] and level[other] < 0:
                        level[other] = level[node] + 1
                        after.append(other)
            here = after
        return level

    def _blocking(self, source: int, sink: int, level: list[int]) -> int:
        """Push along shortest paths until each has a full arc."""
        head, left, out = self.head, self.left, self.out
        untried = [len(arcs) - 1 for arcs in out]
        total, node = 0, source
        path: list[int] = []
        while True:
            if node == sink:
                room = min(left[arc] for arc in path)
                total += room
                for arc in path:
                    left[arc] -= room
                    left[arc ^ 1] += room
                full = next(at for at, arc in enumerate(path) if not left[arc])
                node = head[path[full] ^ 1]
                del path[full:]
                continue
            while untried[node] >= 0:
                arc = out[node][untried[node]]
                if left[arc] and level[head[arc]] == level[node] + 1:
                    break
                untried[node] -= 1
            if untried[node] >= 0:
                path.append(arc)
                node = head[arc]
            elif path:
                node = head[path.pop() ^ 1]
                untried[node] -= 1
            else:
                return total
