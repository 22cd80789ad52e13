"""``netplan collective``: the answer, and the trees of an optimum as an MSCCL program."""

from pathlib import Path

import click

from netplan.cli.commands import PATH, command_of
from netplan.cli.output import emit_answer
from netplan.errors import InputError
from netplan.files import write_atomically
from netplan.questions.answers.optimum_answer import OptimumAnswer
from netplan.questions.collective import Collective, CollectiveAnswer

XML = click.Option(
    ["--xml"],
    type=PATH,
    metavar="FILE",
    help="With --graph: write the trees that take the optimum there, as an MSCCL program.",
)


def _write(answer: CollectiveAnswer | OptimumAnswer, format_: str, output: Path | None) -> None:
    """Write the trees, if they are wanted, then the answer."""
    path: Path | None = click.get_current_context().params["xml"]
    if path is not None:
        if not isinstance(answer, OptimumAnswer):
            raise InputError(f"--xml {path}: trees are packed on a graph: give one with --graph")
        write_atomically(path, [line.encode() for line in answer.xml()])
    emit_answer(answer, format_, output)


command = command_of(Collective, extra=(XML,), show=_write)
