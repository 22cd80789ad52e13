"""Names in a scenario's file: each stands for a catalog file, and one that does not is a fault.

A question would find that out, too, when it reads the catalogs; the file of the scenario knows the
line.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netplan.catalog import SUFFIX, Shelf, shipped_root, unknown_name
from netplan.documents import Document
from netplan.errors import CatalogError

FOLDERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "cluster": {
        "accelerator": ("accelerator", "traffic/accelerators"),
        "expanded_memory": ("memory", "traffic/memories"),
        "fabric": ("fabric", "topologies"),
        "fabrics": ("fabric", "topologies"),
        "floor_plan": ("floor-plan", "topologies/floor-plans"),
        "networks": ("network", "topologies/networks"),
        "ocs": ("switch", "costing/switches"),
        "switch": ("switch", "costing/switches"),
    },
    "workload": {
        "draft": ("model", "traffic/models"),
        "iteration_model": ("iteration-model", "traffic/iteration-models"),
        "model": ("model", "traffic/models"),
    },
    "books": {
        "cabling": ("cabling", "costing/cabling"),
        "economics": ("economics", "costing/economics"),
        "failures": ("failures", "costing/failures"),
        "power": ("power", "costing/power"),
        "prices": ("prices", "costing/prices"),
    },
}
"""Role and folder of the catalog files that fields name, by part and field."""
STACKS = {
    "training": ("stack", "traffic/stacks"),
    "serving": ("serving-stack", "traffic/serving-stacks"),
}
WORDS = frozenset({"none", "all", "accelerators"})
"""What fields say that is no name of a file."""
YAML = f"*{SUFFIX}"
OF_FILES = frozenset(
    {SUFFIX, ".yml", ".json", ".graphml", ".csv", ".topo", ".ibnetdiscover", ".py"}
)
"""Endings of files; other dots are parts of names."""


class NamingShelf(Shelf[Any], frozen=True):
    """Scenarios, whose names of other catalog files are looked up with them."""

    def check_names(self, document: Document, roots: Sequence[Path] = ()) -> None:
        """Refuse names that no catalog has.

        Parameters
        ----------
        document
            The file as parsed.
        roots
            Folders of the user's own catalogs.

        Raises
        ------
        CatalogError
            If there are such: each with file, line and the nearest names.

        Examples
        --------
        >>> from netplan.documents import lineless
        >>> from netplan.scenarios.scenario import SCENARIOS
        >>> SCENARIOS.check_names(lineless(Path("mine.yaml"), {"cluster": {"fabric": "rail"}}))
        Traceback (most recent call last):
        netplan.errors.CatalogError: mine.yaml:1: unknown fabric 'rail': did you mean rail-only or
        rail-optimized?
        """
        faults = []
        folders = [str(root) for root in (*roots, shipped_root())]
        for location, role, folder, name in _named(document.data):
            files = (f"{root}/{folder}/{name}{SUFFIX}" for root in folders)
            if not any(map(os.path.isfile, files)):
                known = {path.stem for root in folders for path in Path(root, folder).glob(YAML)}
                where = f"{document.path}:{document.line(location)}"
                faults.append(f"{where}: {unknown_name(role, name, sorted(known))}")
        if faults:
            raise CatalogError(*faults)


def _named(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str, str, str]]:
    """Every name in a scenario's data: where it stands, its role and folder, and the name."""
    for part, fields in FOLDERS.items():
        values = data.get(part)
        if not isinstance(values, Mapping):
            continue
        kind = str(values.get("kind", "training"))
        both = {**fields, "stack": STACKS[kind]} if part == "workload" else fields
        for field, value in values.items():
            names = value if isinstance(value, list) else [value]
            for number, name in enumerate(names if field in both else ()):
                if name is None or name in WORDS or _is_path(str(name)):
                    continue
                place = (part, field, number) if isinstance(value, list) else (part, field)
                yield place, *both[field], str(name)


def _is_path(name: str) -> bool:
    """Whether a name is one of a file, which whoever reads it looks for."""
    return os.sep in name or f".{name.rpartition('.')[2].lower()}" in OF_FILES
