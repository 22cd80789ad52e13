"""The record of ``netplan verify``: what each grade may be, and that a worse number fails."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from netplan.published.checks import CLOSE, GRADES, Check, Recorded, check, checks_of, record
from netplan.published.checks import published as table

Suites = Mapping[str, Callable[[], tuple[Check, ...]]]
TABLES = (
    *("statements", "dataflow", "tiled", "cluster-design", "serving", "expert-networks"),
    *("families", "model-parameters", "product-designs", "cost-sheets", "congestion"),
)
RESTATED = re.compile(
    r"\boff by more\b|does not reproduce|known to differ|not so by|is a slip\b|does not agree"
)
"""Reasons that say no more than a grade does."""

MOST_OFF = 25
"""Rows that may be off by netplan's own models, of those of before the grades [1]."""

BEFORE = Path(__file__).with_name("rows_before.csv")
"""All rows of the list when grades were first recorded."""


def every() -> list[Recorded]:
    return [*record().values()]


def test_no_row_is_held_to_more_than_its_source_is_sure_of() -> None:
    """Of what is exact or close: the printed digits, a printed range, or an error of 5 %."""
    for one in every():
        if one.grade == "exact":
            assert one.window is None, one
        if one.grade == "close":
            assert one.window is None or 0 < one.window <= CLOSE, one
    assert Counter(one.grade for one in every()).keys() == set(GRADES)


def test_what_is_off_says_what_it_would_take() -> None:
    off = [one for one in every() if one.grade == "off"]
    assert all(one.takes for one in off)
    assert not any(one.takes for one in every() if one.grade != "off")
    assert sum((one.name, one.source) in _before() for one in off) <= MOST_OFF


def test_what_differs_says_why_and_by_how_much(suites: Suites) -> None:
    checks = [one for run in suites.values() for one in run()]
    assert [one.name for one in checks if one.verdict == "fail"] == []
    assert all(one.got not in ("", "-") for one in checks)
    for one in checks:
        if one.grade in ("exact", "close"):
            assert one.verdict == "pass"
            continue
        assert one.verdict == "known"
        assert one.reason, one
        assert not RESTATED.search(one.reason), one
        number = re.fullmatch(r"-?[\d.,]+(e\d+)?", one.expected)
        if one.grade == "off" and number and one.got != "not planned":
            assert one.gap_shown, one


def test_windows_are_as_wide_as_the_gaps(suites: Suites) -> None:
    """A window that left room would let a number become worse: half a point at most, or a tenth."""
    checks = {(one.name, one.source): one for run in suites.values() for one in run()}
    for key, recorded in record().items():
        gap = checks[key].gap
        if recorded.grade in ("trend", "off", "source") and recorded.window is not None:
            assert gap is not None, recorded
            assert abs(gap) <= recorded.window <= max(abs(gap) + 0.005, 1.1 * abs(gap)), recorded
        if recorded.grade in ("trend", "off") and gap is not None:
            assert abs(gap) > CLOSE or recorded.grade == "trend", recorded


def _numbers() -> Iterator[tuple[str, dict[str, str], Recorded]]:
    for name in TABLES:
        for row in table(name):
            recorded = record()[row["name"], row["source"]]
            if re.fullmatch(r"-?[\d.]+(e\d+)?", row["expected"]) and float(row["expected"]):
                yield name, row, recorded


@pytest.mark.parametrize(
    ("name", "row", "recorded"), [*_numbers()], ids=lambda value: getattr(value, "name", "")
)
def test_a_number_that_is_worse_than_its_record_fails(
    name: str, row: dict[str, str], recorded: Recorded
) -> None:
    value = float(row["expected"])
    digits = len(row["expected"].partition("e")[0].partition(".")[2])
    unit = 10.0 ** (int(row["expected"].partition("e")[2] or 0) - digits)
    by = 1.01 * (unit + (recorded.window or 0.0) * abs(value))
    wrong = [value + by, value - by]
    if recorded.grade in ("off", "source") and recorded.window is None:
        pytest.skip("its value is a text")
    for worse in wrong:
        (found,) = checks_of([(row["name"], worse)], name)
        assert found.verdict == "fail", found
    (found,) = checks_of([(row["name"], value)], name)
    limits = not row["low"] or float(row["low"]) <= value <= float(row["high"])
    if recorded.grade == "exact" or (recorded.grade == "close" and limits):
        assert found.verdict == "pass"


def test_a_row_without_a_value_fails() -> None:
    one = next(one for one in every() if one.grade == "source")
    assert check(one.name, one.source, "1", "-").verdict == "fail"


def test_nothing_that_was_checked_is_dropped() -> None:
    assert len(_before()) == 1156
    assert _before() <= record().keys()


def _before() -> set[tuple[str, str]]:
    with BEFORE.open(encoding="utf-8", newline="") as file:
        return {(row["name"], row["source"]) for row in csv.DictReader(file)}
