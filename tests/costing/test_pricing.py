"""Priced bills: totals by hand, monotone, drivers, break-even, years of use."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.lifetime import ECONOMICS_BOOKS, Opex, annuity_factor, lifetime
from netplan.costing.materials import BillItem, bill_items, parse_spares, with_spares
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS, Break, PriceBook
from netplan.costing.pricing import (
    Quote,
    break_even,
    drivers,
    evidence_shares,
    evidence_words,
    extrapolations,
    power_of,
    price_bill,
)
from netplan.costing.ranges import Range
from netplan.costing.switches import SWITCHES
from netplan.costing.wiring import Hardware, wire
from netplan.errors import CatalogError, InfeasibleError, InputError
from netplan.records import replace
from netplan.topologies.fabric import Fabric
from tests.costing.fabrics import built, fabrics

BOOK = PRICE_BOOKS.load("2026")
CABLING = CABLING_BOOKS.load("2026")
TRANSCEIVER = "transceiver at 400 Gb/s"


def bill(fabric: Fabric, switch: str = "", spares: str = "0%") -> tuple[BillItem, ...]:
    """Lines of a fabric's bill."""
    hardware = Hardware(CABLING, SWITCHES.load(switch) if switch else None)
    lines = bill_items(fabric, wire(fabric, hardware), hardware)
    return with_spares(lines, parse_spares([spares]))


def optics(quantity: int, units: int = 1) -> BillItem:
    """Make a line of transceivers."""
    return BillItem("transceivers", "t", "", quantity, "each", "transceiver", 400.0, units)


def switches(quantity: int, radix: int = 64) -> BillItem:
    """Make a line of switches."""
    return BillItem("switches", "s", "", quantity, "each", "switch_port", 400.0, radix)


def repriced(book: PriceBook, part: str, base: float) -> PriceBook:
    """Return a book in which one part has another price, without a spread."""
    prices = [
        price.changed(base=base, low=None, high=None) if price.what == part else price
        for price in book.prices
    ]
    return book.changed(prices=tuple(prices))


def test_rail_only_of_32768_gpus_by_hand() -> None:
    # Switches 256 of 128 ports: 80, 85, 200 k; transceivers 65,536: 368.94, 611.95, 1,156; cards
    # 32,768: 1,070.71, 1,499, 2,500; fibre of 15 m 32,768: 107.50, 191.425, 268.00; laid 32,768:
    # 14, 87, 201; racks 19: 3,800, 10,200, 22,000.
    # low  20,480,000 + 24,178,851.84 + 32,768 x 1,192.21 + 72,200 = 83,797,389.12
    # base 21,760,000 + 40,104,755.20 + 32,768 x 1,777.425 + 193,800 = 120,301,217.60
    # high 51,200,000 + 75,759,616 + 32,768 x 2,969.00 + 418,000 = 224,665,808
    total = price_bill(bill(built("rail-only", 32_768, 128, 256)), BOOK).total
    assert total.low == pytest.approx(83_797_389.12, abs=1)
    assert total.base == pytest.approx(120_301_217.60, abs=1)
    assert total.high == pytest.approx(224_665_808, abs=500)


def test_twin_modules_and_whole_switches_with_spares_by_hand() -> None:
    # 1,024 H100 on 48 qm9700: 48 + 1 spare x 50,000 = 2,450,000. Modules 1,536 + 31 twin ones of
    # SR8 at 2 x 444.50, 1,024 + 21 single ones at 611.95: 1,393,063 + 639,487.75. Cards 1,045 x
    # 1,499 = 1,566,455. Fibre 1,024 + 21 to hosts at 191.425 (15 m), as many to spines at 308.68
    # (30 m). 2,048 cables laid at 87: 178,176. Three racks of 42 units, at 10,200.
    # The gear inside HB domains of 8 comes with the servers.
    quote = price_bill(bill(built("rail-optimized", 1024, 64), "qm9700", "2%"), BOOK)
    known = 2_450_000 + 1_393_063 + 639_487.75 + 1_566_455 + 178_176 + 30_600
    assert quote.total.base == pytest.approx(known + 1045 * (191.425 + 308.68), abs=1)
    assert quote.unpriced == ()


