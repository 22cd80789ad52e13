"""The optimum of collectives: brute force over all cuts, closed forms, symmetries, brackets."""

import csv
from fractions import Fraction
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from netplan.errors import InputError
from netplan.questions.loads import loads
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph, LinkType
from netplan.topologies.graph.flow import max_flow
from netplan.topologies.graph.symmetry import CapacityGraph, automorphism, representatives
from netplan.topologies.specs import FABRICS
from netplan.traffic.optimum import (
    _cut_without,
    _scheme,
    all_gather_optimum,
    collective_optimum,
    grown,
)

PUBLISHED = Path(__file__).parents[1] / "published" / "collectives_optimal.csv"


def graph_of(
    gpus: int, links: list[tuple[int, int]], rates: "list[float] | float", nodes: int = 0
) -> FabricGraph:
    """GPUs 0 to gpus - 1, then switches, joined by links."""
    nodes = nodes or max(map(max, links)) + 1
    ends = np.array(links, np.int32).T
    none = np.zeros(len(links), np.int32)
    return FabricGraph(
        name="drawn",
        gpus=gpus,
        hb_size=1,
        node_kind=np.where(np.arange(nodes) < gpus, 0, 2).astype(np.int8),
        node_tier=(np.arange(nodes) >= gpus).astype(np.int8),
        names=[f"node-{n}" for n in range(nodes)],
        source=ends[0],
        target=ends[1],
        source_port=none,
        target_port=none,
        bytes_per_s=np.broadcast_to(np.asarray(rates, float), len(links)).copy(),
        length_class=none.astype(np.int8),
        group=none.astype(np.int8),
        groups=(LinkType("all", "direct"),),
    )


def drawn(rng: np.random.Generator, *, directed: bool) -> FabricGraph:
    """A random connected graph of 4 to 10 nodes, at least two of them GPUs, in shuffled order."""
    nodes = int(rng.integers(4, 11))
    order = rng.permutation(nodes)
    links = [(int(a), int(b)) for a, b in zip(order, np.roll(order, -1), strict=True)]
    more = rng.integers(0, nodes, (int(rng.integers(0, 2 * nodes)), 2))
    links += [(int(a), int(b)) for a, b in more if a != b]
    rates = rng.integers(1, 8, len(links)) * 1e9
    if rng.integers(3) == 0:
        rates = rng.random(len(links)) * 1e9 + 1e6  # in no simple proportion
    gpus = nodes if directed else int(rng.integers(2, nodes + 1))
    return graph_of(gpus, links, rates.tolist(), nodes)


def brute_force_ratio(graph: FabricGraph, *, directed: bool = False) -> float:
    """Largest |S| / out(S) over every set of nodes that leaves a GPU out."""
    sets = (np.arange(1 << graph.node_count)[:, None] >> np.arange(graph.node_count)) & 1
    ends = [(graph.source, graph.target)]
    ends += [] if directed else [(graph.target, graph.source)]
    out = np.zeros(len(sets))
    for a, b in ends:
        out += (sets[:, a] * (1 - sets[:, b])) @ graph.bytes_per_s
    inside = sets[:, : graph.gpus].sum(axis=1)
    proper = (inside > 0) & (inside < graph.gpus)
    return float((inside[proper] / out[proper]).max())


@pytest.mark.parametrize("directed", [False, True])
def test_the_optimum_is_the_worst_of_all_cuts_on_random_graphs(*, directed: bool) -> None:
    rng = np.random.default_rng(11 + directed)
    for _ in range(100):
        graph = drawn(rng, directed=directed)
        found = all_gather_optimum(CapacityGraph.of(graph, directed=directed))
        worst = brute_force_ratio(graph, directed=directed)
        assert found.exact
        assert found.least_s(graph.gpus) == pytest.approx(worst, rel=1e-9)


def rows() -> list[dict[str, str]]:
    with PUBLISHED.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["network"])
