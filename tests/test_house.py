"""The house rules: format, lint, types, one-way imports without circles, sizes, true documents."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "netplan"

# A room imports only from rooms before it, and from itself.
ROOMS = (
    *(
        "version",
        "errors",
        "units",
        "arrays",
        "records",
        "inputs",
        "files",
        "spreadsheets",
        "levels",
    ),
    *("documents", "added", "catalog", "progress"),
    *("reports", "workloads", "topologies", "traffic", "costing", "performance", "calibration"),
    *(
        "simulation",
        "faults",
        "scenarios",
        "decide",
        "questions",
        "procurement",
        "published",
        "studies",
        "explore",
        "cli",
        "__main__",
    ),
)
MAX_MODULE_LINES = 600
# The most there may be of each, documentation aside: they only fall, or rise by what a named
# feature needs, which its commit says. Long functions are no fault, tangled ones are: the linter
# holds how many ways there are through each.
MOST = {"lines of code": 72_000, "functions": 5_900, "classes": 1_003, "lines of imports": 6_400}
LEAST_DOCUMENTED = 446  # public functions that say Parameters or Returns


def name_of(path: Path) -> str:
    """Dotted name of a module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def syntax_of(name: str) -> ast.Module:
    """Syntax tree of a module, made once a process."""
    return ast.parse(MODULES[name].read_text("utf-8"))


@cache
def code_lines() -> dict[str, int]:
    """Lines of code of every module: documentation may be as long as it needs to be."""
    counts = {}
    for name, path in MODULES.items():
        written = path.read_text("utf-8").splitlines()
        documented = {
            number
            for node in ast.walk(syntax_of(name))
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        counts[name] = sum(
            bool(line.strip()) and not line.strip().startswith("#") and number not in documented
            for number, line in enumerate(written, start=1)
        )
    return counts


def room_of(module: str) -> str:
    """Room of ``netplan.room.module``."""
    return module.split(".")[1]


def imports_of(name: str) -> set[str]:
    """Modules of the package that a module imports anywhere, in functions too."""
    found: set[str] = set()
    for node in ast.walk(syntax_of(name)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}, line {node.lineno}: imports are absolute"
            source = node.module or ""
            found |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {one for one in found if one in MODULES and one != "netplan"} - {name}


@cache
def imports() -> dict[str, set[str]]:
    """Modules that every module imports.

    The package itself offers the public names of all rooms, loaded on first use.
    """
    return {name: imports_of(name) for name in MODULES if name != "netplan"}


@pytest.mark.parametrize("command", ["ruff format --check .", "ruff check .", "mypy"])
def test_tool_finds_nothing(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_imports_run_one_way() -> None:
    upward = [
        f"{name} imports {other}"
        for name, others in imports().items()
        for other in sorted(others)
        if ROOMS.index(room_of(other)) > ROOMS.index(room_of(name))
    ]
    assert not upward


def test_no_imports_run_in_a_circle() -> None:
    graph = nx.DiGraph((name, other) for name, others in imports().items() for other in others)
    circles = [sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1]
    assert not circles


def test_no_module_or_room_is_a_giant() -> None:
    rooms: Counter[str] = Counter()
    for name in imports():
        rooms[room_of(name)] += code_lines()[name]
    total = sum(code_lines().values())
    table = "\n".join(f"{size:6,} {room}" for room, size in rooms.most_common())
    print(f"{total:6,} lines in all\n{table}")  # noqa: T201 - see pytest -rP
    assert not {name: size for name, size in code_lines().items() if size > MAX_MODULE_LINES}
    # A quarter of the code is what a fifth of all lines was: questions are little documentation.
    assert not {room for room, size in rooms.items() if size > total // 4}, table


def figures() -> dict[str, int]:
    """How much there is of the package: what a reader has to learn."""
    kinds: Counter[str] = Counter({"lines of code": sum(code_lines().values())})
    for name in MODULES:
        for node in ast.walk(syntax_of(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                kinds["functions"] += 1
                text = ast.get_docstring(node) or ""
                sections = ("Parameters\n---", "Returns\n---")
                kinds["documented"] += not node.name.startswith("_") and any(
                    section in text for section in sections
                )
            elif isinstance(node, ast.ClassDef):
                kinds["classes"] += 1
            elif isinstance(node, ast.Import | ast.ImportFrom):
                kinds["lines of imports"] += (node.end_lineno or node.lineno) - node.lineno + 1
    return dict(kinds)


def test_the_package_grows_by_named_features_alone() -> None:
    kinds = figures()
    print("\n".join(f"{count:7,} {kind}" for kind, count in kinds.items()))  # noqa: T201 - -rP
    assert kinds.pop("documented") >= LEAST_DOCUMENTED
    assert not {kind: count for kind, count in kinds.items() if count > MOST[kind]}


def test_ci_runs_the_readme_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    command = next(line for line in script if line.startswith("python3 -m venv"))
    assert command in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
