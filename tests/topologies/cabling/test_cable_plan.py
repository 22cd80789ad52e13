"""Cable plans: every cable once, on ports that exist, in every form that other tools read."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netplan.catalog import shipped_root
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.as_built import cables_of, ports_twice
from netplan.topologies.cabling.cable_plan import (
    PLAN_COLUMNS,
    CablePlan,
    cable_plan,
    media_of,
    plan_sheet,
)
from netplan.topologies.cabling.floor_plan import Place
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.formats.netbox import (
    CABLE_COLUMNS,
    NetBoxHall,
    netbox_cables,
    netbox_devices,
)
from netplan.topologies.formats.tables import ETHERNET_COLUMNS, ufm_ethernet, ufm_infiniband
from netplan.topologies.specs import FABRICS


def plan_of(name: str, sizing: Sizing, **options: dict[str, Place]) -> CablePlan:
    spec = FABRICS.load(name)
    return cable_plan(
        expand(spec, sizing),
        media=media_of(build_fabric(spec, sizing)),
        places=options.get("places"),
    )


SUPERPOD = str(shipped_root() / "topologies" / "designs" / "dgx-superpod-ufm.yaml")
SMALL = Sizing(32, 16, 8, 450e9, 50e9)


def test_a_small_plan_by_hand() -> None:
    # 32 GPUs on leaves of 8 down and 8 up: 4 leaves, 2 spines with 4 links from each leaf
    rows = list(plan_sheet(plan_of("fat-tree", SMALL)).rows)
    assert len(rows) == 32 + 32
    assert rows[0] == (
        *("gpu-0:1--leaf-0:1", "gpu-0", "1", "", "", "leaf-0", "1", "", ""),
        *("400", "fibre", "row", "", "host"),
    )
    assert rows[31][:7] == ("gpu-31:1--leaf-3:8", "gpu-31", "1", "", "", "leaf-3", "8")
    uplinks = [row for row in rows if row[-1] == "leaf-spine"]
    assert {row[5] for row in uplinks} == {"spine-0", "spine-1"}
    assert sorted(int(row[2]) for row in uplinks if row[1] == "leaf-0") == list(range(9, 17))


def test_places_are_written_on_both_sides() -> None:
    places = {"gpu-0": Place("A01", "4"), "leaf-0": Place("N01", "40")}
    row = next(plan_sheet(plan_of("fat-tree", SMALL, places=places)).rows)
    assert row[3:5] + row[7:9] == ("A01", "4", "N01", "40")
    infiniband = next(ufm_infiniband(plan_of("fat-tree", SMALL, places=places)).rows)
    assert infiniband == ("A01", "4", "gpu-0", "1", "N01", "40", "leaf-0", "1")


def test_headers_are_exactly_those_of_the_tools() -> None:
    plan = plan_of("fat-tree", SMALL)
    assert ",".join(CABLE_COLUMNS) == (
        "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name,"
        "type,status,label,color,length,length_unit"
    )
    assert netbox_cables(plan).header == CABLE_COLUMNS
    assert ufm_ethernet(plan).header == ETHERNET_COLUMNS
    assert ",".join(ufm_infiniband(plan).header) == "Rack,U,Name,HCA/Port,Rack,U,Name,Port"


def test_netbox_has_every_device_that_a_cable_ends_on() -> None:
    plan = plan_of(SUPERPOD, Sizing(248, 64, 8, 900e9, 50e9))
    devices = {row[0]: row[1] for row in netbox_devices(plan, NetBoxHall()).rows}
    rows = list(netbox_cables(plan).rows)
    assert {row[0] for row in rows} | {row[3] for row in rows} <= set(devices)
    # 248 GPUs, 8 leaves, 4 spines, 4 ports of the fabric manager
    assert len(devices) == 248 + 8 + 4 + 4
    assert sorted(set(devices.values())) == ["gpu", "manager", "switch"]
    assert len(rows) == 252 + 256


def test_ufm_calls_gpus_and_managers_hosts() -> None:
    rows = ufm_ethernet(plan_of(SUPERPOD, Sizing(248, 64, 8, 900e9, 50e9))).rows
    types = {(row[0].partition("-")[0], row[1]) for row in rows}
    assert ("gpu", "Host") in types
    assert ("manager", "Host") in types
    assert all(kind == "Switch" for name, kind in types if name not in ("gpu", "manager"))


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["rail-optimized", "rail-only", "fat-tree", "dragonfly", "torus-2d"]),
    gpus=st.integers(8, 400),
    radix=st.sampled_from([16, 32]),
    hb_size=st.sampled_from([1, 4, 8]),
)
@example(name="dragonfly", gpus=8, radix=32, hb_size=1)
def test_every_port_holds_one_cable(name: str, gpus: int, radix: int, hb_size: int) -> None:
    sizing = Sizing(gpus, radix, hb_size, 450e9, 50e9)
    graph = expand(FABRICS.load(name), sizing)
    fabric = build_fabric(FABRICS.load(name), sizing)
    plan = cable_plan(graph)
    assert len(plan) == fabric.link_count
    assert list(ports_twice(cables_of(graph))) == []
    labels = list(plan.labels())
    assert len(set(labels)) == len(labels)
    assert all(len(row) == len(PLAN_COLUMNS) for row in plan_sheet(plan).rows)
    switch_ports = [int(z_port) for _, _, z, z_port in plan.ends() if z.role == "switch"]
    assert all(1 <= port <= radix for port in switch_ports)


@pytest.mark.parametrize(
    ("name", "media"),
    [
        ("bcube", {"level 0": "fibre", "level 1": "fibre"}),
        ("fat-tree", {"host": "fibre", "leaf-spine": "fibre"}),
    ],
)
def test_media_come_from_the_fabric(name: str, media: dict[str, str]) -> None:
    plan = plan_of(name, Sizing(64, 16, 1, 450e9, 50e9))
    assert dict(zip(plan.group, plan.medium, strict=True)) == media


def test_length_stays_empty_without_a_floor_plan() -> None:
    assert set(plan_of("fat-tree", SMALL).length_m) == {""}
