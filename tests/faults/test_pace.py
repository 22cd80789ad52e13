"""Pace by cuts: by hand, against linear programs, and what further failures may never do."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_array, csr_array, hstack, kron

from netplan.faults.damage.cuts import (
    Cuts,
    CutSets,
    RelativeThroughput,
    network_leg,
    uniform_traffic,
)
from netplan.faults.damage.damage import Damage, find_effects, network_links, no_damage
from netplan.faults.damage.impact import Impact, Subject
from netplan.faults.damage.inventory import Inventory, Parts
from netplan.faults.damage.rerouting import training_loads
from netplan.faults.damage.scenario import parse_faults
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.search import PlanSearch
from netplan.performance.setting import TrainedModel
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.designs import DESIGNS
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.demand import Leg
from netplan.traffic.matrix import TrafficMatrix, flows_matrix
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS
from tests.faults.damaged import damage_to, fabric

PORT = 50e9


def paces(graph: FabricGraph, damage: Damage, leg: Leg) -> RelativeThroughput:
    return Cuts.of(graph, leg).throughput(damage, find_effects(graph, damage), np.ones(graph.gpus))


def uniform(graph: FabricGraph) -> Leg:
    return network_leg(graph, uniform_traffic(graph), forwarding=False)


def share(graph: FabricGraph, *faults: str) -> float:
    """Pace that is left of uniform traffic."""
    return paces(graph, parse_faults(faults, graph), uniform(graph)).share


def concurrent_flow_s(
    graph: FabricGraph, damage: Damage, leg: Leg, *, domains_forward: bool = False
) -> float:
    """Least time of a demand over the live network links, however it is split [s]: an LP.

    A commodity a sender; what is shared is that every arc has a capacity, and all demands are met
    by the same factor. Where domains forward, each is one node.
    """
    flows = leg.listed()
    live = network_links(graph) & ~damage.links_out(graph)
    node = np.arange(graph.node_count)
    if domains_forward:
        node[: graph.gpus] -= node[: graph.gpus] % graph.hb_size
    ends = node[graph.source[live]], node[graph.target[live]]
    tail, head = (np.concatenate(pair) for pair in (ends, ends[::-1]))
    arcs, nodes, number = len(tail), graph.node_count, np.arange(len(tail))
    ones = np.ones(arcs)
    balance = coo_array(
        (np.concatenate([ones, -ones]), (np.concatenate([tail, head]), np.tile(number, 2))),
        shape=(nodes, arcs),
    )
    senders, row = np.unique(node[flows.source], return_inverse=True)
    unit = float(flows.flow_bytes.sum())
    demand = np.zeros((len(senders), nodes))
    np.add.at(demand, (row, node[flows.destination]), -flows.flow_bytes / unit)
    np.add.at(demand, (row, node[flows.source]), flows.flow_bytes / unit)
    conserve = hstack([block_diag([balance] * len(senders)), coo_array(-demand.reshape(-1, 1))])
    capacity = np.tile(graph.bytes_per_s[live], 2) / PORT
    shared = hstack(
        [kron(np.ones((1, len(senders))), coo_array(np.eye(arcs))), coo_array((arcs, 1))]
    )
    goal = np.append(np.zeros(len(senders) * arcs), -1.0)
    found = linprog(
        goal,
        A_ub=csr_array(shared),
        b_ub=capacity,
        A_eq=csr_array(conserve),
        b_eq=np.zeros(len(senders) * nodes),
        method="highs",
    )
    assert found.status == 0
    return unit / PORT / -found.fun if found.fun < -1e-9 else float("inf")


LP_CASES = {
    "fat tree": fabric("fat-tree", (16, 8, 1)),
    "three tiers": fabric("fat-tree", (32, 8, 1), ratio=3.0),
    "dragonfly": fabric(
        "dragonfly", (12, 8, 1), hosts_per_switch=2, switches_per_group=2, global_links_per_switch=1
    ),
    "torus": fabric("torus-2d", (12, 8, 1), sizes=(4, 3)),
    "rails": fabric("rail-only", (24, 8, 2), ratio=3.0),
    "clos of rails": fabric("rail-optimized", (24, 8, 2)),
    "two planes": fabric("twin-plane", (16, 8, 2)),
}


def random_leg(graph: FabricGraph, rng: np.random.Generator) -> Leg:
    source, destination = rng.integers(0, graph.gpus, (2, 12))
    kept = source != destination
    amount = rng.integers(1, 100, kept.sum()) * 1e9
    matrix = flows_matrix(
        graph.gpus, source=source[kept], destination=destination[kept], flow_bytes=amount
    )
    return network_leg(graph, matrix)


@pytest.mark.parametrize("name", LP_CASES)
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)  # of few examples, many links cut GPUs off
@given(seed=st.integers(0, 10_000), count=st.integers(0, 4), even=st.booleans())
def test_no_splitting_beats_the_cuts(name: str, seed: int, count: int, *, even: bool) -> None:
    graph, rng = LP_CASES[name], np.random.default_rng(seed)
    leg = uniform(graph) if even else random_leg(graph, rng)
    links = rng.choice(np.flatnonzero(network_links(graph)), count, replace=False)
    damage = damage_to(graph, links=links)
    cuts = Cuts.of(graph, leg)
    least_s = concurrent_flow_s(graph, damage, leg, domains_forward=True)
    assert cuts.time_s(damage) <= least_s * (1 + 1e-6)
    # A GPU without a port sends through its domain, which the program does not know.
    assume(not len(find_effects(graph, damage).cut_off))
    intact_s = concurrent_flow_s(graph, no_damage(graph), leg)
    assert cuts.intact_s <= intact_s * (1 + 1e-6)
    left = paces(graph, damage, leg).share
    assert cuts.intact_s <= left * concurrent_flow_s(graph, damage, leg) * (1 + 1e-6)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_on_trees_the_cuts_are_reached(seed: int) -> None:
    """With one spine of two left there is one way from everywhere to everywhere."""
    graph, rng = LP_CASES["fat tree"], np.random.default_rng(seed)
    damage = parse_faults(["spine-1"], graph)
    for leg in (uniform(graph), random_leg(graph, rng)):
        intact_s = Cuts.of(graph, leg).intact_s
        assert intact_s / paces(graph, damage, leg).share == pytest.approx(
            max(intact_s, concurrent_flow_s(graph, damage, leg))
        )


def test_shares_by_hand() -> None:
    # 64 hosts, radix 16: leaves of eight hosts with two links to each of four spines. Uniform
    # traffic leaves a host for 63 others, and a leaf 8 x 56 times over eight links: 63 binds.
    tree = fabric("fat-tree", (64, 16, 1))
    assert share(tree, "leaf-0--spine-0", "leaf-1--spine-0") == pytest.approx(63 / (8 * 56 / 6))
    assert share(tree, "spine-0", "spine-1") == pytest.approx(63 / (8 * 56 / 4))
    assert share(tree, "gpu-0:1") == 0
    # A domain of eight that lost a port sends on over the seven others.
    rails = fabric("rail-only", (256, 16, 8))
    assert share(rails, "gpu-0:1") == pytest.approx(7 / 8)
    assert share(rails, "rail-0/leaf-0") == pytest.approx(7 / 8)
    assert share(rails, "rail-0/leaf-0", "rail-1/leaf-0") == pytest.approx(6 / 8)


def test_a_thin_rail_is_as_bad_as_a_lost_one_at_the_most() -> None:
    """Leaves of eight domains, 32 of them: 24 of 31 peers lie beyond eight uplinks a leaf."""
    rails = fabric("rail-only", (256, 16, 8))
    leaf = np.flatnonzero(rails.node_tier == 1)[:4]
    uplinks = np.array([np.flatnonzero(rails.source == one) for one in leaf])
    assert uplinks.shape == (4, 8)
    found = [
        paces(rails, damage_to(rails, links=uplinks[:, :lost].ravel()), uniform(rails)).share
        for lost in range(9)
    ]
    # Domains send 31 a port in the time in which a leaf sends 8 x 24 over what is left of eight.
    expected = [max(min(1.0, 31 / (8 * 24 / left)), 7 / 8) for left in range(8, 0, -1)]
    assert found == pytest.approx([*expected, 7 / 8])
    assert found[1] == 1 > found[2]


def ring_cut_s(graph: FabricGraph, sizes: tuple[int, ...], damage: Damage, leg: Leg) -> float:
    """Longest time over a cut across the rings of one axis, at any two positions [s]."""
    live = network_links(graph) & ~damage.links_out(graph)
    flows, worst = leg.listed(), 0.0
    ends = np.stack((graph.source[live], graph.target[live])) // graph.hb_size
    domains = np.stack((flows.source, flows.destination)).astype(np.int64) // graph.hb_size
    for axis, size in enumerate(sizes):
        step = int(np.prod(sizes[:axis]))
        for begin, length in product(range(size), range(1, size)):
            tail, head = (ends // step - begin) % size < length
            source, target = (domains // step - begin) % size < length
            capacity = graph.bytes_per_s[live][tail != head].sum()
            amount = flows.flow_bytes[source & ~target].sum()
            worst = max(worst, amount / capacity if capacity else np.inf if amount else 0.0)
    return worst


@pytest.mark.parametrize("sizes", [(6, 4), (5, 3), (2, 8), (4, 3, 2)], ids=str)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(0, 12), even=st.booleans())
def test_rings_are_cut_wherever_damage_makes_it_worst(
    sizes: tuple[int, ...], seed: int, count: int, *, even: bool
) -> None:
    graph = fabric(
        f"torus-{len(sizes)}d", (2 * int(np.prod(sizes)), 8, 2), sizes=sizes, hb_rate=450e9
    )
    rng = np.random.default_rng(seed)
    leg = uniform(graph) if even else random_leg(graph, rng)
    cuts = Cuts.of(graph, leg)
    links = rng.choice(np.flatnonzero(network_links(graph)), count, replace=False)
    damage = damage_to(graph, links=links)
    expected = ring_cut_s(graph, sizes, damage, leg)
    assert cuts.time_s(damage) >= expected * (1 - 1e-9)
    assert cuts.intact_s >= ring_cut_s(graph, sizes, no_damage(graph), leg) * (1 - 1e-9)
    found = cuts.throughput(damage, find_effects(graph, damage), np.ones(graph.gpus))
    assert found.share * expected <= cuts.intact_s * (1 + 1e-9)
    # Runs alone are no more than these cuts.
    live = network_links(graph) & ~damage.links_out(graph)
    for runs, amount in zip(cuts.partitions, cuts.crossing, strict=True):
        if not isinstance(runs, CutSets):
            continue
        capacity = runs.capacity(graph, live)
        assert np.all(amount <= expected * capacity * (1 + 1e-9)) or expected == np.inf


def test_links_lost_away_from_the_middle_slow_as_those_in_the_middle() -> None:
    """Two slabs of an 8 x 4 torus lose three of four links to the next one, at any position."""
    graph = fabric("torus-2d", (32, 8, 1), sizes=(8, 4))
    ends = np.sort(np.stack((graph.source, graph.target)), axis=0).T.tolist()
    found = set()
    for position in range(8):
        x, y = np.meshgrid([position, (position + 4) % 8], np.arange(3))
        pairs = np.sort(np.stack((x + 8 * y, (x + 1) % 8 + 8 * y)), axis=0).reshape(2, -1).T
        damage = damage_to(graph, links=[ends.index(pair) for pair in pairs.tolist()])
        found.add(round(paces(graph, damage, uniform(graph)).share, 12))
    # A half sends 16 x 16 over 2 of 8 links, an intact one over 8; a node 31 over four.
    assert found == {0.25}


@cache
def subject_of(name: str, gpus: int, radix: int, hb_size: int, spare_domains: int = 0) -> Subject:
    spec = (FABRICS if name in FABRICS.paths() else DESIGNS).load(name)
    assert isinstance(spec, FabricSpec)
    sizing = Sizing(gpus, radix, hb_size, 450e9, PORT)
    preset = ITERATION_MODELS.load("4d")
    free = replace(preset, space=replace(preset.space, divisibility="free"))
    accelerator, model = ACCELERATORS.load("gh200-96gb"), MODELS.load("gpt-22b")
    search = PlanSearch(TrainedModel.make(accelerator, model, free, batch=256))
    return Subject(spec, sizing, build_fabric(spec, sizing), search, spare_domains)


SUBJECTS = [
    ("fat-tree", 128, 16, 8),
    ("fat-tree", 100, 8, 4),
    ("fat-tree", 256, 16, 1),
    ("rail-optimized", 64, 8, 4, 1),
    ("rail-only", 64, 8, 4),
    ("rail-only", 100, 8, 4, 2),
    ("dragonfly", 128, 16, 8),
    ("dragonfly", 64, 8, 4, 1),
    ("torus-3d", 128, 16, 8),
    ("torus-2d", 64, 8, 4, 1),
    ("twin-plane", 64, 8, 4),
    ("bcube", 144, 16, 1),
]


def random_parts(inventory: Inventory, count: int, rng: np.random.Generator) -> list[Parts]:
    """Failures of parts of any kind, some of several parts."""
    kinds = [kind for kind in inventory.kinds.values() if kind.name != "manager"]
    found = []
    for _ in range(count):
        kind = kinds[rng.integers(len(kinds))]
        many = max(1, len(kind.numbers) // 8) if rng.random() < 0.3 else 1
        found.append(
            Parts(kind, rng.choice(kind.numbers, rng.integers(1, many + 1), replace=False))
        )
    return found


def time_s(impact: Impact) -> float:
    return float("inf") if impact.iteration_time_s is None else impact.iteration_time_s


@pytest.mark.parametrize("name", SUBJECTS, ids=str)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 100_000), count=st.integers(1, 6))
def test_a_further_failure_is_never_better(
    name: tuple[str, int, int, int], seed: int, count: int
) -> None:
    subject, rng = subject_of(*name), np.random.default_rng(seed)
    inventory = Inventory(subject.graph)
    parts = random_parts(inventory, count, rng)
    before, after = (subject.impact(inventory.damage(some)) for some in (parts[:-1], parts))
    assert after.network_share <= before.network_share + 1e-12
    assert (after.pod_share or 0) <= (before.pod_share or 0) + 1e-12
    assert time_s(after) >= time_s(before) * (1 - 1e-12)
    # More idle domains are never worse.
    richer = subject_of(*name[:4], 8)
    assert time_s(richer.impact(inventory.damage(parts))) <= time_s(after) * (1 + 1e-12)


# On the fat tree of 100 links and ports of one leaf: its other GPUs have more than their share.
@example(seed=4281, count=2)
@pytest.mark.parametrize("name", SUBJECTS, ids=str)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 100_000), count=st.integers(0, 5))
def test_equal_splitting_is_never_faster_than_the_cuts(
    name: tuple[str, int, int, int], seed: int, count: int
) -> None:
    subject, rng = subject_of(*name), np.random.default_rng(seed)
    matrix = subject.traffic
    assert matrix is not None
    damage = Inventory(subject.graph).damage(random_parts(Inventory(subject.graph), count, rng))
    impact = subject.impact(damage)
    found = training_loads(subject.graph, damage, matrix, cuts=subject.cuts)
    assume(not found.lost_bytes and not found.cut_bytes)
    least_s, pace_s = found.cut_s or np.inf, subject.cuts.intact_s / (impact.network_share or 1)
    assert found.busiest_s * (1 + 1e-9) >= least_s
    if impact.network_share:
        assert pace_s * (1 + 1e-9) >= least_s
        # On its usual ways traffic gains nothing by what others give up.
        if not found.detour_bytes and not impact.gpus_cut_off:
            assert found.busiest_s * (1 + 1e-9) >= pace_s


def test_the_slower_of_two_failures_stays() -> None:
    """A core of a fat tree, and with it a port far away."""
    subject = subject_of("fat-tree", 128, 8, 4)
    times = [
        time_s(subject.impact(parse_faults(faults, subject.graph)))
        for faults in ([], ["plane-0/core-0"], ["plane-0/core-0", "gpu-69:1"])
    ]
    assert times == sorted(times)


def test_a_job_in_one_domain_needs_no_network() -> None:
    subject = subject_of("rail-optimized", 64, 8, 64)
    damage = parse_faults(["link=20", "leaf=2"], subject.graph)
    found = subject.impact(damage)
    assert (found.way, found.slowdown, found.network_share) == ("all GPUs", 0, 1)
    assert (found.pod_share, found.bandwidth_share) == (None, None)
    assert subject.impact(parse_faults(["domain-0"], subject.graph)).way == "stopped"


def test_domains_of_a_lost_group_idle_as_one() -> None:
    """A dragonfly of routers, groups: without one group as without one member of that level."""
    subject = subject_of("dragonfly", 128, 16, 8)
    domain, network = subject.fabric.levels
    assert (domain.size, network.size) == (8, 16)
    fewer = (domain, replace(network, size=12))  # four of a group's switches hold two domains
    found = subject.impact(parse_faults(["group-1"], subject.graph))
    best = subject.best(fewer)
    assert best is not None
    assert (found.way, found.iteration_time_s) == ("without", best.time_s)


def test_bytes_over_borders_are_counted_one_by_one() -> None:
    """Uniform groups by closed form, flows and groups written out: the same."""
    subject = subject_of("rail-only", 64, 8, 4)
    matrix = subject.traffic
    assert isinstance(matrix, TrafficMatrix)
    for leg in (network_leg(subject.graph, matrix), uniform(subject.graph)):
        listed = leg.listed()
        for one in subject.cuts.partitions:
            found = one.crossing(leg, subject.graph.gpus)
            sent, received = np.zeros((2, one.blocks))
            flows = zip(listed.source, listed.destination, listed.flow_bytes, strict=True)
            for source, destination, amount in flows:
                if one.label[source] != one.label[destination]:
                    sent[one.label[source]] += amount
                    received[one.label[destination]] += amount
            np.testing.assert_allclose(found, np.maximum(sent, received))
