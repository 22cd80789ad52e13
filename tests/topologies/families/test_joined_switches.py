"""Networks of switches joined directly: published counts, networkx, closed forms, three faces."""

from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.questions.compare import compare
from netplan.questions.grow import grow
from netplan.questions.loads import loads
from netplan.questions.simulate import simulate
from netplan.records import replace
from netplan.scenarios.scenario import Scenario
from netplan.topologies.assembly import NameBlock
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.jellyfish import random_links
from netplan.topologies.families.joined_switches import (
    BETWEEN_SWITCHES,
    UNEVEN,
    SwitchGraph,
    SwitchLinks,
    cut_switches,
    switch_graph,
    uniform_share,
)
from netplan.topologies.families.regular import mean_distance
from netplan.topologies.families.slim_fly import is_order, network_degree
from netplan.topologies.families.spreading import SwitchMesh
from netplan.topologies.specs import FABRICS, FabricSpec
from tests.topologies.kinds import JOINED
from tests.topologies.test_graph import check


def sizing(gpus: int, radix: int = 64, hb_size: int = 1) -> Sizing:
    return Sizing(gpus, radix, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)


def spec(name: str, **keys: object) -> FabricSpec:
    return FABRICS.load(name).changed(**keys)


def network(name: str, gpus: int, radix: int = 64, **keys: object) -> SwitchGraph:
    return switch_graph(spec(name, **keys), sizing(gpus, radix))


def ends(graph: SwitchGraph) -> list[tuple[int, int]]:
    return [
        pair
        for one in graph.links
        for pair in zip(one.source.tolist(), one.target.tolist(), strict=True)
    ]


def matrix(graph: SwitchGraph) -> csr_array:
    view = nx.Graph(ends(graph))
    return csr_array(nx.to_scipy_sparse_array(view, range(graph.switches), dtype=np.float32))


def test_slim_fly_of_five_is_the_graph_of_hoffman_and_singleton() -> None:
    graph = network("slim-fly", 200, order=5)
    assert (graph.switches, graph.hosts) == (50, 4)
    # The one graph of degree 7 and diameter 2 with 1 + 7 + 42 nodes: A^2 + A - 6 I = J.
    joined = matrix(graph).toarray()
    assert np.array_equal(joined @ joined + joined - 6 * np.eye(50), np.ones((50, 50)))


@pytest.mark.parametrize(
    ("order", "degree", "hosts"),
    # Besta and Hoefler (SC 2014): q = 5, 7, 11, 13, 17, 19, 43; 2^3, 3^2, 2^4, 5^2, 3^3 besides.
    [(3, 5, 3), (4, 6, 3), (5, 7, 4), (7, 11, 6), (8, 12, 6), (9, 13, 7), (11, 17, 9), (13, 19, 10),
     (16, 24, 12), (17, 25, 13), (19, 29, 15), (25, 37, 19), (27, 41, 21), (43, 65, 33)],
)  # fmt: skip
def test_slim_flies_have_two_hops(order: int, degree: int, hosts: int) -> None:
    switches = 2 * order**2
    graph = network("slim-fly", switches * hosts, 128, order=order)
    assert (graph.switches, graph.hosts, graph.capacity) == (switches, hosts, switches * hosts)
    assert set(graph.degrees().tolist()) == {degree} == {network_degree(order)}
    joined = matrix(graph)
    assert joined.nnz == switches * degree  # no link twice, none from a switch to itself
    # (s, x, y) -> (s, x, y + a) maps the graph to itself: the first of each group stands for all.
    first = joined[np.arange(0, switches, order)]
    near = (first @ joined).toarray() + first.toarray()
    near[np.arange(2 * order), np.arange(0, switches, order)] = 1
    assert near.all()


