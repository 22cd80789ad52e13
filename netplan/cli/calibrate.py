"""``netplan calibrate``."""

from pathlib import Path

import click

from netplan.cli.commands import command_of
from netplan.cli.output import emit, emit_answer, say
from netplan.questions.calibrate import TEMPLATES, Calibrate
from netplan.questions.calibrate_answer import Calibrated


def _show(answer: Calibrated, format_: str, path: Path | None) -> None:
    """Write the catalog files where they were asked for, then the answer."""
    beside = click.get_current_context().params
    if beside["into"] is not None:
        for file in answer.write(beside["into"], force=beside["force"]):
            say(f"wrote {file}")
    else:
        say(f"nothing is written: --into DIR writes {len(answer.files)} files")
    emit_answer(answer, format_, path)


def _template(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Print a table to fill in, and nothing else."""
    if value is not None:
        emit(TEMPLATES[value], ctx.params.get("output"))
        ctx.exit()


command = command_of(
    Calibrate,
    extra=(
        click.Option(
            ["--into"],
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Write the files into this catalog folder.",
        ),
        click.Option(["--force"], is_flag=True, help="Replace files that are there."),
        click.Option(
            ["--template"],
            type=click.Choice(list(TEMPLATES)),
            expose_value=False,
            callback=_template,
            help="Print a CSV table to fill in.",
        ),
    ),
    show=_show,
)
