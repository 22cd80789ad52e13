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

Closed forms bound it. A domain D has links of h(D, v) bytes a second to the node v, mostly a leaf,
which has o(D, v) to all other nodes. Cut each v at the smaller of the two:

    egress(D)   = sum over v of min(h(D, v), o(D, v))
    pair(A, B)  = the smaller of sum over v of min(h(A, v), up(v) + h(B, v)), and the same for B

up(v) is what leads from v on to nodes that forward. Both are capacities of cuts, and so never below
the max-flow. Where a single tier of switches joins the domains, up(v) = 0 and the pair's bound is
the max-flow itself. If domains forward for others, a pair's bound is that of its two egresses.

What remains next to the intact fabric is taken over all pairs of small fabrics. On large ones two
choices are made:

*affected*  domains that lost GPUs or egress, those that lost most first: each with one domain that
            lost nothing, and the worst of them with each other; they show the worst
*sampled*   pairs at random among all domains that still have a GPU; they show the mean

Damage high in a network (cores) leaves every egress whole: then only the sample sees it.
"""

from dataclasses import dataclass
from itertools import combinations
from math import gcd

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.faults.damage import Damage, network_links, no_damage
from netplan.faults.groups import domain_of_node
from netplan.topologies.graph import GPU, HB_SWITCH, SWITCH, FabricGraph
from netplan.traffic.matrix import sum_by
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


@dataclass(frozen=True, slots=True, eq=False)
class Attachments:
    """Live network links of owners (HB domains), those of an owner to one node added up.

    Parameters
    ----------
    owners
        Owners [1].
    owner, node
        Pairs of an owner and the node at the other end, by owner and node, shape (pairs,).
    bytes_per_s
        h, the rate of all links between them, one direction [B/s], shape (pairs,).
    up_bytes_per_s, other_bytes_per_s
        Of the node: what leads to nodes that forward, and to all nodes but the owner [B/s].
    """

    owners: int
    owner: Ints
    node: Ints
    bytes_per_s: Floats
    up_bytes_per_s: Floats
    other_bytes_per_s: Floats

    @property
    def egress_bytes_per_s(self) -> Floats:
        """Bandwidth that can leave each owner [B/s], shape (owners,)."""
        least = np.minimum(self.bytes_per_s, self.other_bytes_per_s)
        return sum_by(self.owner, least, self.owners)

    def pair_bytes_per_s(self, first: Ints, second: Ints) -> Floats:
        """Bound on what two owners can exchange without others forwarding [B/s], shape (pairs,)."""
        return np.minimum(self._one_way(first, second), self._one_way(second, first))

    def _one_way(self, first: Ints, second: Ints) -> Floats:
        """Sum over v of min(h(A, v), up(v) + h(B, v)), for each pair A, B."""
        start = np.searchsorted(self.owner, np.arange(self.owners + 1))
        count = np.diff(start)[first]
        pair = np.repeat(np.arange(len(first)), count)
        entry = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count - start[first], count)
        width = int(self.node.max(initial=0)) + 1
        keys = self.owner * width + self.node
        wanted = second[pair] * width + self.node[entry]
        place = np.searchsorted(keys, wanted).clip(max=max(0, len(keys) - 1))
        shared = np.where(keys[place] == wanted, self.bytes_per_s[place], 0.0)
        least = np.minimum(self.bytes_per_s[entry], self.up_bytes_per_s[entry] + shared)
        return sum_by(pair, least, len(first))


def attachments(graph: FabricGraph, damage: Damage) -> Attachments:
    """Live network links of every HB domain.

    Raises
    ------
    InputError
        If the damage is that of another graph.
    """
    network = network_links(graph)
    live = np.flatnonzero(network & ~damage.links_out(graph))
    forwards = forwarding_nodes(graph, np.flatnonzero(network))
    forwards &= (graph.node_kind == SWITCH) | (graph.node_kind == GPU)
    size, owners = graph.hb_size, graph.domains
    tail = np.concatenate([graph.source[live], graph.target[live]]).astype(np.int64)
    head = np.concatenate([graph.target[live], graph.source[live]]).astype(np.int64)
    rate = np.tile(graph.bytes_per_s[live], 2)
    total = sum_by(tail, rate, graph.node_count)
    up = sum_by(tail, rate * forwards[head], graph.node_count)
    leaves = (tail < graph.gpus) & ~_same_owner(tail, head, graph.gpus, size)
    key, place = np.unique(
        tail[leaves] // size * np.int64(graph.node_count) + head[leaves], return_inverse=True
    )
    owner, node = np.divmod(key, graph.node_count)
    own = sum_by(place, rate[leaves], len(key))
    # A GPU at the other end is a destination itself: only its own links limit what goes there.
    at_gpu = node < graph.gpus
    up_ = np.where(at_gpu, np.inf, up[node])
    return Attachments(owners, owner, node, own, up_, np.where(at_gpu, np.inf, total[node] - own))


def _same_owner(tail: Ints, head: Ints, gpus: int, size: int) -> Bools:
    """Whether a link joins two GPUs of one owner."""
    same: Bools = (head < gpus) & (tail // size == head // size)
    return same


MAX_PAIRS = 300
"""Pairs computed unless more are asked for: about 2 s at 32,768 GPUs, both fabrics together."""
WORST = 6
"""Domains that lost most, which are also paired with each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Remaining:
    """Bandwidth between pairs of HB domains, one way.

    Parameters
    ----------
    first, second
        The two domains of each pair, shape (pairs,).
    bytes_per_s, intact_bytes_per_s
        Max-flow on what is left, and on the intact fabric [B/s], shape (pairs,).
    bound_bytes_per_s
        Closed-form bound on what is left, never below the max-flow [B/s], shape (pairs,).
    sampled
        Whether a pair was drawn at random, or all were taken, shape (pairs,).
    all_pairs
        Pairs of domains that still have a GPU, computed or not [1].
    domains_lost
        Domains that have no GPU left [1].
    egress_share
        Egress of each domain next to the intact one [1], shape (domains,).
    """

    first: Ints
    second: Ints
    bytes_per_s: Floats
    intact_bytes_per_s: Floats
    bound_bytes_per_s: Floats
    sampled: Bools
    all_pairs: int
    domains_lost: int
    egress_share: Floats

    @property
    def share(self) -> Floats:
        """What is left of each pair's bandwidth [1]; pairs that never had any count as whole."""
        had = self.intact_bytes_per_s > 0
        intact = np.where(had, self.intact_bytes_per_s, 1.0)
        left: Floats = np.where(had, self.bytes_per_s / intact, 1.0)
        return left

    @property
    def worst_share(self) -> float:
        """Smallest share over the pairs computed [1]; 0 without any pair."""
        return float(self.share.min()) if len(self.share) else 0.0

    @property
    def mean_share(self) -> float:
        """Mean share over the pairs drawn at random, or over all [1]; 0 without any pair."""
        drawn = self.share[self.sampled]
        return float(drawn.mean()) if len(drawn) else 0.0

    @property
    def note(self) -> str:
        """Which pairs were computed, in a sentence."""
        count = len(self.first)
        if count == self.all_pairs:
            return f"All {count:,} pairs of HB domains are computed."
        drawn = int(self.sampled.sum())
        return (
            f"Of {self.all_pairs:,} pairs of HB domains {count:,} are computed:"
            f" {count - drawn:,} of domains that lost GPUs or ports, for the worst, and {drawn:,}"
            " at random, for the mean."
        )


