"""GPUs that are down or cut off, against networkx on the damaged graph."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.faults.damage.damage import Components, Damage, find_effects, no_damage
from netplan.faults.damage.inventory import Inventory, PartNames, Parts
from netplan.faults.damage.scenario import parse_faults
from netplan.topologies.graph import FabricGraph
from tests.faults.damaged import (
    damage_to,
    damaged_graph,
    fabric,
    live_view,
    random_damage,
    single_and_double,
    small_cases,
)

CASES = small_cases()


def cut_off(graph: FabricGraph, damage: Damage, *, inside: bool) -> set[int]:
    """Live GPUs outside the main island, from the definition."""

    def components(one: Damage) -> list[set[int]]:
        view = live_view(graph, one, inside=inside)
        parts = nx.connected_components(view)
        gpus = ({node for node in part if node < graph.gpus} for part in parts)
        return sorted((part for part in gpus if part), key=lambda part: (-len(part), min(part)))

    def width(gpus: set[int]) -> int:
        return len({gpu // graph.hb_size for gpu in gpus})

    left, lost = components(damage), set[int]()
    for whole in components(no_damage(graph)):
        inner = [part for part in left if part <= whole]
        wide = inner and width(inner[0]) >= min(2, width(whole))
        lost |= set().union(*(inner[1:] if wide else inner))
    return lost


def live_sizes(parts: Components) -> Ints:
    """Live GPUs of the components that have any, largest first."""
    sizes: Ints = -np.sort(-parts.gpus[parts.gpus > 0])
    return sizes


def assert_agrees(graph: FabricGraph, damage: Damage) -> None:
    found = find_effects(graph, damage)
    assert set(found.gpus_down.tolist()) == set(np.flatnonzero(damage.node_down[: graph.gpus]))
    assert set(found.cut_off.tolist()) == cut_off(graph, damage, inside=False)
    assert set(found.cut_off_forwarding.tolist()) == cut_off(graph, damage, inside=True)
    sizes = Counter(
        sum(node < graph.gpus for node in part)
        for part in nx.connected_components(live_view(graph, damage, inside=True))
    )
    assert Counter(live_sizes(found.whole).tolist()) == Counter(
        {n: c for n, c in sizes.items() if n}
    )


@pytest.mark.parametrize("count", [40, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_cut_off_gpus_of_single_and_double_failures(name: str, count: int) -> None:
    graph = CASES[name].graph
    damages = list(single_and_double(graph))
    step = max(1, len(damages) // count)
    for damage in damages[::step]:
        assert_agrees(graph, damage)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), failures=st.integers(0, 25))
def test_cut_off_gpus_of_any_failures(name: str, seed: int, failures: int) -> None:
    graph = CASES[name].graph
    assert_agrees(graph, random_damage(graph, failures, np.random.default_rng(seed)))


def paper_pair() -> tuple[FabricGraph, FabricGraph]:
    """Rails of 64 GPUs under four leaves of 16 each, with and without links between rails."""
    return fabric("rail-only", (512, 32, 8)), fabric("rail-optimized", (512, 32, 8))


def test_rail_only_and_rail_optimized_lose_the_same_gpus_to_leaves() -> None:
    """arXiv:2307.12169, section 4.1: GPUs at a failed rail switch become unavailable in both."""
    only, optimized = paper_pair()
    leaves = [name for name in only.names if "/leaf-" in name]
    assert leaves == [name for name in optimized.names if "/leaf-" in name]
    assert len(leaves) == 32
    for leaf in leaves:
        lost = [find_effects(g, parse_faults([leaf], g)) for g in (only, optimized)]
        assert lost[0].cut_off.tolist() == lost[1].cut_off.tolist()
        # Domains 16 l to 16 l + 15 of the rail, and none if their servers forward for them.
        rail, place = (int(part.partition("-")[2]) for part in leaf.split("/"))
        domains = np.arange(16 * place, 16 * place + 16)
        assert lost[0].cut_off.tolist() == (8 * domains + rail).tolist()
        assert not len(lost[0].cut_off_forwarding)
        assert not len(lost[1].cut_off_forwarding)


def test_rail_only_and_rail_optimized_lose_the_same_gpus_to_links() -> None:
    only, optimized = paper_pair()
    names = PartNames(Inventory(only))
    hosts = names.inventory.kinds["host"]
    for label in list(names.of(Parts(hosts, hosts.numbers[::13]))):
        lost = [find_effects(g, parse_faults([label], g)).cut_off for g in (only, optimized)]
        assert lost[0].tolist() == lost[1].tolist()
        assert f"gpu-{int(lost[0][0])}:1--" in label
        assert len(lost[0]) == 1


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_rail_only_and_rail_optimized_lose_the_same_gpus_to_several(seed: int) -> None:
    only, optimized = paper_pair()
    rng = np.random.default_rng(seed)
    leaves = [name for name in only.names if "/leaf-" in name]
    faults = [str(leaf) for leaf in rng.choice(leaves, 4, replace=False)]
    faults += [f"gpu-{gpu}:1" for gpu in rng.choice(512, 6, replace=False)]
    lost = [find_effects(g, parse_faults(faults, g)) for g in (only, optimized)]
    assert lost[0].cut_off.tolist() == lost[1].cut_off.tolist()
    assert lost[0].cut_off_forwarding.tolist() == lost[1].cut_off_forwarding.tolist()


def test_single_tors_lose_their_gpus_and_twin_planes_do_not() -> None:
    single = fabric("fat-tree", (64, 16, 8))
    lost = find_effects(single, parse_faults(["leaf-1"], single))
    assert lost.cut_off.tolist() == list(range(8, 16))
    # The server has no other leaf, so that forwarding does not help either.
    assert lost.cut_off_forwarding.tolist() == list(range(8, 16))
    twin = fabric("twin-plane", (64, 16, 8))
    for leaf in ("plane-0/leaf-0", "plane-1/leaf-1"):
        assert not len(find_effects(twin, parse_faults([leaf], twin)).cut_off)
    both = find_effects(twin, parse_faults(["plane-0/leaf-0", "plane-1/leaf-0"], twin))
    assert len(both.cut_off) == 16  # rails 0 and 1 of eight servers, in both planes
    assert not len(both.cut_off_forwarding)


def test_when_every_switch_fails_everybody_is_cut_off() -> None:
    graph = fabric("rail-optimized", (64, 16, 8))
    lost = find_effects(graph, parse_faults(["switch=100%"], graph))
    assert len(lost.cut_off) == len(lost.cut_off_forwarding) == 64
    assert live_sizes(lost.whole).tolist() == [8] * 8  # servers hold together
    assert live_sizes(lost.network).tolist() == [1] * 64


def test_a_network_in_two_halves_keeps_the_one_of_the_lowest_gpu() -> None:
    # Leaves of eight GPUs, in islands without a spine; one of them has failed itself.
    graph = fabric("fat-tree", (32, 16, 4))
    lost = find_effects(graph, parse_faults(["spine=100%", "leaf-3"], graph))
    assert lost.cut_off.tolist() == list(range(8, 32))
    assert live_sizes(lost.network)[:3].tolist() == [8, 8, 8]


def test_damaged_graphs_keep_nodes_and_lose_links() -> None:
    graph = fabric("rail-optimized", (64, 16, 8))
    damage = damage_to(graph, nodes=[3], links=[70, 90])
    left = damaged_graph(graph, damage)
    assert left.node_count == graph.node_count
    assert left.link_count == graph.link_count - 4  # GPU 3 has two links
    kept = np.flatnonzero(~damage.links_out(graph))
    assert np.array_equal(left.source, graph.source[kept])
    assert np.array_equal(left.target_port, graph.target_port[kept])
    both = damage | damage_to(graph, nodes=[4])
    assert both.node_down.nonzero()[0].tolist() == [3, 4]


def test_damage_of_another_graph_is_refused() -> None:
    graph, other = fabric("fat-tree", (32, 16, 4)), fabric("fat-tree", (64, 16, 4))
    with pytest.raises(InputError, match="make it for this one"):
        find_effects(graph, no_damage(other))
