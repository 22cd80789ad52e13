"""Blocks of layers under software of a date: by hand, and where they must agree."""

import numpy as np
import pytest

from netplan.performance.calibrated import ReachedRates
from netplan.performance.dated.blocks import (
    BlockCollectives,
    DatedReach,
    attention_block,
    expert_block,
    mamba_block,
)
from netplan.performance.dated.exchange import ExchangeShares, ExpertGroups, dispatch_s
from netplan.performance.dated.layer import DatedLayer
from netplan.performance.dated.part import Part
from netplan.records import replace
from netplan.traffic.patterns import distinct_places
from netplan.workloads.models import MODELS, Experts, LatentAttention, Mamba, Model, WindowAttention
from netplan.workloads.operations import Sharding
from tests.performance.cases import small_model

NONE = BlockCollectives(0.0, 0.0, 0.0, 0.0)
HOST = ("attention_host_s", "experts_host_s", "expert_host_s")


def reach(**given: float) -> DatedReach:
    """Round rates, whose kernels start at once, with nothing lost."""
    ones = dict.fromkeys(DatedReach.__struct_fields__, 1.0)
    none = dict.fromkeys(("kernel_s", "casts", "lost_outputs", "pad_rows", "fused_experts"), 0.0)
    none |= dict.fromkeys((*HOST, "attention_half_s"), 0.0)
    return DatedReach(**(ones | none | {"memory_bytes_per_s": 1e30} | given))


def part(model: Model, *, microbatch: int = 1, **cut: int) -> Part:
    """What a GPU has of a microbatch."""
    sharding = Sharding.of(microbatch, **({"tensor": 1} | cut))
    return Part.of(model, sharding, sequence_parallel=True)


def number(amount: object) -> float:
    """The single number of an amount."""
    return float(np.ravel(np.asarray(amount))[0])


def test_rates_are_those_of_all_kernels() -> None:
    assert {*ReachedRates.__struct_fields__} < {*DatedReach.__struct_fields__}


def test_attention_by_hand() -> None:
    """64 tokens, hidden 32, 4 heads of 8, 2 key heads, on 2 GPUs: FLOPs at a rate of 1."""
    model = small_model(
        hidden_size=32, heads=4, kv_heads=2, head_size=8, sequence_length=64, vocabulary=10
    )
    block = attention_block(part(model, tensor=2), reach(), NONE)
    # A GPU has 2 heads and 1 key head: 32 x (16 + 16) and 16 x 32.
    product = 2 * 64 * (32 * (2 * 8 + 2 * 8) + 2 * 8 * 32)
    assert number(block.products.forward_s) == product
    assert number(block.products.backward_s) == 2 * product
    # 64 tokens see half of 64, by queries and values of 8 of 2 heads.
    scores = 64 * 64 * 2 * (8 + 8)
    assert number(block.attention.forward_s) == scores
    assert number(block.attention.backward_s) == 2.5 * scores
    assert number(block.weights) == 32 * 32 + 16 * 32


def test_latent_attention_by_hand() -> None:
    latent = LatentAttention(
        query_rank=16, kv_rank=4, head_size=8, rotary_head_size=2, value_head_size=6
    )
    model = small_model(
        hidden_size=32, heads=4, latent_attention=latent, sequence_length=64, vocabulary=10
    )
    block = attention_block(part(model), reach(latent=2.0), NONE)
    weights = 32 * 16 + 32 * (4 + 2) + 16 * 4 * 10 + 4 * 4 * (8 + 6) + 4 * 6 * 32
    assert number(block.weights) == weights
    assert number(block.products.forward_s) == 2 * 64 * weights
    assert number(block.attention.forward_s) == 64 * 64 * 4 * (10 + 6) / 2
    assert number(block.again_s["mla_up_proj"]) == 2 * 64 * (16 * 4 * 10 + 4 * 4 * 14)


def test_windows_see_fewer_tokens() -> None:
    """A quarter of the layers see 16 of 64 tokens: 2 x 16 - 16^2 / 64 = 28."""
    window = {"tokens": 16, "layers": 2}
    model = small_model(
        layers=8, hidden_size=32, heads=4, sequence_length=64, window_attention=window
    )
    assert part(model).seen == 0.75 * 64 + 0.25 * 28


