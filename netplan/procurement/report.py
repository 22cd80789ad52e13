"""The procurement report: what a buyer sends to suppliers, in one file that needs no network.

It asks :func:`netplan.cost` what the fabrics cost and :func:`netplan.compare` what they are made of
and how fast they train, and adds a verdict. Every amount in the report is one of the bill's.

Its answer has the JSON, the chapters in order, the page and the sheets.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date as calendar_date
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from netplan.answers.compare_answer import Comparison
from netplan.answers.compare_cases import ComparisonCases, all_in, cases_verdict
from netplan.answers.screen_titles import titled
from netplan.catalog import Catalog
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.costing.materials import ACCELERATORS_TOO
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS, PriceBook
from netplan.costing.switches import SWITCHES
from netplan.decide.candidates import Rule
from netplan.errors import CatalogError, InputError
from netplan.faults.years.ordered_spares import USUAL_LEVEL
from netplan.faults.years.rates import FAILURE_BOOKS, FailureBook
from netplan.faults.years.recovery_presets import RECOVERY_PRESETS
from netplan.inputs.choices import AS_PUBLISHED
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.procurement import front_page, known_unknown, ordered, side_by_side
from netplan.procurement.findings import Findings
from netplan.questions.beyond_the_bill import beyond_the_bill, other_hall
from netplan.questions.compare import Compare
from netplan.questions.cost import Cost
from netplan.questions.library import (
    COMPARE_ROLES,
    COST_ROLES,
    ECONOMICS_ROLES,
    FAULT_ROLES,
    REPORTS,
    Chapter,
    Library,
    ReportDefinition,
    read_library,
)
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.quantities import money
from netplan.reports.schema import plain_data
from netplan.reports.screen import Screen, columns_of, more_of
from netplan.reports.sections import Heading, Notes, Paragraph, Section, Table, data_tables
from netplan.scenarios.bill_books import bill_books, site_networks
from netplan.scenarios.reading import NONE, CatalogReader, variants
from netplan.setup.asking import function_of
from netplan.setup.inputs import fabrics_bought, short_inputs
from netplan.setup.money.pricing import MONEY
from netplan.setup.money.run_cost import RULE, WITHIN, RunTerms, check_within, run_terms
from netplan.setup.own_inputs import default_field, list_field, option_field
from netplan.setup.question import FAILING, FOUND, NETWORK, RUNS, Question
from netplan.setup.served_plan import serving_words
from netplan.setup.training import assumed
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS
from netplan.topologies.site_networks import SITE_NETWORKS
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import WORKLOADS
from netplan.workloads.technologies import MEMORIES

if TYPE_CHECKING:
    from netplan.answers.faults_answer import FaultsAnswer


SectionT = TypeVar("SectionT", bound=Section)


@dataclass(frozen=True, repr=False)
class Procurement(Findings, Answer):
    """The answer of :func:`netplan.procurement`."""

    json_head = ("netplan_version",)
    json_parts = (
        *("report=definition.name", "date?", "inputs", "input_sha256"),
        *("recommended=recommendation.fabric", "runner_up=runner_up.name", "headline"),
        *("verdict=recommendation.sentence", "recommendation.reasons"),
        *("decision=verdict_and_decision", "faults", "training_runs=runs", "*asked_for"),
        *("?cases=case_rows", "cost", "comparison"),
    )

    @property
    def headline(self) -> list[str]:
        """What comes first, in sentences."""
        return list(front_page.headline(self))

    @property
    def verdict_and_decision(self) -> dict[str, Any] | None:
        """The verdict in words and as data; None where there is none."""
        verdict = self.recommendation.verdict
        if verdict is None or self.decision is None:
            return None
        facts: dict[str, Any] = plain_data(verdict) | plain_data(self.decision)
        return facts

    @property
    def case_rows(self) -> list[dict[str, Any]]:
        """Several cases side by side."""
        return self.cases.to_dict()["cases"] if self.cases else []

    @property
    def asked_for(self) -> dict[str, Any]:
        """A simulated iteration and servers, where they were asked for; not how long that took."""
        answers: dict[str, Any] = {}
        if self.simulation is not None:
            answers["simulation"] = self.simulation.to_dict()
            del answers["simulation"]["seconds"]
        if self.step is not None:
            answers["step"] = self.step.to_dict()
        if self.serving is not None:
            answers["serving"] = self.serving.to_dict()
            del answers["serving"]["space"]["seconds"]
        return answers

    def sections(self) -> Iterator[Section]:
        """The verdict, then the chapters of the report's definition."""
        yield Heading(f"The network of {self.inputs['gpus']:,} GPUs", (self._basis(),))
        yield from (Paragraph(line, "strong") for line in self.over_cases)
        for line in front_page.headline(self):
            yield Paragraph(line, "strong")
        for chapter in self.definition.sections:
            yield from CHAPTERS[chapter](self)
            if chapter == "decision" and self.cases:
                yield from self._side_by_side(self.cases)

    def _side_by_side(self, cases: ComparisonCases) -> Iterator[Section]:
        """All cases that were asked for: what each rests on, and what to order all in."""
        heading, *shown = cases.summary()
        if isinstance(heading, Heading):
            yield Heading("Cases side by side", heading.lines, "cases")
        yield Paragraph(" ".join(cases_verdict(cases.flag, cases.compared)), "strong")
        table = _only(Table, shown)
        if table is not None:
            yield replace(table, shown="people")

    def summary(self) -> Iterator[Section]:
        """What to order and what it costs in use, fabrics side by side, what would change that."""
        order, *reasons = front_page.headline(self)
        table = _only(Table, side_by_side.comparison_chapter(self))
        names = ("fabric", "cost_base", "range", "power_w", "iteration_time_s", "mfu", *STEPPED)
        changes = _only(Notes, front_page.changes_chapter(self))
        yield from Screen(
            Heading(
                titled(self.inputs, f"what to order for {self.inputs['gpus']:,} GPUs"),
                (self._basis(),),
            ),
            (*self.over_cases, order),
            replace(table, columns=columns_of(table, *names)) if table else None,
            (*reasons, *(text for _, text in (changes.groups if changes else ()))),
            more_of("the whole report", "-o report.html --xlsx bill.xlsx", page=False),
        ).sections()

    def in_a_line(self) -> str:
        """What to order, and for how much."""
        fabric, bill = self.recommendation.fabric, self.chosen
        least = "≥ " if bill.quote.unpriced else ""
        price = f"{least}{money(bill.capital.base, self.cost.currency)}"
        if bill.cost is None:
            return self.recommendation.sentence.removesuffix(".")
        return f"order {fabric}, {price}" if fabric else f"undecided; {bill.name}, {price}"

    def _basis(self) -> str:
        """What all of it is about, in a line."""
        inputs = short_inputs(self.inputs)
        switch = f" ({inputs['switch']})" if inputs["switch"] else ""
        less = f" less {100 * inputs['discount']:g} %" if inputs["discount"] else ""
        trained = ""
        if self.serves:
            trained = f"; {serving_words(inputs)}"
        elif self.reinforces:
            from netplan.answers.post_training_words import step_inputs_words

            trained = f"; {step_inputs_words(inputs)}"
        elif inputs["timing"] and not self.post_trains:
            trained = f"; training {inputs['model']}, {assumed(inputs)}"
        prices = inputs["prices"]
        return (
            f"{inputs['accelerator']} in HB domains of {inputs['hb_size']:,}, switches of"
            f" {inputs['radix']} ports at {inputs['link_gbps']:g} Gb/s{switch}; prices"
            f" {prices} in {self.cost.currency}{less}{trained}."
        )

    def html(self) -> str:
        """The report as one HTML file that loads nothing from anywhere.

        Raises
        ------
        CatalogError
            If the definition names a template that is not shipped.
        """
        from netplan.reports.html import html_page
        from netplan.reports.page import templates

        name = self.definition.template
        if not (templates() / name).is_file():
            raise CatalogError(f"report {self.definition.name}: no template in {templates()}")
        values = {
            "definition": self.definition,
            "gpus": self.inputs["gpus"],
            "date": self.date,
            "headline": front_page.headline(self),
            "input_sha256": self.input_sha256,
        }
        return html_page(self._with_cautions(self.sections()), name, values)

    def xlsx(self) -> bytes:
        """The bills as a spreadsheet with live formulas, and what the report has beside them."""
        chapters = [chapter for chapter in BESIDE if chapter in self.definition.sections]
        tables = data_tables(part for chapter in chapters for part in CHAPTERS[chapter](self))
        return self.cost.xlsx(tables, (self.chosen.name, front_page.headline(self)))


