"""What a procurement report answers: verdict, chapters, and where every number is from."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from markupsafe import Markup

from netplan.costing.cabling import CablingBook
from netplan.costing.fabric_bill import FabricBill
from netplan.costing.lifetime import EconomicsBook
from netplan.costing.materials import CABLE_PARTS
from netplan.costing.prices import PriceBook
from netplan.costing.pricing import books_in_use
from netplan.errors import CatalogError
from netplan.performance.error_bars import bar_note
from netplan.performance.plan import PlanTime
from netplan.questions.barred import barred_columns, behind
from netplan.questions.compare_answer import Comparison
from netplan.questions.cost_answer import (
    BOTH_ENDS,
    CostAnswer,
    Priced,
    amount_column,
    bill_table,
    no_high,
    ordered,
    span_column,
)
from netplan.questions.faults_answer import FaultsAnswer
from netplan.questions.library import Chapter, Library, ReportDefinition
from netplan.questions.pricing import CASES, prices_in_use
from netplan.questions.procurement_charts import (
    driver_chart,
    price_chart,
    running_chart,
    speed_chart,
)
from netplan.questions.recommendation import Recommendation, recommend
from netplan.questions.training import assumed
from netplan.questions.training_runs import TrainingRun, training_runs
from netplan.questions.verdict import Terms, run_tokens
from netplan.records import asdict, replace
from netplan.reports.answer import Answer
from netplan.reports.quantities import (
    DASH,
    Cell,
    Form,
    Quantity,
    Scale,
    listed,
    part_words,
    quantity,
)
from netplan.reports.sections import (
    Column,
    Heading,
    Inset,
    Notes,
    Paragraph,
    Section,
    Table,
    column,
    columns,
    value_at,
)
from netplan.topologies.drawing import fabric_drawing, rack_drawing
from netplan.version import __version__
from netplan.workloads.models import WORKLOADS, Model

KILO = 1e3


@dataclass(frozen=True, slots=True)
class Procurement(Answer):
    """The answer of :func:`netplan.procurement`.

    Its definition names chapters and template; the library holds the catalog files in use.
    """

    definition: ReportDefinition
    cost: CostAnswer
    comparison: Comparison
    library: Library
    date: str = ""
    tokens: float | None = None
    faults: FaultsAnswer | None = None
    terms: Terms | None = None

    @property
    def run_tokens(self) -> tuple[float, str] | None:
        """Tokens of one training run [1], and where the number comes from, if the model has any.

        Raises
        ------
        InputError
            If the number asked for is not positive.
        """
        model = self.library.of_role(WORKLOADS.role)
        return run_tokens(model, self.tokens) if isinstance(model, Model) else None

    @property
    def runs(self) -> tuple[TrainingRun, ...]:
        """One training run on every fabric that has a price and an iteration time."""
        iterations = None
        if self.run_tokens is not None:
            a_step = self.comparison.inputs["batch"] * self.library.one(Model).sequence_length
            iterations = ceil(self.run_tokens[0] / a_step)
        return training_runs(self.cost, self.comparison, iterations)

    @property
    def inputs(self) -> dict[str, Any]:
        """The question with all defaults filled in."""
        return {
            "report": self.definition.name,
            **self.comparison.inputs,
            **self.cost.inputs,
            "tokens": self.run_tokens[0] if self.run_tokens else None,
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

    @property
    def recommendation(self) -> Recommendation:
        """What to order."""
        run = self.terms.run(self.cost.inputs["gpus"]) if self.terms else None
        basis = replace(self.comparison.basis, run=run, money=self.cost.scale)
        return recommend(self.cost, self.comparison.rows, basis, self.comparison.probe)

    @property
    def chosen(self) -> FabricBill:
        """Bill that the report shows in full: the recommended one, else the cheapest of a tie."""
        recommended = self.recommendation
        tied = recommended.verdict.tied if recommended.verdict else ()
        name = recommended.fabric or next(iter(tied), "")
        others = [row.name for row in self.comparison.rows if row.built_with]

        def place(bill: FabricBill) -> tuple[bool, bool, bool, float]:
            return bill.name != name, not bill.complete, bill.name in others, bill.capital.base

        return min(self.cost.bills, key=place)

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
            "decision": recommended.verdict.to_dict() if recommended.verdict else None,
            "faults": self.faults.to_dict() if self.faults else None,
            "training_runs": [asdict(run) for run in self.runs],
            "cost": self.cost.to_dict(),
            "comparison": self.comparison.to_dict(),
        }

    def sections(self) -> Iterator[Section]:
        """The verdict, then the chapters of the report's definition."""
        inputs = self.inputs
        switch = f" ({inputs['switch']})" if inputs["switch"] else ""
        less = f" less {100 * inputs['discount']:g} %" if inputs["discount"] else ""
        trained = f"; training {inputs['model']}, {assumed(inputs)}"
        trained = trained if inputs["timing"] else ""
        prices = books_in_use(inputs["prices"], (bill.quote for bill in self.cost.bills))
        books = (
            f"{inputs['accelerator']} in HB domains of {inputs['hb_size']:,}, switches of"
            f" {inputs['radix']} ports at {inputs['link_gbps']:g} Gb/s{switch}; prices"
            f" {prices} in {self.cost.currency}{less}{trained}."
        )
        yield Heading(f"The network of {inputs['gpus']:,} GPUs", (books,))
        yield Paragraph(self.recommendation.sentence, "strong")
        yield Notes(tuple(("", reason) for reason in self.recommendation.reasons))
        for chapter in self.definition.sections:
            yield from CHAPTERS[chapter](self)

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
            "verdict": self.recommendation,
            "input_sha256": self.input_sha256,
        }
        return html_page(self.sections(), name, values)

    def xlsx(self) -> bytes:
        """The bills as a spreadsheet with live formulas."""
        return self.cost.xlsx()


