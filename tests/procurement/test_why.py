"""Why a report orders what it orders: what separates the order from the runner-up, part by part."""

from typing import Any

from netplan.decide.difference import difference_words, differences
from netplan.procurement.front_page import decision_chapter, headline
from netplan.procurement.report import procurement
from netplan.reports.sections import Table

PAPER: dict[str, Any] = {
    "gpus": 32_768,
    "radix": 128,
    "fabrics": ("rail-optimized", "rail-only"),
    "timing": False,
}


def test_the_headline_says_what_makes_the_difference() -> None:
    # 1,024 x 128 x 748 and 131,072 x 374 USD at the paper's prices.
    findings = procurement("rail-only-paper", **PAPER)
    *_, why = headline(findings)
    assert why == (
        "Why: lowest cost, of rail-optimized and rail-only. rail-optimized instead: 1,024 switches"
        " +98.0 M, 131,072 modules +49.0 M."
    )
    assert findings.runner_up is not None
    assert difference_words(findings.runner_up, findings.chosen) in why


def test_the_order_stands_beside_the_runner_up_part_by_part() -> None:
    findings = procurement("rail-only-paper", **PAPER)
    assert findings.runner_up is not None
    (table,) = (
        section
        for section in decision_chapter(findings)
        if isinstance(section, Table) and section.name == "parts"
    )
    rows = [tuple(column.text(part) for column in table.columns) for part in table.rows]
    assert rows[:2] == [
        ("switches", "256", "1,280", "+98.0"),
        ("modules", "65,536", "196,608", "+49.0"),
    ]
    # Racks and fibre have no price at those prices, and say so.
    assert {row[-1] for row in rows[2:]} == {"no price"}
    parts = differences(findings.chosen, findings.runner_up)
    assert len(rows) == sum(part.changed for part in parts)


def test_one_fabric_alone_has_nothing_beside_it() -> None:
    findings = procurement("rail-only-paper", **{**PAPER, "fabrics": ("rail-only",)})
    *_, why = headline(findings)
    assert why == "Why: lowest cost."


def test_what_nobody_sells_is_marked_and_no_reason() -> None:
    # A torus costs less than rail-only, but no maker joins HGX servers by it.
    fabrics = ("rail-optimized", "rail-only", "torus-2d")
    findings = procurement("hgx-h100", gpus=4096, model="llama-3-70b", fabrics=fabrics)
    prices = {bill.name: bill.capital.base for bill in findings.cost.bills}
    assert prices["torus-2d"] < prices["rail-only"]
    assert findings.recommendation.fabric == "rail-only"
    *_, why = headline(findings)
    assert "of rail-optimized and rail-only." in why
    told = [findings.recommendation.sentence, why, *findings.recommendation.reasons]
    assert not [text for text in told if "torus" in text]
    text = findings.text(200, details=True)
    assert "torus-2d *" in text
    assert "* not sold for HGX servers: not in the verdict." in text
