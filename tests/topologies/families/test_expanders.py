"""Circulants and Xpanders: networkx, closed forms, mean distances, refusals."""

import networkx as nx
import numpy as np
import pytest

from netplan.errors import InputError
from netplan.questions.loads import loads
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.circulant import (
    circulant_distance,
    circulant_links,
    circulant_strides,
    drawn_strides,
)
from netplan.topologies.families.joined_switches import SwitchGraph, switch_graph, uniform_share
from netplan.topologies.families.regular import mean_distance
from netplan.topologies.families.xpander import lifted_links
from netplan.topologies.graph import network_only
from netplan.topologies.specs import FABRICS, FabricSpec
from tests.topologies.kinds import DIRECT
from tests.topologies.test_graph import check


def spec(name: str, **keys: object) -> FabricSpec:
    return FABRICS.load(name).changed(**keys)


def network(name: str, gpus: int, radix: int = 64, **keys: object) -> SwitchGraph:
    return switch_graph(spec(name, **keys), Sizing(gpus, radix, 1, 450e9, 50e9))


def view(low: np.ndarray, high: np.ndarray) -> nx.Graph:
    return nx.Graph(zip(low.tolist(), high.tolist(), strict=True))


@pytest.mark.parametrize(
    ("switches", "strides"), [(13, (1, 5)), (30, (2, 3, 15)), (50, (1, 7, 12, 20)), (7, (1, 2, 3))]
)
def test_circulants_are_those_of_networkx(switches: int, strides: tuple[int, ...]) -> None:
    known = nx.circulant_graph(switches, list(strides))
    low, high = circulant_links(switches, strides)
    assert len(low) == known.number_of_edges()
    assert nx.utils.graphs_equal(nx.Graph(known), view(low, high))
    distance = nx.average_shortest_path_length(known)
    assert circulant_distance(switches, strides) == pytest.approx(distance, rel=1e-12)


def test_two_strides_are_as_near_as_a_circulant_can_be() -> None:
    # Of two strides the ball of k hops has 2 k^2 + 2 k + 1 points: 13 for two hops, so that 4 are
    # one hop away and 8 two, on average 20 / 12. Strides k and k + 1 of that many reach it.
    for hops in (2, 3, 4):
        switches = 2 * hops**2 + 2 * hops + 1
        least = sum(hop * 4 * hop for hop in range(1, hops + 1)) / (switches - 1)
        found = circulant_distance(switches, (hops, hops + 1))
        assert found == pytest.approx(least, rel=1e-12)
        assert circulant_distance(switches, circulant_strides(switches, 4, 0)) == pytest.approx(
            least, rel=1e-12
        )


def test_strides_get_better_and_are_the_same_again() -> None:
    drawn, found = drawn_strides(400, 12, 3), circulant_strides(400, 12, 3)
    assert len(drawn) == len(found) == 6
    assert circulant_distance(400, found) < circulant_distance(400, drawn)
    assert circulant_strides.__wrapped__(400, 12, 3) == found != circulant_strides(400, 12, 4)


