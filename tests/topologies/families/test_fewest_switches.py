"""HyperX, dragonfly, dragonfly+ and Slim Fly with as few switches as keep the rate of a port."""

import re
from math import prod

import numpy as np
import pytest

from netplan import Scenario
from netplan.errors import InputError
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.dragonfly import (
    Arrangement,
    dragonfly_shape,
    minimal_share,
    sized_shape,
)
from netplan.topologies.families.joined_switches import switch_graph
from netplan.topologies.specs import FABRICS
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.routing import Routing, link_loads
from tests.oracles.fewest_switches import fewest_of_dragonfly, fewest_of_hyperx
from tests.turns import one_in

RADIXES = range(8, 26, 2)
RATE = 50e9


def sizing(gpus: int, radix: int) -> Sizing:
    return Sizing(gpus, radix, 1, 450e9, RATE)


def built(name: str, gpus: int, radix: int, **keys: object) -> Fabric:
    return build_fabric(FABRICS.load(name).changed(**keys), sizing(gpus, radix))


def switches(name: str, gpus: int, radix: int) -> int | None:
    """Switches of a family; None where it does not hold so many."""
    spec = FABRICS.load(name)
    try:
        if name == "dragonfly":
            return sized_shape(gpus, radix).switches
        return prod(spec.plane_graph(sizing(gpus, radix)).tiers[0][1].shape)  # type: ignore[attr-defined]
    except InputError:
        return None


@pytest.mark.parametrize("radix", one_in(len(RADIXES), RADIXES))
def test_no_hyperx_has_fewer_switches(radix: int) -> None:
    fewest = fewest_of_hyperx(600, radix)
    found = [switches("hyperx", gpus, radix) for gpus in range(8, 601)]
    assert found == fewest[8:]


@pytest.mark.parametrize("radix", one_in(len(RADIXES), RADIXES))
def test_no_dragonfly_has_fewer_switches(radix: int) -> None:
    fewest = fewest_of_dragonfly(600, radix)
    found = [switches("dragonfly", gpus, radix) for gpus in range(8, 601)]
    assert found == fewest[8:]


