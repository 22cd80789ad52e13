"""``netplan audit``."""

from netplan.cli.commands import command_of
from netplan.questions.audit import AuditFile

command = command_of(AuditFile, short_help="What does not add up in somebody's bill or topology.")
