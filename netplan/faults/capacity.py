"""Bandwidth between two HB domains: a max-flow on what is left of the fabric.

capacity(A, B) is the max-flow from all live GPUs of domain A to all of domain B, over live links.
GPUs of other domains pass nothing on (but where the network has no other way, as in tori and
BCubes, they pass on what comes over its links); with ``through_domains`` they also pass traffic on
through their HB domains, which joins what the network alone leaves apart.

The graph of the flow is reduced first, without changing any answer:

* A and B become one node each; a domain that passes nothing on is left out;
* parallel links become one;
* the HB switches of a domain become one if each has live links to all its live GPUs, alike for
  every GPU: then an even split over them is as good as any other;
* a GPU between one network switch and that one HB switch becomes a link of the smaller rate.

scipy's max-flow counts in whole numbers. The unit is the greatest common divisor of all rates, so
that the answer is exact; where rates have none to speak of, it is the largest rate over 2^20, and
the answer falls short by less than a millionth of that rate for each link.
"""

from dataclasses import dataclass
from math import gcd

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from netplan.arrays import Bools, Ints
from netplan.errors import InputError
from netplan.faults.damage import Damage
from netplan.faults.effects import network_links
from netplan.faults.groups import domain_of_node
from netplan.topologies.graph import GPU, HB_SWITCH, FabricGraph
from netplan.traffic.products import sum_by
from netplan.traffic.routing import forwarding_nodes

MAX_CAPACITY = (1 << 31) - 1
"""scipy's max-flow counts in 32 bits."""
STEPS_PER_RATE = 1 << 20
MAX_UNITS = 1 << 30
"""Units of all links of a domain."""


@dataclass(frozen=True, slots=True, eq=False)
class FlowNetwork:
    """Links of the reduced graph; GPUs and HB switches belong to a domain.

    Parameters
    ----------
    domains, nodes
        HB domains, and nodes of the reduced graph [1].
    first, second
        The nodes that a link joins, shape (links,).
    first_domain, second_domain
        Their HB domains, -1 for network switches.
    transit, ending
        Capacity for the traffic of others, and for that of the domain at one of its ends, in units.
    unit_bytes_per_s
        What a capacity of 1 stands for [B/s].
    """

    domains: int
    nodes: int
    first: Ints
    second: Ints
    first_domain: Ints
    second_domain: Ints
    transit: Ints
    ending: Ints
    unit_bytes_per_s: float

    def capacity_bytes_per_s(self, a: int, b: int) -> float:
        """Max-flow between two domains, one way [B/s]; the same both ways, as links are duplex.

        Raises
        ------
        InputError
            If a domain is unknown, or both are the same.
        """
        if not (0 <= a < self.domains and 0 <= b < self.domains) or a == b:
            raise InputError(
                f"no bandwidth between domains {a} and {b}: give two of 0 to {self.domains - 1}"
            )
        source, sink = self.nodes, self.nodes + 1
        first = self._merged(self.first, self.first_domain, a, b)
        second = self._merged(self.second, self.second_domain, a, b)
        ends = (first >= source) | (second >= source)
        capacity = np.where(ends, self.ending, self.transit)
        used = (capacity > 0) & (first != second)
        limit = capacity[used].clip(max=MAX_CAPACITY).astype(np.int32)
        rows = np.concatenate([first[used], second[used]])
        columns = np.concatenate([second[used], first[used]])
        shape = (self.nodes + 2, self.nodes + 2)
        limits = csr_array((np.tile(limit, 2), (rows, columns)), shape=shape)
        return int(maximum_flow(limits, source, sink).flow_value) * self.unit_bytes_per_s

    def _merged(self, node: Ints, domain: Ints, a: int, b: int) -> Ints:
        """Nodes with all of domain a as the source, and all of b as the sink."""
        return np.where(domain == a, self.nodes, np.where(domain == b, self.nodes + 1, node))


def flow_network(
    graph: FabricGraph, damage: Damage, *, through_domains: bool = False
) -> FlowNetwork:
    """Reduce what is left of a fabric to a graph on which max-flows are quick.

    Parameters
    ----------
    graph
        The fabric.
    damage
        What has failed.
    through_domains
        Whether HB domains pass on traffic of others.

    Raises
    ------
    InputError
        If the damage is that of another graph.

    Examples
    --------
    Domain 0 has lost rail 0 and domain 1 rail 1. Of eight rails six are left, and a seventh way
    leads over rail 1 to another domain, through it, and on over rail 0.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.faults.scenario import parse_faults
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(256, 32, 8, 450e9, 50e9))
    >>> damage = parse_faults(["gpu-0:1", "gpu-9:1"], graph)
    >>> for through_domains in (False, True):
    ...     network = flow_network(graph, damage, through_domains=through_domains)
    ...     print(network.capacity_bytes_per_s(0, 1) / 50e9)
    6.0
    7.0
    """
    outer = network_links(graph)
    live = np.flatnonzero(~damage.links_out(graph) & (through_domains | outer))
    passing = through_domains or bool(forwarding_nodes(graph, np.flatnonzero(outer))[0])
    unit = _unit(graph, outer)
    links = _Links(
        graph.source[live].astype(np.int64),
        graph.target[live].astype(np.int64),
        np.floor(graph.bytes_per_s[live] / unit + 1e-9).astype(np.int64),
        outer[live],
    )
    domain = domain_of_node(graph)
    if through_domains:
        links, transit = _through_hubs(graph, damage, links, domain)
    elif passing:
        transit = links.rate
    else:
        links, domain, transit = _ending_only(graph, links, domain)
    return _added_up(graph.domains, links, domain, transit, unit)


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """Live links: nodes, rate in units, and whether they are of the network, shape (links,)."""

    first: Ints
    second: Ints
    rate: Ints
    outer: Bools

    def kept(self, keep: Bools) -> "_Links":
        """Some of the links."""
        return _Links(self.first[keep], self.second[keep], self.rate[keep], self.outer[keep])


