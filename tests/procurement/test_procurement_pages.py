"""The first pages of a procurement report: ten questions of a buyer, answered by text."""

import re
from collections import Counter
from html import unescape
from typing import Any

import pytest

import netplan
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.wiring import Hardware, wire
from netplan.faults.years.rates import FAILURE_BOOKS
from netplan.procurement.front_page import headline
from netplan.procurement.known_unknown import (
    largest_prices,
    network_risks,
    order_lead_time,
    unpriced_lines,
)
from netplan.procurement.report import Procurement, procurement
from netplan.reports.sections import Heading, Notes, Table
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

FRONT = ("answers", "decision", "trust", "unknown", "changes", "risks", "comparison")


@pytest.fixture(scope="module")
def answer() -> Procurement:
    return procurement("rail-only-paper", gpus=32768, radix=128, prices="2026")


def test_three_lines_hold_price_years_run_and_reason(answer: Procurement) -> None:
    first, second, third = headline(answer)
    bills = {bill.name: bill for bill in answer.cost.bills}
    runs = {run.fabric: run for run in answer.runs}
    assert first.startswith("Order rail-only: its network for 32,768 GPUs costs 120.3 M USD")
    for name in ("rail-only", "rail-optimized"):  # the order, and the runner-up in brackets
        run = runs[name]
        assert run.cost is not None
        assert f"{bills[name].life.present_value.base / 1e6:,.1f}" in second
        assert f"{run.cost.base / 1e3:,.1f}" in second  # less than a million a run
        assert f"{run.price_per_pflops.base:,.0f}" in second
    assert third.startswith("Why: lowest cost within 5 % of the fastest iteration time, of ")


def test_chapters_stand_in_order_and_answer_before_they_prove(answer: Procurement) -> None:
    keys = [one.key for one in answer.sections() if isinstance(one, Heading) and one.key]
    assert tuple(keys[: len(FRONT)]) == FRONT


def test_what_is_not_known_is_one_box_and_fibre_one_line(answer: Procurement) -> None:
    sections = list(answer.sections())
    at = next(
        at for at, one in enumerate(sections) if isinstance(one, Heading) and one.key == "unknown"
    )
    box = sections[at + 1]
    assert isinstance(box, Notes)
    told = dict(box.groups)
    fibres = sum(line.order for line in answer.chosen.quote.unpriced if line.part == "fibre")
    assert told["No price"].count("fibre") == (1 if fibres else 0)
    assert "Lead time of the order" in told
    assert "Not on the bill" in told


def test_shares_of_the_largest_prices_are_those_of_the_bill(answer: Procurement) -> None:
    rows = largest_prices(answer)
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert [row.share for row in rows] == sorted((row.share for row in rows), reverse=True)
    assert all(row.trust and row.price.source for row in rows)


def test_failures_by_hand() -> None:
    # 1,024 GPUs, one port each, on 16 leaves of 64 ports; a leaf takes 64 ports, a card one.
    book, cabling = FAILURE_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    fabric = build_fabric(FABRICS.load("rail-only"), Sizing(1024, 64, 256, 450e9, 50e9))
    rows = {row.part: row for row in network_risks(fabric, book, wire(fabric, Hardware(cabling)))}
    leaf, card = rows["Leaf switch"], rows["NIC"]
    assert (leaf.units, leaf.ports_lost, card.units, card.ports_lost) == (16, 64, 1024, 1)
    each = book.rate("Leaf switch").rate_per_year
    assert leaf.per_year.base == pytest.approx(16 * each.base)
    assert leaf.lead_h.base == 1344  # eight weeks, as the book assumes
    # A torus has no leaf: no failure takes more than one GPU's port.
    torus = build_fabric(FABRICS.load("torus-3d"), Sizing(1024, 64, 256, 450e9, 50e9))
    risks = network_risks(torus, book, wire(torus, Hardware(cabling)))
    assert max(row.ports_lost for row in risks) == 1


def test_parts_that_fail_are_those_of_the_bill() -> None:
    found = procurement("hgx-b200", gpus=1024, fabrics=("fat-tree",), timing=False)
    tables = [one for one in found.sections() if isinstance(one, Table)]
    (risks,) = (table for table in tables if table.name == "network parts that fail")
    units = {row.part: row.units for row in risks.rows}
    items = found.cost.bills[0].quote.items
    ordered = {
        kind: sum(row.line.quantity for row in items if row.line.item.startswith(kind))
        for kind in ("Transceiver", "Multimode fibre", "Passive copper", "Amplified", "Retimed")
    }
    assert ordered["Transceiver"] > 0
    assert ordered["Retimed"] > 0
    for kind, part in (("Transceiver", "Optical module"), ("Multimode fibre", "Fibre")):
        assert sum(n for name, n in units.items() if name.startswith(part)) == ordered[kind]
    copper = sum(n for name, n in units.items() if "copper" in name.casefold())
    assert copper == ordered["Passive copper"] + ordered["Amplified"] + ordered["Retimed"]


