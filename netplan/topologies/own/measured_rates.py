"""What traffic gets on the links of any network: rates between parts of it, as measured there.

Every GPU sends at once: evenly to all GPUs of other parts, or to the one so many parts on, as the
rings of a collective do. Traffic takes shortest paths and splits evenly over the links of each hop
that lead nearer; GPUs forward where switches alone do not join all. The link with the most to do
for its rate says what every GPU gets.

GPUs with the same switches above them are one *group*: the work grows with groups times links.
Where that is too much, traffic to some groups alone is sent, spread evenly over all, and links of
one kind (tiers at both ends, rate) count by their mean: an uneven spread over alike links is not
seen then.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from scipy.sparse import coo_array, csr_array, diags_array

from netplan.arrays import Bools, Floats, Ints, hash64
from netplan.topologies.graph import FabricGraph, connected_parts, switches_suffice
from netplan.topologies.graph.splitting import propagate_demand, rounds_from

MOST_WORK = 100_000_000
"""Links times groups times patterns that are measured one by one [1]."""

CELLS, SOME_TARGETS, LEAST_TARGETS, MOST_STEPS = 4_000_000, 32, 4, 4


class HostGroups(Struct, frozen=True, eq=False):
    """A network with its GPUs in groups: nodes are the groups, then all else.

    Parameters
    ----------
    of_gpu
        Group of every GPU, shape (gpus,).
    groups, nodes
        Groups, and nodes with them [1].
    tail, head, links, bytes_per_s, kind
        Arcs: ends, parallel links, rate of the slowest of them [B/s], and which arcs are alike,
        shape (arcs,).
    forwards
        Whether a node passes on traffic of others, shape (nodes,).
    part
        Which GPUs the network joins, shape (gpus,).
    """

    of_gpu: Ints
    groups: int
    nodes: int
    tail: Ints
    head: Ints
    links: Floats
    bytes_per_s: Floats
    kind: Ints
    forwards: Bools
    part: Ints


def host_groups(network: FabricGraph) -> HostGroups:
    """Group the GPUs of a network, which is without links inside HB domains."""
    gpus, relays = network.gpus, not switches_suffice(network, np.arange(network.link_count))
    of_gpu = np.arange(gpus) if relays else _switch_groups(network)
    groups = int(of_gpu.max()) + 1
    number = np.concatenate([of_gpu, groups + np.arange(network.node_count - gpus)])
    nodes = groups + network.node_count - gpus
    ends = number[network.source], number[network.target]
    tail, head = np.concatenate(ends), np.concatenate(ends[::-1])
    rate = np.tile(network.bytes_per_s, 2)
    code, which = np.unique(tail * np.int64(nodes) + head, return_inverse=True)
    slowest = np.full(len(code), np.inf)
    np.minimum.at(slowest, which, rate)
    tail, head = np.divmod(code, np.int64(nodes))
    tier = np.zeros(nodes, np.int64)
    tier[groups:] = network.node_tier[gpus:]
    _, rates = np.unique(slowest, return_inverse=True)
    _, kind = np.unique((tier[tail] * 256 + tier[head]) * len(code) + rates, return_inverse=True)
    forwards = np.ones(nodes, bool)
    forwards[:groups] = relays
    part = connected_parts(network.node_count, network.source, network.target)[:gpus]
    links = np.bincount(which).astype(float)
    return HostGroups(
        of_gpu, groups, nodes, tail, head, links, slowest, kind.reshape(-1), forwards, part
    )


def _switch_groups(network: FabricGraph) -> Ints:
    """Group of every GPU by the switches that it is joined to, and at which rates."""
    signature = np.zeros(network.node_count, np.uint64)
    for end, other in ((network.source, network.target), (network.target, network.source)):
        word = hash64(hash64(other.astype(np.uint64)) ^ network.bytes_per_s.view(np.uint64))
        np.add.at(signature, end, word)
    return np.unique(signature[: network.gpus], return_inverse=True)[1].reshape(-1)


class Pattern(Struct, frozen=True, eq=False):
    """Bytes from group to group, as products of sparse matrices, one column a target."""

    terms: tuple[tuple[csr_array, csr_array], ...]

    @property
    def bytes(self) -> float:
        """Bytes from all groups to all [B]."""
        return float(sum((left @ right.sum(axis=1)).sum() for left, right in self.terms))

    def to(self, targets: Ints) -> Floats:
        """Bytes from every group to some, shape (groups, targets) [B]."""
        sent = sum((left @ right[:, targets]).toarray() for left, right in self.terms)
        return np.asarray(sent, float)


def level_patterns(
    hosts: HostGroups, outer: Ints, inner: Ints, steps: Sequence[Ints]
) -> Iterator[Pattern]:
    """Traffic between inner parts of each outer part, every GPU sending one byte.

    Parameters
    ----------
    hosts
        The network.
    outer, inner
        Parts of every GPU that takes part, -1 for others, shape (gpus,).
    steps
        GPU that each GPU sends to along rings, shape (gpus,) each.
    """
    there = np.flatnonzero(outer >= 0)
    group = hosts.of_gpu[there]
    here = hosts.part[there]  # parts are told apart by what the network joins, too
    codes = (part[there] * (int(here.max()) + 1) + here for part in (outer, inner))
    wide, narrow = (np.unique(code, return_inverse=True)[1].reshape(-1) for code in codes)
    size, narrow_size = np.bincount(wide)[wide], np.bincount(narrow)[narrow]
    peers = np.maximum(1, size - narrow_size)
    ones = np.ones(len(there))
    terms = []
    for part, sign in ((wide, 1.0), (narrow, -1.0)):
        shape = (hosts.groups, int(part.max()) + 1)
        counts = coo_array((ones, (group, part)), shape=shape).tocsr()
        per_gpu = np.zeros(shape[1])
        per_gpu[part] = sign / peers
        terms.append(((counts @ diags_array(per_gpu)).tocsr(), counts.T.tocsr()))
    yield Pattern(tuple(terms))
    eye = diags_array(np.ones(hosts.groups)).tocsr()
    for step in steps:
        moved = group, hosts.of_gpu[step[there]]
        sent = coo_array((ones, moved), shape=(hosts.groups, hosts.groups)).tocsr()
        yield Pattern(((eye, sent),))


def seconds_per_byte(hosts: HostGroups, patterns: Sequence[Pattern]) -> tuple[float, bool]:
    """Longest time of a link when every GPU sends a byte [s], and whether all links were asked.

    Examples
    --------
    Eight GPUs under two switches with two links between them: half of each GPU's traffic to the
    other part goes over either, four bytes over two links.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.graph import network_only
    >>> from netplan.topologies.specs import FABRICS
    >>> spec = FABRICS.load("hyperx").changed(sizes=(2,), hosts_per_switch=4, links_per_pair=2)
    >>> sizing = Sizing(gpus=8, radix=8, hb_size=4,
    ...                 hb_bytes_per_s=450e9, network_bytes_per_s=1.0)
    >>> hosts = host_groups(network_only(expand(spec, sizing)))
    >>> patterns = [*level_patterns(hosts, np.zeros(8, int), np.arange(8) // 4, ())]
    >>> seconds_per_byte(hosts, patterns)
    (2.0, True)
    """
    affordable = MOST_WORK // (len(hosts.tail) * len(patterns))
    whole = affordable >= hosts.groups or hosts.groups <= SOME_TARGETS
    targets = np.arange(hosts.groups)
    if not whole:
        count = min(SOME_TARGETS, max(LEAST_TARGETS, affordable))
        targets = np.linspace(0, hosts.groups - 1, count).astype(np.int64)
    ways = _Ways.of(hosts, by_arc=whole)
    loads, sent = np.zeros((len(patterns), ways.places)), np.zeros(len(patterns))
    step = max(1, CELLS // (len(hosts.tail) if whole else hosts.nodes * len(patterns)))
    for begin in range(0, len(targets), step):
        batch = targets[begin : begin + step]
        bytes_to = [pattern.to(batch) for pattern in patterns]
        loads += ways.propagate(batch, bytes_to)
        sent += [column.sum() for column in bytes_to]
    if whole:
        return float((loads / hosts.bytes_per_s).max()), True
    # Each byte that was not sent would have busied links of each kind as those did that were.
    every = np.array([pattern.bytes for pattern in patterns])
    loads *= np.divide(every, sent, out=np.zeros_like(sent), where=sent > 0)[:, None]
    rate = np.zeros(ways.places)
    rate[hosts.kind] = hosts.bytes_per_s
    return float((loads / np.bincount(hosts.kind, weights=hosts.links) / rate).max()), False


class _Ways(Struct, frozen=True, eq=False):
    """Links between groups and nodes: all together, and of each kind where these are told apart.

    ``places`` is what loads are told of [1]: arcs, or kinds of arcs.
    """

    hosts: HostGroups
    joined: csr_array
    kinds: tuple[csr_array, ...]
    places: int

    @classmethod
    def of(cls, hosts: HostGroups, *, by_arc: bool) -> "_Ways":
        """Links as matrices; of each kind, unless loads are told of each arc."""

        def matrix(some: Bools) -> csr_array:
            ends = hosts.tail[some], hosts.head[some]
            return coo_array((hosts.links[some], ends), shape=(hosts.nodes,) * 2).tocsr()

        every, kinds = matrix(np.ones(len(hosts.tail), bool)), int(hosts.kind.max()) + 1
        if by_arc:
            return cls(hosts, every, (), len(hosts.tail))
        return cls(hosts, every, tuple(matrix(hosts.kind == kind) for kind in range(kinds)), kinds)

    def propagate(self, targets: Ints, patterns: Sequence[Floats]) -> Floats:
        """Load as traffic splits evenly at every hop: of a link of each arc, or of kinds [B].

        What is sent to the targets is given pattern by pattern, shape (groups, targets) [B]; loads
        are of shape (patterns, places).
        """
        hosts, width = self.hosts, len(targets)
        amount = np.zeros((hosts.nodes, len(patterns) * width))
        amount[: hosts.groups] = np.hstack(patterns)
        loads = self._local_load([sent[targets, np.arange(width)] for sent in patterns], targets)
        rounds = rounds_from(self.joined, targets, forwards=hosts.forwards)
        for spread, near in propagate_demand(self.joined, rounds, amount):
            reached = [kind @ near for kind in self.kinds]
            for place in range(len(patterns)):
                unit = spread[:, place * width : (place + 1) * width]
                if self.kinds:
                    loads[place] += [float((unit * kind).sum()) for kind in reached]
                else:
                    loads[place] += np.einsum("ab,ab->a", unit[hosts.tail], near[hosts.head])
        return loads

    def _local_load(self, local: Sequence[Floats], targets: Ints) -> Floats:
        """Load of what stays between the GPUs of a group: up to its switches, and down again."""
        hosts = self.hosts
        loads = np.zeros((len(local), self.places))
        ports = np.bincount(hosts.tail, weights=hosts.links, minlength=hosts.nodes)
        here = np.zeros(hosts.nodes, bool)
        here[targets] = True
        arcs = np.flatnonzero(here[hosts.tail] | here[hosts.head])
        place = hosts.kind[arcs] if self.kinds else arcs
        for pattern, inside in enumerate(local):
            sums = np.zeros(hosts.nodes)
            sums[targets] = inside / np.maximum(ports[targets], 1)
            busy = sums[hosts.tail[arcs]] + sums[hosts.head[arcs]]
            weights = busy * hosts.links[arcs] if self.kinds else busy
            loads[pattern] = np.bincount(place, weights, self.places)
        return loads
