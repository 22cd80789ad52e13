"""``netplan report``: answers as documents."""

import click

from netplan.cli.commands import command_of
from netplan.cli.questions import FACTS, OUTPUTS
from netplan.procurement.report import Report

command = click.Group(
    "report",
    commands=[command_of(Report, outputs=OUTPUTS["procurement"], **FACTS["procurement"])],
    help="Write a report: one file that opens anywhere and loads nothing.",
)
