"""Clos networks in planes: ports of cards and switches split, in every face of the answer."""

import numpy as np
import pytest

from netplan import compare, loads
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.materials import bill_items
from netplan.costing.switches import SWITCHES
from netplan.costing.wiring import Hardware, wire
from netplan.errors import CatalogError, InputError
from netplan.faults.damage.groups import card_groups
from netplan.faults.years.effects import kinds_of_units
from netplan.faults.years.rates import unit_counts
from netplan.records import replace
from netplan.topologies.build import build_fabric, own_rates
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

PLANES = {"two-planes": 2, "four-planes": 4, "eight-planes": 8}


def sizing(gpus: int, radix: int = 64, hb_size: int = 8) -> Sizing:
    """Cards and switches of 800 Gb/s a whole port."""
    return Sizing(gpus, radix, hb_size, hb_bytes_per_s=900e9, network_bytes_per_s=100e9)


@pytest.mark.parametrize(("name", "planes"), PLANES.items())
@pytest.mark.parametrize("gpus", [37, 512, 1000])
def test_ports_are_split_once(name: str, planes: int, gpus: int) -> None:
    """Whoever expands a sized fabric, again, gets the same network."""
    spec = FABRICS.load(name)
    fabric = build_fabric(spec, sizing(gpus))
    again = build_fabric(spec, fabric.sizing)
    assert (again.tiers, again.links, again.levels) == (fabric.tiers, fabric.links, fabric.levels)
    graph = expand(spec, fabric.sizing)
    host = graph.links_of("host")
    assert len(host) == planes * gpus
    assert np.allclose(graph.bytes_per_s[host], 100e9 / planes)
    ports = np.bincount(np.concatenate((graph.source, graph.target)), minlength=graph.node_count)
    assert ports[graph.node_tier > 0].max() <= 64 * planes
    assert fabric.gpu_bytes_per_s == 100e9
    assert fabric.levels[-1].link_bytes_per_s == 100e9


def test_eight_planes_hold_131_072_gpus_in_two_tiers() -> None:
    """Two tiers of 512 ports: 512 / 2 x 512 = 131,072 (arXiv:2605.04333)."""
    whole = build_fabric(FABRICS.load("eight-planes"), sizing(131_072))
    # A plane: 131,072 / 256 = 512 leaves, and 512 x 256 / 512 = 256 spines.
    assert [tier.switches for tier in whole.tiers] == [8 * 512, 8 * 256]
    assert len(build_fabric(FABRICS.load("rail-optimized"), sizing(131_072)).tiers) == 4
    assert len(build_fabric(FABRICS.load("eight-planes"), sizing(131_080)).tiers) == 3


def test_a_radix_too_large_to_split_is_refused() -> None:
    with pytest.raises(InputError, match="whole ports, of 800 Gb/s; give at most 128"):
        build_fabric(FABRICS.load("eight-planes"), sizing(1024, radix=256))


def test_a_third_of_a_rate_makes_whole_ports_again() -> None:
    fabric = build_fabric(FABRICS.load("two-planes").changed(planes=3), sizing(100))
    assert fabric.sizing.card_gbps == 800
    hardware = Hardware(CABLING_BOOKS.load("2026"))
    bill = bill_items(fabric, wire(fabric, hardware), hardware)
    rates = {line.speed_gbps for line in bill if line.part in ("switch_port", "transceiver")}
    assert rates == {800}


def test_a_split_card_is_one_card_in_one_cage() -> None:
    """1,000 GPUs in two planes of SN5600.

    A plane has 128 ports of 400 Gb/s a switch: ceil(1000 / 64) = 16 leaves of up to 63 hosts, whose
    63 uplinks lead to 8 spines: 8 to seven of them, 7 to one. Both planes: 48 switches, 2,000 host
    links, 2 x 1,008 above.
    """
    fabric = build_fabric(FABRICS.load("two-planes"), sizing(1000))
    hardware = Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load("sn5600"))
    wiring = wire(fabric, hardware)
    ordered = {line.item: line.quantity for line in bill_items(fabric, wiring, hardware)}
    assert ordered["Switch sn5600"] == 48
    assert ordered["ConnectX-8, 1 x 800G"] == 1000
    assert ordered["Twin-port OSFP 2 x 400G SR4, flat top"] == 1000
    # Leaves have 8 x 63 + 8 x 62 = 1,000 hosts a plane; modules share cages across link groups, so
    # 63 + 63 ports take 63 cages, 62 + 63 take 63; spines 7 x 16 x 8 / 2 + 16 x 7 / 2 = 504.
    finned = ordered["MMA4Z00-NS, twin-port OSFP 2 x 400G SR4, finned top"]
    assert finned == 2 * (16 * 63 + 504)
    assert sum(run.links for run in wiring.runs) == 2000 + 2016


