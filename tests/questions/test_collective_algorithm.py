"""Algorithms by their names in searches and loads, where they run and where they do not."""

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.levels import Level
from netplan.questions.loads import loads
from netplan.questions.search import search
from netplan.traffic.hierarchy import CollectiveNetwork, Communication, Group
from netplan.traffic.patterns import collective_traffic
from netplan.traffic.placement import Degrees, Placement
from tests.cli.command import refused


def test_a_network_takes_the_algorithm_where_it_runs() -> None:
    # 8 GPUs on a switch, 4 such on a ring: halving and doubling inside, a ring of both ways beyond.
    levels = Level("switch", 8, 450e9, 1e-6, 2e-6), Level("ring", 4, 50e9, 1e-6, 2e-6)
    used = Communication("flat_ring", bandwidth_efficiency=0.5, algorithm="halving_doubling")
    everyone = Group(np.array([[8], [4]]), np.ones((2, 1), np.int64))
    found = CollectiveNetwork(levels, used).collective("all_gather", everyone)
    # Inside 7/8 D / (225 GB/s) and 3 steps of 4 us; beyond, of D/8 each way 3/4 / 2, 3 of 3 us.
    inside_s, beyond_s = 7 / 8 * 1e9 / 225e9 + 12e-6, 3 / 4 / 2 * 1e9 / 8 / 25e9 + 9e-6
    assert found.seconds(1e9)[0] == pytest.approx(inside_s + beyond_s, rel=1e-12)
    # It has no all_to_all: as without a name.
    named = CollectiveNetwork(levels, used).collective("all_to_all", everyone).seconds(1e9)
    plain = CollectiveNetwork(levels, Communication("hierarchical", bandwidth_efficiency=0.5))
    assert named == pytest.approx(plain.collective("all_to_all", everyone).seconds(1e9))


def test_both_trees_are_what_links_carry() -> None:
    # Four GPUs of a switch: trees 1-0, 2-0, 3-2 and 2-3, 1-3, 0-1, half of D each way on each.
    placement = Placement((Degrees(data=4),))
    matrix = collective_traffic(
        "all_reduce",
        placement,
        ("data",),
        data_bytes=8.0,
        kind="data",
        pattern="double_binary_tree",
    )
    sent = np.zeros((4, 4))
    np.add.at(sent, (matrix.source, matrix.destination), matrix.flow_bytes)
    assert sent.sum() == 2 * 3 * 8.0
    assert (sent == sent.T).all()
    # A ring level has no trees: 2 x 3/4 D to the next member.
    ring = placement.on_levels((Level("ring", 4, 50e9),))
    matrix = collective_traffic(
        "all_reduce", ring, ("data",), data_bytes=8.0, kind="data", pattern="double_binary_tree"
    )
    assert matrix.flow_bytes.tolist() == [12.0] * 4


def test_searches_and_loads_take_it() -> None:
    given = {"gpus": 64, "model": "llama-3-8b", "batch": 64}
    usual = search("hgx-h100", top=1, **given)
    named = search("hgx-h100", top=1, collective_algorithm="halving_doubling", **given)
    assert named.best.iteration_time_s != usual.best.iteration_time_s
    assert any("halving_doubling" in note for note in named.notes)
    answer = loads("hgx-h100", collective_algorithm="halving_doubling", **given)
    bounds = [(one.busiest_s, one.bound_s) for one in answer.collectives]
    # Partners send no more than a ring does, and no less than the bound.
    assert all(busiest >= bound * (1 - 1e-9) for busiest, bound in bounds)
    with pytest.raises(InputError, match="leave it out"):
        loads("hgx-h100", collective_algorithm="ring", algorithm="direct", **given)
    assert "unknown algorithm 'tree'" in refused("search", "--collective-algorithm", "tree")
