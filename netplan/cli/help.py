"""Help of a question in groups: Cluster, Workload, Books, This question, Output.

``--help`` shows the inputs of the question itself and of each group those that users change most;
the rest is named in a line. ``--help-all`` shows everything.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import click
from msgspec import Struct

from netplan.errors import NetplanError
from netplan.questions.asking import summary_of
from netplan.questions.own_inputs import SCENARIO, Input
from netplan.questions.question import Question
from netplan.scenarios.scenario import Scenario

WIDTH = 80
LINES = 60
"""Lines of ``--help`` at most [1]."""
SCENARIO_HELP = "Its name (netplan catalog list scenario) or file.  [default: hgx-b200]"
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
        for one in given:
            once = isinstance(one, click.Option) and not (one.multiple or one.is_flag)
            if once and sum(other is one for other in given) > 1:
                raise click.UsageError(f"Option '{one.opts[-1]}' is given twice: give it once", ctx)
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
        pieces = [one.make_metavar(ctx) for one in self.params if isinstance(one, click.Argument)]
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
            elif known.workload in ("", kind) or every:
                group = named[known.group]
                if every or known.group == "question" or known.option.basic:
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
    return flags.replace("INTEGER", "N").replace("DECIMAL", "X").replace("TEXT", "NAME"), text


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
    """Whether a command line is about training or serving, as far as it can be told."""
    if question.workload or not question.reads:
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
            return Scenario.load(name).kind
    return "training"


def help_of(question: type[Question[Any]]) -> str:
    """The summary of a question, and its examples on lines of their own."""
    text = summary_of(question).replace("``", "`")
    lines = [f"  {example}" for example in question.examples]
    return "\n".join([text, "", "\b", "Examples:", *lines]) if lines else text
