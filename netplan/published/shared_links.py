"""How flows share links: packets, random permutations and papers, against max-min fair rates.

*Packets*: ``reports/published/packet-cases.csv`` names 37 two-tier Clos networks of 16 to 64 hosts,
with links of 10 Gb/s and 1 us, ``packet-messages.csv`` what was sent over them, and when it arrived
in ns-3 3.44: 8,900 B of payload in frames of 8,954 B, every message on the path of its spine,
connections open beforehand with a window of 10 segments, no losses. Two transports: a queue a flow
at every port (FqCoDel, CUBIC), and one queue that marks at 20 packets (DCTCP). Nothing of netplan
is fitted to them. A slow test runs five of the cases again.

*Random permutations*, ``congestion.csv``: every host sends to one that is drawn, over connections
of which each takes a spine (and core) that is drawn; all links have the same rate. Slowdowns were
computed by a plain program of ours, one full link after another, with draws of its own: what is
held is its number, one step of 1 / connections up or down.

*Papers* print bounds and directions. MonkeyTree, Ethereal and Baidu's AIPod were read as abstracts
and reports of others; Jellyfish by its reproduction.

Published figures of shared clusters against streams of jobs.

Laws of `traffic/streams` stand beside the means and medians of AcmeTrace (InternLM; Hu et al.,
NSDI 2024) that they are fitted to: that they are near shows that three numbers of a lognormal and
two of sizes are enough for four of a cluster.

MonkeyTree (arXiv:2602.08296, abstract) bounds the fragments of leaves by migration. It prints
neither its jobs nor its leaves: 120 jobs of Seren's law stand for them, all in rings, placed
scattered so that links are shared, on leaves whose trunks hold two rings, the bound that it proves.

Arnold (arXiv:2509.15940, abstract) keeps groups of a job near each other, Kant (arXiv:2510.01256,
abstract) packs and backfills. What they print lacks the jobs, and what they are better than: the
same 120 jobs stand for them, packed against the lowest free nodes, and backfilled against a queue
in which all wait for its head. Directions can be held to that, numbers cannot.
"""

from collections.abc import Iterator
from functools import cache
from math import prod

import numpy as np
from msgspec import Struct

from netplan.answers.jobs_answer import SLOWED
from netplan.arrays import Floats
from netplan.published.checks import Check, Measured, check, claim, published, suite
from netplan.simulation.congestion import FabricLinks, pattern_flows, share_pattern
from netplan.simulation.fair_rates import FlowLinks, max_min_rates
from netplan.simulation.fluid import ClosLinks, message_times_s
from netplan.simulation.job_clusters import LeafTrunks
from netplan.simulation.job_laws import STREAMS, drawn_trace, placed_jobs
from netplan.simulation.job_outcomes import JobStream
from netplan.simulation.job_places import PlacementPolicy
from netplan.simulation.jobs import Queue, StreamRules, run_stream
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from netplan.traffic.flow_paths import PathChoice, PathRouter
from netplan.units import PERCENT, bytes_per_s, counted

PACKETS = "Congestion in packets (ns-3 3.44)"
TRANSPORTS = {"fair-queue": ("fair queues", 1.011), "ecn": ("ECN", 1.15)}
"""Where in the source a transport stands, and the most that packets may take of the fluid [1]."""

SOONEST = 0.99
"""Of the fluid, the least that packets may take [1]."""

HOST_GBPS = 10.0
STEPS = (1, 2, 4, 8, 16)
"""Connections of a pair in the table of random permutations [1]."""

CLOS = {256: (16, 16, 20), 2048: (32, 64, 20), 16384: (64, 256, 5)}
"""Hosts and spines of a leaf, leaves and seeds, by hosts [1]."""

FAT_TREES = {8: 20, 14: 5, 48: 1}
"""Seeds by ports of a switch [1]."""

