"""Power of a hall by hand, the search for its GPUs, PUE by cooling, carbon of a year."""

from itertools import pairwise
from math import inf

import pytest

from netplan.costing.facility import Facility, most_within, network_w
from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.costing.prices import POWER_BOOKS
from netplan.costing.ranges import Range
from netplan.errors import NetplanError
from netplan.questions.cost import cost
from netplan.workloads.accelerators import ACCELERATORS

BOOK = POWER_BOOKS.load("2026")


def test_the_rest_of_a_server_is_its_rating_less_gpus_and_cards() -> None:
    # DGX H100: at most 10.2 kW with 8 GPUs of 700 W and 8 cards of 25 W.
    h100 = Facility.of(ACCELERATORS.load("h100-80gb"), BOOK, Range.point(1.3))
    assert h100.rest.base == pytest.approx((10_200 - 8 * 700 - 8 * 25) / 8)
    # Of others a share of the GPU's power is assumed, and the range is wide.
    other = Facility.of(ACCELERATORS.load("mi300x"), BOOK, Range.point(1.3))
    assert other.rest.high > 2 * other.rest.low > 0
    assert "Assumed" in other.source


def test_the_power_of_a_hall_by_hand() -> None:
    bill = cost("hgx-h100", gpus=1024, fabrics=("rail-only",)).bills[0]
    hall = Facility.of(ACCELERATORS.load("h100-80gb"), BOOK, Range(1.1, 1.25, 1.5))
    # Network cards are on the bill, so the 25 W that the rating has for each do not count twice.
    by_hand = 1024 * (700 + 550) + network_w(bill)
    assert hall.equipment_w(bill).base == pytest.approx(by_hand)
    assert hall.facility_w(bill).base == pytest.approx(1.25 * by_hand)
    assert hall.least_w == pytest.approx(1.25 * 1250)


@pytest.mark.parametrize("each", [1.0, 13.7, 1000.0])
@pytest.mark.parametrize("fixed", [0.0, 333.0, 1e5])
def test_the_search_finds_the_last_size_that_fits(each: float, fixed: float) -> None:
    def draws_w(gpus: int) -> float:
        return fixed + each * gpus + 50.0 * (gpus // 512)  # a step, as switches come

    found = [most_within(budget, draws_w, 8, 100_000) for budget in (10.0, 2e4, 1e5, 7e5, 1e9)]
    assert all(few <= more for few, more in pairwise(found))
    for budget, gpus in zip((10.0, 2e4, 1e5, 7e5, 1e9), found, strict=True):
        assert gpus % 8 == 0
        assert gpus == 0 or draws_w(gpus) <= budget
        assert gpus == 100_000 or draws_w(gpus + 8) > budget


def test_sizes_that_cannot_be_built_do_not_fit() -> None:
    assert most_within(1e9, lambda gpus: 1.0 if gpus <= 800 else inf, 8, 10_000) == 800


def test_pue_by_cooling_is_sourced_and_in_order() -> None:
    kinds = ECONOMICS_BOOKS.load("2026").pue_by_cooling
    assert set(kinds) == {"air", "cold-plate", "immersion"}
    bases = [kinds[kind].range.base for kind in ("air", "cold-plate", "immersion")]
    assert bases == sorted(bases, reverse=True)
    assert all(kind.source and kind.date and kind.range.spread for kind in kinds.values())


def test_carbon_is_energy_times_the_factor_of_the_grid() -> None:
    book = ECONOMICS_BOOKS.load("2026")
    assert book.carbon is not None
    for grid in ("us", "fr", "DE"):
        answer = cost("hgx-h100", gpus=1024, fabrics=("rail-only",), grid=grid)
        life, factor = answer.bills[0].life, book.carbon.of(grid)
        assert life.carbon_kg_per_year.base == pytest.approx(
            life.energy_kwh_per_year.base * factor.base
        )
        assert life.carbon_kg_per_year.high == pytest.approx(
            life.energy_kwh_per_year.high * factor.high
        )
        assert answer.inputs["grid"] == grid.lower()
        assert f"({grid.lower()})" in str(answer)
    with pytest.raises(NetplanError, match="unknown grid 'atlantis': known: ae, "):
        cost("hgx-h100", grid="atlantis")


def test_racks_that_need_cold_plates_are_refused_in_air() -> None:
    answer = cost("nvl72-gb200", fabrics=("rail-only",))
    assert answer.inputs["pue"] == 1.15
    assert answer.inputs["cooled_by"] == "cold-plate"
    with pytest.raises(NetplanError, match=r"--cooling air: .* sold with cold-plate"):
        cost("nvl72-gb200", cooling="air")
    given = cost("nvl72-gb200", fabrics=("rail-only",), pue=1.3).inputs
    assert (given["pue"], given["cooled_by"]) == (1.3, None)
