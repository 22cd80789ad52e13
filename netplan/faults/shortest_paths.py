"""Equal-cost multipath of many damaged copies of a graph at once, on the paths of the intact one.

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

from dataclasses import dataclass

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.traffic.routing_ecmp import Arcs

BLOCK = 128
"""Copies worked on at once: enough to hide the cost of a call, few enough for the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Runs of equal numbers in a sorted list, for sums over them."""

    start: Ints
    length: int  # of every run; 0 if they differ

    @classmethod
    def of(cls, numbers: Ints) -> "Runs":
        """Runs of a list that rises."""
        start = np.flatnonzero(np.diff(numbers, prepend=-1))
        lengths = np.diff(start, append=len(numbers))
        even = len(lengths) > 0 and bool(np.all(lengths == lengths[0]))
        return cls(start, int(lengths[0]) if even else 0)

    def sums(self, values: Floats) -> Floats:
        """Sum over each run of rows, shape (runs, columns)."""
        if self.length == 1:
            return values
        if self.length:
            summed: Floats = values.reshape(len(self.start), self.length, -1).sum(axis=1)
            return summed
        return np.add.reduceat(values, self.start, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class Level:
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
    tails
        Runs of links that leave one node.
    by_head, heads, head_node
        Order of the links by the node they lead to, runs in it, and those nodes' places.
    """

    node: Ints
    arc: Ints
    tail: Ints
    head: Ints
    tails: Runs
    by_head: Ints
    heads: Runs
    head_node: Ints


def levels_to(arcs: Arcs, target: int) -> tuple[Level, ...]:
    """Shortest paths of the intact graph to one node, level by level from the nearest.

    Parameters
    ----------
    arcs
        The graph.
    target
        The destination.

    Examples
    --------
    A square 0-1-3-2-0: 1 and 2 are next to 3, and 0 leads to both.

    >>> from netplan.traffic.routing_ecmp import make_arcs
    >>> arcs = make_arcs(np.array([0, 1, 3, 2]), np.array([1, 3, 2, 0]), np.ones(4, bool))
    >>> [(level.node.tolist(), len(level.arc)) for level in levels_to(arcs, 3)]
    [([1, 2], 2), ([0], 2)]
    """
    nodes = len(arcs.forwards)
    tail = np.repeat(np.arange(nodes), np.diff(arcs.indptr))
    open_ = arcs.forwards.copy()
    open_[target] = True
    usable = open_[arcs.head]
    distance = np.full(nodes, -1, np.int64)
    distance[target] = 0
    place = np.zeros(nodes, np.int64)
    levels: list[Level] = []
    while True:
        depth = len(levels)
        near = usable & (distance[arcs.head] == depth)
        fresh = near & (distance[tail] < 0)
        distance[tail[fresh]] = depth + 1
        arc = np.flatnonzero(near & (distance[tail] == depth + 1))
        if not len(arc):
            return tuple(levels)
        head = place[arcs.head[arc]]
        node, of_tail = np.unique(tail[arc], return_inverse=True)
        by_head = np.argsort(head, kind="stable")
        levels.append(
            Level(
                node=node,
                arc=arc,
                tail=of_tail,
                head=head,
                tails=Runs.of(of_tail),
                by_head=by_head,
                heads=Runs.of(head[by_head]),
                head_node=np.unique(head),
            )
        )
        place[node] = np.arange(len(node))


@dataclass(frozen=True, slots=True, eq=False)
class Poured:
    """What passes in each copy.

    Parameters
    ----------
    passed
        For each level from the farthest: its number, and bytes over each link, shape (links,
        copies) [B].
    lost
        Whether a sender of the copy has no whole path of the intact graph, shape (copies,).
    """

    passed: list[tuple[int, Floats]]
    lost: Bools


def pour_many(levels: tuple[Level, ...], live: list[Bools], sent: list[Floats | None]) -> Poured:
    """Split traffic to one destination over the live shortest paths of every copy.

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
    >>> poured = pour_many(paths, live, [None, np.full((1, 3), 8.0)])
    >>> poured.passed[0][1].T.tolist(), poured.lost.tolist()
    ([[4.0, 4.0], [0.0, 8.0], [0.0, 0.0]], [False, False, True])
    """
    copies = live[0].shape[1]
    reached = np.ones((1, copies), bool)
    ways: list[tuple[Bools, Floats]] = []
    for level, alive in zip(levels, live, strict=True):
        whole = alive & reached[level.head]
        count = level.tails.sums(whole.astype(np.float64))
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
        if depth:
            held = np.zeros((len(levels[depth - 1].node), copies))
            held[level.head_node] = level.heads.sums(over[level.by_head])
    return Poured(passed, lost)
