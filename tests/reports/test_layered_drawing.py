"""Graphs drawn in layers: nothing overlaps, neighbours stand near each other."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.reports.layered_drawing import MAX_BENDS, LayeredDrawing, layered_drawing
from netplan.workloads.model_graphs import layer_graph
from netplan.workloads.models import MODELS


def drawn(layer: list[int], edges: list[tuple[int, int]]) -> LayeredDrawing:
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    return layered_drawing(np.array(layer), pairs[:, 0], pairs[:, 1])


def length(drawing: LayeredDrawing) -> float:
    """How far edges lead aside."""
    return sum(abs(b[0] - a[0]) for way in drawing.edges for a, b in pairwise(way))


def test_a_chain_is_a_straight_line() -> None:
    found = drawn([0, 1, 2, 3], [(0, 1), (1, 2), (2, 3)])
    assert found.across.tolist() == [0, 0, 0, 0]
    assert found.width == 0


def test_a_skip_goes_round_the_chain_that_it_skips() -> None:
    """From 0 to 3 past 1 and 2: its two bends stand beside them, in their layers."""
    found = drawn([0, 1, 2, 3], [(0, 1), (1, 2), (2, 3), (0, 3)])
    way = found.edges[3]
    assert [layer for _, layer in way] == [0, 1, 2, 3]
    for across, layer in way[1:-1]:
        assert abs(across - found.across[layer]) >= 0.35 - 1e-9


def test_crossed_pairs_are_uncrossed() -> None:
    found = drawn([0, 0, 1, 1], [(0, 3), (1, 2)])
    assert length(found) == 0
    assert sorted(found.across.tolist()) == [0, 0, 1, 1]


def test_the_kernels_of_a_layer_stand_near_their_neighbours() -> None:
    """GPT forward: K and V stand beside Q, and nothing is far from what it needs."""
    graph = layer_graph(MODELS.load("gpt-175b"), 8)
    found = layered_drawing(graph.depth, graph.source, graph.target)
    across = dict(zip(graph.names, found.across.tolist(), strict=True))
    assert sorted(np.diff(sorted(across[name] for name in "QKV")).tolist()) == pytest.approx([1, 1])
    apart = [abs(b[0] - a[0]) for way in found.edges for a, b in pairwise(way)]
    assert max(apart) <= 1.5
    assert found.width < 5


@settings(max_examples=60)
@given(st.data())
def test_nothing_overlaps_and_edges_are_no_longer_than_before(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    layer = [0] * count
    for a, b in sorted(edges, key=lambda pair: pair[1]):
        layer[b] = max(layer[b], layer[a] + 1)
    for a, b in sorted(edges):
        layer[b] = max(layer[b], layer[a] + 1)
    found = drawn(layer, edges)
    assert (found.across >= 0).all()
    assert found.across.tolist() == drawn(layer, edges).across.tolist()
    rows = [sorted(found.across[np.array(layer) == at].tolist()) for at in range(max(layer) + 1)]
    for row in rows:
        assert (np.diff(row) >= 1 - 1e-9).all()
    # Side by side as they come, edges are no shorter.
    index = [layer[:at].count(layer[at]) for at in range(count)]
    if all(layer[b] == layer[a] + 1 for a, b in edges):
        assert length(found) <= sum(abs(index[a] - index[b]) for a, b in edges) + 1e-9


def test_graphs_with_too_many_bends_have_straight_edges() -> None:
    many = MAX_BENDS // 10 + 2
    layer = list(range(many))
    edges = [*pairwise(range(many)), *((0, at) for at in range(many - 12, many))]
    assert all(len(way) == 2 for way in drawn(layer, edges).edges)
