"""Rows as a plain table for terminals."""

import io
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from netplan.reports.formats import Cell, number


def plain_table(
    rows: Sequence[Mapping[str, Cell]], width: int, *, right: Sequence[str] = ()
) -> str:
    """Table of at most ``width`` columns; long text wrapped.

    Columns of numbers, and those named in ``right``, are aligned to the right.

    Examples
    --------
    >>> print(plain_table([{"fabric": "rail-only", "switches": 1280}], 40), end="")
    fabric      switches
    ────────────────────
    rail-only      1,280
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for key in rows[0] if rows else ():
        numeric = key in right or all(isinstance(row[key], (int, float)) for row in rows)
        table.add_column(key, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    console.print(table, markup=False)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _cell(value: Cell) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        # A lone bracket in a user's text is text, not markup.
        return str("" if value is None else value).replace("[", r"\[")
    return number(value) if isinstance(value, int) else f"{value:,.6g}"
