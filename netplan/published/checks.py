"""What a check is: one published number, netplan's own, and the verdict."""

import csv
from dataclasses import dataclass
from typing import Literal

from netplan.catalog import shipped_root

Verdict = Literal["pass", "fail", "known"]


@dataclass(frozen=True, slots=True)
class Check:
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


def check(name: str, source: str, expected: str, got: str, reason: str = "") -> Check:
    """Compare two numbers as printed.

    Examples
    --------
    >>> check("switches", "Table 2", "256", "256").verdict
    'pass'
    """
    return Check(name, source, expected, got, "pass" if expected == got else "fail", reason)


def check_close(
    name: str, source: str, expected: float, got: float, *, tolerance: float, reason: str = ""
) -> Check:
    """Compare two numbers within a relative tolerance.

    Examples
    --------
    >>> check_close("time", "Eq. 21", 5.2089e-3, 5.2090e-3, tolerance=1e-4).verdict
    'pass'
    """
    close = abs(got - expected) <= tolerance * abs(expected)
    digits = 6
    return Check(
        name,
        source,
        f"{expected:.{digits}g}",
        f"{got:.{digits}g}",
        "pass" if close else "fail",
        reason,
    )


def check_within(
    name: str, source: str, limits: tuple[float, float], got: float, expected: str
) -> Check:
    """Check a number that the source states as a range or an order of magnitude.

    Examples
    --------
    >>> check_within("days", "Fig. 5", (3, 5), 4.46, "3 to 5").verdict
    'pass'
    """
    inside = limits[0] <= got <= limits[1]
    return Check(name, source, expected, f"{got:.3g}", "pass" if inside else "fail")


def known(name: str, source: str, expected: str, got: str, reason: str) -> Check:
    """List a published number that does not reproduce, with the reason."""
    return Check(name, source, expected, got, "known", reason)


def published(name: str) -> list[dict[str, str]]:
    """Rows of a published table."""
    path = shipped_root() / "reports" / "published" / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
