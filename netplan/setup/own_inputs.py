"""Inputs that a question has of its own: fields of its class, each with what is known of it.

Name, type, unit, range, default and help of an input are one field. Click options, keywords of
Python, documentation, study axes and the ``inputs`` of an answer are made from the fields. Defaults
that several questions share, and those of a user's own, stand in `reports/defaults.yaml`.
"""

from collections.abc import Collection, Sequence
from dataclasses import MISSING, Field, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from netplan.catalog import shipped_root, unknown_name, user_roots
from netplan.documents import read_yaml
from netplan.errors import CatalogError, InputError
from netplan.inputs.option import Group, Kind, Option, check_range, read_option
from netplan.scenarios.scenario import InputPlace, every_place

DEFAULTS = "reports/defaults.yaml"
COMMON = "common"
OPTION = "option"
SCENARIO = "scenario"


class Input(NamedTuple):
    """An input of a question: one of its own, or one of its scenario.

    Parameters
    ----------
    name, option
        What it is called, and what is known of it.
    default
        Its value where nothing says it; ``MISSING`` if it has to be given.
    group
        Where help shows it.
    workloads
        Those for which it means something; empty where it does for all.
    """

    name: str
    option: Option
    default: object
    group: Group = "question"
    workloads: tuple[str, ...] = ()

    @property
    def needed(self) -> bool:
        """Whether it has to be given."""
        return self.default is MISSING


def required_field(help_: str, kind: Kind = "text", **facts: Any) -> Any:  # noqa: ANN401 - a field of any type
    """An input that has to be given; an argument needs no keyword."""
    option = Option(help_, kind, **facts)
    return field(metadata={OPTION: option}, kw_only=not option.argument)


def option_field(help_: str, kind: Kind = "text", *, default: object = None, **facts: Any) -> Any:  # noqa: ANN401
    """An input with a default of its own: nothing, unless said otherwise."""
    option = Option(help_, kind, **facts)
    return field(default=default, metadata={OPTION: option}, kw_only=not option.argument)


def list_field(help_: str, kind: Kind = "text", **facts: Any) -> Any:  # noqa: ANN401
    """An input that can be given several times, or not at all."""
    return option_field(help_, kind, default=(), many=True, **facts)


def default_field(help_: str, kind: Kind = "text", **facts: Any) -> Any:  # noqa: ANN401
    """An input whose default stands in the defaults file; None asks for that."""
    return field(default=None, metadata={OPTION: Option(help_, kind, shared=True, **facts)})


def check_ranges(question: object) -> None:
    """Refuse numbers outside of the ranges of their inputs.

    Raises
    ------
    InputError
        If one is.
    """
    for own_field, option in own_options(type(question)):
        check_range(own_field.name, option, getattr(question, own_field.name))


Fields = tuple[tuple[Field[Any], Option], ...]
_FIELDS: dict[int, Fields] = {}


def own_options(question: type[Any]) -> Fields:
    """Fields of a question with their options; sources come last."""
    known_fields = _FIELDS.get(id(question))
    if known_fields is None:
        given = [own_field for own_field in fields(question) if OPTION in own_field.metadata]
        every = [(own_field, cast("Option", own_field.metadata[OPTION])) for own_field in given]
        sources = question.reads_from
        known = [pair for pair in every if pair[1].role == "input" or pair[0].name in sources]
        known_fields = tuple(sorted(known, key=lambda pair: pair[1].role == "source"))
        _FIELDS[id(question)] = known_fields
    return known_fields


def fill_own(question: object, command: str, catalog: str | Path | None) -> None:
    """Fill in defaults of the defaults file, read texts as the command line does, check.

    Raises
    ------
    InputError
        If a value is not allowed.
    """
    for entry, option in own_options(type(question)):
        if option.shared and getattr(question, entry.name) is None:
            object.__setattr__(question, entry.name, default_of(command, entry.name, catalog))
        value = getattr(question, entry.name)
        value = getattr(value, "tolist", lambda value=value: value)()  # numpy's as Python's
        if value is None and entry.default is not MISSING:
            object.__setattr__(question, entry.name, entry.default)
        elif value != entry.default:
            object.__setattr__(question, entry.name, read_option(entry.name, option, value))


