"""Fabrics from graphs: somebody's file, or a function of Python."""

import random
from pathlib import Path
from typing import Any, cast

import networkx as nx
import pytest

import netplan
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.errors import CatalogError, InputError, NetplanError
from netplan.faults.damage.survival import switch_loss
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.formats.edge_list import edge_list_lines
from netplan.topologies.formats.graph_files import read_graph
from netplan.topologies.formats.graphml import graphml_lines
from netplan.topologies.formats.subnet_files import ibnetdiscover_lines
from netplan.topologies.graph import FabricGraph, network_only
from netplan.topologies.own.functions import register_fabric
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.routing import link_loads
from tests.topologies.test_graph import check

EXAMPLE = Path(__file__).parents[3] / "examples" / "four-leaves.yaml"


def sizing(gpus: int, radix: int = 16, hb_size: int = 4) -> Sizing:
    return Sizing(gpus, radix, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)


def saved(folder: Path, text: str, name: str = "found.csv") -> FabricSpec:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return FABRICS.load(str(path))


def edges(*links: tuple[str, str, float]) -> str:
    rows = (f"{a},{b},{rate:g}\n" for a, b, rate in links)
    return "source,target,gbps\n" + "".join(rows)


def parts(fabric: Fabric) -> tuple[object, ...]:
    """Counts of a fabric, whatever its tiers and links are called."""
    tiers = [(tier.switches, tier.ports_used) for tier in fabric.tiers]
    media = {
        medium: sum(one.links for one in fabric.links if one.medium == medium)
        for medium in ("optical", "copper")
    }
    return tiers, media, fabric.nic_ports, fabric.network, fabric.sizing.hb_size


@pytest.mark.parametrize(
    ("name", "asked", "levels"),
    [
        ("rail-optimized", sizing(256, 16, 8), True),
        ("rail-only", sizing(256, 16, 8), True),
        ("fat-tree", sizing(200, 16, 8), True),
        ("uneven-clos", sizing(600, 16, 8), True),
        ("nvl72", sizing(288, 32, 72), True),
        ("dragonfly", sizing(512, 16, 4), False),
        ("torus-2d", sizing(96, 16, 4), True),
        ("full-mesh", sizing(128, 64, 8), True),
        ("slim-fly", sizing(250, 16, 4), True),
        ("jellyfish", sizing(200, 16, 4), True),
        ("hyperx", sizing(256, 16, 4), True),
        ("dragonfly-plus", sizing(256, 16, 4), False),
        ("bcube", sizing(64, 16, 8), False),
        ("dgx-1", sizing(64, 16, 8), False),
    ],
)
def test_a_fabric_written_and_read_is_the_same_fabric(
    tmp_path: Path, name: str, asked: Sizing, *, levels: bool
) -> None:
    spec = FABRICS.load(name)
    fabric, graph = build_fabric(spec, asked), expand(spec, asked)
    own = saved(tmp_path, "".join(graphml_lines(graph)), "own.graphml")
    found = build_fabric(own, asked)
    assert parts(found) == parts(fabric)
    if levels:
        assert found.levels == fabric.levels
    assert switch_loss(own, found) == switch_loss(spec, fabric)
    assert list(check(own, asked).names) == graph.node_names()


@pytest.mark.parametrize("form", ["edges", "ibnetdiscover"])
def test_formats_without_hb_domains_take_those_that_are_asked_for(
    tmp_path: Path, form: str
) -> None:
    spec, asked = FABRICS.load("rail-only"), sizing(64, 16, 8)
    graph = expand(spec, asked)
    bare = network_only(graph)
    lines = edge_list_lines(bare) if form == "edges" else ibnetdiscover_lines(bare, host_gpus=None)
    own = saved(tmp_path, "".join(lines), f"found.{'csv' if form == 'edges' else form}")
    found = build_fabric(own, asked)
    # The rails hang together over HB domains alone.
    assert (parts(found), found.levels) == (parts(build_fabric(spec, asked)), found.levels)
    assert expand(own, asked).links_per_group()["hb"] == 64
    assert any("no links inside HB domains" in note for note in found.notes)


