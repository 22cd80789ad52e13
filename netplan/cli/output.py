"""Where answers go: stdout, or a file that is complete or not there at all."""

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from netplan.files import write_atomically

PLAIN_WIDTH = 80


def emit(text: str, path: Path | None) -> None:
    """Print an answer, or write it to a file.

    Raises
    ------
    InputError
        If the file cannot be written; an older file of that name stays as it was.
    """
    if path is None:
        click.echo(text, nl=False)
    else:
        write_atomically(path, text.encode())


def emit_lines(lines: Iterable[str], path: Path | None) -> None:
    """Print lines as they are made, or write them to a file; errors as :func:`emit`."""
    if path is None:
        for line in lines:
            click.echo(line, nl=not line.endswith("\n"))
    else:
        ended = (line if line.endswith("\n") else line + "\n" for line in lines)
        write_atomically(path, (line.encode() for line in ended))


def terminal_width(path: Path | None) -> tuple[int, bool]:
    """Columns for a table, and whether colours may be used."""
    live = path is None and sys.stdout.isatty()
    if live:
        return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, "NO_COLOR" not in os.environ
    columns = os.environ.get("COLUMNS", "")
    return (int(columns) if columns.isdigit() and int(columns) else PLAIN_WIDTH), False
