"""Products of rings and full meshes: GPU-to-GPU links, no switches; counted and wired.

The HB domain is the first dimension of a product (``hb_kind``, ``hb_size``), the axes of the file
are the others. Domain d stands at c0 + s0 (c1 + s1 (c2 + ...)): the first axis runs fastest. GPUs
of equal rank that differ in one coordinate form a ring, or are joined each with each. All axes run
at one rate, that of the network; the HB domain has its own. On a GPU the ports of the first axis
come first: of a ring plus before minus, of a mesh by the place of the other end.

An axis without a size takes what the others leave. Several, all of one kind, share it in the shape
that holds the HB domains with the fewest links a GPU, then with the fewest idle places. Idle places
are the last ones; their GPUs and links are left out, so that the rings through them are open lines.

Such products are the networks of the DFModel paper (arXiv:2412.16432), and of UB-Mesh
(arXiv:2503.20377), whose pods are meshes in every dimension. Left out: copper.
"""

from functools import cache
from math import prod
from typing import ClassVar

import numpy as np

from netplan.arrays import AnyInts, ceil_div
from netplan.errors import InputError
from netplan.levels import Level, LevelKind
from netplan.records import replace
from netplan.topologies.assembly import Links, Wired
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, port_words
from netplan.topologies.graph import HALL, LinkType, Role
from netplan.topologies.idle_places import grids_holding, idle_note, lines_along, whole_part
from netplan.topologies.specs import FabricAxis, FabricSpec