def _told(
    title: str,
    name: str = "",
    get: Callable[[Any], Cell] | str = "",
    *,
    form: Form = "text",
    digits: int = 0,
) -> Column[Any]:
    """A column of this report alone, by its title."""
    return column(Quantity(name or title.lower(), title, form=form, digits=digits), get)


def _comparison(answer: Procurement) -> Iterator[Section]:
    """All fabrics side by side; the recommended one is set off."""
    priced, scale, each = answer.cost, answer.cost.scale, f"{answer.cost.currency}/GPU"
    said = (
        "Price of the network, without servers and accelerators. ≥ marks a sum to which parts"
        " without a price are still to be added, + a range whose parts have no high in the book."
    )
    yield Heading("Fabrics side by side", (said,), "comparison")
    side: list[Column[Priced]] = [
        column("fabric", "name"),
        amount_column(scale.of_money("cost_base"), "capital.base"),
        _range("bill.capital", scale),
        amount_column("cost_per_gpu", "per_gpu.base", title=each),
        *columns("switches", "ports_per_gpu", "gpu_bytes_per_s", of="bill.fabric"),
        _told("modules", get=ordered("transceiver"), form="count"),
        _told("cables", get=ordered(*CABLE_PARTS.values()), form="count"),
        amount_column("power_w", "power_w", title="power, kW"),
    ]
    if answer.timed:
        rows = {row.name: row for row in answer.comparison.rows}
        if any(best.error for best in answer.timed.values()):
            side += barred_columns(
                lambda one: answer.timed.get(one.name), lambda one: rows[one.name].mfu
            )
        else:
            time = quantity("iteration_time_s", title="iteration, s", suffix="")
            side += [
                column(time, lambda one: value_at(rows[one.name], "best.iteration_time_s")),
                column("mfu", lambda one: rows[one.name].mfu),
            ]
    chosen = answer.recommendation.fabric
    yield Table("fabrics", side, priced.rows, chosen=lambda row: row.name == chosen)
    for best in list(answer.timed.values())[:1]:
        yield from (Paragraph(said, "quiet") for said in bar_note(best.error))
    for row in priced.refused:
        yield Paragraph(f"{row.name}: {row.reason}", "quiet")


def _price(answer: Procurement) -> Iterator[Section]:
    said = "Bars: base prices by category. Whiskers: all prices at their low and all at their high."
    yield Heading("What each fabric costs", (said,), "price")
    yield price_chart(answer.cost)


def _drivers(answer: Procurement) -> Iterator[Section]:
    """What moves the price of the chosen fabric, and where the order of prices turns."""
    yield Heading(f"What moves the price of {answer.chosen.name}", (), "drivers")
    chart = driver_chart(answer.cost, answer.chosen, answer.definition.drivers_shown)
    if chart is None:
        said = "The price book states no spread for the parts of this fabric; the price is one"
        yield Paragraph(f"{said} number.")
    else:
        said = "One part at a time at its lowest and highest price, all others at base: the top bar"
        said = f"{said} is the price to negotiate first."
        bare = [one for one in answer.chosen.drivers if one.stated != BOTH_ENDS]
        if bare:
            total = answer.chosen.capital.base or 1.0
            told = listed(
                [
                    f"{part_words(one.part)} ({one.stated}, {100 * one.amount / total:.0f} % of the"
                    " price)"
                    for one in bare
                ]
            )
            said += f" Not known whole, so at base where nothing is stated: {told}."
        yield Paragraph(said, "quiet")
        yield chart
    for statement in answer.cost.statements:
        yield Paragraph(statement)


