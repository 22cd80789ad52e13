"""Switches that no smallest cut parts: both proofs against networkx, and what they are good for."""

from importlib import import_module
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.faults.damage.capacity import remaining_bandwidth
from netplan.faults.damage.flows import (
    MovedFlows,
    Rings,
    merge_by_forests,
    merge_nodes,
    reduced_graph,
)
from netplan.faults.damage.scenario import parse_faults
from netplan.topologies.graph import FabricGraph
from netplan.topologies.graph.flow import largest_flow, largest_units
from tests.faults.damaged import damage_to, fabric, random_damage


def flow(view: "nx.Graph[int]", a: int, b: int) -> float:
    return float(nx.maximum_flow_value(view, a, b))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    nodes=st.integers(3, 14),
    density=st.floats(0.3, 1),
    need=st.floats(1, 8),
)
def test_nodes_that_are_joined_have_that_flow(
    seed: int, nodes: int, density: float, need: float
) -> None:
    rng = np.random.default_rng(seed)
    low, high = np.triu_indices(nodes, 1)
    there = rng.random(len(low)) < density
    ends = np.stack((low, high))[:, there]
    units = 2 * rng.integers(1, 4, ends.shape[1]).astype(float)
    label, fewer = (
        rule(ends, units, np.full(nodes, need)) for rule in (merge_nodes, merge_by_forests)
    )
    view: nx.Graph[int] = nx.Graph()
    view.add_nodes_from(range(nodes))
    for (a, b), rate in zip(ends.T.tolist(), units.tolist(), strict=True):
        view.add_edge(a, b, capacity=rate)
    for a, b in combinations(range(nodes), 2):
        if label[a] == label[b]:
            assert flow(view, a, b) >= need
        else:
            assert fewer[a] != fewer[b]


def test_a_full_mesh_is_joined_by_half_as_many_forests_as_nodes() -> None:
    """Ten nodes have 45 links: five trees of nine. Four are found, and six cannot be."""
    ends = np.stack(np.triu_indices(10, 1))
    assert np.all(merge_by_forests(ends, np.ones(45), np.full(10, 4.0)) == 0)
    assert len(np.unique(merge_by_forests(ends, np.ones(45), np.full(10, 6.0)))) > 1
    # Without links, or with more forests than are worth it, every node is alone.
    assert merge_by_forests(ends[:, :0], np.ones(0), np.ones(3)).tolist() == [0, 1, 2]
    assert merge_by_forests(ends, np.ones(45), np.full(10, 65.0)).tolist() == list(range(10))


def test_parts_have_needs_and_hubs_of_their_own() -> None:
    """A ring of four needs two, a path of three one; a path whose nodes need two stays apart."""
    ring, path = np.array([[0, 0, 1, 2], [1, 3, 2, 3]]), np.array([[4, 5], [5, 6]])
    ends = np.concatenate([ring, path, path + 3], axis=1)
    need = np.repeat([2.0, 1.0, 2.0], [4, 3, 3])
    label = merge_nodes(ends, np.ones(8), need)
    assert len(set(label[:4])) == 1
    assert len(set(label[4:7])) == 1
    assert len(set(label.tolist())) == 5


def torus(sizes: tuple[int, ...], *, twist: bool = False) -> FabricGraph:
    kind = "twisted-torus" if twist else f"torus-{len(sizes)}d"
    return fabric(kind, (int(np.prod(sizes)), 8, 1), sizes=sizes)


@pytest.mark.parametrize(
    ("sizes", "twist"),
    [
        ((4, 5), False),
        ((2, 6), False),
        ((3, 3), False),
        ((3, 4, 5), False),
        ((2, 2, 5), False),
        ((2, 4), True),
        ((2, 4, 4), True),
    ],
)
def test_moved_flows_join_nodes_of_a_damaged_torus_that_have_that_flow(
    sizes: tuple[int, ...],
    twist: bool,  # noqa: FBT001
) -> None:
    graph = torus(sizes, twist=twist)
    reduced = reduced_graph(graph)
    assert reduced.moved_flows is not None
    degree = 2 * len(sizes) - (0 if twist else sum(size == 2 for size in sizes))
    alone = 0
    for seed in range(6):
        after = reduced.left(random_damage(graph, 1 + seed % 3, np.random.default_rng(seed)))
        whole = (after.transit == reduced.intact.transit)[reduced.place]
        label = reduced.moved_flows.merge_nodes(whole)
        view: nx.Graph[int] = nx.Graph()
        view.add_nodes_from(range(graph.gpus))
        rate = reduced.intact.transit[0]
        for (a, b), units in zip(reduced.ends.T.tolist(), after.transit.tolist(), strict=True):
            view.add_edge(a, b, capacity=round(units / rate))
        main = int(np.bincount(label).argmax())
        first, *others = np.flatnonzero(label == main).tolist()
        assert all(flow(view, first, other) >= degree for other in others)
        alone += len(label) - len(others) - 1
    assert alone
    assert len(np.unique(reduced.moved_flows.merge_nodes(np.ones(len(reduced.used), bool)))) == 1


