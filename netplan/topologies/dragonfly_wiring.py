"""Wiring dragonflies: which switch of a group holds the link to which other group.

GPUs fill the switches in order, p to a switch. Inside a group every pair of switches is joined.
Between groups there are c links a pair: the T = c (g - 1) global ends of a group are numbered 0 to
T - 1 and spread evenly over its switches in that order, so end t is on switch floor(t a / T). Which
group end t leads to is the *arrangement*; with k = t mod (g - 1), of group i:

``absolute``   (or consecutive) to group k, or k + 1 from i on;
``relative``   to group i + k + 1 (mod g);
``circulant``  to group i + k/2 + 1 for even k, i - (k + 1)/2 for odd k (mod g).

Hastings et al., Comparing Global Link Arrangements for Dragonfly Networks (IEEE CLUSTER 2015).
On a switch the ports of the hosts come first, then the local ones, then the global ones.
"""

import numpy as np

from netplan.arrays import AnyInts
from netplan.topologies.assembly import Links, Nodes, Wired
from netplan.topologies.dragonfly import DragonflyShape, dragonfly_shape
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import HALL, RACK, ROW, SWITCH
from netplan.topologies.naming import NameBlock
from netplan.topologies.specs import Arrangement, FabricSpec


def wire_dragonfly(spec: FabricSpec, fabric: Fabric, first: int, port: int) -> Wired:
    """Wire hosts (by GPU), local links (by group, then pair), global links (by pair of groups).

    Parameters
    ----------
    spec, fabric
        The spec and its sized fabric (family ``dragonfly``).
    first
        Number of the first switch.
    port
        Port of a GPU that the network takes.
    """
    sizing = fabric.sizing
    shape = dragonfly_shape(spec, sizing)
    rate = sizing.network_bytes_per_s
    lengths = {"optical": HALL, "copper": RACK}
    gpu = np.arange(sizing.gpus, dtype=np.int32)
    switch, place = np.divmod(gpu, np.int32(shape.hosts_per_switch))
    host_length = RACK if spec.host_medium == "copper" else ROW
    hosts = Links("host", gpu, first + switch, np.full_like(gpu, port), place, rate, host_length)
    local = Links("local", *_local(shape, first), rate, lengths[spec.local_medium])
    ends = _global(shape, first, spec.global_arrangement)
    names = NameBlock("group-{}/switch-{}", (shape.groups, shape.switches_per_group))
    return Wired(
        (Nodes(SWITCH, 1, names),),
        (hosts, local, Links("global", *ends, rate, HALL)),
    )


def _local(shape: DragonflyShape, first: int) -> tuple[AnyInts, AnyInts, AnyInts, AnyInts]:
    """All pairs of switches of each group: the two switches, and their ports."""
    low, high = (end.astype(np.int32) for end in np.triu_indices(shape.switches_per_group, 1))
    base = first + shape.switches_per_group * np.arange(shape.groups, dtype=np.int32)
    ports = shape.hosts_per_switch + high - 1, shape.hosts_per_switch + low
    return (
        np.add.outer(base, low).ravel(),
        np.add.outer(base, high).ravel(),
        np.tile(ports[0], shape.groups),
        np.tile(ports[1], shape.groups),
    )


def _global(
    shape: DragonflyShape, first: int, arrangement: Arrangement
) -> tuple[AnyInts, AnyInts, AnyInts, AnyInts]:
    """All links between groups, ordered by pair of groups, then copy: switches and ports."""
    copies = np.arange(shape.links_per_pair, dtype=np.int64)
    low, high = np.triu_indices(shape.groups, 1)
    low, high = np.repeat(low, len(copies)), np.repeat(high, len(copies))
    copy = np.tile(copies, len(low) // max(1, len(copies)))
    ends = [
        _end(shape, group, copy * (shape.groups - 1) + slot(arrangement, shape.groups, group, peer))
        for group, peer in ((low, high), (high, low))
    ]
    (source, source_port), (target, target_port) = ends
    return source + first, target + first, source_port, target_port


def slot(arrangement: Arrangement, groups: int, group: AnyInts, peer: AnyInts) -> AnyInts:
    """Position k, from 0 to g - 2, of the end in one group that leads to another group.

    Examples
    --------
    >>> peers = np.array([0, 1, 3, 4])
    >>> for name in ("absolute", "relative", "circulant"):
    ...     print(slot(name, 5, np.array(2), peers))
    [0 1 2 3]
    [2 3 0 1]
    [3 1 0 2]
    """
    if arrangement == "absolute":
        return np.where(peer < group, peer, peer - 1)
    ahead = (peer - group) % groups
    if arrangement == "relative":
        return ahead - 1
    behind = groups - ahead
    # With an even number of groups the opposite group is its own mirror: the last position.
    return np.where(ahead <= behind, 2 * (ahead - 1), 2 * behind - 1)


def _end(shape: DragonflyShape, group: AnyInts, end: AnyInts) -> tuple[AnyInts, AnyInts]:
    """Switch and port of a global end, by its number in its group."""
    total = shape.links_per_pair * (shape.groups - 1)
    switch = end * shape.switches_per_group // total
    start = -(-switch * total // shape.switches_per_group)  # first end on that switch
    port = shape.hosts_per_switch + shape.switches_per_group - 1 + end - start
    node = group * shape.switches_per_group + switch
    return node.astype(np.int32), port.astype(np.int32)
