"""Clos counts: published tables, hand-worked cases, and an independent wiring with max-flow."""

import csv
from itertools import product
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.topologies.clos import (
    clos_counts,
    equal_uplinks,
    leaf_ports,
    rail_only_counts,
    wireable_clos,
)

PUBLISHED = Path(__file__).parents[1] / "published"
ROWS = list(csv.DictReader((PUBLISHED / "clos_counts.csv").read_text().splitlines()))


@pytest.mark.parametrize("row", ROWS, ids=[f"{r['N']}-r{r['radix']}-K{r['K']}" for r in ROWS])
def test_published_and_even_counts_are_exact(row: dict[str, str]) -> None:
    gpus, radix, hb_size = int(row["N"]), int(row["radix"]), int(row["K"])
    rails = (rail_only_counts(gpus, radix, hb_size, wireable=wired) for wired in (False, True))
    for name, counts in (
        ("clos", clos_counts(gpus, radix)),
        ("clos", wireable_clos(gpus, radix)),
        *(("rail", rail) for rail in rails),
    ):
        got = (counts.tiers, counts.switches, counts.transceivers)
        assert got == tuple(
            int(row[f"{name}_{key}"]) for key in ("tiers", "switches", "transceivers")
        )


def test_tiers_by_hand() -> None:
    # Radix 8: 8 on one switch, 8*8/2 = 32 on two tiers, 8*8*8/4 = 128 on three, 512 on four.
    tiers = [clos_counts(n, 8).tiers for n in (0, 1, 2, 8, 9, 32, 33, 128, 129, 512, 513)]
    assert tiers == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]


@pytest.mark.parametrize(
    ("leaves", "spines"),
    [(8, 4), (16, 8), (24, 16), (32, 16)],
)
def test_published_two_tier_builds(leaves: int, spines: int) -> None:
    # DGX SuperPOD H100 with 1 to 4 scalable units: 32 ports down and 32 up a leaf, radix 64.
    assert equal_uplinks(leaves, 32, 64, 32)[0] == spines
    assert wireable_clos(leaves * 32, 64).switches_per_tier == (leaves, spines)


def test_oversubscription_by_hand() -> None:
    # Radix 64 at 3:1: 48 down, 16 up. 3,072 hosts: 64 leaves, 64*16 = 1,024 uplinks.
    counts = clos_counts(3072, 64, oversubscription=3.0)
    assert counts.switches_per_tier == (64, 16)
    assert counts.links_per_tier == (3072, 1024)
    # Wireable: 64 leaves reach every spine once, so 16 spines with 64 ports each.
    assert wireable_clos(3072, 64, oversubscription=3.0).switches_per_tier == (64, 16)


def test_oversubscription_that_does_not_divide_rounds_up() -> None:
    # Radix 8 at 3:1: 6 down, 2 up. 100 hosts: 17 leaves, 100 x 2 / 6 = 33.3, so 34 uplinks, in
    # three tiers, since two hold 6 x 8 = 48. Middle 2 x 34 / 8 = 8.5, top 34 / 8 = 4.25.
    counts = clos_counts(100, 8, oversubscription=3.0)
    assert counts.switches_per_tier == (17, 9, 5)
    assert counts.links_per_tier == (100, 34, 34)
    # 97 hosts have 32.3 uplinks: with 33 a fifth switch on top, where 32 would fill four.
    assert clos_counts(97, 8, oversubscription=3.0).switches_per_tier == (17, 9, 5)


def test_rails_share_switches_but_are_never_split() -> None:
    # 1,000 GPUs in domains of 8: 125 hosts a rail; a switch of 256 ports takes 2 rails.
    counts = rail_only_counts(1000, 256, 8)
    assert (counts.switches_per_tier, counts.links_per_tier) == ((4,), (1000,))


def test_uneven_rails_are_summed() -> None:
    # N = 65, K = 8, r = 8: 9 hosts on one rail (two tiers), 8 on seven (one switch each).
    counts = rail_only_counts(65, 8, 8)
    long = clos_counts(9, 8)
    assert counts.switches == long.switches + 7
    assert counts.links == long.links + 7 * 8


