"""A page for every command, made from its question class: options, Python keywords, JSON inputs."""

from collections.abc import Iterator
from typing import Any

import click

import netplan
from docs.generators.outputs import folded
from docs.generators.tables import Pages, code, markdown, table
from netplan.cli.main import COMMANDS
from netplan.cli.main import netplan as command_line
from netplan.inputs.option import Option
from netplan.setup.asking import shown_default, summary_of
from netplan.setup.own_inputs import Input
from netplan.setup.question import Question

KINDS = {
    "text": "text",
    "whole": "whole number",
    "real": "number",
    "ratio": "ratio, such as 3:1",
    "quotient": "ratio, such as 4.5:1",
    "percent": "percentage, such as 7%",
    "choice": "choice",
    "flag": "on or off",
    "path": "path",
    "settings": "ROLE.KEY=VALUE",
    "numbers": "NAME=N",
    "size": "bytes, such as 512MiB",
    "batch": "whole number, or 0.25/gpu",
    "whole-or-auto": "whole number, or auto",
    "power": "power, such as 20MW",
    "power-or-share": "power, or a share of it",
    "percent-or-cooling": "percentage, or what cools",
    "amounts": "NAME=X",
    "changes": "NAME=VALUE",
}
SUBJECTS = {"procurement": "report procurement", "calibrate": "calibrate"}
"""Commands of questions whose functions have a shorter name."""

BESIDE = "_option"
"""End of the name of an option for what is usually told by its place."""
HEADS = ("option, keyword", "takes", "meaning")
INDEX = """# Commands

One page a command, made from the classes that the command line, the Python functions, the tools of
`netplan mcp` and the `inputs` of every answer are made from. Options that several commands share
mean the same in all of them. Every command takes `-h`.

"""
SHARED = """
Sources (`--catalog`, `--set`) say where inputs are read from, and are no inputs themselves: an
answer shows what they changed. Names are those of the catalogs (`netplan catalog list`) or paths
to files of your own.
"""


def command_pages() -> Pages:
    """A page a command, and the list of all."""
    names = list(COMMANDS)
    rows = [(f"[`netplan {name}`]({name}.md)", markdown(COMMANDS[name])) for name in names]
    toc = "\n".join(["", "```{toctree}", ":hidden:", "", *names, "```", ""])
    made = {f"commands/{name}.md": _page(name) for name in names}
    return {"commands/index.md": INDEX + table(["command", "answers"], rows) + toc, **made}


def _page(name: str) -> str:
    context = click.Context(command_line, info_name="netplan")
    command = command_line.get_command(context, name)
    return "\n".join(_command(command, f"netplan {name}", level=1)) + "\n" if command else ""


def _command(command: click.Command, title: str, level: int) -> Iterator[str]:
    """A command with its inputs, or a group with its commands."""
    yield f"{'#' * level} {title}\n"
    if isinstance(command, click.Group):
        yield _prose(command.help or "") + "\n"
        for name, one in sorted(command.commands.items()):
            yield from _command(one, f"{title} {name}", level + 1)
        return
    question = questions().get(title.removeprefix("netplan "))
    yield _prose(summary_of(question) if question else command.help or "") + "\n"
    if question and question.examples:
        yield "\n".join(["```console", *map(folded, question.examples), "```", ""])
    yield from _in_python(title.removeprefix("netplan "), question)
    yield f"{'#' * (level + 1)} Inputs\n"
    yield table(HEADS, _rows(command, question))
    if question:
        yield SHARED


def questions() -> dict[str, type[Question[Any]]]:
    """Classes of all questions by their command; all commands are loaded for it.

    What a study alone asks is a question once its study has run, and no command.
    """
    context = click.Context(command_line)
    for name in COMMANDS:
        command_line.get_command(context, name)
    for name in netplan.__all__:
        getattr(netplan, name)
    found: dict[str, type[Question[Any]]] = {}
    for one in _below(Question):
        if "command" not in vars(one) or one.ask is Question.ask:  # of a part of another one
            continue
        package, _, room = one.__module__.partition(".")  # others' are not of this manual
        shipped = package == "netplan" and not room.startswith("published.")
        if shipped or one.command in COMMANDS:
            found.setdefault(SUBJECTS.get(one.command, one.command), one)
    return found


