"""An answer as Markdown: the same tables and texts as on a terminal, with all their columns."""

from collections.abc import Iterable, Iterator

from netplan.reports.escape import strip_control
from netplan.reports.sections import (
    Bars,
    Heading,
    Heat,
    Notes,
    Paragraph,
    Section,
    Table,
    Verbatim,
    shown_in,
)


def markdown_text(sections: Iterable[Section]) -> str:
    r"""All sections, an empty line between two; every text of users is escaped.

    Examples
    --------
    >>> from netplan.reports.sections import column
    >>> table = Table("rows", [column("fabric", str), column("switches", len)], ["a|b"])
    >>> print(markdown_text([Heading("Networks"), table]), end="")
    # Networks
    <BLANKLINE>
    | Fabric | switches |
    |---|--:|
    | a\|b | 3 |
    """
    shown = shown_in("wide", sections)
    blocks = ["\n".join(lines) for section in shown if (lines := list(_lines(section)))]
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    Examples
    --------
    >>> escaped("a|b <i>*c*")
    'a\\|b &lt;i&gt;\\*c\\*'
    """
    shown = strip_control(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\|*_`[":
        shown = shown.replace(sign, f"\\{sign}")
    return " ".join(shown.split())


def _lines(section: Section) -> Iterator[str]:
    section = section.table if isinstance(section, Bars) else section
    if isinstance(section, Heading):
        yield f"{'##' if section.key else '#'} {escaped(section.title)}"
        if section.lines:
            yield ""
            yield "  \n".join(escaped(line) for line in section.lines)
    elif isinstance(section, Table):
        yield from _table(section)
    elif isinstance(section, Paragraph):
        text = escaped(section.text)
        yield f"**{text}**" if section.style == "strong" else text
    elif isinstance(section, Notes):
        for subject, text in section.groups:
            yield f"- **{escaped(subject)}**: {escaped(text)}" if subject else f"- {escaped(text)}"
    elif isinstance(section, Heat):
        yield f"## {escaped(section.title)}"
        yield ""
        yield _row(["", *section.labels])
        yield "|---|" + "--:|" * len(section.labels)
        for label, cells in zip(section.labels, section.cells, strict=True):
            yield _row([label, *(section.quantity.shown(cell) for cell in cells)])
    elif isinstance(section, Verbatim):
        yield from ("```text", *(strip_control(line) for line in section.lines), "```")


def _table(table: Table[object]) -> Iterator[str]:
    if not table.rows:
        return
    columns = shown_in("wide", table.columns)
    if table.title:
        yield f"## {escaped(table.title)}"
        yield ""
    yield _row([column.quantity.title for column in columns])
    yield "|" + "|".join("--:" if column.quantity.right else "---" for column in columns) + "|"
    for part, row in table.parted():
        if part is not None:
            yield _row([part, *[""] * (len(columns) - 1)])
        yield _row([column.text(row) for column in columns])
    for row in table.closing:
        yield _row([column.text(row) for column in columns])
    if table.legend:
        yield ""
        yield "  \n".join(escaped(line) for line in table.legend)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"
