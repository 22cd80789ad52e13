"""Checks of families of fabrics: they can fail, and what they compute by hand is right."""

import json
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest

from netplan.published.checks import Check, formula_value, published
from netplan.published.fabric_counts import family_checks, hops, table_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.joined_switches import switch_graph
from netplan.topologies.specs import FABRICS

ROWS = {row["name"]: row for row in published("families")}


def test_every_family_is_checked_and_nothing_fails() -> None:
    checks = [*family_checks()]
    assert {check.verdict for check in checks} == {"pass", "known"}
    said = " ".join(row["inputs"] for row in ROWS.values())
    for fabric in (
        "slim-fly",
        "jellyfish",
        "hyperx",
        "dragonfly-plus",
        "full-mesh",
        "torus-3d",
        "twisted-torus",
        "hammingmesh",
        "circulant",
        "xpander",
    ):
        assert f'"fabric": "{fabric}"' in said


@pytest.mark.parametrize(
    ("name", "changes", "became"),
    [
        ("SlimNoC, q = 8: links to other switches", {"keys": {"order": 9}, "radix": 64}, 13),
        ("8-ary 4-flat: diameter, its n - 1 dimensions", {"keys": {"sizes": [64, 8]}}, 2),
        ("UB-Mesh pod, 8 x 8 x 4 x 4: links of an NPU", {"gpus": 512}, 16),  # 8 x 4 x 4 x 4
    ],
)
def test_another_design_gives_another_number(
    name: str, changes: dict[str, object], became: int
) -> None:
    row = ROWS[name]
    inputs = json.dumps(json.loads(row["inputs"]) | {"radix": 128} | changes)
    assert formula_value(table_fabric(row["inputs"]), row["quantity"]) == float(row["expected"])
    assert formula_value(table_fabric(inputs), row["quantity"]) == became


def test_jellyfish_needs_more_switches_for_one_host_more() -> None:
    row = ROWS["Jellyfish, switches of a fat tree of 24 ports (3,456 hosts): more hosts, %"]
    assert table_fabric(row["inputs"].replace("4320", "4321")).more_hosts == 0


def test_hops_are_those_of_networkx() -> None:
    spec, sizing = FABRICS.load("dragonfly-plus"), Sizing(96, 8, 1, 450e9, 50e9)
    graph = switch_graph(spec, sizing)
    plain = nx.Graph()
    for one in graph.links:
        plain.add_edges_from(zip(one.source.tolist(), one.target.tolist(), strict=True))
    far = nx.single_source_shortest_path_length(plain, 0)
    assert hops(graph, np.array([0]))[0].tolist() == [far[at] for at in range(graph.host_switches)]


def test_a_twist_gains_nothing_where_all_axes_are_long() -> None:
    row = ROWS["TPU v4, 4 x 4 x 8 twisted: gain in bisection bandwidth, %"]
    gain = table_fabric(row["inputs"]).twist_gain
    # 8 of 128 x 8/4 hops a GPU along the long axis, 127 x 3.4646 over three.
    assert gain == pytest.approx(100 * (128 * 2 / (127 * 3.4645669 / 3) - 1))


def test_what_is_not_readable_says_so(suites: dict[str, Callable[[], tuple[Check, ...]]]) -> None:
    unread = [check for check in suites["families"]() if "not readable" in check.reason]
    # Prices are the book's; what the paper's were nobody could read.
    assert [(check.grade, check.expected) for check in unread if check.gap] == [
        ("source", "1.41"),
        ("source", "1.53"),
        ("source", "2.04"),
        ("source", "7.2"),
    ]
