"""Quotations that price books are made from: one row a price of one source (`quotations.csv`).

The base of a row with ``quoted`` is the median of those quotations that may be planned with, all of
one kind and currency: list prices are never mixed with those of the street or of analysts. A price
by length is the straight line through them of least squares, intercept a and slope b of
price = a + b x length:

    b = sum((x - mean x) (y - mean y)) / sum((x - mean x)^2),    a = mean y - b mean x
"""

import csv
from functools import lru_cache
from statistics import linear_regression, median

from msgspec import Struct, convert

from netplan.catalog import shipped_root
from netplan.costing.prices import US_DOLLAR, Quoted, QuotedKind
from netplan.errors import CatalogError
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


def quotations_of(part: str, quoted: Quoted) -> tuple[QuotationRow, ...]:
    """Quotations that a price row is taken from.

    Parameters
    ----------
    part
        Kind of part, as in the price book.
    quoted
        Which of its quotations.

    Returns
    -------
    tuple of QuotationRow
        In US dollars, of that kind and those models, which may be planned with.
    """
    return tuple(
        row
        for row in quotations()
        if (row.part, row.kind, row.currency) == (part, quoted.kind, US_DOLLAR)
        and row.use == "plan"
        and row.model in quoted.of
        and row.speed_gbps == quoted.speed_gbps
    )


def quoted_price(part: str, quoted: Quoted) -> float:
    """Median price of one unit of a price row.

    Parameters
    ----------
    part
        Kind of part.
    quoted
        Which quotations; ``units`` of the row are in one of them.

    Returns
    -------
    float
        The median [USD].

    Raises
    ------
    CatalogError
        If no quotation has them.

    Examples
    --------
    Fourteen list prices of 800G DR8 modules, of which the 7th is 1,199 and the 8th 1,250 USD; half
    of one is an end of a link of 400G.

    >>> modules = ("dr8", "dr8-100m", "xdr8")
    >>> whole = Quoted(kind="list", of=modules, speed_gbps=800, count=14)
    >>> quoted_price("transceiver", whole), quoted_price("transceiver", whole.changed(units=2))
    (1224.5, 612.25)
    """
    prices = [row.price for row in quotations_of(part, quoted) if row.price is not None]
    if not prices:
        raise CatalogError(f"quotations.csv has no {quoted.kind} price of {part} {quoted.of}")
    return median(prices) / quoted.units


def quoted_line(part: str, quoted: Quoted) -> tuple[float, float]:
    """Price at no length, and of every metre, by least squares.

    Parameters
    ----------
    part
        Kind of part.
    quoted
        Which quotations; ``units`` of the row are in one of them.

    Returns
    -------
    tuple of float
        Intercept [USD] and slope [USD/m].

    Examples
    --------
    Five MPO-12 cables of OM4, of 1 to 30 m.

    >>> a, b = quoted_line("fibre", Quoted(kind="list", of=("mpo12-om4",), count=5))
    >>> round(a, 2), round(b, 3)
    (74.17, 7.817)
    """
    rows = quotations_of(part, quoted)
    lengths = [row.length_m or 0.0 for row in rows]
    fit = linear_regression(lengths, [row.price or 0.0 for row in rows])
    return fit.intercept / quoted.units, fit.slope / quoted.units
