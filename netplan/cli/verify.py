"""``netplan verify``."""

from netplan.cli.commands import command_of
from netplan.published.verify import Verify

command = command_of(Verify, short_help="Published tables and designs against netplan.")
