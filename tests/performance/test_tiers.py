"""Memory tiers: what spills, how long that takes, and the best of all plans with them."""

import random
from dataclasses import dataclass
from math import inf, prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netplan.errors import InfeasibleError, InputError
from netplan.inputs.choices import MemoryPart as Part
from netplan.inputs.choices import Policy
from netplan.levels import Level
from netplan.performance.explain import plan_terms
from netplan.performance.memory import in_flight, with_spill
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.search import evaluate_plan, search_plans
from netplan.performance.setting import Options, Setting, TrainedModel
from netplan.performance.space import enumerate_plans
from netplan.performance.tiers import ORDER, Expanded, expanded_parts, hybrid_bytes_per_s
from netplan.records import replace
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.operations import Operation, OperationCost, Variant
from tests.performance.cases import FOURD, small_model
from tests.performance.test_free_space import Way, every_plan, random_case
from tests.performance.test_free_space import timed as time_of_each

LEVELS = Level("switch", 4, 900e9), Level("switch", 4, 100e9)
PLAN = Plan(Placement((Degrees(tensor=2, data=2), Degrees(data=2, pipeline=2))), 1, 4)
LOCAL_RATE = 2e9


def training(local: float, expanded: Expanded | None, **memory: object) -> TrainedModel:
    """A run that waits for its memory: two bytes/s a thousand FLOP/s."""
    rules = replace(FOURD, memory=replace(FOURD.memory, **memory))
    return TrainedModel(
        small_model(batch=16), 16, 1e15, local, rules, 1e14, LOCAL_RATE, expanded=expanded
    )


def timed(run: TrainedModel, plan: Plan = PLAN, **options: object) -> PlanTime:
    return evaluate_plan(run, LEVELS, plan, options=Options(**options))  # type: ignore[arg-type]


def held() -> dict[str, float]:
    """Bytes of the plan by part."""
    return timed(training(inf, None)).memory_parts_bytes


# ------------------------------------------------------------------------- what lies where


def test_states_spill_first_and_activations_last() -> None:
    parts: dict[Part, np.ndarray] = {name: np.full(6, 10.0) for name in ORDER}
    local = np.array([50.0, 45.0, 35.0, 22.0, 10.0, 0.0])
    there = [
        [
            float(expanded_parts(parts, one, Expanded(90, 1), "states-first")[name][0])
            for name in ORDER
        ]
        for one in local.tolist()
    ]
    assert there == [
        [0, 0, 0, 0, 0],
        [5, 0, 0, 0, 0],
        [10, 5, 0, 0, 0],
        [10, 10, 8, 0, 0],
        [10, 10, 10, 10, 0],
        [10, 10, 10, 10, 10],
    ]


def test_uniform_spills_the_same_share_of_everything() -> None:
    parts: dict[Part, np.ndarray] = {name: np.array([10.0 * at]) for at, name in enumerate(ORDER)}
    there = expanded_parts(parts, 60.0, Expanded(90, 1), "uniform")
    assert [float(one[0]) for one in there.values()] == pytest.approx([0, 4, 8, 12, 16])


@pytest.mark.parametrize(
    ("offload", "room", "expected"),
    [
        (("optimizer",), 90, [10, 0, 0, 0, 0]),
        (("activations", "optimizer"), 90, [10, 0, 0, 10, 0]),
        (("activations", "optimizer"), 15, [5, 0, 0, 10, 0]),  # as far as the tier holds them
        (("activations",), 0.5, [0, 0, 0, 0.5, 0]),
    ],
)
def test_offloaded_parts_lie_there_whatever_room_there_is(
    offload: tuple[Part, ...], room: float, expected: list[float]
) -> None:
    parts: dict[Part, np.ndarray] = {name: np.array([10.0]) for name in ORDER}
    there = expanded_parts(parts, 100.0, Expanded(room, 1), "states-first", offload)
    assert [float(there[name][0]) for name in ORDER] == expected


def test_offloaded_parts_make_room_before_others_spill() -> None:
    parts: dict[Part, np.ndarray] = {name: np.array([10.0]) for name in ORDER}
    there = expanded_parts(parts, 35.0, Expanded(90, 1), "states-first", ("activations",))
    assert [float(there[name][0]) for name in ORDER] == [5, 0, 0, 10, 0]


