"""The worst pair and the mean of all pairs, against max-flows of every pair on the exported graph.

The other side of each comparison reads the edge list as a user would, and lets SciPy find the flow
of every pair of domains: it knows neither blocks nor classes nor the reduced graph.
"""

import csv
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import combinations, islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from netplan.arrays import Floats
from netplan.faults.damage.capacity import form_classes, remaining_bandwidth
from netplan.faults.damage.damage import Damage, no_damage
from netplan.faults.damage.flows import FlowNetwork, equal_blocks, reduced_graph, row_codes
from netplan.faults.damage.inventory import Inventory
from netplan.faults.damage.scenario import parse_faults
from netplan.topologies.formats.edge_list import edge_list_lines
from tests.faults.damaged import capacity_bytes_per_s, damage_to, fabric, random_damage

PASSING = {"torus-2d", "torus-3d", "torus of 32", "bcube"}
"""Fabrics whose GPUs pass traffic on."""
SIZES: dict[str, tuple[int, int, int]] = {
    "rail-optimized": (256, 16, 16),
    "rail-only": (256, 16, 16),
    "fat-tree": (256, 16, 16),
    "uneven-clos": (256, 16, 32),
    "dgx-superpod": (256, 16, 32),
    "dgx-1": (256, 16, 8),
    "dgx-2": (250, 16, 32),
    "nvl72": (256, 16, 40),
    "twin-plane": (256, 16, 32),
    "dragonfly": (256, 16, 32),
    "torus-2d": (256, 16, 32),
    "torus-3d": (256, 16, 32),
    "bcube": (256, 16, 32),
    "torus of 32": (256, 16, 8),
    "dense dragonfly": (128, 16, 4),
}
CHANGES: dict[str, dict[str, Any]] = {
    "dgx-1": {"hb_size": 8},
    "torus of 32": {"file": "torus-2d"},
    "dense dragonfly": {
        "file": "dragonfly",
        "hosts_per_switch": 4,
        "switches_per_group": 8,
        "global_links_per_switch": 4,
    },
}
"""What differs from the file of a name."""


PAIR_CLASSES = import_module("netplan.faults.damage.capacity")
LEAST_SETTLED = {"torus-2d": 0.9, "torus-3d": 0.9, "bcube": 0.0, "dragonfly": 0.0}
"""Share of pairs that bounds settle at the least, where it is not all [1]."""


@cache
def intact(name: str) -> FlowNetwork:
    changes: dict[str, Any] = {"file": name} | CHANGES.get(name, {})
    return reduced_graph(fabric(str(changes.pop("file")), SIZES[name], **changes)).intact


@cache
def exported(name: str) -> list[tuple[str, str, int]]:
    """Ends and whole Gb/s of every link of the edge list, 0 for those inside domains."""
    rows = csv.DictReader(edge_list_lines(intact(name).reduced.graph))
    return [
        (row["source"], row["target"], 0 if row["group"] == "hb" else round(float(row["gbps"])))
        for row in rows
    ]


