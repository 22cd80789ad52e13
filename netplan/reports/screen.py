"""What a terminal shows of an answer until ``--details`` is asked for: 25 lines of 80 columns.

The verdict comes first, then one table of what decides, then what is most worth knowing, then what
more there is. Where names are long or rows are many, what matters least gives way first: columns
that do not fit beside the others, remarks, rows behind the first ones, lines of the heading,
sentences behind the verdict's first one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from netplan.reports import sections as show
from netplan.reports.escape import short
from netplan.reports.terminal import folded_text, part_count, terminal_text
from netplan.units import counted

RowT = TypeVar("RowT")
WIDTH, MOST_LINES = 80, 25
"""Columns and lines of a screen [1]."""
TAKEN = ContextVar("lines that something else takes of a screen", default=0)

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


def columns_of(table: show.Table[RowT], *names: str) -> list[show.Column[RowT]]:
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
    known = {column.quantity.name: column for column in _by_use(table.columns)}
    return [replace(known[name], shown="all") for name in names if name in known]


def _by_use(columns: Iterable[show.Column[RowT]]) -> list[show.Column[RowT]]:
    """Columns as people see them sooner and sooner: of one quantity the last counts."""
    return sorted(columns, key=lambda column: len(set(show.FORMS[column.shown]) - {"data"}))


def texts_of(columns: Sequence[show.Column[RowT]], row: RowT) -> dict[str, str]:
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
    return {column.quantity.name: column.text(row) for column in _by_use(columns)}


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


STARRED = re.compile(r"^\* [^.]*\. ?")
"""What a legend begins with where rows have a star."""


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
        What else is most worth knowing, the most important first: texts, a paragraph each, or
        sections.
    more
        What more there is; it stands right below remarks of verbatim lines.
    lines
        Whether each sentence of the verdict has a line of its own.
    closes
        Whether the verdict stands at the end, as the sum of what is above it.
    gives_way
        Names of quantities whose columns are left out first where not all fit.
    least_gap
        Columns of the terminal between two columns of the table, where they do not fit else [1].
    most_rows, most_columns
        Rows and columns of the table that are shown at the most [1].
    firm_remarks
        First remarks that stay while rows or lines of the heading can give way [1].
    """

    heading: show.Heading
    verdict: tuple[str, ...]
    table: show.Table[Any] | None = None
    remarks: tuple[str | show.Section, ...] = ()
    more: str = more_of()
    lines: bool = False
    closes: bool = False
    gives_way: tuple[str, ...] = ()
    least_gap: int = show.GAP
    most_rows: int = MOST_LINES
    most_columns: int = WIDTH
    firm_remarks: int = 0

    def sections(self) -> Iterator[show.Section]:
        """Its sections, as many as fit.

        Yields
        ------
        Section
            Heading, verdict, table, remarks, and what more there is.
        """
        screen = _in_one_part(self)
        for smaller in _smaller(screen):
            if screen.line_count <= MOST_LINES - TAKEN.get():
                break
            screen = smaller
        yield from screen.every_section()

    def every_section(self) -> Iterator[show.Section]:
        """Its sections, whether they fit or not; the same as of :meth:`sections`."""
        yield self.heading
        verdict = show.Paragraph(("\n" if self.lines else " ").join(self.verdict), "strong")
        if not self.closes:
            yield verdict
        if self.table is not None and self.table.rows:
            yield self._shown(self.table)
        if texts := tuple(("", remark) for remark in self.remarks if isinstance(remark, str)):
            yield show.Notes(texts)
        verbatim: tuple[str, ...] = ()
        for remark in self.remarks:
            if isinstance(remark, show.Verbatim):
                verbatim += remark.lines
            elif not isinstance(remark, str):
                yield remark
        if self.closes:
            yield verdict
        if verbatim:
            yield show.Verbatim((*verbatim, *(folded_text(self.more, WIDTH) if self.more else ())))
        elif self.more:
            yield show.Paragraph(self.more, "quiet")

    def _shown(self, table: show.Table[Any]) -> show.Table[Any]:
        """The first rows and columns of the table, and how many more rows there are."""
        left = len(table.rows) - self.most_rows
        legend = (f"and {left:,} more: --details", *table.legend) if left > 0 else table.legend
        columns = table.columns[: self.most_columns]
        rows = table.rows[: self.most_rows]
        starred = any("*" in column.text(row) for row in rows for column in columns)
        legend = tuple(text if starred else STARRED.sub("", text) for text in legend)
        return replace(table, rows=rows, columns=columns, legend=tuple(filter(None, legend)))

    @property
    def fits(self) -> bool:
        """Whether all of it fits, as many columns of the table as stand beside each other."""
        return _in_one_part(self).line_count <= MOST_LINES - TAKEN.get()

    @property
    def line_count(self) -> int:
        """Lines that all of it takes [1]."""
        return terminal_text(self.every_section(), WIDTH).count("\n")


