"""The failure of a single switch: the rule against graphs from which every switch is taken."""

from collections.abc import Iterator

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.faults.damage.survival import SwitchLoss, switch_loss
from netplan.topologies.build import build_fabric
from netplan.topologies.designs import DESIGNS
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import SWITCH, FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec

SPECS = {name: FABRICS.load(name) for name in FABRICS.paths()}
TWIN = DESIGNS.load("twin-plane")
assert isinstance(TWIN, FabricSpec)
SPECS["twin-plane"] = TWIN
# A dragonfly of two groups that one link joins, and a BCube of one level.
SPECS["one-link"] = SPECS["dragonfly"].changed(
    name="one-link",
    hosts_per_switch=4,
    switches_per_group=2,
    global_links_per_switch=1,
    groups=2,
    links_per_pair=1,
)
SPECS["one-level"] = SPECS["bcube"].changed(name="one-level", dimensions=1)


def sizing(gpus: int, radix: int, hb_size: int, ratio: float | None = None) -> Sizing:
    return Sizing(
        gpus, radix, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=50e9, oversubscription=ratio
    )


def lost(spec: FabricSpec, size: Sizing) -> SwitchLoss:
    return switch_loss(spec, build_fabric(spec, size))


def survives(graph: FabricGraph) -> bool:
    """Take every network switch that parts the graph, and look whether GPUs lie in both parts."""
    whole = nx.Graph(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    whole.add_nodes_from(range(graph.node_count))
    assert nx.is_connected(whole)  # then only an articulation point parts it
    for switch in nx.articulation_points(whole):
        if graph.node_kind[switch] != SWITCH:
            continue
        left = whole.copy()
        left.remove_node(switch)
        reached = nx.node_connected_component(left, 0)
        if not set(range(graph.gpus)) <= reached:
            return False
    return True


def worst_share(graph: FabricGraph) -> float:
    """Largest share of a domain's network ports under one switch, link by link."""
    at_switch = (graph.node_kind[graph.target] == SWITCH) & (graph.source < graph.gpus)
    domain, switch = graph.source[at_switch] // graph.hb_size, graph.target[at_switch]
    # Ports on boards count, too.
    outside = graph.group != (graph.group_names.index("hb") if "hb" in graph.group_names else -1)
    ends = np.concatenate([end[outside] for end in (graph.source, graph.target)])
    ports = np.bincount(ends[ends < graph.gpus] // graph.hb_size)
    shares: Iterator[float] = (
        np.bincount(switch[domain == one]).max() / ports[one] for one in np.unique(domain)
    )
    return float(max(shares, default=0.0))


@pytest.mark.parametrize("name", list(SPECS))
@pytest.mark.parametrize("gpus", [8, 16, 49, 64, 100])
@pytest.mark.parametrize("hb_size", [1, 4, 8])
def test_rule_agrees_with_the_graph(name: str, gpus: int, hb_size: int) -> None:
    radix = 64 if name == "frontier" else 16
    try:
        graph = expand(SPECS[name], sizing(gpus, radix, hb_size))
    except InputError:
        pytest.skip("no such size")
    found = lost(SPECS[name], sizing(gpus, radix, hb_size))
    assert found.survives == survives(graph)
    assert found.share == pytest.approx(worst_share(graph))


@settings(deadline=None, max_examples=120)
@given(
    st.sampled_from(list(SPECS)),
    st.integers(8, 160),
    st.sampled_from((8, 10, 12, 16, 64)),
    st.integers(1, 40),
    st.sampled_from((None, 2.0, 3.0, 7.0)),
)
def test_rule_agrees_with_any_graph(
    name: str, gpus: int, radix: int, hb_size: int, ratio: float | None
) -> None:
    size = sizing(gpus, radix, min(hb_size, gpus), ratio)
    try:
        graph = expand(SPECS[name], size)
    except InputError:
        assume(False)
    found = lost(SPECS[name], size)
    assert found.survives == survives(graph)
    assert found.share == pytest.approx(worst_share(graph))


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(("rail-optimized", "fat-tree")),
    st.integers(64, 900),
    st.sampled_from((8, 10)),
    st.integers(2, 64),
)
def test_one_uplink_a_leaf(name: str, gpus: int, radix: int, hb_size: int) -> None:
    # Seven ports down and one up: the single plane above the leaves may part them. Its top is never
    # a single switch: more than eight leaves lie under three switches of four ports up each.
    size = sizing(gpus, radix, hb_size, radix - 1.0)
    top = build_fabric(SPECS[name], size).tiers[2:]
    assert all(tier.switches > 1 for tier in top)
    graph = expand(SPECS[name], size)
    assert lost(SPECS[name], size).survives == survives(graph)


@pytest.mark.parametrize(
    ("name", "hb_size", "expected"),
    [
        # A rail a leaf: one of the domain's eight ports.
        ("rail-optimized", 8, SwitchLoss(survives=True, share=1 / 8)),
        # Radix 64 holds four rails of 16 domains: four of 64 ports.
        ("rail-only", 64, SwitchLoss(survives=True, share=4 / 64)),
        # A server lies under one leaf.
        ("fat-tree", 8, SwitchLoss(survives=False, share=1.0)),
        # Domains of 64 lie under two leaves of 32.
        ("fat-tree", 64, SwitchLoss(survives=True, share=1 / 2)),
        # 32 hosts a switch: a domain of 8 is one switch's, one of 64 is two switches'.
        ("dragonfly", 8, SwitchLoss(survives=False, share=1.0)),
        ("dragonfly", 64, SwitchLoss(survives=True, share=1 / 2)),
        ("torus-2d", 8, SwitchLoss(survives=True, share=0.0)),
    ],
)
def test_known_fabrics(name: str, hb_size: int, expected: SwitchLoss) -> None:
    assert lost(SPECS[name], sizing(1024, 64, hb_size)) == expected


def test_under_one_uplink_domains_must_lead_out() -> None:
    # Radix 8 at 7:1: ten leaves, each with one uplink, under three switches, pods of
    # unequal size. Of 64 GPUs in domains of 8 the third domain lies under leaves 2 and 3, and so
    # under two of the three. Of 68 in domains of 10 leaves 0 to 2 hold the first two domains and
    # nothing else: if the one switch above them fails, they are alone.
    spec = SPECS["fat-tree"].changed(even_pods=False)
    assert lost(spec, sizing(64, 8, 8, 7.0)) == SwitchLoss(survives=True, share=7 / 8)
    assert not lost(spec, sizing(68, 8, 10, 7.0)).survives


def test_a_last_domain_of_one_gpu_hangs_on_its_leaf() -> None:
    assert lost(SPECS["rail-optimized"], sizing(1024, 64, 8)).survives
    assert not lost(SPECS["rail-optimized"], sizing(1025, 64, 8)).survives
    assert not lost(SPECS["rail-only"], sizing(1025, 64, 8)).survives
