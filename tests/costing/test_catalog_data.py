"""The shipped price and power books: they load, and their numbers are the published ones."""

import re
from pathlib import Path
from statistics import linear_regression, median
from typing import get_args

import pytest

from netplan.catalog import Catalog, Record, check_file, shipped_root
from netplan.costing.cabling import (
    CABLING_BOOKS,
    CablingBook,
    Card,
    Length,
    Module,
    PricedCable,
    Racks,
)
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook
from netplan.costing.prices import (
    POWER_BOOKS,
    PRICE_BOOKS,
    US_DOLLAR,
    Break,
    Part,
    PartPower,
    PerMetre,
    PowerBook,
    Price,
    PriceBook,
    Quoted,
    Rate,
)
from netplan.costing.quotations import QuotationRow, quotations
from netplan.costing.switches import SWITCHES, Breakout, SwitchModel
from netplan.workloads.accelerators import ACCELERATORS

README = (shipped_root() / "costing" / "README.md").read_text(encoding="utf-8")
PRICES = [(name, price) for name in PRICE_BOOKS.paths() for price in PRICE_BOOKS.load(name).prices]
SHELVES: tuple[Catalog[Record], ...] = (
    PRICE_BOOKS,  # type: ignore[assignment]
    POWER_BOOKS,
    SWITCHES,
    CABLING_BOOKS,
    ECONOMICS_BOOKS,
)
FILES = [(shelf, path) for shelf in SHELVES for path in shelf.paths().values()]
SCHEMAS = (
    *(Price, PriceBook, PerMetre, Quoted, Rate, Break, PartPower, PowerBook, SwitchModel, Breakout),
    *(CablingBook, PricedCable, Card, Length, Module, Racks, EconomicsBook),
)
COMMON_PARTS: tuple[Part, ...] = ("switch_port", "transceiver", "copper_cable", "nic_port")
DRAWS = [(name, draw) for name in POWER_BOOKS.paths() for draw in POWER_BOOKS.load(name).draws]


def price_id(value: object) -> str:
    """Name a row in the test report."""
    if isinstance(value, Price):
        return value.what
    if isinstance(value, PartPower):
        return f"{value.part}-{value.speed_gbps:g}"
    return str(value)


@pytest.mark.parametrize(("shelf", "path"), FILES, ids=lambda value: getattr(value, "stem", None))
def test_file_is_sound(shelf: Catalog[Record], path: Path) -> None:
    assert check_file(shelf, path) is None


def test_readme_names_every_file_and_every_key() -> None:
    words = {f"{path.parent.name}/{path.stem}" for _, path in FILES}
    words |= {key for schema in SCHEMAS for key in schema.__struct_fields__}
    assert [word for word in sorted(words) if f"`{word}`" not in README] == []


# --- prices ---------------------------------------------------------------------------------


def test_rail_only_book_has_the_two_prices_of_the_paper() -> None:
    # arXiv:2307.12169, footnote 1: "$374 per transceiver, $748 per switch port for 400 Gbps".
    book = PRICE_BOOKS.load("rail-only-2023")
    assert len([row for row in book.prices if row.speed_gbps == 400]) == 2
    port, transceiver = book.price("switch_port", 400), book.price("transceiver", 400)
    assert port is not None
    assert transceiver is not None
    assert (port.low, port.base, port.high) == (None, 748, None)
    assert (transceiver.low, transceiver.base, transceiver.high) == (None, 374, None)


def test_rail_only_book_gives_table_2() -> None:
    # 32,768 GPUs, radix 64: 2,560 against 1,536 switches, 196,608 against 131,072 transceivers.
    # 64 * 748 * 2560 + 374 * 196608 = 196,083,712; 64 * 748 * 1536 + 374 * 131072 = 122,552,320.
    book = PRICE_BOOKS.load("rail-only-2023")
    port, transceiver = book.price("switch_port", 400), book.price("transceiver", 400)
    assert port is not None
    assert transceiver is not None
    rail_optimized = 64 * 2560 * port.base + 196_608 * transceiver.base
    rail_only = 64 * 1536 * port.base + 131_072 * transceiver.base
    assert rail_optimized == 196_083_712
    assert rail_only == 122_552_320
    assert 1 - rail_only / rail_optimized == pytest.approx(0.375)  # printed as 37 %


