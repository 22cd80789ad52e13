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

A pace that not all reach is one that some reach: `Paces.options` says how many domains must be left
out for which pace. Not seen: links that are whole but in the wrong place (a cut that is no block),
and equal splitting, for which see `netplan.faults.damage.rerouting`.

Cuts across the rings of a torus: runs of slabs, wherever they begin and end.

All nodes at one position of an axis are a slab. Each run of slabs, up to half of the ring, is a
block: a wrapped ring is cut in two at any two positions, so that links lost together are seen
wherever they are. What leaves run I of a matrix M between slabs is

    sum of M[s, t] over s in I, t not in I  =  sum over rows of I  -  sum over I x I,

for all runs at once by sums along both axes.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod
from operator import le
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.sparse import csr_array

from netplan.arrays import Bools, Floats, Ints, distinct_values
from netplan.faults.damage.damage import Damage, Effects, network_links
from netplan.records import replace
from netplan.topologies.graph import HB_GROUP, MEMORY_GROUP, SWITCH, FabricGraph, connected_parts
from netplan.traffic.demand import Leg, Products, check_demand, split_demand
from netplan.traffic.matrix import KINDS, TrafficMatrix, UniformGroups, no_traffic, sum_by
from netplan.traffic.routing import has_domains, joins_all
from netplan.traffic.routing_torus import RING

ROUNDING = 1e-12
"""Part of all amounts that sums may be wrong by [1]."""