def test_what_is_no_torus_has_no_moved_flows() -> None:
    ring = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    one = np.zeros(4, np.int64)
    assert Rings.of(ring, one, 4) is not None
    # A path; a ring beside a node; two rings of unequal length; two rings that do not commute.
    assert Rings.of(ring[:, :3], one[:3], 4) is None
    assert Rings.of(ring, one, 5) is None
    assert Rings.of(np.array([[0, 1, 2, 3, 4], [1, 0, 3, 4, 2]]), np.zeros(5, np.int64), 5) is None
    other = np.array([[0, 2, 1, 3], [2, 1, 3, 0]])
    both = np.concatenate([ring, other], axis=1)
    assert Rings.of(both, np.repeat([0, 1], 4), 4) is None
    # Rates that differ by place.
    rings = Rings.of(ring, one, 4)
    assert rings is not None
    assert MovedFlows.of(rings, np.array([1.0, 1, 1, 1])) is not None
    assert MovedFlows.of(rings, np.array([1.0, 1, 2, 1])) is None
    mesh = reduced_graph(fabric("torus-2d", (16, 8, 1), sizes=(4, 4), wraparound=False))
    assert mesh.moved_flows is None


def test_a_lost_link_of_a_large_torus_costs_its_two_ends() -> None:
    """4,096 GPUs in domains of eight: 48 links a domain, of which two domains lose one."""
    graph = fabric("torus-3d", (4096, 64, 8))
    left = remaining_bandwidth(graph, damage_to(graph, links=[graph.link_count - 1]))
    assert left.exact
    assert left.worst_share == pytest.approx(47 / 48)
    # The pairs of either with all others, and the one of both: 2 x 510 + 1 of 130,816.
    assert left.mean_share == pytest.approx(1 - 1021 / 48 / 130_816, abs=1e-12)


def test_a_lost_link_of_a_twisted_torus_costs_its_two_ends() -> None:
    """256 GPUs of six links: either end with all others, and both, 2 x 254 + 1 of 32,640 pairs."""
    graph = fabric("twisted-torus", (256, 64, 1))
    left = remaining_bandwidth(graph, damage_to(graph, links=[0]))
    assert left.exact
    assert left.worst_share == pytest.approx(5 / 6)
    assert left.mean_share == pytest.approx(1 - 509 / 6 / 32_640, abs=1e-12)


def test_what_is_not_computed_loses_no_more_than_all_that_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve lost links, of 48 that a domain has; the intact torus is one class, and exact."""
    graph = fabric("torus-3d", (4096, 64, 8))
    lost = damage_to(graph, links=range(graph.link_count - 1, graph.link_count - 600, -50))
    assert lost.link_down.sum() == 12
    exact = remaining_bandwidth(graph, lost)
    monkeypatch.setattr(import_module("netplan.faults.damage.capacity"), "MAX_ENDS", 2)
    left = remaining_bandwidth(graph, lost, max_pairs=30)
    assert not left.exact
    assert left.worst_low == pytest.approx(36 / 48)
    assert left.worst_share is not None
    assert exact.worst_share is not None
    assert exact.exact
    assert 36 / 48 < exact.worst_share <= left.worst_share
    # One GPU of a switched fabric: no pair loses more than the port of its domain.
    rails = fabric("rail-only", (4096, 64, 8))
    left = remaining_bandwidth(rails, parse_faults(["gpu-9", "gpu-100"], rails))
    assert (left.exact, left.worst_low) == (False, 6 / 8)


@pytest.mark.parametrize(("name", "radix"), [("torus-3d", 16), ("torus-2d", 16), ("dragonfly", 32)])
def test_joined_switches_leave_every_flow_as_it_was(name: str, radix: int) -> None:
    """Flows of pairs on large fabrics, those that failures touch among them, without joining."""
    graph = fabric(name, (4096, radix, 8))
    damage = parse_faults(["links=6", "gpus=2"], graph, rng=np.random.default_rng(2))
    before = reduced_graph(graph).intact
    after = before.reduced.left(damage)
    left = remaining_bandwidth(graph, damage, intact=before)
    assert left.exact
    lost = after.egress_bytes_per_s < before.egress_bytes_per_s
    hurt = np.flatnonzero(lost)[:6].tolist()
    rng = np.random.default_rng(3)
    pairs = [(a, b) for a in hurt for b in rng.integers(0, graph.domains, 3).tolist() if a != b]
    least = min(after.flow(a, b).units / before.flow(a, b).units for a, b in pairs)
    assert left.worst_share is not None
    assert left.worst_share <= least
    ends = zip(left.first.tolist(), left.second.tolist(), strict=True)
    for (a, b), share in list(zip(ends, left.share.tolist(), strict=True))[:20]:
        assert after.flow(a, b).units / before.flow(a, b).units == pytest.approx(share)


def test_a_flow_names_its_links() -> None:
    # Two ways of 3 and 1 from 0 to 3, and a link that leads nowhere.
    ends = np.array([[0, 1, 0, 2, 1], [1, 3, 2, 3, 1]])
    units = np.array([3.0, 5.0, 1.0, 1.0, 9.0])
    found = largest_flow(ends, units, 0, 3)
    assert (found.units, found.links.tolist()) == (4, [0, 1, 2, 3])
    assert largest_units(ends, units, 0, 3) == 4
    assert largest_units(ends, np.zeros(5), 0, 3) == 0
