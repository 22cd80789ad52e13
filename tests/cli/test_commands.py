"""Every command: help, README, catalog and verify."""

import json
import shlex
from pathlib import Path

import click
import pytest

from netplan.cli.main import COMMANDS
from netplan.cli.main import netplan as command_line
from netplan.questions.shelves import SHELVES
from tests.cli.command import netplan

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = [line for line in README.splitlines() if line.startswith("netplan ") and "  #" in line]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_and_stands_in_the_readme(name: str) -> None:
    done = netplan(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: netplan")
    assert f"netplan {name}" in README
    # Examples stand on lines of their own, as they can be copied.
    assert "\\b" not in done.stdout


def test_readme_shows_the_real_output() -> None:
    done = netplan("compare", "--gpus", "32768", "--radix", "128")
    assert done.stdout in README


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_of_the_readme_parse(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every option and choice must exist; so do, here, the files that a reader would bring.
    monkeypatch.chdir(tmp_path)
    name, *words = shlex.split(line, comments=True)[1:]
    for word in words:
        if word.endswith((".csv", ".ibnetdiscover", ".xlsx", ".yaml")):
            Path(word).touch()
    command = command_line.get_command(click.Context(command_line), name)
    assert command is not None
    command.make_context(name, words)


def test_the_readme_has_an_example_of_every_command() -> None:
    assert {line.split()[1] for line in EXAMPLES} == set(COMMANDS)


def test_version() -> None:
    assert netplan("--version").stdout.startswith("netplan, version ")


def test_catalog_list_names_every_role() -> None:
    records = json.loads(netplan("catalog", "list", "--format", "json").stdout)["records"]
    roles = {record["role"] for record in records}
    assert roles == set(SHELVES)
    assert all(record["source"] for record in records)


def test_catalog_show_prints_the_file() -> None:
    done = netplan("catalog", "show", "prices/rail-only-2023")
    assert done.stdout == (ROOT / "costing/prices/rail-only-2023.yaml").read_text(encoding="utf-8")


def test_catalog_check_finds_all_files_sound() -> None:
    done = netplan("catalog", "check")
    assert done.returncode == 0, done.stderr
    total = done.stdout.split()[2]
    assert done.stdout == f"{total} of {total} files are sound.\n"


def test_verify_passes_and_lists_what_does_not_reproduce() -> None:
    done = netplan("verify", "--format", "json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["failed"] == 0
    known = [check for check in answer["checks"] if check["verdict"] == "known"]
    assert any("Eq. 22" in check["source"] for check in known)
    assert all(check["reason"] for check in known)


def test_verify_only_some() -> None:
    answer = json.loads(netplan("verify", "--only", "table 2", "--format", "json").stdout)
    assert (answer["passed"], answer["known"]) == (30, 0)
    assert netplan("verify", "--only", "no such check").returncode == 2
