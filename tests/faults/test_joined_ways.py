"""Failures of joined switches: routed as the whole is, by brute force, by hand, beside an LP."""

from collections import defaultdict
from functools import cache
from typing import Any, cast

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import coo_array

from netplan.arrays import Bools
from netplan.errors import InputError
from netplan.faults.damage.cuts import Cuts, network_leg
from netplan.faults.damage.damage import Damage, network_links, no_damage
from netplan.faults.damage.rerouting import Rerouted, reroute, training_loads
from netplan.faults.damage.scenario import parse_faults
from netplan.questions.loads import loads
from netplan.setup.placed_run import PlacedRun
from netplan.topologies.graph import GPU, FabricGraph
from netplan.traffic.matrix import TrafficMatrix, flows_matrix
from netplan.traffic.routing import link_loads
from netplan.traffic.routing_joined import direct_share
from tests.faults.damaged import damage_to, damaged_graph, fabric, random_damage
from tests.oracles.router import Loads, as_array, ecmp, net_outflow
from tests.topologies.kinds import JOINED

FAMILIES = (*JOINED, "dragonfly")
RATE = 50e9
EVENER = 0.8
"""What a further failure may leave of the busiest link's time: mixes are no optimum."""


@cache
def small(name: str, gpus: int = 64, hb_size: int = 2) -> FabricGraph:
    return fabric(name, (gpus, 12, hb_size))


def traffic(graph: FabricGraph, seed: int) -> TrafficMatrix:
    """Few random flows, all to the same distance, or all to all."""
    rng, gpu = np.random.default_rng(seed), np.arange(graph.gpus)
    if seed % 3 == 0:
        source = rng.integers(0, graph.gpus, 30)
        away = rng.integers(1, graph.gpus, 30)
    elif seed % 3 == 1:
        source, away = gpu, np.full(graph.gpus, int(rng.integers(1, graph.gpus)))
    else:
        source = np.repeat(gpu, graph.gpus - 1)
        away = np.tile(gpu[1:], graph.gpus)
    target = (source + away) % graph.gpus
    return flows_matrix(graph.gpus, source=source, destination=target, flow_bytes=1e9)


def network_damage(graph: FabricGraph, failures: int, seed: int) -> Damage:
    """Failures of switches, and of links outside HB domains; of no GPU."""
    found = random_damage(graph, failures, np.random.default_rng(seed))
    node, link = found.node_down.copy(), found.link_down & network_links(graph)
    node[graph.node_kind == GPU] = False
    return Damage(node, link)


def busiest_s(found: Rerouted) -> float:
    """Time of the busiest network link."""
    graph = found.loads.graph
    return float(found.loads.link_s[:, network_links(graph)].max())


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_without_failures_the_loads_are_those_of_the_whole_fabric(name: str, seed: int) -> None:
    graph = small(name)
    matrix = traffic(graph, seed)
    whole = link_loads(graph, matrix)
    found = reroute(graph, no_damage(graph), matrix)
    scale = float(whole.link_bytes.max())
    np.testing.assert_allclose(found.loads.link_bytes, whole.link_bytes, atol=1e-12 * scale)
    assert training_loads(graph, no_damage(graph), matrix).busiest_s == pytest.approx(
        whole.busiest_s if network_links(graph)[whole.hottest(1)[0].link] else 0, rel=1e-12
    )


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), failures=st.integers(1, 6))
def test_detours_keep_what_is_left_no_slower_than_shortest_paths(
    name: str, seed: int, failures: int
) -> None:
    graph = small(name)
    matrix, damage = traffic(graph, seed), network_damage(graph, failures, seed)
    found, shortest = (reroute(graph, damage, matrix, routing=how) for how in ("auto", "ecmp"))
    out = damage.links_out(graph)
    if out[network_links(graph)].any():
        assert busiest_s(found) <= busiest_s(shortest) * (1 + 1e-9)
    # What is sent arrives, over live links alone.
    assert not found.loads.link_bytes[:, out].any()
    for one, other in zip(
        net_outflow(graph, found.loads.link_bytes),
        net_outflow(graph, shortest.loads.link_bytes),
        strict=True,
    ):
        assert one == pytest.approx(other, abs=1e-3)
    told = ("lost_bytes", "cut_bytes", "detour_bytes")
    assert [getattr(found, one) for one in told] == [getattr(shortest, one) for one in told]


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_more_failures_are_never_better(name: str, seed: int) -> None:
    graph = small(name)
    matrix = traffic(graph, seed)
    cuts = Cuts.of(graph, network_leg(graph, matrix))
    damage, before = no_damage(graph), training_loads(graph, no_damage(graph), matrix, cuts=cuts)
    whole_s = before.busiest_s
    for step in range(3):
        damage = damage | network_damage(graph, 2, seed + step)
        after = training_loads(graph, damage, matrix, cuts=cuts)
        if after.cut_bytes:
            break
        assert after.busiest_s >= whole_s
        assert after.busiest_s >= before.busiest_s * EVENER
        assert (after.cut_s or np.inf) >= (before.cut_s or np.inf)
        assert after.busiest_s >= (after.cut_s or 0) * (1 - 1e-9)
        before = after


