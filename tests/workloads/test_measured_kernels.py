"""Measured kernels: hand-computed values, the errors of their specification, monotony."""

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, strategies

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.published.checks import published
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.kernels import (
    ExpertExchange,
    attention_backward_time_s,
    attention_parts_s,
    attention_rates,
    attention_time_s,
    expert_exchange_s,
    generation_time_s,
    kernel_error,
    product_parts_s,
    product_rates,
    product_time_s,
)
from netplan.workloads.operations import AttentionShape

H100, V100 = ACCELERATORS.load("h100-80gb"), ACCELERATORS.load("v100-32gb")


def columns(rows: list[dict[str, str]], *names: str) -> list[Floats]:
    return [np.array([float(row[name]) for row in rows]) for name in names]


def mean_error(predicted_s: Floats, measured_s: Floats) -> float:
    return float(np.mean(np.abs(predicted_s / measured_s - 1)))


def test_a_product_by_hand() -> None:
    # F = 2 x 4096 x 8192 x 1024 = 68.72e9; / (0.802 x 989.4e12) = 86.603e-6 s
    # Y = 2 (4096 x 1024 + 1024 x 8192 + 4096 x 8192) = 92.27e6; / (0.845 x 3.35e12) = 32.597e-6 s
    expected_s = 2.897e-6 + math.hypot(86.6035e-6, 32.5970e-6)
    assert product_time_s("h100-80gb", "bf16", 4096, 8192, 1024) == pytest.approx(expected_s, 1e-5)
    assert product_time_s(H100, "fp16", 4096, 8192, 1024) == pytest.approx(expected_s, 1e-5)
    moved = 4096 * 1024 + 1024 * 8192 + 2 * 4096.0 * 8192
    expected_s = 6.194e-6 + 68.719476736e9 / (0.761 * 1979e12) + moved / (0.847 * 3.35e12)
    plain_s = product_time_s(H100, "fp8", 4096, 8192, 1024, corrections=False)
    assert plain_s == pytest.approx(expected_s, 1e-12)
    # 4-bit numbers have their share of a scale: 9 bits each.
    moved = 9 / 16 * (4096 * 1024 + 1024 * 8192) + 2 * 4096 * 8192
    expected_s = 6.757e-6 + 68.719476736e9 / (0.564 * 9e15) + moved / (0.772 * 7.7e12)
    plain_s = product_time_s("b200", "fp4", 4096, 8192, 1024, corrections=False)
    assert plain_s == pytest.approx(expected_s, 1e-12)


def test_catalog_rates_change_no_measured_time() -> None:
    # b200.yaml says 2,500 TFLOP/s and 8 TB/s; what was measured is a share of 2,250 and 7.7:
    # 0.7 x 2250 / 2500 = 0.63 and 0.775 x 7.7 / 8 = 0.7459 of the former.
    flops, moved = 2.0 * 8192**3, 6.0 * 8192**2
    expected_s = 2.425e-6 + math.hypot(flops / (0.63 * 2.5e15), moved / (0.7459375 * 8e12))
    assert product_time_s("b200", "bf16", 8192, 8192, 8192) == pytest.approx(expected_s, 1e-12)
    faster = {"h100-80gb.tensor_flops_per_s": "2e15", "h100-80gb.memory_bytes_per_s": "9e12"}
    other = ACCELERATORS.load("h100-80gb", overrides=faster)
    for dtype in ("bf16", "fp8"):
        assert product_time_s(other, dtype, 99, 999, 9999) == product_time_s(
            H100, dtype, 99, 999, 9999
        )
    slower = {"accelerator.measured.products.bf16.efficiency": "0.401"}
    half = ACCELERATORS.load("h100-80gb", overrides=slower)
    busy_s, _ = product_parts_s(product_rates(half, "bf16"), 1e15, 0.0)
    assert busy_s == pytest.approx(2.897e-6 + 1e15 / (0.401 * 989.4e12))


