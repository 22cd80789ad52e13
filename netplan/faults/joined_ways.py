"""Adaptive routing of joined switches on what failures leave: shortest paths and detours.

What is left of switches that are joined directly is routed as the whole fabric is
(`netplan.traffic.routing_joined`): over the live links all traffic is split between shortest paths
and detours over any live switch so that the busiest link is least busy. With nothing failed that is
the routing of the whole fabric.

GPUs whose ports lead nowhere, or to a few switches only that hang together with nobody else, send
what their ports do not reach through the GPUs of their HB domain: evenly through all that have
ports, and from there like these.
"""

from functools import cached_property

import numpy as np
from msgspec import Struct
from scipy.sparse import coo_array, hstack, identity

from netplan.arrays import AnyInts, Bools, Floats, Ints
from netplan.topologies.graph import GPU, FabricGraph, connected_parts, host_ends
from netplan.topologies.splitting import Matrix
from netplan.traffic.demand import Leg
from netplan.traffic.routing_damaged import ways_left
from netplan.traffic.routing_joined import JoinedMap, Ways, joined_loads, joined_map


class JoinedWays(Struct, frozen=True, eq=False, dict=True):
    """Live network links of a fabric of joined switches.

    Parameters
    ----------
    graph
        The fabric.
    outer, live
        Whether a link is outside HB domains, and whether it is alive, shape (links,).
    inside
        Island of each node over live links of HB domains, shape (nodes,).
    """

    graph: FabricGraph
    outer: Bools
    live: Bools
    inside: Ints

    @cached_property
    def _relays(self) -> Matrix:
        """Which GPUs (rows) send for each (columns): it alone, or all of its domain with ports."""
        graph, gpus = self.graph, self.graph.gpus
        served = _served(graph, np.flatnonzero(self.outer), self.live)
        island = self.inside[:gpus]
        shape = (gpus, int(island.max()) + 1)
        able = coo_array((served.astype(float), (np.arange(gpus), island)), shape=shape).tocsc()
        row, column = coo_array(able[:, island[~served]]).coords
        entry = np.concatenate((np.flatnonzero(served), row))
        whose = np.concatenate((np.flatnonzero(served), np.flatnonzero(~served)[column]))
        return coo_array((np.ones(len(entry)), (entry, whose)), shape=(gpus, gpus)).tocsr()

    @cached_property
    def _joined(self) -> JoinedMap:
        """Planes that are left. GPUs stand there twice: alone, and with who sends for them."""
        network = np.flatnonzero(self.outer & self.live)
        senders = hstack([identity(self.graph.gpus, format="csr"), self._relays], format="csr")
        return joined_map(self.graph, network, senders)

    @cached_property
    def _ways(self) -> Ways:
        return ways_left(self.graph)

    def reached(self, source: AnyInts, destination: AnyInts) -> Bools:
        """Whether the network joins those who send for the ends of flows, shape (flows,)."""
        present, gpus = self._joined.present, self.graph.gpus
        both = present[:, gpus + source] & present[:, gpus + destination]
        found: Bools = np.any(both, axis=0)
        return found

    def loads(self, own: Leg, relayed: Leg) -> tuple[Floats, Leg]:
        """Loads of network links [B], shape (2, links), and what goes to relays and comes from.

        Parameters
        ----------
        own
            Traffic over the ports of its GPUs.
        relayed
            Traffic that others in the domains of its GPUs send where these have no port.
        """
        gpus = self.graph.gpus
        shifted = Leg(gpus + relayed.source, gpus + relayed.destination, relayed.flow_bytes)
        loads = joined_loads(self._joined, own.plus(shifted), self._ways)
        return loads, self._inside(shifted)

    def _inside(self, relayed: Leg) -> Leg:
        """Traffic between GPUs and those who send for them, inside their HB domains."""
        graph, gpus, parts = self.graph, self.graph.gpus, []
        for plane, leg in zip(self._joined.planes, self._joined.by_plane(relayed), strict=True):
            sent, received = leg.ends(2 * gpus)
            taken = coo_array(plane.taken[:, gpus:])
            relay, whose = host_ends(graph, plane.hosts)[0][taken.row].astype(np.int64), taken.col
            apart = relay != whose
            relay, whose, share = relay[apart], whose[apart], taken.data[apart]
            parts.append((whose, relay, share * sent[gpus + whose]))
            parts.append((relay, whose, share * received[gpus + whose]))
        source, target, amount = (np.concatenate(each) for each in zip(*parts, strict=True))
        some = amount > 0
        return Leg(source[some], target[some], amount[some])


def _served(graph: FabricGraph, network: Ints, live: Bools) -> Bools:
    """Whether each GPU has a port to the main piece of a plane, with most GPUs, shape (gpus,)."""
    ends = graph.source[network], graph.target[network]
    between = (graph.node_kind[ends[0]] != GPU) & (graph.node_kind[ends[1]] != GPU)
    alive = live[network]

    def parts(links: Bools) -> Ints:
        return connected_parts(graph.node_count, ends[0][links], ends[1][links])

    whole, left = parts(between), parts(between & alive)
    gpu, switch = host_ends(graph, network[~between & alive])
    size = np.bincount(left[switch], minlength=graph.node_count)
    order = np.argsort(size[left[switch]], kind="stable")
    main = np.full(graph.node_count, -1, np.int64)
    main[whole[switch[order]]] = left[switch[order]]  # the last one written is the largest
    served = np.zeros(graph.gpus, bool)
    served[gpu[main[whole[switch]] == left[switch]]] = True
    return served
