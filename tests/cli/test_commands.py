"""Every command: help, guide, catalog and verify."""

import json
import re
from pathlib import Path

import pytest
import yaml

from netplan.cli.main import COMMANDS
from netplan.documents import folded_yaml
from netplan.questions.shelves import all_shelves
from tests.cli.command import netplan

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guide/questions.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_and_stands_in_the_guide(name: str) -> None:
    done = netplan(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: netplan")
    assert f"netplan {name}" in GUIDE
    # Examples stand on lines of their own, as they can be copied.
    assert "\\b" not in done.stdout


@pytest.mark.parametrize("group", ["study", "catalog", "report"])
def test_lists_of_commands_have_whole_sentences(group: str) -> None:
    listed = netplan(group, "--help").stdout.partition("\nCommands:\n")[2]
    # A name stands two columns in, what goes on from the line above further in.
    said = re.split(r"\n  (?=\w)", "\n" + listed.rstrip())[1:]
    assert said
    assert all(one.endswith(".") and "..." not in one.removesuffix("...).") for one in said)


def test_no_command_shows_the_help() -> None:
    done = netplan()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: netplan")


def test_version() -> None:
    assert netplan("--version").stdout.startswith("netplan, version ")


def test_catalog_list_names_every_role() -> None:
    records = json.loads(netplan("catalog", "list", "--format", "json").stdout)["records"]
    roles = {record["role"] for record in records}
    assert roles == set(all_shelves())
    assert all(record["source"] for record in records)


def test_catalog_show_prints_the_file() -> None:
    path = ROOT / "costing/prices/rail-only-2023.yaml"
    words = ("catalog", "show", "prices/rail-only-2023")
    assert netplan(*words, columns=200).stdout == path.read_text(encoding="utf-8")
    narrow = netplan(*words).stdout
    assert max(map(len, narrow.splitlines())) <= 80
    assert yaml.safe_load(narrow) == yaml.safe_load(path.read_text(encoding="utf-8"))


def test_catalog_show_writes_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert netplan("catalog", "show", "h200", "-o", str(path)).returncode == 0
    assert path.read_bytes() == (ROOT / "traffic/accelerators/h200.yaml").read_bytes()


@pytest.mark.parametrize("width", [60, 80, 100])
def test_every_shipped_file_folds(width: int) -> None:
    for shelf in all_shelves().values():
        for path in shelf.paths().values():
            lines = folded_yaml(path, width).splitlines()
            # An address is one word, however long; 70 columns hold those of books.
            assert [line for line in lines if len(line) > width and "/" not in line] == [], path


def test_catalog_check_finds_all_files_sound() -> None:
    done = netplan("catalog", "check")
    assert done.returncode == 0, done.stderr
    total = done.stdout.split()[2]
    assert done.stdout == f"{total} of {total} files are sound.\n"


@pytest.mark.usefixtures("suites")
def test_verify_passes_and_lists_what_does_not_reproduce() -> None:
    done = netplan("verify", "--format", "json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["failed"] == 0
    assert answer["passed"] == answer["grades"]["exact"] + answer["grades"]["close"]
    known = [check for check in answer["checks"] if check["verdict"] == "known"]
    assert {check["grade"] for check in known} == {"trend", "off", "source"}
    assert any("Eq. 22" in check["source"] for check in known)
    assert all(check["reason"] for check in known)


def test_verify_only_some() -> None:
    answer = json.loads(netplan("verify", "--only", "table 2", "--format", "json").stdout)
    assert (answer["passed"], answer["known"]) == (30, 0)
    assert netplan("verify", "--only", "no such check").returncode == 2


def test_catalog_check_says_how_far_prices_are_known(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    row = "  - {part: %s, unit: USD/each, base: %s, confidence: low, %s}\n"
    path.write_text(
        "name: mine\ntitle: t\nsource: s\ndate: '2026'\ncurrency: USD\nprices:\n"
        + row % ("rack", 900, "date: '2026', source: an offer")
        + row % ("fibre", 12, "date: '2026', source: an offer, derived: 2 x 6")
    )
    done = netplan("catalog", "check", "--sources", "--role", "prices", str(path), "--details")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["fibre", "12", "USD/each", "derived"] in lines
    assert ["rack", "900", "USD/each", "!", "one", "source"] in lines
    assert "fibre: Derived: 2 x 6." in done.stdout
    assert "mine: 2 prices: derived 1 and one source 1." in done.stdout
    answer = netplan("catalog", "check", "--sources", "--format", "json", "--role", "prices")
    data = json.loads(answer.stdout)
    (gear,) = [row for row in data["prices"] if row["model"] == "hb-switch"]
    # Switch trays of 300,000 to 450,000 USD a rack of 64,800 GB/s.
    assert (gear["low"], gear["high"]) == (round(300_000 / 64_800, 2), round(450_000 / 64_800, 2))
    assert (gear["trust"], gear["single_source"], gear["evidence"]) == ("derived", False, "derived")
    (paper,) = [file for file in data["evidence"] if file["file"] == "rail-only-2023"]
    assert (paper["counts"]["shipping"], paper["lacking"]) == (3, [])


def test_catalog_check_counts_the_evidence_of_every_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    row = "  - {part: rack, model: %s, unit: USD/each, base: 9, confidence: low, date: '2026'"
    path.write_text(
        "name: mine\ntitle: t\nsource: s\ndate: '2026'\ncurrency: USD\nprices:\n"
        + (row % "a" + ", source: an offer, evidence: announced}\n")
        + (row % "b" + ", source: an offer}\n")
    )
    done = netplan("catalog", "check", "--sources", "--role", "prices", str(path))
    assert "Evidence: 1 values of 1 files lack a class." in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["prices", "0", "1", "0", "0", "0", "1"] in lines
    whole = netplan("catalog", "check", "--sources")
    assert "no value lacks a class" in whole.stdout


def test_a_dash_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    asked = (
        "export",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        "--to",
        "slurm",
        "--gpus",
        "13",
        "--radix",
        "8",
        "--hb-size",
        "1",
    )
    assert netplan(*asked, "-o", "-").stdout == netplan(*asked).stdout != ""
    assert not [*tmp_path.iterdir()]
