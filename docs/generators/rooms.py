"""The picture of the package's rooms, drawn from its imports: who stands on whom.

Of all imports between rooms it shows those that no other way already says: where A imports B and B
imports C, no arrow leads from A to C.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import wrap

import networkx as nx
import numpy as np
from markupsafe import Markup

from netplan.reports.layered_drawing import layered_drawing
from netplan.reports.svg import box, drawing, standalone, text_line

PICTURE = "background/rooms.svg"
"""The picture below `docs/`."""
PACKAGE = Path(__file__).parents[2] / "netplan"
GROUND = ("version", "errors", "units", "arrays", "records")
CATALOGS = ("files", "spreadsheets", "levels", "documents", "added", "catalog", "progress")
ROOMS = (
    *GROUND,
    "inputs",
    *CATALOGS,
    *("reports", "workloads", "topologies", "traffic", "costing", "performance", "calibration"),
    *("simulation", "faults", "scenarios", "decide", "setup", "answers", "questions"),
    *("procurement", "published", "studies", "explore", "cli", "__main__"),
)
"""A room imports only from rooms before it, and from itself."""
BOXES = {**dict.fromkeys(GROUND, "ground"), **dict.fromkeys(CATALOGS, "catalogs")}
"""Rooms of one file that share a box."""

ACROSS, DOWN, WIDTH, HEIGHT, EDGE = 206.0, 80.0, 190.0, 44.0, 16.0
INSIDE = 36
"""Characters of a line of what is in a room [1]."""
STYLE = """
.drawing { font: 13px system-ui, sans-serif; --ink: #1d2430; --soft: #5d6878; --card: #eef2f7;
  --line: #8c99ab; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { .drawing { --ink: #e6eaf0; --soft: #a3afbf; --card: #263141;
  --line: #7d8ba0; --paper: #161c26; } }
.paper { fill: var(--paper); }
.room { fill: var(--card); stroke: var(--line); }
.name { fill: var(--ink); font-weight: 600; }
.inside { fill: var(--soft); font-size: 9.5px; }
.import { fill: none; stroke: var(--line); stroke-width: 1.4; marker-start: url(#head); }
.head { fill: var(--line); }
"""
HEAD = Markup(
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 Z" class="head"/></marker></defs>'
)


def name_of(path: Path) -> str:
    """Dotted name of a module."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
"""Files of all modules of the package by their dotted name."""


def room_of(module: str) -> str:
    """Room of ``netplan.room.module``."""
    return module.split(".")[1]


@cache
def syntax_of(name: str) -> ast.Module:
    """Syntax tree of a module, made once a process."""
    return ast.parse(MODULES[name].read_text("utf-8"))


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements of a module, in functions too, without what is inside of expressions."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, part, ())


def imports_of(name: str) -> set[str]:
    """Modules of the package that a module imports anywhere, in functions too."""
    named: set[str] = set()
    for node in statements(syntax_of(name)):
        if isinstance(node, ast.ImportFrom):
            source = node.module or ""
            named |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return {module for module in named if module in MODULES and module != "netplan"} - {name}


@cache
def imports() -> dict[str, set[str]]:
    """Modules that every module imports.

    The package itself offers the public names of all rooms, loaded on first use.
    """
    return {name: imports_of(name) for name in MODULES if name != "netplan"}


def needed_rooms() -> nx.DiGraph:
    """Boxes of the picture, each with an edge to those that it stands on and no other one does."""
    graph = nx.DiGraph()
    for name, others in imports().items():
        above = {_box_of(other) for other in others} - {_box_of(name)}
        graph.add_edges_from((_box_of(name), other) for other in above)
    graph.remove_node("__main__")
    return nx.transitive_reduction(graph)


def rooms_picture() -> str:
    """The rooms in their order, each with arrows to those that it imports, as an SVG file."""
    graph = needed_rooms()
    names = [
        name for name in dict.fromkeys(BOXES.get(room, room) for room in ROOMS) if name in graph
    ]
    layer = dict.fromkeys(names, 0)
    for name in nx.topological_sort(graph.reverse()):
        layer[name] = max((layer[other] + 1 for other in graph[name]), default=0)
    number = {name: place for place, name in enumerate(names)}
    pairs = sorted((number[other], number[name]) for name, other in graph.edges)
    source, target = np.array(pairs).T
    levels = np.array([layer[name] for name in names])
    drawn = layered_drawing(levels, source, target)
    ways = ([(_middle(across), _top(level)) for across, level in edge] for edge in drawn.edges)
    shapes = [HEAD, *map(_arrow, ways)]
    for name, across in zip(names, drawn.across.tolist(), strict=True):
        shapes += _box(name, _middle(across), _top(layer[name]))
    size = (_middle(drawn.width) + WIDTH / 2 + EDGE, _top(int(levels.max())) + HEIGHT + EDGE)
    title = "Rooms of the package, each with arrows to the rooms that it imports"
    return standalone(drawing(*size, title, shapes), STYLE)


def _box_of(module: str) -> str:
    return BOXES.get(room_of(module), room_of(module))


def _middle(across: float) -> float:
    return EDGE + WIDTH / 2 + across * ACROSS


def _top(level: int) -> float:
    return EDGE + level * DOWN


def _box(name: str, x: float, y: float) -> list[Markup]:
    """A room by its name, with its files or folders below."""
    shared = [room for room, place in BOXES.items() if place == name]
    folders = sorted(path.parent.name for path in (PACKAGE / name).glob("*/__init__.py"))
    inside = shared or folders
    lines = wrap(" ".join(inside), INSIDE)
    first = y + HEIGHT / 2 + 5 - 6 * len(lines)
    words = [text_line(x, first, name, "name", anchor="middle")]
    words += [
        text_line(x, first + 12 + 10 * place, line, "inside", anchor="middle")
        for place, line in enumerate(lines)
    ]
    return [box(x - WIDTH / 2, y, WIDTH, HEIGHT, "room"), *words]


def _arrow(places: list[tuple[float, float]]) -> Markup:
    """Curve from below a room to the top of one that imports it, past the rooms between."""
    x, y = places[0][0], places[0][1] + HEIGHT
    path = f"M{x:.0f} {y:.0f}"
    for place, (across, top) in enumerate(places[1:], start=1):
        half = (y + top) / 2
        path += f" C{x:.0f} {half:.0f} {across:.0f} {half:.0f} {across:.0f} {top:.0f}"
        x, y = across, top
        if place < len(places) - 1:
            y += HEIGHT
            path += f" L{x:.0f} {y:.0f}"
    return Markup('<path d="{}" class="import"/>').format(path)
