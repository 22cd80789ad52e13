"""The ``netplan`` command: it loads a command only when it is called, and fails in one line."""

import gc
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from netplan.added import added
from netplan.cli import signs
from netplan.cli.completion import VARIABLE
from netplan.cli.heartbeat import FIRST_S, Heartbeat
from netplan.errors import NetplanError, one_line
from netplan.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GROUPS = {
    "Start here": {
        "compare": "All fabrics side by side: which to order, money, power, time.",
        "diff": "Two scenarios side by side: bills line by line, power, time.",
        "cost": "The bill of materials: its range, what drives it, cost a year.",
        "faults": "Failures, single ones and years of them: goodput, spares.",
        "init": "A scenario as a file to start from, every field explained.",
    },
    "Plan": {
        "search": "The best parallel plans of a model on a cluster, proven.",
        "serving": "How a cluster answers: TTFT, TPOT, tokens a second.",
        "map": "How the kernels of a model lie on a chip, and how fast.",
        "optimize": "The cheapest and fastest networks: money against time.",
        "grow": "Growth in phases: what to buy when, no cable moved.",
        "sites": "One job over several sites: km, ratio, fibre, losses.",
    },
    "Buy": {
        "report": "Documents to send: the procurement report, a spreadsheet.",
        "offers": "Requests for quotation, and the offers on one.",
        "cables": "The cable plan, port to port; plan against as built.",
        "audit": "What does not add up in somebody's bill or topology.",
    },
    "Understand": {
        "traffic": "Who sends how much to whom in one training iteration.",
        "collective": "How long a collective takes, as measured on such links.",
        "loads": "What every link carries, and bounds of collectives.",
        "congestion": "Flows that share links: slowdown, and what pays.",
        "jobs": "Jobs that come and go: waits, use, and what pays.",
        "simulate": "One iteration event by event: what waits where.",
        "draw": "A fabric as a drawing: loads or failures as colour.",
        "verify": "Published tables and designs against netplan.",
    },
    "Study": {
        "study": "Sensitivity studies, resumable: any input varied.",
        "explore": "What-ifs on a page in the browser.",
    },
    "Yours": {
        "catalog": "List, show and check catalog files, scenarios too.",
        "calibrate": "Your own cluster: kernels, collectives and runs, fitted.",
    },
    "Tools": {
        "export": "A fabric for other tools: GraphML, DOT, ASTRA-sim, Slurm, ...",
        "mcp": "The questions as tools for an agent, over stdin and stdout.",
        "completion": "The Tab key for this shell: commands, options, names.",
        "doctor": "Versions, optional parts, a check of the catalogs.",
    },
}
"""Commands and what each does, by what they are for; those that a newcomer needs come first."""
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
NAME_WIDTH = 10
"""Columns of the longest name of a command [1]."""
NAMES = ("SIGTERM", "SIGHUP")
ENDING = tuple(signal.Signals[name] for name in NAMES if name in signal.Signals.__members__)
"""Signals that end a process in order; Windows has no SIGHUP."""
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


