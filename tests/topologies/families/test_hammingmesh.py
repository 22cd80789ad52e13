"""HammingMesh: counts by hand, the explicit graph, awkward sizes, bounds, one switch lost."""

from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.faults.damage.survival import switch_loss
from netplan.questions.compare import compare
from netplan.questions.cost import cost
from netplan.questions.loads import loads
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.hammingmesh import hammingmesh_shape
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.routing import link_loads
from tests.topologies.test_graph import check

BOARDS = [(1, 1), (2, 1), (2, 2), (3, 2), (4, 4)]


def sizing(gpus: int, radix: int = 64, hb_size: int = 1) -> Sizing:
    return Sizing(gpus, radix, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)


def spec(board: tuple[int, int] = (2, 2), **keys: object) -> FabricSpec:
    return FABRICS.load("hammingmesh").changed(board=board, **keys)


@pytest.mark.parametrize(
    ("board", "gpus", "switches", "host", "upper"),
    [
        # 16 x 16 boards of 2 x 2: 32 rows and 32 columns of 32 ports, two to a switch of 64.
        ((2, 2), 1024, (32,), 2048, 0),
        # 8 x 8 boards of 4 x 4: 64 lines of 16 ports, four to a switch.
        ((4, 4), 1024, (16,), 1024, 0),
        # 64 x 64 boards of 2 x 2: 256 lines of 128 ports, each 4 leaves below 2 spines.
        ((2, 2), 16_384, (1024, 512), 32_768, 32_768),
        # 32 x 32 boards of 4 x 4: 256 lines of 64 ports.
        ((4, 4), 16_384, (256,), 16_384, 0),
    ],
)
def test_counts_by_hand(
    board: tuple[int, int], gpus: int, switches: tuple[int, ...], host: int, upper: int
) -> None:
    fabric = build_fabric(spec(board), sizing(gpus))
    assert tuple(tier.switches for tier in fabric.tiers) == switches
    links = {group.name: group.links for group in fabric.links}
    assert (links["host"], links.get("leaf-spine", 0)) == (host, upper)
    # (a - 1) b traces along one axis of a board, a (b - 1) along the other; four ports a GPU.
    wide, high = board
    boards = gpus // (wide * high)
    assert links["board 1"] == boards * (wide - 1) * high
    assert links["board 2"] == boards * wide * (high - 1)
    assert (fabric.nic_ports, fabric.card_ports) == (4 * gpus, host)
    assert fabric.exact


def test_boards_of_one_are_a_grid_of_switches() -> None:
    # 8 x 8 GPUs, each with two ports into its row and two into its column: 16 lines of 16 ports.
    graph = check(spec((1, 1)), sizing(64, 16))
    joined = nx.Graph(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    rows = [set(joined[switch]) for switch in range(64, 72)]
    assert rows == [set(range(8 * row, 8 * row + 8)) for row in range(8)]
    columns = [set(joined[switch]) for switch in range(72, 80)]
    assert columns == [set(range(column, 64, 8)) for column in range(8)]


def test_boards_are_grids_and_lines_end_at_their_switches() -> None:
    # Four boards of 3 x 2 in two rows, lines of four ports on switches of eight: two to a switch.
    graph = expand(spec((3, 2), sizes=(2, 2)), sizing(24, 8))
    traces = np.concatenate([graph.links_of("board 1"), graph.links_of("board 2")])
    on_boards = nx.Graph(
        zip(graph.source[traces].tolist(), graph.target[traces].tolist(), strict=True)
    )
    for part in nx.connected_components(on_boards):
        assert nx.is_isomorphic(on_boards.subgraph(part), nx.grid_2d_graph(3, 2))
    at = [place[::-1] for place in product(range(2), range(2), range(2), range(3))]
    hosts = graph.links_of("host")
    ends = nx.Graph(zip(graph.source[hosts].tolist(), graph.target[hosts].tolist(), strict=True))
    for gpu in range(24):
        i, j, x, y = at[gpu]
        columns, rows = {f"columns/leaf-{(3 * x + i) // 2}"}, {f"rows/leaf-{(2 * y + j) // 2}"}
        found = {graph.node_name(switch) for switch in ends[gpu]}
        assert found == (columns if i == 1 else columns | rows)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(BOARDS),
    st.integers(8, 1500),
    st.sampled_from([8, 12, 16, 64]),
    st.sampled_from([1, 2, 8]),
)
def test_graph_agrees_with_its_counts(
    board: tuple[int, int], gpus: int, radix: int, hb_size: int
) -> None:
    asked = sizing(gpus, radix, min(hb_size, gpus))
    check(spec(board), asked)
    fabric = build_fabric(spec(board), asked)
    held = int(np.prod(hammingmesh_shape(spec(board), asked).sizes)) * hb_size
    said = f"The design holds {held:,} GPUs"
    assert any(said in note for note in fabric.notes) == (held > gpus)
    assert sum(tier.switches_lower_bound for tier in fabric.tiers) <= fabric.switches