def out_of_runs(matrix: Floats) -> Floats:
    """What leaves each run of 1, 2, ... up to half of all slabs, shape (lengths, slabs).

    Run (l, s) has l + 1 slabs, of which s is the first.

    Parameters
    ----------
    matrix
        What goes from each slab to each other, shape (slabs, slabs).

    Examples
    --------
    Four slabs that send one to the next one each: so does any run.

    >>> out_of_runs(np.roll(np.eye(4), 1, axis=1)).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    slabs = len(matrix)
    twice = np.zeros((2 * slabs + 1, 2 * slabs + 1))
    twice[1:, 1:] = np.tile(matrix, (2, 2)).cumsum(axis=0).cumsum(axis=1)
    first = np.arange(slabs)
    last = first + 1 + np.arange(slabs // 2)[:, None]
    rows = twice[last, slabs] - twice[first, slabs]
    inside = twice[last, last] - twice[first, last] - twice[last, first] + twice[first, first]
    out: Floats = rows - inside
    # What is rounded off is nothing, or a cut without links would seem to have some.
    return np.where(out > ROUNDING * matrix.sum(), out, 0.0)


class Slabs(Struct, frozen=True, eq=False):
    """The slabs along one axis, which hold whole HB domains.

    Parameters
    ----------
    label
        Position of each node, shape (nodes,).
    slabs
        How many there are [1].
    links
        Network links between slabs, shape (links,).
    """

    label: Ints
    slabs: int
    links: Ints

    @classmethod
    def of(cls, graph: FabricGraph, label: Ints) -> "Slabs":
        """Slabs of nodes with the same number."""
        apart = (label[graph.source] != label[graph.target]) & network_links(graph)
        return cls(label, int(label.max()) + 1, np.flatnonzero(apart))

    @property
    def whole(self) -> Bools:
        """Whether a run holds whole HB domains, shape (lengths, slabs)."""
        return np.ones((self.slabs // 2, self.slabs), bool)

    def capacity(self, graph: FabricGraph, live: Bools) -> Floats:
        """Capacity of the live links out of each run, one way [B/s], shape (lengths, slabs)."""
        links = self.links[live[self.links]]
        ends = self.label[graph.source[links]], self.label[graph.target[links]]
        one_way = self._between(*ends, graph.bytes_per_s[links])
        return out_of_runs(one_way + one_way.T)

    def crossing(self, leg: Leg, gpus: int) -> Floats:
        """Bytes that leave each run or enter it, whichever is more [B], shape (lengths, slabs)."""
        label = self.label[:gpus]
        amount = self._between(label[leg.source], label[leg.destination], leg.flow_bytes)
        for products in leg.products:
            amount += self._of_products(products, label[products.gpu])
        return np.maximum(out_of_runs(amount), out_of_runs(amount.T))

    def worst(self, pace: Floats) -> Floats:
        """Pace of the worst run that each slab is in [1], of those of all runs, shape (slabs,)."""
        found = np.ones(self.slabs)
        for length in np.flatnonzero((pace < 1).any(axis=1)).tolist():
            # A slab is in the runs that begin with it, or up to `length` slabs before.
            begin = np.append(pace[length, self.slabs - length :], pace[length])
            found = np.minimum(found, sliding_window_view(begin, length + 1).min(axis=1))
        return found

    def _between(self, source: Ints, target: Ints, amount: Floats) -> Floats:
        """Amounts from each slab to each other, shape (slabs, slabs)."""
        found = sum_by(source * self.slabs + target, amount, self.slabs**2)
        return found.reshape(self.slabs, self.slabs)

    def _of_products(self, products: Products, slab: Ints) -> Floats:
        """Bytes between slabs; what exchanges nothing is in one HB domain, and so in one slab."""
        label = np.unique(products.label, return_inverse=True)[1]
        shape = (int(label.max(initial=-1)) + 1, self.slabs)
        sent, received = (
            csr_array((share, (label, slab)), shape=shape)
            for share in (products.out_share, products.in_share)
        )
        found: NDArray[np.float64] = products.pair_bytes * (sent.T @ received).toarray()
        return found


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
    def of(cls, graph: FabricGraph, label: Ints) -> "Partition":
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
            own = label[products.gpu]
            ways[0] += sum_by(own, products.sent_beyond(own), self.blocks)
            ways[1] += sum_by(own, products.received_beyond(own), self.blocks)
        return np.maximum(*ways)


def partitions(graph: FabricGraph) -> tuple[Partition, ...]:
    """Ways in which a fabric falls into blocks; HB domains come first.

    Examples
    --------
    Leaves of one rail are blocks in part, those of all rails with their domains whole ones.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8, hb_size=4)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> [int(one.whole[one.label[: graph.gpus]].all()) for one in partitions(graph)]
    [1, 0, 1]
    """
    domain = np.full(graph.node_count, graph.domains)
    domain[: graph.gpus] = np.arange(graph.gpus) // graph.hb_size
    # Several groups of links may leave the same blocks; one that holds all GPUs is none.
    labels = {one.tobytes(): one for one, _ in _labels(graph) if one[: graph.gpus].any()}
    return tuple(Partition.of(graph, label) for label in (domain, *labels.values()))


def slabs_of(graph: FabricGraph) -> tuple[Slabs, ...]:
    """Slabs of whole HB domains along each ring of a fabric."""
    labels = [one for one, across in _labels(graph) if across and one[: graph.gpus].any()]
    return tuple(Slabs.of(graph, label) for label in labels)


def _labels(graph: FabricGraph) -> Iterator[tuple[Ints, bool]]:
    """Numbers of blocks: what hangs together over some groups of links, and with HB domains.

    And whether they are slabs of whole domains across a ring.
    """
    inside = ~network_links(graph)
    names = [name for name in graph.group_names if name not in (HB_GROUP, MEMORY_GROUP)]
    group_of_link = [names.index(name) if name in names else 0 for name in graph.group_names]
    rings = [name for name in names if name.startswith(RING)]
    if len(rings) == len(names):
        axes = sorted({name.split()[1] for name in rings})
        axis = np.array([axes.index(name.split()[1]) for name in names])
        subsets = [
            one for size in range(1, len(axes)) for one in combinations(range(len(axes)), size)
        ]
    else:
        axes, axis = names, np.arange(len(names))
        subsets = [tuple(range(size)) for size in range(1, len(names))]
    axis_of_link = axis[np.array(group_of_link)][graph.group] if names else inside
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
    names = [name for name in graph.group_names if name != HB_GROUP]
    if len(names) < 2 or not (graph.node_kind == SWITCH).any():  # noqa: PLR2004 - one tier
        return None
    below = outer & (graph.group != graph.group_names.index(names[-1]))
    for links in (below | ~outer, below):
        label = connected_parts(graph.node_count, graph.source[links], graph.target[links])
        if label[: graph.gpus].any():
            return Partition.of(graph, label)
    return None


class Option(Struct, frozen=True, order=True):
    """One pace that the network has without some HB domains.

    Parameters
    ----------
    domains, gpus
        HB domains that are left out, and GPUs of the one that lost most [1].
    pace, hb_pace
        Shares of their bandwidth that network and HB domains have for the others [1].
    members
        Of each level of the network, the members that hold the domains left out [1].
    """

    domains: int
    gpus: int
    pace: float
    hb_pace: float
    members: tuple[int, ...] = ()

    def beats(self, other: "Option") -> bool:
        """Whether it is no worse in anything."""
        return (
            self.domains <= other.domains
            and self.gpus <= other.gpus
            and self.pace >= other.pace
            and self.hb_pace >= other.hb_pace
            and all(map(le, self.members, other.members))
        )


class Cuts(Struct, frozen=True, eq=False):
    """The blocks of a fabric, and what its traffic sends over their borders.

    Parameters
    ----------
    graph
        The fabric.
    domains, others
        HB domains as blocks, besides them all switches as one; and all other partitions.
    runs
        Slabs along each ring, of which runs are blocks.
    domain_bytes, other_bytes, run_bytes
        Bytes over the border of each block [B], shape (blocks,), or (lengths, slabs).
    intact_s
        Time of the worst block, a GPU's ports among them [s]; 0 without traffic.
    """

    graph: FabricGraph
    domains: Partition
    others: tuple[Partition, ...]
    runs: tuple[Slabs, ...]
    domain_bytes: Floats
    other_bytes: tuple[Floats, ...]
    run_bytes: tuple[Floats, ...]
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
        domains, *others = partitions(graph)
        runs = slabs_of(graph)
        of_domain = domains.crossing(leg, graph.gpus)
        of_others = tuple(one.crossing(leg, graph.gpus) for one in others)
        of_runs = tuple(one.crossing(leg, graph.gpus) for one in runs)
        times = [np.maximum(*leg.ends(graph.gpus)) / _positive(gpu_bytes_per_s(graph, live))]
        blocks: tuple[Partition | Slabs, ...] = (domains, *others, *runs)
        for one, amount in zip(blocks, (of_domain, *of_others, *of_runs), strict=True):
            times.append(amount / _positive(one.capacity(graph, live)))
        worst = max(float(each[np.isfinite(each)].max(initial=0.0)) for each in times)
        return cls(graph, domains, tuple(others), runs, of_domain, of_others, of_runs, worst)

    def time_s(self, damage: Damage) -> float:
        """Time over the narrowest cut after a failure [s], which no routing beats.

        Cuts are the blocks of whole HB domains: what GPUs do for each other is inside them. It is
        infinite where nothing passes a cut that some traffic crosses.
        """
        live = network_links(self.graph) & ~damage.links_out(self.graph)
        worst = 0.0
        blocks: tuple[Partition | Slabs, ...] = (self.domains, *self.others, *self.runs)
        amounts = (self.domain_bytes, *self.other_bytes, *self.run_bytes)
        for one, amount in zip(blocks, amounts, strict=True):
            crossed = one.whole & (amount > 0)
            with np.errstate(divide="ignore"):
                times = amount[crossed] / one.capacity(self.graph, live)[crossed]
            worst = max(worst, float(times.max(initial=0.0)))
        return worst

    def paces(self, damage: Damage, effects: Effects, hb_share: Floats) -> "Paces":
        """Paces of all blocks after a failure.

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
        first = np.arange(graph.domains) * graph.hb_size
        for one, amount in zip(self.others, self.other_bytes, strict=True):
            pace = self._pace(one.capacity(graph, live), amount)
            of_gpu = one.label[: graph.gpus]
            in_part = np.minimum(in_part, np.where(one.whole, 1.0, pace)[of_gpu])
            whole = np.minimum(whole, np.where(one.whole, pace, 1.0)[of_gpu[first]])
        for runs, amount in zip(self.runs, self.run_bytes, strict=True):
            worst = runs.worst(self._pace(runs.capacity(graph, live), amount))
            whole = np.minimum(whole, worst[runs.label[first]])
        rate = gpu_bytes_per_s(graph, live)
        rate[effects.cut_off] = 0.0
        down = np.zeros(graph.gpus, bool)
        down[effects.gpus_down] = down[effects.cut_off_forwarding] = True
        return Paces(self, rate, in_part, whole, hb_share, down)

    def _pace(self, capacity: Floats, amount: Floats) -> Floats:
        """Share of the pace of the intact fabric that blocks reach [1], at most 1."""
        some = amount > 0
        return np.where(some, np.minimum(1.0, self.intact_s * capacity / _positive(amount)), 1.0)

    def domain_pace(self, rate: Floats) -> Floats:
        """Pace of every HB domain, given what each GPU can send [B/s], shape (domains,)."""
        domain = np.arange(self.graph.gpus) // self.graph.hb_size
        return self._pace(
            sum_by(domain, rate, self.graph.domains), self.domain_bytes[: self.graph.domains]
        )


