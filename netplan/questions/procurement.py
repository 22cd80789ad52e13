"""The procurement report: what a buyer sends to suppliers, in one file that needs no network.

It asks :func:`netplan.questions.cost.cost` what the fabrics cost and
:func:`netplan.questions.compare.compare` what they are made of and how fast they train, and adds a
verdict. Every amount in the report is one of the bill's; nothing is priced twice.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date as calendar_date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from netplan.catalog import Shelf
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import FabricBill
from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.errors import InputError
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.questions.compare import compare
from netplan.questions.comparison import Comparison, FabricRow
from netplan.questions.cost import cost
from netplan.questions.cost_answer import CostAnswer
from netplan.questions.faults import faults
from netplan.questions.faults_answer import FaultsAnswer
from netplan.questions.inputs import CatalogReader
from netplan.questions.library import COMPARE_ROLES, COST_ROLES, FAULT_ROLES, Library, read_library
from netplan.questions.recommendation import Recommendation, recommend
from netplan.questions.report_definition import REPORTS, ReportDefinition
from netplan.questions.training_run import TrainingRun, run_tokens, training_runs
from netplan.topologies.floor_plan import FLOOR_PLANS
from netplan.topologies.site_networks import SITE_NETWORKS
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.version import __version__
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, Model

if TYPE_CHECKING:
    import pandas as pd


class Question(TypedDict, total=False):
    """Keywords that `netplan.questions.cost.cost` alone takes."""

    cabling: str
    economics: str
    switch: str | None
    ocs: str | None
    spares: str | Sequence[str]
    networks: Sequence[str]
    floor_plan: str | None
    years: int | None
    pue: float | None
    tariff: float | None
    interest: float | None
    currency: str | None
    discount: float | None


class _Shared(TypedDict):
    """Keywords that both questions take."""

    gpus: int
    radix: int
    hb_size: int | None
    oversubscription: float | None
    accelerator: str
    prices: str
    power: str
    fabrics: tuple[str, ...]
    catalog: str | Path | None


class _SharedByFaults(TypedDict):
    """Keywords of the bills that a question about failures takes."""

    gpus: int
    radix: int
    hb_size: int | None
    oversubscription: float | None
    accelerator: str
    prices: str
    fabrics: tuple[str, ...]
    catalog: str | Path | None


BOOK = "2026"
"""Cabling and economics books of `netplan.cost` where none is named."""


@dataclass(frozen=True, slots=True)
class Procurement:
    """The answer of :func:`procurement`.

    Parameters
    ----------
    definition
        Sections and template.
    cost, comparison
        Bills and prices; counts, levels and iteration times.
    library
        The catalog files in use.
    date
        Date on the report, empty if none was given.
    """

    definition: ReportDefinition
    cost: CostAnswer
    comparison: Comparison
    library: Library
    date: str = ""
    tokens: float | None = None
    faults: FaultsAnswer | None = None

    @property
    def run_tokens(self) -> tuple[float, str]:
        """Tokens of one training run [1], and where the number comes from."""
        return run_tokens(self.library.one(Model), self.tokens)

    @property
    def runs(self) -> tuple[TrainingRun, ...]:
        """What the network costs one training run, by fabric; empty without timing."""
        model, tokens = self.library.one(Model), self.run_tokens[0]
        return tuple(training_runs(tokens, model, self.cost, self.comparison))

    @property
    def inputs(self) -> dict[str, Any]:
        """The question with all defaults filled in."""
        return {
            "report": self.definition.name,
            **self.comparison.inputs,
            **self.cost.inputs,
            "tokens": self.run_tokens[0],
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
    def times_s(self) -> dict[str, float]:
        """Iteration time of each timed fabric [s]."""
        return {row.name: row.best.iteration_time_s for row in self.comparison.rows if row.best}

    @property
    def recommendation(self) -> Recommendation:
        """What to order."""
        return recommend(self.cost, self.times_s)

    @property
    def chosen(self) -> FabricBill:
        """Bill that the report shows in full: the recommended one, else the cheapest."""
        name = self.recommendation.fabric
        cheapest = min(self.cost.bills, key=lambda bill: (bill.capital.base, bill.name))
        return next((bill for bill in self.cost.bills if bill.name == name), cheapest)

    def row(self, name: str) -> FabricRow:
        """Counts and timing of a fabric."""
        return next(row for row in self.comparison.rows if row.name == name)

    def html(self) -> str:
        """The report as one HTML file that loads nothing from anywhere."""
        from netplan.questions.procurement_page import page

        return page(self)

    def xlsx(self) -> bytes:
        """The bills as a spreadsheet with live formulas."""
        from netplan.questions.cost_xlsx import cost_xlsx

        return cost_xlsx(self.cost)

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan report procurement --format json``."""
        recommended = self.recommendation
        return {
            "netplan_version": __version__,
            "report": self.definition.name,
            "date": self.date or None,
            "inputs": self.inputs,
            "input_sha256": self.input_sha256,
            "recommended": recommended.fabric,
            "verdict": recommended.sentence,
            "reasons": list(recommended.reasons),
            "faults": self.faults.to_dict() if self.faults else None,
            "training_runs": [run.to_dict() for run in self.runs],
            "cost": self.cost.to_dict(),
            "comparison": self.comparison.to_dict(),
        }

    def to_frame(self) -> "pd.DataFrame":
        """One row a line of the bills, one column a number."""
        return self.cost.to_frame()

    def _repr_html_(self) -> str:
        return self.cost._repr_html_()


