"""What flows ask of the links of a fabric: how long a byte of them keeps each link busy.

Flows go where `netplan.traffic` sends them: the pairs of a collective by its pattern, the paths by
the routing of the fabric. Packets keep a link busy for what it carries of them, over its rate. With
hashed routing every pair of GPUs keeps the path that it has drawn for the whole iteration. Memory
behind channels is reached over the links to the nearest one.

A link serves whole messages in the order of their issue. Packets of several messages would take
turns: a short message behind a long one waits too long here, the long one no time.

A core of a tiled accelerator uses the channel of its tile that is the fewest links away, of equally
near ones the first. What it moves takes its path there, reads and writes alike, and then the
channel, which carries both together.
"""

from functools import cached_property
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Indices, Ints
from netplan.errors import InputError
from netplan.records import replace
from netplan.simulation.tasks import Flows
from netplan.topologies.graph import FabricGraph
from netplan.traffic.flow_paths import PathFinder, PathRouter, check_entries
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import TrafficMatrix, combine, flows_matrix
from netplan.traffic.patterns import Pattern, both_ways
from netplan.traffic.placement import Placement
from netplan.traffic.routing import Routing
from netplan.traffic.training import use_levels, use_traffic
from netplan.workloads.operations import CollectiveKind
from netplan.workloads.program import CollectiveUse


class Channels(Struct, frozen=True, eq=False):
    """The memory channel of every core.

    Parameters
    ----------
    core
        At which core it is, shape (gpus,).
    link
        The link that it is, shape (gpus,).
    """

    core: Ints
    link: Ints

    def seconds(self, graph: FabricGraph, gpus: Ints) -> Floats:
        """How long some cores keep every link busy that is a channel with a byte each [s].

        Of shape (2, links); away from the cores is the direction that counts.
        """
        busy_s = np.zeros((2, graph.link_count))
        busy_s[0] = np.bincount(self.link[gpus], minlength=graph.link_count) / graph.bytes_per_s
        return busy_s


def channels_of(graph: FabricGraph) -> Channels | None:
    """The memory channel of every core; None if there are none, or not for all cores.

    Examples
    --------
    Core 2 of the first tile goes one core on and one down, to core 7.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(gpus=320, radix=64, hb_size=1,
    ...                 hb_bytes_per_s=1024e9, network_bytes_per_s=256e9)
    >>> graph = expand(FABRICS.load("palm-wafer"), sizing)
    >>> found = channels_of(graph)
    >>> int(found.core[2]), graph.node_name(int(graph.target[found.link[2]]))
    (7, 'row-0/tile-0/memory-1')
    """
    if not graph.has("memory"):
        return None
    links = graph.links_with("memory")
    none = graph.link_count
    nearest = np.full(graph.gpus, none)
    np.minimum.at(nearest, graph.source[links], links)
    between = (graph.source < graph.gpus) & (graph.target < graph.gpus)
    inside = ~np.array([group.crosses for group in graph.groups])[graph.group]
    for used in (between & inside, between):  # over borders only from tiles without a channel
        ends = graph.source[used], graph.target[used]
        here, there = (np.concatenate(pair) for pair in (ends, ends[::-1]))
        while (step := (nearest[here] < none) & (nearest[there] == none)).any():
            np.minimum.at(nearest, there[step], nearest[here[step]])
    if (nearest == none).any():
        return None
    return Channels(graph.source[nearest].astype(np.int64), nearest)


MANTISSA = float(1 << 40)
"""Times of links are rounded to as many parts of themselves, so that equal links are equal [1]."""


RunRouting = Routing | Literal["static"]
"""How messages of a run find their way."""


class Transport(Struct, frozen=True, eq=False):
    """A fabric's links, and how messages take them.

    Parameters
    ----------
    graph
        Every link.
    placement
        Groups of ranks.
    gpu_of_rank
        Which GPU each rank is, shape (ranks,).
    algorithm
        Which pairs of a group talk.
    routing, seed
        How messages find their way; seed of hashed paths.
    connections
        Of every pair, each hashed by itself [1].
    rates
        Share of its rate that each link has, shape (links,); None where all have all of it [1].
    routes
        Ways round links that have failed; None where all are there.
    efficiency
        Share of the rate that messages get [1].
    two_way_rings
        Whether collectives send half of their bytes the other way round, as on tori.
    in_phases
        Whether collectives use one level after the other; else all at once.

    Raises
    ------
    InputError
        If the rates are not one for each link, or no shares.
    """

    graph: FabricGraph
    placement: Placement
    gpu_of_rank: Indices
    algorithm: Pattern = "hierarchical"
    routing: RunRouting = "auto"
    seed: int = 0
    connections: int = 1
    rates: Floats | None = None
    routes: PathFinder | None = None
    efficiency: float = 1.0
    two_way_rings: bool = False
    in_phases: bool = False

    def __post_init__(self) -> None:
        """Refuse rates of other links."""
        if self.rates is None:
            return
        if self.rates.shape != (self.graph.link_count,):
            raise InputError(
                f"rates are given for {self.rates.size:,} links, {self.graph.name} has"
                f" {self.graph.link_count:,}: give one each"
            )
        bad = np.flatnonzero(~((self.rates >= 0) & (self.rates < np.inf)))
        if len(bad):
            raise InputError(
                f"link {bad[0]} has {self.rates[bad[0]]:g} of its rate: give at least 0, 1 for all"
            )