def test_attention_by_hand() -> None:
    # b = 2, s = 2048, h = 16, g = 4, q = 64 on an H200 (p = 1):
    # F = 2 x 2 x 16 x 2048^2 x 64; n = 32 x 16 = 512 blocks, w = 4 x 132 / 512 = 1.03125
    flops = 2 * 2 * 16 * 2048**2 * 64
    work = flops * (1 + 0.6317 * 0.03125) * 2**0.639 * (1 + 114.9523 / 2048)
    moved = 2 * 2 * 2048 * 64 * (32 + 8)
    parts_s = work / (0.7026 * 989.4e12), moved / (0.4022 * 4.8e12)
    expected_s = 12.5857e-6 + sum(parts_s)
    assert attention_time_s("h200", 2, 2048, 16, 4, 64) == pytest.approx(expected_s, 1e-12)
    backward_s = 12.5857e-6 + 2.5 * (parts_s[0] / 0.8 + parts_s[1])
    assert attention_backward_time_s("h200", 2, 2048, 16, 4, 64) == pytest.approx(backward_s, 1e-12)
    # tokens count as whole blocks of 128; heads wider than 128 gain nothing more
    assert attention_time_s("h200", 2, 2047, 16, 4, 64) == pytest.approx(expected_s, 1e-12)
    # p = 1.0733 on a B200, which joins 3 and 4 to less than 7
    rates = attention_rates("b200")
    whole = AttentionShape(1.0, 8.0, 8.0, 1024.0, 1024.0, 128.0)
    busy_s, waiting_s = attention_parts_s(rates, whole)
    x = busy_s - rates.kernel_latency_s
    y = 2 * 2 * 1024 * 128 * 16 / (0.4243 * 7.7e12)
    assert x + waiting_s == pytest.approx((x**1.0733 + y**1.0733) ** (1 / 1.0733), 1e-9)


def test_one_new_token_by_hand() -> None:
    # F = 4 b h c q, Y = 2 b q (2 g c + 2 h), n = b h = 256 blocks: w = 2 x 108 / 256 < 1 is 1 wave
    flops, moved = 4 * 8 * 32 * 5000 * 128, 2 * 8 * 128 * (2 * 8 * 5000 + 2 * 32)
    parts_s = flops * (1 + 533.9951 / 5000) / (0.7682 * 312e12), moved / (0.7693 * 2.039e12)
    expected_s = 14.356e-6 + sum(parts_s)
    plain_s = generation_time_s("a100-80gb", 8, 5000, 32, 8, corrections=False)
    assert plain_s == pytest.approx(expected_s, 1e-12)
    # a cache of 8 bits: its 16 x 5000 numbers of a head take a byte each
    moved = 8 * 128 * (2 * 8 * 5000 + 2 * 2 * 32)
    expected_s = 14.356e-6 + parts_s[0] + moved / (0.7693 * 2.039e12)
    half_s = generation_time_s("a100-80gb", 8, 5000, 32, 8, kv_bytes=1, corrections=False)
    assert half_s == pytest.approx(expected_s, 1e-12)


def test_windows_and_whole_matrices() -> None:
    rates = attention_rates(H100)

    def work_s(**changes: object) -> float:
        shape = AttentionShape(1.0, 32.0, 32.0, 8192.0, 8192.0, 128.0, **changes)  # type: ignore[arg-type]
        return float(attention_parts_s(rates, shape)[0]) - rates.kernel_latency_s

    causal_s = work_s()
    assert work_s(causal=False) == pytest.approx(2 * causal_s)
    assert work_s(window=8192.0) == work_s(window=1e9) == causal_s
    # 8192 queries see 1024 keys but for the first 1024, who see half: (w - w^2 / 2s) of s / 2
    assert work_s(window=1024.0) == pytest.approx(causal_s * (1024 - 64) / 4096)
    # a quarter of the queries on all keys takes a quarter of the FLOPs, and half-filled waves more
    quarter = AttentionShape(1.0, 33.0, 33.0, 2048.0, 8192.0, 128.0)
    whole = AttentionShape(1.0, 33.0, 33.0, 8192.0, 8192.0, 128.0)
    parts = [attention_parts_s(rates, one)[0] - rates.kernel_latency_s for one in (quarter, whole)]
    assert parts[0] == pytest.approx(parts[1] / 4)  # 528 blocks are 4 full waves of 132


def test_exchange_by_hand() -> None:
    # 8 of 256 experts on 2 nodes of 8: d(2) = 2 (1 - 2^-8), half of them on the other node
    two = ExpertExchange(hidden=7168, top_k=8, gpus=16, nodes=2, dtype="fp8")
    network, near = two.copies
    assert network == pytest.approx(2 * (1 - 2**-8) / 2)
    assert near == pytest.approx(16 * (1 - (15 / 16) ** 8) * 15 / 16)
    token = 7168 * (1 + 4 / 128)
    expected_s = 36e-6 + 4096 * token * max(network / (0.76 * 50e9), near / (0.65 * 450e9))
    assert expert_exchange_s("h100-80gb", "dispatch", 4096, two) == pytest.approx(expected_s)
    rack = ExpertExchange(hidden=7168, top_k=8, gpus=4, kind="rack")
    expected_s = 14e-6 + 100 * 14336 * 4 * (1 - 0.75**8) * 0.75 / (0.44 * 900e9)
    assert expert_exchange_s("b200", "combine", 100, rack) == pytest.approx(expected_s)
    # no more than four nodes are met, and alone nobody sends anything
    many = ExpertExchange(hidden=7168, top_k=8, gpus=64, nodes=8)
    assert many.copies[0] == pytest.approx(4 * (1 - 0.75**8) * 7 / 8)
    assert ExpertExchange(hidden=7168, top_k=8, gpus=1).copies == (0.0, 0.0)


