"""Speed of post-training: a step, the best split of many GPUs, new weights on their links.

Run with ``pytest -n 0 tests/benchmarks/test_post_training_speed.py --benchmark-only``. Times are
those of the processor."""

import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan import search
from netplan.performance.posttraining.lengths import Lengths
from netplan.performance.posttraining.rollouts import Batch, RoundTime, simulate_rollouts

pytestmark = pytest.mark.benchmark(timer=time.process_time)


@pytest.mark.parametrize("name", ["grpo-70b-h100", "rl-moe-gb300"])
def test_a_step_of_given_pools(benchmark: BenchmarkFixture, name: str) -> None:
    """Two searches and the new weights on the links of the fabric."""
    answer = benchmark.pedantic(search, (name,), rounds=3)
    assert answer.to_dict()["basis"] == "bound"


@pytest.mark.parametrize("gpus", [256, 4096])
def test_the_best_split(benchmark: BenchmarkFixture, gpus: int) -> None:
    """Every split of 32 servers, and of 512 those that lie around the best."""
    inputs = {"gpus": gpus, "prompts": gpus // 2}
    answer = benchmark.pedantic(search, ("grpo-70b-h100",), inputs, rounds=1)
    benchmark.extra_info["splits"] = len(answer.to_dict()["split"])


def test_rollouts_of_many_answers(benchmark: BenchmarkFixture) -> None:
    """A draw of 131,072 answers on 512 replicas, from event to event."""
    lengths = Lengths.lognormal(2000, 8000, cap=16384)
    batch = Batch(answers=131_072, replicas=512, slots=128)
    run = (lengths, batch, RoundTime(0.01, 8e-5))
    drawn = benchmark.pedantic(simulate_rollouts, run, rounds=3)
    assert len(drawn.ends_s) == 512
