"""An answer as HTML: a page that works offline, or a fragment for notebooks.

Jinja2 escapes every text, and the page forbids itself every request (:mod:`netplan.reports.page`).
Charts bring plotly into the page; an answer without charts is a few kilobytes.

Below a chart its numbers stand as a table: what its hover boxes say, for who has no pointer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from itertools import groupby, pairwise
from typing import Literal

from markupsafe import Markup
from msgspec import Struct

from netplan.records import replace
from netplan.reports import page
from netplan.reports.charts import Chart
from netplan.reports.heat_drawing import heat_drawing
from netplan.reports.sections import Bars, Heading, Heat, Section, shown_in
from netplan.reports.sections import Table as TableSection

TEMPLATE = "answer.html.j2"
FRAGMENT_STYLE = (
    "<style>.netplan table{border-collapse:collapse;margin:.6em 0}"
    ".netplan td,.netplan th{padding:.2em .8em .2em 0;text-align:left;vertical-align:top}"
    ".netplan .number{text-align:right;font-variant-numeric:tabular-nums}"
    ".netplan .quiet{opacity:.7}.netplan .strong{font-weight:600}</style>"
)


class Block(Struct, frozen=True):
    """One section as the template draws it.

    Its kind, what it shows, its title in the contents and its place there, and for a chart the
    table of its numbers with how many there are. A chart that stands ``beside`` others of its kind
    is the first or last of them, or between.
    """

    kind: str
    shown: object
    title: str = ""
    key: str = ""
    numbers: tuple[page.TextGrid, int] | None = None
    beside: Literal["", "first", "between", "last"] = ""


class Chapter(Struct, frozen=True):
    """A heading with a key, and the blocks up to the next one."""

    key: str
    title: str
    lines: tuple[str, ...]
    blocks: list[Block]


def html_page(
    sections: Iterable[Section],
    template: str = TEMPLATE,
    values: Mapping[str, object] | None = None,
) -> str:
    """A whole page.

    Parameters
    ----------
    sections
        What it shows; those from a heading with a key on stand in chapters.
    template
        File of the page.
    values
        What the template names besides ``blocks``, ``chapters`` and ``page_title``.

    Examples
    --------
    >>> "<h1>Networks</h1>" in html_page([Heading("Networks")])
    True
    """
    known = list(sections)
    charts = [section for section in known if isinstance(section, Chart)]
    starts = [index for index, part in enumerate(known) if isinstance(part, Heading) and part.key]
    first = _side_by_side(blocks(known[: starts[0]] if starts else known))
    shown = {
        "blocks": first,
        "lead": lead(first),
        "contents": contents(first),
        "chapters": [
            Chapter(head.key, head.title, head.lines, blocks(known[index + 1 : end]))
            for index, end in pairwise([*starts, len(known)])
            if isinstance(head := known[index], Heading)
        ],
        "page_title": next((part.title for part in known if isinstance(part, Heading)), "netplan"),
    }
    tables = (block.shown for block in first if block.kind == "table")
    sorts = any(isinstance(table, tuple) and table[1].long for table in tables)
    return page.framed(template, charts, shown | dict(values or {}), tables=sorts)


def _side_by_side(page_blocks: Sequence[Block]) -> list[Block]:
    """Mark runs of small drawings of one chart."""
    placed: list[Block] = []
    for (small, _), group in groupby(page_blocks, _of_one_chart):
        run = list(group)
        if not small or len(run) == 1:
            placed += run
            continue
        placed.append(replace(run[0], beside="first"))
        placed += [replace(block, beside="between") for block in run[1:-1]]
        placed.append(replace(run[-1], beside="last"))
    return placed


def _of_one_chart(block: Block) -> tuple[bool, str]:
    """Whether it is a drawing that half of a page has room for, and of which chart."""
    chart = block.shown
    return isinstance(chart, Chart) and chart.small, block.title.partition(": ")[0]


def lead(shown: Sequence[Block]) -> int:
    """How many blocks make the summary at the head of a page: headings and texts [1]."""
    rest = (
        index for index, block in enumerate(shown) if block.kind not in ("heading", "paragraph")
    )
    return next(rest, len(shown))


def contents(page_blocks: Sequence[Block]) -> list[tuple[str, str]]:
    """Place and title of what a page shows; drawings of one chart stand there once.

    Examples
    --------
    >>> table = Block("table", None, "Price: rails", "part-1")
    >>> contents([table, Block("table", None, "Price: pods", "part-2")])
    [('part-1', 'Price')]
    """
    titles: dict[str, str] = {}
    for block in page_blocks:
        title = block.title.partition(": ")[0]
        if title:
            titles.setdefault(title, block.key)
    return [(key, title) for title, key in titles.items()]


def html_fragment(sections: Iterable[Section]) -> str:
    """Headings, tables, texts and drawings for a notebook; charts are left to ``plot``."""
    # Several answers of a notebook are one page: no place of theirs has a name.
    shown = [replace(block, key="") for block in blocks(sections) if block.kind != "chart"]
    body = page.rendered("fragment.html.j2", {"blocks": shown})
    style = FRAGMENT_STYLE
    if 'class="drawing' in body:  # among other outputs, on paper of its own, whose colours it takes
        drawings = page.drawing_style().replace(":root", ".netplan .drawing")
        style += f"<style>{drawings}\n.netplan .drawing {{ background: var(--card); }}</style>"
    return f'{style}<div class="netplan">{body}</div>'


def blocks(sections: Iterable[Section]) -> list[Block]:
    """Sections as the template draws them."""
    drawn: list[Block] = []
    for section in shown_in("pages", sections):
        kind = type(section).__name__.lower()
        shown: object = section
        if isinstance(section, TableSection):
            if not section.rows:
                continue
            shown = (section.title, drawn_table(section), section.legend)
        elif isinstance(section, Bars):
            shown = (section.title, _bars(section))
        elif isinstance(section, Heat):
            amounts = drawn_table(section.largest) if section.largest.rows else None
            shown = (section.title, heat_drawing(section), section.said, amounts)
        title = str(getattr(section, "title", "") or getattr(section, "label", ""))
        title = "Notes" if kind == "notes" else "" if kind == "heading" else title
        numbers = numbers_of(section) if isinstance(section, Chart) else None
        drawn.append(Block(kind, shown, title, f"part-{len(drawn) + 1}", numbers))
    return drawn


def drawn_table(table: TableSection[object]) -> page.TextGrid:
    """A table as texts under titles; rows of sums stand last and are set off."""
    columns = shown_in("pages", table.columns)
    heads = [
        (column.quantity.title, "number" if column.quantity.right else "text") for column in columns
    ]
    chosen = (index for index, row in enumerate(table.rows) if table.chosen and table.chosen(row))
    at_chosen, last = next(chosen, None), len(table.closing) - 1
    rows: list[tuple[Sequence[str], bool]] = []
    ordered = bool(table.closing)  # sums stay last, and rows under their part
    for index, (part, row) in enumerate(table.parted()):
        if part is not None:
            ordered = True
            rows.append(((part, *[""] * (len(columns) - 1)), False))
        rows.append(([column.text(row) for column in columns], index == at_chosen))
    for index, row in enumerate(table.closing):
        rows.append(([column.text(row) for column in columns], at_chosen is None and index == last))
    return page.TextGrid(heads, rows, table.title or table.name.capitalize() or "Table", ordered)


def _bars(bars: Bars) -> list[tuple[str, str, str, Markup]]:
    """Name, amount, share, and a bar of that share."""
    return [
        (
            name,
            bars.quantity.shown(amount),
            f"{100 * share:.0f} %",
            Markup('<div class="bar" style="width:{}%"></div>').format(f"{100 * share:.2f}"),
        )
        for name, amount, share in bars.shares()
    ]


MOST_ROWS, MOST_COLUMNS = 60, 6
"""Rows and columns of such a table [1]: the first values of a box are those of the chart."""

MARK = "mark"
"""Column of what a box says without a name."""


def numbers_of(chart: Chart) -> tuple[page.TextGrid, int] | None:
    """What the marks of a chart say, a row each, and how many there are; None of one without boxes.

    Examples
    --------
    >>> from netplan.reports.charts import hover, marks
    >>> boxes = [hover("GPUs: 8", "time: 2 s"), hover("GPUs: 16", "time: 1 s")]
    >>> drawn = marks("scatter", [8, 16], [2, 1], boxes)
    >>> grid, count = numbers_of(Chart("1", "Time", 400, (drawn,), {}))
    >>> [title for title, _ in grid.heads], [row for row, _ in grid.rows], count
    (['GPUs', 'time'], [['8', '2 s'], ['16', '1 s']], 2)
    """
    distinct = {tuple(record.items()): record for record in _records(chart)}
    records = list(distinct.values())
    if not records:
        return None
    shown = records[:MOST_ROWS]
    names = list(dict.fromkeys(name for record in shown for name in record))[:MOST_COLUMNS]
    cells = [[record.get(name, "") for name in names] for record in shown]
    heads = [  # numbers stand to the right
        (name, "number" if all(cell[:1].isdigit() for cell in column if cell) else "text")
        for name, column in zip(names, zip(*cells, strict=True), strict=True)
    ]
    rows: list[tuple[Sequence[str], bool]] = [(row, False) for row in cells]
    return page.TextGrid(heads, rows, f"Numbers of {chart.label}"), len(records)


def _records(chart: Chart) -> Iterator[dict[str, str]]:
    """Lines of each hover box, by their names."""
    for trace in chart.data:
        boxes = trace.get("hovertext")
        for box in _flat(boxes) if isinstance(boxes, list) else ():
            record: dict[str, str] = {}
            for written in unescape(box).split("<br>"):
                name, colon, value = written.partition(": ")
                key, shown = (name, value) if colon else (MARK, written)
                record[key] = f"{record[key]}, {shown}" if key in record else shown
            if box:
                yield record


def _flat(boxes: list[object]) -> Iterator[str]:
    for box in boxes:
        if isinstance(box, list):
            yield from _flat(box)
        else:
            yield str(box)
