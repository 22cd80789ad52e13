"""Charts of an answer about failures: stops by the network, slowdowns by one failure."""

from collections.abc import Sequence
from itertools import cycle
from math import exp

from netplan.faults.damage.impact import Impact, Single
from netplan.faults.damage.survival import Attrition
from netplan.reports.charts import Chart, Json, hover, marks, named_ticks
from netplan.reports.escape import chart_label
from netplan.reports.plots import DASHES, SIGNS
from netplan.units import HOURS_PER_YEAR

COLOURS = ("#3b74c9", "#d9782d", "#2e9e74", "#8a94a3", "#b0569c", "#c2a02f")
CURVE_POINTS = 61
SURVIVAL_PX, SLOWDOWN_PX = 360, 420
LEAST_PER_YEAR = 1e-9
"""Stops that a network without any is drawn with [1/year]."""


PLURAL = {"switch": "network switches", "link": "network links"}
"""Parts whose failures, one after another, the curves show."""


def survival(stops: Sequence[tuple[str, float]]) -> Chart:
    """Survival curves exp(-t / M), by fabric and its stops by the network [1/year].

    Examples
    --------
    >>> survival([("rail-only", 41.0), ("torus-3d", 0.0)]).key
    'survival'
    """
    between_h = [(name, HOURS_PER_YEAR / max(number, LEAST_PER_YEAR)) for name, number in stops]
    slowest = min(mean for _, mean in between_h)
    hours = [4 * slowest * step / (CURVE_POINTS - 1) for step in range(CURVE_POINTS)]
    data: list[Json] = []
    for (fabric, mean), colour, dash in zip(between_h, cycle(COLOURS), cycle(DASHES), strict=False):
        shares = [100 * exp(-hour / mean) for hour in hours]
        texts = (f"{hour:.3g} h: {share:.1f} %" for hour, share in zip(hours, shares, strict=True))
        boxes = (hover(fabric, text) for text in texts)
        line = {"color": colour, "width": 2, "dash": dash}
        name = chart_label(fabric)
        data.append(marks("scatter", hours, shares, boxes, name=name, mode="lines", line=line))
    layout: Json = {
        "xaxis": {"title": {"text": "hours"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "no stop by the network so far, %"}, "range": [0, 102]},
        "showlegend": True,
    }
    label = "Chance that the network has stopped no job so far, by fabric"
    return Chart("survival", label, SURVIVAL_PX, tuple(data), layout)


def capacity(found: Sequence[tuple[str, Attrition]], kind: str) -> Chart:
    """GPUs that keep their network as more parts of a kind fail, one line a fabric.

    Examples
    --------
    >>> one = Attrition("switch", 8, ((0, 1.0), (1, 0.875)))
    >>> capacity([("rail-only", one)], "switch").data[0]["y"]
    [100.0, 87.5]

    Fabrics with the same curve share a line, if they have as many parts.

    >>> other = Attrition("switch", 16, one.left)
    >>> drawn = capacity([("a", one), ("b", one), ("c", other)], "switch").data
    >>> [(line["name"], line["hovertext"][1]) for line in drawn]  # doctest: +ELLIPSIS
    [('a = b', '...1 of 8 network switches...'), ('c', '...1 of 16 network switches...')]
    """
    data: list[Json] = []
    lines: dict[Attrition, list[str]] = {}
    for fabric, one in found:
        lines.setdefault(one, []).append(fabric)
    for number, (one, names) in enumerate(lines.items()):
        name, of = " = ".join(names), f"{one.parts:,} {PLURAL[kind]}"
        counts, shares = [count for count, _ in one.left], [100 * share for _, share in one.left]
        boxes = [
            hover(name, f"{count:,} of {of} failed", f"{share:.4g} % of GPUs left")
            for count, share in zip(counts, shares, strict=True)
        ]
        facts: dict[str, object] = {
            "name": chart_label(name, 60),
            "mode": "lines+markers",
            "line": {
                "color": COLOURS[number % len(COLOURS)],
                "width": 2,
                "dash": DASHES[number % len(DASHES)],
            },
            "marker": {"symbol": SIGNS[number % len(SIGNS)], "size": 8},
        }
        data.append(marks("scatter", range(len(counts)), shares, boxes, **facts))
    steps = max((one.left for _, one in found), key=len)
    layout: Json = {
        "xaxis": named_ticks([f"{count:,}" for count, _ in steps])
        | {"title": {"text": f"{PLURAL[kind]} failed"}},
        "yaxis": {"title": {"text": "GPUs that keep their network, %"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    said = (
        "Drawn at random, one order a fabric. GPUs that others may forward for, and how fast a job"
        " goes on, are not counted."
    )
    label = f"Capacity left as {PLURAL[kind]} fail"
    return Chart(f"capacity-{kind}", label, SURVIVAL_PX, tuple(data), layout, (said,))


def slowdowns(singles: Sequence[tuple[str, Sequence[Single[Impact]]]]) -> Chart:
    """Slowdown while one part of each kind has failed, one bar a fabric."""
    kinds = list(dict.fromkeys(one.kind for _, alone in singles for one in alone))
    data: list[Json] = []
    for (fabric, alone), colour in zip(singles, cycle(COLOURS), strict=False):
        found = {one.kind: one.impact for one in alone}
        slow = (found[kind].slowdown if kind in found else None for kind in kinds)
        shares = (None if share is None else 100 * share for share in slow)
        boxes = (
            hover(fabric, kind, _words(found[kind])) if kind in found else "" for kind in kinds
        )
        name, marker = chart_label(fabric), {"color": colour}
        data.append(marks("bar", range(len(kinds)), shares, boxes, name=name, marker=marker))
    layout: Json = {
        "barmode": "group",
        "xaxis": named_ticks([chart_label(kind, 16) for kind in kinds]),
        "yaxis": {"title": {"text": "slower, %"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    label = "Slowdown by one failure of each kind"
    return Chart("failures", label, SLOWDOWN_PX, tuple(data), layout)


def _words(impact: Impact) -> str:
    """How slow the job is, and how it goes on."""
    if impact.slowdown is None:
        return "the job stops" if impact.way == "stopped" else "not timed"
    return f"{100 * impact.slowdown:.2f} % slower, {impact.way}"
