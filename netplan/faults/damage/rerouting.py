"""Loads after rerouting: over the links that are left.

Traffic takes its usual ways as far as they are alive: inside an HB domain its links, between
domains the network, on a rail-only fabric first the domain and then the rail. Over either, all
live shortest paths share it as switches do (`netplan.traffic.routing_ecmp`). A flow whose usual
way is cut takes the shortest live paths over all links, through the GPUs of HB domains too: a
*detour*. Where switches are joined directly what is left of the network is routed adaptively, as
the whole fabric is (below), or over shortest paths where these do better.

What a failed GPU sends or should receive is *lost*; what no live path joins is *cut*. Throughput is
the largest common factor at which all demands fit, read as bytes a second: 0 if any is cut.

Tori are routed by shortest paths too, since their own routing knows no failures. Compare damage
with :func:`reroute` on the intact fabric, not with their own routing.

Adaptive routing of joined switches on what failures leave: shortest paths and detours.

What is left of switches that are joined directly is routed as the whole fabric is
(`netplan.traffic.routing_joined`): over the live links all traffic is split between shortest paths
and detours over any live switch so that the busiest link is least busy. With nothing failed that is
the routing of the whole fabric.

GPUs whose ports lead nowhere, or to a few switches only that hang together with nobody else, send
what their ports do not reach through the GPUs of their HB domain: evenly through all that have
ports, and from there like these.
"""

from collections.abc import Iterator
from functools import cached_property
from math import inf, isfinite
from typing import Literal

import numpy as np
from msgspec import Struct
from scipy.sparse import coo_array, hstack, identity

from netplan.arrays import AnyInts, Bools, Floats, Ints, distinct_values
from netplan.errors import InputError
from netplan.faults.damage.cuts import Cuts
from netplan.faults.damage.damage import Damage, directed, find_components, network_links, no_damage
from netplan.topologies.graph import GPU, FabricGraph, connected_parts, host_ends
from netplan.traffic import routing_joined
from netplan.traffic.demand import Leg, check_demand, split_demand
from netplan.traffic.flow_paths import Entries, FlowPaths, PathChoice, check_pairs, split_entries
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.routing import Routing, forwarding_nodes, joins_all, link_loads
from netplan.traffic.routing_ecmp import Arcs, ecmp_loads, make_arcs

Ends = tuple[Ints, Ints]
LinkKind = Literal["domain", "network", "all"]
LiveRouting = Literal["auto", "ecmp"]
"""As the whole fabric is routed, as far as that knows failures, or by shortest paths alone."""


class Rerouted(Struct, frozen=True, eq=False):
    """Traffic on what is left of a fabric.

    Parameters
    ----------
    loads
        Loads of all links of the fabric; those that are out carry nothing.
    lost_bytes
        Traffic of GPUs that have failed [B].
    cut_bytes
        Traffic between live GPUs that no live path joins [B].
    detour_bytes
        Traffic that left its usual way [B].
    """

    loads: LinkLoads
    lost_bytes: float
    cut_bytes: float
    detour_bytes: float

    @property
    def throughput(self) -> float:
        """Largest common factor at which all demands fit, in bytes a second [1]."""
        if self.cut_bytes > 0:
            return 0.0
        return 1.0 / self.loads.busiest_s if self.loads.busiest_s else float("inf")