@pytest.mark.parametrize(
    ("part", "speed_gbps", "kind", "expected"),
    [
        ("switch", 400, "64x400g", (36_000, 50_000, 69_760)),  # 64 x 1,090
        ("switch", 400, "128x400g", (80_000, 85_000, 200_000)),  # six boxes of 51.2 Tb/s
        ("switch", 800, "128x800g", (160_000, 180_000, 400_000)),
        ("switch", 800, "q3450", (241_200, 334_800, 533_200)),  # 201,600 + 72 x 1,850
        ("switch_port", 400, "", (562.5, 781.25, 1090)),  # 36,000 / 64, 50,000 / 64
        ("transceiver", 100, "", (39.9, 69.45, 99)),  # (39.9 + 99) / 2
        ("transceiver", 400, "", (368.94, 611.95, 1156)),  # (549 + 674.9) / 2
        ("transceiver", 800, "", (699, 1224.5, 3067)),  # (1,199 + 1,250) / 2
        ("transceiver", 800, "800g-sr", (799, 889, 999)),  # (879 + 899) / 2
        ("transceiver", 400, "800g-sr", (399.5, 444.5, 499.5)),
        ("transceiver", 800, "800g-lpo", (700, 1650, 1800)),  # list: (1,500 + 1,800) / 2
        ("transceiver", 800, "1600g", (425, 925, 925)),  # 1,850 / 2
        ("nic_port", 800, "", (2248, 2519, 4500)),
        (
            "accelerator",
            None,
            "gb200",
            (37_869.1, 43_321.3, 48_782.6),
        ),  # 3.75 M / 72 - 7,263 - 1,499
    ],
)
def test_prices_of_2026(
    part: Part, speed_gbps: float | None, kind: str, expected: tuple[float, float, float]
) -> None:
    price = PRICE_BOOKS.load("2026").price(part, speed_gbps, kind)
    assert price is not None
    assert (price.low, price.base, price.high) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("part", "speed_gbps", "kind", "length_m", "expected"),
    [
        # Low 70 + 2.5 L, base 74.17 + 7.817 L, high 1.4 times it.
        ("fibre", None, "mpo-multimode", 15, (107.5, 191.4, 268.0)),
        ("fibre", None, "mpo-multimode", 30, (145.0, 308.7, 432.2)),
        ("fibre", None, "mpo-multimode", 50, (195.0, 465.0, 651.0)),
        # 107.06 + 2.866 L, and 1.4 times less and more.
        ("fibre", None, "mpo-singlemode", 15, (107.2, 150.1, 210.1)),
        ("fibre", None, "mpo-singlemode", 30, (137.9, 193.0, 270.3)),
        ("fibre", None, "mpo-singlemode", 50, (178.8, 250.4, 350.5)),
        ("fibre", None, "lc-singlemode", 30, (72.9, 102.0, 142.8)),  # 19.5 + 82.5
        ("copper_cable", 800, "", 2, (168.6, 236.0, 440.0)),  # 136 + 50 L; 260 + 90 L
        ("copper_cable", 400, "", 2, (118.0, 149.5, 260.0)),  # 299 / 2; 68 + 25 L; 150 + 55 L
        # Half of 1,486.28 + 138.966 L, and of 850 + 110 L.
        ("active_copper_cable", 400, "", 3, (590.0, 951.6, 1332.2)),
        ("active_copper_cable", 800, "", 7, (1620.0, 2459.0, 3442.7)),
        # The middle of 1,136 - 3 x 138.966 and 1,536 - 5 x 138.966 is 780.1.
        ("active_copper_cable", 400, "acc", 3, (427.5, 598.5, 837.9)),
        ("optical_cable", 400, "", 3, (689.1, 858.0, 1029.6)),  # (705 + 1,011) / 2 at 3 m
    ],
)
def test_cables_cost_by_their_length(
    part: Part,
    speed_gbps: float | None,
    kind: str,
    length_m: float,
    expected: tuple[float, float, float],
) -> None:
    book = PRICE_BOOKS.load("2026")
    price = book.price(part, speed_gbps, kind)
    assert price is not None
    offer = book.offer(price, length_m=length_m)
    assert (offer.low, offer.base, offer.high) == pytest.approx(expected, rel=1e-3)


def quotations_of(part: str, quoted: Quoted) -> list[QuotationRow]:
    """Quotations in US dollars that a price row is taken from, which may be planned with."""
    return [
        row
        for row in quotations()
        if (row.part, row.kind, row.currency) == (part, quoted.kind, US_DOLLAR)
        and row.use == "plan"
        and row.model in quoted.of
        and row.speed_gbps == quoted.speed_gbps
    ]


def quoted_price(part: str, quoted: Quoted) -> float:
    """Median price of one unit of a price row."""
    prices = [row.price for row in quotations_of(part, quoted) if row.price is not None]
    return median(prices) / quoted.units


