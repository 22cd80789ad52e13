"""Risk groups in the simulated years: how often each kind fails, and what it takes from a job.

A rack, power feed, row, cable tray or group of one's own fails as a whole, each at the rate that
the failure book has for one of its kind; kinds that the book has no row of never do. Such a failure
stops a job on all GPUs if it takes a GPU, an HB switch, or the last port of a GPU. It takes an HB
domain from the job if one of its GPUs is down, or if none has a port left.

Groups without GPUs are tried one by one, since they may leave the network in components, but for
those that plainly do not (below): cards, for one, of which each GPU has one. Of groups with GPUs,
racks mostly, ports are counted: a GPU whose network links are all out is cut off.

Groups that hold as many switches and links, and take as much, are one class, and one in the middle
of it stands for all. Those of classes beyond the most frequent ones take their domains, and what
else they do to the network is left out.

Failures that take a few GPUs off a network and leave the rest in one piece, found unsearched.

A spanning forest of the links is a witness: what it joins hangs together. A group of links whose
failure spares the forest changes nothing. If it hits the forest at leaves only, at GPUs all of
whose links are out, then these stand alone, and what is left of the forest joins all others as
before. So one forest answers for thousands of cards, one for each GPU, where a search of the whole
graph for each takes minutes. The forest takes links at GPUs last, so that few GPUs are no leaves.

Asked of so many domains that the others are the main component (`netplan.faults.damage.damage`)
whatever the group takes; all other groups, and those with nodes, are left to the search.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from netplan.arrays import Bools, Floats, Ints, distinct_values
from netplan.faults.damage.damage import (
    Components,
    Damage,
    directed,
    find_effects,
    intact_components,
    network_links,
)
from netplan.faults.damage.groups import RiskGroups, one_for_all, weighted_rates
from netplan.faults.years.outages import Cause, Effect
from netplan.faults.years.rates import FailureBook, FailureRate, Unit
from netplan.inputs.choices import End
from netplan.records import replace
from netplan.topologies.graph import HB_SWITCH, SWITCH, FabricGraph

MAIN_DOMAINS = 2
"""HB domains that a main component spans at least [1]."""


def port_losses(
    graph: FabricGraph, groups: RiskGroups, links: Bools, intact: Components
) -> tuple[csr_array, Bools]:
    """GPUs that lose all of some links by each group, and the groups that do no more.

    One where the links of a GPU are all out, shape (groups, gpus); whether the failure of a group
    cuts off just these GPUs, shape (groups,).

    Parameters
    ----------
    graph, groups
        The fabric, and what fails together.
    links
        The links that count, shape (links,).
    intact
        Components of the intact fabric over these links.

    Examples
    --------
    Cards of two ports, one in each plane: each takes its own GPU. The first joins the planes in
    the forest, and is searched.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.damage import intact_components
    >>> from netplan.faults.damage.groups import card_groups
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> graph = scenario.fabric("two-planes").graph()
    >>> links, (network, _) = network_links(graph), intact_components(graph)
    >>> lost, known = port_losses(graph, card_groups(graph), links, network)
    >>> lost.indices.tolist() == list(range(32)), int(known.sum()) >= 28
    (True, True)
    """
    lost = _without_links(graph, groups, np.flatnonzero(links))
    lost_gpus = np.diff(lost.indptr)
    group, gpu = np.repeat(np.arange(len(groups)), lost_gpus), lost.indices
    on_tree, leaf = _forest(graph, links)
    known = np.ones(len(groups), bool)
    known[groups.node_group] = False
    left = intact.domains[intact.component[gpu]] - lost_gpus[group]
    known[group[~leaf[gpu] | (left < MAIN_DOMAINS)]] = False
    hit = on_tree[groups.link]
    of, link = groups.link_group[hit].astype(np.int64), groups.link[hit]
    alone = np.zeros(len(of), bool)
    pairs = group.astype(np.int64) * graph.node_count + gpu
    for end in (graph.source, graph.target):
        alone |= np.isin(of * graph.node_count + end[link], pairs)
    known[of[~alone]] = False
    return lost, known


def _forest(graph: FabricGraph, links: Bools) -> tuple[Bools, Bools]:
    """Links between nodes that a spanning forest joins, and GPUs that are leaves of it.

    Shapes (links,) and (gpus,).
    """
    nodes, gpus = graph.node_count, graph.gpus
    low = np.minimum(graph.source, graph.target).astype(np.int64)
    code = low * nodes + np.maximum(graph.source, graph.target)
    last = (low < gpus) & network_links(graph)
    pairs, first = np.unique(code[links], return_index=True)
    weight = np.where(last[links][first], 2.0, 1.0)
    joins = csr_array((weight, np.divmod(pairs, nodes)), shape=(nodes, nodes))
    tree = minimum_spanning_tree(joins).tocoo()
    ends = tree.row.astype(np.int64), tree.col.astype(np.int64)
    on_tree: Bools = links & np.isin(code, np.minimum(*ends) * nodes + np.maximum(*ends))
    leaf: Bools = np.bincount(np.concatenate(ends), minlength=nodes)[:gpus] == 1
    return on_tree, leaf


def _without_links(graph: FabricGraph, groups: RiskGroups, links: Ints) -> csr_array:
    """GPUs of some links that are all out, by group, shape (groups, gpus)."""
    tail, head = directed(graph, links)
    at_gpu = tail < graph.gpus
    gpu, other, link = tail[at_gpu], head[at_gpu], np.tile(links, 2)[at_gpu]
    port = np.arange(len(gpu))
    nodes = ones_at(groups.node_group, groups.node, (len(groups), graph.node_count))
    cables = ones_at(groups.link_group, groups.link, (len(groups), graph.link_count))
    out = nodes @ ones_at(other, port, (graph.node_count, len(gpu)))
    out = out + cables @ ones_at(link, port, (graph.link_count, len(gpu)))
    out.data[:] = 1.0  # a port whose switch and cable both fail is one port
    lost = out @ ones_at(port, gpu, (len(gpu), graph.gpus))
    lost.data = np.where(lost.data == np.bincount(gpu)[lost.indices], 1.0, 0.0)
    lost.eliminate_zeros()
    return lost


def ones_at(row: Ints, column: Ints, shape: tuple[int, int]) -> csr_array:
    """Sparse matrix with ones at some places.

    Examples
    --------
    >>> ones_at(np.array([0, 1]), np.array([2, 0]), (2, 3)).toarray().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return csr_array((np.ones(len(row)), (row, column)), shape=shape)