class PairLinks(Struct, frozen=True, eq=False):
    """One level of a collective, pair by pair, or transfers: a flow each, or one a connection.

    Parameters
    ----------
    steps
        In which a flow sends its bytes, as much in each [1].
    pair, before
        Pair of every flow, and of every pair the one whose step comes before its next one besides
        its own; -1 where none does, shape (flows,) and (pairs,).
    flow_bytes
        Of every flow, of a byte of the message, shape (flows,) [B].
    flow, links, seconds_per_byte
        Links that flows take, and their time for a byte of the message, shape (entries,) [s/B].
    busiest_s_per_byte
        Time of the busiest link where all send at once [s/B].
    """

    steps: int
    pair: Ints
    before: Ints
    flow_bytes: Floats
    flow: Ints
    links: Ints
    seconds_per_byte: Floats
    busiest_s_per_byte: float


class LinkTimes(Struct, frozen=True, eq=False):
    """How long one byte of some flows keeps the links busy that it takes.

    Parameters
    ----------
    links
        Codes: link l from source to target, links + l back, rising, shape (used,).
    seconds_per_byte
        Busy time of each of them [s/B], shape (used,).
    delayed_s_per_byte
        What degraded links and ways round failed ones add to the time that the flows take alone;
        less than 0 where links are faster than as they were built [s/B].
    pair_bytes
        What the pair of GPUs that sends most sends of one byte of them [1].
    levels
        The same pair by pair, level by level, where every step is a message; none where the pairs
        advance at one rate.
    in_phases
        Whether levels follow each other; else they go on side by side.
    """

    links: Ints
    seconds_per_byte: Floats
    delayed_s_per_byte: float = 0.0
    pair_bytes: float = 1.0
    levels: tuple[PairLinks, ...] = ()
    in_phases: bool = False

    @property
    def carried_s_per_byte(self) -> float:
        """Time of the slowest link for a byte, one phase after the other where these are [s/B]."""
        busiest = [level.busiest_s_per_byte for level in self.levels]
        if busiest:
            return sum(busiest) if self.in_phases else max(busiest)
        return float(self.seconds_per_byte.max(initial=0.0))


