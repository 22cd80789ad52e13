"""Products of rings and meshes: counts, levels, graph and loads by hand and against networkx."""

import re
from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import CatalogError, InputError
from netplan.faults.damage.impact import Subject
from netplan.faults.damage.scenario import parse_faults
from netplan.levels import Level
from netplan.topologies.build import build_fabric
from netplan.topologies.drawings.layers import fabric_drawing
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, FabricAxis, FabricSpec
from netplan.traffic.bounds import lower_bound
from netplan.traffic.hierarchy import group_time
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import both_ways, collective_traffic
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.routing import link_loads
from tests.cli.command import netplan

ZION = FABRICS.load("ring-8-mesh-16")
ASKED = Sizing(128, 64, 8, 300e9, 50e9, shared_port=True)
RING, MESH = Level("ring", 8, 600e9), Level("mesh", 16, 25e9)
MEMBERS = {"ring": nx.cycle_graph, "mesh": nx.complete_graph}


def made(kinds: Sequence[str], sizes: Sequence[int | None]) -> FabricSpec:
    """A product with its first dimension inside HB domains."""
    axes = tuple(
        FabricAxis(kind=kind, size=size)  # type: ignore[arg-type]
        for kind, size in zip(kinds[1:], sizes[1:], strict=True)
    )
    return ZION.changed(hb_kind=kinds[0], hb_size=sizes[0], axes=axes)


def between(graph: FabricGraph, left: np.ndarray) -> float:
    """Most bytes a second from some GPUs to all others [B/s]."""
    net = nx.DiGraph()
    ends = zip(
        graph.source.tolist(), graph.target.tolist(), graph.bytes_per_s.tolist(), strict=True
    )
    for one, two, rate in ends:
        net.add_edge(one, two, capacity=rate)
        net.add_edge(two, one, capacity=rate)
    net.add_edges_from(("from", gpu) if left[gpu] else (gpu, "to") for gpu in range(graph.gpus))
    return float(nx.maximum_flow_value(net, "from", "to"))


def test_counts_of_128_chips_by_hand() -> None:
    fabric, graph = build_fabric(ZION, ASKED), expand(ZION, ASKED)
    # 8 planes of 16 (16 - 1)/2 = 120 links; 15 ports a chip; 16 rings of 8 links.
    assert [(one.name, one.links, one.medium) for one in fabric.links] == [
        ("mesh 1", 960, "optical")
    ]
    assert (fabric.nic_ports, fabric.ports_per_gpu, fabric.transceivers) == (1920, 15, 1920)
    assert (fabric.switches, fabric.copper_cables, fabric.exact) == (0, 0, True)
    assert fabric.gpu_bytes_per_s == 15 * 25e9
    assert fabric.levels == (RING, MESH)
    assert graph.links_per_group() == {"hb": 128, "mesh 1": 960}
    assert set(graph.ports_used.tolist()) == {2 + 15}
    # Built again from its own sizing it is the same.
    assert build_fabric(ZION, fabric.sizing).levels == fabric.levels


