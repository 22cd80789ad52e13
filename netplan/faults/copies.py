"""Equal-cost multipath of many damaged copies of a fabric at once: one column of a table each.

For one destination the shortest paths of the intact graph form levels: every node at distance d
hands on to its next hops at distance d - 1. Damage takes links from these levels. As long as a
sender keeps one of its shortest paths, its distance has not grown, and its live shortest paths are
those of the intact graph that are whole. So the levels are found once, and each damaged copy is one
column of a table:

1. outwards from the destination: which nodes still have a next hop, and how many live links to
   such next hops;
2. inwards from the farthest senders: what a node holds, split evenly over these links.

A sender that has lost all its shortest paths is reported; its copy needs a search of its own.
"""

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array

from netplan.arrays import Bools, Floats, Ints
from netplan.traffic.routing_ecmp import Arcs

BLOCK = 128
"""Copies worked on at once: enough to hide the cost of a call, few enough for the cache."""


def summing(label: Ints, labels: int) -> csr_array:
    """Matrix of shape (labels, rows) that adds up the rows of a table which have the same label.

    Examples
    --------
    >>> summing(np.array([0, 2, 2]), 3) @ np.array([[1.0], [2.0], [3.0]])
    array([[1.], [0.], [5.]])
    """
    start = np.zeros(labels + 1, np.int32)
    np.cumsum(np.bincount(label, minlength=labels), out=start[1:])
    row = np.argsort(label, kind="stable").astype(np.int32)
    return csr_array((np.ones(len(label)), row, start), shape=(labels, len(label)))


class PathLevel(Struct, frozen=True, eq=False):
    """Links from the nodes of one distance to the next hops one nearer, by the node they leave.

    Parameters
    ----------
    node
        Nodes at this distance, rising, shape (nodes,).
    arc
        Places of the links among the arcs of the graph, shape (links,).
    tail, head
        Node that each link leaves, as a place in ``node``; node that it leads to, as a place in the
        nodes of the level before.
    out, into
        Sums of links by the node they leave, and by the node they lead to.
    """

    node: Ints
    arc: Ints
    tail: Ints
    head: Ints
    out: csr_array
    into: csr_array


def levels_to(arcs: Arcs, target: int, ways: "Incoming | None" = None) -> tuple[PathLevel, ...]:
    """Shortest paths of the intact graph to one node, level by level from the nearest.

    Parameters
    ----------
    arcs
        The graph.
    target
        The destination.
    ways
        Links by the node that they lead to, of :func:`incoming`, where many destinations are asked.

    Examples
    --------
    A square 0-1-3-2-0: 1 and 2 are next to 3, and 0 leads to both.

    >>> from netplan.traffic.routing_ecmp import make_arcs
    >>> arcs = make_arcs(np.array([0, 1, 3, 2]), np.array([1, 3, 2, 0]), np.ones(4, bool))
    >>> [(level.node.tolist(), len(level.arc)) for level in levels_to(arcs, 3)]
    [([1, 2], 2), ([0], 2)]
    """
    nodes = len(arcs.forwards)
    ways = ways or incoming(arcs)
    distance = np.full(nodes, -1, np.int64)
    distance[target] = 0
    place = np.zeros(nodes, np.int64)
    levels: list[PathLevel] = []
    front = np.array([target])
    while True:
        # Only the links into the nodes just reached are looked at, each once.
        arc = ways.of(front)
        arc = arc[distance[ways.tail[arc]] < 0]
        if not len(arc):
            return tuple(levels)
        arc.sort()
        tail = ways.tail[arc]
        distance[tail] = len(levels) + 1
        head = place[arcs.head[arc]]
        opens = np.append(True, tail[1:] != tail[:-1])
        node, of_tail = tail[opens], np.cumsum(opens) - 1
        levels.append(
            PathLevel(
                node=node,
                arc=arc,
                tail=of_tail,
                head=head,
                out=summing(of_tail, len(node)),
                into=summing(head, len(levels[-1].node) if levels else 1),
            )
        )
        place[node] = np.arange(len(node))
        front = node[arcs.forwards[node]]


class Incoming(Struct, frozen=True, eq=False):
    """Links by the node that they lead to.

    Parameters
    ----------
    tail
        Node that each link leaves, shape (links,).
    order, start
        Places of the links among the arcs, by the node they lead to; where those of each node
        begin, shape (nodes + 1,).
    """

    tail: Ints
    order: Ints
    start: Ints

    def of(self, node: Ints) -> Ints:
        """Places of all links that lead to some nodes."""
        first = self.start[node]
        degree = self.start[node + 1] - first
        ends = np.cumsum(degree)
        reach = np.arange(ends[-1]) if len(ends) else np.empty(0, np.int64)
        found: Ints = self.order[reach + np.repeat(first - ends + degree, degree)]
        return found


def incoming(arcs: Arcs) -> Incoming:
    """Links of a graph by the node that they lead to."""
    nodes = len(arcs.forwards)
    tail = np.repeat(np.arange(nodes), np.diff(arcs.indptr))
    start = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(arcs.head, minlength=nodes), out=start[1:])
    return Incoming(tail, np.argsort(arcs.head, kind="stable"), start)