@pytest.mark.parametrize("name", JOINED)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_what_is_left_is_routed_as_a_whole_fabric_of_that_shape(name: str, seed: int) -> None:
    # Up to 72 GPUs a dragonfly+ is one group of leaves and spines, which join nothing directly.
    graph = small(name, gpus=96 if name == "dragonfly-plus" else 64, hb_size=1)
    between = np.flatnonzero((graph.node_kind[graph.source] != GPU) & network_links(graph))
    lost = np.random.default_rng(seed).choice(between, 5, replace=False)
    damage, matrix = damage_to(graph, links=lost), traffic(graph, seed)
    found = reroute(graph, damage, matrix)
    shape = link_loads(damaged_graph(graph, damage), matrix, routing="adaptive")
    shortest = reroute(graph, damage, matrix, routing="ecmp")
    if busiest_s(found) == pytest.approx(busiest_s(shortest)):
        assert busiest_s(found) <= shape.busiest_s * (1 + 1e-9)
        return
    live = ~damage.links_out(graph)
    np.testing.assert_allclose(found.loads.link_bytes[:, live], shape.link_bytes, atol=1.0)


class PlainDragonfly:
    """What is left of a dragonfly, switch by switch in plain Python."""

    def __init__(self, graph: FabricGraph, damage: Damage) -> None:
        """Read the live switches and links, and their groups."""
        live = ~damage.links_out(graph)
        names = np.array(graph.group_names)[graph.group]
        self.local, self.whole = (
            self._view(graph, live & np.isin(names, kinds)) for kinds in KINDS
        )
        pieces = nx.connected_components(self.local)
        self.group = {node: number for number, nodes in enumerate(pieces) for node in nodes}
        self.send = cache(self._send)

    @staticmethod
    def _view(graph: FabricGraph, some: Bools) -> "nx.MultiGraph[int]":
        view: nx.MultiGraph[int] = nx.MultiGraph()
        view.add_nodes_from(np.flatnonzero(graph.node_kind != GPU).tolist())
        for link in np.flatnonzero(some).tolist():
            view.add_edge(int(graph.source[link]), int(graph.target[link]), key=link)
        return view

    def _send(self, source: int, target: int) -> Loads:
        """Over links between the two groups, and shortest paths inside each: loads of 1 B."""
        loads: Loads = defaultdict(float)
        ends = self.group[source], self.group[target]
        if source == target:
            return loads
        joining = [
            (link, *way)
            for one, other, link in self.whole.edges(keys=True)
            for way in ((one, other), (other, one))
            if (self.group[way[0]], self.group[way[1]]) == ends
        ]
        if ends[0] == ends[1] or not joining:
            view = self.local if ends[0] == ends[1] else self.whole
            ecmp(view, frozenset())((source, target, 1.0), loads)
            return loads
        for link, one, other in joining:
            loads[link, one] += 1 / len(joining)
            for part in (self.send(source, one), self.send(other, target)):
                added(loads, part, 1 / len(joining))
        return loads

    def detour(self, source: int, target: int) -> Loads:
        """Over any switch of the group, or of all: loads of 1 B."""
        loads: Loads = defaultdict(float)
        here, there = self.group[source], self.group[target]
        over = [one for one, group in self.group.items() if here != there or group == here]
        for via in over:
            for part in (self.send(source, via), self.send(via, target)):
                added(loads, part, 1 / len(over))
        return loads


