"""``netplan report``: answers as documents."""

import sys
from pathlib import Path

import click

from netplan.cli.commands import PATH, command_of
from netplan.cli.output import emit_answer
from netplan.errors import InputError
from netplan.files import write_atomically
from netplan.procurement.report import Report
from netplan.procurement.report_answer import Procurement

XLSX = click.Option(["--xlsx"], type=PATH, help="Write the spreadsheet here, too.")
FORMATS = ("html", "json", "table", "csv", "markdown", "xlsx")


def _write(answer: Procurement, format_: str, output: Path | None) -> None:
    """Write the report, and the spreadsheet beside it if it is wanted.

    Raises
    ------
    InputError
        If a page would go to a terminal.
    """
    sheet: Path | None = click.get_current_context().params["xlsx"]
    if format_ == "html" and output is None and sys.stdout.isatty():
        raise InputError("a report is no text for a terminal: say where it goes with -o FILE")
    # Both are made before either is written: a report that fails leaves no half behind.
    made = answer.xlsx() if sheet is not None else b""
    if sheet is not None:
        write_atomically(sheet, made)
    emit_answer(answer, format_, output)


command = click.Group(
    "report",
    commands=[command_of(Report, formats=FORMATS, extra=(XLSX,), show=_write)],
    help="Write a report: one file that opens anywhere and loads nothing.",
)
