"""Growth: every phase a part of the final design, port by port, that does not block by itself."""

from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from netplan.errors import InputError
from netplan.questions.cable_comparison import compare_cables, rehearse_files
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.as_built import cables_of, cabling_differences, ports_twice
from netplan.topologies.cabling.rehearsal import find_tools
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.clos import fat_tree, leaf_ports
from netplan.topologies.formats.subnet_files import ibnetdiscover_lines
from netplan.topologies.graph import GPU, FabricGraph
from netplan.topologies.growth import Fill, Growth, PhasePrices, best_fills, plan_growth
from netplan.topologies.specs import FABRICS

SMALL = Sizing(128, 8, 4, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
"""128 GPUs on switches of 8 ports: 32 leaves in 8 pods of 4, 32 spines, 16 cores."""


def grown(
    name: str, sizing: Sizing, *phases: int, early: float = 1.0, full: bool = False
) -> Growth:
    """Grow a fabric, early switches and links costing alike."""
    weights = PhasePrices(1.0, 0.1, (*[1.0] * (len(phases) - 1), 0.0))
    spec = FABRICS.load(name)
    return plan_growth(
        spec, sizing, phases, weights, early_oversubscription=early, full_leaves=full
    )


def switches(growth: Growth) -> list[list[int]]:
    """Switches by tier of every phase."""
    return [[tier.switches for tier in one.fabric.tiers] for one in growth.phases]


def bisection(graph: FabricGraph, first: np.ndarray) -> float:
    """Largest flow, in links, from some GPUs to all others."""
    network = nx.Graph()
    for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        known = network.get_edge_data(source, target, {"capacity": 0})["capacity"]
        network.add_edge(source, target, capacity=known + 1)
    for gpu in range(graph.gpus):
        network.add_edge("from" if first[gpu] else "to", gpu)  # without a limit
    return float(nx.maximum_flow_value(network, "from", "to"))


CASES = [
    ("rail-optimized", SMALL, (24, 64, 128)),
    ("fat-tree", SMALL, (16, 100, 128)),
    ("uneven-clos", SMALL, (36, 128)),
    ("rail-only", Sizing(256, 8, 4, 450e9, 50e9), (48, 128, 256)),
    ("rail-only", Sizing(32, 8, 4, 450e9, 50e9), (8, 32)),
    ("dgx-superpod", SMALL, (32, 48, 128)),
    ("rail-optimized", Sizing(128, 16, 8, 450e9, 50e9), (24, 72, 128)),
]


@pytest.mark.parametrize(("name", "sizing", "phases"), CASES)
def test_a_phase_is_a_part_of_the_next_one_and_its_ports_close(
    name: str, sizing: Sizing, phases: tuple[int, ...]
) -> None:
    growth = grown(name, sizing, *phases)
    final = build_fabric(FABRICS.load(name), sizing)
    last = growth.phases[-1].fabric
    assert [tier.switches for tier in last.tiers] == [tier.switches for tier in final.tiers]
    assert [group.links for group in last.links] == [group.links for group in final.links]
    plans = [list(cables_of(growth.graph_of(at))) for at in range(len(phases))]
    for before, after in pairwise(plans):
        found = cabling_differences(before, after)
        assert {one.kind for one in found} == {"extra"}  # laid beside those that stay
        assert len(found) == len(after) - len(before)
    for at, (plan, phase) in enumerate(zip(plans, growth.phases, strict=True)):
        graph = growth.graph_of(at)
        assert not list(ports_twice(plan))
        degree = np.bincount(np.concatenate((graph.source, graph.target)))
        assert degree.max() <= growth.fabric.sizing.radix
        assert degree[: graph.gpus].tolist() == [1] * phases[at]  # every GPU has its port
        assert phase.fabric.spare_ports == sum(growth.fabric.sizing.radix - degree[graph.gpus :])


@pytest.mark.parametrize(("name", "sizing", "phases"), CASES[:3] + CASES[5:])
def test_every_phase_has_its_whole_bisection(
    name: str, sizing: Sizing, phases: tuple[int, ...]
) -> None:
    growth = grown(name, sizing, *phases)
    generator = np.random.default_rng(7)
    for at, gpus in enumerate(phases):
        graph = growth.graph_of(at)
        leaf = np.empty(gpus, np.int64)
        host = (graph.node_kind[graph.source] == GPU).nonzero()[0]
        leaf[graph.source[host]] = graph.target[host]
        by_leaf = np.argsort(leaf, kind="stable")  # halves of whole leaves and pods: the worst
        for order in (by_leaf, generator.permutation(gpus)):
            first = np.zeros(gpus, bool)
            first[order[: gpus // 2]] = True
            assert bisection(graph, first) == gpus // 2
        assert growth.phases[at].oversubscription == 1


def test_rails_of_a_phase_have_their_whole_bisection() -> None:
    growth = grown("rail-only", Sizing(256, 8, 4, 450e9, 50e9), 48, 256)
    graph = growth.graph_of(0)  # 12 domains: 12 ends a rail, half of each rail to the other
    assert bisection(graph, np.arange(48) < 24) == 24


def test_full_leaves_by_hand() -> None:
    # 16,384 GPUs on 64 ports: 512 leaves of 32 hosts, pods of 32 leaves with 32 spines, and in each
    # of the 32 planes 8 cores, 4 links to each spine. 2,048 GPUs are 64 leaves, two pods: 64
    # spines; all 256 cores, 2 x 4 of whose 64 ports are taken: 256 x 56 = 14,336 free. 8,192 GPUs
    # are 8 pods: 256 x (64 - 32) = 8,192 free.
    sizing = Sizing(16_384, 64, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    growth = grown("rail-optimized", sizing, 2048, 8192, 16_384, full=True)
    assert switches(growth) == [[64, 64, 256], [256, 256, 256], [512, 512, 256]]
    assert [one.fabric.spare_ports for one in growth.phases] == [14_336, 8192, 0]


def test_the_cheapest_fill_is_the_least_of_all() -> None:
    # With m pods of a leaves, and so h = ceil(2048 / (m a)) hosts a leaf: m a leaves, h planes with
    # a spine a pod, and in each ceil(a / 4) of the 8 cores, 4 of whose links a spine has.
    least = min(
        m * a + h * m + h * -(-a // 4)
        for m in range(1, 17)
        for a in range(1, 33)
        for h in [-(-2048 // (m * a))]
        if h <= 32
    )
    sizing = Sizing(16_384, 64, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    weights = PhasePrices(1.0, 0.0, (1.0, 0.0))
    growth = plan_growth(FABRICS.load("fat-tree"), sizing, (2048, 16_384), weights)
    assert growth.phases[0].fabric.switches == least == 310
    tree, ports = fat_tree(2048, 64), leaf_ports(64)
    fill = best_fills(tree, ports, [512, 2048], weights)[0]
    assert fill.leaves + -(-512 // fill.leaves) == min(-(-512 // h) + h for h in range(1, 33))
    # Links that cost most keep leaves full: they have the fewest padded ones.
    dear = PhasePrices(0.0, 1.0, (1.0, 0.0))
    assert best_fills(tree, ports, [512, 2048], dear)[0] == Fill(16, 16)


def test_oversubscribed_leaves_keep_their_ratio() -> None:
    sizing = Sizing(512, 16, 8, 450e9, 50e9, oversubscription=3.0)
    growth = grown("fat-tree", sizing, 96, 256, 512)
    assert all(one.oversubscription <= 3 for one in growth.phases)
    early = grown("fat-tree", SMALL, 32, 128, early=2.0)
    assert bisection(early.graph_of(0), np.arange(32) < 16) < 16
    assert [one.oversubscription for one in early.phases] == [2, 1]
    assert (
        early.phases[0].fabric.switches
        < grown("fat-tree", SMALL, 32, 128).phases[0].fabric.switches
    )


def test_a_dragonfly_grows_by_groups() -> None:
    # Radix 8: 2 hosts, 4 switches a group, 2 global links a switch; 64 GPUs are 8 groups, with
    # 4 x 2 // 7 = 1 link a pair. 3 groups have 12 switches, 3 x 6 local and 3 global links.
    sizing = Sizing(64, 8, 1, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    growth = grown("dragonfly", sizing, 20, 64)
    assert switches(growth) == [[12], [32]]
    assert [group.links for group in growth.phases[0].fabric.links] == [20, 18, 3]


@pytest.mark.slow
@pytest.mark.skipif(find_tools() is None, reason="needs opensm, ibsim and ibnetdiscover")
@pytest.mark.parametrize(
    ("name", "phases"), [("rail-optimized", (24, 64, 128)), ("fat-tree", (16, 100, 128))]
)
def test_every_phase_boots_on_opensm(name: str, phases: tuple[int, ...], tmp_path: Path) -> None:
    growth = grown(name, SMALL, *phases)
    paths = [tmp_path / f"phase-{number}.ibnetdiscover" for number in range(len(phases))]
    for number, path in enumerate(paths):
        path.write_text("".join(ibnetdiscover_lines(growth.graph_of(number))), encoding="utf-8")
        answer = rehearse_files({}, path, path)
        assert [one.engine for one in answer.booted] == ["ftree"]
        assert answer.compared.differences == ()
    # The hall of a phase lacks cables of the next one's plan, and has none elsewhere.
    for number, path in enumerate(paths[1:]):
        found = compare_cables(path, paths[number]).differences
        assert {one.kind for one in found} <= {"missing", "not seen"}


def test_a_torus_does_not_grow_so() -> None:
    with pytest.raises(InputError, match="does not grow without moving cables"):
        grown("torus-3d", SMALL, 64, 128)
    with pytest.raises(InputError, match="a phase of 30 GPUs ends within an HB domain"):
        grown("rail-only", SMALL, 30, 128)
