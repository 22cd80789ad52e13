"""Pod-level all-to-all: the traffic under which the throughput of damaged fabrics is compared.

*Pods* are the parts that a network falls into without its top tier: the pods of a three-tier Clos,
the leaves of a two-tier one, the groups of a dragonfly (without its global links).

Every pod sends the same to every other pod. It sends evenly from all its GPUs that are *attached*,
and receives evenly at all of them: from each attached GPU of pod i to each of pod j flow
x / (n_i n_j) bytes a second, n_i and n_j being their attached GPUs. A GPU is attached if it is
alive and not cut off from the network (`netplan.faults.effects`); so what a lost GPU
sent is taken over by the others of its pod. A pod without live GPUs takes no part.

The throughput is the largest x [B/s] at which everything fits under equal-cost multipath over the
live links, as `netplan.faults.rerouting` routes it. It is 0 if a pod has live GPUs and
none attached, or if no live path joins two attached GPUs.
"""

from dataclasses import dataclass

import numpy as np

from netplan.arrays import Bools, Floats, Indices, Ints
from netplan.errors import InputError
from netplan.faults.damage import Damage, no_damage
from netplan.faults.effects import find_effects, find_islands, network_links
from netplan.topologies.graph import GPU, SWITCH, FabricGraph
from netplan.traffic.dragonfly_map import GLOBAL
from netplan.traffic.products import sum_by
from netplan.traffic.routing import joins_all


@dataclass(frozen=True, slots=True, eq=False)
class PodFlows:
    """Flows of a pod-level all-to-all in which every pod sends 1 byte to every other one."""

    gpus: int
    source: Indices
    destination: Indices
    flow_bytes: Floats
    groups: tuple[()] = ()


