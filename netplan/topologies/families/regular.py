"""Networks of switches with equally many links each: how many switches, links and hosts.

Symbols: n switches of r links to others and T hosts, d the mean distance of two switches. All links
together carry n r in each direction, and uniform traffic takes d (1 - 1/n) of them a host, so every
port keeps its whole rate where T d <= r. A family says which n and r go together, and how far apart
two switches are expected to be; here follows the fewest switches at the whole rate.
"""

from collections.abc import Iterable
from math import exp

from msgspec import Struct

from netplan.arrays import AnyInts, ceil_div
from netplan.errors import InputError
from netplan.records import NonNegativeInt, PositiveInt
from netplan.topologies.assembly import NameBlock
from netplan.topologies.fabric import MAX_GPUS, Sizing
from netplan.topologies.families.joined_switches import JoinedSwitches, SwitchGraph, SwitchLinks
from netplan.topologies.graph import LinkType, Medium

LEAST_DEGREE, NEGLIGIBLE = 3, 1e-9
"""Links a switch below which a graph falls into parts, or is a ring [1]."""


class Shape(Struct, frozen=True):
    """Switches, links of each to others, and hosts of each [1]."""

    switches: int
    degree: int
    hosts: int


class Regular(JoinedSwitches, frozen=True, kw_only=True):
    """Switches with equally many links each, as many as a file says."""

    hosts_per_switch: PositiveInt | None = None
    host_medium: Medium | None = None
    degree: PositiveInt | None = None  # links of a switch to others
    switches: PositiveInt | None = None
    seed: NonNegativeInt = 0  # draw of the graph

    def options(self, needed: int, ports: int) -> Iterable[tuple[int, int]]:
        """Pairs of switches and degree that hold so many switches, each with at most so many links.

        Those of the file, if it has them; a product is even, since a link has two ends.

        Examples
        --------
        >>> from netplan.topologies.specs import FABRICS
        >>> spec = FABRICS.load("jellyfish")
        >>> spec.options(13, 5), spec.changed(degree=5).options(13, 5)
        ([(13, 4)], [(14, 5)])
        """
        switches = self.switches or needed
        degree = self.degree or min(ports, switches - 1)
        if switches * degree % 2 == 0:
            return [(switches, degree)]
        if self.degree is None:
            return [(switches, degree - 1)]
        if self.switches is None:
            return [(switches + 1, degree)]
        raise InputError(
            f"{self.name}: {switches} switches of {degree} links have {switches * degree:,} ends,"
            f" which is odd: the nearest that work are {switches + 1} switches, or degree"
            f" {degree - 1}"
        )

    def mean_distance(self, switches: int, degree: int) -> float:
        """Mean distance of two switches as it is expected [1]."""
        return mean_distance(switches, degree)

    def laid(self, shape: Shape) -> tuple[NameBlock, LinkType, tuple[AnyInts, AnyInts], str]:
        """Names of the switches, links between them and their ends, and what they are in words."""
        raise NotImplementedError

    def plane_graph(self, sizing: Sizing) -> SwitchGraph:
        """Its own switches, degree and hosts, else the fewest switches at the whole rate."""
        shape = self.shape(sizing)
        names, kind, ends, sentence = self.laid(shape)
        links = (SwitchLinks(kind, *ends),) if shape.degree else ()
        return SwitchGraph((("switch", names),), shape.hosts, links, sentence)

    def shape(self, sizing: Sizing) -> Shape:
        """Its own switches, degree and hosts, else the fewest at the whole rate.

        Raises
        ------
        InputError
            If there is none; the message says what to change.
        """
        gpus, radix = sizing.gpus, sizing.radix
        refuse_many_switches(self.name, self.switches or 0)
        if gpus <= radix and not (self.switches or self.degree or self.hosts_per_switch):
            return Shape(1, 0, gpus)
        best: Shape | None = None
        given = self.hosts_per_switch
        tried = [given] if given else range(radix - LEAST_DEGREE, 0, -1)
        for hosts in tried:
            needed = ceil_div(gpus, hosts)
            if best and needed >= best.switches:
                break
            ports = radix - hosts
            for switches, degree in self.options(needed, ports):
                fixed = bool(given) or bool(self.degree and degree <= ports)
                if switches * hosts < gpus or (best and switches >= best.switches):
                    continue
                if fixed or (
                    degree >= 1 and hosts * self.mean_distance(switches, degree) <= degree
                ):
                    best = Shape(switches, degree, hosts)
        if best:
            return _possible(self.name, best)
        most = (self.switches or 0) * max(tried, default=0)
        held = f" holds at most {most:,} GPUs" if most and most < gpus else " has no whole rate"
        raise InputError(
            f"{self.name}: radix {radix}{held} for {gpus:,} GPUs: raise --radix, or give"
            " hosts_per_switch and switches in the fabric file"
        )


def refuse_many_switches(name: str, switches: int) -> None:
    """Refuse more switches than netplan plans GPUs; InputError."""
    if switches > MAX_GPUS:
        raise InputError(
            f"{name}: {switches:,} switches are more than {MAX_GPUS:,}: lower switches, or strides,"
            " in the fabric file"
        )


def _possible(name: str, shape: Shape) -> Shape:
    """The shape, if so many switches can have so many links to others."""
    switches, degree = shape.switches, shape.degree
    if degree >= switches:
        raise InputError(
            f"{name}: {switches} switches have at most {switches - 1} links each to others, got"
            f" degree {degree}: lower degree, or raise switches in the fabric file"
        )
    refuse_rings(name, switches, degree)
    return shape


def refuse_rings(name: str, nodes: int, degree: int) -> None:
    """Refuse fewer links of each node than make a graph that is no ring; InputError."""
    if degree < min(LEAST_DEGREE, nodes - 1):
        raise InputError(
            f"{name}: a graph of degree {degree} does not hang together, or is a ring: give degree"
            f" {LEAST_DEGREE} or more"
        )


def mean_distance(switches: int, degree: int) -> float:
    """Mean distance of two switches in a random graph, as it is expected [1].

    Examples
    --------
    3,200 switches of 36 links: 36 of them one hop away, a third two, the rest three.

    >>> round(mean_distance(3200, 36), 3), mean_distance(8, 7)
    (2.656, 1.0)
    """
    if degree >= switches - 1:
        return 1.0
    # The neighbours are known; what lies beyond them is thinned out by chance.
    share, mean = 1 - degree / (switches - 1), 1.0
    reached = layer = degree
    while share > NEGLIGIBLE and degree > 1:
        mean += share
        layer *= degree - 1
        reached += layer
        share = exp(-reached / switches)
    return mean
