"""Records: frozen structs, and data from outside checked against them.

A struct of msgspec is made in a fortieth of the time of a dataclass, and every command pays that
before it answers: records inside are structs. What comes in from a file is an :class:`Entry`,
whose :meth:`Entry.read` names every fault at once. Questions and answers, which users hold, are
dataclasses.
"""

import dataclasses
import operator
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, Union, get_args, get_origin

import numpy as np
from msgspec import Meta, Struct, ValidationError, convert, structs

from netplan.errors import piece

LARGEST = 1e30
SIZES = "0 or from 1e-30 to 1e30 in size"
"""Sizes of numbers in files: so bounded, no product of theirs overflows."""

MAX_COUNT = 10**12
"""Largest whole number of a file: 64 bits hold its products [1]."""

PositiveInt = Annotated[int, Meta(gt=0, le=MAX_COUNT)]
LayerCount = Annotated[int, Meta(gt=0, le=100_000)]
"""Layers of a model: plans are counted for every way to cut them into stages [1]."""
NonNegativeInt = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
ErrorShare = Annotated[float, Meta(gt=0, lt=1)]
"""Error of a time t, which lies from t / (1 + error) to t / (1 - error) [1]."""

EVERY = "*"
"""A step of a path to every entry; in JSON parts, before one: all parts of what stands there."""
COUNT = "#"
"""A step of a path to how many entries there are."""

Location = tuple[str | int, ...]
ValueT = TypeVar("ValueT")


class Fault(NamedTuple):
    """What is wrong with one value: where it stands, and one line of words."""

    location: Location
    text: str


