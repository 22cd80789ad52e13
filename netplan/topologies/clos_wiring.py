"""Wiring folded Clos networks: which port of which switch each link takes.

The same recursion as :func:`netplan.topologies.clos.wireable_clos`, with the ports written out.
Endpoints are spread evenly over the leaves, in order. With two tiers every leaf has the same
number of links to every spine. Above two tiers uplink p of every leaf leads to plane p, which is
again a Clos network whose endpoints are the leaves; all planes are alike, so one is worked out and
repeated.

On a switch the ports to the tier below come first (room for a full leaf, whether or not it is
full), then those to the tier above.
"""

from dataclasses import dataclass

import numpy as np

from netplan.arrays import AnyInts
from netplan.topologies.clos import ceil_div, equal_uplinks, leaf_ports, tiers_needed


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Links between two tiers of one network, as numbers within each tier, shape (links,)."""

    lower: AnyInts
    upper: AnyInts
    lower_port: AnyInts
    upper_port: AnyInts


@dataclass(frozen=True, slots=True)
class ClosWiring:
    """One Clos network, its switches numbered within each tier.

    Parameters
    ----------
    shapes
        Switches of each tier as a grid: ``(leaves,)``, and above it ``(spines,)`` or
        ``(planes, spines)``, with one more index for planes inside planes.
    stages
        Links below each tier; in the first, ``lower`` counts endpoints in order.
    """

    shapes: tuple[tuple[int, ...], ...]
    stages: tuple[Stage, ...]

    @property
    def switches_per_tier(self) -> tuple[int, ...]:
        """Switches in each tier [1]."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)


def wire_clos(endpoints: int, radix: int, *, oversubscription: float = 1.0) -> ClosWiring:
    """Wire one Clos network.

    Parameters
    ----------
    endpoints, radix, oversubscription
        As in :func:`netplan.topologies.clos.wireable_clos`, whose counts it matches.

    Examples
    --------
    >>> wiring = wire_clos(768, 64)
    >>> wiring.shapes, len(wiring.stages[1].lower)
    (((24,), (16,)), 768)
    >>> wire_clos(65_536, 64).shapes
    ((2048,), (32, 64), (32, 32))
    """
    ports = leaf_ports(radix, oversubscription)
    tiers = tiers_needed(endpoints, radix, ports)
    if tiers == 0:
        return ClosWiring((), ())
    ends = np.arange(endpoints, dtype=np.int32)
    if tiers == 1:
        nothing = np.zeros_like(ends)
        return ClosWiring(((1,),), (Stage(ends, nothing, nothing, ends),))
    leaves = ceil_div(endpoints, ports.down)
    hosts = ceil_div(endpoints, leaves)
    uplinks = ceil_div(hosts * ports.up, ports.down)
    bottom = _spread(ends, leaves)
    if tiers == 2:  # noqa: PLR2004 - leaves and spines
        spines, each = equal_uplinks(leaves, uplinks, radix, radix - hosts)
        return ClosWiring(((leaves,), (spines,)), (bottom, _complete(leaves, spines, each, hosts)))
    plane = wire_clos(leaves, radix)
    return ClosWiring(
        ((leaves,), *((uplinks, *shape) for shape in plane.shapes)),
        (bottom, *_planes(plane, uplinks, hosts)),
    )


def _spread(ends: AnyInts, leaves: int) -> Stage:
    """Endpoints in order, spread evenly: leaf l takes those from floor(l n / leaves) on."""
    starts = np.arange(leaves + 1, dtype=np.int64) * len(ends) // leaves
    sizes = np.diff(starts)
    leaf = np.repeat(np.arange(leaves, dtype=np.int32), sizes)
    port = ends - np.repeat(starts[:-1], sizes).astype(np.int32)
    return Stage(ends, leaf, np.zeros_like(ends), port)


def _complete(leaves: int, spines: int, each: int, first_port: int) -> Stage:
    """``each`` links from every leaf to every spine, ordered by leaf, spine, link."""
    leaf, spine, link = (
        index.ravel() for index in np.indices((leaves, spines, each), dtype=np.int32)
    )
    return Stage(leaf, spine, first_port + spine * each + link, leaf * each + link)


def _planes(plane: ClosWiring, planes: int, first_port: int) -> tuple[Stage, ...]:
    """Stages of all planes, ordered by plane: uplink p of each leaf is an end of plane p."""
    number = np.arange(planes, dtype=np.int32)
    below = (0, *plane.switches_per_tier[:-1])
    stages = []
    for lower_size, upper_size, stage in zip(
        below, plane.switches_per_tier, plane.stages, strict=True
    ):
        # In the first stage plane p takes uplink p of every leaf; above it all planes are alike.
        uplink = first_port + number if stage is plane.stages[0] else 0 * number
        stages.append(
            Stage(
                np.add.outer(number * lower_size, stage.lower).ravel(),
                np.add.outer(number * upper_size, stage.upper).ravel(),
                np.add.outer(uplink, stage.lower_port).ravel(),
                np.add.outer(0 * number, stage.upper_port).ravel(),
            )
        )
    return tuple(stages)
