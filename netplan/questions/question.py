"""A question is a frozen dataclass: each input stands there once.

Name, type, unit, range, default and help of an input are one field. Click options, keywords of
Python, documentation, study axes and the ``inputs`` of an answer are made from the fields. Defaults
that several questions share stand in one catalog file, `reports/defaults.yaml`.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, ParamSpec, TypeVar, cast

from msgspec import Struct

from netplan.catalog import shipped_root, unknown_name, user_roots
from netplan.documents import read_yaml
from netplan.errors import CatalogError, InputError
from netplan.questions.readers import read_pairs, read_settings, read_value, split_names
from netplan.questions.setup.inputs import Ports, sizing_on
from netplan.records import LARGEST as LARGEST_REAL
from netplan.reports.answer import Answer
from netplan.topologies.fabric import Sizing
from netplan.topologies.own.functions import register_fabric
from netplan.workloads.accelerators import Accelerator

AnswerT_co = TypeVar("AnswerT_co", bound=Answer, covariant=True)
QuestionT = TypeVar("QuestionT", bound="Question[Any]")
P = ParamSpec("P")

Kind = Literal[
    "text",
    "whole",
    "real",
    "ratio",
    "percent",
    "choice",
    "flag",
    "path",
    "settings",
    "numbers",
    "size",
]
DEFAULTS = "reports/defaults.yaml"
COMMON = "common"
TAKES_FUNCTIONS = ("fabric", "fabrics")
"""Inputs that take a function of Python: a fabric whose graph it makes."""
OPTION = "option"
LARGEST = 10**12
"""Largest whole number of an input that allows no larger one: 64 bits hold its products."""


class Option(Struct, frozen=True):
    """What is known of one input beside its name and type.

    Its kind says how a text is read: ``whole`` (32,768), ``real``, ``ratio`` (3:1), ``percent``
    (7%), ``size`` (512MiB, or a range), ``text`` (a name or a path to a file), ``choice``,
    ``flag``, ``path``, ``settings`` (ROLE.KEY=VALUE), ``numbers`` (NAME=N). Its flag is made from
    the name if empty; one that begins with ``--no-`` turns the input off. An argument is told by
    its place, not by a flag. ``low`` and ``high`` are both allowed; ``otherwise`` says what holds
    if nothing is given and no default says it, such as ``the accelerator's``; a shared default
    stands in the defaults file; ``values`` counts what follows the flag. A ``source`` is where
    inputs are read from, and none itself.
    """

    help: str
    kind: Kind = "text"
    flag: str = ""
    many: bool = False
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    otherwise: str = ""
    shared: bool = False
    role: Literal["input", "source"] = "input"
    argument: bool = False
    values: int = 1


def required(help_: str, kind: Kind = "text", **facts: Any) -> Any:  # noqa: ANN401 - a field of any type
    """An input that has to be given; an argument needs no keyword."""
    option = Option(help_, kind, **facts)
    return field(metadata={OPTION: option}, kw_only=not option.argument)


def optional(help_: str, kind: Kind = "text", *, default: object = None, **facts: Any) -> Any:  # noqa: ANN401
    """An input with a default of its own: nothing, unless said otherwise."""
    option = Option(help_, kind, **facts)
    return field(default=default, metadata={OPTION: option}, kw_only=not option.argument)


def several(help_: str, kind: Kind = "text", **facts: Any) -> Any:  # noqa: ANN401
    """An input that can be given several times, or not at all."""
    return optional(help_, kind, default=(), many=True, **facts)


def absent() -> Any:  # noqa: ANN401
    """An input of other questions that this one does not take."""
    return field(default=None, init=False)


def shared(help_: str, kind: Kind = "text", **facts: Any) -> Any:  # noqa: ANN401
    """An input whose default stands in the defaults file; None asks for that."""
    return field(default=None, metadata={OPTION: Option(help_, kind, shared=True, **facts)})


@dataclass(frozen=True, kw_only=True)
class Question(Generic[AnswerT_co]):
    """A question: inputs in, a declared answer out.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.
    """

    command: ClassVar[str]
    """Name of its command, and of its part in the defaults file."""

    examples: ClassVar[tuple[str, ...]] = ()
    """Commands that its help shows."""

    catalog: str | Path | None = optional(
        "Your own catalog folder; it goes before ours.", metavar="DIR", role="source"
    )
    overrides: Mapping[str, str] | None = optional(
        "Replace one catalog value, such as accelerator.memory_bytes=96e9.",
        "settings",
        flag="--set",
        metavar="ROLE.KEY=VALUE",
        many=True,
        role="source",
    )

    def __post_init__(self) -> None:
        """Fill in defaults of the defaults file, read texts as the command line does, check."""
        layers: tuple[Mapping[str, object], ...] = ()
        for one, option in options_of(type(self)):
            if option.shared and getattr(self, one.name) is None:
                layers = layers or _layers(self.command, self.catalog)
                value = _first(layers, self.command, one.name)
                object.__setattr__(self, one.name, value)
            value = getattr(self, one.name)
            value = getattr(value, "tolist", lambda value=value: value)()  # numpy's as Python's
            if value is None and one.default is not MISSING:
                object.__setattr__(self, one.name, one.default)
            elif value != one.default:
                read = _read(one.name, option, value)
                object.__setattr__(self, one.name, read)
                _check_size(one.name, option, read)

    def ask(self) -> AnswerT_co:
        """Answer the question."""
        raise NotImplementedError

    @classmethod
    def names(cls, workload: str = "training") -> frozenset[str]:  # noqa: ARG003 - of those that know
        """Inputs that mean something on a cluster that trains, or serves."""
        return frozenset(one.name for one in fields(cls))

    def part(
        self,
        kind: "type[QuestionT]",
        *,
        apart: Sequence[str] = (),
        **given: Any,  # noqa: ANN401 - inputs of any type
    ) -> "QuestionT":
        """Another question with the inputs that it shares with this one, some apart or given."""
        workload = getattr(self, "workload", "training")
        mine = self.names(workload) - {*apart, *given}
        shared = kind.names(workload) & mine
        return kind(**{name: getattr(self, name) for name in shared}, **given)

    def refuse(self, names: Collection[str], who: str) -> None:
        """Refuse inputs that are not at their defaults, since they mean nothing for someone.

        Raises
        ------
        InputError
            If one of them is given.
        """
        for one, option in options_of(type(self)):
            if one.name not in names:
                continue
            given, shared_ = getattr(self, one.name), option.shared
            usual = default_of(self.command, one.name, self.catalog) if shared_ else one.default
            if given not in (usual, {}):
                flag = option.flag or "--" + one.name.replace("_", "-")
                raise InputError(f"{spelled(flag, given)} means nothing for {who}: leave it out")

    def inputs(self, **resolved: object) -> dict[str, object]:
        """The inputs as the answer shows them, with what was filled in or made whole, by name."""
        own = {
            one.name: getattr(self, one.name)
            for one, option in options_of(type(self))
            if option.role == "input"
        }
        plain = {name: list(one) if isinstance(one, tuple) else one for name, one in own.items()}
        return plain | resolved


def spelled(flag: str, given: object) -> str:
    """An option as it is written on a command line.

    >>> spelled("--fix", {"tensor": 2}), spelled("--lm-head", True), spelled("--no-overlap", False)
    ('--fix tensor=2', '--lm-head', '--no-overlap')
    """
    if isinstance(given, Mapping):
        given = tuple(f"{name}={number}" for name, number in given.items())
    if isinstance(given, tuple):
        return " ".join([flag, *map(str, given)])
    return flag if isinstance(given, bool) else f"{flag} {given}"


def _read(name: str, option: Option, value: Any) -> object:  # noqa: ANN401 - of any kind
    """A value as the input that it means; texts as the command line has them."""
    if option.kind == "settings":
        return read_settings(value)
    if option.kind == "numbers":
        return read_pairs(option.flag, value)
    several = option.many or option.values > 1
    alone = not several or isinstance(value, (str, Path)) or not isinstance(value, Iterable)
    values = (value,) if alone else value
    if name in TAKES_FUNCTIONS:
        values = tuple(register_fabric(one) if callable(one) else one for one in values)
    try:
        found = tuple(read_value(option.kind, one) for one in values)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if option.values > 1 and len(found) != option.values:
        raise InputError(f"{name}: give {option.values}, got {len(found)}")
    if option.many and option.kind == "text" and not option.metavar:
        found = tuple(one for words in found for one in split_names(str(words)))
    unknown = [one for one in found if one not in option.choices]
    if option.choices and unknown:
        flag = option.flag or "--" + name.replace("_", "-")
        raise InputError(f"unknown {flag} {unknown[0]!r:.40}: use {', '.join(option.choices)}")
    return found if several else found[0]


def _check_size(name: str, option: Option, value: object) -> None:
    """Refuse numbers whose sums and products nothing can hold, before anything counts with them."""
    if option.kind in ("real", "ratio", "percent") and isinstance(value, int | float):
        if LARGEST_REAL < abs(value) < inf:
            flag = option.flag or "--" + name.replace("_", "-")
            raise InputError(f"{flag} {value:g} is out of range: give a number to {LARGEST_REAL:g}")
        return
    if option.kind not in ("whole", "numbers"):
        return
    largest = max(LARGEST, int(option.high or 0))
    values = value.values() if isinstance(value, Mapping) else value
    for one in values if isinstance(values, Iterable) else (values,):
        if isinstance(one, int) and abs(one) > largest:
            digits = f"{one:,}" if abs(one) <= LARGEST**2 else "so large a number"
            flag = option.flag or "--" + name.replace("_", "-")
            allowed = f"to {int(option.high or LARGEST):,}"
            low = f"from {option.low:,g} " if option.low is not None else ""
            raise InputError(f"{flag} {digits} is out of range: give a number {low}{allowed}")


def check_ranges(question: "Question[Any]") -> None:
    """Refuse numbers outside of the ranges of their inputs.

    Raises
    ------
    InputError
        If one is.
    """
    for one, option in options_of(type(question)):
        value = getattr(question, one.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        low = -inf if option.low is None else option.low
        high = inf if option.high is None else option.high
        if not low <= value <= high:
            flag = option.flag or "--" + one.name.replace("_", "-")
            allowed = f"from {low:,g}" + (f" to {high:,.0f}" if high < inf else "")
            raise InputError(f"{flag} {value:,} is out of range: give a number {allowed}")


Fields = tuple[tuple[Field[Any], Option], ...]
_FIELDS: dict[int, Fields] = {}


def options_of(question: type[Question[Any]]) -> Fields:
    """Fields of a question with their options; those of every question come last."""
    found = _FIELDS.get(id(question))
    if found is None:
        given = [one for one in fields(question) if OPTION in one.metadata]
        known = [(one, cast("Option", one.metadata[OPTION])) for one in given]
        found = tuple(sorted(known, key=lambda pair: pair[1].role == "source"))
        _FIELDS[id(question)] = found
    return found


def default_of(command: str, name: str, catalog: str | Path | None = None) -> object:
    """Default of an input: the question's own, else the common one; a user's file goes first.

    Raises
    ------
    CatalogError
        If a user's file has a name that no input has.

    Examples
    --------
    >>> default_of("compare", "model"), default_of("search", "top")
    ('gpt-1t', 5)
    """
    return _first(_layers(command, catalog), command, name)


def _first(layers: Sequence[Mapping[str, object]], command: str, name: str) -> object:
    for values in layers:
        if name in values:
            return values[name]
    raise InputError(f"{DEFAULTS} has no default of {name} for netplan {command}")


def _layers(command: str, catalog: str | Path | None) -> tuple[Mapping[str, object], ...]:
    """Defaults of a question, those that go first: of a user's files, then of ours."""
    found = []
    for root in (*user_roots(catalog), shipped_root()):
        path = root / DEFAULTS
        if path.is_file():
            known = _defaults(path, path.stat().st_mtime_ns)
            found += [known[part] for part in (command, COMMON) if part in known]
    return tuple(found)


