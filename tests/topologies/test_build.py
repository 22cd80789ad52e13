"""All fabrics: what must hold in every size."""

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.clos import MAX_RADIX
from netplan.topologies.graph import UNCABLED
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from tests.topologies.kinds import DIRECT, JOINED

FEW_SIZES = ("bcube", "product", "tiles", *DIRECT, *JOINED)
NAMES = tuple(name for name in FABRICS.paths() if FABRICS.load(name).family not in FEW_SIZES)
MAY_HAVE_IDLE_PLACES = ("torus-2d", "torus-3d", "twisted-torus", "torus-ocs", "hammingmesh")


def build(name: str, gpus: int, radix: int, hb_size: int, ratio: float | None = None) -> Fabric:
    sizing = Sizing(
        gpus, radix, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=50e9, oversubscription=ratio
    )
    return build_fabric(FABRICS.load(name), sizing)


@settings(deadline=None, max_examples=50)
@given(
    st.sampled_from(NAMES),
    st.integers(8, 4_194_304),
    st.integers(4, 512).map(lambda half: 2 * half),
    st.integers(1, 512),
)
def test_ports_close_in_every_size(name: str, gpus: int, radix: int, hb_size: int) -> None:
    half = (radix + 1) // 4
    largest = 2 * half**2 * (2 * half**2 + 1)  # a p (a h + 1) with a = 2p = 2h
    # Frontier: 74 groups of 32 switches with 16 ports for GPUs, and 64 ports a switch.
    frontier_full = gpus > 74 * 32 * 16 or radix < 64
    # Forms that are not balanced hold a few GPUs more than the balanced one.
    if (name == "frontier" and frontier_full) or (name == "dragonfly" and gpus > 2 * largest):
        with pytest.raises(InputError, match=r"GPUs|ports"):
            build(name, gpus, radix, min(hb_size, gpus))
        return
    if radix * FABRICS.load(name).planes > MAX_RADIX:
        with pytest.raises(InputError, match="whole ports"):
            build(name, gpus, radix, min(hb_size, gpus))
        return
    if radix % (2 * FABRICS.load(name).trunk_width):
        with pytest.raises(InputError, match="even number of trunks"):
            build(name, gpus, radix, min(hb_size, gpus))
        return
    try:
        fabric = build(name, gpus, radix, min(hb_size, gpus))
    except InputError:
        assert name == "dragonfly"
        assert gpus > largest
        return
    assert fabric.switches >= fabric.switches_lower_bound
    assert fabric.spare_ports >= 0
    for tier in fabric.tiers:
        assert tier.ports_used <= tier.switches * fabric.sizing.radix
    # Cable ends: those on switches and those on network cards are all of them.
    ends_on_switches = sum(tier.ports_used for tier in fabric.tiers)
    assert 2 * fabric.link_count <= ends_on_switches + fabric.nic_ports
    cables = sum(group.links for group in fabric.links if group.medium not in UNCABLED)
    assert fabric.transceivers + 2 * fabric.copper_cables == 2 * cables
    if fabric.levels:
        full = fabric.sizing.full_domains * fabric.sizing.hb_size
        timed = prod(level.size for level in fabric.levels)
        # With idle places only the whole part of a grid is timed; half of it is full at the least.
        assert timed == full or (full / 2 < timed < full and name in MAY_HAVE_IDLE_PLACES)
    assert fabric.exact or any("do not divide evenly" in note for note in fabric.notes)


@pytest.mark.parametrize("name", NAMES)
def test_every_fabric_states_its_assumptions(name: str) -> None:
    assert build("rail-only" if name == "frontier" else name, 4096, 64, 8).notes


def test_levels_by_hand() -> None:
    rail_only = build("rail-only", 32_768, 128, 256).levels
    assert [(level.kind, level.size, level.link_bytes_per_s) for level in rail_only] == [
        ("switch", 256, 450e9),
        ("switch", 128, 50e9),
    ]
    dgx_1 = build("dgx-1", 4096, 64, 256).levels
    assert [(level.kind, level.size) for level in dgx_1] == [("mesh", 8), ("switch", 512)]
    assert dgx_1[0].link_bytes_per_s == pytest.approx(450e9 / 7)


