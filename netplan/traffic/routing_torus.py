"""Loads of tori in closed form: dimension order and minimal-adaptive routing.

A flow moves along each axis the shorter way round its ring; if both are equally long, half goes
each way. An axis that is not closed into a ring has one way only.

``dimension order``   all of axis 1 first, then axis 2, and so on. On one axis a flow covers a run
                      of consecutive links, so it adds its bytes where the run begins and takes
                      them off where it ends; a running sum over the ring gives all loads. The
                      cost is that of the flows plus that of the links, however long the runs.
``minimal adaptive``  at every node evenly over all links that lead nearer (what fluid ECMP does on
                      the graph). The pattern of one flow depends on its offset only, so it is
                      worked out once an offset, in a box as large as the offset.

Graphs: with HB domains of K GPUs there are K tori side by side, one a rail; position d of rail r
is GPU d K + r. The sizes and whether rings are closed are read off the graph itself; so is where
each GPU of a mesh stands that numbers them otherwise, such as tile by tile.

*Twisted tori.* Every place is like every other: steps along the axes commute, k steps along a short
axis are half a round of every long one. So what flows from a place to another one depends on the
offset between them only. Under ECMP it is found once an offset, by
:mod:`netplan.traffic.routing_ecmp` from the first place, and laid at the source of each flow. Rings
have few offsets, however many GPUs; where there are many the graph is searched destination by
destination, as others are.

Source: Dally and Towles, Principles and Practices of Interconnection Networks (2004), chapters 8
to 10. Left out: virtual channels and deadlock.
"""

from itertools import pairwise, product
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Bools, Floats, Ints, distinct_values
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.families.torus import ring_next
from netplan.topologies.graph import FabricGraph
from netplan.traffic.demand import Leg, Products, no_leg
from netplan.traffic.matrix import sum_by
from netplan.traffic.routing_ecmp import Arcs, ecmp_loads

PLUS, MINUS = range(2)
"""Directions along an axis, the second index of torus loads."""

MAX_ADAPTIVE_STEPS = 1 << 28


