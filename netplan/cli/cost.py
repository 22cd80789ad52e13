"""``netplan cost``."""

from netplan.cli.commands import command_of
from netplan.questions.cost import Cost

command = command_of(Cost, short_help="Bill of materials, price range, drivers, yearly cost.")
