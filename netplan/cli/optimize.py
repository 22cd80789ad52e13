"""``netplan optimize``."""

from netplan.cli.commands import command_of
from netplan.questions.optimize import Optimize

command = command_of(Optimize, short_help="The cheapest and fastest networks, the whole front.")
