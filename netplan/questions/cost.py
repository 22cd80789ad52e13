"""The bill of materials of fabrics: what to order, what it costs, what drives that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from netplan.answers.cost_answer import CostAnswer, FabricSteps, FabricTokens
from netplan.answers.sites_bill import SitesBill
from netplan.costing.fabric_bill import Bill, BillBooks, FabricBill, RefusedFabric, make_bill
from netplan.costing.lifetime import Opex, lifetime
from netplan.costing.prices import PriceBook
from netplan.errors import InfeasibleError, InputError, not_built
from netplan.records import replace
from netplan.scenarios.bill_books import books_of_sites, spares_of, whole_books
from netplan.scenarios.reading import CatalogReader
from netplan.setup.asking import function_of
from netplan.setup.inputs import asked_by_name, fabrics_bought, span_of
from netplan.setup.money.pricing import MONEY, BillCase
from netplan.setup.money.run_cost import RunTerms, TokenCost, rates_of
from netplan.setup.money.step_cost import Stepped, StepPrice, step_terms
from netplan.setup.question import FOUND, NETWORK, POST_TRAINED, SERVED, SPAN, Question
from netplan.topologies.cliffs import cliffs_of
from netplan.topologies.specs import FabricSpec

if TYPE_CHECKING:
    from netplan.setup.serving_run import ServingCache


@dataclass(frozen=True, kw_only=True)
class Cost(Question[CostAnswer]):
    """Make the bill of materials of a network, with its price range and what drives it.

    Ports close before anything is priced: every cable end has a port of the right speed and form.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.

    Examples
    --------
    >>> answer = cost("rail-only-paper", gpus=32768, radix=128)
    >>> [(bill.name, bill.capital.base) for bill in answer.bills]
    [('rail-optimized', 196083712.0), ('rail-only', 49020928.0)]
    """

    command: ClassVar[str] = "cost"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan cost nvl72-gb200",
        "netplan cost hgx-h100 --gpus 1024 --switch qm9700 --spares 2%",
        "netplan cost hgx-h100 --gpus 4096 --currency EUR -o bill.xlsx",
        "netplan cost hgx-h100 --expanded-memory comet-480gb --with accelerators",
    )

    reads: ClassVar[frozenset[str]] = (
        NETWORK
        | FOUND
        | SERVED
        | POST_TRAINED
        | MONEY
        | {"switch", "expanded_memory"}
        | (SPAN - {"across"})
    )
    untimed: ClassVar[frozenset[str]] = frozenset({"training"})

    def ask(self) -> CostAnswer:
        """Build, list, price and run every fabric."""
        return self.priced(steps=self.reinforces)

    def priced(self, *, steps: bool) -> CostAnswer:
        """The bills, with what a step of post-training costs on them where that is asked."""
        if self.trains:
            self.reject_inputs(FOUND, "a bill without servers, on which nothing is timed")
        case = BillCase.of(self, whole_books, fabrics_bought)
        reader, chosen, books, money, opex, specs, sizing = case
        alone = _with_circuits(self, books, specs)
        span, kept = span_of(self), spares_of(self.books, reader)
        if span is not None:
            span.dealt(sizing)  # refuses sites that no fabric could have
        books = books_of_sites(alone, span, self.books, reader)
        made = partial(make_bill, sizing=sizing, books=books, spares=kept, currency=money)
        built = [_bill_or_reason(spec, made) for spec in specs]
        refused = tuple(refusal for refusal in built if isinstance(refusal, RefusedFabric))
        bills = tuple(_with_years(bill, books, opex) for bill in built if isinstance(bill, Bill))
        if not bills:
            raise InfeasibleError(f"{refused[0].name}: {refused[0].reason}")
        terms = rates_of(self, "price", reader, 1, books.prices, money)
        terms = replace(terms, opex=opex) if terms else None
        served, notes = self._served(reader, bills, terms)
        priced = reader, bills, books.prices, opex
        stepped, step_notes = self._stepped(*priced) if steps else ((), ())
        memory = books.compute.memory
        inputs = case.inputs(self, expanded_memory=memory.name if memory else None)
        by_name = {spec.name: spec for spec in specs}
        one_site = {
            bill.name: known
            for bill in bills
            if (known := SitesBill.of(bill, partial(made, by_name[bill.name], books=alone)))
        }
        unsold = {spec.name: words for spec in specs if (words := spec.barred_for(chosen))}
        hour = terms.gpu_hour if terms else None
        cliffs = partial(cliffs_of, specs, sizing)
        return CostAnswer(
            *(inputs, money, bills, refused, served, (*notes, *step_notes), unsold, hour),
            stepped=stepped,
            cliffs=None if one_site else cliffs,
            in_sites=one_site,
        )

    def _served(
        self, reader: CatalogReader, bills: Sequence[FabricBill], terms: RunTerms | None
    ) -> tuple[tuple[FabricTokens, ...], tuple[str, ...]]:
        """How fabrics with a bill serve, if they do, what tokens cost there, and notes."""
        if self.trains or self.reinforces:
            return (), ()
        from netplan.setup.serving_run import serve_best

        known: ServingCache = {}
        asked = asked_by_name(self, fabrics_bought(self))
        rows: list[FabricTokens] = []
        notes: dict[str, None] = {}
        for bill in bills:
            searched, plan = serve_best(self, reader, asked[bill.name], known)
            rows.append(FabricTokens(bill.name, TokenCost.of(plan, bill, terms)))
            notes |= dict.fromkeys(searched.notes)
        return tuple(rows), tuple(notes)

    def _stepped(
        self, reader: CatalogReader, bills: Sequence[FabricBill], prices: PriceBook, opex: Opex
    ) -> tuple[tuple[FabricSteps, ...], tuple[str, ...]]:
        """How fabrics with a bill do a step of post-training, what it costs there, and notes.

        Raises
        ------
        InfeasibleError
            If none does.
        """
        from netplan.setup.post_training_step import post_train

        terms = step_terms(self, reader, prices, self.books.currency or prices.currency, opex)
        asked = asked_by_name(self, fabrics_bought(self))
        known: dict[object, Any] = {}
        rows: list[FabricSteps] = []
        refusals: list[InfeasibleError] = []
        notes: dict[str, None] = {}
        for bill in bills:
            try:
                trained = post_train(self, reader, asked[bill.name], known)
            except InfeasibleError as error:
                refusals.append(error)
                notes[f"{bill.name}: no step: {error}."] = None
                continue
            price = StepPrice.of(trained, bill, terms)
            rows.append(FabricSteps(bill.name, Stepped(trained, price)))
            notes |= dict.fromkeys(trained.notes)
        if refusals and not rows:
            raise refusals[0]
        return tuple(rows), tuple(notes)


cost = function_of(Cost)


def _with_circuits(asked: Cost, books: BillBooks, specs: Sequence[FabricSpec]) -> BillBooks:
    """The books, without circuit switches of a scenario that have nothing to join, or no place.

    Raises
    ------
    InputError
        If they are asked for by name.
    """
    if books.ocs is None:
        return books
    if not any(spec.takes_circuits for spec in specs):
        if "ocs" in asked.given:
            raise InputError(
                f"--ocs {books.ocs.name} joins cubes of a torus, or GPUs and rails: add --fabric"
                " torus-3d or rail-only-ocs"
            )
        return replace(books, ocs=None)
    hall = books.hall
    if hall is None or hall.by_rule:
        return books
    if "ocs" in asked.given and "hall" in asked.given:
        raise InputError(f"--hall {hall.name} has no place for circuit switches: leave one out")
    return replace(books, hall=None) if "ocs" in asked.given else replace(books, ocs=None)


def _bill_or_reason(spec: FabricSpec, made: Callable[[FabricSpec], Bill]) -> Bill | RefusedFabric:
    """The bill of a fabric, or why it has none."""
    try:
        return made(spec)
    except (InputError, InfeasibleError) as error:
        return RefusedFabric(spec.name, not_built(spec.name, error))


def _with_years(bill: Bill, books: BillBooks, opex: Opex) -> FabricBill:
    """The bill with its years of use, and with all that is to be said about it."""
    notes = [*bill.fabric.notes, *bill.notes]
    if bill.draw.unknown:
        parts = ", ".join(f"{line.quantity:,} {line.title}" for line in bill.draw.unknown)
        notes.append(f"No power in {books.power.name} for {parts}.")
    notes += bill.inside.notes if bill.inside.known else ()
    life = lifetime(bill.capital, bill.draw.typical_w, opex)
    return FabricBill(
        *(bill.fabric, bill.quote, bill.draw, bill.racks, tuple(notes)),
        *(bill.site_racks, bill.hb_size, bill.inside, bill.hall, bill.media_given),
        haul=bill.haul,
        life=life,
    )
