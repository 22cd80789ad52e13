"""Price books: breaks, currencies, discount, and what they refuse."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import netplan
from netplan.catalog import check_file
from netplan.costing.prices import PRICE_BOOKS, Break, Price, PriceBook
from netplan.costing.ranges import Range
from netplan.errors import CatalogError


def row(**changes: Any) -> Price:  # noqa: ANN401 - any key of a row
    """Make a row of a price book."""
    keys: dict[str, Any] = {
        "part": "transceiver",
        "speed_gbps": 400,
        "unit": "USD/each",
        "base": 600,
        "date": "2026",
        "source": "an offer",
        "confidence": "low",
    }
    return Price.read(keys | changes)


def book(*rows: Price, **changes: Any) -> PriceBook:  # noqa: ANN401 - any key of a book
    """Make a price book."""
    keys: dict[str, Any] = {
        "name": "mine",
        "title": "Mine",
        "source": "offers",
        "date": "2026",
        "currency": "USD",
        "prices": [price.to_dict() for price in rows],
    }
    return PriceBook.read(keys | changes)


EUR = {"EUR": {"per_usd": 0.8, "date": "2026-01-02", "source": "ECB"}}


def test_the_order_is_break_discount_rate() -> None:
    # 10,000 units: 500 instead of 600, so low 300 becomes 250; less 10 %, in EUR 0.8 a USD:
    # 250 x 0.9 x 0.8 = 180, 500 x 0.72 = 360.
    price = row(low=300, breaks=[Break(quantity=10_000, price=500)])
    offers = book(price, rates=EUR, discount=0.1)
    assert offers.offer(price, 9_999).base == pytest.approx(540)
    offer = offers.offer(price, 10_000, "EUR")
    assert (offer.low, offer.base, offer.high) == pytest.approx((180, 360, 360))


def test_a_row_in_another_currency_is_converted() -> None:
    price = row(unit="EUR/each", base=400)
    # 400 EUR at 0.8 EUR for a USD are 500 USD.
    assert book(price, rates=EUR).offer(price).base == pytest.approx(500)


def test_a_book_in_another_currency() -> None:
    rates = EUR | {"JPY": {"per_usd": 160, "date": "2026-01-02", "source": "ECB"}}
    price = row(unit="EUR/each", base=400)
    offers = book(price, currency="EUR", rates=rates)
    # 400 EUR = 500 USD = 80,000 JPY.
    assert offers.offer(price, 1, "JPY").base == pytest.approx(80_000)
    assert offers.offer(price, 1, "USD").base == pytest.approx(500)


def test_the_shipped_rate_is_the_published_one() -> None:
    # ECB, 28 February 2025: 1 EUR = 1.0411 USD.
    assert PRICE_BOOKS.load("2026").exchange("EUR", "USD") == pytest.approx(1.0411, rel=1e-12)


def test_no_rate_is_one_clear_line() -> None:
    with pytest.raises(CatalogError, match="no rate from USD to CHF: known: USD, EUR; add CHF"):
        book(row(), rates=EUR).exchange("USD", "CHF")


@given(
    st.floats(0.01, 1e6),
    st.lists(
        st.tuples(st.integers(2, 10**6), st.floats(0.1, 1)), max_size=4, unique_by=lambda t: t[0]
    ),
    st.integers(1, 10**7),
    st.integers(1, 10**7),
)
def test_a_larger_order_never_pays_more_a_unit(
    base: float, steps: list[tuple[int, float]], few: int, many: int
) -> None:
    breaks, price = [], base
    for quantity, factor in sorted(steps):
        price *= factor
        breaks.append(Break(quantity=quantity, price=price))
    tiered = row(base=base, low=base / 2, high=base * 2, breaks=breaks)
    one, two = tiered.range_at(min(few, many)), tiered.range_at(max(few, many))
    assert (two.low, two.base, two.high) <= (one.low, one.base, one.high)
    assert two.low <= two.base <= two.high


def test_price_of_a_model_stands_apart() -> None:
    whole = row(part="switch", model="qm9700", base=50_000)
    port = row(part="switch_port", unit="USD/port", base=781)
    offers = book(whole, port)
    assert offers.price("switch", 400, "qm9700") == whole
    assert offers.price("switch", 400, "qm9790") is None
    assert offers.price("switch_port", 400) == port


def test_parts_without_a_speed() -> None:
    fibre = row(part="fibre", speed_gbps=None, base=30)
    assert book(fibre).price("fibre", 400) == fibre


BOOK = """\
name: mine
title: Mine
source: an offer
date: "2026"
currency: USD
prices:
  - {part: transceiver, speed_gbps: 400, unit: USD/each, base: 600,
     date: "2026", source: x, confidence: low}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("base: 600", "base: -600", "got -600"),
        ("base: 600", "base: .nan", "prices.0.base"),
        ("USD/each", "USD/port", "unit must be 'USD/each', got 'USD/port'"),
        ("USD/each", "EUR/each", "the book has no rate for EUR: add one under rates"),
        ("USD/each", "=1+1", "unit must be 'USD/each', got '=1+1'"),
        ("currency: USD", "currency: =1+1", "currency: got '=1+1'"),
        ("currency: USD", "currency: USD\ndiscount: 1", "discount: got 1"),
        ("currency: USD", "currency: USD\ndiscount: -0.1", "discount: got -0.1"),
        (
            "currency: USD",
            "currency: USD\nrates: {EUR: {per_usd: 0, date: x, source: x}}",
            "rates.EUR.per_usd: got 0",
        ),
        ("currency: USD", "currency: USD\nrates: {EUR: {per_usd: 1}}", "rates.EUR.date is missing"),
        ("base: 600", "base: 600, breaks: [{quantity: 5, price: 700}]", "lower prices"),
        ("base: 600", "base: 600, breaks: [{quantity: 1, price: 500}]", "larger quantities"),
        ("base: 600", "base: 600, breaks: [{quantity: 0, price: 500}]", "quantity: got 0"),
        ("part: transceiver, speed_gbps: 400", "part: transceiver", "needs a speed_gbps"),
        ("part: transceiver", "part: fibre", "fibre at 400 Gb/s has no speed_gbps"),
        ("part: transceiver", "part: optics", "got 'optics'"),
    ],
)
def test_wrong_books_are_refused_with_file_and_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(BOOK.replace(old, new), encoding="utf-8")
    error = check_file(PRICE_BOOKS, path)
    assert error is not None
    assert error.startswith(f"{path}:")
    assert message in error


