"""Twisted tori: the lattice they are, published diameters, even loads, what refuses them."""

from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.questions.cable_comparison import _routing
from netplan.questions.compare import compare
from netplan.questions.loads import loads
from netplan.topologies.build import build_fabric
from netplan.topologies.cabling.rehearsal import SubnetPart
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.bounds import Operation, group_bound
from netplan.traffic.matrix import TrafficMatrix, flows_matrix
from netplan.traffic.optimum import collective_bound_s
from netplan.traffic.routing import link_loads
from tests.topologies.test_graph import check

TPU = [(4, 4, 8), (4, 8, 8)]


def sizing(gpus: int, hb_size: int = 1) -> Sizing:
    return Sizing(gpus, 64, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)


def twisted(sizes: tuple[int, ...], **keys: object) -> FabricSpec:
    return FABRICS.load("twisted-torus").changed(sizes=sizes, **keys)


def graph_of(spec: FabricSpec) -> FabricGraph:
    return expand(spec, sizing(int(np.prod(getattr(spec, "sizes", ())))))


def joined(graph: FabricGraph) -> nx.Graph:
    return nx.Graph(zip(graph.source.tolist(), graph.target.tolist(), strict=True))


def everyone(gpus: int) -> TrafficMatrix:
    source, destination = np.divmod(np.arange(gpus * gpus), gpus)
    apart = source != destination
    ends = source[apart], destination[apart]
    return flows_matrix(gpus, source=ends[0], destination=ends[1], flow_bytes=np.ones(apart.sum()))


@pytest.mark.parametrize(
    ("sizes", "periods"),
    [
        # Prismatic, face-centred and body-centred cubic lattices: what leads back to where one was.
        ((4, 8), [(4, 4), (0, 8)]),
        ((4, 4, 8), [(4, 0, 4), (0, 4, 4), (0, 0, 8)]),
        ((3, 6, 6), [(3, 3, 3), (0, 6, 0), (0, 0, 6)]),
        ((8, 4, 8), [(8, 0, 0), (4, 4, 4), (0, 0, 8)]),
    ],
)
def test_every_link_is_one_step_in_the_lattice(
    sizes: tuple[int, ...], periods: list[tuple[int, ...]]
) -> None:
    graph = graph_of(twisted(sizes))
    back = np.linalg.inv(np.array(periods, float))
    places = np.array(list(product(*map(range, sizes[::-1]))))[:, ::-1]
    for axis in range(len(sizes)):
        links = np.concatenate(
            [graph.links_of(name) for name in graph.group_names if f"ring {axis + 1} " in name]
        )
        assert len(links) == graph.gpus
        step = places[graph.target[links]] - places[graph.source[links]]
        step[:, axis] -= 1
        around = step @ back
        assert np.abs(around - around.round()).max() < 1e-9


@pytest.mark.parametrize("short", [2, 3, 4, 5])
def test_a_twist_halves_the_way_around_the_long_axis(short: int) -> None:
    # k x 2k: diameter k instead of k // 2 + k (rectangular twisted torus).
    assert nx.diameter(joined(graph_of(twisted((short, 2 * short))))) == short


@pytest.mark.parametrize("sizes", TPU)
def test_an_all_to_all_loads_all_links_alike(sizes: tuple[int, ...]) -> None:
    # Every link carries the mean: pairs x their distance over directed links.
    graph = graph_of(twisted(sizes))
    gpus = graph.gpus
    distance = nx.average_shortest_path_length(joined(graph))
    mean_s = gpus * (gpus - 1) * distance / (6 * gpus) / 50e9
    found = link_loads(graph, everyone(gpus))
    assert found.busiest_s == pytest.approx(mean_s)
    # Without the twist the axis of eight is the bottleneck: n / 8 x 8 / ... = n / 8 each way [B].
    plain = link_loads(graph_of(twisted(sizes, twist=False)), everyone(gpus))
    assert plain.busiest_s == pytest.approx(gpus * 8 / 8 / 50e9)
    assert plain.busiest_s / found.busiest_s == pytest.approx({128: 1.745, 256: 1.391}[gpus], 1e-3)