def test_slim_fly_takes_the_smallest_order_and_says_the_nearest() -> None:
    # q = 9 holds 162 x 7 = 1,134; q = 8 only 128 x 6 = 768.
    graph = network("slim-fly", 1000)
    assert (graph.switches, graph.hosts) == (162, 7)
    # Radix 16: q = 7 has 11 links, and 5 ports for hosts; 98 x 3 are 294.
    assert (network("slim-fly", 256, 16).switches, network("slim-fly", 256, 16).hosts) == (98, 3)
    with pytest.raises(InputError, match=r"power of a prime, 3 or more, got 6: .* works is 7"):
        network("slim-fly", 100, order=6)
    with pytest.raises(InputError, match="order 5 with 4 hosts a switch holds 200 GPUs, got 201"):
        network("slim-fly", 201, order=5)
    with pytest.raises(InputError, match="radix 16 holds at most 512 GPUs, got 600"):
        # q = 8: 128 x 4 = 512; q = 9: 162 x 3 = 486; q = 7: 98 x 5 = 490.
        network("slim-fly", 600, 16)
    primes = [q for q in range(3, 200) if len(_factors(q)) == 1]
    assert [q for q in range(1, 200) if is_order(q)] == primes


def _factors(number: int) -> set[int]:
    return {one for one in range(2, number + 1) if number % one == 0 and not _divided(one)}


def _divided(number: int) -> bool:
    return any(number % one == 0 for one in range(2, number))


@pytest.mark.parametrize("sizes", [(5,), (4, 3), (3, 3, 2), (2, 2, 2, 2)])
def test_hyperx_is_a_product_of_complete_graphs(sizes: tuple[int, ...]) -> None:
    view = nx.complete_graph(sizes[0])
    for size in sizes[1:]:
        view = nx.cartesian_product(view, nx.complete_graph(size))
    graph = network("hyperx", 2 * len(view), sizes=sizes, hosts_per_switch=2)
    number = {node: at for at, node in enumerate(sorted(view, key=_flat))}
    expected = {frozenset((number[a], number[b])) for a, b in view.edges}
    assert len(ends(graph)) == len(expected)
    assert {frozenset(pair) for pair in ends(graph)} == expected
    assert nx.diameter(nx.Graph(ends(graph))) == len(sizes)


def _flat(node: object) -> tuple[int, ...]:
    return (*_flat(node[0]), node[1]) if isinstance(node, tuple) else (int(str(node)),)


def test_hyperx_takes_the_fewest_switches_at_the_whole_rate() -> None:
    # Radix 32, 1,452 GPUs: 11 hosts and 11 + 10 links to 12 x 11 switches, every port in use.
    graph = network("hyperx", 1452, 32)
    assert (graph.switches, graph.hosts, set(graph.degrees().tolist())) == (132, 11, {21})
    assert uniform_share(graph, 1452) == 1
    # A full mesh is enough for 16 x 16 hosts; one switch for 32.
    assert (network("hyperx", 256, 32).switches, network("hyperx", 256, 32).hosts) == (16, 16)
    assert network("hyperx", 32, 32).switches == 1
    with pytest.raises(InputError, match="2 dimensions and radix 32 hold at most 1,452 GPUs"):
        network("hyperx", 1453, 32, dimensions=2)
    with pytest.raises(InputError, match=r"4 x 4 switches of 4 hosts hold 64 GPUs, got 65"):
        network("hyperx", 65, sizes=(4, 4), hosts_per_switch=4)
    with pytest.raises(InputError, match="a switch needs 10 ports, got radix 8"):
        network("hyperx", 64, 8, sizes=(4, 4), hosts_per_switch=4)
    with pytest.raises(InputError, match="a switch needs 1000000000016 ports, got radix 32"):
        network("dragonfly-plus", 64, 32, spines_per_group=10**12)


def test_planes_are_whole_networks() -> None:
    one = build_fabric(spec("hyperx"), sizing(1024, 128))
    two = build_fabric(spec("hyperx", planes=2), sizing(1024, 64))
    assert (two.switches, two.link_count) == (2 * one.switches, 2 * one.link_count)
    assert (two.nic_ports, two.gpu_bytes_per_s) == (2048, one.gpu_bytes_per_s)
    for name in JOINED:
        check(spec(name, planes=2), sizing(300, 16, 8))


