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

The work is shared by all copies (`netplan.faults.copies`). *Ends* are where GPUs enter the network:
the switch of a GPU with one network link, else the GPU. Shortest paths between ends are those of
the intact fabric with links taken out; destinations of one pod with the same neighbours are routed
as one, while their own links are whole. A copy in which a sender has lost all these paths is routed
by itself. What an end sends, which links are alive, and what every link carries are tables of ends,
links and link directions by copies.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.faults.copies import Incoming, PathLevel, Table, incoming, levels_to, summing
from netplan.faults.damage import (
    Damage,
    check_damage,
    directed,
    find_effects,
    find_islands,
    network_links,
    no_damage,
)
from netplan.faults.rerouting import live_fabric
from netplan.topologies.graph import GPU, SWITCH, FabricGraph
from netplan.traffic.routing import forwarding_nodes, joins_all
from netplan.traffic.routing_dragonfly import GLOBAL
from netplan.traffic.routing_ecmp import Arcs, make_arcs


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


KEPT_ARCS = 1 << 23
"""Links of shortest paths that are kept for the next copies."""


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
    tail, head = directed(graph, np.flatnonzero(network_links(graph)))
    at_gpu = tail < graph.gpus
    degree = np.bincount(tail[at_gpu], minlength=graph.gpus)
    switch = np.arange(graph.gpus)
    switch[tail[at_gpu]] = head[at_gpu]
    single = (degree == 1) & (graph.node_kind[switch] != GPU)
    return np.where(single, switch, np.arange(graph.gpus))


class Twins(Struct, frozen=True, eq=False):
    """Ends of one pod with the same neighbours, which are routed as one destination.

    Parameters
    ----------
    pod
        Their pod.
    entry
        The ends, as places in the list of (end, pod) entries, shape (twins,).
    code
        Places of the links that lead to them in flattened loads, shape (twins, links).
    """

    pod: int
    entry: Ints
    code: Ints


