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

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Indices, Ints
from netplan.topologies.graph import SWITCH, FabricGraph
from netplan.traffic.demand import Leg
from netplan.traffic.matrix import sum_by


class ClosTree(Struct, frozen=True, eq=False):
    """Positions of a Clos network, or of several side by side.

    Parameters
    ----------
    parents
        For each tier from the endpoints up, the position above every position.
    links_above
        For each tier, the links that leave every position upwards [1], shape (positions,).
    links, lower
        For each tier of a graph, its links above the positions, and the position each leaves.
    """

    parents: tuple[Indices, ...]
    links_above: tuple[Indices, ...]
    links: tuple[Ints, ...] = ()
    lower: tuple[Ints, ...] = ()


def tree_of_graph(graph: FabricGraph, links: Ints) -> ClosTree | None:
    """Tree of a graph's network, given by its links; None where even splitting is not symmetric.

    So it is if a GPU has no single network link, a link does not join neighbouring tiers, or the
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
    return ClosTree(tuple(parents), tuple(above), tuple(numbers), lower)


def _stage(
    position: Ints, low: Indices, high: Indices, nodes: Ints
) -> tuple[Indices, Indices, Ints] | None:
    """Number the switches of the next tier by position: parents, links above, switches a position.

    Switches stand at the same position if the lowest position below them is the same. Symmetry is
    then checked: one parent a position, as many links up from each of its ``nodes``, and as many
    from the position to each switch above it. None if one of these fails.
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
    """
    loads = np.zeros((2, link_count))
    tiers = zip(_tier_loads(tree, leg), tree.links_above, tree.links, tree.lower, strict=True)
    for both, above, links, lower in tiers:
        loads[:, links] = (np.stack(both) / above)[:, lower]
    return loads
