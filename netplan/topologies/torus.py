"""Tori: GPU-to-GPU links in rings, no switches; counted and wired.

With HB domains the torus joins domains: the GPUs of equal rank form one torus a rail, and every
GPU has two network ports a dimension. With domains of one GPU it is a torus of chips.

Domain d stands at c0 + s0 (c1 + s1 (c2 + ...)): the first axis runs fastest. Along each axis the
GPUs of equal rank are joined in rings, from every member to its next; a ring of two has one link.
Rings are closed or open; optical switches may stand between cubes. On a GPU the ports of axis 0
come first, plus direction before minus.

A prime number of domains, which would be one long ring, takes a grid near a cube where nearly all
stand in whole layers of it; its last places are idle. Rings through them, and through the GPUs that
the last, partly filled domain lacks, are open lines.
"""

from functools import cache
from math import prod

import numpy as np

from netplan.arrays import AnyInts
from netplan.errors import InputError
from netplan.levels import Level, LevelKind
from netplan.topologies.assembly import Links, Wired
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, hb_level, port_words
from netplan.topologies.graph import HALL, RACK
from netplan.topologies.idle_places import grids_holding, idle_note, lines_along, whole_part
from netplan.topologies.specs import FabricSpec, Medium

MAX_ELONGATION = 4
"""Longest over shortest side of a torus beyond which a note says so [1]."""


