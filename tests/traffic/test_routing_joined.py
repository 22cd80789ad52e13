"""Switches joined directly: no bound above the busiest link, no busiest link above the model."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.graph import GPU, FabricGraph
from netplan.traffic.hierarchy import CollectiveNetwork
from netplan.traffic.matrix import KINDS, UniformGroups, combine, flows_matrix, no_traffic
from netplan.traffic.placement import DATA, EXPERT, Degrees, Placement, Placements
from netplan.traffic.routing import link_loads
from netplan.traffic.routing_ecmp import ecmp_loads, make_arcs
from netplan.traffic.routing_joined import direct_share, joined_map
from tests.topologies.kinds import JOINED
from tests.traffic.test_leaves import (
    GB,
    PHASED,
    built,
    loads_of,
    model_s,
    network_alone,
    network_busiest_s,
)

PORT = 50e9
FAMILIES = (*JOINED, "dragonfly")
ROUNDING, SPINES = 1e-9, 0.01
"""Spines of small dragonfly+ reach groups unevenly: what only some leaves send may take as much
longer than by the model, which knows what one leaf sends, and all."""


def small(fabric: Fabric) -> float:
    """How much longer links may take than the model."""
    return 1 + (SPINES if fabric.name == "dragonfly-plus" else ROUNDING)


@st.composite
def cases(draw: st.DrawFn, dimension: str) -> tuple[Fabric, FabricGraph, Placement]:
    """A fabric of any size, and a group that crosses its HB domains."""
    name, radix = draw(st.sampled_from(FAMILIES)), draw(st.sampled_from((8, 12, 16, 32)))
    hb_size = draw(st.sampled_from((1, 2, 3, 4, 8)))
    gpus = draw(st.integers(4 * hb_size + 4, 300))
    try:
        fabric, graph = built(name, Sizing(gpus, radix, hb_size, 450e9, PORT))
    except InputError:
        assume(condition=False)
    inside = draw(st.sampled_from([n for n in range(1, hb_size + 1) if hb_size % n == 0]))
    domains = gpus // hb_size
    members = draw(st.integers(2, domains))
    tensor = draw(st.integers(1, domains // members))
    others = draw(st.integers(1, domains // members // tensor))
    beside = "data" if dimension == "pipeline" else "pipeline"
    inner = Degrees(**{dimension: inside, "tensor": hb_size // inside})
    outer = Degrees(**{"tensor": tensor, dimension: members, beside: others})
    return fabric, graph, Placement((inner, outer), (hb_size, domains))


@settings(deadline=None, max_examples=25)
@given(cases("data"))
def test_rings_are_never_slower_than_the_model(case: tuple[Fabric, FabricGraph, Placement]) -> None:
    fabric, graph, placement = case
    found = network_busiest_s(loads_of(graph, placement, "all_gather", "hierarchical"))
    assert found <= model_s(fabric, placement, "all_gather", PHASED, DATA) * small(fabric)


@settings(deadline=None, max_examples=25)
@given(cases("expert"))
def test_all_to_alls_are_never_slower_than_the_model(
    case: tuple[Fabric, FabricGraph, Placement],
) -> None:
    fabric, graph, placement = case
    over = ("expert",)
    found = network_busiest_s(loads_of(graph, placement, "all_to_all", "hierarchical", over))
    assert found <= model_s(fabric, placement, "all_to_all", PHASED, EXPERT) * small(fabric)


@settings(deadline=None, max_examples=25)
@given(cases("pipeline"))
def test_hops_are_never_slower_than_the_model(case: tuple[Fabric, FabricGraph, Placement]) -> None:
    fabric, graph, placement = case
    _, slowest = CollectiveNetwork(network_alone(fabric), PHASED).hops(Placements.of(placement))
    chain = placement.gpu_of_rank[placement.groups("pipeline", snake=True)]
    flows = flows_matrix(
        graph.gpus, source=chain[:, :-1], destination=chain[:, 1:], flow_bytes=GB, kind="pipeline"
    )
    found = network_busiest_s(link_loads(graph, flows))
    assert found <= float(slowest.sending_s(GB)[0]) * small(fabric)


@pytest.mark.parametrize("name", JOINED)
def test_detours_by_brute_force(name: str) -> None:
    _, graph = built(name, Sizing(60, 8 if name != "slim-fly" else 12, 1, 450e9, PORT))
    flows = flows_matrix(60, source=[0, 1, 7], destination=[59, 30, 20], flow_bytes=[3.0, 5.0, 1.0])
    found = link_loads(graph, flows, routing="valiant").link_bytes
    joined = joined_map(graph, np.arange(graph.link_count))
    (plane,) = joined.planes
    hosts = plane.node[: len(plane.group)]
    expected = np.zeros_like(found)
    ends = graph.source, graph.target, graph.node_kind != GPU
    arcs = make_arcs(*ends, plane.links, weight=joined.weight)

    @lru_cache
    def unit(here: int, there: int) -> Floats:
        return ecmp_loads(arcs, np.array([here]), np.array([there]), np.ones(1)).reshape(2, -1)

    for number in range(3):
        gpus = flows.source[number], flows.destination[number]
        for end, way in zip(gpus, (0, 1), strict=True):
            link = int(np.flatnonzero(graph.source == end)[0])
            expected[way, link] += flows.flow_bytes[number]
        first, last = (int(joined.switch[joined.gpu == end][0]) for end in gpus)
        groups = [plane.group[plane.number[one]] for one in (first, last)]
        assert first != last
        if plane.hubs and groups[0] == groups[1]:
            expected += flows.flow_bytes[number] * unit(first, last)
            continue
        for via in hosts.tolist():
            for here, there in ((first, via), (via, last)):
                if here != there:
                    expected += flows.flow_bytes[number] / len(hosts) * unit(here, there)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_uniform_groups_are_routed_as_their_flows_one_by_one(name: str) -> None:
    _, graph = built(name, Sizing(200, 24, 4, 450e9, PORT))
    members = np.random.default_rng(0).permutation(200).astype(np.int32).reshape(5, -1)
    groups = (UniformGroups(members, 2.0, KINDS.index("expert")),)
    matrix = replace(no_traffic(200), groups=groups)
    found, listed = (link_loads(graph, one) for one in (matrix, combine([matrix.listed()])))
    np.testing.assert_allclose(found.link_bytes, listed.link_bytes, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 1000))
def test_the_best_mix_is_that_of_a_fine_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.random((2, 2, 6)) * rng.integers(0, 3, (2, 2, 6))
    rate, least = rng.random((2, 6)) + 0.5, float(rng.random())
    share = direct_share(one, other, rate, least)
    found = float(((share * one + (1 - share) * other) / rate).max())
    shares = np.linspace(0, 1, 2001)[:, None, None]
    grid = ((shares * one + (1 - shares) * other) / rate).max(axis=(1, 2))
    assert max(least, found) <= max(least, float(grid.min())) * (1 + 1e-9)
    assert found >= float(grid.min()) - 0.002 * (one / rate + other / rate).max()


def test_rings_of_whole_switches_by_hand() -> None:
    # 12 x 11 switches of 11 hosts, each of which sends to the one 11 places on: 11 from a switch
    # to the next, over one link. On detours each of 132 switches sends and takes 11 / 132 to and
    # from each other one, and the links of the short side carry 12 such pairs: 2 x 11 x 12 / 132.
    _, graph = built("hyperx", Sizing(1452, 32, 1, 450e9, PORT))
    gpu = np.arange(1452)
    ring = flows_matrix(1452, source=gpu, destination=(gpu + 11) % 1452, flow_bytes=PORT)
    assert link_loads(graph, ring, routing="ecmp").busiest_s == pytest.approx(11)
    assert link_loads(graph, ring, routing="valiant").busiest_s == pytest.approx(2)
    assert 1.9 < link_loads(graph, ring).busiest_s <= 2 + 1e-9


def test_adaptive_routing_is_for_joined_switches() -> None:
    _, graph = built("fat-tree", Sizing(64, 16, 8, 450e9, PORT))
    flows = flows_matrix(64, source=[0], destination=[40], flow_bytes=1.0)
    with pytest.raises(InputError, match="nor are its switches joined directly"):
        link_loads(graph, flows, routing="adaptive")