def test_a_tie_is_called_one() -> None:
    found = procurement(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        fabrics=("fat-tree", "rail-optimized"),
        timing=False,
        prices="2026",
    )
    assert "tie for" in headline(found)[0]
    assert "fat-tree and rail-optimized tie" in headline(found)[-1]
    assert found.runner_up is not None
    assert {found.chosen.name, found.runner_up.name} == {"fat-tree", "rail-optimized"}
    decision = next(
        one for one in found.sections() if isinstance(one, Table) and one.name == "decision"
    )
    assert decision.rows[0][3] == "the same"


def test_alone_there_is_no_runner_up() -> None:
    found = procurement(
        "rail-only-paper", gpus=1024, radix=64, fabrics=("rail-only",), timing=False, prices="2026"
    )
    assert found.runner_up is None
    assert "<html" in found.html()


def test_networks_beside_that_tie_cost_the_same_in_words() -> None:
    # The bills hold the same lines in another order, whose sums differ in their last digits.
    found = procurement(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        hb_size=8,
        accelerator="h100-80gb",
        switch="qm9700",
        spares=("2%",),
        networks=("storage", "out-of-band"),
        timing=False,
        fabrics=("rail-optimized", "rail-only"),
        prices="2026",
    )
    assert [one.difference for one in found.cost.comparisons] == [0.0]
    assert "cost the same at base prices" in found.cost.statements[0]


def test_counts_side_by_side_are_all_those_of_the_order() -> None:
    # 16 leaves and 2 % more, rounded up; 1,024 cables of 2 modules, 2 % of each being 20.48, 40.96.
    found = procurement(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        spares=("2%",),
        timing=False,
        fabrics=("rail-only", "fat-tree"),
        prices="2026",
    )
    tables = {one.name: one for one in found.sections() if isinstance(one, Table)}
    sides = next(
        line
        for table in tables.values()
        for line in table.rows
        if table.name == "decision" and line[0] == "Switches / modules / cables, ordered"
    )
    assert "17 / 2,089 / 1,045" in sides[1:3]
    side = {column.quantity.name: column for column in tables["fabrics"].columns}
    (row,) = (one for one in tables["fabrics"].rows if one.name == "rail-only")
    counts = [side[name].get(row) for name in ("switches_ordered", "modules", "cables")]
    assert counts == [17, 2089, 1045]


def test_racks_and_lengths_are_those_of_the_cable_plan() -> None:
    hall: dict[str, Any] = {"gpus": 1024, "radix": 64, "hb_size": 8, "accelerator": "h100-80gb"}
    hall |= {"switch": "qm9700", "floor_plan": "example-hall"}
    report = netplan.procurement(
        "rail-only-paper", **hall, fabrics=("rail-optimized",), timing=False, prices="2026"
    )
    plan = {"fabric": "rail-optimized", **hall}
    racked = Counter(
        {
            row["rack"]: int(row["count"])
            for row in netplan.cables("rail-only-paper", **plan, to="racks").to_dict()["rows"]
            if row["what"] == "switch"
        }
    )
    assert report.racks is not None
    drawn = Counter(
        {
            name: len(kind.slots)
            for kind in report.racks.kinds
            for name in kind.names
            if kind.slots[0].switch
        }
    )
    assert drawn == racked
    # The plan counts links; a copper cable of twin cages carries two.
    planned: Counter[str] = Counter()
    for row in netplan.cables("rail-only-paper", **plan, to="lengths").to_dict()["rows"]:
        copper = row["medium"] in ("dac", "acc", "aec")
        name = row["medium"].upper() if copper else "Multimode fibre cable"
        planned[f"{name}, {row['length_m']} m"] += int(row["cables"]) // (1 + copper)
    (told,) = (
        one for one in report.sections() if isinstance(one, Table) and one.name == "cable lengths"
    )
    billed: Counter[str] = Counter()
    for line in told.rows:
        billed[", ".join(line.item.split(", ")[-2:])] += line.quantity
    assert billed == planned