def _running(answer: Procurement) -> Iterator[Section]:
    """Energy and yearly cost of every fabric, and of one training run."""
    inputs, scale = answer.cost.inputs, answer.cost.scale
    money = scale.of_money
    said = (
        f"Annuity of the price over {inputs['years']} years, and energy at a PUE of"
        f" {inputs['pue']:g} and {inputs['tariff_per_kwh']:.4g} {answer.cost.currency} per kWh."
    )
    yield Heading("Energy and yearly cost", (said,), "running")
    yield running_chart(answer.cost)
    used, energy = "energy_kwh_per_year", f"energy, {scale.title} a year"
    columns: list[Column[FabricBill]] = [
        column("fabric", "name"),
        amount_column("power_w", "power_w", title="power, kW"),
        amount_column(used, f"life.{used}.base", title="MWh a year", scale=KILO),
        amount_column(money("energy_per_year", energy), "life.energy_per_year.base"),
        _range("life.energy_per_year", scale, lambda _: False),
        amount_column(money("annuity_per_year", "annuity"), "life.annuity_per_year.base"),
        amount_column(money("cost_per_year", "cost a year"), "life.per_year.base"),
        _range("life.per_year", scale),
        amount_column(money("cost_over_life", f"over {inputs['years']} years"), "life.total.base"),
    ]
    chosen = answer.chosen.name
    yield Table("years", columns, answer.cost.bills, chosen=lambda bill: bill.name == chosen)
    yield from _training_run(answer)


def _training_run(answer: Procurement) -> Iterator[Section]:
    """What the network costs one training run, and a useful PFLOP/s; nothing without timing."""
    unit, tokens = answer.cost.currency, answer.run_tokens
    bills = {bill.name: bill for bill in answer.cost.bills}

    def lacking(run: TrainingRun) -> tuple[str, str]:
        return ("≥ " if bills[run.fabric].quote.unpriced else ""), ""

    days = behind(lambda run: run.days, lambda run: answer.timed[run.fabric].error, 1)
    whole, useful = Scale(1.0, unit, 0), f"{unit} per useful PFLOP/s"
    run_cost = _told(f"network, {unit} a run", "run_cost", "cost.base", form="count")
    each = _told(useful, "cost_per_effective_pflops", "price_per_pflops.base", form="count")
    of_run: list[Column[TrainingRun]] = [
        _told("iterations", form="count"),
        replace(_told("days", form="fixed", digits=1), mark=days),
        replace(run_cost, mark=lacking),
        _range("cost", whole, lambda run: no_high(bills[run.fabric])),
    ]
    columns: list[Column[TrainingRun]] = [
        column("fabric"),
        *(of_run if tokens else ()),
        replace(each, mark=lacking),
        _range("price_per_pflops", whole, lambda run: no_high(bills[run.fabric])),
    ]
    said = f"{answer.inputs['model']} has no tokens, and so no run of known length."
    if tokens:
        billions = float(f"{tokens[0] / 1e9:.3g}")
        said = (
            f"{answer.inputs['model']} on {billions:,g} billion tokens ({tokens[1]}), without"
            " interruptions; the network's annuity and energy in that time."
        )
    chosen = answer.chosen.name
    yield Table(
        "training run",
        columns,
        answer.runs,
        title="One training run" if tokens else "Useful work",
        legend=(said,),
        chosen=lambda run: run.fabric == chosen,
    )


def _speed(answer: Procurement) -> Iterator[Section]:
    """Iteration time against price, where fabrics were timed."""
    inputs, chosen = answer.inputs, answer.chosen.name
    chart = speed_chart(answer.cost, answer.timed, chosen, str(inputs["model"]))
    if chart is None:
        return
    said = (
        f"One iteration of {inputs['model']} at a global batch of {inputs['batch']:,}, each fabric"
        " with its best parallel plan. Lower is faster, further left is cheaper."
    )
    yield Heading("Speed against price", (said,), "speed")
    yield chart


