"""Speed of graphs; run with ``pytest -n 0 tests/benchmarks --benchmark-only``."""

import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.jellyfish import random_links
from netplan.topologies.formats.edge_list import edge_list_lines
from netplan.topologies.formats.graphml import graphml_lines
from netplan.topologies.graph import FabricGraph
from netplan.topologies.graph.paths import path_statistics
from netplan.topologies.own.functions import register_fabric
from netplan.topologies.specs import FABRICS
from tests.topologies.kinds import JOINED

MILLION = 1 << 20


def graph_of(name: str, gpus: int, radix: int, hb_size: int) -> FabricGraph:
    return expand(FABRICS.load(name), Sizing(gpus, radix, hb_size, 450e9, 50e9))


@pytest.mark.parametrize(
    ("name", "radix", "hb_size"),
    [
        ("rail-optimized", 128, 8),
        ("fat-tree", 256, 8),
        ("rail-only", 64, 8),
        ("torus-3d", 64, 1),
        ("twisted-torus", 64, 1),
        ("hammingmesh", 64, 1),
        ("dragonfly", 128, 8),
        ("two-planes", 128, 8),
        ("wide-trunks", 128, 8),
        ("mixed-domains", 128, 8),
        ("hyperx", 256, 8),
        ("slim-fly", 256, 8),
        ("jellyfish", 256, 8),
        ("dragonfly-plus", 256, 8),
    ],
)
def test_expand_a_million_gpus(
    benchmark: BenchmarkFixture, name: str, radix: int, hb_size: int
) -> None:
    graph = benchmark(graph_of, name, MILLION, radix, hb_size)
    assert graph.link_count >= 3 * MILLION


def test_random_graph_of_25_000_switches(benchmark: BenchmarkFixture) -> None:
    def drawn() -> int:
        random_links.cache_clear()
        return len(random_links(25_000, 160, 0)[0])

    assert benchmark(drawn) == 80 * 25_000


def test_floor_of_a_random_graph(benchmark: BenchmarkFixture) -> None:
    # The ends of as many links in some order, and the links in rising order.
    rng = np.random.default_rng(0)

    def mixed() -> int:
        ends = rng.permutation(np.repeat(np.arange(25_000), 160)).reshape(-1, 2)
        return len(np.sort(ends[:, 0] * 25_000 + ends[:, 1]))

    assert benchmark(mixed) == 80 * 25_000


@pytest.mark.parametrize("gpus", [100_000, 1_000_000])
def test_fabric_of_a_graph(benchmark: BenchmarkFixture, gpus: int) -> None:
    sizing = Sizing(gpus, 128, 8, 450e9, 50e9)
    graph = expand(FABRICS.load("rail-optimized"), sizing)

    def measured() -> Fabric:
        def made(_: Sizing) -> FabricGraph:
            return graph

        return build_fabric(FABRICS.load(register_fabric(made)), sizing)

    fabric = benchmark.pedantic(measured, rounds=1)
    assert fabric.levels == build_fabric(FABRICS.load("rail-optimized"), sizing).levels


def test_memory_of_a_million_gpus(benchmark: BenchmarkFixture) -> None:
    tracemalloc.start()
    graph = benchmark(graph_of, "rail-optimized", MILLION, 128, 8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.node_count > MILLION
    assert peak < 1 << 30


def test_adjacency_of_a_million_gpus(benchmark: BenchmarkFixture) -> None:
    graph = graph_of("rail-optimized", MILLION, 128, 8)

    def adjacency() -> int:
        graph.__dict__.pop("adjacency", None)
        return len(graph.adjacency.neighbor)

    assert benchmark(adjacency) == 2 * graph.link_count


def test_the_floor_writing_the_same_bytes(benchmark: BenchmarkFixture) -> None:
    # What numpy alone needs to fill arrays of this size once, cold.
    links = graph_of("rail-optimized", MILLION, 128, 8).link_count

    def fill() -> int:
        arrays = [np.zeros(links, kind) + 1 for kind in (np.int32,) * 4 + (np.float64,)]
        return sum(array.nbytes for array in arrays)

    assert benchmark(fill) == 24 * links


@pytest.mark.parametrize(
    ("name", "gpus", "radix", "hb_size"),
    [
        ("rail-optimized", 16_384, 128, 8),
        ("rail-optimized", 131_072, 64, 8),
        ("frontier", 37_888, 64, 4),
        ("bcube", 16_384, 128, 8),
        ("torus-3d", 4096, 64, 1),
    ],
)
def test_path_statistics(
    benchmark: BenchmarkFixture, name: str, gpus: int, radix: int, hb_size: int
) -> None:
    graph = graph_of(name, gpus, radix, hb_size)
    assert benchmark(path_statistics, graph).diameter_links > 1


@pytest.mark.parametrize("lines", [edge_list_lines, graphml_lines])
def test_write_a_hundred_thousand_links(
    benchmark: BenchmarkFixture, lines: Callable[[FabricGraph], Iterator[str]]
) -> None:
    graph = graph_of("fat-tree", 32_768, 64, 8)

    def write() -> int:
        return sum(len(line) for line in lines(graph))

    assert benchmark(write) > graph.link_count


@pytest.mark.parametrize(
    ("gpus", "radix"), [(100_000, 128), pytest.param(1_000_000, 256, id="a million")]
)
@pytest.mark.parametrize("name", JOINED)
def test_design_and_levels_of_joined_switches(
    benchmark: BenchmarkFixture, name: str, gpus: int, radix: int
) -> None:
    spec, sizing = FABRICS.load(name), Sizing(gpus, radix, 8, 450e9, 50e9)

    def build() -> int:
        random_links.cache_clear()  # Jellyfish draws its graph anew
        return build_fabric(spec, sizing).switches

    assert benchmark(build) > gpus / radix
