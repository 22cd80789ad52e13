"""Uniform groups on a torus under dimension order, without listing their pairs.

What a sends to b is a product, O[a] I[b]. Dimension order keeps it one: while axis i is travelled
the axes before it have the destination's coordinates and those after it the source's, so between
two members x and y of a line there pass

    (O summed over the axes before i)[x, after]  x  (I summed over the axes after i)[before, y]

bytes, and the load of every link is two products of matrices with the table of which ways x -> y
pass it. An all_to_all of 10^6 GPUs takes 10^6 x (size of the axis) multiplications an axis.
"""

from itertools import pairwise
from math import prod

import numpy as np

from netplan.topologies.products import Floats, Ints, Products
from netplan.topologies.routing_torus import MINUS, PLUS, Torus

MAX_GROUP_CELLS = 1 << 26


def group_dimension_order(torus: Torus, products: Products, rails: int) -> Floats | None:
    """Loads of uniform groups, as :func:`netplan.topologies.routing_torus.dimension_order`.

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


def _dense(torus: Torus, position: Ints, share: Floats) -> Floats:
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
