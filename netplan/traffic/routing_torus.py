"""Loads of tori in closed form: dimension order and minimal-adaptive routing.

A flow moves along each axis the shorter way round its ring; if both are equally long, half goes
each way. An axis that is not closed into a ring has one way only.

``dimension_order``   all of axis 1 first, then axis 2, and so on. On one axis a flow covers a run
                      of consecutive links, so it adds its bytes where the run begins and takes
                      them off where it ends; a running sum over the ring gives all loads. The
                      cost is that of the flows plus that of the links, however long the runs.
``minimal_adaptive``  at every node evenly over all links that lead nearer (what fluid ECMP does on
                      the graph). The pattern of one flow depends on its offset only, so it is
                      worked out once an offset, in a box as large as the offset.

Source: Dally and Towles, Principles and Practices of Interconnection Networks (2004), chapters 8
to 10. Left out: virtual channels and deadlock.
"""

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from netplan.arrays import AnyInts, Bools, Floats, Ints
from netplan.errors import InputError
from netplan.traffic.products import sum_by

PLUS, MINUS = range(2)
"""Directions along an axis, the second index of torus loads."""

MAX_ADAPTIVE_STEPS = 1 << 28


@dataclass(frozen=True, slots=True)
class Torus:
    """Positions of a torus: position d = c0 + s0 (c1 + s1 (c2 + ...)).

    Parameters
    ----------
    sizes
        Members along each axis [1].
    closed
        Whether the rings are closed; else the torus is a mesh.

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
        return position // self.stride(axis) % self.sizes[axis]

    def moves(self, first: AnyInts, second: AnyInts, axis: int) -> tuple[AnyInts, Bools]:
        """Signed steps from one coordinate to another, and whether the other way is as short."""
        size = self.sizes[axis]
        ahead = self.place(second, axis) - self.place(first, axis)
        if not self.closed or size == 2:  # noqa: PLR2004 - two members share one link
            return ahead, np.zeros(len(ahead), bool)
        steps = (ahead + size // 2) % size - size // 2
        # For even sizes half way round comes out as -size/2.
        return steps, 2 * steps == -size


def dimension_order(
    torus: Torus, source: AnyInts, destination: AnyInts, flow_bytes: Floats
) -> Floats:
    """Loads under dimension-order routing.

    Parameters
    ----------
    torus
        The torus.
    source, destination
        Positions, shape (flows,).
    flow_bytes
        Size of each flow [B].

    Returns
    -------
    array
        Bytes that leave each position along each axis, plus and minus [B], shape
        (axes, 2, positions).

    Examples
    --------
    On a ring of 4, 0 sends to 2: half goes each way.

    >>> dimension_order(Torus((4,)), np.array([0]), np.array([2]), np.array([8.0]))[0]
    array([[4., 4., 0., 0.],
           [4., 0., 0., 4.]])
    """
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


def minimal_adaptive(
    torus: Torus, source: AnyInts, destination: AnyInts, flow_bytes: Floats
) -> Floats:
    """Loads under minimal-adaptive routing, as `dimension_order`.

    Raises
    ------
    InputError
        If the flows are so many and so long that they would take more than 2^28 steps.

    Examples
    --------
    From one corner of a square to the other half goes each way round.

    >>> corner = np.array([0]), np.array([3]), np.array([8.0])
    >>> minimal_adaptive(Torus((2, 2)), *corner)[:, PLUS]
    array([[4., 0., 4., 0.],
           [4., 4., 0., 0.]])
    """
    axes = range(len(torus.sizes))
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
    loads = np.zeros((len(torus.sizes), 2, torus.positions))
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