KINDS = (("local",), ("local", "global"))


def added(loads: Loads, part: Loads, amount: float) -> None:
    """Add so many times a part."""
    for arc, share in part.items():
        loads[arc] += amount * share


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), failures=st.integers(0, 9))
def test_a_damaged_dragonfly_by_brute_force(seed: int, failures: int) -> None:
    shape: dict[str, Any] = {"hosts_per_switch": 2, "switches_per_group": 3}
    graph = fabric("dragonfly", (30, 8, 1), global_links_per_switch=2, **shape)
    between = np.flatnonzero((graph.node_kind[graph.source] != GPU) & network_links(graph))
    lost = np.random.default_rng(seed).choice(between, failures, replace=False)
    damage, matrix = damage_to(graph, links=lost), traffic(graph, 3 * seed)
    plain = PlainDragonfly(graph, damage)
    assume(nx.is_connected(plain.whole))
    ways: list[Loads] = [defaultdict(float) for _ in range(3)]
    ports = np.flatnonzero(graph.source < graph.gpus)
    port, under = np.empty((2, graph.gpus), np.int64)
    port[graph.source[ports]], under[graph.source[ports]] = ports, graph.target[ports]
    columns = (one.tolist() for one in (matrix.source, matrix.destination, matrix.flow_bytes))
    for gpu, peer, amount in zip(*columns, strict=True):
        first, last = int(under[gpu]), int(under[peer])
        ways[0][int(port[gpu]), gpu] += amount
        ways[0][int(port[peer]), last] += amount
        if first != last:
            added(ways[1], plain.send(first, last), amount)
            added(ways[2], plain.detour(first, last), amount)
    hosts, direct, detours = (as_array(graph, one) for one in ways)
    rate = np.broadcast_to(graph.bytes_per_s, hosts.shape)
    share = direct_share(direct, detours, rate, float((hosts / rate).max()))
    mixed = hosts + share * direct + (1 - share) * detours
    found = reroute(graph, damage, matrix)
    shortest = reroute(graph, damage, matrix, routing="ecmp")
    least = min(float((mixed / rate).max()), busiest_s(shortest) if failures else np.inf)
    assert busiest_s(found) == pytest.approx(least, rel=1e-9)
    if busiest_s(found) < busiest_s(shortest) * (1 - 1e-9):
        np.testing.assert_allclose(found.loads.link_bytes, mixed, atol=1.0)


def least_s(graph: FabricGraph, damage: Damage, matrix: TrafficMatrix) -> float:
    """Time of the best splitting of all, by an LP: flows by destination that keep at each node."""
    live = ~damage.links_out(graph)
    tail = np.concatenate((graph.source[live], graph.target[live]))
    head = np.concatenate((graph.target[live], graph.source[live]))
    rate, arcs = np.tile(graph.bytes_per_s[live], 2), len(tail)
    targets = np.unique(matrix.destination)
    rows, columns, values, given_ = [], [], [], []
    for number, target in enumerate(targets.tolist()):
        sent = np.zeros(graph.node_count)
        np.add.at(sent, matrix.source, np.where(matrix.destination == target, 1.0, 0.0))
        sent[target] = -sent.sum()
        arc = np.arange(arcs)
        for node, sign in ((tail, 1.0), (head, -1.0)):
            rows.append(number * graph.node_count + node)
            columns.append(number * arcs + arc)
            values.append(np.full(arcs, sign))
        given_.append(sent)
    size = arcs * len(targets)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    keep = coo_array(entries, shape=(graph.node_count * len(targets), size + 1))
    every = np.tile(np.arange(arcs), len(targets))
    share = np.concatenate((RATE / rate[every], -np.ones(arcs)))
    bound = (np.concatenate((every, np.arange(arcs))), np.append(np.arange(size), [size] * arcs))
    most = coo_array((share, bound), shape=(arcs, size + 1))
    cost = np.zeros(size + 1)
    cost[-1] = 1.0
    flow = float(matrix.flow_bytes[0])
    found = linprog(cost, most, np.zeros(arcs), keep, np.concatenate(given_), method="highs")
    return float(found.fun) * flow / RATE


