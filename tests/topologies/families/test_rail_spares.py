"""Rails with a second switch, and rails behind circuit switches: what is left, bills, files."""

import networkx as nx
import pytest

from netplan.costing.switches import SWITCHES, circuit_layer
from netplan.errors import InputError
from netplan.questions.cost import cost
from netplan.questions.export import export
from netplan.questions.faults import faults
from netplan.questions.loads import loads
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

ASKED = {"gpus": 1024, "radix": 64, "hb_size": 8, "prices": "2026"}
UNTIMED = {**ASKED, "years": 1, "timing": False}
REDUNDANT = ("rail-only", "rail-only-redundant")


@pytest.mark.parametrize(
    ("gpus", "radix", "planes"), [(64, 8, 2), (72, 8, 2), (64, 8, 3), (160, 8, 2)]
)
def test_any_switches_but_one_of_each_rail_may_fail(gpus: int, radix: int, planes: int) -> None:
    """networkx: without r switches, the graph of every rail hangs together by the others."""
    spec = FABRICS.load("rail-only-redundant").changed(planes=planes)
    graph = expand(spec, Sizing(gpus, radix, 8, 450e9, 50e9))
    whole = nx.Graph(graph.to_networkx())
    whole.remove_nodes_from([name for name in whole if name.startswith("domain-")])
    switches = [name for name in whole if not name.startswith("gpu-")]
    leaves = {name for name in switches if "leaf" in name}
    for gpu in (name for name in whole if name.startswith("gpu-")):
        assert len(set(whole[gpu]) & leaves) == planes
    lost = [
        name for name in switches if name.startswith(tuple(f"plane-{n}/" for n in range(1, planes)))
    ]
    for failed in ([], *([name] for name in switches), lost):
        left = whole.subgraph(set(whole) - set(failed))
        for rank in range(8):
            rail = [f"gpu-{gpu}" for gpu in range(rank, gpus, 8)]
            assert {nx.has_path(left, rail[0], gpu) for gpu in rail[1:]} == {True}


def test_a_leaf_takes_half_of_a_port_and_no_gpu() -> None:
    answer = faults("rail-only-paper", **UNTIMED, fabrics=REDUNDANT, fail=["leaf=1"])
    alone, redundant = (fabric.scenario.impact for fabric in answer.fabrics)  # type: ignore[union-attr]
    assert (alone.gpus_cut_off, redundant.gpus_cut_off) == (32, 0)
    # One of eight rails of a pair of domains, and half of one of eight.
    assert alone.bandwidth_share == pytest.approx(7 / 8)
    assert redundant.bandwidth_share == pytest.approx(15 / 16)
    stops = [fabric.forecast.interruptions_closed_form for fabric in answer.fabrics]
    assert stops[1] < stops[0]


@pytest.mark.parametrize("gpus", [512, 1024, 16_384])
def test_redundancy_costs_less_than_any_to_any(gpus: int) -> None:
    """Section 4.1: extra rail switches, and still "more cost-effective than the any-to-any"."""
    asked = {**ASKED, "gpus": gpus, "fabrics": (*REDUNDANT, "rail-optimized")}
    alone, redundant, joined = (
        bill.capital.base for bill in cost("rail-only-paper", **asked).bills
    )
    assert alone < redundant or gpus > 64 * 8  # rails of one tier of switches again
    assert redundant < joined


def test_traffic_is_spread_over_both_switches() -> None:
    asked = {"gpus": 256, "radix": 64, "hb_size": 8, "model": "gpt-22b", "batch": 256}
    one, two = (loads("rail-only-paper", **asked, fabric=name) for name in REDUNDANT)
    host = [
        next(group for group in answer.groups if group.group == "host") for answer in (one, two)
    ]
    # Twice the links, of half the rate, with half the bytes each.
    assert host[1].directions == 2 * host[0].directions
    assert host[1].busiest_s == pytest.approx(host[0].busiest_s, rel=1e-6)


def test_a_bill_behind_circuit_switches_by_hand() -> None:
    asked = {**ASKED, "fabrics": ("rail-only-ocs",)}
    (bill,) = cost("rail-only-paper", **asked).bills
    lines = {line.part: line for line in (item.line for item in bill.quote.items)}
    # 128 domains of 16 of 136 ports: 8 on each of 16 switches.
    assert lines["ocs_port"].quantity == 16
    # Rails of 128 GPUs are two tiers: a link to a GPU is two fibres of one module each.
    fabric = build_fabric(FABRICS.load("rail-only"), Sizing(1024, 64, 8, 450e9, 50e9))
    trunks = fabric.link_count - 1024
    parts = {"fibre": 2 * 1024 + trunks, "transceiver": 2 * 1024 + 2 * trunks}
    for part, count in parts.items():
        same = [item.line.quantity for item in bill.quote.items if item.line.part == part]
        assert sum(same) == count
    (other,) = cost("rail-only-paper", **asked, ocs="r300").bills
    assert next(i.line.quantity for i in other.quote.items if i.line.part == "ocs_port") == 8


def test_domains_of_256_take_four_circuit_switches_each() -> None:
    spec, sizing = FABRICS.load("rail-only-ocs"), Sizing(16_384, 64, 256, 450e9, 50e9)
    layer = circuit_layer(spec, build_fabric(spec, sizing), SWITCHES.load("palomar"))
    assert (layer.switches, layer.ports_used) == (256, 2 * 16_384)
    assert "The fibres of 64 GPUs" in layer.notes[0]
    assert "4 switches a domain" in layer.notes[0]
    one = Sizing(256, 64, 256, 450e9, 50e9)
    assert circuit_layer(spec, build_fabric(spec, one), SWITCHES.load("palomar")).switches == 0


def test_circuit_switches_on_the_bill_cost_a_policy_nothing_more() -> None:
    asked = {**UNTIMED, "fabrics": ("rail-only", "rail-only-ocs"), "policy": "reconfigure"}
    plain, behind = (fabric.policies[1] for fabric in faults("rail-only-paper", **asked).fabrics)
    assert plain.price is not None
    assert plain.price > 16 * 136 * 520
    assert behind.price == 0
    assert plain.circuit_switches == behind.circuit_switches == 16


def test_ports_are_written() -> None:
    asked = {key: value for key, value in ASKED.items() if key != "prices"}
    file = export("rail-only-paper", **asked, fabric="rail-only-ocs", to="circuits")
    lines = [*file.lines()]
    assert len(lines) == 1 + 2 * 1024
    assert lines[1] == "ocs-0,0,gpu,0,0,0\n"


def test_circuit_switches_need_a_fabric_that_takes_them() -> None:
    with pytest.raises(InputError, match="add --fabric torus-3d or rail-only-ocs"):
        cost("rail-only-paper", **ASKED, fabrics=("rail-only",), ocs="palomar")
    with pytest.raises(InputError, match="rail-only-ocs has no cubes"):
        export("rail-only-paper", gpus=64, fabric="rail-only-ocs", to="circuits", lost_cubes=[1])
