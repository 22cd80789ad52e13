"""The bill as a spreadsheet: a buyer changes a price, a discount or a tariff, and totals follow.

Every formula is written with its value, so that programs that do not calculate read the same
numbers as the JSON. Text from users' files is written as text: never a formula, a link or a number.
"""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import xlsxwriter
from xlsxwriter.utility import xl_rowcol_to_cell
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from netplan.costing.fabric_bill import FabricBill
from netplan.costing.pricing import PricedItem
from netplan.costing.ranges import Range
from netplan.questions.pricing import CASES, prices_in_use
from netplan.reports.quantities import part_words
from netplan.reports.sections import Data
from netplan.reports.xlsx import CREATED, SAFE, write_tables

MAX_SHEET_NAME = 31
WIDE_COLUMN, TEXT_COLUMN, NUMBER_COLUMN = 44, 26, 15


def cost_xlsx(
    inputs: Mapping[str, Any],
    currency: str,
    bills: Sequence[FabricBill],
    notes: Iterable[tuple[str, str]],
    beside: Sequence[Data] = (),
) -> bytes:
    """The workbook as bytes: Summary, Prices, one bill a fabric, Drivers, Notes; tables beside."""
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True, **SAFE}) as book:
        book.set_properties({"title": "Bill of materials", "created": CREATED})
        sheets = _Sheets(book, inputs, bills)
        _summary(sheets, currency)
        _prices(sheets)
        for number, bill in enumerate(bills):
            _bill(sheets, number, bill)
        _drivers(sheets)
        _notes(sheets, [*notes, *(("Input", f"{key}: {value}") for key, value in inputs.items())])
        write_tables(book, beside)
    return buffer.getvalue()


class _Sheets:
    """The sheets of one workbook, and where the numbers stand that formulas refer to."""

    def __init__(
        self, book: Workbook, inputs: Mapping[str, Any], bills: Sequence[FabricBill]
    ) -> None:
        self.inputs, self.bills = inputs, bills
        self.summary = book.add_worksheet("Summary")
        self.prices = book.add_worksheet("Prices")
        # Without the signs that spreadsheets refuse, short, distinct.
        plain = (re.sub(r"[^\w .-]", "-", bill.name) for bill in bills)
        names = (f"Bill {number} {name}" for number, name in enumerate(plain, start=1))
        self.orders = [book.add_worksheet(name[:MAX_SHEET_NAME].strip()) for name in names]
        self.drivers = book.add_worksheet("Drivers")
        self.notes = book.add_worksheet("Notes")
        self.bold = book.add_format({"bold": True})
        self.head = book.add_format({"bold": True, "bottom": 1, "text_wrap": True})
        self.money = book.add_format({"num_format": "#,##0.00"})
        self.count = book.add_format({"num_format": "#,##0"})
        # The cells that a buyer may change.
        self.input = book.add_format({"num_format": "General", "bg_color": "#FFF6D6"})
        self.parts = prices_in_use(bills)

    def price_cell(self, part: str, offer: Range, case: str) -> str:
        """Cell of a part's price on the sheet Prices."""
        row = 1 + list(self.parts).index((part, offer))
        return f"Prices!{_fixed(row, 2 + CASES.index(case))}"


def _fixed(row: int, column: int) -> str:
    """Address of a cell that does not move when a formula is copied, such as ``$B$4``."""
    return str(xl_rowcol_to_cell(row, column, row_abs=True, col_abs=True))


DISCOUNT, YEARS, FIRST_RUNNING = 3, 4, 5
LACKING = 10
"""Column of what the sums of a fabric leave out."""
RUNNING = {"PUE": "pue", "Tariff, per kWh": "tariff_per_kwh", "Interest, a year": "interest"}


def _setting(row: int, case: str = "low") -> str:
    """Cell of a setting on the sheet Summary."""
    return f"Summary!{_fixed(row, 1 + CASES.index(case))}"


def _text(
    sheet: Worksheet, row: int, cells: Sequence[str], form: object = None, *, first: int = 0
) -> None:
    for column, cell in enumerate(cells, start=first):
        sheet.write_string(row, column, cell, form)


