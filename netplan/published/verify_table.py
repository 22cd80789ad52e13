"""A verification for people: one table a paper, then the reasons."""

from collections.abc import Sequence
from textwrap import fill

from netplan.published.checks import Check
from netplan.published.verify import Verification
from netplan.reports.text import plain_table


def verification_text(answer: Verification, width: int) -> str:
    """All checks as plain text of at most ``width`` columns."""
    papers: dict[str, list[Check]] = {}
    for check in answer.checks:
        papers.setdefault(_paper(check), []).append(check)
    parts = [f"{paper}\n\n{_table(checks, width)}" for paper, checks in papers.items()]
    reasons: dict[str, list[str]] = {}
    for check in answer.checks:
        if check.reason:
            reasons.setdefault(check.reason, []).append(f"{_where(check)}, {check.name}")
    lines = [f"{_several(names)}: {reason}." for reason, names in reasons.items()]
    if lines:
        parts.append("\n".join(fill(line, width) for line in lines) + "\n")
    return "\n".join([*parts, answer.summary + "\n"])


def _table(checks: Sequence[Check], width: int) -> str:
    rows = [
        {
            "check": check.name,
            "where": _where(check),
            "expected": check.expected,
            "got": check.got,
            "verdict": check.verdict,
        }
        for check in checks
    ]
    return plain_table(rows, width)


def _several(names: Sequence[str]) -> str:
    """The first name, and how many more share its reason."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _where(check: Check) -> str:
    """Table, equation or section inside the paper."""
    return check.source.removeprefix(_paper(check)).lstrip(", ")


def _paper(check: Check) -> str:
    """The source without its table, equation or section."""
    return check.source.partition(", ")[0]
