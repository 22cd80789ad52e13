"""HB domains of several sizes or kinds in one cluster."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan import compare, loads
from netplan.costing.hb_gear import HB_GEAR_BOOKS, GearChoice, domain_gear
from netplan.costing.prices import PRICE_BOOKS
from netplan.errors import InputError
from netplan.faults.damage.groups import domain_groups
from netplan.records import RecordError
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import domain_link_count, expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import HB_SWITCH
from netplan.topologies.specs import FABRICS, FabricSpec


def spec(*domains: dict[str, object]) -> FabricSpec:
    plain = FABRICS.load("rail-optimized").to_dict()
    return FabricSpec.read({**plain, "domains": list(domains)})


def sizing(gpus: int) -> Sizing:
    return Sizing(gpus, 64, 8, hb_bytes_per_s=900e9, network_bytes_per_s=100e9)


@settings(deadline=None, max_examples=30)
@given(
    st.integers(8, 700),
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 6)), min_size=1, max_size=3),
    st.integers(1, 24),
)
def test_every_gpu_reaches_its_own_domain_alone(
    gpus: int, first: list[tuple[int, int]], last: int
) -> None:
    kinds: list[dict[str, object]] = [
        {"size": size, "count": count, "planes": 2} for size, count in first
    ]
    mixed = spec(*kinds, {"size": last})
    graph = expand(mixed, sizing(gpus))
    assert graph.hb_size == min(gpus, int(np.gcd.reduce([*(size for size, _ in first), last])))
    net = nx.Graph()
    net.add_nodes_from(range(gpus))
    links = graph.links_of("hb") if "hb" in graph.group_names else np.empty(0, np.int64)
    net.add_edges_from(np.stack((graph.source[links], graph.target[links]), 1).tolist())
    parts = [sorted(node for node in part if node < gpus) for part in nx.connected_components(net)]
    expected, at = [], 0
    for size in [*(size for size, count in first for _ in range(count)), *[last] * gpus]:
        expected.append(list(range(at, min(at + size, gpus))))
        at += size
        if at >= gpus:
            break
    assert sorted(part for part in parts if part) == expected
    # The bandwidth of a GPU is whole, however many links share it.
    for gpu in {0, gpus - 1}:
        mine = links[graph.source[links] == gpu]
        assert len(mine) == 0 or graph.bytes_per_s[mine].sum() == pytest.approx(900e9)
    assert len(links) <= domain_link_count(mixed, build_fabric(mixed, sizing(gpus)).sizing)


def test_the_bill_has_the_gear_of_every_size() -> None:
    """Eight racks of 72 are 576 GPUs; 53 servers of 8 hold the other 424."""
    fabric = build_fabric(FABRICS.load("mixed-domains"), sizing(1000))
    assert fabric.domain_gpus == ((72, 576), (8, 424))
    inside = domain_gear(fabric, GearChoice(HB_GEAR_BOOKS.load("2026")), PRICE_BOOKS.load("2026"))
    # Racks of 18 ASICs of 3.6 TB/s for 72 x 900 GB/s; servers have theirs on their boards.
    gear = [(item.line.kinds[0], item.line.quantity) for item in inside.quote.items]
    assert gear == [("hb-switch", 8 * 18), ("hb-copper", 576 * 900)]
    assert inside.in_server.base == pytest.approx(53 * 2 * 3600 * 3.474)
    assert any("8 of 72 GPUs, 53 of 8 GPUs" in note for note in fabric.notes)
    uniform = build_fabric(FABRICS.load("rail-optimized"), sizing(1000))
    assert (fabric.tiers, fabric.links) == (uniform.tiers, uniform.links)


def test_whole_domains_fail() -> None:
    graph = expand(FABRICS.load("mixed-domains"), sizing(600))
    groups = domain_groups(graph)
    assert len(groups) == 8 + 3
    lost = groups.damage(graph, np.array([1])).node_down
    assert np.flatnonzero(lost[:600]).tolist() == list(range(72, 144))
    assert int((lost & (graph.node_kind == HB_SWITCH)).sum()) == 18


def test_boxes_of_two_kinds_stand_side_by_side() -> None:
    """Four boards of 8 GPUs joined directly, and servers of 16 on two switches."""
    mixed = spec({"size": 8, "count": 4, "kind": "mesh"}, {"size": 16, "planes": 2})
    graph = expand(mixed, sizing(64))
    links = graph.links_of("hb")
    assert len(links) == 4 * 28 + 32 * 2
    assert set(graph.bytes_per_s[links]) == {900e9 / 7, 450e9}
    assert build_fabric(mixed, sizing(64)).levels[0].kind == "mesh"


def test_bound_links_and_model_are_in_order() -> None:
    asked = {"radix": 64, "accelerator": "h100-80gb", "model": "gpt-22b", "batch": 64}
    answer = loads("rail-only-paper", gpus=700, fabric="mixed-domains", **asked)
    assert answer.collectives
    for row in answer.collectives:
        assert row.bound_s <= row.busiest_s * (1 + 1e-9)
        assert row.busiest_s <= row.analytic_s * (1 + 1e-9)
    rows = compare(
        "rail-only-paper", gpus=700, fabrics=("mixed-domains", "rail-optimized"), hb_size=8, **asked
    ).rows
    assert rows[0].best == rows[1].best  # timed as groups of 8


@pytest.mark.parametrize(
    ("domains", "keys", "message"),
    [
        ([{"size": 8}, {"size": 72}], {}, "only the last kind may have no count"),
        ([{"size": 8, "count": 1}], {"family": "rail-only"}, "domains needs family: clos"),
        ([{"size": 8, "count": 1}], {"hb_planes": 2}, "leave out hb_kind"),
        ([{"size": 8, "count": 1}], {"hb_size": 4}, "leave out hb_kind"),
        ([{"size": 16, "count": 1, "kind": "mesh"}, {"size": 8}], {}, "8 of 16, 8"),
    ],
)
def test_domains_that_do_not_go_together(
    domains: list[dict[str, object]], keys: dict[str, object], message: str
) -> None:
    plain = FABRICS.load("rail-optimized").to_dict()
    with pytest.raises(RecordError, match=message):
        FabricSpec.read({**plain, "domains": domains, **keys})


def test_a_domain_larger_than_the_cluster_holds_it_all() -> None:
    huge = spec({"size": 10**12, "planes": 3})
    graph = expand(huge, sizing(100))
    assert len(graph.links_of("hb")) == 300
    with pytest.raises(InputError, match="more than the 134,217,728 of a graph"):
        expand(spec({"size": 10**12, "kind": "mesh"}), sizing(100))


def test_too_many_gpus_are_refused() -> None:
    with pytest.raises(InputError, match="hold 160 GPUs, got 161: give at most 160"):
        build_fabric(spec({"size": 72, "count": 2}, {"size": 8, "count": 2}), sizing(161))