def reroute(
    graph: FabricGraph, damage: Damage, demand: TrafficMatrix, routing: LiveRouting = "auto"
) -> Rerouted:
    """Route a demand over what is left of a fabric.

    Parameters
    ----------
    graph, damage
        The fabric, and what has failed.
    demand
        Traffic between its GPUs.
    routing
        "ecmp" takes shortest paths on switches that are joined directly, too.

    Raises
    ------
    InputError
        If the demand or the damage is for another fabric, or uniform groups are too large to list.

    Examples
    --------
    GPU 0 sends to GPU 9, which is on rail 1. Its own port is out, and GPU 1 forwards for it.

    >>> from types import SimpleNamespace
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.faults.damage.scenario import parse_faults
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(gpus=64, radix=16, hb_size=8,
    ...                 hb_bytes_per_s=350e9, network_bytes_per_s=50e9)
    >>> graph = expand(FABRICS.load("rail-optimized"), sizing)
    >>> demand = SimpleNamespace(gpus=64, source=np.array([0]), destination=np.array([9]),
    ...                          flow_bytes=np.array([50e9]), groups=())
    >>> found = reroute(graph, parse_faults(["gpu-0:1"], graph), demand)
    >>> found.detour_bytes, found.throughput
    (50000000000.0, 1.0)
    """
    return LiveRouter(graph, damage, routing).reroute(demand)


class _LiveLegs(Struct, frozen=True, eq=False):
    """Flows by their ways over what is left: usual ones over the network, detours, in HB domains.

    ``lost`` are flows of failed GPUs, ``cut`` those without a path, ``detour`` those that left
    their usual way, shape (flows,).
    """

    direct: Leg
    rest: Leg
    inside: Leg
    lost: Bools
    cut: Bools
    detour: Bools


