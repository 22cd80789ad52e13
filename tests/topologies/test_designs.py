"""Files of published designs: counted by hand, and refused with file and line."""

from pathlib import Path

import pytest

from netplan.catalog import Record, check_file, shipped_root
from netplan.errors import CatalogError, InputError, UnknownNameError
from netplan.topologies.designs import (
    COUNTED,
    DESIGNS,
    DesignSize,
    DragonflyPlusDesign,
    GroupKind,
    RackRails,
    SegmentedPod,
    SlimFlyDesign,
    UnevenDragonfly,
    WideUplinkPlanes,
)
from netplan.topologies.specs import FABRICS, FabricSpec

README = (shipped_root() / "topologies" / "README.md").read_text(encoding="utf-8")
HPN = (shipped_root() / "topologies/designs/alibaba-hpn.yaml").read_text(encoding="utf-8")
LUMI = (shipped_root() / "topologies/designs/lumi.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DESIGNS.paths())
def test_every_file_is_sound_and_stands_in_the_readme(name: str) -> None:
    path = DESIGNS.paths()[name]
    assert check_file(DESIGNS, path) is None
    assert f"`{name}`" in README


def test_the_readme_names_every_key() -> None:
    keys = {key for schema in COUNTED for key in schema.__struct_fields__}
    keys |= {*GroupKind.__struct_fields__} - {*FabricSpec.__struct_fields__}
    common = {*Record.__struct_fields__}
    assert [key for key in sorted(keys - common) if f"`{key}`" not in README] == []


@pytest.mark.parametrize(
    ("order", "switches", "links"),
    # 2 q^2 switches of (3 q - d) / 2 links; q = 5 (d = 1) is the Hoffman-Singleton graph
    [(5, 50, 50 * 7 // 2), (7, 98, 98 * 11 // 2), (8, 128, 128 * 12 // 2)],
)
def test_slim_flies_by_their_formulas(order: int, switches: int, links: int) -> None:
    fly = DESIGNS.load("slim-fly-28")
    assert isinstance(fly, SlimFlyDesign)
    counts = fly.changed(order=order, hosts_per_switch=4).counts()
    assert (counts["total_switches"], counts["links_between_switches"]) == (switches, links)
    assert counts["gpus"] == 4 * switches
    with pytest.raises(ValueError, match=r"order 6 is 4w \+ 2"):
        fly.changed(order=6)


def test_leaves_of_one_rack_and_rail() -> None:
    pod = DESIGNS.load("dgx-superpod-gb200")
    assert isinstance(pod, RackRails)
    two = pod.counts(DesignSize(gpus=1152))
    # 2 x 8 x 4 leaves, 2 x 4 x 6 spines, 6 groups of 1152 / 6 / 64 = 3 cores
    assert (two["leaf_switches"], two["spine_switches"], two["core_switches"]) == (64, 48, 18)
    with pytest.raises(InputError, match="units of 576 GPUs, got 1,000: give a multiple of 576"):
        pod.counts(DesignSize(gpus=1000))
    with pytest.raises(ValueError, match="do not divide over 4 rails of 5 spines"):
        pod.changed(spines_per_rail=5)


def test_groups_of_leaves_and_spines() -> None:
    jupiter = DESIGNS.load("jupiter")
    assert isinstance(jupiter, DragonflyPlusDesign)
    # 10 groups of 100 ports: 4 leaves of 30, 12 / 3 spines
    small = jupiter.changed(groups=10, group_gpus=100, leaf_down=30, leaf_up=12, links_each=3)
    counts = small.counts()
    assert (counts["leaf_switches"], counts["spine_switches"]) == (40, 40)
    assert counts["links_leaf_spine"] == 10 * 4 * 12
    with pytest.raises(ValueError, match="32 uplinks of a leaf do not make 5 to every spine"):
        jupiter.changed(links_each=5)


def test_a_fabric_spec_among_them_is_still_named_by_path() -> None:
    path = DESIGNS.paths()["twin-plane"]
    assert DESIGNS.load("twin-plane") == FABRICS.load(str(path))


def test_a_counted_design_is_no_fabric() -> None:
    path = DESIGNS.paths()["alibaba-hpn"]
    with pytest.raises(
        CatalogError, match=r"hpn.yaml:1: family 'segmented-pod' has no builder"
    ) as e:
        FABRICS.load(str(path))
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HPN.replace("segments: 15", "segments: 16"), ":1: an aggregation switch needs 136 ports"),
        (HPN.replace("rails: 8", "rails: none"), ":7: rails: got 'none'"),
        (HPN.replace("tor_up: 60\n", ""), ":1: tor_up is missing"),
        (HPN.replace("tor_up:", "tor_ups:"), ":10: unknown key tor_ups: did you mean tor_up?"),
        (HPN.replace("segmented-pod", "segment-pod"), ":5: unknown family 'segment-pod': did you"),
        (HPN.replace("family: segmented-pod\n", ""), ":1: family is missing: give one of clos,"),
        (HPN.replace("family: segmented-pod", "family: [zcube]"), ":5: unknown family"),
        (LUMI.replace("{groups: 8}", "{group: 8}"), ":8: unknown key kinds.cpu.group: did you"),
        (LUMI.replace("[gpu, cpu]", "[gpu, spu]"), ":1: pair_links: 'spu' is none of the kinds"),
        (LUMI.replace("[gpu, cpu]", "[gpu, gpu]"), ":1: pair_links: gpu and gpu stand twice"),
        (LUMI.replace("link_gbps: 200", "link_gbps: .inf"), ":13: link_gbps: got inf"),
    ],
)
def test_wrong_files_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError) as error:
        DESIGNS.load(str(path))
    assert f"{path}{message}" in str(error.value)
    assert message in str(check_file(DESIGNS, path))


