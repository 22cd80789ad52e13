"""Catalog files that a study reads: values that stand in them, and the hash of them all."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from netplan.catalog import Shelf, shipped_root, user_roots
from netplan.errors import NetplanError
from netplan.inputs.readers import split_names
from netplan.reports.quantities import Scalar
from netplan.scenarios.scenario import Scenario, places

NONE = "none"
STANDING_FOR = frozenset((NONE, "all"))
"""Names of no file: of a part that is left out, and of all that there are."""

ROLES: Mapping[str, str] = {
    "accelerator": "workloads.accelerators:ACCELERATORS",
    "model": "workloads.models:WORKLOADS",
    "memory": "workloads.technologies:MEMORIES",
    "link": "workloads.technologies:LINKS",
    "fabric": "topologies.specs:FABRICS",
    "iteration-model": "simulation.palm_model:ANY_ITERATION_MODEL",
    "prices": "costing.prices:PRICE_BOOKS",
    "power": "costing.power:POWER_BOOKS",
    "cabling": "costing.cabling:CABLING_BOOKS",
    "economics": "costing.lifetime:ECONOMICS_BOOKS",
    "failures": "faults.years.rates:FAILURE_BOOKS",
    "switch": "costing.switches:SWITCHES",
    "floor-plan": "topologies.cabling.floor_plan:FLOOR_PLANS",
}
"""Roles of catalog files whose values a study may replace, and their shelves."""

OTHER_INPUTS = {"draft": "model", "expanded_memory": "memory", "ocs": "switch", "fabrics": "fabric"}
"""Inputs that name a file of a role which is called otherwise."""


@cache
def shelf_of(role: str) -> Shelf[Any]:
    """The shelf of a role, loaded when a study first names a file of it."""
    home, _, name = ROLES[role].partition(":")
    shelf: Shelf[Any] = getattr(import_module(f"netplan.{home}"), name)
    return shelf


def role_of(name: str) -> str:
    """Role of the files that an input names; empty of one that names none.

    Examples
    --------
    >>> role_of("iteration_model"), role_of("draft"), role_of("gpus")
    ('iteration-model', 'model', '')
    """
    role = OTHER_INPUTS.get(name, name.replace("_", "-"))
    return role if role in ROLES else ""


def value_in(scenario: Scenario, name: str, catalog: str | None = None) -> Any:  # noqa: ANN401
    """What a scenario has for an input of a study: a field, or a value of a file that it names.

    Parameters
    ----------
    scenario, name
        The scenario, and the input.
    catalog
        Folder of the user's own catalogs.

    Returns
    -------
    Any
        The value; None where the scenario leaves it open, or has no such thing.

    Examples
    --------
    >>> base = Scenario.load("rail-only-paper")
    >>> value_in(base, "gpus"), value_in(base, "accelerator.memory_bytes")
    (32768, 96000000000.0)
    """
    role, dot, path = name.partition(".")
    field = role.replace("-", "_")
    value: Any = scenario.value(field) if field in places(scenario.kind) else None
    if not dot or value is None or role not in ROLES:
        return None if dot else value
    overrides = {key: str(value) for key, value in scenario.set.items()}
    try:
        value = shelf_of(role).load(value, user_roots(catalog), overrides)
    except NetplanError:
        return None
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else getattr(value, step, None)
    return value


def files_sha256(
    usual: Mapping[str, Any], named: Mapping[str, set[Scalar]], catalog: str | None
) -> str:
    """Hash of all that a study reads beside its definition: catalog files, and usual values.

    Parameters
    ----------
    usual
        Inputs of its question with their values where the study says nothing.
    named
        Every value that each of its inputs takes.
    catalog
        Folder of the user's own catalogs.

    Returns
    -------
    str
        SHA-256, in hexadecimal.
    """
    roots = user_roots(catalog)
    left = {name: value for name, value in usual.items() if name not in named}
    digest = hashlib.sha256(json.dumps(left, sort_keys=True, default=str).encode())
    for name in sorted({*usual, *named}):
        role = role_of(name)
        files = {*_files(named.get(name, {usual.get(name)}))} if role else set()
        if role == "prices":  # and the books that stand in for these
            books = [shelf_of(role).load(book, roots) for book in files]
            files |= {*_files(book.other_speeds for book in books)}
        for file in sorted(files):
            path = shelf_of(role).find(file, roots)
            digest.update(f"{role}/{_place(path)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _files(values: Iterable[Any]) -> Iterator[str]:
    """Names of files in some values of an input, which may be several in one."""
    for value in values:
        names = value if isinstance(value, tuple) else split_names(str(value or NONE))
        yield from (name for name in map(str, names) if name not in STANDING_FOR)


def _place(path: Path) -> str:
    """A file's name in the hash: the same wherever netplan is installed."""
    root = shipped_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else path.name
