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

Of a fabric of which parts are gone what is left is a network of joined switches again. A dragonfly
has a structure, which its routing keeps as far as it is there:

* Groups are what hangs together over local links that are left.
* Between groups traffic takes the links of the two that are left, evenly.
* Inside a group two switches without a link of their own use the shortest paths there.
* Groups that no link joins any more use shortest paths over all that is left, on detours too.

With nothing gone that is minimal routing, and detours, as `netplan.traffic.routing_dragonfly` has
them.
"""

from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial

import numpy as np
from msgspec import Struct
from scipy.sparse import coo_array, csc_array, csr_array, diags_array

from netplan.arrays import Bools, Floats, Indices, Ints, distinct_values
from netplan.records import replace
from netplan.topologies.families.spreading import AmongAll, Pairs, SwitchMesh
from netplan.topologies.graph import GPU, SWITCH, FabricGraph, connected_parts, host_ends
from netplan.topologies.graph.splitting import Matrix
from netplan.traffic import routing_dragonfly
from netplan.traffic.demand import Leg
from netplan.traffic.matrix import sum_by
from netplan.traffic.routing_ecmp import ecmp_loads, make_arcs

STEPS = 64


def has_joined_switches(graph: FabricGraph) -> bool:
    """Whether a fabric is one of switches that are joined directly."""
    return graph.has("local", "global", "joined")


class Plane(Struct, frozen=True, eq=False, dict=True):
    """Switches that are joined, those with hosts numbered first.

    Parameters
    ----------
    node
        Node of each switch, shape (switches,).
    links
        Links between them.
    ends
        Switches at both ends of each of these, by their numbers, shape (2, links).
    number
        Number of each node; -1 of those that are elsewhere, shape (nodes,).
    group
        Group of each switch with hosts, shape (switches with hosts,).
    hubs
        Whether groups have switches without hosts, which share what stays inside.
    hosts
        Links of GPUs to these switches.
    taken
        Share that each of them takes of what each GPU sends over the plane, shape (hosts, gpus)
        [1].
    seats
        The same by switch, shape (switches with hosts, gpus) [1].
    """

    node: Ints
    links: Ints
    ends: Ints
    number: Ints
    group: Ints
    hubs: bool
    hosts: Ints
    taken: Matrix
    seats: Matrix

    @cached_property
    def mesh(self) -> SwitchMesh:
        """Switches and links, with weights that keep what is spread over all switches even."""
        return SwitchMesh(len(self.node), len(self.group), *self.ends).balanced()

    def demand(self, leg: Leg) -> Matrix:
        """What each switch with hosts sends to each other one [B], shape (switches, switches)."""
        flows = coo_array(
            (leg.flow_bytes, (leg.source, leg.destination)), shape=(self.seats.shape[1],) * 2
        )
        demand = self.seats @ flows.tocsr() @ self.seats.T
        for products in leg.products:
            seats = csc_array(self.seats)[:, products.gpu]
            out, into = (seats @ factor for factor in routing_dragonfly.product_factors(products))
            demand = demand + products.pair_bytes * (out @ into.T)  # never listed
        demand = coo_array(demand)
        apart = (demand.row != demand.col) & (demand.data > 0)
        kept = demand.data[apart], (demand.row[apart], demand.col[apart])
        return csc_array(coo_array(kept, shape=demand.shape))


class JoinedMap(Struct, frozen=True, eq=False, dict=True):
    """Planes of joined switches, and where the GPUs are: host links, their GPUs and switches."""

    graph: FabricGraph
    planes: tuple[Plane, ...]
    hosts: Ints
    gpu: Indices
    switch: Indices

    @cached_property
    def weight(self) -> Floats:
        """That of each link of the graph among those that lead nearer, shape (links,)."""
        weight = np.ones(self.graph.link_count)
        for plane in self.planes:
            weight[plane.links] = plane.mesh.weights
        return weight

    @cached_property
    def present(self) -> Bools:
        """Whether each GPU sends over each plane, shape (planes, gpus)."""
        return np.stack([plane.taken.sum(axis=0) > 0 for plane in self.planes])

    def by_plane(self, leg: Leg) -> list[Leg]:
        """Traffic of each plane: as much for each of those that both GPUs have ports in."""
        count = len(self.planes)
        if count == 1:
            return [leg]
        if self.present.all():
            share = 1 / count
            products = (replace(part, pair_bytes=part.pair_bytes * share) for part in leg.products)
            amount = leg.flow_bytes * share
            return [Leg(leg.source, leg.destination, amount, tuple(products))] * count
        flows = leg.listed()
        common = self.present[:, flows.source] & self.present[:, flows.destination]
        amount = flows.flow_bytes / np.maximum(common.sum(axis=0), 1)
        return [Leg(flows.source[some], flows.destination[some], amount[some]) for some in common]


def joined_map(graph: FabricGraph, network: Ints, relays: Matrix | None = None) -> JoinedMap:
    """Read planes, groups and host links off a graph.

    Parameters
    ----------
    graph, network
        The fabric, and its links in no HB domain, or those of them that are left.
    relays
        Which GPUs (rows) send for each of some senders (columns), shape (gpus, senders) [1]; None
        says that each sends for itself. Traffic is then that between senders.
    """
    first, second = graph.source[network], graph.target[network]
    to_host = (graph.node_kind[first] == GPU) | (graph.node_kind[second] == GPU)
    hosts, between = network[to_host], network[~to_host]
    gpu, switch = host_ends(graph, hosts)
    grouped = graph.has("local", "up")
    inside = between[graph.is_role("local", "up")[between]]
    part = connected_parts(graph.node_count, graph.source[between], graph.target[between])
    group = connected_parts(graph.node_count, graph.source[inside], graph.target[inside])
    tier = graph.node_tier[graph.node_kind == SWITCH].min(initial=1)
    planes = []
    for plane_part in distinct_values(part[switch]):
        node = np.flatnonzero((part == plane_part) & (graph.node_kind != GPU))
        takes_hosts = graph.node_tier[node] == tier
        node = np.concatenate((node[takes_hosts], node[~takes_hosts]))
        number = np.full(graph.node_count, -1, np.int64)
        number[node] = np.arange(len(node))
        with_hosts = node[: int(takes_hosts.sum())]
        links = between[part[graph.source[between]] == plane_part]
        here = part[switch] == plane_part
        taken = _taken(gpu[here], graph.gpus, relays)
        seat = number[switch[here]], np.arange(np.count_nonzero(here))
        seats = coo_array((np.ones(len(seat[0])), seat), shape=(len(with_hosts), len(seat[0])))
        planes.append(
            Plane(
                node=node,
                links=links,
                ends=np.stack((number[graph.source[links]], number[graph.target[links]])),
                number=number,
                group=group[with_hosts] if grouped else np.arange(len(with_hosts)),
                hubs=len(with_hosts) < len(node),
                hosts=hosts[here],
                taken=taken,
                seats=seats.tocsr() @ taken,
            )
        )
    return JoinedMap(graph, tuple(planes), hosts, gpu, switch)


def _taken(gpu: Indices, gpus: int, relays: Matrix | None) -> Matrix:
    """Share that each link of these GPUs takes of what each GPU sends, shape (links, gpus)."""
    ones = np.ones(len(gpu))
    taken = coo_array((ones, (np.arange(len(gpu)), gpu)), shape=(len(gpu), gpus)).tocsr()
    taken = taken if relays is None else taken @ relays
    ports = np.asarray(taken.sum(axis=0)).ravel()
    return csr_array(taken @ diags_array(1 / np.where(ports > 0, ports, 1.0)))


Ways = Callable[[FabricGraph, Plane, Matrix], tuple[Floats, Floats]]
"""Loads of what switches send to each other, all over shortest paths and all on detours [B], shape
(2, links) each."""


def joined_ways(joined: JoinedMap, leg: Leg, ways: Ways) -> tuple[Floats, Floats, Floats]:
    """Loads of the links of hosts, and between switches over both ways [B], (2, links) each.

    Parameters
    ----------
    joined, leg
        The switches, and the traffic.
    ways
        Both ways between the switches of a plane: :func:`switch_ways`, or those of dragonflies.
    """
    graph = joined.graph
    hosts, direct, detours = np.zeros((3, 2, graph.link_count))
    for plane, part in zip(joined.planes, joined.by_plane(leg), strict=True):
        loads = np.zeros((2, graph.link_count))  # each port of a GPU the same
        for row, amount in enumerate(part.ends(plane.taken.shape[1])):
            loads[row, plane.hosts] = plane.taken @ amount
        turned = plane.hosts[graph.node_kind[graph.source[plane.hosts]] != GPU]
        loads[:, turned] = loads[::-1, turned]
        hosts += loads
        if len(plane.links):
            shortest, detour = ways(graph, plane, plane.demand(part))
            direct += shortest
            detours += detour
    return hosts, direct, detours


def switch_ways(graph: FabricGraph, plane: Plane, demand: Matrix) -> tuple[Floats, Floats]:
    """Shortest paths by weights, and detours over any switch with hosts."""
    loads = plane.mesh.each_loads(((Pairs(demand),), tuple(_spreads(plane, demand))))
    both = np.zeros((2, 2, graph.link_count))
    both[:, :, plane.links] = loads
    if plane.hubs:  # what stays in groups with spines goes over all of these by shortest paths
        pairs = coo_array(demand)
        stays = plane.group[pairs.row] == plane.group[pairs.col]
        arcs = make_arcs(graph.source, graph.target, graph.node_kind != GPU, plane.links)
        ends = plane.node[pairs.row[stays]], plane.node[pairs.col[stays]]
        both[1] += ecmp_loads(arcs, *ends, pairs.data[stays]).reshape(2, -1)
    return both[0], both[1]


def _spreads(plane: Plane, demand: Matrix) -> Iterator[AmongAll]:
    """What is spread over all switches, and over those of groups, in both halves of detours."""
    hosts, pairs = len(plane.group), coo_array(demand)
    leaves = plane.group[pairs.row] != plane.group[pairs.col]

    def spread(some: Bools, part: Ints, size: int | Ints) -> AmongAll:
        ends = (pairs.row, pairs.col)
        sent, received = (sum_by(end[some], pairs.data[some], hosts) / size for end in ends)
        return AmongAll(part, sent, received)

    yield spread(leaves, np.zeros(hosts, np.int64), hosts)
    if not plane.hubs and not leaves.all():
        size = np.bincount(plane.group)[plane.group]
        yield spread(~leaves, plane.group, size)


def share_with_hosts(graph: FabricGraph, hosts: Floats, direct: Floats, detours: Floats) -> float:
    """What goes direct in the best mix of both ways, beside the loads of hosts [1]."""
    rate = np.broadcast_to(graph.bytes_per_s, hosts.shape)
    least_s = float(np.divide(hosts, rate, out=np.zeros_like(hosts), where=rate > 0).max())
    return direct_share(direct, detours, rate, least_s)


def direct_share(direct: Floats, detours: Floats, bytes_per_s: Floats, least_s: float) -> float:
    """What goes direct so that the busiest link is least busy [1].

    Links that are busy for ``least_s`` in any case, those of hosts, hold nothing up.

    Examples
    --------
    Direct, 8 B share one link; on detours each of four links carries 4.

    >>> direct, detours = np.array([8.0, 0, 0, 0]), np.full(4, 4.0)
    >>> [direct_share(direct, detours, np.ones(4), least_s) for least_s in (0.0, 6.0)]
    [0.0, 0.5]
    """
    used = bytes_per_s > 0
    direct_s, detours_s = (
        np.where(used, loads / np.where(used, bytes_per_s, 1), 0) for loads in (direct, detours)
    )
    least_s = max(least_s, _least_busy(direct_s.ravel(), detours_s.ravel()))
    rising = direct_s > detours_s
    room = (least_s - detours_s[rising]) / (direct_s - detours_s)[rising]
    return min(1.0, float(room.min(initial=1.0)))


def _least_busy(direct_s: Floats, detours_s: Floats) -> float:
    """Least time of the busiest link over all shares of the two ways [s].

    The busiest link of a share is a line in it; of all of them the lower hull falls, then rises:
    where the lines at two ends meet it is no higher, and one end moves there.
    """

    def line(share: float) -> tuple[float, float]:
        busiest = int((share * direct_s + (1 - share) * detours_s).argmax())
        return float(detours_s[busiest]), float(direct_s[busiest] - detours_s[busiest])

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


def ways_left(graph: FabricGraph) -> Ways:
    """Shortest paths and detours of what is left of a fabric of joined switches."""
    if not routing_dragonfly.is_dragonfly(graph):
        return switch_ways

    left = cache(partial(_DragonflyLeft.of, graph))
    return lambda _, plane, demand: left(plane).ways(demand)


class _DragonflyLeft(Struct, frozen=True, eq=False):
    """What is left of a dragonfly: its switches by their numbers in a plane and in a map.

    ``mesh`` are all its links, for what no link joins the groups of.
    """

    graph: FabricGraph
    plane: Plane
    number: Ints
    dragonfly: routing_dragonfly.DragonflyMap
    mesh: SwitchMesh

    @classmethod
    def of(cls, graph: FabricGraph, plane: Plane) -> "_DragonflyLeft":
        """What a plane holds."""
        number, dragonfly = routing_dragonfly.damaged_map(graph, plane.node, plane.links)
        numbers = number[plane.node]
        mesh = SwitchMesh(len(numbers), len(numbers), *numbers[plane.ends])
        return cls(graph, plane, numbers, dragonfly, mesh)

    def ways(self, demand: Matrix) -> tuple[Floats, Floats]:
        """Loads over links between groups, and on detours [B], shape (2, links) each."""
        pairs, links, dragonfly = coo_array(demand), self.graph.link_count, self.dragonfly
        leg = Leg(self.number[pairs.row], self.number[pairs.col], pairs.data)
        direct = routing_dragonfly.dragonfly_loads(dragonfly, leg, links)
        detours = routing_dragonfly.dragonfly_detours(dragonfly, leg, links)
        if not dragonfly.joined.all():
            group = dragonfly.group_of_switch
            apart = ~dragonfly.joined[group[leg.source], group[leg.destination]]
            shape = (dragonfly.switches,) * 2
            kept = leg.flow_bytes[apart], (leg.source[apart], leg.destination[apart])
            lost = Pairs(csc_array(coo_array(kept, shape=shape)))
            loads = self.mesh.each_loads(((lost,), (self._spread(leg),)))
            direct[:, self.plane.links] += loads[0]
            detours[:, self.plane.links] += loads[1]
        return direct, detours

    def _spread(self, leg: Leg) -> AmongAll:
        """Halves of detours between groups that no link joins any more."""
        dragonfly = self.dragonfly
        group = dragonfly.group_of_switch
        leaves = group[leg.source] != group[leg.destination]
        amount = leg.flow_bytes[leaves] / dragonfly.switches
        sent, received = (
            sum_by(end[leaves], amount, dragonfly.switches) for end in (leg.source, leg.destination)
        )
        return AmongAll(group, sent, received, ~dragonfly.joined)
