"""Filled-in requests read back: the request they answer, and what they offer.

Every fault of a file is one line with file, sheet and cell; a file with one is no offer.

A request for quotation as a spreadsheet: what a supplier fills in, and knows how to print.

The sheet Offer has the terms of a whole offer, the sheet Lines the parts. A hidden sheet holds the
same lines for programs, so that an offer is read back by what was asked, whatever its rows look
like by then. Nothing of it says what netplan thinks that a part costs.
"""

import datetime as dt
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import xlsxwriter
from xlsxwriter.format import Format
from xlsxwriter.utility import xl_rowcol_to_cell
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from netplan.costing.offers import BETWEEN, Offer, OfferedLine, Request, RequestLine
from netplan.errors import CatalogError
from netplan.files import reachable
from netplan.records import replace
from netplan.reports.escape import strip_control
from netplan.reports.xlsx import CREATED, LINE_HEIGHT, SAFE, lines_of, set_page
from netplan.spreadsheets import Cell, Sheet, address, read_workbook

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
    return strip_control(text)[:32_000]


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


MAX_FILE_BYTES = 16 << 20
MAX_LINES, MAX_UNITS = 1_000, 10**9
MAX_WEEKS = 520.0
NAME_LENGTH, WORDS_LENGTH = 40, 400
HEAD_ROWS = 40
"""Rows that the heads of the lines are looked for in [1]."""

EXCEL_DAY_0 = dt.date(1899, 12, 30)
DATES = range(20_000, 80_000)
"""Numbers that a spreadsheet means a day by, from 1954 on."""

CODE = re.compile(r"[A-Z]{3}")
Exchange = Callable[[str], float]
"""What one of a currency is in that of the answer; CatalogError where no rate is known."""


class _OfferReader:
    """One file: its sheets, rates of the currencies it names, and what is wrong with it."""

    def __init__(self, path: Path, exchange: Exchange) -> None:
        self.path, self.exchange = path, exchange
        self.faults: list[str] = []
        self.rates: dict[str, float | None] = {}
        try:
            size = reachable(path).stat().st_size
        except (OSError, ValueError):
            size = 0  # reading says what is wrong
        if size > MAX_FILE_BYTES:
            raise CatalogError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB: no filled request")
        self.sheets = read_workbook(path, (OFFER, LINES, HIDDEN))

    def fault(self, sheet: str, place: tuple[int, int], text: str) -> None:
        """Keep a fault, with its place."""
        self.faults.append(f"{self.path}: {sheet}!{address(*place)}: {text}")

    def number(
        self, sheet: Sheet, place: tuple[int, int], what: str, most: float, *, below: bool = False
    ) -> float | None:
        """A number of at least 0 in a cell; None where nothing stands or a fault is kept."""
        cell = sheet.cell(*place)
        if cell is None or (cell.kind == "text" and not cell.text.strip()):
            return None
        if cell.kind == "none":
            advice = "open the file in a spreadsheet program and save it, or type the number"
            self.fault(sheet.name, place, f"{what}: a formula saved without its value: {advice}")
        elif cell.kind != "number":
            self.fault(sheet.name, place, f"{what}: {_cell_words(cell)}: type the number alone")
        elif cell.number < 0:
            self.fault(sheet.name, place, f"{what} {cell.number:,g} is negative: give 0 or more")
        elif cell.number > most or (below and cell.number == most):
            allowed = "below 100%" if below else f"up to {most:,.0f}"
            got = f"{cell.number:.0%}" if below else f"{cell.number:,g}"
            self.fault(sheet.name, place, f"{what} {got} is out of range: give {allowed}")
        else:
            return cell.number
        return None

    def words(self, sheet: Sheet, place: tuple[int, int]) -> str:
        """What stands in a cell as text, dates and numbers too, cut to a length."""
        cell = sheet.cell(*place)
        if cell is None or cell.kind in ("none", "error"):
            return ""
        if cell.kind == "number":
            return f"{cell.number:.15g}"
        return strip_control(" ".join(cell.text.split()))[:WORDS_LENGTH]

    def rate(self, currency: str, sheet: str, place: tuple[int, int]) -> float | None:
        """What one is in the currency of the answer; None where a fault is kept, at first."""
        if currency not in self.rates:
            self.rates[currency] = None
            if not CODE.fullmatch(currency):
                fault = f"{currency[:20]!r} is no currency: write its three letters, such as USD"
                self.fault(sheet, place, fault)
                return None
            try:
                self.rates[currency] = self.exchange(currency)
            except CatalogError as error:
                self.fault(sheet, place, f"currency {currency}: {error}")
        return self.rates[currency]


