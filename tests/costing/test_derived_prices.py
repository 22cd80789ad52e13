"""Prices of the book that follow from others are recomputed from them."""

import re

import pytest

from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.costing.prices import PRICE_BOOKS, Price
from netplan.workloads.accelerators import ACCELERATORS

BOOK, RENTS = PRICE_BOOKS.load("2026"), ECONOMICS_BOOKS.load("2026").gpu_hours
ENDS = ("low", "base", "high")
BY_RENT = [row for row in BOOK.prices if "over an hour of the H100" in (row.derived or "")]
# Boxes by the Tb/s of their ASIC, all at one price whatever their ports.
BOXES = {51.2: (64, 128, 256, 512), 102.4: (64, 128, 256, 512)}


def row(part: str, model: str) -> Price:
    """The row of one model."""
    return next(row for row in BOOK.prices if (row.part, row.model) == (part, model))


def ends(price: Price) -> tuple[float, float, float]:
    """Low, base and high."""
    found = price.range_at(1)
    return found.low, found.base, found.high


@pytest.mark.parametrize("terabits", BOXES)
def test_a_box_costs_the_same_at_every_rate(terabits: float) -> None:
    models = [f"{ports}x{1000 * terabits / ports:g}g" for ports in BOXES[terabits]]
    assert {ends(row("switch", model)) for model in models} == {ends(row("switch", models[0]))}


@pytest.mark.parametrize("gbps", [400, 800, 1600])
def test_a_port_is_a_64th_of_the_box(gbps: int) -> None:
    port = next(r for r in BOOK.prices if (r.part, r.speed_gbps) == ("switch_port", gbps))
    box = ends(row("switch", f"64x{gbps}g"))
    assert ends(port) == pytest.approx([usd / 64 for usd in box], rel=1e-4)


@pytest.mark.parametrize("price", BY_RENT, ids=lambda price: price.model)
def test_an_accelerator_without_a_price_costs_by_its_rent(price: Price) -> None:
    by_rent = row("accelerator", "h100-80gb").range_at(1).base
    by_rent *= RENTS[price.model].base / RENTS["h100-80gb"].base
    low, base, high = ends(price)
    assert base == pytest.approx(by_rent, rel=1e-4)
    if price.model != "h200":  # whose low is a retail price, and high 1.4 times the base
        assert (low, high) == pytest.approx((base / 2, 2 * base), rel=1e-4)
    else:
        assert high == pytest.approx(1.4 * base, rel=1e-4)
    # The words say the rents that it was computed from.
    said = re.search(r"([\d.]+) / ([\d.]+)$", price.derived or "")
    assert said is not None
    assert float(said[1]) == pytest.approx(RENTS[price.model].base)
    assert float(said[2]) == pytest.approx(RENTS["h100-80gb"].base)


@pytest.mark.parametrize(
    ("model", "racks", "card_gbps", "factor"),
    [
        ("gb200", (3.5e6, 3.75e6, 4.0e6), 400, None),
        ("gb300", (3.5e6, 4.0e6, 4.0e6), 800, None),
        ("vr-nvl72", (None, 7.8e6, 8.8e6), 1600, 1.4),
    ],
)
def test_an_accelerator_of_a_rack_is_the_rack_less_its_gear_and_card(
    model: str, racks: tuple[float | None, float, float], card_gbps: int, factor: float | None
) -> None:
    # ASICs and copper by the GB/s: as little gear as can be leaves as much for the GPU.
    cards = {r.speed_gbps: ends(r)[1] for r in BOOK.prices if r.part == "nic_port"}
    gb_s = ACCELERATORS.load(model).hb_bytes_per_s / 1e9
    parts = [ends(row("hb_gear", kind)) for kind in ("hb-switch", "hb-copper")]
    gear = [gb_s * sum(part[end] for part in parts) for end in (2, 1, 0)]
    due = [
        rack and rack / 72 - inside - cards[card_gbps]
        for rack, inside in zip(racks, gear, strict=True)
    ]
    low, base, high = ends(row("accelerator", model))
    assert (base, high) == pytest.approx((due[1], due[2]), rel=1e-5)
    assert low == pytest.approx(base / factor if factor else due[0], rel=1e-5)


def test_a_b300_is_a_b200_times_its_rack() -> None:
    b200, b300 = (row("accelerator", model).range_at(1) for model in ("b200", "b300"))
    assert b300.base == pytest.approx(b200.base * 4.0 / 3.75, rel=1e-4)
    assert ends(row("accelerator", "b200")) == ends(row("accelerator", "b200-1000w"))
