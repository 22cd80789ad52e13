"""Speed of measured collectives: a sweep of a million sizes, one core. Aim: below half a second.

Run with ``pytest -n 0 tests/benchmarks --benchmark-only``.
"""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.traffic.gpu_group import GpuGroup, GroupKind
from netplan.workloads.accelerators import ACCELERATORS

SIZES = np.geomspace(1, 1e12, 1_000_000)


@pytest.mark.parametrize("kind", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("gpus", [8, 64])
def test_a_million_sizes(benchmark: BenchmarkFixture, kind: GroupKind, gpus: int) -> None:
    group = GpuGroup.of(ACCELERATORS.load("h100-80gb"), gpus)
    found = benchmark(group.times, kind, SIZES)
    assert (np.diff(found.time_s) >= 0).all()
    assert benchmark.stats
    assert benchmark.stats.stats.min < 0.5
