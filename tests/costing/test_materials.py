"""Bills worked by hand: switches, modules, cables, cards, racks, spares."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.costing.cabling import CABLING_BOOKS, Racks
from netplan.costing.materials import (
    SPARED,
    BillItem,
    bill_items,
    parse_spares,
    switch_racks,
    with_spares,
)
from netplan.costing.switches import SWITCHES
from netplan.costing.wiring import Hardware, wire
from netplan.errors import NetplanError
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric
from tests.costing.fabrics import SPECS, built, fabrics, sizing

BOOK = CABLING_BOOKS.load("2026")


def lines(fabric: Fabric, switch: str = "") -> dict[str, BillItem]:
    """Bill by item."""
    hardware = Hardware(BOOK, SWITCHES.load(switch) if switch else None)
    return {line.item: line for line in bill_items(fabric, wire(fabric, hardware), hardware)}


def test_rail_only_of_32768_gpus() -> None:
    # 256 rails of 32,768 / 256 = 128 hosts fill a switch of 128 ports each: 256 switches, one
    # link a GPU, two link ends a link: 65,536 modules. 42 U hold 14 switches of 2 U, each with 1 U
    # for its cables: 256 / 14 are 19 racks.
    bill = lines(built("rail-only", 32_768, 128, 256))
    assert {item: (line.quantity, line.unit, line.price_units) for item, line in bill.items()} == {
        "Switch of 128 ports": (256, "each", 128),
        "Transceiver, multimode, 400G": (65_536, "each", 1),
        "Multimode fibre cable, 15 m": (32_768, "each", 1),
        "Network card port, 400G": (32_768, "port", 1),
        "Rack of 42 units": (19, "each", 1),
        "Installation of a cable": (32_768, "each", 1),
    }


@pytest.mark.parametrize(
    ("units", "switches", "racks"),
    [
        (2, 21, 1),
        (2, 22, 2),
        # 42 units hold 10 switches of 4 units, and 2 units stay empty: 21 need three racks, where
        # 21 x 4 / 42 would be two.
        (4, 20, 2),
        (4, 21, 3),
        # 8 of 5 units; 25 need four racks, where 25 x 5 / 42 would be three.
        (5, 25, 4),
        (22, 12, 12),
    ],
)
def test_a_rack_holds_whole_switches(units: int, switches: int, racks: int) -> None:
    small = Racks(units=42, switch_units=units, source="test")
    hardware = Hardware(BOOK.changed(racks=small))
    one = built("rail-only", 64 * switches, 64, switches)
    assert one.switches == switches
    assert switch_racks(one, hardware).count == racks
    bill = bill_items(one, wire(one, hardware), hardware)
    assert [line.quantity for line in bill if line.category == "racks"] == [racks]


def test_superpod_of_four_units_with_twin_port_modules() -> None:
    # 127 nodes x 8 + 4 links of the fabric manager = 1,020 host links on 32 leaves, and 1,024
    # links to 16 spines. 2,044 ends on 32 leaves are 64 on 28 of them and 63 on 4: 32 twin
    # modules each way; 1,024 / 16 = 64 ends a spine are 32: (32 + 16) x 32 = 1,536 modules. The
    # cards' own are 1,016, and 4 in the servers.
    spec = SPECS["dgx-superpod"].changed(management_links=4)
    bill = lines(build_fabric(spec, sizing(1016, 64, 8)), "qm9700")
    quantities = {item: line.quantity for item, line in bill.items()}
    assert quantities["Switch qm9700"] == 48
    assert quantities["MMA4Z00-NS, twin-port OSFP 2 x 400G SR4, finned top"] == 1536
    assert quantities["MMA4Z00-NS400, OSFP 400G SR4, flat top"] == 1020
    assert quantities["Multimode fibre cable, 15 m"] == 1020
    assert quantities["Multimode fibre cable, 30 m"] == 1024
    assert quantities["ConnectX-7, 1 x 400G"] == 1016
    # 48 switches of 1 U, and 1 U for the cables of each, in racks of 42 U: 21 a rack.
    assert quantities["Rack of 42 units"] == 3


def test_dragonfly_has_copper_for_hosts_and_groups() -> None:
    # 16 groups of 64 switches with 32 hosts: 32,768 host + 16 x 64 x 63 / 2 = 32,256 local copper
    # cables; 128 links x 16 x 15 / 2 = 15,360 global links, 30,720 modules.
    bill = lines(built("dragonfly", 32_768, 128, 256))
    assert bill["Passive copper cable (DAC), 3 m"].quantity == 32_768
    assert bill["Passive copper cable (DAC), 2.4 m"].quantity == 32_256
    assert bill["Transceiver, multimode, 400G"].quantity == 30_720
    assert bill["Multimode fibre cable, 35 m"].quantity == 15_360


def test_splitter_cables_carry_two_links() -> None:
    # 1,024 hosts on 32 switches of 32 hosts: 16 splitters a switch.
    bill = lines(built("dragonfly", 1024, 64), "qm9700")
    splitter = bill["MCP7Y00, OSFP finned 2 x 400G to two OSFP flat 400G, DAC, 3 m"]
    assert (splitter.quantity, splitter.price_units) == (512, 2)


@given(fabrics())
@settings(max_examples=40, deadline=None)
def test_the_bill_holds_what_the_fabric_counts(fabric: Fabric) -> None:
    units: dict[str, int] = {}
    for line in lines(fabric).values():
        units[line.part] = units.get(line.part, 0) + line.quantity * line.price_units
    counted = {
        "switch_port": fabric.switches * fabric.sizing.radix // fabric.sizing.port_split,
        "transceiver": fabric.transceivers,
        "copper_cable": fabric.copper_cables,
        "nic_port": fabric.cards,  # none for links on boards
    }
    if fabric.sizing.port_split > 1:  # modules of whole ports, at most one half-empty a device
        held = units.get("transceiver", 0) * fabric.sizing.port_split
        del counted["transceiver"]
        assert fabric.transceivers <= held
        assert held < fabric.transceivers + (fabric.switches + 1) * fabric.sizing.port_split
    assert {part: units.get(part, 0) for part in counted} == counted


@pytest.mark.parametrize("name", ["rail-only", "rail-only-redundant"])
def test_one_domain_alone_has_its_cards_and_nothing_between(name: str) -> None:
    # Rails of one host need no switch, so there is no link, module, cable, rack or work to price.
    # Each of the 8 GPUs has its port all the same, of 400 Gb/s or split into two planes of 200.
    fabric = built(name, gpus=8, radix=16)
    assert (fabric.switches, fabric.links) == (0, ())
    bill = {item: (line.quantity, line.part) for item, line in lines(fabric).items()}
    assert bill == {"Network card port, 400G": (8, "nic_port")}


@given(fabrics(radix=64))
@settings(max_examples=40, deadline=None)
def test_twin_modules_carry_all_link_ends(fabric: Fabric) -> None:
    bill = lines(fabric, "qm9700").values()
    modules = [line for line in bill if line.category == "transceivers"]
    cables = [line for line in bill if line.part == "fibre"]
    ends = 2 * sum(line.quantity for line in cables)
    carried = sum(line.quantity * line.price_units for line in modules)
    # At most one half-empty module a switch and type.
    assert ends <= carried <= ends + 2 * fabric.switches


# --- spares ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "quantity", "spares"),
    [
        ("2%", 32_768, 656),  # 655.36
        ("2%", 50, 1),  # 1 exactly, not 2
        ("7%", 100, 7),  # in floats 7.000000000000001
        ("0%", 100, 0),
        ("0.1%", 1, 1),
        ("100%", 3, 3),
    ],
)
def test_spares_round_up_line_by_line(text: str, quantity: int, spares: int) -> None:
    line = BillItem("cables", "cable", "", quantity, "each", "fibre", 400.0)
    assert with_spares([line], parse_spares([text]))[0].spares == spares


def test_spares_by_category() -> None:
    shares = parse_spares(["1%", "transceivers=4%"])
    assert shares["transceivers"] == Fraction(1, 25)
    assert {shares[name] for name in SPARED if name != "transceivers"} == {Fraction(1, 100)}
    racks = BillItem("racks", "rack", "", 100, "each", "rack", 400.0)
    assert with_spares([racks], shares)[0].spares == 0


@pytest.mark.parametrize("text", ["2", "-1%", "101%", "x%", "1/3%", "1e9%", "", "optics=2%"])
def test_wrong_spares_are_refused(text: str) -> None:
    with pytest.raises(NetplanError, match="spares"):
        parse_spares([text])


@given(st.integers(0, 10**7), st.integers(0, 100))
def test_spares_are_exact(quantity: int, percent: int) -> None:
    line = BillItem("cards", "card", "", quantity, "port", "nic_port", 400.0)
    spared = with_spares([line], parse_spares([f"{percent}%"]))[0]
    assert spared.spares == ceil(Fraction(quantity * percent, 100))
    assert spared.order == quantity + spared.spares
