"""Modules, fibres and cables as billed: the bill's own counts, and that a module is a module."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks, make_bill, wiring_of
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.costing.wiring import Hardware, wire
from netplan.errors import InfeasibleError, InputError
from netplan.faults.years.rates import host_links_each, link_parts, unit_counts
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FABRICS
from tests.costing.fabrics import fabrics

PLAIN = BillBooks(PRICE_BOOKS.load("2026"), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026"))
TWIN = replace(PLAIN, switch=SWITCHES.load("qm9700"))
IN_HALL = replace(TWIN, hall=FLOOR_PLANS.load("leaves-in-rack").of_servers(max_w=10200.0))


@given(fabrics())
def test_without_a_model_every_end_has_a_module(fabric: Fabric) -> None:
    assume(fabric.sizing.port_split == 1)  # else a module holds the links of a whole port
    wired, counted = link_parts(fabric, wire(fabric, Hardware(PLAIN.cabling))), link_parts(fabric)
    assert wired == counted
    assert sum(parts.modules for parts in counted.values()) == fabric.transceivers
    assert sum(sum(parts.cables.values()) for parts in counted.values()) == fabric.copper_cables


@given(
    name=st.sampled_from(["rail-optimized", "rail-only", "fat-tree", "dragonfly"]),
    gpus=st.integers(8, 512).map(lambda domains: 8 * domains),
    hall=st.booleans(),
)
def test_modules_are_those_of_the_bill(
    name: str,
    gpus: int,
    hall: bool,  # noqa: FBT001
) -> None:
    books = IN_HALL if hall else TWIN
    spec, sizing = FABRICS.load(name), Sizing(gpus, 64, 8, 450e9, 50e9)
    try:
        bill = make_bill(spec, sizing, books)
    except (InputError, InfeasibleError):
        assume(False)  # a size that the fabric cannot have, or whose plugs need more cages
    parts = link_parts(bill.fabric, wiring_of(spec, sizing, bill.fabric, books)).values()
    assert sum(one.modules for one in parts) == bill.ordered("transceiver")
    assert sum(one.cables.get("dac", 0) for one in parts) == bill.ordered("copper_cable")
    assert sum(one.cables.get("aec", 0) for one in parts) == bill.ordered("active_copper_cable")
    assert sum(one.fibres for one in parts) == bill.ordered("fibre")
    assert (
        sum(one.fibres + sum(one.cable_links.values()) for one in parts) == bill.fabric.link_count
    )


def test_twin_port_modules_halve_those_of_trunks() -> None:
    # 8,192 trunks have 16,384 ends: 191 failures a year at 0.01168 a module, 96 of half as many.
    fabric = build_fabric(FABRICS.load("rail-optimized"), Sizing(4096, 64, 8, 450e9, 50e9))
    wiring = wire(fabric, Hardware(TWIN.cabling, TWIN.switch))
    ends, modules = unit_counts(fabric), unit_counts(fabric, wiring)
    assert 0.01168 * ends["trunk_transceiver"] == pytest.approx(191, abs=0.5)
    assert 0.01168 * modules["trunk_transceiver"] == pytest.approx(96, abs=0.5)
    # Leaves have a module for two hosts, cards one each: 2,048 + 4,096.
    assert (ends["host_transceiver"], modules["host_transceiver"]) == (8192, 6144)
    # The modules are fewer, the host links that their failures take are as many ends as ever.
    each = host_links_each(fabric, wiring)["host_transceiver"]
    assert each * modules["host_transceiver"] == 8192
    assert host_links_each(fabric)["host_transceiver"] == 1


def test_a_model_of_another_radix_is_refused() -> None:
    spec, sizing = FABRICS.load("rail-optimized"), Sizing(4096, 128, 8, 450e9, 50e9)
    with pytest.raises(InputError, match="qm9700 has 64 ports"):
        wiring_of(spec, sizing, build_fabric(spec, sizing), TWIN)