def remaining_bandwidth(
    graph: FabricGraph,
    damage: Damage,
    *,
    through_domains: bool = False,
    max_pairs: int = MAX_PAIRS,
    rng: np.random.Generator | None = None,
    intact: FlowNetwork | None = None,
) -> Remaining:
    """Bandwidth that remains between HB domains.

    Parameters
    ----------
    graph
        The fabric.
    damage
        What has failed.
    through_domains
        Whether HB domains pass on traffic of others.
    max_pairs
        Pairs to compute at most; with more, some are chosen as this module says [1].
    rng
        Draws the pairs; None takes a generator with seed 0.
    intact
        Reduced graph of the intact fabric, where many damages of one fabric are asked for.

    Raises
    ------
    InputError
        If the damage is that of another graph, or no pair may be computed.

    Examples
    --------
    One of eight rails is lost.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.faults.scenario import parse_faults
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(128, 16, 8, 450e9, 50e9))
    >>> left = remaining_bandwidth(graph, parse_faults(["rail-3/leaf-0", "domain-5"], graph))
    >>> left.worst_share, left.mean_share, left.all_pairs, left.domains_lost
    (0.875, 0.875, 105, 1)
    """
    if max_pairs < 1:
        raise InputError(f"{max_pairs} pairs of HB domains are too few: give 1 or more")
    rng = np.random.default_rng(0) if rng is None else rng
    whole, left = attachments(graph, no_damage(graph)), attachments(graph, damage)
    had = whole.egress_bytes_per_s
    share = np.where(had > 0, left.egress_bytes_per_s / np.where(had > 0, had, 1.0), 1.0)
    alive = np.flatnonzero(~damage.node_down[: graph.gpus]) // graph.hb_size
    members = np.bincount(alive, minlength=graph.domains)
    first, second, sampled = _choose(members, share, graph, max_pairs, rng)
    bound = np.minimum(left.egress_bytes_per_s[first], left.egress_bytes_per_s[second])
    if not through_domains:
        bound = np.minimum(bound, left.pair_bytes_per_s(first, second))
    before = intact or flow_network(graph, no_damage(graph), through_domains=through_domains)
    after = flow_network(graph, damage, through_domains=through_domains)
    there = int(np.count_nonzero(members))
    return Remaining(
        first=first,
        second=second,
        bytes_per_s=_capacities(after, first, second),
        intact_bytes_per_s=_capacities(before, first, second),
        bound_bytes_per_s=bound,
        sampled=sampled,
        all_pairs=there * (there - 1) // 2,
        domains_lost=graph.domains - there,
        egress_share=share,
    )


