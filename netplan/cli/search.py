"""``netplan search``."""

from netplan.cli.commands import command_of
from netplan.questions.search import Search

command = command_of(Search, short_help="The best parallel plans, proven optimal.")
