"""From a fabric and its traffic to the load of every link: one function, all fabrics.

Host links, HB domains and forwarding between rails are the same on all fabrics; what differs is the
routing between switches (or along the rings of a torus):

====================  ===========================================================================
``auto``              the fabric's own: dimension order on whole tori (not on twisted ones),
                      adaptive where switches are joined directly, as in dragonflies, ECMP else
``ecmp``              shortest paths, split evenly at every hop; on Clos networks in closed form
``hashed``            shortest paths, every flow over one link at every hop, by a seeded generator
``dimension-order``   tori: one axis after the other
``minimal-adaptive``  tori: evenly over all links that lead nearer
``minimal``           dragonflies: over a link that joins the two groups
``valiant``           dragonflies: over a third group; other joined switches: over any of them
``adaptive``          joined switches: shortest paths and detours, mixed so that the busiest link is
                      least busy (`netplan.traffic.routing_joined`)
====================  ===========================================================================

*Clos networks in closed form.* Under even splitting each plane of a Clos network, and each spine of
a plane, carries its share of what passes, by its links to a leaf: the same from all leaves. What
remains is a tree of *positions*: the endpoints, the leaves, the pods that several leaves form under
the same spines, and so on up to the top. A message climbs until its position covers both ends, and
comes down again; the links above a position share what passes. So a network of a million GPUs needs
three small arrays of parents to find every load.

::

    endpoint --- leaf --- pod --- top           parents[0][endpoint], parents[1][leaf], ...
              1        u      u^2               links above one position

What leaves a position upwards is the traffic of all flows with one end below it and the other not;
its links upwards share it, evenly where all planes have as many, and so do the links downwards.
Each tier costs two table lookups a flow and two sums; nothing is searched and no graph is needed.
"""

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Literal, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Indices, Ints, distinct_values
from netplan.errors import InputError
from netplan.topologies.graph import (
    GPU,
    HB_SWITCH,
    SWITCH,
    FabricGraph,
    Role,
    connected_parts,
    switches_suffice,
)
from netplan.traffic import routing_dragonfly, routing_joined
from netplan.traffic.algorithms import check_choice
from netplan.traffic.demand import Leg, check_demand, no_leg, split_demand
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import TrafficMatrix, sum_by
from netplan.traffic.routing_ecmp import Arcs, ecmp_loads, make_arcs
from netplan.traffic.routing_torus import LaidTorus, torus_loads, torus_of_graph


class ClosTree(Struct, frozen=True, eq=False):
    """Positions of a Clos network, or of several side by side.

    Parameters
    ----------
    parents
        For each tier from the endpoints up, the position above every position.
    links_above
        For each tier, the links that leave every position upwards [1], shape (positions,).
    links, lower, shares
        For each tier of a graph, its links above the positions, the position each leaves, and what
        share of that which leaves it takes the link [1].
    """

    parents: tuple[Indices, ...]
    links_above: tuple[Indices, ...]
    links: tuple[Ints, ...] = ()
    lower: tuple[Ints, ...] = ()
    shares: tuple[Floats, ...] = ()


def tree_of_graph(graph: FabricGraph, links: Ints) -> ClosTree | None:
    """Tree of a graph's network, given by its links; None where even splitting is not symmetric.

    So it is if a GPU has no single network link, a link does not join neighbouring tiers, or a
    switch takes more of what leaves one position below it than of another.

    Parameters
    ----------
    graph
        The fabric.
    links
        Numbers of the links of its network, shape (links,).

    Returns
    -------
    ClosTree or None
        The tree.
    """
    low, high = graph.source[links], graph.target[links]
    tier = graph.node_tier.astype(np.int64)
    rises = np.all(tier[high] == tier[low] + 1) and np.all(graph.node_kind[high] == SWITCH)
    ports = np.bincount(low[low < graph.gpus], minlength=graph.gpus)
    if not (rises and np.all(ports == 1)):
        return None
    position = np.full(graph.node_count, -1, np.int64)
    position[: graph.gpus] = np.arange(graph.gpus)
    parents, above, numbers, shares = [], [], [], []
    passing = np.ones(graph.node_count)  # what of its position's traffic a GPU or switch takes
    for height in range(int(tier[high].max())):
        number = links[(tier[low] == height) & (position[low] >= 0)]
        low_node, high_node = graph.source[number], graph.target[number]
        share = passing[low_node] / np.bincount(low_node)[low_node]
        stage = _stage(position, low_node, high_node, share)
        if stage is None:
            return None
        parent, links_up, switches, taken = stage
        passing[switches] = taken
        parents.append(parent)
        above.append(links_up)
        numbers.append(number)
        shares.append(share)
    lower = tuple(position[graph.source[number]] for number in numbers)
    return ClosTree(tuple(parents), tuple(above), tuple(numbers), lower, tuple(shares))


