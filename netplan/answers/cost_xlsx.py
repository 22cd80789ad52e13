"""The bill as a spreadsheet: a buyer changes a price, a discount or a tariff, and totals follow.

The first sheet is the order: the recommended bill alone. The others prove it: totals of all
fabrics, prices with their sources, the bills of the other fabrics, as far as these have a price.

A bill has columns to negotiate in: a target for every line, which is the book's price until the
buyer writes another, what a supplier offers, and the difference of both. Each sheet is printed one
page wide; what stands behind a bill's difference (factors, ends of prices, notes) is not printed.

Every formula is written with its value, so that programs that do not calculate read the same
numbers as the JSON. Text from users' files is written as text: never a formula, a link or a number.
"""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import xlsxwriter
from xlsxwriter.utility import xl_rowcol_to_cell
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from netplan.costing.fabric_bill import FabricBill
from netplan.costing.pricing import PricedItem
from netplan.costing.ranges import Range
from netplan.reports import xlsx
from netplan.reports.quantities import part_words
from netplan.reports.sections import Data
from netplan.setup.money.pricing import CASES, prices_in_use
from netplan.units import KILO

MAX_SHEET_NAME = 31
WIDE_COLUMN, TEXT_COLUMN, NUMBER_COLUMN, NARROW_COLUMN = 44, 26, 15, 12


class Order(NamedTuple):
    """What is recommended, or the cheapest: its bill, a title, and what is said of it."""

    bill: FabricBill
    title: str
    lines: tuple[str, ...]


def cost_xlsx(
    inputs: Mapping[str, Any],
    currency: str,
    bills: Sequence[FabricBill],
    notes: Iterable[tuple[str, str]],
    tables: Sequence[Data] = (),
    *,
    order: Order,
) -> bytes:
    """The workbook as bytes: Order, Summary, Prices, the other bills, Drivers, Notes; tables.

    Parameters
    ----------
    inputs
        The question with all defaults.
    currency
        Of all amounts.
    bills
        Of all fabrics; those without a whole price have no sheet.
    notes
        Subjects and what is to be said about them.
    tables
        More tables, a sheet each.
    order
        Which bill stands first, and what is said of it.
    """
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True, **xlsx.SAFE}) as book:
        book.set_properties({"title": "Bill of materials", "created": xlsx.CREATED})
        sheets = _Sheets(book, inputs, bills, currency, order)
        for number, bill in enumerate(sheets.bills):
            _bill(sheets, number, bill)
        _summary(sheets)
        _prices(sheets)
        _drivers(sheets)
        _notes(sheets, [*notes, *(("Input", f"{key}: {value}") for key, value in inputs.items())])
        xlsx.write_tables(book, tables, sheets.title)
    return buffer.getvalue()


class _Sheets:
    """The sheets of one workbook, and where the numbers stand that formulas refer to."""

    def __init__(
        self,
        book: Workbook,
        inputs: Mapping[str, Any],
        bills: Sequence[FabricBill],
        currency: str,
        order: Order,
    ) -> None:
        self.inputs, self.currency, self.order = inputs, currency, order
        others = [bill for bill in bills if bill is not order.bill]
        priced = [bill for bill in others if bill.complete]
        self.bills = (order.bill, *priced)
        self.without = [bill for bill in others if not bill.complete]
        self.orders = [book.add_worksheet("Order")]
        self.summary = book.add_worksheet("Summary")
        self.prices = book.add_worksheet("Prices")
        # Without the signs that spreadsheets refuse, short, distinct.
        plain = (re.sub(r"[^\w .-]", "-", bill.name) for bill in priced)
        names = (f"Bill {number} {name}" for number, name in enumerate(plain, start=2))
        self.orders += [book.add_worksheet(name[:MAX_SHEET_NAME].strip()) for name in names]
        self.drivers = book.add_worksheet("Drivers")
        self.notes = book.add_worksheet("Notes")
        self.bold = book.add_format({"bold": True})
        head = {"bold": True, "bottom": 1, "text_wrap": True}
        self.head = book.add_format(head)
        self.head_right = book.add_format(head | {"align": "right"})
        top = {"valign": "top"}
        self.money = book.add_format(top | {"num_format": "#,##0"})
        self.each = book.add_format(top | {"num_format": "#,##0.00"})
        self.count = book.add_format(top | {"num_format": "#,##0"})
        self.kilo = book.add_format(top | {"num_format": "#,##0.0"})
        self.factor = book.add_format(top | {"num_format": "0.000"})
        self.none = book.add_format(top | {"align": "right"})
        self.wrap = book.add_format(top | {"text_wrap": True})
        self.indent_wrap = book.add_format(top | {"text_wrap": True, "align": "left", "indent": 1})
        self.indent = book.add_format(top | {"align": "left", "indent": 1})
        self.sum = book.add_format({"bold": True, "num_format": "#,##0", "top": 1})
        self.large = book.add_format({"bold": True, "font_size": 14})
        # The cells that a buyer may change.
        shade = top | {"bg_color": "#FFF6D6"}
        self.input = book.add_format(shade | {"num_format": "General"})
        self.share = book.add_format(shade | {"num_format": "0.0#%"})
        self.price = book.add_format(shade | {"num_format": "#,##0.00"})
        self.title = f"Bill of materials for {inputs['gpus']:,} GPUs, amounts in {currency}"
        self.parts = prices_in_use(self.bills)

    def price_cell(self, part: str, offer: Range, case: str) -> str:
        """Cell of a part's price on the sheet Prices."""
        row = 1 + list(self.parts).index((part, offer))
        return f"Prices!{_fixed(row, 2 + CASES.index(case))}"