class Product(FabricSpec, frozen=True, kw_only=True):
    """A product of rings and full meshes over HB domains."""

    unread = ("in_sets",)
    switchless: ClassVar[bool] = True
    several_ports: ClassVar[bool] = True
    axes: tuple[FabricAxis, ...] = ()

    def __post_init__(self) -> None:
        """Refuse no axes, and rings and meshes that share what others leave."""
        super().__post_init__()
        if not self.axes:
            raise ValueError("family: product needs axes")
        if len({axis.kind for axis in self.axes if axis.size is None}) > 1:
            raise ValueError(
                "axes: at most one kind takes the size that the others leave, got rings and meshes"
            )

    def build(self, sizing: Sizing) -> Fabric:
        """Product of the axes over all HB domains; the last of its places may be idle."""
        axes = _axes(self, sizing)
        counts = [
            (_kind(number, axis), _links(axis, stride, sizing.gpus))
            for number, stride, axis in axes
        ]
        ports = self.ports(sizing)
        shape = " x ".join(f"{axis.kind} of {axis.size:,}" for *_, axis in axes)
        of = (
            "GPUs"
            if sizing.hb_size == 1
            else f"HB domains, each a {self.hb_kind} of {sizing.hb_size}"
        )
        held = sizing.hb_size * prod(axis.size for *_, axis in axes)
        levels = [self.hb_level(sizing)]
        whole = whole_part([axis.size for *_, axis in axes], sizing.full_domains)
        for (*_, axis), size in zip(axes, whole, strict=True):
            cut = axis.kind == "ring" and size < axis.size  # such a ring is a line
            levels.append(replace(axis, size=size, kind="line" if cut else axis.kind))
        return Fabric(
            name=self.name,
            title=self.title,
            sizing=sizing,
            tiers=(),
            links=tuple(LinkGroup.of(kind, links) for kind, links in counts if links),
            nic_ports=ports * sizing.gpus,
            levels=tuple(levels),
            network="direct",
            notes=(
                *self.notes,
                f"{shape} over {of}: {port_words(sizing, ports)}.",
                *(["All links are optical."] if sizing.as_published else []),
                *idle_note(held, sizing),
            ),
        )

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:  # noqa: ARG002
        """Wire all axes, each by the line of GPUs along it, then in the order of `direct_links`."""
        gpus, links = fabric.sizing.gpus, []
        for number, stride, axis in _axes(self, fabric.sizing):
            low, high, *ports = direct_links(axis.kind, axis.size)
            lines = np.arange(ceil_div(gpus, stride * axis.size) * stride, dtype=np.int64)
            start = (lines // stride * (stride * axis.size) + lines % stride).astype(np.int32)
            along = [np.asarray(stride * end, np.int32) for end in (low, high)]
            ends = [np.add.outer(start, end).ravel() for end in along]
            ends += [np.tile(np.asarray(port + end, np.int32), len(start)) for end in ports]
            if gpus % (stride * axis.size):  # the last lines are not whole
                there = (ends[0] < gpus) & (ends[1] < gpus)
                ends = [end[there] for end in ends]
            if len(ends[0]):
                kind, rate = _kind(number, axis), axis.link_bytes_per_s
                links.append(Links(kind, ends[0], ends[1], ends[2], ends[3], rate, HALL))
            port += axis.links_per_gpu
        return Wired(links=tuple(links))

    def ports(self, sizing: Sizing) -> int:
        """Network ports of a GPU: two a ring, one a neighbour in a mesh or a ring of two [1]."""
        return sum(axis.links_per_gpu for *_, axis in _axes(self, sizing))


def _links(axis: Level, stride: int, gpus: int) -> int:
    """Links along an axis between the GPUs that are there, the first ones [1].

    Examples
    --------
    Three of 4 GPUs in a ring have two links, in a mesh three.

    >>> _links(Level("ring", 4, 1.0), 1, 7), _links(Level("mesh", 4, 1.0), 1, 7)
    (6, 9)
    """

    def line(members: int) -> int:
        if members == axis.size or axis.kind == "mesh":
            return members * replace(axis, size=members).links_per_gpu // 2
        return members - 1

    lines = lines_along(gpus, stride, axis.size)
    return sum(count * line(members) for count, members in lines if members and count)


def _axes(spec: Product, sizing: Sizing) -> list[tuple[int, int, Level]]:
    """Axes: number, GPUs from one member of a line to the next [1], and the axis as a level."""
    fixed = prod(axis.size or 1 for axis in spec.axes)
    kinds = [axis.kind for axis in spec.axes if axis.size is None]
    held = sizing.hb_size * fixed
    if not kinds and held != sizing.gpus:
        sizes = (sizing.hb_size, *(axis.size for axis in spec.axes))
        raise InputError(
            f"{spec.name}: it holds {' x '.join(map(str, sizes))} GPUs, got {sizing.gpus:,}: take"
            f" {held:,}, or change the sizes in the fabric file"
        )
    free = iter(_axis_sizes(ceil_div(sizing.domains, fixed), len(kinds)))
    rate, latency_s = sizing.network_bytes_per_s, sizing.network_latency_s
    axes, stride = [], sizing.hb_size
    for number, axis in enumerate(spec.axes, 1):
        level = Level(axis.kind, axis.size or next(free), rate, step_latency_s=latency_s)
        axes.append((number, stride, level))
        stride *= level.size
    return axes


@cache
def _axis_sizes(members: int, axes: int) -> tuple[int, ...]:
    """Sizes of axes of one kind that hold so many members.

    Fewest links a GPU come first, then the fewest places, then sides that are alike. The largest
    comes first if all places are taken, else last, so that more layers are whole.

    Examples
    --------
    128 domains: 8 x 4 x 4 has 7 + 3 + 3 links, and 6 x 5 x 5 as many, but idle places.

    >>> _axis_sizes(128, 3), _axis_sizes(13, 3), _axis_sizes(100, 2)
    ((8, 4, 4), (2, 2, 4), (10, 10))
    """
    if axes == 0:
        return ()

    # Sides of one number of axes have the fewest links where their sum is least.
    best = min(grids_holding(members, axes), key=lambda grid: (sum(grid), prod(grid), max(grid)))
    return best[::-1] if prod(best) == members else best


def _kind(number: int, axis: Level) -> LinkType:
    """What the links along an axis are."""
    role: Role = "mesh" if axis.kind == "mesh" else "ring"
    return LinkType(f"{role} {number}", role, axis=number)


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
