"""Closed forms of reliability by hand, against brute force, and their invariants."""

from itertools import product
from math import comb, exp, factorial, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.faults.years.reliability import (
    at_least_up,
    cost_per_effective_gpu_hour,
    interruptions_per_year,
    mtbf_h,
    none_down,
    outstanding,
    require_service,
    service_level,
    spares_needed,
    units_up,
)

RATES = st.floats(0.0, 100.0)
SHARES = st.floats(0.0, 1.0)


def poisson_cdf(count: int, mean: float) -> float:
    return sum(exp(-mean) * mean**k / factorial(k) for k in range(count + 1))


# --- time between failures ------------------------------------------------------------------


def test_llama_3_record() -> None:
    # 54 x 24 / 419 = 3.093 h; 419 / (2,048 x 54) = 3.789 per 1000 node-days.
    assert mtbf_h(419 / 54 * 365) == pytest.approx(3.093, abs=5e-4)
    assert pytest.approx(3.789, abs=5e-4) == 1000 * 419 / (2048 * 54)


@pytest.mark.parametrize(("gpus", "hours"), [(1024, 28.85), (16_384, 1.803), (131_072, 0.2254)])
def test_research_cluster(gpus: int, hours: float) -> None:
    # 24 / (N / 8 x 0.0065): 128 nodes 28.85 h, 2,048 nodes 1.803 h, 16,384 nodes 0.2254 h.
    a_year = interruptions_per_year([0.0065 * 365], [gpus // 8])
    assert mtbf_h(a_year) == pytest.approx(hours, rel=1e-3)


def test_causes_add_up_by_their_shares() -> None:
    # 0.06 x 1000 + 0.01 x 2000 x 0.5 = 70.
    assert interruptions_per_year([0.06, 0.01], [1000, 2000], [1.0, 0.5]) == pytest.approx(70)
    assert mtbf_h(0) == inf


def test_negative_rate_is_refused() -> None:
    with pytest.raises(InputError, match="-1 failures a year are out of range: give 0 or more"):
        mtbf_h(-1)


# --- availability ---------------------------------------------------------------------------


@pytest.mark.parametrize(("switches", "percent"), [(256, 93), (384, 89), (640, 83)])
def test_no_switch_down(switches: int, percent: int) -> None:
    # 0.9997^256 = 0.9261, ^384 = 0.8912, ^640 = 0.8253.
    assert round(100 * none_down(0.0003, switches)) == percent
    assert none_down(0.0003, switches) == pytest.approx(0.9997**switches, rel=1e-12)


def test_limits_of_none_down() -> None:
    assert (none_down(0.0, 10), none_down(1.0, 10), none_down(1.0, 0)) == (1.0, 0.0, 1.0)
    with pytest.raises(InputError, match=r"is a probability, got 3: .* divide a percentage by 100"):
        none_down(3, 10)


def test_k_of_n_by_enumeration() -> None:
    up = 0.9
    for needed in range(6):
        states = (sum(state) for state in product((0, 1), repeat=5))
        brute = sum(up**k * (1 - up) ** (5 - k) for k in states if k >= needed)
        assert at_least_up(needed, 5, up) == pytest.approx(brute, rel=1e-12)
    with pytest.raises(InputError, match="6 of 5 units are out of range: give 0 to 5"):
        at_least_up(6, 5, up)


def test_ironwood_cubes() -> None:
    # 130 of 144 cubes 95 % of the time at 93.5 %: P(X >= 130) >= 0.95 > P(X >= 131).
    tail = [
        sum(comb(144, k) * 0.935**k * 0.065 ** (144 - k) for k in range(least, 145))
        for least in (130, 131)
    ]
    assert tail[0] >= 0.95 > tail[1]
    assert units_up(144, 0.935, 0.95) == 130


@given(st.integers(1, 300), SHARES, st.floats(0.01, 0.99))
def test_units_up_is_the_largest(units: int, up: float, level: float) -> None:
    most = units_up(units, up, level)
    assert at_least_up(most, units, up) >= level
    assert most == units or at_least_up(most + 1, units, up) < level


@given(st.integers(0, 100), st.integers(0, 100), SHARES)
def test_more_needed_is_less_likely(first: int, second: int, up: float) -> None:
    few, many = sorted((first, second))
    assert at_least_up(many, 100, up) <= at_least_up(few, 100, up) + 1e-12


# --- spares ---------------------------------------------------------------------------------


def test_service_level_by_hand() -> None:
    # Mean 1: P(N <= 0) = 0.3679, <= 1: 0.7358, <= 2: 0.9197, <= 3: 0.9810, <= 4: 0.9963.
    levels = [service_level(spares, 1.0) for spares in range(5)]
    assert levels == pytest.approx([0.3679, 0.7358, 0.9197, 0.9810, 0.9963], abs=5e-5)
    assert [spares_needed(1.0, level) for level in (0.3, 0.5, 0.9, 0.95, 0.99)] == [0, 1, 2, 3, 4]


def test_modules_of_a_large_cluster() -> None:
    # 131,072 x 0.01168 a year x 28 days / 365 = 117.4 out; 99 % at 117.4 + 2.33 x 10.8 = 142.6.
    failures = outstanding(0.01168, 131_072, 28 * 24)
    assert failures == pytest.approx(117.4, abs=0.1)
    assert spares_needed(failures, 0.99) == 143


@given(st.floats(0.0, 60.0), st.floats(0.001, 0.999))
def test_spares_are_the_least(failures: float, level: float) -> None:
    spares = spares_needed(failures, level)
    assert poisson_cdf(spares, failures) >= level - 1e-9
    assert spares == 0 or poisson_cdf(spares - 1, failures) < level + 1e-9


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0.0, 150.0))
def test_more_spares_never_lower_the_service_level(
    first: int, second: int, failures: float
) -> None:
    few, many = sorted((first, second))
    assert service_level(few, failures) <= service_level(many, failures)


@given(st.integers(0, 100), st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_more_failures_never_raise_the_service_level(
    spares: int, first: float, second: float
) -> None:
    few, many = sorted((first, second))
    assert service_level(spares, many) <= service_level(spares, few) + 1e-12


def test_no_spares_say_what_is_needed() -> None:
    with pytest.raises(InputError, match=r"0 spares cover 36\.8 % .* 99 % are asked for: keep 4"):
        require_service(0, 1.0, 0.99)
    assert require_service(4, 1.0, 0.99) == service_level(4, 1.0)


@pytest.mark.parametrize("level", [0, 1, 1.5, -0.1])
def test_impossible_levels_are_refused(level: float) -> None:
    with pytest.raises(InputError, match="more than 0 and less than 1"):
        spares_needed(1.0, level)


def test_impossible_spares_are_refused() -> None:
    with pytest.raises(InputError, match="-1 spares"):
        service_level(-1, 1.0)


# --- cost -----------------------------------------------------------------------------------


def test_cost_of_an_hour_that_counts() -> None:
    # 17.52 M a year over 1,000 GPUs x 8,760 h is 2 an hour; at 80 % 2.50.
    assert cost_per_effective_gpu_hour(17.52e6, 1000, 0.8) == pytest.approx(2.5)
    for gpus, goodput in ((0, 0.8), (1000, 0.0)):
        with pytest.raises(InputError, match="at least one GPU, some goodput"):
            cost_per_effective_gpu_hour(17.52e6, gpus, goodput)
    with pytest.raises(InputError, match="the goodput is a probability, got 80"):
        cost_per_effective_gpu_hour(17.52e6, 1000, 80)
