"""Requests filled in as suppliers do it, by another library than the one that wrote them."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openpyxl import Workbook, load_workbook

from netplan.costing.offers import Request, RequestLine
from netplan.procurement.offer_files import (
    CURRENCY,
    HEAD_ROW,
    HEADS,
    LABELS,
    LINES,
    OFFER,
    SUPPLIER,
    request_xlsx,
)

Value = str | float | int | None


def line(identity: str, lot: str, order: int, part_number: str = "") -> RequestLine:
    return RequestLine(identity, lot, part_number, (), f"{lot} of {identity}", "each", order, 0)


def cell_of(request: Request, identity: str, head: str) -> str:
    """Name of the cell of a line under a head."""
    row = HEAD_ROW + 2 + [line.id for line in request.lines].index(identity)
    return f"{'ABCDEFGHIJKLMNOP'[HEADS.index(head)]}{row}"


def label_row(book: Workbook, label: str) -> int:
    """Row of a label on the sheet Offer."""
    return next(row for row in range(1, 99) if book[OFFER].cell(row, 1).value == label)


@dataclass(frozen=True)
class Filled:
    """What a supplier writes: prices by line, further cells, terms, discounts on lots."""

    prices: Mapping[str, Value]
    cells: Mapping[tuple[str, str], Value] = field(default_factory=dict)
    cover: Mapping[str, Value] = field(default_factory=dict)
    lots: Mapping[str, Value] = field(default_factory=dict)
    spoil: Callable[[Workbook], None] | None = None

    def into(self, path: Path, request: Request) -> Path:
        """Save the request so filled in."""
        book = load_workbook(io.BytesIO(request_xlsx(request)))
        given = {(identity, "Unit price"): price for identity, price in self.prices.items()}
        for (identity, head), value in (given | dict(self.cells)).items():
            book[LINES][cell_of(request, identity, head)] = value
        for label, value in ({SUPPLIER: path.stem, CURRENCY: "USD"} | dict(self.cover)).items():
            assert label in LABELS
            book[OFFER].cell(label_row(book, label), 2).value = value
        for lot, value in self.lots.items():
            book[OFFER].cell(label_row(book, lot), 3).value = value
        if self.spoil is not None:
            self.spoil(book)
        book.save(path)
        return path