def procurement(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    radix: int,
    hb_size: int | None = None,
    model: str = "gpt-1t",
    accelerator: str = "gh200-96gb",
    batch: int | None = None,
    fabrics: Sequence[str] = (),
    prices: str = "2026",
    power: str = "2026",
    iteration_model: str = "4d",
    oversubscription: float | None = None,
    timing: bool = True,
    report: str = "procurement",
    date: str = "",
    tokens: float | None = None,
    with_faults: bool = False,
    fail: Sequence[str] = (),
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
    **question: Unpack[Question],
) -> Procurement:
    """Make the procurement report of one cluster.

    Parameters
    ----------
    gpus, radix, hb_size, accelerator, prices, power, oversubscription, catalog, overrides
        As in :func:`netplan.cost`.
    model, batch, iteration_model, timing
        As in :func:`netplan.compare`.
    fabrics
        Names or paths; those of the report's definition if empty.
    report
        Name or path of the report's definition.
    date
        Date to print on the report, ``YYYY-MM-DD``; none if empty, so that the same question
        gives the same bytes.
    tokens
        Tokens of one training run; the model's own, else 20 a parameter, if absent [1].
    with_faults, fail
        Whether to put the fabrics under failures, and which parts fail together, as in
        :func:`netplan.faults`.
    question
        The further keywords of :func:`netplan.cost`: switch, spares, years, currency and so on.

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
    _require_date(date)
    texts = dict(overrides or {})
    reader = CatalogReader(catalog, texts)
    definition = reader.load(REPORTS, report)
    named = tuple(fabrics) or definition.fabrics
    shared: _Shared = {
        "gpus": gpus,
        "radix": radix,
        "hb_size": hb_size,
        "oversubscription": oversubscription,
        "accelerator": accelerator,
        "prices": prices,
        "power": power,
        "fabrics": named,
        "catalog": catalog,
    }
    trained = ((MODELS, model), (ITERATION_MODELS, iteration_model))
    library = read_library(reader, [*_files(shared, question), *trained])
    _require_distinct([spec.name for spec in library.all(FabricSpec)])
    priced = cost(**shared, **question, overrides=library.only(texts, COST_ROLES))
    compared = compare(
        **shared,
        model=model,
        batch=batch,
        iteration_model=iteration_model,
        timing=timing,
        cabling=question.get("cabling", BOOK),
        switch=question.get("switch"),
        floor_plan=question.get("floor_plan"),
        overrides=library.only(texts, COMPARE_ROLES),
    )
    broken = None
    if with_faults or fail:
        broken = faults(
            **_shared_by_faults(shared),
            fail=fail,
            model=model,
            batch=batch,
            iteration_model=iteration_model,
            timing=timing,
            overrides=library.only(texts, FAULT_ROLES),
        )
    answer = Procurement(definition, priced, compared, library, date, tokens, broken)
    _ = answer.run_tokens  # refuses a bad number before anything is written
    return answer


def _shared_by_faults(shared: _Shared) -> _SharedByFaults:
    """Keywords of the bills that a question about failures takes."""
    return {
        "gpus": shared["gpus"],
        "radix": shared["radix"],
        "hb_size": shared["hb_size"],
        "oversubscription": shared["oversubscription"],
        "accelerator": shared["accelerator"],
        "prices": shared["prices"],
        "fabrics": shared["fabrics"],
        "catalog": shared["catalog"],
    }


def _files(shared: _Shared, question: Question) -> list[tuple[Shelf[Any], str | None]]:
    """Catalog files of the bills, by shelf and name."""
    return [
        *((FABRICS, name) for name in shared["fabrics"]),
        (ACCELERATORS, shared["accelerator"]),
        (PRICE_BOOKS, shared["prices"]),
        (POWER_BOOKS, shared["power"]),
        (CABLING_BOOKS, question.get("cabling", BOOK)),
        (ECONOMICS_BOOKS, question.get("economics", BOOK)),
        (SWITCHES, question.get("switch") or None),
        (SWITCHES, question.get("ocs") or None),
        (FLOOR_PLANS, question.get("floor_plan") or None),
        *((SITE_NETWORKS, name) for name in question.get("networks", ())),
    ]


def _require_date(text: str) -> None:
    """Refuse a date of another form: the report prints it as it is."""
    if not text:
        return
    try:
        right = calendar_date.fromisoformat(text).isoformat() == text
    except ValueError:
        right = False
    if not right:
        raise InputError(f"--date {text!r} is not a date: write YYYY-MM-DD, such as 2026-01-31")


def _require_distinct(names: Sequence[str]) -> None:
    """Refuse two fabrics of one name: nobody could tell their rows apart."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"--fabric: two fabrics are called {name!r}: give one, or rename it")
