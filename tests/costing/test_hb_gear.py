"""Gear inside HB domains: counts and prices against 70 reference rows, and where cost steps."""

import csv
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.costing.hb_gear import (
    HB_GEAR_BOOKS,
    DomainGear,
    GearChoice,
    SecondTier,
    domain_gear,
    hb_parts,
)
from netplan.costing.prices import PRICE_BOOKS
from netplan.decide.difference import differences
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS

STEPS = ("board", "rack", "optics")
BOOK, PRICES = HB_GEAR_BOOKS.load("2026"), PRICE_BOOKS.load("2026")
with (Path(__file__).parent / "hb_gear_reference.csv").open(encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))
CHIPS = {row.name: row.accelerators[-1] for row in BOOK.switches}
RATES = {"nvlink5": 900e9}


def gear(
    hb_size: int,
    chip: str = "gb200",
    *,
    domains: int = 8,
    rate: float = 900e9,
    second_tier: SecondTier = "clos",
) -> DomainGear:
    """What joins some full domains of one size."""
    sizing = Sizing(domains * hb_size, 64, hb_size, rate, 50e9)
    fabric = build_fabric(FABRICS.load("rail-optimized"), sizing)
    choice = GearChoice(
        BOOK.changed(second_tier=second_tier), chip, ACCELERATORS.load(chip).housing
    )
    return domain_gear(fabric, choice, PRICES)


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row['switch']}-{row['hb_size']}-{row['layer2']}"
)
def test_reference_rows(row: dict[str, str]) -> None:
    size, rate = int(row["hb_size"]), RATES.get(row["switch"], 1800e9)
    tier: SecondTier = "all-to-all" if row["layer2"] == "all-to-all" else "clos"
    switch = BOOK.switch_of(CHIPS[row["switch"]])
    assert switch.name == row["switch"]
    housing = ACCELERATORS.load(CHIPS[row["switch"]]).housing
    assert housing is not None
    parts = hb_parts(size, rate, switch, most=(8, housing.gpus), second_tier=tier)
    links = parts.copper_links, parts.optic_gb_s
    assert (STEPS.index(parts.step), parts.asics_1, parts.asics_2) == (
        int(row["tiers"]),
        int(row["asics_tier1"]),
        int(row["asics_tier2"]),
    )
    assert links == (int(row["copper_links"]), float(row["optic_gb_s"]))
    made = gear(size, CHIPS[row["switch"]], rate=rate, second_tier=tier)
    price = made.in_server if parts.step == "board" else made.quote.total
    assert made.bought is (parts.step != "board")
    for end in ("low", "base", "high"):
        each = price.at_end(end) / (8 * size)
        assert each == pytest.approx(float(row[end]), abs=0.5 + 1e-9)  # printed to the dollar


def kinds(made: DomainGear) -> dict[str, float]:
    """Base price of a GPU of 1,152 by part."""
    found: dict[str, float] = {}
    for item in made.quote.items:
        kind = item.line.kinds[0]
        found[kind] = found.get(kind, 0.0) + item.total.base / 1152
    return found


