"""Wirings against what others say of them: max-flow, networkx, and published designs."""

from itertools import combinations, pairwise
from math import comb

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.arrays import ceil_div
from netplan.errors import CatalogError, InputError
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.dragonfly import dragonfly_shape, slot
from netplan.topologies.graph import GPU, FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec


def sizing(gpus: int, radix: int = 64, hb_size: int = 1, ratio: float | None = None) -> Sizing:
    return Sizing(gpus, radix, hb_size, 450e9, 50e9, oversubscription=ratio)


def changed(name: str, **keys: object) -> FabricSpec:
    return FabricSpec.read({**FABRICS.load(name).to_dict(), **keys})


def max_flow(graph: FabricGraph, left: list[int], right: list[int]) -> float:
    """Most bytes a second from some GPUs to others, without the links inside HB domains [B/s]."""
    net = nx.DiGraph()
    for link in np.flatnonzero(graph.group != -1).tolist():
        if graph.group_names[graph.group[link]] == "hb":
            continue
        a, b = int(graph.source[link]), int(graph.target[link])
        rate = float(graph.bytes_per_s[link])
        for u, v in ((a, b), (b, a)):
            before = net.edges[u, v]["capacity"] if net.has_edge(u, v) else 0.0
            net.add_edge(u, v, capacity=before + rate)
    net.add_edges_from(("from", gpu) for gpu in left)
    net.add_edges_from((gpu, "to") for gpu in right)
    return float(nx.maximum_flow_value(net, "from", "to"))


@pytest.mark.parametrize("name", ["fat-tree", "rail-optimized"])
@pytest.mark.parametrize(
    ("gpus", "radix"), [(16, 8), (32, 8), (24, 8), (128, 8), (100, 8), (40, 12), (300, 8)]
)
def test_a_clos_is_not_blocking(name: str, gpus: int, radix: int) -> None:
    graph = expand(FABRICS.load(name), sizing(gpus, radix, 4))
    half = gpus // 2
    rng = np.random.default_rng(gpus)
    for order in (np.arange(gpus), rng.permutation(gpus)):
        ends = order[:half].tolist(), order[half : 2 * half].tolist()
        assert max_flow(graph, *ends) == pytest.approx(half * 50e9)


def test_oversubscription_is_what_max_flow_finds() -> None:
    # Radix 8 at 3:1 has 6 ports down and 2 up: 36 GPUs under 6 leaves, half of them with 3 x 2
    # uplinks between the halves.
    graph = expand(FABRICS.load("fat-tree"), sizing(36, 8, 1, 3.0))
    flow = max_flow(graph, list(range(18)), list(range(18, 36)))
    assert flow == pytest.approx(3 * 2 * 50e9)


def test_planes_share_the_bandwidth() -> None:
    graph = expand(changed("fat-tree", planes=2), sizing(64, 8, 1))
    assert set(graph.bytes_per_s.tolist()) == {25e9}
    flow = max_flow(graph, list(range(32)), list(range(32, 64)))
    assert flow == pytest.approx(32 * 50e9)


@pytest.mark.parametrize(("gpus", "radix", "switches"), [(1024, 32, 96), (4096, 64, 192)])
def test_dual_plane_against_published_totals(gpus: int, radix: int, switches: int) -> None:
    # ATOP (SIGCOMM 2025), App. L Table 7: non-blocking dual-plane variants of HPN.
    fabric = build_fabric(changed("rail-optimized", planes=2), sizing(gpus, radix, 8))
    assert fabric.switches == switches


@pytest.mark.parametrize("gpus", [512, 640, 1000, 4096])
def test_rail_wiring_keeps_rails_together(gpus: int) -> None:
    graph = expand(FABRICS.load("rail-optimized"), sizing(gpus, 32, 8))
    host = graph.links_of("host")
    leaf, rank = graph.target[host], np.arange(gpus) % 8
    per_leaf = int(np.bincount(leaf - leaf.min()).max())
    for rail in range(8):
        fewest = ceil_div(int(np.count_nonzero(rank == rail)), per_leaf)
        # One more than the fewest where a rail begins in the middle of a leaf.
        assert len(np.unique(leaf[rank == rail])) <= fewest + 1
    if gpus in (512, 4096):  # rails fill their leaves: each leaf serves one rail
        names = {graph.node_name(int(i)) for i in leaf[rank == 3]}
        assert all(name.startswith("rail-3/") for name in names)