class PodBatch(Struct, frozen=True, eq=False, dict=True):
    """What all copies of a fabric share.

    Parameters
    ----------
    graph
        The fabric.
    pods
        Pod of each GPU, shape (gpus,).
    arcs
        The network between ends.
    end, pod
        Entries: an end, and a pod that has GPUs there, shape (entries,).
    by_entry, by_pod
        Sums over the GPUs of each entry, and of each pod.
    ports
        Network links of each GPU, shape (gpus, links).
    single_gpu, single_link
        GPUs whose end is their switch, and their links, which the arcs leave out.
    twins
        Destinations.
    """

    graph: FabricGraph
    pods: Ints
    arcs: Arcs
    end: Ints
    pod: Ints
    by_entry: csr_array
    by_pod: csr_array
    ports: csr_array
    single_gpu: Ints
    single_link: Ints
    twins: tuple[Twins, ...]

    def throughput(self, damages: Sequence[Damage]) -> tuple[Floats, list[int]]:
        """Throughput of some copies [B/s], and which of them were routed by themselves."""
        graph = self.graph
        node_down = np.stack([damage.node_down for damage in damages], axis=1)
        failed = np.stack([damage.link_down for damage in damages], axis=1)
        live = ~(failed | node_down[graph.source] | node_down[graph.target])
        share, count = self._shares(self.ports @ live)
        loads, lost = self._loads(self.by_entry @ share, failed, live)
        rate = np.tile(graph.bytes_per_s, 2)[:, None]
        busiest_s = (loads / np.where(rate > 0, rate, 1.0)).max(axis=0)
        found = self._rates(share, count, node_down, busiest_s)
        alone = np.flatnonzero(lost & (found > 0)).tolist()
        for number in alone:
            found[number] = self.alone(damages[number])
        return found, alone

    def alone(self, damage: Damage) -> float:
        """Throughput of one copy, with a search of its own paths [B/s]."""
        effects = find_effects(self.graph, damage)
        attached = np.ones((self.graph.gpus, 1), bool)
        attached[np.concatenate([effects.gpus_down, effects.cut_off])] = False
        share, count = self._shares(attached)
        amount = (self.by_entry @ share)[:, 0]
        sending = amount > 0
        end, pod, amount = self.end[sending], self.pod[sending], amount[sending]
        first, second = np.nonzero((pod[:, None] != pod) & (end[:, None] != end))
        ends = end[first], end[second]
        live = live_fabric(self.graph, damage)
        routed = live.route((ends[0], ends[0]), ends, ends, amount[first] * amount[second])
        if routed.cut_bytes > 0:
            return 0.0
        busiest_s = np.array([routed.loads.busiest_s])
        return float(self._rates(share, count, damage.node_down[:, None], busiest_s)[0])

    def _shares(self, attached: Bools) -> tuple[Floats, Floats]:
        """Share of each GPU in what its pod sends and receives [1]; attached GPUs of each pod."""
        count = self.by_pod @ attached.astype(np.float64)
        return attached / np.maximum(count, 1.0)[self.pods], count

    def _rates(self, share: Floats, count: Floats, node_down: Bools, busiest_s: Floats) -> Floats:
        """Throughput [B/s], given the time of the busiest arc per byte between pods [s]."""
        if len(self.single_gpu):
            rate = self.graph.bytes_per_s[self.single_link][:, None]
            times = (share[self.single_gpu] / rate).max(axis=0)
            busiest_s = np.maximum(busiest_s, times * (np.count_nonzero(count, axis=0) - 1))
        free = np.where(busiest_s > 0, 1.0 / np.where(busiest_s > 0, busiest_s, 1.0), np.inf)
        alive = self.by_pod @ (~node_down[: self.graph.gpus]).astype(np.float64)
        return np.where(((alive > 0) & (count == 0)).any(axis=0), 0.0, free)

    @cached_property
    def _paths(self) -> dict[int, tuple[PathLevel, ...]]:
        """Shortest paths to destinations, as far as they are kept."""
        return {}

    @cached_property
    def _ways(self) -> Incoming:
        """Links between ends by the node that they lead to."""
        return incoming(self.arcs)

    def _levels(self, target: int) -> tuple[PathLevel, ...]:
        """Shortest paths of the intact fabric to an end."""
        if target not in self._paths:
            if len(self._paths) * len(self.arcs.head) > KEPT_ARCS:
                self._paths.clear()
            self._paths[target] = levels_to(self.arcs, target, self._ways)
        return self._paths[target]

    def _loads(self, amount: Floats, failed: Bools, live: Bools) -> tuple[Floats, Bools]:
        """Loads of all link directions, shape (2 links, copies), and copies that are lost."""
        ends, place = np.unique(self.end, return_inverse=True)
        total = summing(place, len(ends)) @ amount
        table = Table.of(self.arcs, ends, live)
        # Whether a link at an end has failed by itself, shape (entries, copies).
        hurt = (_links_at(self.arcs, ends) @ failed)[place]
        for twins in self.twins:
            mine = self.pod == twins.pod
            others = total.copy()
            others[place[mine]] -= amount[mine]
            for entry, columns, share in _columns(amount[twins.entry], hurt[twins.entry]):
                target = int(self.end[twins.entry[entry]])
                table.add(target, self._levels(target), twins.code, others, columns, share)
        return table.loads, table.lost


def pod_batch(graph: FabricGraph, pods: Ints) -> PodBatch:
    """Work out once what all copies of a fabric share, given the pod of each GPU."""
    outer = np.flatnonzero(network_links(graph))
    tail, _ = directed(graph, outer)
    at_gpu = tail < graph.gpus
    gpu, link = tail[at_gpu], np.tile(outer, 2)[at_gpu]
    ports = csr_array((np.ones(len(gpu), bool), (gpu, link)), (graph.gpus, graph.link_count))
    end_of_gpu = endpoints(graph)
    single = end_of_gpu[gpu] != gpu
    between = np.setdiff1d(outer, link[single])
    arcs = make_arcs(graph.source, graph.target, forwarding_nodes(graph, outer), between)
    key, entry = np.unique(end_of_gpu * (pods.max() + 1) + pods, return_inverse=True)
    end, pod = np.divmod(key, pods.max() + 1)
    return PodBatch(
        graph=graph,
        pods=pods,
        arcs=arcs,
        end=end,
        pod=pod,
        by_entry=summing(entry, len(key)),
        by_pod=summing(pods, int(pods.max()) + 1),
        ports=ports,
        single_gpu=gpu[single],
        single_link=link[single],
        twins=tuple(_twins(arcs, end, pod)),
    )


