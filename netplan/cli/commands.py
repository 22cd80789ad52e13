"""Commands made from question classes: an option an input, then the form of the answer."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from netplan.cli.completers import completer_of
from netplan.cli.help import AskingCommand, help_of
from netplan.cli.output import emit_answer, form_of, require_places, say_form, say_written
from netplan.errors import InputError
from netplan.files import write_atomically
from netplan.inputs.readers import NUMBERS, size
from netplan.questions.asking import shown_default
from netplan.questions.own_inputs import SCENARIO, Input
from netplan.questions.question import Question
from netplan.reports.answer import FORMATS


def text(given: str) -> str:
    """Read a name or a text, which is not empty."""
    if not given.strip():
        raise click.BadParameter("it is empty: give a name, or leave the option out")
    return given


class PathName(click.Path):
    """The path of a file or folder, which is not empty: that would mean the working folder."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """The path of a text."""
        if not str(value).strip():
            self.fail("it is empty: give a path, or leave the option out", param, ctx)
        return super().convert(value, param, ctx)


PATH = PathName(path_type=Path)


def number(kind: str) -> Callable[[str], object]:
    """What reads the text of an option as a number of a kind."""
    reader: Callable[[str], object] = size if kind == "size" else NUMBERS[kind]

    def read(text: str) -> object:
        try:
            return reader(text)
        except InputError as error:
            raise click.BadParameter(str(error)) from None

    read.__name__ = reader.__name__  # which help shows
    return read


FILE_OF_BEFORE = "--output"
"""The flag that named the file of an answer before it came to mean tokens."""


def answer_tokens(text: str) -> object:
    """Read tokens of an answer; of a path the message says which flag writes files."""
    try:
        return NUMBERS["whole"](text)
    except InputError as error:
        raise click.BadParameter(f"{error}: a file is written with -o FILE") from None


TYPES: dict[str, Any] = {
    **{kind: number(kind) for kind in NUMBERS},
    "text": text,
    "size": number("size"),
    "path": PATH,
    "settings": str,
    "numbers": str,
    "amounts": str,
    "changes": str,
    "batch": str,
}

Show = Callable[[Any, str, Path | None], None]


class Beside(NamedTuple):
    """What a command writes beside its answer: the option that names the file, and what it holds.

    ``make`` gives the content for a path, or None if it has written what there is itself.
    """

    option: click.Option
    make: Callable[[Any, Path], bytes | Iterable[bytes] | None]


def command_of(  # noqa: PLR0913 - what a command may have beyond its question
    question: type[Question[Any]],
    *,
    formats: Sequence[str] = FORMATS,
    unsaid: str = "",
    beside: Sequence[Beside] = (),
    extra: Sequence[click.Option] = (),
    before: Callable[[Mapping[str, Any]], bool] | None = None,
    show: Show | None = None,
    scenario_first: bool = False,
) -> click.Command:
    """Make the command of a question; of ``catalog list`` it is ``list`` in the group ``catalog``.

    Parameters
    ----------
    question
        The class; its docstring is the help.
    formats
        Forms of the answer; the first is the default, but for a file whose name says another. None
        if ``show`` knows a single one.
    unsaid
        What form an answer has if none is asked for, where ``show`` decides: it gets an empty one.
    beside
        Further files to write; all are made before one is written.
    extra
        Other options, which are no inputs of the question.
    before
        Looks at all that is given before the question is asked; True if that was all there is.
    show
        Writes the answer, from answer, format and path; as text, JSON, … if absent.
    scenario_first
        Whether the scenario stands before the arguments of the question.
    """
    others = [*(one.option for one in beside), *extra]
    names = {option.name for option in others}
    files = [
        one.option.name
        for one in beside
        if isinstance(one.option.type, click.Path) and one.option.type.file_okay
    ]

    def run(**given: Any) -> None:  # noqa: ANN401 - values of all options
        if before is not None and before(given):
            return
        format_, path = given.pop("format_", None) or "", given.pop("output_file")
        given.pop("details", None)  # which the text reads from the context
        if formats and (format_ or not unsaid):
            format_ = form_of(format_, path, formats)
        asked = {
            name: value
            for name, value in given.items()
            if name not in names and value is not None and value != ()
        }
        places = {name: given[name] for name in (*files, "store") if name in given}
        require_places(format_, output_file=path, **places)
        named = asked.pop("scenario_option", None)
        if named is not None and asked.setdefault(SCENARIO, named) != named:
            raise InputError(f"{asked[SCENARIO]} and --scenario {named}: name one scenario")
        answer = question.on(**asked).ask()
        wanted = [(given[one.option.name], one.make) for one in beside if given[one.option.name]]
        for place, content in [(place, make(answer, place)) for place, make in wanted]:
            if content is not None:
                write_atomically(place, content)
        (show or emit_answer)(answer, format_, path)
        if format_:
            say_form(format_, path)
        say_written(answer, path, filter(None, map(given.get, files)))
        if answer.exit_code:
            sys.exit(answer.exit_code)

    known = question.inputs_known()
    made = [(one, option_of(question, one)) for one in known if one.name != SCENARIO]
    arguments = [option for one, option in made if one.option.argument]
    scenario = _scenario_options(known)
    options = [option for one, option in made if not one.option.argument]
    parameters = [*scenario[:1], *arguments, *scenario[1:]] if scenario_first else []
    parameters = parameters or [*arguments, *scenario]
    return AskingCommand(
        question.command.rpartition(" ")[2],
        callback=run,
        params=[*parameters, *options, *others, *answer_options(formats, unsaid)],
        help=help_of(question),
        short_help=sentence_of(question.__doc__),
        question=question,
        groups={one.name: one for one in known},
    )


def _scenario_options(known: Sequence[Input]) -> list[click.Parameter]:
    """Where the scenario is named: as an argument, where no other takes its place; as an option."""
    option = next((one.option for one in known if one.name == SCENARIO), None)
    if option is None:
        return []
    complete = completer_of(SCENARIO)
    made: list[click.Parameter] = [
        click.Option(
            ["--scenario", "scenario_option"],
            type=text,
            metavar=option.metavar,
            help=f"{option.help}  [default: {option.otherwise}]",
            shell_complete=complete,
        )
    ]
    if not any(one.option.argument and one.option.many for one in known):
        argument = click.Argument([SCENARIO], type=text, required=False, shell_complete=complete)
        made.insert(0, argument)
    return made


def sentence_of(text: str | None) -> str:
    """The first line of a docstring, which lists of commands show whole.

    Examples
    --------
    >>> sentence_of("Finish the study in STORE.\\n\\n    What is there stays.")
    'Finish the study in STORE.'
    """
    return (text or "").strip().partition("\n")[0]


def option_of(question: type[Question[Any]], known: Input) -> click.Parameter:
    """The option of one input, or its argument."""
    option, name = known.option, known.name
    completer = completer_of(name)
    if option.argument:
        count = -1 if option.many else 1
        return click.Argument(
            [name],
            type=TYPES[option.kind],
            nargs=count,
            required=known.needed,
            shell_complete=completer,
        )
    flag = option.flag_of(name)
    default = shown_default(question, known)
    said = f"{option.help}  [default: {default}]" if default else option.help
    if option.kind == "flag" and "/" in flag:
        return click.Option([flag, name], default=None, help=said)
    if option.kind == "flag":
        off = flag.startswith("--no-")
        return click.Option([flag, name], is_flag=True, flag_value=not off, default=None, help=said)
    kind = click.Choice(option.choices) if option.kind == "choice" else TYPES[option.kind]
    kind = answer_tokens if flag == FILE_OF_BEFORE else kind
    return click.Option(
        [flag, name],
        type=kind,
        multiple=option.many,
        nargs=option.values,
        required=known.needed,
        metavar=option.metavar or None,
        help=said,
        shell_complete=completer,
    )


def answer_options(formats: Sequence[str], unsaid: str = "") -> list[click.Option]:
    """Form and file of the answer; ``unsaid`` as in :func:`command_of`."""
    output = click.Option(
        ["-o", "--output-file", "output_file"],
        type=PATH,
        metavar="FILE",
        # A dash means stdout, as it does elsewhere.
        callback=lambda _, __, path: None if path == Path("-") else path,
        help="Write to a file, not stdout.",
    )
    if not formats:
        return [output]
    form = click.Option(
        ["--format", "format_"],
        type=click.Choice(formats),
        help=f"Form of the answer.  [default: {unsaid or f'as FILE ends, or {formats[0]}'}]",
    )
    details = click.Option(
        ["--details"], is_flag=True, help="All tables and notes, not only the answer."
    )
    return [form, output, details]