def test_rates_are_those_of_the_busiest_links() -> None:
    fabric = build_fabric(FABRICS.load(str(EXAMPLE)), sizing(16))
    # Four leaves in a ring, two links from each to the next. If each sends 1 to each other, half
    # of it either way to the one beyond, 1 + 2/2 cross from leaf to leaf over two links: w = 1.
    # Any traffic finds s / 2 w = 2 links out of a leaf of four GPUs; all-to-all has w T T / N = 1.
    domain, network = fabric.levels
    assert (domain.size, domain.link_bytes_per_s) == (4, 450e9)
    assert (network.kind, network.size, network.link_bytes_per_s) == ("switch", 4, 50e9)
    assert [tier.links for tier in network.tiers] == [2.0]
    assert {one.name: one.links for one in fabric.links} == {"host": 16, "between switches": 8}


def test_leaves_that_are_not_alike_are_timed_over_shortest_paths(tmp_path: Path) -> None:
    leaf_of = [0] * 4 + [1] * 4 + [2] * 8
    links = [(f"gpu-{gpu}", f"leaf-{leaf}", 400.0) for gpu, leaf in enumerate(leaf_of)]
    links += [(f"leaf-{leaf}", f"leaf-{(leaf + 1) % 3}", 400.0) for leaf in range(3)]
    fabric = build_fabric(saved(tmp_path, edges(*links)), sizing(16))
    # Domains 0 to 3 lie under leaves 0, 1, 2, 2. Around them four GPUs send from leaf 0 to 1, 1 to
    # 2 and 2 to 0, over a link of 50 GB/s each: 12.5 GB/s; two domains on it is the same. Evenly
    # spread, the eight of leaf 2 send a third to leaf 0: 8/3 over a link, 18.75 GB/s.
    assert [(one.size, one.link_bytes_per_s) for one in fabric.levels] == [(4, 450e9), (4, 12.5e9)]
    assert {one.name: one.links for one in fabric.links} == {"host": 16, "leaf-leaf": 3}


def test_thin_leaves_make_a_level_of_their_own(tmp_path: Path) -> None:
    links = [(f"gpu-{gpu}", f"leaf-{gpu // 8}", 400.0) for gpu in range(32)]
    links += [(f"leaf-{leaf}", f"spine-{up % 2}", 400.0) for leaf in range(4) for up in range(4)]
    fabric = build_fabric(saved(tmp_path, edges(*links)), sizing(32))
    # Two domains of four a leaf; eight ports down, four up: 50 GB/s below, 25 across.
    sizes = [(one.size, one.link_bytes_per_s) for one in fabric.levels]
    assert sizes == [(4, 450e9), (2, 50e9), (4, 25e9)]
    tiers = [(tier.name, tier.switches, tier.ports_used) for tier in fabric.tiers]
    assert tiers == [("leaf", 4, 48), ("spine", 2, 16)]


def test_trunks_are_counted_and_priced_at_their_own_rate(tmp_path: Path) -> None:
    links = [(f"gpu-{gpu}", f"leaf-{gpu // 8}", 400.0) for gpu in range(16)]
    links += [("leaf-0", "leaf-1", 800.0), ("leaf-0", "leaf-1", 800.0), ("leaf-0", "leaf-1", 400.0)]
    spec = saved(tmp_path, edges(*links))
    fabric = build_fabric(spec, sizing(16))
    # Eight hosts, two trunks of two ports each and a link of one: 13 ports a leaf.
    assert fabric.tiers[0].ports_used == 26
    counts = {one.name: (one.links, one.width) for one in fabric.links}
    assert counts == {"host": (16, 1), "leaf-leaf": (1, 1), "leaf-leaf 2x": (2, 2)}
    # Eight GPUs share the three links evenly, so that one of 400 Gb/s carries a third of them.
    assert fabric.levels[2].link_bytes_per_s == pytest.approx(50e9 * 3 / 8)
    books = BillBooks(
        PRICE_BOOKS.load("2026"), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    )
    items = [item.line for item in make_bill(spec, sizing(16), books).quote.items]
    modules = {item.item: item.quantity for item in items if item.category == "transceivers"}
    # 2 x 2 ends at 800, 2 x 17 at 400.
    assert modules == {f"Transceiver, multimode, {rate}G": n for rate, n in ((800, 4), (400, 34))}


