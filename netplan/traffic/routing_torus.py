"""Loads of tori in closed form: dimension order.

A flow moves along each axis the shorter way round its ring; if both are equally long, half goes
each way. An axis that is not closed into a ring has one way only. All of axis 1 goes first, then
axis 2, and so on. On one axis a flow covers a run of consecutive links, so it adds its bytes where
the run begins and takes them off where it ends; a running sum over the ring gives all loads. The
cost is that of the flows plus that of the links, however long the runs.

Graphs: with HB domains of K GPUs there are K tori side by side, one a rail; position d of rail r
is GPU d K + r. The sizes and whether rings are closed are read off the graph itself; so is where
each GPU of a mesh stands that numbers them otherwise, such as tile by tile.

Source: Dally and Towles, Principles and Practices of Interconnection Networks (2004), chapters 8
to 10. Left out: virtual channels and deadlock.
"""

from itertools import pairwise
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Bools, Floats, Ints, distinct_values
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.graph import FabricGraph
from netplan.traffic.demand import Leg, Products
from netplan.traffic.matrix import sum_by

PLUS, MINUS = range(2)
"""Directions along an axis, the second index of torus loads."""


class TorusPositions(Struct, frozen=True):
    """Positions of a torus, or of a mesh if its rings are open: d = c0 + s0 (c1 + s1 (c2 + ...)).

    Examples
    --------
    >>> TorusPositions((4, 4, 4)).positions
    64
    """

    sizes: tuple[int, ...]
    closed: bool = True

    @property
    def positions(self) -> int:
        """Members [1]."""
        return prod(self.sizes)

    def stride(self, axis: int) -> int:
        """Distance in numbers of neighbours along an axis [1]."""
        return prod(self.sizes[:axis])

    def place(self, position: AnyInts, axis: int) -> AnyInts:
        """Coordinate along one axis."""
        return _remainder(position // self.stride(axis), self.sizes[axis])

    def steps(self, start: AnyInts, end: AnyInts, axis: int) -> tuple[AnyInts, Bools]:
        """Signed steps between coordinates along one axis, and whether the other way is as short.

        Parameters
        ----------
        start, end
            Coordinates along the axis, shape (flows,) [1].
        axis
            The axis, from 0.

        Returns
        -------
        tuple
            Steps ahead, negative where the way back is shorter, and whether both are as long,
            both of shape (flows,) [1].

        Examples
        --------
        >>> TorusPositions((4,)).steps(np.array([0, 0, 3]), np.array([1, 2, 0]), 0)
        (array([ 1, -2,  1]), array([False,  True, False]))
        >>> TorusPositions((4,), closed=False).steps(np.array([3]), np.array([0]), 0)[0]
        array([-3])
        """
        size, ahead = self.sizes[axis], end - start
        if not self.closed or size == 2:  # noqa: PLR2004 - two members share one link
            return ahead, np.zeros(len(ahead), bool)
        steps = _remainder(ahead + size // 2, size) - size // 2
        # For even sizes half way round comes out as -size/2.
        return steps, 2 * steps == -size


def _remainder(number: AnyInts, divisor: int) -> AnyInts:
    """What ``number % divisor`` is: NumPy divides by one number four times as fast as it does that.

    >>> _remainder(np.array([-1, 5]), 4)
    array([3, 1])
    """
    return number - number // divisor * divisor


def _dimension_order(
    torus: TorusPositions, source: AnyInts, destination: AnyInts, flow_bytes: Floats
) -> Floats:
    """Bytes that leave each position along each axis, plus and minus, (axes, 2, positions)."""
    loads = np.zeros((len(torus.sizes), 2, torus.positions))
    here = source
    for axis, size in enumerate(torus.sizes):
        if size == 1:
            continue
        stride = torus.stride(axis)
        start, end = torus.place(here, axis), torus.place(destination, axis)
        steps, tied = torus.steps(start, end, axis)
        line = here - start * stride
        for direction, runs in ((PLUS, (steps > 0) | tied), (MINUS, steps < 0)):
            some = np.flatnonzero(runs)
            amount = np.where(tied[some], 0.5, 1.0) * flow_bytes[some]
            length = np.abs(steps[some])
            # A run in the minus direction is entered from its far end: links s, s-1, ... are
            # left by the members start, start-1, ..., which are consecutive too.
            first = start[some] if direction == PLUS else start[some] - length + 1
            loads[axis, direction] = _runs(torus, axis, (line[some], first % size, length), amount)
        here = here + (end - start) * stride
    return loads


def _runs(
    torus: TorusPositions, axis: int, runs: tuple[AnyInts, AnyInts, AnyInts], amount: Floats
) -> Floats:
    """Cover runs of consecutive members of lines: (line, first member, length) each."""
    line, first, length = runs
    size, stride = torus.sizes[axis], torus.stride(axis)
    last = first + length  # the member after the run, perhaps beyond the end of the ring
    around = last > size
    index = np.concatenate([line + first * stride, line[around]])
    rises = sum_by(index, np.concatenate([amount, amount[around]]), torus.positions)
    counts = np.bincount(index, minlength=torus.positions)
    open_ = last != size
    index = (line + last % size * stride)[open_]
    falls = sum_by(index, amount[open_], torus.positions)
    ends = np.bincount(index, minlength=torus.positions)
    shape = (-1, size, stride)
    loads = np.cumsum((rises - falls).reshape(shape), axis=1)
    # Sums of rises and falls leave rounding dust; the count of open runs says where there is none.
    busy = np.cumsum((counts - ends).reshape(shape), axis=1) > 0
    return np.where(busy, loads, 0.0).ravel()


MAX_GROUP_CELLS = 1 << 26


def _group_dimension_order(torus: TorusPositions, products: Products, rails: int) -> Floats | None:
    """Loads of uniform groups, shape (axes, 2, gpus); None where listing their pairs is cheaper.

    The entries of a label are GPUs of one rail; GPU d x rails + r stands at position d of rail r.
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
        # Shares by coordinate, the first axis last (it runs fastest).
        out, ends = (
            sum_by(position, share[entries], torus.positions).reshape(torus.sizes[::-1])
            for share in (products.out_share, products.in_share)
        )
        here = loads[:, :, int(rail[0]) :: rails]
        for axis, table in enumerate(tables):
            here[axis] += products.pair_bytes * _axis_loads(torus, axis, (out, ends), table)
    return loads


def _passing(size: int, *, closed: bool) -> Floats:
    """Part of what goes from x to y that leaves k, each way: shape (2, size k, size x, size y)."""
    x, y = (index.ravel() for index in np.indices((size, size)))
    steps, tied = TorusPositions((size,), closed).steps(x, y, 0)
    k = np.arange(size)[:, None]
    share = np.where(tied, 0.5, 1.0)
    ahead = np.where((k - x) % size < np.where(tied | (steps > 0), np.abs(steps), 0), share, 0.0)
    behind = np.where((x - k) % size < np.where(steps < 0, -steps, 0), share, 0.0)
    return np.stack((ahead, behind)).reshape(2, size, size, size)


def _axis_loads(
    torus: TorusPositions, axis: int, shares: tuple[Floats, Floats], table: Floats
) -> Floats:
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


class LaidTorus(Struct, frozen=True, eq=False):
    """A torus, or a mesh, on a graph.

    Parameters
    ----------
    torus
        Its sizes, that of HB domains first.
    axis_of_link
        Axis of every link, 0 for those that are on none, shape (links,).
    position
        Position of every GPU, shape (gpus,); None as numbered.
    """

    torus: TorusPositions
    axis_of_link: Ints
    position: Ints | None = None

    def positions(self, gpus: AnyInts) -> Ints:
        """Positions of some GPUs."""
        return gpus.astype(np.int64) if self.position is None else self.position[gpus]


def torus_of_graph(graph: FabricGraph) -> LaidTorus:
    """Torus, or mesh, that a graph's rings form over all GPUs.

    Raises
    ------
    InputError
        If they form none, or a twisted one.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=64, hb_size=1)
    >>> torus_of_graph(scenario.fabric("torus-3d").graph()).torus
    TorusPositions(sizes=(1, 4, 4, 4), closed=True)
    """
    axis_of_link = graph.axis_of_link("ring")
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
        if not np.all((steps == stride) | ((steps == -back) & (back > 0))):
            laid = _lines_of_graph(graph, axis_of_link) if graph.hb_size == 1 else None
            if laid is None:
                raise InputError(
                    f"{graph.name}: axis {axis} has rings of unequal members, or twisted ones: take"
                    " routing 'ecmp' or 'auto'"
                )
            return laid
    if prod(sizes) != graph.gpus:
        shape = " x ".join(map(str, sizes[1:]))
        raise InputError(
            f"{graph.name}: rings of {shape} positions do not hold {graph.gpus:,} GPUs in HB"
            f" domains of {graph.hb_size}: a partly filled torus takes routing 'ecmp'"
        )
    return LaidTorus(TorusPositions(tuple(sizes), closed), axis_of_link)


def _lines_of_graph(graph: FabricGraph, axis_of_link: Ints) -> LaidTorus | None:
    """Mesh of open lines, walked along from their first members; None if it is none."""
    sizes, position, stride = [1], np.zeros(graph.gpus, np.int64), 1
    for axis in range(1, int(axis_of_link.max()) + 1):
        links = np.flatnonzero(axis_of_link == axis)
        following = np.full(graph.gpus, -1, np.int64)
        following[graph.source[links]] = graph.target[links]
        here = np.setdiff1d(np.arange(graph.gpus), graph.target[links])
        lines, size = len(here), 0
        while lines and len(here) == lines and size * lines < graph.gpus:
            position[here] += size * stride
            here, size = following[here], size + 1
            here = here[here >= 0]
        if size * lines != graph.gpus:
            return None
        sizes.append(size)
        stride *= size
    ring = axis_of_link > 0
    steps = position[graph.target[ring]] - position[graph.source[ring]]
    strides = np.cumprod([1, *sizes])[axis_of_link[ring]]
    if stride != graph.gpus or np.any(steps != strides) or len(distinct_values(position)) < stride:
        return None
    return LaidTorus(TorusPositions(tuple(sizes), closed=False), axis_of_link, position)


def torus_loads(graph: FabricGraph, leg: Leg, laid: LaidTorus) -> Floats:
    """Load of the ring links of a torus [B], shape (2, links); all others are 0.

    The leg runs along rails. Errors are those of the routing.
    """
    if leg.empty:
        return np.zeros((2, graph.link_count))
    torus, axis_of_link = laid.torus, laid.axis_of_link
    passed = np.zeros((len(torus.sizes), 2, graph.gpus))
    rail = TorusPositions(torus.sizes[1:], torus.closed)
    for products in leg.products:
        placed = replace(products, gpu=laid.positions(products.gpu))
        whole = _group_dimension_order(rail, placed, graph.hb_size)
        if whole is None:
            leg = leg.plus(Leg(*products.listed()))
        else:
            passed[1:] += whole
    passed += _dimension_order(
        torus, laid.positions(leg.source), laid.positions(leg.destination), leg.flow_bytes
    )
    if passed[0].any():
        raise InputError(f"{graph.name} joins equal ranks only: let HB domains forward the rest")
    loads = np.zeros((2, graph.link_count))
    for axis in range(1, len(torus.sizes)):
        links = np.flatnonzero(axis_of_link == axis)
        loads[0, links] = passed[axis, PLUS, laid.positions(graph.source[links])]
        loads[1, links] = passed[axis, MINUS, laid.positions(graph.target[links])]
    return loads
