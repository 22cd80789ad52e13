"""HyperX: switches on a grid, each joined to all others along every dimension.

Symbols: L dimensions of S_1 ... S_L switches, T hosts a switch, K_i links between two switches that
differ in coordinate i alone. A switch needs T + sum of K_i (S_i - 1) ports. Half of uniform traffic
crosses the middle of a dimension, (S_i/2)^2 K_i links a line against S_i T / 4 hosts each way, so
at full switches every port keeps its whole rate where K_i S_i >= T.

A spec that leaves its sizes out has the fewest switches S that keep this rule, with T = N / S and
K_i = T / S_i, both rounded up; of the grids of as many switches that with the fewest links, then
the fewest dimensions. Its GPUs are spread evenly over the switches, T or T - 1 on each, unless a
file says the hosts of a switch: then they fill them in order. Between switches of T a link carries
at most T^2 S / ((N - 1) K_i S_i) of a port's rate, so that of uniform traffic at least (N - 1) / (T
S) gets through; the notes say how much, link by link, where it is less than 99 %. The search goes
through all S from a lower bound on, and through all products of sizes that are S: fewer hosts a
switch never need more links, so that no other T or K can do with fewer switches.

Source: Ahn, Binkert, Davis, McLaren and Schreiber, HyperX: Topology, Routing, and Packaging of
Efficient Large-Scale Networks (SC 2009). A HyperX of one dimension is a full mesh of switches, of
two switches a side a hypercube.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, ceil_div
from netplan.errors import InputError
from netplan.records import PositiveInt, replace
from netplan.topologies.assembly import NameBlock
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.joined_switches import (
    JoinedSwitches,
    SwitchGraph,
    SwitchLinks,
    fewer_links_note,
    joined_links,
)
from netplan.topologies.graph import Medium
from netplan.topologies.specs import Dimensions
from netplan.units import counted

AXES = {1: (), 2: ("row",), 3: ("layer", "row"), 4: ("cube", "layer", "row")}
"""Names of all dimensions but the last, the slowest first."""


class HyperX(JoinedSwitches, frozen=True, kw_only=True):
    """Switches on a grid, of at most so many dimensions."""

    dimensions: Dimensions = 3
    sizes: tuple[PositiveInt, ...] | None = None
    hosts_per_switch: PositiveInt | None = None
    links_per_pair: PositiveInt | None = None
    host_medium: Medium | None = None

    def plane_graph(self, sizing: Sizing) -> SwitchGraph:
        """Its own sizes and hosts, else the fewest switches at the whole rate.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.specs import FABRICS
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
        >>> from netplan.topologies.families.joined_switches import switch_graph
        >>> graph = switch_graph(FABRICS.load("hyperx"), scenario.sizing)
        >>> graph.switches, graph.hosts, graph.shape_words
        (110, 10, '11 x 10 switches of 10 hosts, 1 link to each along a dimension.')
        """
        shape = _shape(self, sizing)
        sizes, hosts = shape.sizes, shape.hosts
        pattern = "/".join([*(f"{axis}-{{}}" for axis in AXES[len(sizes)]), "switch-{}"])
        switches = np.arange(prod(sizes), dtype=np.int64)
        links, stride = [], prod(sizes)
        for number, (size, copies) in enumerate(zip(sizes, shape.copies, strict=True), start=1):
            stride //= size
            if size > 1:
                pairs = (np.repeat(end, copies) for end in np.triu_indices(size, 1))
                start = switches[switches // stride % size == 0]
                ends = (np.add.outer(start, stride * end).ravel() for end in pairs)
                links.append(SwitchLinks(joined_links(f"dimension {number}", number), *ends))
        return SwitchGraph(
            (("switch", NameBlock(pattern, sizes)),),
            hosts,
            tuple(links),
            shape.shape_words,
            even=True,
            spread=self.hosts_per_switch is None,
        )

    def build(self, sizing: Sizing) -> Fabric:
        """Counts, levels and notes, and whether a few switches more spare links."""
        fabric = super().build(sizing)
        asked = fabric.sizing
        if self.sizes is not None or asked.gpus <= (self.hosts_per_switch or asked.radix):
            return fabric
        rule = _Rule(asked.radix, self.dimensions, self.hosts_per_switch, self.links_per_pair)

        def links_with(switches: int) -> int | None:
            shape = _grid(rule, asked.gpus, switches)
            return None if shape is None else shape.links

        more = fewer_links_note(fabric.switches // self.planes, asked.radix, links_with)
        return replace(fabric, notes=(*fabric.notes, *more))


class _Shape(Struct, frozen=True):
    """Sizes of the dimensions, hosts a switch, and links a pair along each dimension."""

    sizes: tuple[int, ...]
    hosts: int
    copies: tuple[int, ...]

    @property
    def links(self) -> int:
        """Links between switches [1]."""
        pairs = zip(self.sizes, self.copies, strict=True)
        return prod(self.sizes) * sum(copies * (size - 1) for size, copies in pairs) // 2

    @property
    def shape_words(self) -> str:
        """The shape in a sentence."""
        links = [counted(count, "link") for count in sorted(set(self.copies))]
        joined = f"{links[0]} to each along a dimension"
        if len(links) > 1:
            joined = f"{' and '.join(map(str, self.copies))} links to each along the dimensions"
        grid = " x ".join(map(str, self.sizes))
        return f"{grid} switches of {counted(self.hosts, 'host')}, {joined}."


def _shape(spec: HyperX, sizing: Sizing) -> _Shape:
    """Its own sizes and hosts, or the fewest switches."""
    if spec.sizes is None:
        return _smallest(spec, sizing.gpus, sizing.radix)
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
    return _Shape(spec.sizes, hosts, (spec.links_per_pair or 1,) * len(spec.sizes))


class _Rule(Struct, frozen=True):
    """What a HyperX may have: ports of a switch, dimensions, and what a file says of it."""

    radix: int
    dimensions: int
    hosts: int | None
    copies: int | None

    def links(self, hosts: int, sizes: AnyInts) -> AnyInts:
        """Ports of a switch that dimensions of these sizes take at least, shape of the sizes [1].

        So many links a pair that the rate of a port is kept; a file that says the hosts keeps none,
        one that says the links may be unable to, which takes more than all ports.
        """
        needed = -(-hosts // sizes)
        if self.hosts is not None or self.copies is not None:
            given = self.copies or 1
            short = self.hosts is None and given < needed
            needed = np.where((sizes > 1) & short, self.radix + 1, given)
        return needed * (sizes - 1)

    def most_switches(self, hosts: int) -> int:
        """Switches of the largest grid with so many hosts on each [1].

        The largest size for so many ports, then the largest product of two, three and four of them.

        Examples
        --------
        Eleven hosts, 11 and 10 links: 12 x 11 switches.

        >>> _Rule(32, 2, None, None).most_switches(11)
        132
        """
        room = self.radix - hosts
        if room < 0:
            return 0
        sizes = np.arange(1, room + 2)
        ports = self.links(hosts, sizes)
        largest = np.ones(room + 1, np.int64)
        fit = ports <= room
        np.maximum.at(largest, ports[fit], sizes[fit])
        largest = np.maximum.accumulate(largest)
        products = [np.ones_like(largest), largest]
        if self.dimensions > len(products):
            left = np.subtract.outer(np.arange(room + 1), np.arange(room + 1))
            products.append(np.where(left >= 0, largest[left] * largest, 0).max(axis=1))
        half = self.dimensions // 2
        return int((products[half] * products[self.dimensions - half][::-1]).max())


def _smallest(spec: HyperX, gpus: int, radix: int) -> _Shape:
    """The HyperX of a spec with the fewest switches that keeps the whole rate."""
    asked, dimensions = spec.hosts_per_switch, spec.dimensions
    if dimensions > len(AXES):
        raise InputError(f"{spec.name}: a HyperX has 1 to {len(AXES)} dimensions, got {dimensions}")
    if gpus <= (asked or radix):
        return _Shape((1,), asked or gpus, (spec.links_per_pair or 1,))
    rule = _Rule(radix, dimensions, asked, spec.links_per_pair)
    shape = _fewest(rule, gpus)
    if shape is None:
        most = max(hosts * rule.most_switches(hosts) for hosts in _hosts(rule))
        raise InputError(
            f"{spec.name}: {counted(dimensions, 'dimension')} and radix {radix} hold at most"
            f" {most:,} GPUs at the rate of a port, got {gpus:,}: raise --radix, or dimensions in"
            " the fabric file"
        )
    return shape


def _hosts(rule: _Rule) -> range:
    """Hosts that a switch may have, the most first."""
    return range(rule.hosts, rule.hosts - 1, -1) if rule.hosts else range(rule.radix - 1, 0, -1)


@lru_cache(maxsize=1024)
def _fewest(rule: _Rule, gpus: int) -> _Shape | None:
    """The grid with the fewest switches, then links, then dimensions; None if none holds the GPUs.

    No switch can have more hosts than leave room for a grid of as many switches as that takes.
    """
    most = next((t for t in _hosts(rule) if t * rule.most_switches(t) >= gpus), None)
    if most is None:
        return None
    switches = ceil_div(gpus, most)
    while True:
        shape = _grid(rule, gpus, switches)
        if shape is not None:
            return shape
        switches += 1


def _grid(rule: _Rule, gpus: int, switches: int) -> _Shape | None:
    """The grid of so many switches with the fewest links, then dimensions; None if none will do."""
    hosts = rule.hosts or ceil_div(gpus, switches)
    if rule.radix <= hosts:
        return None
    ports = rule.links(hosts, np.arange(1, rule.radix + 2)).tolist()
    shapes = [
        (sum(ports[size - 1] for size in sizes), len(sizes), sizes)
        for sizes in _factors(switches, rule.dimensions, rule.radix)
    ]
    used, _, sizes = min(shapes, default=(rule.radix, 0, ()))
    if hosts + used > rule.radix:
        return None
    return _Shape(sizes, hosts, tuple(ports[size - 1] // (size - 1) for size in sizes))


def _factors(number: int, count: int, most: int) -> Iterator[tuple[int, ...]]:
    """Products of at most so many sizes of 2 or more that are a number, sizes falling.

    Examples
    --------
    >>> list(_factors(24, 3, 12))
    [(12, 2), (8, 3), (6, 4), (6, 2, 2), (4, 3, 2)]
    """
    if 1 < number <= most:
        yield (number,)
    if count > 1:
        for size in range(min(most, number // 2), 1, -1):
            if size**count < number:
                break
            if number % size == 0:
                for rest in _factors(number // size, count - 1, size):
                    yield (size, *rest)
