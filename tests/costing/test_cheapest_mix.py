"""Cheapest mixes against every mix there is, and sums worked out by hand."""

from itertools import product
from math import inf, nan

import numpy as np
import pytest

from netplan.costing.offers import (
    Bought,
    Market,
    Offer,
    OfferedLine,
    Request,
    RequestLine,
    cheapest_mix,
    front,
)


def request(*lots: tuple[str, int]) -> Request:
    """A request with a line for each lot and number of units."""
    lines = (
        RequestLine(f"L-{number}", lot, "", (), lot, "each", units, 0)
        for number, (lot, units) in enumerate(lots)
    )
    return Request("", tuple(lines))


def by_hand(market: Market, chosen: tuple[int, ...]) -> float:
    """What a choice costs: each order alone, its own words taken one by one."""
    return sum(order(market, chosen, number) for number in {*chosen} - {-1})


def order(market: Market, chosen: tuple[int, ...], number: int) -> float:
    lines, offer = market.request.lines, market.offers[number]
    price = {}
    for line, one in zip(lines, chosen, strict=True):
        if one == number:
            found = offer.lines[line.id]
            price[line.id] = max(line.order, found.minimum) * found.unit_price * found.rate
    goods = sum(price.values())
    off = 0.0
    for lot, share in offer.lot_discounts.items():
        whole = [line.id for line in lines if line.lot == lot]
        if whole and all(one in price for one in whole):
            off += share * sum(price[one] for one in whole)
    start = offer.discount_from
    if len(price) == len(lines) if start is None else goods >= start * (1 - 1e-9):
        off += offer.discount * (goods - off)
    return goods - off + offer.delivery


def random_market(seed: int) -> Market:
    """Three suppliers, five lines, two lots, all kinds of terms."""
    rng = np.random.default_rng(seed)
    asked = request(
        *(("A" if number < 3 else "B", int(rng.integers(1, 30))) for number in range(5))
    )
    offers = []
    for name in "abc":
        lines = {
            line.id: OfferedLine(
                "",
                float(rng.integers(5, 40)),
                "USD",
                1.0,
                minimum=int(rng.integers(0, 40)) if rng.random() < 0.3 else 0,
                lead_weeks=None if rng.random() < 0.1 else float(rng.integers(1, 9)),
            )
            for line in asked.lines
            if rng.random() < 0.85
        }
        offers.append(
            Offer(
                name,
                name,
                lines,
                {"A": 0.1 * int(rng.integers(0, 3)), "B": 0.15 * int(rng.integers(0, 2))},
                discount=0.1 * int(rng.integers(0, 3)),
                discount_from=None if rng.random() < 0.3 else float(rng.integers(0, 1500)),
                delivery=float(rng.choice([0.0, 0.0, 100.0])),
            )
        )
    return Market.of(asked, offers)


def every_choice(market: Market, weeks: float = inf) -> list[tuple[int, ...]]:
    ways = []
    for row in range(len(market.request.lines)):
        able = [
            number
            for number, lead in enumerate(market.weeks[row])
            if not np.isnan(market.cost[row, number]) and (weeks == inf or lead <= weeks)
        ]
        ways.append(able if row in market.needed else [-1])
    return list(product(*ways))


