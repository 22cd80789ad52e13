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
