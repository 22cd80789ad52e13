"""Time that sees the links: levels that know their leaves, against loads link by link."""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.arrays import Bools, Ints
from netplan.errors import NetplanError
from netplan.levels import Level, Tier
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.algorithms import Collective
from netplan.traffic.bounds import group_bound
from netplan.traffic.hierarchy import CollectiveNetwork, Communication, group_of
from netplan.traffic.leaves import Working, collective_slowdown, hop_slowdowns
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.patterns import Pattern, both_ways, collective_traffic
from netplan.traffic.placement import (
    DATA,
    EXPERT,
    PIPELINE,
    Degrees,
    Placement,
    Placements,
    all_placements,
)
from netplan.traffic.routing import link_loads
from netplan.workloads.operations import CollectiveKind

PHASED, RING = Communication("hierarchical"), Communication("flat_ring")
GB = 1e9
PORT = 50e9


@lru_cache
def spec(name: str) -> FabricSpec:
    return FABRICS.load(name)


@lru_cache
def built(name: str, sizing: Sizing) -> tuple[Fabric, FabricGraph]:
    return build_fabric(spec(name), sizing), expand(spec(name), sizing)


def network_busiest_s(found: LinkLoads) -> float:
    """Time of the busiest link beyond the HB domains."""
    return max((one.busiest_s for one in found.by_group() if one.group != "hb"), default=0.0)


def network_alone(fabric: Fabric) -> tuple[Level, ...]:
    """The fabric with HB domains that take no time."""
    domain, *network = fabric.levels
    return (replace(domain, link_bytes_per_s=1e30), *network)


def loads_of(
    graph: FabricGraph,
    placement: Placement,
    kind: CollectiveKind,
    pattern: Pattern,
    dimensions: tuple[str, ...] = ("data",),
) -> LinkLoads:
    matrix = collective_traffic(
        kind, placement, dimensions, data_bytes=GB, kind="data", pattern=pattern
    )
    return link_loads(graph, matrix.relabelled(placement.gpu_of_rank, graph.gpus))


@pytest.mark.parametrize(
    ("name", "ratio", "by_link_ms"),
    [
        # Leaves of 42, 22 up and of 51, 13 up hold the end of one ring and the beginning of
        # another, both at 16 ranks: 32/22 and 32/13 of 107 ms.
        ("fat-tree", 1.0, 107.0),
        ("fat-tree", 2.0, 107.0 * 32 / 22),
        ("fat-tree", 4.0, 107.0 * 32 / 13),
        ("rail-optimized", 1.0, 107.0),
        ("rail-optimized", 2.0, 107.0),
        ("rail-optimized", 4.0, 107.0),
    ],
)
def test_8192_gpus_with_two_replicas_in_a_domain(
    name: str, ratio: float, by_link_ms: float
) -> None:
    fabric, graph = built(name, Sizing(8192, 64, 16, 450e9, PORT, oversubscription=ratio))
    placement = Placement((Degrees(tensor=8, data=2), Degrees(data=64, pipeline=8)))
    weights = 96 * 12 * 12_288**2 / 64 * 2  # bytes of GPT-3 175B on 8 x 8 GPUs
    for_model = CollectiveNetwork(network_alone(fabric), PHASED).collective(
        "all_reduce", group_of(Placements.of(placement), DATA, whole=True)
    )
    assert 1e3 * float(for_model.seconds(weights)[0]) == pytest.approx(by_link_ms, rel=1e-3)
    found = loads_of(graph, placement, "all_reduce", "hierarchical")
    assert 1e3 * weights / GB * network_busiest_s(found) == pytest.approx(by_link_ms, rel=1e-3)


CLOS = ("fat-tree", "rail-optimized", "rail-only", "dgx-1", "dgx-2")


@st.composite
def sizings(draw: st.DrawFn) -> Sizing:
    """Two and three tiers, with leaves that hold whole domains or cut them anywhere."""
    hb_size = draw(st.sampled_from((1, 2, 4, 8, 16)))
    domains = draw(st.sampled_from((6, 16, 24, 36, 48, 64, 128)))
    return Sizing(
        gpus=max(8, hb_size * domains),
        radix=draw(st.sampled_from((8, 12, 16, 64))),
        hb_size=hb_size,
        hb_bytes_per_s=450e9,
        network_bytes_per_s=PORT,
        oversubscription=draw(st.sampled_from((1.0, 1.5, 2.0, 3.0, 4.0, 7.0))),
    )


Keep = Callable[[Ints], Bools | slice]
"""Which of the placements, whose degrees are given."""


