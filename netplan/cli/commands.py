"""Commands made from question classes: an option an input, then the form of the answer.

Help comes in groups: Cluster, Workload, Books, This question, Output. ``--help`` shows the inputs
of the question itself and of each group those that users change most; the rest is named in a line.
``--help-all`` shows everything.
"""

import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from netplan.cli.completion import completer_of
from netplan.cli.output import emit_answer, form_of, require_places, say_form, say_written
from netplan.errors import InputError, NetplanError
from netplan.files import write_atomically
from netplan.inputs.readers import NUMBERS, size
from netplan.reports.answer import FORMATS
from netplan.scenarios.scenario import Scenario
from netplan.setup.asking import shown_default, summary_of
from netplan.setup.own_inputs import SCENARIO, Input
from netplan.setup.question import Question

WIDTH = 80
LINES = 62
"""Lines of ``--help`` at most [1]."""
SCENARIO_HELP = "Name (catalog list scenario) or file.  [default: hgx-b200]"
SELDOM = ("scenario_option",)
"""Options that ``--help-all`` alone shows."""
EXAMPLES = 2
"""Examples that ``--help`` shows [1]."""
FLAGS_WIDTH = 26
TITLES = {
    "cluster": "Cluster",
    "workload": "Workload",
    "books": "Books",
    "question": "This question",
}
ALL = "netplan.help_all"
KIND = "netplan.workload"


class Strict(click.Command):
    """A command that takes an option of one value once: of two, nobody knows which is meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look which options are given how often, then go on as click does."""
        try:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
        except click.NoSuchOption as error:
            if error.option_name != "--output":  # as -o was called before
                raise
            what = "No such option '--output': a file is written with -o FILE"
            raise click.NoSuchOption("--output", what, ctx=ctx) from None
        for option in given:
            once = isinstance(option, click.Option) and not (option.multiple or option.is_flag)
            if once and sum(other is option for other in given) > 1:
                raise click.UsageError(
                    f"Option '{option.opts[0]}' is given twice: give it once", ctx
                )
        return super().parse_args(ctx, args)


class AskingCommand(Strict):
    """The command of a question.

    Parameters
    ----------
    question
        Its class.
    groups
        Its inputs, by the names of their parameters.
    """

    def __init__(
        self,
        name: str,
        *,
        question: type[Question[Any]],
        groups: Mapping[str, Input],
        **facts: Any,  # noqa: ANN401 - as click has them
    ) -> None:
        super().__init__(name, **facts)
        self.question, self.groups = question, groups
        if question.inputs_known():
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_show_all,
                    help="Show every option and exit.",
                )
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find out what the help is to be about before it is shown."""
        ctx.meta[KIND] = _workload_of(self.question, args)
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line: the scenario, then options."""
        pieces = [
            parameter.make_metavar(ctx)
            for parameter in self.params
            if isinstance(parameter, click.Argument)
        ]
        formatter.write_usage(ctx.command_path, " ".join([*pieces, "[OPTIONS]"]))

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What is asked, and examples."""
        text, _, examples = (self.help or "").partition("\n\b\n")
        if not ctx.meta.get(ALL):
            text = text.strip().partition("\n\n")[0]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text)
            lines = examples.splitlines()
            shown = lines if ctx.meta.get(ALL) else lines[: EXAMPLES + 1]
            if shown:
                formatter.write_paragraph()
                formatter.write_text("\b\n" + "\n".join(shown))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options by group, in full where the screen has lines left: the question's own first."""
        every = bool(ctx.meta.get(ALL))
        groups = [*self._groups(ctx, every=every)]
        free = (
            LINES - formatter.getvalue().count("\n") - sum(len(group.lines()) for group in groups)
        )
        for group in sorted(groups, key=lambda group: group.title != TITLES["question"]):
            for row in sorted(group.rows, key=lambda row: len(_lines(*row))):
                more = len(_lines(*row)) - 1
                if every or more <= free:
                    group.whole.add(row)
                    free -= more
        formatter.write("".join(f"{line}\n" for group in groups for line in group.lines()))

    def _groups(self, ctx: click.Context, *, every: bool) -> Iterator["_Group"]:
        """The options of each group, and the names of those that are left out."""
        kind = ctx.meta.get(KIND, "training")
        rest: list[click.Parameter] = []
        named: dict[str, _Group] = {group: _Group(title) for group, title in TITLES.items()}
        for parameter in self.get_params(ctx):
            known = self.groups.get(parameter.name or "")
            if known is None or known.option.role == "source":
                rest.append(parameter)
            elif not known.workloads or kind in known.workloads or every:
                group = named[known.group]
                foremost = known.option.basic or known.name in self.question.foremost
                if every or known.group == "question" or foremost:
                    group.rows.append(_row(ctx, parameter, known))
                else:
                    group.more.append(parameter.opts[0].removeprefix("--"))
        if SCENARIO in self.groups and self.question.reads:
            named["cluster"].rows.insert(0, (SCENARIO.upper(), SCENARIO_HELP))
        yield from named.values()
        output = _Group("Output")
        for parameter in rest:
            record = parameter.get_help_record(ctx)
            argument = isinstance(parameter, click.Argument)
            if record and not argument and (every or parameter.name not in SELDOM):
                output.rows.append((record[0], record[1]))
        if not every and self.question.inputs_known():  # of two lines one is left for what is asked
            output.rows[-2:] = [("-h, --help, --help-all", "Show this, or every option, and exit.")]
        yield output


