"""``netplan cables``: the plan to a file, and plan against as built."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.command import netplan, refused

SMALL = (
    "cables",
    "rail-only-paper",
    "--gpus",
    "64",
    "--radix",
    "16",
    "--hb-size",
    "8",
    "--fabric",
    "rail-optimized",
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cables") / "plan.csv"
    assert netplan(*SMALL, "-o", str(path)).returncode == 0
    return path


def changed(plan: Path, name: str, old: str, new: str) -> Path:
    text = plan.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = plan.with_name(name)
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_plan_to_stdout_and_to_a_file(plan: Path) -> None:
    done = netplan(*SMALL)
    assert done.stdout == plan.read_text(encoding="utf-8")
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + 64 + 64
    assert lines[1] == "gpu-0:1--rail-0/leaf-0:1,gpu-0,1,,,rail-0/leaf-0,1,,,400,fibre,row,,host"


def test_a_spreadsheet_compares_empty(plan: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "plan.xlsx"
    assert netplan(*SMALL, "-o", str(sheet)).returncode == 0
    done = netplan("cables", "--compare", str(plan), str(sheet))
    assert done.returncode == 0
    assert done.stdout.endswith("\n128 cables planned, 128 built: no difference.\n")
    done = netplan(
        "cables", "rail-only-paper", "--compare", str(plan), str(sheet), "--format", "csv"
    )
    assert done.stdout == "kind,instruction,planned,built\n"


def test_differences_exit_with_one(plan: Path) -> None:
    row = ",gpu-0,1,,,rail-0/leaf-0,1,,,400,"
    built = changed(plan, "hall.csv", row, row.replace("leaf-0,1", "leaf-0,77"))
    done = netplan("cables", "rail-only-paper", "--compare", str(plan), str(built), columns=100)
    assert done.returncode == 1
    assert "move the cable from rail-0/leaf-0/77 to rail-0/leaf-0/1" in done.stdout
    assert "\n128 cables planned, 128 built: 1 wrong port.\n" in done.stdout
    done = netplan(
        "cables", "rail-only-paper", "--compare", str(plan), str(built), "--format", "json"
    )
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["planned"] == 128
    assert answer["differences"] == [
        {
            "kind": "wrong port",
            "instruction": "move the cable from rail-0/leaf-0/77 to rail-0/leaf-0/1"
            " (its other end is gpu-0/1)",
            "planned": "gpu-0/1 - rail-0/leaf-0/1",
            "built": "gpu-0/1 - rail-0/leaf-0/77",
        }
    ]


def test_ports_by_cage_and_ports_by_number_compare_empty(tmp_path: Path) -> None:
    arguments = (
        "cables",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        "--gpus",
        "512",
        "--radix",
        "64",
        "--hb-size",
        "8",
    )
    plan, built = tmp_path / "plan.xlsx", tmp_path / "hall.csv"
    assert netplan(*arguments, "--switch", "qm9700", "-o", str(plan)).returncode == 0
    assert netplan(*arguments, "--to", "ufm-ethernet", "-o", str(built)).returncode == 0
    compare = ("cables", "rail-only-paper", "--compare", str(plan), str(built))
    done = netplan(*compare, "--switch", "qm9700")
    # 64 GPUs a rail, all on one leaf
    assert done.stdout.endswith("\n512 cables planned, 512 built: no difference.\n")
    assert "by number: say --switch and --radix, such as --switch qm9700" in refused(*compare)
    error = refused(*compare, "--switch", "q3400")
    assert "--switch q3400 forwards no packets at the links' 400 Gb/s" in error
    assert error.count("\n") == 1


def test_a_switch_that_does_not_fit_makes_no_plan() -> None:
    error = refused(*SMALL, "--switch", "sn5600")
    assert "--switch sn5600 has 128 ports of 400 Gb/s, got --radix 16" in error
    assert error.count("\n") == 1


def test_the_form_of_a_plan_is_what_help_says(plan: Path, tmp_path: Path) -> None:
    text = " ".join(netplan("cables", "--help-all").stdout.split())
    assert "[csv or, as FILE ends, xlsx; table with --compare]" in text
    words = (*SMALL, "--format", "table", "--details")
    table = netplan(*words).stdout
    assert re.search(r"Cable plan of rail-optimized\n\d+ rows\n\n(Note: [^|]*\n\n)?label ", table)
    path = tmp_path / "plan.txt"
    assert netplan(*words, "-o", str(path)).returncode == 0
    assert path.read_text(encoding="utf-8") == table
    assert netplan(*SMALL, "--format", "csv").stdout == plan.read_text(encoding="utf-8")


def test_ufm_files() -> None:
    mapping = netplan(*SMALL, "--to", "ufm-hca", "--host-gpus", "4").stdout
    assert mapping == "port,hca-name\n1,mlx5_0\n2,mlx5_1\n3,mlx5_2\n4,mlx5_3\n"
    racks = netplan(*SMALL, "--to", "ufm-racks", "--floor-plan", "example-hall").stdout
    # 64 GPUs fill two racks; 8 leaves and 4 spines stand between them
    assert racks.splitlines()[1:] == [f"01-0{i},example-hall,1,{i}" for i in (1, 2, 3)]
    assert "--to ufm-racks needs a hall" in refused(*SMALL, "--to", "ufm-racks")


def test_bad_input(plan: Path, tmp_path: Path) -> None:
    assert "plan.txt: unknown kind of table: name it .csv or .xlsx, or say --format" in refused(
        *SMALL, "-o", str(tmp_path / "plan.txt")
    )
    row = ",gpu-0,1,,,rail-0/leaf-0,1,,,400,"
    twice = changed(plan, "twice.csv", row, row.replace("leaf-0,1", "leaf-0,2"))
    error = refused("cables", "rail-only-paper", "--compare", str(plan), str(twice))
    assert "twice.csv:10: port rail-0/leaf-0/2 is in use by the cable on line 2" in error
    assert error.count("\n") == 1
    # Said before the plan, which can be long, is read.
    broken = changed(plan, "broken.csv", row, "")
    assert "'no.csv' does not exist" in refused(
        "cables", "rail-only-paper", "--compare", str(broken), "no.csv"
    )


def test_lengths_on_a_floor_plan() -> None:
    arguments = (
        "cables",
        "rail-only-paper",
        "--gpus",
        "1024",
        "--radix",
        "64",
        "--hb-size",
        "8",
        "--fabric",
    )
    hall = ("--floor-plan", "example-hall")
    text = netplan(*arguments, "rail-only", *hall, "--to", "lengths").stdout
    rows = [line.split(",") for line in text.splitlines()[1:]]
    # 1,024 host links and as many from leaves to spines.
    assert sum(int(row[2]) for row in rows if row[0] == "host") == 1024
    assert sum(int(row[2]) for row in rows if row[0] == "leaf-spine") == 1024
    for _, length, count, total, medium in rows:
        assert float(total) == pytest.approx(float(length) * int(count))
        limits = {"dac": 3, "acc": 5, "aec": 7, "multimode": 50, "singlemode": 500}
        assert float(length) <= limits[medium]
    plan = netplan(*arguments, "rail-only", *hall).stdout.splitlines()
    lengths = sorted({float(line.split(",")[12]) for line in plan[1:]})
    assert lengths == sorted({float(row[1]) for row in rows})
    assert plan[1].split(",")[3:5] == ["01-01", "1"]


def test_racks_hold_all_devices_and_cables() -> None:
    arguments = (
        "cables",
        "rail-only-paper",
        "--gpus",
        "1024",
        "--radix",
        "64",
        "--hb-size",
        "8",
        "--fabric",
    )
    sheet = (*arguments, "rail-only", "--floor-plan", "example-hall", "--to", "racks")
    rows = [line.split(",") for line in netplan(*sheet).stdout.splitlines()[1:]]
    total = {what: sum(int(row[3]) for row in rows if row[1] == what) for what in ("gpu", "cable")}
    assert total == {"gpu": 1024, "cable": 2048}
    # 6 switches a rail, 8 rails, 16 a rack: 3 racks.
    assert [int(row[3]) for row in rows if row[1] == "switch"] == [16, 16, 16]
    assert max(int(row[3]) for row in rows if row[1] == "gpu") == 32


def test_lengths_need_a_hall_that_is_large_enough() -> None:
    arguments = (
        "cables",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        "--gpus",
        "131072",
        "--radix",
        "64",
        "--hb-size",
        "8",
    )
    assert "--to lengths needs a hall" in refused(*arguments, "--to", "lengths")
    error = refused(*arguments, "--floor-plan", "example-hall")
    assert "holds 1,600 racks, 4,096 for GPUs" in error
    assert "unknown floor-plan 'hall'" in refused(*arguments, "--floor-plan", "hall")
