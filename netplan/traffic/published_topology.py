"""Times of collectives on products of rings, full meshes and switches, as DFModel counts them.

A *dimension* joins p chips, each link carrying B bytes/s one way. Without latency, for n bytes a
chip, or m bytes from each chip to each other one:

=================  ================  ================  ===================
                   ring              mesh              switch
=================  ================  ================  ===================
all-reduce         n (p-1) / (p B)   2 n / (p B)       n (p-1) / (p B)
all-gather         n (p-1) / (p B)   n / (p B)         n (p-1) / (p B)
broadcast          n (p-1) / (2 B)   n (p-1) / (2 B)   n (p-1) / (2 B)
all-to-all         m p^2 / (8 B)     m / B             m p / (4 B)
point to point     n / B             n / B             n / B
=================  ================  ================  ===================

A ring counts both directions, and so, wrongly, does the all-reduce of a switch: `switch_factor` 2
mends it. The later version of the published code, of its user guide, halves the all-reduce of a
mesh: `mesh_factor` 1/2.

An all-to-all of all n chips takes as long as the busiest dimension, which is cut in the middle:
(n/2)^2 pairs over 2 links of each ring, p^2/4 of each mesh, p of each switch. All chips of a group
share one outermost mesh or switch of groups, of one link a pair.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. III, its public code and the logs of its cases. The
physical times of the same collectives are those of `netplan.traffic.hierarchy`.
"""

from collections.abc import Sequence
from math import prod
from typing import Literal, NamedTuple

from netplan.errors import InputError
from netplan.levels import Level, outermost

PublishedCollective = Literal[
    "all_reduce", "all_gather", "broadcast", "all_to_all", "point_to_point"
]
DimensionKind = Literal["switch", "ring", "mesh"]


class Dimension(NamedTuple):
    """One dimension: how so many chips are joined, at which rate of a link [B/s]."""

    kind: DimensionKind
    size: int
    link_bytes_per_s: float

    @classmethod
    def of(cls, level: Level) -> "Dimension":
        """A level as a dimension; InputError for a line, which the published algebra has not."""
        if level.kind == "line":
            raise InputError(
                "the algebra of dimensions knows rings, meshes and switches, no open lines: take"
                " another fabric"
            )
        return cls(level.kind, level.size, level.link_bytes_per_s)


def dimension_s(
    kind: PublishedCollective,
    size_bytes: float,
    axis: Dimension,
    *,
    switch_factor: float = 1.0,
    mesh_factor: float = 1.0,
) -> float:
    """Time of one collective over one dimension [s].

    Parameters
    ----------
    kind
        The collective.
    size_bytes
        n, or m from each chip to each other one [B].
    axis
        The dimension; one of a single chip costs nothing.
    switch_factor
        2 charges the all-reduce of a switch both ways.
    mesh_factor
        1/2 charges the all-reduce of a mesh as the later version does.

    Examples
    --------
    A ring of 8 at 25 GB/s sums up 25 GB: 7/8 s.

    >>> dimension_s("all_reduce", 25e9, Dimension("ring", 8, 25e9))
    0.875
    """
    chips, rate = axis.size, axis.link_bytes_per_s
    if chips == 1:
        return 0.0
    alone, around = size_bytes / rate, (chips - 1) / chips
    factors = {
        "all_reduce": {
            "ring": around,
            "mesh": 2 / chips * mesh_factor,
            "switch": around * switch_factor,
        },
        "all_gather": {"ring": around, "mesh": 1 / chips, "switch": around},
        "broadcast": dict.fromkeys(("ring", "mesh", "switch"), (chips - 1) / 2),
        "all_to_all": {"ring": chips**2 / 8, "mesh": 1.0, "switch": chips / 4},
        "point_to_point": dict.fromkeys(("ring", "mesh", "switch"), 1.0),
    }
    return alone * factors[kind][axis.kind]


def exchanged_s(pair_bytes: float, dimensions: Sequence[Dimension]) -> float:
    """Time of an all-to-all of all chips, m bytes from each to each other one [s].

    Parameters
    ----------
    pair_bytes
        m [B].
    dimensions
        The network, innermost dimension first.

    Examples
    --------
    DLRM-F of the paper: 4,096,000 bytes a pair on a ring of 8 by a mesh of 16.

    >>> network = [Dimension("ring", 8, 600e9), Dimension("mesh", 16, 25e9)]
    >>> exchanged_s(4_096_000, network)
    0.01048576
    """
    chips = prod(axis.size for axis in dimensions)
    if not chips:
        raise InputError("a network without chips exchanges nothing")
    pairs = (chips / 2) ** 2
    last = outermost([axis.size for axis in dimensions])
    times = [0.0]
    for index, axis in enumerate(dimensions):
        if axis.size > 1:
            middle = {"ring": 2.0, "mesh": axis.size**2 / 4, "switch": float(axis.size)}[axis.kind]
            shared = index == last and axis.kind != "ring"
            links = middle if shared else middle * chips / axis.size
            times.append(pairs * pair_bytes / (links * axis.link_bytes_per_s))
    return max(times)
