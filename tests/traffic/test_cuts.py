"""Cut and flow bounds of graphs, against closed forms and brute force."""

import csv
from itertools import combinations
from pathlib import Path
from typing import get_args

import networkx as nx
import numpy as np
import pytest

from netplan.errors import InputError
from netplan.levels import Level
from netplan.records import replace
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.graph.symmetry import CapacityGraph
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.algorithms import Collective
from netplan.traffic.bounds import lower_bound
from netplan.traffic.collectives import all_gather_bound_s
from netplan.traffic.optimum import _all_to_all_flow_s, all_gather_optimum, collective_bound_s

COLLECTIVES = get_args(Collective)
PUBLISHED = Path(__file__).parents[1] / "published" / "allgather_bound.csv"


def all_gather_s(graph: FabricGraph, data_bytes: float) -> float:
    """The optimum, which is proven."""
    optimum = all_gather_optimum(CapacityGraph.of(graph))
    assert optimum.least_s(data_bytes) == optimum.most_s(data_bytes)
    return optimum.least_s(data_bytes)


def grid(name: str, x: int, y: int, rates: tuple[float, float], **changes: object) -> FabricGraph:
    """x GPUs per HB domain, y domains; C_F and C_S."""
    spec = FabricSpec.read(FABRICS.load(name).to_dict() | changes)
    return expand(spec, Sizing(x * y, max(8, x * y + x * y % 2), x, *rates))


def brute_force_ratio(graph: FabricGraph) -> float:
    """Largest |S| / out(S) over all sets of GPUs; out(S) is a minimum cut of networkx."""
    view = nx.DiGraph()
    for a, b, rate in zip(graph.source, graph.target, graph.bytes_per_s, strict=True):
        for one, two in ((int(a), int(b)), (int(b), int(a))):
            known = view.get_edge_data(one, two, {"capacity": 0.0})["capacity"]
            view.add_edge(one, two, capacity=known + float(rate))
    best = 0.0
    for size in range(1, graph.gpus):
        for inside in combinations(range(graph.gpus), size):
            ends = view.copy()
            ends.add_edges_from(("source", g) for g in inside)
            ends.add_edges_from((g, "sink") for g in range(graph.gpus) if g not in inside)
            best = max(best, size / nx.minimum_cut_value(ends, "source", "sink"))
    return best


@pytest.mark.parametrize(
    ("x", "y", "ratio"),
    [(2, 4, 4.0), (4, 2, 0.5), (4, 4, 4.0), (2, 8, 9.0), (8, 2, 18.0), (4, 4, 0.1)],
)
@pytest.mark.parametrize("fabric", ["rail-only", "rail-optimized"])
def test_the_theorem_holds_on_the_graph(fabric: str, x: int, y: int, ratio: float) -> None:
    graph = grid("rail-only", x, y, (ratio * 10e9, 10e9), hb_planes=1)
    if fabric == "rail-optimized":
        graph = grid("fat-tree", x, y, (ratio * 10e9, 10e9))  # one switch, which never blocks
    elif len(np.unique(graph.target[graph.links_of("host")])) < x:
        graph = separate_rails(graph)
    found = all_gather_s(graph, 1e9)
    expected = all_gather_bound_s(1e9, x, y, ratio * 10e9, 10e9, fabric)  # type: ignore[arg-type]
    assert found == pytest.approx(float(expected), rel=1e-9)


def separate_rails(graph: FabricGraph) -> FabricGraph:
    """Give each rail a switch of its own, which small rails would share."""
    hosts = graph.links_of("host")
    target = graph.target.copy()
    base = int(graph.target[hosts].min())
    target[hosts] = base + graph.source[hosts] % graph.hb_size
    missing = base + graph.hb_size - graph.node_count
    kinds = np.concatenate([graph.node_kind, np.full(missing, 2, np.int8)])
    tiers = np.concatenate([graph.node_tier, np.full(missing, 1, np.int8)])
    return replace(graph, target=target, node_kind=kinds, node_tier=tiers)


