"""One chart as the data that plotly.js draws, and what all charts share.

Text of users goes in through :func:`netplan.reports.escape.chart_label` alone, since plotly
reads a small markup inside labels.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from netplan.reports.escape import chart_label

Json = Mapping[str, object]

ACCENT, PALE, GREY = "#3b74c9", "#9dbde8", "#8a94a3"
HOVER_LENGTH = 60
CHART_PX = 420
"""Height of a chart with axes, where its rows do not say it [px]."""


class Chart(Struct, frozen=True):
    """One chart.

    Parameters
    ----------
    key
        Where it goes on the page.
    label
        Its title.
    height_px
        How high it is [px].
    data, layout
        What plotly draws.
    said
        What it leaves out, in sentences.
    small
        Whether half the width of a page is enough for it.
    """

    key: str
    label: str
    height_px: int
    data: tuple[Json, ...]
    layout: Json
    said: tuple[str, ...] = ()
    small: bool = False


def marks(
    kind: str,
    x: Iterable[float | None],
    y: Iterable[float | None],
    boxes: Iterable[str],
    **facts: object,
) -> Json:
    """Marks of one series as plotly draws them, each with its hover box."""
    drawn = {"type": kind, "x": list(x), "y": list(y)}
    return drawn | {"hoverinfo": "text", "hovertext": list(boxes)} | facts


def error_bars(above: Sequence[float], below: Sequence[float]) -> Json:
    """Error bars as plotly draws them: how far each reaches to either side of its mark."""
    return {
        "type": "data",
        "symmetric": False,
        "array": list(above),
        "arrayminus": list(below),
        "thickness": 1.5,
        "width": 6,
        "color": "#5d6876",
    }


def named_ticks(labels: Sequence[str]) -> dict[str, object]:
    """An axis of names at 0, 1, 2, ...: a name that looks like a date stays a name."""
    places = list(range(len(labels)))
    return {"tickmode": "array", "tickvals": places, "ticktext": list(labels), "showgrid": False}


def hover(*lines: str) -> str:
    """Lines of a hover box.

    Examples
    --------
    >>> hover("<b>", "10 s")
    '&lt;b&gt;<br>10 s'
    """
    return "<br>".join(chart_label(line, HOVER_LENGTH) for line in lines)