@cache
def _defaults(path: Path, version: int) -> dict[str, dict[str, object]]:  # noqa: ARG001 - of the key
    """A defaults file, checked: values by input, for all questions or one."""
    document = read_yaml(path)
    shipped = shipped_root() / DEFAULTS
    ours = document.data if path == shipped else _defaults(shipped, shipped.stat().st_mtime_ns)
    known = {name: value for defaults in ours.values() for name, value in defaults.items()}
    for part, values in document.data.items():
        at = f"{path}:{document.line([part])}"
        if part not in ours:
            raise CatalogError(f"{at}: {unknown_name('command', str(part), list(ours))}")
        if not isinstance(values, dict):
            raise CatalogError(f"{at}: {part}: expected inputs and their values")
        for name, value in values.items():
            at = f"{path}:{document.line([part, name])}"
            if name not in known:
                raise CatalogError(f"{at}: {unknown_name('input', str(name), sorted(known))}")
            if type(value) is not type(known[name]):
                raise CatalogError(f"{at}: {name} {value!r}: {_wanted(known[name], value)}")
    return document.data


def _wanted(known: object, value: object) -> str:
    """What a default has to be, for a value that is something else."""
    if isinstance(known, float):
        return f"give a number, such as {known}"
    if isinstance(known, int):
        return f"give a whole number, such as {known}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"write it in quotes: '{value}'" if number else f"give a text, such as '{known}'"


