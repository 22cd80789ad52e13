"""``netplan diff``: the scenario stands before the one that is laid beside it."""

import click

from netplan.cli.commands import command_of
from netplan.questions.diff import Diff

command = command_of(Diff)
_arguments = [one for one in command.params if isinstance(one, click.Argument)]
_options = [one for one in command.params if not isinstance(one, click.Argument)]
command.params = [*reversed(_arguments), *_options]
