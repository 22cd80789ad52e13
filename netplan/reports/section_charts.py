"""Bars and heat maps as charts, for notebooks: pages and terminals draw them without a script."""

from math import ceil, floor, log10

from netplan.reports.charts import ACCENT, Chart, Json, hover, marks, named_ticks
from netplan.reports.escape import chart_label
from netplan.reports.sections import Bars, Heat, Section

BAR_PX, FRAME_PX, HEAT_PX = 34, 110, 520
FAINTEST, DARKEST = "#c6dbef", "#08306b"
"""Shades of the least amount that is not nothing, and of the largest."""


def chart_of(section: Section) -> Chart | None:
    """A section as a chart, if it is one or can be drawn as one.

    Examples
    --------
    >>> from netplan.reports.quantities import quantity
    >>> bars = Bars("time", "Time", quantity("seconds"), (("compute", 3.0), ("bubble", 1.0)), 4.0)
    >>> chart_of(bars).data[0]["x"]
    [1.0, 3.0]
    """
    if isinstance(section, Chart):
        return section
    if isinstance(section, Bars):
        return _of_bars(section)
    return _of_heat(section) if isinstance(section, Heat) else None


def _of_bars(bars: Bars) -> Chart:
    """One bar a part that is not nothing, the first one on top."""
    shares = bars.shares()[::-1]
    boxes = [
        hover(name, f"{bars.quantity.shown(size)}, {share:.0%}") for name, size, share in shares
    ]
    drawn = marks("bar", (size for _, size, _ in shares), range(len(shares)), boxes)
    look: Json = {"orientation": "h", "marker": {"color": ACCENT}}
    title = bars.quantity.unit or bars.quantity.title
    layout: Json = {
        "xaxis": {"title": {"text": chart_label(title)}, "rangemode": "tozero"},
        "yaxis": named_ticks([chart_label(name) for name, _, _ in shares]) | {"automargin": True},
        "showlegend": False,
    }
    height = FRAME_PX + BAR_PX * len(shares)
    return Chart(bars.name, bars.title, height, ({**drawn, **look},), layout)


def _of_heat(heat: Heat) -> Chart:
    """Rows from the top: who sends, to whom; shades go with the logarithm, as on the page.

    Examples
    --------
    >>> from netplan.reports.quantities import quantity
    >>> heat = Heat("heat", "Bytes", quantity("total_bytes"), ("a", "b"), ((8e9, 1e7), (0.0, 8e9)))
    >>> drawn = chart_of(heat).data[0]
    >>> drawn["z"][1], drawn["colorbar"]["ticktext"]
    ([None, 9.903089986991944], ['10 MB', '100 MB', '1 GB'])
    """
    amounts = [cell for line in heat.cells for cell in line if cell > 0] or [1.0]
    ends = log10(min(amounts)), log10(max(amounts))
    whole = range(ceil(ends[0]), floor(ends[1]) + 1)
    powers = [*whole] if len(whole) > 1 else [*dict.fromkeys(ends)]
    boxes = [
        [
            hover(f"{sender} to {receiver}", heat.quantity.shown(cell))
            for receiver, cell in zip(heat.labels, line, strict=True)
        ]
        for sender, line in zip(heat.labels, heat.cells, strict=True)
    ]
    drawn: Json = {
        "type": "heatmap",
        "z": [[log10(cell) if cell > 0 else None for cell in line] for line in heat.cells],
        "hoverinfo": "text",
        "hovertext": boxes,
        "colorscale": [[0, FAINTEST], [1, DARKEST]],
        "colorbar": {
            "title": {"text": chart_label(heat.quantity.title)},
            "tickvals": powers,
            "ticktext": [heat.quantity.shown(10.0**power) for power in powers],
        },
    }
    ticks = named_ticks([chart_label(name) for name in heat.labels]) | {"automargin": True}
    ticks["tickfont"] = {"size": 10}
    layout: Json = {
        "xaxis": {**ticks, "title": {"text": "receives"}},
        "yaxis": {**ticks, "title": {"text": "sends"}, "autorange": "reversed"},
        "showlegend": False,
        "plot_bgcolor": "white",
    }
    return Chart(heat.name, heat.title, HEAT_PX, (drawn,), layout)
