"""ZeRO, interleaving, recomputation, experts and ends, against arithmetic by hand.

The layer of most tests has weights of W bytes, and a stage has 2 of the model's 4 layers.
"""

from math import inf

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.iteration_model import IterationModel
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.search import evaluate_plan, search_plans
from netplan.performance.setting import Options, TrainedModel
from netplan.performance.stacks import STACKS, Stack
from netplan.records import RecordError, replace
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.operations import Sharding, Variant
from netplan.workloads.transformer import transformer_layer
from tests.performance.cases import FOURD, PTDP, SYSTEMS, small_model, training, two_tiers

LEVELS = two_tiers("B200", 4, 16)
# tensor 2, pipeline 2, data 4: 16 GPUs; B = 16 = 4 x 1 x 4.
PLAN = Plan(Placement((Degrees(tensor=2, data=2), Degrees(data=2, pipeline=2))), 1, 4)


def layer_weights() -> float:
    layer = transformer_layer(small_model(), Sharding.of(1, tensor=2))
    return float(sum(np.sum(one.weight_bytes) for one in layer.operations))


def timed(options: Options, plan: Plan = PLAN, **changes: object) -> PlanTime:
    return evaluate_plan(training(small_model(**changes)), LEVELS, plan, options=options)


@pytest.mark.parametrize(
    ("stage", "weights", "gradients", "optimizer", "buffers"),
    [
        # Two layers of W; Adam takes 6 W a layer; the data parallel group has 4 GPUs.
        (0, 2, 2, 12, 0),
        (1, 2, 2, 3, 0),
        (2, 2, 0.5, 3, 1),  # one layer's whole gradients
        (3, 0.5, 0.5, 3, 3),  # and two layers' gathered weights
    ],
)
def test_zero_memory(
    stage: int, weights: float, gradients: float, optimizer: float, buffers: float
) -> None:
    memory = timed(Options(zero_stage=stage)).memory_parts_bytes  # type: ignore[arg-type]
    w = layer_weights()
    # fc1, fc2, qkv, vproj: 12 h^2 / 2 weights; biases 4h/2 + h + h; two norms of 2h; 2 bytes each.
    assert w == 2 * (12 * 512**2 / 2 + 2048 / 2 + 2 * 512 + 4 * 512)
    expected = {
        "weights": weights * w,
        "gradients": gradients * w,
        "optimizer": optimizer * w,
        "buffers": buffers * w,
    }
    assert {key: memory[key] for key in expected} == pytest.approx(expected)


def test_zero_collectives_when_nothing_hides_them() -> None:
    # Exposed communication of the PTD-P preset: one collective of a whole stage, 12 h^2 / 2 x 2
    # layers x 2 bytes = 6,291,456 B. Data group 2 x 2 over both tiers: gathering takes
    # 1/2 D / 900e9 + 1/2 D / 2 / 100e9 = D x 3.0556e-12 s = 19.22 us.
    tensor, _, capacity, _, _, _ = SYSTEMS["B200"]
    case = TrainedModel(small_model(), 16, tensor, capacity, PTDP)
    levels = (Level("switch", 4, 900e9), Level("switch", 4, 100e9))
    one = 6_291_456 * (0.5 / 900e9 + 0.25 / 100e9)
    # Stage 0: all_reduce; 1: both once; 2: scatter in each of 4 microbatches; 3: all in each.
    for stage, times in ((0, 2), (1, 2), (2, 1 + 4), (3, 4 + 8)):
        found = evaluate_plan(case, levels, PLAN, options=Options(zero_stage=stage))  # type: ignore[arg-type]
        assert found.breakdown_s["data_comm"] == pytest.approx(times * one)


