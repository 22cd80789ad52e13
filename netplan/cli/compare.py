"""``netplan compare``."""

from netplan.cli.commands import command_of
from netplan.questions.compare import Compare

command = command_of(Compare, short_help="All fabrics side by side.")