def test_published_bounds_are_the_optimum_of_small_grids() -> None:
    with PUBLISHED.open() as file:
        rows = [row for row in csv.DictReader(file) if 8 <= int(row["x"]) * int(row["y"]) <= 128]
    assert len(rows) == 3
    for row in rows:
        x, y = int(row["x"]), int(row["y"])
        rates = float(row["C_F"]) * 1e9, float(row["C_S"]) * 1e9
        shard = 1e9
        optimized = all_gather_s(grid("fat-tree", x, y, rates), shard * x * y)
        rails = all_gather_s(separate_rails(grid("rail-only", x, y, rates)), shard * x * y)
        assert optimized == pytest.approx(float(row["T_rail_optimized"]), rel=1e-9)
        assert rails == pytest.approx(float(row["T_rail_only"]), rel=1e-9)


@pytest.mark.parametrize(
    "graph",
    [
        separate_rails(grid("rail-only", 4, 2, (30e9, 10e9))),
        grid("fat-tree", 2, 4, (70e9, 10e9)),
        grid("torus-3d", 1, 8, (1e9, 10e9), sizes=(4, 2)),
        grid("dgx-1", 8, 1, (300e9, 10e9)),
    ],
    ids=["rails", "one switch", "torus", "hybrid cube mesh"],
)
def test_max_flow_equals_brute_force_over_all_sets(graph: FabricGraph) -> None:
    found = all_gather_s(graph, float(graph.gpus))
    assert found == pytest.approx(brute_force_ratio(graph), rel=1e-9)


@pytest.mark.parametrize(
    ("sizes", "levels"),
    [
        ((4, 4), [Level("ring", 4, 10e9), Level("ring", 4, 10e9)]),
        ((8,), [Level("ring", 8, 10e9)]),
        ((3, 2, 2), [Level("ring", 3, 10e9), Level("ring", 2, 10e9), Level("ring", 2, 10e9)]),
    ],
)
def test_bounds_of_tori_equal_those_of_their_levels(
    sizes: tuple[int, ...], levels: list[Level]
) -> None:
    graph = grid("torus-3d", 1, int(np.prod(sizes)), (1e9, 10e9), sizes=sizes)
    for collective in COLLECTIVES:
        closed = lower_bound(collective, levels, data_bytes=1e9).bound_s
        exact = collective_bound_s(collective, graph, 1e9)
        assert exact == pytest.approx(closed, rel=1e-6)


def test_all_to_all_on_rails_by_hand() -> None:
    """4 GPUs a domain, 4 domains. Every GPU sends D/16 to each of 12 GPUs elsewhere over its port.

    Forwarding inside the fast domain is free, so the ports bind: 12/16 x 1e9 / 10e9 = 0.075 s.
    """
    graph = separate_rails(grid("rail-only", 4, 4, (400e9, 10e9)))
    assert _all_to_all_flow_s(graph, 1e9) == pytest.approx(0.075, rel=1e-6)
    # Slow domains bind instead: 3 of 4 rails are reached only through the domain, so a GPU moves
    # 3 x 1/16 inside and 3 x 3/16 to change rails: 12/16 x 1e9 / 1e9.
    slow = separate_rails(grid("rail-only", 4, 4, (1e9, 10e9)))
    assert _all_to_all_flow_s(slow, 1e9) == pytest.approx(0.75, rel=1e-6)


def test_all_reduce_on_one_switch_by_hand() -> None:
    """8 GPUs on one switch: 2 x 7/8 D / B; the switch forwards, but does not add."""
    graph = grid("fat-tree", 1, 8, (1e9, 10e9))
    assert collective_bound_s("all_reduce", graph, 1e9) == pytest.approx(2 * 7 / 8 * 0.1)


def test_what_cannot_be_answered_is_refused() -> None:
    graph = grid("fat-tree", 2, 8, (20e9, 10e9))
    cut = replace(graph, bytes_per_s=np.where(graph.group == 0, graph.bytes_per_s, 0.0))
    for collective in COLLECTIVES:
        with pytest.raises(InputError, match="do not join all GPUs"):
            collective_bound_s(collective, cut, 1e9)
    with pytest.raises(InputError, match="unknown collective"):
        collective_bound_s("gossip", graph, 1e9)  # type: ignore[arg-type]
    large = replace(graph, gpus=2048)
    with pytest.raises(InputError, match="at most 1,024"):
        collective_bound_s("all_reduce", large, 1e9)