def _cell_words(cell: Cell) -> str:
    """What a cell holds that is no number."""
    if cell.kind == "error":
        return f"the formula says {cell.text:.12}"
    if cell.kind == "truth":
        return "a truth value, not a number"
    kind = "a formula as text" if cell.text.lstrip(" '").startswith("=") else "text, not a number"
    return f"{strip_control(cell.text.strip())[:40]!r} is {kind}"


def _request(reader: _OfferReader) -> Request:
    """The request that a file was written as, by its hidden sheet; refuses one that was changed."""
    path, sheets = reader.path, reader.sheets
    for name in (HIDDEN, LINES, OFFER):
        if name not in sheets:
            why = "hidden, it says what was asked" if name == HIDDEN else "it belongs to a request"
            raise CatalogError(
                f"{path}: sheet {name} is missing ({why}): fill in the file of netplan offers"
                " --template"
            )
    sheet = sheets[HIDDEN]
    if sheet.text(0, 1) != FORM:
        raise CatalogError(f"{path}: {HIDDEN}!B1: expected {FORM!r}: take the file as it was sent")
    lines: list[RequestLine] = []
    while sheet.cell(HEAD_ROW + 2 + len(lines), 0) is not None and len(lines) < MAX_LINES:
        lines.append(_request_line(reader, sheet, HEAD_ROW + 2 + len(lines)))
    request = Request(sheet.text(2, 1), tuple(lines))
    if reader.faults:
        raise CatalogError(*reader.faults)
    if not lines or request.fingerprint != sheet.text(1, 1):
        raise CatalogError(
            f"{path}: {HIDDEN}!B2: what was asked has been changed: its fingerprint is"
            f" {request.fingerprint}, not {strip_control(sheet.text(1, 1))[:20]!r}: fill in the"
            " file as it was sent"
        )
    return request


def _request_line(reader: _OfferReader, sheet: Sheet, row: int) -> RequestLine:
    texts = [sheet.text(row, column) for column in range(len(HIDDEN_HEADS) - 2)]
    counts = []
    for column in (len(HIDDEN_HEADS) - 2, len(HIDDEN_HEADS) - 1):
        count = reader.number(sheet, (row, column), HIDDEN_HEADS[column], MAX_UNITS)
        counts.append(round(count or 0.0))
    identity, lot, part_number, accepted, description, unit = texts
    equals = tuple(equal for equal in accepted.split(BETWEEN) if equal)
    return RequestLine(identity, lot, part_number, equals, description, unit, counts[0], counts[1])


def read_offers(
    paths: Sequence[Path], exchange: Exchange, accept: Sequence[str] = ()
) -> tuple[Request, tuple[Offer, ...]]:
    """The request that all files answer, and the offer of each.

    Parameters
    ----------
    paths
        Filled-in requests.
    exchange
        Rates of currencies.
    accept
        Part numbers that will do, too.

    Raises
    ------
    CatalogError
        If a file is no offer on the request of the first one: one line a fault.
    """
    faults: list[str] = []
    request: Request | None = None
    offers: list[Offer] = []
    for path in paths:
        try:
            reader = _OfferReader(path, exchange)
            answered = _request(reader)
            request = request or answered
            if answered.fingerprint == request.fingerprint:
                offers.append(_read_offer(reader, request, accept))
            else:
                answers = f"{answered.fingerprint}, {paths[0]} answers {request.fingerprint}"
                fault = f"answers request {answers}: compare offers on one request"
                reader.fault(HIDDEN, (1, 1), fault)
            faults += reader.faults
        except CatalogError as error:
            faults += error.args
    if faults or request is None:
        raise CatalogError(*faults)
    return request, tuple(_named_apart(offers))