def _summary(sheets: _Sheets, currency: str) -> None:
    """Settings to change, and the totals of every fabric."""
    sheet, inputs = sheets.summary, sheets.inputs
    sheet.set_column(0, 0, WIDE_COLUMN)
    sheet.set_column(1, LACKING - 1, NUMBER_COLUMN)
    sheet.set_column(LACKING, LACKING, WIDE_COLUMN)
    title = f"Bill of materials for {inputs['gpus']:,} GPUs, amounts in {currency}"
    sheet.write_string(0, 0, title, sheets.bold)
    sheet.write_string(1, 0, "Shaded cells may be changed; all sheets follow.")
    _text(sheet, 2, ["Setting", *CASES], sheets.head)
    sheet.write_string(DISCOUNT, 0, "Discount on every price")
    sheet.write_number(DISCOUNT, 1, inputs["discount"], sheets.input)
    sheet.write_string(YEARS, 0, "Years of use")
    sheet.write_number(YEARS, 1, inputs["years"], sheets.input)
    for row, (name, key) in enumerate(RUNNING.items(), start=FIRST_RUNNING):
        sheet.write_string(row, 0, name)
        for column, case in enumerate(CASES, start=1):
            sheet.write_number(row, column, inputs["running"][key][case], sheets.input)
    heads = ["Fabric", "Case", "Price", "Price/GPU", "Power W", "kWh/year"]
    heads += ["Energy/year", "Annuity/year", "Cost/year", "Cost over life", "Not in it"]
    start = FIRST_RUNNING + len(RUNNING) + 1
    _text(sheet, start, heads, sheets.head)
    for number, bill in enumerate(sheets.bills):
        for offset, case in enumerate(CASES):
            _summary_row(sheets, start + 1 + number * len(CASES) + offset, number, bill, case)


def _summary_row(sheets: _Sheets, row: int, number: int, bill: FabricBill, case: str) -> None:
    """One fabric in one case: every amount follows from the one before it, as far as known."""
    sheet, life = sheets.summary, bill.life
    price, power, kwh, energy, annuity, cost = (f"{column}{row + 1}" for column in "CEFGHI")
    years = _setting(YEARS)
    pue, tariff, interest = (_setting(FIRST_RUNNING + i, case) for i in range(len(RUNNING)))
    rate = f"{interest}/(1-(1+{interest})^-{years})"
    priced, powered = bill.cost is not None, bill.draw.known
    formulas = (
        (priced, 2, f"={_total_cell(sheets, number, bill, case)}", bill.capital),
        (priced, 3, f"={price}/{bill.gpus}", bill.per_gpu),
        (powered, 5, f"={power}/1000*8760*{pue}", life.energy_kwh_per_year),
        (powered, 6, f"={kwh}*{tariff}", life.energy_per_year),
        (priced, 7, f"={price}*IF({interest}=0,1/{years},{rate})", life.annuity_per_year),
        (priced and powered, 8, f"={energy}+{annuity}", life.per_year),
        (priced and powered, 9, f"={cost}*{years}", life.total),
    )
    sheet.write_string(row, 0, bill.name)
    sheet.write_string(row, 1, case)
    if powered:
        sheet.write_number(row, 4, bill.draw.typical_w, sheets.count)
    for known, column, formula, amount in formulas:
        if known:
            sheet.write_formula(row, column, formula, sheets.money, getattr(amount, case))
    sheet.write_string(row, LACKING, _lacking(bill))


def _lacking(bill: FabricBill) -> str:
    """Which lines have no price or no power, so that sums are without them; empty if all have."""
    missing = (("price", bill.quote.unpriced), ("power", bill.draw.unknown))
    return "; ".join(
        f"no {what}: {', '.join(dict.fromkeys(line.title for line in lines))}"
        for what, lines in missing
        if lines
    )


def _prices(sheets: _Sheets) -> None:
    """Prices of one unit before discount, each with date, source and confidence."""
    sheet = sheets.prices
    sheet.set_column(0, 0, WIDE_COLUMN)
    sheet.set_column(1, 6, NUMBER_COLUMN)
    sheet.set_column(7, 7, WIDE_COLUMN)
    heads = ["Part", "Unit", *CASES, "Date", "Confidence", "Source", "For"]
    _text(sheet, 0, heads, sheets.head)
    full = 1 / (1 - sheets.inputs["discount"])
    for row, ((part, offer), (price, users)) in enumerate(sheets.parts.items(), start=1):
        _text(sheet, row, [part_words(part), price.unit.partition("/")[2]])
        for column, case in enumerate(CASES, start=2):
            value = getattr(full * offer, case)
            if case != "base" and value == (full * offer).base:  # none stated: it follows the base
                base = xl_rowcol_to_cell(row, 2 + CASES.index("base"))
                sheet.write_formula(row, column, f"={base}", sheets.input, value)
            else:
                sheet.write_number(row, column, value, sheets.input)
        origin = (price.date, price.confidence, price.source, ", ".join(users))
        _text(sheet, row, origin, first=5)


BILL_HEADS = (
    *("Category", "Item", "Specification", "Quantity", "Spares", "Order", "Unit", "Price units"),
    *(f"Each, {case}" for case in CASES),
    *(f"Total, {case}" for case in CASES),
    *("Part number", "Accepted equals", "Notes"),
)
ORDER, PRICE_UNITS, FIRST_EACH, FIRST_TOTAL, NUMBERS, NOTES = 5, 7, 8, 11, 14, 16


