"""Commands made from question classes: an option an input, then the form of the answer."""

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

import click

from netplan.cli.completion import completer_of
from netplan.cli.output import emit_answer, form_of, require_places, say_form
from netplan.errors import InputError
from netplan.questions.question import Option, Question, options_of, shown_default, summary_of
from netplan.questions.readers import NUMBERS, size
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


def into_folder(what: str) -> tuple[click.Option, click.Option]:
    """Options that name a catalog folder to write into, and let files there be replaced."""
    folder = click.Option(
        ["--into"],
        type=PathName(path_type=Path, file_okay=False),
        metavar="DIR",
        help=f"Write {what} into this catalog folder.",
    )
    return folder, click.Option(["--force"], is_flag=True, help="Replace files that are there.")


def _file_or_stdout(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """The file of an answer; a dash means stdout, as it does elsewhere."""
    return None if path == Path("-") else path


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


TYPES: dict[str, Any] = {
    **{kind: number(kind) for kind in NUMBERS},
    "text": text,
    "size": number("size"),
    "path": PATH,
    "settings": str,
    "numbers": str,
}

Show = Callable[[Any, str, Path | None], None]


def command_of(
    question: type[Question[Any]],
    *,
    formats: Sequence[str] = FORMATS,
    unsaid: str = "",
    extra: Sequence[click.Option] = (),
    show: Show | None = None,
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
    extra
        Further files to write; ``show`` reads them from the context.
    show
        Writes the answer, from answer, format and path; as text, JSON, … if absent.
    """
    names = {option.name for option in extra}
    files = [one.name for one in extra if isinstance(one.type, click.Path) and one.type.file_okay]

    def run(**given: Any) -> None:  # noqa: ANN401 - values of all options
        format_, path = given.pop("format_", None) or "", given.pop("output_file")
        if formats and (format_ or not unsaid):
            format_ = form_of(format_, path, formats)
        asked = {
            name: value
            for name, value in given.items()
            if name not in names and value is not None and value != ()
        }
        beside = {name: given[name] for name in (*files, "store") if name in given}
        require_places(format_, output=path, **beside)
        answer = question(**asked).ask()
        (show or emit_answer)(answer, format_, path)
        if format_:
            say_form(format_, path)
        if answer.exit_code:
            sys.exit(answer.exit_code)

    options = [option_of(question, one, option) for one, option in options_of(question)]
    taken = [flag for one in options for flag in one.opts]
    return Strict(
        question.command.rpartition(" ")[2],
        callback=run,
        params=[*options, *extra, *answer_options(formats, unsaid, taken)],
        help=help_of(question),
        short_help=sentence_of(question.__doc__),
    )


def sentence_of(text: str | None) -> str:
    """The first line of a docstring, which lists of commands show whole.

    Examples
    --------
    >>> sentence_of("Finish the study in STORE.\\n\\n    What is there stays.")
    'Finish the study in STORE.'
    """
    return (text or "").strip().partition("\n")[0]


class Strict(click.Command):
    """A command that takes an option of one value once: of two, nobody knows which is meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look which options are given how often, then go on as click does."""
        if "output" in (one.name for one in self.params):
            args = [*_files_apart(args)]
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for one in given:
            once = isinstance(one, click.Option) and not (one.multiple or one.is_flag)
            if once and sum(other is one for other in given) > 1:
                raise click.UsageError(f"Option '{one.opts[-1]}' is given twice: give it once", ctx)
        return super().parse_args(ctx, args)


def _files_apart(args: Sequence[str]) -> Iterator[str]:
    """Arguments in which ``--output`` means tokens alone: files have letters, and an end or a path.

    >>> [*_files_apart(["--output", "a.json", "--output", "256", "--output=./b"])]
    ['--output-file', 'a.json', '--output', '256', '--output-file=./b']
    >>> [*_files_apart([])]
    []
    """
    for one, after in zip(args, [*args, ""][1:], strict=True):
        flag, _, value = one.partition("=")
        text = value or after
        path = any(map(str.isalpha, text)) and bool({".", "/", os.sep} & {*text})
        yield one.replace(flag, "--output-file", 1) if flag == "--output" and path else one


def help_of(question: type[Question[Any]]) -> str:
    """The summary of a question, and its examples on lines of their own."""
    text = summary_of(question).replace("``", "`")
    lines = [f"  {example}" for example in question.examples]
    return "\n".join([text, "", "\b", "Examples:", *lines]) if lines else text


def option_of(question: type[Question[Any]], one: Field[Any], option: Option) -> click.Parameter:
    """The option of one input, or its argument."""
    needed = one.default is MISSING and one.default_factory is MISSING
    completer = completer_of(one.name)
    if option.argument:
        count = -1 if option.many else 1
        return click.Argument(
            [one.name],
            type=TYPES[option.kind],
            nargs=count,
            required=needed,
            shell_complete=completer,
        )
    flag = option.flag or "--" + one.name.replace("_", "-")
    default = shown_default(question, one, option)
    said = f"{option.help}  [default: {default}]" if default else option.help
    if option.kind == "flag" and "/" in flag:
        return click.Option([flag, one.name], default=None, help=said)
    if option.kind == "flag":
        off = flag.startswith("--no-")
        return click.Option(
            [flag, one.name], is_flag=True, flag_value=not off, default=None, help=said
        )
    kind = click.Choice(option.choices) if option.kind == "choice" else TYPES[option.kind]
    return click.Option(
        [flag, one.name],
        type=kind,
        multiple=option.many,
        nargs=option.values,
        required=needed,
        metavar=option.metavar or None,
        help=said,
        shell_complete=completer,
    )


def answer_options(
    formats: Sequence[str], unsaid: str = "", taken: Collection[str] = ()
) -> list[click.Option]:
    """Form and file of the answer; ``unsaid`` as in :func:`command_of`.

    Where ``--output`` is ``taken`` by an input, the file has the short option and a longer one.
    """
    long = "--output-file" if "--output" in taken else "--output"
    output = click.Option(
        ["-o", long, "output_file"],
        type=PATH,
        metavar="FILE",
        callback=_file_or_stdout,
        help="Write to a file, not stdout.",
    )
    if not formats:
        return [output]
    form = click.Option(
        ["--format", "format_"],
        type=click.Choice(formats),
        help=f"Form of the answer.  [default: {unsaid or f'as FILE ends, or {formats[0]}'}]",
    )
    return [form, output]
