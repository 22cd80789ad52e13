"""The front of `netplan optimize` as a chart: what each gain of speed costs."""

from collections.abc import Sequence

from msgspec import Struct

from netplan.reports.charts import ACCENT, CHART_PX, GREY, Chart, Json, error_bars, hover, marks
from netplan.reports.escape import chart_label

KNEE = "#d9702b"


class FrontPoint(Struct, frozen=True):
    """One design of the front: its number, what it is, its price and its iteration time [s].

    ``price`` stands in the unit of the axis, its range beside it where it has one.
    """

    number: int
    name: str
    price: float
    iteration_s: float
    price_text: str
    time_text: str
    ends: tuple[float, float] | None = None


def front_chart(points: Sequence[FrontPoint], knee: int | None, axis: str) -> Chart:
    """Draw the front as steps: between two designs no design is better in both.

    Parameters
    ----------
    points
        Cheapest first.
    knee
        Place of the design where the front bends most, if it does.
    axis
        Title of the axis of prices.

    Examples
    --------
    >>> two = [FrontPoint(1, "rail-only", 6.1, 21.3, "6.1 M USD", "21.3 s"),
    ...        FrontPoint(2, "fat-tree", 24.5, 20.1, "24.5 M USD", "20.1 s")]
    >>> front_chart(two, None, "M USD").data[0]["x"]
    [6.1, 24.5]
    """
    prices, times = [one.price for one in points], [one.iteration_s for one in points]
    boxes = [hover(f"{one.number}: {one.name}", one.price_text, one.time_text) for one in points]
    middle = max(prices, default=0.0) / 2
    signs = ["star" if place == knee else "circle" for place in range(len(points))]
    ends = [one.ends or (one.price, one.price) for one in points]
    facts: dict[str, object] = {
        "mode": "lines+markers+text",
        "text": [chart_label(f"{one.number} {one.name}") for one in points],
        "textposition": ["top left" if one > middle else "top right" for one in prices],
        "textfont": {"size": 11},
        "cliponaxis": False,
        "line": {"shape": "hv", "color": GREY, "dash": "dot", "width": 1.5},
        "marker": {
            "size": [14 if sign == "star" else 10 for sign in signs],
            "symbol": signs,
            "color": [KNEE if sign == "star" else ACCENT for sign in signs],
        },
    }
    if any(one.ends for one in points):
        above = [high - price for (_, high), price in zip(ends, prices, strict=True)]
        below = [price - low for (low, _), price in zip(ends, prices, strict=True)]
        facts["error_x"] = error_bars(above, below)
    layout: Json = {
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "iteration time, s"}},
        "showlegend": False,
    }
    said = () if knee is None else (f"The star is design {points[knee].number}, the knee.",)
    drawn = marks("scatter", prices, times, boxes, **facts)
    return Chart(
        "front", "Every design that no other beats in both", CHART_PX, (drawn,), layout, said
    )
