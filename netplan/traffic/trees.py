"""The schedule that reaches the optimum of an all_gather: spanning trees, packed into the links.

Each GPU sends its shard along trees that reach all others, k of one rate for every GPU, such that
no arc carries more than its capacity. Three steps, all in whole numbers:

1. *Scale.* The optimum says at which rate x each GPU can send. Capacities are multiplied so that
   they, and k = x times the same, are whole: every tree takes 1 of them.
2. *Split off switches.* Of an arc into a switch and one out of it, as much is joined to an arc past
   the switch as leaves every GPU the flow that it needs: what is lost to any cut that is tight
   would be missed. Where switches send as much as they take, nothing of them is left in the end.
   Routes remember which switches an arc stands for.
3. *Pack.* Trees of one root and one set of reached GPUs grow together, an arc at a time, each by as
   many trees as leave all others room (Edmonds' theorem on disjoint branchings, by flows).

Sources: ForestColl (arXiv:2402.06787); Zhao and Krishnamurthy (arXiv:2305.18461); K. Berczi and
A. Frank, Packing Arborescences, RIMS Kokyuroku Bessatsu B23 (2010). Left out: latency, and which of
many optimal packings has the lowest trees; arcs near the root go first.
"""

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from math import gcd

import numpy as np
from msgspec import Struct

from netplan.errors import InputError
from netplan.topologies.graph.flow import max_flow
from netplan.topologies.graph.symmetry import CapacityGraph

MAX_TREE_GPUS = 32
"""Above that, packing takes minutes."""

EVEN_GPUS = 8
"""Up to that, switches are split off in small shares."""

Arc = tuple[int, int]
Room = dict[Arc, int]


class Tree(Struct, frozen=True):
    """Trees of one shape: their root, arcs from the root on, and how many there are [1]."""

    root: int
    arcs: tuple[Arc, ...]
    count: int

    @property
    def heights(self) -> dict[int, int]:
        """Arcs on the way from the root to each GPU [1]."""
        heights = {self.root: 0}
        for tail, head in self.arcs:
            heights[head] = heights[tail] + 1
        return heights

    @property
    def depth(self) -> int:
        """Arcs on the longest way from the root [1]."""
        return max(self.heights.values())


class Route(Struct, frozen=True):
    """Nodes that an arc between two GPUs passes, both included, and how much of it goes there."""

    nodes: tuple[int, ...]
    room: int


class Forest(Struct, frozen=True, eq=False):
    """Spanning trees that reach the optimum together.

    Parameters
    ----------
    gpus
        GPUs, each of them a root [1].
    per_root
        Trees of each root, k: its shard is cut into so many chunks [1].
    tree_bytes_per_s
        Rate of one tree [B/s].
    trees
        Shapes, with how many there are of each.
    routes
        Ways of the arcs between two GPUs, past switches, in trees.
    """

    gpus: int
    per_root: int
    tree_bytes_per_s: float
    trees: tuple[Tree, ...]
    routes: dict[Arc, tuple[Route, ...]]

    def time_s(self, data_bytes: float) -> float:
        """What an all_gather of so many bytes takes along these trees [s]."""
        return data_bytes / self.gpus / self.per_root / self.tree_bytes_per_s


