"""The table of `netplan verify`, as a page: what reproduces, and every number that does not."""

from collections import Counter

from docs.generators.tables import markdown, table
from netplan.published.checks import Check
from netplan.published.verify import Verification

INTRODUCTION = """# What reproduces today

{summary} The table is what `netplan verify` finds; a test holds it true. How it is made, and what
each word means, is told in [How netplan is verified](verification.md).

"""
KNOWN = """
## Known not to reproduce

Published numbers that netplan does not give, with both values. They are not corrected, tuned or
left out; reasons stand below, under the number of the row.

"""


def verified_page(found: Verification) -> str:
    """The page: counts of every source, numbers that are known to differ, reasons."""
    verdicts = Counter((_paper(check), check.verdict) for check in found.checks)
    papers = dict.fromkeys(_paper(check) for check in found.checks)
    rows = [
        (markdown(paper), f"{verdicts[paper, 'pass']}", f"{verdicts[paper, 'known']}")
        for paper in papers
    ]
    known = [check for check in found.checks if check.verdict == "known"]
    reasons = {why: number for number, why in enumerate(dict.fromkeys(c.reason for c in known), 1)}
    apart = [
        (*map(markdown, (one.name, one.source, one.expected, one.got)), f"{reasons[one.reason]}")
        for one in known
    ]
    listed = "\n".join(f"{number}. {markdown(why)}." for why, number in reasons.items())
    return (
        INTRODUCTION.format(summary=_summary(found))
        + table(("source", "pass", "known to differ"), rows)
        + KNOWN
        + table(("number", "source", "published", "netplan", "reason"), apart)
        + f"\n### Reasons\n\n{listed}\n"
    )


def _summary(found: Verification) -> str:
    count = {verdict: f"{found.count(verdict):,}" for verdict in ("pass", "fail", "known")}
    return (
        f"{count['pass']} published numbers pass, {count['fail']} fail, {count['known']} are known"
        " not to reproduce."
    )


def _paper(one: Check) -> str:
    """The source without its table, equation or section."""
    return one.source.partition(", ")[0]