class Torus(Struct, frozen=True):
    """Positions of a torus, or of a mesh if its rings are open: d = c0 + s0 (c1 + s1 (c2 + ...)).

    Examples
    --------
    >>> Torus((4, 4, 4)).positions
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

    def moves(self, first: AnyInts, second: AnyInts, axis: int) -> tuple[AnyInts, Bools]:
        """Signed steps from one coordinate to another, and whether the other way is as short."""
        size = self.sizes[axis]
        ahead = self.place(second, axis) - self.place(first, axis)
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
    torus: Torus, source: AnyInts, destination: AnyInts, flow_bytes: Floats
) -> Floats:
    """Bytes that leave each position along each axis, plus and minus, (axes, 2, positions)."""
    loads = np.zeros((len(torus.sizes), 2, torus.positions))
    here = source
    for axis, size in enumerate(torus.sizes):
        if size == 1:
            continue
        steps, tied = torus.moves(here, destination, axis)
        stride = torus.stride(axis)
        start = torus.place(here, axis)
        line = here - start * stride
        for direction, runs in ((PLUS, (steps > 0) | tied), (MINUS, steps < 0)):
            some = np.flatnonzero(runs)
            amount = np.where(tied[some], 0.5, 1.0) * flow_bytes[some]
            length = np.abs(steps[some])
            # A run in the minus direction is entered from its far end: links s, s-1, ... are
            # left by the members start, start-1, ..., which are consecutive too.
            first = start[some] if direction == PLUS else start[some] - length + 1
            loads[axis, direction] = _runs(torus, axis, (line[some], first % size, length), amount)
        here = here + (torus.place(destination, axis) - start) * stride
    return loads


def _runs(
    torus: Torus, axis: int, runs: tuple[AnyInts, AnyInts, AnyInts], amount: Floats
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


def _minimal_adaptive(
    torus: Torus, source: AnyInts, destination: AnyInts, flow_bytes: Floats
) -> Floats:
    """Loads under minimal-adaptive routing, as `_dimension_order`."""
    axes = range(len(torus.sizes))
    loads = np.zeros((len(torus.sizes), 2, torus.positions))
    if not len(source):
        return loads
    moves = [torus.moves(source, destination, axis) for axis in axes]
    offset = np.stack([steps for steps, _ in moves], axis=1)
    volume = float(np.prod(np.abs(offset) + 1.0, axis=1).sum())
    if volume > MAX_ADAPTIVE_STEPS:
        raise InputError(
            f"minimal-adaptive routing of these flows takes {volume:.2g} steps, at most"
            f" {MAX_ADAPTIVE_STEPS:.2g}: take dimension-order, or shorter or fewer flows"
        )
    distinct, which = np.unique(offset, axis=0, return_inverse=True)
    order = np.argsort(which, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(which, minlength=len(distinct)))[:-1])
    places = [torus.place(source, axis) for axis in axes]
    for steps, flows in zip(distinct, parts, strict=True):
        tied = [bool(moves[axis][1][flows[0]]) for axis in axes]
        start = [place[flows] for place in places]
        ways = [
            (1, -1) if tie else (1 if n >= 0 else -1,) for n, tie in zip(steps, tied, strict=True)
        ]
        pattern = _box_pattern(np.abs(steps), tied) / 2 ** sum(tied)
        for signs in product(*ways):
            _lay(torus, loads, start, (pattern, signs), flow_bytes[flows])
    return loads


def _box_pattern(size: Ints, tied: list[bool]) -> Floats:
    """Part of a flow that leaves each cell of its box along each axis, shape (axes, *box).

    Cells are reached in order of their distance from the start. A cell splits evenly over its
    links that lead nearer: one for each axis that is left, two for an axis not yet begun whose two
    ways are equally long (the mirrored box takes the other).
    """
    shape = tuple(int(n) + 1 for n in size)
    axes = len(shape)
    cells = np.indices(shape).reshape(axes, -1)
    links = (cells < size[:, None]) * np.where((cells == 0) & np.array(tied)[:, None], 2.0, 1.0)
    share = links / np.maximum(links.sum(axis=0), 1.0)
    strides = np.array([prod(shape[axis + 1 :]) for axis in range(axes)])
    inside = np.zeros(cells.shape[1])
    inside[0] = 1.0
    distance = cells.sum(axis=0)
    passed = np.zeros((axes, cells.shape[1]))
    by_distance = np.argsort(distance, kind="stable")
    for level in np.split(by_distance, np.cumsum(np.bincount(distance))[:-1]):
        passed[:, level] = share[:, level] * inside[level]
        for axis in range(axes):
            going = level[cells[axis, level] < size[axis]]
            inside[going + strides[axis]] += passed[axis, going]
    return passed.reshape(axes, *shape)


def _lay(
    torus: Torus,
    loads: Floats,
    start: list[AnyInts],
    pattern: tuple[Floats, tuple[int, ...]],
    amount: Floats,
) -> None:
    """Add a pattern, mirrored by signs, at the start of each of some flows of equal offset."""
    shares, signs = pattern
    axes = len(signs)
    box = np.indices(shares.shape[1:]).reshape(axes, -1)
    number = np.zeros((len(amount), box.shape[1]), np.int64)
    for axis, size in enumerate(torus.sizes):
        place = start[axis][:, None] + signs[axis] * box[axis]
        number += place % size * torus.stride(axis)
    for axis, sign in enumerate(signs):
        share = shares[axis].ravel()
        used = np.flatnonzero(share)
        carried = amount[:, None] * share[used]
        direction = PLUS if sign > 0 else MINUS
        np.add.at(loads[axis, direction], number[:, used].ravel(), carried.ravel())


MAX_GROUP_CELLS = 1 << 26


def _group_dimension_order(torus: Torus, products: Products, rails: int) -> Floats | None:
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
    ring = Torus((size,), closed)
    x, y = (index.ravel() for index in np.indices((size, size)))
    steps, tied = ring.moves(x, y, 0)
    k = np.arange(size)[:, None]
    share = np.where(tied, 0.5, 1.0)
    ahead = np.where((k - x) % size < np.where(tied | (steps > 0), np.abs(steps), 0), share, 0.0)
    behind = np.where((x - k) % size < np.where(steps < 0, -steps, 0), share, 0.0)
    return np.stack((ahead, behind)).reshape(2, size, size, size)


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

    torus: Torus
    axis_of_link: Ints
    position: Ints | None = None

    def at(self, gpus: AnyInts) -> Ints:
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
    Torus(sizes=(1, 4, 4, 4), closed=True)
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
    return LaidTorus(Torus(tuple(sizes), closed), axis_of_link)


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
    return LaidTorus(Torus(tuple(sizes), closed=False), axis_of_link, position)


def torus_loads(graph: FabricGraph, leg: Leg, laid: LaidTorus, *, adaptive: bool = False) -> Floats:
    """Load of the ring links of a torus [B], shape (2, links); all others are 0.

    The leg runs along rails. Errors are those of the routing.
    """
    torus, axis_of_link = laid.torus, laid.axis_of_link
    route = _minimal_adaptive if adaptive else _dimension_order
    passed = np.zeros((len(torus.sizes), 2, graph.gpus))
    rail = Torus(torus.sizes[1:], torus.closed)
    for products in leg.products:
        placed = replace(products, gpu=laid.at(products.gpu))
        whole = None if adaptive else _group_dimension_order(rail, placed, graph.hb_size)
        if whole is None:
            leg = leg.plus(no_leg(products).listed())
        else:
            passed[1:] += whole
    passed += route(torus, laid.at(leg.source), laid.at(leg.destination), leg.flow_bytes)
    if passed[0].any():
        raise InputError(f"{graph.name} joins equal ranks only: let HB domains forward the rest")
    loads = np.zeros((2, graph.link_count))
    for axis in range(1, len(torus.sizes)):
        links = np.flatnonzero(axis_of_link == axis)
        loads[0, links] = passed[axis, PLUS, laid.at(graph.source[links])]
        loads[1, links] = passed[axis, MINUS, laid.at(graph.target[links])]
    return loads


FLOWS_AN_OFFSET = 16
"""So many flows must share an offset on average: fewer are searched one by one [1]."""


class Twisted(Struct, frozen=True, eq=False):
    """A whole twisted torus, or several side by side, one a rail.

    Parameters
    ----------
    sizes
        Places along each axis, the first one fastest [1].
    rails
        GPUs at each place [1].
    axis_of_link
        Axis of every link, shape (links,).
    link
        Link that leads from each GPU to the next one along each axis, shape (axes, GPUs).
    """

    sizes: tuple[int, ...]
    rails: int
    axis_of_link: Ints
    link: Ints

    def loads(self, graph: FabricGraph, arcs: Arcs, leg: Leg) -> Floats | None:
        """Bytes on every link [B], shape (2, links); None if flows have too many offsets."""
        flows = leg.listed()
        (start, rail), (end, other) = (
            np.divmod(gpu, self.rails) for gpu in (flows.source, flows.destination)
        )
        if np.any(rail != other):
            return None
        offsets, which = np.unique(self._apart(start, end), return_inverse=True)
        if len(offsets) * FLOWS_AN_OFFSET > len(start):
            return None
        loads = np.zeros((2, graph.link_count))
        if not len(start):
            return loads
        order = np.argsort(which, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(which))[:-1])
        for offset, part in zip(offsets.tolist(), parts, strict=True):
            one = ecmp_loads(arcs, np.zeros(1, int), np.array([offset * self.rails]), np.ones(1))
            amount = flows.flow_bytes[part]
            for code in np.flatnonzero(one).tolist():
                way, link = divmod(code, graph.link_count)
                # Both ways of a link belong to the place where it begins along the axis.
                place = int(graph.source[link]) // self.rails
                here = self._shifted(start[part], place) * self.rails + rail[part]
                laid = self.link[self.axis_of_link[link], here]
                loads[way] += sum_by(laid, amount * one[code], graph.link_count)
        return loads

    def _apart(self, start: AnyInts, end: AnyInts) -> Ints:
        """Place that the first one comes to when a start comes to its end."""
        return self._reduced([b - a for a, b in zip(self._at(start), self._at(end), strict=True)])

    def _shifted(self, start: AnyInts, by: int) -> Ints:
        """Places that starts come to when the first place comes to another one."""
        steps = self._at(np.array([by]))
        return self._reduced([a + b for a, b in zip(self._at(start), steps, strict=True)])

    def _at(self, place: AnyInts) -> tuple[Ints, ...]:
        return np.unravel_index(place, self.sizes, order="F")

    def _reduced(self, steps: list[Ints]) -> Ints:
        """Places at so many steps along every axis: a round of a short one is half of long ones."""
        short = min(self.sizes)
        rounds = sum(n // short for n, size in zip(steps, self.sizes, strict=True) if size == short)
        at = [
            n % size if size == short else (n + rounds * (size // 2)) % size
            for n, size in zip(steps, self.sizes, strict=True)
        ]
        return np.ravel_multi_index(at, self.sizes, order="F")


def twisted_of_graph(graph: FabricGraph) -> Twisted | None:
    """Twisted torus that a graph's rings form over all GPUs; None if they form none.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=128, radix=64, hb_size=1).sizing
    >>> found = [twisted_of_graph(expand(FABRICS.load(name), sizing))
    ...          for name in ("twisted-torus", "torus-3d")]
    >>> found[0].sizes, found[1] is None
    ((4, 4, 8), True)
    """
    axis_of_link = graph.axis_of_link("ring") - 1
    axes, rails = int(axis_of_link.max(initial=-1)) + 1, graph.hb_size
    if axes < 2 or graph.gpus % rails:  # noqa: PLR2004 - one axis has nothing to be twisted along
        return None
    sizes: tuple[int, ...] = ()
    links = [np.flatnonzero(axis_of_link == axis) for axis in range(axes)]
    for link in links:
        stride = prod(sizes) * rails
        inner = int(np.count_nonzero(graph.target[link] == graph.source[link] + stride))
        around = len(link) - inner
        if len(link) != graph.gpus or not around or graph.gpus % around:
            return None
        sizes = (*sizes, graph.gpus // around)
    if prod(sizes) * rails != graph.gpus or {min(sizes), 2 * min(sizes)} != set(sizes):
        return None
    found = np.full((axes, graph.gpus), -1, np.int64)
    rail = np.arange(rails)
    for axis, link in enumerate(links):
        found[axis, graph.source[link]] = link
        following = ring_next(sizes, axis, twist=True).astype(np.int64)
        target = np.add.outer(following * rails, rail).ravel()
        if (found[axis] < 0).any() or np.any(graph.target[found[axis]] != target):
            return None
    return Twisted(sizes, rails, axis_of_link, found)