UPLINKS = ((8, 1), (32, 1), (32, 2))
"""Uplinks of a leaf with as many hosts, and connections of each of these [1]."""

MOST_FLOWS = 200_000
"""Flows of all seeds of a number: of the largest cells fewer seeds are drawn [1]."""

MESSAGE_BYTES = 256e6


class PacketCase(Struct, frozen=True, eq=False):
    """A case that was simulated packet by packet, and its fluid.

    Parameters
    ----------
    name, kind
        As in the table.
    fabric
        The network.
    messages
        Its rows, numbered from 0.
    fluid_ms
        When each finishes by netplan, shape (messages,) [ms].
    packets_ms
        When each finished in packets, by transport, shape (messages,) [ms].
    """

    name: str
    kind: str
    fabric: ClosLinks
    messages: tuple[dict[str, str], ...]
    fluid_ms: Floats
    packets_ms: dict[str, Floats]

    def over_fluid(self, transport: str) -> float:
        """Last finish of packets over that of the fluid [1]."""
        return float(self.packets_ms[transport].max() / self.fluid_ms.max())


@cache
def packet_cases() -> tuple[PacketCase, ...]:
    """All cases that were simulated packet by packet.

    Examples
    --------
    >>> cases = packet_cases()
    >>> len(cases), sum(len(case.messages) for case in cases)
    (37, 5164)
    >>> round(max(case.over_fluid("fair-queue") for case in cases), 2)
    1.01
    """
    messages: dict[str, list[dict[str, str]]] = {}
    for row in published("packet-messages"):
        if row["case"]:
            rows = messages.setdefault(row["case"], [])
        rows.append(row)
    return tuple(_packet_case(row, messages[row["case"]]) for row in published("packet-cases"))


def _packet_case(row: dict[str, str], messages: list[dict[str, str]]) -> PacketCase:
    """One case, whose fluid runs here."""
    leaves, hosts_a_leaf, spines = (int(row[key]) for key in ("leaves", "hosts_a_leaf", "spines"))
    uplink_gbps = float(row["uplink_gbps"])
    finish_s = message_times_s(
        messages,
        leaves=leaves,
        hosts_a_leaf=hosts_a_leaf,
        spines=spines,
        host_gbps=HOST_GBPS,
        uplink_gbps=uplink_gbps,
    )
    packets_ms = {
        transport: np.array(
            [float(message[f"{transport.replace('-', '_')}_ms"]) for message in messages]
        )
        for transport in TRANSPORTS
    }
    return PacketCase(
        row["case"],
        row["kind"],
        ClosLinks(leaves, hosts_a_leaf, spines, bytes_per_s(HOST_GBPS), bytes_per_s(uplink_gbps)),
        tuple(messages),
        1e3 * np.array(finish_s),
        packets_ms,
    )


@suite("congestion")
def shared_link_checks() -> Iterator[Measured | Check]:
    """Packets, random permutations and papers.

    Yields
    ------
    Check
        Two rows a case in packets; tables of permutations; a row or two a paper.
    """
    yield from _packets()
    yield from _permutations()
    yield from _uplinks_used()
    yield from _papers()


def _packets() -> Iterator[Check]:
    """Last finish of every case in packets and as a fluid."""
    for case in packet_cases():
        for transport, (place, most) in TRANSPORTS.items():
            packets_ms, fluid_ms = case.packets_ms[transport].max(), case.fluid_ms.max()
            yield check(
                f"{case.name}: last finish, ms",
                f"{PACKETS}, {place}",
                f"{packets_ms:.4f}",
                f"{fluid_ms:.4f}",
                met=SOONEST <= case.over_fluid(transport) <= most,
                gap=fluid_ms / packets_ms - 1,
            )


