"""Failure books: they load, hold the published numbers, and refuse what no unit does."""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.catalog import check_file, shipped_root
from netplan.errors import CatalogError, InputError, UnknownNameError
from netplan.faults.years.rates import (
    FAILURE_BOOKS,
    BadServers,
    ClusterSpread,
    EffectiveTime,
    FailureBook,
    FailureRate,
    Flap,
    KindHours,
    Observed,
    poisson_interval,
    unit_counts,
)
from netplan.faults.years.recovery_presets import OnGpus, RecoveryPreset
from netplan.questions.shelves import all_shelves
from netplan.topologies.fabric import Fabric
from tests.costing.fabrics import built, fabrics

README = (shipped_root() / "costing" / "README.md").read_text(encoding="utf-8")
PATHS = FAILURE_BOOKS.paths()
ROWS = [(name, row) for name in PATHS for row in FAILURE_BOOKS.load(name).rates]

# arXiv:2407.21783, Table 5: interruptions of 16,384 GPUs in 54 days, and printed shares in %.
TABLE_5 = {
    "Faulty GPU": (148, 30.1),
    "GPU HBM3 memory": (72, 17.2),
    "Software bug": (54, 12.9),
    "Network switch/cable": (35, 8.4),
    "Host maintenance": (32, 7.6),
    "GPU SRAM memory": (19, 4.5),
    "GPU system processor": (17, 4.1),
    "NIC": (7, 1.7),
    "NCCL watchdog timeouts": (7, 1.7),
    "Silent data corruption": (6, 1.4),
    "GPU thermal interface and sensor": (6, 1.4),
    "SSD": (3, 0.7),
    "Power supply": (3, 0.7),
    "Server chassis": (2, 0.5),
    "IO expansion board": (2, 0.5),
    "Dependency": (2, 0.5),
    "CPU": (2, 0.5),
    "System memory": (2, 0.5),
}


@pytest.mark.parametrize("path", PATHS.values(), ids=lambda path: path.stem)
def test_file_is_sound(path: Path) -> None:
    assert check_file(FAILURE_BOOKS, path) is None


def test_shelf_is_known_to_the_catalog() -> None:
    assert all_shelves()["failures"] is FAILURE_BOOKS
    assert set(PATHS) == {
        *("2026", "llama-3-54-days", "rsc-1", "rsc-2", "tpu-v4"),
        *("crusoe-h200", "b200-73-days", "byterobust"),
    }


def test_readme_names_every_file_and_every_key() -> None:
    words = {f"failures/{name}" for name in PATHS}
    schemas = (FailureBook, FailureRate, Observed, KindHours, EffectiveTime)
    for schema in (*schemas, Flap, BadServers, ClusterSpread, RecoveryPreset, OnGpus):
        words |= set(schema.__struct_fields__)
    for row in (row for _, row in ROWS):
        words |= {row.kind, row.unit}
    assert [word for word in sorted(words) if f"`{word}`" not in README] == []


def test_llama_book_is_table_5() -> None:
    book = FAILURE_BOOKS.load("llama-3-54-days")
    found = {
        row.cause: (row.observed.events, row.observed.printed_percent)
        for row in book.rates
        if row.observed is not None and (row.observed.units, row.observed.days) == (16_384, 54)
    }
    assert found == TABLE_5
    assert sum(events for events, _ in found.values()) == 419
    # 148 / (16,384 x 54) x 365 = 0.06106 per GPU slot and year; 148 in the 95 % interval
    # 125.1 to 173.9 of its count.
    rate = book.rate("Faulty GPU").rate_per_year
    assert rate.base == pytest.approx(148 * 365 / (16_384 * 54), rel=1e-12)
    assert rate.low == pytest.approx(rate.base * 125.1 / 148, rel=1e-3)
    assert rate.high == pytest.approx(rate.base * 173.9 / 148, rel=1e-3)


@pytest.mark.parametrize(
    ("book", "cause", "base"),
    [
        ("rsc-1", "Node failure", 0.0065 * 365),
        ("rsc-2", "Node failure", 0.00234 * 365),
        ("tpu-v4", "TPU v4 machine", 0.0008 * 365),
        ("tpu-v4", "Optical circuit switch", 0.0004 * 365),
        ("2026", "Leaf switch", 0.00051 * 12),
        ("2026", "Optical circuit switch", 0.0004 * 365),
    ],
)
def test_published_rates(book: str, cause: str, base: float) -> None:
    assert FAILURE_BOOKS.load(book).rate(cause).rate_per_year.base == pytest.approx(base, rel=1e-9)


