"""Printed results on uneven experts: EPLB's own plan again, and rows that could fail."""

import numpy as np
import pytest

from netplan.published.checks import published
from netplan.published.expert_networks import expert_skew_checks, gini_of


def test_the_printed_plan_has_the_imbalance_that_is_stated() -> None:
    stated = {row["name"]: row["expected"] for row in published("expert-skew")}
    for layer in ("1", "2"):
        rows = [row for row in published("eplb-example") if row["layer"] == layer]
        gpus = np.zeros(8)
        for row in rows:
            places = [int(gpu) for gpu in row["gpus"].split()]
            for gpu in places:
                gpus[gpu] += float(row["load"]) / len(places)
        assert gpus.sum() == pytest.approx(sum(float(row["load"]) for row in rows))
        name = f"EPLB's example, layer {layer}: busiest GPU over the mean"
        assert f"{gpus.max() / gpus.mean():.3f}" == stated[name]


def test_grades_of_uneven_experts() -> None:
    checks = {check.name: check for check in expert_skew_checks()}
    assert not [check for check in checks.values() if check.verdict == "fail"]
    assert checks["96 H100, decode: EPLB over none"].grade == "trend"
    assert 1.1 < float(checks["96 H100, decode: EPLB over none"].got) < 1.4
    assert checks["EPLB's example, layer 1: experts with two copies"].grade == "exact"


def test_a_gini_coefficient_by_hand() -> None:
    # Mean difference of 1, 2, 3: 8/9, over twice the mean of 2.
    assert gini_of(np.array([3.0, 1.0, 2.0])) == pytest.approx(2 / 9)
