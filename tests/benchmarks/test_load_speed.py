"""Speed of loads, next to what numpy alone needs to sum the same bytes.

Run with ``pytest -n 0 tests/benchmarks/test_load_speed.py --benchmark-only``. The
floors do no routing: they sum known bytes at known places. Imports are not timed.
"""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.records import replace
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.demand import Leg
from netplan.traffic.matrix import TrafficMatrix, UniformGroups, combine, flows_matrix, no_traffic
from netplan.traffic.routing import ClosTree, Router, Routing, _tier_loads, link_loads
from netplan.traffic.routing_ecmp import ecmp_loads, make_arcs
from netplan.traffic.routing_torus import TorusPositions, _dimension_order
from netplan.traffic.statistics import pair_count
from tests.traffic.clos_trees import attached, clos_tree, rail_order

MILLION = 1 << 20
FLOWS = 1_000_000


def fabric(name: str, gpus: int, radix: int, **changes: object) -> FabricGraph:
    spec = FabricSpec.read(FABRICS.load(name).to_dict() | changes)
    return expand(spec, Sizing(gpus, radix, 1, 400e9, 50e9))


def random_flows(gpus: int, flows: int) -> TrafficMatrix:
    rng = np.random.default_rng(0)
    source = rng.integers(0, gpus, flows)
    destination = (source + rng.integers(1, gpus, flows)) % gpus
    amount = rng.random(flows)
    return flows_matrix(gpus, source=source, destination=destination, flow_bytes=amount)


def ring(gpus: int) -> TrafficMatrix:
    here = np.arange(gpus)
    return flows_matrix(gpus, source=here, destination=(here + 1) % gpus, flow_bytes=np.ones(gpus))


def all_pairs(gpus: int) -> TrafficMatrix:
    everyone = UniformGroups(np.arange(gpus, dtype=np.int32)[None], 1.0, 4)
    return replace(no_traffic(gpus), groups=(everyone,))


def as_leg(matrix: TrafficMatrix) -> Leg:
    return Leg(matrix.source, matrix.destination, matrix.flow_bytes)


def sums(places: list[tuple[NDArray[np.int32], int]], amount: NDArray[np.float64]) -> None:
    for place, size in places:
        np.bincount(place, weights=amount, minlength=size)


@pytest.fixture(scope="module")
def million() -> tuple[ClosTree, TrafficMatrix]:
    tree = attached(clos_tree(MILLION, 128), rail_order(MILLION, 8))
    return tree, random_flows(MILLION, FLOWS)


def test_sum_of_matrices_of_a_million_gpus(benchmark: BenchmarkFixture) -> None:
    parts = [random_flows(MILLION, FLOWS), ring(MILLION)]
    assert len(benchmark(combine, parts).source) > MILLION


def test_floor_of_a_sum_of_matrices(benchmark: BenchmarkFixture) -> None:
    # Sorting the same pairs, and putting one column in their order.
    keys = np.random.default_rng(0).integers(0, MILLION**2, FLOWS + MILLION)
    benchmark(lambda: keys[np.argsort(keys)])


def test_pairs_of_a_million_gpus(benchmark: BenchmarkFixture) -> None:
    assert benchmark(pair_count, random_flows(MILLION, FLOWS)) > 0.99 * FLOWS


def test_clos_of_a_million_gpus(
    benchmark: BenchmarkFixture, million: tuple[ClosTree, TrafficMatrix]
) -> None:
    tree, matrix = million
    benchmark(lambda: list(_tier_loads(tree, as_leg(matrix))))


def test_floor_of_a_clos(
    benchmark: BenchmarkFixture, million: tuple[ClosTree, TrafficMatrix]
) -> None:
    """Both ends of every flow, summed once a tier, at positions that are known before."""
    tree, matrix = million
    places = []
    ends = [matrix.source, matrix.destination]
    for parent in tree.parents:
        places += [(end, len(parent)) for end in ends]
        ends = [parent[end] for end in ends]
    benchmark(sums, places, matrix.flow_bytes)


