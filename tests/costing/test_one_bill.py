"""One bill: whoever asks what a fabric costs gets the same amount, to the cent."""

import csv
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netplan
from netplan.catalog import shipped_root
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.costing.pricing import price_bill
from netplan.costing.switches import SWITCHES
from netplan.errors import NetplanError
from netplan.faults.damage.damage import network_links
from netplan.procurement.report import procurement
from netplan.records import replace
from netplan.scenarios.scenario import Scenario
from netplan.studies.questions import answer as study_point
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.cable_plan import cable_plan
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import SWITCH, network_only
from netplan.topologies.specs import FABRICS
from netplan.traffic.routing import tree_of_graph

HALL = "example-hall"


def drawn(generator: random.Random) -> dict[str, Any]:
    """A question about one fabric, with and without floor plan and switch model."""
    switch = generator.choice([None, None, "qm9700", "qm9790", "sn5600", "s9321-64eo", "q3400"])
    speed = 800 if switch == "q3400" else 400
    ports = SWITCHES.load(switch).radix(speed) if switch else 2 * generator.randint(8, 64)
    return {
        "gpus": generator.choice([generator.randint(8, 600), 2 ** generator.randint(3, 11)]),
        "radix": ports,
        "hb_size": generator.choice([1, 2, 4, 8]),
        "fabric": generator.choice(list(FABRICS.paths())),
        "accelerator": "b200" if speed == 800 else "h100-80gb",
        "prices": generator.choice(list(PRICE_BOOKS.paths())),
        "oversubscription": generator.choice([None, None, 1.0, 2.0, 3.0]),
        "ports": generator.choice(["shared", "full"]),
        "switch": switch,
        "floor_plan": generator.choice([None, HALL]),
    }