def permutation_rates(shape: tuple[int, int, int], connections: int, seed: int) -> Floats:
    """Rates of a random permutation whose connections take paths at random, all links of rate 1.

    Parameters
    ----------
    shape
        Hosts and uplinks of a leaf, as many uplinks of each switch above; leaves of a pod; pods
        [1]. One pod is a two-tier Clos.
    connections
        Of each host [1].
    seed
        Draws the permutation and all paths.

    Returns
    -------
    ndarray
        Shape (hosts, connections) [1].

    Examples
    --------
    A host alone under each leaf has one spine, and its full rate.

    >>> permutation_rates((1, 4, 1), 1, 0).ravel().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    width, leaves, pods = shape
    rng = np.random.default_rng(seed)
    hosts = width * leaves * pods
    source = np.repeat(np.arange(hosts), connections)
    target = np.repeat(rng.permutation(hosts), connections)
    above, core = rng.integers(0, width, (2, len(source)))
    leaf, other_leaf = source // width, target // width
    pod, other_pod = leaf // leaves, other_leaf // leaves
    ups = leaf * width + above, (pod * width + above) * width + core
    downs = (other_pod * width + above) * width + core, other_leaf * width + above
    columns = np.stack([source, *ups, *downs, target], axis=1)
    size = 1 + int(columns.max())
    used = np.ones_like(columns, bool)
    used[:, 1:5] = (leaf != other_leaf)[:, None]
    used[:, 2:4] = (pod != other_pod)[:, None]
    begins = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    links = (columns + size * np.arange(6))[used]
    rates = max_min_rates(np.ones(6 * size), FlowLinks(begins, links, np.ones(len(links))))
    return rates.reshape(hosts, connections)


def _permutations() -> Iterator[Measured]:
    """Slowdowns and mean rates of random permutations."""
    for hosts, (width, leaves, seeds) in CLOS.items():
        for connections in STEPS:
            named = f"{hosts:,} hosts, {counted(connections, 'connection')}"
            drawn = list(_drawn((width, leaves, 1), connections, seeds))
            last = [1 / (connections * float(rates.min())) for rates in drawn]
            yield f"{named}: slowdown of the last flow", float(np.median(last))
            if hosts == max(CLOS):
                slowest = [connections * rates.min(axis=1) for rates in drawn]
                yield f"{named}: mean slowdown", float(np.mean(1 / np.array(slowest)))
    for ports, seeds in FAT_TREES.items():
        for connections in (1, 8):
            named = f"fat tree of {ports} ports, {counted(connections, 'connection')}"
            shape = ports // 2, ports // 2, ports
            yield f"{named}: mean rate, %", PERCENT * _mean_rate(shape, connections, seeds)


def _drawn(shape: tuple[int, int, int], connections: int, seeds: int) -> Iterator[Floats]:
    """Rates for so many seeds, or as many as are quick."""
    quick = max(1, MOST_FLOWS // (prod(shape) * connections))
    for seed in range(min(seeds, quick)):
        yield permutation_rates(shape, connections, seed)


def _mean_rate(shape: tuple[int, int, int], connections: int, seeds: int) -> float:
    """Rate of a host, of all its connections together, mean over hosts and seeds [1]."""
    drawn = _drawn(shape, connections, seeds)
    return float(np.mean([rates.sum(axis=1).mean() for rates in drawn]))


def _uplinks_used() -> Iterator[Measured]:
    """Share of the uplinks of leaves that hashed flows use: 1 - (1 - 1 / uplinks)^flows."""
    for uplinks, connections in UPLINKS:
        fabric = _fabric("fat-tree", "hashed", 16 * uplinks, radix=2 * uplinks)
        source = np.repeat(np.arange(16 * uplinks, dtype=np.int32), connections)
        target = (source + np.int32(uplinks)) % np.int32(16 * uplinks)
        climbing = fabric.graph.links_with("up")
        used = [
            np.isin(climbing, fabric.paths(source, target, seed).code).mean() for seed in range(20)
        ]
        flows = connections * uplinks
        yield f"{flows} flows hashed on {uplinks} uplinks: share used", float(np.mean(used))


def _papers() -> Iterator[Measured]:
    """What papers say of collisions, of static routing, and of rings above few uplinks."""
    for connections, name in ((1, "hashed"), (16, "over more queue pairs")):
        yield f"Gb/s of 100, {name}", PERCENT * _mean_rate((16, 16, 1), connections, 20)
    for traffic in ("ring", "all-to-all"):
        static, spray = (
            _slowdown(_fabric("fat-tree", way, 256, radix=32, hb_size=8), traffic)
            for way in ("static", "split")
        )
        yield f"{traffic} of whole leaves: largest congestion, static over spray", static / spray
    oversubscribed = _fabric("rail-optimized", "split", 1024, hb_size=8, ratio=16)
    yield "a ring a leaf at 16:1: slowdown", _slowdown(oversubscribed, "ring")


def _slowdown(fabric: FabricLinks, traffic: str) -> float:
    """Time of a pattern over that without contention [1]."""
    graph = fabric.graph
    pattern = pattern_flows(traffic, graph.gpus, graph.hb_size)
    return share_pattern(fabric, pattern, MESSAGE_BYTES).slowdown


def _fabric(
    name: str, way: PathChoice, gpus: int, *, radix: int = 64, hb_size: int = 1, ratio: int = 1
) -> FabricLinks:
    """A Clos network of 400 Gb/s."""
    spec = FABRICS.load(name, overrides={"fabric.oversubscription": str(ratio)})
    graph = expand(spec, Sizing(gpus, radix, hb_size, 450e9, bytes_per_s(400.0)))
    return FabricLinks(PathRouter(graph, "ecmp"), np.tile(graph.bytes_per_s, 2), way)


FIGURES = {
    "mean run [s]": "run_s",
    "median run [s]": "median_s",
    "mean GPUs": "gpus",
    "mean GPU time [GPU s]": "gpu_s",
}
"""Figures of a law by what they are called in the table."""

JOBS, LOAD, SERVER_GPUS, FRAGMENTS = 120, 0.8, 8, 2
PRINTED_GAIN, PRINTED_LATE, LATEST = 0.14, 0.05, 99
"""Of the abstract: completion below the next best; how late; of which percentile [1, 1, %]."""

CLUSTERS = {1024: (16, 8, 4.0), 2048: (8, 32, 16.0)}
"""Leaves, nodes a leaf and oversubscription by GPUs: trunks of two nodes' cards each [1]."""

