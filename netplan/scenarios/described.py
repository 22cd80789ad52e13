"""Parts of a scenario describe themselves: what is known of their fields, in type and docstring.

Their inputs are the Parameters of their docstrings, and whoever makes one in Python is told what is
wrong as whoever writes a file is.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import Signature, cleandoc
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct, StructMeta, ValidationError, convert, structs

from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.inputs.option import Kind, Option
from netplan.records import Entry

EXAMPLES = "\n\nExamples\n"


KINDS: Mapping[type, Kind] = {bool: "flag", int: "whole", float: "real"}
"""Kinds of inputs whose type says it."""


class Typed(Option, frozen=True):
    """What is known of an input whose type says its kind, which words it may be, and its range.

    A range of its own, such as one that begins above 0, is said beside the type.
    """


def option_of(kind: Any) -> Option | None:  # noqa: ANN401 - types are values here
    """The option among the facts of a type; None of a struct of further inputs."""
    if get_origin(kind) is not Annotated:
        return None
    option = next((fact for fact in get_args(kind)[1:] if isinstance(fact, Option)), None)
    return _typed(kind, option) if isinstance(option, Typed) else option


@cache
def _typed(kind: Any, option: Typed) -> Option:  # noqa: ANN401 - types are values here
    """An option with the kind, the words and the range of its type."""
    (plain,) = {alternative for alternative in _alternatives(kind) if alternative is not type(None)}
    facts = structs.asdict(option)
    if option.low is None and option.high is None:
        facts["low"], facts["high"] = range_of(kind)
    if get_origin(plain) is Literal:
        words = get_args(plain)
        plain = type(words[0])
        facts["choices"] = option.choices or (words if plain is str else ())
    return Option(**facts | {"kind": KINDS.get(plain, "choice")})


def _alternatives(kind: Any) -> Iterator[Any]:  # noqa: ANN401 - types are values here
    """The plain types that a type allows, those of the entries of a tuple."""
    origin = get_origin(kind)
    if origin in (Annotated, tuple):
        yield from _alternatives(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for inner in get_args(kind):
            yield from _alternatives(inner)
    else:
        yield kind


def range_of(kind: Any) -> tuple[float | None, float | None]:  # noqa: ANN401 - types are values here
    """Least and largest value that a type allows, where it says so."""
    low = high = None
    for fact in get_args(kind)[1:] if get_origin(kind) is Annotated else ():
        if isinstance(fact, Meta):
            low, high = fact.ge, fact.le
    for inner in get_args(kind):
        if low is None and high is None:
            low, high = range_of(inner)
    return low, high


class Named(StructMeta):
    """Makes structs that say which fields there are: constructors, docstrings and signatures."""

    @property
    def __doc__(cls) -> str:  # type: ignore[override]  # noqa: N805 - no command pays for it
        """What a class says of itself; a part of a scenario its inputs, too."""
        text = cleandoc(cls.__dict__["__doc__"] or "")
        return _with_inputs(cls, text) if issubclass(cls, Described) else text

    @property
    def __signature__(cls) -> Signature:  # noqa: N805
        """How one is made; what is known of an input stands in the docstring."""
        places = super().__signature__.parameters.values()
        return Signature([place.replace(annotation=place.empty) for place in places])

    def __call__(cls, *places: Any, **given: Any) -> Any:  # noqa: ANN401, N805 - of any struct
        """A struct with these values."""
        known = cls.__struct_fields__
        if places:
            raise InputError(f"{cls.__name__} takes no value by its place: name it, as {known[0]}=")
        for name in given:
            if name not in known:
                raise unknown_name(f"input of {cls.__name__}", name, known)
        try:
            made = super().__call__(**given)
        except ValueError as error:
            raise InputError(str(error)) from None
        if isinstance(made, Described):
            _check_fields(made)
        return made


class Described(Entry, frozen=True, kw_only=True, repr_omit_defaults=True, metaclass=Named):
    """A part of a scenario: shown without what it leaves out, documented by its inputs.

    Raises
    ------
    UnknownNameError
        If there is no such input; the message offers the nearest ones.
    InputError
        If a value is not allowed.

    Examples
    --------
    >>> from netplan.scenarios.parts import Books
    >>> Books(prices="rail-only-2023")
    Books(prices='rail-only-2023')
    >>> Books.__doc__.splitlines()[4:6]
    ['prices', '    Price book. [default: 2026]']
    """


def _check_fields(part: Described) -> None:
    """Refuse values that no file could have, either.

    Only of parts that are made by hand: flags and keywords of questions are checked by what builds
    networks and plans, which says more than a range.
    """
    for name, kind, default, many in _typed_fields(type(part)):
        value = getattr(part, name)
        if value is default:
            continue
        plain = getattr(value, "tolist", lambda value=value: value)()  # numpy's as Python's
        try:
            read = convert((plain,) if many and isinstance(plain, str) else plain, kind)
        except ValidationError as error:
            reason = str(error).replace("`", "")
            raise InputError(f"{name} {value!r:.60}: {reason[0].lower()}{reason[1:]}") from None
        if read is not value:
            structs.force_setattr(part, name, read)


@cache
def _typed_fields(kind: type[Struct]) -> tuple[tuple[str, Any, Any, bool], ...]:
    """Name, type and default of the fields of a struct, and whether they take several values."""
    return tuple(
        (field.name, field.type, field.default, getattr(option_of(field.type), "many", False))
        for field in structs.fields(kind)
    )


def _with_inputs(kind: type[Struct], text: str) -> str:
    """A docstring with the inputs of a part as its parameters."""
    summary, examples, rest = text.partition(EXAMPLES)
    lines = [summary, "", "Parameters", "----------"]
    for field in structs.fields(kind):
        option = option_of(field.type)
        if option is None:
            lines += [field.name, f"    {cleandoc(field.type.__doc__).partition(chr(10))[0]}"]
        else:
            default = option.otherwise or option.shown(field.default)
            lines += [field.name, f"    {option.help}{option.facts(default)}"]
    return "\n".join(lines) + examples + rest


def read_with(reader: Callable[[str], object], given: str, name: str = "") -> object:
    """What a reader reads; what it refuses is refused by a ValueError as records have it."""
    try:
        return reader(given)
    except InputError as error:
        raise ValueError(f"{name}{error}") from None
