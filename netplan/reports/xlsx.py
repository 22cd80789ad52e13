"""An answer as a spreadsheet: a sheet a table, raw values with number formats, text as text.

Text from users' files is never a formula, a link or a number. The same answer gives the same bytes.
"""

import io
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import xlsxwriter
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from netplan.reports.escape import strip_control
from netplan.reports.quantities import Cell, Quantity
from netplan.reports.sections import Data, Heading, Notes, Paragraph, Section, data_tables

SAFE = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
CREATED = datetime(2000, 1, 1, tzinfo=UTC)
"""A fixed time of writing."""

MAX_SHEET_NAME, MAX_CELL = 31, 32_767
NARROW, WIDE = 12, 48
A4, MAX_FOOTER = 9, 80
MOST_LINES = 27
"""Lines that the highest row of a spreadsheet shows."""

LINE_HEIGHT = 15
"""Height of a line of text [points]."""
NOTES = "Notes"


def xlsx_bytes(sections: Iterable[Section]) -> bytes:
    """The workbook: one sheet a table, and a last one with headings, verdicts and notes."""
    known = list(sections)
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True, **SAFE}) as book:
        book.set_properties({"created": CREATED})
        title = next((section.title for section in known if isinstance(section, Heading)), "")
        write_tables(book, data_tables(known), title)
        _write_notes(book, book.add_worksheet(NOTES), known)
    return buffer.getvalue()


def write_tables(book: Workbook, tables: Sequence[Data], title: str = "") -> None:
    """Write every table on a sheet of its own, under pages of a title."""
    for name, table in zip(sheet_names([table.name for table in tables]), tables, strict=True):
        sheet = book.add_worksheet(name)
        _write(book, sheet, table)
        set_page(sheet, title)


def sheet_names(names: Sequence[str]) -> list[str]:
    """Names without the signs that spreadsheets refuse, short and distinct.

    Examples
    --------
    >>> sheet_names(["a/b", "a:b", "Notes"])
    ['a-b', 'a-b 2', 'Notes 2']
    """
    taken, distinct = {NOTES.lower()}, []
    for name in names:
        base = re.sub(r"[^\w .-]", "-", name).strip("' ")[: MAX_SHEET_NAME - 4] or "table"
        chosen, number = base, 1
        while chosen.lower() in taken:
            number += 1
            chosen = f"{base} {number}"
        taken.add(chosen.lower())
        distinct.append(chosen)
    return distinct


def lines_of(text: str, width: float) -> int:
    """Lines that a text takes in a column that wraps, of a width in digits [1].

    Examples
    --------
    >>> lines_of("Switch", 16), lines_of("MMA4Z00-NS, twin-port OSFP 2 x 400G SR4", 16)
    (1, 3)
    """
    held, lines = 0, 1
    for word in text.split():
        size = len(word)
        if held and held + 1 + size > width:
            lines, held = lines + 1, 0
        held += size + (1 if held else 0)
        if held > width:  # one that breaks inside
            lines, held = lines + int(held // width), int(held % width)
    return lines


def set_page(sheet: Worksheet, footer: str, header: str = "", *, landscape: bool = True) -> None:
    """How a sheet is printed: A4, one page wide; header, and a footer with the page's number."""
    sheet.set_paper(A4)
    if landscape:
        sheet.set_landscape()
    else:
        sheet.set_portrait()
    sheet.fit_to_pages(1, 0)
    sheet.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.7)
    left, above = (strip_control(text)[:MAX_FOOTER].replace("&", "&&") for text in (footer, header))
    if above:
        sheet.set_header(f"&L&B{above}")
    sheet.set_footer(f"&L&8{left}&C&8&A&R&8&P / &N")


def number_format(quantity: Quantity) -> str:
    """How a spreadsheet shows raw values of a quantity.

    Examples
    --------
    >>> from netplan.reports.quantities import quantity
    >>> number_format(quantity("switches")), number_format(quantity("mfu"))
    ('#,##0', '0%')
    """
    if quantity.form == "count":
        return "#,##0"
    if quantity.form == "percent":
        return "0" + ("." + "0" * quantity.digits if quantity.digits else "") + "%"
    if quantity.form == "money":
        return "#,##0.00"
    return "General"


def write_cell(sheet: Worksheet, row: int, column: int, value: Cell, style: object = None) -> None:
    """Write one value: numbers as numbers, text as text, nothing for none."""
    if value is None:
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, (int, float)):
        sheet.write_number(row, column, value, style)
    else:
        sheet.write_string(row, column, strip_control(value)[:MAX_CELL])


def _write(book: Workbook, sheet: Worksheet, table: Data) -> None:
    base = {"bold": True, "bottom": 1, "text_wrap": True}
    left, right = book.add_format(base), book.add_format(base | {"align": "right"})
    for index, quantity in enumerate(table.quantities):
        style = book.add_format({"num_format": number_format(quantity)})
        unit = f" [{quantity.unit}]" if quantity.unit else ""
        sheet.write_string(0, index, f"{quantity.name}{unit}", right if quantity.numeric else left)
        for row, values in enumerate(table.rows, start=1):
            write_cell(sheet, row, index, values[index], style)
        longest = max((len(str(values[index])) for values in table.rows), default=0)
        sheet.set_column(index, index, min(max(longest, len(quantity.name), NARROW), WIDE))
    sheet.freeze_panes(1, 1)
    if table.rows and table.quantities:
        sheet.autofilter(0, 0, len(table.rows), len(table.quantities) - 1)
    sheet.repeat_rows(0)


def _write_notes(book: Workbook, sheet: Worksheet, sections: Sequence[Section]) -> None:
    wrap = {"text_wrap": True, "valign": "top"}
    bold, usual = book.add_format(wrap | {"bold": True}), book.add_format(wrap)
    sheet.set_column(0, 0, NARROW + NARROW)
    sheet.set_column(1, 1, 2 * WIDE)
    set_page(sheet, NOTES, landscape=False)
    row = 0
    for section in sections:
        lines: list[tuple[str, str]] = []
        if isinstance(section, Heading):
            lines = [(section.title, ""), *((line, "") for line in section.lines)]
        elif isinstance(section, Paragraph):
            lines = [(section.text, "")]
        elif isinstance(section, Notes):
            lines = list(section.groups)
        for first, second in lines:
            texts = [strip_control(text)[:MAX_CELL] for text in (first, second)]
            high = lines_of(texts[1], 2 * WIDE)
            if not second:  # a text takes both columns
                sheet.merge_range(row, 0, row, 1, "", usual)
                high = lines_of(texts[0], 2 * WIDE + 2 * NARROW)
            sheet.set_row(row, LINE_HEIGHT * min(high, MOST_LINES))
            for column, text in enumerate(texts if second else texts[:1]):
                sheet.write_string(row, column, text, usual if row else bold)
            row += 1