def test_a_break_counts_all_lines_of_a_part() -> None:
    prices = [
        row.changed(breaks=(Break(quantity=300, price=600),)) if row.what == TRANSCEIVER else row
        for row in BOOK.prices
    ]
    data = BOOK.to_dict() | {"prices": [row.to_dict() for row in prices]}
    book = PriceBook.read(data)
    # 100 single modules and 100 twin ones are 300 link ends: all at 600.
    assert price_bill([optics(100), optics(100, 2)], book).total.base == 180_000
    assert price_bill([optics(99), optics(100, 2)], book).total.base == pytest.approx(299 * 611.95)


def test_currency_and_discount() -> None:
    book = BOOK.changed(discount=0.25)
    # 1,000 x 611.95 x 0.75 / 1.0411
    total = price_bill([optics(1000)], book, "EUR").total.base
    assert total == pytest.approx(440_843.82, rel=1e-6)


@given(fabrics(radix=64))
@settings(max_examples=60, deadline=None)
def test_totals_run_low_base_high(fabric: Fabric) -> None:
    try:
        lines = bill(fabric, "qm9700", "3%")
    except InfeasibleError:  # an odd dragonfly may need a twin-port cage more
        assume(fabric.name != "dragonfly")
        raise
    quote = price_bill(lines, BOOK)
    total = quote.total
    assert 0 <= total.low <= total.base <= total.high
    assert total.base == pytest.approx(sum(item.total.base for item in quote.items))


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**4))
def test_cost_is_monotone_in_quantity(few: int, more: int, radix: int) -> None:
    one = price_bill([switches(few, radix), optics(few)], BOOK).total
    two = price_bill([switches(few + more, radix), optics(few + more)], BOOK).total
    assert (one.low, one.base, one.high) <= (two.low, two.base, two.high)
    # The further ones at 368.94 to 1,156 USD a module, and switches by the port.
    ports = price_bill([switches(1, radix)], BOOK).total
    for end, module in (("low", 368.94), ("base", 611.95), ("high", 1156.0)):
        added = more * (module + getattr(ports, end))
        assert getattr(two, end) - getattr(one, end) == pytest.approx(added, abs=1e-3, rel=1e-9)


@given(fabrics(), st.floats(0, 1e5), st.floats(0, 1e5))
@settings(max_examples=60, deadline=None)
def test_cost_is_monotone_in_a_price(fabric: Fabric, one: float, two: float) -> None:
    lines = bill(fabric)
    low, high = (
        price_bill(lines, repriced(BOOK, TRANSCEIVER, price)).total.base
        for price in sorted((one, two))
    )
    assert low <= high * (1 + 1e-12)


# --- drivers and break-even -----------------------------------------------------------------


def test_drivers_by_hand() -> None:
    # 65,536 x (1,156 - 368.94) of swing; 32,768 x (2,500 - 1,070.71); 256 x (200 - 80) k; laying
    # 32,768 x (201 - 14); fibre of 15 m 32,768 x (268.00 - 107.50); 19 x (22,000 - 3,800).
    found = drivers(price_bill(bill(built("rail-only", 32_768, 128, 256)), BOOK))
    swings = {
        TRANSCEIVER: 51_580_764,
        "nic_port at 400 Gb/s": 46_834_975,
        "switch 128x400g at 400 Gb/s": 30_720_000,
        "installation": 6_127_616,
        "fibre mpo-multimode, 15 m": 5_259_264,
        "rack": 345_800,
    }
    assert [driver.part for driver in found] == list(swings)
    assert [driver.swing for driver in found] == pytest.approx([*swings.values()], rel=1e-4)
    assert {driver.stated for driver in found} == {"low and high"}
    assert found[1].amount == 32_768 * 1499
    assert found[0].at_high == pytest.approx(120_301_217.60 + 65_536 * 544.05)


