"""Checkpoint intervals and effective time: by hand, by numeric search, and invariants."""

from math import exp, expm1, inf, sqrt

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from netplan.errors import InputError
from netplan.faults.years.checkpoints import (
    CheckpointTimes,
    best_interval_h,
    daly_interval_h,
    effective_time_ratio,
    exact_time_ratio,
    young_interval_h,
)

HOURS = st.floats(1e-3, 1e3)
RATIOS = st.floats(1e-6, 1.5)
"""Time to write a checkpoint over time between failures."""

JOBS = st.builds(CheckpointTimes, HOURS, st.floats(0.0, 10.0), st.floats(0.0, 10.0))


def test_young_and_daly_by_hand() -> None:
    # w = 2 min, M = 100 h: sqrt(2 x 1/30 x 100) = sqrt(6.667) = 2.582 h.
    assert young_interval_h(1 / 30, 100) == pytest.approx(2.582, abs=5e-4)
    # w / 2M = 1/6000: 2.582 x (1 + 0.01291 / 3 + 1 / 54000) - 0.0333 = 2.5598.
    assert daly_interval_h(1 / 30, 100) == pytest.approx(2.5598, abs=5e-4)


@pytest.mark.parametrize(("hours", "minutes"), [(24, 117), (6, 57), (0.25, 9.1)])
def test_daly_figures(hours: float, minutes: float) -> None:
    # Daly (2006), Figs. 3 to 5: 5 min to write; "the new model predicts" these intervals.
    digits = 1 if minutes < 10 else 0
    assert round(60 * daly_interval_h(5 / 60, hours), digits) == minutes
    # The exact minimum lies within 1 % of it: 116.7, 56.7 and 9.17 min.
    assert best_interval_h(5 / 60, hours) == pytest.approx(minutes / 60, rel=0.01)


def test_long_writes_have_the_mean_time_as_interval() -> None:
    assert daly_interval_h(2.0, 1.0) == 1.0
    # At w = 2 M the two branches of the higher order meet within 14 %: 2 (1 + 4/9) - 2 = 0.889.
    assert daly_interval_h(1.999999, 1.0) == pytest.approx(0.889, abs=1e-3)


@given(HOURS, RATIOS)
def test_best_interval_is_the_numeric_minimum(mtbf_h: float, ratio: float) -> None:
    write_h = ratio * mtbf_h

    def cost(tau: float) -> float:  # run time over work, up to a factor
        return expm1((tau + write_h) / mtbf_h) / tau

    best = best_interval_h(write_h, mtbf_h)
    found = minimize_scalar(
        cost, bounds=(best / 20, 20 * best), method="bounded", options={"xatol": 1e-9 * best}
    )
    assert cost(best) <= found.fun * (1 + 1e-9)
    assert best == pytest.approx(found.x, rel=1e-3)


@pytest.mark.parametrize("ratio", [1e-15, 1e-9, 0.99e-8, 1.01e-8])
def test_best_interval_of_quick_writes(ratio: float) -> None:
    # sqrt(2 x) (1 + sqrt(x / 2) / 3) - x to more digits than a float has below x = 1e-8.
    assert best_interval_h(ratio, 1.0) == pytest.approx(
        sqrt(2 * ratio) * (1 + sqrt(ratio / 2) / 3) - ratio, rel=1e-7
    )
    assert best_interval_h(0.0, 1.0) == 0


@given(HOURS, st.floats(1e-6, 0.5))
def test_daly_is_within_a_percent_of_the_best(mtbf_h: float, ratio: float) -> None:
    write_h = ratio * mtbf_h
    assert daly_interval_h(write_h, mtbf_h) == pytest.approx(
        best_interval_h(write_h, mtbf_h), rel=1e-2
    )


@given(HOURS, st.floats(1e-6, 0.05), st.floats(0.2, 5.0))
def test_young_minimises_the_first_order_nearly(mtbf_h: float, ratio: float, other: float) -> None:
    # The loss tau / 2M + w / tau has its minimum at sqrt(2 w M).
    write_h = ratio * mtbf_h
    young = young_interval_h(write_h, mtbf_h)

    def loss(tau: float) -> float:
        return tau / (2 * mtbf_h) + write_h / tau

    assert loss(young) <= loss(other * young) * (1 + 1e-12)
    assert loss(young) == pytest.approx(sqrt(2 * ratio))