def test_torus_of_a_million_gpus(benchmark: BenchmarkFixture) -> None:
    torus, matrix = TorusPositions((64, 64, 256)), random_flows(MILLION, FLOWS)
    benchmark(_dimension_order, torus, matrix.source, matrix.destination, matrix.flow_bytes)


def test_floor_of_a_torus(benchmark: BenchmarkFixture) -> None:
    """Both ends of every flow summed on each axis, and a running sum over every link direction."""
    matrix = random_flows(MILLION, FLOWS)

    def floor() -> None:
        for _ in range(3):
            sums([(matrix.source, MILLION), (matrix.destination, MILLION)], matrix.flow_bytes)
            np.cumsum(np.ones((2, MILLION)), axis=1)

    benchmark(floor)


@pytest.mark.parametrize("routing", ["minimal", "valiant"])
def test_dragonfly_of_a_million_gpus(benchmark: BenchmarkFixture, routing: Routing) -> None:
    graph, matrix = fabric("dragonfly", FLOWS, 92), random_flows(FLOWS, FLOWS)
    benchmark.pedantic(link_loads, (graph, matrix), {"routing": routing}, rounds=2)


@pytest.mark.parametrize(("gpus", "radix"), [(1024, 16), (8192, 32), (65_536, 64)])
@pytest.mark.parametrize("pattern", [ring, all_pairs])
def test_clos_graphs(
    benchmark: BenchmarkFixture, gpus: int, radix: int, pattern: Callable[[int], TrafficMatrix]
) -> None:
    graph = fabric("fat-tree", gpus, radix)
    benchmark(link_loads, graph, pattern(gpus))


def test_next_demand_on_a_large_graph(benchmark: BenchmarkFixture) -> None:
    """What a router has found of its graph stays: no more than in `test_floor_of_a_next_demand`."""
    router = Router(fabric("fat-tree", 65_536, 64))
    router.loads(ring(65_536))
    benchmark(router.loads, random_flows(65_536, FLOWS))


def test_floor_of_a_next_demand(benchmark: BenchmarkFixture) -> None:
    """Both ends of the flows summed once a tier, and one table written."""
    matrix, graph = random_flows(65_536, FLOWS), fabric("fat-tree", 65_536, 64)
    places = [(matrix.source, 65_536), (matrix.destination, 65_536)] * 3

    def floor() -> None:
        sums(places, matrix.flow_bytes)
        np.zeros((2, graph.link_count)).sum()

    benchmark(floor)


@pytest.mark.parametrize("routing", ["dimension-order", "minimal-adaptive", "ecmp"])
def test_torus_of_4096(benchmark: BenchmarkFixture, routing: Routing) -> None:
    graph = fabric("torus-3d", 4096, 8, sizes=(16, 16, 16))
    benchmark(link_loads, graph, ring(4096), routing=routing)


def user_graph() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    edges = np.array(nx.random_regular_graph(8, 10_000, seed=1).edges())
    return edges[:, 0], edges[:, 1]


def test_ecmp_on_a_user_graph(benchmark: BenchmarkFixture) -> None:
    """10^4 nodes of 8 links, a flow from each to a random other one."""
    arcs = make_arcs(*user_graph(), np.ones(10_000, bool))
    matrix = random_flows(10_000, 10_000)
    flows = matrix.source, matrix.destination, matrix.flow_bytes
    benchmark.pedantic(ecmp_loads, (arcs, *flows), rounds=2)


def test_networkx_on_the_same_graph(benchmark: BenchmarkFixture) -> None:
    """Only the searches, for a hundredth of the flows: multiply by 100."""
    view = nx.Graph(zip(*(end.tolist() for end in user_graph()), strict=True))
    targets = random_flows(10_000, 100).destination.tolist()

    def searches() -> None:
        for target in targets:
            nx.single_source_shortest_path_length(view, target)

    benchmark.pedantic(searches, rounds=1)
