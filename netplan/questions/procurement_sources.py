"""Where the numbers of a report come from: every price, estimate and file, with its date."""

from netplan.costing.cabling import CablingBook
from netplan.costing.lifetime import EconomicsBook
from netplan.costing.prices import PriceBook
from netplan.costing.ranges import Range
from netplan.questions.money import DASH
from netplan.questions.procurement import Procurement
from netplan.reports.page import Table, table
from netplan.reports.quantities import part_words
from netplan.reports.text import number


def price_sources(answer: Procurement) -> Table:
    """Every price in use, in the currency of the report, discount and quantity break applied."""
    money = answer.cost.currency
    found: dict[tuple[str, Range], tuple[str, ...]] = {}
    users: dict[tuple[str, Range], list[str]] = {}
    for bill in answer.cost.bills:
        for item in bill.quote.items:
            price = item.price
            if price is None:
                continue
            key = (price.what, item.offer)
            users.setdefault(key, [])
            if bill.name not in users[key]:
                users[key].append(bill.name)
            unit = price.unit.partition("/")[2]
            amounts = (_amount(item.offer.low), _amount(item.offer.base), _amount(item.offer.high))
            origin = (price.date, price.confidence, price.source)
            found[key] = (part_words(price.what), unit, *amounts, *origin)
    heads = ("Part", "Unit", f"low, {money}>", "base>", "high>", "Date", "Confidence", "Source")
    rows = [(*row, ", ".join(users[key])) for key, row in found.items()]
    return table((*heads, "Used by"), rows)


def value_sources(answer: Procurement) -> Table:
    """Years, PUE, tariff and interest: as asked for, else from the economics book."""
    book, inputs = answer.library.one(EconomicsBook), answer.cost.inputs
    running = inputs["running"]
    rows = [("Years of use", *[str(inputs["years"])] * 3, book.date, book.years_source)]
    estimates = {"pue": book.pue, "tariff_per_kwh": book.tariff, "interest": book.interest}
    for key, name in NAMES.items():
        estimate = estimates[key]
        values = [f"{running[key][case]:.4g}" for case in ("low", "base", "high")]
        rows.append((name, *values, estimate.date, estimate.source))
    return table(("Value", "low>", "base>", "high>", "Date", "Source in the book"), rows)


NAMES = {
    "pue": "PUE, facility over equipment power",
    "tariff_per_kwh": "Price of one kWh",
    "interest": "Interest a year",
}


def rate_sources(answer: Procurement) -> Table | None:
    """Exchange rates of the price book; None where the report needs none."""
    book, money = answer.library.one(PriceBook), answer.cost.currency
    named = {price.currency for price in book.prices} | {book.currency, money}
    rows = [
        (f"1 USD in {currency}", f"{rate.per_usd:.6g}", rate.date, rate.source)
        for currency, rate in book.rates.items()
        if currency in named and len(named) > 1
    ]
    return table(("Rate", "value>", "Date", "Source"), rows) if rows else None


def file_sources(answer: Procurement) -> Table:
    """Catalog files behind the report."""
    rows = [
        (role.replace("-", " "), record.name, record.title, record.date, record.source)
        for role, record in answer.library.records
    ]
    return table(("Kind", "Name", "Title", "Date", "Source"), rows)


def input_table(answer: Procurement) -> Table:
    """The question, one row an input."""
    hidden = ("running", "set")
    rows = [
        (key.replace("_", " "), _value(value))
        for key, value in answer.inputs.items()
        if key not in hidden
    ]
    rows += [(f"set {key}", _value(value)) for key, value in answer.inputs["set"].items()]
    return table(("Input", "Value"), rows)


def assumptions(answer: Procurement) -> list[tuple[str, str]]:
    """Whose note, and the note: of the fabrics, then of the books; a shared one stands once."""
    everyone = [bill.name for bill in answer.cost.bills]
    users: dict[str, list[str]] = {}
    for bill in answer.cost.bills:
        for note in bill.notes:
            users.setdefault(note, []).append(bill.name)
    found = [
        ("All fabrics" if names == everyone and len(names) > 1 else ", ".join(names), note)
        for note, names in users.items()
    ]
    books = answer.library
    for role, name, notes in (
        ("Prices", books.one(PriceBook).name, books.one(PriceBook).notes),
        ("Cabling", books.one(CablingBook).name, books.one(CablingBook).notes),
        ("Economics", books.one(EconomicsBook).name, books.one(EconomicsBook).notes),
    ):
        found += [(f"{role} {name}", note) for note in notes]
    return found


def _value(value: object) -> str:
    """One input for people."""
    if value is None or value in ([], ""):
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return number(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(str(part) for part in value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _amount(value: float) -> str:
    return number(value, 0 if value == round(value) else 2)
