"""GPUs joined directly, in a circle with strides or at random: the same graph on every rail.

Nodes are HB domains (single GPUs where these are 1); GPUs of equal rank are joined as the domains
are. A domain that is filled in part lacks the links of ranks that it has not. Graphs are those of
:mod:`netplan.topologies.families.circulant` and :mod:`netplan.topologies.families.jellyfish`; GPUs
forward what is bound for others. Counts, levels and routing are those of any graph
(:mod:`netplan.topologies.own.graph_fabric`): the rate of a level is that of traffic that is spread
evenly and of rings, whatever the worst of them gets. Left out: schedules that use all links at
once, as rings over every stride do; the optimum that `netplan loads` prints is theirs.
"""

import numpy as np

from netplan.arrays import AnyInts
from netplan.errors import InputError
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired, assemble
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.circulant import circulant_links, circulant_strides, strides_degree
from netplan.topologies.families.jellyfish import random_links
from netplan.topologies.families.joined_switches import ports_in_order
from netplan.topologies.families.regular import LEAST_DEGREE
from netplan.topologies.graph import GPU, HALL, FabricGraph, LinkType
from netplan.topologies.specs import FabricSpec

DIRECT_LINKS = LinkType("direct", "direct")
USUAL_DEGREE = 6
"""Links of a GPU if nobody says how many: those of one in a 3D torus [1]."""


def direct_degree(spec: FabricSpec, sizing: Sizing) -> int:
    """Network links of a GPU [1].

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> spec = FABRICS.load("direct-random")
    >>> [direct_degree(spec, Sizing(gpus, 64, 8, 450e9, 50e9)) for gpus in (512, 40, 8)]
    [6, 4, 0]
    """
    domains = sizing.domains
    if spec.strides:
        _require_strides(spec, sizing)
        return strides_degree(spec, domains, "HB domains")
    degree = min(spec.degree or USUAL_DEGREE, domains - 1)
    if spec.degree and (spec.degree > domains - 1 or spec.degree * domains % 2):
        nearest = min(degree, domains - 1)
        nearest -= nearest * domains % 2
        raise InputError(
            f"{spec.name}: {domains:,} HB domains cannot have {spec.degree} links each to others:"
            f" the nearest degree that works is {nearest}"
        )
    if spec.degree and spec.degree < min(LEAST_DEGREE, domains - 1):
        raise InputError(
            f"{spec.name}: a graph of degree {degree} does not hang together, or is a ring: give"
            f" degree {LEAST_DEGREE} or more"
        )
    return degree - degree * domains % 2


def _require_strides(spec: FabricSpec, sizing: Sizing) -> None:
    """Refuse strides of a spec that do not join all HB domains; InputError."""
    strides, domains = spec.strides or (), sizing.domains
    told = ", ".join(map(str, strides))
    if len(set(strides)) < len(strides) or 2 * max(strides) > domains:
        raise InputError(
            f"{spec.name}: strides are different and at most half of the {domains:,} HB domains,"
            f" got {told}: lower them, or take more GPUs"
        )
    common = int(np.gcd.reduce((domains, *strides)))
    if common > 1:
        raise InputError(
            f"{spec.name}: {domains:,} HB domains and strides {told} share the divisor {common}, so"
            " that the circle falls into parts: make one of the strides 1"
        )


def direct_ends(spec: FabricSpec, sizing: Sizing) -> tuple[AnyInts, AnyInts]:
    """HB domains at both ends of each link of a rail."""
    domains, degree = sizing.domains, direct_degree(spec, sizing)
    if spec.family == "direct-random":
        return random_links(domains, degree, spec.seed)
    strides = spec.strides or circulant_strides(domains, degree, spec.seed)
    return circulant_links(domains, strides)


def direct_graph(spec: FabricSpec, sizing: Sizing) -> FabricGraph:
    """The graph of all GPUs, without links inside HB domains.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.specs import FABRICS
    >>> spec = FABRICS.load("direct-circulant").changed(strides=(1, 3))
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=20, radix=64, hb_size=2)
    >>> graph = direct_graph(spec, scenario.sizing)
    >>> graph.links_per_group(), sorted(graph.target[graph.source == 0].tolist())
    ({'direct': 40}, [2, 6, 14, 18])
    """
    gpus, size = sizing.gpus, sizing.hb_size
    low, high = direct_ends(spec, sizing)
    rank = np.arange(size)
    source, target = (np.add.outer(end * size, rank).ravel() for end in (low, high))
    there = (source < gpus) & (target < gpus)
    source, target = source[there].astype(np.int32), target[there].astype(np.int32)
    ports = ports_in_order(source, target, np.zeros(gpus, np.int32))
    links = Links(DIRECT_LINKS, source, target, *ports, sizing.network_bytes_per_s, HALL)
    wired = Wired((Nodes(GPU, 0, NameBlock("gpu-{}", (gpus,))),), (links,) if len(source) else ())
    return assemble(spec.name, gpus, size, (wired,))
