"""Loads of dragonflies: minimal routing, and Valiant's detour over a third group.

``minimal``  inside a group straight to the destination's switch; to another group over a link that
             joins the two, evenly over all of them, with a local hop before it and one after it
             where it does not begin or end at the right switch.
``valiant``  to another group by way of a third one, evenly over all others: minimal to where the
             link enters the third group, and minimal from there. Every byte that changes groups
             takes two global links instead of one; in return no pattern is bad.

The structure is read off the graph: groups may differ in size and pairs of groups in their number
of links. What routing needs of the global links is, for every ordered pair of groups, which
switches send and which receive; both are sparse matrices whose row is the pair
``from x groups + to`` and whose entries are shares of the pair's links. With X the traffic between
switches, all loads are products of sparse matrices: X summed over the destination's group, times
the share of each gateway, is what every switch sends to every gateway.

Source: Kim, Dally, Scott and Abts, Technology-Driven, Highly-Scalable Dragonfly Topology (ISCA
2008), section 3. A mix of minimal paths and detours over single switches, as adaptive routing
takes, stands in `netplan.traffic.routing_joined`. Left out: virtual channels. Where several global
hops would be shorter than local, global, local, minimal routing still takes the one.
"""

from typing import Literal, cast

import numpy as np
from msgspec import Struct
from scipy.sparse import coo_array, csc_array, csr_array, diags_array

from netplan.arrays import Bools, Floats, Ints, places
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.families.spreading import Pairs, SwitchMesh
from netplan.topologies.graph import SWITCH, FabricGraph, connected_parts
from netplan.topologies.graph.splitting import Matrix
from netplan.traffic.demand import Leg, Products
from netplan.traffic.matrix import sum_by


class DragonflyMap(Struct, frozen=True, eq=False):
    """A dragonfly; switches are numbered group by group.

    Parameters
    ----------
    switch_of_gpu
        Switch of every GPU, shape (gpus,).
    group_of_switch
        Group of every switch, rising, shape (switches,).
    groups
        Groups [1].
    local_key, local_code
        For each local arc its ordered pair of switches ``from x switches + to``, rising, and its
        place in loads of shape (2, links of the graph), flattened, shape (2 x links,).
    arc_pair, arc_code, arc_share
        For each global arc its pair of groups, its place in the loads, and its share of the pair's
        traffic, shape (arcs,).
    sends, receives
        Share of the links of a pair of groups (row) that leave, or reach, a switch (column). The
        rows of ``receives`` are ordered by ``to x groups + from``.
    joined
        Whether links join two groups, shape (groups, groups).
    local
        Switches and local links, where not all pairs of a group have one: others take shortest
        paths inside it. None says that all have one.
    """

    switch_of_gpu: Ints
    group_of_switch: Ints
    groups: int
    local_key: Ints
    local_code: Ints
    arc_pair: Ints
    arc_code: Ints
    arc_share: Floats
    sends: Matrix
    receives: Matrix
    joined: Bools
    local: SwitchMesh | None = None

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
    """Read the structure of a dragonfly off the links of hosts, inside groups and between them.

    Raises
    ------
    InputError
        If a GPU has no single host link, or two groups are not joined.
    """
    hosts = graph.links_with("host")
    gpus = graph.source[hosts]
    if len(hosts) != graph.gpus or not np.array_equal(np.sort(gpus), np.arange(graph.gpus)):
        raise InputError(f"{graph.name}: dragonfly routing needs one host link a GPU")
    nodes = np.flatnonzero(graph.node_kind == SWITCH)
    number, mapped = _mapped(graph, nodes, graph.links_with("local"), graph.links_with("global"))
    if not mapped.joined.all():
        group, other = np.argwhere(~mapped.joined)[0]
        raise InputError(f"{graph.name}: no link joins groups {group} and {other} of the dragonfly")
    switch_of_gpu = np.empty(graph.gpus, np.int64)
    switch_of_gpu[gpus] = number[graph.target[hosts]]
    return replace(mapped, switch_of_gpu=switch_of_gpu)


def is_dragonfly(graph: FabricGraph) -> bool:
    """Whether a fabric is a dragonfly, by the roles of its links.

    Parameters
    ----------
    graph
        The fabric.

    Returns
    -------
    bool
        Whether it has links inside or between the groups of a dragonfly.
    """
    return graph.has("local", "global")


