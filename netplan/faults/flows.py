"""Bandwidth between two HB domains: a max-flow on what is left of the fabric.

capacity(A, B) is the max-flow from all live GPUs of domain A to all of domain B, over live links.
GPUs of other domains pass nothing on (but where the network has no other way, as in tori and
BCubes, they pass on what comes over its links).

The graph of the flow is reduced first, without changing any answer: A and B become one node each,
parallel links become one, and a domain that passes nothing on is left out.

A flow on some of the links is a lower bound. An upper one is the *egress* of A or B, a cut: a
domain has links of h(v) bytes a second to the node v, mostly a leaf, which has o(v) to all other
nodes; cut each v at the smaller of the two, and the sum over v of min(h(v), o(v)) can leave. So the
links near the shortest ways between the two are tried first, and a flow on them that is as large as
the smaller egress is the answer; only else the whole fabric is asked. A flow that damage spares is
still there: of a damaged fabric only those pairs are computed again whose flow led over what is
lost.

scipy's max-flow counts in whole numbers. The unit is the greatest common divisor of all rates, so
that the answer is exact; where rates have none to speak of, it is the largest rate over 2^20, and
the answer falls short by less than a millionth of that rate for each link.
"""

from functools import cached_property
from math import gcd

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.faults.blocks import BlockTree
from netplan.faults.damage import Damage, network_links, no_damage
from netplan.faults.groups import domain_of_node
from netplan.faults.joined import MovedFlows, Rings, join, widest
from netplan.faults.max_flow import Flow, largest_flow
from netplan.topologies.graph import FabricGraph
from netplan.traffic.matrix import sum_by
from netplan.traffic.routing import forwarding_nodes

STEPS_PER_RATE = 1 << 20
MAX_UNITS = 1 << 30
"""Units of all links of a domain."""
DETOURS = (0, 2, 4)
"""Steps that a way may be longer than the shortest, to be tried before all ways are [1].

Within a group of a dragonfly, ways over a third switch take one more; in a torus, one that starts
in the wrong direction takes four more.
"""


