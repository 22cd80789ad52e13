"""Networks beside the one that trains, and bills whose cables a floor plan measures."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.costing.wiring import Hardware, wire
from netplan.errors import InputError, NetplanError
from netplan.questions.cables import cables
from netplan.questions.cost import cost
from netplan.records import replace
from netplan.topologies.site_networks import SITE_NETWORKS, build_site_network, dealt_out
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
    assert wire(fabric, Hardware(BOOK, SWITCHES.load(network.switch))).violations == ()
    assert fabric.links[0].links == max(8, network.ports(gpus, switches))
    assert all(tier.ports_used <= tier.switches * network.radix for tier in fabric.tiers)


@given(st.integers(65, 2048), st.sampled_from([1.0, 2.0, 3.0]))
@settings(max_examples=50, deadline=None)
def test_links_can_be_dealt_out_as_counted(ports: int, ratio: float) -> None:
    counts, _ = dealt_out(ports, 64, ratio)
    (leaves, spines), (hosts, uplinks) = counts.switches_per_tier, counts.links_per_tier
    each = uplinks // leaves
    # Leaf i has one link more to the spines that follow i x (each mod spines), in turn.
    links = np.full((leaves, spines), each // spines)
    more = each % spines
    for leaf in range(leaves):
        links[leaf, (leaf * more + np.arange(more)) % spines] += 1
    assert hosts == ports
    assert links.min() >= 1
    assert links.sum(axis=0).max() <= 64
    assert -(-ports // leaves) + each <= 64
    assert each * ratio >= ports / leaves


def test_storage_of_4096_gpus_has_the_spines_that_its_ports_fill() -> None:
    # 512 nodes with 2 ports, a quarter more: 1,280. 40 leaves of 32 + 32, 1,280 uplinks on 20
    # spines of 64; links alike from every leaf to every spine need a divisor of 32 above 20: 32.
    question = {"gpus": 4096, "radix": 64, "accelerator": "h100-80gb", "hb_size": 8}
    asked = {"fabrics": ("fat-tree",), "networks": ("storage",)}
    answer = cost("rail-only-paper", **question, **asked)
    (line,) = (
        item.line
        for item in answer.bills[0].quote.items
        if item.line.network and item.line.category == "switches"
    )
    assert (line.quantity, line.notes[0]) == (60, "40 leaf, 20 spine")
    assert line.part_number == "MQM9700-NS2F"
    equal = cost(
        "rail-only-paper", **question, **asked, overrides={"storage.equal_uplinks": "true"}
    )
    assert any(
        item.line.quantity == 72 and item.line.network == "storage"
        for item in equal.bills[0].quote.items
    )


def test_out_of_band_and_in_band_are_sized_together_and_share_racks() -> None:
    names = ("out-of-band", "storage", "management")
    question = {"gpus": 4096, "radix": 64, "accelerator": "h100-80gb", "hb_size": 8}
    answer = cost("rail-only-paper", **question, fabrics=("fat-tree",), networks=names)
    bill = answer.bills[0]
    found = {(item.line.network, item.line.category): item.line for item in bill.quote.items}
    # 512 nodes and 320 + 60 + 30 other switches: 922 ports on 20 switches of 48, with 40 uplinks.
    # In band 1,024 + 52 + 40 = 1,116 ports on 24 leaves of 48:16; 24 x 16 uplinks on 6 spines.
    counts = {
        name: found[name, "switches"].quantity for name in ("storage", "management", "out-of-band")
    }
    assert counts == {"storage": 60, "management": 30, "out-of-band": 20}
    assert found["out-of-band", "cables"].quantity == 922
    # Modules at 1,116 ports, their far ends, and both ends of 384 links between switches.
    assert found["management", "transceivers"].quantity == 2 * (1116 + 384)
    assert "40 out-of-band switch" in found["management", "transceivers"].notes[0]
    assert found["management", "cards"].quantity == 1076
    # Every switch has 1 U for its cables: 21 of 1 U a rack, or 14 of 2 U. 20 open a rack, in which
    # one of the 60 fits; 59 in three more, where 2 of 2 U fit, and 28 in two.
    assert bill.site_racks == 6
    racks = {name: found[name, "racks"].quantity for name in names if (name, "racks") in found}
    assert racks == {"out-of-band": 1, "storage": 3, "management": 2}
    # Power: boxes as their makers say, 15 W a twin module, 8 W at a card, 24.9 W a card.
    storage_w = 60 * 747 + 1920 * 15 + 1280 * (8 + 24.9)
    rest_w = 20 * 98 + 30 * 466 + 3000 * 3.5
    plain = cost("rail-only-paper", **question, fabrics=("fat-tree",)).bills[0]
    assert bill.draw.typical_w - plain.draw.typical_w == pytest.approx(storage_w + rest_w)


@pytest.mark.parametrize("gpus", [1000, 4096])
def test_the_cable_plan_has_every_cable_of_the_bill_on_a_port_of_its_own(gpus: int) -> None:
    names = ("storage", "management", "out-of-band")
    question = {"gpus": gpus, "radix": 64, "accelerator": "h100-80gb", "hb_size": 8}
    asked = {"networks": names, "switch": "qm9700"}
    bill = cost("rail-only-paper", **question, **asked, fabrics=("fat-tree",)).bills[0]
    rows = cables("rail-only-paper", **question, **asked, fabric="fat-tree").to_dict()["rows"]
    planned = Counter(row["group"].split()[0] if " " in row["group"] else "" for row in rows)
    billed: Counter[str] = Counter()
    for item in bill.quote.items:
        if item.line.category == "cables":
            billed[item.line.network] += item.line.quantity
    assert planned == billed
    ends = [(row[f"{end}_device"], row[f"{end}_port"]) for row in rows for end in "az"]
    assert len(set(ends)) == len(ends)
    switches = {device for device, _ in ends if device.startswith(names)}
    # Ports of out-of-band switches beside the 48: the two uplinks.
    assert {name for name in switches if "-server-" not in name} >= {"storage/spine-0"}
    used = Counter(device for device, port in ends if not port.startswith(("uplink", "out-of")))
    assert max(count for device, count in used.items() if device.startswith(names)) <= 64
    # Both storage ports of a node end on leaves of their own.
    leaf = {(row["a_device"], row["a_port"]): row["z_device"] for row in rows}
    assert leaf["host-0", "storage-1"] != leaf["host-0", "storage-2"]


def test_other_tables_than_a_plan_are_of_one_network() -> None:
    with pytest.raises(InputError, match="leave --with out"):
        cables(
            "rail-only-paper",
            gpus=64,
            radix=16,
            hb_size=8,
            networks=("storage",),
            to="ufm-infiniband",
            fabric="rail-only",
        )
    with pytest.raises(InputError, match="its 5,120 ports make 3 tiers, which have no cable plan"):
        cables(
            "rail-only-paper",
            gpus=16_384,
            radix=64,
            hb_size=8,
            fabric="fat-tree",
            networks=("storage",),
        ).csv()


def test_switches_of_sockets_alone_are_joined_by_twisted_pairs() -> None:
    answer = cost(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        hb_size=8,
        networks=("out-of-band",),
        overrides={"out-of-band.uplinks_per_switch": "0"},
    )
    site = [item.line for item in answer.bills[0].quote.items if item.line.network]
    assert {line.item for line in site if line.category == "cables"} == {
        "Cat 6 cable, RJ45, 3 m",
        "Cat 6 cable, RJ45, 30 m",
    }
    assert not [line for line in site if line.category == "transceivers"]


def test_uplinks_that_end_on_no_network_of_the_bill_are_named() -> None:
    answer = cost("rail-only-paper", gpus=1024, radix=64, hb_size=8, networks=("out-of-band",))
    assert any("end on the network management" in note for note in answer.bills[0].notes)


def test_a_hall_holds_the_racks_of_networks_beside_too() -> None:
    question = {"gpus": 1024, "radix": 64, "hb_size": 8, "accelerator": "h100-80gb"}
    asked = {"fabrics": ("fat-tree",), "floor_plan": HALL, "networks": NAMES, "switch": "qm9700"}
    bill = cost("rail-only-paper", **question, **asked).bills[0]
    used = 1024 // 32 + bill.racks.count + bill.site_racks
    small = {"example-hall.rows": "1", "example-hall.racks_per_row": str(used - 1)}
    with pytest.raises(NetplanError, match=f"holds {used - 1} racks, 32 for GPUs and {used - 32}"):
        cost("rail-only-paper", **question, **asked, overrides=small)


def test_storage_writes_as_its_nodes_do_and_no_faster_than_its_ports() -> None:
    storage = SITE_NETWORKS.load("storage")
    # RA-11333-001, Table 6: 30, 80 and 250 GB/s of four units of 32 nodes.
    assert storage.write_bytes_per_s(1024) == pytest.approx((30e9, 80e9, 250e9))
    assert storage.write_bytes_per_s(131_072) == pytest.approx((3.84e12, 10.24e12, 32e12))
    # One port of 50 GB/s for the two of a node; of slow ports one takes less than the storage.
    slow = replace(storage, link_gbps=1.0)
    assert slow.write_bytes_per_s(8) == pytest.approx((0.125e9, 0.125e9, 0.125e9))
    assert SITE_NETWORKS.load("out-of-band").write_bytes_per_s(1024) is None


def test_ports_by_hand() -> None:
    # 125 nodes: 250 in-band ports, and a twentieth more, 12.5, rounded up.
    assert SITE_NETWORKS.load("management").ports(1000, 0) == 263
    assert SITE_NETWORKS.load("out-of-band").ports(1000, 70) == 195
    assert SITE_NETWORKS.load("storage").ports(8, 0) == 3


def test_networks_come_after_the_training_network_and_out_of_band_counts_their_switches() -> None:
    question = {"gpus": 1024, "radix": 64, "accelerator": "h100-80gb", "hb_size": 8}
    plain = cost("rail-only-paper", **question, fabrics=("rail-optimized",))
    names = ("storage", "management", "out-of-band")
    full = cost("rail-only-paper", **question, fabrics=("rail-optimized",), networks=names)
    lines = [item.line for item in full.bills[0].quote.items]
    assert [line for line in lines if not line.network] == [
        item.line for item in plain.bills[0].quote.items
    ]
    switches = {line.network: line.quantity for line in lines if line.category == "switches"}
    # 48 of the compute network; storage: 320 ports on 10 leaves of 32 + 32, 5 spines; management:
    # 269 ports and the uplinks of out-of-band switches, on leaves of 48:16.
    assert (switches[""], switches["storage"]) == (48, 15)
    hosts = [line for line in lines if line.network == "out-of-band" and line.category == "cables"]
    assert hosts[0].item == "Cat 6 cable, RJ45, 3 m"
    assert hosts[0].quantity == 128 + 48 + 15 + switches["management"]
    assert not any(line.category == "cards" for line in lines if line.network == "out-of-band")
    assert plain.left_out[0] == "storage network"
    assert full.left_out[0] == "servers, accelerators and their racks"
    assert full.to_frame()["network"].iloc[-1] == "out-of-band"


def test_unknown_network_names_the_nearest() -> None:
    with pytest.raises(NetplanError, match=r"unknown network 'storag': did you mean storage\?"):
        cost("rail-only-paper", gpus=1024, radix=64, networks=("storag",))


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
        cost("rail-only-paper", **question, accelerator="h100-80gb", floor_plan=hall)
        for hall in (None, HALL)
    )
    counts = []
    for answer in (classed, measured):
        items = [item.line for item in answer.bills[0].quote.items]
        cables = [line for line in items if line.category == "cables"]
        counts.append(sum(line.quantity * line.price_units for line in cables))
    assert counts[0] == counts[1]
    lines = [item.line for item in measured.bills[0].quote.items if item.line.category == "cables"]
    assert all("from the hall" in line.specification for line in lines)
    assert len({line.item for line in lines}) > 2


def test_passive_copper_only_where_it_reaches() -> None:
    answer = cost(
        "rail-only-paper", gpus=512, radix=64, hb_size=8, fabrics=("torus-3d",), floor_plan=HALL
    )
    lengths_m: dict[bool, list[float]] = {True: [], False: []}
    for line in (
        item.line for item in answer.bills[0].quote.items if item.line.category == "cables"
    ):
        name, _, length = line.item.rpartition(", ")
        lengths_m[name.startswith("Passive copper")].append(float(length.removesuffix(" m")))
    # Links of 66.7 Gb/s have lanes of 25 Gb/s, which passive copper carries 5 m.
    assert max(lengths_m[True]) <= 5 < min(lengths_m[False])


def test_one_kind_of_module_in_twin_cages() -> None:
    answer = cost(
        "rail-only-paper",
        gpus=32_768,
        radix=128,
        fabrics=("rail-only",),
        switch="sn5600",
        floor_plan=HALL,
    )
    lines = [item.line for item in answer.bills[0].quote.items]
    fibres = {line.item.partition(",")[0] for line in lines if line.category == "cables"}
    # Some cables are 70 m long: beyond multimode, so all are single-mode.
    assert fibres == {"Single-mode fibre cable"}


def test_floor_plan_knows_no_circuit_switches() -> None:
    with pytest.raises(InputError, match="no place for circuit switches"):
        cost(
            "rail-only-paper",
            gpus=4096,
            radix=64,
            hb_size=1,
            fabrics=("torus-3d",),
            ocs="palomar",
            floor_plan=HALL,
        )
