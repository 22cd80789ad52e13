"""A step of post-training as a timeline: a lane a pool, a bar a phase."""

from collections.abc import Sequence

from netplan.performance.posttraining.step import Pool, Role, StepPhase
from netplan.reports.charts import Chart, Json, hover, marks, named_ticks
from netplan.units import si

COLOURS = {
    "rollout": "#3b74c9",
    "score": "#8a63c9",
    "swap": "#7d7d7d",
    "train": "#2f8f5b",
    "sync": "#d9782d",
    "other": "#a0a0a0",
}
"""Of the phases."""
LANE_PX, MARGIN_PX = 56, 110
IDLE = "idle"
LEAST_BAR = 0.004
"""Share of the step that a bar has at least, so that it is seen [1]."""


def timeline(phases: Sequence[StepPhase], pools: Sequence[Pool], step_s: float) -> Chart:
    """The phases of a step, those of each pool in a lane.

    Parameters
    ----------
    phases
        In the order in which they start.
    pools
        Of the job; a phase of all pools has a bar in each.
    step_s
        A whole step [s].

    Returns
    -------
    Chart
        Bars over time; short ones are as wide as can be seen.
    """
    data: list[Json] = []
    for name, colour in COLOURS.items():
        bars = [
            (lane, phase)
            for phase in phases
            if phase.name == name
            for lane in lanes_of(phase.pool, pools)
        ]
        if not bars:
            continue
        data.append(
            marks(
                "bar",
                [max(phase.s, LEAST_BAR * step_s) for _, phase in bars],
                [lane for lane, _ in bars],
                [
                    hover(
                        f"{name}, {pools[lane].gpus:,} GPUs",
                        f"{si(phase.s, 's')} from {si(phase.starts_s, 's')} on",
                    )
                    for lane, phase in bars
                ],
                base=[min(phase.starts_s, step_s * (1 - LEAST_BAR)) for _, phase in bars],
                width=[0.6] * len(bars),
                orientation="h",
                name=name,
                marker={"color": colour},
            )
        )
    starts = [phase.starts_s for phase in phases]
    apart = len(pools) > 1 and len(starts) > len({*starts})
    captions = (
        "Both pools work at once: rollouts are those of a later step than what is trained."
        if apart
        else "Phases take turns.",
        "Where a lane is empty, its GPUs wait for the other pool, or for newer weights.",
        "A bar has a width that can be seen.",
    )
    layout, height = lane_axes(pools, "time in a step, s", step_s)
    return Chart("step_timeline", "One step over time", height, tuple(data), layout, captions)


def lanes_of(role: Role, pools: Sequence[Pool]) -> list[int]:
    """Lanes that a bar of a pool stands in: one of all pools in each."""
    return [
        lane for lane, pool in enumerate(pools) if role in (pool.role, "all") or pool.role == "all"
    ]


def lane_axes(pools: Sequence[Pool], time: str, end_s: float) -> tuple[Json, int]:
    """Axes of a lane a pool over time from 0 to the end [s], and the height of it all [px]."""
    labels = [f"{pool.role}, {pool.gpus:,} GPUs" for pool in pools]
    layout: Json = {
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": {"title": {"text": time}, "showgrid": True, "range": [0, 1.01 * end_s]},
        "yaxis": {**named_ticks(labels), "range": [len(labels) - 0.4, -0.6]},
        "showlegend": True,
    }
    return layout, LANE_PX * len(labels) + MARGIN_PX
