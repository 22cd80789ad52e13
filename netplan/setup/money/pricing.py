"""Inputs of all questions about money, and the books and values that they stand for.

Where prices come from: each row of a price book by how far it is known, the weakest first.

The price that a part without one may have, where the ranking of two fabrics hangs on it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, get_args

from msgspec import Struct

from netplan.costing.fabric_bill import BillBooks, FabricBill
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook, Opex, cooling_of
from netplan.costing.materials import ACCELERATORS_TOO
from netplan.costing.prices import (
    ASSUMPTION,
    COUNTS,
    DERIVED,
    OWN_FIGURE,
    POWER_BOOKS,
    PowerBook,
    Price,
    PriceBook,
)
from netplan.costing.ranges import Range
from netplan.costing.switches import require_switch
from netplan.errors import CatalogError, InputError
from netplan.inputs.choices import Cooling, End
from netplan.records import asdict, replace
from netplan.reports.quantities import DASH, listed
from netplan.reports.schema import plain_data
from netplan.reports.sections import Column, Notes, Paragraph, Section, Table, column
from netplan.scenarios.bill_books import gear_counted
from netplan.scenarios.parts import Books, Cluster
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.question import PRICES, AnyQuestion
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FabricSpec
from netplan.units import KILO
from netplan.workloads.accelerators import ACCELERATORS, Accelerator

WEAKEST_FIRST = (ASSUMPTION, DERIVED, OWN_FIGURE, *COUNTS.values())
ONE_SOURCE = COUNTS[1]
LEGEND = ("!: one source alone says so; own figure: between quotations that none of them names.",)


class PriceSource(Struct, frozen=True):
    """One price and where it is from."""

    json_parts = "book", "*price", "-breaks", "price.trust", "single_source=single", "sources"

    book: str
    price: Price

    @property
    def single(self) -> bool:
        """Whether one source alone says so."""
        return self.price.trust == ONE_SOURCE

    @property
    def known(self) -> str:
        """How it is known, with a mark where one source alone says so."""
        return f"! {ONE_SOURCE}" if self.single else self.price.trust

    @property
    def span(self) -> str:
        """Base price, and from where to where it runs."""
        row = self.price
        if row.low is None and row.high is None:
            return f"{row.base:,.6g}"
        low, high = row.low or row.base, row.high or row.base
        return f"{row.base:,.6g} ({low:,.6g}-{high:,.6g})"

    @property
    def why(self) -> str:
        """What was assumed or derived, else who says so."""
        row = self.price
        return row.assumption or row.derived or row.source

    @property
    def origins(self) -> str:
        """What was assumed or derived, in a sentence."""
        row = self.price
        ways = {"Assumed": row.assumption, "Derived": row.derived}
        return " ".join(f"{how}: {what.rstrip('.')}." for how, what in ways.items() if what)

    @property
    def place(self) -> int:
        """Place in a list, the weakest first [1]."""
        trust = self.price.trust
        known = trust in WEAKEST_FIRST
        return WEAKEST_FIRST.index(trust) if known else len(WEAKEST_FIRST)

    @property
    def sources(self) -> list[dict[str, Any]]:
        """Quotations that it is taken from, each with the price of a unit, as JSON."""
        return [plain_data(quoted) | {"price": quoted.price} for quoted in self.price.sources]


def prices_of(books: Sequence[PriceBook]) -> tuple[PriceSource, ...]:
    """Every price of some books, book by book, the weakest first."""
    return tuple(
        source
        for book in books
        for source in sorted(
            (PriceSource(book.name, row) for row in book.prices), key=lambda source: source.place
        )
    )


def sections_of(prices: Sequence[PriceSource]) -> Iterator[Section]:
    """The table of prices, and how many of each book are known how."""
    shown: list[Column[PriceSource]] = [
        column("what", "price.what", title="price of"),
        column("span"),
        column("unit", "price.unit"),
        column("trust", "known"),
        column("date", "price.date", shown="wide"),
        column("why", shown="wide"),
    ]
    yield Table("prices", shown, prices, legend=LEGEND, part=lambda source: source.book)
    yield Notes.of((source.price.what, (source.origins,)) for source in prices if source.origins)
    for book in dict.fromkeys(source.book for source in prices):
        counts = Counter(source.price.trust for source in prices if source.book == book)
        trusts = listed([f"{trust} {count}" for trust, count in counts.items()])
        yield Paragraph(f"{book}: {counts.total()} prices: {trusts}.")


def lacking_words(bill: FabricBill) -> str:
    """What a bill lacks of what sets fabrics apart, in words."""
    return listed(list(dict.fromkeys(line.item for line in bill.unpriced_apart)))


def left_out_words(bill: FabricBill, best: FabricBill, currency: str) -> str:
    """Why a fabric is not compared, and at which price of the part it would cost least.

    Nothing is solved where it lacks several parts.
    """
    units = _units(bill)
    text = f"{bill.name} is not compared: no price for {lacking_words(bill)}."
    if len(units) != 1:
        return text
    ((part, count),) = units.items()
    even = (best.capital.base - bill.capital.base) / count
    if even <= 0:
        return f"{text} It costs more than {best.name} at any price of {part}."
    return (
        f"{text} It costs less than {best.name} if {part} cost under {even:,.0f} {currency} each."
    )


def lowest_price_words(bills: Sequence[FabricBill], currency: str) -> list[str]:
    """What may be said of fabrics of which none has its whole price.

    Where all lack the same part alone, the price of it at which the ranking turns.
    """
    first, *others = sorted(bills, key=lambda bill: (bill.capital.base, bill.name))
    return [_of_two(first, other, currency) for other in others]


def _of_two(less: FabricBill, more: FabricBill, currency: str) -> str:
    """``less`` costs less without the parts that lack a price."""
    units, others = _units(less), _units(more)
    if len(units) != 1 or units.keys() != others.keys():
        missing = dict.fromkeys([lacking_words(less), lacking_words(more)])
        parts = " and for ".join(missing)
        return f"{less.name} and {more.name} are not compared: no price for {parts}."
    ((part, count),) = units.items()
    surplus = count - others[part]
    if surplus <= 0:
        return f"{less.name} costs less than {more.name} at any price of {part}."
    even = (more.capital.base - less.capital.base) / surplus
    return (
        f"{less.name} costs less than {more.name} if {part} cost under {even:,.0f} {currency} each,"
        " for which there is no price."
    )


def _units(bill: FabricBill) -> dict[str, int]:
    """Units of each part that a bill lacks a price for, as a price book counts them."""
    counts: dict[str, int] = {}
    for line in bill.unpriced_apart:
        counts[line.priced_as] = counts.get(line.priced_as, 0) + line.order * line.price_units
    return counts


OPEX_INPUTS = frozenset(
    {"economics", "years", "pue", "tariff", "interest", "cooling", "maintenance", "support"}
) | {"yearly_spares", "grid"}
"""Books and values of what a network costs while it is used."""
MONEY = (
    PRICES
    | OPEX_INPUTS
    | frozenset({"fabrics", "cards", "ocs", "networks", "hall", "spares", "currency", "discount"})
)
"""Inputs of a scenario that bills are made from."""
CASES = ("low", "base", "high")
"""The amounts of a range."""


def make_opex(asked: AnyQuestion, reader: CatalogReader, prices: PriceBook, currency: str) -> Opex:
    """PUE, tariff and interest as given, else the book's; its tariff in this currency."""
    book: EconomicsBook = reader.load(ECONOMICS_BOOKS, asked.books.economics)
    terms = asked.books.terms
    try:
        rate = prices.exchange(book.currency, currency) if terms.tariff is None else 1.0
    except CatalogError as error:
        raise CatalogError(f"{error}; or give --tariff in {currency}") from None
    names = ("pue", "tariff", "interest", "maintenance", "support")
    given = {name: getattr(terms, name) for name in names} | {"spares": terms.yearly_spares}
    given["cooling"] = None if isinstance(terms.cooling, str) else terms.cooling
    stated = {name: Range.point(value) for name, value in given.items() if value is not None}
    years = book.years if terms.years is None else terms.years
    return replace(book_opex(asked, reader, book, rate), years=years, **stated)