class RecordError(ValueError):
    """Data that is no record; ``faults`` are all that is wrong with it."""

    def __init__(self, faults: list[Fault]) -> None:
        """Keep the faults; the first is the message."""
        super().__init__(faults[0].text)
        self.faults = faults


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a file: frozen, with no unknown keys and no infinite numbers."""

    unread = tuple[str, ...]()
    """Keys that mean nothing for it."""

    @classmethod
    def read(cls, data: object) -> Self:
        r"""Make the record from plain data.

        Raises
        ------
        RecordError
            If the data is no such record: all its faults, each with its place and its reason.

        Examples
        --------
        >>> class Part(Entry, frozen=True, kw_only=True):
        ...     name: str
        ...     speed_gbps: PositiveFloat
        >>> Part.read({"name": "cable", "speed_gbps": 400})
        Part(name='cable', speed_gbps=400.0)
        >>> try:
        ...     Part.read({"name": 7, "speed_gbps": -1, "length": 3})
        ... except RecordError as error:
        ...     print(*(fault.text for fault in error.faults), sep="\n")
        name: got 7: input should be a valid string
        speed_gbps: got -1: input should be greater than 0
        unknown key length: known: name, speed_gbps
        """
        if not _in_range(data):
            faults = [
                Fault(
                    place, f"{_path(place)}: got {value}: input should be a finite number, {SIZES}"
                )
                for place, value in _floats(data, ())
                if not _in_range(value)
            ]
            raise RecordError(faults)
        if isinstance(data, Mapping):
            try:
                cls.check_first(data)
            except RecordError:
                raise
            except ValueError as error:
                raise RecordError([Fault((), str(error))]) from None
        try:
            return convert(data, cls)
        except ValidationError:
            pass
        data = _plainer(data)
        try:
            return convert(data, cls)
        except ValidationError:
            raise RecordError(_another(cls, data) or [*_faults(cls, cls, data, ())]) from None

    @classmethod
    def check_first(cls, data: Mapping[str, object]) -> None:
        """Refuse data before it is looked at key by key: by a ValueError, or a RecordError."""

    def changed(self, **values: Any) -> Self:  # noqa: ANN401 - values of its fields
        """Copy the record with other values, which are not checked but by the record itself."""
        return structs.replace(self, **values)

    def to_dict(self) -> dict[str, Any]:
        """All values that it reads as plain data, by the keys of the file."""
        return {key: value for key, value in asdict(self).items() if key not in self.unread}


def replace(record: ValueT, /, **values: Any) -> ValueT:  # noqa: ANN401 - values of its fields
    """Copy a struct or a dataclass with other values."""
    if isinstance(record, Struct):
        return structs.replace(record, **values)
    return dataclasses.replace(record, **values)  # type: ignore[type-var]


def asdict(record: object) -> dict[str, Any]:
    """Plain data of a struct or dataclass and of all records inside it, by their keys."""
    plain: dict[str, Any] = _plain_values(record)
    return plain


def _plain_values(value: Any) -> Any:  # noqa: ANN401 - plain data of any depth
    if (values := own_values(value)) is not None:
        value = values
    if isinstance(value, dict):
        return {key: _plain_values(entry) for key, entry in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(map(_plain_values, value))
    return value


def own_values(record: object) -> dict[str, Any] | None:
    """Values of a struct or dataclass by its keys, as they are; None of anything else."""
    if isinstance(record, Struct):
        names = zip(record.__struct_encode_fields__, record.__struct_fields__, strict=True)
        return {key: getattr(record, name) for key, name in names}
    if dataclasses.is_dataclass(record):
        return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return None


def value_at(value: Any, path: str) -> Any:  # noqa: ANN401 - whatever stands there
    """What stands at a dotted path of attributes, keys and places; None where the path ends early.

    A step ``*`` goes on from every entry and gives a list, of none where the path ends early; ``#``
    is how many there are.

    Examples
    --------
    >>> value_at({"plan": (8, 1j)}, "plan.1.imag"), value_at({"plan": None}, "plan.tensor")
    (1.0, None)
    >>> value_at({"plans": (8, 1j)}, "plans.*.imag"), value_at({}, "plans.*.imag")
    ([0, 1.0], [])
    >>> value_at({"plans": (8, 1j)}, "plans.#"), value_at({}, "plans.#")
    (2, None)
    """
    step, _, rest = path.partition(".")
    if step == EVERY:
        return [value_at(entry, rest) if rest else entry for entry in value or ()]
    if value is None:
        return [] if EVERY in rest.split(".") else None
    if step == COUNT:
        value = len(value)
    elif isinstance(value, Mapping):
        value = value.get(step)
    else:
        value = value[int(step)] if step.isdecimal() else getattr(value, step)
    return value_at(value, rest) if rest else value


def _in_range(data: object) -> bool:
    """Whether all numbers with a fraction or exponent are of a size that can be counted with."""
    if isinstance(data, float):
        return data == 0 or 1 / LARGEST <= abs(data) <= LARGEST
    if isinstance(data, dict):
        return all(map(_in_range, data.values()))
    return not isinstance(data, (list, tuple)) or all(map(_in_range, data))


def _floats(data: object, place: Location) -> Iterator[tuple[Location, float]]:
    """Every number with a fraction or exponent, and where it stands."""
    if isinstance(data, float):
        yield place, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _floats(value, (*place, key))
    elif isinstance(data, (list, tuple)):
        for number, value in enumerate(data):
            yield from _floats(value, (*place, number))


def _plainer(data: object) -> object:
    """The same data as Python's own numbers, whole ones for such as 1e3: a count may be so."""
    if isinstance(data, np.generic):
        data = data.item()
    if isinstance(data, float) and data.is_integer():
        return int(data)
    if isinstance(data, dict):
        return {key: _plainer(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plainer(value) for value in data]
    return data


def _another(schema: type[Struct], data: object) -> list[Fault]:
    """The one fault of data that is something else: none of its keys is known, or nearly so.

    What it holds is then nobody's business: it may be any file.
    """
    if not isinstance(data, dict) or len(data) < 2:  # noqa: PLR2004 - of one key all is said below
        return []
    known = list(dict.fromkeys(_keys(schema)))
    if any(str(key) in known or _near(str(key), known) for key in data):
        return []
    wanted = ", ".join(field.encode_name for field in structs.fields(schema))
    return [Fault((), f"none of its {len(data):,} keys is known: it takes {wanted}")]


def _faults(schema: type[Struct], kind: Any, data: Any, place: Location) -> Iterator[Fault]:  # noqa: ANN401
    """Everything that is wrong with data of a type, from the inside out.

    ``schema`` is the record of the whole file: its keys are offered for a key that is unknown.
    """
    try:
        convert(data, kind)
    except ValidationError as error:
        cause, message = error.__cause__, str(error)
    else:
        return
    if (fault := _wrong_tag(kind, data, place)) is not None:
        yield fault
        return
    arm = _arm(kind, data)
    faults = [
        f
        for step, inner, part in _parts(arm, data)
        for f in _faults(schema, inner, part, (*place, step))
    ]
    if isinstance(arm, type) and issubclass(arm, Struct) and isinstance(data, dict):
        known = {field.encode_name: field for field in structs.fields(arm)}
        missing = [key for key, field in known.items() if field.required and key not in data]
        faults += [Fault((*place, key), f"{_path((*place, key))} is missing") for key in missing]
        faults += [
            Fault((*place, key), _unknown(schema, (*place, key)))
            for key in data
            if key not in known and key != _tag_of(arm)[0]
        ]
    if faults:
        yield from faults
    elif cause is not None:
        yield Fault(place, f"{_path(place)}: {cause}" if place else str(cause))
    else:
        yield Fault(place, f"{_path(place)}: got {data!r:.60}: {_expected(arm, data, message)}")


_OF_PARTS = {tuple, dict, Union, UnionType}
"""Kinds of types that are made from others, of which faults are told."""


def _arm(kind: Any, data: object) -> Any:  # noqa: ANN401 - types are values here
    """The one type of a union that data could be meant for; the type itself if it is none."""
    if get_origin(kind) is Annotated and get_origin(get_args(kind)[0]) in _OF_PARTS:
        kind = get_args(kind)[0]
    if get_origin(kind) not in {Union, UnionType}:
        return kind
    arms = [arm for arm in get_args(kind) if arm is not type(None)]
    if isinstance(data, dict):
        arms = [arm for arm in arms if not isinstance(arm, type) or issubclass(arm, Struct)] or arms
        tagged = [arm for arm in arms if isinstance(arm, type) and _tag_of(arm) in data.items()]
        arms = tagged or arms
    return arms[-1] if isinstance(data, dict) else arms[0]


def _wrong_tag(kind: Any, data: object, place: Location) -> Fault | None:  # noqa: ANN401
    """What is wrong with the tag that says which struct of a union data is, if anything."""
    if get_origin(kind) not in {Union, UnionType} or not isinstance(data, dict):
        return None
    tags = [_tag_of(arm) for arm in get_args(kind) if isinstance(arm, type)]
    known = {tag: key for key, tag in tags if key}
    key = next(iter(known.values()), "")
    if not key or (key in data and data[key] in [*known]):
        return None
    if key not in data:
        choices = " or ".join(map(str, known))
        return Fault((*place, key), f"{_path((*place, key))} is missing: {choices}")
    names = " or ".join(map(repr, known))
    near = _near(str(data[key]), [str(tag) for tag in known])
    hint = f": did you mean {near}?" if near else ""
    return Fault(
        (*place, key),
        f"{_path((*place, key))}: got {data[key]!r:.60}: input should be {names}{hint}",
    )


def _tag_of(kind: type) -> tuple[str, object]:
    """Key and value that tell a struct of a union from the others."""
    config = getattr(kind, "__struct_config__", None)
    return (config.tag_field or "", config.tag) if config else ("", None)


def _parts(kind: Any, data: object) -> Iterator[tuple[str | int, Any, object]]:  # noqa: ANN401
    """Values inside data, each with its step and the type that it should have."""
    inner = get_args(kind)
    if get_origin(kind) is tuple and isinstance(data, (list, tuple)):
        types = [inner[0]] * len(data) if inner[-1] is Ellipsis else inner
        yield from zip(range(len(data)), types, data, strict=False)
    elif get_origin(kind) is dict and isinstance(data, dict):
        yield from ((key, inner[1], value) for key, value in data.items())
    elif isinstance(kind, type) and issubclass(kind, Struct) and isinstance(data, dict):
        for field in structs.fields(kind):
            if field.encode_name in data:
                yield field.encode_name, field.type, data[field.encode_name]


def _path(place: Location) -> str:
    return ".".join(map(piece, place))


_WORDS = {
    "int": "a valid integer",
    "float": "a valid number",
    "str": "a valid string",
    "bool": "true or false",
    "object": "a mapping of keys to values",
    "array": "a list",
}
_BOUNDS = {"gt": "greater than", "ge": "greater than or equal to", "lt": "less than"}
_BOUNDS["le"] = "less than or equal to"


def _expected(kind: Any, data: object, message: str) -> str:  # noqa: ANN401
    """What is allowed, from the type and the message of msgspec."""
    if get_origin(kind) is Literal:
        *names, last = map(repr, get_args(kind))
        return f"input should be {', '.join(names)}{' or ' if names else ''}{last}"
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        for meta in getattr(kind, "__metadata__", ()):
            for name, words in _BOUNDS.items():
                bound = getattr(meta, name, None)
                if bound is not None and not getattr(operator, name)(data, bound):
                    return f"input should be {words} {bound}"
    words = message.partition(", got ")[0].partition(" - at ")[0].replace(" | null", "")
    for name, word in _WORDS.items():
        words = words.replace(f"`{name}`", word)
    return words.replace("Expected", "input should be").replace("`", "")


def _unknown(schema: type[Struct], place: Location) -> str:
    """One line for a key that no record knows, with the nearest one that is known."""
    key, here = str(place[-1]), [str(step) for step in place if not isinstance(step, int)]
    places = [*_places(schema)]
    elsewhere = [(path, tag) for path, tag in places if path[-1] == key]
    if elsewhere:
        path, tag = elsewhere[0]
        if path == here:
            return f"unknown key {_path(place)}: it is one of {tag}"
        return f"unknown key {_path(place)}: did you mean {'.'.join(path)}?"
    siblings = list(dict.fromkeys(path[-1] for path, _ in places if path[:-1] == here[:-1]))
    near = _near(key, list(dict.fromkeys(path[-1] for path, _ in places)))
    if near not in siblings:
        near = next((".".join(path) for path, _ in places if path[-1] == near), "")
    hint = f"did you mean {near}?" if near else f"known: {', '.join(siblings or _keys(schema))}"
    return f"unknown key {_path(place)}: {hint}"


def _near(name: str, known: Sequence[str]) -> str:
    """The nearest of some names; empty if none is near."""
    import difflib  # noqa: PLC0415 - seldom used

    return next(iter(difflib.get_close_matches(name, known, n=1)), "")


def _places(
    kind: Any,  # noqa: ANN401 - types are values here
    place: tuple[str, ...] = (),
    tag: str = "",
) -> Iterator[tuple[list[str], str]]:
    """Where the keys of a record stand, and in which kind of it if there are several."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        key, value = _tag_of(kind)
        tag = f"{key} {value}" if key else tag
        for field in structs.fields(kind):
            yield [*place, field.encode_name], tag
            yield from _places(field.type, (*place, field.encode_name), tag)
    else:
        for inner in get_args(kind):
            yield from _places(inner, place, tag)


def _keys(kind: Any) -> list[str]:  # noqa: ANN401
    """All keys of a record and of the records inside it."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        fields = structs.fields(kind)
        return [field.encode_name for field in fields] + [
            key for field in fields for key in _keys(field.type)
        ]
    return [key for inner in get_args(kind) for key in _keys(inner)]
