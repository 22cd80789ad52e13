"""Loads and throughput after rerouting, against a router in plain Python and one by one."""

from collections import defaultdict
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from netplan.errors import InputError
from netplan.faults.copies import levels_to
from netplan.faults.damage import Damage, no_damage
from netplan.faults.inventory import Inventory
from netplan.faults.pods import pod_batch, pod_throughput, pods_of
from netplan.faults.rerouting import reroute
from netplan.faults.scenario import parse_faults, read_scenario
from netplan.records import replace
from netplan.topologies.graph import FabricGraph
from netplan.traffic.matrix import TrafficMatrix, UniformGroups, flows_matrix, no_traffic
from netplan.traffic.routing import link_loads
from netplan.traffic.routing_ecmp import make_arcs
from tests.faults.damaged import (
    Case,
    attached_gpus,
    damage_to,
    damaged_graph,
    fabric,
    pod_flows,
    random_damage,
    small_cases,
)
from tests.oracles.router import Flow, as_array, ecmp, net_outflow, network_of

CASES = small_cases()


def random_matrix(gpus: int, flows: int, seed: int) -> TrafficMatrix:
    rng = np.random.default_rng(seed)
    source = rng.integers(0, gpus, flows)
    destination = (source + rng.integers(1, gpus, flows)) % gpus
    amount = rng.integers(1, 1000, flows).astype(float)
    return flows_matrix(gpus, source=source, destination=destination, flow_bytes=amount)


class Expected(NamedTuple):
    """Loads, and traffic that is lost, cut or on detours."""

    loads: NDArray[np.float64]
    lost: float
    cut: float
    detour: float


def alive(graph: FabricGraph, damage: Damage, *, inside: bool) -> "nx.MultiGraph[int]":
    view, out = network_of(graph, inside=inside), damage.links_out(graph)
    view.remove_edges_from([(a, b, k) for a, b, k in view.edges(keys=True) if out[k]])
    return view


def joined(view: "nx.MultiGraph[int]", way: tuple[int, int], hide: frozenset[int]) -> bool:
    return way[0] == way[1] or nx.has_path(view.subgraph(set(view) - (hide - set(way))), *way)


