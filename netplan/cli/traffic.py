"""``netplan traffic``."""

from pathlib import Path

import click

from netplan.cli.commands import PATH, command_of
from netplan.cli.output import emit_answer
from netplan.files import write_atomically
from netplan.questions.traffic import Traffic, TrafficAnswer


def _show(answer: TrafficAnswer, format_: str, path: Path | None) -> None:
    """Write the matrix and the heat map where they were asked for, then the answer."""
    beside = click.get_current_context().params
    if beside["save"] is not None:
        answer.save(beside["save"])
    if beside["heat_map"] is not None:
        write_atomically(beside["heat_map"], answer.heat_page().encode())
    emit_answer(answer, format_, path)


command = command_of(
    Traffic,
    extra=(
        click.Option(["--save"], type=PATH, help="Save the matrix: .npz, or .csv of flows."),
        click.Option(["--heat-map"], type=PATH, help="Write the heat map as an HTML page."),
    ),
    show=_show,
)
