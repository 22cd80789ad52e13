"""What the page shows of a state: the verdict, a table, two charts, a drawing, the command.

The charts are prices with their ranges, and price against iteration time. Marks differ by shape and
by words beside them, not by colour alone.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from netplan.errors import NetplanError
from netplan.explore.state import State
from netplan.questions.compare import compare
from netplan.questions.draw import Draw
from netplan.reports.charts import Chart, Json, error_bars, marks, named_ticks
from netplan.reports.drawn_chart import chart_drawing
from netplan.reports.escape import chart_label, short
from netplan.reports.page import drawing_style
from netplan.reports.svg import standalone
from netplan.scenarios.scenario import every_place
from netplan.topologies.drawings.layers import fabric_drawing
from netplan.topologies.drawings.places import LEGIBLE_WIRES
from netplan.topologies.specs import not_sold
from netplan.units import MEGA, si

WIDTH_PX, ROW_PX, FRAME_PX, PLANE_PX = 420.0, 28, 62, 300
NAME_LENGTH = 17
ROUND = 10
"""Millions from which on a price has one decimal [1]."""
COLOURS = {"best": "#d9702b", "whole": "#3b74c9", "part": "#8a94a3"}
SYMBOLS = {"best": "diamond", "whole": "circle", "part": "circle-open"}


class FabricMark(Struct, frozen=True):
    """One fabric on the charts.

    Parameters
    ----------
    name
        What it is called.
    low, base, high
        Price and its range [M currency]; None where prices have no low or high end.
    time_s
        Iteration time; None without one [s].
    chosen, complete
        Whether the verdict recommends it, and whether its price holds all parts.
    """

    name: str
    low: float | None
    base: float
    high: float | None
    time_s: float | None
    chosen: bool
    complete: bool

    @property
    def label(self) -> str:
        """Its name, starred if it is recommended."""
        return chart_label(f"{'★ ' if self.chosen else ''}{short(self.name, NAME_LENGTH)}")

    @property
    def kind(self) -> str:
        """What sets its mark apart."""
        return "best" if self.chosen else "whole" if self.complete and self.time_s else "part"

    @property
    def price(self) -> str:
        """Its price in words."""
        return price_words(self.base, complete=self.complete)


def price_words(millions: float, *, complete: bool) -> str:
    """A price in millions as people read it; at least so much if parts of it have none.

    Examples
    --------
    >>> price_words(1910.64, complete=True), price_words(0.0741, complete=False)
    ('1,910.6', '≥ 0.0741')
    """
    number = f"{millions:,.1f}" if millions >= ROUND else f"{millions:.3g}"
    return f"{'' if complete else '≥ '}{number}"


def price_bars(fabrics: Sequence[FabricMark], currency: str) -> Markup:
    """One bar a fabric, with the range of its price.

    Parameters
    ----------
    fabrics
        Fabrics, the first one on top.
    currency
        Of the prices.

    Examples
    --------
    >>> mark = FabricMark("rail-only", 1.0, 2.0, 4.0, 3.5, chosen=True, complete=True)
    >>> drawn = price_bars([mark], "USD")
    >>> drawn.count("<rect"), "★ rail-only" in drawn, "M USD" in drawn
    (1, True, True)
    """
    rows = range(len(fabrics))
    boxes = [""] * len(fabrics)
    ends = [max(mark.base, mark.high or 0.0) for mark in fabrics]
    colours = [COLOURS[mark.kind] for mark in fabrics]
    bars: Json = {
        **marks("bar", (mark.base for mark in fabrics), rows, boxes),
        "orientation": "h",
        "marker": {"color": colours},
    }
    above = [(mark.high or mark.base) - mark.base for mark in fabrics]
    below = [mark.base - (mark.base if mark.low is None else mark.low) for mark in fabrics]
    ranges: Json = {
        **marks("scatter", (mark.base for mark in fabrics), rows, boxes, mode="none"),
        "error_x": error_bars(above, below),
    }
    prices: Json = {
        **marks("scatter", ends, rows, boxes, mode="text"),
        "text": [mark.price for mark in fabrics],
    }
    title = f"price of the network, M {currency}"
    layout: Json = {
        "xaxis": {"title": {"text": chart_label(title)}, "range": [0.0, 1.22 * max(ends)]},
        "yaxis": named_ticks([mark.label for mark in fabrics]) | {"autorange": "reversed"},
    }
    prices_text = ", ".join(f"{mark.name} {mark.price}" for mark in fabrics)
    height = FRAME_PX + ROW_PX * len(fabrics)
    return chart_drawing(
        Chart("price", f"{title}: {prices_text}", height, (bars, ranges, prices), layout), WIDTH_PX
    )


def time_chart(fabrics: Sequence[FabricMark], currency: str) -> Markup:
    """Price against iteration time, one mark a fabric that trains.

    Parameters
    ----------
    fabrics
        Fabrics with a time.
    currency
        Of the prices.

    Examples
    --------
    >>> mark = FabricMark("rail-only", 1.0, 2.0, 4.0, 3.5, chosen=False, complete=True)
    >>> time_chart([mark], "USD").count("<circle")
    1
    """
    prices = [mark.base for mark in fabrics]
    middle = max(prices) / 2
    spots: Json = {
        **marks("scatter", prices, (mark.time_s for mark in fabrics), [], mode="markers+text"),
        "marker": {
            "size": 13,
            "color": [COLOURS[mark.kind] for mark in fabrics],
            "symbol": [SYMBOLS[mark.kind] for mark in fabrics],
        },
        "text": [mark.label for mark in fabrics],
        "textposition": ["middle left" if price > middle else "middle right" for price in prices],
    }
    title = f"price of the network, M {currency}"
    layout: Json = {
        "xaxis": {"title": {"text": chart_label(title)}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "iteration time, s"}},
    }
    marks_text = ", ".join(f"{mark.name} {mark.price} and {mark.time_s:.4g} s" for mark in fabrics)
    label = f"iteration time against price, M {currency}: {marks_text}"
    return chart_drawing(Chart("time", label, PLANE_PX, (spots,), layout), WIDTH_PX)


COLUMNS = ("fabric", "switches", "modules", "price", "power", "iteration", "MFU")
UNSOLD = f"* {not_sold('this accelerator')}: not in the verdict."
NO_VERDICT: Mapping[str, Any] = {"sentence": "Nothing to recommend.", "fabric": None, "changes": ()}


class View(Struct, frozen=True):
    """All parts of the page for one state; ``error`` says in one line why there are none.

    Parameters
    ----------
    verdict, changes
        What to buy, and at which price another one wins.
    rows
        One a fabric, as the table has them.
    unbuilt
        Fabrics that cannot be built, each with the reason.
    marks
        Fabrics with a price, as the charts draw them.
    currency
        Of the prices.
    notes
        What every number assumes.
    """

    verdict: str = ""
    changes: tuple[str, ...] = ()
    rows: tuple[Mapping[str, str], ...] = ()
    unbuilt: tuple[str, ...] = ()
    marks: tuple[FabricMark, ...] = ()
    currency: str = ""
    notes: tuple[str, ...] = ()
    error: str = ""


def view_of(state: State) -> View:
    """Ask the question of a state, and make its views.

    Examples
    --------
    >>> view = view_of(State.of(gpus=1024, model="gpt-22b", fabrics=("rail-only", "fat-tree")))
    >>> [row["fabric"] for row in view.rows], view.error
    (['★ rail-only', 'fat-tree'], '')
    """
    try:
        data = compare(**state.question()).to_dict()
    except NetplanError as error:
        return View(error=str(error))
    built = [row for row in data["fabrics"] if row["switches"] is not None]
    verdict = data["verdict"] or NO_VERDICT
    chosen = verdict["fabric"]
    return View(
        verdict=verdict["sentence"],
        changes=tuple(change["sentence"] for change in verdict["changes"]),
        rows=tuple(_row(row, chosen) for row in built),
        unbuilt=tuple(
            f"{row['fabric']}: {' '.join(row['notes'])}"
            for row in data["fabrics"]
            if row["switches"] is None
        ),
        marks=tuple(_mark(row, chosen) for row in built if row["cost"]),
        currency=data["currency"],
        notes=tuple(f"{row['fabric']}: {' '.join(row['notes'])}" for row in built if row["notes"]),
    )


def _row(row: Mapping[str, Any], chosen: str | None) -> dict[str, str]:
    """One row of the table, as people read it; the raw numbers are the command's."""
    time_s, cost, watts = row["iteration_time_s"], row["cost"], row["power_w"]
    price, step_s = "-", row.get("step_s")
    if cost:
        words = price_words(cost["base"] / MEGA, complete=row["cost_complete"])
        price = f"{words} M {cost['currency']}"
    # A step of post-training is at least so long.
    step = f"step ≥ {step_s:.4g} s" if step_s else "-"
    return {
        "fabric": f"{'★ ' * (row['fabric'] == chosen)}{row['fabric']}{' *' * (not row['sold'])}",
        "switches": f"{row['switches']:,}",
        "modules": f"{row['transceivers']:,}",
        "price": price,
        "power": si(watts, "W") if watts else "-",
        "iteration": f"{time_s:#.4g} s" if time_s else step,
        "MFU": f"{100 * row['mfu']:.0f} %" if row["mfu"] else "-",
    }


