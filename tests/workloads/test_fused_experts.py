"""Fused experts and latent attention: hand-computed values, monotony, precisions without data."""

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, strategies

from netplan.errors import InputError
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.kernels import (
    computed_in,
    expert_rates,
    fused_experts_time_s,
    generation_time_s,
    kernel_error,
    latent_generation_time_s,
)
from netplan.workloads.operations import ExpertShape, Routing

DEEPSEEK = ExpertShape(hidden=7168, inter=2048, top_k=8, experts=256, expert=8)
MEASURED = ("a100-80gb", "h100-80gb", "h200", "b200", "b300", "gb200", "gb300")


def test_experts_by_hand() -> None:
    # 64 tokens x 8 / 8 GPUs = 64 rows, two on each of the 32 experts of this GPU
    matrices = 3 * 7168 * 2048
    flops_s = 2 * 64 * matrices / (0.427 * 4.5e15)
    moved = 32 * matrices + 2 * (1.21 * 64 * 8 * 7168 + 3 * 64 * (7168 + 3 * 2048))
    expected_s = 21.27e-6 + math.hypot(flops_s, moved / (0.8903 * 7.7e12))
    plain_s = fused_experts_time_s("b200", "fp8", 64, DEEPSEEK, corrections=False)
    assert plain_s == pytest.approx(expected_s, 1e-12)
    # two products without a gate, cut over 4, bf16: an inner size of 512; 16 rows meet 16 experts
    two = ExpertShape(hidden=4096, inter=2048, top_k=4, experts=64, tensor=4, products=2)
    matrices = 2 * 4096 * 512
    flops_s = 2 * 16 * matrices / (0.5682 * 989.4e12)
    moved = 2 * 16 * matrices + 2 * (4.921 * 16 * 4096 + 3 * 16 * (4096 + 2 * 512))
    expected_s = 39.29e-6 + math.hypot(flops_s, moved / (0.8876 * 3.35e12))
    plain_s = fused_experts_time_s("h100-80gb", "bf16", 4, two, corrections=False)
    assert plain_s == pytest.approx(expected_s, 1e-12)


def test_experts_that_have_a_row() -> None:
    assert DEEPSEEK.active(1) == 1  # of the fullest GPU: eight rows on eight GPUs
    assert DEEPSEEK.active(16) == 16
    assert DEEPSEEK.active(1000) == 32
    random = [float(DEEPSEEK.active(tokens, "random")) for tokens in (16, 32, 1000)]
    assert random == pytest.approx([32 * (1 - (31 / 32) ** n) for n in (16, 32, 1000)])
    for routing in get_args(Routing):
        assert DEEPSEEK.active(1e-9, routing) == 1
    even_s, random_s = (
        fused_experts_time_s("h200", "bf16", 32, DEEPSEEK, routing=routing, corrections=False)
        for routing in get_args(Routing)
    )
    assert random_s < even_s


def test_precisions_without_data() -> None:
    h100, v100 = ACCELERATORS.load("h100-80gb"), ACCELERATORS.load("v100-32gb")
    # fp8 on Hopper: the shares of 16-bit experts, on the 8-bit peak
    assert expert_rates(h100, "fp8").efficiency == expert_rates(h100, "bf16").efficiency
    assert expert_rates(h100, "fp8").peak_flops_per_s == 1979e12
    bf16_s, fp8_s, int4_s, fp4_s = (
        fused_experts_time_s(h100, dtype, 256, DEEPSEEK, corrections=False)
        for dtype in ("bf16", "fp8", "int4", "fp4")
    )
    assert fp4_s <= int4_s < fp8_s < bf16_s
    assert computed_in(v100, "fp4") == ("bf16", 0.5625)
    assert expert_rates(v100, "bf16").peak_flops_per_s == v100.tensor_flops_per_s
    assert fused_experts_time_s(v100, "fp8", 64, DEEPSEEK) > fp8_s
    with pytest.raises(InputError, match="v100-32gb has no peak of fp8"):
        expert_rates(v100, "fp8")
    with pytest.raises(InputError, match="no table of corrections for fp8 kernels"):
        fused_experts_time_s(h100, "fp8", 64, DEEPSEEK, corrections=True)
    errors = [kernel_error(h100, dtype, kernel="experts") for dtype in ("bf16", "fp8")]
    assert errors == [0.1, 0.3]
    assert kernel_error("mi300x", kernel="experts") == 0.5


