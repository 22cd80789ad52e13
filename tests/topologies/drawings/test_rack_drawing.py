"""Racks and halls as drawings, and what they weigh and draw: sums that must be the bill's."""

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.elevations import elevations
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.materials import SwitchRacks
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.procurement.ordered import unnamed_racks
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS
from netplan.topologies.drawings.racks import (
    Elevation,
    elevation_drawing,
    hall_drawing,
    tray_cables,
)
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

HALL = FLOOR_PLANS.load("example-hall")
BOOKS = BillBooks(
    PRICE_BOOKS.load("2026"),
    POWER_BOOKS.load("2026"),
    CABLING_BOOKS.load("2026"),
    SWITCHES.load("qm9700"),
    hall=HALL,
)
SIZING = Sizing(1024, 64, 8, 450e9, 50e9)


@pytest.mark.parametrize("name", ["rail-optimized", "rail-only", "torus-3d"])
def test_power_of_all_racks_is_that_of_the_bill(name: str) -> None:
    spec = FABRICS.load(name)
    bill = make_bill(spec, SIZING, BOOKS)
    kinds = elevations(bill, spec, BOOKS).kinds
    assert sum(len(kind.names) * (kind.typical_w or 0) for kind in kinds) == pytest.approx(
        bill.draw.typical_w
    )


def test_every_device_stands_in_one_rack() -> None:
    # 1,024 GPUs are 128 servers of 8 in 32 racks; 48 switches of 14.8 kg, 16 a rack.
    spec = FABRICS.load("rail-optimized")
    kinds = elevations(make_bill(spec, SIZING, BOOKS), spec, BOOKS).kinds
    # Racks of servers differ by how many of their cards have modules.
    racks = [kind for kind in kinds if kind.servers]
    switches = [kind for kind in kinds if not kind.servers]
    servers = racks[0]
    assert sum(len(kind.names) for kind in racks) == 32
    assert {(kind.servers, kind.server_w) for kind in racks} == {(4, 10200)}
    assert sum(len(kind.names) for kind in switches) == 3
    assert all(kind.weight_kg == pytest.approx(16 * 14.8) for kind in switches)
    assert servers.weight_kg is None
    assert [slot.name for slot in servers.slots] == ["host-0", "host-1", "host-2", "host-3"]
    for kind in kinds:
        held = [unit for slot in kind.slots for unit in range(slot.unit, slot.unit + slot.units)]
        assert len(set(held)) == len(held)
        assert max(held) <= kind.units


def test_racks_without_a_hall_are_those_of_the_bill() -> None:
    # 48 switches of 1 U, and 1 U for the cables of each: two racks of 21 and one of 6.
    spec = FABRICS.load("rail-optimized")
    books = BillBooks(BOOKS.prices, BOOKS.power, BOOKS.cabling, BOOKS.switch)
    kinds = elevations(make_bill(spec, SIZING, books), spec, books).kinds
    assert [(kind.names, len(kind.slots)) for kind in kinds] == [
        *((("1",), 21), (("2",), 21), (("3",), 6))
    ]


def test_tray_cables_are_as_long_as_the_cables() -> None:
    # Stretches times their cables are the horizontal metres of all cables.
    spec = FABRICS.load("rail-only")
    made = elevations(make_bill(spec, SIZING, BOOKS), spec, BOOKS)
    layout, network = made.layout, made.network
    assert layout is not None
    assert HALL.racks_per_row is not None
    trays = tray_cables(layout, network)
    on_trays = trays.along.sum() * HALL.rack_width_m + trays.across.sum() * HALL.row_pitch_m
    row, column = np.divmod(layout.rack, HALL.racks_per_row)
    rows = np.abs(row[network.source] - row[network.target]).sum()
    columns = np.abs(column[network.source] - column[network.target]).sum()
    assert on_trays == pytest.approx(rows * HALL.row_pitch_m + columns * HALL.rack_width_m)
    # 16 switches a rack: 48 of them fill 3.
    drawn = ET.fromstring(hall_drawing(layout, network))  # noqa: S314 - our own drawing
    squares = [one.get("d") or "" for one in drawn.iter() if one.get("class") == "node switch"]
    assert "".join(squares).count("z") == 3
    assert f"holds {trays.most:,}" in (drawn.get("aria-label") or "")


def test_names_are_escaped() -> None:
    drawn = elevation_drawing([Elevation("<b>", ("<i>",), 42, ())])
    assert "<b>" not in drawn
    assert "&lt;b&gt;" in drawn


@pytest.mark.parametrize(("switches", "drawn"), [(1, 1), (21, 21), (22, 22), (1280, 21 + 20)])
def test_racks_without_names_are_a_full_one_and_the_last(switches: int, drawn: int) -> None:
    # 42 U hold 21 switches of 2 U; 1280 = 60 x 21 + 20.
    racks = list(unnamed_racks(SwitchRacks(switches, 42, 2, 21)))
    assert elevation_drawing(racks).count("node switch") == drawn
