"""What a terminal shows of an answer until ``--details`` is asked for: 25 lines of 80 columns.

The verdict comes first, then one table of what decides, then what is most worth knowing, then what
more there is. Where names are long or rows are many, what matters least gives way first: columns
that do not fit beside the others, remarks, rows behind the first ones, lines of the heading,
sentences behind the verdict's first one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from netplan.reports.escape import short
from netplan.reports.sections import Column, Heading, Notes, Paragraph, Section, Shown, Table
from netplan.reports.terminal import folded, part_count, terminal_text

RowT = TypeVar("RowT")
WIDTH, MOST_LINES = 80, 25
"""Columns and lines of a screen [1]."""

LEAST_ROWS, LEAST_COLUMNS = 3, 3
"""Rows and columns that a table keeps while other things can give way [1]."""

LEAST_LINES = 3
"""Lines that a title or a verdict keeps, however long its names are [1]."""

ALL_TABLES = "all tables and notes"


def more_of(details: str = ALL_TABLES, *others: str, page: bool = True) -> str:
    """The last line of a screen: what more there is.

    Parameters
    ----------
    details
        What ``--details`` shows beside the screen; nothing is said of it if empty.
    *others
        Further options or commands that are worth a try.
    page
        Whether the page of the answer is named, too.

    Returns
    -------
    str
        The line.

    Examples
    --------
    >>> more_of("the bills"), more_of("every row", "--top 9", page=False)
    ('More: --details (the bills), -o page.html', 'More: --details (every row), --top 9')
    """
    first = f"--details ({details})" if details else "--details"
    named = (first, *others, *(["-o page.html"] if page else []))
    return f"More: {', '.join(named)}"


def columns_of(table: Table[RowT], *names: str) -> list[Column[RowT]]:
    """Columns of a table by the names of their quantities, in the order of the names.

    Parameters
    ----------
    table
        The table.
    *names
        Names; what the table does not have is left out.

    Returns
    -------
    list of Column
        The columns, all of which are shown.
    """
    by_use = sorted(table.columns, key=lambda column: USE.index(column.shown))
    known = {column.quantity.name: column for column in by_use}
    return [replace(known[name], shown="always") for name in names if name in known]


USE: tuple[Shown, ...] = ("never", "wide", "always")
"""Of columns of one quantity the one counts that people see soonest."""


def texts_of(columns: Sequence[Column[RowT]], row: RowT) -> dict[str, str]:
    """What people see of a row, by the names of its quantities.

    Parameters
    ----------
    columns
        Columns of its table.
    row
        The row.

    Returns
    -------
    dict of str to str
        Texts with their units.
    """
    by_use = sorted(columns, key=lambda column: USE.index(column.shown))
    return {column.quantity.name: column.text(row) for column in by_use}


def shares_of(parts: Sequence[tuple[str, float]], whole: float, most: int = 4) -> str:
    """The largest parts of a whole with their shares, in words.

    Parameters
    ----------
    parts
        Name and amount of each.
    whole
        What they are parts of.
    most
        How many are named at the most [1].

    Returns
    -------
    str
        Such as ``computing 53 %, pipeline bubble 31 %``; parts of less than half a per cent are
        left out.

    Examples
    --------
    >>> shares_of([("bubble", 3.1), ("computing", 5.3), ("update", 0.01)], 10)
    'computing 53 %, bubble 31 %'
    """
    ranked = sorted(parts, key=lambda part: -part[1])[:most]
    shares = [(name, 100 * amount / whole) for name, amount in ranked if whole]
    return ", ".join(f"{name} {share:.0f} %" for name, share in shares if share >= 1 / 2)


class Screen(Struct, frozen=True):
    """What is worth a screen.

    Parameters
    ----------
    heading
        What the answer is about.
    verdict
        Its verdict or what sums it up; the first sentence stands whatever gives way.
    table
        The rows and columns that decide, the most important first; columns that do not fit beside
        those left of them are left out.
    remarks
        What else is most worth knowing, a paragraph each, the most important first.
    more
        What more there is.
    lines
        Whether each sentence of the verdict has a line of its own.
    most_rows, most_columns
        Rows and columns of the table that are shown at the most [1].
    """

    heading: Heading
    verdict: tuple[str, ...]
    table: Table[Any] | None = None
    remarks: tuple[str, ...] = ()
    more: str = more_of()
    lines: bool = False
    most_rows: int = MOST_LINES
    most_columns: int = WIDTH

    def sections(self) -> Iterator[Section]:
        """Its sections, as many as fit.

        Yields
        ------
        Section
            Heading, verdict, table, remarks, and what more there is.
        """
        screen = _in_one_part(self)
        for give_way in GIVE_WAY:
            while screen.line_count > MOST_LINES:
                smaller = give_way(screen)
                if smaller is None:
                    break
                screen = smaller
        yield from screen.every_section()

    def every_section(self) -> Iterator[Section]:
        """Its sections, whether they fit or not; the same as of :meth:`sections`."""
        yield self.heading
        yield Paragraph(("\n" if self.lines else " ").join(self.verdict), "strong")
        if self.table is not None and self.table.rows:
            yield self._shown(self.table)
        if self.remarks:
            yield Notes(tuple(("", remark) for remark in self.remarks))
        if self.more:
            yield Paragraph(self.more, "quiet")

    def _shown(self, table: Table[Any]) -> Table[Any]:
        """The first rows and columns of the table, and how many more rows there are."""
        left = len(table.rows) - self.most_rows
        legend = (f"and {left:,} more: --details", *table.legend) if left > 0 else table.legend
        columns = table.columns[: self.most_columns]
        return replace(table, rows=table.rows[: self.most_rows], columns=columns, legend=legend)

    @property
    def line_count(self) -> int:
        """Lines that all of it takes [1]."""
        return terminal_text(self.every_section(), WIDTH).count("\n")


def _in_one_part(screen: Screen) -> Screen:
    """The screen with as many columns of its table as fit beside each other, from the left."""
    table = screen.table
    if table is None or not table.rows:
        return screen
    shown = [column for column in table.columns if column.shown == "always"]
    few = replace(table, rows=table.rows[:MOST_LINES])
    while len(shown) > LEAST_COLUMNS and part_count(replace(few, columns=shown), WIDTH) > 1:
        shown.pop()
    return replace(screen, table=replace(table, columns=shown))


def _fewer_remarks(screen: Screen) -> Screen | None:
    return replace(screen, remarks=screen.remarks[:-1]) if screen.remarks else None


def _fewer_rows(screen: Screen, least: int = LEAST_ROWS) -> Screen | None:
    rows = min(screen.most_rows, len(screen.table.rows)) if screen.table else 0
    return replace(screen, most_rows=rows - 1) if rows > least else None


def _fewer_heading_lines(screen: Screen) -> Screen | None:
    heading = screen.heading
    if not heading.lines:
        return None
    return replace(screen, heading=replace(heading, lines=heading.lines[:-1]))


def _fewer_sentences(screen: Screen) -> Screen | None:
    return replace(screen, verdict=screen.verdict[:-1]) if len(screen.verdict) > 1 else None


def _fewer_columns(screen: Screen) -> Screen | None:
    columns = min(screen.most_columns, len(screen.table.columns)) if screen.table else 0
    return replace(screen, most_columns=columns - 1) if columns > LEAST_COLUMNS else None


def _no_table(screen: Screen) -> Screen | None:
    return None if screen.table is None else replace(screen, table=None)


def _shorter_texts(screen: Screen) -> Screen | None:
    """With a title and a verdict that are cut."""
    title, verdict = screen.heading.title, screen.verdict[0]
    if max(len(folded(text, WIDTH)) for text in (title, verdict)) <= LEAST_LINES:
        return None
    most = (LEAST_LINES - 1) * WIDTH
    heading = replace(screen.heading, title=short(title, most))
    return replace(screen, heading=heading, verdict=(short(verdict, most),))


GIVE_WAY: tuple[Callable[[Screen], Screen | None], ...] = (
    _fewer_remarks,
    _fewer_rows,
    _fewer_heading_lines,
    _fewer_sentences,
    partial(_fewer_rows, least=1),
    _fewer_columns,
    _shorter_texts,
    _no_table,
)
"""What gives way, in this order."""
