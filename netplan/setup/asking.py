"""The function of a question: its name, signature and documentation are made from the class."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING
from functools import cache, wraps
from importlib import import_module
from typing import Any, TypeVar, cast

from netplan import QUESTIONS
from netplan.catalog import unknown_name
from netplan.setup.own_inputs import SCENARIO, Input, default_of
from netplan.setup.question import AnswerT_co, Question

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def function_of(question: type[Question[AnswerT_co]]) -> Callable[..., AnswerT_co]:
    """Make the function that asks a question, with its inputs as keywords.

    Name, signature and docstring come from the class, so that an input stands once.
    """

    def ask(*arguments: Any, **given: Any) -> AnswerT_co:  # noqa: ANN401 - inputs of any type
        return question.make(*arguments, **given).answer()

    ask.__name__ = ask.__qualname__ = question.command.replace(" ", "_")
    ask.__module__ = question.__module__
    ask.__signature__ = signature_of(question)  # type: ignore[attr-defined]
    ask.__doc__ = "\n".join(documentation(question))
    return ask


@cache
def question_class(name: str) -> type[Question[Any]]:
    """The class of a question, loaded when it is first asked.

    Parameters
    ----------
    name
        That of its function, or of a part of a command.

    Returns
    -------
    type
        The class.

    Examples
    --------
    >>> question_class("compare").command
    'compare'
    """
    home, _, kind = QUESTIONS[name].partition(":")
    question: type[Question[Any]] = getattr(import_module(f"netplan.{home}"), kind)
    return question


def known_keywords(function: FunctionT) -> FunctionT:
    """Let a function that is no question refuse unknown keywords as questions do."""
    known = [*inspect.signature(function).parameters]

    @wraps(function)
    def checked(*arguments: Any, **given: Any) -> Any:  # noqa: ANN401 - those of the function
        for name in given:
            if name not in known:
                raise unknown_name(f"input of {function.__name__}", name, known)
        return function(*arguments, **given)

    return cast("FunctionT", checked)


def signature_of(question: type[Question[Any]]) -> inspect.Signature:
    """Signature of the function of a question: what is told by its place, then keywords."""
    known = question.inputs_known()
    answer = question.ask.__annotations__.get("return", inspect.Signature.empty)
    places = [asked for asked in known if asked.option.argument or asked.name == SCENARIO]
    keywords = [asked for asked in known if asked not in places]
    shown = []
    for asked, kind in (
        *((asked, inspect.Parameter.POSITIONAL_OR_KEYWORD) for asked in places),
        *((asked, inspect.Parameter.KEYWORD_ONLY) for asked in keywords),
    ):
        default = inspect.Parameter.empty if asked.needed else asked.default
        shown.append(inspect.Parameter(asked.name, kind, default=default))
    shown.sort(key=lambda slot: (slot.kind, slot.kind.value < 3 and slot.default is not slot.empty))  # noqa: PLR2004
    return inspect.Signature(shown, return_annotation=answer)


def summary_of(question: type[Question[Any]]) -> str:
    """The docstring of a question up to its first section."""
    text = inspect.getdoc(question) or ""
    return text.partition("\n\nExamples\n")[0].partition("\n\nRaises\n")[0].rstrip()


def documentation(question: type[Question[Any]]) -> Iterator[str]:
    """A docstring in numpydoc form: summary, every input with unit, range and default."""
    yield summary_of(question)
    yield from ("", "Parameters", "----------")
    for known in question.inputs_known():
        yield f"{known.name}"
        yield f"    {known.option.help}{facts_of(question, known)}"
    answer = question.ask.__annotations__.get("return")
    yield from ("", "Returns", "-------", getattr(answer, "__name__", str(answer)))
    yield "    ``.to_dict()`` is the JSON of the command, ``.to_frame()`` its first table."
    yield from ("", "Raises", "------", "NetplanError")
    yield "    If an input is not allowed; the message says what is."


def facts_of(question: type[Question[Any]], known: Input) -> str:
    """Unit, range, choices and default of an input, in brackets."""
    return known.option.facts(shown_default(question, known))


def shown_default(question: type[Question[Any]], known: Input) -> str:
    """Default of an input in words; empty if it must be given or is off."""
    option, value = known.option, known.default
    if option.shared:
        value = default_of(question.command, known.name)
    elif option.otherwise and (value is None or isinstance(value, tuple)):
        return option.otherwise
    return "" if value is MISSING else option.shown(value)
