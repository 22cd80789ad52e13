"""Dragonflies of which parts are gone: shortest paths and detours on what is left.

Other joined switches need nothing of their own: what is left of them is a network of joined
switches again. A dragonfly has a structure, which its routing keeps as far as it is there:

* Groups are what hangs together over local links that are left.
* Between groups traffic takes the links of the two that are left, evenly.
* Inside a group two switches without a link of their own use the shortest paths there.
* Groups that no link joins any more use shortest paths over all that is left, on detours too.

With nothing gone that is minimal routing, and detours, as `netplan.traffic.routing_dragonfly` has
them.
"""

from functools import cache

import numpy as np
from msgspec import Struct
from scipy.sparse import coo_array, csc_array

from netplan.arrays import AnyInts, Bools, Floats, Ints
from netplan.topologies.families.spreading import Pairs, SwitchMesh
from netplan.topologies.graph import FabricGraph
from netplan.topologies.splitting import Matrix
from netplan.traffic.demand import Leg
from netplan.traffic.matrix import sum_by
from netplan.traffic.routing import is_dragonfly
from netplan.traffic.routing_dragonfly import (
    DragonflyMap,
    damaged_map,
    dragonfly_detours,
    dragonfly_loads,
)
from netplan.traffic.routing_joined import Plane, Ways, switch_ways


def ways_left(graph: FabricGraph) -> Ways:
    """Shortest paths and detours of what is left of a fabric of joined switches."""
    if not is_dragonfly(graph):
        return switch_ways

    @cache
    def left(plane: Plane) -> _DragonflyLeft:
        return _DragonflyLeft.of(graph, plane)

    return lambda _, plane, demand: left(plane).ways(demand)


class _DragonflyLeft(Struct, frozen=True, eq=False):
    """What is left of a dragonfly: its switches by their numbers in a plane and in a map.

    ``mesh`` are all its links, for what no link joins the groups of.
    """

    graph: FabricGraph
    plane: Plane
    number: Ints
    dragonfly: DragonflyMap
    mesh: SwitchMesh

    @classmethod
    def of(cls, graph: FabricGraph, plane: Plane) -> "_DragonflyLeft":
        """What a plane holds."""
        number, found = damaged_map(graph, plane.node, plane.links)
        own = number[plane.node]
        mesh = SwitchMesh(len(own), len(own), *own[plane.ends])
        return cls(graph, plane, own, found, mesh)

    def ways(self, demand: Matrix) -> tuple[Floats, Floats]:
        """Loads over links between groups, and on detours [B], shape (2, links) each."""
        pairs, links, found = coo_array(demand), self.graph.link_count, self.dragonfly
        leg = Leg(self.number[pairs.row], self.number[pairs.col], pairs.data)
        direct = dragonfly_loads(found, leg, links)
        detours = dragonfly_detours(found, leg, links)
        if not found.joined.all():
            group = found.group_of_switch
            apart = ~found.joined[group[leg.source], group[leg.destination]]
            shape = (found.switches,) * 2
            kept = leg.flow_bytes[apart], (leg.source[apart], leg.destination[apart])
            lost = Pairs(csc_array(coo_array(kept, shape=shape)))
            loads = self.mesh.each_loads(((lost,), (self._spread(leg),)))
            direct[:, self.plane.links] += loads[0]
            detours[:, self.plane.links] += loads[1]
        return direct, detours

    def _spread(self, leg: Leg) -> "_SpreadApart":
        """Halves of detours between groups that no link joins any more."""
        found = self.dragonfly
        group = found.group_of_switch
        leaves = group[leg.source] != group[leg.destination]
        amount = leg.flow_bytes[leaves] / found.switches
        sent, received = (
            sum_by(end[leaves], amount, found.switches) for end in (leg.source, leg.destination)
        )
        return _SpreadApart(~found.joined, group, sent, received)


class _SpreadApart(Struct, frozen=True, eq=False):
    """Traffic of each switch to all others whose groups are apart: so much sent, so much taken."""

    apart: Bools
    group: Ints
    sent: Floats
    received: Floats

    def to(self, targets: AnyInts) -> Floats:
        """What every switch sends to some of them, shape (switches, targets) [B]."""
        asked = self.apart[np.ix_(self.group, self.group[targets])]
        return np.where(asked, self.sent[:, None] + self.received[None, targets], 0.0)