STEPPED = ("step_s", "cost_per_step")
"""Columns of the summary that say how a step of post-training is, where there are any."""


def _only(kind: type[SectionT], sections: Iterable[Section]) -> SectionT | None:
    """The first section of a kind; None where there is none."""
    return next((section for section in sections if isinstance(section, kind)), None)


CHAPTERS: dict[Chapter, Callable[[Findings], Iterator[Section]]] = {
    "answers": front_page.answers_chapter,
    "decision": front_page.decision_chapter,
    "unknown": known_unknown.unknown_chapter,
    "trust": known_unknown.trust_chapter,
    "changes": front_page.changes_chapter,
    "risks": known_unknown.risks_chapter,
    "comparison": side_by_side.comparison_chapter,
    "price": side_by_side.price_chapter,
    "drivers": side_by_side.drivers_chapter,
    "running": side_by_side.opex_chapter,
    "speed": side_by_side.speed_chapter,
    "errors": ordered.errors_chapter,
    "simulation": ordered.simulation_chapter,
    "serving": ordered.serving_chapter,
    "memory": ordered.memory_chapter,
    "bill": ordered.bill_chapter,
    "fabric": ordered.fabric_chapter,
    "racks": ordered.racks_chapter,
    "faults": known_unknown.faults_chapter,
    "assumptions": known_unknown.assumptions_chapter,
    "sources": known_unknown.sources_chapter,
}

