"""Formulas of what plans hold, worked out again from the values of their symbols."""

import re
from typing import Any

import pytest

from netplan import search
from netplan.performance.memory_formulas import MemoryRows, meanings, memory_rows
from netplan.performance.plan import PlanTime

TOKEN = re.compile(r"10\^9|10\^6|[A-Za-z]+|\d+(?:\.\d+)?|[-+/()]")
OPERATORS = {"+", "-", "/", ")"}
H100 = {"gpus": 512, "published": False}
SMALL = {"gpus": 128, "model": "llama-3-70b", "published": False}
A100 = {"accelerator": "a100-80gb", "stack": "megatron-2022", "model": "gpt-175b", "gpus": 512}
DEGREES = {"tensor": 8, "pipeline": 16, "interleave": 8, "microbatch": 1, "context": 1}


def worked_out(formula: str, symbols: dict[str, float]) -> float:
    """The value of a formula, in which what stands beside each other is multiplied."""
    python, before = "", "("
    for token in TOKEN.findall(formula):
        if before not in {"+", "-", "/", "("} and token not in OPERATORS:
            python += "*"
        python += {"10^9": "1e9", "10^6": "1e6"}.get(token, token)
        before = token
    return float(eval(python, {"__builtins__": {}}, dict(symbols)))  # noqa: S307 - our own text


def rows_of(scenario: str, **values: Any) -> tuple[MemoryRows, PlanTime]:  # noqa: ANN401
    found = search(scenario, **values).found
    return memory_rows(found.setting_of(found.best), found.best), found.best


CASES: list[tuple[str, dict[str, Any]]] = [
    ("hgx-h100", H100),
    ("hgx-h100", {**H100, "recompute": "full"}),
    ("hgx-h100", {**H100, "recompute": "half"}),
    ("hgx-h100", {**H100, "recompute": "block:2"}),
    ("hgx-h100", {**H100, "recompute": "mlp"}),
    ("hgx-h100", {**H100, "precision": "fp8"}),
    ("hgx-h100", {**H100, "zero_stage": 3, "recompute": "full"}),
    ("hgx-h100", {**H100, "zero_stage": 2}),
    ("hgx-h100", {**H100, "sequence_parallel": False}),
    ("hgx-h100", {**H100, "fixed": {"pipeline": 1}}),
    ("hgx-h100", {**H100, "stack": "fsdp-compiled"}),
    ("hgx-h100", {**SMALL, "stack": "fsdp-compiled", "fixed": {"pipeline": 2, "tensor": 8}}),
    ("hgx-h100", {**SMALL, "fixed": {"pipeline": 4}, "zero_stage": 3, "stack": "fsdp-eager"}),
    ("hgx-h100", {**H100, "stack": "fsdp-eager", "recompute": "sac-op"}),
    ("hgx-h100", {**SMALL, **A100, "recompute": "none"}),
    ("hgx-h100", {**SMALL, **A100, "recompute": "selective"}),
    ("hgx-h100", {**H100, "model": "mixtral-8x7b"}),
    ("hgx-h100", {**H100, "model": "mixtral-8x7b", "recompute": "moe_act+layernorm"}),
    ("hgx-h100", {**H100, "model": "mixtral-8x7b", "recompute": "moe"}),
    ("nvl72-gb200", {"gpus": 576, "precision": "fp4", "published": False}),
    ("nvl72-gb200", {"gpus": 576, "model": "deepseek-v3", "published": False}),
    ("nvl72-gb200", {"gpus": 576, "model": "deepseek-v3", "recompute": "mla_up_proj+layernorm"}),
    ("nvl72-gb200", {"gpus": 144, "model": "deepseek-v3", "fixed": {"pipeline": 4}}),
    ("tpu-v7", {}),
    ("nvl72-gb200", {"gpus": 72, "model": "llama-3-70b", "offload": ("activations:20",)}),
]


@pytest.mark.parametrize(("scenario", "values"), CASES)
def test_every_formula_gives_what_is_held(scenario: str, values: dict[str, Any]) -> None:
    rows, best = rows_of(scenario, **values)
    symbols = {row.symbol: row.value for row in rows.symbols}
    assert {row.symbol: row.meaning for row in rows.symbols}.items() <= meanings().items()
    formulas = [(row.formula, row.held_bytes) for row in rows.parts]
    formulas += [(row.formula, row.held_bytes) for row in rows.operations]
    for formula, held_bytes in formulas:
        assert worked_out(formula, symbols) == pytest.approx(held_bytes, rel=1e-9), formula
    *held, beyond = rows.parts
    assert sum(row.held_bytes for row in held) == pytest.approx(best.memory_bytes, rel=1e-9)
    assert beyond.held_bytes == pytest.approx(0.03 * best.memory_bytes + 2e9)


def test_llama_on_16_384_gpus_as_worked_by_hand() -> None:
    """31.8 bytes of each T h / t in a layer; 16 microbatches of 8 layers; 16,384 x 16,384 / 8."""
    rows, best = rows_of(
        "hgx-h100", stack="nemo-2024", fixed=DEGREES, recompute="none", zero_stage=1
    )
    element = 8192 * 16384 / 8
    kept = {row.operation: row.held_bytes / element for row in rows.operations}
    by_hand = {"norm 1": 4.0, "qkv": 2.25, "attention": 2.03, "norm 2": 4.0, "ffn": 19.5}
    assert kept == pytest.approx(by_hand, abs=0.005)
    parts = {row.part: row.held_bytes / 1e9 for row in rows.parts}
    assert parts["activations"] == pytest.approx(68.25, abs=0.005)
    states = parts["weights"] + parts["gradients"] + parts["optimizer"]
    assert states == pytest.approx(19.43, abs=0.005)
    assert parts["a layer's backward pass"] == pytest.approx(0.49, abs=0.005)
    memory = best.memory
    assert memory is not None
    assert (memory.stage, memory.layers, memory.in_flight) == (1, 8, 16)
    assert (memory.verdict, round(memory.peak_bytes / 1e9, 1)) == ("tight", 88.3)
    assert round(memory.usable_bytes / 1e9, 1) == 84.9


@pytest.mark.parametrize(
    ("values", "peak", "verdict"),
    [
        ({"zero_stage": 2, "recompute": "none"}, 75.6, "fit"),
        ({"recompute": "block:2"}, 72.8, "fit"),
    ],
)
def test_what_makes_it_fit(values: dict[str, Any], peak: float, verdict: str) -> None:
    zero = {"zero_stage": 1} | values
    best = search("hgx-h100", stack="nemo-2024", fixed=DEGREES, **zero).best
    assert best.memory is not None
    assert best.memory.peak_bytes / 1e9 == pytest.approx(peak, abs=0.05)
    assert best.memory.verdict == verdict
