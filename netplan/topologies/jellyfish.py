"""Jellyfish: switches joined at random, each with equally many links to others.

Symbols: n switches of r links to others and T hosts. In a random graph of this degree the share of
switches further away than j hops is about exp(-r ((r-1)^j - 1) / ((r-2) n)), whose sum over j from
0 on is the mean distance d; uniform traffic keeps the rate of a port where T d <= r.

A seed makes the graph: ends of links are paired at random, and pairs that join a switch to itself
or repeat a link swap ends with others until none is left; of dense graphs the links that are *not*
there are drawn so. A draw in which the switches do not hang together is drawn again.

Source: Singla, Hong, Popa and Godfrey, Jellyfish: Networking Data Centers Randomly (NSDI 2012).
Graphs of low degree that are drawn at random are expanders with high probability.
"""

from functools import lru_cache
from math import exp

import numpy as np

from netplan.arrays import AnyInts, Ints
from netplan.errors import InputError
from netplan.topologies.assembly import NameBlock
from netplan.topologies.clos import ceil_div
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import connected_parts
from netplan.topologies.specs import FabricSpec
from netplan.topologies.switch_graph import SwitchGraph, SwitchLinks, require_ports
from netplan.units import counted

LEAST_DEGREE = 3
"""Links a switch below which a random graph falls into parts, or is a ring [1]."""
NEGLIGIBLE = 1e-9


def jellyfish(spec: FabricSpec, sizing: Sizing) -> SwitchGraph:
    """Jellyfish of a spec: its own switches, degree and hosts, else the fewest at the whole rate.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = jellyfish(FABRICS.load("jellyfish"), Sizing(1024, 32, 8, 450e9, 50e9))
    >>> graph.switches, graph.hosts, set(graph.degrees().tolist())
    (94, 11, {21})
    """
    switches, degree, hosts = _shape(spec, sizing)
    ends = random_links(switches, degree, spec.seed)
    links = (SwitchLinks("between switches", *ends),) if degree else ()
    said = (
        f"{counted(switches, 'switch', 'switches')} of {counted(hosts, 'host')}, each with"
        f" {counted(degree, 'link')} to others at random (seed {spec.seed})."
    )
    names = NameBlock("switch-{}", (switches,))
    graph = SwitchGraph((("switch", names),), hosts, links, said)
    return require_ports(spec.name, graph, sizing.radix)


def _shape(spec: FabricSpec, sizing: Sizing) -> tuple[int, int, int]:
    """Switches, links of each to others, and hosts of each."""
    gpus, radix = sizing.gpus, sizing.radix
    if gpus <= radix and not (spec.switches or spec.degree or spec.hosts_per_switch):
        return 1, 0, gpus
    tried = [spec.hosts_per_switch] if spec.hosts_per_switch else range(radix - LEAST_DEGREE, 0, -1)
    for hosts in tried:
        switches = spec.switches or ceil_div(gpus, hosts)
        degree = spec.degree or min(radix - hosts, switches - 1)
        if switches * degree % 2:
            degree, switches = _even(spec, switches, degree)
        fixed = bool(spec.hosts_per_switch) or bool(spec.degree and spec.degree + hosts <= radix)
        if switches * hosts < gpus:
            continue
        if fixed or (degree >= 1 and hosts * mean_distance(switches, degree) <= degree):
            return _possible(spec.name, switches, degree), degree, hosts
    most = max((spec.switches or 0) * max(tried, default=0), 0)
    held = f" holds at most {most:,} GPUs" if most and most < gpus else " has no whole rate"
    raise InputError(
        f"{spec.name} of radix {radix}{held} for {gpus:,} GPUs: raise --radix, or give"
        " hosts_per_switch and switches in the fabric file"
    )


def _even(spec: FabricSpec, switches: int, degree: int) -> tuple[int, int]:
    """Degree and switches whose product is even: a link has two ends."""
    if spec.degree is None:
        return degree - 1, switches
    if spec.switches is None:
        return degree, switches + 1
    raise InputError(
        f"{spec.name}: {switches} switches of {degree} links have {switches * degree:,} ends, which"
        f" is odd: the nearest that work are {switches + 1} switches, or degree {degree - 1}"
    )


def _possible(name: str, switches: int, degree: int) -> int:
    """The switches, if so many can have so many links to others."""
    if degree >= switches:
        raise InputError(
            f"{name}: {switches} switches have at most {switches - 1} links each to others, got"
            f" degree {degree}: lower degree, or raise switches in the fabric file"
        )
    if degree < min(LEAST_DEGREE, switches - 1):
        raise InputError(
            f"{name}: a random graph of degree {degree} does not hang together: give degree"
            f" {LEAST_DEGREE} or more"
        )
    return switches


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
    share, found = 1 - degree / (switches - 1), 1.0
    reached = layer = degree
    while share > NEGLIGIBLE and degree > 1:
        found += share
        layer *= degree - 1
        reached += layer
        share = exp(-reached / switches)
    return found


@lru_cache(maxsize=4)
def random_links(switches: int, degree: int, seed: int) -> tuple[AnyInts, AnyInts]:
    """Ends of the links of a random graph, each switch with equally many, in rising order.

    Examples
    --------
    >>> low, high = random_links(10, 3, seed=1)
    >>> np.bincount(np.concatenate((low, high))).tolist()
    [3, 3, 3, 3, 3, 3, 3, 3, 3, 3]
    """
    generator = np.random.default_rng(seed)
    dense = degree > (switches - 1) // 2
    while True:
        code = _drawn(switches, switches - 1 - degree if dense else degree, generator)
        if dense:
            low, high = np.triu_indices(switches, 1)
            code = np.setdiff1d(low * np.int64(switches) + high, code)
        low, high = np.divmod(np.sort(code), switches)
        if degree < LEAST_DEGREE or not connected_parts(switches, low, high).any():
            return low, high


def _drawn(switches: int, degree: int, generator: np.random.Generator) -> Ints:
    """Links of a graph of this degree as low * switches + high, shape (links,), none twice."""
    if not degree:
        return np.empty(0, np.int64)
    ends = generator.permutation(np.repeat(np.arange(switches), degree)).reshape(-1, 2)
    low, high = ends.min(axis=1), ends.max(axis=1)
    code = low * np.int64(switches) + high
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    bad = np.flatnonzero((low == high) | (first[place] != np.arange(len(code))))
    pairs, there = [*zip(low.tolist(), high.tolist(), strict=True)], set(code.tolist())
    waiting = bad.tolist()
    spoilt = set(waiting)
    while waiting:
        one, other = waiting[-1], int(generator.integers(len(pairs)))
        if other in spoilt:
            if len(spoilt) == len(pairs):
                return _drawn(switches, degree, generator)
            continue
        (a, b), (c, d) = pairs[one], pairs[other]
        if generator.integers(2):
            c, d = d, c
        new = [(min(pair), max(pair)) for pair in ((a, c), (b, d))]
        codes = [x * switches + y for x, y in new]
        if any(x == y for x, y in new) or codes[0] == codes[1] or not there.isdisjoint(codes):
            continue
        old = pairs[other]
        there.discard(old[0] * switches + old[1])
        there.update(codes)
        pairs[one], pairs[other] = new
        spoilt.discard(waiting.pop())
    return np.array([x * switches + y for x, y in pairs], np.int64)
