"""Risk groups of the hall and of users, and policies that draw them."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from netplan.errors import CatalogError, InputError
from netplan.faults.damage.damage import Damage, no_damage
from netplan.faults.damage.groups import (
    Racking,
    RiskGroups,
    domain_groups,
    hall_risk_groups,
    racks_by_count,
    racks_of_layout,
    rail_groups,
    switch_groups,
    transceiver_batches,
    transceiver_ends,
)
from netplan.faults.damage.inventory import Inventory
from netplan.faults.damage.scenario import parse_faults, read_risk_groups, read_scenario
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS, Layout, lay_out
from netplan.topologies.graph import HB_SWITCH, SWITCH, FabricGraph
from tests.faults.damaged import fabric

HALL = FLOOR_PLANS.load("example-hall").changed(racks_per_row=6, gpus_per_rack=8)


def in_hall(graph: FabricGraph) -> tuple[Layout, Racking]:
    layout = lay_out(HALL, graph)
    return layout, racks_of_layout(layout, graph)


def groups_in(graph: FabricGraph, racking: Racking, feeds: int = 2) -> dict[str, RiskGroups]:
    return {groups.kind: groups for groups in hall_risk_groups(graph, racking, feeds=feeds)}


def members(groups: RiskGroups, name: str) -> tuple[list[int], list[int]]:
    number = list(groups.names).index(name)
    return (
        groups.node[groups.node_group == number].tolist(),
        groups.link[groups.link_group == number].tolist(),
    )


def test_racks_are_those_of_the_floor_plan() -> None:
    graph = fabric("rail-only", (128, 32, 8))
    layout, racking = in_hall(graph)
    assert HALL.racks_per_row is not None
    groups = groups_in(graph, racking)["rack"]
    assert [name.removeprefix("rack-") for name in groups.names] == [r.name for r in layout.racks()]
    for number, rack in enumerate(layout.racks()):
        node = groups.node[groups.node_group == number]
        outside = node[graph.node_kind[node] != HB_SWITCH]
        place = (rack.row - 1) * HALL.racks_per_row + rack.position - 1
        assert outside.tolist() == in_rack(graph, layout, place)
        # Eight GPUs a rack: each HB switch stands with its domain.
        inside = node[graph.node_kind[node] == HB_SWITCH]
        assert np.array_equal(inside - graph.gpus, np.unique(outside[outside < 128] // 8))


def in_rack(graph: FabricGraph, layout: Layout, place: int) -> list[int]:
    there = (layout.rack == place) & (graph.node_kind != HB_SWITCH)
    return [int(node) for node in np.flatnonzero(there)]


def test_an_hb_switch_falls_only_with_its_whole_domain() -> None:
    graph = fabric("rail-only", (128, 16, 32))  # four racks a domain
    _, racking = in_hall(graph)
    switches = np.flatnonzero(graph.node_kind == HB_SWITCH)
    assert not np.isin(switches, groups_in(graph, racking)["rack"].node).any()
    # Sixteen racks of GPUs in rows of six; switches in the middle. Domain 0 is in row 1.
    rows = groups_in(graph, racking)["row"]
    assert switches[0] in members(rows, "row-01")[0]
    assert not np.isin(switches[1], rows.node)  # racks 5 to 8, over two rows
    assert np.isin(switches, groups_in(graph, racking)["hall"].node).all()


def outer_group(inner: RiskGroups, outer: RiskGroups) -> list[int]:
    """For each inner group the outer one that holds all its nodes, -1 if none does."""
    label = dict(zip(outer.node.tolist(), outer.node_group.tolist(), strict=True))
    found = []
    for number in range(len(inner)):
        held = {label.get(node, -1) for node in inner.node[inner.node_group == number].tolist()}
        found.append(held.pop() if len(held) == 1 else -1)
    return found


def test_groups_are_nested() -> None:
    graph = fabric("rail-optimized", (128, 32, 8))
    _, racking = in_hall(graph)
    racks, feeds, hall, rows, _ = groups_in(graph, racking).values()
    assert racking.row is not None
    assert outer_group(racks, rows) == racking.row.tolist()
    assert outer_group(racks, feeds) == (racking.row % 2).tolist()
    assert outer_group(rows, hall) == [0] * len(rows)
    assert min(outer_group(domain_groups(graph), racks)) >= 0
    assert outer_group(hall, racks) == [-1]


@pytest.mark.parametrize("feeds", [1, 2, 3])
def test_feeds_share_racks_in_turn(feeds: int) -> None:
    graph = fabric("rail-optimized", (128, 32, 8))
    racking = racks_by_count(graph, gpus_per_rack=16, switches_per_rack=4)
    racks, groups, _ = groups_in(graph, racking, feeds).values()
    assert groups.names == ("feed-A", "feed-B", "feed-C")[:feeds]
    assert outer_group(racks, groups) == [n % feeds for n in range(len(racks))]
    assert len(groups.node) == graph.node_count


def test_trays_hold_the_cables_of_their_rows() -> None:
    graph = fabric("rail-optimized", (128, 32, 8))
    layout, racking = in_hall(graph)
    trays = groups_in(graph, racking)["tray"]
    for number, name in enumerate(trays.names):
        expected = [
            link
            for link, (a, b) in enumerate(zip(graph.source, graph.target, strict=True))
            if graph.node_kind[b] != HB_SWITCH
            and layout.rack[a] != layout.rack[b]
            and number in (layout.rack[a] // 6, layout.rack[b] // 6)
        ]
        assert members(trays, name) == ([], expected)
        assert expected


def test_racks_by_count_without_a_floor_plan() -> None:
    graph = fabric("rail-optimized", (64, 16, 8))  # 8 leaves and 4 spines
    racking = racks_by_count(graph, gpus_per_rack=24, switches_per_rack=10)
    groups = groups_in(graph, racking)["rack"]
    assert groups.names == ("rack-0", "rack-1", "rack-2", "rack-3", "rack-4")
    # GPUs 24 to 47 and the switches of domains 3 to 5, numbers 67 to 69.
    assert members(groups, "rack-1")[0] == [*range(24, 48), 67, 68, 69]
    assert len(members(groups, "rack-4")[0]) == 2
    assert list(groups_in(graph, racking)) == ["rack", "feed", "hall"]
    with pytest.raises(InputError, match="27 power feeds are out of range: give 1 to 26"):
        hall_risk_groups(graph, racking, feeds=27)
    with pytest.raises(InputError, match="a rack of 0 GPUs is out of range"):
        racks_by_count(graph, gpus_per_rack=0, switches_per_rack=1)
    assert list(groups_in(graph, in_hall(graph)[1])) == ["rack", "feed", "hall", "row", "tray"]


def test_batches_deal_out_all_transceivers() -> None:
    graph = fabric("rail-optimized", (64, 16, 8))
    batches = transceiver_batches(graph, 0.3, np.random.default_rng(0))
    ends = len(transceiver_ends(graph))  # 128 links, 256 ends: 77, 77, 77 and 25
    assert ends == 256
    assert np.bincount(batches.link_group).tolist() == [77, 77, 77, 25]
    assert np.array_equal(np.sort(batches.link), np.repeat(np.unique(batches.link), 2))
    again = transceiver_batches(graph, 0.3, np.random.default_rng(0))
    assert np.array_equal(again.link, batches.link)
    damage = parse_faults(["batch-1"], graph, groups=(batches,))
    assert damage.link_down.sum() == len(np.unique(members(batches, "batch-1")[1]))
    with pytest.raises(InputError, match="give more than 0 %, at most 100 %"):
        transceiver_batches(graph, 1.5, np.random.default_rng(0))


def test_planes_are_the_separate_networks_of_the_graph() -> None:
    graph = fabric("twin-plane", (256, 16, 8))
    switches = np.flatnonzero(graph.node_kind == SWITCH).tolist()
    view = nx.Graph()
    view.add_nodes_from(switches)
    ends = zip(graph.source.tolist(), graph.target.tolist(), strict=True)
    view.add_edges_from((a, b) for a, b in ends if a in view and b in view)
    planes = switch_groups(graph)["plane"]
    found = [set(members(planes, name)[0]) for name in planes.names]
    assert found == sorted(nx.connected_components(view), key=min)


def test_rails_of_shared_leaves_are_ports_only() -> None:
    graph = fabric("rail-only", (64, 32, 8))  # four rails of eight share a switch
    rails = rail_groups(graph)
    assert not len(rails.node)
    assert members(rails, "rail-5")[1] == [64 + gpu for gpu in range(5, 64, 8)]
    torus = fabric("torus-2d", (64, 8, 4))
    lost = rail_groups(torus).damage(torus, np.array([1]))
    assert set(torus.source[lost.link_down] % 4) == {1}
    assert lost.link_down.sum() == 32  # a torus of 4 x 4 domains has two links each
    with pytest.raises(InputError, match="has no rails, since its HB domains hold one GPU"):
        rail_groups(fabric("fat-tree", (64, 16, 1)))


def same(one: Damage, other: Damage) -> bool:
    nodes = np.array_equal(one.node_down, other.node_down)
    return nodes and np.array_equal(one.link_down, other.link_down)


def test_own_groups_from_yaml_and_csv(tmp_path: Path) -> None:
    graph = fabric("rail-optimized", (64, 16, 8))
    inventory = Inventory(graph)
    (tmp_path / "a.yaml").write_text(
        "kind: box\n"
        "groups:\n"
        "  first: [gpu-0, gpu-0, domain-1]\n"
        "  second: {members: ['gpu-16:1--rail-0/leaf-0:3', rail-3], weight: 4}\n"
    )
    (tmp_path / "box.csv").write_text(
        "group,member,weight\nfirst,gpu-0,\nfirst,domain-1,\nsecond,rail-3,4\n"
        "second,gpu-16:1--rail-0/leaf-0:3,4\n"
    )
    for name in ("a.yaml", "box.csv"):
        groups = read_risk_groups(tmp_path / name, inventory)
        assert groups.kind == "box"
        assert groups.names == ("first", "second")
        assert groups.weight is not None
        assert groups.weight.tolist() == [1.0, 4.0]
        found = parse_faults(["second", "box=first"], graph, groups=(groups,))
        assert same(found, parse_faults(["gpu-0", "domain-1", "gpu-16:1", "rail-3"], graph))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.yaml", "kind: box\ngroups:\n  a: [gpu-0]\n  b: [gpu-99]\n", r"g\.yaml:4: unknown part"),
        ("g.yaml", "kind: box\ngroups: {a: []}\n", r"g\.yaml:2: group 'a' has no members"),
        ("g.yaml", "kind: box\n", r"groups: name some, with members"),
        ("g.yaml", "groups: {a: [gpu-0]}\n", r"kind: give a word"),
        ("g.yaml", "kind: box\nbox: 1\n", r"g\.yaml:2: unknown key 'box'"),
        ("g.yaml", "kind: box\ngroups: {a: [1]}\n", r"g\.yaml:2: got 1, give the name of a part"),
        (
            "g.yaml",
            "kind: b\ngroups: {a: {members: [gpu-0], wait: 1}}\n",
            r":2: unknown key 'wait'",
        ),
        ("g.yaml", "kind: b\ngroups: {a: {members: [gpu-0], weight: -1}}\n", r"weight: got -1"),
        ("g.yaml", "kind: b\ngroups: &x {a: [gpu-0]}\n", r"g\.yaml:2: anchors and aliases"),
        ("g.yaml", "- 1\n", r"expected a mapping"),
        ("g.yaml", "kind: 'a=b'\ngroups: {a: [gpu-0]}\n", r"cannot be a kind of groups"),
        ("g.csv", "group,member\na,gpu-0\nb,gpu-99\n", r"g\.csv:3: unknown part 'gpu-99'"),
        ("g.csv", "member,group\na,gpu-0\n", r"g\.csv:1: the header is group,member,weight"),
        ("g.csv", "group,member\na\n", r"g\.csv:2: expected 2 fields, got 1"),
        ("g.csv", "group,member\n,gpu-1\n", r"g\.csv:2: a group or a member is empty"),
        ("g.csv", "group,member\na,\n", r"g\.csv:2: a group or a member is empty"),
        ("g.csv", "group,member,weight\na,gpu-0,x\n", r"g\.csv:2: weight: got 'x'"),
        ("g.csv", "group,member,weight\na,gpu-0,nan\n", r"g\.csv:2: weight: got 'nan'"),
        ("g.csv", "group,member,weight\na,gpu-0,1\na,gpu-1,2\n", r":3: group 'a' has two weights"),
        ("g.csv", "group,member,weight\na,,2\n", r"g\.csv:2: group 'a' has no members"),
        ("g.csv", "group,member\n", r"g\.csv:1: the file holds no groups"),
        ("g.csv", "group,member\na\x01,gpu-0\n", r"g\.csv:2: .* cannot be a name"),
        ("g.csv", 'group,member\n"a,gpu-0\n', r"g\.csv:\d: not CSV"),
    ],
)
def test_wrong_group_files_name_file_and_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    inventory = Inventory(fabric("rail-optimized", (64, 16, 8)))
    with pytest.raises(CatalogError, match=message) as caught:
        read_risk_groups(path, inventory)
    assert "\n" not in str(caught.value)


MODES = """modes:
  link: {weight: 3, faults: [link=1]}
  leaf: {weight: 1, faults: [leaf=1, link=1]}
  never: {weight: 0, faults: [gpu-0]}
