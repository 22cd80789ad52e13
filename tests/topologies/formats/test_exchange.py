"""Formats: every writer's output is read back, by our reader or by one written here."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import yaml

import netplan
from netplan.errors import InputError
from netplan.levels import Level
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.device_names import slashless_names
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.formats.edge_list import edge_list_lines, read_edge_list
from netplan.topologies.formats.graphml import graphml_lines, read_graphml
from netplan.topologies.formats.infiniband import read_ibnetdiscover, read_topo
from netplan.topologies.formats.slurm import slurm_lines
from netplan.topologies.formats.subnet_files import ibnetdiscover_lines, topo_lines
from netplan.topologies.formats.writers import astra_sim_network, dot_lines, simai_lines
from netplan.topologies.graph import GPU, HB_SWITCH, SWITCH, FabricGraph, network_only
from netplan.topologies.specs import FABRICS, FabricSpec

FABRIC_SIZES = [
    ("rail-optimized", 128, 16),
    ("rail-optimized", 300, 8),
    ("fat-tree", 100, 16),
    ("rail-only", 200, 16),
    ("dgx-superpod", 120, 16),
    ("dgx-1", 64, 16),
    ("nvl72", 144, 64),
    ("torus-3d", 64, 16),
    ("dragonfly", 288, 16),
    ("bcube", 64, 16),
]


def fabric(name: str, gpus: int, radix: int, **keys: object) -> FabricGraph:
    spec = FabricSpec.read({**FABRICS.load(name).to_dict(), **keys})
    return expand(spec, Sizing(gpus, radix, 4, 450e9, 50e9))


def written(path: Path, lines: Iterator[str]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)
    return path


def assert_same(found: FabricGraph, graph: FabricGraph) -> None:
    """Equal in every array, and in the names behind the codes."""
    assert (found.gpus, found.hb_size) == (graph.gpus, graph.hb_size)
    assert found.node_names() == graph.node_names()
    for field in ("node_kind", "node_tier", "source", "target", "source_port", "target_port"):
        assert np.array_equal(getattr(found, field), getattr(graph, field)), field
    assert found.bytes_per_s == pytest.approx(graph.bytes_per_s, rel=1e-12)
    assert np.array_equal(found.length_class, graph.length_class)
    assert found.links_per_group() == graph.links_per_group()


@pytest.mark.parametrize(("name", "gpus", "radix"), FABRIC_SIZES)
def test_graphml_round_trip(name: str, gpus: int, radix: int, tmp_path: Path) -> None:
    graph = fabric(name, gpus, radix)
    path = written(tmp_path / "x.graphml", graphml_lines(graph))
    found = read_graphml(path)
    assert_same(found, graph)
    assert found.name == graph.name
    view = nx.read_graphml(path, force_multigraph=True)
    assert (len(view), view.number_of_edges()) == (graph.node_count, graph.link_count)
    total = sum(rate for *_, rate in view.edges(data="bytes_per_s"))
    assert total == pytest.approx(graph.bytes_per_s.sum())


@pytest.mark.parametrize(("name", "gpus", "radix"), FABRIC_SIZES)
def test_edge_list_round_trip(name: str, gpus: int, radix: int, tmp_path: Path) -> None:
    graph = fabric(name, gpus, radix)
    path = written(tmp_path / "x.csv", edge_list_lines(graph))
    found = read_edge_list(path, hb_size=graph.hb_size)
    if name == "bcube":  # its levels are equally far from the GPUs: the file does not tell them
        assert found.links_per_group() == graph.links_per_group()
    else:
        assert_same(found, graph)


def test_managers_survive(tmp_path: Path) -> None:
    graph = fabric("fat-tree", 100, 16, management_links=4)
    assert_same(read_graphml(written(tmp_path / "a", graphml_lines(graph))), graph)
    found = read_edge_list(written(tmp_path / "b", edge_list_lines(graph)), hb_size=4)
    assert_same(found, graph)


@pytest.mark.parametrize(
    ("name", "gpus", "radix"), [case for case in FABRIC_SIZES if case[0] != "torus-3d"]
)
def test_topo_round_trip(name: str, gpus: int, radix: int, tmp_path: Path) -> None:
    graph = fabric(name, gpus, radix)
    path = written(tmp_path / "x.topo", topo_lines(graph))
    found, expected = read_topo(path, hb_size=graph.hb_size), network_only(graph)
    expected = replace(expected, names=slashless_names(expected.node_names()))
    assert found.node_names() == expected.node_names() or name == "bcube"
    assert cables(found) == cables(expected)


@pytest.mark.parametrize(("name", "gpus", "radix"), FABRIC_SIZES)
def test_ibnetdiscover_round_trip(name: str, gpus: int, radix: int, tmp_path: Path) -> None:
    graph = fabric(name, gpus, radix)
    path = written(tmp_path / "x.ibnetdiscover", ibnetdiscover_lines(graph))
    found, expected = read_ibnetdiscover(path, hb_size=graph.hb_size), network_only(graph)
    assert found.node_names() == expected.node_names()
    assert cables(found) == cables(expected)


def test_ibnetdiscover_says_rates_that_infiniband_has(tmp_path: Path) -> None:
    # 25 GB/s are 200 Gb/s: four lanes of 50.
    for rate, said in ((25e9, "4xHDR"), (50e9, "4xNDR"), (100e9, "4xXDR"), (33e9, 'leaf-0" lid 0')):
        graph = expand(FABRICS.load("fat-tree"), Sizing(8, 8, 4, 450e9, rate))
        lines = "".join(ibnetdiscover_lines(graph)).splitlines()
        assert lines[:2] == ["caguid=0x100", 'Ca\t1 "H-0000000000000100"\t\t# "gpu-0"']
        assert lines[2].startswith('[1](101) \t"S-0000000000000900"[1]\t\t# lid 0 lmc 0 "leaf-0"')
        assert lines[2].endswith(said)
        if "x" in said:
            path = written(tmp_path / "x.ibnetdiscover", iter(f"{line}\n" for line in lines))
            assert read_ibnetdiscover(path).bytes_per_s[0] == rate


def cables(graph: FabricGraph) -> Counter[tuple[frozenset[tuple[str, int]], float]]:
    """Links as pairs of named ports, whatever their order, with their rates."""
    names = graph.node_names()
    columns = (graph.source, graph.source_port, graph.target, graph.target_port, graph.bytes_per_s)
    return Counter(
        (frozenset(((names[a], i), (names[b], j))), rate)
        for a, i, b, j, rate in zip(*(column.tolist() for column in columns), strict=True)
    )


def test_topo_has_the_shape_that_ibdiagnet_reads() -> None:
    lines = "".join(topo_lines(fabric("rail-optimized", 128, 16))).splitlines()
    assert lines[0] == "MQM9700 rail-0-leaf-0"
    assert lines[1] == " P9 -4x-100G-> MQM9700 spine-0 P1"
    assert " P1 -4x-100G-> HCA gpu-0 P1" in lines


def test_dot_names_both_ports_of_every_link() -> None:
    graph = fabric("rail-optimized", 128, 16)
    text = "".join(dot_lines(graph))
    pattern = re.compile(
        r'^  "(\S+)":"port-(\d+)" -- "(\S+)":"port-(\d+)" \[gbps=([\d.e+]+),', re.MULTILINE
    )
    found = Counter(
        (frozenset(((a, int(i)), (b, int(j)))), float(rate) * 1e9 / 8)
        for a, i, b, j, rate in pattern.findall(text)
    )
    assert found == cables(graph)
    assert text.count("[role=") == graph.node_count
    assert text.startswith('graph "rail-optimized" {')


def test_astra_sim_network_by_hand() -> None:
    spec = FABRICS.load("torus-2d")
    sizing = Sizing(256, 64, 4, 400e9, 50e9, hb_latency_s=1e-6, network_latency_s=4e-6)
    text = astra_sim_network(build_fabric(spec, sizing).levels)
    data = yaml.safe_load(text)
    assert data == {
        "topology": ["Switch", "Ring", "Ring"],
        "npus_count": [4, 8, 8],
        "bandwidth": pytest.approx([400e9 / 2**30, 50e9 / 2**30, 50e9 / 2**30]),
        "latency": [500.0, 4000.0, 4000.0],  # a step crosses two links of a switch, one of a ring
    }
    mesh = yaml.safe_load(astra_sim_network([Level("mesh", 8, 2.0**30)]))
    assert (mesh["topology"], mesh["bandwidth"]) == (["FullyConnected"], [1.0])
    with pytest.raises(InputError, match="at least one level"):
        astra_sim_network([Level("ring", 1, 1e9)])


def test_simai_header_agrees_with_its_body() -> None:
    graph = fabric("rail-optimized", 128, 16)
    head, switches, *links = "".join(simai_lines(graph)).splitlines()
    nodes, per_server, hb_switches, network, count, gpu = head.split()
    assert [int(nodes), int(per_server), int(hb_switches)] == [graph.node_count, 4, 32]
    assert (int(network), int(count), gpu) == (
        sum(graph.switches_per_tier().values()),
        len(links),
        "H100",
    )
    ids = [int(i) for i in switches.split()]
    assert ids == list(range(128, graph.node_count))
    ends = [tuple(int(i) for i in line.split()[:2]) for line in links]
    assert ends == list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    assert links[0].split()[2:] == ["3600Gbps", "2.5e-05ms", "0"]
    assert links[-1].split()[2:] == ["400Gbps", "0.0005ms", "0"]


def test_simai_dialects() -> None:
    graph = fabric("rail-optimized", 128, 16)
    lines = list(simai_lines(graph, gpus_per_node_field=True, split_switches=True))
    assert lines[0].split()[5:] == ["H100", "4"]
    counts = [len(line.split()) for line in lines[1:3]]
    assert counts == [32, sum(graph.switches_per_tier().values())]
    with pytest.raises(InputError, match="no management hosts"):
        list(simai_lines(fabric("fat-tree", 64, 16, management_links=2)))


def slurm_tree(text: str) -> nx.DiGraph:
    """Read topology.conf, as far as it is written: host lists of one bracket."""
    tree = nx.DiGraph()
    for line in text.splitlines():
        match = re.fullmatch(r"SwitchName=(\S+) (?:Nodes|Switches)=(\S+?-)\[?(\d[\d,-]*)\]?", line)
        assert match, line
        for part in match[3].split(","):
            first, _, last = part.partition("-")
            for number in range(int(first), int(last or first) + 1):
                tree.add_edge(match[1], f"{match[2]}{number}")
    return tree


@pytest.mark.parametrize(
    ("name", "gpus", "radix", "servers_per_leaf"),
    [
        ("fat-tree", 512, 16, 2),  # leaves of 8 ports, servers of 4
        ("rail-optimized", 512, 16, 8),  # the same 8 servers under one leaf of every rail
        ("dgx-superpod", 512, 16, 8),  # units of 8 servers
        ("dragonfly", 320, 16, 1),
    ],
)
def test_slurm_is_a_tree_over_all_servers(
    name: str, gpus: int, radix: int, servers_per_leaf: int
) -> None:
    graph = fabric(name, gpus, radix)
    tree = slurm_tree("".join(slurm_lines(graph)))
    leaves = {node for node in tree if tree.out_degree(node) == 0}
    assert leaves == {f"host-{i}" for i in range(graph.domains)}
    assert nx.is_arborescence(tree)
    if servers_per_leaf > 1:
        assert tree.out_degree("s1-0") == servers_per_leaf


def test_slurm_needs_switches() -> None:
    with pytest.raises(InputError, match="no switches"):
        list(slurm_lines(fabric("torus-3d", 64, 16)))


def test_ibnetdiscover_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "fabric.txt"
    path.write_text(IBNETDISCOVER, encoding="utf-8")
    graph = read_ibnetdiscover(path, hb_size=2)
    assert graph.node_names() == [
        "node1/mlx5_0",
        "node2/mlx5_0",
        "leaf/A",
        "Quantum/S-0000000000000b0b",
        "Quantum/S-0000000000000c0c",
        "Mellanox/Technologies/Aggregation/Node",
    ]
    assert graph.links_per_group() == {"host": 3, "leaf-spine": 3}
    assert graph.switches_per_tier() == {1: 1, 2: 2}
    assert cables(graph)[frozenset((("leaf/A", 0), ("node1/mlx5_0", 0))), 50e9] == 1
    # Two parallel links between one pair of switches stay two.
    pair = {("leaf/A", 20), ("Quantum/S-0000000000000b0b", 0)}
    other = {("leaf/A", 21), ("Quantum/S-0000000000000b0b", 1)}
    assert cables(graph)[frozenset(pair), 50e9] == cables(graph)[frozenset(other), 50e9] == 1
    assert graph.source[graph.links_of("host")].tolist() == [0, 1, 5]


IBNETDISCOVER = """\
#
# Topology file: generated on Mon Dec 18 12:34:08 2023
#
vendid=0x2c9
switchguid=0xa0a(a0a)
Switch\t65 "S-0000000000000a0a"\t\t# "leaf A" enhanced port 0 lid 1 lmc 0
[1]\t"H-0000000000000001"[1](1) \t\t# "node1 mlx5_0" lid 5 4xNDR
[2]\t"H-0000000000000002"[1](2) \t\t# "node2 mlx5_0" lid 6 4xNDR
[21]\t"S-0000000000000b0b"[1]\t\t# "Quantum" lid 2 4xNDR
[22][ext 22]\t"S-0000000000000b0b"[2]\t\t# "Quantum" lid 2 4xNDR
[23]\t"S-0000000000000c0c"[1]\t\t# "Quantum" lid 3 4xHDR
[65]\t"H-0000000000000a0f"[1](a0f) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xHDR