def _in_one_part(screen: Screen) -> Screen:
    """The screen with as many columns of its table as fit beside each other, from the left."""
    table = screen.table
    if table is None or not table.rows:
        return screen
    screen = replace(screen, most_rows=min(screen.most_rows, MOST_LINES))  # more never fit
    shown = show.shown_in("narrow", table.columns)
    few = replace(table, rows=table.rows[:MOST_LINES])
    going = [name for name in screen.gives_way for column in shown if column.quantity.name == name]
    while True:
        for gap in range(table.gap, screen.least_gap - 1, -1):
            fits = part_count(replace(few, columns=shown, gap=gap), WIDTH) == 1
            if fits or len(shown) <= LEAST_COLUMNS:
                legend = (*_left_out(table, shown), *table.legend)
                return replace(screen, table=replace(table, columns=shown, gap=gap, legend=legend))
        name = going.pop(0) if going else shown[-1].quantity.name
        # Columns of a chart share a quantity: the last gives way alone.
        fewer = [column for column in shown if column.quantity.name != name]
        shown = shown[:-1] if name == shown[-1].quantity.name else fewer
        if all(column.quantity.name != name for column in shown):
            remark = re.compile(rf"(?<!\S){re.escape(name)}: [^.]*\.(?: |$)")
            legend = tuple(remark.sub("", text).rstrip() for text in table.legend)
            table = replace(table, legend=tuple(filter(None, legend)))


def _left_out(table: show.Table[Any], shown: Sequence[show.Column[Any]]) -> Iterator[str]:
    """How many columns are left out of those that show one quantity at several places."""
    names = {column.quantity.name for column in shown}
    every = show.shown_in("narrow", table.columns)
    left = sum(column.quantity.name in names for column in every) - len(shown)
    if left:
        yield f"and {counted(left, 'more column')}: --details"


def fitting_screen(make: Callable[[int], Screen], most: int, least: int = 1) -> Screen:
    """The screen of the largest number, such as that of its rows, with which all of it fits.

    Parameters
    ----------
    make
        The screen of a number.
    most, least
        The largest number to try, and the one that is taken where none fits [1].

    Returns
    -------
    Screen
        The screen.
    """
    for number in range(most, least, -1):
        if (screen := make(number)).fits:
            return screen
    return make(least)


def _smaller(screen: Screen) -> Iterator[Screen]:
    """The screen with less and less, what matters least first.

    Remarks, rows of the table, lines of the heading, sentences of the verdict, the last rows and
    columns, ends of long texts, the table.
    """
    table = screen.table
    rows = min(screen.most_rows, len(table.rows)) if table else 0
    columns = min(screen.most_columns, len(table.columns)) if table else 0

    def without(**less: Any) -> Screen:  # noqa: ANN401 - of any field
        nonlocal screen
        screen = replace(screen, **less)
        return screen

    while len(screen.remarks) > screen.firm_remarks:
        yield without(remarks=screen.remarks[:-1])
    while rows > LEAST_ROWS:
        rows -= 1
        yield without(most_rows=rows)
    while lines := screen.heading.lines:
        yield without(heading=replace(screen.heading, lines=lines[:-1]))
    while screen.remarks:
        yield without(remarks=screen.remarks[:-1])
    while len(screen.verdict) > 1:
        yield without(verdict=screen.verdict[:-1])
    while rows > 1:
        rows -= 1
        yield without(most_rows=rows)
    while columns > LEAST_COLUMNS:
        columns -= 1
        yield without(most_columns=columns)
    title, verdict = screen.heading.title, screen.verdict[0]
    if max(len(folded_text(text, WIDTH)) for text in (title, verdict)) > LEAST_LINES:
        most = (LEAST_LINES - 1) * WIDTH
        heading = replace(screen.heading, title=short(title, most))
        yield without(heading=heading, verdict=(short(verdict, most),))
    yield without(table=None)
