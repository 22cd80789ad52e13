"""Cards of a server that share a cage: a module there carries a link of each."""

import pytest

import netplan
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.costing.wiring import CARD, SERVER, Hardware, wire
from netplan.errors import InfeasibleError
from netplan.scenarios.reading import sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.designs import DESIGNS
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS

HARDWARE = Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load("qm9700"))


@pytest.mark.parametrize(("cage_cards", "modules"), [(1, 1016), (2, 508)])
def test_a_dgx_has_a_module_for_two_cards(cage_cards: int, modules: int) -> None:
    # 127 nodes of eight cards (NVIDIA RA-11333-001, Table 7): four twin-port modules each.
    on = ACCELERATORS.load("h100-80gb", overrides={"accelerator.cage_cards": str(cage_cards)})
    spec = FABRICS.load(str(DESIGNS.paths()["dgx-superpod-ufm"]))
    wiring = wire(build_fabric(spec, sizing_on(on, gpus=1016, radix=64)), HARDWARE)
    cards = next(run for run in wiring.runs if CARD in run.ends)
    assert (cards.links, cards.plugs_at(1, 1)) == (1016, modules)
    assert wiring.violations == ()
    # The fabric managers have cards of their own, one port each.
    assert wiring.bank(SERVER).cage.links == 1


def test_an_odd_card_has_a_cage_of_its_own() -> None:
    on = ACCELERATORS.load("h100-80gb", overrides={"accelerator.cage_cards": "2"})
    sizing = sizing_on(on, gpus=9, radix=64)
    wiring = wire(build_fabric(FABRICS.load("fat-tree"), sizing), HARDWARE)
    assert wiring.bank(CARD).cages * wiring.bank(CARD).devices == 5  # ceil(9 / 2)
    assert wiring.violations == ()


def test_a_hall_refuses_shared_cages_and_the_published_media_take_them() -> None:
    asked = {
        "gpus": 1024,
        "fabrics": ("rail-optimized",),
        "switch": "qm9700",
        "overrides": {"accelerator.cage_cards": "2"},
    }
    with pytest.raises(InfeasibleError, match=r"cage_cards = 2: .* add --hall as-published"):
        netplan.cost("hgx-h100", **asked)
    (bill,) = netplan.cost("hgx-h100", **asked, hall="as-published").to_dict()["fabrics"]
    counts = {line["item"]: line["quantity"] for line in bill["items"]}
    assert counts["Twin-port OSFP 2 x 400G SR4, flat top"] == 512  # 1,024 cards in twos
