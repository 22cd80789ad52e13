"""``netplan loads``."""

from netplan.cli.commands import command_of
from netplan.questions.loads import Loads

command = command_of(Loads, short_help="What every link carries, the hottest links, the bounds.")