@pytest.mark.parametrize(("each", "degree"), [(1, 7), (4, 5), (9, 12)])
def test_xpanders_are_lifts_of_complete_graphs(each: int, degree: int) -> None:
    low, high = lifted_links(each, degree, seed=2)
    graph, groups = view(low, high), degree + 1
    assert graph.number_of_nodes() == each * groups
    assert graph.number_of_edges() == len(low) == each * groups * degree // 2
    for switch in graph:
        others = sorted(other // each for other in graph[switch])
        assert others == [group for group in range(groups) if group != switch // each]
    assert nx.is_connected(graph)


def test_xpanders_are_as_near_as_random_graphs() -> None:
    # 25 groups of 16 switches, 24 links each.
    length = nx.average_shortest_path_length(view(*lifted_links(16, 24, seed=1)))
    assert length == pytest.approx(mean_distance(400, 24), rel=0.01)


@pytest.mark.parametrize("name", ["circulant", "xpander"])
def test_full_designs_keep_the_rate(name: str) -> None:
    for gpus, radix in ((1024, 32), (2000, 24), (5000, 64)):
        graph = network(name, gpus, radix)
        assert graph.capacity >= gpus
        assert uniform_share(graph, graph.capacity) > 0.99
        assert set(graph.degrees() + graph.hosts) <= set(range(radix + 1))


def test_given_shapes_stand() -> None:
    graph = network("circulant", 40, strides=(1, 5), hosts_per_switch=4)
    # 40 / 4 = 10 switches, of which 5 is half: three links each.
    assert (graph.switches, set(graph.degrees().tolist())) == (10, {3})
    graph = network("circulant", 40, 16, strides=(2, 4), hosts_per_switch=4)
    assert graph.switches == 11  # 10 switches would fall into parts
    graph = network("xpander", 100, switches=30, degree=5, hosts_per_switch=4)
    assert (graph.switches, graph.tiers[0][1].shape) == (30, (6, 5))
    assert network("xpander", 30).switches == network("circulant", 30).switches == 1


@pytest.mark.parametrize(
    ("name", "keys", "told"),
    [
        ("circulant", {"strides": (1, 1)}, "strides are different, got 1, 1: change"),
        (
            "circulant",
            {"strides": (1, 5), "switches": 13, "degree": 6},
            "strides 1, 5 give each of 13 switches 4 links to others, got degree 6: leave degree",
        ),
        ("circulant", {"strides": (1, 10**12)}, "more than 4,194,304: lower switches"),
        ("jellyfish", {"switches": 10**9, "degree": 4}, "more than 4,194,304: lower switches"),
        ("circulant", {"strides": (1, 9), "switches": 12}, "raise switches to 18"),
        ("circulant", {"strides": (2, 4), "switches": 12}, "nearest that work are 13 switches"),
        (
            "circulant",
            {"switches": 13, "degree": 5, "hosts_per_switch": 8},
            "65 ends, which is odd",
        ),
        ("xpander", {"switches": 31, "degree": 5}, "6 groups of .* the nearest that work are 30"),
        (
            "xpander",
            {"switches": 31, "hosts_per_switch": 40},
            "31 switches make no groups of equal",
        ),
    ],
)
def test_bad_parameters_are_one_line(name: str, keys: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        network(name, 100, 64, **keys)


@pytest.mark.parametrize("name", DIRECT)
@pytest.mark.parametrize(
    ("gpus", "hb_size"), [(64, 1), (250, 8), (101, 4), (9, 3), (8, 8), (9, 8), (13, 8)]
)
def test_direct_graphs_are_alike_on_every_rail(name: str, gpus: int, hb_size: int) -> None:
    asked = Sizing(gpus, 16, hb_size, 450e9, 50e9, shared_port=True)
    check(spec(name), asked)
    fabric = build_fabric(spec(name), asked)
    domains, full = -(-gpus // hb_size), gpus // hb_size
    degree = min(6, domains - 1) - min(6, domains - 1) * domains % 2
    graph = network_only(expand(spec(name), asked))
    rails = [
        {
            (a // hb_size, b // hb_size)
            for a, b in zip(graph.source.tolist(), graph.target.tolist(), strict=True)
            if a % hb_size == rank and b // hb_size < full
        }
        for rank in range(hb_size)
    ]
    assert all(rail == rails[0] for rail in rails)
    assert fabric.switches == 0
    # All of a full domain's GPUs have their links, but those to ranks that the last one lacks.
    assert fabric.nic_ports == 2 * fabric.link_count <= degree * gpus
    if gpus % hb_size == 0:
        assert fabric.nic_ports == degree * gpus
    rest = gpus % hb_size if full == 1 else 0
    # Beside one full domain, the ranks that the other lacks have nobody to be joined with.
    alone = f"{hb_size - rest} GPUs have no link" if rest else "no link, since"
    assert any(alone in note for note in fabric.notes) == bool(rest)
    if degree:
        assert fabric.ports_per_gpu >= 1
        assert fabric.sizing.network_bytes_per_s == pytest.approx(50e9 / degree)


def test_a_degree_that_the_strides_make_stands() -> None:
    # Strides 1 and 20 of 40: two links and one.
    asked = Sizing(40, 16, 1, 450e9, 50e9)
    said = build_fabric(spec("direct-circulant", strides=(1, 20), degree=3), asked)
    assert said.links == build_fabric(spec("direct-circulant", strides=(1, 20)), asked).links
    assert network("circulant", 40, strides=(1, 5), hosts_per_switch=4, degree=3).switches == 10


def test_direct_circulants_are_those_of_networkx() -> None:
    asked = Sizing(40, 16, 1, 450e9, 50e9)
    graph = expand(spec("direct-circulant", strides=(1, 7, 20)), asked)
    found = view(graph.source, graph.target)
    assert nx.utils.graphs_equal(found, nx.Graph(nx.circulant_graph(40, [1, 7, 20])))
    drawn = expand(spec("direct-random", degree=5, seed=3), asked)
    assert {each for _, each in view(drawn.source, drawn.target).degree} == {5}


@pytest.mark.parametrize("name", DIRECT)
def test_rates_of_direct_graphs_are_what_links_carry(name: str) -> None:
    answer = loads("rail-only-paper", gpus=64, hb_size=1, fabric=name, accelerator="h100-80gb",
                   model="gpt-22b",
                   batch=64, ports="full")  # fmt: skip
    (gather, _) = answer.to_dict()["whole_fabric"]
    # 63/64 of 1 GB come in over six links of 50 GB/s, whichever are joined.
    assert gather["optimum_s"] == pytest.approx(63 / 64 * 1e9 / 300e9)
    assert gather["optimum_s"] <= gather["busiest_s"] <= gather["analytic_s"] * (1 + 1e-9)
    for row in answer.collectives:
        assert row.bound_s <= row.busiest_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"strides": (1, 40)}, "at most half of the 64 HB domains, got 1, 40"),
        ({"strides": (2, 4)}, "share the divisor 2"),
        ({"strides": (1, 5), "degree": 3}, "64 HB domains 4 links to others, got degree 3: leave"),
        ({"degree": 64}, "64 HB domains cannot have 64 links .* the nearest degree .* is 63"),
        ({"degree": 2}, "give degree 3 or more"),
    ],
)
def test_direct_graphs_refuse_what_cannot_be(keys: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        build_fabric(spec("direct-circulant", **keys), Sizing(64, 16, 1, 450e9, 50e9))
