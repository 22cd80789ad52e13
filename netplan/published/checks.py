"""What a check is: one published number, netplan's own, how near it comes, and what is recorded.

Five grades, best first: ``exact`` to the printed digits; ``close`` within the source's own error or
5 %; ``trend`` where the printed order, direction or bound holds and a number, if one is printed, is
further off; ``off`` where netplan's model is what differs; ``source`` where the source contradicts
itself or leaves an input out, which the reason recomputes.

``reports/published/checks.csv`` records the grade of every row and its window: the relative error
up to which it keeps that grade. A row that is worse than its record fails, and so does one without
a value; nothing becomes better by itself.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, wraps
from typing import Literal, get_args

import numpy as np
from msgspec import Struct, convert
from numpy.typing import ArrayLike

from netplan.catalog import shipped_root
from netplan.records import replace, value_at
from netplan.reports.expressions import parse_expression
from netplan.units import PERCENT

Grade = Literal["exact", "close", "trend", "off", "source"]
GRADES: tuple[Grade, ...] = get_args(Grade)
Verdict = Literal["pass", "fail", "known"]
ANY, ALL = "|", "&"
"""Between texts of which one, or of which each, stands in the name or source of a check."""

Measured = tuple[str, float | str]
"""Name of a published number, and netplan's own."""

CLOSE = 0.05
"""Relative error up to which a number is close where its source states none of its own [1]."""

NO_VALUE = ("", "-")
TENTHS_BELOW = 10
"""Per cent from which a gap is shown without tenths [%]."""


class Recorded(Struct, frozen=True):
    """What is recorded of one row.

    Parameters
    ----------
    suite, name, source
        Which row.
    grade
        What it has been found to be.
    window
        Relative error up to which it is that [1]; None where digits, a bound or an order decide.
    reason
        Why it is not exact or close, where what computes it does not say so.
    takes
        What would close the gap of a row that is off.
    """

    suite: str
    name: str
    source: str
    grade: Grade
    window: float | None = None
    reason: str = ""
    takes: str = ""

    def holds(self, check: "Check", *, same: bool, met: bool | None) -> bool:
        """Whether a row is as good as recorded.

        Parameters
        ----------
        check
            The row as it is now.
        same
            Whether the printed digits are netplan's.
        met
            Whether a printed bound or order holds, if there is one.
        """
        near = self.window is None or (check.gap is not None and abs(check.gap) <= self.window)
        if check.got in NO_VALUE:
            return False
        if self.grade == "exact":
            return same
        if self.grade in ("off", "source"):
            return near
        stated = same if met is None and self.window is None else met
        return near and stated is not False


@cache
def record() -> Mapping[tuple[str, str], Recorded]:
    """What is recorded of every row, by its name and source.

    Examples
    --------
    >>> record()["DLRM: NVLink over PCIe", "DFModel, Sec. VI-C"].grade
    'source'
    """
    rows = ({key: text for key, text in row.items() if text} for row in published("checks"))
    every = (convert(row, Recorded, strict=False) for row in rows)
    return {(recorded.name, recorded.source): recorded for recorded in every}


def is_chosen(row: "Recorded | Check", texts: str) -> bool:
    """Whether texts stand in the name or source of a row, in whole words.

    Parameters
    ----------
    row
        The row.
    texts
        Such as ``Fig. 2 & memory at | Fig. 3``: the first two both, or the third.

    Returns
    -------
    bool
        Capitals do not matter.

    Examples
    --------
    >>> row = Recorded("dataflow trends", "DLRM, Fig. 12", "DFModel, Sec. VI-C", "trend")
    >>> [is_chosen(row, texts) for texts in ("fig. 12", "Fig. 1", "Fig. 1 | DLRM & Sec. VI-C")]
    [True, False, True]
    """
    choices = (choice.split(ALL) for choice in texts.split(ANY))
    return any(all(_stands(text.strip(), row) for text in choice) for choice in choices)


def _stands(text: str, row: "Recorded | Check") -> bool:
    """Whether a text stands in the name or source of a row, in whole words."""
    before, after = (r"(?<!\w)" * text[:1].isalnum(), r"(?!\w)" * text[-1:].isalnum())
    words = re.compile(f"{before}{re.escape(text)}{after}", re.IGNORECASE)
    return bool(words.search(row.name) or words.search(row.source))


class Check(Struct, frozen=True):
    """One published number against netplan.

    Parameters
    ----------
    name
        What is checked.
    source
        Paper and table, equation or section.
    expected
        As published.
    got
        As netplan computes it.
    verdict
        ``pass`` for what is exact or close, ``known`` for the three other grades, ``fail`` for a
        row that is worse than its record.
    reason
        Why it differs, or under which assumptions it does not.
    grade
        How near netplan comes.
    gap
        Relative error, signed where single numbers are compared [1]; None where words are.
    takes
        What would close the gap of a row that is off.
    """

    name: str
    source: str
    expected: str
    got: str
    verdict: Verdict
    reason: str = ""
    grade: Grade = "exact"
    gap: float | None = None
    takes: str = ""

    def as_grade(self, grade: Grade, *, failed: bool = False) -> "Check":
        """The same with another grade, and the verdict that it has."""
        return replace(self, grade=grade, verdict="fail" if failed else _verdict(grade))

    @property
    def gap_shown(self) -> str:
        """The gap for people."""
        if not self.gap:
            return ""
        percent = PERCENT * self.gap
        return f"{percent:+,.0f} %" if abs(percent) >= TENTHS_BELOW else f"{percent:+.2g} %"


