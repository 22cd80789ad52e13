"""Formulas of iteration model ``calibrated``, each against a number worked out by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from netplan.errors import InputError
from netplan.inputs.choices import Recompute
from netplan.levels import Level
from netplan.performance.calibrated import (
    Exchange,
    Passes,
    Reached,
    Sharing,
    Slice,
    Stages,
    attention_s,
    dense_products,
    embedding_s,
    head_s,
    product_s,
    vectors_s,
)
from netplan.performance.calibrated_run import CalibratedRun
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan
from netplan.performance.setting import Options, TrainedModel
from netplan.performance.stacks import STACKS
from netplan.records import replace
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.operations import Sharding, Variant
from netplan.workloads.program import Zero
from tests.performance.cases import small_model

CALIBRATED = ITERATION_MODELS.load("calibrated")


def reached(**changes: float) -> Reached:
    """Everything takes one second each, and nothing is lost."""
    ones: dict[str, Any] = dict.fromkeys(Reached.__struct_fields__, 1.0)
    return Reached(**(ones | {"casts": 0.0, "lost_outputs": 0.0, "kernel_s": 0.0} | changes))


def slice_of(**changes: float) -> Slice:
    """Ten tokens of sequence 5, with h = 8, q = 4, k = 2, f = 16, w = 20, two heads."""
    values: dict[str, Any] = {
        "tokens": 10.0,
        "scattered": 5.0,
        "hidden": 8.0,
        "sequence": 5.0,
        "query": 4.0,
        "key": 2.0,
        "ffn": 16.0,
        "gates": 1.0,
        "words": 20.0,
        "heads": 2.0,
        "rotary": 0.0,
    }
    return Slice(**(values | changes))


def test_a_product_takes_its_flops_or_its_bytes() -> None:
    fast = reached(kernel_s=7.0, lost_outputs=4.0, memory_bytes_per_s=1e9)
    # 2 x 3 x (2 x 5 + 4) = 84 FLOPs at 2 a second; else 2 (6 + 15 + 10) = 62 bytes at one.
    assert product_s(2.0, 3.0, 5.0, 2.0, fast) == 7 + 42
    assert product_s(2.0, 3.0, 5.0, 1e9, reached(kernel_s=7.0)) == 7 + 62


def test_products_of_a_layer_and_their_casts() -> None:
    part, on = slice_of(), reached(memory_bytes_per_s=1e12)
    # qkv 8 x 8, projection 4 x 8, fc1 8 x 16, fc2 16 x 8: 64 + 32 + 128 + 128 weights.
    both = dense_products(part.tokens, part.products, on)
    assert part.layer_weights == 352
    assert both.forward_s == pytest.approx(2 * 10 * 352)
    assert both.backward_s == pytest.approx(4 * 10 * 352)
    narrow = dense_products(
        part.tokens,
        part.products,
        reached(casts=1.0, memory_bytes_per_s=0.5, product_flops_per_s=1e12),
    )
    wide = dense_products(
        part.tokens, part.products, reached(memory_bytes_per_s=0.5, product_flops_per_s=1e12)
    )
    assert narrow.forward_s - wide.forward_s == pytest.approx(4 * 10 * (8 + 4 + 8 + 16) / 0.5)
    assert narrow.backward_s - wide.backward_s == pytest.approx(4 * 10 * (8 + 8 + 16 + 8) / 0.5)


def test_fused_attention_has_half_of_the_square_and_a_half_length() -> None:
    both = attention_s(slice_of(), reached(attention_half_s=15.0, kernel_s=2.0))
    # 2 x 10 x 5 x 4 = 400 FLOPs at the rate 5 / (5 + 15).
    assert astuple(both) == (2 + 1600, 4 + 2.5 * 1600, 0)


def test_unfused_attention_has_the_square_and_its_scores() -> None:
    both = attention_s(slice_of(), reached(fused=0.0, kernel_s=2.0))
    # 800 FLOPs, 10 x 5 x 2 = 100 scores.
    assert astuple(both) == (8 + 800 + 1300, 16 + 1600 + 2100, 8 + 400 + 1300)


@pytest.mark.parametrize(("gates", "ahead", "back"), [(1.0, 4, 8), (2.0, 6, 10)])
def test_vector_operations_move_bytes(gates: float, ahead: int, back: int) -> None:
    on = reached(vector=3.0, dropout=1.0, kernel_s=2.0)
    both = vectors_s(slice_of(gates=gates, rotary=1.0), on)
    # 2 E h = 80, T f = 160, copies 4 x 10 x (4 + 4) and rotary 4 x 10 x (4 + 2).
    assert both.forward_s == 3 * (80 * 11 + ahead * 160 + 320 + 240) + 12
    assert both.backward_s == 3 * (80 * 21 + back * 160 + 320 + 240) + 18


def test_ends_of_the_network() -> None:
    on = reached(kernel_s=2.0, memory_bytes_per_s=10.0)
    # Three products of 3,200 FLOPs, of 2 (80 + 160 + 200) bytes each; 24 x 200 bytes of logits.
    assert head_s(slice_of(), on) == pytest.approx(3 * (2 + 3200) + 480 + 12)
    assert embedding_s(slice_of(), on) == pytest.approx(12 * 80 / 10 + 8)


ONE = Passes(
    forward_s=10.0,
    backward_s=20.0,
    forward_comm_s=1.0,
    backward_comm_s=1.0,
    again_s=3.0,
    layer_s=5.0,
    head_s=30.0,
    embedding_s=2.0,
)
"""40 seconds a layer."""


def stages(layers: int, number: int, **changes: float) -> Stages:
    fullest = -(-layers // number)
    less = number * fullest - layers
    values: dict[str, Any] = {
        "layers": float(layers),
        "stages": float(number),
        "interleave": 1.0,
        "microbatches": 8.0,
        "fullest": float(fullest),
        "chunk": float(fullest),
        "first_less": float(less >= 2),
        "last_less": float(less >= 1),
        "bubble": 1.0,
    }
    return Stages(**(values | changes))


@pytest.mark.parametrize(
    ("layers", "number", "layers_of_it", "ends_s"),
    [
        (6, 1, 6, 32),  # one stage has both ends
        (6, 2, 3, 30),  # the last one, with the head
        (5, 2, 3, 2),  # of 3 and 2 layers the first
        (10, 4, 3, 0),  # of 2, 3, 3, 2 one without an end
        (8, 4, 2, 30),
    ],
)
def test_the_slowest_stage(layers: int, number: int, layers_of_it: int, ends_s: int) -> None:
    pipeline = stages(layers, number)
    assert [float(one) for one in pipeline.slowest(ONE)] == [layers_of_it, ends_s]
    assert pipeline.slowest_s(ONE) == 40 * layers_of_it + ends_s
    assert pipeline.through_s(ONE) == 40 * layers + 32
    assert pipeline.transfers == (0 if number == 1 else 2 * 8 + 2 * (number - 1))


def sharing(**changes: float) -> Sharing:
    values: dict[str, Any] = dict.fromkeys(Sharing.__struct_fields__, 0.0)
    values |= {"repeats": 1.0, "gradient_bytes": 4.0, "gather_bytes": 2.0, "contention": 0.25}
    return Sharing(**(values | changes))


def exchange(**changes: float) -> Exchange:
    values: dict[str, Any] = {
        "passes": ONE,
        "s_per_byte": 1.0,
        "members": 4.0,
        "layer_weights": 3.0,
        "end_weights": 5.0,
        "zero_stage": 1.0,
    }
    return Exchange(**(values | changes))


def test_weights_of_a_stage_are_exchanged_once() -> None:
    one, two = stages(6, 1), stages(6, 2)
    assert (exchange().held(one), exchange().held(two)) == (28, 14)
    assert exchange().data_s(one, sharing()) == 4 * 28 + 2 * 28
    assert exchange(zero_stage=0.0).data_s(one, sharing()) == 2 * 4 * 28
    assert exchange().data_s(one, sharing(repeats=2.0)) == 2 * 4 * 28 + 2 * 28
    assert exchange(members=1.0).data_s(one, sharing()) == 0


def test_overlapped_weights_show_their_last_piece_and_a_share() -> None:
    # Gradients 112 s in six pieces behind 24 x 6 = 144 s, weights 56 s behind 11 x 6 = 66 s.
    shown = exchange().data_s(stages(6, 1), sharing(overlapped=1.0))
    assert shown == pytest.approx(112 / 6 + 0.25 * 112 + 56 / 6 + 0.25 * 56)
    # Ten times slower: 1,120 - 144 x 5/6 and 560 - 66 x 5/6 show whole.
    slow = exchange(s_per_byte=10.0).data_s(stages(6, 1), sharing(overlapped=1.0))
    assert slow == pytest.approx(1120 - 120 + 0.25 * 144 + 560 - 55 + 0.25 * 66)


def test_gathered_weights_are_exchanged_for_every_pass() -> None:
    one, rules = stages(6, 1, microbatches=2.0), sharing(collective_s=1.0)
    # A layer gathers 7 s behind 11, and gathers and scatters 20 s behind 24; ends 2 x 5 x (2 + 4).
    found = exchange(zero_stage=3.0).data_s(one, rules)
    assert found == pytest.approx(2 * 6 * 0.25 * (7 + 20) + 60)


def test_the_update_of_sharded_weights() -> None:
    rules = sharing(optimizer_bytes=38.0, gradient_buffer_bytes=8.0)
    times = [
        exchange(zero_stage=zero).optimizer_s(stages(6, 1), rules, reached())
        for zero in (0.0, 1.0, 3.0)
    ]
    assert times == [46 * 28, (38 / 4 + 8) * 28, 46 / 4 * 28]


def bare_training(**rates: float) -> TrainedModel:
    """All shares are 1, and nothing has a start: the pure roofline."""
    part = CALIBRATED.calibration
    assert part is not None
    ideal = {"memory_efficiency": 1.0, "hb_efficiency": 1.0, "attention_half_s": 0.0}
    none = dict.fromkeys(
        ("kernel_s", "collective_s", "hb_step_s", "contention", "iteration_s"), 0.0
    )
    part = replace(part, **ideal, **none, optimizer_bytes=0.0, gradient_buffer_bytes=0.0)
    on = ACCELERATORS.load("h100-80gb")
    assert on.training is not None
    shares = {"gemm": {"bf16": 1.0}, "attention": {"fa2": 1.0}, "wave": 0.0}
    on = replace(on, training=replace(on.training, **shares), **rates)
    stack = replace(STACKS.load("fsdp-compiled"), vector=1e-9)
    run = CalibratedRun.of(on, stack, part)
    return TrainedModel.make(on, small_model(), CALIBRATED, batch=4, calibrated=run)


def test_all_shares_of_one_are_the_pure_roofline() -> None:
    trained = bare_training(memory_bytes_per_s=1e30, tensor_flops_per_s=1e12)
    levels = (Level("switch", 1, 1e12),)
    plan = Plan(Placement((Degrees(),), (1,)), 1, 4)
    found = evaluate_plan(trained, levels, plan)
    h, layers, s, words = 512, 4, 256, 1000
    products = 6 * 4 * s * (12 * h * h * layers + h * words)
    attention = 3.5 * 2 * 4 * s * s * h * layers
    assert found.iteration_time_s == pytest.approx((products + attention) / 1e12, rel=1e-9)


@settings(max_examples=40)
@given(
    st.sampled_from(["tensor_flops_per_s", "memory_bytes_per_s", "hb", "network"]),
    st.integers(0, 3),
    st.sampled_from(["none", "selective", "half", "full"]),
    st.sampled_from(sorted(STACKS.paths())),
)
def test_nothing_is_slower_for_a_better_rate(
    rate: str, zero: Zero, again: Recompute, name: str
) -> None:
    on = ACCELERATORS.load("a100-80gb" if "20" in name and "2025" not in name else "h100-80gb")
    if on.training is not None and not set(STACKS.load(name).attention) & set(
        on.training.attention
    ):
        return
    part = CALIBRATED.calibration
    assert part is not None
    options = Options(Variant(again), zero)
    plan = Plan(Placement((Degrees(tensor=4, data=2), Degrees(data=2, pipeline=2))), 1, 4)

    def seconds(factor: float, microbatch: int = 1) -> float:
        better = {rate: getattr(on, rate) * factor} if rate in on.__struct_fields__ else {}
        chip = replace(on, **better)
        run = CalibratedRun.of(chip, STACKS.load(name), part)
        trained = TrainedModel.make(chip, small_model(), CALIBRATED, calibrated=run)
        hb, network = (factor if rate == one else 1.0 for one in ("hb", "network"))
        levels = Level("switch", 8, 450e9 * hb), Level("switch", 4, 50e9 * network)
        placed = replace(plan, microbatch=microbatch)
        return evaluate_plan(trained, levels, placed, options=options).iteration_time_s

    assert seconds(2.0) <= seconds(1.0) * (1 + 1e-12)
    assert seconds(1.0, 2) > seconds(1.0)


def test_slices_of_a_model() -> None:
    model = small_model(kv_heads=2, gated_ffn=True)
    part = Slice.of(model, Sharding.of(3, tensor=4), sequence_parallel=True)
    values = [float(np.ravel(one)[0]) for one in astuple(part)]
    # 8 heads of 64; a GPU holds one of two key heads at least; 2,048 / 4 columns, 1,000 / 4 words.
    assert values == [768, 192, 512, 256, 250, 128, 64, 512, 2, 2, 1]


def test_what_is_not_known_is_refused() -> None:
    part = CALIBRATED.calibration
    assert part is not None
    h100, b200_1200w = ACCELERATORS.load("h100-80gb"), ACCELERATORS.load("b200")
    with pytest.raises(InputError, match="b200 has no training block"):
        CalibratedRun.of(b200_1200w, STACKS.load("megatron-2025"), part)
    with pytest.raises(InputError, match=r"megatron-2022 runs attention by unfused, and h100-80gb"):
        CalibratedRun.of(h100, STACKS.load("megatron-2022"), part)
    with pytest.raises(InputError, match="h100-80gb computes no fp4"):
        CalibratedRun.of(h100, STACKS.load("megatron-2025"), part, precision="fp4")
    b200 = ACCELERATORS.load("b200-1000w")
    with pytest.raises(InputError, match=r"no training run says what fp4 products reach"):
        CalibratedRun.of(b200, STACKS.load("megatron-2025"), part, precision="fp4")
