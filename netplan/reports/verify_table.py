"""A verification for people: one table a paper, then the reasons."""

from collections.abc import Sequence

from netplan.reports.checks import Check
from netplan.reports.plain_table import plain_table
from netplan.reports.verify import Verification


def verification_text(answer: Verification, width: int) -> str:
    """All checks as plain text of at most ``width`` columns."""
    papers: dict[str, list[Check]] = {}
    for check in answer.checks:
        papers.setdefault(_paper(check), []).append(check)
    parts = [f"{paper}\n\n{_table(checks, width)}" for paper, checks in papers.items()]
    reasons = [f"{check.name}: {check.reason}." for check in answer.checks if check.reason]
    if reasons:
        parts.append("\n".join(reasons) + "\n")
    return "\n".join([*parts, answer.summary + "\n"])


def _table(checks: Sequence[Check], width: int) -> str:
    rows = [
        {
            "check": check.name,
            "where": check.source.removeprefix(_paper(check)).lstrip(", "),
            "expected": check.expected,
            "got": check.got,
            "verdict": check.verdict,
        }
        for check in checks
    ]
    return plain_table(rows, width)


def _paper(check: Check) -> str:
    """The source without its table, equation or section."""
    return check.source.partition(", ")[0]
