"""Loads of switches that are joined directly: shortest paths, detours, and the best mix of both.

Over shortest paths all that a switch sends to its neighbour shares the links between the two, while
others idle. Networks of this kind are therefore run with non-minimal paths: HyperX, Slim Fly and
dragonflies by adaptive routing, which sends a packet on a detour over another switch where queues
are long, Jellyfish over its k shortest paths.

``detours``
    Every message goes to a switch of those with hosts, evenly over all of them, and from there
    where it is bound, over shortest paths both times. Inside a group of switches the detour stays
    there, or all spines of the group share it.
``adaptive``
    Of all traffic the same share goes over shortest paths, the rest on detours: as much over
    shortest paths as leaves the busiest link least busy. It is a limit of UGAL, which decides
    packet by packet and needs to know queues far away.

Shortest paths split by weights of links, by which what is spread over all switches busies them
alike (`netplan.topologies.families.spreading`).

Sources: Kim, Dally, Scott and Abts (ISCA 2008) and Singh (thesis, Stanford 2005) for UGAL; Besta
and Hoefler (SC 2014) for Slim Fly; Ahn et al. (SC 2009) for HyperX; Shpiner et al. (HiPINEB 2017)
for dragonfly+. Left out: virtual channels, and shortcuts of packets that turn back on a detour.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.topologies.families.joined_switches import BETWEEN_SWITCHES
from netplan.topologies.families.spreading import Spread, SwitchMesh
from netplan.topologies.graph import GPU, FabricGraph, connected_parts
from netplan.traffic.demand import Leg
from netplan.traffic.matrix import sum_by
from netplan.traffic.routing_dragonfly import GLOBAL, LOCAL
from netplan.traffic.routing_ecmp import ecmp_loads, make_arcs

INSIDE = (LOCAL, "leaf-spine")
"""Links inside groups of switches."""
BETWEEN = (
    LOCAL,
    GLOBAL,
    "between groups",
    BETWEEN_SWITCHES,
    "between subgraphs",
    "inside groups",
    "dimension ",
)
"""Links of networks whose switches are joined directly, which no other ones have."""
STEPS = 64


def has_joined_switches(graph: FabricGraph) -> bool:
    """Whether a fabric is one of switches that are joined directly, by the names of its links."""
    return any(name.startswith(BETWEEN) for name in graph.group_names)


class Plane(Struct, frozen=True, eq=False):
    """Switches that are joined, those with hosts numbered first.

    Parameters
    ----------
    node
        Node of each switch, shape (switches,).
    links
        Links between them.
    mesh
        The same for what is spread over all switches, with weights that keep it even.
    number
        Number of each node; -1 of those that are elsewhere, shape (nodes,).
    group
        Group of each switch with hosts, shape (switches with hosts,).
    hubs
        Whether groups have switches without hosts, which share what stays inside.
    """

    node: Ints
    links: Ints
    mesh: SwitchMesh
    number: Ints
    group: Ints
    hubs: bool


class JoinedMap(Struct, frozen=True, eq=False):
    """Planes of joined switches, and where the GPUs are: host links, their GPUs and switches.

    ``weight`` is that of each link of the graph among those that lead nearer, shape (links,).
    """

    planes: tuple[Plane, ...]
    hosts: Ints
    gpu: Ints
    switch: Ints
    ports: Ints
    weight: Floats


def joined_map(graph: FabricGraph, network: Ints) -> JoinedMap:
    """Read planes, groups and host links off a graph; ``network`` are links in no HB domain."""
    first, second = graph.source[network], graph.target[network]
    to_host = (graph.node_kind[first] == GPU) | (graph.node_kind[second] == GPU)
    hosts, between = network[to_host], network[~to_host]
    ends = graph.source[hosts], graph.target[hosts]
    is_first = graph.node_kind[ends[0]] == GPU
    gpu, switch = np.where(is_first, *ends), np.where(is_first, *ends[::-1])
    codes = [code for code, name in enumerate(graph.group_names) if name in INSIDE]
    inside = between[np.isin(graph.group[between], codes)]
    part = connected_parts(graph.node_count, graph.source[between], graph.target[between])
    group = connected_parts(graph.node_count, graph.source[inside], graph.target[inside])
    tier = graph.node_tier[switch].min(initial=1)
    planes = []
    for one in np.unique(part[switch]):
        node = np.flatnonzero((part == one) & (graph.node_kind != GPU))
        takes_hosts = graph.node_tier[node] == tier
        node = np.concatenate((node[takes_hosts], node[~takes_hosts]))
        number = np.full(graph.node_count, -1, np.int64)
        number[node] = np.arange(len(node))
        with_hosts = node[: int(takes_hosts.sum())]
        labels = group[with_hosts] if codes else np.arange(len(with_hosts))
        hubs = len(with_hosts) < len(node)
        links = between[part[graph.source[between]] == one]
        ends = number[graph.source[links]], number[graph.target[links]]
        mesh = SwitchMesh(len(node), len(with_hosts), *ends).balanced()
        planes.append(Plane(node, links, mesh, number, labels, hubs))
    weight = np.ones(graph.link_count)
    for plane in planes:
        weight[plane.links] = plane.mesh.weights
    ports = np.bincount(gpu, minlength=graph.gpus)
    return JoinedMap(tuple(planes), hosts, gpu, switch, ports, weight)


def host_loads(graph: FabricGraph, joined: JoinedMap, leg: Leg) -> Floats:
    """Load of the links of hosts [B], each port of a GPU the same, shape (2, links)."""
    loads = np.zeros((2, graph.link_count))
    for row, amount in enumerate(leg.ends(graph.gpus)):
        loads[row, joined.hosts] = (amount / np.maximum(joined.ports, 1))[joined.gpu]
    turned = joined.hosts[graph.source[joined.hosts] != joined.gpu]
    loads[:, turned] = loads[::-1, turned]
    return loads


def detour_loads(graph: FabricGraph, joined: JoinedMap, leg: Leg) -> Floats:
    """Load of the links between switches where all messages take detours [B], shape (2, links)."""
    loads = np.zeros((2, graph.link_count))
    for plane in joined.planes:
        if not len(plane.links):
            continue
        here = plane.number[joined.switch] >= 0
        switch = np.full(graph.gpus, -1, np.int64)
        switch[joined.gpu[here]] = plane.number[joined.switch[here]]
        share = 1.0 / np.maximum(joined.ports, 1)
        spreads = tuple(_spreads(plane, leg, switch, share))
        loads[:, plane.links] += plane.mesh.loads(spreads)
        if plane.hubs:
            loads += _in_groups(graph, plane, leg, switch, share)
    return loads


def _spreads(plane: Plane, leg: Leg, switch: Ints, share: Floats) -> Iterator[Spread]:
    """What is spread over all switches, and over those of groups, in both halves of detours."""
    hosts = len(plane.group)
    group = np.append(plane.group, -1)[switch]
    whole = np.zeros(hosts, np.int64)
    apart = _leaving(leg, group, switch, share, hosts)
    if plane.hubs or len(np.unique(plane.group)) == hosts:
        yield Spread(whole, *(amount / hosts for amount in apart))
        return
    yield Spread(whole, *(amount / hosts for amount in apart))
    size = np.bincount(plane.group)[plane.group]
    leaving = _leaving(leg, switch, switch, share, hosts)
    inside = (every - away for every, away in zip(leaving, apart, strict=True))
    yield Spread(plane.group, *(amount / size for amount in inside))


def _leaving(
    leg: Leg, place: Ints, switch: Ints, share: Floats, hosts: int
) -> tuple[Floats, Floats]:
    """What each switch sends to and takes from GPUs in other places, shape (hosts,) each [B]."""
    some = switch >= 0
    sent, received = leg.leaving(place)
    return (
        sum_by(switch[some], (sent * share)[some], hosts),
        sum_by(switch[some], (received * share)[some], hosts),
    )


def _in_groups(graph: FabricGraph, plane: Plane, leg: Leg, switch: Ints, share: Floats) -> Floats:
    """What stays in groups with spines goes over all of these: shortest paths do that."""
    flows = leg.listed()
    group = np.append(plane.group, -1)[switch]
    source, destination = switch[flows.source], switch[flows.destination]
    stays = (group[flows.source] == group[flows.destination]) & (source != destination)
    arcs = make_arcs(graph.source, graph.target, graph.node_kind != GPU, plane.links)
    ends = plane.node[source[stays]], plane.node[destination[stays]]
    amount = flows.flow_bytes[stays] * share[flows.source[stays]]
    return ecmp_loads(arcs, *ends, amount).reshape(2, -1)


def best_mix(direct: Floats, detours: Floats, bytes_per_s: Floats, least_s: float) -> Floats:
    """Loads where as much goes direct as keeps the busiest link least busy [B].

    Links that are busy for ``least_s`` in any case, those of hosts, hold nothing up.

    Examples
    --------
    Direct, 8 B share one link; on detours each of four links carries 4.

    >>> found = best_mix(np.array([8.0, 0, 0, 0]), np.full(4, 4.0), np.ones(4), 0.0)
    >>> found.tolist()
    [4.0, 4.0, 4.0, 4.0]
    >>> best_mix(np.array([8.0, 0, 0, 0]), np.full(4, 4.0), np.ones(4), 6.0).tolist()
    [6.0, 2.0, 2.0, 2.0]
    """
    used = bytes_per_s > 0
    one, other = (
        np.where(used, loads / np.where(used, bytes_per_s, 1), 0) for loads in (direct, detours)
    )
    least_s = max(least_s, _least_busy(one.ravel(), other.ravel()))
    rising = one > other
    room = (least_s - other[rising]) / (one - other)[rising]
    share = min(1.0, float(room.min(initial=1.0)))
    return share * direct + (1 - share) * detours


def _least_busy(one: Floats, other: Floats) -> float:
    """Least time of the busiest link over all shares of the two ways [s].

    The busiest link of a share is a line in it; of all of them the lower hull falls, then rises:
    where the lines at two ends meet it is no higher, and one end moves there.
    """

    def line(share: float) -> tuple[float, float]:
        at = int((share * one + (1 - share) * other).argmax())
        return float(other[at]), float(one[at] - other[at])

    low, high = line(0.0), line(1.0)
    if low[1] >= 0:
        return low[0]
    if high[1] <= 0:
        return high[0] + high[1]
    for _ in range(STEPS):
        share = (high[0] - low[0]) / (low[1] - high[1])
        here = line(share)
        height = here[0] + share * here[1]
        if height <= (low[0] + share * low[1]) * (1 + 1e-12):
            break
        low, high = (here, high) if here[1] < 0 else (low, here)
    return height
