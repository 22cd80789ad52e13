"""Traffic that splits at every hop: beside the router of flows, path by path, and by networkx."""

from itertools import pairwise

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array

from netplan.arrays import Floats, Ints
from netplan.topologies.graph.splitting import Matrix, propagate_demand, rounds_from
from netplan.traffic.routing_ecmp import ecmp_loads, make_arcs


def random_network(seed: int) -> tuple[Ints, Ints, Floats]:
    """Links of a connected graph of twelve nodes, some of them parallel, and their weights."""
    rng = np.random.default_rng(seed)
    tree = np.arange(1, 12), rng.integers(0, np.arange(1, 12))
    more = rng.integers(0, 12, (2, 20))
    more = more[:, more[0] != more[1]]
    source, target = (np.concatenate(ends) for ends in zip(tree, more, strict=True))
    return source, target, rng.random(len(source)) + 0.5


def arcs_of(source: Ints, target: Ints, weight: Floats) -> Matrix:
    found = coo_array((weight, (source, target)), shape=(12, 12))
    return (found + found.T).tocsr()


def carried(arcs: Matrix, sent: Floats, *, by_paths: bool = False) -> Floats:
    """What each node sends to each other one over a weight of 1, shape (nodes, nodes)."""
    rounds = rounds_from(arcs, np.arange(12), by_paths=by_paths)
    found = np.zeros((12, 12))
    for each, near in propagate_demand(arcs, rounds, sent.copy()):
        found += each @ near.T
    return found


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_it_splits_as_the_router_of_flows_does(seed: int) -> None:
    source, target, weight = random_network(seed)
    sent = np.random.default_rng(seed).random((12, 12)) * (1 - np.eye(12))
    pairs = carried(arcs_of(source, target, weight), sent)
    found = np.concatenate((pairs[source, target] * weight, pairs[target, source] * weight))
    arcs = make_arcs(source, target, np.ones(12, bool), weight=weight)
    first, last = np.nonzero(sent)
    np.testing.assert_allclose(found, ecmp_loads(arcs, first, last, sent[first, last]), rtol=1e-12)


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_by_paths_all_shortest_paths_carry_alike(seed: int) -> None:
    source, target, _ = random_network(seed)
    view = nx.Graph(zip(source.tolist(), target.tolist(), strict=True))
    arcs = (arcs_of(source, target, np.ones(len(source))) > 0).astype(float)
    sent = np.random.default_rng(seed).random((12, 12)) * (1 - np.eye(12))
    expected = np.zeros((12, 12))
    for first, last in zip(*np.nonzero(sent), strict=True):
        paths = [*nx.all_shortest_paths(view, int(first), int(last))]
        for path in paths:
            for one, other in pairwise(path):
                expected[one, other] += sent[first, last] / len(paths)
    found = carried(arcs, sent, by_paths=True)
    np.testing.assert_allclose(found * arcs.toarray(), expected, rtol=1e-12)


def test_several_kinds_of_traffic_are_those_of_each_alone() -> None:
    source, target, weight = random_network(1)
    arcs, rng = arcs_of(source, target, weight), np.random.default_rng(1)
    kinds = rng.random((3, 12, 12)) * (1 - np.eye(12))
    alone = [carried(arcs, one) for one in kinds]
    rounds = rounds_from(arcs, np.arange(12))
    together = np.zeros((3, 12, 12))
    for each, near in propagate_demand(arcs, rounds, np.concatenate(list(kinds), axis=1)):
        for number in range(3):
            some = slice(12 * number, 12 * number + 12)
            together[number] += each[:, some] @ near.T
    np.testing.assert_allclose(together, alone, rtol=1e-12)