@pytest.mark.parametrize("wide", [1, 2, 3, 4, 5])
def test_rings_over_a_row_get_two_ports_for_a_line(wide: int) -> None:
    # Every GPU sends 1 byte to its like on the next board: a flows over the two ports of a line.
    own = spec((wide, 2), sizes=(4, 4))
    gpus = 32 * wide
    fabric = build_fabric(own, sizing(gpus, 8))
    gpu = np.arange(gpus)
    board = gpu // (2 * wide) % 4
    after = gpu + np.where(board == 3, -3, 1) * 2 * wide
    sent = flows_matrix(gpus, source=gpu, destination=after, flow_bytes=np.ones(gpus))
    found = link_loads(expand(own, sizing(gpus, 8)), sent).busiest_s
    assert found == pytest.approx(wide / 2 / 50e9)
    assert found == pytest.approx(1 / fabric.levels[3].link_bytes_per_s)


def test_rings_over_rows_of_trees_keep_to_their_ports() -> None:
    # 13 boards a row, 26 ports on leaves of 16: no board has its two ports on two leaves.
    own = spec(sizes=(13, 8))
    gpu = np.arange(416)
    after = gpu + np.where(gpu // 4 % 13 == 12, -12, 1) * 4
    sent = flows_matrix(416, source=gpu, destination=after, flow_bytes=np.ones(416))
    found = link_loads(expand(own, sizing(416, 16)), sent)
    assert found.busiest_s == pytest.approx(1 / 50e9)


@pytest.mark.parametrize("gpus", [1024, 500])
@pytest.mark.parametrize("hb_size", [1, 8])
def test_bounds_hold_on_the_links(gpus: int, hb_size: int) -> None:
    asked = {"accelerator": "h100-80gb", "model": "gpt-22b", "batch": 512, "hb_size": hb_size}
    rows = loads("rail-only-paper", gpus=gpus, fabric="hammingmesh", **asked).collectives
    assert rows
    for row in rows:
        assert row.bound_s <= row.busiest_s * (1 + 1e-9)
        assert row.busiest_s <= row.analytic_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("board", "gpus", "radix", "hb_size"),
    [
        ((2, 2), 64, 16, 1),
        ((2, 2), 41, 8, 1),
        ((1, 1), 12, 64, 1),
        ((4, 4), 30, 8, 1),
        ((2, 2), 128, 8, 8),
        ((2, 1), 50, 8, 4),
        ((2, 2), 16, 64, 1),
    ],
)
def test_the_loss_of_a_switch_against_all_of_them(
    board: tuple[int, int], gpus: int, radix: int, hb_size: int
) -> None:
    fabric = build_fabric(spec(board), sizing(gpus, radix, hb_size))
    graph = expand(spec(board), fabric.sizing)
    joined = nx.Graph(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    whole = all(
        nx.node_connected_component(nx.restricted_view(joined, [switch], []), 0) >= set(range(gpus))
        for switch in range(graph.node_count - fabric.switches, graph.node_count)
    )
    assert switch_loss(spec(board), fabric).survives == whole


def test_questions_take_it() -> None:
    asked = {"accelerator": "h100-80gb", "model": "gpt-22b", "hb_size": 1}
    (row,) = compare("rail-only-paper", gpus=1000, fabrics=["hammingmesh"], **asked).rows
    assert row.fabric is not None
    assert row.fabric.network == "any-to-any"
    assert row.best is not None
    (bill,) = cost(
        "rail-only-paper", gpus=1024, fabrics=["hammingmesh"], hb_size=1, prices="2026"
    ).bills
    # 2,048 links end at cards and switches, with a module at either end; traces have no cable.
    count = {item.line.category: item.line.quantity for item in bill.quote.items}
    assert (count["cards"], count["cables"], count["transceivers"]) == (2048, 2048, 4096)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"sizes": (4, 4)}, "4 x 4 boards of 2 x 2 hold 64 GPUs, got 100: .* sizes of 5 x 5"),
        ({"sizes": (4,)}, "takes two sizes"),
        ({"family": "torus"}, "board needs family: hammingmesh"),
    ],
)
def test_bad_shapes_are_refused(keys: dict[str, object], said: str) -> None:
    with pytest.raises((InputError, ValueError), match=said):
        build_fabric(FabricSpec.read({**spec().to_dict(), **keys}), sizing(100))