def pack_trees(network: CapacityGraph, ratio: Fraction) -> Forest:
    """Trees that gather at the optimum.

    Parameters
    ----------
    network
        At most 32 GPUs, whose switches send as much as they take.
    ratio
        The optimum, |S| / out(S) of the worst cut, as `netplan.traffic.optimum` finds it.

    Raises
    ------
    InputError
        If there are more GPUs, or the ratio is none that trees can reach.

    Examples
    --------
    A ring of four: each GPU sends both ways, two chunks of three over every arc.

    >>> from netplan.topologies.graph.symmetry import ring
    >>> forest = pack_trees(ring(4), Fraction(3, 2))
    >>> forest.per_root, sum(tree.count for tree in forest.trees), forest.time_s(8e9)
    (2, 8, 0.06)
    """
    gpus = network.gpus
    if gpus > MAX_TREE_GPUS:
        raise InputError(
            f"{network.name} has {gpus:,} GPUs: trees are packed for {MAX_TREE_GPUS} at most"
        )
    arcs = network.out.tocoo()
    capacity = [int(amount) for amount in arcs.data.tolist()]
    common = gcd(ratio.denominator, *capacity)
    per_root, scale = ratio.denominator // common, ratio.numerator
    ends = zip(arcs.row.tolist(), arcs.col.tolist(), strict=True)
    room = {arc: amount // common * scale for arc, amount in zip(ends, capacity, strict=True)}
    routes = {arc: [Route(arc, amount)] for arc, amount in room.items()}
    for switch in range(gpus, network.nodes):
        _split_off(switch, room, routes, (gpus, per_root))
    room = {arc: amount for arc, amount in room.items() if amount and max(arc) < gpus}
    return Forest(
        gpus=gpus,
        per_root=per_root,
        tree_bytes_per_s=network.unit * common / scale,
        trees=tuple(sorted(_packed(gpus, per_root, dict(room)), key=lambda tree: tree.root)),
        routes={arc: tuple(routes[arc]) for arc in room},
    )


def _split_off(
    switch: int, room: Room, routes: dict[Arc, list[Route]], trees: tuple[int, int]
) -> None:
    """Join arcs into a switch to arcs out of it until none leaves it."""
    while True:
        into = [a for (a, b), free in room.items() if b == switch and free]
        out = [b for (a, b), free in room.items() if a == switch and free]
        joined = False
        # Everybody gets some of everybody's room, so that trees stay low, if there is time for it.
        share = max(1, len(out) - 1) if trees[0] <= EVEN_GPUS else 1
        most = {tail: -(-room[tail, switch] // share) for tail in into}
        # Arcs back to where they come from are lost: they go last.
        for tail, head in sorted(
            (
                (a, b) for b in out for a in into
            ),  # By how far apart their numbers are, such that each pair has its turn.
            key=lambda arc: (arc[0] == arc[1], (arc[1] - arc[0]) % (1 << 20)),
        ):
            least = min(most[tail], room[tail, switch], room[switch, head])
            much = least and _may_join(room, (tail, switch, head), least, trees)
            if much:
                joined = True
                _bypass(room, routes, (tail, switch, head), much)
        if not joined:
            break
    for arc in [arc for arc in room if switch in arc]:
        if room[arc] and arc[0] == switch:
            raise InputError(
                "a switch that takes more than it sends, or less, cannot be split off: no trees"
            )
        del room[arc]


def _bypass(
    room: Room, routes: dict[Arc, list[Route]], nodes: tuple[int, int, int], much: int
) -> None:
    """Take room from an arc into a switch and one out of it, and give it to the arc past it."""
    tail, switch, head = nodes
    near = _taken(routes[tail, switch], much)
    far = _taken(routes[switch, head], much)
    room[tail, switch] -= much
    room[switch, head] -= much
    if tail == head:
        return
    room[tail, head] = room.get((tail, head), 0) + much
    ways = routes.setdefault((tail, head), [])
    while near:
        first, second = near.pop(), far.pop()
        both = min(first.room, second.room)
        ways.append(Route(first.nodes + second.nodes[1:], both))
        for rest, route in ((near, first), (far, second)):
            if route.room > both:
                rest.append(Route(route.nodes, route.room - both))


def _taken(ways: list[Route], much: int) -> list[Route]:
    """Routes of so much room, which the others lose."""
    taken = []
    while much:
        way = ways.pop()
        if way.room > much:
            ways.append(Route(way.nodes, way.room - much))
            way = Route(way.nodes, much)
        taken.append(way)
        much -= way.room
    return taken


def _may_join(room: Room, nodes: tuple[int, int, int], least: int, trees: tuple[int, int]) -> int:
    """How much may be joined: no cut between a GPU and all others may fall below all trees.

    A cut loses by it if both ends of the new arc lie on one side, and the switch on the other.
    """
    gpus, per_root = trees
    tail, switch, head = nodes
    need = gpus * per_root
    arcs = [(a, b, free) for (a, b), free in room.items() if free]
    last = max(max(arc) for arc in room) + 1
    base = arcs + [(last, gpu, per_root) for gpu in range(gpus)]
    endless = need + least + 1
    much = least
    for gpu in range(gpus):
        for sources, sinks in (((tail, head), (switch, gpu)), ((switch,), (tail, head, gpu))):
            if gpu in sources:
                continue
            more = [(last, node, endless) for node in sources]
            more += [(node, gpu, endless) for node in sinks if node != gpu]
            much = min(much, _flow(last + 1, base + more, last, gpu) - need)
            if much <= 0:
                return 0
    return much


def _flow(nodes: int, arcs: list[tuple[int, int, int]], source: int, sink: int) -> int:
    """Largest flow; arcs that join the same pair add up."""
    total: defaultdict[Arc, int] = defaultdict(int)
    for tail, head, amount in arcs:
        if tail != head:
            total[tail, head] += amount
    tails, heads = zip(*total, strict=True)
    ends = np.array(tails), np.array(heads)
    return max_flow(nodes, (*ends, list(total.values())), source=source, sink=sink)[0]


class _Growing(Struct):
    """Trees of one root that have reached the same GPUs over the same arcs."""

    root: int
    reached: dict[int, int]
    arcs: list[Arc]
    count: int


def _packed(gpus: int, per_root: int, room: Room) -> Iterator[Tree]:
    """Grow all trees until they span, and never let one take what another will need."""
    growing = [_Growing(root, {root: 0}, [], per_root) for root in range(gpus)]
    while growing:
        tree = growing[-1]
        if len(tree.reached) == gpus:
            growing.pop()
            yield Tree(tree.root, tuple(tree.arcs), tree.count)
            continue
        fit = [
            (tree.reached[a], -free, a, b)
            for (a, b), free in room.items()
            if free and a in tree.reached and b not in tree.reached
        ]
        for tail, head in [(a, b) for _, _, a, b in sorted(fit)]:
            many = _may_grow(gpus, room, growing, (tail, head))
            if not many:
                continue
            if many < tree.count:
                rest = _Growing(tree.root, dict(tree.reached), list(tree.arcs), tree.count - many)
                growing.insert(-1, rest)
            tree.count = many
            tree.reached[head] = tree.reached[tail] + 1
            tree.arcs.append((tail, head))
            room[tail, head] -= many
            break
        else:
            raise InputError("no trees reach this ratio: some GPU is short of a link")


def _may_grow(gpus: int, room: Room, growing: list[_Growing], arc: Arc) -> int:
    """How many of the last trees may take an arc, so that the others can still span.

    Each set of GPUs needs as much room into it as trees have yet to reach it.
    """
    tail, head = arc
    others = growing[:-1]
    most = min(room[arc], growing[-1].count)
    needed = sum(tree.count for tree in others)
    endless = needed + sum(room.values()) + 1
    arcs = [(a, b, free) for (a, b), free in room.items() if free]
    for number, tree in enumerate(others, gpus):
        arcs.append((tail, number, tree.count))
        arcs += [(number, gpu, endless) for gpu in tree.reached]
    flow = _flow(gpus + len(others), arcs, tail, head)
    return max(0, min(most, flow - needed))
