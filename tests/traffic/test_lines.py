"""Open lines, and the wafers made of them: closed forms against messages, loads and all cuts."""

from itertools import pairwise, permutations, product
from math import prod
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.levels import Level, gpu_count
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.tiles import mesh_of
from netplan.topologies.formats.writers import astra_sim_network
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, Tile
from netplan.traffic.algorithms import Collective
from netplan.traffic.bounds import group_bound, lower_bound
from netplan.traffic.hierarchy import (
    CollectiveNetwork,
    Communication,
    Group,
    collective_s,
    group_of,
)
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.patterns import Pattern, collective_traffic
from netplan.traffic.placement import PIPELINE, Placement, Placements, all_placements
from netplan.traffic.published_topology import Dimension
from netplan.traffic.routing import link_loads
from netplan.workloads.operations import CollectiveKind
from tests.traffic.test_algorithms import Message, finish_s

PHASED, FLAT = Communication("hierarchical"), Communication("flat_ring")
RATE, LINK_S, DELAY_S = 50e9, 3e-6, 2e-6
DATA = 1e6
WAFER = FABRICS.load("palm-wafer")


def seconds(
    level: Level, kind: CollectiveKind, members: int, stride: int, how: Communication
) -> float:
    """Time of 1 MB by one group on one level."""
    group = Group(np.array([[members]]), np.array([[stride]]))
    return float(CollectiveNetwork((level,), how).collective(kind, group).seconds(DATA)[0])


def passed_on(members: int, way: int) -> list[Message]:
    """What each member holds goes one way, its own piece first, to the end of the line."""
    places = range(members) if way == 1 else range(members - 1, -1, -1)
    order = list(places)
    sent: list[Message] = []
    for step in range(members - 1):
        for at, (here, following) in enumerate(pairwise(order)):
            if step <= at:
                name, link = f"{way}/{step}/{following}", f"{here}-{following}"
                before = (f"{way}/{step - 1}/{here}",) if step else ()
                sent.append((name, link, before, DATA / members))
    return sent


