"""Risk groups in the simulated years: how often each kind fails, and what it takes from a job.

A rack, power feed, row, cable tray or group of one's own fails as a whole, each at the rate that
the failure book has for one of its kind; kinds that the book has no row of never do. Such a failure
stops a job on all GPUs if it takes a GPU, an HB switch, or the last port of a GPU. It takes an HB
domain from the job if one of its GPUs is down, or if none has a port left.

Groups without GPUs are tried one by one, since they may leave the network in islands. Of groups
with GPUs, racks mostly, ports are counted: a GPU whose network links are all out is cut off.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array

from netplan.arrays import Bools, Ints
from netplan.faults.damage import directed, find_effects, intact_islands, network_links
from netplan.faults.groups import NOTHING, RiskGroups, weighted_rates
from netplan.faults.rates import End, FailureBook, FailureRate, Unit
from netplan.records import replace
from netplan.topologies.graph import HB_SWITCH, FabricGraph

GROUP_UNITS: Mapping[str, Unit] = {
    "rack": "rack",
    "feed": "power_feed",
    "row": "row",
    "tray": "tray",
    "hall": "hall",
    "batch": "batch",
}
"""Unit of the failure book that a kind of risk groups fails as; all others are own groups."""


class GroupFailures(Struct, frozen=True, eq=False):
    """Groups of one kind in the simulated years.

    Parameters
    ----------
    row
        Row of the failure book that they fail by.
    failures_per_year
        Failures of all groups together [1/year].
    groups
        The groups; their nodes are the HB domains that each takes from the job.
    gpus_cut_off
        Live GPUs without a port of their own after the failure of each, shape (groups,) [1].
    """

    row: FailureRate
    failures_per_year: float
    groups: RiskGroups
    gpus_cut_off: Ints

    @property
    def gpus_cut_off_per_year(self) -> float:
        """Live GPUs that lose their port to such a failure in a year [1/year]."""
        each = np.average(self.gpus_cut_off, weights=self.groups.weight)
        return float(self.failures_per_year * each)

    @property
    def stops_per_year(self) -> float:
        """Interruptions of the job [1/year]."""
        rate, stops = self.groups.rate_per_year, self.groups.interrupts
        return 0.0 if rate is None or stops is None else float((rate * stops).sum())


def group_failures(
    graph: FabricGraph, groups: Sequence[RiskGroups], book: FailureBook, *, end: End = "base"
) -> tuple[GroupFailures, ...]:
    """Groups that fail as a whole, with their rates and what they do to a job on all GPUs.

    Parameters
    ----------
    graph
        The fabric.
    groups
        Racks, feeds, rows, trays and the like, by kind; kinds that the book has no row of are
        left out.
    book
        Failure rates and repair times.
    end
        Which end of their ranges counts.

    Examples
    --------
    Two racks of 16 GPUs, two domains each, and one of six switches, which takes all four. The
    second rack hangs on feed B alone.

    >>> from netplan.faults.groups import hall_risk_groups, racks_by_count
    >>> from netplan.faults.rates import FAILURE_BOOKS
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(32, 16, 8, 450e9, 50e9))
    >>> racks = racks_by_count(graph, gpus_per_rack=16, switches_per_rack=16)
    >>> found = group_failures(graph, hall_risk_groups(graph, racks), FAILURE_BOOKS.load("2026"))
    >>> [(kind.row.cause, kind.failures_per_year, len(kind.groups.node)) for kind in found]
    [('Rack', 0.06, 8), ('Power feed', 0.56, 6)]
    """
    rows = {row.unit: row for row in book.rates}
    found = []
    for kind in groups:
        row = rows.get(GROUP_UNITS.get(kind.kind, "group"))
        if row is None:
            continue
        total = float(getattr(row.rate_per_year, end)) * len(kind)
        weights = np.ones(len(kind)) if kind.weight is None else kind.weight
        hits = group_hits(graph, kind)
        years = replace(
            kind,
            kind=row.cause if kind.kind in GROUP_UNITS else f"{row.cause}: {kind.kind}",
            node_group=hits.group,
            node=hits.domain,
            link_group=NOTHING,
            link=NOTHING,
            # A failure that the book says to stop no job takes no domain from it either.
            rate_per_year=weighted_rates(total * row.interrupts, weights),
            interrupts=hits.stops.astype(np.float64),
            repair_h=float(getattr(book.repair_h(row.kind), end)),
        )
        found.append(GroupFailures(row, total, years, hits.cut_off))
    return tuple(found)


class GroupHits(Struct, frozen=True, eq=False):
    """What the failure of each group of one kind does.

    Parameters
    ----------
    stops
        Whether it stops a job on all GPUs, shape (groups,).
    cut_off
        Live GPUs that are cut off from the network [1], shape (groups,).
    group, domain
        Pairs of a group and an HB domain that it takes from the job, shape (pairs,).
    """

    stops: Bools
    cut_off: Ints
    group: Ints
    domain: Ints


def group_hits(graph: FabricGraph, groups: RiskGroups) -> GroupHits:
    """What the failure of each group of one kind does to a job on all GPUs.

    Examples
    --------
    A rail switch of a rail-only network cuts off one GPU of each domain, and no domain is lost.

    >>> from netplan.faults.groups import groups_of_nodes
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(64, 8, 8, 450e9, 50e9))
    >>> leaf = np.where(np.arange(graph.node_count) == graph.node_count - 1, 0, -1)
    >>> hits = group_hits(graph, groups_of_nodes("box", ["box-0"], leaf))
    >>> hits.stops.tolist(), hits.cut_off.tolist(), len(hits.domain)
    ([True], [8], 0)
    """
    gpu, of_gpu = np.arange(graph.gpus), np.arange(graph.gpus) // graph.hb_size
    at_gpu = groups.node < graph.gpus
    shape = len(groups), graph.gpus
    down = _members(groups.node_group[at_gpu], groups.node[at_gpu], shape)
    cut = _without_ports(graph, groups)
    cut -= cut.multiply(down)
    cut.eliminate_zeros()
    inside = _members(gpu, of_gpu, (graph.gpus, graph.domains))
    gone = (cut @ inside).tocsr()
    gone.data = np.where(gone.data == np.bincount(of_gpu)[gone.indices], 1.0, 0.0)
    group, domain = (down @ inside + gone).nonzero()
    pairs = [group.astype(np.int64) * graph.domains + domain]
    cut_off = np.diff(cut.indptr).astype(np.int64)
    dead = np.diff(down.indptr) > 0
    stops = dead.copy()
    stops[groups.node_group[graph.node_kind[groups.node] == HB_SWITCH]] = True
    intact = intact_islands(graph)
    for number in np.flatnonzero(~dead).tolist():
        effects = find_effects(graph, groups.damage(graph, np.array([number])), intact)
        # A job inside one domain needs no port.
        lost = effects.cut_off if graph.domains > 1 else effects.cut_off_forwarding
        stops[number] |= len(lost) > 0
        cut_off[number] = len(effects.cut_off)
        pairs.append(number * graph.domains + effects.cut_off_forwarding // graph.hb_size)
    group, domain = np.divmod(np.unique(np.concatenate(pairs)), graph.domains)
    return GroupHits(stops, cut_off, group, domain)


def _without_ports(graph: FabricGraph, groups: RiskGroups) -> csr_array:
    """GPUs whose network links are all out, by group, shape (groups, gpus)."""
    links = np.flatnonzero(network_links(graph))
    tail, head = directed(graph, links)
    at = tail < graph.gpus
    gpu, other, link = tail[at], head[at], np.tile(links, 2)[at]
    port = np.arange(len(gpu))
    nodes = _members(groups.node_group, groups.node, (len(groups), graph.node_count))
    cables = _members(groups.link_group, groups.link, (len(groups), graph.link_count))
    out = nodes @ _members(other, port, (graph.node_count, len(gpu)))
    out = out + cables @ _members(link, port, (graph.link_count, len(gpu)))
    out.data[:] = 1.0  # a port whose switch and cable both fail is one port
    lost = out @ _members(port, gpu, (len(gpu), graph.gpus))
    lost.data = np.where(lost.data == np.bincount(gpu)[lost.indices], 1.0, 0.0)
    return lost


def _members(row: Ints, column: Ints, shape: tuple[int, int]) -> csr_array:
    """Sparse matrix with ones at some places."""
    return csr_array((np.ones(len(row)), (row, column)), shape=shape)