@pytest.mark.parametrize(("switches", "degree"), [(100, 3), (50, 20), (40, 30), (12, 11), (60, 29)])
def test_jellyfish_is_regular_and_simple(switches: int, degree: int) -> None:
    for seed in range(3):
        low, high = random_links(switches, degree, seed)
        view = nx.Graph(zip(low.tolist(), high.tolist(), strict=True))
        assert len(low) == view.number_of_edges() == switches * degree // 2
        assert {each for _, each in view.degree} == {degree}
        assert nx.number_of_selfloops(view) == 0
        assert nx.is_connected(view)
    if degree < switches - 1:
        assert not np.array_equal(random_links(switches, degree, 1)[1], high)


@pytest.mark.parametrize(("switches", "degree"), [(400, 10), (300, 6), (200, 40)])
def test_jellyfish_paths_are_those_of_random_graphs(switches: int, degree: int) -> None:
    low, high = random_links(switches, degree, 7)
    own = nx.Graph(zip(low.tolist(), high.tolist(), strict=True))
    other = nx.random_regular_graph(degree, switches, seed=7)
    length = nx.average_shortest_path_length(own)
    assert length == pytest.approx(nx.average_shortest_path_length(other), rel=0.01)
    assert length == pytest.approx(mean_distance(switches, degree), rel=0.02)


def test_jellyfish_refuses_what_cannot_be() -> None:
    with pytest.raises(InputError, match=r"65 ends, which is odd: .* 14 switches, or degree 4"):
        network("jellyfish", 13, switches=13, degree=5, hosts_per_switch=1)
    with pytest.raises(InputError, match="8 switches have at most 7 links each"):
        network("jellyfish", 16, switches=8, degree=9, hosts_per_switch=2)
    with pytest.raises(InputError, match="degree 2 does not hang together"):
        network("jellyfish", 100, degree=2, hosts_per_switch=2)
    with pytest.raises(InputError, match="holds at most 20 GPUs"):
        network("jellyfish", 21, switches=10, degree=4, hosts_per_switch=2)


def test_dragonfly_plus_joins_all_groups_alike() -> None:
    # Radix 8: 4 leaves of 4 hosts and 16 global ports a group: 17 groups, 272 hosts at the most.
    graph = network("dragonfly-plus", 272, 8)
    assert (graph.switches, graph.capacity) == (17 * 8, 272)
    assert set(graph.degrees().tolist()) == {4, 8}
    for gpus in (272, 100, 33):
        graph = network("dragonfly-plus", gpus, 8)
        groups = graph.tiers[1][1].shape[0]
        group = graph.links[1].source - graph.host_switches, graph.links[1].target
        pairs = group[0] // 4, (group[1] - graph.host_switches) // 4
        counted = np.zeros((groups, groups), int)
        np.add.at(counted, pairs, 1)
        copies = 16 // (groups - 1)
        assert all(counted[a, b] == copies for a, b in combinations(range(groups), 2))
        ends = np.concatenate((graph.links[1].source, graph.links[1].target), dtype=np.int64)
        spread = np.bincount(ends - graph.host_switches)
        assert spread.max() - spread.min() <= 1
    with pytest.raises(InputError, match="17 groups of 16 hosts hold 272 GPUs, got 273"):
        network("dragonfly-plus", 273, 8)


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(JOINED),
    st.integers(8, 1500),
    st.sampled_from([8, 12, 16, 32, 64]),
    st.sampled_from([1, 3, 8, 72]),
)
def test_three_faces_agree(name: str, gpus: int, radix: int, hb_size: int) -> None:
    asked = sizing(gpus, radix, min(gpus, hb_size))
    try:
        fabric = build_fabric(spec(name), asked)
    except InputError:
        assume(condition=False)
    check(spec(name), asked)
    assert fabric.exact
    graph = switch_graph(spec(name), asked)
    idle = graph.capacity - gpus
    assert idle >= 0
    assert any(f"{idle:,} place" in note for note in fabric.notes) == (idle > 0)
    assert np.prod([one.size for one in fabric.levels]) == gpus // asked.hb_size * asked.hb_size
    for tier in fabric.levels[-1].tiers:
        assert tier.links / (tier.held or graph.hosts) > 0.25


