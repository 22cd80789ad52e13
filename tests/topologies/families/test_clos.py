"""Clos counts: published tables, hand-worked cases, and an independent wiring with max-flow."""

import csv
from itertools import product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.clos import (
    LINK_PORTS,
    clos_counts,
    equal_uplinks,
    fat_tree,
    leaf_ports,
    unit_tree,
)
from netplan.topologies.families.switched import wire_tree
from netplan.topologies.specs import FABRICS

PUBLISHED = Path(__file__).parents[2] / "published"
ROWS = list(csv.DictReader((PUBLISHED / "clos_counts.csv").read_text().splitlines()))


def rail_only(gpus: int, radix: int, hb_size: int) -> Fabric:
    """A network a rail, shared by rails only where one switch holds several."""
    spec = FABRICS.load("rail-only").changed(shared_rails=False)
    return spec.build(Sizing(gpus, radix, hb_size, 450e9, 50e9))


@pytest.mark.parametrize("row", ROWS, ids=[f"{r['N']}-r{r['radix']}-K{r['K']}" for r in ROWS])
def test_published_and_even_counts_are_exact(row: dict[str, str]) -> None:
    gpus, radix, hb_size = int(row["N"]), int(row["radix"]), int(row["K"])
    rail = rail_only(gpus, radix, hb_size)
    for name, got in (
        *(
            ("clos", (counts.tiers, counts.switches, counts.transceivers))
            for counts in (clos_counts(gpus, radix), fat_tree(gpus, radix).counts)
        ),
        ("rail", (len(rail.tiers), rail.switches, rail.transceivers)),
    ):
        expected = (int(row[f"{name}_{key}"]) for key in ("tiers", "switches", "transceivers"))
        assert got == tuple(expected)
    assert rail.exact


def test_tiers_by_hand() -> None:
    # Radix 8: 8 on one switch, 8*8/2 = 32 on two tiers, 8*8*8/4 = 128 on three, 512 on four.
    tiers = [clos_counts(n, 8).tiers for n in (0, 1, 2, 8, 9, 32, 33, 128, 129, 512, 513)]
    assert tiers == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]


@pytest.mark.parametrize(("leaves", "spines"), [(8, 4), (16, 8), (24, 16), (32, 16)])
def test_published_two_tier_builds(leaves: int, spines: int) -> None:
    # DGX SuperPOD H100 with 1 to 4 scalable units: 32 ports down and 32 up a leaf, radix 64.
    assert equal_uplinks(leaves, 32, 64, 32)[0] == spines
    assert fat_tree(leaves * 32, 64).counts.switches_per_tier == (leaves, spines)


def test_oversubscription_by_hand() -> None:
    # Radix 64 at 3:1: 48 down, 16 up. 3,072 hosts: 64 leaves, 64*16 = 1,024 uplinks.
    counts = clos_counts(3072, 64, oversubscription=3.0)
    assert counts.switches_per_tier == (64, 16)
    assert counts.links_per_tier == (3072, 1024)
    # Wireable: 64 leaves reach every spine once, so 16 spines with 64 ports each.
    assert fat_tree(3072, 64, oversubscription=3.0).counts.switches_per_tier == (64, 16)


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
    fabric = rail_only(1000, 256, 8)
    assert (len(fabric.tiers), fabric.switches, fabric.link_count) == (1, 4, 1000)


def test_uneven_rails_are_summed() -> None:
    # N = 65, K = 8, r = 8: 9 hosts on one rail (two tiers), 8 on seven (one switch each).
    fabric = rail_only(65, 8, 8)
    long = clos_counts(9, 8)
    assert fabric.switches_lower_bound == long.switches + 7
    assert fabric.link_count == long.links + 7 * 8


def test_whole_cluster_in_one_domain_needs_no_rails() -> None:
    assert rail_only(256, 64, 256).switches == 0


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
    built = fat_tree(n, radix, oversubscription=ratio).counts
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