@pytest.mark.parametrize(
    ("cause", "events", "units"),
    [
        ("GPU memory", 72 + 19, 16_384),
        ("NIC", 7, 16_384),
        ("Software", 54 + 7 + 2, 16_384),
        ("Server hardware", 3 + 3 + 2 + 2 + 2 + 2, 2048),
        ("Unplanned host maintenance", 32, 2048),
    ],
)
def test_rates_of_2026_group_the_rows_of_table_5(cause: str, events: int, units: int) -> None:
    # Low and high: times 0.8541 / 1.3829 = 0.618 and 2.3725 / 1.3829 = 1.716, the node rates of
    # RSC-2 and RSC-1 over 419 / (2048 x 54) x 365 = 1.3829.
    rate = FAILURE_BOOKS.load("2026").rate(cause).rate_per_year
    exact = events * 365 / (units * 54)
    assert (rate.low, rate.base, rate.high) == pytest.approx(
        (0.618 * exact, exact, 1.716 * exact), rel=0.02
    )


def test_gpu_and_hb_gear_of_2026_are_one_count_of_table_5() -> None:
    # The table counts faults of the HB gear as faulty GPUs, so that both rows add up to the 177.
    book = FAILURE_BOOKS.load("2026")
    both = book.rate("GPU").rate_per_year + book.rate("HB gear").rate_per_year
    exact = (148 + 17 + 6 + 6) * 365 / (16_384 * 54)
    assert (both.low, both.base, both.high) == pytest.approx(
        (0.618 * exact, exact, 1.716 * exact), rel=0.01
    )


def test_a_link_of_2026_is_its_parts() -> None:
    # HPN, sec. 2.3: 0.057 % of the NIC-ToR links a month; 67 % of that are connectors.
    book = FAILURE_BOOKS.load("2026")
    module, fibre = book.rate("Optical module"), book.rate("Fibre and connectors")
    link = 2 * module.rate_per_year.low + fibre.rate_per_year.base
    assert link == pytest.approx(0.00057 * 12, rel=1e-3)
    assert fibre.rate_per_year.base / link == pytest.approx(0.67, rel=1e-3)
    # 35 network interruptions of 16,384 GPUs in 54 days, charged to their links alone.
    assert fibre.rate_per_year.high == pytest.approx(0.67 * 35 * 365 / (16_384 * 54), rel=2e-3)
    assert fibre.replaced == 0  # cleaned


def test_a_rack_of_2026_has_a_base_of_events_that_llama_3_does_not_refute() -> None:
    # 20 rack failures a year among 1,800 servers, two a rack; none in 1,024 racks in 54 days.
    rate = FAILURE_BOOKS.load("2026").rate("Rack").rate_per_year
    assert rate.base == pytest.approx(20 / 1800 * 2, rel=0.02)
    assert rate.high == pytest.approx(20 / 45, rel=0.02)
    seen = Observed(events=0, units=1024, days=54).rate_per_year
    assert 0 == seen.base < rate.base < seen.high == pytest.approx(3.689 * 365 / (1024 * 54), 1e-3)


def test_spares_of_gpus_are_for_replacements() -> None:
    # A public page: 0.025 to 0.06 replacements a GPU and year, of 0.073 interruptions.
    gpu = FAILURE_BOOKS.load("2026").rate("GPU")
    assert gpu.replaced == pytest.approx((0.025 + 0.06) / 2 / 0.073, rel=0.01)


def test_rates_of_2026_add_up_to_what_llama_3_saw() -> None:
    book, units = (
        FAILURE_BOOKS.load("2026").placed(8),
        unit_counts(built("rail-optimized", 16_384, 64)),
    )
    hours = {
        end: 8760
        / sum(
            row.rate_per_year.at_end(end) * row.count_in(units) * row.interrupts
            for row in book.rates
        )
        for end in ("low", "base", "high")
    }
    assert hours["high"] < 3.09 < hours["low"]
    assert hours["base"] == pytest.approx(3.09, rel=0.06)