EXCHANGES = {
    "normal": (0.167, 0.116),
    "low-latency": (0.105, 0.118),
    "NVLinkTwoSided": (0.09, 0.147),
}


@pytest.mark.parametrize("software", [*EXCHANGES])
def test_errors_of_exchanges(software: str) -> None:
    """Printed errors; those of racks with the links of GB200."""
    kind = "rack" if software == "NVLinkTwoSided" else software
    for phase, printed in zip(("dispatch", "combine"), EXCHANGES[software], strict=True):
        errors = list[float]()
        for row in published("measured-expert-exchange"):
            if row["software"].endswith(software) and row["phase"] == phase:
                exchange = ExpertExchange(
                    hidden=int(row["hidden"]),
                    top_k=int(row["top_k"]),
                    gpus=int(row["gpus"]),
                    nodes=int(row["nodes"]),
                    kind=kind,  # type: ignore[arg-type]
                    dtype=row["dtype"],
                )
                name = row["accelerator"]
                time_s = expert_exchange_s(name, phase, int(row["tokens_per_gpu"]), exchange)  # type: ignore[arg-type]
                errors.append(mean_error(np.asarray(time_s), np.array(float(row["time_s"]))))
        assert np.mean(errors) == pytest.approx(printed, abs=0.0015)


def test_errors_of_products() -> None:
    """Large 16-bit products, and shapes of transformers with corrections, as printed."""
    large, shapes = [], defaultdict(list)
    rows: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in published("measured-products"):
        rows[row["accelerator"], row["dtype"]].append(row)
    for (name, dtype), some in rows.items():
        m, n, k, measured_s = columns(some, "m", "n", "k", "time_s")
        held_out = np.array([row["use"] != "grid" for row in some])
        corrected_s = np.asarray(product_time_s(name, dtype, m, n, k, corrections=True))
        shapes[dtype].append(mean_error(corrected_s[held_out], measured_s[held_out]))
        if dtype == "bf16":
            plain_s = np.asarray(product_time_s(name, dtype, m, n, k))
            wide = (m >= 1024) & (n >= 1024) & (k >= 1024)
            large.append(mean_error(plain_s[wide], measured_s[wide]))
            heavy = held_out & (m * n * k >= 5e10)
            assert mean_error(plain_s[heavy], measured_s[heavy]) < 0.07  # 10^11 FLOP and more
    assert min(large) == pytest.approx(0.039, abs=0.005)
    assert max(large) == pytest.approx(0.067, abs=0.0005)
    assert all(np.mean(errors) < 0.07 for errors in shapes.values())


