"""Floor plans: hand-worked lengths, racks that hold everything, wrong halls."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS, FloorPlan, lay_out
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import GPU, SWITCH, FabricGraph, network_only
from netplan.topologies.specs import FABRICS

HALL = FLOOR_PLANS.load("example-hall")


def graph(gpus: int = 128, radix: int = 16, fabric: str = "rail-only") -> FabricGraph:
    return expand(FABRICS.load(fabric), Sizing(gpus, radix, 8, 450e9, 50e9))


def hall(**keys: object) -> FloorPlan:
    return FloorPlan.read({**HALL.to_dict(), **keys})


def test_lengths_by_hand() -> None:
    # 128 GPUs in 4 racks of 32; the network's rack is the third place, 01-03.
    layout = lay_out(HALL, graph())
    switch = 128 + 16  # after the GPUs and 16 HB switches
    assert layout.place(0).rack == "01-01"
    assert layout.place(64).rack == "01-04"
    assert layout.place(switch).rack == "01-03"
    # GPU 0 in unit 1, the first switch in unit 1, two racks apart:
    # 2 x (2.7 - 0.04445) + 2 x 0.6 + 1.0 slack.
    expected = 2 * (2.7 - 0.04445) + 1.2 + 1.0
    assert layout.cable_m(np.array([0]), np.array([switch]))[0] == pytest.approx(expected)
    network = network_only(graph())
    lengths_m, stock = lay_out(HALL, network).stock_of(network, HALL.stock_lengths_m)
    joined = (network.source == 0) & (network.target == switch - 16)
    assert lengths_m[stock[joined]].tolist() == [10]  # 7.51 m


def test_a_cable_inside_a_rack_runs_straight() -> None:
    layout = lay_out(HALL, graph())
    # GPUs 0 and 16 stand in units 1 and 22 of one rack: 21 units and the slack.
    length = layout.cable_m(np.array([0]), np.array([16]))[0]
    assert length == pytest.approx(21 * 0.04445 + 1.0)


def test_rows_count_by_their_pitch() -> None:
    plan = hall(racks_per_row=2, network="end")
    layout = lay_out(plan, graph())
    # Racks 1 to 4 hold GPUs in two rows; the network is the fifth rack, third row, first place.
    switch = 128 + 16
    assert layout.place(switch).rack == "03-01"
    same_height = 2 * (2.7 - 0.04445) + 1.0
    length = layout.cable_m(np.array([32]), np.array([switch]))[0]
    assert length == pytest.approx(same_height + 2 * 3.0 + 0.6)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 60).map(lambda domains: 8 * domains),
    st.sampled_from(["rail-only", "rail-optimized", "fat-tree"]),
    st.integers(8, 40),
    st.integers(1, 42),
    st.sampled_from(["middle", "end"]),
)
def test_racks_hold_what_they_may(
    gpus: int, fabric: str, gpus_per_rack: int, switches_per_rack: int, where: str
) -> None:
    plan = hall(
        gpus_per_rack=gpus_per_rack, switches_per_rack=switches_per_rack, network=where, rows=80
    )
    fabric_graph = graph(gpus, 16, fabric)
    layout = lay_out(plan, fabric_graph)
    kinds = fabric_graph.node_kind
    racks = {kind: layout.rack[kinds == kind] for kind in (GPU, SWITCH)}
    assert not set(racks[GPU]) & set(racks[SWITCH])
    assert np.bincount(racks[GPU]).max() <= gpus_per_rack
    if len(racks[SWITCH]):
        assert np.bincount(racks[SWITCH]).max() <= switches_per_rack
    assert layout.unit.min() >= 1
    assert layout.unit.max() <= plan.rack_units
    length = layout.cable_m(fabric_graph.source, fabric_graph.target)
    back = layout.cable_m(fabric_graph.target, fabric_graph.source)
    np.testing.assert_allclose(length, back)
    assert (length >= plan.slack_m).all()
    lengths_m, stock = layout.stock_of(fabric_graph, plan.stock_lengths_m)
    assert (lengths_m[stock] >= length - 1e-6).all()
    assert (np.diff(lengths_m) > 0).all()


def test_a_hall_too_small() -> None:
    with pytest.raises(InputError, match=r"holds 4 racks, 4 for GPUs and 1 for switches"):
        lay_out(hall(rows=1, racks_per_row=4), graph())


def test_a_rack_too_small() -> None:
    with pytest.raises(InputError, match="50 switches do not fit 42 rack units"):
        lay_out(hall(switches_per_rack=50), graph())
