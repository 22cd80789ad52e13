"""How long it takes to map kernels onto a chip."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.performance.mapping.chip import MappingOptions, kernel_problem
from netplan.performance.mapping.fusion import best_fusion
from netplan.performance.mapping.layers import LayerExecution, layer_partitions
from netplan.performance.mapping.partitions import FusionProblem
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.kernel_graph import Kernel, KernelGraph
from netplan.workloads.model_graphs import layer_graph
from netplan.workloads.models import MODELS

SN10 = ACCELERATORS.load("sn10")


def layer(tile: int = 64) -> FusionProblem:
    """A layer of GPT 175B on eight chips, forward, backward and updates."""
    graph = layer_graph(MODELS.load("gpt-175b"), 8, "both")
    sent_s = graph.column("all_reduce_bytes") * 7 / 8 / SN10.hb_bytes_per_s
    return kernel_problem(graph, SN10, sent_s, MappingOptions(), tile)


@pytest.mark.parametrize("over", ["cuts", "ideals"])
def test_a_layer(benchmark: BenchmarkFixture, over: str) -> None:
    """Tiles and partitions of 41 kernels: below 0.1 s over cuts, 1 s over all convex ones."""
    found = benchmark(lambda: best_fusion(layer(), ideals=over == "ideals"))
    assert found.exact == (over == "ideals")


@pytest.mark.parametrize("kernels", [10, 100, 1000])
def test_growth(benchmark: BenchmarkFixture, kernels: int) -> None:
    """Cuts of a ladder of kernels, no two alike."""
    draw = Random(1)  # noqa: S311 - no secrets
    names = [f"k{at}" for at in range(kernels)]
    sizes = [(draw.randint(100, 9000), draw.randint(100, 9000)) for _ in names]
    graph = KernelGraph.of(
        [
            Kernel(name, "gemm", m, k, 2048, 1e3 * m, 2.0 * m * k)
            for name, (m, k) in zip(names, sizes, strict=True)
        ],
        [*pairwise(names), *zip(names, names[9:], strict=False)],
    )
    problem = kernel_problem(graph, SN10, np.zeros(kernels), MappingOptions(), 64)
    found = benchmark.pedantic(lambda: best_fusion(problem, ideals=False), rounds=3)
    assert found.members.sum() == kernels


def test_layers_of_a_search(benchmark: BenchmarkFixture) -> None:
    """All sequence tiles of a layer, before any collective."""
    model = MODELS.load("gpt-175b")

    def cut() -> int:
        layer_partitions.cache_clear()
        return len(layer_partitions(LayerExecution(SN10, "fused"), model, "selective", 8).steps)

    assert benchmark(cut) == 12