def _fixed(row: int, column: int) -> str:
    """Address of a cell that does not move when a formula is copied, such as ``$B$4``."""
    return str(xl_rowcol_to_cell(row, column, row_abs=True, col_abs=True))


DISCOUNT, YEARS, FIRST_OPEX = 3, 4, 5
LACKING = 10
"""Column of what the sums of a fabric leave out."""
OPEX_ROWS = {
    "PUE": "pue",
    "Tariff, per kWh": "tariff_per_kwh",
    "Interest, a year": "interest",
    "Maintenance a year, of the price": "maintenance",
    "Support a year, of the price": "support",
    "Spares a year, of the price": "yearly_spares",
}
"""Settings by their name in the inputs."""
SHARES = frozenset(OPEX_ROWS.values()) - {"pue", "tariff_per_kwh"}


def _setting(row: int, case: str = "low") -> str:
    """Cell of a setting on the sheet Summary."""
    return f"Summary!{_fixed(row, 1 + CASES.index(case))}"


def _text(
    sheet: Worksheet, row: int, cells: Sequence[str], form: object = None, *, first: int = 0
) -> None:
    for column, cell in enumerate(cells, start=first):
        sheet.write_string(row, column, cell, form)


WORDY = frozenset(
    {
        *("Setting", "Fabric", "Case", "Not in it", "Over the years, discounted"),
        *("Part", "Unit", "Date", "Confidence", "Source", "For"),
        *("Category", "Item", "Specification", "Part number", "Accepted equals", "Notes"),
    }
)
"""Heads of columns of text; those of numbers stand to the right, as their numbers do."""


def _heads(sheets: _Sheets, sheet: Worksheet, row: int, heads: Sequence[str]) -> None:
    sheet.set_row(row, 2 * xlsx.LINE_HEIGHT)
    for column, head in enumerate(heads):
        form = sheets.head if head in WORDY else sheets.head_right
        sheet.write_string(row, column, head, form)


