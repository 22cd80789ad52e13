"""The structure of a dragonfly, read off its graph: groups, gateways, and which links join what.

Groups may differ in size and pairs of groups in their number of links. What routing needs of the
global links is, for every ordered pair of groups, which switches send and which receive; both are
sparse matrices whose row is the pair ``from x groups + to`` and whose entries are shares of the
pair's links.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from netplan.arrays import AnyInts, Floats, Ints
from netplan.errors import InputError
from netplan.topologies.graph import SWITCH, FabricGraph, connected_parts

Matrix = Any
"""A sparse matrix of scipy, which has no types."""

LOCAL, GLOBAL, HOST = "local", "global", "host"


@dataclass(frozen=True, slots=True, eq=False)
class PairLinks:
    """Links between switches, to be found by the switches that they join.

    Parameters
    ----------
    key
        Ordered pair ``from x switches + to`` of each arc, rising, shape (2 x links,).
    code
        Place of the arc in loads of shape (2, links of the graph), flattened.
    switches
        Switches of the dragonfly [1].
    """

    key: Ints
    code: Ints
    switches: int

    def spread(self, loads: Floats, first: AnyInts, second: AnyInts, amount: Floats) -> None:
        """Add traffic from switch to switch to the loads, evenly over parallel links.

        Raises
        ------
        InputError
            If no link joins two of the switches.
        """
        wanted = first * np.int64(self.switches) + second
        start = np.searchsorted(self.key, wanted)
        count = np.searchsorted(self.key, wanted, side="right") - start
        if not np.all(count):
            lost = int(np.flatnonzero(count == 0)[0])
            raise InputError(
                f"switches {first[lost]} and {second[lost]} of one group have no link: dragonfly"
                " routing needs groups that are fully joined, take routing 'ecmp'"
            )
        for step in range(int(count.max(initial=0))):
            some = np.flatnonzero(count > step)
            # The same pair occurs once in a matrix, so that plain indexing adds correctly.
            loads[self.code[start[some] + step]] += amount[some] / count[some]


@dataclass(frozen=True, slots=True, eq=False)
class DragonflyMap:
    """A dragonfly; switches are numbered group by group.

    Parameters
    ----------
    switch_of_gpu
        Switch of every GPU, shape (gpus,).
    group_of_switch
        Group of every switch, rising, shape (switches,).
    groups
        Groups [1].
    local
        Links inside groups.
    arc_pair, arc_code, arc_share
        For each global arc its pair of groups, its place in the loads, and its share of the pair's
        traffic, shape (arcs,).
    sends, receives
        Share of the links of a pair of groups (row) that leave, or reach, a switch (column). The
        rows of ``receives`` are ordered by ``to x groups + from``.
    """

    switch_of_gpu: Ints
    group_of_switch: Ints
    groups: int
    local: PairLinks
    arc_pair: Ints
    arc_code: Ints
    arc_share: Floats
    sends: Matrix
    receives: Matrix

    @property
    def switches(self) -> int:
        """Switches [1]."""
        return len(self.group_of_switch)

    @property
    def membership(self) -> Matrix:
        """One for every switch (row) in its group (column)."""
        ones, rows = np.ones(self.switches), np.arange(self.switches + 1)
        return csr_array((ones, self.group_of_switch, rows), shape=(self.switches, self.groups))


def dragonfly_map(graph: FabricGraph) -> DragonflyMap:
    """Read the structure of a dragonfly off its graph.

    Parameters
    ----------
    graph
        A fabric with link groups ``host``, ``local`` and ``global``.

    Raises
    ------
    InputError
        If a GPU has no single host link, or two groups are not joined.
    """
    hosts = graph.links_of(HOST)
    gpus = graph.source[hosts]
    if len(hosts) != graph.gpus or not np.array_equal(np.sort(gpus), np.arange(graph.gpus)):
        raise InputError(f"{graph.name}: dragonfly routing needs one host link a GPU")
    nodes = np.flatnonzero(graph.node_kind == SWITCH)
    local, outer = graph.links_of(LOCAL), graph.links_of(GLOBAL)
    number, group = _numbered(graph, nodes, local)
    switch_of_gpu = np.empty(graph.gpus, np.int64)
    switch_of_gpu[gpus] = number[graph.target[hosts]]
    groups = int(group.max()) + 1
    first, second, code = _arcs(graph, outer, number)
    pair = group[first] * groups + group[second]
    links = np.bincount(pair, minlength=groups * groups)
    apart = ~np.eye(groups, dtype=bool).ravel()
    if np.any(links[apart] == 0):
        one, other = divmod(int(np.flatnonzero(apart & (links == 0))[0]), groups)
        raise InputError(f"{graph.name}: no link joins groups {one} and {other} of the dragonfly")
    share = 1.0 / links[pair]
    shape = (groups * groups, len(nodes))
    back = group[second] * groups + group[first]
    tail, head, local_code = _arcs(graph, local, number)
    key = tail * np.int64(len(nodes)) + head
    order = np.argsort(key, kind="stable")
    return DragonflyMap(
        switch_of_gpu=switch_of_gpu,
        group_of_switch=group,
        groups=groups,
        local=PairLinks(key[order], local_code[order], len(nodes)),
        arc_pair=pair,
        arc_code=code,
        arc_share=share,
        sends=csr_array((share, (pair, first)), shape=shape),
        receives=csr_array((share, (back, second)), shape=shape),
    )


def _numbered(graph: FabricGraph, nodes: Ints, local: Ints) -> tuple[Ints, Ints]:
    """Number the switches group by group: number of each node, group of each number."""
    place = np.full(graph.node_count, -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    ends = place[graph.source[local]], place[graph.target[local]]
    group = connected_parts(len(nodes), *ends)
    order = np.argsort(group, kind="stable")
    number = np.full(graph.node_count, -1, np.int64)
    number[nodes[order]] = np.arange(len(nodes))
    return number, group[order]


def _arcs(graph: FabricGraph, links: Ints, number: Ints) -> tuple[Ints, Ints, Ints]:
    """Both directions of some links: switch they leave, switch they reach, place in the loads."""
    source, target = number[graph.source[links]], number[graph.target[links]]
    return (
        np.concatenate([source, target]),
        np.concatenate([target, source]),
        np.concatenate([links, links + graph.link_count]),
    )