def test_experts_by_hand() -> None:
    """Two of 8 experts of 4 GPUs each, of 64 rows; memory of 1 byte a second."""
    experts = Experts(count=8, per_token=2, ffn_size=12)
    model = small_model(
        hidden_size=32, heads=4, sequence_length=64, vocabulary=10, experts=experts, gated_ffn=True
    )
    cut = part(model, experts_over=4)
    block = expert_block(cut, reach(grouped_flops_per_s=2.0, pad_rows=3.0), NONE)
    rows, held = 64 * 2, 2
    padded = rows + 3 * held
    product = 2 * padded * (32 * 24 + 12 * 32) / 2.0
    assert number(block.products.forward_s) == pytest.approx(product)
    assert number(block.products.backward_s) == pytest.approx(2 * product)
    assert number(block.expert_weights) == held * 32 * 12 * 3
    router = 2 * 64 * 32 * 8
    assert number(block.vectors.forward_s) == pytest.approx(router)
    slow = reach(memory_bytes_per_s=1.0, head_flops_per_s=1e30, grouped_flops_per_s=1e30)
    slow = replace(slow, product_flops_per_s=1e30, permuted=5.0, routed=7.0)
    moved = expert_block(cut, slow, NONE).vectors
    permuted, act = 5 * 2 * rows * 32, 6 * rows * 12
    norm = 2 * 64 * 32 * 5
    read = 2 * (64 * 32 + 32 * 8 + 64 * 8) + 7 * 4 * 64 * 8
    assert number(moved.forward_s) == pytest.approx(permuted + act + norm + read)
    behind = permuted + act * 5 / 3 + 2 * norm + 2 * read
    assert number(moved.backward_s) == pytest.approx(behind)


def test_mamba_by_hand() -> None:
    """4 heads of 8 with a state of 16 in 2 groups, 64 tokens of 32."""
    mamba = Mamba(layers=1, heads=4, head_size=8, state=16, groups=2)
    model = small_model(
        layers=3, hidden_size=32, heads=4, sequence_length=64, mamba=mamba, attention_layers=1
    )
    block = mamba_block(part(model), reach(), NONE)
    inner, written = 32, 2 * 16
    weights = 32 * (2 * inner + 2 * written + 4) + inner * 32
    assert number(block.weights) == weights
    assert number(block.products.forward_s) == 2 * 64 * weights
    scan = 64 * (inner * (256 + 4 * 16) + 256 * written)
    assert number(block.vectors.forward_s) == pytest.approx(scan)
    assert number(block.vectors.backward_s) == pytest.approx(2.5 * scan)
    counts = part(model)
    blocks = (counts.attention_blocks, counts.dense_blocks, counts.mamba_blocks)
    assert blocks == (1, 1, 1)


def test_rows_meet_as_many_places_as_they_do_in_the_mean() -> None:
    draws = np.random.default_rng(1).integers(0, 8, size=(200_000, 6))
    distinct = np.mean([len({*draw}) for draw in draws[:20_000].tolist()])
    assert float(distinct_places(8.0, 6.0)) == pytest.approx(distinct, rel=0.01)


SHARES = ExchangeShares(0.5, 0.25, 0.8, 0.4, 1.0, 50e-6, 36e-6)


def group(**given: float) -> ExpertGroups:
    """64 GPUs over experts on 8 domains of 8."""
    usual = {"over": 64.0, "domains": 8.0, "domain": 8.0, "network_s_per_byte": 1 / 50e9}
    usual |= {"hb_s_per_byte": 1 / 450e9, "merged": 0.0, "exchanges": 1.0, "forwards": 0.0}
    usual["overlap_share"] = given.get("merged", 0.0)
    return ExpertGroups(**(usual | given))


