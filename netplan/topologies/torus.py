"""Tori: GPU-to-GPU links in rings, no switches; counted and wired.

With HB domains the torus joins domains: the GPUs of equal rank form one torus a rail, and every
GPU has two network ports a dimension. With domains of one GPU it is a torus of chips.

Domain d stands at c0 + s0 (c1 + s1 (c2 + ...)): the first axis runs fastest. Along each axis the
GPUs of equal rank are joined in rings, from every member to its next; a ring of two has one link.
Rings are closed or open; optical switches may stand between cubes. On a GPU the ports of axis 0
come first, plus direction before minus. A GPU that the last, partly filled domain lacks leaves its
rings open.
"""

from functools import cache
from math import prod

import numpy as np

from netplan.arrays import AnyInts
from netplan.errors import InputError
from netplan.levels import Level, LevelKind
from netplan.topologies.assembly import Links, Wired
from netplan.topologies.clos import ceil_div
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, hb_level, port_words
from netplan.topologies.graph import HALL, RACK
from netplan.topologies.specs import FabricSpec, Medium

MAX_ELONGATION = 4
"""Longest over shortest side of a torus beyond which a note says so [1]."""


def build_torus(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """Torus over all HB domains, as near to a cube as the factors of their number allow."""
    sizes = torus_shape(spec, sizing)
    block = spec.copper_block if sizing.hb_size == 1 else 0
    links = tuple(
        group
        for axis in enumerate(sizes)
        for group in _axis_links(axis, sizing, block, closed=spec.wraparound)
    )
    rate = sizing.network_bytes_per_s
    kind: LevelKind = "ring" if spec.wraparound else "line"
    rings = [Level(kind, size, rate, step_latency_s=sizing.network_latency_s) for size in sizes]
    # Where GPUs are missing some rings or lines are shorter, and there are no levels.
    whole = sizing.full_domains == sizing.domains
    ports = _ports(sizes)
    return Fabric(
        name=spec.name,
        title=spec.title,
        sizing=sizing,
        tiers=(),
        links=links,
        nic_ports=ports * sizing.gpus,
        levels=(hb_level(spec, sizing), *rings) if whole else (),
        network="direct",
        notes=(
            *spec.notes,
            *_media(links, block),
            *_notes(sizes, sizing, ports, closed=spec.wraparound),
        ),
    )


def torus_shape(spec: FabricSpec, sizing: Sizing) -> tuple[int, ...]:
    """Sizes along each axis: the spec's own, if they hold the HB domains, or nearest to a cube."""
    sizes = spec.sizes or near_cube(sizing.domains, spec.dimensions)
    if prod(sizes) != sizing.domains:
        shape = " x ".join(str(size) for size in sizes)
        raise InputError(
            f"{spec.name}: {shape} positions hold {prod(sizes):,} HB domains, got"
            f" {sizing.domains:,}: change sizes in the fabric file, or the number of GPUs"
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


def _axis_links(
    axis: tuple[int, int], sizing: Sizing, block: int, *, closed: bool
) -> list[LinkGroup]:
    """Links along one axis (number, size): copper inside blocks of a rack, optical between them.

    The GPUs that a part-filled last HB domain lacks leave out their own links.
    """
    number, size = axis
    if size == 1:
        return []
    per_ring = size if closed and size > 2 else size - 1  # noqa: PLR2004 - two share one link
    slots = sizing.domains * sizing.hb_size
    rings = slots // size
    absent = (slots - sizing.gpus) * (min(2, size - 1) if closed else 1)
    copper = 0
    if block > 1:
        # Of a ring's links one leaves each block; the last one leads back to the first block, and
        # only a closed ring has it.
        between = ceil_div(size, block) - (not closed)
        copper = per_ring - between if size > block else per_ring
    counts: dict[Medium, int] = {
        "copper": copper * rings,
        "optical": (per_ring - copper) * rings - absent,
    }
    return [
        LinkGroup(f"ring {number + 1} {medium}", links, links, medium)
        for medium, links in counts.items()
        if links
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
    if max(sizes) > MAX_ELONGATION * max(1, min(sizes)):
        notes.append(
            f"{sizing.domains:,} has no factors near a cube: this torus is long and slow; choose a"
            " number of domains such as a power of two."
        )
    if sizing.full_domains < sizing.domains:
        notes.append(
            f"The last HB domain has {sizing.gpus % sizing.hb_size} of {sizing.hb_size} GPUs, which"
            " leaves rings open: no iteration time is given."
        )
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
