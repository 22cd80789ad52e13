"""What netplan says of its own installation."""

from pathlib import Path

import pytest

import netplan
from netplan.catalog import shipped_date
from netplan.cli import doctor
from tests.cli.command import netplan as run_netplan


def test_a_whole_installation_is_sound() -> None:
    found = netplan.doctor()
    assert found.exit_code == 0
    states = {one.name: one.state for one in found.parts}
    assert all(states[name] == "found" for name in doctor.CORE)
    assert set(states) == {*doctor.CORE, *doctor.EXTRAS, *doctor.TOOLS}
    assert f"catalogs of {shipped_date()}" in found.text()


def test_core_parts_are_those_that_the_project_asks_for() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    asked = text.partition("\ndependencies = [")[2].partition("\n]")[0]
    assert {line.split('"')[1].partition(">")[0] for line in asked.strip().splitlines()} == {
        *doctor.CORE
    }


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "CORE", {**doctor.CORE, "no-such-part": "nothing"})
    monkeypatch.setenv("PATH", str(tmp_path))
    found = netplan.doctor()
    assert found.exit_code == 2
    assert found.to_dict()["sound"] is False
    assert "Missing: no-such-part;" in found.text()
    assert "Missing: no-such-part." in found.text(details=True)
    assert "dot: apt install graphviz" in found.text(details=True)


def test_every_part_has_one_line_of_a_terminal() -> None:
    found = netplan.doctor()
    lines = found.text(80, details=True).splitlines()
    for one in found.parts:
        [line] = [line for line in lines if line.startswith(one.kind) and f" {one.name} " in line]
        assert line.endswith(one.purpose)
        assert len(line) <= 80


def test_a_faulty_file_of_yours_is_named(tmp_path: Path) -> None:
    shelf = tmp_path / "topologies"
    shelf.mkdir()
    (shelf / "mine.yaml").write_text("name: mine\nfamily: clso\n")
    done = run_netplan("doctor", "--catalog", str(tmp_path))
    assert done.returncode == 2
    assert "family 'clso' has no builder" in " ".join(done.stdout.split())


def test_the_version_has_the_date_of_the_catalogs() -> None:
    assert run_netplan("--version").stdout.strip().endswith(f"catalogs of {shipped_date()}")
