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
    starts = [at for at, one in enumerate(known) if isinstance(one, Heading) and one.key]
    first = _side_by_side(blocks(known[: starts[0]] if starts else known))
    shown = {
        "blocks": first,
        "lead": lead(first),
        "contents": contents(first),
        "chapters": [
            Chapter(head.key, head.title, head.lines, blocks(known[at + 1 : end]))
            for at, end in pairwise([*starts, len(known)])
            if isinstance(head := known[at], Heading)
        ],
        "page_title": title_of(known),
    }
    return page.framed(
        template, charts, shown | dict(values or {}), tables=any(map(_is_long, first))
    )


def _is_long(one: Block) -> bool:
    """Whether it is a table that its reader may want to sort."""
    return one.kind == "table" and isinstance(one.shown, tuple) and one.shown[1].long


def _side_by_side(found: Sequence[Block]) -> list[Block]:
    """Mark runs of small drawings of one chart."""
    placed: list[Block] = []
    for (small, _), group in groupby(found, _of_one_chart):
        run = list(group)
        if not small or len(run) == 1:
            placed += run
            continue
        placed.append(replace(run[0], beside="first"))
        placed += [replace(one, beside="between") for one in run[1:-1]]
        placed.append(replace(run[-1], beside="last"))
    return placed


def _of_one_chart(one: Block) -> tuple[bool, str]:
    """Whether it is a drawing that half of a page has room for, and of which chart."""
    chart = one.shown
    return isinstance(chart, Chart) and chart.small, one.title.partition(": ")[0]


def lead(found: Sequence[Block]) -> int:
    """How many blocks make the summary at the head of a page: headings and texts [1]."""
    rest = (at for at, one in enumerate(found) if one.kind not in ("heading", "paragraph"))
    return next(rest, len(found))


def contents(found: Sequence[Block]) -> list[tuple[str, str]]:
    """Place and title of what a page shows; drawings of one chart stand there once.

    Examples
    --------
    >>> table = Block("table", None, "Price: rails", "part-1")
    >>> contents([table, Block("table", None, "Price: pods", "part-2")])
    [('part-1', 'Price')]
    """
    titles: dict[str, str] = {}
    for one in found:
        title = one.title.partition(": ")[0]
        if title:
            titles.setdefault(title, one.key)
    return [(key, title) for title, key in titles.items()]


def html_fragment(sections: Iterable[Section]) -> str:
    """Headings, tables, texts and drawings for a notebook; charts are left to ``plot``."""
    # Several answers of a notebook are one page: no place of theirs has a name.
    shown = [replace(one, key="") for one in blocks(sections) if one.kind != "chart"]
    body = page.rendered("fragment.html.j2", {"blocks": shown})
    style = FRAGMENT_STYLE + (_drawing_style() if 'class="drawing' in body else "")
    return f'{style}<div class="netplan">{body}</div>'


def _drawing_style() -> str:
    """Style of drawings among other outputs: on paper of their own, whose colours they take."""
    style = page.drawing_style().replace(":root", ".netplan .drawing")
    return f"<style>{style}\n.netplan .drawing {{ background: var(--card); }}</style>"


def title_of(sections: Iterable[Section]) -> str:
    """Title of the first heading."""
    return next((one.title for one in sections if isinstance(one, Heading)), "netplan")


def blocks(sections: Iterable[Section]) -> list[Block]:
    """Sections as the template draws them."""
    found: list[Block] = []
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
        found.append(Block(kind, shown, title, f"part-{len(found) + 1}", numbers))
    return found


def drawn_table(table: TableSection[object]) -> page.Grid:
    """A table as texts under titles; rows of sums stand last and are set off."""
    columns = table.visible(wide=True)
    heads = [(one.quantity.title, "number" if one.quantity.right else "text") for one in columns]
    chosen = (at for at, row in enumerate(table.rows) if table.chosen and table.chosen(row))
    at_chosen, last = next(chosen, None), len(table.closing) - 1
    rows: list[tuple[Sequence[str], bool]] = []
    ordered = bool(table.closing)  # sums stay last, and rows under their part
    for at, (part, row) in enumerate(table.parted()):
        if part is not None:
            ordered = True
            rows.append(((part, *[""] * (len(columns) - 1)), False))
        rows.append(([one.text(row) for one in columns], at == at_chosen))
    for at, row in enumerate(table.closing):
        rows.append(([one.text(row) for one in columns], at_chosen is None and at == last))
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
