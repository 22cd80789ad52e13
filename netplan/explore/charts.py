"""The two charts of the page: prices with their ranges, and price against iteration time.

Marks differ by shape and by words beside them, not by colour alone.
"""

from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct

from netplan.reports.charts import Chart, Json, error_bars, marks, named_ticks
from netplan.reports.drawn_chart import drawing
from netplan.reports.escape import chart_label, short

WIDTH_PX, ROW_PX, FRAME_PX, PLANE_PX = 420.0, 28, 62, 300
NAME_LENGTH = 17
ROUND = 10
"""Millions from which on a price has one decimal [1]."""
COLOURS = {"best": "#d9702b", "whole": "#3b74c9", "part": "#8a94a3"}
SYMBOLS = {"best": "diamond", "whole": "circle", "part": "circle-open"}


class Mark(Struct, frozen=True):
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


def price_chart(fabrics: Sequence[Mark], currency: str) -> Markup:
    """One bar a fabric, with the range of its price.

    Parameters
    ----------
    fabrics
        Fabrics, the first one on top.
    currency
        Of the prices.

    Examples
    --------
    >>> mark = Mark("rail-only", 1.0, 2.0, 4.0, 3.5, chosen=True, complete=True)
    >>> drawn = price_chart([mark], "USD")
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
    told = ", ".join(f"{mark.name} {mark.price}" for mark in fabrics)
    height = FRAME_PX + ROW_PX * len(fabrics)
    return drawing(
        Chart("price", f"{title}: {told}", height, (bars, ranges, prices), layout), WIDTH_PX
    )


def time_chart(fabrics: Sequence[Mark], currency: str) -> Markup:
    """Price against iteration time, one mark a fabric that trains.

    Parameters
    ----------
    fabrics
        Fabrics with a time.
    currency
        Of the prices.

    Examples
    --------
    >>> mark = Mark("rail-only", 1.0, 2.0, 4.0, 3.5, chosen=False, complete=True)
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
    told = ", ".join(f"{mark.name} {mark.price} and {mark.time_s:.4g} s" for mark in fabrics)
    label = f"iteration time against price, M {currency}: {told}"
    return drawing(Chart("time", label, PLANE_PX, (spots,), layout), WIDTH_PX)