def _below(kind: type[Question[Any]]) -> Iterator[type[Question[Any]]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def _in_python(name: str, question: type[Question[Any]] | None) -> Iterator[str]:
    """How the question is put from Python, where it has a function."""
    function = name.rpartition(" ")[2]
    if question is None or function not in netplan.__all__:
        return
    needed = [one.name for one in question.inputs_known() if one.needed]
    keywords = ", ".join(f"{one}=..." for one in needed) or "..."
    yield (
        f"In Python: `netplan.{function}({keywords})`. Under each option stands its keyword, which"
        " is also its name in the `inputs` of the JSON.\n"
    )


def _rows(command: click.Command, question: type[Question[Any]] | None) -> Iterator[list[str]]:
    """Needed inputs first, sources and the form of the answer last."""
    known = {one.name: one for one in question.inputs_known()} if question else {}
    names = {one.name for one in command.params}

    def name_of(one: click.Parameter) -> str:
        """Name of its input; an option that stands beside an argument has none of its own."""
        name = one.name or ""
        plain = name.removesuffix(BESIDE)
        return name if plain in names else plain

    given = [one for one in command.params if name_of(one) in known]
    given.sort(key=lambda one: not known[name_of(one)].needed)
    if question:
        yield from (_input(one, question, known[name_of(one)]) for one in given)
    yield from (_option(one) for one in command.params if one not in given)


def _input(parameter: click.Parameter, question: type[Question[Any]], known: Input) -> list[str]:
    """Row of an input of the question."""
    option = known.option
    default = "required" if known.needed else shown_default(question, known)
    keyword = code(known.name) + ("" if option.role == "input" else " (source)")
    said = _with_default(option.help, default)
    return [f"{_flags(parameter)}<br>{keyword}", _takes(option), said]


def _with_default(help_: str, default: str) -> str:
    """What an option means, and what holds without it."""
    if default in ("", "required"):
        return markdown(help_) + (" **Required.**" if default else "")
    return f"{markdown(help_)} *Default: {markdown(default)}.*"


def _takes(option: Option) -> str:
    """Kind, unit, range and choices of an input."""
    facts = [", ".join(map(code, option.choices)) if option.choices else KINDS[option.kind]]
    facts += [markdown(option.unit)] if option.unit and option.unit not in facts[0] else []
    if option.low is not None or option.high is not None:
        low = "" if option.low is None else f"from {option.low:,g}"
        high = "" if option.high is None else f"to {option.high:,.0f}"
        facts.append(f"{low} {high}".strip())
    facts += ["repeatable"] if option.many else []
    facts += [f"{option.values} values"] if option.values > 1 else []
    return "; ".join(facts)


def _option(parameter: click.Parameter) -> list[str]:
    """Row of an option that the command line alone has."""
    kind = parameter.type
    takes = ", ".join(map(code, kind.choices)) if isinstance(kind, click.Choice) else kind.name
    flag = isinstance(parameter, click.Option) and parameter.is_flag
    help_ = (parameter.help or "") if isinstance(parameter, click.Option) else ""
    said, _, default = help_.partition("  [default: ")
    default = "required" if parameter.required else default.removesuffix("]")
    return [_flags(parameter), "" if flag else takes, _with_default(said, default)]


def _flags(parameter: click.Parameter) -> str:
    """How a parameter is written."""
    if isinstance(parameter, click.Argument):
        return code((parameter.name or "").upper())
    return " ".join(map(code, [*parameter.opts, *parameter.secondary_opts]))


def _prose(text: str) -> str:
    """A docstring as Markdown, without the examples of a help."""
    return markdown(text.partition("\n\b\n")[0].partition("\b")[0].strip())
