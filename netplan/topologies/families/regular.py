"""Networks of switches with equally many links each: how many switches, links and hosts.

Symbols: n switches of r links to others and T hosts, d the mean distance of two switches. All links
together carry n r in each direction, and uniform traffic takes d (1 - 1/n) of them a host, so every
port keeps its whole rate where T d <= r. A family says which n and r go together, and how far apart
two switches are expected to be; here follows the fewest switches at the whole rate.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from netplan.errors import InputError
from netplan.records import NonNegativeInt, PositiveInt
from netplan.topologies.fabric import MAX_GPUS, Sizing
from netplan.topologies.families.clos import ceil_div
from netplan.topologies.families.joined_switches import JoinedSwitches
from netplan.topologies.graph import Medium

LEAST_DEGREE = 3
"""Links a switch below which a graph falls into parts, or is a ring [1]."""


class Regular(JoinedSwitches, frozen=True, kw_only=True):
    """Switches with equally many links each, as many as a file says."""

    planes: PositiveInt = 1  # each GPU's port split into as many, one to each plane
    hosts_per_switch: PositiveInt | None = None
    host_medium: Medium = "optical"
    degree: PositiveInt | None = None  # links of a switch to others
    switches: PositiveInt | None = None
    seed: NonNegativeInt = 0  # draw of the graph


class Shape(Struct, frozen=True):
    """Switches, links of each to others, and hosts of each [1]."""

    switches: int
    degree: int
    hosts: int


class RegularFamily(Struct, frozen=True):
    """What a family of regular graphs can be.

    Parameters
    ----------
    options
        Pairs of switches and degree that hold at least so many switches, each with at most so many
        links to others, those of the spec if it has them.
    mean_distance
        Mean distance of two switches as it is expected, by switches and degree [1].
    """

    options: Callable[[Any, int, int], Iterable[tuple[int, int]]]
    mean_distance: Callable[[int, int], float]


def regular_shape(spec: Regular, sizing: Sizing, family: RegularFamily) -> Shape:
    """Shape of a spec: its own switches, degree and hosts, else the fewest at the whole rate.

    Raises
    ------
    InputError
        If there is none; the message says what to change.
    """
    gpus, radix = sizing.gpus, sizing.radix
    refuse_many_switches(spec.name, spec.switches or 0)
    if gpus <= radix and not (spec.switches or spec.degree or spec.hosts_per_switch):
        return Shape(1, 0, gpus)
    best: Shape | None = None
    given = spec.hosts_per_switch
    tried = [given] if given else range(radix - LEAST_DEGREE, 0, -1)
    for hosts in tried:
        needed = ceil_div(gpus, hosts)
        if best and needed >= best.switches:
            break
        ports = radix - hosts
        for switches, degree in family.options(spec, needed, ports):
            fixed = bool(given) or bool(spec.degree and degree <= ports)
            if switches * hosts < gpus or (best and switches >= best.switches):
                continue
            if fixed or (degree >= 1 and hosts * family.mean_distance(switches, degree) <= degree):
                best = Shape(switches, degree, hosts)
    if best:
        return _possible(spec.name, best)
    most = (spec.switches or 0) * max(tried, default=0)
    held = f" holds at most {most:,} GPUs" if most and most < gpus else " has no whole rate"
    raise InputError(
        f"{spec.name}: radix {radix}{held} for {gpus:,} GPUs: raise --radix, or give"
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
    if degree < min(LEAST_DEGREE, switches - 1):
        raise InputError(
            f"{name}: a graph of degree {degree} does not hang together, or is a ring: give degree"
            f" {LEAST_DEGREE} or more"
        )
    return shape


def even_ends(spec: Regular, needed: int, ports: int) -> list[tuple[int, int]]:
    """Switches and degree whose product is even, since a link has two ends.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> spec = FABRICS.load("jellyfish")
    >>> even_ends(spec, 13, 5), even_ends(spec.changed(degree=5), 13, 5)
    ([(13, 4)], [(14, 5)])
    """
    switches = spec.switches or needed
    degree = spec.degree or min(ports, switches - 1)
    if switches * degree % 2 == 0:
        return [(switches, degree)]
    if spec.degree is None:
        return [(switches, degree - 1)]
    if spec.switches is None:
        return [(switches + 1, degree)]
    raise InputError(
        f"{spec.name}: {switches} switches of {degree} links have {switches * degree:,} ends, which"
        f" is odd: the nearest that work are {switches + 1} switches, or degree {degree - 1}"
    )
