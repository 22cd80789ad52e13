"""Products of rings and full meshes: GPU-to-GPU links, no switches; counted and wired.

The HB domain is the first dimension of a product (``hb_kind``, ``hb_size``), the axes of the file
are the others. Domain d stands at c0 + s0 (c1 + s1 (c2 + ...)): the first axis runs fastest. GPUs
of equal rank that differ in one coordinate form a ring, or are joined each with each. All axes run
at one rate, that of the network; the HB domain has its own. On a GPU the ports of the first axis
come first: of a ring plus before minus, of a mesh by the place of the other end.

Such products are the networks of the DFModel paper (arXiv:2412.16432). Left out: copper, and
numbers of GPUs that do not fill the product.
"""

from math import prod

import numpy as np

from netplan.arrays import AnyInts
from netplan.errors import InputError
from netplan.levels import Level, LevelKind
from netplan.topologies.assembly import Links, Wired
from netplan.topologies.fabric import MIN_GPUS, Fabric, LinkGroup, Sizing, hb_level, port_words
from netplan.topologies.graph import HALL
from netplan.topologies.specs import FabricSpec


def build_product(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """Product of the axes over all HB domains, which they must fill."""
    axes = _axes(spec, sizing)
    counts = [(_name(at, axis), sizing.gpus * axis.links_per_gpu // 2) for at, axis in axes]
    ports = product_ports(spec, sizing)
    shape = " x ".join(f"{axis.kind} of {axis.size:,}" for _, axis in axes)
    of = "GPUs" if sizing.hb_size == 1 else f"HB domains, each a {spec.hb_kind} of {sizing.hb_size}"
    return Fabric(
        name=spec.name,
        title=spec.title,
        sizing=sizing,
        tiers=(),
        links=tuple(LinkGroup(name, links, links, "optical") for name, links in counts if links),
        nic_ports=ports * sizing.gpus,
        levels=(hb_level(spec, sizing), *(axis for _, axis in axes)),
        network="direct",
        notes=(
            *spec.notes,
            f"{shape} over {of}: {port_words(sizing, ports)}. All links are optical.",
        ),
    )


def product_ports(spec: FabricSpec, sizing: Sizing) -> int:
    """Network ports of a GPU: two a ring, one a neighbour in a mesh or a ring of two [1]."""
    return sum(axis.links_per_gpu for _, axis in _axes(spec, sizing))


def _axes(spec: FabricSpec, sizing: Sizing) -> list[tuple[int, Level]]:
    """Axes by number, each as a level; an open one takes what the others leave of the GPUs."""
    held = sizing.hb_size * prod(axis.size or 1 for axis in spec.axes)
    rest, missing = divmod(sizing.gpus, held)
    is_open = any(axis.size is None for axis in spec.axes)
    if missing or (rest > 1 and not is_open):
        whole = [held * count for count in ((rest, rest + 1) if is_open else (1,))]
        sizes = (sizing.hb_size, *(axis.size or "any number" for axis in spec.axes))
        raise InputError(
            f"{spec.name} holds {' x '.join(map(str, sizes))} GPUs, got {sizing.gpus:,}: take"
            f" {' or '.join(f'{one:,}' for one in whole if one >= MIN_GPUS)}, or change the sizes"
            " in the fabric file"
        )
    rate, latency_s = sizing.network_bytes_per_s, sizing.network_latency_s
    levels = (
        Level(axis.kind, axis.size or rest, rate, step_latency_s=latency_s) for axis in spec.axes
    )
    return list(enumerate(levels, 1))


def _name(number: int, axis: Level) -> str:
    """Name of the links along an axis."""
    return f"{axis.kind} {number}"


def wire_product(fabric: Fabric, port: int) -> Wired:
    """Wire all axes, each by the line of GPUs along it, then in the order of `direct_links`."""
    gpu = np.arange(fabric.sizing.gpus, dtype=np.int32)
    stride, links = fabric.sizing.hb_size, []
    for number, axis in enumerate(fabric.levels[1:], 1):
        first, second, *ports = direct_links(axis.kind, axis.size)
        start = gpu[gpu // stride % axis.size == 0]
        source, target = (np.add.outer(start, stride * end).ravel() for end in (first, second))
        near, far = (np.add.outer(0 * start, port + end).ravel() for end in ports)
        rate = axis.link_bytes_per_s
        if len(source):
            name = _name(number, axis)
            links.append(Links(name, source, target, near, far, rate, HALL))
        stride, port = stride * axis.size, port + axis.links_per_gpu
    return Wired(links=tuple(links))


def direct_links(kind: LevelKind, size: int) -> tuple[AnyInts, AnyInts, AnyInts, AnyInts]:
    """Links of a ring or mesh: the members at their two ends, and the ports that they use there.

    Examples
    --------
    >>> for ends in direct_links("ring", 4):
    ...     print(ends)
    [0 1 2 3]
    [1 2 3 0]
    [0 0 0 0]
    [1 1 1 1]
    """
    if kind == "ring" and size > 2:  # noqa: PLR2004 - two members share one link
        member = np.arange(size, dtype=np.int32)
        return member, np.roll(member, -1), np.zeros_like(member), np.ones_like(member)
    first, second = (half.astype(np.int32) for half in np.triu_indices(size, 1))
    return first, second, second - 1, first