def every_flow(name: str, damage: Damage) -> Floats:
    """Max-flow of every pair of domains of the exported graph without what failed [Gb/s]."""
    graph = intact(name).reduced.graph
    names = graph.node_names()
    down = {names[node] for node in np.flatnonzero(damage.node_down).tolist()}
    number = {name: at for at, name in enumerate(names)}
    live = [
        (number[a], number[b], gbps)
        for (a, b, gbps), out in zip(exported(name), damage.link_down.tolist(), strict=True)
        if gbps and not out and a not in down and b not in down
    ]
    ends, gbps = np.array([row[:2] for row in live]).T, np.array([row[2] for row in live])
    domain = np.where(ends < graph.gpus, ends // graph.hb_size, -1)
    pairs = np.array(list(combinations(range(graph.domains), 2)))
    several = np.array_split(pairs, len(pairs) // 60 + 1)
    passing = name in PASSING
    return np.concatenate([flows_of(ends, gbps, domain, some, passing=passing) for some in several])


def flows_of(
    ends: np.ndarray, gbps: np.ndarray, domain: np.ndarray, pairs: np.ndarray, *, passing: bool
) -> Floats:
    """Join the GPUs of each of two domains; those of others are not there, or pass on.

    Every pair has a copy of the graph to itself. One source feeds all copies, one sink drains them,
    so that one run of the solver finds all flows: what goes from the source into each copy.
    """
    nodes = int(ends.max()) + 3
    one, two = pairs[:, 0, None, None], pairs[:, 1, None, None]
    at = np.where(domain == one, nodes - 2, np.where(domain == two, nodes - 1, ends))
    used = at[:, 0] != at[:, 1]
    if not passing:
        used &= ((domain < 0) | (domain == one) | (domain == two)).all(axis=1)
    copy = np.arange(len(pairs)) * nodes
    a, b = (at + copy[:, None, None]).swapaxes(0, 1)[:, used]
    rate = np.broadcast_to(gbps, used.shape)[used]
    source, sink = nodes * len(pairs), nodes * len(pairs) + 1
    everything = np.full(len(pairs), gbps.sum())
    tail = np.concatenate((a, b, np.full(len(pairs), source), copy + nodes - 1))
    head = np.concatenate((b, a, copy + nodes - 2, np.full(len(pairs), sink)))
    limit = np.concatenate((rate, rate, everything, everything))
    limits = coo_array((limit, (tail, head)), shape=(sink + 1, sink + 1)).tocsr().astype(np.int32)
    sent = maximum_flow(limits, source, sink).flow[[source], copy + nodes - 2]
    return np.asarray(sent, float).ravel()


@cache
def intact_flows(name: str) -> Floats:
    return every_flow(name, no_damage(intact(name).reduced.graph))


def failures(name: str) -> Iterator[list[str]]:
    """One part of every kind, two kinds together (each with the next), and ten at random twice."""
    kinds = [
        kind
        for kind in Inventory(intact(name).reduced.graph).kinds
        if kind not in ("link", "switch", "transceiver", "manager")
    ]
    yield from ([f"{kind}=1"] for kind in kinds)
    yield from ([f"{one}=1", f"{two}=1"] for one, two in pairwise(kinds))
    yield ["links=10"]
    yield ["links=4", "gpus=3", "switches=3" if "switch" in kinds else "links=3"]


WHOLE = st.integers(-3, 40) | st.just(1 << 60)


@given(st.lists(st.tuples(WHOLE, WHOLE)))
def test_rows_have_the_numbers_of_their_order(rows: list[tuple[int, int]]) -> None:
    """Small numbers are found in a table, large and negative ones are sorted."""
    ranks = {row: number for number, row in enumerate(sorted(set(rows)))}
    columns = np.array(rows, np.int64).reshape(-1, 2).T
    assert row_codes(*columns).tolist() == [ranks[row] for row in rows]


@given(st.lists(st.tuples(st.integers(0, 5), WHOLE)))
def test_owners_are_alike_if_they_have_equal_values(pairs: list[tuple[int, int]]) -> None:
    owner, value = np.array(pairs, np.int64).reshape(-1, 2).T
    held = [sorted(one for place, one in pairs if place == number) for number in range(6)]
    number = equal_blocks(owner, value, 6)
    same = [[one == other for other in held] for one in held]
    assert (number[:, None] == number).tolist() == same


@pytest.mark.parametrize("name", SIZES)
def test_worst_and_mean_are_those_of_every_pair(name: str) -> None:
    graph, rng = intact(name).reduced.graph, np.random.default_rng(5)
    before = intact_flows(name)
    lowest = 1.0
    # Where there are some 500 pairs, every third failure.
    for faults in islice(failures(name), 0, None, 1 if graph.domains < 30 else 3):
        damage = parse_faults(faults, graph, rng=rng)
        share = every_flow(name, damage) / before
        left = remaining_bandwidth(graph, damage, intact=intact(name))
        assert left.all_pairs == len(share)
        assert left.exact, faults
        assert left.worst_share == pytest.approx(share.min(), abs=1e-9), faults
        assert left.mean_share == pytest.approx(share.mean(), abs=1e-9), faults
        assert left.worst_low == left.worst_share
        lowest = min(lowest, float(share.min()))
    assert lowest < 1


@pytest.mark.parametrize("name", ["fat-tree", "uneven-clos", "rail-optimized", "dense dragonfly"])
def test_switches_of_all_tiers_may_be_joined(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few classes allowed, trees too are taken for one switch where no cut parts them."""
    graph, rng = intact(name).reduced.graph, np.random.default_rng(6)
    monkeypatch.setattr(PAIR_CLASSES, "FEW_CLASSES", 3)
    exact = 0
    for faults in (["links=2"], ["gpu=1"], ["links=3", "gpu=1"], ["switch=1"]):
        damage = parse_faults(faults, graph, rng=rng)
        left = remaining_bandwidth(graph, damage, intact=intact(name), max_pairs=2)
        exact += left.exact
        if left.exact:
            share = every_flow(name, damage) / intact_flows(name)
            assert left.worst_share == pytest.approx(share.min(), abs=1e-9), faults
            assert left.mean_share == pytest.approx(share.mean(), abs=1e-9), faults
    assert exact


@pytest.mark.parametrize("name", ["rail-optimized", "rail-only", "twin-plane", "dgx-superpod"])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 12))
def test_every_pair_has_the_flow_of_its_class(name: str, seed: int, count: int) -> None:
    """Pairs of one class, all of them by the class's own rule, not by a sum alone."""
    graph = intact(name).reduced.graph
    damage = random_damage(graph, count, np.random.default_rng(seed))
    left = remaining_bandwidth(graph, damage, intact=intact(name))
    found = np.sort(np.repeat(left.share, left.pairs))
    expected = np.sort(every_flow(name, damage) / intact_flows(name))
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("name", SIZES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_one_more_failure_never_raises_the_worst_or_the_mean(name: str, seed: int) -> None:
    graph, rng = intact(name).reduced.graph, np.random.default_rng(seed)
    damage = random_damage(graph, int(rng.integers(0, 5)), rng)
    more = damage | random_damage(graph, 1, rng)
    one, two = (remaining_bandwidth(graph, each, intact=intact(name)) for each in (damage, more))
    assert one.exact
    assert two.exact
    assert (two.worst_share or 0) <= (one.worst_share or 0) + 1e-12
    assert (two.mean_share or 0) <= (one.mean_share or 0) + 1e-12


@cache
def failures_and_shares(name: str) -> list[tuple[Damage, Floats]]:
    """One, two, ten and thirty failures of any parts, and what every pair has left."""
    graph, rng = intact(name).reduced.graph, np.random.default_rng(8)
    damages = [random_damage(graph, count, rng) for count in (1, 2, 10, 30)]
    return [(damage, every_flow(name, damage) / intact_flows(name)) for damage in damages]


@pytest.mark.parametrize("name", SIZES)
def test_no_pair_loses_more_than_all_that_is_lost(name: str) -> None:
    network = intact(name)
    a, b = np.triu_indices(network.domains, 1)
    for damage, shares in failures_and_shares(name):
        gone = (1 - shares) * intact_flows(name) * 1e9 / 8 / network.reduced.unit_bytes_per_s
        assert np.all(gone <= network.reduced.left(damage).lost_units(a, b) + 1e-6)
    # A port is lost by its own domain alone, but where GPUs pass traffic on.
    port = network.reduced.left(parse_faults(["gpu-0:1"], network.reduced.graph))
    hurt = (a == 0) | (b == 0) | (name in PASSING)
    assert np.array_equal(port.lost_units(a, b) > 0, hurt)


@pytest.mark.parametrize("name", SIZES)
def test_bounds_hold_every_pair_and_flows_settle_the_rest(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any flow between two domains, then with a few, then with all that are needed."""
    monkeypatch.setattr(PAIR_CLASSES, "FEW_CLASSES", 0)
    graph = intact(name).reduced.graph
    pairs = {pair: at for at, pair in enumerate(combinations(range(graph.domains), 2))}
    settled = total = 0
    for damage, share in failures_and_shares(name):
        for flows in (0, 2, 500):
            monkeypatch.setattr(PAIR_CLASSES, "MAX_FLOWS", flows)
            PAIR_CLASSES._intact_flows.cache_clear()
            left = remaining_bandwidth(graph, damage, intact=intact(name))
            ends = np.sort(np.stack((left.first, left.second)), axis=0).T.tolist()
            found = share[[pairs[one, other] for one, other in ends]]
            assert np.all(left.least_share <= found + 1e-9)
            assert np.all(left.share >= found - 1e-9)
            assert (left.worst_low or 0) <= share.min() + 1e-9
            assert (left.worst_share or 0) >= share.min() - 1e-9
            assert left.mean_share == pytest.approx(share.mean(), abs=left.mean_half_width + 1e-9)
            if not flows:
                settled += int(left.pairs[left.least_share == left.share].sum())
                total += left.all_pairs
        assert left.exact
    assert settled >= LEAST_SETTLED.get(name, 1.0) * total


def test_leaves_of_two_rails_take_two_rails_from_pairs_across() -> None:
    """Domains 0 to 31 lose rail 0, domains 32 to 63 rail 1: six of eight rails join 0 and 32."""
    graph = fabric("rail-only", (4096, 64, 8))
    left = remaining_bandwidth(graph, parse_faults(["rail-0/leaf-0", "rail-1/leaf-1"], graph))
    assert (left.worst_share, left.exact) == (0.75, True)
    # 32 x 32 pairs at 6/8; at 7/8 the 2 x 496 inside, and 64 x 448 with others.
    lost = 1024 * 2 / 8 + (2 * 496 + 64 * 448) / 8
    assert left.mean_share == pytest.approx(1 - lost / (512 * 511 / 2), abs=1e-12)


@pytest.mark.parametrize("leaf", [0, 5, 17, 127])
def test_uplinks_are_missed_whichever_leaf_loses_them(leaf: int) -> None:
    """Leaves of 32 GPUs, thus 4 domains, of which 30 of 32 uplinks are dead: 2 of 8 ports."""
    graph = fabric("fat-tree", (4096, 64, 8))
    switch = int(np.flatnonzero(graph.node_tier == 1)[leaf])
    uplinks = np.flatnonzero(graph.source == switch)
    assert len(uplinks) == 32
    left = remaining_bandwidth(graph, damage_to(graph, links=uplinks[:30]))
    assert (left.worst_share, left.exact) == (0.25, True)
    # 4 x 508 pairs that leave the leaf have 2/8 left.
    assert left.mean_share == pytest.approx(1 - 4 * 508 * 0.75 / (512 * 511 / 2), abs=1e-12)


@pytest.mark.parametrize("name", ["rail-optimized", "rail-only", "fat-tree", "dgx-superpod"])
def test_classes_hold_every_pair_once(name: str) -> None:
    graph = fabric(name, (4096, 64, 8))
    reduced = reduced_graph(graph)
    for faults in ([], ["links=10"], ["leaf=2", "gpus=5"]):
        after = reduced.left(parse_faults(faults, graph))
        rates = row_codes(reduced.intact.ending.astype(int), after.ending.astype(int))
        classes = form_classes(reduced.blocks.equal_blocks(rates))
        assert classes is not None
        assert classes.pairs.sum() == 512 * 511 // 2
        assert np.all(classes.pairs > 0)
        assert np.all(classes.first != classes.second)
        assert len(classes.first) < 200


def test_a_domain_without_gpus_has_nothing_left() -> None:
    """A failed GPU takes its port, and the last one all that was left: never a better worst."""
    graph = fabric("rail-only", (128, 16, 8))
    shares = [
        remaining_bandwidth(graph, damage_to(graph, nodes=range(8, 8 + count))).worst_share
        for count in range(9)
    ]
    assert shares == [1 - count / 8 for count in range(9)]


def test_domains_over_many_routers_are_exact() -> None:
    """Domains of 256 GPUs over 16 routers each, of a dragonfly of 32,768 GPUs."""
    graph = fabric("dragonfly", (32768, 64, 256))
    before = reduced_graph(graph).intact
    for fault, worst in (("gpu-300", 255 / 256), ("group-3/switch-4", 240 / 256)):
        damage = parse_faults([fault], graph)
        left = remaining_bandwidth(graph, damage, intact=before)
        assert (left.exact, left.worst_share) == (True, worst)
        hurt = int(np.flatnonzero(left.share == worst)[0])
        for one in (hurt, 0, 4000):
            pair = int(left.first[one]), int(left.second[one])
            flow = capacity_bytes_per_s(before.reduced.left(damage), *pair)
            assert flow == left.bytes_per_s[one]


@pytest.mark.parametrize("gpus", [4096, 8192])
def test_domains_that_share_leaves_are_exact(gpus: int) -> None:
    """Domains of 72 GPUs under leaves of 32."""
    graph = fabric("nvl72", (gpus, 64, 72))
    for faults in (["gpu-9"], ["leaf=1"], ["core=2", "link=30"], ["gpu=30"]):
        damage = parse_faults(faults, graph, rng=np.random.default_rng(3))
        left = remaining_bandwidth(graph, damage)
        assert left.exact
        after = reduced_graph(graph).left(damage)
        worst = int(left.share.argmin())
        for one in (worst, 0, 77):
            pair = int(left.first[one]), int(left.second[one])
            assert capacity_bytes_per_s(after, *pair) == pytest.approx(left.bytes_per_s[one])


@pytest.mark.parametrize("count", [30, 100])
def test_tori_with_many_failures_are_exact(count: int) -> None:
    graph = fabric("torus-3d", (4096, 64, 8))
    damage = parse_faults([f"links={count}"], graph, rng=np.random.default_rng(4))
    left = remaining_bandwidth(graph, damage)
    assert left.exact
    assert len(left.first) > 1000
    after = reduced_graph(graph).left(damage)
    for one in np.argsort(left.share)[[0, 1, 400, -1]].tolist():
        pair = int(left.first[one]), int(left.second[one])
        assert capacity_bytes_per_s(after, *pair) == left.bytes_per_s[one]
