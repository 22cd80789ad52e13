"""Risk groups: parts of a fabric that fail together, read off its graph and its hall.

A group is a set of nodes and links, by number; the groups of one kind are kept as two lists of
pairs (group, member). Groups may overlap and be nested. A switch is itself the group of all its
links, since damage takes them with it.

==========  ====================================================================================
domain      GPUs and HB switches of an HB domain
card        network ports of a GPU whose card splits its port over planes
rail        network ports of all GPUs of one rank, and the switches that serve no other rank
plane, ...  switches whose names share a prefix: ``plane-1``, ``unit-4``, ``group-2``,
            ``level-0``; the kind is the prefix without its number
rack        all nodes in it
row, hall   its racks; everything
feed        power feeds share the racks in turn: row by row (row 1 on feed A, row 2 on B, row 3 on
            A again), or rack by rack without rows. A rack hangs on one feed; doubled feeds fail
            only together
tray        cables between two racks lie in the trays over the rows of both; the trays across rows
            are left out
engine      links of GPUs whose ports an optical engine packaged with their switch carries
batch       transceivers of one production batch: a random share of all
==========  ====================================================================================

With a floor plan every rack has a row and a position. Without one, GPUs and switches fill racks by
number, so many a rack, and there are no rows. An HB switch of the graph stands for several chips,
which stand with their GPUs. So it falls with a rack, row or feed only if that holds its whole
domain. Groups from a user's file: `netplan.faults.damage.scenario`.
"""

import re
from collections.abc import Sequence
from math import sqrt
from string import ascii_uppercase

import numpy as np
from msgspec import Struct

from netplan.arrays import NO_NUMBERS, Floats, Ints, ceil_div, distinct_values
from netplan.errors import InputError
from netplan.faults.damage.damage import Damage, network_links, no_damage
from netplan.topologies.assembly import NameBlock, StructuralNames
from netplan.topologies.cabling.floor_plan import Layout
from netplan.topologies.graph import (
    GPU,
    HB_SWITCH,
    INSIDE,
    RACK,
    SWITCH,
    FabricGraph,
    connected_parts,
)

NUMBERED = re.compile(r"(.*[^0-9-])-?[0-9]+")


HB_TIERS = 2
"""Tiers of HB switches inside a domain, at most [1]."""

GOLDEN = (sqrt(5) - 1) / 2
"""The golden section, as far from all simple fractions as a number can be [1]."""


def one_for_all(parts: Ints) -> Ints:
    """The one of some like parts that stands for all: a golden section into them, shape (1,).

    Halves and quarters are where pipelines begin, and few parts are like those.

    Examples
    --------
    >>> one_for_all(np.arange(100, 200))
    array([161])
    """
    return parts[[int(GOLDEN * len(parts))]]


class RiskGroups(Struct, frozen=True, eq=False):
    """Groups of one kind.

    Parameters
    ----------
    kind
        What a group is called: ``rack``, ``rail``, …
    names
        Name of each group, shape (groups,).
    node_group, node
        Pairs of a group and a node in it, shape (memberships,).
    link_group, link
        Pairs of a group and a link in it; links of member nodes need not be listed.
    weight
        How likely a group is picked next to the others, shape (groups,); None: all alike.
    """

    kind: str
    names: Sequence[str]
    node_group: Ints
    node: Ints
    link_group: Ints
    link: Ints
    weight: Floats | None = None

    def __post_init__(self) -> None:
        """Refuse groups that do not exist.

        Raises
        ------
        InputError
            If arrays do not fit together.
        """
        for group, member in ((self.node_group, self.node), (self.link_group, self.link)):
            if len(group) != len(member):
                raise InputError(
                    f"{self.kind}: {len(group)} groups, {len(member)} members: give pairs"
                )
            if len(group) and not 0 <= group.min() <= group.max() < len(self):
                raise InputError(
                    f"{self.kind}: memberships name group {group.min():,} to {group.max():,}: there"
                    f" are {len(self):,}, counted from 0"
                )

    def held(self) -> Ints:
        """Numbers of the groups that hold a node or a link.

        Examples
        --------
        >>> node, none = np.array([3]), np.array([], dtype=int)
        >>> RiskGroups("feed", ["A", "B"], np.array([1]), node, none, none).held()
        array([1])
        """
        return distinct_values(np.concatenate([self.node_group, self.link_group]))

    def __len__(self) -> int:
        """Groups [1]."""
        return len(self.names)

    def damage(self, graph: FabricGraph, chosen: Ints) -> Damage:
        """Damage in which some groups have failed, by number."""
        down = np.zeros(len(self), bool)
        down[chosen] = True
        damage = no_damage(graph)
        damage.node_down[self.node[down[self.node_group]]] = True
        damage.link_down[self.link[down[self.link_group]]] = True
        return damage


