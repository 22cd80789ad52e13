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
"""

from collections.abc import Iterator
from functools import cache
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.published.checks import Check, Measured, check, published, suite
from netplan.simulation.congestion import FabricLinks, pattern_flows, share_pattern
from netplan.simulation.fair_rates import FlowLinks, max_min_rates
from netplan.simulation.fluid import ClosLinks, message_times_s
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from netplan.traffic.flow_paths import PathRouter, Way
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
    name: str, way: Way, gpus: int, *, radix: int = 64, hb_size: int = 1, ratio: int = 1
) -> FabricLinks:
    """A Clos network of 400 Gb/s."""
    spec = FABRICS.load(name, overrides={"fabric.oversubscription": str(ratio)})
    graph = expand(spec, Sizing(gpus, radix, hb_size, 450e9, bytes_per_s(400.0)))
    return FabricLinks(PathRouter(graph, "ecmp"), np.tile(graph.bytes_per_s, 2), way)
