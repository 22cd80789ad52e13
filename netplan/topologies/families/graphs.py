"""Fabrics that follow from a graph: of a file or a function, or of GPUs that are joined directly.

The latter are joined in a circle with strides or at random, the same on every rail: nodes are HB
domains (single GPUs where these are 1); GPUs of equal rank are joined as the domains are. A domain
that is filled in part lacks the links of ranks that it has not. Graphs are those of
:mod:`netplan.topologies.families.circulant` and :mod:`netplan.topologies.families.jellyfish`; GPUs
forward what is bound for others. Counts, levels and routing are those of any graph
(:mod:`netplan.topologies.own.graph_fabric`): the rate of a level is that of traffic that is spread
evenly and of rings, whatever the worst of them gets. Left out: schedules that use all links at
once, as rings over every stride do; the optimum that `netplan loads` prints is theirs.
"""

from typing import ClassVar

import numpy as np

from netplan.arrays import AnyInts
from netplan.errors import InputError
from netplan.records import NonNegativeInt, PositiveInt
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired, assemble
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.circulant import circulant_links, circulant_strides, strides_degree
from netplan.topologies.families.jellyfish import random_links
from netplan.topologies.families.joined_switches import ports_in_order
from netplan.topologies.families.regular import refuse_rings
from netplan.topologies.graph import DIRECT_LINKS, GPU, HALL, FabricGraph
from netplan.topologies.specs import HB_KEYS, FabricSpec

USUAL_DEGREE = 6
"""Links of a GPU if nobody says how many: those of one in a 3D torus [1]."""


class GraphFamily(FabricSpec, frozen=True, kw_only=True):
    """Fabrics whose counts and levels are those of a graph."""

    unread = HB_KEYS
    own_graph: ClassVar[bool] = True

    def build(self, sizing: Sizing) -> Fabric:
        """Counts, levels and notes of a fabric from a graph.

        Raises
        ------
        InputError
            If the graph holds fewer GPUs, a switch needs more ports than the radix, or what the
            network joins are neither all GPUs nor those of a rail.
        """
        # Sets of fabrics have some of these, few of which are ever built.
        from netplan.topologies.own.graph_fabric import build_graph_fabric  # noqa: PLC0415

        return build_graph_fabric(self, sizing)


class OwnGraph(GraphFamily, frozen=True, kw_only=True):
    """The graph of a file, or what a function makes."""

    unread = (*HB_KEYS, "link_bytes_per_s")
    # GraphML, edge list, .topo or ibnetdiscover output, beside the fabric file or below
    file: str = ""
    stamp: tuple[int, ...] = ()  # of the file or function as it was read; no key of a file

    def whole_graph(self, sizing: Sizing) -> FabricGraph:
        """The graph as its file or function has it, GPUs of an HB domain one after the other."""
        from netplan.topologies.own import own_graph  # noqa: PLC0415 - as above

        if self.file:
            return own_graph.graph_from_file(self.file, self.stamp, self.hb_size, sizing.hb_size)
        return own_graph.graph_from_function(self.name, sizing)


class DirectGraph(GraphFamily, frozen=True, kw_only=True):
    """HB domains joined in one way on every rail."""

    rails_alike: ClassVar[bool] = True
    switchless: ClassVar[bool] = True
    several_ports: ClassVar[bool] = True
    degree: PositiveInt | None = None  # links of a GPU to others
    seed: NonNegativeInt = 0  # draw of the graph

    def ports(self, sizing: Sizing) -> int:
        """Network links of a GPU [1].

        Examples
        --------
        >>> from netplan.topologies.specs import FABRICS
        >>> spec = FABRICS.load("direct-random")
        >>> [spec.ports(Sizing(gpus, 64, 8, 450e9, 50e9)) for gpus in (512, 40, 8)]
        [6, 4, 0]
        """
        domains = sizing.domains
        degree = min(self.degree or USUAL_DEGREE, domains - 1)
        if self.degree and (self.degree > domains - 1 or self.degree * domains % 2):
            nearest = min(degree, domains - 1)
            nearest -= nearest * domains % 2
            raise InputError(
                f"{self.name}: {domains:,} HB domains cannot have {self.degree} links each to"
                f" others: the nearest degree that works is {nearest}"
            )
        if self.degree:
            refuse_rings(self.name, domains, degree)
        return degree - degree * domains % 2

    def ends(self, sizing: Sizing) -> tuple[AnyInts, AnyInts]:
        """HB domains at both ends of each link of a rail."""
        raise NotImplementedError

    def whole_graph(self, sizing: Sizing) -> FabricGraph:
        """The graph of all GPUs, without links inside HB domains.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.specs import FABRICS
        >>> spec = FABRICS.load("direct-circulant").changed(strides=(1, 3))
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=20, radix=64, hb_size=2)
        >>> graph = spec.whole_graph(scenario.sizing)
        >>> graph.links_per_group(), sorted(graph.target[graph.source == 0].tolist())
        ({'direct': 40}, [2, 6, 14, 18])
        """
        gpus, size = sizing.gpus, sizing.hb_size
        low, high = self.ends(sizing)
        rank = np.arange(size)
        source, target = (np.add.outer(end * size, rank).ravel() for end in (low, high))
        there = (source < gpus) & (target < gpus)
        source, target = source[there].astype(np.int32), target[there].astype(np.int32)
        ports = ports_in_order(source, target, np.zeros(gpus, np.int32))
        links = Links(DIRECT_LINKS, source, target, *ports, sizing.network_bytes_per_s, HALL)
        wired = Wired(
            (Nodes(GPU, 0, NameBlock("gpu-{}", (gpus,))),), (links,) if len(source) else ()
        )
        return assemble(self.name, gpus, size, (wired,))


class DirectRandom(DirectGraph, frozen=True, kw_only=True):
    """HB domains joined at random."""

    def ends(self, sizing: Sizing) -> tuple[AnyInts, AnyInts]:
        """HB domains at both ends of each link of a rail."""
        return random_links(sizing.domains, self.ports(sizing), self.seed)


class DirectCirculant(DirectGraph, frozen=True, kw_only=True):
    """HB domains in a circle."""

    strides: tuple[PositiveInt, ...] | None = None  # places between joined ones, instead of a draw

    def ports(self, sizing: Sizing) -> int:
        """Network links of a GPU [1]."""
        if not self.strides:
            return super().ports(sizing)
        _require_strides(self, sizing)
        return strides_degree(self.name, (self.strides, self.degree), sizing.domains, "HB domains")

    def ends(self, sizing: Sizing) -> tuple[AnyInts, AnyInts]:
        """HB domains at both ends of each link of a rail."""
        degree = self.ports(sizing)
        strides = self.strides or circulant_strides(sizing.domains, degree, self.seed)
        return circulant_links(sizing.domains, strides)


def _require_strides(spec: DirectCirculant, sizing: Sizing) -> None:
    """Refuse strides of a spec that do not join all HB domains; InputError."""
    strides, domains = spec.strides or (), sizing.domains
    listed = ", ".join(map(str, strides))
    if len(set(strides)) < len(strides) or 2 * max(strides) > domains:
        raise InputError(
            f"{spec.name}: strides are different and at most half of the {domains:,} HB domains,"
            f" got {listed}: lower them, or take more GPUs"
        )
    common = int(np.gcd.reduce((domains, *strides)))
    if common > 1:
        raise InputError(
            f"{spec.name}: {domains:,} HB domains and strides {listed} share the divisor {common},"
            " so that the circle falls into parts: make one of the strides 1"
        )