class _Group(Struct):
    """Options of one group: flags and what they mean, and the names of others."""

    title: str
    rows: list[tuple[str, str]] = []
    more: list[str] = []
    whole: set[tuple[str, str]] = set()
    """Rows that take as many lines as they need; each other one is cut to its first."""

    def lines(self) -> list[str]:
        """The group for a terminal."""
        if not self.rows and not self.more:
            return []
        lines = ["", f"{self.title}:"]
        for row in self.rows:
            lines += _lines(*row) if row in self.whole else [_line(*row)]
        names = f"more: {' '.join(self.more)}" if self.more else ""
        wrapped = textwrap.wrap(names, WIDTH - 2, break_on_hyphens=False)
        return [*lines, *(f"  {line}" for line in wrapped)]


def _row(ctx: click.Context, parameter: click.Parameter, known: Input) -> tuple[str, str]:
    """Flag of an option, and what it means; choices that are many stand behind that."""
    record = parameter.get_help_record(ctx)
    flags, text = record or ("", "")
    if isinstance(parameter, click.Argument):
        return (parameter.name or "").upper(), known.option.help
    if isinstance(parameter.type, click.Choice) and len(flags) > FLAGS_WIDTH:
        text, _, default = text.partition("  [default: ")
        flags = parameter.opts[0]
        text = f"{text.rstrip('.')}: {', '.join(known.option.choices)}."
        text += f"  [default: {default}" if default else ""
    short = flags.replace("INTEGER", "N").replace("DECIMAL", "X")
    return short if known.option.metavar else short.replace("TEXT", "NAME"), text


def _lines(flags: str, text: str) -> list[str]:
    """An option and what it means."""
    wrapped = textwrap.wrap(text.replace("  [default: ", " ["), WIDTH - 4 - FLAGS_WIDTH) or [""]
    if len(flags) > FLAGS_WIDTH:
        if len(f"  {flags}  {' '.join(wrapped)}") <= WIDTH:
            return [f"  {flags}  {' '.join(wrapped)}"]
        wrapped.insert(0, "")
    first, *others = wrapped
    indented = (f"  {'':<{FLAGS_WIDTH}}  {line}" for line in others)
    return [f"  {flags:<{FLAGS_WIDTH}}  {first}".rstrip(), *indented]


def _line(flags: str, text: str) -> str:
    """An option and the beginning of what it means: its default is left out before words are."""
    width = WIDTH - 4 - max(len(flags), FLAGS_WIDTH)
    text = text.replace("  [default: ", " [")
    if len(text) > width:
        text = textwrap.shorten(text.rpartition(" [")[0] or text, width, placeholder=" ...")
    return f"  {flags:<{FLAGS_WIDTH}}  {text}"


def _show_all(ctx: click.Context, _: click.Parameter, given: bool) -> None:  # noqa: FBT001 - click's
    """Print the help with every option."""
    if not given or ctx.resilient_parsing:
        return
    ctx.meta[ALL] = True
    click.echo(ctx.get_help(), color=ctx.color)
    ctx.exit()


