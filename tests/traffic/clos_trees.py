"""Trees of Clos networks by their counts alone, against those that are read off a graph."""

import numpy as np

from netplan.arrays import Indices, Ints
from netplan.topologies.families.clos import fat_tree
from netplan.traffic.routing import ClosTree


def clos_tree(endpoints: int, radix: int, *, oversubscription: float = 1.0) -> ClosTree:
    """Tree of :func:`netplan.topologies.families.clos.fat_tree`, without its graph."""
    counted = fat_tree(endpoints, radix, oversubscription=oversubscription)
    parents: list[Indices] = []
    links_above: list[Indices] = []
    ends, planes = endpoints, 1
    for tier in counted.tiers:
        starts = np.arange(tier.switches + 1, dtype=np.int64) * ends // tier.switches
        number = np.arange(tier.switches, dtype=np.int32)
        parents.append(np.repeat(number, np.diff(starts)))
        links_above.append(np.full(ends, planes * tier.uplinks, np.int32))
        planes *= tier.planes
        ends = tier.switches
    return ClosTree(tuple(parents), tuple(links_above))


def rail_order(gpus: int, hb_size: int) -> Ints:
    """Endpoint of every GPU under rail wiring: by rank, then by HB domain, shape (gpus,)."""
    domain, rank = np.divmod(np.arange(gpus), hb_size)
    full, extra = divmod(gpus, hb_size)
    return rank * full + np.minimum(rank, extra) + domain


def attached(tree: ClosTree, endpoint: Ints) -> ClosTree:
    """Tree whose lowest positions are GPUs, each on the given endpoint."""
    leaf, *rest = tree.parents
    links, *above = tree.links_above
    return ClosTree((leaf[endpoint], *rest), (links[endpoint], *above))


def side_by_side(tree: ClosTree, copies: int) -> ClosTree:
    """As many separate copies, copy after copy: rail-only is one copy a rail."""
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
    """Tree of the rails of a rail-only network, each a Clos network of its own."""
    hosts = gpus // hb_size
    rails = side_by_side(clos_tree(hosts, radix, oversubscription=oversubscription), hb_size)
    domain, rank = np.divmod(np.arange(gpus), hb_size)
    return attached(rails, rank * hosts + domain)