def pour_many(
    levels: tuple[PathLevel, ...], live: list[Bools], sent: list[Floats | None]
) -> tuple[list[tuple[int, Floats]], Bools]:
    """Split traffic to one destination over the live shortest paths of every copy.

    For each level from the farthest: its number, and bytes over each link, shape (links, copies)
    [B]. Then whether a sender of the copy has no whole path of the intact graph, shape (copies,).

    Parameters
    ----------
    levels
        The paths.
    live
        For each level, whether its links are alive, shape (links, copies).
    sent
        For each level, what its nodes send [B], shape (nodes, copies); None for nothing.

    Examples
    --------
    The square 0-1-3-2-0: 8 bytes from 0 to 3, whole, without link 0-1, and without both ways.

    >>> from netplan.traffic.routing_ecmp import make_arcs
    >>> arcs = make_arcs(np.array([0, 1, 3, 2]), np.array([1, 3, 2, 0]), np.ones(4, bool))
    >>> links = np.array([[1, 1, 1, 1], [0, 1, 1, 1], [0, 1, 1, 0]], bool).T
    >>> paths = levels_to(arcs, 3)
    >>> live = [links[arcs.code[level.arc] % 4] for level in paths]
    >>> passed, lost = pour_many(paths, live, [None, np.full((1, 3), 8.0)])
    >>> passed[0][1].T.tolist(), lost.tolist()
    ([[4.0, 4.0], [0.0, 8.0], [0.0, 0.0]], [False, False, True])
    """
    copies = live[0].shape[1]
    reached = np.ones((1, copies), bool)
    ways: list[tuple[Bools, Floats]] = []
    for level, alive in zip(levels, live, strict=True):
        whole = alive & reached[level.head]
        count = level.out @ whole.astype(np.float64)
        reached = count > 0
        ways.append((whole, count))
    lost = np.zeros(copies, bool)
    passed = []
    held: Floats | None = None
    for depth in range(len(levels) - 1, -1, -1):
        level, (whole, count) = levels[depth], ways[depth]
        own = sent[depth]
        if own is not None:
            held = own if held is None else held + own
        if held is None:
            continue
        lost |= ((held > 0) & (count == 0)).any(axis=0)
        over = (held / np.maximum(count, 1.0))[level.tail] * whole
        passed.append((depth, over))
        held = level.into @ over
    return passed, lost


class Table(Struct, frozen=True, eq=False):
    """Loads of every copy, filled destination by destination.

    Parameters
    ----------
    arcs
        The network between ends.
    row
        Row of each node among the ends, -1 for others, shape (nodes,).
    live
        Whether a link is alive, shape (links, copies).
    loads
        Loads of both directions of every link [B], shape (2 links, copies).
    lost
        Whether a sender of the copy has lost all shortest paths, shape (copies,).
    """

    arcs: Arcs
    row: Ints
    live: Bools
    loads: Floats
    lost: Bools

    @classmethod
    def of(cls, arcs: Arcs, ends: Ints, live: Bools) -> "Table":
        """An empty table for these ends."""
        row = np.full(len(arcs.forwards), -1, np.int64)
        row[ends] = np.arange(len(ends))
        copies = live.shape[1]
        return cls(arcs, row, live, np.zeros((arcs.size, copies)), np.zeros(copies, bool))

    def add(
        self,
        target: int,
        levels: tuple[PathLevel, ...],
        last_hops: Ints,
        others: Floats,
        columns: Ints | None,
        share: Floats,
    ) -> None:
        """Add what goes to one destination, or to twins that are routed as one.

        Parameters
        ----------
        target, levels
            The destination, or one of the twins, and the paths to it.
        last_hops
            Places of the links to each twin in the loads, shape (twins, links).
        others
            What every end sends, shape (ends, copies) [B].
        columns
            Copies to do; None does all.
        share
            Share of each twin, shape (twins, columns) [1].
        """
        links = self.arcs.size // 2
        codes = [self.arcs.code[level.arc] for level in levels]
        rows = [self.row[level.node] for level in levels]
        # Nodes that are no ends have row -1, the last: it takes part in nothing.
        apart = np.append(np.ones(len(others), bool), False)
        apart[np.concatenate([self.row[[target]], *rows])] = False
        others = np.append(others, np.zeros((1, others.shape[1])), axis=0)
        for first in range(0, share.shape[1], BLOCK):
            part = slice(first, first + BLOCK)
            at: slice | Ints = part if columns is None else columns[part]
            each = share[:, part]
            together = each.sum(axis=0)
            self.lost[at] |= (others[apart][:, at] * together > 0).any(axis=0)
            if not levels:
                continue
            live = [self.live[code % links][:, at] for code in codes]
            sent = [others[row][:, at] * together if (row >= 0).any() else None for row in rows]
            passed, lost = pour_many(levels, live, sent)
            self.lost[at] |= lost
            for depth, over in passed:
                if depth:
                    self._put(codes[depth], at, over)
                    continue
                of_whole = each / np.where(together > 0, together, 1.0)
                for twin in np.flatnonzero(each.any(axis=1)).tolist():
                    self._put(last_hops[twin], at, over * of_whole[twin])

    def _put(self, code: Ints, at: slice | Ints, amount: Floats) -> None:
        """Add to the loads; the places are distinct."""
        if isinstance(at, slice):
            self.loads[code, at] += amount
        else:
            self.loads[code[:, None], at] += amount
