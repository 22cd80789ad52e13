"""What a procurement report found: bills, times and verdict, from which all its chapters are made.

A chapter is a function of these findings; none of them knows how a report is put together.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

from netplan.costing.elevations import Elevations, elevations
from netplan.costing.fabric_bill import BillBooks, FabricBill
from netplan.faults.years.rates import FailureBook
from netplan.performance.plan import PlanTime
from netplan.procurement.recommendation import Recommendation, recommend, recommend_server
from netplan.questions.answers.bill_columns import no_high, span_column
from netplan.questions.answers.compare_answer import Comparison
from netplan.questions.answers.compare_rows import FabricRow
from netplan.questions.answers.cost_answer import CostAnswer
from netplan.questions.answers.training_runs import TrainingRun, training_runs
from netplan.questions.library import Library, ReportDefinition
from netplan.questions.money.run_cost import Terms, run_tokens
from netplan.records import replace
from netplan.reports.quantities import Cell, Form, Quantity, Scale
from netplan.reports.sections import Column, column
from netplan.topologies.specs import FabricSpec
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.models import WORKLOADS, Model

if TYPE_CHECKING:
    from netplan.questions.answers.faults_answer import FaultsAnswer
    from netplan.questions.answers.serving_answer import ServingAnswer
    from netplan.questions.answers.simulate_answer import SimulateAnswer

MOST_DRAWN_LINKS = 400_000
"""Links up to which racks name their devices [1]."""


@dataclass(frozen=True, repr=False)
class Findings:
    """Answers of the questions that a report asks.

    Its definition names chapters and template; the library holds the catalog files in use.
    """

    definition: ReportDefinition
    cost: CostAnswer
    comparison: Comparison
    library: Library
    date: str = ""
    tokens: float | None = None
    faults: "FaultsAnswer | None" = None
    terms: Terms | None = None
    failures: FailureBook | None = None
    books: BillBooks | None = None
    chip: Accelerator | None = None
    simulation: "SimulateAnswer | None" = None
    serving: "ServingAnswer | None" = None

    @property
    def serves(self) -> bool:
        """Whether the cluster serves."""
        return self.comparison.serves

    @cached_property
    def run_tokens(self) -> tuple[float, str] | None:
        """Tokens of one training run [1], and where the number comes from, if the model has any.

        Raises
        ------
        InputError
            If the number asked for is not positive.
        """
        model = self.library.of_role(WORKLOADS.role)
        if self.serves:
            return None
        return run_tokens(model, self.tokens) if isinstance(model, Model) else None

    @cached_property
    def runs(self) -> tuple[TrainingRun, ...]:
        """One training run on every fabric that has a price and an iteration time."""
        iterations = None
        if self.run_tokens is not None:
            a_step = self.comparison.inputs["batch"] * self.library.one(Model).sequence_length
            iterations = ceil(self.run_tokens[0] / a_step)
        return training_runs(self.cost, self.comparison, iterations)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The question with all defaults filled in."""
        return {
            "report": self.definition.name,
            **self.comparison.inputs,
            **self.cost.inputs,
            "tokens": self.run_tokens[0] if self.run_tokens else None,
            "simulate": self.simulation is not None,
            "set": dict(self.library.replaced),
        }

    @property
    def canonical_inputs(self) -> str:
        """The inputs as the JSON that is hashed: keys in order, no spaces."""
        return json.dumps(self.inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def input_sha256(self) -> str:
        """SHA-256 of the canonical inputs, in hexadecimal."""
        return hashlib.sha256(self.canonical_inputs.encode()).hexdigest()

    @property
    def timed(self) -> dict[str, PlanTime]:
        """The best plan of each timed fabric."""
        return {row.name: row.best for row in self.comparison.rows if row.best}

    @cached_property
    def recommendation(self) -> Recommendation:
        """What to order."""
        if self.serves:
            return recommend_server(self.cost, [row.name for row in self.comparison.bought])
        run = self.terms.run(self.cost.inputs["gpus"]) if self.terms else None
        basis = replace(self.comparison.basis, run=run, money=self.cost.scale)
        probe = self._probe if self.comparison.probe else None
        return recommend(self.cost, self.comparison.rows, basis, probe)

    def _probe(self, name: str, limit_s: float) -> float | None:
        """Network bandwidth at which a fabric trains so fast; the comparison names its memory."""
        probe = self.comparison.probe
        return probe(self.row(name).label, limit_s) if probe else None

    @cached_property
    def chosen(self) -> FabricBill:
        """Bill that the report shows in full: the recommended one, else the cheapest of a tie."""
        recommended = self.recommendation
        tied = recommended.verdict.tied if recommended.verdict else ()
        name = recommended.fabric or next(iter(tied), "")
        bought = {row.name for row in self.comparison.bought}

        def place(bill: FabricBill) -> tuple[bool, bool, bool, float]:
            return bill.name != name, not bill.complete, bill.name not in bought, bill.capital.base

        return min(self.cost.bills, key=place)

    @cached_property
    def runner_up(self) -> FabricBill | None:
        """Bill beside the chosen one: next by the verdict, else the next cheapest."""
        chosen, verdict = self.chosen.name, self.recommendation.verdict
        bought = {row.name for row in self.comparison.bought if row.name != chosen}
        others = [bill for bill in self.cost.bills if bill.name != chosen]
        known = [bill for bill in others if bill.name in bought or not bought]
        second = verdict.decision.runner_up if verdict else None

        def place(bill: FabricBill) -> tuple[bool, bool, float]:
            return bill.name != second, not bill.complete, bill.capital.base

        return min(known, key=place, default=None)

    @cached_property
    def unsold(self) -> dict[str, str]:
        """Fabrics that no maker sells for the accelerator, and in what that is sold."""
        known = {row.name: row.unsold for row in self.comparison.rows if row.unsold}
        return {} if self.chosen.name in known else known

    @property
    def whole(self) -> Scale:
        """Scale of amounts in whole units of the currency."""
        return Scale(1.0, self.cost.currency, 0)

    @property
    def cents(self) -> Scale:
        """Scale of small amounts."""
        return Scale(1.0, self.cost.currency, 3)

    @property
    def thousands(self) -> Scale:
        """Scale of amounts in thousands."""
        return Scale(1e3, f"k {self.cost.currency}", 1)

    @cached_property
    def racks(self) -> Elevations | None:
        """Racks of the chosen fabric by kind; None where its devices are too many to name."""
        bill = self.chosen
        if self.books is None or bill.fabric.link_count > MOST_DRAWN_LINKS:
            return None
        spec = next(one for one in self.library.all(FabricSpec) if one.name == bill.name)
        return elevations(bill, spec, self.books)

    def row(self, name: str) -> FabricRow:
        """The fabric in the comparison."""
        return next(row for row in self.comparison.rows if row.name == name)


def told_column(
    title: str,
    name: str = "",
    get: Callable[[Any], Cell] | str = "",
    *,
    form: Form = "text",
    digits: int = 0,
) -> Column[Any]:
    """A column of a report alone, by its title."""
    return column(Quantity(name or title.lower(), title, form=form, digits=digits), get)


def range_column(path: str, scale: Scale, unbound: Callable[[Any], bool] = no_high) -> Column[Any]:
    """A column of amounts from low to high."""
    return span_column(path, scale, "low to high", unbound=unbound)


SOURCE = told_column("Source", form="prose")
