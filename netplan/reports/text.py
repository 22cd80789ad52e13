"""Answers as text: JSON, CSV and Markdown, the same bytes for the same answer."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

FORMATS = ("table", "json", "csv", "markdown")
Cell = str | int | float | bool | None

# A spreadsheet takes a cell that starts like this for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def to_json(data: Mapping[str, Any]) -> str:
    """JSON with two spaces of indentation and a final newline.

    Examples
    --------
    >>> print(to_json({"gpus": 8}), end="")
    {
      "gpus": 8
    }
    """
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_csv(rows: Sequence[Mapping[str, Cell]]) -> str:
    """CSV with a header; text that a spreadsheet would take for a formula is quoted with ``'``.

    Examples
    --------
    >>> print(to_csv([{"name": "=1+1", "gain": -0.5}]), end="")
    name,gain
    '=1+1,-0.5
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([[_inert(value) for value in row.values()] for row in rows])
    return text.getvalue()


def to_markdown(rows: Sequence[Mapping[str, Cell]]) -> str:
    r"""Pipe table; numbers right-aligned, pipes and line breaks in text escaped.

    Examples
    --------
    >>> print(to_markdown([{"fabric": "a|b", "switches": 1280}]), end="")
    | fabric | switches |
    |---|--:|
    | a\|b | 1,280 |
    """
    header = "| " + " | ".join(rows[0]) + " |"
    numeric = [
        all(isinstance(row[key], (int, float, type(None))) for row in rows) for key in rows[0]
    ]
    rule = "|" + "|".join("--:" if right else "---" for right in numeric) + "|"
    lines = [
        "| " + " | ".join(_markdown_cell(value) for value in row.values()) + " |" for row in rows
    ]
    return "\n".join([header, rule, *lines]) + "\n"


def number(value: float | None, digits: int = 0) -> str:
    """Write a number with thousands separators; a dash for none.

    Examples
    --------
    >>> number(1280), number(49.0209, 1), number(None)
    ('1,280', '49.0', '-')
    """
    return "-" if value is None else f"{value:,.{digits}f}"


def percent(share: float | None) -> str:
    """Write a share in whole percent; a dash for none.

    Examples
    --------
    >>> percent(0.754), percent(None)
    ('75 %', '-')
    """
    return "-" if share is None else f"{round(100 * share)} %"


def _inert(value: Cell) -> Cell:
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return "'" + value
    return value


def _markdown_cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"  # noqa: PLR2004
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\")
    return " ".join(escaped.replace("|", "\\|").split())


NOTEBOOK_WIDTH = 120


def as_text(layout: RenderableType, width: int) -> str:
    r"""Plain text of at most ``width`` columns.

    Examples
    --------
    >>> as_text(Text("netplan", style="bold"), 20)
    'netplan\n'
    """
    return _render(layout, Console(file=io.StringIO(), width=width, color_system=None))


def as_terminal(layout: RenderableType, width: int) -> str:
    """Text with the terminal's colours."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard")
    return _render(layout, console)


def as_html(layout: RenderableType) -> str:
    """HTML fragment for notebooks; text is escaped."""
    console = Console(file=io.StringIO(), width=NOTEBOOK_WIDTH, record=True)
    console.print(layout)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def printable(text: str, style: str = "") -> Text:
    r"""Text without control characters: a name from a file must not steer the terminal.

    Examples
    --------
    >>> printable("rail\x1b[2Jonly").plain
    'rail�[2Jonly'
    """
    shown = "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text)
    return Text(shown, style=style)


def _render(layout: RenderableType, console: Console) -> str:
    console.print(layout)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


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