def amounts(question: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Price and power of the network by who else is asked."""
    keywords = alone(question)
    report = procurement("rail-only-paper", **keywords, timing=False).to_dict()
    rows = {
        "compare": netplan.compare("rail-only-paper", **keywords, timing=False).to_dict()[
            "fabrics"
        ][0],
        "report": report["cost"]["fabrics"][0],
        "report's comparison": report["comparison"]["fabrics"][0],
        "study of compare": study_point(
            "compare", {**question, "timing": False}, scenario="rail-only-paper"
        ),
        "study of cost": study_point("cost", question, scenario="rail-only-paper"),
    }
    return {name: (row["cost"], row["power_w"]) for name, row in rows.items()}


def alone(question: dict[str, Any]) -> dict[str, Any]:
    """The question with its fabric as a list of one."""
    keywords = {**question, "fabrics": (question["fabric"],)}
    del keywords["fabric"]
    return keywords


def _money(bill: Bill) -> dict[str, Any] | None:
    cost = bill.cost
    if cost is None:
        return None
    return {"currency": "USD", "low": cost.low, "base": cost.base, "high": cost.high}


@pytest.mark.parametrize(
    ("seed", "questions"), [(11, 50), pytest.param(12, 90, marks=pytest.mark.slow)]
)
def test_compare_cost_report_and_study_agree_to_the_cent(seed: int, questions: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - no secret
    answered: Counter[tuple[bool, bool]] = Counter()
    tried = 0
    while sum(answered.values()) < questions:
        question = drawn(generator)
        tried += 1
        try:
            (made,) = netplan.cost("rail-only-paper", **alone(question)).bills
        except NetplanError:
            continue  # such as a size that the fabric does not have
        expected = (_money(made), made.power_w)
        found = amounts(question)
        assert found == dict.fromkeys(found, expected), question
        answered[question["switch"] is not None, question["floor_plan"] is not None] += 1
    assert tried < 4 * questions
    assert min(answered.values()) > questions // 20
    assert len(answered) == 4


def test_who_refuses_a_question_refuses_it_alike() -> None:
    question: dict[str, Any] = {"gpus": 1000, "radix": 64, "hb_size": 8, "fabrics": ("rail-only",)}
    for ask in (netplan.compare, netplan.cost):
        with pytest.raises(NetplanError, match="has 128 ports of 400 Gb/s, got --radix 64"):
            ask("rail-only-paper", **question, switch="sn5600")
        with pytest.raises(
            NetplanError, match="unknown floor-plan 'hall': known: as-published, ex"
        ):
            ask("rail-only-paper", **question, floor_plan="hall")
        with pytest.raises(NetplanError, match=r"holds 1,600 racks, 2,500 for GPUs"):
            ask("rail-only-paper", **{**question, "gpus": 80_000}, floor_plan=HALL)


@pytest.mark.parametrize("switches", [(), ("qm9700", "qm9790")])
def test_an_optimization_prices_its_designs_like_a_comparison(switches: tuple[str, ...]) -> None:
    found = netplan.optimize(
        "rail-only-paper",
        gpus=1024,
        hb_sizes=(8,),
        accelerator="h100-80gb",
        model="gpt-175b",
        prices="2026",
        switches=switches,
        radices=() if switches else (64, 128),
    )
    for front in found.rows:
        for design in (front.design, *front.equal):
            (row,) = netplan.compare(
                "rail-only-paper",
                gpus=1024,
                radix=design.radix or 64,
                hb_size=8,
                accelerator="h100-80gb",
                fabrics=(design.choice.spec.name,),
                oversubscription=design.oversubscription,
                prices="2026",
                switch=design.switch.name if design.switch else None,
                timing=False,
            ).rows
            assert (row.cost, row.power_w) == (design.row.cost, design.row.power_w)
            if row.label == "rail-only" and not switches and design.radix == 128:
                # A switch a rail: 8 boxes, two modules, a cable of 15 m, a card and laying a host.
                host = 2 * 611.95 + 191.425 + 1499 + 87
                assert row.cost is not None
                assert row.cost.base == pytest.approx(8 * 85_000 + 1024 * host + 10_200)


def test_what_has_no_price_is_null() -> None:
    question: dict[str, Any] = {"gpus": 1024, "radix": 64, "hb_size": 8}
    # 300 Gb/s: no book has a part at that rate.
    slow = {
        **question,
        "prices": "rail-only-2023",
        "overrides": {"accelerator.network_bytes_per_s": "37.5e9"},
    }
    (row,) = netplan.compare(
        "rail-only-paper", **slow, fabrics=("rail-only",), timing=False
    ).to_dict()["fabrics"]
    assert row["cost"] is row["cost_usd"] is None
    assert not row["cost_complete"]
    (bill,) = netplan.cost("rail-only-paper", **slow, fabrics=("rail-only",)).to_dict()["fabrics"]
    assert bill["cost"] is None
    # Six links of 66.7 Gb/s a GPU: no module, no card, no power. A ring of them costs not 0.
    torus = netplan.cost(
        "rail-only-paper", **question, prices="2026", fabrics=("torus-3d", "rail-only")
    )
    data = torus.to_dict()["fabrics"][0]
    assert data["cost"] is data["power_w"] is None
    line = next(
        text for text in torus.text(200, details=True).splitlines() if text.startswith("torus-3d  ")
    )
    assert set(line.split()[1:]) == {"-"}


# --- cables and racks of a hall -------------------------------------------------------------


@cache
def sheet(to: str, gpus: int, switch: str | None, fabric: str) -> list[dict[str, str]]:
    """A table of the cable plan, row by row."""
    made = netplan.cables(
        "rail-only-paper",
        gpus=gpus,
        radix=64,
        hb_size=8,
        fabric=fabric,
        floor_plan=HALL,
        switch=switch,
        to=to,
    )
    rows: list[dict[str, str]] = made.to_dict()["rows"]
    return rows


def bill(gpus: int, switch: str | None, fabric: str) -> Bill:
    """The bill of a fabric in the hall."""
    asked: dict[str, Any] = {"gpus": gpus, "radix": 64, "hb_size": 8, "switch": switch}
    asked |= {"floor_plan": HALL, "prices": "2026"}
    return netplan.cost(
        "rail-only-paper", **asked, accelerator="h100-80gb", fabrics=(fabric,)
    ).bills[0]


@pytest.mark.parametrize("switch", [None, "qm9700"])
@pytest.mark.parametrize("fabric", ["rail-optimized", "rail-only", "dragonfly", "fat-tree"])
def test_racks_and_lengths_of_the_bill_are_those_of_the_cable_plan(
    fabric: str, switch: str | None
) -> None:
    made = bill(2048, switch, fabric)
    racks = [row for row in sheet("racks", 2048, switch, fabric) if row["what"] == "switch"]
    ordered = [item.line for item in made.quote.items if item.line.category == "racks"]
    assert [line.quantity for line in ordered] == [len(racks)]
    assert {int(row["count"]) for row in racks[:-1]} == {made.racks.each} == {16}
    links: Counter[float] = Counter()
    for item in made.quote.items:
        if item.line.category == "cables":
            length = float(item.line.item.rpartition(", ")[2].removesuffix(" m"))
            links[length] += item.line.quantity * item.line.price_units
    lengths: Counter[float] = Counter()
    for row in sheet("lengths", 2048, switch, fabric):
        lengths[float(row["length_m"])] += int(row["cables"])
    plan = Counter(float(row["length_m"]) for row in sheet("plan", 2048, switch, fabric))
    assert plan == lengths
    # A splitter of two links may carry only one at the end of a leaf's ports.
    assert links == lengths if switch is None else +(links - lengths).total() <= 128


def test_96_switches_stand_in_six_racks() -> None:
    # 2,048 GPUs: 64 leaves and 32 spines, 16 switches a rack in the hall; in racks of 42 U
    # without a hall 21 of 1 U with 1 U for their cables, which are five.
    made = bill(2048, "qm9700", "rail-optimized")
    assert (made.fabric.switches, made.racks.count) == (96, 6)
    without = netplan.cost(
        "rail-only-paper", gpus=2048, radix=64, hb_size=8, switch="qm9700"
    ).bills[0]
    assert without.racks.count == 5


def test_high_switches_take_more_racks_in_bill_and_plan_alike() -> None:
    # A q3400 has 4 U: a rack of 42 U holds 10, where the hall would take 16.
    question: dict[str, Any] = {"gpus": 4096, "radix": 144, "hb_size": 8, "accelerator": "b200"}
    question |= {"switch": "q3400", "floor_plan": HALL}
    made = netplan.cost("rail-only-paper", **question, fabrics=("rail-optimized",)).bills[0]
    plan = netplan.cables("rail-only-paper", **question, fabric="rail-optimized", to="racks")
    held = [int(row["count"]) for row in plan.to_dict()["rows"] if row["what"] == "switch"]
    assert max(held) == made.racks.each == 10
    assert len(held) == made.racks.count


def test_twin_port_cages_take_copper_where_it_reaches() -> None:
    # 256 GPUs: 8 leaves and 4 spines stand in one rack, with 8 links between any two of them, so
    # that 256 leaf-spine links are 128 straight cables of two links. Hosts within 7 m are copper,
    # of two that share a cage of the named model only where both are.
    any_switch, twin = (bill(256, switch, "rail-optimized") for switch in (None, "qm9700"))
    straight = [
        item.line for item in twin.quote.items if item.line.item.startswith("MCP4Y10, OSFP finned")
    ]
    assert sum(line.quantity for line in straight) == 128
    near = [
        sum(line.quantity * line.price_units for line in lines if line.kind in ("acc", "aec"))
        for lines in ([item.line for item in made.quote.items] for made in (any_switch, twin))
    ]
    assert 0 < near[1] <= near[0] < 256
    kinds = Counter(row["medium"] for row in sheet("plan", 256, "qm9700", "rail-optimized"))
    assert kinds == {"copper": 256 + near[1], "fibre": 256 - near[1]}


def test_a_fabric_is_compared_in_a_hall_that_is_too_small_for_the_baseline(tmp_path: Path) -> None:
    # 2,048 GPUs in 64 racks: rail-optimized has 96 switches in 6 racks, dgx-superpod as many, and
    # a torus none.
    shipped = (shipped_root() / "topologies" / "floor-plans" / f"{HALL}.yaml").read_text("utf-8")
    hall = tmp_path / "small.yaml"
    hall.write_text(
        shipped.replace("\nrows: 40\nracks_per_row: 40", "\nrows: 1\nracks_per_row: 64")
    )
    rows = netplan.compare(
        "rail-only-paper",
        gpus=2048,
        radix=64,
        hb_size=8,
        fabrics=("torus-3d", "rail-optimized"),
        floor_plan=str(hall),
        timing=False,
    ).rows
    assert rows[0].bill is not None
    assert rows[0].cost_reduction is None
    assert rows[1].notes[0].startswith("Cannot be built: floor plan example-hall holds 64 racks")


def test_cables_that_no_book_has_keep_their_length_without_a_medium() -> None:
    # Four links of 200G in a cage: the cabling book has no module for that.
    made = netplan.cables(
        "rail-only-paper",
        gpus=256,
        radix=256,
        hb_size=8,
        accelerator="a100-80gb",
        switch="sn5600",
        floor_plan=HALL,
        to="lengths",
        fabric="rail-only",
    )
    rows = made.to_dict()["rows"]
    assert {row["medium"] for row in rows} == {""}
    assert sum(int(row["cables"]) for row in rows) == 256


def test_splitters_serve_cards_within_their_reach() -> None:
    # In the hall no card is within 3 m of its switch, but some are within the 5 m of an amplified
    # and the 7 m of a retimed cable.
    made = bill(256, "qm9700", "dragonfly")
    items = {item.line.item: item.line for item in made.quote.items}
    rows = sheet("lengths", 256, "qm9700", "dragonfly")
    for name, kind in (("MCA7J60", "acc"), ("SF-NND1J", "aec")):
        active = [line for item, line in items.items() if item.startswith(name)]
        near = [row for row in rows if row["medium"] == kind and row["group"] == "host"]
        assert active
        assert sum(line.quantity * 2 for line in active) == sum(int(row["cables"]) for row in near)


def test_modules_are_counted_cage_by_cage() -> None:
    # Every optical link has a module's half at each switch and a whole one at a card.
    made = bill(2048, "qm9700", "rail-optimized")
    rows = sheet("plan", 2048, "qm9700", "rail-optimized")
    cages = {
        (row[f"{end}_device"], row[f"{end}_port"].partition("/")[0])
        for row in rows
        for end in "az"
        if row["medium"] == "fibre" and "/" in row[f"{end}_port"]
    }
    twins = [
        item.line for item in made.quote.items if item.line.item.startswith("MMA4Z00-NS, twin")
    ]
    assert [line.quantity for line in twins] == [len(cages)]


def test_table_2_of_the_paper_in_compare() -> None:
    path = shipped_root() / "reports" / "published" / "rail-only-table2.csv"
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        answer = netplan.compare(
            "rail-only-paper",
            gpus=int(row["gpus"]),
            radix=int(row["radix"]),
            hb_size=256,
            timing=False,
        )
        found = {one.name: one for one in answer.rows}
        for name, column in (("rail-optimized", "sota"), ("rail-only", "rail_only")):
            switches, optics = (
                int(row[f"{column}_{what}"]) for what in ("switches", "transceivers")
            )
            expected = 748 * int(row["radix"]) * switches + 374 * optics
            cost = found[name].cost
            assert cost is not None
            assert cost.base == expected


@pytest.mark.parametrize("name", ["rail-optimized", "fat-tree", "uneven-clos", "dgx-superpod"])
@pytest.mark.parametrize(("gpus", "radix"), [(1000, 16), (2560, 64)])
def test_counts_graph_cables_and_bill_agree(name: str, gpus: int, radix: int) -> None:
    spec, size = FABRICS.load(name), Sizing(gpus, radix, 8, 450e9, 50e9)
    fabric, graph = build_fabric(spec, size), expand(spec, size)
    assert np.count_nonzero(graph.node_kind == SWITCH) == fabric.switches
    network = network_only(graph)
    assert network.link_count == fabric.link_count == len(cable_plan(graph))
    books = BillBooks(
        PRICE_BOOKS.load("2026"), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    )
    ordered = {item.line.category: item.line for item in make_bill(spec, size, books).quote.items}
    assert ordered["switches"].quantity == fabric.switches
    assert tree_of_graph(graph, np.flatnonzero(network_links(graph))) is not None


def test_only_a_book_whose_source_leaves_a_part_out_has_whole_sums_without_it() -> None:
    book = PRICE_BOOKS.load("2026")
    bill = Scenario.load("hgx-b200").replace(gpus=1024).fabric("rail-only").bill()
    assert bill.complete
    lines = [item.line for item in bill.quote.items]
    without = book.changed(prices=tuple(row for row in book.prices if row.part != "fibre"))
    partial = replace(bill, quote=price_bill(lines, without))
    assert {line.part for line in partial.unpriced_apart} == {"fibre"}
    assert not partial.complete
    said = without.changed(leaves_out=("fibre",))
    assert replace(bill, quote=price_bill(lines, said)).complete
    paper = Scenario.load("rail-only-paper").fabric("rail-only").bill()
    assert {line.part for line in paper.quote.unpriced} >= {"fibre", "rack"}
    assert paper.complete
    with pytest.raises(ValueError, match="leaves_out names fibre, which has a price"):
        book.changed(leaves_out=("fibre",))