@pytest.mark.parametrize(("book", "row"), ROWS, ids=lambda v: getattr(v, "cause", v))
def test_row_has_a_source_and_a_date(book: str, row: FailureRate) -> None:
    assert row.source, book
    assert re.fullmatch(r"20\d\d(-[01]\d)?", row.date)


@pytest.mark.parametrize("name", PATHS)
def test_times_without_a_source_say_so(name: str) -> None:
    book = FAILURE_BOOKS.load(name)
    for row in (*book.repairs, *book.leads):
        assert row.source
        if row.source.startswith("Assumption"):
            assert row.confidence == "low"
    for rate in book.rates:
        if rate.source.startswith("Assumption"):
            assert rate.confidence == "low"


def test_every_repaired_kind_of_2026_has_a_time() -> None:
    book = FAILURE_BOOKS.load("2026")
    timed = {row.kind for row in book.repairs}
    assert {row.kind for row in book.rates} - timed == {"software"}
    assert book.repair_h("gpu").base == 4
    assert book.repair_h("software").high == 0
    assert book.lead_h("transceiver").base == 672


# --- counts ---------------------------------------------------------------------------------


def test_units_of_a_clos() -> None:
    # 32,768 GPUs, radix 64, three tiers: 1,024 + 1,024 + 512 switches, three layers of 32,768
    # links; two of them trunks.
    units = unit_counts(built("rail-optimized", 32_768, 64))
    assert units["gpu"] == units["nic_port"] == units["host_link"] == 32_768
    assert units["trunk_link"] == 65_536
    assert units["transceiver"] == 196_608
    assert units["trunk_transceiver"] == 131_072
    assert (units["leaf_switch"], units["upper_switch"]) == (1024, 1536)
    assert units["hb_domain"] == 4096


def test_every_link_of_a_bcube_has_a_gpu() -> None:
    # 1,024 GPUs with a port in each of two levels of 32 switches of radix 32.
    units = unit_counts(built("bcube", 1024, 32, hb_size=1))
    assert (units["host_link"], units["trunk_link"]) == (2048, 0)
    assert (units["leaf_switch"], units["upper_switch"]) == (64, 0)


def test_a_torus_has_trunks_only() -> None:
    units = unit_counts(built("torus-3d", 4096, 64, hb_size=1))
    assert (units["host_link"], units["leaf_switch"], units["circuit_switch"]) == (0, 0, 0)
    assert units["trunk_link"] == 3 * 4096


# --- places and sizes -----------------------------------------------------------------------


def of_units(book: FailureBook, unit: str) -> dict[str, FailureRate]:
    """Rows that a book of one row has once its parts are placed, by unit."""
    row = book.rates[0].changed(unit=unit, gpus_each=None, kind="switch")
    return {one.unit: one for one in book.changed(rates=(row,)).placed(8).rates}


@pytest.mark.parametrize(
    ("unit", "near", "far"),
    [
        ("switch", "leaf_switch", "upper_switch"),
        ("transceiver", "host_transceiver", "trunk_transceiver"),
        ("fibre", "host_fibre", "trunk_fibre"),
        ("copper_cable", "host_copper_cable", "trunk_copper_cable"),
    ],
)
def test_the_same_parts_fail_alike_wherever_they_sit(unit: str, near: str, far: str) -> None:
    book = FAILURE_BOOKS.load("rsc-1")
    found = of_units(book, unit)
    assert list(found) == [near, far]
    assert found[near].rate_per_year == found[far].rate_per_year == book.rates[0].rate_per_year
    # What no GPU hangs on stops no job; and both places together are all units.
    assert (found[near].interrupts, found[far].interrupts) == (1, 0)
    units = unit_counts(built("rail-optimized", 4096, 64))
    assert sum(row.count_in(units) for row in found.values()) == units[unit]  # type: ignore[index]
    assert of_units(book, "upper_switch")["upper_switch"].interrupts == 1  # as its row says