def test_zero_hides_all_but_the_first_collective() -> None:
    # A network of 1 kB/s: collectives take so long that a pass through a layer is nothing.
    slow = (LEVELS[0], Level("switch", 4, 1e3, step_latency_s=0))
    case = training(small_model())
    x = 0.75 * layer_weights() / 2 / (0.7 * 1e3)  # 4 GPUs, two of them drive the network
    # Two layers, four microbatches: 2 + 2; 2 + 8; 8 + 16 (gather and scatter backward).
    for stage, times in ((0, 4), (1, 4), (2, 10), (3, 24)):
        found = evaluate_plan(case, slow, PLAN, options=Options(zero_stage=stage))  # type: ignore[arg-type]
        assert found.breakdown_s["data_comm"] == pytest.approx(times * x, rel=1e-3)


def test_interleaving_divides_the_bubble_and_multiplies_the_transfers() -> None:
    plain = timed(Options())
    twice = replace(PLAN, interleave=2)
    found = timed(Options(interleave="whole"), twice)
    hop_s = plain.breakdown_s["pipeline_comm"] / (2 * 4)
    layer_s = plain.breakdown_s["bubble"] - 2 * hop_s  # one stage of one microbatch
    assert found.breakdown_s["pipeline_comm"] == pytest.approx(2 * 4 * 2 * hop_s)
    assert found.breakdown_s["bubble"] == pytest.approx(layer_s / 2 + 2 * hop_s)
    # In flight: 2 microbatches under 1F1B, 2 + 1/2 interleaved.
    more = found.memory_parts_bytes["activations"] / plain.memory_parts_bytes["activations"]
    assert more == pytest.approx(2.5 / 2)


