"""Years of a cluster that serves: beside distributions by hand, and failures drawn in time."""

import numpy as np
import pytest
from scipy.stats import poisson

from netplan.faults.damage.impact import Single, single_failures, single_parts
from netplan.faults.damage.inventory import Inventory
from netplan.faults.years.forecast import CheckpointPolicy, ForecastOptions
from netplan.faults.years.rates import FAILURE_BOOKS, FailureBook, unit_counts
from netplan.faults.years.served import (
    ServedCluster,
    ServedForecast,
    ServedImpact,
    answering,
    served_forecast,
)
from netplan.performance.serving.outcomes import Goal
from netplan.records import replace
from tests.faults.test_served import ACROSS, LONG, ONE_EACH, asked, cluster

HOURS = 8760.0


def book(rate: float, repair_h: float, cause: str = "GPU") -> FailureBook:
    """One cause, at this rate a unit and year."""
    whole = FAILURE_BOOKS.load("2026").placed(8)
    row = whole.rate(cause).changed(low=None, base=rate, high=None)
    hours = tuple(
        one.changed(low=None, base=repair_h, high=None) if one.kind == row.kind else one
        for one in whole.repairs
    )
    return whole.changed(rates=(row,), repairs=hours)


def years(
    one: ServedCluster, failures: FailureBook, restart_h: float = 0.0, level: float = 0.99
) -> ServedForecast:
    policy = CheckpointPolicy(1 / 60, restart_h)
    singles = singles_of(one)
    return served_forecast(
        one,
        failures,
        ForecastOptions(policy, level=level),
        units=unit_counts(one.fabric),
        singles=singles,
    )


def singles_of(cluster: ServedCluster) -> tuple[Single[ServedImpact], ...]:
    """The failure of one part of each kind, of GPUs one that serves."""
    inventory = Inventory(cluster.graph)
    parts = single_parts(inventory, np.sort(np.concatenate([*map(np.ravel, cluster.servers)])))
    impacts = [cluster.impact(inventory.damage([part])) for part in parts]
    return tuple(single_failures(inventory, zip(parts, impacts, strict=True)))


def tokens(one: ServedCluster, left: int) -> float:
    """Tokens a second of so many servers."""
    found = answering(one, [np.ones((left, 2))])
    return found.tokens_per_s if found else 0.0


def test_eight_servers_by_hand() -> None:
    """Each GPU fails 36.5 times a year for 24 h: 8 x 36.5 x 24 / 8,760 = 0.8 are down."""
    one = cluster(ONE_EACH | {"concurrency": 512})
    found = years(one, book(36.5, 23.0), restart_h=1.0)
    by_hand = sum(poisson.pmf(down, 0.8) * tokens(one, 8 - down) for down in range(8))
    assert found.expected_tokens_per_s == pytest.approx(by_hand, rel=1e-9)
    assert found.server_interruptions_per_year == pytest.approx(8 * 36.5)
    assert found.mtbf_h == pytest.approx(HOURS / 292)
    assert found.servers_down == pytest.approx(0.8 * 23 / 24)
    assert found.all_answer_share == pytest.approx(np.exp(-0.8))
    # D has a mean of 0.7667: P(D <= 3) = 0.4645 (1 + 0.7667 + 0.2939 + 0.0751) = 0.9921
    assert (found.spare_servers_needed, found.spare_gpus_needed) == (3, 3)
    assert found.assured_tokens_per_s == pytest.approx(tokens(one, 5))  # P(N <= 3) = 0.9909
    assert found.level_kept_share is None


def test_failures_drawn_in_time() -> None:
    """Servers of two GPUs, twenty years of failures at an hour's step: the share of tokens."""
    one = cluster(ONE_EACH | {"fixed": {"tensor": 2, "pipeline": 1}, "concurrency": 64})
    rng = np.random.default_rng(0)
    hours = 200_000
    starts = rng.random((8, 400)) * hours  # 8 GPUs, 400 failures each, 100 h of repair
    down = np.zeros(hours)
    for server in range(4):
        for start in starts[2 * server : 2 * server + 2].ravel().astype(int):
            down[start : start + 100] += 1  # as the model counts them: one may be hit twice
    rates = np.array([tokens(one, max(4 - number, 0)) for number in range(30)])
    drawn = rates[np.minimum(down, 29).astype(int)].mean()
    found = years(one, book(400 / hours * HOURS, 100.0))
    assert found.expected_tokens_per_s == pytest.approx(drawn, rel=0.02)