@pytest.mark.parametrize(
    ("hb_size", "server", "rack", "feed"),
    # Trays of four from nine GPUs on; a rack holds a domain of up to 72, a feed whole racks.
    [(1, 8, 16, 512), (8, 8, 16, 512), (16, 4, 16, 512), (72, 4, 72, 504), (256, 4, 16, 512)],
)
def test_servers_racks_and_feeds_follow_the_hb_domain(
    hb_size: int, server: int, rack: int, feed: int
) -> None:
    book = FAILURE_BOOKS.load("2026").placed(hb_size)
    assert [row.gpus_each for row in book.rates if row.gpus_each] == [server, server, rack, feed]
    # Node failures are those of eight GPUs more than of a box.
    assert FAILURE_BOOKS.load("rsc-1").placed(hb_size).rates[0].gpus_each == 8


def test_domains_of_one_gpu_have_no_gear() -> None:
    causes = [
        {row.cause for row in FAILURE_BOOKS.load("2026").placed(hb_size).rates}
        for hb_size in (1, 2)
    ]
    assert causes[1] - causes[0] == {"HB gear"}


def test_books_of_fleets_hold_the_published_counts() -> None:
    # Shares of 41.5, 19.5, 17, 12.2, 4.9 and 4.9 %: whole counts of 205, as of any multiple of 41.
    rows = [row.observed for row in FAILURE_BOOKS.load("crusoe-h200").rates if row.observed]
    assert sum(row.events for row in rows) == 205
    for row in rows:
        assert row.printed_percent == pytest.approx(100 * row.events / 205, abs=0.08)
        assert row.units is None
    network = [row for row in FAILURE_BOOKS.load("crusoe-h200").rates if row.kind == "network"]
    assert sum(row.observed.events for row in network if row.observed) == 70  # 34 %
    # 10 faults of 504 GPUs in 73 days.
    rate = FAILURE_BOOKS.load("b200-73-days").rates[0].rate_per_year.base
    assert rate == pytest.approx(10 * 365 / (504 * 73))
    job = FAILURE_BOOKS.load("byterobust").effective_time
    assert job is not None
    assert (job.gpus, job.ratio) == (9600, 0.97)


def test_a_book_of_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ntitle: Mine\nsource: me\ndate: '2026'\n", encoding="utf-8")
    with pytest.raises(CatalogError, match="give failure rates, or the effective_time of a job"):
        FAILURE_BOOKS.load(str(path))


def test_a_book_without_units_has_no_rates(tmp_path: Path) -> None:
    path = written(tmp_path, "base: 2.3725", "observed: {events: 40, days: 122}")
    book = FAILURE_BOOKS.load(path)
    assert not book.rates[0].known
    with pytest.raises(InputError, match=r"failures mine has no rates.* such as 2026"):
        book.placed(8)
    with pytest.raises(InputError, match="40 failures among nobody says how many units"):
        _ = book.rates[0].rate_per_year


@given(fabrics())
def test_units_are_those_of_the_fabric(fabric: Fabric) -> None:
    units = unit_counts(fabric)
    assert units["host_link"] + units["trunk_link"] == fabric.link_count
    assert units["leaf_switch"] + units["upper_switch"] == units["switch"] == fabric.switches
    assert units["trunk_transceiver"] <= units["transceiver"] == fabric.transceivers
    for _, row in ROWS:
        assert row.count_in(units) >= 0


def test_a_partly_filled_server_counts() -> None:
    row = FAILURE_BOOKS.load("rsc-1").rate("Node failure")
    assert row.count_in({"gpu": 17}) == 3


def test_a_unit_that_is_not_counted_is_refused() -> None:
    row = FAILURE_BOOKS.load("tpu-v4").rate("Optical circuit switch")
    with pytest.raises(InputError, match="counted per circuit_switch, got counts of gpu: add"):
        row.count_in({"gpu": 4096})


# --- Poisson --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "low", "high"),
    [(0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.39), (100, 81.36, 121.63)],
)
def test_exact_intervals(events: int, low: float, high: float) -> None:
    # Garwood (1936), as every table of Poisson intervals has them.
    assert poisson_interval(events) == pytest.approx((low, high), rel=2e-3)


@given(st.integers(0, 5000))
def test_interval_holds_the_count_and_grows_with_it(events: int) -> None:
    low, high = poisson_interval(events)
    assert low <= events < high
    more = poisson_interval(events + 1)
    assert low < more[0]
    assert high < more[1]


# --- refused --------------------------------------------------------------------------------

BOOK = """
    name: mine
    title: Mine
    source: tickets
    date: "2026"
    rates:
      - cause: node
        kind: server
        unit: server
        gpus_each: 8
        base: 2.3725
        date: "2026"
        source: tickets
        confidence: high
"""


