"""The vectorised 4D engine against the scalar oracle: every plan of many small spaces.

The oracle evaluates plan by plan with scalars and shares no code with netplan.
"""

import random
from typing import cast

import pytest

from netplan.errors import InfeasibleError
from netplan.inputs.choices import Mode, Strategy
from netplan.performance.plan import PlanTime
from netplan.performance.search import search_plans
from tests.oracles import fourd
from tests.oracles.fourd_inputs import Model as OracleModel
from tests.oracles.fourd_inputs import Plan as OraclePlan
from tests.oracles.fourd_inputs import Strategy as OracleStrategy
from tests.oracles.fourd_inputs import system_with_domain
from tests.performance.cases import small_model, training, two_tiers

ORACLE_NAMES: dict[str, OracleStrategy] = {"1d": "1d", "2d": "2d-context", "summa": "2d-summa"}
EVERY_PLAN = 10**6


def random_case(seed: int) -> tuple[OracleModel, str, int, int, int]:
    """Model, system, domain, GPUs and batch, with sizes that often do not divide."""
    draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
    heads = draw.choice([4, 6, 8, 12])
    model = OracleModel(
        "random",
        sequence=draw.choice([256, 300, 384, 1000, 1024]),
        embedding=heads * draw.choice([64, 96, 128]) * draw.choice([1, 2]),
        heads=heads,
        depth=draw.choice([2, 4, 6, 12]),
    )
    domain = draw.choice([1, 2, 4, 6, 8])
    gpus = domain * draw.choice([1, 2, 4, 6])
    return model, draw.choice(["A100", "H200", "B200"]), domain, gpus, draw.choice([6, 8, 12, 16])


def key_of_plan(timed: PlanTime) -> tuple[int, ...]:
    plan, inside = timed.plan, timed.plan.placement.levels[0]
    return (
        plan.tensor, plan.context, plan.pipeline, plan.data, int(plan.microbatch), plan.panels,
        inside.tensor, inside.context, inside.pipeline, inside.data,
    )  # fmt: skip


def key_of_oracle(plan: OraclePlan) -> tuple[int, ...]:
    split = plan.split
    return (
        split.n1, split.n2, plan.n_p, plan.n_d, split.b, split.n_b,
        split.v1, split.v2, plan.v_p, plan.v_d,
    )  # fmt: skip


def numbers_of_oracle(found: fourd.Evaluation) -> list[float]:
    times, memory = found.times, found.memory
    return [
        times.iteration_s, times.comp_s, times.memory_s, times.tensor_s, times.data_s,
        times.pipeline_s, times.bubble_s, memory.weights_gb, memory.gradients_gb,
        memory.optimizer_gb, memory.activations_gb,
    ]  # fmt: skip


def numbers_of(timed: PlanTime) -> list[float]:
    parts, memory = timed.breakdown_s, timed.memory_parts_bytes
    names = ("compute", "memory", "tensor_comm", "data_comm", "pipeline_comm", "bubble")
    kinds = ("weights", "gradients", "optimizer", "activations")
    return [
        timed.iteration_time_s,
        *(parts[name] for name in names),
        *(memory[kind] / 1e9 for kind in kinds),
    ]


@pytest.mark.parametrize("mode", ["published-code", "corrected"])
@pytest.mark.parametrize("strategy", ["1d", "2d", "summa"])
@pytest.mark.parametrize("seed", range(14))
def test_every_plan_of_a_small_space(seed: int, strategy: str, mode: str) -> None:
    model, name, domain, gpus, batch = random_case(seed)
    system = system_with_domain(name, domain)
    expected = {
        key_of_oracle(plan): numbers_of_oracle(
            fourd.evaluate(model, system, plan, cast("Mode", mode))
        )
        for plan in fourd.candidates(model, system, ORACLE_NAMES[strategy], batch, gpus)
    }
    case = training(
        small_model(
            hidden_size=model.embedding,
            heads=model.heads,
            layers=model.depth,
            sequence_length=model.sequence,
        ),
        name,
        batch,
    )
    options = {"strategy": cast("Strategy", strategy), "mode": cast("Mode", mode)}
    levels = two_tiers(name, domain, gpus)
    if not expected:
        with pytest.raises(InfeasibleError):
            search_plans(case, levels, top=EVERY_PLAN, **options)  # type: ignore[arg-type]
        return
    found = search_plans(case, levels, top=EVERY_PLAN, **options)  # type: ignore[arg-type]
    assert found.enumerated == found.feasible == len(found.plans) == len(expected)
    assert {key_of_plan(plan) for plan in found.plans} == set(expected)
    for plan in found.plans:
        # Parts that cancel to nothing but rounding are compared with the whole time.
        whole = plan.iteration_time_s
        wanted = pytest.approx(expected[key_of_plan(plan)], rel=1e-9, abs=1e-12 * whole)
        assert numbers_of(plan) == wanted
    seconds = [plan.iteration_time_s for plan in found.plans]
    assert seconds == pytest.approx(sorted(seconds), rel=1e-12)