def test_fat_tree_wiring_keeps_neighbours_together() -> None:
    graph = expand(FABRICS.load("fat-tree"), sizing(512, 32, 8))
    leaf = graph.target[graph.links_of("host")]
    assert np.array_equal(leaf - leaf[0], np.arange(512) // 16)


def test_scalable_units_give_each_rail_its_leaf() -> None:
    graph = expand(FABRICS.load("dgx-superpod"), sizing(504, 64))
    for gpu in (0, 7, 8 * 31 + 5, 8 * 32 + 5):
        leaf = int(graph.target[graph.links_of("host")[gpu]])
        unit, rail = gpu // 8 // 32, gpu % 8
        assert graph.node_name(leaf) == f"unit-{unit}/leaf-{rail}"


def test_rail_only_has_no_path_between_rails() -> None:
    for gpus, radix in ((1024, 32), (1024, 256), (1020, 32)):
        graph = expand(FABRICS.load("rail-only"), sizing(gpus, radix, 8))
        if radix == 256:  # two rails a switch: a switch joins no others
            assert len(graph.links_of("leaf-spine")) == 0
            continue
        view = graph.to_networkx()
        view.remove_nodes_from([n for n in view if "nvswitch" in n])
        parts = list(nx.connected_components(view))
        assert len(parts) == 8
        for part in parts:
            ranks = {int(n.split("-")[1]) % 8 for n in part if n.startswith("gpu-")}
            assert len(ranks) == 1


def test_hybrid_cube_mesh_has_six_links_a_gpu() -> None:
    graph = expand(FABRICS.load("dgx-1"), sizing(16, 64))
    links = graph.links_of("hb")
    assert len(links) == 2 * 8 * 6 // 2
    ends = np.concatenate((graph.source[links], graph.target[links]))
    assert np.bincount(ends).tolist() == [6] * 16
    view = nx.Graph(zip(graph.source[links].tolist(), graph.target[links].tolist(), strict=True))
    assert nx.number_connected_components(view) == 2
    # Sixteen pairs are joined: two quads of 6, and 4 across; the farthest GPUs are 2 apart.
    assert view.subgraph(range(8)).number_of_edges() == 16
    assert nx.diameter(view.subgraph(range(8))) == 2


def test_mesh_domains_join_every_pair_once() -> None:
    graph = expand(changed("dgx-1", hb_scheme=None, hb_size=5), sizing(12, 64))
    links = graph.links_of("hb")
    pairs = set(zip(graph.source[links].tolist(), graph.target[links].tolist(), strict=True))
    expected = [c for d in ((0, 5), (5, 10), (10, 12)) for c in combinations(range(*d), 2)]
    assert pairs == set(expected)
    assert len(links) == len(expected)


@pytest.mark.parametrize("sizes", [(4, 3, 5), (6, 2), (2, 2, 2, 2), (8,), (3, 1, 4)])
@pytest.mark.parametrize("rings", ["closed", "open"])
def test_torus_is_networkx_grid(sizes: tuple[int, ...], rings: str) -> None:
    closed = rings == "closed"
    spec = changed("torus-3d", sizes=sizes, wraparound=closed)
    graph = expand(spec, sizing(int(np.prod(sizes))))

    def place(gpu: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(gpu, sizes, order="F"))

    edges = sorted(
        tuple(sorted((place(a), place(b))))
        for a, b in zip(graph.source.tolist(), graph.target.tolist(), strict=True)
    )
    # networkx numbers from the last dimension; for sizes of 2 its two ways round are one edge.
    grid = nx.grid_graph(sizes[::-1], periodic=closed)
    expected = sorted(
        tuple(sorted((a, b))) if len(sizes) > 1 else tuple(sorted(((a,), (b,))))
        for a, b in grid.edges
        if a != b
    )
    assert edges == expected


def test_tpu_v4_cubes_have_96_optical_links() -> None:
    # Jouppi et al., TPU v4 (ISCA 2023): 64 cubes of 4 x 4 x 4 chips, 96 optical links a cube. Each
    # link between cubes is two fibres, one from either cube.
    graph = expand(FABRICS.load("torus-3d"), sizing(4096))
    between = [len(graph.links_of(f"ring {axis} optical")) for axis in (1, 2, 3)]
    assert 2 * sum(between) == 64 * 96


@pytest.mark.parametrize("arrangement", ["absolute", "relative", "circulant"])
@pytest.mark.parametrize(
    ("gpus", "radix", "hb_size"), [(1056, 15 + 1, 4), (264, 16, 1), (72, 8, 1)]
)
def test_dragonfly_joins_switches_and_groups(
    arrangement: str, gpus: int, radix: int, hb_size: int
) -> None:
    spec = changed("dragonfly", global_arrangement=arrangement)
    shape = dragonfly_shape(spec, sizing(gpus, radix))
    graph = expand(spec, sizing(gpus, radix, hb_size))
    first = int(graph.node_count - shape.switches)
    local, far = graph.links_of("local"), graph.links_of("global")
    group = np.searchsorted(shape.starts, np.arange(graph.node_count) - first, "right") - 1
    assert np.array_equal(group[graph.source[local]], group[graph.target[local]])
    pairs = set(zip(graph.source[local].tolist(), graph.target[local].tolist(), strict=True))
    assert len(pairs) == len(local) == sum(comb(int(size), 2) for size in np.diff(shape.starts))
    ends = group[graph.source[far]], group[graph.target[far]]
    counts = np.zeros((shape.groups, shape.groups), int)
    np.add.at(counts, ends, 1)
    upper = np.triu_indices(shape.groups, 1)
    assert np.all(counts[upper] == shape.links_per_pair)
    # Global links are spread evenly over the switches of a group.
    used = np.bincount(np.concatenate((graph.source[far], graph.target[far])))[first:]
    for start, end in pairwise(shape.starts.tolist()):
        assert used[start:end].max() - used[start:end].min() <= 1
    assert used.max() <= shape.global_links_per_switch


@given(st.sampled_from(["absolute", "relative", "circulant"]), st.integers(2, 40))
def test_arrangements_use_every_slot_once(arrangement: str, groups: int) -> None:
    everyone = np.arange(groups)
    for group in range(groups):
        peers = everyone[everyone != group]
        used = slot(arrangement, groups, np.array(group), peers)  # type: ignore[arg-type]
        assert sorted(used.tolist()) == list(range(groups - 1))


def test_frontier_has_its_published_bandwidth_and_taper() -> None:
    # Atchley et al. (SC 2023): 74 compute groups of 32 switches with 16 ports, four 200 Gb/s links
    # a pair; 270 TB/s of global bandwidth in each direction, tapered to 57 %.
    spec = FABRICS.load("frontier")
    asked = Sizing(74 * 32 * 16, 64, 4, 100e9, 25e9)
    shape = dragonfly_shape(spec, asked)
    graph = expand(spec, asked)
    far = graph.links_of("global")
    assert len(far) == 4 * comb(74, 2) == 10_804
    assert graph.bytes_per_s[far].sum() == pytest.approx(270.1e12)
    assert round(shape.taper, 2) == 0.57
    assert graph.gpus == 37_888  # 9,472 nodes of 4 ports
    # 73 x 4 links a group on 32 switches: 9 or 10 each.
    ends = np.bincount(np.concatenate((graph.source[far], graph.target[far])))
    assert set(ends[ends > 0].tolist()) == {9, 10}


@pytest.mark.parametrize(
    ("keys", "asked", "message"),
    [
        ({"groups": 4}, sizing(2049, 64), "4 groups hold 2,048 GPUs, got 2,049"),
        ({"links_per_pair": 9}, sizing(37_888, 64), "need 657 global ports, a group has 544"),
        ({"global_links_per_switch": 20}, sizing(64, 64), "needs 67 ports, got radix 64"),
    ],
)
def test_dragonflies_that_cannot_be(keys: dict[str, int], asked: Sizing, message: str) -> None:
    with pytest.raises(InputError, match=message):
        expand(changed("frontier", **keys), asked)


@pytest.mark.parametrize(
    "keys",
    [
        "hb_scheme: hybrid-cube-mesh\n",
        "hb_kind: mesh\nhb_planes: 2\n",
        "family: dragonfly\ngroups: 3\n",
        "family: torus\nplanes: 2\n",
    ],
)
def test_keys_that_mean_nothing_alone_are_refused(keys: str, tmp_path: object) -> None:
    path = tmp_path / "odd.yaml"  # type: ignore[operator]
    family = "" if "family" in keys else "family: clos\n"
    path.write_text(f"name: odd\ntitle: Odd\nsource: none\ndate: '2025'\n{family}{keys}")
    with pytest.raises(CatalogError, match=r"needs? |need |means nothing"):
        FABRICS.load(str(path))


def test_bcube_joins_gpus_that_differ_in_one_digit() -> None:
    graph = expand(changed("bcube", dimensions=3), sizing(64, 16))
    first = 64

    def digits(gpu: int) -> tuple[int, int, int]:
        return gpu % 4, gpu // 4 % 4, gpu // 16

    under: dict[int, list[int]] = {}
    for gpu, switch in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        under.setdefault(switch, []).append(gpu)
    assert len(under) == 3 * 16
    for switch, gpus in under.items():
        level = (switch - first) // 16
        assert len(gpus) == 4
        rest = {tuple(d for i, d in enumerate(digits(g)) if i != level) for g in gpus}
        assert len(rest) == 1
    assert np.all(graph.node_kind[:64] == GPU)
    # 50 of 64 places: 13 switches of 4 at level 0, 3 x 4 + 2 above them, 16 at the top.
    part = expand(changed("bcube", dimensions=3), sizing(50, 16))
    assert part.node_count == 50 + 13 + 14 + 16
    assert part.links_per_group() == {"level 0": 50, "level 1": 50, "level 2": 50}
    with pytest.raises(InputError, match="need switches of 32 ports"):
        expand(changed("bcube", dimensions=2), sizing(1024, 16))