def test_bisections_by_hand() -> None:
    graph, gpu = expand(ZION, ASKED), np.arange(128)
    # Eight rings against eight: 64 pairs of rings with 8 links each.
    assert between(graph, gpu < 64) == pytest.approx(64 * 8 * 25e9)
    # The first halves of all rings against the second ones: two links a ring.
    assert between(graph, gpu % 8 < 4) == pytest.approx(16 * 2 * 600e9)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from(["ring", "mesh"]), st.integers(1, 6)), min_size=2, max_size=4
    )
)
def test_graph_is_the_product_of_its_dimensions(dimensions: list[tuple[str, int]]) -> None:
    kinds, sizes = zip(*dimensions, strict=True)
    gpus = prod(sizes)
    if gpus < 8:
        return
    spec, asked = made(kinds, sizes), Sizing(gpus, 64, 1, 300e9, 50e9)
    fabric, graph = build_fabric(spec, asked), expand(spec, asked)
    found = {
        frozenset(pair) for pair in zip(graph.source.tolist(), graph.target.tolist(), strict=True)
    }
    # networkx runs the last dimension fastest, and its ring of one has a loop.
    whole = reduce(nx.cartesian_product, (MEMBERS[k](n) for k, n in reversed(dimensions)))
    places = list(product(*(range(n) for n in reversed(sizes))))
    number = {place: at for at, place in enumerate(places)}

    def flat(node: object) -> tuple[int, ...]:
        return (*flat(node[0]), node[1]) if isinstance(node, tuple) else (node,)  # type: ignore[return-value]

    expected = {frozenset((number[flat(a)], number[flat(b)])) for a, b in whole.edges if a != b}
    assert found == expected
    assert graph.link_count == len(found), "no link is there twice"
    groups = graph.links_per_group()
    groups.pop("hb", None)
    assert groups == {one.name: one.links for one in fabric.links}
    # Counts, ports and levels agree: each GPU has as many links as its levels say.
    used = graph.ports_used
    assert set(used.tolist()) == {sum(level.links_per_gpu for level in fabric.levels)}
    node = np.concatenate([graph.source, graph.target]).astype(np.int64)
    port = np.concatenate([graph.source_port, graph.target_port])
    assert len(np.unique(node << 16 | port)) == len(node)
    assert np.array_equal(used, np.bincount(node, minlength=gpus))
    assert port.max(initial=-1) < max(1, used.max())
    rate = np.bincount(graph.source, graph.bytes_per_s, minlength=gpus)
    rate += np.bincount(graph.target, graph.bytes_per_s, minlength=gpus)
    assert rate == pytest.approx(sum(level.gpu_bytes_per_s for level in fabric.levels))


def test_a_product_of_rings_is_a_torus() -> None:
    spec = made(["ring", "ring", "ring"], [1, 6, 4])
    torus = FABRICS.load("torus-2d").changed(sizes=(6, 4), copper_block=0)
    asked = Sizing(24, 64, 1, 300e9, 25e9)
    ours, theirs = expand(spec, asked), expand(torus, asked)

    def ends(graph: FabricGraph) -> set[tuple[tuple[int, int], ...]]:
        sides = (graph.source, graph.source_port), (graph.target, graph.target_port)
        near, far = (zip(node.tolist(), port.tolist(), strict=True) for node, port in sides)
        return {tuple(sorted(pair)) for pair in zip(near, far, strict=True)}

    assert ends(ours) == ends(theirs)
    # Dimension order runs on both alike.
    demand = collective_traffic(
        "all_to_all",
        Placement((Degrees(data=24),)),
        ("data",),
        data_bytes=1e9,
        kind="data",
        pattern="direct",
    )
    loads = [link_loads(graph, demand) for graph in (ours, theirs)]
    assert np.sort(loads[0].link_bytes.ravel()) == pytest.approx(
        np.sort(loads[1].link_bytes.ravel())
    )


