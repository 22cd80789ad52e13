"""An answer as HTML: a page that works offline, or a fragment for notebooks.

Jinja2 escapes every text, and the page forbids itself every request (:mod:`netplan.reports.page`).
Charts bring plotly into the page; an answer without charts is a few kilobytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Literal

from markupsafe import Markup
from msgspec import Struct

from netplan.records import replace
from netplan.reports import page
from netplan.reports.charts import Chart
from netplan.reports.heat_drawing import heat_drawing
from netplan.reports.numbers import numbers_of
from netplan.reports.sections import Bars, Heading, Heat, Section, is_for
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
    numbers: tuple[page.Grid, int] | None = None
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
        "page_title": title_of(known),
    }
    return page.framed(
        template, charts, shown | dict(values or {}), tables=any(map(_is_long, first))
    )


def _is_long(block: Block) -> bool:
    """Whether it is a table that its reader may want to sort."""
    return block.kind == "table" and isinstance(block.shown, tuple) and block.shown[1].long


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
    style = FRAGMENT_STYLE + (_drawing_style() if 'class="drawing' in body else "")
    return f'{style}<div class="netplan">{body}</div>'


def _drawing_style() -> str:
    """Style of drawings among other outputs: on paper of their own, whose colours they take."""
    style = page.drawing_style().replace(":root", ".netplan .drawing")
    return f"<style>{style}\n.netplan .drawing {{ background: var(--card); }}</style>"


def title_of(sections: Iterable[Section]) -> str:
    """Title of the first heading."""
    return next((section.title for section in sections if isinstance(section, Heading)), "netplan")


def blocks(sections: Iterable[Section]) -> list[Block]:
    """Sections as the template draws them."""
    drawn: list[Block] = []
    for section in sections:
        if not is_for(getattr(section, "only", None), "pages"):
            continue
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


def drawn_table(table: TableSection[object]) -> page.Grid:
    """A table as texts under titles; rows of sums stand last and are set off."""
    columns = table.visible(wide=True)
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
    return page.Grid(heads, rows, table.title or table.name.capitalize() or "Table", ordered)


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