class FlowRouter:
    """Looks up what flows ask of the links."""

    def __init__(self, transport: Transport) -> None:
        """Nothing is routed yet."""
        self.transport = transport
        routing = "ecmp" if transport.routing == "static" else transport.routing
        self._router = PathRouter(transport.graph, routing)
        self._matrices: dict[tuple[object, ...], TrafficMatrix] = {}

    def times(self, flows: Flows) -> LinkTimes:
        """What one byte of some flows does to links.

        Raises
        ------
        InputError
            If a path is missing, or a link that is needed has no rate.
        """
        transport = self.transport
        traffic = self._traffic(flows)
        loads = self._seconds(flows, self._loads(traffic)).ravel()
        codes = np.flatnonzero(loads)
        now = whole = codes, loads[codes]
        if transport.routes is not None:
            loads = self._seconds(flows, transport.routes.loads(traffic)).ravel()
            codes = np.flatnonzero(loads)
            now = codes, loads[codes]
        if transport.rates is not None:
            codes, times = now
            left = transport.rates[codes % transport.graph.link_count]
            self._check_alive(codes[left == 0])
            now = codes, times / left
        # What a core moves takes one way, and as long as the slowest link there.
        delayed = 0.0
        if now is not whole and not flows.memory:
            # Damage adds to each phase what its busiest link takes more.
            slow, fast = (self._longest(*part).tolist() for part in (now, whole))
            delayed = max(0.0, sum(map(float.__sub__, slow, fast)))
        codes, times = now
        # Bytes of the pair that sends most; 1 where nothing is sent.
        of_groups = max((groups.pair_bytes for groups in traffic.groups), default=0.0)
        most = max(of_groups, float(traffic.flow_bytes.max(initial=0.0))) or 1.0
        return LinkTimes(codes, _rounded(times), delayed, most)

    def by_pairs(self, flows: Flows) -> LinkTimes:
        """The same with every pair by itself.

        Raises
        ------
        InputError
            As of :meth:`times`; if paths or steps would take gigabytes.
        """
        times = self.times(flows)
        if flows.memory:
            return times
        levels = tuple(
            self._pairs(matrix, steps)
            for matrix, steps in self._levels(flows)
            if matrix.total_bytes
        )
        return replace(times, levels=levels, in_phases=self.transport.in_phases)

    def _levels(self, flows: Flows) -> list[tuple[TrafficMatrix, int]]:
        """One byte of each level of a collective, or of a transfer, and its steps."""
        if not flows.dimensions:
            return [(self._traffic(flows), 1)]
        transport = self.transport
        use, ranks = self._use(flows)
        levels = use_levels(use, ranks, transport.algorithm, gpus=ranks.gpus)
        share = self._share_of(flows)
        gpus = transport.graph.gpus
        return [
            (matrix.relabelled(transport.gpu_of_rank, gpus).weighted(share), steps)
            for matrix, steps in levels
        ]

    def _pairs(self, matrix: TrafficMatrix, steps: int) -> PairLinks:
        """Links of every pair of a level, of which each sends after the one that sends to it."""
        transport, graph = self.transport, self.transport.graph
        pairs = matrix.flow_count
        check_entries(graph, 2 * pairs * transport.connections * steps)
        listed = matrix.listed()
        ways = [(listed.source, listed.destination, listed.flow_bytes)]
        if transport.two_way_rings and steps > 1:  # half of the bytes go the other way round
            half = listed.flow_bytes / 2
            ways = [
                (listed.source, listed.destination, half),
                (listed.destination, listed.source, half),
            ]
        before = []
        for turn, (here, there, _) in enumerate(ways):
            # The pair that sends to the source of each pair, where none else does.
            senders, pair_to = np.bincount(there, minlength=graph.gpus), np.full(graph.gpus, -1)
            pair_to[there] = np.arange(len(there))
            sender = np.where(senders[here] == 1, pair_to[here], -1)
            before.append(np.where(sender < 0, -1, sender + turn * pairs))
        source, destination, amount = map(np.concatenate, zip(*ways, strict=True))
        count = transport.connections
        pair = np.repeat(np.arange(len(source)), count)
        capacity = np.tile(graph.bytes_per_s, 2) * transport.efficiency
        if transport.rates is not None:
            capacity *= np.tile(transport.rates, 2)
        router = transport.routes or self._router
        paths = router.paths(
            source[pair],
            destination[pair],
            capacity,
            way=transport.routing if transport.routing in ("hashed", "static") else "split",
            seed=transport.seed,
            connection=np.tile(np.arange(count), len(source)),
        )
        flow_bytes = amount[pair] / count
        seconds = paths.share * flow_bytes[paths.flow] / capacity[paths.code]
        return PairLinks(
            steps=steps,
            pair=pair,
            before=np.concatenate(before),
            flow_bytes=flow_bytes,
            flow=paths.flow,
            links=paths.code,
            seconds_per_byte=_rounded(seconds),
            busiest_s_per_byte=float(np.bincount(paths.code, seconds, 1).max()),
        )

    def _loads(self, traffic: TrafficMatrix) -> LinkLoads:
        """Bytes on every link that is there."""
        transport, router = self.transport, self._router
        if transport.routing == "static":
            return router.carried(traffic, way="static")
        if transport.routing != "hashed":
            return router.loads(traffic)
        many = {"seed": transport.seed, "connections": transport.connections}
        return router.carried(traffic, way="hashed", **many)

    def _seconds(self, flows: Flows, loads: LinkLoads) -> Floats:
        """Time that every link takes for these loads [s], shape (2, links).

        Memory traffic has all of a rate, as its closed form has, and the channels besides.
        """
        if not flows.memory:
            return loads.link_s / self.transport.efficiency
        channels_s = self._channels.seconds(self.transport.graph, self._senders(flows))
        return np.add(loads.link_s, channels_s)

    def _check_alive(self, dead: Ints) -> None:
        """Refuse links without any rate that something needs."""
        graph = self.transport.graph
        if len(dead):
            link = int((dead % graph.link_count).min())
            ends = graph.source[link], graph.target[link]
            first, second = (graph.node_name(int(end)) for end in ends)
            raise InputError(
                f"link {link} from {first} to {second} has no rate left, and routes stay as they"
                " are: give it a share above 0, or ask netplan faults"
            )

    def _longest(self, codes: Ints, times: Floats) -> Floats:
        """What the busiest link of each phase takes, shape (phases,) [s]."""
        longest = np.zeros(len(self.transport.graph.groups) + 1)
        np.maximum.at(longest, self._phase_of_link[codes % self.transport.graph.link_count], times)
        return longest

    @cached_property
    def _phase_of_link(self) -> Ints:
        """Phase of a collective: of HB domains, each axis of a torus; all of the network is one."""
        graph = self.transport.graph
        phases = np.full(len(graph.groups), len(graph.groups))
        for code, group in enumerate(graph.groups):
            if self.transport.in_phases and group.role in ("hb", "ring"):
                phases[code] = code
        return phases[graph.group]

    def _traffic(self, flows: Flows) -> TrafficMatrix:
        """One byte a message: of all groups of the stage, or of all ranks that hand on."""
        gpus = self.transport.graph.gpus
        if flows.memory:
            senders = self._senders(flows)
            cores = self._channels.core[senders]
            ends = {"source": senders[cores != senders], "destination": cores[cores != senders]}
            return flows_matrix(gpus, **ends, flow_bytes=1.0, kind="pipeline")
        if not flows.dimensions:
            ends = {"source": self._senders(flows), "destination": self._senders(flows, flows.to)}
            return flows_matrix(gpus, **ends, flow_bytes=1.0, kind="pipeline")
        return self._collective(flows).weighted(self._share_of(flows))

    def _share_of(self, flows: Flows) -> Floats:
        """Which GPUs are of the stage, and of the replica, that some flows are of, 1 each [1]."""
        share = np.zeros(self.transport.graph.gpus)
        share[self._gpus_of_chains[:, flows.stage]] = 1.0
        if flows.replica is not None:
            share *= self._replica_of_gpu == flows.replica
        return share

    def _senders(self, flows: Flows, stage: int | None = None) -> Ints:
        """GPUs of the stage that sends, or of another one, in the order of the pipelines."""
        chain = self._gpus_of_chains
        if flows.replica is not None:
            chain = chain[self._replica_of_gpu[chain[:, 0]] == flows.replica]
        return chain[:, flows.stage if stage is None else stage].astype(np.int64)

    @cached_property
    def _channels(self) -> Channels:
        """Memory channels, where something is moved to them."""
        channels = channels_of(self.transport.graph)
        if channels is None:
            raise InputError(
                f"{self.transport.graph.name} has no memory channel for every core: give its tiles"
                " channels"
            )
        return channels

    def _use(self, flows: Flows) -> tuple[CollectiveUse, Placement]:
        """One byte of a collective, and its ranks in the order of their numbers."""
        kind: CollectiveKind = "all_to_all" if flows.to_all else "all_gather"
        placed = self.transport.placement
        ranks = Placement(placed.levels, kinds=placed.kinds, folded=placed.folded)
        use = CollectiveUse("data", kind, flows.dimensions, 1.0, 1.0)
        return replace(use, weights=flows.weights, back=flows.back), ranks

    def _collective(self, flows: Flows) -> TrafficMatrix:
        """One byte of a collective in all groups; of single replicas, pair by pair."""
        key = flows.dimensions, flows.to_all, flows.weights, flows.back
        if key not in self._matrices:
            transport, (use, ranks) = self.transport, self._use(flows)
            among = use_traffic(use, ranks, transport.algorithm, gpus=ranks.gpus)
            matrix = among.relabelled(transport.gpu_of_rank, transport.graph.gpus)
            if transport.two_way_rings and not flows.weights:
                matrix = both_ways(matrix)
            self._matrices[key] = matrix if flows.replica is None else combine([matrix.listed()])
        return self._matrices[key]

    @cached_property
    def _gpus_of_chains(self) -> Indices:
        """GPU of each stage of each pipeline, shape (pipelines, stages)."""
        return self.transport.gpu_of_rank[self.transport.placement.groups("pipeline", snake=True)]

    @cached_property
    def _replica_of_gpu(self) -> Ints:
        """Data parallel replica of each GPU; -1 of idle ones, shape (gpus,)."""
        replicas = np.full(self.transport.graph.gpus, -1, np.int64)
        ranks = self.transport.placement.groups("data")
        replicas[self.transport.gpu_of_rank[ranks]] = np.arange(ranks.shape[1])
        return replicas


def _rounded(times: Floats) -> Floats:
    """Times to 40 bits, which links that carry the same share.

    >>> bool(_rounded(np.array([0.1 + 0.2]))[0] == _rounded(np.array([0.3]))[0])
    True
    """
    mantissa, exponent = np.frexp(times)
    return np.ldexp(np.round(mantissa * MANTISSA) / MANTISSA, exponent)
