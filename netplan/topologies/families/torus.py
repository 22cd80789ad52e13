"""Tori: GPU-to-GPU links in rings, no switches; counted and wired.

With HB domains the torus joins domains: the GPUs of equal rank form one torus a rail, and every
GPU has two network ports a dimension. With domains of one GPU it is a torus of chips.

Domain d stands at c0 + s0 (c1 + s1 (c2 + ...)): the first axis runs fastest. Along each axis the
GPUs of equal rank are joined in rings, from every member to its next; a ring of two has one link.
Rings are closed or open. Circuit switches may join the faces of cubes: then sizes are those of
whole cubes, and all links out of a cube are optical, also those around a single one. On a GPU the
ports of axis 0 come first, plus direction before minus.

A torus with axes of k and of 2 k members may be twisted: the links around each short axis lead half
way along every long one. So k x k x 2k and k x 2k x 2k become alike in all directions (Camarero,
Martinez and Beivide, IEEE Transactions on Computers 64, 2015, on lattice graphs); TPU v4 has both.
Time models see the short axes as open lines.

A prime number of domains, which would be one long ring, takes a grid near a cube where nearly all
stand in whole layers of it; its last places are idle. Rings through them, and through the GPUs that
the last, partly filled domain lacks, are open lines.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from netplan.arrays import AnyInts, Bools, ceil_div
from netplan.errors import InputError
from netplan.levels import Level, LevelKind
from netplan.records import NonNegativeInt, PositiveInt
from netplan.topologies.assembly import Links, Wired
from netplan.topologies.fabric import MAX_GPUS, Fabric, LinkGroup, Sizing, port_words
from netplan.topologies.graph import HALL, RACK, LinkType, Medium
from netplan.topologies.idle_places import (
    ceil_root,
    grids_holding,
    idle_note,
    lines_along,
    whole_part,
)
from netplan.topologies.specs import MAX_DIMENSIONS, CatalogName, Dimensions, FabricSpec
from netplan.units import counted

LONGEST_RING = 16
"""Longest ring that may take all domains [1]: as long as those of TPU v4's 4,096 chips."""

MAX_ELONGATION = 4
"""Longest over shortest side of a torus beyond which a note says so [1]."""
LEAST_CUBE = 3
"""Side of the smallest cube whose two faces have GPUs of their own beside its inside [1]."""
MAX_PLACES = 4 * MAX_GPUS
"""Places of a grid, with and without GPUs [1]."""


