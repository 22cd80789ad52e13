"""``netplan export``."""

from pathlib import Path

from netplan.cli.commands import command_of
from netplan.cli.output import emit_lines
from netplan.questions.export import Export, GraphFile


def _write(answer: GraphFile, _format: str, path: Path | None) -> None:
    """Write line by line: a file of a large fabric is larger than memory."""
    emit_lines(answer.lines(), path)


command = command_of(Export, formats=(), show=_write)