class Paces(Struct, frozen=True, eq=False):
    """What a failure leaves of the pace of every GPU's way out.

    Parameters
    ----------
    cuts
        The blocks and their traffic.
    rate
        What each GPU can send over its own live ports [B/s], shape (gpus,).
    in_part
        Pace of the worst block that each GPU is in and that others may stand in for, shape (gpus,).
    whole
        Pace of the worst block of several domains that each domain is in, shape (domains,).
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
        return max(min(upper, float(found.min())) for upper, found, _ in self._steps())

    @property
    def of_domains(self) -> Floats:
        """Pace of the way out of every HB domain alone [1], shape (domains,)."""
        found = [np.minimum(upper, paces) for upper, paces, _ in self._steps()]
        best: Floats = np.max(found, axis=0)
        return best

    def options(self, sizes: Sequence[int] = ()) -> list[Option]:
        """What can be had without which domains; none is worse than another in everything.

        ``sizes`` are those of the levels of the network, whose product are the HB domains [1].
        """
        graph = self.cuts.graph
        levels = _by_domain(graph, np.minimum, self.hb_share)
        lost = _by_domain(graph, np.logical_or, self.down)
        found: set[Option] = set()
        for hb_pace in distinct_values(np.append(levels[levels > 0], 1.0)).tolist():
            out = lost | (levels < hb_pace)
            short, lower = self.down | (self.hb_share < hb_pace), 0.0
            for upper, paces, thin in self._steps():
                hurt = _by_domain(graph, np.add, (short | thin).astype(np.int64))
                reached = np.where(out, 0.0, paces)
                ranks = _Ranks(reached, hurt, self.whole, graph.hb_size, tuple(sizes))
                found.update(ranks.options((lower, upper), hb_pace))
                lower = upper
        return [one for one in sorted(found) if not any(b.beats(one) for b in found - {one})]

    def _steps(self) -> Iterator[tuple[float, Floats, Bools]]:
        """Paces at which more blocks give up their ports; then those of domains, and GPUs hurt.

        Between two such paces the same blocks give up: those that are slower than the upper one.
        """
        graph = self.cuts.graph
        had = gpu_bytes_per_s(graph, network_links(graph))
        for upper in distinct_values(np.append(self.in_part[self.in_part > 0], 1.0)).tolist():
            rate = np.where(self.in_part < upper, 0.0, self.rate)
            yield upper, np.minimum(self.cuts.domain_pace(rate), self.whole), rate < had


class _Ranks(Struct, frozen=True, eq=False):
    """Domains by the pace that they reach, with their hurt GPUs, and the pace of their blocks.

    ``size`` are the GPUs of a domain, ``sizes`` the members of the network's levels.
    """

    pace: Floats
    hurt: Ints
    whole: Floats
    size: int
    sizes: tuple[int, ...]

    def options(self, between: tuple[float, float], hb_pace: float) -> Iterator[Option]:
        """Paces above one and up to another, and what must be left out for each."""
        order = np.argsort(self.pace, kind="stable")
        ranked, most = self.pace[order], np.maximum.accumulate(self.hurt[order])
        inside = ranked[(ranked > between[0]) & (ranked < between[1])]
        least = float(self.whole.min())
        for pace in distinct_values(np.append(inside, between[1])).tolist():
            domains = int(np.searchsorted(ranked, pace))
            # Without some GPUs of every domain the blocks of several domains are no wider.
            gpus = self.size if least < pace else int(most[domains - 1])
            members = tuple(self._members(order[:domains]))
            yield Option(domains, gpus if domains else 0, pace, hb_pace, members)

    def _members(self, domains: Ints) -> Iterator[int]:
        """Of each level, the members that some domains are in."""
        for level, size in enumerate(self.sizes):
            yield len(distinct_values(domains // prod(self.sizes[:level]) % size))


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
    domains = has_domains(graph)
    rails = domains and not joins_all(graph, np.flatnonzero(network_links(graph)))
    size = graph.hb_size if domains else 1
    return split_demand(matrix, size, forwarding=rails and forwarding).network


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


def _by_domain(graph: FabricGraph, combine: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
    """Combine the values of the GPUs of each domain, shape (domains,)."""
    found: NDArray[Any] = combine.reduceat(values, np.arange(graph.domains) * graph.hb_size)
    return found


def _positive(values: Floats) -> Floats:
    """Values to divide by; nothing takes forever."""
    return np.where(values > 0, values, np.inf)