def _named_apart(offers: Sequence[Offer]) -> list[Offer]:
    """Offers with names of their own: two of one supplier are told apart by their files."""
    names = [offer.name for offer in offers]
    named: list[Offer] = []
    for offer in offers:
        name, number = offer.name, 1
        if names.count(name) > 1:
            name = f"{name} ({Path(offer.file).stem})"[: 2 * NAME_LENGTH]
        first = name
        while any(name == other.name for other in named):
            number += 1
            name = f"{first} {number}"
        named.append(replace(offer, name=name))
    return named


def _read_offer(reader: _OfferReader, request: Request, accept: Sequence[str]) -> Offer:
    cover = reader.sheets[OFFER]
    places = {cover.text(row, 0): (row, 1) for row, column in cover.cells if column == 0}
    words = {label: reader.words(cover, where) for label, where in places.items()}
    currency = words.get(CURRENCY, "").upper()
    currency_cell = places.get(CURRENCY, (0, 0))
    rate = reader.rate(currency, OFFER, currency_cell) if currency else None
    if currency and rate is None:
        raise CatalogError(*reader.faults)

    def term(label: str, most: float, *, below: bool = False) -> float | None:
        place = places.get(label)
        return reader.number(cover, place, label, most, below=below) if place else None

    lines = _offered(reader, request, currency, accept)
    offer_rate = rate or 1.0
    start, delivery = term(DISCOUNT_FROM, LARGEST), term(DELIVERY, LARGEST)
    if not currency and (start or delivery) and not reader.faults:
        reader.fault(OFFER, currency_cell, "sums without a currency: write one here, such as USD")
    return Offer(
        name=words.get(SUPPLIER, "")[:NAME_LENGTH] or strip_control(reader.path.stem)[:NAME_LENGTH],
        file=str(reader.path),
        lines=lines,
        lot_discounts=_lot_discounts(reader, request, cover),
        discount=term(DISCOUNT, 1.0, below=True) or 0.0,
        discount_from=None if start is None else offer_rate * start,
        delivery=offer_rate * (delivery or 0.0),
        terms=tuple(
            (label, _day(words[label]) if label in (DATE, VALID) else words[label])
            for label in (NUMBER, DATE, VALID, TERMS)
            if words.get(label)
        ),
    )


def _day(text: str) -> str:
    """A date as it was typed; a spreadsheet's number of a day as that day.

    >>> _day("46357"), _day("end of March")
    ('2026-12-01', 'end of March')
    """
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0  # noqa: PLR2004
    return (EXCEL_DAY_0 + dt.timedelta(days=number)).isoformat() if number in DATES else text


def _lot_discounts(reader: _OfferReader, request: Request, cover: Sheet) -> dict[str, float]:
    """Discounts on whole lots, from the table below the terms."""
    heads = [row for (row, column) in cover.cells if cover.text(row, column) == LOT_HEADS[-1]]
    discounts = {}
    for row, column in cover.cells:
        lot = cover.text(row, 0)
        if column == 0 and heads and row > heads[0] and lot in request.lots:
            what = f"discount on {lot}"
            share = reader.number(cover, (row, len(LOT_HEADS) - 1), what, 1.0, below=True)
            if share:
                discounts[lot] = share
    return discounts


Heads = dict[str, int]