class LiveRouter(Struct, frozen=True, eq=False, dict=True):
    """Routing over what is left of a fabric, for many demands; parameters as of `reroute`."""

    graph: FabricGraph
    damage: Damage
    routing: LiveRouting = "auto"

    def reroute(self, demand: TrafficMatrix) -> Rerouted:
        """Route a demand; what is lost and cut is left out and told."""
        graph = self.graph
        check_demand(demand, graph.gpus)
        flows = split_demand(demand, 1).network.listed()
        legs = self._legs(flows)
        loads = self._adaptive(legs)[0] if self._is_adaptive else self._shortest(legs)
        loads += self._along("domain", legs.inside)
        return Rerouted(
            LinkLoads(graph, loads),
            lost_bytes=float(flows.flow_bytes[legs.lost].sum()),
            cut_bytes=float(flows.flow_bytes[legs.cut].sum()),
            detour_bytes=float(flows.flow_bytes[legs.detour].sum()),
        )

    def _legs(self, flows: Leg) -> "_LiveLegs":
        """The ways that flows take over what is left."""
        graph, down = self.graph, self.damage.node_down
        # HB domains forward between rails where the intact network does not join all GPUs.
        forwards = graph.has("hb") and not joins_all(graph, np.flatnonzero(self._outer))
        lost: Bools = down[flows.source] | down[flows.destination]
        ends = flows.source.astype(np.int64), flows.destination.astype(np.int64)
        inner, outer = _ways(graph, *ends, forwarding=forwards)
        usual = ~lost & (self._inside[inner[0]] == self._inside[inner[1]])
        usual &= self._joined_outside(*outer)
        detour = ~lost & ~usual & (self._component[ends[0]] == self._component[ends[1]])
        amount = flows.flow_bytes
        return _LiveLegs(
            direct=_leg(usual, outer, amount),
            rest=_leg(detour, ends, amount),
            inside=_leg(usual, inner, amount),
            lost=lost,
            cut=~lost & ~usual & ~detour,
            detour=detour,
        )

    @property
    def _is_adaptive(self) -> bool:
        """Whether what is left of the network is routed adaptively."""
        return self.routing == "auto" and routing_joined.has_joined_switches(self.graph)

    def loads(self, demand: TrafficMatrix) -> LinkLoads:
        """Bytes on every link, where all of a demand can be sent.

        Raises
        ------
        InputError
            If GPUs that send or receive have failed, or nothing joins two of them.
        """
        rerouted = self.reroute(demand)
        if rerouted.lost_bytes or rerouted.cut_bytes:
            self._check(split_demand(demand, 1).network.listed())
        return rerouted.loads

    def _check(self, flows: Leg) -> "_LiveLegs":
        """Ways of flows, all of which have one."""
        legs = self._legs(flows)
        without = np.flatnonzero(legs.lost | legs.cut)
        if len(without):
            ends = flows.source[without[0]], flows.destination[without[0]]
            first, last = (self.graph.node_name(int(end)) for end in ends)
            raise InputError(
                f"{first} cannot reach {last}: what has failed leaves no path between them; ask"
                " netplan faults how a job goes on without them"
            )
        return legs

    def paths(
        self,
        source: AnyInts,
        destination: AnyInts,
        capacity: Floats,  # noqa: ARG002 - of paths that are in closed form
        *,
        way: PathChoice = "split",
        seed: int = 0,  # noqa: ARG002 - of paths that are hashed
        connection: Ints | None = None,  # noqa: ARG002 - likewise
    ) -> FlowPaths:
        """The links of each flow over what is left, as `PathRouter.paths` has them.

        Parameters
        ----------
        source, destination
            GPUs of each flow, shape (flows,).
        capacity, seed, connection
            As there; they change nothing here.
        way
            Split: nothing else knows failures.

        Returns
        -------
        FlowPaths
            Their links and shares.

        Raises
        ------
        InputError
            If nothing joins the ends of a flow, or their paths would take gigabytes.
        """
        if way != "split":
            raise InputError(f"{way} paths know no ways round failures: take ecmp")
        numbers = np.arange(1.0, len(source) + 1)
        legs = self._check(Leg(source, destination, numbers))
        return FlowPaths.of(self._entries(legs), len(source), self.graph)

    def _entries(self, legs: "_LiveLegs") -> Iterator[Entries]:
        """Links and shares of flows; of adaptive routing by the mix of all of them."""
        mix = self._adaptive(legs)[1] if self._is_adaptive else None
        kinds: list[tuple[LinkKind, Leg]] = [("domain", legs.inside)]
        if mix is None:
            kinds += [("network", legs.direct), ("all", legs.rest)]
        else:
            yield from self._partly_direct(legs, mix)
        for kind, leg in kinds:
            yield from split_entries(self.graph, self._arcs_of(kind), leg)

    def _partly_direct(self, legs: "_LiveLegs", mix: float) -> Iterator[Entries]:
        """Links and shares of flows of which so much goes direct, flow by flow."""
        nothing = legs.rest.some(np.zeros(len(legs.rest.source), bool))
        check_pairs(self.graph, len(legs.direct.source) + len(legs.rest.source))
        for is_direct, leg in ((True, legs.direct), (False, legs.rest)):
            for index in range(len(leg.source)):
                part = slice(index, index + 1)
                alone = Leg(leg.source[part], leg.destination[part], np.ones(1))
                both = (alone, nothing) if is_direct else (nothing, alone)
                loads = self._by_mix(*both, mix)[0].ravel()
                codes = np.flatnonzero(loads)
                number = int(leg.flow_bytes[index]) - 1
                yield np.full(len(codes), number), codes, loads[codes]

    @cached_property
    def _live(self) -> Bools:
        """Whether a link is alive, shape (links,)."""
        return ~self.damage.links_out(self.graph)

    @cached_property
    def _outer(self) -> Bools:
        """Whether a link is outside HB domains, shape (links,)."""
        return network_links(self.graph)

    @cached_property
    def _passing(self) -> Bools:
        """Whether a node passes on traffic of others over the network, shape (nodes,)."""
        return forwarding_nodes(self.graph, np.flatnonzero(self._outer))

    @cached_property
    def _inside(self) -> Ints:
        """Component of each node over live links of HB domains, shape (nodes,)."""
        return find_components(self.graph, self.damage, self._live & ~self._outer).component

    @cached_property
    def _component(self) -> Ints:
        """Component of each node over all live links, shape (nodes,)."""
        return find_components(self.graph, self.damage, self._live).component

    @cached_property
    def _reach(self) -> Ints:
        """Components of nodes that pass traffic on which each node has a link to; -1 fills up.

        A node that passes traffic on has its own. Shape (nodes, most).
        """
        graph, passing, live = self.graph, self._passing, self._live & self._outer
        between = live & passing[graph.source] & passing[graph.target]
        component = find_components(graph, self.damage, between).component
        tail, head = directed(graph, np.flatnonzero(live))
        ends = passing[head] & ~passing[tail]
        passes, size = np.flatnonzero(passing), np.int64(graph.node_count)
        node = np.concatenate([passes, tail[ends]])
        reached = component[np.append(passes, head[ends])]
        node, reached = np.divmod(distinct_values(node * size + reached), size)
        count = np.bincount(node, minlength=graph.node_count)
        place = np.arange(len(node)) - np.repeat(np.cumsum(count) - count, count)
        reach = np.full((graph.node_count, max(1, int(count.max(initial=0)))), -1, np.int64)
        reach[node, place] = reached
        return reach

    def _joined_outside(self, first: Ints, second: Ints) -> Bools:
        """Whether live network links join two nodes, for each pair."""
        joined: Bools = first == second
        columns = self._reach.T
        for column in columns:
            component = column[first]
            known = component >= 0
            for other in columns:
                joined |= known & (component == other[second])
        return joined

    def _shortest(self, legs: "_LiveLegs") -> Floats:
        """Loads of usual ways over the network, and of detours, over shortest paths [B]."""
        return self._along("network", legs.direct) + self._along("all", legs.rest)

    def _adaptive(self, legs: "_LiveLegs") -> tuple[Floats, float | None]:
        """Loads of the same as adaptive routing has them [B], and the share that goes direct [1].

        Where that is worse, shortest paths, of which there is no share.
        """
        if not self._joined[0].planes:  # all switches are gone
            return self._shortest(legs), None
        loads, mix = self._by_mix(legs.direct, legs.rest)
        used = self._outer & self._live
        if self._live[self._outer].all():
            return loads, mix
        shortest = self._shortest(legs)
        busiest_s, shortest_s = (
            float((bytes_ / self.graph.bytes_per_s)[:, used].max(initial=0.0))
            for bytes_ in (loads, shortest)
        )
        return (loads, mix) if busiest_s <= shortest_s else (shortest, None)

    def _by_mix(self, direct: Leg, rest: Leg, mix: float | None = None) -> tuple[Floats, float]:
        """Loads where a share goes direct, the best one if none is given, and that share."""
        (planes, ways), graph = self._joined, self.graph
        gpus, present = graph.gpus, planes.present
        both = present[:, gpus + rest.source] & present[:, gpus + rest.destination]
        reached: Bools = np.any(both, axis=0)
        near = rest.some(reached)
        relayed = Leg(gpus + near.source, gpus + near.destination, near.flow_bytes)
        hosts, straight, detours = routing_joined.joined_ways(planes, direct.plus(relayed), ways)
        if mix is None:
            mix = routing_joined.share_with_hosts(graph, hosts, straight, detours)
        loads = hosts + (mix * straight + (1 - mix) * detours)
        loads += self._along("domain", self._to_relays(relayed))
        loads += self._along("all", rest.some(~reached))
        return loads, mix

    def _along(self, kind: LinkKind, leg: Leg) -> Floats:
        """Loads over live shortest paths, split evenly [B], shape (2, links)."""
        if not len(leg.source):
            return np.zeros((2, self.graph.link_count))
        ways = ecmp_loads(self._arcs_of(kind), leg.source, leg.destination, leg.flow_bytes)
        return ways.reshape(2, -1)

    def _arcs_of(self, kind: LinkKind) -> Arcs:
        """Live links of HB domains, of the network, or all."""
        if kind not in self._arcs:
            graph, live = self.graph, self._live
            links = {"domain": live & ~self._outer, "network": live & self._outer, "all": live}
            passing = self._passing if kind == "network" else np.ones(graph.node_count, bool)
            self._arcs[kind] = make_arcs(
                graph.source, graph.target, passing, np.flatnonzero(links[kind])
            )
        return self._arcs[kind]

    @cached_property
    def _arcs(self) -> dict[str, Arcs]:
        """Links that traffic goes by, as far as they were asked for."""
        return {}

    @cached_property
    def _joined(self) -> tuple[routing_joined.JoinedMap, routing_joined.Ways]:
        """Planes that are left, GPUs twice: alone, and with who sends for them; and ways.

        That is a GPU alone, or all of its domain with ports, shape (GPUs that send, GPUs).
        """
        graph, gpus = self.graph, self.graph.gpus
        served = _served(graph, np.flatnonzero(self._outer), self._live)
        component = self._inside[:gpus]
        shape = (gpus, int(component.max()) + 1)
        able = coo_array((served.astype(float), (np.arange(gpus), component)), shape=shape).tocsc()
        row, column = coo_array(able[:, component[~served]]).coords
        entry = np.concatenate((np.flatnonzero(served), row))
        whose = np.concatenate((np.flatnonzero(served), np.flatnonzero(~served)[column]))
        relays = coo_array((np.ones(len(entry)), (entry, whose)), shape=(gpus, gpus)).tocsr()
        senders = hstack([identity(gpus, format="csr"), relays], format="csr")
        links = np.flatnonzero(self._outer & self._live)
        return routing_joined.joined_map(graph, links, senders), routing_joined.ways_left(graph)

    def _to_relays(self, relayed: Leg) -> Leg:
        """Traffic between GPUs and those who send for them, inside their HB domains."""
        graph, gpus, planes, parts = self.graph, self.graph.gpus, self._joined[0], []
        for plane, leg in zip(planes.planes, planes.by_plane(relayed), strict=True):
            sent, received = leg.ends(2 * gpus)
            taken = coo_array(plane.taken[:, gpus:])
            relay, whose = host_ends(graph, plane.hosts)[0][taken.row].astype(np.int64), taken.col
            apart = relay != whose
            relay, whose, share = relay[apart], whose[apart], taken.data[apart]
            parts.append((whose, relay, share * sent[gpus + whose]))
            parts.append((relay, whose, share * received[gpus + whose]))
        source, target, amount = (np.concatenate(column) for column in zip(*parts, strict=True))
        some = amount > 0
        return Leg(source[some], target[some], amount[some])


