"""Requests for quotation out of a bill, and the offers on one, side by side."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from netplan.costing.fabric_bill import Bill, make_bill
from netplan.costing.materials import Category
from netplan.costing.offers import LOTS, UNASKED, Market, Request, cheapest_mix, front, request_of
from netplan.costing.prices import PRICE_BOOKS, PriceBook
from netplan.costing.switches import require_switch
from netplan.errors import CatalogError, InputError
from netplan.procurement.offer_files import read_offers
from netplan.procurement.offers_answer import OffersAnswer, Requested
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.scenarios.bill_books import bill_books, spares_of
from netplan.scenarios.reading import CatalogReader, sized
from netplan.scenarios.scenario import Scenario
from netplan.setup.asking import function_of
from netplan.setup.money.pricing import MONEY, OPEX_INPUTS
from netplan.setup.own_inputs import SCENARIO, check_ranges, list_field, option_field
from netplan.setup.question import NETWORK, Question
from netplan.topologies.fabric import Sizing
from netplan.workloads.accelerators import ACCELERATORS

MAX_OFFERS = 40
RATE = re.compile(r"\s*([A-Za-z]{3})\s*=\s*(\d{1,9}(?:\.\d{1,9})?)\s*")
OF_A_BILL = (
    *("fabrics", "networks", "spares", "hall", "switch", "ocs", "cards", "lots"),
    *("hb_size", "oversubscription", "discount"),
)
"""Inputs that make a bill, and mean nothing where none is made."""


@dataclass(frozen=True, kw_only=True)
class Offers(Question[Answer]):
    """Ask suppliers for prices, and compare what they answer.

    With --gpus and the options of `netplan cost` for one fabric, a request for quotation: its lines
    as a table, or with --template as a spreadsheet for suppliers to fill in. It holds lots, part
    numbers and accepted equals, quantities with spares, and no price of ours.

    With FILES, the filled-in requests: line by line, what is missing, the cheapest whole offer and
    the cheapest mix (minimum orders, discounts on whole lots and whole orders, delivery), proven;
    the lead time of each, the line that it hangs on, and what a sooner delivery costs. With --gpus
    as well, whether the offers answer that very bill, and how they compare with the book.

    Raises
    ------
    CatalogError
        If a file is no offer on the request: one line a fault, with file, sheet and cell.
    InputError
        If an input is not allowed.

    Examples
    --------
    >>> asked = offers(scenario="rail-only-paper", gpus=1024, radix=64, fabrics="rail-only",
    ...     spares="2%", prices="2026")
    >>> [(line.id, line.order) for line in asked.request.lines][:2]
    [('L1-01', 17), ('L2-01', 2089)]
    """

    command: ClassVar[str] = "offers"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan offers hgx-h100 --fabric rail-only --template rfq.xlsx",
        "netplan offers a.xlsx b.xlsx c.xlsx",
        "netplan offers a.xlsx b.xlsx --weeks 12 --suppliers 1 --currency EUR --rate CHF=1.05",
    )

    reads: ClassVar[frozenset[str]] = NETWORK | {"switch"} | MONEY - OPEX_INPUTS

    files: Sequence[str | Path] = list_field("Filled-in requests.", "path", argument=True)
    lots: Sequence[str] = list_field(
        "Lot to ask for (repeatable).",
        "choice",
        flag="--lot",
        choices=tuple(LOTS),
        otherwise="all but hb-gear",
    )
    weeks: float | None = option_field(
        "Longest lead time of a mix.", "real", unit="weeks", low=0, high=520
    )
    suppliers: int | None = option_field(
        "Suppliers of a mix at most.", "whole", low=1, high=MAX_OFFERS
    )
    accept: Sequence[str] = list_field(
        "Part number that will do, too (repeatable).", metavar="NUMBER"
    )
    rates: Sequence[str] = list_field(
        "What one of a currency is in that of the answer (repeatable).",
        flag="--rate",
        metavar="CUR=N",
        otherwise="those of the price book",
    )

    @classmethod
    def make(cls, *arguments: Any, **given: Any) -> Self:  # noqa: ANN401 - inputs of any type
        """The question about files of offers; a word without dot and slash names the scenario.

        Parameters
        ----------
        arguments
            Files, one by one or together, and the scenario: a name, a path or a `Scenario`.
        given
            Inputs of the question, and of the scenario, by name.

        Raises
        ------
        NetplanError
            If there is no such input or scenario, or a value is not allowed.
        """
        files: list[Any] = []
        for argument in (*arguments, given.pop("files", None) or ()):
            files += argument if isinstance(argument, (tuple, list)) else [argument]
        scenarios = [place for place in files if _is_scenario(place)]
        named = given.pop(SCENARIO, None)
        scenarios += [] if named is None or named in scenarios else [named]
        if len(scenarios) > 1:
            raise InputError(f"{scenarios[0]} and {scenarios[1]}: name one scenario")
        given |= {SCENARIO: scenarios[0]} if scenarios else {}
        return super().make(files=[path for path in files if not _is_scenario(path)], **given)

    def ask(self) -> Answer:
        """The request, or the comparison of the offers on it."""
        check_ranges(self)
        reader = CatalogReader(self.catalog, self.overrides)
        sized = "gpus" in self.given
        if not self.files:
            if not self.given & {"gpus", "fabrics"} and len(self.cluster.fabrics) != 1:
                raise InputError(
                    "nothing to do: give --gpus and --fabric to ask for prices, or the files of"
                    " offers to compare"
                )
            return self._requested(reader)
        if not sized:
            self.reject_inputs(
                OF_A_BILL, "offers without --gpus, whose request says what was asked"
            )
        if len(self.files) > MAX_OFFERS:
            raise InputError(f"{len(self.files)} files are too many: compare {MAX_OFFERS} at once")
        return self._compared(reader, estimated=sized)

    def _bill(self, reader: CatalogReader) -> tuple[Bill, Sizing]:
        """The bill of the one fabric, and its size."""
        if len(self.cluster.fabrics) != 1:
            several = "fabrics" in self.given and self.cluster.fabrics
            got = f"got {len(self.cluster.fabrics)}" if several else "such as --fabric rail-only"
            raise InputError(f"a request is for one fabric: give --fabric once, {got}")
        chosen = reader.load(ACCELERATORS, self.cluster.accelerator)
        books = bill_books(self.cluster, self.books, reader)
        money = self.books.currency or books.prices.currency
        spec = reader.fabric(self.cluster.fabrics[0], self.cluster)
        sizing = sized(self.cluster, chosen)
        require_switch(books.switch, [spec], sizing, reader.roots)
        if books.ocs is not None and not spec.takes_circuits:
            if "ocs" in self.given:
                raise InputError(f"--ocs {books.ocs.name} joins cubes of a torus: leave it out")
            books = replace(books, ocs=None)
        kept = spares_of(self.books, reader)
        return make_bill(spec, sizing, books, spares=kept, currency=money), sizing

    def _request(self, bill: Bill, sizing: Sizing) -> Request:
        """The request for the lots that are asked for."""
        lots = cast("Sequence[Category]", self.lots) or [lot for lot in LOTS if lot not in UNASKED]
        switch = (
            f"{self.cluster.switch} of {sizing.radix} ports"
            if self.cluster.switch
            else f"{sizing.radix} ports"
        )
        title = (
            f"network {bill.name} for {sizing.gpus:,} GPUs: switches {switch},"
            f" {sizing.speed_gbps:g} Gb/s"
        )
        request = request_of(title, [item.line for item in bill.quote.items], lots)
        if not request.lines:
            raise InputError(
                f"nothing to ask for: the bill of {bill.name} has no line in the lots"
                f" {', '.join(lots)}"
            )
        return request

    def _requested(self, reader: CatalogReader) -> Requested:
        bill, sizing = self._bill(reader)
        request = self._request(bill, sizing)
        asked = {line.lot for line in request.lines}
        lots = dict.fromkeys(LOTS[item.line.category] for item in bill.quote.items)
        unasked = [lot for lot in lots if lot not in asked]
        inputs = self.inputs(hb_size=sizing.hb_size, set=reader.replaced(), files=[])
        return Requested(inputs, request, tuple(unasked))

    def _compared(self, reader: CatalogReader, *, estimated: bool) -> OffersAnswer:
        book = reader.load(PRICE_BOOKS, self.books.prices)
        money = (self.books.currency or book.currency).upper()
        rates = _own_rates(self.rates)
        if money in rates:
            raise InputError(f"--rate {money}=N: the answer is in {money}: leave it out")
        exchange = partial(_exchange, book=book, money=money, rates=rates)
        paths = [Path(file) for file in self.files]
        request, offers_read = read_offers(paths, exchange, tuple(self.accept))
        estimates = self._estimates(reader, request, paths[0]) if estimated else {}
        market = Market.of(request, offers_read)
        bare = Market(market.request, market.offers, market.cost, market.weeks, discounts=False)
        most = self.suppliers
        limited = None
        if self.weeks is not None:
            limited = cheapest_mix(market, weeks=self.weeks, most_offers=most)
        mixes = tuple(front(market, most_offers=most))
        undiscounted = cheapest_mix(bare, most_offers=most)
        if not market.needed:
            raise InputError(
                "no offer has a part that was asked for: name parts that will do by --accept"
            )
        if not mixes:
            raise InputError(f"--suppliers {most}: so few have no line each: allow more")
        inputs = self.inputs(
            files=[str(path) for path in paths], set=reader.replaced(), currency=money
        )
        return OffersAnswer(inputs, money, market, mixes, undiscounted, limited, estimates)

    def _estimates(self, reader: CatalogReader, request: Request, path: Path) -> dict[str, float]:
        """Base prices of the book by line, of a bill that is what the offers answer."""
        bill, sizing = self._bill(reader)
        request_made = self._request(bill, sizing)
        if request_made.fingerprint != request.fingerprint:
            raise CatalogError(
                f"{path}: netplan!B2: answers request {request.fingerprint}, these options make"
                f" {request_made.fingerprint}: give the options of the request, or leave --gpus out"
            )
        asked = {LOTS[category] for category in LOTS} & set(request_made.lots)
        items = [item for item in bill.quote.items if LOTS[item.line.category] in asked]
        ordered = sorted(
            (item for item in items if item.line.order),
            key=lambda item: request_made.lots.index(LOTS[item.line.category]),
        )
        pairs = zip(request_made.lines, ordered, strict=True)
        return {line.id: item.total.base for line, item in pairs if item.price is not None}


offers = function_of(Offers)


def _is_scenario(place: object) -> bool:
    """Whether what stands among files of offers is a scenario, or the name of one."""
    return isinstance(place, Scenario) or not {".", "/", os.sep} & set(str(place))


def _own_rates(texts: Sequence[str]) -> dict[str, float]:
    """Rates as they are given: ``CHF=1.13``."""
    rates: dict[str, float] = {}
    for text in texts:
        match = RATE.fullmatch(str(text))
        rate = float(match[2]) if match else 0.0
        if match is None or not (0 < rate < inf and isfinite(rate)):
            raise InputError(f"--rate {text!r:.40}: write CUR=N, such as CHF=1.13")
        if rates.setdefault(match[1].upper(), rate) != rate:
            raise InputError(f"--rate {text!r:.40}: another rate is given for it, too: give one")
    return rates


def _exchange(currency: str, *, book: PriceBook, money: str, rates: dict[str, float]) -> float:
    """What one of a currency is in that of the answer: as given, else by the book."""
    if currency == money:
        return 1.0
    if currency in rates:
        return rates[currency]
    try:
        return book.exchange(currency, money)
    except CatalogError:
        raise CatalogError(
            f"no rate to {money} in prices {book.name}: give one, such as --rate {currency}=1.1"
        ) from None
