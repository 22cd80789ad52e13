"""Parts as a buyer orders them: numbers, fibre, power of modules, and how far copper carries."""

import pytest

import netplan
from netplan.answers.cost_answer import CostAnswer
from netplan.costing.cabling import CABLING_BOOKS, CableKind
from netplan.costing.materials import BillItem
from netplan.costing.switches import SWITCHES
from netplan.costing.wiring import Cage, Link, first_that_closes
from netplan.questions.cost import cost

BOOK = CABLING_BOOKS.load("2026")


def lines(answer: CostAnswer) -> dict[str, BillItem]:
    return {item.line.item: item.line for item in answer.bills[0].quote.items}


def test_a_buyer_can_order_the_bill_of_256_gpus() -> None:
    answer = cost(
        "rail-only-paper",
        gpus=256,
        accelerator="h100-80gb",
        hb_size=8,
        switch="qm9700",
        fabrics=("fat-tree",),
    )
    numbers = {name: line.part_number for name, line in lines(answer).items()}
    # 8 leaves of 32 + 32, 4 spines; 128 modules for the hosts and 256 between switches.
    assert numbers == {
        "Switch qm9700": "MQM9700-NS2F",
        "MMA4Z00-NS, twin-port OSFP 2 x 400G SR4, finned top": "MMA4Z00-NS",
        "MMA4Z00-NS400, OSFP 400G SR4, flat top": "MMA4Z00-NS400",
        "Multimode fibre cable, 15 m": "MFP7E10-N015",
        "Multimode fibre cable, 30 m": "MFP7E10-N030",
        "ConnectX-7, 1 x 400G": "MCX75310AAS-NEAT",
        "Rack of 42 units": "",
    }
    fibre = lines(answer)["Multimode fibre cable, 30 m"]
    assert fibre.specification.startswith("MPO-12/APC, OM4, polarity type B, one a link")
    assert fibre.accepted == ("980-9I570-00N030",)
    # Switches as the manual has them, twin modules 15 W, those of cards 8 W, cards 24.9 W.
    watts = 12 * 747 + (128 + 256) * 15 + 256 * 8 + 256 * 24.9
    assert answer.bills[0].power_w == pytest.approx(watts, rel=1e-12)
    item = answer.to_dict()["fabrics"][0]["items"][0]
    assert (item["part_number"], item["accepted"]) == ("MQM9700-NS2F", ["920-9B210-00FN-0M0"])


def test_air_the_other_way_is_another_number() -> None:
    answer = cost(
        "rail-only-paper",
        gpus=256,
        accelerator="h100-80gb",
        switch="qm9700",
        fabrics=("fat-tree",),
        overrides={"qm9700.airflow": "connector-to-power"},
    )
    switch = lines(answer)["Switch qm9700"]
    assert switch.part_number == "MQM9700-NS2R"
    assert switch.specification.endswith("air connector-to-power")


def test_800g_over_eight_lanes_needs_two_fibre_cables_a_link() -> None:
    # MMA4Z00-NS at both ends of a link between switches has two MPO-12 connectors.
    cage = Cage("osfp-finned", 800, 1, 100)
    run = first_that_closes(cage, cage, Link(BOOK, (), 30))
    assert run is not None
    module = BOOK.module(run.plugs[0].item)
    assert module is not None
    assert (module.fibre_cables, module.typical_w) == (2, 15)


@pytest.mark.parametrize(
    ("lane_gbps", "length_m", "split", "straight"),
    [
        (100, 2, "dac", "dac"),
        (100, 3, "dac", "acc"),
        (100, 5, "acc", "acc"),
        (100, 7, "aec", "aec"),
        (100, 10, "om4", "om4"),  # nothing optical has fixed plugs there
        (100, 70, "os2", "os2"),
        (200, 0.5, "acc", "acc"),  # no passive cable at 200 Gb/s a lane
        (200, 2, "acc", "acc"),
        (200, 3, "os2", "acc"),
        (200, 4, "os2", "os2"),
        (50, 3, "dac", "aoc"),
        (50, 100, "aoc", "aoc"),
        (25, 5, "dac", "dac"),
    ],
)
def test_copper_carries_as_far_as_its_lanes_let_it(
    lane_gbps: float, length_m: float, split: str, straight: str
) -> None:
    cage = Cage("any", 400, 1, lane_gbps)
    kinds: tuple[CableKind, ...] = ("dac", "acc", "aec", "aoc")
    made = [
        first_that_closes(cage, cage, Link(BOOK, kinds, length_m, straight=plugs))
        for plugs in (False, True)
    ]
    assert [run.kind if run else "" for run in made] == [split, straight]