def group_pairs(members: Sequence[Sequence[int] | Ints]) -> tuple[Ints, Ints]:
    """Pairs of a group and a member, from the members of each group.

    Examples
    --------
    >>> [column.tolist() for column in group_pairs([[5, 7], [], [7]])]
    [[0, 0, 2], [5, 7, 7]]
    """
    group = np.repeat(np.arange(len(members)), [len(numbers) for numbers in members])
    return group, np.concatenate([np.asarray(numbers, np.int64) for numbers in members])


def groups_of_nodes(kind: str, names: Sequence[str], group_of_node: Ints) -> RiskGroups:
    """Disjoint groups of nodes, from the group that each node is in; -1 is none.

    Examples
    --------
    >>> groups = groups_of_nodes("rack", ["rack-0", "rack-1"], np.array([0, 0, 1, -1]))
    >>> groups.node_group.tolist(), groups.node.tolist()
    ([0, 0, 1], [0, 1, 2])
    """
    node = np.flatnonzero(group_of_node >= 0)
    order = np.argsort(group_of_node[node], kind="stable")
    return RiskGroups(kind, names, group_of_node[node][order], node[order], NO_NUMBERS, NO_NUMBERS)


def domain_of_node(graph: FabricGraph) -> Ints:
    """HB domain of every GPU and HB switch, -1 for all other nodes, shape (nodes,)."""
    domain = np.full(graph.node_count, -1, np.int64)
    domain[: graph.gpus] = np.arange(graph.gpus) // graph.hb_size
    links = graph.links_with("hb")
    switches = graph.node_kind == HB_SWITCH
    for _ in range(HB_TIERS):
        for tail, head in ((graph.source, graph.target), (graph.target, graph.source)):
            inner = links[switches[tail[links]] & (domain[head[links]] >= 0)]
            domain[tail[inner]] = domain[head[inner]]
        if (domain[switches] >= 0).all():
            break
    return domain


def domain_groups(graph: FabricGraph) -> RiskGroups:
    """HB domains ``domain-0``, ``domain-1`` and so on, with their GPUs and HB switches.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> groups = domain_groups(graph)
    >>> groups.damage(graph, np.array([3])).node_down.nonzero()[0].tolist()
    [24, 25, 26, 27, 28, 29, 30, 31, 35]
    """
    of_node = domain_of_node(graph)
    count = graph.domains
    links = graph.links_with("hb")
    ends = graph.source[links], graph.target[links]
    if (of_node[ends[0]] != of_node[ends[1]]).any():  # domains of several sizes
        part = connected_parts(graph.node_count, *ends)
        inside = of_node >= 0
        _, first, of_part = np.unique(part[inside], return_index=True, return_inverse=True)
        of_node[inside] = np.argsort(np.argsort(first))[of_part]
        count = len(first)
    names = StructuralNames([NameBlock("domain-{}", (count,))])
    return groups_of_nodes("domain", names, of_node)


def card_groups(graph: FabricGraph) -> RiskGroups:
    """Cards ``card-0``, ``card-1`` and so on of the GPUs, each with all its network links.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> graph = scenario.fabric("two-planes").graph()
    >>> int(card_groups(graph).damage(graph, np.array([3])).link_down.sum())
    2
    """
    ends = np.minimum(graph.source, graph.target)
    link = np.flatnonzero((ends < graph.gpus) & network_links(graph))
    names = StructuralNames([NameBlock("card-{}", (graph.gpus,))])
    return RiskGroups("card", names, NO_NUMBERS, NO_NUMBERS, ends[link].astype(np.int64), link)


def engine_groups(graph: FabricGraph, ports_each: int) -> RiskGroups:
    """Optical engines ``engine-0``, ``engine-1``, … of switches that GPUs hang on.

    The ports of a switch that lead to GPUs are dealt out in order. Traffic goes around engines of
    links between switches, which are left out.

    Parameters
    ----------
    graph
        The fabric.
    ports_each
        Ports of a switch that one engine carries [1].

    Examples
    --------
    Eight leaves of 8 GPUs each, four ports an engine.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> engines = engine_groups(graph, 4)
    >>> len(engines), int(engines.damage(graph, np.array([0])).link_down.sum())
    (16, 4)
    """
    ends = np.stack([graph.source, graph.target]).astype(np.int64)
    low, high = ends.min(axis=0), ends.max(axis=0)
    to_switch = graph.node_kind[high] == SWITCH
    link = np.flatnonzero((low < graph.gpus) & to_switch & network_links(graph))
    order = np.lexsort((link, high[link]))
    link, switch = link[order], high[link[order]]
    place = (np.arange(len(switch)) - np.searchsorted(switch, switch)) // ports_each
    starts = (np.diff(switch, prepend=-1) != 0) | (np.diff(place, prepend=-1) != 0)
    names = StructuralNames([NameBlock("engine-{}", (int(starts.sum()),))])
    return RiskGroups("engine", names, NO_NUMBERS, NO_NUMBERS, np.cumsum(starts) - 1, link)


