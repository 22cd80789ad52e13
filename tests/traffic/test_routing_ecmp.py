"""Equal-cost multipath on any graph, and Clos trees without a graph."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import connected_parts
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic import routing_ecmp
from netplan.traffic.demand import Leg
from netplan.traffic.routing import ClosTree, _tier_loads, clos_loads, tree_of_graph
from netplan.traffic.routing_ecmp import Arcs, ecmp_loads, make_arcs
from tests.oracles.router import ecmp
from tests.traffic.clos_trees import attached, clos_tree, rail_only_tree, rail_order


def random_graph(seed: int, nodes: int = 24) -> tuple["nx.MultiGraph[int]", Arcs, np.ndarray]:
    """Connected multigraph with stubs, parallel links, and some nodes that do not forward."""
    rng = np.random.default_rng(seed)
    tree = [(int(rng.integers(0, node)), node) for node in range(1, nodes)]
    extra = [tuple(map(int, rng.choice(nodes // 2, 2, replace=False))) for _ in range(nodes)]
    edges = np.array(tree + extra)
    view: nx.MultiGraph[int] = nx.MultiGraph()
    view.add_nodes_from(range(nodes))
    for number, (a, b) in enumerate(edges.tolist()):
        view.add_edge(a, b, key=number)
    forwards = np.ones(nodes, bool)
    for node in rng.permutation(nodes)[:8]:
        rest = view.subgraph([n for n in view if forwards[n] and n != node])
        # A node may be silent if all others still meet without it.
        if nx.is_connected(rest) and all(set(view[n]) & set(rest) for n in view if n not in rest):
            forwards[node] = False
    return view, make_arcs(edges[:, 0], edges[:, 1], forwards), edges


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_any_graph_equals_plain_python(seed: int) -> None:
    view, arcs, edges = random_graph(seed)
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 24, 50)
    destination = (source + rng.integers(1, 24, 50)) % 24
    amount = rng.random(50)
    expected = np.zeros((2, len(edges)))
    route = ecmp(view, frozenset(np.flatnonzero(~arcs.forwards).tolist()))
    loads: dict[tuple[int, int], float] = dict.fromkeys(
        ((n, end) for n, ends in enumerate(edges.tolist()) for end in ends), 0.0
    )
    for flow in zip(source.tolist(), destination.tolist(), amount.tolist(), strict=True):
        route(flow, loads)
    for (link, sender), load in loads.items():
        expected[0 if edges[link, 0] == sender else 1, link] += load
    found = ecmp_loads(arcs, source, destination, amount).reshape(2, -1)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_small_batches_give_the_same_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    _, arcs, _ = random_graph(7)
    source, destination = np.divmod(np.flatnonzero(~np.eye(24, dtype=bool)), 24)
    amount = np.random.default_rng(0).random(len(source))
    whole = ecmp_loads(arcs, source, destination, amount)
    monkeypatch.setattr(routing_ecmp, "BATCH_FLOWS", 30)
    np.testing.assert_allclose(ecmp_loads(arcs, source, destination, amount), whole)


@pytest.mark.parametrize("cells", [0, 1 << 20])
def test_searches_share_words_but_no_bits(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """150 destinations are three words, or three batches of one; parts of a graph share bits."""
    monkeypatch.setattr(routing_ecmp, "BATCH_CELLS", cells)
    nodes, copies = 150, 3
    rng = np.random.default_rng(1)
    view = nx.random_regular_graph(4, nodes, seed=1)
    edges = np.array(view.edges())
    source, destination = np.divmod(np.flatnonzero(~np.eye(nodes, dtype=bool)), nodes)
    alone = make_arcs(edges[:, 0], edges[:, 1], np.ones(nodes, bool))
    amount = rng.random((copies, len(source)))
    # Each destination by itself is a search of one bit.
    expected = sum(
        ecmp_loads(alone, source[to], destination[to], amount[0, to])
        for to in (destination == node for node in range(nodes))
    )
    np.testing.assert_allclose(ecmp_loads(alone, source, destination, amount[0]), expected)
    parts = np.arange(copies)[:, None] * nodes
    ends = [(edges[:, end] + parts).ravel() for end in (0, 1)]
    together = make_arcs(ends[0], ends[1], np.ones(copies * nodes, bool))
    pairs = (source + parts).ravel(), (destination + parts).ravel()
    loads = ecmp_loads(together, *pairs, amount.ravel())
    for found, own in zip(loads.reshape(2, copies, -1).swapaxes(0, 1), amount, strict=True):
        np.testing.assert_allclose(found.ravel(), ecmp_loads(alone, source, destination, own))


def test_switches_split_per_next_hop_and_not_per_path() -> None:
    """0 to 5 by way of 1, or of 2 and then 3 or 4: half a next hop, not a third a path.

    ::

        0 - 1 - 6 - 5      one path of 3 hops
        0 - 2 - 3 - 5      two more
            2 - 4 - 5
    """
    edges = np.array([(0, 1), (1, 6), (6, 5), (0, 2), (2, 3), (3, 5), (2, 4), (4, 5)])
    arcs = make_arcs(edges[:, 0], edges[:, 1], np.ones(7, bool))
    loads = ecmp_loads(arcs, np.array([0]), np.array([5]), np.array([12.0]))
    assert loads[:8].tolist() == [6, 6, 6, 6, 3, 3, 3, 3]


def test_hashed_flows_keep_their_size_and_average_to_the_even_split() -> None:
    """2,000 seeds: each link's mean load is within 6 standard errors of the fluid one."""
    _, arcs, edges = random_graph(3)
    source, destination = np.array([20, 5, 11]), np.array([1, 18, 2])
    amount = np.array([3.0, 5.0, 7.0])
    fluid = ecmp_loads(arcs, source, destination, amount)
    runs = 2000
    copies = [np.tile(values, runs) for values in (source, destination, amount)]
    hashed = ecmp_loads(arcs, copies[0], copies[1], copies[2], np.random.default_rng(0)) / runs
    # A flow of at most 7 is on a link or not: standard deviation at most 3.5 x 3 flows.
    np.testing.assert_allclose(hashed, fluid, atol=6 * 3.5 * 3 / np.sqrt(runs))
    one = ecmp_loads(arcs, source, destination, amount, np.random.default_rng(1))
    assert set(np.unique(one)) <= {0.0, 3.0, 5.0, 7.0, 8.0, 10.0, 12.0, 15.0}
    assert len(edges) * 2 == len(one)


