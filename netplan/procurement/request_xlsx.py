"""A request for quotation as a spreadsheet: what a supplier fills in, and knows how to print.

The sheet Offer has the terms of a whole offer, the sheet Lines the parts. A hidden sheet holds the
same lines for programs, so that an offer is read back by what was asked, whatever its rows look
like by then. Nothing of it says what netplan thinks that a part costs.
"""

import io
from collections.abc import Sequence

import xlsxwriter
from xlsxwriter.format import Format
from xlsxwriter.utility import xl_rowcol_to_cell
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from netplan.costing.offers import BETWEEN, Request, RequestLine
from netplan.reports.escape import plain
from netplan.reports.xlsx import CREATED, LINE_HEIGHT, SAFE, lines_of, set_page

OFFER, LINES, HIDDEN = "Offer", "Lines", "netplan"
FORM = "netplan request 1"
"""What the hidden sheet begins with: the form of what follows."""

ASKED = (
    *("Lot", "Line", "Part number", "Accepted equals", "Description"),
    *("Unit", "Quantity", "Spares", "Order"),
)
GIVEN = (
    *("Offered part number", "Unit price", "Currency", "Minimum order", "Lead time, weeks"),
    *("Total", "Remarks"),
)
HEADS = (*ASKED, *GIVEN)
HIDDEN_HEADS = (
    *("line", "lot", "part_number", "accepted", "description", "unit", "quantity", "spares"),
)
WIDTHS = dict(zip(HEADS, (12, 8, 16, 16, 38, 6, 9, 8, 9, 16, 12, 9, 10, 10, 15, 20), strict=True))

SUPPLIER, NUMBER, DATE, VALID, CURRENCY = (
    *("Supplier", "Offer number", "Date of the offer", "Valid until"),
    "Currency of all lines, such as USD",
)
TERMS, DELIVERY = "Delivery terms, such as DAP", "Delivery, lump sum"
DISCOUNT = "Discount on all that is ordered"
DISCOUNT_FROM = "... from this sum on (empty: if every line is ordered)"
LABELS = (SUPPLIER, NUMBER, DATE, VALID, CURRENCY, TERMS, DELIVERY, DISCOUNT, DISCOUNT_FROM)
LOT_HEADS = ("Lot", "Lines", "Discount if the whole lot is ordered")

TELLS = (
    (
        "Fill in the shaded cells of this sheet and of the sheet Lines. Prices are for one unit,"
        " before discounts, without tax, as numbers."
    ),
    (
        "Leave a price empty where you do not offer a line. Name the part only where it is another"
        " than the one asked for: one of the accepted equals."
    ),
    (
        "A minimum order is the fewest units that you sell. A lead time counts from the order"
        " to the delivery of the whole line."
    ),
    (
        "Please leave lines, quantities and the hidden sheet as they are: the offer is read by"
        " a program."
    ),
)
FIRST_LABEL, HEAD_ROW = 3, 2
LABEL_COLUMN, VALUE_COLUMN = 46, 22
LARGEST = 1e12
GREY = "#B8C0CA"


def request_xlsx(request: Request) -> bytes:
    """The workbook as bytes; the same request gives the same ones."""
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True, **SAFE}) as book:
        book.set_properties({"title": f"Request for quotation {_inert(request.title)}"})
        book.set_properties({"created": CREATED})
        forms = _Forms(book)
        _offer(book.add_worksheet(OFFER), request, forms)
        _lines(book.add_worksheet(LINES), request, forms)
        _hidden(book.add_worksheet(HIDDEN), request)
    return buffer.getvalue()


def _inert(text: str) -> str:
    return plain(text)[:32_000]


class _Forms:
    """How cells look: what is asked, and what is to be filled in, which is not locked."""

    def __init__(self, book: Workbook) -> None:
        self.bold = book.add_format({"bold": True, "font_size": 14})
        self.head = book.add_format(
            {"bold": True, "text_wrap": True, "valign": "top", "bottom": 1, "bg_color": "#E9EDF2"}
        )
        plain_ = {"text_wrap": True, "valign": "top", "border": 1, "border_color": GREY}
        self.text = book.add_format(plain_)
        self.count = book.add_format(plain_ | {"num_format": "#,##0"})
        self.money = book.add_format(plain_ | {"num_format": "#,##0.00"})
        blank = plain_ | {"bg_color": "#FFF6D6", "locked": False}
        self.words = book.add_format(blank | {"num_format": "@"})
        self.free = book.add_format(blank)
        self.price = book.add_format(blank | {"num_format": "#,##0.00"})
        self.units = book.add_format(blank | {"num_format": "#,##0"})
        self.weeks = book.add_format(blank | {"num_format": "0.#"})
        self.share = book.add_format(blank | {"num_format": "0.0%"})
        self.total = book.add_format({"bold": True, "num_format": "#,##0.00", "top": 1})


def _text(sheet: Worksheet, row: int, column: int, text: str, form: Format | None = None) -> None:
    sheet.write_string(row, column, _inert(text), form)


def _protect(sheet: Worksheet) -> None:
    """Lock what is asked, without a password: a hand that slips is stopped, a will is not."""
    able = ("format_columns", "format_rows", "sort", "autofilter", "select_locked_cells")
    sheet.protect("", dict.fromkeys(able, True))


def _number(sheet: Worksheet, row: int, column: int, most: float, what: str) -> None:
    sheet.data_validation(
        row,
        column,
        row,
        column,
        {
            "validate": "decimal",
            "criteria": "between",
            "minimum": 0,
            "maximum": most,
            "error_title": "Not a number",
            "error_message": f"{what}: a number of at least 0, without unit or currency.",
        },
    )


