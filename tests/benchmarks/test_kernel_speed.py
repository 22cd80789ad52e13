"""Speed of measured kernels: a million of them at once, one core. Aim: well below a second.

Run with ``pytest -n 0 tests/benchmarks --benchmark-only``.
"""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.workloads.kernels import attention_time_s, product_time_s

COUNT = 1_000_000
AIM_S = 0.8


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_products(benchmark: BenchmarkFixture, dtype: str) -> None:
    """Closed forms, and those that a table corrects."""
    m, n, k = np.exp(np.random.default_rng(1).uniform(0, 11, (3, COUNT)))
    benchmark(product_time_s, "h100-80gb", dtype, m, n, k)
    assert benchmark.stats
    assert benchmark.stats.stats.min < AIM_S


def test_attention(benchmark: BenchmarkFixture) -> None:
    sequence = np.random.default_rng(1).integers(1, 1 << 17, COUNT).astype(np.float64)
    benchmark(attention_time_s, "b200", 1, sequence, 32, 8)
    assert benchmark.stats
    assert benchmark.stats.stats.min < AIM_S
