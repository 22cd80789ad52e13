"""``netplan offers``."""

from pathlib import Path

import click

from netplan.cli.commands import PATH, command_of
from netplan.cli.output import emit_answer
from netplan.errors import InputError
from netplan.files import write_atomically
from netplan.procurement.offers import Offers
from netplan.procurement.offers_answer import Requested
from netplan.reports.answer import Answer

TEMPLATE = click.Option(
    ["--template"],
    type=PATH,
    metavar="FILE",
    help="Write the request as a spreadsheet (.xlsx) for suppliers to fill in.",
)


def _write(answer: Answer, format_: str, path: Path | None) -> None:
    """Write the request for suppliers, if it is wanted, then the answer.

    Raises
    ------
    InputError
        If there is nothing to ask for, or the file has another ending.
    """
    template: Path | None = click.get_current_context().params["template"]
    if template is not None:
        if not isinstance(answer, Requested):
            raise InputError("--template writes a request: give --gpus and --fabric, and no files")
        if template.suffix.lower() != ".xlsx":
            raise InputError(f"--template {template}: it is a spreadsheet: name it .xlsx")
        write_atomically(template, answer.xlsx())
    emit_answer(answer, format_, path)


command = command_of(Offers, extra=(TEMPLATE,), show=_write)
