"""Xpander: groups of switches, every two groups joined by as many links as each has switches.

A lift of the complete graph: r + 1 groups (meta-nodes) of k switches, none of a group joined to
each other, each with one link to every other group. So a switch has r links, and the k cables
between two groups are one bundle. Which switch of a group is joined to which of another is drawn
for each pair of groups, by a seed; a draw in which the switches do not hang together is drawn
again. Random lifts are nearly as good expanders as graphs of the degree can be, with high
probability; mean distances are those of random graphs
(:mod:`netplan.topologies.families.jellyfish`).

Source: Valadarsky, Shahaf, Dinitz and Schapira, Xpander: Towards Optimal-Performance Datacenters
(CoNEXT 2016, husant.github.io/Xpander). Left out: its derandomized lifts by two.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from netplan.arrays import AnyInts
from netplan.errors import InputError
from netplan.topologies.assembly import NameBlock
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.clos import ceil_div
from netplan.topologies.families.jellyfish import mean_distance
from netplan.topologies.families.joined_switches import SwitchGraph, SwitchLinks, joined_links
from netplan.topologies.families.regular import LEAST_DEGREE, Regular, RegularFamily, regular_shape
from netplan.topologies.graph import connected_parts
from netplan.units import counted


class Xpander(Regular, frozen=True, kw_only=True):
    """Groups of switches, every two joined by as many links as each has switches."""

    def plane_graph(self, sizing: Sizing) -> SwitchGraph:
        """Its own switches, degree and hosts, else the fewest at the whole rate.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.specs import FABRICS
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
        >>> from netplan.topologies.families.joined_switches import switch_graph
        >>> graph = switch_graph(FABRICS.load("xpander"), scenario.sizing)
        >>> graph.switches, graph.hosts, set(graph.degrees().tolist())
        (105, 10, {20})
        """
        shape = regular_shape(self, sizing, LIFTS)
        groups = shape.degree + 1
        each = shape.switches // groups
        ends = lifted_links(each, shape.degree, self.seed)
        links = (SwitchLinks(joined_links("between groups"), *ends),)
        said = (
            f"{groups} groups of {counted(each, 'switch', 'switches')} of"
            f" {counted(shape.hosts, 'host')}, each with a link to every other group, drawn by seed"
            f" {self.seed}."
            if shape.degree
            else f"One switch of {counted(shape.hosts, 'host')}."
        )
        names = NameBlock("group-{}/switch-{}", (groups, each))
        return SwitchGraph((("switch", names),), shape.hosts, links if shape.degree else (), said)


def _options(spec: Regular, needed: int, ports: int) -> Iterator[tuple[int, int]]:
    """Switches and degree, whole groups of equal size; the most links first."""
    if spec.switches and spec.degree:
        groups = spec.degree + 1
        if spec.switches % groups:
            near = max(groups, groups * round(spec.switches / groups))
            raise InputError(
                f"{spec.name}: degree {spec.degree} makes {groups} groups of equally many switches,"
                f" got {spec.switches} switches: the nearest that work are {near}"
            )
        yield spec.switches, spec.degree
        return
    degrees = [spec.degree] if spec.degree else range(min(ports, needed - 1), 0, -1)
    found = False
    for degree in degrees:
        if spec.switches is None:
            yield ceil_div(needed, degree + 1) * (degree + 1), degree
        elif spec.switches % (degree + 1) == 0 and degree >= LEAST_DEGREE:
            found = True
            yield spec.switches, degree
    if spec.switches and not found and ports >= LEAST_DEGREE:
        raise InputError(
            f"{spec.name}: {spec.switches} switches make no groups of equal size,"
            f" {LEAST_DEGREE + 1} to {ports + 1} of them: give switches with such a divisor"
        )


@lru_cache(maxsize=4)
def lifted_links(each: int, degree: int, seed: int) -> tuple[AnyInts, AnyInts]:
    """Ends of the links of a random lift of the complete graph, pair of groups by pair of groups.

    Examples
    --------
    Four groups of two: every switch has a link to each of the other three groups.

    >>> low, high = lifted_links(2, 3, seed=0)
    >>> np.bincount(np.concatenate((low, high))).tolist(), (low // 2).tolist()
    ([3, 3, 3, 3, 3, 3, 3, 3], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2])
    """
    rng = np.random.default_rng(seed)
    one, other = np.triu_indices(degree + 1, 1)
    low = np.add.outer(one * each, np.arange(each)).ravel()
    while True:
        drawn = rng.permuted(np.tile(np.arange(each), (len(one), 1)), axis=1)
        high = (other[:, None] * each + drawn).ravel()
        count = each * (degree + 1)
        if degree < LEAST_DEGREE or not connected_parts(count, low, high).any():
            return low, high


LIFTS = RegularFamily(_options, mean_distance)