def test_cost_over_the_size_steps_only_where_a_part_does() -> None:
    """Flat on the board, in a rack, beyond; the jumps are those parts that the step adds."""
    sizes = (2, 4, 8, 16, 32, 64, 72, 144, 288, 576)
    curve = {size: kinds(gear(size, domains=1152 // size)) for size in sizes}
    totals = {size: sum(parts.values()) for size, parts in curve.items()}
    steps = [(a, b) for a, b in pairwise(sizes) if abs(totals[b] - totals[a]) > 0.01 * totals[b]]
    assert steps == [(8, 16), (72, 144)]
    # From the board to the rack: switches 900 x 5.79 and copper 900 x 2.28 a GPU.
    assert curve[16] == pytest.approx({"hb-switch": 5211, "hb-copper": 2052})
    # From copper to optics: two more ASICs for each of before, and 900 x 16.1 of light.
    more = {kind: curve[144][kind] - curve[72].get(kind, 0.0) for kind in curve[144]}
    assert more == pytest.approx(
        {"hb-switch": 2 * 5211, "hb-copper": 0, "hb-optic": 14_490}, abs=1e-6
    )
    assert totals[144] - totals[72] == pytest.approx(24_912)


def test_the_last_rack_has_all_its_switches() -> None:
    # 100 GPUs in racks of 72: 2 x 18 ASICs; copper for 100 GPUs alone.
    sizing = Sizing(100, 64, 72, 900e9, 50e9)
    fabric = build_fabric(FABRICS.load("rail-optimized"), sizing)
    made = domain_gear(fabric, GearChoice(BOOK, "gb200"), PRICES)
    assert [item.line.quantity for item in made.quote.items] == [36, 90_000]


def test_power_is_of_asics_and_modules() -> None:
    # 8 domains of 144: (72 + 36) ASICs of 800 W each, 129,600 GB/s of two modules of 25 W a 200.
    made = gear(144)
    assert made.power.base == pytest.approx(8 * (108 * 800 + 129_600 * 2 * 25 / 200))
    assert made.power.low < made.power.base < made.power.high
    assert gear(8).power.high == 0


def test_an_offer_by_the_gpu_is_taken_at_its_word() -> None:
    row = PRICES.price("hb_gear", None, "hb-copper")
    assert row is not None
    offer = row.changed(model="nvl72", hb_size=72, unit="USD/GPU", low=None, base=9000.0, high=None)
    book = replace(PRICES, prices=(*PRICES.prices, offer))
    sizing = Sizing(576, 64, 72, 900e9, 50e9)
    fabric = build_fabric(FABRICS.load("rail-optimized"), sizing)
    made = domain_gear(fabric, GearChoice(BOOK, "gb200"), book)
    assert made.quote.total.base == 576 * 9000
    assert [item.line.unit for item in made.quote.items] == ["GPU"]


def test_the_network_is_without_the_gear_unless_asked() -> None:
    asked: dict[str, Any] = {"gpus": 1152, "fabrics": ("rail-only", "rail-optimized")}
    apart = netplan.cost("nvl72-gb200", **asked)
    whole = netplan.cost("nvl72-gb200", **asked, networks=("hb-gear",))
    # 1,152 x 900 x (5.79 + 2.28) USD, the same in both fabrics.
    for bare, full in zip(apart.bills, whole.bills, strict=True):
        assert bare.gear == pytest.approx(8_366_976)
        assert full.capital.base - bare.capital.base == pytest.approx(8_366_976)
        assert not any(item.line.part == "hb_gear" for item in bare.quote.items)
        assert full.power_w - bare.power_w == pytest.approx(288 * 800)  # type: ignore[operator]
    found = apart.to_dict()["fabrics"][0]["inside_hb_domains"]
    assert (found["counted"], found["in_server"], found["complete"]) == (False, False, True)


def test_gear_without_a_price_marks_the_sum_that_it_is_asked_into() -> None:
    asked: dict[str, Any] = {"gpus": 1152, "hb_size": 64, "fabrics": ("rail-optimized",)}
    paper = netplan.cost("rail-only-paper", **asked, networks=("hb-gear",))
    assert not paper.bills[0].complete
    assert paper.to_dict()["fabrics"][0]["cost_complete"] is False
    assert "≥" in paper.text()
    apart = netplan.cost("rail-only-paper", **asked)
    assert apart.bills[0].complete
    assert not apart.bills[0].inside.known


def test_rail_only_over_the_size_is_a_curve_whose_jumps_are_parts() -> None:
    """Network and gear of 36,864 GPUs from K = 8 to 576: what makes each step of 2 % or more."""
    sizes = (8, 16, 32, 64, 72, 128, 144, 256, 288, 576)
    asked: dict[str, Any] = {"gpus": 36_864, "radix": 128, "fabrics": ("rail-only",)}
    bills = {
        size: netplan.cost("hgx-b200", **asked, hb_size=size, networks=("hb-gear",)).bills[0]
        for size in sizes
    }
    jumps: dict[tuple[int, int], list[str]] = {}
    for a, b in pairwise(sizes):
        parts = differences(bills[a], bills[b])
        more = bills[b].capital.base - bills[a].capital.base
        assert sum(part.difference for part in parts) == pytest.approx(more, abs=1)
        if abs(more) > 0.025 * bills[a].capital.base:
            jumps[a, b] = [part.part for part in parts if abs(part.difference) > 0.2 * abs(more)]
    # Racks and copper beyond a server of 8; optics beyond a rack of 72; and where 36,864 / K GPUs
    # of a rail fit under one switch of 128 ports, at K = 288, spines and their modules go.
    assert jumps == {
        (8, 16): ["hb-gear"],
        (72, 128): ["hb-gear"],
        (256, 288): ["switches", "transceivers"],
    }
    assert [len(bills[size].fabric.tiers) for size in (256, 288)] == [2, 1]
    assert all(bills[size].complete for size in sizes)


@pytest.mark.parametrize(
    ("chip", "size", "board", "rack"),
    [
        ("gb200", 72, 8, 72),
        ("kyber-nvl144", 144, 8, 144),
        ("mi455x", 72, 8, 72),
        ("h100-80gb", 8, 8, 72),
        ("mi300x", 8, 8, 72),
        ("trainium2", 16, 16, 72),
        ("sn40l", 16, 16, 72),
    ],
)
def test_racks_of_halls_and_of_gear_are_those_of_the_accelerator(
    chip: str, size: int, board: int, rack: int
) -> None:
    choice = GearChoice(BOOK, chip, ACCELERATORS.load(chip).housing)
    assert (choice.board, choice.rack) == (board, rack)
    fabric = build_fabric(FABRICS.load("rail-optimized"), Sizing(8 * size, 64, size, 900e9, 50e9))
    made = domain_gear(fabric, choice, PRICES)
    assert made.bought is (size > board)
    assert not any(item.line.kinds[0] == "hb-optic" for item in made.quote.items)


@pytest.mark.parametrize("chip", ["mi300x", "trainium2", "sn40l", "gaudi-3"])
def test_servers_without_a_switch_hold_none(chip: str) -> None:
    size = ACCELERATORS.load(chip).hb_size
    fabric = build_fabric(FABRICS.load("rail-optimized"), Sizing(8 * size, 64, size, 448e9, 50e9))
    made = domain_gear(fabric, GearChoice(BOOK, chip, ACCELERATORS.load(chip).housing), PRICES)
    assert (made.bought, made.in_server.high) == (False, 0.0)
    assert made.notes == (
        f"HB domains of {size} {chip} are joined by links of their own, without a switch.",
    )