def test_whole_cluster_in_one_domain_needs_no_rails() -> None:
    assert rail_only_counts(256, 64, 256).switches == 0


@pytest.mark.parametrize("radix", [127, 2, 1026])
def test_bad_radix(radix: int) -> None:
    with pytest.raises(InputError, match=f"radix {radix} cannot be used"):
        clos_counts(100, radix)


def test_bad_oversubscription() -> None:
    with pytest.raises(InputError, match=r"oversubscription 0\.5:1"):
        leaf_ports(64, 0.5)


sizes = st.integers(2, 4_194_304)
radices = st.integers(4, 512).map(lambda half: 2 * half)
ratios = st.sampled_from([1.0, 1.5, 2.0, 3.0, 7.0])


@given(sizes, radices, ratios)
def test_wireable_never_below_the_port_bound(n: int, radix: int, ratio: float) -> None:
    built = wireable_clos(n, radix, oversubscription=ratio)
    bound = clos_counts(n, radix, oversubscription=ratio)
    assert built.tiers == bound.tiers
    for mine, least in zip(built.switches_per_tier, bound.switches_per_tier, strict=True):
        assert mine >= least
    for used, switches in zip(built.ports_used_per_tier, built.switches_per_tier, strict=True):
        assert used <= switches * radix


@given(st.integers(2, 4096), st.integers(2, 4096), radices)
def test_more_endpoints_never_need_fewer_switches(a: int, b: int, radix: int) -> None:
    small, large = sorted((a, b))
    assert clos_counts(small, radix).switches <= clos_counts(large, radix).switches


def _wire(graph: nx.Graph, hosts: list[str], radix: int, name: str) -> None:
    """Join hosts by an explicit equal-uplink Clos, written from the description alone."""
    if len(hosts) <= radix:
        for host in hosts:
            _link(graph, host, name)
        return
    down = radix // 2
    count = -(-len(hosts) // down)
    leaves = [f"{name}.leaf{i}" for i in range(count)]
    for i, host in enumerate(hosts):
        _link(graph, host, leaves[i % count])
    per_leaf = -(-len(hosts) // count)
    if count <= radix:
        options = (
            (-(-per_leaf // each), each)
            for each in range(1, radix // count + 1)
            if -(-per_leaf // each) * each <= radix - per_leaf
        )
        spines, each = min(options, key=lambda o: (o[0], o[0] * o[1]))
        for leaf, spine in product(leaves, range(spines)):
            _link(graph, leaf, f"{name}.spine{spine}", each)
        return
    for plane in range(per_leaf):
        _wire(graph, leaves, radix, f"{name}.plane{plane}")


def _link(graph: nx.Graph, a: str, b: str, count: int = 1) -> None:
    capacity = graph.edges[a, b]["capacity"] + count if graph.has_edge(a, b) else count
    graph.add_edge(a, b, capacity=capacity)


@pytest.mark.parametrize("radix", [4, 8])
@pytest.mark.parametrize("n", [9, 13, 16, 21, 32, 33, 50, 64, 77])
def test_wireable_counts_equal_an_explicit_wiring_with_full_bisection(n: int, radix: int) -> None:
    graph = nx.Graph()
    hosts = [f"host{i}" for i in range(n)]
    _wire(graph, hosts, radix, "net")
    counts = wireable_clos(n, radix)
    assert graph.number_of_nodes() - n == counts.switches
    assert sum(c for _, _, c in graph.edges(data="capacity")) == counts.links
    for node in set(graph) - set(hosts):
        assert graph.degree(node, weight="capacity") <= radix
    # Every half of the hosts reaches the other half at full rate: contiguous and interleaved.
    for half in (hosts[: n // 2], hosts[::2][: n // 2]):
        flow = graph.copy()
        rest = [host for host in hosts if host not in half]
        flow.add_edges_from((("s", h) for h in half), capacity=1)
        flow.add_edges_from(((h, "t") for h in rest), capacity=1)
        assert nx.maximum_flow_value(flow, "s", "t") == len(half)