def test_a_ring_is_a_ring_and_a_mesh_a_mesh(tmp_path: Path) -> None:
    for name, view in (("ring", nx.cycle_graph(12)), ("mesh", nx.complete_graph(12))):
        links = [(f"gpu-{a}", f"gpu-{b}", 200.0) for a, b in view.edges]
        fabric = build_fabric(saved(tmp_path, edges(*links), f"{name}.csv"), sizing(12))
        # Without switches every GPU stands alone.
        alone, network = fabric.levels
        assert (alone.size, network.kind, network.size) == (1, name, 12)
        assert (network.link_bytes_per_s, fabric.network) == (25e9, "direct")
        assert fabric.tiers == ()


def drawn(seed: int) -> "nx.MultiGraph[str]":
    """Leaves of 4 to 8 GPUs, joined directly or by spines, at up to three rates."""
    draw, graph = random.Random(seed), nx.MultiGraph()  # noqa: S311 - no secret
    each, rates = draw.choice([4, 6, 8]), (400, 800) if seed % 2 else (400,)
    for gpu in range(draw.randint(16, 40)):
        graph.add_edge(f"gpu-{gpu}", f"leaf-{gpu // each}", gbps=400)
    leaves = [node for node in graph if node.startswith("leaf")]
    for place, leaf in enumerate(leaves):
        for step in range(1, draw.randint(2, 4)):
            other = leaves[(place + step) % len(leaves)] if seed % 3 == 0 else f"spine-{step}"
            if other != leaf:
                graph.add_edge(leaf, other, gbps=draw.choice(rates))
        if seed % 3:
            graph.add_edge(leaf, "spine-1", gbps=draw.choice((200, 400)))
    return graph


@pytest.mark.parametrize("seed", range(6))
def test_no_link_takes_longer_than_the_model_nor_less_than_the_bound(seed: int) -> None:
    def network(_: Sizing) -> "nx.MultiGraph[str]":
        return drawn(seed)

    gpus = sum(node.startswith("gpu") for node in drawn(seed))
    asked: dict[str, Any] = {"fabric": network, "gpus": gpus, "radix": 64, "hb_size": 4}
    fixed = {"tensor": 4, "pipeline": 1} if seed % 2 else {"tensor": 2, "data": 4}
    answer = netplan.loads("rail-only-paper", **asked, model="gpt-22b", fixed=fixed)
    assert answer.collectives
    times = [(one.bound_s, one.busiest_s, one.analytic_s) for one in answer.collectives]
    times += [
        (one.bound_s, one.busiest_s, one.analytic_s)
        for one in answer.whole
        if one.busiest_s is not None and one.analytic_s is not None
    ]
    for bound_s, busiest_s, analytic_s in times:
        assert bound_s * (1 - 1e-9) <= busiest_s <= analytic_s * (1 + 1e-9)


def test_gpus_beyond_those_asked_for_are_idle_places() -> None:
    spec = FABRICS.load(str(EXAMPLE))
    fabric = build_fabric(spec, sizing(11))
    assert (fabric.switches, fabric.nic_ports, fabric.sizing.gpus) == (4, 11, 11)
    assert "The design holds 16 GPUs: 5 places are idle." in fabric.notes
    graph = expand(spec, sizing(11))
    assert (graph.gpus, graph.links_per_group()) == (
        11,
        {"hb": 11, "host": 11, "between switches": 8},
    )


