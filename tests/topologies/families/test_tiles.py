"""Meshes of tiles: counts, graph, paths and orders by hand and against networkx."""

import csv
from itertools import pairwise, product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import CatalogError, InputError
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.tiles import mesh_of, tile_order
from netplan.topologies.formats.graphml import graphml_lines, read_graphml
from netplan.topologies.graph import MEMORY, FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec, Tile
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.routing import link_loads
from tests.cli.command import netplan

WAFER = FABRICS.load("palm-wafer")


def asked(gpus: int) -> Sizing:
    return Sizing(gpus, 64, 1, 1e9, 1e9)


@st.composite
def wafers(draw: st.DrawFn) -> tuple[FabricSpec, int]:
    """Some wafer and its cores."""
    cores = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    tiles = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    places = st.sampled_from(list(product(range(cores[0]), range(cores[1]))))
    channels = tuple(draw(st.lists(places, unique=True, max_size=4)))
    tile = Tile(cores=cores, link_bytes_per_s=4e9, channels=channels, channel_bytes_per_s=2e9)
    return WAFER.changed(sizes=tiles, tile=tile), cores[0] * cores[1] * tiles[0] * tiles[1]


def test_counts_of_the_wafer_by_hand() -> None:
    fabric, graph = build_fabric(WAFER, asked(320)), expand(WAFER, asked(320))
    # 16 rows of 5 x 3 links inside tiles and 4 across borders; 20 columns of 4 x 3 and 3.
    assert {one.name: one.links for one in fabric.links} == {
        "ring 1 tile": 240,
        "ring 1 border": 64,
        "ring 2 tile": 240,
        "ring 2 border": 60,
        "memory": 80,
    }
    assert graph.links_per_group() == {one.name: one.links for one in fabric.links}
    bought = (fabric.nic_ports, fabric.card_ports, fabric.transceivers, fabric.copper_cables)
    assert bought == (0, 0, 0, 0)
    assert graph.node_count == 320 + 80
    assert graph.node_name(320 + 4 * (2 * 5 + 3) + 1) == "row-2/tile-3/memory-1"
    rates = {name: set(graph.bytes_per_s[graph.links_of(name)]) for name in graph.group_names}
    assert rates["ring 1 tile"] == rates["ring 2 tile"] == {1024e9}
    # Told once, in the words of a wafer: it has no HB domains.
    assert [note for note in fabric.notes if "Gb/s" in note] == [
        "5 x 4 tiles of 4 x 4 cores: links of 8,192 Gb/s inside a tile, 2,048 Gb/s across borders."
    ]
    assert rates["ring 1 border"] == rates["ring 2 border"] == rates["memory"] == {256e9}


@settings(deadline=None, max_examples=60)
@given(wafers())
def test_graph_is_a_grid_with_memories(wafer: tuple[FabricSpec, int]) -> None:
    spec, gpus = wafer
    if gpus < 8:
        return
    fabric, graph, mesh = (
        build_fabric(spec, asked(gpus)),
        expand(spec, asked(gpus)),
        mesh_of(spec, gpus),
    )
    assert graph.links_per_group() == {one.name: one.links for one in fabric.links}
    grid = nx.grid_2d_graph(mesh.columns, mesh.rows)
    expected = {frozenset(mesh.core(*place) for place in pair) for pair in grid.edges}
    cores = (graph.source < gpus) & (graph.target < gpus)
    ends = zip(graph.source[cores].tolist(), graph.target[cores].tolist(), strict=True)
    found = [frozenset(pair) for pair in ends]
    assert set(found) == expected
    assert len(found) == len(expected)
    # Only borders are slow.
    for link in np.flatnonzero(cores).tolist():
        (x, y), (to_x, to_y) = (mesh.place(int(end[link])) for end in (graph.source, graph.target))
        wide, high = mesh.cores
        inside = x // wide == to_x // wide and y // high == to_y // high
        assert graph.bytes_per_s[link] == (4e9 if inside else 256e9)
    # No port is used twice, and every memory has one link, to its own core.
    node = np.concatenate([graph.source, graph.target]).astype(np.int64)
    port = np.concatenate([graph.source_port, graph.target_port])
    assert len(np.unique(node << 8 | port)) == len(node)
    memories = np.flatnonzero(graph.node_kind == MEMORY)
    assert set(graph.ports_used[memories].tolist()) <= {1}
    assert len(memories) == len(mesh.channels) * mesh.tiles[0] * mesh.tiles[1]
    links = _codes(graph)
    for gpu in range(gpus if mesh.channels else 0):
        channel, core = mesh.channel_of(gpu)
        assert (core, gpus + channel) in links, "the core has the link to that memory"
        near = [abs(a - b) for a, b in zip(mesh.place(core), mesh.place(gpu), strict=True)]
        (x, y), (wide, high) = mesh.place(gpu), mesh.cores
        steps = (abs(a - x % wide) + abs(b - y % high) for a, b in mesh.channels)
        assert sum(near) == min(steps), "no channel of the tile is nearer"