def test_oversubscription_slows_only_what_leaves_the_leaf() -> None:
    def scattered(name: str, gpus: int) -> float:
        level = build(name, gpus, 128, 256, 3.0).levels[1]
        assert level.link_bytes_per_s == 50e9  # of what stays under a leaf
        return level.scattered.link_bytes_per_s

    # Rails of 128 hosts do not fit under 96 ports: what leaves them runs at a third, or a bit more
    # where leaves are not full; so it does on a fat tree.
    assert scattered("rail-optimized", 32_768) == pytest.approx(50e9 / 3, rel=0.02)
    assert scattered("fat-tree", 16_384) == pytest.approx(50e9 / 3, rel=0.03)
    # Rails of 64 hosts lie under single leaves of 64 ports, but not of 96: two halves share one.
    assert build("rail-optimized", 16_384, 128, 256, 1.0).levels[1].tiers == ()
    assert scattered("rail-optimized", 16_384) == pytest.approx(50e9 / 3, rel=0.04)
    # One tier of rails has no uplinks.
    assert build("rail-only", 32_768, 128, 256, 3.0).levels[1].tiers == ()


@pytest.mark.parametrize(
    ("gpus", "leaves", "spines", "host_links"),
    [(248, 8, 4, 252), (504, 16, 8, 508), (760, 24, 16, 764), (1016, 32, 16, 1020)],
)
def test_superpod_rows(gpus: int, leaves: int, spines: int, host_links: int) -> None:
    # NVIDIA DGX SuperPOD H100 reference architecture: 31, 63, 95, 127 nodes and 4 management links.
    spec = FABRICS.load("dgx-superpod").changed(management_links=4)
    sizing = Sizing(gpus, 64, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    fabric = build_fabric(spec, sizing)
    assert [tier.switches for tier in fabric.tiers] == [leaves, spines]
    assert [group.links for group in fabric.links] == [host_links, leaves * 32]


@pytest.mark.parametrize(
    ("gpus", "radix", "hb_size", "message"),
    [
        (7, 64, 1, "7 GPUs are out of range: give 8 to 4,194,304"),
        (4_194_305, 64, 1, "4,194,305 GPUs are out of range"),
        (64, 63, 1, "switch radix 63 cannot be used"),
        (64, 6, 1, "switch radix 6 cannot be used: give an even number of ports from 8"),
        (64, 64, 128, "an HB domain of 128 GPUs is out of range: give 1 to 64"),
        (64, 64, 0, "an HB domain of 0 GPUs is out of range"),
    ],
)
def test_bad_sizes(gpus: int, radix: int, hb_size: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build("rail-only", gpus, radix, hb_size)


def test_products_name_accelerators_of_the_catalog() -> None:
    specs = [FABRICS.load(name) for name in FABRICS.paths()]
    products = {spec.name: spec for spec in specs if spec.accelerators}
    assert products.keys() >= {"dgx-1", "dgx-2", "dgx-superpod", "nvl72"}
    known = set(ACCELERATORS.paths())
    named = {name for spec in products.values() for name in spec.accelerators}
    assert named - known == {"mi250x", "ualink-200g"}  # these have no file
    for spec in specs:
        others = {name for name in known if spec.built_with(name)}
        assert others == known - set(spec.accelerators or known)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("fat-tree", {"copper_block": 4}),
        ("fat-tree", {"hosts_per_switch": 4}),
        ("jellyfish", {"groups": 4}),
        ("jellyfish", {"wraparound": False}),
        ("torus-3d", {"global_arrangement": "relative"}),
        ("direct-random", {"sizes": (4, 4)}),
        ("bcube", {"local_medium": "copper"}),
    ],
)
def test_shapes_of_other_families_are_refused(name: str, keys: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(keys))} needs family"):
        FABRICS.load(name).changed(**keys)
