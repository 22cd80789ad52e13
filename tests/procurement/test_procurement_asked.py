"""Chapters that a procurement report has where the question asks for them, as the others answer."""

import io
from typing import Any

import pytest
from openpyxl import load_workbook

import netplan
from netplan.procurement.front_page import headline
from netplan.procurement.report import Procurement
from netplan.reports.charts import Chart
from netplan.reports.sections import Heading, data_tables

PAIR = ("rail-only", "dragonfly")
SMALL: dict[str, Any] = {"gpus": 64, "radix": 64, "hb_size": 8, "accelerator": "h100-80gb"}
TRAINED: dict[str, Any] = {**SMALL, "model": "gpt-22b", "batch": 64}
SERVED: dict[str, Any] = {
    **SMALL,
    "model": "llama-3.1-8b",
    "workload": "serving",
    "precision": "fp8",
    "concurrency": 64,
}


def keys(answer: Procurement) -> list[str]:
    return [one.key for one in answer.sections() if isinstance(one, Heading) and one.key]


def test_servers_are_bought_by_what_their_tokens_cost() -> None:
    report = netplan.procurement("serving-70b-h200", **SERVED, fabrics=PAIR)
    spares = report.cost.inputs["spares"]
    priced = netplan.cost(
        "serving-70b-h200", **SERVED, fabrics=PAIR, prices="2026", spares=tuple(spares)
    )
    assert report.to_dict()["cost"] == priced.to_dict()
    paid = {one.fabric: one.served.cost.total.base for one in priced.served if one.served.cost}
    cheapest = min(paid.keys() - {"dragonfly"}, key=paid.__getitem__)
    assert report.recommendation.fabric == cheapest
    assert f"A million tokens: {paid[cheapest]:,.3f}" in headline(report)[1]
    alone = netplan.serving(
        "serving-70b-h200", **{k: v for k, v in SERVED.items() if k != "workload"}, fabric=cheapest
    )
    assert report.to_dict()["serving"]["plans"] == alone.to_dict()["plans"]
    assert "serving" in keys(report)
    assert "simulation" not in keys(report)
    assert report.html() == netplan.procurement("serving-70b-h200", **SERVED, fabrics=PAIR).html()


def test_the_order_is_simulated_as_simulate_does_it() -> None:
    report = netplan.procurement(
        "rail-only-paper", **TRAINED, fabrics=PAIR, simulate=True, prices="2026"
    )
    alone = netplan.simulate("rail-only-paper", **TRAINED, fabric=report.chosen.name)
    found = report.to_dict()["simulation"]
    assert found["iteration_time_s"] == alone.found.iteration_time_s
    assert "seconds" not in found
    assert "simulation" in keys(report)
    assert "computed in" not in report.text(details=True)


def test_memory_behind_gpus_is_paid_for_and_told_by_tier() -> None:
    asked = {**TRAINED, "expanded_memory": "comet-480gb", "fabrics": PAIR, "memory_model": "model"}
    report = netplan.procurement(
        "rail-only-paper", **asked, iteration_model="calibrated", prices="2026"
    )
    assert report.chosen.memory.base > 0
    assert {"memory", "errors"} <= set(keys(report))
    price = next(one for one in report.sections() if isinstance(one, Chart) and one.key == "price")
    layers = [layer["x"] for layer in price.data if layer["type"] == "bar"]
    drawn = [sum(parts) * report.cost.scale.factor for parts in zip(*layers, strict=True)]
    assert drawn == pytest.approx([bill.capital.base for bill in report.cost.bills])
    tables = {one.name: one for one in data_tables(report.sections())}
    # 480 GB behind the 80 GB of an H100.
    capacity = [row["capacity_bytes"] for row in tables["memory_tiers"].records()]
    assert capacity == [80e9, 480e9]
    for row in tables["error bars"].records():
        ends = [float(str(row[f"iteration_time_{end}s"])) for end in ("low_", "", "high_")]
        assert ends == sorted(set(ends))


def test_the_spreadsheet_has_what_the_report_has() -> None:
    report = netplan.procurement(
        "rail-only-paper", **TRAINED, fabrics=PAIR, simulate=True, prices="2026"
    )
    book = load_workbook(io.BytesIO(report.xlsx()), data_only=True)
    assert {"Summary", "Prices", "Simulation- stages", "Network parts that fail"} <= set(
        book.sheetnames
    )
    rows = list(book["Training run"].iter_rows(values_only=True))
    by_fabric = {row[0]: row for row in rows[1:]}
    at = next(at for at, name in enumerate(rows[0]) if str(name).startswith("network, USD"))
    for run in report.runs:
        assert run.cost is not None
        assert by_fabric[run.fabric][at] == pytest.approx(run.cost.base, abs=0.006)


def test_servers_with_failures_have_their_chapter() -> None:
    page = netplan.procurement(
        "serving-70b-h200", **SERVED, fabrics=("rail-only",), with_faults=True
    ).html()
    assert 'id="faults"' in page


def test_lengths_are_measured_on_a_floor_plan_where_the_bill_is() -> None:
    for hall, measured in (("leaves-in-rack", True), ("as-published", False)):
        report = netplan.procurement(**TRAINED, fabrics=PAIR, hall=hall, simulate=False)
        page = " ".join(report.text(details=True).split())
        assert (report.chosen.hall != "as-published") == measured
        assert (f"Measured on the floor plan {hall}" in page) == measured
        assert ("No floor plan measures them" in page) != measured


def test_the_first_page_answers_over_all_cases() -> None:
    answer = netplan.procurement("hgx-b200", gpus=1024, accelerator=("h100-80gb", "gb300"))
    over, which = answer.over_cases
    assert over.startswith("All in")
    assert "h100-80gb" in over
    assert "gb300" in over
    assert answer.case in which
    decision = answer.decision
    assert decision is not None
    assert decision.answers is not None
    assert decision.answers.order.startswith(over)


def test_rails_grow_by_whole_domains() -> None:
    # 4,096 and 8,192 GPUs end within racks of 72: 57 of them are 4,104 GPUs, 114 are 8,208.
    asked = {"gpus": 4096, "fabrics": ("rail-only", "fat-tree"), "timing": False}
    decision = netplan.compare("nvl72-gb200", **asked).decision
    assert decision is not None
    assert decision.answers is not None
    assert decision.answers.growth.startswith("To 8,208 GPUs, in whole HB domains of 72: ")
    assert ".." not in decision.answers.growth