class Torus(FabricSpec, frozen=True, kw_only=True):
    """A torus of HB domains, one a rail."""

    switchless: ClassVar[bool] = True
    several_ports: ClassVar[bool] = True
    dimensions: Dimensions = 3
    sizes: tuple[PositiveInt, ...] | None = None
    copper_block: NonNegativeInt = 0
    wraparound: bool = True
    twist: bool = False  # around a short dimension half of every long one is passed
    circuit_switch: CatalogName | None = None  # joins the faces of blocks, which are cubes

    def __post_init__(self) -> None:
        """Refuse circuit switches without cubes, and twists without rings."""
        super().__post_init__()
        if self.circuit_switch:
            alone = self.hb_size == 1 and self.wraparound
            refuse_other_cubes(self.copper_block, self.sizes or (), single=alone)
        if self.twist:
            refuse_other_twists(self.sizes, self.dimensions, rings=self.wraparound)

    def build(self, sizing: Sizing) -> Fabric:
        """Torus over all HB domains, as near to a cube as the factors of their number allow.

        Parameters
        ----------
        sizing
            GPUs, HB domain, and rates of ports.

        Returns
        -------
        Fabric
            Its links and ports as counted, and its levels as timed.

        Raises
        ------
        InputError
            If the spec's sizes do not hold the HB domains, or make too many places.
        """
        sizes = torus_shape(self, sizing)
        block = self.copper_block if sizing.hb_size == 1 else 0
        links = tuple(
            group
            for axis in range(len(sizes))
            for group in (
                _listed_links(axis, self, sizing)
                if self.twist or self.circuit_switch
                else _axis_links(axis, sizes, sizing, block=block, closed=self.wraparound)
            )
        )
        rate = sizing.network_bytes_per_s
        ports = self.ports(sizing)

        def level(size: int, whole: int) -> Level:
            # A ring that is not whole is open.
            closed = self.wraparound and whole == size and not (self.twist and size == min(sizes))
            kind: LevelKind = "ring" if closed else "line"
            latency_s = sizing.network_latency_s
            return Level(kind, whole, rate, step_latency_s=latency_s, interleaved=self.twist)

        whole = whole_part(sizes, sizing.full_domains)
        media = {group.medium for group in links}
        made = f"Links are copper inside blocks of side {block}, optical between them."
        if len(media) == 1:
            made = f"All links are {'copper' if 'copper' in media else 'optical'}."
        notes = [made] if media and sizing.as_published else []  # else a hall says it
        if self.circuit_switch:
            side = self.copper_block
            cubes = f"{counted(prod(sizes) // side ** len(sizes), 'cube')} of side {side}"
            switches = f"circuit switches ({self.circuit_switch}) join the faces"
            notes.append(f"{cubes}: {switches}, so that any whole cubes make a torus.")
        return Fabric(
            name=self.name,
            title=self.title,
            sizing=sizing,
            tiers=(),
            links=links,
            nic_ports=ports * sizing.gpus,
            levels=(self.hb_level(sizing), *map(level, sizes, whole)),
            network="direct",
            notes=(*self.notes, *notes, *_notes(sizes, sizing, ports, self)),
        )

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:  # noqa: ARG002
        """Wire all rings, ordered by axis, then copper before optical, then the domain they leave.

        Parameters
        ----------
        fabric
            The same fabric as sized.
        first
            First number of a node that is none of the GPUs; a torus has none.
        port
            First port of a GPU that the network takes, counted from 0.

        Returns
        -------
        Wired
            Links between GPUs, a block for each axis and medium; no nodes.

        Raises
        ------
        InputError
            As of :func:`torus_shape`.
        """
        sizes, rails = torus_shape(self, fabric.sizing), fabric.sizing.hb_size
        rank, links = np.arange(rails, dtype=np.int32), []
        for axis, size in enumerate(sizes):
            if size == 1:
                continue
            ends = _next_along(sizes, axis, closed=self.wraparound, twist=self.twist)
            source, target = (np.add.outer(end * rails, rank).ravel() for end in ends)
            there = (source < fabric.sizing.gpus) & (target < fabric.sizing.gpus)
            source, target = source[there], target[there]
            copper = np.repeat(_in_one_block(sizes, ends, self, rails), rails)[there]
            # Two members share one link, but for those that the twist leads past.
            arrival = port + (size > 2 or self.twist)  # noqa: PLR2004
            media: tuple[tuple[Medium, Bools, int], ...]
            media = ("copper", copper, RACK), ("optical", ~copper, HALL)
            for medium, chosen, length in media:
                here, following = source[chosen], target[chosen]
                ports = np.full_like(here, port), np.full_like(here, arrival)
                kind, rate = _ring_links(axis, medium), fabric.sizing.network_bytes_per_s
                links.append(Links(kind, here, following, *ports, rate, length))
            port = arrival + 1
        return Wired(links=tuple(links))

    def ports(self, sizing: Sizing) -> int:
        """Network ports of a GPU: two an axis, one along an axis of two that is not twisted [1].

        Parameters
        ----------
        sizing
            GPUs and HB domain.

        Returns
        -------
        int
            Ports of every GPU [1].

        Raises
        ------
        InputError
            As of :func:`torus_shape`.
        """
        sizes = torus_shape(self, sizing)
        return 2 * len(sizes) if self.twist else sum(min(2, size - 1) for size in sizes)


def torus_shape(spec: FabricSpec, sizing: Sizing) -> tuple[int, ...]:
    """Sizes along each axis: the spec's own, if they hold the HB domains, or near a cube.

    Parameters
    ----------
    spec
        A fabric of family ``torus``.
    sizing
        GPUs and HB domain.

    Returns
    -------
    tuple[int, ...]
        Places along each axis, the fastest axis first, shape (dimensions,) [1].

    Raises
    ------
    InputError
        If the spec's sizes do not hold the HB domains, or make too many places.
    """
    if not isinstance(spec, Torus):
        raise InputError(f"{spec.name} is no torus: give one")
    if spec.sizes is None:
        side = spec.copper_block if spec.circuit_switch else 1
        blocks = ceil_div(sizing.domains, side**spec.dimensions)
        least = 1 if spec.circuit_switch else 2
        grid = (
            _twisted_holding(blocks, spec.dimensions, least)
            if spec.twist
            else near_cube_holding(blocks, spec.dimensions)
        )
        return refuse_many_places(spec.name, tuple(side * size for size in grid))
    sizes = refuse_many_places(spec.name, spec.sizes)
    if prod(sizes) < sizing.domains or (prod(sizes) > sizing.domains and not spec.circuit_switch):
        shape = " x ".join(str(size) for size in sizes)
        raise InputError(
            f"{spec.name}: {shape} positions hold {prod(sizes):,} HB domains, got"
            f" {sizing.domains:,}: take {prod(sizes) * sizing.hb_size:,} GPUs, or change sizes in"
            " the fabric file"
        )
    return sizes