def test_a_size_fits_the_design_or_is_refused() -> None:
    zcube = DESIGNS.load("zcube")
    assert not isinstance(zcube, FabricSpec)
    with pytest.raises(InputError, match="design zcube: got no size, give gpus"):
        zcube.counts()
    with pytest.raises(InputError, match="got gpus and radix, give gpus"):
        zcube.counts(DesignSize(gpus=1024, radix=32))
    with pytest.raises(InputError, match="n x n GPUs, got 1,000: give 961 or 1,024"):
        zcube.counts(DesignSize(gpus=1000))
    hpn = DESIGNS.load("alibaba-hpn")
    assert not isinstance(hpn, FabricSpec)
    with pytest.raises(InputError, match="give none: its own size is in its file"):
        hpn.counts(DesignSize(gpus=15360))


def test_hpn_pod_closes_on_its_ports() -> None:
    pod = DESIGNS.load("alibaba-hpn")
    assert isinstance(pod, SegmentedPod)
    counts = pod.counts()
    links = [counts[f"links_{tiers}"] for tiers in ("endpoint", "leaf_spine", "spine_core")]
    # ToR ports down: 30720 host links on 240 ToRs of 128; up: 14400 / 240 = 60
    assert links == [240 * 128, 240 * 60, 120 * 8]
    # aggregation ports: 14400 / 120 = 120 down and 8 up on 128
    assert links[1] // counts["spine_switches"] + 8 == 128
    assert round(pod.tor_down * pod.down_gbps / (pod.tor_up * pod.up_gbps), 3) == 1.067


def test_planes_with_wide_uplinks() -> None:
    planes = DESIGNS.load("hpn-non-blocking")
    assert isinstance(planes, WideUplinkPlanes)
    counts = planes.counts(DesignSize(gpus=1024, radix=64))
    # a plane: 1024/32 = 32 leaves, 512 uplinks at the double rate, 512/32 = 16 spines
    assert (counts["total_switches"], counts["fibre_links"]) == (2 * (32 + 16), 2 * (1024 + 512))
    with pytest.raises(InputError, match="multiple of 32"):
        planes.counts(DesignSize(gpus=1025, radix=64))
    with pytest.raises(InputError, match="switch radix 1 cannot be used"):
        planes.counts(DesignSize(gpus=1024, radix=1))


FRONTIER = """\
name: frontier-groups
title: Frontier's compute and storage groups
source: groups as built, links a pair as wired
date: "2023"
family: dragonfly-groups
kinds:
  compute: {groups: 74, switches: 32, hosts_per_switch: 16}
  storage: {groups: 5, switches: 16, hosts_per_switch: 16}
  dark: {groups: 1}
pair_links:
  - {between: [compute, compute], links: 4}
  - {between: [compute, storage], links: 2}
link_gbps: 200
"""


def test_uneven_dragonfly(tmp_path: Path) -> None:
    path = tmp_path / "frontier-groups.yaml"
    path.write_text(FRONTIER, encoding="utf-8")
    fabric = DESIGNS.load(str(path))
    assert isinstance(fabric, UnevenDragonfly)
    assert fabric.global_links("compute", "compute") == 4 * 74 * 73 // 2
    assert fabric.global_links("storage", "compute") == 2 * 74 * 5
    assert fabric.global_links("storage", "storage") == 0
    # to the storage groups: 740 links of 25 GB/s, both directions added
    counts = fabric.counts(DesignSize(partition="compute"))
    assert counts["global_tb_per_s_mixed"] == pytest.approx(2 * 740 * 25e9 / 1e12)
    with pytest.raises(UnknownNameError, match="unknown kind of group 'gpu'"):
        fabric.links_per_pair("gpu", "storage")