def brute_hops(graph: SwitchGraph) -> Floats:
    """Hops over each group, from all shortest paths one by one."""
    view = nx.MultiGraph()
    for number, one in enumerate(graph.links):
        for a, b in zip(one.source.tolist(), one.target.tolist(), strict=True):
            view.add_edge(a, b, group=number)
    found = np.zeros(len(graph.links))
    for a, b in combinations(range(graph.host_switches), 2):
        paths = list(nx.all_shortest_paths(view, a, b))
        weights = [
            np.prod([view.number_of_edges(*step) for step in pairwise(path)]) for path in paths
        ]
        for path, weight in zip(paths, weights, strict=True):
            for step in pairwise(path):
                groups = [edge["group"] for edge in view[step[0]][step[1]].values()]
                for group in groups:
                    found[group] += weight / sum(weights) / len(groups)
    return found / (graph.host_switches * (graph.host_switches - 1) / 2)


@pytest.mark.parametrize(
    ("name", "gpus", "radix"),
    [("hyperx", 90, 10), ("jellyfish", 60, 8), ("dragonfly-plus", 40, 8), ("slim-fly", 60, 12)],
)
def test_hops_are_those_of_all_shortest_paths(name: str, gpus: int, radix: int) -> None:
    graph = network(name, gpus, radix)
    assert graph.hops() == pytest.approx(brute_hops(graph))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=14))
def test_cut_switches_against_networkx(pairs: list[tuple[int, int]]) -> None:
    view = nx.Graph([(0, 1), *(pair for pair in pairs if pair[0] != pair[1])])
    view = view.subgraph(nx.node_connected_component(view, 0))
    names = {node: at for at, node in enumerate([0, *sorted(set(view) - {0})])}
    low, high = np.array([(names[a], names[b]) for a, b in view.edges]).T
    block = NameBlock("switch-{}", (len(names),))
    graph = SwitchGraph((("switch", block),), 1, (SwitchLinks(BETWEEN_SWITCHES, low, high),), "")
    assert cut_switches(graph) == sorted(names[node] for node in nx.articulation_points(view))


@pytest.mark.parametrize("name", JOINED)
def test_bounds_hold_on_the_links(name: str) -> None:
    asked = {"gpus": 128, "radix": 16, "accelerator": "h100-80gb", "model": "gpt-22b", "batch": 64}
    rows = loads("rail-only-paper", fabric=name, **asked).collectives
    assert rows
    for row in rows:
        assert row.bound_s <= row.busiest_s * (1 + 1e-9)
        assert row.busiest_s <= row.analytic_s * (1 + 1e-9)


def test_compare_prices_all_of_them() -> None:
    answer = compare(
        "rail-only-paper",
        gpus=500,
        radix=32,
        fabrics=JOINED,
        accelerator="h100-80gb",
        model="gpt-22b",
    )
    for row in answer.rows:
        assert row.fabric is not None, row.notes
        assert row.fabric.switches > 0
        assert row.best is not None
    with pytest.raises(ValueError, match="seed needs family: jellyfish"):
        spec("hyperx", seed=3)


@pytest.mark.parametrize(("name", "gpus", "radix"), [("hyperx", 90, 10), ("jellyfish", 60, 8)])
def test_loads_of_all_to_all_are_those_of_networkx(name: str, gpus: int, radix: int) -> None:
    graph = network(name, gpus, radix)
    found = replace(graph.mesh, weight=None).all_to_all()
    # The sum is that of all distances, whichever of the shortest paths are taken.
    view = nx.Graph(ends(graph))
    total = sum(sum(each.values()) for _, each in nx.all_pairs_shortest_path_length(view))
    assert found.sum() == pytest.approx(total)
    assert graph.mesh.all_to_all().sum() == pytest.approx(total)