@settings(deadline=None, max_examples=60)
@given(wafers(), st.data())
def test_paths_are_those_of_dimension_order(
    wafer: tuple[FabricSpec, int], data: st.DataObject
) -> None:
    spec, gpus = wafer
    if gpus < 8:
        return
    graph, mesh = expand(spec, asked(gpus)), mesh_of(spec, gpus)
    one, other = data.draw(st.permutations(range(gpus)))[:2]
    path = mesh.path(one, other)
    assert (path[0], path[-1]) == (one, other)
    assert len(path) - 1 == sum(
        abs(a - b) for a, b in zip(mesh.place(one), mesh.place(other), strict=True)
    )
    demand = flows_matrix(gpus, source=[one], destination=[other], flow_bytes=[1.0])
    used = np.flatnonzero(link_loads(graph, demand).link_bytes.ravel()).tolist()
    codes = _codes(graph)
    assert set(used) == {codes[step] for step in pairwise(path)}


def _codes(graph: FabricGraph) -> dict[tuple[int, int], int]:
    ends = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    there = {pair: link for link, pair in enumerate(ends)}
    return there | {(b, a): graph.link_count + link for link, (a, b) in enumerate(ends)}


@settings(deadline=None, max_examples=60)
@given(wafers())
def test_orders_hold_every_core_once(wafer: tuple[FabricSpec, int]) -> None:
    spec, gpus = wafer
    mesh = mesh_of(spec, gpus)
    for name in ("snake", "line"):
        assert sorted(tile_order(spec, gpus, name).tolist()) == list(range(gpus))
    snake, each = tile_order(spec, gpus, "snake"), mesh.cores[0] * mesh.cores[1]
    for stage in snake.reshape(-1, each):
        tiles = {(x // mesh.cores[0], y // mesh.cores[1]) for x, y in map(mesh.place, stage)}
        assert len(tiles) == 1, "a tile is filled before the next"


def test_the_snake_of_the_paper_by_hand() -> None:
    mesh = mesh_of(WAFER, 320)
    places = [mesh.place(gpu) for gpu in tile_order(WAFER, 320, "snake").tolist()]
    assert places[:9] == [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (2, 1), (1, 1), (0, 1), (0, 2)]
    # The first column of tiles ends at its right, the second begins beside it and goes back up.
    assert places[60:66] == [(0, 15), (1, 15), (2, 15), (3, 15), (4, 15), (5, 15)]
    assert places[-1] == (19, 15)
    far = [abs(a - c) + abs(b - d) for (a, b), (c, d) in pairwise(places)]
    # Neighbours everywhere but before the last row of a column of tiles, which runs to the right.
    assert sorted(far) == [1] * 314 + [4] * 5
    assert [mesh.place(gpu) for gpu in tile_order(WAFER, 320, "line")[:17].tolist()] == [
        *((0, y) for y in range(16)),
        (1, 0),
    ]


def test_a_graph_file_keeps_the_memories(tmp_path: Path) -> None:
    graph, path = expand(WAFER, asked(32)), tmp_path / "wafer.graphml"
    path.write_text("".join(graphml_lines(graph)))
    again = read_graphml(path)
    assert again.links_per_group() == graph.links_per_group()
    assert np.array_equal(np.bincount(again.node_kind), np.bincount(graph.node_kind))


@pytest.mark.parametrize(
    ("sizes", "gpus", "message"),
    [
        (None, 100, "4 x 4 cores, and 100 GPUs, the cores, do not fill them: take 96 or 112"),
        ((5, 4), 160, "do not fill them: take 320, or change sizes"),
    ],
)
def test_cores_that_fill_no_tiles(sizes: tuple[int, int] | None, gpus: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_fabric(WAFER.changed(sizes=sizes), asked(gpus))


TILES = "family: tiles\nhb_size: 1\n"
SQUARE = "cores: [2, 2], link_bytes_per_s: 1e9"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (TILES, "needs a tile"),
        (f"family: torus\ntile: {{{SQUARE}}}\n", "tile needs family: tiles, got torus"),
        (f"family: tiles\ntile: {{{SQUARE}}}\n", "hb_size: 1"),
        (f"{TILES}sizes: [2, 2, 2]\ntile: {{{SQUARE}}}\n", "two sizes"),
        (
            f"{TILES}tile: {{{SQUARE}, channels: [[2, 0]]}}\n",
            r"no core \[2, 0\] in a tile of 2 x 2",
        ),
        (f"{TILES}tile: {{{SQUARE}, channels: [[1, 0]]}}\n", "channels need channel_bytes_per_s"),
    ],
)
def test_files_that_make_no_tiles(keys: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(f"name: odd\ntitle: Odd\nsource: none\ndate: '2025'\n{keys}")
    with pytest.raises(CatalogError, match=message):
        FABRICS.load(str(path))


def test_links_on_a_chip_have_no_cables() -> None:
    """The links of a wafer in a hall are none of its cables: no length, no kind."""
    wafer = ("--gpus", "128", "--hb-size", "1", "--fabric", "palm-wafer")
    done = netplan("cables", "rail-only-paper", *wafer, "--floor-plan", "example-hall")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    inside = [row for row in rows if row["length_class"] == "inside"]
    assert {row["length_m"] for row in inside} == {"0"}
    assert len(inside) == len(rows) > 200
