"""Bandwidth between two HB domains: a max-flow on what is left of the fabric.

capacity(A, B) is the max-flow from all live GPUs of domain A to all of domain B, over live links.
GPUs of other domains pass nothing on (but where the network has no other way, as in tori and
BCubes, they pass on what comes over its links).

The graph of the flow is reduced first, without changing any answer: A and B become one node each,
parallel links become one, and a domain that passes nothing on is left out.

No flow exceeds the *egress* of A or B, a cut: a domain has links of h(v) bytes a second to the node
v, mostly a leaf, which has o(v) to all other nodes; cut each v at the smaller of the two, and the
sum over v of min(h(v), o(v)) can leave. A flow that damage spares is still there: of a damaged
fabric only those pairs are computed again whose flow led over what is lost.

scipy's max-flow counts in whole numbers. The unit is the greatest common divisor of all rates, so
that the answer is exact; where rates have none to speak of, it is the largest rate over 2^20, and
the answer falls short by less than a millionth of that rate for each link.
"""

from functools import cached_property
from math import gcd

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, distinct_values
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
"""Units of all links of a domain, at most: SciPy counts in 32 bits [1]."""


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
    def lost(self) -> tuple[int, Ints]:
        """Capacity that all have lost, and that each domain has for itself alone, in units."""
        reduced, intact = self.reduced, self.reduced.intact
        own = np.where(intact.transit > 0, 0.0, intact.ending - self.ending)
        at = reduced.domain[reduced.ends].max(axis=0)
        alone = sum_by(at[own > 0], own[own > 0], self.domains)
        return int((intact.transit - self.transit).sum()), alone.astype(np.int64)

    def lost_units(self, a: Ints, b: Ints) -> Ints:
        """What a flow between two domains has lost of the intact one at the most, in units.

        A smallest cut loses no more than all that is gone, and of what domains lost for themselves
        alone a pair has its own two.
        """
        shared, alone = self.lost
        return shared + alone[a] + alone[b]

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
        """A largest flow between two domains, computed anew."""
        domain, ends = self.reduced.domain, self.reduced.ends
        source, sink = len(domain), len(domain) + 1
        ends = np.where(domain[ends] == a, source, np.where(domain[ends] == b, sink, ends))
        ending = (ends >= source).any(axis=0)
        return largest_flow(ends, np.where(ending, self.ending, self.transit), source, sink)


def reduced_graph(graph: FabricGraph) -> ReducedGraph:
    """Reduce a fabric to a graph on which max-flows are quick.

    Examples
    --------
    Domain 0 has lost rail 0 and domain 1 rail 1: six of eight rails are left.

    >>> from netplan import Scenario
    >>> from netplan.faults.scenario import parse_faults
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=256, radix=32)
    >>> graph = scenario.fabric("rail-only").graph()
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
    distinct = distinct_values(rates[rates > 0])
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
