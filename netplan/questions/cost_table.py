"""A bill for people: what it costs, what to order, what drives the price, what is left out."""

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from netplan.costing.fabric_bill import FabricBill
from netplan.costing.pricing import PricedItem
from netplan.costing.ranges import Range
from netplan.questions.cost_answer import CostAnswer
from netplan.questions.cost_words import comparison_sentences
from netplan.reports.quantities import part_words
from netplan.reports.text import NOTEBOOK_WIDTH, as_html, as_terminal, as_text, number, printable

WIDE = 120
DRIVERS_SHOWN = 5
MILLION, THOUSAND = 1e6, 1e3
IN_MILLIONS_FROM = 1e7
MANY_MILLIONS_FROM = 1e10
DASH = "-"


def cost_text(answer: CostAnswer, width: int, *, colour: bool = False) -> str:
    """The answer as text of at most ``width`` columns, with the terminal's colours if wanted."""
    layout = _layout(answer, width)
    return as_terminal(layout, width) if colour else as_text(layout, width)


def cost_html(answer: CostAnswer) -> str:
    """The answer as an HTML fragment for notebooks; text from files is escaped."""
    return as_html(_layout(answer, NOTEBOOK_WIDTH))


class _Money:
    """Amounts in thousands or millions, one scale for a whole answer."""

    def __init__(self, answer: CostAnswer) -> None:
        largest = max(bill.capital.base for bill in answer.bills)
        self.scale = MILLION if largest >= IN_MILLIONS_FROM else THOUSAND
        self.unit = f"{'M' if self.scale == MILLION else 'k'} {answer.currency}"
        self.digits = 0 if largest >= MANY_MILLIONS_FROM else 1

    def one(self, value: float) -> str:
        return number(value / self.scale, self.digits)

    def span(self, amount: Range) -> str:
        """Low to high; a dash where no source states a spread."""
        if not amount.spread:
            return DASH
        return f"{self.one(amount.low)}-{self.one(amount.high)}"


def _layout(answer: CostAnswer, width: int) -> Group:
    money = _Money(answer)
    parts: list[RenderableType] = [_heading(answer), _totals(answer, money, width)]
    parts.append(printable(_legend(answer), "dim"))
    for bill in answer.bills:
        parts.append(_title(f"{bill.name}: what to order"))
        parts.append(_bill_table(bill, money, width))
    parts += _driver_tables(answer, money)
    parts += [printable(f"\n{line}", "bold") for line in comparison_sentences(answer)]
    parts.append(printable(f"\nNot on the bill: {'; '.join(answer.left_out)}."))
    return Group(*parts, *_notes(answer))


def _title(text: str) -> Text:
    return printable(f"\n{text}", "bold")


def _heading(answer: CostAnswer) -> Text:
    inputs = answer.inputs
    switch = f"switches {inputs['switch']}" if inputs["switch"] else "switches"
    lines = [
        (
            f"Bill of materials for {inputs['gpus']:,} GPUs in HB domains of"
            f" {inputs['hb_size']:,}: {switch} of {inputs['radix']} ports,"
            f" {inputs['link_gbps']:g} Gb/s"
        ),
        (
            f"prices {inputs['prices']}{_less(inputs['discount'])} in {answer.currency}, power"
            f" {inputs['power']}; {inputs['years']} years, PUE {inputs['pue']:g},"
            f" {inputs['tariff_per_kwh']:.4g} {answer.currency}/kWh,"
            f" {100 * inputs['interest']:.3g} % interest"
        ),
    ]
    if inputs["spares"]:
        lines.append(f"with spares {', '.join(inputs['spares'])}, rounded up line by line")
    lines += [f"with {key} = {value}" for key, value in inputs["set"].items()]
    heading = printable("\n".join(lines) + "\n")
    heading.stylize("bold", 0, len(lines[0]))
    return heading


def _less(discount: float) -> str:
    return f" less {100 * discount:g} %" if discount else ""


def _table(left: tuple[str, ...], right: tuple[str, ...], *, fold: str = "") -> Table:
    """Table of text columns, then number columns; the column ``fold`` wraps, others do not."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for name in left:
        table.add_column(name, no_wrap=name != fold, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _row(table: Table, *cells: str) -> None:
    """Add a row; cells are text, never markup, since they may come from a user's file."""
    table.add_row(*(printable(cell) for cell in cells))