def test_a_split_that_no_card_has_is_named() -> None:
    # ConnectX-8 is split in 2, 4 and 8; ConnectX-7 has one port of 400 Gb/s.
    asked = replace(sizing(1000), network_bytes_per_s=50e9)
    fabric = build_fabric(FABRICS.load("two-planes"), asked)
    hardware = Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load("sn5600"))
    with pytest.raises(CatalogError, match="not split into 2 x 200G"):
        wire(fabric, hardware)


def test_a_failed_card_takes_all_planes() -> None:
    spec, asked = FABRICS.load("eight-planes"), sizing(64)
    fabric = build_fabric(spec, asked)
    assert unit_counts(fabric)["nic_port"] == 64
    assert kinds_of_units(fabric, ["nic", "card"])["nic_port"] == ["card"]
    graph = expand(spec, asked)
    lost = card_groups(graph).damage(graph, np.array([5])).link_down
    assert np.flatnonzero(lost).tolist() == [
        link for link in graph.links_of("host").tolist() if graph.source[link] == 5
    ]


def test_joined_switches_in_planes_are_split_once_too() -> None:
    spec = FABRICS.load("hyperx").changed(planes=2)
    fabric = build_fabric(spec, sizing(500))
    assert build_fabric(spec, fabric.sizing).links == fabric.links
    assert replace(fabric.sizing, port_split=1) != fabric.sizing
    assert expand(spec, fabric.sizing).links_per_group()["host"] == 1000


@pytest.mark.parametrize("name", ["two-planes", "eight-planes", "wide-trunks"])
@pytest.mark.parametrize("gpus", [100, 256])
def test_bound_links_and_model_are_in_order(name: str, gpus: int) -> None:
    asked = {"radix": 16, "accelerator": "h100-80gb", "model": "gpt-22b", "batch": 64}
    answer = loads("rail-only-paper", gpus=gpus, fabric=name, hb_size=8, **asked)
    assert answer.collectives
    for row in answer.collectives:
        assert row.bound_s <= row.busiest_s * (1 + 1e-9)
        assert row.busiest_s <= row.analytic_s * (1 + 1e-9)
    rows = compare("rail-only-paper", gpus=gpus, fabrics=(name,), hb_size=8, **asked).rows
    assert rows[0].best is not None


@pytest.mark.parametrize("name", ["rail-optimized", *PLANES])
def test_planes_are_built_from_the_same_boxes(name: str) -> None:
    """1,024 GPUs fill 48 switches of 64 whole ports, a module in each, and one in every card."""
    fabric = build_fabric(FABRICS.load(name), sizing(1024))
    hardware = Hardware(CABLING_BOOKS.load("2026"))
    bill = {line.part: line for line in bill_items(fabric, wire(fabric, hardware), hardware)}
    switch, module, card = bill["switch_port"], bill["transceiver"], bill["nic_port"]
    assert (switch.quantity, switch.price_units, switch.speed_gbps) == (48, 64, 800)
    assert (module.quantity, module.price_units, module.speed_gbps) == (48 * 64 + 1024, 1, 800)
    assert (card.quantity, card.speed_gbps) == (1024, 800)


def test_links_of_an_accelerator_are_counted_once_where_a_port_is_split() -> None:
    """Four planes of 25 GB/s in ports split in two: two links of a GPU, 50 GB/s, not 100."""
    spec = FABRICS.load("four-planes").changed(link_bytes_per_s=25e9)
    split = replace(sizing(64), port_split=2)
    assert own_rates(spec, split).network_bytes_per_s == 50e9
    assert own_rates(spec, sizing(64)).network_bytes_per_s == 100e9
    # Of two cards each has two planes, and a port that is split in two one a part.
    assert own_rates(spec, replace(sizing(64), cards=2)).network_bytes_per_s == 50e9
    assert own_rates(spec, replace(split, cards=2)).network_bytes_per_s == 25e9
