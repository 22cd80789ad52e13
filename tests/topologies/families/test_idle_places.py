"""Direct networks of any number of GPUs: smallest designs, idle places, three faces that agree."""

from math import prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.questions.compare import compare
from netplan.questions.faults import faults
from netplan.questions.loads import loads
from netplan.questions.simulate import simulate
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.torus import (
    LONGEST_RING,
    MAX_ELONGATION,
    near_cube,
    near_cube_holding,
)
from netplan.topologies.specs import FABRICS
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.routing import link_loads

ANY_SIZE = ("full-mesh", "ring-8-mesh", "bcube", "torus-2d", "torus-3d")


def asked(gpus: int, hb_size: int = 8, radix: int = 512) -> Sizing:
    return Sizing(gpus, radix, min(hb_size, gpus), 450e9, 50e9)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(ANY_SIZE), st.integers(8, 600), st.sampled_from([1, 4, 8]))
def test_counts_levels_and_graph_agree(name: str, gpus: int, hb_size: int) -> None:
    spec, sizing = FABRICS.load(name), asked(gpus, hb_size)
    fabric, graph = build_fabric(spec, sizing), expand(spec, sizing)
    groups = graph.links_per_group()
    groups.pop("hb", None)
    assert groups == {one.name: one.links for one in fabric.links}
    assert graph.gpus == gpus
    used = graph.ports_used
    node = np.concatenate([graph.source, graph.target])
    port = np.concatenate([graph.source_port, graph.target_port])
    assert len(np.unique(node.astype(np.int64) << 16 | port)) == len(node)
    assert used[:gpus].max() <= fabric.ports_per_gpu + spec.hb_ports(fabric.sizing.hb_size)
    # Every GPU is there and reached.
    joined = nx.Graph(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    assert nx.is_connected(joined)
    assert len(joined) == graph.node_count
    # Every level is there as it is said: its GPUs have neighbours as far as it reaches.
    timed = prod(level.size for level in fabric.levels)
    full = fabric.sizing.full_domains * fabric.sizing.hb_size
    assert full / 2 < timed <= full
    stride = 1
    for level in fabric.levels:
        if level.kind != "switch" and level.size > 1:
            pairs = [(at * stride, (at + 1) * stride) for at in range(level.size - 1)]
            if level.kind in {"ring", "mesh"}:
                pairs.append((0, (level.size - 1) * stride))
            assert all(joined.has_edge(*pair) for pair in pairs), (level, stride)
        stride *= level.size


def test_a_full_mesh_of_1024_is_a_pod_of_ub_mesh() -> None:
    fabric = build_fabric(FABRICS.load("full-mesh"), asked(1024))
    # 128 boards of 8: 8 x 4 x 4, as 13 links a GPU are the fewest.
    assert [(level.kind, level.size) for level in fabric.levels] == [
        ("mesh", 8),
        ("mesh", 8),
        ("mesh", 4),
        ("mesh", 4),
    ]
    # 1024 x 7 / 2, and twice 1024 x 3 / 2.
    assert [one.links for one in fabric.links] == [3584, 1536, 1536]
    assert (fabric.switches, fabric.ports_per_gpu) == (0, 13)
    assert not any("idle" in note for note in fabric.notes)


def test_idle_places_are_said_by_hand() -> None:
    fabric = build_fabric(FABRICS.load("full-mesh"), asked(104))
    # 13 boards: 2 x 2 x 4 with 1 + 1 + 3 links, 128 places; 12 boards in whole layers.
    assert "The design holds 128 GPUs: 24 places are idle." in fabric.notes
    assert [level.size for level in fabric.levels] == [8, 2, 2, 3]
    # Of 13 boards at (x, y, z), z up to 3, the last is (0, 0, 3): 6 pairs along x, 6 along y,
    # and 6 + 3 x 3 along z, of 8 links each.
    assert [one.links for one in fabric.links] == [48, 48, 120]


def test_a_line_of_bcube_by_hand() -> None:
    fabric = build_fabric(FABRICS.load("bcube"), asked(37, 1))
    # 7 x 7 places: 5 switches of 7 and one of 2, then 7 of up to 6.
    assert [tier.switches for tier in fabric.tiers] == [6, 7]
    assert "The design holds 49 GPUs: 12 places are idle." in fabric.notes
    assert [level.size for level in fabric.levels[1:]] == [7, 5]
    # Domains of 8 meet on a switch of 8: a multiple, for 37 of 64 places.
    assert [level.size for level in build_fabric(FABRICS.load("bcube"), asked(37)).levels] == [
        8,
        1,
        4,
    ]


@given(st.integers(1, 3000), st.integers(2, 3))
def test_only_one_long_ring_takes_idle_places(positions: int, dimensions: int) -> None:
    exact, found = near_cube(positions, dimensions), near_cube_holding(positions, dimensions)
    if found == exact:
        return
    assert exact[0] == positions > LONGEST_RING
    assert prod(found) > positions
    assert max(found) <= MAX_ELONGATION * min(found)
    layer = prod(found[:-1])
    assert positions // layer * layer >= 0.9 * positions


def test_traffic_finds_its_way_past_idle_places() -> None:
    graph = expand(FABRICS.load("torus-3d"), asked(17, 1))
    # 2 x 2 x 5: chip 16 stands at (0, 0, 4) alone; to chip 3 at (1, 1, 0) it is around and two.
    loads_ = link_loads(graph, flows_matrix(17, source=[16], destination=[3], flow_bytes=[1.0]))
    assert loads_.link_bytes.sum() == pytest.approx(3.0)


@pytest.mark.parametrize("gpus", [13, 136])
@pytest.mark.parametrize("name", ["full-mesh", "bcube", "torus-3d", "nvl72"])
def test_commands_take_any_number(name: str, gpus: int) -> None:
    question = {"gpus": gpus, "radix": 64, "accelerator": "h100-80gb", "model": "gpt-22b"}
    question |= {"batch": 64}
    row = compare("rail-only-paper", **question, fabrics=(name,)).rows[0]
    assert row.fabric is not None
    assert row.best is not None or gpus < 37
    if gpus < 37:
        return
    run = loads("rail-only-paper", **question, fabric=name)
    assert run.graph.gpus == gpus
    assert simulate("rail-only-paper", **question, fabric=name).to_dict()["iteration_time_s"] > 0
    lost = faults("rail-only-paper", **question, fabrics=(name,), fail=["gpu=1"], years=1)
    assert len(lost.fabrics) == 1