class ReducedGraph(Struct, frozen=True, eq=False, dict=True):
    """Where the links of a fabric are in its reduced graph, the same for all damage.

    Parameters
    ----------
    graph
        The fabric.
    domain
        HB domain of each node of the reduced graph, -1 for network switches, shape (nodes,).
    ends
        The two nodes that each of its links joins, shape (2, reduced links).
    used, place
        Links of the fabric in it, and the reduced link that each is part of, shape (used,).
    transit, ending
        Capacity of each for the traffic of others, and for that of the domain at one of its ends,
        in units, shape (used,).
    unit_bytes_per_s
        What a capacity of 1 stands for [B/s].
    """

    graph: FabricGraph
    domain: Ints
    ends: Ints
    used: Ints
    place: Ints
    transit: Floats
    ending: Floats
    unit_bytes_per_s: float

    def left(self, damage: Damage) -> "FlowNetwork":
        """What damage leaves.

        Raises
        ------
        InputError
            If the damage is that of another graph.
        """
        live = ~damage.links_out(self.graph)
        rates = (self.transit * live[self.used], self.ending * live[self.used])
        size = self.ends.shape[1]
        return FlowNetwork(self, *(sum_by(self.place, rate, size) for rate in rates))

    @cached_property
    def intact(self) -> "FlowNetwork":
        """The fabric without damage."""
        return self.left(no_damage(self.graph))

    @cached_property
    def passing(self) -> bool:
        """Whether domains pass on what is not theirs."""
        at_domain = np.any(self.domain[self.ends] >= 0, axis=0, keepdims=True)[0, self.place]
        return bool(np.any(self.transit[at_domain]))

    @cached_property
    def switched(self) -> tuple[Ints, Ints]:
        """The same with domains that pass nothing on: tiers of nodes, and ends of links.

        Domains come first, at tier 0, then all nodes that pass traffic on. A GPU that does is a
        node like a switch, and its domain joins it with as much as all of its links have: these
        links come last.
        """
        switch = np.flatnonzero(self.domain < 0)
        turn = self.turning
        node = self.domain.copy()
        node[switch] = self.graph.domains + len(turn) + np.arange(len(switch))
        node[turn] = self.graph.domains + np.arange(len(turn))
        tiers = np.append(np.zeros(len(turn), np.int64), 1 + self.graph.node_tier[switch])
        tier = 1 + np.unique(tiers, return_inverse=True)[1]
        ends = np.concatenate([node[self.ends], np.stack((self.domain[turn], node[turn]))], axis=1)
        return np.append(np.zeros(self.graph.domains, np.int64), tier), ends

    @cached_property
    def blocks(self) -> BlockTree:
        """Blocks of this graph."""
        return BlockTree.of(*self.switched)

    @cached_property
    def turning(self) -> Ints:
        """GPUs that pass on what is not theirs."""
        return np.arange(self.graph.gpus if self.passing else 0)

    @cached_property
    def moved_flows(self) -> MovedFlows | None:
        """Flows between neighbours, where GPUs on rings are the whole network."""
        if not self.passing or np.any(self.domain[self.ends] < 0):
            return None
        graph, links = self.graph, self.used
        ends = np.stack((graph.source[links], graph.target[links])).astype(np.int64)
        # "ring 1 copper" and "ring 1 optical" are one axis.
        axes = np.array([name.rpartition(" ")[0] for name in graph.group_names])
        axis = np.unique(axes, return_inverse=True)[1].astype(np.int64)
        rings = Rings.of(ends, axis[graph.group[links]], graph.gpus)
        return None if rings is None else MovedFlows.of(rings, self.transit)

    @cached_property
    def exits(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Links out of domains, which pair of a domain and a node each joins; the pairs' two."""
        inside = self.domain[self.ends]
        link, side = np.nonzero((inside >= 0).T & (inside[0] != inside[1])[:, None])
        key, place = np.unique(
            inside[side, link] * len(self.domain) + self.ends[1 - side, link], return_inverse=True
        )
        return link, place, *np.divmod(key, len(self.domain))

    @cached_property
    def _arcs(self) -> tuple[Ints, Ints, Ints]:
        """Arcs by the node where they begin: first of each node, reduced link, where they lead."""
        tail, head = self.ends.ravel(), self.ends[::-1].ravel()
        order = np.argsort(tail, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=len(self.domain)))])
        return first, order % self.ends.shape[1], head[order]

    @cached_property
    def _regions(self) -> dict[tuple[int, int, int], Ints]:
        return {}

    def region(self, a: int, b: int, detour: int) -> Ints:
        """Links of ways between two domains that are at most so many steps too long."""
        key = a, b, detour
        if key not in self._regions:
            self._regions[key] = self._region(*key)
        return self._regions[key]

    def _region(self, a: int, b: int, detour: int) -> Ints:
        """Links between nodes x with d(a, x) + d(x, b) <= d(a, b) + detour, d in steps.

        Two balls grow about the domains until they meet; from then on each grows only where the
        other says that the way is short enough.
        """
        balls = [Ball.about(self, domain) for domain in (a, b)]
        while not any((one.steps[two.rim] >= 0).any() for one, two in (balls, balls[::-1])):
            balls.sort(key=lambda ball: len(ball.rim))
            if not len(balls[0].rim):
                return np.empty(0, np.int64)
            balls[0].grow(self)
        longest = balls[0].radius + balls[1].radius + detour
        for ball in balls * (detour // 2):
            ball.grow(self)
        for ball, other in (balls, balls[::-1]):
            while len(ball.rim):
                ball.grow(self, longest, other.steps)
        one, two = (ball.steps for ball in balls)
        inside = (one >= 0) & (two >= 0) & (one + two <= longest)
        # Nothing passes through most domains: no ball about one reaches the other.
        inside |= (self.domain == a) | (self.domain == b)
        link, head = self.arcs_from(np.flatnonzero(inside))
        near: Ints = link[inside[head] & (head == self.ends[1, link])]
        return near

    def arcs_from(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Reduced links at some nodes, and where they lead."""
        first, link, head = self._arcs
        count = first[nodes + 1] - first[nodes]
        arc = np.repeat(first[nodes] - np.cumsum(count) + count, count) + np.arange(count.sum())
        return link[arc], head[arc]


class Ball(Struct, eq=False):
    """Nodes within some steps of a domain: ``steps`` to each, -1 beyond; the last are the rim."""

    steps: Ints
    rim: Ints
    radius: int = 0

    @classmethod
    def about(cls, reduced: ReducedGraph, domain: int) -> "Ball":
        """The nodes of a domain."""
        steps = np.full(len(reduced.domain), -1, np.int64)
        rim = np.flatnonzero(reduced.domain == domain)
        steps[rim] = 0
        return cls(steps, rim)

    def grow(
        self, reduced: ReducedGraph, longest: int | None = None, others: Ints | None = None
    ) -> None:
        """One step further, to nodes whose steps from another ball keep a way short enough."""
        link, head = reduced.arcs_from(self.rim)
        if self.radius:
            head = head[reduced.intact.transit[link] > 0]
        self.radius += 1
        new = self.steps[head] < 0
        if longest is not None and others is not None:
            new &= (others[head] >= 0) & (others[head] + self.radius <= longest)
        head = head[new]
        # Of several arcs to a node the last one stands for it.
        self.steps[head] = arc = -2 - np.arange(len(head))
        self.rim = head[self.steps[head] == arc]
        self.steps[self.rim] = self.radius


class FlowNetwork(Struct, frozen=True, eq=False, dict=True):
    """A reduced graph with what is left of its capacities.

    Parameters
    ----------
    reduced
        The graph, and where the fabric's links are in it.
    transit, ending
        Capacity of each of its links for the traffic of others, and for that of the domain at one
        of its ends, in units, shape (reduced links,).
    """

    reduced: ReducedGraph
    transit: Floats
    ending: Floats

    @property
    def domains(self) -> int:
        """HB domains [1]."""
        return self.reduced.graph.domains

    @property
    def switched_units(self) -> Floats:
        """Capacities of the links of the graph in which domains pass nothing on, in units."""
        reduced = self.reduced
        if not reduced.passing:
            return self.ending
        at_node = sum_by(reduced.ends.ravel(), np.tile(self.transit, 2), len(reduced.domain))
        return np.append(self.transit, at_node[reduced.turning])

    @cached_property
    def joined(self) -> Ints:
        """Number of each node that passes traffic on, equal where no smallest cut parts them."""
        reduced, domains = self.reduced, self.domains
        tier, ends = reduced.switched
        between = (tier[ends] > 0).all(axis=0)
        moved, known = reduced.moved_flows, None
        if moved is not None:
            known = moved.join((self.transit == reduced.intact.transit)[reduced.place])
        need = widest(ends - domains, reduced.intact.switched_units, len(tier) - domains)
        return join(ends[:, between] - domains, self.switched_units[between], need, known)

    @cached_property
    def egress_bytes_per_s(self) -> Floats:
        """Bandwidth that can leave each domain, no less than any max-flow [B/s]."""
        link, place, domain, node = self.reduced.exits
        nodes = len(self.reduced.domain)
        total = sum_by(self.reduced.ends.ravel(), np.tile(self.ending, 2), nodes)
        to_node = sum_by(place, self.ending[link], len(node))
        # A GPU at the other end is a destination itself: only its own links limit what goes there.
        onward = np.where(self.reduced.domain[node] >= 0, np.inf, total[node] - to_node)
        units = sum_by(domain, np.minimum(to_node, onward), self.domains)
        return units * self.reduced.unit_bytes_per_s

    @cached_property
    def found(self) -> dict[tuple[int, int], Flow]:
        """Max-flows found so far."""
        return {}

    def capacity_bytes_per_s(self, a: int, b: int) -> float:
        """Max-flow between two domains, one way [B/s]; the same both ways, as links are duplex.

        Raises
        ------
        InputError
            If a domain is unknown, or both are the same.
        """
        return self.flow(a, b).units * self.reduced.unit_bytes_per_s

    def flow(self, a: int, b: int) -> Flow:
        """A largest flow between two domains.

        Raises
        ------
        InputError
            If a domain is unknown, or both are the same.
        """
        if not (0 <= a < self.domains and 0 <= b < self.domains) or a == b:
            raise InputError(
                f"no bandwidth between domains {a} and {b}: give two of 0 to {self.domains - 1}"
            )
        if (a, b) not in self.found:
            self.found[a, b] = self._spared(a, b) or self._largest(a, b)
        return self.found[a, b]

    def _spared(self, a: int, b: int) -> Flow | None:
        """The flow of the intact fabric, if all links that it takes are whole."""
        intact = self.reduced.intact
        flow = intact.found.get((a, b))
        if flow is None:
            return None
        at = flow.links
        whole = np.array_equal(self.transit[at], intact.transit[at])
        return flow if whole and np.array_equal(self.ending[at], intact.ending[at]) else None

    def _largest(self, a: int, b: int) -> Flow:
        """A flow on links near the shortest ways if it fills a cut, else on all links."""
        cut = round(self.egress_bytes_per_s[[a, b]].min() / self.reduced.unit_bytes_per_s)
        for detour in DETOURS:
            flow = self._flow(a, b, self.reduced.region(a, b, detour))
            if flow.units >= cut:
                return flow
        return self._flow(a, b, np.arange(len(self.transit)))

    def _flow(self, a: int, b: int, links: Ints) -> Flow:
        """A largest flow between two domains over some links of the reduced graph."""
        domain, ends = self.reduced.domain, self.reduced.ends[:, links]
        source, sink = len(domain), len(domain) + 1
        ends = np.where(domain[ends] == a, source, np.where(domain[ends] == b, sink, ends))
        ending = (ends >= source).any(axis=0)
        capacity = np.where(ending, self.ending[links], self.transit[links])
        found = largest_flow(ends, capacity, source, sink)
        return Flow(found.units, links[found.links])


def reduced_graph(graph: FabricGraph) -> ReducedGraph:
    """Reduce a fabric to a graph on which max-flows are quick.

    Examples
    --------
    Domain 0 has lost rail 0 and domain 1 rail 1: six of eight rails are left.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.faults.scenario import parse_faults
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(256, 32, 8, 450e9, 50e9))
    >>> network = reduced_graph(graph).left(parse_faults(["gpu-0:1", "gpu-9:1"], graph))
    >>> network.capacity_bytes_per_s(0, 1) / 50e9
    6.0
    """
    outer = network_links(graph)
    used = np.flatnonzero(outer)
    unit = _unit(graph, outer)
    rate = np.floor(graph.bytes_per_s[used] / unit + 1e-9)
    ends = np.stack((graph.source[used], graph.target[used])).astype(np.int64)
    domain, transit = domain_of_node(graph), rate
    if not forwarding_nodes(graph, used)[0]:
        transit = np.where((ends < graph.gpus).any(axis=0), 0.0, rate)
        ends, domain = _ending_only(graph, ends, domain)
    nodes = len(domain)
    key, place = np.unique(ends.min(axis=0) * nodes + ends.max(axis=0), return_inverse=True)
    ends = np.stack(np.divmod(key, nodes))
    return ReducedGraph(graph, domain, ends, used, place, transit, rate, unit)


def _ending_only(graph: FabricGraph, ends: Ints, domain: Ints) -> tuple[Ints, Ints]:
    """Ends where GPUs pass nothing on: links of a domain to a switch end in one place."""
    at_gpu = ends < graph.gpus
    ends = np.where(at_gpu, ends // graph.hb_size * graph.hb_size, ends)
    # A link between GPUs of two domains gets nodes of its own, so that nothing passes through.
    direct = np.flatnonzero(at_gpu.all(axis=0))
    domain = np.concatenate([domain, domain[ends[:, direct]].ravel()])
    ends[:, direct] = graph.node_count + np.arange(2 * len(direct)).reshape(2, -1)
    return ends, domain


def _unit(graph: FabricGraph, outer: Bools) -> float:
    """Rate that all others are multiples of, or a small part of the largest [B/s]."""
    rates = graph.bytes_per_s
    distinct = np.unique(rates[rates > 0])
    if not len(distinct):
        return 1.0
    total = 0.0
    for end in (graph.source, graph.target):
        at_gpu = outer & (end < graph.gpus)
        total += float(sum_by(end[at_gpu] // graph.hb_size, rates[at_gpu], graph.domains).max())
    if not np.any(distinct % 1):
        unit = float(gcd(*(int(rate) for rate in distinct)))
        if total / unit <= MAX_UNITS:
            return unit
    return max(float(distinct[-1]) / STEPS_PER_RATE, total / MAX_UNITS)