def _stage(
    position: Ints, low: Indices, high: Indices, share: Floats
) -> tuple[Indices, Indices, Ints, Floats] | None:
    """Number the switches of the next tier by position: parents, links above, switches, shares.

    Switches stand at the same position if the lowest position below them is the same. Symmetry is
    then checked: one parent a position, each switch takes the same share of all positions below,
    and the links from a position to a switch take the same. None if one of these fails.
    """
    below = position[low]
    # Numbers of nodes are few, so that a table finds the distinct ones without sorting.
    met = np.zeros(len(position), bool)
    met[high] = True
    switches, switch = np.flatnonzero(met), (np.cumsum(met) - 1)[high]
    lowest = np.full(len(switches), np.iinfo(np.int64).max)
    np.minimum.at(lowest, switch, below)
    _, first, place = np.unique(lowest, return_index=True, return_inverse=True)
    # Positions are numbered like their first switches, so that position 3 is leaf 3.
    place = np.argsort(np.argsort(first))[place]
    position[switches] = place
    positions = int(below.max()) + 1
    parent = np.full(positions, -1, np.int64)
    parent[below] = place[switch]
    if parent.min() < 0 or not np.array_equal(parent[below], place[switch]):
        return None
    links = np.bincount(below, minlength=positions)
    pair = below * np.int64(len(switches)) + switch
    order = np.argsort(pair, kind="stable")
    begins = np.flatnonzero(np.diff(pair[order], prepend=-1))
    ordered = share[order]
    through = np.add.reduceat(ordered, begins)  # from a position to a switch
    links_to = np.diff(begins, append=len(pair))
    taken = np.zeros(len(switches))
    taken[switch[order[begins]]] = through
    alike = np.isclose(through, taken[switch[order[begins]]], rtol=ALIKE, atol=0).all()
    if not (
        alike
        and np.isclose(ordered * np.repeat(links_to, links_to), np.repeat(through, links_to)).all()
    ):
        return None
    # Every position below reaches each switch of its own.
    if not np.array_equal(np.bincount(place)[parent], np.bincount(below[order[begins]])):
        return None
    return parent.astype(np.int32), links.astype(np.int32), switches, taken


ALIKE = 1e-9
"""Rounding by which two shares of traffic are the same [1]."""


def _tier_loads(tree: ClosTree, leg: Leg) -> Iterator[tuple[Floats, Floats]]:
    """Bytes on all links above each position, up and down [B], from the host links up."""
    first, second = leg.source, leg.destination
    entries = [products.gpu for products in leg.products]
    crossing = leg.flow_bytes.copy()
    for tier, parent in enumerate(tree.parents):
        if tier:
            below = tree.parents[tier - 1]
            # Positions are in range, so that "clip" only spares the look at every index.
            first, second = below.take(first, mode="clip"), below.take(second, mode="clip")
            entries = [below[place] for place in entries]
            # What has met stays below. A product costs less than thinning out three arrays.
            np.multiply(crossing, first != second, out=crossing)
        up = sum_by(first, crossing, len(parent))
        down = sum_by(second, crossing, len(parent))
        for products, place in zip(leg.products, entries, strict=True):
            up += sum_by(place, products.sent_beyond(place), len(parent))
            down += sum_by(place, products.received_beyond(place), len(parent))
        yield up, down