def pods_of(graph: FabricGraph) -> Ints:
    """Pod of every GPU, shape (gpus,), numbered by their first GPUs.

    Raises
    ------
    InputError
        If the network has no switches, or does not join all GPUs by itself.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> for name in ("fat-tree", "dragonfly"):
    ...     pods = pods_of(expand(FABRICS.load(name), Sizing(64, 8, 1, 450e9, 50e9)))
    ...     print(int(pods.max()) + 1, int(np.bincount(pods)[0]))
    4 16
    8 8
    """
    outer = network_links(graph)
    switches = np.flatnonzero(graph.node_kind == SWITCH)
    if not len(switches):
        raise InputError(f"{graph.name} has no switches, and so no pods: say which GPU is in which")
    if not joins_all(graph, np.flatnonzero(outer)):
        raise InputError(
            f"{graph.name}: its network does not join all GPUs by itself, so that pods cannot"
            " exchange anything: take a fabric that does, or route a traffic matrix"
        )
    if GLOBAL in graph.group_names:
        above = graph.group == graph.group_names.index(GLOBAL)
    else:
        tier = np.where(graph.node_kind == SWITCH, graph.node_tier, 0)
        top = tier == tier.max()
        above = top[graph.source] | top[graph.target]
    island = find_islands(graph, no_damage(graph), outer & ~above).island[: graph.gpus]
    _, first, pod = np.unique(island, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[pod].astype(np.int64)


def check_pods(graph: FabricGraph, pods: Ints) -> Ints:
    """Number pods from 0 without gaps, and refuse those that are not for this fabric.

    Raises
    ------
    InputError
        If there is no pod for each GPU, or fewer than two pods.
    """
    found, numbers = np.unique(pods, return_inverse=True)
    if pods.shape != (graph.gpus,) or len(found) < 2:  # noqa: PLR2004 - one pod sends nothing
        raise InputError(
            f"{graph.name}: give the pod of each of the {graph.gpus:,} GPUs, at least two pods"
        )
    return numbers.astype(np.int64)


def attached_gpus(graph: FabricGraph, damage: Damage) -> Bools:
    """Whether each GPU is alive and not cut off from the network, shape (gpus,)."""
    effects = find_effects(graph, damage)
    attached = np.ones(graph.gpus, bool)
    attached[effects.gpus_down] = False
    attached[effects.cut_off] = False
    return attached


def pod_shares(pods: Ints, attached: Bools) -> Floats:
    """Share of each GPU in what its pod sends and receives [1], shape (gpus,)."""
    count = np.bincount(pods, weights=attached)
    share: Floats = np.where(attached, 1.0 / np.maximum(count, 1.0)[pods], 0.0)
    return share


def stranded(graph: FabricGraph, damage: Damage, pods: Ints, attached: Bools) -> bool:
    """Whether a pod has live GPUs, but none that is attached."""
    alive = np.bincount(pods, weights=~damage.node_down[: graph.gpus])
    return bool(np.any((alive > 0) & (np.bincount(pods, weights=attached) == 0)))


def pod_flows(graph: FabricGraph, damage: Damage, pods: Ints | None = None) -> PodFlows:
    """Flows between GPUs, written out: for fabrics of up to some thousand GPUs.

    Parameters
    ----------
    graph
        The fabric.
    damage
        What has failed.
    pods
        Pod of each GPU, shape (gpus,); None takes those of the network.

    Raises
    ------
    InputError
        If the fabric has no pods.

    Examples
    --------
    Two pods of 16 GPUs; one GPU has failed, and 15 share what it sent and received.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.faults.scenario import parse_faults
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(32, 8, 1, 450e9, 50e9))
    >>> flows = pod_flows(graph, parse_faults(["gpu-3"], graph), np.arange(32) // 16)
    >>> len(flows.source), round(1 / flows.flow_bytes[0]), round(float(flows.flow_bytes.sum()), 9)
    (480, 240, 2.0)
    """
    pods = pods_of(graph) if pods is None else check_pods(graph, pods)
    share = pod_shares(pods, attached_gpus(graph, damage))
    senders = np.flatnonzero(share).astype(np.int32)
    first, second = np.nonzero(pods[senders][:, None] != pods[senders][None])
    source, destination = senders[first], senders[second]
    return PodFlows(graph.gpus, source, destination, share[source] * share[destination])


def endpoints(graph: FabricGraph) -> Ints:
    """Where each GPU enters the network: at its switch if it has one network link, shape (gpus,).

    Paths of GPUs under one switch are alike from there on, so they are routed together.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> endpoints(expand(FABRICS.load("fat-tree"), Sizing(16, 8, 1, 450e9, 50e9)))
    array([16, 16, 16, 16, 17, 17, 17, 17, 18, 18, 18, 18, 19, 19, 19, 19])
    """
    outer = np.flatnonzero(network_links(graph))
    tail = np.concatenate([graph.source[outer], graph.target[outer]])
    head = np.concatenate([graph.target[outer], graph.source[outer]]).astype(np.int64)
    at_gpu = tail < graph.gpus
    degree = np.bincount(tail[at_gpu], minlength=graph.gpus)
    switch = np.arange(graph.gpus)
    switch[tail[at_gpu]] = head[at_gpu]
    single = (degree == 1) & (graph.node_kind[switch] != GPU)
    return np.where(single, switch, np.arange(graph.gpus))


def gpu_seconds(graph: FabricGraph, pods: Ints, share: Floats) -> float:
    """Time of the busiest link of the GPUs that enter at a switch, per byte between pods [s]."""
    outer = np.flatnonzero(network_links(graph))
    gpu = np.minimum(graph.source[outer], graph.target[outer])
    single = endpoints(graph)[np.minimum(gpu, graph.gpus - 1)] >= graph.gpus
    chosen = single & (gpu < graph.gpus)
    sending = np.count_nonzero(sum_by(pods, share, int(pods.max()) + 1)) - 1
    times = sending * share[gpu[chosen]] / graph.bytes_per_s[outer[chosen]]
    return float(times.max(initial=0.0))