def quoted_line(part: str, quoted: Quoted) -> tuple[float, float]:
    """Price at no length, and of every metre, by least squares."""
    rows = quotations_of(part, quoted)
    lengths = [row.length_m or 0.0 for row in rows]
    fit = linear_regression(lengths, [row.price or 0.0 for row in rows])
    return fit.intercept / quoted.units, fit.slope / quoted.units


@pytest.mark.parametrize(
    "price", [row for row in PRICE_BOOKS.load("2026").prices if row.quoted], ids=price_id
)
def test_no_median_and_no_line_is_typed_without_its_quotations(price: Price) -> None:
    quoted = price.quoted
    assert quoted is not None
    # A copper cable of 100G has three equal prices, of which no line can be made.
    if price.per_metre is None or price.assumption:
        assert price.base == pytest.approx(quoted_price(price.part, quoted), abs=0.006)
    else:
        a, b = quoted_line(price.part, quoted)
        assert (price.base, price.per_metre.base) == pytest.approx((a, b), rel=1e-4)
    rows = quotations_of(price.part, quoted)
    assert len(rows) == quoted.count
    asked = [end for row in rows for end in (row.low, row.price, row.high) if end is not None]
    if price.evidence == "shipping" and price.per_metre is None:
        assert (price.low or price.base) <= min(asked) / quoted.units + 0.006
        assert (price.high or price.base) >= max(asked) / quoted.units - 0.006


def test_every_row_of_a_book_says_what_it_is_made_of() -> None:
    assert [row.what for _, row in PRICES if row.evidence is None] == []
    assert not [row.id for row in quotations() if not row.date or not row.source]


def test_the_book_of_2026_says_how_old_its_sources_are() -> None:
    book = PRICE_BOOKS.load("2026")
    assert re.search("2026.* 2023 .*2026", book.title)
    assert {price.date[:4] for price in book.prices} == {"2023", "2024", "2025", "2026"}


def test_the_book_of_2026_has_every_part_at_common_speeds() -> None:
    book = PRICE_BOOKS.load("2026")
    for part in COMMON_PARTS:
        assert all(book.price(part, speed) for speed in (200, 400, 800))


@pytest.mark.parametrize(
    ("part", "kind", "expected"),
    [
        # A rack of 72 x 900 = 64,800 GB/s: trays of 300,000 to 450,000 USD are 4.63 to 6.94 a
        # GB/s, copper of 80,000 to 216,000 is 1.23 to 3.33.
        ("hb_gear", "hb-switch", (4.63, 5.79, 6.94)),
        ("hb_gear", "hb-copper", (1.23, 2.28, 3.33)),
        # The ASIC alone: 0.5, 0.6, 0.7 of that. Two modules of 1.6T: 8.5 to 18.5, and 1.1 of fibre.
        ("hb_gear", "hb-board", (2.315, 3.474, 4.858)),
        ("hb_gear", "hb-optic", (8.5 + 1.1, 15 + 1.1, 18.5 + 1.1)),
    ],
)
def test_prices_of_kinds(
    part: Part, kind: str, expected: tuple[float | None, float, float | None]
) -> None:
    price = PRICE_BOOKS.load("2026").price(part, None, kind)
    assert price is not None
    assert (price.low, price.base, price.high) == expected


def test_ends_of_a_range_are_quotations_unless_they_are_derived() -> None:
    # A low, a base or a high that no source has is nobody's price.
    prices = PRICE_BOOKS.load("2026").prices
    assert sum(bool(row.sources or row.quoted) for row in prices) > len(prices) / 3
    for price in prices:
        if price.sources and not price.derived and not price.assumption:
            quoted = [one.price for one in price.sources]
            for end in (price.low, price.base, price.high):
                assert end is None or end == pytest.approx(
                    min(quoted, key=lambda one: abs(one - end)), rel=1e-3
                ), price.what


@pytest.mark.parametrize(("book", "price"), PRICES, ids=price_id)
def test_price_is_in_order_and_has_a_source(book: str, price: Price) -> None:
    low = price.base if price.low is None else price.low
    high = price.base if price.high is None else price.high
    assert low <= price.base <= high, book
    assert low > 0 or price.assumption, book
    assert price.source
    assert re.fullmatch(r"20\d\d(-[01]\d)?", price.date)


@pytest.mark.parametrize(("book", "price"), PRICES, ids=price_id)
def test_no_rejected_price_came_in(book: str, price: Price) -> None:
    # One offer asked 250,000 USD for a 64-port 400G switch: 3,906 USD a port.
    if price.part == "switch_port" and price.speed_gbps == 400:
        assert (price.high or price.base) < 250_000 / 64 / 2, book