class LazyCommands(click.Group):
    """Commands imported on their first use: a question each, or ``netplan.cli.<name>``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names of all commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in COMMANDS:
            from netplan.cli.commands import command_of

            question = added("netplan.questions").get(cmd_name)
            return command_of(question.load()) if question else None
        from netplan.cli.questions import QUESTION_COMMANDS, make_command

        if cmd_name in QUESTION_COMMANDS:
            return make_command(cmd_name)
        command = import_module(f"netplan.cli.{cmd_name}").command
        return command if isinstance(command, click.Command) else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Names of commands without importing them."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=summary)
            for name, summary in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands for ``--help`` without importing them."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                rows = [(f"{name:<{NAME_WIDTH}}", summary) for name, summary in commands.items()]
                formatter.write_dl(rows)
        formatter.write_paragraph()
        formatter.write_text(
            "Each takes --help. Most take a scenario, as netplan compare nvl72-gb200: a name"
            " (netplan catalog list scenario), or a file of yours (netplan init); hgx-b200 if none"
            " is named."
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; offer the nearest name for a misspelt one."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from netplan.catalog import unknown_name

            known = [*COMMANDS, *added("netplan.questions")]
            if args[0] not in known:
                raise click.UsageError(str(unknown_name("command", args[0], known)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a reader who has left (``| head``) is no failure, as it is to click."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _leave_stdout()
            return None


def _say_version(ctx: click.Context) -> None:
    """Print version and date of the catalogs, and end."""
    from netplan.catalog import shipped_date

    click.echo(f"netplan, version {__version__}, catalogs of {shipped_date()}")
    ctx.exit()


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _say_version(ctx) if asked else None,
    help="Show the version, and the date of the catalogs.",
)
def netplan() -> None:
    """Plan the network of an AI training cluster: fabrics, counts, cost, iteration time."""


def main(first_s: float = FIRST_S) -> None:
    """Be a process: run the command line, show signs of life, end with its exit code.

    Parameters
    ----------
    first_s
        When the first sign of life comes on stderr [s].
    """
    for name, mode in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:  # closed before the start: ``netplan ... >&-``
            # An answer that nobody can get is a failure, a lost remark is none.
            setattr(sys, name, os.fdopen(os.open(os.devnull, mode), "w", encoding="utf-8"))
        getattr(sys, name).reconfigure(errors=signs.NAME)  # a terminal without our signs
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see netplan.__main__
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Who ends the process in order gets what Ctrl-C gets: no file half-written, none left behind.
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup has it ignored
            signal.signal(number, lambda signum, _: sys.exit(128 + signum))
    try:
        Heartbeat.quiet = VARIABLE in os.environ  # the Tab key: the terminal is being typed on
        with Heartbeat(first_s=first_s):
            code = run()
    except KeyboardInterrupt:  # while the heartbeat stopped
        code = EXIT_INTERRUPTED
    # The end of a process searches all that was imported for garbage, a sixth of a comparison.
    gc.freeze()
    sys.exit(code)


# CPython keeps frames in chunks of 16 KiB, and maps and unmaps memory at each call of a loop that
# happens to lie at the end of one: that took a quarter of a comparison. So large a frame takes a
# chunk that holds all others too; what nobody uses of it is never touched.
main.__code__ = main.__code__.replace(co_stacksize=1 << 15)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code: 2 after one clear line if the input is wrong.

    Parameters
    ----------
    arguments
        The words after ``netplan``; those of this process if None.
    """
    try:
        _call(arguments)
    except click.Abort:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _leave_stdout()
    except (click.ClickException, NetplanError, OSError) as error:
        click.echo(f"netplan: {_message(error)}", err=True)
        return EXIT_USER_ERROR
    except MemoryError:
        click.echo("netplan: the memory is full: ask for less at once, or free some", err=True)
        return EXIT_USER_ERROR
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except ImportError as error:
        code = _ended_by(error.__cause__)
        if code is None:
            raise
        return code
    return 0


def _ended_by(cause: BaseException | None) -> int | None:
    """Exit code if a signal came while a library of C++ was loaded, which hides what it raised."""
    if isinstance(cause, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    if isinstance(cause, SystemExit) and isinstance(cause.code, int):
        return cause.code
    return None


def _call(arguments: Sequence[str] | None) -> None:
    """Run one command; a group of commands alone shows its help."""
    try:
        netplan.main(arguments, prog_name="netplan", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    sys.stdout.flush()


def _message(error: click.ClickException | NetplanError | OSError) -> str:
    """Say in one line what is wrong."""
    if isinstance(error, click.UsageError):
        # Where the options of the failed command are listed.
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        # Choices are listed on lines of their own where a needed option is missing.
        text = re.sub(r"\s*\n\s*", " ", error.format_message())
        return one_line(text.rstrip(".")) + hint
    if isinstance(error, click.ClickException):
        return one_line(error.format_message())
    if isinstance(error, OSError):
        if error.filename is None:
            _leave_stdout()
        return one_line(f"{error.filename or 'stdout'}: {error.strerror}")
    return str(error)


def _leave_stdout() -> None:
    """Let what is still unwritten go nowhere, so that the end of the process does not try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
