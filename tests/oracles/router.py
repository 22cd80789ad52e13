"""A router in plain Python: slow, one flow at a time, written from the definitions.

Only the arrays of a graph are taken from netplan, never its routing. Loads are keyed by
(link, sender), so that parallel links and both directions stay apart.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netplan.topologies.graph import GPU, FabricGraph

Loads = dict[tuple[int, int], float]
Flow = tuple[int, int, float]
Route = Callable[[Flow, Loads], None]


def network_of(graph: FabricGraph, *, inside: bool) -> "nx.MultiGraph[int]":
    """The links inside HB domains, or all others; an edge's key is the link's number."""
    view: nx.MultiGraph[int] = nx.MultiGraph()
    view.add_nodes_from(range(graph.node_count))
    for link, (a, b) in enumerate(zip(graph.source.tolist(), graph.target.tolist(), strict=True)):
        if (graph.group_names[graph.group[link]] == "hb") == inside:
            view.add_edge(a, b, key=link)
    return view


def ecmp(view: "nx.MultiGraph[int]", blocked: frozenset[int]) -> Route:
    """Split evenly over the links of all next hops; ``blocked`` nodes do not forward."""

    def route(flow: Flow, loads: Loads) -> None:
        source, target, amount = flow
        usable = view.subgraph(set(view) - (blocked - {source, target}))
        distance = nx.single_source_shortest_path_length(usable, target)
        waiting = {source: amount}
        for _ in range(distance[source]):
            arrived: dict[int, float] = defaultdict(float)
            for node, part in waiting.items():
                nearer = [
                    (link, peer)
                    for _, peer, link in usable.edges(node, keys=True)
                    if distance.get(peer, -1) == distance[node] - 1
                ]
                for link, peer in nearer:
                    loads[link, node] += part / len(nearer)
                    arrived[peer] += part / len(nearer)
            waiting = arrived

    return route


def walk(graph: FabricGraph, nodes: Iterable[int], amount: float, loads: Loads) -> None:
    """Send an amount from node to node over the network, evenly over parallel links."""
    for a, b in pairwise(nodes):
        if a == b:
            continue
        between = np.flatnonzero(
            ((graph.source == a) & (graph.target == b))
            | ((graph.source == b) & (graph.target == a))
        )
        names = [graph.group_names[graph.group[link]] for link in between]
        links = [int(n) for n, name in zip(between, names, strict=True) if name != "hb"]
        assert links, f"no link between {a} and {b}"
        for link in links:
            loads[link, a] += amount / len(links)


def torus_walks(
    sizes: tuple[int, ...], source: int, target: int, *, closed: bool = True
) -> list[list[int]]:
    """Walks of dimension-order routing between two positions, all equally likely."""
    walks = [[source]]
    for axis, size in enumerate(sizes):
        stride = prod(sizes[:axis])
        steps = (target // stride - source // stride) % size
        ways = [(1, steps), (-1, size - steps)]
        if not closed:
            ways = ways[:1] if target // stride % size >= source // stride % size else ways[1:]
        shortest = min(count for _, count in ways)
        # Two members share one link, so that plus and minus are the same way.
        ways = [way for way in ways if way[1] == shortest][: 1 if size == 2 else 2]
        longer = []
        for path in walks:
            for sign, count in ways if steps else [(1, 0)]:
                here, more = path[-1], []
                for _ in range(count):
                    place = here // stride % size
                    here += ((place + sign) % size - place) * stride
                    more.append(here)
                longer.append(path + more)
        walks = longer
    return walks


def dimension_order(graph: FabricGraph, sizes: tuple[int, ...], *, closed: bool = True) -> Route:
    """Dimension order on a torus of HB domains, one torus a rail."""

    def route(flow: Flow, loads: Loads) -> None:
        source, target, amount = flow
        (a, rank), (b, same) = divmod(source, graph.hb_size), divmod(target, graph.hb_size)
        assert rank == same
        walks = torus_walks(sizes, a, b, closed=closed)
        for path in walks:
            nodes = [position * graph.hb_size + rank for position in path]
            walk(graph, nodes, amount / len(walks), loads)

    return route


@dataclass(frozen=True)
class Dragonfly:
    """Dragonfly of groups of ``per_group`` consecutive switches."""

    graph: FabricGraph
    per_group: int

    @cached_property
    def first(self) -> int:
        return int(np.flatnonzero(self.graph.node_tier == 1)[0])

    @cached_property
    def gates(self) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
        """Links from one group to another: switch left, switch reached, number."""
        found: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for link in self.graph.links_of("global").tolist():
            a, b = int(self.graph.source[link]), int(self.graph.target[link])
            found[self.group(a), self.group(b)].append((a, b, link))
            found[self.group(b), self.group(a)].append((b, a, link))
        return found

    def group(self, switch: int) -> int:
        return (switch - self.first) // self.per_group

    def cross(self, at: dict[int, float], goal: int, loads: Loads) -> dict[int, float]:
        """From switches of one group to another group, over all links alike; what arrives where."""
        arrived: dict[int, float] = defaultdict(float)
        for start, amount in at.items():
            links = self.gates[self.group(start), goal]
            for leave, arrive, link in links:
                walk(self.graph, [start, leave], amount / len(links), loads)
                loads[link, leave] += amount / len(links)
                arrived[arrive] += amount / len(links)
        return arrived


def dragonfly(graph: FabricGraph, per_group: int, *, valiant: bool = False) -> Route:
    """Minimal or Valiant routing."""
    fly = Dragonfly(graph, per_group)
    hosts = graph.links_of("host")
    switch_of = dict(zip(graph.source[hosts].tolist(), graph.target[hosts].tolist(), strict=True))
    groups = range((graph.node_count - fly.first) // per_group)

    def route(flow: Flow, loads: Loads) -> None:
        source, target, amount = flow
        start, end = switch_of[source], switch_of[target]
        walk(graph, [source, start], amount, loads)
        walk(graph, [end, target], amount, loads)
        home, away = fly.group(start), fly.group(end)
        if home == away:
            walk(graph, [start, end], amount, loads)
            return
        thirds = [k for k in groups if k not in (home, away)] if valiant else [away]
        for third in thirds:
            at = fly.cross({start: amount / len(thirds)}, third, loads)
            if valiant:
                at = fly.cross(at, away, loads)
            for switch, here in at.items():
                walk(graph, [switch, end], here, loads)

    return route


def brute_force(
    graph: FabricGraph, flows: Iterable[Flow], route: Route | None = None, *, rails: bool = False
) -> NDArray[np.float64]:
    """Loads of all links, shape (2, links).

    Flows inside an HB domain take its links. With ``rails`` flows between ranks change inside the
    first domain, or inside the last one where the first has no GPU of the rank. The network is
    routed by ``route``, or by ECMP through switches.
    """
    loads: Loads = defaultdict(float)
    inside = ecmp(network_of(graph, inside=True), frozenset())
    gpus = frozenset(np.flatnonzero(graph.node_kind == GPU).tolist())
    outside = route or ecmp(network_of(graph, inside=False), gpus)
    size = graph.hb_size
    for source, target, amount in flows:
        (home, rank), (away, turn) = divmod(source, size), divmod(target, size)
        if home == away and size > 1:
            inside((source, target, amount), loads)
        elif rails and rank != turn:
            relay = home * size + turn
            if relay < graph.gpus:
                inside((source, relay, amount), loads)
                outside((relay, target, amount), loads)
            else:
                outside((source, away * size + rank, amount), loads)
                inside((away * size + rank, target, amount), loads)
        else:
            outside((source, target, amount), loads)
    return as_array(graph, loads)


def as_array(graph: FabricGraph, loads: Mapping[tuple[int, int], float]) -> NDArray[np.float64]:
    """Loads by (link, sender) as rows forward and back."""
    table = np.zeros((2, graph.link_count))
    for (link, sender), amount in loads.items():
        table[0 if graph.source[link] == sender else 1, link] += amount
    return table


def net_outflow(graph: FabricGraph, link_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
    """What leaves each node less what enters it, shape (nodes,)."""
    out = np.zeros(graph.node_count)
    for row, (tail, head) in enumerate(
        ((graph.source, graph.target), (graph.target, graph.source))
    ):
        np.add.at(out, tail, link_bytes[row])
        np.subtract.at(out, head, link_bytes[row])
    return out
