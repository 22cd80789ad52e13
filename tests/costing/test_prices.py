"""Price books: breaks, currencies, discount, and what they refuse."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import netplan
from netplan.catalog import check_file
from netplan.costing.prices import PRICE_BOOKS, Break, LentPrice, Price, PriceBook
from netplan.costing.ranges import Range
from netplan.errors import CatalogError, NetplanError


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


def test_other_speeds_stand_in_for_parts_that_the_book_prices_at_some_rate() -> None:
    mine = book(row(), row(part="fibre", speed_gbps=None))
    other = book(
        row(base=5),  # mine has it
        row(speed_gbps=800, base=1399),
        row(speed_gbps=800, part="switch", model="q3400"),  # one model
        row(speed_gbps=800, part="nic_port", unit="USD/port"),  # mine has no cards
        row(part="rack", speed_gbps=None),
        row(speed_gbps=200, unit="EUR/each"),  # mine has no rate for it
        name="other",
        rates={"EUR": {"per_usd": 0.9, "date": "2026", "source": "a bank"}},
    )
    lent = mine.with_speeds_of(other)
    assert [(one.part, one.speed_gbps, one.base) for one in lent.prices] == [
        ("transceiver", 400, 600),
        ("fibre", None, 600),
        ("transceiver", 800, 1399),
    ]
    assert isinstance(lent.price("transceiver", 800), LentPrice)
    assert not isinstance(lent.price("transceiver", 400), LentPrice)


def test_lent_rows_keep_the_discount_of_their_book() -> None:
    other = book(row(speed_gbps=800, base=1000), name="other", discount=0.25)
    lent = book(row(base=600), discount=0.1).with_speeds_of(other)
    found = [lent.offer(one).base for one in lent.prices]
    assert found == pytest.approx([600 * 0.9, 1000 * 0.75 * 0.9])


def test_another_book_may_stand_in() -> None:
    with pytest.raises(NetplanError, match="nosuch"):
        PRICE_BOOKS.load("rail-only-2023", (), {"prices.other_speeds": "nosuch"})
    none = PRICE_BOOKS.load("rail-only-2023", (), {"prices.other_speeds": "rail-only-2023"})
    assert not any(isinstance(one, LentPrice) for one in none.prices)
    usual = PRICE_BOOKS.load("rail-only-2023")
    assert any(isinstance(one, LentPrice) for one in usual.prices)


@pytest.mark.parametrize("gpus", [576, 1152, 2304, 4608, 10_368, 41_472])
def test_the_sizes_of_today_have_a_price_by_default(gpus: int) -> None:
    size: dict[str, Any] = {"gpus": gpus, "radix": 144, "hb_size": 72, "accelerator": "b200"}
    answer = netplan.compare(
        "rail-only-paper", **size, fabrics=("rail-optimized", "rail-only"), timing=False
    )
    assert "prices rail-only-2023 and 2026 for 800G" in answer.text(width=200, details=True)
    for fabric in answer.to_dict()["fabrics"]:
        # MixNet, Appendix D, Table 4: 1,400 USD a switch port, 1,399 USD a transceiver.
        by_hand = 144 * fabric["switches"] * 1400 + fabric["transceivers"] * 1399
        assert fabric["cost"]["base"] == by_hand
        assert fabric["cost_complete"]
        (said,) = (note for note in fabric["notes"] if "800 Gb/s" in note)
        assert said == (
            "rail-only-2023 has no prices at 800 Gb/s: switch ports and transceivers at those of"
            " 2026 (MixNet (ACM SIGCOMM 2025, arXiv:2501.03905), Appendix D, Table 4, 2025)."
        )
    bill = netplan.cost("rail-only-paper", **size, fabrics=("rail-optimized",))
    bills, rows = bill.to_dict()["fabrics"], answer.to_dict()["fabrics"]
    assert bills[0]["cost"]["base"] == rows[0]["cost"]["base"]


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


def test_a_lent_price_is_replaced_as_if_it_were_the_book_s_own(tmp_path: Path) -> None:
    folder = tmp_path / "costing" / "prices"
    folder.mkdir(parents=True)
    text = (
        "name: mine\ntitle: Mine\nsource: offers\ndate: '2026'\ncurrency: USD\nother_speeds: {}\n"
        "prices:\n  - {{part: transceiver, speed_gbps: 400, unit: USD/each, base: 1, date: '2026',"
        " source: an offer, confidence: low}}\n"
    )
    (folder / "mine.yaml").write_text(text.format("'2026'"))
    loaded = PRICE_BOOKS.load("mine", (tmp_path,), {"mine.prices.transceiver@800.base": "7"})
    found = loaded.price("transceiver", 800)
    assert found is not None
    assert (found.base, found.speed_gbps) == (7, 800)
    today: dict[str, Any] = {"gpus": 576, "radix": 144, "hb_size": 72, "accelerator": "b200"}
    (fabric,) = netplan.compare(
        "rail-only-paper",
        **today,
        fabrics=("rail-only",),
        timing=False,
        overrides={
            "prices.prices.transceiver@800.base": "1000",
            "prices.prices.transceiver@400.base": "2",
        },
    ).rows
    # Four switches of 144 ports at 1,400 USD, 1,152 modules.
    assert fabric.cost == Range.point(4 * 144 * 1400 + 1152 * 1000)
    (folder / "mine.yaml").write_text(text.format("nosuch"))
    with pytest.raises(NetplanError, match="nosuch"):
        PRICE_BOOKS.load("mine", (tmp_path,))


def test_a_book_that_lends_at_two_rates_is_named_once() -> None:
    # Four ports of a torus share 800 Gb/s.
    size: dict[str, Any] = {"gpus": 10_368, "radix": 144, "hb_size": 72, "accelerator": "b200"}
    answer = netplan.compare(
        "rail-only-paper", **size, fabrics=("rail-only", "torus-2d"), timing=False
    )
    assert "prices rail-only-2023 and 2026 for 200G and 800G," in answer.text(
        width=200, details=True
    )