QUEUES: tuple[Queue, Queue] = ("backfill", "fifo")
PRINTED_SPREAD, PRINTED_FASTER, PRINTED_TAKEN = 1.67, 0.106, (0.036, 0.041)
"""Of the abstracts: spread of groups, speed, GPUs allocated and occupied, against others [1]."""


def job_stream_checks() -> Iterator[Check]:
    """Laws of streams, and what migration does to jobs.

    Yields
    ------
    Check
        Four figures of three clusters, then three of MonkeyTree, two of Arnold, two of Kant.
    """
    for row in published("job-laws"):
        law = STREAMS.load(row["stream"]).law
        if law is None:
            continue
        value = law.means()[FIGURES[row["name"]]]
        digits = len(row["printed"].partition(".")[2])
        name = f"{row['stream']}: {row['name']}"
        yield check(name, row["source"], row["printed"], f"{value:.{digits}f}")
    yield from _monkeytree()
    yield from _arnold()
    # GPUs taken with backfilling, over those in a queue whose head all others wait for.
    shares = [_taken(_ran(1024, None, policy="packed", queue=queue)) for queue in QUEUES]
    names = "allocated GPUs (GAR), median over time", "occupied GPU time (SOR)"
    for what, printed, ours in zip(names, PRINTED_TAKEN, zip(*shares, strict=True), strict=True):
        gain = ours[0] / ours[1] - 1
        got = f"{100 * gain:.1f} % more by backfilling"
        yield claim(what, got, met=gain > 0, gap=gain / printed - 1)


