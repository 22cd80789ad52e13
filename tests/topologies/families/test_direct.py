"""Tori and dragonflies: published builds, brute force over shapes, explicit graphs."""

from itertools import product
from math import prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.dragonfly import _sized_shape, sized_shape
from netplan.topologies.families.torus import near_cube
from netplan.topologies.specs import FABRICS


def sizing(gpus: int, radix: int = 64, hb_size: int = 1) -> Sizing:
    return Sizing(gpus, radix, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)


@given(st.integers(1, 3000), st.integers(1, 3))
def testnear_cube_have_the_smallest_sum(positions: int, dimensions: int) -> None:
    divisors = [d for d in range(1, positions + 1) if positions % d == 0]
    brute = min(
        sum(sizes) + positions // prod(sizes)
        for sizes in product(divisors, repeat=dimensions - 1)
        if positions % prod(sizes) == 0
    )
    found = near_cube(positions, dimensions)
    assert prod(found) == positions
    assert sum(found) == brute


@pytest.mark.parametrize(("gpus", "name"), [(64, "torus-2d"), (64, "torus-3d"), (8, "torus-3d")])
def test_torus_links_equal_an_explicit_graph(gpus: int, name: str) -> None:
    fabric = build_fabric(FABRICS.load(name), sizing(gpus))
    shape = [level.size for level in fabric.levels[1:]]
    graph = nx.grid_graph(shape, periodic=True)
    assert fabric.link_count == graph.number_of_edges()
    assert fabric.nic_ports == 2 * fabric.link_count


def test_tpu_v4_pod_has_its_published_optics() -> None:
    # 64 cubes of 4 x 4 x 4: 96 optical links a cube, so 6,144 optical ends in the pod.
    fabric = build_fabric(FABRICS.load("torus-3d"), sizing(4096))
    assert fabric.transceivers == 6144
    assert fabric.link_count == 3 * 4096


def test_torus_of_domains_is_one_torus_a_rail() -> None:
    # 128 domains of 256: 8 x 4 x 4, three links a GPU, all between racks.
    fabric = build_fabric(FABRICS.load("torus-3d"), sizing(32_768, hb_size=256))
    assert [level.size for level in fabric.levels] == [256, 8, 4, 4]
    assert (fabric.link_count, fabric.copper_cables) == (3 * 32_768, 0)


@pytest.mark.parametrize(
    ("radix", "hosts", "switches", "copper", "fibre"),
    [(15, 1056, 264, 1980, 528), (23, 5256, 876, 10_074, 2628)],
)
def test_published_dragonflies(
    radix: int, hosts: int, switches: int, copper: int, fibre: int
) -> None:
    # ATOP/ZCube (SIGCOMM 2025), appendix: balanced p = 4 and p = 6; host cables at full capacity.
    shape = sized_shape(hosts, radix)
    assert shape.switches == switches
    assert shape.local_links + hosts == copper
    assert shape.global_links == fibre
    assert shape.radix_needed == radix
    assert shape.links_per_pair == 1


def test_dragonfly_with_few_groups_has_as_many_global_links_as_carry_it() -> None:
    # p = 32, a = 64: 16 groups of 2,048 hosts, of which one in 16 talks to each other group: 128.
    shape = sized_shape(32_768, 128)
    assert (shape.groups, shape.links_per_pair) == (16, 128)
    assert shape.taper == pytest.approx(15 * 128 / 2048)


def test_dragonfly_levels_know_what_switches_and_groups_can_send() -> None:
    # 16 groups of 64 switches of 32 hosts, 128 links a pair: 1,920 global ends, 30 a switch.
    # If each switch sends 1 to each, a global link carries 64^2 / 128 = 32; a link of a group 1
    # and, to and from 15 groups over 30 of 128 links each, 2 x 30 x 64 / 128: 31 in all.
    fabric = build_fabric(FABRICS.load("dragonfly"), sizing(32_768, 128, 256))
    _, network = fabric.levels
    assert (network.kind, network.size, network.link_bytes_per_s) == ("switch", 128, 50e9)
    switch, group = network.tiers
    assert (switch.groups, switch.held) == (1024, 0)  # spread evenly: 32 each
    assert switch.links == pytest.approx(1024 / 32, rel=1e-4)
    # Of the 2,048 hosts of a group so many send to others at the rate of a port over detours.
    assert group.starts.tolist() == list(range(0, 32_769, 2048))
    assert group.links == pytest.approx(64 * 1024 / (2 * 32), rel=1e-4)
    assert "gets 50 % of a port" in fabric.notes[-1]  # 1,024 / (2 x 32 x 32)


