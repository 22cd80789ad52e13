"""A router in plain Python: slow, one flow at a time, written from the definitions.

Only the arrays of a graph are taken from netplan, never its routing. Loads are keyed by
(link, sender), so that parallel links and both directions stay apart.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from math import prod

import networkx as nx
import numpy as np

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


def torus_walks(sizes: tuple[int, ...], source: int, target: int) -> list[list[int]]:
    """Walks of dimension-order routing between two positions, all equally likely."""
    walks = [[source]]
    for axis, size in enumerate(sizes):
        stride = prod(sizes[:axis])
        steps = (target // stride - source // stride) % size
        ways = [(1, steps), (-1, size - steps)]
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


def dimension_order(graph: FabricGraph, sizes: tuple[int, ...]) -> Route:
    """Dimension order on a torus of HB domains, one torus a rail."""

    def route(flow: Flow, loads: Loads) -> None:
        source, target, amount = flow
        (a, rank), (b, same) = divmod(source, graph.hb_size), divmod(target, graph.hb_size)
        assert rank == same
        walks = torus_walks(sizes, a, b)
        for path in walks:
            nodes = [position * graph.hb_size + rank for position in path]
            walk(graph, nodes, amount / len(walks), loads)

    return route


def dragonfly(graph: FabricGraph, per_group: int, *, valiant: bool = False) -> Route:
    """Minimal or Valiant routing; groups of ``per_group`` consecutive switches."""
    first = int(np.flatnonzero(graph.node_tier == 1)[0])
    switch_of = dict(
        zip(
            *(end[graph.links_of("host")].tolist() for end in (graph.source, graph.target)),
            strict=True,
        )
    )
    gates: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for link in graph.links_of("global").tolist():
        a, b = int(graph.source[link]), int(graph.target[link])
        groups = (a - first) // per_group, (b - first) // per_group
        gates[groups].append((a, b, link))
        gates[groups[::-1]].append((b, a, link))
    count = (graph.node_count - first) // per_group

    def group(switch: int) -> int:
        return (switch - first) // per_group

    def cross(start: int, goal: int, amount: float, loads: Loads) -> dict[int, float]:
        """From a switch to another group, over all links alike; what arrives where."""
        arrived: dict[int, float] = defaultdict(float)
        links = gates[group(start), goal]
        for leave, arrive, link in links:
            walk(graph, [start, leave], amount / len(links), loads)
            loads[link, leave] += amount / len(links)
            arrived[arrive] += amount / len(links)
        return arrived

    def route(flow: Flow, loads: Loads) -> None:
        source, target, amount = flow
        start, end = switch_of[source], switch_of[target]
        walk(graph, [source, start], amount, loads)
        walk(graph, [end, target], amount, loads)
        if group(start) == group(end):
            walk(graph, [start, end], amount, loads)
            return
        thirds = [k for k in range(count) if k not in (group(start), group(end))]
        for third in thirds if valiant else [group(end)]:
            part = amount / (len(thirds) if valiant else 1)
            at = cross(start, third, part, loads)
            if valiant:
                there = at
                at = defaultdict(float)
                for switch, here in there.items():
                    for arrive, much in cross(switch, group(end), here, loads).items():
                        at[arrive] += much
            for switch, here in at.items():
                walk(graph, [switch, end], here, loads)

    return route


def brute_force(
    graph: FabricGraph, flows: Iterable[Flow], route: Route | None = None, *, rails: bool = False
) -> np.ndarray:
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


def as_array(graph: FabricGraph, loads: Mapping[tuple[int, int], float]) -> np.ndarray:
    """Loads by (link, sender) as rows forward and back."""
    table = np.zeros((2, graph.link_count))
    for (link, sender), amount in loads.items():
        table[0 if graph.source[link] == sender else 1, link] += amount
    return table


def net_outflow(graph: FabricGraph, link_bytes: np.ndarray) -> np.ndarray:
    """What leaves each node less what enters it, shape (nodes,)."""
    out = np.zeros(graph.node_count)
    for row, (tail, head) in enumerate(
        ((graph.source, graph.target), (graph.target, graph.source))
    ):
        np.add.at(out, tail, link_bytes[row])
        np.subtract.at(out, head, link_bytes[row])
    return out
