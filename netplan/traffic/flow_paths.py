"""Which links each flow takes, and what share of it: the paths behind the loads of links.

============  ==================================================================================
hashed        one link at every hop, as `netplan.traffic.routing` draws it for loads of that seed;
              connections of a pair are hashed by their numbers
static        one link at every hop by the destination: at its leaf's likes by its number under its
              own leaf, at the tier above by the number of its leaf in its pod (destination modulo,
              as InfiniBand's and D-mod-K routing have it, Zahavi, CCIT 776, 2010)
else          the shares of the loads: split evenly, by dimension order, over detours
============  ==================================================================================

Where traffic splits evenly over a Clos network, all links above a position carry the same of every
flow that leaves it. The one that fills first stands for all of them, so that a flow has two entries
a tier however many spines there are. Other fabrics are asked pair by pair.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Bools, Floats, Ints, Words, places
from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph, connected_parts
from netplan.traffic import routing_ecmp
from netplan.traffic.demand import Leg, Legs, split_demand
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import TrafficMatrix, flows_matrix, sum_by
from netplan.traffic.routing import ClosTree, Router, check_reached
from netplan.traffic.routing_joined import has_joined_switches, share_with_hosts
from netplan.units import GIGA

MOST_ENTRIES = 20_000_000
"""Links of all flows together: more would take gigabytes [1]."""

ENTRY_BYTES = 100
"""Memory of a link of a flow, with what sorting and rates hold of it, about [B]."""

MOST_PAIRS = 2_000
"""Pairs that are asked one by one on fabrics without a closed form [1]."""

PathChoice = Literal["split", "hashed", "static"]
"""Whether flows split by the router's routing, or take one link at every hop."""

Entries = tuple[Ints, Ints, Floats]
"""Flow, direction of a link and share of the flow that it carries, shape (entries,) each."""


class FlowPaths(Struct, frozen=True, eq=False):
    """Directions of links that flows take, flow by flow.

    Parameters
    ----------
    flow
        Rising, shape (entries,).
    code
        Link l from source to target, links + l back, shape (entries,).
    share
        Of what the flow carries, shape (entries,) [1].
    hops
        Links that each flow crosses one after the other, shape (flows,) [1].
    """

    flow: Ints
    code: Ints
    share: Floats
    hops: Floats

    @classmethod
    def of(
        cls, parts: Iterable[Entries], flows: int, graph: FabricGraph, *, closed: bool = False
    ) -> "FlowPaths":
        """Paths of entries in any order.

        Parameters
        ----------
        parts
            Entries of any of the flows.
        flows, graph
            How many flows there are [1], and the fabric.
        closed
            Whether each entry stands for all links of its hop.

        Returns
        -------
        FlowPaths
            Flow by flow.

        Raises
        ------
        InputError
            If they would take gigabytes.
        """
        nothing = np.empty(0, np.int64)
        kept: list[Entries] = [(nothing, nothing, np.empty(0))]
        entries = 0
        for part in parts:
            kept.append(part)
            entries += len(part[0])
            check_entries(graph, entries)
        flow, code, share = (np.concatenate([part[i] for part in kept]) for i in range(3))
        hops = np.bincount(flow, None if closed else share, minlength=flows)
        order = np.argsort(flow, kind="stable")  # parts have flows in order, which it merges
        if share.min(initial=1.0) < 1.0:
            share = share[order]
        return cls(flow[order], code[order], share, np.round(hops))


class PathFinder(Protocol):
    """Ways over the links of a graph, or over those that are left of it."""

    @property
    def graph(self) -> FabricGraph:
        """All links, those that are gone too."""

    def loads(self, demand: TrafficMatrix) -> LinkLoads:
        """Bytes on every link; those that are out carry nothing."""

    def paths(
        self,
        source: AnyInts,
        destination: AnyInts,
        capacity: Floats,
        *,
        way: PathChoice = "split",
        seed: int = 0,
        connection: Ints | None = None,
    ) -> FlowPaths:
        """The links of each flow; as of :meth:`PathRouter.paths`."""