def refuse_many_places(name: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of a grid, if it has no more places than netplan plans, idle ones included.

    Parameters
    ----------
    name
        Name of the fabric, for the message.
    sizes
        Places along each axis [1].

    Returns
    -------
    tuple[int, ...]
        The same sizes [1].

    Raises
    ------
    InputError
        If it has more.
    """
    if prod(sizes) > MAX_PLACES:
        shape = " x ".join(map(str, sizes))
        raise InputError(
            f"{name}: {shape} are more than {MAX_PLACES:,} places: lower sizes, or the side of"
            " blocks, in the fabric file"
        )
    return sizes


@cache
def near_cube(positions: int, dimensions: int) -> tuple[int, ...]:
    """Sizes of the grid nearest to a cube with exactly this many positions, largest first.

    Parameters
    ----------
    positions
        Places of the grid, at least 1 [1].
    dimensions
        Axes of the grid, at least 1 [1].

    Returns
    -------
    tuple[int, ...]
        Places along each axis, shape (dimensions,) [1].

    Examples
    --------
    >>> near_cube(20, 2), near_cube(64, 3)
    ((5, 4), (4, 4, 4))
    """
    if dimensions == 1:
        return (positions,)
    # The smallest side is at most the root.
    shapes = (
        (*near_cube(positions // side, dimensions - 1), side)
        for side in range(round(positions ** (1 / dimensions)) + 1, 0, -1)
        if positions % side == 0
    )
    return tuple(sorted(min(shapes, key=sum), reverse=True))


@cache
def near_cube_holding(positions: int, dimensions: int) -> tuple[int, ...]:
    """Sizes of a grid near a cube that holds so many positions, exactly where their factors allow.

    Where all would be one ring of more than `LONGEST_RING`, as prime numbers are, the grid with the
    most positions in whole layers is taken, if they are nearly all; of several the one with the
    fewest places. Shorter rings stay: with none idle, and two links of a GPU, their collectives are
    faster.

    Parameters
    ----------
    positions
        Places that have to be there, at least 1 [1].
    dimensions
        Axes of the grid, at least 1 [1].

    Returns
    -------
    tuple[int, ...]
        Places along each axis, the fastest axis first, shape (dimensions,) [1].

    Examples
    --------
    17 are 2 x 2 x 5 with three idle places, 16 in whole layers; 13 remain a ring, 26 two.

    >>> [near_cube_holding(positions, 3) for positions in (64, 17, 13, 26)]
    [(4, 4, 4), (2, 2, 5), (13, 1, 1), (13, 2, 1)]
    """
    exact = near_cube(positions, dimensions)
    if dimensions == 1 or max(exact) < positions or positions <= LONGEST_RING:
        return exact

    near = [sizes for sizes in grids_holding(positions, dimensions) if not is_long(sizes)]
    return min(
        near,
        key=lambda sizes: (-prod(whole_part(sizes, positions)), prod(sizes), sum(sizes)),
        default=exact,
    )


@cache
def _twisted_holding(positions: int, dimensions: int, least: int = 2) -> tuple[int, ...]:
    """Sizes of the smallest twisted torus that holds so many positions, short axes first.

    Examples
    --------
    >>> [_twisted_holding(positions, 3) for positions in (128, 256, 100, 8)]
    [(4, 4, 8), (4, 8, 8), (3, 6, 6), (2, 2, 4)]
    """
    shapes = []
    for longs in range(1, dimensions):
        short = max(least, ceil_root(ceil_div(positions, 2**longs), dimensions))
        shapes.append((*[short] * (dimensions - longs), *[2 * short] * longs))
    return min(shapes, key=prod)


def is_long(sizes: tuple[int, ...]) -> bool:
    """Whether a torus is so long that a note says so.

    Parameters
    ----------
    sizes
        Places along each axis [1].

    Returns
    -------
    bool
        Whether its longest side is more than `MAX_ELONGATION` times its shortest.
    """
    return max(sizes) > MAX_ELONGATION * max(1, min(sizes))


def _ring_links(axis: int, medium: Medium) -> LinkType:
    """Links along one axis, from 0, of one medium."""
    return LinkType(f"ring {axis + 1} {medium}", "ring", axis=axis + 1, medium=medium)


def _axis_links(
    axis: int, sizes: tuple[int, ...], sizing: Sizing, *, block: int, closed: bool
) -> list[LinkGroup]:
    """Links along one axis: copper inside blocks of a rack, optical between them.

    GPUs that are missing leave out their own links, and open their rings.
    """
    size = sizes[axis]
    lines = lines_along(sizing.gpus, sizing.hb_size * prod(sizes[:axis]), size)
    links, copper = 0, 0
    for count, members in lines:
        if members < 2:  # noqa: PLR2004 - one member has no neighbour
            continue
        around = closed and members == size > 2  # noqa: PLR2004 - two share one link
        per_line = members - 1 + around
        links += count * per_line
        if block > 1:
            # One link leaves each block; the last one leads back to the first block.
            copper += count * (
                per_line if size <= block else per_line - (members - 1) // block - around
            )
    return _by_medium(axis, copper, links - copper)


def _by_medium(axis: int, copper: int, optical: int) -> list[LinkGroup]:
    """So many links along one axis, by their medium."""
    counts: dict[Medium, int] = {"copper": copper, "optical": optical}
    return [
        LinkGroup.of(_ring_links(axis, medium), number)
        for medium, number in counts.items()
        if number
    ]


@lru_cache(maxsize=256)
def _listed_links(axis: int, spec: Torus, sizing: Sizing) -> list[LinkGroup]:
    """Links along one axis of a torus that is twisted or made of cubes, as wired."""
    sizes, rails = torus_shape(spec, sizing), sizing.hb_size
    domain, following = _next_along(sizes, axis, closed=True, twist=spec.twist)
    # A link joins the later domain's GPUs, of which there are no more than of the earlier's.
    later = np.maximum(domain, following).astype(np.int64)
    members = np.clip(sizing.gpus - later * rails, 0, rails)
    copper = _in_one_block(sizes, (domain, following), spec, rails)
    return _by_medium(axis, int(members[copper].sum()), int(members[~copper].sum()))


def _notes(sizes: tuple[int, ...], sizing: Sizing, ports: int, spec: Torus) -> list[str]:
    shape = " x ".join(str(size) for size in sizes)
    of = "GPUs" if sizing.hb_size == 1 else f"HB domains of {sizing.hb_size:,}, one torus a rail"
    kind = "twisted torus" if spec.twist else "torus"
    notes = [f"{shape} {kind} of {of}: {port_words(sizing, ports)}."]
    if spec.twist:
        half = max(sizes) // 2
        notes.append(
            f"Links around an axis of {min(sizes)} lead {half} places along every axis of"
            f" {max(sizes)}; such axes are timed as open lines, and traffic over all of the torus"
            " can be faster (netplan loads)."
        )
    if not spec.wraparound:
        notes.append("No links around: the rings are open lines.")
    if is_long(sizes):
        notes.append(
            f"{sizing.domains:,} has no factors near a cube: this torus is long and slow; choose a"
            " number of domains such as a power of two."
        )
    if sizing.gpus < prod(sizes) * sizing.hb_size:
        whole = " x ".join(map(str, whole_part(sizes, sizing.full_domains)))
        notes.append(
            f"Rings through places without a GPU are open lines: {whole} of {of} are timed."
        )
    if prod(sizes) > sizing.domains:
        notes += idle_note(prod(sizes) * sizing.hb_size, sizing)
    return notes


def _next_along(
    sizes: tuple[int, ...], axis: int, *, closed: bool, twist: bool
) -> tuple[AnyInts, AnyInts]:
    """Domains that a link leaves along one axis, and the next one of each.

    Examples
    --------
    Around the axis of two the twist leads half way along that of four.

    >>> [end.tolist() for end in _next_along((2, 4), 0, closed=True, twist=True)]
    [[0, 1, 2, 3, 4, 5, 6, 7], [1, 4, 3, 6, 5, 0, 7, 2]]
    """
    size = sizes[axis]
    domain = np.arange(prod(sizes), dtype=np.int32)
    following = ring_next(sizes, axis, twist=twist)
    # The last member's next is the first; with two members that link is already there.
    if not closed or (size == 2 and not twist):  # noqa: PLR2004
        inner = domain // prod(sizes[:axis]) % size < size - 1
        domain, following = domain[inner], following[inner]
    return domain, following


def ring_next(sizes: tuple[int, ...], axis: int, *, twist: bool) -> AnyInts:
    """Next place of every place along one axis, around too, shape (places,).

    Parameters
    ----------
    sizes
        Places along each axis, the fastest axis first [1].
    axis
        Axis of the rings, counted from 0.
    twist
        Whether links around the shortest axes lead half way along every longer one.

    Returns
    -------
    AnyInts
        Number of the next place, shape (places,).

    References
    ----------
    Camarero, Martinez and Beivide, IEEE Transactions on Computers 64, 2015, for the twist.

    Examples
    --------
    >>> ring_next((3, 2), 0, twist=False), ring_next((1, 2), 0, twist=True)
    (array([1, 2, 0, 4, 5, 3], dtype=int32), array([1, 0], dtype=int32))
    """
    size, stride = sizes[axis], prod(sizes[:axis])
    place = np.arange(prod(sizes), dtype=np.int32)
    last = place // stride % size == size - 1
    following = place + np.where(last, -(size - 1) * stride, stride).astype(np.int32)
    if twist and size == min(sizes):
        for number, long in enumerate(sizes):
            if long > size:
                step, half = prod(sizes[:number]), long // 2
                shift = np.where(following // step % long < half, half, -half) * step
                following = following + (last * shift).astype(np.int32)
    return following


def _in_one_block(
    sizes: tuple[int, ...], ends: tuple[AnyInts, AnyInts], spec: Torus, rails: int
) -> Bools:
    """Whether links stay inside a block; with several rails, or without blocks, none does.

    Of blocks whose faces circuit switches join, no link around does.
    """
    block = spec.copper_block if rails == 1 else 0
    inside = np.full(len(ends[0]), block > 1)
    for axis, size in enumerate(sizes if block > 1 else ()):
        place, other = (end // prod(sizes[:axis]) % size for end in ends)
        inside &= place // block == other // block
        if spec.circuit_switch:
            inside &= np.abs(place - other) < block - 1
    return inside


def refuse_other_cubes(side: int, sizes: Sequence[int], *, single: bool) -> None:
    """Refuse circuit switches between others than whole cubes of ``single`` GPUs, in rings.

    Parameters
    ----------
    side
        GPUs along an edge of a block that copper joins [1].
    sizes
        GPUs along each axis [1].
    single
        Whether GPUs stand alone in the rings.

    Raises
    ------
    ValueError
        If the faces of the blocks, whose side is given, cannot be joined.
    """
    if side < LEAST_CUBE or not single:
        raise ValueError(
            f"circuit_switch joins the faces of cubes: it needs copper_block of {LEAST_CUBE} or"
            " more, hb_size: 1 and wraparound"
        )
    if any(size % side for size in sizes):
        whole = [max(side, round(size / side) * side) for size in sizes]
        raise ValueError(
            f"circuit_switch needs sizes that are multiples of {side}: got"
            f" {_by(sizes)}, the nearest that works is {_by(whole)}"
        )


def refuse_other_twists(sizes: Sequence[int] | None, dimensions: int, *, rings: bool) -> None:
    """Refuse a twist without rings, or of sizes that are not once and twice the same.

    Parameters
    ----------
    sizes
        GPUs along each axis; None where they follow from the number of GPUs [1].
    dimensions
        Axes [1].
    rings
        Whether the axes are closed to rings.

    Raises
    ------
    ValueError
        If these sizes, or so many dimensions where there are none, take no twist.
    """
    axes = len(sizes) if sizes else dimensions
    if not rings or not 1 < axes <= MAX_DIMENSIONS:
        raise ValueError(
            f"twist shifts links around: it needs wraparound, and 2 to {MAX_DIMENSIONS} dimensions"
        )
    short = min(sizes or (1,))
    if sizes is None or (short > 1 and {short, 2 * short} == set(sizes)):
        return
    raise ValueError(
        f"twist needs sizes of k and of 2 k, k at least 2: got {_by(sizes)}, the nearest that works"
        f" is {_by(nearest_twist(sizes))}"
    )


def _by(sizes: Sequence[int]) -> str:
    """Sizes as a message has them."""
    return " x ".join(map(str, sizes))


def nearest_twist(sizes: Sequence[int]) -> tuple[int, ...]:
    """Nearest sizes that take a twist: some k, some 2 k.

    Parameters
    ----------
    sizes
        GPUs along each axis [1].

    Returns
    -------
    tuple of int
        As many sizes [1].

    Examples
    --------
    >>> nearest_twist((4, 4, 12)), nearest_twist((6, 6, 6)), nearest_twist((1, 9))
    ((4, 4, 8), (3, 6, 6), (4, 8))
    """
    # The best k of each pattern is a median of what the sizes ask.
    shorts = {max(2, size // once + more) for size in sizes for once in (1, 2) for more in (0, 1)}
    patterns = [way for way in product((1, 2), repeat=len(sizes)) if len(set(way)) > 1]
    return min(
        (tuple(k * multiple for multiple in way) for k in sorted(shorts) for way in patterns),
        key=lambda near: sum(abs(a - b) for a, b in zip(sizes, near, strict=True)),
    )
