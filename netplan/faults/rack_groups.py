"""Risk groups of the hall: racks, rows, power feeds, cable trays, and batches of transceivers.

With a floor plan every rack has a row and a position. Without one, GPUs and switches fill racks by
number, so many a rack, and there are no rows.

=====  ===========================================================================================
rack   all nodes in it
row    its racks
hall   everything
feed   power feeds share the racks in turn: row by row (row 1 on feed A, row 2 on B, row 3 on A
       again), or rack by rack. A rack hangs on one feed; doubled feeds fail only together
tray   cables between two racks lie in the trays over the rows of both; the trays across rows are
       left out
batch  transceivers of one production batch: a random share of all
=====  ===========================================================================================

An HB switch of the graph stands for several chips, which stand with their GPUs. So it falls with a
rack, row or feed only if that holds its whole domain.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.faults.groups import NOTHING, RiskGroups, domain_of_node, groups_of_nodes
from netplan.topologies.clos import ceil_div
from netplan.topologies.floor_plan import Layout
from netplan.topologies.graph import GPU, HB_SWITCH, INSIDE, RACK, FabricGraph

FEED_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, eq=False)
class Racking:
    """Which rack every node stands in, and which row every rack.

    Parameters
    ----------
    rack
        Rack of each node, -1 for HB switches, shape (nodes,).
    domain
        HB domain of each GPU and HB switch, -1 for other nodes, shape (nodes,).
    names
        Names of the racks, shape (racks,).
    row
        Row of each rack, from 0, shape (racks,); None if nobody says.
    row_names
        Names of the rows, shape (rows,).
    """

    rack: Ints
    domain: Ints
    names: tuple[str, ...]
    row: Ints | None = None
    row_names: tuple[str, ...] = ()

    def of_node(self, label: Ints) -> Ints:
        """Labels of racks carried over to nodes; -1 for a domain that stands under several."""
        found = np.where(self.rack >= 0, label[self.rack], -1)
        gpu, inner = (self.domain >= 0) & (self.rack >= 0), (self.domain >= 0) & (self.rack < 0)
        lowest = np.full(int(self.domain.max()) + 1, np.iinfo(np.int64).max)
        highest = np.full(len(lowest), -1, np.int64)
        np.minimum.at(lowest, self.domain[gpu], found[gpu])
        np.maximum.at(highest, self.domain[gpu], found[gpu])
        whole = np.where(lowest == highest, lowest, -1)
        found[inner] = whole[self.domain[inner]]
        return found

    def row_of_node(self) -> Ints:
        """Row of every node, -1 for none.

        Raises
        ------
        InputError
            If the racks stand in no rows.
        """
        if self.row is None:
            raise InputError("racks filled by number stand in no rows: give a floor plan")
        return self.of_node(self.row)


def racks_of_layout(layout: Layout, graph: FabricGraph) -> Racking:
    """Racks of a floor plan that hold anything: ``rack-01-03`` is rack 3 of row 1, ``row-01``.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.floor_plan import FLOOR_PLANS, lay_out
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(2048, 64, 8, 450e9, 50e9))
    >>> racks = racks_of_layout(lay_out(FLOOR_PLANS.load("example-hall"), graph), graph)
    >>> len(racks.names), racks.names[-1], racks.row_names
    (70, 'rack-02-30', ('row-01', 'row-02'))
    """
    outside = graph.node_kind != HB_SWITCH
    used, inverse = np.unique(layout.rack[outside], return_inverse=True)
    rack = np.full(graph.node_count, -1, np.int64)
    rack[outside] = inverse
    rows, row = np.unique(used // layout.plan.racks_per_row, return_inverse=True)
    names = tuple(
        f"rack-{number // layout.plan.racks_per_row + 1:02}"
        f"-{number % layout.plan.racks_per_row + 1:02}"
        for number in used.tolist()
    )
    row_names = tuple(f"row-{number + 1:02}" for number in rows.tolist())
    return Racking(rack, domain_of_node(graph), names, row.astype(np.int64), row_names)


def racks_by_count(graph: FabricGraph, *, gpus_per_rack: int, switches_per_rack: int) -> Racking:
    """Racks filled by number, ``rack-0``, ``rack-1``, …: first those of GPUs, then of switches.

    Parameters
    ----------
    graph
        The fabric.
    gpus_per_rack, switches_per_rack
        What a rack holds [1]; management hosts count as switches.

    Raises
    ------
    InputError
        If a rack would hold nothing.
    """
    for what, held in (("GPUs", gpus_per_rack), ("switches", switches_per_rack)):
        if held < 1:
            raise InputError(f"a rack of {held} {what} is out of range: give 1 or more")
    rack = np.full(graph.node_count, -1, np.int64)
    gpus = np.arange(graph.gpus)
    rack[gpus] = gpus // gpus_per_rack
    devices = np.flatnonzero((graph.node_kind != GPU) & (graph.node_kind != HB_SWITCH))
    first = ceil_div(graph.gpus, gpus_per_rack)
    rack[devices] = first + np.arange(len(devices)) // switches_per_rack
    count = first + ceil_div(len(devices), switches_per_rack)
    names = tuple(f"rack-{number}" for number in range(count))
    return Racking(rack, domain_of_node(graph), names)


def rack_groups(racking: Racking) -> RiskGroups:
    """Racks as risk groups."""
    return groups_of_nodes("rack", racking.names, racking.of_node(np.arange(len(racking.names))))


def row_groups(racking: Racking) -> RiskGroups:
    """Rows as risk groups.

    Raises
    ------
    InputError
        If the racks stand in no rows.
    """
    return groups_of_nodes("row", racking.row_names, racking.row_of_node())


def hall_groups(racking: Racking) -> RiskGroups:
    """The one hall, ``hall-1``, with every node."""
    return groups_of_nodes("hall", ("hall-1",), np.zeros(len(racking.rack), np.int64))


def feed_groups(
    racking: Racking, *, feeds: int = 2, by: Literal["row", "rack"] = "row"
) -> RiskGroups:
    """Power feeds ``feed-A``, ``feed-B``, …, which share rows or racks in turn.

    Parameters
    ----------
    racking
        The racks.
    feeds
        Feeds, 1 to 26 [1].
    by
        Whether whole rows or single racks take turns.

    Raises
    ------
    InputError
        If the feeds are out of range, or the racks stand in no rows.

    Examples
    --------
    Five racks take turns: 1, 3 and 5 hang on feed A.

    >>> racks = Racking(np.arange(5), np.full(5, -1), tuple("12345"))
    >>> feed_groups(racks, by="rack").node_group.tolist()
    [0, 0, 0, 1, 1]
    """
    if not 1 <= feeds <= len(FEED_LETTERS):
        raise InputError(f"{feeds} power feeds are out of range: give 1 to {len(FEED_LETTERS)}")
    turn = np.arange(len(racking.names)) if by == "rack" else racking.row
    if turn is None:
        raise InputError("racks filled by number stand in no rows: give a floor plan, or by='rack'")
    names = tuple(f"feed-{letter}" for letter in FEED_LETTERS[:feeds])
    return groups_of_nodes("feed", names, racking.of_node(turn % feeds))


def tray_groups(graph: FabricGraph, racking: Racking) -> RiskGroups:
    """Cable trays ``tray-01``, ``tray-02``, … over the rows, with the cables that leave a rack.

    Raises
    ------
    InputError
        If the racks stand in no rows.
    """
    row = racking.row_of_node()
    first, second = racking.rack[graph.source], racking.rack[graph.target]
    leaves = (graph.length_class != INSIDE) & (first != second) & (first >= 0) & (second >= 0)
    link = np.flatnonzero(leaves)
    ends = row[graph.source[link]], row[graph.target[link]]
    other = ends[0] != ends[1]
    group = np.concatenate([ends[0], ends[1][other]])
    names = tuple(name.replace("row-", "tray-") for name in racking.row_names)
    member = np.concatenate([link, link[other]])
    order = np.lexsort((member, group))
    return RiskGroups("tray", names, NOTHING, NOTHING, group[order], member[order])


def hall_risk_groups(
    graph: FabricGraph, racking: Racking, *, feeds: int = 2
) -> tuple[RiskGroups, ...]:
    """Racks, power feeds and the hall; with a floor plan rows and trays too.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(64, 16, 8, 450e9, 50e9))
    >>> racks = racks_by_count(graph, gpus_per_rack=32, switches_per_rack=16)
    >>> [(groups.kind, len(groups)) for groups in hall_risk_groups(graph, racks)]
    [('rack', 3), ('feed', 2), ('hall', 1)]
    """
    by: Literal["row", "rack"] = "rack" if racking.row is None else "row"
    groups = [rack_groups(racking), feed_groups(racking, feeds=feeds, by=by), hall_groups(racking)]
    if racking.row is not None:
        groups += [row_groups(racking), tray_groups(graph, racking)]
    return tuple(groups)


def transceiver_ends(graph: FabricGraph) -> Ints:
    """Ends of all optical links: 2 l is the source's end of link l, 2 l + 1 the target's.

    Links that leave a rack are optical, links within one are copper, as fabrics plan them.
    """
    optical = np.flatnonzero((graph.length_class != INSIDE) & (graph.length_class != RACK))
    return (2 * optical[:, None] + np.arange(2)).ravel()


def transceiver_batches(graph: FabricGraph, share: float, rng: np.random.Generator) -> RiskGroups:
    """Batches of transceivers ``batch-0``, ``batch-1``, …, each with a random share of all.

    Parameters
    ----------
    graph
        The fabric.
    share
        Share of all transceivers that came in one batch; the last batch has what is left [1].
    rng
        Deals them out.

    Raises
    ------
    InputError
        If the share is not above 0 and at most 1.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(32, 16, 8, 450e9, 50e9))
    >>> batches = transceiver_batches(graph, 0.25, np.random.default_rng(0))
    >>> len(batches), len(batches.link)  # 64 links have 128 ends
    (4, 128)
    """
    if not 0 < share <= 1:
        raise InputError(f"a batch of {share:g} of all transceivers is out of range: give 0 to 1")
    ends = transceiver_ends(graph)
    each = max(1, round(share * len(ends)))
    batch = np.arange(len(ends)) // each
    names = tuple(f"batch-{number}" for number in range(ceil_div(len(ends), each)))
    return RiskGroups("batch", names, NOTHING, NOTHING, batch, rng.permutation(ends) // 2)