def _ending_only(graph: FabricGraph, links: _Links, domain: Ints) -> tuple[_Links, Ints, Ints]:
    """Links where GPUs pass nothing on: those of a domain to a switch end in one place."""
    ends = np.stack((links.first, links.second))
    at_gpu = ends < graph.gpus
    ends[at_gpu] = ends[at_gpu] // graph.hb_size * graph.hb_size
    # A link between GPUs of two domains gets nodes of its own, so that nothing passes through.
    direct = np.flatnonzero(at_gpu.all(axis=0))
    fresh = graph.node_count + np.arange(2 * len(direct)).reshape(2, -1)
    domain = np.concatenate([domain, domain[ends[:, direct]].ravel()])
    ends[:, direct] = fresh
    transit = np.where(at_gpu.any(axis=0), 0, links.rate)
    return _Links(ends[0], ends[1], links.rate, links.outer), domain, transit


def _through_hubs(
    graph: FabricGraph, damage: Damage, links: _Links, domain: Ints
) -> tuple[_Links, Ints]:
    """Links where domains pass traffic on: GPUs of plain domains become links to their hub."""
    inner = links.kept(~links.outer)
    plain = _plain_domains(graph, damage, links, domain)
    hub = np.full(graph.domains, -1, np.int64)
    switches = np.flatnonzero((graph.node_kind == HB_SWITCH) & ~damage.node_down)
    hub[domain[switches[::-1]]] = switches[::-1]
    gpu = np.minimum(inner.first, inner.second)
    inside = sum_by(gpu, inner.rate.astype(np.float64), graph.node_count).astype(np.int64)
    links = links.kept(links.outer | ~plain[domain[links.first]])
    ends = np.stack((links.first, links.second))
    transit = links.rate.copy()
    for row in range(2):
        merged = np.flatnonzero((ends[row] < graph.gpus) & links.outer)
        merged = merged[plain[domain[ends[row, merged]]]]
        transit[merged] = np.minimum(transit[merged], inside[ends[row, merged]])
        ends[row, merged] = hub[domain[ends[row, merged]]]
    return _Links(ends[0], ends[1], links.rate, links.outer), transit


def _plain_domains(graph: FabricGraph, damage: Damage, links: _Links, domain: Ints) -> Bools:
    """Domains of live GPUs with one network link each, and HB switches alike for all of them.

    Parallel links to one switch count one each, and make a domain less than plain; it is then kept
    as it is, which costs time and changes nothing.
    """
    plain = np.ones(graph.domains, bool)
    alive = np.flatnonzero(~damage.node_down[: graph.gpus])
    members = np.bincount(alive // graph.hb_size, minlength=graph.domains)
    outer, inner = links.kept(links.outer), links.kept(~links.outer)
    at_gpu = np.concatenate([outer.first, outer.second])
    ports = np.bincount(at_gpu, minlength=graph.node_count)[: graph.gpus]
    both = np.flatnonzero((outer.first < graph.gpus) & (outer.second < graph.gpus))
    plain[np.flatnonzero(ports > 1) // graph.hb_size] = False
    plain[np.concatenate([domain[outer.first[both]], domain[outer.second[both]]])] = False
    gpu, hub = np.minimum(inner.first, inner.second), np.maximum(inner.first, inner.second)
    plain[domain[gpu[graph.node_kind[hub] == GPU]]] = False
    fan = np.bincount(hub, minlength=graph.node_count)
    pairs = np.unique(gpu * np.int64(graph.node_count) + hub)
    distinct = np.bincount(pairs % graph.node_count, minlength=graph.node_count)
    uneven = (fan[hub] != members[domain[gpu]]) | (distinct[hub] != fan[hub])
    plain[domain[gpu[uneven]]] = False
    lowest = np.full(graph.gpus, MAX_CAPACITY)
    highest = np.zeros(graph.gpus, np.int64)
    at_hub = gpu < graph.gpus
    np.minimum.at(lowest, gpu[at_hub], inner.rate[at_hub])
    np.maximum.at(highest, gpu[at_hub], inner.rate[at_hub])
    plain[alive[lowest[alive] != highest[alive]] // graph.hb_size] = False
    return plain


def _added_up(domains: int, links: _Links, domain: Ints, transit: Ints, unit: float) -> FlowNetwork:
    """Add parallel links up."""
    nodes = np.int64(len(domain))
    low, high = np.minimum(links.first, links.second), np.maximum(links.first, links.second)
    key, place = np.unique(low * nodes + high, return_inverse=True)
    first, second = np.divmod(key, nodes)
    passing, ending = (
        sum_by(place, amount.astype(np.float64), len(key)).astype(np.int64)
        for amount in (transit, links.rate)
    )
    ends = first, second, domain[first], domain[second]
    return FlowNetwork(domains, int(nodes), *ends, passing, ending, unit)


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
