"""Kernels on single GPUs, as measured and as timed by the rates of accelerator files.

Source: measured tables of AIConfigurator 0.12.0 (NVIDIA, Apache-2.0). The rates are fitted to other
points of the same tables, corrections to the products of a grid; what is checked are means of the
relative errors on shapes of transformer layers, on attention of usual sizes, and of generated
tokens and fused experts on every third shape or row, which fitted nothing.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import numpy as np

from netplan.arrays import Bools, Floats
from netplan.published.checks import Check, known, published
from netplan.workloads.kernels import (
    ExpertExchange,
    attention_time_s,
    expert_exchange_s,
    fused_experts_time_s,
    generation_time_s,
    product_time_s,
)
from netplan.workloads.measured_rates import ExchangeKind, ExchangePhase
from netplan.workloads.operations import ExpertShape

SOURCE = "Measured kernels, AIConfigurator 0.12.0 (NVIDIA, Apache-2.0)"
MOST = {
    "products": 0.07,
    "attention": 0.09,
    "small attention": 0.09,
    "generation": 0.20,
    "experts": 0.15,
    "exchange": 0.20,
}
"""Mean relative errors that stay below these, by kind [1]."""

LARGE_FLOPS, WIDE, LONG, MANY_HEADS, FULL_HEAD = 1e11, 1024, 1024, 8, 128
"""Large products and their least size; usual attention: tokens, heads of all sequences, head."""

WHY = {
    "small attention": "fewer than 8 heads of all sequences leave most of a GPU idle, which the"
    " form counts by whole waves alone",
    "gb200, fp4 products": "between the sizes of the table the fastest of three frameworks changes",
    "a100-80gb, bf16 fused": "another framework, with uneven loads of the experts; the fullest GPU"
    " of those that they are divided over has nearly all tokens",
    "fp8 fused": "kernels that nobody tuned, an eighth of the memory bandwidth, slower than bf16;"
    " published times of whole models contradict them, and nothing is fitted to them",
}
"""Why errors are known to be larger."""

ATTENTION_SIZES = ("batch", "context", "heads", "kv_heads", "head_size")
EXPERT_SHAPE = ("hidden", "inter", "top_k", "experts", "tensor", "expert", "products")

EXCHANGES: Mapping[str, ExchangeKind] = {
    "normal": "normal",
    "low-latency": "low-latency",
    "NVLinkTwoSided": "rack",
}
"""Kinds of exchange by the last word of the software that was measured."""


class Errors(NamedTuple):
    """Relative errors of one kind of kernel, and what they are of."""

    kind: str
    what: str
    off: Floats


def kernel_checks() -> Iterator[Check]:
    """Mean errors by accelerator: products, attention, generated tokens, experts, exchanges."""
    for errors in (*_products(), *_attention(), *_experts(), *_exchanges()):
        most, found = MOST[errors.kind], float(np.mean(np.abs(errors.off)))
        name = f"{errors.what}: mean error of {len(errors.off)}"
        expected, got = f"{100 * most:g} % or less", f"{100 * found:.1f} %"
        reason = next((why for part, why in WHY.items() if part in errors.what), "")
        if found > most and reason:
            yield known(name, SOURCE, expected, got, reason)
        else:
            yield Check(name, SOURCE, expected, got, "pass" if found <= most else "fail")


def _products() -> Iterator[Errors]:
    """Wide 16-bit products of any shape; large ones, and all with corrections, of transformers."""
    shapes: dict[str, list[Floats]] = {}
    rows = published("measured-products")
    for (name, dtype), some in groupby(rows, key=lambda row: (row["accelerator"], row["dtype"])):
        points = list(some)
        m, n, k, taken_s = _columns(points, "m", "n", "k", "time_s")
        corrected = np.asarray(product_time_s(name, dtype, m, n, k, corrections=True)) / taken_s - 1
        used = np.asarray(product_time_s(name, dtype, m, n, k)) / taken_s - 1
        layers: Bools = np.array([row["use"] != "grid" for row in points])
        if dtype == "bf16":
            wide = (m >= WIDE) & (n >= WIDE) & (k >= WIDE)
            yield Errors("products", f"{name}, {dtype} products of 1,024 and more", used[wide])
        large = layers & (2 * m * n * k >= LARGE_FLOPS)
        yield Errors("products", f"{name}, {dtype} products of 1e11 FLOP and more", used[large])
        shapes.setdefault(dtype, []).append(corrected[layers])
    for dtype, each in shapes.items():
        what = f"{len(each)} accelerators, {dtype} products of transformers, corrected"
        yield Errors("products", what, np.concatenate(each))


def _attention() -> Iterator[Errors]:
    """Whole sequences with heads of 128, few of them apart, and tokens one by one."""
    rows = published("measured-attention")
    held_out = _held_out([row for row in rows if row["phase"] == "generation"])
    for (name, phase), some in groupby(rows, key=lambda row: (row["accelerator"], row["phase"])):
        points = list(some)
        *sizes, taken_s = _columns(points, *ATTENTION_SIZES, "time_s")
        batch, context, heads, _, head_size = sizes
        if phase == "generation":
            off = np.asarray(generation_time_s(name, *sizes)) / taken_s - 1
            unseen = np.array([_shape(row) in held_out for row in points])
            yield Errors("generation", f"{name}, attention of new tokens", off[unseen])
            continue
        off = np.asarray(attention_time_s(name, *sizes)) / taken_s - 1
        long = (context >= LONG) & (head_size == FULL_HEAD)
        few = batch * heads < MANY_HEADS
        yield Errors("attention", f"{name}, attention", off[long & ~few])
        yield Errors("small attention", f"{name}, small attention", off[long & few])


def _shape(row: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(int(row[key]) for key in ATTENTION_SIZES)


def _held_out(rows: list[dict[str, str]]) -> set[tuple[int, ...]]:
    """Every third shape of all accelerators together: no table is fitted to it."""
    return set(sorted({_shape(row) for row in rows})[2::3])


def _experts() -> Iterator[Errors]:
    """Fused experts; those that A100s divide among them apart."""
    rows = published("measured-experts")
    for (name, dtype), some in groupby(rows, key=lambda row: (row["accelerator"], row["dtype"])):
        points = list(some)
        tokens, *sizes, taken_s = _columns(points, "tokens", *EXPERT_SHAPE, "time_s")
        shape = ExpertShape(*sizes)
        off = np.asarray(fused_experts_time_s(name, dtype, tokens, shape)) / taken_s - 1
        what, whole = f"{name}, {dtype} fused experts", shape.expert == 1
        if name == "a100-80gb":
            yield Errors("experts", f"{what}, divided", off[~whole])
            off = off[whole]
        yield Errors("experts", what, off)


def _exchanges() -> Iterator[Errors]:
    """Dispatch and combine of each kind of exchange."""
    off: dict[tuple[ExchangeKind, ExchangePhase], list[float]] = {}
    for row in published("measured-expert-exchange"):
        kind = EXCHANGES[row["software"].rpartition(" ")[2]]
        phase: ExchangePhase = "dispatch" if row["phase"] == "dispatch" else "combine"
        hidden, top_k, gpus, nodes = (int(row[key]) for key in ("hidden", "top_k", "gpus", "nodes"))
        one = ExpertExchange(hidden, top_k, gpus, nodes, kind, row["dtype"])
        time_s = expert_exchange_s(row["accelerator"], phase, int(row["tokens_per_gpu"]), one)
        off.setdefault((kind, phase), []).append(float(time_s) / float(row["time_s"]) - 1)
    for (kind, phase), each in off.items():
        yield Errors("exchange", f"{phase} of experts, {kind}", np.array(each))


def _columns(rows: list[dict[str, str]], *names: str) -> list[Floats]:
    return [np.array([float(row[name]) for row in rows]) for name in names]
