"""``netplan calibrate``."""

from pathlib import Path
from typing import Any

import click

from netplan.cli.commands import command_of, into_folder
from netplan.cli.help import Strict
from netplan.cli.output import emit, emit_answer, say, say_file
from netplan.questions.answers.calibrate_answer import Calibrated
from netplan.questions.calibrate import TEMPLATES, Calibrate
from netplan.units import counted


def _show(answer: Calibrated, format_: str, path: Path | None) -> None:
    """Write the catalog files where they were asked for, then the answer."""
    beside = click.get_current_context().params
    if beside["into"] is not None:
        for file in answer.write(beside["into"], force=beside["force"]):
            say(f"wrote {file}")
    else:
        files = counted(len(answer.files), "file")
        say(f"nothing is written: --into DIR writes {files}")
    emit_answer(answer, format_, path)


fitting = command_of(Calibrate, extra=into_folder("the files"), show=_show)


def _run(template: str | None, **given: Any) -> None:  # noqa: ANN401 - values of all options
    """Print a table to fill in, or ask the question."""
    if template is None:
        click.get_current_context().invoke(fitting, **given)
    else:
        emit(TEMPLATES[template], given["output_file"])
        say_file(given["output_file"])


command = Strict(
    fitting.name,
    callback=_run,
    params=[
        *fitting.params,
        click.Option(
            ["--template"], type=click.Choice(list(TEMPLATES)), help="Print a table to fill in."
        ),
    ],
    help=fitting.help,
    short_help=fitting.short_help,
)
