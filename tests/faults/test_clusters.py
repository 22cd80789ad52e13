"""Clusters against each other: moments by hand, intervals by sampling, and what must grow."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.faults.years.clusters import (
    RECORD_OF_KIND,
    ClusterCount,
    RateSpread,
    interruptions_by_record,
    leave_one_out,
)
from netplan.faults.years.rates import FAILURE_BOOKS, unit_counts
from tests.costing.fabrics import built

RATES = st.floats(0.01, 1.0)
YEARS = st.floats(50.0, 20_000.0)


def test_moments_by_hand() -> None:
    # Rates 0.1, 0.2, 0.6: mean 0.3, sample variance (0.04 + 0.01 + 0.09) / 2 = 0.07; chance makes
    # 0.3 x mean(1/100, 1/200, 1/100) = 0.0025 of it; 4/3 for the mean of three.
    clusters = [
        ClusterCount(name, count, years)
        for name, count, years in (("a", 10, 100.0), ("b", 40, 200.0), ("c", 60, 100.0))
    ]
    spread = RateSpread.of(clusters)
    assert (spread.mean, spread.variance) == pytest.approx((0.3, 0.0675 * 4 / 3))


@pytest.mark.parametrize(("rate", "variance"), [(0.2, 0.01), (0.1, 0.02), (0.3, 0.0)])
def test_intervals_are_those_of_sampled_counts(rate: float, variance: float) -> None:
    # Draw a rate, then a count: the two steps that the negative binomial is made of.
    rng, draws, years = np.random.default_rng(3), 200_000, 400.0
    rates = rng.gamma(rate**2 / variance, variance / rate, draws) if variance else rate
    counts = rng.poisson(rates * years, None if variance else draws)
    low, high = RateSpread(rate, variance).count_interval(years)
    assert (low, high) == pytest.approx(tuple(np.quantile(counts, (0.05, 0.95))), rel=0.03, abs=1)
    assert np.mean((counts >= low) & (counts <= high)) >= 0.895


@given(rate=RATES, share=st.floats(0.0, 3.0), years=YEARS)
def test_intervals_hold_more_with_more_spread_time_and_coverage(
    rate: float, share: float, years: float
) -> None:
    spread = RateSpread(rate, (share * rate) ** 2)
    low, high = spread.count_interval(years)
    assert 0 <= low <= high
    wide = spread.count_interval(years, 0.99)
    assert wide[0] <= low <= high <= wide[1]
    later = spread.count_interval(2 * years)
    assert low <= later[0]
    assert high <= later[1]


@given(st.lists(st.tuples(st.integers(1, 5000), YEARS), min_size=3, max_size=6))
def test_each_is_predicted_by_the_others_alone(pairs: list[tuple[int, float]]) -> None:
    clusters = [ClusterCount(str(number), *pair) for number, pair in enumerate(pairs)]
    assume(all(one.rate_per_year < 100 for one in clusters))
    found = leave_one_out(clusters)
    assert [one.cluster for one in found] == clusters
    # What a cluster saw itself has no part in what is predicted for it.
    first = ClusterCount("other", clusters[0].failures + 100, clusters[0].accelerator_years)
    again = leave_one_out([first, *clusters[1:]])[0]
    assert (again.low, again.high, again.others) == (found[0].low, found[0].high, found[0].others)


def test_one_cluster_says_nothing_about_spread() -> None:
    with pytest.raises(InputError, match="1 clusters with 5 failures say nothing"):
        RateSpread.of([ClusterCount("a", 5, 10.0)])
    with pytest.raises(InputError, match="2 clusters with 0 failures"):
        RateSpread.of([ClusterCount("a", 0, 10.0), ClusterCount("b", 0, 10.0)])


def test_stops_by_record_are_all_stops() -> None:
    book, units = FAILURE_BOOKS.load("2026").placed(8), unit_counts(built("rail-only", 4096, 64))
    whole = sum(row.rate_per_year.base * row.interrupts * row.count_in(units) for row in book.rates)
    found = interruptions_by_record(book, units)
    assert sum(found.values()) == pytest.approx(whole)
    # 4,096 links of two modules and a fibre, 64 leaves; trunks and spines stop nothing.
    network = 4096 * (2 * 0.00876 + 0.00458) + units["leaf_switch"] * 0.00612
    assert found["network"] == pytest.approx(network)
    kinds = {row.kind for name in FAILURE_BOOKS.paths() for row in FAILURE_BOOKS.load(name).rates}
    assert kinds - set(RECORD_OF_KIND) == {"row", "group"}  # where a layout gives them