def test_two_memories_have_the_bandwidth_of_the_paper() -> None:
    """COMET, Sec. III-C2: 80 GB at 2 TB/s and 160 GB at 1 TB/s give 1.2 TB/s."""
    assert hybrid_bytes_per_s(80e9, 160e9, 2e12, 1e12) == pytest.approx(1.2e12, rel=1e-12)
    both = hybrid_bytes_per_s(np.array([1.0, 3.0]), 1.0, 2.0, 1.0)
    assert both == pytest.approx([4 / 3, 1.6])


@pytest.mark.parametrize("numbers", [(-1, 2, 1, 1), (1, 1, 0, 1), (1, 1, 1, -1), (0, 0, 1, 1)])
def test_memories_of_no_bytes_or_no_bandwidth_are_refused(numbers: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="memories hold"):
        hybrid_bytes_per_s(*numbers)


# ------------------------------------------------------------------------- how long it takes


@dataclass(frozen=True)
class Slow:
    """Bytes that spilled parts count more for."""

    weights: float = 0.0
    gradients: float = 0.0
    activations: float = 0.0
    everything: float = 0.0


def layers_by_hand(run: TrainedModel, slow: Slow, latency_s: float = 0.0) -> float:
    """Compute and memory of the plan's passes, operation by operation."""
    setting = Setting(run)
    program, rules = setting.program(PLAN.sharding), run.assumptions.compute

    def seconds(one: Operation, work: OperationCost) -> float:
        compute_s = rules.kernel_latency_s
        compute_s += float(np.ravel(work.tensor_flops)[0]) / (rules.tensor_efficiency * 1e15)
        compute_s += float(np.ravel(work.vector_flops)[0]) / (rules.vector_efficiency * 1e14)
        more = slow.weights * float(np.ravel(work.weight_bytes)[0])
        more += slow.gradients * float(np.ravel(work.gradient_bytes)[0])
        more += slow.activations * float(np.ravel(one.activation_bytes)[0])
        moved = float(np.ravel(work.moved_bytes)[0])
        more += slow.everything * moved
        return max(compute_s, (moved + more) / LOCAL_RATE + (latency_s if more else 0.0))

    passes = PLAN.microbatches * 2  # of four layers on two stages
    layer = program.layer.operations
    return passes * sum(seconds(one, work) for one in layer for work in (one.forward, one.backward))


def by_hand(found: PlanTime) -> float:
    return found.breakdown_s["compute"] + found.breakdown_s["memory"]


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_an_operation_pays_the_tier_in_which_its_operands_lie(zero_stage: int) -> None:
    """Optimizer, gradients and half of the weights are out, at a quarter of the rate."""
    parts = timed(training(inf, None), zero_stage=zero_stage).memory_parts_bytes
    local = parts["activations"] + parts["buffers"] + parts["weights"] / 2
    run = training(local, Expanded(1e12, LOCAL_RATE / 4, 1e-3))
    found = timed(run, zero_stage=zero_stage)
    share = PLAN.data  # replicas, who share gradients from stage 2 on, weights at 3
    slow = Slow(
        weights=3 / 2 / (share if zero_stage == 3 else 1),
        gradients=3 / (share if zero_stage >= 2 else 1),
    )
    plain = replace(run, expanded=None, memory_bytes=inf)
    expected = layers_by_hand(plain, slow, 1e-3)
    assert by_hand(found) == pytest.approx(expected, rel=1e-12)
    # Adam: 24 bytes of states, 2 of gradients, and one of the two of a weight at the quarter.
    parameters = parts["optimizer"] / 12
    assert found.breakdown_s["update"] == pytest.approx(
        parameters * 3 * (24 + 2 + 1) / LOCAL_RATE + 1e-3, rel=1e-12
    )
    assert sum(found.breakdown_s.values()) == pytest.approx(found.iteration_time_s, rel=1e-12)
    tiers = found.memory_tiers_bytes or {}
    assert tiers["weights"]["local"] == pytest.approx(parts["weights"] / 2)
    assert tiers["optimizer"] == {"local": 0.0, "expanded": parts["optimizer"]}
    assert tiers["activations"]["expanded"] == 0.0