def test_hb_domains_of_a_file_are_found_whatever_the_names(tmp_path: Path) -> None:
    # GPU n is in domain n % 4; the last domain has two GPUs of three.
    links = [(f"gpu-{gpu}", f"domain-{gpu % 4}/nvswitch-0", 3600.0) for gpu in range(11)]
    links += [(f"gpu-{gpu}", "leaf", 400.0) for gpu in range(11)]
    spec = saved(tmp_path, edges(*links))
    fabric = build_fabric(spec, sizing(11, hb_size=8))
    assert (fabric.sizing.hb_size, fabric.sizing.hb_bytes_per_s) == (3, 450e9)
    assert fabric.levels[1].size == 3
    names = expand(spec, sizing(11)).node_names()
    assert names[:11] == [f"gpu-{n}" for n in (0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7)]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([("gpu-0", "leaf", 400)] * 1, "holds 1 GPU, and clusters of 8 or more are planned"),
        ([(f"gpu-{n}", "leaf", 400) for n in range(24)], "24 ports in use, got radix 16: raise"),
        (
            [(f"gpu-{n}", f"x-nvswitch-{min(n // 2, 2)}", 400) for n in range(12)]
            + [(f"gpu-{n}", "leaf", 400) for n in range(12)],
            "HB domains of 2, 8 GPUs: netplan counts on one size",
        ),
        (
            [(f"gpu-{n}", f"leaf-{n // 3}", 400) for n in range(12)],
            "joins neither all GPUs nor the GPUs of equal rank",
        ),
    ],
)
def test_unfit_graphs_are_one_clear_line(
    tmp_path: Path, links: list[tuple[str, str, float]], message: str
) -> None:
    spec = saved(tmp_path, edges(*links))
    gpus = min(24, max(8, len({one for link in links for one in link if "gpu" in str(one)})))
    with pytest.raises(NetplanError, match=message) as raised:
        build_fabric(spec, sizing(gpus))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("file: /etc/hostname", "name a file beside this one"),
        ("file: ../secret.csv", "name a file beside this one"),
        ("file: link.csv", "name a file beside this one"),
        ("file: none.csv", "none.csv: cannot be read: No such file"),
        ("file: folder", "no regular file"),
        ("file: found.csv\nstamp: [1]", "unknown key stamp"),
        ("file: found.csv\nfunction: os.system", "unknown key function"),
        ("file: found.csv\nhb_kind: ring", "hb_kind means nothing for family: graph"),
        ("seed: 3", "seed needs family"),
    ],
)
def test_a_file_reaches_only_what_lies_beside_it(tmp_path: Path, key: str, message: str) -> None:
    folder = tmp_path / "inside"
    (folder / "folder").mkdir(parents=True)
    for place in (tmp_path / "secret.csv", folder / "found.csv"):
        place.write_text(edges(*[(f"gpu-{n}", "leaf", 400) for n in range(8)]))
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    path = folder / "mine.yaml"
    path.write_text(
        f"name: mine\ntitle: mine\nsource: me\ndate: '2026'\nfamily: graph\n{key}\n", "utf-8"
    )
    with pytest.raises(CatalogError, match=message):
        FABRICS.load(str(path))


def test_a_graph_family_without_a_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ntitle: mine\nsource: me\ndate: '2026'\nfamily: graph\n", "utf-8")
    with pytest.raises(InputError, match="family: graph needs a file"):
        build_fabric(FABRICS.load(str(path)), sizing(8))


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    links = [(f"gpu-{n}", "leaf", 400.0) for n in range(8)]
    assert build_fabric(saved(tmp_path, edges(*links)), sizing(8)).switches == 1
    links += [(f"gpu-{n}", "other", 400.0) for n in range(8)]
    fabric = build_fabric(saved(tmp_path, edges(*links)), sizing(8))
    assert (fabric.switches, fabric.nic_ports, fabric.levels[1].link_bytes_per_s) == (2, 16, 100e9)


DIRECTED = '<graphml><graph edgedefault="directed">{}</graph></graphml>'
NODES = "".join(f'<node id="gpu-{n}"><data key="kind">gpu</data></node>' for n in range(8))


def arrow(a: int, b: int, rate: float = 50e9) -> str:
    rated = f'<data key="bytes_per_s">{rate}</data>'
    return f'<edge source="gpu-{a}" target="gpu-{b}">{rated}</edge>'


def test_directed_edges_are_cables_where_both_ways_are_there(tmp_path: Path) -> None:
    around = [(n, (n + 1) % 8) for n in range(8)]
    both = "".join(arrow(a, b) + arrow(b, a) for a, b in around)
    spec = saved(tmp_path, DIRECTED.format(NODES + both), "both.graphml")
    fabric = build_fabric(spec, sizing(8))
    assert (fabric.link_count, fabric.levels[1].kind, fabric.nic_ports) == (8, "ring", 16)
    one_way = "".join(arrow(a, b) for a, b in around)
    with pytest.raises(CatalogError, match="from gpu-0 to gpu-1 and none back at 400 Gb/s"):
        build_fabric(saved(tmp_path, DIRECTED.format(NODES + one_way), "o.graphml"), sizing(8))
    slower = both.replace(arrow(1, 0), arrow(1, 0, 25e9))
    with pytest.raises(CatalogError, match="a cable carries both ways, so give both"):
        build_fabric(saved(tmp_path, DIRECTED.format(NODES + slower), "s.graphml"), sizing(8))


