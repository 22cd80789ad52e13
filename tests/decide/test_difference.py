"""What separates two bills: counts and money by hand, sums over any two fabrics."""

from math import fsum

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.decide.difference import (
    PartDifference,
    bound_of,
    difference_words,
    differences,
    line_differences,
    unpriced_words,
)
from netplan.errors import InfeasibleError, InputError
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

CENT = 0.005


PAPER = "rail-only-2023"


def bill(
    fabric: str,
    *,
    gpus: int = 32_768,
    radix: int = 128,
    gbps: float = 400,
    currency: str = "",
    prices: str = "2026",
) -> Bill:
    """The bill of a fabric of HGX servers at the prices of 2026, or of another book."""
    power, cabling = POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    books = BillBooks(PRICE_BOOKS.load(prices), power, cabling)
    sizing = Sizing(gpus, radix, 8, 900e9, gbps / 8 * 1e9)
    return make_bill(FABRICS.load(fabric), sizing, books, currency=currency)


def test_parts_are_those_of_a_hand_calculation() -> None:
    # 32,768 GPUs, 128 ports. Three tiers have 512 leaves, 512 spines and 256 cores and six modules
    # a GPU; a rail of 4,096 GPUs 64 leaves and 32 spines, eight of them 768 switches, four modules.
    parts = {part.part: part for part in differences(bill("rail-optimized"), bill("rail-only"))}
    assert (parts["switches"].count_a, parts["switches"].count_b) == (1280, 768)
    assert (parts["transceivers"].count_a, parts["transceivers"].count_b) == (196_608, 131_072)
    assert parts["switches"].difference == -512 * 85_000
    assert parts["transceivers"].difference == pytest.approx(-65_536 * 611.95)
    # The third tier's fibres are those of 50 m: 74.17 + 7.817 x 50 USD each.
    assert parts["cables"].difference == pytest.approx(-32_768 * 465.02)
    assert parts["cables"].more == -32_768
    assert not parts["cards"].changed
    assert [*parts][:2] == ["switches", "transceivers"]


def test_lines_of_another_rate_are_other_lines() -> None:
    lines = {line.item: line for line in line_differences(bill("rail-only"), bill("rail-only"))}
    assert "Switch of 128 ports, 400G" in lines
    assert "Rack of 42 units" in lines
    assert not any(line.changed for line in lines.values())
    slow = bill("rail-only", gpus=256)
    faster = line_differences(slow, bill("rail-only", gpus=256, radix=64, gbps=800))
    one_sided = {line.item for line in faster if not (line.count_a and line.count_b)}
    assert {"Switch of 128 ports, 400G", "Switch of 64 ports, 800G"} <= one_sided
    # A rack has no rate: the same at both.
    assert not any("Rack" in item for item in one_sided)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["rail-only", "rail-optimized", "fat-tree", "dragonfly", "torus-2d"]),
            st.integers(8, 5000),
            st.sampled_from([16, 32, 64, 128]),
            st.sampled_from([200.0, 400.0, 800.0]),
        ),
        min_size=2,
        max_size=2,
    )
)
def test_differences_sum_to_that_of_the_totals(asked: list[tuple[str, int, int, float]]) -> None:
    bills = []
    for fabric, gpus, radix, rate in asked:
        try:
            bills.append(bill(fabric, gpus=gpus, radix=radix, gbps=rate))
        except (InputError, InfeasibleError):
            assume(False)
    first, second = bills
    more = second.capital.base - first.capital.base
    for parts in (differences(first, second), line_differences(first, second)):
        assert abs(fsum(part.difference for part in parts) - more) < CENT
        # The largest first, and the other way round every sign turns.
        assert [*parts] == sorted(parts, key=lambda part: -abs(part.difference))
        back = differences(second, first)
        assert abs(fsum(part.difference for part in back) + more) < CENT
        assert sum(part.count_b for part in parts) == sum(
            item.line.order for item in second.quote.items
        )


def test_a_phrase_names_the_two_largest() -> None:
    order, beside = bill("rail-only"), bill("rail-optimized")
    # 512 x 85,000 and 65,536 x 611.95 USD; fibres 15.24 M, their laying 2.85 M, racks 0.38 M.
    phrase = "512 switches -43.5 M, 65,536 modules -40.1 M, all other parts -18.5 M"
    assert difference_words(order, beside) == phrase
    rest = "512 switches +43.5 M, all other parts +58.6 M"
    assert difference_words(beside, order, most=1) == rest
    assert difference_words(order, order) == "the same money for every part"


@pytest.mark.parametrize(
    ("counts", "money", "words"),
    [
        ((4, 6), (400e3, 600e3), "2 modules +200 k"),
        ((4, 5), (400e3, 600e3), "1 module +200 k"),
        ((6, 4), (400e3, 600e3), "2 fewer modules +200 k"),
        ((4, 6), (6e6, 4e6), "2 more modules -2.0 M"),
        ((4, 4), (4e6, 6e6), "other modules +2.0 M"),
    ],
)
def test_the_sign_of_the_money_says_more_or_fewer_unless_they_part(
    counts: tuple[int, int], money: tuple[float, float], words: str
) -> None:
    assert PartDifference("transceivers", "modules", "", *counts, *money).words == words


def test_gear_is_not_counted_and_networks_beside_have_a_name() -> None:
    gear = PartDifference("hb-gear", "gear inside HB domains", "GPU", 8, 72, 0.0, 117e6)
    assert gear.words == "gear inside HB domains +117 M"
    storage = PartDifference("switches", "switches", "", 0, 1, 0.0, 3e5, network="storage")
    assert storage.words == "1 switch of the storage network +300 k"


def test_what_has_no_price_bounds_the_difference() -> None:
    # The book of the paper has no price of a rack.
    clos, rails = bill("rail-optimized", prices=PAPER), bill("rail-only", prices=PAPER)
    parts = differences(clos, rails)
    assert bound_of(parts) == "≤ "
    assert f"{clos.racks.count - rails.racks.count:,} racks fewer" in unpriced_words(parts)
    assert bound_of(differences(rails, clos)) == "≥ "
    assert bound_of(differences(bill("rail-only"), bill("rail-only"))) == ""
    assert unpriced_words(differences(bill("rail-only"), bill("rail-only"))) == ""
    racks = PartDifference("racks", "racks", "", 1, 0, 0.0, 0.0, 1, 0)
    fibre = PartDifference("cables", "cables", "", 0, 1, 0.0, 0.0, 0, 1)
    assert bound_of((racks, fibre)) == "? "
    assert unpriced_words((racks, fibre)) == "1 rack fewer and 1 cable more"


def test_two_currencies_are_refused() -> None:
    with pytest.raises(InputError, match="bills in USD and in EUR"):
        differences(bill("rail-only"), bill("rail-only", currency="EUR"))