def test_sizes_that_are_none() -> None:
    with pytest.raises(InputError, match="tokens of fused experts is 0"):
        fused_experts_time_s("b200", "fp8", 0, DEEPSEEK)
    with pytest.raises(InputError, match="top_k of fused experts is -1"):
        fused_experts_time_s("b200", "fp8", 1, ExpertShape(8, 8, np.array([1.0, -1.0]), 8))
    with pytest.raises(InputError, match="unknown precision 'int3'"):
        fused_experts_time_s("b200", "int3", 1, DEEPSEEK)
    with pytest.raises(InputError, match="rank of latent attention is 0"):
        latent_generation_time_s("b200", 1, 1, 1, 0)


sizes = strategies.fixed_dictionaries(
    {
        "hidden": strategies.integers(1024, 8192),
        "inter": strategies.integers(512, 8192),
        "top_k": strategies.integers(1, 10),
        "experts": strategies.integers(16, 512),
    }
)


@given(sizes=sizes, tokens=strategies.integers(1, 1 << 14), name=strategies.sampled_from(MEASURED))
def test_more_work_takes_longer_and_more_gpus_less(
    sizes: dict[str, Any], tokens: int, name: str
) -> None:
    def time_s(more_tokens: float = 0, **changes: float) -> float:
        shape = ExpertShape(**{**sizes, **changes})
        return float(
            fused_experts_time_s(name, "bf16", tokens + more_tokens, shape, corrections=False)
        )

    plain_s = time_s() * (1 - 1e-12)
    assert time_s(more_tokens=tokens) >= plain_s
    assert time_s(hidden=2 * sizes["hidden"]) >= plain_s
    assert time_s(inter=2 * sizes["inter"]) >= plain_s
    assert time_s(products=2.0) * (1 - 1e-12) <= time_s()
    for cut in ("tensor", "expert"):
        assert time_s(**{cut: 2.0}) * (1 - 1e-12) <= time_s()


@pytest.mark.parametrize("name", MEASURED)
def test_corrected_times_grow_with_tokens_and_context(name: str) -> None:
    """Tables are fitted so; heads and GPUs may go either way, as kernels change with them."""
    tokens = np.exp(np.linspace(0, np.log(32768), 200))
    shape = ExpertShape(
        hidden=np.array([2048.0, 7168.0])[:, None, None, None, None],
        inter=np.array([768.0, 2048.0])[:, None, None, None],
        top_k=8,
        experts=np.array([64.0, 256.0])[:, None, None],
        expert=np.array([1.0, 8.0, 64.0])[:, None],
    )
    measured = ACCELERATORS.load(name).measured
    assert measured is not None
    for dtype in measured.experts:
        times_s = np.asarray(fused_experts_time_s(name, dtype, tokens, shape))
        assert np.min(times_s[..., 1:] / times_s[..., :-1]) > 1 - 5e-4
    context = np.exp(np.linspace(np.log(256), np.log(65536), 100))
    batch, kv_heads, shared = np.array([1, 8, 64])[:, None], np.array([1, 8])[:, None, None], 4
    times_s = np.asarray(generation_time_s(name, batch, context, shared * kv_heads, kv_heads))
    assert np.min(times_s[..., 1:] / times_s[..., :-1]) > 1 - 5e-4


def test_arrays_are_what_numbers_are() -> None:
    tokens = np.array([1.0, 100.0, 5000.0])
    shape = ExpertShape(7168, 2048, 8, 256, np.array([1.0, 4.0])[:, None], np.array([8.0]))
    times_s = np.asarray(fused_experts_time_s("b200", "fp4", tokens, shape))
    assert times_s.shape == (2, 3)
    single = ExpertShape(7168, 2048, 8, 256, 4, 8)
    assert times_s[1, 1] == pytest.approx(fused_experts_time_s("b200", "fp4", 100, single))
    assert isinstance(fused_experts_time_s("b200", "fp4", 100, single), float)


def test_latent_attention_by_hand() -> None:
    # Y = 32 x 4096 x 576 x 2 B, F = 2 x 32 x 4096 x 128 (2 x 512 + 64); joined by p = 1.2431
    flops_s = 2 * 32 * 4096 * 128 * 1088 / (0.8066 * 989.4e12)
    bytes_s = 32 * 4096 * 576 * 2 / (0.899 * 3.35e12)
    expected_s = 9.6069e-6 + (flops_s**1.2431 + bytes_s**1.2431) ** (1 / 1.2431)
    time_s = latent_generation_time_s("h100-80gb", 32, 4096, 128)
    assert time_s == pytest.approx(expected_s, 1e-9)
    half_s = latent_generation_time_s("h100-80gb", 32, 4096, 128, kv_bytes=1)
    assert half_s < time_s
    # one vector for all heads: far less than keys and values of 128 heads
    assert time_s < 0.1 * float(generation_time_s("h100-80gb", 32, 4096, 128))
