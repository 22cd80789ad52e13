"""Bandwidth that remains between HB domains, against networkx on the damaged graph."""

from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan import Scenario
from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.faults.damage.capacity import Remaining, _least_share, remaining_bandwidth
from netplan.faults.damage.damage import Damage, no_damage
from netplan.faults.damage.flows import reduced_graph, widest_paths
from netplan.faults.damage.scenario import parse_faults
from netplan.records import replace
from netplan.topologies.graph import FabricGraph
from tests.faults.damaged import (
    Case,
    capacity_bytes_per_s,
    fabric,
    live_view,
    max_flow,
    random_damage,
    single_and_double,
    small_cases,
)

CASES = small_cases()
SINGLE_TIER = [name for name, case in CASES.items() if set(case.graph.switches_per_tier()) == {1}]


def pair_bound(case: Case, damage: Damage, a: int, b: int) -> float:
    """Cut each node v next to domain a at min(h(a, v), up(v) + h(b, v)).

    h is the rate of the links between a domain and v, up(v) that of links to nodes that forward.
    """
    graph = case.graph
    view = live_view(graph, damage, inside=False)

    def rate(node: int, domain: int) -> float:
        home = range(domain * graph.hb_size, min((domain + 1) * graph.hb_size, graph.gpus))
        return float(sum(view[node][gpu]["capacity"] for gpu in set(view[node]) & set(home)))

    def up(node: int) -> float:
        passing = (other for other in view[node] if case.passing or other >= graph.gpus)
        return float(sum(view[node][other]["capacity"] for other in passing))

    ends = {gpu for gpu in view if gpu < graph.gpus and gpu // graph.hb_size == a}
    around = {node for gpu in ends for node in view[gpu]} - ends
    return sum(
        rate(node, a) if node < graph.gpus else min(rate(node, a), up(node) + rate(node, b))
        for node in around
    )


def capacity(graph: FabricGraph, damage: Damage, *pair: int) -> float:
    return capacity_bytes_per_s(reduced_graph(graph).left(damage), *pair)


def egress_bytes_per_s(graph: FabricGraph, damage: Damage) -> Floats:
    return reduced_graph(graph).left(damage).egress_bytes_per_s


@pytest.mark.parametrize("every", [16, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [name for name in CASES if name != "two planes, leaves and spines"]
)
def test_capacity_after_single_and_double_failures(name: str, every: int) -> None:
    """Pairs of domains take turns over the failures, so that all meet."""
    case = CASES[name]
    pairs = list(combinations(range(case.graph.domains), 2))
    lowest = np.inf
    for turn, damage in enumerate(single_and_double(case.graph, every=every)):
        pair = pairs[turn % len(pairs)]
        found = capacity(case.graph, damage, *pair)
        expected = max_flow(case, damage, pair)
        assert found == pytest.approx(expected), np.flatnonzero(damage.links_out(case.graph))
        lowest = min(lowest, found)
    assert lowest < max_flow(case, no_damage(case.graph), pairs[0])


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000), failures=st.integers(0, 8))
def test_capacity_and_bounds_after_any_failures(name: str, seed: int, failures: int) -> None:
    case, rng = CASES[name], np.random.default_rng(seed)
    damage = random_damage(case.graph, failures, rng)
    a, b = sorted(rng.choice(case.graph.domains, 2, replace=False).tolist())
    egress = egress_bytes_per_s(case.graph, damage)[[a, b]].min()
    bound = min(pair_bound(case, damage, a, b), pair_bound(case, damage, b, a))
    flow = capacity(case.graph, damage, a, b)
    assert flow == pytest.approx(max_flow(case, damage, (a, b)))
    assert flow == capacity(case.graph, damage, b, a)
    assert flow <= min(egress, bound) * (1 + 1e-9)
    if name in SINGLE_TIER and "dragonfly" not in name:
        assert flow == pytest.approx(bound)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_one_more_failure_never_raises_capacity(name: str, seed: int) -> None:
    graph, rng = CASES[name].graph, np.random.default_rng(seed)
    damage = random_damage(graph, int(rng.integers(0, 4)), rng)
    worse = damage | random_damage(graph, 1, rng)
    pairs = list(combinations(range(graph.domains), 2))
    before, after = (reduced_graph(graph).left(one) for one in (damage, worse))
    for number in rng.choice(len(pairs), min(4, len(pairs)), replace=False).tolist():
        pair = pairs[number]
        assert capacity_bytes_per_s(after, *pair) <= capacity_bytes_per_s(before, *pair)
    assert np.all(egress_bytes_per_s(graph, worse) <= egress_bytes_per_s(graph, damage))