def usual_ways(
    graph: FabricGraph, source: int, target: int, *, rails: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Inside a domain, and over the network."""
    (home, rank), (away, turn) = divmod(source, graph.hb_size), divmod(target, graph.hb_size)
    relay, last = home * graph.hb_size + turn, away * graph.hb_size + rank
    if home == away and graph.hb_size > 1:
        return (source, target), (target, target)
    if not rails or rank == turn:
        return (source, source), (source, target)
    if relay < graph.gpus:
        return (source, relay), (relay, target)
    return (last, target), (source, last)


def plain_python(case: Case, damage: Damage, flows: list[Flow], *, rails: bool) -> Expected:
    """Route flow by flow: the usual way if it is whole, else any live way."""
    graph, nobody = case.graph, frozenset[int]()
    inside, outside = (alive(graph, damage, inside=inside) for inside in (True, False))
    whole = nx.compose(inside, outside)
    blocked = nobody if case.passing else frozenset(range(graph.gpus))
    loads: dict[tuple[int, int], float] = defaultdict(float)
    lost = cut = detour = 0.0
    for source, target, amount in flows:
        inner, outer = usual_ways(graph, source, target, rails=rails)
        if damage.node_down[source] or damage.node_down[target]:
            lost += amount
        elif joined(inside, inner, nobody) and joined(outside, outer, blocked):
            for view, way, hide in ((inside, inner, nobody), (outside, outer, blocked)):
                if way[0] != way[1]:
                    ecmp(view, hide)((*way, amount), loads)
        elif joined(whole, (source, target), nobody):
            detour += amount
            ecmp(whole, nobody)((source, target, amount), loads)
        else:
            cut += amount
    return Expected(as_array(graph, loads), lost, cut, detour)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000), failures=st.integers(0, 8))
def test_rerouted_loads_equal_plain_python(name: str, seed: int, failures: int) -> None:
    case = CASES[name]
    damage = random_damage(case.graph, failures, np.random.default_rng(seed))
    matrix = random_matrix(case.graph.gpus, 25, seed)
    columns = (matrix.source.tolist(), matrix.destination.tolist(), matrix.flow_bytes.tolist())
    rails = name.startswith("rail-only") or "HB" in name or name == "torus of domains"
    expected = plain_python(case, damage, list(zip(*columns, strict=True)), rails=rails)
    found = reroute(case.graph, damage, matrix)
    np.testing.assert_allclose(found.loads.link_bytes, expected.loads, rtol=1e-9, atol=1e-6)
    assert (found.lost_bytes, found.cut_bytes, found.detour_bytes) == expected[1:]
    assert not found.loads.link_bytes[:, damage.links_out(case.graph)].any()
    # What is routed leaves its source and reaches its destination.
    routed = matrix.total_bytes - found.lost_bytes - found.cut_bytes
    assert abs(net_outflow(case.graph, found.loads.link_bytes)).sum() <= 2 * routed + 1e-6


@pytest.mark.parametrize("name", ["fat tree", "rail-only, leaves and spines", "two planes"])
def test_without_damage_nothing_changes(name: str) -> None:
    graph = CASES[name].graph
    matrix = random_matrix(graph.gpus, 50, 1)
    everyone = UniformGroups(np.arange(graph.gpus, dtype=np.int32)[None], 2.0, 5)
    matrix = replace(matrix, groups=(everyone,))
    found = reroute(graph, no_damage(graph), matrix)
    expected = link_loads(graph, matrix, routing="ecmp")
    np.testing.assert_allclose(found.loads.link_bytes, expected.link_bytes, rtol=1e-9)
    assert found.throughput == pytest.approx(1 / expected.busiest_s)
    assert found.lost_bytes == found.cut_bytes == found.detour_bytes == 0
    # On a graph with links taken out, the ordinary router does the same.
    spine = damage_to(graph, links=[graph.link_count - 1])
    left = damaged_graph(graph, spine)
    rails = name.startswith("rail-only")
    again = link_loads(left, matrix, routing="ecmp", forwarding=rails).link_bytes
    rerouted = reroute(graph, spine, matrix).loads.link_bytes
    np.testing.assert_allclose(rerouted[:, :-1], again, rtol=1e-9)


def test_throughput_by_hand() -> None:
    """One leaf of eight hosts with eight uplinks: 8 x 10 GB/s over seven links of 50 GB/s."""
    graph = fabric("fat-tree", (128, 16, 1))
    matrix = flows_matrix(
        128, source=range(8), destination=range(64, 72), flow_bytes=np.full(8, 10e9)
    )
    assert reroute(graph, no_damage(graph), matrix).throughput == pytest.approx(5.0)
    lost = parse_faults(["leaf-0:9"], graph)
    found = reroute(graph, lost, matrix)
    assert found.throughput == pytest.approx(50 / (80 / 7))
    assert found.loads.hottest(1)[0].sender == "leaf-0"
    gone = reroute(graph, parse_faults(["leaf-0"], graph), matrix)
    assert (gone.throughput, gone.cut_bytes, gone.lost_bytes) == (0.0, 80e9, 0.0)
    dead = reroute(graph, parse_faults([f"gpu-{g}" for g in range(8)], graph), matrix)
    assert (dead.throughput, dead.cut_bytes, dead.lost_bytes) == (float("inf"), 0.0, 80e9)


def test_ecmp_may_gain_by_a_second_failure() -> None:
    """Even splitting knows nothing of what lies behind a next hop, so less can carry more.

    Two links lead from the spine of each pod to each of the four cores of its plane. With one of
    two links gone, core 0 still gets its share of what is for pod 0, and passes it on over one
    link: half of the throughput. With both gone, the other cores take it, and the spine has six of
    eight links.
    """
    graph = fabric("fat-tree", (512, 16, 1))
    both = parse_faults(["plane-0/spine-0--plane-0/core-0"], graph)
    links = np.flatnonzero(both.link_down)
    assert len(links) == 2
    shares = pod_throughput(graph, [damage_to(graph, links=links[:1]), both]).share
    assert shares.tolist() == pytest.approx([1 / 2, 3 / 4])


def test_paths_do_not_lead_through_nodes_that_do_not_forward() -> None:
    # 0-1-2-3 over node 1, which forwards nothing, and 0-4-5-3 over two that do.
    ends = np.array([0, 1, 2, 0, 4, 5]), np.array([1, 2, 3, 4, 5, 3])
    forwards = np.array([False, False, True, False, True, True])
    levels = levels_to(make_arcs(*ends, forwards), 3)
    assert [level.node.tolist() for level in levels] == [[2, 5], [1, 4], [0]]
    assert len(levels[2].arc) == 1


POD_CASES = {
    "three tiers": fabric("fat-tree", (128, 8, 1)),
    "three tiers, 3:1": fabric("fat-tree", (150, 8, 1), ratio=3.0),
    "three tiers, one uplink": fabric("fat-tree", (147, 8, 1), ratio=7.0),
    "four tiers": fabric("fat-tree", (150, 8, 1)),
    "rails": fabric("rail-optimized", (128, 8, 4)),
    "two tiers": fabric("rail-optimized", (64, 16, 8)),
    "scalable units": fabric("dgx-superpod", (64, 8, 8)),
    "one switch": fabric("fat-tree", (8, 8, 2)),
    "two planes": fabric("twin-plane", (64, 8, 4)),
    "dragonfly": fabric("dragonfly", (64, 8, 4)),
    "bcube": fabric("bcube", (36, 8, 1)),
}


def some_damages(graph: FabricGraph, count: int, seed: int) -> list[Damage]:
    rng = np.random.default_rng(seed)
    damages = [random_damage(graph, int(rng.integers(0, 12)), rng) for _ in range(count)]
    inventory = Inventory(graph)
    texts = [["link=1"], ["switch=1"], ["switch=1", "link=5"], ["gpu=3"], ["link=25%"], ["nic=2"]]
    return damages + [read_scenario(text, inventory).damage(rng) for text in texts]


@pytest.mark.parametrize("name", POD_CASES)
def test_batched_throughput_equals_one_by_one(name: str) -> None:
    graph = POD_CASES[name]
    batch = pod_batch(graph, pods_of(graph))
    damages = some_damages(graph, 40, 1)
    found = pod_throughput(graph, damages)
    alone = [batch.alone(damage) for damage in damages]
    np.testing.assert_allclose(found.bytes_per_s, alone, rtol=1e-9)
    assert found.intact_bytes_per_s == pytest.approx(batch.alone(no_damage(graph)))
    assert found.searched < len(damages)
    assert len(np.unique(found.bytes_per_s)) > 3


@pytest.mark.parametrize("name", POD_CASES)
def test_batched_throughput_equals_the_generic_router(name: str) -> None:
    graph = POD_CASES[name]
    for damage in some_damages(graph, 3, 2):
        found = pod_throughput(graph, [damage]).bytes_per_s[0]
        pods, attached = pods_of(graph), attached_gpus(graph, damage)
        alive = ~damage.node_down[: graph.gpus]
        if set(pods[alive]) != set(pods[attached]):
            assert found == 0
            continue
        # Flows between GPUs are routed past their domains, even those within one.
        expected = reroute(replace(graph, hb_size=1), damage, pod_flows(graph, damage))
        if graph.hb_size == 1 or not expected.detour_bytes:
            assert found == pytest.approx(expected.throughput)


@pytest.mark.parametrize("name", ["three tiers", "rails", "two planes"])
def test_own_pods_that_share_leaves(name: str) -> None:
    """Pods of five GPUs: leaves of four or eight have GPUs of several."""
    graph = POD_CASES[name]
    pods = np.arange(graph.gpus) // 5
    damages = some_damages(graph, 10, 3)
    found = pod_throughput(graph, damages, pods=pods).bytes_per_s
    alone = [pod_batch(graph, pods).alone(damage) for damage in damages]
    np.testing.assert_allclose(found, alone, rtol=1e-9)
    # Numbers of pods may have gaps.
    again = pod_throughput(graph, damages, pods=3 * pods + 1).bytes_per_s
    assert np.array_equal(again, found)
    flows = pod_flows(graph, damages[-1], pods)
    expected = reroute(replace(graph, hb_size=1), damages[-1], flows)
    if not expected.detour_bytes:
        assert found[-1] == pytest.approx(expected.throughput)


def test_pods_by_hand() -> None:
    assert np.bincount(pods_of(POD_CASES["three tiers"])).tolist() == [16] * 8
    assert np.bincount(pods_of(POD_CASES["two tiers"])).tolist() == [8] * 8
    assert np.bincount(pods_of(POD_CASES["one switch"])).tolist() == [1] * 8
    # GPUs of one rail share a leaf in both planes; twice the ports, eight GPUs a leaf.
    assert len(np.unique(pods_of(POD_CASES["two planes"]))) == 8
    assert np.bincount(pods_of(POD_CASES["dragonfly"])).tolist() == [8] * 8
    assert np.bincount(pods_of(POD_CASES["bcube"])).tolist() == [6] * 6


def test_pod_throughput_by_hand() -> None:
    """128 hosts of 50 GB/s in eight pods of 16: each pod sends 16 x 50 / 7 to each other."""
    graph = POD_CASES["three tiers"]
    whole = 16 * 50e9 / 7
    faults = {
        # Four hosts share what three uplinks of four carry.
        "leaf-0:5": 3 / 4,
        # 15 hosts send what 16 did.
        "gpu-0": 15 / 16,
        "gpu-0:1": 15 / 16,
        # Twelve hosts of 16; their uplinks have room for what the fourth leaf did.
        "leaf-0": 12 / 16,
        # A spine of a pod: the others of the pod take its quarter.
        "plane-0/spine-0": 3 / 4,
    }
    found = pod_throughput(graph, [parse_faults([fault], graph) for fault in faults])
    assert found.intact_bytes_per_s == pytest.approx(whole)
    assert found.share.tolist() == pytest.approx(list(faults.values()))
    assert found.searched == 0


def test_a_dead_pod_takes_no_part_and_a_stranded_one_stops_all() -> None:
    graph = POD_CASES["three tiers"]
    dead = parse_faults([f"gpu-{gpu}" for gpu in range(16)], graph)
    stranded = parse_faults([f"leaf-{leaf}" for leaf in range(4)], graph)
    found = pod_throughput(graph, [dead, stranded])
    # Six others instead of seven.
    assert found.share.tolist() == pytest.approx([7 / 6, 0.0])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 40))
def test_links_lost_never_raise_throughput_above_the_intact(seed: int, count: int) -> None:
    graph = POD_CASES["three tiers"]
    damage = parse_faults([f"link={count}"], graph, rng=np.random.default_rng(seed))
    assert pod_throughput(graph, [damage]).share[0] <= 1 + 1e-12


def test_damages_may_come_from_a_generator() -> None:
    graph = POD_CASES["three tiers"]
    scenario = read_scenario(["links=10"], Inventory(graph))

    def shares(seed: int) -> list[float]:
        rng = np.random.default_rng(seed)
        damages = (scenario.damage(rng) for _ in range(300))
        found: list[float] = pod_throughput(graph, damages).share.tolist()
        return found

    assert shares(1) == shares(1)
    assert shares(1) != shares(2)
    assert pod_throughput(graph, []).bytes_per_s.tolist() == []


def test_what_has_no_pods_is_refused() -> None:
    rails = fabric("rail-only", (64, 8, 8))
    with pytest.raises(InputError, match="does not join all GPUs by itself"):
        pod_throughput(rails, [no_damage(rails)])
    torus = fabric("torus-2d", (16, 8, 1))
    with pytest.raises(InputError, match="has no switches, and so no pods"):
        pod_throughput(torus, [no_damage(torus)])
    found = pod_throughput(torus, [no_damage(torus)], pods=np.arange(16) // 4)
    assert found.share.tolist() == [1.0]
    # Rails meet in HB domains only: every copy, the intact one too, is routed by itself.
    pods = np.arange(64) // 32
    lost = parse_faults(["rail-0/leaf-0"], rails)
    found = pod_throughput(rails, [lost], pods=pods)
    assert found.searched == 1
    assert 0 < found.bytes_per_s[0] < found.intact_bytes_per_s
    with pytest.raises(InputError, match="give the pod of each of the 16 GPUs, at least two"):
        pod_throughput(torus, [no_damage(torus)], pods=np.zeros(16, np.int64))
    with pytest.raises(InputError, match="make it for this one"):
        pod_throughput(torus, [no_damage(rails)], pods=np.arange(16) // 4)
    with pytest.raises(InputError, match="is for 9 GPUs"):
        reroute(torus, no_damage(torus), no_traffic(9))
