"""Plan against as built: every kind of difference by hand, then random faults found exactly."""

from math import nan

import numpy as np
import pytest

from netplan.errors import CatalogError
from netplan.topologies.cabling.as_built import (
    Cable,
    End,
    cables_of,
    cabling_differences,
    require_free_ports,
)
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from tests.topologies.cabling.cable_faults import inject

GPU0, GPU1 = End("gpu-0", "1"), End("gpu-1", "1")
SW5, SW6, OTHER5 = End("sw01", "5"), End("sw01", "6"), End("sw02", "5")
PLAN = [Cable(GPU0, SW5, 400.0), Cable(GPU1, SW6, 400.0)]


def found(built: list[Cable]) -> list[tuple[str, str]]:
    return [(d.kind, d.instruction) for d in cabling_differences(PLAN, built)]


def test_the_same_cables_in_any_order_and_direction() -> None:
    assert found([Cable(SW6, GPU1, 400.0), Cable(GPU0, SW5, nan)]) == []


def test_rates_that_a_table_rounds_are_the_same() -> None:
    third = [Cable(GPU0, SW5, 400 / 3)]
    assert cabling_differences(third, [Cable(GPU0, SW5, 133.333)]) == []
    assert [one.kind for one in cabling_differences(third, [Cable(GPU0, SW5, 133.0)])] == [
        "wrong speed"
    ]


def test_swapped() -> None:
    assert found([Cable(GPU0, SW6), Cable(GPU1, SW5)]) == [
        ("swapped", "exchange the plugs in sw01/5 and sw01/6")
    ]


def test_swapped_end_for_end() -> None:
    # GPU to GPU and switch to switch: the plugs in sw01/5 and gpu-1/1 change places
    assert found([Cable(GPU0, GPU1), Cable(SW5, SW6)]) == [
        ("swapped", "exchange the plugs in sw01/5 and gpu-1/1")
    ]


def test_wrong_port_and_wrong_device() -> None:
    assert found([PLAN[0], Cable(GPU1, End("sw01", "7"))]) == [
        ("wrong port", "move the cable from sw01/7 to sw01/6 (its other end is gpu-1/1)")
    ]
    assert found([PLAN[1], Cable(OTHER5, GPU0)]) == [
        ("wrong port", "move the cable from sw02/5 to sw01/5 (its other end is gpu-0/1)")
    ]


def test_a_cable_to_be_moved_may_be_the_wrong_one_too() -> None:
    kinds = [kind for kind, _ in found([PLAN[0], Cable(GPU1, End("sw01", "7"), 200.0)])]
    assert kinds == ["wrong port", "wrong speed"]


def test_missing_extra_and_wrong_speed() -> None:
    built = [Cable(GPU0, SW5, 200.0), Cable(End("gpu-9", "1"), OTHER5)]
    assert found(built) == [
        (
            "wrong speed",
            "replace the cable from gpu-0/1 to sw01/5: it runs at 200 Gb/s, planned are 400 Gb/s",
        ),
        ("missing", "connect gpu-1/1 to sw01/6 at 400 Gb/s"),
        ("extra", "remove the cable from gpu-9/1 to sw02/5: the plan has none"),
    ]


def test_three_cables_in_a_ring_are_three_moves() -> None:
    ends = [(End(f"gpu-{i}", "1"), End("sw01", str(i + 1))) for i in range(3)]
    plan = [Cable(*pair) for pair in ends]
    built = [Cable(ends[i][0], ends[(i + 1) % 3][1]) for i in range(3)]
    assert [d.instruction for d in cabling_differences(plan, built)] == [
        "move the cable from sw01/2 to sw01/1 (its other end is gpu-0/1)",
        "move the cable from sw01/3 to sw01/2 (its other end is gpu-1/1)",
        "move the cable from sw01/1 to sw01/3 (its other end is gpu-2/1)",
    ]


def test_a_port_used_twice_is_refused_with_both_lines() -> None:
    cables = [Cable(GPU0, SW5, nan, 2), Cable(GPU1, SW5, nan, 3)]
    with pytest.raises(CatalogError, match=r"hall.csv:3: port sw01/5 is in use .* line 2"):
        require_free_ports("hall.csv", cables)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["rail-optimized", "rail-only", "dragonfly"])
def test_twenty_random_faults_are_found_exactly(name: str, seed: int) -> None:
    sizing = Sizing(512, 16, 8, 450e9, 50e9)
    plan = list(cables_of(expand(FABRICS.load(name), sizing)))
    built, faults = inject(plan, 20, np.random.default_rng(seed))
    assert sorted((d.kind, d.planned, d.built) for d in cabling_differences(plan, built)) == sorted(
        faults
    )


def test_no_fault_no_difference() -> None:
    plan = list(cables_of(expand(FABRICS.load("rail-only"), Sizing(512, 16, 8, 450e9, 50e9))))
    assert cabling_differences(plan, plan[::-1]) == []
