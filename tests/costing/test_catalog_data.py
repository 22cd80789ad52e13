"""The shipped price and power books: they load, and their numbers are the published ones."""

import re
from pathlib import Path
from typing import get_args

import pytest

from netplan.catalog import Catalog, Record, check_file, shipped_root
from netplan.costing.cabling import CABLING_BOOKS, Cable, CablingBook, Card, Length, Module, Racks
from netplan.costing.lifetime import ECONOMICS_BOOKS, EconomicsBook
from netplan.costing.prices import (
    POWER_BOOKS,
    PRICE_BOOKS,
    Break,
    Draw,
    LentPrice,
    Part,
    PowerBook,
    Price,
    PriceBook,
    Rate,
)
from netplan.costing.switches import SWITCHES, Breakout, SwitchModel

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
    *(Price, PriceBook, Rate, Break, Draw, PowerBook, SwitchModel, Breakout),
    *(CablingBook, Cable, Card, Length, Module, Racks, EconomicsBook),
)
COMMON_PARTS: tuple[Part, ...] = ("switch_port", "transceiver", "copper_cable", "nic_port")
DRAWS = [(name, draw) for name in POWER_BOOKS.paths() for draw in POWER_BOOKS.load(name).draws]


def price_id(value: object) -> str:
    """Name a row in the test report."""
    if isinstance(value, Price):
        return value.what
    if isinstance(value, Draw):
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
    assert len([row for row in book.prices if not isinstance(row, LentPrice)]) == 2
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
    ("part", "speed_gbps", "expected"),
    [
        ("switch_port", 100, (None, 187, None)),
        ("switch_port", 200, (None, 374, None)),
        ("switch_port", 400, (562, 781, 1090)),  # 36000/64 = 562.5, 50000/64 = 781.25
        ("switch_port", 800, (None, 1400, None)),
        ("transceiver", 100, (39.9, 99, None)),
        ("transceiver", 200, (None, 239, None)),
        ("transceiver", 400, (374, 659, 749)),
        ("transceiver", 800, (699, 1399, 1429)),
        ("nic_port", 100, (None, 659, None)),
        ("nic_port", 200, (None, 1079, None)),
        ("nic_port", 400, (None, 1499, None)),
        ("nic_port", 800, (None, 2248, 2519)),
        ("copper_cable", 200, (81, 100, 115.25)),  # 324/4, Frontier, 461/4
        ("copper_cable", 400, (149.5, 162, 209)),  # 299/2
        ("active_copper_cable", 400, (568, 832.05, 1065.51)),  # 1136/2, 1664.10/2, 2131.02/2
        ("optical_cable", 400, (None, 705, 1011)),
    ],
)
def test_prices_of_2026(
    part: Part, speed_gbps: float, expected: tuple[float | None, float, float | None]
) -> None:
    price = PRICE_BOOKS.load("2026").price(part, speed_gbps)
    assert price is not None
    assert (price.low, price.base, price.high) == expected


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
        ("fibre", "mpo-multimode", (116, 133.58, 305.5)),  # 1603/12, 1222/4
        ("fibre", "mpo-singlemode", (105.08, 127, 192.25)),  # 1524/12, 769/4
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
    assert sum(bool(one.sources) for one in prices) > len(prices) / 4
    for price in prices:
        if price.sources and not price.derived and not price.assumption:
            quoted = [one.price for one in price.sources]
            for end in (price.low, price.base, price.high):
                assert end is None or end == pytest.approx(
                    min(quoted, key=lambda one: abs(one - end)), rel=1e-3
                ), price.what


def test_the_default_book_borrows_points() -> None:
    # The book of 2026 has ranges at 800G; the paper's has none, and shall not look as if.
    lent = PRICE_BOOKS.load("rail-only-2023").price("transceiver", 800)
    assert lent is not None
    assert (lent.low, lent.base, lent.high) == (None, 1399, None)
    assert (lent.source[:6], lent.date) == ("MixNet", "2025")


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
    if price.part == "switch_port":
        assert (price.high or price.base) < 250_000 / 64 / 2, book


@pytest.mark.parametrize("part", get_args(Part))
def test_faster_is_never_cheaper(part: Part) -> None:
    book = PRICE_BOOKS.load("2026")
    rows = sorted((row.speed_gbps or 0, row.base) for row in book.prices if row.part == part)
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
def test_power_has_a_source_and_a_date(book: str, draw: Draw) -> None:
    assert draw.source, book
    assert re.fullmatch(r"20\d\d(-[01]\d)?", draw.date)


def test_power_book_has_each_part_and_speed_once() -> None:
    rows = [(draw.part, draw.speed_gbps) for draw in POWER_BOOKS.load("2026").draws]
    assert len(rows) == len(set(rows))
