"""Charts of a procurement report, as the data that plotly.js draws.

Labels are placed by position and written as tick texts: a fabric called ``2024-01-01`` stays a
name. Colours of text and lines come from the page's style sheet, so that charts follow the light
and the dark mode and print; only the marks have colours of their own, fit for both.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle

from msgspec import Struct

from netplan.costing.fabric_bill import FabricBill
from netplan.costing.materials import Category
from netplan.costing.pricing import Driver
from netplan.costing.ranges import Range
from netplan.performance.plan import PlanTime
from netplan.questions.answers.cost_answer import CostAnswer
from netplan.reports.charts import (
    ACCENT,
    GREY,
    PALE,
    Chart,
    Json,
    error_bars,
    hover,
    marks,
    named_ticks,
)
from netplan.reports.escape import chart_label
from netplan.reports.quantities import Scale, part_words

TINTS = (ACCENT, "#74a0dd", "#a9c6ec", "#8a94a3", "#b4bcc8", "#5d6876", "#d0d5dd", "#39424e")
CATEGORIES: dict[Category, str] = {
    "switches": "Switches",
    "transceivers": "Transceivers",
    "cables": "Cables",
    "cards": "Network cards",
    "circuits": "Circuit switches",
    "hb-gear": "HB-domain gear",
    "racks": "Racks",
    "memory": "Expanded memory",
}
ROW_PX, FRAME_PX = 46, 110
SCATTER_PX = 380


def price_chart(answer: CostAnswer) -> Chart:
    """Price of every fabric by category, with its low and high."""
    money, bills = answer.scale, answer.bills
    data = [
        _stack(title, TINTS[number], [_category(bill, key) for bill in bills], bills, money)
        for number, (key, title) in enumerate(CATEGORIES.items())
        if any(_category(bill, key) for bill in bills)
    ]
    data.append(_whiskers([bill.cost for bill in bills], bills, money))
    return _bars("price", "Price of the network by fabric", bills, data, money.title)


def running_chart(answer: CostAnswer) -> Chart:
    """Cost of a year: annuity of the price, and energy."""
    money, bills = answer.scale, answer.bills
    data = [
        _stack("Annuity", ACCENT, [b.life.annuity_per_year.base for b in bills], bills, money),
        _stack("Energy", GREY, [b.life.energy_per_year.base for b in bills], bills, money),
        _whiskers([bill.life.per_year if bill.cost else None for bill in bills], bills, money),
    ]
    unit = f"{money.title} a year"
    return _bars("running", "Yearly cost of the network by fabric", bills, data, unit)


def driver_chart(answer: CostAnswer, bill: FabricBill, shown: int) -> Chart | None:
    """Tornado of one fabric: its price with one part at low and at high; None without spreads.

    A part without a spread has its name there, its share of the price, and no bar.
    """
    money, drivers = answer.scale, bill.drivers[:shown]
    if not any(driver.swing for driver in drivers):
        return None
    base = bill.capital.base
    data = []
    for name, colour, case in (("at its low", PALE, "at_low"), ("at its high", ACCENT, "at_high")):
        ends = {part_words(driver.part): getattr(driver, case) for driver in drivers}
        texts = (
            hover(part, f"{name}: {money.one(end)} {money.title}") for part, end in ends.items()
        )
        reach_out = [(end - base) / money.factor for end in ends.values()]
        bar = marks("bar", reach_out, range(len(drivers)), texts, name=name, orientation="h")
        data.append({**bar, "base": base / money.factor, "marker": {"color": colour}})
    ticks = [_part_tick(driver, base) for driver in drivers]
    title = f"{money.title} (base {money.one(base)})"
    # From end to end of the swings: from zero they would be specks on a large total.
    reach = max(abs(getattr(d, end) - base) for d in drivers for end in ("at_low", "at_high"))
    span = [(base + side * reach) / money.factor for side in (-1.15, 1.15)]
    layout = _layout(ticks, title) | {"barmode": "overlay"}
    layout["xaxis"] = {"title": {"text": title}, "range": span}
    height = FRAME_PX + ROW_PX * len(drivers)
    return Chart("drivers", "What moves the price", height, tuple(data), layout)


def speed_chart(
    answer: CostAnswer, timed: Mapping[str, PlanTime], chosen: str, training: str
) -> Chart | None:
    """Iteration time against price, with their bars; None if no fabric with a price was timed."""
    money = answer.scale
    bills = [bill for bill in answer.bills if bill.cost and bill.name in timed]
    points = _points(bills, timed, money)
    if not points:
        return None
    times = [point.time_s for point in points]
    prices = [point.price for point in points]
    margin = 0.1 * max(times)  # so that differences of a few percent can be seen
    data = marks(
        "scatter",
        [price.base / money.factor for price in prices],
        times,
        [
            hover(*point.names, f"{point.time_text} an iteration", _amounts(point.price, money))
            for point in points
        ],
        mode="markers+text",
        text=[point.label(chosen) for point in points],
        # Neighbours carry their names above and below in turn, so that these do not meet.
        textposition=[place for _, place in zip(points, cycle(("bottom center", "top center")))],
        cliponaxis=False,
        marker={"size": 13, "color": [ACCENT if chosen in one.names else GREY for one in points]},
        error_x=_error(prices, money),
        **_time_bars(points),
    )
    top = 1.25 * max(price.high for price in prices) / money.factor
    layout: Json = {
        "xaxis": {"title": {"text": f"Price, {money.title}"}, "range": [0, top]},
        "yaxis": {
            "title": {"text": f"Iteration of {chart_label(training)}, s"},
            "range": [min(times) - margin, max(times) + margin],
        },
        "showlegend": False,
    }
    return Chart("speed", "Iteration time against price", SCATTER_PX, (data,), layout)


class Point(Struct, frozen=True):
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


def _time_bars(points: Sequence[Point]) -> Json:
    """Error bars of iteration times, if they have any."""
    if not any(point.timed.error for point in points):
        return {}
    bars = [point.timed.error.whole.of(point.time_s) for point in points if point.timed.error]
    above = [high - point.time_s for (_, high), point in zip(bars, points, strict=True)]
    below = [point.time_s - low for (low, _), point in zip(bars, points, strict=True)]
    return {"error_y": error_bars(above, below)}


def _points(
    bills: Sequence[FabricBill], timed: Mapping[str, PlanTime], money: Scale
) -> list[Point]:
    """Fabrics from left to right; those that look the same share a point."""
    found: dict[tuple[str, str, str], Point] = {}
    for bill in sorted(bills, key=lambda bill: bill.capital.base):
        own, lacking = timed[bill.name], _lacking(bill)
        key = (_amounts(bill.capital, money), f"{own.iteration_time_s:.3f}", lacking)
        found.setdefault(key, Point([], bill.capital, own, lacking)).names.append(bill.name)
    return list(found.values())


def _lacking(bill: FabricBill) -> str:
    """Behind the name of a fabric: whether parts that set it apart are missing in its price."""
    return "" if bill.complete else " ≥" if bill.cost else ", no price"


def _category(bill: FabricBill, key: str) -> float:
    """Base price of one category of a bill."""
    return sum(item.total.base for item in bill.quote.items if item.line.category == key)


def _stack(
    title: str, colour: str, values: Sequence[float], bills: Sequence[FabricBill], money: Scale
) -> Json:
    """One layer of stacked bars over all fabrics."""
    boxes = (
        hover(bill.name, f"{title}: {money.one(value)} {money.title}")
        for bill, value in zip(bills, values, strict=True)
    )
    ends = [value / money.factor for value in values]
    at, marker = range(len(bills)), {"color": colour}
    return marks("bar", ends, at, boxes, name=title, orientation="h", marker=marker)


def _whiskers(amounts: Sequence[Range | None], bills: Sequence[FabricBill], money: Scale) -> Json:
    """Low to high of each whole bar; a fabric of which nothing has a price has no mark."""
    rows = enumerate(zip(bills, amounts, strict=True))
    known = [(at, bill.name, amount) for at, (bill, amount) in rows if amount is not None]
    return marks(
        "scatter",
        [amount.base / money.factor for _, _, amount in known],
        [at for at, _, _ in known],
        [hover(name, _amounts(amount, money)) for _, name, amount in known],
        name="low to high",
        mode="markers",
        marker={"color": "#5d6876", "size": 7, "symbol": "diamond"},
        error_x=_error([amount for _, _, amount in known], money),
    )


def _error(amounts: Sequence[Range], money: Scale) -> Json:
    return error_bars(
        [(amount.high - amount.base) / money.factor for amount in amounts],
        [(amount.base - amount.low) / money.factor for amount in amounts],
    )


def _bars(
    key: str, label: str, bills: Sequence[FabricBill], data: Sequence[Json], unit: str
) -> Chart:
    """Chart of horizontal bars, the first fabric on top."""
    ticks = [f"{chart_label(bill.name, 18)}{_lacking(bill)}" for bill in bills]
    layout = _layout(ticks, unit) | {"barmode": "stack"}
    return Chart(key, label, FRAME_PX + ROW_PX * len(bills), tuple(data), layout)


def _layout(ticks: Sequence[str], unit: str) -> dict[str, object]:
    return {
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "yaxis": named_ticks(ticks) | {"range": [len(ticks) - 0.4, -0.6]},
        "showlegend": True,
    }


def _part_tick(driver: Driver, total: float) -> str:
    """Name of a part over two lines: what, at which speed, and what its price lacks."""
    what, at, speed = part_words(driver.part).partition(" at ")
    name = chart_label(what, 22) + (f"<br>{at.strip()} {chart_label(speed, 22)}" if at else "")
    if driver.swing:
        return name
    return f"{name}<br>{driver.stated}, {100 * driver.amount / (total or 1.0):.0f} % of price"


def _amounts(amount: Range, money: Scale) -> str:
    spread = f" ({money.one(amount.low)} to {money.one(amount.high)})" if amount.spread else ""
    return f"{money.one(amount.base)} {money.title}{spread}"