def data_crosses(degrees: Ints) -> Bools:
    kept: Bools = degrees[1, DATA] > 1
    return kept


def experts_cross(degrees: Ints) -> Bools:
    kept: Bools = degrees[1, EXPERT] > 1
    return kept


def stages_cross(degrees: Ints) -> Bools:
    kept: Bools = degrees[1, PIPELINE] > 1
    return kept


@st.composite
def placed(
    draw: st.DrawFn, names: tuple[str, ...], keep: Keep = lambda _: slice(None)
) -> tuple[Fabric, FabricGraph, Placement]:
    """A fabric with its graph, and one of the placements on it that are kept.

    On switches alone the last GPUs of every domain and the last domains may idle.
    """
    name, sizing = draw(st.sampled_from(names)), draw(sizings())
    try:
        fabric, graph = built(name, sizing)
    except NetplanError:  # such as a torus of a number that is no product of sides
        assume(condition=False)
    assume(fabric.levels and fabric.sizing.full_domains == fabric.sizing.domains)
    sizes = tuple(level.size for level in fabric.levels)
    used = sizes
    if all(level.kind == "switch" for level in fabric.levels) and draw(st.booleans()):
        used = tuple(draw(st.integers(-(-size // 2), size)) for size in sizes)
    gpus = prod(used)
    every = all_placements(used, (gpus, 1, gpus, gpus, gpus))
    every = every.take(keep(every.degrees))
    assume(every.count)
    found = every.placement(draw(st.integers(0, every.count - 1)))
    return fabric, graph, found if used == sizes else Placement(found.levels, sizes)


def model_s(
    fabric: Fabric, placement: Placement, kind: CollectiveKind, how: Communication, at: int
) -> float:
    """What the model says of 1 GB, were HB domains to take no time."""
    group = group_of(Placements.of(placement), at, whole=True)
    return float(
        CollectiveNetwork(network_alone(fabric), how).collective(kind, group).sending_s(GB)[0]
    )


@settings(deadline=None, max_examples=60)
@given(placed(CLOS, data_crosses))
def test_rings_take_as_long_as_their_busiest_link(
    case: tuple[Fabric, FabricGraph, Placement],
) -> None:
    fabric, graph, placement = case
    found = network_busiest_s(loads_of(graph, placement, "all_gather", "hierarchical"))
    assert model_s(fabric, placement, "all_gather", PHASED, DATA) == pytest.approx(found, rel=1e-6)
    if placement.splits("data")[0] == 1:
        ring_s = model_s(fabric, placement, "all_gather", RING, DATA)
        assert ring_s == pytest.approx(found, rel=1e-6)


@settings(deadline=None, max_examples=60)
@given(placed(CLOS, experts_cross), st.sampled_from((PHASED, RING)))
def test_all_to_alls_take_as_long_as_their_busiest_link(
    case: tuple[Fabric, FabricGraph, Placement], how: Communication
) -> None:
    fabric, graph, placement = case
    over = ("expert",)
    found = network_busiest_s(loads_of(graph, placement, "all_to_all", "hierarchical", over))
    expected_s = model_s(fabric, placement, "all_to_all", how, EXPERT)
    assert expected_s == pytest.approx(found, rel=1e-6)
    # Straight to all others as much crosses, unless rails lie under other leaves.
    if placement.splits("expert")[0] == 1 or fabric.name in ("fat-tree", "rail-only"):
        found = network_busiest_s(loads_of(graph, placement, "all_to_all", "direct", over))
        # Groups that fill domains in part, as 37 members on domains of 16 do, send a little less.
        assert 0.99 * expected_s <= found <= expected_s * (1 + 1e-6)


@settings(deadline=None, max_examples=60)
@given(placed(CLOS, stages_cross))
def test_the_slowest_hop_is_that_of_the_busiest_link(
    case: tuple[Fabric, FabricGraph, Placement],
) -> None:
    fabric, graph, placement = case
    fill, slowest = CollectiveNetwork(network_alone(fabric), PHASED).hops(Placements.of(placement))
    chain = placement.gpu_of_rank[placement.groups("pipeline", snake=True)]
    busiest_s = 0.0
    for here, there in ((chain[:, :-1], chain[:, 1:]), (chain[:, 1:], chain[:, :-1])):
        flows = flows_matrix(
            graph.gpus, source=here, destination=there, flow_bytes=GB, kind="pipeline"
        )
        busiest_s = max(busiest_s, network_busiest_s(link_loads(graph, flows)))
    slowest_s = float(slowest.sending_s(GB)[0])
    inside, outside = placement.splits("pipeline")
    domains = graph.hb_size * np.arange(fabric.sizing.domains)
    leaves = [tier.starts[:-1] for level in fabric.levels for tier in level.tiers]
    whole = all(np.isin(one, domains).all() for one in leaves)
    # Of several stages in a domain one sends, and a leaf may hold GPUs of one or of all; of the
    # domains that are cut at its two ends it may hold all but the one that sends.
    most = inside if whole else inside + 2 * (inside - 1)
    assert busiest_s * (1 - 1e-9) <= slowest_s <= most * busiest_s * (1 + 1e-9)
    if fabric.name == "fat-tree" and whole:
        assert slowest_s == pytest.approx(busiest_s)
    mean_s = float(fill.sending_s(GB)[0]) / (outside - 1)
    assert GB / PORT * (1 - 1e-9) <= mean_s <= slowest_s * (1 + 1e-9)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(CLOS), sizings())
def test_nothing_blocks_without_oversubscription(name: str, sizing: Sizing) -> None:
    fabric = build_fabric(spec(name), replace(sizing, oversubscription=1.0))
    assert all(level.tiers == () for level in fabric.levels)
    thin = build_fabric(spec(name), sizing)
    for level, other in zip(thin.levels, fabric.levels, strict=True):
        assert replace(level, tiers=()) == other  # all that oversubscription does is block


def endpoints(tier: Tier, ranks: int, domains: int) -> np.ndarray:
    """The group of a tier under which some ranks of some domains lie, (ranks, domains)."""
    group = np.arange(tier.spread[0])
    for lower, upper in pairwise(tier.spread):
        starts = [number * lower // upper for number in range(upper)]
        group = np.searchsorted(starts, group, side="right") - 1
    domain, rank = np.arange(domains), np.arange(ranks)[:, None]
    end = domain * tier.ranks + rank
    if tier.by_rank:
        end = rank * tier.domains + np.minimum(rank, tier.extra) + domain
    found: np.ndarray = group[end]
    return found


def crossing(tier: Tier, work: tuple[int, int], m: int, s: int) -> tuple[float, float, float]:
    """Ring, all_to_all and hop, link by link: the largest load out of a group, at least 1."""
    ranks, domains = work
    # Axes: blocks of all ranks, members of a group, groups of a block.
    here = endpoints(tier, ranks, domains // (m * s) * m * s).reshape(-1, m, s)

    def largest(sends: np.ndarray) -> float:
        loads = np.bincount(here.ravel(), np.asarray(sends, float).ravel())
        return max(1.0, float(loads.max()) / tier.links)

    ahead, back = np.roll(here, -1, axis=1) != here, np.roll(here, 1, axis=1) != here
    pairs = (here[:, :, None, :] != here[:, None, :, :]).sum(axis=2) / (m - 1)
    ring = largest(ahead)
    ahead[:, -1] = back[:, 0] = False
    return ring, largest(pairs), max(largest(ahead), largest(back))


@st.composite
def tiers(draw: st.DrawFn) -> tuple[Tier, int]:
    """Any tier, and how many of its domains are used."""
    ranks, domains = draw(st.integers(1, 8)), draw(st.integers(2, 60) | st.integers(60, 150))
    extra, by_rank = draw(st.integers(0, ranks - 1)), draw(st.booleans())
    managers = draw(st.integers(0, 4))
    if draw(st.booleans()):  # so that the pattern of leaves and ranks may repeat
        extra = managers = 0
    ends = ranks * domains + extra + managers
    leaves = draw(st.integers(1, max(1, ends // 2)) | st.sampled_from((ranks, 4 * ranks)))
    spread: tuple[int, ...] = (ends, min(leaves, ends))
    if draw(st.booleans()):
        spread += (draw(st.integers(1, max(1, leaves // 3))),)
    used = draw(st.sampled_from((domains, domains, max(2, domains - 3))))
    return Tier(spread, draw(st.integers(1, 6)), ranks, domains, extra, by_rank), used


@settings(deadline=None, max_examples=120)
@given(tiers(), st.data())
def test_crossings_one_by_one(case: tuple[Tier, int], data: st.DataObject) -> None:
    tier, size = case
    m = data.draw(st.integers(2, size))
    s = data.draw(st.integers(1, size // m))
    level = Level("switch", size, PORT, tiers=(tier,))
    members, stride = np.array([float(m)]), np.array([s])
    ranks = data.draw(st.integers(1, tier.ranks))
    domains = data.draw(st.integers(m * s, size))
    working = Working(np.array([ranks]), np.array([domains]))
    for work, said in (((tier.ranks, size), None), ((ranks, domains), working)):
        ring, pairs, hop = crossing(tier, work, m, s)
        assert collective_slowdown("all_gather", level, members, stride, said) == [ring]
        slower = collective_slowdown("all_to_all", level, members, stride, said)
        assert slower == pytest.approx([pairs])
        hops = hop_slowdowns(level, members.astype(int), stride, said)
        mean, slowest = (float(one[0]) for one in hops)
        assert slowest == hop
        assert 1 <= mean <= slowest <= max(1.0, tier.oversubscription(size)) * (1 + 1e-9)


@settings(deadline=None, max_examples=100)
@given(tiers())
def test_gpus_that_talk_beyond_a_group_one_by_one(case: tuple[Tier, int]) -> None:
    tier, size = case
    group = endpoints(tier, tier.ranks, size)
    held = np.apply_along_axis(np.bincount, 1, group, minlength=tier.groups)
    talking = np.where(held < size, held, 0).sum(axis=0)
    assert tier.oversubscription(size) == talking.max() / tier.links


def test_equal_leaves_by_hand() -> None:
    # 256 domains of 4 GPUs, leaves of 8 domains, 32 ports down and 8 up.
    tier = Tier((1024, 32), links=8, ranks=4, domains=256)
    level = Level("switch", 256, PORT, tiers=(tier,))

    def slow(kind: CollectiveKind, members: int, stride: int) -> float:
        return float(collective_slowdown(kind, level, np.array(members), np.array(stride)))

    # w neighbours under a leaf: min(1, w/o) of the rate, at o = 4.
    assert slow("all_gather", 256, 1) == 1
    assert slow("all_gather", 64, 4) == 2  # two members under a leaf: half the rate
    assert slow("all_gather", 32, 8) == 4  # one each: a quarter
    assert slow("all_gather", 8, 1) == slow("all_gather", 2, 4) == 1  # under one leaf
    # Of an all_to_all over 256, 248 of 255 messages cross, at a quarter of the rate.
    assert slow("all_to_all", 256, 1) == pytest.approx(4 * 248 / 255)
    assert slow("all_to_all", 32, 8) == 4
    assert slow("all_to_all", 8, 1) == 1
    # 16 stages 16 apart: all hops cross. 32 stages 4 apart: every second one, at half the rate.
    stages, stride = np.array([16, 32]), np.array([16, 4])
    mean, slowest = hop_slowdowns(level, stages, stride)
    assert slowest.tolist() == [4, 2]
    assert mean == pytest.approx([4, 1 + 15 / 31])
    # Two ranks of 24 on leaves of 16: a leaf ends after 16 places of the first, 8 and 24 of the
    # second, and so cuts no pair of neighbours 8 apart in one of two cases.
    rails = Level("switch", 24, PORT, tiers=(Tier((48, 3), 1, ranks=2, domains=24, by_rank=True),))
    mean, slowest = hop_slowdowns(rails, np.array([2]), np.array([8]))
    assert (mean.tolist(), slowest.tolist()) == ([4.5], [8])
    # Nothing is under one leaf: what the level has without them is a quarter.
    assert level.scattered == Level("switch", 256, PORT / 4)


ANY = (*CLOS, "dgx-superpod", "nvl72", "torus-2d", "torus-3d", "dragonfly", "bcube")


@settings(deadline=None, max_examples=150)
@given(
    placed(ANY),
    st.sampled_from(get_args(Collective)),
    st.sampled_from(("hierarchical", "ring", "direct")),
    st.sampled_from((("tensor",), ("data",), ("pipeline",), ("tensor", "expert"))),
)
def test_no_bound_exceeds_the_time_by_link(
    case: tuple[Fabric, FabricGraph, Placement],
    kind: Collective,
    pattern: Pattern,
    dimensions: tuple[str, ...],
) -> None:
    fabric, graph, placement = case
    matrix = collective_traffic(
        kind, placement, dimensions, data_bytes=GB, kind="data", pattern=pattern
    ).relabelled(placement.gpu_of_rank, graph.gpus)
    if any(level.kind == "ring" for level in fabric.levels):
        matrix = both_ways(matrix)
    bound = group_bound(
        kind,
        fabric.levels,
        placement.splits(*dimensions),
        data_bytes=GB,
        any_to_any=fabric.network == "any-to-any",
        port_bytes_per_s=fabric.sizing.network_bytes_per_s,
    )
    assert bound.bound_s <= link_loads(graph, matrix).busiest_s * (1 + 1e-9)