@given(fabrics())
@settings(max_examples=40, deadline=None)
def test_drivers_are_the_total_at_another_price(fabric: Fabric) -> None:
    lines = bill(fabric)
    for driver in drivers(price_bill(lines, BOOK)):
        if driver.part == TRANSCEIVER:
            at_low = price_bill(lines, repriced(BOOK, TRANSCEIVER, 368.94)).total.base
            assert driver.at_low == pytest.approx(at_low)
            # Modules at 368.94 to 1,156 USD, 611.95 at the base.
            parts = [line for line in lines if line.part == "transceiver"]
            modules = sum(line.order * line.price_units for line in parts if line.speed_gbps == 400)
            assert driver.swing == pytest.approx(modules * (1156 - 368.94))
            assert driver.at_high - driver.at_low == pytest.approx(driver.swing)


@given(*[st.integers(0, 10**6)] * 4)
@settings(max_examples=200)
def test_break_even_is_where_the_two_cost_the_same(a: int, b: int, c: int, d: int) -> None:
    bills = [[switches(a), optics(b)], [switches(c), optics(d)]]
    bills.sort(key=lambda lines: price_bill(lines, BOOK).total.base)
    cheaper, dearer = (price_bill(lines, BOOK) for lines in bills)

    def gap(price: float) -> float:
        book = repriced(BOOK, TRANSCEIVER, price)
        one, two = (price_bill(lines, book).total.base for lines in bills)
        return two - one

    found = break_even(cheaper, dearer, TRANSCEIVER)
    if found.price is not None:
        # 64 ports at 781.25: 50,000 a + p b = 50,000 c + p d.
        assert found.price == pytest.approx(50_000 * (c - a) / (b - d), rel=1e-6, abs=1e-6)
    if found.price is None:
        # The gap is linear: no change of sign between nothing and a fortune.
        assert gap(0) >= 0
        assert gap(1e9) >= 0
        return
    scale = max(cheaper.total.base, dearer.total.base, 1.0)
    assert gap(found.price) == pytest.approx(0, abs=1e-6 * max(scale, found.price * (b + d)))
    # Beyond the price, on the side that it says, the dearer one wins.
    beyond = found.price * 2 + 1 if found.direction == "above" else found.price / 2
    assert gap(beyond) <= 1e-6 * scale


def test_break_even_by_hand() -> None:
    # 100 switches of 64 ports at 781.25 and 1,000 modules at 611.95 against 10 and 9,000:
    # 5,000,000 + 611,950 = 5,611,950; 500,000 + 5,507,550 = 6,007,550. Equal where
    # 5,000,000 + 1,000 p = 500,000 + 9,000 p: p = 4,500,000 / 8,000 = 562.50.
    one = price_bill([switches(100), optics(1000)], BOOK)
    two = price_bill([switches(10), optics(9000)], BOOK)
    found = break_even(one, two, TRANSCEIVER)
    assert (found.direction, found.base) == ("below", 611.95)
    assert found.price == pytest.approx(562.5)


def test_rail_only_wins_at_any_price() -> None:
    # Table 2: fewer switches and fewer transceivers.
    few, many = (
        price_bill(bill(built(name, 32_768, 64, 256)), BOOK)
        for name in ("rail-only", "rail-optimized")
    )
    for part in few.priced_parts:
        assert break_even(few, many, part).direction == "never"


# --- power and years ------------------------------------------------------------------------


def test_power_by_hand() -> None:
    # 32,768 ports x 940/128 W + 65,536 x 8 W + 32,768 x 24.9 W = 240,640 + 524,288 + 815,923.2.
    draw = power_of(bill(built("rail-only", 32_768, 128, 256)), POWER_BOOKS.load("2026"), [])
    assert draw.typical_w == pytest.approx(240_640 + 524_288 + 815_923.2)
    assert draw.unknown == ()


def test_a_model_draws_its_own_power_and_spares_none() -> None:
    model = SWITCHES.load("sn5600")
    line = replace(switches(10, 128), model="sn5600", spares=5)
    assert power_of([line], POWER_BOOKS.load("2026"), [model]).typical_w == 9400


POINT = Range.point


def running(years: int = 5, interest: float = 0.05) -> Opex:
    return Opex(years, POINT(1.5), POINT(0.1), POINT(interest))