def _summary(sheets: _Sheets) -> None:
    """Settings to change, and the totals of every fabric: of a year, and over the years."""
    sheet, inputs = sheets.summary, sheets.inputs
    sheet.set_column(0, 0, TEXT_COLUMN + 6)
    sheet.set_column(1, 1, NARROW_COLUMN)
    sheet.set_column(2, LACKING - 1, NUMBER_COLUMN)
    sheet.set_column(LACKING, LACKING, WIDE_COLUMN)
    sheet.write_string(0, 0, sheets.title, sheets.bold)
    sheet.write_string(1, 0, "Shaded cells may be changed; all sheets follow.")
    _heads(sheets, sheet, 2, ["Setting", *CASES])
    sheet.write_string(DISCOUNT, 0, "Discount on every price")
    sheet.write_number(DISCOUNT, 1, inputs["discount"], sheets.share)
    sheet.write_string(YEARS, 0, "Years of use")
    sheet.write_number(YEARS, 1, inputs["years"], sheets.input)
    for row, (name, key) in enumerate(OPEX_ROWS.items(), start=FIRST_OPEX):
        sheet.write_string(row, 0, name)
        form = sheets.share if key in SHARES else sheets.input
        for column, case in enumerate(CASES, start=1):
            sheet.write_number(row, column, float(f"{inputs['running'][key][case]:.9g}"), form)
    money, years = sheets.currency, "Cost of all years"
    heads = ["Fabric", "Case", f"Price, {money}", f"Price a GPU, {money}", "Power, kW"]
    heads += ["Energy a year, MWh"]
    amounts = ("Energy a year", "Annuity a year", "Cost a year", years)
    heads += [*(f"{name}, {money}" for name in amounts), "Not in it"]
    start = FIRST_OPEX + len(OPEX_ROWS) + 1
    _heads(sheets, sheet, start, heads)
    rows = len(sheets.bills) * len(CASES)
    second = start + rows + 2
    yearly = ("Price", "Energy a year", "Maintenance a year", "Support a year", "Spares a year")
    heads = ["Over the years, discounted", "Case", *(f"{name}, {money}" for name in yearly)]
    heads += ["Years that count", f"Present value, {money}"]
    _heads(sheets, sheet, second, heads)
    for number, bill in enumerate(sheets.bills):
        for offset, case in enumerate(CASES, start=number * len(CASES) + 1):
            _summary_row(sheets, start + offset, number, bill, case)
            _life_row(sheets, second + offset, start + offset, bill, case)
    for row, bill in enumerate(sheets.without, start=second + rows + 2):
        text = f"{bill.name} has no whole price, and so no sheet: {_lacking(bill)}."
        sheet.write_string(row, 0, text)
    sheet.print_area(0, 0, second + rows + 1 + len(sheets.without), LACKING)
    xlsx.set_page(sheet, sheets.title)


def _opex_cells(case: str) -> Mapping[str, str]:
    """Cells of the settings of one case, by their names in the inputs."""
    rows = enumerate(OPEX_ROWS.values(), start=FIRST_OPEX)
    return {key: _setting(row, case) for row, key in rows}


def _summary_row(sheets: _Sheets, row: int, number: int, bill: FabricBill, case: str) -> None:
    """One fabric in one case: every amount follows from the one before it, as far as known."""
    sheet, life = sheets.summary, bill.life
    price, power, mwh, energy, annuity, cost = (f"{column}{row + 1}" for column in "CEFGHI")
    years, cells = _setting(YEARS), _opex_cells(case)
    interest = cells["interest"]
    rate = f"{interest}/(1-(1+{interest})^-{years})"
    priced, powered = bill.cost is not None, bill.draw.known
    total = _total_cell(sheets, number, bill, case) if priced else ""
    used = (1 / KILO) * life.energy_kwh_per_year
    formulas = (
        (priced, 2, f"={total}", bill.capital),
        (priced, 3, f"={price}/{bill.gpus}", bill.per_gpu),
        (powered, 5, f"={power}*8760/1000*{cells['pue']}", used),
        (powered, 6, f"={mwh}*1000*{cells['tariff_per_kwh']}", life.energy_per_year),
        (priced, 7, f"={price}*IF({interest}=0,1/{years},{rate})", life.annuity_per_year),
        (priced and powered, 8, f"={energy}+{annuity}", life.per_year),
        (priced and powered, 9, f"={cost}*{years}", life.total),
    )
    _text(sheet, row, [bill.name, case], sheets.wrap)
    if powered:
        sheet.write_number(row, 4, round(bill.draw.typical_w / KILO, 6), sheets.kilo)
    for known, column, formula, amount in formulas:
        if known:
            form = sheets.kilo if column == 5 else sheets.money  # noqa: PLR2004 - energy
            sheet.write_formula(row, column, formula, form, _cents(getattr(amount, case)))
    if case == "base":
        lacking = _lacking(bill)
        sheet.write_string(row, LACKING, lacking, sheets.indent_wrap)
        sheet.set_row(row, xlsx.LINE_HEIGHT * xlsx.lines_of(lacking, WIDE_COLUMN))


OTHER_END = {"low": "high", "base": "base", "high": "low"}
"""Most interest makes later years count least."""


