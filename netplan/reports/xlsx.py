"""An answer as a spreadsheet: a sheet a table, under heads in words with units, text as text.

A column has one unit, and money is in whole units of its currency, so that cells can be counted
with; no number has more digits than its answer is good for (CSV and JSON have all of them). Text
from users' files is never a formula, a link or a number. The same answer gives the same bytes.
"""

import io
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import floor, isfinite, log10

import xlsxwriter
from msgspec import Struct
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from netplan.reports.escape import strip_control
from netplan.reports.quantities import Cell, Quantity, spelt, words
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
MOST_HEAD_LINES = 4
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
    currency = next((known for known in map(_currency, tables) if known), "")
    titles = [spelt(table.name) for table in tables]
    names = sheet_names([f"{title[:1].upper()}{title[1:]}" for title in titles])
    for name, table in zip(names, tables, strict=True):
        sheet = book.add_worksheet(name)
        _write(book, sheet, sheet_columns(table, currency))
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


class SheetColumn(Struct, frozen=True):
    """A column of a sheet: its head, cells as they are written, and how they are shown.

    Parameters
    ----------
    head
        What it holds, and in which unit.
    cells
        Numbers in that unit, texts, or None.
    style
        Format of its numbers.
    right
        Whether it stands to the right, as numbers do.
    wrapped
        Whether it holds long texts.
    """

    head: str
    cells: tuple[Cell, ...]
    style: str
    right: bool
    wrapped: bool = False


PREFIXES = {1.0: "", 1e3: "k", 1e6: "M", 1e9: "G", 1e12: "T", 1e15: "P", 1e-3: "m", 1e-6: "\u00b5"}
DIGITS = 6
"""Digits of a number that is no amount of money and no count [1]."""
WHOLE_MONEY_FROM = 1000.0
"""Largest amount of a column from which on it is shown in whole units of its currency [1]."""


def sheet_columns(table: Data, currency: str = "") -> list[SheetColumn]:
    """Columns of a table as people read them in a spreadsheet; the same is written once.

    Parameters
    ----------
    table
        The table.
    currency
        Of amounts whose table does not say it.

    Examples
    --------
    >>> from netplan.reports.quantities import Scale, quantity
    >>> cost = Scale(1e6, "M USD", 1).of_money("cost_base")
    >>> known = (cost, quantity("power_w"), quantity("mfu"))
    >>> shown = sheet_columns(Data("fabrics", known, ((319_774_392.322, 3_591_987.2, 0.51408),)))
    >>> for column in shown:
    ...     print(column.head, column.cells, column.style)
    Price of the network at base prices, USD (319774392.32,) #,##0
    Typical power of the network, kW (3591.99,) #,##0
    MFU (0.51408,) 0.0%
    """
    quantities = table.quantities
    currency = _currency(table) or currency
    cells = [tuple(row[index] for row in table.rows) for index in range(len(quantities))]
    titles = [named.title.lower() for named in quantities]
    columns = [
        _sheet_column(named, values, currency, alone=titles.count(named.title.lower()) == 1)
        for named, values in zip(quantities, cells, strict=True)
    ]
    names = {named.name: column for named, column in zip(quantities, columns, strict=True)}
    return [
        column
        for name, column in names.items()
        if not name.endswith("_usd") or name.removesuffix("_usd") not in names
    ]


def _currency(table: Data) -> str:
    """Currency of the amounts of a table; empty where it does not say it."""
    for index, named in enumerate(table.quantities):
        if named.name == "currency" and table.rows:
            return str(table.rows[0][index])
    units = [named.unit for named in table.quantities if named.form == "money"]
    return next((unit for unit in units if unit != "currency"), "")


def _sheet_column(
    named: Quantity, values: tuple[Cell, ...], currency: str, *, alone: bool
) -> SheetColumn:
    """One column, in one unit."""
    numbers = [abs(value) for value in values if isinstance(value, (int, float))]
    largest = max((value for value in numbers if isfinite(value)), default=0.0)
    unit, divisor = _unit(named, largest, currency)
    money = named.form == "money" or (bool(currency) and unit == currency)
    title = re.sub(rf"\b[kM] {unit}\b", unit, named.title) if money else named.title
    if title in ("", unit) or not alone:
        title = named.meaning or words(named.name).quantity
    word = re.escape(unit.removeprefix("1/"))
    unit_in_title = not unit or re.search(rf"(?<!\w){word}(?!\w)", title)
    head = title if unit_in_title else f"{title}, {unit}"
    style = _style(named, largest / divisor, money=money)
    cells = tuple(_rounded(value, divisor, named, money=money) for value in values)
    return SheetColumn(head, cells, style, named.right, named.form == "prose")


