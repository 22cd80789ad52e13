"""Bandwidth between two HB domains: a max-flow on what is left of the fabric.

capacity(A, B) is the max-flow from all live GPUs of domain A to all of domain B, over live links.
GPUs of other domains pass nothing on (but where the network has no other way, as in tori and
BCubes, they pass on what comes over its links); with ``through_domains`` they also pass traffic on
through their HB domains, which joins what the network alone leaves apart.

The graph of the flow is reduced first, without changing any answer: A and B become one node each,
parallel links become one, and a domain that passes nothing on is left out.

scipy's max-flow counts in whole numbers. The unit is the greatest common divisor of all rates, so
that the answer is exact; where rates have none to speak of, it is the largest rate over 2^20, and
the answer falls short by less than a millionth of that rate for each link.

What remains next to the intact fabric is taken over all pairs of small fabrics. On large ones two
choices are made:

*affected*  domains that lost GPUs or egress, those that lost most first: each with one domain that
            lost nothing, and the worst of them with each other; they show the worst
*sampled*   pairs at random among all domains that still have a GPU; they show the mean

The egress of a domain is a closed form that no max-flow from it exceeds. Damage high in a network
(cores) leaves every egress whole: then only the sample sees it.
"""

from functools import cached_property
from itertools import combinations
from math import gcd

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.faults.damage import Damage, directed, network_links, no_damage
from netplan.faults.groups import domain_of_node
from netplan.topologies.graph import FabricGraph
from netplan.traffic.matrix import sum_by
from netplan.traffic.routing import forwarding_nodes

MAX_CAPACITY = (1 << 31) - 1
"""scipy's max-flow counts in 32 bits."""
STEPS_PER_RATE = 1 << 20
MAX_UNITS = 1 << 30
"""Units of all links of a domain."""


class FlowNetwork(Struct, frozen=True, eq=False, dict=True):
    """Links of the reduced graph; GPUs and HB switches belong to a domain.

    Parameters
    ----------
    domains
        HB domains [1].
    domain
        HB domain of each node, -1 for network switches, shape (nodes,).
    ends
        The two nodes that a link joins, shape (2, links).
    transit, ending
        Capacity for the traffic of others, and for that of the domain at one of its ends, in units.
    unit_bytes_per_s
        What a capacity of 1 stands for [B/s].
    egress_bytes_per_s
        Bandwidth that can leave each domain, of :func:`egress_bytes_per_s` [B/s].
    """

    domains: int
    domain: Ints
    ends: Ints
    transit: Ints
    ending: Ints
    unit_bytes_per_s: float
    egress_bytes_per_s: Floats

    @cached_property
    def _known(self) -> dict[tuple[int, int], float]:
        """Max-flows found so far."""
        return {}

    def known_bytes_per_s(self, a: int, b: int) -> float:
        """Max-flow between two domains [B/s], computed once; errors as those below."""
        if (a, b) not in self._known:
            self._known[a, b] = self.capacity_bytes_per_s(a, b)
        return self._known[a, b]

    def touched(self, other: "FlowNetwork") -> Bools:
        """Domains whose flows may differ from those of another network, shape (domains,).

        Links whose capacities differ count at the domains where they end; where they carry the
        traffic of others, and where nodes or units differ, flows of all domains may differ.
        """
        if self.unit_bytes_per_s != other.unit_bytes_per_s or not np.array_equal(
            self.domain, other.domain
        ):
            return np.ones(self.domains, bool)
        nodes = len(self.domain)
        keys, place = np.unique(
            np.concatenate([one.ends[0] * nodes + one.ends[1] for one in (self, other)]),
            return_inverse=True,
        )
        mine, theirs = place[: self.ends.shape[1]], place[self.ends.shape[1] :]
        found = np.zeros(self.domains, bool)
        for name in ("transit", "ending"):
            change = np.zeros(len(keys), np.int64)
            change[mine] += getattr(self, name)
            change[theirs] -= getattr(other, name)
            if name == "transit" and change.any():
                return np.ones(self.domains, bool)
            at = self.domain[np.concatenate(np.divmod(keys[change != 0], nodes))]
            found[at[at >= 0]] = True
        return found

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
        source, sink = len(self.domain), len(self.domain) + 1
        merged = np.arange(sink + 1)
        merged[:source][self.domain == a] = source
        merged[:source][self.domain == b] = sink
        first, second = merged[self.ends]
        ending = (first >= source) | (second >= source)
        capacity = np.where(ending, self.ending, self.transit)
        used = (capacity > 0) & (first != second)
        limit = capacity[used].clip(max=MAX_CAPACITY).astype(np.int32)
        rows = np.concatenate([first[used], second[used]])
        columns = np.concatenate([second[used], first[used]])
        limits = csr_array((np.tile(limit, 2), (rows, columns)), shape=(sink + 1, sink + 1))
        return int(maximum_flow(limits, source, sink).flow_value) * self.unit_bytes_per_s