def test_dragonfly_of_one_switch_or_group_keeps_the_rate() -> None:
    fabric = build_fabric(FABRICS.load("dragonfly"), sizing(16, 64))
    assert (fabric.levels[1].size, fabric.levels[1].tiers) == (16, ())
    # 16 switches of 32 hosts, two links between any two: all to all has the rate of the ports, and
    # 16 switches x 2 links / 2 leave each for detours, of 32 hosts.
    fabric = build_fabric(FABRICS.load("dragonfly"), sizing(512, 64))
    (tier,) = fabric.levels[1].tiers
    assert (tier.groups, tier.links, tier.pair_links) == (16, 16.0, 2.0)


def test_dragonfly_too_small_a_radix() -> None:
    # 2 hosts, 5 switches of 4 local and 2 global links, 5*2 + 1 = 11 groups: 110 hosts.
    with pytest.raises(InputError, match="holds at most 110 GPUs at the rate of a port, got 111"):
        sized_shape(111, 8)


def test_dragonfly_needs_its_ports() -> None:
    with pytest.raises(InputError, match="needs 71 ports, got radix 64"):
        _sized_shape(10_000, 64, (20, 32, 20))


def test_torus_of_given_sizes_must_hold_the_gpus() -> None:
    spec = FABRICS.load("torus-3d").changed(sizes=(4, 4, 4))
    with pytest.raises(InputError, match="4 x 4 x 4 positions hold 64 HB domains, got 128"):
        build_fabric(spec, sizing(128))


@pytest.mark.parametrize("name", ["torus-2d", "torus-3d", "bcube", "rail-only", "dragonfly"])
def test_every_fabric_has_the_same_bandwidth_a_gpu(name: str) -> None:
    spec = FABRICS.load(name)
    asked = Sizing(1024, 64, 1, 450e9, 50e9, shared_port=True)
    fabric = build_fabric(spec, asked)
    assert fabric.gpu_bytes_per_s == pytest.approx(50e9)
    # A card port for each link, however slow.
    assert fabric.card_ports == fabric.nic_ports == 1024 * fabric.ports_per_gpu
    graph = expand(spec, asked)
    ends = np.bincount(graph.source, graph.bytes_per_s, minlength=graph.node_count)
    ends += np.bincount(graph.target, graph.bytes_per_s, minlength=graph.node_count)
    assert ends[:1024].max() == pytest.approx(50e9)
    # Built again from its own sizing it is the same.
    assert build_fabric(spec, fabric.sizing).sizing == fabric.sizing


def test_ports_of_the_accelerator_itself_are_whole_and_need_no_card() -> None:
    asked = Sizing(4096, 64, 1, 300e9, 50e9, chip_ports=6, shared_port=True)
    fabric = build_fabric(FABRICS.load("torus-3d"), asked)
    assert (fabric.gpu_bytes_per_s, fabric.card_ports) == (300e9, 0)
    assert build_fabric(FABRICS.load("torus-2d"), asked).gpu_bytes_per_s == 200e9
    assert build_fabric(FABRICS.load("rail-only"), asked).card_ports == 4096


@pytest.mark.parametrize(
    ("gpus", "hb_size", "said"),
    [
        (64, 1, "All links are copper."),
        (512, 8, "All links are optical."),
        (4096, 1, "Links are copper inside blocks of side 4, optical between them."),
    ],
)
def test_a_torus_says_what_its_links_are_made_of(gpus: int, hb_size: int, said: str) -> None:
    asked = Sizing(gpus, 64, hb_size, 450e9, 50e9, as_published=True)
    for sizing, notes in ((asked, [said]), (replace(asked, as_published=False), [])):
        fabric = build_fabric(FABRICS.load("torus-3d"), sizing)
        told = [note for note in fabric.notes if "links are" in note or "Links are" in note]
        assert told == notes
