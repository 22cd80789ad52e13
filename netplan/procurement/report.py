"""The procurement report: what a buyer sends to suppliers, in one file that needs no network.

It asks :func:`netplan.cost` what the fabrics cost and :func:`netplan.compare` what they are made of
and how fast they train, and adds a verdict. Every amount in the report is one of the bill's.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date as calendar_date
from typing import Any, ClassVar

from netplan.catalog import Shelf
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.costing.materials import ACCELERATORS_TOO
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS, PriceBook
from netplan.costing.switches import SWITCHES
from netplan.errors import InputError
from netplan.faults.rates import FAILURE_BOOKS, FailureBook
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.procurement.report_answer import Procurement
from netplan.questions.compare import Compare
from netplan.questions.cost import Cost
from netplan.questions.faults import Faults
from netplan.questions.inputs import CatalogReader
from netplan.questions.library import (
    COMPARE_ROLES,
    COST_ROLES,
    ECONOMICS_ROLES,
    FAULT_ROLES,
    REPORTS,
    ReportDefinition,
    read_library,
)
from netplan.questions.pricing import PricingQuestion
from netplan.questions.question import asks, default_of, optional, several
from netplan.questions.training import TrainingQuestion
from netplan.questions.verdict import VerdictQuestion
from netplan.records import replace
from netplan.topologies.floor_plan import FLOOR_PLANS
from netplan.topologies.site_networks import SITE_NETWORKS
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import WORKLOADS


@dataclass(frozen=True, kw_only=True)
class Report(
    VerdictQuestion[Procurement], TrainingQuestion[Procurement], PricingQuestion[Procurement]
):
    """Write what a buyer sends to suppliers: verdict, prices, bill, drawing, sources.

    The HTML file holds its charts and needs no network; the same question gives the same bytes.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.

    Examples
    --------
    >>> answer = procurement(gpus=32768, radix=128, prices="rail-only-2023", timing=False,
    ...                      fabrics=("rail-optimized", "rail-only"))
    >>> answer.recommendation.fabric, answer.chosen.capital.base
    ('rail-only', 49020928.0)
    """

    command: ClassVar[str] = "procurement"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan report procurement --gpus 32768 --radix 128 -o report.html --xlsx report.xlsx",
        "netplan report procurement --gpus 1024 --radix 64 --switch qm9700 --spares 2% -o r.html",
    )

    fabrics: Sequence[str] = several(
        "This fabric (repeatable).", flag="--fabric", otherwise="those of the report"
    )
    prices: str = optional("Price book.", default="", otherwise="the report's")
    timing: bool = optional(
        "Search the best plan of each fabric, or not.",
        "flag",
        flag="--timing/--no-timing",
        default=True,
    )
    report: str = optional("Report definition.", default="procurement")
    with_faults: bool = optional(
        "A section on failures, too.", "flag", flag="--faults", default=False
    )
    fail: Sequence[str] = several("Parts that fail there together.", metavar="PART")
    date: str = optional("Date to print.", default="", metavar="YYYY-MM-DD", otherwise="none")

    def ask(self) -> Procurement:
        """Price, compare and, if wanted, break every fabric; recommend one."""
        _require_date(self.date)
        if ACCELERATORS_TOO in self.networks:
            raise InputError(
                f"--with {ACCELERATORS_TOO}: a report recommends a network, to which the same"
                " accelerators are joined: leave it out, and ask netplan cost"
            )
        texts = dict(self.overrides or {})
        reader = CatalogReader(self.catalog, texts)
        definition = reader.load(REPORTS, self.report)
        asked = self._completed(definition)
        library = read_library(reader, asked.files())
        _require_distinct([spec.name for spec in library.all(FabricSpec)])
        priced = asked.part(Cost, overrides=library.only(texts, COST_ROLES)).ask()
        compared = asked.part(Compare, overrides=library.only(texts, COMPARE_ROLES)).ask()
        broken = None
        if self.with_faults or self.fail:
            # Spares, years and halls are other questions there, which nobody has asked here.
            apart, only = ("spares", "years", "floor_plan"), library.only(texts, FAULT_ROLES)
            broken = asked.part(Faults, apart=apart, overrides=only).ask()
        run = (library.of_role(WORKLOADS.role), compared.inputs["batch"])
        read = CatalogReader(self.catalog, library.only(texts, ECONOMICS_ROLES))
        terms = asked.terms(read, run, library.one(PriceBook), priced.currency)
        return Procurement(
            definition=definition,
            cost=priced,
            comparison=compared,
            library=library,
            date=self.date,
            tokens=self.tokens,
            faults=broken,
            terms=terms,
            failures=library.one(FailureBook),
            books=asked.books(CatalogReader(self.catalog, library.only(texts, COST_ROLES))),
        )

    def _completed(self, definition: ReportDefinition) -> "Report":
        """The question with what the report's definition says: fabrics and price book."""
        prices = self.prices or definition.prices
        return replace(
            self,
            fabrics=tuple(self.fabrics) or definition.fabrics,
            prices=prices or str(default_of(self.command, "prices", self.catalog)),
        )

    def files(self) -> Iterator[tuple[Shelf[Any], str | None]]:
        """Catalog files of the report, by shelf and name."""
        yield from ((FABRICS, name) for name in self.fabrics)
        yield from (
            (ACCELERATORS, self.accelerator),
            (PRICE_BOOKS, self.prices),
            (POWER_BOOKS, self.power),
            (CABLING_BOOKS, self.cabling),
            (ECONOMICS_BOOKS, self.economics),
            (SWITCHES, self.switch or None),
            (SWITCHES, self.ocs or None),
            (FLOOR_PLANS, self.floor_plan or None),
        )
        yield from ((SITE_NETWORKS, name) for name in self.site_networks)
        yield from ((WORKLOADS, self.model), (ITERATION_MODELS, self.iteration_model))
        yield FAILURE_BOOKS, str(default_of(Faults.command, "failures", self.catalog))


procurement = asks(Report)


def _require_date(text: str) -> None:
    """Refuse a date of another form: the report prints it as it is."""
    with suppress(ValueError):
        if not text or calendar_date.fromisoformat(text).isoformat() == text:
            return
    raise InputError(f"--date {text!r} is not a date: write YYYY-MM-DD, such as 2026-01-31")


def _require_distinct(names: Sequence[str]) -> None:
    """Refuse two fabrics of one name: nobody could tell their rows apart."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"--fabric: two fabrics are called {name!r}: give one, or rename it")
