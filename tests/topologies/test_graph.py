"""Graphs: as many switches and links as the counts say, every port used once, stable names."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.clos import fat_tree
from netplan.topologies.families.switched import wire_tree
from netplan.topologies.graph import GPU, HB_SWITCH, MANAGER, SWITCH, FabricGraph, connected_parts
from netplan.topologies.specs import FABRICS, FabricSpec

NAMES = tuple(FABRICS.paths())
SPECS = {name: FABRICS.load(name) for name in NAMES}


def sizing(gpus: int, radix: int = 64, hb_size: int = 1, ratio: float | None = None) -> Sizing:
    return Sizing(gpus, radix, hb_size, 450e9, 50e9, oversubscription=ratio)


def changed(name: str, **keys: object) -> FabricSpec:
    return FabricSpec.read({**SPECS[name].to_dict(), **keys})


def check(spec: FabricSpec, asked: Sizing) -> FabricGraph:
    """Expand, and hold the graph against the counts and against itself."""
    fabric = build_fabric(spec, asked)
    graph = expand(spec, asked)
    links = graph.links_per_group()
    links.pop("hb", None)
    assert links == {group.name: group.links for group in fabric.links if group.links}
    assert sum(graph.switches_per_tier().values()) == fabric.switches
    if spec.family != "dragonfly":
        assert list(graph.switches_per_tier().values()) == [t.switches for t in fabric.tiers]
    check_ports(graph, fabric.sizing.radix)
    network_ends = (graph.source, graph.target)
    own = [number for number, name in enumerate(graph.group_names) if name != "hb"]
    outside = np.isin(graph.group, own)
    on_gpus = sum(np.count_nonzero((graph.node_kind[end] == GPU) & outside) for end in network_ends)
    assert on_gpus <= fabric.nic_ports
    return graph


def check_ports(graph: FabricGraph, radix: int) -> None:
    """Every port holds one link; no switch uses more ports, or higher ones, than it has."""
    node = np.concatenate((graph.source, graph.target)).astype(np.int64)
    port = np.concatenate((graph.source_port, graph.target_port))
    assert len(np.unique(node << 16 | port)) == 2 * graph.link_count
    assert port.min(initial=0) >= 0
    on_switch = graph.node_kind[node] == SWITCH
    assert port[on_switch].max(initial=0) < radix
    assert graph.ports_used[graph.node_kind == SWITCH].max(initial=0) <= radix


@settings(deadline=None, max_examples=60)
@given(
    # Tiles have links of their own between cores, no ports of cards (test_tiles.py).
    st.sampled_from([n for n in NAMES if SPECS[n].family not in ("torus", "bcube", "tiles")]),
    st.one_of(st.integers(8, 200), st.integers(8, 5000)),
    st.sampled_from([8, 12, 16, 32, 64]),
    st.sampled_from([1, 2, 3, 4, 8, 16, 256]),
    st.sampled_from([None, 1.5, 3.0]),
)
def test_graph_agrees_with_the_counts(
    name: str, gpus: int, radix: int, hb_size: int, ratio: float | None
) -> None:
    try:
        check(SPECS[name], sizing(gpus, radix, min(gpus, hb_size), ratio))
    except InputError:
        assume(condition=False)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    st.integers(1, 8),
    st.integers(0, 5),
    st.booleans(),
)
def test_torus_graph_agrees_with_the_counts(
    sizes: tuple[int, ...],
    hb_size: int,
    block: int,
    closed: bool,  # noqa: FBT001
) -> None:
    gpus = hb_size * int(np.prod(sizes))
    assume(gpus >= 8)
    spec = changed("torus-3d", sizes=sizes, copper_block=block, wraparound=closed)
    graph = check(spec, sizing(gpus, hb_size=hb_size))
    # Every GPU has as many network ports as its coordinates have neighbours.
    if hb_size == 1 and closed:
        assert set(graph.ports_used.tolist()) == {sum(min(2, size - 1) for size in sizes)}


def test_torus_with_a_part_filled_domain_has_no_links_to_missing_gpus() -> None:
    # 27 domains of 4, the last with 1 GPU: 3 rails lack a GPU with 6 links each.
    fabric = build_fabric(SPECS["torus-3d"], sizing(105, hb_size=4))
    graph = expand(SPECS["torus-3d"], sizing(105, hb_size=4))
    network = graph.link_count - graph.links_per_group()["hb"]
    assert network == fabric.link_count == 27 * 4 * 3 - 3 * 6


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 12), st.integers(1, 3), st.sampled_from([1, 2]))
def test_bcube_graph_agrees_with_the_counts(side: int, levels: int, hb_size: int) -> None:
    assume(side**levels >= 8)
    check(changed("bcube", dimensions=levels), sizing(side**levels, 64, hb_size))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(8, 3000),
    st.sampled_from([8, 16, 64]),
    st.sampled_from(["rail-optimized", "fat-tree", "dgx-superpod"]),
    st.integers(0, 9),
    st.integers(1, 3),
)
def test_managers_and_planes_are_counted(
    gpus: int, radix: int, name: str, managers: int, planes: int
) -> None:
    spec = changed(name, management_links=managers)
    if name == "dgx-superpod":
        planes = 1
    else:
        spec = spec.changed(planes=planes)
    graph = check(spec, sizing(gpus, radix, 8))
    assert np.count_nonzero(graph.node_kind == MANAGER) == managers
    host = graph.links_of("host")
    assert np.all(np.bincount(graph.source[host], minlength=gpus)[:gpus] == planes)
    assert graph.bytes_per_s[host].sum() == pytest.approx((gpus + managers) * 50e9)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 20_000),
    st.sampled_from([4, 6, 8, 16, 64]),
    st.sampled_from([1.0, 3.0]),
    st.booleans(),
)
def test_clos_wiring_agrees_with_the_closed_form(
    endpoints: int,
    radix: int,
    ratio: float,
    even: bool,  # noqa: FBT001
) -> None:
    tree = fat_tree(endpoints, radix, oversubscription=ratio, even=even)
    wiring = wire_tree(tree)
    assert wiring.switches_per_tier == tree.counts.switches_per_tier
    assert tuple(len(stage.lower) for stage in wiring.stages) == tree.counts.links_per_tier
    ports: list[set[tuple[int, int]]] = [set() for _ in range(len(tree.tiers) + 1)]
    used = [0] * len(ports)
    for tier, stage in enumerate(wiring.stages):
        for place, node, port in (
            (tier, stage.lower, stage.lower_port),
            (tier + 1, stage.upper, stage.upper_port),
        ):
            ports[place] |= set(zip(node.tolist(), port.tolist(), strict=True))
            used[place] += len(node)
            assert place == 0 or port.max() < radix
    assert used == [len(taken) for taken in ports], "no port is used twice"
    for of, stage in zip(tree.tiers[1:], wiring.stages[1:], strict=True) if even else ():
        # All switches of a tier have as many neighbours below, and above: alike, or to some planes
        # by a link more; every switch above has as many from all that it is joined to.
        pairs = np.stack([stage.lower, stage.upper])
        joined, each = np.unique(pairs, axis=1, return_counts=True)
        assert {of.links_each} <= set(each.tolist()) <= {of.links_each, of.links_each - 1}
        assert (len(set(each.tolist())) == 1) is of.even_links
        fewest, most = (np.zeros(joined[1].max() + 1, int) for _ in range(2))
        most[joined[1]] = each
        fewest[joined[1][::-1]] = each[::-1]
        assert np.array_equal(fewest, most)
        for side in joined:
            assert len(set(np.unique(side, return_counts=True)[1].tolist())) == 1


def test_gpus_come_first_and_tiers_go_up() -> None:
    graph = expand(SPECS["rail-optimized"], sizing(2048, 16, 8))
    assert np.all(graph.node_kind[:2048] == GPU)
    assert np.all(np.diff(graph.node_kind.astype(int)) >= 0)
    assert set(graph.node_tier[graph.node_kind == HB_SWITCH].tolist()) == {-1}
    assert np.all(np.diff(graph.node_tier[graph.node_kind == SWITCH].astype(int)) >= 0)
    # A link climbs one tier, and host link i belongs to GPU i.
    network = graph.group != graph.group_names.index("hb")
    climb = graph.node_tier[graph.target] - graph.node_tier[graph.source]
    assert set(climb[network].tolist()) == {1}
    host = graph.links_of("host")
    assert np.array_equal(graph.source[host], np.arange(2048))


def test_names_and_ports_say_where_they_are() -> None:
    graph = expand(SPECS["rail-only"], sizing(1024, 32, 8))
    link = int(graph.links_of("host")[17])  # GPU 17 is rank 1 of domain 2
    leaf = int(graph.target[link])
    assert graph.node_name(leaf) == "rail-1/leaf-0"
    assert graph.target_port[link] == 2
    names = graph.node_names()
    assert len(set(names)) == graph.node_count == len(graph.names)
    assert names == [graph.node_name(i) for i in range(graph.node_count)]
    assert graph.names[1020:1025] == names[1020:1025]
    with pytest.raises(IndexError):
        graph.node_name(graph.node_count)


def test_rates_by_hand() -> None:
    # NVL72: 18 links a GPU share its 450 GB/s.
    graph = expand(SPECS["nvl72"], sizing(144, 64))
    assert graph.links_per_group()["hb"] == 144 * 18
    assert np.unique(graph.bytes_per_s[graph.links_of("hb")]).tolist() == [450e9 / 18]
    # Every switch chip of a rack reaches every GPU of it: 72 ports in use.
    assert set(graph.ports_used[graph.node_kind == HB_SWITCH].tolist()) == {72}


def test_adjacency_lists_every_link_twice() -> None:
    graph = expand(SPECS["dragonfly"], sizing(300, 16, 4))
    rows = graph.adjacency
    node = np.repeat(np.arange(graph.node_count), np.diff(rows.indptr))
    assert np.all(graph.source[rows.link] + graph.target[rows.link] == node + rows.neighbor)
    assert np.all(np.bincount(rows.link) == 2)
    # Within a node: the links that begin there, then those that end there, each in order.
    place = np.where(graph.source[rows.link] == node, rows.link, graph.link_count + rows.link)
    assert np.all(np.diff(node * 2 * graph.link_count + place) > 0)


def test_networkx_keeps_parallel_links() -> None:
    graph = expand(SPECS["fat-tree"], sizing(64, 32, 8))  # 4 leaves x 2 spines x 8 links
    view = graph.to_networkx()
    assert view.number_of_edges("leaf-0", "spine-0") == 8
    assert view.number_of_edges() == graph.link_count
    large = expand(SPECS["fat-tree"], sizing(131_072, 64, 8))
    with pytest.raises(InputError, match="too many for networkx"):
        large.to_networkx()


def test_a_mesh_too_large_for_a_graph_is_refused() -> None:
    spec = changed("dgx-1", hb_scheme=None, hb_size=4096)
    with pytest.raises(InputError, match="more than the 134,217,728"):
        expand(spec, sizing(1_048_576, 64))


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=60))
def test_components_against_a_search(nodes: int, pairs: list[tuple[int, int]]) -> None:
    links = [(a, b) for a, b in pairs if a < nodes and b < nodes]
    ends = np.array(links, np.int32).reshape(-1, 2)
    label = connected_parts(nodes, ends[:, 0], ends[:, 1]).tolist()
    for start in range(nodes):
        found = {start}
        while True:
            grown = (
                found | {b for a, b in links if a in found} | {a for a, b in links if b in found}
            )
            if grown == found:
                break
            found = grown
        assert found == {node for node in range(nodes) if label[node] == label[start]}
    assert list(dict.fromkeys(label)) == sorted(set(label))  # numbered by their lowest nodes