def test_optima_that_forestcoll_finds(row: dict[str, str]) -> None:
    """The graph of each published row: rings, tori, one switch, domains below one network."""
    sizes = [int(size) for size in row["sizes"].split()]
    rates = [float(rate) for rate in row["bandwidth_bytes_per_s"].split()]
    gpus, kinds = int(np.prod(sizes)), row["kinds"].split()
    links: list[tuple[int, int]] = []
    at: list[float] = []
    place, stride, nodes = np.arange(gpus), 1, gpus
    for kind, size, rate in zip(kinds, sizes, rates, strict=True):
        if kind == "ring":
            after = place - place // stride % size * stride + (place // stride + 1) % size * stride
            links += zip(place.tolist(), after.tolist(), strict=True)
        else:
            whole = row["network_kind"] == "rail-optimized" and stride > 1
            switch = nodes + (0 * place if whole else place // (stride * size))
            nodes = int(switch.max()) + 1
            links += zip(place.tolist(), switch.tolist(), strict=True)
        at += [rate] * gpus
        stride *= size
    found = all_gather_optimum(CapacityGraph.of(graph_of(gpus, links, at)))
    data = float(row["data_bytes"])
    assert found.exact
    assert found.least_s(data) == pytest.approx(float(row["time_s"]), rel=1e-12)
    printed = data / found.least_s(data) / 1e9
    assert printed == pytest.approx(float(row["printed_gb_per_s"]), rel=1e-5)


@pytest.mark.parametrize(
    ("fabric", "gpus", "hb_size", "asked"),
    [
        ("rail-optimized", 8192, 8, 1),
        ("rail-only", 4608, 72, 1),
        ("torus-3d", 4096, 8, 1),
        ("dragonfly", 2048, 8, 331),
        ("rail-optimized", 1000, 8, 2),  # leaves that are not full
        ("fat-tree", 10000, 8, 846),
    ],
)
def test_few_gpus_stand_for_all(fabric: str, gpus: int, hb_size: int, asked: int) -> None:
    graph = expand(FABRICS.load(fabric), Sizing(gpus, 64, hb_size, 450e9, 50e9))
    found = all_gather_optimum(CapacityGraph.of(graph))
    assert found.exact
    assert found.representatives == asked
    # A domain sends what all others have over its network ports, or a GPU over all of its ports.
    domain = (gpus / hb_size - 1) / 50e9
    ports = (6 if fabric == "torus-3d" else 1) * 50e9
    assert found.least_s(gpus) == pytest.approx(
        max(domain * 50e9 / ports, (gpus - 1) / (450e9 + ports))
    )


def test_representatives_answer_like_all_others() -> None:
    """Two domains whose networks differ: with symmetry and, by brute force, without it."""
    links = [(g, 8 + g // 4) for g in range(8)] + [(8, 10), (9, 10), (8, 10), (0, 1)]
    rates = [10e9] * 8 + [7e9, 5e9, 2e9, 1e9]
    graph = graph_of(8, links, rates)
    found, of = representatives(CapacityGraph.of(graph))
    assert found.tolist() == [0, 2, 4]  # the pair, the two others of its domain, the other domain
    assert found[of].tolist() == [0, 0, 2, 2, 4, 4, 4, 4]
    best = all_gather_optimum(CapacityGraph.of(graph))
    assert best.least_s(8) == pytest.approx(brute_force_ratio(graph), rel=1e-12)


def test_what_refinement_cannot_tell_apart_is_asked_apart() -> None:
    """Two triangles and a hexagon, each GPU with three links: one colour, yet no automorphism."""
    links = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 6), (1, 7), (2, 8), (3, 9)]
    links += [(4, 10), (5, 11), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11), (11, 6)]
    graph = graph_of(12, links, 1e9)
    network = CapacityGraph.of(graph)
    assert len(np.unique(network.refined(network.plain_colours)[0])) == 1
    assert len(representatives(network)[0]) > 1
    assert all_gather_optimum(network).least_s(12) == pytest.approx(brute_force_ratio(graph))
    assert automorphism(network, np.roll(np.arange(12), 1)) is None


def test_without_symmetry_a_bracket_holds_the_optimum() -> None:
    view = nx.random_regular_graph(5, 64, seed=3)
    graph = graph_of(64, [(int(a), int(b)) for a, b in view.edges], 50e9)
    told: list[tuple[int, int]] = []
    exact = all_gather_optimum(
        CapacityGraph.of(graph), tell=lambda done, of: told.append((done, of))
    )
    assert exact.exact
    assert exact.representatives == 64
    assert told == [(n, 64) for n in range(65)]
    assert exact.left == 0
    assert exact.asked < 64  # most are proven from those that were asked
    part = all_gather_optimum(CapacityGraph.of(graph), work=1)
    assert (part.asked, part.left, part.exact) == (1, 63, False)
    assert part.least_s(1e9) <= exact.least_s(1e9) < part.most_s(1e9)
    # 64 GPUs get 63 shards each over five links: 12.6 shards a link. Trees use links both ways,
    # and some more than others, yet many of them come near.
    assert part.reached is not None
    assert part.reached <= Fraction(63, 5) * Fraction(3, 2)


def test_a_scheme_on_switches_goes_round_a_tree() -> None:
    """Eight GPUs at one switch: 7 parts over each link, which is the optimum, too."""
    graph = graph_of(8, [(g, 8) for g in range(8)], 50e9)
    assert _scheme(CapacityGraph.of(graph)) == 7


def test_switches_that_take_more_than_they_send_prove_nothing() -> None:
    """One GPU sends 4 into a switch that sends 1 to the other, which answers directly."""
    graph = graph_of(2, [(0, 2), (2, 1), (1, 0)], [4e9, 1e9, 1e9])
    found = all_gather_optimum(CapacityGraph.of(graph, directed=True))
    assert not found.exact
    assert found.least_s(2) == pytest.approx(1e-9)
    assert found.most_s(2) == np.inf


