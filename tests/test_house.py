"""The house rules: format, lint, types, one-way imports without circles, sizes, true documents."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache

import networkx as nx
import pytest

from docs.generators.rooms import MODULES, PACKAGE, ROOMS, imports, room_of, statements, syntax_of
from tests.long import LIST

ROOT = PACKAGE.parent
MAX_MODULE_LINES = 600
MAX_CONTRIBUTING_LINES = 130
# The most there may be of each, documentation aside: they only fall, or rise by what a named
# feature needs, which its commit says. Long functions are no fault, tangled ones are: the linter
# holds how many ways there are through each.
MOST = {"lines of code": 106_709, "functions": 8_167, "classes": 1_319, "lines of imports": 8_639}
SETTINGS = "_hypothesis_internal_use_settings"  # where a test of invariants keeps its own
LEAST_DOCUMENTED = 1_000  # public functions that say Parameters or Returns


@cache
def code_lines() -> dict[str, int]:
    """Lines of code of every module: documentation may be as long as it needs to be."""
    counts = {}
    for name, path in MODULES.items():
        written = path.read_text("utf-8").splitlines()
        documented = {
            number
            for node in statements(syntax_of(name))
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


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no clone")
def test_no_answer_is_kept_by_mistake() -> None:
    listed = ("git", "ls-files", "--cached", "--ignored", "--exclude-standard")
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not done.stdout


def test_imports_are_absolute() -> None:
    relative = [
        f"{name}, line {node.lineno}"
        for name in MODULES
        for node in statements(syntax_of(name))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


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
    assert not {room for room, size in rooms.items() if size > total // 5}, table


def figures() -> dict[str, int]:
    """How much there is of the package: what a reader has to learn."""
    kinds: Counter[str] = Counter({"lines of code": sum(code_lines().values())})
    for name in MODULES:
        for node in statements(syntax_of(name)):
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


UNSAYING = {"one", "found", "at", "said", "told", "each", "own", "beside"}
"""Names of variables and functions that do not say what they hold or give."""


def test_variables_say_what_they_are() -> None:
    unsaying = []
    for name in MODULES:
        tree = syntax_of(name)
        classes = (node for node in statements(tree) if isinstance(node, ast.ClassDef))
        fields = {
            id(line.target)
            for node in classes
            for line in node.body
            if isinstance(line, ast.AnnAssign)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                unsaying += [f"{name}, line {node.lineno}"] if node.arg in UNSAYING else []
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bad = node.id in UNSAYING and id(node) not in fields
                unsaying += [f"{name}, line {node.lineno}"] if bad else []
    assert not unsaying


PRIVATE_CLASSES = {
    *("Teller", "Shelf", "Seen", "Asked", "Found", "Served", "Known", "Step", "Work", "Span"),
    *("Outcome", "Network", "Side", "Way", "Probe", "Trade", "Weighing", "Pace", "Running"),
}
PRIVATE_FUNCTIONS = {
    *("asks", "several", "absent", "shared", "poured", "join", "widest", "codes", "alike"),
    *("mixed", "among", "on", "whole", "plain", "told", "refuse", "asked"),
}
"""Names that say nothing of a class, or of a function, to whoever did not write it."""
PRIVATE_WORDS = re.compile(
    r"(?:^|_)(?:paces?|slabs?|islands?|stops|running|binds|cage_twins?|hot|interlaced|in_sets|"
    r"only_named)(?=_|$)"
)
"""Words of this house alone: the field's stand in their place (relative throughput, cut set)."""
KEPT_KEYS = {"hot", "hot_links", "in_sets", "running_per_year"}
"""Fields and properties whose names are keys of JSON, of files, or inputs of commands."""
SAME_CLASSES = {"Fabric"}
"""Nouns of the public interface that a room has in its own form."""
SAME_FUNCTIONS = {"command", "main"}
"""What click and Python look for by name."""


def defined_names(tree: ast.AST) -> Iterator[tuple[str, str, int, bool]]:
    """What code defines: its kind, name and line, and whether it stands in a class itself."""
    nodes = list(ast.walk(tree))
    of_classes = {
        id(line) for node in nodes if isinstance(node, ast.ClassDef) for line in node.body
    }
    of_classes |= {
        id(line.target)
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.AnnAssign)
    }
    for node in nodes:
        within = id(node) in of_classes
        match node:
            case ast.ClassDef(name=name):
                yield "class", name, node.lineno, within
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield "function", name, node.lineno, within
            case ast.arg(arg=name):
                yield "value", name, node.lineno, within
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield "value", name, node.lineno, within


