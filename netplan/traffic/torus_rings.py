"""Tori as graphs: which ring and place each link belongs to, and the loads in its order.

With HB domains of K GPUs there are K tori side by side, one a rail; position d of rail r is GPU
d K + r. The sizes and whether rings are closed are read off the graph itself.
"""

from itertools import pairwise
from math import prod

import numpy as np

from netplan.arrays import AnyInts, Floats, Ints
from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph
from netplan.traffic.demand import Leg, no_leg
from netplan.traffic.products import Products
from netplan.traffic.routing_torus import MINUS, PLUS, Torus, dimension_order, minimal_adaptive

MAX_GROUP_CELLS = 1 << 26


def group_dimension_order(torus: Torus, products: Products, rails: int) -> Floats | None:
    """Loads of uniform groups, as :func:`netplan.traffic.routing_torus.dimension_order`.

    Parameters
    ----------
    torus
        Torus of one rail.
    products
        Groups; the entries of a label are GPUs of one rail, GPU d x rails + r at position d of r.
    rails
        Rails side by side [1].

    Returns
    -------
    array or None
        Bytes that leave each GPU along each axis, plus and minus [B], shape (axes, 2, gpus); None
        if the groups are so many that listing their pairs is cheaper.

    Examples
    --------
    All to all on a ring of 4: 1 + 2 x 1/2 of the messages pass a link each way, from 2 sources.

    >>> one, gpus = np.ones(4), np.arange(4)
    >>> everyone = Products(0 * gpus, gpus, gpus, one, one, 1.0)
    >>> group_dimension_order(Torus((4,)), everyone, 1)
    array([[[2., 2., 2., 2.],
            [2., 2., 2., 2.]]])
    """
    order = np.argsort(products.label, kind="stable")
    _, starts = np.unique(products.label[order], return_index=True)
    if len(starts) * torus.positions > MAX_GROUP_CELLS:
        return None
    loads = np.zeros((len(torus.sizes), 2, torus.positions * rails))
    tables = [_passing(size, closed=torus.closed) for size in torus.sizes]
    for first, last in pairwise([*starts.tolist(), len(order)]):
        entries = order[first:last]
        position, rail = np.divmod(products.gpu[entries], rails)
        out, ends = (
            _dense(torus, position, share[entries])
            for share in (products.out_share, products.in_share)
        )
        here = loads[:, :, int(rail[0]) :: rails]
        for axis, table in enumerate(tables):
            here[axis] += products.pair_bytes * _axis_loads(torus, axis, (out, ends), table)
    return loads


def _dense(torus: Torus, position: AnyInts, share: Floats) -> Floats:
    """Shares by coordinate, the first axis last (it runs fastest)."""
    cells = np.zeros(torus.positions)
    cells[position] = share
    return cells.reshape(torus.sizes[::-1])


def _passing(size: int, *, closed: bool) -> Floats:
    """Part of what goes from x to y that leaves k, each way: shape (2, size k, size x, size y)."""
    ring = Torus((size,), closed)
    x, y = (index.ravel() for index in np.indices((size, size)))
    steps, tied = ring.moves(x, y, 0)
    k = np.arange(size)[:, None]
    share = np.where(tied, 0.5, 1.0)
    ahead = np.where((k - x) % size < np.where(tied | (steps > 0), np.abs(steps), 0), share, 0.0)
    behind = np.where((x - k) % size < np.where(steps < 0, -steps, 0), share, 0.0)
    table = np.empty((2, size, size, size))
    table[PLUS] = ahead.reshape(size, size, size)
    table[MINUS] = behind.reshape(size, size, size)
    return table


