"""Links are found by the names that exports and cable plans give them."""

import re
from collections.abc import Iterator

import numpy as np
import pytest

from netplan.errors import NetplanError
from netplan.faults.damage.damage import network_links
from netplan.faults.damage.inventory import Inventory, PartNames
from netplan.faults.damage.scenario import read_scenario
from netplan.topologies.cabling.cable_plan import cable_plan, with_hosts
from netplan.topologies.formats.edge_list import edge_list_lines
from netplan.topologies.formats.graphml import graphml_lines
from netplan.topologies.formats.subnet_files import topo_lines
from netplan.topologies.formats.tables import ufm_ethernet
from netplan.topologies.formats.writers import dot_lines
from netplan.topologies.graph import FabricGraph
from tests.faults.damaged import fabric

GRAPHS = {
    "fat tree": fabric("fat-tree", (64, 8, 4)),
    "rails": fabric("rail-only", (72, 8, 4)),
    "planes": fabric("twin-plane", (64, 8, 4)),
    "dragonfly": fabric("dragonfly", (64, 8, 4)),
    "torus": fabric("torus-2d", (64, 8, 4)),
}


def found(graph: FabricGraph, names: Iterator[str] | list[str]) -> list[int]:
    """Numbers of the links of some names, each of which must name one."""
    parts = PartNames(Inventory(graph))
    links = [parts.find(name).numbers.tolist() for name in names]
    assert {len(one) for one in links} == {1}
    return [one[0] for one in links]


@pytest.mark.parametrize("name", GRAPHS)
def test_every_link_is_found_by_its_name_in_every_export(name: str) -> None:
    graph = GRAPHS[name]
    every = list(range(graph.link_count))
    _, *rows = edge_list_lines(graph)
    assert found(graph, [row.strip() for row in rows]) == every
    edges = [line for text in graphml_lines(graph) for line in text.splitlines() if "<edge" in line]
    assert found(graph, edges) == every
    statements = [line for text in dot_lines(graph) for line in text.splitlines() if " -- " in line]
    assert sorted(found(graph, statements)) == every


@pytest.mark.parametrize("name", GRAPHS)
def test_every_direction_has_a_name_of_its_own_by_which_its_link_is_found(name: str) -> None:
    graph = GRAPHS[name]
    names = graph.direction_names(np.arange(2 * graph.link_count))
    assert len(set(names)) == len(names)
    every = list(range(graph.link_count))
    assert found(graph, [one.replace(" -> ", "--") for one in names]) == every + every


@pytest.mark.parametrize("name", GRAPHS)
def test_every_cable_is_found_by_its_label(name: str) -> None:
    graph = GRAPHS[name]
    cables = np.flatnonzero(network_links(graph)).tolist()
    plan = cable_plan(graph)
    assert found(graph, plan.labels()) == cables
    assert found(graph, with_hosts(plan, graph.hb_size).labels()) == cables
    if name != "torus":
        assert found(graph, cable_plan(graph, cage_links=2).labels()) == cables
        rows = (",".join(map(str, row)) for row in ufm_ethernet(plan).rows)
        assert found(graph, rows) == cables


def test_ports_of_topo_files_and_of_ibnetdiscover() -> None:
    graph, names, device = GRAPHS["fat tree"], [], ""
    for line in "".join(topo_lines(graph)).splitlines():
        if line.startswith(" "):
            cable = re.fullmatch(r" (P\d+) -\S+-> \S+ (\S+) (P\d+)", line)
            assert cable
            names.append(f"{device} {cable[1]}--{cable[2]} {cable[3]}")
        elif line:
            device = line.split()[1]
    cables = np.flatnonzero(network_links(graph)).tolist()
    assert sorted(set(found(graph, names))) == cables
    assert found(graph, ["gpu-0[1]--leaf-0[1]"]) == found(graph, ["gpu-0:1--leaf-0:1"])


def test_names_that_no_link_has_are_refused() -> None:
    graph = GRAPHS["fat tree"]
    for text in ("gpu-0:1--leaf-0:2/3", "host-99:1--leaf-0:1", "gpu-0,gpu,1,leaf-0,switch,77"):
        with pytest.raises(NetplanError) as caught:
            read_scenario([text], Inventory(graph))
        assert "\n" not in str(caught.value)