def _mark(row: Mapping[str, Any], chosen: str | None) -> FabricMark:
    """One fabric on the charts."""
    low, base, high = (
        None if row["cost"][end] is None else row["cost"][end] / MEGA
        for end in ("low", "base", "high")
    )
    return FabricMark(
        name=row["fabric"],
        low=low,
        base=base or 0.0,
        high=high,
        time_s=row["iteration_time_s"],
        chosen=row["fabric"] == chosen,
        complete=row["cost_complete"],
    )


def page_of(state: State, refused: str = "") -> str:
    """All views of a state as HTML, in which every text is escaped.

    Parameters
    ----------
    state
        Where the sliders stand.
    refused
        Why a link was not taken; empty if it was.

    Examples
    --------
    >>> page = page_of(State.of(gpus=64, model="gpt-22b", fabrics=("rail-only",)))
    >>> page.count("<svg"), page.count("<img"), "netplan compare hgx-b200 --gpus 64" in page
    (2, 1, True)
    """
    return str(Markup("").join(_parts(state, view_of(state), refused)))


def _parts(state: State, view: View, refused: str) -> Iterator[Markup]:
    """Parts of the page from top to bottom."""
    box = Markup('<div class="box {}" role="status">{}</div>')
    if refused:
        yield box.format("wrong", refused)
    yield box.format("wrong" if view.error else "answer", view.error or view.verdict)
    if view.rows:
        yield _table(view)
    unsold = [UNSOLD] if any(row["fabric"].endswith("*") for row in view.rows) else []
    for sentence in (*unsold, *view.unbuilt):
        yield Markup('<p class="small">{}</p>').format(sentence)
    timed = [mark for mark in view.marks if mark.time_s]
    charts = [price_bars(view.marks, view.currency)] if view.marks else []
    charts += [time_chart(timed, view.currency)] if timed else []
    yield Markup('<div class="two">{}</div>').format(Markup("").join(charts))
    drawn = drawing_of_state(state)
    if drawn:
        yield Markup('<img src="{}" alt="drawing of {}">').format(drawn, state.drawn)
    yield Markup(
        "<p>The command that gives this answer; the address of this page brings it back:</p>"
    )
    yield Markup('<code class="line">{}</code>').format(state.command())
    if view.rows:
        items = Markup("").join(
            Markup("<li>{}</li>").format(sentence) for sentence in (*view.changes, *view.notes)
        )
        yield Markup(
            "<details><summary>What these numbers assume</summary><ul>{}</ul></details>"
        ).format(items)


def _table(view: View) -> Markup:
    """The fabrics as a table."""
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in COLUMNS)
    rows = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row["fabric"],
            Markup("").join(Markup("<td>{}</td>").format(row[name]) for name in COLUMNS[1:]),
        )
        for row in view.rows
    )
    return Markup(
        '<div class="wide"><table aria-label="fabrics"><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(head, rows)


def drawing_of_state(state: State) -> str:
    """Address of the drawing of the chosen fabric, as an image that runs no script.

    Small networks are drawn node by node, all others by tiers from their counts alone.
    """
    known, inputs = every_place(), state.inputs()
    sizes = {name: inputs[name] for name in inputs if known[name].part == "cluster"}
    sizes.pop("fabrics", None)
    try:
        question = Draw.make(**sizes, scenario=state.scenario, fabric=state.drawn)
        _, fabric = question.built()
        small = sum(group.links for group in fabric.links) <= LEGIBLE_WIRES
        svg = question.ask().svg() if small else standalone(fabric_drawing(fabric), drawing_style())
    except NetplanError:
        return ""
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
