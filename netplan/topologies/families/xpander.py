"""Xpander: groups of switches, every two groups joined by as many links as each has switches.

A lift of the complete graph: r + 1 groups (meta-nodes) of k switches, none of a group joined to
each other, each with one link to every other group. So a switch has r links, and the k cables
between two groups are one bundle. Which switch of a group is joined to which of another is drawn
for each pair of groups, by a seed; a draw in which the switches do not hang together is drawn
again. Random lifts are nearly as good expanders as graphs of the degree can be, with high
probability; mean distances are those of random graphs
(:mod:`netplan.topologies.families.regular`).

Source: Valadarsky, Shahaf, Dinitz and Schapira, Xpander: Towards Optimal-Performance Datacenters
(CoNEXT 2016, husant.github.io/Xpander). Left out: its derandomized lifts by two.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from netplan.arrays import AnyInts, ceil_div
from netplan.errors import InputError
from netplan.topologies.assembly import NameBlock
from netplan.topologies.families.joined_switches import joined_links
from netplan.topologies.families.regular import LEAST_DEGREE, Regular, Shape
from netplan.topologies.graph import LinkType, connected_parts
from netplan.units import counted


class Xpander(Regular, frozen=True, kw_only=True):
    """Groups of switches, every two joined by as many links as each has switches."""

    def laid(self, shape: Shape) -> tuple[NameBlock, LinkType, tuple[AnyInts, AnyInts], str]:
        """Names of the switches, links between them and their ends, and what they are in words.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.families.joined_switches import switch_graph
        >>> from netplan.topologies.specs import FABRICS
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
        >>> graph = switch_graph(FABRICS.load("xpander"), scenario.sizing)
        >>> graph.switches, graph.hosts, set(graph.degrees().tolist())
        (105, 10, {20})
        """
        groups, hosts = shape.degree + 1, counted(shape.hosts, "host")
        per_group = shape.switches // groups
        sentence = (
            f"{groups} groups of {counted(per_group, 'switch', 'switches')} of {hosts}, each with a"
            f" link to every other group, drawn by seed {self.seed}."
            if shape.degree
            else f"One switch of {hosts}."
        )
        ends = lifted_links(per_group, shape.degree, self.seed)
        names = NameBlock("group-{}/switch-{}", (groups, per_group))
        return names, joined_links("between groups"), ends, sentence

    def options(self, needed: int, ports: int) -> Iterator[tuple[int, int]]:
        """Switches and degree, whole groups of equal size; the most links first."""
        if self.switches and self.degree:
            groups = self.degree + 1
            if self.switches % groups:
                near = max(groups, groups * round(self.switches / groups))
                raise InputError(
                    f"{self.name}: degree {self.degree} makes {groups} groups of equally many"
                    f" switches, got {self.switches} switches: the nearest that work are {near}"
                )
            yield self.switches, self.degree
            return
        degrees = [self.degree] if self.degree else range(min(ports, needed - 1), 0, -1)
        divides = False
        for degree in degrees:
            if self.switches is None:
                yield ceil_div(needed, degree + 1) * (degree + 1), degree
            elif self.switches % (degree + 1) == 0 and degree >= LEAST_DEGREE:
                divides = True
                yield self.switches, degree
        if self.switches and not divides and ports >= LEAST_DEGREE:
            raise InputError(
                f"{self.name}: {self.switches} switches make no groups of equal size,"
                f" {LEAST_DEGREE + 1} to {ports + 1} of them: give switches with such a divisor"
            )


@lru_cache(maxsize=4)
def lifted_links(per_group: int, degree: int, seed: int) -> tuple[AnyInts, AnyInts]:
    """Ends of the links of a random lift of the complete graph, pair of groups by pair of groups.

    Examples
    --------
    Four groups of two: every switch has a link to each of the other three groups.

    >>> low, high = lifted_links(2, 3, seed=0)
    >>> np.bincount(np.concatenate((low, high))).tolist(), (low // 2).tolist()
    ([3, 3, 3, 3, 3, 3, 3, 3], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2])
    """
    rng = np.random.default_rng(seed)
    low_group, high_group = np.triu_indices(degree + 1, 1)
    low = np.add.outer(low_group * per_group, np.arange(per_group)).ravel()
    while True:
        drawn = rng.permuted(np.tile(np.arange(per_group), (len(low_group), 1)), axis=1)
        high = (high_group[:, None] * per_group + drawn).ravel()
        count = per_group * (degree + 1)
        if degree < LEAST_DEGREE or not connected_parts(count, low, high).any():
            return low, high
