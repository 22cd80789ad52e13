"""How the flows of a pattern, or the messages of a file, share the links of a fabric.

===========  =======================================================================================
permutation  every GPU sends to one that is drawn; who draws himself sends nothing
all-to-all   every GPU to every other; as one collective, all pairs advance at one rate
ring         a ring in every rail: GPU i to i + G of HB domains of G, the last domain to the first
incast:N     GPU 0 receives from the GPUs of its rank in the next N HB domains
===========  =======================================================================================

All messages of a pattern are as long and start together, so that rates of that moment suffice: the
flows of the lowest rate end last and together, as all that share their full link have that rate,
and rates only rise when others end. Without contention only the links that end at a GPU bind, which
messages share there, too.

A traffic matrix is sent all at once: what hands bytes on does so as they come in, in pieces.

=======  ===========================================================================================
booked   links are taken in turn: as long as the busiest of them has to carry, at least
fluid    links are shared max-min fairly, flow by flow (`netplan.simulation.fluid`)
=======  ===========================================================================================

It leaves out whole iterations, and routes that change while messages run.
"""

from functools import cached_property
from math import ceil, inf
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Indices, Ints
from netplan.catalog import Catalog, Record
from netplan.costing.ranges import Estimate
from netplan.errors import InputError
from netplan.records import replace
from netplan.simulation import fluid
from netplan.simulation.fair_rates import FlowLinks, least_rate
from netplan.simulation.flow_classes import flow_classes
from netplan.topologies.graph import FabricGraph
from netplan.traffic.flow_paths import FlowPaths, PathChoice, PathFinder, check_entries, ends_at_gpu
from netplan.traffic.matrix import KINDS, TrafficMatrix, UniformGroups, no_traffic

PATTERNS = ("permutation", "all-to-all", "ring", "incast:N")
"""Patterns by their names."""

INCAST = "incast:"

Transport = Literal["fair-queue", "ecn"]
"""What switches do with queues, which chooses the error bar alone."""


class PacketBars(Record, frozen=True, kw_only=True):
    """How much longer packets took than the fluid, by what switches do with queues.

    ``bars`` are last finishes of packets over those of the fluid [1]: from the fluid itself over
    the mean to the most; ``basis`` says in which cases. No bar of real switches.
    """

    basis: str
    bars: dict[Transport, Estimate]


PACKETS = Catalog("packets", "traffic/packets", PacketBars)


def packet_bars() -> PacketBars:
    """The shipped bars of packets around a fluid.

    Examples
    --------
    >>> bars = packet_bars()
    >>> bars.basis, bars.bars["ecn"].range
    ('37 packet-level cases to 64 hosts', Range(low=1.0, base=1.034, high=1.14))
    """
    return PACKETS.load("ns3-3.44")


AMPLE = 1e9
"""Share of its rate that a link has which is to bind nothing [1]."""


def ample_rates(graph: FabricGraph, rates: Floats | None = None) -> Floats:
    """Shares of their rates with which only links that end at a GPU bind.

    Parameters
    ----------
    graph
        The links.
    rates
        Share that each has; all of it if None, shape (links,) [1].

    Returns
    -------
    ndarray
        Shape (links,) [1].
    """
    ends = ends_at_gpu(graph)[: graph.link_count]
    return np.where(ends, 1.0 if rates is None else rates, AMPLE)


class PatternFlows(Struct, frozen=True, eq=False):
    """Pairs of GPUs that send as much to each other, at once.

    Parameters
    ----------
    source, target
        GPUs, shape (pairs,).
    group
        The collective that each pair belongs to, shape (pairs,).
    all_of
        GPUs of which all send to all besides, which is not written out; 0 if none do [1].
    """

    source: Indices
    target: Indices
    group: Ints
    all_of: int = 0

    def listed(self, graph: FabricGraph) -> "PatternFlows":
        """All pairs written out.

        Parameters
        ----------
        graph
            The fabric that they are on.

        Returns
        -------
        PatternFlows
            The same traffic.

        Raises
        ------
        InputError
            If they would take gigabytes.
        """
        gpus = self.all_of
        if not gpus:
            return self
        check_entries(graph, 2 * gpus * (gpus - 1))
        gpu = np.arange(gpus, dtype=np.int32)
        source, target = np.repeat(gpu, gpus), np.tile(gpu, gpus)
        apart = source != target
        pairs = int(apart.sum())
        return PatternFlows(source[apart], target[apart], np.zeros(pairs, np.int64))


