"""Bounds of flows between domains, against networkx on random graphs."""

import sys
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from netplan.faults.damage.capacity import PairGraph


def flow(graph: PairGraph, a: int, b: int) -> int:
    """Max-flow of two domains while no other passes anything on."""
    size = len(graph.tier)
    view = nx.DiGraph()
    view.add_nodes_from((size + a, size + b))
    for one, other, units in zip(*graph.ends.tolist(), graph.units.tolist(), strict=True):
        if all(end < size or end - size in (a, b) for end in (one, other)):
            view.add_edge(one, other, capacity=units)
            view.add_edge(other, one, capacity=units)
    return int(nx.maximum_flow_value(view, size + a, size + b))


def bounds(
    graph: PairGraph, intact: PairGraph | None = None
) -> tuple[list[int], list[int], list[int]]:
    """What flows between all pairs at least, indeed, and at most."""
    a, b = np.triu_indices(graph.domains, 1)
    least, most = graph.flows(a, b, intact)
    pairs = combinations(range(graph.domains), 2)
    return least.tolist(), [flow(graph, *pair) for pair in pairs], most.tolist()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    switches=st.integers(1, 9),
    domains=st.integers(2, 6),
    density=st.floats(0.1, 1),
    unit=st.sampled_from([1, 5, 1 << 20]),
)
def test_flows_lie_within_their_bounds(
    seed: int, switches: int, domains: int, density: float, unit: int
) -> None:
    """Any tiers, capacities and links, some of them between two domains, some of nothing."""
    rng = np.random.default_rng(seed)
    ends = np.stack(np.triu_indices(switches + domains, 1))
    ends = ends[:, rng.random(ends.shape[1]) < density]
    units = unit * rng.integers(0, 7, ends.shape[1]).astype(float)
    graph = PairGraph(rng.integers(1, 4, switches), domains, ends, units)
    least, found, most = bounds(graph)
    assert all(map(int.__le__, least, found))
    assert all(map(int.__le__, found, most))
    # A damage takes some links, or a part of them.
    hit = rng.random(len(units)) < rng.random()
    damaged = PairGraph(graph.tier, domains, ends, np.where(hit, units // unit // 2 * unit, units))
    least, found, most = bounds(damaged, graph)
    assert all(map(int.__le__, least, found))
    assert all(map(int.__le__, found, most))


def test_flows_that_a_damage_leaves_whole_are_not_found_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of 24 switches each is joined to each, and a domain has nine units at three of them: none has
    # enough for a hub. The link of switches 0 and 23 is lost.
    ends = np.array([*combinations(range(24), 2), *((one, 24 + one // 3) for one in range(24))]).T
    units = np.append(np.ones(276), np.full(24, 9.0))
    intact = PairGraph(np.ones(24, np.int64), 8, ends, units)
    damaged = PairGraph(intact.tier, 8, ends, np.where((ends == [[0], [23]]).all(axis=0), 0, units))
    sent: list[int] = []

    def counted(ways: csr_array, source: int, sink: int) -> object:
        sent.append(source)
        return maximum_flow(ways, source, sink)

    monkeypatch.setattr(sys.modules[PairGraph.__module__], "maximum_flow", counted)
    pairs = np.triu_indices(8, 1)
    # The narrowest cut is that around the domain's own ports.
    assert np.array_equal(intact.flows(*pairs), np.full((2, 28), 27))
    assert len(sent) == 8
    sent.clear()
    assert np.array_equal(damaged.flows(*pairs, intact), np.full((2, 28), 27))
    assert len(sent) < 4
    # Alone it asks all.
    assert np.array_equal(damaged.flows(*pairs), np.full((2, 28), 27))
    assert len(sent) >= 8


def clos(lost: list[tuple[int, int]], ports: int = 4) -> PairGraph:
    """Four leaves of four ports under four spines, less some links of leaf and spine.

    Domain i has a half of its ports at leaf i, and a half at the next one.
    """
    links = [(leaf, 4 + spine) for leaf in range(4) for spine in range(4)]
    links = [link for link in links if link not in lost]
    own = [((one + side) % 4, 8 + one) for one in range(4) for side in range(2)]
    units = [1.0] * len(links) + [ports / 2] * len(own)
    return PairGraph(np.repeat([1, 2], 4), 4, np.array([*links, *own]).T, np.array(units))


def test_flows_by_hand() -> None:
    # Every leaf has four uplinks, of which a domain needs two.
    assert bounds(clos([])) == ([4] * 6, [4] * 6, [4] * 6)
    # Leaf 0 has one uplink left: domains 0 and 3 send one over it, and two over the other leaf.
    # Between them it is passed by below, where each has two ports.
    lost = [(0, 4), (0, 5), (0, 6)]
    least, found, most = bounds(clos(lost))
    assert (found[0], found[1], found[3]) == (3, 3, 4)
    assert all(map(int.__le__, least, found))
    assert all(map(int.__le__, found, most))
    # Domains that share nothing with it are settled: 1 and 2.
    assert (least[3], most[3]) == (4, 4)


def test_a_part_of_its_own_adds_its_flow() -> None:
    """Two rails of one switch: of domain 0 three ports and one, of domain 1 one and three."""
    ends = np.array([[0, 1, 0, 1, 0, 1], [2, 2, 3, 3, 4, 4]])
    graph = PairGraph(np.ones(2, np.int64), 3, ends, np.array([3.0, 1, 1, 3, 3, 3]))
    assert bounds(graph) == ([2, 4, 4], [2, 4, 4], [2, 4, 4])


def test_bounds_round_up_to_what_divides_all_capacities() -> None:
    """A ring of five routers: a third of an uplink more or less makes no whole one."""
    ring = [(one, (one + 1) % 5) for one in range(5)]
    own = [(one, 5 + one) for one in range(5)]
    ends = np.sort(np.array([*ring, *own]).T, axis=0)
    graph = PairGraph(np.ones(5, np.int64), 5, ends, np.append(np.full(5, 10.0), np.full(5, 10.0)))
    least, found, most = bounds(graph)
    assert least == found == most == [10] * 10
