"""Parts of a scenario describe themselves: their inputs are the Parameters of their docstrings."""

from inspect import cleandoc
from typing import Annotated, Any, get_args, get_origin

from msgspec import Struct, structs

from netplan.inputs.option import Option
from netplan.records import Entry

EXAMPLES = "\n\nExamples\n"


def option_of(kind: Any) -> Option | None:  # noqa: ANN401 - types are values here
    """The option among the facts of a type; None of a struct of further inputs."""
    if get_origin(kind) is not Annotated:
        return None
    return next((fact for fact in get_args(kind)[1:] if isinstance(fact, Option)), None)


class Described(Entry, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A part of a scenario: shown without what it leaves out, documented by its inputs.

    Examples
    --------
    >>> from netplan.scenarios.parts import Books
    >>> Books(prices="rail-only-2023")
    Books(prices='rail-only-2023')
    >>> Books.__doc__.splitlines()[4:6]
    ['prices', '    Price book. [default: 2026]']
    """

    def __init_subclass__(cls, **_: Any) -> None:  # noqa: ANN401 - those of any struct
        """Let the docstring add the inputs when somebody reads it."""
        cls.__doc__ = _Docstring(cls.__doc__ or "")  # type: ignore[assignment]  # read as a text


class _Docstring:
    """The docstring of a struct and its fields; no command pays for it."""

    def __init__(self, text: str) -> None:
        self.text = cleandoc(text)

    def __get__(self, _: object, owner: type[Struct]) -> str:
        """The whole docstring."""
        summary, examples, rest = self.text.partition(EXAMPLES)
        lines = [summary, "", "Parameters", "----------"]
        for field in structs.fields(owner):
            option = option_of(field.type)
            if option is None:
                lines += [field.name, f"    {cleandoc(field.type.__doc__).partition(chr(10))[0]}"]
            else:
                default = option.otherwise or option.shown(field.default)
                lines += [field.name, f"    {option.help}{option.facts(default)}"]
        return "\n".join(lines) + examples + rest
