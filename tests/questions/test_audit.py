"""Audits: every kind of finding by hand, the traps of published tables, and clean fabrics."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.catalog import shipped_root
from netplan.errors import CatalogError
from netplan.published.checks import published
from netplan.questions.audit import Audit, audit
from netplan.questions.cables import sheet_csv
from netplan.topologies.cabling.audit_cables import audit_simulator, is_simulator_topology
from netplan.topologies.cabling.audit_designs import COLUMNS, audit_designs
from netplan.topologies.cabling.cable_plan import cable_plan, plan_sheet
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.formats.edge_list import edge_list_lines
from netplan.topologies.formats.graphml import graphml_lines
from netplan.topologies.formats.writers import simai_lines
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS

REAL = shipped_root() / "reports" / "published" / "real-designs.csv"
SUPERPOD = str(shipped_root() / "topologies" / "designs" / "dgx-superpod-ufm.yaml")
EDGES = "source,source_port,target,target_port,gbps\n"


def graph_of(name: str, gpus: int, ratio: float | None = None) -> FabricGraph:
    sizing = Sizing(gpus, 16, 8, 450e9, 50e9, oversubscription=ratio)
    return expand(FABRICS.load(name), sizing)


def audited(folder: Path, text: str, name: str = "table.csv", radix: int | None = None) -> Audit:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return audit(path, radix=radix)


def found(answer: Audit) -> list[tuple[str, str, str]]:
    return [(f.what, f.got, f.expected) for f in answer.findings]


def test_inconsistent_rows_of_published_tables_are_flagged_and_no_others() -> None:
    answer = audit(REAL)
    flagged = {finding.where.partition(" ")[2] for finding in answer.findings}
    inconsistent = {r["design"] for r in published("real-designs") if r["status"] == "inconsistent"}
    assert flagged == inconsistent
    assert found(answer) == [
        ("counts that do not multiply", "gpus 9216", "10,368"),  # 1296 x 8
        ("counts that contradict the cables", "gpus 9216", "10,368"),
        ("counts that do not multiply", "gpus 104858", "104,856"),  # 13,107 x 8
        ("counts that do not multiply", "transceivers 6912", "6,336"),  # 3,168 x 2
        ("a total that is no sum", "total_switches 122", "120"),
    ]


MULTIPLY = "counts that do not multiply"


@pytest.mark.parametrize(
    ("header", "row", "what", "got", "expected"),
    [
        ("gpus,nodes,gpus_per_node", "1000,128,8", MULTIPLY, "gpus 1000", "1,024"),
        (
            "gpus,links_endpoint",
            "1024,1152",
            "counts that contradict the cables",
            "gpus 1024",
            "1,152",
        ),
        (
            "leaf_switches,spine_switches,total_switches",
            *("32,16,49", "a total that is no sum", "total_switches 49", "48"),
        ),
        ("fibre_links,transceivers", "512,512", MULTIPLY, "transceivers 512", "1,024"),
        (
            "links_endpoint,links_leaf_spine,copper_links,fibre_links",
            *("64,64,64,128", "a total that is no sum", "fibre_links 128", "64"),
        ),
        # 200 cables on 144 ports: 4 x 36
        (
            "radix,spine_switches,links_leaf_spine",
            *("36,4,200", "ports that do not exist", "spine_switches 4", "at least 6"),
        ),
        (
            "links_endpoint,links_leaf_spine",
            *("768,256", "oversubscription not stated", "links_leaf_spine 256", "768, or say 3:1"),
        ),
        # 24 leaves with 32 uplinks: ceil(24 x 32 / 64) = 12 is no divisor of 32
        (
            "leaf_switches,spine_switches,links_leaf_spine",
            *("24,12,768", "spines by ceiling alone", "spine_switches 12", "a divisor"),
        ),
        # 2048 nodes in groups of 256 are 8 groups
        (
            "groups,nodes,nodes_per_group",
            *("6,2048,256", "groups from before an extension", "groups 6", "8"),
        ),
        # C(24, 2) = 276 pairs of 20 links
        (
            "groups,links_per_pair,global_links",
            "24,20,11040",
            MULTIPLY,
            "global_links 11040",
            "5,520",
        ),
        # 8 x 16 x 16 x 4 = 8192
        ("tensor,context,pipeline,data,gpus", "8,16,16,4,16384", MULTIPLY, "gpus 16384", "8,192"),
        # 148 / 419 = 35.3 %
        (
            "count,total,percent",
            *("148,419,30.1%", "a percentage beside another count", "percent 30.1%", "35.3"),
        ),
        (
            "nodes,failures_per_1000_node_days",
            *(
                "2048,0.0065",
                "a rate off by a thousand",
                "failures_per_1000_node_days 0.0065",
                "6.5",
            ),
        ),
        ("gpus,nodes", "many,128", "no number", "gpus many", "a number"),
        ("gpus,nodes", "-8,1", "no number", "gpus -8", "a number"),
    ],
)
def test_traps(tmp_path: Path, header: str, row: str, what: str, got: str, expected: str) -> None:
    assert found(audited(tmp_path, f"{header}\n{row}\n")) == [(what, got, expected)]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("gpus,nodes", "4096,1024"),  # four chips a node
        ("gpus,nodes,links_endpoint", "248,31,252"),  # four links of a fabric manager
        ("gpus,planes,links_endpoint", "15360,2,30720"),
        ("links_endpoint,links_leaf_spine,oversubscription", "768,256,3"),
        ("leaf_switches,spine_switches,links_leaf_spine", "24,16,768"),
        ("leaf_switches,spine_switches,links_leaf_spine", "128,128,4096"),  # in pods
        ("count,total,percent", "148,419,35.3"),
        ("tensor,pipeline,data,gpus", "8,16,8,1024"),
        ("groups,nodes,nodes_per_group", "8,2048,256"),
        ("gpus,nodes,links_endpoint", "1024,,"),
    ],
)
def test_sound_rows(tmp_path: Path, header: str, row: str) -> None:
    assert audited(tmp_path, f"{header}\n{row}\n").findings == ()


def test_a_time_to_failure_off_the_line(tmp_path: Path) -> None:
    # 1.8 x 16384 = 29491; 29491 / 1024 = 28.8
    text = "gpus,mttf_hours\n1024,7.9\n16384,1.8\n131072,0.225\n"
    answer = audited(tmp_path, text)
    assert found(answer) == [("a value off the line 1/N", "mttf_hours 7.9", "about 28.8")]
    assert answer.findings[0].where == f"{tmp_path / 'table.csv'}:2"


@pytest.mark.parametrize("gpus", [64, 100, 512])
@pytest.mark.parametrize(
    "name", ["rail-optimized", "rail-only", "fat-tree", "dragonfly", "torus-2d", SUPERPOD]
)
def test_our_own_fabrics_are_sound(tmp_path: Path, name: str, gpus: int) -> None:
    graph = graph_of(name, gpus)
    # Where nodes fill their units, the four links of the fabric manager open one more.
    dark = {"leaves without hosts"} if name == SUPERPOD and gpus % 64 == 0 else set()
    plan = "".join(sheet_csv(plan_sheet(cable_plan(graph))))
    assert {one.what for one in audited(tmp_path, plan, radix=16).findings} == dark
    edges = "".join(edge_list_lines(graph))
    assert {one.what for one in audited(tmp_path, edges, radix=16).findings} == dark


def test_leaves_without_hosts(tmp_path: Path) -> None:
    """65 GPUs, 4 a server and leaf, on six units of four leaves: 17 of 24 have hosts."""
    sizing = Sizing(65, 8, 4, 450e9, 50e9)
    graph = expand(FABRICS.load("dgx-superpod").changed(management_links=0), sizing)
    answer = audited(tmp_path, "".join(edge_list_lines(graph)))
    assert [(f.what, f.got, f.expected) for f in answer.findings] == [
        ("leaves without hosts", "7 without", "a host")
    ]
    assert "OpenSM's ftree may refuse" in answer.findings[0].why


def test_oversubscription_of_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "fabric.graphml"
    path.write_text("".join(graphml_lines(graph_of("fat-tree", 192, 3.0))), encoding="utf-8")
    answer = audit(path)
    # leaves of 16 ports: 12 down, 4 up
    assert [(f.what, f.got) for f in answer.findings] == [("oversubscription not stated", "3:1")]
    assert "16 switches of tier 1" in answer.findings[0].why
    assert audit(path, oversubscription=3.0).findings == ()


def test_switches_that_all_share_one_kind_of_name(tmp_path: Path) -> None:
    # sw1 has three GPUs and one link up to sw2; nothing but the cables says which is the leaf
    rows = "".join(f"gpu-{i},0,sw1,{i},400\n" for i in range(3))
    answer = audited(tmp_path, f"{EDGES}{rows}sw1,9,sw2,0,400\n")
    assert [(f.what, f.got) for f in answer.findings] == [("oversubscription not stated", "3:1")]


def test_ports_used_twice_and_beyond_the_radix(tmp_path: Path) -> None:
    text = EDGES + "gpu-0,0,sw,0,400\ngpu-1,0,sw,0,400\ngpu-2,0,sw,16,400\n"
    answer = audited(tmp_path, text, radix=16)
    assert found(answer) == [
        ("a port used twice", "sw/1", "a free port"),
        ("a port that does not exist", "sw/17", "port 1 to 16"),
    ]
    assert answer.findings[0].where.endswith(":3")
    answer = audited(tmp_path, text, radix=2)
    assert ("more cables than ports", "3 cables", "at most 2") in found(answer)


def test_a_header_that_disagrees_with_its_body(tmp_path: Path) -> None:
    lines = list(simai_lines(graph_of("fat-tree", 64)))
    assert audited(tmp_path, "".join(lines), "topology").findings == ()
    count = len(lines) - 2
    broken = "".join(lines[:-4])
    assert found(audited(tmp_path, broken, "topology")) == [
        ("a header that disagrees with the body", f"links {count}", str(count - 4))
    ]
    text = "3 2 0 1 2 H100\n2 3\n0 2 400Gbps 1ms 0\n1 9 400Gbps 1ms 0\n"
    assert found(audited(tmp_path, text, "topology")) == [
        ("a node that does not exist", "9", "0 to 2"),
        ("a header that disagrees with the body", "2 switches listed", "1"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"name,x\n1,2\n", ":1: neither designs nor cables"),
        ("a.csv", b"", ":1: neither designs nor cables"),
        ("a.csv", b"gpus,nodes\n\xff,1\n", ":2: not UTF-8 text"),
        ("a.csv", b'gpus,nodes\n"8,1\n', ": not CSV"),
        ("a.csv", EDGES.encode() + b"a,x,b,1,400\n", ":2: ports and gbps are numbers"),
        ("a.txt", b"hello\n", ":1: unknown kind of file"),
        ("a.graphml", b"<graphml>", "a.graphml:"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CatalogError) as error:
        audit(path)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


NUMBERS = st.sampled_from(
    ["", "0", "1", "7", "8", "64", "1024", "1e999", "nan", "-1", "x", "\u00b2"]
)


@given(st.lists(st.lists(NUMBERS, min_size=len(COLUMNS), max_size=len(COLUMNS)), max_size=4))
def test_no_table_of_designs_breaks_the_audit(table: list[list[str]]) -> None:
    rows = iter(enumerate(table, start=2))
    assert all(finding.where for finding in audit_designs("t.csv", sorted(COLUMNS), rows))


@given(st.lists(st.text("0123456789 x\u00b2", max_size=20), max_size=6))
def test_no_topology_breaks_the_audit(lines: list[str]) -> None:
    text = ["9 8 0 1 2 H100", *lines]
    assert is_simulator_topology(text)
    assert all(finding.why for finding in audit_simulator("t", text))


def test_a_file_may_be_named_by_text() -> None:
    assert audit(str(REAL)) == audit(REAL)


UNEQUAL = "switches of a tier that are joined unequally"


def test_pods_of_unequal_size_are_found_and_equal_ones_are_not(tmp_path: Path) -> None:
    # 125 leaves under 16 switches in each of 8 planes: 13 have eight, 3 have seven.
    for name, expected in (
        (
            "uneven-clos",
            [(UNEQUAL, "7 neighbours, 1 cables to each", "8 neighbours, 1 cables to each")],
        ),
        ("rail-optimized", []),
        ("rail-only", []),  # rails of 125 hosts
    ):
        path = tmp_path / f"{name}.graphml"
        path.write_text("".join(graphml_lines(graph_of(name, 1000))), encoding="utf-8")
        answer = audit(path, radix=16)
        assert found(answer) == expected
        assert answer.exit_code == len(expected)


def test_rails_of_unequal_length_are_networks_of_their_own(tmp_path: Path) -> None:
    # 257 GPUs in 33 domains of 8: one rail of 33 hosts has 5 leaves and 3 spines, the seven of 32
    # have 4 and 2.
    path = tmp_path / "rails.csv"
    spec = FABRICS.load("rail-only").changed(shared_rails=False, even_trunks=True)
    graph = expand(spec, Sizing(257, 16, 8, 450e9, 50e9))
    path.write_text("".join(edge_list_lines(graph)), encoding="utf-8")
    assert found(audit(path)) == []


def test_a_missing_cable_makes_a_tree_unequal(tmp_path: Path) -> None:
    # Four leaves of eight hosts, four cables to each of two spines; one to spine-0 is gone.
    lines = list(edge_list_lines(graph_of("fat-tree", 32)))
    left = [line for line in lines if not line.startswith("leaf-3,switch,11,")]
    path = tmp_path / "cut.csv"
    path.write_text("".join(left), encoding="utf-8")
    assert found(audit(path)) == [
        ("oversubscription not stated", "1.143:1", "1:1, or say it"),
        ("uneven uplinks", "7 uplinks", "8"),
        (UNEQUAL, "2 neighbours, 3 or 4 cables to each", "2 neighbours, 4 cables to each"),
        (UNEQUAL, "4 neighbours, 3 or 4 cables to each", "4 neighbours, 4 cables to each"),
    ]
