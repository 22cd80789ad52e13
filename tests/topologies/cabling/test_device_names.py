"""One scheme of names in every export: hosts, their adapters, and switches without slashes."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import netplan
from netplan.errors import InputError
from netplan.questions.cable_comparison import compare_cables
from netplan.questions.cables import sheet_csv
from netplan.records import replace
from netplan.topologies.cabling.cable_plan import cable_plan, plan_sheet, with_hosts
from netplan.topologies.cabling.device_names import slashless
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.formats.slurm import slurm_block_lines, slurm_lines, slurm_yaml_lines
from netplan.topologies.formats.subnet_files import ibnetdiscover_lines, topo_lines
from netplan.topologies.formats.writers import dot_lines
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS

DOT = shutil.which("dot")


def fabric(name: str, gpus: int, radix: int, hb_size: int = 8) -> FabricGraph:
    return expand(FABRICS.load(name), Sizing(gpus, radix, hb_size, 450e9, 50e9))


def test_adapters_are_those_of_the_cable_plan_with_hosts() -> None:
    # The plan says host-1 port 4, InfiniBand host-1 mlx5_3: cable by cable, in either direction.
    graph = fabric("rail-optimized", 128, 16)
    plan = with_hosts(cable_plan(graph), 8)
    planned = {
        (a.name, f"mlx5_{int(a_port) - 1}", z.name, z_port)
        for a, a_port, z, z_port in plan.ends()
        if a.role == "host"
    }
    found, block = set(), ("", "")
    for line in "".join(ibnetdiscover_lines(graph, host_gpus=8)).splitlines():
        if match := re.fullmatch(r'Ca\t1 "H-\w{16}"\t\t# "(\S+) (\S+)"', line):
            block = (match[1], match[2])
        elif match := re.fullmatch(r'\[1\]\(.*"\[(\d+)\]\t\t# lid 0 lmc 0 "(\S+)" .*', line):
            found.add((*block, match[2], match[1]))
    assert found == planned
    assert len(found) == 128


def test_guids_are_stable_and_never_used_twice() -> None:
    for graph, hosts in (
        (fabric("rail-optimized", 128, 16), 8),
        (fabric("torus-3d", 64, 64, 1), None),
    ):
        lines = list(ibnetdiscover_lines(graph, host_gpus=hosts))
        nodes = [line.split('"')[1] for line in lines if line.startswith(("Ca", "Switch"))]
        assert len(set(nodes)) == len(nodes)
        ports = [int(n.removeprefix("H-"), 16) + 1 for n in nodes if n.startswith("H")]
        assert not set(ports) & {int(node.partition("-")[2], 16) for node in nodes}
        assert lines == list(ibnetdiscover_lines(graph, host_gpus=hosts))


def test_a_gpu_that_passes_traffic_on_is_a_switch_with_an_adapter() -> None:
    lines = list(ibnetdiscover_lines(fabric("torus-3d", 64, 64, 1)))
    assert sum(line.startswith("Switch\t7") for line in lines) == 64
    assert lines.count("sysimgguid=0x100\n") == 2  # the switch and the adapter are one device
    assert any(line.startswith("[7]") and '"gpu-0 adapter"' in line for line in lines)
    with pytest.raises(InputError, match="leave out --host-gpus"):
        list(ibnetdiscover_lines(fabric("torus-3d", 64, 64, 1), host_gpus=8))


@pytest.mark.parametrize("hosts", [None, 8])
def test_a_topo_file_without_slashes_compares_equal_to_the_plan(
    hosts: int | None, tmp_path: Path
) -> None:
    graph = fabric("rail-optimized", 128, 16)
    topo, planned = tmp_path / "x.topo", tmp_path / "plan.csv"
    text = "".join(topo_lines(graph, host_gpus=hosts))
    assert "/" not in text
    topo.write_text(text)
    plan = cable_plan(graph) if hosts is None else with_hosts(cable_plan(graph), hosts)
    planned.write_text("".join(sheet_csv(plan_sheet(plan))))
    for pair in ((planned, topo), (topo, planned)):
        assert compare_cables(*pair).differences == ()


def test_a_topo_file_needs_switches() -> None:
    with pytest.raises(InputError, match="has no switches"):
        list(topo_lines(fabric("torus-3d", 64, 64, 1)))


def test_names_that_differ_by_a_slash_alone_are_refused() -> None:
    graph = fabric("fat-tree", 32, 16, 4)
    names = graph.node_names()
    twins = replace(graph, names=(*names[:-2], "a/b", "a-b"))
    with pytest.raises(InputError, match="two devices would be called a-b"):
        list(topo_lines(twins))
    assert slashless("rail-0/leaf-3") == "rail-0-leaf-3"


def test_slurm_blocks_are_hb_domains_of_several_hosts_or_else_units() -> None:
    # 1,152 GPUs are 16 racks of 18 trays of 4: sizes 18, 36, ..., 288 = 16 x 18.
    racks = list(slurm_block_lines(fabric("rail-optimized", 1152, 64, 72), host_gpus=4))
    assert racks[1] == "BlockName=block-0 Nodes=host-[0-17]\n"
    assert racks[-1] == "BlockSizes=18,36,72,144,288\n"
    # Units of 8 hosts under 8 leaves of 16 ports each; four units.
    units = list(slurm_block_lines(fabric("rail-optimized", 256, 16)))
    assert [line.split("=")[-1].strip() for line in units[1:]] == [
        *("host-[0-7]", "host-[8-15]", "host-[16-23]", "host-[24-31]", "8,16,32")
    ]
    # 24 hosts of three units: 16 would leave half a block over.
    three = list(slurm_block_lines(fabric("rail-optimized", 192, 16)))
    assert three[-1] == "BlockSizes=8\n"


def test_slurm_has_the_hosts_own_names_where_a_hall_was_read(tmp_path: Path) -> None:
    # The hall's file names adapters; its hosts are 16 of 8 adapters each.
    path = tmp_path / "hall.ibnetdiscover"
    lines = ibnetdiscover_lines(fabric("rail-optimized", 128, 16), host_gpus=8)
    text = re.sub(r"host-(\d+) ", lambda m: f"node{int(m[1]):03} ", "".join(lines))
    path.write_text(text)
    found = netplan.export("rail-only-paper", graph=path, to="slurm")
    assert "SwitchName=s1-0 Nodes=node[000-007]\n" in list(found.lines())
    blocks = list(netplan.export("rail-only-paper", graph=path, to="slurm-block").lines())
    assert blocks[1:] == [
        "BlockName=block-0 Nodes=node[000-007]\n",
        "BlockName=block-1 Nodes=node[008-015]\n",
        "BlockSizes=8,16\n",
    ]


def test_slurm_yaml_holds_the_tree_and_the_blocks() -> None:
    graph = fabric("rail-optimized", 256, 16)
    tree, block = yaml.safe_load("".join(slurm_yaml_lines(graph)))
    assert (tree["topology"], tree["cluster_default"]) == ("tree", True)
    lines = [
        f"SwitchName={one['switch']} {'Nodes' if 'nodes' in one else 'Switches'}="
        f"{one.get('nodes') or one['children']}\n"
        for one in tree["tree"]["switches"]
    ]
    assert lines == list(slurm_lines(graph))
    assert block["block"]["block_sizes"] == [8, 16, 32]
    assert next(one["nodes"] for one in block["block"]["blocks"]) == "host-[0-7]"


@pytest.mark.parametrize("lines", [slurm_lines, slurm_block_lines])
def test_hosts_and_hb_domains_divide_each_other(lines: Callable[..., Iterator[str]]) -> None:
    with pytest.raises(InputError, match="do not divide each other"):
        list(lines(fabric("rail-optimized", 256, 16), host_gpus=3))
    with pytest.raises(InputError, match="out of range"):
        list(lines(fabric("rail-optimized", 256, 16), host_gpus=0))


def test_formats_that_name_gpus_refuse_hosts() -> None:
    with pytest.raises(InputError, match="--to graphml names GPUs"):
        netplan.export("rail-only-paper", to="graphml", gpus=64, host_gpus=8, fabric="rail-only")


@pytest.mark.slow
@pytest.mark.skipif(not DOT, reason="needs graphviz")
@pytest.mark.parametrize(
    ("name", "hb_size"),
    [("rail-optimized", 8), ("torus-3d", 1), ("dragonfly", 8), ("bcube", 8), ("dgx-1", 8)],
)
def test_graphviz_draws_every_port_without_a_warning(
    name: str, hb_size: int, tmp_path: Path
) -> None:
    graph = fabric(name, 64, 16, hb_size)
    path = tmp_path / "x.dot"
    path.write_text("".join(dot_lines(graph)))
    run = subprocess.run(
        [str(DOT), "-Tplain", str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stderr == ""
    assert run.stdout.count("\nedge ") == graph.link_count
