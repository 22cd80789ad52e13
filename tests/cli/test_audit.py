"""``netplan audit``: findings as rows, exit codes, bad files in one line."""

import json
from pathlib import Path

from tests.cli.command import netplan, refused

WRONG = "design,gpus,nodes\n=big pod,1000,128\n"


def test_findings_exit_with_one(tmp_path: Path) -> None:
    path = tmp_path / "designs.csv"
    path.write_text(WRONG, encoding="utf-8")
    done = netplan("audit", str(path), columns=160)
    assert done.returncode == 1
    assert "gpus 1000" in done.stdout
    assert "line 2 =big pod" in done.stdout
    assert "(table of designs): 1 finding.\n" in done.stdout
    answer = json.loads(netplan("audit", str(path), "--format", "json").stdout)
    assert answer["kind"] == "table of designs"
    assert answer["findings"] == [
        {
            "what": "counts that do not multiply",
            "where": f"{path}:2 =big pod",
            "got": "gpus 1000",
            "expected": "1,024",
            "why": "128 nodes of 8 GPUs",
        }
    ]
    lines = netplan("audit", str(path), "--format", "csv").stdout.splitlines()
    assert lines[0] == "what,where,got,expected,why"
    assert len(lines) == 2


def test_a_sound_plan_exits_with_zero(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    plan = (
        "cables",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        "--gpus",
        "64",
        "--radix",
        "16",
        "--hb-size",
        "8",
        "-o",
        str(path),
    )
    assert netplan(*plan).returncode == 0
    done = netplan("audit", str(path), "--radix", "16", columns=400)
    assert done.returncode == 0
    assert done.stdout.endswith(f"\n{path} (table of cables): no fault found.\n")
    done = netplan("audit", str(path), "--radix", "4")
    assert done.returncode == 1
    assert (
        "more cables than ports"
        in netplan("audit", str(path), "--radix", "4", "--format", "csv").stdout
    )


def test_bad_files_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    error = refused("audit", str(path))
    assert "notes.csv:1: neither designs nor cables" in error
    assert error.count("\n") == 1
    assert "cannot be read" in refused("audit", str(tmp_path / "none.csv"))


def test_a_header_without_cables_is_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("source,source_port,target,target_port\n", "utf-8")
    done = netplan("audit", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"netplan: {path}:1: no cable stands under this header\n"
