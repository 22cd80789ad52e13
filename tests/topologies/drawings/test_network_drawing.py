"""Drawings of fabrics: every node and link is there once, in its place, with its colour."""

import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import netplan
from netplan.errors import InputError
from netplan.topologies.drawings.places import MAX_GPUS, MAX_SPOTS, network_map
from netplan.topologies.graph import SWITCH

SMALL: dict[str, Any] = {"gpus": 64, "radix": 16, "hb_size": 8}
FAMILIES = (
    *("rail-optimized", "rail-only", "fat-tree", "torus-2d", "torus-3d", "dragonfly", "bcube"),
    *("hyperx", "slim-fly", "jellyfish", "dragonfly-plus", "full-mesh", "nvl72", "dgx-superpod"),
)


def shapes(svg: str) -> Counter[str]:
    """Shapes of a drawing by their first two classes."""
    found: Counter[str] = Counter()
    for one in ET.fromstring(svg).iter():  # noqa: S314 - our own text
        kind = one.get("class", "")
        found[" ".join(kind.split()[:2])] += 1
    return found


@pytest.mark.parametrize("fabric", FAMILIES)
def test_every_node_and_link_is_drawn_once(fabric: str) -> None:
    answer = netplan.draw("rail-only-paper", **SMALL, fabric=fabric)
    graph, places = answer.graph, answer.places
    assert places is not None
    drawn = shapes(answer.svg())
    switches = int((graph.node_kind == SWITCH).sum())
    assert drawn["node switch"] == switches
    assert drawn["node gpus"] == (graph.gpus if graph.gpus <= MAX_GPUS else graph.domains)
    network = graph.link_count - graph.links_per_group().get("hb", 0)
    assert places.links.sum() == network
    assert drawn["wire"] == places.ends.shape[1]
    # No two of them stand in one place, and wires lead to other places.
    spots = np.stack([places.x, places.y], axis=1).round(1)
    assert len(np.unique(spots, axis=0)) == len(spots)
    assert (places.ends[0] != places.ends[1]).all()


def test_a_torus_stands_on_its_grid_and_wraps_in_bows() -> None:
    places = netplan.draw("rail-only-paper", gpus=64, hb_size=1, fabric="torus-2d").places
    assert places is not None
    assert places.layout == "grid"
    # 8 x 8: 128 links, of which one in each of 8 rows and 8 columns leads back.
    assert places.ends.shape[1] == 128
    assert int(places.bent.sum()) == 16
    assert len(np.unique(places.x.round(3))) == len(np.unique(places.y.round(3))) == 8


def test_devices_of_one_last_name_are_told_apart_by_their_whole_names() -> None:
    # Two leaves on each of four rails: leaf-0 alone would name four of them.
    svg = netplan.draw(
        "rail-only-paper", gpus=32, radix=8, hb_size=4, fabric="rail-optimized"
    ).svg()
    names = re.findall(r'class="name"[^>]*>([^<]*)<', svg)
    leaves = [name for name in names if not name.startswith(("spine", "domain"))]
    assert leaves == [
        part for rail in range(4) for leaf in range(2) for part in (f"rail-{rail}", f"leaf-{leaf}")
    ]


def test_narrow_frames_have_the_number_of_their_domain() -> None:
    svg = netplan.draw("rail-only-paper", gpus=32, radix=8, hb_size=2, fabric="rail-only").svg()
    names = re.findall(r'class="name"[^>]*>([^<]*)<', svg)
    assert [name for name in names if name.isdigit()] == [str(number) for number in range(16)]
    assert not [name for name in names if name.startswith("domain")]


def test_rows_are_tiers_with_the_gpus_below() -> None:
    answer = netplan.draw("rail-only-paper", **SMALL, fabric="rail-optimized")
    places = answer.places
    assert places is not None
    assert places.layout == "rows"
    assert all(len(np.unique(places.y[places.tier == one])) == 1 for one in (0, 1, 2))
    assert places.y[places.tier == 0].min() > places.y[places.tier == 1].max()
    assert "4 spine switches" in answer.svg()
    assert "64 GPUs" in answer.svg()


