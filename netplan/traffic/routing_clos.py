"""Loads of Clos networks in closed form: even splitting on a tree of positions.

What leaves a position upwards is the traffic of all flows with one end below it and the other not;
its links upwards share it evenly, and so do the links downwards. Each tier costs two table lookups
a flow and two sums; nothing is searched and no graph is needed.
"""

from dataclasses import dataclass

import numpy as np

from netplan.arrays import AnyInts, Floats
from netplan.traffic.clos_tree import ClosTree, GraphTree
from netplan.traffic.demand import Leg
from netplan.traffic.products import sum_by


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

    >>> from netplan.traffic.clos_tree import clos_tree
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
