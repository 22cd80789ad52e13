"""Inputs of all questions about money, and the books and values that they stand for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook, Running
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS, PriceBook
from netplan.costing.ranges import Range
from netplan.costing.switches import SWITCHES
from netplan.errors import CatalogError, InputError
from netplan.questions.inputs import CatalogReader
from netplan.questions.question import AnswerT_co, ClusterQuestion, optional, shared
from netplan.records import asdict
from netplan.topologies.floor_plan import FLOOR_PLANS
from netplan.topologies.site_networks import SITE_NETWORKS, SiteNetwork
from netplan.topologies.specs import FABRICS, FabricSpec


@dataclass(frozen=True, kw_only=True)
class PricingQuestion(ClusterQuestion[AnswerT_co]):
    """Inputs of all questions about the bills of one cluster."""

    fabrics: Sequence[str] = optional(
        "This fabric (repeatable).",
        flag="--fabric",
        many=True,
        default=(),
        otherwise="rail-optimized and rail-only",
    )
    prices: str = shared("Price book.")
    power: str = shared("Power book.")
    cabling: str = shared("Modules and cables.")
    economics: str = shared("PUE, tariff, rate.")
    switch: str | None = optional("Switch model with that many ports.", otherwise="any")
    ocs: str | None = optional("Optical circuit switch for tori.", otherwise="direct fibres")
    networks: Sequence[str] = optional(
        "A network beside: storage, management, out-of-band (repeatable).",
        flag="--with",
        many=True,
        default=(),
    )
    floor_plan: str | None = optional("Hall that gives cable lengths.", otherwise="classes")
    spares: str | Sequence[str] = optional(
        "Spares: 2%, or a part=3% (repeatable).", many=True, default=()
    )
    currency: str | None = optional("Currency of the answer.", otherwise="the book's")
    discount: float | None = optional("Off every price.", "percent", otherwise="the book's")
    years: int | None = optional("Years of use.", "whole", otherwise="the economics book's")
    pue: float | None = optional("Facility over equipment power.", "real", otherwise="the same")
    tariff: float | None = optional("Price of a kWh.", "real", otherwise="the same")
    interest: float | None = optional("Interest a year, as 7%.", "percent", otherwise="the same")

    @property
    def asked_spares(self) -> list[str]:
        """Spares as a list."""
        return [self.spares] if isinstance(self.spares, str) else list(self.spares)

    def books(self, reader: CatalogReader) -> BillBooks:
        """Catalog files of the bills, the discount in the price book.

        Raises
        ------
        NetplanError
            If a file is unknown or malformed, or the discount is out of range.
        """
        book = reader.load(PRICE_BOOKS, self.prices)
        return BillBooks(
            prices=book if self.discount is None else _discounted(book, self.discount),
            power=reader.load(POWER_BOOKS, self.power),
            cabling=reader.load(CABLING_BOOKS, self.cabling),
            switch=reader.load(SWITCHES, self.switch) if self.switch else None,
            ocs=reader.load(SWITCHES, self.ocs) if self.ocs else None,
            hall=reader.load(FLOOR_PLANS, self.floor_plan) if self.floor_plan else None,
            networks=tuple(_site_networks(reader, self.networks)),
        )

    def running(self, reader: CatalogReader, prices: PriceBook, currency: str) -> Running:
        """PUE, tariff and interest as given, else the book's; its tariff in this currency.

        Raises
        ------
        NetplanError
            If a value is out of range, or the price book has no rate for the currency.
        """
        book: EconomicsBook = reader.load(ECONOMICS_BOOKS, self.economics)
        try:
            rate = prices.exchange(book.currency, currency) if self.tariff is None else 1.0
        except CatalogError as error:
            raise CatalogError(f"{error}; or give --tariff in {currency}") from None
        point = Range.point
        return Running(
            years=book.years if self.years is None else self.years,
            pue=book.pue.range if self.pue is None else point(self.pue),
            tariff=rate * book.tariff.range if self.tariff is None else point(self.tariff),
            interest=book.interest.range if self.interest is None else point(self.interest),
        )


def running_inputs(running: Running) -> dict[str, object]:
    """Years, PUE, tariff and interest as the answer's inputs show them."""
    ranges = {"pue": running.pue, "tariff_per_kwh": running.tariff, "interest": running.interest}
    return {
        "years": running.years,
        **{name: amount.base for name, amount in ranges.items()},
        "running": {name: asdict(amount) for name, amount in ranges.items()},
    }


def _discounted(book: PriceBook, discount: float) -> PriceBook:
    if not 0 <= discount < 1:
        raise InputError(
            f"--discount {100 * discount:g}% is out of range: give 0% up to below 100%"
        )
    return book.changed(discount=discount)


def _site_networks(
    reader: CatalogReader, names: Sequence[str]
) -> Iterator[tuple[SiteNetwork, FabricSpec]]:
    """Site networks with the fabric specs that they name; each network once."""
    for name in dict.fromkeys(names):
        network = reader.load(SITE_NETWORKS, name)
        yield network, reader.load(FABRICS, network.fabric)