"""


def test_modes_are_drawn_by_weight(tmp_path: Path) -> None:
    path = tmp_path / "incidents.yaml"
    path.write_text(MODES, encoding="utf-8")
    graph = fabric("rail-optimized", (64, 16, 8))
    scenario = read_scenario([f"@{path}", "gpu-5"], Inventory(graph))
    assert scenario.random
    first, again = (
        [scenario.damage(rng) for _ in range(400)]
        for rng in (np.random.default_rng(1), np.random.default_rng(1))
    )
    assert all(same(one, other) for one, other in zip(first, again, strict=True))
    leaves = [int(damage.node_down.sum()) - 1 for damage in first]
    assert set(leaves) == {0, 1}
    assert abs(sum(leaves) - 100) < 35  # standard deviation 8.7
    for damage in first:
        assert damage.node_down[5]
        assert not damage.node_down[0]
        assert damage.link_down.sum() == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modes: {}", "1: give modes, each with a weight and faults"),
        ("modes:\n  a: {weight: 1}", "2: mode 'a' needs both a weight and faults"),
        ("modes:\n  a: {weight: -1, faults: [gpu-0]}", "2: mode 'a': got weight -1"),
        ("modes:\n  a: {weight: .nan, faults: [gpu-0]}", "2: mode 'a': got weight nan"),
        ("modes:\n  a: {weight: 0, faults: [gpu-0]}", "1: give a mode whose weight is above 0"),
        ("modes:\n  a: {weight: 1, faults: gpu-0}", "2: mode 'a': faults: give a list"),
        ("modes:\n  a: {weight: 1, faults: [gpu-77]}", "2: mode 'a': unknown part 'gpu-77'"),
        ("modes:\n  a: {weight: 1, faults: ['@b.txt']}", "2: mode 'a': a file of faults names no"),
    ],
)
def test_wrong_modes_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "incidents.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError, match=rf"incidents\.yaml:{message}"):
        read_scenario([f"@{path}"], Inventory(fabric("rail-optimized", (64, 16, 8))))


def test_a_switch_is_the_group_of_all_its_links() -> None:
    graph = fabric("rail-optimized", (64, 16, 8))
    switch = parse_faults(["rail-0/leaf-0"], graph)
    links = parse_faults([f"rail-0/leaf-0:{port}" for port in range(1, 17)], graph)
    assert np.array_equal(switch.links_out(graph), links.links_out(graph))
    assert not no_damage(graph).links_out(graph).any()