def _life_row(sheets: _Sheets, row: int, above: int, bill: FabricBill, case: str) -> None:
    """One fabric in one case: price and yearly sums, and what they are worth at the start."""
    sheet, life, cells = sheets.summary, bill.life, _opex_cells(case)
    interest = _opex_cells(OTHER_END[case])["interest"]
    years, price = _setting(YEARS), f"C{row + 1}"
    count = f"(1-(1+{interest})^-{years})/{interest}"
    priced, powered = bill.cost is not None, bill.draw.known
    formulas = (
        (priced, 2, f"=C{above + 1}", life.capital, sheets.money),
        (powered, 3, f"=G{above + 1}", life.energy_per_year, sheets.money),
        (priced, 4, f"={price}*{cells['maintenance']}", life.maintenance_per_year, sheets.money),
        (priced, 5, f"={price}*{cells['support']}", life.support_per_year, sheets.money),
        (priced, 6, f"={price}*{cells['yearly_spares']}", life.spares_per_year, sheets.money),
        (True, 7, f"=1*IF({interest}=0,{years},{count})", life.discounting, sheets.factor),
        (
            priced and powered,
            8,
            f"={price}+SUM(D{row + 1}:G{row + 1})*H{row + 1}",
            life.present_value,
            sheets.money,
        ),
    )
    _text(sheet, row, [bill.name, case], sheets.wrap)
    for known, column, formula, amount, form in formulas:
        if known:
            value = getattr(amount, case)
            value = round(value, 6) if form is sheets.factor else _cents(value)
            sheet.write_formula(row, column, formula, form, value)


def _cents(amount: float) -> float:
    """An amount to the cent: what stands beside a formula is what people pay."""
    return round(amount, 2)


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
    sheet.set_column(0, 0, TEXT_COLUMN + 10)
    sheet.set_column(1, 6, NARROW_COLUMN)
    sheet.set_column(7, 8, WIDE_COLUMN)
    prices = [f"{case}, {sheets.currency}" for case in CASES]
    heads = ["Part", "Unit", *prices, "Date", "Confidence", "Source", "For"]
    _heads(sheets, sheet, 0, heads)
    full = 1 / (1 - sheets.inputs["discount"])
    for row, ((part, offer), (price, users)) in enumerate(sheets.parts.items(), start=1):
        origin = (price.date, price.confidence, price.source, ", ".join(users))
        _text(sheet, row, [part_words(part), price.unit.partition("/")[2]], sheets.wrap)
        for column, case in enumerate(CASES, start=2):
            value = getattr(full * offer, case)
            if case != "base" and value == (full * offer).base:  # none stated: it follows the base
                base = xl_rowcol_to_cell(row, 2 + CASES.index("base"))
                sheet.write_formula(row, column, f"={base}", sheets.price, round(value, 6))
            else:
                sheet.write_number(row, column, round(value, 6), sheets.price)
        _text(sheet, row, origin, sheets.wrap, first=5)
        high = max(xlsx.lines_of(text, WIDE_COLUMN) for text in origin[2:])
        sheet.set_row(row, xlsx.LINE_HEIGHT * high)
    _listed(sheets, sheet, (0, len(sheets.parts)), len(heads), "Prices")


def _listed(
    sheets: _Sheets, sheet: Worksheet, ends: tuple[int, int], columns: int, title: str
) -> None:
    """A list between its row of heads and its last row: filtered, frozen and printed by heads."""
    head, last = ends
    if last > head:
        sheet.autofilter(head, 0, last, columns - 1)
    sheet.freeze_panes(head + 1, 2)
    sheet.repeat_rows(head)
    sheet.print_area(0, 0, last, columns - 1)
    xlsx.set_page(sheet, sheets.title, title)


HEADS = 3
"""Row of the heads of a bill, below its title and what is said of it."""

BILL_WIDTHS = {
    "Category": 13,
    "Item": 28,
    "Specification": 30,
    "Part number": 18,
    "Quantity": 10,
    "Spares": 8,
    "Order": 10,
    "Unit": 8,
    "Each": 13,
    "Total at low": 16,
    "Total": 16,
    "Total at high": 16,
    "Target, each": 13,
    "Offered, each": 13,
    "Difference, each": 13,
    "Difference, order": 15,
    "Priced units in one": 11,
    "Each at low": 13,
    "Each at high": 13,
    "Accepted equals": 24,
    "Notes": 50,
}
"""Columns of a bill and their widths; the last five are not printed."""
AMOUNTS = tuple(head for head in BILL_WIDTHS if head.startswith(("Each", "Total", "Target")))
AMOUNTS += ("Offered, each", "Difference, each", "Difference, order")
"""Columns of money."""
EACH = {"low": "Each at low", "base": "Each", "high": "Each at high"}
TOTAL = {"low": "Total at low", "base": "Total", "high": "Total at high"}
AT = {head: column for column, head in enumerate(BILL_WIDTHS)}
PRINTED = AT["Difference, order"] + 1
PRINTED_WIDTH = sum([*BILL_WIDTHS.values()][:PRINTED]) - BILL_WIDTHS["Part number"]
FIRST_TOTAL = AT["Total at low"]
CATEGORIES = {"hb-gear": "inside HB domains", "cards": "network cards"}
"""Categories whose name in the catalogs is no word of people."""


