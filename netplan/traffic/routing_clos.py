"""Loads of Clos networks in closed form: even splitting on a tree of positions.

Under even splitting all planes of a Clos network, and all spines of a plane, carry the same. What
remains is a tree of *positions*: the endpoints, the leaves, the pods that several leaves form under
the same spines, and so on up to the top. A message climbs until its position covers both ends, and
comes down again; the links above a position share what passes. So a network of a million GPUs needs
three small arrays of parents to find every load.

::

    endpoint --- leaf --- pod --- top           parents[0][endpoint], parents[1][leaf], ...
              1        u      u^2               links above one position

What leaves a position upwards is the traffic of all flows with one end below it and the other not;
its links upwards share it evenly, and so do the links downwards. Each tier costs two table lookups
a flow and two sums; nothing is searched and no graph is needed.
"""

from dataclasses import dataclass

import numpy as np

from netplan.arrays import AnyInts, Floats, Indices, Ints
from netplan.errors import InputError
from netplan.topologies.clos import ceil_div, equal_uplinks, leaf_ports, tiers_needed
from netplan.topologies.graph import SWITCH, FabricGraph
from netplan.traffic.demand import Leg
from netplan.traffic.products import sum_by


@dataclass(frozen=True, slots=True, eq=False)
class ClosTree:
    """Positions of a Clos network, or of several side by side.

    Parameters
    ----------
    parents
        For each tier from the endpoints up, the position above every position.
    links_above
        For each tier, the links that leave every position upwards [1], shape (positions,).
    """

    parents: tuple[Indices, ...]
    links_above: tuple[Indices, ...]

    @property
    def tiers(self) -> int:
        """Switch tiers [1]."""
        return len(self.parents)


def clos_tree(endpoints: int, radix: int, *, oversubscription: float = 1.0) -> ClosTree:
    """Tree of :func:`netplan.topologies.clos.wireable_clos`, without its graph.

    Parameters
    ----------
    endpoints, radix, oversubscription
        As there; endpoints are in the order of the wiring.

    Examples
    --------
    >>> tree = clos_tree(16, 4)
    >>> [parents.tolist() for parents in tree.parents[1:]]
    [[0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0]]
    >>> [int(links[0]) for links in tree.links_above]
    [1, 2, 4]
    """
    ports = leaf_ports(radix, oversubscription)
    tiers = tiers_needed(endpoints, radix, ports)
    one = np.ones(endpoints, np.int32)
    if tiers <= 1:
        return ClosTree((0 * one,) * tiers, (one,) * tiers)
    leaves = ceil_div(endpoints, ports.down)
    hosts = ceil_div(endpoints, leaves)
    uplinks = ceil_div(hosts * ports.up, ports.down)
    starts = np.arange(leaves + 1, dtype=np.int64) * endpoints // leaves
    leaf = np.repeat(np.arange(leaves, dtype=np.int32), np.diff(starts))
    if tiers == 2:  # noqa: PLR2004 - leaves and spines
        spines, each = equal_uplinks(leaves, uplinks, radix, radix - hosts)
        top = np.zeros(leaves, np.int32)
        return ClosTree((leaf, top), (one, np.full(leaves, spines * each, np.int32)))
    plane = clos_tree(leaves, radix)
    above = tuple(uplinks * links for links in plane.links_above)
    return ClosTree((leaf, *plane.parents), (one, *above))


def rail_order(gpus: int, hb_size: int) -> Ints:
    """Endpoint of every GPU under rail wiring: by rank, then by HB domain, shape (gpus,).

    Examples
    --------
    >>> rail_order(5, 2)
    array([0, 3, 1, 4, 2])
    """
    domain, rank = np.divmod(np.arange(gpus), hb_size)
    full, extra = divmod(gpus, hb_size)
    return rank * full + np.minimum(rank, extra) + domain