def test_idle_gpus_take_over() -> None:
    """One place that is idle covers the first server that is down: P(N <= 1) = 1.8 / e^0.8."""
    plan = {"fixed": {"tensor": 1, "pipeline": 1, "replicas": 7}, "concurrency": 512}
    found = years(cluster(ONE_EACH | plan), book(36.5, 24 * 8 / 7))
    assert found.spare_servers == 1
    assert found.servers_down == pytest.approx(0.8)
    assert found.all_answer_share == pytest.approx(1.8 * np.exp(-0.8))


def test_a_server_box_stops_all_servers_in_it() -> None:
    """Eight GPUs, four servers of two: each failure of the box stops four."""
    one = cluster(ONE_EACH | {"fixed": {"tensor": 2, "pipeline": 1}, "concurrency": 64})
    found = years(one, book(10.0, 5.0, "Server hardware"))
    assert found.server_interruptions_per_year == pytest.approx(40)
    (cause,) = found.causes
    assert cause.servers_under_repair == pytest.approx(40 * 5 / HOURS)
    assert found.assured_share == pytest.approx(1)


def test_a_port_slows_servers_that_need_it() -> None:
    """Half a port is down on average: what one takes is missing for 1 - exp(-1/2) of the time.

    Each server has four HB domains: sums of two leave a part of every port unused.
    """
    one = cluster(LONG | {"gpus": 64, "fixed": {"tensor": 32, "pipeline": 1}})
    port = {one.kind: one.impact for one in singles_of(one)}["nic"]
    assert port.servers_lost == 0
    assert port.throughput_share < 1
    found = years(one, book(10.0, HOURS / 1280, "NIC"))  # 64 ports, 640 failures a year
    assert found.expected_share == pytest.approx(
        1 - (1 - np.exp(-0.5)) * (1 - port.throughput_share)
    )
    assert (found.server_interruptions_per_year, found.mtbf_h) == (0, None)
    assert found.assured_share == pytest.approx(port.throughput_share)


def test_a_leaf_that_cuts_off_a_server_stops_it() -> None:
    """One leaf has all ports of 32 GPUs: both servers stop each time."""
    found = years(cluster(LONG), book(10.0, 5.0, "Leaf switch"))
    assert found.server_interruptions_per_year == pytest.approx(20)
    assert found.mtbf_h == pytest.approx(876)


def test_without_failures_nothing_is_lost() -> None:
    one = replace(
        cluster(ACROSS | {"concurrency": 256, "disaggregated": True}), goal=Goal(tpot_s=9.0)
    )
    found = years(one, book(0.0, 5.0))
    assert found.expected_share == found.assured_share == found.all_answer_share == 1
    assert found.level_kept_share == 1
    assert (found.server_interruptions_per_year, found.mtbf_h, found.spare_gpus_needed) == (
        0,
        None,
        0,
    )


@pytest.mark.parametrize("apart", [False, True])
def test_more_failures_never_give_more_and_spares_never_less(apart: bool) -> None:  # noqa: FBT001
    question = ACROSS | {"concurrency": 256, "disaggregated": apart}
    shares = [years(cluster(question), book(rate, 24.0)).expected_share for rate in (1, 5, 25)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] < 1
    spared = years(cluster(question, spare_domains=2), book(25, 24.0))
    assert spared.expected_share > shares[-1]
    assert spared.spare_servers > 0


def test_the_level_is_kept_while_enough_servers_answer() -> None:
    one = cluster(ONE_EACH | {"concurrency": 512})
    tpot = [answering(one, [np.ones((left, 2))]) for left in (7, 6)]
    assert tpot[0] is not None
    assert tpot[1] is not None
    goal = Goal(tpot_s=(tpot[0].tpot_s + tpot[1].tpot_s) / 2)
    found = years(replace(one, goal=goal), book(36.5, 24.0))
    assert found.level_kept_share == pytest.approx(1.8 * np.exp(-0.8))  # P(N <= 1)


def test_every_fabric_has_its_years() -> None:
    answer = asked(**ACROSS, concurrency=256, fabrics=("rail-only", "fat-tree"), gpus_per_rack=16)
    for one in answer.fabrics:
        assert 0.99 < one.forecast.expected_share < 1
        assert any(cause.cause == "Rack" for cause in one.forecast.causes)
    assert answer.to_dict()["fabrics"][0]["outlook"]["server_stops_per_year"] > 0