def test_ranges_add_and_multiply() -> None:
    assert 3 * Range(1, 2, 3) + Range.point(1) == Range(4, 7, 10)
    assert Range(1, 2, 3).product(Range(2, 2, 2)) == Range(2, 4, 6)


@pytest.mark.parametrize("gpus", [576, 4608, 41_472])
def test_no_bill_has_prices_of_two_books(gpus: int) -> None:
    # The paper's book has 400 Gb/s alone: at 800 nothing is lent, and the book of 2026 has all.
    size: dict[str, Any] = {"gpus": gpus, "radix": 144, "hb_size": 72, "accelerator": "b200"}
    fabrics = ("rail-optimized", "rail-only")
    paper, today = (
        netplan.compare("rail-only-paper", **size, fabrics=fabrics, timing=False, prices=name)
        for name in ("rail-only-2023", "2026")
    )
    assert all(fabric["cost"] is None for fabric in paper.to_dict()["fabrics"])
    assert all(fabric["cost_complete"] for fabric in today.to_dict()["fabrics"])
    assert "rail-only-2023" not in today.text(width=200, details=True)


def test_the_paper_s_own_rate_and_other_books_are_as_they_were() -> None:
    size: dict[str, Any] = {"gpus": 32_768, "radix": 128, "hb_size": 256, "timing": False}
    (row_,) = netplan.compare("rail-only-paper", **size, fabrics=("rail-only",)).rows
    assert row_.cost == Range.point(49_020_928)  # Table 2
    assert not [note for note in row_.notes if "has no prices" in note]
    slower = {"accelerator.network_bytes_per_s": "37.5e9"}  # 300 Gb/s: no book has it
    (row_,) = netplan.compare(
        "rail-only-paper", **size, fabrics=("rail-only",), overrides=slower
    ).rows
    assert row_.cost is None