@pytest.mark.parametrize("sizes", TPU)
def test_bounds_grant_the_links_around(sizes: tuple[int, ...]) -> None:
    # All gather over six links a GPU; lines as long as the axes would have four or five of them.
    graph, fabric = (
        graph_of(twisted(sizes)),
        build_fabric(twisted(sizes), sizing(int(np.prod(sizes)))),
    )
    gpus = graph.gpus

    def bound_s(operation: Operation) -> float:
        levels, data_bytes = fabric.levels, float(gpus)
        asked = {"data_bytes": data_bytes, "any_to_any": False}
        return group_bound(operation, levels, (1, *sizes), **asked).bound_s  # type: ignore[arg-type]

    assert bound_s("all_gather") == pytest.approx((gpus - 1) / 6 / 50e9)
    assert bound_s("all_gather") == pytest.approx(collective_bound_s("all_gather", graph, gpus))
    assert bound_s("all_to_all") <= link_loads(graph, everyone(gpus)).busiest_s


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([(1, 2), (2, 1), (1, 1, 2), (1, 2, 2), (2, 1, 2), (1, 2, 2, 1)]),
    st.integers(2, 5),
    st.integers(1, 5),
    st.integers(0, 5),
    st.integers(0, 40),
)
def test_a_twisted_graph_agrees_with_its_counts(
    pattern: tuple[int, ...], short: int, hb_size: int, block: int, idle: int
) -> None:
    sizes = tuple(short * once for once in pattern)
    places = hb_size * int(np.prod(sizes))
    gpus = places - idle % hb_size
    assume(gpus >= 8)
    spec = twisted(sizes, copper_block=block)
    graph = check(spec, sizing(gpus, hb_size))
    if gpus == places and hb_size == 1:
        assert set(graph.ports_used.tolist()) == {2 * len(sizes)}


@settings(deadline=None, max_examples=30)
@given(st.integers(8, 3000), st.sampled_from([1, 4, 8]))
def test_any_number_takes_the_smallest_twisted_torus(gpus: int, hb_size: int) -> None:
    spec = FABRICS.load("twisted-torus")
    check(spec, sizing(gpus, hb_size))
    fabric = build_fabric(spec, sizing(gpus, hb_size))
    domains = fabric.sizing.domains
    smallest = min(
        once * short**3 for short in range(2, 20) for once in (2, 4) if once * short**3 >= domains
    )
    idle = smallest * hb_size - gpus
    said = [note for note in fabric.notes if "idle" in note]
    assert bool(said) == (smallest > domains)
    assert all(f"{idle:,} places" in note or "one place" in note for note in said)


def test_a_pod_of_cubes_has_all_its_faces_in_optics() -> None:
    # 4 x 4 x 8 are two cubes of 64, 96 links out of each: the twist leads around to the other.
    fabric = build_fabric(twisted((4, 4, 8)), sizing(128))
    assert (fabric.transceivers, fabric.link_count) == (192, 3 * 128)
    assert [level.kind for level in fabric.levels[1:]] == ["line", "line", "ring"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"sizes": (4, 4, 12)}, "got 4 x 4 x 12, the nearest that works is 4 x 4 x 8"),
        ({"sizes": (8, 8, 8)}, "the nearest that works is 4 x 8 x 8"),
        ({"sizes": (1, 2)}, "the nearest that works is 2 x 4"),
        ({"sizes": (16,)}, "2 to 6 dimensions"),
        ({"wraparound": False}, "needs wraparound"),
        ({"family": "clos"}, "needs family: torus"),
    ],
)
def test_twists_that_do_not_fit_are_refused(keys: dict[str, object], said: str) -> None:
    with pytest.raises((InputError, ValueError), match=said):
        FabricSpec.read({**FABRICS.load("twisted-torus").to_dict(), **keys})


def test_rules_of_plain_tori_are_refused() -> None:
    graph = graph_of(twisted((4, 4, 8)))
    for rule in ("dimension-order", "minimal-adaptive"):
        with pytest.raises(InputError, match="twisted ones: take routing 'ecmp'"):
            link_loads(graph, everyone(128), routing=rule)
    spec = twisted((4, 4, 8))
    part = SubnetPart("Switch-100", "gpu-0", 128, 128, 384)
    assert "torus-2QoS" not in _routing(spec, sizing(128), graph)(part).engines
    assert "torus-2QoS" in _routing(spec.changed(twist=False), sizing(128), graph)(part).engines


@pytest.mark.parametrize("gpus", [2048, 1000])
def test_questions_take_it_and_bounds_hold(gpus: int) -> None:
    asked = {"accelerator": "h100-80gb", "model": "gpt-22b", "batch": 512}
    rows = loads("rail-only-paper", gpus=gpus, fabric="twisted-torus", **asked).collectives
    assert rows
    for row in rows:
        assert row.bound_s <= row.busiest_s * (1 + 1e-9)
        assert row.busiest_s <= row.analytic_s * (1 + 1e-9)
    (answer,) = compare("rail-only-paper", gpus=gpus, fabrics=["twisted-torus"], **asked).rows
    assert answer.fabric is not None
    assert (answer.fabric.switches, answer.fabric.ports_per_gpu) == (0, 6)