def _total_cell(sheets: _Sheets, number: int, bill: FabricBill, case: str) -> str:
    cell = _fixed(1 + len(bill.quote.items), FIRST_TOTAL + CASES.index(case))
    return f"'{sheets.orders[number].name}'!{cell}"


def _bill(sheets: _Sheets, number: int, bill: FabricBill) -> None:
    """One fabric: a row a part, and the total below."""
    sheet = sheets.orders[number]
    sheet.set_column(1, 2, WIDE_COLUMN)
    sheet.set_column(3, NUMBERS - 1, NUMBER_COLUMN)
    sheet.set_column(NUMBERS, NOTES - 1, TEXT_COLUMN)
    sheet.set_column(NOTES, NOTES, WIDE_COLUMN)
    sheet.freeze_panes(1, 2)
    _text(sheet, 0, BILL_HEADS, sheets.head)
    for row, item in enumerate(bill.quote.items, start=1):
        _bill_row(sheets, sheet, row, item)
    last = 1 + len(bill.quote.items)
    sheet.write_string(last, 1, "Total", sheets.bold)
    if bill.cost is None:
        sheet.write_string(last, FIRST_TOTAL, "no price")
        return
    for column, case in enumerate(CASES, start=FIRST_TOTAL):
        area = f"{xl_rowcol_to_cell(1, column)}:{xl_rowcol_to_cell(last - 1, column)}"
        value = getattr(bill.capital, case)
        sheet.write_formula(last, column, f"=SUM({area})", sheets.money, value)


def _bill_row(sheets: _Sheets, sheet: Worksheet, row: int, item: PricedItem) -> None:
    """One line of a bill; its prices follow the sheet Prices and the discount."""
    line, here = item.line, row + 1
    _text(sheet, row, [line.category, line.title, line.specification])
    sheet.write_number(row, 3, line.quantity, sheets.count)
    sheet.write_number(row, 4, line.spares, sheets.count)
    sheet.write_formula(row, ORDER, f"=D{here}+E{here}", sheets.count, line.order)
    sheet.write_string(row, 6, line.unit)
    sheet.write_number(row, PRICE_UNITS, item.price_units, sheets.count)
    _text(sheet, row, [line.part_number, ", ".join(line.accepted)], first=NUMBERS)
    sheet.write_string(row, NOTES, "; ".join(line.notes))
    if item.price is None:
        sheet.write_string(row, FIRST_EACH, "no price")
        return
    for offset, case in enumerate(CASES):
        price = sheets.price_cell(item.price.what, item.offer, case)
        each = f"={price}*H{here}*(1-{_setting(DISCOUNT)})"
        value = getattr(item.unit_price, case)
        sheet.write_formula(row, FIRST_EACH + offset, each, sheets.money, value)
        total = f"=F{here}*{xl_rowcol_to_cell(row, FIRST_EACH + offset)}"
        value = getattr(item.total, case)
        sheet.write_formula(row, FIRST_TOTAL + offset, total, sheets.money, value)


def _drivers(sheets: _Sheets) -> None:
    """Tornado: the total with one part at its low and at its high price."""
    sheet = sheets.drivers
    sheet.set_column(0, 1, WIDE_COLUMN)
    sheet.set_column(2, 5, NUMBER_COLUMN)
    _text(sheet, 0, ["Fabric", "Part", "Units", "Total at low", "at high", "Swing"], sheets.head)
    row = 0
    for number, bill in enumerate(sheets.bills):
        base = _total_cell(sheets, number, bill, "base")
        for driver in bill.drivers:
            row += 1
            _text(sheet, row, [bill.name, part_words(driver.part)])
            units, offer = bill.quote.priced_parts[driver.part]
            sheet.write_number(row, 2, units, sheets.count)
            middle = sheets.price_cell(driver.part, offer, "base")
            for column, case, value in ((3, "low", driver.at_low), (4, "high", driver.at_high)):
                end = sheets.price_cell(driver.part, offer, case)
                formula = f"={base}+C{row + 1}*({end}-{middle})*(1-{_setting(DISCOUNT)})"
                sheet.write_formula(row, column, formula, sheets.money, value)
            swing = f"=E{row + 1}-D{row + 1}"
            sheet.write_formula(row, 5, swing, sheets.money, driver.swing)


def _notes(sheets: _Sheets, rows: Sequence[tuple[str, str]]) -> None:
    """Break-even statements, notes of the fabrics, what is left out, and the inputs."""
    sheet = sheets.notes
    sheet.set_column(0, 0, TEXT_COLUMN)
    sheet.set_column(1, 1, 3 * WIDE_COLUMN)
    for row, cells in enumerate(rows):
        _text(sheet, row, cells)
