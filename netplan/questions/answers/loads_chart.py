"""How evenly the links of each group are loaded, as a chart."""

from collections.abc import Iterator

import numpy as np

from netplan.reports.charts import CHART_PX, Chart, Json, hover, marks
from netplan.reports.escape import chart_label
from netplan.reports.plots import COLOURS, DASHES
from netplan.traffic.loads import LinkLoads
from netplan.units import si

RANKS = 129
"""Links of a group that the drawing has room for, at even shares of it."""


def loads_chart(loads: LinkLoads) -> Chart:
    """Busy time of the links of each group, from the busiest to the idlest.

    Level lines are groups whose links share the traffic evenly; steep ones have hot links.
    """
    layout: Json = {
        "xaxis": {"title": {"text": "share of the group's link directions, %"}, "range": [0, 100]},
        "yaxis": {"title": {"text": "busy, % of the busiest link"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    label = "Links of each group, from the busiest to the idlest"
    return Chart("link-loads", label, CHART_PX, tuple(_lines(loads)), layout)


def _lines(loads: LinkLoads) -> Iterator[Json]:
    """One line a group: its links at even ranks, the busiest and the idlest among them."""
    graph, whole = loads.graph, loads.busiest_s or 1.0
    for code, group in enumerate(graph.group_names):
        times = np.sort(loads.link_s[:, graph.group == code].ravel())[::-1]
        if not times.size:
            continue
        ranks = np.unique(np.linspace(0, times.size - 1, min(RANKS, times.size)).astype(int))
        shares = 100.0 * ranks / max(times.size - 1, 1)
        chosen = times[ranks]
        boxes = (
            hover(group, f"link {rank + 1:,} of {times.size:,}", si(float(time), "s"))
            for rank, time in zip(ranks.tolist(), chosen.tolist(), strict=True)
        )
        line = {
            "color": COLOURS[code % len(COLOURS)],
            "dash": DASHES[code % len(DASHES)],
            "width": 2.5,
        }
        heights = (100.0 * chosen / whole).tolist()
        name = chart_label(group)
        yield marks("scatter", shares.tolist(), heights, boxes, name=name, mode="lines", line=line)
