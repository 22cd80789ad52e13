"""The drawings: few shapes for any number of switches, every count written out."""

import re
from xml.etree import ElementTree as ET

import pytest

from netplan.topologies.build import build_fabric
from netplan.topologies.drawings.layers import fabric_drawing
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FABRICS


def built(name: str, gpus: int = 32_768, radix: int = 128, hb_size: int = 256) -> Fabric:
    sizing = Sizing(gpus, radix, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    return build_fabric(FABRICS.load(name), sizing)


@pytest.mark.parametrize(
    "name", ["rail-optimized", "rail-only", "dragonfly", "torus-2d", "torus-3d", "dgx-1"]
)
def test_drawing_is_aggregated(name: str) -> None:
    fabric = built(name)
    drawn = ET.fromstring(fabric_drawing(fabric))  # noqa: S314 - our own drawing
    assert len(list(drawn.iter())) < 200
    words = "\n".join(element.text or "" for element in drawn.iter("text"))
    for tier in fabric.tiers:
        assert f"{tier.switches:,} \u00d7 " in words
    for group in fabric.links:
        assert f"{group.links:,} links, 400G {group.medium}" in words
    assert f"{fabric.sizing.domains:,} \u00d7 HB domain" in words


def test_drawing_does_not_grow_with_the_cluster() -> None:
    small, large = (fabric_drawing(built("rail-optimized", gpus)) for gpus in (32_768, 262_144))
    assert small.count("<rect") == large.count("<rect")


def test_small_fabrics_are_drawn_whole() -> None:
    # 16 GPUs, radix 8: 4 leaves and 2 spines; 2 HB domains of 8.
    drawn = fabric_drawing(built("fat-tree", 16, 8, 8))
    assert drawn.count("<rect") == 4 + 2 + 2
    assert "…" not in drawn


def test_everything_is_inside_the_frame() -> None:
    drawn = fabric_drawing(built("torus-3d", 4096, 64, 1))
    frame = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)
    assert frame is not None
    width, height = (float(value) for value in frame.groups())
    for x, y in re.findall(r'<text x="(-?[\d.]+)" y="(-?[\d.]+)"', drawn):
        assert 0 <= float(x) <= width
        assert 8 <= float(y) <= height


def test_links_of_boards_are_told_beside_the_gpus() -> None:
    # 256 boards of 2 x 2 have four traces each; a twisted torus says what it is.
    drawn = fabric_drawing(built("hammingmesh", 1024, 64, 1))
    assert "1,024 links on boards" in drawn
    assert "<path" not in drawn
    assert "twisted torus of 4 \u00d7 4 \u00d7 8" in fabric_drawing(
        built("twisted-torus", 128, 64, 1)
    )


def test_networks_of_rails_have_no_line_between_them() -> None:
    # 4,096 GPUs, radix 64, 8 rails of 512 hosts: 16 leaves and 8 spines each. Two of both are drawn
    # of the first network and of the last: 2 x 2 lines each; hosts reach all, 4 x 4.
    fabric = built("rail-only", 4096, 64, 8)
    assert fabric.networks == 8
    drawn = fabric_drawing(fabric)
    assert "8 networks apart" in drawn
    ends = [
        [float(value) for value in one]
        for one in re.findall(
            r'<line x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)"', drawn
        )
    ]
    top = min(y2 for _, _, _, y2 in ends)
    trunks = [(x1, x2) for x1, _, x2, y2 in ends if y2 == top]
    assert (len(ends), len(trunks)) == (16 + 8, 8)
    middle = sum(x for pair in trunks for x in pair) / 16
    assert all((x1 < middle) == (x2 < middle) for x1, x2 in trunks)
    # One network over all GPUs: every drawn leaf is joined to every drawn spine.
    assert fabric_drawing(built("rail-optimized", 1024, 64, 8)).count("<line") == 16 + 16


@pytest.mark.parametrize("name", ["rail-only", "rail-optimized", "fat-tree"])
def test_no_switch_has_half_a_port(name: str) -> None:
    # 10,368 GPUs do not fill the tiers evenly: 10,368 links on 165 spines are 62.8 a spine.
    words = re.findall(
        r">([^<]*(?:down|to each)[^<]*)<", fabric_drawing(built(name, 10_368, 64, 72))
    )
    assert words
    for text in words:
        assert re.search(r"\d\.\d", text.partition(" (")[0]) is None, text
