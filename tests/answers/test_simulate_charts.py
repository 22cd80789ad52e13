"""Timelines and traces: every span is there once, in its row, for its time; waiting is told."""

from itertools import pairwise
from typing import Any

import pytest

from netplan.records import replace
from netplan.reports.charts import Chart
from netplan.simulation import charts as simulate_charts
from netplan.simulation.charts import gantt, trace
from netplan.simulation.outcome import SimulationOutcome, StageOutcome
from netplan.simulation.run import simulate_pipelines
from netplan.simulation.schedule import FINISH, SEND_FORWARD
from netplan.simulation.tasks import Burst, Message, Pass, Pipeline, delay

SLOW = (Burst((Message((0,), 5.0),)),)


def outcome(microbatches: int = 3, *, full: bool = False) -> SimulationOutcome:
    """Three stages of 1 s forward and 2 s backward with slow transfers over one link."""
    stages = 3
    pipeline = Pipeline(
        stages,
        microbatches,
        (Pass(delay(1.0)),) * stages,
        (Pass(delay(2.0)),) * stages,
        (SLOW,) * 2,
        (SLOW,) * 2,
        finish=(delay(0.5),) * stages,
        finish_together=True,
    )
    found = simulate_pipelines([pipeline], links=1, full=full, spans=True)
    whole_s = found.iteration_time_s
    return SimulationOutcome(
        iteration_time_s=whole_s,
        analytic_time_s=None,
        lower_bound_s=1.0,
        binding="busiest stage",
        sequences_per_s=1.0,
        waiting_s=0.0,
        microbatches=microbatches,
        microbatches_simulated=found.pipelines[0].simulated,
        period=found.period,
        replicas=1,
        replicas_simulated=1,
        bookings=found.tally.bookings,
        seconds=0.0,
        stages=tuple(StageOutcome(at, 1.0, 0.0, 0.0, 1.0) for at in range(stages)),
        spans=found.spans,
    )


def bars_of(chart: Chart) -> dict[str, dict[str, Any]]:
    return {str(one["name"]): dict(one) for one in chart.data}


def bars(found: SimulationOutcome) -> dict[str, dict[str, Any]]:
    return bars_of(gantt(found))


def test_every_pass_is_a_bar_in_the_row_of_its_stage() -> None:
    found = outcome()
    drawn = bars(found)
    assert set(drawn) == {
        "forward", "backward", "gradients, optimizer", "transfer", "waiting for links",
    }  # fmt: skip
    assert sorted(drawn["forward"]["y"]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert set(drawn["forward"]["x"]) == {1.0}
    assert set(drawn["backward"]["x"]) == {2.0}
    ends = [b + x for b, x in zip(drawn["gradients, optimizer"]["base"],
                                  drawn["gradients, optimizer"]["x"], strict=True)]  # fmt: skip
    assert max(ends) == found.iteration_time_s


def test_bars_of_transfers_and_waiting_add_up_to_the_spans() -> None:
    found = outcome()
    drawn = bars(found)
    sent = [one for one in found.spans if one.kind >= SEND_FORWARD]
    waited = sum(one.waited_s for one in sent)
    assert waited > 0
    assert sum(drawn["waiting for links"]["x"]) == pytest.approx(waited)
    # Alone each of the twelve transfers takes 5 s.
    assert drawn["transfer"]["x"] == [5.0] * 12
    assert any("waiting for links" in box for box in drawn["transfer"]["hovertext"])


def test_a_long_run_draws_its_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate_charts, "MAX_BARS", 40)
    chart = gantt(outcome(30, full=True))
    assert sum(len(one["x"]) for one in bars_of(chart).values()) <= 40
    assert chart.said == (
        "Transfers are not drawn.",
        "Of 183 passes the first and the last 20 are drawn.",
    )


def test_microbatches_that_were_counted_are_told() -> None:
    found = outcome(400)
    simulated = found.microbatches_simulated
    assert simulated < 40
    (said,) = gantt(found).said
    assert f"the {simulated:,} microbatches that were simulated" in said
    assert f"the other {400 - simulated:,}" in said
    assert trace(found, "run")["otherData"]["note"] == said


def test_a_trace_has_complete_events_in_microseconds() -> None:
    found = outcome()
    events = trace(found, "run")["traceEvents"]
    passes = [one for one in events if one["ph"] == "X"]
    assert len(passes) == 3 * 3 * 2 + 3
    # Viewers take 0 for the idle process and thread.
    assert {(one["pid"], one["tid"]) for one in passes} == {(1, 1), (1, 2), (1, 3)}
    assert sum(one["dur"] for one in passes) == pytest.approx(1e6 * (9 * 1.0 + 9 * 2.0 + 3 * 0.5))


def test_passes_of_a_trace_do_not_overlap_in_whole_nanoseconds() -> None:
    """Perfetto reads whole nanoseconds, and drops what overlaps on a thread."""
    found = outcome(30, full=True)
    third = [
        replace(one, start_s=one.start_s / 3, end_s=one.end_s / 3, waited_s=one.waited_s / 3)
        for one in found.spans
    ]
    events = trace(replace(found, spans=tuple(third)), "run")["traceEvents"]
    for stage in range(1, 4):
        mine = [one for one in events if (one["ph"], one["tid"]) == ("X", stage)]
        read = sorted((round(1e3 * one["ts"]), round(1e3 * one["dur"])) for one in mine)
        assert len(read) == 61
        assert all(begin + took <= after for (begin, took), (after, _) in pairwise(read))


def test_transfers_of_a_trace_begin_and_end() -> None:
    events = trace(outcome(), "run")["traceEvents"]
    begun = {one["id"]: one for one in events if one["ph"] == "b"}
    ended = {one["id"]: one for one in events if one["ph"] == "e"}
    assert len(begun) == 12
    assert set(begun) == set(ended)
    for number, one in begun.items():
        took_us = ended[number]["ts"] - one["ts"]
        assert took_us == pytest.approx(5e6 + one["args"]["waited_us"])
    # The name of asynchronous events is that of their row.
    assert {one["name"] for one in begun.values()} == {
        "stage 0: transfer to the next stage", "stage 1: transfer to the next stage",
        "stage 1: transfer back", "stage 2: transfer back",
    }  # fmt: skip
    named = [one["args"]["name"] for one in events if one["name"] == "thread_name"]
    assert named == ["stage 0", "stage 1", "stage 2"]


def test_the_end_of_an_iteration_has_no_microbatch() -> None:
    finish = [one for one in outcome().spans if one.kind == FINISH]
    assert [simulate_charts.what(one, 3) for one in finish] == ["gradients, optimizer"] * 3