def _served(graph: FabricGraph, network: Ints, live: Bools) -> Bools:
    """Whether each GPU has a port to the main piece of a plane, with most GPUs, shape (gpus,)."""
    ends = graph.source[network], graph.target[network]
    between = (graph.node_kind[ends[0]] != GPU) & (graph.node_kind[ends[1]] != GPU)
    alive = live[network]

    def parts(links: Bools) -> Ints:
        return connected_parts(graph.node_count, ends[0][links], ends[1][links])

    whole, left = parts(between), parts(between & alive)
    gpu, switch = host_ends(graph, network[~between & alive])
    size = np.bincount(left[switch], minlength=graph.node_count)
    order = np.argsort(size[left[switch]], kind="stable")
    main = np.full(graph.node_count, -1, np.int64)
    main[whole[switch[order]]] = left[switch[order]]  # the last one written is the largest
    served = np.zeros(graph.gpus, bool)
    served[gpu[main[whole[switch]] == left[switch]]] = True
    return served


def _leg(chosen: Bools, ways: Ends, amount: Floats) -> Leg:
    """Some of the flows on their ways, without those that stay where they are."""
    source, target = ways
    used = chosen & (source != target)
    return Leg(source[used], target[used], amount[used])


def _ways(
    graph: FabricGraph, source: Ints, destination: Ints, *, forwarding: bool
) -> tuple[Ends, Ends]:
    """Usual ways of flows: ends inside an HB domain, and ends over the network.

    As `netplan.traffic.demand.split_demand` has them, flow by flow.
    """
    if not graph.has("hb"):
        return (source, source), (source, destination)
    size = graph.hb_size
    same = source // size == destination // size
    if not forwarding:
        middle = np.where(same, destination, source)
        return (source, middle), (middle, destination)
    relay = source // size * size + destination % size
    early = relay < graph.gpus
    last = destination // size * size + source % size
    # Over the domain first, then along the rail; where the relay is missing, the other way round.
    inner = np.where(early, source, last), np.where(early, relay, destination)
    outer = np.where(early, relay, source), np.where(early, destination, last)
    return inner, outer