def _totals(answer: CostAnswer, money: _Money, width: int) -> RenderableType:
    currency = answer.currency
    right = [money.unit, "low-high", f"{currency}/GPU", "kW", "cost/year"]
    if width >= WIDE:
        right += ["low-high/year", "energy/year", "cost over life"]
    table = _table(("Fabric",), tuple(right))
    for bill in answer.bills:
        life = bill.life
        cells = [
            bill.name,
            ("≥ " if bill.quote.unpriced else "") + money.one(bill.capital.base),
            money.span(bill.capital),
            number(bill.per_gpu.base),
            number(bill.draw.typical_w / THOUSAND),
            money.one(life.per_year.base),
        ]
        if width >= WIDE:
            cells += [money.span(life.per_year), money.one(life.energy_per_year.base)]
            cells.append(money.one(life.total.base))
        _row(table, *cells)
    for row in answer.refused:
        _row(table, row.name, *[DASH] * len(right))
    return table


def _legend(answer: CostAnswer) -> str:
    lines = [f"cost/year in {_Money(answer).unit}: annuity of the price, and energy."]
    if any(bill.quote.unpriced for bill in answer.bills):
        lines.append("≥: lines without a price in this book are not in the sum.")
    return "\n".join(lines)


def _bill_table(bill: FabricBill, money: _Money, width: int) -> RenderableType:
    wide = width >= WIDE
    spared = any(item.line.spares for item in bill.quote.items)
    left = ("Item", "Specification") if wide else ("Item",)
    right = ["order", *(["spares"] if spared else []), "unit", "each", money.unit, "low-high"]
    table = _table(left, tuple(right), fold="Specification" if wide else "Item")
    if wide:
        table.columns[0].no_wrap = False
    network = ""
    for item in bill.quote.items:
        if item.line.network != network:
            network = item.line.network
            table.add_section()
            _row(table, f"{network} network")
        _row(table, *_bill_cells(item, money, wide=wide, spared=spared))
    total = ["Total", *([""] if wide else []), "", *([""] if spared else []), "", ""]
    table.add_section()
    _row(table, *total, money.one(bill.capital.base), money.span(bill.capital))
    return table


def _bill_cells(item: PricedItem, money: _Money, *, wide: bool, spared: bool) -> Iterator[str]:
    line = item.line
    yield line.item
    if wide:
        yield line.specification
    yield number(line.order)
    if spared:
        yield number(line.spares)
    yield line.unit
    if item.price is None:
        yield from ("no price", "", "")
        return
    yield number(item.unit_price.base)
    yield money.one(item.total.base)
    yield money.span(item.total)


def _driver_tables(answer: CostAnswer, money: _Money) -> Iterator[RenderableType]:
    """Tornado: each part alone at its low and high price, the largest swing first."""
    table = _table(("Fabric", "Part"), ("total at low", "at high", "swing"), fold="Part")
    found = False
    for bill in answer.bills:
        for driver in bill.drivers[:DRIVERS_SHOWN]:
            found = True
            _row(
                table,
                bill.name,
                part_words(driver.part),
                money.one(driver.at_low),
                money.one(driver.at_high),
                money.one(driver.swing),
            )
    if found:
        yield _title(f"What drives the price: one part at its low and high, in {money.unit}")
        yield table


def _notes(answer: CostAnswer) -> Iterator[RenderableType]:
    """Notes by fabric; what all fabrics share stands once."""
    everyone = [bill.name for bill in answer.bills]
    shared: dict[str, list[str]] = {}
    for bill in answer.bills:
        for note in bill.notes:
            shared.setdefault(note, []).append(bill.name)
    grouped: dict[str, list[str]] = {}
    for note, names in shared.items():
        common = names == everyone and len(names) > 1
        grouped.setdefault("all fabrics" if common else ", ".join(names), []).append(note)
    for row in answer.refused:
        grouped[row.name] = [row.reason]
    lines = [
        printable(f"{heading}: ", "bold").append_text(printable(" ".join(notes), "not bold"))
        for heading, notes in grouped.items()
    ]
    yield Padding(Group(*lines), (1, 0, 0, 0))