def pattern_flows(pattern: str, gpus: int, hb_size: int, seed: int = 0) -> PatternFlows:
    """The pairs of a pattern.

    Parameters
    ----------
    pattern
        permutation, all-to-all, ring, or incast and its senders, as incast:8.
    gpus, hb_size
        GPUs, and those of an HB domain [1].
    seed
        Draws the permutation.

    Returns
    -------
    PatternFlows
        Its pairs.

    Raises
    ------
    InputError
        If there is no such pattern, or too few HB domains for it.

    Examples
    --------
    >>> ring = pattern_flows("ring", 6, 2)
    >>> list(zip(ring.source.tolist(), ring.target.tolist())), ring.group.tolist()
    ([(0, 2), (1, 3), (2, 4), (3, 5), (4, 0), (5, 1)], [0, 1, 0, 1, 0, 1])
    """
    gpu = np.arange(gpus, dtype=np.int32)
    if pattern == "permutation":
        target = np.random.default_rng(seed).permutation(gpus).astype(np.int32)
        source = gpu[target != gpu]
        return PatternFlows(source, target[source], np.arange(len(source)))
    if pattern == "ring":
        following = np.where(gpu + hb_size < gpus, gpu + hb_size, gpu % hb_size)
        source = gpu[following != gpu]
        return PatternFlows(source, following[source], (source % hb_size).astype(np.int64))
    if pattern == "all-to-all":
        return PatternFlows(gpu[:0], gpu[:0], np.empty(0, np.int64), gpus if gpus > 1 else 0)
    senders = pattern.removeprefix(INCAST).lstrip("0")
    if not pattern.startswith(INCAST) or not senders.isdecimal():
        raise InputError(f"no pattern is called {pattern!r:.40}: give {', '.join(PATTERNS)}")
    most = (gpus - 1) // hb_size
    # By its digits first: Python reads no text of thousands of them as a number.
    if len(senders) > len(str(most)) or int(senders) > most:
        raise InputError(
            f"{pattern:.40} needs as many HB domains beside that of GPU 0, and {gpus:,} GPUs in"
            f" domains of {hb_size:,} have {most:,}: give incast:{most} or less"
        )
    source = np.arange(1, int(senders) + 1, dtype=np.int32) * np.int32(hb_size)
    return PatternFlows(source, np.zeros(len(source), np.int32), np.arange(len(source)))


class FabricLinks(Struct, frozen=True, eq=False, dict=True):
    """A fabric, and how its flows find their way.

    Parameters
    ----------
    router
        Of its graph, or of what is left of that.
    capacity
        Of every direction of a link, flattened (2, links) [B/s].
    way
        Whether flows split, or take one link at every hop.
    connections
        Of each pair of GPUs [1].
    latency_s
        Of a message inside an HB domain, and over the network [s].
    port_bytes_per_s
        Of a GPU's network link [B/s].
    """

    router: PathFinder
    capacity: Floats
    way: PathChoice
    connections: int = 1
    latency_s: tuple[float, float] = (0.0, 0.0)
    port_bytes_per_s: float = inf

    @property
    def graph(self) -> FabricGraph:
        """Its links."""
        return self.router.graph

    @cached_property
    def free(self) -> Floats:
        """Capacity where only links that end at a GPU bind, flattened (2, links) [B/s]."""
        return np.where(ends_at_gpu(self.graph), self.capacity, inf)

    @property
    def capacities(self) -> tuple[Floats, Floats]:
        """Of all links, and where only those bind that end at a GPU [B/s]."""
        return self.capacity, self.free

    def paths(self, source: Indices, target: Indices, seed: int) -> FlowPaths:
        """Links of each pair, those of all its connections together.

        Parameters
        ----------
        source, target
            GPUs, shape (pairs,).
        seed
            Of hashed paths.

        Returns
        -------
        FlowPaths
            Of flows: pair 0's connections, then pair 1's.
        """
        check_entries(self.graph, 2 * len(source) * self.connections)
        first, last = (np.repeat(end, self.connections) for end in (source, target))
        return self.routes(first, last, seed, np.tile(np.arange(self.connections), len(source)))

    def routes(self, source: Indices, target: Indices, seed: int, connection: Ints) -> FlowPaths:
        """Links of single connections, by their numbers.

        Parameters
        ----------
        source, target, connection
            GPUs, and which connection of the pair, shape (flows,).
        seed
            Of hashed paths.

        Returns
        -------
        FlowPaths
            Of every flow.
        """
        return self.router.paths(
            source, target, self.capacity, way=self.way, seed=seed, connection=connection
        )


