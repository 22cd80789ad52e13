"""A simulated iteration over time: a Gantt chart of its stages, and a trace for other viewers.

Both show what was simulated. Where a run repeats itself the microbatches that were counted instead
are left out of the middle, and both say so.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netplan.reports.charts import Chart, Json, hover, marks, named_ticks
from netplan.reports.escape import chart_label
from netplan.simulation import schedule
from netplan.simulation.outcome import SimulationOutcome
from netplan.units import si

PASSES = {
    schedule.BEGIN: "weights gathered",
    schedule.FORWARD: "forward",
    schedule.BACKWARD: "backward",
    schedule.FINISH: "gradients, optimizer",
}
SENT = {
    schedule.SEND_FORWARD: "transfer to the next stage",
    schedule.SEND_BACKWARD: "transfer back",
}
TRANSFER, WAITING = "transfer", "waiting for links"
COLOURS = {
    PASSES[schedule.BEGIN]: ("#c2a02f", "#c2a02f"),
    PASSES[schedule.FORWARD]: ("#3b74c9", "#6d9bdd"),
    PASSES[schedule.BACKWARD]: ("#2e9e74", "#5fbf9b"),
    PASSES[schedule.FINISH]: ("#b0569c", "#b0569c"),
    TRANSFER: ("#8a94a3", "#8a94a3"),
    WAITING: ("#d9782d", "#d9782d"),
}
"""Of microbatches of even and of odd numbers, so that neighbours can be told apart."""
MAX_BARS = 10_000
"""Bars that a browser draws without delay [1]."""

ROW_PX, LEAST_PX, MOST_PX, MARGIN_PX = 26, 280, 760, 110
PASS_HEIGHT, SENT_HEIGHT, SENT_BELOW = 0.62, 0.14, 0.41
MOST_TICKS = 16
NS_PER_S, NS_PER_US, US_PER_S = 1e9, 1e3, 1e6


def what(span: schedule.BusyInterval, stages: int) -> str:
    """A span in words.

    Examples
    --------
    >>> what(schedule.BusyInterval(0, 1, 5, 2, schedule.FORWARD, 0.0, 1.0, 0.0), stages=4)
    'forward, microbatch 2, chunk 1'
    """
    name = SENT.get(span.kind) or PASSES[span.kind]
    if span.kind in (schedule.BEGIN, schedule.FINISH):
        return name
    chunk = f", chunk {span.virtual // stages}" if span.virtual >= stages else ""
    return f"{name}, microbatch {span.microbatch}{chunk}"


def gantt(outcome: SimulationOutcome, names: Sequence[str] = ()) -> Chart:
    """Stages by time: passes and transfers as bars, and of each the part that waits for links.

    Parameters
    ----------
    outcome
        The simulated iteration, with its spans.
    names
        Names of the pipelines, where there are several.
    """
    spans, captions = _drawn(outcome)
    rows = sorted({(span.pipeline, span.stage) for span in outcome.spans})
    row_of = {row: index for index, row in enumerate(rows)}
    labels = [
        chart_label(f"{names[pipeline]} {stage}" if len(names) > 1 else f"stage {stage}", 18)
        for pipeline, stage in rows
    ]
    bars: dict[str, list[tuple[schedule.BusyInterval, float, float, float]]] = {}
    for span in spans:
        alone = span.end_s - span.waited_s
        row = row_of[span.pipeline, span.stage]
        sent = span.kind in SENT
        name = TRANSFER if sent else PASSES[span.kind]
        place = row + SENT_BELOW if sent else row
        bars.setdefault(name, []).append((span, place, span.start_s, alone - span.start_s))
        if span.waited_s:
            bars.setdefault(WAITING, []).append((span, place, alone, span.waited_s))
    last = dict(rows)  # the last stage of each pipeline
    data = [_series(name, bars[name], last) for name in COLOURS if name in bars]
    step = -(-len(rows) // MOST_TICKS)
    ticks = {**named_ticks(labels[::step]), "tickvals": list(range(0, len(rows), step))}
    layout: Json = {
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": {"title": {"text": "time, s"}, "showgrid": True, "rangemode": "tozero"},
        "yaxis": {**ticks, "range": [len(rows) - 0.4, -0.6]},
        "showlegend": True,
    }
    height = min(MOST_PX, max(LEAST_PX, ROW_PX * len(rows) + MARGIN_PX))
    return Chart("timeline", "Stages by time", height, tuple(data), layout, captions)


def _series(
    name: str,
    bars: Sequence[tuple[schedule.BusyInterval, float, float, float]],
    last: Mapping[int, int],
) -> Json:
    """Bars of one kind, each from its begin on for its time."""
    boxes = [
        hover(
            f"stage {span.stage}: {what(span, last[span.pipeline] + 1)}",
            f"{si(span.start_s, 's', 5)} to {si(span.end_s, 's', 5)}:"
            f" {si(span.end_s - span.start_s, 's', 4)}",
            *([f"of these {si(span.waited_s, 's', 3)} waiting for links"] if span.waited_s else []),
        )
        for span, _, _, _ in bars
    ]
    heights = [SENT_HEIGHT if span.kind in SENT else PASS_HEIGHT for span, _, _, _ in bars]
    return marks(
        "bar",
        [long for _, _, _, long in bars],
        [place for _, place, _, _ in bars],
        boxes,
        base=[begin for _, _, begin, _ in bars],
        width=heights,
        orientation="h",
        name=name,
        marker={"color": [COLOURS[name][span.microbatch % 2] for span, *_ in bars]},
    )


def _drawn(outcome: SimulationOutcome) -> tuple[list[schedule.BusyInterval], tuple[str, ...]]:
    """Spans that the chart has room for, the first and the last ones, and what it leaves out."""
    captions = list(counted_words(outcome))
    spans = [span for span in outcome.spans if span.end_s > span.start_s]
    if len(spans) > MAX_BARS:
        spans = [span for span in spans if span.kind not in SENT]
        captions.append("Transfers are not drawn.")
    if len(spans) > MAX_BARS:
        in_order = sorted(spans, key=lambda span: span.start_s)
        half = MAX_BARS // 2
        spans = [*in_order[:half], *in_order[-half:]]
        captions.append(f"Of {len(in_order):,} passes the first and the last {half:,} are drawn.")
    return spans, tuple(captions)


def counted_words(outcome: SimulationOutcome) -> Iterator[str]:
    """What was counted instead of simulated, in words."""
    counted = outcome.microbatches - outcome.microbatches_simulated
    if counted and outcome.spans:
        end_s = max(span.end_s for span in outcome.spans)
        yield (
            f"Shown are the {outcome.microbatches_simulated:,} microbatches that were simulated,"
            f" {si(end_s, 's', 4)}; the other {counted:,} repeat what is in the middle, for"
            f" {si(outcome.iteration_time_s - end_s, 's', 4)} more."
        )


def trace(run: SimulationOutcome, title: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """The iteration in the Trace Event Format, which Perfetto and chrome://tracing open.

    A pipeline is a process, a stage a thread; both count from 1, since 0 is the idle one there.
    Passes are complete events; transfers, several of which may be under way at once, are pairs of
    asynchronous ones, whose name is that of their row. Times are whole nanoseconds, in
    microseconds: viewers drop passes of a thread that overlap by rounding.

    Examples
    --------
    >>> from netplan.questions.simulate import simulate
    >>> found = simulate("rail-only-paper", gpus=64, model="gpt-22b", batch=64, hb_size=8,
    ...     fixed={"pipeline": 4}).found
    >>> events = trace(found, "GPT-22B")["traceEvents"]
    >>> sorted({one["ph"] for one in events}), events[-1]["cat"]
    (['M', 'X', 'b', 'e'], 'gradients, optimizer')
    """
    events: list[dict[str, Any]] = []
    rows = sorted({(span.pipeline, span.stage) for span in run.spans})
    for pipeline, stage in rows:
        name = names[pipeline] if names else "pipeline"
        if not stage:
            events.append(name_event("process_name", 1 + pipeline, 1, name))
        events.append(name_event("thread_name", 1 + pipeline, 1 + stage, f"stage {stage}"))
    stages = {pipeline: 1 + last for pipeline, last in rows}
    for number, span in enumerate(sorted(run.spans, key=lambda span: (span.start_s, span.end_s))):
        begin_ns, end_ns = round(NS_PER_S * span.start_s), round(NS_PER_S * span.end_s)
        sent = SENT.get(span.kind)
        event: dict[str, Any] = {
            "name": f"stage {span.stage}: {sent}" if sent else what(span, stages[span.pipeline]),
            "cat": "transfer" if sent else PASSES[span.kind],
            "pid": 1 + span.pipeline,
            "tid": 1 + span.stage,
            "ts": begin_ns / NS_PER_US,
        }
        args = {"microbatch": span.microbatch, "waited_us": US_PER_S * span.waited_s}
        if sent:
            end = {**event, "ph": "e", "id": number, "ts": end_ns / NS_PER_US}
            events += [{**event, "ph": "b", "id": number, "args": args}, end]
        else:
            length = (end_ns - begin_ns) / NS_PER_US
            events.append({**event, "ph": "X", "dur": length, "args": args})
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "title": title,
            "microbatches": run.microbatches,
            "microbatches_simulated": run.microbatches_simulated,
            "note": " ".join(counted_words(run)),
        },
    }


def name_event(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    """An event that names a process or a thread."""
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