def test_what_is_kept_is_written_and_read_there() -> None:
    """A third of the activations; the forward pass writes them, the backward pass reads them."""
    parts = held()
    local = parts["activations"] * 2 / 3 + parts["buffers"]
    found = timed(training(local, Expanded(1e12, LOCAL_RATE / 2)))
    plain = training(inf, None)
    expected = layers_by_hand(plain, Slow(1.0, 1.0, 1 / 3))
    assert by_hand(found) == pytest.approx(expected, rel=1e-12)


def test_uniform_is_the_bandwidth_of_both_memories() -> None:
    parts = held()
    total = sum(parts.values())
    found = timed(training(total / 4, Expanded(1e12, LOCAL_RATE / 3), policy="uniform"))
    bandwidth = hybrid_bytes_per_s(total / 4, total * 3 / 4, LOCAL_RATE, LOCAL_RATE / 3)
    assert by_hand(found) == pytest.approx(
        layers_by_hand(training(inf, None), Slow(everything=LOCAL_RATE / float(bandwidth) - 1)),
        rel=1e-12,
    )


def test_a_layer_that_is_computed_again_keeps_its_input_there() -> None:
    """It is written once, and read before it is computed again; then it is at hand."""
    run = training(inf, None)
    plain = timed(run, variant=replace(Options().variant, recompute="full"))
    slow = training(inf, Expanded(1e12, LOCAL_RATE / 2), offload=("activations",))
    found = timed(slow, variant=replace(Options().variant, recompute="full"))
    model = run.model  # the 16-bit input of a layer, half of the sequence each
    boundary = 2.0 * model.sequence_length * model.hidden_size / 2  # type: ignore[union-attr]
    # Each of both counts as many bytes once more at the local rate, in two layers of a stage.
    more = PLAN.microbatches * 2 * 2 * boundary / LOCAL_RATE
    assert by_hand(found) - by_hand(plain) == pytest.approx(more, rel=1e-9)


@pytest.mark.parametrize("part", ["optimizer", "activations", "gradients", "weights"])
def test_terms_of_a_plan_that_spills_add_up(part: str) -> None:
    run = training(1e12, Expanded(1e12, LOCAL_RATE / 5), offload=(part,))
    terms = plan_terms(Setting(run), LEVELS, PLAN)
    found = timed(run)
    assert sum(one.seconds for one in terms) == pytest.approx(found.iteration_time_s, rel=1e-12)
    assert found.iteration_time_s > timed(training(inf, None)).iteration_time_s


def test_the_latency_is_paid_by_what_has_operands_there() -> None:
    """Equally fast tiers too; the update has none of the activations."""
    far = Expanded(1e12, LOCAL_RATE, 1e-3)
    plain = timed(training(inf, None))
    found = timed(training(inf, far, offload=("activations",)))
    assert "update" not in found.breakdown_s
    layer = Setting(training(inf, None)).program(PLAN.sharding).layer.operations
    kept = [one for one in layer if float(np.ravel(one.activation_bytes)[0])]
    assert len(kept) == 11
    most = PLAN.microbatches * 2 * len(kept) * 2 * 1e-3
    assert 0.9 * most < by_hand(found) - by_hand(plain) <= most  # but for what hides behind FLOPs
    states = timed(training(inf, far, offload=("optimizer",)))
    assert states.breakdown_s["update"] == 1e-3
    assert by_hand(states) == by_hand(plain)


@pytest.mark.parametrize("zero_stage", [2, 3])
def test_experts_are_shared_by_fewer_gpus(zero_stage: int) -> None:
    """Of two GPUs that share experts each holds half of them, and no replica beside it."""
    plan = Plan(Placement((Degrees(tensor=2, expert=2), Degrees(data=2, pipeline=2))), 1, 4)
    run = training(inf, Expanded(1e12, LOCAL_RATE / 2), offload=("weights", "gradients"))
    options = Options(Variant(experts=4, top_k=1), zero_stage=zero_stage)  # type: ignore[arg-type]
    setting = Setting(run, options=options)
    spill = with_spill(setting, evaluate_plan(run, LEVELS, plan, options=options)).spill
    assert spill is not None
    expected = [1 / 4, 1 / 2] if zero_stage == 3 else [1, 1]
    assert [float(spill.weights[0]), float(spill.expert_weights[0])] == expected  # type: ignore[index]
    shares = float(spill.gradients[0]), float(spill.expert_gradients[0])  # type: ignore[index]
    assert shares == (1 / 4, 1 / 2)


