"""Grids of rings and meshes, told by their links: a ring, a full mesh, a torus, their products.

Members are numbered along the axes, the first one running fastest, as :mod:`netplan` numbers them.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Floats, Ints, distinct_values
from netplan.levels import LevelKind

PAIR = 2
"""Members that one link joins, as a ring or as a mesh [1]."""


class GridAxis(Struct, frozen=True):
    """An axis of a grid: ring or mesh, members, and the rate of its links [B/s]."""

    kind: LevelKind
    size: int
    bytes_per_s: float


def grid_axes(
    source: AnyInts, target: AnyInts, bytes_per_s: Floats, members: int
) -> tuple[GridAxis, ...] | None:
    """Axes of a grid that has exactly these links, each once, at one rate an axis; None if none.

    Examples
    --------
    A ring of three by one of two.

    >>> source = np.array([0, 1, 2, 3, 4, 5, 0, 1, 2])
    >>> target = np.array([1, 2, 0, 4, 5, 3, 3, 4, 5])
    >>> [(one.kind, one.size) for one in grid_axes(source, target, np.ones(9), 6)]
    [('ring', 3), ('mesh', 2)]
    """
    low, high = np.minimum(source, target), np.maximum(source, target)
    code = low.astype(np.int64) * members + high
    order = np.argsort(code)
    code, rate = code[order], bytes_per_s[order]
    if len(distinct_values(code)) < len(code):
        return None
    near = {*high[low == 0].tolist()}
    for shape in _shapes(near, members, 1):
        found = []
        links = [_links(kind, size, stride, members) for kind, size, stride in shape]
        together = np.concatenate(links)
        if len(together) != len(code) or not np.array_equal(np.sort(together), code):
            continue
        for (kind, size, _), own in zip(shape, links, strict=True):
            rates = rate[np.searchsorted(code, own)]
            if (rates != rates[0]).any():
                return None
            found.append(GridAxis(kind, size, float(rates[0])))
        return tuple(found)
    return None


Shape = tuple[tuple[LevelKind, int, int], ...]
"""Axes: kind, members, and places from one to the next."""


def _shapes(near: set[int], members: int, stride: int) -> Iterator[Shape]:
    """Shapes that the neighbours of the first member allow, from an axis of a stride on."""
    if stride == members:
        yield ()
        return
    for size in range(PAIR, members // stride + 1):
        if members % (stride * size) or (size - 1) * stride not in near:
            continue
        mesh = all(place * stride in near for place in range(1, size))
        kinds: tuple[LevelKind, ...] = ("mesh",) if size == PAIR else ("ring", "mesh")
        for kind in kinds:
            if stride in near and (kind == "ring" or mesh):
                for rest in _shapes(near, members, stride * size):
                    yield (kind, size, stride), *rest


def _links(kind: LevelKind, size: int, stride: int, members: int) -> Ints:
    """Links along an axis, as lower member x members + higher one."""
    member = np.arange(members, dtype=np.int64)
    place = member // stride % size
    found = []
    for step in range(1, size) if kind == "mesh" else (1, size - 1):
        there = place + step < size
        here = member[there] if kind == "mesh" or step == 1 else member[place == 0]
        found.append(here * members + here + step * stride)
    return np.concatenate(found)
