"""The search for graphs: bounds against networkx, what counts hold, what is nearest."""

import networkx as nx
import numpy as np
import pytest

from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph_search import (
    Count,
    counts_holding,
    graphs_of,
    least_mean_distance,
    nearest_graph,
    uniform_bound,
)
from netplan.topologies.switch_families import switch_graph
from netplan.topologies.switch_graph import uniform_share


def sizing(gpus: int, radix: int, hb_size: int = 1) -> Sizing:
    return Sizing(gpus, radix, hb_size, 450e9, 50e9)


def test_no_graph_is_nearer_than_the_bound() -> None:
    # Graphs of Moore reach it: Petersen, Hoffman-Singleton (7 + 2 x 42 over 49), and cages of
    # girth 5 and more up to a last layer that is not full.
    assert least_mean_distance(10, 3) == pytest.approx(15 / 9)
    assert least_mean_distance(50, 7) == pytest.approx(91 / 49)
    heawood = nx.heawood_graph()
    reached = nx.average_shortest_path_length(heawood)
    # 3 + 6 + 4 left for three hops: 3 + 12 + 12 = 27 over 13, which Heawood's graph has.
    assert least_mean_distance(14, 3) == pytest.approx(27 / 13) == pytest.approx(reached)
    for seed in range(5):
        graph = nx.random_regular_graph(4, 30, seed=seed)
        assert nx.average_shortest_path_length(graph) >= least_mean_distance(30, 4)


def test_counts_hold_the_gpus_on_the_ports() -> None:
    for gpus, radix, most in ((300, 16, None), (1000, 32, 10), (64, 64, None)):
        found = list(counts_holding(gpus, radix, most))
        assert len(found) == len(set(found)) > 10
        for count in found:
            assert count.switches * count.hosts >= gpus
            assert count.hosts + count.degree <= radix
            assert count.degree <= (most or radix)
            assert count.switches * count.degree % 2 == 0


def test_every_graph_of_a_count_is_one() -> None:
    asked = sizing(240, 24)
    counts = list(counts_holding(240, 24))
    rng = np.random.default_rng(3)
    for at in rng.choice(len(counts), 12, replace=False).tolist():
        count = counts[at]
        for spec in graphs_of(count, range(2)):
            graph = switch_graph(spec, asked)
            assert (graph.switches, graph.hosts) == (count.switches, count.hosts)
            assert set(graph.degrees().tolist()) == {count.degree}
            assert uniform_share(graph, 240) <= uniform_bound(count, 240) * (1 + 1e-9)
            assert build_fabric(spec, asked).switches == count.switches


def test_the_nearest_graph_is_at_least_as_near_as_any_other() -> None:
    asked, count = sizing(300, 32), Count(20, 7, 15)
    found = nearest_graph(count, asked, range(4))
    shares = [uniform_share(switch_graph(spec, asked), 300) for spec in graphs_of(count, range(4))]
    assert found.share == max(shares)
    assert found.bound == pytest.approx(uniform_bound(count, 300))
    # 20 x 7 directions; 300 x 19/20 leave over (7 + 2 x 12) / 19 hops: 140 / 465.
    assert found.bound == pytest.approx(140 / 465)
    assert found.gap == pytest.approx(found.bound / found.share - 1)
    more = nearest_graph(count, asked, range(8))
    assert more.share >= found.share


def test_a_search_goes_on_with_the_next_seed() -> None:
    asked, count = sizing(300, 32), Count(30, 4, 10)
    whole = nearest_graph(count, asked, range(6))
    parts = [nearest_graph(count, asked, seeds) for seeds in (range(3), range(3, 6))]
    assert whole.share == max(part.share for part in parts)
