"""Inputs of all questions about money, and the books and values that they stand for."""

from collections.abc import Iterable
from typing import Any, get_args

from netplan.costing.fabric_bill import FabricBill
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook, Running, cooling_of
from netplan.costing.prices import Price, PriceBook
from netplan.costing.ranges import Range
from netplan.errors import CatalogError
from netplan.inputs.choices import End
from netplan.questions.question import PRICES, Question
from netplan.records import asdict, replace
from netplan.scenarios.reading import CatalogReader

Asked = Question[Any]
RUNNING = frozenset(
    {"economics", "years", "pue", "tariff", "interest", "cooling", "maintenance", "support"}
) | {"yearly_spares"}
"""Books and values of what a network costs while it is used."""
MONEY = (
    PRICES
    | RUNNING
    | frozenset(
        {"fabrics", "cards", "ocs", "networks", "floor_plan", "spares", "currency", "discount"}
    )
)
"""Inputs of a scenario that bills are made from."""
CASES = ("low", "base", "high")
"""The amounts of a range."""


def running_costs(asked: Asked, reader: CatalogReader, prices: PriceBook, currency: str) -> Running:
    """PUE, tariff and interest as given, else the book's; its tariff in this currency."""
    book: EconomicsBook = reader.load(ECONOMICS_BOOKS, asked.books.economics)
    try:
        rate = prices.exchange(book.currency, currency) if asked.books.terms.tariff is None else 1.0
    except CatalogError as error:
        raise CatalogError(f"{error}; or give --tariff in {currency}") from None
    given = {
        "pue": asked.books.terms.pue,
        "tariff": asked.books.terms.tariff,
        "interest": asked.books.terms.interest,
    }
    given |= {"cooling": asked.books.terms.cooling, "spares": asked.books.terms.yearly_spares}
    given |= {"maintenance": asked.books.terms.maintenance, "support": asked.books.terms.support}
    stated = {name: Range.point(one) for name, one in given.items() if one is not None}
    pue = _pue(asked, book)
    found = {"pue": pue, "cooling": cooling_of(book, pue)} | stated
    years = book.years if asked.books.terms.years is None else asked.books.terms.years
    return replace(Running.of(book, rate), years=years, **found)


def _pue(asked: Asked, book: EconomicsBook) -> Range:
    """PUE as given; else the book's, with the cooling that is given in place of its own."""
    if asked.books.terms.pue is not None:
        return Range.point(asked.books.terms.pue)
    pue = book.pue.range
    if asked.books.terms.cooling is None or book.cooling is None:
        return pue
    own = cooling_of(book, pue)
    return Range(*(pue.at(end) - own.at(end) + asked.books.terms.cooling for end in get_args(End)))


def prices_in_use(bills: Iterable[FabricBill]) -> dict[tuple[str, Range], tuple[Price, list[str]]]:
    """Price rows in use, and the fabrics that use them; a quantity break makes a row of its own."""
    found: dict[tuple[str, Range], tuple[Price, list[str]]] = {}
    for bill in bills:
        for item in bill.quote.items:
            if item.price is not None:
                users = found.setdefault((item.price.what, item.offer), (item.price, []))[1]
                users += [] if bill.name in users else [bill.name]
    return found


def running_inputs(running: Running) -> dict[str, object]:
    """Years, PUE, tariff and interest as the answer's inputs show them."""
    ranges = {"pue": running.pue, "tariff_per_kwh": running.tariff, "interest": running.interest}
    ranges |= {"cooling": running.cooling, "maintenance": running.maintenance}
    ranges |= {"support": running.support, "yearly_spares": running.spares}
    return {
        "years": running.years,
        **{name: amount.base for name, amount in ranges.items()},
        "running": {name: asdict(amount) for name, amount in ranges.items()},
    }
