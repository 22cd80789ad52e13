"""What is down and how the job goes on: against an event loop, closed forms, and what must hold."""

from collections.abc import Callable
from itertools import pairwise
from math import exp, inf
from random import Random
from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from netplan.faults.years.availability import domains_under_repair, expected_throughput
from netplan.faults.years.checkpoints import CheckpointTimes, best_interval_h, exact_time_ratio
from netplan.faults.years.outages import (
    Cause,
    Effect,
    EffectArrays,
    Exposure,
    Mean,
    Outages,
    ThroughputTable,
    simulate_outages,
    spells,
)
from netplan.faults.years.reliability import compound_poisson, idle_domains_needed, mtbf_h
from netplan.records import replace
from tests.faults.event_loop import Job, Totals, Walk
from tests.turns import one_in

JOB = CheckpointTimes(2.0, 0.05, 0.3)
GPU = Cause("GPU", 0.5, 200, repair_h=12.0)
SERVER = Cause("server", 0.3, 100, repair_h=20.0, effect=Effect(1, whole=True))
RACK = Cause("rack", 0.2, 20, repair_h=30.0, effect=Effect(4, whole=True))
PORT = Cause("port", 1.0, 50, repair_h=15.0, effect=Effect(1, all_gpus=True, slowdown=0.1))
TRUNK = Cause("trunk", 2.0, 60, interrupts=0.0, repair_h=25.0, effect=Effect(slowdown=0.25))
CAUSES = (GPU, SERVER, RACK, PORT, TRUNK)
FACTORS = {0: 1.0, 1: 1.1, 2: 1.2, 3: 1.5, 4: 1.6, 5: 2.0}
WHOLE = {0: 1.0, 1: 1.3, 2: 1.4, 3: 1.6, 4: 1.9, 5: 2.0}


def run(
    pace: ThroughputTable, causes: tuple[Cause, ...] = CAUSES, years: int = 2000, **more: int
) -> Outages:
    rng = np.random.default_rng(more.pop("seed", 1))
    return simulate_outages(Exposure(causes, more, pace), JOB, years=years, rng=rng)


def table(idle: int, *, wait: bool = False) -> ThroughputTable:
    """The pace of ``FACTORS`` and ``WHOLE``."""
    factor = np.array([[*FACTORS.values()], [*WHOLE.values()]])
    return ThroughputTable(idle, wait, np.array([*FACTORS]), factor)


def speed_of(idle: int, *, wait: bool) -> Callable[[list[Cause]], float]:
    """Speed of the job, written from the description: idle domains, then the table, then the worst.

    Domains that are lost whole move first. Ports need no idle domain, but move where all that is
    down finds one.
    """

    def speed(down: list[Cause]) -> float:
        taken = [one.effect for one in down if one.effect.domains and not one.effect.all_gpus]
        hit = [one.effect for one in down if one.effect.domains and one.effect.all_gpus]
        lost = sum(one.domains for one in taken)
        whole = sum(one.domains for one in taken if one.whole)
        all_move = lost + sum(one.domains for one in hit) <= idle
        slowest = [one.effect.slowdown for one in down if not one.effect.domains]
        if not all_move:
            if wait:
                return 0.0
            slowest += [one.slowdown for one in hit]
        missing = max(lost - idle, 0)
        factors = WHOLE if whole > idle else FACTORS
        if missing not in factors:
            return 0.0
        return 1 / factors[missing] / (1 + max(slowest, default=0.0))

    return speed


def walked(
    causes: tuple[Cause, ...], speed: Callable[[list[Cause]], float], **spares: int
) -> list[Totals]:
    """Ten runs of 15 years each."""
    return [
        Walk(causes, speed, Job(*astuple(JOB)), {**spares}, rng).years(15)
        for rng in map(Random, range(10))
    ]


def agrees(found: Mean, walks: list[float]) -> bool:
    """Within four standard errors of both."""
    error = 2 * found.half_width + 4 * stdev(walks) / len(walks) ** 0.5
    return bool(abs(found.value - mean(walks)) <= error)