def _axis_loads(torus: Torus, axis: int, shares: tuple[Floats, Floats], table: Floats) -> Floats:
    """Loads along one axis, shape (2, positions), for one byte a pair."""
    out, ends = shares
    size, axes = torus.sizes[axis], len(torus.sizes)
    # Arrays have the axes in reverse: those before `axis` are the last ones.
    before = tuple(range(axes - axis, axes))
    after = tuple(range(axes - axis - 1))
    sending = out.sum(axis=before).reshape(-1, size)  # (after, x)
    taking = ends.sum(axis=after).reshape(size, -1)  # (y, before)
    # (after, x) x (x, way k y) = (after, way, k, y), then over y: (after, way, k, before).
    by_sender = np.moveaxis(table, 2, 0).reshape(size, -1)
    moving = (sending @ by_sender).reshape(-1, 2, size, size)
    loads: Floats = np.moveaxis(moving @ taking, 1, 0).reshape(2, prod(torus.sizes))
    return loads


RING = "ring "


def torus_of_graph(graph: FabricGraph) -> tuple[Torus, Ints]:
    """Torus that a graph's rings form over all GPUs; axis of every link, -1 for others.

    The rails are the innermost axis of the returned torus, whose rings nobody travels.

    Raises
    ------
    InputError
        If the graph has no link groups ``ring 1 ...``, or its rings are not those of a torus.
    """
    names = [int(n.split()[1]) if n.startswith(RING) else 0 for n in graph.group_names]
    axis_of_link = np.array([*names, 0], np.int64)[graph.group]
    if not axis_of_link.any():
        raise InputError(f"{graph.name} has no rings: take routing 'ecmp' or 'auto'")
    sizes, closed = [graph.hb_size], True
    for axis in range(1, int(axis_of_link.max()) + 1):
        links = np.flatnonzero(axis_of_link == axis)
        steps = graph.target[links].astype(np.int64) - graph.source[links]
        stride = prod(sizes)
        if not len(links):
            sizes.append(1)
            continue
        back = -int(steps.min())
        closed = closed and (back > 0 or len(links) * 2 == graph.gpus)
        # The link back to the first member says how long a ring is. Without it every line has one
        # link less than members.
        lines = graph.gpus - len(links)
        sizes.append(back // stride + 1 if back > 0 else graph.gpus // max(1, lines))
        if not np.all((steps == stride) | (steps == -back)):
            raise InputError(f"{graph.name}: axis {axis} has rings of unequal members")
    if prod(sizes) != graph.gpus:
        shape = " x ".join(map(str, sizes[1:]))
        raise InputError(
            f"{graph.name}: rings of {shape} positions do not hold {graph.gpus:,} GPUs in HB"
            f" domains of {graph.hb_size}: a partly filled torus takes routing 'ecmp'"
        )
    return Torus(tuple(sizes), closed), axis_of_link


def torus_loads(graph: FabricGraph, leg: Leg, *, adaptive: bool = False) -> Floats:
    """Load of the ring links of a torus [B], shape (2, links); all others are 0.

    Parameters
    ----------
    graph
        The fabric.
    leg
        Traffic over the network, along rails.
    adaptive
        Minimal-adaptive instead of dimension order.

    Raises
    ------
    InputError
        As in :func:`torus_of_graph`, or as the routing does.
    """
    torus, axis_of_link = torus_of_graph(graph)
    route = minimal_adaptive if adaptive else dimension_order
    passed = np.zeros((len(torus.sizes), 2, graph.gpus))
    rail = Torus(torus.sizes[1:], torus.closed)
    for products in leg.products:
        whole = None if adaptive else group_dimension_order(rail, products, graph.hb_size)
        if whole is None:
            leg = leg.plus(no_leg(products).listed())
        else:
            passed[1:] += whole
    source, destination = leg.source.astype(np.int64), leg.destination.astype(np.int64)
    passed += route(torus, source, destination, leg.flow_bytes)
    if passed[0].any():
        raise InputError(f"{graph.name} joins equal ranks only: let HB domains forward the rest")
    loads = np.zeros((2, graph.link_count))
    for axis in range(1, len(torus.sizes)):
        links = np.flatnonzero(axis_of_link == axis)
        loads[0, links] = passed[axis, PLUS, graph.source[links]]
        loads[1, links] = passed[axis, MINUS, graph.target[links]]
    return loads