def flow_network(
    graph: FabricGraph, damage: Damage, *, through_domains: bool = False
) -> FlowNetwork:
    """Reduce what is left of a fabric to a graph on which max-flows are quick.

    Parameters
    ----------
    graph, damage
        The fabric, and what has failed.
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
    unit = _unit(graph, outer)
    rate = np.floor(graph.bytes_per_s[live] / unit + 1e-9)
    ends = np.stack((graph.source[live], graph.target[live])).astype(np.int64)
    domain, transit = domain_of_node(graph), rate
    if not through_domains and not forwarding_nodes(graph, np.flatnonzero(outer))[0]:
        transit = np.where((ends < graph.gpus).any(axis=0), 0.0, rate)
        ends, domain = _ending_only(graph, ends, domain)
    nodes = len(domain)
    key, place = np.unique(ends.min(axis=0) * nodes + ends.max(axis=0), return_inverse=True)
    return FlowNetwork(
        domains=graph.domains,
        domain=domain,
        ends=np.stack(np.divmod(key, nodes)),
        transit=sum_by(place, transit, len(key)).astype(np.int64),
        ending=sum_by(place, rate, len(key)).astype(np.int64),
        unit_bytes_per_s=unit,
        egress_bytes_per_s=egress_bytes_per_s(graph, damage),
    )


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


def egress_bytes_per_s(graph: FabricGraph, damage: Damage) -> Floats:
    """Bandwidth that can leave each HB domain over live links [B/s], shape (domains,).

    A domain D has links of h(D, v) bytes a second to the node v, mostly a leaf, which has o(D, v)
    to all other nodes. Cut each v at the smaller of the two: the egress is the sum over v of
    min(h(D, v), o(D, v)), the capacity of a cut, and so never below a max-flow from D.

    Raises
    ------
    InputError
        If the damage is that of another graph.
    """
    live = np.flatnonzero(network_links(graph) & ~damage.links_out(graph))
    tail, head = directed(graph, live)
    rate = np.tile(graph.bytes_per_s[live], 2)
    total = sum_by(tail, rate, graph.node_count)
    own = (head < graph.gpus) & (tail // graph.hb_size == head // graph.hb_size)
    leaves = (tail < graph.gpus) & ~own
    key, place = np.unique(
        tail[leaves] // graph.hb_size * graph.node_count + head[leaves], return_inverse=True
    )
    domain, node = np.divmod(key, graph.node_count)
    to_node = sum_by(place, rate[leaves], len(key))
    # A GPU at the other end is a destination itself: only its own links limit what goes there.
    onward = np.where(node < graph.gpus, np.inf, total[node] - to_node)
    return sum_by(domain, np.minimum(to_node, onward), graph.domains)


MAX_PAIRS = 300
"""Pairs computed unless more are asked for: about 2 s at 32,768 GPUs, both fabrics together."""
WORST = 6
"""Domains that lost most, which are also paired with each other."""


class Remaining(Struct, frozen=True, eq=False):
    """Bandwidth between pairs of HB domains, one way.

    Parameters
    ----------
    first, second
        The two domains of each pair, shape (pairs,).
    bytes_per_s, intact_bytes_per_s
        Max-flow on what is left, and on the intact fabric [B/s], shape (pairs,).
    sampled
        Whether a pair was drawn at random, or all were taken, shape (pairs,).
    all_pairs
        Pairs of domains that still have a GPU, computed or not [1].
    domains_lost
        Domains that have no GPU left [1].
    """

    first: Ints
    second: Ints
    bytes_per_s: Floats
    intact_bytes_per_s: Floats
    sampled: Bools
    all_pairs: int
    domains_lost: int

    @property
    def share(self) -> Floats:
        """What is left of each pair's bandwidth [1]; pairs that never had any count as whole."""
        had = self.intact_bytes_per_s > 0
        intact = np.where(had, self.intact_bytes_per_s, 1.0)
        left: Floats = np.where(had, self.bytes_per_s / intact, 1.0)
        return left

    @property
    def worst_share(self) -> float | None:
        """Smallest share over the pairs computed [1]; None without any pair."""
        return float(self.share.min()) if len(self.share) else None

    @property
    def mean_share(self) -> float | None:
        """Mean share over the pairs drawn at random, or over all [1]; None without any pair."""
        drawn = self.share[self.sampled]
        return float(drawn.mean()) if len(drawn) else None

    @property
    def note(self) -> str:
        """Which pairs were computed, in a sentence."""
        count = len(self.first)
        if not self.all_pairs:
            return "There are no two HB domains to send between."
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
    graph, damage
        The fabric, and what has failed.
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
    before = intact or flow_network(graph, no_damage(graph), through_domains=through_domains)
    after = flow_network(graph, damage, through_domains=through_domains)
    had = before.egress_bytes_per_s
    share = np.where(had > 0, after.egress_bytes_per_s / np.where(had > 0, had, 1.0), 1.0)
    alive = np.flatnonzero(~damage.node_down[: graph.gpus]) // graph.hb_size
    members = np.bincount(alive, minlength=graph.domains)
    first, second, sampled = _choose(members, share, graph, max_pairs, rng)
    there = int(np.count_nonzero(members))
    return Remaining(
        first=first,
        second=second,
        bytes_per_s=_capacities_left(after, before, first, second),
        intact_bytes_per_s=_capacities(before, first, second),
        sampled=sampled,
        all_pairs=there * (there - 1) // 2,
        domains_lost=graph.domains - there,
    )


def _capacities(network: FlowNetwork, first: Ints, second: Ints) -> Floats:
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return np.array([network.known_bytes_per_s(a, b) for a, b in pairs], np.float64)


def _capacities_left(after: FlowNetwork, before: FlowNetwork, first: Ints, second: Ints) -> Floats:
    """What is left between pairs: the same as before where the damage is none of theirs."""
    touched = after.touched(before)
    found = _capacities(before, first, second)
    again = touched[first] | touched[second]
    found[again] = _capacities(after, first[again], second[again])
    return found


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
