"""What the collectives of kernels take on the links between chips.

Without a fabric the chips stand on one ring of their own links, both directions in use. On a
fabric, groups lie on its levels from the inside, and their times are those of the one engine
(`netplan.traffic.hierarchy`); in mode ``published-code`` those of DFModel
(`netplan.traffic.published_topology`), which puts a group on one dimension.

Networks as products of dimensions whose sizes are free: DFModel's tori, dragonfly and DGX.

A network of n chips is named by how its dimensions join, innermost first: ``ring-ring`` is a 2D
torus, ``ring-ring-ring`` a 3D torus, ``mesh-mesh`` a dragonfly, ``mesh-switch`` the DGX-1,
``switch-switch`` the DGX-2, ``ring-mesh`` ZionEX. All links have one rate. A strategy of
parallelism lies on one whole dimension, and no dimension is shared (the paper's Sec. IV-C), so two
dimensions are two of tensor, pipeline and data parallelism, in any order, three are all of them.

What all chips exchange with each other runs on sizes nearest to equal, the largest outermost.

Source: Ko et al., DFModel (arXiv:2412.16432), Sec. IV and VI.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from math import gcd, inf, prod
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from msgspec import Struct

from netplan.errors import InputError
from netplan.inputs.choices import Mode
from netplan.levels import Level
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork, Communication, Group
from netplan.traffic.published_topology import Dimension, DimensionKind, dimension_s, exchanged_s
from netplan.workloads.operations import CollectiveKind

GroupCollective = Literal["all_reduce", "all_gather", "broadcast"]
"""Collectives of chips that share a kernel."""

SIDES = 2
"""Sides of a grid [1]."""


class ChipGrid(NamedTuple):
    """Chips in rows and columns: how many, and what a byte takes along both.

    Messages go along the rows' dimensions, X, from one chip to another; broadcasts along those of
    the columns, Y, to all chips of them [s/B].
    """

    rows: int
    columns: int
    message_s_per_byte: float
    broadcast_s_per_byte: float

    @classmethod
    def published(cls, first: Dimension, second: Dimension) -> "ChipGrid":
        """Dimensions X and Y by the published algebra.

        Examples
        --------
        >>> ChipGrid.published(Dimension("ring", 1, 25e9), Dimension("ring", 8, 25e9))
        ChipGrid(rows=1, columns=8, message_s_per_byte=0.0, broadcast_s_per_byte=1.4e-10)
        """
        message_s = dimension_s("point_to_point", 1.0, first)
        return cls(first.size, second.size, message_s, dimension_s("broadcast", 1.0, second))


class ChipNetwork(Struct, frozen=True):
    """Links between chips.

    Parameters
    ----------
    link_bytes_per_s
        Rate of a chip's own link, one way [B/s].
    levels
        Levels of a fabric; empty: one ring.
    fabric
        Its name.
    mode
        ``corrected``, or ``published-code``.
    free
        Whether other sizes of the levels are as good, of as many chips.
    """

    link_bytes_per_s: float
    levels: tuple[Level, ...] = ()
    fabric: str = ""
    mode: Mode = "corrected"
    free: bool = False

    @property
    def innermost_bytes_per_s(self) -> float:
        """Rate of the first link of a chip [B/s]."""
        return self.levels[0].link_bytes_per_s if self.levels else self.link_bytes_per_s

    @property
    def outermost_bytes_per_s(self) -> float:
        """Rate of the last link on a way to another pipeline stage [B/s]."""
        return self.levels[-1].link_bytes_per_s if self.levels else self.link_bytes_per_s

    def group_s(self, kind: GroupCollective, size_bytes: float, chips: int) -> float:
        """Time of a collective of so many chips next to each other, by its full message [s].

        Raises
        ------
        InputError
            If they do not lie on the levels of the fabric.

        Examples
        --------
        >>> ChipNetwork(25e9).group_s("all_reduce", 25e9, 8)
        0.875
        """
        if not size_bytes or chips == 1:
            return 0.0
        if not self.levels:
            return dimension_s(kind, size_bytes, self._ring(chips))
        if self.mode == "published-code":
            level = next((level for level in self.levels if level.size == chips), None)
            if level is None:
                raise InputError(
                    f"--mode published-code puts a group of {chips} on one dimension of"
                    f" {self.fabric}, which has {self._sizes}: give --tensor one of them"
                )
            return dimension_s(kind, size_bytes, Dimension.of(level))
        return _levels_s(self.levels, kind, size_bytes, self._members(chips))

    def exchange_s(self, pair_bytes: float, chips: int) -> float:
        """Time in which each of all chips sends so much to each other one [s].

        Examples
        --------
        Eight chips of 8 B each. Pairs at 1 B/s, where half of it goes: 4 s. Four pairs on a ring
        at 1 B/s, 32 B of hops over both directions of four links: 4 s.

        >>> pairs, ring = Level("switch", 2, 1.0), Level("ring", 4, 1.0)
        >>> ChipNetwork(1.0, (pairs, ring)).exchange_s(1.0, 8)
        8.0
        """
        if not pair_bytes or chips == 1:
            return 0.0
        if not self.levels:
            return exchanged_s(pair_bytes, [self._ring(chips)])
        if self.mode == "published-code":
            return exchanged_s(pair_bytes, [Dimension.of(level) for level in self.levels])
        sizes = [level.size for level in self.levels]
        return _levels_s(self.levels, "all_to_all", pair_bytes * prod(sizes), sizes)

    def grids(self, rows: int, chips: int) -> Sequence[ChipGrid]:
        """Grids of all chips: the published one, or one of each shape that whole levels make.

        With levels, some are X and the others Y, of every size where these are free. A broadcast
        goes through all of Y's from the inside, whose members share what goes further, as the one
        engine times it; of grids of one shape that with the shortest stands here.

        Raises
        ------
        InputError
            If there is none.

        Examples
        --------
        On a torus of 4 x 4 each ring is either side, or both are one.

        >>> torus = ChipNetwork(1.0, (Level("ring", 4, 1.0),) * 2, "torus")
        >>> [(*grid[:2], grid.broadcast_s_per_byte) for grid in torus.grids(1, 16)]
        [(1, 16, 0.625), (4, 4, 0.5), (16, 1, 0.0)]
        """
        if self.mode == "published-code" or not self.levels:
            first, second = self.grid(rows, chips)
            grid = ChipGrid.published(first, second)
            if self.mode == "corrected":
                ring = (Level("ring", second.size, second.link_bytes_per_s),)
                grid = grid._replace(broadcast_s_per_byte=_broadcast_s_per_byte(ring))
            return [grid]
        shapes: dict[tuple[int, int], ChipGrid] = {}
        for levels in self._shapes(chips):
            for along_x in product((False, True), repeat=len(levels)):
                pairs = list(zip(levels, along_x, strict=True))
                x, y = ([level for level, on_x in pairs if on_x == side] for side in (True, False))
                shape = prod(level.size for level in x), prod(level.size for level in y)
                slowest = min((level.link_bytes_per_s for level in x), default=inf)
                grid = ChipGrid(*shape, 1 / slowest, _broadcast_s_per_byte(y))
                shapes[shape] = min(
                    shapes.get(shape, grid), grid, key=lambda tried: tried[2:][::-1]
                )
        return list(shapes.values())

    def _shapes(self, chips: int) -> Iterator[tuple[Level, ...]]:
        """Levels of every size, if these are free; those of one chip left out."""
        levels = tuple(level for level in self.levels if level.size > 1)
        if not self.free:
            yield levels
            return
        for sizes in dimension_sizes(chips, len(self.levels)):
            pairs = zip(self.levels, sizes, strict=True)
            yield tuple(replace(level, size=size) for level, size in pairs)

    def grid(self, rows: int, chips: int) -> tuple[Dimension, Dimension]:
        """Chips as a grid: the two dimensions of the fabric, or rings of so many rows of chips.

        Rings inside of the outermost dimension join to one that leads through all their chips.

        Raises
        ------
        InputError
            If the fabric has more dimensions, or the rows do not divide the chips.
        """
        if not self.levels:
            if chips % rows:
                raise InputError(
                    f"--tensor {rows:,} does not divide --gpus {chips:,}: a grid has whole rows"
                )
            return self._ring(rows), self._ring(chips // rows)
        dimensions = [Dimension.of(level) for level in self.levels if level.size > 1]
        inner = dimensions[:-1]
        if len(dimensions) > SIDES and {
            (dimension.kind, dimension.link_bytes_per_s) for dimension in inner
        } == {("ring", inner[0].link_bytes_per_s)}:
            size = prod(dimension.size for dimension in inner)
            dimensions = [Dimension("ring", size, inner[0].link_bytes_per_s), dimensions[-1]]
        if len(dimensions) > SIDES:
            raise InputError(
                f"--fabric {self.fabric} has {len(dimensions)} dimensions, {self._sizes}: LINPACK"
                " lies on a grid of two"
            )
        line = self._ring(1)
        first = dimensions[0] if len(dimensions) == SIDES else line
        return first, dimensions[-1] if dimensions else line

    @property
    def _sizes(self) -> str:
        return " x ".join(f"{level.size:,}" for level in self.levels)

    def _ring(self, chips: int) -> Dimension:
        return Dimension("ring", chips, self.link_bytes_per_s)

    def _members(self, chips: int) -> list[int]:
        """Members of a group at each level, filled from the inside [1]."""
        members, left = [], chips
        for level in self.levels:
            here = left if left <= level.size else gcd(left, level.size)
            members.append(here)
            left //= here
        if left > 1:
            raise InputError(
                f"a group of {chips:,} chips does not lie on the levels of {self.fabric},"
                f" {self._sizes}: give --tensor a product of their divisors"
            )
        return members


def _levels_s(
    levels: tuple[Level, ...], kind: CollectiveKind, size_bytes: float, members: Sequence[int]
) -> float:
    """Time of a collective of so many neighbours at each level [s]."""
    counts = np.array(members)[:, None]
    group = Group(counts, np.ones_like(counts))  # next to each other at every level
    network = CollectiveNetwork(levels, Communication("hierarchical"))
    return float(network.collective(kind, group).seconds(size_bytes)[0])


def _broadcast_s_per_byte(levels: Sequence[Level]) -> float:
    """What a byte of a long broadcast to all chips of some levels takes [s/B]."""
    joined = tuple(
        replace(level, link_latency_s=0.0, step_latency_s=0.0) for level in levels if level.size > 1
    )
    if not joined:
        return 0.0
    return _levels_s(joined, "broadcast", 1.0, [level.size for level in joined])


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
    kinds = tuple(text.split("-"))
    known = get_args(DimensionKind)
    if len(kinds) > MOST or not set(kinds) <= set(known):
        raise InputError(
            f"--dimensions {text!r:.60}: name one to {MOST} of {', '.join(known)}, innermost first,"
            " such as ring-ring"
        )
    return cast("tuple[DimensionKind, ...]", kinds)


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
    sizes = min(
        dimension_sizes(chips, len(kinds)), key=lambda shape: (sum(shape), shape), default=None
    )
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
    layouts: dict[ParallelLayout, None] = {}
    for sizes in dimension_sizes(chips, len(kinds)):
        joined = [Level(kind, size, bytes_per_s) for kind, size in zip(kinds, sizes, strict=True)]
        for order in permutations(range(MOST), len(kinds)):
            place = dict(zip(order, joined, strict=True))
            levels = place.get(0, alone), place.get(1, alone), place.get(2, alone)
            tensor, pipeline, data = (level.size for level in levels)
            if layers % pipeline == 0:
                layouts[ParallelLayout(tensor, pipeline, data, levels)] = None
    return tuple(layouts)