def test_yearly_cost_by_hand() -> None:
    # 100 kW x 1.5 x 8,760 h = 1,314,000 kWh at 0.1: 131,400. Annuity of 1,000,000 over 5 years at
    # 5 %: 0.05 / (1 - 1.05^-5) = 0.230975: 230,974.80.
    life = lifetime(POINT(1e6), 1e5, running())
    assert life.energy_per_year.base == pytest.approx(131_400)
    assert life.annuity_per_year.base == pytest.approx(230_974.80)
    assert life.per_year.base == pytest.approx(362_374.80)
    assert life.energy.base == pytest.approx(657_000)
    assert life.total.base == pytest.approx(1_811_874.0)


def test_ten_years_by_hand() -> None:
    # 100 kW x 1.2 x 8,760 h = 1,051,200 kWh a year at 0.10: 105,120; 1 M at 5 % over ten years is
    # 129,504.57 a year (factor 0.05 / (1 - 1.05^-10) = 0.12950457).
    ten = Opex(10, POINT(1.2), POINT(0.10), POINT(0.05))
    life = lifetime(POINT(1e6), 1e5, ten)
    assert life.annuity_per_year.base == pytest.approx(129_504.57)
    assert life.energy.base == pytest.approx(1_051_200)
    assert life.total.base == pytest.approx(10 * (129_504.57 + 105_120))


def test_the_total_over_the_years_by_hand() -> None:
    # A price of 1,000,000, 100 kW at PUE 1.5 and 0.1 a kWh: 131,400 a year of energy, of which
    # 100 kW x 0.3 x 8,760 h x 0.1 = 26,280 cool. Maintenance 1 %: 10,000; support 6 %: 60,000;
    # spares 0.5 %: 5,000. Three years at 10 %: 1/1.1 + 1/1.21 + 1/1.331 = 2.48685199 years count.
    # 1,000,000 + (131,400 + 75,000) x 2.48685199 = 1,513,286.25; as paid 1,000,000 + 3 x 206,400.
    point = POINT
    rates = (point(0.3), point(0.01), point(0.06), point(0.005))
    life = lifetime(point(1e6), 1e5, Opex(3, point(1.5), point(0.1), point(0.1), *rates))
    assert life.cooling_per_year.base == pytest.approx(26_280)
    assert life.upkeep_per_year.base == pytest.approx(75_000)
    assert life.discounting.base == pytest.approx(2.48685199, rel=1e-8)
    assert life.present_value.base == pytest.approx(1_513_286.25, abs=0.01)
    assert life.present.support.base == pytest.approx(60_000 * 2.48685199)
    assert life.paid.base == pytest.approx(1_619_200)
    # What questions compare by has no upkeep: annuity 1,000,000 / 2.48685199 and energy.
    assert life.per_year.base == pytest.approx(402_114.80 + 131_400)
    parts = life.present
    total = life.capital + parts.energy + parts.maintenance + parts.support + parts.spares
    assert total.base == pytest.approx(life.present_value.base)


def test_the_present_value_is_bounded_by_its_ends() -> None:
    # The low of the total discounts at the high interest: 1 + 1 / 1.1 over 1 + 1 / 1.25.
    free = POINT(0.0)
    spread = Opex(1, POINT(1.0), free, Range(0.1, 0.1, 0.25), free, POINT(1.0))
    total = lifetime(POINT(1.0), 0.0, spread).present_value
    assert (total.low, total.base, total.high) == pytest.approx((1.8, 1 + 1 / 1.1, 1 + 1 / 1.1))