def written(tmp_path: Path, old: str, new: str, more: str = "") -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(dedent(BOOK).replace(old, new) + dedent(more), encoding="utf-8")
    return str(path)


def test_a_book_of_your_own(tmp_path: Path) -> None:
    book = FAILURE_BOOKS.load(written(tmp_path, "base: 2.3725", "base: 2.0"))
    assert book.rate("node").rate_per_year.base == 2
    assert book.repair_h("server").base == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # 6.5 per 1000 node-days, read as 6.5 a node-day: 6.5 x 365 = 2,372.5.
        ("base: 2.3725", "base: 2372.5", r"2372\.5 failures per server and year .*0 to 100.*1000"),
        ("base: 2.3725", "base: -1", "greater than or equal to 0"),
        ("base: 2.3725", "base: .inf", "finite"),
        ("base: 2.3725", "high: 3", "give either base .* or observed"),
        ("base: 2.3725", "base: 2\n    high: 1", "low <= base <= high, got 2, 2, 1"),
        ("base: 2.3725", "base: 2\n    interrupts: 30", "a probability, got 30: .* percentage"),
        ("base: 2.3725", "base: 2\n    down: 1.5", "down is a probability, got 1.5"),
        ("gpus_each: 8", "note: none", "unit server needs gpus_each"),
        ("unit: server", "unit: gpu", "unit gpu has no gpus_each"),
        ("base: 2.3725", "base: 2\n    replaced: 58", "replaced is a probability, got 58"),
        ("gpus_each: 8", "gpus_each: 8\n    gpus_most: 72", "unit server has no gpus_most, a rack"),
        ("unit: server", "unit: rack\n    gpus_tray: 4", "unit rack has no gpus_tray, a server"),
        ("unit: server", "unit: machine", "unit: got 'machine'"),
        ("cause: node", "cause: node\n    mtbf: 5", "unknown key rates.0.mtbf"),
        (
            "base: 2.3725",
            "observed: {events: 3, units: 10, days: 54}\n    high: 3",
            "range of observed counts follows",
        ),
        (
            "base: 2.3725",
            "observed: {events: 600, units: 1, days: 54}",
            "4055.56 failures per server",
        ),
        ("base: 2.3725", "observed: {events: 3, units: 0, days: 54}", "greater than 0"),
    ],
)
def test_impossible_rows_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(CatalogError, match=message) as caught:
        FAILURE_BOOKS.load(written(tmp_path, old, new))
    assert re.match(r".*mine\.yaml:\d+: ", str(caught.value))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            """
            repairs:
              - {kind: server, base: 9000, date: "2026", source: tickets, confidence: low}
            """,
            "9000 h are more than a year: give at most 8,760 h",
        ),
        (
            """
            leads:
              - {kind: server, base: 24, date: "2026", source: tickets, confidence: low}
              - {kind: server, base: 48, date: "2026", source: tickets, confidence: low}
            """,
            "leads: 'server' stands there twice",
        ),
        (
            """
            leads:
              - {kind: server, low: 50, base: 24, date: "2026", source: me, confidence: low}
            """,
            "values run low <= base <= high",
        ),
    ],
)
def test_impossible_times_are_refused(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        FAILURE_BOOKS.load(written(tmp_path, "", "", more))


def test_an_unknown_cause_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean Leaf switch"):
        FAILURE_BOOKS.load("2026").rate("Leaf swich")


def test_single_values_are_replaced() -> None:
    book = FAILURE_BOOKS.load("2026", overrides={"failures.rates.NIC.base": "0.004"})
    assert book.rate("NIC").base == 0.004


def test_a_linear_module_fails_less_by_the_share_of_the_processor_at_every_end() -> None:
    book = FAILURE_BOOKS.load("2026")
    dsp, linear = (
        book.rate(name).rate_per_year for name in ("Optical module", "Linear optical module")
    )
    # 300 FIT of the digital signal processor, 300e-9 x 8,760 h, of 0.00876 a year: 30 %.
    assert linear.base == pytest.approx(dsp.base - 300e-9 * 8760, rel=1e-3)
    assert linear.low / dsp.low == pytest.approx(linear.base / dsp.base, rel=2e-3)
