"""Speed of the search for serving plans: every plan of 1,024 GPUs, one core. Aim: below 1 s.

So it is of 11,000 plans with experts, and of any dense model's. With 50 numbers of requests each
they are 560,000, and pools of them 130 million rows, of which those above their bounds are timed:
these may take 5 s.
Run with ``pytest -n 0 tests/benchmarks --benchmark-only``; the extra column is plans.
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.performance.serving.cases import (
    ServingSoftware,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.outcomes import Goal, Requests
from netplan.performance.serving.serving_search import best_servers
from netplan.performance.stacks import SERVING_STACKS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

GPUS = 1_024
AIM_S, MANY_AIM_S = 1.0, 5.0
MANY = 500_000


@pytest.mark.parametrize("apart", [False, True], ids=["one pool", "two pools"])
@pytest.mark.parametrize(
    ("name", "accelerator"), [("llama-3.1-70b", "h200"), ("deepseek-r1", "gb200")]
)
@pytest.mark.parametrize("goal", [Goal(), Goal(concurrency=4096)], ids=["any", "given"])
def test_every_plan(
    benchmark: BenchmarkFixture, name: str, accelerator: str, goal: Goal, *, apart: bool
) -> None:
    chip, model = ACCELERATORS.load(accelerator), MODELS.load(name)
    software = ServingSoftware(SERVING_STACKS.load("typical-server"))
    formats = formats_of(chip, model, "fp8")
    levels = domain_levels(chip, GPUS)
    case = serving_case(chip, model, levels, Requests(2048, 256), formats, software)
    found = benchmark.pedantic(best_servers, (case, GPUS, {}, goal), {"apart": apart}, rounds=2)
    assert benchmark.stats
    benchmark.extra_info |= {"plans": found.enumerated}
    assert benchmark.stats.stats.min < (MANY_AIM_S if found.enumerated > MANY else AIM_S)
