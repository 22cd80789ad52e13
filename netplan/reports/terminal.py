"""An answer for terminals: tables and texts of at most a given width, plain or coloured.

A table that is too wide wraps its prose columns; one without any continues below, its first column
repeated, so that nothing is cut off. Text of users never steers the terminal.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from netplan.reports.escape import strip_control
from netplan.reports.quantities import Quantity
from netplan.reports.sections import (
    GAP,
    Bars,
    Form,
    Heading,
    Heat,
    Notes,
    Paragraph,
    Section,
    Style,
    Table,
    Verbatim,
    shown_in,
)

WIDE = 120
"""Columns of a terminal from which tables show more."""

LEAST_PROSE = 4
"""Columns that a column of prose keeps when it wraps."""

MOST_WORD = 12
"""Columns of a word that a column of prose keeps whole rather than all columns in one part."""

BAR_WIDTH = 40
EIGHTHS = " ▏▎▍▌▋▊▉"
SHADES = " ░▒▓█"
SHADE_FACTOR = 100.0
CODES: dict[Style, str] = {"plain": "", "strong": "\x1b[1m", "quiet": "\x1b[2m"}
CODE = re.compile("\x1b\\[[012]m")
RANGES = ((0x20, 0x7F), (0xA1, 0xAD), (0x2010, 0x2028), (0x2190, 0x2300), (0x2500, 0x25A0))
OF_ONE_COLUMN = frozenset(chr(sign) for ends in RANGES for sign in range(*ends))
"""Signs that take a column each: letters, dashes, arrows, mathematics, bars; a large table of
another package says it of all others."""


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
    shown = shown_in(_form(width), sections)
    blocks = ["\n".join(lines) for section in shown if (lines := list(_lines(section, width)))]
    text = "\n\n".join(blocks) + "\n"
    return text if colour else CODE.sub("", text)


def _form(width: int) -> Form:
    """Which form a terminal of a width is."""
    return "wide" if width >= WIDE else "narrow"


def cell_len(text: str) -> int:
    """Columns that a text takes.

    Examples
    --------
    >>> cell_len("rail-only ≥ 8"), cell_len("網路")
    (13, 4)
    """
    if OF_ONE_COLUMN.issuperset(text):
        return len(text)
    from rich import cells

    return cells.cell_len(text)


def _chopped(text: str, width: int) -> list[str]:
    """A text in pieces of at most so many columns."""
    from rich.cells import chop_cells

    return chop_cells(text, width)


def folded_text(text: str, width: int) -> list[str]:
    """Text in lines of at most ``width`` columns, broken between words where it can be.

    Examples
    --------
    >>> folded_text("rail-only and rail-optimized", 10)
    ['rail-only', 'and', 'rail-optim', 'ized']
    """
    lines = []
    for paragraph in text.split("\n"):
        lines.append("")
        for word in re.findall(r"\s*\S+\s*", paragraph):
            needed = cell_len(word.rstrip())
            if lines[-1] and cell_len(lines[-1]) + needed > width:
                lines.append("")
            first, *others = _chopped(word, width) if needed > width else [word]
            lines[-1] += first
            lines += others
    return [line.rstrip() for line in lines]


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
    for step, sign in enumerate(reversed(SHADES[1:])):
        if cell > 0 and cell * SHADE_FACTOR ** (step + 1) > largest:
            return sign
    return SHADES[1] if cell > 0 else SHADES[0]


def _lines(section: Section, width: int) -> Iterator[str]:
    """One section, line by line; none if it has nothing for a terminal, such as a chart."""
    if isinstance(section, Table):
        yield from _table(section, width)
    elif isinstance(section, Notes):
        for subject, text in section.groups:
            head = f"{strip_control(subject)}: " if subject else ""
            first, *others = folded_text(head + strip_control(text), width)
            yield _styled(first[: len(head)], "strong") + first[len(head) :]
            yield from others
    elif isinstance(section, Heading):
        yield from _text(section.title, width, "strong")
        for line in section.lines:
            yield from _text(line, width)
    elif isinstance(section, Paragraph):
        yield from _text(section.text, width, section.style)
    elif isinstance(section, Verbatim):
        yield from (_cut(line, width) for line in section.lines)
    elif isinstance(section, Bars):
        yield from _bars(section, width)
    elif isinstance(section, Heat):
        largest = max((cell for row in section.cells for cell in row), default=0.0)
        yield from _text(f"{section.title}; a shade is a factor of 100.", width)
        for row in section.cells:
            yield _cut("".join(shade(cell, largest) * 2 for cell in row), width)


def _text(text: str, width: int, style: Style = "plain") -> Iterator[str]:
    yield from (_styled(line, style) for line in folded_text(strip_control(text), width))


def _styled(text: str, style: Style) -> str:
    return f"{CODES[style]}{text}\x1b[0m" if text and CODES[style] else text


def _cut(line: str, width: int) -> str:
    """A line that does not wrap, as far as there is room."""
    shown = strip_control(line)
    if cell_len(shown) <= width:
        return shown.rstrip()
    from rich.cells import set_cell_size

    return set_cell_size(shown, width).rstrip()


def _bars(bars: Bars, width: int) -> Iterator[str]:
    """One line a part: name, amount, share, bar."""
    if bars.title:
        yield from _text(bars.title, width, "strong")
    rows = bars.shares()
    room = max((len(name) for name, _, _ in rows), default=0)
    for name, amount, share in rows:
        written = f"  {name:<{room}} {bars.quantity.shown(amount):>9} {100 * share:>4.0f} %"
        yield _cut(f"{written}  {bar(share)}", width)


Filled = tuple[Quantity, list[str], bool]
"""A column as texts (title, rows, closing rows), and whether they wrap."""


def _table(table: Table[object], width: int) -> Iterator[str]:
    """The title, the table in as many parts as the width asks for, and the legend."""
    if not table.rows:
        return
    if table.title:
        yield from _text(table.title, width, "strong")
    for number, part in enumerate(_parts(_columns(table, width), width, table.gap)):
        if number:
            yield ""
        yield from _drawn(table, part, width)
    for line in table.legend:
        yield from _text(line, width, "quiet")


def part_count(table: Table[Any], width: int) -> int:
    """How many parts a table is shown in, one below the other.

    Parameters
    ----------
    table
        The table.
    width
        Columns of the terminal [1].

    Returns
    -------
    int
        1 where all its columns fit beside each other [1].
    """
    return len(_parts(_columns(table, width), width, table.gap))


def _columns(table: Table[Any], width: int) -> list[Filled]:
    """The columns for this width, as texts."""
    rows = [*table.rows, *table.closing]
    return [
        _filled(column.quantity, [column.quantity.title, *map(column.text, rows)], width)
        for column in shown_in(_form(width), table.columns)
    ]


def _filled(quantity: Quantity, texts: Iterable[str], width: int) -> Filled:
    """A column: prose wraps, and text longer than half the width."""
    known = [strip_control(text) for text in texts]
    wraps = quantity.form == "prose" or longest(known) > width // 2
    return quantity, known, wraps and not quantity.right


def _parts(columns: list[Filled], width: int, gap: int) -> list[list[Filled]]:
    """Columns of each part: all of them if they fit or can wrap, else as many as fit."""
    prose = any(quantity.form == "prose" for quantity, _, _ in columns)
    widths = [
        min(longest(texts), _least(texts) if prose and wraps else width)
        for _, texts, wraps in columns
    ]
    parts, used = [columns[:1]], widths[0]
    for column, needed in zip(columns[1:], widths[1:], strict=True):
        if used + gap + needed > width and len(parts[-1]) > 1:
            parts.append(columns[:1])
            used = widths[0]
        parts[-1].append(column)
        used += gap + needed
    return parts


def _least(texts: Iterable[str]) -> int:
    """Columns that prose cannot do without: whole words, if they are not too long."""
    words = (word for text in texts for word in text.split())
    return max(LEAST_PROSE, min(max(map(cell_len, words), default=0), MOST_WORD))


def longest(texts: Iterable[str]) -> int:
    """Columns that the widest text takes."""
    return max(map(cell_len, texts))


def _drawn(table: Table[object], columns: list[Filled], width: int) -> Iterator[str]:
    """Some columns of a table."""
    head, *lines = zip(*(texts for _, texts, _ in columns), strict=True)
    rows = list(_rows(table, lines))
    cells = zip(head, *(line for line, _ in rows if len(line) == len(head)), strict=True)
    widths = [longest("\n".join(column).split("\n")) for column in cells]
    widths = _narrowed(widths, [index for index, column in enumerate(columns) if column[2]], width)
    shape = [
        (quantity.right, wraps, w) for (quantity, _, wraps), w in zip(columns, widths, strict=True)
    ]
    yield from (_styled(line, "strong") for line in _row(head, shape, table.gap, head=True))
    yield "─" * (sum(widths) + table.gap * (len(widths) - 1))
    for row, style in rows:
        across = len(row) < len(shape)
        texts = folded_text(row[0], width) if across else _row(row, shape, table.gap)
        yield from (_styled(text, style) for text in texts)


def _narrowed(widths: Sequence[int], wrapping: Sequence[int], room: int) -> list[int]:
    """Widths that fit: the widest columns that wrap give way first, alike, with their spaces."""
    last = len(widths) - 1
    spaces = [(index > 0) + (index < last) for index in range(len(widths))]
    fitted = [min(width + space, room - last) for width, space in zip(widths, spaces, strict=True)]
    while wrapping and (excess := sum(fitted) + last - room) > 0:
        levels = sorted({GAP, *(fitted[index] for index in wrapping)})
        if levels[-1] == GAP:
            break
        widest = [index for index in wrapping if fitted[index] == levels[-1]]
        for left, index in zip(range(len(widest), 0, -1), widest, strict=True):
            less = min(levels[-1] - levels[-2], round(excess / left))
            fitted[index] -= less
            excess -= less
    return [width - space for width, space in zip(fitted, spaces, strict=True)]


def _rows(
    table: Table[object], lines: Sequence[Sequence[str]]
) -> Iterator[tuple[Sequence[str], Style]]:
    """Rows and closing rows with their styles, empty ones between parts, and names of parts."""
    empty = [""] * len(lines[0])
    for index, (part, row) in enumerate(table.parted()):
        if part is not None:
            if index:
                yield empty, "plain"
            yield (strip_control(part), *empty[1:]), "plain"
        yield lines[index], "strong" if table.chosen and table.chosen(row) else "plain"
        if table.below and (text := table.below(row)):
            yield (strip_control(text),), "plain"
    if table.closing:
        yield empty, "plain"
        yield from ((line, "plain") for line in lines[len(table.rows) :])


def _row(
    cells: Sequence[str], shape: Sequence[tuple[bool, bool, int]], gap: int, *, head: bool = False
) -> Iterator[str]:
    """A row, over as many lines as its cells wrap to; titles stand close to the rule below them."""
    folds = [
        folded_text(cell, width) if wraps else cell.split("\n")
        for cell, (_, wraps, width) in zip(cells, shape, strict=True)
    ]
    height = max(map(len, folds))
    for index in range(height):
        texts = []
        for lines, (right, _, width) in zip(folds, shape, strict=True):
            filled = [*[""] * (height - len(lines)), *lines] if head else lines
            cell = filled[index] if index < len(filled) else ""
            space = " " * (width - cell_len(cell))
            texts.append(space + cell if right else cell + space)
        yield (" " * gap).join(texts).rstrip()
