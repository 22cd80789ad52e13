"""What lights fibre between sites: counts by hand, prices, what has none."""

import pytest

from netplan.costing.long_haul import LONG_HAUL_BOOKS, long_haul
from netplan.costing.prices import PRICE_BOOKS
from netplan.reports.schema import plain_data
from netplan.topologies.sites import Pair

BOOK, PRICES = LONG_HAUL_BOOKS.load("2026"), PRICE_BOOKS.load("2026")


def test_between_regions_as_published() -> None:
    """16 Pb/s at 800G: 20,000 ports and 47 chassis of 432 on either side; 90,000 GPUs at 4.5:1."""
    lit = long_haul([Pair(0, 1, 0.0, 1.0, 16e15 / 8)], BOOK, PRICES, 6)
    assert (lit.ports, lit.chassis, lit.wavelengths) == (2 * 20_000, 2 * 47, 20_000)
    assert lit.wavelengths * 4.5 == 90_000


@pytest.mark.parametrize(
    ("km", "huts"), [(0.0, 0), (79.0, 0), (80.0, 0), (81.0, 1), (160.0, 1), (1000.0, 12)]
)
def test_a_fibre_pair_has_a_hut_between_spans(km: float, huts: int) -> None:
    # 65 wavelengths of 100 GB/s need two fibre pairs of 64.
    lit = long_haul([Pair(0, 1, km, 1.0, 65 * 100e9)], BOOK, PRICES, 6)
    assert (lit.fibre_pairs, lit.huts, lit.amplifiers) == (2, 2 * huts, 4 * huts)
    assert lit.fibre_km == 2 * km


def test_what_has_no_price_makes_a_floor() -> None:
    near, far = Pair(0, 1, 0.0, 1.0, 100e9), Pair(0, 1, 100.0, 1.0, 100e9)
    assert long_haul([near], BOOK, PRICES, 6).unpriced == ()
    lit = long_haul([far], BOOK, PRICES, 6)
    assert lit.unpriced == ("amplifiers", "fibre")
    assert plain_data(lit)["cost_is_floor"]
    port = PRICES.price("switch_port", 800)
    assert BOOK.module
    assert port
    # A wavelength: two modules and two ports.
    assert lit.cost.base == pytest.approx(2 * BOOK.module.base + 2 * port.base)


def test_rent_is_the_file_s_or_the_book_s() -> None:
    rented = BOOK.changed(fibre_km_month_usd=2.0, detour=1.5)
    pair = Pair(0, 1, 50.0, 1.0, 100e9)
    base = long_haul([Pair(0, 1, 0.0, 1.0, 100e9)], BOOK, PRICES, 5).cost.base
    # 75 km of one pair at 2 USD a month, 60 months; or 9,000 USD a month as a file says.
    assert long_haul([pair], rented, PRICES, 5).cost.base == pytest.approx(base + 2 * 75 * 60)
    said = Pair(0, 1, 50.0, 1.0, 100e9, 9000.0)
    assert long_haul([said], BOOK, PRICES, 5).cost.base == pytest.approx(base + 9000 * 60)


def test_more_rate_never_takes_less() -> None:
    costs = [
        long_haul([Pair(0, 1, 10.0, 1.0, rate)], BOOK, PRICES, 6).cost.base
        for rate in (1e9, 1e11, 1e12, 1e13)
    ]
    assert costs == sorted(costs)
