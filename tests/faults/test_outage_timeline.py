"""Each step of the outage simulation against a walk through the events, one by one."""

from collections import deque
from itertools import pairwise
from math import floor, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.arrays import Floats
from netplan.faults.years.checkpoints import CheckpointTimes
from netplan.faults.years.outages import REASONS, RepairQueue, _meet, _shelf_by_year

times = st.lists(st.floats(0.0, 100.0), max_size=30).map(sorted)


def walk_pool(asked: list[float], lead: list[float], spares: int) -> list[float]:
    """When each demand is met: a shelf, a queue, and the events in order."""
    events = [(time, 1, number) for number, time in enumerate(asked)]
    events += [(time + wait, 0, -1) for time, wait in zip(asked, lead, strict=True)]
    shelf, queue, met = spares, deque[int](), [inf] * len(asked)
    for time, is_demand, number in sorted(events):
        if is_demand and shelf:
            shelf -= 1
            met[number] = time
        elif is_demand:
            queue.append(number)
        elif queue:
            met[queue.popleft()] = time
        else:
            shelf += 1
    return met


@given(times, st.integers(0, 6), st.data())
def test_spares_are_first_come_first_served(
    asked: list[float], spares: int, data: st.DataObject
) -> None:
    size = len(asked)
    lead = data.draw(st.lists(st.floats(0.1, 50.0), min_size=size, max_size=size))
    met = _meet(np.array(asked), np.array(lead), spares)
    assert met.tolist() == pytest.approx(walk_pool(asked, lead, spares))


def walk_job(
    stops: list[float], ready: list[float], beyond: float, job: CheckpointTimes, edges: Floats
) -> Floats:
    """Hours by year and reason: pieces of time, one after the other."""
    pieces: list[tuple[float, float, str]] = []
    starts = [0.0, *stops]
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else beyond
        waits = min(max(ready[number - 1], start), end) if number else start
        works = min(waits + job.restart_h, end) if number else start
        pieces += [(start, waits, "waiting"), (waits, works, "restart")]
        at = works
        for _ in range(floor((end - works) / job.cycle_h)):
            pieces += [(at, at + job.interval_h, "useful")]
            pieces += [(at + job.interval_h, at + job.cycle_h, "checkpoint")]
            at += job.cycle_h
        pieces.append((at, end, "rework"))
    table = np.zeros((len(edges) - 1, len(REASONS)))
    for begin, end, reason in pieces:
        inside = np.minimum(end, edges[1:]) - np.maximum(begin, edges[:-1])
        table[:, REASONS.index(reason)] += np.maximum(inside, 0)
    return table


@given(
    times,
    st.builds(
        CheckpointTimes,
        st.floats(0.3, 20.0),
        st.sampled_from([0.0, 0.07, 1.3]),
        st.floats(0.0, 9.0),
    ),
    st.floats(0.1, 40.0),
    st.data(),
)
def test_hours_are_those_of_a_walk(
    stops: list[float], job: CheckpointTimes, beyond: float, data: st.DataObject
) -> None:
    edges = np.array([3.0, 20.0, 20.5, 60.0, 100.0])
    size = len(stops)
    waits = data.draw(st.lists(st.floats(0.0, 30.0), min_size=size, max_size=size))
    ready = np.maximum.accumulate(np.array(stops) + np.array(waits)) if stops else np.zeros(0)
    work = RepairQueue.between(np.array(stops, float), ready, 100 + beyond, job)
    found = np.diff(work.hours_until(edges), axis=0)
    assert np.diff(work.useful_until(edges)) == pytest.approx(found[:, 0])
    walked = walk_job(stops, ready.tolist(), 100 + beyond, job, edges)
    # A cycle that ends on a failure to the last bit may go either way; its length bounds it.
    assert found.sum(axis=1) == pytest.approx(np.diff(edges))
    assert found[:, 3:] == pytest.approx(walked[:, 3:], abs=1e-9)
    assert np.abs(found - walked).max() < 1e-6 or _on_a_boundary(stops, ready, job, beyond)


def _on_a_boundary(stops: list[float], ready: Floats, job: CheckpointTimes, beyond: float) -> bool:
    """Whether some gap holds a whole number of cycles, but for rounding."""
    ends = [*stops[1:], 100 + beyond]
    runs = [stops[0] if stops else 100 + beyond]
    runs += [end - max(r, s) - job.restart_h for s, r, end in zip(stops, ready, ends, strict=True)]
    return any(abs(run / job.cycle_h - round(run / job.cycle_h)) < 1e-9 for run in runs)


@given(times, st.integers(0, 3), st.floats(0.5, 20.0))
def test_lacking_hours_are_the_union_of_waits(asked: list[float], spares: int, lead: float) -> None:
    edges = np.array([0.0, 10.0, 10.5, 50.0, 100.0])
    met = walk_pool(asked, [lead] * len(asked), spares)
    demands, at_once, short = _shelf_by_year(np.array(asked), np.array(met), edges).T
    fine = np.linspace(0, 100, 20_001)[:-1] + 0.0025
    lacks = np.zeros(len(fine), bool)
    for begin, end in zip(asked, met, strict=True):
        lacks |= (fine >= begin) & (fine < end)
    brute = [lacks[(fine >= a) & (fine < b)].sum() * 0.005 for a, b in pairwise(edges)]
    assert short == pytest.approx(brute, abs=0.005 * (1 + 2 * len(asked)))
    assert demands.sum() == sum(time < 100 for time in asked)
    assert at_once.sum() <= demands.sum()