def test_one_of_two_planes_lost_leaves_exactly_half() -> None:
    # One leaf a plane: its failure takes the plane from all GPUs.
    graph = CASES["two planes"].graph
    lost = parse_faults(["plane-1/leaf-0"], graph)
    share = egress_bytes_per_s(graph, lost) / egress_bytes_per_s(graph, no_damage(graph))
    assert np.all(share == 0.5)
    left = remaining_bandwidth(graph, lost)
    assert np.all(left.share == 0.5)
    assert (left.all_pairs, left.worst_share, left.mean_share) == (10, 0.5, 0.5)
    assert left.note == "Exact: all 10 pairs of HB domains, in 1 class of equal damage and place."


def test_a_leaf_of_a_plane_takes_half_from_its_gpus_only() -> None:
    graph = fabric("twin-plane", (256, 16, 8))
    lost = parse_faults(["plane-0/leaf-3"], graph)
    under = graph.source[(graph.target == lost.node_down.argmax()) & (graph.source < graph.gpus)]
    assert len(under) == 16  # half of 32 ports of half the rate
    # Two 25 GB/s ports on each of eight rails: one of 16 is lost where a domain has a GPU there.
    domains = np.unique(under // 8)
    assert np.all(egress_bytes_per_s(graph, lost)[domains] == 15 * 25e9)
    assert np.all(np.delete(egress_bytes_per_s(graph, lost), domains) == 16 * 25e9)
    a, b = int(domains[0]), int(np.setdiff1d(np.arange(32), domains)[0])
    assert capacity(graph, lost, a, b) == 15 * 25e9
    assert capacity(graph, no_damage(graph), a, b) == 16 * 25e9


def test_single_homed_gpus_are_lost_with_their_leaf() -> None:
    graph = fabric("fat-tree", (64, 16, 8))
    lost = parse_faults(["leaf-2"], graph)
    left = remaining_bandwidth(graph, lost)
    hurt = (left.first == 2) | (left.second == 2)
    assert np.all(left.share[hurt] == 0)
    assert np.all(left.share[~hurt] == 1)
    assert left.worst_share == 0
    # Seven of 28 pairs of domains have the one that is lost.
    assert left.mean_share == pytest.approx(21 / 28)


def test_the_pair_bound_looks_at_both_domains_leaf_by_leaf() -> None:
    # Two rails a switch: domain 0 has lost one of two ports under leaf 0, domain 1 under leaf 1.
    graph = fabric("rail-only", (16, 8, 4))
    damage = parse_faults(["gpu-0:1", "gpu-6:1"], graph)
    assert egress_bytes_per_s(graph, damage)[:2].tolist() == [150e9, 150e9]
    assert pair_bound(Case(graph), damage, 0, 1) == pair_bound(Case(graph), damage, 1, 0) == 100e9
    assert capacity(graph, damage, 0, 1) == 100e9


def test_egress_is_limited_by_live_uplinks() -> None:
    # Server 0 is alone under leaf 0: eight ports, and five of eight uplinks are left.
    graph = fabric("fat-tree", (64, 16, 8))
    damage = parse_faults(["leaf-0:9", "leaf-0:10", "leaf-0:11"], graph)
    assert egress_bytes_per_s(graph, damage).tolist() == [5 * 50e9, *[8 * 50e9] * 7]
    assert capacity(graph, damage, 0, 5) == 5 * 50e9


def test_rates_without_a_common_divisor_are_rounded_down() -> None:
    graph = CASES["fat tree"].graph
    rng = np.random.default_rng(3)
    odd = replace(graph, bytes_per_s=graph.bytes_per_s * rng.uniform(0.5, 1.5, graph.link_count))
    found = reduced_graph(odd).intact
    expected = max_flow(Case(odd), no_damage(odd), (0, 3))
    flow = capacity_bytes_per_s(found, 0, 3)
    assert flow <= expected
    assert flow == pytest.approx(expected, rel=1e-5)


def test_gpus_that_do_not_pass_traffic_on_keep_direct_links_to_themselves() -> None:
    """GPUs 0 to 2 under one switch, and cables 0-1 and 1-2 besides: 1 forwards nothing for 0."""
    base = fabric("fat-tree", (8, 8, 1))
    cables = np.array([[0, 1], [1, 2]], np.int32)
    graph = replace(
        base,
        source=np.append(base.source, cables[0]),
        target=np.append(base.target, cables[1]),
        source_port=np.append(base.source_port, [1, 2]).astype(np.int32),
        target_port=np.append(base.target_port, [1, 1]).astype(np.int32),
        bytes_per_s=np.append(base.bytes_per_s, [50e9, 50e9]),
        length_class=np.append(base.length_class, [2, 2]).astype(np.int8),
        group=np.append(base.group, [0, 0]).astype(np.int8),
    )
    case, whole = Case(graph), no_damage(graph)
    for pair in ((0, 1), (0, 2), (0, 3)):
        expected = max_flow(case, whole, pair)
        assert capacity(graph, whole, *pair) == pytest.approx(expected)
        assert capacity(graph, whole, *pair) == (100e9 if 1 in pair else 50e9)


def test_large_fabrics_without_symmetry_are_sampled_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Domains of 72 GPUs under leaves of 32 have no pattern that repeats.
    monkeypatch.setattr(import_module("netplan.faults.damage.capacity"), "MAX_ENDS", 99)
    graph = fabric("nvl72", (8192, 64, 72))
    damage = parse_faults(["gpu-9", "gpu-117", "domain-100"], graph)
    left = remaining_bandwidth(graph, damage, max_pairs=40)
    # Three domains that lost GPUs: with each other, and each with a whole one.
    assert left.note.startswith(
        "Of 6,441 pairs of HB domains 40 are computed: 6 of domains that lost GPUs or ports, for"
        " the worst, and 34 at random, for the mean (± "
    )
    assert not left.exact
    assert (left.worst_low, left.worst_share, left.domains_lost) == (0, 0, 1)
    egress = egress_bytes_per_s(graph, damage)
    assert np.all(left.bytes_per_s <= np.minimum(egress[left.first], egress[left.second]))
    again = remaining_bandwidth(graph, damage, max_pairs=40)
    assert np.array_equal(again.first, left.first)
    assert np.array_equal(again.bytes_per_s, left.bytes_per_s)


def test_the_mean_is_that_of_the_drawn_pairs_and_the_worst_that_of_all() -> None:
    # Shares 2/4, 4/4, 3/4; the first was chosen for its loss: (1 + 3/4) / 2, and 1/2 at worst.
    share = np.array([2, 4, 3]) / 4
    left = Remaining(
        first=np.array([0, 1, 2]),
        second=np.array([1, 2, 3]),
        bytes_per_s=4 * share,
        intact_bytes_per_s=np.full(3, 4.0),
        least_share=share,
        share=share,
        pairs=np.array([0, 1, 1]),
        all_pairs=6,
        domains_lost=0,
    )
    assert (left.worst_share, left.mean_share) == (0.5, 0.875)
    # A standard deviation of 1/8 over two draws.
    assert left.mean_half_width == pytest.approx(1.96 / 8 / np.sqrt(2))
    # As classes of one, three and two pairs they are all six: (2 + 12 + 6) / 4 / 6.
    whole = replace(left, pairs=np.array([1, 3, 2]))
    assert (whole.exact, whole.mean_share, whole.mean_half_width) == (True, 20 / 24, 0)
    # The second lies between 3/4 and 4/4: the mean of all within 3/24 of which half is either way.
    known = replace(whole, least_share=np.array([2, 3, 3]) / 4)
    assert (known.worst_low, known.worst_share, known.exact) == (0.5, 0.5, False)
    assert (known.mean_share, known.mean_half_width) == (18.5 / 24, 1.5 / 24)
    assert known.note == (
        "Of all 6 pairs of HB domains, in 3 classes of equal damage and place: the worst is exact,"
        " the mean within ± 6.25%."
    )
    low = replace(whole, least_share=np.array([1, 4, 3]) / 4)
    assert (low.worst_low, low.worst_share) == (0.25, 0.5)
    assert "the worst between bounds" in low.note


def test_without_two_domains_there_is_no_share() -> None:
    for name, faults in (
        ("rail-optimized", ["leaf-0"]),
        ("fat-tree", ["links=1"]),
        ("rail-only", []),
    ):
        graph = fabric(name, (64, 16, 64))
        left = remaining_bandwidth(graph, parse_faults(faults, graph))
        assert (left.worst_share, left.mean_share, left.all_pairs) == (None, None, 0)
        assert left.note == "There are no two HB domains to send between."


def test_an_intact_network_can_be_reused() -> None:
    graph = fabric("rail-only", (64, 8, 8))
    intact = reduced_graph(graph).intact
    damage = parse_faults(["rail-0/leaf-0"], graph)
    left = remaining_bandwidth(graph, damage, intact=intact)
    assert np.array_equal(left.share, remaining_bandwidth(graph, damage).share)
    assert left.worst_share is not None
    assert left.worst_share < 1


@pytest.mark.parametrize("name", list(CASES))
def test_flows_that_damage_spares_are_those_of_the_whole_graph(name: str) -> None:
    """The same as those of a network that knows no intact flow."""
    graph = CASES[name].graph
    before = reduced_graph(graph).intact
    rng = np.random.default_rng(7)
    pairs = list(combinations(range(graph.domains), 2))[:12]
    spared = 0
    for damage in [
        parse_faults(["gpu-0"], graph),
        *(random_damage(graph, 1 + at, rng) for at in range(4)),
    ]:
        for pair in pairs:
            before.flow(*pair)
        after, alone = before.reduced.left(damage), reduced_graph(graph).left(damage)
        flows = [after.flow(*pair).units for pair in pairs]
        assert flows == [alone.flow(*pair).units for pair in pairs]
        spared += sum(after._spared(*pair) is not None for pair in pairs)
    assert spared


def test_wrong_questions_are_refused() -> None:
    graph = CASES["fat tree"].graph
    network = reduced_graph(graph).intact
    with pytest.raises(InputError, match="between domains 1 and 1"):
        capacity_bytes_per_s(network, 1, 1)
    with pytest.raises(InputError, match="give two of 0 to 3"):
        capacity_bytes_per_s(network, 0, 99)
    with pytest.raises(InputError, match="0 pairs of HB domains are too few"):
        remaining_bandwidth(graph, no_damage(graph), max_pairs=0)
    with pytest.raises(InputError, match="3 nodes and 4 links"):
        egress_bytes_per_s(graph, Damage(np.zeros(3, bool), np.zeros(4, bool)))


def test_what_every_pair_has_left_at_least_leaves_out_what_two_domains_lost_alone() -> None:
    """Domains 3 and 5 have lost one port of eight each: 1 - (1 + 1) / 8 of any pair is left."""
    graph = Scenario.load("hgx-h100").replace(gpus=128, radix=16).fabric("rail-only").graph()
    network = reduced_graph(graph)
    after = network.left(parse_faults(["gpu-30", "gpu-41"], graph))
    assert _least_share(network.intact, after) == 0.75
    assert _least_share(network.intact, network.left(parse_faults(["gpu-30"], graph))) == 0.875


def test_links_between_domains_reach_no_switch() -> None:
    """Domains -1 and -2 are joined directly, which counts for neither at switch 0."""
    ends = np.array([[-1, -2, -1], [0, 0, -2]])
    assert widest_paths(ends, np.array([3.0, 4.0, 9.0]), 1).tolist() == [4.0]