def check(  # noqa: PLR0913 - what a check is
    name: str,
    source: str,
    expected: str,
    got: str,
    reason: str = "",
    *,
    same: bool | None = None,
    met: bool | None = None,
    gap: float | None = None,
) -> Check:
    """Compare two numbers as printed, and hold them to what is recorded.

    Parameters
    ----------
    name, source, expected, got, reason
        As in :class:`Check`.
    same
        Whether the printed digits are netplan's; None to compare the texts.
    met
        Whether a printed bound, range or order holds, or the limit that netplan holds itself to;
        None if there is none.
    gap
        Relative error [1]; None to take it from texts that are numbers.

    Examples
    --------
    Nothing is recorded of these, so that they are what they look like:

    >>> check("switches", "Table 2", "256", "256").grade
    'exact'
    >>> check("switches", "Table 2", "256", "248").grade, check("leaves", "Text", "9", "7").grade
    ('close', 'off')
    >>> check("speed-up", "Text", "above 1", "1.4", met=True).grade
    'trend'
    """
    same = expected == got if same is None else same
    if gap is None and not same:
        gap = _gap(got.partition(" (")[0], expected)
    gap = None if gap is None else float(gap)  # of an array of one, too
    reached = _reached(same=same, met=met, gap=gap)
    looks = Check(name, source, expected, got, _verdict(reached), reason, reached, gap)
    recorded = record().get((name, source))
    if recorded is None:
        lost = met is False or got in NO_VALUE
        return replace(looks, verdict="fail") if lost else looks
    kept = recorded.holds(looks, same=same, met=met)
    graded = looks.as_grade(recorded.grade if kept else reached, failed=not kept)
    return replace(graded, reason=recorded.reason or reason, takes=recorded.takes)


@cache
def _claims() -> Mapping[str, Mapping[str, str]]:
    """Rows of ``claims.csv`` by their names."""
    return {row["name"]: row for row in published("claims")}


def claim(
    name: str, got: str, reason: str = "", *, met: bool | None = None, gap: float | None = None
) -> Check:
    """Compare what netplan has with a single claim, which ``claims.csv`` has with its source.

    Parameters
    ----------
    name, got, met, gap
        As of :func:`check`.
    reason
        Where netplan computes it; else it stands in the table.

    Examples
    --------
    >>> claim("round trip over 700 miles, ms", "11.05").grade
    'source'
    """
    row = _claims()[name]
    return check(
        name, row["source"], row["expected"], got, reason or row["reason"], met=met, gap=gap
    )


def printed_check(
    named: tuple[str, str, str],
    value: float | str | None,
    *,
    tolerance: float = CLOSE,
    baseline: float | None = None,
    reason: str = "",
) -> Check:
    """Compare a value with what is printed, of which nothing is recorded.

    Parameters
    ----------
    named
        What is checked, where it is printed, and what is printed.
    value
        Netplan's; None where it has none, which fails.
    tolerance
        Relative error up to which a number is close [1].
    baseline
        What both are above, or below, if a direction holds.
    reason
        Why it differs.

    Examples
    --------
    >>> row = ("speed-up", "Table 1", "1.50")
    >>> [printed_check(row, value, baseline=1.0).grade for value in (1.501, 1.52, 2.0, 0.9)]
    ['exact', 'close', 'trend', 'off']
    >>> printed_check(row, None).verdict
    'fail'
    """
    printed = named[2]
    if value is None:
        return Check(*named, NO_VALUE[1], "fail", reason, "off")
    gap, met = _gap(value, printed), None
    if gap is not None and baseline is not None:
        met = (float(value) > baseline) == (float(printed.replace(",", "")) > baseline)
    same = _same(value, {"expected": printed.replace(",", "")})
    near = gap is not None and abs(gap) <= tolerance
    grade: Grade = "exact" if same else "close" if near else "trend" if met else "off"
    got = value if isinstance(value, str) else f"{value:,.6g}"
    return Check(*named, got, _verdict(grade), reason, grade, None if same else gap)


def _verdict(grade: Grade) -> Verdict:
    return "pass" if grade in ("exact", "close") else "known"


def _reached(*, same: bool, met: bool | None, gap: float | None) -> Grade:
    """What a row looks like of itself."""
    if met is False:
        return "off"
    if same:
        return "exact"
    if gap is not None and abs(gap) <= CLOSE:
        return "close"
    return "trend" if met else "off"


