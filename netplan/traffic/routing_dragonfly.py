"""Loads of dragonflies: minimal routing, and Valiant's detour over a third group.

``minimal``  inside a group straight to the destination's switch; to another group over a link that
             joins the two, evenly over all of them, with a local hop before it and one after it
             where it does not begin or end at the right switch.
``valiant``  to another group by way of a third one, evenly over all others: minimal to where the
             link enters the third group, and minimal from there. Every byte that changes groups
             takes two global links instead of one; in return no pattern is bad.

With X the traffic between switches, all loads are products of sparse matrices: X summed over the
destination's group, times the share of each gateway, is what every switch sends to every gateway.

Source: Kim, Dally, Scott and Abts, Technology-Driven, Highly-Scalable Dragonfly Topology (ISCA
2008), section 3. Left out: adaptive choice between the two (UGAL) and virtual channels. Where
several global hops would be shorter than local, global, local, minimal routing still takes the one.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array

from netplan.arrays import AnyInts, Floats
from netplan.errors import InputError
from netplan.traffic.demand import Leg
from netplan.traffic.dragonfly_map import DragonflyMap, Matrix
from netplan.traffic.products import Products

DragonflyRouting = Literal["minimal", "valiant"]

MIN_VALIANT_GROUPS = 3


def dragonfly_loads(
    dragonfly: DragonflyMap, leg: Leg, link_count: int, routing: DragonflyRouting = "minimal"
) -> Floats:
    """Load of the local and global links of a dragonfly [B], shape (2, links); others are 0.

    Parameters
    ----------
    dragonfly
        Its structure.
    leg
        Traffic over the network.
    link_count
        Links of the graph [1].
    routing
        ``minimal`` or ``valiant``.

    Raises
    ------
    InputError
        If a group is not fully joined, or Valiant has no third group.
    """
    demand = _switch_demand(dragonfly, leg)
    loads = np.zeros(2 * link_count)
    _add_local(dragonfly, loads, demand.within)
    if routing == "valiant" and dragonfly.groups > 1:
        _valiant(dragonfly, demand, loads)
        return loads.reshape(2, -1)
    _add_local(dragonfly, loads, _to_gateways(dragonfly, demand.to_group))
    _add_local(dragonfly, loads, _from_gateways(dragonfly, demand.from_group))
    _add_global(dragonfly, loads, demand.between)
    return loads.reshape(2, -1)


@dataclass(frozen=True, slots=True, eq=False)
class _SwitchDemand:
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
    """Sum a demand by switch."""
    switch, group, member = dragonfly.switch_of_gpu, dragonfly.group_of_switch, dragonfly.membership
    first, second = switch[leg.source], switch[leg.destination]
    here = group[first] == group[second]
    size = dragonfly.switches
    inside = first[here], second[here]
    within = csr_array(coo_array((leg.flow_bytes[here], inside), shape=(size, size)))
    first, second, away = first[~here], second[~here], leg.flow_bytes[~here]
    shape = (size, dragonfly.groups)
    to_group = csr_array(coo_array((away, (first, group[second])), shape=shape))
    from_group = csr_array(coo_array((away, (second, group[first])), shape=shape))
    for products in leg.products:
        inner, sent, received = _product_demand(dragonfly, products)
        within, to_group, from_group = within + inner, to_group + sent, from_group + received
    between = (member.T @ to_group).toarray()
    return _SwitchDemand(within, to_group, from_group, between)


def _product_demand(dragonfly: DragonflyMap, products: Products) -> tuple[Matrix, Matrix, Matrix]:
    """Demand of uniform groups, never listed: sums over labels, less those over what is apart."""
    switch, group = dragonfly.switch_of_gpu[products.gpu], dragonfly.group_of_switch
    member = dragonfly.membership
    _, label = np.unique(products.label, return_inverse=True)
    _, close = np.unique(
        label * (int(products.apart.max()) + 1) + products.apart, return_inverse=True
    )

    def by_switch(share: Floats, key: AnyInts) -> Matrix:
        shape = (dragonfly.switches, int(key.max()) + 1)
        return csr_array(coo_array((share, (switch, key)), shape=shape))

    out, into = (by_switch(s, label) for s in (products.out_share, products.in_share))
    out_close, into_close = (by_switch(s, close) for s in (products.out_share, products.in_share))

    def by_group(ours: Matrix, theirs: Matrix, ours_close: Matrix, theirs_close: Matrix) -> Matrix:
        total = ours @ (theirs.T @ member) - ours_close @ (theirs_close.T @ member)
        found = coo_array(total)
        keep = (group[found.row] != found.col) & (found.data != 0)
        entries = found.data[keep], (found.row[keep], found.col[keep])
        return csr_array(entries, shape=found.shape) * products.pair_bytes

    blocks = []
    for number in range(dragonfly.groups):
        rows = slice(*np.searchsorted(group, (number, number + 1)))
        block = coo_array(out[rows] @ into[rows].T - out_close[rows] @ into_close[rows].T)
        blocks.append((block.data, block.row + rows.start, block.col + rows.start))
    data, row, column = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    shape = (dragonfly.switches, dragonfly.switches)
    within = csr_array(coo_array((data * products.pair_bytes, (row, column)), shape=shape))
    return (
        within,
        by_group(out, into, out_close, into_close),
        by_group(into, out, into_close, out_close),
    )


def _to_gateways(dragonfly: DragonflyMap, to_group: Matrix) -> Matrix:
    """Traffic from each switch to those of its group that lead to its destinations' groups."""
    return _by_pair(dragonfly, to_group) @ dragonfly.sends


