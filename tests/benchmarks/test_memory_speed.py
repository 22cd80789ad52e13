"""Speed of memory model ``stack``: all rungs of a ladder of 10,000 plans, one core.

Run with ``pytest -n 0 tests/benchmarks --benchmark-only``. Aim: 50 ms for dense models, 200 ms with
experts.
"""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.performance.stack_memory import PlanSizes, StackMemory
from netplan.performance.stacks import MemoryOfStack
from netplan.workloads.models import MODELS
from netplan.workloads.recomputation import Recomputation

PLANS = 10_000
AIM_S = {"llama-3-405b": 0.05, "deepseek-v3": 0.2, "llama-4-maverick": 0.2}
RUNGS = ("none", "core_attn", "block:1", "full")


@pytest.mark.parametrize("model", AIM_S)
def test_all_rungs(benchmark: BenchmarkFixture, model: str) -> None:
    memory = StackMemory(MODELS.load(model), MemoryOfStack(software="megatron-bridge"))
    random = np.random.default_rng(0)
    sizes = PlanSizes(
        random.choice(np.array([1.0, 2, 4, 8]), PLANS),
        random.choice(np.array([8.0, 16, 64]), PLANS),
        random.choice(np.array([1.0, 2, 4, 8]), PLANS),
        random.choice(np.array([1.0, 2]), PLANS),
        random.integers(1, 48, PLANS).astype(np.float64),
        1.0,
        64.0,
        random.choice(np.array([1.0, 8]), PLANS),
    )
    rungs = [Recomputation.read(rung) for rung in RUNGS]

    def ladder() -> None:
        for rung in rungs:
            memory.held(sizes, recompute=rung)

    benchmark(ladder)
    assert benchmark.stats
    assert benchmark.stats.stats.min < AIM_S[model]
