"""``netplan draw``."""

from netplan.cli.commands import command_of
from netplan.questions.draw import SVG_FORMATS, Draw

command = command_of(Draw, formats=SVG_FORMATS)