class JobTimes(Struct, frozen=True):
    """A job: its name, the mean time of its iterations, and that without contention [s]."""

    name: str
    time_s: float
    alone_s: float

    @property
    def slowdown(self) -> float:
        """Time over that without contention [1]."""
        return self.time_s / self.alone_s


class Contention(Struct, frozen=True, eq=False):
    """What one traffic takes on one draw of paths.

    Parameters
    ----------
    time_s, alone_s
        Of the last message, and without contention [s].
    carried_bytes
        Over every direction of a link, flattened (2, links) [B].
    sharing
        Flows on every direction, shape as before [1].
    flows, solves, classes
        Flows, how often rates were found, and of how many kinds of flows [1].
    jobs
        Both times of each of several jobs.
    """

    time_s: float
    alone_s: float
    carried_bytes: Floats
    sharing: Ints
    flows: int
    solves: int
    classes: int
    jobs: tuple[JobTimes, ...] = ()

    @property
    def slowdown(self) -> float:
        """Time over that without contention; 1 where nothing is sent [1]."""
        return self.time_s / self.alone_s if self.alone_s else 1.0


def share_pattern(
    fabric: FabricLinks,
    pattern: PatternFlows,
    message_bytes: float,
    *,
    collectives: fluid.Collectives = "coupled",
    seed: int = 0,
    check: bool = False,
) -> Contention:
    """Time of a pattern whose flows share links max-min fairly.

    All messages are as long and begin together, so that the last one is of the slowest flow.

    Parameters
    ----------
    fabric
        Where it runs.
    pattern
        Its pairs.
    message_bytes
        Of every pair [B].
    collectives
        Whether the pairs of a collective advance at one rate.
    seed
        Of hashed paths.
    check
        Compare exactly what has one colour.

    Returns
    -------
    Contention
        Its time, and what links carry.
    """
    closed = pattern.all_of and collectives == "coupled" and fabric.way == "split"
    pattern = pattern if closed else pattern.listed(fabric.graph)
    if not (closed or len(pattern.source)) or not message_bytes:
        return _nothing_sent(fabric)
    size, split = 2 * fabric.graph.link_count, fabric.way == "split"
    if closed:
        gpus = fabric.graph.gpus  # a byte from every one to every other
        groups = UniformGroups(np.arange(gpus, dtype=np.int32)[None], 1.0, KINDS.index("other"))
        matrix = replace(no_traffic(gpus), groups=(groups,))
        load = fabric.router.loads(matrix).link_bytes.ravel()
        sharing, flows, classes = (load > 0).astype(np.int64), 1, 1
    else:
        paths = fabric.paths(pattern.source, pattern.target, seed)
        load = np.bincount(paths.code, paths.share, size) / fabric.connections
        flow, flows = paths.flow, len(pattern.source) * fabric.connections
        collective_count = int(pattern.group.max()) + 1
        if coupled := collectives == "coupled" and collective_count < flows:
            flow, flows = pattern.group[flow // fabric.connections], collective_count
        links, classes = paths.code, flows
        if coupled or split:
            rows = _rows(flow, paths.code, paths.share)
            links = rows.links
        if split:  # hashed flows are no two alike
            classes = len(flow_classes(rows, fabric.capacities, check=check).flows)
        sharing = np.bincount(links, minlength=size)
    hb_size = fabric.graph.hb_size
    domains = pattern.source // hb_size != pattern.target // hb_size
    across = domains.any() or pattern.all_of > hb_size
    latency_s = fabric.latency_s[int(across)]
    return Contention(
        message_bytes / least_rate(fabric.capacity, load) + latency_s,
        message_bytes / least_rate(fabric.free, load) + latency_s,
        load * message_bytes,
        sharing,
        flows,
        2,
        classes,
    )


def _nothing_sent(fabric: FabricLinks) -> Contention:
    size = 2 * fabric.graph.link_count
    return Contention(0.0, 0.0, np.zeros(size), np.zeros(size, np.int64), 0, 0, 0)


def _rows(flow: Ints, code: Ints, share: Floats) -> FlowLinks:
    """Rows of flows that are numbered in any way; shares of one link add up."""
    key = flow * (int(code.max(initial=0)) + 1) + code
    if not np.all(key[1:] > key[:-1]):
        order = np.argsort(key, kind="stable")
        key, flow, code, share = key[order], flow[order], code[order], share[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    shares = np.add.reduceat(share, first) if len(first) else share
    rows = np.flatnonzero(np.diff(flow[first], prepend=-1))
    return FlowLinks(np.append(rows, len(first)), code[first], shares)


FEW_EVENTS = 10
"""Up to so many messages classes cost more than they save [1]."""


def share_messages(
    fabric: FabricLinks,
    rows: list[fluid.Row],
    *,
    collectives: fluid.Collectives = "coupled",
    seed: int = 0,
    check: bool = False,
    tick: fluid.Tick | None = None,
) -> Contention:
    """Time of the messages of a file that share links max-min fairly.

    Parameters
    ----------
    fabric
        Where they run.
    rows
        Messages, as of :func:`netplan.simulation.fluid.read_messages`.
    collectives
        Whether messages that wait for each other are one flow.
    seed
        Of hashed paths.
    check
        Compare exactly what has one colour.
    tick
        Told now and then how many messages have finished; may be None.

    Returns
    -------
    Contention
        Time of the last finish, and what links carry.
    """
    routes = _routes(fabric, rows, seed)
    shared, sent, _ = fluid.sent_over(
        rows,
        fabric.capacity,
        lambda source, target, way: routes[source, target, way or 0],
        collectives,
    )
    split = fabric.way == "split" and len(sent.flow) > FEW_EVENTS
    return _delivered(fabric, shared, sent, split=split, check=check, tick=tick)


def _delivered(
    fabric: FabricLinks,
    shared: fluid.SharedLinks,
    sent: fluid.Messages,
    *,
    split: bool,
    check: bool,
    tick: fluid.Tick | None = None,
) -> Contention:
    """What messages take over a fabric, also without contention; by classes where they split."""
    size, capacities = 2 * fabric.graph.link_count, fabric.capacities
    few, few_sent, classes = shared, sent, shared.flows.flows
    if split:
        few, few_sent, alike = fluid.classed(shared, sent, capacities, check=check)
        capacities = fabric.capacity[alike.links], fabric.free[alike.links]
        classes = len(alike.flows)
    try:
        deliveries = [
            fluid.send(replace(few, capacity=links), few_sent, tick=tick) for links in capacities
        ]
    except fluid.TooWideError:
        raise
    except InputError:  # which names a message, not a class
        deliveries = [
            fluid.send(replace(shared, capacity=links), sent) for links in fabric.capacities
        ]
    time_s, alone_s = (float(delivery.finish_s.max(initial=0.0)) for delivery in deliveries)
    taken = shared.flows.take(sent.flow)
    return Contention(
        time_s,
        alone_s,
        taken.carried(sent.size_bytes, size),
        np.bincount(taken.links, minlength=size),
        shared.flows.flows,
        sum(delivery.solves for delivery in deliveries),
        classes,
    )


def _routes(
    fabric: FabricLinks, rows: list[fluid.Row], seed: int
) -> dict[tuple[int, int, int], fluid.MessageRoute]:
    """The routes of all pairs and connections that rows name."""
    keys = sorted({(*row.ends, row.way or 0) for row in rows if row.ends[0] != row.ends[1]})
    routes = {(row.ends[0], row.ends[0], row.way or 0): fluid.MessageRoute((), 0.0) for row in rows}
    if keys:
        source, target, connection = np.array(keys, np.int32).T
        paths = fabric.routes(source, target, seed, connection.astype(np.int64))
        cuts = np.searchsorted(paths.flow, np.arange(len(keys) + 1)).tolist()
        codes, shares, hops = paths.code.tolist(), paths.share.tolist(), paths.hops.tolist()
        for index, key in enumerate(keys):
            part = slice(cuts[index], cuts[index + 1])
            latency_s = fluid.hops_s(round(hops[index]), fabric.port_bytes_per_s)
            links = list(zip(codes[part], shares[part], strict=True))
            routes[key] = fluid.MessageRoute(links, latency_s)
    return routes


def with_connections(rows: list[fluid.Row], connections: int) -> list[fluid.Row]:
    """Rows whose bytes are split evenly over so many connections, each a message of its own.

    Parameters
    ----------
    rows
        Messages.
    connections
        Of every pair [1].

    Returns
    -------
    list of Row
        Those of the first message, then those of the second; what waited for one waits for all.
    """
    if connections == 1:
        return rows
    return [
        replace(
            row,
            way=(row.way or 0) * connections + part,
            size_bytes=row.size_bytes / connections,
            limit=row.limit / connections,
            after=tuple(other * connections + k for other in row.after for k in range(connections)),
        )
        for row in rows
        for part in range(connections)
    ]


def percentile(values: list[float], share: float) -> float:
    """The smallest of some values that so many per cent do not exceed.

    Parameters
    ----------
    values
        Such as slowdowns of seeds.
    share
        Of them, in per cent.

    Returns
    -------
    float
        The ceil(share n / 100)-th smallest of n.

    Examples
    --------
    >>> percentile([3.0, 1.0, 2.0, 4.0], 50), percentile([3.0, 1.0], 99)
    (2.0, 3.0)
    """
    place = max(1, ceil(round(share * len(values) / 100, 9)))
    return sorted(values)[place - 1]


MOST_FLOWS = 1 << 20
"""Flows of a matrix that are sent one by one: a minute or two [1]."""


def book_matrix(fabric: FabricLinks, matrix: TrafficMatrix) -> Contention:
    """The busiest link of a matrix, and how long it carries its bytes.

    Parameters
    ----------
    fabric
        Links, and how messages find their way.
    matrix
        What is sent.

    Returns
    -------
    Contention
        Its time, that of the links that end at a GPU alone, and what links carry.
    """
    carried = fabric.router.loads(matrix).link_bytes.ravel()
    time_s, alone_s = (float((carried / links).max(initial=0.0)) for links in fabric.capacities)
    sharing, flows = (carried > 0).astype(np.int64), matrix.flow_count
    return Contention(time_s, alone_s, carried, sharing, flows, 0, flows)


def share_matrix(
    fabric: FabricLinks, matrix: TrafficMatrix, *, seed: int = 0, check: bool = False
) -> Contention:
    """Time in which flows of a matrix that share links max-min fairly are all through.

    Parameters
    ----------
    fabric, matrix
        Links, and what is sent over them.
    seed
        Of hashed paths.
    check
        Compare exactly what has one colour.

    Returns
    -------
    Contention
        Its time, that of the links that end at a GPU alone, and what links carry.

    Examples
    --------
    Two GPUs send to a third one over rail-only: its link takes both.

    >>> from netplan import Scenario
    >>> from netplan.traffic.flow_paths import PathRouter
    >>> from netplan.traffic.matrix import flows_matrix
    >>> graph = Scenario.load("hgx-h100").replace(gpus=32, radix=16).fabric("rail-only").graph()
    >>> links = FabricLinks(PathRouter(graph, "auto"), np.tile(graph.bytes_per_s, 2), "split")
    >>> two = {"source": [0, 8], "destination": [16, 16], "flow_bytes": 50e9}
    >>> matrix = flows_matrix(32, **two, kind="other")
    >>> float(share_matrix(links, matrix).time_s), float(book_matrix(links, matrix).time_s)
    (2.0, 2.0)
    """
    listed = matrix.listed()
    source, target = listed.source, listed.destination
    sent = np.repeat(listed.flow_bytes / fabric.connections, fabric.connections)
    count = len(sent)
    if not count:
        return _nothing_sent(fabric)
    paths = fabric.paths(source, target, seed)
    begins = np.searchsorted(paths.flow, np.arange(count + 1))
    rows = FlowLinks(begins, paths.code, paths.share)
    domain = fabric.graph.hb_size
    crosses = np.repeat(source // domain != target // domain, fabric.connections)
    inside_s, across_s = fabric.latency_s
    shared = fluid.SharedLinks(fabric.capacity, rows, np.ones(count), np.full(count, np.inf))
    messages = fluid.Messages(
        np.arange(count), sent, np.zeros(count), np.where(crosses, across_s, inside_s), [()] * count
    )
    return _delivered(fabric, shared, messages, split=fabric.way == "split", check=check)
