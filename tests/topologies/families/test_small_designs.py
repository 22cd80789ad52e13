"""Few GPUs: every family takes the smallest design that its paper's rules leave it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.joined_switches import switch_graph
from netplan.topologies.specs import FABRICS, FAMILIES
from tests.topologies.kinds import JOINED

ONE_SWITCH = ("rail-optimized", "fat-tree", "wide-trunks", "dragonfly", *JOINED)
"""Fabrics that are one switch where one holds all GPUs."""
OTHERS = {
    "rail-only": "a switch a rail, none inside one HB domain",
    "scalable-units": "whole scalable units of the reference architecture",
    "bcube": "all switches of the levels above, as a partial BCube has them",
    "hammingmesh": "boards have switches for their rows and columns",
    "torus": "no switches",
    "product": "no switches",
    "tiles": "no switches",
    "direct-circulant": "no switches",
    "direct-random": "no switches",
    "graph": "what its file holds",
}


def built(name: str, gpus: int, radix: int = 64, hb_size: int = 8) -> Fabric:
    sizing = Sizing(gpus, radix, min(hb_size, gpus), 450e9, 50e9)
    return build_fabric(FABRICS.load(name), sizing)


@pytest.mark.parametrize("gpus", [8, 9, 17, 64])
@pytest.mark.parametrize("hb_size", [1, 8])
@pytest.mark.parametrize("name", ONE_SWITCH)
def test_one_switch_that_holds_all_is_the_network(name: str, gpus: int, hb_size: int) -> None:
    fabric = built(name, gpus, hb_size=hb_size)
    assert (fabric.switches, fabric.link_count) == (1, gpus)
    graph = expand(FABRICS.load(name), fabric.sizing)
    assert graph.links_per_group()["host"] == gpus
    # Nobody is slower than a port.
    assert {(one.link_bytes_per_s, one.tiers) for one in fabric.levels[1:]} == {(50e9, ())}


def test_every_family_is_one_switch_or_says_why_not() -> None:
    named = {FABRICS.load(name).family for name in ONE_SWITCH}
    assert named | set(OTHERS) == set(FAMILIES)


@pytest.mark.parametrize(
    ("gpus", "switches", "links"),
    [
        # Leaves of 32 at most: three of 22 GPUs, 22 links up each, to two spines.
        (65, 5, 65 + 3 * 22),
        # Four leaves of 25 with 26 links up, 13 to each of two spines.
        (100, 6, 100 + 4 * 26),
        # A whole group: 32 leaves, two links up to each of 16 spines, whose ports all lead down.
        (1024, 32 + 16, 1024 + 32 * 32),
        # 38 leaves of 27 GPUs have one link to each of 27 spines: two would need 76 ports of them.
        (1025, 38 + 27, 1025 + 38 * 27),
        # Three groups keep the paper's spines: 22 leaves of 32 and 32 spines each, and of 1,024
        # global ports 512 to each other group.
        (2049, 3 * (22 + 32), 2049 + 3 * 22 * 32 + 3 * 512),
    ],
)
def test_a_lone_group_of_a_dragonfly_plus_has_as_few_spines_as_carry_it(
    gpus: int, switches: int, links: int
) -> None:
    fabric = built("dragonfly-plus", gpus)
    assert (fabric.switches, fabric.link_count) == (switches, links)


@settings(deadline=None, max_examples=60)
@given(st.integers(8, 1024), st.sampled_from([16, 32, 64]))
def test_lone_groups_keep_the_rate_of_a_port_within_their_ports(gpus: int, radix: int) -> None:
    half = radix // 2
    gpus = min(gpus, half * half)
    fabric = built("dragonfly-plus", gpus, radix)
    graph = switch_graph(FABRICS.load("dragonfly-plus"), fabric.sizing)
    leaves, used = graph.host_switches, graph.degrees()
    used[:leaves] += graph.hosts
    assert used.max() <= radix
    if leaves > 1:
        assert graph.degrees()[:leaves].min() >= graph.hosts
        assert fabric.switches <= leaves + half  # the paper's own
    assert {(one.link_bytes_per_s, one.tiers) for one in fabric.levels[1:]} == {(50e9, ())}


@pytest.mark.parametrize("name", [*ONE_SWITCH, "torus-3d", "bcube", "hammingmesh", "rail-only"])
def test_more_gpus_never_take_fewer_switches_at_small_sizes(name: str) -> None:
    counts = [built(name, gpus, hb_size=1).switches for gpus in (8, 9, 17, 64, 65, 100)]
    assert counts == sorted(counts)