# ------------------------------------------------------------------------- properties


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    local=st.sampled_from([2e5, 1e6, 3e6]),
    more=st.sampled_from([1e5, 1e6, 1e8]),
    policy=st.sampled_from(["states-first", "uniform"]),
)
def test_equally_fast_memories_are_one(
    seed: int, local: float, more: float, policy: Policy
) -> None:
    """And a memory that holds everything is not slowed by one behind it."""
    setting, levels = random_case(seed)
    run = with_tiers(setting, local, Expanded(more, 8e12), policy).training
    one = replace(run, memory_bytes=local + more, expanded=None)
    assert best_s(run, setting, levels) == pytest.approx(best_s(one, setting, levels), rel=1e-12)
    roomy = replace(run, memory_bytes=1e12, expanded=Expanded(more, 1.0))
    assert best_s(roomy, setting, levels) == best_s(replace(roomy, expanded=None), setting, levels)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    local=st.sampled_from([2e5, 1e6, 3e6]),
    more=st.sampled_from([1e6, 1e8]),
    rate=st.sampled_from([1e9, 1e11, 4e12]),
    grown=st.sampled_from(["local", "expanded", "rate", "both"]),
    policy=st.sampled_from(["states-first", "uniform"]),
)
@example(seed=36965, local=2e5, more=1e8, rate=1e9, grown="rate", policy="uniform")
def test_more_memory_or_faster_never_hurts(
    *, seed: int, local: float, more: float, rate: float, grown: str, policy: Policy
) -> None:
    setting, levels = random_case(seed)
    run = with_tiers(setting, local, Expanded(more, rate), policy).training
    larger = {
        "local": replace(run, memory_bytes=1.5 * local),
        "expanded": replace(run, expanded=Expanded(2 * more, rate)),
        "rate": replace(run, expanded=Expanded(more, 2 * rate)),
        "both": replace(run, memory_bytes=2 * local, expanded=Expanded(2 * more, 2 * rate)),
    }[grown]
    before, after = best_s(run, setting, levels), best_s(larger, setting, levels)
    assert after <= before * (1 + 1e-12)


def with_tiers(
    setting: Setting,
    local: float,
    expanded: Expanded,
    policy: Policy,
    offload: tuple[Part, ...] = (),
) -> Setting:
    rules = setting.assumptions
    rules = replace(rules, memory=replace(rules.memory, policy=policy, offload=offload))
    run = replace(setting.training, assumptions=rules, memory_bytes=local, expanded=expanded)
    return replace(setting, training=run)


def best_s(run: TrainedModel, setting: Setting, levels: tuple[Level, ...]) -> float:
    try:
        found = search_plans(run, levels, strategy=setting.strategy, options=setting.options)
    except InfeasibleError:
        return inf
    return found.time_s


# ------------------------------------------------------------------------- the best of all plans


def tiered_case(seed: int) -> tuple[Setting, tuple[Level, ...]]:
    """A small setting whose plans spill now and then."""
    draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
    setting, levels = random_case(seed)
    expanded = Expanded(
        draw.choice([1e6, 1e7, 1e12]),
        draw.choice([1e8, 1e10, 1e12, 8e12, 2e13]),
        draw.choice([0.0, 0.0, 1e-5]),
    )
    policy: Policy = draw.choice(["states-first", "states-first", "uniform"])
    some: list[tuple[Part, ...]] = [(), (), ("optimizer",), ("activations", "gradients")]
    offload = draw.choice(some) if policy == "states-first" else ()
    local = draw.choice([1e4, 3e5, 1e6, 3e6])
    setting = with_tiers(setting, local, expanded, policy, offload)
    if draw.random() < 1 / 3:
        rules = setting.assumptions
        rules = replace(rules, memory=replace(rules.memory, update="whole"))
        alone = None if draw.random() < 1 / 3 else expanded
        run = replace(setting.training, assumptions=rules, expanded=alone)
        setting = replace(setting, training=run)
    return setting, levels


