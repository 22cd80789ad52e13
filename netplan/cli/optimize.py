"""``netplan optimize``."""

from pathlib import Path
from typing import Any

import click

from netplan.cli.commands import command_of, into_folder
from netplan.cli.output import emit_answer, say
from netplan.errors import InputError
from netplan.questions.optimize import Optimize
from netplan.questions.optimizing.front import Optimization


def _show(answer: Optimization, format_: str, path: Path | None) -> None:
    """Write the graphs that were found where they were asked for, then the answer."""
    beside = click.get_current_context().params
    if beside["into"] is not None and answer.graphs is not None:
        for file in answer.graphs.write(beside["into"], force=beside["force"]):
            say(f"wrote {file}")
    emit_answer(answer, format_, path)


asking = command_of(Optimize, extra=into_folder("graphs of the front"), show=_show)


def _run(**given: Any) -> None:  # noqa: ANN401 - values of all options
    """Ask the question; without a search there is nothing to write."""
    if given["into"] is not None and given["searched"] != "graphs":
        raise InputError("--into DIR takes graphs that were found: ask with --search graphs")
    click.get_current_context().invoke(ASK, **given)


ASK = asking.callback or _run
asking.callback = _run
command = asking
