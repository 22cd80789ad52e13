"""Streams of jobs over time: GPUs taken, and a Gantt chart of the largest jobs."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.reports.charts import Chart, Json, hover, marks, named_ticks
from netplan.reports.escape import chart_label
from netplan.reports.plots import COLOURS, DASHES
from netplan.simulation.job_outcomes import JobStream
from netplan.units import counted, si

MOST_BARS, MOST_LINES, MOST_STEPS = 40, 8, 600
"""Jobs of a Gantt chart; designs, and steps of each, of a chart of occupancy [1]."""

OCCUPANCY_PX, ROW_PX, MARGIN_PX = 380, 18, 120
SECONDS_AN_HOUR = 3600
ROUNDING = 1e-9
"""Share of a time below which a bar is rounding [1]."""

WAITS, RUNS, SLOWER = "waiting", "running, as alone", "longer than alone"
BAR_COLOURS = {WAITS: "#d9782d", RUNS: "#3b74c9", SLOWER: "#b0569c"}


class DesignLine(Struct, frozen=True, eq=False):
    """What a design has taken over time.

    Parameters
    ----------
    name
        Of the design.
    time_s, share
        From when on which share of the GPUs is taken, shape (steps,) [s, 1].
    """

    name: str
    time_s: Floats
    share: Floats


class JobBar(Struct, frozen=True):
    """A job in a Gantt chart: its name and GPUs [1], when it came, began and ended [s].

    ``alone_s`` is its time without sharing [s].
    """

    name: str
    gpus: int
    arrival_s: float
    start_s: float
    end_s: float
    alone_s: float


def job_bars(ran: JobStream) -> tuple[JobBar, ...]:
    """The jobs with the most GPU time, in the order of their arrivals."""
    trace = ran.trace
    time = trace.gpus * trace.duration_s
    largest = np.sort(np.argsort(-time, kind="stable")[:MOST_BARS])
    return tuple(
        JobBar(
            trace.ids[job],
            int(trace.gpus[job]),
            float(trace.arrival_s[job]),
            float(ran.start_s[job]),
            float(ran.end_s[job]),
            float(trace.duration_s[job]),
        )
        for job in largest.tolist()
    )


def occupancy_chart(lines: Sequence[DesignLine]) -> Chart:
    """GPUs taken over time, one line a design, of the first draw."""
    data: list[Json] = []
    for number, line in enumerate(lines[:MOST_LINES]):
        times, shares = _thinned(line.time_s, line.share)
        name = line.name
        boxes = [
            hover(name, f"{100 * share:.3g} % taken from {si(time_s, 's')} on")
            for time_s, share in zip(times, shares, strict=True)
        ]
        look = {
            "color": COLOURS[number % len(COLOURS)],
            "width": 1.5,
            "shape": "hv",
            "dash": DASHES[number // len(COLOURS) % len(DASHES)],
        }
        data.append(
            marks(
                "scatter",
                [time_s / SECONDS_AN_HOUR for time_s in times],
                [100 * share for share in shares],
                boxes,
                name=chart_label(name, 40),
                mode="lines",
                line=look,
            )
        )
    layout: Json = {
        "xaxis": {"title": {"text": "time, h"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "GPUs taken, %"}, "range": [0, 105]},
        "showlegend": True,
    }
    captions: tuple[str, ...] = (
        "Of the first draw; in thinned lines every step is the mean of what it stands for.",
    )
    if len(lines) > MOST_LINES:
        captions += (f"{MOST_LINES} of {len(lines)} designs are drawn.",)
    return Chart("occupancy", "GPUs taken over time", OCCUPANCY_PX, tuple(data), layout, captions)


def _thinned(time_s: Floats, share: Floats) -> tuple[list[float], list[float]]:
    """Steps of a line, of many the time means over as many equal stretches."""
    if len(time_s) <= MOST_STEPS:
        return time_s.tolist(), share.tolist()
    edges = np.linspace(time_s[0], time_s[-1], MOST_STEPS)
    area = np.concatenate([[0.0], np.cumsum(np.diff(time_s) * share[:-1])])
    taken = np.interp(edges, time_s, area)
    means = np.diff(taken) / np.diff(edges)
    return edges.tolist(), [*means.tolist(), 0.0]


def gantt_chart(jobs: Sequence[JobBar], name: str, count: int) -> Chart:
    """The largest jobs of the first draw: waiting, running as alone, longer than alone."""
    bars: dict[str, list[tuple[int, JobBar, float, float]]] = {}
    for number, job in enumerate(jobs):
        alone_s = min(job.alone_s, job.end_s - job.start_s)
        for kind, begin_s, length_s in (
            (WAITS, job.arrival_s, job.start_s - job.arrival_s),
            (RUNS, job.start_s, alone_s),
            (SLOWER, job.start_s + alone_s, job.end_s - job.start_s - alone_s),
        ):
            if length_s > ROUNDING * job.end_s:
                bars.setdefault(kind, []).append((number, job, begin_s, length_s))
    data = [
        marks(
            "bar",
            [length_s / SECONDS_AN_HOUR for _, _, _, length_s in bars[kind]],
            [number for number, _, _, _ in bars[kind]],
            [
                hover(f"job {job.name}, {job.gpus:,} GPUs", f"{kind}: {si(length_s, 's')}")
                for _, job, _, length_s in bars[kind]
            ],
            base=[begin_s / SECONDS_AN_HOUR for _, _, begin_s, _ in bars[kind]],
            width=[0.7] * len(bars[kind]),
            orientation="h",
            name=kind,
            marker={"color": BAR_COLOURS[kind]},
        )
        for kind in BAR_COLOURS
        if kind in bars
    ]
    labels = [f"{job.gpus:,}" for job in jobs]
    layout: Json = {
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": {"title": {"text": "time, h"}, "showgrid": True, "rangemode": "tozero"},
        "yaxis": {
            **named_ticks(labels),
            "range": [len(labels) - 0.4, -0.6],
            "title": {"text": "GPUs"},
        },
        "showlegend": True,
    }
    largest = f"The {counted(len(labels), 'job')} with the most GPU time of {count:,}, by arrival"
    captions = (f"{largest}; first draw.",)
    height = ROW_PX * len(labels) + MARGIN_PX
    return Chart("gantt", f"Jobs over time: {name}", height, tuple(data), layout, captions)