def _bill(answer: Procurement) -> Iterator[Section]:
    """What to order, line by line, in whole units of the currency."""
    bill, spares = answer.chosen, answer.cost.inputs["spares"]
    said = f"{bill.title}. Every cable end has a port of the right speed and form."
    if spares:
        said += f" Spares of {', '.join(spares)} are included, rounded up line by line."
    what = "What to order" if answer.recommendation.fabric else "The cheapest, in full"
    yield Heading(f"{what}: {bill.name}", (said,), "bill")
    yield bill_table(bill, Scale(1.0, answer.cost.currency, 0), "", places=True)
    yield Paragraph(f"Not on the bill: {'; '.join(answer.cost.left_out)}.", "quiet")


def _fabric(answer: Procurement) -> Iterator[Section]:
    """The chosen fabric drawn, and what to know about it."""
    said = (
        "Each row stands for all devices of its kind. Lines show which kinds are joined, not every"
        " cable; dashed lines are copper."
    )
    yield Heading("The fabric", (said,), "fabric")
    yield Inset("", fabric_drawing(answer.chosen.fabric))
    for note in answer.chosen.notes:
        yield Paragraph(note)


def _racks(answer: Procurement) -> Iterator[Section]:
    """Racks of the switches, as on the bill, and how long cables are taken to be."""
    yield Heading("Racks and cable lengths", (), "racks")
    racks, hall = answer.chosen.racks, answer.inputs["floor_plan"]
    if racks.devices:
        filled = (
            f"The floor plan {racks.hall} puts {racks.each} switches into a rack of {racks.units} U"
            if racks.hall
            else f"Switches of {racks.switch_units} U fill racks of {racks.units} U one after the"
            " other, as the bill counts them"
        )
        yield Paragraph(f"{filled}. Power and cooling may need more racks.", "quiet")
        yield Inset("", rack_drawing(racks))
    said = (
        f"The cables of the fabric were measured on the floor plan {hall}, as the bill says line by"
        " line; those of networks beside it have the length of their class."
        if hall
        else "There is no floor plan in the question, so no cable was measured: every link has the"
        " length of its class."
    )
    columns = [
        _told("Links", "group"),
        _told("Medium"),
        _told("m", "length_m", form="general", digits=4),
        SOURCE,
    ]
    book = answer.library.one(CablingBook)
    yield Table("length classes", columns, book.lengths, title="Length classes", legend=(said,))


def _faults(answer: Procurement) -> Iterator[Section]:
    """What breaks, as the question about failures answers it."""
    if answer.faults is None:
        return
    yield Heading("What breaks, and what it costs", (), "faults")
    for section in answer.faults.sections():
        if isinstance(section, Heading):
            yield from (Paragraph(line, "quiet") for line in (section.title, *section.lines))
        elif isinstance(section, Table):
            # The report has tables of the same names, of other rows.
            yield replace(section, name=f"faults: {section.name}")
        else:
            yield section


def _assumptions(answer: Procurement) -> Iterator[Section]:
    """Notes of the fabrics and of the books; the question, one row an input."""
    yield Heading("Assumptions", (), "assumptions")
    notes = Notes.of(((bill.name, bill.notes) for bill in answer.cost.bills), "All fabrics")
    books = answer.library
    known = (
        ("Prices", books.one(PriceBook)),
        ("Cabling", books.one(CablingBook)),
        ("Economics", books.one(EconomicsBook)),
    )
    told = [(f"{title} {book.name}", note) for title, book in known for note in book.notes]
    ends = "All prices at their low and all at their high together; real offers vary less."
    yield Notes((*notes.groups, *told, ("Low and high", ends)))
    inputs = {key.replace("_", " "): value for key, value in answer.inputs.items()}
    del inputs["running"]
    inputs |= {f"set {key}": value for key, value in inputs.pop("set").items()}
    rows = [(key, _value(value)) for key, value in inputs.items()]
    yield Table("inputs", [_told("Input", get="0"), _told("Value", get="1", form="prose")], rows)
    hashed = "<details><summary>Inputs as they are hashed</summary><pre>{}</pre></details>"
    yield Inset("", Markup(hashed).format(answer.canonical_inputs))  # noqa: S704 - formatted, escaped