Switch\t64 "S-0000000000000b0b"\t\t# "Quantum" base port 0 lid 2 lmc 0
[1]\t"S-0000000000000a0a"[21]\t\t# "leaf A" lid 1 4xNDR
[2]\t"S-0000000000000a0a"[22]\t\t# "leaf A" lid 1 4xNDR

Switch\t64 "S-0000000000000c0c"\t\t# "Quantum" base port 0 lid 3 lmc 0
[1]\t"S-0000000000000a0a"[23]\t\t# "leaf A" lid 1 4xHDR

Ca\t1 "H-0000000000000001"\t\t# "node1 mlx5_0"
[1](1) \t"S-0000000000000a0a"[1]\t\t# lid 5 lmc 0 "leaf A" lid 1 4xNDR

Ca\t1 "H-0000000000000002"\t\t# "node2 mlx5_0"
[1](0x2) \t"S-0000000000000a0a"[2]\t\t# lid 6 lmc 0 "leaf A" lid 1 4xNDR

Ca\t1 "H-0000000000000a0f"\t\t# "Mellanox Technologies Aggregation Node"
[1](a0f) \t"S-0000000000000a0a"[65]\t\t# lid 9 lmc 0 "leaf A" lid 1 4xHDR
"""


def test_a_bare_edge_list_is_a_fabric(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "source,target,gbps\ngpu10,top,100\ngpu2,top,100\ngpu2,box-nvswitch,3600\n"
        "gpu10,box-nvswitch,3600\nroot,top,200\nroot,top,200\n",
        encoding="utf-8",
    )
    graph = read_edge_list(path, hb_size=2)
    assert graph.node_names() == ["gpu2", "gpu10", "box-nvswitch", "top", "root"]
    assert graph.node_kind.tolist() == [GPU, GPU, HB_SWITCH, SWITCH, SWITCH]
    assert graph.node_tier.tolist() == [0, 0, -1, 1, 2]
    assert graph.links_per_group() == {"host": 2, "hb": 2, "leaf-spine": 2}
    assert graph.target_port.tolist() == [0, 1, 0, 1, 2, 3]
    assert graph.name == "mine"


def test_graphml_of_others_is_read(tmp_path: Path) -> None:
    view = nx.MultiGraph()
    view.add_nodes_from(["gpu-0", "gpu-1"], kind="gpu")
    view.add_node("s", kind="switch", colour="red")
    view.add_edge("gpu-0", "s", gbps=400.0)
    view.add_edge("gpu-1", "s", gbps=400.0)
    view.add_edge("gpu-1", "s", gbps=400.0)
    path = tmp_path / "other.graphml"
    nx.write_graphml(view, path)
    graph = read_graphml(path)
    assert graph.links_per_group() == {"host": 3}
    assert set(graph.bytes_per_s.tolist()) == {50e9}


@pytest.mark.parametrize("lines", [graphml_lines, edge_list_lines, topo_lines, dot_lines])
def test_the_same_graph_gives_the_same_bytes(lines: Callable[[FabricGraph], Iterator[str]]) -> None:
    first, second = ("".join(lines(fabric("rail-only", 64, 16))) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", ["rail-optimized", "rail-only", "fat-tree"])
def test_loads_on_a_network_as_found_are_those_of_its_fabric(name: str, tmp_path: Path) -> None:
    # What finds networks sees no HB domain; without it all traffic would cross the cards.
    graph = expand(FABRICS.load(name), Sizing(64, 16, 8, 450e9, 50e9))
    path, matrix = tmp_path / "found.topo", tmp_path / "matrix.csv"
    path.write_text("".join(topo_lines(graph)), encoding="utf-8")
    pairs = [(one, other) for one in range(8) for other in range(one)] + [(0, 9), (3, 59)]
    rows = "".join(f"{one},{other},1e9,tensor\n" for one, other in pairs)
    matrix.write_text(f"source,destination,bytes,kind\n{rows}", encoding="utf-8")
    asked: dict[str, Any] = {"hb_size": 8, "accelerator": "h100-80gb", "matrix": matrix}
    here = netplan.loads("rail-only-paper", gpus=64, radix=16, fabric=name, **asked)
    there = netplan.loads("rail-only-paper", graph=path, **asked)
    assert there.link_loads.busiest_s == pytest.approx(here.link_loads.busiest_s)
    assert {one.group: one.total_bytes for one in there.groups} == pytest.approx(
        {one.group: one.total_bytes for one in here.groups}
    )
    assert "has no links inside HB domains" in there.notes[0]
    assert here.notes == ()


def test_an_edge_list_as_csv_is_its_own_table() -> None:
    """A row a link, a column a field; formats that are no table have one column."""
    edges = netplan.export("hgx-h100", gpus=16, to="edges")
    rows = [*csv.DictReader(io.StringIO(edges.csv()))]
    assert len(rows) == len(edges.to_frame())
    assert rows[0]["source"] == "gpu-0"
    assert {len(row) for row in rows} == {9}
    assert netplan.export("hgx-h100", gpus=16, to="slurm").csv().startswith("line\n")