def test_names_are_words_of_the_field() -> None:
    private = []
    for module in MODULES:
        for kind, name, line, in_class in defined_names(syntax_of(module)):
            known = name.strip("_")
            bad = {
                "class": known in PRIVATE_CLASSES,
                "function": known in PRIVATE_FUNCTIONS | UNSAYING,
                "value": known in PRIVATE_CLASSES,  # an alias of a type
            }[kind]
            snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", known).lower()
            if PRIVATE_WORDS.search(snake) and not (in_class and name in KEPT_KEYS):
                bad = True
            private += [f"{module}, line {line}: {name}"] if bad else []
    assert private == []


def test_names_mean_one_thing() -> None:
    # Methods have their class beside them; a question may be called as its room.
    classes: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for module in MODULES:
        tree = syntax_of(module)
        classes.update(node.name for node in statements(tree) if isinstance(node, ast.ClassDef))
        functions.update(
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        )
    assert {name for name, count in classes.items() if count > 1} == SAME_CLASSES
    assert {name for name, count in functions.items() if count > 1} == SAME_FUNCTIONS


def test_long_tests_that_are_listed_are_there() -> None:
    gone = []
    for line in LIST.read_text("utf-8").splitlines():
        file, _, test = line.partition("::")
        path, name = ROOT / file, test.rpartition(".")[2].rpartition("::")[2]
        if not path.is_file() or not re.search(rf"\b{name}\b", path.read_text("utf-8")):
            gone.append(line)
    assert not gone


def test_ci_runs_the_readme_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    command = next(line for line in script if line.startswith("python3 -m venv"))
    assert command in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


# Pages that lead through the code by the names of files, functions and classes.
WALKS = ("CONTRIBUTING.md", "docs/background/decisions.md", "docs/background/development.md")
NAMED = re.compile(r"`([\w./-]+\.py)(?::([\w.]+))?`")
ROOM_ROW = re.compile(r"^\| (`[^|]*) \|", re.MULTILINE)


def bound_names(node: ast.AST) -> dict[str, ast.AST]:
    """Functions, classes and values that a module or class defines or imports."""
    names: dict[str, ast.AST] = {}
    for child in getattr(node, "body", ()):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[child.name] = child
        elif isinstance(child, ast.Assign):
            names |= {target.id: child for target in child.targets if isinstance(target, ast.Name)}
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            names[child.target.id] = child
    return names


def is_there(file: str, name: str) -> bool:
    """Whether a file of the checkout, or of the package, is there and defines a name."""
    path = next((folder / file for folder in (ROOT, PACKAGE) if (folder / file).is_file()), None)
    if path is None:
        return False
    node: ast.AST | None = ast.parse(path.read_text("utf-8"))
    for part in filter(None, name.split(".")):
        node = bound_names(node).get(part) if node else None
    return node is not None


@pytest.mark.parametrize("page", WALKS)
def test_what_pages_name_is_there(page: str) -> None:
    named = NAMED.findall((ROOT / page).read_text("utf-8"))
    assert named
    assert [f"{file}:{name}" for file, name in named if not is_there(file, name)] == []


def test_contributing_is_two_pages_that_place_every_room_in_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert len(text.splitlines()) <= MAX_CONTRIBUTING_LINES
    table = text.partition("| room under")[2].partition("\n\n")[0]
    listed = [
        room for row in ROOM_ROW.findall(table) for room in re.findall(r"\w+", row.split(",")[0])
    ]
    assert listed == [room for room in ROOMS if room != "__main__"]


def test_every_run_draws_the_same_examples(request: pytest.FixtureRequest) -> None:
    # A test that sets more of its own keeps the rest of the profile; one that is drawn at random
    # would fail some day on a change that has nothing to do with it.
    drawn = [
        (item.nodeid, asked)
        for item in request.session.items
        if (asked := getattr(getattr(item, "obj", None), SETTINGS, None)) is not None
    ]
    hunted = "NETPLAN_EXAMPLES" in os.environ
    assert [test for test, asked in drawn if asked.derandomize is hunted] == []
    most = int(os.environ.get("NETPLAN_EXAMPLES", "20"))
    assert [test for test, asked in drawn if asked.max_examples > most] == []
