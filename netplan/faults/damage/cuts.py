"""Pace of a damaged network: how much longer its traffic takes over cuts.

The intact fabric falls into *blocks*: HB domains; leaves and pods with what hangs below them;
routers and groups of a dragonfly; lines and slabs of a torus, and runs of slabs wherever they begin
(`netplan.faults.damage.cuts`). What the job's own traffic sends out of a block needs at least

    time = bytes that leave or enter it / capacity of the live links out of it,

however it is split over paths. The network's *pace* is the time of the worst block of the intact
fabric over that of the worst block after the failure. Traffic and blocks are those of the intact
fabric, only capacities fall: so a failure never raises the pace.

Traffic keeps to its usual ways: between domains over the port of its GPU; where the network joins
equal ranks only, over the domain first and then along the rail. Blocks differ in what may take
over for them:

*whole*     blocks of whole HB domains: nothing passes by their links, so that no routing beats the
            time over them (:meth:`Cuts.time_s`)
*in part*   others, such as the leaf of one rail: what their ports cannot carry goes through the
            domains to ports elsewhere. At a pace p all GPUs of a block that is slower than p give
            up their ports, as if these had failed, and the domain must do with the others'.

So a rail with one of eight spines left is as bad as a lost rail at the most. That is a policy, and
no bound: a routing that shares out what a slow block in part has left, port by port, may be faster.
Where all traffic keeps to its usual ways (no GPU has lost its port) none is.

A pace that not all reach is one that some reach: `RelativeThroughput.options` says how many domains
must be left out for which pace. Not seen: links that are whole but in the wrong place (a cut that
is no block), and equal splitting, for which see `netplan.faults.damage.rerouting`.

Across the rings of a torus all runs of positions, wherever they begin and end, are blocks: a
wrapped ring is cut in two at any two positions, so that links lost together are seen wherever they
are. What leaves run I of a matrix M between positions, each up to half of the ring, is

    sum of M[s, t] over s in I, t not in I  =  sum over rows of I  -  sum over I x I,

for all runs at once by sums along both axes.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from math import prod
from operator import le
from typing import Self

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import csr_array

from netplan.arrays import Bools, Floats, Ints, distinct_values
from netplan.faults.damage.damage import Damage, Effects, network_links
from netplan.records import replace
from netplan.topologies.graph import SWITCH, FabricGraph, connected_parts
from netplan.traffic.demand import Leg, check_demand, split_demand
from netplan.traffic.matrix import KINDS, TrafficMatrix, UniformGroups, no_traffic, sum_by
from netplan.traffic.routing import joins_all

ROUNDING = 1e-12
"""Part of all amounts that sums may be wrong by [1]."""


def out_of_runs(matrix: Floats) -> Floats:
    """What leaves each run of 1, 2, ... up to half of all positions, shape (lengths, positions).

    Run (l, s) has l + 1 positions, of which s is the first.

    Parameters
    ----------
    matrix
        What goes from each position to each other, shape (positions, positions).

    Examples
    --------
    Four positions that send one to the next one each: so does any run.

    >>> out_of_runs(np.roll(np.eye(4), 1, axis=1)).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    positions = len(matrix)
    twice = np.zeros((2 * positions + 1, 2 * positions + 1))
    twice[1:, 1:] = np.tile(matrix, (2, 2)).cumsum(axis=0).cumsum(axis=1)
    first = np.arange(positions)
    last = first + 1 + np.arange(positions // 2)[:, None]
    rows = twice[last, positions] - twice[first, positions]
    inside = twice[last, last] - twice[first, last] - twice[last, first] + twice[first, first]
    out: Floats = rows - inside
    # What is rounded off is nothing, or a cut without links would seem to have some.
    return np.where(out > ROUNDING * matrix.sum(), out, 0.0)


class Partition(Struct, frozen=True, eq=False):
    """One way in which a fabric falls into blocks.

    Parameters
    ----------
    label
        Block of each node, shape (nodes,).
    blocks
        How many there are [1].
    links
        Network links between blocks, shape (links,).
    whole
        Whether a block holds whole HB domains, shape (blocks,).
    """

    label: Ints
    blocks: int
    links: Ints
    whole: Bools

    @classmethod
    def of(cls, graph: FabricGraph, label: Ints) -> Self:
        """Blocks of nodes with the same number."""
        blocks = int(label.max()) + 1
        apart = (label[graph.source] != label[graph.target]) & network_links(graph)
        of_gpu = label[: graph.gpus]
        first = of_gpu[np.arange(graph.gpus) // graph.hb_size * graph.hb_size]
        whole = np.ones(blocks, bool)
        # Where a GPU is apart from the first of its domain, both blocks have a part of it.
        whole[of_gpu[of_gpu != first]] = whole[first[of_gpu != first]] = False
        return cls(label, blocks, np.flatnonzero(apart), whole)

    def capacity(self, graph: FabricGraph, live: Bools) -> Floats:
        """Capacity of the live links out of each block, one way [B/s], shape (blocks,)."""
        links = self.links[live[self.links]]
        rate = graph.bytes_per_s[links]
        out = sum_by(self.label[graph.source[links]], rate, self.blocks)
        return out + sum_by(self.label[graph.target[links]], rate, self.blocks)

    def crossing(self, leg: Leg, gpus: int) -> Floats:
        """Bytes that leave each block or enter it, whichever is more [B], shape (blocks,)."""
        label = self.label[:gpus]
        first, second = label[leg.source], label[leg.destination]
        apart = first != second
        amount = leg.flow_bytes[apart]
        ways = [sum_by(end[apart], amount, self.blocks) for end in (first, second)]
        for products in leg.products:
            block = label[products.gpu]
            ways[0] += sum_by(block, products.sent_beyond(block), self.blocks)
            ways[1] += sum_by(block, products.received_beyond(block), self.blocks)
        return np.maximum(*ways)

    def worst(self, share: Floats) -> Floats:
        """Share of the worst block that nodes of each number are in [1], shape (numbers,)."""
        return share


class CutSets(Partition, frozen=True, eq=False):
    """Runs of positions along one ring, each of whole HB domains: a block is a run of positions."""

    def capacity(self, graph: FabricGraph, live: Bools) -> Floats:
        """Capacity of the live links out of each run, one way [B/s], shape (lengths, positions)."""
        links = self.links[live[self.links]]
        ends = self.label[graph.source[links]], self.label[graph.target[links]]
        one_way = self._between(*ends, graph.bytes_per_s[links])
        return out_of_runs(one_way + one_way.T)

    def crossing(self, leg: Leg, gpus: int) -> Floats:
        """Bytes out of each run or into it, whichever is more [B], shape (lengths, positions)."""
        label = self.label[:gpus]
        amount = self._between(label[leg.source], label[leg.destination], leg.flow_bytes)
        for products in leg.products:
            # What exchanges nothing is in one HB domain, and so at one position.
            group = np.unique(products.label, return_inverse=True)[1]
            shape = (int(group.max(initial=-1)) + 1, self.blocks)
            sent, received = (
                csr_array((share, (group, label[products.gpu])), shape=shape)
                for share in (products.out_share, products.in_share)
            )
            amount += products.pair_bytes * (sent.T @ received).toarray()
        return np.maximum(out_of_runs(amount), out_of_runs(amount.T))

    def worst(self, share: Floats) -> Floats:
        """Share of the worst run that each position is in [1], of all runs, shape (positions,)."""
        worst = np.ones(self.blocks)
        for length in np.flatnonzero((share < 1).any(axis=1)).tolist():
            # A position is in the runs that begin with it, or up to `length` before.
            begin = np.append(share[length, self.blocks - length :], share[length])
            worst = np.minimum(worst, sliding_window_view(begin, length + 1).min(axis=1))
        return worst

    def _between(self, source: Ints, target: Ints, amount: Floats) -> Floats:
        """Amounts from each position to each other, shape (positions, positions)."""
        pairs = sum_by(source * self.blocks + target, amount, self.blocks**2)
        return pairs.reshape(self.blocks, self.blocks)


def partitions(graph: FabricGraph) -> tuple[Partition, ...]:
    """Ways in which a fabric falls into blocks: HB domains first, runs along rings last.

    Examples
    --------
    Leaves of one rail are blocks in part, those of all rails with their domains whole ones.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8, hb_size=4)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> [int(blocks.whole[blocks.label[: graph.gpus]].all()) for blocks in partitions(graph)]
    [1, 0, 1]
    """
    domain = np.full(graph.node_count, graph.domains)
    domain[: graph.gpus] = np.arange(graph.gpus) // graph.hb_size
    # Several groups of links may leave the same blocks; one that holds all GPUs is none.
    labels = [(label, across) for label, across in _labels(graph) if label[: graph.gpus].any()]
    distinct = {label.tobytes(): label for label, _ in labels}
    return (
        *(Partition.of(graph, label) for label in (domain, *distinct.values())),
        *(CutSets.of(graph, label) for label, across in labels if across),
    )


def _labels(graph: FabricGraph) -> Iterator[tuple[Ints, bool]]:
    """Numbers of blocks: what hangs together over some groups of links, and with HB domains.

    And whether they are positions of whole domains along a ring.
    """
    inside = ~network_links(graph)
    kinds = [group for group in graph.groups if group.role not in ("hb", "memory")]
    rings = {group.axis for group in kinds if group.role == "ring"}
    subsets: list[tuple[int, ...]]
    if all(group.role == "ring" for group in kinds):
        axes, axis_of_link = sorted(rings), graph.axis_of_link("ring")
        subsets = [*chain.from_iterable(combinations(axes, n) for n in range(1, len(axes)))]
    else:
        axes = [code for code, group in enumerate(graph.groups) if group in kinds]
        axis_of_link = graph.group.astype(np.int64)
        subsets = [tuple(axes[:size]) for size in range(1, len(axes))]
    for subset in subsets:
        kept = ~inside & np.isin(axis_of_link, subset)
        across = bool(rings) and len(subset) == len(axes) - 1
        for links in (kept, kept | inside) if inside.any() else (kept,):
            label = connected_parts(graph.node_count, graph.source[links], graph.target[links])
            yield label, across and bool(np.all(links[inside]))


def pods_of(graph: FabricGraph) -> Partition | None:
    """Parts that a network falls into without its top tier; None if it has one tier, or none.

    Pods of a three-tier Clos, leaves of a two-tier one, groups of a dragonfly; parts that share HB
    domains count as one, unless that leaves a single one.

    Examples
    --------
    Leaves of a fat tree have eight hosts here, two whole domains each.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16, hb_size=4)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> pods = pods_of(graph)
    >>> pods.label[: graph.gpus : graph.hb_size].tolist(), bool(pods.whole[:8].all())
    ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7], True)
    """
    outer = network_links(graph)
    codes = [code for code, group in enumerate(graph.groups) if group.role != "hb"]
    if len(codes) < 2 or not (graph.node_kind == SWITCH).any():  # noqa: PLR2004 - one tier
        return None
    below = outer & (graph.group != codes[-1])
    for links in (below | ~outer, below):
        label = connected_parts(graph.node_count, graph.source[links], graph.target[links])
        if label[: graph.gpus].any():
            return Partition.of(graph, label)
    return None


class CutOption(Struct, frozen=True, order=True):
    """One relative throughput that the network has without some HB domains.

    Parameters
    ----------
    domains, gpus
        HB domains that are left out, and GPUs of the one that lost most [1].
    network_share, hb_share
        Shares of their bandwidth that network and HB domains have for the others [1].
    members
        Of each level of the network, the members that hold the domains left out [1].
    """

    domains: int
    gpus: int
    network_share: float
    hb_share: float
    members: tuple[int, ...] = ()

    def beats(self, other: "CutOption") -> bool:
        """Whether it is no worse in anything."""
        return (
            self.domains <= other.domains
            and self.gpus <= other.gpus
            and self.network_share >= other.network_share
            and self.hb_share >= other.hb_share
            and all(map(le, self.members, other.members))
        )


class Cuts(Struct, frozen=True, eq=False):
    """The blocks of a fabric, and what its traffic sends over their borders.

    Parameters
    ----------
    graph
        The fabric.
    partitions
        HB domains as blocks, besides them all switches as one; then all other partitions.
    crossing
        Bytes over the border of each block [B], shape (blocks,), or (lengths, positions).
    intact_s
        Time of the worst block, a GPU's ports among them [s]; 0 without traffic.
    """

    graph: FabricGraph
    partitions: tuple[Partition, ...]
    crossing: tuple[Floats, ...]
    intact_s: float

    @classmethod
    def of(cls, graph: FabricGraph, leg: Leg) -> "Cuts":
        """Cuts of the intact fabric under traffic over its network, of :func:`network_leg`.

        Examples
        --------
        Every domain of four GPUs sends 200 GB to another one, over four ports of 50 GB/s.

        >>> from netplan import Scenario
        >>> from netplan.traffic.matrix import flows_matrix
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8, hb_size=4)
        >>> graph = scenario.fabric("rail-only").graph()
        >>> gpu = np.arange(64)
        >>> matrix = flows_matrix(64, source=gpu, destination=(gpu + 4) % 64, flow_bytes=50e9)
        >>> Cuts.of(graph, network_leg(graph, matrix)).intact_s
        1.0
        """
        live = network_links(graph)
        blocks = partitions(graph)
        crossing = tuple(partition.crossing(leg, graph.gpus) for partition in blocks)
        times = [np.maximum(*leg.ends(graph.gpus)) / _positive(gpu_bytes_per_s(graph, live))]
        for partition, amount in zip(blocks, crossing, strict=True):
            times.append(amount / _positive(partition.capacity(graph, live)))
        worst = max(float(time_s[np.isfinite(time_s)].max(initial=0.0)) for time_s in times)
        return cls(graph, blocks, crossing, worst)

    def time_s(self, damage: Damage) -> float:
        """Time over the narrowest cut after a failure [s], which no routing beats.

        Cuts are the blocks of whole HB domains: what GPUs do for each other is inside them. It is
        infinite where nothing passes a cut that some traffic crosses.
        """
        live = network_links(self.graph) & ~damage.links_out(self.graph)
        worst = 0.0
        for partition, amount in zip(self.partitions, self.crossing, strict=True):
            crossed = partition.whole & (amount > 0)
            with np.errstate(divide="ignore"):
                times = amount[crossed] / partition.capacity(self.graph, live)[crossed]
            worst = max(worst, float(times.max(initial=0.0)))
        return worst

    def throughput(
        self, damage: Damage, effects: Effects, hb_share: Floats
    ) -> "RelativeThroughput":
        """Relative throughput of all blocks after a failure.

        Parameters
        ----------
        damage, effects
            What has failed, and whom it cuts off.
        hb_share
            Share of its HB links that each GPU has left [1], shape (gpus,).
        """
        graph = self.graph
        live = network_links(graph) & ~damage.links_out(graph)
        in_part, whole = np.ones(graph.gpus), np.ones(graph.domains)
        for partition, amount in zip(self.partitions[1:], self.crossing[1:], strict=True):
            share = partition.worst(self.share(partition.capacity(graph, live), amount))
            block = partition.label[: graph.gpus]
            in_part = np.minimum(in_part, np.where(partition.whole, 1.0, share)[block])
            of_domain = np.where(partition.whole, share, 1.0)[block[:: graph.hb_size]]
            whole = np.minimum(whole, of_domain)
        rate = gpu_bytes_per_s(graph, live)
        rate[effects.cut_off] = 0.0
        down = np.zeros(graph.gpus, bool)
        down[effects.gpus_down] = down[effects.cut_off_forwarding] = True
        return RelativeThroughput(self, rate, in_part, whole, hb_share, down)

    def share(self, capacity: Floats, amount: Floats) -> Floats:
        """Share of the throughput of the intact fabric that blocks reach [1], at most 1."""
        some = amount > 0
        return np.where(some, np.minimum(1.0, self.intact_s * capacity / _positive(amount)), 1.0)


class RelativeThroughput(Struct, frozen=True, eq=False):
    """What a failure leaves of the throughput of every GPU's way out.

    Parameters
    ----------
    cuts
        The blocks and their traffic.
    rate
        What each GPU can send over its own live ports [B/s], shape (gpus,).
    in_part
        Share of the worst block that each GPU is in and that others may stand in for [1], shape
        (gpus,).
    whole
        Share of the worst block of several domains that each domain is in [1], shape (domains,).
    hb_share
        Share of its HB links that each GPU has left [1], shape (gpus,).
    down
        Whether a GPU has failed, or is out of reach, shape (gpus,).
    """

    cuts: Cuts
    rate: Floats
    in_part: Floats
    whole: Floats
    hb_share: Floats
    down: Bools

    @property
    def share(self) -> float:
        """Bandwidth that the network has left for the job on all domains [1].

        GPUs that have failed are missing with their ports, and no more.
        """
        return max(min(upper, float(shares.min())) for upper, shares, _ in self._steps())

    @property
    def of_domains(self) -> Floats:
        """Share of the way out of every HB domain alone [1], shape (domains,)."""
        best: Floats = np.max([np.minimum(*step[:2]) for step in self._steps()], axis=0)
        return best

    def options(self, sizes: Sequence[int] = ()) -> list[CutOption]:
        """What can be had without which domains; none is worse than another in everything.

        ``sizes`` are those of the levels of the network, whose product are the HB domains [1].
        """
        graph = self.cuts.graph
        first = np.arange(graph.domains) * graph.hb_size
        levels = np.minimum.reduceat(self.hb_share, first)
        lost = np.logical_or.reduceat(self.down, first)
        least, options = float(self.whole.min()), set[CutOption]()
        for hb_share in distinct_values(np.append(levels[levels > 0], 1.0)).tolist():
            short, lower = self.down | (self.hb_share < hb_share), 0.0
            for upper, shares, thin in self._steps():
                hurt = np.add.reduceat((short | thin).astype(np.int64), first)
                reached = np.where(lost | (levels < hb_share), 0.0, shares)
                order = np.argsort(reached, kind="stable")
                ranked, most = reached[order], np.maximum.accumulate(hurt[order])
                inside = ranked[(ranked > lower) & (ranked < upper)]
                for share in distinct_values(np.append(inside, upper)).tolist():
                    count = int(np.searchsorted(ranked, share))
                    # Without some GPUs of every domain blocks of several domains are no wider.
                    gpus = graph.hb_size if least < share else int(most[count - 1])
                    members = tuple(
                        len(distinct_values(order[:count] // prod(sizes[:level]) % size))
                        for level, size in enumerate(sizes)
                    )
                    options.add(CutOption(count, gpus if count else 0, share, hb_share, members))
                lower = upper
        return [
            option
            for option in sorted(options)
            if not any(other.beats(option) for other in options - {option})
        ]

    def _steps(self) -> Iterator[tuple[float, Floats, Bools]]:
        """Shares at which more blocks give up their ports; those of domains then, and GPUs hurt.

        Between two of them the same blocks give up: those that are slower than the upper one.
        """
        graph, amount = self.cuts.graph, self.cuts.crossing[0][: self.cuts.graph.domains]
        domain = np.arange(graph.gpus) // graph.hb_size
        had = gpu_bytes_per_s(graph, network_links(graph))
        for upper in distinct_values(np.append(self.in_part[self.in_part > 0], 1.0)).tolist():
            rate = np.where(self.in_part < upper, 0.0, self.rate)
            share = self.cuts.share(sum_by(domain, rate, graph.domains), amount)
            yield upper, np.minimum(share, self.whole), rate < had


def network_leg(graph: FabricGraph, matrix: TrafficMatrix, *, forwarding: bool = True) -> Leg:
    """Traffic over the network on its usual ways, between GPUs that its links join.

    Without ``forwarding`` it already keeps to rails where it must.

    Raises
    ------
    InputError
        If the traffic is for another number of GPUs, or too large where it must be listed.

    Examples
    --------
    GPU 0 sends to GPU 5, which is on rail 1: over its domain to GPU 1 and then along the rail.

    >>> from netplan import Scenario
    >>> from netplan.traffic.matrix import flows_matrix
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8, hb_size=4)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> leg = network_leg(graph, flows_matrix(64, source=[0], destination=[5], flow_bytes=[1.0]))
    >>> leg.source.tolist(), leg.destination.tolist()
    ([1], [5])
    """
    check_demand(matrix, graph.gpus)
    domains = graph.has("hb")
    rails = domains and not joins_all(graph, np.flatnonzero(network_links(graph)))
    size = graph.hb_size if domains else 1
    return split_demand(matrix, size, forwarding=rails and forwarding).network


def traffic_cuts(graph: FabricGraph, matrix: TrafficMatrix | None) -> Cuts:
    """Cuts of the intact fabric under a job's traffic; without any, under uniform traffic."""
    leg = network_leg(graph, matrix or uniform_traffic(graph), forwarding=matrix is not None)
    return Cuts.of(graph, leg)


def uniform_traffic(graph: FabricGraph) -> TrafficMatrix:
    """A byte from every GPU to its peer in each other full HB domain."""
    full = graph.gpus // graph.hb_size
    peers = np.arange(full * graph.hb_size, dtype=np.int32).reshape(full, -1).T
    groups = UniformGroups(peers, 1.0, KINDS.index("other"))
    return replace(no_traffic(graph.gpus), groups=(groups,))


def gpu_bytes_per_s(graph: FabricGraph, links: Bools) -> Floats:
    """What each GPU can send over some links, all together [B/s], shape (gpus,).

    Examples
    --------
    Four links of 50 GB/s leave each GPU of a torus.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8, hb_size=4, ports="full")
    >>> graph = scenario.fabric("torus-2d").graph()
    >>> (gpu_bytes_per_s(graph, network_links(graph))[:2] / 1e9).tolist()
    [200.0, 200.0]
    """
    ends = np.concatenate([graph.source[links], graph.target[links]])
    rate = np.tile(graph.bytes_per_s[links], 2)
    return sum_by(ends[ends < graph.gpus], rate[ends < graph.gpus], graph.gpus)


def _positive(values: Floats) -> Floats:
    """Values to divide by; nothing takes forever."""
    return np.where(values > 0, values, np.inf)
