"""What holds for every space: sums, monotony, and independence of how levels are written."""

from itertools import product
from math import prod
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InfeasibleError
from netplan.inputs.choices import Strategy
from netplan.levels import Level
from netplan.performance.evaluation import Evaluation
from netplan.performance.iteration_model import IterationModel
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan, search_largest, search_plans
from netplan.performance.setting import Fixed, Options, Setting, TrainedModel
from netplan.performance.space import enumerate_plans
from netplan.reports.schema import plain_data
from netplan.traffic.placement import Degrees, Placement, Placements, all_placements, distinct
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Variant
from tests.performance.cases import FOURD, PTDP, SYSTEMS, small_model, training, two_tiers

TORUS = (
    Level("switch", 2, 900e9, step_latency_s=2.5e-6),
    Level("ring", 4, 50e9, step_latency_s=5e-6),
    Level("ring", 4, 50e9, step_latency_s=5e-6),
)
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
EVERY_PART = [
    FOURD.changed(compute=a, communication=b, overlap=c)
    for a, b, c in product(*((getattr(FOURD, part), getattr(PTDP, part))
                             for part in ("compute", "communication", "overlap")))
]  # fmt: skip


def with_model(assumptions: IterationModel) -> TrainedModel:
    tensor, vector, capacity, memory, _, _ = SYSTEMS["B200"]
    return TrainedModel(small_model(), 16, tensor, capacity, assumptions, vector, memory)


def sums_of(setting: Setting, levels: tuple[Level, ...]) -> tuple[list[float], list[float]]:
    """Iteration times of some plans as the search ranks them, and the sums of their parts."""
    space = enumerate_plans(setting, [level.size for level in levels])
    evaluation = Evaluation.of(setting, levels, space)
    ranked, summed = [], []
    for place, schedule in space.pairs(
        np.ones(len(space.schedules.totals), dtype=np.bool_), most=1000
    ):
        row = space.row(place, schedule)
        ranked += evaluation.terms.seconds(place, row, schedule)[::7].tolist()
        summed += [
            sum(evaluation.terms.parts(int(p), int(r), int(s)).values())
            for p, r, s in zip(place[::7], row[::7], schedule[::7], strict=True)
        ]
    return ranked, summed


