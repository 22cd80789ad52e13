"""Subnets as halls write them down: pasted sessions, old forms, chassis, cards, missing rates."""

from math import isnan
from pathlib import Path

import pytest

from netplan.questions.audit import audit
from netplan.questions.cable_comparison import compare_cables, read_cable_hall, read_cables
from netplan.topologies.cabling.halls import read_node_names
from netplan.topologies.formats.graph_files import read_graph
from netplan.topologies.graph import GPU, SWITCH

PLAN = "a_device,a_port,z_device,z_port,gbps\n"


def saved(folder: Path, text: str | bytes, name: str = "hall.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def rows(path: Path) -> list[tuple[str, str, float]]:
    return [(str(cable.a), str(cable.z), cable.gbps) for cable in read_cables(path)]


SESSION = """\
[root@node1 ~]# ibnetdiscover
#
# Topology file: generated on Mon Nov 23 08:00:00 2026
ibwarn: [42] mad_rpc: _do_madrpc failed; dport (DR path slid 0)
Non-Chassis Nodes

vendid=0x2c9
switchguid=0xa0a(a0a)
   Switch\t65 "S-0000000000000a0a"\t\t# "MF0;leaf-0:MQM9700/U1" enhanced port 0 lid 1 lmc 0
   [1]\t"H-0000000000000001"[1](1) \t\t# "node1 mlx5_0" lid 5 4xNDR
   [2][ext 2]\t"S-0000000000000b0b"[7]\t\t# "Quantum Mellanox Technologies" lid 6 4xHDR
   [65]\t"H-0000000000000a0f"[1](a0f) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xHDR

Ca\t1 "H-0000000000000001"\t\t# "node1 mlx5_0"
[1](1) \t"S-0000000000000a0a"[1]\t\t# lid 5 lmc 0 "MF0;leaf-0:MQM9700/U1" lid 1 4xNDR
[root@node1 ~]#
"""


def test_a_pasted_session_is_read_under_any_name(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf" + SESSION.replace("\n", "\r\n").encode()
    path = saved(tmp_path, text, "notes.log")
    # The spine has no block of its own, and the aggregation node sits inside the leaf.
    assert rows(path) == [
        ("leaf-0/1", "node1 mlx5_0/1", 400.0),
        ("leaf-0/2", "Quantum Mellanox Technologies/7", 200.0),
    ]
    hall = read_cable_hall(path)
    assert hall.inside == 1
    assert hall.devices["leaf-0"].guid == "0000000000000a0a"
    assert audit(path).kind == "subnet"


def test_two_adapters_back_to_back_in_the_old_words(tmp_path: Path) -> None:
    path = saved(tmp_path, 'Hca 1 "Hca1"\n[1] "Hca2"[1] w=4\n\nHca 1 "Hca2"\n[1] "Hca1"[1] w=4\n')
    ((a, z, rate),) = rows(path)
    assert (a, z) == ("Hca1/1", "Hca2/1")
    assert isnan(rate)  # a width alone is no rate
    one = saved(
        tmp_path,
        'Ca\t1 "H-0a"\t# "node-a mlx5_0"\n[1](0xb) "H-0c"[1](0xd) # lid 1 "node-b mlx5_0" 4xEDR\n',
    )
    assert rows(one) == [("node-a mlx5_0/1", "node-b mlx5_0/1", 100.0)]


def test_ends_that_say_different_widths_count_as_the_narrower(tmp_path: Path) -> None:
    # As in the example of ibnetdiscover(8): four lanes at one end, one at the other.
    one = 'Switch 24 "S-0a" # "a"\n[10] "S-0b"[1] # "b" 4xSDR\n[3] "H-0c"[1] # "c" 4xSDR\n'
    two = 'Switch 8 "S-0b" # "b"\n[1] "S-0a"[10] # "a" 1xSDR\n[6] "H-0d"[1] # "d" 4xSDR\n'
    path = saved(tmp_path, f"{one}\n{two}")
    assert rows(path) == [("b/1", "a/10", 2.0), ("a/3", "c/1", 8.0), ("b/6", "d/1", 8.0)]


TOPO = """\
# by hand
CS7500 director
   L1/P1 -4x-25G-> HCA_mlx5 node001 mlx5_0/P1
   L2/P1 -> HCA_mlx5 node001 mlx5_1/P1
   S1/P36 -2x-100G-> MQM9700 leaf-7 P1

MQM9700 leaf-7
   P1 -2x-100G-> CS7500 director S1/P36
   P2 -4x-100G-> HCA gpu-0 P1
"""


def test_chassis_ports_cards_and_missing_rates_of_a_topology_file(tmp_path: Path) -> None:
    path = saved(tmp_path, TOPO)
    found = rows(path)
    assert [(a, z) for a, z, _ in found] == [
        ("director:L1/P1", "node001 mlx5_0/1"),
        ("director:L2/P1", "node001 mlx5_1/1"),
        ("director:S1/P36", "leaf-7/1"),
        ("leaf-7/2", "gpu-0/1"),
    ]
    assert [rate for _, _, rate in found if not isnan(rate)] == [100.0, 200.0, 400.0]
    graph = read_graph(saved(tmp_path, TOPO.replace(" -> ", " -4x-25G-> "), "graph.txt"))
    assert graph.gpus == 3
    assert graph.switches_per_tier() == {1: 2}


def test_adapters_with_blocks_of_their_own_are_no_switches(tmp_path: Path) -> None:
    path = saved(
        tmp_path, "MT23108 H-1\n P1 -> MT23108 H-2 P1\n\nMT23108 H-2\n P1 -> MT23108 H-1 P1\n"
    )
    hall = read_cable_hall(path)
    assert [device.switch for device in hall.devices.values()] == [False, False]
    assert len(hall.cables) == 1


LOOP = """\
Switch 8 "S-0a" # "leaf-0"
[1] "H-0b"[1] # "gpu-0" lid 1 4xNDR
[5] "S-0a"[6] # "leaf-0" lid 1 4xNDR
[6] "S-0a"[5] # "leaf-0" lid 1 4xNDR
[7] "S-0a"[7] # "leaf-0" lid 1 4xNDR
Ca 1 "H-0b" # "gpu-0"
[1] "S-0a"[1] # lid 1 "leaf-0" lid 1 4xNDR
"""


def test_links_that_join_a_switch_to_itself_are_findings(tmp_path: Path) -> None:
    path = saved(tmp_path, LOOP)
    loops = [finding for finding in audit(path).findings if finding.what == "a link to itself"]
    assert [(one.got, one.where) for one in loops] == [
        ("leaf-0/5 - leaf-0/6", f"{path}:3"),
        ("leaf-0/7 - leaf-0/7", f"{path}:5"),
    ]
    graph = read_graph(path)  # which carries traffic: such links do not
    assert (graph.link_count, graph.node_kind.tolist()) == (1, [GPU, SWITCH])
    plan = saved(tmp_path, PLAN + "gpu-0,1,leaf-0,1,400\n", "plan.csv")
    assert [d.instruction for d in compare_cables(plan, path).differences] == [
        "remove the cable from leaf-0/5 to leaf-0/6: it joins leaf-0 to itself",
        "remove the plug in leaf-0/7: it joins leaf-0 to itself",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0x12\n", ":1: expected a GUID and a name"),
        ("# nothing\n", ":1: no names"),
        ('0x12 "a"\n0x12 "b"\n', ":2: 0x12 stands on line 1 already"),
        (b'0x12 "\xff"\n', ":1: not UTF-8 text"),
    ],
)
def test_node_name_maps_that_are_none(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(Exception, match=message):
        read_node_names(saved(tmp_path, text))


def test_names_by_guid_and_by_description(tmp_path: Path) -> None:
    names = (
        '# rack 3\n0xa0a "leaf-9"\n"Quantum Mellanox Technologies" spine-4\nnode1 "host-7"  # x\n'
    )
    hall = read_cable_hall(
        saved(tmp_path, SESSION), read_node_names(saved(tmp_path, names, "names"))
    )
    assert set(hall.devices) == {"leaf-9", "spine-4", "host-7 mlx5_0"}