def _sources(answer: Procurement) -> Iterator[Section]:
    """Where the numbers come from: every price, rate, estimate and file, with its date."""
    yield Heading("Sources", (), "sources")
    yield _prices(answer)
    yield from _rates(answer)
    book, inputs = answer.library.one(EconomicsBook), answer.cost.inputs
    running = inputs["running"]
    values = [("Years of use", *[str(inputs["years"])] * 3, book.date, book.years_source)]
    for key, name, estimate in (
        ("pue", "PUE, facility over equipment power", book.pue),
        ("tariff_per_kwh", "Price of one kWh", book.tariff),
        ("interest", "Interest a year", book.interest),
        ("cooling", "Cooling, its energy over equipment's", book.cooling),
        ("maintenance", "Maintenance a year, of the price", book.maintenance),
        ("support", "Support a year, of the price", book.support),
        ("yearly_spares", "Parts used up a year, of the price", book.spares),
    ):
        low, base, high = (f"{running[key][case]:.4g}" for case in CASES)
        origin = (estimate.date, estimate.source) if estimate else ("", "not in the book: 0")
        values.append((name, low, base, high, *origin))
    columns = [
        _told("Value", "name", "0"),
        *(_told(case, get=str(at), form="code") for at, case in enumerate(CASES, start=1)),
        _told("Date", get="4"),
        _told("Source in the book", "source", "5", form="prose"),
    ]
    said = "A value given with the question replaces that of the book."
    yield Table("running values", columns, values, title="Running cost", legend=(said,))
    files = [
        _told("Kind", get=lambda row: row[0].replace("-", " ")),
        _told("Name", get="1.name"),
        _told("Title", get="1.title", form="prose"),
        _told("Date", get="1.date"),
        _told("Source", get="1.source", form="prose"),
    ]
    yield Table("files", files, answer.library.records, title="Files")


def _prices(answer: Procurement) -> Table[Any]:
    """Every price in use, in the report's currency, with its source and the fabrics that use it."""
    rows = [
        (part_words(part), price, offer, ", ".join(users))
        for (part, offer), (price, users) in prices_in_use(answer.cost.bills).items()
    ]
    low = f"low, {answer.cost.currency}"
    columns = [
        _told("Part", get="0", form="prose"),
        _told("Unit", get=lambda row: row[1].unit.partition("/")[2]),
        _told(low, "low", lambda row: _amount(row[2].low, row[2].base), form="code"),
        _told("base", get=lambda row: _amount(row[2].base), form="code"),
        _told("high", get=lambda row: _amount(row[2].high, row[2].base), form="code"),
        _told("Date", get="1.date"),
        _told("Confidence", get="1.confidence"),
        _told("Source", get="1.source", form="prose"),
        _told("Used by", "used_by", "3", form="prose"),
    ]
    less = f" and a discount of {off:g} %" if (off := 100 * answer.inputs["discount"]) else ""
    said = f"In {answer.cost.currency}, with quantity breaks{less} applied."
    return Table("prices", columns, rows, title="Prices in use", legend=(said,))


def _rates(answer: Procurement) -> Iterator[Section]:
    """Exchange rates of the price book, where the report needs any."""
    book, money = answer.library.one(PriceBook), answer.cost.currency
    named = {price.currency for price in book.prices} | {book.currency, money}
    rates = book.rates.items() if len(named) > 1 else ()
    rows = [(currency, rate) for currency, rate in rates if currency in named]
    columns = [
        _told("Rate", get=lambda row: f"1 USD in {row[0]}"),
        _told("value", get="1.per_usd", form="general", digits=6),
        _told("Date", get="1.date"),
        _told("Source", get="1.source", form="prose"),
    ]
    yield Table("rates", columns, rows, title="Exchange rates")


SOURCE = _told("Source", form="prose")


def _range(path: str, scale: Scale, unbound: Callable[[Any], bool] = no_high) -> Column[Any]:
    """A column of amounts from low to high."""
    return span_column(path, scale, "low to high", unbound=unbound)


def _value(value: object) -> str:
    """One input for people."""
    if value is None or value in ([], ""):
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(part) for part in value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _amount(value: float, base: float | None = None) -> str | None:  # None: no such end is stated
    said = f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"
    return None if value == base else said


CHAPTERS: dict[Chapter, Callable[[Procurement], Iterator[Section]]] = {
    "comparison": _comparison,
    "price": _price,
    "drivers": _drivers,
    "running": _running,
    "speed": _speed,
    "bill": _bill,
    "fabric": _fabric,
    "racks": _racks,
    "faults": _faults,
    "assumptions": _assumptions,
    "sources": _sources,
}
