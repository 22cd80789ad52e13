"""An answer for terminals: tables and texts of at most a given width, plain or coloured.

A table that is too wide wraps its prose columns; one without any continues below, its first column
repeated, so that nothing is cut off. Text of users never steers the terminal.
"""

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from netplan.reports.charts import Chart
from netplan.reports.escape import plain
from netplan.reports.quantities import Quantity
from netplan.reports.sections import (
    Bars,
    Column,
    Heading,
    Heat,
    Inset,
    Notes,
    Paragraph,
    Section,
    Style,
    Table,
    Verbatim,
    is_for,
)

WIDE = 120
"""Columns of a terminal from which tables show more."""

BAR_WIDTH = 40
EIGHTHS = " ▏▎▍▌▋▊▉"
SHADES = " ░▒▓█"
SHADE_FACTOR = 100.0
STYLES: dict[Style, str] = {"plain": "", "strong": "bold", "quiet": "dim"}
MAX_PROSE = 60
"""Columns that a column of prose takes before it wraps."""


def terminal_text(sections: Iterable[Section], width: int, *, colour: bool = False) -> str:
    """All sections as text of at most ``width`` columns, an empty line between two.

    Examples
    --------
    >>> from netplan.reports.sections import column
    >>> table = Table("rows", [column("fabric", str), column("switches", len)], ["rail-only"])
    >>> print(terminal_text([Heading("Networks"), table], 40), end="")
    Networks
    <BLANKLINE>
    Fabric      switches
    ────────────────────
    rail-only          9
    """
    shown = (one for one in sections if is_for(getattr(one, "only", None), "texts"))
    blocks = [block for section in shown if (block := _block(section, width)) is not None]
    spaced: list[RenderableType] = []
    for block in blocks:
        spaced += [Text(""), block] if spaced else [block]
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
    )
    console.print(Group(*spaced))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """A bar of this share of the width, in eighths of a column.

    Examples
    --------
    >>> bar(0.5, 8), bar(0.3, 8)
    ('████', '██▍')
    """
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def shade(cell: float, largest: float) -> str:
    """Darkest for the largest cell, one shade lighter for every factor of 100 below it.

    Examples
    --------
    >>> shade(1.0, 1.0), shade(0.009, 1.0), shade(0.0, 1.0)
    ('█', '▓', ' ')
    """
    for step, found in enumerate(reversed(SHADES[1:])):
        if cell > 0 and cell * SHADE_FACTOR ** (step + 1) > largest:
            return found
    return SHADES[1] if cell > 0 else SHADES[0]


def _block(section: Section, width: int) -> RenderableType | None:
    """One section as rich draws it; None if it has nothing for a terminal."""
    if isinstance(section, Table):
        return _table_block(section, width)
    if isinstance(section, Notes):
        return Group(*(_note(*group) for group in section.groups)) if section.groups else None
    if isinstance(section, Heading):
        return Group(_text(section.title, "bold"), *(_text(line) for line in section.lines))
    if isinstance(section, Paragraph):
        return _text(section.text, STYLES[section.style])
    return _drawing(section)


def _drawing(section: Bars | Heat | Verbatim | Chart | Inset) -> RenderableType | None:
    """What is drawn in letters; charts are for pages."""
    if isinstance(section, Bars):
        return _bars(section)
    if isinstance(section, Heat):
        return _heat(section)
    if isinstance(section, Verbatim):
        return Group(*(Text(plain(line), no_wrap=True) for line in section.lines))
    return None


def _text(text: str, style: str = "") -> Text:
    return Text(plain(text), style=style)


def _note(subject: str, text: str) -> Text:
    start = _text(f"{subject}: ", "bold") if subject else Text("")
    return Text("").append_text(start).append_text(_text(text))


def _table_block(table: Table[object], width: int) -> RenderableType | None:
    """The title, the table in as many parts as the width asks for, and the legend."""
    if not table.rows:
        return None
    columns = table.visible(wide=width >= WIDE)
    texts = [_cells(table, one) for one in columns]
    parts: list[RenderableType] = [_text(table.title, "bold")] if table.title else []
    for number, chosen in enumerate(_parts(columns, texts, width)):
        parts += [Text("")] if number else []
        picked = [columns[at].quantity for at in chosen]
        parts.append(_drawn(table, picked, [texts[at] for at in chosen], width))
    parts += [_text(line, "dim") for line in table.legend]
    return Group(*parts)


def _cells(table: Table[object], one: Column[object]) -> list[str]:
    """Title, rows and closing rows of one column as text."""
    rows = [*table.rows, *table.closing]
    return [plain(one.quantity.title), *(plain(one.text(row)) for row in rows)]


def _parts(
    columns: Sequence[Column[object]], texts: Sequence[Sequence[str]], width: int
) -> list[list[int]]:
    """Columns of each part: all of them if they fit or can wrap, else as many as fit."""
    widths = [longest(column) for column in texts]
    prose = any(one.quantity.form == "prose" for one in columns)
    if prose or sum(widths) + GAP * (len(widths) - 1) <= width:
        return [list(range(len(columns)))]
    parts = [[0]]
    used = widths[0]
    for at in range(1, len(columns)):
        if used + GAP + widths[at] > width and len(parts[-1]) > 1:
            parts.append([0])
            used = widths[0]
        parts[-1].append(at)
        used += GAP + widths[at]
    return parts


def longest(texts: Sequence[str]) -> int:
    """Columns that the widest text takes."""
    return max(cell_len(text) for text in texts)


GAP = 3
"""Columns between two columns of a table."""


def _drawn(
    table: Table[object],
    quantities: Sequence[Quantity],
    texts: Sequence[Sequence[str]],
    width: int,
) -> RichTable:
    """Some columns of a table; text longer than half the width wraps too."""
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for one, column in zip(quantities, texts, strict=True):
        drawn.add_column(
            Text(column[0]),
            justify="right" if one.right else "left",
            no_wrap=one.right or (one.form == "text" and longest(column) <= width // 2),
            overflow="fold",
        )
    lines = (
        [Text(cell) for cell in line] for line in zip(*(one[1:] for one in texts), strict=True)
    )
    for part, row in table.parted():
        if part is not None:
            drawn.add_section()
            drawn.add_row(_text(part))
        set_off = table.chosen is not None and table.chosen(row)
        drawn.add_row(*next(lines), style="bold" if set_off else None)
    if table.closing:
        drawn.add_section()
    for line in lines:
        drawn.add_row(*line)
    return drawn


def _bars(bars: Bars) -> Group:
    """One line a part: name, amount, share, bar."""
    lines = [_text(bars.title, "bold")] if bars.title else []
    rows = bars.shares()
    room = max((len(name) for name, _, _ in rows), default=0)
    for name, amount, share in rows:
        written = f"  {name:<{room}} {bars.quantity.shown(amount):>9} {100 * share:>4.0f} %"
        lines.append(Text(f"{plain(written)}  {bar(share)}".rstrip(), no_wrap=True))
    return Group(*lines)


def _heat(heat: Heat) -> Group:
    """Blocks against blocks, darker for more (logarithmic)."""
    largest = max((cell for row in heat.cells for cell in row), default=0.0)
    lines = ["".join(shade(cell, largest) * 2 for cell in row).rstrip() for row in heat.cells]
    return Group(_text(heat.title), *(Text(line, no_wrap=True) for line in lines))
