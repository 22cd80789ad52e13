"""``netplan diff``: the scenario stands before the one that is laid beside it."""

import click

from netplan.cli.commands import command_of
from netplan.questions.diff import Diff

command = command_of(Diff)
_arguments = [known for known in command.params if isinstance(known, click.Argument)]
_options = [known for known in command.params if not isinstance(known, click.Argument)]
command.params = [*reversed(_arguments), *_options]