@pytest.mark.parametrize("name", FAMILIES)
def test_no_routing_of_what_is_left_beats_an_lp_by_much(name: str) -> None:
    graph = small(name, 24, 1)
    gpu = np.arange(24)
    matrix = flows_matrix(24, source=gpu, destination=(gpu + 7) % 24, flow_bytes=1e9)
    for seed in range(2):
        damage = network_damage(graph, 2, seed)
        found = reroute(graph, damage, matrix)
        if found.cut_bytes:
            continue
        best = least_s(graph, damage, matrix)
        assert best * (1 - 1e-7) <= busiest_s(found) <= 2 * best


def mesh(switches: int, hosts: int, hb_size: int = 1) -> FabricGraph:
    """Switches that are all joined, with so many GPUs each."""
    size = (switches * hosts, 16, hb_size)
    return fabric("hyperx", size, sizes=(switches,), hosts_per_switch=hosts)


def test_a_dead_link_of_a_full_mesh_by_hand() -> None:
    """Six GPUs of one of five switches send to another, whose link is dead.

    Over each of the three others goes a third of it: 6 / 3.
    """
    graph = mesh(5, 6)
    under = graph.target[np.isin(graph.source, (0, 6))]
    both = np.isin(graph.source, under) & np.isin(graph.target, under)
    assert both.sum() == 1
    matrix = flows_matrix(30, source=np.arange(6), destination=np.arange(6, 12), flow_bytes=RATE)
    found = reroute(graph, damage_to(graph, links=np.flatnonzero(both)), matrix)
    assert busiest_s(found) == pytest.approx(2.0)


def test_gpus_of_a_dead_switch_send_through_their_domain_by_hand() -> None:
    """HB domains of four have two GPUs at either of two switches, of which one dies.

    Its two GPUs send 1 each through the two others, half each, beside what these send: 2 on a port.
    """
    graph = mesh(4, 2, 4)
    gone = int(graph.target[np.flatnonzero(graph.source == 2)][-1])
    gpu = np.arange(4)
    matrix = flows_matrix(8, source=gpu, destination=gpu + 4, flow_bytes=RATE)
    found = reroute(graph, damage_to(graph, nodes=[gone]), matrix)
    assert found.detour_bytes == 2 * RATE
    assert found.lost_bytes == found.cut_bytes == 0
    ports = np.flatnonzero((graph.source < 2) & network_links(graph))
    np.testing.assert_allclose(found.loads.link_bytes[0, ports], 2 * RATE)


@pytest.mark.parametrize("name", ["hyperx", "rail-only"])
def test_loads_of_what_is_left_are_those_that_faults_have(name: str) -> None:
    asked: dict[str, Any] = {"gpus": 64, "radix": 16, "hb_size": 4, "model": "gpt-22b"}
    asked |= {"batch": 64, "fabric": name}
    whole, broken = (
        loads("rail-only-paper", **asked),
        loads("rail-only-paper", **asked, fail=("links=4",), seed=3),
    )
    assert (whole.intact_busiest_s, broken.intact_busiest_s) == (None, whole.link_loads.busiest_s)
    graph, run = broken.graph, cast("PlacedRun", broken.run)
    damage = parse_faults(["links=4"], graph, rng=np.random.default_rng(3))
    expected = reroute(graph, damage, run.matrix()).loads
    np.testing.assert_allclose(broken.link_loads.link_bytes, expected.link_bytes)
    assert not broken.link_loads.link_bytes[:, damage.links_out(graph)].any()
    assert broken.link_loads.busiest_s > whole.link_loads.busiest_s
    assert not broken.whole
    assert whole.whole
    assert [one.kind for one in broken.collectives] == [one.kind for one in whole.collectives]
    with pytest.raises(InputError, match="ask netplan faults"):
        loads("rail-only-paper", **asked, fail=("gpu-3",), seed=3)