def clos_loads(tree: ClosTree, leg: Leg, link_count: int) -> Floats:
    """Loads of a Clos network under fluid ECMP, in the order of its graph's links, (2, links) [B].

    The lowest positions of the tree are the GPUs; all links above a position are alike.

    Parameters
    ----------
    tree
        The network.
    leg
        What is sent from which GPU to which.
    link_count
        Links of the graph [1].

    Returns
    -------
    Floats
        Bytes over each link up and down, shape (2, links) [B].
    """
    loads = np.zeros((2, link_count))
    tiers = zip(_tier_loads(tree, leg), tree.shares, tree.links, tree.lower, strict=True)
    for both, share, links, lower in tiers:
        loads[:, links] = np.stack(both)[:, lower] * share
    return loads


Routing = Literal[
    "auto",
    "ecmp",
    "hashed",
    "dimension-order",
    "minimal-adaptive",
    "minimal",
    "valiant",
    "adaptive",
]

SYNONYMS = (("spray", "ecmp"),)
"""Words of users for a routing, and its own: packet spraying is an even split."""

ROUTINGS = (*get_args(Routing), *(word for word, _ in SYNONYMS))


def link_loads(
    graph: FabricGraph,
    demand: TrafficMatrix,
    *,
    routing: Routing = "auto",
    forwarding: bool | None = None,
    rng: np.random.Generator | None = None,
) -> LinkLoads:
    """Bytes on every link of a fabric.

    Parameters
    ----------
    graph
        The fabric.
    demand
        Traffic between its GPUs.
    routing
        How messages find their way (table of this module).
    forwarding
        Whether HB domains forward between rails; None says yes where the network alone does not
        join all GPUs.
    rng
        Generator for ``hashed``; None takes one with seed 0.

    Returns
    -------
    LinkLoads
        Bytes from source to target and back, shape (2, links) [B].

    Raises
    ------
    InputError
        If the demand is for another number of GPUs, the routing does not suit the fabric, a path
        is missing, or traffic meets a link without capacity.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan.traffic.matrix import flows_matrix
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=64, radix=8, hb_size=4).sizing
    >>> graph = expand(FABRICS.load("rail-only"), sizing)
    >>> demand = flows_matrix(64, source=[0], destination=[5], flow_bytes=[50e9])
    >>> loads = link_loads(graph, demand)
    >>> loads.busiest_s
    1.0
    >>> [(group.group, group.directions - group.unused) for group in loads.by_group()]
    [('hb', 2), ('host', 2), ('leaf-spine', 0)]
    """
    return Router(graph, routing, forwarding).loads(demand, rng)