def ways_of(setting: Setting, levels: tuple[Level, ...]) -> list[Way]:
    """All plans of the free space, or of the exact one."""
    sizes = tuple(level.size for level in levels)
    if setting.free:
        return list(every_plan(setting, sizes))
    space = enumerate_plans(setting, sizes)
    schedules = space.schedules
    return [
        (
            space.placements.placement(place).levels,
            int(schedules.microbatch[at]),
            int(schedules.microbatches[at]),
            int(schedules.interleave[at]),
            int(space.sharding.panels[space.row(place, int(at))]),
        )
        for place in range(space.placements.count)
        for at in np.flatnonzero(schedules.totals == space.totals_of[place])
    ]


@pytest.mark.parametrize("divisibility", ["free", "exact"])
def test_the_search_finds_the_best_of_all_plans_with_tiers(divisibility: str) -> None:
    spilled, plans = 0, 0
    for seed in range(60):
        setting, levels = tiered_case(seed)
        rules = setting.assumptions
        space = replace(rules.space, divisibility=divisibility)
        run = replace(setting.training, assumptions=replace(rules, space=space))
        setting = replace(setting, training=run)
        ways = ways_of(setting, levels)
        plans += len(ways)
        times = time_of_each(setting, levels, ways) if ways else []
        fitting = sorted(seconds for seconds, needed in times if needed <= run.tiers_bytes)
        try:
            found = search_plans(
                run, levels, strategy=setting.strategy, options=setting.options, top=2
            )
        except InfeasibleError:
            assert not fitting, seed
            continue
        assert found.time_s == pytest.approx(fitting[0], rel=1e-12), seed
        there = found.best.memory_tiers_bytes or {}
        spilled += any(one["expanded"] for one in there.values())
        if divisibility == "exact" and len(fitting) > 1:
            assert found.plans[1].iteration_time_s == pytest.approx(fitting[1], rel=1e-12), seed
    assert plans > (7_000 if setting.free else 500)
    assert spilled > 7


def test_plans_that_fit_nowhere_are_timed_if_memory_is_ignored() -> None:
    run = training(1.0, Expanded(1.0, LOCAL_RATE / 2))
    with pytest.raises(InfeasibleError, match=r"more than the 2 B \(1 B and 1 B expanded\)"):
        search_plans(run, LEVELS)
    found = search_plans(replace(run, ignore_memory=True), LEVELS)
    assert found.feasible == 0
    assert found.time_s > search_plans(training(inf, None), LEVELS).time_s


def test_accelerators_have_both_of_a_second_memory_or_none() -> None:
    h200 = ACCELERATORS.load("h200")
    for given_ in ({"expanded_bytes": 1e9}, {"expanded_bytes_per_s": 1e9}):
        with pytest.raises(ValueError, match=r"expanded_bytes.* without expanded_bytes"):
            replace(h200, **given_)
    assert Expanded.of(h200) is None
    wide = replace(h200, expanded_bytes=1e9, expanded_bytes_per_s=2e9)
    assert Expanded.of(wide) == Expanded(1e9, 2e9, 0.0)
    assert prod((wide.expanded_bytes, 2)) == wide.expanded_bytes_per_s


@pytest.mark.parametrize(
    ("interleave", "behind", "held"), [(1, 1, 7), (2, 0, 11.5), (2, 1, 10.5), (4, 1, 9.25)]
)
def test_stages_behind_the_first_hold_fewer_microbatches(
    interleave: int, behind: int, held: float
) -> None:
    """p = 8: 8 - 1; 8 + 7/2 = 11.5; one behind starts two chunks of 1/v later: - 2/v."""
    overlap, options = SimpleNamespace(in_flight="1f1b"), SimpleNamespace(schedule="1f1b")
    setting: Any = SimpleNamespace(assumptions=SimpleNamespace(overlap=overlap), options=options)
    sizes = (np.array([float(value)]) for value in (8, 64, interleave))
    assert in_flight(setting, *sizes, behind=behind).tolist() == [held]
