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
from typing import Protocol

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Indices, Ints
from netplan.errors import InputError
from netplan.simulation.tasks import Flows
from netplan.topologies.graph import FabricGraph
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import TrafficMatrix, combine, flows_matrix
from netplan.traffic.patterns import Pattern, both_ways
from netplan.traffic.placement import Placement
from netplan.traffic.routing import Router, Routing
from netplan.traffic.training import use_traffic
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


class Routes(Protocol):
    """Ways over what is left of a fabric."""

    def loads(self, demand: TrafficMatrix) -> LinkLoads:
        """Bytes on every link; those that are out carry nothing."""


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
    routing: Routing = "auto"
    seed: int = 0
    rates: Floats | None = None
    routes: Routes | None = None
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


class LinkTimes(Struct, frozen=True, eq=False):
    """How long one byte of some flows keeps the links busy that it takes.

    Parameters
    ----------
    links
        Codes: link l from source to target, links + l back, rising, shape (used,).
    seconds_per_byte
        Busy time of each of them [s/B], shape (used,).
    delayed_s_per_byte
        What degraded links and ways round failed ones add to the time that the flows take alone
        [s/B].
    """

    links: Ints
    seconds_per_byte: Floats
    delayed_s_per_byte: float = 0.0


class FlowRouter:
    """Looks up what flows ask of the links."""

    def __init__(self, transport: Transport) -> None:
        """Nothing is routed yet."""
        self.transport = transport
        self._router = Router(transport.graph, transport.routing)
        self._matrices: dict[tuple[tuple[str, ...], bool], TrafficMatrix] = {}

    def times(self, flows: Flows) -> LinkTimes:
        """What one byte of some flows does to links.

        Raises
        ------
        InputError
            If a path is missing, or a link that is needed has no rate.
        """
        transport = self.transport
        rng = np.random.default_rng(transport.seed) if transport.routing == "hashed" else None
        traffic = self._traffic(flows)
        whole = now = self._seconds(flows, self._router.loads(traffic, rng))
        if transport.routes is not None:
            now = self._seconds(flows, transport.routes.loads(traffic))
        if transport.rates is not None:
            self._check_alive(now)
            with np.errstate(divide="ignore", invalid="ignore"):
                now = np.where(now > 0, now / transport.rates, 0.0)
        codes = np.flatnonzero(now)
        # What a core moves takes one way, and as long as the slowest link there.
        delayed = 0.0
        if now is not whole and not flows.memory:
            # Damage adds to each phase what its busiest link takes more.
            longest = (
                [part[:, phase].max(initial=0.0) for phase in self._phases] for part in (now, whole)
            )
            delayed = max(0.0, sum(float(slow - fast) for slow, fast in zip(*longest, strict=True)))
        return LinkTimes(codes, _rounded(now.ravel()[codes]), delayed)

    def _seconds(self, flows: Flows, loads: LinkLoads) -> Floats:
        """Time that every link takes for these loads [s], shape (2, links).

        Memory traffic has all of a rate, as its closed form has, and the channels besides.
        """
        if not flows.memory:
            return loads.link_s / self.transport.efficiency
        channels_s = self._channels.seconds(self.transport.graph, self._senders(flows))
        return np.add(loads.link_s, channels_s)

    def _check_alive(self, times: Floats) -> None:
        """Refuse links without any rate where something needs them."""
        rates, graph = self.transport.rates, self.transport.graph
        dead = np.flatnonzero(times.any(axis=0) & (rates == 0))
        if len(dead):
            first, second = (
                graph.node_name(int(end[dead[0]])) for end in (graph.source, graph.target)
            )
            raise InputError(
                f"link {dead[0]} from {first} to {second} has no rate left, and routes stay as they"
                " are: give it a share above 0, or ask netplan faults"
            )

    @cached_property
    def _phases(self) -> list[Bools]:
        """Links of each phase of a collective: HB domains, each axis of a torus, the network."""
        graph = self.transport.graph
        apart = [
            code
            for code, group in enumerate(graph.groups)
            if self.transport.in_phases and group.role in ("hb", "ring")
        ]
        phases: list[Bools] = [graph.group == code for code in apart]
        return [*phases, ~np.isin(graph.group, apart)]

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
        whole = self._collective(flows)
        share = np.zeros(gpus)
        share[self._gpus_of_chains[:, flows.stage]] = 1.0
        if flows.replica is not None:
            share *= self._replica_of_gpu == flows.replica
        return whole.weighted(share)

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

    def _collective(self, flows: Flows) -> TrafficMatrix:
        """One byte of a collective in all groups; of single replicas, pair by pair."""
        key = flows.dimensions, flows.to_all
        if key not in self._matrices:
            kind: CollectiveKind = "all_to_all" if flows.to_all else "all_gather"
            use = CollectiveUse("data", kind, flows.dimensions, 1.0, 1.0)
            transport = self.transport
            placed = transport.placement
            ranks = Placement(placed.levels, kinds=placed.kinds, folded=placed.folded)
            among = use_traffic(use, ranks, transport.algorithm, gpus=ranks.gpus)
            matrix = among.relabelled(transport.gpu_of_rank, transport.graph.gpus)
            matrix = both_ways(matrix) if transport.two_way_rings else matrix
            self._matrices[key] = matrix if flows.replica is None else combine([matrix.listed()])
        return self._matrices[key]

    @cached_property
    def _gpus_of_chains(self) -> Indices:
        """GPU of each stage of each pipeline, shape (pipelines, stages)."""
        chains: Indices = self.transport.gpu_of_rank[
            self.transport.placement.groups("pipeline", snake=True)
        ]
        return chains

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
    rounded: Floats = np.ldexp(np.round(mantissa * MANTISSA) / MANTISSA, exponent)
    return rounded