def test_the_busiest_link_of_all_to_all_by_hand() -> None:
    # HyperX: of s (s - s/S) ordered pairs that differ in a dimension each takes one of its
    # s (S - 1) K links there: s / (S K), most along the shortest side.
    graph = network("hyperx", 60, sizes=(5, 4), hosts_per_switch=3, links_per_pair=2)
    assert max(graph.pair_loads) == pytest.approx(20 / (4 * 2))
    # Hoffman and Singleton: all pairs beyond the 7 neighbours are two hops apart, by one path, and
    # all links are alike: (7 + 2 x 42) / 7 on each.
    graph = network("slim-fly", 200, order=5)
    assert max(graph.pair_loads) == pytest.approx(13)
    # So detours have 50 / 26 links, and a ring of whole switches of four hosts 4 / (50 / 26).
    fabric = build_fabric(spec("slim-fly", order=5), sizing(200))
    assert fabric.levels[-1].tiers[0].oversubscription(200) == pytest.approx(4 * 26 / 50)


def test_large_random_graphs_are_no_less_even_than_taken() -> None:
    for switches, degree in ((500, 40), (600, 12)):
        low, high = random_links(switches, degree, 1)
        loads_ = SwitchMesh(switches, switches, low, high).all_to_all()
        assert loads_.max() / loads_.mean() < UNEVEN


@pytest.mark.parametrize("name", ["hyperx", "dragonfly-plus"])
def test_grown_designs_join_their_switches_anew(name: str) -> None:
    answer = grow("rail-only-paper", phases=(96, 200), radix=24, hb_size=8, fabrics=(name,))
    assert f"A {name} of another size joins its switches anew" in str(answer.to_dict())


def test_links_make_nothing_wait_that_the_model_does_not_know() -> None:
    asked = {"gpus": 100, "radix": 24, "accelerator": "h100-80gb", "model": "gpt-22b", "batch": 64}

    def waiting_s(name: str) -> float:
        found = simulate("rail-only-paper", fabric=name, **asked).to_dict()
        return float(found["waiting_s"])

    least_s = waiting_s("fat-tree")
    for name in ("hyperx", "jellyfish", "dragonfly"):
        assert waiting_s(name) == pytest.approx(least_s, rel=1e-6)


def test_a_slim_fly_fills_its_switches_to_the_last_port() -> None:
    """Order 5: 50 switches with 7 links each, so that radix 8 leaves one port for a GPU."""
    graph = network("slim-fly", 50, 8, hosts_per_switch=1)
    assert (graph.switches, graph.hosts) == (50, 1)


@pytest.mark.parametrize("name", ["slim-fly", "jellyfish", "hyperx"])
def test_what_uniform_traffic_gets_split_evenly_stands_beside(name: str) -> None:
    """ECMP against every shortest path of a graph library, each switch splitting evenly."""
    scenario = Scenario.load("hgx-h100").replace(gpus=200, radix=12)
    graph = switch_graph(FABRICS.load(name), scenario.sizing)
    network = nx.MultiGraph()
    for group in graph.links:
        network.add_edges_from(zip(group.source.tolist(), group.target.tolist(), strict=True))
    loads: dict[tuple[int, int], float] = {}
    for target in range(graph.host_switches):
        hops = nx.single_source_shortest_path_length(network, target)
        carried = dict.fromkeys(network, 0.0)
        for switch in sorted(hops, key=lambda node: -hops[node]):
            if switch == target:
                continue
            carried[switch] += float(switch < graph.host_switches)
            near = {
                other: len(links)
                for other, links in network.adj[switch].items()
                if hops[other] < hops[switch]
            }
            for other, links in near.items():
                share = carried[switch] / sum(near.values())
                loads[switch, other] = loads.get((switch, other), 0.0) + share
                carried[other] += links * share
    assert graph.even_pair_load == pytest.approx(max(loads.values()))
    notes = " ".join(compare(scenario, fabrics=(name,), timing=False).rows[0].notes)
    worst = 200 / (graph.hosts**2 * max(loads.values()))
    if graph.even_pair_load > graph.pair_load * (1 + 1e-9):
        assert f"by weights, split evenly (ECMP) {100 * min(1.0, worst):.3g} %" in notes
    else:
        assert "ECMP" not in notes
