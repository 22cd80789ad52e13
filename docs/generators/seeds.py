"""The page of the five papers: every table and figure, its command, and how near netplan comes.

``reports/published/seeds`` has one file a paper and one line an item. Verdicts are counted from the
grades that ``reports/published/checks.csv`` records, and tests hold these true: nobody types them.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs.generators.tables import code, markdown, table
from netplan.published.checks import GRADES, Grade, Recorded, is_chosen, record

PAGE = "background/seeds.md"
FOLDER = Path(__file__).parents[2] / "reports" / "published" / "seeds"
INTRODUCTION = """# Seed by seed

Five papers are what netplan grew from. Each of their tables, figures and equations stands here with
the command that computes it and the verdict of `netplan verify`: how many of its numbers are exact,
close, trends, off, or contradicted or left open by their own source
([what these words mean](verification.md)). Studies of a figure put the points of its paper, where
they are printed, on their charts and into a table with the gap: `--format html` draws them.
"""


class Paper(NamedTuple):
    """A paper: its short name, title, and how sources of its checks begin."""

    name: str
    title: str
    source: str


PAPERS = (
    Paper("rail-only", "Rail-only (Wang et al., arXiv:2307.12169)", "arXiv:2307.12169"),
    Paper("4d", "4D parallelism (Subramanian et al., arXiv:2410.00273)", "arXiv:2410.00273"),
    Paper("dfmodel", "DFModel (Ko et al., arXiv:2412.16432)", "DFModel"),
    Paper("palm", "PALM (Fang et al., arXiv:2406.03868)", "PALM"),
    Paper("comet", "COMET (Kadiyala et al., arXiv:2211.16648)", "COMET"),
)


class Item(NamedTuple):
    """A table, figure or equation of a paper.

    Parameters
    ----------
    number
        Its place among the items of all papers.
    item
        What it is, and what it says.
    command
        What computes it; empty where netplan has nothing of it.
    checks
        Texts that choose its rows of ``netplan verify``; empty where it has none.
    why
        A sentence: why there is no command, or what to know of the answer.
    """

    number: str
    item: str
    command: str
    checks: str
    why: str

    def rows(self, paper: Paper) -> list[Recorded]:
        """Its rows of ``netplan verify``.

        Examples
        --------
        >>> item = Item("48", "Fig. 2", "", "Fig. 2 & memory at | Fig. 3", "")
        >>> [row.grade for row in item.rows(PAPERS[1])]
        ['source', 'exact', 'exact']
        """
        if not self.checks:
            return []
        rows = (row for row in record().values() if row.source.startswith(paper.source))
        return [row for row in rows if is_chosen(row, self.checks)]

    def verdict(self, paper: Paper) -> str:
        """How many of its rows have each grade.

        Examples
        --------
        >>> Item("45", "Fig. 1", "", "Fig. 1 | Fig. 3", "").verdict(PAPERS[1])
        '3 exact, 1 source'
        """
        counts: Counter[Grade] = Counter(row.grade for row in self.rows(paper))
        return ", ".join(f"{counts[grade]} {grade}" for grade in GRADES if counts[grade])


def items(paper: Paper) -> list[Item]:
    """The items of a paper, in the order of its file.

    Raises
    ------
    ValueError
        If a line has more or fewer cells than the first, such as by a comma without quotes.
    """
    path = FOLDER / f"{paper.name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        heads, *rows = csv.reader(file)
    if heads != [*Item._fields]:
        raise ValueError(f"{path.name}: columns are {', '.join(Item._fields)}, got {heads}")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(heads):
            raise ValueError(f"{path.name}:{line}: {len(row)} cells: quote those with commas")
    return [Item(*row) for row in rows]


def seeds_page() -> str:
    """The page: one table a paper."""
    return INTRODUCTION + "".join(_part(paper) for paper in PAPERS)


def _part(paper: Paper) -> str:
    """A paper with its items."""
    heads = ("table or figure", "command", "verdict", "remark")
    return f"\n## {markdown(paper.title)}\n\n{table(heads, _lines(paper))}"


def _lines(paper: Paper) -> Iterator[tuple[str, str, str, str]]:
    for item in items(paper):
        verdict = item.verdict(paper)
        yield markdown(item.item), code(item.command), verdict, markdown(item.why)