def test_effective_time_by_hand() -> None:
    # M = 10 h, R = 0.5 h, tau = 1 h, w = 0.02 h: (1 - 1 / 10) / 1.02 = 0.88235.
    job = CheckpointTimes(1.0, 0.02, 0.5)
    assert effective_time_ratio(job, 10) == pytest.approx(0.88235, abs=5e-6)
    # 0.1 x exp(-0.05) / (exp(0.102) - 1) = 0.1 x 0.951229 / 0.1073834 = 0.885825.
    assert exact_time_ratio(job, 10) == pytest.approx(0.885825, abs=5e-7)


def test_exact_ratio_is_the_sum_over_intervals() -> None:
    # E[work between failures] / M with work tau x sum over j of P(X > R + j (tau + w)).
    job, mtbf_h = CheckpointTimes(0.7, 0.1, 0.4), 3.0
    saved = sum(0.7 * exp(-(0.4 + j * 0.8) / mtbf_h) for j in range(1, 400))
    assert exact_time_ratio(job, mtbf_h) == pytest.approx(saved / mtbf_h, rel=1e-12)


def test_without_failures_only_checkpoints_cost() -> None:
    job = CheckpointTimes(1.0, 0.25, 9.0)
    assert exact_time_ratio(job, inf) == effective_time_ratio(job, inf) == 0.8
    assert exact_time_ratio(job, 1e12) == pytest.approx(0.8)


def test_a_job_that_never_saves_never_ends() -> None:
    job = CheckpointTimes(1000.0, 0.1, 0.1)
    assert exact_time_ratio(job, 1.0) == 0
    assert effective_time_ratio(job, 1.0) == 0


@given(JOBS, HOURS)
def test_ratios_lie_between_0_and_1(job: CheckpointTimes, mtbf_h: float) -> None:
    assert 0 <= effective_time_ratio(job, mtbf_h) <= 1
    assert 0 <= exact_time_ratio(job, mtbf_h) <= 1


@given(JOBS, HOURS, HOURS)
def test_more_failures_never_raise_the_ratio(
    job: CheckpointTimes, first: float, second: float
) -> None:
    often, seldom = sorted((first, second))
    for ratio in (effective_time_ratio, exact_time_ratio):
        assert ratio(job, often) <= ratio(job, seldom) + 1e-12


@given(JOBS, HOURS, st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_longer_writes_and_restarts_never_help(
    job: CheckpointTimes, mtbf_h: float, write_h: float, restart_h: float
) -> None:
    slower = CheckpointTimes(job.interval_h, job.write_h + write_h, job.restart_h + restart_h)
    for ratio in (effective_time_ratio, exact_time_ratio):
        assert ratio(slower, mtbf_h) <= ratio(job, mtbf_h) + 1e-12


@given(st.floats(1e-3, 0.05), st.floats(0.0, 0.05))
def test_first_order_agrees_where_failures_are_rare(interval: float, restart: float) -> None:
    # The first order drops terms of (tau / M)^2 and R tau / M^2.
    job = CheckpointTimes(interval, interval / 20, restart)
    assume(interval > 0)
    assert effective_time_ratio(job, 1.0) == pytest.approx(exact_time_ratio(job, 1.0), abs=0.006)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((0.0, 0.1, 0.1), "a checkpoint interval of 0 h is out of range: give more than 0"),
        ((-1.0, 0.1, 0.1), "a checkpoint interval of -1 h"),
        ((inf, 0.1, 0.1), "a checkpoint interval of inf h"),
        ((1.0, -0.1, 0.1), "a checkpoint write of -0.1 h"),
        ((1.0, 0.1, -0.1), "a restart of -0.1 h"),
    ],
)
def test_impossible_times_are_refused(times: tuple[float, float, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CheckpointTimes(*times)


def test_impossible_means_are_refused() -> None:
    for call in (young_interval_h, daly_interval_h, best_interval_h):
        with pytest.raises(InputError, match="0 h between failures are out of range"):
            call(0.1, 0.0)
        with pytest.raises(InputError, match="a checkpoint write of -1 h"):
            call(-1, 1.0)
        assert call(0.1, inf) == call(0.0, inf) == inf
