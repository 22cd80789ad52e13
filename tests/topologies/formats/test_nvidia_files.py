"""JSON for NVIDIA DSX Air and for the network operator, read back to the same cables."""

import json
from typing import Any

import pytest

import netplan
from netplan.errors import InputError
from netplan.topologies.cabling.cable_plan import cable_plan, with_hosts
from netplan.topologies.cabling.device_names import slashless
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.formats.nvidia import air_lines, operator_lines
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS


def fabric(name: str, gpus: int, radix: int, hb_size: int = 8) -> FabricGraph:
    return expand(FABRICS.load(name), Sizing(gpus, radix, hb_size, 450e9, 50e9))


def ends(pair: list[dict[str, Any]]) -> frozenset[tuple[str, str]]:
    return frozenset((end["node"], end["interface"]) for end in pair)


@pytest.mark.parametrize(
    ("name", "gpus", "radix", "hb_size", "hosts"),
    [
        ("rail-optimized", 128, 16, 8, 8),
        ("fat-tree", 512, 16, 8, 4),
        ("nvl72", 144, 64, 72, 4),
        ("torus-2d", 64, 16, 1, 1),
    ],
)
def test_air_has_exactly_the_cables_of_the_plan(
    name: str, gpus: int, radix: int, hb_size: int, hosts: int
) -> None:
    graph = fabric(name, gpus, radix, hb_size)
    air = json.loads("".join(air_lines(graph, host_gpus=hosts)))
    assert (air["format"], air["name"]) == ("JSON", graph.name)
    plan = with_hosts(cable_plan(graph), hosts)
    called = {"switch": "swp"}
    wanted = {
        frozenset(
            (slashless(device.name), called.get(device.role, "eth") + port)
            for device, port in ((a, a_port), (z, z_port))
        )
        for a, a_port, z, z_port in plan.ends()
    }
    found = {ends(pair) for pair in air["content"]["links"]}
    assert found == wanted
    assert len(air["content"]["links"]) == len(plan)
    nodes = air["content"]["nodes"]
    assert set(nodes) == {slashless(device.name) for device in plan.devices}
    assert all("os" in node for node in nodes.values())


def test_the_operator_knows_every_port_by_rail_and_plane() -> None:
    graph = fabric("rail-optimized", 512, 16)
    topology = json.loads("".join(operator_lines(graph)))
    roles = [node["role"] for node in topology["nodes"]]
    assert (roles.count("host"), roles.count("leaf")) == (64, 64)
    seen = set()
    for leaf, host in topology["links"]:
        at, of = leaf["attributes"], host["attributes"]
        assert (at["role"], of["role"], at["plane"]) == ("leaf", "host", 0)
        assert at["rail_group"] == [of["rail"]]
        assert leaf["node"].startswith(f"rail-{of['rail']}-leaf-")
        assert (at["su"], at["pod"]) == (of["su"], of["pod"])
        # Units of 8 hosts, one under each leaf of a rail.
        assert of["su"] == int(host["node"].removeprefix("host-")) // 8
        assert host["interface"] == f"eth_p0_r{of['rail']}"
        seen.add((host["node"], of["rail"]))
    assert len(seen) == 512


def test_planes_are_the_ports_of_a_split_card() -> None:
    path = "topologies/designs/twin-plane.yaml"
    graph = expand(FABRICS.load(path), Sizing(128, 16, 8, 450e9, 50e9))
    links = json.loads("".join(operator_lines(graph, cage_links=2)))["links"]
    planes = {
        (leaf["node"].split("-")[1], leaf["attributes"]["plane"], host["interface"].split("_")[1])
        for leaf, host in links
    }
    assert planes == {("0", 0, "p0"), ("1", 1, "p1")}
    assert len(links) == 2 * 128
    assert {leaf["interface"][-2:] for leaf, _ in links} == {"s0", "s1"}


def test_ports_are_named_by_the_cages_of_a_switch_model() -> None:
    # An SN5600 has 64 cages of two links of 400 Gb/s each.
    asked: dict[str, Any] = {"gpus": 1024, "radix": 128, "hb_size": 8, "switch": "sn5600"}
    links = json.loads(
        "".join(netplan.export("rail-only-paper", to="air", **asked, fabric="rail-only").lines())
    )["content"]["links"]
    ports = {end["interface"] for pair in links for end in pair if end["node"][:4] != "host"}
    assert ports == {f"swp{cage}s{half}" for cage in range(1, 65) for half in (0, 1)}
    with pytest.raises(InputError, match="--switch names the ports of a fabric"):
        netplan.export("rail-only-paper", to="slurm", **asked, fabric="rail-only")


def test_the_operator_needs_leaves() -> None:
    with pytest.raises(InputError, match="joins GPUs to each other"):
        list(operator_lines(fabric("torus-2d", 64, 16)))