def build_torus(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """Torus over all HB domains, as near to a cube as the factors of their number allow."""
    sizes = torus_shape(spec, sizing)
    block = spec.copper_block if sizing.hb_size == 1 else 0
    links = tuple(
        group
        for axis in range(len(sizes))
        for group in _axis_links(axis, sizes, sizing, block=block, closed=spec.wraparound)
    )
    rate = sizing.network_bytes_per_s
    ports = _ports(sizes)

    def level(size: int, whole: int) -> Level:
        # A ring that is not whole is open.
        kind: LevelKind = "ring" if spec.wraparound and whole == size else "line"
        return Level(kind, whole, rate, step_latency_s=sizing.network_latency_s)

    whole = whole_part(sizes, sizing.full_domains)
    return Fabric(
        name=spec.name,
        title=spec.title,
        sizing=sizing,
        tiers=(),
        links=links,
        nic_ports=ports * sizing.gpus,
        levels=(hb_level(spec, sizing), *map(level, sizes, whole)),
        network="direct",
        notes=(
            *spec.notes,
            *_media(links, block),
            *_notes(sizes, sizing, ports, closed=spec.wraparound),
        ),
    )


def torus_shape(spec: FabricSpec, sizing: Sizing) -> tuple[int, ...]:
    """Sizes along each axis: the spec's own, if they hold the HB domains, or near a cube."""
    if spec.sizes is None:
        return near_cube_holding(sizing.domains, spec.dimensions)
    sizes = spec.sizes
    if prod(sizes) != sizing.domains:
        shape = " x ".join(str(size) for size in sizes)
        raise InputError(
            f"{spec.name}: {shape} positions hold {prod(sizes):,} HB domains, got"
            f" {sizing.domains:,}: take {prod(sizes) * sizing.hb_size:,} GPUs, or change sizes in"
            " the fabric file"
        )
    return sizes


def torus_ports(spec: FabricSpec, sizing: Sizing) -> int:
    """Network ports of a GPU: two an axis, one along an axis of two [1]."""
    return _ports(torus_shape(spec, sizing))


def _ports(sizes: tuple[int, ...]) -> int:
    return sum(min(2, size - 1) for size in sizes)


@cache
def near_cube(positions: int, dimensions: int) -> tuple[int, ...]:
    """Sizes of the grid nearest to a cube with exactly this many positions, largest first.

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

    Where all would be one ring, longer than `MAX_ELONGATION` allows, as prime numbers are, the grid
    with the most positions in whole layers is taken, if they are nearly all; of several the one
    with the fewest places.

    Examples
    --------
    13 are 2 x 2 x 4 with three idle places, 12 in whole layers; 7 remain a ring, 26 two.

    >>> [near_cube_holding(positions, 3) for positions in (64, 13, 7, 26)]
    [(4, 4, 4), (2, 2, 4), (7, 1, 1), (13, 2, 1)]
    """
    exact = near_cube(positions, dimensions)
    if dimensions == 1 or max(exact) < positions or not _is_long(exact):
        return exact

    def worth(sizes: tuple[int, ...]) -> tuple[int, int, int]:
        return -prod(whole_part(sizes, positions)), prod(sizes), sum(sizes)

    near = [sizes for sizes in grids_holding(positions, dimensions) if not _is_long(sizes)]
    return min(near, key=worth) if near else exact


def _is_long(sizes: tuple[int, ...]) -> bool:
    return max(sizes) > MAX_ELONGATION * max(1, min(sizes))


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
        each = members - 1 + around
        links += count * each
        if block > 1:
            # One link leaves each block; the last one leads back to the first block.
            copper += count * (each if size <= block else each - (members - 1) // block - around)
    counts: dict[Medium, int] = {"copper": copper, "optical": links - copper}
    return [
        LinkGroup(f"ring {axis + 1} {medium}", number, number, medium)
        for medium, number in counts.items()
        if number
    ]


def _media(links: tuple[LinkGroup, ...], block: int) -> list[str]:
    """What the links are made of, as counted."""
    media = {group.medium for group in links}
    if len(media) == 1:
        return [f"All links are {'copper' if 'copper' in media else 'optical'}."]
    return [f"Links are copper inside blocks of side {block}, optical between them."][: len(media)]


def _notes(sizes: tuple[int, ...], sizing: Sizing, ports: int, *, closed: bool) -> list[str]:
    shape = " x ".join(str(size) for size in sizes)
    of = "GPUs" if sizing.hb_size == 1 else f"HB domains of {sizing.hb_size:,}, one torus a rail"
    notes = [f"{shape} torus of {of}: {port_words(sizing, ports)}."]
    if not closed:
        notes.append("No links around: the rings are open lines.")
    if _is_long(sizes):
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


def wire_torus(spec: FabricSpec, fabric: Fabric, port: int) -> Wired:
    """Wire all rings, ordered by axis, then copper before optical, then the domain they leave."""
    sizes = torus_shape(spec, fabric.sizing)
    block = spec.copper_block if fabric.sizing.hb_size == 1 else 0
    links = []
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        source, target, place = _ring(sizes, axis, fabric, closed=spec.wraparound)
        # A link is copper if it stays inside a block; without blocks none is.
        copper = np.zeros(len(place), bool)
        if block > 1:
            copper = (place % block < block - 1) & (place < size - 1) | (size <= block)
        arrival = port + (size > 2)  # noqa: PLR2004 - two members share one link
        for medium, chosen, length in (("copper", copper, RACK), ("optical", ~copper, HALL)):
            ends = source[chosen], target[chosen]
            ports = np.full_like(ends[0], port), np.full_like(ends[0], arrival)
            name = f"ring {axis + 1} {medium}"
            links.append(Links(name, *ends, *ports, fabric.sizing.network_bytes_per_s, length))
        port = arrival + 1
    return Wired(links=tuple(links))


def _ring(
    sizes: tuple[int, ...], axis: int, fabric: Fabric, *, closed: bool
) -> tuple[AnyInts, AnyInts, AnyInts]:
    """Links along one axis: GPU, next GPU, and the place along the axis where each link begins."""
    rails = fabric.sizing.hb_size
    size, stride = sizes[axis], prod(sizes[:axis])
    domain = np.arange(prod(sizes), dtype=np.int32)
    place = domain // stride % size
    last = place == size - 1
    # The last member's next is the first; with two members that link is already there.
    leaves = ~last if size == 2 or not closed else np.ones_like(last)  # noqa: PLR2004
    domain, last = domain[leaves], last[leaves]
    following = domain + np.where(last, -(size - 1) * stride, stride).astype(np.int32)
    rank = np.arange(rails, dtype=np.int32)
    source = np.add.outer(domain * rails, rank).ravel()
    target = np.add.outer(following * rails, rank).ravel()
    there = (source < fabric.sizing.gpus) & (target < fabric.sizing.gpus)
    return source[there], target[there], np.repeat(place[leaves], rails)[there]
