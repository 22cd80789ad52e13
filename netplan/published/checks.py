"""What a check is: one published number, netplan's own, and the verdict."""

import csv
from collections.abc import Iterable, Iterator, Mapping
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


def check(
    name: str, source: str, expected: str, got: str, reason: str = "", *, holds: bool | None = None
) -> Check:
    """Compare two numbers as printed, unless it is said whether they agree.

    Examples
    --------
    >>> check("switches", "Table 2", "256", "256").verdict
    'pass'
    """
    holds = expected == got if holds is None else holds
    return Check(name, source, expected, got, "pass" if holds else "fail", reason)


def known(name: str, source: str, expected: str, got: str, reason: str) -> Check:
    """List a published number that does not reproduce, with the reason."""
    return Check(name, source, expected, got, "known", reason)


def published(name: str) -> list[dict[str, str]]:
    """Rows of a published table."""
    path = shipped_root() / "reports" / "published" / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def stated(values: Iterable[Measured], table: str = "statements") -> Iterator[Check]:
    """Values against what the papers state of them in a table of ``reports/published``.

    A row gives a number as printed, a number and a relative tolerance, or the limits between which
    a range or an order of magnitude holds; one with ``known`` is known not to reproduce.

    Examples
    --------
    >>> [(check.expected, check.verdict) for check in stated([("taper, %", 57.02)])]
    [('57', 'pass')]
    """
    rows = {row["name"]: row for row in published(table)}
    for name, value in values:
        row = rows[name]
        got = value if isinstance(value, str) else format(value, _style(row))
        holds = got == row["expected"]
        if row["low"]:
            holds = float(row["low"]) <= float(value) <= float(row["high"])
        elif row.get("tolerance"):
            holds = isclose(float(value), float(row["expected"]), rel_tol=float(row["tolerance"]))
        verdict: Verdict = "pass" if holds else "known" if row["known"] else "fail"
        reason = "" if holds and row["known"] else row["reason"]
        yield Check(name, row["source"], row["expected"], got, verdict, reason)


def _style(row: Mapping[str, str]) -> str:
    """How a value is written: as its row says, or with the digits that are printed."""
    if row.get("format"):
        return row["format"]
    digits, exponent, _ = row["expected"].partition(".")[2].partition("e")
    return ".3g" if row["low"] else f".{len(digits)}{exponent or 'f'}"
