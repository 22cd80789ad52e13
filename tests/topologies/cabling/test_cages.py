"""Ports named by cage and half: every table reads back, and numbers elsewhere mean the same."""

import re
from pathlib import Path

import numpy as np
import pytest

from netplan.costing.switches import SWITCHES, cage_links
from netplan.errors import CatalogError, InputError
from netplan.questions.cable_comparison import compare_cables, read_cables
from netplan.questions.cables import Cables, cables, sheet_csv, sheet_xlsx
from netplan.topologies.cabling.as_built import (
    Cable,
    End,
    Hall,
    cables_of,
    cabling_differences,
    cage_port,
    named_alike,
)
from netplan.topologies.cabling.cable_plan import PlanSheet
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from tests.topologies.cabling.cable_faults import inject

GRAPH = expand(FABRICS.load("rail-optimized"), Sizing(512, 64, 8, 450e9, 50e9))
NUMBERED = list(cables_of(GRAPH))
TABLES = ("plan", "netbox-cables", "ufm-ethernet", "ufm-infiniband")


def sheet(to: str = "plan") -> PlanSheet:
    return Cables.make(
        "rail-only-paper",
        gpus=512,
        radix=64,
        hb_size=8,
        fabric="rail-optimized",
        to=to,
        switch="qm9700",
    ).table()()


def saved(path: Path, written: PlanSheet) -> Path:
    if path.suffix == ".xlsx":
        path.write_bytes(sheet_xlsx(written))
    else:
        path.write_text("".join(sheet_csv(written)), encoding="utf-8")
    return path


def in_cages(cable: Cable) -> Cable:
    """A cable with the ports of switches in twin-port cages, by the rule 2 (c - 1) + h."""
    ends = [
        end
        if end.device.startswith("gpu")
        else End(end.device, f"{(int(end.port) + 1) // 2}/{2 - int(end.port) % 2}")
        for end in cable[:2]
    ]
    return cable._replace(a=ends[0], z=ends[1])


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("cages") / "plan.csv", sheet())


def test_labels_and_ports_by_hand(plan: Path) -> None:
    # Rail 0 of 64 domains: leaves of 32 down. GPU 8 is the second GPU of leaf 0, GPU 256 the
    # first of leaf 1; the first uplink of a leaf is port 33, in cage 17.
    rows = [line.split(",") for line in plan.read_text(encoding="utf-8").splitlines()]
    labels = [row[0] for row in rows]
    assert "gpu-8:1--rail-0/leaf-0:1/2" in labels
    assert "gpu-256:1--rail-0/leaf-1:1/1" in labels
    assert "rail-0/leaf-0:17/1--spine-0:1/1" in labels
    assert all(row[0] == f"{row[1]}:{row[2]}--{row[5]}:{row[6]}" for row in rows[1:])


def test_a_cage_holds_two_cables_and_one_cage_after_the_other_is_used() -> None:
    names = [cage_port(port, 2) for port in range(1, 65)]
    assert names[:3] + names[-1:] == ["1/1", "1/2", "2/1", "32/2"]
    assert len(set(names)) == 64
    assert [cage_port(port, 4) for port in (4, 5, 128)] == ["1/4", "2/1", "32/4"]


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
@pytest.mark.parametrize("to", TABLES)
def test_every_table_reads_back_to_the_same_cables(
    plan: Path, tmp_path: Path, to: str, ending: str
) -> None:
    path = saved(tmp_path / f"table{ending}", sheet(to))
    wanted = {frozenset(in_cages(cable)[:2]) for cable in NUMBERED}
    assert {frozenset(cable[:2]) for cable in read_cables(path)} == wanted
    assert compare_cables(plan, path).differences == ()


def test_a_switch_of_single_ports_is_named_as_before() -> None:
    one, two = (
        Cables.make(
            "rail-only-paper",
            gpus=64,
            radix=64,
            hb_size=8,
            accelerator="b200",
            switch=switch,
            fabric="rail-only",
        ).table()()
        for switch in ("sn5600", None)
    )
    assert list(one.rows) == list(two.rows)


def ibnetdiscover(path: Path, listed: list[Cable]) -> Path:
    """Cables as ``ibnetdiscover`` prints them, each in the blocks of both its ends."""
    lines: dict[str, list[str]] = {}
    for cable in listed:
        for here, there in ((cable.a, cable.z), (cable.z, cable.a)):
            lines.setdefault(here.device, []).append(f"[{here.port}]\t{there.device}[{there.port}]")
    guids = {name: f"{'H' if 'gpu' in name else 'S'}-{i:x}" for i, name in enumerate(lines)}
    blocks = []
    for name, ports in lines.items():
        kind = "Ca\t1" if "gpu" in name else "Switch\t64"
        found = [re.sub(r"\t(.*)\[", lambda m: f'\t"{guids[m[1]]}"[', port) for port in ports]
        rows = "".join(f"{row}\t# 4xNDR\n" for row in found)
        blocks.append(f'{kind} "{guids[name]}"\t# "{name}"\n{rows}\n')
    path.write_text("".join(blocks), encoding="utf-8")
    return path


