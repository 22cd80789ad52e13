"""Inputs of all questions about money, and the books and values that they stand for."""

from collections.abc import Iterable
from typing import Any, get_args

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.compute import Compute
from netplan.costing.fabric_bill import BillBooks, FabricBill
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook, Running, cooling_of
from netplan.costing.materials import ACCELERATORS_TOO, CARDS_INCLUDED
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS, Price, PriceBook
from netplan.costing.ranges import Range
from netplan.costing.switches import SWITCHES
from netplan.errors import CatalogError, InputError
from netplan.inputs.choices import End
from netplan.questions.question import PRICES, Question
from netplan.questions.setup.inputs import CatalogReader
from netplan.records import asdict, replace
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS
from netplan.topologies.site_networks import SITE_NETWORKS
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS

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


def counting_cards(asked: Asked, books: BillBooks) -> BillBooks:
    """The books of bills with network cards, or without them."""
    return replace(books, cards=asked.cluster.cards != CARDS_INCLUDED)


def bill_books(asked: Asked, reader: CatalogReader) -> BillBooks:
    """Catalog files of the bills, the discount in the price book."""
    books = counting_cards(asked, read_books(asked, reader))
    networks = [reader.load(SITE_NETWORKS, name) for name in site_networks(asked)]
    named = dict.fromkeys(one.switch for one in networks if one.switch)
    counted = ACCELERATORS_TOO in asked.cluster.networks
    chip = reader.load(ACCELERATORS, asked.cluster.accelerator) if counted else None
    return replace(
        books,
        prices=_discounted(books.prices, asked.books.discount),
        switch=reader.named(SWITCHES, asked.cluster.switch),
        ocs=reader.named(SWITCHES, asked.cluster.ocs),
        hall=reader.named(FLOOR_PLANS, asked.cluster.floor_plan),
        networks=tuple((one, reader.beside(FABRICS, one.fabric)) for one in networks),
        site_switches=tuple(reader.load(SWITCHES, name) for name in named),
        compute=Compute(accelerator=chip),
    )


def site_networks(
    asked: Asked,
) -> tuple[str, ...]:
    """Names of the networks beside, each once."""
    return tuple(name for name in dict.fromkeys(asked.cluster.networks) if name != ACCELERATORS_TOO)


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


def read_books(asked: Asked, reader: CatalogReader) -> BillBooks:
    """Catalog files that every bill is made from."""
    books = asked.books
    return BillBooks(
        reader.load(PRICE_BOOKS, books.prices),
        reader.load(POWER_BOOKS, books.power),
        reader.load(CABLING_BOOKS, books.cabling),
    )


def prices_in_use(
    bills: Iterable[FabricBill],
) -> dict[tuple[str, Range], tuple[Price, list[str]]]:
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


def _discounted(book: PriceBook, discount: float | None) -> PriceBook:
    if discount is None:
        return book
    if not 0 <= discount < 1:
        raise InputError(
            f"--discount {100 * discount:g}% is out of range: give 0% up to below 100%"
        )
    return replace(book, discount=discount)
