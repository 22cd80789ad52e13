"""Places of a design that hold no GPU: which grid to take, and what part of it is whole.

GPUs fill a grid in the order of their numbers, the first axis fastest, so that the last places are
idle. The levels that time models see are those of the whole part: layers of the last axis that
lack nobody.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from operator import mul

from netplan.arrays import ceil_div
from netplan.topologies.fabric import Sizing

MIN_WHOLE = 0.9
"""Share of the members that stand in the whole part of a grid with idle places, at least [1]."""


def ceil_root(number: int, degree: int) -> int:
    """Smallest whole number whose power of a degree is at least a number [1].

    Examples
    --------
    >>> ceil_root(64, 3), ceil_root(65, 3), ceil_root(1, 2)
    (4, 5, 1)
    """
    root: int = round(number ** (1 / degree))
    while root**degree < number:
        root += 1
    while root > 1 and (root - 1) ** degree >= number:
        root -= 1
    return root


def whole_part(sizes: Sequence[int], members: int) -> tuple[int, ...]:
    """Sizes of the whole part of a grid whose first members are there, the fastest axis first.

    Axes are whole up to one, which ends where members are missing; those above it have size one.

    Examples
    --------
    Of 3 x 3 x 5 places 37 have members: four whole layers.

    >>> whole_part((3, 3, 5), 37), whole_part((3, 3, 5), 5), whole_part((3, 3, 5), 45)
    ((3, 3, 4), (3, 1, 1), (3, 3, 5))
    """
    strides = [1, *accumulate(sizes, mul)]
    return tuple(
        max(1, min(size, members // stride)) for size, stride in zip(sizes, strides, strict=False)
    )


def grids_holding(members: int, axes: int) -> Iterator[tuple[int, ...]]:
    """Grids with the shortest last axis that holds all members, the longest axis last.

    Those whose whole part has less than `MIN_WHOLE` of the members are left out.

    Examples
    --------
    12 of 13 stand in whole layers of four.

    >>> list(grids_holding(13, 2)), list(grids_holding(13, 3))[-1]
    ([(1, 13), (2, 7), (3, 5), (4, 4)], (2, 3, 3))
    """
    for grid in _grids(members, axes):
        layer = prod(grid[:-1])
        if members // layer * layer >= MIN_WHOLE * members:
            yield grid


def _grids(members: int, axes: int, least: int = 1) -> Iterator[tuple[int, ...]]:
    if axes == 1:
        yield (max(least, members),)
        return
    for side in range(least, ceil_root(members, axes) + 1):
        for rest in _grids(ceil_div(members, side), axes - 1, side):
            yield side, *rest


def lines_along(gpus: int, stride: int, size: int) -> tuple[tuple[int, int], ...]:
    """Lines along an axis, by how many members they have: (lines, members) [1].

    Neighbours are ``stride`` places apart, and a line has ``size`` places.

    Examples
    --------
    Seven of eight places, in two rows of four that begin at 0 and 1: 0, 2, 4, 6 and 1, 3, 5.

    >>> lines_along(7, 2, 4)
    ((0, 4), (1, 4), (1, 3))
    """
    blocks, rest = divmod(gpus, stride * size)
    members, longer = divmod(rest, stride)
    return (blocks * stride, size), (longer, members + 1), (stride - longer, members)


def idle_note(held: int, sizing: Sizing) -> list[str]:
    """What a design that holds more GPUs than there are says of its idle places.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=100, radix=64)
    >>> idle_note(128, scenario.sizing)
    ['The design holds 128 GPUs: 28 places are idle.']
    """
    idle = held - sizing.gpus
    some = f"{idle:,} places are idle" if idle > 1 else "one place is idle"
    return [f"The design holds {held:,} GPUs: {some}."] if idle else []