def _offer(sheet: Worksheet, request: Request, forms: _Forms) -> None:
    """Terms of the whole offer, and discounts on whole lots."""
    sheet.set_column(0, 0, LABEL_COLUMN)
    sheet.set_column(1, 2, VALUE_COLUMN)
    _text(sheet, 0, 0, "Request for quotation", forms.bold)
    _text(sheet, 1, 0, request.title)
    for row, label in enumerate(LABELS, start=FIRST_LABEL):
        _text(sheet, row, 0, label, forms.text)
        form = {DELIVERY: forms.price, DISCOUNT_FROM: forms.price, DISCOUNT: forms.share}
        sheet.write_blank(row, 1, None, form.get(label, forms.free))
        if label in form:
            _number(sheet, row, 1, 1 if label == DISCOUNT else LARGEST, label)
    start = FIRST_LABEL + len(LABELS) + 1
    sheet.set_row(start, 2 * LINE_HEIGHT)
    for column, head in enumerate(LOT_HEADS):
        _text(sheet, start, column, head, forms.head)
    for row, lot in enumerate(request.lots, start=start + 1):
        _text(sheet, row, 0, lot, forms.text)
        lines = sum(line.lot == lot for line in request.lines)
        sheet.write_number(row, 1, lines, forms.count)
        sheet.write_blank(row, 2, None, forms.share)
        _number(sheet, row, 2, 1, "A discount")
    last = start + len(request.lots) + 1
    wrap = forms.text
    for row, text in enumerate(TELLS, start=last + 1):
        sheet.merge_range(row, 0, row, 2, text, wrap)
        sheet.set_row(row, 32)
    end = last + len(TELLS) + 1
    _text(sheet, end, 0, f"Request {request.fingerprint}")
    sheet.print_area(0, 0, end, 2)
    set_page(sheet, f"Request {request.fingerprint}", landscape=False)
    _protect(sheet)


def _lines(sheet: Worksheet, request: Request, forms: _Forms) -> None:
    """One row a line: what is asked, and what to fill in."""
    for column, head in enumerate(HEADS):
        sheet.set_column(column, column, WIDTHS[head])
        _text(sheet, HEAD_ROW, column, head, forms.head)
    _text(sheet, 0, 0, f"Lines: {request.title}", forms.bold)
    for row, line in enumerate(request.lines, start=HEAD_ROW + 1):
        _line(sheet, row, line, forms)
    last = HEAD_ROW + len(request.lines)
    total = HEADS.index("Total")
    area = f"{xl_rowcol_to_cell(HEAD_ROW + 1, total)}:{xl_rowcol_to_cell(last, total)}"
    _text(sheet, last + 1, total - 1, "Sum", forms.total)
    sheet.write_formula(last + 1, total, f"=SUM({area})", forms.total, 0)
    sheet.autofilter(HEAD_ROW, 0, last, len(HEADS) - 1)
    sheet.set_row(HEAD_ROW, 2 * LINE_HEIGHT)
    sheet.freeze_panes(HEAD_ROW + 1, 2)
    sheet.repeat_rows(HEAD_ROW)
    sheet.print_area(0, 0, last + 1, len(HEADS) - 1)
    set_page(sheet, f"Request {request.fingerprint}")
    _protect(sheet)


def _line(sheet: Worksheet, row: int, line: RequestLine, forms: _Forms) -> None:
    asked: Sequence[str | int] = (
        *(line.lot, line.id, line.part_number, BETWEEN.join(line.accepted), line.description),
        *(line.unit, line.quantity, line.spares, line.order),
    )
    texts = {head: str(value) for head, value in zip(ASKED, asked, strict=True)}
    sheet.set_row(
        row, LINE_HEIGHT * max(lines_of(text, WIDTHS[head]) for head, text in texts.items())
    )
    for column, value in enumerate(asked):
        if isinstance(value, int):
            sheet.write_number(row, column, value, forms.count)
        else:
            _text(sheet, row, column, value, forms.text)
    looks = dict(zip(GIVEN, (forms.words, forms.price, forms.words, forms.units), strict=False))
    for head in GIVEN:
        column = HEADS.index(head)
        if head != "Total":
            form = {"Lead time, weeks": forms.weeks, "Remarks": forms.free}.get(head)
            sheet.write_blank(row, column, None, form or looks[head])
        if head in ("Unit price", "Minimum order", "Lead time, weeks"):
            _number(sheet, row, column, LARGEST, head)
    price, order, minimum = (
        xl_rowcol_to_cell(row, HEADS.index(head))
        for head in ("Unit price", "Order", "Minimum order")
    )
    total = f'=IF({price}="","",{price}*MAX({order},{minimum}))'
    sheet.write_formula(row, HEADS.index("Total"), total, forms.money, "")


def _hidden(sheet: Worksheet, request: Request) -> None:
    """The request as programs read it."""
    for row, pair in enumerate(
        (("form", FORM), ("fingerprint", request.fingerprint), ("title", request.title))
    ):
        for column, text in enumerate(pair):
            sheet.write_string(row, column, text)
    for column, head in enumerate(HIDDEN_HEADS):
        sheet.write_string(HEAD_ROW + 1, column, head)
    for row, line in enumerate(request.lines, start=HEAD_ROW + 2):
        texts = (line.id, line.lot, line.part_number, BETWEEN.join(line.accepted))
        for column, text in enumerate((*texts, line.description, line.unit)):
            sheet.write_string(row, column, text)
        sheet.write_number(row, len(HIDDEN_HEADS) - 2, line.quantity)
        sheet.write_number(row, len(HIDDEN_HEADS) - 1, line.spares)
    sheet.hide()
