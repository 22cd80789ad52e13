"""``netplan report``: answers as documents."""

import click

from netplan.cli.commands import command_of
from netplan.cli.questions import FACTS
from netplan.procurement.report import Report

command = click.Group(
    "report",
    commands=[command_of(Report, **FACTS["procurement"])],
    help="Write a report: one file that opens anywhere and loads nothing.",
)
