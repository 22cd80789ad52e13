"""Bars of serving by class: by hand from their file, wider for what no point has, for chips too."""

from typing import Any

import pytest

import netplan
from netplan.errors import InputError
from netplan.performance.serving import bars
from netplan.performance.serving.bars import ServingBar, months_older, serving_bars
from netplan.performance.stacks import SERVING_STACKS
from netplan.records import replace
from netplan.setup.served_plan import ServedPlan


def row(quantity: str, kind: str) -> ServingBar:
    (bar,) = (bar for bar in serving_bars() if (bar.quantity, bar.kind) == (quantity, kind))
    return bar


def best(model: str, **asked: Any) -> ServedPlan:  # noqa: ANN401 - inputs of a question
    common: dict[str, Any] = {"accelerator": "h200", "gpus": 8, "concurrency": 32, "top": 1}
    given = {**common, "precision": "fp8", "fixed": {"tensor": 8}, "model": model, **asked}
    return netplan.serving("serving-70b-h200", **given).best


def test_rows_are_bars() -> None:
    for bar in serving_bars():
        assert bar.low < bar.centre < bar.high or bar.chips
        assert bar.low < 1 < bar.high
        assert bar.source
        assert bar.widen >= 1


@pytest.mark.parametrize(
    ("model", "kind", "widen"),
    [("llama-3.1-70b", "dense", 1.1), ("qwen3-32b", "dense", 1.1), ("gpt-oss-20b", "experts", 1.1)],
)
def test_tpot_has_the_bar_of_its_class(model: str, kind: str, widen: float) -> None:
    bar, plan = row("tpot", kind), best(model)
    assert plan.error_class == f"TPOT, {kind}"
    assert plan.tpot_low_s == pytest.approx(plan.tpot_s * bar.low / widen)
    assert plan.tpot_high_s == pytest.approx(plan.tpot_s * bar.high * widen)


def test_older_software_widens_bars_of_experts_alone() -> None:
    """A year before the stack's month is two half-years: 1.1 x 1.1 beside the 1.1 of the class."""
    asked: dict[str, Any] = {"stack": "vllm", "software_date": "2025-06"}
    bar, plan = row("tpot", "experts"), best("deepseek-r1", **asked)
    assert plan.tpot_high_s / plan.tpot_s == pytest.approx(1.1 * 1.21 * bar.high)
    plain, old = (best("llama-3.1-70b", **some) for some in ({"stack": "vllm"}, asked))
    assert plain == old


@pytest.mark.parametrize("month", ["2024-11", "2026-07"])
def test_software_that_nothing_is_known_of_is_refused_with_the_range(month: str) -> None:
    with pytest.raises(InputError, match="from 2024-12 to 2026-06"):
        months_older(SERVING_STACKS.load("vllm"), month)


def test_offline_runs_have_a_class_of_their_own() -> None:
    """gpt-oss of TensorRT-LLM, and others; each class rests on two models and widens by 1.25."""
    asked: dict[str, Any] = {"stack": "tensorrt-llm", "requests": 3000, "concurrency": None}
    asked |= {"fixed": {"tensor": 1, "replicas": 8}}
    for model, kind, widen in (
        ("gpt-oss-120b", "gpt-oss", 1.25),
        ("qwen3-235b-a22b", "other experts", 1.25),
    ):
        fixed = asked if model.startswith("gpt") else asked | {"fixed": {"tensor": 8}}
        bar, plan = row("offline", kind), best(model, **fixed)
        assert plan.error_class == f"tokens/s offline, {kind}"
        predicted = plan.tokens_per_s / bar.shown_centre
        assert plan.tokens_per_s_low == pytest.approx(predicted * bar.low / widen)
        assert plan.tokens_per_s_high == pytest.approx(predicted * bar.high * widen)


def test_a_centre_that_is_off_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = best("llama-3.1-70b")
    moved = tuple(replace(bar, centre=1.2) for bar in serving_bars())
    monkeypatch.setattr(bars, "serving_bars", lambda: moved)
    plan = best("llama-3.1-70b")
    assert plan.tpot_s == pytest.approx(1.2 * plain.tpot_s)
    assert sum(plan.breakdown_s.values()) == pytest.approx(plan.tpot_s)
    assert plan.tpot_low_s == plain.tpot_low_s
    assert plan.tokens_per_s < plain.tokens_per_s


def test_plans_of_chips_without_tables_are_told_apart_by_their_bar_alone() -> None:
    """MI300X: printed tokens/s are 0.5 to 1.1 times the predicted ones from 32 requests on."""
    asked: dict[str, Any] = {"accelerator": "mi300x", "gpus": 8, "top": 3}
    many = netplan.serving("serving-70b-h200", concurrency=256, **asked)
    assert many.best.tokens_per_s_low == pytest.approx(0.5 * many.best.tokens_per_s)
    assert many.best.tokens_per_s_high == pytest.approx(1.1 * many.best.tokens_per_s)
    alike = [plan for plan in many.plans if 1.1 * plan.tokens_per_s >= many.best.tokens_per_s_low]
    assert f"Plans 1 to {len(alike)} are not distinguishable" in many.notes[-1]
    few = netplan.serving("serving-70b-h200", batch=8, **asked)
    assert few.best.error_class is None
    assert not any("distinguishable" in note for note in few.notes)