def test_an_exchange_by_hand() -> None:
    """DeepSeek-V3, 4,096 rows of 7,168: k = 8 copies, plain and merged, and on rails alone."""
    cut = part(MODELS.load("deepseek-v3"))
    bytes_of_rows = 4096 * 2 * 7168
    out, inside = 8 * 7 / 8, 8 * 63 / 64
    slow_s, fast_s = out / (0.5 * 50e9), inside / (0.25 * 450e9)
    plain_s = 50e-6 + bytes_of_rows * max(slow_s, fast_s)
    assert number(dispatch_s(cut, group(), SHARES)) == pytest.approx(plain_s)
    once = 8 * (1 - (7 / 8) ** 8) * 7 / 8 / (0.8 * 50e9)
    merged_s = number(dispatch_s(cut, group(merged=1.0), SHARES))
    assert merged_s == pytest.approx(36e-6 + bytes_of_rows * once)
    # Copies for other rails pass the domain, too, before they leave it.
    forwarded_s = (inside + out * 7 / 8) / (0.25 * 450e9)
    rails_s = 50e-6 + bytes_of_rows * (slow_s + forwarded_s)
    assert number(dispatch_s(cut, group(forwards=1.0), SHARES)) == pytest.approx(rails_s)
    assert number(dispatch_s(cut, group(merged=1.0, forwards=1.0), SHARES)) == merged_s
    # Half of the shorter of both hides: max + min / 2; without rails the share means nothing.
    half = group(forwards=1.0, overlap_share=0.5)
    half_s = max(slow_s, forwarded_s) + min(slow_s, forwarded_s) / 2
    assert number(dispatch_s(cut, half, SHARES)) == pytest.approx(50e-6 + bytes_of_rows * half_s)
    assert number(dispatch_s(cut, group(overlap_share=0.0), SHARES)) == pytest.approx(plain_s)
    assert number(dispatch_s(cut, group(exchanges=0.0), SHARES)) == 0


@pytest.mark.parametrize("merged", [0.0, 1.0])
def test_an_exchange_grows_with_domains_and_copies(merged: float) -> None:
    model = MODELS.load("deepseek-v3")
    assert model.experts is not None
    times = []
    for copies in (2, 4, 8):
        cut = part(model.changed(experts=model.experts.changed(per_token=copies)))
        row = [
            number(dispatch_s(cut, group(over=8.0 * n, domains=n, merged=merged), SHARES))
            for n in (1.0, 2.0, 4.0, 8.0)
        ]
        assert row == sorted(row)
        times.append(row[-1])
    assert times == sorted(times)


def layer(model: Model, on: DatedReach, **cut: int) -> DatedLayer:
    """All layers of a model on one GPU."""
    return DatedLayer.of(part(model, **cut), on, NONE, 0.5)


def whole_s(model: Model, on: DatedReach) -> float:
    """A microbatch through all layers [s]."""
    return number(layer(model, on).passes.whole_s) * model.depth


def real() -> DatedReach:
    """Rates like those of an H100."""
    return reach(
        product_flops_per_s=6.5e14,
        head_flops_per_s=6.5e14,
        grouped_flops_per_s=6.5e14,
        attention_flops_per_s=5e14,
        attention_half_s=530.0,
        memory_bytes_per_s=3e12,
        vector=1.3,
        kernel_s=3e-6,
        scan_flops_per_s=1e14,
        scanned=10.0,
        permuted=0.0,
        routed=0.0,
        cast=0.0,
    )


def test_one_expert_is_nearly_a_dense_layer() -> None:
    """Without passes of a permutation, but for the router and a start or two."""
    dense = small_model(hidden_size=4096, heads=32, sequence_length=4096, ffn_size=16384, layers=8)
    experts = Experts(count=2, per_token=1, ffn_size=16384)
    cut = part(dense.changed(experts=experts))
    alone = replace(cut, experts=1.0, held_experts=1.0)
    by_experts = DatedLayer.of(alone, real(), NONE, 0.5)
    apart = number(by_experts.passes.whole_s) / number(layer(dense, real()).passes.whole_s) - 1
    assert abs(apart) < 0.04


def test_a_hybrid_without_mamba_is_a_transformer() -> None:
    model = small_model(layers=8, hidden_size=512, heads=8, sequence_length=2048)
    cut = part(model)
    every = replace(cut, layers=16.0, attention_blocks=8.0, dense_blocks=8.0, mamba_blocks=0.0)
    whole = DatedLayer.of(cut, real(), NONE, 0.5), DatedLayer.of(every, real(), NONE, 0.5)
    assert number(whole[0].gpu_s) == number(whole[1].gpu_s)