def _workload_of(question: type[Question[Any]], args: Sequence[str]) -> str:
    """What a command line is about, such as training or serving, as far as it can be told."""
    if not question.reads or not (question.takes("post-training") or question.takes("serving")):
        return question.workload or "training"
    words = [*args, ""]
    for word, after in pairwise(words):
        if word == "--workload":
            return after
        if word.startswith("--workload="):
            return word.partition("=")[2]
    named = [after for word, after in pairwise(words) if word == "--scenario"]
    first = [args[0]] if args and not args[0].startswith("-") else []
    for name in (*named, *first):
        with suppress(NetplanError):
            kind = Scenario.load(name).kind
            return kind if question.takes(kind) else question.workload
    return question.workload or "training"


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
    "whole-or-auto": str,
    "power": str,
    "power-or-share": str,
    "percent-or-cooling": str,
}

Show = Callable[[Any, str, Path | None], None]


Beside = tuple[click.Option, Callable[[Any, Path], bytes | Iterable[bytes] | None]]
"""What a command writes beside its answer: the option that names the file, and what it holds.

The latter gives the content for a path, or None if it has written what there is itself.
"""


def command_of(  # noqa: PLR0913 - what a command may have beyond its question
    question: type[Question[Any]],
    *,
    formats: Sequence[str] = FORMATS,
    unsaid: str = "",
    outputs: Sequence[Beside] = (),
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
        Forms of the answer; the first is the default, but for a file whose name says another.
        Empty if ``show`` knows a single one.
    unsaid
        What form an answer has if none is asked for, where ``show`` decides: it gets an empty one.
    outputs
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
    others = [*(option for option, _ in outputs), *extra]
    names = {option.name for option in others}
    files = [
        option.name
        for option, _ in outputs
        if isinstance(option.type, click.Path) and option.type.file_okay
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
        about = question.make(**asked)
        if about.footprint and about.footprint.noted:
            click.echo(f"netplan: {about.footprint.text}", err=True)
        answer = about.answer()
        cautions = getattr(answer, "cautions", ())  # which an answer in text says itself
        warnings = dict.fromkeys((*about.cautions, *cautions))
        shown = cautions if not path and format_ == "table" else ()
        for caution in (words for words in warnings if words not in shown):
            click.echo(f"netplan: {caution}", err=True)
        wanted = [(given[option.name], make) for option, make in outputs if given[option.name]]
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
    made = [(entry, click_option(question, entry)) for entry in known if entry.name != SCENARIO]
    arguments = [option for entry, option in made if entry.option.argument]
    scenario = _scenario_options(known)
    options = [option for entry, option in made if not entry.option.argument]
    parameters = [*scenario[:1], *arguments, *scenario[1:]] if scenario_first else []
    parameters = parameters or [*arguments, *scenario]
    lines = [f"  {example}" for example in question.examples]
    examples = ["", "\b", "Examples:", *lines] if lines else []
    return AskingCommand(
        question.command.rpartition(" ")[2],
        callback=run,
        params=[*parameters, *options, *others, *answer_options(formats, unsaid)],
        help="\n".join([summary_of(question).replace("``", "`"), *examples]),
        short_help=sentence_of(question.__doc__),
        question=question,
        groups={entry.name: entry for entry in known},
    )


def _scenario_options(known: Sequence[Input]) -> list[click.Parameter]:
    """Where the scenario is named: as an argument, where no other takes its place; as an option."""
    option = next((entry.option for entry in known if entry.name == SCENARIO), None)
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
    if not any(entry.option.argument and entry.option.many for entry in known):
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


def click_option(question: type[Question[Any]], known: Input) -> click.Parameter:
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
    line = f"{option.help}  [default: {default}]" if default else option.help
    if option.kind == "flag" and "/" in flag:
        return click.Option([flag, name], default=None, help=line)
    if option.kind == "flag":
        off = flag.startswith("--no-")
        return click.Option([flag, name], is_flag=True, flag_value=not off, default=None, help=line)
    kind = click.Choice(option.choices) if option.kind == "choice" else TYPES[option.kind]
    kind = answer_tokens if flag == FILE_OF_BEFORE else kind
    olds = [old for old in option.aliases if old not in question.older]
    before = [f"--{old.replace('_', '-')}" for old in olds]
    return click.Option(
        [flag, *(old for old in before if old != flag), name],
        type=kind,
        multiple=option.many,
        nargs=option.values,
        required=known.needed,
        metavar=option.metavar or None,
        help=line,
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
