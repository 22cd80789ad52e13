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

*Ends* are where GPUs enter the network: the switch of a GPU with one network link, else the GPU.
What an end sends, which of its links are alive, and what every link carries are tables of ends,
links and link directions by copies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.faults.damage import Damage, network_links
from netplan.topologies.graph import GPU, FabricGraph
from netplan.traffic.routing import forwarding_nodes
from netplan.traffic.routing_ecmp import Arcs, make_arcs

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


KEPT_ARCS = 1 << 23
"""Links of shortest paths that are kept for the next copies."""


def endpoints(graph: FabricGraph) -> Ints:
    """Where each GPU enters the network: at its switch if it has one network link, shape (gpus,).

    Paths of GPUs under one switch are alike from there on, so they are routed together.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> endpoints(expand(FABRICS.load("fat-tree"), Sizing(16, 8, 1, 450e9, 50e9)))
    array([16, 16, 16, 16, 17, 17, 17, 17, 18, 18, 18, 18, 19, 19, 19, 19])
    """
    outer = np.flatnonzero(network_links(graph))
    tail = np.concatenate([graph.source[outer], graph.target[outer]])
    head = np.concatenate([graph.target[outer], graph.source[outer]]).astype(np.int64)
    at_gpu = tail < graph.gpus
    degree = np.bincount(tail[at_gpu], minlength=graph.gpus)
    switch = np.arange(graph.gpus)
    switch[tail[at_gpu]] = head[at_gpu]
    single = (degree == 1) & (graph.node_kind[switch] != GPU)
    return np.where(single, switch, np.arange(graph.gpus))


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums of rows that belong together.

    Parameters
    ----------
    order, start
        Rows by the sum they belong to, and where each sum begins; every sum has a row.
    """

    order: Ints
    start: Ints

    @classmethod
    def over(cls, label: Ints) -> "Sums":
        """Rows with the same label; labels are 0, 1, 2, … and all occur."""
        order = np.argsort(label, kind="stable")
        return cls(order, np.flatnonzero(np.diff(label[order], prepend=-1)))

    def of(self, rows: Floats) -> Floats:
        """Sum of the rows of each label."""
        return np.add.reduceat(rows[self.order], self.start, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class Twins:
    """Ends of one pod with the same neighbours, which are routed as one destination.

    Parameters
    ----------
    pod
        Their pod.
    entry
        The ends, as places in the list of (end, pod) entries, shape (twins,).
    code
        Places of the links that lead to them in flattened loads, shape (twins, links).
    """

    pod: int
    entry: Ints
    code: Ints


@dataclass(frozen=True, eq=False)
class PodBatch:
    """What all copies of a fabric share.

    Parameters
    ----------
    graph
        The fabric.
    pods
        Pod of each GPU, shape (gpus,).
    arcs
        The network between ends.
    end, pod
        Entries: an end, and a pod that has GPUs there, shape (entries,).
    by_entry, by_pod
        GPUs of each entry, and of each pod.
    ports
        Network links of GPUs.
    port_gpu, single
        The GPU of each, and whether it has no other, so that its end is its switch.
    twins
        Destinations.
    """

    graph: FabricGraph
    pods: Ints
    arcs: Arcs
    end: Ints
    pod: Ints
    by_entry: Sums
    by_pod: Sums
    ports: Ints
    port_gpu: Ints
    single: Bools
    twins: tuple[Twins, ...]

    def throughput(self, damages: Sequence[Damage]) -> tuple[Floats, Bools]:
        """Throughput of some copies [B/s], and which of them need a search of their own."""
        graph = self.graph
        node_down = np.stack([damage.node_down for damage in damages], axis=1)
        failed = np.stack([damage.link_down for damage in damages], axis=1)
        live = ~(failed | node_down[graph.source] | node_down[graph.target])
        attached = np.zeros((graph.gpus, len(damages)), bool)
        for port in np.split(np.arange(len(self.ports)), self._port_starts):
            attached[self.port_gpu[port]] |= live[self.ports[port]]
        count = self.by_pod.of(attached.astype(np.float64))
        share = attached / np.maximum(count, 1.0)[self.pods]
        loads, lost = self._loads(self.by_entry.of(share), failed, live)
        rate = np.tile(graph.bytes_per_s, 2)[:, None]
        busiest_s = (loads / np.where(rate > 0, rate, 1.0)).max(axis=0)
        if self.single.any():
            rate = graph.bytes_per_s[self.ports[self.single]][:, None]
            sending = np.count_nonzero(count, axis=0) - 1
            times = (share[self.port_gpu[self.single]] / rate).max(axis=0) * sending
            busiest_s = np.maximum(busiest_s, times)
        free = np.where(busiest_s > 0, 1.0 / np.where(busiest_s > 0, busiest_s, 1.0), np.inf)
        alive = self.by_pod.of((~node_down[: graph.gpus]).astype(np.float64))
        return np.where(((alive > 0) & (count == 0)).any(axis=0), 0.0, free), lost

    @cached_property
    def _port_starts(self) -> Ints:
        """Where the first, second, … network links of GPUs begin: no GPU twice in one stretch."""
        starts: Ints = np.flatnonzero(np.diff(self.port_gpu) <= 0) + 1
        return starts

    @cached_property
    def _paths(self) -> dict[int, tuple[Level, ...]]:
        """Shortest paths to destinations, as far as they are kept."""
        return {}

    def _levels(self, target: int) -> tuple[Level, ...]:
        """Shortest paths of the intact fabric to an end."""
        if target not in self._paths:
            if len(self._paths) * len(self.arcs.head) > KEPT_ARCS:
                self._paths.clear()
            self._paths[target] = levels_to(self.arcs, target)
        return self._paths[target]

    def _loads(self, amount: Floats, failed: Bools, live: Bools) -> tuple[Floats, Bools]:
        """Loads of all link directions, shape (2 links, copies), and copies that are lost."""
        ends, place = np.unique(self.end, return_inverse=True)
        total = Sums.over(place).of(amount)
        hurt = self._hurt(ends, failed)[place]
        table = Table.of(self.arcs, ends, live)
        for twins in self.twins:
            mine = self.pod == twins.pod
            others = total.copy()
            others[place[mine]] -= amount[mine]
            for entry, columns, share in _columns(amount[twins.entry], hurt[twins.entry]):
                target = int(self.end[twins.entry[entry]])
                table.add(target, self._levels(target), twins.code, others, columns, share)
        return table.loads, table.lost

    def _hurt(self, ends: Ints, failed: Bools) -> Bools:
        """Whether a link at an end has failed by itself, shape (ends, copies)."""
        found = np.zeros((len(ends), failed.shape[1]), bool)
        links = self.arcs.code % (self.arcs.size // 2)
        for row, end in enumerate(ends.tolist()):
            own = links[self.arcs.indptr[end] : self.arcs.indptr[end + 1]]
            found[row] = failed[own].any(axis=0)
        return found


def pod_batch(graph: FabricGraph, pods: Ints) -> PodBatch:
    """Work out once what all copies of a fabric share.

    Parameters
    ----------
    graph
        The fabric.
    pods
        Pod of each GPU, shape (gpus,).
    """
    outer = np.flatnonzero(network_links(graph))
    port = np.concatenate(
        [outer[graph.source[outer] < graph.gpus], outer[graph.target[outer] < graph.gpus]]
    )
    firsts = np.count_nonzero(graph.source[outer] < graph.gpus)
    gpu = np.concatenate([graph.source[port[:firsts]], graph.target[port[firsts:]]]).astype(
        np.int64
    )
    # The k-th links of all GPUs stand together, so that each stretch has a GPU once.
    order = np.argsort(gpu, kind="stable")
    degree = np.bincount(gpu, minlength=graph.gpus)
    turn = np.arange(len(gpu)) - np.repeat(np.cumsum(degree) - degree, degree)
    order = order[np.argsort(turn, kind="stable")]
    end_of_gpu = endpoints(graph)
    single = end_of_gpu[gpu] != gpu
    between = np.setdiff1d(outer, port[single])
    arcs = make_arcs(graph.source, graph.target, forwarding_nodes(graph, outer), between)
    key, entry = np.unique(end_of_gpu * (pods.max() + 1) + pods, return_inverse=True)
    end, pod = np.divmod(key, pods.max() + 1)
    return PodBatch(
        graph=graph,
        pods=pods,
        arcs=arcs,
        end=end,
        pod=pod,
        by_entry=Sums.over(entry),
        by_pod=Sums.over(pods),
        ports=port[order],
        port_gpu=gpu[order],
        single=single[order],
        twins=tuple(_twins(arcs, end, pod)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Table:
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
        levels: tuple[Level, ...],
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
        apart = np.ones(len(others), bool)  # ends that no path of the intact fabric begins at
        apart[self.row[target]] = False
        for level in levels:
            apart[self.row[level.node[self.row[level.node] >= 0]]] = False
        for first in range(0, share.shape[1], BLOCK):
            part = slice(first, first + BLOCK)
            at: slice | Ints = part if columns is None else columns[part]
            each = share[:, part]
            together = each.sum(axis=0)
            self.lost[at] |= (others[apart][:, at] * together > 0).any(axis=0)
            if not levels:
                continue
            live = [self.live[code % links][:, at] for code in codes]
            sent = [self._sent(level, others, at, together) for level in levels]
            poured = pour_many(levels, live, sent)
            self.lost[at] |= poured.lost
            for depth, over in poured.passed:
                if depth:
                    self._put(codes[depth], at, over)
                    continue
                of_whole = each / np.where(together > 0, together, 1.0)
                for twin in np.flatnonzero(each.any(axis=1)).tolist():
                    self._put(last_hops[twin], at, over * of_whole[twin])

    def _sent(
        self, level: Level, others: Floats, at: slice | Ints, together: Floats
    ) -> Floats | None:
        """What the nodes of a level send themselves."""
        row = self.row[level.node]
        known = np.flatnonzero(row >= 0)
        if not len(known):
            return None
        amount = others[row[known]][:, at] * together
        if len(known) == len(row):
            return amount
        sent = np.zeros((len(row), len(together)))
        sent[known] = amount
        return sent

    def _put(self, code: Ints, at: slice | Ints, amount: Floats) -> None:
        """Add to the loads; the places are distinct."""
        if isinstance(at, slice):
            self.loads[code, at] += amount
        else:
            self.loads[code[:, None], at] += amount


def _columns(amount: Floats, hurt: Bools) -> Iterator[tuple[int, Ints | None, Floats]]:
    """Which twins to route as one in which copies: a twin for the paths, copies, and shares.

    Twins whose own links are whole go together; a hurt one goes alone.
    """
    whole = ~hurt & (amount > 0)
    lead = np.where(whole.any(axis=0), whole.argmax(axis=0), -1)
    for twin in range(len(amount)):
        for chosen, share in (
            (lead == twin, np.where(whole, amount, 0.0)),
            (hurt[twin] & (amount[twin] > 0), None),
        ):
            columns = np.flatnonzero(chosen)
            if not len(columns):
                continue
            if share is None:
                share = np.zeros_like(amount)  # noqa: PLW2901 - filled for this twin alone
                share[twin] = amount[twin]
            # Where most copies are wanted, all are done, the others with nothing to carry.
            if 2 * len(columns) >= len(chosen):
                yield twin, None, share * chosen
            else:
                yield twin, columns, share[:, columns]


def _twins(arcs: Arcs, end: Ints, pod: Ints) -> Iterator[Twins]:
    """Entries of one pod whose ends have the same neighbours, if no end has several pods."""
    tail = np.repeat(np.arange(len(arcs.forwards)), np.diff(arcs.indptr))
    into = np.argsort(arcs.head, kind="stable")  # the arcs that lead to a node, by where they leave
    degree = np.bincount(arcs.head, minlength=len(arcs.forwards))
    start = np.cumsum(degree) - degree
    widest = int(degree[end].max(initial=0))
    reach = start[end][:, None] + np.arange(widest)
    there = np.arange(widest) < degree[end][:, None]
    arc = np.where(there, into[np.minimum(reach, max(0, len(into) - 1))], -1)
    neighbours = np.where(there, tail[arc], -1)
    alone = np.arange(len(end)) if len(np.unique(end)) < len(end) else np.zeros(len(end), np.int64)
    keys = np.column_stack([pod, alone, neighbours])
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    for entry in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]):
        code = arcs.code[arc[entry][:, : degree[end[entry[0]]]]]
        yield Twins(int(pod[entry[0]]), entry, code)