def towers(asked: Sizing) -> "nx.MultiGraph[str]":
    """Two leaves, and half as many links between them as hosts at each.

    More of it is not the title.
    """
    graph: nx.MultiGraph[str] = nx.MultiGraph()
    for gpu in range(asked.gpus):
        graph.add_node(f"gpu-{gpu}", kind="gpu")
        graph.add_edge(f"gpu-{gpu}", f"leaf-{2 * gpu // asked.gpus}")
    for _ in range(asked.gpus // 4):
        graph.add_edge("leaf-0", "leaf-1", gbps=400)
    return graph


def own(asked: Sizing) -> FabricGraph:
    return expand(FABRICS.load("rail-only"), asked)


def test_a_function_of_python_is_a_fabric_in_every_size() -> None:
    asked: dict[str, Any] = {"radix": 32, "hb_size": 4, "model": "gpt-22b"}
    chosen: dict[str, Any] = {"fabrics": (towers, "rail-only")}
    for gpus in (16, 32):
        answer = netplan.compare("rail-only-paper", gpus=gpus, **asked, **chosen)
        row = answer.rows[0]
        assert (row.name, row.title[:11], row.fabric is not None) == ("towers", "Two leaves,", True)
        # Each GPU sends half of a port's rate to the other leaf, since links between are half.
        sizes = [(one.size, one.link_bytes_per_s) for one in cast("Fabric", row.fabric).levels]
        assert sizes == [(4, 450e9), (gpus // 8, 50e9), (2, 25e9)]
    asked["fabric"] = towers
    loads = netplan.loads("rail-only-paper", gpus=16, **asked)
    assert (loads.inputs["fabric"], loads.graph.gpus) == ("towers", 16)
    rails: dict[str, Any] = {"radix": 32, "hb_size": 4, "fabric": own}
    assert netplan.cables("rail-only-paper", gpus=16, **rails).to_frame().shape[0] == 16


ASKED_FOR: list[Sizing] = []


def thin_ports(asked: Sizing) -> "nx.MultiGraph[str]":
    """Hosts of 200 Gb/s under links of a port's rate, and a random number of these."""
    ASKED_FOR.append(asked)
    graph: nx.MultiGraph[str] = nx.MultiGraph()
    for gpu in range(asked.gpus):
        graph.add_edge(f"gpu-{gpu}", f"leaf-{gpu // 4}", gbps=200)
    for up in range(random.randint(9, 99)):  # noqa: S311 - no secret
        graph.add_edge(f"leaf-{up % (asked.gpus // 4)}", "spine-0")
    return graph


def test_counts_and_links_are_of_one_graph_of_a_function() -> None:
    spec = FABRICS.load(register_fabric(thin_ports))
    fabric = build_fabric(spec, sizing(32, 256))
    graph = expand(spec, fabric.sizing)
    assert graph.links_per_group()["leaf-spine"] == fabric.links[1].links
    # Links without a rate have the 400 Gb/s that were asked for, twice those of the hosts.
    assert (fabric.sizing.network_bytes_per_s, fabric.links[1].width) == (25e9, 2)
    assert set(graph.bytes_per_s[graph.links_of("leaf-spine")]) == {50e9}
    assert len(ASKED_FOR) == 1


def text(asked: Sizing) -> str:
    return str(asked)


def test_functions_that_make_no_graph_say_so() -> None:
    spec = FABRICS.load(register_fabric(text))
    with pytest.raises(InputError, match="function text gave a str: return a networkx"):
        build_fabric(spec, sizing(8))
    with pytest.raises(InputError, match="is no text"):
        netplan.compare("rail-only-paper", gpus=16, radix=16, model=cast("str", towers))


def test_a_graph_is_routed_alike_as_a_fabric_and_as_a_file() -> None:
    graph = expand(FABRICS.load(str(EXAMPLE)), sizing(16))
    assert read_graph(EXAMPLE.with_suffix(".csv")).group_names == ("host", "between switches")
    loads = link_loads(graph, flows_matrix(16, source=[0], destination=[8], flow_bytes=[100e9]))
    # The host link carries all of it; the links between the leaves are never longer busy.
    assert loads.busiest_s == 2.0
    assert loads.link_s[:, graph.links_of("between switches")].max() <= 2.0
