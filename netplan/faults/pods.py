"""Pod-level all-to-all: the traffic under which the throughput of damaged fabrics is compared.

*Pods* are the parts that a network falls into without its top tier: the pods of a three-tier Clos,
the leaves of a two-tier one, the groups of a dragonfly (without its global links).

Every pod sends the same to every other pod. It sends evenly from all its GPUs that are *attached*,
and receives evenly at all of them: from each attached GPU of pod i to each of pod j flow
x / (n_i n_j) bytes a second, n_i and n_j being their attached GPUs. A GPU is attached if it is
alive and not cut off from the network (`netplan.faults.damage`); so what a lost GPU
sent is taken over by the others of its pod. A pod without live GPUs takes no part.

The throughput is the largest x [B/s] at which everything fits under equal-cost multipath over the
live links, as `netplan.faults.rerouting` routes it. It is 0 if a pod has live GPUs and
none attached, or if no live path joins two attached GPUs.

The work is shared by all copies (`netplan.faults.pod_batch`): GPUs with one network link enter at
their switch, so that paths run between switches; shortest paths are those of the intact fabric with
links taken out; destinations of one pod with the same neighbours are routed as one, while their own
links are whole. A copy in which a sender has lost all these paths is routed by itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.faults.damage import (
    Damage,
    check_damage,
    find_effects,
    find_islands,
    network_links,
    no_damage,
)
from netplan.faults.pod_batch import PodBatch, endpoints, pod_batch
from netplan.faults.rerouting import live_fabric
from netplan.topologies.graph import SWITCH, FabricGraph
from netplan.traffic.matrix import sum_by
from netplan.traffic.routing import joins_all
from netplan.traffic.routing_dragonfly import GLOBAL


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


def gpu_seconds(graph: FabricGraph, pods: Ints, share: Floats) -> float:
    """Time of the busiest link of the GPUs that enter at a switch, per byte between pods [s]."""
    outer = np.flatnonzero(network_links(graph))
    gpu = np.minimum(graph.source[outer], graph.target[outer])
    single = endpoints(graph)[np.minimum(gpu, graph.gpus - 1)] >= graph.gpus
    chosen = single & (gpu < graph.gpus)
    sending = np.count_nonzero(sum_by(pods, share, int(pods.max()) + 1)) - 1
    times = sending * share[gpu[chosen]] / graph.bytes_per_s[outer[chosen]]
    return float(times.max(initial=0.0))


MAX_CELLS = 1 << 23
"""Link directions x copies whose loads are kept at once: 64 MiB."""


@dataclass(frozen=True, slots=True, eq=False)
class PodThroughput:
    """Throughput of every copy.

    Parameters
    ----------
    bytes_per_s
        What each pod can send to each other pod at once [B/s], shape (copies,).
    intact_bytes_per_s
        The same without damage [B/s].
    searched
        Copies that were routed by themselves [1].
    """

    bytes_per_s: Floats
    intact_bytes_per_s: float
    searched: int

    @property
    def share(self) -> Floats:
        """Throughput next to the intact fabric's [1], shape (copies,); NaN if that has none."""
        with np.errstate(invalid="ignore"):
            left: Floats = self.bytes_per_s / self.intact_bytes_per_s
        return left


def pod_throughput(
    graph: FabricGraph, damages: Iterable[Damage], *, pods: Ints | None = None
) -> PodThroughput:
    """Throughput of damaged copies of a fabric under a pod-level all-to-all.

    Parameters
    ----------
    graph
        The fabric.
    damages
        What has failed in each copy; they are taken one by one, and may come from a generator.
    pods
        Pod of each GPU, shape (gpus,); None takes those of the network.

    Raises
    ------
    InputError
        If the fabric has no pods, or a damage is that of another graph.

    Examples
    --------
    A leaf of eight hosts that loses one of its eight uplinks can send 7/8 of what it could.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.faults.scenario import parse_faults
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(1024, 16, 1, 450e9, 50e9))
    >>> faults = ["leaf-0--plane-0/spine-0", "plane-0/core-0", "gpu-0"]
    >>> pod_throughput(graph, [parse_faults([fault], graph) for fault in faults]).share.round(4)
    array([0.875 , 0.875 , 0.9844])
    """
    pods = pods_of(graph) if pods is None else check_pods(graph, pods)
    batch = pod_batch(graph, pods)
    intact = float(_throughputs(batch, [no_damage(graph)])[0][0])
    found, searched = [np.empty(0)], 0
    copies = iter(damages)
    size = max(1, MAX_CELLS // (2 * graph.link_count))
    while chunk := list(islice(copies, size)):
        for damage in chunk:
            check_damage(graph, damage)
        values, alone = _throughputs(batch, chunk)
        found.append(values)
        searched += alone
    return PodThroughput(np.concatenate(found), intact, searched)


def _throughputs(batch: PodBatch, damages: Sequence[Damage]) -> tuple[Floats, int]:
    """Throughput of some copies [B/s], and how many of them were routed by themselves."""
    values, lost = batch.throughput(damages)
    alone = np.flatnonzero(lost & (values > 0)).tolist()
    for number in alone:
        values[number] = pod_throughput_alone(batch.graph, damages[number], batch.pods)
    return values, len(alone)


def pod_throughput_alone(graph: FabricGraph, damage: Damage, pods: Ints) -> float:
    """Throughput of one damaged copy, with a search of its own paths [B/s].

    Parameters
    ----------
    graph, damage
        The fabric, and what has failed.
    pods
        Pod of each GPU, shape (gpus,).
    """
    attached = attached_gpus(graph, damage)
    if stranded(graph, damage, pods, attached):
        return 0.0
    share = pod_shares(pods, attached)
    end = endpoints(graph)
    # One entry for each pod at each end: leaves that several pods share are told apart.
    key, place = np.unique(end * (pods.max() + 1) + pods, return_inverse=True)
    amount = sum_by(place, share, len(key))
    node, pod = np.divmod(key, pods.max() + 1)
    sending = amount > 0
    node, pod, amount = node[sending], pod[sending], amount[sending]
    first, second = np.nonzero((pod[:, None] != pod[None]) & (node[:, None] != node[None]))
    ends = node[first], node[second]
    live = live_fabric(graph, damage)
    found = live.route((ends[0], ends[0]), ends, ends, amount[first] * amount[second])
    if found.cut_bytes > 0:
        return 0.0
    busiest_s = max(found.loads.busiest_s, gpu_seconds(graph, pods, share))
    return 1.0 / busiest_s if busiest_s else float("inf")
