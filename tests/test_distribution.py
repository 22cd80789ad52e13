"""What is published: the same bytes each time, sound metadata, all that a user's install needs."""

import email
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]


def built(folder: Path) -> dict[str, bytes]:
    """Wheel and source archive of this checkout, by the end of their names."""
    pytest.importorskip("hatchling")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
        check=True,
        capture_output=True,
    )
    return {path.name[-3:]: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_wheel_and_source_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    first, second = built(tmp_path / "one"), built(tmp_path / "two")
    assert set(first) == {"whl", ".gz"}
    assert first == second


@pytest.mark.slow
def test_the_wheel_has_catalogs_and_the_script_of_charts(tmp_path: Path) -> None:
    built(tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    names = set(ZipFile(wheel).namelist())
    for needed in ("reports/templates/report.js", "reports/quantities.csv"):
        assert f"netplan/_catalog/{needed}" in names
    shelves = [
        path
        for one in ("traffic", "topologies", "costing")
        for path in (ROOT / one).rglob("*.yaml")
    ]
    assert {f"netplan/_catalog/{path.relative_to(ROOT)}" for path in shelves} <= names
    assert "netplan/py.typed" in names  # types are for users, too
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    [source] = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"hatch_build.py", "README.md", "LICENSE", "pyproject.toml", "docs/start.md"} <= inside


@pytest.mark.slow
def test_the_metadata_is_fit_to_be_published(tmp_path: Path) -> None:
    pytest.importorskip("twine")
    built(tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        said = email.message_from_bytes(archive.read(name))
    words = str(said.get_payload())
    assert said["Requires-Python"] == ">=3.11"
    assert {"cluster", "docs", "explore", "mcp", "plots"} <= {*said.get_all("Provides-Extra", [])}
    assert "Start (`docs/start.md`)" in words  # an index has no such file
    assert not re.search(r"\]\((?!https://)", words)
    files = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
