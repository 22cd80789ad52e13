"""The table of `netplan verify`, as a page: how near numbers come, and what differs."""

from docs.generators.tables import markdown, table
from netplan.published.checks import GRADES, Check, Grade
from netplan.published.verify import TITLES, PaperRow, Verification

INTRODUCTION = """# What reproduces today

{summary} The table is what `netplan verify` finds; a test holds it true. How it is made, and what
each word means, is told in [How netplan is verified](verification.md).

"""
APART: dict[Grade, str] = {
    "trend": "What is printed is an order, a direction or a bound, or a number that is further away"
    " than 5 %: it stands beside netplan's.",
    "off": "Published numbers that netplan does not give, for which a better model would be needed."
    " Nothing is tuned, corrected or left out.",
    "source": "Published numbers that another number of the same source, or its own formula,"
    " contradicts, or whose inputs are not printed: the reason recomputes them as far as they can"
    " be.",
}
"""What stands above the tables of what is neither exact nor close."""


def verified_page(found: Verification) -> str:
    """The page: counts of every source, and one table a grade of numbers that differ."""
    papers = [PaperRow.of(paper, tuple(checks)) for paper, checks in found.papers.items()]
    rows = [
        (markdown(paper.source), *(f"{paper.grades[grade]}" for grade in GRADES))
        for paper in papers
    ]
    parts = "".join(_part(found, grade) for grade in TITLES)
    return INTRODUCTION.format(summary=_summary(found)) + table(("source", *GRADES), rows) + parts


def _part(found: Verification, grade: Grade) -> str:
    """Numbers of a grade with both values and the gap; their reasons below, under a number."""
    chosen = [check for check in found.checks if check.grade == grade]
    reasons = {why: number for number, why in enumerate(dict.fromkeys(map(_why, chosen)), 1)}
    rows = [
        (
            *map(markdown, (one.name, one.source, one.expected, one.got, one.gap_shown)),
            f"{reasons[_why(one)]}",
        )
        for one in chosen
    ]
    listed = "\n".join(f"{number}. {markdown(why)}." for why, number in reasons.items())
    return (
        f"\n## {TITLES[grade]}\n\n{APART[grade]}\n\n"
        + table(("number", "source", "published", "netplan", "gap", "reason"), rows)
        + f"\n{listed}\n"
    )


def _why(one: Check) -> str:
    """Why a number differs, and what it would take."""
    return f"{one.reason}; it would take {one.takes}" if one.takes else one.reason


def counted(found: Verification) -> str:
    """How many numbers have each grade, as the README says it."""
    words: dict[Grade, str] = {
        "exact": "exact",
        "close": "close",
        "trend": "trends",
        "off": "off by our models",
        "source": "contradicted or left open by their own source",
    }
    return ", ".join(f"{found.grades[grade]:,} {text}" for grade, text in words.items())


def _summary(found: Verification) -> str:
    words: dict[Grade, str] = {
        "exact": "are exact to the printed digits",
        "close": "close (within their source's own error, or 5 %)",
        "trend": "trends",
        "off": "off by netplan's models",
        "source": "contradicted or left open by their own source",
    }
    told = [f"{found.grades[grade]:,} {text}" for grade, text in words.items()]
    failed = found.count("fail")
    return f"Of the published numbers {', '.join(told[:-1])} and {told[-1]}; {failed} fail."