def asks(question: Callable[P, Question[AnswerT_co]]) -> Callable[P, AnswerT_co]:
    """Make the function that asks a question, with its inputs as keywords.

    Name, signature and docstring come from the class, so that an input stands once.
    """
    kind = cast("type[Question[Any]]", question)

    def ask(*args: P.args, **keywords: P.kwargs) -> AnswerT_co:
        return question(*args, **keywords).ask()

    ask.__name__ = ask.__qualname__ = kind.command.replace(" ", "_")
    ask.__module__ = kind.__module__
    signature = inspect.signature(kind)
    answer = kind.ask.__annotations__.get("return", signature.empty)
    ask.__signature__ = signature.replace(return_annotation=answer)  # type: ignore[attr-defined]
    ask.__doc__ = "\n".join(documentation(kind))
    return ask


def summary_of(question: type[Question[Any]]) -> str:
    """The docstring of a question up to its first section."""
    text = inspect.getdoc(question) or ""
    return text.partition("\n\nExamples\n")[0].partition("\n\nRaises\n")[0].rstrip()


def documentation(question: type[Question[Any]]) -> Iterator[str]:
    """A docstring in numpydoc form: summary, every input with unit, range and default."""
    yield summary_of(question)
    yield from ("", "Parameters", "----------")
    for one, option in options_of(question):
        yield f"{one.name}"
        yield f"    {option.help}{facts_of(question, one, option)}"