@pytest.mark.parametrize("part", get_args(Part))
def test_faster_is_never_cheaper(part: Part) -> None:
    book = PRICE_BOOKS.load("2026")
    rows = sorted(
        (row.speed_gbps or 0, row.base)
        for row in book.prices
        if row.part == part and (not row.model or row.speed_gbps is None)
    )
    bases = [base for _, base in rows]
    assert bases == sorted(bases)


# --- power ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "speed_gbps", "typical_w", "max_w"),
    [
        ("switch_port", 200, 250 / 64, None),
        ("switch_port", 400, 940 / 128, None),
        ("switch_port", 800, 940 / 64, None),
        ("transceiver", 400, 16 / 2, 9),  # a switch's half module has 17/2 at most, a card's own 9
        ("transceiver", 800, 25 / 2, 17),  # half of two ends in a module of 25 W
        ("switch_port", 1, 98 / 48, None),
        ("switch_port", 100, 466 / 64, None),
        ("transceiver", 100, 3.5, 3.5),
        ("copper_cable", 200, 0.1, 0.1),
        ("nic_port", 400, 24.9, None),
    ],
)
def test_power_of_2026(
    part: Part, speed_gbps: float, typical_w: float, max_w: float | None
) -> None:
    draw = POWER_BOOKS.load("2026").draw(part, speed_gbps)
    assert draw is not None
    assert draw.typical_w == pytest.approx(typical_w, rel=1e-4)
    assert draw.max_w == max_w


@pytest.mark.parametrize(("book", "draw"), DRAWS, ids=price_id)
def test_power_has_a_source_and_a_date(book: str, draw: PartPower) -> None:
    assert draw.source, book
    assert re.fullmatch(r"20\d\d(-[01]\d)?", draw.date)


def test_power_book_has_each_part_and_speed_once() -> None:
    rows = [(draw.part, draw.speed_gbps) for draw in POWER_BOOKS.load("2026").draws]
    assert len(rows) == len(set(rows))


# --- economics ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chip", "model", "count"),
    [
        ("h100-80gb", "h100", 8),  # 2.245, 2.95, 2.95, 2.99, 3.00, 3.49, 4.25, 6.88: 2.995
        ("h200", "h200", 12),  # the middle of 3.00 and 3.50
        ("b200", "b200", 2),  # (4.99 + 5.50) / 2
        ("a100-80gb", "a100-80gb", 3),
        ("mi300x", "mi300x", 5),
        ("gh200-96gb", "gh200", 1),
    ],
)
def test_gpu_hours_are_medians_of_rents(chip: str, model: str, count: int) -> None:
    quoted = Quoted(kind="rental", of=(model,), count=count)
    assert len(quotations_of("gpu_hour", quoted)) == count
    hour = ECONOMICS_BOOKS.load("2026").gpu_hours[chip]
    assert hour.base == pytest.approx(quoted_price("gpu_hour", quoted))
    assert hour.evidence == "shipping"


def test_hours_of_other_gpus_go_with_the_power_of_their_rate() -> None:
    # 3.016 USD x 2.307^(2/3) = 3.016 x 1.746 = 5.27 for a TPU v7; half and twice beside it.
    book = ECONOMICS_BOOKS.load("2026")
    hour = book.hour_of(ACCELERATORS.load("tpu-v7"))
    assert hour is not None
    assert (hour.low, hour.base, hour.high) == pytest.approx((2.64, 5.27, 10.53), rel=2e-3)
    assert hour.evidence == "assumed"
    # The printed rents of three generations lie within 3 % of that rule.
    for chip in ("a100-80gb", "h100-80gb", "b200-1000w"):
        printed = ACCELERATORS.load(chip)
        named, ruled = book.hour_of(printed), book.hour_of(printed.changed(name="other"))
        assert named is not None
        assert ruled is not None
        assert ruled.base == pytest.approx(named.base, rel=0.03)
    own = book.changed(gpu_hours={}, gpu_hour=named)
    assert own.hour_of(ACCELERATORS.load("mi455x")) == named


def test_the_tariff_is_the_mean_of_twelve_months_and_support_is_assumed() -> None:
    book = ECONOMICS_BOOKS.load("2026")
    (row,) = (row for row in quotations() if row.id == "P213")
    tariff = book.tariff.low, book.tariff.base, book.tariff.high
    assert tariff == (row.low, row.price, row.high) == (0.0821, 0.0869, 0.0933)
    assert book.support is not None
    assert (book.support.low, book.support.base, book.support.high) == (0.08, 0.115, 0.15)
    assert book.support.evidence == "assumed"