# --- the event loop ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("idle", "wait"), one_in(2, ((0, False), (0, True), (3, True), (3, False)))
)
def test_years_are_those_of_an_event_loop(idle: int, *, wait: bool) -> None:
    found = run(table(idle, wait=wait))
    totals = walked(CAUSES, speed_of(idle, wait=wait))
    assert agrees(found.effective_time_ratio, [one.useful for one in totals])
    assert agrees(found.goodput, [one.goodput for one in totals])
    assert agrees(found.interruptions_a_year, [one.stops for one in totals])
    waits = Mean.of(found.time_h[:, 4] / 8760)
    assert agrees(waits, [one.waiting for one in totals])


@pytest.mark.parametrize("wait", [False, True])
def test_repairs_begin_when_a_part_is_there(*, wait: bool) -> None:
    # 50 failures a year, 100 h until a part is back, one on the shelf: many repairs begin late.
    gpu = Cause("GPU", 0.5, 100, repair_h=10.0, lead_h=100.0, pool="gpus")
    found = run(table(1, wait=wait), (gpu, TRUNK), gpus=1)
    totals = walked((gpu, TRUNK), speed_of(1, wait=wait), gpus=1)
    assert agrees(found.goodput, [one.goodput for one in totals])
    assert agrees(Mean.of(found.time_h[:, 4] / 8760), [one.waiting for one in totals])


@given(st.data())
def test_paces_are_those_of_a_sweep(data: st.DataObject) -> None:
    """Every spell of every small case against the failures that are under repair then."""
    count = data.draw(st.integers(1, 12))
    moments = st.lists(st.integers(1, 40), min_size=count, max_size=count)
    begin = np.sort(np.array(data.draw(moments), float))
    end = begin + np.array(data.draw(moments), float) + 0.5
    kind = np.array(data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)))
    idle, wait = data.draw(st.integers(0, 4)), data.draw(st.booleans())
    effects = EffectArrays.of([cause.effect for cause in CAUSES])
    found = spells(begin, end, kind, effects, table(idle, wait=wait))
    speed = speed_of(idle, wait=wait)
    for moment in np.arange(0.25, 90, 0.5):
        under = (begin <= moment) & (moment < end)
        expected = speed([CAUSES[one] for one in kind[under]])
        at = np.searchsorted(found.begin_h, moment, side="right") - 1
        assert 1 / found.factor[at] == pytest.approx(expected)


# --- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("idle", [0, 1, 2, 5])
def test_waiting_is_exact(idle: int) -> None:
    causes = (GPU, SERVER, RACK, PORT)
    found = run(ThroughputTable(idle, wait=True), causes, years=4000)
    waits, pace = expected_throughput(causes, ThroughputTable(idle, wait=True))
    stops = sum(cause.interruptions_per_year for cause in causes)
    exact = exact_time_ratio(JOB, mtbf_h(stops))
    assert abs(found.effective_time_ratio.value - exact * (1 - waits)) <= (
        2 * found.effective_time_ratio.half_width
    )
    assert pace == pytest.approx(1 - waits)
    down = compound_poisson(domains_under_repair(causes, wait=True))
    assert 1 - waits == pytest.approx(down[: idle + 1].sum())