def test_links_of_800g_without_a_switch_model_have_the_lanes_of_their_card() -> None:
    cage = Cage("any", 800)
    run = first_that_closes(cage, cage, Link(BOOK, ("dac", "acc", "aec"), 1))
    assert run is not None
    assert run.medium == "acc"


def test_optics_of_a_co_packaged_switch_are_on_no_line() -> None:
    question = {"gpus": 1152, "accelerator": "b300", "hb_size": 8, "fabrics": ("fat-tree",)}
    ours, sister = (cost("rail-only-paper", **question, switch=name) for name in ("q3450", "q3400"))
    assert {name: line.quantity for name, line in lines(ours).items() if "Gear" not in name} == {
        "Switch q3450": 24,  # 16 leaves of 72 + 72, 8 spines
        "MMS4A20, OSFP 800G DR4, flat top": 1152,
        "Single-mode fibre cable, 15 m": 1152,
        "Single-mode fibre cable, 30 m": 1152,
        "ConnectX-8, 1 x 800G": 1152,
        "Rack of 42 units": 3,
    }
    # With modules all 24 x 72 = 1,728 cages are filled: 24 x 7.0 kW against 24 x 3.95 kW.
    assert lines(sister)["MMS4A00, twin-port OSFP 2 x 800G DR4, finned top"].quantity == 1728
    cards_w = 1152 * (12.5 + 43)  # a module, and a card of 800 Gb/s as it is assumed
    assert ours.bills[0].power_w == pytest.approx(24 * 3950 + cards_w)
    assert sister.bills[0].power_w == pytest.approx(24 * 7000 + cards_w)
    assert any("Power uncertain" in note for note in ours.bills[0].notes)


def test_every_switch_number_belongs_to_one_way_of_the_air() -> None:
    for path in SWITCHES.paths().values():
        model = SWITCHES.load(str(path))
        assert len({one.airflow for one in model.orders}) == len(model.orders), path
        assert model.ordered is not None or not model.orders, path


def test_cards_inside_the_servers_are_on_no_bill_and_named() -> None:
    question = {"gpus": 1024, "radix": 64, "accelerator": "h100-80gb", "hb_size": 8}
    names = {"fabrics": ("fat-tree",), "prices": "2026"}
    bought = netplan.cost("rail-only-paper", **question, **names)
    ours = netplan.cost(
        "rail-only-paper", **question, **names, cards="included", networks=("storage",)
    )
    assert not [item for item in ours.bills[0].quote.items if item.line.category == "cards"]
    assert "network cards, which come inside the servers" in ours.left_out
    (with_cards,), (without,) = (
        netplan.compare("rail-only-paper", **question, **names, timing=False, cards=cards).rows
        for cards in ("bought", "included")
    )
    # One price everywhere, 1,024 cards of 1,499 USD and 24.9 W apart.
    assert with_cards.cost is not None
    assert without.cost is not None
    assert with_cards.cost.base == bought.bills[0].capital.base
    assert with_cards.cost.base - without.cost.base == 1024 * 1499
    assert with_cards.power_w is not None
    assert without.power_w is not None
    assert with_cards.power_w - without.power_w == pytest.approx(1024 * 24.9)
    best = netplan.optimize(
        "rail-only-paper",
        gpus=1024,
        accelerator="h100-80gb",
        prices="2026",
        fabrics=("fat-tree",),
        radices=(64,),
        hb_sizes=(8,),
        oversubscriptions=(1,),
        cards="included",
    )
    assert best.rows[0].row.cost == without.cost


def test_optics_of_1_gbit_end_in_lc_and_of_100_in_mpo() -> None:
    found = {}
    for speed_gbps in (1, 100):
        cage = Cage("any" if speed_gbps == 1 else "qsfp28", speed_gbps, 1)
        run = first_that_closes(cage, cage, Link(BOOK, (), 30))
        assert run is not None
        module = BOOK.module(run.plugs[0].item)
        assert module is not None
        fibre = BOOK.fibre_cable(module.fibre, module.connector)
        found[speed_gbps] = fibre.words if fibre else ""
    assert found == {1: "LC duplex, OM3, polarity A-B", 100: "MPO-12/UPC, OM4, polarity type B"}
