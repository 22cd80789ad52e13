"""What records declare of their JSON: every path of every record begins with something it has."""

import importlib
import pkgutil
from collections.abc import Iterator
from inspect import get_annotations

import netplan
from netplan.records import EVERY
from netplan.reports.schema import IF_ANY, NOT

LEFT_OUT = ("netplan.explore.app", "netplan.__main__")
"""Modules that do something when they are read: a notebook, and the command itself."""


def _declaring() -> Iterator[type]:
    """All classes of the package that say which parts their JSON has."""
    for module in pkgutil.walk_packages(netplan.__path__, "netplan."):
        if module.name in LEFT_OUT:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            own = isinstance(value, type) and value.__module__ == module.name
            if own and "json_parts" in vars(value):
                yield value


def _has(record: type, name: str) -> bool:
    """Whether a record has an attribute of this name: a field, a property or a method."""
    annotated = (get_annotations(kind) for kind in record.__mro__)
    return hasattr(record, name) or any(name in fields for fields in annotated)


def test_every_path_begins_with_an_attribute_of_its_record() -> None:
    known = list(_declaring())
    assert len(known) > 50, "nothing was looked at"
    unknown = [
        f"{record.__module__}:{record.__name__}: {part}"
        for record in known
        for part in record.json_parts  # type: ignore[attr-defined]
        if part != EVERY and part[0] != NOT
        for path in [part.lstrip(EVERY + IF_ANY).rstrip(IF_ANY).rpartition("=")[2]]
        if not _has(record, path.partition(".")[0])
    ]
    assert unknown == []


def test_no_part_is_said_twice_and_none_takes_nothing_out() -> None:
    """Only a part behind ``*`` may put another value in the place of one of all fields."""
    wrong = []
    for record in _declaring():
        parts: tuple[str, ...] = record.json_parts  # type: ignore[attr-defined]
        own = [part.strip(IF_ANY) for part in parts if part[0] not in EVERY + NOT]
        names = [
            name or path.rpartition(".")[2]
            for name, _, path in (part.rpartition("=") for part in own)
        ]
        wrong += [f"{record.__name__}: {name}" for name in names if names.count(name) > 1]
        if [part for part in parts if part[0] == EVERY] == [EVERY]:
            gone = [part[1:] for part in parts if part[0] == NOT]
            wrong += [f"{record.__name__}: -{name}" for name in gone if not _has(record, name)]
    assert wrong == []