def _monkeytree() -> Iterator[Check]:
    """Completion with moved jobs, beside jobs that stay and links that cost nothing."""
    stays, moved = (_completion_s(_ran(1024, most)) for most in (None, FRAGMENTS))
    gain = 1 - float(moved.mean() / stays.mean())
    got, name = f"{100 * gain:.0f} % below jobs that stay", "mean completion with migration"
    yield claim(f"1,024 GPUs at 4:1: {name}", got, met=gain > 0, gap=gain / PRINTED_GAIN - 1)
    ideal, moved = (
        _completion_s(_ran(2048, most, sharing=most is not None)) for most in (None, FRAGMENTS)
    )
    late = float(np.percentile(moved, LATEST) / np.percentile(ideal, LATEST)) - 1
    name = "2,048 GPUs at 16:1: p99 of completion with migration"
    yield claim(name, f"{100 * late:.1f} % above", met=late <= PRINTED_LATE)
    shared = _ran(2048, None)
    slowed = shared.slowdown > SLOWED
    several = shared.trace.gpus > SERVER_GPUS
    yield claim(
        "jobs that congestion slows",
        f"{100 * slowed.mean():.0f} % ({100 * slowed[several].mean():.0f} % of more than a node)",
    )


def _arnold() -> Iterator[Check]:
    """Leaves and speed of jobs of several nodes, packed and on the lowest free nodes."""
    packed, first = (_ran(1024, None, policy=policy) for policy in ("packed", "first"))
    several = packed.trace.gpus > SERVER_GPUS
    spread = float(first.leaves[several].mean() / packed.leaves[several].mean())
    name = "spread of the nodes of a job: lowest free ones over near ones"
    yield claim(name, f"{spread:.2f} leaves", met=spread > 1, gap=spread / PRINTED_SPREAD - 1)
    faster = float(np.mean(1 / packed.slowdown[several]) / np.mean(1 / first.slowdown[several])) - 1
    got, gap = f"{100 * faster:.1f} % above lowest free ones, at 4:1", faster / PRINTED_FASTER - 1
    yield claim("speed of jobs on near nodes", got, met=faster > 0, gap=gap)


def _taken(ran: JobStream) -> tuple[float, float]:
    """Median and mean share of the GPUs that is taken until the last job comes [1]."""
    share = ran.occupied.gpus[:-1] / ran.total_gpus
    last_s = ran.last_arrival_s
    lasts_s = np.diff(np.minimum(ran.occupied.time_s, last_s))
    order = np.argsort(share, kind="stable")
    middle = np.searchsorted(np.cumsum(lasts_s[order]), last_s / 2)
    return float(share[order][middle]), float(share @ lasts_s / last_s)


@cache
def _ran(
    gpus: int,
    most: int | None,
    *,
    sharing: bool = True,
    policy: PlacementPolicy = "scattered",
    queue: Queue = "backfill",
) -> JobStream:
    """The stream on a cluster, with or without migration and sharing."""
    leaves, nodes, ratio = CLUSTERS[gpus]
    stream = STREAMS.load("seren", overrides={"stream.all_to_all_share": "0"})
    trace = drawn_trace(stream, JOBS, LOAD, (gpus, SERVER_GPUS), 0)
    cluster = LeafTrunks(leaves, nodes, SERVER_GPUS, ratio, sharing=sharing)
    rules = StreamRules(policy, queue, migrate=most, migration_s=stream.migration_s)
    begun = placed_jobs(trace, LOAD, cluster, rules, 0)
    return run_stream(trace, cluster, rules=rules, begun=begun)


def _completion_s(ran: JobStream) -> Floats:
    """From the arrival of each job to its end, shape (jobs,) [s]."""
    return ran.end_s - ran.trace.arrival_s
