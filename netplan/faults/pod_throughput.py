"""Throughput of many damaged copies of a fabric under a pod-level all-to-all.

The traffic is that of `netplan.faults.pods`, the routing that of
`netplan.faults.rerouting`, and the work is shared by all copies:

* GPUs with one network link enter the network at their switch, so that paths run between switches;
* the shortest paths to a destination are those of the intact fabric with links taken out
  (`netplan.faults.shortest_paths`), one column a copy;
* destinations of one pod with the same neighbours are routed as one, while their own links are
  whole: all that differs is the last hop, which they share by their GPUs.

A copy in which a sender has lost all these paths is routed by itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.faults.damage import Damage, check_damage, no_damage
from netplan.faults.pod_batch import PodBatch, pod_batch
from netplan.faults.pods import (
    attached_gpus,
    check_pods,
    endpoints,
    gpu_seconds,
    pod_shares,
    pods_of,
    stranded,
)
from netplan.faults.rerouting import live_fabric
from netplan.topologies.graph import FabricGraph
from netplan.traffic.products import sum_by

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
        """Throughput next to the intact fabric's [1], shape (copies,)."""
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
