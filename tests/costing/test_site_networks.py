"""Networks beside the one that trains, and bills whose cables a floor plan measures."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.wiring import Hardware, wire
from netplan.errors import InputError, NetplanError
from netplan.questions.cost import cost
from netplan.topologies.site_networks import SITE_NETWORKS, build_site_network
from netplan.topologies.specs import FABRICS

BOOK = CABLING_BOOKS.load("2026")
NAMES = tuple(SITE_NETWORKS.paths())
HALL = "example-hall"


@given(st.sampled_from(NAMES), st.integers(8, 1_000_000), st.integers(0, 50_000))
@settings(max_examples=150, deadline=None)
def test_every_site_network_closes_and_holds_its_ports(name: str, gpus: int, switches: int) -> None:
    network = SITE_NETWORKS.load(name)
    fabric = build_site_network(network, FABRICS.load(network.fabric), gpus, switches)
    assert wire(fabric, Hardware(BOOK)).violations == ()
    assert fabric.links[0].links == max(8, network.ports(gpus, switches))


def test_ports_by_hand() -> None:
    # 125 nodes: 250 in-band ports, and a twentieth more, 12.5, rounded up.
    assert SITE_NETWORKS.load("management").ports(1000, 0) == 263
    assert SITE_NETWORKS.load("out-of-band").ports(1000, 70) == 195
    assert SITE_NETWORKS.load("storage").ports(8, 0) == 3


def test_networks_come_after_the_training_network_and_out_of_band_counts_their_switches() -> None:
    question = {"gpus": 1024, "radix": 64, "accelerator": "h100-80gb", "hb_size": 8}
    plain = cost(**question, fabrics=("rail-optimized",))  # type: ignore[arg-type]
    names = ("storage", "management", "out-of-band")
    full = cost(**question, fabrics=("rail-optimized",), networks=names)  # type: ignore[arg-type]
    lines = [item.line for item in full.bills[0].quote.items]
    assert [line for line in lines if not line.network] == [
        item.line for item in plain.bills[0].quote.items
    ]
    switches = {line.network: line.quantity for line in lines if line.category == "switches"}
    # 48 of the compute network; storage: 320 ports on 11 leaves + 6 spines (each leaf 5 links to
    # each; full leaves would be 10, and 8 spines); management: 269 ports of 48:16 leaves.
    assert (switches[""], switches["storage"]) == (48, 17)
    hosts = [line for line in lines if line.network == "out-of-band" and line.category == "cables"]
    assert hosts[0].item == "Cat 6 cable, RJ45, 3 m"
    assert hosts[0].quantity == 128 + 48 + 17 + switches["management"]
    assert not any(line.category == "cards" for line in lines if line.network == "out-of-band")
    assert plain.left_out[0] == "storage network"
    assert full.left_out[0] == "servers, accelerators and their racks"
    assert full.to_frame()["network"].iloc[-1] == "out-of-band"


def test_unknown_network_names_the_nearest() -> None:
    with pytest.raises(NetplanError, match=r"unknown network 'storag': did you mean storage\?"):
        cost(gpus=1024, radix=64, networks=("storag",))


@pytest.mark.parametrize(
    ("fabric", "switch"),
    [
        ("rail-optimized", None),
        ("rail-optimized", "qm9700"),
        ("dgx-superpod", "qm9700"),
        ("torus-3d", None),
        ("dragonfly", None),
        ("topologies/designs/dgx-superpod-ufm.yaml", "qm9700"),
    ],
)
def test_floor_plan_measures_every_cable_once(fabric: str, switch: str | None) -> None:
    gpus = 992 if "ufm" in fabric else 1024
    question = {"gpus": gpus, "radix": 64, "hb_size": 8, "fabrics": (fabric,), "switch": switch}
    classed, measured = (
        cost(**question, accelerator="h100-80gb", floor_plan=hall)  # type: ignore[arg-type]
        for hall in (None, HALL)
    )
    counts = []
    for answer in (classed, measured):
        items = [item.line for item in answer.bills[0].quote.items]
        cables = [line for line in items if line.category == "cables"]
        counts.append(sum(line.quantity * line.price_units for line in cables))
    assert counts[0] == counts[1]
    lines = [item.line for item in measured.bills[0].quote.items if item.line.category == "cables"]
    assert all("from the floor plan" in line.specification for line in lines)
    assert len({line.item for line in lines}) > 2


def test_passive_copper_only_where_it_reaches() -> None:
    answer = cost(gpus=512, radix=64, hb_size=8, fabrics=("torus-3d",), floor_plan=HALL)
    for item in answer.bills[0].quote.items:
        name, _, length = item.line.item.rpartition(", ")
        if name.startswith("Passive copper"):
            assert float(length.removesuffix(" m")) <= 3
        elif item.line.category == "cables":
            assert float(length.removesuffix(" m")) > 3


def test_one_kind_of_module_in_twin_cages() -> None:
    answer = cost(gpus=32_768, radix=128, fabrics=("rail-only",), switch="sn5600", floor_plan=HALL)
    lines = [item.line for item in answer.bills[0].quote.items]
    fibres = {line.item.partition(",")[0] for line in lines if line.category == "cables"}
    # Some cables are 70 m long: beyond multimode, so all are single-mode.
    assert fibres == {"Single-mode fibre cable"}


def test_floor_plan_knows_no_circuit_switches() -> None:
    with pytest.raises(InputError, match="no place for circuit switches"):
        cost(gpus=4096, radix=64, hb_size=1, fabrics=("torus-3d",), ocs="palomar", floor_plan=HALL)
