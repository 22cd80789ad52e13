"""Quotations that price books are made from: one row a price of one source (`quotations.csv`).

The base of a row with ``quoted`` is the median of those quotations that may be planned with, all of
one kind and currency: list prices are never mixed with those of the street or of analysts. A price
by length is the straight line through them of least squares, intercept a and slope b of
price = a + b x length:

    b = sum((x - mean x) (y - mean y)) / sum((x - mean x)^2),    a = mean y - b mean x
"""

import csv
from functools import lru_cache

from msgspec import Struct, convert

from netplan.catalog import shipped_root
from netplan.costing.prices import QuotedKind
from netplan.inputs.choices import Evidence


class QuotationRow(Struct, frozen=True, kw_only=True):
    """One price of one source, of a whole module, cable, box or rack [currency].

    ``use`` is ``plan`` where it may enter a median, ``anchor`` where it only judges others,
    ``reject`` where it is kept so that nobody adds it again.
    """

    id: str
    part: str
    model: str
    speed_gbps: float | None
    length_m: float | None
    low: float | None
    price: float | None
    high: float | None
    currency: str
    unit: str
    kind: QuotedKind
    what: str
    source: str
    page: str
    date: str
    evidence: Evidence
    use: str
    note: str


@lru_cache(maxsize=1)
def quotations() -> tuple[QuotationRow, ...]:
    """All shipped quotations.

    Returns
    -------
    tuple of QuotationRow
        In the order of the file.

    Examples
    --------
    >>> len({row.id for row in quotations()}) == len(quotations())
    True
    """
    path = shipped_root() / "costing" / "prices" / "quotations.csv"
    numbers = ("speed_gbps", "length_m", "low", "price", "high")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            {key: text or (None if key in numbers else "") for key, text in row.items()}
            for row in csv.DictReader(file)
        ]
    return tuple(convert(row, QuotationRow, strict=False) for row in rows)