def default_of(command: str, name: str, catalog: str | Path | None = None) -> object:
    """Default of an input: the question's own, else the common one; a user's file goes first.

    Raises
    ------
    CatalogError
        If a user's file has a name that no input has.

    Examples
    --------
    >>> default_of("optimize", "within"), default_of("search", "top")
    (0.05, 5)
    """
    values = _values_of(command, (*user_roots(catalog), shipped_root()))
    if name not in values:
        raise InputError(f"{DEFAULTS} has no default of {name} for netplan {command}")
    return values[name]


def _values_of(command: str, roots: Sequence[Path]) -> dict[str, object]:
    """Defaults of a question in files of some folders: its own go before common ones."""
    values: dict[str, object] = {}
    for path in (root / DEFAULTS for root in reversed(roots)):
        if path.is_file():
            known = _defaults(path, path.stat().st_mtime_ns)
            values |= known.get(COMMON, {}) | known.get(command, {})
    return values


@cache
def _defaults(path: Path, version: int) -> dict[str, dict[str, object]]:  # noqa: ARG001 - of the key
    """A defaults file, checked: values by input, for all questions or one."""
    document = read_yaml(path)
    shipped = shipped_root() / DEFAULTS
    ours = document.data if path == shipped else _defaults(shipped, shipped.stat().st_mtime_ns)
    known = {name: value for defaults in ours.values() for name, value in defaults.items()}
    known[SCENARIO] = ""
    places = every_place()
    for part, values in document.data.items():
        line = f"{path}:{document.line([part])}"
        if part not in ours:
            raise CatalogError(f"{line}: {unknown_name('command', str(part), list(ours))}")
        if not isinstance(values, dict):
            raise CatalogError(f"{line}: {part}: expected inputs and their values")
        for name, value in values.items():
            line = f"{path}:{document.line([part, name])}"
            if name in places:
                _check_value(line, name, places[name], value)
            elif name not in known:
                names = sorted({*known, *places})
                raise CatalogError(f"{line}: {unknown_name('input', str(name), names)}")
            elif type(value) is not type(known[name]):
                raise CatalogError(f"{line}: {name} {value!r}: {_wanted(known[name], value)}")
    return document.data


def _check_value(line: str, name: str, place: InputPlace, value: object) -> None:
    """Refuse a value that an input of the scenario cannot have, with its file and line."""
    option = place.option
    for entry in value if option.many and isinstance(value, list) else (value,):
        if option.kind in ("text", "choice", "path") and not isinstance(entry, str):
            known = place.default if isinstance(place.default, str) else name
            raise CatalogError(f"{line}: {name} {entry!r}: {_wanted(known, entry)}")
    try:
        read_option(name, option, value)
    except InputError as error:
        raise CatalogError(f"{line}: {error}") from None


def _wanted(known: object, value: object) -> str:
    """What a default has to be, for a value that is something else."""
    if isinstance(known, float):
        return f"give a number, such as {known}"
    if isinstance(known, int):
        return f"give a whole number, such as {known}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"write it in quotes: '{value}'" if number else f"give a text, such as '{known}'"


def usual_values(
    command: str, names: Collection[str], catalog: str | Path | None = None
) -> dict[str, object]:
    """Values of a scenario that a user's own defaults files replace, by name.

    Parameters
    ----------
    command
        Whose part of the file goes before the common one.
    names
        Inputs that are looked for.
    catalog
        Folder of the user's own catalogs.

    Returns
    -------
    dict of str to object
        Those that a file names.
    """
    values = _values_of(command, user_roots(catalog))
    return {name: value for name, value in values.items() if name in names}
