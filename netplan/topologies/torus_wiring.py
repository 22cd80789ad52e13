"""Wiring tori: rings of GPUs along every axis, closed or open, and optical switches between cubes.

Domain d stands at c0 + s0 (c1 + s1 (c2 + ...)): the first axis runs fastest. Along each axis the
GPUs of equal rank are joined in rings, from every member to its next; a ring of two has one link.
On a GPU the ports of axis 0 come first, plus direction before minus. A GPU that the last, partly
filled domain lacks leaves its rings open.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from netplan.arrays import AnyInts
from netplan.errors import InputError
from netplan.topologies.assembly import Links, Wired
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import HALL, RACK, FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.topologies.torus import torus_shape


def wire_torus(spec: FabricSpec, fabric: Fabric, port: int) -> Wired:
    """Wire all rings, ordered by axis, then copper before optical, then the domain they leave.

    Parameters
    ----------
    spec, fabric
        The spec and its sized fabric (family ``torus``).
    port
        First port of a GPU that the torus takes.
    """
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


@dataclass(frozen=True, slots=True, eq=False)
class OpticalCircuits:
    """Which optical circuit switch each link between cubes passes through.

    The switch is a patch panel with mirrors: it forwards light, not packets, so it is no node of
    the graph. Rearranged, the same fibres join any set of whole cubes into a torus.

    Parameters
    ----------
    link
        Numbers of the optical links, shape (circuits,).
    switch
        Number of the optical switch [1], shape (circuits,).
    source_port, target_port
        Its ports that carry the link, shape (circuits,): 2 q for the upper face of cube q, 2 q + 1
        for the lower face.
    switches, ports_per_switch
        Optical switches, and ports in use on each [1].
    """

    link: AnyInts
    switch: AnyInts
    source_port: AnyInts
    target_port: AnyInts
    switches: int
    ports_per_switch: int


def optical_circuits(graph: FabricGraph, sizes: tuple[int, int, int], cube: int) -> OpticalCircuits:
    """Assign the links between cubes to optical circuit switches, as in TPU v4.

    Opposite faces of all cubes meet, position by position, on one switch: cube^2 positions on each
    of 3 axes give 3 cube^2 switches with 2 ports a cube. The 4,096 chips of TPU v4 have 64 cubes of
    4 x 4 x 4, hence 48 switches with 128 ports in use.

    Parameters
    ----------
    graph
        Torus of single chips whose copper block is the cube.
    sizes
        Chips along each axis, all multiples of ``cube`` and larger than it [1].
    cube
        Side of a cube [1].

    Raises
    ------
    InputError
        If the torus is not made of whole cubes.

    References
    ----------
    Jouppi et al., TPU v4 (ISCA 2023, arXiv:2304.01433), section 2.
    """
    if any(size % cube or size == cube for size in sizes) or prod(sizes) != graph.gpus:
        shape = " x ".join(map(str, sizes))
        raise InputError(
            f"a torus of {shape} chips is not made of cubes of side {cube}: every size must be a"
            " multiple of it, at least twice"
        )
    strides = (1, sizes[0], sizes[0] * sizes[1])
    cubes = tuple(size // cube for size in sizes)

    def cube_of(chip: AnyInts) -> AnyInts:
        x, y, z = (chip // strides[axis] % sizes[axis] // cube for axis in range(3))
        return x + cubes[0] * (y + cubes[1] * z)

    links, switches = [], []
    for axis in range(3):
        link = graph.links_of(f"ring {axis + 1} optical")
        chip = graph.source[link]
        first, second = (a for a in range(3) if a != axis)
        row, column = (chip // strides[a] % sizes[a] % cube for a in (first, second))
        links.append(link)
        switches.append(axis * cube**2 + column * cube + row)
    link = np.concatenate(links)
    return OpticalCircuits(
        link=link,
        switch=np.concatenate(switches),
        source_port=2 * cube_of(graph.source[link]),
        target_port=2 * cube_of(graph.target[link]) + 1,
        switches=3 * cube**2,
        ports_per_switch=2 * prod(cubes),
    )