def attached(tree: ClosTree, endpoint: Ints) -> ClosTree:
    """Tree whose lowest positions are GPUs, each on the given endpoint.

    Examples
    --------
    >>> attached(clos_tree(8, 4), rail_order(8, 2)).parents[0].tolist()
    [0, 2, 0, 2, 1, 3, 1, 3]
    """
    leaf, *rest = tree.parents
    links, *above = tree.links_above
    return ClosTree((leaf[endpoint], *rest), (links[endpoint], *above))


def side_by_side(tree: ClosTree, copies: int) -> ClosTree:
    """As many separate copies, copy after copy: rail-only is one copy a rail.

    Examples
    --------
    >>> side_by_side(clos_tree(2, 4), 2).parents[0].tolist()
    [0, 0, 1, 1]
    """
    copy = np.arange(copies, dtype=np.int64)
    parents: list[Indices] = []
    for above in tree.parents:
        numbers = copy[:, None] * (int(above.max()) + 1) + above
        parents.append(numbers.astype(np.int32).ravel())
    links_above: list[Indices] = [np.tile(links, copies) for links in tree.links_above]
    return ClosTree(tuple(parents), tuple(links_above))


def rail_only_tree(
    gpus: int, radix: int, hb_size: int, *, oversubscription: float = 1.0
) -> ClosTree:
    """Tree of the rails of a rail-only network, each a Clos network of its own.

    Raises
    ------
    InputError
        If the last HB domain is partly filled: then rails differ, and the graph shows them all.

    Examples
    --------
    >>> rail_only_tree(8, 4, 2).parents[0].tolist()
    [0, 1, 0, 1, 0, 1, 0, 1]
    """
    if gpus % hb_size:
        raise InputError(
            f"{gpus:,} GPUs do not fill HB domains of {hb_size:,}: expand the graph of the fabric,"
            " or take whole domains"
        )
    hosts = gpus // hb_size
    rails = side_by_side(clos_tree(hosts, radix, oversubscription=oversubscription), hb_size)
    domain, rank = np.divmod(np.arange(gpus), hb_size)
    return attached(rails, rank * hosts + domain)


def tree_of_graph(graph: FabricGraph, links: Ints) -> "GraphTree | None":
    """Tree of a graph's network, if it is a Clos network on which even splitting is symmetric.

    Parameters
    ----------
    graph
        The fabric.
    links
        Numbers of its network links.

    Returns
    -------
    GraphTree or None
        None if a GPU has no single network link, a link does not join neighbouring tiers, or the
        switches of one position differ in their links.
    """
    low, high = graph.source[links], graph.target[links]
    tier = graph.node_tier.astype(np.int64)
    rises = np.all(tier[high] == tier[low] + 1) and np.all(graph.node_kind[high] == SWITCH)
    ports = np.bincount(low[low < graph.gpus], minlength=graph.gpus)
    if not (rises and np.all(ports == 1)):
        return None
    position = np.full(graph.node_count, -1, np.int64)
    position[: graph.gpus] = np.arange(graph.gpus)
    parents, above, numbers = [], [], []
    nodes = np.ones(graph.gpus, np.int64)  # of each position: one GPU, then alike switches
    for height in range(int(tier[high].max())):
        number = links[(tier[low] == height) & (position[low] >= 0)]
        low_node, high_node = graph.source[number], graph.target[number]
        stage = _stage(position, low_node, high_node, nodes)
        if stage is None:
            return None
        parent, share, nodes = stage
        parents.append(parent)
        above.append(share)
        numbers.append(number)
    lower = tuple(position[graph.source[number]] for number in numbers)
    return GraphTree(ClosTree(tuple(parents), tuple(above)), tuple(numbers), lower)


@dataclass(frozen=True, slots=True, eq=False)
class GraphTree:
    """A tree with the links of its graph.

    Parameters
    ----------
    tree
        The positions.
    links, lower
        For each tier, the links above its positions, and the position that each leaves.
    """

    tree: ClosTree
    links: tuple[Ints, ...]
    lower: tuple[Ints, ...]


