"""Bars and heat maps as charts, for notebooks: pages and terminals draw them without a script."""

from netplan.reports.charts import ACCENT, Chart, Json, hover, marks, named_ticks
from netplan.reports.escape import chart_label
from netplan.reports.sections import Bars, Heat, Section

BAR_PX, FRAME_PX, HEAT_PX = 34, 110, 520


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
    boxes = [hover(name, f"{bars.quantity.shown(one)}, {share:.0%}") for name, one, share in shares]
    drawn = marks("bar", (one for _, one, _ in shares), range(len(shares)), boxes)
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
    """Rows from the top: who sends, to whom."""
    boxes = [
        [
            hover(f"{sender} to {receiver}", heat.quantity.shown(cell))
            for receiver, cell in zip(heat.labels, line, strict=True)
        ]
        for sender, line in zip(heat.labels, heat.cells, strict=True)
    ]
    drawn: Json = {
        "type": "heatmap",
        "z": [list(line) for line in heat.cells],
        "hoverinfo": "text",
        "hovertext": boxes,
        "colorscale": "Blues",
        "colorbar": {"title": {"text": chart_label(heat.quantity.unit or heat.quantity.title)}},
    }
    ticks = named_ticks([chart_label(name, 12) for name in heat.labels])
    layout: Json = {
        "xaxis": {**ticks, "title": {"text": "receives"}},
        "yaxis": {**ticks, "title": {"text": "sends"}, "autorange": "reversed"},
        "showlegend": False,
    }
    return Chart(heat.name, heat.title, HEAT_PX, (drawn,), layout)