def test_loads_are_colours_of_the_same_numbers_as_loads() -> None:
    run: dict[str, Any] = {"gpus": 64, "hb_size": 8, "radix": 16, "model": "gpt-22b", "batch": 64}
    answer, loads = (
        netplan.draw("rail-only-paper", **run, show="loads"),
        netplan.loads("rail-only-paper", **run),
    )
    busiest = loads.link_loads.busiest_s
    expected = {one.group: one.busiest_s / busiest for one in loads.groups}
    got = {one["group"]: one["busiest_share"] for one in answer.to_dict()["groups"]}
    assert got == pytest.approx(expected)
    assert max(got.values()) == pytest.approx(1)
    assert "of the busiest link" in answer.svg()
    assert "Links by how long they are busy" in loads.html()


def test_what_failed_and_who_is_cut_off() -> None:
    answer = netplan.draw(
        "rail-only-paper", **SMALL, fabric="rail-optimized", fail=["rail-2/leaf-0", "gpu-5"]
    )
    svg = answer.svg()
    assert svg.count('class="node switch failed"') == 1
    assert svg.count('class="node gpus failed"') == 1
    # Rail 2 of 8 domains is cut off on the network; gpu-5 is of rail 5.
    assert svg.count('class="node gpus cut"') == 8 + 1  # and one in the legend
    rows = {one["group"]: one["links_out"] for one in answer.to_dict()["groups"]}
    assert rows["host"] == 8 + 1
    assert rows["leaf-spine"] == 8


def test_loads_of_what_is_left_and_what_failed_are_one_drawing() -> None:
    run: dict[str, Any] = {"gpus": 64, "hb_size": 8, "radix": 16, "model": "gpt-22b", "batch": 64}
    run |= {"fabric": "rail-optimized", "fail": ("spine=1",), "seed": 3}
    answer, loads = (
        netplan.draw("rail-only-paper", **run, show="loads"),
        netplan.loads("rail-only-paper", **run),
    )
    assert 'class="node switch failed"' in answer.svg()
    assert "of the busiest link" in answer.svg()
    rows = {one["group"]: one for one in answer.to_dict()["groups"]}
    busiest = {one.group: one.busiest_s / loads.link_loads.busiest_s for one in loads.groups}
    assert {name: row["busiest_share"] for name, row in rows.items()} == pytest.approx(busiest)
    assert rows["leaf-spine"]["links_out"] > 0
    assert rows["host"]["links_out"] == 0
    out = answer.coloured.links_out
    assert out is not None
    assert answer.coloured.share is not None
    assert answer.coloured.share[out].max() == 0  # what has failed carries nothing
    assert 'class="node switch failed"' in loads.html()
    assert netplan.draw("rail-only-paper", **run, show="loads").svg() == answer.svg()


def test_large_fabrics_with_loads_say_what_failed() -> None:
    run: dict[str, Any] = {"gpus": 16_384, "hb_size": 8, "radix": 64, "model": "gpt-22b"}
    run |= {"batch": 2048, "fabric": "rail-optimized"}
    svg = netplan.draw("rail-only-paper", **run, show="loads", fail=["spine=2"]).svg()
    # A spine has 32 links down and 32 up; there are 16,384 links of each of four kinds.
    assert "failed: 2 devices and 128 of 65,536 links" in svg
    assert "of the busiest link" in svg


def test_large_fabrics_are_drawn_by_kinds_of_devices() -> None:
    answer = netplan.draw("rail-only-paper", gpus=32_768, radix=128, fabric="rail-only")
    assert answer.places is None
    assert "256 \u00d7 rail switch" in answer.svg()
    assert answer.to_dict()["layout"] == "overview"


def test_limits_and_contradictions_are_one_line(tmp_path: Path) -> None:
    rows = ["source,source_port,target,target_port,gbps"]
    rows += [f"gpu-{i},0,gpu-{i + 1},1,400" for i in range(MAX_SPOTS + 1)]
    path = tmp_path / "line.csv"
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(InputError, match="too large to be drawn node by node"):
        netplan.draw("rail-only-paper", graph=path, hb_size=1).svg()


def test_a_map_of_a_graph_tells_spots_by_domains_above_the_limit() -> None:
    graph = netplan.draw("rail-only-paper", gpus=256, radix=32, hb_size=8, fabric="rail-only").graph
    found = network_map(graph)
    assert found is not None
    assert found.gpus[:32].tolist() == [8] * 32
    assert found.links.sum() == 256
