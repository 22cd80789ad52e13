"""Sheets of cables as CSV and XLSX: text stays text, and a plan of 10^5 rows takes seconds."""

import io
from collections.abc import Iterator
from pathlib import Path

import xlsxwriter

from netplan.errors import InputError
from netplan.reports.tables import FORMULA_STARTS
from netplan.reports.xlsx import CREATED, SAFE
from netplan.topologies.cable_plan import Sheet

QUOTED = frozenset(',"\n\r')
NUMBERS = ("gbps", "length_m", "length")
ENDINGS = (".csv", ".xlsx")
MAX_SHEET_ROWS = 1_048_576


def check_ending(path: Path) -> str:
    """Ending of a table's name; refuse a file whose name does not say which kind of table it is.

    Raises
    ------
    InputError
        If the ending is neither ``.csv`` nor ``.xlsx``.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"-o {path}: unknown kind of table: name it .csv or .xlsx")
    return ending


def sheet_csv(sheet: Sheet) -> Iterator[str]:
    r"""Lines of a CSV file; text that a spreadsheet would take for a formula gets an apostrophe.

    Examples
    --------
    >>> list(sheet_csv(Sheet("P2P", ("name", "note"), iter([("=1+1", "a,b")]))))
    ['name,note\n', '\'=1+1,"a,b"\n']
    """
    yield ",".join(sheet.header) + "\n"
    for row in sheet.rows:
        yield ",".join([_field(cell) if cell else "" for cell in row]) + "\n"


def sheet_xlsx(sheet: Sheet) -> bytes:
    """Write the sheet as a workbook: rates and lengths are numbers, all else is text.

    Raises
    ------
    InputError
        If the sheet has more rows than a spreadsheet holds.
    """
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, SAFE | {"constant_memory": True}) as book:
        book.set_properties({"title": sheet.name, "created": CREATED})
        page = book.add_worksheet(sheet.name)
        bold = book.add_format({"bold": True})
        page.freeze_panes(1, 0)
        for column, title in enumerate(sheet.header):
            page.write_string(0, column, title, bold)
        numbers = [title in NUMBERS for title in sheet.header]
        for line, row in enumerate(sheet.rows, start=1):
            if line >= MAX_SHEET_ROWS:
                raise InputError(
                    f"a spreadsheet holds {MAX_SHEET_ROWS:,} rows, this table has more: write .csv"
                )
            for column, cell in enumerate(row):
                if not cell:
                    continue
                if numbers[column]:
                    page.write_number(line, column, float(cell))
                else:
                    page.write_string(line, column, cell)
    return buffer.getvalue()


def _field(text: str) -> str:
    """One field of CSV."""
    if text.startswith(FORMULA_STARTS):
        text = "'" + text
    if QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'
