"""What a check is: one published number, netplan's own, and the verdict."""

import csv
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from math import isclose
from typing import Literal

from msgspec import Struct

from netplan.catalog import shipped_root

Verdict = Literal["pass", "fail", "known"]
Measured = tuple[str, float | str]
"""Name of a published number, and netplan's own."""


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
        ``pass`` or ``fail``; ``known`` for a number that is known not to reproduce.
    reason
        Why a known number does not reproduce, or under which assumptions one does.
    """

    name: str
    source: str
    expected: str
    got: str
    verdict: Verdict
    reason: str = ""


def check(  # noqa: PLR0913 - what a check is
    name: str,
    source: str,
    expected: str,
    got: str,
    reason: str = "",
    *,
    holds: bool | None = None,
    why_not: str = "",
) -> Check:
    """Compare two numbers as printed, unless it is said whether they agree.

    Parameters
    ----------
    name, source, expected, got, reason
        As in :class:`Check`.
    holds
        Whether they agree; None to compare the texts.
    why_not
        Why a number that does not agree is known not to reproduce; empty if it should.

    Examples
    --------
    >>> check("switches", "Table 2", "256", "256").verdict
    'pass'
    >>> check("switches", "Table 2", "256", "248", why_not="a slip of the paper").verdict
    'known'
    """
    holds = expected == got if holds is None else holds
    if not holds and why_not:
        return known(name, source, expected, got, why_not)
    return Check(name, source, expected, got, "pass" if holds else "fail", reason)


def known(name: str, source: str, expected: str, got: str, reason: str) -> Check:
    """List a published number that does not reproduce, with the reason."""
    return Check(name, source, expected, got, "known", reason)


def published(name: str) -> list[dict[str, str]]:
    """Rows of a published table."""
    path = shipped_root() / "reports" / "published" / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


Suite = Callable[[], Iterator[Check]]


def suite(table: str = "statements") -> Callable[[Callable[[], Iterator[Measured | Check]]], Suite]:
    """Make a function that gives checks, and values that a table states, one that gives checks."""

    def decorate(measure: Callable[[], Iterator[Measured | Check]]) -> Suite:
        return wraps(measure)(lambda: checks_of(measure(), table))

    return decorate


def not_computed(table: str) -> Iterator[Check]:
    """Numbers of a table that netplan does not compute, with the reason."""
    for row in published(table):
        if row["format"] == "-":
            yield known(row["name"], row["source"], row["expected"], "-", row["reason"])


def checks_of(values: Iterable[Measured | Check], table: str = "statements") -> Iterator[Check]:
    """Values against what the papers state of them in a table of ``reports/published``.

    A row gives a number as printed, a number and a relative tolerance, or the limits between which
    a range or an order of magnitude holds; one with ``known`` is known not to reproduce.
    Checks among the values stay as they are.

    Examples
    --------
    >>> [(check.expected, check.verdict) for check in checks_of([("taper, %", 57.02)])]
    [('57', 'pass')]
    """
    rows = {row["name"]: row for row in published(table)}
    for given in values:
        if isinstance(given, Check):
            yield given
            continue
        name, value = given
        row = rows[name]
        style = row.get("format")
        if not style:  # the digits that are printed
            digits, exponent, _ = row["expected"].partition(".")[2].partition("e")
            style = ".3g" if row["low"] else f".{len(digits)}{exponent or 'f'}"
        got = value if isinstance(value, str) else format(value, style)
        holds = got == row["expected"]
        if row["low"]:
            holds = float(row["low"]) <= float(value) <= float(row["high"])
        elif row.get("tolerance"):
            holds = isclose(float(value), float(row["expected"]), rel_tol=float(row["tolerance"]))
        verdict: Verdict = "pass" if holds else "known" if row["known"] else "fail"
        reason = "" if holds and row["known"] else row["reason"]
        yield Check(name, row["source"], row["expected"], got, verdict, reason)