GROUP_UNITS: Mapping[str, Unit] = {
    "rack": "rack",
    "feed": "power_feed",
    "row": "row",
    "tray": "tray",
    "hall": "hall",
    "batch": "batch",
}
"""Unit of the failure book that a kind of risk groups fails as; all others are own groups."""


PARTS_OF_ONE: frozenset[str] = frozenset({"card", "engine"})
"""Kinds of groups that rows of the book count as parts of their own: they fail as those do."""

CLASSES_TRIED = 6
"""Classes of like groups of one kind whose impact is worked out, those that fail most often [1]."""

EffectsOf = Callable[[Sequence[Damage]], Sequence[Effect]]
"""Effects of some damages on a job without idle domains."""


class GroupFailures(Struct, frozen=True, eq=False):
    """Groups of one kind in the simulated years.

    Parameters
    ----------
    row
        Row of the failure book that they fail by.
    name
        Name in the answer.
    count
        Groups [1].
    failures_per_year
        Failures of all groups together [1/year].
    causes
        The groups by classes whose failure does the same.
    gpus_cut_off_per_year
        Live GPUs that lose their port to such a failure in a year [1/year].
    """

    row: FailureRate
    name: str
    count: int
    failures_per_year: float
    causes: tuple[Cause, ...]
    gpus_cut_off_per_year: float

    @property
    def interruptions_per_year(self) -> float:
        """Interruptions of the job [1/year]."""
        return sum(cause.interruptions_per_year for cause in self.causes)


def group_failures(
    graph: FabricGraph,
    groups: Sequence[RiskGroups],
    book: FailureBook,
    *,
    end: End = "base",
    effects_of: EffectsOf | None = None,
) -> tuple[GroupFailures, ...]:
    """Groups that fail as a whole, with their rates and what they do to a job on all GPUs.

    Parameters
    ----------
    graph
        The fabric.
    groups
        Racks, feeds, rows, trays and the like, by kind; kinds that the book has no row of, or
        counts as parts, are left out.
    book
        Failure rates and repair times.
    end
        Which end of their ranges counts.
    effects_of
        What damage to the network does to the job; if left out, groups take domains alone.

    Examples
    --------
    Two racks of 16 GPUs, two domains each, and one of six switches, which takes all four. The
    second rack hangs on feed B alone.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.groups import hall_risk_groups, racks_by_count
    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> racks = racks_by_count(graph, gpus_per_rack=16, switches_per_rack=16)
    >>> found = group_failures(graph, hall_risk_groups(graph, racks), FAILURE_BOOKS.load("2026"))
    >>> [(kind.name, sorted(one.effect.domains for one in kind.causes)) for kind in found]
    [('Rack', [2, 4]), ('Power feed', [2, 4])]
    """
    rows = {row.unit: row for row in book.rates}
    failures = []
    for kind in groups:
        row = rows.get(GROUP_UNITS.get(kind.kind, "group"))
        held = kind.held()
        if row is None or not len(held) or kind.kind in PARTS_OF_ONE:
            continue
        total, weight = row.rate_per_year.at_end(end) * len(held), np.zeros(len(kind))
        weight[held] = 1.0 if kind.weight is None else kind.weight[held]
        rates = weighted_rates(total, weight)
        name = row.cause if kind.kind in GROUP_UNITS else f"{row.cause}: {kind.kind}"
        hits = group_hits(graph, kind)
        # A failure that the book says to stop no job takes no domain from it either.
        plain = Cause(name, 0.0, 1, repair_h=book.repair_h(row.kind).at_end(end))
        causes = _causes(graph, kind, hits, rates * row.interrupts, plain, effects_of)
        cut_off = float((rates * hits.cut_off).sum())
        failures.append(GroupFailures(row, name, len(held), total, causes, cut_off))
    return tuple(failures)


