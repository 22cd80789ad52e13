"""A fabric as streams of jobs see it: HB domains as nodes, on leaves with trunks, or a torus.

===========  =======================================================================================
leaf         what the lowest switch of the first GPU of an HB domain is in: itself, which on rails
             stands for the rail group; with links inside a group of a dragonfly that group
pod          what hangs together below the third tier of switches
trunk        a leaf's ratio of host links to links up, or out of its group; never below 1. Of links
             that failed their share of the rate is gone
torus        nodes are cubes of 4 x 4 x 4 places where whole ones fill it, else HB domains; a leaf
             is a row of them along the last axis
===========  =======================================================================================
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InfeasibleError
from netplan.faults.damage.damage import Damage, find_effects
from netplan.faults.damage.scenario import parse_faults
from netplan.records import replace
from netplan.simulation.job_clusters import LeafTrunks
from netplan.topologies.build import own_cards, own_rates
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.mixed_domains import domain_of_gpu, fill_domains
from netplan.topologies.families.torus import Torus, torus_shape
from netplan.topologies.graph import SWITCH, FabricGraph, connected_parts
from netplan.topologies.specs import FabricSpec
from netplan.units import counted

CUBE = 4
"""Side of a cube of chips [1]: of TPU v4 and later (Jouppi et al., arXiv:2304.01433)."""

AXES = 3
SPINE, CORE = 2, 3
"""Tiers of switches above leaves, and above pods [1]."""


class JobCluster(Struct, frozen=True, eq=False):
    """Leaves and nodes of a fabric.

    Parameters
    ----------
    trunks
        As streams see them.
    gpus_of_node
        GPUs of every place for a node; -1 fills up, shape (places, GPUs of the largest node).
    damage
        What is out for good; None if all is whole.
    notes
        What is left out.
    """

    trunks: LeafTrunks
    gpus_of_node: Ints
    damage: Damage | None = None
    notes: tuple[str, ...] = ()


def job_cluster(
    graph: FabricGraph, spec: FabricSpec, sizing: Sizing, fail: Sequence[str] = (), seed: int = 0
) -> JobCluster:
    """Leaves, nodes, pods and trunks of a fabric.

    Parameters
    ----------
    graph
        The fabric.
    spec, sizing
        What it is made from.
    fail
        Parts that are out for good.
    seed
        Draws those that are not named.

    Returns
    -------
    JobCluster
        Without the nodes that failed.

    Raises
    ------
    NetplanError
        If a fault cannot be read, or no node is left.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=256, radix=32, oversubscription=3.0)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> cluster = job_cluster(graph, FABRICS.load("fat-tree"), scenario.sizing).trunks
    >>> cluster.leaves, cluster.nodes, cluster.gpus, cluster.ratio
    (11, 3, 8, 3.0)
    """
    domain, size_of_domain = _domains(graph, spec, sizing)
    held = np.bincount(domain, minlength=len(size_of_domain))
    notes = [
        f"The last HB domain holds {have:,} of {size:,} GPUs: left idle."
        for have, size in zip(held.tolist(), size_of_domain.tolist(), strict=True)
        if have < size
    ]
    if spec.domains:
        sizes, counts = np.unique(size_of_domain[held == size_of_domain], return_counts=True)
        pairs = zip(counts.tolist(), sizes.tolist(), strict=True)
        words = ", ".join(f"{count:,} of {size:,} GPUs" for count, size in pairs)
        notes.append(f"HB domains: {words}. A job takes nodes of one size.")
    damage = parse_faults(fail, graph, rng=np.random.default_rng(seed)) if fail else None
    if isinstance(spec, Torus):
        trunks, members = _torus(spec, sizing, graph.gpus // graph.hb_size, graph.hb_size)
    else:
        ratio = sizing.oversubscription if spec.reads("oversubscription") else None
        first = np.flatnonzero(np.diff(domain, prepend=-1))[held == size_of_domain]
        trunks, members = _leaves(graph, first, held[held == size_of_domain], damage, ratio)
        if not np.any(graph.node_kind == SWITCH):
            notes.append(
                "No switches, and so no leaves: all nodes stand on one, with no shared link."
            )
    down = np.zeros(graph.gpus + 1, bool)  # the last is of places without a GPU
    if damage is not None:
        effects = find_effects(graph, damage)
        down[effects.gpus_down] = down[effects.cut_off] = True
    gone = down[members].any(axis=1)
    present = (members[:, 0] >= 0) & ~gone
    if trunks.grid is not None:
        present &= (members >= 0).all(axis=1)
    if not present.any():
        raise InfeasibleError("no HB domain is left for jobs: let fewer parts fail")
    if gone.any():
        notes.append(f"Out for the whole run: {counted(int(gone.sum()), 'node')}.")
    shape = trunks.leaves, trunks.nodes
    if trunks.sizes is not None:
        sizes = np.where(present.reshape(shape), trunks.sizes, 0)
        trunks = replace(trunks, sizes=sizes)
    elif not present.all():
        trunks = replace(trunks, present=present.reshape(shape))
    return JobCluster(trunks, members, damage, tuple(notes))


def _domains(graph: FabricGraph, spec: FabricSpec, sizing: Sizing) -> tuple[Ints, Ints]:
    """HB domain of every GPU, shape (gpus,); GPUs that each has room for, shape (domains,) [1]."""
    domain = domain_of_gpu(spec, sizing) if spec.domains else np.arange(graph.gpus) // graph.hb_size
    if not spec.domains:
        return domain, np.full(int(domain[-1]) + 1, graph.hb_size)
    kinds = fill_domains(spec, graph.gpus)
    return domain, np.repeat([kind.kind.size for kind in kinds], [kind.domains for kind in kinds])


def _leaves(
    graph: FabricGraph, first: Ints, size: Ints, damage: Damage | None, ratio: float | None
) -> tuple[LeafTrunks, Ints]:
    """Leaves of a fabric with switches, all nodes on one without any; the GPUs of every place.

    Nodes are told by their first GPU and their size.
    """
    count, ranks = len(first), np.arange(size.max(initial=0))
    if not count:
        raise InfeasibleError("no HB domain is whole, and jobs need one: give more GPUs")
    gpus = np.where(ranks < size[:, None], first[:, None] + ranks, -1)
    least = int(size.min())
    if not np.any(graph.node_kind == SWITCH):
        sizes = None if least == size.max() else size[None, :]
        return LeafTrunks(1, count, least, sizes=sizes), gpus
    host = graph.is_role("host") & (graph.source < graph.gpus)
    lowest = np.full(graph.gpus, graph.node_count, np.int64)
    np.minimum.at(lowest, graph.source[host], graph.target[host])
    lost = np.flatnonzero(lowest == graph.node_count)
    if len(lost):
        # GPUs that only others forward for stand where the first of all others does.
        lowest[lost] = lowest.min()
    leaf_switch = np.minimum(lowest, graph.node_count - 1)[first]
    group = _parts(graph, 1)
    leaf = _numbered(group[leaf_switch])
    pod_of_node = _numbered(_parts(graph, SPINE)[leaf_switch])
    leaves, nodes = int(leaf.max()) + 1, int(np.bincount(leaf).max())
    order = np.argsort(leaf, kind="stable")
    within = np.arange(count) - np.searchsorted(leaf[order], leaf[order])
    place = leaf[order] * nodes + within
    members = np.full((leaves * nodes, len(ranks)), -1, np.int64)
    members[place] = gpus[order]
    sizes = np.zeros(leaves * nodes, np.int64)
    sizes[place] = size[order]
    pods = np.zeros(leaves, np.int64)
    pods[leaf] = pod_of_node
    known = _own_ratio(graph, group) if ratio is None else ratio
    leaf_of_gpu = np.full(graph.gpus, -1, np.int64)
    leaf_of_gpu[gpus[gpus >= 0]] = np.repeat(leaf, size)
    below = np.bincount(leaf, size / least, leaves)
    trunks = below / known * _alive(graph, group, damage, leaf_of_gpu)
    alike = bool((trunks == nodes / known).all())
    return LeafTrunks(
        leaves,
        nodes,
        least,
        known,
        pods=_numbered(pods),
        sizes=None if least == size.max() else sizes.reshape(leaves, nodes),
        trunks=None if alike else trunks,
    ), members


def _alive(graph: FabricGraph, group: Ints, damage: Damage | None, leaf_of_gpu: Ints) -> Floats:
    """Share of the rate out of each leaf that damage leaves its worst GPU, shape (leaves,) [1].

    The GPUs of a leaf may have switches of several rails, on which collectives go in step.
    """
    share = np.ones(int(leaf_of_gpu.max()) + 1)
    if damage is None:
        return share
    out = _links_out(graph, group)
    host = graph.is_role("host") & (graph.source < graph.gpus)
    gpu, switch = graph.source[host], graph.target[host]
    rates = []
    for links in (out, out & ~damage.links_out(graph)):
        rate = np.zeros(graph.node_count)
        for ends in (graph.source, graph.target):
            np.add.at(rate, group[ends[links]], graph.bytes_per_s[links])
        rates.append(np.bincount(gpu, rate[group[switch]], graph.gpus))
    built, left = rates
    of_gpu = np.divide(left, built, out=np.ones(graph.gpus), where=built > 0)
    there = leaf_of_gpu >= 0
    np.minimum.at(share, leaf_of_gpu[there], of_gpu[there])
    return share


def _parts(graph: FabricGraph, tier: int) -> Ints:
    """Part of each node of what hangs together over switches up to a tier, shape (nodes,).

    Switches of one tier that are joined directly stay apart, but for the groups of a dragonfly.
    """
    kind, height = graph.node_kind, graph.node_tier
    both = (kind[graph.source] == SWITCH) & (kind[graph.target] == SWITCH)
    low = np.maximum(height[graph.source], height[graph.target]) <= tier
    used = both & low & ~graph.is_role("global", "joined")
    return connected_parts(graph.node_count, graph.source[used], graph.target[used])


def _links_out(graph: FabricGraph, group: Ints) -> Bools:
    """Links of switches that leave a leaf or its group, shape (links,)."""
    kind, height = graph.node_kind, graph.node_tier
    both = (kind[graph.source] == SWITCH) & (kind[graph.target] == SWITCH)
    low = np.minimum(height[graph.source], height[graph.target]) == 1
    out: Bools = both & low & (group[graph.source] != group[graph.target])
    return out


def _own_ratio(graph: FabricGraph, group: Ints) -> float:
    """Rate of host links over that of links that leave a leaf or its group; never below 1."""
    host = graph.is_role("host") & (graph.node_kind[graph.target] == SWITCH)
    out = _links_out(graph, group)
    if not out.any():
        return 1.0
    height = graph.node_tier
    level = height[graph.source[out]] == height[graph.target[out]]
    ends = 1.0 + level  # a link between equals leaves two groups
    down = float(graph.bytes_per_s[host].sum())
    return max(1.0, down / float((ends * graph.bytes_per_s[out]).sum()))


def _numbered(values: Ints) -> Ints:
    """The same from 0 on without gaps, in order of their first places."""
    distinct, first, number = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(distinct), np.int64)
    rank[np.argsort(first)] = np.arange(len(distinct))
    return rank[number.reshape(-1)]


def _torus(spec: Torus, sizing: Sizing, whole: int, size: int) -> tuple[LeafTrunks, Ints]:
    """Cubes of a torus, or its HB domains where no whole cubes fill it, by rows."""
    sizes = torus_shape(spec, own_rates(spec, own_cards(spec, sizing)))
    cubes = len(sizes) == AXES and not any(side % CUBE for side in sizes)
    side = CUBE if cubes else 1
    grid = tuple(length // side for length in sizes)
    domain = np.arange(prod(sizes))
    # The first axis is the fastest.
    place = np.stack(np.unravel_index(domain, sizes[::-1]))[::-1]
    node = np.ravel_multi_index(tuple(place // side), grid)
    order = np.argsort(node, kind="stable")
    there = np.where(domain < whole, domain, -1)[order].reshape(prod(grid), -1)
    members = there[:, :, None] * size + np.arange(size)
    members = np.where(there[:, :, None] >= 0, members, -1).reshape(prod(grid), -1)
    rows = prod(grid) // grid[-1]
    box = (grid[0], grid[1], grid[2]) if cubes else None
    trunks = LeafTrunks(
        rows, grid[-1], members.shape[1], grid=box, wraps=spec.wraparound and not spec.twist
    )
    return trunks, members