@given(st.floats(0, 1), st.integers(1, 50))
def test_the_annuity_pays_the_capital_back(interest: float, years: int) -> None:
    # Its present value is the capital: sum over k of f / (1 + i)^k = 1.
    factor = annuity_factor(interest, years)
    present = sum(factor / (1 + interest) ** year for year in range(1, years + 1))
    assert present == pytest.approx(1, rel=1e-9)
    assert factor >= 1 / years * (1 - 1e-9)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_energy_runs_low_base_high(capital: float, power_w: float) -> None:
    book = ECONOMICS_BOOKS.load("2026")
    spread = Opex(book.years, book.pue.range, book.tariff.range, book.interest.range)
    life = lifetime(POINT(capital), power_w, spread)
    assert life.per_year.low <= life.per_year.base <= life.per_year.high


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"years": 0}, "give 1 to 50"),
        ({"pue": POINT(0.9)}, "give 1 or more"),
        ({"tariff": POINT(-0.1)}, "at least 0"),
        ({"interest": POINT(1.5)}, "0% to 100%"),
        ({"interest": POINT(-0.1)}, "0% to 100%"),
        ({"cooling": POINT(0.6)}, "leaves 0% to 50%"),
        ({"cooling": POINT(-0.1)}, "at least 0%"),
        ({"support": POINT(1.2)}, "--support 120%"),
        ({"spares": POINT(-0.1)}, "--yearly-spares -10%"),
    ],
)
def test_values_that_no_network_has(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(running(), **changes)


def test_an_empty_bill_costs_nothing() -> None:
    assert Quote((), "USD").total == POINT(0)


def test_a_break_even_can_be_put_in_by_one_value() -> None:
    # Base 611.95, low 368.94: a price below it takes the low along, one given stays an error.
    key = "prices.prices.transceiver@400"
    row = PRICE_BOOKS.load("2026", overrides={f"{key}.base": "200"}).price("transceiver", 400)
    assert row is not None
    assert (row.low, row.base, row.high) == (200, 200, 1156)
    row = PRICE_BOOKS.load("2026", overrides={"prices.prices.switch_port@400.base": "2000"}).price(
        "switch_port", 400
    )
    assert row is not None
    assert (row.low, row.base, row.high) == (562.5, 2000, 2000)
    with pytest.raises(CatalogError, match="low <= base <= high"):
        PRICE_BOOKS.load("2026", overrides={f"{key}.base": "200", f"{key}.low": "300"})


def test_breaks_count_what_is_ordered_and_power_what_runs() -> None:
    """90 modules and 20 spares: 110 are ordered, 100 of which cost less; 90 draw power."""
    prices = [
        price.changed(base=600.0, low=None, high=None, breaks=(Break(quantity=100, price=500.0),))
        if price.what == TRANSCEIVER
        else price
        for price in BOOK.prices
    ]
    line = replace(optics(90), spares=20)
    assert price_bill([line], BOOK.changed(prices=tuple(prices))).total.base == 110 * 500
    power = POWER_BOOKS.load("2026")
    module = power.draw("transceiver", 400.0)
    assert module is not None
    assert power_of([line], power, []).typical_w == 90 * module.typical_w
    switch = replace(switches(2, radix=64), spares=1)
    port = power.draw("switch_port", 400.0)
    assert port is not None
    assert power_of([switch], power, []).typical_w == 2 * 64 * port.typical_w


def test_a_bill_says_which_prices_are_extrapolated() -> None:
    def fibre(length_m: float) -> BillItem:
        line = BillItem("cables", f"Fibre, {length_m:g} m", "", 10, "each", "fibre", 400.0)
        return replace(line, kinds=("mpo-multimode",), length_m=length_m)

    quote = price_bill([fibre(15), fibre(30), fibre(50), fibre(40)], BOOK)
    assert [*extrapolations(quote)] == [
        "Price of fibre mpo-multimode at 40, 50 m: extrapolated, its quotations end at 30 m."
    ]
    # 10 x (4 x 74.17 + 7.817 x 135 m)
    assert quote.total.base == pytest.approx(10 * (4 * 74.17 + 7.817 * 135))
    assert [item.what for item in quote.items][:2] == [
        "fibre mpo-multimode, 15 m",
        "fibre mpo-multimode, 30 m",
    ]


def test_a_price_says_how_much_of_it_nobody_quoted() -> None:
    # Rack 10,200 USD (assumed), four ends of SR8 modules at 444.50 (derived), a card (quoted).
    rack = BillItem("racks", "Rack", "", 1, "each", "rack", 400.0)
    ends = replace(optics(4), kinds=("800g-sr",))
    card = BillItem("cards", "Card", "", 10, "port", "nic_port", 400.0)
    quote = price_bill([rack, ends, card], BOOK)
    total = 10_200 + 4 * 444.5 + 14_990
    shares = {"assumed": 10_200 / total, "derived": 1778 / total, "shipping": 14_990 / total}
    assert evidence_shares(quote) == pytest.approx(shares)
    assert evidence_words(quote) == "38 % assumed, 7 % derived"
