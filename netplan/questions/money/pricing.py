"""Inputs of all questions about money, and the books and values that they stand for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.compute import Compute
from netplan.costing.fabric_bill import BillBooks, FabricBill
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook, Running, cooling_of
from netplan.costing.materials import ACCELERATORS_TOO, CARDS_INCLUDED
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS, Price, PriceBook
from netplan.costing.ranges import End, Range
from netplan.costing.switches import SWITCHES, SwitchModel
from netplan.errors import CatalogError, InputError
from netplan.questions.question import (
    AnswerT_co,
    ClusterQuestion,
    Question,
    default_of,
    optional,
    several,
    shared,
)
from netplan.questions.setup.inputs import CatalogReader
from netplan.records import asdict, replace
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS
from netplan.topologies.site_networks import SITE_NETWORKS
from netplan.topologies.specs import FABRICS
from netplan.units import gbps
from netplan.workloads.accelerators import ACCELERATORS

CASES = ("low", "base", "high")
"""The amounts of a range."""


@dataclass(frozen=True, kw_only=True)
class SwitchQuestion(ClusterQuestion[AnswerT_co]):
    """Inputs of all questions about one cluster of a switch model, or of any switch so large."""

    radix: int = optional(
        "Ports per switch.",
        "whole",
        unit="ports",
        low=4,
        high=1024,
        otherwise="those of --switch, or the common default",
    )
    switch: str | None = optional("Switch model with that many ports.", otherwise="any")

    def __post_init__(self) -> None:
        """Take the radix of the switch model, or the default, where none is given."""
        super().__post_init__()
        if cast("int | None", self.radix) is None:
            object.__setattr__(self, "radix", self._ports())

    def _ports(self) -> int:
        """Ports of the switch model at the accelerator's link rate, if there is one [1].

        Raises
        ------
        InputError
            If the model forwards no packets at that rate.
        """
        if not self.switch:
            return cast("int", default_of(self.command, "radix", self.catalog))
        reader = CatalogReader(self.catalog, self.overrides)
        on, model = reader.load(ACCELERATORS, self.accelerator), reader.load(SWITCHES, self.switch)
        return packet_ports(reader, model, gbps(on.network_bytes_per_s))


@dataclass(frozen=True, kw_only=True)
class CardsQuestion(Question[AnswerT_co]):
    """The input of all questions about money that says who sells the network cards."""

    cards: Literal["bought", "included"] = optional(
        "Network cards: on the bill, or inside the servers and not on it.",
        "choice",
        default="bought",
        choices=("bought", CARDS_INCLUDED),
    )

    def counting_cards(self, books: BillBooks) -> BillBooks:
        """The books of bills with network cards, or without them."""
        return replace(books, cards=self.cards != CARDS_INCLUDED)


@dataclass(frozen=True, kw_only=True)
class PricingQuestion(CardsQuestion[AnswerT_co], SwitchQuestion[AnswerT_co]):
    """Inputs of all questions about the bills of one cluster."""

    fabrics: Sequence[str] = several(
        "This fabric (repeatable).", flag="--fabric", otherwise="rail-optimized and rail-only"
    )
    prices: str = shared("Price book.")
    power: str = shared("Power book.")
    cabling: str = shared("Modules and cables.")
    economics: str = shared("PUE, tariff, rate.")
    ocs: str | None = optional("Optical circuit switch for tori.", otherwise="direct fibres")
    networks: Sequence[str] = several(
        "Beside, too: storage, management, out-of-band, accelerators (repeatable).", flag="--with"
    )
    floor_plan: str | None = optional("Hall that gives cable lengths.", otherwise="classes")
    spares: str | Sequence[str] = several("Spares: 2%, or a part=3% (repeatable).")
    currency: str | None = optional("Currency of the answer.", otherwise="the book's")
    discount: float | None = optional("Off every price.", "percent", otherwise="the book's")
    years: int | None = optional("Years of use.", "whole", otherwise="the economics book's")
    pue: float | None = optional("Facility over equipment power.", "real", otherwise="the same")
    tariff: float | None = optional("Price of a kWh.", "real", otherwise="the same")
    interest: float | None = optional("Interest a year, as 7%.", "percent", otherwise="the same")
    cooling: float | None = optional(
        "Energy of cooling over equipment's.", "percent", otherwise="book's share of PUE - 1"
    )
    maintenance: float | None = optional(
        "Work on site, of the price a year.", "percent", otherwise="the economics book's"
    )
    support: float | None = optional(
        "Maker's contract, of the price a year.", "percent", otherwise="the same"
    )
    yearly_spares: float | None = optional(
        "Parts used up, of the price a year.", "percent", otherwise="the same"
    )

    def books(self, reader: CatalogReader) -> BillBooks:
        """Catalog files of the bills, the discount in the price book."""
        books = self.counting_cards(read_books(reader, self.prices, self.power, self.cabling))
        networks = [reader.load(SITE_NETWORKS, name) for name in self.site_networks]
        named = dict.fromkeys(one.switch for one in networks if one.switch)
        counted = ACCELERATORS_TOO in self.networks
        chip = reader.load(ACCELERATORS, self.accelerator) if counted else None
        return replace(
            books,
            prices=_discounted(books.prices, self.discount),
            switch=reader.named(SWITCHES, self.switch),
            ocs=reader.named(SWITCHES, self.ocs),
            hall=reader.named(FLOOR_PLANS, self.floor_plan),
            networks=tuple((one, reader.beside(FABRICS, one.fabric)) for one in networks),
            site_switches=tuple(reader.load(SWITCHES, name) for name in named),
            compute=Compute(accelerator=chip),
        )

    @property
    def site_networks(self) -> tuple[str, ...]:
        """Names of the networks beside, each once."""
        return tuple(name for name in dict.fromkeys(self.networks) if name != ACCELERATORS_TOO)

    def running(self, reader: CatalogReader, prices: PriceBook, currency: str) -> Running:
        """PUE, tariff and interest as given, else the book's; its tariff in this currency."""
        book: EconomicsBook = reader.load(ECONOMICS_BOOKS, self.economics)
        try:
            rate = prices.exchange(book.currency, currency) if self.tariff is None else 1.0
        except CatalogError as error:
            raise CatalogError(f"{error}; or give --tariff in {currency}") from None
        given = {"pue": self.pue, "tariff": self.tariff, "interest": self.interest}
        given |= {"cooling": self.cooling, "spares": self.yearly_spares}
        given |= {"maintenance": self.maintenance, "support": self.support}
        stated = {name: Range.point(one) for name, one in given.items() if one is not None}
        pue = self._pue(book)
        found = {"pue": pue, "cooling": cooling_of(book, pue)} | stated
        years = book.years if self.years is None else self.years
        return replace(Running.of(book, rate), years=years, **found)

    def _pue(self, book: EconomicsBook) -> Range:
        """PUE as given; else the book's, with the cooling that is given in place of its own."""
        if self.pue is not None:
            return Range.point(self.pue)
        pue = book.pue.range
        if self.cooling is None or book.cooling is None:
            return pue
        own = cooling_of(book, pue)
        return Range(*(pue.at(end) - own.at(end) + self.cooling for end in get_args(End)))


def read_books(reader: CatalogReader, prices: str, power: str, cabling: str) -> BillBooks:
    """Catalog files that every bill is made from."""
    return BillBooks(
        reader.load(PRICE_BOOKS, prices),
        reader.load(POWER_BOOKS, power),
        reader.load(CABLING_BOOKS, cabling),
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


def packet_ports(reader: CatalogReader, model: SwitchModel, speed_gbps: float) -> int:
    """Ports of a model at the link rate [1].

    Raises
    ------
    InputError
        If it forwards no packets at that rate.
    """
    ports = model.radix(speed_gbps)
    if ports:
        return ports
    known = [SWITCHES.load(name, reader.roots) for name in SWITCHES.paths(reader.roots)]
    fitting = [one.name for one in known if one.radix(speed_gbps)]
    hint = f"take one of {', '.join(fitting)}" if fitting else "no switch of the catalog does"
    raise InputError(
        f"--switch {model.name} forwards no packets at the links' {speed_gbps:g} Gb/s: {hint}"
    )