@pytest.mark.parametrize("seed", range(25))
def test_the_cheapest_mix_is_that_of_all_mixes(seed: int) -> None:
    market = random_market(seed)
    for weeks, most in ((inf, None), (5.0, None), (inf, 2)):
        totals = [
            by_hand(market, one)
            for one in every_choice(market, weeks)
            if most is None or len({*one} - {-1}) <= most
        ]
        found = cheapest_mix(market, weeks=weeks, most_offers=most)
        if not totals:
            assert found is None
            continue
        assert found is not None
        assert found.total == pytest.approx(min(totals), rel=1e-9)
        assert found.total == pytest.approx(by_hand(market, found.chosen), rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_front_is_what_every_lead_time_costs_at_least(seed: int) -> None:
    market = random_market(seed)
    found = [one for one in front(market) if one.weeks is not None]
    for one in found:
        assert one.weeks is not None
        totals = [by_hand(market, other) for other in every_choice(market, one.weeks)]
        assert one.total == pytest.approx(min(totals), rel=1e-9)
    weeks = [one.weeks for one in found]
    assert weeks == sorted(weeks, key=lambda one: -(one or 0))
    assert [one.total for one in found] == sorted(one.total for one in found)


def two_lines(*offers: Offer) -> Bought:
    """The cheapest mix of 10 switches and 100 optics."""
    found = cheapest_mix(Market.of(request(("Switches", 10), ("Optics", 100)), offers))
    assert found is not None
    return found


def offer(name: str, switch: float = nan, optic: float = nan, **terms: object) -> Offer:
    prices = {"L-0": switch, "L-1": optic}
    lines = {
        one: OfferedLine("", price, "USD", 1.0)
        for one, price in prices.items()
        if not np.isnan(price)
    }
    return Offer(name, name, lines, **terms)  # type: ignore[arg-type]


def test_terms_one_by_one() -> None:
    # a: 10 x 1,000 + 100 x 50 = 15,000; b: 10 x 1,100 + 100 x 40 = 15,000.
    a, b = offer("a", 1000, 50), offer("b", 1100, 40)
    # Switches of a, optics of b: 10,000 + 4,000.
    assert two_lines(a, b).total == 14_000
    # A tenth off all of a if it is whole: 13,500.
    assert two_lines(offer("a", 1000, 50, discount=0.1), b).chosen == (0, 0)
    # A quarter off from 4,000 on at b: optics for 3,000; just out of reach from 4,001 on.
    reached = offer("b", 1100, 40, discount=0.25, discount_from=4000.0)
    assert two_lines(a, reached).total == pytest.approx(11_250)  # both: 15,000 x 0.75
    assert two_lines(offer("a", 700, 50), reached).total == pytest.approx(7_000 + 3_000)
    missed = offer("b", 1100, 40, discount=0.25, discount_from=4001.0)
    assert two_lines(offer("a", 700, 50), missed).total == pytest.approx(11_000)
    # Delivery of 1,500 by b is more than the 1,000 that its optics save.
    assert two_lines(a, offer("b", 1100, 40, delivery=1500.0)).chosen == (0, 0)
    # A lot at 20 % off: optics of a for 4,000 as those of b, and 1 % more off wins.
    assert two_lines(offer("a", 1000, 50, lot_discounts={"Optics": 0.21}), b).total == 13_950


def test_one_offer_is_preferred_to_two_that_cost_the_same() -> None:
    same = [offer(name, 1000, 50) for name in "abc"]
    assert len(two_lines(*same).offers) == 1
    # 10 x 1e7 + 100 x 1e4: one in ten million less for the optics of b.
    close = two_lines(offer("a", 1e7, 1e4), offer("b", 2e7, 1e4 - 0.1))
    assert close.chosen == (0, 1)
    assert close.total == pytest.approx(101e6 - 10, abs=1e-6)


def test_a_minimum_order_is_paid_whole() -> None:
    lines = {"L-0": OfferedLine("", 1000, "USD", 1.0), "L-1": OfferedLine("", 40, "USD", 1.0, 200)}
    found = two_lines(offer("a", 1000, 50), Offer("b", "b", lines))
    # 200 x 40 = 8,000 for the 100 that are asked for, against 100 x 50.
    assert found.total == 15_000
    assert found.chosen[1] == 0


def test_a_currency_counts_at_its_rate() -> None:
    euros = {"L-0": OfferedLine("", 900, "EUR", 1.1), "L-1": OfferedLine("", 45, "EUR", 1.1)}
    found = two_lines(offer("a", 1000, 50), Offer("b", "b", euros))
    # 900 EUR are 990 USD, 45 EUR are 49.50.
    assert found.total == pytest.approx(9_900 + 4_950)


def test_a_part_that_nobody_accepts_is_not_offered() -> None:
    lines = {"L-0": OfferedLine("X", 1, "USD", 1.0, accepted=False)}
    found = two_lines(offer("a", 1000, 50), Offer("b", "b", lines))
    assert found.chosen == (0, 0)


def test_a_line_without_any_offer_makes_no_lot_and_no_order_whole() -> None:
    found = two_lines(offer("a", 1000, discount=0.5))
    assert (found.total, found.chosen) == (10_000, (0, -1))


def test_lead_time_is_that_of_the_slowest_line() -> None:
    lines = {
        "L-0": OfferedLine("", 1, "USD", 1.0, lead_weeks=12.0),
        "L-1": OfferedLine("", 1, "USD", 1.0, lead_weeks=30.0),
    }
    found = two_lines(Offer("a", "a", lines))
    assert (found.weeks, found.binding) == (30.0, ("L-1",))
    unsaid = lines | {"L-0": OfferedLine("", 1, "USD", 1.0)}
    found = two_lines(Offer("a", "a", unsaid))
    assert (found.weeks, found.binding) == (None, ("L-1",))
