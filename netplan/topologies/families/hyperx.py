"""HyperX: switches on a grid, each joined to all others along every dimension.

Symbols: L dimensions of S_1 ... S_L switches, T hosts a switch, K links between two switches that
differ in one coordinate. A switch needs T + sum of K (S_i - 1) ports. Half of uniform traffic
crosses the middle of a dimension, (S/2)^2 K links a line against S T / 4 hosts each way, so every
port keeps its whole rate where K S_i >= T.

Source: Ahn, Binkert, Davis, McLaren and Schreiber, HyperX: Topology, Routing, and Packaging of
Efficient Large-Scale Networks (SC 2009). A HyperX of one dimension is a full mesh of switches, of
two switches a side a hypercube.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import prod

import numpy as np

from netplan.errors import InputError
from netplan.records import PositiveInt
from netplan.topologies.assembly import NameBlock
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.clos import ceil_div
from netplan.topologies.families.joined_switches import (
    JoinedSwitches,
    SwitchGraph,
    SwitchLinks,
    joined_links,
)
from netplan.topologies.graph import Medium
from netplan.topologies.specs import Dimensions
from netplan.units import counted

AXES = {1: (), 2: ("row",), 3: ("layer", "row"), 4: ("cube", "layer", "row")}
"""Names of all dimensions but the last, the slowest first."""


class HyperX(JoinedSwitches, frozen=True, kw_only=True):
    """Switches on a grid, of at most so many dimensions."""

    planes: PositiveInt = 1  # each GPU's port split into as many, one to each plane
    dimensions: Dimensions = 3
    sizes: tuple[PositiveInt, ...] | None = None
    hosts_per_switch: PositiveInt | None = None
    links_per_pair: PositiveInt | None = None
    host_medium: Medium = "optical"

    def plane_graph(self, sizing: Sizing) -> SwitchGraph:
        """Its own sizes and hosts, else the fewest switches at the whole rate.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.specs import FABRICS
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
        >>> from netplan.topologies.families.joined_switches import switch_graph
        >>> graph = switch_graph(FABRICS.load("hyperx"), scenario.sizing)
        >>> graph.switches, graph.hosts, graph.said
        (110, 10, '11 x 10 switches of 10 hosts, 1 link to each along a dimension.')
        """
        sizes, hosts, copies = _shape(self, sizing)
        pattern = "/".join([*(f"{axis}-{{}}" for axis in AXES[len(sizes)]), "switch-{}"])
        switches = np.arange(prod(sizes), dtype=np.int64)
        links, stride = [], prod(sizes)
        for number, size in enumerate(sizes, start=1):
            stride //= size
            if size > 1:
                pairs = (np.repeat(end, copies) for end in np.triu_indices(size, 1))
                start = switches[switches // stride % size == 0]
                ends = (np.add.outer(start, stride * end).ravel() for end in pairs)
                links.append(SwitchLinks(joined_links(f"dimension {number}", number), *ends))
        sentence = (
            f"{' x '.join(map(str, sizes))} switches of {counted(hosts, 'host')},"
            f" {counted(copies, 'link')} to each along a dimension."
        )
        return SwitchGraph(
            (("switch", NameBlock(pattern, sizes)),), hosts, tuple(links), sentence, even=True
        )


def _shape(spec: HyperX, sizing: Sizing) -> tuple[tuple[int, ...], int, int]:
    """Sizes, hosts a switch and links a pair."""
    copies = spec.links_per_pair or 1
    if spec.sizes is None:
        room = sizing.gpus, sizing.radix
        return *_smallest(spec.name, room, spec.dimensions, copies, spec.hosts_per_switch), copies
    if len(spec.sizes) > len(AXES):
        raise InputError(f"{spec.name}: a HyperX has 1 to {len(AXES)} sizes, got {len(spec.sizes)}")
    held = prod(spec.sizes)
    hosts = spec.hosts_per_switch or ceil_div(sizing.gpus, held)
    if held * hosts < sizing.gpus:
        shape = " x ".join(map(str, spec.sizes))
        raise InputError(
            f"{spec.name}: {shape} switches of {hosts} hosts hold {held * hosts:,} GPUs, got"
            f" {sizing.gpus:,}: raise sizes or hosts_per_switch in the fabric file"
        )
    return spec.sizes, hosts, copies


@lru_cache(maxsize=1024)
def _smallest(
    name: str, room: tuple[int, int], dimensions: int, copies: int, hosts: int | None
) -> tuple[tuple[int, ...], int]:
    """Sizes and hosts of the HyperX with the fewest switches that keeps the whole rate.

    Of those with as many switches the one with the fewest dimensions, then links. A spec that says
    how many hosts a switch has may have more of them than the whole rate allows.
    """
    gpus, radix = room
    if dimensions > len(AXES):
        raise InputError(f"{name}: a HyperX has 1 to {len(AXES)} dimensions, got {dimensions}")
    if gpus <= (hosts or radix):
        return (1,), hosts or gpus
    grids: list[tuple[int, int, int, tuple[int, ...], int]] = []
    for per_switch in (hosts,) if hosts else range(1, radix):
        for count in range(1, dimensions + 1):
            for sizes in grids_near(ceil_div(gpus, per_switch), count, radix):
                full = bool(hosts) or all(copies * size >= per_switch for size in sizes)
                if full and per_switch + sum(copies * (size - 1) for size in sizes) <= radix:
                    grids.append((prod(sizes), count, sum(sizes), sizes, per_switch))
    if not grids:
        most = _most(radix, dimensions, copies, hosts)
        raise InputError(
            f"{name}: {counted(dimensions, 'dimension')} and radix {radix} hold at most"
            f" {most:,} GPUs at the rate of a port, got {gpus:,}: raise --radix, or dimensions in"
            " the fabric file"
        )
    *_, sizes, per_switch = min(grids)
    return sizes, ceil_div(gpus, prod(sizes)) if hosts is None else per_switch


def _most(radix: int, dimensions: int, copies: int, hosts: int | None) -> int:
    """GPUs of the largest HyperX of so many dimensions, as long as each other but for one [1].

    Examples
    --------
    Eleven hosts, 11 and 10 links: 12 x 11 switches.

    >>> _most(32, 2, 1, None)
    1452
    """
    held = 0
    for per_switch in (hosts,) if hosts else range(1, radix):
        steps, longer = divmod((radix - per_switch) // copies, dimensions)
        side = steps + 1
        if hosts or copies * side >= per_switch:
            held = max(held, per_switch * side ** (dimensions - longer) * (side + 1) ** longer)
    return held


def grids_near(needed: int, dimensions: int, most: int) -> Iterator[tuple[int, ...]]:
    """Grids near a cube that hold so many switches, two or more a side, sizes falling."""
    if dimensions == 1:
        if 1 < needed <= most:
            yield (needed,)
        return
    root = max(2, round(needed ** (1 / dimensions)))
    for side in range(max(2, root - 2), min(most, root + 2) + 1):
        for rest in grids_near(ceil_div(needed, side), dimensions - 1, most):
            yield tuple(sorted((*rest, side), reverse=True))
