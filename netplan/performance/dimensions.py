"""Networks as products of dimensions whose sizes are free: DFModel's tori, dragonfly and DGX.

A network of n chips is named by how its dimensions join, innermost first: ``ring-ring`` is a 2D
torus, ``ring-ring-ring`` a 3D torus, ``mesh-mesh`` a dragonfly, ``mesh-switch`` the DGX-1,
``switch-switch`` the DGX-2, ``ring-mesh`` ZionEX. All links have one rate. A strategy of
parallelism lies on one whole dimension, and no dimension is shared (the paper's Sec. IV-C), so two
dimensions are two of tensor, pipeline and data parallelism, in any order, three are all of them.

What all chips exchange with each other runs on sizes nearest to equal, the largest outermost.

Source: Ko et al., DFModel (arXiv:2412.16432), Sec. IV and VI.
"""

from collections.abc import Iterator
from itertools import permutations
from typing import cast, get_args

from msgspec import Struct

from netplan.errors import InputError
from netplan.levels import Level
from netplan.traffic.published_topology import DimensionKind

MOST = 3
"""Dimensions of a network at most [1]."""


class ParallelLayout(Struct, frozen=True):
    """Degrees of parallelism on the dimensions of a network.

    Parameters
    ----------
    tensor, pipeline, data
        Chips of a tensor group, stages, replicas [1].
    levels
        The dimension of each, of one chip where there is none.
    """

    tensor: int
    pipeline: int
    data: int
    levels: tuple[Level, Level, Level]


def read_dimensions(text: str) -> tuple[DimensionKind, ...]:
    """How the dimensions of a network join, from its name.

    Raises
    ------
    InputError
        If there are too many, or one is unknown.

    Examples
    --------
    >>> read_dimensions("mesh-switch")
    ('mesh', 'switch')
    """
    found = tuple(text.split("-"))
    known = get_args(DimensionKind)
    if len(found) > MOST or not set(found) <= set(known):
        raise InputError(
            f"--dimensions {text!r:.60}: name one to {MOST} of {', '.join(known)}, innermost first,"
            " such as ring-ring"
        )
    return cast("tuple[DimensionKind, ...]", found)


def dimension_sizes(chips: int, count: int) -> Iterator[tuple[int, ...]]:
    """All sizes of so many dimensions above one chip each.

    Examples
    --------
    >>> list(dimension_sizes(16, 2))
    [(2, 8), (4, 4), (8, 2)]
    """
    if count == 1:
        yield from [(chips,)] if chips > 1 else []
        return
    for size in range(2, chips):
        if chips % size == 0:
            yield from ((size, *rest) for rest in dimension_sizes(chips // size, count - 1))


def equal_levels(
    kinds: tuple[DimensionKind, ...], chips: int, bytes_per_s: float
) -> tuple[Level, ...]:
    """Dimensions of sizes nearest to equal, the largest outermost.

    Raises
    ------
    InputError
        If the chips have no such factors.

    Examples
    --------
    >>> [level.size for level in equal_levels(("ring",) * 3, 1024, 25e9)]
    [8, 8, 16]
    """
    sizes = min(dimension_sizes(chips, len(kinds)), key=lambda one: (sum(one), one), default=None)
    if sizes is None:
        raise InputError(
            f"{chips:,} chips are no product of {len(kinds)} dimensions: give --gpus a number with"
            " as many factors"
        )
    return tuple(Level(kind, size, bytes_per_s) for kind, size in zip(kinds, sizes, strict=True))


def parallel_layouts(
    kinds: tuple[DimensionKind, ...], chips: int, bytes_per_s: float, *, layers: int
) -> tuple[ParallelLayout, ...]:
    """Every way to put tensor, pipeline and data parallelism on whole dimensions.

    Stages divide the layers. Dimensions of one kind give every way once.

    Parameters
    ----------
    kinds
        How each dimension joins.
    chips
        Chips in all [1].
    bytes_per_s
        Rate of a link [B/s].
    layers
        Layers of the model [1].

    Examples
    --------
    >>> found = parallel_layouts(("ring", "mesh"), 8, 25e9, layers=2)
    >>> [(one.tensor, one.pipeline, one.data, one.levels[0].kind) for one in found][:3]
    [(2, 1, 4, 'ring'), (4, 2, 1, 'mesh'), (1, 2, 4, 'ring')]
    """
    alone = Level("ring", 1, bytes_per_s)
    found: dict[ParallelLayout, None] = {}
    for sizes in dimension_sizes(chips, len(kinds)):
        joined = [Level(kind, size, bytes_per_s) for kind, size in zip(kinds, sizes, strict=True)]
        for order in permutations(range(MOST), len(kinds)):
            place = dict(zip(order, joined, strict=True))
            levels = place.get(0, alone), place.get(1, alone), place.get(2, alone)
            tensor, pipeline, data = (level.size for level in levels)
            if layers % pipeline == 0:
                found[ParallelLayout(tensor, pipeline, data, levels)] = None
    return tuple(found)
