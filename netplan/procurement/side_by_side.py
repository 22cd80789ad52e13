"""The fabrics of a procurement report side by side: price, what moves it, years, runs, speed.

Charts of a procurement report, as the data that plotly.js draws.

Labels are placed by position and written as tick texts: a fabric called ``2024-01-01`` stays a
name. Colours of text and lines come from the page's style sheet, so that charts follow the light
and the dark mode and print; only the marks have colours of their own, fit for both.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from msgspec import Struct

from netplan.answers.bill_columns import no_high, ordered
from netplan.answers.cost_answer import BOTH_ENDS, CostAnswer, Priced, amount_column, years_table
from netplan.answers.training_runs import TrainingRun
from netplan.costing.fabric_bill import FabricBill
from netplan.costing.materials import CABLE_PARTS, SWITCH_PARTS, Category
from netplan.costing.pricing import Driver
from netplan.costing.ranges import Range
from netplan.performance.barred import barred_columns, behind
from netplan.performance.error_bars import bar_note
from netplan.performance.plan import PlanTime
from netplan.procurement.findings import Findings, range_column, told_column
from netplan.records import replace, value_at
from netplan.reports import charts
from netplan.reports.escape import chart_label
from netplan.reports.quantities import Scale, listed, part_words, quantity
from netplan.reports.sections import Column, Heading, Paragraph, Section, Table, column, columns
from netplan.setup.inputs import short_inputs
from netplan.setup.money.pricing import carbon_ends
from netplan.units import KILO

BLUES = (charts.ACCENT, "#74a0dd", "#a9c6ec")
TINTS = (*BLUES, "#8a94a3", "#b4bcc8", "#5d6876", "#d0d5dd", "#39424e", "#c2a02f")
CATEGORIES: dict[Category, str] = {
    "switches": "Switches",
    "transceivers": "Transceivers",
    "cables": "Cables",
    "cards": "Network cards",
    "circuits": "Circuit switches",
    "hb-gear": "HB-domain gear",
    "racks": "Racks",
    "installation": "Installation",
    "memory": "Expanded memory",
}
ROW_PX, FRAME_PX = 46, 110
SCATTER_PX = 380


def price_chart(answer: CostAnswer) -> charts.Chart:
    """Price of every fabric by category, with its low and high."""
    money, bills = answer.scale, answer.bills
    data = [
        _stack(title, TINTS[number], [_category(bill, key) for bill in bills], bills, money)
        for number, (key, title) in enumerate(CATEGORIES.items())
        if any(_category(bill, key) for bill in bills)
    ]
    data.append(_whiskers([bill.cost for bill in bills], bills, money))
    return _bars("price", "Price of the network by fabric", bills, data, money.title)


def opex_chart(answer: CostAnswer) -> charts.Chart:
    """Cost of a year: annuity of the price, and energy."""
    money, bills = answer.scale, answer.bills
    data = [
        _stack(
            "Annuity",
            charts.ACCENT,
            [bill.life.annuity_per_year.base if bill.cost else 0.0 for bill in bills],
            bills,
            money,
        ),
        _stack(
            "Energy",
            charts.GREY,
            [bill.life.energy_per_year.base if bill.draw.known else 0.0 for bill in bills],
            bills,
            money,
        ),
        _whiskers([bill.life.per_year if bill.cost else None for bill in bills], bills, money),
    ]
    unit = f"{money.title} a year"
    return _bars("running", "Yearly cost of the network by fabric", bills, data, unit)


def driver_chart(answer: CostAnswer, bill: FabricBill, shown: int) -> charts.Chart | None:
    """Tornado of one fabric: its price with one part at low and at high; None without spreads.

    A part without a spread has its name there, its share of the price, and no bar.
    """
    money, drivers = answer.scale, bill.drivers[:shown]
    if not any(driver.swing for driver in drivers):
        return None
    base = bill.capital.base
    data = []
    for name, colour, case in (
        ("at its low", charts.PALE, "at_low"),
        ("at its high", charts.ACCENT, "at_high"),
    ):
        ends = {part_words(driver.part): getattr(driver, case) for driver in drivers}
        texts = (
            charts.hover(part, f"{name}: {money.number(end)} {money.title}")
            for part, end in ends.items()
        )
        reach_out = [(end - base) / money.factor for end in ends.values()]
        bar = charts.marks("bar", reach_out, range(len(drivers)), texts, name=name, orientation="h")
        data.append({**bar, "base": base / money.factor, "marker": {"color": colour}})
    ticks = [_part_tick(driver, base) for driver in drivers]
    title = f"{money.title} (base {money.number(base)})"
    # From end to end of the swings: from zero they would be specks on a large total.
    reach = max(abs(getattr(d, end) - base) for d in drivers for end in ("at_low", "at_high"))
    span = [(base + side * reach) / money.factor for side in (-1.15, 1.15)]
    layout = _layout(ticks, title) | {"barmode": "overlay"}
    layout["xaxis"] = {"title": {"text": title}, "range": span}
    height = FRAME_PX + ROW_PX * len(drivers)
    return charts.Chart("drivers", "What moves the price", height, tuple(data), layout)


def speed_chart(
    answer: CostAnswer, timed: Mapping[str, PlanTime], chosen: str, training: str
) -> charts.Chart | None:
    """Iteration time against price, with their bars; None if no fabric with a price was timed."""
    money = answer.scale
    bills = [bill for bill in answer.bills if bill.cost and bill.name in timed]
    points = _points(bills, timed, money)
    if not points:
        return None
    times = [point.time_s for point in points]
    prices = [point.price for point in points]
    data = charts.marks(
        "scatter",
        [price.base / money.factor for price in prices],
        times,
        [
            charts.hover(
                *point.names, f"{point.time_text} an iteration", _amounts(point.price, money)
            )
            for point in points
        ],
        mode="markers+text",
        text=[point.label(chosen) for point in points],
        # Neighbours carry their names above and below in turn, so that these do not meet.
        textposition=[place for _, place in zip(points, cycle(("bottom center", "top center")))],
        cliponaxis=False,
        marker={
            "size": 13,
            "color": [charts.ACCENT if chosen in point.names else charts.GREY for point in points],
        },
        error_x=_error(prices, money),
        **_time_bars(points),
    )
    top = 1.25 * max(price.high for price in prices) / money.factor
    layout: charts.Json = {
        "xaxis": {"title": {"text": f"Price, {money.title}"}, "range": [0, top]},
        "yaxis": {"title": {"text": f"Iteration of {chart_label(training)}, s"}},
        "showlegend": False,
    }
    return charts.Chart("speed", "Iteration time against price", SCATTER_PX, (data,), layout)


class PricePoint(Struct, frozen=True):
    """Fabrics that look the same: their price, and the plan of an iteration."""

    names: list[str]
    price: Range
    timed: PlanTime
    lacking: str

    @property
    def time_s(self) -> float:
        """Time of an iteration [s]."""
        return self.timed.iteration_time_s

    @property
    def time_text(self) -> str:
        """The same for people."""
        return self.timed.time_text if self.timed.error else f"{self.time_s:.3f} s"

    def label(self, chosen: str) -> str:
        """The chosen fabric if it is there, else the first, and how many more."""
        name = chosen if chosen in self.names else self.names[0]
        more = f" and {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return f"{chart_label(name, 18)}{more}{self.lacking}"


def _time_bars(points: Sequence[PricePoint]) -> charts.Json:
    """Error bars of iteration times, if they have any."""
    if not any(point.timed.error for point in points):
        return {}
    bars = [point.timed.error.whole.of(point.time_s) for point in points if point.timed.error]
    above = [high - point.time_s for (_, high), point in zip(bars, points, strict=True)]
    below = [point.time_s - low for (low, _), point in zip(bars, points, strict=True)]
    return {"error_y": charts.error_bars(above, below)}


def _points(
    bills: Sequence[FabricBill], timed: Mapping[str, PlanTime], money: Scale
) -> list[PricePoint]:
    """Fabrics from left to right; those that look the same share a point."""
    points: dict[tuple[str, str, str], PricePoint] = {}
    for bill in sorted(bills, key=lambda bill: bill.capital.base):
        best, lacking = timed[bill.name], _lacking(bill)
        key = (_amounts(bill.capital, money), f"{best.iteration_time_s:.3f}", lacking)
        points.setdefault(key, PricePoint([], bill.capital, best, lacking)).names.append(bill.name)
    return list(points.values())


def _lacking(bill: FabricBill) -> str:
    """Behind the name of a fabric: whether parts that set it apart are missing in its price."""
    return "" if bill.complete else " ≥" if bill.cost else ", no price"


def _category(bill: FabricBill, key: str) -> float:
    """Base price of one category of a bill."""
    return sum(item.total.base for item in bill.quote.items if item.line.category == key)


def _stack(
    title: str, colour: str, values: Sequence[float], bills: Sequence[FabricBill], money: Scale
) -> charts.Json:
    """One layer of stacked bars over all fabrics."""
    boxes = (
        charts.hover(bill.name, f"{title}: {money.number(value)} {money.title}")
        for bill, value in zip(bills, values, strict=True)
    )
    ends = [value / money.factor for value in values]
    rows, marker = range(len(bills)), {"color": colour}
    return charts.marks("bar", ends, rows, boxes, name=title, orientation="h", marker=marker)


def _whiskers(
    amounts: Sequence[Range | None], bills: Sequence[FabricBill], money: Scale
) -> charts.Json:
    """Low to high of each whole bar; a fabric of which nothing has a price has no mark."""
    rows = enumerate(zip(bills, amounts, strict=True))
    known = [(index, bill.name, amount) for index, (bill, amount) in rows if amount is not None]
    return charts.marks(
        "scatter",
        [amount.base / money.factor for _, _, amount in known],
        [index for index, _, _ in known],
        [charts.hover(name, _amounts(amount, money)) for _, name, amount in known],
        name="low to high",
        mode="markers",
        marker={"color": "#5d6876", "size": 7, "symbol": "diamond"},
        error_x=_error([amount for _, _, amount in known], money),
    )


def _error(amounts: Sequence[Range], money: Scale) -> charts.Json:
    return charts.error_bars(
        [(amount.high - amount.base) / money.factor for amount in amounts],
        [(amount.base - amount.low) / money.factor for amount in amounts],
    )


def _bars(
    key: str, label: str, bills: Sequence[FabricBill], data: Sequence[charts.Json], unit: str
) -> charts.Chart:
    """Chart of horizontal bars, the first fabric on top."""
    ticks = [f"{chart_label(bill.name, 18)}{_lacking(bill)}" for bill in bills]
    layout = _layout(ticks, unit) | {"barmode": "stack"}
    return charts.Chart(key, label, FRAME_PX + ROW_PX * len(bills), tuple(data), layout)


def _layout(ticks: Sequence[str], unit: str) -> dict[str, object]:
    return {
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "yaxis": charts.named_ticks(ticks) | {"range": [len(ticks) - 0.4, -0.6]},
        "showlegend": True,
    }


def _part_tick(driver: Driver, total: float) -> str:
    """Name of a part over two lines: what, at which speed, and what its price lacks."""
    what, word, speed = part_words(driver.part).partition(" at ")
    name = chart_label(what, 22) + (f"<br>{word.strip()} {chart_label(speed, 22)}" if word else "")
    if driver.swing:
        return name
    return f"{name}<br>{driver.stated}, {100 * driver.amount / (total or 1.0):.0f} % of price"


def _amounts(amount: Range, money: Scale) -> str:
    spread = (
        f" ({money.number(amount.low)} to {money.number(amount.high)})" if amount.spread else ""
    )
    return f"{money.number(amount.base)} {money.title}{spread}"


def comparison_chapter(answer: Findings) -> Iterator[Section]:
    """All fabrics side by side; the recommended one is set off."""
    priced, scale, per_gpu_title = answer.cost, answer.cost.scale, f"{answer.cost.currency}/GPU"
    text = (
        "Price of the network, without servers and accelerators. ≥ marks a sum to which parts"
        " without a price are still to be added, + a range whose parts have no high in the book."
        " Switches, modules and cables are those ordered, spares included."
    )
    yield Heading("Fabrics side by side", (text,), "comparison")
    side: list[Column[Priced]] = [
        column("fabric", "name", mark=lambda row: ("", " *" if row.name in answer.unsold else "")),
        amount_column(scale.of_money("cost_base"), "capital.base"),
        range_column("bill.capital", scale),
        amount_column("cost_per_gpu", "per_gpu.base", title=per_gpu_title),
        told_column("switches", "switches_ordered", ordered(*SWITCH_PARTS), form="count"),
        *columns("ports_per_gpu", "gpu_bytes_per_s", of="bill.fabric"),
        told_column("modules", get=ordered("transceiver"), form="count"),
        told_column("cables", get=ordered(*CABLE_PARTS.values()), form="count"),
        amount_column("power_w", "power_w", title="power, kW"),
    ]
    if answer.timed:
        rows = {row.name: row for row in answer.comparison.rows}
        if any(best.error for best in answer.timed.values()):
            side += barred_columns(
                lambda row: answer.timed.get(row.name), lambda row: rows[row.name].mfu
            )
        else:
            time = quantity("iteration_time_s", title="iteration, s", suffix="")
            side += [
                column(time, lambda row: value_at(rows[row.name], "best.iteration_time_s")),
                column("mfu", lambda row: rows[row.name].mfu),
            ]
    chosen, foreign = answer.recommendation.fabric, dict.fromkeys(answer.unsold.values())
    yield Table(
        "fabrics",
        side,
        priced.rows,
        legend=tuple(f"* {words}: not in the verdict." for words in foreign),
        chosen=lambda row: row.name == chosen,
    )
    for best in list(answer.timed.values())[:1]:
        yield from (Paragraph(sentence, "quiet") for sentence in bar_note(best.error))
    for row in priced.refused:
        yield Paragraph(f"{row.name}: {row.reason}", "quiet")


def price_chapter(answer: Findings) -> Iterator[Section]:
    """Prices by category."""
    text = "Bars: base prices by category. Whiskers: all prices at their low and all at their high."
    yield Heading("What each fabric costs", (text,), "price")
    yield price_chart(answer.cost)


def drivers_chapter(answer: Findings) -> Iterator[Section]:
    """What moves the price of the chosen fabric, and where the order of prices turns."""
    yield Heading(f"What moves the price of {answer.chosen.name}", (), "drivers")
    chart = driver_chart(answer.cost, answer.chosen, answer.definition.drivers_shown)
    if chart is None:
        text = "The price book states no spread for the parts of this fabric; the price is one"
        yield Paragraph(f"{text} number.")
    else:
        text = "One part at a time at its lowest and highest price, all others at base: the top bar"
        text = f"{text} is the price to negotiate first."
        bare = [driver for driver in answer.chosen.drivers if driver.stated != BOTH_ENDS]
        if bare:
            total = answer.chosen.capital.base or 1.0
            parts = listed(
                [
                    f"{part_words(driver.part)} ({driver.stated},"
                    f" {100 * driver.amount / total:.0f} % of the price)"
                    for driver in bare
                ]
            )
            text += f" Not known whole, so at base where nothing is stated: {parts}."
        yield Paragraph(text, "quiet")
        yield chart
    for statement in answer.cost.statements:
        yield Paragraph(statement)


def opex_chapter(answer: Findings) -> Iterator[Section]:
    """Energy and yearly cost of every fabric, and of one training run."""
    inputs, scale = answer.cost.inputs, answer.cost.scale
    money = scale.of_money
    text = (
        f"Annuity of the price over {inputs['years']} years, and energy at a PUE of"
        f" {inputs['pue']:g} and {inputs['tariff_per_kwh']:.4g} {answer.cost.currency} per kWh."
    )
    if factor := inputs["carbon_kg_per_kwh"]:
        text += f" A kWh emits {factor:.3g} kg CO2e (grid: {inputs['grid']})."
    yield Heading("Energy and yearly cost", (text,), "running")
    yield opex_chart(answer.cost)
    emitted, carbon = "carbon_kg_per_year", list[Column[FabricBill]]()
    if answer.cost.inputs["carbon_kg_per_kwh"]:
        carbon = [
            amount_column(emitted, f"life.{emitted}.base", title="t CO2e a year", scale=KILO),
            told_column("t CO2e, low to high", get=carbon_ends, form="code"),
        ]
    used, energy = "energy_kwh_per_year", f"energy, {scale.title} a year"
    columns: list[Column[FabricBill]] = [
        column("fabric", "name"),
        amount_column("power_w", "power_w", title="power, kW"),
        amount_column(used, f"life.{used}.base", title="MWh a year", scale=KILO),
        *carbon,
        amount_column(money("energy_per_year", energy), "life.energy_per_year.base"),
        range_column("life.energy_per_year", scale, lambda _: False),
        amount_column(money("annuity_per_year", "annuity"), "life.annuity_per_year.base"),
        amount_column(money("cost_per_year", "cost a year"), "life.per_year.base"),
        range_column("life.per_year", scale),
        amount_column(money("cost_over_life", f"both, {inputs['years']} times"), "life.total.base"),
    ]
    chosen = answer.chosen.name
    yield Table("yearly cost", columns, answer.cost.bills, chosen=lambda bill: bill.name == chosen)
    yield years_table(inputs, answer.cost.bills, scale)
    yield from () if answer.serves or answer.stepped else _training_run(answer)


def _training_run(answer: Findings) -> Iterator[Section]:
    """What the network costs one training run, and a useful PFLOP/s; nothing without timing."""
    unit, tokens = answer.cost.currency, answer.run_tokens
    bills = {bill.name: bill for bill in answer.cost.bills}

    def lacking(run: TrainingRun) -> tuple[str, str]:
        return ("≥ " if bills[run.fabric].quote.unpriced else ""), ""

    days = behind(lambda run: run.days, lambda run: answer.timed[run.fabric].error, 1)
    whole, useful, of_runs = answer.whole_units, f"{unit} per useful PFLOP/s", answer.of_runs
    priced = of_runs.of_money("run_cost", f"network, {of_runs.title} a run")
    run_cost: Column[TrainingRun] = column(priced, "cost.base")
    work = told_column(useful, "cost_per_effective_pflops", "price_per_pflops.base", form="count")
    of_run: list[Column[TrainingRun]] = [
        told_column("iterations", form="count"),
        replace(told_column("days", form="fixed", digits=1), mark=days),
        replace(run_cost, mark=lacking),
        range_column("cost", of_runs, lambda run: no_high(bills[run.fabric])),
    ]
    columns: list[Column[TrainingRun]] = [
        column("fabric"),
        *(of_run if tokens else ()),
        replace(work, mark=lacking),
        range_column("price_per_pflops", whole, lambda run: no_high(bills[run.fabric])),
    ]
    model = short_inputs(answer.inputs)["model"]
    legend = f"{model} has no tokens, and so no run of known length."
    if tokens:
        billions = float(f"{tokens[0] / 1e9:.3g}")
        legend = (
            f"{model} on {billions:,g} billion tokens ({tokens[1]}), without"
            " interruptions; the network's annuity and energy in that time."
        )
    chosen = answer.chosen.name
    yield Table(
        "training run",
        columns,
        answer.runs,
        title="One training run" if tokens else "Useful work",
        legend=(legend,),
        chosen=lambda run: run.fabric == chosen,
    )


def speed_chapter(answer: Findings) -> Iterator[Section]:
    """Iteration time against price, where fabrics were timed."""
    inputs, chosen = short_inputs(answer.inputs), answer.chosen.name
    chart = speed_chart(answer.cost, answer.timed, chosen, str(inputs["model"]))
    if chart is None:
        return
    text = (
        f"One iteration of {inputs['model']} at a global batch of {inputs['batch']:,}, each fabric"
        " with its best parallel plan. Lower is faster, further left is cheaper."
    )
    yield Heading("Speed against price", (text,), "speed")
    yield chart