def book_opex(
    asked: AnyQuestion, reader: CatalogReader, book: EconomicsBook, rate: float = 1.0
) -> Opex:
    """Values of a book, its tariff at a rate of exchange: at the PUE of the servers' cooling."""
    pue, grid = facility_pue(asked, reader, book), asked.books.terms.grid
    if book.carbon is None and grid:
        raise InputError(f"--grid {grid}: {book.name} has no carbon of any grid: leave it out")
    known = book.carbon
    emitted = (known.of(grid), (grid or known.grid).lower()) if known else (Range.point(0.0), "")
    kind = cooling_kind(asked, reader)
    cooled_by = kind if kind in book.pue_by_cooling and asked.books.terms.pue is None else None
    return replace(
        Opex.of(book, rate),
        pue=pue,
        cooling=cooling_of(book, pue),
        carbon=emitted[0],
        grid=emitted[1],
        cooled_by=cooled_by or "",
    )


def cooling_kind(asked: AnyQuestion, reader: CatalogReader) -> Cooling | None:
    """What cools the servers: as asked for, else the only way that they are sold with, if any.

    Raises
    ------
    InputError
        If they are not sold with what is asked for.
    """
    kind, name = asked.books.terms.cooling, asked.cluster.accelerator
    book: PowerBook = reader.load(POWER_BOOKS, asked.books.power)
    chip = reader.load(ACCELERATORS, name)
    server = book.server(chip.name)
    sold = server.cooling if server else ()
    if isinstance(kind, str):
        if sold and kind not in sold:
            raise InputError(
                f"--cooling {kind}: {chip.sold_in or 'servers'} of {chip.short} are sold with"
                f" {' or '.join(sold)}: give that, or another --accelerator"
            )
        return kind
    return sold[0] if len(sold) == 1 else None