def test_ibnetdiscover_numbers_what_the_plan_names_by_cage(plan: Path, tmp_path: Path) -> None:
    built = ibnetdiscover(tmp_path / "hall.ibnetdiscover", NUMBERED)
    assert len(read_cables(built)) == len(NUMBERED)
    assert compare_cables(plan, built, switch="qm9700").differences == ()
    assert compare_cables(built, plan, switch="qm9700").differences == ()
    with pytest.raises(InputError, match=r"plan.csv names the ports of .* by cage, .*hall.ibnet"):
        compare_cables(plan, built)


@pytest.mark.parametrize("seed", range(3))
def test_faults_are_found_and_told_in_the_names_of_the_plan(seed: int) -> None:
    built, _ = inject(NUMBERED, 20, np.random.default_rng(seed))
    plain = cabling_differences(NUMBERED, built)
    assert len(plain) == 20

    def named(text: str) -> str:
        switch = r"((?:rail|spine)[^ ;]*)/(\d+)(?=[ ;]|$)"
        return re.sub(switch, lambda m: f"{m[1]}:{cage_port(int(m[2]), 2)}", text)

    wanted, found = named_alike(
        Hall("plan", [in_cages(cable) for cable in NUMBERED]), Hall("hall", built), 2
    )
    assert sorted(
        (d.kind, d.planned, d.built) for d in cabling_differences(wanted, found)
    ) == sorted((d.kind, named(d.planned), named(d.built)) for d in plain)


def test_an_instruction_by_hand(plan: Path, tmp_path: Path) -> None:
    text = plan.read_text(encoding="utf-8")
    row = "gpu-8,1,,,rail-0/leaf-0,1/2,"
    assert text.count(row) == 1
    built = tmp_path / "hall.csv"
    built.write_text(text.replace(row, row.replace("1/2", "32/3")), encoding="utf-8")
    assert [d.instruction for d in compare_cables(plan, built).differences] == [
        "move the cable from rail-0/leaf-0:32/3 to rail-0/leaf-0:1/2 (its other end is gpu-8/1)"
    ]


@pytest.mark.parametrize(
    ("switch", "radix", "words"),
    [
        ("sn5600", 64, "a cage of this --switch with this --radix has 1"),
        ("sn5600", 96, "has 64 ports of 800 Gb/s or 128 ports of 400 Gb/s or 256 ports of 200"),
        ("qm8700", 64, "has 40 ports of 200 Gb/s or 80 ports of 100 Gb/s, got --radix 64"),
        ("palomar", 64, "has no ports for packets"),
        ("qm970", 64, "unknown switch 'qm970': did you mean qm9700"),
    ],
)
def test_a_wrong_switch_does_not_compare(
    plan: Path, tmp_path: Path, switch: str, radix: int, words: str
) -> None:
    built = ibnetdiscover(tmp_path / "hall.ibnetdiscover", NUMBERED)
    with pytest.raises((InputError, CatalogError), match=words) as error:
        compare_cables(plan, built, switch=switch, radix=radix)
    assert "\n" not in str(error.value)


def test_a_half_that_no_cage_has_names_file_and_line() -> None:
    # With two halves, 1/3 would be port 3, which is 2/1: nothing may be guessed.
    plan = Hall("plan.csv", [Cable(End("gpu-0", "1"), End("sw01", "1/3"), line=2)])
    built = Hall("hall.csv", [Cable(End("gpu-0", "1"), End("sw01", "3"), line=2)])
    with pytest.raises(CatalogError, match=r"plan.csv:2: port 1/3 of sw01: a cage .* has 2"):
        named_alike(plan, built, 2)


def test_what_a_number_means_beside_cages_is_not_guessed() -> None:
    # In one list 5 and 6/1 of one switch: 5 may be an unsplit cage. Names stay as they are.
    ends = [End("gpu-0", "1"), End("gpu-1", "1")]
    mixed = Hall("hall.csv", [Cable(ends[0], End("sw01", "5")), Cable(ends[1], End("sw01", "6/1"))])
    plan = Hall("plan.csv", [Cable(ends[0], End("sw01", "5/1")), *mixed.cables[1:]])
    assert named_alike(plan, mixed, 2) == (plan.cables, mixed.cables)
    assert named_alike(plan, mixed) == (plan.cables, mixed.cables)


@pytest.mark.parametrize(
    ("switch", "fabric", "words"),
    [
        ("sn5600", "rail-only", "has 128 ports of 400 Gb/s, got --radix 64: give --radix 128, or"),
        (
            "q3400",
            "rail-only",
            "runs at 800 Gb/s, the links at 400 Gb/s with --radix 64: add --nic 800",
        ),
        ("palomar", "rail-only", "an optical circuit switch forwards no packets"),
        ("qm9700", "torus-2d", "torus-2d has no switches: leave out --switch qm9700"),
    ],
)
def test_a_wrong_switch_makes_no_plan(switch: str, fabric: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        cables("rail-only-paper", gpus=512, radix=64, hb_size=8, fabric=fabric, switch=switch)
    assert "\n" not in str(error.value)


def test_links_of_a_cage_by_radix() -> None:
    sn5600 = SWITCHES.load("sn5600")
    assert [cage_links(sn5600, radix) for radix in (64, 128, 256)] == [1, 2, 4]
