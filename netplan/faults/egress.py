"""Bandwidth that leaves GPUs and HB domains, in closed form: a fast bound on what is left.

A domain D has links of h(D, v) bytes a second to the node v, mostly a leaf, which has o(D, v) to
all other nodes. Cut each v at the smaller of the two:

    egress(D)   = sum over v of min(h(D, v), o(D, v))
    pair(A, B)  = the smaller of sum over v of min(h(A, v), up(v) + h(B, v)), and the same for B

up(v) is what leads from v on to nodes that forward. Both are capacities of cuts, and so never below
the max-flow. Where a single tier of switches joins the domains, up(v) = 0 and the pair's bound is
the max-flow itself. If domains forward for others, a pair's bound is that of its two egresses.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.faults.damage import Damage
from netplan.faults.effects import network_links
from netplan.topologies.graph import GPU, SWITCH, FabricGraph
from netplan.traffic.products import sum_by
from netplan.traffic.routing import forwarding_nodes


@dataclass(frozen=True, slots=True, eq=False)
class Attachments:
    """Live network links of owners (domains or GPUs), those of an owner to one node added up.

    Parameters
    ----------
    owners
        Owners [1].
    owner, node
        Pairs of an owner and the node at the other end, by owner and node, shape (pairs,).
    bytes_per_s
        h, the rate of all links between them, one direction [B/s], shape (pairs,).
    up_bytes_per_s, other_bytes_per_s
        Of the node: what leads to nodes that forward, and to all nodes but the owner [B/s].
    """

    owners: int
    owner: Ints
    node: Ints
    bytes_per_s: Floats
    up_bytes_per_s: Floats
    other_bytes_per_s: Floats

    @property
    def egress_bytes_per_s(self) -> Floats:
        """Bandwidth that can leave each owner [B/s], shape (owners,)."""
        least = np.minimum(self.bytes_per_s, self.other_bytes_per_s)
        return sum_by(self.owner, least, self.owners)

    def pair_bytes_per_s(self, first: Ints, second: Ints) -> Floats:
        """Bound on what two owners can exchange without others forwarding [B/s], shape (pairs,)."""
        return np.minimum(self._one_way(first, second), self._one_way(second, first))

    def _one_way(self, first: Ints, second: Ints) -> Floats:
        """Sum over v of min(h(A, v), up(v) + h(B, v)), for each pair A, B."""
        start = np.searchsorted(self.owner, np.arange(self.owners + 1))
        count = np.diff(start)[first]
        pair = np.repeat(np.arange(len(first)), count)
        entry = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count - start[first], count)
        width = int(self.node.max(initial=0)) + 1
        keys = self.owner * width + self.node
        wanted = second[pair] * width + self.node[entry]
        place = np.searchsorted(keys, wanted).clip(max=max(0, len(keys) - 1))
        shared = np.where(keys[place] == wanted, self.bytes_per_s[place], 0.0)
        least = np.minimum(self.bytes_per_s[entry], self.up_bytes_per_s[entry] + shared)
        return sum_by(pair, least, len(first))


def attachments(
    graph: FabricGraph, damage: Damage, *, of: Literal["domain", "gpu"] = "domain"
) -> Attachments:
    """Live network links of every HB domain, or of every GPU.

    Parameters
    ----------
    graph
        The fabric.
    damage
        What has failed.
    of
        Whether owners are HB domains or single GPUs.

    Raises
    ------
    InputError
        If the damage is that of another graph.
    """
    network = network_links(graph)
    live = np.flatnonzero(network & ~damage.links_out(graph))
    forwards = forwarding_nodes(graph, np.flatnonzero(network))
    forwards &= (graph.node_kind == SWITCH) | (graph.node_kind == GPU)
    size = graph.hb_size if of == "domain" else 1
    owners = -(-graph.gpus // size)
    tail = np.concatenate([graph.source[live], graph.target[live]]).astype(np.int64)
    head = np.concatenate([graph.target[live], graph.source[live]]).astype(np.int64)
    rate = np.tile(graph.bytes_per_s[live], 2)
    total = sum_by(tail, rate, graph.node_count)
    up = sum_by(tail, rate * forwards[head], graph.node_count)
    leaves = (tail < graph.gpus) & ~_same_owner(tail, head, graph.gpus, size)
    key, place = np.unique(
        tail[leaves] // size * np.int64(graph.node_count) + head[leaves], return_inverse=True
    )
    owner, node = np.divmod(key, graph.node_count)
    own = sum_by(place, rate[leaves], len(key))
    # A GPU at the other end is a destination itself: only its own links limit what goes there.
    at_gpu = node < graph.gpus
    up_ = np.where(at_gpu, np.inf, up[node])
    return Attachments(owners, owner, node, own, up_, np.where(at_gpu, np.inf, total[node] - own))


def egress_bytes_per_s(
    graph: FabricGraph, damage: Damage, *, of: Literal["domain", "gpu"] = "domain"
) -> Floats:
    """Bandwidth that can leave every HB domain, or every GPU, one way [B/s].

    Parameters and errors as :func:`attachments`.

    Examples
    --------
    Two planes: a GPU whose leaf in one of them fails keeps half of its bandwidth.

    >>> from netplan.topologies.designs import DESIGNS
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.faults.scenario import parse_faults
    >>> graph = expand(DESIGNS.load("twin-plane"), Sizing(256, 16, 8, 900e9, 100e9))
    >>> lost = parse_faults(["plane-1/leaf-0"], graph)
    >>> left = egress_bytes_per_s(graph, lost, of="gpu")
    >>> float(left[0]), float(left[1])
    (50000000000.0, 100000000000.0)
    """
    return attachments(graph, damage, of=of).egress_bytes_per_s


def _same_owner(tail: Ints, head: Ints, gpus: int, size: int) -> Bools:
    """Whether a link joins two GPUs of one owner."""
    same: Bools = (head < gpus) & (tail // size == head // size)
    return same
