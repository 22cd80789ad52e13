"""Simulated steps of post-training over time: a lane a pool, a bar a phase; and as a trace."""

from collections.abc import Sequence
from typing import Any

from netplan.performance.posttraining.step import Pool
from netplan.performance.posttraining.timeline import COLOURS, lane_axes, lanes_of
from netplan.reports.charts import Chart, Json, hover, marks
from netplan.simulation.charts import NS_PER_S, NS_PER_US, name_event
from netplan.simulation.posttraining_steps import Bar
from netplan.units import si

WAIT_COLOUR = "#e3e6ea"
OF_EVEN_STEPS = {"rollout": "#6d9bdd", "score": "#ab8cdb", "train": "#5fbf9b", "swap": "#9d9d9d"}
"""Colours of every other step, so that neighbours can be told apart."""
LEAST_BAR = 0.002
"""Share of the time shown that a bar has at least, so that it is seen [1]."""
STREAMED = (
    "Batches overlap on the servers: a bar is the work of one with all slots full, put before its"
    " last answer."
)


def words_of(bar: Bar, first: int) -> str:
    """A bar in words, with the number of its step.

    >>> words_of(Bar("wait", "trainer", 21, 0.0, 1.0, "answers"), 20)
    'waits for answers of step 2'
    """
    number = bar.step - first + 1
    if bar.waits_for:
        return f"waits for {bar.waits_for} of step {number}"
    return f"{bar.name} of step {number}"


def step_lanes(bars: Sequence[Bar], pools: Sequence[Pool], *, streams: bool = False) -> Chart:
    """Several steps, those of each pool in a lane.

    Parameters
    ----------
    bars
        What pools do, and wait for.
    pools
        Of the job; a bar of all pools stands in each lane.
    streams
        Whether batches overlap on the servers.

    Returns
    -------
    Chart
        Bars over time; short ones are as wide as can be seen.
    """
    first = min((bar.step for bar in bars), default=0)
    end_s = max((bar.starts_s + bar.seconds for bar in bars), default=0.0)
    data: list[Json] = []
    for name, colour in {"wait": WAIT_COLOUR, **COLOURS}.items():
        drawn = [
            (lane, bar) for bar in bars if bar.name == name for lane in lanes_of(bar.pool, pools)
        ]
        if not drawn:
            continue
        boxes = [
            hover(
                f"{pools[lane].role}: {words_of(bar, first)}",
                f"{si(bar.starts_s, 's', 4)} to {si(bar.starts_s + bar.seconds, 's', 4)}:"
                f" {si(bar.seconds, 's', 4)}",
            )
            for lane, bar in drawn
        ]
        data.append(
            marks(
                "bar",
                [max(bar.seconds, LEAST_BAR * end_s) for _, bar in drawn],
                [lane for lane, _ in drawn],
                boxes,
                base=[bar.starts_s for _, bar in drawn],
                width=[0.6] * len(drawn),
                orientation="h",
                name={"wait": "waits"}.get(name, name),
                marker={
                    "color": [
                        OF_EVEN_STEPS.get(name, colour) if (bar.step - first) % 2 else colour
                        for _, bar in drawn
                    ]
                },
            )
        )
    steps = len({bar.step for bar in bars})
    captions = (
        f"{steps} steps of one run, behind those that warm up.",
        "Where a lane is empty or grey, its GPUs wait; a bar has a width that can be seen.",
        *(STREAMED,) * streams,
    )
    layout, height = lane_axes(pools, "time, s", end_s)
    return Chart("timeline", "Steps over time", height, tuple(data), layout, captions)


def step_trace(bars: Sequence[Bar], pools: Sequence[Pool], title: str) -> dict[str, Any]:
    """The same in the Trace Event Format: a pool is a thread, a bar a complete event.

    Examples
    --------
    >>> pools = (Pool("rollout", 8, "h100-80gb"),)
    >>> events = step_trace([Bar("rollout", "rollout", 0, 0.0, 2.5)], pools, "steps")
    >>> events["traceEvents"][-1]["name"], events["traceEvents"][-1]["dur"]
    ('rollout of step 1', 2500000.0)
    """
    first = min((bar.step for bar in bars), default=0)
    events: list[dict[str, Any]] = [name_event("process_name", 1, 0, title)]
    for lane, pool in enumerate(pools):
        name = f"{pool.role}, {pool.gpus:,} {pool.accelerator}"
        events.append(name_event("thread_name", 1, lane + 1, name))
        mine = [bar for bar in bars if lanes_of(bar.pool, [pool])]
        for bar in sorted(mine, key=lambda bar: (bar.starts_s, bar.seconds)):
            begin = round(NS_PER_S * bar.starts_s)
            end = round(NS_PER_S * (bar.starts_s + bar.seconds))
            event = {"name": words_of(bar, first), "cat": bar.name, "pid": 1, "tid": lane + 1}
            times = {"ts": begin / NS_PER_US, "dur": (end - begin) / NS_PER_US}
            step = {"step": bar.step - first + 1}
            events.append({**event, "ph": "X", **times, "args": step})
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"title": title, "steps": len({bar.step for bar in bars})},
    }
