"""Loads on every fabric and routing, against a router in plain Python."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import GPU, HOST_LINKS, FabricGraph, LinkType
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.demand import split_demand
from netplan.traffic.matrix import TrafficMatrix, UniformGroups, combine, flows_matrix, no_traffic
from netplan.traffic.routing import Routing, clos_loads, link_loads, tree_of_graph
from netplan.traffic.routing_ecmp import ecmp_loads, make_arcs
from tests.oracles.router import (
    Flow,
    Route,
    brute_force,
    dimension_order,
    dragonfly,
    ecmp,
    net_outflow,
    network_of,
)
from tests.traffic.matrix_ends import end_bytes


def fabric(name: str, gpus: int, radix: int, hb_size: int, **changes: object) -> FabricGraph:
    spec = FabricSpec.read(FABRICS.load(name).to_dict() | changes)
    return expand(spec, Sizing(gpus, radix, hb_size, 400e9, 50e9))


@dataclass(frozen=True)
class Case:
    """A small fabric, a routing, and how plain Python routes it."""

    graph: FabricGraph
    routing: Routing = "auto"
    route: Route | None = None
    rails: bool = False


def torus(sizes: tuple[int, ...], hb_size: int, **changes: object) -> FabricGraph:
    gpus = int(np.prod(sizes)) * hb_size
    return fabric("torus-3d", gpus, 8, hb_size, sizes=sizes, dimensions=len(sizes), **changes)


def cases() -> dict[str, Case]:
    planes = fabric("fat-tree", 32, 8, 8, hb_planes=3)
    cube = fabric("dgx-1", 16, 8, 8)
    ring3 = torus((4, 3, 2), 1)
    railed = torus((3, 4), 2)
    mesh = torus((4, 3), 1, wraparound=False)
    single = {"hosts_per_switch": 2, "switches_per_group": 3, "global_links_per_switch": 2}
    groups = fabric("dragonfly", 36, 8, 2, **single)  # 6 groups, 1 link a pair
    thick = fabric("dragonfly", 24, 8, 2, **single)  # 4 groups, 2 links a pair
    everyone = frozenset[int]()
    return {
        "one switch": Case(fabric("fat-tree", 8, 8, 2)),
        "fat tree, 2 tiers": Case(fabric("fat-tree", 24, 8, 4)),
        "fat tree, 3 tiers": Case(fabric("fat-tree", 100, 8, 4)),
        "fat tree, 4 tiers": Case(fabric("fat-tree", 150, 8, 1)),
        "rail-optimized": Case(fabric("rail-optimized", 64, 8, 8)),
        "rail-optimized, 3:1": Case(fabric("rail-optimized", 64, 8, 4, oversubscription=3.0)),
        "scalable units": Case(fabric("dgx-superpod", 64, 8, 8)),
        "rail-only": Case(fabric("rail-only", 64, 8, 4), rails=True),
        "rail-only, one switch a rail": Case(fabric("rail-only", 32, 8, 4), rails=True),
        "rail-only, a domain partly filled": Case(fabric("rail-only", 63, 8, 4), rails=True),
        "HB switch planes": Case(planes),
        "hybrid cube mesh": Case(cube),
        "torus, dimension order": Case(ring3, "auto", dimension_order(ring3, (4, 3, 2))),
        "torus, adaptive": Case(
            ring3, "minimal-adaptive", ecmp(network_of(ring3, inside=False), everyone)
        ),
        "torus, ecmp": Case(ring3, "ecmp", ecmp(network_of(ring3, inside=False), everyone)),
        "torus of domains": Case(railed, "auto", dimension_order(railed, (3, 4)), rails=True),
        "open mesh, adaptive": Case(
            mesh, "minimal-adaptive", ecmp(network_of(mesh, inside=False), everyone)
        ),
        "open mesh, dimension order": Case(
            mesh, "auto", dimension_order(mesh, (4, 3), closed=False)
        ),
        "dragonfly, minimal": Case(groups, "minimal", dragonfly(groups, 3)),
        "dragonfly, two links a pair": Case(thick, "minimal", dragonfly(thick, 3)),
        "dragonfly, Valiant": Case(groups, "valiant", dragonfly(groups, 3, valiant=True)),
        "dragonfly, Valiant on two links": Case(
            thick, "valiant", dragonfly(thick, 3, valiant=True)
        ),
        "dragonfly, ecmp": Case(groups, "ecmp"),
        "bcube": Case(
            cube := fabric("bcube", 16, 8, 1),
            "ecmp",
            ecmp(network_of(cube, inside=False), everyone),
        ),
    }


CASES = cases()


def random_matrix(gpus: int, flows: int, seed: int) -> TrafficMatrix:
    rng = np.random.default_rng(seed)
    source = rng.integers(0, gpus, flows)
    destination = (source + rng.integers(1, gpus, flows)) % gpus
    amount = rng.integers(1, 1000, flows).astype(float)
    return flows_matrix(gpus, source=source, destination=destination, flow_bytes=amount)


def as_flows(matrix: TrafficMatrix) -> Iterable[Flow]:
    listed = matrix.listed()
    columns = (listed.source.tolist(), listed.destination.tolist(), listed.flow_bytes.tolist())
    return zip(*columns, strict=True)


def with_groups(
    matrix: TrafficMatrix, members: NDArray[np.int64], pair_bytes: float
) -> TrafficMatrix:
    group = UniformGroups(members.astype(np.int32), pair_bytes, 5)
    return replace(matrix, groups=(*matrix.groups, group))


@pytest.mark.parametrize("name", CASES)
def test_loads_equal_plain_python(name: str) -> None:
    case = CASES[name]
    matrix = random_matrix(case.graph.gpus, 60, seed=1)
    found = link_loads(case.graph, matrix, routing=case.routing).link_bytes
    expected = brute_force(case.graph, as_flows(matrix), case.route, rails=case.rails)
    assert expected.any()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)
    # What plain Python leaves unused is exactly 0, not dust.
    assert not found[expected == 0].any()


@pytest.mark.parametrize("name", CASES)
def test_uniform_groups_equal_their_listing(name: str) -> None:
    case = CASES[name]
    gpus = case.graph.gpus
    order = np.random.default_rng(2).permutation(gpus)
    count = gpus // 8
    matrix = with_groups(no_traffic(gpus), order[: 8 * count].reshape(count, 8), 0.1)
    matrix = with_groups(matrix, np.arange(gpus)[None, :], 1.0)
    found = link_loads(case.graph, matrix, routing=case.routing).link_bytes
    expected = link_loads(case.graph, matrix.listed(), routing=case.routing).link_bytes
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_traffic_is_conserved_at_every_node(name: str) -> None:
    case = CASES[name]
    matrix = random_matrix(case.graph.gpus, 200, seed=3)
    loads = link_loads(case.graph, matrix, routing=case.routing)
    expected = np.zeros(case.graph.node_count)
    expected[: case.graph.gpus] = np.subtract(*end_bytes(matrix))
    np.testing.assert_allclose(net_outflow(case.graph, loads.link_bytes), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["rail-only", "torus, adaptive", "dragonfly, Valiant", "bcube"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(0.5, 1e6))
def test_loads_are_linear_in_traffic(name: str, seed: int, factor: float) -> None:
    case = CASES[name]
    one, two = (random_matrix(case.graph.gpus, 20, seed + step) for step in (0, 1))
    both = flows_matrix(
        one.gpus,
        source=np.concatenate([one.source, two.source]),
        destination=np.concatenate([one.destination, two.destination]),
        flow_bytes=np.concatenate([one.flow_bytes, factor * two.flow_bytes]),
    )
    a, b, sum_ = (
        link_loads(case.graph, m, routing=case.routing).link_bytes for m in (one, two, both)
    )
    np.testing.assert_allclose(sum_, a + factor * b, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("name", ["fat tree, 3 tiers", "rail-only", "scalable units"])
def test_the_closed_form_of_clos_equals_ecmp_on_the_graph(name: str) -> None:
    """The hashed router walks the graph; its mean over many equal flows is the closed form."""
    graph = CASES[name].graph
    matrix = random_matrix(graph.gpus, 3, seed=4)
    copies = 40_000
    many = flows_matrix(
        graph.gpus,
        source=np.repeat(matrix.source, copies),
        destination=np.repeat(matrix.destination, copies),
        flow_bytes=np.repeat(matrix.flow_bytes, copies) / copies,
    )
    fluid = link_loads(graph, matrix).link_bytes
    hashed = link_loads(graph, many, routing="hashed", rng=np.random.default_rng(5)).link_bytes
    # 40,000 flows over k <= 16 links: standard deviation sqrt(k / 40000) <= 2 % of a share.
    used = fluid > 0
    assert not hashed[~used].any()
    np.testing.assert_allclose(hashed[used], fluid[used], rtol=0.1)
    np.testing.assert_allclose(hashed.sum(), fluid.sum(), rtol=1e-9)
    assert abs(hashed[used] / fluid[used] - 1).mean() < 0.02


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.graph.node_tier.max() > 0])
def test_closed_form_and_search_agree_wherever_both_apply(name: str) -> None:
    graph = CASES[name].graph
    links = (
        np.flatnonzero(graph.group != graph.group_names.index("hb"))
        if "hb" in graph.group_names
        else np.arange(graph.link_count)
    )
    tree = tree_of_graph(graph, links)
    is_clos = not name.startswith(("dragonfly", "bcube"))
    assert (tree is not None) == is_clos
    if tree is None:
        return
    leg = split_demand(
        random_matrix(graph.gpus, 300, seed=6), graph.hb_size, forwarding=CASES[name].rails
    ).network
    arcs = make_arcs(graph.source, graph.target, graph.node_kind != GPU, links)
    searched = ecmp_loads(arcs, leg.source, leg.destination, leg.flow_bytes)
    closed = clos_loads(tree, leg, graph.link_count)
    np.testing.assert_allclose(closed, searched.reshape(2, -1), rtol=1e-9, atol=1e-9)


# Of forwarded flows two may share their ends in the network: their order tells them apart.
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.rails])
def test_a_hashed_flow_takes_its_path_whatever_else_flows(name: str) -> None:
    graph = CASES[name].graph
    matrix = combine([random_matrix(graph.gpus, 40, seed=7)])  # no pair twice

    def loads(flows: slice) -> NDArray[np.float64]:
        some = flows_matrix(
            graph.gpus,
            source=matrix.source[flows],
            destination=matrix.destination[flows],
            flow_bytes=matrix.flow_bytes[flows],
        )
        rng = np.random.default_rng(3)
        return link_loads(graph, some, routing="hashed", rng=rng).link_bytes

    alone = sum(loads(slice(at, at + 1)) for at in range(len(matrix.source)))
    np.testing.assert_allclose(loads(slice(None)), alone, rtol=1e-9, atol=1e-9)


def test_hashing_shows_the_collisions_that_even_splitting_hides() -> None:
    graph = fabric("fat-tree", 128, 16, 8)
    gpus = np.arange(128)
    matrix = flows_matrix(
        128, source=gpus, destination=(gpus + 64) % 128, flow_bytes=np.full(128, 1.0)
    )
    fluid = link_loads(graph, matrix, routing="ecmp")
    hashed = link_loads(graph, matrix, routing="hashed")
    # Non-blocking: split evenly, no link carries more than one flow's worth.
    assert fluid.link_bytes.max() == pytest.approx(1.0)
    # 8 flows at random over 8 uplinks, on 16 leaves: some uplink surely gets 2 or more.
    assert hashed.link_bytes.max() >= 2.0
    again = link_loads(graph, matrix, routing="hashed")
    assert np.array_equal(hashed.link_bytes, again.link_bytes)


def test_the_spine_of_a_rail_optimized_fabric_carries_no_rail_traffic() -> None:
    graph = fabric("rail-optimized", 64, 16, 8)  # 8 rails of 8 GPUs, one leaf each
    gpus = np.arange(64)
    rails = flows_matrix(64, source=gpus, destination=(gpus + 8) % 64, flow_bytes=np.full(64, 0.1))
    by_group = {group.group: group for group in link_loads(graph, rails).by_group()}
    spine = by_group["leaf-spine"]
    assert spine.unused == spine.directions
    assert spine.total_bytes == 0
    assert by_group["host"].unused == 0
    # A single flow between rails shows that the check can fail.
    crossing = flows_matrix(64, source=[0], destination=[9], flow_bytes=[1.0])
    assert link_loads(graph, crossing).by_group()[2].total_bytes == pytest.approx(2.0)


def test_rail_only_all_to_all_takes_the_time_of_equation_21() -> None:
    """arXiv:2307.12169, Eq. 21: y (x-1) D / C_F + x (y-1) D / C_S; here its two terms apart."""
    x, y, data = 4, 16, 1e6
    graph = fabric("rail-only", x * y, 8, x)
    matrix = with_groups(no_traffic(x * y), np.arange(x * y)[None, :], data)
    time = {group.group: group.busiest_s for group in link_loads(graph, matrix).by_group()}
    assert time["hb"] == pytest.approx(y * (x - 1) * data / 400e9)
    assert time["host"] == pytest.approx(x * (y - 1) * data / 50e9)


def test_valiant_doubles_global_loads_and_evens_out_the_worst_pattern() -> None:
    graph = CASES["dragonfly, minimal"].graph  # 6 groups of 6 GPUs
    gpus = np.arange(36)
    neighbours = flows_matrix(36, source=gpus, destination=(gpus + 6) % 36, flow_bytes=np.ones(36))
    loads = {name: link_loads(graph, neighbours, routing=name) for name in ("minimal", "valiant")}
    links = graph.links_of("global")
    minimal, valiant = (loads[name].link_bytes[:, links] for name in ("minimal", "valiant"))
    assert valiant.sum() == pytest.approx(2 * minimal.sum())
    # Minimal sends all 6 bytes of a group over its one link to the next group. Valiant spreads
    # them over 4 third groups: 6/4 a link on the first hop and on the second.
    assert minimal.max() == pytest.approx(6.0)
    assert valiant.max() == pytest.approx(3.0)


@pytest.mark.parametrize("routing", ["dimension-order", "minimal", "valiant"])
def test_a_routing_for_another_fabric_is_refused(routing: Routing) -> None:
    graph = CASES["rail-only"].graph
    with pytest.raises(InputError, match="take routing 'ecmp'"):
        link_loads(graph, random_matrix(64, 3, seed=0), routing=routing)


def test_bad_input_is_refused_in_one_line() -> None:
    graph = CASES["rail-only"].graph
    with pytest.raises(InputError, match="for 32 GPUs, the fabric has 64") as caught:
        link_loads(graph, no_traffic(32))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="unknown routing 'fastest'"):
        link_loads(graph, no_traffic(64), routing="fastest")  # type: ignore[arg-type]
    dead = replace(graph, bytes_per_s=np.where(np.arange(graph.link_count) == 64, 0.0, 1.0))
    matrix = flows_matrix(64, source=[0], destination=[4], flow_bytes=[1.0])
    with pytest.raises(InputError, match="gpu-0 to rail-0/leaf-0 carries traffic but has no cap"):
        link_loads(dead, matrix)


def test_a_disconnected_graph_is_refused() -> None:
    graph = CASES["fat tree, 2 tiers"].graph
    keep = ~((graph.source == 5) & (graph.group != 0))  # GPU 5 loses its network link
    cut = replace(
        graph,
        source=graph.source[keep],
        target=graph.target[keep],
        bytes_per_s=graph.bytes_per_s[keep],
        group=graph.group[keep],
    )
    matrix = flows_matrix(24, source=[5], destination=[20], flow_bytes=[1.0])
    with pytest.raises(InputError, match="gpu-5 cannot reach gpu-20"):
        link_loads(cut, matrix, forwarding=False)


def test_gpus_do_not_forward_where_switches_suffice() -> None:
    """Two planes that pair the GPUs differently: 0 with 1 and 2 with 3, and 0 with 2 and 1 with 3.

    From 0 to 3 each plane has one path, over its spine. By way of GPU 1 or 2 and both planes there
    would be two more of four hops, which no switch takes.
    """
    leaf = {"A": (4, 5), "B": (7, 8)}
    pairs = {"A": ((0, 1), (2, 3)), "B": ((0, 2), (1, 3))}
    hosts = [(g, leaf[p][side]) for p in "AB" for side in (0, 1) for g in pairs[p][side]]
    spines = [(leaf[p][side], leaf[p][1] + 1) for p in "AB" for side in (0, 1)]
    source, target = np.array([*hosts, *spines], np.int32).T
    zeros = np.zeros(12, np.int32)
    graph = FabricGraph(
        name="two planes",
        gpus=4,
        hb_size=1,
        node_kind=np.array([0] * 4 + [2] * 6, np.int8),
        node_tier=np.array([0] * 4 + [1, 1, 2] * 2, np.int8),
        names=[f"node-{n}" for n in range(10)],
        source=source,
        target=target,
        source_port=zeros,
        target_port=zeros,
        bytes_per_s=np.ones(12),
        length_class=zeros.astype(np.int8),
        group=np.array([0] * 8 + [1] * 4, np.int8),
        groups=(HOST_LINKS, LinkType("leaf-spine", "up", tiers=(1, 2))),
    )
    matrix = flows_matrix(4, source=[0], destination=[3], flow_bytes=[8.0])
    loads = link_loads(graph, matrix)
    spine = {group.group: group for group in loads.by_group()}["leaf-spine"]
    # 4 in each plane, up and down.
    assert spine.total_bytes == 16
    assert spine.largest_bytes == 4


@pytest.mark.parametrize("routing", ["dimension-order", "minimal-adaptive", "ecmp"])
def test_what_stays_in_hb_domains_loads_no_link_of_a_torus(routing: Routing) -> None:
    torus = fabric("torus-2d", 32, 8, 8)
    inside = UniformGroups(np.arange(32, dtype=np.int32).reshape(4, 8), 1e6, 0)
    for groups in ((), (inside,)):
        loads = link_loads(torus, replace(no_traffic(32), groups=groups), routing=routing)
        names = [torus.group_names[group] for group in torus.group.tolist()]
        outside = np.array([name != "hb" for name in names])
        assert outside.any()
        assert np.abs(loads.link_bytes[:, outside]).max() == 0