def _letter(head: str, row: int) -> str:
    """Cell of a column of the bill in a row, such as ``Q7``."""
    return str(xl_rowcol_to_cell(row, AT[head]))


def _total_cell(sheets: _Sheets, number: int, bill: FabricBill, case: str) -> str:
    cell = _fixed(HEADS + 1 + len(bill.quote.items), AT[TOTAL[case]])
    return f"'{sheets.orders[number].name}'!{cell}"


def _bill(sheets: _Sheets, number: int, bill: FabricBill) -> None:
    """One fabric: what is said of it, a row a part, the total and that of a GPU below."""
    sheet, first = sheets.orders[number], HEADS + 1
    for head, width in BILL_WIDTHS.items():
        sheet.set_column(AT[head], AT[head], width)
    if not any(item.line.part_number for item in bill.quote.items):
        sheet.set_column(AT["Part number"], AT["Part number"], None, None, {"hidden": True})
    _said_above(sheets, sheet, number, bill)
    named = {head: f"{head}, {sheets.currency}" for head in AMOUNTS}
    _heads(sheets, sheet, HEADS, [named.get(head, head) for head in BILL_WIDTHS])
    for row, item in enumerate(bill.quote.items, start=first):
        _bill_row(sheets, sheet, row, item)
    last = first + len(bill.quote.items)
    sheet.write_string(last, AT["Item"], "Total", sheets.bold)
    _listed(sheets, sheet, (HEADS, last - 1), PRINTED, bill.name)
    sheet.print_area(0, 0, last + 1, PRINTED - 1)
    difference = AT["Difference, order"]
    area = f"{_letter('Difference, order', first)}:{_letter('Difference, order', last - 1)}"
    sheet.write_formula(last, difference, f"=SUM({area})", sheets.sum, 0)
    if bill.cost is None:
        sheet.write_string(last, FIRST_TOTAL, "no price")
        return
    sheet.write_string(last + 1, AT["Item"], "For one GPU")
    for column, case in enumerate(CASES, start=FIRST_TOTAL):
        area = f"{xl_rowcol_to_cell(first, column)}:{xl_rowcol_to_cell(last - 1, column)}"
        value = _cents(getattr(bill.capital, case))
        sheet.write_formula(last, column, f"=SUM({area})", sheets.sum, value)
        total = f"={xl_rowcol_to_cell(last, column)}/{bill.gpus}"
        sheet.write_formula(last + 1, column, total, sheets.money, _cents(value / bill.gpus))


def _said_above(sheets: _Sheets, sheet: Worksheet, number: int, bill: FabricBill) -> None:
    """Title of a bill, and what is said of it."""
    lacking = _lacking(bill)
    missing = (f"Not in the sums: {lacking}.",) if lacking else ()
    title, lines = f"{bill.name}, beside the order", ("To compare.", *missing)
    if not number:
        title, lines = sheets.order.title, (*sheets.order.lines, *missing)
    text = "\n".join(lines)
    sheet.write_string(0, 0, title, sheets.large)
    sheet.merge_range(1, 0, 1, PRINTED - 1, "", sheets.wrap)
    sheet.write_string(1, 0, text, sheets.wrap)
    high = sum(xlsx.lines_of(line, PRINTED_WIDTH) for line in lines)
    sheet.set_row(1, xlsx.LINE_HEIGHT * min(high, xlsx.MOST_LINES))
    sheet.write_string(
        2,
        0,
        f"Amounts in {sheets.currency}. Shaded cells may be changed, prices and discount on the"
        " sheets Prices and Summary: all sums follow.",
    )


