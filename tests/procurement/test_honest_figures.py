"""What a buyer reads adds up: ranges, drivers, differences, modules, ports; at sizes of today."""

import re
from functools import cache
from typing import Any

import pytest

import netplan
from netplan.procurement.report import Procurement
from netplan.reports.schema import plain_data

SIZES = {
    "h100-80gb": (64, None, "llama-3-405b", (256, 1024, 2048, 8192, 16_384, 41_472)),
    "b200": (144, 72, "gpt-175b", (288, 576, 1152, 4608, 10_368, 41_472)),
    "tpu-v4": (64, None, "gpt-175b", (256, 1024, 2048, 4096, 16_384, 41_472)),
}
CASES = [(name, gpus) for name, (*_, sizes) in SIZES.items() for gpus in sizes]
FABRICS = ("rail-optimized", "rail-only", "dgx-superpod", "dgx-2", "dragonfly", "torus-2d")
each_case = pytest.mark.parametrize(("accelerator", "gpus"), CASES)


@cache
def report(accelerator: str, gpus: int) -> Procurement:
    """What a buyer gets."""
    radix, hb_size, model, _ = SIZES[accelerator]
    asked: dict[str, Any] = {"gpus": gpus, "radix": radix, "hb_size": hb_size, "model": model}
    return netplan.procurement(
        "rail-only-paper", **asked, accelerator=accelerator, fabrics=FABRICS, prices="2026"
    )


@each_case
def test_ranges_end_where_the_book_does(accelerator: str, gpus: int) -> None:
    answer = report(accelerator, gpus)
    lines = answer.text(400, details=True).splitlines()
    for bill in answer.cost.bills:
        base = answer.cost.scale.number(bill.capital.base)
        row = next(line for line in lines if re.match(rf"{bill.name} (\* )? *[-≥\d]", line))
        if bill.cost is None:  # such as three links of 266.7 Gb/s
            assert re.match(rf"{bill.name} (\* )? *- +- +- ", row)
            continue
        spans = re.findall(r"([\d.,]+) to ([\d.,]+)(\+?)", row)
        if not bill.capital.spread:
            assert spans == []
            continue
        # A high that is no more than the base is none: then the low stands alone, as "76.7+".
        assert all(high != base for _, high, _ in spans)
        unbound = any(one.price is None or one.price.high is None for one in bill.quote.items)
        assert all((plus == "+") == unbound for _, _, plus in spans)
        # A sum that lacks parts is a lower bound, wherever it stands.
        lacking = any(one.price is None for one in bill.quote.items)
        assert (f"≥ {base}" in row) == lacking


@each_case
def test_drivers_are_the_whole_price(accelerator: str, gpus: int) -> None:
    for bill in report(accelerator, gpus).cost.bills:
        used = {one.what: one.price for one in bill.quote.items if one.price is not None}
        # Gear that comes with the servers costs nothing and drives nothing.
        assert {driver.part for driver in bill.drivers} == {
            w for w, row in used.items() if row.base
        }
        total = sum(driver.amount for driver in bill.drivers)
        assert total == pytest.approx(bill.capital.base)
        for driver in bill.drivers:
            ends = [("low", used[driver.part].low), ("high", used[driver.part].high)]
            stated = " and ".join(end for end, price in ends if price is not None)
            assert driver.stated.removesuffix(" only") == (stated or "no spread")


@each_case
def test_differences_are_those_of_the_printed_amounts(accelerator: str, gpus: int) -> None:
    answer = report(accelerator, gpus)
    scale = answer.cost.scale
    shown = {
        bill.name: round(bill.capital.base / scale.factor, scale.digits)
        for bill in answer.cost.bills
    }
    advice = answer.recommendation
    best = advice.fabric or (advice.verdict.tied[:1] or ("",))[0] if advice.verdict else ""
    text = " ".join((advice.sentence, *advice.reasons))
    for name, amount, way in re.findall(
        rf"([\w-]+) costs ([\d.,]+) {scale.title} (less|more)", text
    ):
        apart = shown[best] - shown[name] if way == "less" else shown[name] - shown[best]
        assert float(amount.replace(",", "")) == pytest.approx(apart, abs=1e-6)
    for amount, name in re.findall(rf"([\d.,]+) {scale.title} \(\d+ %\) less than ([\w-]+)", text):
        apart = shown[name] - shown[best]
        assert float(amount.replace(",", "")) == pytest.approx(apart, abs=1e-6)