def facts_of(question: type[Question[Any]], one: Field[Any], option: Option) -> str:
    """Unit, range, choices and default of an input, in brackets."""
    facts = [option.unit] if option.unit else []
    if option.low is not None or option.high is not None:
        low = "" if option.low is None else f"from {option.low:,g}"
        high = "" if option.high is None else f"to {option.high:,.0f}"
        facts.append(f"{low} {high}".strip())
    if option.choices:
        facts.append(", ".join(option.choices))
    default = shown_default(question, one, option)
    facts += [f"default: {default}"] if default else []
    return f" [{'; '.join(facts)}]" if facts else ""


def shown_default(question: type[Question[Any]], one: Field[Any], option: Option) -> str:
    """Default of an input in words; empty if it must be given or is off."""
    if option.shared:
        known = default_of(question.command, one.name)
        return f"{known:.0%}" if option.kind == "percent" else str(known)
    if option.otherwise:
        return option.otherwise
    value = one.default
    if isinstance(value, bool) or value in (MISSING, None, (), ""):
        return ""  # 0 and 1 are numbers like others
    return f"{value:.0%}" if option.kind == "percent" else str(value)


@dataclass(frozen=True, kw_only=True)
class GpusQuestion(Question[AnswerT_co]):
    """Inputs of all questions about so many GPUs."""

    gpus: int = required("GPUs in the cluster.", "whole", unit="GPUs", low=8, high=4_194_304)
    accelerator: str = shared("On which GPU.")
    ports: Ports = optional(
        "Links of a torus or BCube: shared (one port's rate, split) or full (a port each).",
        "choice",
        default="shared",
        choices=("shared", "full"),
    )


@dataclass(frozen=True, kw_only=True)
class ClusterQuestion(GpusQuestion[AnswerT_co]):
    """Inputs of all questions about one cluster: its GPUs, HB domains and switches."""

    radix: int = required("Ports per switch.", "whole", unit="ports", low=4, high=1024)
    hb_size: int | None = optional(
        "GPUs per HB domain.", "whole", unit="GPUs", low=1, otherwise="the accelerator's"
    )
    oversubscription: float | None = optional(
        "Down over up at Clos leaves, such as 3:1.", "ratio", low=1
    )

    def sized(self, on: Accelerator) -> Sizing:
        """The cluster of such GPUs."""
        return sizing_on(
            on,
            gpus=self.gpus,
            radix=self.radix,
            hb_size=self.hb_size,
            oversubscription=self.oversubscription,
            ports=self.ports,
        )
