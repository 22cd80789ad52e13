"""What the catalogs hold: lists of records, single records, and checks of files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netplan.catalog import Shelf, check_file, unknown_name
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.documents import read_yaml
from netplan.errors import InputError
from netplan.faults.rates import FAILURE_BOOKS
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.questions.report_definition import REPORTS
from netplan.reports.text import Cell
from netplan.studies.definition import STUDIES
from netplan.topologies.designs import DESIGNS
from netplan.topologies.floor_plan import FLOOR_PLANS
from netplan.topologies.site_networks import SITE_NETWORKS
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

SHELVES: dict[str, Shelf[Any]] = {
    shelf.role: shelf
    for shelf in (
        MODELS,
        ACCELERATORS,
        ITERATION_MODELS,
        FABRICS,
        DESIGNS,
        FLOOR_PLANS,
        SITE_NETWORKS,
        SWITCHES,
        CABLING_BOOKS,
        PRICE_BOOKS,
        POWER_BOOKS,
        ECONOMICS_BOOKS,
        FAILURE_BOOKS,
        REPORTS,
        STUDIES,
    )
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of one file's check; ``error`` is None for a sound file, else all its faults."""

    role: str
    path: Path
    error: str | None


def list_records(role: str | None, roots: Sequence[Path]) -> list[dict[str, Cell]]:
    """One row a catalog file: role, name, title, date, source."""
    rows: list[dict[str, Cell]] = []
    for shelf in _shelves(role):
        for name, path in shelf.paths(roots).items():
            record = read_yaml(path).data
            row: dict[str, Cell] = {"role": shelf.role, "name": name}
            row |= {key: str(record.get(key, "")) for key in ("title", "date", "source")}
            rows.append(row)
    return rows


def find_record(name: str, roots: Sequence[Path]) -> tuple[Shelf[Any], Path]:
    """Shelf and file of a record, whatever its role.

    Raises
    ------
    UnknownNameError
        If no shelf has this name.
    """
    known: dict[str, tuple[Shelf[Any], Path]] = {}
    for shelf in SHELVES.values():
        for found, path in shelf.paths(roots).items():
            known.setdefault(found, (shelf, path))
            known[f"{shelf.role}/{found}"] = (shelf, path)
    if name not in known:
        raise unknown_name("record", name, [key for key in known if "/" not in key])
    return known[name]


def check_records(files: Sequence[Path], role: str | None, roots: Sequence[Path]) -> list[Verdict]:
    """Check the given files, or every file of the catalogs.

    Raises
    ------
    InputError
        If it cannot be told what a file describes.
    """
    if files:
        return [_check(path, role) for path in files]
    return [
        Verdict(shelf.role, path, error)
        for shelf in _shelves(role)
        for path, error in shelf.check(roots)
    ]


def _check(path: Path, role: str | None) -> Verdict:
    if role is None:
        folders = {shelf.folder: shelf for shelf in SHELVES.values()}
        parent = path.resolve().parent.as_posix()
        role = next((shelf.role for at, shelf in folders.items() if parent.endswith(at)), None)
    if role is None:
        roles = ", ".join(SHELVES)
        raise InputError(f"{path}: what does it describe? Say --role with one of: {roles}")
    return Verdict(role, path, check_file(SHELVES[role], path))


def _shelves(role: str | None) -> list[Shelf[Any]]:
    if role is None:
        return list(SHELVES.values())
    if role not in SHELVES:
        raise unknown_name("role", role, SHELVES)
    return [SHELVES[role]]