def _capacities(network: FlowNetwork, first: Ints, second: Ints) -> Floats:
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return np.array([network.capacity_bytes_per_s(a, b) for a, b in pairs], np.float64)


def _choose(
    members: Ints, share: Floats, graph: FabricGraph, limit: int, rng: np.random.Generator
) -> tuple[Ints, Ints, Bools]:
    """Pairs of domains to compute, and which of them stand for all."""
    there = np.flatnonzero(members)
    count = len(there)
    if count * (count - 1) // 2 <= limit:
        first, second = np.triu_indices(count, 1)
        return there[first], there[second], np.ones(len(first), bool)
    full = np.full(graph.domains, graph.hb_size)
    full[-1] = graph.gpus - (graph.domains - 1) * graph.hb_size
    hurt = there[(share[there] < 1) | (members[there] < full[there])]
    hurt = hurt[np.lexsort((hurt, members[hurt] / full[hurt], share[hurt]))]
    sound = np.setdiff1d(there, hurt)
    other = sound[0] if len(sound) else hurt[-1]
    half = max(1, limit // 2)
    pairs = list(combinations(hurt[:WORST].tolist(), 2))
    pairs = [*pairs, *((one, other) for one in hurt.tolist() if one != other)][:half]
    drawn = limit - len(pairs)
    a = rng.integers(0, count, drawn)
    b = (a + rng.integers(1, count, drawn)) % count
    ends = np.concatenate([np.array(pairs, np.int64).reshape(-1, 2), there[np.stack((a, b), 1)]])
    return ends[:, 0], ends[:, 1], np.arange(len(ends)) >= len(pairs)