def test_experts_take_longer_where_more_is_asked_of_them() -> None:
    experts = Experts(count=16, per_token=2, ffn_size=1024)
    model = small_model(layers=4, hidden_size=2048, heads=16, sequence_length=4096, experts=experts)
    cut = part(model)
    by_imbalance = [
        number(DatedLayer.of(replace(cut, imbalance=x), real(), NONE, 0.5).gpu_s)
        for x in (1, 1.5, 3)
    ]
    assert by_imbalance == sorted({*by_imbalance})
    dropped = replace(cut, imbalance=3.0, capacity=1.5)
    assert number(DatedLayer.of(dropped, real(), NONE, 0.5).gpu_s) == by_imbalance[1]
    per_token = [
        whole_s(model.changed(experts=experts.changed(per_token=k)), real()) for k in (1, 2, 4, 8)
    ]
    assert per_token == sorted({*per_token})


def test_the_host_adds_a_fifth_where_both_work_as_long() -> None:
    model = small_model(layers=4, hidden_size=1024, heads=8, sequence_length=2048)
    alone = layer(model, real())
    gpu_s = number(alone.gpu_s)
    equal = replace(alone, waits_s=gpu_s)
    assert number(equal.together_s) == pytest.approx(2**0.25 * gpu_s)
    waiting = [number(replace(alone, waits_s=x * gpu_s).together_s) for x in (0, 0.5, 1, 4)]
    assert waiting == sorted(waiting)
    assert waiting[-1] == pytest.approx(4 * gpu_s, rel=0.002)


@pytest.mark.parametrize("word", ["full", "half", "core_attn", "moe_act", "moe", "layernorm"])
def test_computing_again_adds_no_less_than_it_is_bound_to(word: str) -> None:
    """Whatever the host takes, with layers that predict, too."""
    experts = Experts(count=16, per_token=2, ffn_size=1024, shared_ffn_size=512)
    model = small_model(
        layers=6,
        hidden_size=1024,
        heads=8,
        sequence_length=2048,
        experts=experts,
        prediction_layers=1,
    )
    for waits in (0.0, 0.3, 1.0, 3.0):
        before = layer(model, real())
        before = replace(before, waits_s=waits * number(before.gpu_s))
        for share in (0.25, 1.0):
            after = before.redoing({word: share})
            more_s = number(after.passes.whole_s) - number(before.passes.whole_s)
            assert more_s >= share * number(before.least_again_s[word]) * (1 - 1e-12)
            assert more_s > 0


def test_parts_add_up_to_the_whole() -> None:
    experts = Experts(count=16, per_token=2, ffn_size=1024)
    model = small_model(
        layers=6,
        hidden_size=1024,
        heads=8,
        sequence_length=2048,
        experts=experts,
        prediction_layers=2,
    )
    sent = BlockCollectives(1e-5, 2e-11, 3e-4, 0.25)
    made = DatedLayer.of(part(model, tensor=2, context=2), real(), sent, 0.5)
    made = replace(made, waits_s=0.7 * number(made.gpu_s)).redoing({"moe_act": 1.0})
    parts = made.parts_s()
    assert sum(map(number, parts.values())) == pytest.approx(
        number(made.passes.whole_s) * model.depth
    )
    assert number(parts["expert_comm"]) == pytest.approx(4 * 8 * 3e-4)
    assert number(parts["host"]) > 0


def test_words_that_mean_nothing_beside_another_are_left_out() -> None:
    experts = Experts(count=16, per_token=2, ffn_size=1024, shared_ffn_size=512)
    model = small_model(layers=4, hidden_size=512, heads=8, sequence_length=1024, experts=experts)
    made = layer(model, real())
    alone = number(made.redoing({"moe": 1.0}).again_s)
    assert (
        number(made.redoing({"moe": 1.0, "moe_act": 1.0, "shared_experts": 1.0}).again_s) == alone
    )


def test_windows_with_heads_of_their_own_are_blocks_of_their_own() -> None:
    """Heads as those of full attention make the layers that windows among them make."""
    plain = small_model(
        layers=8,
        hidden_size=512,
        heads=8,
        sequence_length=2048,
        window_attention={"tokens": 256, "layers": 6},
    )
    alone = part(plain.changed(window_attention=WindowAttention(tokens=256, layers=8)))
    full = part(plain.changed(window_attention=None))
    split = DatedLayer.of(
        replace(full, attention_blocks=2.0), real(), NONE, 0.5, replace(alone, attention_blocks=6.0)
    )
    assert number(split.gpu_s) == pytest.approx(number(layer(plain, real()).gpu_s))
    assert number(split.weights) == number(layer(plain, real()).weights)
