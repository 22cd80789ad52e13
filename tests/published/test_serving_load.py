"""Rows of serving under load: they pass, and a batch that is off fails."""

from collections.abc import Callable, Mapping

from netplan.published.checks import Check, check
from netplan.published.serving_points import PROGRAM


def test_rows_hold(suites: Mapping[str, Callable[[], tuple[Check, ...]]]) -> None:
    checks = suites["serving under load"]()
    assert [row.name for row in checks if row.verdict == "fail"] == []
    known = [row.name.partition(":")[0] for row in checks if row.verdict == "known"]
    assert known == ["DualPath", "DualPath"]
    assert len({row.name for row in checks}) == len(checks) == 38


def test_a_simulated_value_that_is_off_fails() -> None:
    row = check("llm-heavy: ttft_p99", PROGRAM, "0.0992913", "0.0993913", same=False)
    assert row.verdict == "fail"