def formula_value(record: object, formula: str) -> float | str:
    """What a formula makes of the paths of a record, such as ``built.switches / gpus``.

    Examples
    --------
    >>> formula_value(3 + 4j, "2 * real + imag")
    10.0
    """
    expression = parse_expression(formula)
    value: float | str = expression({path: value_at(record, path) for path in expression.names})
    return value


def order_kept(published_values: ArrayLike, values: ArrayLike) -> bool:
    """Whether of any two published values the larger one is the larger here, three times in four.

    Examples
    --------
    >>> order_kept([1.0, 2.0, 4.0], [1.5, 1.9, 9.0]), order_kept([1.0, 2.0, 4.0], [3.0, 2.0, 1.0])
    (True, False)
    """
    theirs, ours = (
        np.sign(np.subtract.outer(some, some))
        for some in map(np.asarray, (published_values, values))
    )
    differ = theirs != 0
    return bool((theirs == ours)[differ].mean() >= IN_ORDER)


IN_ORDER = 0.75
"""Share of pairs that stand in the published order from which it is said to hold [1]."""


def published(name: str) -> list[dict[str, str]]:
    """Rows of a published table."""
    path = shipped_root() / "reports" / "published" / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def published_tables() -> tuple[str, ...]:
    """Names of the published tables.

    Examples
    --------
    >>> "rail-only-table2" in published_tables()
    True
    """
    paths = (shipped_root() / "reports" / "published").glob("*.csv")
    return tuple(sorted(path.stem for path in paths))


Suite = Callable[[], Iterator[Check]]


def suite(table: str = "statements") -> Callable[[Callable[[], Iterator[Measured | Check]]], Suite]:
    """Make a function that gives checks, and values that a table states, one that gives checks."""

    def decorate(measure: Callable[[], Iterator[Measured | Check]]) -> Suite:
        return wraps(measure)(lambda: checks_of(measure(), table))

    return decorate


def checks_of(values: Iterable[Measured | Check], table: str = "statements") -> Iterator[Check]:
    """Values against what the papers state of them in a table of ``reports/published``.

    A row gives what is printed, and the limits between which a range, a bound or an order holds.
    Checks among the values stay as they are.

    Examples
    --------
    >>> [(check.expected, check.grade) for check in checks_of([("taper, %", 57.02)])]
    [('57', 'exact')]
    """
    rows = {row["name"]: row for row in published(table)}
    for given in values:
        if isinstance(given, Check):
            yield given
            continue
        name, value = given
        row = rows[name]
        met = float(row["low"]) <= float(value) <= float(row["high"]) if row["low"] else None
        yield check(
            name,
            row["source"],
            row["expected"],
            _shown(value, row),
            row["reason"],
            same=_same(value, row),
            met=met,
            gap=_gap(value, row["expected"]),
        )


def _shown(value: float | str, row: Mapping[str, str]) -> str:
    """A value as its row is printed: by a format, in three digits, or in those that are printed."""
    if isinstance(value, str):
        return value
    style = row.get("format")
    if style == TRUNCATED:
        return f"{value:.3g}"
    digits, exponent, _ = row["expected"].partition(".")[2].partition("e")
    return format(value, style or (".3g" if row["low"] else f".{len(digits)}{exponent or 'f'}"))


TRUNCATED = "truncated"
"""Format of a row whose paper cuts digits off in place of rounding."""


def _same(value: float | str, row: Mapping[str, str]) -> bool:
    """Whether a value has the printed digits.

    Examples
    --------
    >>> _same(57.02, {"expected": "57"}), _same(40.07e9, {"expected": "40e9"})
    (True, True)
    >>> row = {"expected": "2.666"}
    >>> _same(2.6667, row), _same(2.6667, {**row, "format": TRUNCATED})
    (False, True)
    >>> _same(40.4, {"expected": "about 40"}), _same("none", {"expected": "none"})
    (False, True)
    """
    expected = row["expected"]
    if isinstance(value, str):
        return value == expected
    with suppress(ValueError, ArithmeticError):  # digits such as 1e400 and 0e-400
        if row.get("format") == TRUNCATED:
            unit = 10.0 ** -len(expected.partition(".")[2])
            return 0 <= value - float(expected) < unit
        digits, _, exponent = expected.partition("e")
        scaled = value / 10.0 ** int(exponent or 0)
        return float(f"{scaled:.{len(digits.partition('.')[2])}f}") == float(digits)
    return False


def _gap(value: float | str, expected: str) -> float | None:
    """Relative error of a value; None beside words and zero.

    Examples
    --------
    >>> _gap("1,056", "1,024"), _gap(275.0, "about 250"), _gap("False", "True")
    (0.03125, 0.10000000000000009, None)
    """
    with suppress(ValueError):
        numbers = (str(text).replace(",", "") for text in (value, expected.removeprefix("about ")))
        ours, theirs = map(float, numbers)
        return ours / theirs - 1 if theirs else None
    return None
