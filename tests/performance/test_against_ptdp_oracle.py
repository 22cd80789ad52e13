"""The vectorised PTD-P search against plain loops, on two and three levels of every kind."""

from math import inf

import pytest

from netplan.levels import Level
from netplan.performance.search import search_plans
from netplan.performance.setting import TrainedModel
from tests.oracles.ptdp import Candidate, Job, Tier, candidates, iteration_s, memory_bytes
from tests.performance.cases import PTDP, small_model

EVERY_PLAN = 10**6
FABRICS = {
    "one switch": [Tier("switch", 8, 450e9, 1e-6)],
    "two switches": [Tier("switch", 4, 450e9, 1e-6), Tier("switch", 4, 50e9, 2e-6)],
    "torus": [
        Tier("switch", 2, 450e9, 1e-6),
        Tier("ring", 4, 50e9, 2e-6),
        Tier("ring", 2, 25e9, 3e-6),
    ],
    "long ring": [Tier("ring", 8, 50e9, 2e-6)],
    "dragonfly": [
        Tier("switch", 2, 450e9, 1e-6),
        Tier("mesh", 4, 30e9, 2e-6),
        Tier("mesh", 3, 10e9, 4e-6),
    ],
    "ring inside mesh": [Tier("ring", 6, 100e9, 1e-6), Tier("mesh", 2, 20e9, 5e-6)],
}


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("memory", [inf, 0.25e9, 0.4e9])
def test_every_plan(name: str, memory: float) -> None:
    tiers = FABRICS[name]
    model = small_model(hidden_size=384, heads=6, layers=12, sequence_length=192)
    job = Job(h=384, l=12, s=192, V=1000, B=12, F=100e12, memory=memory)
    every = list(candidates(job, tiers))
    fitting = {
        one: iteration_s(job, tiers, one) for one in every if memory_bytes(job, one) <= memory
    }
    levels = tuple(
        Level(tier.kind, tier.size, tier.rate, step_latency_s=tier.step_s)  # type: ignore[arg-type]
        for tier in tiers
    )
    found = search_plans(TrainedModel(model, 12, 100e12, memory, PTDP), levels, top=EVERY_PLAN)
    assert found.enumerated == len(every)
    assert found.feasible == len(fitting) > 0
    got = {
        Candidate(
            tuple(
                (level.tensor, level.data, level.pipeline) for level in timed.plan.placement.levels
            ),
            int(timed.plan.microbatch),
            timed.plan.interleave,
        ): timed
        for timed in found.plans
    }
    assert set(got) == set(fitting)
    for one, timed in got.items():
        assert timed.iteration_time_s == pytest.approx(fitting[one], rel=1e-9)
        assert timed.memory_bytes == pytest.approx(memory_bytes(job, one), rel=1e-9)
    assert found.plans[0].iteration_time_s == pytest.approx(min(fitting.values()), rel=1e-9)
