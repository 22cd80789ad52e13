"""The procurement report as one answer: its JSON, its chapters in order, its page, its sheets."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from netplan.answers.compare_cases import ComparisonCases, cases_verdict
from netplan.answers.screen_titles import titled
from netplan.errors import CatalogError
from netplan.procurement import front_page, known_unknown, ordered, side_by_side
from netplan.procurement.findings import Findings
from netplan.questions.library import Chapter
from netplan.records import asdict, replace
from netplan.reports.answer import Answer
from netplan.reports.quantities import money
from netplan.reports.screen import Screen, columns_of, more_of
from netplan.reports.sections import Heading, Notes, Paragraph, Section, Table, data_tables
from netplan.setup.inputs import short_inputs
from netplan.setup.served_plan import serving_words
from netplan.setup.training import assumed
from netplan.version import __version__

SectionT = TypeVar("SectionT", bound=Section)


@dataclass(frozen=True, repr=False)
class Procurement(Findings, Answer):
    """The answer of :func:`netplan.procurement`."""

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan report procurement --format json``."""
        recommended, second = self.recommendation, self.runner_up
        verdict, decision = recommended.verdict, self.decision
        return {
            "netplan_version": __version__,
            "report": self.definition.name,
            "date": self.date or None,
            "inputs": self.inputs,
            "input_sha256": self.input_sha256,
            "recommended": recommended.fabric,
            "runner_up": second.name if second else None,
            "headline": list(front_page.headline(self)),
            "verdict": recommended.sentence,
            "reasons": list(recommended.reasons),
            "decision": verdict.to_dict() | decision.to_dict() if verdict and decision else None,
            "faults": self.faults.to_dict() if self.faults else None,
            "training_runs": [asdict(run) for run in self.runs],
            **self._asked_for(),
            **({"cases": self.cases.to_dict()["cases"]} if self.cases else {}),
            "cost": self.cost.to_dict(),
            "comparison": self.comparison.to_dict(),
        }

    def _asked_for(self) -> dict[str, Any]:
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
            yield replace(table, only="people")

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
            from netplan.setup.post_training_words import step_inputs_words

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
        return html_page(self._told(self.sections()), name, values)

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
    "running": side_by_side.running_chapter,
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