def _offered(
    reader: _OfferReader, request: Request, currency: str, accept: Sequence[str]
) -> dict[str, OfferedLine]:
    """All lines that have a price; faults for those that are gone, twice there or changed."""
    sheet = reader.sheets[LINES]
    top, heads = _heads(sheet)
    missing = [head for head in (*ASKED, *GIVEN) if head not in heads and head != "Total"]
    if missing:
        reader.fault(LINES, (max(top, 0), 0), f"no column {missing[0]!r}: keep the heads as sent")
        return {}
    known = {line.id: line for line in request.lines}
    seen: dict[str, int] = {}
    offered_lines: dict[str, OfferedLine] = {}
    for row in sorted({row for row, column in sheet.cells if column == heads["Line"]}):
        identity = sheet.text(row, heads["Line"])
        if row <= top:
            continue
        place = (row, heads["Line"])
        if identity not in known:
            got = strip_control(reader.words(sheet, place))[:20]
            reader.fault(LINES, place, f"{got!r} is no line of the request: keep lines as sent")
        elif identity in seen:
            first = address(seen[identity], place[1])
            reader.fault(LINES, place, f"line {identity} stands twice, first in {first}")
        else:
            seen[identity] = row
            _check_asked(reader, sheet, row, heads, known[identity])
            offered = _offered_line(reader, row, heads, currency)
            if offered is not None:
                fits = known[identity].takes(offered.part_number, accept)
                offered_lines[identity] = replace(offered, accepted=fits)
    for identity in known:
        if identity not in seen:
            reader.fault(LINES, (max(top, 0), heads["Line"]), f"line {identity} is gone")
    if not offered_lines and not reader.faults:
        reader.fault(LINES, (top, heads["Unit price"]), "no line has a price: nothing is offered")
    return offered_lines


def _heads(sheet: Sheet) -> tuple[int, Heads]:
    """Row of the heads of the lines, and the column of each; -1 if there is none."""
    rows: dict[int, Heads] = {}
    for row, column in sheet.cells:
        if row < HEAD_ROWS and sheet.text(row, column):
            rows.setdefault(row, {}).setdefault(sheet.text(row, column), column)
    for row in sorted(rows):
        if {"Line", "Order"} <= set(rows[row]):
            return row, rows[row]
    return -1, {}


def _check_asked(
    reader: _OfferReader, sheet: Sheet, row: int, heads: Heads, line: RequestLine
) -> None:
    """What was asked stands there unchanged."""
    for head, asked in (
        ("Quantity", line.quantity),
        ("Spares", line.spares),
        ("Order", line.order),
    ):
        cell = sheet.cell(row, heads[head])
        if cell is None or cell.kind != "number" or cell.number != asked:
            got = "nothing" if cell is None else reader.words(sheet, (row, heads[head])) or "a sign"
            fault = f"{head.lower()} of {line.id} was {asked:,}, got {got[:20]}: keep it as sent"
            reader.fault(LINES, (row, heads[head]), fault)
    for head, words in (("Part number", line.part_number), ("Unit", line.unit)):
        got = reader.words(sheet, (row, heads[head]))
        if got != words:
            fault = f"{head.lower()} of {line.id} was {words[:40]!r}, got {got[:40]!r}"
            where = f": write yours under {GIVEN[0]!r}" if head == "Part number" else ""
            reader.fault(LINES, (row, heads[head]), fault + where)


def _offered_line(
    reader: _OfferReader, row: int, heads: Heads, currency: str
) -> OfferedLine | None:
    """What one row offers; None without a price, or where a fault is kept."""
    sheet, before = reader.sheets[LINES], len(reader.faults)
    price = reader.number(sheet, (row, heads["Unit price"]), "unit price", LARGEST)
    minimum = reader.number(sheet, (row, heads["Minimum order"]), "minimum order", MAX_UNITS)
    weeks = reader.number(sheet, (row, heads["Lead time, weeks"]), "lead time", MAX_WEEKS)
    if minimum is not None and minimum != round(minimum):
        place = (row, heads["Minimum order"])
        reader.fault(LINES, place, f"minimum order {minimum:g} is no whole number of units")
    if price is None or len(reader.faults) > before:
        return None
    place = (row, heads["Currency"])
    line_currency = reader.words(sheet, place).upper() or currency
    if not line_currency:
        fault = "a price without a currency: write it here, or for all lines on the sheet Offer"
        reader.fault(LINES, place, fault)
        return None
    rate = reader.rate(line_currency, LINES, place)
    if rate is None:
        return None
    return OfferedLine(
        part_number=reader.words(sheet, (row, heads["Offered part number"])),
        unit_price=price,
        currency=line_currency,
        rate=rate,
        minimum=round(minimum or 0),
        lead_weeks=weeks,
        remarks=reader.words(sheet, (row, heads["Remarks"])),
    )