def facility_pue(asked: AnyQuestion, reader: CatalogReader, book: EconomicsBook) -> Range:
    """PUE as given; else that of what cools, or the book's, with a given share of cooling in it."""
    kind = cooling_kind(asked, reader)
    if asked.books.terms.pue is not None:
        return Range.point(asked.books.terms.pue)
    share = asked.books.terms.cooling
    if not isinstance(share, str | None) and share < 0:
        raise InputError(f"--cooling {100 * share:g}%: give at least 0%")
    if isinstance(share, str) and share not in book.pue_by_cooling:
        raise InputError(f"--cooling {share}: {book.name} has no PUE of it: give --pue")
    by_kind = book.pue_by_cooling.get(kind) if kind else None
    pue = (by_kind or book.pue).range
    if share is None or isinstance(share, str) or book.cooling is None:
        return pue
    cooling = cooling_of(book, pue)
    return Range(*(pue.at_end(end) - cooling.at_end(end) + share for end in get_args(End)))


def prices_in_use(bills: Iterable[FabricBill]) -> dict[tuple[str, Range], tuple[Price, list[str]]]:
    """Price rows in use, and the fabrics that use them; a quantity break makes a row of its own."""
    in_use: dict[tuple[str, Range], tuple[Price, list[str]]] = {}
    for bill in bills:
        for item in bill.quote.items:
            if item.price is not None:
                users = in_use.setdefault((item.what, item.offer), (item.price, []))[1]
                users += [] if bill.name in users else [bill.name]
    return in_use