def _causes(
    graph: FabricGraph,
    groups: RiskGroups,
    hits: "GroupHits",
    rates: Floats,
    plain: Cause,
    effects_of: EffectsOf | None,
) -> tuple[Cause, ...]:
    """One cause for each class of groups that do the same, those that fail most often first."""
    switches = graph.node_kind[groups.node] == SWITCH
    traits = np.stack(
        [
            np.bincount(hits.group, minlength=len(groups)),
            np.bincount(groups.node_group[switches], minlength=len(groups)),
            np.bincount(groups.link_group, minlength=len(groups)),
            hits.cut_off,
            hits.interrupts,
        ],
        axis=1,
    )
    classes, group_class = np.unique(traits, axis=0, return_inverse=True)
    rate = np.bincount(group_class.ravel(), rates)
    order = np.argsort(-rate, kind="stable")
    network = [number for number in order.tolist() if classes[number, 1:4].any()][:CLASSES_TRIED]
    # As long as nothing is known of the network, a group takes its domains.
    domains = {number: int(classes[number, 0]) for number in order.tolist()}
    effects = {number: Effect(count, whole=count > 0) for number, count in domains.items()}
    if effects_of is not None:
        alike = [np.flatnonzero(group_class.ravel() == number) for number in network]
        damages = [groups.damage(graph, one_for_all(places)) for places in alike]
        effects |= dict(zip(network, effects_of(damages), strict=True))
    return tuple(
        replace(
            plain,
            rate_per_year=float(rate[number]),
            interrupts=1.0 if effects[number].slowdown == inf else float(classes[number, 4]),
            effect=effects[number],
        )
        for number in order.tolist()
        if rate[number]
    )


class GroupHits(Struct, frozen=True, eq=False):
    """What the failure of each group of one kind does.

    Parameters
    ----------
    interrupts
        Whether it stops a job on all GPUs, shape (groups,).
    cut_off
        Live GPUs that are cut off from the network [1], shape (groups,).
    group, domain
        Pairs of a group and an HB domain that it takes from the job, shape (pairs,).
    """

    interrupts: Bools
    cut_off: Ints
    group: Ints
    domain: Ints


def group_hits(graph: FabricGraph, groups: RiskGroups) -> GroupHits:
    """What the failure of each group of one kind does to a job on all GPUs.

    Examples
    --------
    A rail switch of a rail-only network cuts off one GPU of each domain, and no domain is lost.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.groups import groups_of_nodes
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> leaf = np.where(np.arange(graph.node_count) == graph.node_count - 1, 0, -1)
    >>> hits = group_hits(graph, groups_of_nodes("box", ["box-0"], leaf))
    >>> hits.interrupts.tolist(), hits.cut_off.tolist(), len(hits.domain)
    ([True], [8], 0)
    """
    gpu, of_gpu = np.arange(graph.gpus), np.arange(graph.gpus) // graph.hb_size
    at_gpu = groups.node < graph.gpus
    shape = len(groups), graph.gpus
    down = ones_at(groups.node_group[at_gpu], groups.node[at_gpu], shape)
    intact = intact_components(graph)
    every = np.ones(graph.link_count, bool)
    network_lost, network_known = port_losses(graph, groups, network_links(graph), intact[0])
    all_lost, all_known = port_losses(graph, groups, every, intact[1])
    known = network_known & all_known
    cut = network_lost - network_lost.multiply(down)
    cut.eliminate_zeros()
    inside = ones_at(gpu, of_gpu, (graph.gpus, graph.domains))
    gone = (cut @ inside).tocsr()
    gone.data = np.where(gone.data == np.bincount(of_gpu)[gone.indices], 1.0, 0.0)
    group, domain = (down @ inside + gone).nonzero()
    pairs = [group.astype(np.int64) * graph.domains + domain]
    cut_off = np.diff(cut.indptr).astype(np.int64)
    dead = np.diff(down.indptr) > 0
    interrupts = dead.copy()
    interrupts[groups.node_group[graph.node_kind[groups.node] == HB_SWITCH]] = True
    # A job inside one domain needs no port.
    needed = network_lost if graph.domains > 1 else all_lost
    interrupts |= known & (np.diff(needed.indptr) > 0)
    group, gpu = all_lost.nonzero()
    alone = known[group]
    pairs.append(group[alone].astype(np.int64) * graph.domains + of_gpu[gpu[alone]])
    for number in np.flatnonzero(~dead & ~known).tolist():
        effects = find_effects(graph, groups.damage(graph, np.array([number])), intact)
        lost = effects.cut_off if graph.domains > 1 else effects.cut_off_forwarding
        interrupts[number] |= len(lost) > 0
        cut_off[number] = len(effects.cut_off)
        pairs.append(number * graph.domains + effects.cut_off_forwarding // graph.hb_size)
    group, domain = np.divmod(distinct_values(np.concatenate(pairs)), graph.domains)
    return GroupHits(interrupts, cut_off, group, domain)