class PathRouter(Router, frozen=True, eq=False, dict=True):
    """A router that says of each flow which links it takes."""

    def paths(
        self,
        source: AnyInts,
        destination: AnyInts,
        capacity: Floats,
        *,
        way: PathChoice = "split",
        seed: int = 0,
        connection: Ints | None = None,
    ) -> FlowPaths:
        """The links of each flow.

        Parameters
        ----------
        source, destination
            GPUs of each flow, shape (flows,).
        capacity
            Of every direction of a link, flattened (2, links) [B/s].
        way
            Whether flows split, or take one link at every hop.
        seed
            Of hashed paths.
        connection
            Number of each flow among those of its pair, which is hashed; None says that equal flows
            are numbered as they come, shape (flows,).

        Returns
        -------
        FlowPaths
            Their links and shares.

        Raises
        ------
        InputError
            If no path joins the ends of a flow, the routing does not suit the fabric, or the paths
            would take gigabytes.

        Examples
        --------
        >>> from netplan import Scenario
        >>> graph = Scenario.load("hgx-h100").replace(gpus=64, radix=8).fabric("fat-tree").graph()
        >>> router, rates = PathRouter(graph, "ecmp"), np.tile(graph.bytes_per_s, 2)
        >>> paths = router.paths(np.array([0]), np.array([63]), rates)
        >>> graph.direction_names(paths.code)[:1], float(paths.share.min()), paths.hops
        (['gpu-0 -> leaf-0'], 0.0625, array([6]))
        """
        graph = self.graph
        check_entries(graph, 2 * len(source))
        # What a flow carries is its number here, from 1, so that legs say whose they are.
        numbers = np.arange(1.0, len(source) + 1)
        demand = flows_matrix(
            graph.gpus, source=source, destination=destination, flow_bytes=numbers
        )
        domains = graph.has("hb")
        size = graph.hb_size if domains else 1
        legs = split_demand(demand, size, forwarding=self._forwards_between_rails)
        if way == "split":
            parts = self._split(legs, capacity)
        else:
            parts = self._hopping(legs, way, seed, connection)
        # Entries of closed forms stand for a hop each; else shares add up to the hops.
        return FlowPaths.of(parts, len(source), graph, closed=way == "split" and self._is_closed)

    def carried(
        self, demand: TrafficMatrix, *, way: PathChoice, seed: int = 0, connections: int = 1
    ) -> LinkLoads:
        """Bytes on every link where the bytes of every pair go over single paths.

        Parameters
        ----------
        demand
            Traffic between the GPUs of the graph.
        way
            How a flow chooses its link at every hop: hashed or static.
        seed
            Of hashed paths.
        connections
            Of every pair; its bytes are split evenly over them [1].

        Returns
        -------
        LinkLoads
            Bytes from source to target and back, shape (2, links) [B].

        Raises
        ------
        InputError
            As of :meth:`paths`.
        """
        flows, links = demand.listed(), self.graph.link_count
        ends = flows.source, flows.destination
        source, destination = (np.repeat(end, connections) for end in ends)
        number = np.tile(np.arange(connections), len(flows.source))
        nothing = np.empty(0)
        paths = self.paths(source, destination, nothing, way=way, seed=seed, connection=number)
        amount = flows.flow_bytes[paths.flow // connections] / connections
        return LinkLoads(self.graph, sum_by(paths.code, amount, 2 * links).reshape(2, links))

    @cached_property
    def host_links(self) -> Ints:
        """The network link of each GPU of a Clos network, shape (gpus,)."""
        tree, links = self._tree, np.empty(self.graph.gpus, np.int64)
        if tree is not None:
            links[self.graph.source[tree.links[0]]] = tree.links[0]
        return links

    @cached_property
    def tiers(self) -> tuple["_Tier", ...]:
        """Links between each two tiers of switches of a Clos network."""
        tree = self._tree
        between = () if tree is None else zip(tree.links[1:], tree.lower[1:], strict=True)
        return tuple(_Tier.of(self.graph, *tier) for tier in between)

    @property
    def _is_closed(self) -> bool:
        """Whether evenly split traffic has a closed form here."""
        return self._tree is not None and (not self.graph.has("hb") or self._has_stars)

    def _split(self, legs: Legs, capacity: Floats) -> Iterator[Entries]:
        """Entries where flows split."""
        graph = self.graph
        routing = self.own_routing if self.routing == "auto" else self.routing
        if routing == "ecmp" and self._is_closed:
            tree = self._tree
            if tree is not None:
                yield from _tree_entries(tree, legs.network, capacity, graph)
            yield from _star_entries(graph, legs.inside, capacity)
        elif routing in ("ecmp", "minimal-adaptive"):
            self.check_suits()
            yield from split_entries(graph, self._network_arcs, legs.network)
            yield from split_entries(graph, self._domain_arcs, legs.inside)
        else:
            yield from self._pair_by_pair(legs)

    def _pair_by_pair(self, legs: Legs) -> Iterator[Entries]:
        """Entries by the loads of each pair alone; adaptive routing keeps the mix of all pairs."""
        network, inside = legs.network, legs.inside
        check_pairs(self.graph, len(network.source) + len(inside.source))
        routing = self.own_routing if self.routing == "auto" else self.routing
        mix = None
        if routing == "adaptive" and not network.empty and has_joined_switches(self.graph):
            whole = Leg(network.source, network.destination, np.ones(len(network.source)))
            mix = share_with_hosts(self.graph, *self._ways(whole))
        for leg, load in ((network, self._network_loads), (inside, self._domain_loads)):
            for index in range(len(leg.source)):
                alone = Leg(leg.source[index : index + 1], leg.destination[index : index + 1], ONE)
                if mix is not None and leg is network:
                    hosts, direct, detours = self._ways(alone)
                    loads = (hosts + mix * direct + (1 - mix) * detours).ravel()
                else:
                    loads = load(alone, None).ravel()
                codes = np.flatnonzero(loads)
                flow = np.full(len(codes), int(leg.flow_bytes[index]) - 1)
                yield flow, codes, loads[codes]

    def _hopping(
        self, legs: Legs, way: PathChoice, seed: int, connection: Ints | None
    ) -> Iterator[Entries]:
        """Entries where a flow takes one link at every hop."""
        inside, between = np.random.default_rng(seed).spawn(2)
        graph = self.graph
        for leg, rng, of_domain in ((legs.network, between, False), (legs.inside, inside, True)):
            if leg.empty:
                continue
            number = leg.flow_bytes.astype(np.int64) - 1
            tree = None if of_domain else self._tree
            pick: routing_ecmp.Pick = routing_ecmp.hashed_arc
            if way == "static" and not of_domain:
                words, pick = _by_destination(self.graph, tree, leg)
            elif way == "static":
                words = np.zeros(len(leg.source), np.uint64)
            else:
                which = None if connection is None else connection[number]
                words = routing_ecmp.flow_hashes(leg.source, leg.destination, rng, which)
            if tree is None:
                arcs: routing_ecmp.Arcs = self._domain_arcs if of_domain else self._network_arcs
                check_reached(graph, arcs, leg)
                flow, code = routing_ecmp.ecmp_paths(arcs, leg.source, leg.destination, words, pick)
            else:
                flow, code = _climb(self, tree, leg, words, pick)
            yield number[flow], code, np.ones(len(flow))


ONE = np.ones(1)


def check_entries(graph: FabricGraph, entries: int) -> None:
    """Refuse flows whose paths would take gigabytes.

    Parameters
    ----------
    graph
        The fabric.
    entries
        Links of all flows together, as far as they are known [1].

    Raises
    ------
    InputError
        If they are more than `MOST_ENTRIES`.
    """
    if entries > MOST_ENTRIES:
        raise InputError(
            f"{graph.name}: flows have {entries:,} links on their paths or more, which would take"
            f" about {entries * ENTRY_BYTES / GIGA:,.0f} GB: take spray (classes), coupled"
            " collectives, or fewer connections"
        )


def check_pairs(graph: FabricGraph, pairs: int) -> None:
    """Refuse more pairs than are routed one by one.

    Parameters
    ----------
    graph
        The fabric.
    pairs
        Pairs of GPUs whose paths have no closed form [1].

    Raises
    ------
    InputError
        If they are more than `MOST_PAIRS`.
    """
    if pairs > MOST_PAIRS:
        raise InputError(
            f"{graph.name} has no closed form of split paths, and {pairs:,} pairs are more than"
            f" {MOST_PAIRS:,} that are routed one by one: take ecmp or hashed, or fewer GPUs"
        )


def split_entries(graph: FabricGraph, arcs: routing_ecmp.Arcs, leg: Leg) -> Iterator[Entries]:
    """Entries of flows that split evenly over shortest paths, flows by what they carry, from 1.

    Parameters
    ----------
    graph, arcs
        The fabric, and the links that they may take.
    leg
        The flows.

    Yields
    ------
    Entries
        Of some of the flows.

    Raises
    ------
    InputError
        If no path joins the ends of a flow.
    """
    check_reached(graph, arcs, leg)
    number = leg.flow_bytes.astype(np.int64) - 1
    for flow, code, share in routing_ecmp.ecmp_shares(arcs, leg.source, leg.destination):
        yield number[flow], code, share


def _tree_entries(
    tree: ClosTree, leg: Leg, capacity: Floats, graph: FabricGraph
) -> Iterator[Entries]:
    """The link that fills first above each position that a flow leaves, and so on the way down."""
    flow = leg.flow_bytes.astype(np.int64) - 1
    first, second = leg.source.astype(np.int64), leg.destination.astype(np.int64)
    tiers = zip(tree.parents, tree.links, tree.lower, tree.shares, strict=True)
    for parent, links, lower, shares in tiers:
        apart = first != second
        flow, first, second = flow[apart], first[apart], second[apart]
        for end, row in ((first, 0), (second, 1)):
            codes = links + row * graph.link_count
            order = np.lexsort((capacity[codes] / shares, lower))
            begins = np.flatnonzero(np.diff(lower[order], prepend=-1))
            standing = np.zeros(len(parent), np.int64)
            standing[lower[order[begins]]] = order[begins]
            chosen = standing[end]
            yield flow, codes[chosen], shares[chosen]
        first, second = parent[first].astype(np.int64), parent[second].astype(np.int64)


def _star_entries(graph: FabricGraph, leg: Leg, capacity: Floats) -> Iterator[Entries]:
    """The link inside its HB domain that fills first, of each end of a flow."""
    if leg.empty:
        return
    links = graph.links_with("hb")
    gpu = graph.source[links].astype(np.int64)
    count = np.bincount(gpu, minlength=graph.gpus)
    flow = leg.flow_bytes.astype(np.int64) - 1
    for end, row in ((leg.source, 0), (leg.destination, 1)):
        codes = links + row * graph.link_count
        order = np.lexsort((capacity[codes], gpu))
        begins = np.flatnonzero(np.diff(gpu[order], prepend=-1))
        standing = np.zeros(graph.gpus, np.int64)
        standing[gpu[order[begins]]] = codes[order[begins]]
        yield flow, standing[end], 1.0 / count[end]


def _climb(
    router: PathRouter, tree: ClosTree, leg: Leg, words: Words, pick: routing_ecmp.Pick
) -> tuple[Ints, Ints]:
    """Paths of :func:`ecmp_paths` on a Clos network: up to where both ends meet, and down again.

    Every uplink of a switch leads nearer, and down again every link to a switch that stands above
    the destination: nothing has to be searched.
    """
    graph, hosts, tiers = router.graph, router.host_links, router.tiers
    positions: list[tuple[Ints, Ints]] = [
        (leg.source.astype(np.int64), leg.destination.astype(np.int64))
    ]
    for parent in tree.parents:
        first, second = positions[-1]
        positions.append((parent[first].astype(np.int64), parent[second].astype(np.int64)))
    height = sum((first != second).astype(np.int64) for first, second in positions)
    check_entries(graph, 2 * int(np.sum(height)))
    every = np.arange(len(leg.source))
    flows = [every, every]
    codes = [hosts[leg.source], hosts[leg.destination] + graph.link_count]
    for most in range(2, len(positions)):
        flow = np.flatnonzero(height == most)
        if not len(flow):
            continue
        node = graph.target[hosts[leg.source[flow]]].astype(np.int64)
        hashed, hops = words[flow], 2 * most - 2
        for tier in tiers[: most - 1]:
            link = tier.up(node, hashed, pick, hops)
            flows.append(flow)
            codes.append(link)
            node, hops = graph.target[link].astype(np.int64), hops - 1
        for below in range(most - 2, -1, -1):
            position = positions[below + 1][1][flow]
            link = tiers[below].down(node, position, hashed, pick, hops)
            flows.append(flow)
            codes.append(link + graph.link_count)
            node, hops = graph.source[link].astype(np.int64), hops - 1
    return np.concatenate(flows), np.concatenate(codes)


class _Tier(Struct, frozen=True, eq=False):
    """Links between two tiers of switches: by the lower end, and by the upper and what is below.

    ``rising`` and ``falling`` are links in those orders. Rows of a lower end are ``low`` of its
    number, of an upper one ``high``. Where every upper one has as many links to each of positions
    that follow each other, these are ``first`` and ``each`` of its number; else ``key`` has the
    upper end times ``positions`` plus the position of every falling link.
    """

    rising: Ints
    low: Ints
    falling: Ints
    high: Ints
    first: Ints
    each: Ints
    key: Ints | None
    positions: int

    @classmethod
    def of(cls, graph: FabricGraph, links: Ints, lower: Ints) -> "_Tier":
        """The links of a tier, with the position that each leaves."""
        low, high = (end[links].astype(np.int64) for end in (graph.source, graph.target))
        nodes, positions = np.arange(graph.node_count + 1), int(lower.max()) + 1
        key = high * positions + lower
        up, down = np.lexsort((links, low)), np.lexsort((links, key))
        key, above, below = key[down], high[down], lower[down].astype(np.int64)
        begins = np.searchsorted(above, nodes)
        first = below[np.minimum(begins[:-1], len(below) - 1)]
        links_below = np.bincount(above[below == first[above]], minlength=graph.node_count)
        place = (np.arange(len(above)) - begins[above]) // np.maximum(links_below, 1)[above]
        regular = bool(np.all(below == first[above] + place))
        return cls(
            rising=links[up],
            low=np.searchsorted(low[up], nodes),
            falling=links[down],
            high=begins,
            first=first,
            each=links_below,
            key=None if regular else key,
            positions=positions,
        )

    def up(self, node: Ints, words: Words, pick: routing_ecmp.Pick, hops: int) -> Ints:
        """An uplink of each node."""
        begin = self.low[node]
        chosen: Ints = self.rising[begin + pick(words, node, hops, self.low[node + 1] - begin)]
        return chosen

    def down(
        self, node: Ints, position: Ints, words: Words, pick: routing_ecmp.Pick, hops: int
    ) -> Ints:
        """A link of each node down to a position."""
        if self.key is None:
            choices = self.each[node]
            begin = self.high[node] + (position - self.first[node]) * choices
        else:
            key = node * self.positions + position
            begin = np.searchsorted(self.key, key)
            choices = np.searchsorted(self.key, key, side="right") - begin
        return self.falling[begin + pick(words, node, hops, choices)]


def _by_destination(
    graph: FabricGraph, tree: ClosTree | None, leg: Leg
) -> tuple[Words, routing_ecmp.Pick]:
    """Words and choices by the destination alone."""
    if tree is None:
        raise InputError(
            f"{graph.name} has no leaves and spines in equal tiers: static routing is of Clos"
            " networks, take hashed or spray"
        )
    leaf = tree.parents[0][leg.destination].astype(np.int64)
    under_leaf = places(tree.parents[0])[leg.destination]
    in_pod = places(tree.parents[1])[leaf] if len(tree.parents) > 1 else under_leaf
    tier = graph.node_tier

    def pick(words: Words, node: AnyInts, hops: int, choices: Ints) -> Ints:
        flow = words.astype(np.int64)
        # Of parallel links down to the leaf a flow takes the like of that which led it up.
        above = (tier[node] >= UPPER_TIER) & (hops > 1)
        return np.where(above, in_pod[flow], under_leaf[flow]) % choices

    return np.arange(len(leg.source), dtype=np.uint64), pick


UPPER_TIER = 2
"""From this tier up the leaf of the destination chooses the link [1]."""


def has_choices(graph: FabricGraph) -> bool:
    """Whether shortest paths of hashed flows may differ: whether links close a circle.

    Parameters
    ----------
    graph
        The fabric.

    Returns
    -------
    bool
        Of its network, or of its HB domains.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> [has_choices(scenario.fabric(name).graph()) for name in ("rail-only", "fat-tree")]
    [False, True]
    """
    inside = graph.is_role("hb")
    return any(
        int(links.sum()) > graph.node_count - 1 - int(part.max())
        for links in (inside, ~inside)
        for part in [connected_parts(graph.node_count, graph.source[links], graph.target[links])]
    )


def ends_at_gpu(graph: FabricGraph) -> Bools:
    """Whether a link has a GPU at one end, flattened (2, links).

    Parameters
    ----------
    graph
        The fabric.

    Returns
    -------
    ndarray
        Of both directions of each link, shape (2 x links,).
    """
    ends: Bools = (graph.source < graph.gpus) | (graph.target < graph.gpus)
    return np.tile(ends, 2)