@each_case
def test_who_wins_is_a_design_for_the_accelerator_with_its_price(
    accelerator: str, gpus: int
) -> None:
    answer = report(accelerator, gpus)
    verdict = answer.recommendation.verdict
    rows = {row.name: row for row in answer.comparison.rows}
    assert verdict is not None
    for name in (verdict.fabric, *verdict.tied):
        assert name is None or not rows[name].built_with
        assert name is None or rows[name].cost_complete
    built = [row for row in rows.values() if not row.built_with]
    sold = [row for row in built if not row.unsold] or built  # who sells none takes any
    timed = [row for row in sold if row.best]
    if verdict.fabric is None:
        assert verdict.tied or not timed
        return
    best, fastest = rows[verdict.fabric], min(row.time_s for row in timed)
    assert best.time_s <= 1.05 * fastest
    assert best.cost is not None
    assert best.fabric is not None
    near = [row for row in timed if row.time_s <= 1.05 * fastest and row.cost_complete]
    assert all(row.cost and row.cost.base >= best.cost.base for row in near)
    others = [row for row in timed if row is not best]
    assert bool(verdict.changes) == bool(others)  # what would let another win
    assert ("has no switches" in verdict.sentence) == (best.fabric.network == "direct")


@each_case
def test_ports_bandwidth_and_modules_are_in_the_tables(accelerator: str, gpus: int) -> None:
    answer = report(accelerator, gpus)
    switched = {"rail-optimized", "rail-only", "dragonfly", "dgx-superpod", "dgx-2"}
    rows = answer.comparison.rows
    (rate,) = {row.fabric.gpu_bytes_per_s for row in rows if row.name in switched and row.fabric}
    for row in rows:
        assert row.fabric is not None
        assert row.bill is not None
        own = 4 * rate if accelerator == "tpu-v4" else rate
        assert row.fabric.gpu_bytes_per_s == (own if row.name == "torus-2d" else rate)
        lines = [one.line for one in row.bill.quote.items if one.line.part == "transceiver"]
        found = plain_data(row)
        assert found["modules"] == sum(line.order for line in lines)
        assert found["ports_per_gpu"] == row.fabric.nic_ports / gpus
    (heads,) = {
        line
        for line in answer.text(400, details=True).splitlines()
        if line.startswith("Fabric") and "GB/s" in line and "/GPU" in line
    }
    assert {"ports", "GB/s", "modules"} <= set(heads.split())


def test_a_report_without_a_recommendation_shows_a_bill_that_is_whole() -> None:
    # Nothing trains; nothing of torus-3d has a price, and dgx-2 is built with V100.
    answer = netplan.procurement(
        "rail-only-paper",
        gpus=256,
        radix=64,
        accelerator="h100-80gb",
        fabrics=("torus-3d", "dgx-2", "rail-only"),
        prices="2026",
    )
    assert answer.recommendation.fabric is None
    assert answer.chosen.name == "rail-only"
    assert "The cheapest, in full: rail-only" in answer.text(120, details=True)
    assert "What to order: rail-only" not in answer.text(120, details=True)


def test_charts_show_no_price_where_there_is_none() -> None:
    fabrics = ("rail-only", "torus-2d", "torus-3d")
    asked: dict[str, Any] = {"gpus": 32_768, "radix": 128, "prices": "rail-only-2023"}
    answer = netplan.procurement("rail-only-paper", **asked, fabrics=fabrics)
    page = answer.html()
    charts = {
        key: re.sub(r"<[^>]+>", "|", re.sub(r"<title>.*?</title>", "", drawn, flags=re.DOTALL))
        for key, drawn in re.findall(r'id="chart-(\w+)"(.*?)</figure>', page, re.DOTALL)
    }
    # Fabrics stand beside their bars from the top down, points at theirs from left to right.
    price = re.findall(r"\|(rail-only|torus-[23]d[^|]*)\|", charts["price"])
    assert price[:3] == ["rail-only", "torus-2d ≥", "torus-3d, no price"]
    assert "torus-3d" not in charts["speed"]
    assert {"torus-2d ≥", "rail-only"} <= {*charts["speed"].split("|")}


def test_parts_for_nothing() -> None:
    free = {f"prices.prices.{part}@400.base": "0" for part in ("64x400g", "transceiver")}
    free["prices.prices.nic_port@400.base"] = "0"
    asked: dict[str, Any] = {"gpus": 4096, "radix": 64, "accelerator": "h100-80gb", "hb_size": 64}
    asked |= {"prices": "2026", "fabrics": ("rail-only", "dragonfly"), "overrides": free}
    for rule in ("near-fastest", "run-cost", "price", "fastest"):
        answer = netplan.compare("rail-only-paper", **asked, rule=rule)
        assert answer.verdict is not None
        assert "rail-only" in (answer.verdict.fabric, *answer.verdict.tied)
        bought = netplan.procurement("rail-only-paper", **asked, rule=rule)
        assert bought.recommendation.verdict is not None
        assert "rail-only" in bought.text(100, details=True)
        assert "<html" in bought.html()
        assert "rail-only" in bought.cost.csv()
