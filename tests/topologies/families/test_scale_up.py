"""Racks and pods of scale-up networks as fabrics: the last one partly filled, two tiers inside."""

from typing import Any, Literal

import networkx as nx
import numpy as np
import pytest

from netplan import compare, cost, loads, simulate
from netplan.faults.damage.groups import domain_of_node
from netplan.reports.schema import plain_data
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import domain_link_count, expand, hb_tiers
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import HB_SWITCH, FabricGraph
from netplan.topologies.specs import FABRICS

RACKS = {
    "nvl72": 72,
    "vr-nvl72": 72,
    "kyber-nvl144": 144,
    "rubin-ultra-nvl576": 576,
    "ualink-1024": 1024,
    "cloudmatrix384": 384,
}


def graph(name: str, gpus: int) -> FabricGraph:
    return expand(FABRICS.load(name), Sizing(gpus, 64, 8, 450e9, 50e9))


@pytest.mark.parametrize(("name", "size"), RACKS.items())
@pytest.mark.parametrize("gpus", [20, 100, 1500])
def test_any_number_of_gpus_fills_racks_in_order(name: str, size: int, gpus: int) -> None:
    spec, asked = FABRICS.load(name), Sizing(gpus, 64, 8, 450e9, 50e9)
    fabric = build_fabric(spec, asked)
    assert fabric.sizing.hb_size == min(size, gpus)
    assert fabric.sizing.domains == -(-gpus // size)
    rest = gpus % size if gpus > size else 0
    told = [note for note in fabric.notes if note.startswith("The last HB domain holds")]
    assert bool(told) == bool(rest)
    alone = f"The one HB domain holds {gpus} of {size:,} GPUs."
    assert (alone in fabric.notes) == (gpus < size)
    expanded = expand(spec, asked)
    inside = len(expanded.links_of("hb"))
    assert 0 < inside <= domain_link_count(spec, fabric.sizing)
    # Every GPU reaches every other of its domain over HB links alone, and none beside.
    net = nx.Graph()
    links = expanded.links_of("hb")
    net.add_edges_from(np.stack((expanded.source[links], expanded.target[links]), 1).tolist())
    parts = [{node for node in part if node < gpus} for part in nx.connected_components(net)]
    held = fabric.sizing.hb_size
    full = [set(range(first, min(first + held, gpus))) for first in range(0, gpus, held)]
    assert sorted(map(sorted, parts)) == sorted(map(sorted, full))


def test_the_ub_plane_is_that_of_cloudmatrix384() -> None:
    """48 nodes x 7 L1 switches, 7 planes of 16 L2 switches; 392 GB/s an NPU, 28 GB/s a link."""
    found = graph("cloudmatrix384", 384)
    assert int((found.node_kind == HB_SWITCH).sum()) == 336 + 112
    links = found.links_of("hb")
    lower = found.source[links] < 384
    assert (int(lower.sum()), int((~lower).sum())) == (384 * 7, 336 * 16)
    assert set(found.bytes_per_s[links[lower]]) == {56e9}
    assert set(found.bytes_per_s[links[~lower]]) == {28e9}
    assert (domain_of_node(found)[found.node_kind == HB_SWITCH] == 0).all()
    used = [
        np.bincount(end[links] * 64 + port[links]).max()
        for end, port in ((found.source, found.source_port), (found.target, found.target_port))
    ]
    assert used == [1, 1]


def test_the_ub_plane_does_not_block() -> None:
    """Half of the NPUs send all they have to the other half: 192 x 392 GB/s."""
    found = graph("cloudmatrix384", 384)
    net = nx.DiGraph()
    for link in found.links_of("hb").tolist():
        ends, rate = (int(found.source[link]), int(found.target[link])), found.bytes_per_s[link]
        net.add_edge(*ends, capacity=rate)
        net.add_edge(*ends[::-1], capacity=rate)
    for gpu in range(384):
        net.add_edge(*(("from", gpu) if gpu < 192 else (gpu, "to")), capacity=392e9)
    value, _ = nx.maximum_flow(net, "from", "to")
    assert value == pytest.approx(192 * 392e9)


def test_one_node_needs_no_second_tier() -> None:
    spec = FABRICS.load("cloudmatrix384")
    assert hb_tiers(spec, 8) == (1, 0)
    assert int((graph("cloudmatrix384", 8).node_kind == HB_SWITCH).sum()) == 7


def test_tiers_that_are_half_given_are_refused() -> None:
    spec = FABRICS.load("nvl72")
    with pytest.raises(ValueError, match="give both or none"):
        spec.changed(hb_spines=4)
    with pytest.raises(ValueError, match="needs hb_kind: switch"):
        spec.changed(hb_spines=4, hb_leaf_gpus=8, hb_planes=1, hb_kind="mesh")


def test_bound_links_and_model_are_in_order() -> None:
    asked = {"radix": 64, "accelerator": "h100-80gb", "model": "gpt-22b", "batch": 64}
    answer = loads("rail-only-paper", gpus=900, fabric="cloudmatrix384", **asked)
    assert answer.collectives
    for row in answer.collectives:
        assert row.bound_s <= row.busiest_s * (1 + 1e-9)
        assert row.busiest_s <= row.analytic_s * (1 + 1e-9)
    rows = compare("rail-only-paper", gpus=900, fabrics=("cloudmatrix384",), **asked).rows
    assert rows[0].best is not None
    found = simulate("rail-only-paper", gpus=900, fabric="cloudmatrix384", **asked)
    assert found.found.lower_bound_s <= found.found.iteration_time_s


def test_larger_domains_without_a_price_of_their_gear_never_win_by_money() -> None:
    asked: dict[str, Any] = {"gpus": 144, "radix": 64, "hb_size": 8, "accelerator": "b200"}
    asked |= {"nic": 400}  # of which the book has prices; a B200 has 800 Gb/s of its own
    asked |= {"model": "gpt-22b", "fabrics": ("nvl72", "rail-optimized")}
    answer = compare("rail-only-paper", **asked, prices="rail-only-2023")
    racks, clos = answer.rows
    assert racks.cost is not None
    assert clos.cost is not None
    # All that has a price costs the same: the racks' gear alone sets them apart.
    assert racks.cost.base == clos.cost.base
    assert (racks.cost_complete, clos.cost_complete) == (False, True)
    assert answer.verdict is not None
    assert answer.verdict.sentence.startswith(
        "No fabric with a whole price trains as fast as nvl72, of which parts have none, within 5 %"
    )
    by_price = compare("rail-only-paper", **asked, prices="rail-only-2023", rule="price").verdict
    assert by_price is not None
    assert by_price.fabric == "rail-optimized"
    assert by_price.caveats == ("Aside, since parts have no price: nvl72.",)
    (line,) = answer.text(details=True).split("nvl72  ", 1)[1].splitlines()[:1]
    assert "≥ " in line
    assert any("HB domains of 72, whose gear is not in its price" in note for note in racks.notes)
    told = {row["fabric"]: row["cost_complete"] for row in answer.to_dict()["fabrics"]}
    assert told == {"nvl72": False, "rail-optimized": True}
    # With a price of the gear on the bill, and in domains of the size that is asked for, all is.
    geared = compare("rail-only-paper", **asked, prices="2026", networks=("hb-gear",))
    assert all(row.cost_complete for row in geared.rows)
    same = compare("rail-only-paper", **asked | {"hb_size": 72}, prices="rail-only-2023")
    assert all(row.cost_complete for row in same.rows)
    # Bills read the same.
    bills = {
        bill.name: bill.complete for bill in cost("rail-only-paper", **_untrained(asked)).bills
    }
    assert bills == {"nvl72": False, "rail-optimized": True}


def _untrained(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in asked.items() if name != "model"} | {
        "prices": "rail-only-2023"
    }


def test_serving_leaves_larger_domains_without_a_price_aside() -> None:
    asked: dict[str, Any] = {"gpus": 144, "radix": 64, "hb_size": 8, "accelerator": "b200"}
    asked |= {"nic": 400, "hall": "as-published"}  # the book prices 400 Gb/s, and no copper
    asked |= {"workload": "serving", "model": "llama-3.1-8b", "prices": "rail-only-2023"}
    answer = compare("serving-70b-h200", **asked, fabrics=("nvl72", "rail-optimized"))
    assert answer.verdict is not None
    assert answer.verdict.fabric == "rail-optimized"
    assert answer.verdict.caveats in ((), ("Aside, since parts have no price: nvl72.",))
    found = {row.name: plain_data(row) for row in answer.rows}
    assert found["nvl72"]["tokens_cost_complete"] is False
    assert found["rail-optimized"]["tokens_cost_complete"] is True
    assert answer.text(details=True).count("≥ ") >= 2


def test_rates_inside_domains_are_told_with_their_links() -> None:
    notes = build_fabric(FABRICS.load("cloudmatrix384"), Sizing(768, 64, 8, 450e9, 50e9)).notes
    assert any("448 Gb/s on each of 7 links of a GPU inside HB domains" in one for one in notes)
    notes = build_fabric(FABRICS.load("ring-8-mesh"), Sizing(64, 64, 8, 300e9, 50e9)).notes
    assert any("on each of 2 links of a GPU inside HB domains" in one for one in notes)


@pytest.mark.parametrize("way", ["hierarchical", "direct", "ring"])
def test_loads_point_rings_on_meshes_to_direct_sending(
    way: Literal["hierarchical", "direct", "ring"],
) -> None:
    answer = loads(
        "rail-only-paper",
        gpus=64,
        hb_size=8,
        accelerator="h100-80gb",
        model="gpt-22b",
        batch=64,
        fabric="full-mesh",
        algorithm=way,
    )
    notes = answer.to_dict()["notes"]
    assert any("shares links" in one for one in notes) == (way == "ring")
    assert any("as --algorithm direct does" in one for one in notes) == (way == "ring")