@pytest.mark.parametrize(
    ("gpus", "radix", "one_link", "same_links", "found"),
    [
        # One link a pair; as many along every dimension, 3 on 8 x 7 switches of 21; or 1 and 12 on
        # 24 x 2 of 24, whose switches need 24 + 23 + 12 ports.
        (1152, 64, 120, 56, 48),
        (8192, 128, 420, 196, 184),
        (256, 32, 16, 16, 16),
        (512, 32, 64, 64, 48),
        (4096, 64, 256, 256, 210),
    ],
)
def test_hyperx_with_fewer_links_to_choose_from(
    gpus: int, radix: int, one_link: int, same_links: int, found: int
) -> None:
    assert built("hyperx", gpus, radix).switches == found
    by_links = []
    for links in range(1, radix // 4):
        try:
            by_links.append(built("hyperx", gpus, radix, links_per_pair=links).switches)
        except InputError:
            by_links.append(gpus)
    assert (by_links[0], min(by_links)) == (one_link, same_links)


def test_hyperx_of_unlike_dimensions_says_its_links() -> None:
    fabric = built("hyperx", 1152, 64)
    assert (
        "24 x 2 switches of 24 hosts, 1 and 12 links to each along the dimensions." in fabric.notes
    )
    # 23 links a row of 24, twice, and 12 between 24 pairs.
    assert [group.links for group in fabric.links] == [1152, 2 * 276, 24 * 12]


def test_dragonfly_has_no_switch_without_a_gpu() -> None:
    # Groups of 33 switches would need 66; a mesh of 33 has 63 hosts and 2 x 32 links a switch.
    fabric = built("dragonfly", 2056, 128)
    assert fabric.switches == 33
    assert fabric.notes[-1].startswith("A full mesh: 33 switches of 63 hosts, 2 links between any")
    for gpus, radix in ((2056, 128), (1152, 64), (600, 24), (4512, 64), (100, 8)):
        spec = FABRICS.load("dragonfly")
        leaf = spec.leaf_of(sizing(gpus, radix), np.arange(gpus))
        assert leaf is not None
        held = np.bincount(leaf, minlength=built("dragonfly", gpus, radix).switches)
        assert held.max() - held.min() <= 1
        assert held.min() > 0


@pytest.mark.parametrize(
    ("gpus", "radix"),
    [(600, 24), (300, 16), (100, 8), (90, 32), (200, 32)],
    ids=["two-sizes", "equal", "many-groups", "several-links", "mesh"],
)
def test_a_dragonfly_carries_traffic_of_all_with_all_on_average(gpus: int, radix: int) -> None:
    """At full switches: no global link is over the rate, nor local ones of a group on average."""
    shape = sized_shape(gpus, radix)
    graph = expand(FABRICS.load("dragonfly"), sizing(gpus, radix))
    source, destination = np.nonzero(~np.eye(gpus, dtype=bool))
    every = flows_matrix(gpus, source=source, destination=destination, flow_bytes=1.0)
    loads = link_loads(graph, every, routing="minimal").link_bytes
    local, outer = graph.links_of("local"), graph.links_of("global")
    # With p GPUs on each switch, each sends as many bytes in all.
    port = shape.hosts_per_switch * shape.switches
    first = graph.node_count - shape.switches
    group = shape.group_of(graph.source[local].astype(np.int64) - first)
    for number in np.unique(group):
        assert loads[:, local[group == number]].mean() <= port
    assert loads[:, outer].max(initial=0) <= port
    assert loads[:, graph.links_of("host")].max() == gpus - 1


def most_of_uniform_traffic(name: str, gpus: int, radix: int) -> float:
    """What a GPU sends to all others over what the busiest link then carries, routed pair by pair.

    Over minimal paths of a dragonfly, equal-cost ones of a HyperX.
    """
    graph = expand(FABRICS.load(name), sizing(gpus, radix))
    source, destination = np.nonzero(~np.eye(gpus, dtype=bool))
    every = flows_matrix(gpus, source=source, destination=destination, flow_bytes=1.0)
    routing: Routing = "minimal" if name == "dragonfly" else "ecmp"
    loads = link_loads(graph, every, routing=routing).link_bytes
    assert loads[:, graph.links_of("host")].max() == gpus - 1
    return float((gpus - 1) / loads.max())


def printed_share(name: str, gpus: int, radix: int) -> float | None:
    """The share that the notes of a fabric print, of a port's rate; None if they print none."""
    notes = " ".join(built(name, gpus, radix).notes)
    shares = re.findall(r"uniform traffic (?:between switches )?gets ([\d.]+) % of a port", notes)
    return float(shares[0]) / 100 if shares else None


@pytest.mark.parametrize(
    ("name", "gpus", "radix"),
    [
        ("dragonfly", 672, 16),
        ("dragonfly", 275, 16),
        ("dragonfly", 599, 32),
        ("dragonfly", 101, 8),
        ("hyperx", 132, 16),
        ("hyperx", 187, 16),
        ("hyperx", 336, 16),
        ("hyperx", 44, 16),
        # 6 x 5 switches, of which each second or third has five GPUs and not four.
        ("hyperx", 139, 16),
    ],
)
def test_the_busiest_link_leaves_uniform_traffic_the_share_that_is_printed(
    name: str, gpus: int, radix: int
) -> None:
    share = printed_share(name, gpus, radix)
    assert share is not None
    assert most_of_uniform_traffic(name, gpus, radix) == pytest.approx(share, abs=5.1e-4)


@pytest.mark.parametrize(
    ("name", "gpus", "radix"),
    [
        ("dragonfly", 97, 32),
        ("dragonfly", 233, 32),
        ("hyperx", 181, 16),
        ("hyperx", 331, 16),
        ("hyperx", 97, 12),
    ],
)
def test_where_no_share_is_printed_no_link_is_over_the_rate(
    name: str, gpus: int, radix: int
) -> None:
    assert printed_share(name, gpus, radix) is None
    assert most_of_uniform_traffic(name, gpus, radix) >= 0.99


@pytest.mark.parametrize("arrangement", ["absolute", "relative", "circulant"])
def test_what_a_dragonfly_of_a_file_leaves_to_uniform_traffic(arrangement: Arrangement) -> None:
    """Groups that are not full, and several arrangements, against routing pair by pair."""
    keys = {"hosts_per_switch": 3, "switches_per_group": 4, "global_links_per_switch": 2}
    spec = FABRICS.load("dragonfly").changed(**keys, global_arrangement=arrangement)
    gpus = 57
    graph = expand(spec, sizing(gpus, 12))
    source, destination = np.nonzero(~np.eye(gpus, dtype=bool))
    every = flows_matrix(gpus, source=source, destination=destination, flow_bytes=1.0)
    busiest = link_loads(graph, every, routing="minimal").link_bytes.max()
    share = minimal_share(dragonfly_shape(spec, sizing(gpus, 12)), gpus, arrangement)
    assert share == pytest.approx(min(1.0, (gpus - 1) / busiest))


@pytest.mark.parametrize(("gpus", "radix"), [(181, 16), (187, 16), (599, 24), (1151, 64)])
def test_a_hyperx_spreads_its_gpus_evenly(gpus: int, radix: int) -> None:
    spec = FABRICS.load("hyperx")
    leaf = spec.leaf_of(sizing(gpus, radix), np.arange(gpus))
    assert leaf is not None
    held = np.bincount(leaf, minlength=built("hyperx", gpus, radix).switches)
    assert held.max() - held.min() <= 1
    assert held.min() > 0
    # Its links lead where the levels say.
    graph = expand(spec, sizing(gpus, radix))
    hosts = graph.links_of("host")
    wired = np.bincount(graph.target[hosts] - graph.target[hosts].min())
    assert wired.tolist() == held.tolist()


def test_the_fewest_switches_that_need_not_cost_least_are_noted() -> None:
    # 282 switches in groups of 32 and 31 need 59 links a pair of 9 groups, 283 need 58: 36 fewer.
    note = "with 283 instead of 282, 36 links fewer would do"
    assert note in built("dragonfly", 4512, 64).notes[-1]
    assert "need not cost least" not in str(built("dragonfly", 4608, 64).notes)
    assert "with 66 instead of 64, 123 links fewer" in built("hyperx", 1408, 64).notes[-1]


def test_a_slim_fly_says_how_many_ports_stand_idle() -> None:
    # q = 11: 242 switches of 64 ports, 17 links to others, and 1,152 GPUs.
    fabric = built("slim-fly", 1152, 64)
    idle = 242 * (64 - 17) - 1152
    assert fabric.notes[-1].startswith(f"{idle:,} of 15,488 switch ports stand idle (66 %)")
    assert not any("idle" in note for note in built("slim-fly", 60, 64).notes)


SIZES = sorted({*np.unique(8 * np.geomspace(2, 4096, 125).round().astype(int)).tolist()})


@pytest.mark.parametrize("radix", [64, 128])
def test_a_larger_dragonfly_is_never_cheaper(radix: int) -> None:
    _rises("dragonfly", radix, SIZES)


@pytest.mark.parametrize("name", ["hyperx", "dragonfly-plus", "slim-fly"])
def test_a_larger_network_of_joined_switches_is_never_cheaper(name: str) -> None:
    _rises(name, 128, SIZES[:60:5])


@pytest.mark.slow
@pytest.mark.parametrize("radix", [64, 128])
@pytest.mark.parametrize("name", ["hyperx", "dragonfly-plus", "slim-fly"])
def test_no_size_is_dearer_than_the_next(name: str, radix: int) -> None:
    _rises(name, radix, SIZES)


def _rises(name: str, radix: int, sizes: list[int]) -> None:
    # Of equal lengths: in a hall a larger network may stand more closely.
    scenario = Scenario.load("hgx-h100").replace(radix=radix, hall="as-published")
    fabrics = [scenario.replace(gpus=gpus).fabric(name) for gpus in sizes]
    counts = [fabric.switches for fabric in fabrics]
    prices = [fabric.bill().capital.base for fabric in fabrics]
    assert counts == sorted(counts)
    assert prices == sorted(prices)


def test_no_slim_fly_or_dragonfly_plus_shrinks_with_a_gpu_more() -> None:
    for name in ("dragonfly-plus", "slim-fly"):
        counts = [
            switch_graph(FABRICS.load(name), sizing(gpus, 16)).switches for gpus in range(8, 480)
        ]
        assert counts == sorted(counts)
