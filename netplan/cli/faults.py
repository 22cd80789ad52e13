"""``netplan faults``."""

from netplan.cli.commands import command_of
from netplan.questions.faults import Faults

command = command_of(Faults, short_help="Failures: single, your own, years of them.")