def test_whole_interleaving_needs_groups_of_microbatches() -> None:
    found = search_plans(
        training(small_model()), LEVELS, options=Options(interleave="whole"), top=10**6
    )
    plans = [one.plan for one in found.plans if one.plan.interleave > 1]
    assert plans
    assert all(plan.microbatches % plan.pipeline == 0 and plan.pipeline > 1 for plan in plans)
    assert all(4 // plan.pipeline % plan.interleave == 0 for plan in plans)
    free = search_plans(
        training(small_model()), LEVELS, options=Options(interleave="any"), top=10**6
    )
    assert (
        free.enumerated
        > found.enumerated
        > search_plans(training(small_model()), LEVELS).enumerated
    )


def test_full_recomputation_runs_every_layer_forward_twice() -> None:
    # 4 microbatches x 2 layers, 14 operations: the forward pass costs once more.
    plain, full = timed(Options()), timed(Options(Variant(recompute="full")))
    forward = transformer_layer(small_model(), Sharding.of(1, tensor=2)).operations
    tensor, vector, _, memory, _, _ = SYSTEMS["B200"]
    once = 0.0
    for operation in forward:
        work = operation.forward
        flops_s = np.sum(work.tensor_flops) / (0.8 * tensor) + np.sum(work.vector_flops) / (
            0.8 * vector
        )
        once += max(20e-6 + float(flops_s), float(np.sum(work.moved_bytes)) / memory)
    more = sum(full.breakdown_s[key] - plain.breakdown_s[key] for key in ("compute", "memory"))
    assert more == pytest.approx(4 * 2 * once)
    # Forward communicates 4 times, backward 4 times; again 4 times.
    assert full.breakdown_s["tensor_comm"] == pytest.approx(1.5 * plain.breakdown_s["tensor_comm"])
    # Stored: the input of a layer, 256/2 tokens x 512 x 2 B, for 2 layers x 2 microbatches; while a
    # layer is rebuilt, its activations.
    assert full.memory_parts_bytes["activations"] == 2 * 2 * 128 * 512 * 2
    layer = plain.memory_parts_bytes["activations"] / 4
    assert full.memory_parts_bytes["buffers"] == pytest.approx(layer)


def test_ptdp_recomputation_counts_flops_and_bytes() -> None:
    # One GPU, B = b = 1; l = 4, h = 512, s = 256, V = 1000, a = 8, at 1e12 FLOP/s, gamma = 2.5.
    case = TrainedModel(small_model(), 1, 1e12, inf, PTDP)
    plan = Plan(Placement((Degrees(),)), 1, 1)
    times, stored = {}, {}
    for name in ("none", "selective", "full"):
        options = Options(Variant(recompute=name))
        found = evaluate_plan(case, (Level("switch", 1, 1e9),), plan, options=options)
        times[name] = found.breakdown_s["compute"] * 1e12
        stored[name] = found.memory_parts_bytes["activations"] + found.memory_parts_bytes["buffers"]
    products, scores = 256 * 512**2 * 4, 256**2 * 512 * 4
    plain = 48 * products + 6 * 256 * 512 * 1000 + 2.5 * (24 * products + 12 * scores)
    assert times["none"] == pytest.approx(plain)
    assert times["selective"] == pytest.approx(plain + 2.5 * 4 * scores)
    assert times["full"] == pytest.approx(plain * 4 / 3)
    # arXiv:2205.05198, Table 2: 34 sbh (+ 5 a s^2 b without recomputation) a layer; full: 2 sbh,
    # and one layer while it is rebuilt.
    sbh = 256 * 512
    assert stored["none"] == 4 * (34 * sbh + 5 * 8 * 256**2)
    assert stored["selective"] == 4 * 34 * sbh
    assert stored["full"] == 4 * 2 * sbh + 34 * sbh


# Experts: tensor 1, expert 2, data 2; B = 16 = 4 x 1 x 4.
SPARSE = Variant(experts=4, top_k=2)
SPARSE_PLAN = Plan(Placement((Degrees(expert=2, data=2), Degrees())), 1, 4)


def sparse_levels(sizes: tuple[int, int]) -> tuple[Level, Level]:
    return (
        Level("switch", sizes[0], 900e9, step_latency_s=2.5e-6),
        Level("switch", sizes[1], 100e9, step_latency_s=5e-6),
    )


def test_expert_memory_and_exchange() -> None:
    case = training(small_model())
    found = evaluate_plan(case, sparse_levels((4, 1)), SPARSE_PLAN, options=Options(SPARSE))
    # A GPU has 2 of 4 experts: fc1 and fc2 of 4 h^2, biases of 4h and h. Dense: 4 h^2, a bias of h,
    # two norms of 2h, a router of 4 h. 4 layers, 2 bytes.
    h = 512
    experts = 2 * 4 * 2 * (8 * h * h + 5 * h)
    dense = 2 * 4 * (4 * h * h + h + 4 * h + 4 * h)
    memory = found.memory_parts_bytes
    assert memory["weights"] == experts + dense
    # Two GPUs hold the same experts, four the same dense weights.
    assert memory["optimizer"] == pytest.approx(6 * (experts / 2 + dense / 4))
    # Forward and backward each send and return 2 x 256 tokens of 2h bytes; half of it leaves.
    exchange = 1 * 2.5e-6 + 0.5 * (2 * 256 * 2 * h) / (0.7 * 900e9)
    assert found.breakdown_s["expert_comm"] == pytest.approx(4 * 4 * 4 * exchange)
    assert sum(found.breakdown_s.values()) == pytest.approx(found.iteration_time_s)


def test_experts_are_synchronised_by_those_who_share_them() -> None:
    # Experts spread over 2 GPUs inside a domain, data over 2 domains with a hopeless network.
    levels = (Level("switch", 2, 900e9), Level("switch", 2, 1e3))
    plan = Plan(Placement((Degrees(expert=2), Degrees(data=2))), 1, 4)
    found = evaluate_plan(training(small_model()), levels, plan, options=Options(SPARSE))
    h = 512
    experts, dense = 2 * 2 * (8 * h * h + 5 * h), 2 * (4 * h * h + h + 4 * h + 4 * h)
    # Experts: 2 GPUs in 2 domains, D/2 over the network; dense: 4 GPUs, 3/4 D over 2 ports.
    x = (experts / 2 + 0.75 * dense / 2) / (0.7 * 1e3)
    # 4 layers: gather and scatter.
    assert found.breakdown_s["data_comm"] == pytest.approx(8 * x, rel=1e-3)


def test_expert_degrees_divide_experts_and_data() -> None:
    case = training(small_model(), batch=12)
    found = search_plans(case, LEVELS, options=Options(Variant(experts=8, top_k=1)), top=10**6)
    plans = [one.plan for one in found.plans]
    assert {plan.expert for plan in plans} == {1, 2, 4}  # 8 x data would not divide the batch
    assert all(12 % (plan.expert * plan.data) == 0 and plan.gpus == 16 for plan in plans)
    fixed = Options(Variant(experts=8, top_k=1), expert_degree=2)
    only = search_plans(case, LEVELS, options=fixed, top=10**6)
    assert {one.plan.expert for one in only.plans} == {2}
    assert only.enumerated == sum(plan.expert == 2 for plan in plans)


def test_one_expert_more_or_less_costs_its_tokens() -> None:
    one = timed(Options(Variant(experts=4, top_k=1)))
    two = timed(Options(Variant(experts=4, top_k=2)))
    assert two.iteration_time_s > one.iteration_time_s
    # Model FLOPs: 72 B s h^2 l (1 + s/(6h)) + 6 B s h V, and 48 B s h^2 l for the second expert.
    tokens, h, layers = 16 * 256, 512, 4
    base = 72 * tokens * h**2 * layers * (1 + 256 / (6 * h)) + 6 * tokens * h * 1000
    peak = 16 * 2500e12
    assert one.mfu * one.iteration_time_s * peak == pytest.approx(base)
    more = 48 * tokens * h**2 * layers
    assert two.mfu * two.iteration_time_s * peak == pytest.approx(base + more)


def test_ends_of_a_pipeline_and_of_a_single_stage() -> None:
    none, both = Options(), Options(Variant(embedding=True, lm_head=True))
    # 1,000 words over 2 GPUs: 500 x 512 x 2 B on the first stage, and as much on the last.
    end = 500 * 512 * 2
    plain, found = timed(none), timed(both)
    assert found.memory_parts_bytes["weights"] - plain.memory_parts_bytes["weights"] == end
    single = Plan(Placement((Degrees(tensor=2, data=2), Degrees(data=4))), 1, 2)
    plain, found = timed(none, single), timed(both, single)
    assert found.memory_parts_bytes["weights"] - plain.memory_parts_bytes["weights"] == 2 * end
    # The head stores its gathered input and the logits: 2 B x 256 x (512 + 500).
    more = found.memory_parts_bytes["activations"] - plain.memory_parts_bytes["activations"]
    assert more == 2 * 256 * (512 + 500)


def test_the_slower_end_sets_the_pace_of_a_pipeline() -> None:
    def compute_s(**ends: bool) -> float:
        return timed(Options(Variant(**ends))).breakdown_s["compute"]  # type: ignore[arg-type]

    head = compute_s(lm_head=True) - compute_s()
    # 4 microbatches: 256 x 500 logits of 1023 FLOP forward; backward 256 x 512 x 999 and
    # 512 x 500 x 511; 5 + 2 vector FLOPs a logit.
    products = 256 * 500 * 1023 + 256 * 512 * 999 + 512 * 500 * 511
    expected = 40e-6 + products / (0.8 * 2500e12) + 7 * 256 * 500 / (0.8 * 339e12)
    assert head == pytest.approx(4 * expected)
    assert compute_s(lm_head=True, embedding=True) == pytest.approx(compute_s(lm_head=True))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Variant(experts=0), "at least 1 expert, got 0"),
        (lambda: Variant(experts=4, top_k=5), "1 to 4 experts"),
        (lambda: Variant(recompute="some"), "use none, selective, half, full"),  # type: ignore[arg-type]
        (lambda: Options(zero_stage=4), "stages 0 to 3, got 4"),  # type: ignore[arg-type]
        (lambda: Options(interleave="yes"), "use none, whole or any"),  # type: ignore[arg-type]
        (lambda: Options(Variant(experts=8), expert_degree=3), "8 experts cannot be spread"),
    ],
)
def test_impossible_options_are_refused(wrong: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wrong()  # type: ignore[operator]


def test_options_that_a_model_cannot_have_are_refused() -> None:
    case = training(small_model())
    with pytest.raises(InputError, match="use strategy 1d or 2d"):
        search_plans(case, LEVELS, strategy="summa", options=Options(SPARSE))
    silent = training(small_model(vocabulary=0))
    with pytest.raises(InputError, match="has no vocabulary"):
        search_plans(silent, LEVELS, options=Options(Variant(lm_head=True)))
    closed = TrainedModel(small_model(), 16, 1e15, 1e12, PTDP)
    with pytest.raises(InputError, match="use the iteration model 4d"):
        search_plans(closed, LEVELS, strategy="2d")
    # "all" takes what is covered.
    assert search_plans(closed, LEVELS, strategy="all").plans[0].strategy == "1d"
    found = search_plans(case, LEVELS, strategy="all", options=Options(SPARSE))
    assert [setting.strategy for setting in found.settings] == ["1d", "2d"]
    assert FOURD.name == "4d"


def test_zero_gathers_two_layers_however_many_a_stage_has() -> None:
    single = Plan(Placement((Degrees(tensor=2, data=2), Degrees(data=4))), 1, 2)
    memory = timed(Options(zero_stage=3), single).memory_parts_bytes
    assert memory["buffers"] == pytest.approx(3 * layer_weights())  # and one layer's gradients


def test_the_head_can_make_the_last_stage_the_fullest() -> None:
    # A million words: 500,000 x 512 x 2 B of weights, and logits of 256 x 500,000 x 2 B = 256 MB.
    found = timed(Options(Variant(embedding=True, lm_head=True)), vocabulary=1_000_000)
    plain = timed(Options(), vocabulary=1_000_000)
    # The first stage has two microbatches in flight, the last one only.
    last = plain.memory_parts_bytes["activations"] / 2 + 2 * 256 * (512 + 500_000)
    assert found.memory_parts_bytes["activations"] == pytest.approx(last)
    # No head, no logits: the first stage is the fullest.
    table = timed(Options(Variant(embedding=True)), vocabulary=1_000_000)
    assert table.memory_parts_bytes["activations"] == plain.memory_parts_bytes["activations"]
    more = table.memory_parts_bytes["weights"] - plain.memory_parts_bytes["weights"]
    assert more == 500_000 * 512 * 2


def test_hardware_flops_contain_what_is_computed_again() -> None:
    ratios = {}
    for name in ("none", "selective", "full"):
        found = timed(Options(Variant(recompute=name)))
        ratios[name] = found.hfu / found.mfu
    # Once more: 4 s^2 h of 72 s h^2 + 12 s^2 h + 6 s h V / l; or a third of all.
    s, h = 256, 512
    scores = 4 * s**2 * h / (72 * s * h**2 + 12 * s**2 * h + 6 * s * h * 1000 / 4)
    assert ratios == pytest.approx({"none": 1, "selective": 1 + scores, "full": 4 / 3})


def test_key_heads_stay_whole() -> None:
    # 12 heads, 4 key heads: tensor 3 or 6 would cut them; 12 GPUs can share 4 heads by threes.
    case = training(small_model(hidden_size=768, heads=12, kv_heads=4), batch=12)
    levels = two_tiers("B200", 12, 12)
    found = search_plans(case, levels, top=10**6)
    assert {one.plan.tensor for one in found.plans} == {1, 2, 4, 12}


@pytest.mark.parametrize(
    ("part", "key"), [("compute", "tensor_efficiency"), ("communication", "bandwidth_efficiency")]
)
def test_a_roofline_needs_its_shares(part: str, key: str) -> None:
    data = FOURD.to_dict()
    del data[part][key]
    with pytest.raises(RecordError) as error:
        IterationModel.read(data)
    (fault,) = error.value.faults
    assert fault.text == f"{part}.{key} is missing, which a roofline needs"


@pytest.mark.parametrize("key", ["tensor_visible", "pipeline_visible"])
def test_no_more_is_visible_than_there_is(key: str) -> None:
    stack = STACKS.load("megatron-2025").to_dict()
    with pytest.raises(RecordError):
        Stack.read(stack | {key: 1.01})
    assert getattr(Stack.read(stack | {key: 1.0}), key) == 1.0