@pytest.mark.parametrize("members", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_a_gather_takes_as_long_as_its_messages(members: int, kind: Collective) -> None:
    level = Level("line", members, RATE, LINK_S, DELAY_S)
    expected_s = finish_s([*passed_on(members, 1), *passed_on(members, -1)], LINK_S + DELAY_S)
    found_s = collective_s(kind, [level], data_bytes=DATA)
    assert found_s == pytest.approx(expected_s, rel=1e-12)
    assert lower_bound(kind, [level], data_bytes=DATA).bound_s == pytest.approx(
        (members - 1) / members * DATA / RATE
    )


GROUPS = [
    (members, stride)
    for members, stride in product(range(2, 10), range(1, 10))
    if members * stride < 40
]


def load_of(members: int, stride: int, pairs: list[tuple[int, int, float]]) -> float:
    """Bytes on the busiest link if all groups between each other's members send the same."""
    loads = np.zeros((2, members * stride))
    for first, (one, other, amount) in product(range(stride), pairs):
        low, high = sorted((first + one * stride, first + other * stride))
        loads[int(one > other), low:high] += amount
    return float(loads.max())


@pytest.mark.parametrize(("members", "stride"), GROUPS)
def test_times_are_the_loads_of_the_busiest_link(members: int, stride: int) -> None:
    # A longer line than the group needs, and links that take no time.
    level = Level("line", members * stride + 1, RATE)
    around = [(one, (one + 1) % members, (members - 1) / members) for one in range(members)]
    halves = [(*ends, amount / 2) for a, b, amount in around for ends in ((a, b), (b, a))]
    to_all = [(one, other, 1 / members) for one, other in permutations(range(members), 2)]
    for how in (PHASED, FLAT):
        for pairs, kind in (
            (around, "all_gather"),
            (halves, "reduce_scatter"),
            (to_all, "all_to_all"),
        ):
            found_s = seconds(level, kind, members, stride, how)  # type: ignore[arg-type]
            assert found_s == pytest.approx(load_of(members, stride, pairs) * DATA / RATE)
    # By hand: the end has one link, half of the members face the other half.
    ends, middle = (members - 1) / members, members // 2 * ((members + 1) // 2) / members
    by_hand: dict[CollectiveKind, float] = {
        "all_gather": ends,
        "all_reduce": 2 * ends,
        "all_to_all": middle,
        "broadcast": 1,
    }
    for one, parts in by_hand.items():
        found_s = seconds(level, one, members, stride, PHASED)
        assert found_s == pytest.approx(stride * parts * DATA / RATE)


def test_members_apart_are_as_many_links_apart() -> None:
    level = Level("line", 12, RATE, LINK_S, DELAY_S)
    # Three steps over four links each; the farthest message of all to all passes twelve, once.
    slow_s = seconds(level, "all_gather", 4, 3, PHASED) - 3 * 3 / 4 * DATA / RATE
    assert slow_s == pytest.approx(3 * (3 * LINK_S + DELAY_S))
    far_s = seconds(level, "all_to_all", 4, 3, PHASED) - 3 * DATA / RATE
    assert far_s == pytest.approx(9 * LINK_S + DELAY_S)
    placement = Placements(np.array([[[3], [1], [1], [1], [4]]]))
    hops, slowest = CollectiveNetwork((level,), PHASED).hops(placement)
    one_s = 3 * DATA / RATE + 3 * LINK_S + DELAY_S
    assert slowest.seconds(DATA)[0] == pytest.approx(one_s)
    assert hops.seconds(DATA)[0] == pytest.approx(3 * one_s)


def test_sums_on_their_way_could_be_faster() -> None:
    """A chain of sums and one of results, both at once, take D/B; scatter and gather 2 (m-1)/m."""
    level = Level("line", 5, RATE)
    assert lower_bound("all_reduce", [level], data_bytes=DATA).bound_s == pytest.approx(DATA / RATE)
    assert collective_s("all_reduce", [level], data_bytes=DATA) == pytest.approx(1.6 * DATA / RATE)


def test_what_knows_no_lines_says_so() -> None:
    with pytest.raises(InputError, match="no open lines: take another fabric"):
        Dimension.of(Level("line", 4, RATE))
    with pytest.raises(InputError, match="ASTRA-sim knows no open lines: take a fabric of rings"):
        astra_sim_network([Level("line", 4, RATE)])
    with pytest.raises(InputError, match="halving_doubling does not run on a line: use it on sw"):
        collective_s(
            "all_gather", [Level("line", 4, RATE)], data_bytes=1, algorithm="halving_doubling"
        )


@st.composite
def wafers(draw: st.DrawFn) -> tuple[Fabric, FabricGraph]:
    """A small wafer: cores, tiles and rates of all kinds."""
    cores = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    tiles = draw(st.tuples(st.integers(1, 4), st.integers(1, 3)))
    gpus = prod(cores) * prod(tiles)
    assume(gpus >= 8)
    tile = Tile(cores=cores, link_bytes_per_s=draw(st.sampled_from((1e9, 4e9, 32e9))))
    spec = WAFER.changed(sizes=tiles, tile=tile, link_bytes_per_s=draw(st.sampled_from((1e9, 8e9))))
    sizing = Sizing(gpus, 64, 1, 1e9, 1e9, network_latency_s=1e-9)
    return build_fabric(spec, sizing), expand(spec, sizing)


@st.composite
def meshes(draw: st.DrawFn) -> tuple[Fabric, FabricGraph]:
    """A torus without links around, of GPUs or of HB domains."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    hb_size = draw(st.sampled_from((1, 2, 4)))
    gpus = prod(sizes) * hb_size
    assume(gpus >= 8)
    spec = FABRICS.load("torus-3d")
    spec = spec.changed(sizes=tuple(sizes), dimensions=len(sizes), wraparound=False)
    sizing = Sizing(gpus, 64, hb_size, 4e9, 1e9, network_latency_s=1e-9)
    return build_fabric(spec, sizing), expand(spec, sizing)


@settings(deadline=None, max_examples=60)
@given(wafers())
def test_levels_count_as_the_graph_and_are_its_rates(wafer: tuple[Fabric, FabricGraph]) -> None:
    """One byte to the next member of a level, from all that have one, takes what the level says."""
    fabric, graph = wafer
    levels = fabric.levels
    assert gpu_count(levels) == graph.gpus == fabric.sizing.gpus
    assert [level.kind for level in levels[1:]] == ["line"] * 4
    inside = 1
    for level in levels:
        here = np.arange(graph.gpus)
        here = here[here // inside % level.size < level.size - 1]
        if len(here):
            demand = flows_matrix(
                graph.gpus, source=here, destination=here + inside, flow_bytes=np.ones(len(here))
            )
            loads = link_loads(graph, demand)
            assert loads.busiest_s <= (1 + 1e-9) / level.link_bytes_per_s
            # Borders faster than links inside: two tiles alone need one link inside less.
            if fabric.sizing.network_bytes_per_s <= levels[1].link_bytes_per_s or level.size > 2:
                assert loads.busiest_s == pytest.approx(1 / level.link_bytes_per_s)
            links = loads.link_bytes.sum() / len(here)
            assert links * 1e-9 == pytest.approx(level.hop_s())
        inside *= level.size


@st.composite
def placed(draw: st.DrawFn) -> tuple[Fabric, FabricGraph, Placement]:
    """A wafer or open torus, and any placement; the last members of every level may idle."""
    fabric, graph = draw(st.one_of(wafers(), meshes()))
    sizes = tuple(level.size for level in fabric.levels)
    used = tuple(draw(st.integers(-(-size // 2), size)) for size in sizes)
    gpus = prod(used)
    every = all_placements(used, (gpus, 1, gpus, gpus, gpus))
    found = every.placement(draw(st.integers(0, every.count - 1)))
    return fabric, graph, Placement(found.levels, None if used == sizes else sizes)


@settings(deadline=None, max_examples=80)
@given(
    placed(),
    st.sampled_from(get_args(Collective)),
    st.sampled_from((("tensor",), ("expert",), ("data",), ("pipeline",), ("expert", "data"))),
)
def test_no_link_works_for_longer_than_the_levels_say(
    case: tuple[Fabric, FabricGraph, Placement], kind: Collective, dimensions: tuple[str, ...]
) -> None:
    fabric, graph, placement = case
    axes = [("tensor", "context", "expert", "data", "pipeline").index(name) for name in dimensions]
    group = group_of(Placements.of(placement), *axes, whole=True)
    model_s = float(
        CollectiveNetwork(fabric.levels, PHASED).collective(kind, group).sending_s(1.0)[0]
    )
    for pattern in get_args(Pattern):
        matrix = collective_traffic(
            kind, placement, dimensions, data_bytes=1.0, kind="data", pattern=pattern
        ).relabelled(placement.gpu_of_rank, graph.gpus)
        busiest_s = link_loads(graph, matrix).busiest_s
        if pattern == "hierarchical":
            assert busiest_s <= model_s * (1 + 1e-9)
        bound = group_bound(
            kind,
            fabric.levels,
            placement.splits(*dimensions),
            data_bytes=1.0,
            any_to_any=False,
            port_bytes_per_s=fabric.sizing.network_bytes_per_s,
        )
        assert bound.bound_s <= busiest_s * (1 + 1e-9)


@settings(deadline=None, max_examples=40)
@given(placed())
def test_no_transfer_between_stages_takes_longer_than_a_hop(
    case: tuple[Fabric, FabricGraph, Placement],
) -> None:
    fabric, graph, placement = case
    chains = placement.gpu_of_rank[placement.groups("pipeline", snake=True)]
    assume(chains.shape[1] > 1)
    _, slowest = CollectiveNetwork(fabric.levels, PHASED).hops(Placements.of(placement))
    for one, other in pairwise(range(chains.shape[1])):
        source, destination = chains[:, one], chains[:, other]
        demand = flows_matrix(
            graph.gpus, source=source, destination=destination, flow_bytes=np.ones(len(chains))
        )
        assert link_loads(graph, demand).busiest_s <= slowest.sending_s(1.0)[0] * (1 + 1e-9)
    stages = group_of(Placements.of(placement), PIPELINE).members
    assert stages.prod() == chains.shape[1]


def test_the_wafer_of_the_paper_by_hand() -> None:
    fabric = build_fabric(WAFER, Sizing(320, 64, 1, 1e9, 1e9, network_latency_s=1e-9))
    inner, border = (1024e9, 1e-9), (256e9 / 4, 4e-9)
    assert fabric.levels[1:] == (
        Level("line", 4, *inner),
        Level("line", 4, *inner),
        Level("line", 5, *border),
        Level("line", 4, *border),
    )
    mesh = mesh_of(WAFER, 320)
    assert [mesh.place(gpu) for gpu in (15, 16, 80)] == [(3, 3), (4, 0), (0, 4)]