class Router(Struct, frozen=True, eq=False, dict=True):
    """Routing on one graph, for many demands: what it takes from the graph is worked out once.

    Parameters
    ----------
    graph, routing, forwarding
        As in :func:`link_loads`, errors too.
    """

    graph: FabricGraph
    routing: Routing = "auto"
    forwarding: bool | None = None

    def __post_init__(self) -> None:
        """Refuse a routing that does not exist."""
        check_choice("routing", self.routing, get_args(Routing))

    def loads(self, demand: TrafficMatrix, rng: np.random.Generator | None = None) -> LinkLoads:
        """Bytes on every link.

        Parameters
        ----------
        demand
            Traffic between the GPUs of the graph.
        rng
            Generator for ``hashed``; None takes one with seed 0.

        Returns
        -------
        LinkLoads
            Bytes from source to target and back, shape (2, links) [B].

        Raises
        ------
        InputError
            As of :func:`link_loads`.
        """
        graph = self.graph
        check_demand(demand, graph.gpus)
        domains = graph.has("hb")
        size = graph.hb_size if domains else 1
        legs = split_demand(demand, size, forwarding=self._forwards_between_rails)
        hashed = self.routing == "hashed"
        # One each: what flows inside domains does not move what flows between them.
        inside, between = (rng or np.random.default_rng(0)).spawn(2) if hashed else (None, None)
        loads = np.zeros((2, graph.link_count))
        if domains:
            loads += self._domain_loads(legs.inside, inside)
        if len(self._network):
            loads += self._network_loads(legs.network, between)
        return LinkLoads(graph, loads)

    def check_suits(self) -> None:
        """Refuse a routing that the fabric cannot have, before anything is sent.

        Raises
        ------
        InputError
            If the routing does not suit the fabric.

        Examples
        --------
        >>> from netplan import Scenario
        >>> graph = Scenario.load("hgx-h100").replace(gpus=64, radix=16).fabric("fat-tree").graph()
        >>> Router(graph, "valiant").check_suits()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        netplan.errors.InputError: fat-tree is no dragonfly, nor are its switches joined ...
        """
        if len(self._network):
            self._network_loads(no_leg(), None)

    def _domain_loads(self, leg: Leg, rng: np.random.Generator | None) -> Floats:
        """Load of the links inside HB domains [B], shape (2, links); all others are 0."""
        if rng is not None or not self._has_stars:
            return self._along(self._domain_arcs, leg, rng)
        return self._evenly_over("hb", leg)

    def _network_loads(self, leg: Leg, rng: np.random.Generator | None) -> Floats:
        """Load of the network links [B], shape (2, links)."""
        graph = self.graph
        routing = self.own_routing if self.routing == "auto" else self.routing
        if routing == "dimension-order":
            return torus_loads(graph, leg, self._laid)
        if routing == "minimal-adaptive" and self._laid is not None:  # refuses what is no torus
            return self._along(self._network_arcs, leg, None)
        dragonfly = routing_dragonfly.is_dragonfly(graph)
        if routing == "adaptive" or (routing == "valiant" and not dragonfly):
            return self._joined_loads(leg, mixed=routing == "adaptive")
        if routing in ("minimal", "valiant"):
            if not dragonfly:
                raise InputError(f"{graph.name} is no dragonfly: take routing 'ecmp' or 'auto'")
            loads = routing_dragonfly.dragonfly_loads(
                routing_dragonfly.dragonfly_map(graph), leg, graph.link_count, routing
            )
            return loads + self._evenly_over("host", leg)
        if rng is None and self._tree is not None and not leg.empty:
            return clos_loads(self._tree, leg, graph.link_count)
        nothing = np.zeros((2, graph.link_count))
        return nothing if leg.empty else self._along(self._network_arcs, leg, rng)

    def _along(self, arcs: Arcs, leg: Leg, rng: np.random.Generator | None) -> Floats:
        """Load of some links under ECMP [B], shape (2, links); all others are 0."""
        flows = leg.listed()
        check_reached(self.graph, arcs, flows)
        routed = ecmp_loads(arcs, flows.source, flows.destination, flows.flow_bytes, rng)
        return routed.reshape(2, -1)

    def _evenly_over(self, role: Role, leg: Leg) -> Floats:
        """Load of links from GPUs, each of which splits all evenly over its own [B], (2, links)."""
        graph = self.graph
        loads, links = np.zeros((2, graph.link_count)), graph.links_with(role)
        gpu = graph.source[links]
        share = np.bincount(gpu, minlength=graph.gpus)
        for row, amount in enumerate(leg.ends(graph.gpus)):
            loads[row, links] = amount[gpu] / share[gpu]
        return loads

    def _joined_loads(self, leg: Leg, *, mixed: bool) -> Floats:
        """Load of the network links where switches are joined directly [B], shape (2, links)."""
        graph = self.graph
        if not routing_joined.has_joined_switches(graph):
            raise InputError(
                f"{graph.name} is no dragonfly, nor are its switches joined directly: take routing"
                " 'ecmp' or 'auto'"
            )
        if leg.empty:
            return np.zeros((2, graph.link_count))
        hosts, direct, detours = self._ways(leg)
        share = routing_joined.share_with_hosts(graph, hosts, direct, detours) if mixed else 0.0
        return hosts + (share * direct + (1 - share) * detours)

    def _ways(self, leg: Leg) -> tuple[Floats, Floats, Floats]:
        """Loads of hosts' links, and of both ways between switches that are joined directly [B]."""
        graph = self.graph
        if not routing_dragonfly.is_dragonfly(graph):
            return routing_joined.joined_ways(self._joined, leg, routing_joined.switch_ways)
        dragonfly = routing_dragonfly.dragonfly_map(graph)
        direct = routing_dragonfly.dragonfly_loads(dragonfly, leg, graph.link_count, "minimal")
        return (
            self._evenly_over("host", leg),
            direct,
            routing_dragonfly.dragonfly_detours(dragonfly, leg, graph.link_count),
        )

    @cached_property
    def own_routing(self) -> Routing:
        """Routing that the fabric is built for, by the roles of its links."""
        if routing_joined.has_joined_switches(self.graph):
            return "adaptive"
        rings = self.graph.has("ring") and not self.graph.has("mesh")
        try:  # of a torus that is partly filled, or twisted
            return "dimension-order" if rings and self._laid.torus.sizes else "ecmp"
        except InputError:
            return "ecmp"

    @cached_property
    def _laid(self) -> LaidTorus:
        return torus_of_graph(self.graph)

    @cached_property
    def _joined(self) -> routing_joined.JoinedMap:
        return _joined_map(self.graph)

    @cached_property
    def _network(self) -> Ints:
        """Links that are in no HB domain."""
        return np.flatnonzero(~self.graph.is_role("hb"))

    @cached_property
    def _forwards_between_rails(self) -> bool:
        """Whether HB domains do what the network alone does not: join all GPUs."""
        if self.forwarding is not None:
            return self.forwarding
        if not self.graph.has("hb"):
            return False
        tree = self._tree
        if tree is not None:  # joins what is below one position at the top
            return bool(tree.parents[-1].any())
        return not joins_all(self.graph, self._network)

    @cached_property
    def _has_stars(self) -> bool:
        """Whether each HB switch joins all GPUs of its domain, by one link each."""
        graph, links = self.graph, self.graph.links_with("hb")
        gpu, switch = graph.source[links], graph.target[links]
        if not np.all(graph.node_kind[switch] == HB_SWITCH):
            return False
        members = np.minimum(graph.gpus - gpu // graph.hb_size * graph.hb_size, graph.hb_size)
        ends = np.bincount(switch, minlength=graph.node_count)[switch]
        pairs = distinct_values(gpu * np.int64(graph.node_count) + switch)
        return bool(np.all(ends == members)) and len(pairs) == len(links)

    @cached_property
    def _tree(self) -> ClosTree | None:
        return tree_of_graph(self.graph, self._network)

    @cached_property
    def _domain_arcs(self) -> Arcs:
        links, forwards = self.graph.links_with("hb"), np.ones(self.graph.node_count, bool)
        return make_arcs(self.graph.source, self.graph.target, forwards, links)

    @cached_property
    def _network_arcs(self) -> Arcs:
        forwards = forwarding_nodes(self.graph, self._network)
        return make_arcs(self.graph.source, self.graph.target, forwards, self._network)


@lru_cache(maxsize=1)
def _joined_map(graph: FabricGraph) -> routing_joined.JoinedMap:
    """The map of a graph, which many demands share."""
    return routing_joined.joined_map(graph, Router(graph)._network)  # noqa: SLF001 - of this module


def check_reached(graph: FabricGraph, arcs: Arcs, leg: Leg) -> None:
    """Refuse flows whose ends some links do not join.

    Parameters
    ----------
    graph, arcs
        The fabric, and these links.
    leg
        Flows between its nodes.

    Raises
    ------
    InputError
        If they do not: which ends of which flow.
    """
    apart = np.flatnonzero(arcs.part[leg.source] != arcs.part[leg.destination])
    if len(apart):
        first, last = (graph.node_name(int(end[apart[0]])) for end in (leg.source, leg.destination))
        raise InputError(f"{first} cannot reach {last}: no path of {graph.name} joins them")


def joins_all(graph: FabricGraph, links: Ints) -> bool:
    """Whether some links, those of the network, join all GPUs.

    Parameters
    ----------
    graph
        The fabric.
    links
        Numbers of these links, shape (n,).

    Returns
    -------
    bool
        Whether there is a path over them between any two GPUs.
    """
    part = connected_parts(graph.node_count, graph.source[links], graph.target[links])
    part = part[: graph.gpus]
    return bool(np.all(part == part[0]))


def forwarding_nodes(graph: FabricGraph, links: Ints) -> Bools:
    """Whether each node of an intact fabric passes on traffic of others: GPUs where they must.

    Parameters
    ----------
    graph
        The fabric.
    links
        Numbers of the links of its network, shape (n,).

    Returns
    -------
    Bools
        Whether each node forwards, shape (nodes,).
    """
    forwards: Bools = graph.node_kind != GPU
    return forwards | (not switches_suffice(graph, links))