def rail_groups(graph: FabricGraph) -> RiskGroups:
    """Rails: ``rail-0``, ``rail-1``, …; a leaf that several rails share stands in none.

    Raises
    ------
    InputError
        If HB domains hold one GPU, so that there are no rails.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> lost = rail_groups(graph).damage(graph, np.array([7]))
    >>> int(lost.node_down.sum()), int(lost.link_down.sum())  # 8 leaves, 4 spines; 128 ports
    (12, 128)
    """
    if graph.hb_size == 1:
        raise InputError(
            f"{graph.name} has no rails, since its HB domains hold one GPU: name switches or planes"
        )
    # Lowest and highest rank of the GPUs below every node, tier by tier.
    lowest = np.full(graph.node_count, graph.hb_size, np.int64)
    highest = np.full(graph.node_count, -1, np.int64)
    gpus = np.flatnonzero(graph.node_kind == GPU)
    lowest[gpus] = highest[gpus] = gpus % graph.hb_size
    tier = graph.node_tier.astype(np.int64)
    low, high = graph.source, graph.target
    for height in range(int(tier.max(initial=0))):
        up = np.flatnonzero((tier[low] == height) & (tier[high] == height + 1))
        np.minimum.at(lowest, high[up], lowest[low[up]])
        np.maximum.at(highest, high[up], highest[low[up]])
    gpu_end = np.minimum(graph.source, graph.target)
    at_gpu = (gpu_end < graph.gpus) & network_links(graph)
    link = np.flatnonzero(at_gpu)
    switch = np.flatnonzero((graph.node_kind == SWITCH) & (lowest == highest))
    names = StructuralNames([NameBlock("rail-{}", (graph.hb_size,))])
    return RiskGroups("rail", names, lowest[switch], switch, gpu_end[link] % graph.hb_size, link)


def switch_groups(graph: FabricGraph) -> dict[str, RiskGroups]:
    """Groups of switches by the prefix of their names, by kind.

    Where a kind is nested in itself (planes of a Clos network inside a plane of the fabric) only
    the outermost groups count.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8)
    >>> graph = scenario.fabric("dragonfly").graph()
    >>> {kind: len(groups) for kind, groups in switch_groups(graph).items()}
    {'group': 8}
    """
    members: dict[str, dict[str, list[int]]] = {}
    depth: dict[str, int] = {}
    for node in np.flatnonzero(graph.node_kind == SWITCH).tolist():
        parts = graph.node_name(node).split("/")
        for length in range(1, len(parts)):
            numbered = NUMBERED.fullmatch(parts[length - 1])
            if not numbered:
                continue
            kind, name = numbered[1], "/".join(parts[:length])
            if length <= depth.setdefault(kind, length):
                members.setdefault(kind, {}).setdefault(name, []).append(node)
    return {
        kind: RiskGroups(
            kind, tuple(groups), *group_pairs([*groups.values()]), NO_NUMBERS, NO_NUMBERS
        )
        for kind, groups in members.items()
    }


def weighted_rates(failures_per_year: float, weights: Floats) -> Floats:
    """Rates of groups, where each random failure picks one of them by its weight [1/year].

    A Poisson process that is split at random gives Poisson processes again.

    Parameters
    ----------
    failures_per_year
        Failures of all groups together [1/year].
    weights
        Weight of each group, at least 0, in any unit; shape (groups,).

    Examples
    --------
    >>> weighted_rates(12, np.array([1.0, 3.0])).tolist()
    [3.0, 9.0]
    """
    total = float(weights.sum())
    if not np.isfinite(total) or total <= 0 or (weights < 0).any() or failures_per_year < 0:
        raise InputError(
            f"{failures_per_year:g} failures a year over weights that sum to {total:g}: give 0 or"
            " more failures, weights of at least 0, and one above 0"
        )
    return failures_per_year * weights / total