BESIDE: tuple[Chapter, ...] = (
    *("answers", "risks", "running", "errors", "simulation", "serving", "memory", "racks"),
    "faults",
)
"""Chapters whose tables the spreadsheet has beside the bills."""


@dataclass(frozen=True, kw_only=True)
class Report(Question[Procurement]):
    """Write what a buyer sends to suppliers: verdict, prices, bill, drawing, sources.

    The HTML file holds its charts and needs no network; the same question gives the same bytes.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.

    Examples
    --------
    >>> answer = procurement("rail-only-paper", gpus=32768, radix=128, prices="rail-only-2023",
    ...     timing=False,
    ...                      fabrics=("rail-optimized", "rail-only"))
    >>> answer.recommendation.fabric, answer.chosen.capital.base
    ('rail-only', 49020928.0)
    """

    command: ClassVar[str] = "procurement"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan report procurement hgx-h100 -o report.html --xlsx bill.xlsx",
        "netplan report procurement hgx-h100 --switch qm9700 --spares 2% -o r.html",
        "netplan report procurement --accelerator h200 --accelerator b200 -o r.html",
    )

    reads: ClassVar[frozenset[str]] = (
        NETWORK
        | RUNS
        | MONEY
        | FOUND
        | FAILING
        | {"switch", "expanded_memory", "gpu_hour", "tokens"}
    )

    varies: ClassVar[tuple[str, ...]] = ("accelerator", "nic_gbps")

    rule: Rule = default_field(RULE, "choice", choices=get_args(Rule))
    within: float = default_field(WITHIN, "percent")
    timing: bool = option_field(
        "Search the best plan of each fabric, or not.",
        "flag",
        flag="--timing/--no-timing",
        default=True,
    )
    report: str = option_field("Report definition.", default="procurement")
    with_faults: bool = option_field(
        "A section on failures, too.", "flag", flag="--faults", default=False
    )
    fail: Sequence[str] = list_field("Parts that fail there together.", metavar="PART")
    simulate: bool = option_field(
        "A section on one iteration of the best fabric, event by event.", "flag", default=False
    )
    date: str = option_field("Date to print.", default="", metavar="YYYY-MM-DD", otherwise="none")

    def ask(self) -> Procurement:
        """Price, compare and, if wanted, break every fabric; recommend one."""
        _require_date(self.date)
        check_within(self.within)
        if any(len(values) > 1 for values in self.varied.values()):
            return self._of_cases()
        if ACCELERATORS_TOO in self.cluster.networks and "networks" not in self.given:
            named = (name for name in self.cluster.networks if name != ACCELERATORS_TOO)
            return self.with_values(networks=tuple(named)).ask()
        if ACCELERATORS_TOO in self.cluster.networks:
            raise InputError(
                f"--with {ACCELERATORS_TOO}: a report recommends a network, to which the same"
                " accelerators are joined: leave it out, and ask netplan cost"
            )
        if not self.books.spares:
            return self.with_values(spares=(USUAL_LEVEL,)).ask()
        texts = dict(self.overrides or {})
        reader = CatalogReader(self.catalog, texts)
        definition = reader.load(REPORTS, self.report)
        # About the fabrics of the report's definition, where none are named.
        fabrics = fabrics_bought(self)
        if definition.fabrics and "fabrics" not in self.given:
            fabrics = definition.fabrics
        scenario = self.scenario.replace(fabrics=fabrics)
        about = replace(self, scenario=scenario, given=self.given | {"fabrics"})
        return about.answered(definition, reader)

    def _of_cases(self) -> Procurement:
        """The report of the case that costs least all in, with all of them side by side.

        Of cases that cannot be weighed, or told apart, it is that of the first.
        """
        asked = {"rule": self.rule, "within": self.within, "timing": self.timing}
        cases = self.also(Compare, varied=self.varied, **asked).ask()
        if not isinstance(cases, ComparisonCases):
            raise TypeError("several values make several cases")
        weighed = all_in(cases.compared)
        best = weighed.winner or weighed.tied[0] if weighed else cases.compared[0][0]
        place = next(row for row, (label, _) in enumerate(cases.compared) if label == best)
        values = dict(zip(cases.names, cases.cases[place][0], strict=True))
        given = {name: self.scenario.value(name) for name in self.given - {*values, "nic_gbps"}}
        chosen = Report.about(
            self.before, **given, **values, overrides=self.overrides, catalog=self.catalog
        )
        inputs = ("rule", "within", "timing", "report", "with_faults", "fail", "simulate", "date")
        report = replace(chosen, **{name: getattr(self, name) for name in inputs}).ask()
        return replace(report, cases=cases, case=best)

    def answered(self, definition: ReportDefinition, reader: CatalogReader) -> Procurement:
        """The answer, fabrics and price book being given."""
        texts = dict(self.overrides or {})
        if self.cluster.ocs:  # before it is one switch of many
            reader.circuit_switch(self.cluster.ocs)
        library = read_library(reader, self.files(), self.cluster)
        fabrics = [spec.name for spec in library.all(FabricSpec)]
        for number, name in enumerate(fabrics):
            if name in fabrics[:number]:  # nobody could tell their rows apart
                raise InputError(
                    f"--fabric: two fabrics are called {name!r}: give one, or rename it"
                )
        of_cost = library.only(texts, COST_ROLES)
        of_run = library.only(texts, COMPARE_ROLES)
        # Servers are priced with their tokens.
        mine = of_cost if self.trains else of_cost | of_run
        # A step of post-training has the price that the comparison has of it, without spares.
        priced = self.also(Cost, overrides=mine, given=self.given - FOUND).priced(steps=False)
        compared, of_runs = self._compared(of_run), CatalogReader(self.catalog, of_run)
        named = of_runs.load(ACCELERATORS, self.cluster.accelerator)
        report = Procurement(
            definition=definition,
            cost=priced,
            comparison=compared,
            library=library,
            date=self.date,
            tokens=self.training.tokens if self.trains else None,
            faults=self._broken(library, texts),
            terms=self._terms(library, texts, compared, priced.currency),
            failures=library.first(FailureBook),
            books=bill_books(self.cluster, self.books, CatalogReader(self.catalog, of_cost)),
            chip=variants(of_runs, named, (self.cluster.expanded_memory,))[0].chip,
            halls=partial(
                other_hall, self, specs={spec.name: spec for spec in library.all(FabricSpec)}
            ),
            beyond=beyond_the_bill(self, library.first(PriceBook), self.cluster.fabrics),
        )
        names = (spec.name for spec in library.all(FabricSpec))
        fabric = dict(zip(names, self.cluster.fabrics, strict=True))[report.chosen.name]
        return self._with_runs(report, fabric, of_run)

    def _compared(self, overrides: Mapping[str, str]) -> Comparison:
        """The comparison of the fabrics, with the expanded memory if there is one."""
        memory = self.cluster.expanded_memory
        varied = {"expanded_memory": (memory,)} if memory and self.trains else {}
        return self.also(
            Compare,
            rule=self.rule,
            within=self.within,
            timing=self.timing,
            varied=varied,
            overrides=overrides,
        ).comparison()

    def _broken(self, library: Library, texts: Mapping[str, str]) -> "FaultsAnswer | None":
        """Failures, where they are asked for."""
        if not (self.with_faults or self.fail):
            self.reject_inputs(FAILING - {"failures"}, "a report without --faults")
            return None
        from netplan.questions.faults import Faults

        # Spares, years and risks of a hall are other questions there, which nobody has asked here.
        scenario = self.scenario
        only = library.only(texts, FAULT_ROLES)
        return self.also(
            Faults, scenario=scenario, fail=self.fail, timing=self.timing, overrides=only
        ).ask()

    def _terms(
        self, library: Library, texts: Mapping[str, str], compared: Comparison, currency: str
    ) -> RunTerms | None:
        """What a training run is worth; None for servers."""
        if not self.trains:
            return None
        run = (library.of_role(WORKLOADS.role), compared.inputs["batch"])
        reader = CatalogReader(self.catalog, library.only(texts, ECONOMICS_ROLES))
        return run_terms(self, self.rule, reader, run, library.first(PriceBook), currency)

    def _with_runs(
        self, report: Procurement, fabric: str, overrides: Mapping[str, str]
    ) -> Procurement:
        """The same with what the best fabric runs: simulated, and how it serves."""
        simulation = serving = step = None
        if self.simulate:
            from netplan.questions.simulate import Simulate

            on = self.scenario.replace(fabric=fabric, expanded_memory=None)
            simulation = self.also(Simulate, scenario=on, overrides=overrides).ask()
        if report.reinforces:
            from netplan.questions.search import Search
            from netplan.questions.step import answer_step

            on = self.scenario.replace(fabric=fabric)
            step = answer_step(self.also(Search, scenario=on, overrides=overrides))
        elif not (self.trains or self.reinforces):
            from netplan.questions.serving import ServingQuestion

            on = self.scenario.replace(fabric=fabric)
            serving = self.also(ServingQuestion, scenario=on, overrides=overrides).ask()
        if simulation is None and serving is None and step is None:
            return report
        return replace(report, simulation=simulation, serving=serving, step=step)

    def files(self) -> Iterator[tuple[Catalog[Any], str | None]]:
        """Catalog files of the report, by shelf and name."""
        yield from ((FABRICS, name) for name in self.cluster.fabrics)
        yield from (
            (ACCELERATORS, self.cluster.accelerator),
            (PRICE_BOOKS, self.books.prices),
            (POWER_BOOKS, self.books.power),
            (CABLING_BOOKS, self.books.cabling),
            (ECONOMICS_BOOKS, self.books.economics),
            (SWITCHES, self.cluster.switch or None),
            (SWITCHES, self.cluster.ocs or None),
            (FLOOR_PLANS, None if self.cluster.hall == AS_PUBLISHED else self.cluster.hall),
        )
        yield from ((SITE_NETWORKS, name) for name in site_networks(self.cluster))
        yield WORKLOADS, self.scenario.workload.model
        if self.trains:
            yield ITERATION_MODELS, self.training.iteration_model
            yield RECOVERY_PRESETS, self.training.checkpoints.recovery
        if self.cluster.expanded_memory not in (None, NONE):
            yield MEMORIES, self.cluster.expanded_memory
        yield FAILURE_BOOKS, self.books.failures


procurement = function_of(Report)


def _require_date(text: str) -> None:
    """Refuse a date of another form: the report prints it as it is."""
    with suppress(ValueError):
        if not text or calendar_date.fromisoformat(text).isoformat() == text:
            return
    raise InputError(f"--date {text!r} is not a date: write YYYY-MM-DD, such as 2026-01-31")
