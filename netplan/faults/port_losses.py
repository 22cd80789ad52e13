"""Failures that take a few GPUs off a network and leave the rest in one piece, found unsearched.

A spanning forest of the links is a witness: what it joins hangs together. A group of links whose
failure spares the forest changes nothing. If it hits the forest at leaves only, at GPUs all of
whose links are out, then these stand alone, and what is left of the forest joins all others as
before. So one forest answers for thousands of cards, one for each GPU, where a search of the whole
graph for each takes minutes. The forest takes links at GPUs last, so that few GPUs are no leaves.

Asked of so many domains that the others are the main island (`netplan.faults.damage`) whatever the
group takes; all other groups, and those with nodes, are left to the search.
"""

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from netplan.arrays import Bools, Ints
from netplan.faults.damage import Islands, directed, network_links
from netplan.faults.groups import RiskGroups
from netplan.topologies.graph import FabricGraph

MAIN_DOMAINS = 2
"""HB domains that a main island spans at least [1]."""


class PortLosses(Struct, frozen=True, eq=False):
    """GPUs whose links are all out, by group.

    Parameters
    ----------
    lost
        One where the links of a GPU are all out, shape (groups, gpus).
    known
        Groups whose failure cuts off just these GPUs, shape (groups,).
    """

    lost: csr_array
    known: Bools


def port_losses(
    graph: FabricGraph, groups: RiskGroups, links: Bools, intact: Islands
) -> PortLosses:
    """GPUs that lose all of some links by each group, and the groups that do no more.

    Parameters
    ----------
    graph, groups
        The fabric, and what fails together.
    links
        The links that count, shape (links,).
    intact
        Islands of the intact fabric over these links.

    Examples
    --------
    Cards of two ports, one in each plane: each takes its own GPU. The first joins the planes in
    the forest, and is searched.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage import intact_islands
    >>> from netplan.faults.groups import card_groups
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> graph = scenario.fabric("two-planes").graph()
    >>> links, (network, _) = network_links(graph), intact_islands(graph)
    >>> losses = port_losses(graph, card_groups(graph), links, network)
    >>> losses.lost.indices.tolist() == list(range(32)), int(losses.known.sum()) >= 28
    (True, True)
    """
    lost = _without_links(graph, groups, np.flatnonzero(links))
    each = np.diff(lost.indptr)
    group, gpu = np.repeat(np.arange(len(groups)), each), lost.indices
    on_tree, leaf = _forest(graph, links)
    known = np.ones(len(groups), bool)
    known[groups.node_group] = False
    left = intact.domains[intact.island[gpu]] - each[group]
    known[group[~leaf[gpu] | (left < MAIN_DOMAINS)]] = False
    hit = on_tree[groups.link]
    of, link = groups.link_group[hit].astype(np.int64), groups.link[hit]
    alone = np.zeros(len(of), bool)
    pairs = group.astype(np.int64) * graph.node_count + gpu
    for end in (graph.source, graph.target):
        alone |= np.isin(of * graph.node_count + end[link], pairs)
    known[of[~alone]] = False
    return PortLosses(lost, known)


def _forest(graph: FabricGraph, links: Bools) -> tuple[Bools, Bools]:
    """Links between nodes that a spanning forest joins, and GPUs that are leaves of it.

    Shapes (links,) and (gpus,).
    """
    nodes, gpus = graph.node_count, graph.gpus
    low = np.minimum(graph.source, graph.target).astype(np.int64)
    code = low * nodes + np.maximum(graph.source, graph.target)
    last = (low < gpus) & network_links(graph)
    found, first = np.unique(code[links], return_index=True)
    weight = np.where(last[links][first], 2.0, 1.0)
    one, other = np.divmod(found, nodes)
    tree = minimum_spanning_tree(csr_array((weight, (one, other)), shape=(nodes, nodes))).tocoo()
    ends = tree.row.astype(np.int64), tree.col.astype(np.int64)
    on_tree: Bools = links & np.isin(code, np.minimum(*ends) * nodes + np.maximum(*ends))
    leaf: Bools = np.bincount(np.concatenate(ends), minlength=nodes)[:gpus] == 1
    return on_tree, leaf


def _without_links(graph: FabricGraph, groups: RiskGroups, links: Ints) -> csr_array:
    """GPUs of some links that are all out, by group, shape (groups, gpus)."""
    tail, head = directed(graph, links)
    at = tail < graph.gpus
    gpu, other, link = tail[at], head[at], np.tile(links, 2)[at]
    port = np.arange(len(gpu))
    nodes = members(groups.node_group, groups.node, (len(groups), graph.node_count))
    cables = members(groups.link_group, groups.link, (len(groups), graph.link_count))
    out = nodes @ members(other, port, (graph.node_count, len(gpu)))
    out = out + cables @ members(link, port, (graph.link_count, len(gpu)))
    out.data[:] = 1.0  # a port whose switch and cable both fail is one port
    lost = out @ members(port, gpu, (len(gpu), graph.gpus))
    lost.data = np.where(lost.data == np.bincount(gpu)[lost.indices], 1.0, 0.0)
    lost.eliminate_zeros()
    return lost


def members(row: Ints, column: Ints, shape: tuple[int, int]) -> csr_array:
    """Sparse matrix with ones at some places.

    Examples
    --------
    >>> members(np.array([0, 1]), np.array([2, 0]), (2, 3)).toarray().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return csr_array((np.ones(len(row)), (row, column)), shape=shape)