def shown(html: str) -> str:
    """What a reader sees of a piece of a page, in one line."""
    text = unescape(re.sub(r"<[^>]*>", " ", html))
    return " ".join(text.split())


def summary(html: str) -> dict[str, str]:
    """Texts of the head of a page, and of the chapters that two sheets of paper hold, by key."""
    head = html[html.index('<div class="verdict">') : html.index('<p class="paper">')]
    parts = re.findall(r'<section id="(\w+)">(.*?)</section>', html, re.DOTALL)
    assert [key for key, _ in parts[: len(FRONT)]] == list(FRONT)
    told = {key: shown(text) for key, text in parts if key in FRONT[:-1]}
    return {"verdict": shown(head), **told}


HALL: dict[str, Any] = {
    "gpus": 1024,
    "radix": 64,
    "hb_size": 8,
    "accelerator": "h100-96gb-500w",  # of which nothing says what it is sold with: all may win
    "switch": "qm9700",
}


@pytest.mark.parametrize(
    "asked", [{"gpus": 32768, "radix": 128}, {**HALL, "spares": ("2%",)}], ids=["order", "tie"]
)
def test_the_page_answers_ten_questions_of_a_buyer(asked: dict[str, Any]) -> None:
    found = procurement("rail-only-paper", **asked, prices="2026")
    told, bill, scale = summary(found.html()), found.chosen, found.cost.scale
    largest, second = largest_prices(found)[0], found.runner_up
    assert bill.power_w is not None
    assert second is not None
    missing = next(iter(unpriced_lines(bill.quote.unpriced)), "every line of the order has one")
    ends = f"{scale.number(bill.capital.low)} to {scale.number(bill.capital.high)}"
    best = found.recommendation.fabric
    answers = {
        "which fabric": ("verdict", f"Order {best}:" if best else "Undecided: ask for offers"),
        "how much": ("verdict", f"{scale.number(bill.capital.base)} {scale.title}"),
        "range": ("verdict", f"({ends})"),
        "why": ("verdict", "Why: lowest cost within 5 % of the fastest iteration time"),
        "what is not priced": ("unknown", f"No price : {missing}"),
        "lead time": ("unknown", order_lead_time(found).replace(": ", " : ", 1)),
        "power": ("decision", f"Power, kW {bill.power_w / 1e3:,.1f} "),
        "weakest part": ("risks", "Weakest part: leaf switch. "),
        "source of the largest price": ("trust", largest.price.source.partition(";")[0]),
        "what would change it": (
            "changes",
            f"No price in the book flips it: {second.name}, "
            if "spares" not in asked
            else "rail-only and rail-optimized cost the same at base prices",
        ),
    }
    for question, (where, answer) in answers.items():
        assert answer in told[where], f"{question}: {told[where]}"
    # What follows the names of the questions is said, too: how many GPUs, how many weeks or none.
    assert re.search(
        r"Weakest part: leaf switch. One that fails takes a port from \d+ GPUs", told["risks"]
    )
    assert re.search(
        r"Lead time of the order : (no source|stated by makers: \S+ )", told["unknown"]
    )
    # Short sentences where the board reads: lists of fabrics are the longest.
    sentences = [text for line in headline(found) for text in re.split(r"[.:] ", line)]
    assert max(len(text.split()) for text in sentences) <= 25, sentences


def test_parts_are_counted_as_on_the_bill_beside_their_prices() -> None:
    # 1,024 ports of GPUs with a module each; at 48 switches 3,072 link ends, two to a module.
    found = procurement(
        "rail-only-paper", **HALL, fabrics=("rail-optimized",), timing=False, prices="2026"
    )
    modules = [row for row in largest_prices(found) if row.part.startswith("transceiver")]
    counts = {(row.ordered, row.units) for row in modules}
    assert counts == {(1024, 1024), (3072 // 2, 3072)}  # of cards, and of twin cages
    assert sum(row.ordered for row in modules) == found.chosen.ordered("transceiver")


def test_the_page_shows_each_field_of_the_record() -> None:
    found = procurement("hgx-b200", gpus=4096)
    told = shown(found.html())
    answers = found.to_dict()["decision"]["answers"]
    assert len(answers) == 10
    for name, text in answers.items():
        assert text.strip(), name
        assert " ".join(text.split()) in told, name


def test_a_page_is_light_enough_for_mail() -> None:
    # 32,768 GPUs in a hall of thousands of racks, and an iteration of thousands of passes.
    found = procurement("hgx-b200", gpus=32768, simulate=True)
    assert 100_000 < len(found.html().encode()) < 500_000