def _stage(
    position: Ints, low: Indices, high: Indices, nodes: Ints
) -> tuple[Indices, Indices, Ints] | None:
    """Number the switches of the next tier by position: parents, links above, switches a position.

    Switches stand at the same position if the lowest position below them is the same. Symmetry is
    then checked: one parent a position, as many links up from each of its ``nodes``, and as many
    from the position to each switch above it. None if one of these fails.
    """
    below = position[low]
    switches, switch = np.unique(high, return_inverse=True)
    lowest = np.full(len(switches), np.iinfo(np.int64).max)
    np.minimum.at(lowest, switch, below)
    _, first, place = np.unique(lowest, return_index=True, return_inverse=True)
    # Positions are numbered like their first switches, so that position 3 is leaf 3.
    place = np.argsort(np.argsort(first))[place]
    position[switches] = place
    parent = np.full(len(nodes), -1, np.int64)
    parent[below] = place[switch]
    if parent.min() < 0 or not np.array_equal(parent[below], place[switch]):
        return None
    links = np.bincount(below, minlength=len(nodes))
    alike = np.bincount(place, minlength=len(first))
    pair, count = np.unique(below * np.int64(len(switches)) + switch, return_counts=True)
    under = pair // len(switches)
    even_up = np.all(np.bincount(low)[low] * nodes[below] == links[below])
    even_down = np.all(count * alike[parent[under]] == links[under])
    if not (even_up and even_down):
        return None
    return parent.astype(np.int32), links.astype(np.int32), alike


@dataclass(frozen=True, slots=True, eq=False)
class TierLoads:
    """Loads of the links above the positions of one tier; all links of a position are alike.

    Parameters
    ----------
    links
        Links above each position [1], shape (positions,).
    up_bytes, down_bytes
        Bytes on all links above a position together, each way [B], shape (positions,).
    """

    links: AnyInts
    up_bytes: Floats
    down_bytes: Floats

    @property
    def link_bytes(self) -> Floats:
        """Bytes on one link, up and down [B], shape (2, positions)."""
        return np.stack((self.up_bytes, self.down_bytes)) / np.maximum(self.links, 1)


def clos_loads(tree: ClosTree, leg: Leg) -> tuple[TierLoads, ...]:
    """Loads of every tier of a Clos network under fluid ECMP.

    Parameters
    ----------
    tree
        The network; its lowest positions are the GPUs.
    leg
        Traffic over the network.

    Returns
    -------
    tuple of TierLoads
        From the host links up.

    Examples
    --------
    Eight hosts, two to a leaf of radix 4: host 0 sends to 1 and 3.

    >>> from netplan.traffic.routing_clos import clos_tree
    >>> tree = clos_tree(8, 4)
    >>> leg = Leg(np.array([0, 0]), np.array([1, 3]), np.array([5.0, 2.0]))
    >>> host, leaf = clos_loads(tree, leg)
    >>> host.up_bytes[:2].tolist(), leaf.up_bytes.tolist(), leaf.down_bytes.tolist()
    ([7.0, 0.0], [2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0])
    """
    loads = []
    first, second = leg.source, leg.destination
    entries = [products.gpu for products in leg.products]
    crossing = leg.flow_bytes.copy()
    for tier, (parent, links) in enumerate(zip(tree.parents, tree.links_above, strict=True)):
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
        loads.append(TierLoads(links, up, down))
    return tuple(loads)


def graph_clos_loads(graph_tree: GraphTree, leg: Leg, link_count: int) -> Floats:
    """Loads of a Clos network in the order of its graph's links [B], shape (2, links)."""
    loads = np.zeros((2, link_count))
    tiers = clos_loads(graph_tree.tree, leg)
    for tier, links, lower in zip(tiers, graph_tree.links, graph_tree.lower, strict=True):
        loads[:, links] = tier.link_bytes[:, lower]
    return loads