def carbon_words(bill: FabricBill, inputs: Mapping[str, Any]) -> str:
    """What the energy of a year emits, in a sentence; nothing where a book does not say.

    Parameters
    ----------
    bill
        With its years of use.
    inputs
        Of the answer, those of :func:`opex_inputs` among them.
    """
    carbon, energy = bill.life.carbon_kg_per_year, bill.life.energy_kwh_per_year
    if not carbon.base:
        return ""
    least = "≥ " if bill.draw.unknown else ""
    return (
        f"Carbon: {least}{carbon_text(bill)} t CO2e a year, of {energy.base / KILO:,.0f} MWh at"
        f" {inputs['carbon_kg_per_kwh']:.3g} kg/kWh ({inputs['grid']})"
    )


def carbon_text(bill: FabricBill) -> str:
    """What the energy of a year emits, with its low and high [t CO2e]."""
    base = bill.life.carbon_kg_per_year.base
    return f"{base / KILO:,.0f} ({carbon_ends(bill)})"


def carbon_ends(bill: FabricBill) -> str:
    """Low and high of what the energy of a year emits [t CO2e]; a dash where no power is known."""
    carbon = bill.life.carbon_kg_per_year
    if not bill.draw.known:
        return DASH
    return f"{carbon.low / KILO:,.0f}-{carbon.high / KILO:,.0f}"


def opex_inputs(opex: Opex) -> dict[str, object]:
    """Years, PUE, tariff and interest as the answer's inputs show them."""
    ranges = {"pue": opex.pue, "tariff_per_kwh": opex.tariff, "interest": opex.interest}
    ranges |= {"cooling": opex.cooling, "maintenance": opex.maintenance}
    ranges |= {"support": opex.support, "yearly_spares": opex.spares}
    ranges |= {"carbon_kg_per_kwh": opex.carbon}
    return {
        "years": opex.years,
        **{name: amount.base for name, amount in ranges.items()},
        "grid": opex.grid or None,
        "cooled_by": opex.cooled_by or None,
        "running": {name: asdict(amount) for name, amount in ranges.items()},
    }


class BillCase(NamedTuple):
    """What all bills of a question are made from, of fabrics that a chosen switch fits."""

    reader: CatalogReader
    chip: Accelerator
    books: BillBooks
    currency: str
    opex: Opex
    specs: list[FabricSpec]
    sizing: Sizing

    @classmethod
    def of(
        cls,
        asked: AnyQuestion,
        books_of: Callable[[Cluster, Books, CatalogReader], BillBooks],
        fabrics_of: Callable[[AnyQuestion], Sequence[str]],
    ) -> Self:
        """Of the fabrics that a question is about, by books of some kind."""
        reader, chip = asked.reader_and_chip()
        books = books_of(asked.cluster, asked.books, reader)
        currency = asked.books.currency or books.prices.currency
        books.prices.exchange(books.prices.currency, currency)
        opex = make_opex(asked, reader, books.prices, currency)
        specs = reader.fabrics(fabrics_of(asked), asked.cluster)
        sizing = sized(asked.cluster, chip)
        require_switch(books.switch, specs, sizing, reader.roots)
        return cls(reader, chip, books, currency, opex, specs, sizing)

    def inputs(self, asked: AnyQuestion, **resolved: object) -> dict[str, object]:
        """Inputs of the answer; networks beside and accelerators as they are counted."""
        books = self.books
        return asked.inputs(
            **resolved,
            hb_size=self.sizing.hb_size,
            fabrics=[spec.name for spec in self.specs],
            spares=list(asked.books.spares),
            networks=[
                *(network.name for network, _ in books.networks),
                *([ACCELERATORS_TOO] if books.compute.accelerator else []),
                *gear_counted(asked.cluster),
            ],
            currency=self.currency,
            discount=books.prices.discount,
            **opex_inputs(self.opex),
            link_gbps=self.sizing.speed_gbps,
            set=self.reader.replaced(),
        )
