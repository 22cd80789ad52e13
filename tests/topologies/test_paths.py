"""Shortest paths: published averages, and networkx on small fabrics."""

import networkx as nx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.graph.paths import path_statistics
from netplan.topologies.specs import FABRICS, FabricSpec


def sizing(gpus: int, radix: int = 64, hb_size: int = 1) -> Sizing:
    return Sizing(gpus, radix, hb_size, 450e9, 50e9)


def changed(name: str, **keys: object) -> FabricSpec:
    return FabricSpec.read({**FABRICS.load(name).to_dict(), **keys})


def brute_force(graph: FabricGraph, *, through_domains: bool = False) -> tuple[int, ...]:
    view = graph.to_networkx()
    if not through_domains:
        view.remove_edges_from(
            [(a, b, k) for a, b, k, g in view.edges(keys=True, data="group") if g == "hb"]
        )
    pairs: dict[int, int] = {}
    for gpu in range(graph.gpus):
        lengths = nx.single_source_shortest_path_length(view, f"gpu-{gpu}")
        for other in range(graph.gpus):
            if other != gpu:
                distance = lengths[f"gpu-{other}"]
                pairs[distance] = pairs.get(distance, 0) + 1
    return tuple(pairs.get(d, 0) for d in range(max(pairs) + 1))


@pytest.mark.parametrize(
    ("spec", "asked", "average", "diameter"),
    [
        # (63 x 2 + 4032 x 4 + 12288 x 6) / 16383
        (FABRICS.load("rail-optimized"), sizing(16_384, 128, 8), 5.49240, 6),
        # 128 GPUs a leaf, two planes: (127 x 2 + 16256 x 4) / 16383
        (changed("rail-optimized", planes=2), sizing(16_384, 128, 8), 3.98450, 4),
        # (2 x 63 x 2 + 63 x 63 x 4) / 4095
        (FABRICS.load("bcube"), sizing(4096, 64), 3.93846, 4),
        (FABRICS.load("bcube"), sizing(16_384, 128), 3.96899, 4),
    ],
    ids=["ROFT 16384", "HPN 16384", "BCube(64,2)", "BCube(128,2)"],
)
def test_published_average_paths(
    spec: FabricSpec, asked: Sizing, average: float, diameter: int
) -> None:
    # ATOP (SIGCOMM 2025), App. K Table 6. ZCube's wiring is not published there, only its counts.
    statistics = path_statistics(expand(spec, asked))
    assert statistics.average_links == pytest.approx(average, abs=5e-6)
    assert statistics.diameter_links == diameter


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(
        ["fat-tree", "rail-optimized", "dragonfly", "torus-3d", "dgx-1", "dgx-superpod"]
    ),
    st.integers(8, 150),
    st.sampled_from([8, 12, 16]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["shortcuts", "network only"]),
)
def test_against_brute_force(
    name: str, gpus: int, radix: int, hb_size: int, shortcuts: str
) -> None:
    through_domains = shortcuts == "shortcuts" or (name == "torus-3d" and hb_size > 1)
    try:
        graph = expand(FABRICS.load(name), sizing(gpus, radix, hb_size))
    except InputError:
        assume(condition=False)
    found = path_statistics(graph, through_domains=through_domains)
    assert found.pairs == brute_force(graph, through_domains=through_domains)


def test_rail_only_needs_the_domains() -> None:
    graph = expand(FABRICS.load("rail-only"), sizing(64, 16, 8))
    with pytest.raises(InputError, match="count paths through the HB domains too"):
        path_statistics(graph)
    assert path_statistics(graph, through_domains=True).pairs == brute_force(
        graph, through_domains=True
    )


def test_a_torus_has_its_textbook_average() -> None:
    # A ring of even size s: s / 4 steps on average over all s positions, itself included.
    statistics = path_statistics(expand(FABRICS.load("torus-3d"), sizing(512)))
    assert statistics.average_links == pytest.approx(3 * (8 / 4) * 512 / 511)
    assert statistics.diameter_links == 3 * 4


def test_too_large_to_be_exact_is_refused() -> None:
    graph = expand(FABRICS.load("torus-3d"), sizing(262_144))
    with pytest.raises(InputError, match="take a smaller fabric"):
        path_statistics(graph)