class Racking(Struct, frozen=True, eq=False):
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
        labels = np.where(self.rack >= 0, label[self.rack], -1)
        gpu, inner = (self.domain >= 0) & (self.rack >= 0), (self.domain >= 0) & (self.rack < 0)
        lowest = np.full(int(self.domain.max()) + 1, np.iinfo(np.int64).max)
        highest = np.full(len(lowest), -1, np.int64)
        np.minimum.at(lowest, self.domain[gpu], labels[gpu])
        np.maximum.at(highest, self.domain[gpu], labels[gpu])
        whole = np.where(lowest == highest, lowest, -1)
        labels[inner] = whole[self.domain[inner]]
        return labels


def racks_of_layout(layout: Layout, graph: FabricGraph) -> Racking:
    """Racks of a floor plan that hold anything: ``rack-01-03`` is rack 3 of row 1, ``row-01``.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.cabling.floor_plan import FLOOR_PLANS, lay_out
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=2048, radix=64)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> racks = racks_of_layout(lay_out(FLOOR_PLANS.load("example-hall"), graph), graph)
    >>> len(racks.names), racks.names[-1], racks.row_names
    (70, 'rack-02-30', ('row-01', 'row-02'))
    """
    outside = graph.node_kind != HB_SWITCH
    used, inverse = np.unique(layout.rack[outside], return_inverse=True)
    rack = np.full(graph.node_count, -1, np.int64)
    rack[outside] = inverse
    rows, row = np.unique(used // layout.per_row, return_inverse=True)
    names = tuple(
        f"rack-{number // layout.per_row + 1:02}-{number % layout.per_row + 1:02}"
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


def hall_risk_groups(
    graph: FabricGraph, racking: Racking, *, feeds: int = 2
) -> tuple[RiskGroups, ...]:
    """Racks, power feeds and the hall; with a floor plan rows and trays too.

    Parameters
    ----------
    graph, racking
        The fabric, and where its racks stand.
    feeds
        Power feeds ``feed-A``, ``feed-B``, …, 1 to 26 [1].

    Raises
    ------
    InputError
        If the feeds are out of range.

    Examples
    --------
    Three racks take turns: the first and the last hang on feed A.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> racks = racks_by_count(graph, gpus_per_rack=32, switches_per_rack=16)
    >>> found = hall_risk_groups(graph, racks)
    >>> [(groups.kind, len(groups)) for groups in found]
    [('rack', 3), ('feed', 2), ('hall', 1)]
    >>> sorted(set(racks.rack[found[1].node[found[1].node_group == 0]].tolist()) - {-1})
    [0, 2]
    """
    if not 1 <= feeds <= len(ascii_uppercase):
        raise InputError(f"{feeds} power feeds are out of range: give 1 to {len(ascii_uppercase)}")
    rack = np.arange(len(racking.names))
    turn = rack if racking.row is None else racking.row
    letters = tuple(f"feed-{letter}" for letter in ascii_uppercase[:feeds])
    groups = [
        groups_of_nodes("rack", racking.names, racking.of_node(rack)),
        groups_of_nodes("feed", letters, racking.of_node(turn % feeds)),
        groups_of_nodes("hall", ("hall-1",), np.zeros(graph.node_count, np.int64)),
    ]
    if racking.row is not None:
        row = racking.of_node(racking.row)
        groups.append(groups_of_nodes("row", racking.row_names, row))
        # Trays over the rows hold the cables that leave a rack.
        first, second = racking.rack[graph.source], racking.rack[graph.target]
        leaves = (graph.length_class != INSIDE) & (first != second) & (first >= 0) & (second >= 0)
        link = np.flatnonzero(leaves)
        ends = row[graph.source[link]], row[graph.target[link]]
        apart = ends[0] != ends[1]
        group, member = np.concatenate([ends[0], ends[1][apart]]), np.append(link, link[apart])
        order = np.lexsort((member, group))
        names = tuple(name.replace("row-", "tray-") for name in racking.row_names)
        groups.append(
            RiskGroups("tray", names, NO_NUMBERS, NO_NUMBERS, group[order], member[order])
        )
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
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> batches = transceiver_batches(graph, 0.25, np.random.default_rng(0))
    >>> len(batches), len(batches.link)  # 64 links have 128 ends
    (4, 128)
    """
    if not 0 < share <= 1:
        given = f"a batch of {100 * share:g} % of all transceivers"
        raise InputError(f"{given} is out of range: give more than 0 %, at most 100 %")
    ends = transceiver_ends(graph)
    batch_size = max(1, round(share * len(ends)))
    batch = np.arange(len(ends)) // batch_size
    names = tuple(f"batch-{number}" for number in range(ceil_div(len(ends), batch_size)))
    return RiskGroups("batch", names, NO_NUMBERS, NO_NUMBERS, batch, rng.permutation(ends) // 2)
