"""Halls whose devices have other names than in the plan: faults are named all the same."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from netplan.errors import CatalogError
from netplan.questions.cable_comparison import CableComparison, Naming, compare_cables
from netplan.questions.cables import sheet_csv
from netplan.topologies.cabling.as_built import Cable, End
from netplan.topologies.cabling.cable_plan import cable_plan, plan_sheet, with_hosts
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from tests.topologies.cabling.cable_faults import inject
from tests.topologies.cabling.described_hall import (
    ALIKE,
    Describe,
    bare,
    described,
    managed,
    nameless,
    nodes,
    unmanaged,
)


def planned(name: str, gpus: int = 128, radix: int = 16) -> list[Cable]:
    """Cables of hosts of eight GPUs."""
    plan = with_hosts(
        cable_plan(expand(FABRICS.load(name), Sizing(gpus, radix, 8, 450e9, 50e9))), 8
    )
    return [Cable(End(a.name, ap), End(z.name, zp), 400.0) for a, ap, z, zp in plan.ends()]


def written(folder: Path, name: str, gpus: int = 128, radix: int = 16) -> Path:
    """The plan that names GPUs."""
    graph = expand(FABRICS.load(name), Sizing(gpus, radix, 8, 450e9, 50e9))
    path = folder / "plan.csv"
    path.write_text("".join(sheet_csv(plan_sheet(cable_plan(graph)))), encoding="utf-8")
    return path


def compared(
    folder: Path, name: str, built: list[Cable], describe: Describe, names: str = ""
) -> CableComparison:
    hall = folder / "hall.txt"
    hall.write_text(described(built, describe), encoding="utf-8")
    naming = None
    if names:
        (folder / "names").write_text(names, encoding="utf-8")
        naming = Naming(folder / "names")
    return compare_cables(written(folder, name), hall, naming=naming)


FABRIC_NAMES = ["rail-optimized", "rail-only", "fat-tree", "dragonfly"]


@pytest.mark.parametrize("describe", [managed, nodes, unmanaged, bare, nameless])
@pytest.mark.parametrize("name", FABRIC_NAMES)
def test_a_hall_as_planned_has_no_difference(name: str, describe: Describe, tmp_path: Path) -> None:
    answer = compared(tmp_path, name, planned(name), describe)
    assert answer.differences == ()
    assert bool(answer.notes) == (describe is not managed)
    # Rails share no switch: without any name, nothing tells which is which, and that is said.
    ambiguous = any(note.startswith("ambiguous") for note in answer.notes)
    assert ambiguous == (name == "rail-only" and describe is nameless)


@pytest.mark.parametrize("describe", [managed, nodes, unmanaged, bare])
@pytest.mark.parametrize("name", FABRIC_NAMES)
def test_faults_are_found_exactly(name: str, describe: Describe, tmp_path: Path) -> None:
    plan = planned(name)
    built, faults = inject(plan, 6, np.random.default_rng(len(name)))
    built = [cable._replace(lanes=4) for cable in built if not np.isnan(cable.gbps)] + [
        cable._replace(gbps=400.0, lanes=4) for cable in built if np.isnan(cable.gbps)
    ]
    answer = compared(tmp_path, name, built, describe)
    assert Counter(d.kind for d in answer.differences) == Counter(kind for kind, _, _ in faults)


def test_switches_without_names_keep_their_faults_between_switches(tmp_path: Path) -> None:
    plan = planned("fat-tree")
    at = [i for i, cable in enumerate(plan) if cable.a.device == "leaf-3"]
    built = [cable for i, cable in enumerate(plan) if i != at[0]]
    answer = compared(tmp_path, "fat-tree", built, nameless)
    assert [d.instruction for d in answer.differences] == [
        f"connect {plan[at[0]].a} to {plan[at[0]].z} at 400 Gb/s"
    ]


def test_a_dark_switch_is_one_line(tmp_path: Path) -> None:
    # Leaf 3 of a fat tree of 16 ports: eight GPUs, eight cables to spines.
    built = [c for c in planned("fat-tree") if "leaf-3" not in (c.a.device, c.z.device)]
    for describe in (managed, nodes, unmanaged):
        answer = compared(tmp_path, "fat-tree", built, describe)
        assert [(d.kind, d.instruction) for d in answer.differences] == [
            ("not seen", "leaf-3 was not seen: 16 cables; is it on, and joined?")
        ]
        assert "1 not seen" in answer.sentence


def test_a_narrow_link_says_its_width_and_a_slow_one_its_speed(tmp_path: Path) -> None:
    plan = planned("fat-tree")
    narrow, slow = plan[3]._replace(gbps=100.0, lanes=1), plan[4]._replace(gbps=200.0, lanes=4)
    both = plan[5]._replace(gbps=50.0, lanes=1)
    built = [*plan[:3], narrow, slow, both, *plan[6:]]
    answer = compared(tmp_path, "fat-tree", built, managed)
    kinds = [(d.kind, d.instruction.partition(": ")[2]) for d in answer.differences]
    assert kinds == [
        ("narrow", "it runs 1x wide, planned is 4x"),
        ("wrong speed", "it runs at 200 Gb/s, planned are 400 Gb/s"),
        ("narrow", "it runs 1x wide, planned is 4x, each at 50 Gb/s, planned are 100"),
    ]


def test_hosts_with_adapters_for_storage_between(tmp_path: Path) -> None:
    # A server of eight GPUs whose adapters 1, 2, 7 and 8 are those of other networks.
    number = (0, 3, 4, 5, 6, 9, 10, 11)

    def server(name: str) -> str:
        return re.sub(r"mlx5_(\d+)", lambda found: f"mlx5_{number[int(found[1])]}", managed(name))

    answer = compared(tmp_path, "rail-optimized", planned("rail-optimized"), server)
    assert answer.differences == ()
    assert answer.notes == ()

    def turned(name: str) -> str:
        return re.sub(r"mlx5_(\d+)", lambda found: f"mlx5_{7 - int(found[1])}", managed(name))

    answer = compared(tmp_path, "rail-optimized", planned("rail-optimized"), turned)
    assert answer.differences == ()
    assert "most are plugged in: 7, 6, 5, 4, 3, 2, 1, 0" in answer.notes[0]


def test_a_dark_host_leaves_a_gap_in_the_numbers(tmp_path: Path) -> None:
    built = [c for c in planned("rail-optimized") if c.a.device != "host-5"]
    answer = compared(tmp_path, "rail-optimized", built, nodes)
    assert [(d.kind, d.planned) for d in answer.differences] == [
        ("not seen", "host-5: 8 cables")  # which are those of gpu-40 to gpu-47
    ]
    assert answer.notes[0].endswith("node001 as host-0, node016 as host-15")


def test_a_map_of_names_settles_what_ports_cannot(tmp_path: Path) -> None:
    plan = planned("rail-only")
    text = described(plan, nameless)
    ids = re.findall(r'^(?:Switch|Ca) \d+ "([SH]-\w+)"', text, re.MULTILINE)
    calls = re.findall(
        r'^(?:Switch|Ca) \d+ ".*"$', described(plan, lambda name: name), re.MULTILINE
    )
    names = "".join(
        f'0x{id_.partition("-")[2]} "{line.split("# ")[1].strip(chr(34))}"\n'
        for id_, line in zip(ids, calls, strict=True)
    )
    answer = compared(tmp_path, "rail-only", plan, nameless, names)
    assert (answer.differences, answer.notes) == ((), ())
    swapped = [plan[0]._replace(z=plan[9].z), plan[9]._replace(z=plan[0].z)]
    built = [*swapped, *plan[1:9], *plan[10:]]
    answer = compared(tmp_path, "rail-only", built, lambda name: name)
    assert [d.kind for d in answer.differences] == ["swapped"]


def test_switches_that_bear_each_others_names_are_told(tmp_path: Path) -> None:
    other = {"leaf-2": "leaf-5", "leaf-5": "leaf-2"}
    answer = compared(tmp_path, "fat-tree", planned("fat-tree"), lambda name: other.get(name, name))
    assert len(answer.differences) == 16  # cables, each with one of another leaf
    assert answer.notes == (
        "the switch that is called leaf-2 has the cables of leaf-5: is its name right?",
        "the switch that is called leaf-5 has the cables of leaf-2: is its name right?",
    )


def test_a_line_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hall.txt"
    path.write_text('Switch 8 "S-1" # "s"\n[1] "S-2"[1] # ' + " " * 10_000 + "x\n")
    with pytest.raises(CatalogError, match=r":2: more than 2,000 characters"):
        compare_cables(path, path)


def test_what_is_known_by_its_ports_is_in_the_json(tmp_path: Path) -> None:
    answer = compared(tmp_path, "fat-tree", planned("fat-tree"), unmanaged)
    known = answer.to_dict()["known"]
    assert {one["how"] for one in known} == {"ports"}
    assert all(one["built"].startswith(ALIKE) for one in known)
    assert len({one["planned"] for one in known}) == len(known) == 24  # 16 leaves, 8 spines
