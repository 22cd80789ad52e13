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

from netplan.errors import NetplanError
from netplan.questions.asking import summary_of
from netplan.questions.own_inputs import Input
from netplan.questions.question import Question
from netplan.scenarios.scenario import Scenario

WIDTH = 80
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
        _, _, given = self.make_parser(ctx).parse_args(list(args))
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
        """Options by group."""
        every, kind = bool(ctx.meta.get(ALL)), ctx.meta.get(KIND, "training")
        rest: list[click.Parameter] = []
        named: dict[str, list[click.Parameter]] = {title: [] for title in TITLES}
        for parameter in self.get_params(ctx):
            known = self.groups.get(parameter.name or "")
            if known is None or known.option.role == "source":
                rest.append(parameter)
            elif every or known.workload in ("", kind):
                named[known.group].append(parameter)
        for group, parameters in named.items():
            self._write_group(ctx, formatter, (TITLES[group], parameters), every=every)
        rows = [row for one in rest if (row := one.get_help_record(ctx))]
        _write(formatter, "Output", rows, every=every)

    def _write_group(
        self,
        ctx: click.Context,
        formatter: click.HelpFormatter,
        group: tuple[str, Sequence[click.Parameter]],
        *,
        every: bool,
    ) -> None:
        """The options of a group, and the names of those that are left out."""
        title, parameters = group
        own = title == TITLES["question"]
        shown: list[click.Parameter] = []
        others: list[click.Parameter] = []
        for one in parameters:
            basic = self.groups[one.name or ""].option.basic
            (shown if every or own or basic else others).append(one)
        rows = [row for one in shown if (row := one.get_help_record(ctx))]
        more = " ".join(one.opts[0].removeprefix("--") for one in others)
        _write(formatter, title, rows, every=every, more=more)


def _write(
    formatter: click.HelpFormatter,
    title: str,
    rows: Sequence[tuple[str, str]],
    *,
    every: bool,
    more: str = "",
) -> None:
    """One group: a line an option, of ``--help-all`` as many as it needs."""
    if not rows and not more:
        return
    formatter.write(f"\n{title}:\n")
    for flags, said in rows:
        formatter.write("".join(_lines(flags, said, every=every)))
    if more:
        wrapped = textwrap.wrap(f"more: {more}", WIDTH - 2, break_on_hyphens=False)
        formatter.write("".join(f"  {line}\n" for line in wrapped))


def _lines(flags: str, said: str, *, every: bool) -> Iterator[str]:
    """An option and what it means, cut to one line where not everything is shown."""
    flags = flags.replace(", --", " --") if len(flags) > FLAGS_WIDTH else flags
    text = said.replace("  [default:", " [")
    room = WIDTH - FLAGS_WIDTH - 4
    if len(flags) > FLAGS_WIDTH:
        room = max(20, WIDTH - len(flags) - 4)
    lines = textwrap.wrap(text, room) or [""]
    if not every and len(lines) > 1:
        head = textwrap.wrap(text.partition(" [")[0], room)
        lines = head if len(head) == 1 else [textwrap.shorten(text, room, placeholder=" ...")]
    yield f"  {flags:<{FLAGS_WIDTH}}  {lines[0]}\n"
    yield from (f"  {'':<{FLAGS_WIDTH}}  {line}\n" for line in lines[1:])


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