def _bill_row(sheets: _Sheets, sheet: Worksheet, row: int, item: PricedItem) -> None:
    """One line of a bill; its prices follow the sheet Prices and the discount."""
    line = item.line
    texts = {
        "Category": CATEGORIES.get(line.category, line.category),
        "Item": line.title,
        "Specification": line.specification,
        "Part number": line.part_number,
        "Unit": line.unit,
        "Accepted equals": ", ".join(line.accepted),
        "Notes": "; ".join(line.notes),
    }
    for head, text in texts.items():
        sheet.write_string(row, AT[head], text, sheets.indent if head == "Unit" else sheets.wrap)
    high = max(xlsx.lines_of(text, BILL_WIDTHS[head]) for head, text in texts.items())
    sheet.set_row(row, xlsx.LINE_HEIGHT * high)
    counts = (("Quantity", line.quantity), ("Spares", line.spares))
    for head, count in (*counts, ("Priced units in one", item.price_units)):
        sheet.write_number(row, AT[head], count, sheets.count)
    order = f"={_letter('Quantity', row)}+{_letter('Spares', row)}"
    sheet.write_formula(row, AT["Order"], order, sheets.count, line.order)
    _negotiated(sheets, sheet, row, item)
    if item.price is None:
        sheet.write_string(row, AT["Each"], "no price", sheets.none)
        return
    for case in CASES:
        price, units = sheets.price_cell(item.what, item.offer, case), "Priced units in one"
        price_formula = f"={price}*{_letter(units, row)}*(1-{_setting(DISCOUNT)})"
        value = round(getattr(item.unit_price, case), 6)
        sheet.write_formula(row, AT[EACH[case]], price_formula, sheets.each, value)
        total = f"={_letter('Order', row)}*{_letter(EACH[case], row)}"
        value = _cents(getattr(item.total, case))
        sheet.write_formula(row, AT[TOTAL[case]], total, sheets.money, value)


def _negotiated(sheets: _Sheets, sheet: Worksheet, row: int, item: PricedItem) -> None:
    """Target, which is the book's price until a buyer writes another; offered; difference.

    The difference is empty as long as one of both is.
    """
    target, offered = _letter("Target, each", row), _letter("Offered, each", row)
    if item.price is None:
        sheet.write_blank(row, AT["Target, each"], None, sheets.price)
    else:
        base, value = f"={_letter('Each', row)}", round(item.unit_price.base, 6)
        sheet.write_formula(row, AT["Target, each"], base, sheets.price, value)
    sheet.write_blank(row, AT["Offered, each"], None, sheets.price)
    for head, less in (
        ("Difference, each", f"{offered}-{target}"),
        ("Difference, order", f"({offered}-{target})*{_letter('Order', row)}"),
    ):
        formula = f'=IF({target}*{offered}=0,"",{less})'
        sheet.write_formula(row, AT[head], formula, sheets.each, "")


def _drivers(sheets: _Sheets) -> None:
    """Tornado: the total with one part at its low and at its high price."""
    sheet = sheets.drivers
    sheet.set_column(0, 0, TEXT_COLUMN)
    sheet.set_column(1, 1, WIDE_COLUMN)
    sheet.set_column(2, 5, NUMBER_COLUMN)
    amounts = [f"{name}, {sheets.currency}" for name in ("Total at low", "at high", "Swing")]
    heads = ["Fabric", "Part", "Units", *amounts]
    _heads(sheets, sheet, 0, heads)
    row = 0
    for number, bill in enumerate(sheets.bills):
        if bill.cost is None:
            continue
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
                sheet.write_formula(row, column, formula, sheets.money, _cents(value))
            swing = f"=E{row + 1}-D{row + 1}"
            sheet.write_formula(row, 5, swing, sheets.money, _cents(driver.swing))
    _listed(sheets, sheet, (0, row), len(heads), "What drives the price")


def _notes(sheets: _Sheets, rows: Sequence[tuple[str, str]]) -> None:
    """Break-even statements, notes of the fabrics, what is left out, and the inputs."""
    sheet = sheets.notes
    sheet.set_column(0, 0, TEXT_COLUMN)
    sheet.set_column(1, 1, 2 * WIDE_COLUMN)
    for row, cells in enumerate(rows):
        _text(sheet, row, cells, sheets.wrap)
        high = xlsx.lines_of(cells[1], 2 * WIDE_COLUMN)
        sheet.set_row(row, xlsx.LINE_HEIGHT * min(high, xlsx.MOST_LINES))
    xlsx.set_page(sheet, sheets.title, "Notes", landscape=False)
