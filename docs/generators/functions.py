"""Functions that a researcher may want alone: modules of the rooms, documented from docstrings."""

import re
from importlib import import_module
from inspect import isclass
from pathlib import Path

import netplan
from docs.generators.tables import Pages, code, markdown, table

MODULES = {
    "Answers": ("netplan.reports.answer",),
    "Counts": (
        "netplan.topologies.families.clos",
        "netplan.topologies.families.torus",
        "netplan.topologies.families.dragonfly",
    ),
    "Collectives": (
        "netplan.traffic.collectives",
        "netplan.traffic.bounds",
        "netplan.traffic.measured",
        "netplan.traffic.optimum",
    ),
    "Plans and times": (
        "netplan.performance.search",
        "netplan.performance.iteration",
        "netplan.performance.memory",
        "netplan.performance.memory_formulas",
        "netplan.performance.error_bars",
        "netplan.performance.sites",
        "netplan.workloads.kernels",
        "netplan.workloads.layer_kernels",
    ),
    "Loads": ("netplan.traffic.matrix", "netplan.traffic.loads", "netplan.traffic.routing"),
    "Shared links": ("netplan.simulation.fair_rates", "netplan.simulation.fluid"),
    "Streams of jobs": (
        "netplan.simulation.jobs",
        "netplan.simulation.job_clusters",
        "netplan.simulation.job_outcomes",
        "netplan.simulation.job_places",
        "netplan.simulation.job_traces",
    ),
    "Money": ("netplan.costing.lifetime", "netplan.costing.ranges", "netplan.costing.prices"),
    "Failures": ("netplan.faults.years.checkpoints", "netplan.faults.years.availability"),
    "Words of the ground": ("netplan.units", "netplan.errors"),
}
NOUNS = """# Nouns

What `import netplan` names beside its questions ([From Python](../../../guide/python.md)): a
scenario is a cluster, a workload and books; a fabric of it has a graph and a bill; a search finds a
plan.

"""
INTRODUCTION = """# Functions

The questions of the command line are functions of the package ({doc}`python`). Below them lie small
functions that take arrays or plain numbers and stand alone, each with its formula, its source and
its units in brackets; a unit of 1 is a count, a share or a ratio. Import them from their module.

"""
FIRST_LINE = re.compile(r'(?:#.*\n)*\s*r?"""(.*?)(?:"""|\n)')
"""First line of the docstring that a module begins with."""
PACKAGE = Path(__file__).parents[2] / "netplan"


def function_pages() -> Pages:
    """A page a module, the list of them, and the list of all modules."""
    made = {}
    index = INTRODUCTION.replace("{doc}`python`", "[From Python](../../../guide/python.md)")
    index += "The classes above them are [nouns](nouns.md).\n\n"
    names = ["nouns"]
    for title, modules in MODULES.items():
        index += f"## {title}\n\n"
        rows = []
        for module in modules:
            short = module.removeprefix("netplan.")
            names.append(short)
            made[f"functions/{short}.md"] = _module(module)
            rows.append((f"[`{module}`]({short}.md)", markdown(_summary(module))))
        index += table(["module", "holds"], rows) + "\n"
    toc = "\n".join(["```{toctree}", ":hidden:", "", *names, "../modules", "```", ""])
    made["functions/nouns.md"] = NOUNS + "".join(map(_noun, netplan.__all__))
    return {"functions/index.md": index + toc, "modules.md": _all_modules(), **made}


def _noun(name: str) -> str:
    """A class of the package; nothing of a question."""
    noun = getattr(netplan, name)
    if not isclass(noun):
        return ""
    directive = f".. autoclass:: {noun.__module__}.{noun.__name__}\n   :members:"
    return f"## {name}\n\n```{{eval-rst}}\n{directive}\n```\n\n"


def _summary(module: str) -> str:
    return (import_module(module).__doc__ or "").strip().partition("\n")[0]


def _module(module: str) -> str:
    """One module: what is public in it and its own."""
    return (
        f"# {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n   :members:\n"
        "   :show-inheritance:\n```\n"
    )


def _all_modules() -> str:
    """Every module of the package in one line, room by room, without importing them."""
    text = "# All modules\n\nEvery module of the package, and what it is for.\n\n"
    rooms: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name in ("__init__.py", "__main__.py"):
            continue
        said = FIRST_LINE.match(path.read_text(encoding="utf-8"))
        inside = path.relative_to(PACKAGE).with_suffix("").parts
        room = inside[0] if len(inside) > 1 else "ground"
        name = ".".join(("netplan", *inside))
        rooms.setdefault(room, []).append((code(name), markdown(said[1] if said else "")))
    for room, rows in rooms.items():
        text += f"## {room}\n\n" + table(["module", "holds"], rows) + "\n"
    return text