def test_missing_paths_are_named() -> None:
    edges = np.array([(0, 1), (2, 3)])
    arcs = make_arcs(edges[:, 0], edges[:, 1], np.ones(4, bool))
    flow = np.array([0]), np.array([3]), np.array([1.0])
    with pytest.raises(InputError, match="no path leads from node 0 to node 3"):
        ecmp_loads(arcs, *flow)
    line = np.array([(0, 1), (1, 2), (2, 3), (0, 1)])
    silent = make_arcs(line[:, 0], line[:, 1], np.array([True, False, True, True]))
    with pytest.raises(InputError, match="through nodes that forward"):
        ecmp_loads(silent, *flow)


def same_shape(first: ClosTree, second: ClosTree) -> bool:
    return all(
        np.array_equal(a, b)
        for a, b in zip(
            (*first.parents, *first.links_above),
            (*second.parents, *second.links_above),
            strict=True,
        )
    )


@pytest.mark.parametrize("gpus", [8, 12, 31, 32, 40, 64, 100, 128, 200, 512])
@pytest.mark.parametrize("name", ["fat-tree", "rail-optimized", "rail-only"])
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_trees_without_a_graph_equal_those_of_the_graph(name: str, gpus: int, ratio: float) -> None:
    gpus -= gpus % 4 if name == "rail-only" else 0
    spec = FabricSpec.read(FABRICS.load(name).to_dict())
    spec = spec.changed(shared_rails=False) if name == "rail-only" else spec
    graph = expand(spec, Sizing(gpus, 8, 4, 400e9, 50e9, oversubscription=ratio))
    links = np.flatnonzero(graph.group != graph.group_names.index("hb"))
    read = tree_of_graph(graph, links)
    assert read is not None
    if name == "rail-only":
        made = rail_only_tree(gpus, 8, 4, oversubscription=ratio)
    else:
        made = clos_tree(gpus, 8, oversubscription=ratio)
        if name == "rail-optimized":
            made = attached(made, rail_order(gpus, 4))
    if name == "rail-only" and gpus // 4 <= 4:
        # Two small rails share a switch in the graph; in the tree each has its own.
        assert len(made.parents) == len(read.parents) == 1
    else:
        assert same_shape(made, read)


def test_a_million_gpus_need_no_graph() -> None:
    """1,048,576 GPUs on radix 128, a ring around all: by hand from the leaf size of 64.

    Host links carry 1 each way. One flow leaves every leaf and one enters, over 64 uplinks.
    """
    gpus = 1 << 20
    tree = clos_tree(gpus, 128)
    ring = np.arange(gpus, dtype=np.int32)
    tiers = _tier_loads(tree, Leg(ring, np.roll(ring, -1), np.ones(gpus)))
    assert [len(above) for above in tree.links_above] == [1 << 20, 1 << 14, 1 << 8, 1 << 2]
    for both, above, links in zip(tiers, tree.links_above, (1, 64, 64**2, 64**3), strict=True):
        assert np.all(np.stack(both) == 1)
        assert np.all(above == links)


@pytest.mark.parametrize(
    ("name", "gpus", "radix"),
    [
        ("fat-tree", 84, 16),  # 11 leaves, 8 uplinks to 8 spines; rails share what they can
        ("fat-tree", 152, 16),
        ("rail-optimized", 336, 32),  # 21 leaves of 16 uplinks, a link to each spine
        ("rail-optimized", 272, 16),  # three tiers
        ("rail-only", 152, 16),
        ("uneven-clos", 300, 16),
    ],
)
def test_uneven_trunks_carry_their_shares(name: str, gpus: int, radix: int) -> None:
    """The closed form against the search over the graph, and no link above the rate of a host."""
    graph = expand(FABRICS.load(name), Sizing(gpus, radix, 4, 400e9, 50e9))
    links = np.flatnonzero(graph.group != graph.group_names.index("hb"))
    tree = tree_of_graph(graph, links)
    assert tree is not None
    source, destination = np.divmod(np.arange(gpus * gpus, dtype=np.int32), np.int32(gpus))
    network = graph.source[links], graph.target[links]
    joined = connected_parts(graph.node_count, *network)
    kept = (source != destination) & (joined[source] == joined[destination])
    source, destination = source[kept], destination[kept]
    sent = np.ones(len(source))
    loads = clos_loads(tree, Leg(source, destination, sent), graph.link_count)
    arcs = make_arcs(graph.source, graph.target, np.arange(graph.node_count) >= gpus, links)
    searched = ecmp_loads(arcs, source, destination, sent).reshape(2, -1)
    np.testing.assert_allclose(loads, searched, rtol=1e-9)
    assert loads.max() <= np.bincount(source).max() * (1 + 1e-9)