@pytest.mark.parametrize("assumptions", EVERY_PART)
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_parts_add_up_for_every_mix_of_parts(assumptions: IterationModel, zero: int) -> None:
    options = Options(zero_stage=zero, interleave="whole")  # type: ignore[arg-type]
    setting = Setting(with_model(assumptions), "1d", options=options)
    ranked, summed = sums_of(setting, TORUS)
    assert len(ranked) > 20
    assert ranked == pytest.approx(summed, rel=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_parts_add_up_with_ends_and_experts(strategy: Strategy) -> None:
    experts = 1 if strategy == "summa" else 4
    variant = Variant("full", experts, min(2, experts), embedding=True, lm_head=True)
    ranked, summed = sums_of(Setting(with_model(FOURD), strategy, options=Options(variant)), TORUS)
    assert len(ranked) > 20
    assert ranked == pytest.approx(summed, rel=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_chunks_hold_every_plan_once(
    strategy: Strategy, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = search_plans(training(small_model()), TORUS, strategy=strategy, top=10)
    monkeypatch.setattr("netplan.performance.evaluation.CHUNK_PLANS", chunk)
    pieces = search_plans(training(small_model()), TORUS, strategy=strategy, top=10)
    assert pieces.plans == whole.plans
    assert (pieces.enumerated, pieces.feasible) == (whole.enumerated, whole.feasible)


@settings(max_examples=12, deadline=None)
@given(
    strategy=st.sampled_from(STRATEGIES),
    faster=st.tuples(*(st.floats(1.0, 4.0) for _ in range(4))),
    batch=st.sampled_from([8, 12, 16]),
)
def test_nothing_gets_slower_on_faster_hardware(
    strategy: Strategy, faster: tuple[float, float, float, float], batch: int
) -> None:
    plain = with_model(FOURD)
    case = TrainedModel(
        plain.model, batch, plain.flops_per_s, plain.memory_bytes, FOURD,
        plain.vector_flops_per_s, plain.memory_bytes_per_s,
    )  # fmt: skip
    flops, memory, inside, outside = faster
    quick = TrainedModel(
        case.model, batch, flops * case.flops_per_s, case.memory_bytes, FOURD,
        flops * (case.vector_flops_per_s or 0), memory * (case.memory_bytes_per_s or 0),
    )  # fmt: skip
    levels = two_tiers("B200", 4, 16)
    quick_levels = (
        Level("switch", 4, inside * 900e9, step_latency_s=2.5e-6),
        Level("switch", 4, outside * 100e9, step_latency_s=5e-6),
    )
    for timed in search_plans(case, levels, strategy=strategy, top=30).plans:
        again = evaluate_plan(quick, quick_levels, timed.plan, strategy=strategy)
        assert again.iteration_time_s <= timed.iteration_time_s * (1 + 1e-12)
        assert again.memory_bytes == timed.memory_bytes


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_memory_grows_with_the_microbatch(strategy: Strategy) -> None:
    found = search_plans(training(small_model()), TORUS, strategy=strategy, top=10**6)
    by_degrees: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for timed in found.plans:
        plan = timed.plan
        key = (plan.tensor, plan.context, plan.pipeline, plan.data, plan.panels)
        by_degrees.setdefault(key, []).append((plan.microbatch, timed.memory_bytes))
    assert max(len(set(pairs)) for pairs in by_degrees.values()) > 1
    for pairs in by_degrees.values():
        memory = [size for _, size in sorted(pairs)]
        assert memory == sorted(memory)


@pytest.mark.parametrize("assumptions", [FOURD, PTDP])
@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_levels_of_one_member_change_nothing(assumptions: IterationModel, where: int) -> None:
    case = with_model(assumptions)
    # PTD-P charges a transfer of the innermost level even without a pipeline: same rate there.
    extra = Level("ring", 1, 900e9, step_latency_s=2.5e-6)
    longer = (*TORUS[:where], extra, *TORUS[where:])
    plain = search_plans(case, TORUS, top=50)
    found = search_plans(case, longer, top=50)
    assert (found.enumerated, found.feasible) == (plain.enumerated, plain.feasible)
    times = [timed.iteration_time_s for timed in plain.plans]
    assert [timed.iteration_time_s for timed in found.plans] == pytest.approx(times, rel=1e-12)


def test_more_memory_never_hurts() -> None:
    seconds = []
    for capacity in (0.012e9, 0.02e9, 0.04e9, 1e9):
        plain = with_model(FOURD)
        case = TrainedModel(
            plain.model, 16, plain.flops_per_s, capacity, FOURD,
            plain.vector_flops_per_s, plain.memory_bytes_per_s,
        )  # fmt: skip
        found = search_plans(case, TORUS)
        assert found.plans[0].memory_bytes <= capacity
        seconds.append(found.plans[0].iteration_time_s)
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] > seconds[-1]


def test_all_strategies_are_the_best_of_each() -> None:
    case = training(small_model())
    each = [search_plans(case, TORUS, strategy=name, top=5) for name in STRATEGIES]
    every = search_plans(case, TORUS, strategy="all", top=5)
    assert every.enumerated == sum(one.enumerated for one in each)
    best = sorted(plan.iteration_time_s for one in each for plan in one.plans)[:5]
    assert [plan.iteration_time_s for plan in every.plans] == best


def test_search_largest_uses_as_many_gpus_as_divide() -> None:
    # 4 x 7 GPUs: no degree has the factor 7; of 4 x 6, 4 x 5, 4 x 4 only the last two divide the
    # batch of 20, so 20 GPUs are the most.
    case = training(small_model(), batch=20)
    levels = (Level("switch", 4, 900e9), Level("switch", 7, 100e9))
    found = search_largest(case, levels)
    assert found.plans[0].plan.gpus == 20
    assert found.levels[1].size == 5


def test_placements_against_nested_loops() -> None:
    sizes, limits, caps = (4, 6), (8, 1, 6, 12, 4), (4, 99, 3, 99, 99)
    expected = set()
    inside = [one for one in product((1, 2, 4), repeat=5) if prod(one) == sizes[0]]
    outside = [one for one in product((1, 2, 3, 6), repeat=5) if prod(one) == sizes[1]]
    for inner, outer in product(inside, outside):
        total = np.multiply(inner, outer)
        if not (np.array(limits) % total).any() and (total <= caps).all():
            expected.add((inner, outer))
    found: Placements = all_placements(sizes, limits, caps)
    got = {
        (tuple(one[0].tolist()), tuple(one[1].tolist())) for one in np.moveaxis(found.degrees, 2, 0)
    }
    assert len(got) == found.count
    assert got == expected


def test_distinct_columns() -> None:
    table = np.random.default_rng(1).integers(1, 4, size=(9, 500))
    first, inverse = distinct(table)
    assert (table[:, first][:, inverse] == table).all()
    assert len(first) == np.unique(table, axis=1).shape[1]


def test_plan_knows_its_gpus() -> None:
    plan = Plan(Placement((Degrees(tensor=2, context=5, expert=2, data=4, pipeline=3),)), 1, 1)
    assert plan.gpus == 240
    assert plain_data(plan)["hb"] == {
        "tensor": 2,
        "context": 5,
        "expert": 2,
        "data": 4,
        "pipeline": 3,
    }


@pytest.mark.parametrize(
    "fixed",
    [
        Fixed(tensor=2),
        Fixed(pipeline=4, microbatch=1),
        Fixed(data=8),
        Fixed(context=2, tensor=4),
        Fixed(interleave=2),
    ],
)
def test_fixed_values_leave_exactly_the_plans_that_have_them(fixed: Fixed) -> None:
    case = training(small_model())
    every = search_plans(case, TORUS, strategy="2d", options=Options(interleave="any"), top=10**6)
    options = Options(interleave="any", fixed=fixed)
    found = search_plans(case, TORUS, strategy="2d", options=options, top=10**6)
    expected = [
        timed.iteration_time_s
        for timed in every.plans
        if all(getattr(timed.plan, name) == value for name, value in fixed.given.items())
    ]
    assert 0 < len(expected) < len(every.plans)
    assert found.enumerated == len(expected)
    assert [timed.iteration_time_s for timed in found.plans] == pytest.approx(expected, rel=1e-12)


def test_a_fixed_value_that_no_plan_has_is_named() -> None:
    with pytest.raises(InfeasibleError, match="has tensor 8, microbatch 3: free one of them"):
        search_plans(
            training(small_model()), TORUS, options=Options(fixed=Fixed(tensor=8, microbatch=3))
        )


@pytest.mark.parametrize("strategy", ["2d", "summa"])
def test_gpus_that_no_width_divides_leave_the_plans_of_the_others(strategy: Strategy) -> None:
    # 3 divides neither the width nor its panels: grids with a side of 3 have no plan at all.
    case, levels = training(MODELS.load("gpt-22b"), batch=1024), two_tiers("B200", 64, 192)
    found = search_plans(case, levels, strategy=strategy)
    space = enumerate_plans(Setting(case, strategy), [level.size for level in levels])
    assert found.plans[0].plan.gpus == 192
    assert space.first_sharding.max() < len(space.sharding.panels)
    again = evaluate_plan(case, levels, found.plans[0].plan, strategy=strategy)
    assert again.iteration_time_s == found.plans[0].iteration_time_s