@pytest.mark.parametrize("radix", [8, 12, 16])
@pytest.mark.parametrize("ratio", [1.0, 2.0, 3.0])
def test_two_tiers_have_the_lowest_price(radix: int, ratio: float) -> None:
    """All numbers of leaves, uplinks and spines, from the rules alone."""
    ports = leaf_ports(radix, ratio)
    for n in range(radix + 1, ports.down * radix + 1, 3):
        found = [
            radix * (leaves + spines) + LINK_PORTS * leaves * uplinks
            for leaves, spines, uplinks in product(
                range(2, radix + 1), range(1, radix), range(1, radix)
            )
            for hosts in [-(-n // leaves)]
            if hosts + uplinks <= radix
            and uplinks * ports.down >= hosts * ports.up
            and leaves * -(-uplinks // spines) <= radix
        ]
        tree = fat_tree(n, radix, oversubscription=ratio)
        assert tree.price == pytest.approx(min(found), rel=1e-12), n


def test_two_tiers_with_more_leaves_than_full_ones() -> None:
    # 17 full leaves of 32 hosts reach 11 spines three times, but for one; 19 of 29 reach ten.
    assert fat_tree(544, 64).counts.switches_per_tier == (17, 11)
    assert fat_tree(544, 64, alike=True).counts.switches_per_tier == (19, 10)
    assert fat_tree(545, 64).counts.switches_per_tier == (19, 10)


def test_uneven_trunks_by_hand() -> None:
    """672 endpoints, radix 64: 21 full leaves, 32 uplinks each; a spine has 64 // 21 = 3 of each.

    ceil(32 / 3) = 11 spines, ten with three links from every leaf and one with two: 32 switches,
    as many as the ports need. Alike trunks are 2 x 16.
    """
    tree = fat_tree(672, 64)
    assert tree.counts.switches_per_tier == (21, 11)
    assert tree.counts.switches == clos_counts(672, 64).switches
    stage = wire_tree(tree).stages[1]
    each = np.bincount(stage.lower * 11 + stage.upper).reshape(21, 11)
    assert each.tolist() == [[3] * 10 + [2]] * 21
    assert np.bincount(stage.upper).tolist() == [63] * 10 + [42]
    assert not tree.ftree_ready
    assert fat_tree(672, 64, alike=True).counts.switches_per_tier == (21, 16)


def test_one_link_to_a_spine_cannot_be_less() -> None:
    """1,152 endpoints, radix 64: the ports fill 36 leaves and 18 spines, 54 switches.

    36 leaves on a spine of 64 ports have a link each, or some of them two; leaf A and leaf B share
    the lesser of both, spine by spine. With 14 spines joined twice and 4 once, dealt out in turn,
    A shares 31 of its 32 uplinks with its neighbour, and 28 with leaves further away. All 32 take
    one link to each of 32 spines: 68.
    """
    uplinks = np.array(
        [[1 + ((spine - leaf) % 18 < 14) for spine in range(18)] for leaf in (0, 1, 9)]
    )
    assert uplinks.sum(axis=1).tolist() == [32] * 3
    shared = [int(np.minimum(uplinks[0], other).sum()) for other in uplinks]
    assert shared == [32, 31, 28]
    assert clos_counts(1152, 64).switches == 54
    for even, alike in product((True, False), repeat=2):
        assert fat_tree(1152, 64, even=even, alike=alike).counts.switches_per_tier == (36, 32)


def test_a_larger_network_is_not_cheaper_by_the_bill() -> None:
    # 2,480 endpoints had 212 switches and 7,936 links, 2.1 % dearer than 213 and 7,528 of 2,488.
    few, many = fat_tree(2480, 64), fat_tree(2488, 64)
    assert few.counts.switches_per_tier == many.counts.switches_per_tier == (80, 80, 44)
    # 80 leaves of 31 hosts each have 31 uplinks, those of 32 have 32.
    assert few.counts.links_per_tier == (2480, 80 * 31, 2560)
    assert many.counts.links_per_tier == (2488, 80 * 32, 2560)
    assert few.price == pytest.approx(64 * 204 + LINK_PORTS * 5040)
    assert many.price == pytest.approx(64 * 204 + LINK_PORTS * 5120)


def _lowest(n: int, radix: int, ratio: float, *, even: bool) -> float:
    """Lowest price of three tiers, every design tried, written from the rules alone."""
    ports = leaf_ports(radix, ratio)
    found = []
    least = -(-n // ports.down)
    for leaves in range(least, min(n, 2 * least + radix) + 1):
        hosts = -(-n // leaves)
        uplinks = -(-hosts * ports.up // ports.down)
        for planes, pods in product(
            range(min(2, uplinks), uplinks + 1), range(1, min(leaves, radix) + 1)
        ):
            down = -(-leaves // pods) * -(-uplinks // planes)
            if down > radix // 2 or (even and leaves % pods):
                continue
            found += [
                radix * (leaves + planes * (pods + cores))
                + LINK_PORTS * (leaves * uplinks + planes * pods * up)
                for cores, up in product(range(1, radix), range(down, radix - down + 1))
                if pods * -(-up // cores) <= radix
            ]
    return min(found)


@pytest.mark.parametrize(
    ("radix", "n", "ratio"),
    [
        *((4, n, 1.0) for n in range(9, 17)),
        *((6, n, 1.0) for n in range(19, 55)),
        *((8, n, 1.0) for n in range(33, 129, 3)),
        *((8, n, 3.0) for n in range(49, 193, 13)),
        *((10, n, 1.5) for n in (61, 97, 144, 211, 299)),
    ],
)
def test_three_tiers_have_the_lowest_price_of_all_designs(radix: int, n: int, ratio: float) -> None:
    assert clos_counts(n, radix, oversubscription=ratio).tiers == 3
    for even in (True, False):
        tree = fat_tree(n, radix, oversubscription=ratio, even=even)
        assert tree.price == pytest.approx(_lowest(n, radix, ratio, even=even), rel=1e-12)
        assert tree.even or not even


@pytest.mark.parametrize(
    ("n", "radix", "bound", "alike", "trees", "uneven"),
    [
        # 144 leaves, 16 planes of 9 pods and 5 cores: 13 links to four of them and 12 to one.
        (9_216, 128, 360, 378, 368, 368),
        (147_456, 512, 1_440, 1_470, 1_448, 1_448),
        (2_560, 64, 200, 219, 204, 204),
        (1_536, 40, 193, 196, 196, 195),
        (1_000, 16, 313, 320, 320, 317),
        (3_000, 64, 235, 250, 250, 246),
        (100_000, 16, 68_750, 71_680, 71_680, 71_588),
    ],
)
def test_planes_and_pods_are_both_counted(
    n: int, radix: int, bound: int, alike: int, trees: int, uneven: int
) -> None:
    assert clos_counts(n, radix).switches == bound
    assert fat_tree(n, radix, alike=True).counts.switches == alike
    assert fat_tree(n, radix).counts.switches == trees
    assert fat_tree(n, radix, even=False).counts.switches == uneven


def _a_plane_an_uplink(n: int, radix: int) -> float:
    """Price where each uplink of a full leaf leads to a plane of its own."""
    if n <= radix * radix // 2:
        return fat_tree(n, radix).price
    leaves = -(-n // (radix // 2))
    hosts = -(-n // leaves)
    above = hosts * (_a_plane_an_uplink(leaves, radix) + LINK_PORTS * leaves)
    return radix * leaves + above


@given(st.integers(2, 300_000), radices, ratios)
def test_unequal_pods_never_need_more_than_equal_ones_nor_a_plane_an_uplink(
    n: int, radix: int, ratio: float
) -> None:
    even = fat_tree(n, radix, oversubscription=ratio)
    uneven = fat_tree(n, radix, oversubscription=ratio, even=False)
    assert even.even
    assert uneven.price <= even.price
    assert uneven.counts.tiers == even.counts.tiers
    if ratio == 1:
        assert uneven.price <= _a_plane_an_uplink(n, radix) * (1 + 1e-12)


def test_scalable_units_keep_full_leaves_and_grow_until_they_wire() -> None:
    # 253 units of 8 leaves: 2,024 = 8 x 11 x 23 is no product of 64 pods and 32 leaves at most.
    tree = unit_tree(253, 8, 64)
    assert (tree.leaves, tree.hosts_per_leaf, tree.even) == (2048, 32, True)
    # 97 leaves are a prime number, and 194 too many for three tiers of 16 ports: unequal pods.
    tree = unit_tree(1, 97, 16)
    assert (tree.leaves, tree.hosts_per_leaf, tree.even) == (97, 8, False)
    assert unit_tree(2, 1, 64).counts.switches_per_tier == (1,)
    for units, leaves in ((1, 8), (4, 32), (9, 72), (11, 88)):
        tree = unit_tree(units, 8, 64)
        assert (tree.leaves, tree.endpoints, tree.even) == (leaves, 32 * leaves, True)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("radix", [4, 8])
@pytest.mark.parametrize("n", [9, 13, 16, 21, 32, 33, 50, 64, 77])
def test_a_wired_tree_has_full_bisection(n: int, radix: int, even: bool) -> None:  # noqa: FBT001
    graph = nx.Graph()
    for tier, stage in enumerate(wire_tree(fat_tree(n, radix, even=even)).stages):
        for low, high in zip(stage.lower.tolist(), stage.upper.tolist(), strict=True):
            ends = (tier, low), (tier + 1, high)
            capacity = graph.edges[ends]["capacity"] + 1 if graph.has_edge(*ends) else 1
            graph.add_edge(*ends, capacity=capacity)
    hosts = [(0, number) for number in range(n)]
    for node in set(graph) - set(hosts):
        assert graph.degree(node, weight="capacity") <= radix
    # Every half of the hosts reaches the other half at full rate: contiguous and interleaved.
    for half in (hosts[: n // 2], hosts[::2][: n // 2]):
        flow = graph.copy()
        rest = [host for host in hosts if host not in half]
        flow.add_edges_from((("s", h) for h in half), capacity=1)
        flow.add_edges_from(((h, "t") for h in rest), capacity=1)
        assert nx.maximum_flow_value(flow, "s", "t") == len(half)


@given(st.integers(2, 20_000), radices, st.booleans())
def test_no_pod_has_fewer_links_up_than_hosts(n: int, radix: int, even: bool) -> None:  # noqa: FBT001
    tree = fat_tree(n, radix, even=even)
    below = np.ones(n, np.int64)  # endpoints under each position
    planes = 1
    for tier in tree.tiers:
        # All positions of a tier have as many links up, over all planes.
        assert below.max() <= planes * tier.uplinks
        planes *= tier.planes
        starts = np.arange(tier.switches) * len(below) // tier.switches
        below = np.add.reduceat(below, starts)
    assert below.tolist() in ([n], [])
