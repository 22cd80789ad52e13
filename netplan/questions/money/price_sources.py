"""Where prices come from: each row of a price book by how far it is known, the weakest first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from netplan.costing.prices import ASSUMPTION, COUNTS, DERIVED, OWN_FIGURE, Price, PriceBook
from netplan.records import asdict
from netplan.reports.quantities import listed
from netplan.reports.sections import Column, Notes, Paragraph, Section, Table, column

WEAKEST_FIRST = (ASSUMPTION, DERIVED, OWN_FIGURE, *COUNTS.values())
ONE_SOURCE = COUNTS[1]
LEGEND = ("!: one source alone says so; own figure: between quotations that none of them names.",)


class PriceSource(Struct, frozen=True):
    """One price and where it is from."""

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
    def told(self) -> str:
        """What was assumed or derived, in a sentence."""
        row = self.price
        said = {"Assumed": row.assumption, "Derived": row.derived}
        return " ".join(f"{how}: {what.rstrip('.')}." for how, what in said.items() if what)

    @property
    def place(self) -> int:
        """Place in a list, the weakest first [1]."""
        trust = self.price.trust
        known = trust in WEAKEST_FIRST
        return WEAKEST_FIRST.index(trust) if known else len(WEAKEST_FIRST)

    def to_dict(self) -> dict[str, Any]:
        """One price of the JSON answer."""
        row = asdict(self.price)
        del row["breaks"]
        return {
            "book": self.book,
            **row,
            "trust": self.price.trust,
            "single_source": self.single,
            "sources": [asdict(one) | {"price": one.price} for one in self.price.sources],
        }


def prices_of(books: Sequence[PriceBook]) -> tuple[PriceSource, ...]:
    """Every price of some books, book by book, the weakest first."""
    return tuple(
        one
        for book in books
        for one in sorted(
            (PriceSource(book.name, row) for row in book.prices), key=lambda one: one.place
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
    yield Table("prices", shown, prices, legend=LEGEND, part=lambda one: one.book)
    yield Notes.of((one.price.what, (one.told,)) for one in prices if one.told)
    for book in dict.fromkeys(one.book for one in prices):
        counts = Counter(one.price.trust for one in prices if one.book == book)
        told = listed([f"{trust} {count}" for trust, count in counts.items()])
        yield Paragraph(f"{book}: {counts.total()} prices: {told}.")
