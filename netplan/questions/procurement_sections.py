"""The tables of a procurement report: comparison, yearly cost, bill, lengths."""

from netplan.costing.cabling import CablingBook
from netplan.costing.fabric_bill import FabricBill
from netplan.costing.pricing import PricedItem
from netplan.costing.ranges import Range
from netplan.questions.money import DASH, THOUSAND, Money
from netplan.questions.procurement import Procurement
from netplan.reports.page import Table, table
from netplan.reports.text import number, percent


def comparison_table(answer: Procurement) -> Table:
    """All fabrics side by side; the recommended one is set off."""
    money, priced = Money.of(answer.cost), answer.cost
    heads = ["Fabric", f"{money.unit}>", "low to high>", f"{priced.currency}/GPU>"]
    heads += ["switches>", "modules>", "cables>", "power, kW>"]
    heads += ["iteration, s>", "MFU>"] if answer.times_s else []
    rows = [_comparison_row(answer, bill, money) for bill in priced.bills]
    rows += [[row.name, *[DASH] * (len(heads) - 1)] for row in priced.refused]
    names = [bill.name for bill in priced.bills]
    chosen = answer.recommendation.fabric
    return table(heads, rows, names.index(chosen) if chosen else None)


def _comparison_row(answer: Procurement, bill: FabricBill, money: Money) -> list[str]:
    row = answer.row(bill.name)
    least = "≥ " if bill.quote.unpriced else ""
    cells = [
        bill.name,
        least + money.one(bill.capital.base),
        money.span(bill.capital),
        number(bill.per_gpu.base),
        number(row.fabric.switches if row.fabric else None),
        number(_ordered(bill, "transceivers")),
        number(_ordered(bill, "cables")),
        number(bill.draw.typical_w / THOUSAND),
    ]
    if answer.times_s:
        best = row.best
        cells += [f"{best.iteration_time_s:.3f}" if best else DASH]
        cells += [percent(best.mfu) if best else DASH]
    return cells


def _ordered(bill: FabricBill, category: str) -> int:
    """Units of a category to order, spares included."""
    return sum(item.line.order for item in bill.quote.items if item.line.category == category)


def running_table(answer: Procurement) -> Table:
    """Energy and yearly cost of every fabric."""
    money = Money.of(answer.cost)
    years = answer.cost.inputs["years"]
    heads = ["Fabric", "power, kW>", "MWh a year>", f"energy, {money.unit} a year>"]
    heads += ["low to high>", "annuity>", "cost a year>", "low to high>", f"over {years} years>"]
    rows = [
        [
            bill.name,
            number(bill.draw.typical_w / THOUSAND),
            number(bill.life.energy_kwh_per_year.base / THOUSAND),
            money.one(bill.life.energy_per_year.base),
            money.span(bill.life.energy_per_year),
            money.one(bill.life.annuity_per_year.base),
            money.one(bill.life.per_year.base),
            money.span(bill.life.per_year),
            money.one(bill.life.total.base),
        ]
        for bill in answer.cost.bills
    ]
    names = [bill.name for bill in answer.cost.bills]
    return table(heads, rows, names.index(answer.chosen.name))


def run_table(answer: Procurement) -> Table | None:
    """What the network costs one training run, and a useful PFLOP/s; None without timing."""
    runs = answer.runs
    if not runs:
        return None
    unit = answer.cost.currency
    heads = ["Fabric", "iterations>", "days>", f"network, {unit} a run>", "low to high>"]
    heads += [f"{unit} per useful PFLOP/s>", "low to high>"]
    rows = [
        [
            run.fabric,
            number(run.iterations),
            f"{run.days:,.1f}",
            number(run.cost.base),
            _span(run.cost),
            number(run.price_per_pflops.base),
            _span(run.price_per_pflops),
        ]
        for run in runs
    ]
    names = [run.fabric for run in runs]
    chosen = answer.chosen.name
    return table(heads, rows, names.index(chosen) if chosen in names else None)


def bill_table(bill: FabricBill) -> Table:
    """What to order, line by line, in whole units of the currency; the total is the last row."""
    money = bill.quote.currency
    spared = any(item.line.spares for item in bill.quote.items)
    heads = ["Item", "Specification and place", "order>", *(["of it spare>"] if spared else [])]
    heads += ["unit", f"each, {money}>", f"total, {money}>", "low to high>"]
    rows = [_bill_row(item, spared=spared) for item in bill.quote.items]
    empty = [""] * (len(heads) - 3)
    total = ["Total", *empty, number(bill.capital.base), _span(bill.capital)]
    return table(heads, [*rows, total], -1)


def _bill_row(item: PricedItem, *, spared: bool) -> list[str]:
    line = item.line
    known = item.price is not None
    return [
        line.title,
        "; ".join([line.specification, *line.notes]),
        number(line.order),
        *([number(line.spares) if line.spares else DASH] if spared else []),
        line.unit,
        number(item.unit_price.base) if known else "no price",
        number(item.total.base) if known else DASH,
        _span(item.total) if known else DASH,
    ]


def _span(amount: Range) -> str:
    return f"{number(amount.low)} to {number(amount.high)}" if amount.spread else DASH


def length_table(book: CablingBook) -> Table:
    """Length classes: how long each kind of cable is taken to be, and why."""
    rows = [(row.group, row.medium, f"{row.length_m:g}", row.source) for row in book.lengths]
    return table(("Links", "Medium", "m>", "Source"), rows)
