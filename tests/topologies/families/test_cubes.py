"""Tori of cubes on circuit switches: the pod of TPU v4, any number of GPUs, bills, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.costing.switches import SWITCHES, circuit_layer
from netplan.errors import InputError
from netplan.questions.compare import compare
from netplan.questions.cost import cost
from netplan.questions.export import export
from netplan.questions.loads import loads
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.torus import torus_shape
from netplan.topologies.formats.writers import cube_circuits
from netplan.topologies.specs import FABRICS, FabricSpec
from tests.topologies.test_graph import check


def sizing(gpus: int) -> Sizing:
    return Sizing(gpus, 64, 1, hb_bytes_per_s=300e9, network_bytes_per_s=50e9)


def spec(**keys: object) -> FabricSpec:
    return FABRICS.load("torus-ocs").changed(**keys)


@pytest.mark.parametrize(
    ("gpus", "shape"), [(64, (4, 4, 4)), (128, (8, 4, 4)), (512, (8, 8, 8)), (4096, (16, 16, 16))]
)
def test_every_cube_has_96_optical_ends(gpus: int, shape: tuple[int, ...]) -> None:
    # Six faces of 4 x 4: 96 ends a cube, also of a single one, whose rings close over the switches.
    fabric = build_fabric(spec(), sizing(gpus))
    assert torus_shape(spec(), sizing(gpus)) == shape
    assert fabric.transceivers == 96 * gpus // 64
    assert fabric.link_count == 3 * gpus
    layer = circuit_layer(spec(), fabric, SWITCHES.load("palomar"))
    # 3 x 16 positions, a switch each; both ends of a link between cubes take a port.
    assert (layer.switches, layer.ports_used) == (48, 96 * gpus // 64)


def test_more_cubes_than_ports_share_positions() -> None:
    # 136 ports are 68 cubes; 80 cubes of 64 need 160 ports a position, on two switches.
    layer = circuit_layer(spec(), build_fabric(spec(), sizing(5120)), SWITCHES.load("palomar"))
    assert layer.switches == 96
    assert "not every choice of cubes can be joined" in layer.notes[0]


@settings(deadline=None, max_examples=20)
@given(st.integers(8, 1500), st.booleans())
def test_any_number_takes_whole_cubes(gpus: int, twist: bool) -> None:  # noqa: FBT001
    own = spec(twist=twist)
    check(own, sizing(gpus))
    shape = torus_shape(own, sizing(gpus))
    assert not any(size % 4 for size in shape)
    assert np.prod(shape) >= gpus
    fabric = build_fabric(own, sizing(gpus))
    said = f"The design holds {int(np.prod(shape)):,} GPUs"
    assert any(said in note for note in fabric.notes) == (np.prod(shape) > gpus)


@pytest.mark.parametrize("gpus", [512, 300])
def test_bounds_hold_on_the_links(gpus: int) -> None:
    asked = {"accelerator": "tpu-v4", "model": "gpt-22b", "batch": 256}
    rows = loads("rail-only-paper", gpus=gpus, fabric="torus-ocs", **asked).collectives
    assert rows
    for row in rows:
        assert row.bound_s <= row.busiest_s * (1 + 1e-9)
        assert row.busiest_s <= row.analytic_s * (1 + 1e-9)


def test_one_price_in_all_questions_and_another_switch_by_name() -> None:
    asked = {"gpus": 1000, "accelerator": "tpu-v4", "prices": "2026"}
    (row,) = compare("rail-only-paper", fabrics=["torus-ocs"], **asked).rows
    (bill,) = cost("rail-only-paper", fabrics=["torus-ocs"], **asked).bills
    (more,) = cost("rail-only-paper", fabrics=["torus-ocs"], ocs="r300", **asked).bills
    assert row.bill is not None
    assert row.bill.capital.base == bill.capital.base
    items = [item.line for item in bill.quote.items]
    assert [line.quantity for line in items if line.category == "circuits"] == [48]
    assert [line.model for line in items if line.category == "circuits"] == ["palomar"]
    other = [item.line.model for item in more.quote.items if item.line.category == "circuits"]
    assert other == ["r300"]
    # Every link between cubes is two fibres to a switch, with a module at either chip.
    graph = expand(spec(), sizing(1000))
    links = sum(len(graph.links_of(name)) for name in graph.group_names if "optical" in name)
    count = {line.item: line.quantity for line in items if line.part in ("fibre", "transceiver")}
    assert set(count.values()) == {2 * links}


@pytest.mark.parametrize(("sizes", "twist"), [((8, 4, 12), False), ((4, 4, 8), True)])
def test_circuits_are_the_links_between_cubes(sizes: tuple[int, ...], twist: bool) -> None:  # noqa: FBT001
    own = spec(sizes=sizes, twist=twist)
    gpus = int(np.prod(sizes))
    found = cube_circuits(own, sizing(gpus), ports=136)
    grid = np.array(sizes) // 4
    graph = expand(own, sizing(gpus))
    expected = set()
    for axis in range(3):
        links = graph.links_of(f"ring {axis + 1} optical")
        plus, minus = (
            np.stack(np.unravel_index(end[links], sizes, order="F"))
            for end in (graph.source, graph.target)
        )
        others = [other for other in range(3) if other != axis]
        position = plus[others[0]] % 4 + 4 * (plus[others[1]] % 4)
        assert np.array_equal(position, minus[others[0]] % 4 + 4 * (minus[others[1]] % 4))
        cubes = [
            np.ravel_multi_index(tuple(end // 4), tuple(grid), order="F") for end in (plus, minus)
        ]
        ends = 16 * axis + position, 2 * cubes[0] + 2, 2 * cubes[1] + 1
        expected |= set(zip(*(column.tolist() for column in ends), strict=True))
    switch, *ports = (column.tolist() for column in found.pairs)
    assert set(zip(switch, *ports, strict=True)) == expected
    assert len(switch) == 3 * gpus // 4  # a quarter of the links of every axis


def test_tori_are_cut_around_cubes_that_failed() -> None:
    whole = cube_circuits(spec(), sizing(4096), ports=136)
    rest = cube_circuits(spec(), sizing(4096), ports=136, lost=[0, 17])
    assert (whole.grid, rest.grid) == ((4, 4, 4), (5, 4, 3))
    for found, cubes in ((whole, 64), (rest, 60)):
        switch, plus, minus = found.pairs
        # Both faces of every cube that is left end at each of the 48 switches, once.
        ends = np.sort(np.concatenate((switch * 1000 + plus, switch * 1000 + minus)))
        assert len(np.unique(ends)) == len(ends) == 48 * 2 * cubes
        assert ends.max() % 1000 <= 128
    used = np.unique(np.concatenate(rest.pairs[1:]))
    assert not {1, 2, 35, 36} & set(used.tolist())
    lines = list(
        export(
            "rail-only-paper", to="circuits", gpus=512, fabric="torus-ocs", lost_cubes=[5]
        ).lines()
    )
    assert lines[:2] == [
        "circuit_switch,port,other_port,cube,other_cube\n",
        "axis-1/position-0,2,3,0,1\n",
    ]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"gpus": 8192}, "128 cubes need 256 ports .* at most 4,352 GPUs"),
        ({"lost_cubes": [8]}, "has cubes 0 to 7, got 8"),
        ({"lost_cubes": range(8)}, "none of its 8 cubes is left"),
        ({"fabric": "torus-3d"}, "torus-3d has no circuit switches"),
        ({"to": "dot", "lost_cubes": [1]}, "--lost-cube is for --to circuits"),
    ],
)
def test_circuits_that_cannot_be_are_refused(keys: dict[str, object], said: str) -> None:
    asked = {"to": "circuits", "gpus": 512, "fabric": "torus-ocs"} | keys
    with pytest.raises(InputError, match=said):
        export("rail-only-paper", **asked)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("torus-ocs", {"sizes": (4, 4, 4_000_000_000)}),
        ("torus-ocs", {"copper_block": 1_000_000}),
        ("hammingmesh", {"sizes": (1_000_000, 1_000_000)}),
        ("hammingmesh", {"board": (65, 1)}),
    ],
)
def test_grids_beyond_all_clusters_are_refused(name: str, keys: dict[str, object]) -> None:
    with pytest.raises((InputError, ValueError), match=r"16,777,216 places|board"):
        build_fabric(FabricSpec.read({**FABRICS.load(name).to_dict(), **keys}), sizing(64))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"sizes": (4, 4, 6)}, "got 4 x 4 x 6, the nearest that works is 4 x 4 x 8"),
        ({"copper_block": 2}, "needs copper_block of 3 or more"),
        ({"hb_size": 8}, "hb_size: 1"),
        ({"circuit_switch": "../palomar"}, "circuit_switch"),
        ({"family": "bcube", "sizes": (4, 4)}, "needs family: torus"),
    ],
)
def test_others_than_cubes_are_refused(keys: dict[str, object], said: str) -> None:
    with pytest.raises((InputError, ValueError), match=said):
        FabricSpec.read({**spec().to_dict(), **keys})