@pytest.mark.parametrize(
    ("gpus", "effective", "counts"),
    [(256, 0.9714, 0.986), (4096, 0.7355, 0.937), (32_768, 0.1117, 0.775)],
)
def test_a_job_that_waits_for_each_repair(gpus: int, effective: float, counts: float) -> None:
    # A year of base rates and hours of 2026 as they stood when this was worked out by hand: GPUs
    # 0.073 + 0.0375 a year and 4 h, HB gear 0.0031, NICs 0.0029, servers 0.0462 / 8, each 4 h;
    # links 0.00684 and maintenance 0.1056 / 8, each 1 h; leaves of 32 GPUs 0.00612 / 32 and 4 h;
    # racks of 16 at 0.02 and 3.5 h; feeds of 512 at 0.28 and 6 h; software 0.026 and no repair.
    feeds = -(-gpus // 512)
    rows = [
        ("GPU", 0.073 + 0.0375 + 0.0031 + 0.0029 + 0.0462 / 8, gpus, 4.0),
        ("link", 0.00684 + 0.1056 / 8, gpus, 1.0),
        ("leaf", 0.00612 / 32, gpus, 4.0),
        ("rack", 0.02, gpus // 16, 3.5),
        ("feed", 0.28, feeds, 6.0),
        ("software", 0.026, gpus, 0.0),
    ]
    causes = tuple(Cause(name, rate, count, repair_h=hours) for name, rate, count, hours in rows)
    stops = sum(rate * count for _, rate, count, _ in rows)
    under = sum(rate * count * hours for _, rate, count, hours in rows) / 8760
    between = 8760 / stops
    job = CheckpointTimes(best_interval_h(1 / 60, between), 1 / 60, 10 / 60)
    assert exact_time_ratio(job, between) == pytest.approx(counts, abs=6e-4)
    assert exact_time_ratio(job, between) * exp(-under) == pytest.approx(effective, abs=2e-4)
    found = simulate_outages(
        Exposure(causes), job, years=400, rng=np.random.default_rng(5)
    ).effective_time_ratio
    assert abs(found.value - exact_time_ratio(job, between) * exp(-under)) <= 2 * found.half_width
    assert idle_domains_needed({1: under}, 0.99) == {256: 1, 4096: 2, 32_768: 6}[gpus]


def test_slowdowns_cost_what_the_first_order_says() -> None:
    # Rare failures: goodput lost is the sum of rate x repair x (1 - 1 / (1 + slowdown)).
    causes = tuple(replace(cause, count=1) for cause in CAUSES)
    lost = [
        cause.failures_per_year * cause.repair_h / 8760 * (1 - 1 / (1 + slower))
        for cause, slower in zip(causes, (0.1, 0.3, 0.9, 0.1, 0.25), strict=True)
    ]
    found = run(table(0), causes, years=60_000)
    ratio = found.goodput.value / found.effective_time_ratio.value
    error = 4 * np.std(found.slowed_h) / 60_000**0.5 / 8760
    assert 1 - ratio == pytest.approx(sum(lost), abs=error + 2e-5)
    assert 1 - expected_throughput(causes, table(0))[1] == pytest.approx(sum(lost), rel=0.01)


def test_goodput_in_closed_form() -> None:
    """To first order: within a percent of the simulated one, with a fifth of the time slowed."""
    for idle in (0, 1, 3):
        found = run(table(idle))
        waits, pace = expected_throughput(CAUSES, table(idle))
        stops = sum(cause.interruptions_per_year for cause in CAUSES)
        exact = exact_time_ratio(JOB, mtbf_h(stops))
        assert found.goodput.value == pytest.approx(exact * pace, rel=0.01)
        assert found.effective_time_ratio.value == pytest.approx(exact * (1 - waits), rel=0.005)


def test_a_compound_poisson_is_a_convolution() -> None:
    means = {1: 0.7, 3: 0.2, 10: 0.05}
    expected = np.ones(1)
    for size, under in means.items():
        term, spread = exp(-under), np.zeros(200)
        for failures in range(19):
            spread[failures * size] = term
            term *= under / (failures + 1)
        expected = np.convolve(expected, spread)
    found = compound_poisson(means)
    assert found == pytest.approx(expected[: len(found)], abs=1e-12)
    assert compound_poisson({}).tolist()[0] == 1
    assert compound_poisson({1: 2000.0}).sum() == pytest.approx(1)
    for level in (0.5, 0.9, 0.99, 0.999):
        needed = idle_domains_needed(means, level)
        assert expected[: needed + 1].sum() >= level > expected[:needed].sum()


# --- what must hold ----------------------------------------------------------------------------


def test_more_idle_domains_are_never_worse() -> None:
    for wait in (False, True):
        found = [run(table(idle, wait=wait), years=100) for idle in range(12)]
        for few, many in pairwise(found):
            assert (many.interruptions == few.interruptions).all()
            # A year may end within a cycle, which a shift of the restart moves into the next one.
            useful = [one.time_h[:, 0] - one.slowed_h for one in (few, many)]
            assert (useful[1] >= useful[0] - JOB.cycle_h).all()
            assert many.goodput.value >= few.goodput.value - JOB.cycle_h / 8760 / 100


@settings(max_examples=25, deadline=None)
@given(
    idle=st.integers(0, 4),
    wait=st.booleans(),
    longer=st.lists(st.floats(1.0, 2.0), min_size=5, max_size=5),
    seed=st.integers(0, 5),
)
def test_longer_repairs_are_never_better(
    *, idle: int, wait: bool, longer: list[float], seed: int
) -> None:
    slow = tuple(
        replace(cause, repair_h=cause.repair_h * times)
        for cause, times in zip(CAUSES, longer, strict=True)
    )
    # The longest warm-up of both: repairs of up to 30 h and of up to 60 h take 256 and 512 h.
    anchor = Cause("anchor", 1e-9, 1, repair_h=60.0)
    pace = table(idle, wait=wait)
    quick, late = (run(pace, (*causes, anchor), years=20, seed=seed) for causes in (CAUSES, slow))
    assert (quick.interruptions == late.interruptions).all()
    useful = [one.time_h[:, 0] - one.slowed_h for one in (late, quick)]
    assert useful[1].sum() >= useful[0].sum() - JOB.cycle_h


def test_more_failures_are_never_better() -> None:
    for idle in (0, 2):
        found = [
            run(table(idle), tuple(replace(one, count=one.count * times) for one in CAUSES)).goodput
            for times in (0, 1, 2, 3)
        ]
        for few, many in pairwise(found):
            assert many.value < few.value


def test_a_lost_feed_costs_its_hours() -> None:
    # One feed, once a year for 6 h on average, all four domains with it: the job waits 6 h, not for
    # a restart of 0.3 h.
    feed = Cause("feed", 1.0, 1, repair_h=6.0, effect=Effect(4, whole=True))
    for pace in (
        ThroughputTable(),
        replace(table(0), missing=np.array([0]), factor=np.ones((2, 1))),
    ):
        found = run(pace, (feed,), years=20_000)
        waits = Mean.of(found.time_h[:, 4])
        assert abs(waits.value - 8760 * (1 - exp(-6 / 8760))) <= 2 * waits.half_width


def test_a_job_that_cannot_go_on_waits() -> None:
    part = Cause("part", 2.0, 1, repair_h=40.0, effect=Effect(slowdown=inf))
    found = run(table(3), (part,), years=5000)
    waits = Mean.of(found.time_h[:, 4])
    assert abs(waits.value - 8760 * (1 - exp(-80 / 8760))) <= 2 * waits.half_width
    assert found.slowed_h.max() == 0


@pytest.mark.parametrize("idle", [0, 1, 2])
def test_idle_domains_replace_what_would_stop_the_job(idle: int) -> None:
    # Two failures a year of 80 h, after which no plan is left: with an idle domain the job waits
    # only while two are down.
    server = Cause("server", 1.0, 2, repair_h=80.0, effect=Effect(1, all_gpus=True, slowdown=inf))
    found = run(table(idle), (server,), years=8000)
    under = 2 * 80 / 8760
    level = compound_poisson({1: under})[: idle + 1].sum()
    waits = Mean.of(found.time_h[:, 4])
    assert abs(waits.value - 8760 * (1 - level)) <= 2 * waits.half_width
    if not idle:
        assert expected_throughput((server,), table(idle))[0] == pytest.approx(1 - level)
    assert domains_under_repair((server,), wait=False)[1] == pytest.approx(under)