def _links_at(arcs: Arcs, ends: Ints) -> csr_array:
    """Links between ends at each of some ends, shape (ends, links)."""
    nodes, links = len(arcs.forwards), arcs.size // 2
    rows = csr_array(
        (np.ones(len(arcs.code), bool), arcs.code % links, arcs.indptr), (nodes, links)
    )
    return rows[ends]


def _columns(amount: Floats, hurt: Bools) -> Iterator[tuple[int, Ints | None, Floats]]:
    """Which twins to route as one in which copies: a twin for the paths, copies, and shares.

    Twins whose own links are whole go together; a hurt one goes alone.
    """
    whole = ~hurt & (amount > 0)
    lead = np.where(whole.any(axis=0), whole.argmax(axis=0), -1)
    itself = np.eye(len(amount), dtype=bool)[:, :, None]
    for twin in range(len(amount)):
        for chosen, together in (
            (lead == twin, whole),
            (hurt[twin] & (amount[twin] > 0), itself[twin]),
        ):
            columns = np.flatnonzero(chosen)
            if not len(columns):
                continue
            share = np.where(together & chosen, amount, 0.0)
            # Where most copies are wanted, all are done, the others with nothing to carry.
            if 2 * len(columns) >= len(chosen):
                yield twin, None, share
            else:
                yield twin, columns, share[:, columns]


def _twins(arcs: Arcs, end: Ints, pod: Ints) -> Iterator[Twins]:
    """Entries of one pod whose ends have the same neighbours, if no end has several pods."""
    tail = np.repeat(np.arange(len(arcs.forwards)), np.diff(arcs.indptr))
    into = np.argsort(arcs.head, kind="stable")  # the arcs that lead to a node, by where they leave
    degree = np.bincount(arcs.head, minlength=len(arcs.forwards))
    start = np.cumsum(degree) - degree
    widest = int(degree[end].max(initial=0))
    reach = start[end][:, None] + np.arange(widest)
    there = np.arange(widest) < degree[end][:, None]
    arc = np.where(there, into[np.minimum(reach, max(0, len(into) - 1))], -1)
    neighbours = np.where(there, tail[arc], -1)
    alone = np.arange(len(end)) if len(np.unique(end)) < len(end) else np.zeros(len(end), np.int64)
    keys = np.column_stack([pod, alone, neighbours])
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    for entry in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]):
        code = arcs.code[arc[entry][:, : degree[end[entry[0]]]]]
        yield Twins(int(pod[entry[0]]), entry, code)


MAX_CELLS = 1 << 23
"""Link directions x copies whose loads are kept at once: 64 MiB."""


class PodThroughput(Struct, frozen=True, eq=False):
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
    graph: FabricGraph,
    damages: Iterable[Damage],
    *,
    pods: Ints | None = None,
    batch: PodBatch | None = None,
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
    batch
        What all copies share, of :func:`pod_batch`, where one fabric is asked about several times.

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
    if batch is None:
        batch = pod_batch(graph, pods_of(graph) if pods is None else check_pods(graph, pods))
    found: list[Floats] = []
    searched = 0
    # The intact fabric goes with the others: what takes time is to find the paths.
    copies = chain([no_damage(graph)], damages)
    size = max(1, MAX_CELLS // (2 * graph.link_count))
    while chunk := list(islice(copies, size)):
        for damage in chunk:
            check_damage(graph, damage)
        values, alone = batch.throughput(chunk)
        searched += sum(bool(found or number) for number in alone)
        found.append(values)
    intact, left = np.split(np.concatenate(found), [1])
    return PodThroughput(left, float(intact[0]), searched)