def _from_gateways(dragonfly: DragonflyMap, from_group: Matrix) -> Matrix:
    """Traffic from the switches where other groups arrive to the switches of its destinations."""
    return (_by_pair(dragonfly, from_group) @ dragonfly.receives).T


def _by_pair(dragonfly: DragonflyMap, amounts: Matrix) -> Matrix:
    """Columns (other group) become (own group, other group)."""
    found = coo_array(amounts)
    pair = dragonfly.group_of_switch[found.row] * dragonfly.groups + found.col
    shape = (dragonfly.switches, dragonfly.groups**2)
    return csr_array(coo_array((found.data, (found.row, pair)), shape=shape))


def _add_global(dragonfly: DragonflyMap, loads: Floats, between: Floats) -> None:
    """Spread what passes between groups over the links of each pair."""
    loads[dragonfly.arc_code] += between.ravel()[dragonfly.arc_pair] * dragonfly.arc_share


def _add_local(dragonfly: DragonflyMap, loads: Floats, hop: Matrix) -> None:
    """Put traffic between switches of one group on the link that joins them."""
    found = coo_array(csr_array(hop))  # as rows, so that every pair occurs once
    moves = (found.row != found.col) & (found.data > 0)
    dragonfly.local.spread(loads, found.row[moves], found.col[moves], found.data[moves])


def _valiant(dragonfly: DragonflyMap, demand: _SwitchDemand, loads: Floats) -> None:
    """Route what changes groups over all third groups alike."""
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
        _add_local(dragonfly, loads, hop.T if back else hop)
    _add_local(dragonfly, loads, _through_third(dragonfly, between) / third)


def _through_third(dragonfly: DragonflyMap, between: Floats) -> Matrix:
    """Local hops in third groups: from where each group's links arrive to where each other's leave.

    In group k: (share of arrivals)' x traffic between groups x (share of departures).
    """
    groups = dragonfly.groups
    bounds = np.searchsorted(dragonfly.group_of_switch, np.arange(groups + 1))
    rows, columns, data = [], [], []
    for k in range(groups):
        pairs, own = slice(k * groups, (k + 1) * groups), slice(bounds[k], bounds[k + 1])
        arrive, leave = dragonfly.receives[pairs][:, own], dragonfly.sends[pairs][:, own]
        hop = (arrive.T @ between) @ leave
        row, column = np.nonzero(hop)
        rows.append(row + own.start)
        columns.append(column + own.start)
        data.append(hop[row, column])
    entries = np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))
    return csr_array(coo_array(entries, shape=(dragonfly.switches,) * 2))
