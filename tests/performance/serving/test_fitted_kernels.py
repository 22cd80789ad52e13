"""`--kernels fitted` is the answer of before tables, to the last digit; given values count."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import netplan

FITTED: dict[str, Any] = {"kernels": "fitted", "level": False, "any_plan": True}
"""What is asked for, beside what was before tables, service levels and rules of engines."""

BEFORE = json.loads(Path(__file__).with_name("served_before.json").read_text("utf-8"))
"""Answers of the version before tables of kernels: scenario, what was asked, plans."""


def difference(before: Any, now: Any, place: str = "") -> list[str]:  # noqa: ANN401 - plain data
    """Where plain data differ that were there before."""
    if isinstance(before, dict):
        return [
            text for key in before for text in difference(before[key], now[key], f"{place}.{key}")
        ]
    if isinstance(before, list):
        pairs = enumerate(zip(before, now, strict=True))
        return [text for index, pair in pairs for text in difference(*pair, f"{place}[{index}]")]
    near = isinstance(before, float) and math.isclose(before, now, rel_tol=1e-12)
    return [] if near or before == now else [f"{place}: {before} is {now}"]


@pytest.mark.parametrize("number", range(len(BEFORE)))
def test_fitted_kernels_are_the_answer_of_before(number: int) -> None:
    kept = BEFORE[number]
    asked = FITTED | kept["asked"]
    if "tpot_ms" in asked:
        del asked["level"]  # it has one of its own
    answer = netplan.serving(kept["scenario"], **asked)
    assert difference(kept["plans"], answer.to_dict()["plans"]) == []


def test_values_that_are_given_count_under_fitted_kernels_too() -> None:
    asked: dict[str, Any] = {"gpus": 8, "concurrency": 64, "kernels": "fitted", "top": 1}
    asked |= {"fixed": {"tensor": 8}, "stack": "vllm", "precision": "fp8"}
    plain = netplan.serving("serving-70b-h200", **asked)
    slower = netplan.serving("serving-70b-h200", **asked, overrides={"stack.step_s": "11.65e-3"})
    assert slower.best.tpot_s - plain.best.tpot_s == pytest.approx(10e-3)
