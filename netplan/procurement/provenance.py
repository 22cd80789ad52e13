"""Where the numbers of a procurement report are from: assumptions, inputs, prices, files."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from markupsafe import Markup

from netplan.costing.cabling import CablingBook
from netplan.costing.lifetime import EconomicsBook
from netplan.costing.prices import PriceBook
from netplan.procurement.findings import Findings, told_column
from netplan.questions.money.pricing import CASES, prices_in_use
from netplan.reports.quantities import DASH, part_words
from netplan.reports.sections import Heading, Inset, Notes, Section, Table


def assumptions_chapter(answer: Findings) -> Iterator[Section]:
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
    told_as = [told_column("Input", get="0"), told_column("Value", get="1", form="prose")]
    yield Table("inputs", told_as, rows, only="programs")
    # On paper two beside each other are half as long.
    half = -(-len(rows) // 2)
    pairs = [(*one, *two) for one, two in zip_longest(rows[:half], rows[half:], fillvalue=("", ""))]
    beside = [told_column("Input ", get="2"), told_column("Value ", get="3", form="prose")]
    yield Table("inputs", [*told_as, *beside], pairs, only="people")
    hashed = "<details><summary>Inputs as they are hashed</summary><pre>{}</pre></details>"
    made = Markup(hashed).format(answer.canonical_inputs)  # noqa: S704 - formatted, escaped
    yield Inset("", lambda: made)


def sources_chapter(answer: Findings) -> Iterator[Section]:
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
        told_column("Value", "name", "0"),
        *(told_column(case, get=str(at), form="code") for at, case in enumerate(CASES, start=1)),
        told_column("Date", get="4"),
        told_column("Source in the book", "source", "5", form="prose"),
    ]
    said = "A value given with the question replaces that of the book."
    yield Table("running values", columns, values, title="Running cost", legend=(said,))
    files = [
        told_column("Kind", get=lambda row: row[0].replace("-", " ")),
        told_column("Name", get="1.name"),
        told_column("Title", get="1.title", form="prose"),
        told_column("Date", get="1.date"),
        told_column("Source", get="1.source", form="prose"),
    ]
    yield Table("files", files, answer.library.records, title="Files")


def _prices(answer: Findings) -> Table[Any]:
    """Every price in use, in the report's currency, with its source and the fabrics that use it."""
    rows = [
        (part_words(part), price, offer, ", ".join(users))
        for (part, offer), (price, users) in prices_in_use(answer.cost.bills).items()
    ]
    low = f"low, {answer.cost.currency}"
    columns = [
        told_column("Part", get="0", form="prose"),
        told_column("Unit", get=lambda row: row[1].unit.partition("/")[2]),
        told_column(low, "low", lambda row: _amount(row[2].low, row[2].base), form="code"),
        told_column("base", get=lambda row: _amount(row[2].base), form="code"),
        told_column("high", get=lambda row: _amount(row[2].high, row[2].base), form="code"),
        told_column("Date", get="1.date"),
        told_column("Confidence", get="1.confidence"),
        told_column("Trust", get="1.trust"),
        told_column("Source", get="1.source", form="prose"),
        told_column("Used by", "used_by", "3", form="prose"),
    ]
    less = f" and a discount of {off:g} %" if (off := 100 * answer.inputs["discount"]) else ""
    said = f"In {answer.cost.currency}, with quantity breaks{less} applied."
    return Table("prices", columns, rows, title="Prices in use", legend=(said,))


def _rates(answer: Findings) -> Iterator[Section]:
    """Exchange rates of the price book, where the report needs any."""
    book, money = answer.library.one(PriceBook), answer.cost.currency
    named = {price.currency for price in book.prices} | {book.currency, money}
    rates = book.rates.items() if len(named) > 1 else ()
    rows = [(currency, rate) for currency, rate in rates if currency in named]
    columns = [
        told_column("Rate", get=lambda row: f"1 USD in {row[0]}"),
        told_column("value", get="1.per_usd", form="general", digits=6),
        told_column("Date", get="1.date"),
        told_column("Source", get="1.source", form="prose"),
    ]
    yield Table("rates", columns, rows, title="Exchange rates")


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
