"""Speed of failure scenarios.

Run with ``pytest -n 0 tests/benchmarks/test_fault_speed.py --benchmark-only``.
Imports are not timed.
"""

from functools import cache

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.arrays import Ints
from netplan.faults.damage.capacity import remaining_bandwidth
from netplan.faults.damage.cuts import Cuts, network_leg, uniform_traffic
from netplan.faults.damage.damage import Damage, find_effects
from netplan.faults.damage.flows import _values_by_owner, reduced_graph
from netplan.faults.damage.inventory import Inventory
from netplan.faults.damage.scenario import parse_faults, read_scenario
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS

LARGE = [("rail-only", 128, 256), ("rail-optimized", 64, 8), ("rail-optimized", 64, 256)]


@cache
def graph_of(name: str, gpus: int, radix: int, hb_size: int) -> FabricGraph:
    return expand(FABRICS.load(name), Sizing(gpus, radix, hb_size, 450e9, 50e9))


def damages(graph: FabricGraph, count: int, *faults: str) -> list[Damage]:
    scenario, rng = read_scenario(faults, Inventory(graph)), np.random.default_rng(0)
    return [scenario.damage(rng) for _ in range(count)]


def owned(items: int = 1 << 20) -> tuple[Ints, Ints, int]:
    rng = np.random.default_rng(0)
    return rng.integers(0, items >> 3, items), rng.integers(0, items, items), items >> 3


def test_values_by_owner_of_a_million(benchmark: BenchmarkFixture) -> None:
    """Next to `test_floor_of_values_by_owner`; np.lexsort takes over ten times as long."""
    benchmark(_values_by_owner, *owned())


def test_floor_of_values_by_owner(benchmark: BenchmarkFixture) -> None:
    owner, value, _ = owned()
    benchmark(np.sort, owner * (1 << 20) + value)


def test_drawing_them(benchmark: BenchmarkFixture) -> None:
    benchmark(damages, graph_of("fat-tree", 1024, 16, 1), 1000, "links=10")


@pytest.mark.parametrize(("name", "radix", "hb_size"), LARGE)
def test_parse_at_32768(benchmark: BenchmarkFixture, name: str, radix: int, hb_size: int) -> None:
    graph = graph_of(name, 32_768, radix, hb_size)
    benchmark(parse_faults, ["links=10", "leaf=2", "gpu=5", "rail-3/leaf-0"], graph)


@pytest.mark.parametrize(("name", "radix", "hb_size"), LARGE)
def test_effects_at_32768(benchmark: BenchmarkFixture, name: str, radix: int, hb_size: int) -> None:
    graph = graph_of(name, 32_768, radix, hb_size)
    benchmark(find_effects, graph, damages(graph, 1, "links=10", "leaf=2")[0])


@pytest.mark.parametrize(("name", "radix", "hb_size"), LARGE)
def test_one_pair_of_domains_at_32768(
    benchmark: BenchmarkFixture, name: str, radix: int, hb_size: int
) -> None:
    graph = graph_of(name, 32_768, radix, hb_size)
    damage = damages(graph, 1, "links=10", "leaf=2")[0]
    network = reduced_graph(graph).left(damage)
    benchmark(network.flow, 1, network.domains - 2)


@pytest.mark.parametrize("name", ["rail-optimized", "rail-only", "dragonfly", "torus-3d"])
def test_all_pairs_of_ten_single_failures_at_32768(benchmark: BenchmarkFixture, name: str) -> None:
    """The worst pair and the mean of ten failures, one by one: aim 1 s."""
    graph = graph_of(name, 32_768, 64, 8)
    intact = reduced_graph(graph).intact
    copies = damages(graph, 10, "links=1")
    found = benchmark(
        lambda: [remaining_bandwidth(graph, damage, intact=intact) for damage in copies]
    )
    assert all(left.exact for left in found)


@pytest.mark.parametrize("name", ["rail-optimized", "rail-only", "dragonfly", "torus-3d"])
def test_all_pairs_of_ten_failures_together_at_32768(
    benchmark: BenchmarkFixture, name: str
) -> None:
    """The same of links, GPUs and switches at once, its reduced graph included: aim 1 s."""
    graph = graph_of(name, 32_768, 64, 8)
    parts = ("links=6", "gpus=4") if name == "torus-3d" else ("links=4", "gpus=3", "switches=3")
    damage = damages(graph, 1, *parts)[0]
    assert benchmark(remaining_bandwidth, graph, damage).exact


@pytest.mark.parametrize(("name", "radix", "hb_size"), LARGE)
def test_pace_at_32768(benchmark: BenchmarkFixture, name: str, radix: int, hb_size: int) -> None:
    graph = graph_of(name, 32_768, radix, hb_size)
    cuts = Cuts.of(graph, network_leg(graph, uniform_traffic(graph), forwarding=False))
    damage = damages(graph, 1, "links=10", "leaf=2", "gpu=5")[0]
    effects = find_effects(graph, damage)
    benchmark(lambda: cuts.throughput(damage, effects, np.ones(graph.gpus)).options())
