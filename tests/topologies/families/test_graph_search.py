"""The search for graphs: bounds against networkx, what counts hold, what is nearest."""

import networkx as nx
import numpy as np
import pytest

from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.graph_search import (
    Count,
    best_graph,
    counts_holding,
    graphs_of,
    least_mean_distance,
)
from netplan.topologies.families.joined_switches import switch_graph
from netplan.topologies.specs import FABRICS, FabricSpec


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


def every(count: Count, seeds: range) -> list[FabricSpec]:
    return [spec for family in graphs_of(count, seeds) for spec in family]


def test_a_found_graph_has_the_date_of_what_it_is_drawn_from() -> None:
    for spec in every(Count(16, 6, 4, (((4, 4), 1),)), range(1)):
        family = FABRICS.load(spec.family)
        assert spec.date == family.date
        assert spec.source.startswith("found by netplan optimize")
        assert spec.source.endswith(family.source)


def test_every_graph_of_a_count_is_one() -> None:
    asked = sizing(240, 24)
    counts = [one for one in counts_holding(240, 24) if one.switches <= 48]
    rng = np.random.default_rng(3)
    for at in rng.choice(len(counts), 12, replace=False).tolist():
        count = counts[at]
        for spec in every(count, range(2)):
            graph = switch_graph(spec, asked)
            assert (graph.switches, graph.hosts) == (count.switches, count.hosts)
            assert set(graph.degrees().tolist()) == {count.degree}
            assert graph.pair_load >= count.least_pair_load * (1 - 1e-9)
            assert build_fabric(spec, asked).switches == count.switches


def test_the_best_graph_has_the_least_busy_link_of_the_nearest() -> None:
    asked, count = sizing(300, 32), Count(20, 7, 15)
    found = best_graph(count, asked, range(4))
    # 19 others are (7 + 2 x 12) / 19 hops away at least: 31 hops over 7 links of each switch.
    assert count.least_pair_load == pytest.approx(31 / 7)
    assert found.gap == pytest.approx(found.pair_load / (31 / 7) - 1)
    # 20 / (2 w) links out of a switch for its 15 hosts.
    assert found.share == pytest.approx(20 / (2 * found.pair_load * 15))
    graphs = [switch_graph(spec, asked) for spec in every(count, range(4))]
    assert found.pair_load >= min(graph.pair_load for graph in graphs)
    nearest = min(float(graph.hops().sum()) for graph in graphs)
    assert float(switch_graph(found.spec, asked).hops().sum()) <= nearest * 1.1
    # A full mesh has one link for each pair.
    whole = best_graph(Count(8, 7, 8, (((8,), 1),)), sizing(64, 16), range(1))
    assert (whole.pair_load, whole.gap) == (1, 0)


def test_a_search_goes_on_with_the_next_seed() -> None:
    asked, count = sizing(300, 32), Count(60, 3, 5)
    loads = [best_graph(count, asked, range(at, at + 1)).pair_load for at in range(4)]
    assert len(set(loads)) > 1
    again = best_graph.__wrapped__(count, asked, range(2, 3))
    assert again.pair_load == loads[2]