def test_errors_of_attention() -> None:
    """Heads of 128 on 1,024 tokens and more: 6.1 to 8.5 %; new tokens 18 to 24 %."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in published("measured-attention"):
        rows[row["accelerator"], row["phase"]].append(row)
    for (name, phase), some in rows.items():
        batch, context, heads, shared, size, measured_s = columns(
            some, "batch", "context", "heads", "kv_heads", "head_size", "time_s"
        )
        if phase == "generation":
            sizes = batch, context, heads, shared, size
            times_s = np.asarray(generation_time_s(name, *sizes, corrections=False))
            assert 0.18 <= round(mean_error(times_s, measured_s), 2) <= 0.24
            continue
        times_s = np.asarray(attention_time_s(name, batch, context, heads, shared, size))
        usual = (size == 128) & (context >= 1024) & (batch * heads >= 8)
        assert 0.06 < mean_error(times_s[usual], measured_s[usual]) < 0.0855


def test_chips_without_data_say_how_far_off_they_may_be() -> None:
    assert V100.measured is None
    flops, moved = 2.0 * 4096**3, 6.0 * 4096**2
    expected_s = 2.4e-6 + math.hypot(flops / (0.78 * 125e12), moved / (0.78 * 0.9e12))
    assert product_time_s(V100, "bf16", 4096, 4096, 4096) == pytest.approx(expected_s)
    for kernel, near, far in (("products", 0.15, 0.3), ("attention", 0.15, 0.3)):
        assert kernel_error(V100, kernel=kernel) == near  # type: ignore[arg-type]
        assert kernel_error("sn40l", kernel=kernel) == far  # type: ignore[arg-type]
    assert kernel_error("sn40l", kernel="generation") > kernel_error(V100, kernel="generation")
    assert attention_time_s(V100, 1, 4096, 16) > attention_time_s(H100, 1, 4096, 16)
    with pytest.raises(InputError, match="fp8 products of v100-32gb were not measured"):
        product_time_s(V100, "fp8", 1, 1, 1)
    with pytest.raises(InputError, match=r"fp4 products of h100-80gb .*known: bf16, fp8"):
        kernel_error(H100, "fp4")
    with pytest.raises(InputError, match="no table of corrections for bf16"):
        product_time_s(V100, "bf16", 1, 1, 1, corrections=True)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, -1, 1), (1, 1, math.nan), (math.inf, 1, 1)])
def test_sizes_that_are_none(sizes: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="finite and above 0"):
        product_time_s(H100, "bf16", *sizes)
    with pytest.raises(InputError, match="finite and above 0"):
        attention_time_s(H100, *sizes)
    with pytest.raises(InputError, match=r"^k of a product is -2:"):
        product_time_s(H100, "bf16", 8, 8, np.array([8.0, -2.0]))


def test_unknown_words() -> None:
    with pytest.raises(InputError, match="unknown precision 'int8': use bf16, fp8, fp4, fp16"):
        product_time_s(H100, "int8", 1, 1, 1)
    exchange = ExpertExchange(hidden=7168, top_k=8, gpus=16)
    wrongs: tuple[tuple[dict[str, object], str], ...] = (
        ({"kind": "slow"}, "unknown kind of exchange 'slow'"),
        ({"nodes": 3}, "nodes divide GPUs"),
        ({"kind": "rack", "nodes": 2}, "a rack is one node"),
        ({"dtype": "fp4"}, "tokens travel as bf16 or fp8"),
    )
    for wrong, fault in wrongs:
        with pytest.raises(InputError, match=fault):
            replace(exchange, **wrong)
    with pytest.raises(InputError, match="unknown phase 'gather'"):
        expert_exchange_s(H100, "gather", 1, exchange)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 0"):
        expert_exchange_s(H100, "combine", -1, exchange)


size = strategies.integers(1024, 1 << 17)


@given(
    sizes=strategies.tuples(size, size, size),
    grown=strategies.integers(0, 2),
    factor=strategies.floats(1, 16),
    case=strategies.sampled_from([("h100-80gb", "fp8"), ("b200", "fp4"), ("a100-80gb", "bf16")]),
)
def test_larger_products_take_longer(
    sizes: tuple[int, int, int], grown: int, factor: float, case: tuple[str, str]
) -> None:
    """From 1,024 on; below, with corrections, times may fall as they do in the source."""
    larger = [float(one) for one in sizes]
    larger[grown] *= factor
    corrections = None if case[1] == "bf16" else True
    before_s, after_s = (
        product_time_s(*case, *some, corrections=corrections) for some in (sizes, larger)
    )
    assert after_s >= before_s * (1 - 1e-12)


@given(
    key=strategies.sampled_from(["efficiency", "memory_efficiency", "memory_bytes_per_s"]),
    share=strategies.floats(0.1, 1),
    sizes=strategies.tuples(*[strategies.integers(1, 1 << 16)] * 3),
)
def test_lower_rates_take_longer(key: str, share: float, sizes: tuple[int, int, int]) -> None:
    assert H100.measured is not None
    rates = H100.measured.products["bf16"]
    lower = H100.changed(
        measured=H100.measured.changed(
            products={"bf16": rates.changed(**{key: share * getattr(rates, key)})}
        )
    )
    before_s = product_time_s(H100, "bf16", *sizes)
    assert product_time_s(lower, "bf16", *sizes) >= before_s * (1 - 1e-12)


def test_arrays_are_what_numbers_are() -> None:
    m = np.array([1.0, 100.0, 5000.0])
    for dtype in ("bf16", "fp8"):
        times_s = product_time_s(H100, dtype, m[:, None], 512, m[None, :])
        assert np.shape(times_s) == (3, 3)
        single_s = product_time_s(H100, dtype, 100, 512, 5000)
        assert isinstance(single_s, float)
        assert np.asarray(times_s)[1, 2] == pytest.approx(single_s, rel=1e-15)