def damaged_map(graph: FabricGraph, nodes: Ints, links: Ints) -> tuple[Ints, DragonflyMap]:
    """What is left of a dragonfly: numbers of its nodes (-1 of others), and the map of it.

    ``nodes`` are switches that ``links``, local and global ones that are left, hold together.
    Groups are what hangs together over local links. In place of GPUs the map has switches, each at
    itself.
    """
    local, outer = (links[graph.is_role(role)[links]] for role in ("local", "global"))
    number, mapped = _mapped(graph, nodes, local, outer)
    ends = number[graph.source[local]], number[graph.target[local]]
    mesh = SwitchMesh(len(nodes), len(nodes), *ends)
    return number, replace(mapped, local=mesh)


def _mapped(graph: FabricGraph, nodes: Ints, local: Ints, outer: Ints) -> tuple[Ints, DragonflyMap]:
    """Number of each node, and the map of some switches and links, each switch at itself."""
    number, group = _numbered(graph, nodes, local)
    groups = int(group.max()) + 1
    first, second, code = _arcs(graph, outer, number)
    pair = group[first] * groups + group[second]
    links = np.bincount(pair, minlength=groups * groups)
    share = 1.0 / links[pair]
    shape = (groups * groups, len(nodes))
    back = group[second] * groups + group[first]
    tail, head, local_code = _arcs(graph, local, number)
    key = tail * np.int64(len(nodes)) + head
    order = np.argsort(key, kind="stable")
    return number, DragonflyMap(
        switch_of_gpu=np.arange(len(nodes)),
        group_of_switch=group,
        groups=groups,
        local_key=key[order],
        local_code=local_code[order],
        arc_pair=pair,
        arc_code=code,
        arc_share=share,
        sends=csr_array((share, (pair, first)), shape=shape),
        receives=csr_array((share, (back, second)), shape=shape),
        joined=(links > 0).reshape(groups, groups) | np.eye(groups, dtype=bool),
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


DragonflyRouting = Literal["minimal", "valiant"]

MIN_VALIANT_GROUPS = 3


def dragonfly_loads(
    dragonfly: DragonflyMap, leg: Leg, link_count: int, routing: DragonflyRouting = "minimal"
) -> Floats:
    """Load of the local and global links of a dragonfly [B], shape (2, links); others are 0.

    Raises
    ------
    InputError
        If a group is not fully joined, or Valiant has no third group.
    """
    demand = _switch_demand(dragonfly, leg)
    loads = np.zeros(2 * link_count)
    detoured = routing == "valiant" and dragonfly.groups > 1
    hops = (_valiant if detoured else _minimal)(dragonfly, demand, loads)
    _add_local(dragonfly, loads, demand.within + hops)
    return loads.reshape(2, -1)


def _minimal(dragonfly: DragonflyMap, demand: "_SwitchDemand", loads: Floats) -> Matrix:
    """Route what changes groups over the links that join them; local hops of it.

    That is from each switch to the gateways of its destinations' groups, and from those of its
    sources.
    """
    _add_global(dragonfly, loads, demand.between)
    out = _by_pair(dragonfly, demand.to_group) @ dragonfly.sends
    return out + (_by_pair(dragonfly, demand.from_group) @ dragonfly.receives).T


def dragonfly_detours(dragonfly: DragonflyMap, leg: Leg, link_count: int) -> Floats:
    """Load of the links between switches where all takes detours [B], shape (2, links).

    What changes groups goes to a switch drawn from all of them, what stays in one to one of the
    group, and from there where it is bound: minimal both times.
    """
    group, switches = dragonfly.group_of_switch, dragonfly.switches
    of_gpu = dragonfly.switch_of_gpu
    apart = [sum_by(of_gpu, traffic, switches) for traffic in leg.leaving(group[of_gpu])]
    away = [sum_by(of_gpu, traffic, switches) for traffic in leg.leaving(of_gpu)]
    size = np.bincount(group)
    near = [(traffic - far) / size[group] for traffic, far in zip(away, apart, strict=True)]
    sent, received = (traffic / switches for traffic in apart)
    loads = np.zeros(2 * link_count)
    member = dragonfly.membership
    elsewhere = (np.arange(dragonfly.groups) != group[:, None]) & dragonfly.joined[group]
    to_group = np.multiply.outer(sent, size) + received @ member
    from_group = np.multiply.outer(received, size) + sent @ member
    first = np.repeat(np.arange(switches), size[group])
    start = np.searchsorted(group, group)
    before = np.cumsum(size[group]) - size[group]
    second = np.arange(len(first)) - np.repeat(before - start, size[group])
    amount = (sent + near[0])[first] + (received + near[1])[second]
    within = csr_array((amount, (first, second)), shape=(switches, switches))
    demand = _SwitchDemand(
        within=within,
        to_group=csr_array(to_group * elsewhere),
        from_group=csr_array(from_group * elsewhere),
        between=member.T @ (to_group * elsewhere),
    )
    _add_local(dragonfly, loads, demand.within + _minimal(dragonfly, demand, loads))
    return loads.reshape(2, -1)


class _SwitchDemand(Struct, frozen=True, eq=False):
    """Traffic between switches: inside groups, and summed by group on one of its sides.

    Parameters
    ----------
    within
        Switch to switch of the same group, shape (switches, switches) [B].
    to_group, from_group
        What a switch (row) sends to, and takes from, each other group, (switches, groups) [B].
    between
        Group to group, dense, shape (groups, groups) [B].
    """

    within: Matrix
    to_group: Matrix
    from_group: Matrix
    between: Floats


def _switch_demand(dragonfly: DragonflyMap, leg: Leg) -> _SwitchDemand:
    switch, group, member = dragonfly.switch_of_gpu, dragonfly.group_of_switch, dragonfly.membership
    first, second = switch[leg.source], switch[leg.destination]
    here = group[first] == group[second]
    size = dragonfly.switches
    inside = first[here], second[here]
    within = csr_array((leg.flow_bytes[here], inside), shape=(size, size))
    first, second, away = first[~here], second[~here], leg.flow_bytes[~here]
    shape = (size, dragonfly.groups)
    to_group = csr_array((away, (first, group[second])), shape=shape)
    from_group = csr_array((away, (second, group[first])), shape=shape)
    for products in leg.products:
        inner, sent, received = _product_demand(dragonfly, products)
        within, to_group, from_group = within + inner, to_group + sent, from_group + received
    between = (member.T @ to_group).toarray()
    return _SwitchDemand(within, to_group, from_group, between)


def product_factors(products: Products) -> tuple[Matrix, Matrix]:
    """What entries send and take in uniform groups, never listed, shape (entries, columns) each.

    Sums over labels, less those over what is apart: both are columns, the latter with opposite
    signs. The first times the second transposed is what entries send each other, over the bytes of
    a pair.

    Examples
    --------
    Three entries of one label, of which the first two are apart.

    >>> ends, one = np.array([0, 0, 1]), np.ones(3)
    >>> out, into = product_factors(Products(np.zeros(3, int), ends, np.arange(3), one, one, 8.0))
    >>> (out @ into.T).toarray().tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    _, label = np.unique(products.label, return_inverse=True)
    width = int(products.apart.max()) + 1
    _, close = np.unique(label * np.int64(width) + products.apart, return_inverse=True)
    key = np.concatenate((label, label.max() + 1 + close))
    entry, shape = np.tile(np.arange(len(label)), 2), (len(label), int(key.max()) + 1)
    out, into = (
        csr_array((np.concatenate((share, sign * share)), (entry, key)), shape=shape)
        for share, sign in ((products.out_share, 1.0), (products.in_share, -1.0))
    )
    return out, into


def _product_demand(dragonfly: DragonflyMap, products: Products) -> tuple[Matrix, Matrix, Matrix]:
    """Demand of uniform groups."""
    switch, group = dragonfly.switch_of_gpu[products.gpu], dragonfly.group_of_switch
    member, entry = dragonfly.membership, np.arange(len(switch))
    seats = csr_array(
        (np.ones(len(entry)), (switch, entry)), shape=(dragonfly.switches, len(entry))
    )
    out, into = (seats @ factor for factor in product_factors(products))

    def by_group(ours: Matrix, theirs: Matrix) -> Matrix:
        demand = coo_array(ours @ (theirs.T @ member))
        keep = (group[demand.row] != demand.col) & (demand.data != 0)
        entries = demand.data[keep], (demand.row[keep], demand.col[keep])
        return csr_array(entries, shape=demand.shape) * products.pair_bytes

    blocks = []
    for number in range(dragonfly.groups):
        rows = slice(*np.searchsorted(group, (number, number + 1)))
        block = coo_array(out[rows] @ into[rows].T)
        blocks.append((block.data, block.row + rows.start, block.col + rows.start))
    data, row, column = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    shape = (dragonfly.switches, dragonfly.switches)
    within = csr_array((data * products.pair_bytes, (row, column)), shape=shape)
    return within, by_group(out, into), by_group(into, out)


def _by_pair(dragonfly: DragonflyMap, amounts: Matrix) -> Matrix:
    """Columns (other group) become (own group, other group)."""
    entries = coo_array(amounts)
    pair = dragonfly.group_of_switch[entries.row] * dragonfly.groups + entries.col
    shape = (dragonfly.switches, dragonfly.groups**2)
    return csr_array((entries.data, (entries.row, pair)), shape=shape)


def _add_global(dragonfly: DragonflyMap, loads: Floats, between: Floats) -> None:
    """Spread what passes between groups over the links of each pair."""
    loads[dragonfly.arc_code] += between.ravel()[dragonfly.arc_pair] * dragonfly.arc_share


def _add_local(dragonfly: DragonflyMap, loads: Floats, hop: Matrix) -> None:
    """Put traffic between switches of one group on the links that join them, evenly."""
    entries = coo_array(csr_array(hop))  # as rows, so that every pair occurs once
    moves = (entries.row != entries.col) & (entries.data > 0)
    first, second, amount = entries.row[moves], entries.col[moves], entries.data[moves]
    pair = first * np.int64(dragonfly.switches) + second
    start = np.searchsorted(dragonfly.local_key, pair)
    count = np.searchsorted(dragonfly.local_key, pair, side="right") - start
    lost = np.flatnonzero(count == 0)
    if len(lost) and dragonfly.local is None:
        raise InputError(
            f"switches {first[lost[0]]} and {second[lost[0]]} of one group have no link: dragonfly"
            " routing needs groups that are fully joined, take routing 'ecmp'"
        )
    if len(lost):
        _add_round(dragonfly, loads, (first[lost], second[lost]), amount[lost])
    for step in range(int(count.max(initial=0))):
        some = np.flatnonzero(count > step)
        # The same pair occurs once in a matrix, so that plain indexing adds correctly.
        loads[dragonfly.local_code[start[some] + step]] += amount[some] / count[some]


def _add_round(
    dragonfly: DragonflyMap, loads: Floats, ends: tuple[Ints, Ints], amount: Floats
) -> None:
    """Put what has no link of its own on the shortest paths inside its group."""
    mesh = cast("SwitchMesh", dragonfly.local)
    pairs = csc_array(coo_array((amount, ends), shape=(dragonfly.switches,) * 2))
    extra = mesh.loads((Pairs(pairs),))
    for row, (tail, head) in enumerate(((mesh.source, mesh.target), (mesh.target, mesh.source))):
        key = tail * np.int64(dragonfly.switches) + head
        place = np.searchsorted(dragonfly.local_key, key) + places(key)
        loads[dragonfly.local_code[place]] += extra[row]


def _valiant(dragonfly: DragonflyMap, demand: _SwitchDemand, loads: Floats) -> Matrix:
    """Route what changes groups over all third groups alike; local hops of it."""
    groups = dragonfly.groups
    if groups < MIN_VALIANT_GROUPS:
        raise InputError(f"Valiant routing needs a third group, got {groups}: take minimal routing")
    third = groups - 2
    between, elsewhere = demand.between, ~np.eye(groups, dtype=bool)
    # To each third group goes an even part of all but what is for that group itself.
    first = (between.sum(axis=1)[:, None] - between) * elsewhere / third
    second = (between.sum(axis=0)[None, :] - between) * elsewhere / third
    _add_global(dragonfly, loads, first + second)
    row = np.repeat(np.arange(groups), groups)
    every = csr_array((np.ones(groups**2), (row, np.arange(groups**2))))
    hops = _through_third(dragonfly, between) / third
    for amounts, shares, back in (
        (demand.to_group, dragonfly.sends, False),
        (demand.from_group, dragonfly.receives, True),
    ):
        total = diags_array(amounts.sum(axis=1)) @ dragonfly.membership @ (every @ shares)
        direct = _by_pair(dragonfly, amounts) @ shares
        hop = csr_array(total - direct) / third
        # The difference leaves rounding dust where all traffic of a switch is for one group.
        dust = 1e-12 * hop.max() if hop.nnz else 0.0
        hop.data[hop.data < dust] = 0.0
        hops = hops + (hop.T if back else hop)
    return hops


def _through_third(dragonfly: DragonflyMap, between: Floats) -> Matrix:
    """Local hops in third groups: from where each group's links arrive to where each other's leave.

    In group k: (share of arrivals)' x traffic between groups x (share of departures).
    """
    groups = dragonfly.groups
    bounds = np.searchsorted(dragonfly.group_of_switch, np.arange(groups + 1))
    rows, columns, data = [], [], []
    for k in range(groups):
        pairs, switches = slice(k * groups, (k + 1) * groups), slice(bounds[k], bounds[k + 1])
        arrive, leave = dragonfly.receives[pairs][:, switches], dragonfly.sends[pairs][:, switches]
        hop = (arrive.T @ between) @ leave
        row, column = np.nonzero(hop)
        rows.append(row + switches.start)
        columns.append(column + switches.start)
        data.append(hop[row, column])
    entries = np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))
    return csr_array(coo_array(entries, shape=(dragonfly.switches,) * 2))
