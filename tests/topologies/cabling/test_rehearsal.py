"""Plans booted: ibsim simulates, OpenSM routes, ibnetdiscover finds, and the comparison is exact.

What starts the programs (Debian: ``opensm``, ``ibsim-utils``, ``infiniband-diags``) is skipped
without them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import netplan
from netplan.errors import InputError, NetplanError
from netplan.questions.cable_comparison import Rehearsal
from netplan.questions.cables import sheet_csv
from netplan.records import replace
from netplan.topologies.cabling import rehearsal
from netplan.topologies.cabling.cable_plan import cable_plan, plan_sheet, with_hosts
from netplan.topologies.cabling.rehearsal import find_tools, lowered, subnets_of, torus_config
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.formats.subnet_files import ibnetdiscover_lines
from netplan.topologies.graph import FabricGraph, network_only
from netplan.topologies.specs import FABRICS

Test = TypeVar("Test", bound=Callable[..., None])
TOOLS = find_tools()


def boots(test: Test) -> Test:
    """Mark a test that starts the programs."""
    missing = pytest.mark.skipif(TOOLS is None, reason="needs opensm, ibsim and ibnetdiscover")
    marked: Test = pytest.mark.slow(missing(test))
    return marked


def network(name: str, gpus: int, radix: int, hb_size: int = 8, ratio: float = 1.0) -> FabricGraph:
    sizing = Sizing(gpus, radix, hb_size, 450e9, 50e9, oversubscription=ratio)
    return network_only(expand(FABRICS.load(name), sizing))


def saved(path: Path, graph: FabricGraph, hosts: int | None = None) -> Path:
    path.write_text("".join(ibnetdiscover_lines(graph, host_gpus=hosts)), encoding="utf-8")
    return path


def plan_file(folder: Path, graph: FabricGraph, hosts: int = 0) -> Path:
    path, plan = folder / "plan.csv", cable_plan(graph)
    sheet = plan_sheet(with_hosts(plan, hosts) if hosts else plan)
    path.write_text("".join(sheet_csv(sheet)), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("options", "engine", "subnets", "cables"),
    [
        # 128 hosts' ports, as many uplinks.
        ({"fabric": "rail-optimized", "gpus": 128, "radix": 16, "host_gpus": 8}, "ftree", 1, 256),
        # 3:1: leaves of 12 hosts' ports and 4 uplinks, 11 of them: 128 + 44.
        ({"fabric": "fat-tree", "gpus": 128, "radix": 16, "oversubscription": 3}, "ftree", 1, 172),
        # A rail of 32 ports: 4 leaves of 8, 2 spines; as many uplinks.
        ({"fabric": "rail-only", "gpus": 256, "radix": 16, "host_gpus": 8}, "ftree", 8, 512),
        ({"fabric": "rail-only", "gpus": 64, "radix": 8}, "minhop", 8, 64),  # a leaf a rail
        # One group: 8 switches of 8 hosts' ports each, all joined: 64 + 28.
        ({"fabric": "dragonfly", "gpus": 64, "radix": 16}, "dfsssp", 1, 92),
    ],
)
@boots
def test_plans_boot_and_are_found_as_planned(
    options: dict[str, Any], engine: str, subnets: int, cables: int
) -> None:
    answer = netplan.cables("rail-only-paper", rehearse=True, hb_size=8, **options)
    assert isinstance(answer, Rehearsal)
    assert [one.engine for one in answer.booted] == [engine] * subnets
    assert answer.compared.differences == ()
    assert (answer.compared.planned, answer.compared.built) == (cables, cables)
    assert answer.exit_code == 0


@pytest.mark.parametrize(("name", "hb_size", "axes"), [("torus-3d", 1, 3), ("torus-2d", 8, 2)])
@boots
def test_tori_boot_with_a_routing_engine_of_their_own(name: str, hb_size: int, axes: int) -> None:
    # Chips that each have 400 Gb/s by --set share them: whatever the rate, cables are compared.
    answer = netplan.cables(
        "rail-only-paper", rehearse=True, gpus=64 * hb_size, hb_size=hb_size, fabric=name
    )
    assert isinstance(answer, Rehearsal)
    assert {one.engine for one in answer.booted} == {"torus-2QoS"}
    assert len(answer.booted) == hb_size
    assert answer.compared.planned == 64 * hb_size * axes
    assert answer.exit_code == 0


def exchanged(graph: FabricGraph, one: int, other: int) -> FabricGraph:
    """The plugs of two cables exchanged at their far ends."""
    target, port = graph.target.copy(), graph.target_port.copy()
    for ends in (target, port):
        ends[[one, other]] = ends[[other, one]]
    return replace(graph, target=target, target_port=port)


def without(graph: FabricGraph, link: int) -> FabricGraph:
    ends = ("source", "target", "source_port", "target_port")
    columns = (*ends, "bytes_per_s", "length_class", "group")
    kept = {name: np.delete(getattr(graph, name), link) for name in columns}
    return replace(graph, **kept)


def slower(graph: FabricGraph, link: int) -> FabricGraph:
    rates = graph.bytes_per_s.copy()
    rates[link] /= 2
    return replace(graph, bytes_per_s=rates)


@pytest.mark.parametrize(
    ("name", "gpus", "hb_size", "ratio"),
    [
        ("rail-optimized", 128, 8, 1.0),
        ("fat-tree", 128, 8, 3.0),
        ("rail-only", 256, 8, 1.0),
        ("torus-2d", 64, 1, 1.0),
    ],
)
@boots
def test_injected_faults_are_named_exactly(
    name: str, gpus: int, hb_size: int, ratio: float, tmp_path: Path
) -> None:
    graph = network(name, gpus, 16, hb_size, ratio)
    names = graph.node_names()

    def ends(link: int) -> tuple[str, str]:
        source, target = int(graph.source[link]), int(graph.target[link])
        here, there = int(graph.source_port[link]) + 1, int(graph.target_port[link]) + 1
        return f"{names[source]}/{here}", f"{names[target]}/{there}"

    # Two cables of one leaf or ring exchanged, one cut, one at half its rate (HDR, not NDR).
    hall = without(slower(exchanged(graph, 0, 8), 40), 50)
    files = plan_file(tmp_path, graph), saved(tmp_path / "hall.txt", hall)
    answer = netplan.cables("rail-only-paper", rehearse=True, compare=files)
    assert isinstance(answer, Rehearsal)
    assert answer.exit_code == 1
    said = {one.kind: one for one in answer.compared.differences}
    assert sorted(said) == ["missing", "swapped", "wrong speed"]
    assert len(answer.compared.differences) == 3
    assert {ends(0)[1], ends(8)[1]} <= set(said["swapped"].instruction.split())
    assert all(end in said["missing"].instruction for end in ends(50))
    assert "at 200 Gb/s, planned are 400 Gb/s" in said["wrong speed"].instruction
    assert all(end in said["wrong speed"].planned for end in ends(40))


@boots
def test_hosts_of_a_plan_are_found_by_the_names_of_their_adapters(tmp_path: Path) -> None:
    graph = network("rail-optimized", 128, 16)
    hosts = plan_file(tmp_path, graph, hosts=8)
    hall = saved(tmp_path / "hall.ibnetdiscover", exchanged(graph, 3, 4), hosts=8)
    answer = netplan.cables("rail-only-paper", rehearse=True, compare=(hosts, hall))
    assert isinstance(answer, Rehearsal)
    # Ports 4 and 5 of host-0 are its adapters mlx5_3 and mlx5_4, on rails 3 and 4.
    assert [one.kind for one in answer.compared.differences] == ["swapped"]
    said = answer.compared.differences[0]
    assert said.planned == "host-0/4 - rail-3/leaf-0/1; host-0/5 - rail-4/leaf-0/1"


@boots
def test_a_fabric_that_opensm_takes_for_no_fat_tree_is_routed_up_and_down(tmp_path: Path) -> None:
    # A cable between two leaves: ftree refuses it, updn does not.
    graph = network("fat-tree", 64, 16)
    text = "".join(ibnetdiscover_lines(exchanged(graph, 0, 72)))
    path = tmp_path / "hall.ibnetdiscover"
    path.write_text(text)
    answer = netplan.cables("rail-only-paper", rehearse=True, compare=(path, path))
    assert isinstance(answer, Rehearsal)
    assert [one.engine for one in answer.booted] == ["updn"]
    assert answer.compared.differences == ()


@boots
def test_a_network_that_no_simulator_takes_is_one_clear_line(tmp_path: Path) -> None:
    # Both ends of a cable must name it: here a switch says port 7 where the adapter says 1.
    text = "".join(ibnetdiscover_lines(network("rail-optimized", 128, 16)))
    path = tmp_path / "hall.ibnetdiscover"
    path.write_text(text.replace('"S-0000000000008100"[1]', '"S-0000000000008100"[7]'))
    with pytest.raises(NetplanError, match="ibsim could not load the network: it said 'ibpanic"):
        netplan.cables("rail-only-paper", rehearse=True, compare=(path, path))


def test_subnets_end_at_adapters() -> None:
    # Twin-plane cards have a port in either plane, which no switch joins.
    spec = FABRICS.load("bcube")
    graph = expand(spec, Sizing(64, 8, 1, 450e9, 50e9))
    parts = subnets_of("".join(ibnetdiscover_lines(graph)))
    assert len(parts) == 16  # two levels of 8 switches of 8 ports
    assert {(one.switches, one.adapters, one.cables) for one in parts} == {(1, 8, 8)}
    assert subnets_of("") == []


def test_speeds_keep_their_order_where_the_simulator_lacks_them() -> None:
    text = '[1] "S-1"[1] # "a" lid 0 4xXDR\n[2] "S-2"[1] # "b" lid 0 2xNDR\n[3] # lid 3 4xHDR'
    low, true = lowered(text)
    assert [line.split()[-1] for line in low.splitlines()] == ["4xHDR", "2xEDR", "4xFDR"]
    assert true == {"HDR": "XDR", "EDR": "NDR", "FDR": "HDR"}
    assert lowered("# lid 0 4xHDR") == ("# lid 0 4xHDR", {})
    with pytest.raises(InputError, match="unknown speed ABC"):
        lowered("# lid 0 4xABC")


def test_a_torus_is_described_by_its_first_member_and_both_ways_along_rings() -> None:
    # Rail 3 of a 4 x 3 torus of domains of 8: members 3, 11, ..., the next row at 3 + 4 x 8.
    lines = torus_config((4, 3), first=3, step=8).splitlines()
    assert lines[0] == "torus 4 3 1"
    guids = [f"{256 * (n + 1):#x}" for n in (3, 11, 27, 35, 67)]
    assert lines[1:] == [
        f"xp_link {guids[0]} {guids[1]}",
        f"xm_link {guids[0]} {guids[2]}",
        f"yp_link {guids[0]} {guids[3]}",
        f"ym_link {guids[0]} {guids[4]}",
    ]
    assert torus_config((4,), first=0, step=1, closed=False).splitlines()[0] == "mesh 4 1 1"


@boots
def test_only_what_ibnetdiscover_prints_is_booted(tmp_path: Path) -> None:
    graph = network("rail-only", 64, 16)
    plan = plan_file(tmp_path, graph)
    with pytest.raises(InputError, match="is not what ibnetdiscover prints"):
        netplan.cables("rail-only-paper", rehearse=True, compare=(plan, plan))
    pasted = tmp_path / "session.txt"
    text = "".join(ibnetdiscover_lines(graph)).replace("\n", "\r\n")
    pasted.write_text(f"\ufeffroot@node1:~# ibnetdiscover\r\n{text}", newline="")
    answer = netplan.cables("rail-only-paper", rehearse=True, compare=(plan, pasted))
    assert isinstance(answer, Rehearsal)
    assert answer.exit_code == 0


def test_without_the_programs_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rehearsal, "find_tools", lambda: None)
    with pytest.raises(InputError, match="install opensm, ibsim-utils and infiniband-diags"):
        netplan.cables("rail-only-paper", rehearse=True, gpus=64, fabric="rail-only")
    with pytest.raises(InputError, match="--rehearse has no racks or cages"):
        netplan.cables(
            "rail-only-paper", rehearse=True, gpus=64, floor_plan="example-hall", fabric="rail-only"
        )
    with pytest.raises(InputError, match="--rehearse is of one network: leave out --with"):
        netplan.cables(
            "rail-only-paper", rehearse=True, gpus=64, networks=("storage",), fabric="rail-only"
        )