def moved(
    collective: str, inner: int, outer: int, pattern: str, *, turns: bool = False
) -> LinkLoads:
    """Loads of a collective among the chips of so many places in a ring, and rings."""
    placement = Placement(
        (Degrees(data=inner, tensor=8 // inner), Degrees(data=outer, tensor=16 // outer))
    )
    matrix: TrafficMatrix = collective_traffic(
        collective,  # type: ignore[arg-type]
        placement,
        ("data",),
        data_bytes=1e9,
        kind="data",
        pattern=pattern,
    )
    return link_loads(expand(ZION, ASKED), both_ways(matrix) if turns else matrix)


def test_a_ring_all_reduce_takes_both_ways_around() -> None:
    # 2 x 7/8 GB, half of it each way: 0.875 GB over 600 GB/s.
    loads = moved("all_reduce", 8, 1, "ring", turns=True)
    assert loads.busiest_s == pytest.approx(0.875 / 600)
    model = group_time("all_reduce", [RING], None, methods=[None]).seconds(1e9)
    assert loads.busiest_s == pytest.approx(model)
    assert lower_bound("all_reduce", [RING], data_bytes=1e9).bound_s == pytest.approx(model)


def test_a_direct_all_reduce_uses_all_links_of_a_mesh() -> None:
    # 1/16 GB to each of the others, twice.
    loads = moved("all_reduce", 1, 16, "direct")
    assert loads.busiest_s == pytest.approx(2 / 16 / 25)
    model = group_time("all_reduce", [MESH], None, methods=[None]).seconds(1e9)
    assert loads.busiest_s == pytest.approx(model)


def test_an_all_to_all_among_all_chips() -> None:
    loads = moved("all_to_all", 8, 16, "direct")
    message = 1e9 / 128  # of each pair
    mesh = {row.group: row for row in loads.by_group()}["mesh 1"]
    # 8 x 8 messages from ring to ring over 8 links.
    assert mesh.busiest_s == pytest.approx(8 * message / 25e9)
    levels = [RING, MESH]
    model = group_time("all_to_all", levels, None, methods=[None, None]).seconds(1e9)
    bound = lower_bound("all_to_all", levels, data_bytes=1e9).bound_s
    assert bound <= loads.busiest_s <= model


def test_an_all_to_all_in_a_ring_is_bound_by_its_bisection() -> None:
    # Messages go 1 + 2 + 3 + 4/2 hops each way, 8 over each link: p^2/8 m.
    loads = moved("all_to_all", 8, 1, "direct")
    assert loads.busiest_s == pytest.approx(8 * (1e9 / 8) / 600e9)
    assert loads.busiest_s == pytest.approx(
        lower_bound("all_to_all", [RING], data_bytes=1e9).bound_s
    )


def test_an_open_axis_takes_what_the_others_leave() -> None:
    spec = made(["ring", "mesh", "ring"], [4, None, 3])
    fabric = build_fabric(spec, Sizing(120, 64, 4, 300e9, 50e9))
    assert [(level.kind, level.size) for level in fabric.levels] == [
        ("ring", 4),
        ("mesh", 10),
        ("ring", 3),
    ]
    # 12 lines of 45 links, 40 rings of 3.
    assert [(one.name, one.links) for one in fabric.links] == [("mesh 1", 540), ("ring 2", 120)]
    assert build_fabric(FABRICS.load("ring-8-mesh"), ASKED).levels == (RING, MESH)


@pytest.mark.parametrize(
    ("name", "gpus", "message"),
    [
        ("ring-8-mesh-16", 100, "holds 8 x 16 GPUs, got 100: take 128, or change"),
        ("ring-8-mesh-16", 256, "holds 8 x 16 GPUs, got 256: take 128, or change"),
    ],
)
def test_gpus_that_do_not_fit(name: str, gpus: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_fabric(FABRICS.load(name), Sizing(gpus, 64, 8, 300e9, 50e9))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("family: product\n", "needs axes"),
        ("family: torus\naxes: [{kind: ring}]\n", "axes needs family: product, got torus"),
        ("family: product\naxes: [{kind: ring}, {kind: mesh}]\n", "at most one"),
        ("family: product\naxes: [{kind: star}]\n", "'ring' or 'mesh'"),
        ("family: product\naxes: [{kind: mesh, size: 0}]\n", "size"),
        ("family: product\naxes: [{kind: mesh}]\nlink_bytes_per_s: 0\n", "greater than 0"),
    ],
)
def test_files_that_make_no_product(keys: str, message: str, tmp_path: object) -> None:
    path = tmp_path / "odd.yaml"  # type: ignore[operator]
    path.write_text(f"name: odd\ntitle: Odd\nsource: none\ndate: '2025'\n{keys}")
    with pytest.raises(CatalogError, match=message):
        FABRICS.load(str(path))


def test_any_family_may_have_rates_of_its_own() -> None:
    spec = FABRICS.load("dgx-2").changed(link_bytes_per_s=25e9, hb_link_bytes_per_s=150e9)
    asked = Sizing(256, 64, 8, 450e9, 50e9)
    assert [level.link_bytes_per_s for level in build_fabric(spec, asked).levels] == [150e9, 25e9]
    graph = expand(spec, asked)
    assert set(graph.bytes_per_s[graph.links_of("hb")].tolist()) == {150e9}
    assert set(graph.bytes_per_s[graph.links_of("host")].tolist()) == {25e9}
    # Each of two planes, and each link of a torus, has all of the rate.
    for name, keys in (("fat-tree", {"planes": 2}), ("torus-2d", {})):
        one = FABRICS.load(name).changed(link_bytes_per_s=25e9, **keys)
        shared = Sizing(64, 64, 1, 450e9, 50e9, shared_port=True)
        assert set(expand(one, shared).bytes_per_s.tolist()) == {25e9}


def test_rings_may_be_domains_of_any_family() -> None:
    spec = FABRICS.load("rail-optimized").changed(hb_kind="ring", hb_size=5)
    graph = expand(spec, Sizing(12, 64, 1, 450e9, 50e9))
    links = graph.links_of("hb")
    pairs = set(zip(graph.source[links].tolist(), graph.target[links].tolist(), strict=True))
    rings = [(at, at + 1) for at in range(4)] + [(4, 0)]
    # The last domain has two GPUs, of a ring that is open.
    assert pairs == {*rings, *((a + 5, b + 5) for a, b in rings), (10, 11)}
    assert set(graph.bytes_per_s[links].tolist()) == {225e9}


def test_a_ring_that_lost_a_chip_is_an_open_line() -> None:
    fabric = build_fabric(ZION, ASKED)
    subject = Subject(ZION, fabric.sizing, fabric, None)
    share = subject.hb_share(parse_faults(["gpu-9"], subject.graph))
    assert np.flatnonzero(share < 1).tolist() == [8, 10]
    assert share.min() == 0.5


def test_a_verdict_scales_the_rates_of_a_design() -> None:
    asked = "compare rail-only-paper --gpus 128 --radix 64 --model gpt-22b --prices 2026"
    asked += " --accelerator h100-80gb --details"
    fabrics = "--fabric rail-only --fabric rail-optimized --set rail-only.link_bytes_per_s=25e9"
    said = " ".join(netplan(*asked.split(), *fabrics.split()).stdout.split())
    # The accelerator has 50 GB/s, of which rail-only needs less to be near enough.
    found = re.search(r"counts as fast from ([\d.]+) GB/s a GPU on \(now 25\)", said)
    assert found is not None, said
    assert 25 < float(found[1]) < 50


def test_the_drawing_says_what_joins_the_rings() -> None:
    drawn = fabric_drawing(build_fabric(ZION, ASKED))
    assert "mesh of 16" in drawn
    assert "mesh 1: 960 links, 200G optical" in drawn
    assert drawn.count("<path") == 5  # neighbours of four boxes, and farther ones


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("compare rail-only-paper --radix 64 --model gpt-22b", "1,920"),
        ("cost rail-only-paper --radix 64", "Network card port, 200G"),
        ("search rail-only-paper --details --model gpt-22b --accelerator a100-80gb", "inside HB"),
        ("loads rail-only-paper --radix 64 --model gpt-22b --accelerator a100-80gb", "mesh 1"),
        ("traffic rail-only-paper --model gpt-22b --accelerator a100-80gb", "GB"),
        ("faults rail-only-paper --radix 64 --no-timing --details", "mesh 1"),
        ("export rail-only-paper --radix 64 --to astra-sim", "[ Ring, FullyConnected ]"),
        ("export rail-only-paper --radix 64 --to graphml", "mesh 1"),
        ("cables rail-only-paper --radix 64", "gpu-0:1--gpu-8:1"),
    ],
)
def test_commands_take_products(command: str, said: str) -> None:
    done = netplan(*command.split(), "--gpus", "128", "--fabric", "ring-8-mesh-16")
    assert (done.returncode, said in done.stdout) == (0, True), done.stderr
    refused = netplan(*command.split(), "--gpus", "120", "--fabric", "ring-8-mesh-16")
    assert refused.returncode == 2
    assert "take 128" in refused.stderr
    assert refused.stderr.count("\n") == 1
