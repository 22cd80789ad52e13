"""Paths of single flows: together they are the loads of links, whatever the fabric and routing."""

import numpy as np
import pytest

from netplan import Scenario
from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph
from netplan.traffic.flow_paths import PathChoice, PathRouter, ends_at_gpu
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.routing import Router, Routing

FABRICS = (
    "fat-tree",
    "rail-optimized",
    "rail-only",
    "dragonfly",
    "torus-3d",
    "jellyfish",
    "hyperx",
)


def graph_of(fabric: str, gpus: int = 64, radix: int = 8) -> FabricGraph:
    scenario = Scenario.load("hgx-h100").replace(gpus=gpus, radix=radix, hb_size=4)
    return scenario.fabric(fabric).graph()


def pairs(gpus: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs, some of them twice, and none to itself."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, gpus, (2, 60))
    apart = source != target
    return np.repeat(source[apart], 2), np.repeat(target[apart], 2)


def carried(graph: FabricGraph, routing: Routing, way: PathChoice, seed: int = 0) -> np.ndarray:
    source, target = pairs(graph.gpus)
    rates = np.tile(graph.bytes_per_s, 2)
    paths = PathRouter(graph, routing).paths(source, target, rates, way=way, seed=seed)
    return np.bincount(paths.code, paths.share, 2 * graph.link_count)


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("seed", [0, 5])
def test_hashed_paths_are_those_of_the_loads(fabric: str, seed: int) -> None:
    graph = graph_of(fabric)
    source, target = pairs(graph.gpus)
    matrix = flows_matrix(graph.gpus, source=source, destination=target, flow_bytes=1.0)
    whole = Router(graph, "hashed").loads(matrix, np.random.default_rng(seed)).link_bytes.ravel()
    assert carried(graph, "hashed", "hashed", seed).tolist() == whole.tolist()


@pytest.mark.parametrize("fabric", ["fat-tree", "rail-only"])
def test_the_first_connection_keeps_the_path_of_one(fabric: str) -> None:
    """Also of pairs that come twice, and of those that rails relay to the same pair."""
    graph = graph_of(fabric)
    router, rates = PathRouter(graph, "hashed"), np.tile(graph.bytes_per_s, 2)
    source, target = pairs(graph.gpus)
    alone = router.paths(source, target, rates, way="hashed", seed=5)
    number = np.tile(np.arange(3), len(source))
    ends = np.repeat(source, 3), np.repeat(target, 3)
    split = router.paths(*ends, rates, way="hashed", seed=5, connection=number)
    first = split.flow % 3 == 0
    assert split.code[first].tolist() == alone.code.tolist()
    assert split.code[split.flow % 3 == 1].tolist() != alone.code.tolist()
    matrix = flows_matrix(graph.gpus, source=source, destination=target, flow_bytes=6.0)
    loads = router.carried(matrix, way="hashed", seed=5, connections=3).link_bytes.ravel()
    assert loads.tolist() == (2.0 * np.bincount(split.code, minlength=len(rates))).tolist()
    one = router.carried(matrix, way="hashed", seed=5).link_bytes
    assert one.tolist() == router.loads(matrix, np.random.default_rng(5)).link_bytes.tolist()


@pytest.mark.parametrize("routing", ["auto", "ecmp"])
@pytest.mark.parametrize("fabric", FABRICS)
def test_shares_of_split_flows_are_those_of_the_loads(fabric: str, routing: Routing) -> None:
    """Of links that are alike above a position one stands for all: what it carries is right."""
    graph = graph_of(fabric)
    source, target = pairs(graph.gpus)
    matrix = flows_matrix(graph.gpus, source=source, destination=target, flow_bytes=1.0)
    whole = Router(graph, routing).loads(matrix).link_bytes.ravel()
    found = carried(graph, routing, "split")
    named = found > 0
    assert found[named] == pytest.approx(whole[named], rel=1e-9)
    busiest = np.max(whole / np.tile(graph.bytes_per_s, 2))
    assert np.max(found / np.tile(graph.bytes_per_s, 2)) == pytest.approx(busiest, rel=1e-9)


def test_the_slowest_of_like_links_stands_for_them() -> None:
    graph = graph_of("fat-tree")
    rates = np.tile(graph.bytes_per_s, 2)
    paths = PathRouter(graph, "ecmp").paths(np.array([0]), np.array([63]), rates)
    leaf = graph.target[graph.links_with("host")[0]]
    uplinks = np.flatnonzero(graph.source == leaf).tolist()
    assert sum(code in uplinks for code in paths.code.tolist()) == 1
    rates[uplinks[-1]] *= 0.5
    slow = PathRouter(graph, "ecmp").paths(np.array([0]), np.array([63]), rates)
    assert uplinks[-1] in slow.code.tolist()
    assert slow.hops.tolist() == paths.hops.tolist() == [6.0]


@pytest.mark.parametrize(
    ("fabric", "radix"),
    [("fat-tree", 8), ("fat-tree", 16), ("fat-tree", 32), ("rail-optimized", 8)],
)
def test_static_paths_of_all_to_all_are_as_even_as_spraying(fabric: str, radix: int) -> None:
    """Equal flows that are split by their destination reach spraying's largest congestion.

    Ethereal (arXiv:2407.00550) states it for all-to-alls and rings of whole leaves. 64 GPUs fill
    three tiers of 8 ports; with 16 and 32 ports two and four links join a leaf and a spine.
    """
    graph = graph_of(fabric, radix=radix)
    source, target = (end.ravel() for end in np.divmod(np.arange(64 * 64), 64))
    apart = source != target
    rates = np.tile(graph.bytes_per_s, 2)
    busiest = [
        np.max(np.bincount(paths.code, paths.share, len(rates)) / rates)
        for way in ("static", "split")
        for paths in [PathRouter(graph, "ecmp").paths(source[apart], target[apart], rates, way=way)]
    ]
    assert busiest[0] == pytest.approx(busiest[1], rel=1e-9)


def test_static_paths_hang_on_the_destination_alone() -> None:
    graph = graph_of("fat-tree")
    rates = np.tile(graph.bytes_per_s, 2)
    router = PathRouter(graph, "ecmp")
    first, second = (
        router.paths(np.arange(2), np.full(2, 40), rates, way="static", seed=seed).code.tolist()
        for seed in (0, 9)
    )
    assert first == second
    assert sorted(set(first[1 : len(first) // 2])) == sorted(set(first[len(first) // 2 + 1 :]))


def test_what_cannot_be_routed_is_refused() -> None:
    torus = graph_of("torus-3d")
    rates = np.tile(torus.bytes_per_s, 2)
    with pytest.raises(InputError, match="static routing is of Clos"):
        PathRouter(torus, "ecmp").paths(np.array([0]), np.array([9]), rates, way="static")
    many = np.zeros(2001, np.int64)
    with pytest.raises(InputError, match="routed one by one"):
        PathRouter(torus).paths(many, many + 9, rates)


def test_links_that_end_at_a_gpu() -> None:
    graph = graph_of("rail-only")
    ends = ends_at_gpu(graph)
    assert ends[: graph.link_count].tolist() == ends[graph.link_count :].tolist()
    assert int(ends.sum()) == 2 * 2 * 64  # a link to the HB switch and one to a leaf, both ways
