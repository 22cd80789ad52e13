"""Networks without switches for serving experts: gains by hand, and those of the study."""

import pytest

from netplan.published.expert_networks import (
    MESH,
    SCALE_OUT,
    SCALE_UP,
    TORUS,
    Case,
    Costs,
    expert_network_statements,
    study_points,
)

FULL_BYTES_PER_S = 450e9


def by_hand(case: Case) -> float:
    """Full switches 100; mesh 90, torus 80, servers 70; half the bandwidth costs 4 %."""
    base = {SCALE_UP: 100.0, MESH: 90.0, TORUS: 80.0, SCALE_OUT: 70.0}[case.network]
    return base * (1 - 0.08 * (1 - case.bytes_per_s / FULL_BYTES_PER_S))


def test_gains_are_throughput_over_cost() -> None:
    found = dict(expert_network_statements(by_hand))
    gear = Costs.of_book().gear / Costs.of_book().accelerator
    # 0.9 (1 + s) - 1 at the most, 0.8 (1 + s) - 1 at the least.
    least = found["switchless over scale-up: least gain in throughput per cost, %"]
    largest = found["switchless over scale-up: largest gain in throughput per cost, %"]
    assert least == pytest.approx(100 * (0.8 * (1 + gear) - 1))
    assert largest == pytest.approx(100 * (0.9 * (1 + gear) - 1))
    # A sixth of the bandwidth: 1 - 0.08 x 5/6 of the tokens for (1 + s/6)/(1 + s) of the money.
    saved = found["scale-up with less bandwidth: largest gain in throughput per cost, %"]
    assert saved == pytest.approx(100 * ((1 - 0.4 / 6) * (1 + gear) / (1 + gear / 6) - 1))


def test_a_torus_that_is_faster_beats_the_mesh() -> None:
    found = dict(expert_network_statements(lambda case: 100.0 + (case.network == TORUS)))
    assert found["full mesh: more tokens/s than all others without scale-up switches"] == "False"


def test_cases_are_the_points_of_the_study() -> None:
    points = study_points()
    assert {(one.network, one.bytes_per_s / 1e9) for one in points} == {
        *((network, rate) for network in (SCALE_UP, TORUS, MESH) for rate in (450, 300, 150, 75)),
        (SCALE_OUT, 450),
    }
    assert {one.requests for one in points} == {512, 8192}
    servers = points[Case(SCALE_OUT, 450e9, 512)]
    assert (servers["accelerator.network_bytes_per_s"], servers["hb_size"]) == (50e9, 8)
    assert servers["concurrency"] == 512