class TrainingLoads(Struct, frozen=True):
    """Traffic of one iteration of the intact plan, sent over what is left.

    Parameters
    ----------
    busiest_link
        Ends of the network link that needs longest, in the direction of its load.
    busiest_s, intact_busiest_s
        Time of the busiest network link, after the failure and before [s]: with adaptive routing
        where switches are joined directly, else with equal splitting. After is never less than
        before: where the mix for what is left is better than that for the whole fabric, by which
        routing came closer to the best one, the whole fabric's counts.
    cut_s, intact_cut_s
        The same over the narrowest cut, which no routing beats (`netplan.faults.damage.cuts`), with
        the traffic of failed GPUs on others [s]; None if nothing passes it.
    detour_bytes, lost_bytes, cut_bytes
        Traffic that left its usual way, of failed GPUs, and between live GPUs without a path [B].
    adaptive
        Whether switches are joined directly, and routed adaptively.
    """

    busiest_link: str
    busiest_s: float
    intact_busiest_s: float
    cut_s: float | None
    intact_cut_s: float | None
    detour_bytes: float
    lost_bytes: float
    cut_bytes: float
    adaptive: bool = False


def training_loads(
    graph: FabricGraph, damage: Damage, matrix: TrafficMatrix, *, cuts: Cuts | None = None
) -> TrainingLoads:
    """Route the traffic of one iteration before and after a failure.

    Parameters
    ----------
    graph, damage
        The fabric, and what has failed.
    matrix
        Traffic of one iteration.
    cuts
        Blocks of the fabric under that traffic; None leaves out the times over them.

    Examples
    --------
    Two GPUs of two domains talk over their own rail; their link fails, and others forward.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.scenario import parse_faults
    >>> from netplan.traffic.matrix import flows_matrix
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> matrix = flows_matrix(64, source=[0], destination=[8], flow_bytes=[50e9])
    >>> found = training_loads(graph, parse_faults(["gpu-0:1"], graph), matrix)
    >>> found.intact_busiest_s, found.detour_bytes, found.cut_bytes
    (1.0, 50000000000.0, 0.0)
    """
    after = reroute(graph, damage, matrix)
    busiest, seconds = _busiest(after.loads)
    sent = not after.lost_bytes and not after.cut_bytes
    joined = routing_joined.has_joined_switches(graph)
    routing: Routing = "auto" if joined else "ecmp"
    before_s = _busiest(link_loads(graph, matrix, routing=routing))[1]
    cut_s = cuts.time_s(damage) if cuts else inf
    return TrainingLoads(
        busiest_link=busiest,
        busiest_s=max(seconds, before_s) if joined and sent else seconds,
        intact_busiest_s=before_s,
        cut_s=cut_s if isfinite(cut_s) else None,
        intact_cut_s=cuts.time_s(no_damage(graph)) if cuts else None,
        detour_bytes=after.detour_bytes,
        lost_bytes=after.lost_bytes,
        cut_bytes=after.cut_bytes,
        adaptive=joined,
    )


def _busiest(loads: LinkLoads) -> tuple[str, float]:
    """The network link that needs longest, links inside HB domains left out."""
    of_network = np.where(network_links(loads.graph), loads.link_bytes, 0.0)
    hottest = LinkLoads(loads.graph, of_network).hottest(1)
    if not hottest:
        return "none", 0.0
    return f"{hottest[0].sender} to {hottest[0].receiver}", hottest[0].time_s
