"""The house rules: format, lint, types, one-way imports, short files, true documents."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "netplan"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 600

# A room may import from the rooms of a lower floor, and from itself.
ROOMS = (
    *("version", "errors", "units", "arrays", "files", "levels", "documents", "catalog"),
    *("reports", "workloads", "topologies", "traffic", "costing", "performance", "simulation"),
    *("faults", "questions", "published", "studies", "cli", "__main__"),
)
FLOORS = {name: floor for floor, name in enumerate(ROOMS)}
# Imports against the order that are still to be cut, by the file that has them.
OPEN = {
    "costing/fabric_bill.py",
    "questions/shelves.py",
    "reports/quantities.py",
}


def room(module: str) -> str:
    """Room of ``netplan.room.module``; the package itself holds only the version."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "errors"


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "format", "--check", "."),
        ("ruff", "check", "."),
        ("mypy",),
    ],
    ids=["format", "lint", "types"],
)
def test_tool_finds_nothing(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    relative = path.relative_to(PACKAGE).with_suffix("")
    here = relative.parts[0]
    if path.relative_to(PACKAGE).as_posix() in OPEN:
        return
    if here == "__init__":
        return  # the public names of all rooms, loaded on first use
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            assert node.level == 0, f"{path}: imports are absolute"
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            there = room(name) if name.split(".")[0] == "netplan" else here
            assert there == here or FLOORS[there] < FLOORS[here], f"{here} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_stay_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_ci_runs_the_readme_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    command = next(line for line in script if line.startswith("python3 -m venv"))
    assert command in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
