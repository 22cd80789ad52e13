"""``netplan grow``: orders that sum to one bill, present values by hand, three ways."""

import json
from typing import Any

import pytest

from netplan.costing.lifetime import Opex
from netplan.costing.phases import Course, present_value
from netplan.costing.ranges import Range
from netplan.errors import NetplanError
from netplan.questions.cost import cost
from netplan.questions.grow import grow

PHASES = (512, 1024, 2048)
POINT = Range.point
FREE: dict[str, Any] = {"tariff": 0.0, "maintenance": 0.0, "support": 0.0, "yearly_spares": 0.0}


def test_orders_sum_to_the_bill_of_the_final_design() -> None:
    answer = grow(
        "rail-only-paper", phases=PHASES, radix=64, accelerator="h100-80gb", prices="2026"
    )
    bills = cost(
        "rail-only-paper", gpus=2048, radix=64, accelerator="h100-80gb", prices="2026"
    ).bills
    # Clos of 64 + 32 switches, and eight rails of 8 + 4: two modules, a cable of 15 m or 30 m, and
    # a card at each host; racks of 14 boxes of 2 U.
    by_hand = 96 * 50_000 + 4 * 2048 * 611.95 + 2048 * (191.425 + 308.68 + 1499)
    for one, bill in zip(answer.grown, bills, strict=True):
        racks = sum(item.line.order for item in bill.quote.items if item.line.part == "rack")
        laid = bill.capital.base - by_hand - racks * 10_200
        assert racks == 7
        assert laid == pytest.approx(4096 * 87)
        assert one.steps[-1].bill.capital == bill.capital
        assert one.ways[0].capital.base == pytest.approx(bill.capital.base, rel=1e-12)
        assert one.ways[1].capital == bill.capital
        ordered = {item.line.item: 0 for item in bill.quote.items}
        for step in one.steps:
            for item in step.order.bought.items:
                ordered[item.line.item] += item.line.order
        assert ordered == {item.line.item: item.line.order for item in bill.quote.items}
        assert [step.moved for step in one.steps] == [0, 0, 0]
        assert one.ways[2].moved > 0


def test_present_values_by_hand() -> None:
    # At 10 %, without energy and upkeep: orders count 1, 1/1.1 and 1/1.21.
    answer = grow(
        "rail-only-paper",
        phases=PHASES,
        radix=64,
        prices="2026",
        interest=0.10,
        fabrics=("fat-tree",),
        **FREE,
    )
    one = answer.grown[0]
    first, second, third = (step.cost.base for step in one.steps)
    growing, once, _ = one.ways
    assert growing.present_value.base == pytest.approx(first + second / 1.1 + third / 1.21)
    assert once.present_value.base == pytest.approx(first + second + third)
    # A tenth of what is owned each year, at its end: 100 in years 1 and 2, then 300 in year 3.
    running = Opex(1, POINT(1.0), POINT(0.0), POINT(0.10), support=POINT(0.1))
    course = Course((POINT(1000.0), POINT(2000.0)), (POINT(1000.0), POINT(3000.0)), (0.0, 0.0))
    expected = 1000 + 2000 / 1.21 + 100 / 1.1 + 100 / 1.21 + 300 / 1.331
    assert present_value(course, (0, 2, 3), running).base == pytest.approx(expected)


def test_growth_in_one_step_less_is_dearer_early_and_no_cheaper_in_sum() -> None:
    full = grow(
        "rail-only-paper",
        phases=PHASES,
        radix=64,
        prices="2026",
        fabrics=("fat-tree",),
        fill="leaves",
    )
    least = grow("rail-only-paper", phases=PHASES, radix=64, prices="2026", fabrics=("fat-tree",))
    ways = [answer.grown[0].ways[0].present_value.base for answer in (least, full)]
    assert ways[0] <= ways[1]


def test_a_torus_opens_its_rings() -> None:
    # 64 domains of 8 are 4 x 4 x 4, 256 are 8 x 8 x 4: along two axes 16 rings of each of the 8
    # ranks lose the cable that closes them: 2 x 16 x 8 = 256.
    answer = grow(
        "rail-only-paper",
        phases=(512, 2048),
        radix=64,
        accelerator="h100-80gb",
        fabrics=("torus-3d",),
        prices="2026",
    )
    assert [step.moved for step in answer.grown[0].steps] == [0, 256]
    assert "256 cables move" in answer.verdicts[0]


def test_spares_and_switch_models_are_bought_as_they_are_needed() -> None:
    answer = grow(
        "rail-only-paper",
        phases=(256, 1024),
        accelerator="h100-80gb",
        switch="qm9700",
        spares="2%",
        prices="2026",
        fabrics=("rail-optimized",),
    )
    bill = cost(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        accelerator="h100-80gb",
        switch="qm9700",
        spares="2%",
        prices="2026",
        fabrics=("rail-optimized",),
    ).bills[0]
    data = json.loads(json.dumps(answer.to_dict(), allow_nan=False))["fabrics"][0]
    orders = [line for phase in data["phases"] for line in phase["order"]]
    switches = [line["order"] for line in orders if line["category"] == "switches"]
    assert sum(switches) == bill.ordered("switch_port") == 49
    assert data["phases"][-1]["standing_cost"]["base"] == bill.capital.base
    # 49 switches, 1,567 twin and 1,045 single modules, as many cables of either length and cards.
    each = 611.95 + 191.425 + 308.68 + 1499
    by_hand = 49 * 50_000 + 1567 * 889 + 1045 * each
    assert bill.capital.base == pytest.approx(by_hand, rel=0.04)
    assert data["phases"][0]["free_ports"] > 0
    assert data["cables_moved"] == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"phases": (2048,)}, "give 2 to 12 phases of rising size"),
        ({"phases": (2048, 512)}, "--gpus 2,048, 512"),
        ({"years_between": (0.0,)}, "give more than 0 years"),
        ({"years_between": (1.0, 1.0, 1.0)}, "give 1 or 2 for 3 phases"),
        ({"years_between": (1.0, 30.0)}, "--years-between 30"),
        ({"early_oversubscription": 40.0}, "give 1:1 to 16:1"),
        ({"phases": (500, 2048), "fabrics": ("rail-only",)}, "ends within an HB domain"),
        ({"phases": (4, 2048)}, "out of range"),
        ({"fabrics": ("ring-8-mesh-16",)}, "Cannot grow"),
    ],
)
def test_wrong_questions(given: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"phases": PHASES, "radix": 64} | given
    with pytest.raises(NetplanError, match=words):
        grow("rail-only-paper", **asked)
