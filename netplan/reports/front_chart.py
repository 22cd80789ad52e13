"""The front of `netplan optimize` as a chart: what each gain of speed costs, and what is beaten."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from netplan.reports.charts import ACCENT, CHART_PX, GREY, Chart, Json, error_bars, hover, marks
from netplan.reports.escape import chart_label

STAR = "#d9702b"
LABEL_LENGTH = 26
ROOM = 0.34, 0.07
"""Shares of the two axes that a name needs for itself; a number alone stands where it has less."""

MOST_BEATEN = 600
"""Beaten designs that the drawing has room for [1]."""


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


def front_chart(
    points: Sequence[FrontPoint],
    chosen: int,
    axis: str,
    beaten: Sequence[FrontPoint] = (),
    spared: int = 0,
) -> Chart:
    """Draw the front as steps: between two designs no design is better in both.

    Parameters
    ----------
    points
        Cheapest first.
    chosen
        Place of the design that the verdict is about.
    axis
        Title of the axis of prices.
    beaten
        Designs that another beats; they have no number.
    spared
        Designs that a bound proves beaten, so that nobody knows their time [1].

    Examples
    --------
    >>> two = [FrontPoint(1, "rail-only", 6.1, 21.3, "6.1 M USD", "21.3 s"),
    ...        FrontPoint(2, "fat-tree", 24.5, 20.1, "24.5 M USD", "20.1 s")]
    >>> [series["x"] for series in front_chart(two, 0, "M USD").data]
    [[6.1, 24.5], [6.1]]
    """
    best = points[chosen]
    star = {"size": 15, "symbol": "star", "color": STAR}
    data = [
        _front(points, [*points, *beaten]),
        _designs([best], name="the verdict's", mode="markers", marker=star),
    ]
    named = "; ".join(f"{point.number} {point.name}" for point in points)
    chosen_words = f"The star is design {best.number}, of which the verdict speaks."
    notes = [f"On the front, from the left: {named}. {chosen_words}"]
    if beaten:
        cross = {"size": 7, "symbol": "x-thin-open", "color": GREY, "line": {"width": 1.5}}
        drawn_beaten = beaten[:MOST_BEATEN]
        data.insert(0, _designs(drawn_beaten, name="beaten", mode="markers", marker=cross))
        drawn = f"{min(len(beaten), MOST_BEATEN):,} of " if len(beaten) > MOST_BEATEN else ""
        notes.append(f"Crosses are designs that another beats: {drawn}{len(beaten):,} with a time.")
    if spared:
        notes.append(f"{spared:,} more are not drawn: a bound proves them beaten without a time.")
    layout: Json = {
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "iteration time, s"}},
        "showlegend": True,
    }
    label = "Pareto front: designs that no other beats in both"
    return Chart("front", label, CHART_PX, tuple(data), layout, tuple(notes))


def _designs(points: Sequence[FrontPoint], **facts: Any) -> Json:  # noqa: ANN401 - as plotly has them
    """Marks of designs at their price and time."""
    names = (f"{point.number}: {point.name}" if point.number else point.name for point in points)
    texts = ((point.price_text, point.time_text) for point in points)
    boxes = [hover(head, *lines) for head, lines in zip(names, texts, strict=True)]
    places = [point.price for point in points], [point.iteration_s for point in points]
    return marks("scatter", *places, boxes, **facts)


def _labels(points: Sequence[FrontPoint], drawn: Sequence[FrontPoint]) -> list[str]:
    """Number of each design of the front, with its name where no other stands near.

    Examples
    --------
    >>> line = [(54.0, 8.1), (75.0, 7.47), (79.0, 7.46)]
    >>> made = [FrontPoint(at, "bcube", x, y, "", "") for at, (x, y) in enumerate(line)]
    >>> _labels(made, made)
    ['0 bcube', '1', '2']
    """
    wide = max(point.price for point in drawn) or 1.0
    high = (
        max(point.iteration_s for point in drawn) - min(point.iteration_s for point in drawn) or 1.0
    )
    tags = []
    for point in points:
        near = any(
            other is not point
            and abs(other.price - point.price) < ROOM[0] * wide
            and abs(other.iteration_s - point.iteration_s) < ROOM[1] * high
            for other in points
        )
        tags.append(str(point.number) if near else f"{point.number} {point.name.partition(',')[0]}")
    return [chart_label(text, LABEL_LENGTH) for text in tags]


def _front(points: Sequence[FrontPoint], drawn: Sequence[FrontPoint]) -> Json:
    """The designs of the front, joined by steps, each with its number, and its name if it fits."""
    prices = [point.price for point in points]
    middle, labels = max(prices, default=0.0) / 2, _labels(points, drawn)
    facts: dict[str, Any] = {
        "name": "Pareto front",
        "mode": "lines+markers+text",
        "text": labels,
        "textposition": [
            # Numbers stand above and below in turn.
            ("top center", "bottom center")[place % 2]
            if text.isdecimal()
            else ("top left" if price > middle else "top right")
            for place, (text, price) in enumerate(zip(labels, prices, strict=True))
        ],
        "textfont": {"size": 12},
        "cliponaxis": False,
        "line": {"shape": "hv", "color": GREY, "dash": "dot", "width": 1.5},
        "marker": {"size": 10, "symbol": "circle", "color": ACCENT},
    }
    if any(point.ends for point in points):
        ends = [point.ends or (point.price, point.price) for point in points]
        above = [high - price for (_, high), price in zip(ends, prices, strict=True)]
        below = [price - low for (low, _), price in zip(ends, prices, strict=True)]
        facts["error_x"] = error_bars(above, below)
    return _designs(points, **facts)
