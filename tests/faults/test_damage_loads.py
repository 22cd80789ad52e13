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
from netplan.faults.damage.damage import Damage, no_damage
from netplan.faults.damage.rerouting import reroute
from netplan.faults.damage.scenario import parse_faults
from netplan.records import replace
from netplan.topologies.graph import FabricGraph
from netplan.traffic.matrix import TrafficMatrix, UniformGroups, flows_matrix, no_traffic
from netplan.traffic.routing import link_loads
from tests.faults.damaged import Case, damage_to, damaged_graph, fabric, random_damage, small_cases
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
    found = reroute(case.graph, damage, matrix, routing="ecmp")
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


def test_demands_of_another_fabric_are_refused() -> None:
    torus = fabric("torus-2d", (16, 8, 1))
    with pytest.raises(InputError, match="is for 9 GPUs"):
        reroute(torus, no_damage(torus), no_traffic(9))