def _unit(named: Quantity, largest: float, currency: str) -> tuple[str, float]:
    """Unit of a column, and what its raw values are divided by."""
    if named.form == "money" or named.unit == "currency":
        return (currency if named.unit in ("", "currency") else named.unit), 1.0
    unit = "" if named.unit == "1" else named.unit
    if named.form == "si":
        power = 10.0 ** (3 * floor(log10(largest) / 3)) if largest > 0 else 1.0
        divisor = power if power in PREFIXES else 1.0
        return f"{PREFIXES[divisor]}{named.suffix or unit}", divisor
    if named.form == "percent":
        return "", 1.0
    if named.suffix:
        return named.suffix, named.scale
    prefix, base = PREFIXES.get(named.scale, ""), unit.removeprefix("k")
    return ("M" + base if prefix == "k" and base != unit else prefix + unit), named.scale


def _style(named: Quantity, largest: float, *, money: bool) -> str:
    """How a spreadsheet shows the numbers of a column."""
    if money and largest >= WHOLE_MONEY_FROM:
        return "#,##0"
    if money:
        return "#,##0.00" + "0" * max(0, named.digits - 2)
    if named.form == "percent":
        return f"0.{'0' * max(1, named.digits)}%"
    if named.form == "count":
        return "#,##0"
    if named.form == "fixed":
        return "#,##0" + (f".{'0' * named.digits}" if named.digits else "")
    return "General"


def _rounded(value: Cell, divisor: float, named: Quantity, *, money: bool) -> Cell:
    """A value as it is written: cents of money, six digits of what is measured."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float) or not isfinite(value):
        return value if divisor == 1.0 or not isinstance(value, int) else value / divisor
    value /= divisor
    if money:
        return round(value, max(2, named.digits))
    whole = named.form == "count" and abs(value) >= 10**DIGITS
    return round(value) if whole else float(f"{value:.{DIGITS}g}")


def write_cell(sheet: Worksheet, row: int, column: int, value: Cell, style: object = None) -> None:
    """Write one value: numbers as numbers, text as text, nothing for none."""
    if value is None:
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, (int, float)):
        sheet.write_number(row, column, value, style)
    else:
        sheet.write_string(row, column, strip_control(value)[:MAX_CELL], style)


def _write(book: Workbook, sheet: Worksheet, columns: Sequence[SheetColumn]) -> None:
    rows = len(columns[0].cells) if columns else 0
    base = {"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"}
    left, right = book.add_format(base), book.add_format(base | {"align": "right"})
    for index, column in enumerate(columns):
        look = {"num_format": column.style, "valign": "top", "text_wrap": column.wrapped}
        style = book.add_format(look)
        sheet.write_string(0, index, column.head, right if column.right else left)
        for row, value in enumerate(column.cells, start=1):
            write_cell(sheet, row, index, value, style)
        longest = max((_length(value) for value in column.cells), default=0)
        word = max(map(len, column.head.split()), default=0)
        sheet.set_column(index, index, min(max(longest, word, NARROW) + 1, WIDE))
    lines = max((lines_of(column.head, NARROW + 1) for column in columns), default=1)
    sheet.set_row(0, LINE_HEIGHT * min(lines, MOST_HEAD_LINES))
    for row in range(rows):
        high = max(
            (lines_of(str(column.cells[row]), WIDE) for column in columns if column.wrapped),
            default=1,
        )
        if high > 1:
            sheet.set_row(row + 1, LINE_HEIGHT * min(high, MOST_LINES))
    sheet.freeze_panes(1, 1)
    if rows:
        sheet.autofilter(0, 0, rows, len(columns) - 1)
    sheet.repeat_rows(0)


def _length(value: Cell) -> int:
    """Signs that a cell shows, about [1]."""
    if isinstance(value, str) or value is None:
        return len(value or "")
    return len(f"{value:,.7g}" if isinstance(value, float) else f"{value:,}")


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