def test_flows_of_any_size_are_exact() -> None:
    rng = np.random.default_rng(5)
    for scale in (1, 10**12):
        view = nx.gnp_random_graph(12, 0.4, seed=2, directed=True)
        for a, b in view.edges:
            view[a][b]["capacity"] = int(rng.integers(1, 100)) * scale + int(rng.integers(scale))
        tail, head = zip(*view.edges, strict=True)
        value = [view[a][b]["capacity"] for a, b in view.edges]
        flow, side = max_flow(12, (tail, head, value), source=0, sink=11)
        assert flow == nx.maximum_flow_value(view, 0, 11)
        cut = [c for a, b, c in zip(tail, head, value, strict=True) if side[a] and not side[b]]
        assert sum(cut) == flow


def test_what_joins_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="do not join all GPUs"):
        all_gather_optimum(CapacityGraph.of(graph_of(4, [(0, 1), (2, 3)], 1e9)))
    with pytest.raises(InputError, match="needs two"):
        all_gather_optimum(CapacityGraph.of(graph_of(1, [(0, 1)], 1e9)))


@pytest.mark.parametrize("fabric", ["rail-optimized", "torus-3d"])
def test_loads_show_the_optimum_beside_model_and_links(fabric: str) -> None:
    answer = loads(
        "rail-only-paper",
        gpus=512,
        radix=64,
        hb_size=8,
        accelerator="h100-80gb",
        model="gpt-22b",
        fabric=fabric,
    )
    gather, reduce = answer.to_dict()["whole_fabric"]
    # 64 domains of 8: 63 send a domain what they have, 63/64 of 1 GB over 8 x 50 GB/s.
    assert gather["optimum_s"] == pytest.approx(63 / 64 * 1e9 / 400e9)
    assert reduce["optimum_s"] == pytest.approx(2 * gather["optimum_s"])
    for one in (gather, reduce):
        assert one["optimum_s"] <= one["busiest_s"] <= one["analytic_s"]
    assert "the best of all ways" in answer.text(details=True)


def test_proofs_that_grow_agree_with_asking_everybody() -> None:
    """What is proven from others is never more than what its own flow says."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        network = CapacityGraph.of(drawn(rng, directed=False))
        best = all_gather_optimum(network)
        for ratio in (best.ratio, best.ratio * Fraction(9, 10)):
            worst = (ratio, best.outside)
            # A GPU is fed enough at a ratio if asking it finds no worse cut.
            enough = np.array(
                [
                    _cut_without(network, network.quotient(gpu), gpu, worst) is worst
                    for gpu in range(network.gpus)
                ]
            )
            start = np.zeros(network.nodes, bool)
            start[: network.gpus][enough.nonzero()[0][:1]] = True
            found = grown(network, ratio, start, 50)[: network.gpus]
            assert not (found & ~enough).any()
            if ratio == best.ratio:
                assert enough.all()


def test_an_all_reduce_says_what_is_proven() -> None:
    """GPUs of 50, 50 and 25 GB/s at a switch: the pair takes 2 x 2/3 over the slowest port."""
    graph = graph_of(3, [(0, 3), (1, 3), (2, 3)], [50e9, 50e9, 25e9])
    found = collective_optimum("all_reduce", CapacityGraph.of(graph))
    assert found.reached_s_per_byte == pytest.approx(4 / 3 / 25e9)
    # One message through the slowest port; all three ports move 2 x 2 messages: 4 / 125e9 is less.
    assert found.bound_s_per_byte == pytest.approx(1 / 25e9)
    assert not found.exact
    assert found.gap == pytest.approx(1 / 3)
    assert any("not known" in note for note in found.notes())
    # Four domains of two behind slow ports: 2 x 3 messages between them over 4 x 20 GB/s.
    links = [(g, 8 + g // 2) for g in range(8)] + [(8 + d, 12) for d in range(4)]
    domains = graph_of(8, links, [90e9] * 8 + [20e9] * 4)
    tight = collective_optimum("all_reduce", CapacityGraph.of(domains))
    assert tight.exact
    assert tight.bound_s_per_byte == pytest.approx(6 / 80e9)


@pytest.mark.slow
@pytest.mark.parametrize("fabric", ["rail-optimized", "rail-only", "fat-tree", "torus-3d"])
def test_a_hundred_thousand_gpus_are_exact(fabric: str) -> None:
    graph = expand(FABRICS.load(fabric), Sizing(131_072, 64, 8, 450e9, 50e9))
    found = all_gather_optimum(CapacityGraph.of(graph))
    assert (found.exact, found.representatives) == (True, 1)
    joint, domain = 131_071 / (750e9 if fabric == "torus-3d" else 500e9), 16_383 / 50e9
    expected = max(joint, 0 if fabric == "torus-3d" else domain)
    assert found.least_s(131_072) == pytest.approx(expected)
