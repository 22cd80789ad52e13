"""Speed of ``optimize`` over its default space: all designs counted, the front proven.

Run with ``pytest -n 0 tests/benchmarks --benchmark-only``; the extra columns say how much was
searched.
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.questions.optimize import optimize

AIM_S = 2.0


@pytest.mark.parametrize("iteration_model", ["ptd-p", "4d"])
@pytest.mark.parametrize("gpus", [4_096, 32_768, 1_048_576])
def test_default_space(benchmark: BenchmarkFixture, gpus: int, iteration_model: str) -> None:
    def run() -> None:
        answer = optimize(
            "rail-only-paper",
            gpus=gpus,
            iteration_model=iteration_model,
            survives_switch=True,
            radices=(64, 128),
        )
        tally, searches = answer.tally, answer.tally.searches
        benchmark.extra_info |= {
            "designs": tally.size,
            "searches": searches.run + searches.bounds,
            "spared": searches.spared,
            "plans": searches.plans,
        }

    benchmark(run)
    assert benchmark.stats
    assert benchmark.stats.stats.min < AIM_S
